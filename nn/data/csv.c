/* csv.c: a table's first line is read for its columns, the file to see that every field is a number, and again to
 * keep them. */
#include "nn/data/csv.h"
#include "nn/data/decimal.h"
#include "nn/data/owned.h"
#include "nn/data/source.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CLASSES = 1 << 24 /* up to which a float holds every integer */ };

/* ---- fields ---------------------------------------------------------------------------------- */

typedef struct reader {
    source from;
    int delimiter, ahead;   /* ahead: the next byte, or -1 */
    ptrdiff_t line, column; /* of the field, from 1 on */
    int end;                /* what ended it: the delimiter, '\n', or -1 */
    bool quoted;
    size_t length;
    char text[DECIMAL_LONGEST + 1]; /* without blanks and quotes around it; cut where it is longer */
} reader;

static int refuse(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(const reader *r, const char *format, ...)
{
    char text[ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set("%s: line %td, column %td: %s", r->from.name, r->line, r->column, text);
}

static bool is_blank(int c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_delimiter(const reader *r, int c)
{
    return c == r->delimiter || (r->delimiter == ' ' && is_blank(c));
}

static void advance(reader *r)
{
    r->ahead = source_next(r->from);
}

static void skip_blanks(reader *r)
{
    while (is_blank(r->ahead) && (r->delimiter == ' ' || r->ahead != r->delimiter)) advance(r);
}

static void append(reader *r)
{
    if (r->length < DECIMAL_LONGEST) r->text[r->length] = (char)r->ahead;
    r->length++;
    advance(r);
}

static void read_plain(reader *r)
{
    while (r->ahead >= 0 && r->ahead != '\n' && !is_delimiter(r, r->ahead)) append(r);
    while (r->length > 0 && r->length <= DECIMAL_LONGEST && is_blank(r->text[r->length - 1])) r->length--;
}

/* Two quotes are one; delimiters and ends of lines are text. */
static int read_quoted(reader *r)
{
    bool closed = false;
    for (advance(r); r->ahead >= 0; append(r)) {
        if (r->ahead == '\n') r->line++;
        if (r->ahead != '"') continue;
        advance(r);
        if ((closed = r->ahead != '"')) break;
    }
    if (!closed) return source_check_end(r->from) ? -1 : refuse(r, "the quotes do not end");
    if (r->delimiter != ' ') skip_blanks(r);
    if (r->ahead < 0 || r->ahead == '\n' || is_delimiter(r, r->ahead)) return 0;
    return refuse(r, "text after the quotes");
}

/* What ends a field is passed; in a table of blanks, with all that follow. */
static void pass_end(reader *r)
{
    bool blank = r->delimiter == ' ' && is_blank(r->ahead);
    if (blank) skip_blanks(r);
    r->end = blank && r->ahead >= 0 && r->ahead != '\n' ? ' ' : r->ahead;
    if (r->end >= 0 && r->end == r->ahead) advance(r);
}

static int read_field(reader *r)
{
    r->length = 0;
    skip_blanks(r);
    r->quoted = r->ahead == '"';
    if (!r->quoted) read_plain(r);
    else if (read_quoted(r)) return -1;
    r->text[r->length < DECIMAL_LONGEST ? r->length : DECIMAL_LONGEST] = '\0';
    pass_end(r);
    return r->end < 0 ? source_check_end(r->from) : 0;
}

static bool ends_line(const reader *r)
{
    return r->end != r->delimiter;
}

/* Moves on, over empty lines: 1; 0 after the last field; -1 on failure. */
static int next_field(reader *r)
{
    bool empty;
    do {
        if (r->end < 0) return 0;
        bool begins = r->end == '\n';
        r->line += begins;
        r->column = begins ? 1 : r->column + 1;
        if (read_field(r)) return -1;
        empty = r->column == 1 && ends_line(r) && r->length == 0 && !r->quoted;
    } while (empty);
    return 1;
}

/* At the file's beginning, behind a byte order mark. */
static int begin(reader *r)
{
    static const unsigned char mark[] = { 0xef, 0xbb, 0xbf };
    if (source_rewind(r->from)) return -1;
    r->line = r->column = 0;
    r->end = '\n';
    advance(r);
    if (r->ahead != mark[0]) return 0;
    for (size_t i = 0; i < sizeof mark; i++, advance(r))
        if (r->ahead != mark[i]) return error_set("%s: begins with neither numbers nor text", r->from.name);
    return 0;
}

static bool field_is_number(const reader *r, double *value)
{
    return r->length <= DECIMAL_LONGEST && strlen(r->text) == r->length && decimal_read(r->text, value);
}

/* The field, fit for a message. */
typedef struct shown {
    char text[32];
} shown;

static shown show(const reader *r)
{
    shown s = { "" };
    size_t i = 0;
    for (; i < r->length && i < sizeof s.text - 4; i++)
        s.text[i] = r->text[i] < ' ' || r->text[i] > '~' ? '?' : r->text[i];
    memcpy(s.text + i, "...", i < r->length ? 4 : 0);
    return s;
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct table {
    const csv *options;
    bool header;
    ptrdiff_t columns, features, rows;
    ptrdiff_t label, targets; /* the first column of so many */
    real *x, *y;              /* NULL: fields are only looked at */
} table;

static int decide_header(const reader *odd, table *t, ptrdiff_t numbers)
{
    t->header = t->options->header == CSV_HEADER || (t->options->header == CSV_DETECT && numbers == 0);
    if (t->options->header != CSV_DETECT || numbers == 0 || numbers == t->columns) return 0;
    return refuse(odd, "\"%s\" is no number, others of the first line are; the header option says what it is",
                  show(odd).text);
}

/* The first line says how many columns there are. */
static int read_columns(reader *r, table *t)
{
    reader odd = *r;
    double value;
    ptrdiff_t numbers = 0;
    int status = begin(r) ? -1 : next_field(r);
    for (; status > 0; status = next_field(r)) {
        bool number = field_is_number(r, &value);
        if (!number && t->columns == numbers) odd = *r;
        t->columns++;
        numbers += number;
        if (ends_line(r)) break;
    }
    if (status < 0) return -1;
    if (t->columns == 0) return error_set("%s: no line of numbers", r->from.name);
    return decide_header(&odd, t, numbers);
}

static int check_columns(const reader *r, table *t)
{
    const csv *o = t->options;
    t->targets = o->targets == 0 ? 1 : o->targets == CSV_UNLABELLED ? 0 : o->targets;
    t->label = o->label < 0 ? t->columns + o->label : o->label;
    if (t->targets == 0) t->label = t->columns;
    if (t->label < 0 || t->targets > t->columns - t->label)
        return error_set("%s: %td columns from column %d on are targets, the table has %td", r->from.name,
                         t->targets, o->label, t->columns);
    t->features = t->columns - t->targets;
    if (t->features == 0)
        return error_set("%s: no column of features, %td of targets", r->from.name, t->targets);
    ptrdiff_t image = o->image.rank ? shape_count(o->image, "data_csv: image") : t->features;
    if (image < 0 || image == t->features) return image < 0 ? -1 : 0;
    return error_set("%s: %td columns of features, an image %s has %td", r->from.name, t->features,
                     shape_text(o->image).text, image);
}

/* What a field is worth; NAN, with an error, where it is no number that it may be. */
static real value_of(const reader *r, const table *t, bool feature)
{
    double value = 0;
    const csv *o = t->options;
    bool number = field_is_number(r, &value);
    if (feature && o->scale != 0) value *= o->scale;
    real rounded = (real)value;
    if (r->length == 0) refuse(r, "empty, expected a number");
    else if (!number)
        refuse(r, "\"%s\" is no number%s", show(r).text,
               feature || o->targets ? "" : "; classes are integers from 0 on");
    else if (!isfinite(rounded)) refuse(r, "%s is too large for %s", show(r).text, REAL_NAME);
    else if (!feature && o->targets == 0 && !(value >= 0 && value <= MOST_CLASSES && value == floor(value)))
        refuse(r, "class %s, expected an integer from 0 to %d; the label option says which column it is",
               show(r).text, MOST_CLASSES);
    else return rounded;
    return (real)NAN;
}

static int read_value(const reader *r, const table *t, ptrdiff_t row, ptrdiff_t column)
{
    ptrdiff_t target = column - t->label;
    bool feature = target < 0 || target >= t->targets;
    real value = value_of(r, t, feature);
    if (isnan(value)) return -1;
    if (!t->x) return 0;
    if (feature) t->x[row * t->features + (target < 0 ? column : column - t->targets)] = value;
    else t->y[row * t->targets + target] = value;
    return 0;
}

/* 1; 0 after the last; -1 on failure. */
static int read_row(reader *r, const table *t, ptrdiff_t row, bool header)
{
    for (ptrdiff_t column = 0; column < t->columns; column++) {
        int status = next_field(r);
        if (status <= 0) return status;
        if (!header && t->x && row == t->rows)
            return error_set("%s: changed while it was read", r->from.name);
        if (!header && read_value(r, t, row, column)) return -1;
        if (ends_line(r) == (column == t->columns - 1)) continue;
        return error_set("%s: line %td: %s%td columns, expected %td", r->from.name, r->line,
                         ends_line(r) ? "" : "more than ", column + 1, t->columns);
    }
    return 1;
}

/* The number of rows; -1 on failure. */
static ptrdiff_t read_rows(reader *r, const table *t)
{
    int status = begin(r) ? -1 : t->header ? read_row(r, t, 0, true) : 1;
    ptrdiff_t rows = -1;
    while (status > 0) status = read_row(r, t, ++rows, false);
    return status < 0 ? -1 : rows;
}

/* ---- the data set ---------------------------------------------------------------------------- */

static data *keep(reader *r, table *t)
{
    const csv *o = t->options;
    tensor x = tensor_new(o->image.rank ? shape_with_batch(o->image, t->rows) : SHAPE(t->rows, t->features));
    tensor y = tensor_new(o->targets > 0 ? SHAPE(t->rows, t->targets) : SHAPE(t->rows));
    t->x = tensor_data(x);
    t->y = tensor_data(y);
    bool room = !tensor_is_null(x) && !tensor_is_null(y);
    ptrdiff_t rows = room ? read_rows(r, t) : -1;
    if (rows == t->rows) return data_owned(x, y);
    if (!room) error_within("%s: ", r->from.name);
    else if (rows >= 0) error_set("%s: changed while it was read", r->from.name);
    tensor_free(x);
    tensor_free(y);
    return NULL;
}

static data *read_table(reader *r, const csv *options)
{
    table t = { .options = options };
    if (read_columns(r, &t) || check_columns(r, &t)) return NULL;
    t.rows = read_rows(r, &t);
    if (t.rows > 0) return keep(r, &t);
    if (t.rows == 0) error_set("%s: no line of numbers after its header", r->from.name);
    return NULL;
}

static int check_options(const char *path, const csv *o)
{
    if (!path) return error_set("data_csv: the path is NULL");
    if (o->delimiter && strchr("+-.0123456789eE\"\r\n", o->delimiter))
        return error_set("data_csv: delimiter '%c' can be part of a number, quotes or the end of a line",
                         o->delimiter < ' ' ? '?' : o->delimiter);
    if (o->targets < CSV_UNLABELLED) return error_set("data_csv: %d targets", o->targets);
    if (!isfinite(o->scale)) return error_set("data_csv: the scale is not finite");
    if (o->image.rank < 0 || o->image.rank >= TENSOR_MAX_RANK)
        return error_set("data_csv: an image of rank %d, expected at most %d", o->image.rank,
                         TENSOR_MAX_RANK - 1);
    return 0;
}

data *data_csv(const char *path, csv options)
{
    reader r = { .delimiter = options.delimiter ? (unsigned char)options.delimiter : ',' };
    if (check_options(path, &options) || source_open(&r.from, path)) return NULL;
    data *d = read_table(&r, &options);
    source_close(r.from);
    return d;
}
