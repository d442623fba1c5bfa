/* chunks.c: the chunks of a batch in several threads, and gradient and backward in one pass where an
 * algorithm has both. Where there are too few chunks for the threads, each chunk is divided among them.
 *
 * The bits are those of the definition (layers/run.c): the gradient of each chunk is summed separately, and
 * the sums are added in the order of the chunks, whichever finished first. */
#include "layers/fast/algorithms.h"
#include "tensor/counts.h"
#include "tensor/fast/stream.h"
#include "tensor/parallel.h"

#include <stdlib.h>

/* ---- a chunk ------------------------------------------------------------------------------------------ */

void layer_prepare(const st_layer *l, bool backward)
{
    if (l->impl->hooks.prepare) l->impl->hooks.prepare(l, backward);
}

void layer_call_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const bool failed = st_error() != NULL;
    c->layer->impl->hooks.forward(c, x, y);
    layer_blame(c->layer, failed, "forward");
}

void layer_call_backward(const st_call *c, bool gradient, bool backward, st_tensor x, st_tensor y,
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

/* ---- work ------------------------------------------------------------------------------------------- */

double layer_work(const st_layer *l, ptrdiff_t images)
{
    const double products_a_time = 50; /* in the time of reading or writing an element */
    double elements =
        (double)st_shape_numel(l->x, l->type->name) + (double)st_shape_numel(l->y, l->type->name);
    return (elements + l->flops / products_a_time) * (double)images / (double)l->x.n[0];
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

void layer_each_chunk(st_layer_run *run, int threads, ptrdiff_t chunks, parallel_work *work, void *context)
{
    run->shared_out = threads > 1 && chunks > 1;
    parallel_for(threads, chunks, work, context);
    run->shared_out = false;
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

static void each(const st_call *c, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context), void *context)
{
    layer_each(c, MOST_THREADS, count, run_piece, &(piece_work){ work, context });
}

/* ---- a batch ------------------------------------------------------------------------------------------ */

/* One pass of a batch, or of some images of it, through a layer: the data that its chunks share. */
typedef struct pass {
    const st_layer *l;
    ptrdiff_t first; /* image */
    st_tensor x, y, dy, dx;
    ptrdiff_t images, size, chunks; /* of the batch; of a chunk; their number */
    bool gradient, backward;        /* the hooks to run */
    bool divided;                   /* chunks run one after another, each in all threads */
    bool alone;                     /* a chunk's gradient is added at once */
    ptrdiff_t partial;              /* parameters whose gradients each chunk sums separately; 0: none */
} pass;

static st_tensor chunk(const pass *p, st_tensor x, ptrdiff_t k)
{
    const ptrdiff_t first = k * p->size;
    return st_is_null(x) ? x : st_narrow(x, 0, first, smallest(p->images - first, p->size));
}

static void forward_chunk(ptrdiff_t k, int thread, void *context)
{
    const pass *p = context;
    const st_tensor x = chunk(p, p->x, k), y = chunk(p, p->y, k);
    const st_call c = layer_call(p->l, p->first + k * p->size, x.shape.n[0], thread);
    (p->divided ? layer_divide_forward : layer_call_forward)(&c, x, y);
}

static void backward_chunk(ptrdiff_t k, int thread, void *context)
{
    const pass *p = context;
    const st_tensor x = chunk(p, p->x, k), y = chunk(p, p->y, k), dy = chunk(p, p->dy, k),
                    dx = chunk(p, p->dx, k);
    st_call c = layer_call(p->l, p->first + k * p->size, x.shape.n[0], thread);
    const st_layer_run *run = p->l->impl->run;
    const ptrdiff_t at = p->alone ? 0 : k * p->partial;
    if (p->partial > 0) c.partial = at, st_fill(st_narrow(run->partial, 0, at, p->partial), 0);
    (p->divided ? layer_divide_backward : layer_call_backward)(&c, p->gradient, p->backward, x, y, dy, dx);
    if (p->partial > 0 && p->alone)
        st_add(st_narrow(run->gradients, 0, p->l->grad[0].offset, p->partial), 1,
               st_narrow(run->partial, 0, 0, p->partial));
}

static pass pass_of(const st_layer *l, ptrdiff_t first, ptrdiff_t size, st_tensor x, st_tensor y)
{
    const ptrdiff_t images = x.shape.n[0];
    return (pass){ l, first, x, y, .images = images, .size = size, .chunks = ceil_div(images, size) };
}

/* ---- a chunk in several threads ----------------------------------------------------------------------- */

/* A type that is not known may depend on its chunks. */
bool layer_takes_pieces(const st_layer *l)
{
    const bool known = l->impl->hooks.forward != l->type->forward || traits_of(l)->type;
    return known && !l->impl->hooks.divides && !layer_is_whole(l);
}

/* Some images on each thread. */
static pass pieces_of(const st_call *c, st_tensor x, st_tensor y)
{
    return pass_of(c->layer, c->first, ceil_div(c->images, layer_call_threads(c)), x, y);
}

void layer_divide_forward(const st_call *c, st_tensor x, st_tensor y)
{
    pass p = pieces_of(c, x, y);
    if (layer_takes_pieces(c->layer)) layer_each(c, MOST_THREADS, p.chunks, forward_chunk, &p);
    else layer_call_forward(c, x, y);
}

/* The gradient is of all images. With one pass for both there is nothing to divide. */
void layer_divide_backward(const st_call *c, bool gradient, bool backward, st_tensor x, st_tensor y,
                           st_tensor dy, st_tensor dx)
{
    const bool both = gradient && backward && c->layer->impl->hooks.both;
    const bool apart = backward && !both && layer_takes_pieces(c->layer);
    pass p = pieces_of(c, x, y);
    p.dy = dy, p.dx = dx, p.backward = true;
    if (gradient || !apart) layer_call_backward(c, gradient, backward && !apart, x, y, dy, dx);
    if (apart) layer_each(c, MOST_THREADS, p.chunks, backward_chunk, &p);
}

/* A thread has the most images of chunks, or its share of those that the chunks are divided into: of all, of
 * whole images of each, or all images of a layer that does not divide. */
bool layer_divides(const st_layer *const *l, int layers, int threads, ptrdiff_t images, ptrdiff_t size,
                   bool backward)
{
    const double most = (double)smallest(images, ceil_div(ceil_div(images, size), threads) * size),
                 pieces =
                     (double)(images / size * ceil_div(size, threads) + ceil_div(images % size, threads)),
                 all = (double)images;
    double chunks = 0, divided = 0;
    for (int i = 0; i < layers; i++) {
        const layer_hooks *hooks = &l[i]->impl->hooks;
        const double work = layer_work(l[i], images);
        const bool gradient = backward && layer_has_gradient(l[i]),
                   splits =
                       hooks->divides || traits_of(l[i])->infer; /* which is in a run in inference alone */
        chunks += work * most;
        divided += work * (splits                                                   ? all / threads
                           : !layer_takes_pieces(l[i]) || (gradient && hooks->both) ? all
                           : gradient                                               ? (all + pieces) / 2
                                                                                    : pieces);
    }
    return threads > 1 && 8 * chunks > 9 * divided;
}

/* ---- all chunks --------------------------------------------------------------------------------------- */

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

void layer_add_partials(const st_layer_run *run, st_tensor to, ptrdiff_t chunks)
{
    const bool little = (double)chunks * (double)st_numel(to) < run->least_work;
    parallel_for(little ? 1 : run->threads, ceil_div(st_numel(to), PIECE), add_piece,
                 &(addition){ to, run->partial, chunks });
}

bool layer_adds_at_once(int threads, ptrdiff_t elements)
{
    return threads == 1 && elements > (1 << 18) / (ptrdiff_t)sizeof(st_real);
}

bool layer_streams(const st_call *c)
{
    return c->layer->impl->run->streams;
}

static bool streams(const pass *p)
{
    const double images = (double)(st_numel(p->x) + st_numel(p->y)) * sizeof(st_real),
                 bytes = st_is_null(p->dy) ? images : 2 * images;
    return p->l->children == 0 && stream_has(p->l->impl->isa) && bytes > p->l->impl->run->cached;
}

/* Little work stays on one thread. */
static void each_chunk(pass *p, bool in_order, parallel_work *work)
{
    int threads = layer_threads_for(p->l->impl->run, layer_work(p->l, p->images));
    p->divided = threads > 1 && !layer_is_whole(p->l) &&
                 (in_order || layer_divides(&p->l, 1, threads, p->images, p->size, !st_is_null(p->dy)));
    if (p->divided || in_order) threads = 1;
    p->alone = layer_adds_at_once(threads, p->partial * p->chunks);
    st_layer_run *run = p->l->impl->run;
    run->streams = streams(p);
    layer_each_chunk(run, threads, p->chunks, work, p);
    run->streams = false;
}

static void forward(st_layer *l, st_tensor x, st_tensor y)
{
    pass p = pass_of(l, 0, layer_chunk(l, x.shape.n[0]), x, y);
    layer_prepare(l, false);
    each_chunk(&p, false, forward_chunk);
}

/* Gradients that are too many to be summed for each chunk are added chunk by chunk, in order. */
static void backward(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const st_layer_run *run = l->impl->run;
    const ptrdiff_t own = layer_own_parameters(l);
    pass p = pass_of(l, 0, layer_chunk(l, x.shape.n[0]), x, y);
    p.dy = dy, p.dx = dx;
    p.gradient = layer_has_gradient(l);
    if (p.gradient && p.chunks > 1 && layer_sums_chunks(l, own)) p.partial = own;
    else if (p.gradient && p.chunks > 1) {
        each_chunk(&p, true, backward_chunk);
        p.gradient = false;
    }
    p.backward = !st_is_null(dx) || l->children > 0;
    if (p.backward) layer_prepare(l, true);
    if (p.gradient || p.backward) each_chunk(&p, false, backward_chunk);
    if (p.partial > 0 && !p.alone)
        layer_add_partials(run, st_narrow(run->gradients, 0, l->grad[0].offset, own), p.chunks);
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
