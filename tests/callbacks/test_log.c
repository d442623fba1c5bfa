/* test_log.c: logs read back exactly, and a resumed run continues its log to the same bytes. */
#define _XOPEN_SOURCE 700
#include "tests/files.h"
#include "tests/log_lines.h"
#include "tests/support.h"

#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *text_of(const char *path)
{
    FILE *from = fopen(path, "rb");
    assert_non_null(from);
    char *text = calloc(1, 1 << 16);
    assert_true(fread(text, 1, (1 << 16) - 1, from) < (1 << 16) - 1);
    fclose(from);
    return text;
}

/* ---- logs -------------------------------------------------------------------------------------- */

/* Numbers that fewer digits would spoil, and those that are none. */
static st_train_report awkward(int k)
{
    static const double values[] = { 1.0 / 3, 0.1,    0.1 + 0.2, DBL_MIN / 3,       DBL_MAX,
                                     -0.0,    5e-324, 1e22,      123456789.0 / 1024 };
    enum { COUNT = sizeof values / sizeof *values };
    return (
        st_train_report){ .epoch = k + 1,
                          .epochs = 9,
                          .step = 3000000000L + k,
                          .lr = values[k % COUNT],
                          .training = { values[(k + 1) % COUNT], values[(k + 2) % COUNT] },
                          .validation = { k % 2 ? NAN : values[(k + 3) % COUNT], k % 3 ? INFINITY : 0.25 },
                          .seconds = k,
                          .best = k % 2 == 0 };
}

enum { LINES = 9 };

static void write_log(const char *path)
{
    log_lines l;
    assert_int_equal(log_begin(&l, path, false), 0);
    for (int k = 0; k < LINES; k++) {
        st_train_report r = awkward(k);
        assert_int_equal(log_report(&l, &r), 0);
    }
    assert_int_equal(log_end(&l), 0);
}

SETUP(enter_folder)

static const char *const field_names[] = {
    "epoch", "step", "lr", "loss", "accuracy", "validation_loss", "validation_accuracy", "best"
};
enum { FIELDS = 8 };

/* The fields of a line, by jansson or as numbers between commas; NaN where there is none. Returns the line's
 * end. */
static const char *read_line(const char *line, bool json, double fields[FIELDS])
{
    const char *newline = strchr(line, '\n');
    assert_non_null(newline);
    json_t *object = json ? json_loadb(line, (size_t)(newline - line), 0, NULL) : NULL;
    if (json) assert_int_equal(json_object_size(object), FIELDS);
    for (int i = 0; i < FIELDS; i++) {
        char *end = NULL;
        const json_t *value = json_object_get(object, field_names[i]);
        assert_true(!json || json_is_number(value) || json_is_boolean(value) || json_is_null(value));
        fields[i] = json ? (json_is_number(value) ? json_number_value(value) : json_is_true(value))
                         : strtod(line, &end);
        if (json ? json_is_null(value) : end == line) fields[i] = NAN;
        if (json) continue;
        assert_int_equal(*end, i < FIELDS - 1 ? ',' : '\n');
        line = end + 1;
    }
    json_decref(object);
    return newline + 1;
}

/* Equal to the last bit; what is no finite number is not there. Each line is in the file when it is
 * logged. */
TEST(lines_read_back_exactly)
{
    for (int json = 0; json < 2; json++) {
        const char *path = path_of(json ? "log.jsonl" : "log.csv");
        log_lines l;
        assert_int_equal(log_begin(&l, path, false), 0);
        for (int k = 0; k < LINES; k++) {
            st_train_report r = awkward(k);
            assert_int_equal(log_report(&l, &r), 0);
            char *text = text_of(path);
            const char *line = json ? text : strchr(text, '\n') + 1;
            double fields[FIELDS];
            for (int i = 0; i <= k; i++) line = read_line(line, json, fields);
            assert_int_equal(*line, '\0');
            const double expected[] = {
                r.epoch,           (double)r.step,        r.lr,  r.training.loss, r.training.accuracy,
                r.validation.loss, r.validation.accuracy, r.best
            };
            for (int i = 0; i < FIELDS; i++) {
                about("line %d, field %d", k, i);
                if (isfinite(expected[i])) assert_memory_equal(&fields[i], &expected[i], sizeof *fields);
                else assert_true(isnan(fields[i]));
            }
            free(text);
        }
        assert_int_equal(log_end(&l), 0);
    }
}

TEST(a_log_that_cannot_be_written_is_an_error)
{
    static const char *const refused[] = { "run", "run.txt", "run.json", ".csv", "run.CSV", "" };
    log_lines l;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        expect_failure(log_begin(&l, refused[i], false), "%s: expected a log's name to end in .csv or .jsonl",
                       refused[i]);
    const char *nowhere = path_of("no such folder/run.csv");
    expect_failure(log_begin(&l, nowhere, false), "%s: cannot be written: %s", nowhere, strerror(ENOENT));
    const char *pipe = path_of("pipe.jsonl");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    expect_failure(log_begin(&l, pipe, false), "%s: not a regular file", pipe);
    unlink(pipe);
}

/* A run that ends before its first epoch leaves the old log, or none. */
TEST(a_log_is_not_changed_before_its_first_epoch)
{
    const char *path = path_of("early.csv");
    log_lines l;
    for (int old = 0; old < 2; old++) {
        if (old) write_log(path);
        char *before = old ? text_of(path) : NULL;
        assert_int_equal(log_begin(&l, path, false), 0);
        assert_int_equal(log_end(&l), 0);
        assert_int_equal(access(path, F_OK), old - 1);
        char *after = old ? text_of(path) : NULL;
        if (old) assert_string_equal(after, before);
        free(before), free(after);
    }
}

/* ---- logs that go on ---------------------------------------------------------------------------- */

/* Checks a log: the part that was written before a run ended, and what was logged after it went on. */
static void assert_goes_on(const char *path, const char *whole, size_t kept, int first, int last)
{
    unlink(path);
    FILE *f = kept ? fopen(path, "w") : NULL; /* nothing: there is no file */
    if (f) assert_true(fwrite(whole, 1, kept, f) == kept && fclose(f) == 0);
    log_lines l;
    if (log_begin(&l, path, true)) fail_msg("%zu bytes: %s", kept, st_error());
    for (int k = first; k < last; k++) {
        st_train_report r = awkward(k);
        r.seconds *= 3;
        assert_int_equal(log_report(&l, &r), 0);
    }
    assert_int_equal(log_end(&l), 0);
}

/* Cut at ends of lines, before them, and within; and gone on with from every epoch whose predecessors are
 * there. */
TEST(a_log_that_goes_on_comes_to_the_same_bytes)
{
    const char *const names[] = { "on.csv", "on.jsonl" };
    for (int json = 0; json < 2; json++) {
        const char *path = path_of(names[json]);
        write_log(path);
        char *whole = text_of(path);
        for (size_t kept = 0; kept <= strlen(whole); kept++) {
            bool at_an_end = kept == 0 || whole[kept - 1] == '\n' || whole[kept] == '\n';
            if (!at_an_end && kept % 29) continue; /* each line is waited for */
            int lines = json - 1;
            for (size_t i = 0; i < kept; i++) lines += whole[i] == '\n';
            for (int first = lines; first >= 0; first -= 3) {
                about("%s, %zu bytes, from epoch %d", names[json], kept, first + 1);
                assert_goes_on(path, whole, kept, first, LINES);
                char *text = text_of(path);
                assert_string_equal(text, whole);
                free(text);
            }
        }
        /* A run that is over logs nothing more. */
        assert_goes_on(path, whole, strlen(whole), 0, 0);
        char *text = text_of(path);
        assert_string_equal(text, whole);
        free(text), free(whole);
    }
}

TEST(what_is_no_log_is_not_gone_on_with)
{
    static const struct {
        const char *name, *text;
        int line;
    } all[] = {
        { "bad.csv", "epoch,step,lr,loss,accuracy,validation_loss,validation_accuracy,seconds,best\n", 1 },
        { "bad.csv", "1,2,3\n", 1 },
        { "bad.csv", "epoch,step,lr,loss,accuracy,validation_loss,validation_accuracy,best\n1,2\nx,2\n", 3 },
        { "bad.csv", "epoch,step,lr,loss,accuracy,validation_loss,validation_accuracy,best\n0,2\n", 2 },
        { "bad.jsonl", "dear diary\n", 1 },
        { "bad.jsonl", "{\"epoch\":1,\"step\":2}\n[]\n", 2 },
        { "bad.jsonl", "{\"epoch\":1,\"step\":2}\n{\"epoch\":\"2\"}\n", 2 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *path = path_of(all[i].name);
        FILE *f = fopen(path, "w");
        assert_true(fputs(all[i].text, f) >= 0);
        assert_int_equal(fclose(f), 0);
        about("%s", all[i].text);
        log_lines l;
        st_train_report r = awkward(4);
        assert_int_equal(log_begin(&l, path, true), 0);
        expect_failure(log_report(&l, &r), "%s: line %d is not of a log that can be continued", path,
                       all[i].line);
        char *text = text_of(path);
        assert_string_equal(text, all[i].text);
        free(text), log_end(&l);
    }
}
