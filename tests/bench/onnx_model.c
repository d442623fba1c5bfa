/* onnx_model.c: writes one of the networks as a file of ONNX, for those who run such files. */
#include "nn/stride.h"
#include "tests/bench/networks.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: onnx_model NETWORK FILE\n", stderr);
        return 2;
    }
    net *n = network_new(argv[1]);
    if (n && net_build(n, 1, 1) == 0) net_export_onnx(n, argv[2]);
    net_free(n);
    if (error_text()) fprintf(stderr, "onnx_model: %s\n", error_text());
    return error_text() != NULL;
}
