/* conv2d.c: convolution as im2col and a matrix product, an image at a time so that its columns stay in
 * cache; the backward pass makes them again rather than keep them. */
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

#include <math.h>

enum { WEIGHT, BIAS };    /* parameters */
enum { COLUMNS, PADDED }; /* scratch */

static int geometry(const layer *l, shape x, window *w)
{
    const conv2d *o = l->options;
    return window_plan(w, l, x, o->kernel, o->stride, o->padding, o->dilation, false);
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
    if (layer_scratch(l, SHAPE(x.n[1], o->kernel[0], o->kernel[1], w.out[0], w.out[1]))) return -1;
    if (layer_scratch(l, window_padded(&w) ? window_padded_shape(&w, x.n[1]) : SHAPE(0))) return -1;
    *y = SHAPE(x.n[0], o->out_channels, w.out[0], w.out[1]);
    l->flops = 2 * fan_in * (double)shape_count(*y, "conv2d");
    return 0;
}

/* Of a 1x1 kernel at stride 1 the image already is the matrix. */
static bool is_matrix(const window *w, tensor image)
{
    bool point = w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1;
    return point && !window_padded(w) && tensor_is_contiguous(image);
}

static ptrdiff_t weight_row(const layer *l)
{
    return tensor_count(l->param[WEIGHT]) / l->param[WEIGHT].shape.n[0];
}

static ptrdiff_t positions(const window *w)
{
    return w->out[0] * w->out[1];
}

static tensor columns_of(const layer *l, const window *w, tensor image)
{
    if (is_matrix(w, image)) return image;
    window_im2col(w, l->scratch[COLUMNS], image, l->scratch[PADDED]);
    return l->scratch[COLUMNS];
}

static void forward(layer *l, tensor x, tensor y)
{
    const conv2d *o = l->options;
    window w;
    geometry(l, l->x, &w);
    if (window_padded(&w)) tensor_fill(l->scratch[PADDED], 0);
    if (!o->no_bias)
        tensor_copy(y, tensor_expand(tensor_reshape(l->param[BIAS], SHAPE(y.shape.n[1], 1, 1)), y.shape));
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor columns = columns_of(l, &w, tensor_select(x, 0, i)), out = tensor_select(y, 0, i);
        for (int g = 0; g < o->groups; g++)
            tensor_gemm(window_rows(out, g, o->groups, positions(&w)), 1,
                        window_rows(l->param[WEIGHT], g, o->groups, weight_row(l)),
                        window_rows(columns, g, o->groups, positions(&w)), o->no_bias ? 0 : 1);
    }
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    const conv2d *o = l->options;
    window w;
    geometry(l, l->x, &w);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        tensor image = tensor_select(dx, 0, i), out = tensor_select(dy, 0, i);
        bool direct = is_matrix(&w, image);
        tensor columns = direct ? image : l->scratch[COLUMNS];
        for (int g = 0; g < o->groups; g++) {
            tensor weight = window_rows(l->param[WEIGHT], g, o->groups, weight_row(l));
            tensor_gemm(window_rows(columns, g, o->groups, positions(&w)), 1, tensor_transpose(weight, 0, 1),
                        window_rows(out, g, o->groups, positions(&w)), 0);
        }
        if (!direct) window_col2im(&w, image, columns, l->scratch[PADDED]);
    }
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    const conv2d *o = l->options;
    window w;
    geometry(l, l->x, &w);
    if (window_padded(&w)) tensor_fill(l->scratch[PADDED], 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor columns = columns_of(l, &w, tensor_select(x, 0, i)), out = tensor_select(dy, 0, i);
        for (int g = 0; g < o->groups; g++) {
            tensor part = window_rows(columns, g, o->groups, positions(&w));
            tensor_gemm(window_rows(l->grad[WEIGHT], g, o->groups, weight_row(l)), 1,
                        window_rows(out, g, o->groups, positions(&w)), tensor_transpose(part, 0, 1), 1);
        }
    }
    if (!o->no_bias)
        tensor_add(tensor_expand(tensor_reshape(l->grad[BIAS], SHAPE(dy.shape.n[1], 1, 1)), dy.shape), 1, dy);
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
};

layer *layer_conv2d(conv2d options)
{
    return layer_new(&layer_type_conv2d, &options, 0, NULL);
}
