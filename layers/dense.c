/* dense.c: y = x Wᵀ + b, and its two adjoints, of the rows of x: [N, in], or [N, T, in] as a matrix of N T
 * rows. */
#include "layers/dense_impl.h"
#include "layers/init.h"

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_dense_options *o = l->options;
    if (x.rank != 2 && x.rank != 3)
        return st_layer_refuse(
            l, "the input is %s, expected [N, features] or [N, T, features]; a flatten makes the first",
            st_shape_text(x).text);
    const ptrdiff_t in = x.n[x.rank - 1];
    const st_shape weight = ST_SHAPE(o->out_features, in);
    if (st_layer_parameter(l, "weight", weight, init_of(o->init, weight))) return -1;
    if (!o->no_bias &&
        st_layer_parameter(l, "bias", ST_SHAPE(o->out_features), init_of(ST_INIT_DEFAULT, weight)))
        return -1;
    *y = x;
    y->n[x.rank - 1] = o->out_features;
    l->flops = 2 * (double)st_shape_numel(x, "dense") * o->out_features;
    return x.rank == 2 ? 0 : st_layer_scratch(l, x);
}

st_tensor dense_rows(const st_call *c, st_tensor x)
{
    if (x.shape.rank == 2) return x;
    const ptrdiff_t in = x.shape.n[2];
    if (!st_is_contiguous(x)) {
        st_tensor copy = st_narrow(st_scratch(c, DENSE_INPUT), 0, 0, x.shape.n[0]);
        st_copy(copy, x);
        x = copy;
    }
    return st_reshape(x, ST_SHAPE(x.shape.n[0] * x.shape.n[1], in));
}

static bool has_bias(const st_call *c)
{
    return c->layer->params > DENSE_BIAS;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    if (has_bias(c)) st_copy(y, st_expand(c->param[DENSE_BIAS], y.shape));
    st_gemm(dense_rows(c, y), 1, dense_rows(c, x), st_transpose(c->param[DENSE_WEIGHT], 0, 1),
            has_bias(c) ? 1 : 0);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    st_gemm(dense_rows(c, dx), 1, dense_rows(c, dy), c->param[DENSE_WEIGHT], 0);
}

void dense_bias_gradient(const st_call *c, st_tensor dy)
{
    if (has_bias(c)) st_add(st_expand(st_grad(c, DENSE_BIAS), dy.shape), 1, dy);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    st_gemm(st_grad(c, DENSE_WEIGHT), 1, st_transpose(dense_rows(c, dy), 0, 1), dense_rows(c, x), 1);
    dense_bias_gradient(c, dy);
}

static const st_field fields[] = {
    { ST_FIELD(INT, st_dense_options, out_features), .least = 1 },
    { ST_FIELD(BOOL, st_dense_options, no_bias) },
    { ST_FIELD(CHOICE, st_dense_options, init), .choices = init_names },
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
};

CONSTRUCTOR(dense, st_dense_options)
