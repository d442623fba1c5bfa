/* dense.c: y = x Wᵀ + b, and its two adjoints. */
#include "layers/layers.h"
#include "layers/types.h"

#include <math.h>

enum { WEIGHT, BIAS };

static int plan(layer *l, shape x, shape *y)
{
    const dense *o = l->options;
    if (x.rank != 2)
        return layer_refuse(l, "the input is %s, expected [N, features]; a flatten before it makes that",
                            shape_text(x).text);
    layer_init init = { .uniform = 1 / sqrt((double)x.n[1]) };
    if (layer_parameter(l, "weight", SHAPE(o->out_features, x.n[1]), init)) return -1;
    if (!o->no_bias && layer_parameter(l, "bias", SHAPE(o->out_features), init)) return -1;
    *y = SHAPE(x.n[0], o->out_features);
    l->flops = 2 * (double)x.n[0] * (double)x.n[1] * o->out_features;
    return 0;
}

static void forward(layer *l, tensor x, tensor y)
{
    const dense *o = l->options;
    if (!o->no_bias) tensor_copy(y, tensor_expand(l->param[BIAS], y.shape));
    tensor_gemm(y, 1, x, tensor_transpose(l->param[WEIGHT], 0, 1), o->no_bias ? 0 : 1);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    tensor_gemm(dx, 1, dy, l->param[WEIGHT], 0);
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    const dense *o = l->options;
    tensor_gemm(l->grad[WEIGHT], 1, tensor_transpose(dy, 0, 1), x, 1);
    if (!o->no_bias) tensor_add(tensor_expand(l->grad[BIAS], dy.shape), 1, dy);
}

static const layer_field fields[] = {
    { "out_features", FIELD_INT, offsetof(dense, out_features), .least = 1 },
    { "no_bias", FIELD_BOOL, offsetof(dense, no_bias) },
    { 0 },
};

const layer_type layer_type_dense = {
    .name = "dense",
    .options_size = sizeof(dense),
    .fields = fields,
    .chunk = 32, /* rows enough for a product to be worth its reading of the weights */
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};

layer *layer_dense(dense options)
{
    return layer_new(&layer_type_dense, &options, 0, NULL);
}
