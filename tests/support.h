/* support.h: what the test programs share: claims, random cases, exact comparison, expected errors.
 *
 * Data of small integers keeps every sum and product exact, so that results are compared for equality. */
#ifndef STRIDE_TESTS_SUPPORT_H
#define STRIDE_TESTS_SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "layers/describe/describe.h"
#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/random.h"
#include "tensor/reduce/reduce.h"
#include "tensor/tensor.h"
#include "tensor/threads.h"

/* ---- claims ---------------------------------------------------------------------------------- */

/* A test: TEST(name) { ... }. It begins without an error, and may not leave one behind. Tests run in their
 * file's order. */
#define TEST(name)                                                                                           \
    static void name(void **state);                                                                          \
    __attribute__((constructor)) static void register_##name(void)                                           \
    {                                                                                                        \
        test_register(__FILE__, (struct CMUnitTest)CLAIM(name));                                             \
    }                                                                                                        \
    static void name(void **state)
void test_register(const char *file, struct CMUnitTest test);

/* A function that runs before the tests of its file. */
#define SETUP(function)                                                                                      \
    __attribute__((constructor)) static void register_##function(void)                                       \
    {                                                                                                        \
        test_setup(__FILE__, function);                                                                      \
    }
void test_setup(const char *file, CMFixtureFunction function);

/* Runs the tests of test_NAME.c, which is called "test_NAME"; returns how many failed. */
int tests_run(const char *name);

/* An entry of cmocka's table, for a file with a main of its own. */
#define CLAIM(function) cmocka_unit_test_setup_teardown(function, error_none_yet, error_none_left)
int error_none_yet(void **state);
int error_none_left(void **state);

/* Says which of many cases the next comparisons belong to; shown when one of them fails. */
void about(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the test, which is counted as skipped, with a line that says why; run.sh fails where there is none. */
#define skip_because(...) test_skip(__func__, __VA_ARGS__)
_Noreturn void test_skip(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets STRIDE_ENGINE; NULL: to its value when the program began. */
void use_engine(const char *name);

/* A second number that was rolled as 0 is 0, and does not repeat the first. */
static inline void keep_zero(int pair[2])
{
    if (pair[1] == 0) pair[1] = ST_ZERO_INT;
}

/* Every engine, the reference first; chooses one: false where this machine cannot run it, and nothing is
 * changed. */
enum { ENGINES = 4 };
extern const char *const engines[ENGINES];
bool choose_engine(const char *name);

/* From here on layers are built to share all work among threads, however little. */
void share_all_work(void);

/* Layers that are built from now on write past the caches (STRIDE_CACHE): all that run alone, or large. */
void write_past_caches(bool always);
int all_work_is_shared(void **state); /* the same, for SETUP */

/* True in every thread but the one that runs the tests. */
bool in_a_worker(void);

/* ---- ownership ------------------------------------------------------------------------------- */

/* Variables that are freed where their scope ends: auto_tensor x = full(s, 1), y = full(s, 2); auto_layer *l
 * = st_relu(); */
#define auto_tensor __attribute__((cleanup(end_tensor))) st_tensor
#define auto_layer __attribute__((cleanup(end_layer))) struct st_layer
#define auto_net __attribute__((cleanup(end_net))) struct st_net
#define auto_optim __attribute__((cleanup(end_optim))) struct st_optim
#define auto_dataset __attribute__((cleanup(end_dataset))) struct st_dataset
struct st_layer;
struct st_net;
struct st_optim;
struct st_dataset;
void end_tensor(st_tensor *x);
void end_layer(struct st_layer **l);
void end_net(struct st_net **n);
void end_optim(struct st_optim **o);
void end_dataset(struct st_dataset **d);

/* ---- random cases ---------------------------------------------------------------------------- */

/* A sequence of random numbers, the same in every run: dice d = { { seed } }. */
typedef struct dice {
    st_random_key key;
    uint64_t rolls;
    int wider, longer; /* how many times as many channels, as long sides of images may be rolled; 0: once */
} dice;

ptrdiff_t roll(dice *d, ptrdiff_t low, ptrdiff_t high); /* low … high */
bool chance(dice *d, int percent);
ptrdiff_t roll_channels(dice *d, ptrdiff_t low, ptrdiff_t high); /* low … high, or more with `wider` */
ptrdiff_t roll_side(dice *d, ptrdiff_t low, ptrdiff_t high);     /* likewise with `longer` */
st_shape roll_shape(dice *d, int least_rank, int most_rank, ptrdiff_t least, ptrdiff_t most);
void roll_elements(dice *d, st_tensor x, ptrdiff_t low, ptrdiff_t high);   /* integers; of any view */
st_tensor roll_tensor(dice *d, st_shape s, ptrdiff_t low, ptrdiff_t high); /* a new one */

/* A new tensor of zeros (which `whole` receives, unless NULL) seen through a view: axes permuted, stepped
 * and flipped, with gaps around; no two elements are the same place. */
st_tensor roll_view(dice *d, st_shape s, st_tensor *whole);

/* Any view of a contiguous tensor's storage, windows and broadcasts included; null, without an error,
 * where the strides that were rolled do not fit. */
st_tensor roll_strided(dice *d, st_tensor whole, st_shape s);

/* ---- views of every kind ---------------------------------------------------------------------- */

typedef enum view_kind {
    PLAIN,       /* contiguous */
    OFFSET,      /* the middle of something larger */
    NHWC,        /* the second axis is the last in memory */
    FLIPPED,     /* some axes backwards */
    MIXED,       /* with gaps, permuted, stepped and flipped */
    BROADCAST,   /* some axes of stride 0 */
    OVERLAPPING, /* images begin one element apart */
    VIEWS
} view_kind;

extern const char *const view_names[VIEWS];

/* A view of shape s over integers; st_tensor_free ends it and what it looks at. */
st_tensor roll_kind(dice *d, view_kind kind, st_shape s, ptrdiff_t low, ptrdiff_t high);

/* ---- elements -------------------------------------------------------------------------------- */

/* The k-th index of a shape in row-major order, and back. */
st_shape index_of(st_shape s, ptrdiff_t k);
ptrdiff_t number_of(st_shape s, st_shape index);

/* The k-th element in row-major order, wherever it lies. */
st_real *element(st_tensor x, ptrdiff_t k);

/* A new tensor of the numbers: tensor_of(ST_SHAPE(2, 3), 1, 2, 3, 4, 5, 6). */
#define tensor_of(s, ...) tensor_of_list(s, ST_COUNT(double, __VA_ARGS__), (const double[]){ __VA_ARGS__ })
st_tensor tensor_of_list(st_shape s, ptrdiff_t count, const double *values);

/* A new tensor of that value. */
st_tensor full(st_shape s, double value);

/* ---- comparison ------------------------------------------------------------------------------ */

/* Same shape, and every element equal (NaN equals NaN), or within `limit`. */
#define assert_same(x, expected) assert_near_at(x, expected, 0, __FILE__, __LINE__)
#define assert_near(x, expected, limit) assert_near_at(x, expected, limit, __FILE__, __LINE__)
void assert_near_at(st_tensor x, st_tensor expected, double limit, const char *file, int line);

/* The elements in row-major order: assert_elements(x, 1, 2, 3). */
#define assert_elements(x, ...)                                                                              \
    assert_list_at(x, ST_COUNT(double, __VA_ARGS__), (const double[]){ __VA_ARGS__ }, __FILE__, __LINE__)
void assert_list_at(st_tensor x, ptrdiff_t count, const double *expected, const char *file, int line);

/* A number, within `limit`. */
#define assert_close(x, expected, limit) assert_close_at(x, expected, limit, __FILE__, __LINE__)
void assert_close_at(double x, double expected, double limit, const char *file, int line);

/* Contiguous tensors of the same bits. */
bool same_bytes(st_tensor a, st_tensor b);

/* The shape, as it is printed: assert_shape(x, 2, 3). */
#define assert_shape(x, ...)                                                                                 \
    assert_string_equal(st_shape_text((x).shape).text, st_shape_text(ST_SHAPE(__VA_ARGS__)).text)

/* ---- errors ---------------------------------------------------------------------------------- */

/* An error is latched and its text contains what the format makes; clears it. */
#define expect_error(...) expect_error_at(__FILE__, __LINE__, __VA_ARGS__)
void expect_error_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A refusal, in one line: a call that returns -1, NULL or the null tensor, with such an error. */
#define expect_failure(call, ...)                                                                            \
    (assert_true(_Generic((call), int                                                                        \
                          : fails_int, ptrdiff_t                                                             \
                          : fails_size, st_tensor                                                            \
                          : st_is_null, default                                                              \
                          : fails_pointer)(call)),                                                           \
     expect_error(__VA_ARGS__))
static inline bool fails_int(int result)
{
    return result == -1;
}
static inline bool fails_size(ptrdiff_t result)
{
    return result == -1;
}
static inline bool fails_pointer(const void *result)
{
    return result == NULL;
}

#endif
