/* log.c: reads CSV and JSON lines by one table of columns. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/paths.h"
#include "examples/stride/log.h"
#include "examples/stride/text.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns ------------------------------------------------------------------------------------ */

typedef enum kind { INT, LONG, REAL, BOOL } kind;

static const struct column {
    const char *name;
    kind kind;
    size_t offset;
} columns[] = {
    { "epoch", INT, offsetof(st_train_report, epoch) },
    { "step", LONG, offsetof(st_train_report, step) },
    { "lr", REAL, offsetof(st_train_report, lr) },
    { "loss", REAL, offsetof(st_train_report, training.loss) },
    { "accuracy", REAL, offsetof(st_train_report, training.accuracy) },
    { "validation_loss", REAL, offsetof(st_train_report, validation.loss) },
    { "validation_accuracy", REAL, offsetof(st_train_report, validation.accuracy) },
    { "best", BOOL, offsetof(st_train_report, best) },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* NaN: the field has no number. */
static void set(const struct column *c, st_train_report *r, double value)
{
    void *at = (char *)r + c->offset;
    switch (c->kind) {
    case INT: *(int *)at = fabs(value) < INT_MAX ? (int)value : 0; break;
    case LONG: *(long *)at = fabs(value) < 0x1p53 ? (long)value : 0; break;
    case REAL: *(double *)at = value; break;
    case BOOL: *(bool *)at = value == 1; break;
    }
}

/* ---- epochs in memory --------------------------------------------------------------------------- */

/* The capacity is a power of two, and is full when the count is one. */
static int grow(history *h)
{
    if (h->count & (h->count - 1)) return 0;
    size_t room = h->count > 0 ? 2 * (size_t)h->count : 1;
    st_train_report *grown = realloc(h->epochs, room * sizeof *grown);
    if (!grown) return st_error_set("history: no memory for epoch %d", h->count + 1);
    h->epochs = grown;
    return 0;
}

bool history_keep(const st_train_report *r, void *context)
{
    history *h = context;
    if (grow(h)) return false;
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
    if (text_ends(path, ".json"))
        return st_error_set("%s: a log has one JSON object per line: name it .jsonl, or .csv", path);
    return st_error_set("%s: expected a log's name to end in .csv or .jsonl", path);
}

static double next_field(const char **at)
{
    char *end;
    bool empty = **at == ',' || **at == '\n';
    double value = empty ? NAN : strtod(*at, &end);
    *at += strcspn(*at, ",\n");
    *at += **at == ',';
    return value;
}

static double value_of(const json_t *value)
{
    return json_is_boolean(value)  ? json_is_true(value)
           : json_is_number(value) ? json_number_value(value)
                                   : NAN;
}

/* The epoch is 0 if the line has none. */
static st_train_report report_of(const char *line, bool json)
{
    st_train_report r = { .seconds = NAN };
    json_t *object = json ? json_loads(line, 0, NULL) : NULL;
    for (int i = 0; i < COLUMNS; i++)
        set(&columns[i], &r, json ? value_of(json_object_get(object, columns[i].name)) : next_field(&line));
    json_decref(object);
    return r;
}

int log_recall(const char *path, int before, history *to)
{
    FILE *from = path_readable(path) ? NULL : fopen(path, "r");
    const bool json = text_ends(path, ".jsonl");
    char *line = NULL;
    size_t room = 0;
    ssize_t length = 0;
    int status = 0;
    if (!from) return st_error_set("%s: %s", path, strerror(errno));
    while (status == 0 && (length = getline(&line, &room, from)) > 0 && line[length - 1] == '\n') {
        st_train_report r = report_of(line, json);
        if (r.epoch >= before) break;
        if (r.epoch > 0 && !history_keep(&r, to)) status = -1;
    }
    if (ferror(from) || (length < 0 && !feof(from))) status = st_error_set("%s: %s", path, strerror(errno));
    free(line);
    fclose(from);
    return status || st_error() ? -1 : 0;
}
