/* net.c: a sequence with the memory to run it. */
#include "nn/net.h"
#include "tensor/parallel.h"

#include <stdlib.h>
#include <string.h>

/* ---- making and ending -------------------------------------------------------------------------- */

net *net_new_of(shape input, int count, layer *const layers[])
{
    layer *root = layer_sequence_of(count, layers);
    net *n = root ? calloc(1, sizeof *n) : NULL;
    shape y;
    if (root && !n) error_set("net_new: no memory");
    if (n && (input.rank < 0 || input.rank >= TENSOR_MAX_RANK)) {
        error_set("net_new: the input %s has rank %d, expected 0 to %d", shape_text(input).text, input.rank,
                  TENSOR_MAX_RANK - 1);
    } else if (n && layer_plan(root, shape_with_batch(input, 1), &y) == 0) {
        n->root = root;
        n->input = input;
        n->output = shape_without_batch(y);
        return n;
    }
    layer_free(root);
    free(n);
    return NULL;
}

void net_free(net *n)
{
    if (!n) return;
    layer_free(n->root);
    tensor_free(n->outputs);
    while (n->notes) net_set_note(n, n->notes->name, NULL);
    free(n);
}

int net_build(net *n, ptrdiff_t batch, uint64_t seed)
{
    if (!n) return error_set("net_build: the net is NULL");
    if (batch < 1) return error_set("net_build: a batch of %td images, expected at least 1", batch);
    bool first_time = tensor_is_null(net_parameters(n));
    tensor outputs = tensor_new(shape_with_batch(n->output, batch));
    if (tensor_is_null(outputs)) return -1;
    n->batch = 0;
    n->x = n->y = (tensor){ 0 };
    if (layer_build(n->root, shape_with_batch(n->input, batch), seed)) {
        tensor_free(outputs);
        return -1;
    }
    tensor_free(n->outputs);
    n->outputs = outputs;
    n->batch = batch;
    if (first_time) n->seed = seed;
    return 0;
}

net *net_share(const net *n, ptrdiff_t batch)
{
    if (!n || tensor_is_null(net_parameters(n)) || batch < 1) {
        error_set("net_share: a batch of %td of a net that is %s; expected at least 1, of a built one", batch,
                  !n             ? "NULL"
                  : n->batch < 1 ? "not built"
                                 : "built");
        return NULL;
    }
    layer *root = layer_clone(n->root);
    net *twin = root ? calloc(1, sizeof *twin) : NULL;
    tensor outputs = twin ? tensor_new(shape_with_batch(n->output, batch)) : (tensor){ 0 };
    if (root && !twin) error_set("net_share: no memory");
    if (!tensor_is_null(outputs) &&
        layer_build_shared(root, shape_with_batch(n->input, batch), n->root) == 0) {
        *twin = (net){ .root = root,
                       .input = n->input,
                       .output = n->output,
                       .batch = batch,
                       .seed = n->seed,
                       .outputs = outputs };
        return twin;
    }
    tensor_free(outputs);
    layer_free(root);
    free(twin);
    return NULL;
}

/* ---- running ------------------------------------------------------------------------------------ */

static bool takes(const net *n, tensor x, const char *who)
{
    ptrdiff_t images = x.shape.rank > 0 ? x.shape.n[0] : 0;
    if (!n || n->batch < 1) error_set("%s before net_build", who);
    else if (tensor_is_null(x) || images < 1 || !shape_equal(x.shape, shape_with_batch(n->input, images)))
        error_set("%s of x %s, expected [N, ...] of images %s", who, shape_text(x.shape).text,
                  shape_text(n->input).text);
    else return true;
    return false;
}

tensor net_forward(net *n, tensor x, net_mode mode)
{
    if (error_text() || !takes(n, x, "net_forward")) return (tensor){ 0 };
    if (x.shape.n[0] > n->batch) {
        error_set("net_forward: a batch of %td images, the net is built for %td", x.shape.n[0], n->batch);
        return (tensor){ 0 };
    }
    n->x = x;
    n->y = tensor_narrow(n->outputs, 0, 0, x.shape.n[0]);
    n->forgot = mode == NET_PREDICT;
    layer_mode(n->root, mode == NET_TRAIN, n->seed, n->step);
    layer_forget(n->root, n->forgot);
    layer_forward(n->root, n->x, n->y);
    return error_text() ? (tensor){ 0 } : n->y;
}

int net_backward(net *n, tensor dy, tensor dx)
{
    if (error_text()) return -1;
    if (!n || tensor_is_null(n->y)) return error_set("net_backward before net_forward");
    if (tensor_is_null(net_gradients(n)))
        return error_set("net_backward: a net that shares parameters has no gradients");
    if (n->forgot) return error_set("net_backward after a net_forward with NET_PREDICT, which keeps nothing");
    if (tensor_is_null(dy) || !shape_equal(dy.shape, n->y.shape))
        return error_set("net_backward: dy is %s, y was %s", shape_text(dy.shape).text,
                         shape_text(n->y.shape).text);
    layer_backward(n->root, n->x, n->y, dy, dx);
    n->step++;
    return error_text() ? -1 : 0;
}

int net_predict(net *n, tensor x, tensor y)
{
    if (error_text() || !takes(n, x, "net_predict")) return -1;
    ptrdiff_t images = x.shape.n[0];
    if (tensor_is_null(y) || !shape_equal(y.shape, shape_with_batch(n->output, images)))
        return error_set("net_predict: y is %s, expected %s", shape_text(y.shape).text,
                         shape_text(shape_with_batch(n->output, images)).text);
    for (ptrdiff_t first = 0; first < images; first += n->batch) {
        ptrdiff_t count = images - first < n->batch ? images - first : n->batch;
        tensor_copy(tensor_narrow(y, 0, first, count),
                    net_forward(n, tensor_narrow(x, 0, first, count), NET_PREDICT));
        if (error_text()) return -1;
    }
    return 0;
}

/* ---- parameters --------------------------------------------------------------------------------- */

tensor net_parameters(const net *n)
{
    return n ? layer_parameters(n->root) : (tensor){ 0 };
}

tensor net_gradients(const net *n)
{
    return n ? layer_gradients(n->root) : (tensor){ 0 };
}

tensor net_states(const net *n)
{
    return n ? layer_states(n->root) : (tensor){ 0 };
}

enum { ZEROS = 1 << 14 }; /* that are worth a thread */

static void zero_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    tensor all = *(const tensor *)context;
    ptrdiff_t left = all.shape.n[0] - i * ZEROS;
    tensor_fill(tensor_narrow(all, 0, i * ZEROS, left < ZEROS ? left : ZEROS), 0);
}

void net_zero_gradients(net *n)
{
    tensor all = net_gradients(n);
    if (tensor_is_null(all)) tensor_fill(all, 0);
    else parallel_for(parallel_threads(), (all.shape.n[0] + ZEROS - 1) / ZEROS, zero_part, &all);
}

typedef struct visitor {
    void (*visit)(const net_tensor *t, void *context);
    void *context;
} visitor;

static void visit_slots(layer *l, const char *path, void *context)
{
    const visitor *v = context;
    char name[LAYER_PATH + 64];
    for (int i = 0; i < l->params; i++) {
        snprintf(name, sizeof name, "%s%s%s", path, path[0] ? "." : "", l->param_name[i]);
        v->visit(&(net_tensor){ name, l->param[i], l->grad[i] }, v->context);
    }
    for (int i = 0; i < l->states; i++) {
        snprintf(name, sizeof name, "%s%s%s", path, path[0] ? "." : "", l->state_name[i]);
        v->visit(&(net_tensor){ name, l->state[i], { 0 } }, v->context);
    }
}

void net_visit(net *n, void (*visit)(const net_tensor *t, void *context), void *context)
{
    if (n) layer_visit(n->root, visit_slots, &(visitor){ visit, context });
}

typedef struct wanted {
    const char *name;
    tensor found;
} wanted;

static void compare_name(const net_tensor *t, void *context)
{
    wanted *w = context;
    if (strcmp(t->name, w->name) == 0) w->found = t->value;
}

tensor net_find(net *n, const char *name)
{
    wanted w = { name, { 0 } };
    if (!n || n->batch < 1) error_set("net_find before net_build");
    else {
        net_visit(n, compare_name, &w);
        if (tensor_is_null(w.found)) error_set("net_find: no parameter or state is called %s", name);
    }
    return w.found;
}

/* ---- notes -------------------------------------------------------------------------------------- */

static char *duplicate(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static void note_free(net_note *note)
{
    if (!note) return;
    free(note->name);
    free(note->text);
    free(note);
}

static net_note *note_new(const char *name, const char *text)
{
    net_note *note = calloc(1, sizeof *note);
    if (note && (note->name = duplicate(name)) && (note->text = duplicate(text))) return note;
    note_free(note);
    error_set("net_set_note: no memory for note %s", name);
    return NULL;
}

int net_set_note(net *n, const char *name, const char *text)
{
    if (!n) return error_set("net_set_note: the net is NULL");
    net_note *fresh = NULL;
    if (text && !(fresh = note_new(name, text))) return -1;
    net_note **at = &n->notes;
    while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
    net_note *old = *at;
    if (fresh) fresh->next = old ? old->next : NULL;
    if (fresh || old) *at = fresh ? fresh : old->next;
    note_free(old);
    return 0;
}

const char *net_note_text(const net *n, const char *name)
{
    for (const net_note *note = n ? n->notes : NULL; note; note = note->next)
        if (strcmp(note->name, name) == 0) return note->text;
    return NULL;
}
