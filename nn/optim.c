/* optim.c: optimizers: each is one pass over flat arrays. */
#include "nn/optim.h"
#include "tensor/parallel.h"

#include <math.h>
#include <stdlib.h>

/* ---- steps -------------------------------------------------------------------------------------- */

/* Iterations are independent, and arrays do not overlap. */

static st_real *state(const st_optim *o, int i, ptrdiff_t first)
{
    return st_data(o->state[i]) + first;
}

static void sgd_step(const st_optim *o, double lr, ptrdiff_t first, ptrdiff_t n, st_real *w, const st_real *g)
{
    const st_real rate = (st_real)lr, decay = (st_real)o->weight_decay, momentum = (st_real)o->momentum;
    const st_real fresh = o->steps == 0 ? 1 : (st_real)(1 - o->dampening);
    st_real *v = o->states ? state(o, 0, first) : NULL;
    if (!v) {
        for (ptrdiff_t i = 0; i < n; i++) w[i] -= rate * (g[i] + decay * w[i]);
    } else if (o->nesterov) {
        for (ptrdiff_t i = 0; i < n; i++) {
            st_real d = g[i] + decay * w[i];
            v[i] = momentum * v[i] + fresh * d;
            w[i] -= rate * (d + momentum * v[i]);
        }
    } else {
        for (ptrdiff_t i = 0; i < n; i++) {
            v[i] = momentum * v[i] + fresh * (g[i] + decay * w[i]);
            w[i] -= rate * v[i];
        }
    }
}

static void adam_step(const st_optim *o, double lr, ptrdiff_t first, ptrdiff_t n, st_real *w,
                      const st_real *g)
{
    const double t = (double)o->steps + 1;
    const st_real b1 = (st_real)o->beta1, b2 = (st_real)o->beta2, epsilon = (st_real)o->epsilon;
    const st_real a1 = (st_real)(1 - o->beta1), a2 = (st_real)(1 - o->beta2);
    const st_real rate =
        (st_real)(lr / (1 - pow(o->beta1, t))); /* both bias corrections, outside of the loop */
    const st_real root = (st_real)(1 / sqrt(1 - pow(o->beta2, t)));
    const st_real decay = o->decoupled ? 0 : (st_real)o->weight_decay;
    const st_real keep = o->decoupled ? (st_real)(1 - lr * o->weight_decay) : 1;
    st_real *m = state(o, 0, first), *v = state(o, 1, first);
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real d = g[i] + decay * w[i];
        m[i] = b1 * m[i] + a1 * d;
        v[i] = b2 * v[i] + a2 * d * d;
        w[i] = keep * w[i] - rate * m[i] / ((st_real)sqrt(v[i]) * root + epsilon);
    }
}

static void rmsprop_step(const st_optim *o, double lr, ptrdiff_t first, ptrdiff_t n, st_real *w,
                         const st_real *g)
{
    const st_real rate = (st_real)lr, decay = (st_real)o->weight_decay, momentum = (st_real)o->momentum;
    const st_real b = (st_real)o->beta2, a = (st_real)(1 - o->beta2), epsilon = (st_real)o->epsilon;
    const bool centered = o->centered;
    st_real *s = state(o, 0, first), *v = state(o, 1, first), *mean = state(o, 2, first);
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real d = g[i] + decay * w[i];
        s[i] = b * s[i] + a * d * d;
        mean[i] = b * mean[i] + a * d;
        st_real spread = centered ? s[i] - mean[i] * mean[i] : s[i];
        v[i] = momentum * v[i] + d / ((st_real)sqrt(spread > 0 ? spread : 0) + epsilon);
        w[i] -= rate * v[i];
    }
}

/* ---- constructors ------------------------------------------------------------------------------------- */

st_optim *st_optim_new(st_optim kind)
{
    st_optim *made = NULL;
    const char *name = kind.name ? kind.name : "st_optim_new";
    if (!kind.name || !kind.step) st_error_set("st_optim_new: %s is NULL", kind.name ? "step" : "name");
    else if (kind.states < 0 || kind.states > ST_OPTIM_STATES)
        st_error_set("%s: %d states, expected 0 to %d", name, kind.states, ST_OPTIM_STATES);
    else if (st_options_resolve(name, kind.fields, &kind) == 0 && !(made = malloc(sizeof *made)))
        st_error_set("%s: no memory", name);
    if (made) *made = kind;
    return made;
}

#define OPTION(option, ...)                                                                                  \
    {                                                                                                        \
#option, ST_FIELD_REAL, offsetof(st_optim, option), __VA_ARGS__                                      \
    }

st_optim *st_sgd_new(st_sgd_options options)
{
    static const st_field fields[] = {
        OPTION(lr, .fallback = 0),
        OPTION(momentum, .fallback = 0),
        OPTION(dampening, .fallback = 0),
        OPTION(weight_decay, .fallback = 0),
        { "nesterov", ST_FIELD_BOOL, offsetof(st_optim, nesterov) },
        { 0 },
    };
    st_optim o = { .name = "sgd",
                   .step = sgd_step,
                   .fields = fields,
                   .lr = options.lr,
                   .momentum = options.momentum,
                   .dampening = options.dampening,
                   .weight_decay = options.weight_decay,
                   .nesterov = options.nesterov,
                   .states = options.momentum != 0 };
    if (o.lr == 0 && !signbit(o.lr)) {
        st_error_set("sgd: lr is missing");
        return NULL;
    }
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0)) {
        st_error_set("sgd: nesterov needs a momentum above 0 (%g) and no dampening (%g)", o.momentum,
                     o.dampening);
        return NULL;
    }
    return st_optim_new(o);
}

#define ADAM_FIELDS(decay)                                                                                   \
    {                                                                                                        \
        OPTION(lr, .fallback = 0.001), OPTION(beta1, .fallback = 0.9, .below = 1),                           \
            OPTION(beta2, .fallback = 0.999, .below = 1), OPTION(epsilon, .fallback = 1e-8),                 \
            OPTION(weight_decay, .fallback = decay), { 0 },                                                  \
    }

static st_optim *make_adam(const char *name, st_adam_options options, const st_field *fields, bool decoupled)
{
    return st_optim_new((st_optim){ .name = name,
                                    .step = adam_step,
                                    .fields = fields,
                                    .lr = options.lr,
                                    .beta1 = options.beta1,
                                    .beta2 = options.beta2,
                                    .epsilon = options.epsilon,
                                    .weight_decay = options.weight_decay,
                                    .decoupled = decoupled,
                                    .states = 2 });
}

st_optim *st_adam_new(st_adam_options options)
{
    static const st_field fields[] = ADAM_FIELDS(0);
    return make_adam("adam", options, fields, false);
}

st_optim *st_adamw_new(st_adam_options options)
{
    static const st_field fields[] = ADAM_FIELDS(0.01);
    return make_adam("adamw", options, fields, true);
}

st_optim *st_rmsprop_new(st_rmsprop_options options)
{
    static const st_field fields[] = {
        OPTION(lr, .fallback = 0.01),
        { "alpha", ST_FIELD_REAL, offsetof(st_optim, beta2), .fallback = 0.99, .below = 1 },
        OPTION(epsilon, .fallback = 1e-8),
        OPTION(momentum, .fallback = 0),
        OPTION(weight_decay, .fallback = 0),
        { "centered", ST_FIELD_BOOL, offsetof(st_optim, centered) },
        { 0 },
    };
    return st_optim_new((st_optim){ .name = "rmsprop",
                                    .step = rmsprop_step,
                                    .fields = fields,
                                    .lr = options.lr,
                                    .beta2 = options.alpha,
                                    .epsilon = options.epsilon,
                                    .momentum = options.momentum,
                                    .weight_decay = options.weight_decay,
                                    .centered = options.centered,
                                    .states = 3 });
}

void st_optim_free(st_optim *o)
{
    if (!o) return;
    for (int i = 0; i < o->states; i++) st_tensor_free(o->state[i]);
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

enum {
    PART = 1 << 12, /* parameters in an item of work */
    LEAST_PARTS = 8 /* fewer run on one thread */
};

typedef struct sweep {
    const st_optim *o;
    double lr;
    ptrdiff_t count;
    st_real *w;
    const st_real *g;
} sweep;

/* The first of n elements that is NaN or infinite, or n. */
static ptrdiff_t first_bad(ptrdiff_t n, const st_real *x)
{
    int bad = 0;
    ptrdiff_t i = 0;
    for (ptrdiff_t k = 0; k < n; k++) bad |= !(x[k] - x[k] == 0);
    if (!bad) return n;
    while (i < n && isfinite(x[i])) i++;
    return i;
}

static void sweep_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const sweep *s = context;
    ptrdiff_t first = i * PART, left = s->count - first, count = left < PART ? left : PART;
    s->o->step(s->o, s->lr, first, count, s->w + first, s->g + first);
    ptrdiff_t bad = first_bad(count, s->w + first);
    if (bad < count) /* the caller gets the error of the first part */
        st_error_set("%s: parameter %td is %g after step %ld", s->o->name, first + bad,
                     isnan(s->w[first + bad]) ? (double)NAN : (double)s->w[first + bad], s->o->steps + 1);
}

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
    if (st_optim_build(o, n)) return -1;
    sweep s = { o, lr, n, st_data(parameters), st_data(gradients) };
    ptrdiff_t parts = (n + PART - 1) / PART;
    parallel_for(parts < LEAST_PARTS ? 1 : st_num_threads(), parts, sweep_part, &s);
    o->steps++;
    return st_error() ? -1 : 0;
}

static void square_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    double *sum = context;
    for (ptrdiff_t i = 0; i < n; i++) *sum += (double)at[0][i * stride[0]] * (double)at[0][i * stride[0]];
}

double st_clip_grad_norm(st_tensor gradients, double most)
{
    double sum = 0;
    if (!(most >= 0)) {
        st_error_set("st_clip_grad_norm: a norm of %g, expected at least 0", most);
        return NAN;
    }
    st_walk(1, &gradients, ST_ROW_MAJOR, square_row, &sum);
    double norm = sqrt(sum);
    if (norm > most && isfinite(norm)) st_scale(gradients, (st_real)(most / norm));
    return norm;
}

static st_real clipped(st_real x, void *context)
{
    st_real most = *(const st_real *)context;
    return x > most ? most : x < -most ? -most : x;
}

void st_clip_grad_value(st_tensor gradients, double most)
{
    if (!(most >= 0)) {
        st_error_set("st_clip_grad_value: a bound of %g, expected at least 0", most);
        return;
    }
    st_real bound = (st_real)most;
    st_map(gradients, clipped, &bound, gradients);
}
