/* table.c: the columns of a table, with the set that is read from it and as metadata of a net. */
#include "nn/data/classes.h"
#include "nn/data/sets.h"
#include "nn/data/table_impl.h"
#include "nn/files/json.h"
#include "nn/files/metadata.h"
#include "tensor/array.h"
#include "tensor/counts.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- making and ending ----------------------------------------------------------------------- */

/* A copy in one block; NULL for NULL, or with an error. */
static const char *const *copy_texts(ptrdiff_t count, const char *const *text)
{
    size_t bytes = 0;
    if (!text) return NULL;
    for (ptrdiff_t i = 0; i < count; i++) bytes += strlen(text[i]) + 1;
    const ptrdiff_t most = (ptrdiff_t)bytes + count * (ptrdiff_t)sizeof *text;
    const char **copy = array_new("table: names", most, 1);
    char *at = copy ? (char *)(copy + count) : NULL;
    for (ptrdiff_t i = 0; i < count && copy; i++) {
        copy[i] = strcpy(at, text[i]);
        at += strlen(text[i]) + 1;
    }
    return copy;
}

static void *copy_array(ptrdiff_t count, size_t size, const void *from)
{
    void *copy = from ? array_new("table", count, size) : NULL;
    return copy ? memcpy(copy, from, (size_t)count * size) : NULL;
}

static st_table *copy_table(const st_table *from)
{
    st_table *t = array_new("table", 1, sizeof *t);
    if (!t) return NULL;
    *t = *from;
    t->column = copy_array(t->features, sizeof *t->column, from->column);
    t->feature = copy_texts(t->features, from->feature);
    t->label_name =
        from->label_name ? copy_array((ptrdiff_t)strlen(from->label_name) + 1, 1, from->label_name) : NULL;
    t->class_name = copy_texts(t->classes, from->class_name);
    t->fill = copy_array(t->features, sizeof *t->fill, from->fill);
    if (!t->column == !from->column && !t->feature == !from->feature && !t->label_name == !from->label_name &&
        !t->class_name == !from->class_name && !t->fill == !from->fill)
        return t;
    st_table_free(t);
    return NULL;
}

void st_table_free(st_table *t)
{
    if (!t) return;
    free((void *)t->column), free((void *)t->feature), free((void *)t->label_name);
    free((void *)t->class_name), free((void *)t->fill);
    free(t);
}

/* ---- the set --------------------------------------------------------------------------------- */

typedef struct tabled {
    st_dataset *rows; /* x and y */
    st_table *table;
    double *exact;
    char prepared[160];
} tabled;

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const tabled *own = d->own;
    own->rows->get(own->rows, i, x, y);
}

static void release(st_dataset *d)
{
    tabled *own = d->own;
    st_dataset_free(own->rows);
    st_table_free(own->table);
    free(own->exact);
    free(own);
}

/* The columns' names, by which checkpoints know the table; those that do not fit as a checksum. */
static void describe(char *to, size_t room, const st_table *t)
{
    uLong sum = 0;
    for (ptrdiff_t k = 0; k < t->features; k++)
        sum = crc32(sum, (const Bytef *)t->feature[k], (uInt)strlen(t->feature[k]) + 1);
    int used = snprintf(to, room, "columns");
    for (ptrdiff_t k = 0; k < t->features && used < (int)room; k++)
        used += snprintf(to + used, room - (size_t)used, "%s %s", k ? "," : "", t->feature[k]);
    if (used < (int)room && t->label_name)
        used += snprintf(to + used, room - (size_t)used, " to %s", t->label_name);
    if (used >= (int)room)
        snprintf(to, room, "%td columns, checksum %08lx, to %.60s", t->features, sum,
                 t->label_name ? t->label_name : "none");
}

st_dataset *table_dataset(const st_table *about, st_tensor x, st_tensor y, double *exact)
{
    tabled *own = array_new("table", 1, sizeof *own);
    st_dataset *rows = st_dataset_owned(x, y);
    if (own) *own = (tabled){ rows, rows ? copy_table(about) : NULL, exact, "" };
    st_dataset kind = { .own = own, .release = release };
    if (!own) {
        st_dataset_free(rows), free(exact);
        return NULL;
    }
    if (!own->table) {
        release(&kind);
        return NULL;
    }
    kind.count = rows->count, kind.x = rows->x, kind.target = rows->target, kind.grain = rows->grain;
    kind.get = get;
    if (about->feature) {
        describe(own->prepared, sizeof own->prepared, about);
        kind.prepared = own->prepared;
    }
    return st_dataset_new(kind);
}

/* The table that a set is, or is a part of, or a part of a part; *i becomes the sample's number there. */
static const tabled *find(const st_dataset *d, ptrdiff_t *i)
{
    if (!d || *i >= d->count) return NULL;
    for (const st_dataset *part = NULL; d && d != part;) part = d, d = st_dataset_origin(d, i);
    return d && d->get == get ? d->own : NULL;
}

const st_table *st_dataset_table(const st_dataset *d)
{
    ptrdiff_t first = 0;
    const tabled *own = find(d, &first);
    return own ? own->table : NULL;
}

const double *table_exact(const st_dataset *d, ptrdiff_t i)
{
    const tabled *own = find(d, &i);
    return own && own->exact ? own->exact + i * own->table->features : NULL;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static int note(st_net *to, const char *key, json_t *value)
{
    char *text = value ? json_write(value) : NULL;
    int status = text ? st_net_set_metadata(to, key, text)
                      : st_error_set("st_net_set_table: metadata %s: no memory", key);
    free(text);
    json_decref(value);
    return status;
}

static json_t *list_texts(ptrdiff_t count, const char *const *text)
{
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < count; i++)
        if (json_array_append_new(list, json_string(text[i]))) {
            st_error_set("st_net_set_table: the column \"%s\" has a name that is not UTF-8, or there is no "
                         "memory",
                         show_text(text[i]).text);
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Features that are all columns but the targets need no list. */
static json_t *list_positions(const st_table *t)
{
    json_t *list = json_array(), *all;
    const ptrdiff_t targets = t->label < 0 ? 0 : largest(t->targets, 1);
    for (ptrdiff_t k = 0; k < t->features && t->columns != t->features + targets; k++)
        json_array_append_new(list, json_integer(t->column[k]));
    all = json_pack("{s:I, s:I}", "columns", (json_int_t)t->columns, "label", (json_int_t)t->label);
    if (json_array_size(list) > 0) json_object_set(all, "features", list);
    json_decref(list);
    return all;
}

static int note_all(st_net *to, const st_table *t)
{
    char number[32];
    snprintf(number, sizeof number, "%td", t->label);
    const char *label = t->label_name ? t->label_name : t->label >= 0 ? number : NULL;
    if (st_net_set_metadata(to, "label", label) || note(to, "table", list_positions(t))) return -1;
    snprintf(number, sizeof number, "%td", t->targets);
    if (st_net_set_metadata(to, "targets", t->targets > 0 ? number : NULL)) return -1;
    int status = t->feature ? note(to, "columns", list_texts(t->features, t->feature))
                            : st_net_set_metadata(to, "columns", NULL);
    if (status == 0)
        status = t->fill ? note(to, "missing", json_numbers(t->features, t->fill))
                         : st_net_set_metadata(to, "missing", NULL);
    return status || t->classes == 0 ? status : st_net_set_classes(to, t->classes, t->class_name);
}

/* Moves the metadata of `draft` to the end of the net's, whose own is removed where both have it. Needs no
 * memory. */
static void move_notes(st_net *to, st_net *draft)
{
    for (const st_metadata *note = draft->metadata; note; note = note->next)
        st_net_set_metadata(to, note->name, NULL);
    st_metadata **end = &to->metadata;
    while (*end) end = &(*end)->next;
    *end = draft->metadata;
}

/* All of it, or nothing. */
int st_net_set_table(st_net *to, const st_table *t)
{
    static const char *const keys[] = { "label", "table", "targets", "columns", "missing" };
    if (!to || !t) return st_error_set("st_net_set_table: the %s is NULL", to ? "table" : "net");
    ptrdiff_t inputs = st_shape_numel(to->input, "st_net_set_table");
    if (inputs != t->features)
        return st_error_set("st_net_set_table: %td features, the net's input is %s", t->features,
                            st_shape_text(to->input).text);
    st_net draft = { .input = to->input, .output = to->output };
    if (note_all(&draft, t)) {
        while (draft.metadata) st_net_set_metadata(&draft, draft.metadata->name, NULL);
        return -1;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) st_net_set_metadata(to, keys[i], NULL);
    move_notes(to, &draft);
    return 0;
}

/* ---- and back -------------------------------------------------------------------------------- */

/* The parts of a table while it is read. */
typedef struct parts {
    json_t *names, *places, *fill;
    const char **name;
    ptrdiff_t *column;
    double *number;
    st_class_names *classes;
} parts;

static json_t *read_json(const st_net *n, const char *key)
{
    char what[40];
    const char *text = st_net_metadata(n, key);
    snprintf(what, sizeof what, "metadata %s", key);
    return text ? json_read(text, strlen(text), what) : NULL;
}

static int read_names(parts *p, st_table *t)
{
    if (!p->names) return 0;
    p->name = array_new("metadata columns", t->features, sizeof *p->name);
    for (ptrdiff_t k = 0; k < t->features && p->name; k++)
        if (!(p->name[k] = json_string_value(json_array_get(p->names, (size_t)k))) ||
            (ptrdiff_t)json_array_size(p->names) != t->features)
            return st_error_set("metadata columns: expected a list of %td names", t->features);
    t->feature = p->name;
    return p->name ? 0 : -1;
}

/* Without a list, the features are the columns around the targets. */
static int read_places(parts *p, st_table *t)
{
    json_int_t columns = 0, label = -1;
    const ptrdiff_t targets = largest(t->targets, 1);
    json_t *list = json_object_get(p->places, "features");
    if (p->places && json_unpack(p->places, "{s:I, s:I}", "columns", &columns, "label", &label))
        return st_error_set("metadata table: expected the numbers columns and label");
    if (!p->places) columns = t->features + targets;
    if (columns < t->features || columns > INT32_MAX || label < -1 ||
        label > columns - (label >= 0 ? targets : 0) ||
        (list && (ptrdiff_t)json_array_size(list) != t->features) ||
        (!list && p->places && columns != t->features + (label >= 0 ? targets : 0)))
        return st_error_set("metadata table: its columns do not fit the net's %td inputs", t->features);
    t->columns = (ptrdiff_t)columns, t->label = (ptrdiff_t)label;
    if (!(p->column = array_new("metadata table", t->features, sizeof *p->column))) return -1;
    for (ptrdiff_t k = 0; k < t->features; k++) {
        const json_t *number = json_array_get(list, (size_t)k);
        const ptrdiff_t before = label >= 0 && k >= label ? targets : 0;
        p->column[k] = list ? (ptrdiff_t)json_integer_value(number) : k + before;
        if (list && (!json_is_integer(number) || p->column[k] < 0 || p->column[k] >= columns))
            return st_error_set("metadata table: expected the numbers of columns from 0 to %td",
                                t->columns - 1);
    }
    t->column = p->column;
    return 0;
}

static int read_fill(parts *p, st_table *t)
{
    if (!p->fill) return 0;
    if (!(p->number = array_new("metadata missing", t->features, sizeof *p->number))) return -1;
    t->fill = p->number;
    bool right = json_read_numbers(p->fill, t->features, p->number);
    for (ptrdiff_t k = 0; k < t->features; k++) right = right && p->number[k] - p->number[k] == 0;
    return right ? 0 : st_error_set("metadata missing: expected a list of %td numbers", t->features);
}

static st_table *read_table(const st_net *n, parts *p)
{
    char *end = NULL;
    const char *targets = st_net_metadata(n, "targets"), *label = st_net_metadata(n, "label");
    st_table t = { .features = st_shape_numel(n->input, "st_net_table"), .label = -1 };
    t.targets = targets ? strtol(targets, &end, 10) : 0;
    if (targets && (*end || t.targets < 1 || t.targets > INT32_MAX))
        st_error_set("metadata targets: expected a number of columns, not \"%.40s\"", targets);
    if (st_error() || read_names(p, &t) || read_places(p, &t) || read_fill(p, &t)) return NULL;
    t.label_name = t.feature ? label : NULL;
    if (p->classes) t.classes = p->classes->count, t.class_name = p->classes->name;
    return copy_table(&t);
}

st_table *st_net_table(const st_net *n)
{
    if (!n) st_error_set("st_net_table: the net is NULL");
    if (!n || (!st_net_metadata(n, "columns") && !st_net_metadata(n, "table"))) return NULL;
    parts p = { .names = read_json(n, "columns"),
                .places = read_json(n, "table"),
                .fill = read_json(n, "missing") };
    p.classes = st_net_classes(n);
    st_table *t = st_error() ? NULL : read_table(n, &p);
    json_decref(p.names), json_decref(p.places), json_decref(p.fill);
    free(p.name), free(p.column), free(p.number);
    st_class_names_free(p.classes);
    return t;
}
