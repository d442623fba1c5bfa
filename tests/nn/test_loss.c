/* test_loss.c: each loss is its definition and dy its derivative, of any shape, weights and view; huge,
 * infinite and missing numbers; accuracy and confusion.
 *
 * The oracle is the definition in PyTorch's documentation, written here position by position in long double.
 * Elements are multiples of 1/128, exact in both precisions, and sums are taken in double, so values agree to
 * the last bits of a double; derivatives are rounded to real. By vectors, the exponential functions of
 * cross-entropy are those of st_real, those of binary targets good to 2^-28 in float, and sums are taken in
 * another order. */
#include "tests/support.h"

#include "nn/check/scores.h"
#include "nn/train.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

static const double near_double = 1e-13; /* a few dozen operations in double on numbers of about 1 to 10 */

static void by_each_engine(void (*check)(void))
{
    for (int i = 0; i < ENGINES; i++)
        if (choose_engine(engines[i])) check();
    use_engine(NULL);
}

#define TEST_OF_ENGINES(NAME)                                                                                \
    static void NAME##_by_one(void);                                                                         \
    TEST(NAME)                                                                                               \
    {                                                                                                        \
        by_each_engine(NAME##_by_one);                                                                       \
    }                                                                                                        \
    static void NAME##_by_one(void)

/* ---- cases -------------------------------------------------------------------------------------- */

typedef enum kind { CLASSES, PROBABILITIES, LOG_PROBABILITIES, BINARY, SQUARED, HUBER, KINDS } kind;

/* A loss, and its y and target. */
typedef struct problem {
    kind kind;
    st_tensor y, target, weight; /* weight may be null */
    double smoothing, ignored, delta;
    st_loss loss;
} problem;

static void problem_free(problem *p)
{
    st_tensor_free(p->y), st_tensor_free(p->target), st_tensor_free(p->weight);
}

#define auto_problem __attribute__((cleanup(problem_free))) problem

static st_tensor roll_multiples(dice *d, st_shape s, ptrdiff_t low, ptrdiff_t high, double of)
{
    st_tensor x = roll_tensor(d, s, low, high);
    st_scale(x, (st_real)of);
    return x;
}

/* Outputs within ±4. No difference of pairs is at a joint of Huber's, which are multiples of 1/64. */
static problem roll_problem(dice *d, kind of)
{
    const ptrdiff_t n = roll(d, 1, 4), k = roll(d, 2, 5), h = roll(d, 1, 3), w = roll(d, 1, 3);
    const bool flat = chance(d, 40), pairs = of == SQUARED || of == HUBER;
    const st_shape all = flat ? ST_SHAPE(n, k) : ST_SHAPE(n, k, h, w);
    problem p = { .kind = of, .ignored = -100, .delta = 1, .y = roll_multiples(d, all, -256, 256, 1. / 64) };
    if (of == CLASSES || of == LOG_PROBABILITIES) {
        p.target = roll_tensor(d, flat ? ST_SHAPE(n) : ST_SHAPE(n, h, w), 0, k - 1);
        if (chance(d, 50)) p.ignored = (double)roll(d, 0, k - 1);
        else if (st_numel(p.target) > 1 && chance(d, 50)) *element(p.target, 0) = -100;
        if (p.ignored >= 0) *element(p.target, 0) = p.ignored == 0 ? 1 : 0; /* one counts */
    } else p.target = roll_multiples(d, all, pairs ? -512 : 0, pairs ? 512 : 16, pairs ? 1. / 128 : 1. / 16);
    for (ptrdiff_t e = 0; pairs && e < st_numel(p.target); e++)
        if (fmod((double)*element(p.target, e) * 64, 1) == 0) *element(p.target, e) += (st_real)1 / 128;
    if (!pairs && chance(d, 60))
        p.weight = roll_multiples(d, of == BINARY && !flat ? ST_SHAPE(k, 1, 1) : ST_SHAPE(k), 1, 32, 1. / 8);
    if (of < LOG_PROBABILITIES && chance(d, 50)) p.smoothing = (double)roll(d, 1, 15) / 16;
    if (chance(d, 70)) p.delta = (double)roll(d, 1, 12) / 4;
    const double ignored = p.ignored == 0 ? ST_ZERO : p.ignored;
    p.loss = of == BINARY              ? st_bce_with_logits(.pos_weight = p.weight)
             : of == SQUARED           ? st_mse()
             : of == HUBER             ? st_huber(.delta = p.delta == 1 ? 0 : p.delta)
             : of == LOG_PROBABILITIES ? st_nll(.weight = p.weight, .ignore_index = ignored)
                                       : st_cross_entropy(.label_smoothing = p.smoothing, .weight = p.weight,
                                                          .ignore_index = ignored);
    return p;
}

/* ---- the definitions, without a thought for overflow --------------------------------------------- */

static long double weight_of(const problem *p, ptrdiff_t k)
{
    return st_is_null(p->weight) ? 1 : (long double)*element(p->weight, k);
}

/* The mean over pairs of elements. */
static long double mean_of_pairs(const problem *p)
{
    long double sum = 0;
    for (ptrdiff_t e = 0; e < st_numel(p->y); e++) {
        long double y = *element(p->y, e), t = *element(p->target, e), s = 1 / (1 + expl(-y)),
                    far = fabsl(y - t);
        if (p->kind == BINARY)
            sum -= weight_of(p, index_of(p->y.shape, e).n[1]) * t * logl(s) + (1 - t) * logl(1 - s);
        else if (p->kind == SQUARED || far <= p->delta) sum += far * far / (p->kind == SQUARED ? 1 : 2);
        else sum += p->delta * (far - p->delta / 2);
    }
    return sum / (long double)st_numel(p->y);
}

/* [N, K, H, W] is read by its indices, and the weighted mean is taken at the end. */
static long double defined(const problem *p)
{
    if (p->kind >= BINARY) return mean_of_pairs(p);
    const ptrdiff_t n = p->y.shape.n[0], classes = p->y.shape.n[1], area = st_numel(p->y) / (n * classes);
    long double sum = 0, total = 0;
    for (ptrdiff_t i = 0; i < n * area; i++) {
        const ptrdiff_t first = i / area * classes * area + i % area;
        const ptrdiff_t class = p->kind == PROBABILITIES ? -1 : (ptrdiff_t)*element(p->target, i);
        long double exponentials = 0;
        if (class == (ptrdiff_t)p->ignored || class == -100) continue;
        for (ptrdiff_t k = 0; k < classes; k++)
            exponentials += expl((long double)*element(p->y, first + k * area));
        for (ptrdiff_t k = 0; k < classes; k++) {
            long double y = *element(p->y, first + k * area), q = k == class;
            if (p->kind == PROBABILITIES) q = *element(p->target, first + k * area);
            q = (1 - p->smoothing) * q + p->smoothing / (long double)classes;
            sum -= weight_of(p, k) * q * (p->kind == LOG_PROBABILITIES ? y : y - logl(exponentials));
        }
        total += class < 0 ? 1 : weight_of(p, class);
    }
    return sum / total;
}

/* Central differences with a step that y can take exactly: truncation leaves 1e-11 of them, and rounding
 * 1e-10 where a long double is a double. */
static void assert_derivative(problem *p, st_tensor dy, bool by_vectors)
{
    const st_real step = (st_real)1 / 262144;
    /* p (sum of q) - q of numbers up to 4, the greatest weight, each in error by up to an ulp or two */
    const bool rounded = by_vectors && p->kind <= PROBABILITIES;
    const double near = 1e-9 + (rounded ? 4 * (double)ST_REAL_EPSILON : 0);
    for (ptrdiff_t e = 0; e < st_numel(p->y); e++) {
        st_real *at = element(p->y, e), before = *at;
        *at = before + step;
        long double above = defined(p);
        *at = before - step;
        double slope = (double)((above - defined(p)) / (2 * (long double)step)),
               given = (double)*element(dy, e);
        *at = before;
        if (!(fabs(given - slope) <= near + (double)ST_REAL_EPSILON * fabs(slope)))
            fail_msg("%s: dy[%td] is %.12g, the difference quotient is %.12g", p->loss.kind->name, e, given,
                     slope);
    }
}

/* Any view of the same elements. */
static st_tensor as_view(dice *d, st_tensor x)
{
    st_tensor view = roll_view(d, x.shape, NULL);
    st_copy(view, x);
    return view;
}

/* With dy and without, and through any view: dy to the same bits, and the value but for the order of its
 * sum. */
static void check_problem(dice *d, problem *p, bool by_vectors)
{
    const double eps = p->kind <= PROBABILITIES                    ? 2 * (double)ST_REAL_EPSILON
                       : p->kind == BINARY && sizeof(st_real) == 4 ? 0x1p-27
                                                                   : 0;
    const double near = near_double + (by_vectors ? eps : 0), same = by_vectors ? 1e-14 : 0;
    auto_tensor dy = full(p->y.shape, 77), y = as_view(d, p->y), target = as_view(d, p->target),
                slope = as_view(d, dy);
    double expected = (double)defined(p), value = st_loss_value(p->loss, p->y, p->target, dy);
    if (!(fabs(value - expected) <= near * fmax(1, fabs(expected))))
        fail_msg("%s: %.17g, by its definition %.17g", p->loss.kind->name, value, expected);
    assert_derivative(p, dy, by_vectors);
    assert_true(fabs(st_loss_value(p->loss, y, target, slope) - value) <= same * fabs(value));
    assert_same(slope, dy);
    assert_true(fabs(st_loss_value(p->loss, y, target, (st_tensor){ 0 }) - value) <= same * fabs(value));
    assert_true(st_loss_value(p->loss, p->y, p->target, (st_tensor){ 0 }) == value);
    assert_true(fabs(st_loss_value(p->loss, y, target, y) - value) <= same * fabs(value));
    assert_same(y, dy); /* in place */
}

TEST(each_loss_and_its_derivative_are_the_definition)
{
    dice d = { { 31 } };
    for (int i = 0; i < 100 * KINDS * ENGINES; i++) {
        const char *engine = engines[i / KINDS % ENGINES];
        if (!choose_engine(engine)) continue;
        auto_problem p = roll_problem(&d, (kind)(i % KINDS));
        about("case %d: %s of %s, smoothing %g, ignored %g, delta %g, %s, %s", i, p.loss.kind->name,
              st_shape_text(p.y.shape).text, p.smoothing, p.ignored, p.delta,
              st_is_null(p.weight) ? "no weights" : "weights", engine);
        check_problem(&d, &p, strcmp(engine, "reference") != 0);
        assert_int_equal(p.loss.kind->classes, p.kind < BINARY); /* what accuracy counts */
        assert_int_equal(p.loss.kind->binary, p.kind == BINARY);
    }
    use_engine(NULL);
}

/* Rows of several blocks, with a rest, which threads share. */
static void check_long_rows(dice *d, kind of, const char *engine)
{
    auto_problem p = roll_problem(d, of);
    const ptrdiff_t k = p.y.shape.n[1], h = roll(d, 60, 90), w = roll(d, 90, 130);
    const bool classes = p.kind == CLASSES || p.kind == LOG_PROBABILITIES;
    const st_shape s = ST_SHAPE(2, k, h, w);
    if (p.kind == BINARY && !st_is_null(p.weight)) return; /* of another shape */
    auto_tensor y = roll_tensor(d, s, -4, 4), dy = full(s, 77), by_definition = full(s, 77),
                target = roll_tensor(d, classes ? ST_SHAPE(2, h, w) : s, 0, classes ? k - 1 : 1);
    auto_tensor view = as_view(d, y), slope = as_view(d, dy), of_view = as_view(d, target);
    about("%s of %s, %s", p.loss.kind->name, st_shape_text(s).text, engine);
    use_engine("reference");
    const double expected = st_loss_value(p.loss, y, target, by_definition),
                 near = (4 * (double)ST_REAL_EPSILON + 1e-12) * fabs(expected);
    use_engine(engine);
    double value[3];
    for (int threads = 1; threads <= 3; threads++) {
        st_set_num_threads(threads);
        value[threads - 1] = st_loss_value(p.loss, y, target, dy);
        assert_near(dy, by_definition, 1e-3 * (double)ST_REAL_EPSILON); /* of at least 10,000 positions */
    }
    assert_true(value[0] == value[1] && value[0] == value[2]);
    assert_true(fabs(value[0] - expected) <= near);
    assert_true(fabs(st_loss_value(p.loss, view, of_view, slope) - expected) <= near);
    assert_same(slope, dy);
    st_set_num_threads(0);
}

TEST(long_rows_of_losses_are_the_definition_by_any_number_of_threads)
{
    dice d = { { 41 } };
    for (int i = 0; i < 3 * KINDS * (ENGINES - 1); i++) {
        const char *engine = engines[1 + i / KINDS % (ENGINES - 1)];
        if (choose_engine(engine)) check_long_rows(&d, (kind)(i % KINDS), engine);
    }
    use_engine(NULL);
}

/* Rows of logits that are adjacent, in blocks and a rest, some of which do not count. */
TEST(many_classes_are_the_definition_by_any_number_of_threads)
{
    enum { POSITIONS = 37 };
    dice d = { { 43 } };
    for (int i = 0; i < 8 * (ENGINES - 1); i++) {
        const char *engine = engines[1 + i % (ENGINES - 1)];
        const bool soft = roll(&d, 0, 1) != 0, weighted = roll(&d, 0, 1) != 0;
        const ptrdiff_t k = roll(&d, 200, 400);
        auto_tensor y = roll_tensor(&d, ST_SHAPE(POSITIONS, k), -9, 9), dy = full(y.shape, 77),
                    by_definition = full(y.shape, 77), weight = roll_tensor(&d, ST_SHAPE(k), 0, 3),
                    target = roll_tensor(&d, soft ? y.shape : ST_SHAPE(POSITIONS), 0, soft ? 1 : (int)k - 1);
        const st_loss loss = st_cross_entropy_new(
            (st_cross_entropy_options){ .weight = weighted ? weight : (st_tensor){ 0 }, .ignore_index = 3 });
        if (!choose_engine(engine)) continue;
        if (!soft) st_data(target)[5] = 3;
        about("%td classes, %s, %s, %s", k, soft ? "soft" : "hard", weighted ? "weights" : "no weights",
              engine);
        use_engine("reference");
        const double expected = st_loss_value(loss, y, target, by_definition),
                     near = (4 * (double)ST_REAL_EPSILON + 1e-12) * fabs(expected);
        use_engine(engine);
        const double value = st_loss_value(loss, y, target, (st_tensor){ 0 });
        assert_true(fabs(value - expected) <= near);
        for (int threads = 1; threads <= 3; threads++) {
            st_set_num_threads(threads);
            assert_true(st_loss_value(loss, y, target, dy) == value);
            assert_near(dy, by_definition, 1e-14 + 4 * (double)ST_REAL_EPSILON);
        }
        assert_true(st_loss_value(loss, y, target, y) == value);
        assert_same(y, dy);
        st_set_num_threads(0);
    }
    use_engine(NULL);
}

/* A target may be where dy is written: each is read before. */
TEST_OF_ENGINES(a_derivative_may_overwrite_its_target)
{
    auto_tensor y = tensor_of(ST_SHAPE(2, 2), 1, 2, 0.5, -1), dy = st_tensor_new(y.shape),
                target = tensor_of(ST_SHAPE(2, 2), 0.25, 0.75, 0.5, 0.5);
    const double value = st_loss_value(st_cross_entropy(), y, target, dy),
                 again = st_loss_value(st_cross_entropy(), y, target, target);
    assert_true(fabs(value - again) <= 2 * (double)ST_REAL_EPSILON);
    assert_near(target, dy, 2 * (double)ST_REAL_EPSILON);
}

/* The rows of roll_problem; CLASSES and PROBABILITIES are one kind. */
TEST(every_kind_of_loss_has_a_row)
{
    dice d = { { 37 } };
    for (const st_loss_kind *const *k = st_loss_kinds; *k; k++) {
        bool found = false;
        for (int of = 0; of < KINDS; of++) {
            auto_problem p = roll_problem(&d, (kind)of);
            found |= p.loss.kind == *k;
        }
        if (!found) fail_msg("test_loss.c: roll_problem has no case of the loss %s", (*k)->name);
    }
}

static double over_all(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return 0;
}

TEST(a_kind_of_loss_is_checked)
{
    static const st_loss_kind nameless = { .value = NULL }, idle = { "idle" },
                              large = { "large", sizeof(st_option_bytes) + 1, .value = over_all };
    const st_field fields[] = { { "rate", ST_FIELD_REAL, .offset = 8 }, { 0 } };
    const st_loss_kind short_of = { "short", 8, fields, .value = over_all };
    expect_failure(st_loss_new(NULL, NULL).kind, "st_loss_new: the kind has no name");
    expect_failure(st_loss_new(&nameless, NULL).kind, "st_loss_new: the kind has no name");
    expect_failure(st_loss_new(&idle, NULL).kind, "st_loss_new: the kind has no value");
    expect_failure(st_loss_new(&large, NULL).kind, "st_loss_new: the kind has too many options");
    expect_failure(st_loss_new(&short_of, NULL).kind, "short: option rate lies outside of the options");
}

/* ---- extremes, by each engine --------------------------------------------------------------------- */

typedef struct extreme {
    st_loss l;
    ptrdiff_t rows, columns; /* of y; columns 0: y is [rows] */
    double y[4], target[4];  /* classes: one a row */
    double value, dy[4];
} extreme;

/* The value and dy, up to the rounding of numbers as large as the largest logit. */
static void check_extreme(const extreme *x)
{
    const ptrdiff_t count = x->rows * (x->columns ? x->columns : 1),
                    targets = x->l.kind->classes ? x->rows : count;
    const st_shape s = x->columns ? ST_SHAPE(x->rows, x->columns) : ST_SHAPE(x->rows);
    auto_tensor y = tensor_of_list(s, count, x->y), dy = full(s, 77),
                slopes = tensor_of_list(s, count, x->dy);
    auto_tensor target = tensor_of_list(x->l.kind->classes ? ST_SHAPE(targets) : s, targets, x->target);
    double given = st_loss_value(x->l, y, target, dy), limit = 0;
    for (ptrdiff_t e = 0; e < count; e++) limit = fmax(limit, 2 * DBL_EPSILON * fabs((double)*element(y, e)));
    if (fabs(given - x->value) > limit)
        fail_msg("%s is %.17g, expected %.17g", x->l.kind->name, given, x->value);
    assert_near(dy, slopes, limit);
}

/* The mean of positions without weight: a smoothed target has a loss, one that is certain has none. */
TEST(a_loss_of_no_weight_is_infinite_or_nan)
{
    auto_tensor y = tensor_of(ST_SHAPE(1, 2), 1, 2), target = tensor_of(ST_SHAPE(1), 0),
                weight = tensor_of(ST_SHAPE(2), 0, 1);
    const st_loss smoothed = st_cross_entropy(.weight = weight, .label_smoothing = 0.5),
                  certain = st_cross_entropy(.weight = weight);
    assert_true(st_loss_value(smoothed, y, target, (st_tensor){ 0 }) == (double)INFINITY);
    assert_true(isnan(st_loss_value(certain, y, target, (st_tensor){ 0 })));
}

/* Certain and right costs 0, certain and wrong the distance of the logits; Huber is linear far away, and
 * joins. */
TEST_OF_ENGINES(huge_logits_do_not_overflow)
{
    /* In float the last ones are further apart than any number. */
    const double most = (double)ST_REAL_MAX, last = sizeof(st_real) == 4 ? 0.6 * most : most / 4,
                 huge[] = { 1e4, (double)(st_real)1e30, most / 4, (double)(st_real)last };
    const st_loss softly = st_cross_entropy(.label_smoothing = 0.5); /* q = 3/4, 1/4 */
    for (int i = 0; i < 4; i++) {
        const double h = huge[i];
        const extreme cases[] = {
            { st_cross_entropy(), 1, 3, { h, -h, 0 }, { 0 }, 0, { 0, 0, 0 } },
            { st_cross_entropy(), 1, 3, { h, -h, 0 }, { 1 }, 2 * h, { 1, -1, 0 } },
            { st_cross_entropy(), 1, 2, { -h, -h }, { 1 }, log(2), { 0.5, -0.5 } },
            { st_cross_entropy(), 1, 3, { most, -most, 0 }, { 0 }, 0, { 0, 0, 0 } },
            { st_cross_entropy(.label_smoothing = 0.3), 2, 1, { 5, -7 }, { 0, 0 }, 0, { 0, 0 } },
            { softly, 1, 2, { h, -h }, { 0 }, 0.25 * 2 * h, { 0.25, -0.25 } },
            { st_bce_with_logits(), 4, 0, { h, h, -h, -h }, { 1, 0, 1, 0 }, h / 2, { 0, 0.25, -0.25, 0 } },
            { st_bce_with_logits(), 2, 0, { h, -h }, { 0.5, 0.5 }, h / 2, { 0.25, -0.25 } },
            { st_bce_with_logits(), 2, 0, { most, -most }, { 1, 0 }, 0, { 0, 0 } },
            { st_huber(.delta = 2), 2, 0, { h, -h }, { 0, 0 }, 2 * (h - 1), { 1, -1 } },
            { st_huber(.delta = 2), 4, 0, { 2, -2, 1, 3 }, { 0 }, 8.5 / 4, { 0.5, -0.5, 0.25, 0.5 } },
            { st_mse(), 1, 0, { 3 }, { 5 }, 4, { -4 } },
            { st_cross_entropy(),
              1,
              3,
              { 0, 20, -1 },
              { 1 },
              2.819409661e-9,
              { 2.061153617e-9, -2.819409657e-9, 7.58256041e-10 } },
        };
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            about("case %zu of %g", k, h);
            check_extreme(&cases[k]);
        }
    }
}

/* Not finite, and no error: the loss tells that an output overflowed, or that a net has diverged. */
TEST_OF_ENGINES(infinite_logits_are_told)
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
        bool classes = cases[i].l.kind->classes;
        auto_tensor y = tensor_of_list(classes ? ST_SHAPE(1, 2) : ST_SHAPE(2), 2, cases[i].y);
        auto_tensor target = tensor_of_list(ST_SHAPE(classes ? 1 : 2), classes ? 1 : 2, cases[i].target);
        auto_tensor dy = st_tensor_new(y.shape);
        assert_false(isfinite(st_loss_value(cases[i].l, y, target, dy)));
        assert_null(st_error());
    }
}

/* The other row of cross-entropy stays as it is. */
TEST_OF_ENGINES(not_a_number_is_passed_on)
{
    const st_loss all[] = { st_cross_entropy(), st_cross_entropy(.label_smoothing = 0.1), st_mse(),
                            st_huber(), st_bce_with_logits() };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool classes = all[i].kind->classes;
        about("%s", all[i].kind->name);
        auto_tensor y = tensor_of(ST_SHAPE(2, 2), 1, NAN, 3, 4), dy = st_tensor_new(y.shape);
        auto_tensor target = classes ? tensor_of(ST_SHAPE(2), 0, 1) : tensor_of(ST_SHAPE(2, 2), 0, 1, 0, 1);
        assert_true(isnan(st_loss_value(all[i], y, target, dy)));
        assert_null(st_error());
        for (ptrdiff_t e = 0; e < 4; e++)
            assert_int_equal(isnan(*element(dy, e)) != 0, e == 1 || (classes && e == 0));
    }
}

/* A class that is masked by -inf has probability 0: as if it were not there. */
TEST_OF_ENGINES(a_masked_class_has_no_part_in_cross_entropy)
{
    auto_tensor y = tensor_of(ST_SHAPE(1, 3), 0.5, -INFINITY, 1.5), dy = st_tensor_new(y.shape);
    auto_tensor without = tensor_of(ST_SHAPE(1, 2), 0.5, 1.5), expected = st_tensor_new(without.shape);
    auto_tensor zero = tensor_of(ST_SHAPE(1), 0);
    double value = st_loss_value(st_cross_entropy(), y, zero, dy);
    assert_true(value == st_loss_value(st_cross_entropy(), without, zero, expected));
    assert_same(st_step(dy, 1, 2), expected);
    assert_true(*element(dy, 1) == 0);
    auto_tensor soft = tensor_of(ST_SHAPE(1, 3), 1, 0, 0), weight = tensor_of(ST_SHAPE(3), 1, 0, 1);
    assert_true(fabs(st_loss_value(st_cross_entropy(), y, soft, dy) - value) <= 2 * (double)ST_REAL_EPSILON);
    assert_near(st_step(dy, 1, 2), expected, 2 * (double)ST_REAL_EPSILON);
    /* a class without weight beside one that has it */
    auto_tensor rows = tensor_of(ST_SHAPE(2, 3), 0.5, -INFINITY, 1.5, 0.5, -INFINITY, 1.5),
                targets = tensor_of(ST_SHAPE(2), 0, 1), slopes = st_tensor_new(rows.shape);
    assert_true(fabs(st_loss_value(st_cross_entropy(.weight = weight), rows, targets, slopes) - value) <=
                2 * (double)ST_REAL_EPSILON);
    assert_true(*element(slopes, 3) == 0 && *element(slopes, 5) == 0);
}

/* The mean is 0 / 0, PyTorch's result; and nothing is learnt. */
TEST_OF_ENGINES(a_batch_of_ignored_targets_has_no_mean)
{
    auto_tensor y = tensor_of(ST_SHAPE(2, 2), 1, 2, 3, 4), target = full(ST_SHAPE(2), 1),
                dy = full(ST_SHAPE(2, 2), 7);
    assert_true(isnan(st_loss_value(st_cross_entropy(.ignore_index = 1), y, target, dy)));
    assert_elements(dy, 0, 0, 0, 0);
}

/* 0.1 in float is not 0.1, but its square, taken in double, is a number that a sum of floats would miss by
 * one part in a thousand. y is a single number, seen a million times. */
TEST_OF_ENGINES(sums_are_taken_in_double)
{
    auto_tensor y = st_expand(full(ST_SHAPE(1), 0.1), ST_SHAPE(1000000)), target = st_tensor_new(y.shape);
    double tenth = (double)(st_real)0.1, value = st_loss_value(st_mse(), y, target, (st_tensor){ 0 });
    assert_true(fabs(value - tenth * tenth) < 1e-10 * tenth * tenth);
}

/* ---- refusals ------------------------------------------------------------------------------------ */

/* Expects NaN, an error with that text, and an unchanged dy, with dy and without. */
static void refuses(st_loss l, st_tensor y, st_tensor target, st_shape of_dy, const char *text)
{
    auto_tensor dy = full(of_dy, 77), before = full(of_dy, 77);
    assert_true(isnan(st_loss_value(l, y, target, dy)));
    expect_error("%s", text);
    assert_same(dy, before);
    assert_true(isnan(st_loss_value(l, y, target, (st_tensor){ 0 })) || !st_shape_equal(of_dy, y.shape));
    st_error_clear();
}

static double one(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return 1;
}

static double one_below_zero(const st_loss *l, st_tensor y, st_tensor target)
{
    return -1;
}

static const st_loss_kind below_zero = { .name = "own", .value = one, .counted = one_below_zero };

TEST(what_does_not_fit_is_refused)
{
    auto_tensor two = full(ST_SHAPE(2), 1), grid = full(ST_SHAPE(3, 1), 1),
                below = tensor_of(ST_SHAPE(3), 1, 0, -0.5), endless = tensor_of(ST_SHAPE(3), 1, INFINITY, 1);
    const st_loss classes = st_cross_entropy(), pairs = st_mse(), nll = st_nll();
    const st_shape pixels = ST_SHAPE(2, 3, 4, 5), s = ST_SHAPE(2, 3);
    const struct {
        st_loss loss;
        st_shape y, target, dy;
        double class;
        const char *names;
    } cases[] = {
        { classes, s, ST_SHAPE(3), s, 0, "cross_entropy: y [2, 3] and target [3]" },
        { nll, s, s, s, 0, "nll: y [2, 3] and target [2, 3]" },
        { classes, ST_SHAPE(3), ST_SHAPE(3), ST_SHAPE(3), 0, "y [3] and target [3]" },
        { nll, ST_SHAPE(3), ST_SHAPE(3), ST_SHAPE(3), 0, "nll: y [3]" },
        { classes, ST_SHAPE(2, 3, 1), ST_SHAPE(2), ST_SHAPE(2, 3, 1), 0, "y [2, 3, 1]" },
        { classes, pixels, ST_SHAPE(2, 4), pixels, 0, "y [2, 3, 4, 5] and target [2, 4]" },
        { classes, pixels, ST_SHAPE(2, 5, 4), pixels, 0, "target [2, 5, 4]" },
        { classes, pixels, ST_SHAPE(2, 4, 5), pixels, 3, "target[0] is 3, expected a class from 0 to 2" },
        { st_cross_entropy(.ignore_index = 7), pixels, ST_SHAPE(2, 4, 5), pixels, 8, "target[0] is 8" },
        { nll, pixels, pixels, pixels, 0, "nll: y [2, 3, 4, 5]" },
        { st_cross_entropy(.weight = two), pixels, ST_SHAPE(2, 4, 5), pixels, 0,
          "cross_entropy: the weight is [2], expected [3], one for each class of y [2, 3, 4, 5]" },
        { st_nll(.weight = grid), pixels, ST_SHAPE(2, 4, 5), pixels, 0,
          "the weight is [3, 1], expected [3]" },
        { st_nll(.weight = below), s, ST_SHAPE(2), s, 0, "nll: weight[2] is -0.5, expected a finite number" },
        { st_cross_entropy(.weight = endless), s, s, s, 0, "cross_entropy: weight[1] is inf" },
        { st_loss_new(&below_zero, NULL), s, s, s, 0, "own: -1 images count" },
        { st_bce_with_logits(.pos_weight = two), pixels, pixels, pixels, 0,
          "bce_with_logits: pos_weight: st_expand" },
        { pairs, s, ST_SHAPE(3, 2), s, 0, "mse: y [2, 3] and target [3, 2]" },
        { st_huber(), s, ST_SHAPE(2, 1), s, 0, "huber: y [2, 3] and target [2, 1]" },
        { st_bce_with_logits(), s, ST_SHAPE(6), s, 0, "bce_with_logits: y [2, 3]" },
        { pairs, s, s, ST_SHAPE(3, 2), 0, "mse: dy is [3, 2], expected y's shape, [2, 3]" },
        { classes, s, ST_SHAPE(2), ST_SHAPE(2), 0, "cross_entropy: dy is [2], expected y's shape, [2, 3]" },
        { pairs, ST_SHAPE(0, 3), ST_SHAPE(0, 3), ST_SHAPE(0, 3), 0, "y [0, 3]" },
        { classes, ST_SHAPE(2, 0), ST_SHAPE(2), ST_SHAPE(2, 0), 0, "y [2, 0]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_tensor y = st_tensor_new(cases[i].y), target = full(cases[i].target, cases[i].class);
        about("case %zu", i);
        refuses(cases[i].loss, y, target, cases[i].dy, cases[i].names);
    }
    auto_tensor y = st_tensor_new(s);
    refuses(pairs, (st_tensor){ 0 }, y, s, "null");
    refuses(pairs, y, (st_tensor){ 0 }, s, "null");
    assert_true(isnan(st_loss_value((st_loss){ 0 }, y, y, (st_tensor){ 0 })));
    expect_error("no kind");
}

TEST(what_is_no_class_is_refused)
{
    const double targets[] = { 5, -1, 1.5, -0.5, 4.75, 1e30, INFINITY, -INFINITY, -NAN };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        auto_tensor y = st_tensor_new(ST_SHAPE(4, 5)), target = tensor_of(ST_SHAPE(4), 0, 4, targets[i], 7);
        char text[64];
        snprintf(text, sizeof text, "target[2] is %g, expected a class", printable(targets[i]));
        about("class %g", targets[i]);
        refuses(st_cross_entropy(), y, target, y.shape, text);
    }
}

/* An option that is refused, with a value that its name stands before in the error. */
static void assert_refused(st_loss l, const char *field, double value)
{
    auto_tensor y = st_tensor_new(ST_SHAPE(2, 2));
    expect_error("%s is %g", field, value);
    assert_true(isnan(st_loss_value(l, y, y, (st_tensor){ 0 })));
    expect_error("refused");
}

TEST(options_out_of_range_are_refused)
{
    const double bad[] = { 1, -0.1, 2, NAN, INFINITY, -INFINITY };
    for (int i = 0; i < 6; i++) {
        assert_refused(st_cross_entropy(.label_smoothing = bad[i]), "cross_entropy: label_smoothing", bad[i]);
        if (!(bad[i] > 0) || isinf(bad[i])) assert_refused(st_huber(.delta = bad[i]), "huber: delta", bad[i]);
        if (isfinite(bad[i])) continue;
        assert_refused(st_cross_entropy(.ignore_index = bad[i]), "cross_entropy: ignore_index", bad[i]);
        assert_refused(st_nll(.ignore_index = bad[i]), "nll: ignore_index", bad[i]);
    }
}

/* ---- accuracy ------------------------------------------------------------------------------------ */

/* A net that returns its input. */
static st_net *identity(st_shape x)
{
    st_net *n = st_net_new(x, st_identity());
    assert_int_equal(st_net_build(n, 2, 0), 0);
    return n;
}

TEST(a_loss_that_is_missing_is_refused)
{
    auto_net *n = identity(ST_SHAPE(3));
    auto_dataset *d = st_dataset_owned(full(ST_SHAPE(4, 3), 1), full(ST_SHAPE(4), 0));
    ptrdiff_t matrix[9];
    const st_loss none = { 0 };
    expect_failure(st_evaluate(n, d, none, NULL), "st_evaluate: the loss is missing");
    expect_failure(st_confusion_matrix(n, d, none, matrix),
                   "st_confusion_matrix: outputs [3] and targets []");
    assert_true(isnan(st_top_k_accuracy(n, d, none, 1)));
    expect_error("expected a loss of classes");
}

static void accuracy_is(st_shape x, st_tensor inputs, st_tensor targets, st_loss l, double expected)
{
    auto_net *n = identity(x);
    auto_dataset *d = st_dataset_owned(inputs, targets);
    st_metrics score;
    assert_int_equal(st_evaluate(n, d, l, &score), 0);
    if (!(score.accuracy == expected)) fail_msg("accuracy %g, expected %g", score.accuracy, expected);
}

static double nothing(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return 0;
}

static const st_loss_kind own_kind = { .name = "own", .classes = true, .value = nothing };

/* Three of five classes, also by a loss of one's own, which ignores none; pixels: 3 of 4 that are not
 * ignored, in batches of 2 of 3 images; several labels: 5 of 6, where an output of 0 is on the side of 0; one
 * output: 1 of 2; targets of 1/2, which are on the side of 0: 2 of 3. */
TEST(accuracy_counts_classes_pixels_and_binary_outputs)
{
    accuracy_is(ST_SHAPE(3), tensor_of(ST_SHAPE(5, 3), 3, 1, 2, 0, 5, 4, 1, 2, 3, 7, 8, 9, 1, 0, 0),
                tensor_of(ST_SHAPE(5), 0, 1, 1, 2, 2), st_cross_entropy(), 3.0 / 5);
    accuracy_is(ST_SHAPE(2), tensor_of(ST_SHAPE(3, 2), 3, 1, 2, 0, 0, 4), tensor_of(ST_SHAPE(3), 0, 1, 0),
                st_loss_new(&own_kind, NULL), 1.0 / 3);
    accuracy_is(ST_SHAPE(2, 1, 2), tensor_of(ST_SHAPE(3, 2, 1, 2), 1, 0, 0, 1, 0, 0, 9, 9, 5, 5, 4, 6),
                tensor_of(ST_SHAPE(3, 1, 2), 0, 0, 7, 1, 0, 7), st_cross_entropy(.ignore_index = 7), 0.75);
    accuracy_is(ST_SHAPE(2), tensor_of(ST_SHAPE(3, 2), 1, -1, 0, 2, -3, 0),
                tensor_of(ST_SHAPE(3, 2), 1, 0, 0, 1, 1, 0), st_bce_with_logits(), 5.0 / 6);
    accuracy_is(ST_SHAPE(1), tensor_of(ST_SHAPE(2, 1), 3, 1), tensor_of(ST_SHAPE(2, 1), 1, 0),
                st_bce_with_logits(), 0.5);
    accuracy_is(ST_SHAPE(1), tensor_of(ST_SHAPE(3, 1), -3, -1, 2), tensor_of(ST_SHAPE(3, 1), 0.5, 0.5, 0.5),
                st_bce_with_logits(), 2.0 / 3);
}

TEST(a_mean_counts_the_images_of_a_batch)
{
    auto_tensor batch = full(ST_SHAPE(3), 1), pairs = full(ST_SHAPE(3, 2), 1),
                number = st_reshape(full(ST_SHAPE(1), 1), (st_shape){ 0 });
    assert_true(st_loss_weight(st_mse(), batch, batch) == 3);
    assert_true(st_loss_weight(st_mse(), pairs, pairs) == 3);
    assert_true(st_loss_weight(st_mse(), number, number) == 1);
}

TEST(confusion_and_top_k_count_by_hand)
{
    auto_net *n = identity(ST_SHAPE(3));
    auto_dataset *d = st_dataset_owned(tensor_of(ST_SHAPE(5, 3), 3, 1, 2, 0, 5, 4, 1, 2, 3, 7, 7, 7, 1, 0, 0),
                                       tensor_of(ST_SHAPE(5), 0, 2, 1, 1, 9));
    const st_loss l = st_cross_entropy(.ignore_index = 9);
    ptrdiff_t matrix[9], expected[9] = { 1, 0, 0, 1, 0, 1, 0, 1, 0 };
    assert_int_equal(st_confusion_matrix(n, d, l, matrix), 0);
    assert_memory_equal(matrix, expected, sizeof matrix);
    assert_true(st_top_k_accuracy(n, d, l, 1) == 0.25); /* of equal outputs the first is the largest */
    assert_true(st_top_k_accuracy(n, d, l, 2) == 1);
    assert_true(st_top_k_accuracy(n, d, l, 9) == 1);
    assert_true(isnan(st_top_k_accuracy(n, d, l, 0)));
    expect_error("st_top_k_accuracy: k is 0");
    expect_failure(st_confusion_matrix(n, d, l, NULL), "NULL");
    expect_failure(st_confusion_matrix(n, d, st_cross_entropy(), matrix), "sample 4: class 9");
    expect_failure(st_confusion_matrix(n, d, st_mse(), matrix),
                   "st_confusion_matrix: outputs [3] and targets []");
    expect_failure(st_confusion_matrix(NULL, d, l, matrix), "st_confusion_matrix before st_net_build");
}

/* Two pixels of three classes: the second largest and the largest; then the last and the second largest. */
TEST(confusion_and_top_k_count_pixels)
{
    auto_net *n = identity(ST_SHAPE(3, 1, 2));
    auto_dataset *d = st_dataset_owned(tensor_of(ST_SHAPE(2, 3, 1, 2), 5, 1, 4, 9, 3, 2, 1, 6, 2, 5, 3, 4),
                                       tensor_of(ST_SHAPE(2, 1, 2), 1, 1, 0, 1));
    ptrdiff_t matrix[9], expected[9] = { 0, 0, 1, 2, 1, 0, 0, 0, 0 };
    assert_int_equal(st_confusion_matrix(n, d, st_cross_entropy(), matrix), 0);
    assert_memory_equal(matrix, expected, sizeof matrix);
    assert_true(st_top_k_accuracy(n, d, st_cross_entropy(), 1) == 0.25);
    assert_true(st_top_k_accuracy(n, d, st_cross_entropy(), 2) == 0.75);
}

/* Segmentation: a 1x1 convolution learns which of two colours a pixel has, and the trainer counts pixels. */
TEST(the_trainer_counts_pixels)
{
    dice d = { { 34 } };
    auto_tensor x = roll_tensor(&d, ST_SHAPE(8, 1, 3, 3), 0, 1), target = st_tensor_new(ST_SHAPE(8, 3, 3));
    st_copy(st_reshape(target, x.shape), x);
    *element(target, 0) = -100;
    auto_dataset *set = st_dataset_tensors(x, target);
    auto_net *n = st_net_new(ST_SHAPE(1, 3, 3), st_conv2d(.out_channels = 2, .kernel = { 1 }));
    auto_optim *o = st_sgd(.lr = 1);
    st_train_result r;
    assert_int_equal(st_train(n, set, .epochs = 20, .batch = 4, .micro_batches = 2,
                              .loss = st_cross_entropy(), .optim = o, .validation = set, .result = &r),
                     0);
    assert_true(r.training.accuracy == 1 && r.validation.accuracy == 1);
}
