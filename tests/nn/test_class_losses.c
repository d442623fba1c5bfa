/* test_class_losses.c: weights, ignored classes, probabilities as targets and targets for each pixel.
 *
 * The oracle is the definition in PyTorch's documentation, written here position by position in long double:
 * [N, K, H, W] is read by its indices, and the weighted mean is taken at the end. */
#include "tests/support.h"

#include "nn/train.h"

#include <math.h>
#include <string.h>

/* ---- cases -------------------------------------------------------------------------------------- */

typedef enum kind { CLASSES, PROBABILITIES, LOG_PROBABILITIES, BINARY, KINDS } kind;

/* A loss, and its y and target. */
typedef struct problem {
    kind kind;
    st_tensor y, target, weight; /* weight may be null */
    double smoothing, ignored;
    st_loss loss;
} problem;

static problem roll_problem(dice *d, kind of)
{
    const ptrdiff_t n = roll(d, 1, 4), k = roll(d, 2, 5), h = roll(d, 1, 3), w = roll(d, 1, 3);
    const bool flat = chance(d, 30);
    problem p = { .kind = of, .ignored = -100 };
    st_shape all = flat ? ST_SHAPE(n, k) : ST_SHAPE(n, k, h, w);
    st_shape classes = flat ? ST_SHAPE(n) : ST_SHAPE(n, h, w);
    p.y = roll_tensor(d, all, -128, 128);
    st_scale(p.y, (st_real)1 / 32);
    if (of == CLASSES || of == LOG_PROBABILITIES) {
        p.target = roll_tensor(d, classes, 0, k - 1);
        if (chance(d, 50)) p.ignored = (double)roll(d, 0, k - 1);
        else if (st_numel(p.target) > 1 && chance(d, 50)) *element(p.target, 0) = -100;
        if (p.ignored >= 0 && k > 1) *element(p.target, 0) = p.ignored == 0 ? 1 : 0; /* one counts */
    } else {
        p.target = roll_tensor(d, all, 0, 16);
        st_scale(p.target, (st_real)1 / 16);
    }
    if (chance(d, 60)) {
        p.weight = of == BINARY && !flat ? roll_tensor(d, ST_SHAPE(k, 1, 1), 1, 32)
                                         : roll_tensor(d, ST_SHAPE(k), 1, 32);
        st_scale(p.weight, (st_real)1 / 8);
    }
    if (of < LOG_PROBABILITIES && chance(d, 50)) p.smoothing = (double)roll(d, 1, 15) / 16;
    const double ignored = p.ignored == 0 ? ST_ZERO : p.ignored;
    p.loss = of == BINARY              ? st_bce_with_logits(.pos_weight = p.weight)
             : of == LOG_PROBABILITIES ? st_nll(.weight = p.weight, .ignore_index = ignored)
                                       : st_cross_entropy(.label_smoothing = p.smoothing, .weight = p.weight,
                                                          .ignore_index = ignored);
    return p;
}

static void problem_free(problem p)
{
    st_tensor_free(p.y), st_tensor_free(p.target), st_tensor_free(p.weight);
}

/* ---- the definitions ----------------------------------------------------------------------------- */

static long double weight_of(const problem *p, ptrdiff_t k)
{
    return st_is_null(p->weight) ? 1 : (long double)*element(p->weight, k);
}

static long double binary_mean(const problem *p)
{
    long double sum = 0;
    for (ptrdiff_t e = 0; e < st_numel(p->y); e++) {
        long double y = *element(p->y, e), t = *element(p->target, e), s = 1 / (1 + expl(-y));
        sum -= weight_of(p, index_of(p->y.shape, e).n[1]) * t * logl(s) + (1 - t) * logl(1 - s);
    }
    return sum / (long double)st_numel(p->y);
}

static long double defined(const problem *p)
{
    if (p->kind == BINARY) return binary_mean(p);
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

static void about_problem(const problem *p, int i)
{
    about("case %d: %s of %s, smoothing %g, ignored %g, %s", i, p->loss.name, st_shape_text(p->y.shape).text,
          p->smoothing, p->ignored, st_is_null(p->weight) ? "no weights" : "weights");
}

TEST(each_loss_is_its_definition)
{
    dice d = { { 31 } };
    for (int i = 0; i < 400; i++) {
        problem p = roll_problem(&d, (kind)(i % KINDS));
        double expected = (double)defined(&p), value = st_loss_value(p.loss, p.y, p.target, (st_tensor){ 0 });
        about_problem(&p, i);
        if (!(fabs(value - expected) <= 1e-12 * fmax(1, fabs(expected))))
            fail_msg("%s: %.17g, by its definition %.17g", p.loss.name, value, expected);
        problem_free(p);
    }
}

/* Central differences with a step that y can take exactly; f''' leaves 2e-8 times the largest weight. */
TEST(dy_is_the_derivative)
{
    dice d = { { 32 } };
    const st_real step = (st_real)1 / 4096;
    for (int i = 0; i < 120; i++) {
        problem p = roll_problem(&d, (kind)(i % KINDS));
        st_tensor dy = st_tensor_new(p.y.shape);
        st_fill(dy, 77);
        assert_true(isfinite(st_loss_value(p.loss, p.y, p.target, dy)));
        for (ptrdiff_t e = 0; e < st_numel(p.y); e++) {
            st_real at = *element(p.y, e);
            *element(p.y, e) = at + step;
            double above = (double)defined(&p);
            *element(p.y, e) = at - step;
            double slope = (above - (double)defined(&p)) / (2 * (double)step),
                   given = (double)*element(dy, e);
            *element(p.y, e) = at;
            about_problem(&p, i);
            if (!(fabs(given - slope) <= 8e-8 + (double)ST_REAL_EPSILON * fabs(slope)))
                fail_msg("%s: dy[%td] is %.9g, the difference quotient is %.9g", p.loss.name, e, given,
                         slope);
        }
        st_tensor_free(dy), problem_free(p);
    }
}

/* Pixels innermost or channels innermost: the same numbers to the last bit. */
TEST(views_give_the_same_bits)
{
    dice d = { { 33 } };
    for (int i = 0; i < 80; i++) {
        problem p = roll_problem(&d, (kind)(i % KINDS));
        st_tensor y = roll_view(&d, p.y.shape, NULL), dy = st_tensor_new(p.y.shape),
                  slope = roll_view(&d, p.y.shape, NULL);
        st_copy(y, p.y);
        about_problem(&p, i);
        double value = st_loss_value(p.loss, p.y, p.target, dy);
        assert_true(value == st_loss_value(p.loss, y, p.target, slope));
        assert_same(slope, dy);
        st_tensor_free(y), st_tensor_free(dy), st_tensor_free(slope), problem_free(p);
    }
}

/* ---- exact numbers ------------------------------------------------------------------------------- */

/* Log-probabilities and weights of small integers: (2 * 3 + 2 * 5 + 4 * 7) / (2 + 2 + 4) = 5.5. */
TEST(small_integers_are_exact)
{
    st_tensor y = tensor_of(ST_SHAPE(4, 2), -3, -1, -5, -2, -9, -7, -8, -6),
              dy = st_tensor_new(ST_SHAPE(4, 2)), target = tensor_of(ST_SHAPE(4), 0, 0, 1, -100),
              weight = tensor_of(ST_SHAPE(2), 2, 4);
    assert_true(st_loss_value(st_nll(.weight = weight), y, target, dy) == 5.5);
    assert_elements(dy, -0.25, 0, -0.25, 0, 0, -0.5, 0, 0);
    st_tensor zeros = st_tensor_new(ST_SHAPE(4, 2));
    st_loss_value(st_cross_entropy(.weight = weight), zeros, target, dy); /* softmax: a half each */
    assert_elements(dy, -0.125, 0.125, -0.125, 0.125, 0.25, -0.25, 0, 0);
    *element(target, 1) = 1, *element(target, 2) = 0, *element(target, 3) = 0;
    st_loss_value(st_cross_entropy(.ignore_index = ST_ZERO), zeros, target, dy);
    assert_elements(dy, 0, 0, 0.5, -0.5, 0, 0, 0, 0);
    st_tensor halves = tensor_of(ST_SHAPE(4, 2), 1, 0, 0.5, 0.5, 0, 1, 0, 2); /* the last sums to 2 */
    st_loss_value(st_cross_entropy(), zeros, halves, dy);
    assert_elements(dy, -0.125, 0.125, 0, 0, 0.125, -0.125, 0.25, -0.25);
    st_loss_value(st_bce_with_logits(.pos_weight = weight), zeros, halves, dy);
    assert_elements(dy, -0.125, 0.0625, -0.03125, -0.09375, 0.0625, -0.25, 0.0625, -0.5625);
    st_tensor_free(y), st_tensor_free(dy), st_tensor_free(target), st_tensor_free(weight);
    st_tensor_free(zeros), st_tensor_free(halves);
}

/* As in PyTorch, 0 / 0; and nothing is learnt. */
TEST(a_batch_of_ignored_targets_has_no_mean)
{
    st_tensor y = tensor_of(ST_SHAPE(2, 2), 1, 2, 3, 4), target = tensor_of(ST_SHAPE(2), 1, 1),
              dy = full(ST_SHAPE(2, 2), 7);
    assert_true(isnan(st_loss_value(st_cross_entropy(.ignore_index = 1), y, target, dy)));
    assert_null(st_error());
    assert_elements(dy, 0, 0, 0, 0);
    st_tensor_free(y), st_tensor_free(target), st_tensor_free(dy);
}

/* ---- refusals ------------------------------------------------------------------------------------ */

TEST(what_does_not_fit_is_refused)
{
    st_tensor two = full(ST_SHAPE(2), 1), grid = full(ST_SHAPE(3, 1), 1);
    const st_shape pixels = ST_SHAPE(2, 3, 4, 5);
    const struct {
        st_loss loss;
        st_shape y, target;
        double class;
        const char *error;
    } cases[] = {
        { st_cross_entropy(), pixels, ST_SHAPE(2, 4), 0,
          "y [2, 3, 4, 5] and target [2, 4], expected [N, K, ...]" },
        { st_cross_entropy(), pixels, ST_SHAPE(2, 5, 4), 0, "target [2, 5, 4]" },
        { st_cross_entropy(), pixels, ST_SHAPE(2, 4, 5), 3, "target[0] is 3, expected a class from 0 to 2" },
        { st_cross_entropy(.ignore_index = 7), pixels, ST_SHAPE(2, 4, 5), 8, "target[0] is 8" },
        { st_nll(), pixels, pixels, 0, "loss nll: y [2, 3, 4, 5] and target [2, 3, 4, 5]" },
        { st_nll(), ST_SHAPE(3), ST_SHAPE(3), 0, "loss nll: y [3]" },
        { st_cross_entropy(.weight = two), pixels, ST_SHAPE(2, 4, 5), 0, "expected a weight for each class" },
        { st_nll(.weight = grid), pixels, ST_SHAPE(2, 4, 5), 0, "expected a weight for each class" },
        { st_bce_with_logits(.pos_weight = two), pixels, pixels, 0, "loss bce_with_logits: weight: " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        st_tensor y = st_tensor_new(cases[i].y), target = full(cases[i].target, cases[i].class),
                  dy = full(cases[i].y, 77), before = full(cases[i].y, 77);
        about("case %zu", i);
        assert_true(isnan(st_loss_value(cases[i].loss, y, target, dy)));
        expect_error("%s", cases[i].error);
        assert_same(dy, before);
        st_tensor_free(y), st_tensor_free(target), st_tensor_free(dy), st_tensor_free(before);
    }
    st_cross_entropy(.ignore_index = NAN);
    expect_error("cross_entropy: ignore_index is nan");
    st_nll(.ignore_index = -INFINITY);
    expect_error("nll: ignore_index is -inf");
    st_tensor_free(two), st_tensor_free(grid);
}

/* ---- accuracy ------------------------------------------------------------------------------------ */

/* A net that returns its input, and a set of it. */
static st_net *identity(st_shape x)
{
    st_net *n = st_net_new(x, st_identity());
    assert_int_equal(st_net_build(n, 2, 0), 0);
    return n;
}

static void accuracy_is(st_shape x, st_tensor inputs, st_tensor targets, st_loss l, double expected)
{
    st_net *n = identity(x);
    st_dataset *d = st_dataset_owned(inputs, targets);
    st_metrics score;
    assert_int_equal(st_evaluate(n, d, l, &score), 0);
    if (!(score.accuracy == expected)) fail_msg("accuracy %g, expected %g", score.accuracy, expected);
    st_dataset_free(d), st_net_free(n);
}

TEST(accuracy_counts_pixels_and_binary_outputs)
{
    about("pixels: 3 of 4 that are not ignored, in batches of 2 of 3 images");
    accuracy_is(ST_SHAPE(2, 1, 2), tensor_of(ST_SHAPE(3, 2, 1, 2), 1, 0, 0, 1, 0, 0, 9, 9, 5, 5, 4, 6),
                tensor_of(ST_SHAPE(3, 1, 2), 0, 0, 7, 1, 0, 7), st_cross_entropy(.ignore_index = 7), 0.75);
    about("several labels: 4 of 6; an output of 0 is on the side of 0");
    accuracy_is(ST_SHAPE(2), tensor_of(ST_SHAPE(3, 2), 1, -1, 0, 2, -3, 0),
                tensor_of(ST_SHAPE(3, 2), 1, 1, 0, 0, 0, 0), st_bce_with_logits(), 4.0 / 6);
    about("one output: 1 of 2");
    accuracy_is(ST_SHAPE(1), tensor_of(ST_SHAPE(2, 1), 3, 1), tensor_of(ST_SHAPE(2, 1), 1, 0),
                st_bce_with_logits(), 0.5);
}

TEST(confusion_and_top_k_count_by_hand)
{
    st_net *n = identity(ST_SHAPE(3));
    st_dataset *d = st_dataset_owned(tensor_of(ST_SHAPE(5, 3), 3, 1, 2, 0, 5, 4, 1, 2, 3, 7, 7, 7, 1, 0, 0),
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
    assert_int_equal(st_confusion_matrix(n, d, l, NULL), -1);
    expect_error("the matrix is NULL");
    assert_int_equal(st_confusion_matrix(n, d, st_cross_entropy(), matrix), -1);
    expect_error("sample 4: class 9 is out of range");
    assert_int_equal(st_confusion_matrix(n, d, st_mse(), matrix), -1);
    expect_error("st_confusion_matrix: outputs [3] and targets []");
    assert_int_equal(st_confusion_matrix(NULL, d, l, matrix), -1);
    expect_error("st_confusion_matrix before st_net_build");
    st_dataset_free(d), st_net_free(n);
}

/* Two pixels of three classes: the second largest and the largest; then the last and the second largest. */
TEST(confusion_and_top_k_count_pixels)
{
    st_net *n = identity(ST_SHAPE(3, 1, 2));
    st_dataset *d = st_dataset_owned(tensor_of(ST_SHAPE(2, 3, 1, 2), 5, 1, 4, 9, 3, 2, 1, 6, 2, 5, 3, 4),
                                     tensor_of(ST_SHAPE(2, 1, 2), 1, 1, 0, 1));
    ptrdiff_t matrix[9], expected[9] = { 0, 0, 1, 2, 1, 0, 0, 0, 0 };
    assert_int_equal(st_confusion_matrix(n, d, st_cross_entropy(), matrix), 0);
    assert_memory_equal(matrix, expected, sizeof matrix);
    assert_true(st_top_k_accuracy(n, d, st_cross_entropy(), 1) == 0.25);
    assert_true(st_top_k_accuracy(n, d, st_cross_entropy(), 2) == 0.75);
    st_dataset_free(d), st_net_free(n);
}

/* Segmentation: a 1x1 convolution learns which of two colours a pixel has, and the trainer counts pixels. */
TEST(the_trainer_counts_pixels)
{
    dice d = { { 34 } };
    st_tensor x = roll_tensor(&d, ST_SHAPE(8, 1, 3, 3), 0, 1), target = st_tensor_new(ST_SHAPE(8, 3, 3));
    st_copy(st_reshape(target, x.shape), x);
    *element(target, 0) = -100;
    st_dataset *set = st_dataset_tensors(x, target);
    st_net *n = st_net_new(ST_SHAPE(1, 3, 3), st_conv2d(.out_channels = 2, .kernel = { 1 }));
    st_optim *o = st_sgd(.lr = 1);
    st_train_result r;
    assert_int_equal(st_train(n, set, .epochs = 20, .batch = 4, .micro_batches = 2,
                              .loss = st_cross_entropy(), .optim = o, .validation = set, .result = &r),
                     0);
    assert_true(r.training.accuracy == 1 && r.validation.accuracy == 1);
    st_optim_free(o), st_net_free(n), st_dataset_free(set), st_tensor_free(x), st_tensor_free(target);
}
