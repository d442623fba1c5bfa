/* net.c: a sequence of layers and its memory. */
#include "nn/net.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/parallel.h"
#include "tensor/storage.h"

#include <stdlib.h>
#include <string.h>

/* ---- creating and freeing -------------------------------------------------------------------------- */

st_net *st_net_new_of(st_shape input, int count, st_layer *const layers[])
{
    st_layer *root = st_sequence_of(count, layers);
    st_net *n = root ? array_new("st_net_new", 1, sizeof *n) : NULL;
    st_shape y;
    if (n && (input.rank < 0 || input.rank >= ST_MAX_RANK)) {
        st_error_set("st_net_new: the input %s has rank %d, expected 0 to %d", st_shape_text(input).text,
                     input.rank, ST_MAX_RANK - 1);
    } else if (n && st_layer_plan(root, st_shape_with_batch(input, 1), &y) == 0) {
        n->root = root;
        n->input = input;
        n->output = st_shape_without_batch(y);
        return n;
    }
    st_layer_free(root);
    free(n);
    return NULL;
}

void st_net_free(st_net *n)
{
    if (!n) return;
    st_layer_free(n->root);
    st_tensor_free(n->outputs);
    for (st_metadata *note = n->metadata, *next; note; note = next) next = note->next, free(note);
    free(n);
}

int st_net_build(st_net *n, ptrdiff_t batch, uint64_t seed)
{
    if (!n) return st_error_set("st_net_build: the net is NULL");
    if (batch < 1) return st_error_set("st_net_build: a batch of %td images, expected at least 1", batch);
    bool first_time = st_is_null(st_net_parameters(n));
    st_tensor outputs = st_tensor_new(st_shape_with_batch(n->output, batch));
    if (st_is_null(outputs)) return -1;
    n->batch = 0;
    n->x = n->y = (st_tensor){ 0 };
    if (st_layer_build(n->root, st_shape_with_batch(n->input, batch), seed)) {
        st_tensor_free(outputs);
        return -1;
    }
    st_tensor_free(n->outputs);
    n->outputs = outputs;
    n->batch = batch;
    if (first_time) n->seed = seed;
    return 0;
}

/* ---- running ------------------------------------------------------------------------------------ */

static bool takes(const st_net *n, st_tensor x, const char *who)
{
    ptrdiff_t images = x.shape.rank > 0 ? x.shape.n[0] : 0;
    if (!n || n->batch < 1) st_error_set("%s before st_net_build", who);
    else if (st_is_null(x) || images < 1 || !st_shape_equal(x.shape, st_shape_with_batch(n->input, images)))
        st_error_set("%s of x %s, expected [N, ...] of images %s", who, st_shape_text(x.shape).text,
                     st_shape_text(n->input).text);
    else return true;
    return false;
}

st_tensor st_net_forward(st_net *n, st_tensor x, st_net_mode mode)
{
    if (st_error() || !takes(n, x, "st_net_forward")) return (st_tensor){ 0 };
    if (x.shape.n[0] > n->batch)
        return refused(st_error_set("st_net_forward: a batch of %td images, the net is built for %td",
                                    x.shape.n[0], n->batch));
    if ((unsigned)mode > ST_PREDICT)
        return refused(st_error_set(
            "st_net_forward: the mode is %d, expected ST_EVAL, ST_TRAIN or ST_PREDICT", (int)mode));
    const st_tensor y = st_narrow(n->outputs, 0, 0, x.shape.n[0]);
    if (st_overlaps(x, y))
        return refused(st_error_set("st_net_forward: x is the net's own output; clone it"));
    n->x = x;
    n->y = y;
    n->inference_only = mode == ST_PREDICT;
    st_layer_mode(n->root, mode == ST_TRAIN, n->seed, n->step);
    st_layer_inference_only(n->root, n->inference_only);
    st_layer_forward(n->root, n->x, n->y);
    return st_error() ? (st_tensor){ 0 } : n->y;
}

int st_net_backward(st_net *n, st_tensor dy, st_tensor dx)
{
    if (st_error()) return -1;
    if (!n || st_is_null(n->y)) return st_error_set("st_net_backward before st_net_forward");
    if (n->inference_only)
        return st_error_set("st_net_backward after a st_net_forward with ST_PREDICT, which keeps nothing");
    if (st_overlaps(dx, dy) || st_overlaps(dx, n->x) || st_overlaps(dx, n->y))
        return st_error_set("st_net_backward: dx overlaps dy, x or y");
    if (st_overlaps(dy, n->y)) return st_error_set("st_net_backward: dy overlaps the net's y");
    st_layer_backward(n->root, n->x, n->y, dy, dx); /* which checks dy and dx */
    if (st_error()) return -1;
    n->step++;
    return 0;
}

int st_net_predict(st_net *n, st_tensor x, st_tensor y)
{
    if (st_error() || !takes(n, x, "st_net_predict")) return -1;
    ptrdiff_t images = x.shape.n[0];
    if (st_is_null(y) || !st_shape_equal(y.shape, st_shape_with_batch(n->output, images)))
        return st_error_set("st_net_predict: y is %s, expected %s", st_shape_text(y.shape).text,
                            st_shape_text(st_shape_with_batch(n->output, images)).text);
    for (ptrdiff_t first = 0; first < images; first += n->batch) {
        ptrdiff_t count = smallest(images - first, n->batch);
        st_copy(st_narrow(y, 0, first, count), st_net_forward(n, st_narrow(x, 0, first, count), ST_PREDICT));
        if (st_error()) return -1;
    }
    return 0;
}

/* ---- parameters --------------------------------------------------------------------------------- */

st_tensor st_net_parameters(const st_net *n)
{
    return n ? st_layer_parameters(n->root) : (st_tensor){ 0 };
}

st_tensor st_net_gradients(const st_net *n)
{
    return n ? st_layer_gradients(n->root) : (st_tensor){ 0 };
}

st_tensor st_net_states(const st_net *n)
{
    return n ? st_layer_states(n->root) : (st_tensor){ 0 };
}

enum { ZEROS = 1 << 14 }; /* elements to zero in one item of work */

static void zero_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const st_tensor *all = context;
    const ptrdiff_t first = i * ZEROS, count = smallest(all->shape.n[0] - first, ZEROS);
    memset(st_data(*all) + first, 0, (size_t)count * sizeof(st_real));
}

void st_net_zero_gradients(st_net *n)
{
    st_tensor all = st_net_gradients(n);
    if (st_is_null(all))
        st_error_set("st_net_zero_gradients: the net is not built, or shares another net's parameters");
    else parallel_for(st_num_threads(), ceil_div(all.shape.n[0], ZEROS), zero_part, &all);
}

typedef struct visitor {
    void (*visit)(const st_net_tensor *t, void *context);
    void *context;
} visitor;

static void visit_slots(st_layer *l, const char *path, void *context)
{
    const visitor *v = context;
    for (int i = 0; i < l->params + l->states; i++) {
        const int k = i - l->params; /* the state, from 0 on */
        char name[ST_LAYER_PATH + 64];
        snprintf(name, sizeof name, "%s%s%s", path, path[0] ? "." : "",
                 k < 0 ? l->param_name[i] : l->state_name[k]);
        v->visit(k < 0 ? &(st_net_tensor){ name, l->param[i], l->grad[i], l, i }
                       : &(st_net_tensor){ name, l->state[k], { 0 }, l, k },
                 v->context);
    }
}

void st_net_visit(st_net *n, void (*visit)(const st_net_tensor *t, void *context), void *context)
{
    if (n && visit) st_layer_visit(n->root, visit_slots, &(visitor){ visit, context });
}

typedef struct wanted {
    const char *name;
    st_tensor found;
} wanted;

static void compare_name(const st_net_tensor *t, void *context)
{
    wanted *w = context;
    if (strcmp(t->name, w->name) == 0) w->found = t->value;
}

st_tensor st_net_find(st_net *n, const char *name)
{
    wanted w = { name, { 0 } };
    if (!n || n->batch < 1) st_error_set("st_net_find before st_net_build");
    else if (!name) st_error_set("st_net_find: the name is NULL");
    else {
        st_net_visit(n, compare_name, &w);
        if (st_is_null(w.found)) st_error_set("st_net_find: no parameter or state is called %s", name);
    }
    return w.found;
}
