/* groupnorm.c: each image's channels normalised in groups: Wu and He 2018. */
#include "layers/layers.h"
#include "layers/norm.h"
#include "layers/types.h"

enum { WEIGHT, BIAS };
enum { WORK }; /* scratch: weight times dy, or h */

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
    x.n[0] = 1; /* scratch is of one image */
    return layer_scratch(l, x);
}

static ptrdiff_t set_length(const layer *l)
{
    const groupnorm *o = l->options;
    return shape_count(l->x, "groupnorm") / l->x.n[0] / o->groups;
}

static void forward(layer *l, tensor x, tensor y)
{
    const groupnorm *o = l->options;
    norm_forward(y, x, set_length(l), o->epsilon);
    if (o->no_affine) return;
    tensor_multiply(y, norm_by_channel(l->param[WEIGHT], y.shape));
    tensor_add(y, 1, norm_by_channel(l->param[BIAS], y.shape));
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    const groupnorm *o = l->options;
    tensor g = l->scratch[WORK];
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor_copy(g, tensor_narrow(dy, 0, i, 1));
        if (!o->no_affine) tensor_multiply(g, norm_by_channel(l->param[WEIGHT], g.shape));
        norm_backward(tensor_narrow(dx, 0, i, 1), tensor_narrow(x, 0, i, 1), g, set_length(l), o->epsilon);
    }
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    const groupnorm *o = l->options;
    tensor h = l->scratch[WORK];
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        norm_forward(h, tensor_narrow(x, 0, i, 1), set_length(l), o->epsilon);
        tensor_multiply(h, tensor_narrow(dy, 0, i, 1));
        tensor_add(norm_by_channel(l->grad[WEIGHT], h.shape), 1, h);
    }
    tensor_add(norm_by_channel(l->grad[BIAS], dy.shape), 1, dy);
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
};

layer *layer_groupnorm(groupnorm options)
{
    return layer_new(&layer_type_groupnorm, &options, 0, NULL);
}
