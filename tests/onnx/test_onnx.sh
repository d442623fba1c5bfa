#!/usr/bin/env bash
# A library that was built where protobuf-c or onnx.proto was missing still has st_net_export_onnx, which says so.
set -u
tmp=${STRIDE_TEST_TMP:-$(mktemp -d)}
cat >"$tmp/program.c" <<'END'
#include <stride.h>
int main(void)
{
    st_net *n = st_net_new(ST_SHAPE(4), st_relu());
    if (st_net_build(n, 1, 1) || st_net_export_onnx(n, "net.onnx") != -1) return 1;
    puts(st_error());
    st_net_free(n);
    return 0;
}
END
expected='net.onnx: this library was built without ONNX: onnx.proto (libonnx-dev) was not found; install it (make deps-onnx) and build again'
# shellcheck disable=SC2086
if $CC $CFLAGS -DSTRIDE_ONNX_MISSING='"onnx.proto (libonnx-dev)"' "$tmp/program.c" nn/onnx/onnx.c -Wl,-z,muldefs "$LIB" $LIBS -o "$tmp/program" &&
    said=$("$tmp/program") && [ "$said" = "$expected" ]; then
    echo "ok without onnx the error says what was missing"
else
    echo "said: ${said:-}"
    echo "not ok without onnx the error says what was missing"
    exit 1
fi
