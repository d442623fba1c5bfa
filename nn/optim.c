/* optim.c: making an optimizer of any kind, and its steps: passes over flat arrays. */
#include "nn/optim_impl.h"
#include "layers/layer_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/engine.h"
#include "tensor/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- making and freeing -------------------------------------------------------------------------- */

static int check_kind(const st_optim_kind *kind)
{
    if (!kind || !kind->name || !kind->step)
        return st_error_set("st_optim_new: the %s is NULL", !kind ? "kind" : !kind->name ? "name" : "step");
    if (kind->states < 0 || kind->states > ST_OPTIM_STATES)
        return st_error_set("%s: %d states, expected 0 to %d", kind->name, kind->states, ST_OPTIM_STATES);
    if (options_reach(kind->name, kind->fields, kind->options_size)) return -1;
    const st_field *lr = st_options_field(kind->fields, "lr");
    if (lr && lr->kind == ST_FIELD_REAL) return 0;
    return st_error_set("%s: there is no option lr of type double", kind->name);
}

st_optim *st_optim_new(const st_optim_kind *kind, const void *options)
{
    if (check_kind(kind)) return NULL;
    st_optim *o = array_new(kind->name, 1, sizeof *o);
    void *own = array_new(kind->name, 1, kind->options_size);
    if (own && options) memcpy(own, options, kind->options_size);
    if (o && own && st_options_resolve(kind->name, kind->fields, own) == 0) {
        *o = (st_optim){ kind, own, st_options_number(kind->fields, own, "lr") + 0, kind->states };
        if (!kind->plan || kind->plan(o) == 0) return o;
    }
    free(own);
    free(o);
    return NULL;
}

void st_optim_free(st_optim *o)
{
    if (!o) return;
    for (int i = 0; i < o->states; i++) st_tensor_free(o->state[i]);
    free(o->groups);
    free((void *)o->options);
    free(o);
}

/* ---- stepping ------------------------------------------------------------------------------------ */

int st_optim_build(st_optim *o, ptrdiff_t n)
{
    if (!o) return st_error_set("st_optim_build: the optimizer is NULL");
    for (int i = 0; i < o->states; i++) {
        if (st_is_null(o->state[i])) o->state[i] = st_tensor_new(ST_SHAPE(n));
        if (st_is_null(o->state[i])) return -1;
        if (st_numel(o->state[i]) != n)
            return st_error_set("%s: %td parameters, the state is of %td", o->kind->name, n,
                                st_numel(o->state[i]));
    }
    return 0;
}

enum {
    PART = 1 << 11,  /* parameters in an item of work: with gradients and momentum they stay in cache */
    LEAST_PARTS = 16 /* fewer run on one thread */
};

/* A step of a range of the parameters; w and g are all. */
typedef struct sweep {
    const st_optim *o;
    optim_sweep *by_vectors; /* NULL: the kind's step */
    double lr;
    const optim_range *range;
    st_real *w;
    const st_real *g;
} sweep;

static void sweep_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const sweep *s = context;
    const st_optim *o = s->o;
    const ptrdiff_t first = s->range->first + i * PART, n = smallest(s->range->count - i * PART, PART);
    st_optim_call c = { o->options, s->lr * s->range->lr_factor, s->range->weight_decay, o->steps, { 0 } };
    for (int k = 0; k < o->states; k++) c.state[k] = st_data(o->state[k]) + first;
    st_real *w = s->w + first;
    if (s->by_vectors && s->by_vectors(&c, n, w, s->g + first)) return;
    if (!s->by_vectors) o->kind->step(&c, n, w, s->g + first);
    ptrdiff_t k = 0;
    while (k < n && isfinite(w[k])) k++;
    if (k == n) return;
    st_error_set("%s: parameter %td is %g after step %ld", o->kind->name, first + k, printable((double)w[k]),
                 o->steps + 1);
}

__attribute__((weak)) optim_sweep *(*optim_sweep_by_vectors)(const st_optim_kind *kind);

static int check_step(const st_optim *o, double lr, st_tensor parameters, st_tensor gradients)
{
    if (st_error()) return -1; /* after a failed forward or backward pass gradients are not valid */
    if (!o || !o->kind) return st_error_set("st_optim_step: the optimizer%s is NULL", o ? "'s kind" : "");
    if (st_is_null(parameters) || st_is_null(gradients) || !st_is_contiguous(parameters) ||
        !st_is_contiguous(gradients) || !st_shape_equal(parameters.shape, gradients.shape))
        return st_error_set("%s: parameters %s and gradients %s, expected contiguous and of one shape",
                            o->kind->name, st_shape_text(parameters.shape).text,
                            st_shape_text(gradients.shape).text);
    if (!isfinite(lr) || lr < 0)
        return st_error_set("%s: learning rate %g, expected at least 0", o->kind->name, printable(lr));
    if (o->groups && o->groups->parameters != st_numel(parameters))
        return st_error_set("%s: %td parameters, the groups are of %td", o->kind->name, st_numel(parameters),
                            o->groups->parameters);
    return 0;
}

int st_optim_step(st_optim *o, double lr, st_tensor parameters, st_tensor gradients)
{
    if (check_step(o, lr, parameters, gradients)) return -1;
    const ptrdiff_t n = st_numel(parameters);
    const optim_range all = { 0, n, 1, st_options_number(o->kind->fields, o->options, "weight_decay") };
    const optim_range *range = o->groups ? o->groups->range : &all;
    if (st_optim_build(o, n)) return -1;
    const int ranges = o->groups ? o->groups->count : 1;
    sweep s = { o, NULL, lr, NULL, st_data(parameters), st_data(gradients) };
    if (optim_sweep_by_vectors && !engine_is_reference()) s.by_vectors = optim_sweep_by_vectors(o->kind);
    for (int k = 0; k < ranges; k++) {
        const ptrdiff_t parts = ceil_div(range[k].count, PART);
        s.range = &range[k];
        parallel_for(parts < LEAST_PARTS ? 1 : st_num_threads(), parts, sweep_part, &s);
    }
    o->steps++;
    return st_error() ? -1 : 0;
}
