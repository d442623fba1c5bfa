/* maxpool.c: the maximum of each window; backward, the gradient goes to the place it came from. */
#include "layers/layers.h"
#include "layers/fast/maxima.h"
#include "layers/types.h"

enum { COPY, FIRST, SEEN, MAXIMA, PLACES }; /* scratch, see maxima.h; results of a channel */
enum { WHERE }; /* memory, written in training: row-major index of the maximum within its window */

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
    const ptrdiff_t windows = w.out[0] * w.out[1];
    const ptrdiff_t room[] = { [COPY] = maxima_copy_room(&w),
                               [FIRST] = maxima_first_room(&w),
                               [SEEN] = maxima_seen_room(&w),
                               [MAXIMA] = windows,
                               [PLACES] = windows };
    for (size_t i = 0; i < sizeof room / sizeof *room; i++)
        if (layer_scratch(l, SHAPE(room[i]))) return -1;
    return 0;
}

static maxima begin(const layer *l)
{
    maxima m = { .pads_zero = ((const maxpool *)l->options)->pad_value == PAD_ZERO,
                 .copy = tensor_data(l->scratch[COPY]),
                 .first = tensor_data(l->scratch[FIRST]),
                 .seen = tensor_data(l->scratch[SEEN]) };
    geometry(l, l->x, &m.w);
    return m;
}

static const real *channel(tensor x, ptrdiff_t i, ptrdiff_t c)
{
    return tensor_data(x) + i * x.stride[0] + c * x.stride[1];
}

static void forward(layer *l, tensor x, tensor y)
{
    const maxima m = begin(l);
    maxima_find *find = maxima_finder(l);
    maxima_prepare(&m);
    ptrdiff_t area = m.w.out[0] * m.w.out[1];
    real *out = tensor_data(y), *where = layer_training(l) ? tensor_data(l->memory[WHERE]) : NULL;
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < x.shape.n[1]; c++, out += area) {
            find(&m, channel(x, i, c), x.stride + 2, out, where);
            if (where) where += area;
        }
}

/* Inference kept no places: they are found again. */
static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    const maxima m = begin(l);
    maxima_find *find = maxima_finder(l);
    maxima_scatter *scatter = maxima_scatterer(l, &m.w);
    bool kept = layer_training(l);
    if (!kept) maxima_prepare(&m);
    maxima_prepare_adjoint(&m);
    ptrdiff_t area = m.w.out[0] * m.w.out[1], image = m.w.size[0] * m.w.size[1];
    const real *out = tensor_data(dy), *where = tensor_data(l->memory[WHERE]);
    real *to = tensor_data(dx), *best = tensor_data(l->scratch[MAXIMA]),
         *again = tensor_data(l->scratch[PLACES]);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < dx.shape.n[1]; c++, out += area, where += area, to += image) {
            if (!kept) find(&m, channel(x, i, c), x.stride + 2, best, again);
            scatter(&m, kept ? where : again, out, to);
        }
}

/* A dilated window may see nothing but padding, of which the greatest is -inf. */
static bool selects(const layer *l)
{
    const maxpool *o = l->options;
    return o->dilation[0] == 1 && o->dilation[1] == 1;
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
    .selects = selects,
    .ignores_y = true,
};

layer *layer_maxpool(maxpool options)
{
    return layer_new(&layer_type_maxpool, &options, 0, NULL);
}
