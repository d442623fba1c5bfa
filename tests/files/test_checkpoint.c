/* test_checkpoint.c: a run that is cut off anywhere and goes on comes to the same bits as one that is not.
 *
 * The uninterrupted run is the oracle. A run is cut off by its data set, which fails at a sample; then a new net, a new
 * optimizer and a new set go on from the file. */
#include "tests/each_epoch.h"
#include "tests/support.h"

#include "nn/data/augment.h"
#include "nn/data/digits.h"
#include "nn/data/normalize.h"
#include "nn/files/checkpoint.h"
#include "nn/files/save.h"
#include "nn/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 20, BATCH = 6, EPOCHS = 3, STEPS_AN_EPOCH = 4 };

static char file[256];

/* ---- runs ------------------------------------------------------------------------------------------ */

/* A set that lets so many samples be fetched. */
typedef struct fuse {
    const data *of;
    long left;
} fuse;

static void burn(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    fuse *f = d->own;
    if (f->left-- <= 0) error_set("cut off");
    else f->of->get(f->of, i, x, y);
}

static void pass_on(const data *d, uint64_t pass)
{
    data_begin(((fuse *)d->own)->of, pass);
}

/* One way to train. */
typedef struct way {
    const char *name;
    net *(*make)(void);
    optim *(*optimizer)(void);
    train options;
    bool validates, augments;
    int every; /* 0: 1 */
} way;

static net *with_everything(void)
{
    return net_new(SHAPE(1, 28, 28),
                   layer_conv2d((conv2d){ .out_channels = 2, .kernel = { 5, 5 }, .stride = { 4, 4 } }),
                   layer_batchnorm((batchnorm){ 0 }), layer_relu(), layer_dropout(0.3), layer_flatten(),
                   layer_dense((dense){ .out_features = 10 }));
}

static net *plain(void)
{
    return net_new(SHAPE(1, 28, 28), layer_flatten(), layer_dense((dense){ .out_features = 10 }));
}

static optim *adam_default(void)
{
    return optim_adam((adam){ .lr = 0.02 });
}
static optim *sgd_nesterov(void)
{
    return optim_sgd((sgd){ .lr = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-3 });
}
static optim *sgd_plain(void)
{
    return optim_sgd((sgd){ .lr = 0.05 });
}
static optim *rmsprop_centered(void)
{
    return optim_rmsprop((rmsprop){ .lr = 0.001, .momentum = 0.5, .centered = true });
}

enum { WAYS = 4 };

static way ways(int i)
{
    const way all[WAYS] = {
        { "plain", plain, sgd_plain, { .keep_order = true }, false, false },
        { "adam, dropout, batch normalisation, augmentation, cosine",
          with_everything,
          adam_default,
          { .schedule = schedule_cosine(0.1) },
          true,
          true },
        { "nesterov, one-cycle, the best restored",
          with_everything,
          sgd_nesterov,
          { .schedule = schedule_one_cycle((one_cycle){ 0 }),
            .callbacks = { patient(EPOCHS), callback_clip((clip){ .norm = 1 }),
                           callback_ema((ema){ .decay = 0.5 }) } },
          true,
          false },
        { "rmsprop, drop_last, warm-up, patience",
          with_everything,
          rmsprop_centered,
          { .schedule = schedule_warmup(5, schedule_step(1, 0.5)),
            .drop_last = true,
            .callbacks = { callback_early_stopping((early_stopping){ 1, 0.01 }) } },
          true,
          true },
    };
    return all[i];
}

typedef struct outcome {
    int status;
    train_result result;
    tensor parameters, states;
} outcome;

enum { LAST = 5 };       /* callback */
enum { LOOKED_AT = 16 }; /* samples that a set is known by, before a run begins */

/* A run from nothing, or from the file, until it has fetched so many samples. */
static outcome run(const way *w, long samples, bool resume)
{
    data *digits = digits_new(SAMPLES, 1), *validation = digits_new(10, 2);
    data *drawn = w->augments ? data_augment(digits, (augment){ .shift = 2, .noise = 0.1, .seed = 7 }) : NULL;
    fuse f = { drawn ? drawn : digits, LOOKED_AT + samples };
    data *cut = data_new(
        (data){ .count = SAMPLES, .x = digits->x, .y = digits->y, .get = burn, .begin = pass_on, .own = &f });
    net *n = w->make();
    train options = w->options;
    options.loss = loss_cross_entropy(0.1);
    options.optim = w->optimizer();
    options.epochs = EPOCHS;
    options.batch = BATCH;
    options.seed = 5;
    options.validation = w->validates ? validation : NULL;
    options.callbacks[LAST] = callback_checkpoint((checkpoint){ file, w->every ? w->every : 1, resume });
    outcome out = { .status = train_run(n, cut, options, &out.result) };
    if (out.status == 0)
        out.parameters = tensor_clone(net_parameters(n)), out.states = tensor_clone(net_states(n));
    net_free(n), optim_free(options.optim);
    data_free(cut), data_free(drawn), data_free(validation), data_free(digits);
    return out;
}

static void outcome_free(outcome o)
{
    tensor_free(o.parameters), tensor_free(o.states);
}

static bool same_bytes(tensor a, tensor b)
{
    return tensor_count(a) == tensor_count(b) &&
           memcmp(tensor_data(a), tensor_data(b), (size_t)tensor_count(a) * sizeof(real)) == 0;
}

static void assert_same_score(train_score a, train_score b)
{
    assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
    assert_true(a.accuracy == b.accuracy || (isnan(a.accuracy) && isnan(b.accuracy)));
}

static void assert_same_outcome(const outcome *got, const outcome *expected)
{
    if (got->status) fail_msg("%s", error_text());
    assert_true(same_bytes(got->parameters, expected->parameters));
    if (tensor_count(expected->states) > 0) assert_true(same_bytes(got->states, expected->states));
    assert_int_equal(got->result.epochs, expected->result.epochs);
    assert_int_equal(got->result.steps, expected->result.steps);
    assert_int_equal(got->result.best_epoch, expected->result.best_epoch);
    assert_int_equal(got->result.stopped_early, expected->result.stopped_early);
    assert_same_score(got->result.training, expected->result.training);
    assert_true(isnan(expected->result.validation.loss) ||
                got->result.validation.loss == expected->result.validation.loss);
}

static void be_cut_off(const way *w, long samples, bool resume)
{
    assert_int_equal(run(w, samples, resume).status, -1);
    assert_non_null(strstr(error_text(), "cut off"));
    error_clear();
}

static callback kept(bool resume)
{
    return callback_checkpoint((checkpoint){ .path = file, .resume = resume });
}

/* ---- claims ---------------------------------------------------------------------------------------- */

static void going_on_from_any_step_comes_to_the_same_bits(void **state)
{
    for (int i = 0; i < WAYS; i++) {
        way w = ways(i);
        unlink(file);
        outcome whole = run(&w, 1000, false);
        about("%s", w.name);
        assert_int_equal(whole.status, 0);
        long steps = whole.result.steps, an_epoch = w.options.drop_last ? SAMPLES / BATCH : STEPS_AN_EPOCH;
        for (long cut = 0; cut < steps; cut++) {
            about("%s, cut off in step %ld", w.name, cut + 1);
            unlink(file);
            long before = cut / an_epoch * (w.options.drop_last ? SAMPLES / BATCH * BATCH : SAMPLES) +
                          cut % an_epoch * BATCH;
            be_cut_off(&w, before + 1, true); /* where there is no file, `resume` begins */
            outcome rest = run(&w, 1000, true);
            assert_same_outcome(&rest, &whole);
            assert_int_equal(rest.result.resumed, cut);
            outcome_free(rest);
        }
        outcome_free(whole);
    }
}

static void being_cut_off_at_every_step_does_no_harm(void **state)
{
    way w = ways(2);
    unlink(file);
    outcome whole = run(&w, 1000, false);
    unlink(file);
    for (int step = 0; step < EPOCHS * STEPS_AN_EPOCH - 1; step++)
        be_cut_off(&w, step % STEPS_AN_EPOCH == 3 ? 2 : BATCH, true);
    outcome rest = run(&w, 1000, true);
    assert_same_outcome(&rest, &whole);
    outcome_free(whole), outcome_free(rest);
}

/* Between checkpoints steps are lost, and taken again. */
static void checkpoints_now_and_then_are_enough(void **state)
{
    for (int every = 2; every <= 9; every += 7) {
        way w = ways(1);
        w.every = every;
        unlink(file);
        outcome whole = run(&w, 1000, false);
        for (long cut = 0; cut < EPOCHS * STEPS_AN_EPOCH; cut++) {
            unlink(file);
            be_cut_off(&w, cut / STEPS_AN_EPOCH * SAMPLES + cut % STEPS_AN_EPOCH * BATCH + 1, true);
            outcome rest = run(&w, 1000, true);
            long kept = cut - cut % every, epoch = cut - cut % STEPS_AN_EPOCH;
            assert_int_equal(rest.result.resumed, kept > epoch ? kept : epoch);
            assert_same_outcome(&rest, &whole);
            outcome_free(rest);
        }
        outcome_free(whole);
    }
}

static void the_number_of_threads_may_change(void **state)
{
    way w = ways(1);
    int threads = parallel_threads();
    parallel_set_threads(1);
    unlink(file);
    outcome whole = run(&w, 1000, false);
    unlink(file);
    be_cut_off(&w, 2 * BATCH + 1, true);
    parallel_set_threads(3);
    be_cut_off(&w, 2 * BATCH + 1, true);
    parallel_set_threads(2);
    outcome rest = run(&w, 1000, true);
    assert_same_outcome(&rest, &whole);
    outcome_free(whole), outcome_free(rest);
    parallel_set_threads(threads);
}

static void a_run_that_is_over_is_over(void **state)
{
    for (int i = 1; i < WAYS; i++) {
        way w = ways(i);
        unlink(file);
        outcome whole = run(&w, 1000, false), again = run(&w, 0, true);
        assert_same_outcome(&again, &whole);
        assert_int_equal(again.result.resumed, whole.result.steps);
        outcome_free(whole), outcome_free(again);
    }
}

/* A callback of one's own keeps numbers and a tensor; the run is stopped in the middle of an epoch. */
typedef struct tallied {
    double steps;
    tensor sum; /* of the gradients */
    long stop;
} tallied;

static void tally_gradients(callback *self, train_state *run, train_event event)
{
    tallied *t = self->context;
    if (event == ON_BEGIN) {
        t->steps = 0;
        t->sum = tensor_new(net_gradients(run->net).shape);
        train_keep(run, "tallied", t->sum);
        train_keep_numbers(run, "tallied_steps", 1, &t->steps);
    }
    if (event == ON_STEP) t->steps++, tensor_add(t->sum, 1, net_gradients(run->net));
    if (event == ON_STEP && run->step == t->stop) run->stop = true;
}

static void callbacks_keep_what_they_name(void **state)
{
    tallied whole = { .stop = -1 }, parts = { .stop = 6 };
    way w = ways(1);
    unlink(file);
    w.every = 100;
    w.options.callbacks[0] = (callback){ "tally", tally_gradients, &whole };
    outcome expected = run(&w, 1000, false);
    unlink(file);
    w.options.callbacks[0].context = &parts;
    outcome part = run(&w, 1000, true);
    assert_int_equal(part.status, 0);
    assert_int_equal(part.result.steps, 6);
    tensor_free(parts.sum);
    parts.stop = -1;
    outcome rest = run(&w, 1000, true);
    assert_int_equal(rest.result.resumed, 6);
    assert_same_outcome(&rest, &expected);
    assert_true(parts.steps == whole.steps && parts.steps == EPOCHS * STEPS_AN_EPOCH);
    assert_true(same_bytes(parts.sum, whole.sum));
    outcome_free(expected), outcome_free(part), outcome_free(rest);
    tensor_free(parts.sum), tensor_free(whole.sum);
}

static void more_epochs_are_welcome_where_the_schedule_allows(void **state)
{
    data *digits = digits_new(SAMPLES, 1);
    optim *once = sgd_nesterov(), *first = sgd_nesterov(), *second = sgd_nesterov();
    net *whole = plain(), *parts = plain(), *rest = plain();
    train o = { .loss = loss_cross_entropy(0), .batch = BATCH, .callbacks = { kept(true) } };
    unlink(file);
    o.epochs = 2, o.optim = first;
    assert_int_equal(train_run(parts, digits, o, NULL), 0);
    o.epochs = 3, o.optim = second;
    assert_int_equal(train_run(rest, digits, o, NULL), 0);
    unlink(file);
    o.optim = once;
    assert_int_equal(train_run(whole, digits, o, NULL), 0);
    assert_true(same_bytes(net_parameters(rest), net_parameters(whole)));
    net_free(whole), net_free(parts), net_free(rest);
    optim_free(once), optim_free(first), optim_free(second), data_free(digits);
}

static void a_checkpoint_is_a_nets_file_too(void **state)
{
    way w = ways(2);
    unlink(file);
    be_cut_off(&w, SAMPLES + 1, false);
    net *loaded = net_load(file, 4, (net_known){ 0 }), *other = with_everything();
    assert_non_null(loaded);
    assert_int_equal(net_build(other, 4, 9), 0);
    assert_int_equal(net_load_tensors(other, file), 0);
    assert_true(same_bytes(net_parameters(loaded), net_parameters(other)));
    net_free(loaded), net_free(other);
}

/* ---- what is refused -------------------------------------------------------------------------------- */

typedef struct refusal {
    const char *text; /* after the path */
    void (*change)(train *o);
} refusal;

static void batch(train *o)
{
    o->batch = 5;
}
static void seed(train *o)
{
    o->seed = 6;
}
static void more(train *o)
{
    o->epochs = 9;
}
static void smooth(train *o)
{
    o->loss = loss_cross_entropy(0.2);
}
static void rate(train *o)
{
    o->optim->lr = 0.25;
}
static void clipped(train *o)
{
    o->callbacks[0] = callback_clip((clip){ .value = 2 });
}
static void constant(train *o)
{
    o->schedule = schedule_constant();
}
static void dropped(train *o)
{
    o->drop_last = true;
}

static void what_was_asked_otherwise_is_refused(void **state)
{
    const refusal all[] = {
        { "written by a run with batch 6, this one has 5", batch },
        { "written by a run with seed 5, this one has 6", seed },
        { "written by a run with epochs 3, this one has 9", more },
        { "written by a run with cross_entropy.label_smoothing 0.1, this one has 0.2", smooth },
        { "written by a run with adam.lr 0.02, this one has 0.25", rate },
        { "written by a run with clip.norm none, this one has 0", clipped },
        { "written by a run with schedule \"cosine\", this one has \"constant\"", constant },
        { "written by a run with drop_last false, this one has true", dropped },
    };
    way w = ways(1);
    data *digits = digits_new(SAMPLES, 1), *fewer = digits_new(SAMPLES - 1, 1);
    unlink(file);
    be_cut_off(&w, BATCH + 1, false);
    for (size_t i = 0; i <= sizeof all / sizeof all[0] + 1; i++) {
        bool told = i<sizeof all / sizeof all[0], of_net = i> sizeof all / sizeof all[0];
        net *n = of_net ? plain() : with_everything();
        train o = w.options;
        o.loss = loss_cross_entropy(0.1), o.optim = adam_default(), o.epochs = EPOCHS, o.batch = BATCH,
        o.seed = 5;
        o.callbacks[LAST] = kept(true);
        if (told) all[i].change(&o);
        assert_int_equal(net_build(n, BATCH, 77), 0);
        tensor before = tensor_clone(net_parameters(n));
        assert_int_equal(train_run(n, told || of_net ? digits : fewer, o, NULL), -1);
        char expected[512];
        snprintf(expected, sizeof expected, "%s: %s", file,
                 told     ? all[i].text
                 : of_net ? "of a run of another net"
                          : "written by a run with samples 20, this one has 19");
        assert_string_equal(error_text(), expected);
        error_clear();
        assert_true(same_bytes(before, net_parameters(n)));
        assert_int_equal(o.optim->steps, 0);
        tensor_free(before), net_free(n), optim_free(o.optim);
    }
    data_free(digits), data_free(fewer);
}

/* The set that a run goes on with is augmented otherwise, or normalised otherwise, or is one of one's own. */
static void samples_that_are_made_otherwise_are_refused(void **state)
{
    enum { KINDS = 6 };
    const augment turned = { .rotation = 10, .seed = 3 },
                  shifted = { .rotation = 10, .shift = 0.1, .seed = 3 };
    const double mean[] = { 0.125, 0.25 }, deviation[] = { 0.5 };
    data *digits = digits_new(SAMPLES, 1);
    normalization *one = normalize_new(1, mean, deviation), *other = normalize_new(1, mean + 1, deviation);
    data *augmented[] = { data_augment(digits, turned), data_augment(digits, shifted) };
    data *own = data_slice(digits, 0, SAMPLES), *both = data_normalize(augmented[0], one);
    own->prepared = "squared";
    data *part = data_slice(both, 0, SAMPLES);
    const struct {
        const data *set;
        const char *text;
    } kinds[KINDS] = {
        { digits, "none" },
        { augmented[0], "augment rotation 10, seed 3" },
        { augmented[1], "augment rotation 10, shift 0.1, seed 3" },
        { part, "augment rotation 10, seed 3; normalize mean 0.125 deviation 0.5" },
        { data_normalize(digits, other), "normalize mean 0.25 deviation 0.5" },
        { own, "squared" },
    };
    for (int then = 0; then < KINDS; then++)
        for (int now = 0; now < KINDS; now++) {
            train o = { .loss = loss_cross_entropy(0), .batch = BATCH, .callbacks = { kept(false) } };
            net *first = plain(), *second = plain();
            optim *a = sgd_plain(), *b = sgd_plain();
            unlink(file);
            o.optim = a;
            assert_int_equal(train_run(first, kinds[then].set, o, NULL), 0);
            o.optim = b, o.callbacks[0] = kept(true), o.epochs = 2;
            assert_int_equal(train_run(second, kinds[now].set, o, NULL), then == now ? 0 : -1);
            if (then != now)
                expect_error("%s: written by a run with preparation \"%s\", this one has \"%s\"", file,
                             kinds[then].text, kinds[now].text);
            net_free(first), net_free(second), optim_free(a), optim_free(b);
        }
    data_free((data *)kinds[4].set), data_free(part), data_free(both), data_free(own);
    data_free(augmented[0]), data_free(augmented[1]), data_free(digits);
    normalize_free(one), normalize_free(other);
}

/* As many, prepared alike, with another pixel or another class in the first or the last. */
static void other_samples_are_refused(void **state)
{
    tensor x = tensor_new(shape_with_batch(SHAPE(1, 28, 28), SAMPLES)), y = tensor_new(SHAPE(SAMPLES));
    data *digits = digits_new(SAMPLES, 1), *set = data_tensors(x, y);
    assert_int_equal(data_batch(digits, NULL, 0, SAMPLES, x, y), 0);
    net *n = plain();
    optim *o = sgd_plain();
    train options = {
        .loss = loss_cross_entropy(0), .optim = o, .batch = BATCH, .callbacks = { kept(false) }
    };
    unlink(file);
    assert_int_equal(train_run(n, set, options, NULL), 0);
    options.callbacks[0] = kept(true);
    real *const changed[] = { tensor_at(x, INDEX(0, 0, 3, 4)), tensor_at(x, INDEX(SAMPLES - 1, 0, 27, 27)),
                              tensor_at(y, INDEX(0)), tensor_at(y, INDEX(SAMPLES - 1)) };
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        real was = *changed[i];
        *changed[i] = was == 0;
        assert_int_equal(train_run(n, set, options, NULL), -1);
        expect_error("%s: written by a run with sum of samples \"", file);
        *changed[i] = was;
    }
    assert_int_equal(train_run(n, set, options, NULL), 0);
    net_free(n), optim_free(o), data_free(set), data_free(digits), tensor_free(x), tensor_free(y);
}

/* Of many channels there is a sum to know them by, of any digit of any of them. */
static void many_channels_are_known_by_a_sum(void **state)
{
    enum { CHANNELS = 5 };
    double mean[CHANNELS] = { 1, 2, 3, 4, 5 }, deviation[CHANNELS] = { 1, 1, 1, 1, 1 };
    tensor x = tensor_new(SHAPE(1, CHANNELS)), y = tensor_new(SHAPE(1));
    data *set = data_tensors(x, y);
    char texts[3][128];
    for (int i = 0; i < 3; i++) {
        if (i == 1) mean[4] += 1e-15 * 8;
        if (i == 2) mean[4] = 5, deviation[2] = 1.5;
        normalization *n = normalize_new(CHANNELS, mean, deviation);
        data *normal = data_normalize(set, n);
        snprintf(texts[i], sizeof texts[i], "%s", normal->prepared);
        assert_memory_equal(texts[i], "normalize 5 channels by ", 24);
        data_free(normal), normalize_free(n);
    }
    assert_true(strcmp(texts[0], texts[1]) && strcmp(texts[1], texts[2]) && strcmp(texts[0], texts[2]));
    data_free(set), tensor_free(x), tensor_free(y);
}

/* The bytes of the file; the caller's. */
static char *contents(size_t *size)
{
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    bytes[*size] = '\0';
    fclose(f);
    return bytes;
}

static void put_contents(const char *bytes, size_t size)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void assert_not_resumed(const way *w)
{
    outcome o = run(w, 1000, true);
    if (o.status == 0) fail_msg("a damaged checkpoint was taken");
    assert_memory_equal(error_text(), file, strlen(file));
    error_clear();
}

/* The first of these texts of one length by the other. */
static void replace(char *bytes, size_t size, const char *from, const char *to)
{
    char *at = NULL;
    size_t length = strlen(from);
    for (size_t k = 0; !at && k + length <= size; k++)
        if (memcmp(bytes + k, from, length) == 0) at = bytes + k;
    assert_non_null(at);
    memcpy(at, to, length);
}

#define PLACE "\\\"place\\\":["

static void damaged_ones_are_refused(void **state)
{
    /* Of the same length, so that the rest of the file stays in its place. */
    const char *const changes[][2] = {
        { PLACE "1.0,2.0,2.0", PLACE "0.0,2.0,2.0" }, /* epoch, batch, step */
        { PLACE "1.0,2.0,2.0", PLACE "9.0,2.0,2.0" },
        { PLACE "1.0,2.0,2.0", PLACE "1.0,9.0,2.0" },
        { PLACE "1.0,2.0,2.0", PLACE "1.0,2.0,3.0" },
        { PLACE "1.0,2.0,2.0", PLACE "1.5,2.0,2.0" },
        { PLACE "1.0,2.0,2.0", PLACE "1.0,2.0,nil" },
        { PLACE "1.0,2.0,2.0", PLACE "1.0,2.0 2.0" },
        { "\\\"place\\\"", "\\\"palce\\\"" },
        { "\\\"version\\\":2", "\\\"version\\\":3" },
        { "\\\"early_stopping\\\":[", "\\\"early_stopping\\\":{" },
        { "\\\"early_stopping\\\":[null,", "\\\"early_stopping\\\":[     " },
        { "\"training\"", "\"draining\"" },
        { "train.optim.0", "train.optim.7" },
    };
    way w = ways(2);
    unlink(file);
    be_cut_off(&w, 2 * BATCH + 1, false);
    size_t size;
    char *good = contents(&size), *bad = malloc(size);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(bad, good, size);
        about("%s", changes[i][1]);
        replace(bad, size, changes[i][0], changes[i][1]);
        put_contents(bad, size);
        assert_not_resumed(&w);
    }
    for (size_t cut = 0; cut<size; cut += size> 4000 ? 97 : 1) {
        put_contents(good, cut);
        assert_not_resumed(&w);
    }
    free(good), free(bad);
}

/* What the file says is all that it says, and no such place: nothing is read before that is known. */
static void a_place_that_the_run_does_not_have_changes_nothing(void **state)
{
    way w = ways(2);
    unlink(file);
    be_cut_off(&w, 2 * BATCH + 1, false);
    size_t size;
    char *bytes = contents(&size);
    replace(bytes, size, PLACE "1.0,2.0,2.0", PLACE "1.0,2.0,3.0");
    put_contents(bytes, size);

    data *digits = digits_new(SAMPLES, 1);
    net *n = w.make();
    train o = w.options;
    o.loss = loss_cross_entropy(0.1), o.optim = w.optimizer(), o.epochs = EPOCHS, o.batch = BATCH, o.seed = 5;
    o.validation = digits, o.callbacks[LAST] = kept(true);
    assert_int_equal(net_build(n, BATCH, 77), 0);
    tensor before = tensor_clone(net_parameters(n));
    uint64_t seed = n->seed, step = n->step;
    assert_int_equal(train_run(n, digits, o, NULL), -1);
    expect_error("%s: train: the run has no such place: epoch 1 of 3, step 3", file);
    assert_true(same_bytes(before, net_parameters(n)));
    assert_true(n->seed == seed && n->step == step && o.optim->steps == 0);
    tensor_free(before), net_free(n), optim_free(o.optim), data_free(digits);
    free(bytes);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    way w = ways(0);
    w.every = -1;
    assert_int_equal(run(&w, 1000, false).status, -1);
    expect_error("every -1 steps; expected a path, and at least 0 steps");
    data *digits = digits_new(SAMPLES, 1);
    net *n = plain();
    train o = { .loss = loss_cross_entropy(0),
                .optim = sgd_plain(),
                .validation = digits,
                .callbacks = { callback_checkpoint((checkpoint){ .resume = true }) } };
    assert_int_equal(train_run(n, digits, o, NULL), -1);
    expect_error("checkpoint: no path");
    o.callbacks[0] = kept(false), o.callbacks[1] = patient(3);
    assert_int_equal(train_run(n, digits, o, NULL), -1);
    expect_error("train: \"best\" cannot be kept: its callback is listed after the checkpoint's");
    o.callbacks[0] = callback_checkpoint((checkpoint){ .path = "no such folder/checkpoint" }),
    o.callbacks[1].call = NULL;
    assert_int_equal(train_run(n, digits, o, NULL), -1);
    expect_error("no such folder/checkpoint: cannot be written: No such file or directory");
    net_free(n), optim_free(o.optim), data_free(digits);
}

int main(void)
{
    const char *folder = getenv("STRIDE_TEST_TMP");
    snprintf(file, sizeof file, "%s/checkpoint-%ld", folder ? folder : "/tmp", (long)getpid());
    const struct CMUnitTest claims[] = {
        CLAIM(going_on_from_any_step_comes_to_the_same_bits),
        CLAIM(being_cut_off_at_every_step_does_no_harm),
        CLAIM(checkpoints_now_and_then_are_enough),
        CLAIM(the_number_of_threads_may_change),
        CLAIM(a_run_that_is_over_is_over),
        CLAIM(callbacks_keep_what_they_name),
        CLAIM(more_epochs_are_welcome_where_the_schedule_allows),
        CLAIM(a_checkpoint_is_a_nets_file_too),
        CLAIM(what_was_asked_otherwise_is_refused),
        CLAIM(samples_that_are_made_otherwise_are_refused),
        CLAIM(other_samples_are_refused),
        CLAIM(many_channels_are_known_by_a_sum),
        CLAIM(damaged_ones_are_refused),
        CLAIM(a_place_that_the_run_does_not_have_changes_nothing),
        CLAIM(options_that_make_no_sense_are_refused),
    };
    int failed = cmocka_run_group_tests(claims, NULL, NULL);
    unlink(file);
    return failed;
}
