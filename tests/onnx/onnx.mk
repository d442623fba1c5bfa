# ONNX: tests read what st_net_export_onnx wrote with code that protobuf-c makes of ONNX's own description of its
# files. ONNX_MISSING names what is not there, with the packages of Debian that bring it: those tests are then
# skipped.

ONNX_MISSING := $(wordlist 2,99,$(shell \
    command -v protoc-c >/dev/null || echo 'and protoc-c (protobuf-c-compiler)'; \
    $(PKG_CONFIG) --exists libprotobuf-c || echo 'and libprotobuf-c (libprotobuf-c-dev)'; \
    [ -f /usr/include/onnx/onnx.proto ] || echo 'and onnx.proto (libonnx-dev)'))
ONNX_PROTO  := $(if $(ONNX_MISSING),,/usr/include/onnx/onnx.proto)

# Protobuf-c's code is not ours: it is compiled without our warnings.
ifdef ONNX_PROTO
ONNX_LIBS = $(call ask,--libs,libprotobuf-c,-lprotobuf-c)
CFLAGS_tests_onnx_test_onnx = -DSTRIDE_ONNX -isystem $(OUT)/onnx \
    $(patsubst -I%,-isystem %,$(call ask,--cflags,libprotobuf-c))
$(OUT)/float/tests/onnx/test_onnx.o $(OUT)/double/tests/onnx/test_onnx.o: $(OUT)/onnx/onnx.pb-c.h
$(OUT)/float/tests/onnx/run $(OUT)/double/tests/onnx/run: $(OUT)/onnx/onnx.pb-c.o
$(OUT)/onnx/onnx.pb-c.h: $(OUT)/onnx/onnx.pb-c.c ;
$(OUT)/onnx/onnx.pb-c.c: $(ONNX_PROTO)
	@mkdir -p $(OUT)/onnx
	$(call say,GEN)protoc-c -I$(dir $(ONNX_PROTO)) --c_out=$(OUT)/onnx $<
$(OUT)/onnx/onnx.pb-c.o: $(OUT)/onnx/onnx.pb-c.c $(OUT)/flags
	$(call say,CC)$(COMPILE) $(patsubst -I%,-isystem %,$(call ask,--cflags,libprotobuf-c)) -w -c $< -o $@
endif
