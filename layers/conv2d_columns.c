/* conv2d_columns.c: convolution as im2col and a product by BLAS, an image at a time so that its columns stay in
 * cache; the backward pass makes them again rather than keep them. */
#include "layers/conv2d.h"

enum { COLUMNS, PADDED }; /* scratch */

static bool suits(const layer *l, const window *w, shape x)
{
    (void)l, (void)w, (void)x;
    return true;
}

static int plan(layer *l, const window *w, shape x)
{
    if (layer_scratch(l, SHAPE(x.n[1], w->kernel[0], w->kernel[1], w->out[0], w->out[1]))) return -1;
    return layer_scratch(l, window_padded(w) ? window_padded_shape(w, x.n[1]) : SHAPE(0));
}

/* Of a 1x1 kernel at stride 1 the image already is the matrix. */
static bool is_matrix(const window *w, tensor image)
{
    bool point = w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1;
    return point && !window_padded(w) && tensor_is_contiguous(image);
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

/* Group g of the weights, or of their gradient: [O / groups, C / groups * KH * KW]. */
static tensor group(tensor weight, int g, int groups)
{
    return window_rows(weight, g, groups, tensor_count(weight) / weight.shape.n[0]);
}

static void forward(layer *l, const window *w, tensor x, tensor y)
{
    int groups = ((const conv2d *)l->options)->groups;
    if (window_padded(w)) tensor_fill(l->scratch[PADDED], 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor columns = columns_of(l, w, tensor_select(x, 0, i)), out = tensor_select(y, 0, i);
        for (int g = 0; g < groups; g++)
            tensor_gemm(window_rows(out, g, groups, positions(w)), 1,
                        group(l->param[CONV2D_WEIGHT], g, groups),
                        window_rows(columns, g, groups, positions(w)), 0);
    }
    conv2d_add_bias(l, y);
}

static void backward(layer *l, const window *w, tensor dy, tensor dx)
{
    int groups = ((const conv2d *)l->options)->groups;
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        tensor image = tensor_select(dx, 0, i), out = tensor_select(dy, 0, i);
        bool direct = is_matrix(w, image);
        tensor columns = direct ? image : l->scratch[COLUMNS];
        for (int g = 0; g < groups; g++)
            tensor_gemm(window_rows(columns, g, groups, positions(w)), 1,
                        tensor_transpose(group(l->param[CONV2D_WEIGHT], g, groups), 0, 1),
                        window_rows(out, g, groups, positions(w)), 0);
        if (!direct) window_col2im(w, image, columns, l->scratch[PADDED]);
    }
}

static void gradient(layer *l, const window *w, tensor x, tensor dy)
{
    int groups = ((const conv2d *)l->options)->groups;
    if (window_padded(w)) tensor_fill(l->scratch[PADDED], 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor columns = columns_of(l, w, tensor_select(x, 0, i)), out = tensor_select(dy, 0, i);
        for (int g = 0; g < groups; g++) {
            tensor part = window_rows(columns, g, groups, positions(w));
            tensor_gemm(group(l->grad[CONV2D_WEIGHT], g, groups), 1,
                        window_rows(out, g, groups, positions(w)), tensor_transpose(part, 0, 1), 1);
        }
    }
}

const conv2d_method conv2d_columns = {
    .suits = suits,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};
