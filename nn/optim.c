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

/* What the gradients, at most g, become with weight decay. */
static double decayed(const optim *o, double g, double w)
{
    return g + (double)(real)o->weight_decay * w;
}

static void sgd_reach(const optim *o, double lr, double g, double most[])
{
    double d = decayed(o, g, most[0]), move = d;
    if (o->states) {
        most[1] = o->momentum * most[1] + fmax(1, fabs(1 - o->dampening)) * d;
        move = o->nesterov ? d + o->momentum * most[1] : most[1];
    }
    most[0] += lr * move;
    if (move > most[0]) most[0] = move; /* at a rate of next to 0: it must be a number all the same */
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

static void adam_reach(const optim *o, double lr, double g, double most[])
{
    double d = o->decoupled ? g : decayed(o, g, most[0]);
    most[1] = o->beta1 * most[1] + (1 - o->beta1) * d;
    most[2] = o->beta2 * most[2] + (1 - o->beta2) * d * d;
    if (o->decoupled) most[0] += lr * o->weight_decay * most[0];
    most[0] += lr / (1 - o->beta1) * most[1] / fmin(1, (double)(real)o->epsilon); /* first the product */
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

static void rmsprop_reach(const optim *o, double lr, double g, double most[])
{
    double d = decayed(o, g, most[0]);
    most[1] = o->beta2 * most[1] + d * d;
    most[3] = o->beta2 * most[3] + d;
    most[2] = o->momentum * most[2] + d / (double)(real)o->epsilon;
    most[0] += lr * most[2];
}

/* ---- making ------------------------------------------------------------------------------------- */

typedef struct range {
    const char *name;
    double value, least, below;
} range;

static optim *checked(optim o, const range ranges[], int count)
{
    for (int i = 0; i < count; i++) {
        const range *r = &ranges[i];
        if (isfinite(r->value) && r->value >= r->least && (r->below == 0 || r->value < r->below)) continue;
        if (r->below != 0)
            error_set("%s: %s is %g, expected at least %g and below %g", o.name, r->name, r->value, r->least,
                      r->below);
        else error_set("%s: %s is %g, expected at least %g", o.name, r->name, r->value, r->least);
        return NULL;
    }
    optim *made = malloc(sizeof *made);
    if (!made) error_set("%s: no memory", o.name);
    else *made = o;
    return made;
}

static double or_default(double value, double fallback)
{
    return value == 0 ? fallback : value;
}

optim *optim_sgd(sgd options)
{
    optim o = { .name = "sgd",
                .step = sgd_step,
                .reach = sgd_reach,
                .lr = options.lr,
                .momentum = options.momentum,
                .dampening = options.dampening,
                .weight_decay = options.weight_decay,
                .nesterov = options.nesterov,
                .states = options.momentum != 0 };
    if (o.lr == 0) {
        error_set("sgd: lr is missing");
        return NULL;
    }
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0)) {
        error_set("sgd: nesterov needs a momentum above 0 (%g) and no dampening (%g)", o.momentum,
                  o.dampening);
        return NULL;
    }
    const range ranges[] = { { "lr", o.lr, 0, 0 },
                             { "momentum", o.momentum, 0, 0 },
                             { "dampening", o.dampening, 0, 0 },
                             { "weight_decay", o.weight_decay, 0, 0 } };
    return checked(o, ranges, 4);
}

static optim *make_adam(const char *name, adam options, bool decoupled)
{
    optim o = { .name = name,
                .step = adam_step,
                .reach = adam_reach,
                .lr = or_default(options.lr, 0.001),
                .beta1 = or_default(options.beta1, 0.9),
                .beta2 = or_default(options.beta2, 0.999),
                .epsilon = or_default(options.epsilon, 1e-8),
                .decoupled = decoupled,
                .states = 2 };
    double decay = or_default(options.weight_decay, decoupled ? 0.01 : 0);
    o.weight_decay = decay < 0 ? 0 : decay;
    const range ranges[] = { { "lr", o.lr, 0, 0 },
                             { "beta1", o.beta1, 0, 1 },
                             { "beta2", o.beta2, 0, 1 },
                             { "epsilon", o.epsilon, 0, 0 },
                             { "weight_decay", o.weight_decay, 0, 0 } };
    return checked(o, ranges, 5);
}

optim *optim_adam(adam options)
{
    return make_adam("adam", options, false);
}

optim *optim_adamw(adam options)
{
    return make_adam("adamw", options, true);
}

optim *optim_rmsprop(rmsprop options)
{
    optim o = { .name = "rmsprop",
                .step = rmsprop_step,
                .reach = rmsprop_reach,
                .lr = or_default(options.lr, 0.01),
                .beta2 = or_default(options.alpha, 0.99),
                .epsilon = or_default(options.epsilon, 1e-8),
                .momentum = options.momentum,
                .weight_decay = options.weight_decay,
                .centered = options.centered,
                .states = 3 };
    const range ranges[] = { { "lr", o.lr, 0, 0 },
                             { "alpha", o.beta2, 0, 1 },
                             { "epsilon", o.epsilon, 0, 0 },
                             { "momentum", o.momentum, 0, 0 },
                             { "weight_decay", o.weight_decay, 0, 0 } };
    return checked(o, ranges, 5);
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

static void sweep_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const sweep *s = context;
    ptrdiff_t first = i * PART, left = s->count - first;
    s->o->step(s->o, s->lr, first, left < PART ? left : PART, s->w + first, s->g + first);
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
    return 0;
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
