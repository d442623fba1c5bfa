/* layernorm.c: the last axes of each image normalised: Ba, Kiros and Hinton 2016. */
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/norm.h"
#include "layers/types.h"

#include <math.h>

enum { WEIGHT, BIAS };  /* parameters */
enum { IMAGE, SCALED }; /* scratch: of x, where it has gaps; weight times dy of one run */

/* The shape that is normalised, which is that of the parameters: the last `axes` axes, by default all but
 * the batch. */
static shape normalised(const layer *l, shape x)
{
    const layernorm *o = l->options;
    shape s = { .rank = o->axes ? o->axes : x.rank - 1 };
    for (int i = 0; i < s.rank; i++) s.n[i] = x.n[x.rank - s.rank + i];
    return s;
}

static int plan(layer *l, shape x, shape *y)
{
    const layernorm *o = l->options;
    if (x.rank < 2) return layer_refuse(l, "the input is %s, expected [N, ...]", shape_text(x).text);
    if (o->axes >= x.rank)
        return layer_refuse(l, "axes=%d of an input %s, expected less than %d", o->axes, shape_text(x).text,
                            x.rank);
    shape s = normalised(l, x);
    if (!o->no_affine && layer_parameter(l, "weight", s, (layer_init){ .constant = 1 })) return -1;
    if (!o->no_affine && layer_parameter(l, "bias", s, (layer_init){ 0 })) return -1;
    *y = x;
    x.n[0] = 1;
    return layer_scratch(l, x) || layer_scratch(l, s) ? -1 : 0;
}

/* A run of elements that are normalised, of which an image has one or more. */
static norm_set run(const layer *l)
{
    ptrdiff_t length = shape_count(normalised(l, l->x), "layernorm");
    return (norm_set){ 1, length, length, lanes_wide(l) };
}

typedef struct moments {
    double mean, deviation;
} moments;

static moments measure(const layer *l, norm_set set, const real *x)
{
    norm_moments m = norm_measure(set, x);
    return (moments){ m.mean, sqrt(m.variance + ((const layernorm *)l->options)->epsilon) };
}

/* y = (x - mean) scale weight + bias */
static void apply(ptrdiff_t n, real *y, const real *x, moments m, const real *weight, const real *bias)
{
    const real mean = (real)m.mean, scale = (real)(1 / m.deviation);
    for (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

static void forward(layer *l, tensor x, tensor y)
{
    norm_set set = run(l);
    const real *in = norm_elements(x, y);
    real *out = tensor_data(y), *end = out + tensor_count(y);
    for (; out < end; in += set.length, out += set.length) {
        moments m = measure(l, set, in);
        if (l->params == 0) norm_apply(set, out, in, m.mean, 1 / m.deviation, 0);
        else apply(set.length, out, in, m, tensor_data(l->param[WEIGHT]), tensor_data(l->param[BIAS]));
    }
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    norm_set set = run(l);
    const real *in = norm_elements(x, dx), *slope = tensor_data(dy);
    const real *weight = l->params > 0 ? tensor_data(l->param[WEIGHT]) : NULL;
    real *out = tensor_data(dx), *end = out + tensor_count(dx), *scaled = tensor_data(l->scratch[SCALED]);
    for (; out < end; in += set.length, out += set.length, slope += set.length) {
        moments m = measure(l, set, in);
        for (ptrdiff_t i = 0; i < set.length && weight; i++) scaled[i] = weight[i] * slope[i];
        const real *g = weight ? scaled : slope;
        norm_adjoint(set, out, g, 1, in, m.mean, m.deviation, norm_sum(set, g, in, set.stride, m.mean),
                     (double)set.length);
    }
}

static void add_gradient(ptrdiff_t n, real *dweight, real *dbias, const real *x, moments m, const real *dy)
{
    const real mean = (real)m.mean, scale = (real)(1 / m.deviation);
    for (ptrdiff_t i = 0; i < n; i++) {
        dweight[i] += (x[i] - mean) * scale * dy[i];
        dbias[i] += dy[i];
    }
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    norm_set set = run(l);
    const real *slope = tensor_data(dy);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *in = norm_elements(tensor_narrow(x, 0, i, 1), l->scratch[IMAGE]);
        const real *end = in + tensor_count(l->scratch[IMAGE]);
        for (; in < end; in += set.length, slope += set.length)
            add_gradient(set.length, tensor_data(l->grad[WEIGHT]), tensor_data(l->grad[BIAS]), in,
                         measure(l, set, in), slope);
    }
}

static const layer_field fields[] = {
    { "axes", FIELD_INT, offsetof(layernorm, axes), .below = TENSOR_MAX_RANK },
    { "epsilon", FIELD_REAL, offsetof(layernorm, epsilon), .fallback = 1e-5 },
    { "no_affine", FIELD_BOOL, offsetof(layernorm, no_affine) },
    { 0 },
};

const layer_type layer_type_layernorm = {
    .name = "layernorm",
    .options_size = sizeof(layernorm),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
    .ignores_y = true,
};

layer *layer_layernorm(layernorm options)
{
    return layer_new(&layer_type_layernorm, &options, 0, NULL);
}
