/* rows.h: pooling, resizing and padding by rows, for every window and size: rows*.c.
 *
 * Means, interpolation and borders are y = A x Bᵀ in each channel, with few elements in a row of A and B. A
 * row of A x is a weighted sum of rows of x, by vectors along them (rows_sums.h). Its columns are made in one
 * of these ways, whichever is estimated to take the fewest instructions (rows_choose.c):
 *
 *     rows_columns.c  as many rows as a vector has lanes are transposed, and columns are sums of vectors
 *     rows_picks.c    where each y needs few columns, they are picked from the row by shuffles; or, of small
 *                     images, from whole planes
 *     rows_runs.c     where B only moves runs of columns, as borders do, they are copied
 *     rows_maxima.c   maxima of columns, and then those of rows, by the first or the second way
 *     rows_tiles.c    maxima with planes as lanes
 *
 * The adjoint is the same with the transposed matrices; that of maxima adds to their places. rows_plan.c
 * makes the tables when the layer is built, rows.c divides channels among threads, and rows_norms.c adds
 * powers and roots for p-norms. */
#ifndef STRIDE_LAYERS_FAST_ROWS_H
#define STRIDE_LAYERS_FAST_ROWS_H

#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "layers/fast/lanes.h"
#include "layers/pool_impl.h"
#include "layers/separable.h"

enum { AHEAD = 8192 / sizeof(st_real) }; /* rows are fetched so far before they are read or written */
enum { BESIDE = 4 };                     /* vectors at once */
enum { BLOCK = 8192 / sizeof(st_real) }; /* elements of rows that are summed before they are picked from */
enum { PLANE = 4096 };                   /* elements of a plane that is picked from, at most */
enum { MOST_JOINED = 16 };               /* vectors that joined planes fill */
enum { MOST_PICKS = 12 };                /* of an element */
enum { ABREAST = 2, TILE = 2048 };       /* vectors of planes; elements of each that are lanes at once */
#define NOWHERE (-(st_real)(1 << 24))    /* the row and the column of no element */

/* How one tap of each of a vector of elements is read: from `parts` vectors of the row, lane l from
 * row[from[index[l] / lanes] + index[l] % lanes]; 0 parts: the lanes are adjacent. With one part, the index
 * of a lane without this tap is `lanes`, in a second vector. */
typedef struct pick {
    ptrdiff_t taps; /* of this vector, in its first pick */
    int from[LANES_MOST], parts;
    bool lacks;   /* there are lanes without this tap, whose weight is 0 */
    bool ones;    /* the weights of the others are 1 */
    bool gathers; /* lane l is row[index[l]] */
} pick;

/* The picks of vectors of elements, in their order, each with an index and a weight for each lane. Those of
 * maxima have a column instead of a weight, or a place in the plane, -1 outside, and NOWHERE for a lane
 * without this tap. Short rows are joined, so that they fill vectors. */
typedef struct picks {
    bool used;                 /* otherwise columns are vectors */
    bool gathers;              /* some elements are gathered */
    bool moves;                /* elements have one tap at most, of weight 1, and the picks are few; rows are
                                * not long, nor longer than what they make: groups are moved one by one */
    ptrdiff_t rows, step, out; /* rows at once, `step` from each other; the elements that they make */
    ptrdiff_t low, high;       /* the elements of a row that are read, */
    ptrdiff_t reach;           /* and those of all rows, up to the last one of a vector */
    ptrdiff_t room;            /* for so many of them */
    pick *pick;
    isa_bits *index;
    st_real *weight;
} picks;

/* The matrix of an axis: taps begin[i] ... begin[i + 1] - 1 make element i of y. Those of maxima may lie
 * outside, where there are zeros. */
typedef struct sparse {
    ptrdiff_t size, out, pitch, out_pitch; /* pitches: sizes that are multiples of LANES_MOST */
    ptrdiff_t *begin, *alike; /* so many elements from each on have the same taps, one further each time */
    tap *taps;
    st_real *counted;   /* elements of a mean along the axis */
    bool ordered, even; /* y is x along the axis; all of counted are alike */
    picks picks;
} sparse;

/* y[to], y[to + 1], ... = x[from], x[from + step], ...; step is 1, -1 or 0. */
typedef struct column_run {
    ptrdiff_t to, from, count, step;
} column_run;

typedef struct rows_plan {
    union {
        pool_plan pool;
        separable separable;
    } definition;             /* comes first, for the definition's functions */
    sparse axis[2], each[2];  /* rows, columns */
    sparse back[2];           /* the transposed matrices, without taps outside */
    column_run *runs;         /* of columns, if each has at most one tap, of weight 1, and they are few: */
    ptrdiff_t run_count;      /* 0: they are not */
    bool by_runs[2];          /* forward, backward: runs, not picks */
    sparse plane[2], half[2]; /* the matrices of planes as picks, or of one axis, and then of the other, */
    bool by_planes[2];        /* if they are used */
    st_real *shares;          /* 1 / the number of elements of each mean, for as many planes as are joined */
    bool flat, tall, same;    /* tall: columns come before rows, which become more; same: y is x */
    bool means;               /* taps have shares */
    bool single;              /* maxima are those of one row at most */
    bool abreast;             /* maxima have planes as lanes */
    st_real value;            /* where there is no tap */
    double p;                 /* of a p-norm; 0: it is none */
    ptrdiff_t planes;         /* of all images */
    int scratch;              /* the first slot */
} rows_plan;

enum { ROOM, IMAGE, HALF }; /* scratch, from the plan's first slot on; an image; a channel, half resized */
enum { PLACES };            /* memory: the places of maxima in their channel; -1: none */

typedef struct work {
    const rows_plan *plan;
    const kernel *kernel;
    ptrdiff_t planes;
    st_real *rows, *columns, *out_columns, *out_rows; /* LANES_MOST of each */
    st_real *places, *place_columns;                  /* of maxima */
    st_real *half;                                    /* channels whose columns alone are resized */
    st_real *block, *share;                           /* rows to be picked from, and their means' shares */
    st_real *tile, *tile_out, *tile_places; /* elements of which ABREAST vectors of planes are lanes */
} work;

/* Weighted sums; maxima with their places, and the adjoint: each y whose maximum has the place. */
typedef enum picking { SUMS, MAXIMA, BACK } picking;

INLINE bool is_outside(const sparse *a, tap t)
{
    return t.from < 0 || t.from >= a->size;
}

/* Tests if n elements do not stay in a cache. */
enum { SECOND = 1 << 20, THIRD = 1 << 25 };
INLINE bool is_far(ptrdiff_t n, ptrdiff_t bytes)
{
    return n > bytes / (ptrdiff_t)sizeof(st_real);
}

/* Rows, as many as there are lanes, become columns. Those that are missing hold numbers that are not used. */
INLINE void turn_rows(const kernel *k, ptrdiff_t pitch, const st_real *rows, st_real *columns)
{
    kernel_transpose(k, k->lanes, pitch, rows, pitch, columns, k->lanes, NULL);
}

/* n <= lanes rows of an image as columns of vectors, by way of `rows`, which begin `pitch` apart. */
INLINE void enter(const kernel *k, ptrdiff_t n, ptrdiff_t size, ptrdiff_t pitch, const st_real *from,
                  st_real *rows, st_real *columns)
{
    if (n == k->lanes && size >= k->lanes) {
        kernel_transpose(k, n, size, from, size, columns, n, NULL);
        return;
    }
    k->move(n, size, from, size, rows, pitch);
    turn_rows(k, pitch, rows, columns);
}

INLINE void leave(const kernel *k, ptrdiff_t n, ptrdiff_t size, ptrdiff_t pitch, const st_real *columns,
                  st_real *rows, st_real *to)
{
    if (n == k->lanes && size >= k->lanes) {
        kernel_transpose(k, size, n, columns, n, to, size, NULL);
        return;
    }
    kernel_transpose(k, pitch, k->lanes, columns, k->lanes, rows, pitch, NULL);
    k->move(n, size, rows, pitch, to, size);
}

/* ---- passes: tables of functions for each instruction set ------------------------------------------- */

/* y from x; or, back, dx from dy. */
typedef void rows_pass(const work *w, bool back, const st_real *from, st_real *to);
extern rows_pass *const rows_by_columns[], *const rows_by_picks[];
extern rows_pass *const rows_by_planes[], *const rows_by_runs[];

/* Maxima and, unless NULL, their places. */
typedef void maxima_pass(const work *w, const st_real *x, st_real *places, st_real *y);
extern maxima_pass *const maxima_by_rows[], *const maxima_by_tiles[];

/* Both ways, by planes. */
typedef void planes_pass(const work *w, bool back, const st_real *from, st_real *places, st_real *to);
extern planes_pass *const maxima_by_planes[];

/* Runs the pass that the plan has chosen, of sums. */
void rows_run(const st_call *c, const work *w, bool back, const st_real *from, st_real *to);

/* ---- plans ------------------------------------------------------------------------------------------- */

/* Image i as contiguous elements; a view of others is copied. */
const st_real *rows_image_of(const st_call *c, st_tensor x, ptrdiff_t i);

/* The memory of a call for so many channels, as it was planned. */
work rows_work_of(const st_call *c, ptrdiff_t planes);

/* An axis without its table; pitches are padded sizes. */
INLINE ptrdiff_t padded(ptrdiff_t n)
{
    return ceil_div(n, LANES_MOST) * LANES_MOST;
}

INLINE sparse axis_of(ptrdiff_t size, ptrdiff_t out)
{
    return (sparse){ .size = size, .out = out, .pitch = padded(size), .out_pitch = padded(out) };
}

/* The vectors of an axis's picks, `most` for each; of picks of planes; and bytes of picks. */
ptrdiff_t rows_room_of_picks(const sparse *a, ptrdiff_t most, int lanes);
ptrdiff_t rows_room_of_planes(const sparse each[], int lanes);
size_t rows_bytes_of_picks(ptrdiff_t room, int lanes);

/* Finds the columns' runs, if they are few. */
void rows_find_runs(rows_plan *p);

/* The fastest ways for rows and columns as they are; returns about how many instructions a channel takes
 * more than if each way took `flat`. */
double rows_choose(rows_plan *p, bool maxima, int isa, picks *room, double flat);

/* Estimated instructions of a channel: by runs, or their adjoint; and of maxima by tiles. */
double rows_cost_of_runs(const rows_plan *p, int lanes, bool shuffles, bool back);
double rows_cost_of_tiles(const rows_plan *p, int lanes);

/* Elements of a tile that has room for so many of a plane. */
INLINE ptrdiff_t room_of_tile(ptrdiff_t elements)
{
    return smallest(elements, TILE) * ABREAST * LANES_MOST;
}

#endif
