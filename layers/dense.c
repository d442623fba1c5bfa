/* dense.c: y = x Wᵀ + b, and its two adjoints. */
#include "layers/dense_impl.h"
#include "layers/init.h"

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_dense_options *o = l->options;
    if (x.rank != 2)
        return st_layer_refuse(l, "the input is %s, expected [N, features]; a flatten before it makes that",
                               st_shape_text(x).text);
    const st_shape weight = ST_SHAPE(o->out_features, x.n[1]);
    if (st_layer_parameter(l, "weight", weight, init_of(o->init, weight))) return -1;
    if (!o->no_bias &&
        st_layer_parameter(l, "bias", ST_SHAPE(o->out_features), init_of(ST_INIT_DEFAULT, weight)))
        return -1;
    *y = ST_SHAPE(x.n[0], o->out_features);
    l->flops = 2 * (double)x.n[0] * (double)x.n[1] * o->out_features;
    return 0;
}

static bool has_bias(const st_call *c)
{
    return c->layer->params > DENSE_BIAS;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    if (has_bias(c)) st_copy(y, st_expand(c->param[DENSE_BIAS], y.shape));
    st_gemm(y, 1, x, st_transpose(c->param[DENSE_WEIGHT], 0, 1), has_bias(c) ? 1 : 0);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    st_gemm(dx, 1, dy, c->param[DENSE_WEIGHT], 0);
}

void dense_bias_gradient(const st_call *c, st_tensor dy)
{
    if (has_bias(c)) st_add(st_expand(st_grad(c, DENSE_BIAS), dy.shape), 1, dy);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    st_gemm(st_grad(c, DENSE_WEIGHT), 1, st_transpose(dy, 0, 1), x, 1);
    dense_bias_gradient(c, dy);
}

static const st_field fields[] = {
    { "out_features", ST_FIELD_INT, offsetof(st_dense_options, out_features), .least = 1 },
    { "no_bias", ST_FIELD_BOOL, offsetof(st_dense_options, no_bias) },
    INIT_FIELD(st_dense_options),
    { 0 },
};

const st_layer_type layer_type_dense = {
    .name = "dense",
    .options_size = sizeof(st_dense_options),
    .fields = fields,
    .chunk = ST_WHOLE_BATCH, /* the weights are read once for all images */
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
    .traits = &(const layer_traits){ .ignores_y = true },
};

CONSTRUCTOR(dense, st_dense_options)
