/* maxpool.c: the maximum of each window; backward, the gradient goes to the place it came from. */
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

#include <math.h>

enum { PADDED }; /* scratch */
enum { WHERE };  /* memory: row-major index of the maximum within its window */

static int geometry(const layer *l, shape x, window *w)
{
    const maxpool *o = l->options;
    return window_plan_pool(w, l, x, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode);
}

static int plan(layer *l, shape x, shape *y)
{
    window w;
    if (geometry(l, x, &w)) return -1;
    double area = (double)w.kernel[0] * w.kernel[1], exact = 1 / (double)REAL_EPSILON;
    if (area > exact)
        return layer_refuse(l, "kernel %d×%d has more than %g places", w.kernel[0], w.kernel[1], exact);
    *y = SHAPE(x.n[0], x.n[1], w.out[0], w.out[1]);
    if (layer_memory(l, *y)) return -1;
    return layer_scratch(l, window_padded(&w) ? window_padded_shape(&w, x.n[1]) : SHAPE(0));
}

static bool exceeds(real x, real best)
{
    return x > best || (isnan(x) && !isnan(best));
}

/* The first place of a window, along an axis, that lies in the image; 0 where none does. */
static int first_inside(const window *w, int axis, ptrdiff_t at)
{
    ptrdiff_t outside = w->before[axis] - at * w->stride[axis], dilation = w->dilation[axis];
    ptrdiff_t first = outside > 0 ? (outside + dilation - 1) / dilation : 0;
    return first < w->kernel[axis] ? (int)first : 0;
}

/* The first maximum of a window in row-major order, where `begin` holds against its equals: a window of
 * nothing but -inf gives its gradient to the image, not to the padding before it. */
static ptrdiff_t pick(const real *at, const ptrdiff_t stride[2], const int kernel[2], const int begin[2],
                      real *best)
{
    ptrdiff_t where = (ptrdiff_t)begin[0] * kernel[1] + begin[1];
    *best = at[begin[0] * stride[0] + begin[1] * stride[1]];
    for (int kh = 0; kh < kernel[0]; kh++)
        for (int kw = 0; kw < kernel[1]; kw++) {
            real x = at[kh * stride[0] + kw * stride[1]];
            if (!exceeds(x, *best)) continue;
            *best = x;
            where = (ptrdiff_t)kh * kernel[1] + kw;
        }
    return where;
}

static void forward(layer *l, tensor x, tensor y)
{
    const maxpool *o = l->options;
    window w;
    geometry(l, l->x, &w);
    if (window_padded(&w)) tensor_fill(l->scratch[PADDED], o->pad_value == PAD_ZERO ? 0 : -(real)INFINITY);
    real *out = tensor_data(y), *where = tensor_data(l->memory[WHERE]);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor view = window_view(&w, window_source(&w, tensor_select(x, 0, i), l->scratch[PADDED]));
        const real *data = tensor_data(view); /* [C, OH, OW, KH, KW] */
        for (ptrdiff_t c = 0; c < view.shape.n[0]; c++)
            for (ptrdiff_t oh = 0; oh < view.shape.n[1]; oh++)
                for (ptrdiff_t ow = 0; ow < view.shape.n[2]; ow++) {
                    const real *at = data + c * view.stride[0] + oh * view.stride[1] + ow * view.stride[2];
                    int begin[] = { first_inside(&w, 0, oh), first_inside(&w, 1, ow) };
                    if (o->pad_value == PAD_ZERO) begin[0] = begin[1] = 0;
                    *where++ = (real)pick(at, view.stride + 3, w.kernel, begin, out++);
                }
    }
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    window w;
    geometry(l, l->x, &w);
    const real *out = tensor_data(dy), *where = tensor_data(l->memory[WHERE]);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        tensor image = tensor_select(dx, 0, i);
        tensor view = window_view(&w, window_target(&w, image, l->scratch[PADDED]));
        real *data = tensor_data(view); /* [C, OH, OW, KH, KW] */
        for (ptrdiff_t c = 0; c < view.shape.n[0]; c++)
            for (ptrdiff_t oh = 0; oh < view.shape.n[1]; oh++)
                for (ptrdiff_t ow = 0; ow < view.shape.n[2]; ow++) {
                    ptrdiff_t place = (ptrdiff_t)*where++, kh = place / w.kernel[1], kw = place % w.kernel[1];
                    data[c * view.stride[0] + oh * view.stride[1] + ow * view.stride[2] +
                         kh * view.stride[3] + kw * view.stride[4]] += *out++;
                }
        window_finish(&w, image, l->scratch[PADDED]);
    }
}

static const layer_field fields[] = {
    WINDOW_POOL_FIELDS(maxpool),
    { "pad_value", FIELD_CHOICE, offsetof(maxpool, pad_value), .choices = window_pad_values },
    { 0 },
};

const layer_type layer_type_maxpool = {
    .name = "maxpool",
    .options_size = sizeof(maxpool),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};

layer *layer_maxpool(maxpool options)
{
    return layer_new(&layer_type_maxpool, &options, 0, NULL);
}
