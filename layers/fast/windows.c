/* windows.c: values and adjoints of poolings of a regular grid by vectors (windows.h). */
#include "layers/fast/functions.h"
#include "layers/fast/kernel.h"
#include "layers/fast/windows_impl.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

enum { SQUARES = 1 << 10 };

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

INLINE void numbers_of_words(ptrdiff_t n, const uint32_t *word, st_real *to)
{
    for (ptrdiff_t i = 0; i < n; i += RUN)
        _Pragma("GCC unroll 1") for (int k = 0; k < RUN; k++) to[i + k] = number_of_word(word[i + k]);
}

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
    }                                                                                                        \
    M##_TARGET static void M##_numbers_of_words(ptrdiff_t n, const uint32_t *word, st_real *to)              \
    {                                                                                                        \
        numbers_of_words(n, word, to);                                                                       \
    }

#define ROW_OF_TABLE(M) { M##_range_of, M##_all_finite, M##_numbers_of_words, M##_add_totals },

EACH_ISA(STAMP)
static const struct {
    bool (*range_of)(ptrdiff_t n, const st_real *x, st_real *least, st_real *most);
    bool (*all_finite)(ptrdiff_t n, const st_real *x);
    void (*numbers_of_words)(ptrdiff_t n, const uint32_t *word, st_real *to);
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

/* A call, as its channels share it. */
typedef struct batch {
    const windows_plan *plan;
    const st_call *call;
    int isa;
    bool draws;  /* elements are drawn */
    bool places; /* and their places are kept */
    const squares_form *squares;
    uint64_t made, blocks; /* blocks of random words that are made: the first one, and how many */
    st_tensor x, y, dy, dx;
    bool contiguous;                 /* x is */
    bool has_logits;                 /* the pooling has some */
    ptrdiff_t channels, area, count; /* elements and windows of a channel */
    ptrdiff_t each;                  /* what is kept of a channel */
    st_window first, at;             /* of channel 0, and of the current one */
    ptrdiff_t elements;              /* of a channel's parameter, which is the only one; 0: there is none */
    bool per_channel;                /* each channel has its own */
    ptrdiff_t totalled;              /* windows of squares whose totals are not added yet */
    st_real order;                   /* of sums: a function of the parameter */
    st_real orders[2];               /* of squares */
    st_real *grad;                   /* NULL: it is not wanted */
    st_real *logits, *dlogits;       /* of an image, and their gradients */
    st_real *place, *kept, *x_at, *y_at, *dy_at, *dx_at, *x_end, *y_end, *dy_end, *dx_end;
    windows_space room;
} batch;

static st_real *data_of(st_tensor x)
{
    return st_is_null(x) ? NULL : st_data(x);
}

static st_real *end_of(st_tensor x)
{
    return st_is_null(x) ? NULL : st_data(x) + st_numel(x);
}

static batch batch_of(const st_call *c, bool gradient, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const windows_plan *p = c->plan;
    batch b = { .plan = p, .call = c, .isa = c->layer->impl->isa, .draws = p->draws && c->training };
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

/* A channel: x's elements one after the other, up to the end of those that may be read. */
typedef struct channel {
    const st_real *x, *x_end, *logits;
    st_real *y, *dx, *place, *dlogits, *kept;
    const st_real *dy;
    st_real least, most; /* in the forward pass: of x, or of the logits */
    bool finite;
} channel;

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

/* Tests if adjoints by lanes read x. */
static bool adjoints_read(const windows_plan *p)
{
    return p->runs == 0 || p->lanes->reads;
}

/* Channel `number` of the call, which becomes the current one; each member of *a is set. */
static void find_channel(batch *b, ptrdiff_t number, channel *a)
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
                                                                     : adjoints_read(b->plan));
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
static void add_totals_of(batch *b)
{
    isas[b->isa].add_totals(b->elements, b->room.totals, b->room.sums_of);
    memset(b->room.totals, 0, (size_t)b->elements * sizeof *b->room.totals);
    b->totalled = 0;
}

/* The sums of vectors of a channel's windows, or of all channels'. */
static void end_sums(batch *b)
{
    add_totals_of(b);
    for (ptrdiff_t i = 0; i < b->elements; i++) {
        double *part = b->room.sums_of[i];
        b->at.dparam[0][i] =
            ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
        for (int l = 0; l < SUM_LANES; l++) part[l] = 0;
    }
}

static void add_gradient(batch *b)
{
    if (b->plan->lanes) end_sums(b);
    st_real *grad = b->grad + (b->per_channel ? b->at.channel * b->elements : 0);
    for (ptrdiff_t i = 0; i < b->elements; i++) grad[i] += (st_real)b->at.dparam[0][i];
}

/* ---- lanes --------------------------------------------------------------------------------------------- */

/* Sets each member that is used. */
static void set_lanes(lanes_call *c, const batch *b, const channel *a, ptrdiff_t first)
{
    const windows_plan *p = b->plan;
    const windows_space *r = &b->room;
    const ptrdiff_t grid = windows_grid(p);
    c->at = &b->at, c->taps = p->taps, c->offset = p->offset, c->to = p->to;
    c->x = r->phases + first, c->inside = p->inside + first, c->over = p->over + first, c->full = p->full;
    c->uniform = b->draws ? r->uniform + first : NULL;
    c->places = p->places + first, c->place = r->place + first;
    c->y = r->y + first, c->dy = r->dy + first,
    c->dx = p->apart ? r->dphases + first : r->adjoints + windows_margin(p);
    st_real *kept = a->kept ? a->kept : r->y; /* which is not used then */
    for (int j = 0; j < MOST_RUNS; j++) c->kept[j] = kept + j * grid + first;
    c->keeps = p->runs > 0 && !b->call->layer->impl->run->inference_only;
    c->sums = r->totals, c->room = r->sorted, c->first = r->first + first, c->weight = r->weight;
}

static void cut(const batch *b, const channel *a)
{
    phase_isas[b->isa].to_phases(b->plan, a->x, a->x_end, b->plan->pool.zeros ? 0 : -(st_real)INFINITY,
                                 b->room.phases);
}

/* The random numbers of a channel's windows. */
static void draw(batch *b)
{
    const windows_plan *p = b->plan;
    const windows_space *r = &b->room;
    const ptrdiff_t out = p->axis[1].out, pitch = p->pitch;
    const uint64_t first = b->at.number * (uint64_t)b->count, block = first / WINDOWS_OF_BLOCK,
                   end = (first + (uint64_t)b->count + WINDOWS_OF_BLOCK - 1) / WINDOWS_OF_BLOCK;
    if (block < b->made || end > b->made + b->blocks)
        st_random_words(b->at.key, b->made = block, r->word, b->blocks = windows_blocks(p));
    const uint32_t *word = r->word + (first - b->made * WINDOWS_OF_BLOCK);
    const bool dense = pitch == out;
    const ptrdiff_t rows = dense ? 1 : p->axis[0].out, n = dense ? b->count : out, grid = windows_grid(p);
    for (ptrdiff_t row = 0; row < rows; row++) {
        isas[b->isa].numbers_of_words(n, word + row * out, r->uniform + row * pitch);
        for (ptrdiff_t i = out; i < pitch; i++) r->uniform[row * pitch + i] = 0;
    }
    for (ptrdiff_t i = p->windows; i < grid; i++) r->uniform[i] = (st_real)0.5; /* 0 would be unsure */
}

/* Rows of windows from `first` on. */
static squares_call squares_of(const batch *b, const channel *a, ptrdiff_t first, ptrdiff_t rows)
{
    const windows_plan *p = b->plan;
    const windows_space *r = &b->room;
    const ptrdiff_t wide = p->axis[1].size, out = p->axis[1].out;
    squares_call c = { .at = &b->at, .rows = rows, .columns = out, .wide = wide };
    c.x = a->x + 2 * first * wide, c.x_end = a->x_end;
    c.y = a->y + first * out, c.y_end = b->y_end;
    if (a->dy) c.dy = a->dy + first * out, c.dy_end = b->dy_end;
    if (a->dx) c.dx = a->dx + 2 * first * wide, c.dx_end = b->dx_end;
    if (a->kept) c.kept = a->kept + first * out, c.run = windows_grid(p);
    if (a->logits) {
        const ptrdiff_t all = b->channels * b->area;
        c.logits = a->logits + 2 * first * wide, c.logits_end = b->logits + all;
        c.dlogits = a->dlogits + 2 * first * wide, c.dlogits_end = b->dlogits + all;
    }
    c.uniform = r->uniform + first * out;
    c.sums = r->totals, c.first = r->counted, c.weight = r->weight,
    c.order = b->squares->order ? b->orders : NULL;
    return c;
}

/* False: the definition is to compute the channel. */
static bool squares_values(batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    if (b->draws) draw(b);
    squares_call call = squares_of(b, a, 0, p->axis[0].out);
    if (b->call->layer->impl->run->inference_only) call.kept = NULL;
    const bool finite = b->squares->functions[b->isa].values(&call);
    if (a->kept) a->kept[b->each - 1] = finite ? 0 : (st_real)NAN;
    return finite;
}

static void squares_adjoints(batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const ptrdiff_t out = p->axis[0].out, some = largest(SQUARES / p->axis[1].out, 1),
                    used = 2 * out * p->axis[1].size;
    for (ptrdiff_t first = 0; first < out; first += some) {
        const squares_call call = squares_of(b, a, first, smallest(some, out - first));
        if (b->totalled + call.rows * call.columns > SQUARES) add_totals_of(b);
        b->squares->functions[b->isa].adjoints(&call);
        b->totalled += call.rows * call.columns;
    }
    if (a->dx) memset(a->dx + used, 0, (size_t)(b->area - used) * sizeof *a->dx);
    if (a->dlogits) memset(a->dlogits + used, 0, (size_t)(b->area - used) * sizeof *a->dlogits);
}

static void lanes_values(batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    cut(b, a);
    if (b->draws) draw(b);
    lanes_call call;
    set_lanes(&call, b, a, 0);
    p->lanes->values[b->isa](&call, whole(p->windows));
    phase_isas[b->isa].from_grid(p, b->room.y, 0, a->y, b->y_end);
    if (a->kept) a->kept[b->each - 1] = 0;
    if (b->places) phase_isas[b->isa].from_grid(p, b->room.place, -1, a->place, a->place + b->count);
}

static void lanes_adjoints(batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const windows_space *r = &b->room;
    const bool at_once = p->step >= p->windows && !p->far, pairs = in_pairs(p), sums = pairs && at_once;
    if (adjoints_read(p)) cut(b, a);
    phase_isas[b->isa].to_grid(p, a->dy, b->dy_end, r->dy);
    if (a->dx && !p->apart && !at_once) memset(r->dphases, 0, (size_t)p->phases * sizeof *r->dphases);
    for (ptrdiff_t first = 0; first < p->windows; first += p->step) {
        const ptrdiff_t count = smallest(p->step, p->windows - first), n = whole(count);
        lanes_call call;
        set_lanes(&call, b, a, first);
        p->lanes->adjoints[b->isa](&call, n);
        add_totals_of(b);
        if (!a->dx || p->apart || sums) continue;
        for (ptrdiff_t i = 0; i < p->taps && n < p->step && !p->far; i++) /* of the block before */
            memset(r->adjoints + windows_margin(p) + p->to[i] + n, 0,
                   (size_t)whole(p->reach) * sizeof *r->adjoints);
        add_isas[b->isa].add_taps(p, p->far ? n : whole(count + p->reach), r->adjoints + windows_margin(p),
                                  at_once, r->dphases + first);
    }
    if (!a->dx) return;
    if (sums && !p->apart)
        phase_isas[b->isa].join_pairs(p, r->adjoints + windows_margin(p), p->from, p->members, a->dx,
                                      b->dx_end);
    else if (pairs) phase_isas[b->isa].join_pairs(p, r->dphases, NULL, NULL, a->dx, b->dx_end);
    else phase_isas[b->isa].from_phases(p, r->dphases, a->dx, b->dx_end);
}

/* ---- sums ---------------------------------------------------------------------------------------------- */

/* Sets each member that is used: to fill a struct with zeros would take as long as a pass over a channel. */
static void set_sums(sums_call *s, const batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const windows_space *r = &b->room;
    const ptrdiff_t grid = windows_grid(p);
    s->at = &b->at, s->taps = p->taps, s->order = b->order, s->n = whole(b->area);
    s->x = a->x, s->logits = a->logits, s->y = r->y, s->dy = r->dy;
    s->inside = p->inside, s->over = p->over, s->kept = a->kept + p->sums->sums * grid;
    for (int j = 0; j < p->sums->sums; j++)
        s->f[j] = r->f[j], s->q[j] = r->q[j], s->s[j] = a->kept + j * grid;
}

/* The terms of padding of zeros. */
static void terms_of_padding(const batch *b, sums_call s, st_real padding[MOST_SUMS])
{
    const lanes zero = { 0 };
    lanes f[MOST_SUMS], kept;
    s.x = zero, s.n = POOL_LANES, s.kept = kept;
    for (int j = 0; j < b->plan->sums->sums; j++) s.f[j] = f[j];
    b->plan->sums->functions[b->isa].terms(&s);
    for (int j = 0; j < b->plan->sums->sums; j++) padding[j] = f[j][0];
}

static bool sums_values(const batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const windows_space *r = &b->room;
    const bool zeros = p->pool.zeros;
    st_real padding[MOST_SUMS] = { 0 };
    sums_call s;
    set_sums(&s, b, a);
    s.least = zeros && a->least > 0 ? 0 : a->least;
    s.shift = s.most = zeros && a->most < 0 ? 0 : a->most;
    p->sums->functions[b->isa].terms(&s);
    if (zeros) terms_of_padding(b, s, padding);
    for (int j = 0; j < p->sums->sums; j++)
        add_isas[b->isa].sum_windows(p, s.f[j], padding[j], r->rows[j], s.s[j]);
    s.n = whole(p->windows);
    if (!p->sums->functions[b->isa].values(&s)) return false;
    phase_isas[b->isa].from_grid(p, r->y, 0, a->y, b->y_end);
    a->kept[b->each - 1] = s.shift;
    return true;
}

static void sums_adjoints(const batch *b, const channel *a)
{
    const windows_plan *p = b->plan;
    const windows_space *r = &b->room;
    sums_call s;
    set_sums(&s, b, a);
    phase_isas[b->isa].to_grid(p, a->dy, b->dy_end, r->dy);
    const ptrdiff_t grid = windows_grid(p);
    s.shift = a->kept[b->each - 1];
    s.n = whole(p->windows);
    p->sums->functions[b->isa].slopes(&s);
    for (int j = 0; j < p->sums->slopes; j++) {
        for (ptrdiff_t i = s.n; i < grid; i++) s.q[j][i] = 0;
        s.q[j] = r->sums[j];
    }
    add_isas[b->isa].sum_elements(p, p->sums->slopes, r->q, r->rows, r->sums);
    s.n = whole(b->area);
    const bool fits = s.n == b->area;
    s.dx = fits && a->dx ? a->dx : r->dx;
    s.dlogits = fits ? a->dlogits : r->dlogits;
    p->sums->functions[b->isa].back(&s);
    if (a->dx && !fits) memcpy(a->dx, r->dx, (size_t)b->area * sizeof *r->dx);
    if (b->has_logits && !fits) memcpy(a->dlogits, r->dlogits, (size_t)b->area * sizeof *r->dlogits);
}

/* ---- gradients of what was drawn ----------------------------------------------------------------------- */

/* The place of a channel's first window, where the definition has drawn. */
#define NOT_DRAWN ((st_real)-2)

static st_tensor plane(st_tensor x, ptrdiff_t image, ptrdiff_t k)
{
    return st_is_null(x) ? x : st_select(st_select(x, 0, image), 0, k);
}

static void backward_of_drawn(const batch *b)
{
    const st_real *place = b->place, *dy = st_data(b->dy);
    st_real *to = st_data(b->dx);
    for (ptrdiff_t i = 0; i < b->x.shape.n[0] * b->channels; i++, to += b->area) {
        const ptrdiff_t image = i / b->channels, k = i % b->channels;
        if (*place == NOT_DRAWN)
            pool_adjoint_plane(b->call, false, image, k, plane(b->x, image, k), st_data(b->y) + i * b->count,
                               dy, plane(b->dx, image, k));
        else {
            memset(to, 0, (size_t)b->area * sizeof *to);
            for (ptrdiff_t j = 0; j < b->count; j++)
                if (place[j] >= 0) to[(ptrdiff_t)place[j]] += dy[j];
        }
        place += b->count, dy += b->count;
    }
}

/* ---- hooks --------------------------------------------------------------------------------------------- */

/* Image i of x as [C, HW]. */
static st_tensor image_of(const batch *b, st_tensor x, ptrdiff_t i)
{
    const st_shape s = ST_SHAPE(b->channels, b->area);
    if (st_is_null(x)) return x;
    if (st_is_contiguous(x)) return st_reshape(st_select(x, 0, i), s);
    const st_tensor copy = st_reshape(st_scratch(b->call, b->plan->scratch + WINDOWS_IMAGE), s);
    st_copy(st_reshape(copy, st_select(x, 0, i).shape), st_select(x, 0, i));
    return copy;
}

/* Image i with logits. False: the definition is to compute it. */
static bool image_with_logits(batch *b, ptrdiff_t i, bool back, bool gradient)
{
    const logits_form *form = b->plan->logits;
    const st_tensor x = image_of(b, b->x, i),
                    dlogits = st_scratch(b->call, b->plan->scratch + WINDOWS_DLOGITS);
    if (!back) form->logits(b->call, x, st_scratch(b->call, b->plan->scratch + WINDOWS_LOGITS));
    for (ptrdiff_t k = 0; k < b->channels; k++) {
        channel a;
        find_channel(b, i * b->channels + k, &a);
        if (back && a.finite && b->squares) squares_adjoints(b, &a);
        else if (back && a.finite) sums_adjoints(b, &a);
        else if (back || !a.finite || !(b->squares ? squares_values(b, &a) : sums_values(b, &a))) {
            b->kept[i * b->channels * b->each + b->each - 1] = (st_real)NAN; /* the image's first */
            return false;
        }
    }
    if (back) form->end(b->call, gradient, x, dlogits, image_of(b, b->dx, i));
    return true;
}

static void forward_with_logits(batch *b, const st_call *c)
{
    for (ptrdiff_t i = 0; i < b->x.shape.n[0]; i++)
        if (!image_with_logits(b, i, false, false))
            c->layer->type->forward(c, st_narrow(b->x, 0, i, 1), st_narrow(b->y, 0, i, 1));
}

static void backward_with_logits(batch *b, const st_call *c, bool gradient)
{
    const st_layer_type *t = c->layer->type;
    for (ptrdiff_t i = 0; i < b->x.shape.n[0]; i++) {
        if (image_with_logits(b, i, true, gradient)) continue;
        const st_tensor x = st_narrow(b->x, 0, i, 1), y = st_narrow(b->y, 0, i, 1),
                        dy = st_narrow(b->dy, 0, i, 1);
        if (gradient) t->gradient(c, x, y, dy);
        if (!st_is_null(b->dx)) t->backward(c, x, y, dy, st_narrow(b->dx, 0, i, 1));
    }
}

void windows_forward(const st_call *c, st_tensor x, st_tensor y)
{
    batch b = batch_of(c, false, x, y, (st_tensor){ 0 }, (st_tensor){ 0 });
    if (b.has_logits) {
        forward_with_logits(&b, c);
        return;
    }
    for (ptrdiff_t i = 0; i < x.shape.n[0] * b.channels; i++) {
        channel a;
        find_channel(&b, i, &a);
        const ptrdiff_t image = i / b.channels, k = b.at.channel;
        if (b.places && !a.finite) a.place[0] = NOT_DRAWN;
        if (a.finite && b.plan->lanes && !b.squares) lanes_values(&b, &a);
        else if (!a.finite || !(b.plan->lanes ? squares_values(&b, &a) : sums_values(&b, &a))) {
            if (b.kept) a.kept[b.each - 1] = (st_real)NAN;
            pool_forward_plane(c, image, k, plane(x, image, k), a.y);
        }
    }
}

static void run_backward(const st_call *c, bool gradient, st_tensor x, st_tensor y, st_tensor dy,
                         st_tensor dx)
{
    batch b = batch_of(c, gradient, x, y, dy, dx);
    if (b.has_logits || b.places) {
        if (b.has_logits) backward_with_logits(&b, c, gradient);
        else backward_of_drawn(&b);
        return;
    }
    const ptrdiff_t channels = x.shape.n[0] * b.channels;
    const bool adds_once = b.plan->lanes && !b.per_channel;
    for (ptrdiff_t i = 0; i < channels; i++) {
        channel a;
        find_channel(&b, i, &a);
        const ptrdiff_t image = i / b.channels, k = b.at.channel;
        if (!a.finite)
            pool_adjoint_plane(c, gradient, image, k, plane(x, image, k), a.y, a.dy, plane(dx, image, k));
        else if (b.squares) squares_adjoints(&b, &a);
        else if (b.plan->lanes) lanes_adjoints(&b, &a);
        else sums_adjoints(&b, &a);
        if (a.finite && gradient && !adds_once) add_gradient(&b);
    }
    if (gradient && adds_once) add_gradient(&b);
}

void windows_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    run_backward(c, false, x, y, dy, dx);
}

void windows_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    run_backward(c, true, x, y, dy, (st_tensor){ 0 });
}

void windows_both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    run_backward(c, true, x, y, dy, dx);
}
