/* direct.h: the two algorithms for convolution without columns, and their common parts. */
#ifndef STRIDE_LAYERS_FAST_DIRECT_H
#define STRIDE_LAYERS_FAST_DIRECT_H

#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "layers/fast/planes.h"

enum { PLANE, RESULT, TRANSPOSED }; /* scratch */

/* Sizes of each group. */
typedef struct direct_sizes {
    ptrdiff_t groups, in, out, area, taps; /* taps: in * area, for each output channel */
} direct_sizes;

/* A pass (forward, backward or gradient): the layout of its images, and the tables of its product
 * (kernel.h). */
typedef struct direct_pass {
    planes p;
    ptrdiff_t *row, *step, *offset;
} direct_pass;

/* The plan's data; begins with the members of conv_plan. */
typedef struct direct_plan {
    window w, unstrided;
    const kernel *k;
    direct_sizes s;
    direct_pass forward, backward, gradient;
    const struct direct_algorithm *backward_algorithm, *gradient_algorithm;
    ptrdiff_t table[];
} direct_plan;

/* Forward, lanes are positions. For the other passes, the functions that plan their planes and tables, and
 * those that run them. Before backward the zeros of dy's planes are written. */
void direct_plan_forward(direct_plan *d);
void direct_forward(const st_call *c, st_tensor x, st_tensor y);
typedef struct direct_algorithm {
    void (*plan_backward)(direct_plan *d);
    void (*plan_gradient)(direct_plan *d);
    void (*backward)(const st_call *c, const direct_plan *d, st_tensor dy, st_tensor dx);
    void (*gradient)(const st_call *c, const direct_plan *d, st_tensor x, st_tensor dy);
} direct_algorithm;

extern const direct_algorithm direct_by_positions, direct_by_channels;

/* ---- blocks ---------------------------------------------------------------------------------------- */

/* The number of rows of that many positions that fill a vector. */
ptrdiff_t direct_least_rows(const kernel *k, ptrdiff_t width);

/* The number of rows in a block, for rows of `width` positions with `depth` numbers each: as many as stay in
 * cache, but enough to fill a vector. */
ptrdiff_t direct_block_rows(const kernel *k, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth);

/* The number of positions in a block when each is a row of channels. */
ptrdiff_t direct_block_positions(const kernel *k, ptrdiff_t height, ptrdiff_t width, ptrdiff_t channels);

/* The number of positions from the first to the last in some rows of `width` positions. */
ptrdiff_t direct_span(ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch);

/* The distance between rows of a result, in blocks of images with that many channels and rows. */
ptrdiff_t direct_result_pitch(const kernel *k, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t pitch);

/* The channels of group g of an image [C, H, W]. */
st_tensor direct_group(st_tensor image, ptrdiff_t g, ptrdiff_t channels);

#endif
