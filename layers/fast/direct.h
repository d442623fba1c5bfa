/* direct.h: the two ways of a convolution without columns, and what they share. */
#ifndef STRIDE_LAYERS_FAST_DIRECT_H
#define STRIDE_LAYERS_FAST_DIRECT_H

#include "layers/conv2d.h"
#include "layers/fast/planes.h"
#include "layers/fast/kernel.h"

enum { PLANE, RESULT, TURNED, ROW, STEP, OFFSET }; /* scratch */

/* Of each group. */
typedef struct direct_sizes {
    ptrdiff_t groups, in, out, area, taps; /* taps: in * area, of an output channel */
} direct_sizes;

/* As conv2d_method, with dy [N, O, OH, OW] laid out in planes p for backward. */
typedef struct direct_way {
    void (*forward)(const layer *l, const window *w, direct_sizes s, tensor x, tensor y);
    void (*backward)(const layer *l, const window *w, direct_sizes s, planes p, tensor dy, tensor dx);
    void (*gradient)(const layer *l, const window *w, direct_sizes s, tensor x, tensor dy);
} direct_way;

extern const direct_way direct_by_positions, direct_by_channels;

/* ---- blocks ---------------------------------------------------------------------------------------- */

/* Rows of so many positions that fill a vector. */
ptrdiff_t direct_least_rows(const layer *l, ptrdiff_t width);

/* Rows in a block, of so many rows of `width` positions with `depth` numbers each: as many as stay in cache, and
 * enough to fill a vector. */
ptrdiff_t direct_block_rows(const layer *l, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth);

/* Positions in a block where each is a row of channels. */
ptrdiff_t direct_block_positions(const layer *l, ptrdiff_t height, ptrdiff_t width, ptrdiff_t channels);

/* Positions from the first to the last of so many rows, of which `width` in each count. */
ptrdiff_t direct_span(ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch);

/* From one row of a result to the next, of blocks of images of so many channels and rows. */
ptrdiff_t direct_result_pitch(const layer *l, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t pitch);

/* ---- parts ----------------------------------------------------------------------------------------- */

/* The same windows seen as every stride-th of those at stride 1. */
window direct_unstrided(const window *w);

/* The channels of group g, of an image [C, H, W]. */
tensor direct_group(tensor image, ptrdiff_t g, ptrdiff_t channels);

#endif
