/* suite_routes.c: two routes to the same: a layer, and the views, sums or other layers that it should equal.
 *
 * On small integers both routes are exact and compared for equality; where they divide or take roots, a limit
 * stands with its reason. */
#include "tests/conformance/case.h"

#include <math.h>
#include <stdlib.h>

/* ---- a layer and its results --------------------------------------------------------------------- */

typedef struct passes {
    layer *l;
    tensor y, dx;
} passes;

/* Builds l for x and runs it; dy null: forward only. Parameters are `from`, unless that is null. */
static passes run_with(layer *l, tensor x, tensor dy, tensor from)
{
    passes p = { .l = l, .dx = filled(x.shape, NAN) };
    if (!case_build(l, x.shape)) return p;
    p.y = filled(l->y, NAN);
    case_soil(l, x.shape);
    if (!tensor_is_null(from))
        tensor_copy(layer_parameters(l), tensor_reshape(from, SHAPE(tensor_count(from))));
    layer_forward(l, x, p.y);
    if (!tensor_is_null(dy)) layer_backward(l, x, p.y, dy, p.dx);
    return p;
}

static passes run(layer *l, tensor x, tensor dy)
{
    return run_with(l, x, dy, (tensor){ 0 });
}

static void end(passes p)
{
    tensor_free(p.y), tensor_free(p.dx);
    layer_free(p.l);
}

static void expect_passes(passes a, passes b, double limit)
{
    expect_near("y", a.y, b.y, limit);
    expect_near("dx", a.dx, b.dx, limit);
}

static tensor flat(tensor x)
{
    return tensor_reshape(x, SHAPE(tensor_count(x)));
}

static tensor roll_integers(dice *d, shape s)
{
    tensor x = view_of(d, (view_kind)roll(d, 0, VIEW_KINDS - 1), s);
    roll_elements(d, x, -4, 4);
    return x;
}

static tensor roll_normal(dice *d, shape s)
{
    tensor x = view_of(d, (view_kind)roll(d, 0, VIEW_MIXED), s);
    fill_normal(x, (uint64_t)roll(d, 0, 1 << 20));
    return x;
}

static tensor plain_integers(dice *d, shape s)
{
    return roll_tensor(d, s, -4, 4);
}

/* ---- conv2d's backward pass by dilating, padding and rotating views ---------------------------------- */

typedef struct geometry {
    int kernel[2], stride[2], padding[2], dilation[2];
} geometry;

static geometry roll_geometry(dice *d)
{
    geometry g;
    for (int axis = 0; axis < 2; axis++) {
        g.kernel[axis] = (int)roll(d, 1, 4);
        g.stride[axis] = (int)roll(d, 1, 4);
        g.dilation[axis] = (int)roll(d, 1, 3);
        g.padding[axis] = (int)roll(d, 0, g.dilation[axis] * (g.kernel[axis] - 1));
    }
    return g;
}

static void about_case(const char *what, int number, geometry g, shape s)
{
    case_begin("%s %d kernel %dx%d stride %dx%d padding %dx%d dilation %dx%d of %s", what, number,
               g.kernel[0], g.kernel[1], g.stride[0], g.stride[1], g.padding[0], g.padding[1], g.dilation[0],
               g.dilation[1], shape_text(s).text);
}

#define GEOMETRY(g)                                                                                          \
    .kernel = { (g).kernel[0], (g).kernel[1] }, .stride = { (g).stride[0], (g).stride[1] },                  \
    .padding = { (g).padding[0], (g).padding[1] }, .dilation = { (g).dilation[0], (g).dilation[1] }

static ptrdiff_t reach(geometry g, int axis)
{
    return g.dilation[axis] * (g.kernel[axis] - 1) + 1;
}

/* dx of dy: dy with stride - 1 zeros between its elements and reach - 1 around, as large as the padded input
 * needs; correlated with the weights, their channels exchanged and both spatial axes flipped. */
static tensor by_rotation(geometry g, int groups, tensor weight, tensor dy, shape x)
{
    ptrdiff_t n = x.n[0], out = weight.shape.n[0] / groups, in = weight.shape.n[1];
    ptrdiff_t high[2], wide[2];
    for (int axis = 0; axis < 2; axis++) {
        high[axis] = x.n[2 + axis] + 2 * g.padding[axis];
        wide[axis] = high[axis] + reach(g, axis) - 1;
    }
    tensor room = tensor_new(SHAPE(n, dy.shape.n[1], wide[0], wide[1])), places = room;
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t length = (dy.shape.n[2 + axis] - 1) * g.stride[axis] + 1;
        places = tensor_step(tensor_narrow(places, 2 + axis, reach(g, axis) - 1, length), 2 + axis,
                             g.stride[axis]);
    }
    tensor_copy(places, dy);
    tensor windows = tensor_window(room, 2, g.kernel[0], 1, g.dilation[0]);
    windows = tensor_window(windows, 3, g.kernel[1], 1, g.dilation[1]); /* [N, O, H', W', KH, KW] */
    tensor rotated = tensor_flip(tensor_flip(weight, 2), 3);
    tensor padded = tensor_new(SHAPE(n, in * groups, high[0], high[1]));
    tensor product = tensor_new(SHAPE(n, out, high[0], high[1], g.kernel[0], g.kernel[1]));
    for (int group = 0; group < groups; group++)
        for (ptrdiff_t c = 0; c < in; c++) {
            tensor seen = tensor_narrow(windows, 1, group * out, out);
            tensor w = tensor_select(tensor_narrow(rotated, 0, group * out, out), 1, c); /* [O/g, KH, KW] */
            w = tensor_reshape(tensor_clone(w), SHAPE(1, out, 1, 1, g.kernel[0], g.kernel[1]));
            tensor_copy(product, seen);
            tensor_multiply(product, tensor_expand(w, product.shape));
            tensor_sum(tensor_select(padded, 1, group * in + c), product, AXES(1, 4, 5));
            tensor_free(w);
        }
    tensor dx =
        tensor_clone(tensor_narrow(tensor_narrow(padded, 2, g.padding[0], x.n[2]), 3, g.padding[1], x.n[3]));
    tensor_free(room), tensor_free(padded), tensor_free(product);
    return dx;
}

static void rotation(dice *d, int number)
{
    geometry g = roll_geometry(d);
    int groups = (int)roll(d, 1, 2);
    shape s = SHAPE(roll(d, 1, 9), groups * roll(d, 1, 2), reach(g, 0) + roll(d, 0, 4),
                    reach(g, 1) + roll(d, 0, 4));
    conv2d o = { GEOMETRY(g), .groups = groups, .out_channels = groups * (int)roll(d, 1, 2),
                 .no_bias = true };
    about_case("conv2d backward by rotation", number, g, s);
    tensor w = plain_integers(d, SHAPE(o.out_channels, s.n[1] / groups, g.kernel[0], g.kernel[1]));
    tensor x = roll_integers(d, s), dy = { 0 };
    layer *l = layer_conv2d(o);
    shape y;
    if (layer_plan(l, s, &y) == 0) {
        dy = plain_integers(d, y);
        passes p = run_with(l, x, dy, w);
        tensor dx = by_rotation(g, groups, w, dy, s);
        expect_near("dx", p.dx, dx, 0);
        tensor_free(dx);
        end(p);
    }
    case_end();
    tensor_free(w), tensor_free(x), tensor_free(dy);
}

/* ---- a transposed convolution is a convolution backwards ------------------------------------------- */

static void transposition(dice *d, int number)
{
    geometry g = roll_geometry(d);
    int groups = (int)roll(d, 1, 3), in = groups * (int)roll(d, 1, 2), out = groups * (int)roll(d, 1, 2);
    conv_transpose2d o = { GEOMETRY(g), .groups = groups, .out_channels = out, .no_bias = true };
    shape s = SHAPE(roll(d, 1, 9), in, 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        s.n[2 + axis] = (2 * g.padding[axis] + g.stride[axis] - 1) / g.stride[axis] + roll(d, 1, 3);
        o.output_padding[axis] = (int)roll(d, 0, g.stride[axis] - 1);
    }
    about_case("conv_transpose2d by conv2d", number, g, s);
    tensor w = plain_integers(d, SHAPE(in, out / groups, g.kernel[0], g.kernel[1]));
    tensor x = plain_integers(d, s), dy = { 0 };
    layer *l = layer_conv_transpose2d(o);
    shape y;
    if (layer_plan(l, s, &y) == 0) {
        dy = plain_integers(d, y);
        passes p = run_with(l, x, dy, w);
        conv2d same = { GEOMETRY(g), .groups = groups, .out_channels = in, .no_bias = true };
        passes q = run_with(layer_conv2d(same), dy, x, w); /* whose input is dy, and whose dy is x */
        expect_near("y", p.y, q.dx, 0);
        expect_near("dx", p.dx, q.y, 0);
        expect_near("weight", layer_gradients(p.l), layer_gradients(q.l), 0);
        end(p), end(q);
    }
    case_end();
    tensor_free(w), tensor_free(x), tensor_free(dy);
}

/* ---- pooling by windows, by split axes, by scatter-add ----------------------------------------------- */

/* Windows of x [N, C, H, W] without padding: [N, C, OH, OW, KH, KW]. */
static tensor windows_of(tensor x, geometry g)
{
    tensor w = tensor_window(x, 2, g.kernel[0], g.stride[0], g.dilation[0]); /* [N, C, OH, W, KH] */
    return tensor_window(w, 3, g.kernel[1], g.stride[1], g.dilation[1]);
}

/* Places in [N, C, H, W] of each window's first maximum, four coordinates each. */
static ptrdiff_t *maxima(tensor windows, geometry g)
{
    ptrdiff_t count = tensor_count(windows) / (g.kernel[0] * g.kernel[1]);
    ptrdiff_t *first = malloc((size_t)count * sizeof *first),
              *index = malloc(4 * (size_t)count * sizeof *index);
    shape y = { 4, { windows.shape.n[0], windows.shape.n[1], windows.shape.n[2], windows.shape.n[3] } };
    if (!first || !index) abort();
    tensor_argmax(first, windows, AXES(4, 5));
    for (ptrdiff_t k = 0; k < count; k++) {
        shape at = index_of(y, k);
        index[4 * k] = at.n[0];
        index[4 * k + 1] = at.n[1];
        index[4 * k + 2] = at.n[2] * g.stride[0] + first[k] / g.kernel[1] * g.dilation[0];
        index[4 * k + 3] = at.n[3] * g.stride[1] + first[k] % g.kernel[1] * g.dilation[1];
    }
    free(first);
    return index;
}

static real greatest(const real *window, ptrdiff_t n, const void *context)
{
    (void)context;
    real most = window[0];
    for (ptrdiff_t i = 1; i < n; i++) most = window[i] > most ? window[i] : most;
    return most;
}

static void greatest_adjoint(const real *window, ptrdiff_t n, real y, real dy, real *dwindow,
                             const void *context)
{
    (void)context;
    bool given = false;
    for (ptrdiff_t i = 0; i < n; i++) {
        dwindow[i] = !given && window[i] == y ? dy : 0;
        given = given || window[i] == y;
    }
}

static void max_pooling(dice *d, int number)
{
    static const pool_function function = { "greatest", greatest, greatest_adjoint, NULL };
    geometry g = roll_geometry(d);
    g.padding[0] = g.padding[1] = 0;
    shape s = SHAPE(roll(d, 1, 9), roll(d, 1, 3), reach(g, 0) + roll(d, 0, 5), reach(g, 1) + roll(d, 0, 5));
    about_case("maxpool by windows and scatter-add, and by pool", number, g, s);
    tensor x = roll_integers(d, s), windows = windows_of(x, g);
    shape y = { 4, { s.n[0], s.n[1], windows.shape.n[2], windows.shape.n[3] } };
    tensor dy = plain_integers(d, y), most = tensor_new(y), dx = tensor_new(s);
    tensor_max(most, windows, AXES(4, 5));
    ptrdiff_t *index = maxima(windows, g);
    tensor_scatter_add(dx, index, dy);
    passes p = run(layer_maxpool((maxpool){ GEOMETRY(g) }), x, dy);
    passes q = run(layer_pool((pool){ &function, GEOMETRY(g) }), x, dy);
    expect_near("y", p.y, most, 0);
    expect_near("dx", p.dx, dx, 0);
    expect_passes(q, p, 0);
    case_end();
    end(p), end(q);
    free(index);
    tensor_free(x), tensor_free(dy), tensor_free(most), tensor_free(dx);
}

/* The sum of windows, divided once: the layer multiplies by a rounded reciprocal, so a unit or two in the
 * last place of at most 4, and of up to 16 such in dx. */
static void mean_pooling(dice *d, int number)
{
    const double limit = 200 * (double)REAL_EPSILON;
    geometry g = roll_geometry(d);
    g.padding[0] = g.padding[1] = 0;
    shape s = SHAPE(roll(d, 1, 9), roll(d, 1, 3), reach(g, 0) + roll(d, 0, 5), reach(g, 1) + roll(d, 0, 5));
    about_case("avgpool by windows, by lppool and by conv2d", number, g, s);
    tensor x = roll_integers(d, s), windows = windows_of(x, g);
    shape y = { 4, { s.n[0], s.n[1], windows.shape.n[2], windows.shape.n[3] } };
    tensor dy = plain_integers(d, y), mean = tensor_new(y), dx = tensor_new(s);
    real area = (real)(g.kernel[0] * g.kernel[1]);
    tensor_mean(mean, windows, AXES(4, 5));
    tensor spread = tensor_reshape(dy, SHAPE(y.n[0], y.n[1], y.n[2], y.n[3], 1, 1));
    tensor_add(windows_of(dx, g), 1 / area, tensor_expand(spread, windows.shape));
    passes p = run(layer_avgpool((avgpool){ GEOMETRY(g) }), x, dy);
    expect_near("y", p.y, mean, limit);
    expect_near("dx", p.dx, dx, limit);

    conv2d o = { GEOMETRY(g), .out_channels = (int)s.n[1], .groups = (int)s.n[1], .no_bias = true };
    tensor w = filled(SHAPE(s.n[1], 1, g.kernel[0], g.kernel[1]), 1 / (double)area);
    passes q = run_with(layer_conv2d(o), x, dy, w);
    expect_passes(q, p, limit);

    for (ptrdiff_t k = 0; k < tensor_count(x); k++) *element(x, k) = (real)(1 + k % 4); /* positive */
    passes sums = run(layer_lppool((lppool){ GEOMETRY(g), .p = 1 }), x, dy);
    passes means = run(layer_avgpool((avgpool){ GEOMETRY(g) }), x, dy);
    tensor_scale(means.y, area), tensor_scale(means.dx, area);
    expect_passes(sums, means, 16 * limit);
    case_end();
    end(p), end(q), end(sums), end(means);
    tensor_free(x), tensor_free(dy), tensor_free(mean), tensor_free(dx), tensor_free(w);
}

/* [N, C, H, W] with each axis split into blocks: reduce the inner ones. Powers of two, so that means are
 * exact. */
static void blocks(dice *d, int number)
{
    geometry g = { { 1 << roll(d, 0, 2), 1 << roll(d, 0, 2) }, { 0 }, { 0 }, { 1, 1 } };
    ptrdiff_t high = roll(d, 1, 4), wide = roll(d, 1, 4);
    shape s = SHAPE(roll(d, 1, 9), roll(d, 1, 3), high * g.kernel[0], wide * g.kernel[1]);
    shape y = SHAPE(s.n[0], s.n[1], high, wide);
    about_case("pooling by split axes, and adaptively", number, g, s);
    tensor x = roll_integers(d, s), most = tensor_new(y), mean = tensor_new(y), dy = plain_integers(d, y);
    tensor split = tensor_split(tensor_split(x, 3, g.kernel[1]), 2, g.kernel[0]); /* [N, C, OH, KH, OW, KW] */
    tensor_max(most, split, AXES(3, 5));
    tensor_mean(mean, split, AXES(3, 5));
    passes p = run(layer_maxpool((maxpool){ GEOMETRY(g) }), x, dy);
    passes q = run(layer_avgpool((avgpool){ GEOMETRY(g) }), x, dy);
    passes r = run(layer_adaptive_avgpool((adaptive_avgpool){ { (int)high, (int)wide } }), x, dy);
    expect_near("maximum", p.y, most, 0);
    expect_near("mean", q.y, mean, 0);
    expect_passes(r, q, 0);
    case_end();
    end(p), end(q), end(r);
    tensor_free(x), tensor_free(most), tensor_free(mean), tensor_free(dy);
}

/* A kernel of 0 is the image. A mean's division against a rounded reciprocal: units in the last place of at
 * most 4. */
static void whole_images(dice *d, int number)
{
    const double limit = 16 * (double)REAL_EPSILON;
    shape s = SHAPE(roll(d, 1, 19), roll(d, 1, 4), roll(d, 1, 9), roll(d, 1, 9)),
          y = SHAPE(s.n[0], s.n[1], 1, 1);
    case_begin("global pooling by reduction %d of %s", number, shape_text(s).text);
    tensor x = roll_integers(d, s), reduced = tensor_new(SHAPE(s.n[0], s.n[1])), dy = plain_integers(d, y);
    passes p = run(layer_maxpool((maxpool){ 0 }), x, dy);
    passes q = run(layer_avgpool((avgpool){ 0 }), x, dy);
    passes r = run(layer_adaptive_avgpool((adaptive_avgpool){ 0 }), x, dy);
    tensor_max(reduced, x, AXES(2, 3));
    expect_near("maximum", p.y, tensor_reshape(reduced, y), 0);
    tensor_mean(reduced, x, AXES(2, 3));
    expect_near("mean", q.y, tensor_reshape(reduced, y), limit);
    tensor_scale(dy, 1 / (real)(s.n[2] * s.n[3]));
    tensor dx = tensor_clone(tensor_expand(dy, s));
    expect_near("dx", q.dx, dx, limit);
    expect_passes(r, q, limit);
    case_end();
    end(p), end(q), end(r);
    tensor_free(x), tensor_free(reduced), tensor_free(dy), tensor_free(dx);
}

/* ---- normalisation --------------------------------------------------------------------------------- */

/* One group is the image; a group a channel is its own last two axes, and in a batch of one image all that
 * batchnorm sees. The sums are the same, but may be divided at another place. */
static void normalisations(dice *d, int number)
{
    const double limit = 200 * (double)REAL_EPSILON;
    shape s = SHAPE(roll(d, 1, 12), roll(d, 2, 5), roll(d, 2, 5), roll(d, 2, 5));
    case_begin("normalisations of the same sets %d of %s", number, shape_text(s).text);
    tensor x = roll_normal(d, s), dy = roll_tensor(d, s, -4, 4);
    int channels = (int)s.n[1];
    passes p = run(layer_groupnorm((groupnorm){ .groups = 1, .no_affine = true }), x, dy);
    passes q = run(layer_layernorm((layernorm){ .no_affine = true }), x, dy);
    expect_passes(p, q, limit);
    passes each = run(layer_groupnorm((groupnorm){ .groups = channels, .no_affine = true }), x, dy);
    passes last = run(layer_layernorm((layernorm){ .axes = 2, .no_affine = true }), x, dy);
    expect_passes(each, last, limit);
    tensor one = tensor_narrow(x, 0, 0, 1), done = tensor_narrow(dy, 0, 0, 1);
    passes batch = run(layer_batchnorm((batchnorm){ .no_affine = true }), one, done);
    passes alone = run(layer_groupnorm((groupnorm){ .groups = channels, .no_affine = true }), one, done);
    expect_passes(batch, alone, limit);

    /* Batches as the rows of one image: [N, C, H, W] -> [1, C, N, H, W]. */
    shape whole = SHAPE(1, s.n[1], s.n[0], s.n[2], s.n[3]);
    tensor turned = tensor_new(whole), dturned = tensor_new(whole);
    tensor_copy(tensor_select(turned, 0, 0), tensor_transpose(x, 0, 1));
    tensor_copy(tensor_select(dturned, 0, 0), tensor_transpose(dy, 0, 1));
    passes over = run(layer_batchnorm((batchnorm){ .no_affine = true }), x, dy);
    passes row = run(layer_groupnorm((groupnorm){ .groups = channels, .no_affine = true }), turned, dturned);
    expect_near("y over the batch", over.y, tensor_transpose(tensor_select(row.y, 0, 0), 0, 1), limit);
    expect_near("dx over the batch", over.dx, tensor_transpose(tensor_select(row.dx, 0, 0), 0, 1), limit);
    case_end();
    end(p), end(q), end(each), end(last), end(batch), end(alone), end(over), end(row);
    tensor_free(x), tensor_free(dy), tensor_free(turned), tensor_free(dturned);
}

static real exponential(real x, void *context)
{
    (void)context;
    return (real)exp((double)x);
}

/* Along any axis, against its exponential and against the axis moved to the end. */
static void softmaxes(dice *d, int number)
{
    const double limit = 100 * (double)REAL_EPSILON; /* of numbers up to 1; of logarithms, about 10 */
    shape s = SHAPE(roll(d, 1, 12), roll(d, 1, 7), roll(d, 1, 5), roll(d, 1, 5));
    int axis = (int)roll(d, 1, 3);
    case_begin("softmax by its logarithm %d axis %d of %s", number, axis, shape_text(s).text);
    tensor x = roll_normal(d, s), dy = roll_tensor(d, s, -4, 4), moved = tensor_transpose(x, axis, 3);
    tensor dmoved = tensor_clone(tensor_transpose(dy, axis, 3));
    passes p = run(layer_softmax(axis), x, dy), q = run(layer_log_softmax(axis), x, dy);
    passes end_axis = run(layer_softmax(3), moved, dmoved);
    expect_near("y along the last axis", tensor_transpose(end_axis.y, axis, 3), p.y, limit);
    expect_near("dx along the last axis", tensor_transpose(end_axis.dx, axis, 3), p.dx, 10 * limit);
    tensor_map(q.y, exponential, NULL, q.y);
    expect_near("y", p.y, q.y, limit);
    case_end();
    end(p), end(q), end(end_axis);
    tensor_free(x), tensor_free(dy), tensor_free(dmoved);
}

/* ---- layers by other layers -------------------------------------------------------------------------- */

/* A border, then a convolution; a convolution with padding. */
static void borders(dice *d, int number)
{
    geometry g = roll_geometry(d), bare = g;
    bare.padding[0] = bare.padding[1] = 0;
    shape s = SHAPE(roll(d, 1, 9), roll(d, 1, 3), reach(g, 0) + roll(d, 0, 3), reach(g, 1) + roll(d, 0, 3));
    int out = (int)roll(d, 1, 3);
    about_case("conv2d's padding by pad2d", number, g, s);
    tensor w = plain_integers(d, SHAPE(out * (s.n[1] * g.kernel[0] * g.kernel[1] + 1))),
           x = roll_integers(d, s);
    layer *direct = layer_conv2d((conv2d){ GEOMETRY(g), .out_channels = out });
    layer *apart = layer_sequence(layer_pad2d((pad2d){ .height = { g.padding[0], g.padding[0] },
                                                       .width = { g.padding[1], g.padding[1] } }),
                                  layer_conv2d((conv2d){ GEOMETRY(bare), .out_channels = out }));
    shape y;
    tensor dy = { 0 };
    if (layer_plan(direct, s, &y) == 0) dy = plain_integers(d, y);
    passes p = run_with(direct, x, dy, w), q = run_with(apart, x, dy, w);
    expect_passes(p, q, 0);
    expect_near("gradients", layer_gradients(p.l), layer_gradients(q.l), 0);
    case_end();
    end(p), end(q);
    tensor_free(w), tensor_free(x), tensor_free(dy);
}

/* A pixel repeated is a transposed convolution with ones; a dense layer, a convolution with one window. */
static void disguises(dice *d, int number)
{
    int high = (int)roll(d, 1, 3), wide = (int)roll(d, 1, 3), out = (int)roll(d, 1, 5);
    shape s = SHAPE(roll(d, 1, 9), roll(d, 1, 3), roll(d, 1, 4), roll(d, 1, 4));
    case_begin("upsample by conv_transpose2d, dense by conv2d %d scale %dx%d of %s", number, high, wide,
               shape_text(s).text);
    tensor x = roll_integers(d, s),
           dy = plain_integers(d, SHAPE(s.n[0], s.n[1], s.n[2] * high, s.n[3] * wide));
    tensor ones = filled(SHAPE(s.n[1] * high * wide), 1);
    conv_transpose2d o = { .out_channels = (int)s.n[1],
                           .kernel = { high, wide },
                           .stride = { high, wide },
                           .groups = (int)s.n[1],
                           .no_bias = true };
    passes p = run(layer_upsample((upsample){ .scale = { high, wide } }), x, dy);
    passes q = run_with(layer_conv_transpose2d(o), x, dy, ones);
    expect_passes(p, q, 0);

    ptrdiff_t features = s.n[1] * s.n[2] * s.n[3];
    tensor w = plain_integers(d, SHAPE(out * (features + 1))), dz = plain_integers(d, SHAPE(s.n[0], out));
    tensor dimage = tensor_reshape(dz, SHAPE(s.n[0], out, 1, 1));
    passes rows =
        run_with(layer_sequence(layer_flatten(), layer_dense((dense){ .out_features = out })), x, dz, w);
    passes window = run_with(
        layer_conv2d((conv2d){ .out_channels = out, .kernel = { (int)s.n[2], (int)s.n[3] } }), x, dimage, w);
    expect_near("dense", flat(rows.y), flat(window.y), 0);
    expect_near("dense dx", rows.dx, window.dx, 0);
    expect_near("dense gradients", layer_gradients(rows.l), layer_gradients(window.l), 0);
    case_end();
    end(p), end(q), end(rows), end(window);
    tensor_free(x), tensor_free(dy), tensor_free(ones), tensor_free(w), tensor_free(dz);
}

/* ---- blocks by hand ---------------------------------------------------------------------------------- */

static layer *branch(int out, int kernel)
{
    return layer_conv2d(
        (conv2d){ .out_channels = out, .kernel = { kernel, kernel }, .padding = { kernel / 2, kernel / 2 } });
}

/* Channels of a tensor as a tensor of their own. */
static tensor part_of(tensor x, ptrdiff_t first, ptrdiff_t count)
{
    return tensor_clone(tensor_narrow(x, 1, first, count));
}

static void by_hand(dice *d, int number)
{
    shape s = SHAPE(chance(d, 30) ? 19 : roll(d, 1, 6), roll(d, 1, 3), roll(d, 1, 6), roll(d, 1, 6));
    int a = (int)roll(d, 1, 4), b = (int)roll(d, 1, 4), in = (int)s.n[1];
    case_begin("residual and concat by hand %d of %s", number, shape_text(s).text);
    tensor x = roll_integers(d, s), dy = plain_integers(d, SHAPE(s.n[0], a, s.n[2], s.n[3]));
    ptrdiff_t body = a * (9 * in + 1), across = a * (in + 1), other = b * (in + 1);
    tensor w = plain_integers(d, SHAPE(body + across));
    passes block = run_with(layer_residual_projected(branch(a, 3), branch(a, 1)), x, dy, w);
    passes p = run_with(branch(a, 3), x, dy, tensor_narrow(w, 0, 0, body));
    passes q = run_with(branch(a, 1), x, dy, tensor_narrow(w, 0, body, across));
    tensor gradients = layer_gradients(block.l);
    expect_near("body gradients", tensor_narrow(gradients, 0, 0, body), layer_gradients(p.l), 0);
    expect_near("projection gradients", tensor_narrow(gradients, 0, body, across), layer_gradients(q.l), 0);
    tensor_add(p.y, 1, q.y), tensor_add(p.dx, 1, q.dx);
    expect_passes(block, p, 0);
    end(block), end(p), end(q);

    tensor v = plain_integers(d, SHAPE(body + other)),
           dz = plain_integers(d, SHAPE(s.n[0], a + b, s.n[2], s.n[3]));
    tensor first = part_of(dz, 0, a), second = part_of(dz, a, b);
    block = run_with(layer_concat(branch(a, 3), branch(b, 1)), x, dz, v);
    p = run_with(branch(a, 3), x, first, tensor_narrow(v, 0, 0, body));
    q = run_with(branch(b, 1), x, second, tensor_narrow(v, 0, body, other));
    gradients = layer_gradients(block.l);
    expect_near("first gradients", tensor_narrow(gradients, 0, 0, body), layer_gradients(p.l), 0);
    expect_near("second gradients", tensor_narrow(gradients, 0, body, other), layer_gradients(q.l), 0);
    expect_near("first y", tensor_narrow(block.y, 1, 0, a), p.y, 0);
    expect_near("second y", tensor_narrow(block.y, 1, a, b), q.y, 0);
    tensor_add(p.dx, 1, q.dx);
    expect_near("concat dx", block.dx, p.dx, 0);
    end(block), end(p), end(q);

    /* The same in a plain residual: body(x) + x. */
    tensor u = plain_integers(d, SHAPE(in * (9 * in + 1))), dx = plain_integers(d, s);
    block = run_with(layer_residual(branch(in, 3)), x, dx, u);
    p = run_with(branch(in, 3), x, dx, u);
    tensor_add(p.y, 1, x), tensor_add(p.dx, 1, dx);
    expect_passes(block, p, 0);
    case_end();
    end(block), end(p);
    tensor_free(x), tensor_free(dy), tensor_free(w), tensor_free(v), tensor_free(dz), tensor_free(u);
    tensor_free(first), tensor_free(second), tensor_free(dx);
}

int main(void)
{
    static const struct {
        void (*run)(dice *d, int number);
        int all, fast;
    } kinds[] = {
        { rotation, 250, 15 },     { transposition, 250, 15 }, { max_pooling, 200, 10 },
        { mean_pooling, 200, 10 }, { blocks, 150, 10 },        { whole_images, 100, 10 },
        { normalisations, 80, 5 }, { softmaxes, 80, 5 },       { borders, 150, 10 },
        { disguises, 120, 10 },    { by_hand, 120, 10 },
    };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        dice d = { { 900 + k } };
        for (int i = 0; i < case_count(kinds[k].all, kinds[k].fast); i++) kinds[k].run(&d, i + 1);
    }
    return case_status();
}
