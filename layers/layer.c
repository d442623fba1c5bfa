/* layer.c: making, freeing and visiting layers. */
#include "layers/layer.h"
#include "layers/layer_impl.h"
#include "tensor/array.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments --------------------------------------------------------------------------------- */

bool layer_given(const st_layer *l, const char *who)
{
    if (!l || !l->impl) st_error_set("%s: the layer is NULL", who);
    return l && l->impl;
}

bool layer_call_given(const st_call *c, const char *who)
{
    return layer_given(c ? c->layer : NULL, who);
}

/* ---- making and freeing ------------------------------------------------------------------------ */

/* Tests if child i is in the list before i, too. */
static bool repeated(st_layer *const child[], int i)
{
    for (int k = 0; k < i; k++)
        if (child[k] == child[i]) return true;
    return false;
}

static int check(const st_layer_type *type, int children, st_layer *const child[])
{
    if (!type) return st_error_set("st_layer_new: the type is NULL");
    if (!type->name || !type->plan || !type->forward || !type->backward)
        return st_error_set("st_layer_new: type %s lacks %s", type->name ? type->name : "?",
                            !type->name      ? "a name"
                            : !type->plan    ? "plan"
                            : !type->forward ? "forward"
                                             : "backward");
    if (options_reach(type->name, type->fields, type->options_size)) return -1;
    if (children > 0 && !child) return st_error_set("%s: the list of layers is NULL", type->name);
    if (type->children == ST_LAYER_ANY ? children < 0 : children != type->children)
        return st_error_set("%s: holds %d layer%s, expected %s%d", type->name, children,
                            children == 1 ? "" : "s", type->children < 0 ? "at least " : "",
                            type->children < 0 ? 0 : type->children);
    int names = 0;
    while (type->child_names && type->child_names[names]) names++;
    if (type->child_names && children > names)
        return st_error_set("%s: holds %d layers, expected at most %d", type->name, children, names);
    for (int i = 0; i < children; i++) {
        if (!child[i] || !child[i]->impl)
            return st_error_set("%s: layer %d of %d is NULL", type->name, i, children);
        if (child[i]->impl->has_parent || repeated(child, i))
            return st_error_set("%s: layer %d (%s) is part of a net already", type->name, i,
                                child[i]->type->name);
        if (child[i]->impl->run)
            return st_error_set("%s: layer %d (%s) is built already", type->name, i, child[i]->type->name);
        if (child[i]->impl->depth + 1 > LAYER_DEPTH)
            return st_error_set("%s: layers are nested deeper than %d", type->name, LAYER_DEPTH);
    }
    return 0;
}

static st_layer *allocate(const st_layer_type *type, const void *options, bool resolved, int children,
                          st_layer *const child[])
{
    if (check(type, children, child)) return NULL;
    st_layer *l = array_new(type->name, 1, sizeof *l);
    if (!l) return NULL;
    l->type = type;
    l->impl = array_new(type->name, 1, sizeof *l->impl);
    l->child = array_new(type->name, children, sizeof *l->child);
    void *own = type->options_size ? array_new(type->name, 1, type->options_size) : NULL;
    l->options = own;
    if (own && options) memcpy(own, options, type->options_size);
    if (!l->impl || !l->child || (type->options_size && !own) ||
        (own && !resolved && st_options_resolve(type->name, type->fields, own))) {
        st_layer_free(l);
        return NULL;
    }
    for (int i = 0; i < children; i++) {
        l->child[i] = child[i];
        child[i]->impl->has_parent = true;
        if (l->impl->depth <= child[i]->impl->depth) l->impl->depth = child[i]->impl->depth + 1;
    }
    l->children = children;
    return l;
}

static st_layer *make(const st_layer_type *type, const void *options, bool resolved, int children,
                      st_layer *const child[])
{
    st_layer *l = allocate(type, options, resolved, children, child);
    /* Backwards: a layer that is listed twice is freed once, at its first place. */
    for (int i = children > 0 ? children - 1 : -1; i >= 0 && !l && child; i--)
        if (child[i] && child[i]->impl && !repeated(child, i) && !child[i]->impl->has_parent)
            st_layer_free(child[i]);
    return l;
}

st_layer *st_layer_new(const st_layer_type *type, const void *options, int children, st_layer *const child[])
{
    return make(type, options, false, children, child);
}

st_layer *st_layer_clone(const st_layer *l)
{
    if (!layer_given(l, "st_layer_clone")) return NULL;
    st_layer **child = array_new(l->type->name, l->children, sizeof *child);
    if (!child) return NULL;
    for (int i = 0; i < l->children; i++) child[i] = st_layer_clone(l->child[i]);
    st_layer *clone = make(l->type, l->options, true, l->children, child);
    free(child);
    return clone;
}

void st_layer_free(st_layer *l)
{
    if (!l) return;
    for (int i = 0; i < l->children; i++) st_layer_free(l->child[i]);
    layer_run_free(l); /* after the children, which refer to it */
    free(l->child);
    free(l->plan);
    free(l->impl);
    free((void *)l->options);
    free(l);
}

/* ---- messages ---------------------------------------------------------------------------------- */

int st_layer_refuse(const st_layer *l, const char *format, ...)
{
    char text[ST_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format ? format : "refused", arguments);
    va_end(arguments);
    return layer_given(l, "st_layer_refuse") ? st_error_set("%s: %s", l->type->name, text) : -1;
}

double layer_option(const st_layer *l, const char *name)
{
    return st_options_number(l->type->fields, l->options, name);
}

/* ---- the tree ---------------------------------------------------------------------------------- */

int layer_count(const st_layer *root)
{
    int count = root != NULL;
    for (int i = 0; root && i < root->children; i++) count += layer_count(root->child[i]);
    return count;
}

int layer_child_path(char to[ST_LAYER_PATH], const st_layer *l, const char *path, int i)
{
    const char *const *names = l->type->child_names, *dot = path[0] ? "." : "";
    if (names) return snprintf(to, ST_LAYER_PATH, "%s%s%s", path, dot, names[i]);
    return snprintf(to, ST_LAYER_PATH, "%s%s%d", path, dot, i);
}

static void visit_below(st_layer *l, const char *path, void (*visit)(st_layer *, const char *, void *),
                        void *context)
{
    visit(l, path, context);
    for (int i = 0; i < l->children; i++) {
        char below[ST_LAYER_PATH];
        layer_child_path(below, l, path, i);
        visit_below(l->child[i], below, visit, context);
    }
}

void st_layer_visit(st_layer *root, void (*visit)(st_layer *l, const char *path, void *context),
                    void *context)
{
    if (!visit) st_error_set("st_layer_visit: the function is NULL");
    else if (root) visit_below(root, "", visit, context);
}
