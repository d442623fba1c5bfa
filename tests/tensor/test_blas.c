/* test_blas.c: BLAS is called by one thread, and nobody's number of threads is changed by it. */
#include "tests/support.h"

/* Only where BLAS brings an OpenMP of its own. */
#if !defined(__APPLE__)
extern void omp_set_num_threads(int threads) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
#else
static void (*const omp_set_num_threads)(int threads) = NULL;
static int (*const omp_get_max_threads)(void) = NULL;
#endif

/* With so many threads for BLAS, if it asks OpenMP. */
static st_tensor product(int threads)
{
    if (omp_set_num_threads) omp_set_num_threads(threads);
    auto_tensor a = st_tensor_new(ST_SHAPE(120, 210)), b = st_tensor_new(ST_SHAPE(210, 90));
    st_tensor c = st_tensor_new(ST_SHAPE(120, 90));
    st_normal(a, (st_random_key){ 7, 1 }, 0, 1), st_normal(b, (st_random_key){ 7, 2 }, 0, 1);
    st_gemm(c, 1, a, b, 0);
    return c;
}

/* The first to call BLAS, which some make an occasion to change the caller's number of threads. */
TEST(products_take_one_thread_and_leave_the_number_of_others_alone)
{
    auto_tensor many = product(7);
    if (omp_get_max_threads) assert_int_equal(omp_get_max_threads(), 7);
    auto_tensor one = product(1);
    if (omp_get_max_threads) assert_int_equal(omp_get_max_threads(), 1);
    assert_memory_equal(st_data(many), st_data(one), (size_t)st_numel(one) * sizeof(st_real));
}
