/* dropout.c: Srivastava et al. 2014, inverted: what is kept is scaled, so inference does nothing. */
#include "layers/layers.h"
#include "layers/types.h"

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

/* Four elements share the 128 bits of one counter; an image begins a new one. */
static void draw(const layer *l, tensor mask)
{
    const dropout *o = l->options;
    random_key key = layer_random(l);
    ptrdiff_t size = tensor_count(mask) / mask.shape.n[0], blocks = (size + 3) / 4;
    const double threshold = o->p * 4294967296.0;
    const real scale = (real)(1 / (1 - o->p));
    real *at = tensor_data(mask);
    for (ptrdiff_t i = 0; i < mask.shape.n[0]; i++)
        for (ptrdiff_t e = 0; e < size; e += 4) {
            random_block bits =
                random_bits(key, (uint64_t)(l->first + i) * (uint64_t)blocks + (uint64_t)e / 4);
            for (int k = 0; k < 4 && e + k < size; k++) *at++ = bits.word[k] >= threshold ? scale : 0;
        }
}

/* The mask as a view of x's shape: as it is, or one number for each channel. */
static tensor mask_of(const layer *l, shape x)
{
    tensor mask = l->memory[MASK];
    for (int axis = mask.shape.rank; axis < x.rank; axis++) mask = tensor_split(mask, axis - 1, 1);
    return tensor_expand(mask, x);
}

static void forward(layer *l, tensor x, tensor y)
{
    tensor_copy(y, x);
    if (!layer_training(l)) return;
    draw(l, l->memory[MASK]);
    tensor_multiply(y, mask_of(l, y.shape));
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    tensor_copy(dx, dy);
    if (layer_training(l)) tensor_multiply(dx, mask_of(l, dx.shape));
}

static const layer_field fields[] = {
    { "p", FIELD_REAL, offsetof(dropout, p), .below = 1 },
    { 0 },
};

const layer_type layer_type_dropout = {
    .name = "dropout",
    .options_size = sizeof(dropout),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};

const layer_type layer_type_channel_dropout = {
    .name = "channel_dropout",
    .options_size = sizeof(dropout),
    .fields = fields,
    .plan = plan_channels,
    .forward = forward,
    .backward = backward,
};

layer *layer_dropout(double p)
{
    return layer_new(&layer_type_dropout, &(dropout){ p }, 0, NULL);
}

layer *layer_channel_dropout(double p)
{
    return layer_new(&layer_type_channel_dropout, &(dropout){ p }, 0, NULL);
}
