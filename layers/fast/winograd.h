/* winograd.h: Winograd's transforms for F(4x4, 3x3), and for F(2x2, 5x5), which has the same B.
 *
 * A tile of 4x4 outputs depends on 6x6 inputs d. For a single channel, with constant matrices (Lavin and
 * Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; Winograd 1980):
 *
 *     y = Aᵀ [U ⊙ V] A / 9,   U = G w Gᵀ,   V = Bᵀ d B            36 multiplications, not 144
 *
 * The G of F(4x4) has thirds; here it is multiplied by 3, so that all elements are multiples of 1/8. Results
 * for integers are then exact while sums keep their fractions: in float always if |x| |w| times the channels
 * is at most 113, backward if |dy| |w| times the channels is at most 43, and in the gradient if |x| |dy|
 * times the tiles is at most 53. Random integers of both signs were exact up to 31 with 256 channels, and by
 * F(2x2) up to 8. The scaling does not change other results. */
#ifndef STRIDE_LAYERS_FAST_WINOGRAD_H
#define STRIDE_LAYERS_FAST_WINOGRAD_H

#include "layers/fast/kernel.h"

enum {
    WINOGRAD_REACH = 6,   /* inputs of a tile, along an axis */
    WINOGRAD_TAPS = 25,   /* of a kernel, at most */
    WINOGRAD_PLACES = 36, /* elements of a tile in Winograd's domain, row by row; */
    WINOGRAD_WHOLE = 7,   /* (1, 1) adds equally to all outputs, as all powers of 1 are equal */
    WINOGRAD_SCALE = 9
};

/* out = T in Tᵀ for each channel: `in` and `out` are squares of pointers to rows of channels, whose number
 * is a multiple of lanes. The transforms to y, dw and dx divide by WINOGRAD_SCALE; the one to dx adds. */
typedef void winograd_transform(ptrdiff_t channels, const st_real *const in[], st_real *const out[]);

typedef struct winograd {
    int size, taps; /* outputs of a tile, and taps of a kernel, along an axis */
    winograd_transform *input, *input_adjoint, *output, *output_adjoint; /* Bᵀ, B, Aᵀ, A */
    winograd_transform *weight, *weight_adjoint;                         /* G, Gᵀ */
} winograd;

extern const winograd winograd_of_3[], winograd_of_5[]; /* by taps, for all instruction sets */

#endif
