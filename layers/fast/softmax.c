/* softmax.c: softmax and its logarithm by vectors, for each instruction set. Sums are in a fixed order, so
 * that every instruction set gives the same bits. */
#include "layers/softmax_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/functions.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "tensor/sum.h"

enum { LANES = 16, BESIDE = 64 }; /* elements side by side; the most rows that are computed side by side */

INLINE st_real greatest_of(ptrdiff_t n, const st_real *y)
{
    st_real lane[LANES];
    for (int k = 0; k < LANES; k++) lane[k] = -(st_real)INFINITY;
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] = y[i + k] > lane[k] ? y[i + k] : lane[k];
    for (int k = 0; i < n; i++, k++) lane[k] = y[i] > lane[k] ? y[i] : lane[k];
    for (int k = 1; k < LANES; k++) lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
    return lane[0];
}

/* The sum of exp(x - greatest) less 1. With `logarithm`, y = x - greatest, otherwise its exponential. */
INLINE double shift_row(ptrdiff_t n, st_real *y, st_real greatest, bool logarithm)
{
    double rest = 0;
    ptrdiff_t maxima = 0;
    for (ptrdiff_t i = 0; i < n; i += BESIDE) {
        st_real e[BESIDE];
        const ptrdiff_t count = n - i < BESIDE ? n - i : BESIDE;
        int found = 0;
        for (ptrdiff_t k = 0; k < count; k++) {
            const st_real shifted = y[i + k] - greatest, power = fast_exp(shifted);
            found += shifted == 0;
            e[k] = shifted == 0 ? 0 : power;
            y[i + k] = logarithm ? shifted : power;
        }
        rest += sum_of_row(count, e);
        maxima += found;
    }
    return rest + (double)(maxima - 1);
}

INLINE void forward_row(ptrdiff_t n, st_real *y, bool logarithm)
{
    const double rest = shift_row(n, y, greatest_of(n, y), logarithm);
    const st_real log_sum = (st_real)log1p(rest), over = (st_real)(1 / (1 + rest));
    for (ptrdiff_t i = 0; i < n; i++) y[i] = logarithm ? y[i] - log_sum : y[i] * over;
}

/* The same for `width` adjacent rows, whose elements are `step` apart. */
INLINE void forward_rows_beside(ptrdiff_t n, ptrdiff_t step, ptrdiff_t width, st_real *y, bool logarithm)
{
    st_real greatest[BESIDE], maxima[BESIDE] = { 0 }, last[BESIDE];
    double rest[BESIDE] = { 0 };
    for (ptrdiff_t k = 0; k < width; k++) greatest[k] = -(st_real)INFINITY;
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < width; k++)
            greatest[k] = y[i * step + k] > greatest[k] ? y[i * step + k] : greatest[k];
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < width; k++) {
            const st_real shifted = y[i * step + k] - greatest[k], power = fast_exp(shifted);
            maxima[k] += shifted == 0 ? 1 : 0;
            rest[k] += (double)(shifted == 0 ? 0 : power);
            y[i * step + k] = logarithm ? shifted : power;
        }
    for (ptrdiff_t k = 0; k < width; k++) {
        rest[k] += (double)maxima[k] - 1;
        last[k] = (st_real)(logarithm ? log1p(rest[k]) : 1 / (1 + rest[k]));
    }
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < width; k++) {
            const st_real value = y[i * step + k];
            y[i * step + k] = logarithm ? value - last[k] : value * last[k];
        }
}

INLINE void forward_rows(const st_call *c, st_tensor y, bool logarithm)
{
    const softmax_plan r = *(const softmax_plan *)c->plan;
    for (ptrdiff_t k = 0, width; k < c->images * r.lines; k += width) {
        st_real *at = st_data(y) + softmax_line(&r, k);
        width = smallest(r.step - k % r.step, BESIDE);
        if (r.step == 1) forward_row(r.length, at, logarithm);
        else forward_rows_beside(r.length, r.step, width, at, logarithm);
    }
}

INLINE void backward_row(ptrdiff_t n, const st_real *p, const st_real *g, st_real *out, bool logarithm)
{
    st_real lane[LANES] = { 0 }, sum = 0;
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += logarithm ? g[i + k] : p[i + k] * g[i + k];
    for (; i < n; i++) sum += logarithm ? g[i] : p[i] * g[i];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    for (i = 0; i < n; i++) out[i] = logarithm ? g[i] - fast_exp(p[i]) * sum : p[i] * (g[i] - sum);
}

/* The same for `width` adjacent rows. */
INLINE void backward_rows_beside(ptrdiff_t n, ptrdiff_t step, ptrdiff_t width, const st_real *p,
                                 const st_real *g, st_real *out, bool logarithm)
{
    st_real sum[BESIDE] = { 0 };
    for (ptrdiff_t i = 0; i < n * step; i += step)
        for (ptrdiff_t k = 0; k < width; k++) sum[k] += logarithm ? g[i + k] : p[i + k] * g[i + k];
    for (ptrdiff_t i = 0; i < n * step; i += step)
        for (ptrdiff_t k = 0; k < width; k++)
            out[i + k] = logarithm ? g[i + k] - fast_exp(p[i + k]) * sum[k] : p[i + k] * (g[i + k] - sum[k]);
}

INLINE void backward_rows(const st_call *c, st_tensor y, st_tensor dy, st_tensor dx, bool logarithm)
{
    const softmax_plan r = *(const softmax_plan *)c->plan;
    for (ptrdiff_t k = 0, width; k < c->images * r.lines; k += width) {
        const st_real *p = st_data(y) + softmax_line(&r, k), *g = st_data(dy) + softmax_line(&r, k);
        st_real *out = st_data(dx) + softmax_line(&r, k);
        width = smallest(r.step - k % r.step, BESIDE);
        if (r.step == 1) backward_row(r.length, p, g, out, logarithm);
        else backward_rows_beside(r.length, r.step, width, p, g, out, logarithm);
    }
}

/* ---- the algorithms --------------------------------------------------------------------------------- */

/* The plan's data: the definition's, and the functions of an instruction set. */
typedef struct softmax_by {
    softmax_plan lines;
    void (*forward)(const st_call *c, st_tensor y);
    void (*backward)(const st_call *c, st_tensor y, st_tensor dy, st_tensor dx);
} softmax_by;

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    ((const softmax_by *)c->plan)->forward(c, y);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x;
    ((const softmax_by *)c->plan)->backward(c, y, dy, dx);
}

#define SOFTMAX_BY(M, NAME)                                                                                  \
    M##_TARGET static void M##_##NAME##_forward(const st_call *c, st_tensor y)                               \
    {                                                                                                        \
        forward_rows(c, y, NAME##_LOGARITHM);                                                                \
    }                                                                                                        \
    M##_TARGET static void M##_##NAME##_backward(const st_call *c, st_tensor y, st_tensor dy, st_tensor dx)  \
    {                                                                                                        \
        backward_rows(c, y, dy, dx, NAME##_LOGARITHM);                                                       \
    }
#define NAMES(M, NAME) { { 0 }, M##_##NAME##_forward, M##_##NAME##_backward },

#define SOFTMAX(NAME)                                                                                        \
    EACH_MACHINE_OF(SOFTMAX_BY, NAME)                                                                        \
    static const softmax_by NAME##_of_machine[] = { EACH_MACHINE_OF(NAMES, NAME) };                          \
    static int plan_##NAME(st_layer *l, const void *given)                                                   \
    {                                                                                                        \
        softmax_by *p = st_layer_plan_data(l, sizeof *p);                                                    \
        if (!p) return -1;                                                                                   \
        *p = NAME##_of_machine[l->impl->machine];                                                            \
        p->lines = *(const softmax_plan *)given;                                                             \
        return 0;                                                                                            \
    }                                                                                                        \
    const layer_algorithm NAME##_vectors = {                                                                 \
        .type = &layer_type_##NAME, .suits = suits, .plan = plan_##NAME, .hooks = { forward, backward }      \
    };

enum { softmax_LOGARITHM = false, log_softmax_LOGARITHM = true };
SOFTMAX(softmax)
SOFTMAX(log_softmax)
