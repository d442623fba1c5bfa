/* test_train.c: st_train_run is the loop that one would write, and tells truly how it went.
 *
 * The oracles are that loop, written here, and nets so small that each step is worked out by hand: of one
 * weight w, on samples x = 1, whose loss (w - target)² pulls w a tenth of the way at a rate of 0.05. */
#define _XOPEN_SOURCE 700 /* pthread_attr_setstack */
#include "tests/nn/counter.h"
#include "tests/support.h"

#include "nn/data/sets.h"
#include "nn/callbacks/callbacks.h"
#include "nn/check/scores.h"
#include "tests/each_epoch.h"
#include "tests/ranks/together.h"
#include "nn/train_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- data and nets ------------------------------------------------------------------------------- */

/* Samples that the test owns. */
typedef struct samples {
    st_tensor x, y;
    st_dataset *set;
} samples;

static samples own(st_tensor x, st_tensor y)
{
    samples s = { x, y, st_dataset_tensors(x, y) };
    assert_non_null(s.set);
    return s;
}

static void samples_free(samples *s)
{
    st_dataset_free(s->set);
    st_tensor_free(s->x), st_tensor_free(s->y);
}

#define auto_samples __attribute__((cleanup(samples_free))) samples

/* Three clouds of points in the plane, in turn: four deviations apart. */
static samples clouds(ptrdiff_t count, uint64_t seed)
{
    const double centre[3][2] = { { 0, 2 }, { -2, -1 }, { 2, -1 } };
    st_tensor x = st_tensor_new(ST_SHAPE(count, 2)), y = st_tensor_new(ST_SHAPE(count));
    st_normal(x, (st_random_key){ seed, 1 }, 0, (st_real)0.8);
    for (ptrdiff_t i = 0; i < count; i++) {
        *element(y, i) = (st_real)(i % 3);
        for (int k = 0; k < 2; k++) *st_at(x, ST_INDEX(i, k)) += (st_real)centre[i % 3][k];
    }
    return own(x, y);
}

static st_net *classifier(void)
{
    st_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 16), st_tanh(), st_dropout(.p = 0.1),
                           st_dense(.out_features = 3));
    assert_non_null(n);
    return n;
}

/* Samples x = 1 with that target. */
static samples pull(ptrdiff_t count, double target)
{
    st_tensor x = st_tensor_new(ST_SHAPE(count, 1)), y = st_tensor_new(ST_SHAPE(count, 1));
    st_fill(x, 1);
    st_fill(y, (st_real)target);
    return own(x, y);
}

/* y = w x, w = 0. */
static st_net *one_weight(void)
{
    st_net *n = st_net_new(ST_SHAPE(1), st_dense(.out_features = 1, .no_bias = true),
                           st_layer_new(&counter, NULL, 0, NULL));
    assert_non_null(n);
    assert_int_equal(st_net_build(n, 1, 0), 0);
    st_fill(st_net_parameters(n), 0);
    return n;
}

static double weight_of(st_net *n)
{
    return (double)st_item(st_net_parameters(n));
}

/* After so many steps of a tenth towards 10. */
static double pulled(int steps)
{
    return 10 * (1 - pow(0.9, steps));
}

static const double weight_limit = 1e4 * (double)ST_REAL_EPSILON;

/* A run that returns `status`; without a loss or an optimizer in its options, with the squared error and SGD
 * at 0.05. */
static st_train_result run_to(int status, st_net *n, const st_dataset *d, st_train_options options)
{
    st_train_result r;
    auto_optim *sgd = st_sgd(.lr = 0.05);
    if (!options.optim) options.optim = sgd;
    if (!options.loss.kind) options.loss = st_mse();
    if (st_train_run(n, d, options, &r) != status) fail_msg("%s", st_error() ? st_error() : "not refused");
    return r;
}
#define train(n, d, ...) run_to(0, n, d, ST_OPTIONS(st_train_options, __VA_ARGS__))
#define train_fails(n, d, ...) run_to(-1, n, d, ST_OPTIONS(st_train_options, __VA_ARGS__))

/* ---- it learns ----------------------------------------------------------------------------------- */

TEST(clouds_are_told_apart)
{
    auto_samples training = clouds(300, 1), validation = clouds(150, 2);
    auto_net *n = classifier();
    auto_optim *o = st_adam(.lr = 0.02);
    st_train_result r = train(n, training.set, .loss = st_cross_entropy(), .optim = o, .epochs = 10,
                              .batch = 32, .validation = validation.set);
    assert_true(r.training.accuracy > 0.9 && r.validation.accuracy > 0.95);
    assert_true(r.training.loss < 0.3 && r.validation.loss < 0.2);
    assert_int_equal(r.epochs, 10);
    assert_int_equal(r.steps, 10 * 10);
    assert_in_range(r.best_epoch, 1, 10);
    assert_false(r.stopped_early);
    assert_true(r.seconds > 0);
    assert_close(r.samples_per_second, 3000 / r.seconds, 1e-6 * 3000 / r.seconds);
}

/* ---- it is this loop ----------------------------------------------------------------------------- */

static void by_hand(st_net *n, const st_dataset *d, ptrdiff_t batch, int epochs, st_optim *o, st_schedule s,
                    double most)
{
    const long steps = (long)((d->count + batch - 1) / batch);
    st_loss l = st_cross_entropy(.label_smoothing = 0.1);
    assert_int_equal(st_net_build(n, batch, 5), 0);
    for (long step = 0; step < epochs * steps; step++) {
        ptrdiff_t first = step % steps * batch, count = d->count - first < batch ? d->count - first : batch;
        auto_tensor x = st_tensor_new(ST_SHAPE(count, 2)), target = st_tensor_new(ST_SHAPE(count)),
                    dy = st_tensor_new(ST_SHAPE(count, 3));
        assert_int_equal(st_dataset_batch(d, NULL, first, count, x, target), 0);
        n->step = (uint64_t)step;
        st_net_zero_gradients(n);
        st_loss_value(l, st_net_forward(n, x, ST_TRAIN), target, dy);
        assert_int_equal(st_net_backward(n, dy, (st_tensor){ 0 }), 0);
        st_clip_grad_norm(st_net_gradients(n), most);
        assert_int_equal(st_optim_step(o, o->lr * st_schedule_factor(&s, step, epochs * steps, steps),
                                       st_net_parameters(n), st_net_gradients(n)),
                         0);
    }
}

/* Bit for bit, with dropout, a last batch that is smaller, clipping and a schedule. */
TEST(training_is_the_loop_one_would_write)
{
    auto_samples s = clouds(50, 3);
    auto_net *n = classifier(), *expected = classifier();
    auto_optim *o = st_sgd(.lr = 0.5, .momentum = 0.9), *other = st_sgd(.lr = 0.5, .momentum = 0.9);
    st_schedule falling = st_warmup_lr(.steps = 3, .after = st_step_lr(.step_size = 1, .gamma = 0.5));
    train(n, s.set, .loss = st_cross_entropy(.label_smoothing = 0.1), .optim = o, .epochs = 4, .batch = 16,
          .seed = 5, .keep_order = true, .schedule = falling, .callbacks = { st_clip(.norm = 0.25) });
    by_hand(expected, s.set, 16, 4, other, falling, 0.25);
    assert_same(st_net_parameters(n), st_net_parameters(expected));
}

TEST(one_weight_goes_where_it_is_pulled)
{
    auto_samples s = pull(6, 10);
    auto_net *n = one_weight();
    st_train_result r = train(n, s.set, .epochs = 3, .batch = 2);
    assert_close(weight_of(n), pulled(9), weight_limit);
    assert_int_equal(r.steps, 9);
    double mean = 0; /* of the last epoch's steps, before each */
    for (int step = 6; step < 9; step++) mean += pow(10 - pulled(step), 2) / 3;
    assert_close(r.training.loss, mean, 10 * weight_limit);
    assert_true(isnan(r.training.accuracy) && isnan(r.validation.loss) && isnan(r.validation.accuracy));
    assert_false(signbit(r.training.accuracy) || signbit(r.validation.loss)); /* which print as nan */
    assert_int_equal(r.best_epoch, 0);
}

/* Samples count alike, whatever batch they are in: 4, 4 and 2 of targets 0 … 9. At so small a rate the
 * weight stays 0, and the mean of all squares is 28.5; the mean of the three batches' means is 37.5. */
TEST(each_sample_counts_alike)
{
    st_tensor x = st_tensor_new(ST_SHAPE(10, 1)),
              y = tensor_of(ST_SHAPE(10, 1), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    auto_samples s = own(x, y);
    auto_net *n = one_weight();
    auto_optim *o = st_sgd(.lr = 1e-30);
    st_train_result r = train(n, s.set, .optim = o, .batch = 4, .keep_order = true, .validation = s.set);
    assert_close(r.training.loss, 28.5, 1e-12);
    assert_close(r.validation.loss, 28.5, 1e-12);
    assert_int_equal(r.steps, 3);
}

/* Zeros stand for one epoch in batches of 64, and a set that is smaller is one batch. */
TEST(zeros_are_the_defaults)
{
    const ptrdiff_t counts[] = { 10, 64, 65, 200 };
    const long steps[] = { 1, 1, 2, 4 };
    for (int i = 0; i < 4; i++) {
        auto_samples s = pull(counts[i], 10);
        auto_net *n = one_weight();
        st_train_result r = train(n, s.set, .seed = 0);
        assert_int_equal(r.epochs, 1);
        assert_int_equal(r.steps, steps[i]);
        assert_close(weight_of(n), pulled((int)steps[i]), weight_limit);
    }
}

TEST(a_net_that_is_built_keeps_its_parameters)
{
    auto_samples s = pull(8, 10);
    const ptrdiff_t built_for[] = { 1, 4, 100 };
    for (int i = 0; i < 3; i++) {
        auto_net *n = one_weight();
        assert_int_equal(st_net_build(n, built_for[i], 0), 0);
        st_fill(st_net_parameters(n), 20);
        train(n, s.set, .batch = 8);
        assert_close(weight_of(n), 19, weight_limit);
        assert_int_equal(n->batch, i < 2 ? 8 : 100);
    }
}

/* ---- order --------------------------------------------------------------------------------------- */

enum { MOST = 400 };

/* The samples that are asked for, in order. */
typedef struct record {
    int count;
    ptrdiff_t sample[MOST];
    ptrdiff_t broken; /* the sample that fails; -1: none */
    int released;
} record;

static void release_record(st_dataset *d)
{
    ((record *)d->own)->released++;
}

static void get_recorded(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    record *r = d->own;
    assert_true(r->count < MOST);
    r->sample[r->count++] = i;
    st_fill(x, 1);
    st_fill(y, 10);
    if (i == r->broken) st_error_set("the disk is gone");
}

#define asked_for(count, steps, ...) asked_for_by(count, steps, ST_OPTIONS(st_train_options, __VA_ARGS__))

static record asked_for_by(ptrdiff_t count, long steps, st_train_options options)
{
    record r = { .broken = -1 };
    st_dataset *d = st_dataset_new(
        (st_dataset){ count, ST_SHAPE(1), ST_SHAPE(1), get_recorded, .release = release_record, .own = &r });
    auto_net *n = one_weight();
    st_train_result result = run_to(0, n, d, options);
    assert_int_equal(result.steps, steps);
    assert_close(result.samples_per_second * result.seconds, r.count, 1e-6);
    assert_close(weight_of(n), pulled((int)steps), weight_limit);
    st_dataset_free(d);
    assert_int_equal(r.released, 1);
    return r;
}

static void assert_permutation(const ptrdiff_t *order, int count)
{
    bool seen[MOST] = { false };
    for (int k = 0; k < count; k++) {
        assert_in_range(order[k], 0, count - 1);
        assert_false(seen[order[k]]);
        seen[order[k]] = true;
    }
}

TEST(order_is_kept_when_asked_for)
{
    record r = asked_for(10, 6, .epochs = 2, .batch = 4, .keep_order = true);
    assert_int_equal(r.count, 20);
    for (int k = 0; k < 20; k++) assert_int_equal(r.sample[k], k % 10);
}

/* No list of its samples is made. */
TEST(a_set_without_end_keeps_its_order)
{
    record r =
        asked_for(PTRDIFF_MAX / 2, 15, .epochs = 3, .batch = 8, .steps_per_epoch = 5, .keep_order = true);
    assert_int_equal(r.count, 15 * 8);
    for (int k = 0; k < r.count; k++) assert_int_equal(r.sample[k], k % 40);
}

TEST(an_epoch_may_be_a_part_of_the_set)
{
    record r = asked_for(100, 4, .epochs = 2, .batch = 30, .steps_per_epoch = 2, .seed = 1);
    bool seen[2][100] = { 0 };
    assert_int_equal(r.count, 120);
    for (int k = 0; k < 120; k++) {
        assert_false(seen[k / 60][r.sample[k]]);
        seen[k / 60][r.sample[k]] = true;
    }
}

TEST(each_epoch_has_an_order_of_its_own)
{
    record r = asked_for(100, 12, .epochs = 3, .batch = 30, .seed = 1),
           again = asked_for(100, 12, .epochs = 3, .batch = 30, .seed = 1),
           other = asked_for(100, 12, .epochs = 3, .batch = 30, .seed = 2);
    assert_int_equal(r.count, 300);
    assert_memory_equal(r.sample, again.sample, 300 * sizeof *r.sample);
    int same_as_before = 0, same_as_other = 0, in_place = 0;
    for (int epoch = 0; epoch < 3; epoch++) assert_permutation(r.sample + 100 * epoch, 100);
    for (int k = 0; k < 300; k++) {
        in_place += r.sample[k] == k % 100;
        same_as_other += r.sample[k] == other.sample[k];
        if (k >= 100) same_as_before += r.sample[k] == r.sample[k - 100];
    }
    assert_true(in_place < 15 && same_as_other < 15 && same_as_before < 15); /* by chance: 3, 3 and 2 */
}

TEST(the_last_batch_may_be_dropped)
{
    record r = asked_for(10, 4, .epochs = 2, .batch = 4, .keep_order = true, .drop_last = true);
    assert_int_equal(r.count, 16);
    for (int k = 0; k < 16; k++) assert_int_equal(r.sample[k], k % 8);
    r = asked_for(8, 2, .batch = 4, .drop_last = true);
    assert_permutation(r.sample, 8);
}

/* ---- validation, and when to stop ---------------------------------------------------------------- */

/* The weight goes from 0 to 10 and passes 3, where validation is best, after the third of these epochs:
 * 1, 1.9, 2.71, 3.439, 4.0951. */
static st_train_result stop_early(st_train_options options, st_net *n)
{
    auto_samples training = pull(4, 10), validation = pull(3, 3);
    options.validation = validation.set;
    return run_to(0, n, training.set, options);
}

/* Validation losses are 4, 1.21, 0.0841, 0.193 …: by steps of at least 1.2 the second is the best. Without
 * patience nothing is restored; with it the best is, however the run ends. */
TEST(early_stopping_restores_the_best)
{
    const struct {
        int patience;
        double min_delta;
        int epochs, run, best;
        double weight;
    } cases[] = { { 1, 0, 20, 4, 3, 2.71 }, { 2, 0, 20, 5, 3, 2.71 },  { 3, 0, 20, 6, 3, 2.71 },
                  { 9, 0, 5, 5, 3, 2.71 },  { 2, 1.2, 20, 4, 2, 1.9 }, { 0, 0, 6, 6, 3, pulled(6) } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_net *n = one_weight();
        const st_early_stopping_options stops = { .patience = cases[i].patience,
                                                  .min_delta = cases[i].min_delta };
        st_train_options options = { .epochs = cases[i].epochs };
        if (stops.patience > 0) options.callbacks[0] = st_early_stopping_new(stops);
        about("case %zu", i);
        st_train_result r = stop_early(options, n);
        assert_int_equal(r.stopped_early, cases[i].run < cases[i].epochs);
        assert_int_equal(r.epochs, cases[i].run);
        assert_int_equal(r.steps, cases[i].run);
        assert_int_equal(r.best_epoch, cases[i].best);
        assert_close(weight_of(n), cases[i].weight, weight_limit);
        assert_close(r.validation.loss, pow(cases[i].weight - 3, 2), weight_limit);
        assert_close(r.training.loss, pow(10 - pulled(r.epochs - 1), 2),
                     10 * weight_limit); /* of the last epoch */
        if (stops.patience > 0)
            assert_true(st_item(st_net_states(n)) == (st_real)r.best_epoch); /* states are, too */
    }
}

/* ---- reports ------------------------------------------------------------------------------------- */

typedef struct diary {
    int count, stop_after;
    st_train_report report[30];
} diary;

static bool write_diary(const st_train_report *r, void *context)
{
    diary *d = context;
    d->report[d->count++] = *r;
    return d->count != d->stop_after;
}

/* A line of a file that is no terminal: no codes, and the numbers of the report. */
static void assert_line(FILE *from, const st_train_report *r)
{
    char line[512];
    int epoch, epochs, used = 0;
    double training, validation, lr, speed;
    assert_non_null(fgets(line, sizeof line, from));
    assert_int_equal(sscanf(line, "epoch %d/%d loss %lf validation loss %lf lr %lf %lf samples/s %*d:%*2d%n",
                            &epoch, &epochs, &training, &validation, &lr, &speed, &used),
                     6);
    assert_true(epoch == r->epoch && epochs == r->epochs && speed > 0);
    assert_close(training, r->training.loss, 1e-4);
    assert_close(validation, r->validation.loss, 1e-4);
    assert_close(lr, r->lr, 1e-6);
    assert_string_equal(line + used, r->best ? "  best\n" : "\n");
    for (const char *c = line; *c; c++) assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
}

/* One sample, which takes a tenth of a second. */
static void get_slowly(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    poll(NULL, 0, 100);
    st_fill(x, 1), st_fill(y, 10);
}

static void note_seconds(st_callback *self, st_run *run, st_event event)
{
    double *seconds = self->context;
    if (event == ST_ON_STEP) seconds[0] = run->report.seconds;
    if (event == ST_ON_EPOCH) seconds[1] = run->report.seconds;
}

TEST(seconds_of_a_run_include_validation_and_those_of_its_speed_do_not)
{
    double seconds[2];
    auto_net *n = one_weight();
    auto_samples training = pull(4, 10);
    auto_dataset *slow = st_dataset_new((st_dataset){ 1, ST_SHAPE(1), ST_SHAPE(1), get_slowly });
    st_train_result r =
        train(n, training.set, .validation = slow, .callbacks = { { "seconds", note_seconds, seconds } });
    assert_true(seconds[1] - seconds[0] >= 0.09);
    assert_close(r.samples_per_second * r.seconds, 4, 1e-6);
}

/* Two steps an epoch, at half the rate from the third epoch on: the weight after each step. */
TEST(a_callback_sees_each_epoch_and_progress_shows_it)
{
    diary d = { .count = 0 };
    auto_net *n = one_weight();
    FILE *to = tmpfile();
    st_schedule s = st_step_lr(.step_size = 2, .gamma = 0.5);
    const st_train_options options = { 5, 2, .schedule = s,
                                       .callbacks = { st_progress(to), each_epoch(write_diary, &d) } };
    assert_non_null(to);
    stop_early(options, n);
    assert_int_equal(d.count, 5);
    rewind(to);
    double weight = 0, least = INFINITY;
    for (int k = 0; k < 5; k++) {
        const st_train_report *r = &d.report[k];
        assert_true(r->epoch == k + 1 && r->epochs == 5 && r->step == 2 * (k + 1) && r->steps == 10);
        assert_true(r->lr == 0.05 * pow(0.5, k / 2));
        assert_true(r->seconds >= (k ? d.report[k - 1].seconds : 0));
        double loss = 0;
        for (int step = 0; step < 2; step++, weight += 2 * r->lr * (10 - weight))
            loss += pow(10 - weight, 2) / 2;
        assert_close(r->training.loss, loss, 100 * weight_limit);
        assert_close(r->validation.loss, pow(weight - 3, 2), 10 * weight_limit);
        assert_int_equal(r->best, pow(weight - 3, 2) < least);
        least = fmin(least, pow(weight - 3, 2));
        assert_line(to, r);
    }
    assert_int_equal(fgetc(to), EOF);
    fclose(to);
}

/* A pseudo-terminal, of which *to is the end for programs; -1 with errno where there is none. */
static int open_terminal(FILE **to)
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    const char *name = terminal < 0 || grantpt(terminal) || unlockpt(terminal) ? NULL : ptsname(terminal);
    *to = name ? fopen(name, "w") : NULL;
    if (*to || terminal < 0) return terminal;
    const int reason = errno;
    close(terminal);
    errno = reason;
    return -1;
}

static void run_two_epochs(st_callback *progress)
{
    auto_net *n = one_weight();
    stop_early((st_train_options){ 2, 2, .callbacks = { *progress } }, n);
}

/* One step of ten seconds, the 901st of 1,000. */
static void resume(st_callback *progress)
{
    const st_train_report r = { .epoch = 10,
                                .epochs = 10,
                                .step = 901,
                                .steps = 1000,
                                .batch = 1,
                                .batches = 100,
                                .training = { 1, NAN },
                                .validation = { NAN, NAN },
                                .seconds = 10 };
    st_run run = { .report = r, .result = { .resumed = 900 } };
    progress->call(progress, &run, ST_ON_BEGIN);
    progress->call(progress, &run, ST_ON_STEP);
    progress->call(progress, &run, ST_ON_EPOCH);
}

/* Expects both texts on a terminal, up to the line of an epoch. */
static void assert_bar(void (*draw)(st_callback *progress), const char *last, const char *const parts[])
{
    char text[4096] = "", before[64];
    FILE *to;
    const int terminal = open_terminal(&to);
    assert_true(terminal >= 0);
    snprintf(before, sizeof before, "%s", getenv("TERM") ? getenv("TERM") : "dumb");
    setenv("TERM", "xterm", 1);
    st_callback progress = st_progress(to);
    draw(&progress);
    struct pollfd arrives = { .fd = terminal, .events = POLLIN };
    for (size_t used = 0; !strstr(text, last) && poll(&arrives, 1, 5000) > 0;) {
        ssize_t more = read(terminal, text + used, sizeof text - 1 - used); /* in pieces */
        assert_true(more > 0);
        used += (size_t)more;
    }
    fclose(to), close(terminal), setenv("TERM", before, 1);
    for (int i = 0; i < 2; i++)
        if (!strstr(text, parts[i])) fail_msg("\"%s\", expected \"%s\"", text, parts[i]);
}

/* The last step of an epoch is always drawn; a line for the epoch replaces it. It is green unless NO_COLOR is
 * set. What is left takes as long as the steps of this run, without those before a checkpoint: 99 times ten
 * seconds. */
TEST(progress_on_a_terminal_is_a_bar)
{
    static const char *const line = "\r\033[Kepoch 1/2  loss 90.5000  validation loss 1.2100";
    const char *before = getenv("NO_COLOR");
    FILE *to;
    const int terminal = open_terminal(&to);
    if (terminal < 0) skip_because("there is no pseudo-terminal: %s", strerror(errno));
    fclose(to), close(terminal);
    unsetenv("NO_COLOR");
    assert_bar(
        run_two_epochs, "epoch 2/2  loss",
        (const char *[]){ "\r\033[Kepoch 1/2 100 % [\033[32m====================\033[0m]  loss 90.5000  0:0",
                          line });
    setenv("NO_COLOR", "1", 1);
    assert_bar(run_two_epochs, "epoch 2/2  loss",
               (const char *[]){ "\r\033[Kepoch 1/2 100 % [====================]  loss 90.5000  0:0", line });
    assert_bar(resume, "epoch 10/10  loss", (const char *[]){ "epoch 10/10   1 % [", "  16:30 left  " });
    if (!before) unsetenv("NO_COLOR");
}

/* ---- refusals ------------------------------------------------------------------------------------ */

TEST(options_out_of_range_are_refused)
{
    auto_samples s = pull(10, 10);
    auto_net *n = one_weight();
    auto_optim *o = st_sgd(.lr = 0.05);
    const struct {
        st_train_options options;
        const char *text;
    } cases[] = {
        { { .epochs = -1 }, "train: epochs is -1" },
        { { .batch = -3 }, "train: batch is -3" },
        { { .steps_per_epoch = -1 }, "train: steps_per_epoch is -1" },
        { { .steps_per_epoch = 3, .batch = 4, .drop_last = true },
          "train: steps_per_epoch is 3, expected 1 to 2 for 10 samples" },
        { { .callbacks = { patient(-2) } }, "early_stopping: patience is -2" },
        { { .callbacks = { patient(2) } }, "early_stopping: there is no validation set" },
        { { .callbacks = { st_early_stopping(1, NAN) } }, "min_delta is " },
        { { .callbacks = { st_early_stopping(1, -0.5) } }, "min_delta is -0.5" },
        { { .callbacks = { st_clip(.norm = -1) } }, "clip: norm is -1" },
        { { .callbacks = { st_clip(.norm = NAN) } }, "clip: norm is " },
        { { .callbacks = { st_clip(.value = -0.5) } }, "value is -0.5" },
        { { .callbacks = { st_clip(.value = NAN) } }, "value is " },
        { { .callbacks = { st_ema(.decay = 1) } }, "ema: decay is 1" },
        { { .callbacks = { st_lr_finder() } }, "lr_finder: lr is NULL" },
        { { .batch = 11, .drop_last = true },
          "train: drop_last leaves nothing of 10 samples in batches of 11" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("%s", cases[i].text);
        st_train_result r = run_to(-1, n, s.set, cases[i].options);
        expect_error("%s", cases[i].text);
        assert_int_equal(r.epochs, 0);
        assert_int_equal(r.steps, 0);
        assert_true(isnan(r.training.loss) && isnan(r.validation.loss));
        assert_true(weight_of(n) == 0);
    }
    st_dataset endless = *s.set;
    endless.count = PTRDIFF_MAX / 2;
    train_fails(n, &endless, .batch = 8),
        expect_error("train: 4611686018427387903 elements of 8 bytes are more than can be addressed");
    expect_failure(st_train(n, s.set, .optim = o), "train: the loss");
    expect_failure(st_train(n, s.set, .loss = st_mse()), "train: the optimizer");
    st_error_set("something else"); /* is kept: a program may build all it needs and ask once */
    train_fails(n, s.set, .seed = 0);
    expect_error("something else");
}

static void add_one(st_callback *self, st_run *run, st_event event)
{
    (void)run;
    if (event == ST_ON_BEGIN) *(int *)self->context += 1;
}

/* Also if it asks for memory, and if the run fails before it begins. */
TEST(a_callback_keeps_the_context_that_it_is_given)
{
    int calls = 0;
    const st_callback counted = { "counted", add_one, &calls, .memory = sizeof calls };
    auto_samples fits = pull(4, 10);
    auto_net *n = one_weight();
    train_fails(NULL, fits.set, .callbacks = { counted }), expect_error("train: the net is NULL");
    train(n, fits.set, .callbacks = { counted });
    assert_int_equal(calls, 1);
}

static void raise_epochs(st_callback *self, st_run *run, st_event event)
{
    if (event == ST_ON_BEGIN) run->report.epochs = 6;
    if (event == ST_ON_END) *(st_train_report *)self->context = run->report;
}

/* The schedule is that of the longer run: after its last step half a cosine is near its end. */
TEST(a_callback_may_raise_the_epochs)
{
    st_train_report last;
    auto_samples s = pull(8, 10);
    auto_net *n = one_weight();
    train(n, s.set, .batch = 4, .epochs = 2, .schedule = st_cosine_lr(),
          .callbacks = { { "raise", raise_epochs, &last } });
    assert_true(last.epochs == 6 && last.step == 12 && last.steps == 12);
    assert_true(fabs(last.lr / 0.05 - (1 + cos(acos(-1) * 11 / 12)) / 2) < 1e-12);
}

/* Training sets, validation sets and sets to evaluate. */
TEST(data_that_do_not_fit_are_refused)
{
    auto_samples fits = pull(4, 10), wide = clouds(4, 1), bad = pull(4, NAN);
    st_dataset empty = *fits.set, deep = *fits.set, deep_targets = *fits.set;
    empty.count = 0, deep.x.rank = deep_targets.target.rank = ST_MAX_RANK;
    const struct {
        const st_dataset *set;
        const char *text;
    } cases[] = {
        { wide.set, "set has samples [2], the net takes [1]" },
        { &empty, "set is empty" },
        { &deep, "set leave no axis" },
        { &deep_targets, "set leave no axis" },
        { NULL, "set is NULL" },
    };
    auto_net *n = one_weight(), *raw = st_net_new(ST_SHAPE(1), st_dense(.out_features = 1));
    st_metrics score = { 7, 7 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train_fails(n, cases[i].set, .seed = 0), expect_error("%s", cases[i].text);
        expect_failure(st_evaluate(n, cases[i].set, st_mse(), &score), "%s", cases[i].text);
        if (!cases[i].set) continue;
        train_fails(n, fits.set, .validation = cases[i].set), expect_error("%s", cases[i].text);
    }
    st_dataset other = *fits.set;
    other.target = ST_SHAPE(1, 2);
    train_fails(n, fits.set, .validation = &other);
    expect_error("train: the validation set has targets [1, 2], the training set %s",
                 st_shape_text(fits.set->target).text);
    train_fails(NULL, fits.set, .seed = 0), expect_error("train: the net is NULL");
    expect_failure(st_evaluate(NULL, fits.set, st_mse(), &score), "st_evaluate before st_net_build");
    expect_failure(st_evaluate(raw, fits.set, st_mse(), &score), "st_evaluate before st_net_build");
    expect_failure(st_evaluate(n, NULL, st_mse(), &score), "st_evaluate: the data set is NULL");
    expect_failure(st_evaluate(n, fits.set, st_nll(), &score), "loss nll: ");
    assert_true(score.loss == 7 && score.accuracy == 7 && weight_of(n) == 0);
    train_fails(n, fits.set, .validation = bad.set), expect_error("train: the validation loss is");
}

/* With the batch they have all 8 axes. */
TEST(samples_may_have_seven_axes)
{
    const st_shape sample = ST_SHAPE(1, 1, 1, 1, 1, 1, 1);
    auto_samples s = own(full(st_shape_with_batch(sample, 4), 1), full(ST_SHAPE(4, 1), 10));
    auto_net *n = st_net_new(sample, st_flatten(), st_dense(.out_features = 1, .no_bias = true));
    auto_optim *o = st_sgd(.lr = 0.05);
    assert_int_equal(st_train(n, s.set, .epochs = 20, .batch = 2, .loss = st_mse(), .optim = o), 0);
    assert_close((double)*element(st_net_parameters(n), 0), 10, 0.2);
}

/* By its place in the set, wherever it is in a batch: in training, shuffled or not, in validation and
 * evaluation. */
TEST(a_class_that_there_is_not_is_told_with_its_sample)
{
    const double classes[] = { 3, -1, 1.5, -0.5, NAN, INFINITY, -INFINITY, 2147483648., 1e30 };
    const st_loss l = st_cross_entropy();
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        auto_samples s = clouds(20, 1), good = clouds(8, 2);
        auto_dataset *part = st_dataset_slice(s.set, 10, 10);
        auto_net *n = classifier();
        char text[32] = "nan";
        if (!isnan(classes[i])) snprintf(text, sizeof text, "%g", classes[i]);
        assert_int_equal(st_net_build(n, 8, 1), 0);
        auto_tensor parameters = st_tensor_clone(st_net_parameters(n));
        *element(s.y, 13) = (st_real)classes[i];
        about("class %g", classes[i]);
        train_fails(n, s.set, .loss = l, .batch = 20);
        expect_error("train: sample 13: class %s is not a whole number from 0 to 2", text);
        train_fails(n, part, .loss = l, .batch = 10, .keep_order = true);
        expect_error("train: sample 3: class %s is ", text);
        assert_same(st_net_parameters(n), parameters);
        expect_failure(st_evaluate(n, s.set, l, NULL), "st_evaluate: sample 13: class %s is ", text);
        ptrdiff_t matrix[9];
        expect_failure(st_confusion_matrix(n, s.set, l, matrix),
                       "st_confusion_matrix: sample 13: class %s is ", text);
        train_fails(n, good.set, .loss = l, .batch = 8, .validation = part);
        expect_error("train: the validation set: sample 3: class %s is ", text);
    }
}

TEST(a_source_that_fails_ends_the_run)
{
    record r = { .broken = 5 };
    auto_dataset *d = st_dataset_new((st_dataset){ 8, ST_SHAPE(1), ST_SHAPE(1), get_recorded, .own = &r });
    auto_net *n = one_weight();
    st_train_result result = train_fails(n, d, .batch = 2, .keep_order = true);
    expect_error("sample 5: the disk is gone");
    assert_int_equal(result.steps, 2);
    assert_close(weight_of(n), pulled(2), weight_limit);
}

/* The step at which the weight overflows is the last; in double the loss, a double in both, overflows
 * first. */
TEST(a_run_that_explodes_ends_at_that_step)
{
    auto_samples s = pull(20, 10);
    auto_net *n = one_weight();
    auto_optim *o = st_sgd(.lr = 1e30);
    st_train_result r = train_fails(n, s.set, .batch = 1, .optim = o);
    bool single = sizeof(st_real) == 4;
    expect_error("train: %s", single ? "element 0 of 0.weight is -inf at step" : "the loss is inf at step");
    assert_in_range(r.steps, 1, 19);
    assert_true(isfinite(weight_of(n)) == !single);
}

/* x = 0, so that weights have gradients of 0 and remain finite. */
TEST(a_bias_that_overflows_is_named)
{
    for (int k = 0; k < 3; k++) {
        st_tensor x = st_tensor_new(ST_SHAPE(4, 2)), y = st_tensor_new(ST_SHAPE(4, 3));
        st_fill(st_select(y, 1, k), 64);
        auto_samples s = own(x, y);
        auto_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 3));
        auto_optim *o = st_sgd(.lr = sizeof(st_real) == 4 ? 1e38 : 1e308);
        train_fails(n, s.set, .batch = 4, .optim = o);
        expect_error("train: element %d of 0.bias is inf at step 1 ", k);
    }
}

/* Its losses fall, and then the run explodes: the best parameters are there all the same. */
TEST(the_best_is_restored_after_an_explosion)
{
    auto_samples training = pull(4, 10), validation = pull(3, 3);
    auto_net *n = one_weight();
    st_schedule rising = st_step_lr(.step_size = 3, .gamma = 1e30);
    st_train_result r = train_fails(n, training.set, .epochs = 20, .schedule = rising,
                                    .validation = validation.set, .callbacks = { patient(20) });
    expect_error("train: ");
    assert_int_equal(r.best_epoch, 3);
    assert_close(weight_of(n), 2.71, weight_limit);
}

/* ---- callbacks ----------------------------------------------------------------------------------- */

TEST(gradients_are_clipped)
{
    auto_samples s = pull(4, 10);
    auto_optim *o = st_sgd(.lr = 1);
    const st_clip_options all[] = { { .norm = 0.25 }, { .value = 0.25 }, { .value = 0.25, .norm = 7 } };
    for (int i = 0; i < 3; i++) {
        auto_net *n = one_weight();
        train(n, s.set, .epochs = 3, .optim = o, .callbacks = { st_clip_new(all[i]) });
        assert_close(weight_of(n), 0.75, weight_limit);
    }
}

/* Every event that it sees, in order, and what it can see there. */
typedef struct witness {
    char events[64];
    st_event stop_at;
    long stop_step;
    double gradient;
} witness;

static void witness_event(st_callback *self, st_run *run, st_event event)
{
    witness *w = self->context;
    size_t used = strlen(w->events);
    if (used < sizeof w->events - 1) w->events[used] = "bxgseE"[event];
    if (event == ST_ON_GRADIENTS) w->gradient = (double)st_item(st_net_gradients(run->net));
    if (event == ST_ON_GRADIENTS) assert_true(run->report.lr == run->optim->lr && run->loss > 0);
    if (event == w->stop_at && run->report.step == w->stop_step) run->stop = true;
}

TEST(a_callback_sees_all_events_and_stops_at_once)
{
    const struct {
        st_event stop_at;
        long step;
        const char *events;
        int steps;
    } cases[] = {
        { ST_ON_END, 0, "bxgsgsexgsgseE", 4 },    { ST_ON_STEP, 1, "bxgsE", 1 },
        { ST_ON_STEP, 3, "bxgsgsexgsE", 3 },      { ST_ON_GRADIENTS, 1, "bxgsgE", 1 },
        { ST_ON_EPOCH, 2, "bxgsgseE", 2 },        { ST_ON_BEGIN, 0, "bE", 0 },
        { ST_ON_EPOCH_BEGIN, 2, "bxgsgsexE", 2 },
    };
    auto_samples s = pull(4, 10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("case %zu", i);
        witness w = { .stop_at = cases[i].stop_at, .stop_step = cases[i].step };
        auto_net *n = one_weight();
        st_train_result r = train(n, s.set, .epochs = 2, .batch = 2,
                                  .callbacks = { { 0 }, { "witness", witness_event, &w } });
        assert_string_equal(w.events, cases[i].events);
        assert_int_equal(r.steps, cases[i].steps);
        assert_close(weight_of(n), pulled(cases[i].steps), weight_limit);
        if (cases[i].steps == 4) assert_close(w.gradient, -2 * (10 - pulled(3)), 100 * weight_limit);
    }
}

static void set_rate(st_callback *self, st_run *run, st_event event)
{
    if (event == ST_ON_GRADIENTS) run->report.lr = run->report.step == 1 ? 0 : 0.05;
    if (event == ST_ON_STEP && run->report.step == 3) st_error_set("enough");
}

static void rebuild(st_callback *self, st_run *run, st_event event)
{
    if (event == ST_ON_STEP) st_net_build(run->net, 1, 0);
}

TEST(a_callback_sets_the_rate_and_fails_the_run)
{
    auto_samples s = pull(4, 10);
    auto_net *n = one_weight();
    auto_optim *o = st_sgd(.lr = 7);
    train_fails(n, s.set, .epochs = 9, .optim = o, .callbacks = { { "rate", set_rate } });
    expect_error("enough");
    assert_close(weight_of(n), pulled(2), weight_limit);
    train_fails(n, s.set, .epochs = 2, .callbacks = { { "rebuild", rebuild } });
    expect_error("st_net_forward: a batch of 4 images, the net is built for 1");
}

TEST(averages_follow_the_parameters)
{
    auto_samples s = pull(4, 10);
    auto_net *n = one_weight();
    double average = 0;
    for (int step = 1; step <= 5; step++) average = 0.75 * average + 0.25 * pulled(step);
    train(n, s.set, .epochs = 5, .callbacks = { st_ema(.decay = 0.75) });
    assert_close(weight_of(n), average, weight_limit);
}

/* Such as frozen ones: decay and 1 - decay, rounded to float, add up to less than 1. */
TEST(the_average_of_equal_parameters_is_exact)
{
    auto_samples s = pull(4, 10);
    auto_net *n = one_weight();
    auto_optim *o = st_sgd(.lr = ST_ZERO);
    assert_int_equal(st_net_build(n, 4, 1), 0);
    st_fill(st_net_parameters(n), (st_real)0.7);
    train(n, s.set, .epochs = 50, .optim = o, .callbacks = { st_ema(.decay = 0.9999) });
    assert_true(weight_of(n) == (double)(st_real)0.7);
}

/* y = w x on x = 1: w goes 2 lr (10 - w) a step, so that the loss explodes where lr exceeds 1. */
TEST(a_rate_is_found_below_the_explosion)
{
    auto_samples s = pull(4, 10);
    auto_net *n = one_weight();
    auto_optim *o = st_sgd(.lr = 7, .momentum = 0.1);
    double lr = -1;
    st_train_result r = train(n, s.set, .optim = o, .callbacks = { st_lr_finder(.lr = &lr, .steps = 100) });
    assert_in_range(r.steps, 50, 99);
    if (!(lr > 1e-3 && lr < 1)) fail_msg("%g", lr);
    assert_true(weight_of(n) == 0 && st_item(st_net_states(n)) == 0 && o->steps == 0);
    assert_true(st_item(o->state[0]) == 0);
}

/* ---- small stacks -------------------------------------------------------------------------------- */

/* Enough channels for every algorithm of convolutions. */
static st_net *with_many_channels(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28),
                      st_conv2d(.out_channels = 64, .kernel = { 5, 5 }, .stride = { 2, 2 }), st_batchnorm(),
                      st_relu(), st_maxpool(.kernel = { 2, 2 }),
                      st_residual(st_conv2d(.out_channels = 64, .kernel = { 3, 3 }, .padding = { 1, 1 })),
                      st_groupnorm(.groups = 4), st_conv2d(.out_channels = 16, .kernel = { 1, 1 }),
                      st_dropout(.p = 0.1), st_flatten(), st_dense(.out_features = 10));
}

static void *train_it(void *out)
{
    const together what = { .make = with_many_channels, .batch = 20, .epochs = 1 };
    if (out) *(outcome *)out = train_together(&what, NULL);
    return NULL;
}

/* The bytes of its stack that a thread uses. Those that it never writes keep their values. */
static size_t stack_of(void *(*run)(void *), void *with)
{
    enum { SIZE = 1 << 20, UNTOUCHED = 0xa5 };
    unsigned char *stack = aligned_alloc(1 << 16, SIZE);
    pthread_t thread;
    pthread_attr_t attributes;
    size_t unused = 0;
    assert_non_null(memset(stack, UNTOUCHED, SIZE));
    assert_int_equal(pthread_attr_init(&attributes) || pthread_attr_setstack(&attributes, stack, SIZE) ||
                         pthread_create(&thread, &attributes, run, with) || pthread_join(thread, NULL),
                     0);
    while (unused < SIZE && stack[unused] == UNTOUCHED) unused++;
    pthread_attr_destroy(&attributes);
    free(stack);
    return SIZE - unused;
}

/* This does not count the stack of an empty thread, with the static thread-local memory of libraries.
 * Sanitizers, counters of coverage, clang and code that is not optimized use more. */
TEST(a_thread_with_a_stack_of_64_kb_trains)
{
    outcome expected, out;
    train_it(&expected);
    size_t used = stack_of(train_it, &out) - stack_of(train_it, NULL);
    assert_int_equal(out.status, 0);
    assert_memory_equal(st_data(out.parameters), st_data(expected.parameters),
                        (size_t)st_numel(expected.parameters) * sizeof(st_real));
    outcome_free(&expected), outcome_free(&out);
#if defined(__OPTIMIZE__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                        \
    !defined(__SANITIZE_THREAD__) && !defined(COUNTS_COVERAGE)
    const size_t most = 64 << 10;
#else
    const size_t most = SIZE_MAX;
#endif
    if (used > most) fail_msg("%zu bytes of its stack were used", used);
}

/* ---- evaluation ---------------------------------------------------------------------------------- */

/* w = 2 on x = 1, 2, 3 with targets 1, 4, 9: squares of 1, 0 and 3. */
TEST(evaluation_is_a_mean_over_all_samples)
{
    auto_samples s = own(tensor_of(ST_SHAPE(3, 1), 1, 2, 3), tensor_of(ST_SHAPE(3, 1), 1, 4, 9));
    auto_net *n = one_weight();
    st_fill(st_net_parameters(n), 2);
    for (ptrdiff_t batch = 1; batch < 5; batch++) {
        st_metrics score;
        assert_int_equal(st_net_build(n, batch, 0), 0);
        assert_int_equal(st_evaluate(n, s.set, st_mse(), &score), 0);
        assert_close(score.loss, 10.0 / 3, 1e-12);
        assert_true(isnan(score.accuracy));
        assert_true(st_item(st_net_states(n)) == 0); /* in inference mode */
    }
}
