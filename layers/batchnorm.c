/* batchnorm.c: each channel normalised over the batch: Ioffe and Szegedy 2015. */
#include "layers/layers.h"
#include "layers/norm.h"
#include "layers/types.h"

#include <math.h>

enum { WEIGHT, BIAS };              /* parameters */
enum { RUNNING_MEAN, RUNNING_VAR }; /* states */
enum { MEAN, DEVIATION };           /* memory: of each channel, as the forward pass used them */
enum { SCALED };                    /* scratch: weight times dy */

static int plan(layer *l, shape x, shape *y)
{
    const batchnorm *o = l->options;
    if (x.rank < 2) return layer_refuse(l, "the input is %s, expected [N, C, ...]", shape_text(x).text);
    if (o->momentum > 1) return layer_refuse(l, "momentum is %g, expected at most 1", o->momentum);
    shape channels = SHAPE(x.n[1]), once = SHAPE(1, x.n[1]);
    if (!o->no_affine && layer_parameter(l, "weight", channels, (layer_init){ .constant = 1 })) return -1;
    if (!o->no_affine && layer_parameter(l, "bias", channels, (layer_init){ 0 })) return -1;
    if (layer_state(l, "running_mean", channels, 0) || layer_state(l, "running_var", channels, 1)) return -1;
    if (layer_memory(l, once) || layer_memory(l, once) || layer_scratch(l, x)) return -1;
    *y = x;
    return 0;
}

/* The elements of one channel in a contiguous [N, C, ...]: a row in each image. */
static norm_set channel_set(tensor x)
{
    ptrdiff_t channels = x.shape.n[1], length = tensor_count(x) / x.shape.n[0] / channels;
    return (norm_set){ x.shape.n[0], length, channels * length };
}

/* Training normalises with the batch's own moments and lets the running ones follow (the unbiased
 * variance, as PyTorch does); inference normalises with the running ones. */
static void settle(const layer *l, norm_set set, ptrdiff_t c, const real *x)
{
    const batchnorm *o = l->options;
    real *mean = tensor_data(l->state[RUNNING_MEAN]) + c, *variance = tensor_data(l->state[RUNNING_VAR]) + c;
    norm_moments m = { (double)*mean, (double)*variance };
    if (layer_training(l)) {
        double count = (double)(set.rows * set.length), unbiased = count > 1 ? count / (count - 1) : 1;
        m = norm_measure(set, x);
        if (isfinite(m.mean) && isfinite(m.variance)) { /* a batch that went wrong leaves no trace */
            *mean = (real)((1 - o->momentum) * (double)*mean + o->momentum * m.mean);
            *variance = (real)((1 - o->momentum) * (double)*variance + o->momentum * m.variance * unbiased);
        }
    }
    tensor_data(l->memory[MEAN])[c] = (real)m.mean;
    tensor_data(l->memory[DEVIATION])[c] = (real)sqrt(m.variance + o->epsilon);
}

static void normalise(const layer *l, tensor x)
{
    norm_set set = channel_set(x);
    for (ptrdiff_t c = 0; c < x.shape.n[1]; c++)
        norm_apply(set, tensor_data(x) + c * set.length, (double)tensor_data(l->memory[MEAN])[c],
                   (double)tensor_data(l->memory[DEVIATION])[c]);
}

static void forward(layer *l, tensor x, tensor y)
{
    tensor_copy(y, x);
    norm_set set = channel_set(y);
    for (ptrdiff_t c = 0; c < y.shape.n[1]; c++) settle(l, set, c, tensor_data(y) + c * set.length);
    normalise(l, y);
    if (l->params == 0) return;
    tensor_multiply(y, norm_by_channel(l->param[WEIGHT], y.shape));
    tensor_add(y, 1, norm_by_channel(l->param[BIAS], y.shape));
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    tensor g = tensor_narrow(l->scratch[SCALED], 0, 0, x.shape.n[0]), deviation = l->memory[DEVIATION];
    norm_set set = channel_set(dx);
    tensor_copy(g, dy);
    if (l->params > 0) tensor_multiply(g, norm_by_channel(l->param[WEIGHT], g.shape));
    tensor_copy(dx, layer_training(l) ? x : g);
    if (layer_training(l)) normalise(l, dx);
    for (ptrdiff_t c = 0; c < dx.shape.n[1]; c++) {
        double spread = (double)tensor_data(deviation)[c];
        real *at = tensor_data(dx) + c * set.length;
        if (layer_training(l)) norm_adjoint(set, at, tensor_data(g) + c * set.length, spread);
        else norm_apply(set, at, 0, spread); /* the moments are constants */
    }
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    tensor h = tensor_narrow(l->scratch[SCALED], 0, 0, x.shape.n[0]);
    tensor_copy(h, x);
    normalise(l, h);
    tensor_multiply(h, dy);
    tensor_add(norm_by_channel(l->grad[WEIGHT], h.shape), 1, h);
    tensor_add(norm_by_channel(l->grad[BIAS], dy.shape), 1, dy);
}

static const layer_field fields[] = {
    { "epsilon", FIELD_REAL, offsetof(batchnorm, epsilon), .fallback = 1e-5 },
    { "momentum", FIELD_REAL, offsetof(batchnorm, momentum), .fallback = 0.1 },
    { "no_affine", FIELD_BOOL, offsetof(batchnorm, no_affine) },
    { 0 },
};

const layer_type layer_type_batchnorm = {
    .name = "batchnorm",
    .options_size = sizeof(batchnorm),
    .fields = fields,
    .chunk = LAYER_WHOLE,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};

layer *layer_batchnorm(batchnorm options)
{
    return layer_new(&layer_type_batchnorm, &options, 0, NULL);
}
