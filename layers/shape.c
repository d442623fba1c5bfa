/* shape.c: layers that give the same elements another shape: flatten, unflatten, identity. */
#include "layers/layer_impl.h"
#include "layers/types.h"

static void copy_forward(const st_call *c, st_tensor x, st_tensor y)
{
    (void)c;
    st_copy(st_reshape(y, x.shape), x);
}

static void copy_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)c, (void)x, (void)y;
    st_copy(dx, st_reshape(dy, dx.shape));
}

static int flatten_plan(st_layer *l, st_shape x, st_shape *y)
{
    (void)l;
    *y = ST_SHAPE(x.n[0], st_shape_numel(x, "flatten") / x.n[0]);
    return 0;
}

const st_layer_type layer_type_flatten = {
    .name = "flatten",
    .plan = flatten_plan,
    .forward = copy_forward,
    .backward = copy_backward,
};

PLAIN_CONSTRUCTOR(flatten)

static int unflatten_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_unflatten_options *o = l->options;
    const ptrdiff_t elements = st_shape_numel(x, "unflatten") / x.n[0];
    ptrdiff_t area = elements / o->channels;
    *y = ST_SHAPE(x.n[0], o->channels, area);
    if (o->size[0] > 0 || o->size[1] > 0) {
        *y = ST_SHAPE(x.n[0], o->channels, o->size[0], o->size[1]);
        area = (ptrdiff_t)o->size[0] * o->size[1];
    }
    if (area >= 1 && elements % o->channels == 0 && elements / o->channels == area) return 0;
    return st_layer_refuse(l, "channels=%d and size=%dx%d, expected the %td elements of an image of %s",
                           o->channels, o->size[0], o->size[1], elements, st_shape_text(x).text);
}

static const st_field unflatten_fields[] = {
    { ST_FIELD(INT, st_unflatten_options, channels), .least = 1 },
    { ST_FIELD(PAIR, st_unflatten_options, size), .square = true },
    { 0 },
};

const st_layer_type layer_type_unflatten = {
    .name = "unflatten",
    .options_size = sizeof(st_unflatten_options),
    .fields = unflatten_fields,
    .plan = unflatten_plan,
    .forward = copy_forward,
    .backward = copy_backward,
};

CONSTRUCTOR(unflatten, st_unflatten_options)

static int identity_plan(st_layer *l, st_shape x, st_shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

const st_layer_type layer_type_identity = {
    .name = "identity",
    .plan = identity_plan,
    .forward = copy_forward,
    .backward = copy_backward,
};

PLAIN_CONSTRUCTOR(identity)
