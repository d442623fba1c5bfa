/* pools.c: padding and pooling. Runtimes differ in ceil_mode, so it is written as padding at the end.
 * Dilated pools, and adaptive pools with parts of unequal size, are products with a matrix on either side. */
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

static bool dilated(const window *w)
{
    return w->dilation[0] > 1 || w->dilation[1] > 1;
}

static bool inside(const window *w, int axis, ptrdiff_t place)
{
    return place >= 0 && place < w->size[axis];
}

/* The position of element k of window i along an axis. */
static ptrdiff_t place(const window *w, int axis, ptrdiff_t i, int k)
{
    return i * w->stride[axis] - w->before[axis] + (ptrdiff_t)k * w->dilation[axis];
}

/* The number of elements of window i, along an axis, in the image. */
static int in_image(const window *w, int axis, ptrdiff_t i)
{
    int count = 0;
    for (int k = 0; k < w->kernel[axis]; k++) count += inside(w, axis, place(w, axis, i, k));
    return count;
}

/* True if some window contains only padding. */
static bool only_padding(const window *w, int axis)
{
    ptrdiff_t i = 0;
    while (i < w->out[axis] && in_image(w, axis, i) > 0) i++;
    return i < w->out[axis];
}

/* [OH, OW]: lower bounds of the maxima: 0 for windows with padding, otherwise -inf. */
static const char *least_maxima(graph_place at, const window *w)
{
    st_tensor least = st_tensor_new(ST_SHAPE(w->out[0], w->out[1]));
    if (st_is_null(least)) return NULL;
    for (ptrdiff_t i = 0; i < w->out[0]; i++)
        for (ptrdiff_t j = 0; j < w->out[1]; j++) {
            bool whole = in_image(w, 0, i) == w->kernel[0] && in_image(w, 1, j) == w->kernel[1];
            *st_at(least, ST_INDEX(i, j)) = whole ? -(st_real)INFINITY : 0;
        }
    const char *name = graph_tensor(at, "least", least);
    st_tensor_free(least);
    return name;
}

/* Runtimes require pads smaller than the kernel, without its dilation. */
static bool small_pads(const window *w)
{
    bool small = true;
    for (int axis = 0; axis < 2; axis++)
        small = small && w->before[axis] < w->kernel[axis] && w->after[axis] < w->kernel[axis];
    return small;
}

/* Zero padding is not a Pad node before: onnxruntime merges that into MaxPool, which ignores padding. */
const char *graph_maxpool(graph_place at, const char *x)
{
    const st_maxpool_options *o = at.l->options;
    window w = windows_of(at);
    const bool zero = window_padded(&w) && o->pad_value == ST_PAD_ZERO;
    if (!zero && (only_padding(&w, 0) || only_padding(&w, 1)))
        return graph_refuse(at, "a window contains only padding, whose maximum ONNX does not define");
    const char *least = zero ? least_maxima(at, &w) : NULL;
    if (!small_pads(&w)) {
        x = pad(at, true, x, w.before, w.after, -INFINITY);
        memset(w.before, 0, sizeof w.before);
        memset(w.after, 0, sizeof w.after);
    }
    const char *y = graph_add(at, "MaxPool", zero, 1, &x);
    graph_windows(at, &w);
    graph_pair(at, "dilations", w.dilation);
    return zero ? graph_end(at, "Max", y, least) : y;
}

/* rows [OH, H] · x · columnsᵀ [W, OW]; frees both. */
static const char *product(graph_place at, bool step, const char *x, st_tensor rows, st_tensor columns)
{
    const char *right = graph_tensor(at, "columns", st_permute(columns, ST_AXES(1, 0)));
    const char *left = graph_tensor(at, "rows", rows);
    st_tensor_free(rows);
    st_tensor_free(columns);
    const char *half = graph_step(at, "MatMul", x, right);
    return graph_add(at, "MatMul", step, 2, (const char *[]){ left, half });
}

/* [windows, size]: 1 for each element of a window along an axis; for a mean, divided by the window's
 * count. */
static st_tensor pooling_matrix(const window *w, int axis, const st_avgpool_options *mean)
{
    st_tensor matrix = st_tensor_new(ST_SHAPE(w->out[axis], w->size[axis]));
    for (ptrdiff_t i = 0; i < w->out[axis] && !st_is_null(matrix); i++) {
        for (int k = 0; k < w->kernel[axis]; k++)
            if (inside(w, axis, place(w, axis, i, k))) *st_at(matrix, ST_INDEX(i, place(w, axis, i, k))) = 1;
        int count = mean ? pool_counted(w, axis, i, mean->count_exclude_pad) : 1;
        if (count > 1) st_scale(st_select(matrix, 0, i), 1 / (st_real)count);
    }
    return matrix;
}

/* Padding counts in the mean, but not what ceil_mode adds: then a Pad node writes the padding first. */
const char *graph_avgpool(graph_place at, const char *x)
{
    const st_avgpool_options *o = at.l->options;
    window w = windows_of(at);
    if (dilated(&w)) return product(at, false, x, pooling_matrix(&w, 0, o), pooling_matrix(&w, 1, o));
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

/* LpPool has integer p and no dilation; other cases are written as (sum of |x|^p)^(1/p). */
const char *graph_lppool(graph_place at, const char *x)
{
    const st_lppool_options *o = at.l->options;
    window w = windows_of(at);
    if (dilated(&w) || o->p != floor(o->p) || o->p > INT_MAX) {
        const char *size = graph_step(at, "Abs", x);
        const char *power = graph_step(at, "Pow", size, graph_number(at, "p", o->p));
        const char *sum = product(at, true, power, pooling_matrix(&w, 0, NULL), pooling_matrix(&w, 1, NULL));
        return graph_end(at, "Pow", sum, graph_number(at, "root", 1 / o->p));
    }
    graph_end(at, "LpPool", x);
    graph_windows(at, &w);
    return graph_int(at, "p", (ptrdiff_t)o->p);
}

/* [parts, size]: the layer's matrix. */
static st_tensor parts_matrix(const st_layer *l, ptrdiff_t parts, ptrdiff_t size)
{
    st_tensor matrix = st_tensor_new(ST_SHAPE(parts, size));
    for (ptrdiff_t i = 0; i < parts && !st_is_null(matrix); i++) {
        taps row = ((const separable *)l->plan)->of(l->options, i, size, parts);
        st_fill(st_narrow(st_select(matrix, 0, i), 0, row.first, row.count), row.weight);
    }
    return matrix;
}

const char *graph_adaptive_avgpool(graph_place at, const char *x)
{
    const st_shape in = at.l->x, out = at.l->y;
    if (out.n[2] == 1 && out.n[3] == 1) return graph_end(at, "GlobalAveragePool", x);
    if (in.n[2] % out.n[2] || in.n[3] % out.n[3])
        return product(at, false, x, parts_matrix(at.l, out.n[2], in.n[2]),
                       parts_matrix(at.l, out.n[3], in.n[3]));
    const ptrdiff_t part[] = { in.n[2] / out.n[2], in.n[3] / out.n[3] };
    graph_end(at, "AveragePool", x);
    graph_ints(at, "kernel_shape", 2, part);
    return graph_ints(at, "strides", 2, part);
}
