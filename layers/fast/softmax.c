/* softmax.c: softmax and its logarithm by vectors, for each instruction set. Sums are in a fixed order, so
 * that every instruction set gives the same bits.
 *
 * Lines are rows, whose elements are adjacent, or adjacent columns, which are computed side by side. Short
 * rows, and few columns, are packed: copied, those of several blocks side by side, to columns. */
#include "layers/softmax_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/functions.h"
#include "layers/fast/kernel.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <string.h>

enum { LANES = 16 };                       /* of a vector */
enum { LEAST = 4 * LANES, MOST = 512 };    /* columns at once, or up to LANES - 1 more, */
enum { PACKED = 8 * LANES };               /* or packed ones */
enum { NEAR = 1 << 12, CACHED = 1 << 15 }; /* elements that stay in the first and in the second cache */

/* Forward, shorter rows are packed, since the sums of a row take long, and columns that would use fewer lanes
 * of their vectors. */
enum { SHORT = 48, USED = 13 };

/* Without it gcc unrolls such a loop before it could make vectors of it. An exponential has a loop of its
 * own: gcc would make a branch of what is known of a clamped argument. */
#define EACH_LANE(k) _Pragma("GCC unroll 1") for (int k = 0; k < LANES; k++)

/* DO(k, other) for lanes k and other, until lane 0 has all of them. */
#define FOLD_HALF(half, DO)                                                                                  \
    _Pragma("GCC unroll 1") for (int k = 0; k < (half); k++)                                                 \
    {                                                                                                        \
        DO(k, k + (half));                                                                                   \
    }
#define FOLD(DO) FOLD_HALF(8, DO) FOLD_HALF(4, DO) FOLD_HALF(2, DO) FOLD_HALF(1, DO)

/* ---- vectors ------------------------------------------------------------------------------------------- */

INLINE void fill_lanes(st_real *to, st_real value)
{
    EACH_LANE(k) to[k] = value;
}

INLINE void copy_lanes(st_real *to, const st_real *from)
{
    EACH_LANE(k) to[k] = from[k];
}

INLINE void take_greatest(st_real *greatest, const st_real *x)
{
    EACH_LANE(k) greatest[k] = x[k] > greatest[k] ? x[k] : greatest[k];
}

/* Sums of exp(x - greatest) but for the maxima's ones, and the number of those. */
typedef struct shifted_sums {
    double rest[LANES];
    st_real maxima[LANES];
} shifted_sums;

/* With `logarithm`, to = x - greatest, otherwise its exponential; lanes from `first` on are added. */
INLINE void shift(shifted_sums *sums, const st_real *x, st_real *to, int first, const st_real *greatest,
                  bool logarithm)
{
    st_real shifted[LANES], power[LANES];
    EACH_LANE(k)
    {
        shifted[k] = x[k] - greatest[k];
        power[k] = not_below_least(shifted[k]);
    }
    EACH_LANE(k) power[k] = fast_exp_within(power[k]);
    EACH_LANE(k)
    {
        const st_real added = (st_real)(k >= first), below = (st_real)(shifted[k] < 0) * added;
        sums->maxima[k] += added - below;
        sums->rest[k] += (double)(power[k] * below);
        to[k] = logarithm ? shifted[k] : power[k];
    }
}

/* What shifted elements are divided by, as a factor, or less by. */
INLINE st_real of_sum(double rest, st_real maxima, bool logarithm)
{
    const double sum = rest + ((double)maxima - 1);
    return (st_real)(logarithm ? wide_log_of_1_and(sum) : 1 / (1 + sum));
}

INLINE void by_sum(st_real *to, const st_real *shifted, const st_real *sum, bool logarithm)
{
    EACH_LANE(k) to[k] = logarithm ? shifted[k] - sum[k] : shifted[k] * sum[k];
}

INLINE void add_slopes(st_real *sum, const st_real *p, const st_real *g, int first, bool logarithm)
{
    EACH_LANE(k) sum[k] += k < first ? 0 : logarithm ? g[k] : p[k] * g[k];
}

INLINE void slopes(st_real *to, const st_real *p, const st_real *g, const st_real *sum, bool logarithm)
{
    EACH_LANE(k)
    to[k] = logarithm ? g[k] - fast_exp_within(not_below_least(p[k])) * sum[k] : p[k] * (g[k] - sum[k]);
}

/* ---- a row of at least one vector ---------------------------------------------------------------------- */

/* The last vector ends with the row. Its lanes that the vectors before it have, too, are not added. It is
 * read before y is written, which may be x, and written last. */
INLINE int lanes_before(ptrdiff_t n)
{
    return (int)(-n & (LANES - 1));
}

INLINE void forward_row(ptrdiff_t n, const st_real *x, st_real *y, bool logarithm)
{
    const ptrdiff_t last = n - LANES;
    shifted_sums sums = { { 0 }, { 0 } };
    st_real lane[LANES], other[LANES], end[LANES];
    ptrdiff_t i = 0;
    fill_lanes(lane, -(st_real)INFINITY), fill_lanes(other, -(st_real)INFINITY);
    for (; i + LANES < last; i += 2 * LANES) take_greatest(lane, x + i), take_greatest(other, x + i + LANES);
    if (i < last) take_greatest(lane, x + i);
    take_greatest(other, x + last), take_greatest(lane, other);
#define GREATER(k, other) lane[k] = lane[other] > lane[k] ? lane[other] : lane[k]
    FOLD(GREATER)
#undef GREATER
    fill_lanes(lane, lane[0]);
    shift(&sums, x + last, end, lanes_before(n), lane, logarithm);
    for (i = 0; i < last; i += LANES) shift(&sums, x + i, y + i, 0, lane, logarithm);
#define ADD(k, other) sums.rest[k] += sums.rest[other], sums.maxima[k] += sums.maxima[other]
    FOLD(ADD)
#undef ADD
    fill_lanes(lane, of_sum(sums.rest[0], sums.maxima[0], logarithm));
    for (i = 0; i < last; i += LANES) by_sum(y + i, y + i, lane, logarithm);
    by_sum(y + last, end, lane, logarithm);
}

INLINE void backward_row(ptrdiff_t n, const st_real *p, const st_real *g, st_real *out, bool logarithm)
{
    const ptrdiff_t last = n - LANES;
    st_real lane[LANES], other[LANES], end[LANES];
    ptrdiff_t i = 0;
    fill_lanes(lane, 0), fill_lanes(other, 0);
    for (; i + LANES < last; i += 2 * LANES) {
        add_slopes(lane, p + i, g + i, 0, logarithm);
        add_slopes(other, p + i + LANES, g + i + LANES, 0, logarithm);
    }
    if (i < last) add_slopes(lane, p + i, g + i, 0, logarithm);
    add_slopes(other, p + last, g + last, lanes_before(n), logarithm);
#define ADD(k, other) lane[k] += lane[other]
    EACH_LANE(k) lane[k] += other[k];
    FOLD(ADD)
#undef ADD
    fill_lanes(lane, lane[0]);
    slopes(end, p + last, g + last, lane, logarithm);
    for (i = 0; i < last; i += LANES) slopes(out + i, p + i, g + i, lane, logarithm);
    copy_lanes(out + last, end);
}

/* ---- columns, at least as many as a vector has lanes --------------------------------------------------- */

/* The last vector of a row of columns ends with the row, and is computed aside. */
INLINE void forward_columns(ptrdiff_t n, ptrdiff_t step, int width, const st_real *x, st_real *y,
                            bool logarithm)
{
    enum { VECTORS = MOST / LANES + 1 };
    st_real greatest[VECTORS][LANES], end[LANES];
    shifted_sums sums[VECTORS];
    const int vectors = (width - 1) / LANES, last = width - LANES;
    for (int v = 0; v <= vectors; v++)
        fill_lanes(greatest[v], -(st_real)INFINITY), sums[v] = (shifted_sums){ 0 };
    for (ptrdiff_t i = 0; i < n * step; i += step) {
        for (int v = 0; v < vectors; v++) take_greatest(greatest[v], x + i + v * LANES);
        take_greatest(greatest[vectors], x + i + last);
    }
    for (ptrdiff_t i = 0; i < n * step; i += step) {
        shift(&sums[vectors], x + i + last, end, 0, greatest[vectors], logarithm);
        for (int v = 0; v < vectors; v++)
            shift(&sums[v], x + i + v * LANES, y + i + v * LANES, 0, greatest[v], logarithm);
        copy_lanes(y + i + last, end);
    }
    for (int v = 0; v <= vectors; v++)
        EACH_LANE(k) greatest[v][k] = of_sum(sums[v].rest[k], sums[v].maxima[k], logarithm);
    for (ptrdiff_t i = 0; i < n * step; i += step) {
        by_sum(end, y + i + last, greatest[vectors], logarithm);
        for (int v = 0; v < vectors; v++)
            by_sum(y + i + v * LANES, y + i + v * LANES, greatest[v], logarithm);
        copy_lanes(y + i + last, end);
    }
}

INLINE void backward_columns(ptrdiff_t n, ptrdiff_t step, int width, const st_real *p, const st_real *g,
                             st_real *out, bool logarithm)
{
    enum { VECTORS = MOST / LANES + 1 };
    st_real sum[VECTORS][LANES], end[LANES];
    const int vectors = (width - 1) / LANES, last = width - LANES;
    for (int v = 0; v <= vectors; v++) fill_lanes(sum[v], 0);
    for (ptrdiff_t i = 0; i < n * step; i += step) {
        for (int v = 0; v < vectors; v++)
            add_slopes(sum[v], p + i + v * LANES, g + i + v * LANES, 0, logarithm);
        add_slopes(sum[vectors], p + i + last, g + i + last, 0, logarithm);
    }
    for (ptrdiff_t i = 0; i < n * step; i += step) {
        slopes(end, p + i + last, g + i + last, sum[vectors], logarithm);
        for (int v = 0; v < vectors; v++)
            slopes(out + i + v * LANES, p + i + v * LANES, g + i + v * LANES, sum[v], logarithm);
        copy_lanes(out + i + last, end);
    }
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* The plan's data: the definition's, and how lines are divided. A block has `step` adjacent lines. */
typedef struct line_plan {
    softmax_plan lines;
    int width;        /* columns side by side; of packed ones, or at most so many, of a block; 0: rows */
    ptrdiff_t packed; /* blocks that are packed at once; 0: none */
    ptrdiff_t parts;  /* of a block */
    ptrdiff_t each;   /* of blocks or parts that are a piece of work */
    parallel_work *work;
} line_plan;

/* x, or y and dy, to y or dx, of `blocks` blocks. */
typedef struct softmax_pass {
    const st_call *c;
    const st_real *x, *dy;
    st_real *to;
    ptrdiff_t blocks;
} softmax_pass;

/* Copies `count` blocks to columns, `width` apart, or back. Columns after those of the blocks become 0. */
static void pack(const st_call *c, ptrdiff_t count, int width, const st_real *from, st_real *to, bool back)
{
    const line_plan *p = c->plan;
    const ptrdiff_t n = p->lines.length, step = p->lines.step, block = n * step;
    const kernel *k = kernel_of(c->layer);
    if (!back && count * step < width) memset(to, 0, sizeof *to * (size_t)(n * width));
    if (step == 1 && back) kernel_transpose(k, n, count, from, width, to, n, NULL);
    else if (step == 1) kernel_transpose(k, count, n, from, n, to, width, NULL);
    else
        for (ptrdiff_t b = 0; b < count; b++)
            if (back) k->move(n, step, from + b * step, width, to + b * block, step);
            else k->move(n, step, from + b * block, step, to + b * step, width);
}

/* Runs what begins with unit i, a block or part i of all blocks: so many units. */
INLINE ptrdiff_t run_unit(const st_call *c, const softmax_pass *pass, ptrdiff_t i, bool logarithm)
{
    const line_plan *p = c->plan;
    const ptrdiff_t n = p->lines.length, all = n * p->lines.step, first = i % p->parts * p->width,
                    at = i / p->parts * all + first, count = smallest(p->packed, pass->blocks - i);
    ptrdiff_t step = p->lines.step;
    int width = (int)(i % p->parts == p->parts - 1 ? step - first : p->width);
    const st_real *x = pass->x + at, *dy = pass->dy ? pass->dy + at : NULL;
    st_real *to = pass->to + at, *room = to;
    const bool packed = p->packed && (!dy || (step == 1 ? n : step) < LANES);
    if (step == 1 && !packed) {
        if (dy) backward_row(n, x, dy, to, logarithm);
        else forward_row(n, x, to, logarithm);
        return 1;
    }
    if (packed) {
        step = width = (int)largest(count * step, LANES);
        room = st_data(st_scratch(c, 0));
        pack(c, count, width, x, room, false);
        if (dy) pack(c, count, width, dy, room + n * width, false);
        x = room, dy = dy ? room + n * width : NULL;
    }
    if (dy) backward_columns(n, step, width, x, dy, room, logarithm);
    else forward_columns(n, step, width, x, room, logarithm);
    if (packed) pack(c, count, width, room, to, true);
    return packed ? count : 1;
}

/* Piece i of the work. */
INLINE void run_piece(const softmax_pass *pass, ptrdiff_t i, int thread, bool logarithm)
{
    const line_plan *p = pass->c->plan;
    st_call c = *pass->c;
    c.thread = thread;
    const ptrdiff_t end = smallest((i + 1) * p->each, pass->blocks * p->parts);
    for (i *= p->each; i < end; i += run_unit(&c, pass, i, logarithm)) {
    }
}

/* ---- the algorithms ------------------------------------------------------------------------------------ */

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

static int plan(st_layer *l, const void *given, parallel_work *work)
{
    line_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = (line_plan){ .lines = *(const softmax_plan *)given, .parts = 1, .work = work };
    const ptrdiff_t n = p->lines.length, step = p->lines.step;
    const ptrdiff_t vectors = ceil_div(step, LANES) * LANES, cached = CACHED / n / LANES * LANES;
    if (step == 1 ? n < SHORT : step < LANES || step < vectors * USED / LANES) {
        p->width = (int)smallest(largest(cached, vectors), PACKED);
        p->packed = p->width / step;
        p->each = largest(NEAR / (n * p->width), 1) * p->packed;
        return st_layer_scratch(l, ST_SHAPE(2 * n * p->width));
    }
    if (step > 1) {
        p->width = (int)smallest(largest(cached, LEAST), MOST);
        p->parts = (step - LANES) / p->width + 1;
    }
    p->each = largest(NEAR / (n * (step > 1 ? p->width : 1)), 1);
    return 0;
}

/* x, or y and dy, to y or dx. */
static void run(const st_call *c, st_tensor x, st_tensor dy, st_tensor to)
{
    const line_plan *p = c->plan;
    softmax_pass pass = { c, st_data(x), st_data(dy), st_data(to),
                          c->images * p->lines.lines / p->lines.step };
    layer_each(c, MOST_THREADS, ceil_div(pass.blocks * p->parts, p->each), p->work, &pass);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    if (!st_is_contiguous(x)) st_copy(y, x), x = y;
    run(c, x, (st_tensor){ 0 }, y);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x;
    run(c, y, dy, dx);
}

#define SOFTMAX_BY(M, NAME)                                                                                  \
    M##_TARGET static void M##_##NAME(ptrdiff_t i, int thread, void *pass)                                   \
    {                                                                                                        \
        run_piece(pass, i, thread, NAME##_LOGARITHM);                                                        \
    }
#define NAMES(M, NAME) M##_##NAME,

#define SOFTMAX(NAME)                                                                                        \
    EACH_MACHINE_OF(SOFTMAX_BY, NAME)                                                                        \
    static parallel_work *const NAME##_of_machine[] = { EACH_MACHINE_OF(NAMES, NAME) };                      \
    static int plan_##NAME(st_layer *l, const void *given)                                                   \
    {                                                                                                        \
        return plan(l, given, NAME##_of_machine[l->impl->machine]);                                          \
    }                                                                                                        \
    const layer_algorithm NAME##_vectors = { .type = &layer_type_##NAME,                                     \
                                             .suits = suits,                                                 \
                                             .plan = plan_##NAME,                                            \
                                             .hooks = { forward, backward, .divides = true } };

enum { softmax_LOGARITHM = false, log_softmax_LOGARITHM = true };
SOFTMAX(softmax)
SOFTMAX(log_softmax)
