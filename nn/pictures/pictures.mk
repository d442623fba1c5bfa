# Folders of pictures: a library of its own, with the libraries of formats that there are. PICTURES= leaves it
# out; the program stride has its code in any case, and says which library it would need.

PICTURE_FLAGS = $(eval PICTURE_FLAGS := $(call has,libpng,-DSTRIDE_PNG) \
                  $(call has,libturbojpeg,-DSTRIDE_JPEG) \
                  $(patsubst -I%,-isystem %,$(call ask,--cflags,libpng) \
                  $(call ask,--cflags,libturbojpeg)))$(PICTURE_FLAGS)
PICTURE_LIBS  = $(eval PICTURE_LIBS := $(call ask,--libs,libpng) \
                  $(call ask,--libs,libturbojpeg))$(PICTURE_LIBS)
has           = $(shell $(PKG_CONFIG) --exists $1 2>/dev/null && echo $2)
PICTURES     ?= $(eval PICTURES := $(if $(filter -DSTRIDE_%,$(PICTURE_FLAGS)),1))$(PICTURES)

PICTURES_HEADERS := nn/pictures/pictures.h
picture_users     = nn_pictures_image tests_pictures_test_pictures tests_fuzz_fuzz_picture
$(foreach f,$(picture_users),$(eval CFLAGS_$f = $$(PICTURE_FLAGS)))

PICTURES_float  := stride-pictures
PICTURES_double := stride-pictures-double
lib_pictures     = $(OUT)/$1/lib$(PICTURES_$1).a
shared_pictures  = $(OUT)/$1/$(call so,$(PICTURES_$1),$(VERSION))
of_pictures      = $(if $(PICTURES),$(call lib_pictures,$p) $(call shared_pictures,$p))

define picture_rules
$(call lib_pictures,$1): $(PICTURES_CORE:%.c=$(OUT)/$1/%.o)
	$$(archive)
$(call shared_pictures,$1): $(PICTURES_CORE:%.c=$(OUT)/$1/%.o) $(call shared,$1)
	$$(call link_shared,$(PICTURES_$1),-L$$(@D) -l$(NAME_$1) $$(PICTURE_LIBS) $$(call ask,--libs,zlib,-lz))
endef
$(foreach p,float double,$(eval $(call picture_rules,$p)))
