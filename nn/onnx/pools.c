/* pools.c: padding and pooling. Runtimes differ in ceil_mode, so it is written as padding at the end. */
#include "layers/layers.h"
#include "layers/pool_impl.h"
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

/* Means of dilated windows are an error. */
static bool refuse_dilation(graph_place at, const window *w)
{
    const bool dilated = w->dilation[0] > 1 || w->dilation[1] > 1;
    if (dilated) graph_refuse(at, "dilation %dx%d, ONNX has 1x1 only", w->dilation[0], w->dilation[1]);
    return dilated;
}

/* Runtimes require pads smaller than the kernel, without its dilation. */
static bool small_pads(const window *w)
{
    bool small = true;
    for (int axis = 0; axis < 2; axis++)
        small = small && w->before[axis] < w->kernel[axis] && w->after[axis] < w->kernel[axis];
    return small;
}

const char *graph_maxpool(graph_place at, const char *x)
{
    const st_maxpool_options *o = at.l->options;
    window w = windows_of(at);
    if (window_padded(&w) && o->pad_value == ST_PAD_ZERO)
        return graph_refuse(at, "pad_value zero, ONNX ignores padding");
    if (only_padding(&w, 0) || only_padding(&w, 1))
        return graph_refuse(at, "a window contains only padding, whose maximum ONNX does not define");
    if (!small_pads(&w)) {
        x = pad(at, true, x, w.before, w.after, -INFINITY);
        memset(w.before, 0, sizeof w.before);
        memset(w.after, 0, sizeof w.after);
    }
    graph_end(at, "MaxPool", x);
    graph_windows(at, &w);
    return graph_pair(at, "dilations", w.dilation);
}

/* Padding counts in the mean, but not what ceil_mode adds: then a Pad node writes the padding first. */
const char *graph_avgpool(graph_place at, const char *x)
{
    const st_avgpool_options *o = at.l->options;
    window w = windows_of(at);
    if (refuse_dilation(at, &w)) return "";
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

const char *graph_lppool(graph_place at, const char *x)
{
    const st_lppool_options *o = at.l->options;
    const window w = windows_of(at);
    if (refuse_dilation(at, &w)) return "";
    if (o->p != floor(o->p) || o->p > INT_MAX)
        return graph_refuse(at, "p is %g, ONNX has integers only", o->p);
    graph_end(at, "LpPool", x);
    graph_windows(at, &w);
    return graph_int(at, "p", (ptrdiff_t)o->p);
}

const char *graph_adaptive_avgpool(graph_place at, const char *x)
{
    const st_shape in = at.l->x, out = at.l->y;
    if (out.n[2] == 1 && out.n[3] == 1) return graph_end(at, "GlobalAveragePool", x);
    if (in.n[2] % out.n[2] || in.n[3] % out.n[3])
        return graph_refuse(at, "%tdx%td windows of %tdx%td pixels differ in size, ONNX has one size",
                            out.n[2], out.n[3], in.n[2], in.n[3]);
    const ptrdiff_t part[] = { in.n[2] / out.n[2], in.n[3] / out.n[3] };
    graph_end(at, "AveragePool", x);
    graph_ints(at, "kernel_shape", 2, part);
    return graph_ints(at, "strides", 2, part);
}
