/* ranges.c: what layers are given in a calibration: the greatest magnitude of each one's input. */
#include "nn/export_c/writer.h"
#include "nn/watch/watch.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST_SAMPLES = 1024 };

static void count_layer(st_layer *l, const char *path, void *context)
{
    (void)l, (void)path;
    ++*(ptrdiff_t *)context;
}

static void name_layer(st_layer *l, const char *path, void *context)
{
    (void)path;
    range **at = context;
    (*at)++->of = l;
}

/* Called by several threads with different images. */
static void look(const st_watch_call *c, void *context)
{
    range *r = (range *)context + c->number;
    float most = 0;
    for (ptrdiff_t i = 0; i < st_numel(c->x); i++) most = fmaxf(most, fabsf((float)st_data(c->x)[i]));
    for (float seen = r->most; most > seen && !atomic_compare_exchange_weak(&r->most, &seen, most);) {
    }
    st_watch_run(c);
}

/* Runs the net on the samples, a batch at a time. */
static void run(st_net *n, const st_dataset *d)
{
    const ptrdiff_t count = d->count < MOST_SAMPLES ? d->count : MOST_SAMPLES;
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, n->batch)),
              target = st_tensor_new(st_shape_with_batch(d->target, n->batch));
    for (ptrdiff_t first = 0; first < count && !st_error(); first += n->batch) {
        const ptrdiff_t images = count - first < n->batch ? count - first : n->batch;
        st_tensor part = st_narrow(x, 0, 0, images);
        if (st_dataset_batch(d, NULL, first, images, part, st_narrow(target, 0, 0, images)) == 0)
            st_net_forward(n, part, ST_PREDICT);
    }
    st_tensor_free(x), st_tensor_free(target);
}

range *ranges_measure(st_net *n, const st_dataset *d)
{
    ptrdiff_t count = 0;
    st_layer_visit(n->root, count_layer, &count);
    range *all = calloc((size_t)count + 1, sizeof *all), *at = all;
    if (!all) st_error_set("no memory for the ranges of %td layers", count);
    else st_layer_visit(n->root, name_layer, &at);
    st_watch *w = all ? st_watch_begin(n, look, all) : NULL;
    if (w) run(n, d);
    st_watch_end(w);
    if (!st_error()) return all;
    free(all);
    return NULL;
}
