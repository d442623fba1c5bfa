/* csv.c: reads a table line by line, in place. */
#include "nn/data/formats.h"
#include "nn/data/data_impl.h"
#include "nn/files/file.h"
#include "tensor/counts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 1 << 24 /* a float holds every integer up to this one */ };

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct reader {
    const char *name; /* of the file */
    char delimiter;
    char *next, *end; /* the lines that are left; a zero follows them */
    ptrdiff_t line;
    char *text; /* a line: its fields, without blanks and quotes around them, each ended by a zero */
    ptrdiff_t fields;
} reader;

/* Prepends the place to an error; `column` counts from 0, the message from 1. */
static int within(const reader *r, ptrdiff_t column)
{
    return st_error_within("%s: line %td, column %td: ", r->name, r->line, column + 1);
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

/* The next line, ended by a zero; NULL at the file's end. A zero byte, which would end the text, becomes 1:
 * neither is part of a number. */
static char *read_line(reader *r)
{
    char *line = r->next, *c = line;
    if (line == r->end) return NULL;
    for (; c < r->end && *c != '\n'; c++)
        if (!*c) *c = 1;
    r->next = c + (c < r->end);
    *c = '\0';
    r->line++;
    return line;
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

/* The fields of the next line that is not empty, in place: 1; 0 at the file's end; -1 with an error. */
static int next_line(reader *r)
{
    char *from, *to, end;
    do {
        if (!(from = read_line(r))) return 0;
    } while (!*skip_blanks(r, from));
    r->text = to = from;
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
    ptrdiff_t columns, features, rows;
    ptrdiff_t label, targets; /* the first target's column; their number */
    st_tensor x, y;           /* [at least rows, features], [at least rows, targets] */
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
        return st_error_set("%s: %td targets from column %d on, but the table has %td columns", r->name,
                            t->targets, o->label, t->columns);
    t->features = t->columns - t->targets;
    if (t->features == 0)
        return st_error_set("%s: no column of features, all %td are targets", r->name, t->targets);
    ptrdiff_t image = o->image.rank ? st_shape_numel(o->image, "st_dataset_csv: image") : t->features;
    if (image < 0 || image == t->features) return image < 0 ? -1 : 0;
    return st_error_set("%s: %td features, expected an image %s of %td", r->name, t->features,
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

/* Memory for this line and those that are left: a row takes at least two bytes a column, so numbers take no
 * more than a few times the file. */
static int allocate(const reader *r, table *t)
{
    ptrdiff_t most = 2 + (r->end - r->next) / (2 * t->columns), lines = 2;
    for (const char *c = r->next; lines < most && (c = memchr(c, '\n', (size_t)(r->end - c))); c++) lines++;
    t->x = st_tensor_new(ST_SHAPE(lines, t->features));
    t->y = st_tensor_new(ST_SHAPE(lines, largest(t->targets, 1)));
    return st_is_null(t->x) || st_is_null(t->y) ? -1 : 0;
}

static int add_row(const reader *r, table *t)
{
    if (r->fields != t->columns)
        return st_error_set("%s: line %td: %td columns, expected %td", r->name, r->line, r->fields,
                            t->columns);
    st_real *x = st_data(t->x) + t->rows * t->features, *y = st_data(t->y) + t->rows * t->targets;
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
    if (status == 0) return st_error_set("%s: no numbers", r->name);
    int header = status > 0 ? is_header(r, t->options) : -1;
    if (header < 0 || check_columns(r, t) || allocate(r, t)) return -1;
    for (status = header ? next_line(r) : 1; status > 0; status = next_line(r))
        if (add_row(r, t)) return -1;
    if (status == 0 && t->rows == 0) return st_error_set("%s: no numbers after the header", r->name);
    return status;
}

/* ---- the data set ---------------------------------------------------------------------------- */

/* Takes the tensors. */
static st_dataset *keep(table *t)
{
    const st_csv_options *o = t->options;
    st_shape image = o->image.rank ? o->image : ST_SHAPE(t->features);
    st_shape target = o->targets > 0 ? ST_SHAPE(t->targets) : (st_shape){ 0 };
    st_tensor x = st_narrow(t->x, 0, 0, t->rows), y = st_narrow(t->y, 0, 0, t->rows);
    st_dataset *d = st_dataset_owned(st_reshape(x, st_shape_with_batch(image, t->rows)),
                                     st_reshape(y, st_shape_with_batch(target, t->rows)));
    t->x = t->y = (st_tensor){ 0 };
    return d;
}

static int check_options(const st_csv_options *o)
{
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
    static const char mark[] = "\xef\xbb\xbf"; /* the byte order mark */
    ptrdiff_t size = 0;
    table t = { .options = &options };
    char *bytes = check_options(&options) ? NULL : data_read("st_dataset_csv", path, &size);
    if (!bytes) return NULL;
    reader r = { .name = file_name(path), .delimiter = options.delimiter ? options.delimiter : ',' };
    r.next = bytes + (strncmp(bytes, mark, sizeof mark - 1) == 0 ? sizeof mark - 1 : 0), r.end = bytes + size;
    void *locale = c_locale_enter();
    st_dataset *d = read_rows(&r, &t) == 0 ? keep(&t) : NULL;
    c_locale_leave(locale);
    st_tensor_free(t.x), st_tensor_free(t.y), free(bytes);
    return d;
}
