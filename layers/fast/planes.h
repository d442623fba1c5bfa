/* planes.h: images in planes, surrounded by zeros.
 *
 * Windows with stride 1 are positions oh * pitch + ow of a plane, and tap (c, kh, kw) reads at a fixed offset
 * from them; windows with a stride are some of these. In dx, a stride of (s, t) leaves phases: rows a, a + s,
 * ... and columns b, b + t, ... are read by the same taps. */
#ifndef STRIDE_LAYERS_FAST_PLANES_H
#define STRIDE_LAYERS_FAST_PLANES_H

#include "layers/fast/kernel.h"
#include "layers/window.h"
#include "tensor/counts.h"

/* ---- phases ---------------------------------------------------------------------------------------- */

/* Along an axis. */
typedef struct phase {
    ptrdiff_t taps, far;    /* their number; the distance of the last */
    ptrdiff_t lead;         /* zeros before the image's part of the phase: */
    ptrdiff_t first, count; /* first, first + stride, … */
} phase;

/* The phases of an axis that taps read: that of tap 0, of tap 1, .... */
ptrdiff_t phase_count(const window *w, int axis);
phase phase_of(const window *w, int axis, ptrdiff_t tap);

/* Tests if a part of the image is read by no tap. */
bool phase_gaps(const window *w);

/* ---- planes ---------------------------------------------------------------------------------------- */

/* Element (c, i, j) is at (c * rows + i) * pitch + j. The zeros after a row are also those before the next
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

/* Writes the zeros into scratch, before images are laid out there. */
void planes_clear(planes p, st_tensor scratch);

/* ---- tables of offsets ------------------------------------------------------------------------------ */

/* The offsets in x of the taps of a kernel [channels, KH, KW], from the position of their window. */
void planes_look_out(ptrdiff_t *at, const window *w, planes p, ptrdiff_t channels);

/* For all phases, one after another: the offset in dy of each output channel's taps that read the first
 * element of dx in the phase, and the offset of their weights, with the given distances between channels and
 * taps. */
void planes_look_back(ptrdiff_t *at, ptrdiff_t *weight, const window *w, planes p, ptrdiff_t channels,
                      const ptrdiff_t apart[2]);

#endif
