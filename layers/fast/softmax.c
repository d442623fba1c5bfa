/* softmax.c: softmax and its logarithm by vectors, for each instruction set. Sums are in a fixed order, so
 * that all instruction sets that have fused multiply-adds give the same bits.
 *
 * Lines are rows, whose elements are adjacent, or adjacent columns, which are computed side by side. Short
 * rows, and few columns, are packed: copied, those of several blocks side by side, to columns. Few columns of
 * many elements are joined: their block is read as one row. */
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

/* Columns that are packed otherwise are joined instead, if a block has so many times their lanes: in shorter
 * blocks it takes longer to add the lanes of each column. */
enum { LONG = 8, LONG_BACK = 2 };

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

/* Returns the factor that shifted elements are multiplied by, or the logarithm that they are less by. */
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

/* ---- joined columns ------------------------------------------------------------------------------------ */

/* A block of `step` columns as one row of adjacent elements: element i is of column i % step, and is added to
 * lane i % width, where `width` is the least multiple of both `step` and LANES. The last vector ends with the
 * block, is read before y is written, and written last; its lanes go on after the others. */
enum { JOINED = 51, JOINED_VECTORS = JOINED + 1 }; /* columns at most, and vectors of their lanes */

typedef struct joined_columns {
    ptrdiff_t step, width, lanes; /* `lanes` includes those of the last vector */
    ptrdiff_t last, last_lane;    /* its first element, and the lane whose column that is of */
    int before;                   /* its elements that the vectors before it have, too */
} joined_columns;

static ptrdiff_t joined_width(ptrdiff_t step)
{
    ptrdiff_t width = step;
    while (width % LANES) width += width;
    return width;
}

INLINE joined_columns join(ptrdiff_t n, ptrdiff_t step)
{
    joined_columns j = { .step = step, .width = joined_width(step) };
    j.last = n * step - LANES, j.before = lanes_before(n * step);
    j.lanes = j.width + LANES, j.last_lane = j.last % j.width;
    return j;
}

/* Copies the lanes of the first `step` elements to those after them. */
INLINE void repeat_lanes(const joined_columns *j, st_real *lane)
{
    for (ptrdiff_t i = j->step; i < j->lanes; i++) lane[i] = lane[i - j->step];
}

#define EACH_VECTOR(j, i, v)                                                                                 \
    for (ptrdiff_t i = 0, v = 0; i < (j)->last; i += LANES, v = v + LANES == (j)->width ? 0 : v + LANES)

INLINE void forward_joined(ptrdiff_t n, ptrdiff_t step, const st_real *x, st_real *y, bool logarithm)
{
    const joined_columns all = join(n, step), *j = &all;
    st_real greatest[JOINED_VECTORS * LANES], end[LANES];
    shifted_sums sums[JOINED_VECTORS];
    double rest[JOINED] = { 0 };
    st_real maxima[JOINED] = { 0 };
    for (ptrdiff_t v = 0; v < j->lanes; v += LANES)
        fill_lanes(greatest + v, -(st_real)INFINITY), sums[v / LANES] = (shifted_sums){ 0 };
    EACH_VECTOR(j, i, v) take_greatest(greatest + v, x + i);
    take_greatest(greatest + j->last_lane, x + j->last);
    for (ptrdiff_t i = step; i < j->lanes; i += step)
        for (ptrdiff_t k = 0; k < smallest(step, j->lanes - i); k++)
            greatest[k] = greatest[i + k] > greatest[k] ? greatest[i + k] : greatest[k];
    repeat_lanes(j, greatest);
    shift(&sums[j->width / LANES], x + j->last, end, j->before, greatest + j->last_lane, logarithm);
    EACH_VECTOR(j, i, v) shift(&sums[v / LANES], x + i, y + i, 0, greatest + v, logarithm);
    for (ptrdiff_t i = 0, k = 0; i < j->lanes; i++, k = k + 1 == step ? 0 : k + 1) {
        if (i == j->width) k = j->last_lane % step;
        rest[k] += sums[i / LANES].rest[i % LANES], maxima[k] += sums[i / LANES].maxima[i % LANES];
    }
    for (ptrdiff_t k = 0; k < step; k++) greatest[k] = of_sum(rest[k], maxima[k], logarithm);
    repeat_lanes(j, greatest);
    EACH_VECTOR(j, i, v) by_sum(y + i, y + i, greatest + v, logarithm);
    by_sum(y + j->last, end, greatest + j->last_lane, logarithm);
}

INLINE void backward_joined(ptrdiff_t n, ptrdiff_t step, const st_real *p, const st_real *g, st_real *out,
                            bool logarithm)
{
    const joined_columns all = join(n, step), *j = &all;
    st_real sum[JOINED_VECTORS * LANES], end[LANES];
    for (ptrdiff_t v = 0; v < j->lanes; v += LANES) fill_lanes(sum + v, 0);
    EACH_VECTOR(j, i, v) add_slopes(sum + v, p + i, g + i, 0, logarithm);
    add_slopes(sum + j->last_lane, p + j->last, g + j->last, j->before, logarithm);
    for (ptrdiff_t i = step; i < j->lanes; i += step)
        for (ptrdiff_t k = 0; k < smallest(step, j->lanes - i); k++) sum[k] += sum[i + k];
    repeat_lanes(j, sum);
    slopes(end, p + j->last, g + j->last, sum + j->last_lane, logarithm);
    EACH_VECTOR(j, i, v) slopes(out + i, p + i, g + i, sum + v, logarithm);
    copy_lanes(out + j->last, end);
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* The plan's data: the definition's, and how lines are divided. A block has `step` adjacent lines. */
typedef struct line_plan {
    softmax_plan lines;
    int width;        /* columns side by side; of packed ones, or at most so many, of a block; 0: rows */
    ptrdiff_t packed; /* blocks that are packed at once; 0: none */
    bool joined[2];   /* forward and backward: columns of a block are one row */
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
    if (p->joined[dy != NULL]) {
        if (dy) backward_joined(n, step, x, dy, to, logarithm);
        else forward_joined(n, step, x, to, logarithm);
        return 1;
    }
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
    const bool few = step > 1 && (step < LANES || step < vectors * USED / LANES);
    if (few) {
        const ptrdiff_t lanes = joined_width(step) + LANES;
        p->joined[0] = n * step >= LONG * lanes, p->joined[1] = n * step >= LONG_BACK * lanes;
    }
    if (step == 1 ? n < SHORT : few && !p->joined[0]) {
        p->width = (int)smallest(largest(cached, vectors), PACKED);
        p->packed = p->width / step;
        p->each = largest(NEAR / (n * p->width), 1) * p->packed;
        return st_layer_scratch(l, ST_SHAPE(2 * n * p->width));
    }
    if (step > 1 && !p->joined[0]) {
        p->width = (int)smallest(largest(cached, LEAST), MOST);
        p->parts = (step - LANES) / p->width + 1;
    }
    p->each = largest(NEAR / (n * (p->joined[0] ? step : step > 1 ? p->width : 1)), 1);
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
    EACH_ISA_OF(SOFTMAX_BY, NAME)                                                                            \
    static parallel_work *const NAME##_of_isa[] = { EACH_ISA_OF(NAMES, NAME) };                              \
    static int plan_##NAME(st_layer *l, const void *given)                                                   \
    {                                                                                                        \
        return plan(l, given, NAME##_of_isa[l->impl->isa]);                                                  \
    }                                                                                                        \
    const layer_algorithm NAME##_vectors = { .type = &layer_type_##NAME,                                     \
                                             .suits = suits,                                                 \
                                             .plan = plan_##NAME,                                            \
                                             .hooks = { forward, backward, .divides = true } };

enum { softmax_LOGARITHM = false, log_softmax_LOGARITHM = true };
SOFTMAX(softmax)
SOFTMAX(log_softmax)
