/* direct.h: the two ways of a convolution without columns, and what they share. */
#ifndef STRIDE_LAYERS_FAST_DIRECT_H
#define STRIDE_LAYERS_FAST_DIRECT_H

#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "layers/fast/planes.h"

enum { PLANE, RESULT, TRANSPOSED }; /* scratch */

/* Sizes of each group. */
typedef struct direct_sizes {
    ptrdiff_t groups, in, out, area, taps; /* taps: in * area, of an output channel */
} direct_sizes;

/* One of forward, backward, gradient: how its images are laid out, and the tables of its product (kernel.h). */
typedef struct direct_pass {
    planes p;
    ptrdiff_t *row, *step, *offset;
    const struct direct_way *way;
} direct_pass;

/* The plan's data; begins as a conv_plan does. */
typedef struct direct_plan {
    window w, unstrided;
    const kernel *k;
    direct_sizes s;
    direct_pass forward, backward, gradient;
    ptrdiff_t table[];
} direct_plan;

/* Each pass has a function that fills in its planes and tables, and its hook; dy's planes are laid out with zeros
 * before backward. */
typedef struct direct_way {
    void (*plan_forward)(direct_plan *d);
    void (*plan_backward)(direct_plan *d);
    void (*plan_gradient)(direct_plan *d);
    void (*forward)(const st_call *c, const direct_plan *d, st_tensor x, st_tensor y);
    void (*backward)(const st_call *c, const direct_plan *d, st_tensor dy, st_tensor dx);
    void (*gradient)(const st_call *c, const direct_plan *d, st_tensor x, st_tensor dy);
} direct_way;

extern const direct_way direct_by_positions, direct_by_channels;

/* ---- blocks ---------------------------------------------------------------------------------------- */

/* Rows of so many positions that fill a vector. */
ptrdiff_t direct_least_rows(const kernel *k, ptrdiff_t width);

/* Rows in a block, of so many rows of `width` positions with `depth` numbers each: as many as stay in cache, and
 * enough to fill a vector. */
ptrdiff_t direct_block_rows(const kernel *k, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth);

/* Positions in a block where each is a row of channels. */
ptrdiff_t direct_block_positions(const kernel *k, ptrdiff_t height, ptrdiff_t width, ptrdiff_t channels);

/* Positions from the first to the last of so many rows, of which `width` in each count. */
ptrdiff_t direct_span(ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch);

/* From one row of a result to the next, of blocks of images of so many channels and rows. */
ptrdiff_t direct_result_pitch(const kernel *k, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t pitch);

/* The channels of group g, of an image [C, H, W]. */
st_tensor direct_group(st_tensor image, ptrdiff_t g, ptrdiff_t channels);

#endif
