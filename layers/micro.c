/* micro.c: which images make up a micro-batch, and what is gathered of them. */
#include "layers/micro.h"
#include "layers/run.h"
#include "tensor/counts.h"

#include <stdlib.h>

ptrdiff_t micro_start(const micro *m, int s)
{
    return m->batch * s / m->count;
}

ptrdiff_t micro_images(const micro *m, int k, ptrdiff_t *count)
{
    ptrdiff_t start = micro_start(m, m->first + k);
    *count = micro_start(m, m->first + k + 1) - start;
    return start - micro_start(m, m->first);
}

/* ---- a tree ------------------------------------------------------------------------------------------ */

static void find_gathers(layer *l, const char *path, void *context)
{
    (void)path;
    ptrdiff_t *most = context;
    if (l->type->gathers) *most = largest(*most, l->type->gathers(l));
}

static void free_cut(layer_run *run)
{
    tensor_free(run->apart);
    free(run->gathered);
    run->apart = (tensor){ 0 };
    run->gathered = NULL;
}

int layer_cut(layer *root, const micro *m)
{
    layer_run *run = root->run;
    ptrdiff_t numbers = 1;
    free_cut(run);
    run->ready = false;
    run->micro = m->count > 1 ? *m : (micro){ 0 };
    if (m->count < 2) return 0;
    layer_visit(root, find_gathers, &numbers);
    run->gathered = calloc((size_t)m->count, (size_t)numbers * sizeof *run->gathered);
    if (!run->gathered) return error_set("layer_cut: no memory for %d micro-batches", m->count);
    if (m->here == 1) return 0;
    run->apart = tensor_new(SHAPE(m->here, tensor_count(run->parameters)));
    return tensor_is_null(run->apart) ? -1 : 0;
}

void layer_uncut(layer *root)
{
    layer_run *run = root->run;
    free_cut(run);
    run->micro = (micro){ .largest = run->micro.largest };
}

bool layer_is_cut(const layer *root)
{
    return root->run->micro.largest > 0;
}

void layer_cut_batch(layer *root, ptrdiff_t batch)
{
    root->run->micro.batch = batch;
}

tensor layer_cut_gradients(const layer *root)
{
    return root->run->apart;
}

/* ---- hooks --------------------------------------------------------------------------------------------- */

const micro *layer_micro(const layer *l)
{
    return l->run->training && l->run->micro.count > 1 ? &l->run->micro : NULL;
}

int layer_micro_here(const layer *l)
{
    const micro *m = layer_micro(l);
    return m ? m->here : 1;
}

ptrdiff_t layer_micro_images(const layer *l, ptrdiff_t images, int k, ptrdiff_t *count)
{
    const micro *m = layer_micro(l);
    *count = images;
    return m ? micro_images(m, k, count) : 0;
}

tensor layer_micro_gradient(const layer *l, int i, int k)
{
    tensor gradient = l->grad[i];
    gradient.offset += k * tensor_count(l->run->parameters);
    return gradient;
}

double *layer_gathered(const layer *l)
{
    return l->run->gathered;
}

void layer_gather(const layer *l)
{
    const micro *m = layer_micro(l);
    size_t size = (size_t)l->type->gathers(l) * sizeof *l->run->gathered;
    if (m->team) m->team->gather(m->team, m->count, size, l->run->gathered);
}

/* ---- plans --------------------------------------------------------------------------------------------- */

ptrdiff_t layer_planned_images(const layer *l, ptrdiff_t n)
{
    ptrdiff_t most = l->run ? l->run->micro.largest : 0;
    return most > 0 ? smallest(n, most) : n;
}
