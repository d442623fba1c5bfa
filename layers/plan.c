/* plan.c: from shapes to memory: plans layers, measures their requests, allocates, and assigns slots. */
#include "layers/layer.h"
#include "layers/layer_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/engine.h"
#include "tensor/parallel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64 / sizeof(st_real) }; /* elements: every slot begins on one */

/* Empty: layers/fast/ has algorithms and an executor. */
static const layer_algorithm *none[] = { NULL };
__attribute__((weak)) const layer_algorithm **layer_algorithms = none;
__attribute__((weak)) const layer_executor *layer_fast_executor;

/* ---- requests: slots hold a shape until they are bound ------------------------------------------ */

static int request(st_layer *l, st_tensor slot[], int *used, st_shape s, const char *what)
{
    char who[96];
    snprintf(who, sizeof who, "%s: %s", l->type->name, what);
    if (*used == ST_LAYER_SLOTS)
        return st_layer_refuse(l, "requests more than %d slots of %s", ST_LAYER_SLOTS, what);
    if (st_shape_numel(s, who) < 0) return -1;
    slot[(*used)++] = (st_tensor){ .shape = s };
    return 0;
}

/* A parameter or state. One that is bound keeps its values when the layer is planned again, and its shape. */
static int request_kept(st_layer *l, st_tensor slot[], int *used, st_shape s, const char *name)
{
    if (!name) return st_layer_refuse(l, "requests a parameter or a state without a name");
    const st_tensor bound = l->impl->run && *used < ST_LAYER_SLOTS ? slot[*used] : (st_tensor){ 0 };
    if (!st_is_null(bound) && !st_shape_equal(bound.shape, s))
        return st_layer_refuse(l, "%s is %s, an input of %s needs %s", name, st_shape_text(bound.shape).text,
                               st_shape_text(l->x).text, st_shape_text(s).text);
    if (request(l, slot, used, s, name)) return -1;
    if (!st_is_null(bound)) slot[*used - 1] = bound;
    return 0;
}

int st_layer_parameter(st_layer *l, const char *name, st_shape s, st_init init)
{
    if (!layer_given(l, "st_layer_parameter") || request_kept(l, l->param, &l->params, s, name)) return -1;
    l->param_name[l->params - 1] = name;
    l->impl->param_init[l->params - 1] = init;
    return 0;
}

int st_layer_state(st_layer *l, const char *name, st_shape s, double value)
{
    if (!layer_given(l, "st_layer_state") || request_kept(l, l->state, &l->states, s, name)) return -1;
    l->state_name[l->states - 1] = name;
    l->impl->state_init[l->states - 1] = (st_init){ .constant = value };
    return 0;
}

int st_layer_memory(st_layer *l, st_shape s)
{
    if (!layer_given(l, "st_layer_memory")) return -1;
    const bool whole = layer_most_chunks(l, l->x.n[0]) == 1;
    const bool by_image = s.rank > 0 && s.n[0] == l->x.n[0], of_batch = whole && s.rank > 0 && s.n[0] == 1;
    if (by_image || of_batch) return request(l, l->impl->memory, &l->impl->memories, s, "memory");
    return st_layer_refuse(l, "requests memory %s, expected [%td, ...]", st_shape_text(s).text, l->x.n[0]);
}

int st_layer_scratch(st_layer *l, st_shape s)
{
    if (!layer_given(l, "st_layer_scratch")) return -1;
    return request(l, l->impl->scratch, &l->impl->scratches, s, "scratch");
}

void *st_layer_plan_data(st_layer *l, size_t size)
{
    if (!layer_given(l, "st_layer_plan_data")) return NULL;
    free(l->plan);
    l->plan = array_new(l->type->name, 1, size);
    l->impl->data = l->plan ? size : 0;
    return l->plan;
}

int st_plan_child(st_layer *l, int i, st_shape x, st_shape *y)
{
    if (!layer_given(l, "st_plan_child")) return -1;
    if (i < 0 || i >= l->children || !y)
        return st_layer_refuse(l, "plans child %d of %d%s", i, l->children,
                               y ? "" : " into a shape that is NULL");
    st_layer *child = l->child[i];
    const char *const *names = l->type->child_names;
    if (st_layer_plan(child, x, y))
        return names ? st_error_within("%s: ", names[i]) : st_error_within("layer %d: ", i);
    child->impl->output = (st_tensor){ .shape = *y };
    l->flops += child->flops;
    return 0;
}

/* ---- planning ---------------------------------------------------------------------------------- */

static int run_plan(st_layer *l)
{
    bool failed_before = st_error() != NULL;
    if (l->type->plan(l, l->x, &l->y))
        return st_error() ? -1 : st_error_set("%s: plan failed without an error", l->type->name);
    if (st_error() && !failed_before)
        return st_error_within("%s: plan ignored a failed request: ", l->type->name);
    if (l->y.rank < 1 || l->y.n[0] != l->x.n[0])
        return st_layer_refuse(l, "plan made %s of a batch %s, expected [%td, ...]", st_shape_text(l->y).text,
                               st_shape_text(l->x).text, l->x.n[0]);
    if (l->params > 0 && !l->type->gradient)
        return st_layer_refuse(l, "has %d parameters and no gradient hook", l->params);
    return st_shape_numel(l->y, l->type->name) < 0 ? -1 : 0;
}

/* Chooses the first suitable algorithm instead of the definition, except with STRIDE_ENGINE=reference. */
static int choose_algorithm(st_layer *l, bool reference)
{
    const st_layer_type *type = l->type;
    layer_impl *own = l->impl;
    own->hooks = (layer_hooks){ type->forward, type->backward, type->gradient, NULL };
    for (const layer_algorithm **a = layer_algorithms; *a && !reference; a++) {
        if ((*a)->type != type || !(*a)->suits(l)) continue;
        own->hooks = (*a)->hooks;
        own->fill = (*a)->fill;
        own->scratches = 0;
        own->data = 0;
        void *given = l->plan;
        l->plan = NULL;
        int status = (*a)->plan(l, given);
        free(given);
        return status;
    }
    return 0;
}

/* After a failure the layer has its parameters and states, and is to be planned again. */
int st_layer_plan(st_layer *l, st_shape x, st_shape *y)
{
    bool reference;
    if (!layer_given(l, "st_layer_plan")) return -1;
    layer_impl *own = l->impl;
    const int params = l->params, states = l->states;
    const ptrdiff_t count = st_shape_numel(x, l->type->name);
    if (count < 0) return -1;
    if (x.rank < 1 || count == 0)
        return st_layer_refuse(l, "the input is %s, expected a batch [N, ...] of at least one",
                               st_shape_text(x).text);
    if (engine_choose(&own->machine, &reference)) return -1;
    if (own->run) own->run->ready = false;
    free(l->plan);
    l->plan = NULL;
    own->data = own->tables = 0;
    own->fill = NULL;
    l->x = x;
    l->flops = 0;
    l->params = l->states = own->memories = own->scratches = 0;
    own->output = (st_tensor){ 0 };
    own->partial = 0;
    int status = run_plan(l) || choose_algorithm(l, reference) ? -1 : 0;
    if (own->run && status == 0 && (l->params != params || l->states != states))
        status = st_layer_refuse(l, "an input of %s needs %d parameters and %d states, it has %d and %d",
                                 st_shape_text(x).text, l->params, l->states, params, states);
    if (own->run && status) l->params = params, l->states = states;
    if (status == 0 && y) *y = l->y;
    return status;
}

/* ---- measuring --------------------------------------------------------------------------------- */

static ptrdiff_t aligned(ptrdiff_t count)
{
    return ceil_div(count, CACHE_LINE) * CACHE_LINE;
}

/* A sum that overflows stays the largest number, which cannot be allocated. */
static void add(ptrdiff_t *sum, ptrdiff_t amount)
{
    if (__builtin_add_overflow(*sum, amount, sum)) *sum = PTRDIFF_MAX;
}

ptrdiff_t layer_own_parameters(const st_layer *l)
{
    ptrdiff_t own = 0;
    for (int i = 0; i < l->params; i++) add(&own, st_shape_numel(l->param[i].shape, l->type->name));
    return own;
}

/* Slots of memory and scratch begin on cache lines. */
static void add_slots(ptrdiff_t *sum, const st_tensor slot[], int count)
{
    for (int i = 0; i < count; i++) add(sum, aligned(st_shape_numel(slot[i].shape, "slot")));
}

/* As elements. */
static ptrdiff_t aligned_bytes(size_t bytes)
{
    return aligned(ceil_div((ptrdiff_t)bytes, sizeof(st_real)));
}

/* Scratch of a layer that holds layers is in use while they run. */
static void measure(const st_layer *l, st_layer_needs *needs)
{
    const layer_impl *impl = l->impl;
    const ptrdiff_t own = layer_own_parameters(l), chunks = layer_most_chunks(l, l->x.n[0]);
    ptrdiff_t scratch = 0;
    add(&needs->parameters, own);
    for (int i = 0; i < l->states; i++) add(&needs->state, st_shape_numel(l->state[i].shape, "state"));
    add_slots(&needs->memory, impl->memory, impl->memories);
    add_slots(&needs->memory, &impl->output, impl->output.shape.rank > 0);
    add_slots(&scratch, impl->scratch, impl->scratches);
    if (l->children > 0) add(&needs->memory, scratch);
    else if (chunks == 1) needs->whole = largest(needs->whole, scratch);
    else needs->scratch = largest(needs->scratch, scratch);
    if (chunks > 1 && layer_sums_chunks(l, own)) needs->partial = largest(needs->partial, own * chunks);
    needs->partial = largest(needs->partial, impl->partial);
    add(&needs->data, aligned_bytes(impl->data));
    add(&needs->tables, aligned_bytes(impl->tables));
    for (int i = 0; i < l->children; i++) measure(l->child[i], needs);
}

int layer_threads(const st_layer *l)
{
    return (int)smallest(st_num_threads(), smallest(l->x.n[0], LAYER_MOST_CHUNKS));
}

int st_layer_measure(const st_layer *root, st_layer_needs *needs)
{
    if (!layer_given(root, "st_layer_measure")) return -1;
    if (!needs || root->x.rank < 1)
        return st_layer_refuse(root, needs ? "measured before it is planned" : "the needs are NULL");
    *needs = (st_layer_needs){ .threads = layer_threads(root) };
    measure(root, needs);
    const double needed = layer_needed(needs), most = (double)PTRDIFF_MAX / sizeof(st_real);
    if (needed < most) return 0;
    return st_layer_refuse(root, "the net needs %.3g elements of %s, but %.3g can be addressed", needed,
                           ST_REAL_NAME, most);
}

double layer_needed(const st_layer_needs *needs)
{
    const double scratch = fmax((double)needs->scratch * needs->threads, (double)needs->whole);
    return 2.0 * (double)needs->parameters + (double)needs->state + (double)needs->memory + scratch +
           (double)needs->partial + (double)needs->data + (double)needs->tables;
}

/* ---- handing out ------------------------------------------------------------------------------- */

typedef struct cursor {
    st_tensor flat;
    ptrdiff_t at;
} cursor;

static void carve(cursor *from, st_tensor *slot, ptrdiff_t alignment)
{
    ptrdiff_t count = st_shape_numel(slot->shape, "st_layer_build");
    from->at = ceil_div(from->at, alignment) * alignment;
    *slot = st_reshape(st_narrow(from->flat, 0, from->at, count), slot->shape);
    from->at += count;
}

typedef struct hand_out {
    st_layer_run *run;
    cursor parameters, gradients, states, memory, tables;
    uint64_t seed;
    bool kept; /* parameters and states are bound already */
    int number;
} hand_out;

static void initialise(st_tensor x, st_init init, st_random_key key)
{
    if (init.uniform > 0) st_uniform(x, key, (st_real)-init.uniform, (st_real)init.uniform);
    else if (init.normal > 0) st_normal(x, key, (st_real)init.constant, (st_real)init.normal);
    else st_fill(x, (st_real)init.constant);
}

/* The random numbers that initialise parameter i. */
static st_random_key slot_key(const st_layer *l, uint64_t seed, int i)
{
    return (st_random_key){ seed, (uint64_t)l->impl->number * ST_LAYER_SLOTS + (uint64_t)i };
}

static void bind_parameters(st_layer *l, hand_out *h)
{
    const bool fresh = !h->run->shared;
    for (int i = 0; i < l->params; i++) {
        carve(&h->parameters, &l->param[i], 1);
        if (!fresh) continue;
        l->grad[i] = (st_tensor){ .shape = l->param[i].shape };
        carve(&h->gradients, &l->grad[i], 1);
        initialise(l->param[i], l->impl->param_init[i], slot_key(l, h->seed, i));
    }
    for (int i = 0; i < l->states; i++) {
        carve(&h->states, &l->state[i], 1);
        if (fresh) initialise(l->state[i], l->impl->state_init[i], (st_random_key){ 0 });
    }
}

static void bind(st_layer *l, const char *path, void *context)
{
    (void)path;
    hand_out *h = context;
    l->impl->run = h->run;
    l->impl->number = h->number++;
    if (!h->kept) bind_parameters(l, h);
    for (int i = 0; i < l->impl->memories; i++) carve(&h->memory, &l->impl->memory[i], CACHE_LINE);
    if (l->impl->output.shape.rank > 0) carve(&h->memory, &l->impl->output, CACHE_LINE);
    cursor thread_block = { .flat = h->run->scratch };
    for (int i = 0; i < l->impl->scratches; i++)
        carve(l->children > 0 ? &h->memory : &thread_block, &l->impl->scratch[i], CACHE_LINE);
    if (l->impl->tables == 0) return;
    st_tensor tables = { .shape = ST_SHAPE(aligned_bytes(l->impl->tables)) };
    carve(&h->tables, &tables, CACHE_LINE);
    l->impl->fill(l, st_data(tables));
}

/* Below this work, synchronising threads costs more than they save. */
static int read_grain(double *grain)
{
    const char *given = getenv("STRIDE_GRAIN");
    char *end;
    *grain = 1 << 16;
    if (!given || !given[0]) return 0;
    *grain = strtod(given, &end);
    if (*end == '\0' && *grain >= 0) return 0;
    return st_error_set("STRIDE_GRAIN=%s: expected a number of elements, at least 0", given);
}

static void free_tensor(st_tensor *x)
{
    st_tensor_free(*x);
    *x = (st_tensor){ 0 };
}

static void free_parameters(st_layer_run *run)
{
    free_tensor(&run->parameters), free_tensor(&run->gradients), free_tensor(&run->states);
}

static void free_run(st_layer_run *run)
{
    if (!run->shared) free_parameters(run);
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
static int allocate(st_tensor *x, ptrdiff_t elements)
{
    free_tensor(x);
    *x = st_tensor_new(ST_SHAPE(elements));
    return st_is_null(*x) ? -1 : 0;
}

static int allocate_parameters(st_layer_run *run, const st_layer_needs *needs)
{
    if (allocate(&run->parameters, needs->parameters) || allocate(&run->gradients, needs->parameters))
        return -1;
    return allocate(&run->states, needs->state);
}

/* Needs that were measured can be addressed, and so can the scratch of all threads. */
static int allocate_batch_memory(st_layer_run *run, const st_layer_needs *needs)
{
    const ptrdiff_t scratch = needs->scratch * needs->threads;
    run->threads = needs->threads;
    run->block = needs->scratch;
    if (allocate(&run->memory, needs->memory) || allocate(&run->scratch, largest(scratch, needs->whole)))
        return -1;
    return allocate(&run->partial, needs->partial) || allocate(&run->tables, needs->tables) ? -1 : 0;
}

static int build(st_layer *root, st_shape x, uint64_t seed, st_layer_run *run)
{
    st_layer_needs needs = { 0 };
    if (st_layer_plan(root, x, NULL) || st_layer_measure(root, &needs)) return -1;
    if (read_grain(&run->grain) || parallel_check()) return -1;
    run->executor = engine_is_reference() ? NULL : layer_fast_executor;
    const bool kept = root->impl->run != NULL;
    if ((!kept && !run->shared && allocate_parameters(run, &needs)) || allocate_batch_memory(run, &needs))
        return -1;
    hand_out h = { .run = run, .seed = seed, .kept = kept };
    h.parameters.flat = run->parameters;
    h.gradients.flat = run->gradients;
    h.states.flat = run->states;
    h.memory.flat = run->memory;
    h.tables.flat = run->tables;
    st_layer_visit(root, bind, &h);
    run->ready = true;
    return 0;
}

/* Builds with a new run, which is freed if that fails. */
static int build_first(st_layer *root, st_shape x, uint64_t seed, const st_layer_run *shared)
{
    st_layer_run *run = array_new("st_layer_build", 1, sizeof *run);
    if (!run) return -1;
    run->root = root;
    if (shared) run->shared = true, run->parameters = shared->parameters, run->states = shared->states;
    if (build(root, x, seed, run) == 0) return 0;
    free_run(run);
    return -1;
}

int st_layer_build(st_layer *root, st_shape x, uint64_t seed)
{
    if (!layer_given(root, "st_layer_build")) return -1;
    st_layer_run *run = root->impl->run;
    if (run && run->root != root) return st_layer_refuse(root, "is part of another layer, build that one");
    return run ? build(root, x, seed, run) : build_first(root, x, seed, NULL);
}

int st_layer_build_shared(st_layer *clone, st_shape x, const st_layer *of)
{
    if (!layer_given(clone, "st_layer_build_shared") || !layer_given(of, "st_layer_build_shared")) return -1;
    if (!of->impl->run || of->impl->run->root != of || clone->impl->run)
        return st_error_set("st_layer_build_shared: expected a clone that is not built, of a tree that is");
    return build_first(clone, x, 0, of->impl->run);
}

/* ---- what was handed out ----------------------------------------------------------------------- */

static bool is_built(const st_layer *root)
{
    return root && root->impl && root->impl->run;
}

st_tensor st_layer_parameters(const st_layer *root)
{
    return is_built(root) ? root->impl->run->parameters : (st_tensor){ 0 };
}

st_tensor st_layer_gradients(const st_layer *root)
{
    return is_built(root) ? root->impl->run->gradients : (st_tensor){ 0 };
}

st_tensor st_layer_states(const st_layer *root)
{
    return is_built(root) ? root->impl->run->states : (st_tensor){ 0 };
}
