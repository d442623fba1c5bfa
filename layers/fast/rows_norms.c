/* rows_norms.c: pooling by p-norms: sums of powers, with powers of x before them and roots of y after them;
 * where they leave the range, a channel is left to the definition. */
#include "layers/fast/functions.h"
#include "layers/fast/rows.h"
#include "layers/types.h"

#include <math.h>
#include <string.h>
#include <tgmath.h>

/* |x|^e, or 0 for 0. */
INLINE st_real power_of(st_real x, double e)
{
    const st_real size = fabs(x);
    return size == 0 ? 0 : (st_real)wide_exp(e * wide_log((double)size));
}

INLINE void powers(ptrdiff_t n, const st_real *x, double e, st_real *to)
{
    if (e == 1)
        for (ptrdiff_t i = 0; i < n; i++) to[i] = fabs(x[i]);
    else if (e == 2)
        for (ptrdiff_t i = 0; i < n; i++) to[i] = x[i] * x[i];
    else if (e == 3)
        for (ptrdiff_t i = 0; i < n; i++) to[i] = x[i] * x[i] * fabs(x[i]);
    else
        for (ptrdiff_t i = 0; i < n; i++) to[i] = power_of(x[i], e);
}

/* y^(1/p). */
INLINE void roots(ptrdiff_t n, st_real *y, double p)
{
    if (p == 2)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = sqrt(y[i]);
    else if (p != 1)
        for (ptrdiff_t i = 0; i < n; i++) y[i] = power_of(y[i], 1 / p);
}

/* q *= y^(1-p), or 0 if y is. */
INLINE void norms_before(ptrdiff_t n, const st_real *y, double p, st_real *q)
{
    if (p == 1)
        for (ptrdiff_t i = 0; i < n; i++) q[i] = y[i] == 0 ? 0 : q[i];
    else if (p == 2)
        for (ptrdiff_t i = 0; i < n; i++) q[i] = y[i] == 0 ? 0 : q[i] / y[i];
    else
        for (ptrdiff_t i = 0; i < n; i++) q[i] *= power_of(y[i], 1 - p);
}

/* dx *= sign(x) |x|^(p-1) */
INLINE void norms_after(ptrdiff_t n, const st_real *x, double p, st_real *dx)
{
    if (p == 1)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= x[i] == 0 ? 0 : copysign((st_real)1, x[i]);
    else if (p == 2)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= x[i];
    else if (p == 3)
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= x[i] * fabs(x[i]);
    else
        for (ptrdiff_t i = 0; i < n; i++) dx[i] *= copysign(power_of(x[i], p - 1), x[i]);
}

/* Tests if all of x are 0 or within limits. */
INLINE bool all_within(ptrdiff_t n, const st_real *x, st_real low, st_real high)
{
    int outside = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const st_real size = fabs(x[i]);
        outside |= !((size == 0) | ((int)(size >= low) & (int)(size <= high)));
    }
    return !outside;
}

/* ---- for each instruction set ---------------------------------------------------------------------- */

typedef enum norms_step { POWERS, ROOTS, BEFORE, AFTER } norms_step;
typedef void norm_pass(norms_step step, ptrdiff_t n, const st_real *x, double p, st_real *to);

#define STAMP(M)                                                                                             \
    M##_TARGET static void M##_norms(norms_step step, ptrdiff_t n, const st_real *x, double p, st_real *to)  \
    {                                                                                                        \
        if (step == POWERS) powers(n, x, p, to);                                                             \
        else if (step == ROOTS) roots(n, to, p);                                                             \
        else if (step == BEFORE) norms_before(n, x, p, to);                                                  \
        else norms_after(n, x, p, to);                                                                       \
    }
EACH_ISA(STAMP)

#define ADDRESS(M) M##_norms,
static norm_pass *const norms_of[] = { EACH_ISA(ADDRESS) };

/* ---- the hooks -------------------------------------------------------------------------------------- */

/* Elements of which powers, and sums of as many as there are in an image, are in range. */
static void limits_of(double p, double *low, double *high)
{
    const double most = sizeof(st_real) == 8 ? 1e240 : 1e28;
    *low = pow(1 / most, 1 / fmax(p, 1)), *high = pow(most, 1 / fmax(p, 1));
}

static void norms_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const rows_plan *p = c->plan;
    const ptrdiff_t channels = x.shape.n[1], area = x.shape.n[2] * x.shape.n[3],
                    count = y.shape.n[2] * y.shape.n[3];
    const work w = rows_work_of(c, channels);
    const int isa = c->layer->impl->isa;
    st_real *raised = st_data(st_scratch(c, p->scratch + IMAGE));
    double low, high;
    limits_of(p->p, &low, &high);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *from = rows_image_of(c, x, i);
        st_real *to = st_data(st_select(y, 0, i));
        for (ptrdiff_t k = 0; k < channels; k++)
            if (all_within(area, from + k * area, (st_real)low, (st_real)high))
                norms_of[isa](POWERS, area, from + k * area, p->p, raised + k * area);
            else
                for (ptrdiff_t j = 0; j < area; j++) raised[k * area + j] = NAN;
        rows_run(c, &w, false, raised, to);
        norms_of[isa](ROOTS, channels * count, NULL, p->p, to);
        for (ptrdiff_t k = 0; k < channels; k++) {
            int lost = 0;
            for (ptrdiff_t j = 0; j < count; j++) lost |= isnan(to[k * count + j]);
            if (lost) pool_forward_plane(c, i, k, st_select(st_select(x, 0, i), 0, k), to + k * count);
        }
    }
}

static void norms_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const rows_plan *p = c->plan;
    const ptrdiff_t channels = x.shape.n[1], area = x.shape.n[2] * x.shape.n[3],
                    count = y.shape.n[2] * y.shape.n[3];
    const work w = rows_work_of(c, channels);
    const int isa = c->layer->impl->isa;
    st_real *q = st_data(st_scratch(c, p->scratch + IMAGE));
    double low, high;
    limits_of(p->p, &low, &high);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const st_real *norms = st_data(st_select(y, 0, i)), *g = st_data(st_select(dy, 0, i));
        st_real *to = st_data(st_select(dx, 0, i));
        memcpy(q, g, (size_t)(channels * count) * sizeof *q);
        norms_of[isa](BEFORE, channels * count, norms, p->p, q);
        rows_run(c, &w, true, q, to);
        const st_real *from = rows_image_of(c, x, i);
        for (ptrdiff_t k = 0; k < channels; k++)
            if (all_within(area, from + k * area, (st_real)low, (st_real)high))
                norms_of[isa](AFTER, area, from + k * area, p->p, to + k * area);
            else
                pool_adjoint_plane(c, false, i, k, st_select(st_select(x, 0, i), 0, k), norms + k * count,
                                   g + k * count, st_select(st_select(dx, 0, i), 0, k));
    }
}

const layer_algorithm lppool_rows = { .type = &layer_type_lppool,
                                      .suits = rows_suit,
                                      .plan = rows_plan_for,
                                      .fill = rows_fill,
                                      .hooks = { norms_forward, norms_backward } };
