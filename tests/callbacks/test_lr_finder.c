/* test_lr_finder.c: the finder of learning rates raises the rate as it says, finds one that trains, and
 * refuses a loss that tells nothing. */
#include "tests/support.h"

#include "nn/callbacks/callbacks.h"
#include "nn/data/digits.h"

#include <math.h>

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
                   "lr_finder: the loss does not fall below the 7 that it begins with");
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
    st_train(n, digits, .loss = l, .optim = o, .batch = 32,
             .callbacks = { st_lr_finder(.lr = &lr, .least = least, .most = most) });
    assert_same(st_net_parameters(n), before);
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

/* ---- it trains ----------------------------------------------------------------------------------- */

static st_optim *optimizer(int which, double lr)
{
    return which == 0 ? st_sgd(.lr = lr) : which == 1 ? st_sgd(.lr = lr, .momentum = 0.9) : st_adam(.lr = lr);
}

/* The accuracy on unseen digits after six epochs at the rate found. */
static double trained(int which, uint64_t seed, const st_dataset *unseen)
{
    auto_dataset *digits = st_digits(DIGITS, seed);
    auto_net *n = some_net(seed);
    auto_optim *finding = optimizer(which, 1e-3);
    double lr = 77;
    st_metrics score;
    if (st_train(n, digits, .loss = st_cross_entropy(), .optim = finding, .batch = 32, .seed = seed,
                 .callbacks = { st_lr_finder(.lr = &lr) }))
        fail_msg("%s", st_error());
    auto_optim *o = optimizer(which, lr);
    if (st_train(n, digits, .loss = st_cross_entropy(), .optim = o, .batch = 32, .epochs = 6, .seed = seed)) {
        st_error_clear();
        return 0;
    }
    assert_int_equal(st_evaluate(n, unseen, st_cross_entropy(), &score), 0);
    return score.accuracy;
}

/* A guess is right at 0.1 of the digits, and a net whose rate is ten times as high does no better. */
TEST(the_rate_found_trains_for_nineteen_of_twenty_seeds)
{
    auto_dataset *unseen = st_digits(UNSEEN, 99);
    for (int which = 0; which < 3; which++) {
        int good = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) good += trained(which, seed, unseen) > 0.5;
        about("optimizer %d: %d of 20", which, good);
        assert_true(good >= 19);
    }
}
