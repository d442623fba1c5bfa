/* test_team.c: the result of a run depends on its micro-batches, not on the ranks that run them.
 *
 * One process is the oracle for ranks, an uncut batch for one that is cut, and a step by hand for layers that
 * see a micro-batch at a time. Ranks are threads here (together.h); tests/mpi has them as processes. */
#define _POSIX_C_SOURCE 200809L
#include "nn/data/digits.h"
#include "nn/files/checkpoint.h"
#include "nn/callbacks/callbacks.h"
#include "tests/each_epoch.h"
#include "tests/files.h"
#include "tests/support.h"
#include "tests/ranks/together.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- outcomes ------------------------------------------------------------------------------------------ */

static void assert_same_outcome(const outcome *got, const outcome *expected)
{
    if (got->status) fail_msg("%s", got->error);
    assert_true(same_bytes(got->parameters, expected->parameters));
    if (st_numel(expected->states) > 0) assert_true(same_bytes(got->states, expected->states));
    const st_train_result *a = &got->result, *b = &expected->result;
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->best_epoch, b->best_epoch);
    assert_memory_equal(&a->training.loss, &b->training.loss, sizeof a->training.loss);
    assert_true(a->training.accuracy == b->training.accuracy);
    if (isnan(b->validation.loss)) return;
    assert_memory_equal(&a->validation.loss, &b->validation.loss, sizeof a->validation.loss);
    assert_true(a->validation.accuracy == b->validation.accuracy);
}

static outcome alone(const together *what)
{
    outcome out = train_together(what, NULL);
    if (out.status) fail_msg("%s", out.error);
    return out;
}

/* So many ranks come to what is expected, each of them. */
static void ranks_come_to(const together *what, int ranks, const outcome *expected)
{
    outcome out[MOST_RANKS];
    train_by_threads(what, ranks, out);
    for (int q = 0; q < ranks; q++) {
        about("rank %d of %d", q, ranks);
        assert_same_outcome(&out[q], expected);
        outcome_free(&out[q]);
    }
}

/* Every rank ends with this line. */
static void ranks_end_with(const together *what, int ranks, const char *expected)
{
    outcome out[MOST_RANKS];
    train_by_threads(what, ranks, out);
    for (int q = 0; q < ranks; q++) {
        about("rank %d of %d", q, ranks);
        assert_int_equal(out[q].status, -1);
        if (!strstr(out[q].error, expected) || strstr(out[q].error, "rank 0: rank 0: "))
            fail_msg("\"%s\", expected \"%s\"", out[q].error, expected);
        outcome_free(&out[q]);
    }
}

/* ---- micro-batches ------------------------------------------------------------------------------------- */

/* It remembers one number of all images that it sees, from forward to backward. */
static int plan_one(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_memory(l, ST_SHAPE(1, 1));
}

static void remember(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    *st_data(st_memory(c, 0)) = (st_real)(c->first + 1);
}

static void remind(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_copy(dx, dy);
    if (*st_data(st_memory(c, 0)) != (st_real)(c->first + 1)) st_fill(dx, (st_real)NAN);
}

static const st_layer_type remembering = {
    .name = "remembering", .chunk = ST_WHOLE_BATCH, .plan = plan_one, .forward = remember, .backward = remind
};

/* With a 3x3 convolution of many channels, whose algorithm depends on the images that there are. */
static st_net *branches(bool independent)
{
    return st_net_new(
        ST_SHAPE(1, 28, 28), independent ? st_identity() : st_batchnorm(),
        st_conv2d(.out_channels = 32, .kernel = { 4, 4 }, .stride = { 4, 4 }), st_tanh(),
        st_concat(
            st_sequence(independent ? st_groupnorm(.groups = 2) : st_batchnorm(.no_affine = true), st_relu()),
            st_conv2d(.out_channels = 32, .kernel = { 3, 3 }, .padding = { 1, 1 })),
        st_groupnorm(.groups = 8), st_flatten(), st_layer_new(&remembering, NULL, 0, NULL),
        st_dropout(.p = independent ? ST_ZERO : 0.2), st_dense(.out_features = 10, .no_bias = true));
}

static st_net *with_branches(void)
{
    return branches(false);
}

/* Images are independent, and nothing is drawn. */
static st_net *with_independent_images(void)
{
    return branches(true);
}

/* With so many parameters that it depends on the images how chunks of them are added up. */
static st_net *with_a_large_layer(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28),
                      st_conv2d(.out_channels = 160, .kernel = { 7, 7 }, .stride = { 7, 7 }), st_relu(),
                      st_conv2d(.out_channels = 512, .kernel = { 4, 4 }), st_flatten(),
                      st_dense(.out_features = 10));
}

static void plain(st_train_options *o, int rank)
{
    o->schedule = (st_schedule){ 0 };
    o->validation = NULL;
}

/* The greatest difference, as part of the greatest number. */
static double distance(st_tensor a, st_tensor b)
{
    double most = 0, away = 0;
    for (ptrdiff_t i = 0; i < st_numel(a); i++) {
        double x = (double)*element(a, i), y = (double)*element(b, i);
        away = fmax(away, isnan(x) ? INFINITY : fabs(x - y));
        most = fmax(most, fabs(y));
    }
    return away / most;
}

/* Each rank has a path of its own, as on a machine of its own. */
static char path[MOST_RANKS][256];

static int enter(void **state)
{
    int status = enter_folder(state);
    alarm(500); /* ranks that lose each other would wait forever */
    share_all_work();
    for (int q = 0; q < MOST_RANKS && status == 0; q++) {
        char name[] = "0.safetensors";
        name[0] = (char)('0' + q);
        strcpy(path[q], path_of(name));
    }
    return status;
}
SETUP(enter)

/* One step is one gradient. */
TEST(a_gradient_is_the_same_however_a_batch_is_cut)
{
    st_net *(*const nets[])(void) = { with_independent_images, with_a_large_layer };
    const double limit = sizeof(st_real) == 8 ? 1e-12 : 1e-5;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        together what = { .make = nets[i], .samples = 7, .batch = 7, .epochs = 1, .change = plain };
        outcome whole = alone(&what);
        for (int count = 2; count <= 7; count++) {
            about("net %zu, %d micro-batches", i, count);
            what.micro_batches = count;
            outcome cut = alone(&what);
            if (distance(cut.parameters, whole.parameters) > limit)
                fail_msg("%g", distance(cut.parameters, whole.parameters));
            assert_true(fabs(cut.result.training.loss - whole.result.training.loss) <
                        limit * whole.result.training.loss);
            assert_true(cut.result.training.accuracy == whole.result.training.accuracy);
            outcome_free(&cut);
        }
        outcome_free(&whole);
    }
}

/* Batch normalisation, dropout: each micro-batch runs by itself from the step's states, and draws numbers of
 * its own. */
static st_net *with_states(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28), st_batchnorm(), st_flatten(), st_dropout(.p = 0.5),
                      st_dense(.out_features = 10));
}

static void three_of_nine(st_train_options *o, int rank)
{
    plain(o, rank);
    o->keep_order = true;
    st_optim_free(o->optim);
    o->optim = st_sgd(.lr = 0.5);
}

TEST(a_micro_batch_is_a_batch_by_itself)
{
    together what = {
        .make = with_states, .samples = 9, .batch = 9, .epochs = 1, .micro_batches = 3, .plain = true
    };
    what.change = three_of_nine;
    outcome got = alone(&what);

    auto_net *n = with_states();
    auto_dataset *digits = st_digits(9, 1);
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 1, 28, 28)), target = st_tensor_new(ST_SHAPE(3)),
                dy = st_tensor_new(ST_SHAPE(3, 10));
    assert_int_equal(st_net_build(n, 3, 5), 0);
    auto_tensor before = st_tensor_clone(st_net_states(n)), states = st_tensor_new(before.shape),
                sum = st_tensor_new(st_net_parameters(n).shape);
    for (int s = 0; s < 3; s++) {
        st_copy(st_net_states(n), before);
        st_net_zero_gradients(n);
        st_dataset_batch(digits, NULL, 3 * s, 3, x, target);
        st_loss_value(st_cross_entropy(.label_smoothing = 0.1), st_net_forward(n, x, ST_TRAIN), target, dy);
        st_scale(dy, (st_real)(1.0 / 3));
        st_net_backward(n, dy, (st_tensor){ 0 });
        st_add(sum, 1, st_net_gradients(n));
        st_add(states, 1, st_net_states(n));
    }
    st_scale(states, (st_real)(1.0 / 3));
    auto_optim *o = st_sgd(.lr = 0.5);
    st_optim_step(o, 0.5, st_net_parameters(n), sum);
    assert_null(st_error());
    assert_true(same_bytes(got.parameters, st_net_parameters(n)));
    assert_true(distance(got.states, states) < 4 * (double)ST_REAL_EPSILON);
    assert_true(distance(got.states, before) > 0.01);

    outcome_free(&got);
}

/* ---- ranks --------------------------------------------------------------------------------------------- */

static void patient_and_clipped(st_train_options *o, int rank)
{
    o->callbacks[0] = patient(2);
    o->callbacks[1] = st_clip(.norm = 0.5);
    o->drop_last = true;
}

/* Also where an algorithm is chosen by the images of a micro-batch; and the best parameters are restored. */
TEST(ranks_come_to_the_bits_of_one_process)
{
    const together all[] = {
        { .make = with_all_layers, .micro_batches = 4 },
        { .make = with_branches, .micro_batches = 4 },
        { .make = with_a_large_layer,
          .samples = 32,
          .batch = 32,
          .epochs = 1,
          .micro_batches = 2,
          .change = plain },
        { .micro_batches = 3 },
        { .micro_batches = 4, .epochs = 3, .change = patient_and_clipped, .lr = 0.3 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        together what = all[i];
        outcome expected = alone(&what);
        const int count = what.micro_batches;
        if (count == 3) what.micro_batches = 0; /* as many as there are ranks */
        for (int ranks = 1; ranks <= count; ranks++)
            if (count % ranks == 0 && (what.micro_batches || ranks == count))
                ranks_come_to(&what, ranks, &expected);
        outcome_free(&expected);
    }
}

static void unordered(st_train_options *o, int rank)
{
    o->unordered = true;
}

TEST(a_sum_in_any_order_is_the_same_but_for_rounding)
{
    together what = { .micro_batches = 4, .lr = 0.01 };
    outcome expected = alone(&what), out[MOST_RANKS];
    what.change = unordered;
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        train_by_threads(&what, ranks, out);
        for (int q = 0; q < ranks; q++) {
            about("rank %d of %d", q, ranks);
            if (out[q].status) fail_msg("%s", out[q].error);
            assert_true(same_bytes(out[q].parameters, out[0].parameters));
            assert_true(distance(out[q].parameters, expected.parameters) <
                        (sizeof(st_real) == 8 ? 1e-12 : 1e-6));
            assert_true(distance(out[q].states, expected.states) < (sizeof(st_real) == 8 ? 1e-12 : 1e-6));
        }
        assert_false(same_bytes(out[0].parameters, expected.parameters));
        for (int q = 0; q < ranks; q++) outcome_free(&out[q]);
    }
    outcome_free(&expected);
}

/* ---- who does what ------------------------------------------------------------------------------------- */

static FILE *shown[MOST_RANKS];
static int calls[MOST_RANKS], rank_of_call[MOST_RANKS] = { 0, 1, 2, 3 };

static bool stop_after_two(const st_train_report *r, void *context)
{
    calls[*(int *)context]++;
    return r->epoch < 2;
}

static void look(st_train_options *o, int rank)
{
    o->callbacks[0] = st_progress(shown[rank]);
    o->callbacks[1] = each_epoch(stop_after_two, &rank_of_call[rank]);
}

TEST(rank_0_shows_and_all_are_called)
{
    outcome out[MOST_RANKS];
    for (int q = 0; q < MOST_RANKS; q++) assert_non_null(shown[q] = tmpfile());
    memset(calls, 0, sizeof calls);
    train_by_threads(&(together){ .epochs = 5, .change = look }, 4, out);
    for (int q = 0; q < MOST_RANKS; q++) {
        assert_int_equal(out[q].status, 0);
        assert_int_equal(out[q].result.epochs, 2);
        assert_int_equal(calls[q], 2);
        assert_true(q == 0 ? ftell(shown[q]) > 0 : ftell(shown[q]) == 0);
        fclose(shown[q]), outcome_free(&out[q]);
    }
}

/* ---- checkpoints --------------------------------------------------------------------------------------- */

static bool enough(const st_train_report *r, void *context)
{
    return false;
}

static void keep(st_train_options *o, int rank)
{
    o->callbacks[1] = st_checkpoint(path[rank], 1, true);
}

static void keep_one_epoch(st_train_options *o, int rank)
{
    keep(o, rank);
    o->callbacks[0] = each_epoch(enough, NULL);
}

TEST(ranks_go_on_where_others_were)
{
    together what = { .micro_batches = 4, .epochs = 3, .change = keep_one_epoch };
    outcome expected = alone(&(together){ .micro_batches = 4, .epochs = 3 }), out[MOST_RANKS];
    for (int first = 1; first <= 4; first *= 2)
        for (int ranks = 1; ranks <= 4; ranks *= 4) {
            unlink(path[0]);
            what.change = keep_one_epoch;
            train_by_threads(&what, first, out);
            for (int q = 0; q < first; q++) assert_int_equal(out[q].status, 0), outcome_free(&out[q]);
            what.change = keep;
            ranks_come_to(&what, ranks, &expected);
        }
    for (int q = 1; q < MOST_RANKS; q++) assert_int_equal(access(path[q], F_OK), -1);
    what.micro_batches = 2;
    ranks_end_with(&what, 2, "a run with micro_batches 4, this one has 2");
    outcome_free(&expected);
}

TEST(a_checkpoint_that_cannot_be_read_ends_all)
{
    written("0.safetensors", BYTES("no such thing"));
    ranks_end_with(&(together){ .change = keep }, 4, "rank 0: ");
}

/* ---- what fails ---------------------------------------------------------------------------------------- */

/* The term that differs at the last rank. */
static enum difference { BATCH, RATE, SEED, LOSS, ORDER, OPTIMIZER } different;
static int last_rank;

static void differ(st_train_options *o, int rank)
{
    if (rank < last_rank) return;
    switch (different) {
    case BATCH: o->batch = 13; break;
    case RATE: o->optim->lr = 0.125; break;
    case SEED: o->seed = 6; break;
    case LOSS: o->loss = (st_loss){ 0 }; break;
    case ORDER: o->unordered = true; break;
    case OPTIMIZER:
        ((st_sgd_options *)o->optim->options)->momentum = 0; /* as no program may */
        o->optim->states = 0;
        break;
    }
}

static bool refuse(const st_train_report *r, void *context)
{
    st_error_set("no more room");
    return true;
}
static void refusing(st_train_options *o, int rank)
{
    o->callbacks[0] = each_epoch(refuse, NULL);
}
static void no_class(st_tensor x, st_tensor y, int rank)
{
    if (rank == 1) st_fill(y, 17);
}
static void no_number(st_tensor x, st_tensor y, int rank)
{
    *st_at(x, ST_INDEX(11, 0, 3, 4)) = (st_real)NAN;
}

static void keep_nowhere(st_train_options *o, int rank)
{
    o->callbacks[0] = st_checkpoint("no such folder/0.safetensors", 1);
}

/* Each rank validates with samples of its own; those of rank 1 end early. */
static void break_off(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    st_fill(x, 0), st_fill(y, 0);
    if (i == 20 && *(const int *)d->own == 1) st_error_set("torn off");
}
static void validating(st_train_options *o, int rank)
{
    static st_dataset torn[MOST_RANKS];
    static const int number[MOST_RANKS] = { 0, 1, 2, 3 };
    torn[rank] =
        (st_dataset){ .count = 25, .x = ST_SHAPE(1, 28, 28), .get = break_off, .own = (void *)&number[rank] };
    o->validation = &torn[rank];
}

TEST(what_fails_at_one_rank_ends_all)
{
    static const char *const differences[] = { [BATCH] = "rank 0 has batch 12, this one has 13",
                                               [RATE] = "rank 0 has sgd.lr 0.05, this one has 0.125",
                                               [SEED] = "rank 0 has seed 5, this one has 6",
                                               [LOSS] = "the loss is missing",
                                               [ORDER] = "rank 0 has unordered sums 0, this one has 1",
                                               [OPTIMIZER] = "rank 0 has sgd.momentum 0.9, this one has 0" };
    for (different = BATCH; different <= OPTIMIZER; different++) {
        char expected[80];
        last_rank = 1 + (int)different % 3;
        snprintf(expected, sizeof expected, "rank %d: train: %s", last_rank, differences[different]);
        ranks_end_with(&(together){ .change = differ }, last_rank + 1, expected);
    }
    ranks_end_with(&(together){ .change = refusing }, 2, "rank 0: no more room");
    ranks_end_with(&(together){ .change = keep_nowhere }, 2,
                   "rank 0: no such folder/0.safetensors: cannot be written: ");
    ranks_end_with(&(together){ .change = validating }, 2, "rank 1: sample 20: torn off");
    ranks_end_with(&(together){ .spoil = no_class }, 2, "class 17 is not a whole number from 0 to 9");
    ranks_end_with(&(together){ .micro_batches = 4 }, 3,
                   "rank 0: train: micro_batches is 4, expected a multiple of the ranks, 3, and at most");
}

/* At all ranks at once, in each call that they make in turn. */
static void lose_each_other(together what)
{
    outcome out[MOST_RANKS] = { 0 };
    do {
        unlink(path[0]);
        what.calls++;
        for (int q = 0; q < 2; q++) outcome_free(&out[q]);
        train_by_threads(&what, 2, out);
        about("%d calls", what.calls);
        for (int q = 0; q < 2 && out[q].status; q++)
            if (strcmp(out[q].error, "the ranks are apart") != 0) fail_msg("%s", out[q].error);
        assert_int_equal(out[0].status, out[1].status);
    } while (out[0].status && what.calls < 1000);
    assert_in_range(what.calls, 15, 999);
    for (int q = 0; q < 2; q++) outcome_free(&out[q]);
}

TEST(ranks_that_lose_each_other_end)
{
    lose_each_other((together){ .samples = 12, .epochs = 1, .micro_batches = 4, .change = keep });
    lose_each_other((together){ .samples = 12, .epochs = 1, .change = unordered });
}

static void in_order(st_train_options *o, int rank)
{
    plain(o, rank);
    o->keep_order = true;
    o->callbacks[0] = st_detect_anomaly();
}

/* Which micro-batch it is in, and the same for all. */
TEST(a_number_that_is_not_finite_is_found)
{
    static const char said[] =
        "train: the loss is nan at step 1 (epoch 1): the batch's x is nan at [2, 0, 3, 4]";
    together what = { .micro_batches = 4, .change = in_order, .spoil = no_number };
    outcome one = train_together(&what, NULL);
    if (strncmp(one.error, said, strlen(said)) != 0) fail_msg("%s", one.error);
    ranks_end_with(&what, 4, one.error);
    outcome_free(&one);
}

TEST(batches_that_cannot_be_cut_are_refused)
{
    outcome out = train_together(&(together){ .samples = 50, .micro_batches = 4 }, NULL);
    assert_string_equal(
        out.error, "train: the last batch of an epoch has 2 images for 4 micro-batches; drop_last skips it");
    out = train_together(&(together){ .batch = 3, .micro_batches = 4 }, NULL);
    assert_string_equal(
        out.error,
        "train: micro_batches is 4, expected a multiple of the ranks, 1, and at most the batch, 3");
    out = train_together(&(together){ .micro_batches = -1 }, NULL);
    assert_string_equal(out.error, "train: micro_batches is -1, expected at least 0");
}
