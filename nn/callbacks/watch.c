/* watch.c: replaces the hooks of a net's layers by ones that call the user's function. */
#include "nn/callbacks/watch.h"
#include "layers/layer_impl.h"
#include "tensor/array.h"

#include <stdlib.h>

typedef struct watched {
    layer_hooks own;
    st_layer *of;
    int number;
    char path[ST_LAYER_PATH];
    const st_watch *w;
} watched;

struct st_watch {
    st_watch_function *around;
    void *context;
    int count;
    watched layer[];
};

static const watched *watched_of(const st_call *c)
{
    return c->layer->impl->watch;
}

/* ---- hooks ------------------------------------------------------------------------------------------ */

static void call(const st_call *c, st_watch_hook hook, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const watched *at = watched_of(c);
    st_watch_call w = { c, at->of, at->number, at->path, hook, x, y, dy, dx };
    at->w->around(&w, at->w->context);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    call(c, ST_WATCH_FORWARD, x, y, (st_tensor){ 0 }, (st_tensor){ 0 });
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    call(c, ST_WATCH_BACKWARD, x, y, dy, dx);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    call(c, ST_WATCH_GRADIENT, x, y, dy, (st_tensor){ 0 });
}

void st_watch_run(const st_watch_call *w)
{
    if (!w || !w->c || !w->c->layer || !watched_of(w->c)) {
        st_error_set("st_watch_run: expected the call that a watching function was given");
        return;
    }
    const layer_hooks *own = &watched_of(w->c)->own;
    switch (w->hook) {
    case ST_WATCH_FORWARD: own->forward(w->c, w->x, w->y); break;
    case ST_WATCH_BACKWARD: own->backward(w->c, w->x, w->y, w->dy, w->dx); break;
    case ST_WATCH_GRADIENT: own->gradient(w->c, w->x, w->y, w->dy); break;
    }
}

/* ---- beginning and ending ------------------------------------------------------------------------------ */

static void watch_layer(st_layer *l, const char *path, void *context)
{
    st_watch *w = context;
    watched *at = &w->layer[w->count];
    *at = (watched){ .own = l->impl->hooks, .of = l, .number = w->count++, .w = w };
    for (int i = 0; i < ST_LAYER_PATH - 1 && path[i]; i++) at->path[i] = path[i];
    if (l->children > 0) return;
    l->impl->watch = at;
    l->impl->hooks = (layer_hooks){
        .forward = forward,
        .backward = backward,
        .gradient = gradient,
        .prepare = l->impl->hooks.prepare,
        .whole = l->impl->hooks.whole,
    };
}

/* A hook of a watched layer finds the watch by its layer, which has one. */
static void find_watched(st_layer *l, const char *path, void *any)
{
    (void)path;
    *(bool *)any |= l->impl->watch != NULL;
}

st_watch *st_watch_begin(st_net *n, st_watch_function *around, void *context)
{
    bool any = false;
    if (!n || !around) st_error_set("st_watch_begin: the %s is NULL", n ? "function" : "net");
    else st_layer_visit(n->root, find_watched, &any);
    if (any) st_error_set("st_watch_begin: the net is watched already");
    if (!n || !around || any) return NULL;
    st_watch *w = array_new("st_watch_begin", 1, sizeof *w + (size_t)layer_count(n->root) * sizeof *w->layer);
    if (!w) return NULL;
    w->around = around, w->context = context;
    st_layer_visit(n->root, watch_layer, w);
    return w;
}

void st_watch_end(st_watch *w)
{
    if (!w) return;
    for (int i = 0; i < w->count; i++) {
        w->layer[i].of->impl->hooks = w->layer[i].own;
        w->layer[i].of->impl->watch = NULL;
    }
    free(w);
}
