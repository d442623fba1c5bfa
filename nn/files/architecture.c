/* architecture.c: a net's layers as JSON and back, by each type's table of fields. */
#include "nn/files/files_impl.h"
#include "layers/layer_impl.h"
#include "nn/files/json.h"
#include "tensor/array.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LAYERS = 1 << 14 }; /* of a net, since a layer takes far more memory than its text */

/* ---- options ------------------------------------------------------------------------------------- */

/* The name of what a ST_FIELD_NAMED option points to. */
static const char *name_of(const void *named)
{
    return *(const char *const *)named;
}

json_t *json_option(const st_field *f, const void *options)
{
    const void *at = (const char *)options + f->offset;
    const int *i = at;
    switch (f->kind) {
    case ST_FIELD_INT: return json_integer(*i);
    case ST_FIELD_PAIR: return json_pack("[i, i]", i[0], i[1]);
    case ST_FIELD_REAL: return json_number(*(const double *)at);
    case ST_FIELD_BOOL: return json_boolean(*(const bool *)at);
    case ST_FIELD_CHOICE: return json_string(f->choices[*i]);
    case ST_FIELD_NAMED: return json_string(name_of(*(const void *const *)at));
    }
    return NULL;
}

/* A 0 in a file is the number, not the default. */
static bool read_int(const json_t *given, int *to)
{
    json_int_t value = json_integer_value(given);
    if (!json_is_integer(given) || value <= ST_ZERO_INT || value > INT_MAX) return false;
    *to = value == 0 ? ST_ZERO_INT : (int)value;
    return true;
}

static bool read_pair(const json_t *given, int *to)
{
    return json_array_size(given) == 2 && read_int(json_array_get(given, 0), to) &&
           read_int(json_array_get(given, 1), to + 1);
}

static bool read_real(const st_field *f, const json_t *given, double *to)
{
    *to = json_number_value(given);
    if (*to == 0 && f->fallback != 0) *to = ST_ZERO;
    return json_is_number(given);
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

static bool read_option(const st_field *f, const json_t *given, const st_net_known *known, void *at)
{
    const char *name = json_string_value(given);
    switch (f->kind) {
    case ST_FIELD_INT: return read_int(given, at);
    case ST_FIELD_PAIR: return read_pair(given, at);
    case ST_FIELD_REAL: return read_real(f, given, at);
    case ST_FIELD_BOOL: *(bool *)at = json_is_true(given); return json_is_boolean(given);
    case ST_FIELD_CHOICE: return name && read_choice(name, f->choices, at);
    case ST_FIELD_NAMED: return name && read_named(name, known->named, at);
    }
    return false;
}

static const char *const expected[] = {
    [ST_FIELD_INT] = "a whole number", [ST_FIELD_PAIR] = "two whole numbers",
    [ST_FIELD_REAL] = "a number",      [ST_FIELD_BOOL] = "true or false",
    [ST_FIELD_CHOICE] = "one of",      [ST_FIELD_NAMED] = "a name given to st_net_load",
};

static int refuse_option(const st_layer_type *type, const st_field *f, const json_t *given)
{
    char choices[128] = "";
    size_t used = 0;
    for (const char *const *c = f->kind == ST_FIELD_CHOICE ? f->choices : NULL;
         c && *c && used < sizeof choices; c++)
        used += (size_t)snprintf(choices + used, sizeof choices - used, " %s", *c);
    if (f->kind == ST_FIELD_INT && fabs(json_number_value(given)) > INT_MAX)
        snprintf(choices, sizeof choices, " of at most %d", INT_MAX);
    return st_error_set("%s: %s is %s, expected %s%s", type->name, f->name, json_show(given).text,
                        expected[f->kind], choices);
}

/* ---- types --------------------------------------------------------------------------------------- */

static const st_layer_type *type_named(const char *name, const st_layer_type *const *types)
{
    while (types && *types && strcmp((*types)->name, name) != 0) types++;
    return types ? *types : NULL;
}

/* ---- writing ------------------------------------------------------------------------------------- */

/* Takes ownership of the value. */
static int put(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0) return 0;
    return st_error_set("%s: no memory, or text that is not UTF-8", key);
}

static json_t *write_layers(const st_layer *parent);

static int put_layer(json_t *object, const st_layer *l)
{
    const st_layer_type *type = l->type, *shipped = type_named(type->name, st_layer_types);
    if (shipped && shipped != type)
        return st_layer_refuse(l, "a type of the library has that name, rename yours");
    if (type->options_size && !type->fields)
        return st_layer_refuse(l, "its type has options but no table of fields");
    if (st_options_field(type->fields, "type") || st_options_field(type->fields, "layers"))
        return st_layer_refuse(l, "no option may be called type or layers");
    if (put(object, "type", json_string(type->name))) return -1;
    for (const st_field *f = type->fields; f && f->name; f++)
        if (put(object, f->name, json_option(f, l->options))) return -1;
    return l->children ? put(object, "layers", write_layers(l)) : 0;
}

static json_t *write_layers(const st_layer *parent)
{
    json_t *list = json_array();
    for (int i = 0; i < parent->children; i++) {
        json_t *object = json_object();
        if (json_array_append_new(list, object)) st_error_set("no memory");
        else if (put_layer(object, parent->child[i]) == 0) continue;
        st_error_within("layer %d: ", i);
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *as_string(const json_t *value)
{
    char *text = json_write(value);
    json_t *string = text ? json_string(text) : NULL;
    free(text);
    return string;
}

static int check_count(int layers)
{
    if (layers <= MOST_LAYERS) return 0;
    return st_error_set("%d layers, expected at most %d", layers, MOST_LAYERS);
}

json_t *architecture_write(const st_net *n)
{
    json_t *layers = check_count(layer_count(n->root) - 1) ? NULL : write_layers(n->root);
    if (!layers) return NULL;
    json_t *all = json_pack("{s:o, s:o}", "input", json_sizes(n->input), "layers", layers);
    json_t *string = all ? as_string(all) : NULL;
    if (!string) st_error_set("no memory for the architecture");
    json_decref(all);
    return string;
}

/* ---- reading ------------------------------------------------------------------------------------- */

typedef struct layers {
    st_layer **layer;
    int count;
} layers;

static void drop(layers *list)
{
    while (list->count > 0) st_layer_free(list->layer[--list->count]);
    free(list->layer);
}

/* The layers of a list and within them. */
static int count_given(json_t *list)
{
    size_t i;
    json_t *given;
    int count = (int)json_array_size(list);
    json_array_foreach(list, i, given) count += count_given(json_object_get(given, "layers"));
    return count;
}

static const st_layer_type *read_type(const json_t *given, const st_net_known *known)
{
    const char *name = json_string_value(json_object_get(given, "type"));
    const st_layer_type *type = name ? type_named(name, st_layer_types) : NULL;
    if (name && !type) type = type_named(name, known->types);
    if (!name) st_error_set("%s has no type", json_show(given).text);
    else if (!type)
        st_error_set("type '%s' is not known: a program that has it gives it to st_net_load",
                     show_text(name).text);
    return type;
}

static int read_options(const st_layer_type *type, json_t *given, const st_net_known *known, void *options)
{
    const char *name;
    json_t *value;
    json_object_foreach(given, name, value)
    {
        const st_field *f = st_options_field(type->fields, name);
        if (strcmp(name, "type") == 0 || strcmp(name, "layers") == 0) continue;
        if (!f) return st_error_set("%s: option %s is not known", type->name, show_text(name).text);
        if (!read_option(f, value, known, (char *)options + f->offset)) return refuse_option(type, f, value);
    }
    return 0;
}

static int read_layers(json_t *list, const st_net_known *known, layers *to);

/* NULL with an error. */
static st_layer *read_layer(json_t *given, const st_net_known *known)
{
    layers below = { 0 };
    st_layer *made = NULL;
    json_t *list = json_object_get(given, "layers");
    const st_layer_type *type = read_type(given, known);
    void *options = type ? array_new(type->name, 1, type->options_size) : NULL;
    if (options && read_options(type, given, known, options) == 0 &&
        (!list || read_layers(list, known, &below) == 0)) {
        made = st_layer_new(type, options, below.count, below.layer);
        below.count = 0; /* st_layer_new owns them */
    }
    drop(&below);
    free(options);
    return made;
}

static int read_layers(json_t *list, const st_net_known *known, layers *to)
{
    size_t i;
    json_t *given;
    if (!json_is_array(list)) return st_error_set("layers is %s, expected a list", json_show(list).text);
    if (!(to->layer = array_new("layers", (ptrdiff_t)json_array_size(list), sizeof *to->layer))) return -1;
    json_array_foreach(list, i, given)
    {
        if (!(to->layer[to->count] = read_layer(given, known))) return st_error_within("layer %zu: ", i);
        to->count++;
    }
    return 0;
}

static st_net *read_net(json_t *all, st_net_known known)
{
    st_shape input;
    layers list = { 0 };
    json_t *sizes = json_object_get(all, "input"), *below = json_object_get(all, "layers");
    st_net *n = NULL;
    if (!sizes || !below || json_object_size(all) != 2)
        st_error_set("%s, expected {\"input\": [...], \"layers\": [...]}", json_show(all).text);
    else if (!json_shape(sizes, &input))
        st_error_set("input is %s, expected an image's shape", json_show(sizes).text);
    else if (check_count(count_given(below)) == 0 && read_layers(below, &known, &list) == 0) {
        n = st_net_new_of(input, list.count, list.layer);
        list.count = 0; /* st_net_new_of owns them */
    }
    drop(&list);
    return n;
}

st_net *architecture_read(const char *text, st_net_known known)
{
    json_t *all = json_read(text, strlen(text), "architecture");
    st_net *n = all ? read_net(all, known) : NULL;
    json_decref(all);
    return n;
}

st_layer *st_layer_from_json(const char *json, st_net_known known)
{
    st_layer *l = NULL;
    if (!json) st_error_set("st_layer_from_json: the text is NULL");
    json_t *given = json ? json_read(json, strlen(json), "layer") : NULL;
    if (given && check_count(1 + count_given(json_object_get(given, "layers"))) == 0)
        l = read_layer(given, &known);
    json_decref(given);
    return l;
}
