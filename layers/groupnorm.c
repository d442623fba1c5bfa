/* groupnorm.c: each image's channels normalised in groups: Wu and He 2018. */
#include "layers/layers.h"
#include "layers/norm.h"
#include "layers/types.h"

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

static norm_runs runs(const layer *l)
{
    const groupnorm *o = l->options;
    ptrdiff_t image = shape_count(l->x, "groupnorm") / l->x.n[0];
    return (norm_runs){ image / o->groups, o->epsilon, norm_by_channel };
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
