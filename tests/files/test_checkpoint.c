/* test_checkpoint.c: a run that is cut off anywhere and goes on comes to the same bits as one that is not.
 *
 * The uninterrupted run is the oracle. A run is cut off by its data set, which fails at a sample; then a new
 * net, a new optimizer and a new set go on from the file. */
#define _XOPEN_SOURCE 700
#include "tests/each_epoch.h"
#include "tests/files.h"
#include "tests/support.h"

#include "nn/data/sets.h"
#include "nn/data/augment.h"
#include "nn/data/digits.h"
#include "nn/data/normalize.h"
#include "nn/callbacks/callbacks.h"
#include "nn/files/checkpoint.h"
#include "nn/files/kept.h"
#include "nn/files/save.h"
#include "nn/train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES = 20, BATCH = 6, EPOCHS = 3, STEPS_AN_EPOCH = 4 };

static char file[1024];

static int name_file(void **state)
{
    int status = enter_folder(state);
    strncat(file, path_of("checkpoint"), sizeof file - 1);
    return status;
}
SETUP(name_file)

/* ---- runs ------------------------------------------------------------------------------------------ */

/* A set that lets so many samples be fetched. */
typedef struct fuse {
    const st_dataset *of;
    long left;
} fuse;

static void burn(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    fuse *f = d->own;
    if (f->left-- <= 0) st_error_set("cut off");
    else f->of->get(f->of, i, x, y);
}

static void pass_on(const st_dataset *d, uint64_t pass)
{
    st_dataset_begin_epoch(((fuse *)d->own)->of, pass);
}

/* One way to train. */
typedef struct way {
    const char *name;
    st_net *(*make)(void);
    st_optim *(*optimizer)(void);
    st_train_options options;
    bool validates, augments;
    int every;
} way;

static st_net *with_everything(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28),
                      st_conv2d(.out_channels = 2, .kernel = { 5, 5 }, .stride = { 4, 4 }), st_batchnorm(),
                      st_relu(), st_dropout(.p = 0.3), st_flatten(), st_dense(.out_features = 10));
}

static st_net *plain(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28), st_flatten(), st_dense(.out_features = 10));
}

static st_optim *adam_default(void)
{
    return st_adam(.lr = 0.02);
}
static st_optim *sgd_nesterov(void)
{
    return st_sgd(.lr = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3);
}
static st_optim *sgd_plain(void)
{
    return st_sgd(.lr = 0.05);
}
static st_optim *rmsprop_centered(void)
{
    return st_rmsprop(.lr = 0.001, .momentum = 0.5, .centered = true);
}

/* Keeps as many lists as callbacks may, in each of which it counts the steps. */
static double counts[ST_MAX_KEPT];
static void count_steps(st_callback *self, st_run *run, st_event event)
{
    static char name[ST_MAX_KEPT][8];
    (void)self;
    for (int i = 0; i < ST_MAX_KEPT; i++) {
        if (event == ST_ON_STEP) counts[i]++;
        if (event != ST_ON_BEGIN) continue;
        counts[i] = 0;
        snprintf(name[i], sizeof name[i], "list%d", i);
        st_run_keep_numbers(run, name[i], 1, &counts[i]);
    }
}

enum { WAYS = 4 };

static way ways(int i)
{
    const way all[WAYS] = {
        { "plain", plain, sgd_plain, { .keep_order = true }, false, false },
        { "adam, dropout, batch normalisation, augmentation, cosine",
          with_everything,
          adam_default,
          { .schedule = st_cosine_lr(.end_factor = 0.1),
            .callbacks = { { .name = "counts", .call = count_steps } } },
          true,
          true },
        { "nesterov, one-cycle, the best restored",
          with_everything,
          sgd_nesterov,
          { .schedule = st_one_cycle_lr(),
            .callbacks = { patient(EPOCHS), st_clip(.norm = 1), st_ema(.decay = 0.5) } },
          true,
          false },
        { "rmsprop, drop_last, warm-up, patience",
          with_everything,
          rmsprop_centered,
          { .schedule = st_warmup_lr(.steps = 5, .after = st_step_lr(.step_size = 1, .gamma = 0.5)),
            .drop_last = true,
            .callbacks = { st_early_stopping(1, 0.01) } },
          true,
          true },
    };
    way w = all[i];
    w.every = 1;
    return w;
}

typedef struct outcome {
    int status;
    st_train_result result;
    st_tensor parameters, states;
    double counts[ST_MAX_KEPT];
} outcome;

enum { LAST = 5 };       /* callback */
enum { LOOKED_AT = 16 }; /* samples that a set is known by, before a run begins */

static st_train_options options_of(const way *w, bool resume)
{
    st_train_options o = w->options;
    o.loss = st_cross_entropy(.label_smoothing = 0.1);
    o.optim = w->optimizer();
    o.epochs = EPOCHS, o.batch = BATCH, o.seed = 5;
    o.callbacks[LAST] = st_checkpoint(file, w->every, resume);
    return o;
}

/* A run from nothing, or from the file, until it has fetched so many samples. */
static outcome run(const way *w, long samples, bool resume)
{
    st_dataset *digits = st_digits(SAMPLES, 1), *validation = st_digits(10, 2);
    st_dataset *drawn = w->augments ? st_dataset_augment(digits, .shift = 2, .noise = 0.1, .seed = 7) : NULL;
    fuse f = { drawn ? drawn : digits, LOOKED_AT + samples };
    st_dataset *cut = st_dataset_new((st_dataset){ .count = SAMPLES,
                                                   .x = digits->x,
                                                   .target = digits->target,
                                                   .get = burn,
                                                   .begin = pass_on,
                                                   .own = &f });
    st_net *n = w->make();
    st_train_options options = options_of(w, resume);
    options.validation = w->validates ? validation : NULL;
    memset(counts, 0, sizeof counts);
    outcome out = { .status = st_train_run(n, cut, options, &out.result) };
    if (out.status == 0)
        out.parameters = st_tensor_clone(st_net_parameters(n)),
        out.states = st_tensor_clone(st_net_states(n));
    memcpy(out.counts, counts, sizeof counts);
    st_net_free(n), st_optim_free(options.optim);
    st_dataset_free(cut), st_dataset_free(drawn), st_dataset_free(validation), st_dataset_free(digits);
    return out;
}

static void outcome_free(outcome o)
{
    st_tensor_free(o.parameters), st_tensor_free(o.states);
}

static void assert_same_score(st_metrics a, st_metrics b)
{
    assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
    assert_true(a.accuracy == b.accuracy || (isnan(a.accuracy) && isnan(b.accuracy)));
}

static void assert_same_outcome(const outcome *got, const outcome *expected)
{
    if (got->status) fail_msg("%s", st_error());
    assert_true(same_bytes(got->parameters, expected->parameters));
    if (st_numel(expected->states) > 0) assert_true(same_bytes(got->states, expected->states));
    assert_int_equal(got->result.epochs, expected->result.epochs);
    assert_int_equal(got->result.steps, expected->result.steps);
    assert_memory_equal(got->counts, expected->counts, sizeof got->counts);
    assert_int_equal(got->result.best_epoch, expected->result.best_epoch);
    assert_int_equal(got->result.stopped_early, expected->result.stopped_early);
    assert_same_score(got->result.training, expected->result.training);
    assert_true(isnan(expected->result.validation.loss) ||
                got->result.validation.loss == expected->result.validation.loss);
}

static void be_cut_off(const way *w, long samples, bool resume)
{
    assert_int_equal(run(w, samples, resume).status, -1);
    assert_non_null(strstr(st_error(), "cut off"));
    st_error_clear();
}

static st_callback kept(bool resume)
{
    return st_checkpoint(.path = file, .resume = resume);
}

/* ---- claims ---------------------------------------------------------------------------------------- */

/* A run is cut off in each step, or after the last one, and goes on with another number of threads. Steps
 * after the last checkpoint are lost, and taken again. */
static void goes_on_from_any_step(way w)
{
    const int threads = st_num_threads();
    unlink(file);
    outcome whole = run(&w, 1000, false);
    about("%s", w.name);
    assert_int_equal(whole.status, 0);
    const long steps = whole.result.steps, an_epoch = w.options.drop_last ? SAMPLES / BATCH : STEPS_AN_EPOCH,
               samples = w.options.drop_last ? an_epoch * BATCH : SAMPLES;
    for (long cut = 0; cut <= steps; cut++) {
        const long kept = cut - cut % w.every, epoch = cut - cut % an_epoch;
        about("%s, every %d, cut off in step %ld", w.name, w.every, cut + 1);
        unlink(file);
        st_set_num_threads(1 + (int)cut % 3);
        if (cut < steps) be_cut_off(&w, cut / an_epoch * samples + cut % an_epoch * BATCH + 1, true);
        else outcome_free(run(&w, 1000, true));
        st_set_num_threads(1 + (int)(cut + 1) % 3);
        outcome rest = run(&w, cut < steps ? 1000 : 0, true);
        assert_same_outcome(&rest, &whole);
        assert_int_equal(rest.result.resumed, kept > epoch ? kept : epoch);
        outcome_free(rest);
    }
    outcome_free(whole);
    st_set_num_threads(threads);
}

TEST(going_on_from_any_step_comes_to_the_same_bits)
{
    for (int i = 0; i < WAYS; i++) goes_on_from_any_step(ways(i));
}

TEST(checkpoints_now_and_then_are_enough)
{
    for (int every = 2; every <= 9; every += 7) {
        way w = ways(1);
        w.every = every;
        goes_on_from_any_step(w);
    }
}

/* A callback of one's own keeps numbers and a tensor; the run is stopped in the middle of an epoch. */
typedef struct tallied {
    double steps;
    st_tensor sum; /* of the gradients */
    long stop;
} tallied;

static void tally_gradients(st_callback *self, st_run *run, st_event event)
{
    tallied *t = self->context;
    if (event == ST_ON_BEGIN) {
        t->steps = 0;
        t->sum = st_tensor_new(st_net_gradients(run->net).shape);
        st_run_keep(run, "tallied", t->sum);
        st_run_keep_numbers(run, "tallied_steps", 1, &t->steps);
    }
    if (event == ST_ON_STEP) t->steps++, st_add(t->sum, 1, st_net_gradients(run->net));
    if (event == ST_ON_STEP && run->report.step == t->stop) run->stop = true;
}

TEST(callbacks_keep_what_they_name)
{
    tallied whole = { .stop = -1 }, parts = { .stop = 6 };
    way w = ways(1);
    unlink(file);
    w.every = 100;
    w.options.callbacks[0] = (st_callback){ "tally", tally_gradients, &whole };
    outcome expected = run(&w, 1000, false);
    unlink(file);
    w.options.callbacks[0].context = &parts;
    outcome part = run(&w, 1000, true);
    assert_int_equal(part.status, 0);
    assert_int_equal(part.result.steps, 6);
    st_tensor_free(parts.sum);
    parts.stop = -1;
    outcome rest = run(&w, 1000, true);
    assert_int_equal(rest.result.resumed, 6);
    assert_same_outcome(&rest, &expected);
    assert_true(parts.steps == whole.steps && parts.steps == EPOCHS * STEPS_AN_EPOCH);
    assert_true(same_bytes(parts.sum, whole.sum));
    outcome_free(expected), outcome_free(part), outcome_free(rest);
    st_tensor_free(parts.sum), st_tensor_free(whole.sum);
}

TEST(more_epochs_are_welcome_where_the_schedule_allows)
{
    auto_dataset *digits = st_digits(SAMPLES, 1);
    auto_tensor parts = { 0 };
    for (int whole = 0; whole < 2; whole++) {
        unlink(file);
        for (int epochs = whole ? 3 : 2; epochs <= 3; epochs++) {
            auto_net *n = plain();
            auto_optim *o = sgd_nesterov();
            assert_int_equal(st_train(n, digits, .loss = st_cross_entropy(), .optim = o, .batch = BATCH,
                                      .epochs = epochs, .callbacks = { kept(true) }),
                             0);
            if (whole) assert_true(same_bytes(parts, st_net_parameters(n)));
            else if (epochs == 3) parts = st_tensor_clone(st_net_parameters(n));
        }
    }
}

TEST(a_run_that_has_ended_ends_at_once_with_its_score)
{
    auto_dataset *digits = st_digits(SAMPLES, 1);
    st_train_result result[2];
    unlink(file);
    for (int k = 0; k < 2; k++) {
        auto_net *n = plain();
        auto_optim *o = sgd_plain();
        st_train_options options = { .loss = st_cross_entropy(), .optim = o, .batch = BATCH, .epochs = 1 };
        options.callbacks[0] = kept(true);
        assert_int_equal(st_train_run(n, digits, options, &result[k]), 0);
    }
    assert_int_equal(result[1].resumed, result[0].steps);
    assert_true(isfinite(result[0].training.loss));
    assert_same_score(result[1].training, result[0].training);
}

TEST(a_checkpoint_is_a_nets_file_too)
{
    way w = ways(2);
    unlink(file);
    be_cut_off(&w, SAMPLES + 1, false);
    auto_net *loaded = st_net_load(file, .batch = 4), *other = with_everything();
    assert_non_null(loaded);
    assert_int_equal(st_net_build(other, 4, 9), 0);
    assert_int_equal(st_net_load_tensors(other, file), 0);
    assert_true(same_bytes(st_net_parameters(loaded), st_net_parameters(other)));
}

/* ---- what is refused -------------------------------------------------------------------------------- */

static const char *const changes[] = { "batch 6",
                                       "seed 5",
                                       "epochs 3",
                                       "cross_entropy.label_smoothing 0.1",
                                       "adam.lr 0.02",
                                       "clip.norm none",
                                       "schedule \"cosine\"",
                                       "drop_last false",
                                       "loss weights none",
                                       "group 1 none" };
enum { CHANGES = sizeof changes / sizeof *changes };

/* Changes one option, in the order of the table. */
static void change(int i, st_train_options *o)
{
    switch (i) {
    case 0: o->batch = 5; break;
    case 1: o->seed = 6; break;
    case 2: o->epochs = 9; break;
    case 3: o->loss = st_cross_entropy(.label_smoothing = 0.2); break;
    case 4: o->optim->lr = 0.25; break;
    case 5: o->callbacks[0] = st_clip(.value = 2); break;
    case 6: o->schedule = (st_schedule){ 0 }; break;
    case 7: o->drop_last = true; break;
    case 8: o->loss = st_cross_entropy(.label_smoothing = 0.1, .weight = st_tensor_new(ST_SHAPE(2))); break;
    default: o->groups[0] = (st_param_group){ "*.bias", .weight_decay = ST_ZERO };
    }
}

/* The run is refused with this text and changes nothing. */
static void assert_refused(st_net *n, const st_dataset *d, st_train_options o, const char *expected)
{
    assert_int_equal(st_net_build(n, BATCH, 77), 0);
    auto_tensor before = st_tensor_clone(st_net_parameters(n));
    uint64_t seed = n->seed, step = n->step;
    expect_refused(st_train_run(n, d, o, NULL) == 0, file, expected);
    assert_true(same_bytes(before, st_net_parameters(n)));
    assert_true(n->seed == seed && n->step == step && o.optim->steps == 0);
    st_tensor_free(o.loss.kind->weights(&o.loss)), st_net_free(n), st_optim_free(o.optim);
}

TEST(what_was_asked_otherwise_is_refused)
{
    way w = ways(1);
    auto_dataset *digits = st_digits(SAMPLES, 1), *fewer = st_digits(SAMPLES - 1, 1);
    unlink(file);
    be_cut_off(&w, BATCH + 1, false);
    for (int i = 0; i < CHANGES; i++) {
        char expected[128];
        st_train_options o = options_of(&w, true);
        change(i, &o);
        snprintf(expected, sizeof expected, "written by a run with %s, this one has ", changes[i]);
        assert_refused(with_everything(), digits, o, expected);
    }
    assert_refused(with_everything(), fewer, options_of(&w, true), "samples 20, this one has 19");
    assert_refused(plain(), digits, options_of(&w, true), "another net");
}

/* Bits depend on the engine. */
TEST(another_engine_is_refused_by_name)
{
    way w = ways(0);
    auto_dataset *digits = st_digits(SAMPLES, 1);
    unlink(file);
    use_engine("generic");
    be_cut_off(&w, BATCH + 1, false);
    use_engine("reference");
    assert_refused(plain(), digits, options_of(&w, true),
                   "written by a run with engine \"generic\", this one has \"reference\"; STRIDE_ENGINE "
                   "selects the engine");
    use_engine("generic");
    outcome rest = run(&w, 1000, true);
    assert_int_equal(rest.status, 0);
    assert_int_equal(rest.result.resumed, 1);
    outcome_free(rest);
    setenv("STRIDE_WINOGRAD", "off", 1);
    assert_refused(plain(), digits, options_of(&w, true),
                   "written by a run with engine \"generic\", this one has \"generic, STRIDE_WINOGRAD=off\"");
    unsetenv("STRIDE_WINOGRAD");
    use_engine(NULL);
}

/* How samples are prepared is known by a text, which sets that wrap others pass on. */
TEST(samples_that_are_made_otherwise_are_refused)
{
    const double mean[] = { 0.125 }, deviation[] = { 0.5 };
    auto_dataset *digits = st_digits(SAMPLES, 1);
    auto_dataset *turned = st_dataset_augment(digits, .rotation = 10, .shift = 0.1, .seed = 3);
    st_normalization *one = st_normalization_new(1, mean, deviation);
    auto_dataset *both = st_dataset_normalize(turned, one), *part = st_dataset_slice(both, 0, SAMPLES);
    const char *const texts[] = {
        "none", "augment rotation 10, shift 0.1, seed 3",
        "augment rotation 10, shift 0.1, seed 3; normalize mean 0.125 deviation 0.5"
    };
    const st_dataset *const sets[] = { digits, turned, part };
    for (int then = 0; then < 3; then++)
        for (int now = 0; now < 3; now++) {
            auto_net *first = plain(), *second = plain();
            auto_optim *a = sgd_plain(), *b = sgd_plain();
            st_train_options o = {
                .loss = st_cross_entropy(), .batch = BATCH, .optim = a, .callbacks = { kept(false) }
            };
            unlink(file);
            assert_int_equal(st_train_run(first, sets[then], o, NULL), 0);
            o.optim = b, o.callbacks[0] = kept(true), o.epochs = 2;
            assert_int_equal(st_train_run(second, sets[now], o, NULL), then == now ? 0 : -1);
            if (then != now) expect_error("preparation \"%s\", this one has \"%s\"", texts[then], texts[now]);
        }
    st_normalization_free(one);
}

/* The same number of samples, prepared alike; the first or the last has another pixel or another class. */
TEST(other_samples_are_refused)
{
    auto_tensor x = st_tensor_new(st_shape_with_batch(ST_SHAPE(1, 28, 28), SAMPLES)),
                y = st_tensor_new(ST_SHAPE(SAMPLES));
    auto_dataset *digits = st_digits(SAMPLES, 1), *set = st_dataset_tensors(x, y);
    assert_int_equal(st_dataset_batch(digits, NULL, 0, SAMPLES, x, y), 0);
    auto_net *n = plain();
    auto_optim *o = sgd_plain();
    st_train_options options = {
        .loss = st_cross_entropy(), .optim = o, .batch = BATCH, .callbacks = { kept(false) }
    };
    unlink(file);
    assert_int_equal(st_train_run(n, set, options, NULL), 0);
    options.callbacks[0] = kept(true);
    st_real *const changed[] = { st_at(x, ST_INDEX(0, 0, 3, 4)), st_at(x, ST_INDEX(SAMPLES - 1, 0, 27, 27)),
                                 st_at(y, ST_INDEX(0)), st_at(y, ST_INDEX(SAMPLES - 1)) };
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        st_real was = *changed[i];
        *changed[i] = was == 0;
        expect_failure(st_train_run(n, set, options, NULL), "%s: written by a run with sum of samples \"",
                       file);
        *changed[i] = was;
    }
    assert_int_equal(st_train_run(n, set, options, NULL), 0);
}

/* Many channels are known by a sum, which any digit of any of them changes. */
TEST(many_channels_are_known_by_a_sum)
{
    enum { CHANNELS = 5 };
    static const double means[][CHANNELS] = { { 1, 2, 3, 4, 5 }, { 1, 2, 3, 4, 5 + 8e-15 } };
    static const double deviations[][CHANNELS] = { { 1, 1, 1, 1, 1 }, { 1, 1, 1.5, 1, 1 } };
    auto_tensor x = st_tensor_new(ST_SHAPE(1, CHANNELS)), y = st_tensor_new(ST_SHAPE(1));
    auto_dataset *set = st_dataset_tensors(x, y);
    char texts[3][128];
    for (int i = 0; i < 3; i++) {
        st_normalization *n = st_normalization_new(CHANNELS, means[i == 1], deviations[i == 2]);
        auto_dataset *normal = st_dataset_normalize(set, n);
        snprintf(texts[i], sizeof texts[i], "%s", normal->prepared);
        assert_non_null(strstr(texts[i], "normalize 5 channels by "));
        st_normalization_free(n);
    }
    assert_true(strcmp(texts[0], texts[1]) && strcmp(texts[1], texts[2]) && strcmp(texts[0], texts[2]));
}

/* The file with the first of these texts of one length replaced by the other. */
static void write_replaced(bytes b, const char *from, const char *to)
{
    char copy[1 << 16], *at = NULL;
    size_t length = strlen(from);
    assert_true(b.count <= sizeof copy);
    memcpy(copy, b.at, b.count);
    for (size_t k = 0; !at && k + length <= b.count; k++)
        if (memcmp(copy + k, from, length) == 0) at = copy + k;
    assert_non_null(at);
    memcpy(at, to, length);
    written("checkpoint", (bytes){ b.count, copy });
}

/* Nothing is changed. */
static void refuses_to_resume(const way *w)
{
    auto_dataset *digits = st_digits(SAMPLES, 1);
    st_train_options o = options_of(w, true);
    o.validation = digits;
    assert_refused(w->make(), digits, o, "");
}

#define PLACE "\\\"place\\\":["

TEST(damaged_ones_are_refused)
{
    /* Texts of one length, so that the rest of the file stays in its place. */
    static const char *const damages[][2] = {
        { PLACE "1.0,2.0,2.0", PLACE "0.0,2.0,2.0" }, /* epoch, batch, step */
        { PLACE "1.0,2.0,2.0", PLACE "9.0,2.0,2.0" },
        { PLACE "1.0,2.0,2.0", PLACE "1.0,9.0,2.0" },
        { PLACE "1.0,2.0,2.0", PLACE "1.0,2.0,3.0" },
        { PLACE "1.0,2.0,2.0", PLACE "1.5,2.0,2.0" },
        { PLACE "1.0,2.0,2.0", PLACE "1.0,2.0,nil" },
        { PLACE "1.0,2.0,2.0", PLACE "1.0,2.0 2.0" },
        { "\\\"place\\\"", "\\\"palce\\\"" },
        { "\\\"version\\\":3", "\\\"version\\\":4" },
        { "\\\"early_stopping\\\":[", "\\\"early_stopping\\\":{" },
        { "\\\"early_stopping\\\":[null,", "\\\"early_stopping\\\":[     " },
        { "\"training\"", "\"draining\"" },
        { "train.optim.0", "train.optim.7" },
    };
    way w = ways(2);
    unlink(file);
    be_cut_off(&w, 2 * BATCH + 1, false);
    bytes good = contents(file);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        about("%s", damages[i][1]);
        write_replaced(good, damages[i][0], damages[i][1]);
        refuses_to_resume(&w);
    }
    for (size_t cut = 0; cut < good.count; cut += 97) {
        written("checkpoint", (bytes){ cut, good.at });
        refuses_to_resume(&w);
    }
}

TEST(options_that_make_no_sense_are_refused)
{
    way w = ways(0);
    w.every = -1;
    expect_failure(run(&w, 1000, false).status, "every -1 steps; expected a path, and at least 0 steps");
    auto_dataset *digits = st_digits(SAMPLES, 1);
    auto_net *n = plain();
    st_train_options o = { .loss = st_cross_entropy(),
                           .optim = sgd_plain(),
                           .validation = digits,
                           .callbacks = { st_checkpoint(.resume = true) } };
    expect_failure(st_train_run(n, digits, o, NULL), "checkpoint: no path");
    o.callbacks[0] = kept(false), o.callbacks[1] = patient(3);
    expect_failure(st_train_run(n, digits, o, NULL),
                   "train: \"best\" cannot be kept: its callback is listed after the checkpoint's");
    o.callbacks[0] = st_checkpoint(.path = "no such folder/checkpoint"), o.callbacks[1].call = NULL;
    expect_failure(st_train_run(n, digits, o, NULL),
                   "no such folder/checkpoint: cannot be written: No such file or directory");
    st_optim_free(o.optim);
}

static void nothing(st_callback *self, st_run *run, st_event event)
{
    (void)self, (void)run, (void)event;
}

/* A name of any length is part of the configuration, one that is not UTF-8 cannot be. */
TEST(the_name_of_a_callback_is_any_text)
{
    static const st_field fields[] = { { "strength", ST_FIELD_REAL, 0 }, { 0 } };
    char longest[300];
    memset(longest, 'c', sizeof longest), longest[sizeof longest - 1] = '\0';
    auto_dataset *digits = st_digits(SAMPLES, 1);
    auto_net *n = plain();
    auto_optim *o = sgd_plain();
    st_train_options options = { .loss = st_cross_entropy(), .batch = BATCH, .optim = o };
    options.callbacks[0] = (st_callback){ longest, nothing, .fields = fields, .options.number = 0.5 };
    options.callbacks[1] = kept(false);
    unlink(file);
    assert_int_equal(st_train_run(n, digits, options, NULL), 0);
    options.callbacks[0].options.number = 0.25, options.callbacks[1] = kept(true), options.epochs = 2;
    expect_failure(st_train_run(n, digits, options, NULL), "cccc.strength 0.5, this one has 0.25");
    options.callbacks[0].name = "\xff", options.callbacks[1] = kept(false);
    expect_failure(
        st_train_run(n, digits, options, NULL),
        "the configuration of a run: no memory, or a name (of a callback, a group of parameters, a "
        "data set's columns) that is not UTF-8");
}

/* ---- the list of what a run keeps --------------------------------------------------------------------- */

static void keep_lists(st_callback *self, st_run *run, st_event event)
{
    static double numbers[ST_MAX_NUMBERS];
    static const char *const taken[] = { "all", "place", "optim.0", "optim.2" };
    char longest[LONGEST_KEPT + 2];
    if (event != ST_ON_BEGIN) return;
    expect_failure(st_run_keep_numbers(run, "none", 5, NULL), "0 numbers, expected 1 to 16");
    expect_failure(st_run_keep_numbers(run, "none", 0, numbers), "0 numbers");
    expect_failure(st_run_keep_numbers(run, "none", ST_MAX_NUMBERS + 1, numbers), "17 numbers");
    assert_int_equal(st_run_keep_numbers(run, "all", ST_MAX_NUMBERS, numbers), 0);
    assert_int_equal(st_run_keep_numbers(run, "one", 1, numbers), 0);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        expect_failure(st_run_keep(run, taken[i], st_net_parameters(run->net)),
                       "train: another callback, or the run itself, keeps \"%s\"", taken[i]);
    memset(longest, 'a', sizeof longest), longest[LONGEST_KEPT + 1] = '\0';
    expect_failure(st_run_keep(run, longest, st_net_parameters(run->net)),
                   "expected a run and a name of 1 to 60");
    expect_failure(st_run_keep(run, "", st_net_parameters(run->net)), "expected a run and a name of 1 to 60");
    assert_int_equal(st_run_keep(run, longest + 1, st_net_parameters(run->net)), 0);
    for (int i = 3; i < ST_MAX_KEPT; i++) {
        static char name[ST_MAX_KEPT][8];
        snprintf(name[i], sizeof name[i], "n%d", i);
        assert_int_equal(st_run_keep_numbers(run, name[i], 1, numbers), 0);
    }
    expect_failure(st_run_keep_numbers(run, "more", 1, numbers),
                   "\"more\" cannot be kept: there are too many");
}

TEST(a_run_keeps_lists_of_1_to_16_numbers_under_names_of_their_own)
{
    way w = ways(1);
    unlink(file);
    w.options.callbacks[0] = (st_callback){ "keep", keep_lists };
    outcome out = run(&w, 0, false);
    expect_error("cut off");
    outcome_free(out);
}

/* In a run of three epochs of two steps, after the third step. */
static void go_to_places(st_callback *self, st_run *run, st_event event)
{
    if (event != ST_ON_STEP || run->report.step != 3) return;
    kept_item list[MOST_KEPT];
    assert_int_equal(run_list(run, list), 1 + run->optim->states);
    assert_string_equal(list[0].name, "place");
    enum { COUNT = 16 };
    double place[COUNT], changed[COUNT];
    assert_int_equal(list[0].count, COUNT);
    memcpy(place, list[0].numbers, sizeof place);
    const double good[][3] = { { 1, 0, 0 }, { 1, 2, 2 }, { 2, 1, 3 }, { 4, 0, 6 } },
                 wrong[][3] = { { 0, 0, -2 }, { 5, 0, 8 }, { 1, 3, 3 },
                                { 4, 1, 7 },  { 2, 1, 4 }, { 1.5, 0, 1 } };
    const int limited[] = { 6, 7, 8, 3 };
    const double limits[] = { place[0], 0x1p32, 0x1p32, 0x1p53 };
    for (int i = 0; i < 4; i++) {
        memcpy(changed, place, sizeof place), memcpy(changed, good[i], sizeof good[i]);
        assert_int_equal(run_check_position(run, changed), 0);
    }
    for (int i = 0; i < 6 + 9 + 4; i++) { /* each number below 0, four of them as large as they may not be */
        memcpy(changed, place, sizeof place);
        if (i < 6) memcpy(changed, wrong[i], sizeof wrong[i]);
        else if (i < 15) changed[i - 6] = -1;
        else changed[limited[i - 15]] = limits[i - 15];
        expect_failure(run_check_position(run, changed), "train: the position is not in this run");
    }
    for (int i = 3; i < COUNT; i++) changed[i] = i;
    memcpy(changed, good[2], sizeof good[2]), changed[6] = 1;
    memcpy(list[0].numbers, changed, sizeof changed);
    run_go_to_position(run);
    run_list(run, list);
    assert_memory_equal(list[0].numbers, changed, sizeof changed);
    memcpy(list[0].numbers, place, sizeof place);
    run_go_to_position(run);
    *(bool *)self->context = true;
}

/* As a file could have it. */
static void claim_a_late_epoch(st_callback *self, st_run *run, st_event event)
{
    (void)self;
    kept_item list[MOST_KEPT];
    if (event != ST_ON_EPOCH) return;
    for (int i = run_list(run, list) - 1; i > 0; i--)
        if (strcmp(list[i].name, "early_stopping") == 0) list[i].numbers[1] = 1e300;
}

TEST(a_best_epoch_is_one_of_the_run)
{
    st_train_result r;
    auto_dataset *digits = st_digits(4, 1);
    auto_net *n = st_net_new(digits->x, st_flatten(), st_dense(.out_features = 10));
    auto_optim *o = st_sgd(.lr = 0.01);
    assert_int_equal(
        st_train(n, digits, .epochs = 2, .loss = st_cross_entropy(), .optim = o, .validation = digits,
                 .result = &r,
                 .callbacks = { st_early_stopping(.patience = 2), { "claim", claim_a_late_epoch } }),
        0);
    assert_int_equal(r.best_epoch, 2);
}

TEST(a_run_goes_to_its_positions_and_no_others)
{
    auto_dataset *digits = st_digits(4, 1);
    auto_net *n = plain(), *other = plain();
    auto_optim *o = sgd_nesterov(), *same = sgd_nesterov();
    bool seen = false;
    st_train_options options = { .loss = st_cross_entropy(), .optim = o, .epochs = 3, .batch = 2 };
    options.callbacks[0] = (st_callback){ "places", go_to_places, &seen };
    assert_int_equal(st_train_run(n, digits, options, NULL), 0);
    options.optim = same, options.callbacks[0].call = NULL;
    assert_int_equal(st_train_run(other, digits, options, NULL), 0);
    assert_true(seen && same_bytes(st_net_parameters(n), st_net_parameters(other)));
}

/* ---- files of earlier libraries ------------------------------------------------------------------------ */

/* The run that wrote version3.safetensors after its fifth step of nine. Where the engine's bits change, the
 * rest of it comes close to the whole run. */
static outcome earlier_run(const char *path)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(10, 2)), y = st_tensor_new(ST_SHAPE(10));
    for (int i = 0; i < 20; i++) *element(x, i) = (st_real)(i * 7 % 20 - 10) / 8;
    for (int i = 0; i < 10; i++) *element(y, i) = (st_real)(i % 3);
    auto_dataset *d = st_dataset_tensors(x, y);
    auto_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 4), st_batchnorm(), st_dropout(.p = 0.25),
                             st_dense(.out_features = 3));
    auto_optim *o = st_adam(.lr = 0.125);
    outcome out = { 0 };
    st_train_options options = { .loss = st_cross_entropy(), .optim = o, .epochs = 3, .batch = 4, .seed = 5 };
    options.schedule = st_step_lr(.step_size = 1, .gamma = 0.5), options.validation = d;
    options.callbacks[0] = st_ema(.decay = 0.5), options.callbacks[1] = patient(3);
    if (path) options.callbacks[2] = st_checkpoint(.path = path, .every = 1, .resume = true);
    out.status = st_train_run(n, d, options, &out.result);
    if (out.status == 0)
        out.parameters = st_tensor_clone(st_net_parameters(n)),
        out.states = st_tensor_clone(st_net_states(n));
    return out;
}

/* Not compared: the bias before the normalisation, whose gradient is nothing but rounding, of which Adam
 * makes steps, and the running mean, which follows it. */
TEST(a_checkpoint_of_version_3_that_an_earlier_library_wrote_resumes_in_its_precision)
{
    use_engine("generic");
    written("checkpoint", contents("tests/files/version3.safetensors"));
    outcome whole = earlier_run(NULL), rest = earlier_run(file);
    assert_int_equal(whole.status, 0);
    if (sizeof(st_real) == sizeof(float)) {
        if (rest.status) fail_msg("%s", st_error());
        assert_int_equal(rest.result.resumed, 5);
        assert_int_equal(rest.result.steps, 9);
        assert_int_equal(rest.result.best_epoch, whole.result.best_epoch);
        assert_near(st_narrow(rest.parameters, 0, 0, 8), st_narrow(whole.parameters, 0, 0, 8), 1e-5);
        assert_near(st_narrow(rest.parameters, 0, 12, 23), st_narrow(whole.parameters, 0, 12, 23), 1e-5);
        assert_near(st_narrow(rest.states, 0, 4, 4), st_narrow(whole.states, 0, 4, 4), 1e-5);
    } else {
        assert_int_equal(rest.status, -1);
        expect_error("written by a run with precision \"float32\", this one has \"float64\"");
    }
    use_engine(NULL);
    outcome_free(whole), outcome_free(rest);
}

/* ---- two runs ------------------------------------------------------------------------------------------ */

/* Says that the run has begun, and waits to be killed. */
static void wait_in_step(st_callback *self, st_run *run, st_event event)
{
    (void)run;
    if (event != ST_ON_STEP) return;
    (void)!write(*(const int *)self->context, "", 1);
    pause();
}

static int train_into(const char *log, const char *checkpoint, st_callback last)
{
    auto_net *n = plain();
    auto_dataset *digits = st_digits(SAMPLES, 1);
    auto_optim *o = sgd_plain();
    st_callback none = { 0 };
    int status =
        st_train(n, digits, .loss = st_cross_entropy(), .optim = o,
                 .callbacks = { st_log(log), checkpoint ? st_checkpoint(.path = checkpoint) : none, last });
    return status;
}

/* The second run with a checkpoint or a log ends at once, and names the process of the first; after that one
 * was killed it goes on. Another name of the file is the same file. */
TEST(two_runs_do_not_write_one_file)
{
    char log[1024], other[1024], lock[1100], expected[100], byte;
    int pipe_of[2];
    snprintf(log, sizeof log, "%s", path_of("log.csv"));
    snprintf(other, sizeof other, "%s", path_of("./log.csv"));
    assert_int_equal(pipe(pipe_of), 0);
    unlink(file);
    pid_t child = fork();
    if (child == 0) {
        train_into(log, file, (st_callback){ "wait", wait_in_step, &pipe_of[1] });
        _exit(1);
    }
    assert_int_equal(read(pipe_of[0], &byte, 1), 1);
    snprintf(expected, sizeof expected, ": process %ld is writing it", (long)child);
    const st_callback none = { 0 };
    expect_failure(train_into(NULL, file, none), "%s", expected);
    expect_failure(train_into(log, NULL, none), "%s", expected);
    expect_failure(train_into(other, NULL, none), "%s", expected);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int again = 0; again < 2; again++) assert_int_equal(train_into(log, file, none), 0);
    close(pipe_of[0]), close(pipe_of[1]);
    for (int i = 0; i < 2; i++) {
        snprintf(lock, sizeof lock, "%s.stride.lock", i ? log : file);
        assert_int_not_equal(access(lock, F_OK), 0);
    }
    written("log.csv.stride.lock", BYTES("the user's own"));
    expect_failure(train_into(log, NULL, none), "log.csv.stride.lock: not the lock of a run");
    assert_int_equal(contents(lock).count, strlen("the user's own"));
    unlink(lock), unlink(log), unlink(file);
}
