/* windows_channels.c: what the channels of a call share, one channel after the other, and the gradients of
 * their parameters (windows.h). */
#include "layers/fast/functions.h"
#include "layers/fast/windows_impl.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

/* ---- for each instruction set -------------------------------------------------------------------------- */

#ifdef STRIDE_DOUBLE
#define NOT_FINITE 0x7ff0000000000000
#else
#define NOT_FINITE 0x7f800000
#endif

/* The bits of what is not finite are greater than those of any number without its sign. */
INLINE bool all_finite(ptrdiff_t n, const st_real *x)
{
    isa_bits most = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        real_bits bits;
        memcpy(&bits, x + i, sizeof bits);
        const isa_bits size = (isa_bits)(bits << 1 >> 1);
        most = size > most ? size : most;
    }
    return most < NOT_FINITE;
}

/* The least and the greatest x; returns if all are finite. n is a multiple of POOL_LANES. */
#define RANGE_OF(M)                                                                                          \
    M##_TARGET static bool M##_range_of(ptrdiff_t n, const st_real *x, st_real *least, st_real *most)        \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_vector low[2], high[2], zero[2] = { { 0 } };                                                     \
        EACH(k, 2) low[k] = high[k] = AT(M, x + k * LANES);                                                  \
        for (ptrdiff_t i = 0; i < n; i += 2 * LANES) EACH(k, 2)                                              \
            {                                                                                                \
                const M##_vector v = AT(M, x + i + k * LANES);                                               \
                low[k] = BY(M, min, v, low[k]), high[k] = BY(M, max, v, high[k]);                            \
                zero[k] += v * 0; /* NaN of what is not finite */                                            \
            }                                                                                                \
        low[0] = BY(M, min, low[0], low[1]), high[0] = BY(M, max, high[0], high[1]);                         \
        const M##_mask other = zero[0] + zero[1] != 0;                                                       \
        st_real small[2] = { low[0][0], low[0][1] }, great[2] = { high[0][0], high[0][1] };                  \
        isa_bits any = other[0] | other[1];                                                                  \
        EACH(l, LANES)                                                                                       \
        {                                                                                                    \
            small[l % 2] = low[0][l] < small[l % 2] ? low[0][l] : small[l % 2];                              \
            great[l % 2] = high[0][l] > great[l % 2] ? high[0][l] : great[l % 2];                            \
            any |= other[l];                                                                                 \
        }                                                                                                    \
        *least = small[0] < small[1] ? small[0] : small[1];                                                  \
        *most = great[0] > great[1] ? great[0] : great[1];                                                   \
        return any == 0;                                                                                     \
    }
EACH_ISA(RANGE_OF)

/* Adds total[i] to the sums to[i]. */
INLINE void add_totals(ptrdiff_t n, lanes *total, double_lanes *to)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double *restrict sum = to[i];
        const st_real *part = total[i];
        _Pragma("GCC unroll 1") for (int l = 0; l < SUM_LANES; l++) sum[l] +=
            ((double)part[l] + (double)part[l + SUM_LANES]) +
            ((double)part[l + 2 * SUM_LANES] + (double)part[l + 3 * SUM_LANES]);
    }
}

#define STAMP(M)                                                                                             \
    M##_TARGET static void M##_add_totals(ptrdiff_t n, lanes *total, double_lanes *to)                       \
    {                                                                                                        \
        add_totals(n, total, to);                                                                            \
    }                                                                                                        \
    M##_TARGET static bool M##_all_finite(ptrdiff_t n, const st_real *x)                                     \
    {                                                                                                        \
        return all_finite(n, x);                                                                             \
    }

#define ROW_OF_TABLE(M) { M##_range_of, M##_all_finite, M##_add_totals },

EACH_ISA(STAMP)
static const struct {
    bool (*range_of)(ptrdiff_t n, const st_real *x, st_real *least, st_real *most);
    bool (*all_finite)(ptrdiff_t n, const st_real *x);
    void (*add_totals)(ptrdiff_t n, lanes *total, double_lanes *to);
} isas[] = { EACH_ISA(ROW_OF_TABLE) };

/* ---- a call, and a channel ----------------------------------------------------------------------------- */

static windows_space room_of(const st_call *c, bool draws)
{
    const windows_plan *p = c->plan;
    windows_space r = { 0 };
    windows_room(p, st_data(st_scratch(c, p->scratch + WINDOWS_ARENA)), &r);
    if (p->lanes && p->lanes->prepare) {
        p->lanes->prepare(c->options, draws, p->taps, r.counted, r.weight);
        for (ptrdiff_t i = 0; i < whole(p->windows); i++) r.first[i] = r.counted[(ptrdiff_t)p->inside[i]];
    }
    /* Lanes without a window read also what no channel writes. */
    if (p->lanes) memset(r.phases, 0, (size_t)(p->phases + POOL_LANES) * sizeof *r.phases);
    if (p->lanes) memset(r.sums_of, 0, (size_t)p->taps * sizeof *r.sums_of);
    if (p->lanes) memset(r.totals, 0, (size_t)p->taps * sizeof *r.totals);
    if (p->lanes && !p->apart) memset(r.adjoints, 0, (size_t)(p->taps * p->run) * sizeof *r.adjoints);
    for (int j = 0; p->sums && j < p->sums->sums; j++)
        for (ptrdiff_t i = 1; i <= p->axis[1].reach; i++) r.q[j][-i] = 0;
    return r;
}

static st_real *data_of(st_tensor x)
{
    return st_is_null(x) ? NULL : st_data(x);
}

static st_real *end_of(st_tensor x)
{
    return st_is_null(x) ? NULL : st_data(x) + st_numel(x);
}

windows_batch windows_batch_of(const st_call *c, bool gradient, st_tensor x, st_tensor y, st_tensor dy,
                               st_tensor dx)
{
    const windows_plan *p = c->plan;
    windows_batch b = { .plan = p, .call = c, .isa = c->layer->impl->isa, .draws = p->draws && c->training };
    if (b.draws || !p->draws) b.squares = p->squares;
    b.places = b.draws && !b.squares;
    b.x = x, b.y = y, b.dy = dy, b.dx = dx;
    b.contiguous = st_is_contiguous(x);
    b.channels = x.shape.n[1], b.area = x.shape.n[2] * x.shape.n[3],
    b.count = p->axis[0].out * p->axis[1].out;
    b.has_logits = p->logits != NULL;
    if (b.has_logits) {
        b.logits = st_data(st_scratch(c, p->scratch + WINDOWS_LOGITS));
        b.dlogits = st_data(st_scratch(c, p->scratch + WINDOWS_DLOGITS));
    }
    b.first = b.has_logits ? (st_window){ .options = c->options } : pool_channel(c, 0, 0);
    b.at = b.first;
    if (c->layer->params > 0 && !b.has_logits) b.elements = st_numel(c->param[0]) / c->param[0].shape.n[0];
    b.per_channel = b.elements > 0 && c->param[0].shape.n[0] > 1;
    if (gradient && !b.has_logits) b.grad = st_data(st_grad(c, 0));
    if (b.places) b.place = st_data(st_memory(c, 0));
    b.each = windows_kept(p);
    if (b.each > 0) b.kept = st_data(st_memory(c, 0));
    b.x_at = data_of(x), b.y_at = data_of(y), b.dy_at = data_of(dy), b.dx_at = data_of(dx);
    b.x_end = end_of(x), b.y_end = end_of(y), b.dy_end = end_of(dy), b.dx_end = end_of(dx);
    b.room = room_of(c, b.draws);
    return b;
}

/* The n elements at x, so many that they are whole vectors: the last one stands behind them. */
static const st_real *whole_vectors(ptrdiff_t n, const st_real *x, st_real *copy)
{
    if (n == whole(n)) return x;
    memcpy(copy, x, (size_t)n * sizeof *x);
    for (ptrdiff_t i = n; i < whole(n); i++) copy[i] = x[n - 1];
    return copy;
}

/* range_of of the n elements at x. */
static bool range_of_any(int isa, ptrdiff_t n, const st_real *x, st_real *least, st_real *most)
{
    lanes rest;
    st_real low, high;
    const ptrdiff_t vectors = n / POOL_LANES * POOL_LANES;
    bool finite = vectors == 0 || isas[isa].range_of(vectors, x, least, most);
    if (vectors == n || !finite) return finite;
    EACH_WINDOW(k) rest[k] = x[smallest(vectors + k, n - 1)];
    finite = isas[isa].range_of(POOL_LANES, rest, &low, &high);
    if (vectors == 0 || low < *least) *least = low;
    if (vectors == 0 || high > *most) *most = high;
    return finite;
}

/* Channel `number` of the call, which becomes the current one; each member of *a is set. */
void windows_find_channel(windows_batch *b, ptrdiff_t number, windows_channel *a)
{
    const st_call *c = b->call;
    const ptrdiff_t k = number % b->channels;
    a->x_end = b->x_end, a->place = NULL, a->dy = NULL, a->dx = a->kept = a->dlogits = NULL, a->logits = NULL;
    a->least = a->most = 0;
    if (b->contiguous) a->x = b->x_at + number * b->area;
    else {
        const st_tensor image = st_select(b->x, 0, number / b->channels),
                        copy = st_reshape(st_scratch(c, b->plan->scratch + WINDOWS_IMAGE), image.shape);
        if (k == 0) st_copy(copy, image);
        a->x = st_data(copy) + k * b->area, a->x_end = end_of(copy);
    }
    a->y = b->y_at + number * b->count;
    if (b->dy_at) a->dy = b->dy_at + number * b->count;
    if (b->dx_at) a->dx = b->dx_at + number * b->area;
    if (b->places) a->place = b->place + number * b->count;
    b->more = b->contiguous && number + 1 < b->x.shape.n[0] * b->channels;
    b->at.channel = k, b->at.number = b->first.number + (uint64_t)number;
    if (b->per_channel) b->at.param[0] = b->first.param[0] + k * b->elements;
    for (ptrdiff_t i = 0; i < b->elements; i++) b->at.dparam[0][i] = 0;
    if (b->plan->sums && b->plan->sums->order && (number == 0 || b->per_channel))
        b->order = (st_real)b->plan->sums->order(&b->at);
    if (b->squares && b->squares->order && (number == 0 || b->per_channel))
        b->squares->order(&b->at, b->orders);
    if (b->has_logits) a->logits = b->logits + k * b->area, a->dlogits = b->dlogits + k * b->area;
    const sums_form *form = b->plan->sums;
    const bool back = b->dy_at != NULL, reads = !back || (b->squares ? b->squares->reads
                                                          : form     ? b->has_logits || !form->keeps_elements
                                                                     : windows_adjoints_read(b->plan));
    if (b->kept) a->kept = b->kept + number * b->each;
    if (form && reads) a->x = whole_vectors(b->area, a->x, b->room.x);
    if (b->kept && back) {
        a->finite = !isnan(a->kept[b->each - 1]);
        return;
    }
    if (b->squares) {
        a->finite = true; /* until its values are not */
        return;
    }
    if (b->has_logits) a->logits = whole_vectors(b->area, a->logits, b->room.logits);
    if (form && !b->has_logits) a->finite = range_of_any(b->isa, b->area, a->x, &a->least, &a->most);
    else a->finite = isas[b->isa].all_finite(b->area, a->x);
    if (b->has_logits && a->finite) a->finite = range_of_any(b->isa, b->area, a->logits, &a->least, &a->most);
}

/* Adds the totals of vectors of windows to the sums. */
void windows_add_totals(windows_batch *b)
{
    isas[b->isa].add_totals(b->elements, b->room.totals, b->room.sums_of);
    memset(b->room.totals, 0, (size_t)b->elements * sizeof *b->room.totals);
    b->totalled = 0;
}

/* The sums of vectors of a channel's windows, or of all channels'. */
static void end_sums(windows_batch *b)
{
    windows_add_totals(b);
    for (ptrdiff_t i = 0; i < b->elements; i++) {
        double *part = b->room.sums_of[i];
        b->at.dparam[0][i] =
            ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
        for (int l = 0; l < SUM_LANES; l++) part[l] = 0;
    }
}

void windows_add_gradient(windows_batch *b)
{
    if (b->plan->lanes) end_sums(b);
    st_real *grad = b->grad + (b->per_channel ? b->at.channel * b->elements : 0);
    for (ptrdiff_t i = 0; i < b->elements; i++) grad[i] += (st_real)b->at.dparam[0][i];
}
