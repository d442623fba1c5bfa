/* softmax.c: softmax and its logarithm along one axis, without overflow: the definitions, in double. */
#include "layers/softmax_impl.h"
#include "layers/types.h"

#include <math.h>

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_softmax_options *o = l->options;
    if (o->axis >= x.rank)
        return st_layer_refuse(l, "axis=%d of an input %s, expected less than %d", o->axis,
                               st_shape_text(x).text, x.rank);
    softmax_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *y = x;
    *p = (softmax_plan){ .length = x.n[o->axis], .step = 1 };
    p->lines = st_shape_numel(x, l->type->name) / x.n[0] / p->length;
    for (int i = o->axis + 1; i < x.rank; i++) p->step *= x.n[i];
    return 0;
}

/* y = exp(x - m) / s or x - m - log(s), m being the maximum and s the sum of exp(x - m). The terms of maxima,
 * which are 1, are counted and not added to the others: in log(1 + rest) a small rest would be rounded off,
 * log1p keeps it. A NaN makes the whole line NaN. */
static void forward_line(ptrdiff_t n, ptrdiff_t step, st_real *y, bool logarithm)
{
    double most = -INFINITY, rest = 0;
    ptrdiff_t maxima = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        if ((double)y[i * step] > most) most = (double)y[i * step];
    for (ptrdiff_t i = 0; i < n; i++) {
        const double shifted = (double)y[i * step] - most;
        if (shifted == 0) maxima++;
        else rest += exp(shifted);
    }
    rest += (double)maxima - 1;
    const double log_sum = log1p(rest);
    for (ptrdiff_t i = 0; i < n; i++) {
        const double shifted = (double)y[i * step] - most;
        y[i * step] = (st_real)(logarithm ? shifted - log_sum : exp(shifted) / (1 + rest));
    }
}

/* dx = y (dy - <y, dy>); of the logarithm, dx = dy - exp(y) sum of dy. */
static void backward_line(ptrdiff_t n, ptrdiff_t step, const st_real *y, const st_real *dy, st_real *dx,
                          bool logarithm)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n * step; i += step) sum += (double)dy[i] * (logarithm ? 1 : (double)y[i]);
    for (ptrdiff_t i = 0; i < n * step; i += step)
        dx[i] = (st_real)(logarithm ? (double)dy[i] - exp((double)y[i]) * sum
                                    : (double)y[i] * ((double)dy[i] - sum));
}

/* ---- the types ----------------------------------------------------------------------------------------- */

static const st_field fields[] = {
    { ST_FIELD(INT, st_softmax_options, axis), .fallback = 1, .least = 1, .below = ST_MAX_RANK },
    { 0 },
};

#define SOFTMAX(NAME, LOGARITHM)                                                                             \
    static void NAME##_forward(const st_call *c, st_tensor x, st_tensor y)                                   \
    {                                                                                                        \
        const softmax_plan *p = c->plan;                                                                     \
        st_copy(y, x);                                                                                       \
        for (ptrdiff_t k = 0; k < c->images * p->lines; k++)                                                 \
            forward_line(p->length, p->step, st_data(y) + softmax_line(p, k), LOGARITHM);                    \
    }                                                                                                        \
    static void NAME##_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)      \
    {                                                                                                        \
        (void)x;                                                                                             \
        const softmax_plan *p = c->plan;                                                                     \
        for (ptrdiff_t k = 0; k < c->images * p->lines; k++) {                                               \
            const ptrdiff_t at = softmax_line(p, k);                                                         \
            backward_line(p->length, p->step, st_data(y) + at, st_data(dy) + at, st_data(dx) + at,           \
                          LOGARITHM);                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    const st_layer_type layer_type_##NAME = {                                                                \
        .name = #NAME,                                                                                       \
        .options_size = sizeof(st_softmax_options),                                                          \
        .fields = fields,                                                                                    \
        .plan = plan,                                                                                        \
        .forward = NAME##_forward,                                                                           \
        .backward = NAME##_backward,                                                                         \
    };                                                                                                       \
    CONSTRUCTOR(NAME, st_softmax_options)

SOFTMAX(softmax, false)
SOFTMAX(log_softmax, true)
