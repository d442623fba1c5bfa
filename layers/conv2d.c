/* conv2d.c: convolution: what it is; conv2d.h names the ways to compute it. */
#include "layers/conv2d.h"
#include "layers/types.h"

#include <math.h>

static const conv2d_method *const methods[] = { &conv2d_winograd_4, &conv2d_winograd_2, &conv2d_direct,
                                                &conv2d_columns };

static int geometry(const layer *l, shape x, window *w)
{
    const conv2d *o = l->options;
    return window_plan(w, l, x, o->kernel, o->stride, o->padding, o->dilation, false);
}

/* Whether what a layout of one's own takes could come near to what can be addressed: columns counts with care. */
static bool is_huge(const layer *l, const window *w, shape x)
{
    const double most = 0x1p48;
    double channels = (double)x.n[1] + (double)((const conv2d *)l->options)->out_channels,
           elements = channels;
    for (int axis = 0; axis < 2; axis++) {
        double reach = (double)w->dilation[axis] * w->kernel[axis];
        elements *= ((double)w->size[axis] + 2 * (double)w->before[axis] + 2 * reach + w->stride[axis]) *
                    w->kernel[axis];
    }
    return elements * (double)x.n[0] > most || elements * channels > most;
}

static const conv2d_method *method_for(const layer *l, const window *w, shape x)
{
    int last = sizeof methods / sizeof *methods - 1, i = l->kernel && !is_huge(l, w, x) ? 0 : last;
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

const real *conv2d_bias(const layer *l)
{
    return l->params > CONV2D_BIAS ? tensor_data(l->param[CONV2D_BIAS]) : NULL;
}

void conv2d_add_bias(const layer *l, tensor y)
{
    ptrdiff_t channels = y.shape.n[1], area = y.shape.n[2] * y.shape.n[3], planes = y.shape.n[0] * channels;
    const real *bias = conv2d_bias(l);
    real *at = tensor_data(y);
    for (ptrdiff_t p = 0; p < planes && bias; p++, at += area)
        for (ptrdiff_t i = 0; i < area; i++) at[i] += bias[p % channels];
}

static void forward(layer *l, tensor x, tensor y)
{
    window w;
    geometry(l, l->x, &w);
    method_for(l, &w, l->x)->forward(l, &w, x, y);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    window w;
    geometry(l, l->x, &w);
    method_for(l, &w, l->x)->backward(l, &w, dy, dx);
}

/* The sum of a plane, in so many lanes that they become vectors; each adds few numbers, of one channel. */
static double sum_of(const real *x, ptrdiff_t count)
{
    enum { LANES = 16 };
    real part[LANES] = { 0 };
    double sum = 0;
    ptrdiff_t whole = count / LANES * LANES;
    for (ptrdiff_t i = 0; i < whole; i += LANES)
        for (int e = 0; e < LANES; e++) part[e] += x[i + e];
    for (int e = 0; e < LANES; e++) sum += (double)part[e];
    for (ptrdiff_t i = whole; i < count; i++) sum += (double)x[i];
    return sum;
}

static void bias_gradient(layer *l, tensor dy)
{
    ptrdiff_t channels = dy.shape.n[1], area = dy.shape.n[2] * dy.shape.n[3];
    for (ptrdiff_t o = 0; o < channels; o++) {
        double sum = 0;
        for (ptrdiff_t i = 0; i < dy.shape.n[0]; i++)
            sum += sum_of(tensor_data(dy) + (i * channels + o) * area, area);
        tensor_data(l->grad[CONV2D_BIAS])[o] += (real)sum;
    }
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    window w;
    geometry(l, l->x, &w);
    const conv2d_method *m = method_for(l, &w, l->x);
    m->gradient(l, &w, x, dy);
    if (conv2d_bias(l) && !m->sums_bias) bias_gradient(l, dy);
}

static const layer_field fields[] = {
    { "out_channels", FIELD_INT, offsetof(conv2d, out_channels), .least = 1 },
    { "kernel", FIELD_PAIR, offsetof(conv2d, kernel), .least = 1, .square = true },
    { "stride", FIELD_PAIR, offsetof(conv2d, stride), .least = 1, .fallback = 1, .square = true },
    { "padding", FIELD_PAIR, offsetof(conv2d, padding) },
    { "dilation", FIELD_PAIR, offsetof(conv2d, dilation), .least = 1, .fallback = 1, .square = true },
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
