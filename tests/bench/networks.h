/* networks.h: the four networks that everything is measured on, by name. */
#ifndef STRIDE_TESTS_BENCH_NETWORKS_H
#define STRIDE_TESTS_BENCH_NETWORKS_H

#include "nn/net.h"
#include "tests/bench/outline.h"

/* Their names, which are those of files of examples/networks, ended by NULL. Each takes images [1, 28, 28]
 * and gives ten logits. */
extern const char *const networks[];

/* A new one by its name, planned, not built; NULL with an error. The current folder is the project's. */
st_net *network_new(const char *name);

/* Weights that peers can make as well, whatever their generators of random numbers: element i of parameter k,
 * in the order of the state dict, is 2 pattern(i, k) / sqrt(elements of its first row). Images are 0.5 +
 * pattern(i, 0). */
void network_fill(st_net *n);

/* Nominal operations for one image: 2 a multiply-add of convolutions and dense layers. Training counts the
 * forward pass three times, but for the first layer's dx, which nobody wants. */
double network_flops(const st_net *n, bool training);

#endif
