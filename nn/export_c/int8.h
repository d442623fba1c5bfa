/* int8.h: convolutions and dense layers with 8-bit integers, of which 127 stands for the greatest
 * magnitude. */
#ifndef STRIDE_NN_EXPORT_C_INT8_H
#define STRIDE_NN_EXPORT_C_INT8_H

#include "nn/data.h"
#include "nn/net.h"

/* The greatest magnitude of each layer's input, in the order of st_layer_visit, when the net runs on at most
 * 1,024 of the samples; 1 for 0. To be freed; NULL with an error. */
float *int8_ranges(st_net *n, const st_dataset *d);

/* Rounds x, of which `most` becomes 127; 0: its greatest magnitude, which is returned, or 1 for 0. */
double int8_round(st_real *x, ptrdiff_t count, double most);

/* A view of a weight [O, ...]. A transposed convolution is a convolution of an image with zeros between its
 * pixels: its weight [C, O / groups, KH, KW] becomes that one's, [groups, O / groups, C / groups, KH, KW],
 * with the kernel turned around. */
st_tensor int8_weight(const st_layer *l);

/* The output channels of such a layer, or the output features of a dense layer. */
ptrdiff_t int8_channels(const st_layer *l);

#endif
