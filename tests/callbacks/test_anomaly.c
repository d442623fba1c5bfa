/* test_anomaly.c: a run that meets a number that is none stops before its step, and says where the first one
 * is. */
#include "tests/support.h"

#include "nn/callbacks/callbacks.h"
#include "nn/callbacks/watch.h"
#include "nn/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a layer that errs --------------------------------------------------------------------------- */

/* y = w x except for one bad number: its value, the hook that writes it, its image (-1: each), its place
 * there. */
typedef struct fault {
    int hook; /* of those below; 0: nowhere */
    ptrdiff_t image, place;
    double value;
} fault;

enum { NOWHERE, FORWARD, BACKWARD, GRADIENT };

static fault planted;

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "weight", st_shape_without_batch(x), (st_init){ .constant = 1 });
}

static void plant(const st_call *c, st_tensor y, int hook)
{
    for (ptrdiff_t image = 0; image < y.shape.n[0] && planted.hook == hook; image++)
        if (planted.image < 0 || planted.image == c->first + image)
            *element(st_select(y, 0, image), planted.place) = (st_real)planted.value;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    st_mul(y, st_expand(c->param[0], y.shape));
    plant(c, y, FORWARD);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_copy(dx, dy);
    st_mul(dx, st_expand(c->param[0], dx.shape));
    plant(c, dx, BACKWARD);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    st_add(st_expand(st_grad(c, 0), dy.shape), 1, dy);
    ptrdiff_t image = planted.image - c->first;
    bool all = planted.image < 0; /* of each part of the batch */
    if (planted.hook == GRADIENT && (all || (image >= 0 && image < x.shape.n[0])))
        *element(st_grad(c, 0), planted.place) = (st_real)planted.value;
}

static const st_layer_type erring = {
    .name = "erring", .plan = plan, .forward = forward, .backward = backward, .gradient = gradient
};

/* ---- runs ------------------------------------------------------------------------------------------ */

enum { SAMPLES = 30, BATCH = 20, FEATURES = 4 }; /* more than one chunk a batch */

static st_net *some_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(FEATURES), st_dense(.out_features = 5), st_tanh(),
                           st_residual(st_sequence(st_layer_new(&erring, NULL, 0, NULL), st_batchnorm())),
                           st_dropout(.p = 0.2), st_dense(.out_features = 3));
    assert_non_null(n);
    assert_int_equal(st_net_build(n, BATCH, 3), 0);
    return n;
}

typedef struct setting {
    st_tensor x, y;
    st_dataset *set;
    st_net *n;
    st_optim *o;
} setting;

static setting set_up(fault f)
{
    setting s = { st_tensor_new(ST_SHAPE(SAMPLES, FEATURES)), st_tensor_new(ST_SHAPE(SAMPLES)), NULL,
                  some_net(), st_sgd(.lr = 0.125, .momentum = 0.9) };
    st_normal(s.x, (st_random_key){ 1, 1 }, 0, 1);
    for (ptrdiff_t i = 0; i < SAMPLES; i++) *element(s.y, i) = (st_real)(i % 3);
    s.set = st_dataset_tensors(s.x, s.y);
    planted = f;
    return s;
}

static void tear_down(setting *s)
{
    st_net_free(s->n), st_optim_free(s->o), st_dataset_free(s->set);
    st_tensor_free(s->x), st_tensor_free(s->y);
}

#define auto_setting __attribute__((cleanup(tear_down))) setting

static int run(setting s, st_callback first, st_callback second)
{
    return st_train(s.n, s.set, .epochs = 2, .loss = st_cross_entropy(), .optim = s.o, .batch = BATCH,
                    .keep_order = true, .callbacks = { first, second });
}

/* The run fails in its first step with an error that contains this, and changes nothing. */
static void runs_into(setting s, st_callback c, const char *expected)
{
    auto_tensor before = st_tensor_clone(st_net_parameters(s.n));
    expect_failure(run(s, c, (st_callback){ 0 }), "%s", expected);
    assert_same(st_net_parameters(s.n), before);
    assert_int_equal(s.o->steps, 0);
}

/* ---- claims ---------------------------------------------------------------------------------------- */

/* The first of two micro-batches has no targets that count, and so no mean: that is no anomaly. */
TEST(a_micro_batch_in_which_nothing_counts_is_passed_over)
{
    auto_setting s = set_up((fault){ 0 });
    for (ptrdiff_t i = 0; i < BATCH / 2; i++) *element(s.y, i) = -100;
    *element(s.x, (BATCH - 1) * FEATURES + 2) = NAN;
    expect_failure(st_train(s.n, s.set, .loss = st_cross_entropy(), .optim = s.o, .batch = BATCH,
                            .micro_batches = 2, .keep_order = true, .callbacks = { st_detect_anomaly() }),
                   "(epoch 1): the batch's x is nan at [9, 2]");
}

TEST(a_target_gone_wrong_is_named)
{
    auto_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 2));
    auto_tensor x = full(ST_SHAPE(3, 2), 1), y = full(ST_SHAPE(3, 2), 1);
    *element(y, 5) = (st_real)INFINITY;
    auto_dataset *d = st_dataset_tensors(x, y);
    auto_optim *o = st_sgd(.lr = 0.125);
    expect_failure(st_train(n, d, .loss = st_mse(), .optim = o, .keep_order = true,
                            .callbacks = { st_detect_anomaly() }),
                   "(epoch 1): the batch's target is inf at [2, 1]");
}

/* A sample's place is that in the set; where all outputs are finite, the error stays as it is. */
TEST(validation_gone_wrong_is_named)
{
    const double most = (double)ST_REAL_MAX;
    const struct {
        ptrdiff_t sample; /* whose x and target become these; -1: a state becomes `x` */
        double x, target;
        const char *text;
    } cases[] = {
        { 7, 0, 0, NULL },
        { 7, INFINITY, 0, "inf after epoch 1: x is inf at [7, 0]" },
        { 7, NAN, 0, "nan after epoch 1: x is nan at [7, 0]" },
        { 9, 0, -INFINITY, "inf after epoch 1: the target is -inf at [9, 0]" },
        { 7, most, 0, "inf after epoch 1: the output of layer 0 (dense) is inf at [7, 0]" },
        { -1, NAN, 0, "nan after epoch 1: 1.running_mean is nan at [0]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_net *n = st_net_new(ST_SHAPE(1), st_dense(.out_features = 1), st_batchnorm(.momentum = 1e-9));
        auto_tensor x = full(ST_SHAPE(4, 1), 1), y = full(ST_SHAPE(4, 1), 1), far = full(ST_SHAPE(10, 1), 1),
                    wanted = full(ST_SHAPE(10, 1), 1);
        auto_dataset *d = st_dataset_tensors(x, y), *unseen = st_dataset_tensors(far, wanted);
        auto_optim *o = st_sgd(.lr = 1e-30);
        assert_int_equal(st_net_build(n, 4, 1), 0);
        st_fill(st_net_find(n, "0.weight"), 4);
        *element(x, 0) = -1;
        if (cases[i].sample < 0) *element(st_net_find(n, "1.running_mean"), 0) = (st_real)cases[i].x;
        else *element(far, cases[i].sample) = (st_real)cases[i].x;
        if (cases[i].target != 0) *element(wanted, cases[i].sample) = (st_real)cases[i].target;
        const int status = st_train(n, d, .epochs = 2, .loss = st_mse(), .optim = o, .validation = unseen,
                                    .batch = 4, .callbacks = { st_detect_anomaly() });
        if (!cases[i].text) assert_int_equal(status, 0);
        else expect_failure(status, "train: the validation loss is %s", cases[i].text);
    }
}

/* In the gradients the loss is finite. The last gradients overflow where those of chunks are added up. */
TEST(the_first_number_gone_wrong_is_named_before_the_step)
{
    const struct {
        fault f;
        const char *text;
    } cases[] = {
        { { FORWARD, 17, 2, NAN },
          "train: the loss is nan at step 1 (epoch 1): the output of layer 2.body.0 (erring) is nan at [17, "
          "2]; a learning rate below 0.125, or clipping, may help" },
        { { FORWARD, 0, 0, -INFINITY }, ": the output of layer 2.body.0 (erring) is -inf at [0, 0]; " },
        { { BACKWARD, 18, 1, INFINITY }, ": dx of layer 2.body.0 (erring) is inf at [18, 1]; " },
        { { GRADIENT, 0, 3, NAN }, ": the gradient of 2.body.0.weight (erring) is nan at [3]; " },
        { { GRADIENT, -1, 3, (double)ST_REAL_MAX / 4 * 3 },
          ": the gradient of 2.body.0.weight is inf at [3]; " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_setting s = set_up(cases[i].f);
        runs_into(s, st_detect_anomaly(), cases[i].text);
    }
    auto_setting s = set_up(cases[0].f); /* without it the run ends all the same */
    runs_into(s, (st_callback){ 0 },
              "train: the loss is nan at step 1 (epoch 1); a learning rate below 0.125");
}

/* Gradient and loss are finite: the optimizer's step makes a parameter infinite, which ends the run. */
TEST(a_step_that_overflows_is_found_out)
{
    const double most = (double)ST_REAL_MAX;
    const struct {
        st_optim *o;
        double value;
        const char *is;
    } cases[] = {
        { st_sgd(.lr = 8), most / 2, "-inf" },
        { st_sgd(.lr = 8, .momentum = 0.9), -most / 2, "inf" },
        { st_sgd(.lr = 8, .momentum = 0.9, .nesterov = true), most / 2, "-inf" },
        { st_sgd(.lr = 8), NAN, "nan" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_setting s = set_up((fault){ GRADIENT, 0, 3, cases[i].value });
        st_optim_free(s.o), s.o = cases[i].o;
        about("%s, case %zu", s.o->kind->name, i);
        expect_failure(
            run(s, isnan(cases[i].value) ? (st_callback){ 0 } : st_detect_anomaly(), (st_callback){ 0 }),
            "train: element 3 of 2.body.0.weight is %s at step 1 (epoch 1); ", cases[i].is);
    }
}

TEST(a_step_that_clipping_makes_small_is_taken)
{
    auto_setting s = set_up((fault){ GRADIENT, 0, 3, (double)ST_REAL_MAX / 3 * 2 });
    s.o->lr = 100;
    assert_int_equal(run(s, st_detect_anomaly(), st_clip(.value = 1)), 0);
    assert_int_equal(s.o->steps, 4);
}

/* A loss of one's own that fails, after the batch went through the net. */
static double refusing(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    st_error_set("loss %s: no", l->kind->name);
    return NAN;
}

TEST(a_step_whose_loss_fails_is_not_taken)
{
    auto_setting s = set_up((fault){ NOWHERE });
    auto_tensor before = st_tensor_clone(st_net_parameters(s.n));
    static const st_loss_kind kind = { .name = "none", .value = refusing };
    const st_loss none = st_loss_new(&kind, NULL);
    expect_failure(st_train(s.n, s.set, .loss = none, .optim = s.o, .batch = BATCH), "loss none: no");
    assert_same(st_net_parameters(s.n), before);
    assert_int_equal(s.o->steps, 0);
}

/* For any number of threads. */
TEST(the_batch_and_parameters_are_looked_at_first)
{
    int threads = st_num_threads();
    share_all_work();
    for (int k = 1; k <= 3; k++) {
        st_set_num_threads(k);
        auto_setting s = set_up((fault){ FORWARD, 0, 0, NAN });
        for (ptrdiff_t i = 3; i < BATCH; i += 5)
            *st_at(s.x, ST_INDEX(i, 0)) = (st_real)1e38 * 10; /* inf in float */
        *st_at(s.x, ST_INDEX(3, 0)) = INFINITY, *st_at(s.x, ST_INDEX(13, 1)) = NAN;
        assert_int_equal(run(s, st_detect_anomaly(), (st_callback){ 0 }), -1); /* no rate would help */
        assert_string_equal(st_error(),
                            "train: the loss is nan at step 1 (epoch 1): the batch's x is inf at [3, 0]");
        st_error_clear();
        *element(st_net_find(s.n, "4.weight"), 6) = NAN;
        expect_failure(run(s, st_detect_anomaly(), (st_callback){ 0 }), ": 4.weight is nan at [1, 1]; ");
        auto_setting each = set_up((fault){ FORWARD, -1, 4, NAN });
        runs_into(each, st_detect_anomaly(), ": the output of layer 2.body.0 (erring) is nan at [0, 4]; ");
    }
    st_set_num_threads(threads);
}

static void just_run(const st_watch_call *w, void *context)
{
    (void)context;
    st_watch_run(w);
}

/* y, and the gradients of the first step. */
static st_tensor first_step(bool watched, st_tensor x)
{
    auto_net *n =
        st_net_new(ST_SHAPE(16, 9, 9), st_conv2d(.out_channels = 32, .kernel = { 3, 3 }, .stride = { 2, 2 }),
                   st_conv2d(.out_channels = 32, .kernel = { 1, 1 }),
                   st_conv2d(.out_channels = 64, .kernel = { 3, 3 }, .padding = { 1, 1 }), st_batchnorm(),
                   st_relu(), st_conv_transpose2d(.out_channels = 16, .kernel = { 2, 2 }, .stride = { 2, 2 }),
                   st_maxpool({ 2, 2 }), st_conv2d(.out_channels = 16, .kernel = { 3, 3 }, .groups = 16),
                   st_flatten(), st_dense(.out_features = 3));
    assert_int_equal(st_net_build(n, x.shape.n[0], 1), 0);
    st_watch *w = watched ? st_watch_begin(n, just_run, NULL) : NULL;
    const st_tensor y = st_net_forward(n, x, ST_TRAIN), g = st_net_gradients(n);
    auto_tensor dy = full(y.shape, 1), dx = st_tensor_new(x.shape);
    st_net_backward(n, dy, dx);
    st_watch_end(w);
    const st_tensor all = st_tensor_new(ST_SHAPE(st_numel(y) + st_numel(dx) + st_numel(g)));
    st_copy(st_narrow(all, 0, 0, st_numel(y)), st_reshape(y, ST_SHAPE(st_numel(y))));
    st_copy(st_narrow(all, 0, st_numel(y), st_numel(dx)), st_reshape(dx, ST_SHAPE(st_numel(dx))));
    st_copy(st_narrow(all, 0, st_numel(y) + st_numel(dx), st_numel(g)), st_reshape(g, ST_SHAPE(st_numel(g))));
    return all;
}

TEST(a_net_that_is_watched_computes_the_same)
{
    dice d = { { 1 } };
    for (int i = 0; i < 3 * ENGINES; i++) {
        if (!choose_engine(engines[i / 3])) continue;
        about("%s, %d images", engines[i / 3], i % 3 * 8 + 1);
        auto_tensor x = roll_tensor(&d, ST_SHAPE(i % 3 * 8 + 1, 16, 9, 9), -2, 2);
        auto_tensor expected = first_step(false, x), all = first_step(true, x);
        assert_same(all, expected);
    }
    use_engine(NULL);
}

/* Hooks find their watch by their layer, which has one: a second one would call itself for ever. */
TEST(a_net_is_watched_by_one_at_a_time)
{
    auto_setting s = set_up((fault){ FORWARD, -1, 4, NAN });
    st_watch *w = st_watch_begin(s.n, just_run, NULL);
    assert_non_null(w);
    expect_failure(st_watch_begin(s.n, just_run, NULL), "st_watch_begin: the net is watched already");
    expect_failure(run(s, st_detect_anomaly(), (st_callback){ 0 }),
                   "train: step 1 (epoch 1) is not finite, and cannot be repeated: "
                   "st_watch_begin: the net is watched already");
    st_watch_end(w);
    st_watch_end(st_watch_begin(s.n, just_run, NULL));
    assert_null(st_error());
}

/* 3x3 convolutions are Winograd's where the engine is not the reference: they spread a NaN. */
TEST(every_engine_names_the_layer_of_a_pixel)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(4, 1, 12, 12)), y = st_tensor_new(ST_SHAPE(4));
    auto_dataset *d = st_dataset_tensors(x, y);
    for (int i = 0; i < 2 * ENGINES; i++) {
        if (!choose_engine(engines[i / 2])) continue;
        planted = (fault){ i % 2 ? BACKWARD : FORWARD, 0, 144 + 4 * 12 + 5, NAN };
        about("%s, hook %d", engines[i / 2], planted.hook);
        auto_net *n = st_net_new(ST_SHAPE(1, 12, 12),
                                 st_conv2d(.out_channels = 32, .kernel = { 3, 3 }, .padding = { 1, 1 }),
                                 st_conv2d(.out_channels = 32, .kernel = { 3, 3 }, .padding = { 1, 1 }),
                                 st_layer_new(&erring, NULL, 0, NULL),
                                 st_conv2d(.out_channels = 32, .kernel = { 3, 3 }, .padding = { 1, 1 }),
                                 st_flatten(), st_dense(.out_features = 3));
        auto_optim *o = st_sgd(.lr = 0.125);
        expect_failure(st_train(n, d, .loss = st_cross_entropy(), .optim = o, .batch = 4,
                                .callbacks = { st_detect_anomaly() }),
                       ": %s layer 2 (erring) is nan at [0, 1, 4, 5]; ", i % 2 ? "dx of" : "the output of");
    }
    use_engine(NULL);
}
