/* test_groups.c: frozen parameters stay, no work is done for them, and each group trains with its own
 * numbers.
 *
 * The oracles are an optimizer for each part of the parameters, and counters in the hooks of a layer. */
#include "tests/support.h"

#include "nn/callbacks/callbacks.h"
#include "nn/groups/groups.h"
#include "nn/train.h"

#include <math.h>
#include <string.h>

/* ---- a layer y = x + b that counts the calls of its hooks ------------------------------------------ */

static int backwards[4], gradients[4];

typedef struct counted {
    int place;
} counted;

static int plan_counted(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "bias", ST_SHAPE(x.n[1]), (st_init){ .constant = 0 });
}

static void forward_counted(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    st_add(y, 1, st_expand(c->param[0], y.shape));
}

static void backward_counted(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    backwards[((const counted *)c->options)->place]++;
    st_copy(dx, dy);
}

static void gradient_counted(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    gradients[((const counted *)c->options)->place]++;
    st_add(st_expand(st_grad(c, 0), dy.shape), 1, dy);
}

static const st_field counted_fields[] = { { "place", ST_FIELD_INT, offsetof(counted, place) }, { 0 } };
static const st_layer_type counted_type = { .name = "counted",
                                            .options_size = sizeof(counted),
                                            .fields = counted_fields,
                                            .plan = plan_counted,
                                            .forward = forward_counted,
                                            .backward = backward_counted,
                                            .gradient = gradient_counted };

static st_layer *counted_layer(int place)
{
    return st_layer_new(&counted_type, &(counted){ place }, 0, NULL);
}

/* Layers 0 and 1 at the bottom, 2 in a residual block's body, 3 at the top. */
static st_net *counting(void)
{
    st_net *n = st_net_new(ST_SHAPE(2), counted_layer(0), counted_layer(1),
                           st_residual(st_sequence(st_identity(), counted_layer(2))), counted_layer(3));
    assert_int_equal(st_net_build(n, 1, 1), 0);
    return n;
}

static void run_counting(st_net *n, st_tensor dx, const int backward[4], const int gradient[4])
{
    auto_tensor x = tensor_of(ST_SHAPE(1, 2), 3, 4), dy = tensor_of(ST_SHAPE(1, 2), 1, 2);
    memset(backwards, 0, sizeof backwards), memset(gradients, 0, sizeof gradients);
    st_net_zero_gradients(n);
    st_net_forward(n, x, ST_TRAIN);
    assert_int_equal(st_net_backward(n, dy, dx), 0);
    for (int i = 0; i < 4; i++) {
        about("layer %d", i);
        assert_int_equal(backwards[i], backward[i]);
        assert_int_equal(gradients[i], gradient[i]);
    }
}

TEST(the_backward_pass_stops_where_nothing_below_trains)
{
    const struct {
        const char *frozen;
        int backward[4], gradient[4];
    } cases[] = {
        { NULL, { 0, 1, 1, 1 }, { 1, 1, 1, 1 } },     { "0", { 0, 0, 1, 1 }, { 0, 1, 1, 1 } },
        { "[01]", { 0, 0, 0, 1 }, { 0, 0, 1, 1 } },   { "[0-1]", { 0, 0, 0, 1 }, { 0, 0, 1, 1 } },
        { "[012]*", { 0, 0, 0, 0 }, { 0, 0, 0, 1 } }, { "2.body", { 0, 1, 1, 1 }, { 1, 1, 0, 1 } },
        { "3", { 0, 1, 1, 1 }, { 1, 1, 1, 0 } },
    };
    st_tensor none = { 0 };
    auto_tensor dx = st_tensor_new(ST_SHAPE(1, 2));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_net *n = counting();
        auto_optim *o = st_sgd(.lr = 1);
        st_param_group group = { cases[i].frozen, .frozen = true };
        assert_int_equal(st_optim_groups(o, n, group.names != NULL, &group), 0);
        run_counting(n, none, cases[i].backward, cases[i].gradient);
        run_counting(n, dx, (const int[]){ 1, 1, 1, 1 }, cases[i].gradient);
        assert_int_equal(st_optim_groups(o, n, 0, NULL), 0);
        run_counting(n, none, cases[0].backward, cases[0].gradient);
    }
}

/* ---- each group has its own numbers -------------------------------------------------------------- */

static st_net *convolutional(void)
{
    st_net *n =
        st_net_new(ST_SHAPE(1, 6, 6), st_conv2d(.out_channels = 3, .kernel = { 3 }), st_batchnorm(),
                   st_relu(), st_residual(st_conv2d(.out_channels = 3, .kernel = { 3 }, .padding = { 1, 1 })),
                   st_flatten(), st_dense(.out_features = 4));
    assert_int_equal(st_net_build(n, 5, 3), 0);
    return n;
}

/* One optimizer of each kind, with weight decay where there is one. */
static st_optim *made(int kind, double lr, double decay)
{
    decay = decay == 0 ? ST_ZERO : decay;
    return kind == 0   ? st_sgd(.lr = lr, .momentum = 0.9, .weight_decay = decay)
           : kind == 1 ? st_adam(.lr = lr, .weight_decay = decay)
           : kind == 2 ? st_adamw(.lr = lr, .weight_decay = decay)
                       : st_rmsprop(.lr = lr, .weight_decay = decay);
}

static void backward_of(st_net *n, int step)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(5, 1, 6, 6)), dy = st_tensor_new(ST_SHAPE(5, 4));
    st_normal(x, (st_random_key){ 1, (uint64_t)step }, 0, 1);
    st_normal(dy, (st_random_key){ 2, (uint64_t)step }, 0, 1);
    st_net_zero_gradients(n);
    st_net_forward(n, x, ST_TRAIN);
    assert_int_equal(st_net_backward(n, dy, (st_tensor){ 0 }), 0);
}

static const double first_lr = 0.015625, factor = 0.25, first_decay = 0.125, own_decay = 0.5;

/* The groups of the test below, spelled out: name, learning rate, weight decay; rate 0: frozen. */
static const struct {
    const char *name;
    double lr, decay;
} spelled[] = {
    { "0.weight", 0, 0 },
    { "0.bias", first_lr *factor, own_decay },
    { "1.weight", first_lr, 0 },
    { "1.bias", first_lr *factor, own_decay },
    { "3.body.weight", first_lr, first_decay },
    { "3.body.bias", first_lr *factor, own_decay },
    { "5.weight", first_lr, first_decay },
    { "5.bias", first_lr *factor, own_decay },
};
enum { SPELLED = sizeof spelled / sizeof *spelled };

TEST(each_group_trains_as_an_optimizer_of_its_own)
{
    const st_param_group groups[] = {
        { "*.bias", .lr_factor = factor, .weight_decay = own_decay },
        { "0", .frozen = true },
        { "*", .vectors = true, .weight_decay = ST_ZERO },
    };
    for (int kind = 0; kind < 4; kind++) {
        auto_net *n = convolutional(), *expected = convolutional();
        auto_optim *o = made(kind, first_lr, first_decay);
        st_optim *parts[SPELLED];
        for (int i = 0; i < SPELLED; i++) parts[i] = made(kind, first_lr, spelled[i].decay);
        assert_int_equal(st_optim_groups(o, n, 3, groups), 0);
        for (int step = 0; step < 4; step++) {
            backward_of(n, step), backward_of(expected, step);
            assert_int_equal(st_optim_step(o, o->lr, st_net_parameters(n), st_net_gradients(n)), 0);
            st_tensor w = st_net_parameters(expected), dw = st_net_gradients(expected);
            for (int i = 0, first = 0; i < SPELLED; i++) {
                int count = (int)st_numel(st_net_find(expected, spelled[i].name));
                if (spelled[i].lr > 0)
                    st_optim_step(parts[i], spelled[i].lr, st_narrow(w, 0, first, count),
                                  st_narrow(dw, 0, first, count));
                first += count;
            }
            about("%s, step %d", o->kind->name, step);
            assert_same(st_net_parameters(n), w);
            assert_same(st_net_states(n), st_net_states(expected)); /* of a frozen one, too */
        }
        for (int i = 0; i < SPELLED; i++) st_optim_free(parts[i]);
    }
}

/* All above the frozen layer are adjacent, and train as one. */
TEST(adjacent_parameters_with_the_same_numbers_all_train)
{
    const st_param_group frozen = { "0", .frozen = true };
    auto_net *n = convolutional(), *expected = convolutional();
    auto_optim *o = made(0, first_lr, first_decay), *rest = made(0, first_lr, first_decay);
    assert_int_equal(st_optim_groups(o, n, 1, &frozen), 0);
    const ptrdiff_t first = st_numel(st_net_find(n, "0.weight")) + st_numel(st_net_find(n, "0.bias"));
    const ptrdiff_t count = st_numel(st_net_parameters(n)) - first;
    for (int step = 0; step < 3; step++) {
        backward_of(n, step), backward_of(expected, step);
        st_tensor w = st_net_parameters(expected), dw = st_net_gradients(expected);
        assert_int_equal(st_optim_step(o, o->lr, st_net_parameters(n), st_net_gradients(n)), 0);
        st_optim_step(rest, rest->lr, st_narrow(w, 0, first, count), st_narrow(dw, 0, first, count));
        assert_same(st_net_parameters(n), w);
    }
}

/* A weight and a bias, one of them frozen: its gradient is 0, so that it does not count in a clipped norm. */
TEST(frozen_parameters_have_no_gradient)
{
    static const char *const names[] = { "*.weight", "*.bias" };
    for (int frozen = 0; frozen < 2; frozen++) {
        about("%s is frozen", names[frozen]);
        auto_net *n = convolutional();
        auto_optim *o = st_sgd(.lr = 1);
        const st_param_group group = { names[frozen], .frozen = true };
        assert_int_equal(st_optim_groups(o, n, 1, &group), 0);
        backward_of(n, 0);
        const st_layer *conv = n->root->child[0];
        double sum[2] = { 0 };
        for (int i = 0; i < 2; i++)
            for (ptrdiff_t k = 0; k < st_numel(conv->grad[i]); k++)
                sum[i] += fabs((double)*element(conv->grad[i], k));
        assert_true(sum[frozen] == 0);
        assert_true(sum[1 - frozen] > 0);
    }
}

/* ---- in the trainer ------------------------------------------------------------------------------ */

TEST(the_groups_of_a_run_end_with_it)
{
    auto_net *n = convolutional();
    auto_tensor x = st_tensor_new(ST_SHAPE(10, 1, 6, 6)), y = st_tensor_new(ST_SHAPE(10)),
                before = st_tensor_clone(st_net_find(n, "0.weight"));
    st_normal(x, (st_random_key){ 1, 1 }, 0, 1);
    auto_dataset *d = st_dataset_tensors(x, y);
    auto_optim *o = st_sgd(.lr = 0.1, .weight_decay = 0.1);
    assert_int_equal(st_train(n, d, .batch = 5, .loss = st_cross_entropy(), .optim = o,
                              .groups = { { "0", .frozen = true } }),
                     0);
    assert_same(st_net_find(n, "0.weight"), before);
    assert_int_equal(st_train(n, d, .batch = 5, .loss = st_cross_entropy(), .optim = o), 0);
    st_add(before, -1, st_net_find(n, "0.weight"));
    assert_true(st_clip_grad_norm(before, 1) > 0);
    expect_failure(st_train(n, d, .batch = 5, .loss = st_cross_entropy(), .optim = o,
                            .groups = { { "7", .frozen = true } }),
                   "\"7\": the name matches no parameter; there are 0.weight");
}

TEST(groups_that_were_made_before_a_run_hold_in_it)
{
    auto_net *n = convolutional();
    auto_tensor x = st_tensor_new(ST_SHAPE(10, 1, 6, 6)), y = st_tensor_new(ST_SHAPE(10));
    st_normal(x, (st_random_key){ 1, 1 }, 0, 1);
    auto_dataset *d = st_dataset_tensors(x, y);
    auto_optim *o = st_sgd(.lr = 0.1);
    assert_int_equal(st_optim_groups(o, n, 1, (const st_param_group[]){ { "0", .frozen = true } }), 0);
    auto_tensor before = st_tensor_clone(st_net_find(n, "0.weight"));
    for (int run = 0; run < 2; run++) {
        assert_int_equal(st_train(n, d, .batch = 5, .loss = st_cross_entropy(), .optim = o), 0);
        assert_same(st_net_find(n, "0.weight"), before);
        /* nor do groups of a run that are refused end them */
        expect_failure(
            st_train(n, d, .loss = st_cross_entropy(), .optim = o, .groups = { { "7", .frozen = true } }),
            "\"7\": the name matches no parameter");
    }
}

/* Groups that are refused leave the net and the optimizer as they were. */
TEST(groups_that_are_refused_change_nothing)
{
    const st_param_group first = { "0", .frozen = true };
    const st_param_group wrong[][2] = {
        { { "5", .frozen = true }, { "no such name" } },
        { { "*", .frozen = true } },
        { { "5", .lr_factor = 0.5 }, { "0", .lr_factor = NAN } },
    };
    for (int had = 0; had < 2; had++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            auto_net *n = convolutional(), *expected = convolutional();
            auto_optim *o = made(0, first_lr, first_decay), *same = made(0, first_lr, first_decay);
            assert_int_equal(st_optim_groups(o, n, had, &first), 0);
            assert_int_equal(st_optim_groups(same, expected, had, &first), 0);
            assert_int_equal(st_optim_groups(o, n, i == 1 ? 1 : 2, wrong[i]), -1);
            st_error_clear();
            for (int step = 0; step < 2; step++) {
                backward_of(n, step), backward_of(expected, step);
                st_optim_step(o, o->lr, st_net_parameters(n), st_net_gradients(n));
                st_optim_step(same, o->lr, st_net_parameters(expected), st_net_gradients(expected));
            }
            about("%s, case %zu", had ? "groups" : "no groups", i);
            assert_same(st_net_gradients(n), st_net_gradients(expected));
            assert_same(st_net_parameters(n), st_net_parameters(expected));
        }
}

/* ---- refusals ------------------------------------------------------------------------------------ */

TEST(wrong_groups_are_refused)
{
    const struct {
        int count;
        st_param_group group[2];
        const char *error;
    } cases[] = {
        { 1, { { "6" } }, "\"6\": the name matches no parameter; there are " },
        { 1, { { "0.gamma" } }, "\"0.gamma\": the name matches no parameter; there are " },
        { 1, { { "0.weight", .vectors = true } }, "\"0.weight\": the name matches no parameter; there are " },
        { 2,
          { { "0" }, { "0.bias" } },
          "\"0.bias\": the name matches no parameter that is in no earlier group" },
        { 1, { { NULL } }, "a group without names" },
        { 1, { { "0", .lr_factor = -1 } }, "\"0\" has lr_factor -1" },
        { 1, { { "0", .lr_factor = INFINITY } }, "\"0\" has lr_factor inf" },
        { 1, { { "0", .lr_factor = -NAN } }, "\"0\" has lr_factor nan" },
        { 1, { { "0", .weight_decay = NAN } }, "weight_decay nan" },
        { 1, { { "*", .frozen = true } }, "every parameter is frozen" },
        { -1, { { "0" } }, "-1 groups, expected 0 to 8" },
        { ST_MAX_GROUPS + 1, { { "0" } }, "9 groups, expected 0 to 8" },
    };
    auto_net *n = convolutional(), *raw = st_net_new(ST_SHAPE(2), st_dense(.out_features = 1));
    auto_optim *o = st_sgd(.lr = 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("case %zu", i);
        expect_failure(st_optim_groups(o, n, cases[i].count, cases[i].group), "%s", cases[i].error);
    }
    expect_failure(st_optim_groups(NULL, n, 0, NULL), "the optimizer is NULL");
    expect_failure(st_optim_groups(o, NULL, 0, NULL), "the net is not built");
    expect_failure(st_optim_groups(o, raw, 0, NULL), "the net is not built");
    const st_param_group most[ST_MAX_GROUPS] = { { "0.weight" },    { "0.bias" }, { "1.weight" },
                                                 { "1.bias" },      { "5.bias" }, { "3.body.weight" },
                                                 { "3.body.bias" }, { "5" } };
    assert_int_equal(st_optim_groups(o, n, ST_MAX_GROUPS, most), 0);
    auto_tensor few = st_tensor_new(ST_SHAPE(3));
    expect_failure(st_optim_step(o, 1, few, few), "3 parameters, the groups are of");
    assert_int_equal(st_optim_groups(o, n, 0, NULL), 0);
    assert_int_equal(st_optim_step(o, 1, few, few), 0);
    expect_failure(st_layer_freeze(n->root->child[0], 2, true), "st_layer_freeze: parameter 2 of 2");
    expect_failure(st_layer_freeze(NULL, 0, true), "st_layer_freeze");
}
