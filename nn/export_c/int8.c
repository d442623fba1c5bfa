/* int8.c: the ranges of layers' inputs, and a net that computes with integers of 8 bits. */
#include "nn/export_c/int8.h"
#include "nn/export_c/export_c.h"
#include "nn/export_c/steps.h"
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "nn/callbacks/watch.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_SAMPLES = 1024 };

static double greatest(const st_real *x, ptrdiff_t count)
{
    double most = 0;
    for (ptrdiff_t i = 0; i < count; i++) most = fmax(most, fabs((double)x[i]));
    return most;
}

double int8_round(st_real *x, ptrdiff_t count, double most)
{
    if (most == 0) most = greatest(x, count);
    if (most == 0) most = 1;
    for (ptrdiff_t i = 0; i < count; i++) {
        const double q = round((double)x[i] / most * 127);
        x[i] = (st_real)(q < -127 ? -127 : q < 127 ? q : 127);
    }
    return most;
}

st_tensor int8_weight(const st_layer *l)
{
    const st_tensor t = l->param[0];
    const ptrdiff_t *n = t.shape.n, groups = (ptrdiff_t)layer_option(l, "groups");
    if (l->type != &layer_type_conv_transpose2d) return t;
    st_tensor parts = st_reshape(t, ST_SHAPE(groups, n[0] / groups, n[1], n[2], n[3]));
    return st_flip(st_flip(st_permute(parts, ST_AXES(0, 2, 1, 3, 4)), 3), 4);
}

ptrdiff_t int8_channels(const st_layer *l)
{
    return l->type == &layer_type_dense ? l->param[0].shape.n[0] : l->y.n[1];
}

/* ---- ranges -------------------------------------------------------------------------------------------- */

/* Called by several threads with different images. */
static void look(const st_watch_call *c, void *ranges)
{
    float *at = (float *)ranges + c->number, most = (float)greatest(st_data(c->x), st_numel(c->x)), seen;
    __atomic_load(at, &seen, __ATOMIC_RELAXED);
    while (most > seen &&
           !__atomic_compare_exchange(at, &seen, &most, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    st_watch_run(c);
}

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

float *int8_ranges(st_net *n, const st_dataset *d)
{
    const size_t layers = (size_t)layer_count(n->root);
    float *ranges = calloc(layers, sizeof *ranges);
    if (!ranges) st_error_set("no memory for the ranges of %zu layers", layers);
    st_watch *w = ranges ? st_watch_begin(n, look, ranges) : NULL;
    if (w) run(n, d);
    st_watch_end(w);
    for (size_t i = 0; i < layers && ranges; i++)
        if (ranges[i] == 0) ranges[i] = 1;
    if (!st_error()) return ranges;
    free(ranges);
    return NULL;
}

/* ---- a net that computes so ---------------------------------------------------------------------------- */

struct st_int8 {
    st_net *net;
    st_watch *watch;
    float *ranges;
    st_tensor parameters; /* as they were */
};

static bool multiplies(const st_layer *l)
{
    const form *f = form_of(l);
    return f && f->kind == PRODUCT;
}

static void round_weight(st_layer *l, const char *path, void *context)
{
    (void)path, (void)context;
    if (!multiplies(l) || st_error()) return;
    st_tensor weight = int8_weight(l), rounded = st_tensor_clone(weight);
    const ptrdiff_t channels = int8_channels(l);
    st_tensor rows = st_reshape(rounded, ST_SHAPE(channels, st_numel(weight) / channels));
    for (ptrdiff_t k = 0; k < channels && !st_error(); k++) {
        st_tensor row = st_select(rows, 0, k);
        st_scale(row, (st_real)(int8_round(st_data(row), st_numel(row), 0) / 127));
    }
    st_copy(weight, rounded);
    st_tensor_free(rounded);
}

static void round_input(const st_watch_call *c, void *context)
{
    const double range = (double)((const st_int8 *)context)->ranges[c->number];
    st_watch_call call = *c;
    st_tensor x = multiplies(c->of) ? st_tensor_clone(c->x) : (st_tensor){ 0 };
    if (!st_is_null(x)) {
        int8_round(st_data(x), st_numel(x), range);
        st_scale(x, (st_real)(range / 127));
        call.x = x;
    }
    st_watch_run(&call);
    st_tensor_free(x);
}

st_int8 *st_int8_begin(st_net *n, const st_dataset *samples)
{
    const bool ready = n && samples && !st_is_null(st_net_parameters(n));
    st_int8 *i = ready && !st_error() ? calloc(1, sizeof *i) : NULL;
    if (!i) {
        st_error_set("st_int8_begin: %s", ready ? "no memory" : "expected a net that is built, and samples");
        return NULL;
    }
    *i = (st_int8){ n, NULL, int8_ranges(n, samples), st_tensor_clone(st_net_parameters(n)) };
    if (!st_error()) st_layer_visit(n->root, round_weight, NULL);
    if (!st_error()) i->watch = st_watch_begin(n, round_input, i);
    if (!st_error()) return i;
    st_int8_end(i);
    return NULL;
}

void st_int8_end(st_int8 *i)
{
    if (!i) return;
    st_watch_end(i->watch);
    st_copy(st_net_parameters(i->net), i->parameters);
    st_tensor_free(i->parameters);
    free(i->ranges);
    free(i);
}
