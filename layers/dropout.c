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
    return st_layer_memory(l, channels ? ST_SHAPE(x.n[0], x.n[1]) : x);
}

enum { BLOCKS = 32 }; /* drawn at once, for vectorisation */

/* Four elements share the 128 bits of one counter; each image begins with a new one. Elements with a number
 * of at least p 2^32 are kept, that is, above `last`. */
static void draw(const st_call *c, st_tensor mask)
{
    const double p = ((const st_dropout_options *)c->options)->p;
    const ptrdiff_t images = mask.shape.n[0], size = st_numel(mask) / images, blocks = (size + 3) / 4;
    if (p == 0) {
        st_fill(mask, 1);
        return;
    }
    const uint32_t last = (uint32_t)(ceil(p * 4294967296.0) - 1);
    const st_real scale = (st_real)(1 / (1 - p));
    const st_random_key key = st_call_random(c);
    for (ptrdiff_t i = 0; i < images; i++) {
        uint64_t counter = (uint64_t)(c->first + i) * (uint64_t)blocks;
        for (ptrdiff_t e = 0; e < size; e += 4 * BLOCKS, counter += BLOCKS) {
            uint32_t word[4 * BLOCKS];
            const ptrdiff_t count = smallest(size - e, 4 * BLOCKS);
            st_real *to = st_data(mask) + i * size + e;
            st_random_words(key, counter, word, (count + 3) / 4);
            for (ptrdiff_t k = 0; k < count; k++) to[k] = word[k] > last ? scale : 0;
        }
    }
}

static void product_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    st_real *y = at[0];
    const st_real *x = at[1], *mask = at[2], scale = *mask;
    if (stride[0] == 1 && stride[1] == 1 && stride[2] == 0) {
        for (ptrdiff_t i = 0; i < n; i++) y[i] = x[i] * scale;
    } else {
        for (ptrdiff_t i = 0; i < n; i++) y[i * stride[0]] = x[i * stride[1]] * mask[i * stride[2]];
    }
}

/* y = x times the mask, which has a number for each element, or for each channel. */
static void multiply(const st_call *c, st_tensor y, st_tensor x)
{
    st_tensor mask = st_memory(c, MASK);
    for (int axis = mask.shape.rank; axis < x.shape.rank; axis++) mask = st_split_axis(mask, axis - 1, 1);
    st_walk(3, (st_tensor[]){ y, x, st_expand(mask, x.shape) }, ST_ANY_ORDER, product_row, NULL);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    if (!c->training) {
        st_copy(y, x);
        return;
    }
    draw(c, st_memory(c, MASK));
    multiply(c, y, x);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    if (c->training) multiply(c, dx, dy);
    else st_copy(dx, dy);
}

static const st_field fields[] = {
    { "p", ST_FIELD_REAL, offsetof(st_dropout_options, p), .below = 1 },
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
