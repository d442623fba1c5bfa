/* run.c: running layers: a batch is cut into chunks, and each chunk passes through all layers of a fused
 * run. */
#include "layers/layer.h"
#include "layers/layer_impl.h"
#include "tensor/counts.h"
#include "tensor/parallel.h"

#include <math.h>

/* ---- calls ------------------------------------------------------------------------------------- */

static st_call call_of(const st_layer *l, ptrdiff_t first, ptrdiff_t images, int thread)
{
    return (st_call){ .layer = l,
                      .options = l->options,
                      .plan = l->plan,
                      .param = l->param,
                      .first = first,
                      .images = images,
                      .training = l->impl->run->training,
                      .thread = thread };
}

/* Slot i of so many, in a call that a hook was given. */
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
    if (st_is_null(c->partial)) return grad;
    grad.storage = c->partial.storage;
    grad.offset += c->partial.offset - c->layer->grad[0].offset;
    return grad;
}

st_random_key st_call_random(const st_call *c)
{
    if (!layer_call_given(c, "st_call_random")) return (st_random_key){ 0 };
    const uint64_t drawn = UINT64_C(1) << 63; /* parameters are initialised from streams below */
    const layer_impl *own = c->layer->impl;
    return (st_random_key){ own->run->seed, drawn | (uint64_t)own->number << 40 | own->run->step };
}

/* Work in elements read and written; multiply-adds count by the time that they take. */
static double work_of(const st_layer *l, ptrdiff_t images)
{
    const double products_a_time = 50; /* in the time of reading or writing an element */
    double elements =
        (double)st_shape_numel(l->x, l->type->name) + (double)st_shape_numel(l->y, l->type->name);
    return (elements + l->flops / products_a_time) * (double)images / (double)l->x.n[0];
}

typedef struct piece_work {
    void (*work)(ptrdiff_t i, void *context);
    void *context;
} piece_work;

static void run_piece(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const piece_work *p = context;
    p->work(i, p->context);
}

void st_parallel_for(const st_call *c, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context),
                     void *context)
{
    if (!layer_call_given(c, "st_parallel_for")) return;
    const st_layer_run *run = c->layer->impl->run;
    bool little = work_of(c->layer, c->layer->x.n[0]) < run->grain;
    parallel_for(little ? 1 : run->threads, count, run_piece, &(piece_work){ work, context });
}

/* Puts the layer and the hook in front of an error that the hook set. */
static void blame(const st_layer *l, bool failed_before, const char *hook)
{
    if (!failed_before && st_error()) st_error_within("%s: %s: ", l->type->name, hook);
}

static void run_backward(const st_call *c, bool gradient, bool backward, st_tensor x, st_tensor y,
                         st_tensor dy, st_tensor dx)
{
    const layer_hooks *hooks = &c->layer->impl->hooks;
    const unsigned frozen = c->layer->impl->frozen;
    bool failed = st_error() != NULL;
    if (gradient && backward && hooks->both) {
        hooks->both(c, x, y, dy, dx);
    } else {
        if (gradient) hooks->gradient(c, x, y, dy);
        blame(c->layer, failed, "gradient");
        failed = st_error() != NULL;
        if (backward) hooks->backward(c, x, y, dy, dx);
    }
    for (int i = 0; gradient && frozen >> i; i++)
        if (frozen >> i & 1) st_fill(st_grad(c, i), 0);
    blame(c->layer, failed, "backward");
}

/* ---- chunks ------------------------------------------------------------------------------------ */

/* One pass through a fused run: the data that its chunks share. */
typedef struct pass {
    const layer_link *link;
    int links, threads;
    ptrdiff_t images, size, chunks; /* images of the batch; images of a chunk; number of chunks */
    st_tensor dy, dx;
    bool gradient, backward; /* the hooks to run */
    ptrdiff_t partial;       /* parameters whose gradients each chunk sums separately; 0: none */
} pass;

static const st_layer_run *run_of(const pass *p)
{
    return p->link[0].l->impl->run;
}

static pass pass_of(const layer_link link[], int links)
{
    pass p = { .link = link, .links = links, .images = link[0].x.shape.n[0] };
    double work = 0;
    for (int i = 0; i < links; i++) work += work_of(link[i].l, p.images);
    p.threads = work < run_of(&p)->grain ? 1 : run_of(&p)->threads;
    p.size = layer_chunk(link[0].l, p.images);
    p.chunks = ceil_div(p.images, p.size);
    return p;
}

static st_tensor chunk(const pass *p, st_tensor x, ptrdiff_t k)
{
    ptrdiff_t first = k * p->size;
    return st_is_null(x) ? x : st_narrow(x, 0, first, smallest(p->images - first, p->size));
}

static bool same_place(st_tensor a, st_tensor b)
{
    return a.storage == b.storage && a.offset == b.offset;
}

/* x of link i for chunk k, which is y of the link before. In inference each thread has one buffer for it,
 * which stays in cache, unless it shares memory with the run's own x or y. */
static st_tensor between(const pass *p, int i, ptrdiff_t k, int thread)
{
    const st_layer_run *run = run_of(p);
    st_tensor all = i < p->links ? p->link[i].x : p->link[i - 1].y, x = chunk(p, all, k);
    bool ends = same_place(all, p->link[0].x) || same_place(all, p->link[p->links - 1].y);
    if (run->inference_only && !ends && run->threads * p->size <= p->images)
        x.offset += (thread - k) * p->size * x.stride[0];
    return x;
}

static void forward_chunk(ptrdiff_t k, int thread, void *context)
{
    const pass *p = context;
    for (int i = 0; i < p->links; i++) {
        const st_layer *l = p->link[i].l;
        st_tensor x = between(p, i, k, thread), y = between(p, i + 1, k, thread);
        st_call c = call_of(l, k * p->size, x.shape.n[0], thread);
        bool failed = st_error() != NULL;
        l->impl->hooks.forward(&c, x, y);
        blame(l, failed, "forward");
    }
}

/* A thread's buffer for dx of link i: two alternate, so that dx and dy differ. */
static st_tensor ping_pong(const pass *p, st_tensor x, int which, int thread)
{
    const st_layer_run *run = run_of(p);
    ptrdiff_t at = run->block * (thread + 1) - run->ping_pong * (which + 1);
    return st_reshape(st_narrow(run->scratch, 0, at, st_numel(x)), x.shape);
}

static bool has_gradient(const st_layer *l)
{
    return l->type->gradient && l->params > 0 && l->impl->frozen + 1 != 1u << l->params;
}

bool layer_trains(const st_layer *l)
{
    bool any = has_gradient(l);
    for (int i = 0; i < l->children && !any; i++) any = layer_trains(l->child[i]);
    return any;
}

static void backward_chunk(ptrdiff_t k, int thread, void *context)
{
    const pass *p = context;
    st_tensor dy = chunk(p, p->dy, k), partial = { 0 };
    ptrdiff_t left = p->partial;
    if (left > 0) st_fill(partial = st_narrow(run_of(p)->partial, 0, k * left, left), 0);
    for (int i = p->links - 1, which = 0; i >= 0; i--) {
        const st_layer *l = p->link[i].l;
        st_tensor x = chunk(p, p->link[i].x, k), y = chunk(p, p->link[i].y, k), dx = chunk(p, p->dx, k);
        bool overwrites_dy = i + 1 < p->links && l->type->traits && l->type->traits->in_place;
        if (i > 0) dx = overwrites_dy ? st_reshape(dy, x.shape) : ping_pong(p, x, which = !which, thread);
        st_call c = call_of(l, k * p->size, x.shape.n[0], thread);
        if (p->partial > 0 && l->params > 0) {
            ptrdiff_t own = layer_own_parameters(l);
            c.partial = st_narrow(partial, 0, left -= own, own);
        }
        run_backward(&c, p->gradient && has_gradient(l), p->backward && (!st_is_null(dx) || l->children > 0),
                     x, y, dy, dx);
        dy = dx;
    }
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

void layer_forward_fused(const layer_link link[], int count)
{
    pass p = pass_of(link, count);
    parallel_for(p.threads, p.chunks, forward_chunk, &p);
}

void st_layer_forward(st_layer *l, st_tensor x, st_tensor y)
{
    if (!runnable(l, "forward", x, y)) return;
    if (l->children == 0) {
        layer_forward_fused(&(layer_link){ l, x, y }, 1);
        return;
    }
    st_call c = call_of(l, 0, x.shape.n[0], 0); /* a layer that holds layers sees the whole batch */
    bool failed = st_error() != NULL;
    l->impl->hooks.forward(&c, x, y);
    blame(l, failed, "forward");
}

static bool gradients_fit(const st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    if (st_is_null(dy) || !st_shape_equal(dy.shape, y.shape) || !st_is_contiguous(dy))
        st_layer_refuse(l, "backward from dy %s, expected a contiguous %s", st_shape_text(dy.shape).text,
                        st_shape_text(y.shape).text);
    else if (!st_is_null(dx) && (!st_shape_equal(dx.shape, x.shape) || !st_is_contiguous(dx)))
        st_layer_refuse(l, "backward into dx %s, expected a contiguous %s", st_shape_text(dx.shape).text,
                        st_shape_text(x.shape).text);
    else return true;
    return false;
}

enum { PIECE = 1 << 12 }; /* parameters that are added up in one item */

/* Adds chunks in order, so that the sum does not depend on which chunk finished first. The gradients of a
 * run's layers are adjacent. */
static void add_piece(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const pass *p = context;
    const st_layer_run *run = run_of(p);
    const layer_link *link = p->link;
    while (link->l->params == 0) link++;
    const ptrdiff_t first = i * PIECE, count = smallest(p->partial - first, PIECE);
    st_tensor to = st_narrow(run->gradients, 0, link->l->grad[0].offset + first, count);
    for (ptrdiff_t k = 0; k < p->chunks; k++)
        st_add(to, 1, st_narrow(run->partial, 0, k * p->partial + first, count));
}

void layer_backward_fused(const layer_link link[], int count, st_tensor dy, st_tensor dx)
{
    pass p = pass_of(link, count);
    p.dy = dy, p.dx = dx;
    p.backward = true;
    ptrdiff_t own = 0;
    for (int i = 0; i < count; i++) {
        own += layer_own_parameters(link[i].l);
        p.gradient |= has_gradient(link[i].l);
    }
    if (p.gradient && p.chunks > 1 && layer_sums_chunks(link[0].l, own)) {
        p.partial = own;
    } else if (p.gradient && p.chunks > 1) { /* a single layer: gradients chunk by chunk; dx in all threads */
        p.backward = false;
        parallel_for(1, p.chunks, backward_chunk, &p);
        p.backward = true, p.gradient = false;
    }
    parallel_for(p.threads, p.chunks, backward_chunk, &p);
    const bool little = (double)(p.chunks * p.partial) < run_of(&p)->grain;
    if (p.partial > 0)
        parallel_for(little ? 1 : run_of(&p)->threads, ceil_div(p.partial, PIECE), add_piece, &p);
}

void st_layer_backward(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    if (runnable(l, "backward", x, y) && gradients_fit(l, x, y, dy, dx))
        layer_backward_fused(&(layer_link){ l, x, y }, 1, dy, dx);
}

/* ---- children ---------------------------------------------------------------------------------- */

st_tensor st_child_output(const st_call *c, int i)
{
    if (!layer_call_given(c, "st_child_output") || !has_slot(c, i, c->layer->children, "st_child_output"))
        return (st_tensor){ 0 };
    return st_narrow(c->layer->child[i]->impl->output, 0, 0, c->images);
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

static st_layer_run *run_of_tree(st_layer *root)
{
    return root && root->impl ? root->impl->run : NULL;
}

void st_layer_mode(st_layer *root, bool training, uint64_t seed, uint64_t step)
{
    st_layer_run *run = run_of_tree(root);
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
    return 0;
}

void st_layer_inference_only(st_layer *root, bool inference_only)
{
    if (run_of_tree(root)) run_of_tree(root)->inference_only = inference_only;
}

static void spoil_parent(st_layer *l, const char *path, void *context)
{
    (void)path, (void)context;
    for (int i = 0; i < l->impl->scratches && l->children > 0; i++)
        st_fill(l->impl->scratch[i], (st_real)NAN);
}

void st_layer_spoil_scratch(st_layer *root)
{
    st_layer_run *run = run_of_tree(root);
    if (!run || !run->ready) return;
    st_fill(run->scratch, (st_real)NAN);
    st_layer_visit(root, spoil_parent, NULL);
}
