/* test_seeds.c: the questions that the framework began with, and the numbers that answer them.
 *
 * 1 pooling by any function of a window; 2 two routes to one sum; 3 a convolution's backward pass for any
 * stride and padding; 4 block pooling without a loop; 5 views that one can reason about. */
#include "tests/layers/layer_claims.h"
#include "tests/support.h"

#include "layers/layers.h"

#include <math.h>

/* Builds the layer for x and returns y. */
static st_tensor run(st_layer *l, st_tensor x)
{
    assert_built(l, x.shape);
    return forward(l, x);
}

/* ---- 1. pooling by a function of one window ---------------------------------------------------- */

static st_real largest(const st_window *w)
{
    st_real best = w->x[0];
    for (ptrdiff_t i = 1; i < w->n; i++)
        if (w->x[i] > best) best = w->x[i];
    return best;
}

static void to_the_first_largest(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    for (ptrdiff_t i = 0; i < w->n; i++) {
        dx[i] = w->x[i] == y ? dy : 0;
        if (w->x[i] == y) dy = 0;
    }
}

static const st_layer_type by_largest =
    ST_POOLING("largest", .value = largest, .adjoint = to_the_first_largest);
static const st_layer_type by_largest_numerically = ST_POOLING("largest", .value = largest);
/* The same pooling as its own layer, and as a layer made of a function. */
static st_layer *max_by_layer(st_maxpool_options o)
{
    return st_maxpool_new(o);
}

static st_layer *max_by_function(st_maxpool_options o)
{
    return st_pool(&by_largest, .kernel = { o.kernel[0], o.kernel[1] },
                   .stride = { o.stride[0], o.stride[1] }, .padding = { o.padding[0], o.padding[1] },
                   .pad_value = o.pad_value);
}

static st_layer *(*const max_routes[])(st_maxpool_options) = { max_by_layer, max_by_function };

/* clang-format off */
static const double A[] = {
    7, 4, 9, 6, 6, 7,  4, 9, 3, 4, 9, 5,  5, 3, 9, 7, 3, 7,
    3, 6, 5, 9, 6, 7,  7, 8, 3, 3, 8, 3,  6, 8, 3, 5, 3, 4,
    9, 9, 7, 9, 4, 6,  6, 3, 6, 3, 4, 3,  3, 9, 8, 7, 7, 7,
    5, 4, 6, 3, 8, 7,  3, 8, 7, 6, 4, 6,  6, 6, 4, 6, 6, 7,
};
static const double B[] = {
    6, 4, 6, 9,  4, 8, 4, 8,  4, 5, 6, 5,  5, 8, 6, 6,
    5, 3, 7, 8,  6, 4, 4, 7,  6, 9, 9, 7,  7, 8, 7, 6,
};

TEST(max_pooling_gives_the_first_maximum_the_gradient)
{
    for (int route = 0; route < 2; route++) {
        auto_tensor x = tensor_of_list(ST_SHAPE(1, 2, 6, 6), 72, A);
        auto_tensor b = tensor_of_list(ST_SHAPE(1, 2, 4, 4), 32, B);
        auto_layer *l = max_routes[route]((st_maxpool_options){ .kernel = { 3, 3 }, .stride = { 1, 1 } });
        auto_tensor y = run(l, x);
        assert_elements(y,
            9, 9, 9, 9,  9, 9, 9, 9,  9, 9, 9, 9,  8, 9, 9, 9,
            9, 9, 9, 9,  9, 9, 8, 8,  9, 9, 8, 8,  8, 8, 8, 8);
        auto_tensor dy = st_tensor_clone(y);
        st_add(dy, -1, b);
        auto_tensor dx = backward(l, x, y, dy);
        assert_elements(dx,
            0, 0, 11, 0, 0, 0,  0, 6, 0, 0, 6, 0,  0, 0, 12, 0, 0, 0,
            0, 0, 0, 11, 0, 0,  0, 3, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0,
            4, 6, 0, 3, 0, 0,  0, 0, 0, 0, 0, 0,  0, 11, 3, 0, 0, 0,
            0, 0, 0, 0, 5, 0,  0, 1, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0);
    }
}

TEST(max_pooling_may_see_zeros_in_the_padding)
{
    for (int route = 0; route < 2; route++) {
        auto_tensor x = tensor_of_list(ST_SHAPE(1, 2, 6, 6), 72, A);
        auto_layer *l = max_routes[route]((st_maxpool_options){
            .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 }, .pad_value = ST_PAD_ZERO });
        auto_tensor y = run(l, x), dy = st_tensor_clone(y);
        assert_elements(y,
            7, 9, 9, 9, 9, 9, 7,  5, 9, 9, 9, 9, 9, 7,  7, 8, 8, 9, 9, 8, 7,
            9, 9, 9, 9, 9, 6, 6,  6, 9, 9, 8, 8, 8, 7,  6, 8, 8, 7, 8, 8, 7);
        st_fill(dy, 1);
        auto_tensor dx = backward(l, x, y, dy);
        assert_elements(dx,
            1, 0, 2, 0, 0, 1,  0, 3, 0, 0, 4, 0,  1, 0, 1, 0, 0, 1,
            0, 0, 0, 2, 0, 1,  1, 2, 0, 0, 1, 0,  0, 0, 0, 0, 0, 0,
            2, 1, 0, 2, 0, 2,  1, 0, 0, 0, 0, 0,  0, 2, 1, 0, 0, 1,
            0, 0, 0, 0, 4, 1,  0, 2, 1, 0, 0, 0,  1, 0, 0, 0, 0, 0);
    }
}
/* clang-format on */

/* Numbers that are all different, a whole apart, and never nearer than a half to the padding's zeros. */
static st_tensor shuffled(uint64_t seed, st_shape s)
{
    ptrdiff_t order[200];
    st_tensor x = st_tensor_new(s);
    assert_true(st_numel(x) <= 200);
    st_random_permutation(order, st_numel(x), (st_random_key){ seed, 0 });
    for (ptrdiff_t k = 0; k < st_numel(x); k++) st_data(x)[k] = (st_real)order[k] - (st_real)20.5;
    return x;
}

/* Oracle: the adjoint by hand. No numeric step changes which number is the largest, so what is left is
 * rounding. */
TEST(without_an_adjoint_the_derivative_is_numeric)
{
    const st_pool_options o = { .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 } };
    for (uint64_t seed = 0; seed < 20; seed++) {
        dice d = { { 18 + seed } };
        auto_tensor x = shuffled(seed, ST_SHAPE(2, 2, 6, 5));
        auto_layer *l = st_pool_new(&by_largest_numerically, o), *reference = st_pool_new(&by_largest, o);
        auto_tensor y = run(l, x), expected_y = run(reference, x), dy = roll_tensor(&d, y.shape, -9, 9);
        auto_tensor dx = backward(l, x, y, dy), expected_dx = backward(reference, x, y, dy);
        assert_same(y, expected_y);
        assert_near(dx, expected_dx, 100 * (double)ST_REAL_EPSILON);
    }
}

/* ---- 2. two routes to the same sum ------------------------------------------------------------- */

/* Windows over the last two axes of x [C, H, W]: [C, OH, OW, KH, KW]. */
static st_tensor windows_of(st_tensor x, const ptrdiff_t kernel[2], const ptrdiff_t stride[2])
{
    return st_unfold(st_unfold(x, 1, kernel[0], stride[0], 1), 2, kernel[1], stride[1], 1);
}

static st_tensor inside(st_tensor padded, const ptrdiff_t padding[2])
{
    st_shape s = padded.shape;
    st_tensor rows = st_narrow(padded, 1, padding[0], s.n[1] - 2 * padding[0]);
    return st_narrow(rows, 2, padding[1], s.n[2] - 2 * padding[1]);
}

/* Oracle: a loop over all elements of all windows, that leaves out what falls into the padding. */
TEST(scattering_by_coordinates_is_adding_into_windows)
{
    dice d = { { 20 } };
    for (int i = 0; i < 300; i++) {
        ptrdiff_t kernel[2], stride[2], padding[2], size[2];
        for (int axis = 0; axis < 2; axis++) {
            kernel[axis] = roll(&d, 1, 4);
            stride[axis] = roll(&d, 1, 3);
            padding[axis] = roll(&d, 0, 2);
            size[axis] = kernel[axis] + roll(&d, 0, 6);
        }
        st_shape s = ST_SHAPE(roll(&d, 1, 3), size[0] + 2 * padding[0], size[1] + 2 * padding[1]);
        auto_tensor by_view = st_tensor_new(s), by_index = st_tensor_new(s),
                    expected = st_tensor_new(ST_SHAPE(s.n[0], size[0], size[1]));
        st_tensor view = windows_of(by_view, kernel, stride);
        auto_tensor values = roll_tensor(&d, view.shape, -9, 9);

        static ptrdiff_t coordinates[3 * 11 * 11 * 16][3];
        for (ptrdiff_t e = 0; e < st_numel(values); e++) {
            st_shape at = index_of(values.shape, e); /* c, oh, ow, kh, kw */
            ptrdiff_t h = at.n[1] * stride[0] + at.n[3], w = at.n[2] * stride[1] + at.n[4];
            coordinates[e][0] = at.n[0];
            coordinates[e][1] = h;
            coordinates[e][2] = w;
            h -= padding[0];
            w -= padding[1];
            if (h < 0 || w < 0 || h >= size[0] || w >= size[1]) continue;
            *st_at(expected, ST_INDEX(at.n[0], h, w)) += *st_at(values, at);
        }
        st_scatter_add(by_index, coordinates[0], values);
        st_add(view, 1, values);
        about("case %d: windows %s of %s", i, st_shape_text(view.shape).text, st_shape_text(s).text);
        assert_same(by_index, by_view);
        assert_same(inside(by_view, padding), expected);
    }
}

/* ---- 3. a convolution's backward pass ---------------------------------------------------------- */

/* X [N, H, W, C], padded alike on both sides, W [KH, KW, C, O], Z [N, OH, OW, O]. */
typedef struct convolution {
    ptrdiff_t n, h, w, c, kh, kw, o, oh, ow, stride[2], padding[2];
} convolution;

static st_shape padded_shape(const convolution *v)
{
    return ST_SHAPE(v->n, v->h + 2 * v->padding[0], v->w + 2 * v->padding[1], v->c);
}

static convolution roll_convolution(dice *d)
{
    convolution v = {
        .n = roll(d, 1, 3), .c = roll(d, 1, 4), .kh = roll(d, 1, 3), .kw = roll(d, 1, 3), .o = roll(d, 1, 4)
    };
    for (int axis = 0; axis < 2; axis++) {
        v.stride[axis] = roll(d, 1, 3);
        v.padding[axis] = roll(d, 0, 2);
    }
    v.h = v.kh + roll(d, 0, 4);
    v.w = v.kw + roll(d, 0, 4);
    v.oh = (v.h + 2 * v.padding[0] - v.kh) / v.stride[0] + 1;
    v.ow = (v.w + 2 * v.padding[1] - v.kw) / v.stride[1] + 1;
    return v;
}

/* A contiguous copy, seen as a matrix; the caller frees it. */
static st_tensor matrix_of(st_tensor x, ptrdiff_t rows)
{
    st_tensor copy = st_tensor_clone(x);
    return st_reshape(copy, ST_SHAPE(rows, st_numel(x) / rows));
}

/* Windows of x [N, H, W, C] that begin an output: [N, OH, OW, KH, KW, C]. */
static st_tensor conv_windows(const convolution *v, st_tensor x)
{
    st_tensor rows = st_unfold(x, 1, v->kh, v->stride[0], 1);    /* [N, ?, W, C, KH] */
    st_tensor both = st_unfold(rows, 2, v->kw, v->stride[1], 1); /* [N, ?, ?, C, KH, KW] */
    both = st_narrow(st_narrow(both, 1, 0, v->oh), 2, 0, v->ow);
    return st_permute(both, ST_AXES(0, 1, 2, 4, 5, 3));
}

static st_tensor interior_of(const convolution *v, st_tensor padded)
{
    return st_narrow(st_narrow(padded, 1, v->padding[0], v->h), 2, v->padding[1], v->w);
}

/* dW [KH, KW, C, O] = columnsᵀ dZ. */
static st_tensor weights_by_columns(const convolution *v, st_tensor x, st_tensor dz)
{
    auto_tensor padded = st_tensor_new(padded_shape(v));
    st_tensor dw = st_tensor_new(ST_SHAPE(v->kh, v->kw, v->c, v->o));
    st_copy(interior_of(v, padded), x);
    ptrdiff_t places = v->n * v->oh * v->ow;
    auto_tensor columns = matrix_of(conv_windows(v, padded), places); /* [N OH OW, KH KW C] */
    st_gemm(st_reshape(dw, ST_SHAPE(v->kh * v->kw * v->c, v->o)), 1, st_transpose(columns, 0, 1),
            st_reshape(dz, ST_SHAPE(places, v->o)), 0);
    return dw;
}

/* First route to the padded dX: dcolumns = dZ Wᵀ, added into the windows. */
static st_tensor data_by_columns(const convolution *v, st_tensor w, st_tensor dz)
{
    st_tensor dx = st_tensor_new(padded_shape(v));
    auto_tensor columns = st_tensor_new(ST_SHAPE(v->n, v->oh, v->ow, v->kh, v->kw, v->c));
    ptrdiff_t places = v->n * v->oh * v->ow, area = v->kh * v->kw * v->c;
    st_gemm(st_reshape(columns, ST_SHAPE(places, area)), 1, st_reshape(dz, ST_SHAPE(places, v->o)),
            st_transpose(st_reshape(w, ST_SHAPE(area, v->o)), 0, 1), 0);
    st_add(conv_windows(v, dx), 1, columns);
    return dx;
}

/* Second route: dZ with stride - 1 zeros between its elements and f - 1 and more around, correlated at
 * stride 1 with W rotated by 180°. */
static st_tensor data_by_rotation(const convolution *v, st_tensor w, st_tensor dz)
{
    st_shape s = padded_shape(v);
    auto_tensor dilated = st_tensor_new(ST_SHAPE(v->n, s.n[1] + v->kh - 1, s.n[2] + v->kw - 1, v->o));
    st_tensor rows = st_narrow(dilated, 1, v->kh - 1, (v->oh - 1) * v->stride[0] + 1);
    st_tensor both = st_narrow(rows, 2, v->kw - 1, (v->ow - 1) * v->stride[1] + 1);
    st_copy(st_step(st_step(both, 1, v->stride[0]), 2, v->stride[1]), dz);

    st_tensor rotated = st_permute(st_flip(st_flip(w, 0), 1), ST_AXES(0, 1, 3, 2)); /* [KH, KW, O, C] */
    auto_tensor weight = matrix_of(rotated, v->kh * v->kw * v->o);
    const convolution unit = { .kh = v->kh, .kw = v->kw, .oh = s.n[1], .ow = s.n[2], .stride = { 1, 1 } };
    auto_tensor columns = matrix_of(conv_windows(&unit, dilated), v->n * s.n[1] * s.n[2]);
    st_tensor dx = st_tensor_new(s);
    st_gemm(st_reshape(dx, ST_SHAPE(v->n * s.n[1] * s.n[2], v->c)), 1, columns, weight, 0);
    return dx;
}

/* The layer takes NCHW: an NHWC batch is a permuted view, and so are the weights. */
typedef struct conv_result {
    st_tensor dx, dw; /* as NHWC and [KH, KW, C, O] views */
} conv_result;

static conv_result by_layer(const convolution *v, st_tensor x, st_tensor w, st_tensor dz)
{
    st_conv2d_options o = { (int)v->o, .kernel = { (int)v->kh, (int)v->kw },
                            .stride = { (int)v->stride[0], (int)v->stride[1] },
                            .padding = { (int)v->padding[0], (int)v->padding[1] }, .no_bias = true };
    keep_zero(o.padding);
    auto_layer *l = st_conv2d_new(o);
    st_shape images = ST_SHAPE(v->n, v->c, v->h, v->w);
    if (!l || st_layer_build(l, images, 1)) fail_msg("%s", st_error());
    st_copy(l->param[0], st_permute(w, ST_AXES(3, 2, 0, 1))); /* [O, C, KH, KW] */
    st_tensor nchw = st_permute(x, ST_AXES(0, 3, 1, 2));
    auto_tensor y = run(l, nchw), dy = st_tensor_clone(st_permute(dz, ST_AXES(0, 3, 1, 2)));
    st_tensor dx = backward(l, nchw, y, dy);
    return (conv_result){ st_permute(dx, ST_AXES(0, 2, 3, 1)),
                          st_permute(st_tensor_clone(l->grad[0]), ST_AXES(2, 3, 1, 0)) };
}

/* Oracle: the layer, which test_cases.c holds against its definition, and two routes to dX that share
 * nothing. */
TEST(a_convolution_goes_backward_for_any_stride_and_padding)
{
    dice d = { { 21 } };
    for (int i = 0; i < 200; i++) {
        convolution v = roll_convolution(&d);
        auto_tensor x = roll_tensor(&d, ST_SHAPE(v.n, v.h, v.w, v.c), -4, 4),
                    w = roll_tensor(&d, ST_SHAPE(v.kh, v.kw, v.c, v.o), -4, 4);
        auto_tensor dz = roll_tensor(&d, ST_SHAPE(v.n, v.oh, v.ow, v.o), -4, 4);
        auto_tensor dw_columns = weights_by_columns(&v, x, dz), first = data_by_columns(&v, w, dz);
        auto_tensor second = data_by_rotation(&v, w, dz);
        conv_result r = by_layer(&v, x, w, dz);
        about("case %d: X %s, W %s, stride %tdx%td, padding %tdx%td", i, st_shape_text(x.shape).text,
              st_shape_text(w.shape).text, v.stride[0], v.stride[1], v.padding[0], v.padding[1]);
        assert_same(dw_columns, r.dw);
        assert_same(interior_of(&v, first), r.dx);
        assert_same(second, first);
        st_tensor_free(r.dx), st_tensor_free(r.dw);
    }
}

/* Each of 8 output channels of each window that sees an element adds 2. */
static const double golden_rows[8][8] = {
    { 16, 32, 32, 32, 16, 0, 0, 0 }, { 32, 64, 64, 64, 32, 0, 0, 0 }, { 32, 64, 64, 64, 32, 0, 0, 0 },
    { 32, 64, 64, 64, 32, 0, 0, 0 }, { 16, 32, 32, 32, 16, 0, 0, 0 },
};

/* Every image and channel of dX [N, H, W, C], H and W up to 8. */
static void assert_golden(st_tensor dx)
{
    for (ptrdiff_t k = 0; k < st_numel(dx); k++) {
        st_shape at = index_of(dx.shape, k);
        assert_true(*element(dx, k) == (st_real)golden_rows[at.n[1]][at.n[2]]);
    }
}

TEST(ones_and_twos_give_16_32_and_64)
{
    auto_tensor w = st_tensor_new(ST_SHAPE(2, 2, 3, 8)), dz = st_tensor_new(ST_SHAPE(10, 4, 4, 8)),
                wide = st_tensor_new(ST_SHAPE(10, 7, 7, 8));
    st_fill(w, 1);
    st_fill(dz, 2);
    st_copy(st_narrow(st_narrow(wide, 1, 0, 4), 2, 0, 4), dz);
    convolution v = {
        .n = 10, .h = 8, .w = 8, .c = 3, .kh = 2, .kw = 2, .o = 8, .oh = 4, .ow = 4, .stride = { 1, 1 }
    };
    auto_tensor first = data_by_columns(&v, w, dz), second = data_by_rotation(&v, w, dz);
    assert_shape(first, 10, 8, 8, 3);
    assert_golden(first);
    assert_same(second, first);

    auto_tensor x = st_tensor_new(ST_SHAPE(10, 8, 8, 3));
    st_tensor corner = st_narrow(st_narrow(x, 1, 0, 5), 2, 0, 5);
    convolution all = v, part = v; /* the layer: all windows of 8x8, and 4x4 windows of 5x5 */
    all.oh = all.ow = 7;
    part.h = part.w = 5;
    conv_result a = by_layer(&all, x, w, wide), b = by_layer(&part, corner, w, dz);
    assert_golden(a.dx);
    assert_golden(b.dx);
    assert_shape(b.dx, 10, 5, 5, 3);
    st_tensor_free(a.dx), st_tensor_free(a.dw), st_tensor_free(b.dx), st_tensor_free(b.dw);
}

/* ---- 4. block pooling without a loop ----------------------------------------------------------- */

/* Both give [H/bh, W/bw, bh, bw]. */

static st_tensor blocks_by_splitting(st_tensor x, ptrdiff_t bh, ptrdiff_t bw)
{
    st_tensor split = st_split_axis(st_split_axis(x, 1, bw), 0, bh); /* [H/bh, bh, W/bw, bw] */
    return st_permute(split, ST_AXES(0, 2, 1, 3));
}

static st_tensor blocks_by_windows(st_tensor x, ptrdiff_t bh, ptrdiff_t bw)
{
    return st_unfold(st_unfold(x, 0, bh, bh, 1), 1, bw, bw, 1);
}

typedef st_tensor blocking(st_tensor x, ptrdiff_t bh, ptrdiff_t bw);
static blocking *const blockings[] = { blocks_by_splitting, blocks_by_windows };

/* clang-format off */
static const double K[] = {
    19, 32, 28, 25, 31, 49, 17, 18,   4, 19, 50, 57, 29, 42,  5,  8,
    44, 16, 54, 13, 15,  1, 58, 50,  18, 36, 29, 12, 39, 45, 47, 44,
    34, 31, 17, 28, 35, 62, 30, 54,  38, 50, 14, 50, 25, 24, 36,  4,
    58, 27, 20, 34, 55, 22, 63, 59,  61, 30, 37, 24, 23, 34,  5, 16,
};
#define K_MEANS  18.5, 40, 37.75, 12,  28.5, 27, 25, 49.75,  38.25, 27.25, 36.5, 31,  44, 28.75, 33.5, 35.75
#define K_MAXIMA 32, 57, 49, 18,  44, 54, 45, 58,  50, 50, 62, 54,  61, 37, 55, 63
/* clang-format on */

TEST(blocks_are_pooled_without_a_loop)
{
    auto_tensor k = tensor_of_list(ST_SHAPE(8, 8), 64, K), y = st_tensor_new(ST_SHAPE(4, 4)),
                z = st_tensor_new(ST_SHAPE(3, 2));
    auto_tensor m = tensor_of(ST_SHAPE(6, 4), 40, 24, 61, 60, 8, 11, 27, 5, 17, 41, 7, 41, 44, 5, 47, 13, 31,
                              53, 40, 36, 31, 23, 39, 26);
    for (int i = 0; i < 2; i++) {
        st_mean(y, blockings[i](k, 2, 2), ST_AXES(2, 3));
        assert_elements(y, K_MEANS);
        st_max(y, blockings[i](k, 2, 2), ST_AXES(2, 3));
        assert_elements(y, K_MAXIMA);
        st_max(z, blockings[i](m, 2, 2), ST_AXES(2, 3));
        assert_elements(z, 40, 61, 44, 47, 53, 40);
    }
    st_mean(y, st_split_axis(st_split_axis(k, 1, 2), 0, 2), ST_AXES(1, 3)); /* reduce the 2s where they are */
    assert_elements(y, K_MEANS);
}

/* Both ways to block are one view: the same strides, in elements. */
TEST(blocks_are_strides_that_are_checked)
{
    auto_tensor k = tensor_of_list(ST_SHAPE(8, 8), 64, K);
    const ptrdiff_t elements[4] = { 16, 2, 8, 1 };
    for (int i = 0; i < 2; i++) {
        st_tensor blocks = blockings[i](k, 2, 2);
        assert_shape(blocks, 4, 4, 2, 2);
        assert_memory_equal(blocks.stride, elements, sizeof elements);
        assert_int_equal(blocks.offset, 0);
    }
    st_tensor by_hand = st_as_strided(k, ST_SHAPE(4, 4, 2, 2), elements, 0);
    assert_same(by_hand, blocks_by_windows(k, 2, 2));
    for (ptrdiff_t bytes = 2; bytes <= 8; bytes *= 2) { /* strides in bytes of some other type */
        const ptrdiff_t wrong[4] = { 16 * bytes, 2 * bytes, 8 * bytes, bytes };
        expect_failure(st_as_strided(k, ST_SHAPE(4, 4, 2, 2), wrong, 0),
                       "[4, 4, 2, 2] from offset 0 reaches elements 0 to %td of a storage of 64", 63 * bytes);
    }
    expect_failure(st_as_strided(k, ST_SHAPE(4, 4, 2, 2), elements, 1),
                   "reaches elements 1 to 64 of a storage of 64");
}

/* ---- 5. views that one can reason about -------------------------------------------------------- */

static void assert_same_places(st_tensor a, st_tensor b)
{
    assert_string_equal(st_shape_text(a.shape).text, st_shape_text(b.shape).text);
    for (ptrdiff_t k = 0; k < st_numel(a); k++) assert_ptr_equal(element(a, k), element(b, k));
}

TEST(a_view_of_a_view_is_an_offset_and_strides)
{
    auto_tensor x = tensor_of(ST_SHAPE(6), 1, 2, 3, 4, 5, 6);
    st_tensor y = st_reshape(x, ST_SHAPE(2, 3));
    st_tensor z = st_step(st_flip(y, 0), 1, -2);
    assert_shape(z, 2, 2);
    assert_elements(z, 6, 4, 3, 1);
    assert_int_equal(z.offset, x.offset + 5);
    assert_int_equal(z.stride[0], -3);
    assert_int_equal(z.stride[1], -2);

    st_tensor w = st_unfold(x, 0, 3, 1, 1);
    assert_shape(w, 4, 3);
    assert_int_equal(w.stride[0], 1);
    assert_int_equal(w.stride[1], 1);
    assert_same_places(st_step(w, 0, 3), y);

    *st_at(y, ST_INDEX(0, 2)) = 30;
    assert_elements(w, 1, 2, 30, 2, 30, 4, 30, 4, 5, 4, 5, 6);
    assert_elements(z, 6, 4, 30, 1);
}

TEST(the_same_place_is_not_the_same_value)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(6)), copy = st_tensor_clone(x);
    st_tensor y = st_reshape(x, ST_SHAPE(2, 3)), w = st_unfold(x, 0, 3, 1, 1);
    assert_true(st_shares_storage(y, w) && st_overlaps(y, w));
    assert_false(st_shares_storage(y, copy) || st_overlaps(y, copy));
    assert_true(st_shares_storage(st_select(y, 0, 0), st_select(y, 0, 1)));
    assert_false(st_overlaps(st_select(y, 0, 0), st_select(y, 0, 1)));
    assert_ptr_equal(st_at(w, ST_INDEX(0, 2)), st_at(w, ST_INDEX(2, 0)));
    assert_ptr_equal(st_at(w, ST_INDEX(0, 2)), st_at(y, ST_INDEX(0, 2)));
    assert_ptr_not_equal(st_at(w, ST_INDEX(0, 0)), st_at(w, ST_INDEX(1, 1)));
    assert_true(*st_at(w, ST_INDEX(0, 0)) == *st_at(w, ST_INDEX(1, 1)));
}
