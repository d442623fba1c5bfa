/* dropout.c: inverted dropout (Srivastava et al. 2014): elements that are kept are scaled, and inference is
 * the identity. */
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <math.h>

enum { MASK }; /* memory: 0 or 1/(1-p) */

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const bool channels = l->type == &layer_type_channel_dropout;
    if (channels && x.rank < 2)
        return st_layer_refuse(l, "the input is %s, expected [N, C, ...]", st_shape_text(x).text);
    *y = x;
    l->impl->hooks.divides = true;
    return st_layer_memory(l, channels ? ST_SHAPE(x.n[0], x.n[1]) : x);
}

enum {
    BLOCKS = 32,    /* of random numbers, drawn at once */
    PIECE = 1 << 13 /* elements of y in an item of work, about */
};

/* to = from times the mask, each number of which is for `each` adjacent elements. An image has `pieces`
 * pieces of `some` numbers. */
typedef struct dropout_pass {
    const st_call *c;
    st_real *mask, *to;
    const st_real *from;
    ptrdiff_t size, each, some, pieces;
    bool draws; /* the mask, before it is used */
} dropout_pass;

/* Four numbers share the 128 bits of one counter; each image begins with a new one. Elements with a number
 * of at least p 2^32 are kept, that is, above `last`. */
static void draw(const dropout_pass *d, ptrdiff_t image, ptrdiff_t first, ptrdiff_t n, st_real *to)
{
    const double p = ((const st_dropout_options *)d->c->options)->p;
    const uint32_t last = p > 0 ? (uint32_t)(ceil(p * 4294967296.0) - 1) : 0;
    const st_real scale = (st_real)(1 / (1 - p));
    const st_random_key key = st_call_random(d->c);
    uint64_t counter = (uint64_t)(d->c->first + image) * (uint64_t)((d->size + 3) / 4) + (uint64_t)first / 4;
    for (ptrdiff_t e = 0; e < n && p > 0; e += 4 * BLOCKS, counter += BLOCKS) {
        uint32_t word[4 * BLOCKS];
        const ptrdiff_t count = smallest(n - e, 4 * BLOCKS);
        st_random_words(key, counter, word, (count + 3) / 4);
        for (ptrdiff_t k = 0; k < count; k++) to[e + k] = word[k] > last ? scale : 0;
    }
    for (ptrdiff_t e = 0; e < n && p == 0; e++) to[e] = 1;
}

static void run_piece(ptrdiff_t i, void *context)
{
    const dropout_pass *d = context;
    const ptrdiff_t image = i / d->pieces, first = i % d->pieces * d->some,
                    n = smallest(d->some, d->size - first), at = image * d->size + first, each = d->each;
    st_real *mask = d->mask + at, *to = d->to + at * each;
    const st_real *from = d->from + at * each;
    if (d->draws) draw(d, image, first, n, mask);
    for (ptrdiff_t k = 0; k < n && each == 1; k++) to[k] = from[k] * mask[k];
    for (ptrdiff_t k = 0; k < n && each > 1; k++, to += each, from += each) {
        const st_real scale = mask[k];
        for (ptrdiff_t e = 0; e < each; e++) to[e] = from[e] * scale;
    }
}

/* The mask has a number for each element, or for each channel. */
static void multiply(const st_call *c, bool draws, st_tensor from, st_tensor to)
{
    const st_tensor mask = st_memory(c, MASK);
    if (!st_is_contiguous(from)) st_copy(to, from), from = to;
    dropout_pass d = { c, st_data(mask), st_data(to), st_data(from), .draws = draws };
    const ptrdiff_t images = draws ? c->images : 1; /* numbers are drawn image by image */
    d.size = st_numel(mask) / images, d.each = st_numel(to) / st_numel(mask);
    d.some = 4 * ceil_div(PIECE / 4, d.each), d.pieces = ceil_div(d.size, d.some);
    st_parallel_for(c, images * d.pieces, run_piece, &d);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    if (c->training) multiply(c, true, x, y);
    else st_copy(y, x);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    if (c->training) multiply(c, false, dy, dx);
    else st_copy(dx, dy);
}

static const st_field fields[] = {
    { ST_FIELD(REAL, st_dropout_options, p), .below = 1 },
    { 0 },
};

#define DROPOUT(NAME)                                                                                        \
    const st_layer_type layer_type_##NAME = {                                                                \
        .name = #NAME,                                                                                       \
        .options_size = sizeof(st_dropout_options),                                                          \
        .fields = fields,                                                                                    \
        .plan = plan,                                                                                        \
        .forward = forward,                                                                                  \
        .backward = backward,                                                                                \
    };                                                                                                       \
    CONSTRUCTOR(NAME, st_dropout_options)

DROPOUT(dropout)
DROPOUT(channel_dropout)
