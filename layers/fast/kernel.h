/* kernel.h: the small matrix products of the algorithms.
 *
 *     c[i][j] (+)= Σ_k a[row[i] + step[k]] b[offset[k] + j]      i < rows, j < columns, k < depth
 *
 * Elements of a and rows of b may be anywhere and overlap: matrices need not be packed or transposed, and the
 * windows of an image are rows of b (or elements of a) without a copy. Row i of c begins at c + i * pitch.
 *
 * An element is summed in the order of k, independent of the rows and columns around it.
 *
 * Vectors of columns may also be anywhere (kernel_spread), e < lanes:
 *
 *     c[i][to[v] + e] = plus[i] + Σ_k a[i * row + step[k]] b[offset[k] + from[v] + e]      or (+)=
 *
 * With few columns j, lanes are used for k (kernel_dot):
 *
 *     c[i][j] += Σ_k Σ_e a[i * step + from[k] + e] b[row[j] + offset[k] + e]      skip[k] <= e < lanes
 *
 * Matrices whose elements are at fixed distances (kernel_matrix):
 *
 *     c[i][j] = begin[i][j] + Σ_k a[i][k] b[k][j] */
#ifndef STRIDE_LAYERS_FAST_KERNEL_H
#define STRIDE_LAYERS_FAST_KERNEL_H

#include "layers/layer_impl.h"
#include "tensor/fast/isa.h"
#include "tensor/inline.h"

enum { KERNEL_TALL = 12, KERNEL_WIDE = 4 }; /* rows and vectors of the largest tile, */
enum { KERNEL_HIGH = 6, KERNEL_DEEP = 4 };  /* rows and columns of dot's, */
enum { KERNEL_FAR = 6 };                    /* and vectors of spread's, which has as many rows as a tile */

typedef void kernel_tile(ptrdiff_t depth, const st_real *a, const ptrdiff_t *row, const ptrdiff_t *step,
                         const st_real *b, const ptrdiff_t *offset, st_real *c, ptrdiff_t pitch, bool add);

typedef void kernel_spread_tile(ptrdiff_t depth, const st_real *a, ptrdiff_t row, const ptrdiff_t *step,
                                const st_real *b, const ptrdiff_t *offset, const ptrdiff_t *from, st_real *c,
                                ptrdiff_t pitch, const ptrdiff_t *to, const st_real *plus, bool add);

typedef void kernel_matrix_tile(ptrdiff_t depth, const st_real *a, ptrdiff_t row, ptrdiff_t step,
                                const st_real *b, ptrdiff_t next, const st_real *begin, ptrdiff_t beside,
                                st_real *c, ptrdiff_t pitch);

typedef void kernel_dot_tile(ptrdiff_t depth, const st_real *a, ptrdiff_t step, const ptrdiff_t *from,
                             const st_real *keep, const ptrdiff_t *skip, const st_real *b,
                             const ptrdiff_t *row, const ptrdiff_t *offset, st_real *c, ptrdiff_t pitch);

/* The kernel for an instruction set: its tiles, by their rows - 1 and vectors - 1. */
typedef struct kernel {
    const char *name;            /* "avx512" */
    int lanes;                   /* elements in a vector */
    int wide, tall[KERNEL_WIDE]; /* the largest tiles: vectors, and rows for each number of vectors; */
    int high, deep;              /* of dot; */
    int far, steep[KERNEL_FAR];  /* and of spread: vectors, and rows for each number of vectors */
    kernel_tile *tile[KERNEL_TALL][KERNEL_WIDE];
    kernel_matrix_tile *matrix[KERNEL_TALL][KERNEL_WIDE];
    kernel_spread_tile *spread[KERNEL_FAR][KERNEL_TALL]; /* by vectors and rows */
    kernel_dot_tile *dot[KERNEL_HIGH][KERNEL_DEEP];
    /* A square of vectors: c[j * pitch + i] = a[i * step + j] + plus[j], i and j < lanes. */
    void (*transpose)(const st_real *a, ptrdiff_t step, st_real *c, ptrdiff_t pitch, const st_real *plus);
    /* For each k, the elements b[offset[k] + from[r]], ... of all runs r, of length[r] elements, one after
     * another: to[k * pitch]. Vectors may write beyond the last one, and read up to `end`. */
    void (*pack)(ptrdiff_t depth, const st_real *b, const ptrdiff_t *offset, const st_real *end,
                 ptrdiff_t runs, const ptrdiff_t *from, const ptrdiff_t *length, st_real *to,
                 ptrdiff_t pitch);
    /* Moves rows of `count` elements, or (split) of as many with one between them; rows begin `step` apart in
     * `from` and `pitch` apart in `to`. */
    void (*move)(ptrdiff_t rows, ptrdiff_t count, const st_real *from, ptrdiff_t step, st_real *to,
                 ptrdiff_t pitch);
    void (*split)(ptrdiff_t rows, ptrdiff_t count, const st_real *from, ptrdiff_t step, st_real *to,
                  ptrdiff_t pitch);
    /* The same, with apart - 1 elements between them, apart <= lanes; NULL: not faster than one by one. */
    void (*pick)(ptrdiff_t rows, ptrdiff_t count, ptrdiff_t apart, const st_real *from, ptrdiff_t step,
                 st_real *to, ptrdiff_t pitch);
    /* Moves elements 3 * i + p of rows, i < count, count >= lanes, to to[p] + i, unless that is NULL; NULL
     * where pick is. */
    void (*deal)(ptrdiff_t rows, ptrdiff_t count, const st_real *from, ptrdiff_t step, st_real *const to[3],
                 ptrdiff_t pitch);
    /* Rows of `count` elements of u and of as many of v, in turns. */
    void (*weave)(ptrdiff_t rows, ptrdiff_t count, const st_real *u, ptrdiff_t step_u, const st_real *v,
                  ptrdiff_t step_v, st_real *to, ptrdiff_t pitch);
} kernel;

/* The kernels for all instruction sets (tensor/fast/isa.h), and for the one that a layer was planned
 * for. */
extern const kernel *const kernel_of_isa[];
INLINE const kernel *kernel_of(const st_layer *l)
{
    return kernel_of_isa[l->impl->isa];
}

/* The kernel with the widest vectors that `most` elements fill, of k and those below it; NULL: there is
 * none. */
const kernel *kernel_narrower(const kernel *k, ptrdiff_t most);

/* A table of offsets: at[i] = i * step, i < count. */
static inline void iota(ptrdiff_t *at, ptrdiff_t count, ptrdiff_t step)
{
    for (ptrdiff_t i = 0; i < count; i++) at[i] = i * step;
}

/* The product; columns >= lanes. */
void kernel_product(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const st_real *a,
                    const ptrdiff_t *row, const ptrdiff_t *step, const st_real *b, const ptrdiff_t *offset,
                    st_real *c, ptrdiff_t pitch, bool add);

/* A matrix: its first element, and the distances of rows and of columns. */
typedef struct kernel_view {
    const st_real *at;
    ptrdiff_t row, column;
} kernel_view;

/* Rows or columns of a have a distance of 1, and so have those of b. begin.at NULL: 0. Rows of c are `pitch`
 * apart. `along`: tiles follow each other along the rows of c, which no cache has, not down its columns.
 * `panel` is room for copies of blocks of b, and of a if its rows have a distance of 1; NULL: they are used
 * in place, and columns are a multiple of lanes. */
enum {
    KERNEL_DEPTH = 384,                     /* k in a block, */
    KERNEL_LONG = 1024,                     /* or in one of few columns, and */
    KERNEL_BREADTH = 512 / sizeof(st_real), /* columns of b: */
    KERNEL_PITCH = 576 / sizeof(st_real)    /* rows are in different sets of the first cache */
};
ptrdiff_t kernel_panel(ptrdiff_t rows, ptrdiff_t depth); /* its elements; rows 0: without a copy of a */
void kernel_matrix(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, kernel_view a,
                   kernel_view b, kernel_view begin, st_real *c, ptrdiff_t pitch, bool along, st_real *panel);

/* plus NULL: nothing; add: to c, without plus; ahead: prefetches rows of b, which are in memory and far from
 * each other. */
void kernel_spread(const kernel *k, ptrdiff_t rows, ptrdiff_t vectors, ptrdiff_t depth, const st_real *a,
                   ptrdiff_t row, const ptrdiff_t *step, const st_real *b, const ptrdiff_t *offset,
                   const ptrdiff_t *from, st_real *c, ptrdiff_t pitch, const ptrdiff_t *to,
                   const st_real *plus, bool add, bool ahead);

void kernel_dot(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const st_real *a,
                ptrdiff_t step, const ptrdiff_t *from, const ptrdiff_t *skip, const st_real *b,
                const ptrdiff_t *row, const ptrdiff_t *offset, st_real *c, ptrdiff_t pitch);

/* to[j][i] = from[i][j] + plus[j], i < rows, j < columns; plus NULL: nothing. Rows begin `step` apart in
 * `from` and `pitch` apart in `to`. */
void kernel_transpose(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, const st_real *from, ptrdiff_t step,
                      st_real *to, ptrdiff_t pitch, const st_real *plus);

/* The next multiple of lanes. */
ptrdiff_t kernel_padded(const kernel *k, ptrdiff_t count);

/* ---- SHUFFLE(M, u, v, M##_OF(EVEN)) and others: lanes of two vectors ----------------------------------- */

/* Interleaves the lower halves, or the upper halves, of two vectors. */
#define LOWER_2 0, 2
#define UPPER_2 1, 3
#define LOWER_4 0, 4, 1, 5
#define UPPER_4 2, 6, 3, 7
#define LOWER_8 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOWER_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define UPPER_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

/* The same of the halves of both. */
#define LOWER_HALVES_4 0, 4, 2, 6
#define UPPER_HALVES_4 1, 5, 3, 7
#define LOWER_HALVES_8 0, 8, 1, 9, 4, 12, 5, 13
#define UPPER_HALVES_8 2, 10, 3, 11, 6, 14, 7, 15

/* The even, or the odd, lanes of two vectors. */
#define EVEN_2 0, 2
#define ODD_2 1, 3
#define EVEN_4 EVEN_2, 4, 6
#define ODD_4 ODD_2, 5, 7
#define EVEN_8 EVEN_4, 8, 10, 12, 14
#define ODD_8 ODD_4, 9, 11, 13, 15
#define EVEN_16 EVEN_8, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16 ODD_8, 17, 19, 21, 23, 25, 27, 29, 31

/* The even lanes of a vector, and the odd ones of the next one that begins an element earlier. */
#define SPLIT_2 0, 3
#define SPLIT_4 0, 2, 5, 7
#define SPLIT_8 0, 2, 4, 6, 9, 11, 13, 15
#define SPLIT_16 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31

#ifdef STRIDE_DOUBLE
#define avx512_OF(LANES) LANES##_8
#define avx2_OF(LANES) LANES##_4
#define generic_OF(LANES) LANES##_2
#else
#define avx512_OF(LANES) LANES##_16
#define avx2_OF(LANES) LANES##_8
#define generic_OF(LANES) LANES##_4
#endif

#ifdef __clang__
#define SHUFFLE(M, u, v, ...) __builtin_shufflevector(u, v, __VA_ARGS__)
#else
#define SHUFFLE(M, u, v, ...) __builtin_shuffle(u, v, (M##_mask){ __VA_ARGS__ })
#endif

/* HALVES: a vector of half vectors from two places, where PAIRS. */
#if defined(avx2_TARGET) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define PAIRS
typedef avx2_loose avx512_half;
typedef generic_loose avx2_half;
#define ALL_4 0, 1, 2, 3
#define ALL_8 ALL_4, 4, 5, 6, 7
#define ALL_16 ALL_8, 8, 9, 10, 11, 12, 13, 14, 15
#define HALVES(M, at, other)                                                                                 \
    __builtin_shufflevector(*(M##_half *)(at), *(M##_half *)((at) + (other)), M##_OF(ALL))
#endif
#endif

/* SHUFFLE_BY: the same by a variable, where M##_SHUFFLES. Instruction sets and compilers that have no such
 * shuffle read lane by lane. */
#ifdef __clang__
#define avx512_SHUFFLES false
#define avx2_SHUFFLES false
#define SHUFFLE_BY(M, u, v, index) ((void)(v), (void)(index), (u))
#else
#define avx512_SHUFFLES true
#define avx2_SHUFFLES true
#define SHUFFLE_BY(M, u, v, index) __builtin_shuffle(u, v, index)
#endif
#define generic_SHUFFLES false

/* GATHER: elements of a row by a vector of indexes, where M##_GATHERS. AVX2 has it, too, but no faster than
 * scalar loads. */
#ifdef STRIDE_DOUBLE
#define avx512_GATHER(row, index) __builtin_ia32_gatherdiv8df((avx512_vector){ 0 }, row, index, -1, 8)
#else
#define avx512_GATHER(row, index) __builtin_ia32_gathersiv16sf((avx512_vector){ 0 }, row, index, -1, 4)
#endif
#define avx2_GATHER(row, index) ((void)(row), (void)(index), (avx2_vector){ 0 })
#define generic_GATHER(row, index) ((void)(row), (void)(index), (generic_vector){ 0 })
#define avx512_GATHERS true
#define avx2_GATHERS false
#define generic_GATHERS false

/* Lanes of a vector in memory, by the bits of a mask; the others are those of v, or stay as they are. */
#ifdef STRIDE_DOUBLE
#define avx512_READ(from, v, bits) __builtin_ia32_loadupd512_mask(from, v, (unsigned char)(bits))
#define avx512_WRITE(to, v, bits) __builtin_ia32_storeupd512_mask(to, v, (unsigned char)(bits))
#else
#define avx512_READ(from, v, bits) __builtin_ia32_loadups512_mask(from, v, (unsigned short)(bits))
#define avx512_WRITE(to, v, bits) __builtin_ia32_storeups512_mask(to, v, (unsigned short)(bits))
#endif
#ifdef __clang__
#define avx512_PICK NULL
#define avx512_DEAL NULL
#else
#define avx512_PICK avx512_pick_out
#define avx512_DEAL avx512_deal_out
#endif
#define avx2_PICK NULL
#define avx2_DEAL NULL
#define generic_PICK NULL
#define generic_DEAL NULL

#endif
