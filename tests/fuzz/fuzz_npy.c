/* fuzz_npy.c: npy_read takes any bytes; what it takes, npy_write writes so that it comes back. */
#include "tests/fuzz/fuzz.h"

#include "nn/data/npy.h"

#include <stdlib.h>
#include <string.h>

/* Bit for bit, but for the payload of what is no number. */
static void compare(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    for (ptrdiff_t i = 0; i < n; i++) {
        real a = at[0][i * stride[0]], b = at[1][i * stride[1]];
        fuzz_claim(memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b), "an element comes back");
    }
}

static void comes_back(tensor x)
{
    tensor y = { 0 };
    const char *path = fuzz_path("again.npy");
    if (npy_write(path, x) == 0) y = npy_read(path);
    fuzz_claim(!tensor_is_null(y) && shape_equal(x.shape, y.shape), "what was written is read");
    tensor_walk(2, (tensor[]){ x, y }, TENSOR_ANY_ORDER, compare, NULL);
    tensor_free(y);
}

static void feed(const uint8_t *at, size_t size)
{
    const char *path = fuzz_file("x.npy", at, size);
    fuzz_begin();
    tensor x = npy_read(path);
    if (!fuzz_took(!tensor_is_null(x))) return;
    fuzz_look(x);
    if (size % 8 == 0) comes_back(x);
    tensor_free(x);
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
    const shape shapes[] = { SHAPE(3), SHAPE(2, 3), SHAPE(1, 2, 2, 1), SHAPE(0, 3), { 0 } };
    for (int i = 0; i < 5; i++) {
        tensor x = tensor_new(shapes[i]);
        npy_write(path, x);
        fuzz_seed_file(path, FUZZ_NOTHING);
        tensor_free(x);
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

static const char *const words[] = { "\x93NUMPY",
                                     "'descr': ",
                                     "'fortran_order': ",
                                     "'shape': (",
                                     "True",
                                     "False",
                                     "'<f4'",
                                     "'>f8'",
                                     "'|u1'",
                                     "'<i8'",
                                     "'|O'",
                                     "(,)",
                                     "9223372036854775807",
                                     "[('a', '<f4')]",
                                     "(0,)",
                                     "{}",
                                     NULL };

const fuzzer fuzz = { feed, seed, large, words };
