/* onnx_model.c: writes one of the networks as a file of ONNX, for those who run such files. */
#include <stride.h>
#include "tests/bench/arrays.h"
#include "tests/bench/networks.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: onnx_model NETWORK FILE\n", stderr);
        return 2;
    }
    st_net *n = network_new(argv[1]);
    if (n && st_net_build(n, 1, 1) == 0) {
        arrays_fill(n->root);
        st_net_export_onnx(n, argv[2]);
    }
    st_net_free(n);
    if (st_error()) fprintf(stderr, "onnx_model: %s\n", st_error());
    return st_error() != NULL;
}
