/* maxpool.c: the maximum of each window; backward, the gradient goes to the place it came from. */
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/types.h"
#include "layers/window.h"

#include <math.h>
#include <string.h>

enum {
    COPY,
    FIRST,
    MAXIMA,
    PLACES
};              /* scratch: a channel, padded; first places of a row; results of a channel */
enum { WHERE }; /* memory, written in training: row-major index of the maximum within its window */

static int geometry(const layer *l, shape x, window *w)
{
    const maxpool *o = l->options;
    return window_plan_pool(w, l, x, o->kernel, o->stride, o->padding, o->dilation, o->ceil_mode);
}

static bool pads_zero(const layer *l)
{
    return ((const maxpool *)l->options)->pad_value == PAD_ZERO;
}

/* A channel is copied, with its padding, so that neighbouring windows read neighbouring elements: column j goes to
 * place j / phases of phase j % phases, where `phases` is the windows' stride. */
typedef struct layout {
    ptrdiff_t phases, rows, pitch; /* [phases, rows, pitch] */
} layout;

static layout arrange(const window *w)
{
    ptrdiff_t wide = w->before[1] + w->size[1] + w->after[1], stride = w->stride[1];
    ptrdiff_t phases = stride < wide ? stride : wide;
    return (layout){ phases, w->before[0] + w->size[0] + w->after[0], (wide + phases - 1) / phases };
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
    layout a = arrange(&w);
    shape channel = SHAPE(w.out[0], w.out[1]);
    if (layer_scratch(l, SHAPE(a.phases * a.rows * a.pitch + LANES))) return -1; /* whole vectors are read */
    if (layer_scratch(l, SHAPE(w.out[1] + LANES))) return -1;
    return layer_scratch(l, channel) || layer_scratch(l, channel) ? -1 : 0;
}

/* ---- maxima of a channel ------------------------------------------------------------------------- */

/* The first place of a window, along an axis, that lies in the image; 0 where none does. */
static int first_inside(const window *w, int axis, ptrdiff_t at)
{
    ptrdiff_t outside = w->before[axis] - at * w->stride[axis], dilation = w->dilation[axis];
    ptrdiff_t first = outside > 0 ? (outside + dilation - 1) / dilation : 0;
    return first < w->kernel[axis] ? (int)first : 0;
}

/* What the maxima of channels begin from: the border of the copy, first places along a row. */
static void prepare(const layer *l, const window *w)
{
    if (window_padded(w)) tensor_fill(l->scratch[COPY], pads_zero(l) ? 0 : -(real)INFINITY);
    real *first = tensor_data(l->scratch[FIRST]);
    for (ptrdiff_t ow = 0; ow < w->out[1]; ow++) first[ow] = pads_zero(l) ? 0 : (real)first_inside(w, 1, ow);
}

/* A row of n elements `step` apart, of which the first is column `begin`. */
INLINE void copy_row(const real *from, ptrdiff_t step, ptrdiff_t n, real *to, ptrdiff_t begin,
                     ptrdiff_t phases, ptrdiff_t apart)
{
    for (ptrdiff_t k = 0; k < phases && k < n; k++) {
        real *place = to + (begin + k) % phases * apart + (begin + k) / phases;
        ptrdiff_t count = (n - k + phases - 1) / phases;
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) place[i] = from[(i * phases + k) * step];
    }
}

INLINE void copy_channel(const window *w, layout a, const real *x, const ptrdiff_t stride[2], real *copy)
{
    ptrdiff_t rows = w->size[0], n = w->size[1];
    if (stride[0] == n * stride[1] && a.pitch * a.phases == n) { /* no row ends: one row */
        n *= rows;
        rows = 1;
    }
    for (ptrdiff_t row = 0; row < rows; row++, x += stride[0]) {
        real *to = copy + (w->before[0] + row) * a.pitch;
        copy_row(x, stride[1], n, to, w->before[1], a.phases, a.rows * a.pitch);
    }
}

/* Where the windows of the channel begin: in the copy, or in x where neighbours are neighbours there and no vector
 * reaches over. */
INLINE const real *source(const window *w, layout *a, const real *x, const ptrdiff_t stride[2], real *copy)
{
    if (a->phases == 1 && stride[1] == 1 && !window_padded(w) && w->out[1] >= LANES) {
        a->pitch = stride[0];
        return x;
    }
    if (stride[1] == 1 && a->phases == 1)
        copy_channel(w, (layout){ 1, a->rows, a->pitch }, x, (ptrdiff_t[]){ stride[0], 1 }, copy);
    else if (stride[1] == 1 && a->phases == 2)
        copy_channel(w, (layout){ 2, a->rows, a->pitch }, x, (ptrdiff_t[]){ stride[0], 1 }, copy);
    else copy_channel(w, *a, x, stride, copy);
    return copy;
}

/* A row of windows. `x` is the first one's first place; `first`, where each one's maximum is while nothing exceeds
 * -inf: the gradient goes to the image, not to the padding before it. */
typedef struct windows {
    const real *x, *first;
    real first_row, *best, *place; /* place: NULL where nobody asks */
    ptrdiff_t count;
} windows;

/* LANES windows at a time, the last of them beside the end of the row. A place exceeds what came before it where
 * it is greater, or the first NaN. */
INLINE void row_maxima(windows r, int high, int wide, ptrdiff_t down, layout a, ptrdiff_t dilation,
                       bool places)
{
    const ptrdiff_t apart = a.rows * a.pitch;
    for (ptrdiff_t i = 0; i < r.count; i += LANES) {
        if (i + LANES > r.count && r.count > LANES) i = r.count - LANES;
        lanes best = (lanes){ 0 } - (real)INFINITY, number = { 0 };
        lanes place = *(const lanes_at *)(r.first + i) + r.first_row;
        for (int kh = 0; kh < high; kh++) {
            const real *x = r.x + kh * down + i;
            ptrdiff_t phase = 0;
            for (int kw = 0; kw < wide; kw++, number += 1) {
                lanes value = *(const lanes_at *)(x + phase * apart);
                lanes_mask exceeds = ~(value <= best) & (best == best);
                best = LANES_PICK(exceeds, value, best);
                if (places) place = LANES_PICK(exceeds, number, place);
                for (phase += dilation; phase >= a.phases; phase -= a.phases) x++;
            }
        }
        ptrdiff_t left = r.count - i;
        if (left >= LANES) {
            *(lanes_at *)(r.best + i) = best;
            if (places) *(lanes_at *)(r.place + i) = place;
        }
        for (ptrdiff_t k = 0; k < left && left < LANES; k++) {
            r.best[i + k] = best[k];
            if (places) r.place[i + k] = place[k];
        }
    }
}

INLINE void rows_maxima(const layer *l, const window *w, windows r, int high, int wide, layout a,
                        ptrdiff_t dilation, bool places)
{
    bool zero = pads_zero(l);
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++) {
        r.first_row = zero ? 0 : (real)first_inside(w, 0, oh) * (real)wide;
        row_maxima(r, high, wide, w->dilation[0] * a.pitch, a, dilation, places);
        r.x += w->stride[0] * a.pitch;
        r.best += r.count;
        if (places) r.place += r.count;
    }
}

/* What is known of the commonest windows is told to the compiler, which unrolls them. */
INLINE void common_maxima(const layer *l, const window *w, windows r, layout a, bool places)
{
    const int high = w->kernel[0], wide = w->kernel[1], dilation = w->dilation[1];
    const layout one = { 1, a.rows, a.pitch }, two = { 2, a.rows, a.pitch };
    bool pair = high == 2 && wide == 2 && dilation == 1, triple = high == 3 && wide == 3 && dilation == 1;
    if (pair && a.phases == 2) rows_maxima(l, w, r, 2, 2, two, 1, places);
    else if (triple && a.phases == 2) rows_maxima(l, w, r, 3, 3, two, 1, places);
    else if (triple && a.phases == 1) rows_maxima(l, w, r, 3, 3, one, 1, places);
    else rows_maxima(l, w, r, high, wide, a, dilation, places);
}

INLINE void maxima(const layer *l, const window *w, const real *x, const ptrdiff_t stride[2], real *best,
                   real *place)
{
    layout a = arrange(w);
    const real *begin = source(w, &a, x, stride, tensor_data(l->scratch[COPY]));
    windows r = { begin, tensor_data(l->scratch[FIRST]), 0, best, place, w->out[1] };
    if (place) common_maxima(l, w, r, a, true);
    else common_maxima(l, w, r, a, false);
}

typedef void finder(const layer *l, const window *w, const real *x, const ptrdiff_t stride[2], real *best,
                    real *place);

static void find_any(const layer *l, const window *w, const real *x, const ptrdiff_t stride[2], real *best,
                     real *place)
{
    maxima(l, w, x, stride, best, place);
}

WIDE static void find_wide(const layer *l, const window *w, const real *x, const ptrdiff_t stride[2],
                           real *best, real *place)
{
    maxima(l, w, x, stride, best, place);
}

static const real *channel(tensor x, ptrdiff_t i, ptrdiff_t c)
{
    return tensor_data(x) + i * x.stride[0] + c * x.stride[1];
}

static void forward(layer *l, tensor x, tensor y)
{
    window w;
    geometry(l, l->x, &w);
    prepare(l, &w);
    finder *find = lanes_wide(l) ? find_wide : find_any;
    ptrdiff_t area = w.out[0] * w.out[1];
    real *out = tensor_data(y), *where = layer_training(l) ? tensor_data(l->memory[WHERE]) : NULL;
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < x.shape.n[1]; c++, out += area) {
            find(l, &w, channel(x, i, c), x.stride + 2, out, where);
            if (where) where += area;
        }
}

/* ---- and their gradients --------------------------------------------------------------------------- */

/* 2×2 windows side by side: what is not a maximum is written as 0, with no pass before that zeroes all. */
static void choose(const window *w, const real *place, const real *dy, real *dx)
{
    const ptrdiff_t wide = w->size[1], count = w->out[1];
    for (ptrdiff_t row = 0; row < w->size[0]; row++, dx += wide) {
        const real left = (real)(row % 2 * 2), right = left + 1;
        ptrdiff_t reached = row / 2 < w->out[0] ? count : 0;
#pragma omp simd
        for (ptrdiff_t ow = 0; ow < reached; ow++) {
            real value = dy[ow];
            dx[2 * ow] = place[ow] == left ? value : 0;
            dx[2 * ow + 1] = place[ow] == right ? value : 0;
        }
        for (ptrdiff_t k = 2 * reached; k < wide; k++) dx[k] = 0;
        if (row % 2) place += count, dy += count;
    }
}

/* Each gradient to its place, if that lies in the image. Dividing by a width that is known is quicker. */
INLINE void scatter(const window *w, int wide, const real *place, const real *dy, real *dx)
{
    memset(dx, 0, (size_t)(w->size[0] * w->size[1]) * sizeof(real));
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++)
        for (ptrdiff_t ow = 0; ow < w->out[1]; ow++) {
            ptrdiff_t where = (ptrdiff_t)*place++;
            ptrdiff_t h = oh * w->stride[0] - w->before[0] + where / wide * w->dilation[0];
            ptrdiff_t v = ow * w->stride[1] - w->before[1] + where % wide * w->dilation[1];
            if (h >= 0 && h < w->size[0] && v >= 0 && v < w->size[1]) dx[h * w->size[1] + v] += *dy;
            dy++;
        }
}

static void distribute(const window *w, const real *place, const real *dy, real *dx)
{
    bool square = w->kernel[0] == 2 && w->kernel[1] == 2, near = w->dilation[0] == 1 && w->dilation[1] == 1;
    if (square && near && w->stride[0] == 2 && w->stride[1] == 2 && !window_padded(w))
        choose(w, place, dy, dx);
    else if (w->kernel[1] == 3) scatter(w, 3, place, dy, dx);
    else scatter(w, w->kernel[1], place, dy, dx);
}

/* Inference kept no places: they are found again. */
static const real *places_again(const layer *l, const window *w, const real *x, const ptrdiff_t stride[2])
{
    real *place = tensor_data(l->scratch[PLACES]);
    find_any(l, w, x, stride, tensor_data(l->scratch[MAXIMA]), place);
    return place;
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    window w;
    geometry(l, l->x, &w);
    bool kept = layer_training(l);
    if (!kept) prepare(l, &w);
    ptrdiff_t area = w.out[0] * w.out[1], image = w.size[0] * w.size[1];
    const real *out = tensor_data(dy), *where = tensor_data(l->memory[WHERE]);
    real *to = tensor_data(dx);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++)
        for (ptrdiff_t c = 0; c < dx.shape.n[1]; c++, out += area, where += area, to += image)
            distribute(&w, kept ? where : places_again(l, &w, channel(x, i, c), x.stride + 2), out, to);
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
