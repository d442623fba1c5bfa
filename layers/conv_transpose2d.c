/* conv_transpose2d.c: the adjoint of a convolution as a forward pass: the same windows, the sides swapped. */
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

#include <math.h>

enum { WEIGHT, BIAS };           /* parameters */
enum { COLUMNS, PADDED, IMAGE }; /* scratch */

/* The windows lie in the output; there are as many as the input has places. */
static int geometry(const layer *l, shape x, window *w)
{
    const conv_transpose2d *o = l->options;
    if (x.rank != 4) return layer_refuse(l, "the input is %s, expected [N, C, H, W]", shape_text(x).text);
    shape y = SHAPE(x.n[0], o->out_channels, 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        if (o->output_padding[axis] >= o->stride[axis] && o->output_padding[axis] >= o->dilation[axis])
            return layer_refuse(l, "output_padding %d×%d, expected less than the stride or the dilation",
                                o->output_padding[0], o->output_padding[1]);
        ptrdiff_t reach = (ptrdiff_t)o->dilation[axis] * (o->kernel[axis] - 1) + 1, size;
        if (__builtin_mul_overflow(x.n[2 + axis] - 1, o->stride[axis], &size) || size > PTRDIFF_MAX / 4)
            return layer_refuse(l, "the input %s is too large", shape_text(x).text);
        y.n[2 + axis] = size + reach + o->output_padding[axis] - 2 * (ptrdiff_t)o->padding[axis];
        if (y.n[2 + axis] < 1)
            return layer_refuse(l, "padding %d×%d leaves nothing of the output", o->padding[0],
                                o->padding[1]);
    }
    if (window_plan(w, l, y, o->kernel, o->stride, o->padding, o->dilation, false)) return -1;
    w->out[0] =
        x.n[2]; /* output_padding beyond a stride would make room for more windows, which do not count */
    w->out[1] = x.n[3];
    return 0;
}

static int plan(layer *l, shape x, shape *y)
{
    const conv_transpose2d *o = l->options;
    window w;
    if (geometry(l, x, &w)) return -1;
    if (x.n[1] % o->groups || o->out_channels % o->groups)
        return layer_refuse(l, "groups=%d must divide the %td input and %d output channels", o->groups,
                            x.n[1], o->out_channels);
    double fan_in = (double)(o->out_channels / o->groups) * o->kernel[0] * o->kernel[1];
    layer_init init = { .uniform = 1 / sqrt(fan_in) };
    if (layer_parameter(l, "weight", SHAPE(x.n[1], o->out_channels / o->groups, o->kernel[0], o->kernel[1]),
                        init))
        return -1;
    if (!o->no_bias && layer_parameter(l, "bias", SHAPE(o->out_channels), init)) return -1;
    if (layer_scratch(l, SHAPE(o->out_channels, o->kernel[0], o->kernel[1], w.out[0], w.out[1]))) return -1;
    if (layer_scratch(l, window_padded(&w) ? window_padded_shape(&w, o->out_channels) : SHAPE(0))) return -1;
    if (layer_scratch(l, SHAPE(x.n[1], x.n[2], x.n[3]))) return -1;
    *y = SHAPE(x.n[0], o->out_channels, w.size[0], w.size[1]);
    l->flops = 2 * fan_in * (double)shape_count(x, "conv_transpose2d");
    return 0;
}

static ptrdiff_t weight_row(const layer *l)
{
    return tensor_count(l->param[WEIGHT]) / l->param[WEIGHT].shape.n[0];
}

/* Image i as a matrix can be made of it: contiguous, if need be as a copy. */
static tensor image_of(const layer *l, tensor x, ptrdiff_t i)
{
    tensor image = tensor_select(x, 0, i);
    if (tensor_is_contiguous(image)) return image;
    tensor_copy(l->scratch[IMAGE], image);
    return l->scratch[IMAGE];
}

/* [C/groups, H W] of an image, [O/groups KH KW, H W] of its columns. */
static tensor in_group(const window *w, tensor image, int g, int groups)
{
    return window_rows(image, g, groups, w->out[0] * w->out[1]);
}

static void forward(layer *l, tensor x, tensor y)
{
    const conv_transpose2d *o = l->options;
    window w;
    geometry(l, l->x, &w);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor image = image_of(l, x, i), out = tensor_select(y, 0, i);
        for (int g = 0; g < o->groups; g++)
            tensor_gemm(in_group(&w, l->scratch[COLUMNS], g, o->groups), 1,
                        tensor_transpose(window_rows(l->param[WEIGHT], g, o->groups, weight_row(l)), 0, 1),
                        in_group(&w, image, g, o->groups), 0);
        window_col2im(&w, out, l->scratch[COLUMNS], l->scratch[PADDED]);
    }
    if (!o->no_bias)
        tensor_add(y, 1, tensor_expand(tensor_reshape(l->param[BIAS], SHAPE(y.shape.n[1], 1, 1)), y.shape));
}

/* The columns of one image of dy, which both adjoints are products with. */
static tensor columns_of(const layer *l, const window *w, tensor out)
{
    if (window_padded(w)) tensor_fill(l->scratch[PADDED], 0);
    window_im2col(w, l->scratch[COLUMNS], out, l->scratch[PADDED]);
    return l->scratch[COLUMNS];
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    const conv_transpose2d *o = l->options;
    window w;
    geometry(l, l->x, &w);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        tensor columns = columns_of(l, &w, tensor_select(dy, 0, i)), image = tensor_select(dx, 0, i);
        for (int g = 0; g < o->groups; g++)
            tensor_gemm(in_group(&w, image, g, o->groups), 1,
                        window_rows(l->param[WEIGHT], g, o->groups, weight_row(l)),
                        in_group(&w, columns, g, o->groups), 0);
    }
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    const conv_transpose2d *o = l->options;
    window w;
    geometry(l, l->x, &w);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor columns = columns_of(l, &w, tensor_select(dy, 0, i)), image = image_of(l, x, i);
        for (int g = 0; g < o->groups; g++)
            tensor_gemm(window_rows(l->grad[WEIGHT], g, o->groups, weight_row(l)), 1,
                        in_group(&w, image, g, o->groups),
                        tensor_transpose(in_group(&w, columns, g, o->groups), 0, 1), 1);
    }
    if (!o->no_bias)
        tensor_add(tensor_expand(tensor_reshape(l->grad[BIAS], SHAPE(dy.shape.n[1], 1, 1)), dy.shape), 1, dy);
}

static const layer_field fields[] = {
    { "out_channels", FIELD_INT, offsetof(conv_transpose2d, out_channels), .least = 1 },
    { "kernel", FIELD_PAIR, offsetof(conv_transpose2d, kernel), .least = 1, .square = true },
    { "stride", FIELD_PAIR, offsetof(conv_transpose2d, stride), .least = 1, .fallback = 1, .square = true },
    { "padding", FIELD_PAIR, offsetof(conv_transpose2d, padding) },
    { "output_padding", FIELD_PAIR, offsetof(conv_transpose2d, output_padding) },
    { "dilation", FIELD_PAIR, offsetof(conv_transpose2d, dilation), .least = 1, .fallback = 1,
      .square = true },
    { "groups", FIELD_INT, offsetof(conv_transpose2d, groups), .least = 1, .fallback = 1 },
    { "no_bias", FIELD_BOOL, offsetof(conv_transpose2d, no_bias) },
    { 0 },
};

const layer_type layer_type_conv_transpose2d = {
    .name = "conv_transpose2d",
    .options_size = sizeof(conv_transpose2d),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};

layer *layer_conv_transpose2d(conv_transpose2d options)
{
    return layer_new(&layer_type_conv_transpose2d, &options, 0, NULL);
}
