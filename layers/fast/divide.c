/* divide.c: the work of a layer, the threads that share it, and the division of a call among them. */
#include "layers/fast/algorithms.h"
#include "tensor/counts.h"
#include "tensor/parallel.h"

/* ---- work ------------------------------------------------------------------------------------------- */

double layer_products(const st_layer *l, ptrdiff_t images)
{
    const double products_a_time = 50; /* in the time of reading or writing an element */
    return l->flops / products_a_time * (double)images / (double)l->x.n[0];
}

double layer_work(const st_layer *l, ptrdiff_t images)
{
    double elements =
        (double)st_shape_numel(l->x, l->type->name) + (double)st_shape_numel(l->y, l->type->name);
    return elements * (double)images / (double)l->x.n[0] + layer_products(l, images);
}

int layer_threads_for(const st_layer_run *run, double work)
{
    return work < run->least_work ? 1 : (int)smallest(run->threads, st_num_threads());
}

int layer_call_threads(const st_call *c)
{
    const st_layer_run *run = c->layer->impl->run;
    return run->shared_out ? 1 : layer_threads_for(run, layer_work(c->layer, c->images));
}

/* A call of parallel work runs in its own thread, which has a number. */
typedef struct numbered_work {
    parallel_work *work;
    void *context;
    int thread;
} numbered_work;

static void run_numbered(ptrdiff_t i, int thread, void *context)
{
    const numbered_work *n = context;
    n->work(i, n->thread + thread, n->context);
}

void layer_each(const st_call *c, int threads, ptrdiff_t count, parallel_work *work, void *context)
{
    parallel_for((int)smallest(layer_call_threads(c), threads), count, run_numbered,
                 &(numbered_work){ work, context, c->thread });
}

layer_division layer_undivided(const st_call *c)
{
    return (layer_division){ .threads = layer_call_threads(c), .time = 2 };
}

void layer_try_axis(layer_division *d, int axis, ptrdiff_t all, ptrdiff_t unit, double again)
{
    const ptrdiff_t units = ceil_div(all, unit), parts = smallest(units, d->threads);
    const double most = (double)smallest(ceil_div(units, parts) * unit, all) / (double)all,
                 time = most + again * (1 - most);
    if (time < d->time) *d = (layer_division){ axis, d->threads, all, unit, parts, time };
}

ptrdiff_t layer_part(const layer_division *d, ptrdiff_t i, ptrdiff_t *count)
{
    const ptrdiff_t units = ceil_div(d->all, d->unit), first = units * i / d->parts * d->unit;
    *count = smallest(units * (i + 1) / d->parts * d->unit, d->all) - first;
    return first;
}
