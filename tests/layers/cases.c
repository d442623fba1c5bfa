/* cases.c: see cases.h. */
#include "tests/layers/cases.h"
#include "tests/layers/pooling_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ---------------------------------------------------------------------------------- */

/* One image, several, or more than two chunks of 8. */
static ptrdiff_t roll_batch(dice *d)
{
    return chance(d, 20) ? roll(d, 17, 19) : chance(d, 30) ? 1 : roll(d, 2, 6);
}

st_shape roll_images(dice *d)
{
    return ST_SHAPE(roll_batch(d), roll_channels(d, 1, 4), roll_side(d, 1, 6), roll_side(d, 1, 6));
}

static st_shape roll_any(dice *d)
{
    st_shape s = { .rank = (int)roll(d, 2, 5) };
    for (int i = 0; i < s.rank; i++) s.n[i] = i == 1 ? roll_channels(d, 1, 5) : roll_side(d, 1, 5);
    s.n[0] = roll_batch(d);
    return s;
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* Small, or large enough for what is made of vectors; 1x1, whose image is its own matrix. */
static st_layer *roll_conv2d(dice *d, st_shape *x)
{
    bool large = chance(d, 15), point = chance(d, 15);
    int groups = (int)roll(d, 1, 3);
    st_conv2d_options o = { .groups = groups == 1 ? 0 : groups, .no_bias = chance(d, 30) };
    o.out_channels = groups * (int)roll_channels(d, 1, large ? 20 : 3);
    *x = ST_SHAPE(large ? roll(d, 1, 2) : roll_batch(d), groups * roll_channels(d, 1, large ? 6 : 3), 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = point ? 1 : (int)roll(d, 1, 4);
        o.stride[axis] = point ? 1 : (int)roll(d, 1, chance(d, 50) ? 1 : o.kernel[axis] + 2);
        o.dilation[axis] = chance(d, 60) ? 1 : (int)roll(d, 2, 3);
        int reach = o.dilation[axis] * (o.kernel[axis] - 1) + 1;
        o.padding[axis] = chance(d, 40) ? 0 : (int)roll(d, 0, reach);
        int *side = axis == 0 ? o.pad_height : o.pad_width;
        for (int end = 0; end < 2 && chance(d, 30); end++) side[end] = (int)roll(d, 0, point ? 1 : 3);
        int least = reach - 2 * o.padding[axis] - side[0] - side[1];
        x->n[2 + axis] = large ? roll_side(d, 13, 28) : (least > 1 ? least : 1) + roll_side(d, 0, 6);
    }
    keep_zero(o.padding);
    return st_conv2d_new(o);
}

/* Winograd's and the direct algorithm's sizes; SAME_UPPER's and SAME_LOWER's padding of even kernels and
 * strides. */
static st_layer *roll_one_sided(dice *d, st_shape *x)
{
    int k = (int)roll(d, 2, 4), s = (int)roll(d, 1, 2), top = (int)roll(d, 0, 2), left = (int)roll(d, 0, 2);
    *x = ST_SHAPE(1, roll_channels(d, 8, 12), roll_side(d, 11, 16), roll_side(d, 11, 16));
    return st_conv2d(.out_channels = (int)roll_channels(d, 8, 24), .kernel = { k, k }, .stride = { s, s },
                     .pad_height = { top, (int)roll(d, 0, 2) }, .pad_width = { left, 2 - left });
}

/* Kernels and strides that are taken a channel at a time, and larger ones; groups that fill vectors. */
static st_layer *roll_depthwise(dice *d, st_shape *x)
{
    const int channels = (int)roll_channels(d, 2, chance(d, 30) ? 40 : 9);
    st_conv2d_options o = { .out_channels = channels * (int)roll(d, 1, channels > 9 ? 1 : 3),
                            .groups = channels };
    o.no_bias = chance(d, 50);
    *x = ST_SHAPE(roll_batch(d), channels * (chance(d, 80) ? 1 : 2), 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = chance(d, 50) ? 3 : (int)roll(d, 1, 8);
        o.stride[axis] = chance(d, 50) ? 1 : (int)roll(d, 1, 3);
        o.dilation[axis] = chance(d, 80) ? 1 : 2;
        o.padding[axis] = chance(d, 70) ? o.dilation[axis] * (o.kernel[axis] - 1) / 2 : 0;
        x->n[2 + axis] = o.dilation[axis] * (o.kernel[axis] - 1) + roll_side(d, 1, 20);
    }
    keep_zero(o.padding);
    return st_conv2d_new(o);
}

/* Channels that fill vectors, of maps that do not, of one image or many; every stride and dilation. */
static st_layer *roll_small_maps(dice *d, st_shape *x)
{
    st_conv2d_options o = { .out_channels = (int)roll_channels(d, 14, 40), .no_bias = chance(d, 30) };
    *x = ST_SHAPE(roll_batch(d), roll_channels(d, 6, 20), 0, 0);
    if (chance(d, 30)) o.groups = 2, o.out_channels *= 2, x->n[1] *= 2;
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = (int)roll(d, 1, 3);
        o.stride[axis] = chance(d, 60) ? 1 : 2;
        o.dilation[axis] = chance(d, 70) ? 1 : 2;
        o.padding[axis] = chance(d, 30) ? 0 : o.dilation[axis] * (o.kernel[axis] - 1) / 2;
        x->n[2 + axis] = o.dilation[axis] * (o.kernel[axis] - 1) + roll_side(d, 1, chance(d, 20) ? 12 : 5);
    }
    keep_zero(o.padding);
    return st_conv2d_new(o);
}

/* A convolution that Winograd's tiles take. Every third is of sizes at which the longest vectors, bands and
 * blocks of tiles end; shorter ones end there too. */
static st_layer *roll_tiles(dice *d, st_shape *x)
{
    static const struct {
        int out, padding[2];
        st_shape x;
    } ends[] = {
        { 16, { 1, 1 }, { 4, { 4, 8, 14, 14 } } },  /* vectors are full */
        { 33, { 1, 0 }, { 4, { 3, 17, 9, 8 } } },   /* one channel more */
        { 15, { 0, 2 }, { 4, { 8, 31, 7, 10 } } },  /* one less */
        { 3, { 1, 1 }, { 4, { 1, 70, 33, 33 } } },  /* several bands of x */
        { 70, { 2, 1 }, { 4, { 1, 3, 32, 30 } } },  /* several bands of y */
        { 2, { 1, 1 }, { 4, { 2, 2, 3, 2500 } } },  /* a row of an image is more than a band */
        { 130, { 1, 1 }, { 4, { 1, 129, 5, 6 } } }, /* the smallest block */
        { 1, { 2, 2 }, { 4, { 1, 1, 1, 1 } } },     /* a pixel, and windows that see it in their corners */
        { 4, { 0, 0 }, { 4, { 1, 4, 3, 3 } } },     /* one window */
    };
    int above = (int)roll(d, 0, 2), left = (int)roll(d, 0, 2);
    bool one_sided = chance(d, 50); /* what is padded at the top is not at the bottom */
    st_conv2d_options o = { .out_channels = (int)roll_channels(d, 1, 20),
                            .kernel = { 3, 3 },
                            .no_bias = chance(d, 30) };
    *x = ST_SHAPE(chance(d, 10) ? 17 : roll(d, 1, 4), roll_channels(d, 1, 20),
                  roll_side(d, above && !one_sided ? 1 : 3, 9), roll_side(d, left && !one_sided ? 1 : 3, 9));
    if (one_sided) o.pad_height[0] = above, o.pad_height[1] = 2 - above, o.pad_width[chance(d, 50)] = left;
    else o.padding[0] = above, o.padding[1] = left;
    for (int axis = 0; axis < 2 && !one_sided && chance(d, 30); axis++) {
        o.dilation[axis] = (int)roll(d, 1, 3);
        o.padding[axis] *= o.dilation[axis];
        x->n[2 + axis] = 2 * o.dilation[axis] + roll_side(d, 1, 20);
    }
    if (o.dilation[0] && !o.dilation[1]) o.dilation[1] = 1; /* 0 is the first one */
    if (chance(d, 30))                                      /* 5x5 */
        for (int axis = 0; axis < 2; axis++) {
            o.kernel[axis] = 5;
            x->n[2 + axis] += 2 * (o.dilation[axis] ? o.dilation[axis] : 1);
        }
    keep_zero(o.padding);
    const size_t k = d->key.seed / 3 % (sizeof ends / sizeof *ends);
    if (d->key.seed % 3) return st_conv2d_new(o);
    *x = ends[k].x;
    o = (st_conv2d_options){ .out_channels = ends[k].out, .kernel = { 3 } };
    memcpy(o.padding, ends[k].padding, sizeof o.padding);
    keep_zero(o.padding);
    return st_conv2d_new(o);
}

/* 73,856 parameters, whose gradient is made in one piece. */
static st_layer *roll_many_weights(dice *d, st_shape *x)
{
    *x = ST_SHAPE(9, 64, 4, 3);
    return st_conv2d(.out_channels = 128, .kernel = { 3, 3 });
}

static st_layer *roll_conv_transpose2d(dice *d, st_shape *x)
{
    int groups = (int)roll(d, 1, 3);
    st_conv_transpose2d_options o = { .groups = groups, .no_bias = chance(d, 30) };
    o.out_channels = groups * (int)roll_channels(d, 1, 3);
    *x = ST_SHAPE(roll_batch(d), groups * roll_channels(d, 1, 3), roll_side(d, 1, 5), roll_side(d, 1, 5));
    for (int axis = 0; axis < 2; axis++) {
        int kernel = (int)roll(d, 1, 4), stride = (int)roll(d, 1, 4), dilation = (int)roll(d, 1, 3);
        int reach = dilation * (kernel - 1) + 1, more = stride > dilation ? stride : dilation;
        o.kernel[axis] = kernel, o.stride[axis] = stride, o.dilation[axis] = dilation;
        o.output_padding[axis] = chance(d, 50) ? 0 : (int)roll(d, 0, more - 1);
        ptrdiff_t most = ((x->n[2 + axis] - 1) * stride + reach + o.output_padding[axis] - 1) / 2;
        o.padding[axis] = chance(d, 40) ? 0 : (int)roll(d, 0, most < reach ? most : reach);
    }
    keep_zero(o.padding), keep_zero(o.output_padding);
    return st_conv_transpose2d_new(o);
}

/* Channels that fill vectors, and phases of every size. */
static st_layer *roll_many_transposed(dice *d, st_shape *x)
{
    st_conv_transpose2d_options o = { .out_channels = (int)roll_channels(d, 8, 40),
                                      .no_bias = chance(d, 30) };
    *x = ST_SHAPE(roll(d, 1, 9), roll_channels(d, 8, 24), roll_side(d, 1, 9), roll_side(d, 1, 20));
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = (int)roll(d, 1, 4);
        o.stride[axis] = (int)roll(d, 1, 3);
        o.dilation[axis] = chance(d, 80) ? 1 : 2;
        o.padding[axis] = x->n[2 + axis] > 1 && o.kernel[axis] > 2 ? 1 : 0;
    }
    keep_zero(o.padding);
    return st_conv_transpose2d_new(o);
}

static st_layer *roll_dense(dice *d, st_shape *x)
{
    static const ptrdiff_t batches[] = { 1, 2, 8, 9, 19, 32, 33, 70 };
    *x = ST_SHAPE(batches[roll(d, 0, 7)], roll_channels(d, 1, 70));
    return st_dense(.out_features = (int)roll_channels(d, 1, 40), .no_bias = chance(d, 30));
}

/* Few rows, or many. */
static st_layer *roll_dense_of_rows(dice *d, st_shape *x)
{
    *x = ST_SHAPE(roll_batch(d), chance(d, 30) ? 1 : roll_side(d, 2, chance(d, 20) ? 40 : 5),
                  roll_channels(d, 1, 40));
    return st_dense(.out_features = (int)roll_channels(d, 1, 40), .no_bias = chance(d, 30));
}

static st_layer *roll_many_features(dice *d, st_shape *x)
{
    /* Several blocks of inputs, and of outputs or images. */
    const bool more = chance(d, 50);
    *x = more ? ST_SHAPE(300, 410) : ST_SHAPE(35, 1100);
    return st_dense(.out_features = more ? 140 : 270);
}

/* ---- pooling --------------------------------------------------------------------------------- */

/* Half of the windows are of the sizes that have loops of their own; rows are of no vector or of many. */
st_maxpool_options roll_windows(dice *d, st_shape *x)
{
    st_maxpool_options o = { .ceil_mode = chance(d, 50), .pad_value = (st_pad_value)roll(d, 0, 2) };
    int size = chance(d, 40) ? (int)roll(d, 2, 3) : 0;
    *x = ST_SHAPE(roll_batch(d), roll_channels(d, 1, 3), 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        bool global = chance(d, 10);
        ptrdiff_t high = roll_side(d, 1, global ? 5 : axis == 1 && chance(d, 40) ? 60 : 9);
        int kernel = global ? (int)high : size ? size : (int)roll(d, 1, 5);
        o.kernel[axis] = global ? 0 : kernel;
        o.stride[axis] = size && chance(d, 70) ? 2 : (int)roll(d, 0, kernel + 2);
        o.dilation[axis] = global || chance(d, 60) ? 1 : (int)roll(d, 1, 3);
        int reach = o.dilation[axis] * (kernel - 1) + 1;
        o.padding[axis] = chance(d, 40) ? 0 : (int)roll(d, 0, reach - 1);
        int *side = axis == 0 ? o.pad_height : o.pad_width;
        for (int end = 0; end < 2 && chance(d, 40); end++)
            side[end] = (int)roll(d, 0, reach - 1 - o.padding[axis]);
        ptrdiff_t least = reach - 2 * o.padding[axis] - side[0] - side[1];
        if (o.ceil_mode && chance(d, 20)) { /* one window, which is larger than the padded image */
            least -= (o.stride[axis] ? o.stride[axis] : kernel) - 1;
            x->n[2 + axis] = global ? high : least > 1 ? least : 1;
            continue;
        }
        x->n[2 + axis] = global || high >= least ? high : least;
    }
    keep_zero(o.kernel), keep_zero(o.stride), keep_zero(o.padding);
    return o;
}

static st_layer *roll_maxpool(dice *d, st_shape *x)
{
    st_maxpool_options o = roll_windows(d, x);
    return chance(d, 5) ? st_global_maxpool() : st_maxpool_new(o);
}

/* Windows as networks have them, of rows that fill vectors and of rows that do not. */
static st_layer *roll_maxpool_usual(dice *d, st_shape *x)
{
    const int kernel = (int)roll(d, 2, 3), padding = (int)roll(d, 0, kernel / 2);
    *x = ST_SHAPE(roll(d, 1, 3), roll_channels(d, 1, 3), roll_side(d, 4, 40), roll_side(d, 4, 40));
    return st_maxpool(.kernel = { kernel }, .stride = { 2 }, .padding = { padding, padding });
}

static st_layer *roll_avgpool(dice *d, st_shape *x)
{
    st_maxpool_options o = roll_windows(d, x);
    /* The scale of the case, 3600, is no multiple of 32: sums over such images would lie between units. */
    if (chance(d, 5) && x->n[2] * x->n[3] % 32 != 0) return st_global_avgpool();
    return st_avgpool(WINDOWS(o), .count_exclude_pad = chance(d, 50));
}

static st_real sum_of_squares(const st_window *w)
{
    st_real sum = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) sum += (st_real)(3 + i) * w->x[i] * w->x[i];
    return sum;
}

static void its_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    for (ptrdiff_t i = 0; i < w->n; i++) dx[i] = 2 * (st_real)(3 + i) * w->x[i] * dy;
}

const st_layer_type squares = ST_POOLING("squares", .value = sum_of_squares, .adjoint = its_adjoint);

static st_layer *roll_pool(dice *d, st_shape *x)
{
    st_maxpool_options o = roll_windows(d, x);
    return st_pool(&squares, WINDOWS(o), .pad_value = o.pad_value == ST_PAD_LOWEST ? 0 : o.pad_value);
}

static int plan_trained(st_layer *l, ptrdiff_t channels, ptrdiff_t n)
{
    if (st_layer_parameter(l, "weight", ST_SHAPE(1, n), (st_init){ .normal = 1 })) return -1;
    return st_layer_parameter(l, "shift", ST_SHAPE(channels), (st_init){ .normal = 1 });
}

static st_real place_of(const st_window *w)
{
    return (st_real)(1 + w->channel + 2 * w->row + 3 * w->column);
}

static st_real weighted(const st_window *w)
{
    st_real sum = place_of(w) * w->param[1][0];
    for (ptrdiff_t i = 0; i < w->n; i++) sum += w->param[0][i] * w->x[i];
    return sum;
}

static void weighted_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    w->dparam[1][0] += (double)(dy * place_of(w));
    for (ptrdiff_t i = 0; i < w->n; i++) {
        w->dparam[0][i] += (double)(dy * w->x[i]);
        dx[i] = dy * w->param[0][i];
    }
}

const st_layer_type trained =
    ST_POOLING("trained", .plan = plan_trained, .value = weighted, .adjoint = weighted_adjoint);

static st_layer *roll_trained(dice *d, st_shape *x)
{
    st_maxpool_options o = roll_windows(d, x);
    return st_pool(&trained, WINDOWS(o));
}

static bool chosen(const st_window *w, ptrdiff_t i)
{
    return !w->training || st_random_bits(w->key, w->number).word[i % 4] >> (i / 4) % 32 & 1;
}

static st_real sum_of_chosen(const st_window *w)
{
    st_real sum = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) sum += chosen(w, i) ? w->x[i] : 0;
    return sum;
}

static void to_the_chosen(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    for (ptrdiff_t i = 0; i < w->n; i++) dx[i] = chosen(w, i) ? dy : 0;
}

const st_layer_type drawn = ST_POOLING("drawn", .value = sum_of_chosen, .adjoint = to_the_chosen);

static st_layer *roll_drawn(dice *d, st_shape *x)
{
    st_maxpool_options o = roll_windows(d, x);
    return st_pool(&drawn, WINDOWS(o));
}

/* A sum over each window: y = whole(sum of term(x, i)), with the derivatives; `at` is the window's position
 * in y. */
typedef struct window_sum {
    double (*term)(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x);
    double (*whole)(const st_layer *l, st_shape at, double sum);
    double (*slope)(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x);
    void (*gradients)(const st_layer *l, naive *want, st_shape at, ptrdiff_t i, double x, double dy);
} window_sum;

static naive each_window(const st_layer *l, st_tensor x, st_tensor dy, window_sum f)
{
    const st_maxpool_options o = { WINDOWS(*(const st_pool_options *)l->options) };
    naive_axis h = naive_maxpool_axis(o, x.shape, 0), w = naive_maxpool_axis(o, x.shape, 1);
    naive want = { .y = st_tensor_new(naive_maxpool_shape(o, x.shape)), .dx = st_tensor_new(x.shape) };
    if (l->params > 0) want.dweight = st_tensor_new(l->param[0].shape);
    if (l->params > 1) want.dbias = st_tensor_new(l->param[1].shape);
    for (ptrdiff_t k = 0; k < st_numel(want.y); k++) {
        st_shape at = index_of(want.y.shape, k);
        double sum = 0;
        for (int backward = 0; backward < 2; backward++) {
            for (ptrdiff_t i = 0; i < h.kernel * w.kernel; i++) {
                ptrdiff_t r = naive_place(h, at.n[2], i / w.kernel),
                          c = naive_place(w, at.n[3], i % w.kernel);
                if (r < 0 || r >= h.size || c < 0 || c >= w.size) continue;
                st_shape place = ST_INDEX(at.n[0], at.n[1], r, c);
                const double value = (double)*st_at(x, place), d = (double)*element(dy, k);
                if (!backward) sum += f.term(l, want.y, at, i, value);
                else *st_at(want.dx, place) += (st_real)(f.slope(l, want.y, at, i, value) * d);
                if (backward && f.gradients) f.gradients(l, &want, at, i, value, d);
            }
            if (!backward) *element(want.y, k) = (st_real)(f.whole ? f.whole(l, at, sum) : sum);
        }
        if (f.gradients) f.gradients(l, &want, at, -1, 0, (double)*element(dy, k));
    }
    return want;
}

static double square(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x)
{
    return (double)(3 + i) * x * x;
}

static double slope_of_square(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x)
{
    return 2 * (double)(3 + i) * x;
}

static naive want_pool(const st_layer *l, st_tensor x, st_tensor dy)
{
    return each_window(l, x, dy, (window_sum){ square, NULL, slope_of_square });
}

static double trained_weight(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x)
{
    return (double)*element(l->param[0], i);
}

static double times_weight(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x)
{
    return trained_weight(l, y, at, i, x) * x;
}

static double number_of_place(st_shape at)
{
    return (double)(1 + at.n[1] + 2 * at.n[2] + 3 * at.n[3]);
}

static double and_shift(const st_layer *l, st_shape at, double sum)
{
    return sum + (double)*element(l->param[1], at.n[1]) * number_of_place(at);
}

/* Once for each element, and once, with i = -1, for the window. */
static void of_weight_and_shift(const st_layer *l, naive *want, st_shape at, ptrdiff_t i, double x, double dy)
{
    if (i >= 0) *element(want->dweight, i) += (st_real)(dy * x);
    else *element(want->dbias, at.n[1]) += (st_real)(dy * number_of_place(at));
}

static naive want_trained(const st_layer *l, st_tensor x, st_tensor dy)
{
    return each_window(l, x, dy,
                       (window_sum){ times_weight, and_shift, trained_weight, of_weight_and_shift });
}

/* The random bit of element i of a window, of the seed and step that the tests set. */
static double bit_of(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x)
{
    const st_random_key key = st_call_random(&(st_call){ .layer = l });
    return st_random_bits(key, (uint64_t)number_of(y.shape, at)).word[i % 4] >> (i / 4) % 32 & 1;
}

static double if_bit(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x)
{
    return bit_of(l, y, at, i, x) * x;
}

static naive want_drawn(const st_layer *l, st_tensor x, st_tensor dy)
{
    return each_window(l, x, dy, (window_sum){ if_bit, NULL, bit_of });
}

static st_layer *roll_lppool(dice *d, st_shape *x)
{
    st_maxpool_options o = roll_windows(d, x);
    return st_lppool(WINDOWS(o), .p = chance(d, 30) ? 0 : 1 + 0.5 * (double)roll(d, 0, 4));
}

static double p_of(const st_layer *l)
{
    return OPTIONS(st_lppool_options).p;
}

static double power(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x)
{
    return pow(fabs(x), p_of(l));
}

static double root(const st_layer *l, st_shape at, double sum)
{
    return pow(sum, 1 / p_of(l));
}

static double slope_of_norm(const st_layer *l, st_tensor y, st_shape at, ptrdiff_t i, double x)
{
    const double norm = (double)*st_at(y, at);
    return x == 0 || norm == 0 ? 0 : copysign(pow(fabs(x) / norm, p_of(l) - 1), x);
}

static naive want_lppool(const st_layer *l, st_tensor x, st_tensor dy)
{
    return each_window(l, x, dy, (window_sum){ power, root, slope_of_norm });
}

static st_layer *roll_adaptive_avgpool(dice *d, st_shape *x)
{
    *x = roll_images(d);
    return st_adaptive_avgpool({ (int)roll(d, 0, 8), (int)roll(d, 0, 8) });
}

/* ---- normalisation, softmax ------------------------------------------------------------------ */

/* By group_of(index): each set of elements that have their moments in common; by weight_of(index):
 * parameters. */
static naive normalised(const st_layer *l, st_tensor x, st_tensor dy, double epsilon,
                        ptrdiff_t (*group_of)(const st_layer *l, st_shape s, st_shape at),
                        ptrdiff_t (*weight_of)(const st_layer *l, st_shape s, st_shape at))
{
    enum { COUNT, MEAN, SQUARES, SLOPE, PRODUCT, SUMS };
    ptrdiff_t n = st_numel(x);
    double(*sum)[SUMS] = calloc((size_t)n, sizeof *sum);
    naive want = { .y = st_tensor_new(x.shape), .dx = st_tensor_new(x.shape) };
    if (l->params)
        want.dweight = st_tensor_new(l->param[0].shape), want.dbias = st_tensor_new(l->param[1].shape);
    assert_non_null(sum);
    for (int pass = 0; pass < 4; pass++)
        for (ptrdiff_t k = 0; k < n; k++) {
            st_shape at = index_of(x.shape, k);
            double *s = sum[group_of(l, x.shape, at)], d = (double)*element(dy, k);
            ptrdiff_t i = weight_of(l, x.shape, at);
            double weight = l->params ? (double)*element(l->param[0], i) : 1, slope = d * weight;
            double centred = (double)*element(x, k) - s[MEAN] / s[COUNT];
            double sigma = sqrt(s[SQUARES] / s[COUNT] + epsilon), hat = centred / sigma;
            if (pass == 0) s[COUNT]++, s[MEAN] += (double)*element(x, k);
            if (pass == 1) s[SQUARES] += centred * centred;
            if (pass == 2) s[SLOPE] += slope, s[PRODUCT] += slope * hat;
            if (pass < 3) continue;
            double bias = l->params ? (double)*element(l->param[1], i) : 0;
            *element(want.y, k) = (st_real)(weight * hat + bias);
            *element(want.dx, k) = (st_real)((slope - (s[SLOPE] + hat * s[PRODUCT]) / s[COUNT]) / sigma);
            if (!l->params) continue;
            *element(want.dweight, i) += (st_real)(d * hat);
            *element(want.dbias, i) += (st_real)d;
        }
    free(sum);
    return want;
}

static ptrdiff_t channel_of(const st_layer *l, st_shape s, st_shape at)
{
    return at.n[1];
}

static ptrdiff_t channel_group_of(const st_layer *l, st_shape s, st_shape at)
{
    return at.n[0] * s.n[1] + at.n[1] / (s.n[1] / OPTIONS(st_groupnorm_options).groups);
}

static int first_axis(const st_layer *l, st_shape s)
{
    int normed = OPTIONS(st_layernorm_options).axes;
    return normed ? s.rank - normed : 1;
}

static ptrdiff_t leading_of(const st_layer *l, st_shape s, st_shape at)
{
    ptrdiff_t k = 0;
    for (int i = 0; i < first_axis(l, s); i++) k = k * s.n[i] + at.n[i];
    return k;
}

static ptrdiff_t trailing_of(const st_layer *l, st_shape s, st_shape at)
{
    ptrdiff_t k = 0;
    for (int i = first_axis(l, s); i < s.rank; i++) k = k * s.n[i] + at.n[i];
    return k;
}

static double roll_epsilon(dice *d)
{
    return chance(d, 30) ? 0 : chance(d, 50) ? 1e-2 : 0.5;
}

static st_layer *roll_batchnorm(dice *d, st_shape *x)
{
    *x = roll_any(d);
    x->n[0] += 2;
    return st_batchnorm(.epsilon = roll_epsilon(d), .no_affine = chance(d, 30));
}

static naive want_batchnorm(const st_layer *l, st_tensor x, st_tensor dy)
{
    return normalised(l, x, dy, OPTIONS(st_batchnorm_options).epsilon, channel_of, channel_of);
}

static st_layer *roll_layernorm(dice *d, st_shape *x)
{
    *x = roll_any(d);
    x->n[x->rank - 1] = roll_channels(d, 3, 40);
    return st_layernorm(.axes = (int)roll(d, 0, x->rank - 1), .epsilon = roll_epsilon(d),
                        .no_affine = chance(d, 30));
}

static naive want_layernorm(const st_layer *l, st_tensor x, st_tensor dy)
{
    return normalised(l, x, dy, OPTIONS(st_layernorm_options).epsilon, leading_of, trailing_of);
}

static st_layer *roll_rmsnorm(dice *d, st_shape *x)
{
    *x = roll_any(d);
    x->n[x->rank - 1] = roll_channels(d, 3, 40);
    return st_rmsnorm(.axes = (int)roll(d, 0, x->rank - 1), .epsilon = chance(d, 50) ? 1e-2 : 0.5,
                      .no_affine = chance(d, 30));
}

/* With r the root of a set's mean square, S the sum of dy w x: dx = dy w / r - x S / (n r³). */
static naive want_rmsnorm(const st_layer *l, st_tensor x, st_tensor dy)
{
    naive want = { .y = st_tensor_new(x.shape), .dx = st_tensor_new(x.shape) };
    if (l->params) want.dweight = st_tensor_new(l->param[0].shape);
    ptrdiff_t n = 1;
    for (int i = first_axis(l, x.shape); i < x.shape.rank; i++) n *= x.shape.n[i];
    for (ptrdiff_t first = 0; first < st_numel(x); first += n) {
        double square_sum = 0, sum = 0;
        for (ptrdiff_t i = 0; i < n; i++) {
            double at = (double)*element(x, first + i), w = l->params ? (double)*element(l->param[0], i) : 1;
            square_sum += at * at;
            sum += (double)*element(dy, first + i) * w * at;
        }
        double r = sqrt(square_sum / (double)n + OPTIONS(st_layernorm_options).epsilon);
        for (ptrdiff_t i = 0; i < n; i++) {
            double at = (double)*element(x, first + i), d = (double)*element(dy, first + i);
            double w = l->params ? (double)*element(l->param[0], i) : 1;
            *element(want.y, first + i) = (st_real)(at / r * w);
            *element(want.dx, first + i) = (st_real)(d * w / r - at * sum / ((double)n * r * r * r));
            if (l->params) *element(want.dweight, i) += (st_real)(d * at / r);
        }
    }
    return want;
}

static st_layer *roll_groupnorm(dice *d, st_shape *x)
{
    int groups = (int)roll(d, 1, 4);
    *x = roll_any(d);
    x->n[1] = groups * roll_channels(d, 3, 4);
    return st_groupnorm(.groups = groups, .epsilon = roll_epsilon(d), .no_affine = chance(d, 30));
}

static naive want_groupnorm(const st_layer *l, st_tensor x, st_tensor dy)
{
    return normalised(l, x, dy, OPTIONS(st_groupnorm_options).epsilon, channel_group_of, channel_of);
}

static st_layer *roll_softmax(dice *d, st_shape *x)
{
    *x = roll_any(d);
    int axis = (int)roll(d, 1, x->rank - 1);
    x->n[axis] = roll_channels(d, 2, 40);
    return st_softmax(.axis = axis);
}

static st_layer *roll_log_softmax(dice *d, st_shape *x)
{
    st_layer_free(roll_softmax(d, x));
    x->n[1] += 2;
    return st_log_softmax(.axis = chance(d, 50) ? 0 : 1);
}

/* Each element of a row has the probability p[k]; dx = p (dy - sum p dy), or dy - p sum dy of the
 * logarithm. */
static naive soft(st_tensor x, st_tensor dy, int axis, bool logarithm)
{
    naive want = { .y = st_tensor_new(x.shape), .dx = st_tensor_new(x.shape) };
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        st_shape at = index_of(x.shape, k), other = at;
        double here = (double)*element(x, k), d = (double)*element(dy, k), sum = 0, mean = 0, slopes = 0;
        for (other.n[axis] = 0; other.n[axis] < x.shape.n[axis]; other.n[axis]++) {
            double weight = exp((double)*st_at(x, other) - here), slope = (double)*st_at(dy, other);
            sum += weight, mean += weight * slope, slopes += slope;
        }
        *element(want.y, k) = (st_real)(logarithm ? -log(sum) : 1 / sum);
        *element(want.dx, k) = (st_real)(logarithm ? d - slopes / sum : (d - mean / sum) / sum);
    }
    return want;
}

static naive want_softmax(const st_layer *l, st_tensor x, st_tensor dy)
{
    int axis = *(const int *)l->options;
    return soft(x, dy, axis ? axis : 1, strcmp(l->type->name, "softmax") != 0);
}

/* ---- element by element ------------------------------------------------------------------------ */

static const naive_function *function_of(const char *name)
{
    const naive_function *f = naive_functions;
    while (strcmp(f->name, name) != 0) f++;
    return f;
}

static naive want_function(const st_layer *l, st_tensor x, st_tensor dy)
{
    char text[64];
    st_layer_describe(l, text, sizeof text);
    const naive_function *f =
        function_of(strcmp(text, "gelu(approximate=tanh)") ? l->type->name : "gelu_tanh");
    naive want = { .y = st_tensor_new(x.shape), .dx = st_tensor_new(x.shape) };
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        double at = (double)*element(x, k);
        *element(want.y, k) = (st_real)f->value(at);
        *element(want.dx, k) = (st_real)(f->slope(at) * (double)*element(dy, k));
    }
    return want;
}

#define FUNCTION(function)                                                                                   \
    static st_layer *roll_##function(dice *d, st_shape *x)                                                   \
    {                                                                                                        \
        *x = roll_any(d);                                                                                    \
        return function_of(#function)->make();                                                               \
    }
FUNCTION(relu)
FUNCTION(relu6)
FUNCTION(leaky_relu)
FUNCTION(elu)
FUNCTION(selu)
FUNCTION(gelu)
FUNCTION(gelu_tanh)
FUNCTION(hardtanh)
FUNCTION(silu)
FUNCTION(mish)
FUNCTION(sigmoid)
FUNCTION(tanh)
FUNCTION(softplus)
FUNCTION(softsign)
FUNCTION(hardsigmoid)
FUNCTION(hardswish)

static st_layer *roll_prelu(dice *d, st_shape *x)
{
    *x = roll_any(d);
    x->n[1] = roll_channels(d, 2, 6);
    return st_prelu(.num_parameters = chance(d, 50) ? (int)x->n[1] : 0);
}

static st_layer *roll_identity(dice *d, st_shape *x)
{
    *x = roll_any(d);
    return st_identity();
}

static st_layer *roll_flatten(dice *d, st_shape *x)
{
    *x = roll_any(d);
    return st_flatten();
}

static naive want_same(const st_layer *l, st_tensor x, st_tensor dy)
{
    ptrdiff_t size = 1;
    for (int i = 1; i < x.shape.rank; i++) size *= x.shape.n[i];
    st_shape s = x.shape;
    if (strcmp(l->type->name, "flatten") == 0) s = ST_SHAPE(s.n[0], size);
    if (strcmp(l->type->name, "unflatten") == 0) {
        st_unflatten_options o = OPTIONS(st_unflatten_options);
        s = o.size[0] ? ST_SHAPE(s.n[0], o.channels, o.size[0], o.size[1])
                      : ST_SHAPE(s.n[0], o.channels, size / o.channels);
    }
    naive want = { .y = st_tensor_new(s), .dx = st_tensor_new(x.shape) };
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        *element(want.y, k) = *element(x, k);
        *element(want.dx, k) = *element(dy, k);
    }
    return want;
}

/* At least 8 channels: all are dropped once in 2^16. */
static st_layer *roll_dropout(dice *d, st_shape *x)
{
    *x = roll_any(d);
    x->n[1] = roll_channels(d, 8, 12);
    return st_dropout(.p = 0.125 * (double)roll(d, 0, 2));
}

static st_layer *roll_channel_dropout(dice *d, st_shape *x)
{
    st_layer_free(roll_dropout(d, x));
    return st_channel_dropout(.p = 0.125 * (double)roll(d, 0, 2));
}

/* ---- borders, sizes -------------------------------------------------------------------------- */

static st_layer *roll_pad2d(dice *d, st_shape *x)
{
    st_pad2d_options o = { .mode = (st_pad_mode)roll(d, 0, 2) };
    *x = roll_images(d);
    for (int side = 0; side < 2; side++) {
        o.height[side] = (int)roll(d, 0, o.mode == ST_PAD_REFLECT ? x->n[2] - 1 : 7);
        o.width[side] = (int)roll(d, 0, o.mode == ST_PAD_REFLECT ? x->n[3] - 1 : 7);
    }
    return st_pad2d_new(o);
}

static st_layer *roll_border_of_a_value(dice *d, st_shape *x)
{
    *x = roll_images(d);
    return st_pad2d(.height = { 1, (int)roll(d, 0, 3) }, .value = (double)roll(d, 1, 3));
}

/* Bilinear weights are multiples of 1/8 where the scale is 1, 2 or 4. */
static st_layer *roll_upsample(dice *d, st_shape *x)
{
    st_upsample_options o = { .mode = chance(d, 50) ? ST_UPSAMPLE_BILINEAR : ST_UPSAMPLE_NEAREST };
    *x = roll_images(d);
    for (int axis = 0; axis < 2; axis++)
        o.scale[axis] = o.mode == ST_UPSAMPLE_BILINEAR ? 1 << roll(d, 0, 2) : (int)roll(d, 1, 5);
    return st_upsample_new(o);
}

static st_layer *roll_aligned(dice *d, st_shape *x)
{
    *x = roll_images(d);
    return st_upsample(.scale = { (int)roll(d, 1, 4), (int)roll(d, 1, 4) }, .mode = ST_UPSAMPLE_BILINEAR,
                       .align_corners = chance(d, 70));
}

/* Factors are quarters, so that nearest pixels and sizes are exact; sizes that no whole scale makes. */
static st_layer *roll_resized(dice *d, st_shape *x)
{
    st_upsample_options o = { .mode = chance(d, 60) ? ST_UPSAMPLE_BILINEAR : ST_UPSAMPLE_NEAREST };
    *x = roll_images(d);
    o.align_corners = o.mode == ST_UPSAMPLE_BILINEAR && chance(d, 30);
    if (chance(d, 50)) o.size[0] = (int)roll_side(d, 1, 9), o.size[1] = (int)roll_side(d, 1, 9);
    else {
        o.scale_factor = 0.25 * (double)roll(d, 2, 11);
        x->n[2]++, x->n[3]++; /* half of 2 is a pixel */
    }
    return st_upsample_new(o);
}

static st_layer *roll_unflatten(dice *d, st_shape *x)
{
    int channels = (int)roll(d, 1, 4), h = (int)roll(d, 1, 3), w = (int)roll(d, 1, 3);
    *x = chance(d, 50) ? ST_SHAPE(roll_batch(d), channels * h * w) : ST_SHAPE(roll_batch(d), h, channels * w);
    if (chance(d, 40)) return st_unflatten(.channels = channels);
    return st_unflatten(.channels = channels, .size = { h, w });
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A convolution that keeps the image's size. */
static st_layer *roll_same(dice *d, int channels)
{
    int kernel = 1 + 2 * (int)roll(d, 0, 1);
    return st_conv2d(.out_channels = channels, .kernel = { kernel, kernel },
                     .padding = { kernel / 2, kernel / 2 }, .no_bias = true);
}

static void accumulate(st_tensor a, st_tensor b)
{
    for (ptrdiff_t k = 0; k < st_numel(a); k++) *element(a, k) += *element(b, k);
}

static st_layer *roll_residual(dice *d, st_shape *x)
{
    *x = roll_images(d);
    if (chance(d, 50)) return st_residual(roll_same(d, (int)x->n[1]));
    int out = (int)roll_channels(d, 1, 4);
    st_layer *body = roll_same(d, out);
    return st_residual_projected(body, roll_same(d, out));
}

/* The gradients that come second are dbias. */
static naive want_residual(const st_layer *l, st_tensor x, st_tensor dy)
{
    naive want = naive_conv2d(l->child[0], x, dy), other = { 0 };
    st_tensor_free(want.dbias);
    want.dbias = (st_tensor){ 0 };
    if (l->children > 1) {
        other = naive_conv2d(l->child[1], x, dy);
        want.dbias = st_tensor_clone(other.dweight);
    }
    accumulate(want.y, l->children > 1 ? other.y : x);
    accumulate(want.dx, l->children > 1 ? other.dx : dy);
    naive_free(other);
    return want;
}

/* Two convolutions and, between them, x itself. */
static st_layer *roll_concat(dice *d, st_shape *x)
{
    *x = roll_images(d);
    st_layer *first = roll_same(d, (int)roll_channels(d, 1, 4)),
             *third = roll_same(d, (int)roll_channels(d, 1, 4));
    return st_concat(first, st_identity(), third);
}

static naive want_concat(const st_layer *l, st_tensor x, st_tensor dy)
{
    st_shape s = x.shape;
    ptrdiff_t one = l->child[0]->y.n[1], third = l->child[2]->y.n[1], last = one + s.n[1];
    st_tensor d0 = st_narrow(dy, 1, 0, one), d1 = st_narrow(dy, 1, one, s.n[1]),
              d2 = st_narrow(dy, 1, last, third);
    naive a = naive_conv2d(l->child[0], x, d0), c = naive_conv2d(l->child[2], x, d2);
    naive want = { st_tensor_new(ST_SHAPE(s.n[0], last + third, s.n[2], s.n[3])), st_tensor_clone(a.dx),
                   st_tensor_clone(a.dweight), st_tensor_clone(c.dweight) };
    accumulate(want.dx, d1);
    accumulate(want.dx, c.dx);
    accumulate(st_narrow(want.y, 1, 0, one), a.y);
    accumulate(st_narrow(want.y, 1, one, s.n[1]), x);
    accumulate(st_narrow(want.y, 1, last, third), c.y);
    naive_free(a), naive_free(c);
    return want;
}

/* A convolution of as many channels as its windows leave, or one; of all places, or one window of the whole
 * image. */
static st_layer *roll_factor(dice *d, st_shape x, int channels)
{
    const int out = chance(d, 30) ? 1 : channels;
    if (chance(d, 50)) return roll_same(d, out);
    return st_conv2d(.out_channels = out, .kernel = { (int)x.n[2], (int)x.n[3] }, .no_bias = true);
}

/* Two convolutions, and x itself between them if its channels fit. */
static st_layer *roll_multiply(dice *d, st_shape *x)
{
    *x = roll_images(d);
    const bool three = chance(d, 50);
    const int channels = three ? (int)x->n[1] : (int)roll_channels(d, 1, 3);
    st_layer *first = roll_factor(d, *x, channels), *last = roll_factor(d, *x, channels);
    return three ? st_multiply(first, st_identity(), last) : st_multiply(first, last);
}

/* An element of a factor that is repeated along its axes of 1. */
static st_real *repeated(st_tensor factor, st_shape at)
{
    for (int axis = 0; axis < at.rank; axis++)
        if (factor.shape.n[axis] == 1) at.n[axis] = 0;
    return st_at(factor, at);
}

static naive want_multiply(const st_layer *l, st_tensor x, st_tensor dy)
{
    const int last = l->children - 1;
    auto_tensor da = st_tensor_new(st_shape_with_batch(st_shape_without_batch(l->child[0]->y), x.shape.n[0])),
                db = st_tensor_new(
                    st_shape_with_batch(st_shape_without_batch(l->child[last]->y), x.shape.n[0]));
    st_shape s = l->y;
    s.n[0] = x.shape.n[0];
    naive a = naive_conv2d(l->child[0], x, da), b = naive_conv2d(l->child[last], x, db);
    naive want = { .y = st_tensor_new(s) };
    auto_tensor through = st_tensor_new(x.shape);
    for (ptrdiff_t k = 0; k < st_numel(want.y); k++) {
        const st_shape at = index_of(s, k);
        const st_real u = *repeated(a.y, at), v = *repeated(b.y, at), d = *element(dy, k),
                      between = last > 1 ? *st_at(x, at) : 1;
        *element(want.y, k) = u * v * between;
        *repeated(da, at) += v * between * d;
        *repeated(db, at) += u * between * d;
        if (last > 1) *st_at(through, at) += u * v * d;
    }
    naive_free(a), naive_free(b);
    a = naive_conv2d(l->child[0], x, da), b = naive_conv2d(l->child[last], x, db);
    accumulate(through, a.dx);
    accumulate(through, b.dx);
    want.dx = st_tensor_clone(through);
    want.dweight = st_tensor_clone(a.dweight);
    want.dbias = st_tensor_clone(b.dweight);
    naive_free(a), naive_free(b);
    return want;
}

/* Every kind of layer inside of others, batch normalisation in blocks. */
static st_layer *roll_nested(dice *d, st_shape *x)
{
    *x = ST_SHAPE(roll(d, 3, 19), 4, roll_side(d, 4, 4), roll_side(d, 4, 4));
    st_layer *body = st_sequence(roll_same(d, 4), st_batchnorm(), st_silu(), st_groupnorm(.groups = 1));
    st_layer *wide = st_concat(st_residual(body), st_layernorm(.axes = 2), st_softmax());
    return st_sequence(wide, st_channel_dropout(.p = 0.25), st_batchnorm(),
                       st_conv_transpose2d(.out_channels = 4, .kernel = { 2, 2 }, .stride = { 2, 2 }),
                       st_pad2d(.height = { 1, 2 }, .width = { 2, 1 }, .mode = ST_PAD_REFLECT),
                       st_lppool(.kernel = { 3, 3 }, .stride = { 2, 2 }),
                       st_upsample(.scale = { 2, 2 }, .mode = ST_UPSAMPLE_BILINEAR),
                       st_adaptive_avgpool({ 2, 5 }), st_flatten(), st_dense(.out_features = 5),
                       st_log_softmax());
}

/* A relu and a maximum, whichever comes first; a chain as of a small net. */
static st_layer *roll_chain(dice *d, st_shape *x)
{
    *x = ST_SHAPE(roll_batch(d), 2, roll_side(d, 8, 8), roll_side(d, 8, 12));
    return st_sequence(st_conv2d(.out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 }), st_relu(),
                       st_maxpool(.kernel = { 2, 2 }), st_sequence(roll_same(d, 3), st_tanh()),
                       st_dropout(.p = 0.25), st_flatten(), st_dense(.out_features = 5));
}

/* ---- the table ------------------------------------------------------------------------------- */

/* 3600 is a multiple of every product of two numbers up to 5, and of two up to 6 with which means are taken
 * of images up to 6x6. Norms divide by a deviation that may be as small as sqrt(epsilon) = 1/300. Activations
 * round to epsilon of 1, which is multiplied with x and dy. */
/* clang-format off */
const layer_case layer_cases[] = {
    /* name                  roll                    want                   most scale limit traits */
    { "conv2d",              roll_conv2d,            naive_conv2d,           4,  1,    0,    LINEAR },
    { "conv2d, one-sided",   roll_one_sided,         naive_conv2d,           4,  1,    0,    LINEAR },
    { "conv2d, 3x3, 5x5",    roll_tiles,             naive_conv2d,           3,  1,    0,    LINEAR },
    { "conv2d, depthwise",   roll_depthwise,         naive_conv2d,           4,  1,    0,    LINEAR },
    { "conv2d, small maps",  roll_small_maps,        naive_conv2d,           4,  1,    0,    LINEAR },
    { "conv2d, large",       roll_many_weights,      naive_conv2d,           4,  1,    0,    LINEAR | LARGE },
    { "conv_transpose2d",    roll_conv_transpose2d,  naive_conv_transpose2d, 4,  1,    0,    LINEAR },
    { "conv_transpose2d, many channels", roll_many_transposed, naive_conv_transpose2d, 4, 1, 0, LINEAR },
    { "dense",               roll_dense,             naive_dense,            4,  1,    0,    LINEAR },
    { "dense, [N, T, F]",    roll_dense_of_rows,     naive_dense,            4,  1,    0,    LINEAR },
    { "dense, large",        roll_many_features,     naive_dense,            4,  1,    0,    LINEAR | LARGE },
    { "maxpool",             roll_maxpool,           naive_maxpool,          2,  1,    0,    EXTREMES|OFTEN },
    { "maxpool, stride 2",   roll_maxpool_usual,     naive_maxpool,          2,  1,    0,    EXTREMES|OFTEN },
    { "avgpool",             roll_avgpool,           naive_avgpool,          4,  3600, 0,    LINEAR | OFTEN },
    { "pool",                roll_pool,              want_pool,              3,  1,    0,    0 },
    { "pool, trained",       roll_trained,           want_trained,           3,  1,    0,    0 },
    { "pool, drawn",         roll_drawn,             want_drawn,             3,  1,    0,    0 },
    { "lppool",              roll_lppool,            want_lppool,            3,  0,    100,  0 },
    { "adaptive_avgpool",    roll_adaptive_avgpool,  naive_adaptive_avgpool, 4,  3600, 0,    LINEAR },
    { "batchnorm",           roll_batchnorm,         want_batchnorm,         4,  0,    5000, WHOLE },
    { "layernorm",           roll_layernorm,         want_layernorm,         4,  0,    5000, 0 },
    { "rmsnorm",             roll_rmsnorm,           want_rmsnorm,           4,  0,    5000, 0 },
    { "groupnorm",           roll_groupnorm,         want_groupnorm,         4,  0,    5000, 0 },
    { "softmax",             roll_softmax,           want_softmax,           4,  0,    100,  0 },
    { "log_softmax",         roll_log_softmax,       want_softmax,           4,  0,    100,  0 },
    { "relu",                roll_relu,              want_function,          4,  1,    0,    0 },
    { "relu6",               roll_relu6,             want_function,          8,  1,    0,    0 },
    { "hardtanh",            roll_hardtanh,          want_function,          8,  1,    0,    0 },
    { "prelu",               roll_prelu,             naive_prelu,            4,  1,    0,    0 },
    { "leaky_relu",          roll_leaky_relu,        want_function,          4,  1,    0,    0 },
    { "elu",                 roll_elu,               want_function,          4,  0,    8,    0 },
    { "selu",                roll_selu,              want_function,          4,  0,    8,    0 },
    { "gelu",                roll_gelu,              want_function,          4,  0,    8,    0 },
    { "gelu, tanh",          roll_gelu_tanh,         want_function,          4,  0,    8,    0 },
    { "silu",                roll_silu,              want_function,          4,  0,    8,    0 },
    { "mish",                roll_mish,              want_function,          4,  0,    8,    0 },
    { "sigmoid",             roll_sigmoid,           want_function,          4,  0,    8,    0 },
    { "tanh",                roll_tanh,              want_function,          4,  0,    8,    0 },
    { "softplus",            roll_softplus,          want_function,          4,  0,    8,    0 },
    { "softsign",            roll_softsign,          want_function,          4,  0,    8,    0 },
    { "hardsigmoid",         roll_hardsigmoid,       want_function,          6,  0,    8,    0 },
    { "hardswish",           roll_hardswish,         want_function,          6,  0,    8,    0 },
    { "identity",            roll_identity,          want_same,              9,  1,    0,    LINEAR },
    { "flatten",             roll_flatten,           want_same,              9,  1,    0,    LINEAR },
    { "dropout",             roll_dropout,           NULL,                   4,  0,    0,    LINEAR },
    { "channel_dropout",     roll_channel_dropout,   NULL,                   4,  0,    0,    LINEAR },
    { "pad2d",               roll_pad2d,             naive_pad2d,            4,  1,    0,    LINEAR },
    { "pad2d, of a value",   roll_border_of_a_value, naive_pad2d,            4,  1,    0,    0 },
    { "upsample",            roll_upsample,          naive_upsample,         4,  1,    0,    LINEAR },
    { "upsample, aligned",   roll_aligned,           naive_upsample,         4,  0,    16,   LINEAR },
    { "upsample, resized",   roll_resized,           naive_upsample,         4,  0,    16,   LINEAR },
    { "unflatten",           roll_unflatten,         want_same,              9,  1,    0,    LINEAR },
    { "residual",            roll_residual,          want_residual,          4,  1,    0,    LINEAR },
    { "concat",              roll_concat,            want_concat,            4,  1,    0,    LINEAR },
    { "multiply",            roll_multiply,          want_multiply,          1,  1,    0,    0 },
    { "sequence",            roll_chain,             NULL,                   4,  0,    0,    0 },
    { "sequence, nested",    roll_nested,            NULL,                   4,  0,    0,    WHOLE },
    POOLING_CASES
    { 0 },
};
/* clang-format on */
