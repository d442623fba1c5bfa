/* networks.h: the four networks that everything is measured on, by name. */
#ifndef STRIDE_TESTS_BENCH_NETWORKS_H
#define STRIDE_TESTS_BENCH_NETWORKS_H

#include "nn/net.h"

/* Each takes images [1, 28, 28] and gives ten logits. Planned, not built; NULL with an error. */
st_net *network_lenet5(void);  /* LeCun et al. 1998, with relu and max pooling */
st_net *network_example(void); /* PyTorch's example for MNIST, with its dropout */
st_net *network_bnnet(void);   /* 3x3 convolutions, each followed by batch normalisation */
st_net *network_mlp(void);     /* 784-512-512-10 */

typedef struct network {
    const char *name;
    st_net *(*make)(void);
} network;
extern const network networks[]; /* ended by an entry without a name */

/* A new one by its name; NULL with an error where there is none. */
st_net *network_new(const char *name);

/* Nominal operations for one image: 2 a multiply-add of convolutions and dense layers. Training counts the
 * forward pass three times, but for the first layer's dx, which nobody wants. */
double network_flops(const st_net *n, bool training);

#endif
