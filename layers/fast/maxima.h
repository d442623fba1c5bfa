/* maxima.h: the inner loops of max pooling: maxima of windows, and gradients back to where they were.
 *
 * A channel is laid out so that neighbouring windows read neighbouring elements: with its padding, and column j at
 * place j / phases of phase j % phases, where `phases` is the windows' stride. */
#ifndef STRIDE_LAYERS_FAST_MAXIMA_H
#define STRIDE_LAYERS_FAST_MAXIMA_H

#include "layers/window.h"

typedef struct maxima_layout {
    ptrdiff_t phases, rows, pitch; /* [phases, rows, pitch] */
} maxima_layout;
maxima_layout maxima_arrange(const window *w);

/* Elements that each function below needs in `copy`, `first` and `seen`. */
ptrdiff_t maxima_copy_room(const window *w);
ptrdiff_t maxima_first_room(const window *w);
ptrdiff_t maxima_seen_room(const window *w);

/* What is the same for all channels. */
typedef struct maxima {
    window w;
    bool pads_zero; /* or with what is below all numbers */
    real *copy,
        *first; /* a channel, laid out; for each window of a row, the first column of it in the image */
    real *seen; /* dy and places of a channel, with a margin that no gradient comes from */
} maxima;

/* Writes what channels begin from: the border of the copy, `first`; the margins of `seen`. */
void maxima_prepare(const maxima *m);
void maxima_prepare_adjoint(const maxima *m);

/* Maxima of a channel [H, W] of x with such strides, and the row-major place of each in its window; NULL: nobody
 * asks. A place exceeds those before it where it is greater, or the first NaN; while none has exceeded -inf, it is
 * the first in the image. */
typedef void maxima_find(const maxima *m, const real *x, const ptrdiff_t stride[2], real *best, real *place);

/* dx [H, W] = each gradient at the place of its window. Where windows overlap they are added row by row. */
typedef void maxima_scatter(const maxima *m, const real *place, const real *dy, real *dx);

/* For the machine of this layer. */
maxima_find *maxima_finder(const layer *l);
maxima_scatter *maxima_scatterer(const layer *l, const window *w);

#endif
