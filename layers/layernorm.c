/* layernorm.c: the last axes of each image normalised: Ba, Kiros and Hinton 2016. */
#include "layers/layers.h"
#include "layers/norm.h"
#include "layers/types.h"

enum { WEIGHT, BIAS };
enum { WORK }; /* scratch: weight times dy, or h */

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

static ptrdiff_t set_length(const layer *l)
{
    return shape_count(normalised(l, l->x), "layernorm");
}

static void forward(layer *l, tensor x, tensor y)
{
    const layernorm *o = l->options;
    norm_forward(y, x, set_length(l), o->epsilon);
    if (o->no_affine) return;
    tensor_multiply(y, tensor_expand(l->param[WEIGHT], y.shape));
    tensor_add(y, 1, tensor_expand(l->param[BIAS], y.shape));
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    const layernorm *o = l->options;
    tensor g = l->scratch[WORK];
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor_copy(g, tensor_narrow(dy, 0, i, 1));
        if (!o->no_affine) tensor_multiply(g, tensor_expand(l->param[WEIGHT], g.shape));
        norm_backward(tensor_narrow(dx, 0, i, 1), tensor_narrow(x, 0, i, 1), g, set_length(l), o->epsilon);
    }
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    const layernorm *o = l->options;
    tensor h = l->scratch[WORK];
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        norm_forward(h, tensor_narrow(x, 0, i, 1), set_length(l), o->epsilon);
        tensor_multiply(h, tensor_narrow(dy, 0, i, 1));
        tensor_add(tensor_expand(l->grad[WEIGHT], h.shape), 1, h);
    }
    tensor_add(tensor_expand(l->grad[BIAS], dy.shape), 1, dy);
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
