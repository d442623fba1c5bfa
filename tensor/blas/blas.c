/* blas.c: matrix products by BLAS, which multiplies views whose rows or columns have a stride of 1, and
 * copies of others. The only file of the library that includes cblas.h. */
#define _DEFAULT_SOURCE
#include "tensor/error.h"
#include "tensor/tables.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#ifdef STRIDE_DOUBLE
#define blas_gemm cblas_dgemm
#define blas_gemv cblas_dgemv
#else
#define blas_gemm cblas_sgemm
#define blas_gemv cblas_sgemv
#endif

/* Stride runs images in parallel, each product on one thread, so that results do not depend on how BLAS would
 * divide it. OpenBLAS built without threads must not be called from two threads at once. The symbols are weak
 * because other BLAS libraries have none of them and do not need them. */
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

/* OpenBLAS built with OpenMP uses OpenMP's number of threads: a number that is set here would become the
 * caller's, and be overwritten at the next product. */
static void set_blas_threads(void)
{
    enum { SERIAL, PTHREADS, OPENMP };
    int parallel = openblas_get_parallel ? openblas_get_parallel() : PTHREADS;
    one_at_a_time = parallel == SERIAL;
    asks_openmp = parallel == OPENMP && omp_get_max_threads && omp_set_num_threads;
    if (openblas_set_num_threads && !asks_openmp) openblas_set_num_threads(1);
}

/* Between these two calls a product uses one thread. The second restores what the first returned. */
static int begin_product(void)
{
    pthread_once(&once, set_blas_threads);
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

/* A matrix in BLAS's form: rows (or, transposed, columns) of stride 1, `leading` elements apart. */
typedef struct matrix {
    st_real *data;
    bool transposed;
    int leading;
} matrix;

/* An axis of size 1 may have any stride. */
static bool blas_takes(st_tensor x, matrix *m)
{
    for (int row = 0; row < 2; row++) { /* the axis of rows, or of columns */
        const ptrdiff_t rows = x.shape.n[row], length = x.shape.n[1 - row];
        const ptrdiff_t leading = rows == 1 ? length : x.stride[row];
        *m = (matrix){ st_data(x), row == 1, (int)leading };
        if ((length == 1 || x.stride[1 - row] == 1) && leading >= length && leading <= INT_MAX) return true;
    }
    return false;
}

/* The view itself if BLAS supports it, else a copy that the caller frees. */
static st_tensor packed(st_tensor x, matrix *m)
{
    if (blas_takes(x, m)) return x;
    st_tensor copy = st_tensor_clone(x);
    if (!st_is_null(copy)) blas_takes(copy, m);
    return copy;
}

static void unpack(st_tensor copy, st_tensor x)
{
    if (copy.storage != x.storage) st_tensor_free(copy);
}

/* OpenBLAS allocates its buffer with the first product, and if there is no memory it tries again forever. */
static bool has_memory(void)
{
    enum { BUFFER = 160 << 20 };
    static atomic_bool known;
    if (known || !openblas_set_num_threads) return true;
    void *probe = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    known = probe != MAP_FAILED && munmap(probe, BUFFER) == 0;
    if (!known)
        st_error_set("st_gemm: no memory for the %d MiB that OpenBLAS takes with its first product",
                     BUFFER >> 20);
    return known;
}

static bool sizes_fit(st_tensor c, st_tensor a, st_tensor b)
{
    if (c.shape.n[0] <= INT_MAX && c.shape.n[1] <= INT_MAX && a.shape.n[1] <= INT_MAX) return true;
    st_error_set("st_gemm: %s = %s times %s is too large for BLAS", st_shape_text(c.shape).text,
                 st_shape_text(a.shape).text, st_shape_text(b.shape).text);
    return false;
}

/* A product that has one column: BLAS's product of matrices would copy a. False: BLAS does not take these. */
static bool vector_product(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta)
{
    matrix m;
    const ptrdiff_t rows = a.shape.n[0], columns = a.shape.n[1], step_b = columns == 1 ? 1 : b.stride[0],
                    step_c = rows == 1 ? 1 : c.stride[0];
    if (step_b < 1 || step_c < 1 || step_b > INT_MAX || step_c > INT_MAX || !blas_takes(a, &m)) return false;
    if (beta == 0) st_fill(c, 0), beta = 1; /* some libraries multiply what c holds */
    int threads = begin_product();
    blas_gemv(CblasRowMajor, m.transposed ? CblasTrans : CblasNoTrans, (int)(m.transposed ? columns : rows),
              (int)(m.transposed ? rows : columns), alpha, m.data, m.leading, st_data(b), (int)step_b, beta,
              st_data(c), (int)step_c);
    end_product(threads);
    return true;
}

/* In c's order, rows or columns first, a matrix in the other order is transposed. */
static void product(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta)
{
    matrix mc, ma, mb;
    if (!sizes_fit(c, a, b) || !has_memory()) return;
    if (c.shape.n[1] == 1 && vector_product(c, alpha, a, b, beta)) return;
    if (c.shape.n[0] == 1 &&
        vector_product(st_transpose(c, 0, 1), alpha, st_transpose(b, 0, 1), st_transpose(a, 0, 1), beta))
        return;
    const st_tensor pc = packed(c, &mc), pa = packed(a, &ma), pb = packed(b, &mb);
    if (!st_is_null(pc) && !st_is_null(pa) && !st_is_null(pb)) {
        int threads = begin_product();
        blas_gemm(mc.transposed ? CblasColMajor : CblasRowMajor,
                  ma.transposed == mc.transposed ? CblasNoTrans : CblasTrans,
                  mb.transposed == mc.transposed ? CblasNoTrans : CblasTrans, (int)c.shape.n[0],
                  (int)c.shape.n[1], (int)a.shape.n[1], alpha, ma.data, ma.leading, mb.data, mb.leading, beta,
                  mc.data, mc.leading);
        end_product(threads);
        if (pc.storage != c.storage) st_copy(c, pc);
    }
    unpack(pc, c);
    unpack(pa, a);
    unpack(pb, b);
}

product_function *product_by_library = product;
