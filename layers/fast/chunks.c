/* chunks.c: the chunks of a batch in several threads, through one layer or through several that have the same
 * chunks, and gradient and backward in one call where an algorithm has both. Chunks that are left when each
 * thread has had as many are divided among the threads.
 *
 * The bits are those of the definition (layers/run.c): the gradients of each chunk are summed separately, and
 * the sums are added in the order of the chunks, whichever finished first. */
#include "layers/fast/algorithms.h"
#include "tensor/counts.h"
#include "tensor/fast/stream.h"
#include "tensor/parallel.h"

#include <stdlib.h>

/* ---- a call ------------------------------------------------------------------------------------------- */

static void call_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const bool failed = st_error() != NULL;
    c->layer->impl->hooks.forward(c, x, y);
    layer_blame(c->layer, failed, "forward");
}

/* `gradient` before `backward`, or both at once. */
static void call_backward(const st_call *c, bool gradient, bool backward, st_tensor x, st_tensor y,
                          st_tensor dy, st_tensor dx)
{
    const layer_hooks *hooks = &c->layer->impl->hooks;
    bool failed = st_error() != NULL;
    if (gradient && backward && hooks->both) {
        hooks->both(c, x, y, dy, dx);
    } else {
        if (gradient) hooks->gradient(c, x, y, dy);
        layer_blame(c->layer, failed, "gradient");
        failed = st_error() != NULL;
        if (backward) hooks->backward(c, x, y, dy, dx);
    }
    if (gradient) layer_clear_frozen(c);
    layer_blame(c->layer, failed, "backward");
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

layer_pass layer_pass_of(const layer_station *at, int links, ptrdiff_t first)
{
    const ptrdiff_t images = at->x.shape.n[0];
    double work = 0;
    for (int i = 0; i < links; i++) work += layer_work(at[i].l, images);
    const int threads = layer_threads_for(at->l->impl->run, work);
    return (layer_pass){ .at = at, .links = links, .threads = threads, .first = first, .images = images };
}

void layer_pass_cut(layer_pass *p, ptrdiff_t size)
{
    p->size = size;
    p->chunks = p->whole = ceil_div(p->images, size);
}

static st_tensor chunk(const layer_pass *p, st_tensor x, ptrdiff_t k)
{
    const ptrdiff_t first = k * p->size;
    return st_is_null(x) ? x : st_narrow(x, 0, first, smallest(p->images - first, p->size));
}

static st_call call_of(const layer_pass *p, int i, ptrdiff_t k, int thread)
{
    const ptrdiff_t first = k * p->size;
    return layer_call(p->at[i].l, p->first + first, smallest(p->images - first, p->size), thread);
}

/* ---- a chunk ------------------------------------------------------------------------------------------ */

static parallel_work forward_chunk, backward_chunk;

/* A type that is not known may depend on its chunks. */
bool layer_takes_pieces(const st_layer *l)
{
    const bool known = l->impl->hooks.forward != l->type->forward || traits_of(l)->type;
    return known && !l->impl->hooks.divides && !layer_is_whole(l);
}

/* A chunk as a batch, with some of its images for each thread. */
static layer_pass pieces_of(const st_call *c, const layer_station *at)
{
    layer_pass p = layer_pass_of(at, 1, c->first);
    layer_pass_cut(&p, ceil_div(c->images, p.threads));
    return p;
}

/* A call in several threads, outside of parallel work: a hook with `divides` is called once, and divides the
 * call. Others are called for some images in each thread, but once, in one thread, for the parameters'
 * gradient and if the type may depend on its chunks. */
static void divide_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const layer_station at = { c->layer, x, y };
    layer_pass p = pieces_of(c, &at);
    if (layer_takes_pieces(c->layer)) layer_each(c, MOST_THREADS, p.chunks, forward_chunk, &p);
    else call_forward(c, x, y);
}

/* The gradient is of all images. With one call for both there is nothing to divide. */
static void divide_backward(const st_call *c, bool gradient, bool backward, st_tensor x, st_tensor y,
                            st_tensor dy, st_tensor dx)
{
    const bool both = gradient && backward && c->layer->impl->hooks.both;
    const bool apart = backward && !both && layer_takes_pieces(c->layer);
    const layer_station at = { c->layer, x, y };
    layer_pass p = pieces_of(c, &at);
    p.dy = dy, p.dx = dx, p.backward = true;
    if (gradient || !apart) call_backward(c, gradient, backward && !apart, x, y, dy, dx);
    if (apart) layer_each(c, MOST_THREADS, p.chunks, backward_chunk, &p);
}

static bool same_place(st_tensor a, st_tensor b)
{
    return a.storage == b.storage && a.offset == b.offset;
}

/* x of link i for chunk k, which is y of the link before. In inference each thread has one buffer for it,
 * which stays in cache, unless it shares memory with the pass's own x or y. */
static st_tensor between(const layer_pass *p, int i, ptrdiff_t k, int thread)
{
    const st_tensor all = i < p->links ? p->at[i].x : p->at[i - 1].y;
    const bool ends = same_place(all, p->at[0].x) || same_place(all, p->at[p->links - 1].y);
    st_tensor x = chunk(p, all, k);
    if (p->at->l->impl->run->inference_only && !ends && p->threads * p->size <= p->images)
        x.offset += (thread - k) * p->size * x.stride[0];
    return x;
}

static void forward_chunk(ptrdiff_t k, int thread, void *context)
{
    const layer_pass *p = context;
    for (int i = 0; i < p->links; i++) {
        const st_tensor x = between(p, i, k, thread), y = between(p, i + 1, k, thread);
        const st_call c = call_of(p, i, k, thread);
        if (p->links > 1 && layer_infers(c.layer)) traits_of(c.layer)->infer(&c, x, y);
        else (k < p->whole ? call_forward : divide_forward)(&c, x, y);
    }
}

static void backward_chunk(ptrdiff_t k, int thread, void *context)
{
    const layer_pass *p = context;
    const st_layer_run *run = p->at->l->impl->run;
    const ptrdiff_t begin = p->at_once ? 0 : k * p->partial;
    ptrdiff_t end = begin + p->partial; /* of the gradients of links from 0 to i */
    st_tensor dy = chunk(p, p->dy, k);
    if (p->partial > 0) st_fill(st_narrow(run->partial, 0, begin, p->partial), 0);
    for (int i = p->links - 1, turn = 0; i >= 0; i--) {
        const st_layer *l = p->at[i].l;
        const st_tensor x = chunk(p, p->at[i].x, k), y = chunk(p, p->at[i].y, k);
        st_tensor dx = chunk(p, p->dx, k);
        if (i > 0 && i + 1 < p->links && p->at[i].in_place) {
            dx = st_reshape(dy, x.shape);
        } else if (i > 0) {
            const st_tensor buffer = st_select(p->buffers, 0, 2 * thread + (turn = !turn));
            dx = st_reshape(st_narrow(buffer, 0, 0, st_numel(x)), x.shape);
        }
        const bool gradient = p->gradient && layer_has_gradient(l),
                   backward = p->backward && (!st_is_null(dx) || l->children > 0);
        st_call c = call_of(p, i, k, thread);
        if (p->partial > 0 && l->params > 0) c.partial = end -= layer_own_parameters(l);
        (k < p->whole ? call_backward : divide_backward)(&c, gradient, backward, x, y, dy, dx);
        dy = dx;
    }
    if (p->partial > 0 && p->at_once)
        st_add(st_narrow(run->gradients, 0, p->gradients, p->partial), 1,
               st_narrow(run->partial, 0, 0, p->partial));
}

/* ---- all chunks --------------------------------------------------------------------------------------- */

/* A thread has the most images of chunks, or its share of those that the chunks are divided into: of all, of
 * whole images of each, or all images of a layer that does not divide. Where products take most of the time,
 * each thread has as many full chunks first, as it lays out more for a share of each; elements are read
 * faster where threads read near each other. */
ptrdiff_t layer_pass_whole(const layer_pass *p, ptrdiff_t size, bool backward)
{
    const int threads = p->threads;
    const ptrdiff_t images = p->images;
    if (threads == 1) return ceil_div(images, size);
    double products = 0, all_work = 0;
    for (int i = 0; i < p->links; i++)
        products += layer_products(p->at[i].l, images), all_work += layer_work(p->at[i].l, images);
    const ptrdiff_t each = 2 * products > all_work ? images / size / threads : 0,
                    rest = images - each * threads * size;
    const double most = (double)smallest(images, ceil_div(ceil_div(images, size), threads) * size),
                 before = (double)(each * size), all = before + (double)rest,
                 share = before + (double)rest / threads,
                 pieces = before +
                          (double)(rest / size * ceil_div(size, threads) + ceil_div(rest % size, threads));
    double chunks = 0, divided = 0;
    for (int i = 0; i < p->links; i++) {
        const st_layer *l = p->at[i].l;
        const layer_hooks *hooks = &l->impl->hooks;
        const double work = layer_work(l, images);
        const bool gradient = backward && layer_has_gradient(l),
                   splits = hooks->divides || traits_of(l)->infer; /* which is in a run in inference alone */
        chunks += work * most;
        divided += work * (splits                                                ? share
                           : !layer_takes_pieces(l) || (gradient && hooks->both) ? all
                           : gradient                                            ? (all + pieces) / 2
                                                                                 : pieces);
    }
    return 8 * chunks > 9 * divided ? each * threads : ceil_div(images, size);
}

enum { PIECE = 1 << 12 }; /* parameters that are added up in one item */

typedef struct addition {
    st_tensor to, partial;
    ptrdiff_t chunks;
} addition;

static void add_piece(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const addition *a = context;
    const ptrdiff_t all = st_numel(a->to), first = i * PIECE, count = smallest(all - first, PIECE);
    const st_tensor to = st_narrow(a->to, 0, first, count);
    for (ptrdiff_t k = 0; k < a->chunks; k++) st_add(to, 1, st_narrow(a->partial, 0, k * all + first, count));
}

static void add_partials(const st_layer_run *run, st_tensor to, ptrdiff_t chunks)
{
    const bool little = (double)chunks * (double)st_numel(to) < run->least_work;
    parallel_for(little ? 1 : run->threads, ceil_div(st_numel(to), PIECE), add_piece,
                 &(addition){ to, run->partial, chunks });
}

/* Tests if the gradients of a chunk are added as soon as there are some, while they are in cache: on one
 * thread, where those of all chunks, of so many elements, would not stay there. */
static bool adds_at_once(int threads, ptrdiff_t elements)
{
    return threads == 1 && elements > (1 << 18) / (ptrdiff_t)sizeof(st_real);
}

bool layer_streams(const st_call *c)
{
    return c->layer->impl->run->streams;
}

static bool streams(const layer_pass *p)
{
    const st_layer *l = p->at->l;
    const double images = (double)(st_numel(p->at->x) + st_numel(p->at->y)) * sizeof(st_real),
                 bytes = st_is_null(p->dy) ? images : 2 * images;
    return p->links == 1 && l->children == 0 && stream_has(l->impl->isa) && bytes > l->impl->run->cached;
}

/* All chunks; in order, or in several threads unless there is little work. */
static void each_chunk(layer_pass *p, bool in_order, parallel_work *work)
{
    st_layer_run *run = p->at->l->impl->run;
    const int threads = p->threads;
    p->whole = in_order && threads > 1 ? 0 : layer_pass_whole(p, p->size, !st_is_null(p->dy));
    if (p->whole == 0 || in_order) p->threads = 1;
    p->at_once = adds_at_once(p->threads, p->partial * p->chunks);
    run->streams = streams(p);
    run->shared_out = p->threads > 1 && p->whole > 1;
    parallel_for(p->threads, p->whole, work, p);
    run->shared_out = false;
    for (ptrdiff_t k = p->whole; k < p->chunks; k++) work(k, 0, p);
    run->streams = false;
    p->threads = threads;
}

static void prepare_layer(const st_layer *l, bool backward)
{
    if (l->impl->hooks.prepare) l->impl->hooks.prepare(l, backward);
}

void layer_pass_forward(layer_pass *p)
{
    for (int i = 0; i < p->links; i++) prepare_layer(p->at[i].l, false);
    each_chunk(p, false, forward_chunk);
}

/* The gradients of the layers are adjacent. Those of a layer that are too many to be summed for each chunk
 * are added chunk by chunk, in order. */
void layer_pass_backward(layer_pass *p)
{
    const st_layer *first = p->at->l;
    const st_layer_run *run = first->impl->run;
    ptrdiff_t own = 0;
    p->gradients = -1;
    for (int i = 0; i < p->links; i++) {
        const st_layer *l = p->at[i].l;
        own += layer_own_parameters(l);
        p->gradient |= layer_has_gradient(l);
        if (p->gradients < 0 && l->params > 0) p->gradients = l->grad[0].offset;
    }
    if (p->gradient && p->chunks > 1 && layer_sums_chunks(first, own)) p->partial = own;
    else if (p->gradient && p->chunks > 1) {
        each_chunk(p, true, backward_chunk);
        p->gradient = false;
    }
    const bool all = !st_is_null(p->dx) || first->children > 0; /* or all but the first */
    p->backward = all || p->links > 1;
    for (int i = all ? 0 : 1; i < p->links; i++) prepare_layer(p->at[i].l, true);
    if (p->gradient || p->backward) each_chunk(p, false, backward_chunk);
    if (p->partial > 0 && !p->at_once)
        add_partials(run, st_narrow(run->gradients, 0, p->gradients, own), p->chunks);
}

/* ---- the executor ------------------------------------------------------------------------------------- */

static void forward(st_layer *l, st_tensor x, st_tensor y)
{
    const layer_station at = { l, x, y };
    layer_pass p = layer_pass_of(&at, 1, 0);
    layer_pass_cut(&p, layer_chunk(l, p.images));
    layer_pass_forward(&p);
}

static void backward(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const layer_station at = { l, x, y };
    layer_pass p = layer_pass_of(&at, 1, 0);
    layer_pass_cut(&p, layer_chunk(l, p.images));
    p.dy = dy, p.dx = dx;
    layer_pass_backward(&p);
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

static void each(const st_call *c, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context), void *context)
{
    layer_each(c, MOST_THREADS, count, run_piece, &(piece_work){ work, context });
}

/* A number from 0 on in the environment; otherwise -1 with an error. */
static int number_in(const char *variable, const char *of, double *to)
{
    const char *given = getenv(variable);
    char *end;
    if (!given || !given[0]) return 0;
    *to = strtod(given, &end);
    if (*end == '\0' && *to >= 0) return 0;
    return st_error_set("%s=%s: expected a number of %s, at least 0", variable, given, of);
}

/* With less work than `least_work`, synchronising threads costs more than they save. Tensors of `cached`
 * bytes may be in the last cache when they are read again: each core has 2 to 4 MB of it, and what others
 * leave. */
static int prepare(st_layer_run *run)
{
    run->least_work = 1 << 16;
    run->cached = 32 << 20;
    if (parallel_threads && parallel_threads->check()) return -1;
    return number_in("STRIDE_GRAIN", "elements", &run->least_work) ||
                   number_in("STRIDE_CACHE", "bytes", &run->cached)
               ? -1
               : 0;
}

static const layer_executor by_chunks = { layer_choose_algorithm, prepare, forward, backward, each };
const layer_executor *layer_fast_executor = &by_chunks;
