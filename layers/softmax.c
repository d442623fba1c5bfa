/* softmax.c: softmax and its logarithm along one axis, without overflow. */
#include "layers/exponential.h"
#include "layers/types.h"
#include "tensor/sum.h"

#include <math.h>
#include <tgmath.h>

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_softmax_options *o = l->options;
    if (o->axis >= x.rank)
        return st_layer_refuse(l, "axis=%d of an input %s", o->axis, st_shape_text(x).text);
    *y = x;
    return 0;
}

/* Row k of a contiguous tensor along the axis. */
typedef struct rows {
    ptrdiff_t count, length, step;
} rows;

static rows along(const st_call *c, st_tensor y)
{
    int axis = ((const st_softmax_options *)c->options)->axis;
    rows r = { st_numel(y) / y.shape.n[axis], y.shape.n[axis], 1 };
    for (int i = axis + 1; i < y.shape.rank; i++) r.step *= y.shape.n[i];
    return r;
}

static ptrdiff_t begin(rows r, ptrdiff_t k)
{
    return k / r.step * r.step * r.length + k % r.step;
}

enum { BESIDE = 64 }; /* the most rows with adjacent elements that are computed side by side */

static st_real greater(st_real a, st_real b)
{
    return a > b ? a : b;
}

enum { LANES = 8 }; /* elements side by side, for vectorisation */

static st_real greatest_of(ptrdiff_t n, const st_real *y)
{
    st_real lane[LANES];
    for (int k = 0; k < LANES; k++) lane[k] = -(st_real)INFINITY;
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] = greater(y[i + k], lane[k]);
    for (int k = 0; i < n; i++, k++) lane[k] = greater(y[i], lane[k]);
    for (int k = 1; k < LANES; k++) lane[0] = greater(lane[k], lane[0]);
    return lane[0];
}

static double sum_of_exponentials(ptrdiff_t n, const st_real *y)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i += BESIDE) {
        st_real e[BESIDE];
        ptrdiff_t count = n - i < BESIDE ? n - i : BESIDE;
        for (ptrdiff_t k = 0; k < count; k++) e[k] = exponential(y[i + k]);
        sum += sum_of_row(count, e);
    }
    return sum;
}

/* In place: x - log(sum of exp(x)), or its exponential. Subtracts the maximum first, then the logarithm:
 * their sum would lose the smaller one for large logits. A NaN makes the whole row NaN. */
static void forward_row(ptrdiff_t n, st_real *y, bool logarithm)
{
    const st_real greatest = greatest_of(n, y);
    for (ptrdiff_t i = 0; i < n; i++) y[i] -= greatest;
    if (logarithm) {
        const st_real log_sum = (st_real)log(sum_of_exponentials(n, y));
        for (ptrdiff_t i = 0; i < n; i++) y[i] -= log_sum;
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) y[i] = exponential(y[i]);
    const st_real sum = (st_real)sum_of_row(n, y);
    for (ptrdiff_t i = 0; i < n; i++) y[i] /= sum;
}

/* The same for `width` adjacent rows, whose elements are `step` apart. */
static void forward_rows_beside(ptrdiff_t n, ptrdiff_t step, ptrdiff_t width, st_real *y, bool logarithm)
{
    st_real greatest[BESIDE], sum[BESIDE] = { 0 };
    for (ptrdiff_t k = 0; k < width; k++) greatest[k] = -(st_real)INFINITY;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < width; k++)
            greatest[k] = y[i * step + k] > greatest[k] ? y[i * step + k] : greatest[k];
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < width; k++) {
            st_real shifted = y[i * step + k] - greatest[k], power = exponential(shifted);
            sum[k] += power;
            y[i * step + k] = logarithm ? shifted : power;
        }
    for (ptrdiff_t k = 0; k < width && logarithm; k++) sum[k] = log(sum[k]);
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < width; k++) {
            st_real value = y[i * step + k];
            y[i * step + k] = logarithm ? value - sum[k] : value / sum[k];
        }
}

static void forward_rows(const st_call *c, st_tensor x, st_tensor y, bool logarithm)
{
    rows r = along(c, y);
    st_copy(y, x);
    for (ptrdiff_t k = 0, width; k < r.count; k += width) {
        st_real *at = st_data(y) + begin(r, k);
        width = r.step - k % r.step < BESIDE ? r.step - k % r.step : BESIDE;
        if (width == 1 && r.step == 1) forward_row(r.length, at, logarithm);
        else forward_rows_beside(r.length, r.step, width, at, logarithm);
    }
}

/* dx = y (dy - <y, dy>); of the logarithm, dx = dy - exp(y) sum of dy. */
INLINE void backward_rows(const st_call *c, st_tensor y, st_tensor dy, st_tensor dx, bool logarithm)
{
    rows r = along(c, y);
    for (ptrdiff_t k = 0; k < r.count; k++) {
        const st_real *p = st_data(y) + begin(r, k), *g = st_data(dy) + begin(r, k);
        st_real *out = st_data(dx) + begin(r, k), lane[LANES] = { 0 }, sum = 0;
        ptrdiff_t i = 0;
        for (; r.step == 1 && i + LANES <= r.length; i += LANES)
            for (int l = 0; l < LANES; l++) lane[l] += logarithm ? g[i + l] : p[i + l] * g[i + l];
        for (; i < r.length * r.step; i += r.step) sum += logarithm ? g[i] : p[i] * g[i];
        for (int l = 0; l < LANES; l++) sum += lane[l];
        for (i = 0; i < r.length * r.step; i += r.step)
            out[i] = logarithm ? g[i] - exponential(p[i]) * sum : p[i] * (g[i] - sum);
    }
}

/* ---- the types ----------------------------------------------------------------------------------------- */

static const st_field fields[] = {
    { "axis", ST_FIELD_INT, offsetof(st_softmax_options, axis), .fallback = 1, .least = 1,
      .below = ST_MAX_RANK },
    { 0 },
};

#define SOFTMAX(NAME, LOGARITHM)                                                                             \
    static void NAME##_forward(const st_call *c, st_tensor x, st_tensor y)                                   \
    {                                                                                                        \
        forward_rows(c, x, y, LOGARITHM);                                                                    \
    }                                                                                                        \
    static void NAME##_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)      \
    {                                                                                                        \
        (void)x;                                                                                             \
        backward_rows(c, y, dy, dx, LOGARITHM);                                                              \
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
