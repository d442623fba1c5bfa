/* csv.c: reads a table line by line into arrays that grow. */
#include "nn/data/formats.h"
#include "nn/data/source.h"
#include "nn/files/file.h"
#include "tensor/array.h"

#include <math.h>
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
    char delimiter;
    ptrdiff_t line;
    char *text; /* a line; then its fields, without blanks and quotes around them, each ended by a zero */
    ptrdiff_t fields, used, room;
} reader;

/* Prepends the place to an error; `column` counts from 0, the message from 1. */
static int within(const reader *r, ptrdiff_t column)
{
    return st_error_within("%s: line %td, column %td: ", r->from.name, r->line, column + 1);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_field(const reader *r, char c)
{
    return c == '\0' || c == r->delimiter || (r->delimiter == ' ' && is_blank(c));
}

static char *skip_blanks(const reader *r, char *at)
{
    while (is_blank(*at) && (r->delimiter == ' ' || *at != r->delimiter)) at++;
    return at;
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

/* 1; 0 at the file's end; -1 with an error. A zero byte, which would end the text, becomes 1: neither is part
 * of a number. A byte order mark is dropped. */
static int read_line(reader *r)
{
    static const char mark[] = "\xef\xbb\xbf";
    int c;
    r->line++;
    r->used = 0;
    while ((c = source_next(r->from)) >= 0 && c != '\n')
        if (append(r, (char)(c ? c : 1))) return -1;
    if (append(r, '\0') || (c < 0 && source_check(r->from))) return -1;
    if (r->line == 1 && strncmp(r->text, mark, sizeof mark - 1) == 0)
        memmove(r->text, r->text + sizeof mark - 1, (size_t)r->used - (sizeof mark - 1));
    return c >= 0 || r->used > 1;
}

/* Reads a field at `from`, and moves it to `to`; its end in the line, NULL with an error. Two quotes stand
 * for one; delimiters within quotes are text. */
static char *read_field(const reader *r, char *from, char **to)
{
    char *begin = *to;
    if (*from != '"') {
        while (!ends_field(r, *from)) *(*to)++ = *from++;
        while (*to > begin && is_blank((*to)[-1])) --*to;
        return from;
    }
    for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
        from += *from == '"';
        *(*to)++ = *from;
    }
    if (!*from) st_error_set("missing closing quote");
    else {
        from++;
        if (r->delimiter != ' ') from = skip_blanks(r, from);
        if (ends_field(r, *from)) return from;
        st_error_set("text after the closing quote");
    }
    return NULL;
}

/* The fields of the next line that is not empty: 1; 0 at the file's end; -1 with an error. */
static int next_line(reader *r)
{
    int status;
    char *from, *to, end;
    do {
        status = read_line(r);
        from = to = r->text;
    } while (status > 0 && !*skip_blanks(r, from));
    if (status <= 0) return status;
    r->fields = 0;
    do {
        if (!(from = read_field(r, skip_blanks(r, from), &to))) return within(r, r->fields);
        if (r->delimiter == ' ') from = skip_blanks(r, from);
        end = *from;
        from += r->delimiter != ' ' && end;
        *to++ = '\0'; /* perhaps where the delimiter was */
        r->fields++;
    } while (end);
    return 1;
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
    st_error_set("\"%s\" is not a number, others of the first line are; set the header option",
                 show_text(name).text);
    return within(r, odd);
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
static int read_value(const table *t, const char *text, bool feature, st_real *to)
{
    double value;
    const st_csv_options *o = t->options;
    bool number = is_number(text, &value), class = !feature && o->targets == 0;
    if (feature && o->scale != 0) value *= o->scale;
    *to = (st_real)value;
    if (!*text) return st_error_set("empty, expected a number");
    if (!number)
        return st_error_set("\"%s\" is not a number%s", show_text(text).text,
                            class ? "; classes are integers from 0 on" : "");
    if (!isfinite(*to)) return st_error_set("%s is too large for %s", show_text(text).text, ST_REAL_NAME);
    if (!class || (value >= 0 && value <= MOST_CLASSES && value == floor(value))) return 0;
    return st_error_set("class %s, expected an integer from 0 to %d; the label option chooses the column",
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
        if (read_value(t, at, feature, feature ? x++ : y++)) return within(r, i);
    }
    t->rows++;
    return 0;
}

static int read_rows(reader *r, table *t)
{
    int status = next_line(r);
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
    reader r = { .delimiter = options.delimiter ? options.delimiter : ',' };
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
