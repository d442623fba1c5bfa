/* windows.c: convolutions and pools. A case along one axis is an image one row high. */
#include "tests/conformance/onnx/onnx.h"

#include <math.h>
#include <string.h>

/* How windows lie on an image; pairs are height, width, and of the padding what lies before and after. */
typedef struct windows {
    int spatial; /* axes of the case: 1 or 2 */
    int kernel[2], stride[2], dilation[2], before[2], after[2];
} windows;

static st_tensor as_image(onnx_case *c, st_tensor x)
{
    if (st_is_null(x)) return x;
    if (x.shape.rank == 3) return st_reshape(x, ST_SHAPE(x.shape.n[0], x.shape.n[1], 1, x.shape.n[2]));
    if (x.shape.rank != 4) onnx_skip(c, "%s along %d axes", c->operation, x.shape.rank - 2);
    return onnx_skipped(c) ? (st_tensor){ 0 } : x;
}

static st_tensor as_case(st_tensor y, int spatial)
{
    if (st_is_null(y) || spatial == 2) return y;
    return st_reshape(y, ST_SHAPE(y.shape.n[0], y.shape.n[1], y.shape.n[3]));
}

/* An attribute with a number an axis; a case of one axis has the image's width. */
static bool read_pair(onnx_case *c, const char *name, int spatial, int pair[2])
{
    ptrdiff_t list[ONNX_INTEGERS];
    if (onnx_integers(c, name, list) != spatial) return false;
    for (int i = 0; i < spatial; i++) pair[2 - spatial + i] = (int)list[i];
    return true;
}

static int reach(const windows *w, int i)
{
    return w->dilation[i] * (w->kernel[i] - 1) + 1;
}

/* The sum of both paddings is shared out, an odd one before or after. */
static void share(windows *w, int i, int total, bool more_after)
{
    if (total < 0) total = 0;
    w->before[i] = more_after ? total / 2 : total - total / 2;
    w->after[i] = total - w->before[i];
}

static windows read_windows(onnx_case *c, int spatial)
{
    windows w = { spatial, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 } };
    ptrdiff_t pads[ONNX_INTEGERS];
    read_pair(c, "kernel_shape", spatial, w.kernel);
    read_pair(c, "strides", spatial, w.stride);
    read_pair(c, "dilations", spatial, w.dilation);
    if (onnx_integers(c, "pads", pads) == 2 * spatial)
        for (int i = 0; i < spatial; i++) {
            w.before[2 - spatial + i] = (int)pads[i];
            w.after[2 - spatial + i] = (int)pads[spatial + i];
        }
    return w;
}

/* auto_pad: SAME_… makes as many windows as there are strides in the image. */
static void pad_automatically(onnx_case *c, windows *w, st_shape x)
{
    const char *how = onnx_text(c, "auto_pad", "NOTSET");
    if (strncmp(how, "SAME", 4) != 0) return;
    for (int i = 2 - w->spatial; i < 2; i++) {
        int size = (int)x.n[2 + i], count = (size + w->stride[i] - 1) / w->stride[i];
        share(w, i, (count - 1) * w->stride[i] + reach(w, i) - size, strcmp(how, "SAME_UPPER") == 0);
    }
}

static bool is_even(const windows *w)
{
    return w->before[0] == w->after[0] && w->before[1] == w->after[1];
}

#define SIDES(w) .pad_height = { (w).before[0], (w).after[0] }, .pad_width = { (w).before[1], (w).after[1] }

/* ---- convolution ------------------------------------------------------------------------------------- */

static void set_weights(onnx_case *c, st_layer *l, st_tensor weight)
{
    st_copy(l->param[0], weight);
    if (onnx_has(c, 2)) st_copy(l->param[1], onnx_input(c, 2));
}

static void conv(onnx_case *c)
{
    st_tensor x = as_image(c, onnx_input(c, 0)), weight = as_image(c, onnx_input(c, 1));
    if (onnx_skipped(c)) return;
    windows w = read_windows(c, c->input[0]->shape.rank - 2);
    for (int i = 0; i < 2; i++) w.kernel[i] = (int)weight.shape.n[2 + i];
    pad_automatically(c, &w, x.shape);
    st_conv2d_options o = { .out_channels = (int)weight.shape.n[0],
                            .kernel = { w.kernel[0], w.kernel[1] },
                            .stride = { w.stride[0], w.stride[1] },
                            .dilation = { w.dilation[0], w.dilation[1] },
                            .groups = (int)onnx_integer(c, "group", 1),
                            .no_bias = !onnx_has(c, 2),
                            SIDES(w) };
    st_layer *l = st_conv2d_new(o);
    if (!onnx_build(c, l, x.shape)) return;
    set_weights(c, l, weight);
    onnx_output(c, 0, as_case(onnx_forward(c, l, x, false), w.spatial));
}

/* Its pads are taken off the output: unequal ones of an output without any, through a narrower view. */
static void conv_transpose(onnx_case *c)
{
    st_tensor x = as_image(c, onnx_input(c, 0)), weight = as_image(c, onnx_input(c, 1));
    if (onnx_skipped(c)) return;
    int spatial = c->input[0]->shape.rank - 2, extra[2] = { 0, 0 }, size[2];
    windows w = read_windows(c, spatial);
    for (int i = 0; i < 2; i++) w.kernel[i] = (int)weight.shape.n[2 + i];
    read_pair(c, "output_padding", spatial, extra);
    char how[32] = "";
    strncat(how, onnx_text(c, "auto_pad", "NOTSET"), sizeof how - 1);
    bool sized = read_pair(c, "output_shape", spatial, size), same = strncmp(how, "SAME", 4) == 0;
    for (int i = 2 - spatial; i < 2 && (sized || same); i++) {
        int inner = ((int)x.shape.n[2 + i] - 1) * w.stride[i] + reach(&w, i) + extra[i];
        int total = inner - (sized ? size[i] : (int)x.shape.n[2 + i] * w.stride[i]);
        if (total < 0) extra[i] -= total;
        share(&w, i, total, strcmp(how, "SAME_UPPER") == 0);
    }
    bool even = is_even(&w);
    int groups = (int)onnx_integer(c, "group", 1);
    st_layer *l =
        st_conv_transpose2d(.out_channels = (int)weight.shape.n[1] * groups,
                            .kernel = { w.kernel[0], w.kernel[1] }, .stride = { w.stride[0], w.stride[1] },
                            .padding = { even ? w.before[0] : 0, even ? w.before[1] : 0 },
                            .output_padding = { extra[0], extra[1] },
                            .dilation = { w.dilation[0], w.dilation[1] }, .groups = groups,
                            .no_bias = !onnx_has(c, 2));
    if (!onnx_build(c, l, x.shape)) return;
    set_weights(c, l, weight);
    st_tensor y = onnx_forward(c, l, x, false);
    for (int i = 0; i < 2 && !even; i++)
        y = st_narrow(y, 2 + i, w.before[i], y.shape.n[2 + i] - w.before[i] - w.after[i]);
    onnx_output(c, 0, as_case(even ? y : onnx_copy(c, y), spatial));
}

/* ---- pools ------------------------------------------------------------------------------------------- */

static void max_pool(onnx_case *c)
{
    st_tensor x = as_image(c, onnx_input(c, 0));
    if (onnx_skipped(c)) return;
    windows w = read_windows(c, c->input[0]->shape.rank - 2);
    pad_automatically(c, &w, x.shape);
    bool ceil_mode = onnx_integer(c, "ceil_mode", 0) != 0;
    if (c->expected[1]) onnx_skip(c, "MaxPool's places of the maxima");
    onnx_integer(c, "storage_order", 0); /* of those places */
    if (onnx_skipped(c)) return;
    st_layer *l = st_maxpool(.kernel = { w.kernel[0], w.kernel[1] }, .stride = { w.stride[0], w.stride[1] },
                             .dilation = { w.dilation[0], w.dilation[1] }, .ceil_mode = ceil_mode, SIDES(w));
    onnx_output(c, 0, as_case(onnx_run(c, l, x), w.spatial));
}

static void average_pool(onnx_case *c)
{
    st_tensor x = as_image(c, onnx_input(c, 0));
    if (onnx_skipped(c)) return;
    windows w = read_windows(c, c->input[0]->shape.rank - 2);
    pad_automatically(c, &w, x.shape);
    bool ceil_mode = onnx_integer(c, "ceil_mode", 0) != 0;
    if (onnx_skipped(c)) return;
    st_layer *l = st_avgpool(.kernel = { w.kernel[0], w.kernel[1] }, .stride = { w.stride[0], w.stride[1] },
                             .dilation = { w.dilation[0], w.dilation[1] }, .ceil_mode = ceil_mode,
                             .count_exclude_pad = !onnx_integer(c, "count_include_pad", 0), SIDES(w));
    onnx_output(c, 0, as_case(onnx_run(c, l, x), w.spatial));
}

static void global_pool(onnx_case *c, st_layer *l)
{
    st_tensor x = as_image(c, onnx_input(c, 0));
    if (onnx_skipped(c)) st_layer_free(l);
    else onnx_output(c, 0, as_case(onnx_run(c, l, x), c->input[0]->shape.rank - 2));
}

static void global_max_pool(onnx_case *c)
{
    global_pool(c, st_maxpool());
}

static void global_average_pool(onnx_case *c)
{
    global_pool(c, st_avgpool());
}

/* ---- borders and sizes --------------------------------------------------------------------------------- */

/* The axes with a border are turned to be height and width. */
static void pad(onnx_case *c)
{
    ptrdiff_t pads[ONNX_INTEGERS];
    st_tensor x = onnx_input(c, 0);
    int count = onnx_has(c, 1) ? onnx_input_integers(c, 1, pads) : onnx_integers(c, "pads", pads);
    if (onnx_skipped(c)) return;
    int rank = x.shape.rank, bordered = 0;
    if (count != 2 * rank || rank > 4) {
        onnx_skip(c, "Pad of %d axes", rank);
        return;
    }
    while (x.shape.rank < 4) { /* ones in front */
        st_shape s = { .rank = x.shape.rank + 1, .n = { 1 } };
        memcpy(s.n + 1, x.shape.n, (size_t)x.shape.rank * sizeof *s.n);
        x = st_reshape(x, s);
    }
    st_axes order = { .count = 0 };
    int side[2][2] = { { 0, 0 }, { 0, 0 } }, with[4] = { 0 };
    for (int i = 0; i < rank; i++) {
        if (pads[i] < 0 || pads[rank + i] < 0) onnx_skip(c, "Pad by less than nothing");
        with[4 - rank + i] = pads[i] != 0 || pads[rank + i] != 0;
        bordered += with[4 - rank + i];
    }
    if (bordered > 2) onnx_skip(c, "Pad of more than two axes");
    if (onnx_skipped(c)) return;
    for (int i = 3; i >= 0 && bordered < 2; i--)
        if (!with[i]) with[i] = 1, bordered++;
    for (int i = 0; i < 4; i++)
        if (!with[i]) order.axis[order.count++] = i;
    for (int i = 0; i < 4; i++)
        if (with[i]) {
            int given = i - (4 - rank);
            for (int end = 0; end < 2 && given >= 0; end++)
                side[order.count - 2][end] = (int)pads[given + end * rank];
            order.axis[order.count++] = i;
        }
    const char *mode = onnx_text(c, "mode", "constant");
    st_pad2d_options o = { .height = { side[0][0], side[0][1] }, .width = { side[1][0], side[1][1] } };
    o.mode = strcmp(mode, "reflect") == 0 ? ST_PAD_REFLECT
             : strcmp(mode, "edge") == 0  ? ST_PAD_REPLICATE
                                          : ST_PAD_CONSTANT;
    o.value = onnx_number(c, "value", 0);
    if (onnx_has(c, 2)) o.value = (double)st_data(onnx_input(c, 2))[0];
    st_tensor turned = onnx_run(c, st_pad2d_new(o), st_permute(x, order));
    st_axes back = { .count = 4 };
    for (int i = 0; i < 4; i++) back.axis[order.axis[i]] = i;
    st_tensor y = onnx_copy(c, st_permute(turned, back));
    st_shape s = { .rank = rank };
    memcpy(s.n, y.shape.n + 4 - rank, (size_t)rank * sizeof *s.n);
    onnx_output(c, 0, st_reshape(y, s));
}

/* Upsample and Resize of height and width. `floors`: the nearest pixel is the one below; with whole scales, any
 * rule says the same. `size`: NULL where scales are given. */
static void upsample_by(onnx_case *c, st_tensor x, const double scale[4], const ptrdiff_t size[4],
                        bool floors, st_upsample_options o)
{
    bool whole = scale[2] == floor(scale[2]) && scale[3] == floor(scale[3]);
    if (scale[0] != 1 || scale[1] != 1) onnx_skip(c, "%s of batch or channels", c->operation);
    else if (whole) o.scale[0] = (int)scale[2], o.scale[1] = (int)scale[3];
    else if (o.mode == ST_UPSAMPLE_NEAREST && !floors)
        onnx_skip(c, "%s to the nearest pixel's centre by a scale of %g", c->operation, scale[2]);
    else if (size) o.size[0] = (int)size[2], o.size[1] = (int)size[3];
    else if (o.align_corners) onnx_skip(c, "align_corners with an output of a fraction of a pixel");
    else if (scale[2] == scale[3]) o.scale_factor = scale[2];
    else onnx_skip(c, "%s by scales of %g and %g", c->operation, scale[2], scale[3]);
    if (onnx_skipped(c)) return;
    onnx_output(c, 0, onnx_run(c, st_upsample_new(o), x));
}

static void upsample_scales(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0), scales = onnx_input(c, 1);
    const char *mode = onnx_text(c, "mode", "nearest");
    if (x.shape.rank != 4 || scales.shape.n[0] != 4 || strcmp(mode, "nearest") != 0)
        onnx_skip(c, "Upsample of other than images, or by another mode");
    if (onnx_skipped(c)) return;
    double scale[4];
    for (int i = 0; i < 4; i++) scale[i] = (double)st_data(scales)[i];
    upsample_by(c, x, scale, NULL, true, (st_upsample_options){ .mode = ST_UPSAMPLE_NEAREST });
}

/* With a whole scale s, pixel i of the result is at (i + 1/2)/s - 1/2 of the image; the nearest is i/s
 * rounded down, whichever way halves are rounded, as no place is half way between two unless s is even
 * and the grid starts at the corner ("asymmetric"), where rounding down says it outright. */
static void resize(onnx_case *c)
{
    char mode[32] = "", place[32] = "", nearest[32] = "";
    strncat(mode, onnx_text(c, "mode", "nearest"), sizeof mode - 1);
    strncat(place, onnx_text(c, "coordinate_transformation_mode", "half_pixel"), sizeof place - 1);
    strncat(nearest, onnx_text(c, "nearest_mode", "round_prefer_floor"), sizeof nearest - 1);
    st_tensor x = onnx_input(c, 0);
    bool linear = strcmp(mode, "linear") == 0, corners = strcmp(place, "align_corners") == 0;
    bool middle = strcmp(place, "half_pixel") == 0 || strcmp(place, "pytorch_half_pixel") == 0;
    if (strcmp(mode, "cubic") == 0) onnx_skip(c, "Resize by cubic interpolation");
    else if (linear && !middle && !corners) onnx_skip(c, "linear Resize with %s", place);
    else if (!linear && !(middle && strncmp(nearest, "round", 5) == 0) &&
             !(strcmp(place, "asymmetric") == 0 && strcmp(nearest, "floor") == 0))
        onnx_skip(c, "nearest Resize with %s and %s", place, nearest);
    else if (x.shape.rank != 4) onnx_skip(c, "Resize of other than images");
    if (onnx_skipped(c)) return;
    if (onnx_has(c, 1)) c->input_read[1] = true; /* the region of interest: only tf_crop_and_resize has one */
    double scale[4] = { 0 };
    ptrdiff_t size[ONNX_INTEGERS];
    if (onnx_has(c, 3)) {
        if (onnx_input_integers(c, 3, size) != 4) return;
        for (int i = 0; i < 4; i++) scale[i] = (double)size[i] / (double)x.shape.n[i];
        if (strcmp(place, "pytorch_half_pixel") == 0 && (size[2] == 1 || size[3] == 1))
            onnx_skip(c, "pytorch_half_pixel of one pixel, which PyTorch takes from the middle");
        if (onnx_has(c, 2)) c->input_read[2] = true; /* empty beside sizes */
    } else {
        st_tensor scales = onnx_input(c, 2);
        for (int i = 0; i < 4 && st_numel(scales) == 4; i++) scale[i] = (double)st_data(scales)[i];
    }
    upsample_by(c, x, scale, onnx_has(c, 3) ? size : NULL, strcmp(place, "asymmetric") == 0,
                (st_upsample_options){ .mode = linear ? ST_UPSAMPLE_BILINEAR : ST_UPSAMPLE_NEAREST,
                                       .align_corners = corners });
}

const onnx_operator onnx_windows[] = {
    { "Conv", conv },
    { "ConvTranspose", conv_transpose },
    { "MaxPool", max_pool },
    { "AveragePool", average_pool },
    { "GlobalMaxPool", global_max_pool },
    { "GlobalAveragePool", global_average_pool },
    { "Pad", pad },
    { "Upsample", upsample_scales },
    { "Resize", resize },
    { 0 },
};
