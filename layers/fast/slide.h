/* slide.h: convolutions of one channel at a time, as depthwise ones are.
 *
 * Lanes are windows of a row. A vector of the image is loaded once for all windows above it: of a column
 * of taps
 *
 *     c[r][e] = plus + Σ_k Σ_t weight[at[k] + t * down] x[k][t][r][e]
 *     x[k][t][r][e] = b[offset[k] + (top + r * stride + t) * pitch + e * stride]
 *
 * Images are read in place: rows above or below them are left out, and lanes beside them are masked. */
#ifndef STRIDE_LAYERS_FAST_SLIDE_H
#define STRIDE_LAYERS_FAST_SLIDE_H

#include "layers/layer_impl.h"
#include "tensor/fast/isa.h"

enum { SLIDE_STRIDE = 2, SLIDE_TAPS = 7 }; /* the largest; */
enum { SLIDE_ROWS = 8 };                   /* of a tile */

/* Columns of taps, and the image. Vectors may read elements before and after it, which are dropped. */
typedef struct slide_columns {
    ptrdiff_t count;
    const ptrdiff_t *offset, *at; /* of what its first tap reads in the image's first row; of its weights */
    const ptrdiff_t *left;        /* the column that the first window reads */
    ptrdiff_t down;               /* from a row's weights to the next one's */
    ptrdiff_t top, pitch, height; /* the row that the first tap of the first window reads; of the image */
    ptrdiff_t before, after;
    const st_real *keep; /* masks of the columns of a row, and before and after it */
} slide_columns;

/* Rows of a tile: those that the image has, as bits, and those that are made: whole vectors, or exactly the
 * elements before `width`. Of sums, the elements before `skip` belong to another tile. */
typedef struct slide_tile {
    unsigned inside;
    bool exact;
    ptrdiff_t rows, width, skip;
    const st_real *keep; /* of column 0 */
} slide_tile;

typedef void slide_make(const slide_columns *s, const slide_tile *q, const st_real *weight, const st_real *b,
                        st_real *c, ptrdiff_t far, st_real plus);

/* sum[k][t][e] += Σ_r dy[r][e] x[k][t][r][e], skip <= e < width. */
typedef void slide_dots(const slide_columns *s, const slide_tile *q, const st_real *b, const st_real *dy,
                        ptrdiff_t far, st_real *sum);

/* For each instruction set (tensor/fast/isa.h), by stride - 1 and taps - 1. */
typedef struct slide {
    int lanes;
    slide_make *make[SLIDE_STRIDE][SLIDE_TAPS];
    slide_dots *dots[SLIDE_STRIDE][SLIDE_TAPS];
} slide;
extern const slide slide_of_isa[];

/* The best vectors of an instruction set or a lesser one for rows of so many windows, and the cost of a row,
 * in those of the instruction set. */
const slide *slide_of(int isa, ptrdiff_t width, double *cost);

/* All rows of a result, `width` windows each; unless `exact`, it may be followed by up to lanes - width other
 * elements. */
void slide_image(const slide *v, const slide_columns *s, int stride, int taps, ptrdiff_t rows,
                 ptrdiff_t width, bool exact, const st_real *weight, const st_real *b, st_real *c,
                 st_real plus);

/* Adds the sums over all windows to sum [columns, taps, lanes]. */
void slide_sum_image(const slide *v, const slide_columns *s, int stride, int taps, ptrdiff_t rows,
                     ptrdiff_t width, const st_real *b, const st_real *dy, st_real *sum);

#endif
