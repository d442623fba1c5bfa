/* table.c: reads a table in one pass; each column is a feature, a label or ignored. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/paths.h"
#include "examples/stride/dataset.h"

#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LEFT_OUT = -1, LABEL = -2, LONGEST_LINE = 1 << 26 };

typedef struct reader {
    const char *path;
    gzFile file;
    char *line, **field, **name; /* the current line and its fields; the columns' names, NULL: none */
    size_t room;
    int fields, columns, number; /* number: the current line's */
    int *role; /* of each column: index of the feature, LEFT_OUT, or LABEL - index of the label */
    int features, labels, label; /* label: the first one */
    st_real *x, *y;
    char **word; /* the label of each row, where it is a class */
    ptrdiff_t rows, rows_room;
} reader;

static int no_memory(const reader *r)
{
    return st_error_set("%.200s: no memory for line %d", r->path, r->number);
}

/* ---- lines ------------------------------------------------------------------------------------- */

/* Cuts a line of CSV (RFC 4180) into its fields, in place. */
static void split(reader *r, char *line, char delimiter)
{
    r->fields = 0;
    for (char *from = line, *to = line; from; to++) {
        bool quoted = *from == '"';
        r->field[r->fields++] = to;
        for (from += quoted; *from && (quoted || (*from != delimiter && *from != '\n' && *from != '\r'));) {
            if (quoted && *from == '"' && *++from != '"') quoted = false;
            else *to++ = *from++;
        }
        from = *from == delimiter ? from + 1 : NULL;
        *to = '\0';
    }
}

/* Splits the next line that is not empty. 1; 0 at the end; -1 with an error. */
static int next_line(reader *r, char delimiter)
{
    size_t used = 0, commas = 1;
    for (bool whole = false; !whole;) {
        if (r->room - used < 4096) {
            char *more = r->room < LONGEST_LINE ? realloc(r->line, 2 * r->room + 8192) : NULL;
            if (!more) return no_memory(r);
            r->line = more, r->room = 2 * r->room + 8192;
        }
        if (!gzgets(r->file, r->line + used, (int)(r->room - used))) break;
        used += strlen(r->line + used);
        whole = used > 0 && r->line[used - 1] == '\n';
        r->number += whole;
        if (whole && r->line[strspn(r->line, " \t\r\n")] == '\0') used = 0, whole = false;
    }
    int status = Z_OK;
    gzerror(r->file, &status);
    if (status < 0) return st_error_set("%.200s: broken or truncated after line %d", r->path, r->number);
    if (used == 0) return 0;
    char *from = r->line + (r->number <= 1 && strncmp(r->line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
    for (const char *c = from; *c; c++) commas += *c == delimiter;
    char **field = realloc(r->field, commas * sizeof *field);
    if (!field) return no_memory(r);
    r->field = field;
    split(r, from, delimiter);
    return 1;
}

static bool is_number(const char *text, double *to)
{
    char *end;
    text += strspn(text, " \t");
    *to = strtod(text, &end);
    return strchr("+-.0123456789", *text) && end != text && isfinite(*to) && !end[strspn(end, " \t")];
}

static bool is_class(const char *text)
{
    double value;
    return is_number(text, &value) && value >= 0 && value == floor(value) && value < INT_MAX;
}

/* ---- columns ----------------------------------------------------------------------------------- */

static int column_named(const reader *r, const char *name, const char *option)
{
    for (int i = 0; i < r->columns && r->name; i++)
        if (strcmp(r->name[i], name) == 0) return i;
    if (!r->name)
        return st_error_set("--%s: expected a column's number, not \"%.60s\": the table has no header",
                            option, name);
    return st_error_set("%.150s: no column %.60s", r->path, name);
}

/* By default the label is the last column or the first, of those that are not known as features. */
static int find_label(reader *r, const table_options *o, bool known)
{
    double ignored;
    char *end = NULL;
    long number = o->label ? strtol(o->label, &end, 10) : 0;
    const bool numbered = end && end != o->label && !*end;
    if (o->label && !numbered) r->label = column_named(r, o->label, "label");
    else if (o->label) r->label = (int)(number < 0 ? r->columns + number : number);
    else {
        const bool words = !is_number(r->field[r->columns - 1], &ignored) || !is_class(r->field[0]);
        const bool last = o->targets == 0 && (known || words);
        r->label = last ? r->columns - 1 : 0;
        while (r->label >= 0 && r->label < r->columns && r->role[r->label] != LEFT_OUT)
            r->label += last ? -1 : 1;
    }
    if (st_error()) return -1;
    if (r->label < 0 || r->label + r->labels > r->columns)
        return st_error_set("--label: column %d, the table has %d columns", r->label, r->columns);
    for (int i = r->label; i < r->label + r->labels; i++)
        if (r->role[i] != LEFT_OUT) return st_error_set("--label: %.60s is a feature of the net", r->name[i]);
    return 0;
}

static bool matches(const char *name, const char *patterns)
{
    char pattern[256];
    for (size_t length; *patterns; patterns += length + (patterns[length] == ',')) {
        length = strcspn(patterns, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, patterns);
        if (fnmatch(pattern, name, 0) == 0) return true;
    }
    return false;
}

/* Assigns features by the names in a net's metadata, in their order. */
static int assign_known(reader *r, const char *columns)
{
    json_t *list = json_loads(columns, 0, NULL);
    for (size_t k = 0; k < json_array_size(list) && !st_error(); k++) {
        const char *name = json_string_value(json_array_get(list, k));
        int i =
            name ? column_named(r, name, "data") : st_error_set("metadata columns: expected a list of names");
        if (i >= 0) r->role[i] = r->features++;
    }
    json_decref(list);
    return st_error() ? -1 : 0;
}

/* Assigns the role of each column by the first line of numbers. */
static int assign(reader *r, const table_options *o)
{
    const ptrdiff_t expected = o->sample.rank > 0 ? st_shape_numel(o->sample, "table") : 0;
    r->columns = r->fields;
    r->labels = o->targets > 0 ? o->targets : 1;
    r->role = calloc((size_t)r->columns, sizeof *r->role);
    if (!r->role) return no_memory(r);
    const bool known = o->columns && r->name, no_labels = o->unlabelled && (known || r->columns == expected);
    for (int i = 0; i < r->columns; i++) r->role[i] = LEFT_OUT;
    if (known && assign_known(r, o->columns)) return -1;
    if (no_labels) r->labels = 0;
    else if (find_label(r, o, known)) return -1;
    for (int i = 0; i < r->columns; i++) {
        bool is_label = i >= r->label && i < r->label + r->labels;
        bool chosen = !known && (!o->features || (r->name && matches(r->name[i], o->features)));
        if (is_label && !o->unlabelled) r->role[i] = LABEL - (i - r->label);
        else if (!is_label && chosen) r->role[i] = r->features++;
    }
    if (r->features == 0) return st_error_set("%.200s: no column of features", r->path);
    if (expected && r->features != expected)
        return st_error_set("%.200s: %d columns of features, expected %td", r->path, r->features, expected);
    return 0;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static int grow(reader *r)
{
    if (r->rows < r->rows_room) return 0;
    ptrdiff_t room = r->rows_room ? 2 * r->rows_room : 64;
    if (room > PTRDIFF_MAX / 16 / (r->features + r->labels)) return no_memory(r);
    st_real *x = realloc(r->x, (size_t)(room * r->features) * sizeof *x);
    if (x) r->x = x;
    st_real *y = x ? realloc(r->y, (size_t)(room * (r->labels + 1)) * sizeof *y) : NULL;
    if (y) r->y = y;
    char **word = y ? realloc(r->word, (size_t)room * sizeof *word) : NULL;
    if (!word) return no_memory(r);
    r->word = word;
    r->rows_room = room;
    return 0;
}

static int add_row(reader *r, const table_options *o)
{
    if (r->fields != r->columns)
        return st_error_set("%.200s: line %d has %d columns, expected %d", r->path, r->number, r->fields,
                            r->columns);
    if (grow(r)) return -1;
    r->word[r->rows] = NULL;
    for (int i = 0; i < r->columns; i++) {
        double value = 0;
        const bool is_word = r->role[i] == LABEL && o->targets == 0;
        if (r->role[i] == LEFT_OUT) continue;
        if (is_word && !(r->word[r->rows] = strdup(r->field[i]))) return no_memory(r);
        if (!is_word && !is_number(r->field[i], &value))
            return st_error_set(
                "%.200s: line %d, column %d%s%.40s: expected a number, not \"%.40s\"; --label chooses "
                "the column of the class",
                r->path, r->number, i + 1, r->name ? ", " : "", r->name ? r->name[i] : "", r->field[i]);
        if (r->role[i] >= 0) r->x[r->rows * r->features + r->role[i]] = (st_real)value;
        else if (!is_word) r->y[r->rows * r->labels + LABEL - r->role[i]] = (st_real)value;
    }
    r->rows++;
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Classes are integers from 0 on, or words, which are numbered in sorted order. */
static int make_classes(reader *r, table *t)
{
    bool numbers = true;
    for (ptrdiff_t i = 0; i < r->rows; i++) numbers = numbers && is_class(r->word[i]);
    for (ptrdiff_t i = 0; i < r->rows && numbers; i++) r->y[i] = (st_real)strtod(r->word[i], NULL);
    if (numbers) return 0;
    char **sorted = malloc((size_t)r->rows * sizeof *sorted);
    t->class = calloc((size_t)r->rows + 1, sizeof *t->class);
    if (!sorted || !t->class) {
        free(sorted);
        return no_memory(r);
    }
    memcpy(sorted, r->word, (size_t)r->rows * sizeof *sorted);
    qsort(sorted, (size_t)r->rows, sizeof *sorted, compare);
    for (ptrdiff_t i = 0; i < r->rows && !st_error(); i++)
        if ((i == 0 || strcmp(sorted[i], sorted[i - 1]) != 0) &&
            !(t->class[t->classes++] = strdup(sorted[i])))
            no_memory(r);
    free(sorted);
    for (ptrdiff_t i = 0; i < r->rows && !st_error(); i++)
        r->y[i] =
            (st_real)((char **)bsearch(&r->word[i], t->class, (size_t)t->classes, sizeof *t->class, compare) -
                      t->class);
    return st_error() ? -1 : 0;
}

static char **copy_fields(const reader *r)
{
    char **copy = calloc((size_t)r->fields + 1, sizeof *copy);
    for (int i = 0; i < r->fields && copy; i++)
        if (!(copy[i] = strdup(r->field[i]))) no_memory(r);
    if (!copy) no_memory(r);
    return copy;
}

/* Copies the features' names. */
static int keep_names(const reader *r, table *t)
{
    t->columns = r->features;
    t->column = calloc((size_t)r->features + 1, sizeof *t->column);
    for (int i = 0; i < r->columns && t->column; i++)
        if (r->role[i] >= 0 && !(t->column[r->role[i]] = strdup(r->name[i]))) return no_memory(r);
    return t->column ? 0 : no_memory(r);
}

static int read_table(reader *r, table *t, const table_options *o)
{
    double ignored;
    int status = next_line(r, o->delimiter);
    bool names = status > 0;
    for (int i = 0; i < r->fields; i++) names = names && !is_number(r->field[i], &ignored);
    if (names && !(r->name = copy_fields(r))) return -1;
    if (names) r->columns = r->fields;
    if (names) status = next_line(r, o->delimiter);
    if (status == 0) return st_error_set("%.200s: no numbers", r->path);
    if (status < 0 || assign(r, o)) return -1;
    for (; status > 0 && !st_error(); status = next_line(r, o->delimiter))
        if (add_row(r, o)) return -1;
    if (st_error() || (r->labels && !o->unlabelled && o->targets == 0 && make_classes(r, t))) return -1;
    if (r->name && keep_names(r, t)) return -1;
    st_shape each = o->sample.rank > 0 ? o->sample : ST_SHAPE(r->features),
             all = st_shape_with_batch(each, r->rows);
    t->x = st_tensor_new(all);
    t->y =
        st_tensor_new(o->targets > 0 && !o->unlabelled ? ST_SHAPE(r->rows, o->targets) : ST_SHAPE(r->rows));
    if (st_error()) return -1;
    memcpy(st_data(t->x), r->x, (size_t)(r->rows * r->features) * sizeof *r->x);
    if (!o->unlabelled) memcpy(st_data(t->y), r->y, (size_t)st_numel(t->y) * sizeof *r->y);
    t->set = st_dataset_tensors(t->x, t->y);
    return t->set ? 0 : -1;
}

static void free_texts(char **texts, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count && texts; i++) free(texts[i]);
    free(texts);
}

int table_open(table *t, const char *path, const table_options *o)
{
    reader r = { .path = path, .file = path_readable(path) ? NULL : gzopen(path, "rb") };
    *t = (table){ 0 };
    int status = r.file ? read_table(&r, t, o) : st_error_set("%.200s: %s", path, strerror(errno));
    if (r.file) gzclose(r.file);
    free_texts(r.word, r.rows);
    free_texts(r.name, r.columns);
    free(r.field), free(r.line), free(r.role), free(r.x), free(r.y);
    if (status) table_close(t);
    return status;
}

void table_close(table *t)
{
    st_dataset_free(t->set);
    st_tensor_free(t->x);
    st_tensor_free(t->y);
    free_texts(t->column, t->columns);
    free_texts(t->class, t->classes);
    *t = (table){ 0 };
}
