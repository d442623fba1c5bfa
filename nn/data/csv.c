/* csv.c: reads a table line by line into arrays that grow. */
#include "nn/data/csv.h"
#include "nn/data/source.h"
#include "nn/files/file.h"
#include "nn/files/locale.h"
#include "tensor/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_CLASSES = 1 << 24, /* a float holds every integer up to this one */
    MOST_LINE = 1 << 26     /* bytes */
};

/* Limits the table, since a small gzip stream may unpack to any number. */
static const ptrdiff_t MOST_NUMBERS = (ptrdiff_t)1 << 30;

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct reader {
    source from;
    int delimiter, ahead;      /* ahead: the next byte, or -1 */
    ptrdiff_t line, next_line; /* of the fields; of the next byte */
    char *text; /* the fields of a line, without blanks and quotes around them, each ended by a zero */
    ptrdiff_t fields, used, room;
} reader;

static int refuse(const reader *r, ptrdiff_t column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `column` counts from 0, the message from 1. */
static int refuse(const reader *r, ptrdiff_t column, const char *format, ...)
{
    char text[ST_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return st_error_set("%s: line %td, column %td: %s", r->from.name, r->line, column + 1, text);
}

static bool is_blank(int c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_field(const reader *r, int c)
{
    return c < 0 || c == '\n' || c == r->delimiter || (r->delimiter == ' ' && is_blank(c));
}

static void advance(reader *r)
{
    r->next_line += r->ahead == '\n';
    r->ahead = source_next(r->from);
}

static void skip_blanks(reader *r)
{
    while (is_blank(r->ahead) && (r->delimiter == ' ' || r->ahead != r->delimiter)) advance(r);
}

static int append(reader *r, char c)
{
    if (r->used == r->room) {
        ptrdiff_t room = r->room > 0 ? 2 * r->room : 256;
        char *text = r->room < MOST_LINE ? array_grow(r->from.name, r->text, room, 1) : NULL;
        if (!text) return st_error_set("%s: line %td: more than %d bytes", r->from.name, r->line, MOST_LINE);
        r->text = text;
        r->room = room;
    }
    r->text[r->used++] = c;
    return 0;
}

/* Appends the next byte. A zero byte, which would end the field, becomes 1: neither is part of a number. */
static int take(reader *r)
{
    char c = (char)(r->ahead ? r->ahead : 1);
    advance(r);
    return append(r, c);
}

static int read_plain(reader *r)
{
    ptrdiff_t begin = r->used;
    while (!ends_field(r, r->ahead))
        if (take(r)) return -1;
    while (r->used > begin && is_blank(r->text[r->used - 1])) r->used--;
    return 0;
}

/* Two quotes stand for one; delimiters and newlines are text. */
static int read_quoted(reader *r)
{
    for (advance(r);;) {
        if (r->ahead < 0) return source_check(r->from) ? -1 : refuse(r, r->fields, "missing closing quote");
        if (r->ahead == '"') {
            advance(r);
            if (r->ahead != '"') break;
        }
        if (take(r)) return -1;
    }
    if (r->delimiter != ' ') skip_blanks(r);
    return ends_field(r, r->ahead) ? 0 : refuse(r, r->fields, "text after the closing quote");
}

/* Tests if another field follows, and skips the delimiter, or all blanks. */
static bool next_field(reader *r)
{
    if (r->delimiter == ' ') {
        skip_blanks(r);
        return r->ahead >= 0 && r->ahead != '\n';
    }
    bool more = r->ahead == r->delimiter;
    if (more) advance(r);
    return more;
}

/* The fields of the next line that is not empty: 1; 0 at the file's end; -1 with an error. */
static int next_line(reader *r)
{
    bool empty;
    do {
        if (r->ahead < 0) return source_check(r->from);
        bool quoted = false, more = true;
        r->line = r->next_line;
        for (r->fields = r->used = 0; more; r->fields++) {
            skip_blanks(r);
            quoted |= r->ahead == '"';
            if ((r->ahead == '"' ? read_quoted(r) : read_plain(r)) || append(r, '\0')) return -1;
            more = next_field(r);
        }
        if (r->ahead == '\n') advance(r);
        if (r->ahead < 0 && source_check(r->from)) return -1;
        empty = r->fields == 1 && r->used == 1 && !quoted;
    } while (empty);
    return 1;
}

/* Skips a byte order mark. */
static int begin(reader *r)
{
    static const unsigned char mark[] = { 0xef, 0xbb, 0xbf };
    r->ahead = source_next(r->from);
    r->next_line = 1;
    for (size_t i = 0; i < sizeof mark && (i > 0 || r->ahead == mark[0]); i++, advance(r))
        if (r->ahead != mark[i])
            return st_error_set("%s: begins with byte ef, expected text or numbers in UTF-8", r->from.name);
    return 0;
}

/* [+-] digits [. digits] [e [+-] digits]; strtod accepts more. */
static bool is_number(const char *text, double *value)
{
    char *end;
    size_t length = strspn(text, "+-.0123456789eE");
    *value = length > 0 && !text[length] ? strtod(text, &end) : 0;
    return length > 0 && !text[length] && end == text + length;
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct table {
    const st_csv_options *options;
    ptrdiff_t columns, features, rows, room;
    ptrdiff_t label, targets; /* the first target's column; their number */
    st_real *x, *y;           /* [rows, features], [rows, targets] */
} table;

/* 1 if the first line names the columns, else 0; -1 with an error. */
static int is_header(const reader *r, const st_csv_options *o)
{
    double value;
    ptrdiff_t numbers = 0, odd = -1;
    const char *at = r->text, *name = NULL;
    for (ptrdiff_t i = 0; i < r->fields; i++, at += strlen(at) + 1) {
        bool number = is_number(at, &value);
        if (!number && odd < 0) odd = i, name = at;
        numbers += number;
    }
    if (o->header != ST_CSV_DETECT) return o->header == ST_CSV_HEADER;
    if (numbers == 0 || numbers == r->fields) return numbers == 0;
    return refuse(r, odd, "\"%s\" is not a number, others of the first line are; set the header option",
                  show_text(name).text);
}

static int check_columns(const reader *r, table *t)
{
    const st_csv_options *o = t->options;
    t->columns = r->fields;
    t->targets = o->targets == 0 ? 1 : o->targets == ST_CSV_UNLABELLED ? 0 : o->targets;
    t->label = o->label < 0 ? t->columns + o->label : o->label;
    if (t->targets == 0) t->label = t->columns;
    if (t->label < 0 || t->targets > t->columns - t->label)
        return st_error_set("%s: %td targets from column %d on, but the table has %td columns", r->from.name,
                            t->targets, o->label, t->columns);
    t->features = t->columns - t->targets;
    if (t->features == 0)
        return st_error_set("%s: no column of features, all %td are targets", r->from.name, t->targets);
    ptrdiff_t image = o->image.rank ? st_shape_numel(o->image, "st_dataset_csv: image") : t->features;
    if (image < 0 || image == t->features) return image < 0 ? -1 : 0;
    return st_error_set("%s: %td features, expected an image %s of %td", r->from.name, t->features,
                        st_shape_text(o->image).text, image);
}

/* The number in a field; -1 with an error if the column does not allow it. */
static int read_value(const reader *r, const table *t, ptrdiff_t column, const char *text, bool feature,
                      st_real *to)
{
    double value;
    const st_csv_options *o = t->options;
    bool number = is_number(text, &value), class = !feature && o->targets == 0;
    if (feature && o->scale != 0) value *= o->scale;
    *to = (st_real)value;
    if (!*text) return refuse(r, column, "empty, expected a number");
    if (!number)
        return refuse(r, column, "\"%s\" is not a number%s", show_text(text).text,
                      class ? "; classes are integers from 0 on" : "");
    if (!isfinite(*to))
        return refuse(r, column, "%s is too large for %s", show_text(text).text, ST_REAL_NAME);
    if (!class || (value >= 0 && value <= MOST_CLASSES && value == floor(value))) return 0;
    return refuse(r, column,
                  "class %s, expected an integer from 0 to %d; the label option chooses the column",
                  show_text(text).text, MOST_CLASSES);
}

static int grow(const reader *r, table *t)
{
    ptrdiff_t room = t->room > 0 ? 2 * t->room : 64;
    if (t->rows > MOST_NUMBERS / t->columns)
        return st_error_set("%s: more than %td numbers", r->from.name, MOST_NUMBERS);
    st_real *x = array_grow(r->from.name, t->x, room, (size_t)t->features * sizeof *x);
    if (x) t->x = x;
    st_real *y = x ? array_grow(r->from.name, t->y, room, (size_t)t->targets * sizeof *y) : NULL;
    if (!y) return -1;
    t->y = y;
    t->room = room;
    return 0;
}

static int add_row(const reader *r, table *t)
{
    if (r->fields != t->columns)
        return st_error_set("%s: line %td: %td columns, expected %td", r->from.name, r->line, r->fields,
                            t->columns);
    if (t->rows == t->room && grow(r, t)) return -1;
    st_real *x = t->x + t->rows * t->features, *y = t->y + t->rows * t->targets;
    const char *at = r->text;
    for (ptrdiff_t i = 0; i < t->columns; i++, at += strlen(at) + 1) {
        bool feature = i < t->label || i >= t->label + t->targets;
        if (read_value(r, t, i, at, feature, feature ? x++ : y++)) return -1;
    }
    t->rows++;
    return 0;
}

static int read_rows(reader *r, table *t)
{
    int status = begin(r) ? -1 : next_line(r);
    if (status == 0) return st_error_set("%s: no numbers", r->from.name);
    int header = status > 0 ? is_header(r, t->options) : -1;
    if (header < 0 || check_columns(r, t)) return -1;
    for (status = header ? next_line(r) : 1; status > 0; status = next_line(r))
        if (add_row(r, t)) return -1;
    if (status == 0 && t->rows == 0) return st_error_set("%s: no numbers after the header", r->from.name);
    return status;
}

/* ---- the data set ---------------------------------------------------------------------------- */

static st_tensor copied(const st_real *from, st_shape form)
{
    st_tensor to = st_tensor_new(form);
    if (!st_is_null(to) && from) memcpy(st_data(to), from, (size_t)st_numel(to) * sizeof *from);
    return to;
}

static st_dataset *keep(const table *t)
{
    const st_csv_options *o = t->options;
    bool labelled = t->targets > 0;
    st_tensor x =
        copied(t->x, o->image.rank ? st_shape_with_batch(o->image, t->rows) : ST_SHAPE(t->rows, t->features));
    st_tensor y =
        copied(labelled ? t->y : NULL, o->targets > 0 ? ST_SHAPE(t->rows, t->targets) : ST_SHAPE(t->rows));
    return st_dataset_owned(x, y);
}

static int check_options(const char *path, const st_csv_options *o)
{
    if (!path) return st_error_set("st_dataset_csv: the path is NULL");
    if (o->delimiter && strchr("+-.0123456789eE\"\r\n", o->delimiter))
        return st_error_set(
            "st_dataset_csv: delimiter '%c' can be part of a number, quotes or the end of a line",
            o->delimiter);
    if (o->targets < ST_CSV_UNLABELLED) return st_error_set("st_dataset_csv: %d targets", o->targets);
    if (!isfinite(o->scale)) return st_error_set("st_dataset_csv: the scale is not finite");
    if (o->image.rank < 0 || o->image.rank >= ST_MAX_RANK)
        return st_error_set("st_dataset_csv: an image of rank %d, expected at most %d", o->image.rank,
                            ST_MAX_RANK - 1);
    return 0;
}

st_dataset *st_dataset_csv_new(const char *path, st_csv_options options)
{
    reader r = { .delimiter = options.delimiter ? (unsigned char)options.delimiter : ',' };
    table t = { .options = &options };
    if (check_options(path, &options) || source_open(&r.from, path)) return NULL;
    void *locale = c_locale_enter();
    st_dataset *d = read_rows(&r, &t) == 0 ? keep(&t) : NULL;
    c_locale_leave(locale);
    source_close(r.from);
    free(r.text);
    free(t.x);
    free(t.y);
    return d;
}
