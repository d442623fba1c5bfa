/* planes.h: padded images laid out by phases.
 *
 * With strides (s, t) a tap of a kernel sees of every window the same phase (a, b) of the padded image: its rows
 * a, a + s, … and of them the columns b, b + t, …. Each phase [C, H, W] that a tap sees lies in planes of one pitch,
 * so that the window (oh, ow) is at position oh * pitch + ow of them all, and what a tap (c, kh, kw) sees of it lies
 * a fixed offset further on. */
#ifndef STRIDE_LAYERS_FAST_PLANES_H
#define STRIDE_LAYERS_FAST_PLANES_H

#include "layers/fast/kernel.h"
#include "layers/window.h"
#include "tensor/counts.h"

/* ---- phases ---------------------------------------------------------------------------------------- */

enum {
    PHASES_TOGETHER = 4
}; /* of an axis, read or written at once, so that a row is gone through fewer times */

/* Along an axis. */
typedef struct phase {
    ptrdiff_t taps, near, far; /* how many; how far the first looks, and the last */
    ptrdiff_t lead;            /* zeros before what there is of the image: */
    ptrdiff_t first, count;    /* first, first + stride, …, */
    ptrdiff_t seen;            /* of which windows see so many */
} phase;

/* The phases of an axis that taps see: that of tap 0, of tap 1, …. */
ptrdiff_t phase_count(const window *w, int axis);
phase phase_of(const window *w, int axis, ptrdiff_t tap);

/* Whether there is some of an image that no tap sees. */
bool phase_gaps(const window *w);

/* ---- planes ---------------------------------------------------------------------------------------- */

/* Element (c, i, j) of a phase lies at (c * rows + i) * pitch + j, phases `size` apart. The zeros after a row are
 * also those before the next one, and below the last channel there are as many as above the first; then there is
 * room for a vector more, so that positions too few to fill one may be computed by a whole one. */
typedef struct planes {
    ptrdiff_t channels, rows, pitch, above, left, size;
    bool copied; /* images are never used where they are: they have no such room */
} planes;

/* Of images x of all phases that taps see; of images dy with zeros for taps that look from beyond their border. */
planes planes_of_x(const kernel *k, const window *w, ptrdiff_t channels);
planes planes_of_dy(const kernel *k, const window *w, ptrdiff_t channels);

/* An image [C, H, W] in planes: where it is, or copied between the zeros of scratch. Of x what windows see. */
const st_real *planes_lay_out_x(const window *w, planes p, st_tensor image, st_tensor scratch);
const st_real *planes_lay_out_dy(planes p, st_tensor image, st_tensor scratch);

/* The zeros of scratch, before images are laid out in so many elements of it. */
void planes_clear(ptrdiff_t size, st_tensor scratch);

/* ---- tables of offsets ------------------------------------------------------------------------------ */

/* Where the taps of a kernel [channels, KH, KW] look in x, from the position of their window. */
void planes_look_out(ptrdiff_t *at, const window *w, planes p, ptrdiff_t channels);

/* From which position of dy each output channel's taps of a phase look at the first place of dx in it, and where
 * their weights are, so far apart from channel to channel and from tap to tap; of all phases, one after another. */
void planes_look_back(ptrdiff_t *at, ptrdiff_t *weight, const window *w, planes p, ptrdiff_t channels,
                      const ptrdiff_t apart[2]);

#endif
