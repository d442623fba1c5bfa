/* optim.c: optimizers: each is one pass over flat arrays. */
#include "nn/optim.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/machine.h"
#include "tensor/parallel.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- steps -------------------------------------------------------------------------------------- */

/* Iterations are independent, and arrays do not overlap. A bit of the result is set if a parameter has become
 * NaN or infinite. */
#define STEP const st_optim *o, double lr, ptrdiff_t first, ptrdiff_t n, st_real *w, const st_real *g

/* x - x is NaN if x is NaN or infinite, otherwise 0. */
INLINE machine_bits bad_bits(st_real x)
{
    const st_real zero = x - x;
    machine_bits bits;
    memcpy(&bits, &zero, sizeof bits);
    return bits;
}

INLINE st_real *state(const st_optim *o, int i, ptrdiff_t first)
{
    return st_data(o->state[i]) + first;
}

INLINE machine_bits sgd(STEP)
{
    const st_real rate = (st_real)lr, decay = (st_real)o->weight_decay, momentum = (st_real)o->momentum;
    const st_real fresh = o->steps == 0 ? 1 : (st_real)(1 - o->dampening);
    const bool nesterov = o->nesterov;
    machine_bits bad = 0;
    st_real *v = o->states ? state(o, 0, first) : NULL;
    if (!v)
        for (ptrdiff_t i = 0; i < n; i++) bad |= bad_bits(w[i] -= rate * (g[i] + decay * w[i]));
    else
        for (ptrdiff_t i = 0; i < n; i++) {
            st_real d = g[i] + decay * w[i];
            v[i] = momentum * v[i] + fresh * d;
            bad |= bad_bits(w[i] -= rate * (nesterov ? d + momentum * v[i] : v[i]));
        }
    return bad;
}

INLINE machine_bits adam(STEP)
{
    const double t = (double)o->steps + 1;
    const st_real b1 = (st_real)o->beta1, b2 = (st_real)o->beta2, epsilon = (st_real)o->epsilon;
    const st_real a1 = (st_real)(1 - o->beta1), a2 = (st_real)(1 - o->beta2);
    const st_real rate =
        (st_real)(lr / (1 - pow(o->beta1, t))); /* both bias corrections, outside of the loop */
    const st_real root = (st_real)(1 / sqrt(1 - pow(o->beta2, t)));
    const st_real decay = o->decoupled ? 0 : (st_real)o->weight_decay;
    const st_real keep = o->decoupled ? (st_real)(1 - lr * o->weight_decay) : 1;
    machine_bits bad = 0;
    st_real *m = state(o, 0, first), *v = state(o, 1, first);
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real d = g[i] + decay * w[i];
        m[i] = b1 * m[i] + a1 * d;
        v[i] = b2 * v[i] + a2 * d * d;
        bad |= bad_bits(w[i] = keep * w[i] - rate * m[i] / ((st_real)sqrt(v[i]) * root + epsilon));
    }
    return bad;
}

INLINE machine_bits rmsprop(STEP)
{
    const st_real rate = (st_real)lr, decay = (st_real)o->weight_decay, momentum = (st_real)o->momentum;
    const st_real b = (st_real)o->beta2, a = (st_real)(1 - o->beta2), epsilon = (st_real)o->epsilon;
    const bool centered = o->centered;
    machine_bits bad = 0;
    st_real *s = state(o, 0, first), *v = state(o, 1, first), *mean = state(o, 2, first);
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real d = g[i] + decay * w[i];
        s[i] = b * s[i] + a * d * d;
        mean[i] = b * mean[i] + a * d;
        st_real spread = centered ? s[i] - mean[i] * mean[i] : s[i];
        v[i] = momentum * v[i] + d / ((st_real)sqrt(spread > 0 ? spread : 0) + epsilon);
        bad |= bad_bits(w[i] -= rate * v[i]);
    }
    return bad;
}

#define MEMBER(NAME)                                                                                         \
    static void NAME##_step(STEP)                                                                            \
    {                                                                                                        \
        NAME(o, lr, first, n, w, g);                                                                         \
    }
MEMBER(sgd)
MEMBER(adam)
MEMBER(rmsprop)

/* ---- constructors ------------------------------------------------------------------------------------- */

st_optim *st_optim_new(st_optim kind)
{
    st_optim *made = NULL;
    const char *name = kind.name ? kind.name : "st_optim_new";
    if (!kind.name || !kind.step) st_error_set("st_optim_new: %s is NULL", kind.name ? "step" : "name");
    else if (kind.states < 0 || kind.states > ST_OPTIM_STATES)
        st_error_set("%s: %d states, expected 0 to %d", name, kind.states, ST_OPTIM_STATES);
    else if (st_options_resolve(name, kind.fields, &kind) == 0 && (made = array_new(name, 1, sizeof *made)))
        *made = kind;
    return made;
}

st_optim *st_sgd_new(st_sgd_options options)
{
    static const st_field fields[] = {
        { "lr", ST_FIELD_REAL, offsetof(st_optim, lr) },
        { "momentum", ST_FIELD_REAL, offsetof(st_optim, momentum) },
        { "dampening", ST_FIELD_REAL, offsetof(st_optim, dampening) },
        { "weight_decay", ST_FIELD_REAL, offsetof(st_optim, weight_decay) },
        { "nesterov", ST_FIELD_BOOL, offsetof(st_optim, nesterov) },
        { 0 },
    };
    const bool plain = options.momentum == 0;
    if (options.lr == 0 && !signbit(options.lr)) st_error_set("sgd: lr is missing");
    else if (options.nesterov && (plain || options.dampening != 0))
        st_error_set("sgd: nesterov needs a momentum above 0 (%g) and no dampening (%g)", options.momentum,
                     options.dampening);
    else
        return st_optim_new((st_optim){ "sgd", sgd_step, .fields = fields, .lr = options.lr,
                                        .momentum = options.momentum, .dampening = options.dampening,
                                        .weight_decay = options.weight_decay, .nesterov = options.nesterov,
                                        .states = !plain });
    return NULL;
}

static st_optim *make_adam(const char *name, st_adam_options options, bool decoupled)
{
    static const st_field fields[] = {
        { "lr", ST_FIELD_REAL, offsetof(st_optim, lr), .fallback = 0.001 },
        { "beta1", ST_FIELD_REAL, offsetof(st_optim, beta1), .fallback = 0.9, .below = 1 },
        { "beta2", ST_FIELD_REAL, offsetof(st_optim, beta2), .fallback = 0.999, .below = 1 },
        { "epsilon", ST_FIELD_REAL, offsetof(st_optim, epsilon), .fallback = 1e-8 },
        { "weight_decay", ST_FIELD_REAL, offsetof(st_optim, weight_decay) },
        { 0 },
    };
    return st_optim_new((st_optim){ name, adam_step, .fields = fields, .lr = options.lr,
                                    .beta1 = options.beta1, .beta2 = options.beta2,
                                    .epsilon = options.epsilon, .weight_decay = options.weight_decay,
                                    .decoupled = decoupled, .states = 2 });
}

st_optim *st_adam_new(st_adam_options options)
{
    return make_adam("adam", options, false);
}

st_optim *st_adamw_new(st_adam_options options)
{
    if (options.weight_decay == 0 && !signbit(options.weight_decay)) options.weight_decay = 0.01;
    return make_adam("adamw", options, true);
}

st_optim *st_rmsprop_new(st_rmsprop_options options)
{
    static const st_field fields[] = {
        { "lr", ST_FIELD_REAL, offsetof(st_optim, lr), .fallback = 0.01 },
        { "alpha", ST_FIELD_REAL, offsetof(st_optim, beta2), .fallback = 0.99, .below = 1 },
        { "epsilon", ST_FIELD_REAL, offsetof(st_optim, epsilon), .fallback = 1e-8 },
        { "momentum", ST_FIELD_REAL, offsetof(st_optim, momentum) },
        { "weight_decay", ST_FIELD_REAL, offsetof(st_optim, weight_decay) },
        { "centered", ST_FIELD_BOOL, offsetof(st_optim, centered) },
        { 0 },
    };
    return st_optim_new((st_optim){ "rmsprop", rmsprop_step, .fields = fields, .lr = options.lr,
                                    .beta2 = options.alpha, .epsilon = options.epsilon,
                                    .momentum = options.momentum, .weight_decay = options.weight_decay,
                                    .centered = options.centered, .states = 3 });
}

void st_optim_free(st_optim *o)
{
    if (!o) return;
    for (int i = 0; i < o->states; i++) st_tensor_free(o->state[i]);
    free(o->range);
    free(o);
}

/* ---- stepping ----------------------------------------------------------------------------------- */

int st_optim_build(st_optim *o, ptrdiff_t n)
{
    if (!o) return st_error_set("st_optim_build: the optimizer is NULL");
    for (int i = 0; i < o->states; i++) {
        if (st_is_null(o->state[i])) o->state[i] = st_tensor_new(ST_SHAPE(n));
        if (st_is_null(o->state[i])) return -1;
        if (st_numel(o->state[i]) != n)
            return st_error_set("%s: %td parameters, the state is of %td", o->name, n, st_numel(o->state[i]));
    }
    return 0;
}

/* ---- groups ------------------------------------------------------------------------------------- */

/* Adjacent parameters of one group. */
typedef struct st_optim_range {
    ptrdiff_t first, count;
    double lr_factor, weight_decay;
} range;

typedef struct grouping {
    st_optim *o;
    int count, members[ST_MAX_GROUPS];
    const st_param_group *group;
    char names[200]; /* of all parameters: "0.weight, 0.bias, …" */
} grouping;

static bool matches(const st_param_group *g, const st_net_tensor *t)
{
    char below[ST_LAYER_PATH + 64];
    snprintf(below, sizeof below, "%s.*", g->names);
    return (t->value.shape.rank == 1 || !g->vectors) &&
           (fnmatch(g->names, t->name, 0) == 0 || fnmatch(below, t->name, 0) == 0);
}

/* Appends a parameter of `count` numbers to the last range, or begins another. */
static void append(st_optim *o, ptrdiff_t count, double lr_factor, double weight_decay)
{
    range *last = o->ranges > 0 ? &o->range[o->ranges - 1] : NULL;
    if (last && last->first + last->count == o->grouped && last->lr_factor == lr_factor &&
        last->weight_decay == weight_decay) {
        last->count += count;
        return;
    }
    range *grown = array_grow("st_optim_groups", o->range, o->ranges + 1, sizeof *grown);
    if (!grown) return;
    o->range = grown;
    o->range[o->ranges++] = (range){ o->grouped, count, lr_factor, weight_decay };
}

static void group_tensor(const st_net_tensor *t, void *context)
{
    static const st_param_group rest = { 0 };
    const st_param_group *g = &rest;
    grouping *all = context;
    const size_t used = strlen(all->names), room = sizeof all->names - used;
    if (st_is_null(t->gradient)) return; /* a state */
    if ((size_t)snprintf(all->names + used, room, "%s%s", used ? ", " : "", t->name) >= room)
        strcpy(all->names + sizeof all->names - sizeof "…", "…");
    for (int k = 0; k < all->count && g == &rest; k++)
        if (matches(&all->group[k], t)) g = &all->group[k], all->members[k]++;
    st_layer_freeze(t->layer, t->number, g->frozen);
    const bool own_decay = g->weight_decay != 0 || signbit(g->weight_decay);
    if (!g->frozen)
        append(all->o, st_numel(t->value), g->lr_factor != 0 ? g->lr_factor : 1,
               own_decay ? g->weight_decay : all->o->weight_decay);
    all->o->grouped += st_numel(t->value);
}

static int check_group(const st_param_group *g)
{
    if (!g->names) return st_error_set("st_optim_groups: a group without names");
    if (isfinite(g->lr_factor) && g->lr_factor >= 0 && isfinite(g->weight_decay) && g->weight_decay >= 0)
        return 0;
    return st_error_set("st_optim_groups: \"%s\" has lr_factor %g and weight_decay %g, expected at least 0",
                        g->names, g->lr_factor, g->weight_decay);
}

int st_optim_groups(st_optim *o, st_net *n, int count, const st_param_group group[])
{
    if (!o || st_is_null(st_net_gradients(n)))
        return st_error_set("st_optim_groups: the %s", o ? "net is not built" : "optimizer is NULL");
    if (count < 0 || count > ST_MAX_GROUPS || (count > 0 && !group))
        return st_error_set("st_optim_groups: %d groups, expected 0 to %d", count, ST_MAX_GROUPS);
    for (int k = 0; k < count; k++)
        if (check_group(&group[k])) return -1;
    grouping all = { .o = o, .count = count, .group = group };
    if (!o->range && !(o->range = array_new("st_optim_groups", 1, sizeof *o->range))) return -1;
    o->ranges = 0, o->grouped = 0;
    st_net_visit(n, group_tensor, &all);
    if (st_error()) return -1;
    for (int k = 0; k < count; k++)
        if (all.members[k] == 0)
            return st_error_set("parameters \"%.80s\": the name matches no parameter%s; there are %s",
                                group[k].names, k ? " that is in no earlier group" : "", all.names);
    return o->ranges > 0 ? 0 : st_error_set("every parameter is frozen: nothing is left to train");
}

/* ---- sweeps ------------------------------------------------------------------------------------- */

enum {
    PART = 1 << 11,  /* parameters in an item of work: with gradients and momentum they stay in cache */
    LEAST_PARTS = 16 /* fewer run on one thread */
};

/* A step of some of the parameters; w and g are all. */
typedef struct sweep {
    const st_optim *o;
    double lr;
    ptrdiff_t begin, end;
    st_real *w;
    const st_real *g;
} sweep;

INLINE void sweep_part(ptrdiff_t i, const sweep *s)
{
    const st_optim *o = s->o;
    const ptrdiff_t first = s->begin + i * PART, n = smallest(s->end - first, PART);
    const st_real *g = s->g + first;
    st_real *w = s->w + first;
    machine_bits bad = 0;
    if (o->step == sgd_step) bad = sgd(o, s->lr, first, n, w, g);
    else if (o->step == adam_step) bad = adam(o, s->lr, first, n, w, g);
    else if (o->step == rmsprop_step) bad = rmsprop(o, s->lr, first, n, w, g);
    else {
        o->step(o, s->lr, first, n, w, g);
        for (ptrdiff_t k = 0; k < n; k++) bad |= bad_bits(w[k]);
    }
    ptrdiff_t k = 0;
    while (bad && k < n && isfinite(w[k])) k++; /* rounded downward, x - x is -0 */
    if (bad && k < n)
        st_error_set("%s: parameter %td is %g after step %ld", o->name,
                     first + k, /* the first part's counts */
                     isnan(w[k]) ? (double)NAN : (double)w[k], o->steps + 1);
}

#define SWEEP(M)                                                                                             \
    M##_TARGET static void M##_sweep(ptrdiff_t i, int thread, void *context)                                 \
    {                                                                                                        \
        (void)thread;                                                                                        \
        sweep_part(i, context);                                                                              \
    }
#define SWEEP_NAME(M) M##_sweep,
EACH_MACHINE(SWEEP)
static void (*const sweeps[])(ptrdiff_t i, int thread, void *context) = { EACH_MACHINE(SWEEP_NAME) };

int st_optim_step(st_optim *o, double lr, st_tensor parameters, st_tensor gradients)
{
    if (st_error()) return -1; /* after a failed forward or backward pass gradients are not valid */
    if (!o || !o->step) return st_error_set("st_optim_step: the optimizer%s is NULL", o ? "'s step" : "");
    if (st_is_null(parameters) || st_is_null(gradients) || !st_is_contiguous(parameters) ||
        !st_is_contiguous(gradients) || !st_shape_equal(parameters.shape, gradients.shape))
        return st_error_set("%s: parameters %s and gradients %s, expected contiguous and of one shape",
                            o->name, st_shape_text(parameters.shape).text,
                            st_shape_text(gradients.shape).text);
    if (!isfinite(lr) || lr < 0)
        return st_error_set("%s: learning rate %g, expected at least 0", o->name, lr);
    ptrdiff_t n = st_numel(parameters);
    int machine;
    bool reference;
    if (st_optim_build(o, n) || machine_choose(&machine, &reference)) return -1;
    if (o->range && o->grouped != n)
        return st_error_set("%s: %td parameters, the groups are of %td", o->name, n, o->grouped);
    const range all = { 0, n, 1, o->weight_decay };
    for (const range *r = o->range ? o->range : &all, *end = r + (o->range ? o->ranges : 1); r < end; r++) {
        st_optim own = *o;
        own.weight_decay = r->weight_decay;
        sweep s = {
            &own, lr * r->lr_factor, r->first, r->first + r->count, st_data(parameters), st_data(gradients)
        };
        ptrdiff_t items = ceil_div(r->count, PART);
        parallel_for(items < LEAST_PARTS ? 1 : st_num_threads(), items, sweeps[machine], &s);
    }
    o->steps++;
    return st_error() ? -1 : 0;
}
