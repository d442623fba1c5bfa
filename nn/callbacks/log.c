/* log.c: CSV and JSON lines from one table of columns. */
#include "nn/files/streams.h"

#include "nn/callbacks/callbacks.h"
#include "nn/files/file.h"
#include "tensor/print/shortest.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct log_file { /* in callback.options */
    const char *path;
    FILE *to; /* at the end of the lines of earlier epochs; NULL before the first */
    bool json;
    file_lock *held;
} log_file;

static void fail(const log_file *m)
{
    st_error_set("%s: %s", m->path, strerror(errno));
}

/* ---- lines --------------------------------------------------------------------------------------------- */

static const char names[] = "epoch,step,lr,loss,accuracy,validation_loss,validation_accuracy,best\n";

static const struct column {
    const char *name;
    size_t offset; /* of a double in the report */
} columns[] = {
    { "lr", offsetof(st_train_report, lr) },
    { "loss", offsetof(st_train_report, training.loss) },
    { "accuracy", offsetof(st_train_report, training.accuracy) },
    { "validation_loss", offsetof(st_train_report, validation.loss) },
    { "validation_accuracy", offsetof(st_train_report, validation.accuracy) },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* The shortest text that reads back as the same number. */
static void show_number(char text[32], double value, bool json)
{
    const int digits = fewest_digits(value, false, 'g', 1, DBL_DECIMAL_DIG);
    if (isfinite(value)) snprintf(text, 32, "%.*g", digits, value);
    else snprintf(text, 32, "%s", json ? "null" : "");
    if (json && !text[strcspn(text, ".en")]) strcat(text, ".0"); /* the integer -0 has no sign */
}

static void put_line(const log_file *m, const st_train_report *r)
{
    char text[32];
    void *before = c_locale_enter();
    fprintf(m->to, m->json ? "{\"epoch\":%d,\"step\":%ld" : "%d,%ld", r->epoch, r->step);
    for (const struct column *c = columns; c < columns + COLUMNS; c++) {
        show_number(text, *(const double *)(const void *)((const char *)r + c->offset), m->json);
        if (m->json) fprintf(m->to, ",\"%s\":%s", c->name, text);
        else fprintf(m->to, ",%s", text);
    }
    if (m->json) fprintf(m->to, ",\"best\":%s}\n", r->best ? "true" : "false");
    else fprintf(m->to, ",%d\n", r->best);
    c_locale_leave(before);
}

/* The epoch of a line; 0 if there is none. */
static long epoch_of(const log_file *m, const char *line)
{
    static const char begins[] = "{\"epoch\":";
    const size_t skipped = m->json ? sizeof begins - 1 : 0;
    char *end;
    if (strncmp(line, begins, skipped) != 0) return 0;
    long epoch = strtol(line + skipped, &end, 10);
    return epoch > 0 && epoch < INT_MAX && *end == ',' ? epoch : 0;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

typedef struct earlier {
    const log_file *m;
    int epoch; /* the first one without a line; 0: a new log */
} earlier;

/* Copies the lines of earlier epochs. A last line without a newline is incomplete. */
static int copy_lines(FILE *to, const void *context)
{
    const earlier *e = context;
    const log_file *m = e->m;
    char line[4096];
    int status = 0;
    FILE *from = e->epoch > 0 ? fopen(m->path, "r") : NULL;
    if (!from && e->epoch > 0 && errno != ENOENT) return -1;
    if (!m->json) fputs(names, to);
    for (int number = 1; from && status == 0 && fgets(line, sizeof line, from) && strchr(line, '\n');
         number++) {
        bool head = number == 1 && !m->json;
        long found = head ? 0 : epoch_of(m, line);
        if (head ? strcmp(line, names) != 0 : found == 0)
            status = st_error_set("%s: line %d is not of a log that can be continued", m->path, number);
        else if (found >= e->epoch) break;
        else if (!head) fputs(line, to);
    }
    if (from && ferror(from)) status = -1;
    if (from && fclose(from)) status = -1;
    return status;
}

/* Keeps the lines of earlier epochs, and opens the file to append to it. */
static void place(log_file *m, const st_run *run)
{
    const earlier e = { m, run->report.step > 0 ? run->report.epoch : 0 };
    if (st_file_replace(m->path, copy_lines, &e) == 0 && !(m->to = fopen(m->path, "a"))) fail(m);
}

/* Flushes a line to disk. */
static void flush(const log_file *m)
{
    if (system_flush(m->to)) fail(m);
}

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

/* Tests that the log can be written; the first epoch changes it. */
static void begin(log_file *m)
{
    *m = (log_file){ m->path, NULL, ends_in(m->path, ".jsonl"), NULL };
    if (m->json || ends_in(m->path, ".csv")) {
        if (st_file_try(m->path, copy_lines, &(earlier){ m, 0 }) == 0) m->held = file_hold(m->path);
    } else st_error_set("%s: expected a log's name to end in .csv or .jsonl", m->path);
}

static void call(st_callback *self, st_run *run, st_event event)
{
    log_file *m = (void *)&self->options;
    if (!m->path || run->rank > 0) return;
    if (event == ST_ON_BEGIN) begin(m);
    if (event == ST_ON_EPOCH_BEGIN && !m->to) place(m, run);
    if (event == ST_ON_EPOCH && !st_error()) put_line(m, &run->report), flush(m);
    if (event == ST_ON_END && m->to && fclose(m->to)) fail(m);
    if (event == ST_ON_END) file_release(m->held);
}

st_callback st_log(const char *path)
{
    return (st_callback){ .name = "log", .call = call, .options.pointer = (void *)path };
}
