/* kernel.h: the small matrix products of the algorithms.
 *
 *     c[i][j] (+)= Σ_k a[row[i] + step[k]] b[offset[k] + j]      i < rows, j < columns, k < depth
 *
 * Elements of a and rows of b may be anywhere and overlap: matrices need not be packed or transposed, and the
 * windows of an image are rows of b (or elements of a) without a copy. Row i of c begins at c + i * pitch.
 *
 * An element is summed in the order of k, independent of the rows and columns around it.
 *
 * With few columns j, lanes are used for k (kernel_dot):
 *
 *     c[i][j] += Σ_k Σ_e a[i * step + k * lanes + e] b[row[j] + offset[k] + e]      e < lanes */
#ifndef STRIDE_LAYERS_FAST_KERNEL_H
#define STRIDE_LAYERS_FAST_KERNEL_H

#include "layers/layer_impl.h"

enum { KERNEL_TALL = 12, KERNEL_WIDE = 4 }; /* rows and vectors of the largest tile, */
enum { KERNEL_HIGH = 6, KERNEL_DEEP = 4 };  /* and rows and columns of the largest tile of dot */

typedef void kernel_tile(ptrdiff_t depth, const st_real *a, const ptrdiff_t *row, const ptrdiff_t *step,
                         const st_real *b, const ptrdiff_t *offset, st_real *c, ptrdiff_t pitch, bool add);

typedef void kernel_dot_tile(ptrdiff_t depth, const st_real *a, ptrdiff_t step, const st_real *b,
                             const ptrdiff_t *row, const ptrdiff_t *offset, st_real *c, ptrdiff_t pitch);

/* The kernel for an instruction set: its tiles, by their rows - 1 and vectors - 1. */
typedef struct kernel {
    const char *name;            /* "avx512" */
    int lanes;                   /* elements in a vector */
    int wide, tall[KERNEL_WIDE]; /* the largest tiles: vectors, and rows for each number of vectors; */
    int high, deep;              /* and of dot */
    kernel_tile *tile[KERNEL_TALL][KERNEL_WIDE];
    kernel_dot_tile *dot[KERNEL_HIGH][KERNEL_DEEP];
    /* A square of vectors: c[j * pitch + i] = a[i * step + j] + plus[j], i and j < lanes. */
    void (*transpose)(const st_real *a, ptrdiff_t step, st_real *c, ptrdiff_t pitch, const st_real *plus);
    void (*move)(ptrdiff_t rows, ptrdiff_t width, const st_real *from, ptrdiff_t from_pitch, st_real *to,
                 ptrdiff_t to_pitch, st_real plus); /* width >= lanes */
} kernel;

/* The kernels for all instruction sets (tensor/machine.h), and for the one that a layer was planned for. */
extern const kernel *const kernel_of_machine[];
static inline const kernel *kernel_of(const st_layer *l)
{
    return kernel_of_machine[l->impl->machine];
}

/* The product; columns >= lanes. */
void kernel_product(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const st_real *a,
                    const ptrdiff_t *row, const ptrdiff_t *step, const st_real *b, const ptrdiff_t *offset,
                    st_real *c, ptrdiff_t pitch, bool add);

void kernel_dot(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const st_real *a,
                ptrdiff_t step, const st_real *b, const ptrdiff_t *row, const ptrdiff_t *offset, st_real *c,
                ptrdiff_t pitch);

/* to[j][i] = from[i][j] + plus[j], i < rows, j < columns; plus NULL: nothing. Rows begin `step` apart in
 * `from` and `pitch` apart in `to`. */
void kernel_transpose(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, const st_real *from, ptrdiff_t step,
                      st_real *to, ptrdiff_t pitch, const st_real *plus);

/* Copies rows of `width` numbers, adding a constant, from one pitch to another. They must not overlap. */
void kernel_move(const kernel *k, ptrdiff_t rows, ptrdiff_t width, const st_real *from, ptrdiff_t from_pitch,
                 st_real *to, ptrdiff_t to_pitch, st_real plus);

/* The next multiple of lanes. */
ptrdiff_t kernel_padded(const kernel *k, ptrdiff_t count);

#endif
