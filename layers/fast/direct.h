/* direct.h: the two algorithms for convolution without columns, and their common parts. */
#ifndef STRIDE_LAYERS_FAST_DIRECT_H
#define STRIDE_LAYERS_FAST_DIRECT_H

#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "layers/fast/planes.h"

enum { PLANE, RESULT, TRANSPOSED }; /* scratch */

enum { DIRECT_BLOCK = 1 << 16 }; /* elements of a block of results, so that it stays in cache */

/* Sizes of each group. */
typedef struct direct_sizes {
    ptrdiff_t groups, in, out, area, taps; /* taps: in * area, for each output channel */
} direct_sizes;

/* A pass: forward, backward or gradient. Its tables are those of a product (kernel.h): the offset of each tap
 * in the planes, and two that depend on the algorithm. */
typedef struct direct_pass {
    const struct direct_algorithm *by;
    planes p;                    /* of what it reads */
    ptrdiff_t channels, size[2]; /* of an image that it makes, in a group; of dy for the gradient */
    ptrdiff_t depth;             /* all taps of a channel of the result */
    ptrdiff_t rows;              /* of a block */
    ptrdiff_t *tap, *row, *other;
    ptrdiff_t result, transposed; /* elements of scratch */
} direct_pass;

/* The plan's data; begins with the members of conv_plan. */
typedef struct direct_plan {
    window w;
    const kernel *k;
    direct_sizes s;
    direct_pass forward, backward, gradient;
    ptrdiff_t table[];
} direct_plan;

/* The functions that plan a pass, and those that run it for an image's group, whose planes are given: forward
 * and backward make `to`, the gradient adds up over images. `begin` comes before the first image, `end` after
 * the last one; NULL: nothing. */
typedef struct direct_algorithm {
    void (*plan_images)(const direct_plan *d, direct_pass *p);
    void (*begin)(const st_call *c, const direct_pass *p);
    void (*make)(const st_call *c, const direct_pass *p, ptrdiff_t group, const st_real *plane, st_tensor to);
    void (*plan_gradient)(const direct_plan *d, direct_pass *p);
    void (*accumulate)(const st_call *c, ptrdiff_t group, const st_real *plane, const st_real *dy, bool add);
    void (*end)(const st_call *c);
} direct_algorithm;

extern const direct_algorithm direct_by_positions, direct_by_channels;

/* Plans the planes that the pass reads, the offsets of taps in them, and of their weights in `other`, with
 * the given distances between channels and taps. */
void direct_plan_taps(const direct_plan *d, direct_pass *p, ptrdiff_t channel, ptrdiff_t tap);

/* The number of rows in a block of about `block` elements, for rows of `width` positions with `depth` numbers
 * each; enough to fill a vector. */
ptrdiff_t direct_block_rows(const kernel *k, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth,
                            ptrdiff_t block);

#endif
