/* winograd.h: Winograd's transforms, of F(2x2, 3x3) and of F(4x4, 3x3).
 *
 * A tile of m x m outputs sees (m + 2) x (m + 2) inputs d. Of a single channel it is, with matrices of small numbers
 * (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; Winograd 1980):
 *
 *     y = Aᵀ [U ⊙ V] A / scale,   U = G w Gᵀ,   V = Bᵀ d B        (m + 2)² products instead of 9 m²
 *
 * F(2x2) needs additions and halves only. The G of F(4x4) has thirds besides; here it is three times as large, so
 * that all are multiples of 1/8, and scale is 9. Then integers come out exactly, as long as sums keep their
 * fractions: in float, whatever they are, where |x| |w| times the channels is at most 113, and in the gradient |x| |dy|
 * times the tiles at most 53; random ones far beyond, as they have both signs: those up to 31, of 256 channels, were
 * seen to. To other numbers it makes no difference, since powers of two do not round. */
#ifndef STRIDE_LAYERS_FAST_WINOGRAD_H
#define STRIDE_LAYERS_FAST_WINOGRAD_H

#include "layers/fast/kernel.h"

enum { WINOGRAD_MOST_PLACES = 36 };

/* out = T in Tᵀ for each channel: `in` and `out` point to rows of channels, a square of them. Channels are a multiple
 * of lanes. What leads to y and dw divides by scale. */
typedef void winograd_transform(ptrdiff_t channels, const st_real *const in[], st_real *const out[]);

typedef struct winograd {
    int size;   /* of a tile, along an axis, in outputs */
    int places; /* of a tile in Winograd's domain, row by row; */
    int whole;  /* of these the one that adds to each output alike */
    st_real scale;
    winograd_transform *input, *output, *output_adjoint, *weight, *weight_adjoint; /* Bᵀ, Aᵀ, A, G, Gᵀ */
} winograd;

/* For tiles of 2x2 and of 4x4 outputs. */
const winograd *winograd_of(const kernel *k, int size);

#endif
