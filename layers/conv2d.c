/* conv2d.c: convolution: what it is; conv2d.h names the ways to compute it. */
#include "layers/conv2d.h"
#include "layers/types.h"

#include <math.h>

static const conv2d_method *const methods[] = { &conv2d_winograd, &conv2d_direct, &conv2d_columns };

static int geometry(const layer *l, shape x, window *w)
{
    const conv2d *o = l->options;
    return window_plan(w, l, x, o->kernel, o->stride, o->padding, o->dilation, false);
}

static const conv2d_method *method_for(const layer *l, const window *w, shape x)
{
    int last = sizeof methods / sizeof *methods - 1, i = l->kernel ? 0 : last;
    while (!methods[i]->suits(l, w, x)) i++;
    return methods[i];
}

static int plan(layer *l, shape x, shape *y)
{
    const conv2d *o = l->options;
    window w;
    if (geometry(l, x, &w)) return -1;
    if (x.n[1] % o->groups || o->out_channels % o->groups)
        return layer_refuse(l, "groups=%d must divide the %td input and %d output channels", o->groups,
                            x.n[1], o->out_channels);
    ptrdiff_t channels = x.n[1] / o->groups;
    double fan_in = (double)channels * o->kernel[0] * o->kernel[1];
    layer_init init = { .uniform = 1 / sqrt(fan_in) };
    if (layer_parameter(l, "weight", SHAPE(o->out_channels, channels, o->kernel[0], o->kernel[1]), init))
        return -1;
    if (!o->no_bias && layer_parameter(l, "bias", SHAPE(o->out_channels), init)) return -1;
    *y = SHAPE(x.n[0], o->out_channels, w.out[0], w.out[1]);
    l->flops = 2 * fan_in * (double)shape_count(*y, "conv2d");
    return method_for(l, &w, x)->plan(l, &w, x);
}

static tensor over_images(tensor bias, shape y)
{
    return tensor_expand(tensor_reshape(bias, SHAPE(y.n[1], 1, 1)), y);
}

static void forward(layer *l, tensor x, tensor y)
{
    const conv2d *o = l->options;
    window w;
    geometry(l, l->x, &w);
    method_for(l, &w, l->x)->forward(l, &w, x, y);
    if (!o->no_bias) tensor_add(y, 1, over_images(l->param[CONV2D_BIAS], y.shape));
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    window w;
    geometry(l, l->x, &w);
    method_for(l, &w, l->x)->backward(l, &w, dy, dx);
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    const conv2d *o = l->options;
    window w;
    geometry(l, l->x, &w);
    method_for(l, &w, l->x)->gradient(l, &w, x, dy);
    if (!o->no_bias) tensor_add(over_images(l->grad[CONV2D_BIAS], dy.shape), 1, dy);
}

static const layer_field fields[] = {
    { "out_channels", FIELD_INT, offsetof(conv2d, out_channels), .least = 1 },
    { "kernel", FIELD_PAIR, offsetof(conv2d, kernel), .least = 1 },
    { "stride", FIELD_PAIR, offsetof(conv2d, stride), .least = 1, .fallback = 1 },
    { "padding", FIELD_PAIR, offsetof(conv2d, padding) },
    { "dilation", FIELD_PAIR, offsetof(conv2d, dilation), .least = 1, .fallback = 1 },
    { "groups", FIELD_INT, offsetof(conv2d, groups), .least = 1, .fallback = 1 },
    { "no_bias", FIELD_BOOL, offsetof(conv2d, no_bias) },
    { 0 },
};

const layer_type layer_type_conv2d = {
    .name = "conv2d",
    .options_size = sizeof(conv2d),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
    .ignores_y = true,
};

layer *layer_conv2d(conv2d options)
{
    return layer_new(&layer_type_conv2d, &options, 0, NULL);
}
