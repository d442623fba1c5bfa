/* run.c: running a layer: the batch is cut into chunks, and each chunk sees a view of the layer. */
#include "layers/run.h"
#include "layers/layer.h"

#include <math.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* A call of hooks on some images: the layer (or a view of it) and the tensors that go with it. */
typedef struct call {
    layer *l;
    tensor x, y, dy, dx;
    bool gradient, backward; /* what a backward pass is to make of this chunk */
} call;

static void forward_hook(const call *c)
{
    c->l->type->forward(c->l, c->x, c->y);
}

static void backward_hook(const call *c)
{
    if (c->gradient) c->l->type->gradient(c->l, c->x, c->y, c->dy);
    if (c->backward) c->l->type->backward(c->l, c->x, c->y, c->dy, c->dx);
}

/* ---- views of a layer -------------------------------------------------------------------------- */

static int thread_number(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static tensor images(tensor x, ptrdiff_t first, ptrdiff_t count)
{
    return tensor_is_null(x) ? x : tensor_narrow(x, 0, first, count);
}

/* The layer as a hook sees it that is given some images only: their memory, a thread's scratch. */
static layer layer_view(const layer *l, ptrdiff_t first, ptrdiff_t count, int thread)
{
    layer part = *l;
    const layer_run *run = l->run;
    part.first = l->first + first;
    for (int i = 0; i < l->memories; i++)
        if (l->memory[i].shape.n[0] == l->x.n[0]) part.memory[i] = images(l->memory[i], first, count);
    if (l->children > 0) return part;
    ptrdiff_t block = run->block * thread;
    for (int i = 0; i < l->scratches; i++) part.scratch[i].offset += block;
    return part;
}

/* Gradients that chunk k sums on its own: l->grad's layout, in the k-th part of run->partial. */
static tensor partial_gradient(const layer *l, ptrdiff_t k)
{
    ptrdiff_t own = layer_own_parameters(l);
    return tensor_narrow(l->run->partial, 0, k * own, own);
}

static void redirect_gradient(layer *part, tensor flat)
{
    ptrdiff_t at = flat.offset;
    for (int i = 0; i < part->params; i++) {
        part->grad[i].storage = flat.storage;
        part->grad[i].offset = at;
        at += tensor_count(part->grad[i]);
    }
}

/* ---- chunks ------------------------------------------------------------------------------------ */

/* An error in a worker belongs to whoever called: it is carried over and not left behind. */
static void collect_error(char *error)
{
    if (!error_text() || thread_number() == 0) return;
#ifdef _OPENMP
#pragma omp critical(stride_collect_error)
#endif
    memcpy(error, error_text(), strlen(error_text()) + 1);
    error_clear();
}

/* Chunk k of `size` images. `apart`: its gradient is summed in a part of run->partial. */
static void run_chunk(const call *c, void (*hook)(const call *piece), ptrdiff_t k, ptrdiff_t size, bool apart,
                      int thread)
{
    ptrdiff_t n = c->x.shape.n[0], first = k * size, count = n - first < size ? n - first : size;
    layer part = layer_view(c->l, first, count, thread);
    call piece = *c;
    piece.l = &part;
    piece.x = images(c->x, first, count);
    piece.y = images(c->y, first, count);
    piece.dy = images(c->dy, first, count);
    piece.dx = images(c->dx, first, count);
    if (apart) {
        tensor_fill(partial_gradient(c->l, k), 0);
        redirect_gradient(&part, partial_gradient(c->l, k));
    }
    hook(&piece);
}

/* A single thread enters no parallel region: one inside it, a child's, would make its threads anew each time. */
static void for_chunks(const call *c, void (*hook)(const call *piece))
{
    ptrdiff_t n = c->x.shape.n[0], size = layer_chunk(c->l, n), chunks = (n + size - 1) / size;
    bool apart = c->gradient && chunks > 1 && layer_gradient_apart(c->l), serial = c->gradient && !apart;
    if (chunks == 1 || serial || c->l->run->threads == 1) {
        for (ptrdiff_t k = 0; k < chunks; k++) run_chunk(c, hook, k, size, apart, 0);
    } else {
        char error[ERROR_SIZE] = "";
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(c->l->run->threads)
#endif
        for (ptrdiff_t k = 0; k < chunks; k++) {
            run_chunk(c, hook, k, size, apart, thread_number());
            collect_error(error);
        }
        if (error[0]) error_set("%s", error);
    }
    if (!apart) return;
    tensor own = tensor_narrow(c->l->run->gradients, 0, c->l->grad[0].offset, layer_own_parameters(c->l));
    for (ptrdiff_t k = 0; k < chunks; k++) tensor_add(own, 1, partial_gradient(c->l, k));
}

static bool in_parallel(void)
{
#ifdef _OPENMP
    return omp_in_parallel();
#else
    return true;
#endif
}

void layer_split(const layer *l, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context), void *context)
{
    if (count == 1 || l->run->threads == 1 || in_parallel()) {
        for (ptrdiff_t i = 0; i < count; i++) work(i, context);
        return;
    }
    char error[ERROR_SIZE] = "";
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(l->run->threads)
#endif
    for (ptrdiff_t i = 0; i < count; i++) {
        work(i, context);
        collect_error(error);
    }
    if (error[0]) error_set("%s", error);
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

void layer_forward(layer *l, tensor x, tensor y)
{
    if (!runnable(l, "forward", x, y)) return;
    for_chunks(&(call){ .l = l, .x = x, .y = y }, forward_hook);
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

void layer_backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    if (!runnable(l, "backward", x, y) || !gradients_fit(l, x, y, dy, dx)) return;
    call c = { .l = l, .x = x, .y = y, .dy = dy, .dx = dx };
    c.gradient = l->type->gradient && l->params > 0;
    c.backward = !tensor_is_null(dx) || l->children > 0; /* below a holder there may be parameters */
    if (c.gradient && c.backward &&
        !layer_gradient_apart(l)) { /* one after another; the rest needs not wait */
        call gradient_alone = c;
        gradient_alone.backward = c.gradient = false;
        for_chunks(&gradient_alone, backward_hook);
    }
    if (c.gradient || c.backward) for_chunks(&c, backward_hook);
}

/* ---- mode -------------------------------------------------------------------------------------- */

void layer_mode(layer *root, bool training, uint64_t seed, uint64_t step)
{
    if (!root || !root->run) return;
    root->run->training = training;
    root->run->seed = seed;
    root->run->step = step;
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
