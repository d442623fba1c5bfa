/* slide.h: convolutions of one channel at a time, as depthwise ones are.
 *
 * Lanes are windows of a row. A vector of the image is loaded once for all windows above it: of a column
 * of taps
 *
 *     c[r][e] = plus + Σ_k Σ_t weight[at[k] + t * down] b[offset[k] + row r * stride + t, e]
 *
 * Row i of the image begins i / stride * pitch + i % stride * phase from the first: its phases may be
 * apart. */
#ifndef STRIDE_LAYERS_FAST_SLIDE_H
#define STRIDE_LAYERS_FAST_SLIDE_H

#include "layers/layer_impl.h"
#include "tensor/fast/isa.h"

enum { SLIDE_STRIDE = 2, SLIDE_TAPS = 7 }; /* the largest */

/* Columns of taps, and the rows of an image. */
typedef struct slide_columns {
    ptrdiff_t count;
    const ptrdiff_t *offset, *at; /* of their first rows; of its weights */
    ptrdiff_t down;               /* from a row's weights to the next one's */
    ptrdiff_t pitch, phase;
} slide_columns;

typedef void slide_make(const slide_columns *s, const st_real *weight, const st_real *b, st_real *c,
                        ptrdiff_t far, st_real plus);

/* sum[k][t][e] += Σ_r dy[r][e] b[offset[k] + row r * stride + t, e], for e >= skip. */
typedef void slide_dots(const slide_columns *s, const st_real *b, ptrdiff_t rows, const st_real *dy,
                        ptrdiff_t far, ptrdiff_t skip, st_real *sum);

/* For each instruction set (tensor/fast/isa.h), by stride - 1 and taps - 1. */
typedef struct slide {
    int lanes, high; /* rows of the taller tile */
    slide_make *tall[SLIDE_STRIDE][SLIDE_TAPS], *low[SLIDE_STRIDE][SLIDE_TAPS];
    slide_dots *dots[SLIDE_STRIDE][SLIDE_TAPS];
} slide;
extern const slide slide_of_isa[];

enum { SLIDE_LOW = 4 }; /* rows of the lower tile */

/* The widest vectors that a row fills, of an instruction set or a lesser one; NULL: there are none. */
const slide *slide_of(int isa, ptrdiff_t width);

/* All rows of a result, `width` windows each. */
void slide_image(const slide *v, const slide_columns *s, int stride, int taps, ptrdiff_t rows,
                 ptrdiff_t width, const st_real *weight, const st_real *b, st_real *c, ptrdiff_t far,
                 st_real plus);

/* Adds the sums over all windows to sum [columns, taps, lanes]; and each of them to dw[at[k] + t * down]. */
void slide_sum_image(const slide *v, const slide_columns *s, int stride, int taps, ptrdiff_t rows,
                     ptrdiff_t width, const st_real *b, const st_real *dy, ptrdiff_t far, st_real *sum);
void slide_add_sums(const slide *v, const slide_columns *s, int taps, const st_real *sum, st_real *dw);

#endif
