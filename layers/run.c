/* run.c: running a layer: the batch is cut into chunks, and each chunk sees a view of the layer. */
#include "layers/run.h"
#include "layers/layer.h"
#include "tensor/parallel.h"

#include <math.h>

/* ---- views of a layer -------------------------------------------------------------------------- */

static tensor images(tensor x, ptrdiff_t first, ptrdiff_t count)
{
    return tensor_is_null(x) ? x : tensor_narrow(x, 0, first, count);
}

/* The layer as a hook sees it that is given some images only: their memory, a thread's scratch. */
static layer layer_view(const layer *l, ptrdiff_t first, ptrdiff_t count, int thread)
{
    layer part = *l;
    part.first = l->first + first;
    for (int i = 0; i < l->memories; i++)
        if (l->memory[i].shape.n[0] == l->x.n[0]) part.memory[i] = images(l->memory[i], first, count);
    if (l->children > 0) return part;
    ptrdiff_t block = l->run->block * thread;
    for (int i = 0; i < l->scratches; i++) part.scratch[i].offset += block;
    return part;
}

/* The layer's gradients, summed in a part of run->partial. */
static void redirect_gradient(layer *part, tensor flat, ptrdiff_t at)
{
    for (int i = 0; i < part->params; i++) {
        part->grad[i].storage = flat.storage;
        part->grad[i].offset = flat.offset + at;
        at += tensor_count(part->grad[i]);
    }
}

/* ---- chunks ------------------------------------------------------------------------------------ */

/* One way through a chain, and what its chunks share. */
typedef struct pass pass;
struct pass {
    const layer_link *link;
    int links;
    void (*run)(const pass *p, ptrdiff_t k, int thread); /* chunk k */
    ptrdiff_t images, size, chunks;                      /* of the batch; of a chunk */
    tensor dy, dx;
    bool gradient, backward; /* which hooks of the backward pass */
    ptrdiff_t together;      /* parameters whose gradients each chunk sums apart; 0: none */
};

static pass pass_of(const layer_link link[], int links, void (*run)(const pass *p, ptrdiff_t k, int thread))
{
    pass p = { .link = link, .links = links, .run = run, .images = link[0].x.shape.n[0] };
    p.size = layer_chunk(link[0].l, p.images);
    p.chunks = (p.images + p.size - 1) / p.size;
    return p;
}

static tensor chunk(const pass *p, tensor x, ptrdiff_t k)
{
    ptrdiff_t first = k * p->size;
    return images(x, first, p->images - first < p->size ? p->images - first : p->size);
}

static bool same_place(tensor a, tensor b)
{
    return a.storage == b.storage && a.offset == b.offset;
}

/* What goes from link i - 1 to link i, of chunk k. Where it is soon forgotten, each thread has one place for it,
 * which stays in cache; but what is in the place of the chain's own x or y belongs to the whole batch. */
static tensor between(const pass *p, int i, ptrdiff_t k, int thread)
{
    const layer_run *run = p->link[0].l->run;
    tensor all = i < p->links ? p->link[i].x : p->link[i - 1].y, x = chunk(p, all, k);
    bool ends = same_place(all, p->link[0].x) || same_place(all, p->link[p->links - 1].y);
    if (run->forgets && !ends && run->threads * p->size <= p->images)
        x.offset += (thread - k) * p->size * x.stride[0];
    return x;
}

static void forward_chunk(const pass *p, ptrdiff_t k, int thread)
{
    for (int i = 0; i < p->links; i++) {
        tensor x = between(p, i, k, thread), y = between(p, i + 1, k, thread);
        layer part = layer_view(p->link[i].l, k * p->size, x.shape.n[0], thread);
        part.type->forward(&part, x, y);
    }
}

/* A thread's own place for dx of link i: of turn 0 or 1, so that it is not where dy is. */
static tensor turn(const pass *p, int i, tensor x, int which, int thread)
{
    const layer_run *run = p->link[i].l->run;
    ptrdiff_t at = run->block * (thread + 1) - run->turn * (which + 1);
    return tensor_reshape(tensor_narrow(run->scratch, 0, at, tensor_count(x)), x.shape);
}

static void backward_chunk(const pass *p, ptrdiff_t k, int thread)
{
    const layer_run *run = p->link[0].l->run;
    tensor dy = chunk(p, p->dy, k), partial = { 0 };
    ptrdiff_t left = p->together;
    if (left > 0) tensor_fill(partial = tensor_narrow(run->partial, 0, k * left, left), 0);
    for (int i = p->links - 1, which = 0; i >= 0; i--) {
        tensor x = chunk(p, p->link[i].x, k), y = chunk(p, p->link[i].y, k), dx = chunk(p, p->dx, k);
        layer part = layer_view(p->link[i].l, k * p->size, x.shape.n[0], thread);
        bool own_dy = i + 1 < p->links;
        if (i > 0 && own_dy && part.type->in_place) dx = tensor_reshape(dy, x.shape);
        else if (i > 0) dx = turn(p, i, x, which = !which, thread);
        if (left > 0) redirect_gradient(&part, partial, left -= layer_own_parameters(&part));
        bool back = p->backward && (!tensor_is_null(dx) || part.children > 0);
        part.graded = p->gradient && part.type->gradient && part.params > 0;
        part.paired = part.graded && back;
        if (part.graded) part.type->gradient(&part, x, y, dy);
        if (back) part.type->backward(&part, x, y, dy, dx);
        dy = dx;
    }
}

double layer_work(const layer *l, ptrdiff_t images)
{
    const double products_a_time = 50; /* while an element is read or written */
    double elements = (double)shape_count(l->x, l->type->name) + (double)shape_count(l->y, l->type->name);
    return (elements + l->flops / products_a_time) * (double)images / (double)l->x.n[0];
}

static bool is_little(const pass *p)
{
    double work = 0;
    for (int i = 0; i < p->links; i++) work += layer_work(p->link[i].l, p->images);
    return work < p->link[0].l->run->grain;
}

static void run_chunk(ptrdiff_t k, int thread, void *context)
{
    const pass *p = context;
    p->run(p, k, thread);
}

static void run_chunks(pass *p, bool serial)
{
    parallel_for(serial || is_little(p) ? 1 : p->link[0].l->run->threads, p->chunks, run_chunk, p);
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

void layer_split(const layer *l, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context), void *context)
{
    bool little = layer_work(l, l->x.n[0]) < l->run->grain;
    parallel_for(little ? 1 : l->run->threads, count, run_piece, &(piece_work){ work, context });
}

/* ---- forward and backward ---------------------------------------------------------------------- */

static bool matches(tensor x, shape planned)
{
    if (tensor_is_null(x) || x.shape.rank != planned.rank || x.shape.n[0] < 1 || x.shape.n[0] > planned.n[0])
        return false;
    planned.n[0] = x.shape.n[0];
    return shape_equal(x.shape, planned);
}

static bool runnable(const layer *l, const char *what, tensor x, tensor y)
{
    if (!l) error_set("%s: the layer is NULL", what);
    else if (!l->run || !l->run->ready) layer_refuse(l, "%s before layer_build", what);
    else if (!matches(x, l->x))
        layer_refuse(l, "%s of x %s, built for %s", what, shape_text(x.shape).text, shape_text(l->x).text);
    else if (!matches(y, l->y) || y.shape.n[0] != x.shape.n[0])
        layer_refuse(l, "%s of x %s into y %s, built for %s", what, shape_text(x.shape).text,
                     shape_text(y.shape).text, shape_text(l->y).text);
    else if (!tensor_is_contiguous(y)) layer_refuse(l, "%s into a y that is not contiguous", what);
    else return true;
    return false;
}

void layer_forward_chain(const layer_link link[], int count)
{
    pass p = pass_of(link, count, forward_chunk);
    run_chunks(&p, false);
}

void layer_forward(layer *l, tensor x, tensor y)
{
    if (runnable(l, "forward", x, y)) layer_forward_chain(&(layer_link){ l, x, y }, 1);
}

static bool gradients_fit(const layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    if (tensor_is_null(dy) || !shape_equal(dy.shape, y.shape) || !tensor_is_contiguous(dy))
        layer_refuse(l, "backward from dy %s, expected a contiguous %s", shape_text(dy.shape).text,
                     shape_text(y.shape).text);
    else if (!tensor_is_null(dx) && (!shape_equal(dx.shape, x.shape) || !tensor_is_contiguous(dx)))
        layer_refuse(l, "backward into dx %s, expected a contiguous %s", shape_text(dx.shape).text,
                     shape_text(x.shape).text);
    else return true;
    return false;
}

enum { PIECE = 1 << 12 }; /* parameters that are added up at a time */

/* What the chunks' gradients are added to, and so many of them. */
typedef struct addition {
    tensor to, partial; /* flat; [chunks, as many] */
} addition;

/* In order, so that the sum does not depend on who was first. */
static void add_piece(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const addition *a = context;
    ptrdiff_t first = i * PIECE, left = a->to.shape.n[0] - first, count = left < PIECE ? left : PIECE;
    tensor to = tensor_narrow(a->to, 0, first, count);
    for (ptrdiff_t k = 0; k < a->partial.shape.n[0]; k++)
        tensor_add(to, 1, tensor_narrow(tensor_select(a->partial, 0, k), 0, first, count));
}

static void add_partial(const pass *p)
{
    const layer_run *run = p->link[0].l->run;
    ptrdiff_t all = p->chunks * p->together;
    int first = 0;
    while (p->link[first].l->params == 0) first++;
    addition a = { tensor_narrow(run->gradients, 0, p->link[first].l->grad[0].offset, p->together),
                   tensor_reshape(tensor_narrow(run->partial, 0, 0, all), SHAPE(p->chunks, p->together)) };
    parallel_for((double)all < run->grain ? 1 : run->threads, (p->together + PIECE - 1) / PIECE, add_piece,
                 &a);
}

void layer_backward_chain(const layer_link link[], int count, tensor dy, tensor dx)
{
    pass p = pass_of(link, count, backward_chunk);
    p.dy = dy, p.dx = dx;
    p.backward = true;
    ptrdiff_t own = 0;
    for (int i = 0; i < count; i++) {
        own += layer_own_parameters(link[i].l);
        p.gradient |= link[i].l->type->gradient && link[i].l->params > 0;
    }
    if (!p.gradient || p.chunks == 1) {
        run_chunks(&p, false);
    } else if (layer_sums_apart(link[0].l, own)) {
        p.together = own;
        run_chunks(&p, false);
        add_partial(&p);
    } else { /* a layer alone: gradients one after another; the rest needs not wait */
        p.backward = false;
        run_chunks(&p, true);
        p.backward = true, p.gradient = false;
        if (!tensor_is_null(dx)) run_chunks(&p, false);
    }
}

void layer_backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    if (runnable(l, "backward", x, y) && gradients_fit(l, x, y, dy, dx))
        layer_backward_chain(&(layer_link){ l, x, y }, 1, dy, dx);
}

/* ---- mode -------------------------------------------------------------------------------------- */

void layer_mode(layer *root, bool training, uint64_t seed, uint64_t step)
{
    if (!root || !root->run) return;
    root->run->training = training;
    root->run->forgets = false;
    root->run->seed = seed;
    root->run->step = step;
}

void layer_forget(layer *root, bool forget)
{
    if (root && root->run) root->run->forgets = forget;
}

static void spoil_held(layer *l, const char *path, void *context)
{
    (void)path, (void)context;
    for (int i = 0; i < l->scratches && l->children > 0; i++) tensor_fill(l->scratch[i], (real)NAN);
}

void layer_spoil_scratch(layer *root)
{
    if (!root || !root->run || !root->run->ready) return;
    tensor_fill(root->run->scratch, (real)NAN);
    layer_visit(root, spoil_held, NULL);
}

bool layer_training(const layer *l)
{
    return l->run->training;
}

random_key layer_random(const layer *l)
{
    uint64_t drawn = UINT64_C(1) << 63; /* apart from the streams that parameters are initialised from */
    return (random_key){ l->run->seed, drawn | (uint64_t)l->number << 40 | l->run->step };
}
