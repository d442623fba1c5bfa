/* architecture.c: a net's layers as JSON and back, by the table of fields that each type has. */
#include "nn/files/architecture.h"
#include "nn/files/json.h"
#include "nn/files/safetensors.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEEPEST = 32,         /* sequences within sequences */
    MOST_LAYERS = 1 << 14 /* of a net: a layer's memory is many times that of its text */
};

/* ---- options ------------------------------------------------------------------------------------- */

/* The name of what a FIELD_NAMED option points to. */
static const char *name_of(const void *named)
{
    return *(const char *const *)named;
}

static json_t *write_option(const layer_field *f, const void *at)
{
    const int *i = at;
    switch (f->kind) {
    case FIELD_INT: return json_integer(*i);
    case FIELD_PAIR: return json_pack("[i, i]", i[0], i[1]);
    case FIELD_REAL: return json_real(*(const double *)at);
    case FIELD_BOOL: return json_boolean(*(const bool *)at);
    case FIELD_CHOICE: return json_string(f->choices[*i]);
    case FIELD_NAMED: return json_string(name_of(*(const void *const *)at));
    }
    return NULL;
}

static bool read_int(const json_t *given, int *to)
{
    json_int_t value = json_integer_value(given);
    if (!json_is_integer(given) || value < INT_MIN || value > INT_MAX) return false;
    *to = (int)value;
    return true;
}

static bool read_pair(const json_t *given, int *to)
{
    return json_array_size(given) == 2 && read_int(json_array_get(given, 0), to) &&
           read_int(json_array_get(given, 1), to + 1);
}

static bool read_choice(const char *name, const char *const *choices, int *to)
{
    for (*to = 0; choices[*to]; ++*to)
        if (strcmp(choices[*to], name) == 0) return true;
    return false;
}

static bool read_named(const char *name, const void *const *named, const void **to)
{
    while (named && *named && strcmp(name_of(*named), name) != 0) named++;
    *to = named ? *named : NULL;
    return *to;
}

static bool read_option(const layer_field *f, const json_t *given, const net_known *known, void *at)
{
    const char *name = json_string_value(given);
    switch (f->kind) {
    case FIELD_INT: return read_int(given, at);
    case FIELD_PAIR: return read_pair(given, at);
    case FIELD_REAL: *(double *)at = json_number_value(given); return json_is_number(given);
    case FIELD_BOOL: *(bool *)at = json_is_true(given); return json_is_boolean(given);
    case FIELD_CHOICE: return name && read_choice(name, f->choices, at);
    case FIELD_NAMED: return name && read_named(name, known->named, at);
    }
    return false;
}

static const char *const expected[] = {
    [FIELD_INT] = "an int",         [FIELD_PAIR] = "two ints", [FIELD_REAL] = "a number",
    [FIELD_BOOL] = "true or false", [FIELD_CHOICE] = "one of", [FIELD_NAMED] = "a name handed to net_load",
};

static int refuse_option(const layer_type *type, const layer_field *f, const json_t *given)
{
    char choices[128] = "";
    size_t used = 0;
    for (const char *const *c = f->kind == FIELD_CHOICE ? f->choices : NULL; c && *c && used < sizeof choices;
         c++)
        used += (size_t)snprintf(choices + used, sizeof choices - used, " %s", *c);
    return error_set("%s: %s is %s, expected %s%s", type->name, f->name, safetensors_show(given).text,
                     expected[f->kind], choices);
}

/* ---- types --------------------------------------------------------------------------------------- */

static const layer_type *type_named(const char *name, const layer_type *const *types)
{
    while (types && *types && strcmp((*types)->name, name) != 0) types++;
    return types ? *types : NULL;
}

static const layer_field *field_named(const layer_type *type, const char *name)
{
    const layer_field *f = type->fields;
    while (f && f->name && strcmp(f->name, name) != 0) f++;
    return f && f->name ? f : NULL;
}

/* ---- writing ------------------------------------------------------------------------------------- */

/* Takes the value over. */
static int put(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0) return 0;
    return error_set("%s: no memory, or text that is not UTF-8", key);
}

static json_t *write_layers(const layer *parent, int depth);

static int put_layer(json_t *object, const layer *l, int depth)
{
    const layer_type *type = l->type, *shipped = type_named(type->name, layer_types);
    if (depth > DEEPEST) return layer_refuse(l, "nested deeper than %d", DEEPEST);
    if (shipped && shipped != type) return layer_refuse(l, "a shipped type has that name, rename yours");
    if (type->options_size && !type->fields) return layer_refuse(l, "its options have no table of fields");
    if (field_named(type, "type") || field_named(type, "layers"))
        return layer_refuse(l, "an option may be called neither type nor layers");
    if (put(object, "type", json_string(type->name))) return -1;
    for (const layer_field *f = type->fields; f && f->name; f++)
        if (put(object, f->name, write_option(f, (const char *)l->options + f->offset))) return -1;
    return l->children ? put(object, "layers", write_layers(l, depth + 1)) : 0;
}

static json_t *write_layers(const layer *parent, int depth)
{
    json_t *list = json_array();
    for (int i = 0; i < parent->children; i++) {
        json_t *object = json_object();
        if (json_array_append_new(list, object)) error_set("no memory");
        else if (put_layer(object, parent->child[i], depth) == 0) continue;
        error_within("layer %d: ", i);
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *as_string(const json_t *value)
{
    size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17), size = json_dumpb(value, NULL, 0, flags);
    char *text = malloc(size + 1);
    bool good = text && size > 0 && json_dumpb(value, text, size, flags) == size;
    json_t *string = good ? json_stringn(text, size) : NULL;
    free(text);
    return string;
}

static int count_layers(const layer *l)
{
    int count = 1;
    for (int i = 0; i < l->children; i++) count += count_layers(l->child[i]);
    return count;
}

json_t *architecture_write(const net *n)
{
    int count = count_layers(n->root) - 1;
    if (count > MOST_LAYERS) error_set("%d layers, expected at most %d", count, MOST_LAYERS);
    json_t *layers = count > MOST_LAYERS ? NULL : write_layers(n->root, 1);
    if (!layers) return NULL;
    json_t *all = json_pack("{s:o, s:o}", "input", safetensors_sizes(n->input), "layers", layers);
    json_t *string = all ? as_string(all) : NULL;
    if (!string) error_set("no memory for the architecture");
    json_decref(all);
    return string;
}

/* ---- reading ------------------------------------------------------------------------------------- */

/* Read twice: nothing is made before all of it was looked at. */
typedef struct reading {
    const char *text;
    const net_known *known;
    bool make;
    int layers; /* so far */
} reading;

typedef struct layers {
    layer **layer;
    int count;
} layers;

static void drop(layers *list)
{
    while (list->count > 0) layer_free(list->layer[--list->count]);
    free(list->layer);
}

/* 0 where nothing was wrong with it. */
static int refuse_json(const reading *r, const json_walk *w)
{
    return w->why[0] ? error_set("%s, byte %td of the architecture", w->why, w->at - r->text) : 0;
}

static int read_value(const reading *r, const layer_type *type, const layer_field *f, json_walk *w,
                      void *options)
{
    json_t *value = json_leaf(w, w->value);
    if (!value) return refuse_json(r, w);
    bool read = read_option(f, value, r->known, (char *)options + f->offset);
    int status = read ? 0 : refuse_option(type, f, value);
    json_decref(value);
    return status;
}

static int read_options(const reading *r, const layer_type *type, json_piece given, void *options)
{
    uint64_t met = 0;
    json_walk w = json_begin(given, '{');
    while (json_next(&w)) {
        if (json_says(w.name, "type") || json_says(w.name, "layers")) continue;
        const layer_field *f = type->fields;
        while (f && f->name && !json_says(w.name, f->name)) f++;
        if (!f || !f->name)
            return error_set("%s: option %s is not known", type->name, json_show_text(w.name).text);
        uint64_t bit = f - type->fields < 64 ? UINT64_C(1) << (f - type->fields) : 0;
        if (met & bit) return error_set("%s: option %s is there twice", type->name, f->name);
        met |= bit;
        if (read_value(r, type, f, &w, options)) return -1;
    }
    return refuse_json(r, &w);
}

/* Its type and its layers, as pieces; empty where it has none. */
static int read_members(const reading *r, json_piece given, json_piece *type, json_piece *below)
{
    if (given.at[0] != '{') return error_set("%s has no type", json_show(given).text);
    json_walk w = json_begin(given, '{');
    while (json_next(&w)) {
        bool is_type = json_says(w.name, "type");
        json_piece *piece = is_type ? type : json_says(w.name, "layers") ? below : NULL;
        if (piece && piece->size) return error_set("%s is there twice", is_type ? "type" : "layers");
        if (piece) *piece = w.value;
    }
    return refuse_json(r, &w);
}

static const layer_type *read_type(const reading *r, json_piece given, json_piece name)
{
    char text[128];
    json_walk w = { .why = "" };
    if (!name.size || name.at[0] != '"') {
        error_set("%s has no type", json_show(given).text);
        return NULL;
    }
    const layer_type *type = NULL;
    if (name.size <= sizeof text && json_text(&w, name, text)) {
        type = type_named(text, layer_types);
        if (!type) type = type_named(text, r->known->types);
    }
    if (w.why[0]) refuse_json(r, &w);
    else if (!type) error_set("type '%s' is not known; hand it to net_load", json_show_text(name).text);
    return type;
}

static int read_layers(reading *r, json_piece list, int depth, layers *to);

/* A layer where it is to be made. */
static int read_layer(reading *r, json_piece given, int depth, layer **to)
{
    json_piece name = { 0 }, list = { 0 };
    layers below = { 0 };
    const layer_type *type = read_members(r, given, &name, &list) ? NULL : read_type(r, given, name);
    if (!type) return -1;
    void *options = calloc(1, type->options_size + 1);
    int status = options ? read_options(r, type, given, options) : error_set("%s: no memory", type->name);
    if (status == 0 && list.size) status = read_layers(r, list, depth + 1, &below);
    if (status == 0 && r->make) {
        *to = layer_new(type, options, below.count, below.layer);
        below.count = 0; /* they are its own now, or freed */
        status = *to ? 0 : -1;
    }
    drop(&below);
    free(options);
    return status;
}

static int read_layers(reading *r, json_piece list, int depth, layers *to)
{
    if (list.at[0] != '[') return error_set("layers is %s, expected a list", json_show(list).text);
    if (depth > DEEPEST) return error_set("layers are nested deeper than %d", DEEPEST);
    ptrdiff_t count = r->make ? json_count(list, '[') : 0;
    if (r->make && !(to->layer = calloc((size_t)count + 1, sizeof *to->layer)))
        return error_set("no memory for %td layers", count);
    json_walk w = json_begin(list, '[');
    for (int i = 0; json_next(&w); i++) {
        layer *l = NULL;
        int status = ++r->layers > MOST_LAYERS
                         ? error_set("a layer too many, expected at most %d", MOST_LAYERS)
                         : read_layer(r, w.value, depth, &l);
        if (status) return error_within("layer %d: ", i);
        if (l) to->layer[to->count++] = l;
    }
    return refuse_json(r, &w);
}

/* The sizes of an image and its layers, as pieces. */
static int read_whole(const reading *r, json_piece *sizes, json_piece *list)
{
    json_walk w = json_begin((json_piece){ r->text, strlen(r->text) }, '{');
    while (json_next(&w)) {
        json_piece *piece = json_says(w.name, "input") ? sizes : json_says(w.name, "layers") ? list : NULL;
        if (!piece || piece->size)
            return error_set("architecture: %s is %s", json_show_text(w.name).text,
                             piece ? "there twice" : "not known");
        *piece = w.value;
    }
    if (w.why[0]) return refuse_json(r, &w);
    if (sizes->size && list->size) return 0;
    return error_set("architecture: it has no %s", sizes->size ? "layers" : "input");
}

static int read_input(const reading *r, json_piece sizes, shape *input)
{
    json_walk w = { .why = "" };
    json_t *value = json_leaf(&w, sizes);
    int status = value ? 0 : refuse_json(r, &w);
    if (value && !safetensors_shape(value, input))
        status = error_set("architecture: input is %s, expected the sizes of an image",
                           safetensors_show(value).text);
    json_decref(value);
    return status;
}

net *architecture_read(const char *text, net_known known)
{
    net *n = NULL;
    shape input;
    layers list = { 0 };
    json_piece sizes = { 0 }, below = { 0 };
    reading look = { text, &known, false, 0 }, made = { text, &known, true, 0 };
    if (read_whole(&look, &sizes, &below) == 0 && read_input(&look, sizes, &input) == 0 &&
        read_layers(&look, below, 1, &list) == 0 && read_layers(&made, below, 1, &list) == 0) {
        n = net_new_of(input, list.count, list.layer);
        list.count = 0; /* they are its own now, or freed */
    }
    drop(&list);
    return n;
}
