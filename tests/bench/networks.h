/* networks.h: networks as texts (examples/stride/network.h) and by name. */
#ifndef STRIDE_TESTS_BENCH_NETWORKS_H
#define STRIDE_TESTS_BENCH_NETWORKS_H

#include "nn/net.h"

/* Those that bench-peers measures, ended by NULL: files of examples/networks, which take images [1, 28,
 * 28] and give ten logits. */
extern const char *const networks[];

/* A new one, planned, not built: of examples/networks/NAME.net or tests/bench/networks/NAME.net. NULL with
 * an error. The current folder is the project's. */
st_net *network_new(const char *name);

/* A layer from its text, for a batch of "64x3x32x32", which `x` receives; not planned. NULL with an error. */
st_layer *network_layer(const char *size, const char *text, st_shape *x);

/* Nominal operations for one image: 2 a multiply-add of convolutions and dense layers. Training counts the
 * forward pass three times, but for the first layer's dx, which nobody wants. */
double network_flops(const st_net *n, bool training);

/* Those of the forward pass of a planned layer, for one of its batch. */
double network_layer_flops(st_layer *l);

#endif
