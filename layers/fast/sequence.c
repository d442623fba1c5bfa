/* sequence.c: a sequence whose consecutive layers run chunk by chunk.
 *
 * Layers whose batch is cut into the same chunks form a fused run: a chunk passes through all of them before
 * the next one begins, so that a layer's output is in cache when the next layer reads it, and threads
 * synchronise only at the ends of the run, unless there are so few chunks that each is divided among them
 * (chunks.c). In a run,
 *
 *     dx between layers is a chunk in one of two buffers of the thread, which take turns;
 *     a layer that works element by element overwrites its input, and dy;
 *     a monotone layer, such as relu, that is written before a max pooling runs after it: the results are the
 *     same, and there are fewer elements;
 *     in inference, x between layers is a buffer of the thread, too; batchnorm, whose mean and variance are
 *     constants then, is in a run, and overwrites its input; and chunks are as small as the cache asks for.
 *
 * The gradients of the layers are the bits of the definition: chunks are those of each layer, and their
 * gradients are added in order. */
#include "layers/fast/algorithms.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "tensor/parallel.h"

enum {
    MOST_LINKS = 16, /* the most layers in a fused run */
    CACHE = 1 << 20, /* bytes of a layer's x and y that stay in cache */
};

/* A layer of the sequence, in the order in which they run; shapes are those of the planned batch. */
typedef struct link {
    int child;     /* its number in the sequence */
    int run;       /* the length of the fused run that begins here; 0: it began earlier; */
    int inference; /* and in inference */
    bool in_place; /* its output overwrites its input */
    int kept;      /* the link whose output is also this one's: the last of those that work in place */
    st_shape x, y;
} link;

typedef struct sequence_plan {
    int threads; /* that have buffers */
    link link[];
} sequence_plan;

/* Scratch slots: dx between runs, in turns; buffers of dx, two for each thread, [2 threads, elements of a
 * chunk]. */
enum { BETWEEN_RUNS, OTHER_BETWEEN_RUNS, BUFFERS };

/* ---- planning ---------------------------------------------------------------------------------------- */

/* Tests if child i runs after the next one. */
static bool swaps(const st_layer *l, int i)
{
    if (i < 0 || i + 1 >= l->children || !traits_of(l->child[i])->monotone) return false;
    const st_layer *next = l->child[i + 1];
    return traits_of(next)->takes_maxima && traits_of(next)->takes_maxima(next);
}

static void order_links(const st_layer *l, link *k)
{
    st_shape x = l->x;
    for (int i = 0; i < l->children; i++) {
        const int child = swaps(l, i) ? i + 1 : swaps(l, i - 1) ? i - 1 : i;
        const bool moved_down = child < i; /* it computes element by element */
        k[i] = (link){ .child = child, .x = x, .y = moved_down ? x : l->child[child]->y };
        k[i].in_place =
            i > 0 && traits_of(l->child[child])->in_place && traits_of(l->child[k[i - 1].child])->ignores_y;
        x = k[i].y;
    }
}

/* Outputs that are overwritten, and the last one, which is the sequence's y, need no memory. */
static void keep_outputs(const st_layer *l, link *k)
{
    const int last = l->children - 1;
    for (int i = last; i >= 0; i--) {
        k[i].kept = i < last && k[i + 1].in_place ? k[i + 1].kept : i;
        const bool kept = i < last && k[i].kept == i;
        l->child[k[i].child]->impl->output = kept ? (st_tensor){ .shape = k[i].y } : (st_tensor){ 0 };
    }
}

/* The number of links, from the first one on, that form a fused run. Adds to the buffers and partial
 * gradients. */
static int length_of_run(st_layer *l, const link *k, int count, ptrdiff_t *buffer)
{
    const st_layer *first = l->child[k[0].child];
    const ptrdiff_t n = l->x.n[0], images = smallest(layer_chunk(first, n), n);
    ptrdiff_t own = layer_own_parameters(first);
    int links = 1;
    for (; links < count && links < MOST_LINKS && !layer_is_whole(first); links++) {
        const st_layer *next = l->child[k[links].child];
        const ptrdiff_t more = layer_own_parameters(next);
        if (layer_is_whole(next) || next->type->chunk != first->type->chunk ||
            !layer_sums_chunks(first, more) || !layer_sums_chunks(first, own + more))
            break;
        own += more;
        *buffer = largest(*buffer, st_shape_numel(k[links].x, "sequence") / n * images);
        l->impl->partial = largest(l->impl->partial, own * layer_most_chunks(first, n));
    }
    return links;
}

static bool in_inference(const st_layer_run *run)
{
    return run->inference_only && !run->training;
}

/* The number of links that form a fused run in inference. */
static int length_of_inference(const st_layer *l, const link *k, int count)
{
    const st_layer *first = NULL; /* that has a chunk */
    int links = 0;
    for (; links < count && links < MOST_LINKS; links++) {
        const st_layer *next = l->child[k[links].child];
        if (layer_infers(next)) continue;
        const bool whole = layer_is_whole(next) && !next->impl->hooks.whole;
        if (whole || (first && next->type->chunk != first->type->chunk)) break;
        first = next;
    }
    return links > 0 ? links : 1;
}

static bool suits(const st_layer *l)
{
    return l->children > 1;
}

static int plan(st_layer *l, const void *given)
{
    (void)given;
    sequence_plan *p = st_layer_plan_data(l, sizeof *p + (size_t)l->children * sizeof *p->link);
    ptrdiff_t between = 0, buffer = 0;
    int runs = 0;
    if (!p) return -1;
    p->threads = layer_threads();
    order_links(l, p->link);
    keep_outputs(l, p->link);
    for (int i = 0; i < l->children; i += p->link[i].run, runs++) {
        p->link[i].run = length_of_run(l, p->link + i, l->children - i, &buffer);
        if (i > 0) between = largest(between, st_shape_numel(p->link[i].x, "sequence"));
    }
    for (int i = 0; i < l->children; i += p->link[i].inference)
        p->link[i].inference = length_of_inference(l, p->link + i, l->children - i);
    for (int slot = 0; slot < 2; slot++)
        if (st_layer_scratch(l, ST_SHAPE(runs > slot + 1 ? between : 0))) return -1;
    return st_layer_scratch(l, ST_SHAPE(buffer > 0 ? 2 * p->threads : 0, buffer));
}

/* ---- a fused run ------------------------------------------------------------------------------------- */

/* The images of a chunk: those that layers ask for, or in inference as many as stay in cache, and some at
 * least for algorithms that do some work once for each chunk. */
static ptrdiff_t chunk_of(const layer_pass *p)
{
    const ptrdiff_t images = p->images, share = largest(1, images / p->threads);
    ptrdiff_t size = images, most = share;
    int least = 0;
    for (int i = 0; i < p->links; i++) {
        const st_layer *l = p->at[i].l;
        const ptrdiff_t numbers = (st_numel(p->at[i].x) + st_numel(p->at[i].y)) / images,
                        each = numbers * (ptrdiff_t)sizeof(st_real);
        if (!layer_infers(l) && !l->impl->hooks.whole) size = layer_chunk(l, images);
        const bool known = layer_infers(l) || l->impl->hooks.divides || layer_takes_pieces(l);
        if (l->type->chunk > 0 || !known) return size;
        least = (int)largest(least, l->impl->hooks.least);
        most = smallest(most, largest(1, CACHE / largest(1, each)));
    }
    if (!in_inference(p->at->l->impl->run)) return size;
    if (least > most) return smallest(images, least);
    most = smallest(least > 0 ? images : size, ceil_div(share, ceil_div(share, most)));
    return layer_pass_whole(p, most, false) < ceil_div(images, most) ? size : most;
}

static layer_pass pass_of(const st_call *c, const layer_station *at, int links)
{
    const sequence_plan *plan = c->plan;
    layer_pass p = layer_pass_of(at, links, 0);
    p.threads = (int)smallest(p.threads, plan->threads);
    p.buffers = st_scratch(c, BUFFERS);
    layer_pass_cut(&p, chunk_of(&p));
    return p;
}

/* A layer that is alone is run by st_layer_forward, unless it has moved: it has another x then than the one
 * that it was planned for. */
static bool runs_alone(const layer_station *at, int links)
{
    st_shape planned = at->l->x;
    planned.n[0] = at->x.shape.n[0];
    return links == 1 && st_shape_equal(at->x.shape, planned);
}

static void run_forward(const st_call *c, const layer_station *at, int links)
{
    if (runs_alone(at, links)) {
        st_layer_forward((st_layer *)at->l, at->x, at->y);
        return;
    }
    layer_pass p = pass_of(c, at, links);
    layer_pass_forward(&p);
}

static void run_backward(const st_call *c, const layer_station *at, int links, st_tensor dy, st_tensor dx)
{
    if (runs_alone(at, links)) {
        st_layer_backward((st_layer *)at->l, at->x, at->y, dy, dx);
        return;
    }
    layer_pass p = pass_of(c, at, links);
    p.dy = dy, p.dx = dx;
    layer_pass_backward(&p);
}

/* ---- the sequence ------------------------------------------------------------------------------------ */

/* The output of link i, where y is the sequence's. */
static st_tensor output(const st_call *c, int i, st_tensor y)
{
    const sequence_plan *p = c->plan;
    const int kept = p->link[i].kept;
    st_shape shape = p->link[i].y;
    shape.n[0] = c->images;
    return st_reshape(kept == c->layer->children - 1 ? y : st_child_output(c, p->link[kept].child), shape);
}

/* The stations of the run that begins at link i; returns their number. */
static int stations(layer_station at[MOST_LINKS], const st_call *c, int i, st_tensor x, st_tensor y)
{
    const sequence_plan *p = c->plan;
    const bool inference = in_inference(c->layer->impl->run);
    const int links = inference ? p->link[i].inference : p->link[i].run;
    for (int k = 0; k < links; k++) {
        const st_layer *l = c->layer->child[p->link[i + k].child];
        at[k] = (layer_station){ l, x, output(c, i + k, y), traits_of(l)->in_place };
        x = at[k].y;
    }
    for (int k = links - 1; k > 0 && inference; k--)
        if (at[k].in_place || layer_infers(at[k].l))
            at[k].x = at[k - 1].y = st_reshape(at[k].y, at[k].x.shape);
    return links;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    layer_station at[MOST_LINKS];
    for (int i = 0, links; i < c->layer->children; i += links) {
        links = stations(at, c, i, x, y);
        run_forward(c, at, links);
        x = at[links - 1].y;
    }
}

/* If dx is not needed, layers before the first one that trains do not run backward. */
static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const sequence_plan *p = c->plan;
    st_layer *const *child = c->layer->child;
    layer_station at[MOST_LINKS];
    int first = 0, turn = BETWEEN_RUNS;
    while (st_is_null(dx) && first < c->layer->children && !layer_trains(child[p->link[first].child]))
        first++;
    for (int end = c->layer->children, i; end > first; end = i) {
        for (i = end - 1; p->link[i].run == 0;) i--;
        const st_tensor in = i > 0 ? output(c, i - 1, y) : x;
        const int links = stations(at, c, i, in, y), skipped = first > i ? first - i : 0;
        st_tensor to = dx;
        if (i > first) to = st_reshape(st_narrow(st_scratch(c, turn), 0, 0, st_numel(in)), in.shape);
        run_backward(c, at + skipped, links - skipped, dy, to);
        dy = to;
        turn = turn == BETWEEN_RUNS ? OTHER_BETWEEN_RUNS : BETWEEN_RUNS;
    }
}

const layer_algorithm sequence_fused = {
    .type = &layer_type_sequence,
    .suits = suits,
    .plan = plan,
    .hooks = { .forward = forward, .backward = backward },
};
