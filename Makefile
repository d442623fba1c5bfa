# Stride. `make help` lists the targets, with what each is for.
#
# Both precisions stand in one graph: build/float/… and build/double/… mirror the folders, and
# PRECISION says which of them `make` and `make NAME` mean. A sanitizer's build has a tree of its own,
# build/address-undefined/float/… The variables below may be set from outside, and so may CC, CPPFLAGS,
# LDFLAGS, ARCH (-march=native, say) and V=1, which shows the commands.
#
#   make O=DIR ...              build in DIR, which may be outside the source tree, as BUILD=DIR does
#   make PRECISION=double ...   lib, programs and the programs' own targets in double
#   make CC=clang ARCH=-march=native CPPFLAGS=-I... LDFLAGS=-L... V=1 ...
#   make CROSS_COMPILE=aarch64-linux-gnu- ...
#                               CC, AR and, where there is one, pkg-config have this in front; without a
#                               pkg-config of its own, CPPFLAGS and LDFLAGS say where that machine's libraries
#                               are; RUN=qemu-aarch64, say, lets make install run the program that it installs
#   make MPI=1 ...              libstride-mpi besides, and in install, and what is built with it
#   make PICTURES= ...          no libstride-pictures, which is built where libpng or TurboJPEG is installed
#   make install PREFIX=DIR     also BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR, and DESTDIR to stage them

VERSION    := $(shell awk '$$2 == "ST_VERSION" { gsub(/"/, "", $$3); print $$3 }' stride.h)
PRECISION  ?= float
SANITIZE   ?=
BUILD      ?= $(if $(filter command%,$(origin O)),$(O),build)
CROSS_COMPILE ?=
ARCH       :=
CFLAGS     ?= $(if $(SANITIZE),-O1 -g1,-O3 -fno-math-errno -fno-trapping-math -g) $(ARCH)
# Where debuggers find few variables, or a sanitizer's reports are read, functions and lines are enough: two thirds to
# four fifths of the time to compile.
SHORT_DEBUG = $(and $(filter -O3,$(CFLAGS)),$(filter -g,$(CFLAGS)),-g1)
# No warning about members that an initializer leaves out (they are zero), nor about loops that stay scalar,
# nor about the indentation of what macros become, about which gcc 11 is wrong, nor, where clang 19 has begun to
# warn, about numbers of an enumeration in floating-point arithmetic.
WARNINGS   ?= -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
              -Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wwrite-strings -Wvla -Wundef \
              -Wno-missing-field-initializers -Wno-pass-failed -Wno-misleading-indentation$(if \
              $(findstring clang,$(CC)), -Wno-enum-float-conversion)

.SUFFIXES .DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
.PHONY: all FORCE
all:

# Make cannot name files with spaces in their paths.
SPACED := $(or $(if $(word 2,x$(CURDIR)),$(CURDIR)),$(if $(word 2,x$(BUILD)),$(BUILD)))
$(if $(SPACED),$(error "$(SPACED)": expected no spaces in the paths of sources and build))

ifneq ($(CROSS_COMPILE),)
CC := $(CROSS_COMPILE)gcc
AR := $(CROSS_COMPILE)ar
PKG_CONFIG ?= $(if $(shell command -v $(CROSS_COMPILE)pkg-config),$(CROSS_COMPILE)pkg-config,false)
endif
PKG_CONFIG ?= pkg-config

quoted = '$(subst ','\'',$1)'
comma := ,
say = $(if $(V),,@echo '  $1  $(@:$(BUILD)/%=%)';)
include tests/tools/deps.mk
# A job for each processor, where make was not told how many to run.
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN))
# `make deps mnist`: deps come first, also with -j, and the rest starts make anew, so that it finds what
# was installed. Several targets run in their order, as they do without deps.
first := $(filter deps deps-%,$(MAKECMDGOALS))
rest  := $(filter-out $(first),$(MAKECMDGOALS))

ifneq ($(and $(first),$(rest)),)
.PHONY: $(rest) rest
$(rest): rest ; @:
rest: $(first) ; @$(MAKE) $(if $(word 2,$(rest)),,$(jobs)) $(rest)
else

$(if $(filter float double,$(PRECISION)),,$(error PRECISION=$(PRECISION): expected float or double))

# ---- sources and places: of one precision, $1 ----------------------------------------------------

OUT      := $(BUILD)$(if $(SANITIZE),/$(subst $(comma),-,$(SANITIZE)))
ROOT     := $(abspath $(OUT))
# The folders within those of the core; nn/pictures/ is a library of its own, and nn/one/ joins the library.
ANNEXES  := $(filter-out nn/one nn/pictures,$(patsubst %/,%,$(sort $(wildcard tensor/*/ layers/*/ nn/*/))))
MPI_CORE := nn/ranks/mpi.c
# Losses by vectors take the functions of layers/fast/ and round as it does: they are left out with it.
WITH_LAYERS_FAST := nn/fast/losses.c
PICTURES_CORE := $(wildcard nn/pictures/*.c)
CORE      = $(filter-out $(MPI_CORE) nn/onnx/% $(if $(wildcard layers/fast/functions.h),,$(WITH_LAYERS_FAST)),$(wildcard $(addsuffix /*.c,tensor layers nn $(ANNEXES)))) \
            $(ONNX_CORE)
SOURCES   = $(CORE) $(PICTURES_CORE) $(MAINS) $(HELPERS) $(TESTS) $(TEST_AID) \
            $(wildcard tests/onnx/*.c) $(if $(MPI),$(MPI_CORE) $(MPI_MAINS) $(MPI_TESTS))
lib       = $(OUT)/$1/lib$(NAME_$1).a
lib_all   = $(OUT)/$1/lib$(NAME_$1)-all.a
shared    = $(OUT)/$1/$(call so,$(NAME_$1),$(VERSION))
NAME_float    := stride
NAME_double   := stride-double
DEFINE_double := -DSTRIDE_DOUBLE

# ---- the toolchain -------------------------------------------------------------------------------

# Asked when the first recipe needs the answer, and once: X = $(eval X := answer)$(X).
# Asks pkg-config $1 about the first of the packages $2 that it knows; $3 where it knows none.
ask         = $(shell for package in $2; do $(PKG_CONFIG) $1 $$package 2>/dev/null && exit; done; echo $3)
BLAS       := openblas cblas blas
LIB_CFLAGS  = $(eval LIB_CFLAGS := $(patsubst -I%,-isystem %,$(call ask,--cflags,$(BLAS)) \
                $(call ask,--cflags,jansson) $(call ask,--cflags,zlib)))$(LIB_CFLAGS)
LIBS        = $(eval LIBS := $(call ask,--libs,$(BLAS),-lopenblas) $(call ask,--libs,jansson,-ljansson) \
                $(call ask,--libs,zlib,-lz) \
                $(if $(ONNX_PROTO),$(call ask,--libs,libprotobuf-c,-lprotobuf-c)) -lm)$(LIBS)
SANITIZER := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)

COMPILE = $(CC) -std=c11 -ffp-contract=off -I. -fPIC -pthread $(WARNINGS) $(WERROR) $(SANITIZER) \
          $(LIB_CFLAGS) $(CPPFLAGS) $(CFLAGS)
# A function of the libraries is visible only if an installed header declares it.
CORE_CFLAGS := -fvisibility=hidden
LINK = $(CC) -pthread $(SANITIZER) $(CFLAGS) $(LDFLAGS)

# The file name of shared library $1 at version $2, and the flags that make it; programs ask for it at
# SOVERSION, within which they go on running. A sanitizer's symbols may come with the program.
SOVERSION := $(shell echo $(VERSION) | sed -E 's/^(0\.[0-9]+|[1-9][0-9]*).*/\1/')
ifeq ($(shell uname -s),Darwin)
# Homebrew keeps its OpenBLAS, on either kind of processor, where pkg-config does not look.
BREW := /opt/homebrew/opt/openblas/lib/pkgconfig:/usr/local/opt/openblas/lib/pkgconfig
PKG_CONFIG := env PKG_CONFIG_PATH=$(BREW):$(PKG_CONFIG_PATH) pkg-config
KEEP_HIDDEN = -Wl,-keep_private_externs
localize    = $(CC) -r -nostdlib -o $2 $1
so       = lib$1$(if $2,.$2).dylib
SO_FLAGS = -dynamiclib -install_name @rpath/$(call so,$1,$(SOVERSION))
else
OBJCOPY ?= $(CROSS_COMPILE)objcopy
localize = if command -v $(OBJCOPY) >/dev/null; then $(OBJCOPY) --localize-hidden $1 $2; else cp $1 $2; fi
so       = lib$1.so$(if $2,.$2)
# The library's threads run its code: dlclose must not take that away.
SO_FLAGS = -shared -Wl,-z,nodelete -Wl,-soname,$(call so,$1,$(SOVERSION)) \
           $(if $(SANITIZE),,-Wl,--no-undefined)
endif
# ---- rules ---------------------------------------------------------------------------------------

# Products and sums become one instruction where there is one, in these files alone.
CFLAGS_layers_fast_activation := -ffp-contract=fast
CFLAGS_layers_fast_implicit_groups := -ffp-contract=fast
CFLAGS_layers_fast_kernel := -ffp-contract=fast
CFLAGS_layers_fast_softmax := -ffp-contract=fast
CFLAGS_layers_fast_winograd_transforms := -ffp-contract=fast
CFLAGS_layers_fast_pooling_lanes := -ffp-contract=fast
CFLAGS_layers_fast_pooling_squares := -ffp-contract=fast
CFLAGS_layers_fast_pooling_square_powers := -ffp-contract=fast
CFLAGS_layers_fast_pooling_sums := -ffp-contract=fast
CFLAGS_layers_fast_slide := -ffp-contract=fast
CFLAGS_nn_fast_losses := -ffp-contract=fast

define compile
@mkdir -p $(@D)
$(call say,CC)$(COMPILE) $1 $(if $(filter tests/%,$(filter-out tests/bench/%,$<)),$(TEST_CFLAGS)) \
    $(if $(filter $(CORE) $(MPI_CORE) $(PICTURES_CORE),$<),$(CORE_CFLAGS)) $(if $(filter layers/fast/% nn/fast/%,$<),$(SHORT_DEBUG)) $(if $(filter $(ONNX_READ),$^),$(ONNX_CFLAGS)) \
    $(CFLAGS_$(subst /,_,$(basename $<))) -MMD -MP -c $< -o $@
endef

archive = $(call say,AR)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
# The library is one object, in which definitions of annexes replace the core's weak ones. Tests link the
# archive that has every name; in the one that is installed, names that no public header declares are local,
# which takes machine code, with -flto as well.
archive_all = $(call say,AR)rm -f $@ && $(CC) -r -nostdlib $(KEEP_HIDDEN) $(MACHINE_CODE) -o $(@:.a=.o) \
    $(filter %.o,$^) && $(AR) rcs $@ $(@:.a=.o)
MACHINE_CODE = $(if $(findstring -flto,$(CFLAGS)),$(CFLAGS) -flto-partition=none -flinker-output=nolto-rel)
archive_public = $(call say,AR)rm -f $@ && $(call localize,$(<:.a=.o),$(@:.a=.o)) && $(AR) rcs $@ $(@:.a=.o)

define link_shared
$(call say,LD)$(LINK) $(call SO_FLAGS,$1) $(filter %.o,$^) $(or $2,$(LIBS)) -o $@
@for name in $(call so,$1,$(SOVERSION)) $(call so,$1); do ln -sf $(@F) $(@D)/$$name; done
endef

define link
@mkdir -p $(@D)
$(call say,LD)$(LINK) $(filter %.o,$^) $(filter %.a,$^) $1 $(LIBS) -o $@
endef

include nn/onnx/onnx.mk
define rules
$(OUT)/$1/%.o: %.c $(OUT)/flags
	$$(call compile,$(DEFINE_$1))
$(call lib_all,$1): $(CORE:%.c=$(OUT)/$1/%.o) $(ONNX_FORMAT) $(OUT)/sources | $(OUT)/blas
	$$(archive_all)
$(call lib,$1): $(call lib_all,$1)
	$$(archive_public)
$(call shared,$1): $(CORE:%.c=$(OUT)/$1/%.o) $(ONNX_FORMAT) $(OUT)/sources
	$$(call link_shared,$(NAME_$1))
endef
$(foreach p,float double,$(eval $(call rules,$p)))
# Programs, tests, packages and the rest have makefiles of their own, beside what they build.
include nn/one/one.mk nn/pictures/pictures.mk examples/examples.mk examples/web/web.mk examples/atlas/atlas.mk tests/tests.mk tests/export_c/export_c.mk nn/ranks/mpi.mk tests/bench/bench.mk \
        tests/fuzz/fuzz.mk tests/checks.mk docs/docs.mk tests/tools/install.mk

# Files that change when what they hold changes: the commands, with the flags that single files have, after which
# all is compiled again, and the list of sources, after which the libraries are made again. The flags of tests follow
# from that list. The + keeps make -n truthful.
OWN_FLAGS = $(foreach f,$(sort $(filter-out CFLAGS_tests_%,$(filter CFLAGS_%,$(.VARIABLES)))),$f=$($f))
hold = @mkdir -p $(@D); echo $1 | cmp -s - $@ || echo $1 >$@
$(OUT)/flags: FORCE
	+$(call hold,$(call quoted,$(COMPILE) : $(LINK) : $(VERSION) $(PICTURE_FLAGS) : $(CORE_CFLAGS) $(OWN_FLAGS)))
$(OUT)/blas: $(OUT)/flags
	@tests/tools/blas.sh $(call quoted,$(CC)) $(LIB_CFLAGS) $(LDFLAGS) $(LIBS) | tee $@
$(OUT)/sources: FORCE
	+$(call hold,$(call quoted,$(CORE) $(HELPERS) $(TESTS) : $(MAINED)))

OBJECTS := $(filter-out %float/examples/gradcheck.o,$(foreach p,float double,$(SOURCES:%.c=$(OUT)/$p/%.o))) \
           $(patsubst %.c,$(OUT)/float/%.o,$(BENCH_SOURCES) $(CAMPAIGNS) $(FUZZERS) $(FUZZ_AID) $(ATLAS_SOURCES))
-include $(OBJECTS:.o=.d) $(wildcard $(OUT)/*/tests/*/runner.d)

# ---- building ------------------------------------------------------------------------------------
.PHONY: lib programs objects clean help
all: lib programs ## build the libraries and the programs
lib: ## build libstride, or libstride-double with PRECISION=double
lib: $(foreach p,$(PRECISION),$(call lib,$p) $(call shared,$p) $(of_pictures) $(of_mpi))
programs: ## build the programs of examples/
programs: $(call programs,$(PRECISION)) $(if $(MPI),$(call mpi,$(PRECISION))) \
          $(OUT)/double/bin/gradcheck $(TWIN)
objects: $(OBJECTS)
clean: ## remove everything built
	rm -rf $(BUILD)

# The targets of every makefile under its sections, then what may be set.
help: ## list the targets
	@awk -F ': .*## |:## ' \
	    '/^# ---- / { section = $$0; gsub(/^# -+ | -+$$/, "", section) } \
	    /^[a-z-]+:.*## / { if (section) print "\n" section; section = ""; printf "  make %-16s %s\n", $$1, $$2 }\
	    FNR == NR && /^#   / && !ended { settings = settings "\n" substr($$0, 2) } /^$$/ { ended = 1 } \
	    END { print "\nsettings" settings }' $(filter Makefile %.mk,$(MAKEFILE_LIST))

endif
