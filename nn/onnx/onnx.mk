# ONNX: needs its description of its files, which protobuf-c compiles to what reads and writes them.
# ONNX_MISSING names what is not there, with the packages of Debian that bring it: st_net_export_onnx then
# fails with that, suite_onnx has no case, and what needs the description is not built.

ONNX_MISSING := $(wordlist 2,99,$(shell \
    command -v protoc-c >/dev/null || echo 'and protoc-c (protobuf-c-compiler)'; \
    $(PKG_CONFIG) --exists libprotobuf-c 2>/dev/null || echo 'and libprotobuf-c (libprotobuf-c-dev)'; \
    [ -f /usr/include/onnx/onnx.proto ] || echo 'and onnx.proto (libonnx-dev)'))
ONNX_PROTO  := $(if $(ONNX_MISSING),,/usr/include/onnx/onnx.proto)
ONNX_READ   := $(if $(ONNX_PROTO),$(OUT)/onnx/onnx.pb-c.h)
ONNX_CORE   := nn/onnx/onnx.c $(if $(ONNX_PROTO),$(filter-out nn/onnx/onnx.c,$(wildcard nn/onnx/*.c)))
ONNX_FORMAT := $(if $(ONNX_PROTO),$(OUT)/onnx/onnx.pb-c.o)
ONNX_CFLAGS  = $(eval ONNX_CFLAGS := -DSTRIDE_ONNX -isystem $(OUT)/onnx \
                 $(patsubst -I%,-isystem %,$(call ask,--cflags,libprotobuf-c)))$(ONNX_CFLAGS)
CFLAGS_nn_onnx_onnx := -DSTRIDE_ONNX_MISSING='"$(ONNX_MISSING)"'

# protobuf-c's code is not ours: it is compiled without our warnings and its assertions, and hidden, since a
# program may have its own. ONNX_USERS include it.
ifdef ONNX_PROTO
ONNX_USERS = $(ONNX_CORE) $(wildcard tests/conformance/onnx/*.c) tests/onnx/test_onnx.c \
    tests/conformance/suite_onnx.c
define onnx_rules
$(patsubst %.c,$(OUT)/$1/%.o,$(ONNX_USERS)): $(ONNX_READ)
endef
$(foreach p,float double,$(eval $(call onnx_rules,$p)))
$(ONNX_READ): $(OUT)/onnx/onnx.pb-c.c ;
$(OUT)/onnx/onnx.pb-c.c: $(ONNX_PROTO)
	@mkdir -p $(OUT)/onnx
	$(call say,GEN)protoc-c -I$(dir $(ONNX_PROTO)) --c_out=$(OUT)/onnx $<
$(OUT)/onnx/onnx.pb-c.o: $(OUT)/onnx/onnx.pb-c.c $(OUT)/flags
	$(call say,CC)$(COMPILE) $(ONNX_CFLAGS) -w -DNDEBUG -fvisibility=hidden -c $< -o $@
endif
