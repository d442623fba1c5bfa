/* layernorm.c: the last axes of each image normalised: Ba, Kiros and Hinton 2016. */
#include "layers/layers.h"
#include "layers/norm.h"
#include "layers/types.h"

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
    x.n[0] = 1; /* scratch is of one image */
    return layer_scratch(l, x);
}

static norm_runs runs(const layer *l)
{
    const layernorm *o = l->options;
    return (norm_runs){ shape_count(normalised(l, l->x), "layernorm"), o->epsilon, tensor_expand };
}

static void forward(layer *l, tensor x, tensor y)
{
    norm_runs_forward(l, runs(l), x, y);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    norm_runs_backward(l, runs(l), x, dy, dx);
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    norm_runs_gradient(l, runs(l), x, dy);
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
};

layer *layer_layernorm(layernorm options)
{
    return layer_new(&layer_type_layernorm, &options, 0, NULL);
}
