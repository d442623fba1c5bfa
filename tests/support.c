/* support.c: see support.h. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "tests/support.h"

#include "nn/data.h"
#include "nn/net.h"
#include "nn/optimizers.h"
#include "tensor/engine.h"
#include "tensor/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- claims ---------------------------------------------------------------------------------- */

enum { MOST_TESTS = 512, MOST_FILES = 64 };

static struct {
    const char *file;
    struct CMUnitTest test;
} tests[MOST_TESTS];
static struct {
    const char *file;
    CMFixtureFunction function;
} setups[MOST_FILES];
static int test_count, setup_count;

void test_register(const char *file, struct CMUnitTest test)
{
    if (test_count == MOST_TESTS) abort();
    tests[test_count].file = file;
    tests[test_count++].test = test;
}

void test_setup(const char *file, CMFixtureFunction function)
{
    if (setup_count == MOST_FILES) abort();
    setups[setup_count].file = file;
    setups[setup_count++].function = function;
}

/* True where `file`, a path, is that of NAME.c. */
static bool is_file(const char *file, const char *name)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    size_t length = strlen(name);
    return strncmp(base, name, length) == 0 && strcmp(base + length, ".c") == 0;
}

int tests_run(const char *name)
{
    struct CMUnitTest chosen[MOST_TESTS];
    CMFixtureFunction setup = NULL;
    size_t count = 0;
    for (int i = 0; i < test_count; i++)
        if (is_file(tests[i].file, name)) chosen[count++] = tests[i].test;
    for (int i = 0; i < setup_count; i++)
        if (is_file(setups[i].file, name)) setup = setups[i].function;
    return _cmocka_run_group_tests(name, chosen, count, setup, NULL);
}

static char topic[256];

int error_none_yet(void **state)
{
    st_error_clear();
    topic[0] = '\0';
    return 0;
}

int error_none_left(void **state)
{
    if (!st_error()) return 0;
    print_message("error left behind: %s\n", st_error());
    st_error_clear();
    return -1;
}

void test_skip(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("skipped %s: ", name);
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
    skip();
    abort();
}

void about(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(topic, sizeof topic, format, arguments);
    va_end(arguments);
}

void use_engine(const char *name)
{
    static char before[64];
    static bool known;
    const char *now = getenv("STRIDE_ENGINE");
    if (!known) snprintf(before, sizeof before, "%s", now ? now : "");
    known = true;
    setenv("STRIDE_ENGINE", name ? name : before, 1);
}

const char *const engines[ENGINES] = { "reference", "generic", "avx2", "avx512" };

bool choose_engine(const char *name)
{
    use_engine(name);
    if (engine_choose() >= 0) return true;
    st_error_clear();
    use_engine(NULL);
    return false;
}

void share_all_work(void)
{
    setenv("STRIDE_GRAIN", "0", 1);
}

void write_past_caches(bool always)
{
    setenv("STRIDE_CACHE", always ? "0" : "", 1);
}

int all_work_is_shared(void **state)
{
    share_all_work();
    return 0;
}

/* volatile: clang 14 would run the constructor while it compiles, for every thread. */
static _Thread_local volatile bool runs_the_tests;

__attribute__((constructor)) static void note_the_first_thread(void)
{
    runs_the_tests = true;
}

bool in_a_worker(void)
{
    return !runs_the_tests;
}

/* ---- ownership ------------------------------------------------------------------------------- */

#define END(type, name)                                                                                      \
    void end_##name(type *x)                                                                                 \
    {                                                                                                        \
        st_##name##_free(*x);                                                                                \
    }
END(st_tensor, tensor)
END(st_layer *, layer)
END(st_net *, net)
END(st_optim *, optim)
END(st_dataset *, dataset)

/* ---- random cases ---------------------------------------------------------------------------- */

ptrdiff_t roll(dice *d, ptrdiff_t low, ptrdiff_t high)
{
    uint32_t word = st_random_bits(d->key, d->rolls++).word[0];
    return low + (ptrdiff_t)(word % (uint32_t)(high - low + 1));
}

bool chance(dice *d, int percent)
{
    return roll(d, 0, 99) < percent;
}

ptrdiff_t roll_channels(dice *d, ptrdiff_t low, ptrdiff_t high)
{
    return roll(d, low, d->wider > 1 ? high * d->wider : high);
}

ptrdiff_t roll_side(dice *d, ptrdiff_t low, ptrdiff_t high)
{
    return roll(d, low, d->longer > 1 ? high * d->longer : high);
}

st_shape roll_shape(dice *d, int least_rank, int most_rank, ptrdiff_t least, ptrdiff_t most)
{
    st_shape s = { .rank = (int)roll(d, least_rank, most_rank) };
    for (int i = 0; i < s.rank; i++) s.n[i] = roll(d, least, most);
    return s;
}

void roll_elements(dice *d, st_tensor x, ptrdiff_t low, ptrdiff_t high)
{
    for (ptrdiff_t k = 0; k < st_numel(x); k++) *element(x, k) = (st_real)roll(d, low, high);
}

st_tensor roll_tensor(dice *d, st_shape s, ptrdiff_t low, ptrdiff_t high)
{
    st_tensor x = st_tensor_new(s);
    assert_false(st_is_null(x));
    roll_elements(d, x, low, high);
    return x;
}

st_tensor roll_view(dice *d, st_shape s, st_tensor *whole)
{
    st_axes order = { .count = s.rank }; /* axis i of the view is axis order.axis[i] of the room */
    ptrdiff_t step[ST_MAX_RANK], before[ST_MAX_RANK];
    st_shape room = { .rank = s.rank };
    for (int i = 0; i < s.rank; i++) {
        int at = (int)roll(d, 0, i);
        order.axis[i] = order.axis[at];
        order.axis[at] = i;
    }
    for (int i = 0; i < s.rank; i++) {
        step[i] = chance(d, 30) ? roll(d, 2, 3) : 1;
        before[i] = roll(d, 0, 1);
        room.n[order.axis[i]] = before[i] + s.n[i] * step[i] + roll(d, 0, 1);
    }
    st_tensor all = st_tensor_new(room), x = st_permute(all, order);
    if (whole) *whole = all;
    for (int i = 0; i < s.rank; i++) {
        st_tensor part = st_narrow(x, i, before[i], s.n[i] > 0 ? (s.n[i] - 1) * step[i] + 1 : 0);
        x = st_step(part, i, chance(d, 50) ? step[i] : -step[i]);
    }
    assert_true(st_shape_equal(x.shape, s));
    return x;
}

st_tensor roll_strided(dice *d, st_tensor whole, st_shape s)
{
    ptrdiff_t stride[ST_MAX_RANK], low = 0, high = 0;
    for (int i = 0; i < s.rank; i++) {
        stride[i] = roll(d, -4, 4);
        ptrdiff_t reach = s.n[i] > 0 ? (s.n[i] - 1) * stride[i] : 0;
        if (reach < 0) low += reach;
        else high += reach;
    }
    if (high - low >= st_numel(whole)) return (st_tensor){ 0 };
    return st_as_strided(whole, s, stride, roll(d, -low, st_numel(whole) - 1 - high));
}

/* ---- views of every kind ---------------------------------------------------------------------- */

const char *const view_names[VIEWS] = { "plain", "offset",    "nhwc",       "flipped",
                                        "mixed", "broadcast", "overlapping" };

static st_tensor roll_offset(dice *d, st_shape s)
{
    st_shape whole = s;
    for (int i = 0; i < s.rank; i++) whole.n[i] += roll(d, 1, 3);
    st_tensor x = st_tensor_new(whole);
    for (int i = 0; i < s.rank; i++) x = st_narrow(x, i, roll(d, 0, whole.n[i] - s.n[i]), s.n[i]);
    return x;
}

static st_tensor roll_flipped(dice *d, st_shape s)
{
    st_tensor x = st_tensor_new(s);
    for (int i = 0; i < s.rank; i++)
        if (chance(d, 60)) x = st_flip(x, i);
    return x;
}

static st_tensor roll_broadcast(dice *d, st_shape s)
{
    st_shape one = s;
    for (int i = 0; i < s.rank; i++)
        if (chance(d, 40)) one.n[i] = 1;
    return st_expand(st_tensor_new(one), s);
}

static st_tensor overlapping(st_shape s)
{
    st_tensor whole = st_tensor_new(s);
    whole.stride[0] = 1;
    return st_as_strided(whole, s, whole.stride, 0);
}

/* Half of the places of something larger, the axes in any order, some backwards. */
static st_tensor roll_mixed(dice *d, st_shape s)
{
    st_axes order = { 0 };
    for (; order.count < s.rank; order.count++) {
        int at = (int)roll(d, 0, order.count);
        order.axis[order.count] = order.axis[at];
        order.axis[at] = order.count;
    }
    st_shape whole = { .rank = s.rank };
    for (int i = 0; i < s.rank; i++) whole.n[order.axis[i]] = s.n[i] + roll(d, 0, 2);
    ptrdiff_t last = whole.n[s.rank - 1];
    whole.n[s.rank - 1] *= 2;
    st_tensor x = st_narrow(st_step(st_tensor_new(whole), -1, 2), -1, 0, last);
    x = st_permute(x, order);
    for (int i = 0; i < s.rank; i++) {
        x = st_narrow(x, i, roll(d, 0, x.shape.n[i] - s.n[i]), s.n[i]);
        if (chance(d, 50)) x = st_flip(x, i);
    }
    return x;
}

/* A new tensor of zeros whose second axis lies innermost: [N, C, ...] kept as [N, ..., C]. */
static st_tensor second_axis_last(st_shape s)
{
    st_shape stored = { .rank = s.rank };
    st_axes order = { .count = s.rank };
    for (int i = 0; i < s.rank; i++) {
        int at = i == 0 ? 0 : i == 1 ? s.rank - 1 : i - 1;
        stored.n[at] = s.n[i];
        order.axis[i] = at;
    }
    return st_permute(st_tensor_new(stored), order);
}

st_tensor roll_kind(dice *d, view_kind kind, st_shape s, ptrdiff_t low, ptrdiff_t high)
{
    st_tensor x = kind == OFFSET        ? roll_offset(d, s)
                  : kind == NHWC        ? second_axis_last(s)
                  : kind == FLIPPED     ? roll_flipped(d, s)
                  : kind == MIXED       ? roll_mixed(d, s)
                  : kind == BROADCAST   ? roll_broadcast(d, s)
                  : kind == OVERLAPPING ? overlapping(s)
                                        : st_tensor_new(s);
    assert_string_equal(st_shape_text(x.shape).text, st_shape_text(s).text);
    roll_elements(d, x, low, high);
    return x;
}

/* ---- elements -------------------------------------------------------------------------------- */

st_shape index_of(st_shape s, ptrdiff_t k)
{
    st_shape index = { .rank = s.rank };
    for (int i = s.rank - 1; i >= 0; i--) {
        index.n[i] = k % s.n[i];
        k /= s.n[i];
    }
    return index;
}

ptrdiff_t number_of(st_shape s, st_shape index)
{
    ptrdiff_t k = 0;
    for (int i = 0; i < s.rank; i++) k = k * s.n[i] + index.n[i];
    return k;
}

st_real *element(st_tensor x, ptrdiff_t k)
{
    ptrdiff_t offset = x.offset, count = 1;
    int axis = x.shape.rank - 1;
    while (axis >= 0 && (x.stride[axis] == count || x.shape.n[axis] == 1)) count *= x.shape.n[axis--];
    if (axis < 0) { /* without divisions, which take longer than most of what tests do with an element */
        if (k >= count) fail();
        return x.storage->data + offset + k;
    }
    for (int i = x.shape.rank - 1; i >= 0; i--) {
        offset += k % x.shape.n[i] * x.stride[i];
        k /= x.shape.n[i];
    }
    assert_true(k == 0);
    return x.storage->data + offset;
}

st_tensor tensor_of_list(st_shape s, ptrdiff_t count, const double *values)
{
    st_tensor x = st_tensor_new(s);
    assert_int_equal(st_numel(x), count);
    for (ptrdiff_t k = 0; k < count; k++) st_data(x)[k] = (st_real)values[k];
    return x;
}

st_tensor full(st_shape s, double value)
{
    st_tensor x = st_tensor_new(s);
    st_fill(x, (st_real)value);
    return x;
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* Not through cmocka's own macros: those would name this file. */
#define FAIL(file, line, format, ...)                                                                        \
    fail_msg("%s:%d: %s%s" format, file, line, topic, topic[0] ? ": " : "", __VA_ARGS__)

static void compare(st_tensor x, ptrdiff_t k, double expected, double limit, const char *file, int line)
{
    double value = (double)*element(x, k);
    if (value == expected || (isnan(value) && isnan(expected)) || fabs(value - expected) <= limit) return;
    FAIL(file, line, "element %s of %s is %.17g, expected %.17g within %g",
         st_shape_text(index_of(x.shape, k)).text, st_shape_text(x.shape).text, value, expected, limit);
}

void assert_near_at(st_tensor x, st_tensor expected, double limit, const char *file, int line)
{
    if (st_is_null(x) || st_is_null(expected))
        FAIL(file, line, "a null tensor: %s", st_error() ? st_error() : "without an error");
    if (!st_shape_equal(x.shape, expected.shape))
        FAIL(file, line, "shape %s, expected %s", st_shape_text(x.shape).text,
             st_shape_text(expected.shape).text);
    const ptrdiff_t count = st_numel(x);
    const bool in_order = st_is_contiguous(x) && st_is_contiguous(expected);
    const st_real *a = st_data(x), *b = st_data(expected);
    for (ptrdiff_t k = 0; k < count; k++)
        if (!in_order || a[k] != b[k]) compare(x, k, (double)*element(expected, k), limit, file, line);
}

void assert_list_at(st_tensor x, ptrdiff_t count, const double *expected, const char *file, int line)
{
    if (st_numel(x) != count)
        FAIL(file, line, "%td elements in %s, expected %td", st_numel(x), st_shape_text(x.shape).text, count);
    for (ptrdiff_t k = 0; k < count; k++) compare(x, k, expected[k], 0, file, line);
}

void assert_close_at(double x, double expected, double limit, const char *file, int line)
{
    if (!(fabs(x - expected) <= limit))
        FAIL(file, line, "%.17g, expected %.17g within %g", x, expected, limit);
}

bool same_bytes(st_tensor a, st_tensor b)
{
    return st_numel(a) == st_numel(b) &&
           memcmp(st_data(a), st_data(b), (size_t)st_numel(a) * sizeof(st_real)) == 0;
}

/* ---- errors ---------------------------------------------------------------------------------- */

void expect_error_at(const char *file, int line, const char *format, ...)
{
    char part[ST_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof part, format, arguments);
    va_end(arguments);
    if (!st_error()) FAIL(file, line, "no error, expected one with \"%s\"", part);
    if (!strstr(st_error(), part)) FAIL(file, line, "the error \"%s\" lacks \"%s\"", st_error(), part);
    st_error_clear();
}
