/* pools.c: padding and pooling. Runtimes differ in ceil_mode, so it is written as padding at the end. */
#include "layers/layers.h"
#include "layers/pool_impl.h"
#include "layers/separable.h"
#include "nn/onnx/graph.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- padding ------------------------------------------------------------------------------------- */

static const char *pad(graph_place at, bool step, const char *x, const ptrdiff_t before[2],
                       const ptrdiff_t after[2], double value)
{
    const ptrdiff_t pads[] = { 0, 0, before[0], before[1], 0, 0, after[0], after[1] };
    return graph_add(
        at, "Pad", step, 3,
        (const char *[]){ x, graph_sizes(at, "pads", 8, pads), graph_number(at, "value", value) });
}

const char *graph_pad2d(graph_place at, const char *x)
{
    static const char *const modes[] = {
        [ST_PAD_CONSTANT] = "constant", [ST_PAD_REFLECT] = "reflect", [ST_PAD_REPLICATE] = "edge"
    };
    const st_pad2d_options *o = at.l->options;
    const ptrdiff_t before[] = { o->height[0], o->width[0] }, after[] = { o->height[1], o->width[1] };
    pad(at, false, x, before, after, o->value);
    return graph_mode(at, "mode", modes[o->mode]);
}

/* ---- windows ------------------------------------------------------------------------------------- */

static window windows_of(graph_place at)
{
    return ((const pool_plan *)at.l->plan)->w;
}

/* True if some window contains only padding along an axis. */
static bool only_padding(const window *w, int axis)
{
    bool only = false;
    for (ptrdiff_t i = 0; i < w->out[axis] && !only; i++) {
        only = true;
        for (int k = 0; k < w->kernel[axis]; k++) {
            const ptrdiff_t at = i * w->stride[axis] - w->before[axis] + (ptrdiff_t)k * w->dilation[axis];
            only = only && (at < 0 || at >= w->size[axis]);
        }
    }
    return only;
}

static bool dilated(const window *w)
{
    return w->dilation[0] > 1 || w->dilation[1] > 1;
}

/* The sum of each window times a number, by a convolution of each channel: a step, or the last node. */
static const char *add_sums(graph_place at, bool step, const char *x, const window *w, double times)
{
    const ptrdiff_t channels = at.l->x.n[1];
    const st_shape s = ST_SHAPE(channels, 1, w->kernel[0], w->kernel[1]);
    const char *inputs[] = { x, graph_filled(at, "window", s, times) };
    graph_add(at, "Conv", step, 2, inputs);
    graph_windows(at, w);
    graph_pair(at, "dilations", w->dilation);
    return graph_int(at, "group", channels);
}

/* Runtimes require pads smaller than the kernel, without its dilation. */
static bool small_pads(const window *w)
{
    bool small = true;
    for (int axis = 0; axis < 2; axis++)
        small = small && w->before[axis] < w->kernel[axis] && w->after[axis] < w->kernel[axis];
    return small;
}

/* [OH, OW]: 0 where a window has padding, -inf where it has none. */
static const char *add_zeros_of_padding(graph_place at, const window *w)
{
    st_tensor zeros = st_tensor_new(ST_SHAPE(w->out[0], w->out[1]));
    if (st_is_null(zeros)) return "";
    const int whole = w->kernel[0] * w->kernel[1];
    for (ptrdiff_t i = 0; i < st_numel(zeros); i++) {
        const int inside = pool_counted(w, 0, i / w->out[1], true) * pool_counted(w, 1, i % w->out[1], true);
        st_data(zeros)[i] = inside < whole ? 0 : -(st_real)INFINITY;
    }
    const char *constant = graph_tensor(at, "zeros", zeros);
    st_tensor_free(zeros);
    return constant;
}

/* ONNX ignores padding. Zeros are compared with afterwards: onnxruntime takes a Pad before a MaxPool for
 * padding that is ignored, whatever its value. */
const char *graph_maxpool(graph_place at, const char *x)
{
    const st_maxpool_options *o = at.l->options;
    const window planned = windows_of(at);
    window w = planned;
    const bool zeros = window_padded(&w) && o->pad_value == ST_PAD_ZERO,
               nothing = only_padding(&w, 0) || only_padding(&w, 1);
    if (!zeros && nothing)
        return graph_refuse(at, "a window contains only padding, whose maximum ONNX does not define");
    if (nothing || !small_pads(&w)) {
        x = pad(at, true, x, w.before, w.after, -INFINITY);
        memset(w.before, 0, sizeof w.before);
        memset(w.after, 0, sizeof w.after);
    }
    const char *y = zeros ? graph_step(at, "MaxPool", x) : graph_end(at, "MaxPool", x);
    graph_windows(at, &w);
    graph_pair(at, "dilations", w.dilation);
    return zeros ? graph_end(at, "Max", y, add_zeros_of_padding(at, &planned)) : y;
}

/* ONNX has no means of dilated windows: they are sums times 1 / (the number of elements that count), which is
 * 0 for none, and one number where all windows count as many. */
static const char *add_dilated_means(graph_place at, const char *x, const window *w, bool exclude_pad)
{
    st_tensor shares = st_tensor_new(ST_SHAPE(w->out[0], w->out[1]));
    if (st_is_null(shares)) return "";
    bool equal = true;
    for (ptrdiff_t i = 0; i < st_numel(shares); i++) {
        const double counted = (double)pool_counted(w, 0, i / w->out[1], exclude_pad) *
                               pool_counted(w, 1, i % w->out[1], exclude_pad);
        st_data(shares)[i] = (st_real)(counted > 0 ? 1 / counted : 0);
        equal = equal && st_data(shares)[i] == st_data(shares)[0];
    }
    const char *y =
        equal ? add_sums(at, false, x, w, (double)st_data(shares)[0])
              : graph_end(at, "Mul", add_sums(at, true, x, w, 1), graph_tensor(at, "shares", shares));
    st_tensor_free(shares);
    return y;
}

/* Padding counts in the mean, but not what ceil_mode adds: then a Pad node writes the padding first. */
const char *graph_avgpool(graph_place at, const char *x)
{
    const st_avgpool_options *o = at.l->options;
    window w = windows_of(at);
    if (dilated(&w)) return add_dilated_means(at, x, &w, o->count_exclude_pad);
    if (w.kernel[0] == w.size[0] && w.kernel[1] == w.size[1] && !window_padded(&w))
        return graph_end(at, "GlobalAveragePool", x);
    bool extended = w.after[0] > w.pad_after[0] || w.after[1] > w.pad_after[1];
    if (extended && !o->count_exclude_pad &&
        (w.before[0] || w.before[1] || w.pad_after[0] || w.pad_after[1])) {
        x = pad(at, true, x, w.before, w.pad_after, 0);
        for (int axis = 0; axis < 2; axis++) {
            w.after[axis] -= w.pad_after[axis];
            w.before[axis] = 0;
        }
    }
    graph_end(at, "AveragePool", x);
    graph_windows(at, &w);
    return graph_int(at, "count_include_pad", !o->count_exclude_pad && !extended);
}

/* ONNX has norms of whole p and of windows without dilation: others are roots of sums of powers. The sums are
 * at least 0, unless a runtime's convolution rounds. */
static const char *add_norms(graph_place at, const char *x, const window *w, double p)
{
    const char *powers = graph_step(at, "Pow", graph_step(at, "Abs", x), graph_number(at, "p", p));
    const char *sums = graph_step(at, "Relu", add_sums(at, true, powers, w, 1));
    return graph_end(at, "Pow", sums, graph_number(at, "root", 1 / p));
}

const char *graph_lppool(graph_place at, const char *x)
{
    const st_lppool_options *o = at.l->options;
    const window w = windows_of(at);
    if (dilated(&w) || o->p != floor(o->p) || o->p > INT_MAX) return add_norms(at, x, &w, o->p);
    graph_end(at, "LpPool", x);
    graph_windows(at, &w);
    return graph_int(at, "p", (ptrdiff_t)o->p);
}

/* The matrix of an axis, [OH, H] or, transposed, [W, OW]. */
static const char *add_matrix(graph_place at, const char *name, int axis, bool transposed)
{
    const ptrdiff_t from = at.l->x.n[axis], to = at.l->y.n[axis];
    st_tensor matrix = st_tensor_new(transposed ? ST_SHAPE(from, to) : ST_SHAPE(to, from));
    tap *row = graph_take(at.graph, (size_t)(from + MOST_TAPS), sizeof *row);
    if (st_is_null(matrix) || !row) return st_tensor_free(matrix), "";
    const st_tensor rows = transposed ? st_transpose(matrix, 0, 1) : matrix;
    for (ptrdiff_t i = 0; i < to; i++) {
        const ptrdiff_t count = separable_taps(at.l, axis, i, row);
        for (ptrdiff_t k = 0; k < count; k++) *st_at(rows, ST_INDEX(i, row[k].from)) += row[k].weight;
    }
    const char *constant = graph_tensor(at, name, matrix);
    st_tensor_free(matrix);
    return constant;
}

/* y = A x Bᵀ */
const char *graph_separable(graph_place at, const char *x)
{
    const char *columns = graph_step(at, "MatMul", add_matrix(at, "rows", 2, false), x);
    return graph_end(at, "MatMul", columns, add_matrix(at, "columns", 3, true));
}

/* Windows that differ in size are weighted sums. */
const char *graph_adaptive_avgpool(graph_place at, const char *x)
{
    const st_shape in = at.l->x, out = at.l->y;
    if (out.n[2] == 1 && out.n[3] == 1) return graph_end(at, "GlobalAveragePool", x);
    if (in.n[2] % out.n[2] || in.n[3] % out.n[3]) return graph_separable(at, x);
    const ptrdiff_t part[] = { in.n[2] / out.n[2], in.n[3] / out.n[3] };
    graph_end(at, "AveragePool", x);
    graph_ints(at, "kernel_shape", 2, part);
    return graph_ints(at, "strides", 2, part);
}

/* Equal parts are windows. */
const char *graph_adaptive_maxpool(graph_place at, const char *x)
{
    const st_shape in = at.l->x, out = at.l->y;
    const ptrdiff_t part[] = { in.n[2] / out.n[2], in.n[3] / out.n[3] };
    if (out.n[2] == 1 && out.n[3] == 1) return graph_end(at, "GlobalMaxPool", x);
    if (in.n[2] % out.n[2] || in.n[3] % out.n[3])
        return graph_refuse(at, "parts of an image that differ in size, which ONNX does not have");
    graph_end(at, "MaxPool", x);
    graph_ints(at, "kernel_shape", 2, part);
    return graph_ints(at, "strides", 2, part);
}
