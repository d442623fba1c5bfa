/* csv.c: reads a table: fields are cut in place, each column gets its role, and rows become numbers. */
#include "nn/data/formats.h"
#include "nn/data/table_impl.h"
#include "nn/files/file.h"
#include "tensor/array.h"
#include "tensor/counts.h"

#include <fnmatch.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    MOST_CLASSES = 1 << 24, /* a float holds every integer up to this one */

    /* The role of a column is LEFT_OUT, the index of its feature, or LABEL minus the index of its target. */
    LEFT_OUT = -1,
    LABEL = -2
};

/* ---- fields ---------------------------------------------------------------------------------- */

/* A row: its fields, without blanks and quotes around them, each ended by a zero. */
typedef struct row {
    uint32_t text, line; /* text: in the bytes of the file, which read.c bounds to 4 GiB */
} row;

typedef struct reader {
    const char *name; /* of the file */
    char delimiter;
    char *bytes, *next; /* all of the file; what is left, which a zero ends */
    ptrdiff_t line;     /* in which `next` is, from 1 */
    ptrdiff_t begun;    /* in which the last row or quoted field begins */
    row row;            /* the last one that was read */
    ptrdiff_t fields;
    bool quoted; /* its first field is */
} reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_field(const reader *r, char c)
{
    return c == '\0' || c == '\n' || c == r->delimiter || (r->delimiter == ' ' && is_blank(c));
}

static char *skip_blanks(const reader *r, char *at)
{
    while (is_blank(*at) && (r->delimiter == ' ' || *at != r->delimiter)) at++;
    return at;
}

/* Reads a field at `from`, and moves it to `to`; its end, NULL with an error. Two quotes stand for one;
 * delimiters and line ends within quotes are text. */
static char *read_field(reader *r, char *from, char **to)
{
    char *begin = *to;
    if (*from != '"') {
        while (!ends_field(r, *from)) *(*to)++ = *from++;
        while (*to > begin && is_blank((*to)[-1])) --*to;
        return from;
    }
    r->begun = r->line;
    for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
        from += *from == '"';
        r->line += *from == '\n';
        *(*to)++ = *from;
    }
    if (!*from) st_error_set("missing closing quote");
    else {
        const bool blank = is_blank(*++from);
        if (r->delimiter != ' ') from = skip_blanks(r, from);
        if (ends_field(r, *from)) return from;
        st_error_set("text after the closing quote%s",
                     blank ? "; if blanks separate columns, the delimiter option says so" : "");
    }
    return NULL;
}

/* Cuts the next row that is not empty, in place: 1; 0 at the file's end; -1 with an error. */
static int read_row(reader *r)
{
    char *from, *to, end;
    while (*(from = skip_blanks(r, r->next)) == '\n') r->next = from + 1, r->line++;
    if (!*from) return 0;
    r->quoted = *from == '"';
    to = from = r->next;
    const row begin = { (uint32_t)(from - r->bytes), (uint32_t)r->line };
    r->begun = r->line;
    r->fields = 0;
    do {
        if (!(from = read_field(r, skip_blanks(r, from), &to)))
            return st_error_within("%s: line %td, column %td: ", r->name, r->begun, r->fields + 1);
        if (r->delimiter == ' ') from = skip_blanks(r, from);
        end = *from;
        from += end && (end == '\n' || r->delimiter != ' ');
        *to++ = '\0'; /* perhaps where the delimiter was */
        r->fields++;
    } while (end && end != '\n');
    r->line += end == '\n';
    r->next = from;
    r->row = begin;
    return 1;
}

/* The delimiter of the first line, in which names may hold others. In a file with decimal commas each field
 * has at most one. */
static char find_delimiter(const char *at)
{
    ptrdiff_t commas = 0, semicolons = 0, tabs = 0;
    bool quoted = false, numbers = true;
    for (at += strspn(at, " \t\r\n"); *at && (quoted || *at != '\n'); at++) {
        quoted ^= *at == '"';
        if (quoted) continue;
        commas += *at == ',', semicolons += *at == ';', tabs += *at == '\t';
        numbers = numbers && strchr("+-.0123456789eE,; \t\r\"", *at);
    }
    if (tabs > commas && tabs > semicolons) return '\t';
    return semicolons > commas || (numbers && semicolons > 0 && commas <= semicolons + 1) ? ';' : ',';
}

/* [+-] digits [. digits] [e [+-] digits]; strtod accepts more. */
static bool is_number(const char *text, double *value)
{
    char *end;
    size_t length = strspn(text, "+-.0123456789eE");
    *value = length > 0 && !text[length] ? strtod(text, &end) : 0;
    return length > 0 && !text[length] && end == text + length;
}

/* [+-] digits , digits */
static bool has_decimal_comma(const char *text)
{
    text += *text == '+' || *text == '-';
    const size_t whole = strspn(text, "0123456789");
    return text[whole] == ',' && text[whole + 1] &&
           !text[whole + 1 + strspn(text + whole + 1, "0123456789eE+-")];
}

static bool is_missing(const char *text)
{
    static const char *const texts[] = { "", "?", "na", "n/a", "nan", "null" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcasecmp(text, texts[i]) == 0) return true;
    return false;
}

static bool is_word(const char *text)
{
    double value;
    return !is_number(text, &value) && !is_missing(text);
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct table {
    const st_csv_options *o;
    reader r;
    row *rows; /* all of the file, with the header; then the samples */
    ptrdiff_t count, room;
    bool row_names, trailing; /* each row begins with a name; ends with an empty field */
    const char **name;        /* of each column; NULL: no header */
    const char ***sorted;     /* the columns' elements of `name`, by name */
    ptrdiff_t columns, features;
    ptrdiff_t label, targets; /* the first target's column; their number, or 1 for a class */
    bool classed;
    ptrdiff_t *role;    /* of each column */
    st_tensor x, y;     /* [count, features], [count, targets] */
    double *exact;      /* x, where st_real does not hold its whole numbers; otherwise NULL */
    double *mean;       /* of each feature */
    ptrdiff_t *present; /* values of each feature */
    bool inexact;
    ptrdiff_t filled, dropped;
    char **word;        /* the label of each row, where it is a class */
    const char **class; /* names of the classes; NULL: numbers */
    ptrdiff_t classes;
} table;

/* Prepends the place to an error; `column` counts from 0, the message from 1. */
static int within(const table *t, ptrdiff_t line, ptrdiff_t column)
{
    return st_error_within("%s: line %td, column %td%s%.60s: ", t->r.name, line, column + 1,
                           t->name ? ", " : "", t->name ? t->name[column] : "");
}

static const char *after(const char *field)
{
    return field + strlen(field) + 1;
}

/* The first field of a row that belongs to a column. */
static const char *fields_of(const table *t, const row *r)
{
    const char *text = t->r.bytes + r->text;
    return t->row_names ? after(text) : text;
}

static const char *field(const table *t, ptrdiff_t k, ptrdiff_t column)
{
    const char *at = fields_of(t, &t->rows[k]);
    while (column-- > 0) at = after(at);
    return at;
}

static int keep_row(table *t)
{
    if (t->count == t->room) {
        t->room = largest(64, 2 * t->room);
        row *rows = array_grow(t->r.name, t->rows, t->room, sizeof *rows);
        if (!rows) return -1;
        t->rows = rows;
    }
    t->rows[t->count++] = t->r.row;
    return 0;
}

/* 1 if the first row names the columns, else 0; -1 with an error. The second row, if there is one, has
 * `second` fields. */
static int is_header(const table *t, ptrdiff_t first, ptrdiff_t second)
{
    double value;
    ptrdiff_t words = 0, odd = -1;
    const char *name = NULL, *at = t->r.bytes + t->rows[0].text,
               *below = t->count > 1 ? t->r.bytes + t->rows[1].text : NULL;
    for (ptrdiff_t i = 0; i < first; i++, at = after(at)) {
        words += !is_number(at, &value);
        if (odd < 0 && is_word(at) && below && !(i < second && is_word(below))) odd = i, name = at;
        if (below && i < second) below = after(below);
    }
    if (t->o->header != ST_CSV_DETECT) return t->o->header == ST_CSV_HEADER;
    if (words == 0 || words == first) return words > 0;
    if (odd < 0) return 0;
    st_error_set("\"%s\" is not a number, others of the first line are; set the header option",
                 show_text(name).text);
    return within(t, t->rows[0].line, odd);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = *(const char *const *const *)a, *const *y = *(const char *const *const *)b;
    int order = strcmp(*x, *y);
    return order ? order : (x > y) - (x < y);
}

/* Moves the header from the rows to the names of the columns. */
static int take_names(table *t, ptrdiff_t names, ptrdiff_t columns, bool quoted)
{
    if (t->count == 1) return st_error_set("%s: no numbers after the header", t->r.name);
    t->row_names = quoted && names == columns - 1;
    if (names != columns && !t->row_names)
        return st_error_set("%s: line %td: %td column%s, the header names %td", t->r.name,
                            (ptrdiff_t)t->rows[1].line, columns, columns == 1 ? "" : "s", names);
    const char *at = t->r.bytes + t->rows[0].text;
    t->name = array_new(t->r.name, names, sizeof *t->name);
    t->sorted = array_new(t->r.name, names, sizeof *t->sorted);
    if (!t->name || !t->sorted) return -1;
    for (ptrdiff_t i = 0; i < names; i++, at = after(at)) t->name[i] = at;
    t->columns = names;
    memmove(t->rows, t->rows + 1, (size_t)--t->count * sizeof *t->rows);
    return 0;
}

/* A delimiter at the end of every line makes no column. */
static int drop_trailing(table *t)
{
    const ptrdiff_t last = t->columns - 1;
    t->trailing = last > 0 && !*field(t, 0, last) && (!t->name || !*t->name[last]);
    if (!t->trailing) return 0;
    for (ptrdiff_t k = 0; k < t->count; k++)
        if (*field(t, k, last)) {
            st_error_set("a value, the first row has none");
            return within(t, t->rows[k].line, last);
        }
    t->columns--;
    return 0;
}

/* Cuts the whole file. */
static int read_rows(table *t)
{
    int status;
    ptrdiff_t first = 0, second = 0;
    bool quoted = false; /* the first field of the second row */
    while ((status = read_row(&t->r)) > 0) {
        const bool header = t->count == 1 && t->o->header != ST_CSV_NO_HEADER; /* perhaps */
        if (t->count == 0) first = t->r.fields;
        if (t->count <= 1) second = t->r.fields, quoted = t->r.quoted;
        if (t->r.fields != second && !header)
            return st_error_set("%s: line %td: %td column%s, expected %td", t->r.name,
                                (ptrdiff_t)t->r.row.line, t->r.fields, t->r.fields == 1 ? "" : "s", second);
        if (keep_row(t)) return -1;
    }
    if (status == 0 && t->count == 0) return st_error_set("%s: no numbers", t->r.name);
    int named = status == 0 ? is_header(t, first, second) : -1;
    if (named < 0) return -1;
    t->columns = first;
    if (named && take_names(t, first, second, quoted)) return -1;
    if (!named && first != second)
        return st_error_set("%s: line %td: %td column%s, expected %td", t->r.name, (ptrdiff_t)t->rows[1].line,
                            second, second == 1 ? "" : "s", first);
    if (drop_trailing(t)) return -1;
    for (ptrdiff_t i = 0; i < t->columns && t->name; i++) t->sorted[i] = &t->name[i];
    if (t->name) qsort(t->sorted, (size_t)t->columns, sizeof *t->sorted, compare_names);
    return 0;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* The columns' names for a message. */
static message_text show_names(const table *t)
{
    message_text s = { "" };
    for (ptrdiff_t i = 0; i < t->columns && strlen(s.text) < sizeof s.text - 8; i++) {
        size_t used = strlen(s.text), room = sizeof s.text - used - 4;
        int length = snprintf(s.text + used, room, "%s%s", i ? ", " : "", t->name[i]);
        if (length >= (int)room) memcpy(s.text + sizeof s.text - 8, "...", 4);
    }
    return s;
}

static bool is_integer(const char *text, long *value)
{
    char *end;
    *value = strtol(text, &end, 10);
    return *text && text[strspn(text, "+-0123456789")] == '\0' && !*end;
}

static ptrdiff_t number_of(const table *t, ptrdiff_t number, const char *option)
{
    ptrdiff_t i = number < 0 ? t->columns + number : number;
    if (i >= 0 && i < t->columns) return i;
    return st_error_set("%s: %s: column %td, the table has %td columns", t->r.name, option, number,
                        t->columns);
}

/* The column of a name, or of a number as text; -1 with an error. */
static ptrdiff_t find_column(const table *t, const char *name, const char *option)
{
    long number;
    ptrdiff_t first = 0, end = t->name ? t->columns : 0; /* the first that is not before it */
    for (ptrdiff_t last = end, middle; first < last;) {
        middle = first + (last - first) / 2;
        if (strcmp(*t->sorted[middle], name) < 0) first = middle + 1;
        else last = middle;
    }
    if (first < end && strcmp(*t->sorted[first], name) == 0) {
        const ptrdiff_t i = t->sorted[first] - t->name;
        if (first + 1 == end || strcmp(*t->sorted[first + 1], name) != 0) return i;
        return st_error_set("%s: columns %td and %td are both named %.60s", t->r.name, i + 1,
                            t->sorted[first + 1] - t->name + 1, name);
    }
    if (is_integer(name, &number)) return number_of(t, number, option);
    if (!t->name)
        return st_error_set("%s: %s: expected a column's number, not \"%.60s\": the table has no header",
                            t->r.name, option, name);
    if (t->o->no_column) t->o->no_column(t->o->context, name, t->columns, (const char *const *)t->name);
    return st_error_set("%s: no column %.60s; the columns are %s", t->r.name, *name ? name : "\"\"",
                        show_names(t).text);
}

/* Marks the columns of one name, pattern or number as features. */
static int choose(table *t, const char *pattern)
{
    bool found = false;
    for (ptrdiff_t i = 0; i < t->columns && t->name; i++)
        if (fnmatch(pattern, t->name[i], 0) == 0) t->role[i] = 0, found = true;
    ptrdiff_t i = found ? 0 : find_column(t, pattern, "features");
    if (!found && i >= 0) t->role[i] = 0;
    return i < 0 ? -1 : 0;
}

static int choose_all(table *t, const char *list)
{
    char pattern[256];
    int status = 0;
    for (size_t length; *list && status == 0; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (length >= sizeof pattern) return st_error_set("features: a name of %zu bytes", length);
        memcpy(pattern, list, length);
        pattern[length] = '\0';
        status = choose(t, pattern);
    }
    return status;
}

/* The features of another table: by name if both have a header, otherwise by number. */
static int choose_like(table *t, const st_table *like)
{
    const bool by_name = like->feature && t->name,
               alone = t->o->targets == ST_CSV_UNLABELLED && t->columns == like->features;
    if (!by_name && !alone && t->columns != like->columns)
        return st_error_set("%s: %td columns, the net's table has %td, of which %td are features", t->r.name,
                            t->columns, like->columns, like->features);
    t->features = like->features;
    for (ptrdiff_t k = 0; k < like->features; k++) {
        ptrdiff_t i = by_name ? find_column(t, like->feature[k], "features") : alone ? k : like->column[k];
        if (i < 0) return -1;
        if (t->role[i] != LEFT_OUT)
            return st_error_set("%s: two features of the net are column %td", t->r.name, i + 1);
        t->role[i] = k;
    }
    return 0;
}

/* Integers of a column: the greatest, and how many are different. Those from `rows` on count as one: then the
 * smaller ones cannot all be there, as there are no more rows. */
typedef struct integers {
    char *seen;
    ptrdiff_t rows, most, different;
} integers;

static void see(integers *s, double value)
{
    const ptrdiff_t number = value < (double)s->rows ? (ptrdiff_t)value : s->rows;
    s->most = largest(s->most, number);
    s->different += !s->seen[number];
    s->seen[number] = 1;
}

static bool is_compact(const integers *s)
{
    return s->different == s->most + 1;
}

/* The kind of a column's fields. */
typedef struct content {
    bool words, whole, compact; /* compact: the integers 0 to K - 1, at least two, each of them */
} content;

static content examine(const table *t, ptrdiff_t column)
{
    content c = { false, true, false };
    integers s = { calloc((size_t)t->count + 1, 1), t->count }; /* without memory nothing is compact */
    for (ptrdiff_t k = 0; k < t->count; k++) {
        double value;
        const char *text = field(t, k, column);
        if (is_missing(text)) continue;
        bool number = is_number(text, &value);
        c.words = c.words || !number;
        c.whole = c.whole && number && value >= 0 && value == floor(value) && value <= MOST_CLASSES;
        if (c.whole && s.seen) see(&s, value);
    }
    c.compact = c.whole && s.different > 1 && is_compact(&s);
    free(s.seen);
    return c;
}

/* ST_CSV_FIND_LABEL. */
static ptrdiff_t guess_label(const table *t)
{
    ptrdiff_t first = 0, last = t->columns - 1;
    while (first < t->columns && t->role[first] != LEFT_OUT) first++;
    while (last >= 0 && t->role[last] != LEFT_OUT) last--;
    if (first == t->columns)
        return st_error_set("%s: every column is a feature; the label option chooses one", t->r.name);
    if (first == last || !t->classed) return first;
    const content a = examine(t, first), b = examine(t, last);
    if (b.words || (b.compact && !a.compact)) return last;
    return a.compact || a.words || a.whole ? first : last;
}

/* -1 with an error. */
static ptrdiff_t find_label(const table *t)
{
    const st_csv_options *o = t->o;
    const st_table *like = o->like;
    if (o->label_name) return find_column(t, o->label_name, "label");
    if (o->label == ST_CSV_FIND_LABEL && !like) return guess_label(t);
    if (!like || (o->label != 0 && o->label != ST_CSV_FIND_LABEL)) return number_of(t, o->label, "label");
    if (like->label_name && t->name) return find_column(t, like->label_name, "label");
    if (like->label >= 0) return number_of(t, like->label, "label");
    return st_error_set("%s: the net does not say which column is the class: set the label option",
                        t->r.name);
}

static int place_label(table *t)
{
    t->label = t->targets > 0 ? find_label(t) : t->columns;
    if (t->label < 0) return -1;
    if (t->targets > t->columns - t->label)
        return st_error_set("%s: %td targets from column %td on, but the table has %td columns", t->r.name,
                            t->targets, t->label, t->columns);
    for (ptrdiff_t k = 0; k < t->targets; k++) {
        ptrdiff_t *role = &t->role[t->label + k];
        if (*role >= 0 && t->o->like)
            return st_error_set("%s: label: %s is a feature of the net", t->r.name,
                                t->name ? t->name[t->label + k] : "its column");
        *role = LABEL - k;
    }
    return 0;
}

/* Features are numbered in the order of the columns; with neither names nor another table all are. */
static void number_features(table *t)
{
    for (ptrdiff_t i = 0; i < t->columns; i++) {
        const bool chosen = t->o->features ? t->role[i] == 0 : t->role[i] == LEFT_OUT;
        if (t->role[i] > LABEL) t->role[i] = chosen ? t->features++ : LEFT_OUT;
    }
}

/* Columns that are used have names of their own; two without a name make a table without names. */
static int check_names(table *t)
{
    bool empty = false;
    for (ptrdiff_t i = 0; i < t->columns && t->name; i++) {
        if (t->role[i] == LEFT_OUT) continue;
        if (!*t->name[i] && !empty) empty = true;
        else if (!*t->name[i]) free(t->name), t->name = NULL;
        else if (find_column(t, t->name[i], "features") < 0) return -1;
    }
    return 0;
}

static int check_features(const table *t)
{
    const st_csv_options *o = t->o;
    if (t->features == 0 && t->columns == 1 && o->delimiter == 0)
        return st_error_set(
            "%s: no column of features: one column, as the first line has no comma, semicolon or tab; the "
            "delimiter option sets another separator",
            t->r.name);
    if (t->features == 0 && t->columns == t->targets)
        return st_error_set("%s: no column of features, all %td are targets", t->r.name, t->targets);
    if (t->features == 0) return st_error_set("%s: no column of features", t->r.name);
    ptrdiff_t image = o->image.rank ? st_shape_numel(o->image, "st_dataset_csv: image") : t->features;
    if (image < 0 || image == t->features) return image < 0 ? -1 : 0;
    return st_error_set("%s: %td feature%s, expected %td for samples %s", t->r.name, t->features,
                        t->features == 1 ? "" : "s", image, st_shape_text(o->image).text);
}

static int assign_roles(table *t)
{
    const st_csv_options *o = t->o;
    const ptrdiff_t targets = o->targets || !o->like ? o->targets : o->like->targets;
    t->classed = targets == 0;
    t->targets = targets == 0 ? 1 : targets == ST_CSV_UNLABELLED ? 0 : targets;
    if (!(t->role = array_new(t->r.name, t->columns, sizeof *t->role))) return -1;
    for (ptrdiff_t i = 0; i < t->columns; i++) t->role[i] = LEFT_OUT;
    int status = o->like ? choose_like(t, o->like) : o->features ? choose_all(t, o->features) : 0;
    if (status || place_label(t)) return -1;
    if (!o->like) number_features(t);
    return check_features(t) || check_names(t) ? -1 : 0;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int refuse_missing(const char *text, bool feature)
{
    return st_error_set("missing value \"%s\"; the missing option %s", text,
                        feature ? "takes it as the column's mean (mean) or leaves out the row (drop)"
                                : "leaves out the row (drop)");
}

/* The number in a field; -1 with an error. */
static int read_number(const char *text, double scale, double *to)
{
    if (!is_number(text, to))
        return st_error_set("\"%s\" is not a number; %s", show_text(text).text,
                            has_decimal_comma(text) ? "numbers have a decimal point"
                                                    : "the label and features options choose columns");
    *to *= scale;
    return isfinite((st_real)*to)
               ? 0
               : st_error_set("%s is too large for %s", show_text(text).text, ST_REAL_NAME);
}

static double scale_of(const table *t)
{
    return t->o->scale != 0 ? t->o->scale : 1;
}

/* A missing feature is NaN until the means are known. */
static int read_feature(table *t, ptrdiff_t k, const char *text, st_real *to)
{
    double value = NAN;
    const bool fills = t->o->missing == ST_CSV_MEAN || (t->o->like && t->o->like->fill);
    if (is_missing(text)) t->filled++;
    else if (read_number(text, scale_of(t), &value)) return -1;
    else t->mean[k] += (value - t->mean[k]) / (double)++t->present[k]; /* exact if all are equal */
    if (isnan(value) && !fills) return refuse_missing(text, true);
    *to = (st_real)value;
    t->inexact |= fabs(value) > MOST_CLASSES && (double)*to != value;
    return 0;
}

/* True if the row is left out, since something that is used is missing. */
static bool is_dropped(const table *t, const row *r)
{
    const char *at = fields_of(t, r);
    for (ptrdiff_t i = 0; i < t->columns && t->o->missing == ST_CSV_DROP; i++, at = after(at))
        if (t->role[i] != LEFT_OUT && is_missing(at)) return true;
    return false;
}

static int add_row(table *t, ptrdiff_t k)
{
    double value = 0;
    st_real *x = st_data(t->x) + k * t->features, *y = st_data(t->y) + k * t->targets;
    const char *at = fields_of(t, &t->rows[k]);
    for (ptrdiff_t i = 0; i < t->columns; i++, at = after(at)) {
        const ptrdiff_t role = t->role[i];
        int status = 0;
        if (role == LEFT_OUT) continue;
        if (role >= 0) status = read_feature(t, role, at, x + role);
        else if (is_missing(at)) status = refuse_missing(at, false);
        else if (t->classed) t->word[k] = (char *)at;
        else if ((status = read_number(at, 1, &value)) == 0) y[LABEL - role] = (st_real)value;
        if (status) return within(t, t->rows[k].line, i);
    }
    return 0;
}

/* The means take the place of missing features. */
static int fill_missing(table *t)
{
    const st_table *like = t->o->like;
    for (ptrdiff_t k = 0; k < t->features; k++) {
        if (like && like->fill) t->mean[k] = like->fill[k] * scale_of(t);
        else if (t->present[k] == 0)
            return st_error_set("%s: feature %td is missing in every row", t->r.name, k);
        if (!isfinite((st_real)t->mean[k]))
            return st_error_set("%s: the mean of feature %td is not finite", t->r.name, k);
    }
    st_real *x = st_data(t->x);
    for (ptrdiff_t i = 0; i < t->count * t->features && t->filled > 0; i++)
        if (isnan(x[i])) x[i] = (st_real)t->mean[i % t->features];
    return 0;
}

/* The features again, in double: what they differ by is often small, and st_real has no digits for it. */
static int read_exact(table *t)
{
    t->exact = array_new(t->r.name, t->count * t->features, sizeof *t->exact);
    for (ptrdiff_t k = 0; k < t->count && t->exact; k++) {
        const char *at = fields_of(t, &t->rows[k]);
        for (ptrdiff_t i = 0; i < t->columns; i++, at = after(at)) {
            double *to = &t->exact[k * t->features + largest(t->role[i], 0)];
            if (t->role[i] < 0) continue;
            if (is_missing(at)) *to = t->mean[t->role[i]];
            else read_number(at, scale_of(t), to);
        }
    }
    return t->exact ? 0 : -1;
}

static int read_numbers(table *t)
{
    ptrdiff_t kept = 0;
    for (ptrdiff_t k = 0; k < t->count && t->o->missing == ST_CSV_DROP; k++)
        if (!is_dropped(t, &t->rows[k])) t->rows[kept++] = t->rows[k];
    if (t->o->missing == ST_CSV_DROP) t->dropped = t->count - kept, t->count = kept;
    if (t->count == 0) return st_error_set("%s: a value is missing in every row", t->r.name);
    t->x = st_tensor_new(ST_SHAPE(t->count, t->features));
    t->y = st_tensor_new(ST_SHAPE(t->count, largest(t->targets, 1)));
    t->mean = array_new(t->r.name, t->features, sizeof *t->mean);
    t->present = array_new(t->r.name, t->features, sizeof *t->present);
    t->word = array_new(t->r.name, t->classed ? t->count : 0, sizeof *t->word);
    if (st_is_null(t->x) || st_is_null(t->y) || !t->mean || !t->present || !t->word) return -1;
    for (ptrdiff_t k = 0; k < t->count; k++)
        if (add_row(t, k)) return -1;
    if ((t->filled > 0 || t->o->missing == ST_CSV_MEAN) && fill_missing(t)) return -1;
    return t->inexact ? read_exact(t) : 0;
}

/* ---- classes --------------------------------------------------------------------------------- */

static int refuse_class(const table *t, ptrdiff_t k, const char *expected)
{
    st_error_set("class %s, expected %s; the label option chooses the column", show_text(t->word[k]).text,
                 expected);
    return within(t, t->rows[k].line, t->label);
}

/* Classes by the names of another table. */
static int match_classes(table *t, ptrdiff_t count, const char *const *name)
{
    int status = 0;
    json_t *known = json_object();
    for (ptrdiff_t c = 0; c < count && status == 0; c++)
        if (json_object_set_new_nocheck(known, name[c], json_integer(c)))
            status = st_error_set("%s: no memory for %td classes", t->r.name, count);
    for (ptrdiff_t k = 0; k < t->count && status == 0; k++) {
        const json_t *found = json_object_get(known, t->word[k]);
        if (found) st_data(t->y)[k] = (st_real)json_integer_value(found);
        else status = refuse_class(t, k, "one of the net's");
    }
    json_decref(known);
    return status;
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = strtod(*(const char *const *)a, NULL), y = strtod(*(const char *const *)b, NULL);
    return x != y ? (x > y) - (x < y) : compare_texts(a, b);
}

/* The different labels, sorted, are the names. */
static int name_classes(table *t, bool numbers)
{
    ptrdiff_t room = 0;
    int status = 0;
    json_t *known = json_object(), *yes = json_true();
    for (ptrdiff_t k = 0; k < t->count && status == 0; k++) {
        const char *text = t->word[k];
        if (json_object_get(known, text)) continue;
        if (t->classes == room) {
            room = largest(16, 2 * room);
            const char **class = array_grow(t->r.name, t->class, room, sizeof *class);
            if (!class) status = -1;
            else t->class = class;
        }
        if (t->classes == MOST_CLASSES)
            status = st_error_set("%s: more than %d classes", t->r.name, MOST_CLASSES);
        if (status == 0) t->class[t->classes++] = text;
        if (status == 0 && json_object_set_nocheck(known, text, yes))
            status = st_error_set("%s: no memory for %td classes", t->r.name, t->classes);
    }
    json_decref(known);
    if (status) return -1;
    qsort(t->class, (size_t)t->classes, sizeof *t->class, numbers ? compare_numbers : compare_texts);
    return match_classes(t, t->classes, t->class);
}

/* "7.0" is the class 7. */
static void cut_fraction(char *text)
{
    double value;
    char *point = strchr(text, '.');
    if (point && point > text && is_number(text, &value) && !point[1 + strspn(point + 1, "0")]) *point = '\0';
}

/* 1 if the classes are 0 to K - 1, each of them there; -1 with an error. */
static int has_all_classes(const table *t)
{
    integers s = { array_new(t->r.name, t->count + 1, 1), t->count };
    if (!s.seen) return -1;
    for (ptrdiff_t k = 0; k < t->count; k++) see(&s, (double)st_data(t->y)[k]);
    free(s.seen);
    return is_compact(&s);
}

/* Words have names; so have numbers, if asked to, that are not 0 to K - 1. */
static int read_classes(table *t)
{
    const st_csv_options *o = t->o;
    ptrdiff_t word = -1, odd = -1;
    for (ptrdiff_t k = 0; k < t->count; k++) cut_fraction(t->word[k]);
    if (o->like && o->like->class_name) return match_classes(t, o->like->classes, o->like->class_name);
    for (ptrdiff_t k = 0; k < t->count; k++) {
        double value;
        bool number = is_number(t->word[k], &value);
        if (!number && word < 0) word = k;
        if (odd < 0 && !(number && value >= 0 && value <= MOST_CLASSES && value == floor(value))) odd = k;
        st_data(t->y)[k] = (st_real)value;
    }
    if (word >= 0 && o->like && !o->name_numbers)
        return refuse_class(t, word, "a number: the net's classes have no names");
    if (word >= 0) return name_classes(t, false);
    if (odd >= 0 && !o->name_numbers) return refuse_class(t, odd, "an integer from 0 to 16777216, or words");
    const int compact = !o->name_numbers ? 1 : odd >= 0 ? 0 : has_all_classes(t);
    return compact == 0 ? name_classes(t, true) : compact < 0 ? -1 : 0;
}

/* ---- the data set ---------------------------------------------------------------------------- */

static st_table description_of(const table *t, ptrdiff_t *column, const char **feature)
{
    for (ptrdiff_t i = 0; i < t->columns; i++) {
        if (t->role[i] < 0) continue;
        column[t->role[i]] = i;
        if (t->name) feature[t->role[i]] = t->name[i];
    }
    const st_table *like = t->o->like;
    const bool named = t->classed && like && like->class_name,
               fills = t->o->missing == ST_CSV_MEAN || t->filled > 0;
    return (st_table){ .columns = t->columns,
                       .features = t->features,
                       .targets = t->classed ? 0 : t->targets,
                       .classes = named ? like->classes : t->classes,
                       .label = t->targets > 0 ? t->label : -1,
                       .column = column,
                       .feature = t->name ? feature : NULL,
                       .label_name = t->name && t->targets > 0 ? t->name[t->label] : NULL,
                       .class_name = named ? like->class_name : t->class,
                       .fill = fills  ? t->mean
                               : like ? like->fill
                                      : NULL,
                       .filled = t->filled,
                       .dropped = t->dropped };
}

/* Takes the tensors and the exact numbers. */
static st_dataset *keep(table *t)
{
    const st_csv_options *o = t->o;
    st_shape image = o->image.rank ? o->image : ST_SHAPE(t->features);
    st_shape target = t->classed || t->targets == 0 ? (st_shape){ 0 } : ST_SHAPE(t->targets);
    ptrdiff_t *column = array_new(t->r.name, t->features, sizeof *column);
    const char **feature = array_new(t->r.name, t->features, sizeof *feature);
    for (ptrdiff_t k = 0; k < t->features && t->mean; k++) t->mean[k] /= scale_of(t);
    st_dataset *d = NULL;
    if (column && feature) {
        const st_table about = description_of(t, column, feature);
        d = table_dataset(&about, st_reshape(t->x, st_shape_with_batch(image, t->count)),
                          st_reshape(t->y, st_shape_with_batch(target, t->count)), t->exact);
        t->x = t->y = (st_tensor){ 0 }, t->exact = NULL;
    }
    free(column), free(feature);
    return d;
}

static int check_options(const st_csv_options *o)
{
    if (o->delimiter && strchr("+-.0123456789eE\"\r\n", o->delimiter))
        return st_error_set(
            "st_dataset_csv: delimiter '%c' can be part of a number, quotes or the end of a line",
            o->delimiter);
    if (o->targets < ST_CSV_UNLABELLED)
        return st_error_set("st_dataset_csv: %d targets, expected at least 0, or ST_CSV_UNLABELLED",
                            o->targets);
    if (!isfinite(o->scale))
        return st_error_set("st_dataset_csv: scale is %g, expected a finite number", printable(o->scale));
    if (o->image.rank < 0 || o->image.rank >= ST_MAX_RANK)
        return st_error_set("st_dataset_csv: an image of rank %d, expected at most %d", o->image.rank,
                            ST_MAX_RANK - 1);
    if ((unsigned)o->header > ST_CSV_NO_HEADER)
        return st_error_set("st_dataset_csv: header is %d, expected 0 to %d", (int)o->header,
                            ST_CSV_NO_HEADER);
    if ((unsigned)o->missing > ST_CSV_DROP)
        return st_error_set("st_dataset_csv: missing is %d, expected 0 to %d", (int)o->missing, ST_CSV_DROP);
    if (o->like && o->features)
        return st_error_set("st_dataset_csv: the options like and features exclude each other");
    return 0;
}

st_dataset *st_dataset_csv_new(const char *path, st_csv_options options)
{
    static const char mark[] = "\xef\xbb\xbf"; /* the byte order mark */
    ptrdiff_t size = 0;
    char *bytes = check_options(&options) ? NULL : data_read_text("st_dataset_csv", path, &size);
    if (!bytes) return NULL;
    char *text = bytes + (strncmp(bytes, mark, sizeof mark - 1) == 0 ? sizeof mark - 1 : 0);
    table t = { .o = &options, .r = { .name = file_name(path), .bytes = bytes, .next = text, .line = 1 } };
    t.r.delimiter = options.delimiter ? options.delimiter : find_delimiter(text);
    void *locale = c_locale_enter();
    int status = read_rows(&t) || assign_roles(&t) || read_numbers(&t) ? -1 : 0;
    if (status == 0 && t.classed) status = read_classes(&t);
    st_dataset *d = status == 0 ? keep(&t) : NULL;
    c_locale_leave(locale);
    st_tensor_free(t.x), st_tensor_free(t.y);
    free(t.rows), free(t.name), free(t.sorted), free(t.word), free(t.role), free(t.exact), free(t.mean),
        free(t.present), free(t.class);
    free(bytes);
    return d;
}
