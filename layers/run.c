/* run.c: running a layer: a batch is cut into chunks, and each chunk's gradient is added in order. */
#include "layers/layer.h"
#include "layers/layer_impl.h"
#include "tensor/counts.h"

enum {
    DEFAULT_CHUNK = 8,
    PARTIAL_GRADIENTS = 1 << 22 /* elements: with more, a layer's chunks run one after another */
};

/* ---- calls ------------------------------------------------------------------------------------- */

st_call layer_call(const st_layer *l, ptrdiff_t first, ptrdiff_t images, int thread)
{
    return (st_call){ .layer = l,
                      .options = l->options,
                      .plan = l->plan,
                      .param = l->param,
                      .first = first,
                      .images = images,
                      .training = l->impl->run->training,
                      .thread = thread,
                      .partial = -1 };
}

/* Tests if the layer of a call has slot i; false with an error that names the function `who`. */
static bool has_slot(const st_call *c, int i, int slots, const char *who)
{
    if (i < 0 || i >= slots) st_layer_refuse(c->layer, "%s: slot %d of %d", who, i, slots);
    return i >= 0 && i < slots;
}

st_tensor st_memory(const st_call *c, int i)
{
    if (!layer_call_given(c, "st_memory") || !has_slot(c, i, c->layer->impl->memories, "st_memory"))
        return (st_tensor){ 0 };
    st_tensor all = c->layer->impl->memory[i];
    bool by_image = all.shape.n[0] == c->layer->x.n[0];
    return by_image ? st_narrow(all, 0, c->first, c->images) : all;
}

st_tensor st_scratch(const st_call *c, int i)
{
    if (!layer_call_given(c, "st_scratch") || !has_slot(c, i, c->layer->impl->scratches, "st_scratch"))
        return (st_tensor){ 0 };
    st_tensor scratch = c->layer->impl->scratch[i];
    if (c->layer->children == 0) scratch.offset += c->layer->impl->run->block * c->thread;
    return scratch;
}

st_tensor st_grad(const st_call *c, int i)
{
    if (!layer_call_given(c, "st_grad") || !has_slot(c, i, c->layer->params, "st_grad"))
        return (st_tensor){ 0 };
    st_tensor grad = c->layer->grad[i];
    if (c->partial < 0) return grad;
    grad.storage = c->layer->impl->run->partial.storage;
    grad.offset += c->partial - c->layer->grad[0].offset;
    return grad;
}

st_random_key st_call_random(const st_call *c)
{
    if (!layer_call_given(c, "st_call_random")) return (st_random_key){ 0 };
    const uint64_t drawn = UINT64_C(1) << 63; /* parameters are initialised from streams below */
    const layer_impl *own = c->layer->impl;
    return (st_random_key){ own->run->seed, drawn | (uint64_t)own->number << 40 | own->run->step };
}

void st_parallel_for(const st_call *c, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context),
                     void *context)
{
    if (!layer_call_given(c, "st_parallel_for")) return;
    const layer_executor *executor = c->layer->impl->run->executor;
    if (executor) executor->each(c, count, work, context);
    for (ptrdiff_t i = 0; i < count && !executor; i++) work(i, context);
}

void layer_blame(const st_layer *l, bool failed_before, const char *hook)
{
    if (!failed_before && st_error()) st_error_within("%s: %s: ", l->type->name, hook);
}

void layer_clear_frozen(const st_call *c)
{
    for (int i = 0; c->layer->impl->frozen >> i; i++)
        if (c->layer->impl->frozen >> i & 1) st_fill(st_grad(c, i), 0);
}

/* ---- chunks ------------------------------------------------------------------------------------ */

bool layer_is_whole(const st_layer *l)
{
    return l->children > 0 || l->type->chunk < 0 || l->impl->hooks.whole;
}

ptrdiff_t layer_chunk(const st_layer *l, ptrdiff_t n)
{
    if (layer_is_whole(l)) return n;
    if (l->type->chunk > 0) return l->type->chunk;
    return largest(ceil_div(n, LAYER_MOST_CHUNKS), DEFAULT_CHUNK);
}

ptrdiff_t layer_most_chunks(const st_layer *l, ptrdiff_t n)
{
    if (layer_is_whole(l)) return 1;
    return l->type->chunk > 0 ? ceil_div(n, l->type->chunk)
                              : smallest(ceil_div(n, DEFAULT_CHUNK), LAYER_MOST_CHUNKS);
}

/* Depends on the planned batch, so that smaller batches have the memory. */
bool layer_sums_chunks(const st_layer *l, ptrdiff_t parameters)
{
    return parameters <= PARTIAL_GRADIENTS / layer_most_chunks(l, l->x.n[0]);
}

/* ---- gradients ----------------------------------------------------------------------------------- */

bool layer_has_gradient(const st_layer *l)
{
    return l->type->gradient && l->params > 0 && l->impl->frozen + 1 != 1u << l->params;
}

bool layer_trains(const st_layer *l)
{
    bool any = layer_has_gradient(l);
    for (int i = 0; i < l->children && !any; i++) any = layer_trains(l->child[i]);
    return any;
}

/* ---- forward and backward ---------------------------------------------------------------------- */

static bool matches(st_tensor x, st_shape planned)
{
    if (st_is_null(x) || x.shape.rank != planned.rank || x.shape.n[0] < 1 || x.shape.n[0] > planned.n[0])
        return false;
    planned.n[0] = x.shape.n[0];
    return st_shape_equal(x.shape, planned);
}

static bool runnable(const st_layer *l, const char *what, st_tensor x, st_tensor y)
{
    if (!layer_given(l, what)) return false;
    if (!l->impl->run || !l->impl->run->ready) st_layer_refuse(l, "%s before st_layer_build", what);
    else if (!matches(x, l->x))
        st_layer_refuse(l, "%s of x %s, built for %s", what, st_shape_text(x.shape).text,
                        st_shape_text(l->x).text);
    else if (!matches(y, l->y) || y.shape.n[0] != x.shape.n[0])
        st_layer_refuse(l, "%s of x %s into y %s, built for %s", what, st_shape_text(x.shape).text,
                        st_shape_text(y.shape).text, st_shape_text(l->y).text);
    else if (!st_is_contiguous(y)) st_layer_refuse(l, "%s into a y that is not contiguous", what);
    else return true;
    return false;
}

/* A layer that holds others sees the whole batch: it has one chunk. */
void st_layer_forward(st_layer *l, st_tensor x, st_tensor y)
{
    if (!runnable(l, "forward", x, y)) return;
    const layer_executor *executor = l->impl->run->executor;
    if (executor) {
        executor->forward(l, x, y);
        return;
    }
    const ptrdiff_t images = x.shape.n[0], size = layer_chunk(l, images);
    const bool failed = st_error() != NULL;
    for (ptrdiff_t first = 0; first < images; first += size) {
        const ptrdiff_t count = smallest(images - first, size);
        const st_call c = layer_call(l, first, count, 0);
        l->impl->hooks.forward(&c, st_narrow(x, 0, first, count), st_narrow(y, 0, first, count));
    }
    layer_blame(l, failed, "forward");
}

static bool gradients_fit(const st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    if (l->impl->run->shared) st_layer_refuse(l, "it shares parameters with another, and has no gradients");
    else if (st_is_null(dy) || !st_shape_equal(dy.shape, y.shape) || !st_is_contiguous(dy))
        st_layer_refuse(l, "backward from dy %s, expected a contiguous %s", st_shape_text(dy.shape).text,
                        st_shape_text(y.shape).text);
    else if (!st_is_null(dx) && (!st_shape_equal(dx.shape, x.shape) || !st_is_contiguous(dx)))
        st_layer_refuse(l, "backward into dx %s, expected a contiguous %s", st_shape_text(dx.shape).text,
                        st_shape_text(x.shape).text);
    else return true;
    return false;
}

static st_tensor part(st_tensor x, ptrdiff_t first, ptrdiff_t count)
{
    return st_is_null(x) ? x : st_narrow(x, 0, first, count);
}

/* The gradient of each chunk is summed separately and then added, so that threads, which may finish in any
 * order, come to the same bits; gradients that are too many for that are added chunk by chunk. */
void st_layer_backward(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    if (!runnable(l, "backward", x, y) || !gradients_fit(l, x, y, dy, dx)) return;
    const st_layer_run *run = l->impl->run;
    if (run->executor) {
        run->executor->backward(l, x, y, dy, dx);
        return;
    }
    const ptrdiff_t images = x.shape.n[0], size = layer_chunk(l, images), own = layer_own_parameters(l);
    const bool gradient = layer_has_gradient(l), backward = !st_is_null(dx) || l->children > 0;
    const bool sums = gradient && images > size && layer_sums_chunks(l, own);
    const st_tensor sum = sums ? st_narrow(run->partial, 0, 0, own) : (st_tensor){ 0 };
    for (ptrdiff_t first = 0; first < images; first += size) {
        const ptrdiff_t count = smallest(images - first, size);
        const st_tensor px = part(x, first, count), py = part(y, first, count), pdy = part(dy, first, count);
        st_call c = layer_call(l, first, count, 0);
        bool failed = st_error() != NULL;
        if (sums) c.partial = 0, st_fill(sum, 0);
        if (gradient) l->impl->hooks.gradient(&c, px, py, pdy), layer_clear_frozen(&c);
        layer_blame(l, failed, "gradient");
        failed = st_error() != NULL;
        if (backward) l->impl->hooks.backward(&c, px, py, pdy, part(dx, first, count));
        layer_blame(l, failed, "backward");
        if (sums) st_add(st_narrow(run->gradients, 0, l->grad[0].offset, own), 1, sum);
    }
}

/* ---- children ---------------------------------------------------------------------------------- */

st_tensor st_child_output(const st_call *c, int i)
{
    if (!layer_call_given(c, "st_child_output") || !has_slot(c, i, c->layer->children, "st_child_output"))
        return (st_tensor){ 0 };
    const st_tensor output = c->layer->child[i]->impl->output;
    if (!st_is_null(output)) return st_narrow(output, 0, 0, c->images);
    st_layer_refuse(c->layer, "plan did not call st_plan_child for child %d", i);
    return output;
}

st_tensor st_forward_child(const st_call *c, int i, st_tensor x)
{
    st_tensor y = st_child_output(c, i);
    if (!st_is_null(y)) st_layer_forward(c->layer->child[i], x, y);
    return y;
}

void st_backward_child(const st_call *c, int i, st_tensor x, st_tensor dy, st_tensor dx)
{
    st_tensor y = st_child_output(c, i);
    if (!st_is_null(y)) st_layer_backward(c->layer->child[i], x, y, dy, dx);
}

/* ---- mode -------------------------------------------------------------------------------------- */

void st_layer_mode(st_layer *root, bool training, uint64_t seed, uint64_t step)
{
    st_layer_run *run = layer_run_of(root);
    if (!run) return;
    run->training = training;
    run->inference_only = false;
    run->seed = seed;
    run->step = step;
}

int st_layer_freeze(st_layer *l, int i, bool frozen)
{
    if (!layer_given(l, "st_layer_freeze")) return -1;
    if (i < 0 || i >= l->params)
        return st_layer_refuse(l, "st_layer_freeze: parameter %d of %d", i, l->params);
    l->impl->frozen = (l->impl->frozen & ~(1u << i)) | (unsigned)frozen << i;
    if (frozen && !st_is_null(l->grad[i])) st_fill(l->grad[i], 0);
    return 0;
}

void st_layer_inference_only(st_layer *root, bool inference_only)
{
    if (layer_run_of(root)) layer_run_of(root)->inference_only = inference_only;
}
