/* dropout.c: Srivastava et al. 2014, inverted: what is kept is scaled, so inference does nothing. */
#include "layers/layer_impl.h"
#include "layers/layers.h"
#include "layers/types.h"

#include <math.h>

typedef struct dropout {
    double p;
} dropout;

enum { MASK }; /* memory: 0 or 1/(1-p) */

static int plan(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_memory(l, x);
}

static int plan_channels(layer *l, shape x, shape *y)
{
    if (x.rank < 2) return layer_refuse(l, "the input is %s, expected [N, C, ...]", shape_text(x).text);
    *y = x;
    return layer_memory(l, SHAPE(x.n[0], x.n[1]));
}

enum { BLOCKS = 32 }; /* drawn at once: a multiple of what becomes a vector */

/* Four elements share the 128 bits of one counter; an image begins a new one. Those whose number is not below
 * p 2^32 are kept: those above `last`. */
static void draw_image(random_key key, uint64_t counter, double p, ptrdiff_t size, real *mask)
{
    const uint32_t last = (uint32_t)(ceil(p * 4294967296.0) - 1);
    const real scale = (real)(1 / (1 - p));
    for (ptrdiff_t e = 0; e < size; e += 4 * BLOCKS, counter += BLOCKS) {
        uint32_t word[4 * BLOCKS];
        ptrdiff_t count = size - e < 4 * BLOCKS ? size - e : 4 * BLOCKS;
        random_words(key, counter, word, (count + 3) / 4);
        for (ptrdiff_t k = 0; k < count; k++) mask[e + k] = word[k] > last ? scale : 0;
    }
}

static void draw(const st_call *c, tensor mask)
{
    double p = ((const dropout *)c->options)->p;
    ptrdiff_t images = mask.shape.n[0], size = tensor_count(mask) / images, blocks = (size + 3) / 4;
    random_key key = st_call_random(c);
    if (p == 0) tensor_fill(mask, 1);
    for (ptrdiff_t i = 0; i < images && p > 0; i++)
        draw_image(key, (uint64_t)(c->first + i) * (uint64_t)blocks, p, size, tensor_data(mask) + i * size);
}

static void product_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    real *y = at[0];
    const real *x = at[1], *mask = at[2], scale = *mask;
    if (stride[0] == 1 && stride[1] == 1 && stride[2] == 1) {
        for (ptrdiff_t i = 0; i < n; i++) y[i] = x[i] * mask[i];
    } else if (stride[0] == 1 && stride[1] == 1 && stride[2] == 0) {
        for (ptrdiff_t i = 0; i < n; i++) y[i] = x[i] * scale;
    } else {
        for (ptrdiff_t i = 0; i < n; i++) y[i * stride[0]] = x[i * stride[1]] * mask[i * stride[2]];
    }
}

/* y = x times the mask, as it is, or one number for each channel. */
static void multiply(const st_call *c, tensor y, tensor x)
{
    tensor mask = st_memory(c, MASK);
    for (int axis = mask.shape.rank; axis < x.shape.rank; axis++) mask = tensor_split(mask, axis - 1, 1);
    tensor_walk(3, (tensor[]){ y, x, tensor_expand(mask, x.shape) }, TENSOR_ANY_ORDER, product_row, NULL);
}

static void forward(const st_call *c, tensor x, tensor y)
{
    if (!c->training) {
        tensor_copy(y, x);
        return;
    }
    draw(c, st_memory(c, MASK));
    multiply(c, y, x);
}

static void backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    if (c->training) multiply(c, dx, dy);
    else tensor_copy(dx, dy);
}

static const layer_field fields[] = {
    { "p", FIELD_REAL, offsetof(dropout, p), .below = 1 },
    { 0 },
};

static const layer_traits traits = { .in_place = true, .ignores_y = true };

const layer_type layer_type_dropout = {
    .name = "dropout",
    .options_size = sizeof(dropout),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .traits = &traits,
};

const layer_type layer_type_channel_dropout = {
    .name = "channel_dropout",
    .options_size = sizeof(dropout),
    .fields = fields,
    .plan = plan_channels,
    .forward = forward,
    .backward = backward,
    .traits = &traits,
};

layer *layer_dropout(double p)
{
    return layer_new(&layer_type_dropout, &(dropout){ p }, 0, NULL);
}

layer *layer_channel_dropout(double p)
{
    return layer_new(&layer_type_channel_dropout, &(dropout){ p }, 0, NULL);
}
