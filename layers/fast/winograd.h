/* winograd.h: Winograd's transforms for F(2x2, 3x3) and F(4x4, 3x3).
 *
 * A tile of m x m outputs depends on (m + 2) x (m + 2) inputs d. For a single channel, with constant matrices
 * (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; Winograd 1980):
 *
 *     y = Aᵀ [U ⊙ V] A / scale,   U = G w Gᵀ,   V = Bᵀ d B        (m + 2)² multiplications, not 9 m²
 *
 * F(2x2) needs only additions and halves. The G of F(4x4) also has thirds; here it is multiplied by 3, so
 * that all elements are multiples of 1/8, and scale is 9. Results for integers are then exact while sums keep
 * their fractions: in float always if |x| |w| times the channels is at most 113, and in the gradient if |x|
 * |dy| times the tiles is at most 53. Random integers of both signs were exact up to 31 with 256 channels.
 * The scaling does not change other results. */
#ifndef STRIDE_LAYERS_FAST_WINOGRAD_H
#define STRIDE_LAYERS_FAST_WINOGRAD_H

#include "layers/fast/kernel.h"

enum { WINOGRAD_MOST_PLACES = 36 };

/* out = T in Tᵀ for each channel: `in` and `out` are squares of pointers to rows of channels, whose number is
 * a multiple of lanes. The transforms to y and dw divide by scale. */
typedef void winograd_transform(ptrdiff_t channels, const st_real *const in[], st_real *const out[]);

typedef struct winograd {
    int size;   /* of a tile, along an axis, in outputs */
    int places; /* elements of a tile in Winograd's domain, row by row; */
    int whole;  /* the one that adds equally to all outputs */
    st_real scale;
    winograd_transform *input, *output, *output_adjoint, *weight, *weight_adjoint; /* Bᵀ, Aᵀ, A, G, Gᵀ */
} winograd;

/* For tiles of 2x2 and of 4x4 outputs. */
const winograd *winograd_of(const kernel *k, int size);

#endif
