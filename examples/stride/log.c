/* log.c: one table of columns, which CSV and JSON lines share. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/log.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* With as few digits as read back to the same number; nothing for what is none. */
static void put_number(FILE *to, const void *field)
{
    char text[32];
    double value = *(const double *)field;
    if (!isfinite(value)) return;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, to);
}
static void set_number(void *field, double value)
{
    *(double *)field = value;
}
static json_t *json_number(const void *field)
{
    double value = *(const double *)field;
    return isfinite(value) ? json_real(value) : json_null();
}

static void put_int(FILE *to, const void *field)
{
    fprintf(to, "%d", *(const int *)field);
}
static void set_int(void *field, double value)
{
    *(int *)field = fabs(value) < INT_MAX ? (int)value : 0;
}
static json_t *json_int(const void *field)
{
    return json_integer(*(const int *)field);
}

static void put_long(FILE *to, const void *field)
{
    fprintf(to, "%ld", *(const long *)field);
}
static void set_long(void *field, double value)
{
    *(long *)field = fabs(value) < 0x1p53 ? (long)value : 0;
}
static json_t *json_long(const void *field)
{
    return json_integer(*(const long *)field);
}

static void put_bool(FILE *to, const void *field)
{
    fputc(*(const bool *)field ? '1' : '0', to);
}
static void set_bool(void *field, double value)
{
    *(bool *)field = value == 1;
}
static json_t *json_bool(const void *field)
{
    return json_boolean(*(const bool *)field);
}

static const struct column {
    const char *name;
    size_t offset;
    void (*put)(FILE *to, const void *field);
    json_t *(*json)(const void *field);
    void (*set)(void *field, double value); /* NaN: what is no number */
} columns[] = {
    { "epoch", offsetof(st_train_report, epoch), put_int, json_int, set_int },
    { "step", offsetof(st_train_report, step), put_long, json_long, set_long },
    { "lr", offsetof(st_train_report, lr), put_number, json_number, set_number },
    { "loss", offsetof(st_train_report, training.loss), put_number, json_number, set_number },
    { "accuracy", offsetof(st_train_report, training.accuracy), put_number, json_number, set_number },
    { "validation_loss", offsetof(st_train_report, validation.loss), put_number, json_number, set_number },
    { "validation_accuracy", offsetof(st_train_report, validation.accuracy), put_number, json_number,
      set_number },
    { "best", offsetof(st_train_report, best), put_bool, json_bool, set_bool },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void put_csv(FILE *to, const st_train_report *r)
{
    for (int i = 0; i < COLUMNS; i++) {
        columns[i].put(to, (const char *)r + columns[i].offset);
        fputc(i + 1 < COLUMNS ? ',' : '\n', to);
    }
}

json_t *log_json(const st_train_report *r)
{
    json_t *line = json_object();
    int failed = line == NULL;
    for (int i = 0; i < COLUMNS && !failed; i++)
        failed =
            json_object_set_new(line, columns[i].name, columns[i].json((const char *)r + columns[i].offset));
    if (!failed) return line;
    json_decref(line);
    st_error_set("log: no memory for epoch %d", r->epoch);
    return NULL;
}

/* ---- the file --------------------------------------------------------------------------------- */

struct epoch_log {
    char *path;
    FILE *to;
    bool json;
    bool regular;  /* what can be flushed to the disk */
    bool resuming; /* nothing logged yet: lines may have to go */
};

static int failed(const epoch_log *l)
{
    return st_error_set("%s: %s", l->path, strerror(errno));
}

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

int log_check(const char *path)
{
    if (!path) return st_error_set("log: the path is NULL");
    if (ends_in(path, ".csv") || ends_in(path, ".jsonl")) return 0;
    if (ends_in(path, ".json"))
        return st_error_set("%s: a log is an object a line, not one JSON text: call it .jsonl, or .csv",
                            path);
    return st_error_set("%s: a log ends in .csv or .jsonl", path);
}

static void put_names(FILE *to)
{
    for (int i = 0; i < COLUMNS; i++) fprintf(to, "%s%c", columns[i].name, i + 1 < COLUMNS ? ',' : '\n');
}

static bool is_names(const char *line)
{
    for (int i = 0; i < COLUMNS; i++) {
        size_t length = strlen(columns[i].name);
        if (strncmp(line, columns[i].name, length) != 0 || line[length] != (i + 1 < COLUMNS ? ',' : '\n'))
            return false;
        line += length + 1;
    }
    return true;
}

/* Arrived: on the disk, where it is a file. */
static int arrive(epoch_log *l)
{
    return fflush(l->to) || ferror(l->to) || (l->regular && fsync(fileno(l->to))) ? failed(l) : 0;
}

/* ---- going on --------------------------------------------------------------------------------- */

/* The epoch of a line that ends; 0 where it has none. */
static int epoch_of(const epoch_log *l, const char *line)
{
    char *end;
    if (!l->json) {
        long epoch = strtol(line, &end, 10);
        return epoch > 0 && epoch < INT_MAX && *end == ',' ? (int)epoch : 0;
    }
    errno = 0;
    json_t *object = json_loads(line, 0, NULL);
    if (!object && errno == ENOMEM) st_error_set("%s: no memory to read it", l->path);
    json_int_t epoch = json_integer_value(json_object_get(object, "epoch"));
    json_decref(object);
    return epoch > 0 && epoch < INT_MAX ? (int)epoch : 0;
}

/* Where the lines of epochs before this one end; -1 where what is there is no log. A last line that does not end was
 * cut off. */
static off_t lines_before(epoch_log *l, int epoch)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    off_t end = 0;
    if (fseeko(l->to, 0, SEEK_SET)) return failed(l);
    for (int number = 1; (length = getline(&line, &room, l->to)) > 0 && line[length - 1] == '\n'; number++) {
        bool names = number == 1 && !l->json;
        int found = names ? 0 : epoch_of(l, line);
        if (found >= epoch) break;
        end += length;
        if (names ? is_names(line) : found > 0) continue;
        end = st_error_set("%s: line %d is not one of a log that can be gone on with", l->path, number);
        break;
    }
    if (ferror(l->to) || (length < 0 && !feof(l->to))) end = failed(l);
    free(line);
    return end;
}

static int go_back(epoch_log *l, int epoch)
{
    off_t end = lines_before(l, epoch);
    if (end < 0) return -1;
    if (fseeko(l->to, end, SEEK_SET) || ftruncate(fileno(l->to), end)) return failed(l);
    if (end == 0 && !l->json) put_names(l->to);
    l->resuming = false;
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* An empty field has no number in it. */
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

static st_train_report report_of(const epoch_log *l, const char *line)
{
    st_train_report r = { .seconds = NAN };
    json_t *object = l->json ? json_loads(line, 0, NULL) : NULL;
    for (int i = 0; i < COLUMNS; i++) {
        double value = l->json ? value_of(json_object_get(object, columns[i].name)) : next_field(&line);
        columns[i].set((char *)&r + columns[i].offset, value);
    }
    json_decref(object);
    return r;
}

int log_recall(const char *path, int before, bool (*note)(const st_train_report *r, void *context),
               void *context)
{
    epoch_log l = { .path = (char *)path, .json = ends_in(path, ".jsonl"), .to = fopen(path, "r") };
    char *line = NULL;
    size_t room = 0;
    ssize_t length = 0;
    int epoch = 0, status = 0;
    if (!l.to) return failed(&l);
    while (status == 0 && (length = getline(&line, &room, l.to)) > 0 && line[length - 1] == '\n') {
        epoch = epoch_of(&l, line);
        if (epoch >= before) break;
        if (epoch == 0) continue; /* the names of columns */
        st_train_report r = report_of(&l, line);
        status = note(&r, context) ? 0 : -1;
    }
    if (ferror(l.to) || (length < 0 && !feof(l.to))) status = failed(&l);
    free(line);
    fclose(l.to);
    return status || st_error() ? -1 : 0;
}

/* ---- opening and closing ------------------------------------------------------------------------ */

static int begin(epoch_log *l, const char *path, bool resume)
{
    struct stat status;
    l->json = ends_in(path, ".jsonl");
    l->path = malloc(strlen(path) + 1);
    if (!l->path) return st_error_set("%s: no memory for the log", path);
    strcpy(l->path, path);
    l->to = fopen(path, resume ? "r+" : "w");
    bool absent = resume && !l->to && errno == ENOENT;
    if (absent) l->to = fopen(path, "w");
    if (!l->to || fstat(fileno(l->to), &status)) return failed(l);
    l->regular = S_ISREG(status.st_mode);
    l->resuming = resume && !absent && l->regular;
    if (l->resuming) return lines_before(l, INT_MAX) < 0 ? -1 : 0;
    if (!l->json) put_names(l->to);
    return arrive(l);
}

static void release(epoch_log *l)
{
    free(l->path);
    free(l);
}

static epoch_log *make(const char *path, bool resume)
{
    if (log_check(path)) return NULL;
    epoch_log *l = calloc(1, sizeof *l);
    if (!l) st_error_set("%s: no memory for the log", path);
    else if (begin(l, path, resume) == 0) return l;
    else if (l->to) fclose(l->to);
    if (l) release(l);
    return NULL;
}

epoch_log *log_open(const char *path)
{
    return make(path, false);
}

epoch_log *log_resume(const char *path)
{
    return make(path, true);
}

int log_epoch(epoch_log *l, const st_train_report *r)
{
    if (l->resuming && go_back(l, r->epoch)) return -1;
    if (l->json) {
        json_t *line = log_json(r);
        if (!line) return -1;
        errno = ENOMEM; /* unless the stream says something else */
        int status = json_dumpf(line, l->to, JSON_COMPACT);
        json_decref(line);
        if (status || fputc('\n', l->to) == EOF) return failed(l);
    } else put_csv(l->to, r);
    return arrive(l);
}

int log_close(epoch_log *l)
{
    if (!l) return 0;
    int status = fclose(l->to) ? failed(l) : 0;
    release(l);
    return status;
}
