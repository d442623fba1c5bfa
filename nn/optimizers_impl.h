/* optimizers_impl.h: the steps of the optimizers; private to the library.
 *
 * They are inline, so that nn/fast/ compiles the same definitions for each instruction set. Their iterations
 * are independent, and arrays do not overlap. */
#ifndef STRIDE_NN_OPTIMIZERS_IMPL_H
#define STRIDE_NN_OPTIMIZERS_IMPL_H

#include "nn/optimizers.h"
#include "tensor/inline.h"

#include <math.h>

extern const st_optim_kind optim_kind_sgd, optim_kind_adam, optim_kind_adamw, optim_kind_rmsprop;

INLINE void optim_sgd(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g)
{
    const st_sgd_options *o = c->options;
    const st_real rate = (st_real)c->lr, decay = (st_real)c->weight_decay, momentum = (st_real)o->momentum;
    const st_real fresh = c->steps == 0 ? 1 : (st_real)(1 - o->dampening);
    const bool nesterov = o->nesterov;
    st_real *v = c->state[0];
    for (ptrdiff_t i = 0; i < n && !v; i++) w[i] -= rate * (g[i] + decay * w[i]);
    for (ptrdiff_t i = 0; i < n && v; i++) {
        st_real d = g[i] + decay * w[i];
        v[i] = momentum * v[i] + fresh * d;
        w[i] -= rate * (nesterov ? d + momentum * v[i] : v[i]);
    }
}

/* Both bias corrections are outside of the loop. */
INLINE void optim_adam_or_adamw(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g,
                                bool decoupled)
{
    const st_adam_options *o = c->options;
    const double t = (double)c->steps + 1;
    const st_real b1 = (st_real)o->beta1, b2 = (st_real)o->beta2, epsilon = (st_real)o->epsilon;
    const st_real a1 = (st_real)(1 - o->beta1), a2 = (st_real)(1 - o->beta2);
    const st_real rate = (st_real)(c->lr / (1 - pow(o->beta1, t)));
    const st_real root = (st_real)(1 / sqrt(1 - pow(o->beta2, t)));
    const st_real decay = decoupled ? 0 : (st_real)c->weight_decay;
    const st_real keep = decoupled ? (st_real)(1 - c->lr * c->weight_decay) : 1;
    st_real *m = c->state[0], *v = c->state[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real d = g[i] + decay * w[i];
        m[i] = b1 * m[i] + a1 * d;
        v[i] = b2 * v[i] + a2 * d * d;
        w[i] = keep * w[i] - rate * m[i] / ((st_real)sqrt(v[i]) * root + epsilon);
    }
}

INLINE void optim_adam(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g)
{
    optim_adam_or_adamw(c, n, w, g, false);
}

INLINE void optim_adamw(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g)
{
    optim_adam_or_adamw(c, n, w, g, true);
}

INLINE void optim_rmsprop(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g)
{
    const st_rmsprop_options *o = c->options;
    const st_real rate = (st_real)c->lr, decay = (st_real)c->weight_decay, momentum = (st_real)o->momentum;
    const st_real b = (st_real)o->alpha, a = (st_real)(1 - o->alpha), epsilon = (st_real)o->epsilon;
    const bool centered = o->centered;
    st_real *s = c->state[0], *v = c->state[1], *mean = c->state[2];
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real d = g[i] + decay * w[i];
        s[i] = b * s[i] + a * d * d;
        mean[i] = b * mean[i] + a * d;
        st_real variance = centered ? s[i] - mean[i] * mean[i] : s[i];
        v[i] = momentum * v[i] + d / ((st_real)sqrt(variance > 0 ? variance : 0) + epsilon);
        w[i] -= rate * v[i];
    }
}

#endif
