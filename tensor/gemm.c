/* gemm.c: matrix products; the only file that includes cblas.h. Transposes are read from strides. */
#include "tensor/error.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>

#ifdef STRIDE_DOUBLE
#define blas_gemm cblas_dgemm
#else
#define blas_gemm cblas_sgemm
#endif

/* Stride runs images in parallel and wants each product on one thread: results then do not depend on
 * BLAS's own split. OpenBLAS built without threads must not even be called from two threads at once.
 * The symbols are weak because any other BLAS has none of them, and needs none of this. */
#if !defined(__APPLE__)
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern int openblas_get_parallel(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
#else
static void (*const openblas_set_num_threads)(int threads) = 0;
static int (*const openblas_get_parallel)(void) = 0;
static void (*const omp_set_num_threads)(int threads) = 0;
static int (*const omp_get_max_threads)(void) = 0;
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t serial = PTHREAD_MUTEX_INITIALIZER;
static bool one_at_a_time, asks_openmp;

/* OpenBLAS built with OpenMP takes as many threads as OpenMP would give its caller. The number that it is told
 * it forgets with the next product, after making it the caller's own. */
static void settle_threads(void)
{
    enum { SERIAL, PTHREADS, OPENMP };
    int parallel = openblas_get_parallel ? openblas_get_parallel() : PTHREADS;
    one_at_a_time = parallel == SERIAL;
    asks_openmp = parallel == OPENMP && omp_get_max_threads && omp_set_num_threads;
    if (openblas_set_num_threads && !asks_openmp) openblas_set_num_threads(1);
}

/* Between these a product takes one thread. What the first returns is for the second to restore. */
static int begin_product(void)
{
    pthread_once(&once, settle_threads);
    if (one_at_a_time) pthread_mutex_lock(&serial);
    if (!asks_openmp) return 0;
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    return threads;
}

static void end_product(int threads)
{
    if (asks_openmp) omp_set_num_threads(threads);
    if (one_at_a_time) pthread_mutex_unlock(&serial);
}

/* A matrix as BLAS takes it: rows (or, transposed, columns) of unit stride, `leading` apart. */
typedef struct matrix {
    real *data;
    CBLAS_TRANSPOSE transpose;
    int leading;
} matrix;

/* Along an axis of one no step is ever taken, so its stride may be whatever suits. */
static bool blas_takes(tensor x, matrix *m)
{
    ptrdiff_t rows = x.shape.n[0], columns = x.shape.n[1];
    ptrdiff_t down = x.stride[0], across = x.stride[1];
    *m = (matrix){ .data = tensor_data(x) };
    if (columns == 1 || across == 1) {
        m->transpose = CblasNoTrans;
        if (rows == 1) down = columns;
        if (columns == 1 && down < 1 && rows > 1) return false;
        m->leading = (int)down;
        if (down >= columns && down <= INT_MAX) return true;
    }
    if (rows == 1 || down == 1) {
        m->transpose = CblasTrans;
        if (columns == 1) across = rows;
        m->leading = (int)across;
        if (across >= rows && across <= INT_MAX) return true;
    }
    return false;
}

/* The view itself where BLAS takes it, else a packed copy that the caller frees. */
static tensor packed(tensor x, matrix *m)
{
    if (blas_takes(x, m)) return x;
    tensor copy = tensor_clone(x);
    if (!tensor_is_null(copy)) blas_takes(copy, m);
    return copy;
}

static void unpack(tensor copy, tensor x)
{
    if (copy.storage != x.storage) tensor_free(copy);
}

static bool fits(tensor c, tensor a, tensor b)
{
    if (!tensor_usable(c, "tensor_gemm") || !tensor_usable(a, "tensor_gemm") ||
        !tensor_usable(b, "tensor_gemm"))
        return false;
    bool matrices = c.shape.rank == 2 && a.shape.rank == 2 && b.shape.rank == 2;
    if (!matrices || a.shape.n[0] != c.shape.n[0] || a.shape.n[1] != b.shape.n[0] ||
        b.shape.n[1] != c.shape.n[1]) {
        error_set("tensor_gemm: %s = %s times %s, expected [m, n] = [m, k] times [k, n]",
                  shape_text(c.shape).text, shape_text(a.shape).text, shape_text(b.shape).text);
        return false;
    }
    if (c.shape.n[0] > INT_MAX || c.shape.n[1] > INT_MAX || a.shape.n[1] > INT_MAX) {
        error_set("tensor_gemm: %s = %s times %s is too large for BLAS", shape_text(c.shape).text,
                  shape_text(a.shape).text, shape_text(b.shape).text);
        return false;
    }
    return true;
}

static void scale_or_clear(tensor c, real beta)
{
    if (beta == 0) tensor_fill(c, 0);
    else if (beta != 1) tensor_scale(c, beta);
}

void tensor_gemm(tensor c, real alpha, tensor a, tensor b, real beta)
{
    if (!fits(c, a, b)) return;
    if (tensor_count(c) == 0) return;
    if (alpha == 0 || a.shape.n[1] == 0) { /* not BLAS's business: 0 times NaN differs among kernels */
        scale_or_clear(c, beta);
        return;
    }
    matrix mc, ma, mb;
    tensor pc = packed(c, &mc);
    if (mc.transpose == CblasTrans) { /* c by columns: cᵀ = bᵀ aᵀ */
        tensor swap = a;
        a = tensor_transpose(b, 0, 1);
        b = tensor_transpose(swap, 0, 1);
        pc = tensor_transpose(pc, 0, 1);
        c = tensor_transpose(c, 0, 1);
    }
    tensor pa = packed(a, &ma), pb = packed(b, &mb);
    if (!tensor_is_null(pc) && !tensor_is_null(pa) && !tensor_is_null(pb)) {
        int threads = begin_product();
        blas_gemm(CblasRowMajor, ma.transpose, mb.transpose, (int)c.shape.n[0], (int)c.shape.n[1],
                  (int)a.shape.n[1], alpha, ma.data, ma.leading, mb.data, mb.leading, beta, mc.data,
                  mc.leading);
        end_product(threads);
        if (pc.storage != c.storage) tensor_copy(c, pc);
    }
    unpack(pa, a);
    unpack(pb, b);
    unpack(pc, c);
}
