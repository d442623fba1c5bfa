/* build.c: from requests to memory: lays out the slots of a planned tree, allocates, and binds them. */
#include "layers/layer_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/engine.h"
#include "tensor/threads.h"

#include <math.h>
#include <stdlib.h>

enum { CACHE_LINE = 64 / sizeof(st_real) }; /* elements: memory, scratch and tables begin on one */

/* ---- the layout ---------------------------------------------------------------------------------- */

/* A sum that overflows stays the largest number, which cannot be allocated. */
static void add(ptrdiff_t *sum, ptrdiff_t amount)
{
    if (__builtin_add_overflow(*sum, amount, sum)) *sum = PTRDIFF_MAX;
}

/* Cuts a slot from a flat tensor, which is null while a tree is measured: from element *at on, which is then
 * the first one behind the slot. */
static void cut(st_tensor flat, ptrdiff_t *at, st_tensor *slot, ptrdiff_t alignment)
{
    const ptrdiff_t count = st_shape_numel(slot->shape, "st_layer_build"), first = *at;
    add(at, ceil_div(count, alignment) * alignment);
    if (!st_is_null(flat)) *slot = st_reshape(st_narrow(flat, 0, first, count), slot->shape);
}

/* Cuts the slots of all layers, parents first. Layers run in turn, and share their scratch and partial
 * gradients: the largest count. */
typedef struct layout {
    st_layer_run *run;   /* NULL while a tree is measured */
    st_layer_needs used; /* by the layers so far */
    int number;
} layout;

static ptrdiff_t elements_of(size_t bytes)
{
    return ceil_div((ptrdiff_t)bytes, CACHE_LINE * sizeof(st_real)) * CACHE_LINE;
}

ptrdiff_t layer_own_parameters(const st_layer *l)
{
    ptrdiff_t own = 0;
    for (int i = 0; i < l->params; i++) add(&own, st_shape_numel(l->param[i].shape, l->type->name));
    return own;
}

/* Scratch of a layer that holds layers is memory, as it is in use while they run. */
static void lay_out(st_layer *l, const char *path, void *context)
{
    (void)path;
    layout *to = context;
    layer_impl *own = l->impl;
    st_layer_needs *used = &to->used;
    const st_layer_run flat = to->run ? *to->run : (st_layer_run){ 0 };
    const ptrdiff_t chunks = layer_most_chunks(l, l->x.n[0]), parameters = layer_own_parameters(l);
    ptrdiff_t block = 0;
    for (int i = 0; i < l->params; i++) {
        ptrdiff_t at = used->parameters; /* of its gradient, too */
        cut(flat.parameters, &used->parameters, &l->param[i], 1);
        if (st_is_null(flat.gradients)) continue;
        l->grad[i].shape = l->param[i].shape;
        cut(flat.gradients, &at, &l->grad[i], 1);
    }
    for (int i = 0; i < l->states; i++) cut(flat.states, &used->state, &l->state[i], 1);
    for (int i = 0; i < own->memories; i++) cut(flat.memory, &used->memory, &own->memory[i], CACHE_LINE);
    if (own->output.shape.rank > 0) cut(flat.memory, &used->memory, &own->output, CACHE_LINE);
    for (int i = 0; i < own->scratches; i++) {
        if (l->children > 0) cut(flat.memory, &used->memory, &own->scratch[i], CACHE_LINE);
        else cut(flat.scratch, &block, &own->scratch[i], CACHE_LINE);
    }
    const bool alone = layer_is_whole(l) && !own->hooks.divides; /* in one thread's scratch */
    ptrdiff_t *most = alone ? &used->whole : &used->scratch;
    *most = largest(*most, block);
    used->partial = largest(used->partial, own->partial);
    if (chunks > 1 && layer_sums_chunks(l, parameters))
        used->partial = largest(used->partial, parameters * chunks);
    st_tensor tables = { .shape = ST_SHAPE(elements_of(own->tables)) };
    cut(flat.tables, &used->tables, &tables, CACHE_LINE);
    add(&used->data, elements_of(own->data));
    if (!to->run) return;
    own->run = to->run;
    own->number = to->number++;
    if (own->tables > 0) own->fill(l, st_data(tables));
}

/* ---- measuring ----------------------------------------------------------------------------------- */

int layer_threads(void)
{
    return (int)smallest(st_num_threads(), LAYER_MOST_CHUNKS);
}

double layer_needed(const st_layer_needs *needs)
{
    const double scratch = fmax((double)needs->scratch * needs->threads, (double)needs->whole);
    return 2.0 * (double)needs->parameters + (double)needs->state + (double)needs->memory + scratch +
           (double)needs->partial + (double)needs->data + (double)needs->tables;
}

int st_layer_measure(const st_layer *root, st_layer_needs *needs)
{
    if (!layer_given(root, "st_layer_measure")) return -1;
    if (!needs || root->x.rank < 1)
        return st_layer_refuse(root, needs ? "measured before it is planned" : "the needs are NULL");
    layout all = { .used.threads = layer_threads() };
    st_layer_visit((st_layer *)root, lay_out, &all); /* which changes nothing */
    *needs = all.used;
    const double needed = layer_needed(needs), most = (double)PTRDIFF_MAX / sizeof(st_real);
    if (needed < most) return 0;
    return st_layer_refuse(root, "the net needs %.3g elements of %s, but %.3g can be addressed", needed,
                           ST_REAL_NAME, most);
}

/* ---- allocating ---------------------------------------------------------------------------------- */

static void free_tensor(st_tensor *x)
{
    st_tensor_free(*x);
    *x = (st_tensor){ 0 };
}

static void free_run(st_layer_run *run)
{
    if (!run->shared) free_tensor(&run->parameters), free_tensor(&run->gradients), free_tensor(&run->states);
    free_tensor(&run->memory), free_tensor(&run->tables);
    free_tensor(&run->scratch), free_tensor(&run->partial);
    free(run);
}

void layer_run_free(st_layer *l)
{
    if (!l->impl || !l->impl->run || l->impl->run->root != l) return;
    free_run(l->impl->run);
    l->impl->run = NULL;
}

/* Replaces x; null on failure. */
static int allocate(st_tensor *x, ptrdiff_t elements, const char *what)
{
    free_tensor(x);
    *x = st_tensor_new(ST_SHAPE(elements));
    return st_is_null(*x) ? st_error_within("%s: ", what) : 0;
}

/* Needs that were measured can be addressed, and so can the scratch of all threads. */
static int allocate_run(st_layer_run *run, const st_layer_needs *needs, bool parameters)
{
    const ptrdiff_t scratch = needs->scratch * needs->threads;
    run->threads = needs->threads;
    run->block = needs->scratch;
    if (parameters && (allocate(&run->parameters, needs->parameters, "parameters") ||
                       allocate(&run->gradients, needs->parameters, "their gradients") ||
                       allocate(&run->states, needs->state, "states")))
        return -1;
    if (allocate(&run->memory, needs->memory, "activations") ||
        allocate(&run->scratch, largest(scratch, needs->whole), "scratch") ||
        allocate(&run->partial, needs->partial, "gradients of chunks"))
        return -1;
    return allocate(&run->tables, needs->tables, "tables of algorithms");
}

/* ---- building ------------------------------------------------------------------------------------ */

static void initialise(st_tensor x, st_init init, st_random_key key)
{
    if (init.uniform > 0) st_uniform(x, key, (st_real)-init.uniform, (st_real)init.uniform);
    else if (init.normal > 0) st_normal(x, key, (st_real)init.constant, (st_real)init.normal);
    else st_fill(x, (st_real)init.constant);
}

/* Each parameter has a stream of random numbers of its own. */
static void initialise_layer(st_layer *l, const char *path, void *seed)
{
    (void)path;
    const uint64_t stream = (uint64_t)l->impl->number * ST_LAYER_SLOTS;
    for (int i = 0; i < l->params; i++)
        initialise(l->param[i], l->impl->param_init[i],
                   (st_random_key){ *(const uint64_t *)seed, stream + (uint64_t)i });
    for (int i = 0; i < l->states; i++) initialise(l->state[i], l->impl->state_init[i], (st_random_key){ 0 });
}

static int build(st_layer *root, st_shape x, uint64_t seed, st_layer_run *run)
{
    st_layer_needs needs = { 0 };
    const bool fresh = st_is_null(run->parameters);
    if (st_layer_plan(root, x, NULL) || st_layer_measure(root, &needs)) return -1;
    run->executor = engine_is_reference() ? NULL : layer_fast_executor;
    if ((run->executor && run->executor->prepare(run)) || allocate_run(run, &needs, fresh)) return -1;
    st_layer_visit(root, lay_out, &(layout){ .run = run });
    if (fresh) st_layer_visit(root, initialise_layer, &seed);
    run->ready = true;
    return 0;
}

int layer_build_first(st_layer *root, st_shape x, uint64_t seed, st_layer_run *run)
{
    run->root = root;
    if (build(root, x, seed, run) == 0) return 0;
    free_run(run);
    return -1;
}

int st_layer_build(st_layer *root, st_shape x, uint64_t seed)
{
    if (!layer_given(root, "st_layer_build")) return -1;
    st_layer_run *run = root->impl->run;
    if (run && run->root != root) return st_layer_refuse(root, "is part of another layer, build that one");
    if (run) return build(root, x, seed, run);
    run = array_new("st_layer_build", 1, sizeof *run);
    return run ? layer_build_first(root, x, seed, run) : -1;
}

/* ---- flat tensors of a built tree ---------------------------------------------------------------- */

st_tensor st_layer_parameters(const st_layer *root)
{
    return layer_run_of(root) ? layer_run_of(root)->parameters : (st_tensor){ 0 };
}

st_tensor st_layer_gradients(const st_layer *root)
{
    return layer_run_of(root) ? layer_run_of(root)->gradients : (st_tensor){ 0 };
}

st_tensor st_layer_states(const st_layer *root)
{
    return layer_run_of(root) ? layer_run_of(root)->states : (st_tensor){ 0 };
}
