/* direct.h: the two algorithms for convolution without columns, and their common parts. */
#ifndef STRIDE_LAYERS_FAST_DIRECT_H
#define STRIDE_LAYERS_FAST_DIRECT_H

#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "tensor/counts.h"

/* ---- phases ---------------------------------------------------------------------------------------- */

/* In dx, a stride of (s, t) leaves phases: rows a, a + s, ... and columns b, b + t, ... are read by the same
 * taps. Along an axis: */
typedef struct phase {
    ptrdiff_t taps, far;    /* their number; the distance of the last */
    ptrdiff_t lead;         /* zeros before the image's part of the phase: */
    ptrdiff_t first, count; /* first, first + stride, … */
} phase;

/* The phases of an axis that taps read: that of tap 0, of tap 1, .... */
ptrdiff_t phase_count(const window *w, int axis);
phase phase_of(const window *w, int axis, ptrdiff_t tap);

/* ---- planes ---------------------------------------------------------------------------------------- */

/* Images surrounded by zeros. Windows with stride 1 are positions oh * pitch + ow of a plane, and tap
 * (c, kh, kw) reads at a fixed offset from them; windows with a stride are some of these.
 *
 * Element (c, i, j) is at (c * rows + i) * pitch + j. The zeros after a row are also those before the next
 * one, and there are as many below the last channel as above the first one. Space for another vector follows,
 * so that few positions can be computed as a whole vector. */
typedef struct planes {
    ptrdiff_t rows, pitch, above, left, size;
    bool copied; /* images are not used in place: they have no such space after them */
} planes;

/* Planes for images x with the padding of windows with stride 1; and for images dy, with zeros for taps
 * beyond their border. */
planes planes_of_x(const kernel *k, const window *w, ptrdiff_t channels);
planes planes_of_dy(const kernel *k, const window *w, ptrdiff_t channels);

/* Lays out an image [C, H, W]: in place, or copied between the zeros in scratch. */
const st_real *planes_lay_out(planes p, st_tensor image, st_tensor scratch);

/* ---- passes ---------------------------------------------------------------------------------------- */

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
    bool straight;               /* with positions as lanes, images are written or read in place */
    ptrdiff_t vectors;           /* of positions in a block; each has an entry in `row` (in planes), `place`
                                  * (in images) and `skip` (its first elements, which an earlier one has) */
    ptrdiff_t *tap, *row, *other, *place, *skip;
    ptrdiff_t result, transposed; /* elements of scratch */
} direct_pass;

/* The plan's data; begins with the members of conv_plan. */
typedef struct direct_plan {
    window w;
    const kernel *k;
    direct_sizes s;
    direct_pass forward, backward, gradient;
} direct_plan;

/* The functions that plan a pass, and fill in its tables unless they are NULL; and those that run it for an
 * image's group, whose planes are given: forward and backward make `to`, the gradient adds up over images.
 * `begin` comes before the first image, `end` after the last one; NULL: nothing. */
typedef struct direct_algorithm {
    void (*plan_images)(const direct_plan *d, direct_pass *p);
    void (*begin)(const st_call *c, const direct_pass *p);
    void (*make)(const st_call *c, const direct_pass *p, ptrdiff_t group, const st_real *plane, st_tensor to);
    void (*plan_gradient)(const direct_plan *d, direct_pass *p);
    void (*accumulate)(const st_call *c, ptrdiff_t group, const st_real *plane, const st_real *dy, bool add);
    void (*end)(const st_call *c);
} direct_algorithm;

extern const direct_algorithm direct_by_positions, direct_by_channels;

/* Tests if positions as lanes fill vectors with rows of images. */
bool direct_by_rows(const direct_plan *d, ptrdiff_t width);

/* Plans the planes that the pass reads, the offsets of taps in them, and of their weights in `other`, with
 * the given distances between channels and taps. */
void direct_plan_taps(const direct_plan *d, direct_pass *p, ptrdiff_t channel, ptrdiff_t tap);

/* The number of rows in a block of about `block` elements, for rows of `width` positions with `depth` numbers
 * each; enough to fill a vector. */
ptrdiff_t direct_block_rows(const kernel *k, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth,
                            ptrdiff_t block);

#endif
