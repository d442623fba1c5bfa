/* test_means.c: the mean loss of a batch or a set, and its gradient, do not depend on how it is cut: into
 * micro-batches, ranks, threads, or batches of evaluation.
 *
 * The oracle is the whole batch in a single process; tests/nn/test_loss.c holds its losses against their
 * definitions. */
#include "tests/ranks/together.h"
#include "tests/support.h"

#include "nn/check/scores.h"
#include "nn/data/sets.h"
#include "tensor/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int enter(void **state)
{
    (void)state;
    alarm(500); /* ranks that lose each other would wait forever */
    share_all_work();
    return 0;
}
SETUP(enter)

/* ---- random losses ------------------------------------------------------------------------------- */

typedef enum kind { CLASSES, PROBABILITIES, LOG_PROBABILITIES, BINARY, SQUARED, HUBER, OWN, KINDS } kind;

enum { SAMPLES = 11, BATCH = 7, FEATURES = 3, MOST_OUTPUTS = 5 }; /* the last batch is of 4 */

/* A loss and its samples, which all ranks read. */
static struct problem {
    kind kind;
    ptrdiff_t outputs, height; /* of an image; height 0: no pixels */
    st_tensor x, target, weight;
    st_loss loss;
} problem;

static st_shape images_of(ptrdiff_t channels)
{
    return problem.height ? ST_SHAPE(SAMPLES, channels, problem.height, 2) : ST_SHAPE(SAMPLES, channels);
}

/* A loss without a weight: the mean over the images of the sum of log cosh. */
static double log_cosh(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    const double images = (double)y.shape.n[0];
    double sum = 0;
    (void)l;
    for (ptrdiff_t e = 0; e < st_numel(y); e++) {
        double d = (double)(*element(y, e) - *element(target, e));
        sum += log(cosh(d));
        if (!st_is_null(dy)) *element(dy, e) = (st_real)(tanh(d) / images);
    }
    return sum / images;
}

static const st_loss_kind log_cosh_kind = { .name = "log_cosh", .value = log_cosh };

/* Quarters up to 3; class 0 has none at times, the last one has 3. */
static st_tensor roll_weights(dice *d, st_shape s)
{
    st_tensor w = roll_tensor(d, s, 0, 12);
    st_scale(w, (st_real)0.25);
    if (chance(d, 50)) *element(w, 0) = 0;
    *element(w, st_numel(w) - 1) = 3;
    return w;
}

/* Classes, of which some do not count: all of the first images, at times. The last image of each batch has
 * the last class alone, which counts. Returns the class that is ignored. */
static double roll_classes(dice *d)
{
    const ptrdiff_t area = problem.height ? 2 * problem.height : 1;
    const double ignored = chance(d, 50) ? -100 : (double)roll(d, 0, problem.outputs - 2);
    const ptrdiff_t without = chance(d, 50) ? roll(d, 1, 4) * area : 0;
    const double missing = chance(d, 50) ? ignored : 0;
    problem.target = roll_tensor(d, problem.height ? ST_SHAPE(SAMPLES, problem.height, 2) : ST_SHAPE(SAMPLES),
                                 0, problem.outputs - 1);
    for (ptrdiff_t i = 0; i < SAMPLES * area; i++) {
        if (i < without) *element(problem.target, i) = (st_real)missing;
        else if (chance(d, 20)) *element(problem.target, i) = (st_real)ignored;
        if (i / area == BATCH - 1 || i / area == SAMPLES - 1)
            *element(problem.target, i) = (st_real)(problem.outputs - 1);
    }
    return ignored;
}

static void roll_problem(dice *d, kind of)
{
    problem = (struct problem){ .kind = of, .outputs = roll(d, 2, MOST_OUTPUTS), .height = roll(d, 0, 3) };
    const double smoothing = chance(d, 50) ? (double)roll(d, 1, 15) / 16 : 0;
    const ptrdiff_t k = problem.outputs;
    double ignored = -100;
    problem.x = roll_tensor(d, images_of(FEATURES), -16, 16);
    st_scale(problem.x, (st_real)1 / 16);
    if (of == CLASSES || of == LOG_PROBABILITIES) ignored = roll_classes(d);
    else {
        problem.target = roll_tensor(d, images_of(k), 0, 16);
        st_scale(problem.target, (st_real)1 / 16);
    }
    if (ignored == 0) ignored = ST_ZERO;
    if (of <= BINARY && chance(d, 70))
        problem.weight = roll_weights(d, of == BINARY && problem.height ? ST_SHAPE(k, 1, 1) : ST_SHAPE(k));
    problem.loss = of == BINARY    ? st_bce_with_logits(.pos_weight = problem.weight)
                   : of == SQUARED ? st_mse()
                   : of == HUBER   ? st_huber(.delta = (double)roll(d, 1, 12) / 8)
                   : of == OWN     ? st_loss_new(&log_cosh_kind, NULL)
                   : of == LOG_PROBABILITIES
                       ? st_nll(.weight = problem.weight, .ignore_index = ignored)
                       : st_cross_entropy(.label_smoothing = smoothing, .weight = problem.weight,
                                          .ignore_index = ignored);
    about("%s of [%td, %td, ...], smoothing %g, ignored %g, %s", problem.loss.kind->name, k, problem.height,
          smoothing, ignored, st_is_null(problem.weight) ? "no weights" : "weights");
}

static void problem_free(void)
{
    st_tensor_free(problem.x), st_tensor_free(problem.target), st_tensor_free(problem.weight);
}

static st_dataset *samples(void)
{
    return st_dataset_tensors(problem.x, problem.target);
}

static st_net *linear(void)
{
    const int k = (int)problem.outputs;
    return st_net_new(st_shape_without_batch(problem.x.shape),
                      problem.height ? st_conv2d(.out_channels = k, .kernel = { 1 })
                                     : st_dense(.out_features = k),
                      problem.kind == LOG_PROBABILITIES ? st_log_softmax() : st_identity());
}

/* A loss that is not drawn here fails: see KINDS. */
TEST(every_kind_of_loss_is_drawn)
{
    dice d = { { 34 } };
    for (const st_loss_kind *const *k = st_loss_kinds; *k; k++) {
        bool drawn = false;
        for (int of = 0; of < KINDS; of++) {
            roll_problem(&d, (kind)of);
            drawn |= problem.loss.kind == *k;
            problem_free();
        }
        if (!drawn) fail_msg("no problem has the loss %s", (*k)->name);
    }
}

/* The loss of the last batch, as callbacks of each rank read it. */
static double last_loss[MOST_RANKS];

static void read_loss(st_callback *self, st_run *run, st_event event)
{
    if (event == ST_ON_STEP) last_loss[run->rank] = run->loss;
}

static void change(st_train_options *o, int rank)
{
    o->callbacks[0] = (st_callback){ "read_loss", read_loss };
    st_optim_free(o->optim);
    o->optim = st_sgd(.lr = 0.25);
    o->schedule = (st_schedule){ 0 };
    o->loss = problem.loss;
    o->keep_order = true;
}

/* ---- however it is cut --------------------------------------------------------------------------- */

static void near(const char *what, double a, double b, double limit)
{
    if (!(fabs(a - b) <= limit * fmax(1, fabs(b))))
        fail_msg("%s is %.17g, of the whole batch %.17g", what, a, b);
}

static void same_accuracy(double a, double b)
{
    if (!(isnan(a) && isnan(b)) && a != b) fail_msg("the accuracy is %.17g, of the whole batch %.17g", a, b);
}

static void assert_like(const outcome *got, const outcome *whole, double limit)
{
    if (got->status) fail_msg("%s", got->error);
    near("the training loss", got->result.training.loss, whole->result.training.loss, limit);
    near("the validation loss", got->result.validation.loss, whole->result.validation.loss, limit);
    same_accuracy(got->result.training.accuracy, whole->result.training.accuracy);
    same_accuracy(got->result.validation.accuracy, whole->result.validation.accuracy);
    for (ptrdiff_t i = 0; i < st_numel(whole->parameters); i++)
        near("a parameter", (double)*element(got->parameters, i), (double)*element(whole->parameters, i),
             limit);
}

static outcome by_one(const together *what)
{
    outcome out = train_together(what, NULL);
    if (out.status) fail_msg("%s", out.error);
    return out;
}

/* The bits of `one` at any number of ranks, and of threads. */
static void assert_ranks_like(const together *what, const outcome *one)
{
    outcome out[MOST_RANKS];
    for (int ranks = 2; ranks <= what->micro_batches; ranks++) {
        if (what->micro_batches % ranks) continue;
        train_by_threads(what, ranks, out);
        for (int q = 0; q < ranks; q++) {
            assert_like(&out[q], one, 0);
            assert_true(last_loss[q] == last_loss[0]);
            outcome_free(&out[q]);
        }
    }
    st_set_num_threads(3);
    out[0] = by_one(what);
    st_set_num_threads(0);
    assert_like(&out[0], one, 0);
    outcome_free(&out[0]);
}

/* Two steps, the second of an incomplete batch, and a validation. */
TEST(a_mean_is_the_same_however_a_batch_is_cut)
{
    const double limit = sizeof(st_real) == 8 ? 1e-12 : 1e-5;
    dice d = { { 35 } };
    for (int i = 0; i < 8 * KINDS; i++) {
        roll_problem(&d, (kind)(i % KINDS));
        together what = { .make = linear, .set = samples, .batch = BATCH, .epochs = 1, .change = change };
        outcome whole = by_one(&what);
        const double loss = last_loss[0];
        for (what.micro_batches = 1; what.micro_batches <= SAMPLES - BATCH; what.micro_batches++) {
            outcome cut = by_one(&what);
            assert_like(&cut, &whole, limit);
            near("the loss of the last batch", last_loss[0], loss, limit);
            if (i < KINDS) assert_ranks_like(&what, &cut);
            outcome_free(&cut);
        }
        outcome_free(&whole);
        problem_free();
    }
}

/* The confusion matrix, and the accuracy of the two largest outputs. */
typedef struct counts_of_set {
    ptrdiff_t matrix[MOST_OUTPUTS * MOST_OUTPUTS];
    double top_2;
} counts_of_set;

static bool is_of_classes(void)
{
    return problem.kind == CLASSES || problem.kind == LOG_PROBABILITIES;
}

static counts_of_set count_set(st_net *n, const st_dataset *set)
{
    counts_of_set c = { 0 };
    assert_int_equal(st_confusion_matrix(n, set, problem.loss, c.matrix), 0);
    c.top_2 = st_top_k_accuracy(n, set, problem.loss, 2);
    return c;
}

static void assert_same_counts(st_net *n, const st_dataset *set, const counts_of_set *whole)
{
    const counts_of_set cut = count_set(n, set);
    assert_memory_equal(cut.matrix, whole->matrix, sizeof cut.matrix);
    same_accuracy(cut.top_2, whole->top_2);
}

TEST(a_set_has_one_mean_in_batches_of_any_size)
{
    dice d = { { 36 } };
    for (int i = 0; i < 20 * KINDS; i++) {
        roll_problem(&d, (kind)(i % KINDS));
        auto_net *n = linear();
        auto_dataset *set = samples();
        st_metrics whole, cut;
        assert_int_equal(st_net_build(n, SAMPLES, 1), 0);
        assert_int_equal(st_evaluate(n, set, problem.loss, &whole), 0);
        auto_tensor y = st_tensor_clone(st_net_forward(n, problem.x, ST_EVAL));
        near("the loss of all outputs", st_loss_value(problem.loss, y, problem.target, (st_tensor){ 0 }),
             whole.loss, 1e-14);
        const counts_of_set counts = is_of_classes() ? count_set(n, set) : (counts_of_set){ 0 };
        for (ptrdiff_t batch = 1; batch < SAMPLES; batch++) {
            double sum = 0, weight = 0;
            assert_int_equal(st_net_build(n, batch, 1), 0);
            assert_int_equal(st_evaluate(n, set, problem.loss, &cut), 0);
            near("the loss", cut.loss, whole.loss, (double)ST_REAL_EPSILON * 100);
            same_accuracy(cut.accuracy, whole.accuracy);
            if (is_of_classes()) assert_same_counts(n, set, &counts);
            for (ptrdiff_t first = 0; first < SAMPLES; first += batch) { /* as a loop of one's own adds up */
                ptrdiff_t count = SAMPLES - first < batch ? SAMPLES - first : batch;
                st_tensor part = st_narrow(y, 0, first, count),
                          t = st_narrow(problem.target, 0, first, count);
                double of_part = st_loss_weight(problem.loss, part, t);
                if (of_part > 0) sum += st_loss_value(problem.loss, part, t, (st_tensor){ 0 }) * of_part;
                else sum = NAN; /* smoothing leaves a loss */
                weight += of_part;
            }
            if (!isnan(sum)) near("the sum of parts", sum / weight, whole.loss, 1e-13);
        }
        problem_free();
    }
}

/* ---- nothing that counts ------------------------------------------------------------------------- */

/* Six samples of two classes; a weight of 0 or ignoring leaves none of class 0. */
static st_dataset *six(double class)
{
    return st_dataset_owned(full(ST_SHAPE(6, FEATURES), 1), full(ST_SHAPE(6), class));
}

TEST(a_batch_in_which_nothing_counts_is_an_error)
{
    auto_tensor weight = tensor_of(ST_SHAPE(2), 0, 1);
    auto_dataset *none = six(0), *all = six(1);
    const st_loss losses[] = { st_cross_entropy(.ignore_index = ST_ZERO), st_cross_entropy(.weight = weight),
                               st_cross_entropy(.weight = weight, .label_smoothing = 0.5) };
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        for (int parts = 1; parts < 4; parts++) {
            about("loss %zu, %d micro-batches", i, parts);
            auto_net *n = st_net_new(ST_SHAPE(FEATURES), st_dense(.out_features = 2));
            auto_optim *o = st_sgd(.lr = 1);
            expect_failure(
                st_train(n, none, .loss = losses[i], .optim = o, .micro_batches = parts),
                "train: nothing counts in the batch of step 1 (epoch 1): all targets are ignored or have a "
                "class weight of 0");
            expect_failure(
                st_train(n, all, .loss = losses[i], .optim = o, .micro_batches = parts, .validation = none),
                "train: the validation set: nothing counts: all targets are ignored or have a class weight");
            expect_failure(
                st_evaluate(n, none, losses[i], &(st_metrics){ 0 }),
                "st_evaluate: nothing counts: all targets are ignored or have a class weight of 0");
        }
    }
}
