/* log.c: epochs in memory, and from CSV or JSON lines. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/paths.h"
#include "examples/stride/report.h"
#include "examples/stride/text.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- epochs in memory --------------------------------------------------------------------------- */

/* The capacity is a power of two, and is full when the count is one. */
bool history_keep(const st_train_report *r, void *context)
{
    history *h = context;
    if ((h->count & (h->count - 1)) == 0) {
        st_train_report *grown = realloc(h->epochs, (h->count ? 2 * (size_t)h->count : 1) * sizeof *grown);
        if (!grown) return st_error_set("history: no memory for epoch %d", h->count + 1) == 0;
        h->epochs = grown;
    }
    h->epochs[h->count++] = *r;
    return true;
}

void history_free(history *h)
{
    free(h->epochs);
    *h = (history){ 0 };
}

/* ---- files -------------------------------------------------------------------------------------- */

int log_check(const char *path)
{
    if (text_ends(path, ".csv") || text_ends(path, ".jsonl")) return 0;
    return st_error_set("%s: expected a log's name to end in .csv or .jsonl", path);
}

/* The numbers of a line, in this order; NaN where there is none. */
enum { EPOCH, STEP, LR, LOSS, ACCURACY, VALIDATION_LOSS, VALIDATION_ACCURACY, BEST, COLUMNS };
static const char *const names[COLUMNS] = {
    "epoch", "step", "lr", "loss", "accuracy", "validation_loss", "validation_accuracy", "best",
};

static void read_csv(const char *at, double value[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        value[i] = *at == ',' || *at == '\n' ? NAN : strtod(at, NULL);
        at += strcspn(at, ",\n");
        at += *at == ',';
    }
}

static void read_json(const char *line, double value[COLUMNS])
{
    json_t *object = json_loads(line, 0, NULL);
    for (int i = 0; i < COLUMNS; i++) {
        const json_t *one = json_object_get(object, names[i]);
        value[i] = json_is_number(one)    ? json_number_value(one)
                   : json_is_boolean(one) ? json_is_true(one)
                                          : NAN;
    }
    json_decref(object);
}

/* The epoch is 0 if the line has none. */
static st_train_report report_of(const char *line, bool json)
{
    double v[COLUMNS];
    (json ? read_json : read_csv)(line, v);
    return (st_train_report){ .epoch = fabs(v[EPOCH]) < INT_MAX ? (int)v[EPOCH] : 0,
                              .step = fabs(v[STEP]) < 0x1p53 ? (long)v[STEP] : 0,
                              .lr = v[LR],
                              .training = { v[LOSS], v[ACCURACY] },
                              .validation = { v[VALIDATION_LOSS], v[VALIDATION_ACCURACY] },
                              .best = v[BEST] == 1,
                              .seconds = NAN };
}

enum {
    LONGEST_LINE = 4096,
    MOST_LINES = 1000001 /* of a million epochs, as --epochs allows, and a heading */
};

int log_recall(const char *path, int before, history *to)
{
    FILE *from = path_readable(path) ? NULL : fopen(path, "r");
    const bool json = text_ends(path, ".jsonl");
    char line[LONGEST_LINE];
    int status = 0;
    if (!from) return st_error_set("%s: %s", path, strerror(errno));
    for (int number = 1; status == 0 && fgets(line, sizeof line, from); number++) {
        if (number > MOST_LINES) status = st_error_set("%s: has more than %d lines", path, MOST_LINES);
        if (!strchr(line, '\n')) { /* an incomplete last line is passed over */
            if (!feof(from) || strlen(line) == 0)
                status = st_error_set("%s: line %d is not of a log", path, number);
            break;
        }
        if (number == 1 && !json && strncmp(line, "epoch,", 6) != 0)
            status = st_error_set("%s: line 1 is not of a log, which begins with epoch", path);
        st_train_report r = report_of(line, json);
        if (status || r.epoch >= before) break;
        if (r.epoch > 0 && !history_keep(&r, to)) status = -1;
    }
    if (ferror(from)) status = st_error_set("%s: %s", path, strerror(errno));
    fclose(from);
    return status || st_error() ? -1 : 0;
}
