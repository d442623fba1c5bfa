/* gemm.c: matrix products of views, c = alpha a b + beta c. */
#include "tensor/counts.h"
#include "tensor/error.h"
#include "tensor/engine.h"
#include "tensor/tables.h"
#include "tensor/storage.h"

__attribute__((weak)) product_function *product_by_library;

static bool fits(st_tensor c, st_tensor a, st_tensor b)
{
    if (!tensor_usable(c, "st_gemm") || !tensor_usable(a, "st_gemm") || !tensor_usable(b, "st_gemm"))
        return false;
    bool matrices = c.shape.rank == 2 && a.shape.rank == 2 && b.shape.rank == 2;
    if (!matrices || a.shape.n[0] != c.shape.n[0] || a.shape.n[1] != b.shape.n[0] ||
        b.shape.n[1] != c.shape.n[1]) {
        st_error_set("st_gemm: %s = %s times %s, expected [m, n] = [m, k] times [k, n]",
                     st_shape_text(c.shape).text, st_shape_text(a.shape).text, st_shape_text(b.shape).text);
        return false;
    }
    return true;
}

static void scale_or_clear(st_tensor c, st_real beta)
{
    if (beta == 0) st_fill(c, 0);
    else if (beta != 1) st_scale(c, beta);
}

/* ---- the product --------------------------------------------------------------------------------
 *
 * Blocks of c are sums of outer products: a column of a times a row of b, which is a copy with stride 1. Each
 * element of c is added up in the order of k, DEPTH of them at a time, whatever the sizes and strides. */

enum { ROWS = 2, COLUMNS = 32, DEPTH = 128 };

/* Copies b[k0 + k][j0 + j] to block[k][j]; columns beyond `columns` are 0. */
static void copy_block(st_real block[DEPTH][COLUMNS], st_tensor b, ptrdiff_t k0, ptrdiff_t depth,
                       ptrdiff_t j0, ptrdiff_t columns)
{
    for (ptrdiff_t k = 0; k < depth; k++) {
        const st_real *from = st_data(b) + (k0 + k) * b.stride[0] + j0 * b.stride[1];
        for (ptrdiff_t j = 0; j < columns; j++) block[k][j] = from[j * b.stride[1]];
        for (ptrdiff_t j = columns; j < COLUMNS; j++) block[k][j] = 0;
    }
}

/* c[i0 + i][j0 + j] += alpha times the sum over k of a[i0 + i][k0 + k] block[k][j]. Rows of a beyond `rows`
 * repeat the last one. */
static void add_block(st_tensor c, st_real alpha, st_tensor a, ptrdiff_t i0, ptrdiff_t rows, ptrdiff_t k0,
                      ptrdiff_t depth, st_real block[DEPTH][COLUMNS], ptrdiff_t j0, ptrdiff_t columns)
{
    st_real sum[ROWS][COLUMNS] = { { 0 } };
    const st_real *row[ROWS];
    for (ptrdiff_t i = 0; i < ROWS; i++)
        row[i] = st_data(a) + (i0 + smallest(i, rows - 1)) * a.stride[0] + k0 * a.stride[1];
    for (ptrdiff_t k = 0; k < depth; k++)
        for (int i = 0; i < ROWS; i++) {
            const st_real factor = row[i][k * a.stride[1]];
            for (int j = 0; j < COLUMNS; j++) sum[i][j] += factor * block[k][j];
        }
    for (ptrdiff_t i = 0; i < rows; i++) {
        st_real *to = st_data(c) + (i0 + i) * c.stride[0] + j0 * c.stride[1];
        for (ptrdiff_t j = 0; j < columns; j++) to[j * c.stride[1]] += alpha * sum[i][j];
    }
}

static void product(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta)
{
    const ptrdiff_t m = c.shape.n[0], n = c.shape.n[1], depth = a.shape.n[1];
    st_real block[DEPTH][COLUMNS];
    scale_or_clear(c, beta);
    for (ptrdiff_t j0 = 0; j0 < n; j0 += COLUMNS)
        for (ptrdiff_t k0 = 0; k0 < depth; k0 += DEPTH) {
            const ptrdiff_t columns = smallest(n - j0, COLUMNS), some = smallest(depth - k0, DEPTH);
            copy_block(block, b, k0, some, j0, columns);
            for (ptrdiff_t i0 = 0; i0 < m; i0 += ROWS)
                add_block(c, alpha, a, i0, smallest(m - i0, ROWS), k0, some, block, j0, columns);
        }
}

void st_gemm(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta)
{
    if (!fits(c, a, b) || st_numel(c) == 0) return;
    if (alpha == 0 || a.shape.n[1] == 0)
        scale_or_clear(c, beta); /* 0 times NaN differs among BLAS's kernels */
    else if (product_by_library && !engine_is_reference()) product_by_library(c, alpha, a, b, beta);
    else product(c, alpha, a, b, beta);
}
