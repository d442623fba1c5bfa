/* suite_exact.c: layers against loops written from their definitions, with an error of exactly 0.
 *
 * Inputs, parameters and gradients are small integers, whose sums and products floats hold exactly. Where a
 * definition divides, divisors are powers of two, or both sides are compared as the integers that they are
 * quotients of. */
#include "tests/conformance/case.h"
#include "tests/layers/naive.h"

#include <math.h>

/* ---- one configuration ----------------------------------------------------------------------- */

/* A layer on its input; it may be built for a larger batch than it is given. */
typedef struct subject {
    layer *l;
    tensor x, dy;
    bool built;
} subject;

static subject begin(dice *d, layer *l, shape s, shape y, ptrdiff_t most)
{
    view_kind kind = (view_kind)roll(d, 0, VIEW_KINDS - 1);
    subject t = { .l = l, .x = view_of(d, kind, s), .dy = roll_tensor(d, y, -3, 3) };
    roll_elements(d, t.x, -most, most);
    case_layer(l, s, view_names[kind]);
    shape planned = s;
    if (chance(d, 20)) planned.n[0] += roll(d, 1, 9);
    t.built = case_build(l, planned);
    y.n[0] = planned.n[0];
    if (t.built && !shape_equal(l->y, y)) {
        case_fail("plans %s, expected %s", shape_text(l->y).text, shape_text(y).text);
        t.built = false;
    }
    if (t.built) roll_elements(d, layer_parameters(l), -3, 3);
    return t;
}

static tensor bias_of(const layer *l)
{
    return l->params > 1 ? l->param[1] : (tensor){ 0 };
}

static void expect(const char *what, tensor x, tensor expected, double scale)
{
    if (scale == 1) expect_near(what, x, expected, 0);
    else expect_multiple(what, x, expected, scale);
}

/* y and dx are overwritten whatever they held, gradients are added to what is there, and x, y and dy stay.
 * The gradients wanted are in the order of the tree's parameters. */
static void compare(subject t, naive want, double scale)
{
    tensor y = filled(want.y.shape, NAN), dx = filled(t.x.shape, NAN), gradients = layer_gradients(t.l);
    tensor x_before = tensor_clone(t.x), dy_before = tensor_clone(t.dy), before = tensor_clone(gradients);
    const tensor wanted[] = { want.dweight, want.dbias };
    case_soil(t.l, t.x.shape);
    layer_spoil_scratch(t.l);
    layer_forward(t.l, t.x, y);
    tensor y_before = tensor_clone(y);
    for (ptrdiff_t k = 0; k < tensor_count(gradients); k++)
        tensor_data(gradients)[k] = tensor_data(before)[k] = (real)(k % 5 - 2);
    for (ptrdiff_t k = 0, i = 0; i < 2; i++)
        for (ptrdiff_t e = 0; e < tensor_count(wanted[i]) && k < tensor_count(before); e++)
            tensor_data(before)[k++] += *element(wanted[i], e);
    layer_spoil_scratch(t.l);
    layer_backward(t.l, t.x, y, t.dy, dx);
    expect("y", y, want.y, scale);
    expect("dx", dx, want.dx, scale);
    expect("gradient", gradients, before, 1);
    expect("x afterwards", t.x, x_before, 1);
    expect("y afterwards", y, y_before, 1);
    expect("dy afterwards", t.dy, dy_before, 1);
    tensor_free(y), tensor_free(dx), tensor_free(x_before), tensor_free(dy_before), tensor_free(before);
    tensor_free(y_before);
}

static void end(subject t)
{
    case_end();
    layer_free(t.l);
    tensor_free(t.x), tensor_free(t.dy);
}

static void finish(subject t, naive want, double scale)
{
    compare(t, want, scale);
    naive_free(want);
    end(t);
}

/* One image, several, and more than two chunks of 8. */
static ptrdiff_t roll_batch(dice *d)
{
    return chance(d, 20) ? roll(d, 17, 19) : chance(d, 30) ? 1 : roll(d, 2, 6);
}

/* ---- convolution ----------------------------------------------------------------------------- */

static void conv2d_case(dice *d)
{
    conv2d o = { .groups = (int)roll(d, 0, 3), .no_bias = chance(d, 30) };
    int groups = o.groups ? o.groups : 1;
    o.out_channels = groups * (int)roll(d, 1, 3);
    shape s = SHAPE(roll_batch(d), groups * roll(d, 1, 3), 0, 0);
    bool point = chance(d, 10); /* 1x1, whose image is its own matrix */
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = point ? 1 : (int)roll(d, 1, 4);
        o.stride[axis] = point ? 1 : (int)roll(d, axis && o.stride[0] ? 1 : 0, o.kernel[axis] + 2);
        o.dilation[axis] = (int)roll(d, axis && o.dilation[0] ? 1 : 0, 3);
        int reach = (o.dilation[axis] ? o.dilation[axis] : 1) * (o.kernel[axis] - 1) + 1;
        o.padding[axis] = chance(d, 40) ? 0 : (int)roll(d, 0, reach);
        int least = reach - 2 * o.padding[axis];
        s.n[2 + axis] = (least > 1 ? least : 1) + roll(d, 0, 6);
    }
    subject t = begin(d, layer_conv2d(o), s, naive_conv2d_shape(o, s), 4);
    if (!t.built) end(t);
    else finish(t, naive_conv2d(o, t.x, t.l->param[0], bias_of(t.l), t.dy), 1);
}

static void conv_transpose2d_case(dice *d)
{
    conv_transpose2d o = { .groups = (int)roll(d, 0, 3), .no_bias = chance(d, 30) };
    int groups = o.groups ? o.groups : 1;
    o.out_channels = groups * (int)roll(d, 1, 3);
    shape s = SHAPE(roll_batch(d), groups * roll(d, 1, 3), roll(d, 1, 5), roll(d, 1, 5));
    for (int axis = 0; axis < 2; axis++) {
        o.kernel[axis] = (int)roll(d, 1, 4);
        o.stride[axis] = (int)roll(d, axis && o.stride[0] ? 1 : 0, 4);
        o.dilation[axis] = (int)roll(d, axis && o.dilation[0] ? 1 : 0, 3);
        int stride = o.stride[axis] ? o.stride[axis] : 1, dilation = o.dilation[axis] ? o.dilation[axis] : 1;
        o.output_padding[axis] =
            chance(d, 50) ? 0 : (int)roll(d, 0, (stride > dilation ? stride : dilation) - 1);
        ptrdiff_t whole =
            (s.n[2 + axis] - 1) * stride + dilation * (o.kernel[axis] - 1) + 1 + o.output_padding[axis];
        ptrdiff_t most = (whole - 1) / 2, reach = dilation * (o.kernel[axis] - 1) + 1;
        o.padding[axis] = chance(d, 40) ? 0 : (int)roll(d, 0, most < reach ? most : reach);
    }
    subject t = begin(d, layer_conv_transpose2d(o), s, naive_conv_transpose2d_shape(o, s), 4);
    if (!t.built) end(t);
    else finish(t, naive_conv_transpose2d(o, t.x, t.l->param[0], bias_of(t.l), t.dy), 1);
}

static void dense_case(dice *d)
{
    dense o = { .out_features = (int)roll(d, 1, 40), .no_bias = chance(d, 30) };
    shape s = SHAPE(roll_batch(d), roll(d, 1, 70));
    subject t = begin(d, layer_dense(o), s, SHAPE(s.n[0], o.out_features), 4);
    if (!t.built) end(t);
    else finish(t, naive_dense(t.x, t.l->param[0], bias_of(t.l), t.dy), 1);
}

/* ---- pooling --------------------------------------------------------------------------------- */

/* What maxpool and avgpool have in common. */
static avgpool roll_pool(dice *d, shape *s)
{
    avgpool g = { .ceil_mode = chance(d, 50), .count_exclude_pad = chance(d, 50) };
    *s = SHAPE(roll_batch(d), roll(d, 1, 4), 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        bool global = (axis == 0 || !g.kernel[0]) && chance(d, 10); /* { 3, 0 } is 3x3 */
        ptrdiff_t size = roll(d, 1, global ? 5 : 9);
        int kernel = global ? (int)size : (int)roll(d, 1, 5);
        g.kernel[axis] = global ? 0 : kernel;
        g.stride[axis] = (int)roll(d, axis && g.stride[0] ? 1 : 0, kernel + 2);
        g.dilation[axis] = global || chance(d, 60) ? axis && g.dilation[0] : (int)roll(d, 1, 3);
        int reach = (g.dilation[axis] ? g.dilation[axis] : 1) * (kernel - 1) + 1;
        g.padding[axis] = chance(d, 40) ? 0 : (int)roll(d, 0, reach - 1);
        ptrdiff_t least = reach - 2 * g.padding[axis];
        s->n[2 + axis] = global || size >= least ? size : least;
    }
    return g;
}

/* Of values -2 … 2 most windows have several maxima. */
static void maxpool_case(dice *d)
{
    shape s;
    avgpool g = roll_pool(d, &s);
    maxpool o = { .kernel = { g.kernel[0], g.kernel[1] },
                  .stride = { g.stride[0], g.stride[1] },
                  .padding = { g.padding[0], g.padding[1] },
                  .dilation = { g.dilation[0], g.dilation[1] },
                  .ceil_mode = g.ceil_mode,
                  .pad_value = (pad_value)roll(d, 0, 2) };
    subject t = begin(d, layer_maxpool(o), s, naive_maxpool_shape(o, s), 2);
    if (!t.built) end(t);
    else finish(t, naive_maxpool(o, t.x, t.dy), 1);
}

/* 3600 is a multiple of every product of two numbers up to 5, and of all windows' elements. */
static void avgpool_case(dice *d)
{
    shape s;
    avgpool o = roll_pool(d, &s);
    subject t = begin(d, layer_avgpool(o), s, naive_avgpool_shape(o, s), 4);
    if (!t.built) {
        end(t);
        return;
    }
    naive want = naive_avgpool(o, t.x, t.dy);
    finish(t, want, want.exact ? 1 : 3600);
}

/* Parts of up to 6 rows and columns: 3600 again. */
static void adaptive_avgpool_case(dice *d)
{
    adaptive_avgpool o = { { (int)roll(d, 0, 8), (int)roll(d, 0, 8) } };
    shape s = SHAPE(roll_batch(d), roll(d, 1, 3), roll(d, 1, 6), roll(d, 1, 6));
    subject t = begin(d, layer_adaptive_avgpool(o), s, naive_adaptive_avgpool_shape(o, s), 4);
    if (!t.built) end(t);
    else finish(t, naive_adaptive_avgpool(o, t.x, t.dy), 3600);
}

/* ---- borders, sizes, shapes -------------------------------------------------------------------- */

static void pad2d_case(dice *d)
{
    pad2d o = { .mode = (pad_mode)roll(d, 0, 2), .value = (double)roll(d, -2, 2) };
    shape s = SHAPE(roll_batch(d), roll(d, 1, 3), roll(d, 1, 6), roll(d, 1, 6));
    for (int side = 0; side < 2; side++) {
        o.height[side] = (int)roll(d, 0, o.mode == PAD_REFLECT ? s.n[2] - 1 : 7);
        o.width[side] = (int)roll(d, 0, o.mode == PAD_REFLECT ? s.n[3] - 1 : 7);
    }
    subject t = begin(d, layer_pad2d(o), s, naive_pad2d_shape(o, s), 4);
    if (!t.built) end(t);
    else finish(t, naive_pad2d(o, t.x, t.dy), 1);
}

/* Bilinear weights are multiples of 1/8 where the scale is 1, 2 or 4. */
static void upsample_case(dice *d)
{
    upsample o = { .mode = chance(d, 50) ? UPSAMPLE_BILINEAR : UPSAMPLE_NEAREST };
    shape s = SHAPE(roll_batch(d), roll(d, 1, 3), roll(d, 1, 6), roll(d, 1, 6));
    for (int axis = 0; axis < 2; axis++)
        o.scale[axis] = o.mode == UPSAMPLE_BILINEAR ? 1 << roll(d, 0, 2) : (int)roll(d, 1, 5);
    subject t = begin(d, layer_upsample(o), s, naive_upsample_shape(o, s), 4);
    if (!t.built) end(t);
    else finish(t, naive_upsample(o, t.x, t.dy), 1);
}

static void flatten_case(dice *d)
{
    shape s = roll_shape(d, 1, 5, 1, 5), y = SHAPE(s.n[0], 1);
    for (int i = 1; i < s.rank; i++) y.n[1] *= s.n[i];
    subject t = begin(d, layer_flatten(), s, y, 4);
    naive want = { .y = tensor_new(y), .dx = tensor_new(s) };
    for (ptrdiff_t k = 0; k < tensor_count(t.x); k++) {
        *element(want.y, k) = *element(t.x, k);
        *element(want.dx, k) = *element(t.dy, k);
    }
    if (t.built) compare(t, want, 1);
    naive_free(want);
    end(t);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A convolution that keeps the image's size. */
static conv2d roll_same(dice *d, int channels)
{
    int kernel = 1 + 2 * (int)roll(d, 0, 1);
    return (conv2d){ .out_channels = channels,
                     .kernel = { kernel, kernel },
                     .padding = { kernel / 2, kernel / 2 },
                     .no_bias = true };
}

/* a += b, element by element. */
static void accumulate(tensor a, tensor b)
{
    for (ptrdiff_t k = 0; k < tensor_count(a); k++) *element(a, k) += *element(b, k);
}

/* Channels first … first + count - 1 of a tensor, copied. */
static tensor channels(tensor x, ptrdiff_t first, ptrdiff_t count)
{
    shape s = x.shape;
    s.n[1] = count;
    tensor part = tensor_new(s);
    for (ptrdiff_t k = 0; k < tensor_count(part); k++) {
        shape at = index_of(s, k);
        at.n[1] += first;
        *element(part, k) = *tensor_at(x, at);
    }
    return part;
}

static void residual_case(dice *d)
{
    bool projected = chance(d, 50);
    shape s = SHAPE(roll_batch(d), roll(d, 1, 3), roll(d, 1, 6), roll(d, 1, 6)), y = s;
    if (projected) y.n[1] = roll(d, 1, 4);
    conv2d body = roll_same(d, (int)y.n[1]), across = roll_same(d, (int)y.n[1]);
    layer *l = projected ? layer_residual_projected(layer_conv2d(body), layer_conv2d(across))
                         : layer_residual(layer_conv2d(body));
    subject t = begin(d, l, s, y, 4);
    if (t.built) {
        const tensor none = { 0 };
        naive want = naive_conv2d(body, t.x, l->child[0]->param[0], none, t.dy), other = { 0 };
        tensor_free(want.dbias);
        want.dbias = none;
        if (projected) {
            other = naive_conv2d(across, t.x, l->child[1]->param[0], none, t.dy);
            want.dbias = tensor_clone(other.dweight); /* the gradients that come second */
        }
        accumulate(want.y, projected ? other.y : t.x);
        accumulate(want.dx, projected ? other.dx : t.dy);
        compare(t, want, 1);
        naive_free(want), naive_free(other);
    }
    end(t);
}

/* Two convolutions and, between them, x itself. */
static void concat_case(dice *d)
{
    shape s = SHAPE(roll_batch(d), roll(d, 1, 3), roll(d, 1, 6), roll(d, 1, 6)), y = s;
    conv2d one = roll_same(d, (int)roll(d, 1, 4)), two = roll_same(d, (int)roll(d, 1, 4));
    ptrdiff_t middle = one.out_channels, last = middle + s.n[1];
    y.n[1] = last + two.out_channels;
    layer *l = layer_concat(layer_conv2d(one), layer_identity(), layer_conv2d(two));
    subject t = begin(d, l, s, y, 4);
    if (t.built) {
        const tensor none = { 0 };
        tensor dy[] = { channels(t.dy, 0, middle), channels(t.dy, middle, s.n[1]),
                        channels(t.dy, last, two.out_channels) };
        naive first = naive_conv2d(one, t.x, l->child[0]->param[0], none, dy[0]);
        naive third = naive_conv2d(two, t.x, l->child[2]->param[0], none, dy[2]);
        naive want = { tensor_new(y), tensor_clone(first.dx), tensor_clone(first.dweight),
                       tensor_clone(third.dweight), true };
        accumulate(want.dx, dy[1]);
        accumulate(want.dx, third.dx);
        for (ptrdiff_t k = 0; k < tensor_count(want.y); k++) {
            shape at = index_of(y, k);
            ptrdiff_t c = at.n[1], begins = c < middle ? 0 : c < last ? middle : last;
            at.n[1] -= begins;
            *element(want.y, k) = *tensor_at(c < middle ? first.y : c < last ? t.x : third.y, at);
        }
        compare(t, want, 1);
        naive_free(want), naive_free(first), naive_free(third);
        for (int i = 0; i < 3; i++) tensor_free(dy[i]);
    }
    end(t);
}

/* ---- all ------------------------------------------------------------------------------------- */

int main(void)
{
    static const struct {
        void (*run)(dice *d);
        int all, fast;
    } kinds[] = {
        { conv2d_case, 600, 30 },   { conv_transpose2d_case, 500, 30 },
        { maxpool_case, 400, 20 },  { avgpool_case, 400, 20 },
        { dense_case, 120, 10 },    { pad2d_case, 250, 15 },
        { upsample_case, 120, 10 }, { adaptive_avgpool_case, 120, 10 },
        { flatten_case, 60, 5 },    { residual_case, 120, 10 },
        { concat_case, 120, 10 },
    };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        dice d = { { 100 + k } };
        for (int i = 0; i < case_count(kinds[k].all, kinds[k].fast); i++) kinds[k].run(&d);
    }
    return case_status();
}
