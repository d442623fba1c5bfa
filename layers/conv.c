/* conv.c: convolution and its transpose: im2col or col2im, and a matrix product, image by image so that
 * columns stay in cache. The backward pass computes columns again instead of saving them.
 *
 * A convolution reads windows of x; a transposed convolution adds to windows of y. Without the bias, the
 * forward pass of each is the backward pass of the other. */
#include "layers/conv_impl.h"
#include "layers/init.h"

enum { COLUMNS, PADDED, IMAGE }; /* scratch */

/* ---- what both have in common ---------------------------------------------------------------------- */

/* Requests weight [into, from / groups, KH, KW], bias and scratch. */
static int plan_conv(st_layer *l, const window *w, st_shape weight, int groups, bool no_bias,
                     st_init_name init, ptrdiff_t out_channels, ptrdiff_t window_channels)
{
    if (l->x.n[1] % groups || out_channels % groups)
        return st_layer_refuse(l, "groups=%d must divide the %td input and %td output channels", groups,
                               l->x.n[1], out_channels);
    if (st_layer_parameter(l, "weight", weight, init_of(init, weight))) return -1;
    if (!no_bias && st_layer_parameter(l, "bias", ST_SHAPE(out_channels), init_of(ST_INIT_DEFAULT, weight)))
        return -1;
    conv_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = (conv_plan){ *w, groups };
    if (st_layer_scratch(l, ST_SHAPE(window_channels, w->kernel[0], w->kernel[1], w->out[0], w->out[1])))
        return -1;
    return st_layer_scratch(l, window_padded(w) ? window_padded_shape(w, window_channels) : ST_SHAPE(0));
}

const st_real *conv_bias(const st_call *c)
{
    return c->layer->params > CONV_BIAS ? st_data(c->param[CONV_BIAS]) : NULL;
}

/* The bias, or its gradient, as a view of the shape of y [N, O, OH, OW]. */
static st_tensor bias_view(st_tensor bias, st_tensor y)
{
    return st_expand(st_reshape(bias, ST_SHAPE(y.shape.n[1], 1, 1)), y.shape);
}

static void add_bias(const st_call *c, st_tensor y)
{
    if (conv_bias(c)) st_add(y, 1, bias_view(c->param[CONV_BIAS], y));
}

static st_tensor column_view(const window *w, st_tensor source)
{
    return st_permute(window_view(w, source), ST_AXES(0, 3, 4, 1, 2)); /* [C, KH, KW, OH, OW] */
}

static void im2col(const window *w, st_tensor columns, st_tensor image, st_tensor padded)
{
    st_copy(columns, column_view(w, window_source(w, image, padded)));
}

static void col2im(const window *w, st_tensor image, st_tensor columns, st_tensor padded)
{
    st_add(column_view(w, window_target(w, image, padded)), 1, columns);
    window_finish(w, image, padded);
}

/* The columns [C, KH, KW, OH, OW] of an image; for a 1x1 convolution with stride 1, the image itself. */
static st_tensor columns_of(const st_call *c, st_tensor image)
{
    const window *w = &((const conv_plan *)c->plan)->w;
    if (window_is_identity(w) && st_is_contiguous(image)) return image;
    if (window_padded(w)) st_fill(st_scratch(c, PADDED), 0);
    im2col(w, st_scratch(c, COLUMNS), image, st_scratch(c, PADDED));
    return st_scratch(c, COLUMNS);
}

/* Group g of a contiguous tensor as a matrix: of a weight [O / groups, C / groups KH KW], of columns
 * [C / groups KH KW, OH OW], of an image [C / groups, H W]. */
static st_tensor group(const conv_plan *p, st_tensor x, int g)
{
    const bool columns = x.shape.rank == 5;
    ptrdiff_t rows = x.shape.n[0] * (columns ? x.shape.n[1] * x.shape.n[2] : 1);
    st_tensor matrix = st_reshape(x, ST_SHAPE(rows, st_numel(x) / rows));
    return st_narrow(matrix, 0, g * (rows / p->groups), rows / p->groups);
}

/* Image i, contiguous: copied if necessary. */
static st_tensor contiguous_image(const st_call *c, st_tensor x, ptrdiff_t i)
{
    st_tensor image = st_select(x, 0, i);
    if (st_is_contiguous(image)) return image;
    st_copy(st_scratch(c, IMAGE), image);
    return st_scratch(c, IMAGE);
}

/* y = W columns(x) + b. As the backward pass of the transpose it has no bias. */
static void conv2d_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const conv_plan *p = c->plan;
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        st_tensor columns = columns_of(c, st_select(x, 0, i)), out = st_select(y, 0, i);
        for (int g = 0; g < p->groups; g++)
            st_gemm(group(p, out, g), 1, group(p, c->param[CONV_WEIGHT], g), group(p, columns, g), 0);
    }
    if (c->layer->type == &layer_type_conv2d) add_bias(c, y);
}

/* dx = col2im(Wᵀ dy): the sides swapped. dy may be any view, as the transpose's x is. */
static void conv2d_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    const conv_plan *p = c->plan;
    const bool identity = window_is_identity(&p->w);
    for (ptrdiff_t i = 0; i < dy.shape.n[0]; i++) {
        st_tensor in = contiguous_image(c, dy, i), out = st_select(dx, 0, i);
        st_tensor columns = identity ? out : st_scratch(c, COLUMNS);
        for (int g = 0; g < p->groups; g++)
            st_gemm(group(p, columns, g), 1, st_transpose(group(p, c->param[CONV_WEIGHT], g), 0, 1),
                    group(p, in, g), 0);
        if (!identity) col2im(&p->w, out, columns, st_scratch(c, PADDED));
    }
}

/* dW += out columns(in)ᵀ, where `in` is the side that has windows; db += dy, summed over images and
 * positions. */
static void conv_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    const conv_plan *p = c->plan;
    const bool transposed = c->layer->type == &layer_type_conv_transpose2d;
    const st_tensor in = transposed ? dy : x, out = transposed ? x : dy;
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        st_tensor columns = columns_of(c, st_select(in, 0, i)), image = contiguous_image(c, out, i);
        for (int g = 0; g < p->groups; g++)
            st_gemm(group(p, st_grad(c, CONV_WEIGHT), g), 1, group(p, image, g),
                    st_transpose(group(p, columns, g), 0, 1), 1);
    }
    if (conv_bias(c)) st_add(bias_view(st_grad(c, CONV_BIAS), dy), 1, dy);
}

/* ---- conv2d ------------------------------------------------------------------------------------------- */

static int conv2d_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_conv2d_options *o = l->options;
    window w = WINDOW_OF(o);
    if (window_plan(&w, l, x, false)) return -1;
    *y = ST_SHAPE(x.n[0], o->out_channels, w.out[0], w.out[1]);
    const ptrdiff_t size = st_shape_numel(*y, "conv2d");
    if (size < 0) return -1;
    st_shape weight = ST_SHAPE(o->out_channels, x.n[1] / o->groups, o->kernel[0], o->kernel[1]);
    l->flops = 2 * (double)weight.n[1] * w.kernel[0] * w.kernel[1] * (double)size;
    return plan_conv(l, &w, weight, o->groups, o->no_bias, o->init, o->out_channels, x.n[1]);
}

static const st_field conv2d_fields[] = {
    { ST_FIELD(INT, st_conv2d_options, out_channels), .least = 1 },
    { ST_FIELD(PAIR, st_conv2d_options, kernel), .least = 1, .square = true },
    { ST_FIELD(PAIR, st_conv2d_options, stride), .least = 1, .fallback = 1, .square = true },
    { ST_FIELD(PAIR, st_conv2d_options, padding), .square = true },
    { ST_FIELD(PAIR, st_conv2d_options, dilation), .least = 1, .fallback = 1, .square = true },
    { ST_FIELD(INT, st_conv2d_options, groups), .least = 1, .fallback = 1 },
    { ST_FIELD(BOOL, st_conv2d_options, no_bias) },
    { ST_FIELD(PAIR, st_conv2d_options, pad_height) },
    { ST_FIELD(PAIR, st_conv2d_options, pad_width) },
    { ST_FIELD(CHOICE, st_conv2d_options, init), .choices = init_names },
    { 0 },
};

const st_layer_type layer_type_conv2d = {
    .name = "conv2d",
    .options_size = sizeof(st_conv2d_options),
    .fields = conv2d_fields,
    .plan = conv2d_plan,
    .forward = conv2d_forward,
    .backward = conv2d_backward,
    .gradient = conv_gradient,
};

CONSTRUCTOR(conv2d, st_conv2d_options)

/* ---- conv_transpose2d ---------------------------------------------------------------------------------- */

/* The windows are in the output, one for each position of the input. */
static int transposed_windows(const st_layer *l, st_shape x, st_shape *y, window *w)
{
    const st_conv_transpose2d_options *o = l->options;
    if (layer_check_images(l, x)) return -1;
    *y = ST_SHAPE(x.n[0], o->out_channels, 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        w->kernel[axis] = o->kernel[axis], w->stride[axis] = o->stride[axis];
        w->dilation[axis] = o->dilation[axis];
        w->before[axis] = w->pad_after[axis] = o->padding[axis];
        if (o->output_padding[axis] >= o->stride[axis] && o->output_padding[axis] >= o->dilation[axis])
            return st_layer_refuse(l, "output_padding %dx%d, expected less than the stride or the dilation",
                                   o->output_padding[0], o->output_padding[1]);
        ptrdiff_t reach = (ptrdiff_t)o->dilation[axis] * (o->kernel[axis] - 1) + 1, size;
        if (__builtin_mul_overflow(x.n[2 + axis] - 1, o->stride[axis], &size) || size > PTRDIFF_MAX / 4)
            return st_layer_refuse(l, "the input %s is too large", st_shape_text(x).text);
        y->n[2 + axis] = size + reach + o->output_padding[axis] - 2 * (ptrdiff_t)o->padding[axis];
        if (y->n[2 + axis] < 1)
            return st_layer_refuse(l, "padding %dx%d leaves nothing of the output", o->padding[0],
                                   o->padding[1]);
    }
    if (window_plan(w, l, *y, false)) return -1;
    for (int axis = 0; axis < 2; axis++)
        w->out[axis] = x.n[2 + axis]; /* with much output_padding more windows would fit */
    return 0;
}

static int conv_transpose2d_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_conv_transpose2d_options *o = l->options;
    window w;
    if (transposed_windows(l, x, y, &w)) return -1;
    st_shape weight = ST_SHAPE(x.n[1], o->out_channels / o->groups, o->kernel[0], o->kernel[1]);
    if (plan_conv(l, &w, weight, o->groups, o->no_bias, o->init, o->out_channels, o->out_channels)) return -1;
    l->flops =
        2 * (double)weight.n[1] * w.kernel[0] * w.kernel[1] * (double)st_shape_numel(x, "conv_transpose2d");
    return st_layer_scratch(l, ST_SHAPE(x.n[1], x.n[2], x.n[3]));
}

static void conv_transpose2d_forward(const st_call *c, st_tensor x, st_tensor y)
{
    conv2d_backward(c, y, x, x, y);
    add_bias(c, y);
}

static void conv_transpose2d_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    conv2d_forward(c, dy, dx);
}

static const st_field conv_transpose2d_fields[] = {
    { ST_FIELD(INT, st_conv_transpose2d_options, out_channels), .least = 1 },
    { ST_FIELD(PAIR, st_conv_transpose2d_options, kernel), .least = 1, .square = true },
    { ST_FIELD(PAIR, st_conv_transpose2d_options, stride), .least = 1, .fallback = 1, .square = true },
    { ST_FIELD(PAIR, st_conv_transpose2d_options, padding), .square = true },
    { ST_FIELD(PAIR, st_conv_transpose2d_options, output_padding), .square = true },
    { ST_FIELD(PAIR, st_conv_transpose2d_options, dilation), .least = 1, .fallback = 1, .square = true },
    { ST_FIELD(INT, st_conv_transpose2d_options, groups), .least = 1, .fallback = 1 },
    { ST_FIELD(BOOL, st_conv_transpose2d_options, no_bias) },
    { ST_FIELD(CHOICE, st_conv_transpose2d_options, init), .choices = init_names },
    { 0 },
};

const st_layer_type layer_type_conv_transpose2d = {
    .name = "conv_transpose2d",
    .options_size = sizeof(st_conv_transpose2d_options),
    .fields = conv_transpose2d_fields,
    .plan = conv_transpose2d_plan,
    .forward = conv_transpose2d_forward,
    .backward = conv_transpose2d_backward,
    .gradient = conv_gradient,
};

CONSTRUCTOR(conv_transpose2d, st_conv_transpose2d_options)
