/* test_optim.c: optimizers and schedules are PyTorch's formulas, step by step; clipping does what it says.
 *
 * The oracles are the formulas of PyTorch's documentation, written here for one number in long double; the
 * suite of conformance holds the same against PyTorch itself. In float twenty roundings of numbers up to 3
 * add up to a few millionths. */
#include "tests/support.h"

#include "nn/callbacks/callbacks.h"
#include "nn/optim_impl.h"
#include "nn/schedules.h"
#include "tensor/counts.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

enum { WEIGHTS = 5, STEPS = 20 };

static const double limit = sizeof(st_real) == sizeof(double) ? 1e-13 : 1e-5;

static const double begin[WEIGHTS] = { 1, -0.5, 0.25, 2, -3 };

/* ---- steps --------------------------------------------------------------------------------------- */

enum { SGD, ADAM, ADAMW, RMSPROP, KINDS };
static const char *const kinds[KINDS] = { "sgd", "adam", "adamw", "rmsprop" };

/* An optimizer and the options that it was made with, defaults filled in. */
typedef struct recipe {
    int kind;
    double momentum, dampening, decay, beta1, beta2, epsilon;
    bool nesterov, centered;
    st_optim *made;
} recipe;

/* w -= …, with the means of one number in s; `step` is 1 at first. */
static void defined(const recipe *r, int step, long double lr, long double g, long double *w,
                    long double s[3])
{
    long double d = g + (r->kind == ADAMW ? 0 : r->decay) * *w;
    if (r->kind == SGD) {
        s[0] = step == 1 ? d : r->momentum * s[0] + (1 - r->dampening) * d;
        *w -= lr * (r->momentum == 0 ? d : r->nesterov ? d + r->momentum * s[0] : s[0]);
        return;
    }
    s[0] = r->beta1 * s[0] + (1 - r->beta1) * d;
    s[1] = r->beta2 * s[1] + (1 - r->beta2) * d * d;
    if (r->kind == RMSPROP) {
        s[2] = r->momentum * s[2] + d / (sqrtl(s[1] - (r->centered ? s[0] * s[0] : 0)) + r->epsilon);
        *w -= lr * s[2];
        return;
    }
    if (r->kind == ADAMW) *w -= lr * r->decay * *w;
    *w -= lr * s[0] / (1 - powl(r->beta1, step)) / (sqrtl(s[1] / (1 - powl(r->beta2, step))) + r->epsilon);
}

/* The value, or the default where the option is to be left out. */
static double either(double *option, double value, double fallback)
{
    *option = value == fallback ? 0 : value;
    return value;
}

/* Each option is left out of half of them; ST_ZERO where 0 is not the default. RMSprop's running mean has the
 * decay of its squares. */
static recipe roll_recipe(dice *d, int kind)
{
    recipe r = { .kind = kind };
    double e, b1, b2, decay = chance(d, 50) ? 0.2 : 0;
    r.decay = kind == ADAMW && chance(d, 30) ? 0.01 : decay;
    if (kind == SGD || (kind == RMSPROP && chance(d, 50))) r.momentum = chance(d, 70) ? 0.9 : 0;
    if (kind == SGD && r.momentum > 0) r.nesterov = chance(d, 30);
    if (kind == SGD && r.momentum > 0 && !r.nesterov && chance(d, 50)) r.dampening = 0.5;
    r.beta1 = either(&b1, chance(d, 50) ? 0.9 : 0.7, 0.9);
    r.beta2 = either(&b2,
                     chance(d, 50)     ? 0.8
                     : kind == RMSPROP ? 0.99
                                       : 0.999,
                     kind == RMSPROP ? 0.99 : 0.999);
    r.centered = kind == RMSPROP && chance(d, 50);
    r.epsilon = either(&e, r.centered || chance(d, 50) ? 0.05 : 1e-8, 1e-8);
    if (kind == RMSPROP) r.beta1 = r.beta2;
    if (kind == ADAMW) decay = r.decay == 0.01 ? 0 : r.decay == 0 ? ST_ZERO : r.decay;
    r.made = kind == SGD    ? st_sgd(.lr = 0.1, .momentum = r.momentum, .dampening = r.dampening,
                                     .weight_decay = decay, .nesterov = r.nesterov)
             : kind == ADAM ? st_adam(.lr = chance(d, 50) ? 0 : 0.05, .beta1 = b1, .beta2 = b2, .epsilon = e,
                                      .weight_decay = decay)
             : kind == ADAMW
                 ? st_adamw(.lr = chance(d, 50) ? 0 : 0.05, .beta1 = b1, .beta2 = b2, .epsilon = e,
                            .weight_decay = decay)
                 : st_rmsprop(.lr = chance(d, 50) ? 0 : 0.02, .alpha = b2, .epsilon = e,
                              .momentum = r.momentum, .weight_decay = decay, .centered = r.centered);
    return r;
}

/* Gradients are eleventh parts that come and go, and a pull to zero; rates change from step to step. */
TEST(each_optimizer_is_its_formula)
{
    dice d = { { 1 } };
    for (int i = 0; i < 40 * KINDS; i++) {
        recipe r = roll_recipe(&d, i % KINDS);
        auto_optim *o = r.made;
        auto_tensor w = tensor_of_list(ST_SHAPE(WEIGHTS), WEIGHTS, begin), g = st_tensor_new(w.shape);
        long double expected[WEIGHTS], s[WEIGHTS][3] = { 0 };
        assert_non_null(o);
        about("case %d, %s", i, o->kind->name);
        for (int k = 0; k < WEIGHTS; k++) expected[k] = begin[k];
        for (int step = 1; step <= STEPS; step++) {
            double lr = o->lr * (1 + step % 4 / 4.0);
            for (int k = 0; k < WEIGHTS; k++)
                *element(g, k) = (st_real)((7 * step + 3 * k) % 11 - 5) / 8 + *element(w, k) / 4;
            for (int k = 0; k < WEIGHTS; k++)
                defined(&r, step, lr, (long double)*element(g, k), &expected[k], s[k]);
            auto_tensor before = st_tensor_clone(g);
            assert_int_equal(st_optim_step(o, lr, w, g), 0);
            assert_same(g, before); /* left as they are */
            for (int k = 0; k < WEIGHTS; k++)
                if (fabs((double)(*element(w, k) - expected[k])) > limit)
                    fail_msg("%s: weight %d is %.17g after %d steps, expected %.17g", o->kind->name, k,
                             (double)*element(w, k), step, (double)expected[k]);
        }
        assert_int_equal(o->steps, STEPS);
        assert_true(o->lr > 0);
    }
}

/* ---- many parameters ----------------------------------------------------------------------------- */

enum { MANY = 100000, OPTIONS = 16 };

/* Options of a kind: those that are required are 1, or lr 0.1; the others are left out. */
static void write_required(const st_field *fields, double options[OPTIONS])
{
    memset(options, 0, OPTIONS * sizeof *options);
    for (const st_field *f = fields; f->name; f++) {
        double *option = options + f->offset / sizeof *options;
        assert_true(f->offset < OPTIONS * sizeof *options);
        if (f->kind != ST_FIELD_REAL || f->fallback != 0) continue;
        if (strcmp(f->name, "lr") == 0) *option = 0.1;
        else if (f->least > 0) *option = fmax(f->least, 1);
    }
}

static st_optim *of_kind(const st_optim_kind *kind)
{
    double options[OPTIONS];
    write_required(kind->fields, options);
    st_optim *o = st_optim_new(kind, options);
    assert_non_null(o);
    return o;
}

/* More than a thread takes at a time: equal ones with equal gradients stay equal. */
TEST(many_parameters_step_alike)
{
    for (const st_optim_kind *const *kind = st_optim_kinds; *kind; kind++) {
        auto_optim *o = *kind == st_optim_kinds[0] ? st_sgd(.lr = 0.1, .momentum = 0.9) : of_kind(*kind);
        auto_tensor w = full(ST_SHAPE(MANY), 1), g = full(ST_SHAPE(MANY), 0.5);
        for (int step = 0; step < 3; step++) assert_int_equal(st_optim_step(o, o->lr, w, g), 0);
        auto_tensor first = full(ST_SHAPE(MANY), (double)*element(w, 0));
        assert_same(w, first);
        assert_true(*element(w, 0) < 1);
    }
}

typedef struct rate {
    double lr;
} rate;
static const st_field rate_fields[] = { { "lr", ST_FIELD_REAL, offsetof(rate, lr) }, { 0 } };

static void plain(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g)
{
    for (ptrdiff_t i = 0; i < n; i++) w[i] -= (st_real)c->lr * g[i];
}

static const st_optim_kind own_kind = { "own", sizeof(rate), rate_fields, .step = plain };

TEST(an_optimizer_of_ones_own_is_checked)
{
    st_optim_kind nameless = own_kind, stepless = own_kind, greedy = own_kind, rateless = own_kind;
    nameless.name = NULL, stepless.step = NULL, greedy.states = 4, rateless.fields = NULL;
    expect_failure(st_optim_new(NULL, NULL), "st_optim_new: the kind is NULL");
    expect_failure(st_optim_new(&nameless, NULL), "st_optim_new: the name is NULL");
    expect_failure(st_optim_new(&stepless, NULL), "st_optim_new: the step is NULL");
    expect_failure(st_optim_new(&greedy, NULL), "own: 4 states, expected 0 to 3");
    expect_failure(st_optim_new(&rateless, NULL), "own: there is no option lr of type double");
    rateless = own_kind, rateless.options_size = 0;
    expect_failure(st_optim_new(&rateless, NULL), "own: option lr lies outside of the options");
    expect_failure(st_optim_new(&own_kind, &(rate){ -1 }), "own: lr is -1, expected at least 0");
}

/* A kind that enters the registry enters the tests' table, too. */
TEST(every_kind_of_optimizer_has_a_row)
{
    int count = 0;
    for (; st_optim_kinds[count]; count++) {
        int k = 0;
        while (k < KINDS && strcmp(kinds[k], st_optim_kinds[count]->name) != 0) k++;
        if (k == KINDS) fail_msg("test_optim.c has no row for %s", st_optim_kinds[count]->name);
        if (!optim_sweep_by_vectors(st_optim_kinds[count]))
            fail_msg("nn/fast/optim.c has no row for %s, which runs without vectors",
                     st_optim_kinds[count]->name);
    }
    assert_int_equal(count, KINDS);
}

/* In the last of many parts, and in the first: the first is named, whichever thread finds which. */
static void check_found(st_optim *o)
{
    auto_tensor w = st_tensor_new(ST_SHAPE(MANY)), g = st_tensor_new(ST_SHAPE(MANY));
    const ptrdiff_t places[] = { MANY - 1, 70001, 4097, 4096, 4095, 0 };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        st_fill(w, 0);
        *element(g, places[i]) = i % 2 ? (st_real)NAN : INFINITY;
        const bool quotient = o->kind != st_optim_kinds[SGD] && o->kind != &own_kind;
        if (st_optim_step(o, 1, w, g) == 0)
            fail_msg("%s: a parameter is finite after a gradient that is not", o->kind->name);
        expect_error("%s: parameter %td is %s after step %zu", o->kind->name, places[i],
                     i % 2 || quotient ? "nan" : "-inf", i + 1);
    }
}

/* x - x is then -0, whose bits are not those of 0. */
TEST(finite_parameters_pass_however_numbers_are_rounded)
{
    auto_optim *o = st_sgd(.lr = 1);
    auto_tensor w = st_tensor_new(ST_SHAPE(5000)), g = st_tensor_new(ST_SHAPE(5000));
    st_fill(g, 1);
    fesetround(FE_DOWNWARD);
    const int status = st_optim_step(o, 1, w, g);
    fesetround(FE_TONEAREST);
    assert_int_equal(status, 0);
    assert_true(st_data(w)[0] == -1 && st_data(w)[4999] == -1);
}

TEST(a_parameter_that_is_not_finite_is_found)
{
    auto_optim *heavy = st_sgd(.lr = 1, .momentum = 0.5), *own = st_optim_new(&own_kind, &(rate){ 1 });
    check_found(heavy);
    check_found(own);
    for (const st_optim_kind *const *kind = st_optim_kinds; *kind; kind++) {
        auto_optim *o = of_kind(*kind);
        check_found(o);
    }
}

/* ---- refusals ------------------------------------------------------------------------------------ */

/* Each REAL option is out of its range in turn: nothing is made, and the error names the option. */
static void check_ranges(const char *name, const st_field *fields, const void *kind,
                         bool (*is_made)(const void *kind, const void *options))
{
    for (const st_field *f = fields; f->name; f++) {
        const double bad[] = { -NAN, INFINITY, -INFINITY, f->least - 0.5, f->below };
        for (int k = 0; f->kind == ST_FIELD_REAL && k < (f->below > 0 ? 5 : 4); k++) {
            double options[OPTIONS];
            write_required(fields, options);
            options[f->offset / sizeof *options] = bad[k];
            assert_false(is_made(kind, options));
            expect_error("%s: %s is %.10g", name, f->name, printable(bad[k]));
        }
    }
}

static bool is_optimizer(const void *kind, const void *options)
{
    return st_optim_new(kind, options);
}
static bool is_schedule(const void *kind, const void *options)
{
    return st_schedule_new(kind, options).kind;
}

static double constant(const void *options, double step, double total, double per_epoch)
{
    (void)options, (void)step, (void)total, (void)per_epoch;
    return 1;
}

TEST(odd_kinds_of_schedules_are_refused)
{
    const st_field fields[] = { { "rate", ST_FIELD_REAL, .offset = 8 }, { 0 } };
    const struct {
        st_schedule_kind kind;
        const char *says;
    } cases[] = { { { NULL, .factor = constant }, "st_schedule_new: the kind has no name" },
                  { { "idle" }, "st_schedule_new: the kind has no factor" },
                  { { "large", sizeof(st_option_bytes) + 1, .factor = constant },
                    "st_schedule_new: the kind has too many options" },
                  { { "short", 8, fields, .factor = constant },
                    "short: option rate lies outside of the options" } };
    assert_false(is_schedule(NULL, NULL));
    expect_error("st_schedule_new: the kind has no name");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(is_schedule(&cases[i].kind, NULL));
        expect_error("%s", cases[i].says);
    }
}

TEST(options_out_of_range_are_refused)
{
    for (const st_optim_kind *const *kind = st_optim_kinds; *kind; kind++)
        check_ranges((*kind)->name, (*kind)->fields, *kind, is_optimizer);
    expect_failure(st_sgd(), "sgd: lr");
    expect_failure(st_sgd(.lr = 1, .nesterov = true),
                   "sgd: nesterov needs a momentum above 0, not 0, and a dampening of 0, not 0");
    expect_failure(st_sgd(.lr = 1, .momentum = ST_ZERO, .nesterov = true), "momentum above 0, not 0,");
    expect_failure(st_sgd(.lr = 1, .momentum = 0.9, .dampening = 0.1, .nesterov = true), "sgd: nesterov");
}

TEST(defaults_are_those_of_pytorch)
{
    auto_optim *a = st_adam(), *w = st_adamw(), *r = st_rmsprop(), *none = st_optim_new(a->kind, NULL);
    assert_true(a->lr == 0.001 && w->lr == 0.001 && r->lr == 0.01 && none->lr == 0.001);
    auto_optim *still = st_adam(.lr = ST_ZERO);
    assert_true(still->lr == 0 && !signbit(still->lr));
}

/* Whatever is refused has changed neither the weights nor the optimizer: the step after it is the one that
 * would have come without it. */
TEST(a_refused_step_changes_nothing)
{
    const struct {
        double lr;
        bool null_w, null_g, gaps;
        ptrdiff_t more;
        const char *text;
    } cases[] = {
        { -0.1, .text = "adam: learning rate -0.1, expected at least 0" },
        { -NAN, .text = "adam: learning rate nan, expected at least 0" },
        { INFINITY, .text = "adam: learning rate inf" },
        { 1, .null_w = true, .text = "adam: parameters [" },
        { 1, .null_g = true, .text = "adam: parameters [5] and gradients [" },
        { 1, .more = 1, .text = "gradients [6], expected contiguous and of one shape" },
        { 1, .gaps = true, .text = "adam: parameters [5] and gradients [5], expected contiguous" },
    };
    auto_tensor w = tensor_of_list(ST_SHAPE(WEIGHTS), WEIGHTS, begin), undisturbed = st_tensor_clone(w);
    auto_tensor g = tensor_of(ST_SHAPE(WEIGHTS), 1, 2, 3, 4, 5), wide = st_tensor_new(ST_SHAPE(2 * WEIGHTS));
    auto_optim *o = st_adam(), *other = st_adam();
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        assert_int_equal(st_optim_step(o, 0.1, w, g), 0);
        assert_int_equal(st_optim_step(other, 0.1, undisturbed, g), 0);
        assert_same(w, undisturbed);
        if (i == sizeof cases / sizeof *cases) break;
        st_tensor gradients = st_narrow(wide, 0, 0, WEIGHTS + cases[i].more);
        if (cases[i].gaps) gradients = st_step(wide, 0, 2);
        if (cases[i].null_g) gradients = (st_tensor){ 0 };
        expect_failure(st_optim_step(o, cases[i].lr, cases[i].null_w ? (st_tensor){ 0 } : w, gradients), "%s",
                       cases[i].text);
        assert_same(w, undisturbed);
        assert_int_equal(o->steps, other->steps);
    }
    expect_failure(st_optim_step(o, 0.1, st_step(wide, 0, 2), g),
                   "adam: parameters [5] and gradients [5], expected contiguous");
    expect_failure(st_optim_step(o, 0.1, wide, wide), "adam: 10 parameters, the state is of 5");
    st_error_set("a pass that failed");
    expect_failure(st_optim_step(o, 0.1, w, g), "a pass that failed");
    assert_same(w, undisturbed);
    expect_failure(st_optim_step(NULL, 0.1, w, g), "st_optim_step: the optimizer is NULL");
}

TEST(an_optimizer_without_memory_for_its_state_is_not_built)
{
    auto_optim *o = st_adam();
    expect_failure(st_optim_build(o, (ptrdiff_t)1 << 56), "st_tensor_new: no memory for");
    assert_int_equal(st_optim_build(o, 3), 0);
}

TEST(no_parameters_are_no_error)
{
    auto_tensor none = st_tensor_new(ST_SHAPE(0));
    auto_optim *o = st_adam();
    assert_int_equal(st_optim_step(o, 0.1, none, none), 0);
}

/* ---- clipping ------------------------------------------------------------------------------------ */

TEST(clip_norm_scales_what_is_longer)
{
    const double bounds[] = { 7, 3.5, 1e9, INFINITY, 0, 1 }, norms[] = { 7, 7, 3.5, 3.5, 3.5, 0 },
                 factors[] = { 1, 0.5, 0.5, 0.5, 0, 0 };
    auto_tensor g = tensor_of(ST_SHAPE(3), 2, -3, 6);
    for (int i = 0; i < 6; i++) {
        assert_true(st_clip_grad_norm(g, bounds[i]) == norms[i]);
        assert_elements(g, 2 * factors[i], -3 * factors[i], 6 * factors[i]);
    }
    *element(g, 1) = 1;
    assert_true(st_clip_grad_norm(g, 0.999) == 1);
    assert_true(*element(g, 1) < 1 && *element(g, 1) > (st_real)0.998);
    const st_real before = *element(g, 1);
    *element(g, 2) = INFINITY; /* a norm that is not finite is returned, and nothing is changed */
    assert_true(isinf(st_clip_grad_norm(g, 0.5)) && *element(g, 1) == before);
    *element(g, 2) = (st_real)NAN;
    assert_true(isnan(st_clip_grad_norm(g, 0.5)) && *element(g, 1) == before);
}

/* A sum in float would lose the small ones beside the large one, or overflow. */
TEST(clip_norm_sums_in_double)
{
    auto_tensor g = st_expand(tensor_of(ST_SHAPE(1), 1e-3), ST_SHAPE(1000000));
    double each = (double)(st_real)1e-3;
    assert_true(fabs(st_clip_grad_norm(g, 2) - 1000 * each) < 1e-9);
    auto_tensor large = tensor_of(ST_SHAPE(2), 3e30, 4e30), short_one = tensor_of(ST_SHAPE(2), 3, 4);
    assert_true(fabs(st_clip_grad_norm(large, 5) - 5e30) < 5e30 * 2 * (double)ST_REAL_EPSILON);
    assert_near(large, short_one, 8 * (double)ST_REAL_EPSILON);
}

TEST(clip_value_cuts_each_element)
{
    auto_tensor g = tensor_of(ST_SHAPE(8), 0.5, -0.5, 0.75, -0.75, INFINITY, -INFINITY, NAN, 0);
    st_clip_grad_value(g, 0.5);
    assert_elements(g, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5, NAN, 0);
    const double bad[] = { -1, -NAN };
    for (int i = 0; i < 2; i++) {
        st_clip_grad_norm(g, bad[i]), expect_error("st_clip_grad_norm: a norm of %g", printable(bad[i]));
        st_clip_grad_value(g, bad[i]), expect_error("st_clip_grad_value: a bound of %g", printable(bad[i]));
    }
    assert_elements(g, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5, NAN, 0);
    st_clip_grad_value(g, 0);
    assert_elements(g, 0, 0, 0, 0, 0, 0, NAN, 0);
}

TEST(views_are_clipped_and_nothing_beside_them)
{
    auto_tensor all = tensor_of(ST_SHAPE(6), 3, 100, 0, 100, 4, 100);
    st_tensor every_second = st_step(all, 0, 2);
    assert_true(st_clip_grad_norm(every_second, 2.5) == 5);
    assert_elements(all, 1.5, 100, 0, 100, 2, 100);
    st_clip_grad_value(every_second, 1.75);
    assert_elements(all, 1.5, 100, 0, 100, 1.75, 100);
}

/* ---- schedules ----------------------------------------------------------------------------------- */

#define assert_factors(s, per_epoch, ...)                                                                    \
    check_factors(s, per_epoch, ST_COUNT(double, __VA_ARGS__), (const double[]){ __VA_ARGS__ }, __LINE__)

static void check_factors(st_schedule s, long per_epoch, int count, const double expected[], int line)
{
    assert_null(st_error());
    for (int step = 0; step < count; step++) {
        double factor = st_schedule_factor(&s, step, count, per_epoch);
        if (fabs(factor - expected[step]) > 1e-14)
            fail_msg("line %d: the factor of step %d is %.17g, expected %.17g", line, step, factor,
                     expected[step]);
    }
}

static st_schedule make_step(void)
{
    return st_step_lr(.step_size = 2, .gamma = 0.5);
}
static double step_formula(double step, double total, double per_epoch)
{
    return pow(0.5, floor(step / per_epoch / 2));
}
static st_schedule make_cosine(void)
{
    return st_cosine_lr(.end_factor = 0.2);
}
static double cosine_formula(double step, double total, double per_epoch)
{
    return 0.6 + 0.4 * cos(acos(-1) * step / total);
}
static st_schedule make_one_cycle(void)
{
    return st_one_cycle_lr(.pct_start = 0.5, .div_factor = 4, .final_div_factor = 2);
}
static double one_cycle_formula(double step, double total, double per_epoch)
{
    const double peak = total / 2 - 1, end = total - 1;
    return step <= peak ? 0.625 - 0.375 * cos(acos(-1) * step / peak)
                        : 0.5625 + 0.4375 * cos(acos(-1) * (step - peak) / (end - peak));
}

/* A schedule of some options, and its formula. */
static const struct schedule_row {
    const char *name;
    st_schedule (*make)(void);
    double (*formula)(double step, double total, double per_epoch);
} schedule_rows[] = {
    { "step", make_step, step_formula },
    { "cosine", make_cosine, cosine_formula },
    { "one_cycle", make_one_cycle, one_cycle_formula },
};
enum { SCHEDULES = sizeof schedule_rows / sizeof *schedule_rows };

TEST(every_kind_of_schedule_has_a_row_and_is_its_formula)
{
    enum { TOTAL = 24, PER_EPOCH = 4 };
    int count = 0;
    for (; st_schedule_kinds[count]; count++) {
        const char *name = st_schedule_kinds[count]->name;
        const struct schedule_row *row = schedule_rows;
        while (row < schedule_rows + SCHEDULES && strcmp(row->name, name) != 0) row++;
        if (row == schedule_rows + SCHEDULES) fail_msg("test_optim.c has no row for schedule %s", name);
        const st_schedule made = row->make();
        assert_ptr_equal(made.kind, st_schedule_kinds[count]);
        for (int step = 0; step < TOTAL; step++) {
            about("%s, step %d", name, step);
            const double factor = st_schedule_factor(&made, step, TOTAL, PER_EPOCH);
            assert_true(fabs(factor - row->formula(step, TOTAL, PER_EPOCH)) < 1e-14);
        }
    }
    assert_int_equal(count, SCHEDULES);
}

TEST(no_schedule_is_one)
{
    assert_factors((st_schedule){ 0 }, 2, 1, 1, 1, 1);
    assert_true(st_schedule_factor(NULL, 1, 2, 1) == 1);
}

TEST(step_falls_every_so_many_epochs)
{
    assert_factors(st_step_lr(.step_size = 2, .gamma = 0.3), 1, 1, 1, 0.3, 0.3, 0.09, 0.09, 0.027);
    assert_factors(st_step_lr(.step_size = 1, .gamma = 0.5), 3, 1, 1, 1, 0.5, 0.5, 0.5, 0.25);
    assert_factors(st_step_lr(.step_size = 0.5, .gamma = 0.5), 4, 1, 1, 0.5, 0.5, 0.25, 0.25);
}

static double along_half_a_cosine(double from, double to, double at)
{
    return to + (from - to) * (1 + cos(acos(-1) * at)) / 2;
}

/* PyTorch's: a cosine has ended at step `total`; a cycle begins at 1/divisor, has its peak where `rise` of
 * all steps are done, and its end in the last one. Neither goes on. */
TEST(cosines_and_cycles_are_their_formulas)
{
    dice d = { { 2 } };
    for (int i = 0; i < 100; i++) {
        long total = (long)roll(&d, 3, 40);
        double end = 0.1 * (double)roll(&d, 0, 10), rise = 0.1 * (double)roll(&d, 4, 9);
        double divisor = (double)roll(&d, 2, 30), last = (double)roll(&d, 2, 100);
        if (i % 2) rise = 0.3, divisor = 25, last = 1e4;
        const st_schedule down = st_cosine_lr(.end_factor = end),
                          cycle = i % 2 ? st_one_cycle_lr() : st_one_cycle_lr(rise, divisor, last);
        double peak = rise * (double)total - 1;
        for (long step = 0; step < total + 5; step++) {
            double at = (double)step, past = fmin((at - peak) / ((double)total - 1 - peak), 1);
            double expected = at <= peak ? along_half_a_cosine(1 / divisor, 1, peak > 0 ? at / peak : 1)
                                         : along_half_a_cosine(1, 1 / divisor / last, past);
            about("step %ld of %ld", step, total);
            assert_true(fabs(st_schedule_factor(&cycle, step, total, 5) - expected) < 1e-14);
            expected = along_half_a_cosine(1, end, fmin(at / (double)total, 1));
            assert_true(fabs(st_schedule_factor(&down, step, total, 5) - expected) < 1e-14);
        }
    }
}

/* Then the schedule begins, and has the steps that are left. */
TEST(warm_up_rises_and_hands_over)
{
    assert_factors(st_warmup_lr(.steps = 3, .after = { 0 }), 2, 0.25, 0.5, 0.75, 1, 1, 1);
    assert_factors(st_warmup_lr(.steps = 1, .after = st_step_lr(.step_size = 1, .gamma = 0.5)), 2, 0.5, 1, 1,
                   0.5, 0.5, 0.25);
    assert_factors(st_warmup_lr(.steps = 4, .after = st_cosine_lr()), 2, 0.2, 0.4, 0.6, 0.8, 1, 0.75, 0.25);
    assert_factors(st_warmup_lr(.steps = 0, .after = st_step_lr(.step_size = 1, .gamma = 0.5)), 2, 1, 1, 0.5);
    const st_schedule whole = st_cosine_lr(), later = st_warmup_lr(.steps = 7, .after = whole);
    for (long step = 0; step < 13; step++)
        assert_true(st_schedule_factor(&later, 7 + step, 20, 3) == st_schedule_factor(&whole, step, 13, 3));
    assert_factors(st_warmup_lr(.steps = 9, .after = st_cosine_lr()), 2, 0.1, 0.2,
                   0.3); /* longer than the run */
}

/* They are refused when they are made, which leaves an error that names the option. */
TEST(schedules_out_of_range_are_refused)
{
    for (const st_schedule_kind *const *kind = st_schedule_kinds; *kind; kind++)
        check_ranges((*kind)->name, (*kind)->fields, *kind, is_schedule);
    st_warmup_lr(.steps = -1, .after = { 0 }), expect_error("st_warmup_lr: -1 steps");
    st_step_lr(.step_size = 0, .gamma = 0.5), expect_error("step: step_size is 0");
    st_step_lr(.step_size = 1, .gamma = 0), expect_error("step: gamma is 0");
    st_one_cycle_lr(.pct_start = ST_ZERO), expect_error("one_cycle: pct_start is 0, expected at least 1e-09");
    st_cosine_lr(.end_factor = 2), expect_error("cosine: end_factor is 2, expected at least 0 and at most 1");
}
