/* test_loss.c: each loss is its definition and dy its derivative, also of huge logits and through any view.
 *
 * The oracles are the definitions, written here in long double, central differences, and numbers that PyTorch
 * 1.13 computes in float64. Elements are multiples of 1/128, exact in both precisions, and sums are taken in
 * double, so values agree to the last bits of a double; derivatives are rounded to real. */
#include "tests/support.h"

#include "nn/loss.h"

#include <math.h>

static const double near_double = 1e-13; /* a few dozen operations in double on numbers of about 1 to 10 */

/* ---- the definitions, without a thought for overflow --------------------------------------------- */

static long double cross_entropy(st_tensor y, st_tensor target, long double smoothing)
{
    long double sum = 0;
    ptrdiff_t classes = y.shape.n[1];
    for (ptrdiff_t n = 0; n < y.shape.n[0]; n++) {
        long double total = 0;
        for (ptrdiff_t k = 0; k < classes; k++) total += expl((long double)*st_at(y, ST_INDEX(n, k)));
        for (ptrdiff_t k = 0; k < classes; k++) {
            long double q = smoothing / (long double)classes;
            if ((ptrdiff_t)*element(target, n) == k) q += 1 - smoothing;
            sum -= q * logl(expl((long double)*st_at(y, ST_INDEX(n, k))) / total);
        }
    }
    return sum / (long double)y.shape.n[0];
}

static long double squared(long double y, long double t, long double option)
{
    return (y - t) * (y - t);
}

static long double huber(long double y, long double t, long double delta)
{
    long double e = fabsl(y - t);
    return e <= delta ? e * e / 2 : delta * (e - delta / 2);
}

static long double binary(long double y, long double t, long double option)
{
    long double s = 1 / (1 + expl(-y));
    return -t * logl(s) - (1 - t) * logl(1 - s);
}

/* A loss as its constructor makes it, and its definition: `element` of one pair; NULL: cross-entropy. */
typedef struct definition {
    st_loss made;
    long double (*element)(long double y, long double t, long double option);
    long double option;
} definition;

enum { LOSSES = 7 };

static void make_losses(definition all[LOSSES])
{
    const definition made[LOSSES] = {
        { st_cross_entropy(), NULL, 0 },
        { st_cross_entropy(.label_smoothing = 0.1), NULL, 0.1L },
        { st_mse(), squared, 0 },
        { st_huber(), huber, 1 },
        { st_huber(.delta = 0.25), huber, 0.25L },
        { st_huber(.delta = 3), huber, 3 },
        { st_bce_with_logits(), binary, 0 },
    };
    for (int i = 0; i < LOSSES; i++) all[i] = made[i];
}

static long double defined(const definition *d, st_tensor y, st_tensor target)
{
    if (!d->element) return cross_entropy(y, target, d->option);
    long double sum = 0;
    for (ptrdiff_t e = 0; e < st_numel(y); e++)
        sum += d->element((long double)*element(y, e), (long double)*element(target, e), d->option);
    return sum / (long double)st_numel(y);
}

/* Outputs within ±4 and targets that fit the loss. Elements of y are multiples of 1/64 and targets lie half
 * of that beside, so that no difference is just at Huber's joints, 1/4 and 1. */
static st_tensor roll_output(dice *d)
{
    st_tensor y = roll_tensor(d, ST_SHAPE(roll(d, 1, 5), roll(d, 2, 6)), -256, 256);
    st_scale(y, (st_real)1 / 64);
    return y;
}

static st_tensor roll_target(dice *d, const definition *of, st_tensor y)
{
    if (!of->element) return roll_tensor(d, ST_SHAPE(y.shape.n[0]), 0, y.shape.n[1] - 1);
    bool probability = of->element == binary;
    st_tensor t = roll_tensor(d, y.shape, probability ? 0 : -256, probability ? 63 : 256);
    for (ptrdiff_t e = 0; e < st_numel(t); e++) *element(t, e) = (*element(t, e) + (st_real)0.5) / 64;
    return t;
}

static void about_loss(const definition *d)
{
    about("%s(%g)", d->made.name, (double)d->option);
}

TEST(each_loss_is_its_definition)
{
    dice d = { { 1 } };
    definition all[LOSSES];
    make_losses(all);
    for (int i = 0; i < 40 * LOSSES; i++) {
        const definition *l = &all[i % LOSSES];
        auto_tensor y = roll_output(&d), target = roll_target(&d, l, y);
        st_tensor none = { 0 };
        double expected = (double)defined(l, y, target), value = st_loss_value(l->made, y, target, none);
        if (fabs(value - expected) > near_double * fmax(1, expected))
            fail_msg("%s(%g) is %.17g, by its definition %.17g", l->made.name, (double)l->option, value,
                     expected);
    }
}

/* The step is a power of two, so that y moves by exactly it; a cubic term leaves step²/6 f''' < 1e-8. */
TEST(dy_is_the_derivative)
{
    dice d = { { 2 } };
    definition all[LOSSES];
    make_losses(all);
    const st_real step = (st_real)1 / 4096;
    for (int i = 0; i < 10 * LOSSES; i++) {
        const definition *l = &all[i % LOSSES];
        auto_tensor y = roll_output(&d), target = roll_target(&d, l, y), dy = st_tensor_new(y.shape);
        st_tensor none = { 0 };
        st_fill(dy, 77);
        st_loss_value(l->made, y, target, dy);
        for (ptrdiff_t e = 0; e < st_numel(y); e++) {
            st_real at = *element(y, e);
            *element(y, e) = at + step;
            double above = st_loss_value(l->made, y, target, none);
            *element(y, e) = at - step;
            double below = st_loss_value(l->made, y, target, none);
            *element(y, e) = at;
            double slope = (above - below) / (2 * (double)step), given = (double)*element(dy, e);
            if (fabs(given - slope) > 2e-8 + (double)ST_REAL_EPSILON * fabs(slope))
                fail_msg("%s(%g): dy[%td] is %.9g, the difference quotient is %.9g", l->made.name,
                         (double)l->option, e, given, slope);
        }
    }
}

/* ---- numbers of another implementation ----------------------------------------------------------- */

static void check_reference(st_loss l, st_tensor y, st_tensor target, double value, const double *slopes)
{
    auto_tensor dy = st_tensor_new(y.shape);
    about("%s(%g)", l.name, l.option);
    if (fabs(st_loss_value(l, y, target, dy) - value) > near_double)
        fail_msg("%s(%g) is %.17g, expected %.17g", l.name, l.option, st_loss_value(l, y, target, dy), value);
    for (ptrdiff_t e = 0; e < st_numel(y); e++)
        if (fabs((double)*element(dy, e) - slopes[e]) > (double)ST_REAL_EPSILON * fabs(slopes[e]) + 1e-16)
            fail_msg("%s(%g): dy[%td] is %.17g, expected %.17g", l.name, l.option, e, (double)*element(dy, e),
                     slopes[e]);
}

TEST(cross_entropy_is_as_pytorch_computes)
{
    auto_tensor y = tensor_of(ST_SHAPE(4, 5), 0.5, -1.25, 2, 0.125, -0.5, 3, 3, -2, 1.5, 0, -4.5, 0.25, 0.75,
                              -0.125, 1, 0, 0, 0, 0, 0);
    auto_tensor target = tensor_of(ST_SHAPE(4), 2, 3, 0, 4);
    check_reference(st_cross_entropy(), y, target, 2.6962270966729243,
                    (const double[]){ 0.037254316719934483,  0.0064738295269748669,  -0.083037735933357004,
                                      0.025604492470294227,  0.013705097216153417,   0.1096657085181668,
                                      0.1096657085181668,    0.00073892173161256352, -0.22553027289555042,
                                      0.0054599341276042089, -0.24960398067524178,   0.045773610311117756,
                                      0.075467924956678548,  0.031459711618387121,   0.096902733789058365,
                                      0.050000000000000003,  0.050000000000000003,   0.050000000000000003,
                                      0.050000000000000003,  -0.20000000000000001 });
    check_reference(st_cross_entropy(.label_smoothing = 0.1), y, target, 2.6524770966729241,
                    (const double[]){ 0.032254316719934485,   0.0014738295269748668, -0.063037735933357014,
                                      0.020604492470294226,   0.0087050972161534165, 0.1046657085181668,
                                      0.1046657085181668,     -0.004261078268387437, -0.20553027289555043,
                                      0.00045993412760420883, -0.22960398067524179,  0.040773610311117758,
                                      0.070467924956678543,   0.02645971161838712,   0.091902733789058361,
                                      0.045000000000000005,   0.045000000000000005,  0.045000000000000005,
                                      0.045000000000000005,   -0.17999999999999999 });
    check_reference(st_cross_entropy(.label_smoothing = 0.7), y, target, 2.3899770966729239,
                    (const double[]){ 0.0022543167199344863,  -0.028526170473025129,  0.056962264066642981,
                                      -0.0093955075297057697, -0.021294902783846579,  0.074665708518166812,
                                      0.074665708518166812,   -0.034261078268387431,  -0.08553027289555043,
                                      -0.029540065872395788,  -0.10960398067524181,   0.010773610311117759,
                                      0.040467924956678551,   -0.0035402883816128758, 0.061902733789058369,
                                      0.015000000000000006,   0.015000000000000006,   0.015000000000000006,
                                      0.015000000000000006,   -0.060000000000000012 });
}

TEST(elementwise_losses_are_as_pytorch_computes)
{
    auto_tensor y = tensor_of(ST_SHAPE(2, 3), 0.5, -1.25, 2, -3.5, 0.125, 6);
    auto_tensor target = tensor_of(ST_SHAPE(2, 3), 1, -1, 0.5, -3.25, 2, 0);
    auto_tensor probability = tensor_of(ST_SHAPE(2, 3), 1, 0, 0.5, 0.25, 1, 0);
    check_reference(st_mse(), y, target, 7.0234375,
                    (const double[]){ -0.16666666666666666, -0.083333333333333329, 0.5, -0.083333333333333329,
                                      -0.625, 2 });
    check_reference(st_huber(), y, target, 1.34375,
                    (const double[]){ -0.083333333333333329, -0.041666666666666664, 0.16666666666666666,
                                      -0.041666666666666664, -0.16666666666666666, 0.16666666666666666 });
    check_reference(st_huber(.delta = 0.25), y, target, 0.40104166666666669,
                    (const double[]){ -0.041666666666666664, -0.041666666666666664, 0.041666666666666664,
                                      -0.041666666666666664, -0.041666666666666664, 0.041666666666666664 });
    check_reference(st_bce_with_logits(), y, probability, 1.5654598692160036,
                    (const double[]){ -0.062923444799690906, 0.037116689804218138, 0.063466179662980418,
                                      -0.036781294874773947, -0.078131771104373957, 0.16625456280722756 });
}

/* ---- extremes ------------------------------------------------------------------------------------ */

/* The value and dy, up to the rounding of numbers as large as the largest logit; frees all three. */
static void check_extreme(st_loss l, st_tensor y, st_tensor target, double value, st_tensor slopes)
{
    auto_tensor dy = st_tensor_new(y.shape);
    double given = st_loss_value(l, y, target, dy), limit = 0;
    for (ptrdiff_t e = 0; e < st_numel(y); e++)
        limit = fmax(limit, 2 * DBL_EPSILON * fabs((double)*element(y, e)));
    if (fabs(given - value) > limit)
        fail_msg("%s(%g) is %.17g, expected %.17g", l.name, l.option, given, value);
    assert_near(dy, slopes, limit);
    st_tensor_free(y), st_tensor_free(target), st_tensor_free(slopes);
}

/* Certain and right costs 0, certain and wrong the distance of the logits. */
TEST(huge_logits_do_not_overflow)
{
    const double huge[] = { 1e4, (double)(st_real)1e30, (double)ST_REAL_MAX / 4 };
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        const double h = huge[i];
        about("%g: the greatest is right", h);
        check_extreme(st_cross_entropy(), tensor_of(ST_SHAPE(1, 3), h, -h, 0), tensor_of(ST_SHAPE(1), 0), 0,
                      tensor_of(ST_SHAPE(1, 3), 0, 0, 0));
        about("%g: the least is right", h);
        check_extreme(st_cross_entropy(), tensor_of(ST_SHAPE(1, 3), h, -h, 0), tensor_of(ST_SHAPE(1), 1),
                      2 * h, tensor_of(ST_SHAPE(1, 3), 1, -1, 0));
        about("%g, smoothed: half of h and 0 and half of it", h); /* q = 3/4, 1/4 */
        check_extreme(st_cross_entropy(.label_smoothing = 0.5), tensor_of(ST_SHAPE(1, 2), h, -h),
                      tensor_of(ST_SHAPE(1), 0), 0.25 * 2 * h, tensor_of(ST_SHAPE(1, 2), 0.25, -0.25));
        about("%g: two that are equal", h);
        check_extreme(st_cross_entropy(), tensor_of(ST_SHAPE(1, 2), -h, -h), tensor_of(ST_SHAPE(1), 1),
                      log(2), tensor_of(ST_SHAPE(1, 2), 0.5, -0.5));
        about("%g, binary: right, wrong, wrong, right", h);
        check_extreme(st_bce_with_logits(), tensor_of(ST_SHAPE(4), h, h, -h, -h),
                      tensor_of(ST_SHAPE(4), 1, 0, 1, 0), h / 2, tensor_of(ST_SHAPE(4), 0, 0.25, -0.25, 0));
        about("%g, binary: half right", h);
        check_extreme(st_bce_with_logits(), tensor_of(ST_SHAPE(2), h, -h), tensor_of(ST_SHAPE(2), 0.5, 0.5),
                      h / 2, tensor_of(ST_SHAPE(2), 0.25, -0.25));
        about("%g, Huber: linear far away", h);
        check_extreme(st_huber(.delta = 2), tensor_of(ST_SHAPE(2), h, -h), tensor_of(ST_SHAPE(2), 0, 0),
                      2 * (h - 1), tensor_of(ST_SHAPE(2), 1, -1));
    }
    const double most = (double)ST_REAL_MAX;
    about("the greatest there is");
    check_extreme(st_cross_entropy(), tensor_of(ST_SHAPE(1, 3), most, -most, 0), tensor_of(ST_SHAPE(1), 0), 0,
                  tensor_of(ST_SHAPE(1, 3), 0, 0, 0));
    check_extreme(st_bce_with_logits(), tensor_of(ST_SHAPE(2), most, -most), tensor_of(ST_SHAPE(2), 1, 0), 0,
                  tensor_of(ST_SHAPE(2), 0, 0));
}

/* Not finite, and no error: the loss tells that an output overflowed. */
TEST(infinite_logits_are_told)
{
    const double inf = INFINITY;
    const struct {
        st_loss l;
        double y[2], target[2];
    } cases[] = {
        { st_cross_entropy(), { inf, 0 }, { 0 } },
        { st_cross_entropy(), { inf, 0 }, { 1 } },
        { st_cross_entropy(), { inf, inf }, { 0 } },
        { st_cross_entropy(), { -inf, -inf }, { 0 } },
        { st_cross_entropy(), { -inf, 0 }, { 0 } },
        { st_cross_entropy(.label_smoothing = 0.1), { -inf, 0 }, { 1 } },
        { st_bce_with_logits(), { inf, 0 }, { 0, 0 } },
        { st_bce_with_logits(), { -inf, 0 }, { 1, 0 } },
        { st_bce_with_logits(), { inf, 0 }, { 1, 0 } },
        { st_bce_with_logits(), { -inf, 0 }, { 0, 0 } },
        { st_mse(), { inf, 0 }, { 0, 0 } },
        { st_huber(.delta = 1), { -inf, 0 }, { 0, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("case %zu", i);
        bool classes = cases[i].l.classes;
        auto_tensor y = tensor_of_list(classes ? ST_SHAPE(1, 2) : ST_SHAPE(2), 2, cases[i].y);
        auto_tensor target = tensor_of_list(ST_SHAPE(classes ? 1 : 2), classes ? 1 : 2, cases[i].target);
        auto_tensor dy = st_tensor_new(y.shape);
        assert_false(isfinite(st_loss_value(cases[i].l, y, target, dy)));
    }
}

/* A class that is masked by -inf has probability 0: as if it were not there. */
TEST(a_masked_class_has_no_part_in_cross_entropy)
{
    auto_tensor y = tensor_of(ST_SHAPE(1, 3), 0.5, -INFINITY, 1.5), dy = st_tensor_new(y.shape);
    auto_tensor without = tensor_of(ST_SHAPE(1, 2), 0.5, 1.5), expected = st_tensor_new(without.shape);
    auto_tensor zero = tensor_of(ST_SHAPE(1), 0);
    double value = st_loss_value(st_cross_entropy(), y, zero, dy);
    assert_true(value == st_loss_value(st_cross_entropy(), without, zero, expected));
    assert_same(st_step(dy, 1, 2), expected);
    assert_true(*element(dy, 1) == 0);
}

TEST(huber_joins_smoothly)
{
    check_extreme(st_huber(.delta = 2), tensor_of(ST_SHAPE(4), 2, -2, 1, 3),
                  tensor_of(ST_SHAPE(4), 0, 0, 0, 0), (2 + 2 + 0.5 + 4) / 4,
                  tensor_of(ST_SHAPE(4), 0.5, -0.5, 0.25, 0.5));
}

TEST(one_class_is_certain)
{
    check_extreme(st_cross_entropy(.label_smoothing = 0.3), tensor_of(ST_SHAPE(2, 1), 5, -7),
                  tensor_of(ST_SHAPE(2), 0, 0), 0, tensor_of(ST_SHAPE(2, 1), 0, 0));
}

TEST(a_single_number_has_a_loss)
{
    check_extreme(st_mse(), tensor_of((st_shape){ 0 }, 3), tensor_of((st_shape){ 0 }, 5), 4,
                  tensor_of((st_shape){ 0 }, -4));
}

/* No error: a net that has diverged shows in its loss. The other row of cross-entropy stays as it is. */
TEST(not_a_number_is_passed_on)
{
    definition all[LOSSES];
    make_losses(all);
    for (int i = 0; i < LOSSES; i++) {
        bool classes = !all[i].element;
        about_loss(&all[i]);
        auto_tensor y = tensor_of(ST_SHAPE(2, 2), 1, NAN, 3, 4), dy = st_tensor_new(y.shape);
        auto_tensor target = classes ? tensor_of(ST_SHAPE(2), 0, 1) : tensor_of(ST_SHAPE(2, 2), 0, 1, 0, 1);
        assert_true(isnan(st_loss_value(all[i].made, y, target, dy)));
        assert_null(st_error());
        for (ptrdiff_t e = 0; e < 4; e++)
            assert_int_equal(isnan(*element(dy, e)) != 0, e == 1 || (classes && e == 0));
    }
}

/* 0.1 in float is not 0.1, but its square, taken in double, is a number that a sum of floats would miss by
 * one part in a thousand. */
TEST(sums_are_taken_in_double)
{
    auto_tensor y = st_expand(tensor_of(ST_SHAPE(1), 0.1), ST_SHAPE(1000000)),
                target = st_tensor_new(ST_SHAPE(1000000));
    double tenth = (double)(st_real)0.1, value = st_loss_value(st_mse(), y, target, (st_tensor){ 0 });
    assert_true(fabs(value - tenth * tenth) < 1e-10 * tenth * tenth);
}

/* ---- views --------------------------------------------------------------------------------------- */

/* Any view of the same elements: st_tensor_free ends it. */
static st_tensor as_view(dice *d, st_tensor x)
{
    st_tensor view = roll_view(d, x.shape, NULL);
    st_copy(view, x);
    return view;
}

TEST(views_give_the_same_bits)
{
    dice d = { { 3 } };
    definition all[LOSSES];
    make_losses(all);
    for (int i = 0; i < 20 * LOSSES; i++) {
        const definition *l = &all[i % LOSSES];
        about_loss(l);
        auto_tensor y = roll_output(&d), target = roll_target(&d, l, y), dy = st_tensor_new(y.shape);
        auto_tensor y_view = as_view(&d, y), target_view = as_view(&d, target), dy_view = as_view(&d, dy);
        double value = st_loss_value(l->made, y, target, dy);
        assert_true(st_loss_value(l->made, y_view, target_view, dy_view) == value);
        assert_same(dy_view, dy);
        assert_true(st_loss_value(l->made, y_view, target_view, (st_tensor){ 0 }) == value);
    }
}

TEST(what_is_broadcast_counts_for_each_image)
{
    auto_tensor row = tensor_of(ST_SHAPE(1, 3), 0.5, -1, 2), class = tensor_of(ST_SHAPE(1), 1),
                dy = st_tensor_new(ST_SHAPE(4, 3));
    auto_tensor one = st_tensor_new(ST_SHAPE(1, 3));
    double value = st_loss_value(st_cross_entropy(.label_smoothing = 0.1), row, class, one);
    double all = st_loss_value(st_cross_entropy(.label_smoothing = 0.1), st_expand(row, ST_SHAPE(4, 3)),
                               st_expand(class, ST_SHAPE(4)), dy);
    assert_true(fabs(all - value) < near_double);
    st_scale(one, (st_real)0.25);
    assert_near(dy, st_expand(one, ST_SHAPE(4, 3)), (double)ST_REAL_EPSILON);
}

/* ---- refusals ------------------------------------------------------------------------------------ */

/* Expects NaN, an error with that text, and an unchanged dy; frees y and the target. */
static void refuses(st_loss l, st_tensor y, st_tensor target, st_shape of_dy, const char *text)
{
    auto_tensor dy = st_tensor_new(of_dy), before = st_tensor_new(of_dy);
    st_fill(dy, 77);
    st_fill(before, 77);
    assert_true(isnan(st_loss_value(l, y, target, dy)));
    expect_error("%s", text);
    assert_same(dy, before);
    assert_true(isnan(st_loss_value(l, y, target, (st_tensor){ 0 })) || !st_shape_equal(of_dy, y.shape));
    st_error_clear();
    st_tensor_free(y), st_tensor_free(target);
}

TEST(wrong_shapes_are_refused)
{
    const st_loss classes = st_cross_entropy(), pairs = st_mse();
    const st_shape s = ST_SHAPE(2, 3);
    refuses(classes, st_tensor_new(s), st_tensor_new(ST_SHAPE(3)), s,
            "loss cross_entropy: y [2, 3] and target [3], expected [N, K, ...] and classes [N, ...] or "
            "probabilities [N, K, ...]");
    refuses(st_nll(), st_tensor_new(s), st_tensor_new(s), s,
            "loss nll: y [2, 3] and target [2, 3], expected [N, K, ...] and classes [N, ...]");
    refuses(classes, st_tensor_new(ST_SHAPE(3)), st_tensor_new(ST_SHAPE(3)), ST_SHAPE(3),
            "y [3] and target [3]");
    refuses(classes, st_tensor_new(ST_SHAPE(2, 3, 1)), st_tensor_new(ST_SHAPE(2)), ST_SHAPE(2, 3, 1),
            "y [2, 3, 1]");
    refuses(pairs, st_tensor_new(s), st_tensor_new(ST_SHAPE(3, 2)), s,
            "loss mse: y [2, 3] and target [3, 2], expected equal shapes");
    refuses(st_huber(), st_tensor_new(s), st_tensor_new(ST_SHAPE(2, 1)), s,
            "loss huber: y [2, 3] and target [2, 1]");
    refuses(st_bce_with_logits(), st_tensor_new(s), st_tensor_new(ST_SHAPE(6)), s,
            "loss bce_with_logits: y [2, 3]");
    refuses(pairs, st_tensor_new(s), st_tensor_new(s), ST_SHAPE(3, 2), "dy of y's shape");
    refuses(classes, st_tensor_new(s), st_tensor_new(ST_SHAPE(2)), ST_SHAPE(2), "dy of y's shape");
    refuses(pairs, st_tensor_new(ST_SHAPE(0, 3)), st_tensor_new(ST_SHAPE(0, 3)), ST_SHAPE(0, 3),
            "y [0, 3] is empty");
    refuses(classes, st_tensor_new(ST_SHAPE(2, 0)), st_tensor_new(ST_SHAPE(2)), ST_SHAPE(2, 0),
            "y [2, 0] is empty");
    refuses(pairs, (st_tensor){ 0 }, st_tensor_new(s), s, "y or target is null");
    refuses(pairs, st_tensor_new(s), (st_tensor){ 0 }, s, "y or target is null");
}

TEST(what_is_no_class_is_refused)
{
    const struct {
        double target;
        const char *text;
    } cases[] = {
        { 5, "target[2] is 5, expected a class from 0 to 4" },
        { -1, "target[2] is -1, expected a class from 0 to 4" },
        { 1.5, "target[2] is 1.5, expected a class" },
        { -0.5, "target[2] is -0.5, expected a class" },
        { 4.75, "target[2] is 4.75, expected a class" },
        { 1e30, "target[2] is 1e+30, expected a class" },
        { INFINITY, "target[2] is inf, expected a class" },
        { -INFINITY, "target[2] is -inf, expected a class" },
        { NAN, "target[2] is " }, /* nan or -nan, as the C library has it */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("class %g", cases[i].target);
        refuses(st_cross_entropy(), st_tensor_new(ST_SHAPE(4, 5)),
                tensor_of(ST_SHAPE(4), 0, 4, cases[i].target, 7), ST_SHAPE(4, 5), cases[i].text);
    }
}

/* A weight for each class, in the context. */
static double weighted(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    const st_real *weight = l->context;
    double sum = 0;
    for (ptrdiff_t i = 0; i < y.shape.n[0]; i++) {
        st_real w = weight[(ptrdiff_t)*st_at(target, ST_INDEX(i))] / (st_real)y.shape.n[0];
        st_tensor slope = st_is_null(dy) ? dy : st_narrow(dy, 0, i, 1);
        sum += (double)w *
               st_loss_value(st_cross_entropy(), st_narrow(y, 0, i, 1), st_narrow(target, 0, i, 1), slope);
        if (!st_is_null(dy)) st_scale(slope, w);
    }
    return sum;
}

/* Equal logits: every image's loss is log 2, and its derivative ±w/2 of the batch's third. */
TEST(a_loss_of_ones_own_has_a_context)
{
    st_real weights[] = { 3, 6 };
    st_loss l = { "weighted", weighted, .classes = true, .context = weights };
    auto_tensor y = st_tensor_new(ST_SHAPE(3, 2)), dy = st_tensor_new(ST_SHAPE(3, 2)),
                target = tensor_of(ST_SHAPE(3), 0, 1, 0),
                expected = tensor_of(ST_SHAPE(3, 2), -0.5, 0.5, 1, -1, -0.5, 0.5);
    assert_true(fabs(st_loss_value(l, y, target, dy) - 4 * log(2)) < 1e-6);
    assert_true(fabs(st_loss_value(l, y, target, (st_tensor){ 0 }) - 4 * log(2)) < 1e-6);
    assert_near(dy, expected, 1e-6);
}

TEST(options_out_of_range_are_refused)
{
    const double smoothing[] = { 1, -0.1, 2, NAN, INFINITY }, delta[] = { -1, NAN, INFINITY };
    auto_tensor y = st_tensor_new(ST_SHAPE(2, 2)), target = st_tensor_new(ST_SHAPE(2));
    for (size_t i = 0; i < sizeof smoothing / sizeof *smoothing; i++) {
        st_loss l = st_cross_entropy(.label_smoothing = smoothing[i]);
        expect_error("cross_entropy: label_smoothing is %g", smoothing[i]);
        assert_true(isnan(st_loss_value(l, y, target, (st_tensor){ 0 })));
        expect_error("its options were refused");
    }
    for (size_t i = 0; i < sizeof delta / sizeof *delta; i++) {
        st_loss l = st_huber(.delta = delta[i]);
        expect_error("huber: delta is %g", delta[i]);
        assert_true(isnan(st_loss_value(l, y, y, (st_tensor){ 0 })));
        expect_error("its options were refused");
    }
    assert_true(isnan(st_loss_value((st_loss){ 0 }, y, y, (st_tensor){ 0 })));
    expect_error("the loss has no function");
}

TEST(only_classes_have_an_accuracy)
{
    definition all[LOSSES];
    make_losses(all);
    for (int i = 0; i < LOSSES; i++) assert_int_equal(all[i].made.classes, !all[i].element);
}
