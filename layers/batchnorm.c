/* batchnorm.c: each channel normalised over the batch: Ioffe and Szegedy 2015. */
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/norm.h"
#include "layers/types.h"

#include <math.h>

enum { WEIGHT, BIAS };              /* parameters */
enum { RUNNING_MEAN, RUNNING_VAR }; /* states */
enum { MEAN, DEVIATION, SUMS };     /* memory: of each channel, as forward used them, as gradient took them */
enum { COPY };                      /* scratch: a channel of x, where its rows have gaps */

static int plan(layer *l, shape x, shape *y)
{
    const batchnorm *o = l->options;
    if (x.rank < 2) return layer_refuse(l, "the input is %s, expected [N, C, ...]", shape_text(x).text);
    if (o->momentum > 1) return layer_refuse(l, "momentum is %g, expected at most 1", o->momentum);
    shape channels = SHAPE(x.n[1]), once = SHAPE(1, x.n[1]);
    if (!o->no_affine && layer_parameter(l, "weight", channels, (layer_init){ .constant = 1 })) return -1;
    if (!o->no_affine && layer_parameter(l, "bias", channels, (layer_init){ 0 })) return -1;
    if (layer_state(l, "running_mean", channels, 0) || layer_state(l, "running_var", channels, 1)) return -1;
    ptrdiff_t sums = x.n[1] * (ptrdiff_t)(sizeof(norm_sums) / sizeof(real));
    if (layer_memory(l, once) || layer_memory(l, once) || layer_memory(l, SHAPE(1, sums))) return -1;
    *y = x;
    return layer_scratch(l, SHAPE(x.n[0], shape_count(x, "batchnorm") / x.n[0] / x.n[1]));
}

/* What the work on each channel is given. */
typedef struct pass {
    const layer *l;
    tensor x;
    real *to; /* y, or dx */
    const real *dy;
    void (*channel)(const struct pass *p, ptrdiff_t c, norm_set set, const real *x);
} pass;

/* The elements of one channel in a contiguous [N, C, ...]: a row in each image. */
static norm_set channel_set(const layer *l, ptrdiff_t images)
{
    ptrdiff_t channels = l->x.n[1], length = shape_count(l->x, "batchnorm") / l->x.n[0] / channels;
    return (norm_set){ images, length, channels * length, lanes_wide(l) };
}

static void work(ptrdiff_t c, void *context)
{
    const pass *p = context;
    norm_set set = channel_set(p->l, p->x.shape.n[0]);
    p->channel(p, c, set, tensor_data(p->x) + c * set.length);
}

/* Channels in any order, by any thread. */
static void each_channel(pass p)
{
    layer_split(p.l, p.x.shape.n[1], work, &p);
}

/* x itself, or its copy. */
static tensor contiguous(tensor x, tensor copy)
{
    if (tensor_is_contiguous(x)) return x;
    tensor_copy(copy, x);
    return copy;
}

/* The sums that gradient takes of a channel, and backward needs, too. */
static norm_sums *sums_of(const layer *l, ptrdiff_t c)
{
    return (norm_sums *)(void *)tensor_data(l->memory[SUMS]) + c;
}

/* ---- moments, computed by the forward pass ------------------------------------------------------------------- */

static double count_of(norm_set set)
{
    return (double)(set.rows * set.length);
}

/* Training normalises with the batch's own moments and lets the running ones follow (the unbiased
 * variance, as PyTorch does); inference normalises with the running ones. */
static void settle(const layer *l, norm_set set, ptrdiff_t c, const real *x)
{
    const batchnorm *o = l->options;
    real *mean = tensor_data(l->state[RUNNING_MEAN]) + c, *variance = tensor_data(l->state[RUNNING_VAR]) + c;
    norm_moments m = { (double)*mean, (double)*variance };
    if (layer_training(l)) {
        double count = count_of(set), unbiased = count > 1 ? count / (count - 1) : 1;
        m = norm_measure(set, x);
        if (isfinite(m.mean) && isfinite(m.variance)) { /* a batch that went wrong leaves no trace */
            *mean = (real)((1 - o->momentum) * (double)*mean + o->momentum * m.mean);
            *variance = (real)((1 - o->momentum) * (double)*variance + o->momentum * m.variance * unbiased);
        }
    }
    tensor_data(l->memory[MEAN])[c] = (real)m.mean;
    tensor_data(l->memory[DEVIATION])[c] = (real)sqrt(m.variance + o->epsilon);
}

/* Of channel c, what the forward pass settled, and its weight and bias. */
typedef struct numbers {
    double mean, deviation, weight, bias;
} numbers;

static numbers of_channel(const layer *l, ptrdiff_t c)
{
    bool affine = l->params > 0;
    return (numbers){ (double)tensor_data(l->memory[MEAN])[c], (double)tensor_data(l->memory[DEVIATION])[c],
                      affine ? (double)tensor_data(l->param[WEIGHT])[c] : 1,
                      affine ? (double)tensor_data(l->param[BIAS])[c] : 0 };
}

/* Whether gradient leaves its work to backward, which goes through a channel while it is in cache. */
static bool together(const layer *l, tensor x)
{
    return l->paired && tensor_is_contiguous(x);
}

/* ---- passes ------------------------------------------------------------------------------------------------- */

static void forward_channel(const pass *p, ptrdiff_t c, norm_set set, const real *x)
{
    settle(p->l, set, c, x);
    numbers n = of_channel(p->l, c);
    norm_apply(set, p->to + c * set.length, x, n.mean, n.weight / n.deviation, n.bias);
}

static void take_sums(const layer *l, ptrdiff_t c, norm_set set, const real *dy, const real *x,
                      ptrdiff_t stride_x)
{
    *sums_of(l, c) = norm_sum(set, dy + c * set.length, x, stride_x, of_channel(l, c).mean);
}

static void add_gradient(const layer *l, ptrdiff_t c, norm_set set, const real *dy, const real *x,
                         ptrdiff_t stride_x)
{
    take_sums(l, c, set, dy, x, stride_x);
    norm_sums sums = *sums_of(l, c);
    tensor_data(l->grad[WEIGHT])[c] += (real)(sums.product / of_channel(l, c).deviation);
    tensor_data(l->grad[BIAS])[c] += (real)sums.g;
}

static void backward_channel(const pass *p, ptrdiff_t c, norm_set set, const real *x)
{
    numbers n = of_channel(p->l, c);
    const real *dy = p->dy + c * set.length;
    real *dx = p->to + c * set.length;
    if (layer_training(p->l)) {
        if (!p->l->graded) take_sums(p->l, c, set, p->dy, x, set.stride);
        norm_sums sums = *sums_of(p->l, c);
        sums.g *= n.weight;
        sums.product *= n.weight;
        norm_adjoint(set, dx, dy, n.weight, x, n.mean, n.deviation, sums, count_of(set));
    } else norm_apply(set, dx, dy, 0, n.weight / n.deviation, 0); /* the moments are constants */
}

static void gradient_channel(const pass *p, ptrdiff_t c, norm_set set, const real *x)
{
    add_gradient(p->l, c, set, p->dy, x, set.stride);
}

static void both_channel(const pass *p, ptrdiff_t c, norm_set set, const real *x)
{
    gradient_channel(p, c, set, x);
    backward_channel(p, c, set, x);
}

static void forward(layer *l, tensor x, tensor y)
{
    each_channel((pass){ l, contiguous(x, y), tensor_data(y), NULL, forward_channel });
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    each_channel((pass){ l, contiguous(x, dx), tensor_data(dx), tensor_data(dy),
                         together(l, x) ? both_channel : backward_channel });
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    if (together(l, x)) return;
    if (tensor_is_contiguous(x)) {
        each_channel((pass){ l, x, NULL, tensor_data(dy), gradient_channel });
        return;
    }
    norm_set set = channel_set(l, x.shape.n[0]);
    tensor copy = tensor_narrow(l->scratch[COPY], 0, 0, set.rows);
    for (ptrdiff_t c = 0; c < x.shape.n[1]; c++) {
        tensor_copy(tensor_reshape(copy, tensor_select(x, 1, c).shape), tensor_select(x, 1, c));
        add_gradient(l, c, set, tensor_data(dy), tensor_data(copy), set.length);
    }
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
    .ignores_y = true,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};

layer *layer_batchnorm(batchnorm options)
{
    return layer_new(&layer_type_batchnorm, &options, 0, NULL);
}
