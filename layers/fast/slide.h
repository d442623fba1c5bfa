/* slide.h: convolutions of one channel at a time, as depthwise ones are.
 *
 * Lanes are windows of a row. A vector of the image is loaded once for all windows above it: of a column
 * of taps
 *
 *     c[r][e] = plus + Σ_k Σ_t weight[at[k] + t * down] x[k][t][r][e]
 *     x[k][t][r][e] = b[offset[k] + first + r * next + t * pitch + e * stride]
 *
 * Images are read in place: rows above or below them are left out, and lanes beside them are masked. Rows
 * that fill at most half a vector are joined with those of another image. Taps that do not follow each other
 * down the image are columns of their own, of one tap; windows of those are any number of rows apart. */
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
    const ptrdiff_t *line;        /* the number of its first tap among `lines`: */
    const ptrdiff_t *inside;      /* of each SLIDE_ROWS rows of windows, and of each of them, the rows that */
    ptrdiff_t lines;              /* are in the image, as bits */
    ptrdiff_t down;               /* from a row's weights to the next one's */
    ptrdiff_t first, next, pitch; /* to the first window, to its next row, to the next row that is read */
    ptrdiff_t before, after;
    const st_real *keep; /* masks of the columns of a row, and before and after it */
} slide_columns;

/* A tile: what its first tap reads in the image, and its first result; its rows, those that the image has, of
 * each line, and those that are made. Of sums, the elements before `skip` belong to another tile. */
typedef struct slide_tile {
    ptrdiff_t from, to;
    const ptrdiff_t *inside;
    ptrdiff_t rows, width, skip;
    const st_real *keep; /* of its first column */
} slide_tile;

/* Planes that are made alike, of which `shared` at a time read the same: their number, and the distances from
 * one to the next one of weights, of what is read, and of results or, for sums, of windows. From number
 * `exact` on, vectors write no elements after a row. Of two images, the distances to the second one; alone:
 * there is only one; ahead: the next plane is fetched meanwhile. */
typedef struct slide_planes {
    ptrdiff_t count, shared, exact, weight, read, made, other_read, other_made;
    bool alone, ahead;
    const st_real *plus; /* NULL: nothing */
} slide_planes;

typedef void slide_make(const slide_columns *s, const slide_planes *p, const slide_tile *tile,
                        ptrdiff_t tiles, const st_real *weight, const st_real *b, st_real *c, ptrdiff_t far);

/* sum[k][t][e] += Σ_r dy[r][e] x[k][t][r][e], skip <= e < width. */
typedef void slide_dots(const slide_columns *s, const slide_planes *p, const slide_tile *tile,
                        ptrdiff_t tiles, const st_real *b, const st_real *dy, ptrdiff_t far, st_real *sum);

/* By how many rows and elements windows are apart. */
enum { ROWS_1_1, ROWS_1_2, ROWS_2_2, SLIDE_FORMS };

/* Of vectors of one image, or halves of two, by form and taps - 1; a column of one tap has rows of any
 * distance as if they were next to each other. */
typedef struct slide {
    int lanes, images; /* of each image; */
    slide_make *make[SLIDE_FORMS][SLIDE_TAPS];
    slide_dots *dots[SLIDE_FORMS][SLIDE_TAPS];
} slide;

/* The best vectors of an instruction set or a lesser one for rows of so many windows, of so many images, and
 * the cost of an image's row, in those of the instruction set. */
const slide *slide_of(int isa, ptrdiff_t width, int images, double *cost);

/* All rows of results, `width` windows each, which begin `far` apart. */
void slide_image(const slide *v, const slide_columns *s, const slide_planes *p, int stride, int taps,
                 ptrdiff_t rows, ptrdiff_t width, const st_real *weight, const st_real *b, st_real *c,
                 ptrdiff_t far);

/* Adds the sums over all windows to sum [planes, columns, taps, images, lanes]. */
void slide_sum_image(const slide *v, const slide_columns *s, const slide_planes *p, int stride, int taps,
                     ptrdiff_t rows, ptrdiff_t width, const st_real *b, const st_real *dy, st_real *sum);

#endif
