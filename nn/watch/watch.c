/* watch.c: while it is watched, each layer has a copy of its type whose hooks call somebody else. */
#include "nn/watch/watch.h"

#include <stdlib.h>

/* The type comes first: a hook finds the rest by its layer's type. */
typedef struct watched {
    layer_type type;
    const layer_type *own;
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

static const watched *watched_of(const layer *l)
{
    return (const watched *)l->type;
}

/* ---- hooks ------------------------------------------------------------------------------------------ */

static void call(layer *l, watch_hook hook, tensor x, tensor y, tensor dy, tensor dx)
{
    const watched *at = watched_of(l);
    watch_call c = { l, at->of, at->number, at->path, hook, x, y, dy, dx };
    at->w->around(&c, at->w->context);
}

static void forward(layer *l, tensor x, tensor y)
{
    call(l, WATCH_FORWARD, x, y, (tensor){ 0 }, (tensor){ 0 });
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    call(l, WATCH_BACKWARD, x, y, dy, dx);
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    call(l, WATCH_GRADIENT, x, y, dy, (tensor){ 0 });
}

void watch_run(const watch_call *c)
{
    const layer_type *own = watched_of(c->l)->own;
    switch (c->hook) {
    case WATCH_FORWARD: own->forward(c->l, c->x, c->y); break;
    case WATCH_BACKWARD: own->backward(c->l, c->x, c->y, c->dy, c->dx); break;
    case WATCH_GRADIENT: own->gradient(c->l, c->x, c->y, c->dy); break;
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
    *at = (watched){ .type = *l->type, .own = l->type, .of = l, .number = w->count++, .w = w };
    for (int i = 0; i < LAYER_PATH - 1 && path[i]; i++) at->path[i] = path[i];
    if (l->children > 0) return;
    at->type.forward = forward;
    if (at->own->backward) at->type.backward = backward;
    if (at->own->gradient) at->type.gradient = gradient;
    l->type = &at->type;
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
    for (int i = 0; i < w->count; i++) w->layer[i].of->type = w->layer[i].own;
    free(w->layer);
    free(w);
}
