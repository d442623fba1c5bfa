/* numbers.c: bytes of a file to bits, and bits to numbers. */
#include "nn/files/numbers.h"
#include "tensor/counts.h"

#include <string.h>

enum { BLOCK = 256 }; /* elements converted at a time */

/* ---- bits ------------------------------------------------------------------------------------ */

static st_real f64(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return (st_real)x;
}

static st_real f32(uint64_t bits)
{
    uint32_t narrow = (uint32_t)bits;
    float x;
    memcpy(&x, &narrow, sizeof x);
    return (st_real)x;
}

/* Shifted into a float's bits, the number is too small by 2^112, the difference of the exponents' biases. */
static st_real f16(uint64_t bits)
{
    uint64_t size = (bits & 0x7fff) << 13;
    bool finite = (bits & 0x7c00) != 0x7c00;
    st_real x = finite ? f32(size) * (st_real)0x1p112 : f32(size | 0x7f800000);
    return bits & 0x8000 ? -x : x;
}

static int64_t with_sign(uint64_t bits, int size)
{
    uint64_t sign = UINT64_C(1) << (8 * size - 1);
    return (int64_t)((bits ^ sign) - sign);
}

static st_real value_of(numbers form, uint64_t bits)
{
    switch (form.kind) {
    case NUMBER_FLOAT: return form.size == 8 ? f64(bits) : form.size == 4 ? f32(bits) : f16(bits);
    case NUMBER_BFLOAT: return f32(bits << 16);
    case NUMBER_INT: return (st_real)with_sign(bits, form.size);
    case NUMBER_UINT: return (st_real)bits;
    case NUMBER_BOOL: return bits != 0;
    case NUMBER_UNREAD: break;
    }
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static uint64_t get(const unsigned char *bytes, int size, bool big_endian)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value |= (uint64_t)bytes[big_endian ? size - 1 - i : i] << (8 * i);
    return value;
}

uint64_t numbers_get(const unsigned char *bytes, int size)
{
    return get(bytes, size, false);
}

void numbers_put(unsigned char *bytes, int size, uint64_t value)
{
    for (int i = 0; i < size; i++) bytes[i] = (unsigned char)(value >> (8 * i));
}

void numbers_put_real(unsigned char *bytes, st_real x)
{
    uint32_t narrow;
    uint64_t wide = 0;
    memcpy(&narrow, &x, sizeof narrow);
    memcpy(&wide, &x, sizeof x);
    numbers_put(bytes, (int)sizeof x, sizeof x == sizeof wide ? wide : narrow);
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct transfer {
    FILE *stream;
    numbers form; /* of what is read */
    bool failed;
    unsigned char bytes[BLOCK * 8];
} transfer;

static void read_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    transfer *t = context;
    const numbers *f = &t->form;
    for (ptrdiff_t first = 0; first < n && !t->failed; first += BLOCK) {
        ptrdiff_t count = smallest(n - first, BLOCK);
        t->failed = fread(t->bytes, (size_t)f->size, (size_t)count, t->stream) != (size_t)count;
        for (ptrdiff_t i = 0; i < count && !t->failed; i++)
            at[0][(first + i) * stride[0]] =
                value_of(*f, get(t->bytes + i * f->size, f->size, f->big_endian));
    }
}

static void write_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    transfer *t = context;
    for (ptrdiff_t first = 0; first < n && !t->failed; first += BLOCK) {
        ptrdiff_t count = smallest(n - first, BLOCK);
        for (ptrdiff_t i = 0; i < count; i++)
            numbers_put_real(t->bytes + (size_t)i * sizeof(st_real), at[0][(first + i) * stride[0]]);
        t->failed = fwrite(t->bytes, sizeof(st_real), (size_t)count, t->stream) != (size_t)count;
    }
}

int numbers_read(FILE *from, numbers form, st_tensor to)
{
    transfer t = { .stream = from, .form = form };
    st_walk(1, &to, ST_ROW_MAJOR, read_row, &t);
    return t.failed ? -1 : 0;
}

int numbers_write(FILE *to, st_tensor from)
{
    transfer t = { .stream = to };
    st_walk(1, &from, ST_ROW_MAJOR, write_row, &t);
    return t.failed ? -1 : 0;
}
