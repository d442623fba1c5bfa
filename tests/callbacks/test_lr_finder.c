/* test_lr_finder.c: the finder of learning rates raises the rate as it says, finds one that trains, and
 * refuses a loss that tells nothing. */
#include "tests/support.h"

#include "nn/callbacks/callbacks.h"
#include "nn/data/digits.h"

#include <math.h>
#include <stdlib.h>

enum { DIGITS = 1000, UNSEEN = 500 };

static st_net *some_net(uint64_t seed)
{
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_flatten(), st_dense(.out_features = 32), st_relu(),
                           st_dense(.out_features = 10));
    assert_non_null(n);
    assert_int_equal(st_net_build(n, 32, seed), 0);
    return n;
}

static double cross_entropy_below_zero(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return st_loss_value(st_cross_entropy(), y, target, dy) - 100;
}

static double constant(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    st_fill(dy, 0);
    return 7;
}

static const st_loss_kind below_zero = { .name = "below zero",
                                         .classes = true,
                                         .value = cross_entropy_below_zero },
                          constant_kind = { .name = "constant", .classes = true, .value = constant };

/* ---- rates --------------------------------------------------------------------------------------- */

typedef struct diary {
    int steps;
    double lr[64];
} diary;

static void write_rate(st_callback *self, st_run *run, st_event event)
{
    diary *d = self->context;
    if (event == ST_ON_STEP) d->lr[d->steps++] = run->report.lr;
}

TEST(rates_rise_from_the_least_to_the_most)
{
    auto_dataset *digits = st_digits(64, 1);
    auto_net *n = some_net(1);
    auto_optim *o = st_sgd(.lr = 1);
    diary d = { 0 };
    double lr = 77;
    expect_failure(st_train(n, digits, .loss = st_loss_new(&constant_kind, NULL), .optim = o, .batch = 32,
                            .callbacks = { st_lr_finder(.lr = &lr, .least = 0.001, .most = 1, .steps = 31),
                                           { "diary", write_rate, &d } }),
                   "lr_finder: from a rate of 0.00199526 to 1 the loss falls by 0, no more than its noise");
    assert_int_equal(d.steps, 30); /* at the last rate the finder stops before the step */
    for (int i = 0; i < d.steps; i++) assert_close(d.lr[i], pow(10, -3 + i / 10.0), 1e-12);
    assert_true(lr == 77);
}

/* ---- losses -------------------------------------------------------------------------------------- */

/* The rate found, or 77 with an error. */
static double found(st_loss l, double least, double most)
{
    auto_dataset *digits = st_digits(DIGITS, 1);
    auto_net *n = some_net(1);
    auto_optim *o = st_adam();
    auto_tensor before = st_tensor_clone(st_net_parameters(n));
    double lr = 77;
    n->step = 3; /* draws of dropout */
    st_train(n, digits, .loss = l, .optim = o, .batch = 32,
             .callbacks = { st_lr_finder(.lr = &lr, .least = least, .most = most) });
    assert_same(st_net_parameters(n), before);
    assert_int_equal(n->step, 3);
    assert_int_equal(o->steps, 0);
    return lr;
}

/* The steepest fall is at about a hundredth for Adam, and the constant changes nothing but roundings. */
TEST(a_loss_below_zero_has_the_rate_of_the_same_loss_above)
{
    const double rate = found(st_cross_entropy(), 0, 0);
    assert_null(st_error());
    assert_true(rate > 1e-4 && rate < 0.05);
    assert_true(found(st_loss_new(&below_zero, NULL), 0, 0) == rate);
    assert_null(st_error());
}

TEST(a_loss_that_tells_nothing_is_refused)
{
    assert_true(found(st_cross_entropy(), 1e-12, 1e-10) == 77);
    expect_error("no more than its noise");
    assert_true(found(st_cross_entropy(), 1e-5, 1e-3) == 77);
    expect_error("lr_finder: the loss still falls at a rate of 0.001; a greater `most` may help");
    assert_true(found(st_cross_entropy(), 100, 1000) == 77);
    expect_error("lr_finder: the loss does not fall below the 2.");
}

/* ---- a script -------------------------------------------------------------------------------------- */

enum { MOST_STEPS = 400 };

/* The losses of a run, step by step, and what of them is expected by the finder's description. */
static struct script {
    int steps, at;
    double loss[MOST_STEPS];
} script;

static double scripted(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    st_fill(dy, 0);
    return script.loss[script.at++];
}

static const st_loss_kind scripted_kind = { .name = "scripted", .classes = true, .value = scripted };

/* Level, then a fall to 0 that is steepest in its middle, then a rise; noise of either sign, step by step. */
static void write_script(dice *d, double noise)
{
    const int steps = script.steps = (int)roll(d, 60, MOST_STEPS), begin = (int)roll(d, steps / 4, steps / 2),
              end = begin + (int)roll(d, steps / 6, steps / 3);
    for (int i = 0; i < steps; i++) {
        const double part = i < begin ? 0 : i < end ? (double)(i - begin) / (end - begin) : 1;
        script.loss[i] = 2 - part * part * (3 - 2 * part) + (i % 2 ? noise : -noise);
        if (i > end) script.loss[i] += 0.001 * (i - end) * (i - end);
    }
    script.at = 0;
}

/* The mean of all losses up to this one, in which each counts 1 - 10 / steps times as much as the next. */
static double smoothed(int step)
{
    double sum = 0, weights = 0;
    for (int i = 0; i <= step; i++) {
        const double weight = pow(1 - 10.0 / script.steps, step - i);
        sum += weight * script.loss[i], weights += weight;
    }
    return sum / weights;
}

static double rate_at(int step)
{
    return pow(10, -5 + 6.0 * step / (script.steps - 1));
}

static double expected(void)
{
    const int first = script.steps / 10, half = script.steps < 40 ? 1 : script.steps / 20;
    int lowest = first, steepest = first + half;
    for (int i = first; i < script.at; i++)
        if (smoothed(i) < smoothed(lowest)) lowest = i;
    for (int i = first + half; i + half <= lowest; i++)
        if (smoothed(i + half) - smoothed(i - half) < smoothed(steepest + half) - smoothed(steepest - half))
            steepest = i;
    return fmin(rate_at(steepest), rate_at(lowest) / 10);
}

/* 77 with an error. The loss is the script's, whatever the net computes. */
static double found_in_script(void)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(64, 1)), y = st_tensor_new(ST_SHAPE(64));
    auto_dataset *d = st_dataset_tensors(x, y);
    auto_net *n = st_net_new(ST_SHAPE(1), st_dense(.out_features = 10));
    auto_optim *o = st_sgd(.lr = 1);
    double lr = 77;
    st_train(n, d, .loss = st_loss_new(&scripted_kind, NULL), .optim = o, .batch = 32,
             .callbacks = { st_lr_finder(.lr = &lr, .least = 1e-5, .most = 10, .steps = script.steps) });
    return lr;
}

TEST(the_rate_is_at_the_steepest_fall_or_a_tenth_of_the_minimums)
{
    dice d = { { 12 } };
    for (int i = 0; i < 20; i++) {
        write_script(&d, 0);
        about("script %d of %d steps", i, script.steps);
        const double lr = found_in_script();
        assert_null(st_error());
        assert_close(lr, expected(), 1e-9);
    }
}

/* A noise of ±n changes by 2 n from step to step; the loss falls by a little less than 1. */
TEST(a_fall_is_refused_where_noise_is_as_large)
{
    dice d = { { 13 } };
    for (int i = 0; i < 10; i++) {
        write_script(&d, 0.2);
        assert_true(found_in_script() < 77);
        assert_null(st_error());
        write_script(&d, 0.4);
        assert_true(found_in_script() == 77);
        expect_error("no more than its noise of 0.");
    }
}

TEST(a_loss_that_is_not_finite_from_the_first_step_on_is_refused)
{
    write_script(&(dice){ { 1 } }, 0);
    script.loss[0] = NAN;
    assert_true(found_in_script() == 77);
    expect_error("lr_finder: the loss of the first step is not finite");
}

static void stop_at_once(st_callback *self, st_run *run, st_event event)
{
    (void)self;
    if (event == ST_ON_BEGIN) run->stop = true;
}

TEST(a_run_that_is_stopped_before_its_first_step_is_refused)
{
    double lr = 77;
    auto_net *n = st_net_new(ST_SHAPE(1), st_dense(.out_features = 1));
    auto_optim *o = st_sgd(.lr = 1);
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 1)), y = st_tensor_new(ST_SHAPE(4, 1));
    auto_dataset *d = st_dataset_tensors(x, y);
    expect_failure(st_train(n, d, .loss = st_mse(), .optim = o,
                            .callbacks = { st_lr_finder(.lr = &lr), { "stop", stop_at_once } }),
                   "lr_finder: the run was stopped before its first step");
    assert_true(lr == 77);
}

/* ---- it trains ------------------------------------------------------------------------------------- */

enum { EPOCHS = 6, NETS = 2, OPTIMIZERS = 3 };

static st_net *net(int which, uint64_t seed)
{
    if (which == 0) return some_net(seed);
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_avgpool(.kernel = { 2 }),
                           st_conv2d(.out_channels = 6, .kernel = { 5 }), st_relu(),
                           st_maxpool(.kernel = { 2 }), st_flatten(), st_dense(.out_features = 10));
    assert_int_equal(st_net_build(n, 32, seed), 0);
    return n;
}

static st_optim *optimizer(int which, double lr)
{
    return which == 0 ? st_sgd(.lr = lr) : which == 1 ? st_sgd(.lr = lr, .momentum = 0.9) : st_adam(.lr = lr);
}

/* The accuracy on unseen digits after six epochs at the rate found. */
static double trained(int which_net, int which, uint64_t seed, const st_dataset *digits,
                      const st_dataset *unseen)
{
    auto_net *n = net(which_net, seed);
    auto_optim *finding = optimizer(which, 1e-3);
    double lr = 77;
    st_metrics score;
    if (st_train(n, digits, .loss = st_cross_entropy(), .optim = finding, .batch = 32, .seed = seed,
                 .callbacks = { st_lr_finder(.lr = &lr) }))
        fail_msg("%s", st_error());
    auto_optim *o = optimizer(which, lr);
    if (st_train(n, digits, .loss = st_cross_entropy(), .optim = o, .batch = 32, .epochs = EPOCHS,
                 .seed = seed)) {
        st_error_clear();
        return 0;
    }
    assert_int_equal(st_evaluate(n, unseen, st_cross_entropy(), &score), 0);
    return score.accuracy;
}

/* Every net of a seed reads the same digits, which are drawn once. A guess is right for 0.1 of the digits,
 * and so is a net whose rate is ten times as high. */
TEST(the_rate_found_trains_for_every_seed)
{
    auto_dataset *drawn = st_digits(UNSEEN, 99);
    auto_tensor images = st_tensor_new(ST_SHAPE(UNSEEN, 1, 28, 28)),
                classes = st_tensor_new(ST_SHAPE(UNSEEN)), x = st_tensor_new(ST_SHAPE(DIGITS, 1, 28, 28)),
                y = st_tensor_new(ST_SHAPE(DIGITS));
    assert_int_equal(st_dataset_batch(drawn, NULL, 0, UNSEEN, images, classes), 0);
    auto_dataset *unseen = st_dataset_tensors(images, classes), *digits = st_dataset_tensors(x, y);
    const char *fast = getenv("STRIDE_FAST");
    const int seeds = fast && fast[0] ? 2 : 3, threads = st_num_threads();
    int good[NETS * OPTIMIZERS] = { 0 };
    st_set_num_threads(1); /* batches are too small for more */
    for (uint64_t seed = 1; seed <= (uint64_t)seeds; seed++) {
        auto_dataset *of_seed = st_digits(DIGITS, seed);
        assert_int_equal(st_dataset_batch(of_seed, NULL, 0, DIGITS, x, y), 0);
        for (int of = 0; of < NETS * OPTIMIZERS; of++)
            good[of] += trained(of / OPTIMIZERS, of % OPTIMIZERS, seed, digits, unseen) > 0.5;
    }
    st_set_num_threads(threads);
    for (int of = 0; of < NETS * OPTIMIZERS; of++) {
        about("net %d, optimizer %d: %d of %d", of / OPTIMIZERS, of % OPTIMIZERS, good[of], seeds);
        assert_int_equal(good[of], seeds);
    }
}
