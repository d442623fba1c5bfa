/* optim.c: optimizers, each one sweep over flat arrays. */
#include "nn/optim.h"
#include "tensor/parallel.h"

#include <math.h>
#include <stdlib.h>

/* ---- steps -------------------------------------------------------------------------------------- */

/* No element depends on another, and no array overlaps another. */

static real *state(const optim *o, int i, ptrdiff_t first)
{
    return tensor_data(o->state[i]) + first;
}

static void sgd_step(const optim *o, double lr, ptrdiff_t first, ptrdiff_t n, real *w, const real *g)
{
    const real rate = (real)lr, decay = (real)o->weight_decay, momentum = (real)o->momentum;
    const real fresh = o->steps == 0 ? 1 : (real)(1 - o->dampening);
    real *v = o->states ? state(o, 0, first) : NULL;
    if (!v) {
        for (ptrdiff_t i = 0; i < n; i++) w[i] -= rate * (g[i] + decay * w[i]);
    } else if (o->nesterov) {
        for (ptrdiff_t i = 0; i < n; i++) {
            real d = g[i] + decay * w[i];
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

static void adam_step(const optim *o, double lr, ptrdiff_t first, ptrdiff_t n, real *w, const real *g)
{
    const double t = (double)o->steps + 1;
    const real b1 = (real)o->beta1, b2 = (real)o->beta2, epsilon = (real)o->epsilon;
    const real a1 = (real)(1 - o->beta1), a2 = (real)(1 - o->beta2);
    const real rate = (real)(lr / (1 - pow(o->beta1, t))); /* both corrections of the bias, taken out */
    const real root = (real)(1 / sqrt(1 - pow(o->beta2, t)));
    const real decay = o->decoupled ? 0 : (real)o->weight_decay;
    const real keep = o->decoupled ? (real)(1 - lr * o->weight_decay) : 1;
    real *m = state(o, 0, first), *v = state(o, 1, first);
    for (ptrdiff_t i = 0; i < n; i++) {
        real d = g[i] + decay * w[i];
        m[i] = b1 * m[i] + a1 * d;
        v[i] = b2 * v[i] + a2 * d * d;
        w[i] = keep * w[i] - rate * m[i] / ((real)sqrt(v[i]) * root + epsilon);
    }
}

static void rmsprop_step(const optim *o, double lr, ptrdiff_t first, ptrdiff_t n, real *w, const real *g)
{
    const real rate = (real)lr, decay = (real)o->weight_decay, momentum = (real)o->momentum;
    const real b = (real)o->beta2, a = (real)(1 - o->beta2), epsilon = (real)o->epsilon;
    const bool centered = o->centered;
    real *s = state(o, 0, first), *v = state(o, 1, first), *mean = state(o, 2, first);
    for (ptrdiff_t i = 0; i < n; i++) {
        real d = g[i] + decay * w[i];
        s[i] = b * s[i] + a * d * d;
        mean[i] = b * mean[i] + a * d;
        real spread = centered ? s[i] - mean[i] * mean[i] : s[i];
        v[i] = momentum * v[i] + d / ((real)sqrt(spread > 0 ? spread : 0) + epsilon);
        w[i] -= rate * v[i];
    }
}

/* ---- making ------------------------------------------------------------------------------------- */

optim *optim_new(optim kind)
{
    optim *made = NULL;
    const char *name = kind.name ? kind.name : "optim_new";
    if (!kind.name || !kind.step) error_set("optim_new: %s is NULL", kind.name ? "step" : "name");
    else if (kind.states < 0 || kind.states > OPTIM_STATES)
        error_set("%s: %d states, expected 0 to %d", name, kind.states, OPTIM_STATES);
    else if (st_options_resolve(name, kind.fields, &kind) == 0 && !(made = malloc(sizeof *made)))
        error_set("%s: no memory", name);
    if (made) *made = kind;
    return made;
}

#define OPTION(option, ...)                                                                                  \
    {                                                                                                        \
#option, FIELD_REAL, offsetof(optim, option), __VA_ARGS__                                            \
    }

optim *optim_sgd(sgd options)
{
    static const layer_field fields[] = {
        OPTION(lr, .fallback = 0),
        OPTION(momentum, .fallback = 0),
        OPTION(dampening, .fallback = 0),
        OPTION(weight_decay, .fallback = 0),
        { "nesterov", FIELD_BOOL, offsetof(optim, nesterov) },
        { 0 },
    };
    optim o = { .name = "sgd",
                .step = sgd_step,
                .fields = fields,
                .lr = options.lr,
                .momentum = options.momentum,
                .dampening = options.dampening,
                .weight_decay = options.weight_decay,
                .nesterov = options.nesterov,
                .states = options.momentum != 0 };
    if (o.lr == 0 && !signbit(o.lr)) {
        error_set("sgd: lr is missing");
        return NULL;
    }
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0)) {
        error_set("sgd: nesterov needs a momentum above 0 (%g) and no dampening (%g)", o.momentum,
                  o.dampening);
        return NULL;
    }
    return optim_new(o);
}

#define ADAM_FIELDS(decay)                                                                                   \
    {                                                                                                        \
        OPTION(lr, .fallback = 0.001), OPTION(beta1, .fallback = 0.9, .below = 1),                           \
            OPTION(beta2, .fallback = 0.999, .below = 1), OPTION(epsilon, .fallback = 1e-8),                 \
            OPTION(weight_decay, .fallback = decay), { 0 },                                                  \
    }

static optim *make_adam(const char *name, adam options, const layer_field *fields, bool decoupled)
{
    return optim_new((optim){ .name = name,
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

optim *optim_adam(adam options)
{
    static const layer_field fields[] = ADAM_FIELDS(0);
    return make_adam("adam", options, fields, false);
}

optim *optim_adamw(adam options)
{
    static const layer_field fields[] = ADAM_FIELDS(0.01);
    return make_adam("adamw", options, fields, true);
}

optim *optim_rmsprop(rmsprop options)
{
    static const layer_field fields[] = {
        OPTION(lr, .fallback = 0.01),
        { "alpha", FIELD_REAL, offsetof(optim, beta2), .fallback = 0.99, .below = 1 },
        OPTION(epsilon, .fallback = 1e-8),
        OPTION(momentum, .fallback = 0),
        OPTION(weight_decay, .fallback = 0),
        { "centered", FIELD_BOOL, offsetof(optim, centered) },
        { 0 },
    };
    return optim_new((optim){ .name = "rmsprop",
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

void optim_free(optim *o)
{
    if (!o) return;
    for (int i = 0; i < o->states; i++) tensor_free(o->state[i]);
    free(o);
}

/* ---- stepping ----------------------------------------------------------------------------------- */

int optim_build(optim *o, ptrdiff_t n)
{
    for (int i = 0; i < o->states; i++) {
        if (tensor_is_null(o->state[i])) o->state[i] = tensor_new(SHAPE(n));
        if (tensor_is_null(o->state[i])) return -1;
        if (tensor_count(o->state[i]) != n)
            return error_set("%s: %td parameters, the state is of %td", o->name, n,
                             tensor_count(o->state[i]));
    }
    return 0;
}

enum {
    PART = 1 << 12, /* parameters that a thread takes at a time */
    LEAST_PARTS = 8 /* fewer are not worth the threads' meeting */
};

typedef struct sweep {
    const optim *o;
    double lr;
    ptrdiff_t count;
    real *w;
    const real *g;
} sweep;

/* The first of n elements that is NaN or infinite, or n. */
static ptrdiff_t first_bad(ptrdiff_t n, const real *x)
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
    if (bad < count) /* the caller gets the error of the first part that has one */
        error_set("%s: parameter %td is %g after step %ld", s->o->name, first + bad,
                  isnan(s->w[first + bad]) ? (double)NAN : (double)s->w[first + bad], s->o->steps + 1);
}

int optim_step(optim *o, double lr, tensor parameters, tensor gradients)
{
    if (error_text()) return -1; /* a forward or backward pass that failed has no gradients to go by */
    if (!o) return error_set("optim_step: the optimizer is NULL");
    if (tensor_is_null(parameters) || tensor_is_null(gradients) || !tensor_is_contiguous(parameters) ||
        !tensor_is_contiguous(gradients) || !shape_equal(parameters.shape, gradients.shape))
        return error_set("%s: parameters %s and gradients %s, expected contiguous and of one shape", o->name,
                         shape_text(parameters.shape).text, shape_text(gradients.shape).text);
    if (!isfinite(lr) || lr < 0) return error_set("%s: learning rate %g, expected at least 0", o->name, lr);
    ptrdiff_t n = tensor_count(parameters);
    if (optim_build(o, n)) return -1;
    sweep s = { o, lr, n, tensor_data(parameters), tensor_data(gradients) };
    ptrdiff_t parts = (n + PART - 1) / PART;
    parallel_for(parts < LEAST_PARTS ? 1 : parallel_threads(), parts, sweep_part, &s);
    o->steps++;
    return error_text() ? -1 : 0;
}

static void square_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    double *sum = context;
    for (ptrdiff_t i = 0; i < n; i++) *sum += (double)at[0][i * stride[0]] * (double)at[0][i * stride[0]];
}

double optim_clip_norm(tensor gradients, double most)
{
    double sum = 0;
    if (!(most >= 0)) {
        error_set("optim_clip_norm: a norm of %g, expected at least 0", most);
        return NAN;
    }
    tensor_walk(1, &gradients, TENSOR_ROW_MAJOR, square_row, &sum);
    double norm = sqrt(sum);
    if (norm > most && isfinite(norm)) tensor_scale(gradients, (real)(most / norm));
    return norm;
}

static real clipped(real x, void *context)
{
    real most = *(const real *)context;
    return x > most ? most : x < -most ? -most : x;
}

void optim_clip_value(tensor gradients, double most)
{
    if (!(most >= 0)) {
        error_set("optim_clip_value: a bound of %g, expected at least 0", most);
        return;
    }
    real bound = (real)most;
    tensor_map(gradients, clipped, &bound, gradients);
}
