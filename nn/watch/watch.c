/* watch.c: while a net is watched, the hooks of each layer call somebody else. */
#include "nn/watch/watch.h"
#include "layers/layer_impl.h"

#include <stdlib.h>

typedef struct watched {
    layer_hooks own;
    layer *of;
    int number;
    char path[LAYER_PATH];
    const watch *w;
} watched;

struct watch {
    watch_around *around;
    void *context;
    int count;
    watched *layer;
};

static const watched *watched_of(const st_call *c)
{
    return c->layer->impl->watch;
}

/* ---- hooks ------------------------------------------------------------------------------------------ */

static void call(const st_call *c, watch_hook hook, tensor x, tensor y, tensor dy, tensor dx)
{
    const watched *at = watched_of(c);
    watch_call w = { c, at->of, at->number, at->path, hook, x, y, dy, dx };
    at->w->around(&w, at->w->context);
}

static void forward(const st_call *c, tensor x, tensor y)
{
    call(c, WATCH_FORWARD, x, y, (tensor){ 0 }, (tensor){ 0 });
}

static void backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    call(c, WATCH_BACKWARD, x, y, dy, dx);
}

static void gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    call(c, WATCH_GRADIENT, x, y, dy, (tensor){ 0 });
}

void watch_run(const watch_call *w)
{
    const layer_hooks *own = &watched_of(w->c)->own;
    switch (w->hook) {
    case WATCH_FORWARD: own->forward(w->c, w->x, w->y); break;
    case WATCH_BACKWARD: own->backward(w->c, w->x, w->y, w->dy, w->dx); break;
    case WATCH_GRADIENT: own->gradient(w->c, w->x, w->y, w->dy); break;
    }
}

/* ---- beginning and ending ------------------------------------------------------------------------------ */

static void count_layer(layer *l, const char *path, void *context)
{
    (void)l, (void)path;
    ++*(int *)context;
}

static void watch_layer(layer *l, const char *path, void *context)
{
    watch *w = context;
    watched *at = &w->layer[w->count];
    *at = (watched){ .own = l->impl->hooks, .of = l, .number = w->count++, .w = w };
    for (int i = 0; i < LAYER_PATH - 1 && path[i]; i++) at->path[i] = path[i];
    if (l->children > 0) return;
    l->impl->watch = at;
    l->impl->hooks = (layer_hooks){ .forward = forward, .backward = backward, .gradient = gradient };
}

watch *watch_begin(net *n, watch_around *around, void *context)
{
    int layers = 0;
    layer_visit(n->root, count_layer, &layers);
    watch *w = calloc(1, sizeof *w);
    if (w) *w = (watch){ around, context, 0, calloc((size_t)layers, sizeof *w->layer) };
    if (w && w->layer) {
        layer_visit(n->root, watch_layer, w);
        return w;
    }
    free(w);
    error_set("watch_begin: no memory for %d layers", layers);
    return NULL;
}

void watch_end(watch *w)
{
    if (!w) return;
    for (int i = 0; i < w->count; i++) w->layer[i].of->impl->hooks = w->layer[i].own;
    free(w->layer);
    free(w);
}
