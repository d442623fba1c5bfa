/* fuzz_npy.c: st_npy_load takes any bytes; what it takes, st_npy_save writes so that it comes back. */
#include "tests/fuzz/fuzz.h"

#include "nn/data/formats.h"

#include <stdlib.h>
#include <string.h>

/* Bit for bit, but for the payload of what is no number. */
static void compare(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real a = at[0][i * stride[0]], b = at[1][i * stride[1]];
        fuzz_claim(memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b), "an element comes back");
    }
}

static void comes_back(st_tensor x)
{
    st_tensor y = { 0 };
    const char *path = fuzz_path("again.npy");
    if (st_npy_save(path, x) == 0) y = st_npy_load(path);
    fuzz_claim(!st_is_null(y) && st_shape_equal(x.shape, y.shape), "what was written is read");
    st_walk(2, (st_tensor[]){ x, y }, ST_ANY_ORDER, compare, NULL);
    st_tensor_free(y);
}

static void feed(const uint8_t *at, size_t size)
{
    const char *path = fuzz_file("x.npy", at, size);
    fuzz_begin();
    st_tensor x = st_npy_load(path);
    if (!fuzz_took(!st_is_null(x))) return;
    fuzz_look(x);
    if (size % 8 == 0) comes_back(x);
    st_tensor_free(x);
}

/* The beginning of a file, its header's length made right; the bytes of it. */
static size_t begin_file(uint8_t *file, uint8_t version, const char *header, size_t length)
{
    size_t start = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY\0\0", 8);
    file[6] = version;
    for (size_t i = 8; i < start; i++) file[i] = (uint8_t)(length >> 8 * (i - 8));
    memcpy(file + start, header, strlen(header));
    return start + length;
}

static void seed_file(uint8_t version, const char *header, size_t elements)
{
    uint8_t file[512] = { 0 };
    fuzz_seed(file, begin_file(file, version, header, strlen(header)) + elements);
}

static void seed(void)
{
    const char *path = fuzz_path("x.npy");
    const st_shape shapes[] = { ST_SHAPE(3), ST_SHAPE(2, 3), ST_SHAPE(1, 2, 2, 1), ST_SHAPE(0, 3), { 0 } };
    for (int i = 0; i < 5; i++) {
        st_tensor x = st_tensor_new(shapes[i]);
        st_npy_save(path, x);
        fuzz_seed_file(path, FUZZ_NOTHING);
        st_tensor_free(x);
    }
    seed_file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", 16);
    seed_file(1, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", 12);
    seed_file(2, "{'shape':(),'descr':'|b1','fortran_order':False}", 1);
    seed_file(3, "{\"descr\": \"<f2\", 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1)}", 2);
    seed_file(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4);
}

/* Elements that are a byte short; and a header that is not closed. */
static void large(void)
{
    enum { BYTES = 24 << 20 };
    static const char header[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (25165824,)}";
    uint8_t *file = calloc(BYTES + 100, 1);
    feed(file, begin_file(file, 1, header, sizeof header - 1) + BYTES - 1);
    memset(file, ' ', BYTES);
    feed(file, begin_file(file, 2, "{", BYTES - 12));
    free(file);
}

/* clang-format off */
static const char *const words[] = {
    "\x93NUMPY", "'descr': ", "'fortran_order': ", "'shape': (", "True", "False", "'<f4'", "'>f8'", "'|u1'",
    "'<i8'", "'|O'", "(,)", "9223372036854775807", "[('a', '<f4')]", "(0,)", "{}", NULL
};
/* clang-format on */

const fuzzer fuzz = { feed, seed, large, words };
