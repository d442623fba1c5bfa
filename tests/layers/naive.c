/* naive.c: see naive.h. */
#include "tests/layers/naive.h"

#include <math.h>
#include <stdlib.h>

/* ---- a dense array of doubles ---------------------------------------------------------------- */

typedef struct array {
    ptrdiff_t n[4];
    double *at;
} array;

static array array_new(ptrdiff_t n0, ptrdiff_t n1, ptrdiff_t n2, ptrdiff_t n3)
{
    array a = { { n0, n1, n2, n3 }, calloc((size_t)(n0 * n1 * n2 * n3) + 1, sizeof(double)) };
    if (!a.at) abort();
    return a;
}

static double *of(array a, ptrdiff_t i, ptrdiff_t j, ptrdiff_t k, ptrdiff_t l)
{
    return &a.at[((i * a.n[1] + j) * a.n[2] + k) * a.n[3] + l];
}

static st_real *place_in(st_tensor x, ptrdiff_t i, ptrdiff_t j, ptrdiff_t k, ptrdiff_t l)
{
    return st_at(x, (st_shape){ .rank = x.shape.rank, .n = { i, j, k, l } });
}

static array array_of(st_tensor x)
{
    ptrdiff_t n[4] = { 1, 1, 1, 1 };
    for (int i = 0; i < x.shape.rank; i++) n[i] = x.shape.n[i];
    array a = array_new(n[0], n[1], n[2], n[3]);
    for (ptrdiff_t i = 0; i < n[0]; i++)
        for (ptrdiff_t j = 0; j < n[1]; j++)
            for (ptrdiff_t k = 0; k < n[2]; k++)
                for (ptrdiff_t l = 0; l < n[3]; l++) *of(a, i, j, k, l) = (double)*place_in(x, i, j, k, l);
    return a;
}

/* The numbers as a tensor; ends the array. */
static st_tensor tensor_from(array a, st_shape s)
{
    st_tensor x = st_tensor_new(s);
    if (st_is_null(x)) abort();
    for (ptrdiff_t i = 0; i < a.n[0]; i++)
        for (ptrdiff_t j = 0; j < a.n[1]; j++)
            for (ptrdiff_t k = 0; k < a.n[2]; k++)
                for (ptrdiff_t l = 0; l < a.n[3]; l++) *place_in(x, i, j, k, l) = (st_real)*of(a, i, j, k, l);
    free(a.at);
    return x;
}

void naive_free(naive result)
{
    st_tensor_free(result.y);
    st_tensor_free(result.dx);
    st_tensor_free(result.dweight);
    st_tensor_free(result.dbias);
}

/* ---- windows --------------------------------------------------------------------------------- */

ptrdiff_t naive_windows(naive_axis a)
{
    ptrdiff_t room = a.size + a.padding + a.after - a.dilation * (a.kernel - 1) - 1;
    ptrdiff_t count = (room + (a.ceil_mode ? a.stride - 1 : 0)) / a.stride + 1;
    if (a.ceil_mode && (count - 1) * a.stride >= a.size + a.padding) count--;
    return count;
}

ptrdiff_t naive_place(naive_axis a, ptrdiff_t at, ptrdiff_t k)
{
    return at * a.stride - a.padding + k * a.dilation;
}

static bool inside(naive_axis a, ptrdiff_t place)
{
    return place >= 0 && place < a.size;
}

naive_axis naive_conv2d_axis(st_conv2d_options o, st_shape x, int axis)
{
    const int *side = axis == 0 ? o.pad_height : o.pad_width;
    return (naive_axis){
        .size = x.n[2 + axis],
        .kernel = o.kernel[axis],
        .stride = o.stride[axis] ? o.stride[axis] : 1,
        .padding = o.padding[axis] + side[0],
        .after = o.padding[axis] + side[1],
        .dilation = o.dilation[axis] ? o.dilation[axis] : 1,
    };
}

static naive_axis pool_axis(ptrdiff_t size, int kernel, int stride, int padding, int dilation, bool ceil_mode,
                            const int side[2])
{
    naive_axis a = { size,
                     kernel ? kernel : size,
                     stride,
                     padding + side[0],
                     padding + side[1],
                     dilation ? dilation : 1,
                     ceil_mode };
    if (!stride) a.stride = a.kernel;
    return a;
}

naive_axis naive_maxpool_axis(st_maxpool_options o, st_shape x, int axis)
{
    return pool_axis(x.n[2 + axis], o.kernel[axis], o.stride[axis], o.padding[axis], o.dilation[axis],
                     o.ceil_mode, axis == 0 ? o.pad_height : o.pad_width);
}

naive_axis naive_avgpool_axis(st_avgpool_options o, st_shape x, int axis)
{
    return pool_axis(x.n[2 + axis], o.kernel[axis], o.stride[axis], o.padding[axis], o.dilation[axis],
                     o.ceil_mode, axis == 0 ? o.pad_height : o.pad_width);
}

st_shape naive_conv2d_shape(st_conv2d_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], o.out_channels, naive_windows(naive_conv2d_axis(o, x, 0)),
                    naive_windows(naive_conv2d_axis(o, x, 1)));
}

st_shape naive_maxpool_shape(st_maxpool_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], x.n[1], naive_windows(naive_maxpool_axis(o, x, 0)),
                    naive_windows(naive_maxpool_axis(o, x, 1)));
}

st_shape naive_avgpool_shape(st_avgpool_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], x.n[1], naive_windows(naive_avgpool_axis(o, x, 0)),
                    naive_windows(naive_avgpool_axis(o, x, 1)));
}

/* ---- convolution: one sum of products x w, and its derivatives by either factor -------------- */

naive naive_conv2d(st_conv2d_options o, st_tensor x, st_tensor weight, st_tensor bias, st_tensor dy)
{
    naive_axis h = naive_conv2d_axis(o, x.shape, 0), w = naive_conv2d_axis(o, x.shape, 1);
    st_shape s = naive_conv2d_shape(o, x.shape);
    int groups = o.groups ? o.groups : 1;
    ptrdiff_t in = x.shape.n[1] / groups, out = o.out_channels / groups; /* channels of a group */
    array ax = array_of(x), aw = array_of(weight), ady = array_of(dy);
    array y = array_new(s.n[0], s.n[1], s.n[2], s.n[3]), dx = array_new(ax.n[0], ax.n[1], ax.n[2], ax.n[3]);
    array dw = array_new(aw.n[0], aw.n[1], aw.n[2], aw.n[3]), db = array_new(s.n[1], 1, 1, 1);
    for (ptrdiff_t n = 0; n < s.n[0]; n++)
        for (ptrdiff_t k = 0; k < s.n[1]; k++)
            for (ptrdiff_t i = 0; i < s.n[2]; i++)
                for (ptrdiff_t j = 0; j < s.n[3]; j++) {
                    double d = *of(ady, n, k, i, j), sum = 0;
                    for (ptrdiff_t c = 0; c < in; c++)
                        for (ptrdiff_t kh = 0; kh < h.kernel; kh++)
                            for (ptrdiff_t kw = 0; kw < w.kernel; kw++) {
                                ptrdiff_t row = naive_place(h, i, kh), column = naive_place(w, j, kw);
                                if (!inside(h, row) || !inside(w, column)) continue;
                                ptrdiff_t channel = k / out * in + c;
                                double px = *of(ax, n, channel, row, column), pw = *of(aw, k, c, kh, kw);
                                sum += px * pw;
                                *of(dx, n, channel, row, column) += d * pw;
                                *of(dw, k, c, kh, kw) += d * px;
                            }
                    *of(y, n, k, i, j) = sum + (st_is_null(bias) ? 0 : (double)*st_at(bias, ST_INDEX(k)));
                    *of(db, k, 0, 0, 0) += d;
                }
    free(ax.at), free(aw.at), free(ady.at);
    return (naive){ tensor_from(y, s), tensor_from(dx, x.shape), tensor_from(dw, weight.shape),
                    tensor_from(db, ST_SHAPE(s.n[1])), true };
}

naive naive_dense(st_tensor x, st_tensor weight, st_tensor bias, st_tensor dy)
{
    st_shape s = ST_SHAPE(x.shape.n[0], weight.shape.n[0]);
    array ax = array_of(x), aw = array_of(weight), ady = array_of(dy);
    array y = array_new(s.n[0], s.n[1], 1, 1), dx = array_new(ax.n[0], ax.n[1], 1, 1);
    array dw = array_new(aw.n[0], aw.n[1], 1, 1), db = array_new(s.n[1], 1, 1, 1);
    for (ptrdiff_t n = 0; n < s.n[0]; n++)
        for (ptrdiff_t k = 0; k < s.n[1]; k++) {
            double d = *of(ady, n, k, 0, 0), sum = 0;
            for (ptrdiff_t c = 0; c < ax.n[1]; c++) {
                sum += *of(ax, n, c, 0, 0) * *of(aw, k, c, 0, 0);
                *of(dx, n, c, 0, 0) += d * *of(aw, k, c, 0, 0);
                *of(dw, k, c, 0, 0) += d * *of(ax, n, c, 0, 0);
            }
            *of(y, n, k, 0, 0) = sum + (st_is_null(bias) ? 0 : (double)*st_at(bias, ST_INDEX(k)));
            *of(db, k, 0, 0, 0) += d;
        }
    free(ax.at), free(aw.at), free(ady.at);
    return (naive){ tensor_from(y, s), tensor_from(dx, x.shape), tensor_from(dw, weight.shape),
                    tensor_from(db, ST_SHAPE(s.n[1])), true };
}

/* ---- pooling --------------------------------------------------------------------------------- */

typedef struct maximum {
    bool any, in_image;
    double value;
    ptrdiff_t row, column;
} maximum;

static bool beats(double x, double best)
{
    if (isnan(best)) return false;
    return isnan(x) || x > best;
}

/* The first maximum of window (i, j). Where padding is -inf only places in the image are looked at, and
 * a window without any is -inf; where it is 0 all are. */
static maximum maximum_of(array x, naive_axis h, naive_axis w, bool zeros, ptrdiff_t n, ptrdiff_t c,
                          ptrdiff_t i, ptrdiff_t j)
{
    maximum m = { .value = -INFINITY };
    for (ptrdiff_t kh = 0; kh < h.kernel; kh++)
        for (ptrdiff_t kw = 0; kw < w.kernel; kw++) {
            ptrdiff_t row = naive_place(h, i, kh), column = naive_place(w, j, kw);
            bool in_image = inside(h, row) && inside(w, column);
            if (!in_image && !zeros) continue;
            double value = in_image ? *of(x, n, c, row, column) : 0;
            if (!m.any || beats(value, m.value)) m = (maximum){ true, in_image, value, row, column };
        }
    return m;
}

naive naive_maxpool(st_maxpool_options o, st_tensor x, st_tensor dy)
{
    naive_axis h = naive_maxpool_axis(o, x.shape, 0), w = naive_maxpool_axis(o, x.shape, 1);
    st_shape s = naive_maxpool_shape(o, x.shape);
    array ax = array_of(x), ady = array_of(dy);
    array y = array_new(s.n[0], s.n[1], s.n[2], s.n[3]), dx = array_new(ax.n[0], ax.n[1], ax.n[2], ax.n[3]);
    for (ptrdiff_t n = 0; n < s.n[0]; n++)
        for (ptrdiff_t c = 0; c < s.n[1]; c++)
            for (ptrdiff_t i = 0; i < s.n[2]; i++)
                for (ptrdiff_t j = 0; j < s.n[3]; j++) {
                    maximum m = maximum_of(ax, h, w, o.pad_value == ST_PAD_ZERO, n, c, i, j);
                    *of(y, n, c, i, j) = m.value;
                    if (m.in_image) *of(dx, n, c, m.row, m.column) += *of(ady, n, c, i, j);
                }
    free(ax.at), free(ady.at);
    return (naive){ .y = tensor_from(y, s), .dx = tensor_from(dx, x.shape), .exact = true };
}

naive naive_avgpool(st_avgpool_options o, st_tensor x, st_tensor dy)
{
    naive_axis h = naive_avgpool_axis(o, x.shape, 0), w = naive_avgpool_axis(o, x.shape, 1);
    st_shape s = naive_avgpool_shape(o, x.shape);
    array ax = array_of(x), ady = array_of(dy);
    array y = array_new(s.n[0], s.n[1], s.n[2], s.n[3]), dx = array_new(ax.n[0], ax.n[1], ax.n[2], ax.n[3]);
    bool exact = true;
    for (ptrdiff_t n = 0; n < s.n[0]; n++)
        for (ptrdiff_t c = 0; c < s.n[1]; c++)
            for (ptrdiff_t i = 0; i < s.n[2]; i++)
                for (ptrdiff_t j = 0; j < s.n[3]; j++) {
                    double sum = 0;
                    int seen = 0, padded = 0; /* places in the image; in the image and its padding */
                    for (ptrdiff_t kh = 0; kh < h.kernel; kh++)
                        for (ptrdiff_t kw = 0; kw < w.kernel; kw++) {
                            ptrdiff_t row = naive_place(h, i, kh), column = naive_place(w, j, kw);
                            if (row < h.size + h.after && column < w.size + w.after) padded++;
                            if (!inside(h, row) || !inside(w, column)) continue;
                            seen++;
                            sum += *of(ax, n, c, row, column);
                        }
                    int divisor = o.count_exclude_pad ? seen : padded;
                    if (divisor == 0) continue;
                    if (divisor & (divisor - 1)) exact = false;
                    *of(y, n, c, i, j) = sum / divisor;
                    for (ptrdiff_t kh = 0; kh < h.kernel; kh++)
                        for (ptrdiff_t kw = 0; kw < w.kernel; kw++) {
                            ptrdiff_t row = naive_place(h, i, kh), column = naive_place(w, j, kw);
                            if (!inside(h, row) || !inside(w, column)) continue;
                            *of(dx, n, c, row, column) += *of(ady, n, c, i, j) / divisor;
                        }
                }
    free(ax.at), free(ady.at);
    return (naive){ .y = tensor_from(y, s), .dx = tensor_from(dx, x.shape), .exact = exact };
}

/* ---- transposed convolution ------------------------------------------------------------------ */

static int or_1(int option)
{
    return option ? option : 1;
}

st_shape naive_conv_transpose2d_shape(st_conv_transpose2d_options o, st_shape x)
{
    st_shape s = ST_SHAPE(x.n[0], o.out_channels, 0, 0);
    for (int axis = 0; axis < 2; axis++)
        s.n[2 + axis] = (x.n[2 + axis] - 1) * or_1(o.stride[axis]) - 2 * o.padding[axis] +
                        or_1(o.dilation[axis]) * (o.kernel[axis] - 1) + o.output_padding[axis] + 1;
    return s;
}

/* The windows lie in the output. */
static naive_axis transposed_axis(st_conv_transpose2d_options o, st_shape y, int axis)
{
    return (naive_axis){
        .size = y.n[2 + axis],
        .kernel = o.kernel[axis],
        .stride = or_1(o.stride[axis]),
        .padding = o.padding[axis],
        .after = o.padding[axis],
        .dilation = or_1(o.dilation[axis]),
    };
}

naive naive_conv_transpose2d(st_conv_transpose2d_options o, st_tensor x, st_tensor weight, st_tensor bias,
                             st_tensor dy)
{
    st_shape s = naive_conv_transpose2d_shape(o, x.shape);
    naive_axis h = transposed_axis(o, s, 0), w = transposed_axis(o, s, 1);
    ptrdiff_t in = x.shape.n[1] / or_1(o.groups), out = o.out_channels / or_1(o.groups);
    array ax = array_of(x), aw = array_of(weight), ady = array_of(dy);
    array y = array_new(s.n[0], s.n[1], s.n[2], s.n[3]), dx = array_new(ax.n[0], ax.n[1], ax.n[2], ax.n[3]);
    array dw = array_new(aw.n[0], aw.n[1], aw.n[2], aw.n[3]), db = array_new(s.n[1], 1, 1, 1);
    for (ptrdiff_t n = 0; n < s.n[0]; n++)
        for (ptrdiff_t k = 0; k < s.n[1]; k++)
            for (ptrdiff_t i = 0; i < s.n[2]; i++)
                for (ptrdiff_t j = 0; j < s.n[3]; j++) {
                    *of(y, n, k, i, j) = st_is_null(bias) ? 0 : (double)*st_at(bias, ST_INDEX(k));
                    *of(db, k, 0, 0, 0) += *of(ady, n, k, i, j);
                }
    for (ptrdiff_t n = 0; n < ax.n[0]; n++)
        for (ptrdiff_t c = 0; c < ax.n[1]; c++)
            for (ptrdiff_t i = 0; i < ax.n[2]; i++)
                for (ptrdiff_t j = 0; j < ax.n[3]; j++)
                    for (ptrdiff_t k = 0; k < out; k++)
                        for (ptrdiff_t kh = 0; kh < h.kernel; kh++)
                            for (ptrdiff_t kw = 0; kw < w.kernel; kw++) {
                                ptrdiff_t row = naive_place(h, i, kh), column = naive_place(w, j, kw);
                                if (!inside(h, row) || !inside(w, column)) continue;
                                ptrdiff_t to = c / in * out + k;
                                double px = *of(ax, n, c, i, j), pw = *of(aw, c, k, kh, kw);
                                double d = *of(ady, n, to, row, column);
                                *of(y, n, to, row, column) += px * pw;
                                *of(dx, n, c, i, j) += d * pw;
                                *of(dw, c, k, kh, kw) += d * px;
                            }
    free(ax.at), free(aw.at), free(ady.at);
    return (naive){ tensor_from(y, s), tensor_from(dx, x.shape), tensor_from(dw, weight.shape),
                    tensor_from(db, ST_SHAPE(s.n[1])), true };
}

/* ---- borders and sizes ----------------------------------------------------------------------- */

/* Every row of the output is a weighed sum of rows of the input, and so is every column. */
typedef struct blend {
    int count;
    ptrdiff_t from[16];
    double weight[16];
} blend;

typedef blend blend_at(const void *options, int axis, ptrdiff_t at, ptrdiff_t from, ptrdiff_t to);

static naive blended(blend_at *rule, const void *options, st_shape s, double outside, st_tensor x,
                     st_tensor dy)
{
    array ax = array_of(x), ady = array_of(dy);
    array y = array_new(s.n[0], s.n[1], s.n[2], s.n[3]), dx = array_new(ax.n[0], ax.n[1], ax.n[2], ax.n[3]);
    for (ptrdiff_t n = 0; n < s.n[0]; n++)
        for (ptrdiff_t c = 0; c < s.n[1]; c++)
            for (ptrdiff_t i = 0; i < s.n[2]; i++)
                for (ptrdiff_t j = 0; j < s.n[3]; j++) {
                    blend rows = rule(options, 0, i, ax.n[2], s.n[2]);
                    blend columns = rule(options, 1, j, ax.n[3], s.n[3]);
                    if (rows.count == 0 || columns.count == 0) *of(y, n, c, i, j) = outside;
                    for (int a = 0; a < rows.count; a++)
                        for (int b = 0; b < columns.count; b++) {
                            double weight = rows.weight[a] * columns.weight[b];
                            *of(y, n, c, i, j) += weight * *of(ax, n, c, rows.from[a], columns.from[b]);
                            *of(dx, n, c, rows.from[a], columns.from[b]) += weight * *of(ady, n, c, i, j);
                        }
                }
    free(ax.at), free(ady.at);
    return (naive){ .y = tensor_from(y, s), .dx = tensor_from(dx, x.shape), .exact = true };
}

static blend pad_at(const void *options, int axis, ptrdiff_t at, ptrdiff_t from, ptrdiff_t to)
{
    (void)to;
    const st_pad2d_options *o = options;
    ptrdiff_t place = at - (axis == 0 ? o->height : o->width)[0], last = from - 1;
    bool before = place<0, after = place> last;
    if (o->mode == ST_PAD_CONSTANT && (before || after)) return (blend){ 0 };
    if (o->mode == ST_PAD_REFLECT) place = before ? -place : after ? 2 * last - place : place;
    if (o->mode == ST_PAD_REPLICATE) place = before ? 0 : after ? last : place;
    return (blend){ 1, { place }, { 1 } };
}

st_shape naive_pad2d_shape(st_pad2d_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], x.n[1], x.n[2] + o.height[0] + o.height[1], x.n[3] + o.width[0] + o.width[1]);
}

naive naive_pad2d(st_pad2d_options o, st_tensor x, st_tensor dy)
{
    return blended(pad_at, &o, naive_pad2d_shape(o, x.shape), o.value, x, dy);
}

static blend upsample_at(const void *options, int axis, ptrdiff_t at, ptrdiff_t from, ptrdiff_t to)
{
    const st_upsample_options *o = options;
    if (o->mode == ST_UPSAMPLE_NEAREST) return (blend){ 1, { at / o->scale[axis] }, { 1 } };
    double place = ((double)at + 0.5) / o->scale[axis] - 0.5;
    if (o->align_corners) place = to > 1 ? (double)(at * (from - 1)) / (double)(to - 1) : 0;
    place = fmin(fmax(place, 0), (double)(from - 1));
    ptrdiff_t low = (ptrdiff_t)floor(place);
    if (low + 1 == from) return (blend){ 1, { low }, { 1 } };
    return (blend){ 2, { low, low + 1 }, { (double)(low + 1) - place, place - (double)low } };
}

st_shape naive_upsample_shape(st_upsample_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], x.n[1], x.n[2] * o.scale[0], x.n[3] * o.scale[1]);
}

naive naive_upsample(st_upsample_options o, st_tensor x, st_tensor dy)
{
    return blended(upsample_at, &o, naive_upsample_shape(o, x.shape), 0, x, dy);
}

static blend adaptive_at(const void *options, int axis, ptrdiff_t at, ptrdiff_t from, ptrdiff_t to)
{
    (void)options, (void)axis;
    blend b = { 0 };
    for (ptrdiff_t row = 0; row < from; row++) /* of those that part `at` touches */
        if ((row + 1) * to > at * from && row * to < (at + 1) * from) b.from[b.count++] = row;
    for (int k = 0; k < b.count; k++) b.weight[k] = 1.0 / b.count;
    return b;
}

st_shape naive_adaptive_avgpool_shape(st_adaptive_avgpool_options o, st_shape x)
{
    return ST_SHAPE(x.n[0], x.n[1], or_1(o.output_size[0]), or_1(o.output_size[1]));
}

naive naive_adaptive_avgpool(st_adaptive_avgpool_options o, st_tensor x, st_tensor dy)
{
    return blended(adaptive_at, &o, naive_adaptive_avgpool_shape(o, x.shape), 0, x, dy);
}

/* ---- prelu ------------------------------------------------------------------------------------ */

naive naive_prelu(st_tensor x, st_tensor weight, st_tensor dy)
{
    naive r = { .y = st_tensor_new(x.shape), .dx = st_tensor_new(x.shape) };
    r.dweight = st_tensor_new(weight.shape);
    ptrdiff_t weights = weight.shape.n[0];
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        st_shape at = { .rank = x.shape.rank };
        for (ptrdiff_t i = at.rank - 1, rest = k; i >= 0; rest /= x.shape.n[i--])
            at.n[i] = rest % x.shape.n[i];
        st_shape channel = ST_INDEX(weights > 1 ? at.n[1] : 0);
        st_real a = *st_at(x, at), d = *st_at(dy, at), w = *st_at(weight, channel);
        *st_at(r.y, at) = a > 0 ? a : w * a;
        *st_at(r.dx, at) = a > 0 ? d : w * d;
        if (!(a > 0)) *st_at(r.dweight, channel) += a * d;
    }
    return r;
}

/* ---- activations ----------------------------------------------------------------------------- */

#define INF INFINITY
#define SLOPE NAIVE_LEAKY_SLOPE
#define ALPHA NAIVE_ELU_ALPHA
#define LAMBDA 1.0507009873554804934
#define LEAST (-LAMBDA * 1.6732632423543772848) /* of selu, -lambda alpha */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double log_1_plus_exp(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double normal_distribution(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

static double normal_density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static double relu(double x)
{
    return fmax(x, 0);
}

static double relu_slope(double x)
{
    return x > 0;
}

static double relu6(double x)
{
    return clamp(x, 0, 6);
}

static double relu6_slope(double x)
{
    return x > 0 && x < 6;
}

static double leaky_relu(double x)
{
    return fmax(x, 0) + SLOPE * fmin(x, 0);
}

static double leaky_relu_slope(double x)
{
    return x > 0 ? 1 : SLOPE;
}

static double elu(double x)
{
    return x > 0 ? x : ALPHA * (exp(x) - 1);
}

static double elu_slope(double x)
{
    return x > 0 ? 1 : ALPHA * exp(x);
}

static double selu(double x)
{
    return x > 0 ? LAMBDA * x : -LEAST * (exp(x) - 1);
}

static double selu_slope(double x)
{
    return x > 0 ? LAMBDA : -LEAST * exp(x);
}

static double gelu(double x)
{
    return x * normal_distribution(x);
}

static double gelu_slope(double x)
{
    return normal_distribution(x) + x * normal_density(x);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double silu_slope(double x)
{
    return logistic(x) + x * logistic(x) * logistic(-x);
}

static double mish(double x)
{
    return x * tanh(log_1_plus_exp(x));
}

static double mish_slope(double x)
{
    double t = tanh(log_1_plus_exp(x)), cosine = cosh(log_1_plus_exp(x));
    return t + x * logistic(x) / (cosine * cosine);
}

static double sigmoid_slope(double x)
{
    return logistic(x) * logistic(-x);
}

static double tanh_slope(double x)
{
    return 1 / (cosh(x) * cosh(x));
}

static double softsign(double x)
{
    return x / (1 + fabs(x));
}

static double softsign_slope(double x)
{
    return 1 / ((1 + fabs(x)) * (1 + fabs(x)));
}

static double hardsigmoid(double x)
{
    return clamp(x / 6 + 0.5, 0, 1);
}

static double hardsigmoid_slope(double x)
{
    return x > -3 && x <= 3 ? 1.0 / 6 : 0;
}

static double hardswish(double x)
{
    return x * hardsigmoid(x);
}

static double hardswish_slope(double x)
{
    return x <= -3 ? 0 : x <= 3 ? x / 3 + 0.5 : 1;
}

/* The slopes written out with cosh instead of the logistic function. */
static double gelu_tanh(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double gelu_tanh_slope(double x)
{
    if (fabs(x) > 50) return x > 0;
    double k = sqrt(2 / acos(-1)), u = k * (x + 0.044715 * x * x * x), du = k * (1 + 3 * 0.044715 * x * x);
    return (1 + tanh(u)) / 2 + x / 2 * du / (cosh(u) * cosh(u));
}

static double hardtanh(double x)
{
    return clamp(x, NAIVE_HARDTANH[0], NAIVE_HARDTANH[1]);
}

static double hardtanh_slope(double x)
{
    return x > NAIVE_HARDTANH[0] && x < NAIVE_HARDTANH[1];
}

static st_layer *make_gelu(void)
{
    return st_gelu();
}

static st_layer *make_gelu_tanh(void)
{
    return st_gelu(.approximate = ST_GELU_TANH);
}

static st_layer *make_hardtanh(void)
{
    return st_hardtanh(.min_val = NAIVE_HARDTANH[0], .max_val = NAIVE_HARDTANH[1]);
}

static st_layer *make_leaky_relu(void)
{
    return st_leaky_relu(.slope = SLOPE);
}

static st_layer *make_elu(void)
{
    return st_elu(.alpha = ALPHA);
}

/* clang-format off */
const naive_function naive_functions[] = {
    { "relu",        st_relu,        relu,           relu_slope,        { 0, INF },      { 0, 1 } },
    { "relu6",       st_relu6,       relu6,          relu6_slope,       { 0, 6 },        { 0, 0 } },
    { "leaky_relu",  make_leaky_relu,   leaky_relu,     leaky_relu_slope,  { -INF, INF },   { SLOPE, 1 } },
    { "elu",         make_elu,          elu,            elu_slope,         { -ALPHA, INF }, { 0, 1 } },
    { "selu",        st_selu,        selu,           selu_slope,        { LEAST, INF },  { 0, LAMBDA } },
    { "hardtanh",    make_hardtanh,  hardtanh,       hardtanh_slope,    { -2, 3 },       { 0, 0 } },
    { "gelu",        make_gelu,        gelu,           gelu_slope,        { 0, INF },      { 0, 1 } },
    { "gelu_tanh",   make_gelu_tanh, gelu_tanh,      gelu_tanh_slope,   { 0, INF },      { 0, 1 } },
    { "silu",        st_silu,        silu,           silu_slope,        { 0, INF },      { 0, 1 } },
    { "mish",        st_mish,        mish,           mish_slope,        { 0, INF },      { 0, 1 } },
    { "sigmoid",     st_sigmoid,     logistic,       sigmoid_slope,     { 0, 1 },        { 0, 0 } },
    { "tanh",        st_tanh,        tanh,           tanh_slope,        { -1, 1 },       { 0, 0 } },
    { "softplus",    st_softplus,    log_1_plus_exp, logistic,          { 0, INF },      { 0, 1 } },
    { "softsign",    st_softsign,    softsign,       softsign_slope,    { -1, 1 },       { 0, 0 } },
    { "hardsigmoid", st_hardsigmoid, hardsigmoid,    hardsigmoid_slope, { 0, 1 },        { 0, 0 } },
    { "hardswish",   st_hardswish,   hardswish,      hardswish_slope,   { 0, INF },      { 0, 1 } },
    { 0 },
};
/* clang-format on */
