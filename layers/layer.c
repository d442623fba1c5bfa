/* layer.c: making, describing and ending layers; options are validated against the type's table. */
#include "layers/layer.h"
#include "layers/run.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---------------------------------------------------------------------------------- */

static int refuse_value(const layer_type *type, const layer_field *field, double value)
{
    char range[64];
    if (field->below != 0)
        snprintf(range, sizeof range, "at least %g and below %g", field->least, field->below);
    else snprintf(range, sizeof range, "at least %g", field->least);
    return error_set("%s: %s is %g, expected %s", type->name, field->name, value, range);
}

static bool in_range(const layer_field *field, double value)
{
    return isfinite(value) && value >= field->least && (field->below == 0 || value < field->below);
}

static int settle_int(const layer_type *type, const layer_field *field, int *value)
{
    if (*value == 0) *value = (int)field->fallback;
    return in_range(field, *value) ? 0 : refuse_value(type, field, *value);
}

static int settle_real(const layer_type *type, const layer_field *field, double *value)
{
    if (*value == 0) *value = field->fallback;
    return in_range(field, *value) ? 0 : refuse_value(type, field, *value);
}

static int settle_choice(const layer_type *type, const layer_field *field, const int *value)
{
    int count = 0;
    while (field->choices[count]) count++;
    if (*value >= 0 && *value < count) return 0;
    return error_set("%s: %s is choice %d, expected 0 (%s) to %d (%s)", type->name, field->name, *value,
                     field->choices[0], count - 1, field->choices[count - 1]);
}

static int settle(const layer_type *type, const layer_field *field, void *options)
{
    void *at = (char *)options + field->offset;
    switch (field->kind) {
    case FIELD_INT: return settle_int(type, field, at);
    case FIELD_PAIR: return settle_int(type, field, at) || settle_int(type, field, (int *)at + 1) ? -1 : 0;
    case FIELD_REAL: return settle_real(type, field, at);
    case FIELD_CHOICE: return settle_choice(type, field, at);
    case FIELD_BOOL: return 0;
    case FIELD_NAMED:
        if (*(void **)at) return 0;
        return error_set("%s: %s is missing", type->name, field->name);
    }
    return error_set("%s: field %s is of unknown kind %d", type->name, field->name, (int)field->kind);
}

static void *settled_options(const layer_type *type, const void *given)
{
    void *options = calloc(1, type->options_size);
    if (!options) {
        error_set("%s: no memory", type->name);
        return NULL;
    }
    if (given) memcpy(options, given, type->options_size);
    for (const layer_field *f = type->fields; f && f->name; f++)
        if (settle(type, f, options)) {
            free(options);
            return NULL;
        }
    return options;
}

/* ---- making and ending ------------------------------------------------------------------------- */

/* Whether child i stands in the list before, too. */
static bool repeated(layer *const child[], int i)
{
    for (int k = 0; k < i; k++)
        if (child[k] == child[i]) return true;
    return false;
}

static int may_hold(const layer_type *type, int children, layer *const child[])
{
    if (type->children == LAYER_ANY ? children < 0 : children != type->children)
        return error_set("%s: holds %d layers, expected %d", type->name, children, type->children);
    int names = 0;
    while (type->child_names && type->child_names[names]) names++;
    if (type->child_names && children > names)
        return error_set("%s: holds %d layers, expected at most %d", type->name, children, names);
    for (int i = 0; i < children; i++) {
        if (!child[i]) return error_set("%s: layer %d of %d is NULL", type->name, i, children);
        if (child[i]->held || repeated(child, i))
            return error_set("%s: layer %d (%s) is part of a net already", type->name, i,
                             child[i]->type->name);
    }
    return 0;
}

static layer *allocate(const layer_type *type, const void *options, int children, layer *const child[])
{
    if (!type) {
        error_set("layer_new: the type is NULL");
        return NULL;
    }
    if (!type->name || !type->plan || !type->forward || !type->backward) {
        error_set("layer_new: type %s lacks a name, plan, forward or backward",
                  type->name ? type->name : "?");
        return NULL;
    }
    if (may_hold(type, children, child)) return NULL;
    layer *l = calloc(1, sizeof *l);
    if (!l) {
        error_set("%s: no memory", type->name);
        return NULL;
    }
    l->type = type;
    if (type->options_size && !(l->options = settled_options(type, options))) goto failed;
    if (children > 0 && !(l->child = calloc((size_t)children, sizeof *child))) {
        error_set("%s: no memory", type->name);
        goto failed;
    }
    for (int i = 0; i < children; i++) {
        l->child[i] = child[i];
        child[i]->held = true;
    }
    l->children = children;
    return l;
failed:
    free((void *)l->options);
    free(l);
    return NULL;
}

layer *layer_new(const layer_type *type, const void *options, int children, layer *const child[])
{
    layer *l = allocate(type, options, children, child);
    /* From the last on: what is there twice is freed where it is the first. */
    for (int i = children - 1; i >= 0 && !l; i--)
        if (child[i] && !repeated(child, i) && !child[i]->held) layer_free(child[i]);
    return l;
}

layer *layer_clone(const layer *l)
{
    layer **child = calloc((size_t)l->children + 1, sizeof *child); /* one more: calloc(0) may be NULL */
    if (!child) {
        error_set("%s: no memory", l->type->name);
        return NULL;
    }
    for (int i = 0; i < l->children; i++) child[i] = layer_clone(l->child[i]);
    layer *clone = layer_new(l->type, l->options, l->children, child);
    free(child);
    return clone;
}

void layer_free(layer *l)
{
    if (!l) return;
    for (int i = 0; i < l->children; i++) layer_free(l->child[i]);
    layer_run_free(l); /* after the children, which look at it */
    free(l->child);
    free((void *)l->options);
    free(l);
}

/* ---- describing -------------------------------------------------------------------------------- */

int layer_refuse(const layer *l, const char *format, ...)
{
    char text[ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set("%s: %s", l->type->name, text);
}

/* "name=value" of a field that differs from its default; an empty text where it does not. */
static void field_text(const layer_field *f, const void *options, char *to, size_t size)
{
    const void *at = (const char *)options + f->offset;
    const int *i = at;
    to[0] = '\0';
    switch (f->kind) {
    case FIELD_INT:
        if (*i != (int)f->fallback) snprintf(to, size, "%s=%d", f->name, *i);
        break;
    case FIELD_PAIR:
        if (i[0] != (int)f->fallback || i[1] != (int)f->fallback)
            snprintf(to, size, "%s=%dx%d", f->name, i[0], i[1]);
        break;
    case FIELD_REAL:
        if (*(const double *)at != f->fallback) snprintf(to, size, "%s=%g", f->name, *(const double *)at);
        break;
    case FIELD_BOOL:
        if (*(const bool *)at) snprintf(to, size, "%s", f->name);
        break;
    case FIELD_CHOICE:
        if (*i != 0) snprintf(to, size, "%s=%s", f->name, f->choices[*i]);
        break;
    case FIELD_NAMED: snprintf(to, size, "%s=%s", f->name, **(const char *const *const *)at); break;
    }
}

size_t layer_describe(const layer *l, char *to, size_t size)
{
    size_t used = 0;
    const char *separator = "(";
#define APPEND(...)                                                                                          \
    used += (size_t)snprintf(used < size ? to + used : NULL, used < size ? size - used : 0, __VA_ARGS__)
    APPEND("%s", l->type->name);
    for (const layer_field *f = l->type->fields; f && f->name; f++) {
        char text[128];
        field_text(f, l->options, text, sizeof text);
        if (!text[0]) continue;
        APPEND("%s%s", separator, text);
        separator = ", ";
    }
    if (separator[0] == ',') APPEND(")");
#undef APPEND
    return used;
}

static void visit_below(layer *l, const char *path, void (*visit)(layer *, const char *, void *),
                        void *context)
{
    visit(l, path, context);
    for (int i = 0; i < l->children; i++) {
        char below[LAYER_PATH];
        const char *dot = path[0] ? "." : "";
        if (l->type->child_names) snprintf(below, sizeof below, "%s%s%s", path, dot, l->type->child_names[i]);
        else snprintf(below, sizeof below, "%s%s%d", path, dot, i);
        visit_below(l->child[i], below, visit, context);
    }
}

void layer_visit(layer *root, void (*visit)(layer *l, const char *path, void *context), void *context)
{
    if (root) visit_below(root, "", visit, context);
}
