/* groupnorm.c: each image's channels normalised in groups: Wu and He 2018. */
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/norm.h"
#include "layers/types.h"

#include <math.h>

enum { WEIGHT, BIAS }; /* parameters */
enum { IMAGE };        /* scratch: of x, where it has gaps */

static int plan(layer *l, shape x, shape *y)
{
    const groupnorm *o = l->options;
    if (x.rank < 2) return layer_refuse(l, "the input is %s, expected [N, C, ...]", shape_text(x).text);
    if (x.n[1] % o->groups)
        return layer_refuse(l, "groups=%d must divide the %td channels", o->groups, x.n[1]);
    if (!o->no_affine && layer_parameter(l, "weight", SHAPE(x.n[1]), (layer_init){ .constant = 1 }))
        return -1;
    if (!o->no_affine && layer_parameter(l, "bias", SHAPE(x.n[1]), (layer_init){ 0 })) return -1;
    *y = x;
    x.n[0] = 1;
    return layer_scratch(l, x);
}

/* A group is a run of channels, and both are runs of elements. */
static norm_set run(const layer *l, ptrdiff_t parts)
{
    ptrdiff_t image = shape_count(l->x, "groupnorm") / l->x.n[0], length = image / parts;
    return (norm_set){ 1, length, length, lanes_wide(l) };
}

static norm_set group(const layer *l)
{
    return run(l, ((const groupnorm *)l->options)->groups);
}

static norm_set channel(const layer *l)
{
    return run(l, l->x.n[1]);
}

typedef struct moments {
    double mean, deviation;
} moments;

static moments measure(const layer *l, const real *x)
{
    norm_moments m = norm_measure(group(l), x);
    return (moments){ m.mean, sqrt(m.variance + ((const groupnorm *)l->options)->epsilon) };
}

static double weight(const layer *l, ptrdiff_t c)
{
    return l->params > 0 ? (double)tensor_data(l->param[WEIGHT])[c] : 1;
}

static double bias(const layer *l, ptrdiff_t c)
{
    return l->params > 0 ? (double)tensor_data(l->param[BIAS])[c] : 0;
}

static void forward_image(const layer *l, const real *x, real *y)
{
    norm_set set = channel(l);
    ptrdiff_t channels = l->x.n[1], each = group(l).length / set.length;
    moments m = { 0 };
    for (ptrdiff_t c = 0; c < channels; c++, x += set.length, y += set.length) {
        if (c % each == 0) m = measure(l, x);
        norm_apply(set, y, x, m.mean, weight(l, c) / m.deviation, bias(l, c));
    }
}

/* The sums of a group are the channels' sums, each times its weight; dx is of the group's dy, so weighted. */
static void backward_group(const layer *l, ptrdiff_t first, const real *x, const real *dy, real *dx)
{
    norm_set set = channel(l);
    ptrdiff_t each = group(l).length / set.length;
    moments m = measure(l, x);
    norm_sums total = { 0 };
    for (ptrdiff_t k = 0; k < each; k++) {
        norm_sums sums = norm_sum(set, dy + k * set.length, x + k * set.length, set.stride, m.mean);
        total.g += weight(l, first + k) * sums.g;
        total.product += weight(l, first + k) * sums.product;
    }
    for (ptrdiff_t k = 0; k < each; k++, x += set.length, dy += set.length, dx += set.length)
        norm_adjoint(set, dx, dy, weight(l, first + k), x, m.mean, m.deviation, total,
                     (double)(each * set.length));
}

static void forward(layer *l, tensor x, tensor y)
{
    const real *in = norm_elements(x, y);
    real *out = tensor_data(y);
    ptrdiff_t image = tensor_count(y) / y.shape.n[0];
    for (ptrdiff_t i = 0; i < y.shape.n[0]; i++) forward_image(l, in + i * image, out + i * image);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    const real *in = norm_elements(x, dx), *slope = tensor_data(dy);
    real *out = tensor_data(dx);
    ptrdiff_t length = group(l).length, groups = ((const groupnorm *)l->options)->groups;
    for (ptrdiff_t k = 0; k < dx.shape.n[0] * groups; k++, in += length, slope += length, out += length)
        backward_group(l, k % groups * (l->x.n[1] / groups), in, slope, out);
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    norm_set set = channel(l);
    ptrdiff_t channels = l->x.n[1], each = group(l).length / set.length;
    const real *slope = tensor_data(dy);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *in = norm_elements(tensor_narrow(x, 0, i, 1), l->scratch[IMAGE]);
        moments m = { 0 };
        for (ptrdiff_t c = 0; c < channels; c++, in += set.length, slope += set.length) {
            if (c % each == 0) m = measure(l, in);
            norm_sums sums = norm_sum(set, slope, in, set.stride, m.mean);
            tensor_data(l->grad[WEIGHT])[c] += (real)(sums.product / m.deviation);
            tensor_data(l->grad[BIAS])[c] += (real)sums.g;
        }
    }
}

static const layer_field fields[] = {
    { "groups", FIELD_INT, offsetof(groupnorm, groups), .least = 1 },
    { "epsilon", FIELD_REAL, offsetof(groupnorm, epsilon), .fallback = 1e-5 },
    { "no_affine", FIELD_BOOL, offsetof(groupnorm, no_affine) },
    { 0 },
};

const layer_type layer_type_groupnorm = {
    .name = "groupnorm",
    .options_size = sizeof(groupnorm),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
    .ignores_y = true,
};

layer *layer_groupnorm(groupnorm options)
{
    return layer_new(&layer_type_groupnorm, &options, 0, NULL);
}
