/* test_reach.c: a step of an optimizer is taken as it is, or not at all where something would overflow.
 *
 * The oracle is the step itself, on a copy: reach_step changes what it changes, to the bit, where all of that is
 * finite, and nothing elsewhere. */
#include "tests/support.h"

#include "nn/watch/reach.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { COUNT = 70 };

/* ---- cases ------------------------------------------------------------------------------------------ */

/* Ten to a power that begins at `low` hundredths of what the precision has. */
static double roll_power(dice *d, int low, int high)
{
    const double most = log10((double)REAL_MAX);
    return fmin(pow(10, most * (double)roll(d, low, high) / 100), (double)REAL_MAX);
}

static double roll_beta(dice *d)
{
    return (double)roll(d, 1, 99) / 100;
}

static optim *roll_optim(dice *d)
{
    double lr = chance(d, 10) ? 1e-300 : roll_power(d, -20, chance(d, 20) ? 100 : 5);
    if (chance(d, 5)) lr = fmin(1e9 * roll_power(d, 90, 100), DBL_MAX); /* more than a real can be */
    double decay = chance(d, 50) ? 0 : roll_power(d, -20, chance(d, 10) ? 100 : 0);
    double epsilon = chance(d, 50) ? 0 : roll_power(d, chance(d, 10) ? -100 : -20, chance(d, 20) ? 60 : 0);
    double momentum = chance(d, 50) ? 0 : (double)roll(d, 1, 200) / 100;
    bool nesterov = momentum != 0 && chance(d, 50);
    switch (roll(d, 0, 3)) {
    case 0:
        return optim_sgd(
            (sgd){ lr, momentum, nesterov ? 0 : (double)roll(d, 0, 300) / 100, decay, nesterov });
    case 1: return optim_adam((adam){ lr, roll_beta(d), roll_beta(d), epsilon, decay });
    case 2: return optim_adamw((adam){ lr, roll_beta(d), roll_beta(d), epsilon, decay });
    default: return optim_rmsprop((rmsprop){ lr, roll_beta(d), epsilon, momentum, decay, chance(d, 50) });
    }
}

static tensor roll_numbers(dice *d, double scale)
{
    tensor x = roll_tensor(d, SHAPE(COUNT), -64, 64);
    for (ptrdiff_t i = 0; i < COUNT; i++) *element(x, i) = (real)(*element(x, i) / 64 * (real)scale);
    return x;
}

/* Of the same kind and state. */
static optim twin_of(const optim *o)
{
    optim twin = *o;
    for (int i = 0; i < o->states; i++) twin.state[i] = tensor_clone(o->state[i]);
    return twin;
}

static void free_twin(optim *twin)
{
    for (int i = 0; i < twin->states; i++) tensor_free(twin->state[i]);
}

static ptrdiff_t first_bad(tensor x)
{
    ptrdiff_t i = 0;
    while (i < COUNT && isfinite(*element(x, i))) i++;
    return i;
}

/* ---- claims ------------------------------------------------------------------------------------------ */

static void a_step_is_taken_or_nothing_is_changed(void **state)
{
    int taken = 0, refused = 0;
    for (unsigned seed = 1; seed <= 3000; seed++) {
        dice d = { { seed } };
        optim *o = roll_optim(&d);
        about("seed %u, %s", seed, o ? o->name : "none");
        assert_non_null(o);
        double scale = roll_power(&d, -10, chance(&d, 50) ? 10 : 99);
        if (chance(&d, 30)) scale = (double)REAL_MAX / 100 * (double)roll(&d, 1, 100);
        tensor w = roll_numbers(&d, roll_power(&d, -10, chance(&d, 80) ? 10 : 100));
        reach r = { .known = false };
        assert_int_equal(optim_build(o, COUNT), 0);
        for (int step = 0; step < 6; step++) {
            tensor g = roll_numbers(&d, chance(&d, 80) ? 1 : scale), expected = tensor_clone(w);
            optim twin = twin_of(o), before = twin_of(o);
            tensor w_before = tensor_clone(w);
            double lr = chance(&d, 10) ? 0 : o->lr;
            assert_int_equal(optim_step(&twin, lr, expected, g), 0);
            ptrdiff_t bad = first_bad(expected);
            for (int i = 0; i < o->states; i++)
                if (first_bad(twin.state[i]) < bad) bad = first_bad(twin.state[i]);
            overflow found;
            assert_int_equal(reach_step(&r, o, lr, w, g, reach_greatest(g), &found), 0);
            assert_int_equal(found.found, bad < COUNT);
            assert_same(w, found.found ? w_before : expected);
            for (int i = 0; i < o->states; i++)
                assert_same(o->state[i], found.found ? before.state[i] : twin.state[i]);
            assert_int_equal(o->steps, step + !found.found);
            if (found.found) {
                assert_int_equal(found.at, bad);
                tensor of = found.state < 0 ? expected : twin.state[found.state];
                assert_false(isfinite(*element(of, bad)));
            }
            taken += !found.found, refused += found.found;
            free_twin(&twin), free_twin(&before);
            tensor_free(g), tensor_free(expected), tensor_free(w_before);
            if (found.found) break;
        }
        optim_free(o), tensor_free(w);
    }
    assert_true(taken > 3000 && refused > 500);
}

/* The rate times the mean, which is then divided by a large epsilon. */
static void what_overflows_on_the_way_is_found(void **state)
{
    const double most = log10((double)REAL_MAX);
    optim *o = optim_adam((adam){ .lr = pow(10, 0.53 * most), .epsilon = pow(10, 0.35 * most) });
    tensor w = tensor_new(SHAPE(COUNT)), g = tensor_new(SHAPE(COUNT));
    reach r = { .known = false };
    overflow found;
    tensor_fill(g, (real)pow(10, 0.49 * most));
    assert_int_equal(reach_step(&r, o, o->lr, w, g, reach_greatest(g), &found), 0);
    assert_true(found.found && found.state < 0);
    assert_true(*element(w, 0) == 0);
    optim_free(o), tensor_free(w), tensor_free(g);
}

static int calls;
static void (*counted)(const optim *o, double lr, ptrdiff_t first, ptrdiff_t n, real *w, const real *g);

static void count_calls(const optim *o, double lr, ptrdiff_t first, ptrdiff_t n, real *w, const real *g)
{
    calls++;
    counted(o, lr, first, n, w, g);
}

static int calls_of(optim *o, bool known)
{
    enum { STEPS = 10000 };
    dice d = { { 1 } };
    tensor w = roll_numbers(&d, 1), g = roll_numbers(&d, 1);
    reach r = { .known = false };
    overflow found;
    calls = 0, counted = o->step, o->step = count_calls;
    if (!known) o->reach = NULL;
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(reach_step(&r, o, o->lr, w, g, reach_greatest(g), &found), 0);
    optim_free(o), tensor_free(w), tensor_free(g);
    return calls / STEPS;
}

/* Once for the trial and once for the step itself; one part, for there are few parameters. */
static void ordinary_steps_are_not_tried_first(void **state)
{
    assert_int_equal(calls_of(optim_sgd((sgd){ .lr = 0.1 }), true), 1);
    assert_int_equal(
        calls_of(optim_sgd((sgd){ .lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true }),
                 true),
        1);
    assert_int_equal(calls_of(optim_adam((adam){ 0 }), true), 1);
    assert_int_equal(calls_of(optim_adamw((adam){ 0 }), true), 1);
    assert_int_equal(calls_of(optim_rmsprop((rmsprop){ .momentum = 0.9, .centered = true }), true), 1);
    assert_int_equal(calls_of(optim_sgd((sgd){ .lr = 0.1 }), false), 2);
}

static void the_greatest_is_that_of_all(void **state)
{
    enum { MANY = 200000 };
    const double extremes[] = { 1, -2, (double)REAL_MAX, -INFINITY, NAN };
    tensor x = tensor_new(SHAPE(MANY));
    assert_true(reach_greatest(x) == 0);
    for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
        dice d = { { i } };
        *element(x, roll(&d, 0, MANY - 1)) = (real)extremes[i]; /* greater than all before */
        double greatest = reach_greatest(x);
        assert_true(isnan(extremes[i]) ? isnan(greatest) : greatest == fabs(extremes[i]));
    }
    tensor_free(x);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        CLAIM(a_step_is_taken_or_nothing_is_changed),
        CLAIM(what_overflows_on_the_way_is_found),
        CLAIM(ordinary_steps_are_not_tried_first),
        CLAIM(the_greatest_is_that_of_all),
    };
    return cmocka_run_group_tests(claims, NULL, NULL);
}
