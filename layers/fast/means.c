/* means.c: average pooling by rows of windows: element k of all windows in a row is added at once. */
#include "layers/fast/algorithms.h"
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/pool_impl.h"
#include "layers/types.h"
#include "tensor/sum.h"

#include <string.h>

/* ---- rows of windows ------------------------------------------------------------------------------ */

/* The windows begin ... end - 1 of a row whose column k is in the image; it is column `at` for the first
 * one. */
typedef struct span {
    ptrdiff_t begin, end, at;
} span;

INLINE span inside(const window *w, ptrdiff_t k)
{
    ptrdiff_t first = k * w->dilation[1] - w->before[1], stride = w->stride[1], last = w->size[1] - 1 - first;
    ptrdiff_t begin = first < 0 ? (-first + stride - 1) / stride : 0, end = last < 0 ? 0 : last / stride + 1;
    return (span){ begin, end < w->out[1] ? end : w->out[1], first + begin * stride };
}

/* y[i] += x[i step], or the adjoint; constant steps vectorise. */
INLINE void add_every(ptrdiff_t n, st_real *y, const st_real *x, ptrdiff_t step)
{
    if (step == 1)
        for (ptrdiff_t i = 0; i < n; i++) y[i] += x[i];
    else if (step == 2)
        for (ptrdiff_t i = 0; i < n; i++) y[i] += x[2 * i];
    else
        for (ptrdiff_t i = 0; i < n; i++) y[i] += x[i * step];
}

INLINE void add_to_every(ptrdiff_t n, st_real *dx, ptrdiff_t step, const st_real *dy)
{
    if (step == 1)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] += dy[i];
    else if (step == 2)
        for (ptrdiff_t i = 0; i < n; i++) dx[2 * i] += dy[i];
    else
        for (ptrdiff_t i = 0; i < n; i++) dx[i * step] += dy[i];
}

/* The image's row that is row `kh` of the windows in row oh; negative in the padding. */
INLINE ptrdiff_t row_inside(const window *w, ptrdiff_t oh, ptrdiff_t kh)
{
    ptrdiff_t row = oh * w->stride[0] - w->before[0] + kh * w->dilation[0];
    return row < w->size[0] ? row : -1;
}

/* One window per row: its part of the image. */
typedef struct view {
    ptrdiff_t rows, length, row, column, down,
        right; /* from row and column on; distances between rows and columns */
} view;

static view only_window(const window *w, ptrdiff_t oh)
{
    view v = { .down = w->dilation[0], .right = w->dilation[1] };
    ptrdiff_t begin[2], end[2], first[2] = { oh * w->stride[0] - w->before[0], -w->before[1] };
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t apart = w->dilation[axis], room = w->size[axis] - first[axis];
        begin[axis] = first[axis] < 0 ? (-first[axis] + apart - 1) / apart : 0;
        end[axis] = room > 0 ? (room - 1) / apart + 1 : 0;
        if (end[axis] > w->kernel[axis]) end[axis] = w->kernel[axis];
        if (end[axis] < begin[axis]) end[axis] = begin[axis];
    }
    v.rows = end[0] - begin[0];
    v.length = end[1] - begin[1];
    v.row = first[0] + begin[0] * v.down;
    v.column = first[1] + begin[1] * v.right;
    return v;
}

INLINE st_real long_sum(view v, const st_real *x, const ptrdiff_t stride[2])
{
    double sum = 0;
    bool beside = v.right * stride[1] == 1;
    x += v.row * stride[0] + v.column * stride[1];
    if (beside && v.down * stride[0] == v.length) return (st_real)sum_of_row(v.rows * v.length, x);
    for (ptrdiff_t kh = 0; kh < v.rows; kh++, x += v.down * stride[0]) {
        if (beside) sum += sum_of_row(v.length, x);
        for (ptrdiff_t k = 0; k < v.length && !beside; k++) sum += (double)x[k * v.right * stride[1]];
    }
    return (st_real)sum;
}

INLINE void long_spread(view v, st_real *dx, ptrdiff_t pitch, st_real dy)
{
    dx += v.row * pitch + v.column;
    for (ptrdiff_t kh = 0; kh < v.rows; kh++, dx += v.down * pitch)
        for (ptrdiff_t k = 0; k < v.length; k++) dx[k * v.right] += dy;
}

INLINE void sum_row(const window *w, ptrdiff_t oh, const st_real *x, const ptrdiff_t stride[2], st_real *y)
{
    memset(y, 0, (size_t)w->out[1] * sizeof(st_real));
    for (int kh = 0; kh < w->kernel[0]; kh++) {
        ptrdiff_t row = row_inside(w, oh, kh);
        for (int kw = 0; kw < w->kernel[1] && row >= 0; kw++) {
            span s = inside(w, kw);
            add_every(s.end - s.begin, y + s.begin, x + row * stride[0] + s.at * stride[1],
                      w->stride[1] * stride[1]);
        }
    }
}

INLINE void spread_row(const window *w, ptrdiff_t oh, st_real *dx, const st_real *dy)
{
    for (int kh = 0; kh < w->kernel[0]; kh++) {
        ptrdiff_t row = row_inside(w, oh, kh);
        for (int kw = 0; kw < w->kernel[1] && row >= 0; kw++) {
            span s = inside(w, kw);
            add_to_every(s.end - s.begin, dx + row * w->size[1] + s.at, w->stride[1], dy + s.begin);
        }
    }
}

/* 2×2 windows with stride 2, the most common ones. */
static bool paired(const window *w)
{
    bool pairs = true;
    for (int axis = 0; axis < 2; axis++)
        pairs = pairs && w->kernel[axis] == 2 && w->stride[axis] == 2 && w->dilation[axis] == 1;
    return pairs && !window_padded(w);
}

INLINE void sum_pairs(int lanes, ptrdiff_t n, const st_real *up, const st_real *down, const st_real *weight,
                      st_real *restrict y)
{
    for (ptrdiff_t begin = 0; begin < n; begin += lanes) {
        begin = lanes_within(begin, lanes, n);
        const st_real *a = up + 2 * begin, *b = down + 2 * begin, *factor = weight + begin;
        st_real *to = y + begin;
        for (int i = 0; i < lanes; i++)
            to[i] = ((a[2 * i] + b[2 * i]) + (a[2 * i + 1] + b[2 * i + 1])) * factor[i];
    }
}

INLINE void spread_pairs(int lanes, ptrdiff_t n, const st_real *dy, const st_real *weight,
                         st_real *restrict up, st_real *restrict down)
{
    for (ptrdiff_t begin = 0; begin < n; begin += lanes) {
        begin = lanes_within(begin, lanes, n);
        const st_real *from = dy + begin, *factor = weight + begin;
        st_real *a = up + 2 * begin, *b = down + 2 * begin;
#pragma GCC unroll 1 /* otherwise gcc unrolls the loop first and does not vectorise it */
        for (int i = 0; i < lanes; i++)
            a[2 * i] = a[2 * i + 1] = b[2 * i] = b[2 * i + 1] = from[i] * factor[i];
    }
}

/* ---- channels, for each machine --------------------------------------------------------------------- */

/* Shared by all of them. */
typedef struct plane {
    const window *w;
    const st_real *weight;
    st_real *weighed;
    view top; /* with one window per row, the part of the image in the first one */
    bool pairs;
} plane;

enum { WEIGHED }; /* scratch: a row of dy times the weights */

/* Begins with the members of pool_plan. */
typedef struct means_plan {
    window w;
    st_real padding;
    st_real weight[]; /* of each window [OH, OW]: 1 / (its elements that count) */
} means_plan;

static plane begin(const st_call *c)
{
    const means_plan *p = c->plan;
    return (plane){ &p->w, p->weight, st_data(st_scratch(c, WEIGHED)), only_window(&p->w, 0), paired(&p->w) };
}

/* A row shorter than a vector is computed as a whole vector: values beyond its end are overwritten by the
 * next one. The last rows are computed exactly, as nothing may be read or written beyond them. */
INLINE ptrdiff_t stretched(int lanes, ptrdiff_t n, ptrdiff_t left_small, ptrdiff_t left_large)
{
    return n < lanes && left_small >= lanes && left_large >= 2 * lanes ? lanes : n;
}

INLINE void forward_pairs(int lanes, const plane *p, const st_real *x, ptrdiff_t down, st_real *y)
{
    const ptrdiff_t high = p->w->out[0], n = p->w->out[1], wide = p->w->size[1];
    const st_real *weight = p->weight;
    ptrdiff_t rows = p->w->size[0] - 1; /* from the lower row on */
    for (ptrdiff_t oh = 0; oh < high; oh++, rows -= 2, x += 2 * down, y += n, weight += n) {
        ptrdiff_t count = stretched(lanes, n, (high - oh) * n, down == wide ? rows * wide : 0);
        BY_LANES(lanes, sum_pairs, count, x, x + down, weight, y);
    }
}

INLINE void backward_pairs(int lanes, const plane *p, const st_real *dy, st_real *dx)
{
    const ptrdiff_t high = p->w->out[0], n = p->w->out[1], wide = p->w->size[1];
    const st_real *weight = p->weight;
    for (ptrdiff_t oh = 0; oh < high; oh++, dy += n, weight += n, dx += 2 * wide) {
        BY_LANES(lanes, spread_pairs, n, dy, weight, dx, dx + wide);
        if (wide % 2) dx[wide - 1] = dx[2 * wide - 1] = 0;
    }
    if (p->w->size[0] % 2) memset(dx, 0, (size_t)wide * sizeof(st_real)); /* a last row in no window */
}

INLINE void forward_channel(int lanes, const plane *p, const st_real *x, const ptrdiff_t stride[2],
                            st_real *y)
{
    const ptrdiff_t n = p->w->out[1];
    const st_real *weight = p->weight;
    if (stride[1] == 1 && p->pairs) {
        forward_pairs(lanes, p, x, stride[0], y);
        return;
    }
    for (ptrdiff_t oh = 0; oh < p->w->out[0]; oh++, y += n, weight += n) {
        if (n == 1) y[0] = long_sum(oh == 0 ? p->top : only_window(p->w, oh), x, stride);
        else sum_row(p->w, oh, x, stride, y);
        for (ptrdiff_t i = 0; i < n; i++) y[i] *= weight[i];
    }
}

INLINE void backward_channel(int lanes, const plane *p, const st_real *dy, st_real *dx)
{
    const ptrdiff_t n = p->w->out[1], area = p->w->size[0] * p->w->size[1];
    const st_real *weight = p->weight;
    if (p->pairs) {
        backward_pairs(lanes, p, dy, dx);
        return;
    }
    if (p->w->out[0] * n == 1 && p->top.rows * p->top.length == area) {
        const st_real part = dy[0] * weight[0];
        for (ptrdiff_t i = 0; i < area; i++) dx[i] = part;
        return;
    }
    memset(dx, 0, (size_t)area * sizeof(st_real));
    for (ptrdiff_t oh = 0; oh < p->w->out[0]; oh++, dy += n, weight += n) {
        for (ptrdiff_t i = 0; i < n; i++) p->weighed[i] = dy[i] * weight[i];
        if (n == 1) long_spread(oh == 0 ? p->top : only_window(p->w, oh), dx, p->w->size[1], p->weighed[0]);
        else spread_row(p->w, oh, dx, p->weighed);
    }
}

typedef void forward_pass(const plane *p, st_tensor x, st_real *y);
typedef void backward_pass(const plane *p, const st_real *dy, st_tensor dx);

#define STAMP(M)                                                                                             \
    M##_TARGET static void M##_forward(const plane *p, st_tensor x, st_real *y)                              \
    {                                                                                                        \
        const st_real *image = st_data(x);                                                                   \
        for (ptrdiff_t i = 0; i < x.shape.n[0]; i++, image += x.stride[0])                                   \
            for (ptrdiff_t c = 0; c < x.shape.n[1]; c++, y += p->w->out[0] * p->w->out[1])                   \
                forward_channel(MACHINE_LANES(M), p, image + c * x.stride[1], x.stride + 2, y);              \
    }                                                                                                        \
    M##_TARGET static void M##_backward(const plane *p, const st_real *dy, st_tensor dx)                     \
    {                                                                                                        \
        st_real *to = st_data(dx);                                                                           \
        for (ptrdiff_t k = dx.shape.n[0] * dx.shape.n[1]; k > 0; k--) {                                      \
            backward_channel(MACHINE_LANES(M), p, dy, to);                                                   \
            dy += p->w->out[0] * p->w->out[1], to += p->w->size[0] * p->w->size[1];                          \
        }                                                                                                    \
    }

#define ROW_OF_TABLE(M) { M##_forward, M##_backward },

EACH_MACHINE(STAMP)
static const struct {
    forward_pass *forward;
    backward_pass *backward;
} machines[] = { EACH_MACHINE(ROW_OF_TABLE) };

/* ---- the algorithm ---------------------------------------------------------------------------------- */

enum { MOST_WINDOWS = 1 << 24 }; /* in a channel; each has a weight in a table */

static bool suits(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    return w->out[0] <= MOST_WINDOWS / w->out[1];
}

static int plan(st_layer *l, const void *given)
{
    const window w = ((const pool_plan *)given)->w;
    means_plan *p = st_layer_plan_data(l, sizeof *p + (size_t)(w.out[0] * w.out[1]) * sizeof *p->weight);
    for (ptrdiff_t k = 0; p && k < w.out[0] * w.out[1]; k++)
        p->weight[k] = pool_weight(given, k / w.out[1], k % w.out[1]);
    if (!p) return -1;
    p->w = w;
    return st_layer_scratch(l, ST_SHAPE(w.out[1]));
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const plane p = begin(c);
    machines[c->layer->impl->machine].forward(&p, x, st_data(y));
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    const plane p = begin(c);
    machines[c->layer->impl->machine].backward(&p, st_data(dy), dx);
}

const layer_algorithm avgpool_vectors = {
    .type = &layer_type_avgpool,
    .suits = suits,
    .plan = plan,
    .hooks = { .forward = forward, .backward = backward },
};
