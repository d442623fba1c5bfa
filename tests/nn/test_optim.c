/* test_optim.c: optimizers and schedules follow PyTorch's formulas, step by step; clipping does what it says.
 *
 * The sequences are what torch.optim of PyTorch 1.13 computes in float64 for these gradients and rates. They
 * stand with 15 digits; in double another order of the same sums moves the last of them, in float twenty
 * roundings of numbers up to 3 add up to a few millionths. */
#include "tests/support.h"

#include "nn/optim.h"
#include "nn/schedule.h"

#include <math.h>
#include <string.h>

enum { WEIGHTS = 5, STEPS = 20 };

static const double limit = sizeof(st_real) == sizeof(double) ? 1e-13 : 1e-5;

/* ---- sequences ----------------------------------------------------------------------------------- */

static const double begin[WEIGHTS] = { 1, -0.5, 0.25, 2, -3 };

/* Eleventh parts that come and go, and a pull to zero. */
static st_real gradient(int step, int i, st_real w)
{
    return (st_real)((7 * step + 3 * i) % 11 - 5) / 8 + w / 4;
}

static double rate(const st_optim *o, int step)
{
    return o->lr * (1 + step % 4 / 4.0);
}

/* The weights after 1, 5 and 20 steps. */
typedef struct sequence {
    st_optim *made;
    double after[3][WEIGHTS];
} sequence;

static void follows(const sequence *s)
{
    const int when[] = { 1, 5, STEPS };
    assert_non_null(s->made);
    st_tensor w = tensor_of_list(ST_SHAPE(WEIGHTS), WEIGHTS, begin), g = st_tensor_new(ST_SHAPE(WEIGHTS));
    for (int step = 0, seen = 0; step < STEPS; step++) {
        for (int i = 0; i < WEIGHTS; i++) *element(g, i) = gradient(step, i, *element(w, i));
        st_tensor before = st_tensor_clone(g);
        assert_int_equal(st_optim_step(s->made, rate(s->made, step), w, g), 0);
        assert_same(g, before); /* left as they are */
        st_tensor_free(before);
        if (step + 1 != when[seen]) continue;
        st_tensor expected = tensor_of_list(ST_SHAPE(WEIGHTS), WEIGHTS, s->after[seen]);
        about("%s after %d steps", s->made->name, step + 1);
        assert_near(w, expected, limit);
        st_tensor_free(expected);
        seen++;
    }
    assert_int_equal(s->made->steps, STEPS);
    st_optim_free(s->made), st_tensor_free(w), st_tensor_free(g);
}

TEST(sgd_is_as_pytorch_computes)
{
    const sequence all[] = {
        { st_sgd(.lr = 0.1),
          { { 1.0375, -0.4625, 0.23125, 1.9, -2.875 },
            { 0.789716985321045, -0.475673639678955, 0.223173291397095, 1.67018305053711, -2.44228856658936 },
            { 0.513225387740754, -0.270560479943178, 0.18860580403008, 0.928071635007583,
              -1.41572729811428 } } },
        { st_sgd(.lr = 0.1, .weight_decay = 0.2),
          { { 1.0175, -0.4525, 0.22625, 1.86, -2.815 },
            { 0.678210686666748, -0.418271139677979, 0.197648344619263, 1.45593577326758, -2.12204852084131 },
            { 0.303416925437696, -0.157467404820333, 0.128877436115471, 0.490874064695409,
              -0.776475148804542 } } },
        { st_sgd(.lr = 0.1, .momentum = 0.9),
          { { 1.0375, -0.4625, 0.23125, 1.9, -2.875 },
            { 0.690144130706787, -0.451496494293213, 0.118160377883911, 1.0531475769043, -1.52436717376709 },
            { -0.40570090397921, 0.127307266080545, -0.0146061292827977, -0.586974834893186,
              0.959048503758532 } } },
        { st_sgd(.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.2),
          { { 1.0175, -0.4525, 0.22625, 1.86, -2.815 },
            { 0.721858520827072, -0.281769658740372, 0.0867632133042069, 0.865088869088989,
              -1.32935096352866 },
            { -0.396660076681759, 0.130794239944756, -0.0393390214959104, -0.60342337850807,
              0.961824606761068 } } },
        { st_sgd(.lr = 0.1, .momentum = 0.8, .weight_decay = 0.2, .nesterov = true),
          { { 1.0315, -0.4145, 0.20725, 1.748, -2.667 },
            { 0.26304533593895, -0.298091891685573, 0.0788915236574347, 0.568261208514961,
              -0.722662778714635 },
            { -0.0187963560602289, -0.0503626486479291, 0.110971396099696, -0.067281146005942,
              0.0859251404396498 } } },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) follows(&all[i]);
}

TEST(adam_is_as_pytorch_computes)
{
    const sequence all[] = {
        { st_adam(),
          { { 1.00099999997333, -0.499000000026667, 0.249000000053333, 1.99900000001, -2.999000000008 },
            { 0.998966037533211, -0.499026695832895, 0.248087113070321, 1.99450313828443, -2.9940265860476 },
            { 0.987844602072801, -0.493365135525347, 0.245520292811226, 1.97842838786296,
              -2.97579820691923 } } },
        { st_adam(.lr = 0.05, .beta1 = 0.7, .beta2 = 0.9, .weight_decay = 0.2),
          { { 1.04999999714286, -0.450000001052632, 0.200000002105263, 1.95000000035714, -2.95000000027027 },
            { 0.841554404419432, -0.404309239685838, 0.138270516195882, 1.70737260587115, -2.68805442408674 },
            { 0.273006652525476, -0.110954366614735, 0.0660512439622524, 0.90052152889441,
              -1.77714136170294 } } },
        { st_adam(.lr = 0.05, .epsilon = 0.1),
          { { 1.03947368421053, -0.460526315789474, 0.217391304347826, 1.95454545454545, -2.9537037037037 },
            { 0.953017402645574, -0.464566338395126, 0.183868560885958, 1.76116399336127, -2.72993412875013 },
            { 0.545004904552407, -0.275164820036267, 0.118860287211503, 1.14685835874169,
              -1.9686970293891 } } },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) follows(&all[i]);
}

TEST(adamw_is_as_pytorch_computes)
{
    const sequence all[] = {
        { st_adamw(),
          { { 1.00098999997333, -0.498995000026667, 0.248997500053333, 1.99898000001, -2.998970000008 },
            { 0.9989010390685, -0.498994264986078, 0.248070939674554, 1.99437332376538, -2.99383176322077 },
            { 0.98757180371807, -0.493229080897491, 0.245452606210932, 1.9778822555663,
              -2.97497728248711 } } },
        { st_adamw(.lr = 0.05, .weight_decay = 0.2),
          { { 1.03999999866667, -0.445000001333333, 0.197500002666667, 1.9300000005, -2.9200000004 },
            { 0.882149829718707, -0.427533167801216, 0.148394949347596, 1.61149385958345, -2.52128682725817 },
            { 0.314954396964914, -0.164682987037705, 0.0683092650169445, 0.713776828156726,
              -1.31561523292697 } } },
        { st_adamw(.lr = 0.05, .weight_decay = ST_ZERO),
          { { 1.04999999866667, -0.450000001333333, 0.200000002666667, 1.9500000005, -2.9500000004 },
            { 0.945426489608476, -0.456030380183108, 0.160650389523307, 1.72916226695603, -2.70279241630724 },
            { 0.463036543865113, -0.231182768199782, 0.0932038407969204, 1.02571974257769,
              -1.85545410649021 } } },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) follows(&all[i]);
}

TEST(rmsprop_is_as_pytorch_computes)
{
    const sequence all[] = {
        { st_rmsprop(),
          { { 1.09999997333334, -0.40000002666666, 0.150000053333305, 1.90000001, -2.900000008 },
            { 0.826773153134342, -0.438305729333311, 0.183516930259614, 1.72273041062926, -2.64923997855366 },
            { 0.629549034388891, -0.278936956742302, 0.164955386639522, 1.31791071911113,
              -2.18912752376739 } } },
        { st_rmsprop(.lr = 0.02, .alpha = 0.9, .epsilon = 0.1, .weight_decay = 0.2),
          { { 1.02253124227959, -0.462031618376041, 0.222873278517619, 1.94840791167817, -2.94598708627885 },
            { 0.857114041817833, -0.445977968244549, 0.212309077710209, 1.81340556251516, -2.77883690031256 },
            { 0.638285905426261, -0.290185971163605, 0.166624049820412, 1.44162552794577,
              -2.37267112400225 } } },
        { st_rmsprop(.lr = 0.02, .momentum = 0.9),
          { { 1.19999994666668, -0.300000053333319, 0.0500001066666099, 1.80000002, -2.800000016 },
            { 0.713155076525998, -0.100952823564472, -0.394136114577295, 0.366974642260808,
              -0.978732240404386 },
            { -0.395158299838011, -0.0548697869048989, 0.237010653278553, -0.315981344400107,
              0.990068523049413 } } },
        { st_rmsprop(.lr = 0.02, .alpha = 0.8, .epsilon = 0.05, .centered = true),
          { { 1.0375, -0.4625, 0.22, 1.95555555555556, -2.95454545454545 },
            { 0.912368447475212, -0.473236267131018, 0.225967559819324, 1.84679647084242, -2.79356417795966 },
            { 0.743776990288301, -0.354554251275683, 0.207533327545933, 1.44390146504592,
              -2.21999028687581 } } },
        { st_rmsprop(.lr = 0.02, .alpha = 0.8, .epsilon = 0.05, .momentum = 0.5, .weight_decay = 0.2,
                     .centered = true),
          { { 1.02916666666667, -0.460416666666667, 0.217241379310345, 1.95409836065574, -2.95316455696203 },
            { 0.813052145380646, -0.40639735143327, 0.161431047959848, 1.67330342061625, -2.60968653325802 },
            { 0.317294092959524, -0.1422493010383, 0.10873256827451, 0.725100108503556,
              -1.2434068686256 } } },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) follows(&all[i]);
}

/* Curvatures are up to 16 times apart. */
TEST(each_minimises_a_quadratic)
{
    st_optim *all[] = {
        st_sgd(.lr = 0.3),
        st_sgd(.lr = 0.1, .momentum = 0.9),
        st_sgd(.lr = 0.1, .momentum = 0.9, .nesterov = true),
        st_adam(.lr = 0.05),
        st_adamw(.lr = 0.05, .weight_decay = ST_ZERO),
        st_rmsprop(.lr = 0.05),
        st_rmsprop(.lr = 0.01, .momentum = 0.9, .centered = true),
    };
    const double curvature[WEIGHTS] = { 0.25, 4, 1, 2, 0.5 }, lowest[WEIGHTS] = { -1, 2, 0.5, -0.25, 3 };
    const st_schedule down = st_cosine_lr();
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        st_tensor w = tensor_of_list(ST_SHAPE(WEIGHTS), WEIGHTS, begin), g = st_tensor_new(ST_SHAPE(WEIGHTS));
        st_tensor expected = tensor_of_list(ST_SHAPE(WEIGHTS), WEIGHTS, lowest);
        for (long step = 0; step < 1000; step++) {
            for (int i = 0; i < WEIGHTS; i++)
                *element(g, i) = (st_real)curvature[i] * (*element(w, i) - (st_real)lowest[i]);
            assert_int_equal(
                st_optim_step(all[k], all[k]->lr * st_schedule_factor(&down, step, 1000, 1000), w, g), 0);
        }
        about("%s, number %zu", all[k]->name, k);
        assert_near(w, expected, 1e-3);
        st_optim_free(all[k]), st_tensor_free(w), st_tensor_free(g), st_tensor_free(expected);
    }
}

static void refused(st_optim *o, const char *text)
{
    assert_null(o);
    expect_error("%s", text);
}

/* ---- one's own ----------------------------------------------------------------------------------- */

/* Chen et al. 2023: the sign of an interpolation of the momentum and the gradient. */
static void lion(const st_optim *o, double lr, ptrdiff_t first, ptrdiff_t n, st_real *w, const st_real *g)
{
    const double *beta = o->context;
    st_real *m = st_data(o->state[0]) + first;
    for (ptrdiff_t i = 0; i < n; i++) {
        double c = beta[0] * (double)m[i] + (1 - beta[0]) * (double)g[i];
        w[i] -= (st_real)(lr * ((c > 0) - (c < 0)));
        m[i] = (st_real)(beta[1] * (double)m[i] + (1 - beta[1]) * (double)g[i]);
    }
}

/* By hand, of more parameters than a thread takes at a time: gradients of +1, -1, -1, and 0 where k is even. */
TEST(an_optimizer_of_ones_own_steps)
{
    enum { MANY = 50000 };
    double beta[] = { 0.5, 0.75 };
    st_optim *o =
        st_optim_new((st_optim){ .name = "lion", .step = lion, .lr = 0.25, .states = 1, .context = beta });
    st_tensor w = st_tensor_new(ST_SHAPE(MANY)), g = st_tensor_new(ST_SHAPE(MANY));
    const double gradients[] = { 1, -1, -1 }, expected[] = { -0.25, 0, 0.25 };
    for (int step = 0; step < 3; step++) {
        for (ptrdiff_t k = 1; k < MANY; k += 2) *element(g, k) = (st_real)gradients[step];
        assert_int_equal(st_optim_step(o, o->lr, w, g), 0);
        for (ptrdiff_t k = 0; k < MANY; k++)
            assert_true((double)*element(w, k) == (k % 2 ? expected[step] : 0));
    }
    assert_int_equal(o->steps, 3);
    st_optim_free(o), st_tensor_free(w), st_tensor_free(g);
    refused(st_optim_new((st_optim){ .name = "none" }), "st_optim_new: step is NULL");
    refused(st_optim_new((st_optim){ .step = lion }), "st_optim_new: name is NULL");
    refused(st_optim_new((st_optim){ .name = "lion", .step = lion, .states = 4 }),
            "lion: 4 states, expected 0 to 3");
}

/* In the last of many parts, and in the first: the first is named, whichever thread finds which. */
TEST(a_parameter_that_is_not_finite_is_found)
{
    enum { MANY = 100000 };
    auto_optim *o = st_sgd(.lr = 1);
    auto_tensor w = st_tensor_new(ST_SHAPE(MANY)), g = st_tensor_new(ST_SHAPE(MANY));
    const ptrdiff_t places[] = { MANY - 1, 70001, 4097, 4096, 4095, 0 };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        st_fill(w, 0);
        *element(g, places[i]) = i % 2 ? (st_real)NAN : INFINITY;
        assert_int_equal(st_optim_step(o, 1, w, g), -1);
        expect_error("sgd: parameter %td is %s after step %zu", places[i], i % 2 ? "nan" : "-inf", i + 1);
    }
}

static double inverse_root(const st_schedule *s, double step, double total, double per_epoch)
{
    const double *scale = s->context;
    return 1 / sqrt(1 + step / *scale);
}

TEST(a_schedule_of_ones_own_is_followed)
{
    double scale = 2;
    st_schedule s = { "inverse_root", inverse_root, .open_ended = true, .context = &scale };
    for (int step = 0; step < 9; step++)
        assert_true(st_schedule_factor(&s, step, 9, 3) == 1 / sqrt(1 + step / 2.0));
    s = st_warmup_lr(.steps = 3, .after = s);
    assert_true(st_schedule_factor(&s, 1, 9, 3) == 0.5 && st_schedule_factor(&s, 5, 9, 3) == 1 / sqrt(2));
}

/* ---- refusals ------------------------------------------------------------------------------------ */

TEST(options_out_of_range_are_refused)
{
    refused(st_sgd(), "sgd: lr is missing");
    refused(st_sgd(.lr = -0.1), "sgd: lr is -0.1, expected at least 0");
    refused(st_sgd(.lr = NAN), "sgd: lr is ");
    refused(st_sgd(.lr = INFINITY), "sgd: lr is inf");
    refused(st_sgd(.lr = 1, .momentum = -0.5), "sgd: momentum is -0.5");
    refused(st_sgd(.lr = 1, .momentum = 0.5, .dampening = NAN), "sgd: dampening is ");
    refused(st_sgd(.lr = 1, .weight_decay = -1), "sgd: weight_decay is -1");
    refused(st_sgd(.lr = 1, .nesterov = true), "sgd: nesterov needs a momentum above 0 (0)");
    refused(st_sgd(.lr = 1, .momentum = 0.9, .dampening = 0.1, .nesterov = true), "and no dampening (0.1)");
    refused(st_adam(.lr = -1), "adam: lr is -1, expected at least 0");
    refused(st_adam(.beta1 = 1), "adam: beta1 is 1, expected at least 0 and below 1");
    refused(st_adam(.beta2 = -0.5), "adam: beta2 is -0.5");
    refused(st_adam(.beta2 = NAN), "adam: beta2 is ");
    refused(st_adam(.epsilon = -1e-8), "adam: epsilon is -1e-08");
    refused(st_adam(.weight_decay = INFINITY), "adam: weight_decay is inf");
    refused(st_adamw(.beta1 = 1.5), "adamw: beta1 is 1.5");
    refused(st_rmsprop(.alpha = 1), "rmsprop: alpha is 1, expected at least 0 and below 1");
    refused(st_rmsprop(.lr = NAN), "rmsprop: lr is ");
    refused(st_rmsprop(.momentum = -1), "rmsprop: momentum is -1");
    refused(st_rmsprop(.epsilon = -1), "rmsprop: epsilon is -1");
    refused(st_rmsprop(.weight_decay = -1), "rmsprop: weight_decay is -1");
}

TEST(defaults_are_those_of_pytorch)
{
    auto_optim *a = st_adam(), *w = st_adamw(), *r = st_rmsprop();
    assert_true(a->lr == 0.001 && a->beta1 == 0.9 && a->beta2 == 0.999 && a->epsilon == 1e-8 &&
                a->weight_decay == 0);
    assert_true(w->lr == 0.001 && w->beta1 == 0.9 && w->beta2 == 0.999 && w->epsilon == 1e-8 &&
                w->weight_decay == 0.01);
    assert_true(r->lr == 0.01 && r->beta2 == 0.99 && r->epsilon == 1e-8 && r->momentum == 0 &&
                r->weight_decay == 0);
    st_optim_free(NULL);
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
        { .lr = -0.1, .text = "adam: learning rate -0.1, expected at least 0" },
        { .lr = NAN, .text = "adam: learning rate " },
        { .lr = INFINITY, .text = "adam: learning rate inf" },
        { .lr = 1, .null_w = true, .text = "adam: parameters [" },
        { .lr = 1, .null_g = true, .text = "adam: parameters [5] and gradients [" },
        { .lr = 1,
          .more = 1,
          .text = "adam: parameters [5] and gradients [6], expected contiguous and of one shape" },
        { .lr = 1, .gaps = true, .text = "adam: parameters [5] and gradients [5], expected contiguous" },
    };
    auto_tensor w = tensor_of_list(ST_SHAPE(WEIGHTS), WEIGHTS, begin), undisturbed = st_tensor_clone(w);
    auto_tensor g = tensor_of(ST_SHAPE(WEIGHTS), 1, 2, 3, 4, 5), wide = st_tensor_new(ST_SHAPE(2 * WEIGHTS));
    auto_optim *o = st_adam(), *other = st_adam();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(st_optim_step(o, 0.1, w, g), 0);
        assert_int_equal(st_optim_step(other, 0.1, undisturbed, g), 0);
        st_tensor gradients = st_narrow(wide, 0, 0, WEIGHTS + cases[i].more);
        if (cases[i].gaps) gradients = st_step(wide, 0, 2);
        if (cases[i].null_g) gradients = (st_tensor){ 0 };
        assert_int_equal(st_optim_step(o, cases[i].lr, cases[i].null_w ? (st_tensor){ 0 } : w, gradients),
                         -1);
        expect_error("%s", cases[i].text);
        assert_same(w, undisturbed);
        assert_int_equal(o->steps, other->steps);
    }
    assert_int_equal(st_optim_step(o, 0.1, wide, wide), -1);
    expect_error("adam: 10 parameters, the state is of 5");
    assert_int_equal(st_optim_step(o, 0.1, w, g), 0);
    assert_int_equal(st_optim_step(other, 0.1, undisturbed, g), 0);
    assert_same(w, undisturbed);
    assert_int_equal(st_optim_step(NULL, 0.1, w, g), -1);
    expect_error("st_optim_step: the optimizer is NULL");
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
    auto_tensor g = tensor_of(ST_SHAPE(3), 2, -3, 6), again = st_tensor_clone(g); /* of norm 7 */
    assert_true(st_clip_grad_norm(g, 7) == 7);
    assert_elements(g, 2, -3, 6);
    assert_true(st_clip_grad_norm(g, 6.99) == 7);
    assert_true(*element(g, 2) < 6 && *element(g, 2) > (st_real)5.99);
    st_copy(g, again);
    assert_true(st_clip_grad_norm(g, 3.5) == 7);
    assert_elements(g, 1, -1.5, 3);
    assert_true(st_clip_grad_norm(g, 1e9) == 3.5);
    assert_elements(g, 1, -1.5, 3);
    assert_true(st_clip_grad_norm(g, 0) == 3.5);
    assert_elements(g, 0, 0, 0);
    assert_true(st_clip_grad_norm(g, 1) == 0);
    assert_elements(g, 0, 0, 0);
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

TEST(clip_norm_tells_of_nan)
{
    auto_tensor g = tensor_of(ST_SHAPE(3), 1, NAN, 2);
    assert_true(isnan(st_clip_grad_norm(g, 1)));
    assert_elements(g, 1, NAN, 2);
}

TEST(clip_value_cuts_each_element)
{
    auto_tensor g = tensor_of(ST_SHAPE(8), 0.5, -0.5, 0.75, -0.75, INFINITY, -INFINITY, NAN, 0);
    st_clip_grad_value(g, 0.5);
    assert_elements(g, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5, NAN, 0);
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

TEST(constant_is_one)
{
    assert_factors(st_constant_lr(), 2, 1, 1, 1, 1);
    assert_factors((st_schedule){ 0 }, 2, 1, 1, 1, 1);
}

TEST(step_falls_every_so_many_epochs)
{
    assert_factors(st_step_lr(.step_size = 2, .gamma = 0.3), 1, 1, 1, 0.3, 0.3, 0.09, 0.09, 0.027);
    assert_factors(st_step_lr(.step_size = 1, .gamma = 0.5), 3, 1, 1, 1, 0.5, 0.5, 0.5, 0.25);
    assert_factors(st_step_lr(.step_size = 0.5, .gamma = 0.5), 4, 1, 1, 0.5, 0.5, 0.25, 0.25);
}

TEST(cosine_is_as_pytorch_computes)
{
    assert_factors(st_cosine_lr(.end_factor = 0.1), 5, 1, 0.984666621830081, 0.939711431702997,
                   0.868198051533946, 0.775, 0.666468570296134, 0.55, 0.433531429703866, 0.325,
                   0.231801948466054, 0.160288568297003, 0.115333378169919);
    assert_factors(st_cosine_lr(.end_factor = 1), 5, 1, 1, 1, 1);
    const st_schedule s = st_cosine_lr(.end_factor = 0.25);
    assert_true(st_schedule_factor(&s, 10, 10, 5) == 0.25 && st_schedule_factor(&s, 99, 10, 5) == 0.25);
}

TEST(one_cycle_is_as_pytorch_computes)
{
    assert_factors(st_one_cycle_lr(), 5, 0.04, 0.131671842700025, 0.371671842700025, 0.668328157299975,
                   0.908328157299975, 1, 0.987464006235087, 0.950484632013474, 0.89091617757105,
                   0.811745653949763, 0.716943001791301, 0.611262021936289, 0.500002, 0.388741978063711,
                   0.283060998208699, 0.188258346050237, 0.10908782242895, 0.0495193679865263,
                   0.0125399937649126, 4e-06);
    assert_factors(st_one_cycle_lr(.pct_start = 0.4, .div_factor = 10, .final_div_factor = 100), 5, 0.1,
                   0.164414270724585, 0.339216201685094, 0.574362508863438, 0.802534179413072,
                   0.958408938851931, 0.999052612704154, 0.966269878587476, 0.889650746975572,
                   0.776406303993773, 0.637194663541006, 0.485117868251193, 0.33448877765991,
                   0.199483999128561, 0.0928096422780673, 0.0245054707866353, 0.001);
}

/* Then the schedule begins, and has the steps that are left. */
TEST(warm_up_rises_and_hands_over)
{
    assert_factors(st_warmup_lr(.steps = 3, .after = st_constant_lr()), 2, 0.25, 0.5, 0.75, 1, 1, 1);
    assert_factors(st_warmup_lr(.steps = 1, .after = st_step_lr(.step_size = 1, .gamma = 0.5)), 2, 0.5, 1, 1,
                   0.5, 0.5, 0.25);
    assert_factors(st_warmup_lr(.steps = 4, .after = st_cosine_lr()), 2, 0.2, 0.4, 0.6, 0.8, 1, 0.75, 0.25);
    const st_schedule whole = st_cosine_lr(), later = st_warmup_lr(.steps = 7, .after = whole);
    for (long step = 0; step < 13; step++)
        assert_true(st_schedule_factor(&later, 7 + step, 20, 3) == st_schedule_factor(&whole, step, 13, 3));
    assert_factors(st_warmup_lr(.steps = 9, .after = st_cosine_lr()), 2, 0.1, 0.2,
                   0.3); /* longer than the run */
}

TEST(factors_stay_between_zero_and_one)
{
    const st_schedule all[] = { st_step_lr(.step_size = 0.1, .gamma = 0.9), st_cosine_lr(), st_one_cycle_lr(),
                                st_one_cycle_lr(.pct_start = 0.99),
                                st_warmup_lr(.steps = 5, .after = st_one_cycle_lr(.pct_start = 0.01)) };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (long total = 1; total < 30; total++)
            for (long step = 0; step < total; step++) {
                double factor = st_schedule_factor(&all[k], step, total, 3);
                if (!(factor >= 0 && factor <= 1))
                    fail_msg("schedule %zu, step %ld of %ld: %g", k, step, total, factor);
            }
}

/* They are refused when they are made. */
#define REFUSED(made, text) (void)(made), expect_error("%s", text)

TEST(schedules_out_of_range_are_refused)
{
    REFUSED(st_warmup_lr(.steps = -1, .after = st_constant_lr()),
            "st_warmup_lr: -1 steps, expected at least 0");
    REFUSED(st_step_lr(.step_size = 0, .gamma = 0.5), "step: step_size is 0");
    REFUSED(st_step_lr(.step_size = -2, .gamma = 0.5), "step: step_size is -2");
    REFUSED(st_step_lr(.step_size = NAN, .gamma = 0.5), "step: step_size is ");
    REFUSED(st_step_lr(.step_size = INFINITY, .gamma = 0.5), "step: step_size is inf");
    REFUSED(st_step_lr(.step_size = 1, .gamma = 0), "step: gamma is 0");
    REFUSED(st_step_lr(.step_size = 1, .gamma = NAN), "step: gamma is ");
    REFUSED(st_cosine_lr(.end_factor = -0.5), "cosine: end_factor is -0.5");
    REFUSED(st_cosine_lr(.end_factor = 1.5), "cosine: end_factor is 1.5");
    REFUSED(st_cosine_lr(.end_factor = NAN), "cosine: end_factor is ");
    REFUSED(st_one_cycle_lr(.pct_start = 1), "one_cycle: pct_start is 1");
    REFUSED(st_one_cycle_lr(.pct_start = ST_ZERO), "one_cycle: pct_start is ");
    REFUSED(st_one_cycle_lr(.div_factor = 0.5), "one_cycle: div_factor is 0.5, expected at least 1");
    REFUSED(st_one_cycle_lr(.div_factor = NAN), "one_cycle: div_factor is ");
    REFUSED(st_one_cycle_lr(.final_div_factor = 0.5), "one_cycle: final_div_factor is 0.5");
}
