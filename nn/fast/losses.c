/* losses.c: the passes of the losses by vectors, for each instruction set.
 *
 * A block of positions or elements is compared, exponentiated and summed side by side. Exponential functions
 * of logits are taken once, in st_real, and wait in dy for their sum; sums and logarithms are in double. Many
 * adjacent logits of a position are lanes, otherwise positions are. A row is divided into parts by its length
 * alone, and the parts' sums are added in order. */
#include "nn/losses_impl.h"

#include "layers/fast/functions.h"
#include "tensor/counts.h"
#include "tensor/parallel.h"

/* Loops over a block are longer than those that the compiler unrolls instead of making vectors of them. */
enum { BLOCK = 64, MOST_PARTS = 16, LEAST_WORK = 1 << 14 };

INLINE void take(st_real *v, const st_real *at, ptrdiff_t stride, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i++) v[i] = at[i * stride];
}

INLINE void put(const st_real *v, st_real *at, ptrdiff_t stride, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i++) at[i * stride] = v[i];
}

/* A part of a row: its views begin at `at`, and `sum` becomes the sum of its losses. */
typedef struct part {
    ptrdiff_t n;
    st_real *at[4];
    const ptrdiff_t *stride;
    const void *pass;
    double sum;
} part;

/* ---- logits ---------------------------------------------------------------------------------------- */

/* The smoothed target q[k] of class k is its share of all classes and a factor times the target. */
typedef struct share {
    double all, factor;
} share;

INLINE share share_of(const positions *p, ptrdiff_t k)
{
    const double weight = (double)p->weight[k * p->weight_stride];
    return (share){ weight * (p->smoothing / (double)p->classes), weight * (1 - p->smoothing) };
}

/* Up to BLOCK positions. With e[k] = exp(y[k] - greatest) and their sum `total`, log p[k] is
 * y[k] - greatest - log(total), and p[k] is e[k] / total. `mass` is the sum of q[k], and `dot` that of
 * q[k] (y[k] - greatest). */
typedef struct block {
    const positions *p;
    const st_real *y, *target;
    st_real *dy;
    ptrdiff_t count, y_step, target_step, dy_step; /* steps from a position to the next */
    st_real greatest[BLOCK];
    double total[BLOCK], mass[BLOCK], dot[BLOCK];
    ptrdiff_t chosen[BLOCK]; /* the target's class */
    bool counts[BLOCK];
} block;

INLINE void take_logits(const block *b, ptrdiff_t k, st_real *v)
{
    take(v, b->y + k * b->p->y_stride, b->y_step, b->count);
}

INLINE void find_greatest(block *b)
{
    st_real v[BLOCK];
    for (ptrdiff_t i = 0; i < b->count; i++) b->greatest[i] = -(st_real)INFINITY;
    for (ptrdiff_t k = 0; k < b->p->classes; k++) {
        take_logits(b, k, v);
        for (ptrdiff_t i = 0; i < b->count; i++)
            b->greatest[i] = v[i] > b->greatest[i] ? v[i] : b->greatest[i];
    }
}

/* Begins the sums by what is the target's class alone. */
INLINE void choose(block *b)
{
    for (ptrdiff_t i = 0; i < b->count; i++) {
        const double target = b->p->soft ? 0 : (double)b->target[i * b->target_step];
        b->counts[i] = b->p->soft || !loss_ignores(b->p->l, target);
        b->chosen[i] = b->counts[i] ? (ptrdiff_t)target : 0;
        b->mass[i] = b->p->soft || !b->counts[i] ? 0 : share_of(b->p, b->chosen[i]).factor;
        b->total[i] = b->dot[i] = 0;
        const st_real y = b->y[i * b->y_step + b->chosen[i] * b->p->y_stride];
        if (b->mass[i] != 0) b->dot[i] = b->mass[i] * ((double)y - (double)b->greatest[i]);
    }
}

INLINE void add_soft(block *b, ptrdiff_t k, share q, const st_real *y)
{
    st_real t[BLOCK];
    take(t, b->target + k * b->p->target_stride, b->target_step, b->count);
    for (ptrdiff_t i = 0; i < b->count; i++) {
        const double q_k = q.all + q.factor * (double)t[i];
        b->mass[i] += q_k;
        b->dot[i] += q_k != 0 ? q_k * ((double)y[i] - (double)b->greatest[i]) : 0;
    }
}

INLINE void exponentiate(block *b)
{
    st_real v[BLOCK];
    for (ptrdiff_t k = 0; k < b->p->classes; k++) {
        const share q = share_of(b->p, k);
        take_logits(b, k, v);
        if (b->p->soft) add_soft(b, k, q, v);
        else if (q.all != 0)
            for (ptrdiff_t i = 0; i < b->count; i++)
                b->mass[i] += q.all, b->dot[i] += q.all * ((double)v[i] - (double)b->greatest[i]);
        for (ptrdiff_t i = 0; i < b->count; i++)
            v[i] = fast_exp_within(not_below_least(v[i] - b->greatest[i]));
        for (ptrdiff_t i = 0; i < b->count; i++) b->total[i] += (double)v[i];
        if (b->p->wants_dy) put(v, b->dy + k * b->p->dy_stride, b->dy_step, b->count);
    }
}

INLINE void add_losses(const block *b, double *sum)
{
    double log_total[BLOCK];
    for (ptrdiff_t i = 0; i < b->count; i++) log_total[i] = wide_log_of_1_and(b->total[i] - 1);
    for (ptrdiff_t i = 0; i < b->count; i++)
        sum[i] += b->counts[i] ? (b->mass[i] != 0 ? b->mass[i] * log_total[i] : 0) - b->dot[i] : 0;
}

/* e[k], which dy holds, becomes p[k] (sum of q) - q[k]: in double where q[k] is not 0. */
INLINE void differentiate(const block *b)
{
    const positions *p = b->p;
    const bool spread = p->soft || p->smoothing != 0;
    st_real v[BLOCK], t[BLOCK] = { 0 }, scale[BLOCK];
    double rate[BLOCK], own[BLOCK];
    for (ptrdiff_t i = 0; i < b->count; i++) {
        rate[i] = b->mass[i] / b->total[i];
        scale[i] = (st_real)(rate[i] / p->divisor);
        own[i] = (double)b->dy[i * b->dy_step + b->chosen[i] * p->dy_stride];
    }
    for (ptrdiff_t k = 0; k < p->classes; k++) {
        const share q = share_of(p, k);
        take(v, b->dy + k * p->dy_stride, b->dy_step, b->count);
        if (p->soft) take(t, b->target + k * p->target_stride, b->target_step, b->count);
        if (spread)
            for (ptrdiff_t i = 0; i < b->count; i++)
                v[i] = (st_real)((rate[i] * (double)v[i] - q.all - q.factor * (double)t[i]) / p->divisor);
        else
            for (ptrdiff_t i = 0; i < b->count; i++) v[i] *= scale[i];
        put(v, b->dy + k * p->dy_stride, b->dy_step, b->count);
    }
    for (ptrdiff_t i = 0; i < b->count && !p->soft; i++) {
        const share q = share_of(p, b->chosen[i]);
        st_real *dy = b->dy + i * b->dy_step;
        if (b->counts[i])
            dy[b->chosen[i] * p->dy_stride] = (st_real)((rate[i] * own[i] - q.all - q.factor) / p->divisor);
        else
            for (ptrdiff_t k = 0; k < p->classes; k++) dy[k * p->dy_stride] = 0;
    }
}

INLINE void add_positions(const positions *p, st_real *const at[], ptrdiff_t y_step, ptrdiff_t target_step,
                          ptrdiff_t dy_step, ptrdiff_t count, double *sum)
{
    block b = { p, at[0], at[1], at[2], count, y_step, target_step, dy_step, .greatest = { 0 } };
    find_greatest(&b);
    choose(&b);
    exponentiate(&b);
    add_losses(&b, sum);
    if (p->wants_dy) differentiate(&b);
}

/* ---- a position whose logits are adjacent ---------------------------------------------------------- */

/* From MANY classes on, classes are lanes; an item of work then has SOME positions. */
enum { MANY = 256, SOME = 4 };

INLINE bool by_classes(const positions *p, ptrdiff_t y_step)
{
    return p->y_stride == 1 && (p->dy_stride == 1 || !p->wants_dy) && y_step != 1 && p->classes >= MANY &&
           (p->soft || p->smoothing == 0);
}

/* Fills lanes after the last element by `rest`. */
INLINE void take_lanes(st_real *v, const st_real *at, ptrdiff_t stride, ptrdiff_t count, st_real rest)
{
    for (ptrdiff_t i = 0; i < BLOCK && count < BLOCK; i++) v[i] = rest;
    if (stride != 1) take(v, at, stride, smallest(count, BLOCK));
    else if (count < BLOCK) take(v, at, 1, count);
    else take(v, at, 1, BLOCK);
}

INLINE void put_lanes(const st_real *v, st_real *at, ptrdiff_t count)
{
    if (count >= BLOCK) put(v, at, 1, BLOCK);
    else put(v, at, 1, count);
}

/* The smoothed targets of classes from k on, from probabilities; 0 after the last class. */
INLINE void take_targets(const positions *p, const st_real *target, ptrdiff_t k, double *q)
{
    const double all = p->smoothing / (double)p->classes, factor = 1 - p->smoothing;
    const ptrdiff_t count = p->classes - k;
    st_real weight[BLOCK], t[BLOCK];
    take_lanes(weight, p->weight + k * p->weight_stride, p->weight_stride, count, 0);
    take_lanes(t, target + k * p->target_stride, p->target_stride, count, 0);
    for (ptrdiff_t i = 0; i < BLOCK; i++) q[i] = (double)weight[i] * (all + factor * (double)t[i]);
}

#define FOLD(i, other, ...)                                                                                  \
    for (int half = BLOCK / 2; half > 0; half /= 2)                                                          \
        for (int i = 0, other = half; i < half; i++, other++) __VA_ARGS__

INLINE double sum_of_lanes(double *lane)
{
    FOLD(i, other, lane[i] += lane[other];)
    return lane[0];
}

#define EACH_LANES(k) for (ptrdiff_t k = 0; k < p->classes; k += BLOCK)

/* Exponential functions of lanes after the last class are 0. */
INLINE void add_row(const positions *p, const st_real *y, const st_real *target, st_real *dy, double *sum)
{
    const double class = p->soft ? 0 : (double)*target;
    if (!p->soft && loss_ignores(p->l, class)) {
        for (ptrdiff_t k = 0; k < p->classes && p->wants_dy; k++) dy[k] = 0;
        return;
    }
    const ptrdiff_t chosen = (ptrdiff_t) class;
    const share own = p->soft ? (share){ 0 } : share_of(p, chosen);
    st_real v[BLOCK], most[BLOCK], greatest = -(st_real)INFINITY;
    double q[BLOCK], totals[BLOCK] = { 0 }, masses[BLOCK] = { 0 }, dots[BLOCK] = { 0 };
    for (ptrdiff_t i = 0; i < BLOCK; i++) most[i] = greatest;
    EACH_LANES(k)
    {
        take_lanes(v, y + k, 1, p->classes - k, -(st_real)INFINITY);
        for (ptrdiff_t i = 0; i < BLOCK; i++) most[i] = v[i] > most[i] ? v[i] : most[i];
    }
    FOLD(i, other, most[i] = most[other] > most[i] ? most[other] : most[i];)
    greatest = most[0];
    const double off = own.factor != 0 ? own.factor * ((double)y[chosen] - (double)greatest) : 0;
    EACH_LANES(k)
    {
        take_lanes(v, y + k, 1, p->classes - k, -(st_real)INFINITY);
        if (p->soft) take_targets(p, target, k, q);
        for (ptrdiff_t i = 0; i < BLOCK && p->soft; i++) {
            masses[i] += q[i];
            dots[i] += q[i] != 0 ? q[i] * ((double)v[i] - (double)greatest) : 0;
        }
        for (ptrdiff_t i = 0; i < BLOCK; i++) v[i] = not_below_least(v[i] - greatest);
        for (ptrdiff_t i = 0; i < BLOCK; i++) v[i] = fast_exp_within(v[i]);
        for (ptrdiff_t i = 0; i < BLOCK; i++) totals[i] += (double)v[i];
        if (p->wants_dy) put_lanes(v, dy + k, p->classes - k);
    }
    const double total = sum_of_lanes(totals), mass = own.factor + (p->soft ? sum_of_lanes(masses) : 0),
                 rate = mass / total;
    *sum += (mass != 0 ? mass * wide_log_of_1_and(total - 1) : 0) - off - (p->soft ? sum_of_lanes(dots) : 0);
    if (!p->wants_dy) return;
    const st_real scale = (st_real)(rate / p->divisor);
    const double slope = (rate * (double)dy[chosen] - own.all - own.factor) / p->divisor;
    EACH_LANES(k)
    {
        take_lanes(v, dy + k, 1, p->classes - k, 0);
        if (p->soft) take_targets(p, target, k, q);
        if (p->soft)
            for (ptrdiff_t i = 0; i < BLOCK; i++) v[i] = (st_real)((rate * (double)v[i] - q[i]) / p->divisor);
        else
            for (ptrdiff_t i = 0; i < BLOCK; i++) v[i] *= scale;
        put_lanes(v, dy + k, p->classes - k);
    }
    if (!p->soft) dy[chosen] = (st_real)slope;
}

INLINE void logits_part(part *a)
{
    const positions *p = a->pass;
    const ptrdiff_t *s = a->stride;
    const bool adjacent = s[0] == 1 && s[2] == 1, rows = by_classes(p, s[0]);
    double sum[BLOCK] = { 0 };
    for (ptrdiff_t i = 0; i < a->n && rows; i++)
        add_row(p, a->at[0] + i * s[0], a->at[1] + i * s[1], a->at[2] + i * s[2], sum);
    for (ptrdiff_t i = 0; i < a->n && !rows; i += BLOCK) {
        const ptrdiff_t count = smallest(a->n - i, BLOCK);
        st_real *const at[] = { a->at[0] + i * s[0], a->at[1] + i * s[1], a->at[2] + i * s[2] };
        if (adjacent && count == BLOCK) add_positions(p, at, 1, s[1], 1, BLOCK, sum);
        else add_positions(p, at, s[0], s[1], s[2], count, sum);
    }
    for (ptrdiff_t i = 0; i < BLOCK; i++) a->sum += sum[i];
}

/* ---- element by element ------------------------------------------------------------------------- */

INLINE void add_elements(const mean *m, loss_row which, st_real *const at[4], const ptrdiff_t step[4],
                         ptrdiff_t count, double *sum)
{
    st_real y[BLOCK], t[BLOCK], option[BLOCK], d[BLOCK];
    take(y, at[0], step[0], count), take(t, at[1], step[1], count);
    if (m->weighted) take(option, at[3], step[3], count);
    else
        for (ptrdiff_t i = 0; i < count; i++) option[i] = 1;
    for (ptrdiff_t i = 0; i < count; i++) {
        const double u = (double)y[i], target = (double)t[i];
        double slope, value;
        if (which == LOSS_SQUARED) value = loss_squared(u, target, 0, &slope);
        else if (which == LOSS_HUBER) value = loss_huber(u, target, m->option, &slope);
        else {
            const double e = wide_exp(-fabs(u));
            value = loss_binary(u, target, (double)option[i], e, wide_log1p(e), &slope);
        }
        sum[i] += value;
        d[i] = (st_real)(slope * m->scale);
    }
    if (m->wants_dy) put(d, at[2], step[2], count);
}

INLINE void elements_part(part *a, loss_row which)
{
    static const ptrdiff_t ones[4] = { 1, 1, 1, 1 };
    const mean *m = a->pass;
    const ptrdiff_t *s = a->stride;
    const bool adjacent = s[0] == 1 && s[1] == 1 && s[2] == 1 && (s[3] == 1 || !m->weighted);
    double sum[BLOCK] = { 0 };
    for (ptrdiff_t i = 0; i < a->n; i += BLOCK) {
        st_real *at[4];
        for (int v = 0; v < 4; v++) at[v] = a->at[v] + i * s[v];
        add_elements(m, which, at, adjacent ? ones : s, smallest(a->n - i, BLOCK), sum);
    }
    for (ptrdiff_t i = 0; i < BLOCK; i++) a->sum += sum[i];
}

/* ---- rows ------------------------------------------------------------------------------------------ */

typedef void part_function(part *a);

typedef struct parts {
    part part[MOST_PARTS];
    part_function *run;
} parts;

static void run_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    parts *all = context;
    all->run(&all->part[i]);
}

/* The sum of a row of n elements of `views` views, `work` for each; parts are multiples of `unit`. */
static double sum_of_row(part_function *run, ptrdiff_t n, ptrdiff_t unit, ptrdiff_t work, int views,
                         st_real *const at[], const ptrdiff_t stride[], const void *pass)
{
    const ptrdiff_t size = unit * ceil_div(n, unit * MOST_PARTS), count = ceil_div(n, size);
    double sum = 0;
    parts all;
    all.run = run;
    for (ptrdiff_t i = 0; i < count; i++) {
        all.part[i] = (part){ .n = smallest(size, n - i * size), .stride = stride, .pass = pass };
        for (int v = 0; v < views; v++) all.part[i].at[v] = at[v] + i * size * stride[v];
    }
    parallel_for(n * work < LEAST_WORK ? 1 : st_num_threads(), count, run_part, &all);
    for (ptrdiff_t i = 0; i < count; i++) sum += all.part[i].sum;
    return sum;
}

#define ROW_OF(M, NAME, PASS, UNIT, WORK, VIEWS, DO)                                                         \
    M##_TARGET static void M##_##NAME(part *a)                                                               \
    {                                                                                                        \
        DO;                                                                                                  \
    }                                                                                                        \
    static void M##_##NAME##_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)  \
    {                                                                                                        \
        PASS *p = context;                                                                                   \
        p->sum += sum_of_row(M##_##NAME, n, UNIT, WORK, VIEWS, at, stride, p);                               \
    }
#define ROWS_OF(M)                                                                                           \
    ROW_OF(M, logits, positions, by_classes(p, stride[0]) ? SOME : BLOCK, p->classes, 3, logits_part(a))     \
    ROW_OF(M, squared, mean, BLOCK, 1, 4, elements_part(a, LOSS_SQUARED))                                    \
    ROW_OF(M, huber, mean, BLOCK, 1, 4, elements_part(a, LOSS_HUBER))                                        \
    ROW_OF(M, binary, mean, BLOCK, 1, 4, elements_part(a, LOSS_BINARY))
#define ROWS_OF_TABLE(M) { M##_logits_row, M##_squared_row, M##_huber_row, M##_binary_row },
EACH_ISA(ROWS_OF)
_Static_assert(LOSS_ROWS == 4, "ROWS_OF_TABLE has one function for each loss_row");

static st_row_function *by_vectors(loss_row which)
{
    static st_row_function *const rows[][LOSS_ROWS] = { EACH_ISA(ROWS_OF_TABLE) };
    const int isa = engine_choose();
    return isa < 0 ? NULL : rows[isa][which];
}

st_row_function *(*loss_row_by_vectors)(loss_row which) = by_vectors;
