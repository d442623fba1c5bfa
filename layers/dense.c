/* dense.c: y = x Wᵀ + b, and its two adjoints. */
#include "layers/dense_impl.h"

#include <math.h>

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

static bool has_bias(const st_call *c)
{
    return c->layer->params > DENSE_BIAS;
}

static void forward(const st_call *c, tensor x, tensor y)
{
    if (has_bias(c)) tensor_copy(y, tensor_expand(c->param[DENSE_BIAS], y.shape));
    tensor_gemm(y, 1, x, tensor_transpose(c->param[DENSE_WEIGHT], 0, 1), has_bias(c) ? 1 : 0);
}

static void backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    tensor_gemm(dx, 1, dy, c->param[DENSE_WEIGHT], 0);
}

void dense_bias_gradient(const st_call *c, tensor dy)
{
    if (has_bias(c)) tensor_add(tensor_expand(st_grad(c, DENSE_BIAS), dy.shape), 1, dy);
}

static void gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    (void)y;
    tensor_gemm(st_grad(c, DENSE_WEIGHT), 1, tensor_transpose(dy, 0, 1), x, 1);
    dense_bias_gradient(c, dy);
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
    .chunk = LAYER_WHOLE, /* the weights are read once for all images */
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
    .traits = &(const layer_traits){ .ignores_y = true },
};

layer *layer_dense(dense options)
{
    return layer_new(&layer_type_dense, &options, 0, NULL);
}
