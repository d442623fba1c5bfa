/* pool.c: pooling by any function of one window; its adjoint is the user's, or taken numerically. */
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

#include <math.h>

enum { PADDED, DPADDED, VALUES, DVALUES }; /* scratch: the padded image, and one window */

static int geometry(const layer *l, shape x, window *w)
{
    const pool *o = l->options;
    return window_plan_pool(w, l, x, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode);
}

static int plan(layer *l, shape x, shape *y)
{
    const pool *o = l->options;
    if (!o->function->name || !o->function->value)
        return layer_refuse(l, "the window function %s has no %s",
                            o->function->name ? o->function->name : "?",
                            o->function->name ? "value" : "name");
    window w;
    if (geometry(l, x, &w)) return -1;
    ptrdiff_t area = (ptrdiff_t)w.kernel[0] * w.kernel[1];
    shape padded = window_padded(&w) ? window_padded_shape(&w, x.n[1]) : SHAPE(0);
    if (layer_scratch(l, padded) || layer_scratch(l, padded)) return -1;
    if (layer_scratch(l, SHAPE(area)) || layer_scratch(l, SHAPE(area))) return -1;
    *y = SHAPE(x.n[0], x.n[1], w.out[0], w.out[1]);
    return 0;
}

static void numeric_adjoint(const pool_function *f, real *values, ptrdiff_t n, real dy, real *dvalues)
{
    const double relative = cbrt((double)REAL_EPSILON); /* balances truncation against rounding */
    for (ptrdiff_t i = 0; i < n; i++) {
        real middle = values[i], step = (real)(relative * fmax(1, fabs((double)middle)));
        real above = middle + step, below = middle - step;
        values[i] = above;
        real high = f->value(values, n, f->context);
        values[i] = below;
        real low = f->value(values, n, f->context);
        values[i] = middle;
        dvalues[i] = isfinite(middle) ? dy * (high - low) / (above - below) : 0;
    }
}

/* Window k, in row-major order of [C, OH, OW], of a view [C, OH, OW, KH, KW]: as a view [KH, KW]. */
static tensor window_at(tensor view, ptrdiff_t k)
{
    ptrdiff_t oh = view.shape.n[1], ow = view.shape.n[2];
    tensor row = tensor_select(tensor_select(view, 0, k / (oh * ow)), 0, k / ow % oh);
    return tensor_select(row, 0, k % ow);
}

/* An image's windows [C, OH, OW, KH, KW], padded as the options say. */
static tensor windows(const layer *l, const window *w, tensor image)
{
    const pool *o = l->options;
    if (window_padded(w)) tensor_fill(l->scratch[PADDED], o->pad_value == PAD_LOWEST ? -(real)INFINITY : 0);
    return window_view(w, window_source(w, image, l->scratch[PADDED]));
}

static tensor as_window(const window *w, tensor flat)
{
    return tensor_reshape(flat, SHAPE(w->kernel[0], w->kernel[1]));
}

static void forward(layer *l, tensor x, tensor y)
{
    const pool_function *f = ((const pool *)l->options)->function;
    window w;
    geometry(l, l->x, &w);
    tensor values = l->scratch[VALUES];
    ptrdiff_t count = tensor_count(y) / y.shape.n[0];
    real *out = tensor_data(y);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor view = windows(l, &w, tensor_select(x, 0, i));
        for (ptrdiff_t k = 0; k < count; k++) {
            tensor_copy(as_window(&w, values), window_at(view, k));
            *out++ = f->value(tensor_data(values), tensor_count(values), f->context);
        }
    }
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    const pool_function *f = ((const pool *)l->options)->function;
    window w;
    geometry(l, l->x, &w);
    tensor values = l->scratch[VALUES], dvalues = l->scratch[DVALUES], dpadded = l->scratch[DPADDED];
    real *in = tensor_data(values), *din = tensor_data(dvalues);
    ptrdiff_t count = tensor_count(y) / y.shape.n[0], area = tensor_count(values);
    const real *out = tensor_data(y), *dout = tensor_data(dy);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor view = windows(l, &w, tensor_select(x, 0, i)), dimage = tensor_select(dx, 0, i);
        tensor dview = window_view(&w, window_target(&w, dimage, dpadded));
        for (ptrdiff_t k = 0; k < count; k++, out++, dout++) {
            tensor_copy(as_window(&w, values), window_at(view, k));
            if (f->adjoint) f->adjoint(in, area, *out, *dout, din, f->context);
            else numeric_adjoint(f, in, area, *dout, din);
            tensor_add(window_at(dview, k), 1, as_window(&w, dvalues));
        }
        window_finish(&w, dimage, dpadded);
    }
}

static const layer_field fields[] = {
    { "function", FIELD_NAMED, offsetof(pool, function) },
    WINDOW_POOL_FIELDS(pool),
    { "pad_value", FIELD_CHOICE, offsetof(pool, pad_value), .choices = window_pad_values },
    { 0 },
};

const layer_type layer_type_pool = {
    .name = "pool",
    .options_size = sizeof(pool),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};

layer *layer_pool(pool options)
{
    return layer_new(&layer_type_pool, &options, 0, NULL);
}
