/* test_callbacks.c: every callback of the library, whatever it does, leaves a run what it was: the same bits
 * for any number of threads and ranks, and from a checkpoint on; its options are checked, and an error ends
 * the run. */
#include "tests/declared.h"
#include "tests/ranks/together.h"

#include "nn/callbacks/callbacks.h"
#include "nn/files/checkpoint.h"

#include <stdio.h>
#include <unistd.h>

static char folder_path[2][MOST_RANKS][256];

static int enter(void **state)
{
    int status = enter_folder(state);
    share_all_work();
    for (int q = 0; q < MOST_RANKS; q++) {
        char log[] = "0.csv", file[] = "0.safetensors";
        log[0] = file[0] = (char)('0' + q);
        snprintf(folder_path[0][q], sizeof folder_path[0][q], "%s", path_of(log));
        snprintf(folder_path[1][q], sizeof folder_path[1][q], "%s", path_of(file));
    }
    return status;
}
SETUP(enter)

/* ---- the table ----------------------------------------------------------------------------------------- */

static st_callback clip(int rank)
{
    return st_clip(.norm = 0.5, .value = 0.25);
}
static st_callback early_stopping(int rank)
{
    return st_early_stopping(.patience = 1, .min_delta = 0.001);
}
static st_callback ema(int rank)
{
    return st_ema(.decay = 0.75);
}
static st_callback lr_finder(int rank)
{
    static double lr[MOST_RANKS];
    return st_lr_finder(.lr = &lr[rank], .least = 1e-4, .steps = 60);
}
static st_callback progress(int rank)
{
    static FILE *to;
    if (!to) to = fopen("/dev/null", "w");
    return st_progress(to);
}
static st_callback log_lines(int rank)
{
    return st_log(folder_path[0][rank]);
}
static st_callback detect_anomaly(int rank)
{
    return st_detect_anomaly();
}
static st_callback checkpoint(int rank)
{
    return st_checkpoint(.path = folder_path[1][rank], .every = 1, .resume = true);
}

/* A callback of the library as a run takes it. One that sets the run's rates ends it, and resumes from
 * nothing. One that watches leaves the run as it is, the others change it. */
static const struct row {
    const char *name;
    st_callback (*make)(int rank);
    bool ends, watches;
} rows[] = {
    { "clip", clip },
    { "early_stopping", early_stopping },
    { "ema", ema },
    { "lr_finder", lr_finder, .ends = true },
    { "progress", progress, .watches = true },
    { "log", log_lines, .watches = true },
    { "detect_anomaly", detect_anomaly, .watches = true },
    { "checkpoint", checkpoint, .watches = true },
};
enum { ROWS = sizeof rows / sizeof *rows };

static const struct row *row; /* of the run */

static void look_up(const char *name)
{
    int i = 0;
    while (i < ROWS && strcmp(rows[i].name, name) != 0) i++;
    if (i == ROWS) fail_msg("test_callbacks.c has no row for st_%s", name);
}

TEST(every_callback_has_a_row)
{
    const int count = each_declared("nn/callbacks/callbacks.h", "st_callback ", look_up) +
                      each_declared("nn/files/checkpoint.h", "st_callback ", look_up);
    assert_int_equal(count, ROWS);
}

TEST(every_callback_is_in_the_campaigns)
{
    static const char *const headers[] = { "nn/callbacks/callbacks.h", "nn/files/checkpoint.h" };
    for (int i = 0; i < 2; i++) {
        each_is_called(headers[i], "st_callback ", "tests/fuzz/fuzz_calls.c");
        each_is_called(headers[i], "st_callback ", "tests/campaigns/oom.c");
    }
}

/* ---- bits ---------------------------------------------------------------------------------------------- */

static void with_it(st_train_options *o, int rank)
{
    unlink(folder_path[1][rank]);
    o->callbacks[0] = row->make(rank);
}

static void assert_same_run(const outcome *got, const outcome *expected)
{
    if (got->status) fail_msg("%s: %s", row->name, got->error);
    if (!same_bytes(got->parameters, expected->parameters)) fail_msg("%s: other parameters", row->name);
    if (!same_bytes(got->states, expected->states)) fail_msg("%s: other states", row->name);
    assert_int_equal(got->result.steps, expected->result.steps);
    assert_int_equal(got->result.best_epoch, expected->result.best_epoch);
}

/* Numbers of threads, then of ranks. */
TEST(the_bits_of_a_run_depend_on_neither_threads_nor_ranks)
{
    const int threads = st_num_threads();
    outcome alone = train_together(&(together){ .micro_batches = 2 }, NULL);
    for (row = rows; row < rows + ROWS; row++) {
        const together what = { .micro_batches = 2, .change = with_it };
        st_set_num_threads(1);
        outcome expected = train_together(&what, NULL);
        if (expected.status) fail_msg("%s: %s", row->name, expected.error);
        if (row->watches) assert_same_run(&expected, &alone);
        else if (same_bytes(expected.parameters, alone.parameters) &&
                 expected.result.steps == alone.result.steps)
            fail_msg("%s: test_callbacks.c has it do nothing in this run", row->name);
        st_set_num_threads(3);
        outcome other = train_together(&what, NULL), out[MOST_RANKS];
        assert_same_run(&other, &expected);
        st_set_num_threads(threads);
        train_by_threads(&what, 2, out);
        for (int q = 0; q < 2; q++) assert_same_run(&out[q], &expected), outcome_free(&out[q]);
        outcome_free(&expected), outcome_free(&other);
    }
    outcome_free(&alone);
}

/* ---- checkpoints --------------------------------------------------------------------------------------- */

static void stop(st_callback *self, st_run *run, st_event event)
{
    if (event == ST_ON_STEP && run->report.step == *(const long *)self->context) run->stop = true;
}

static long cut; /* the step after which a run is stopped */

static void with_it_and_a_checkpoint(st_train_options *o, int rank)
{
    o->callbacks[0] = row->make == checkpoint ? (st_callback){ 0 } : row->make(rank);
    o->callbacks[1] = (st_callback){ "stop", stop, &cut };
    o->callbacks[2] = checkpoint(rank);
}

/* The run has 3 epochs of 4 steps. */
TEST(a_run_that_is_cut_off_comes_to_the_same_bits)
{
    for (row = rows; row < rows + ROWS; row++) {
        if (row->ends) continue;
        const together what = { .epochs = 3, .change = with_it_and_a_checkpoint };
        cut = -1, unlink(folder_path[1][0]);
        outcome whole = train_together(&what, NULL);
        for (long at = 1; at < 12; at += 3) {
            unlink(folder_path[1][0]);
            cut = at;
            outcome part = train_together(&what, NULL);
            cut = -1;
            outcome rest = train_together(&what, NULL);
            if (part.status) fail_msg("%s: %s", row->name, part.error);
            assert_int_equal(part.result.steps, at);
            assert_same_run(&rest, &whole);
            assert_int_equal(rest.result.resumed, at);
            outcome_free(&part), outcome_free(&rest);
        }
        outcome_free(&whole);
    }
}

static double losses[4], rates[4]; /* of the epochs, by their numbers */

static void note(st_callback *self, st_run *run, st_event event)
{
    if (event != ST_ON_EPOCH) return;
    losses[run->report.epoch] = run->report.training.loss;
    rates[run->report.epoch] = run->report.lr;
}

static void with_notes(st_train_options *o, int rank)
{
    o->callbacks[0] = (st_callback){ "stop", stop, &cut };
    o->callbacks[1] = (st_callback){ "note", note };
    o->callbacks[2] = checkpoint(rank);
    o->schedule = st_cosine_lr();
}

/* Also of an epoch whose last step was taken before the run was cut off. */
TEST(a_resumed_run_reports_the_loss_and_the_rate_of_each_epoch)
{
    const together what = { .epochs = 3, .change = with_notes };
    double expected[2][4];
    cut = -1, unlink(folder_path[1][0]);
    outcome whole = train_together(&what, NULL);
    memcpy(expected[0], losses, sizeof losses), memcpy(expected[1], rates, sizeof rates);
    for (long at = 1; at < 12; at++) {
        unlink(folder_path[1][0]);
        cut = at;
        outcome part = train_together(&what, NULL);
        cut = -1;
        outcome rest = train_together(&what, NULL);
        for (int i = 1; i <= 3; i++)
            if (losses[i] != expected[0][i] || rates[i] != expected[1][i])
                fail_msg("cut off after step %ld: epoch %d has loss %g and rate %g, expected %g and %g", at,
                         i, losses[i], rates[i], expected[0][i], expected[1][i]);
        outcome_free(&part), outcome_free(&rest);
    }
    outcome_free(&whole);
}

/* ---- errors -------------------------------------------------------------------------------------------- */

static st_callback wrong;

static void with_wrong_options(st_train_options *o, int rank)
{
    o->callbacks[0] = wrong;
}

/* Below the least number of each option, and not finite. */
TEST(options_out_of_range_are_refused)
{
    for (row = rows; row < rows + ROWS; row++) {
        const st_callback sound = row->make(0);
        for (const st_field *f = sound.fields; f && f->name; f++) {
            wrong = sound;
            char *at = (char *)&wrong.options + f->offset, expected[80];
            const double low = f->least - 1;
            const int low_int = (int)low;
            if (f->kind == ST_FIELD_REAL) memcpy(at, &low, sizeof low);
            else if (f->kind == ST_FIELD_INT) memcpy(at, &low_int, sizeof low_int);
            else continue;
            outcome out = train_together(&(together){ .change = with_wrong_options }, NULL);
            snprintf(expected, sizeof expected, "%s: %s is %g, expected at least %g", sound.name, f->name,
                     low, f->least);
            assert_int_equal(out.status, -1);
            if (!strstr(out.error, expected)) fail_msg("\"%s\", expected \"%s\"", out.error, expected);
            outcome_free(&out);
        }
    }
}

TEST(options_outside_of_a_callback_are_refused)
{
    const st_field fields[] = { { "far", ST_FIELD_REAL, .offset = sizeof(st_option_bytes) }, { 0 } };
    row = rows;
    wrong = row->make(0);
    wrong.fields = fields;
    outcome out = train_together(&(together){ .change = with_wrong_options }, NULL);
    assert_int_equal(out.status, -1);
    if (!strstr(out.error, "option far lies outside of the options")) fail_msg("\"%s\"", out.error);
    outcome_free(&out);
}

static void no_class(st_tensor x, st_tensor y, int rank)
{
    *element(y, 40) = 17;
}

/* Nothing that it has allocated is lost: sanitizers look. */
TEST(an_error_ends_the_run_and_is_kept)
{
    for (row = rows; row < rows + ROWS; row++) {
        outcome out =
            train_together(&(together){ .change = with_it, .spoil = no_class, .epochs = 200 }, NULL);
        about("%s", row->name);
        assert_int_equal(out.status, -1);
        assert_string_equal(out.error, "train: sample 40: class 17 is not a whole number from 0 to 9");
        outcome_free(&out);
    }
}
