/* planes.h: images in planes, in which windows of any stride and dilation lie next to each other.
 *
 * Along an axis, tap t of window i reads element i * stride + t * dilation of the padded image. Elements
 * whose remainder by the stride is the same are a phase; tap t belongs to phase (t * dilation) % stride,
 * and reads its element i + (t * dilation) / stride. So in planes that hold a phase each, tap (c, kh, kw)
 * reads at a fixed offset from the windows, which are at row * pitch + column, as those with stride 1 are
 * in an image.
 *
 * Seen from the image, phase by phase, the windows whose taps read an element lie at fixed offsets, too:
 * its gradient is made of planes of dy in the same way, with zeros around them.
 *
 * The zeros after a row are also those before the next one, and there are as many after the last channel
 * as before the first one. Space for another vector follows. */
#ifndef STRIDE_LAYERS_FAST_PLANES_H
#define STRIDE_LAYERS_FAST_PLANES_H

#include "layers/fast/kernel.h"
#include "layers/window.h"

/* A phase of an axis. */
typedef struct phase {
    ptrdiff_t tap, every, taps; /* its taps: tap, tap + every, ...; their number */
    ptrdiff_t near, step;       /* they read elements window + near, window + near + step, ... */
    ptrdiff_t first, count;     /* the image's elements: first, first + stride, ...; their number */
    ptrdiff_t lead;             /* zeros of the padding before them */
} phase;

ptrdiff_t phase_count(const window *w, int axis);
phase phase_of(const window *w, int axis, ptrdiff_t number);

/* Rows and columns of an image, first, first + apart, ..., for each axis. */
typedef struct lattice {
    ptrdiff_t first[2], count[2];
} lattice;

/* A lattice of an image; the number of its plane, and the rows and columns of zeros before it there. */
typedef struct planes_piece {
    lattice of;
    ptrdiff_t number, above, left;
} planes_piece;

typedef struct planes {
    ptrdiff_t pitch;     /* of rows */
    ptrdiff_t rows;      /* of a plane: all that windows read, or a band of them; */
    bool band;           /* then */
    ptrdiff_t reach;     /* the last row of windows reads so many rows below its own */
    ptrdiff_t channel;   /* elements of a channel's planes */
    ptrdiff_t after;     /* zeros and space after the last channel */
    ptrdiff_t apart[2];  /* of the rows and columns in a piece */
    planes_piece *piece; /* NULL while tables are measured */
    ptrdiff_t pieces;
    bool in_place; /* a contiguous image is its own planes */
} planes;

/* Makes the planes of images that have windows, whose `piece` has room for all phases: phase_count of both
 * axes; and of images with an element for each window, whose piece has room for one. piece NULL: only
 * their sizes. */
planes planes_of_windows(const kernel *k, const window *w, planes_piece *piece);
planes planes_of_results(const kernel *k, const window *w, planes_piece *piece);

/* Makes planes have what so many rows of windows, or of elements of a phase, read. */
void planes_make_band(planes *p, ptrdiff_t rows);

/* The offset of the windows in phases a and b of the rows and columns. */
ptrdiff_t planes_phase(const planes *p, const window *w, ptrdiff_t a, ptrdiff_t b);

/* The position in planes of results from which taps of a phase count back. */
ptrdiff_t planes_origin(const planes *p, const window *w, phase rows, phase columns);

ptrdiff_t planes_size(const planes *p, ptrdiff_t channels);

/* Lays out channels of an image with these strides of channels, rows and columns: in `room`, whose other
 * columns stay. Planes with a band have that from row `first` on. */
void planes_lay_out(const planes *p, const kernel *k, ptrdiff_t channels, const st_real *from,
                    const ptrdiff_t stride[3], ptrdiff_t first, st_real *room);

/* Moves `count` rows and columns, which are so far apart. */
void planes_move(const kernel *k, const ptrdiff_t count[2], const st_real *from, ptrdiff_t from_down,
                 ptrdiff_t from_across, st_real *to, ptrdiff_t to_down, ptrdiff_t to_across);

#endif
