/* windows.c: values and adjoints of poolings of a regular grid by vectors (windows.h). */
#include "layers/fast/functions.h"
#include "layers/fast/kernel.h"
#include "layers/fast/lanes.h"
#include "layers/fast/windows_impl.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

enum { SQUARES = 1 << 10 };

/* ---- random numbers ------------------------------------------------------------------------------------ */

INLINE void numbers_of_words(ptrdiff_t n, const uint32_t *word, st_real *to)
{
    for (ptrdiff_t i = 0; i < n; i += RUN)
        _Pragma("GCC unroll 1") for (int k = 0; k < RUN; k++) to[i + k] = number_of_word(word[i + k]);
}

#define NUMBERS(M)                                                                                           \
    M##_TARGET static void M##_numbers_of_words(ptrdiff_t n, const uint32_t *word, st_real *to)              \
    {                                                                                                        \
        numbers_of_words(n, word, to);                                                                       \
    }
#define NUMBERS_OF(M) M##_numbers_of_words,
EACH_ISA(NUMBERS)
static void (*const number_isas[])(ptrdiff_t n, const uint32_t *word, st_real *to) = { EACH_ISA(NUMBERS_OF) };

/* The random numbers of a channel's windows. */
static void draw(windows_batch *b)
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
        number_isas[b->isa](n, word + row * out, r->uniform + row * pitch);
        for (ptrdiff_t i = out; i < pitch; i++) r->uniform[row * pitch + i] = 0;
    }
    for (ptrdiff_t i = p->windows; i < grid; i++) r->uniform[i] = (st_real)0.5; /* 0 would be unsure */
}

/* ---- lanes --------------------------------------------------------------------------------------------- */

/* Sets each member that is used. */
static void set_lanes(lanes_call *c, const windows_batch *b, const windows_channel *a, ptrdiff_t first)
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
    const bool reads = !a->dy || windows_adjoints_read(p);
    c->next = reads && b->more ? a->x + b->area + first * b->area / p->windows : NULL;
    c->lines = ceil_div(b->area * POOL_LANES, whole(p->windows) * CACHE_LINE);
    c->sums = r->totals, c->room = r->sorted, c->first = r->first + first, c->weight = r->weight;
}

static void cut(const windows_batch *b, const windows_channel *a)
{
    phase_isas[b->isa].to_phases(b->plan, a->x, a->x_end, b->plan->pool.zeros ? 0 : -(st_real)INFINITY,
                                 b->room.phases);
}

/* Rows of windows from `first` on. */
static squares_call squares_of(const windows_batch *b, const windows_channel *a, ptrdiff_t first,
                               ptrdiff_t rows)
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
static bool squares_values(windows_batch *b, const windows_channel *a)
{
    const windows_plan *p = b->plan;
    if (b->draws) draw(b);
    squares_call call = squares_of(b, a, 0, p->axis[0].out);
    if (b->call->layer->impl->run->inference_only) call.kept = NULL;
    const bool finite = b->squares->functions[b->isa].values(&call);
    if (a->kept) a->kept[b->each - 1] = finite ? 0 : (st_real)NAN;
    return finite;
}

static void squares_adjoints(windows_batch *b, const windows_channel *a)
{
    const windows_plan *p = b->plan;
    const ptrdiff_t out = p->axis[0].out, some = largest(SQUARES / p->axis[1].out, 1),
                    used = 2 * out * p->axis[1].size;
    for (ptrdiff_t first = 0; first < out; first += some) {
        const squares_call call = squares_of(b, a, first, smallest(some, out - first));
        if (b->totalled + call.rows * call.columns > SQUARES) windows_add_totals(b);
        b->squares->functions[b->isa].adjoints(&call);
        b->totalled += call.rows * call.columns;
    }
    if (a->dx) memset(a->dx + used, 0, (size_t)(b->area - used) * sizeof *a->dx);
    if (a->dlogits) memset(a->dlogits + used, 0, (size_t)(b->area - used) * sizeof *a->dlogits);
}

static void lanes_values(windows_batch *b, const windows_channel *a)
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

static void lanes_adjoints(windows_batch *b, const windows_channel *a)
{
    const windows_plan *p = b->plan;
    const windows_space *r = &b->room;
    const bool at_once = p->step >= p->windows && !p->far, pairs = in_pairs(p), sums = pairs && at_once;
    if (windows_adjoints_read(p)) cut(b, a);
    phase_isas[b->isa].to_grid(p, a->dy, b->dy_end, r->dy);
    if (a->dx && !p->apart && !at_once) memset(r->dphases, 0, (size_t)p->phases * sizeof *r->dphases);
    for (ptrdiff_t first = 0; first < p->windows; first += p->step) {
        const ptrdiff_t count = smallest(p->step, p->windows - first), n = whole(count);
        lanes_call call;
        set_lanes(&call, b, a, first);
        p->lanes->adjoints[b->isa](&call, n);
        windows_add_totals(b);
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
static void set_sums(sums_call *s, const windows_batch *b, const windows_channel *a)
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
static void terms_of_padding(const windows_batch *b, sums_call s, st_real padding[MOST_SUMS])
{
    const lanes zero = { 0 };
    lanes f[MOST_SUMS], kept;
    s.x = zero, s.n = POOL_LANES, s.kept = kept;
    for (int j = 0; j < b->plan->sums->sums; j++) s.f[j] = f[j];
    b->plan->sums->functions[b->isa].terms(&s);
    for (int j = 0; j < b->plan->sums->sums; j++) padding[j] = f[j][0];
}

static bool sums_values(const windows_batch *b, const windows_channel *a)
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

static void sums_adjoints(const windows_batch *b, const windows_channel *a)
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

static void backward_of_drawn(const windows_batch *b)
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
static st_tensor image_of(const windows_batch *b, st_tensor x, ptrdiff_t i)
{
    const st_shape s = ST_SHAPE(b->channels, b->area);
    if (st_is_null(x)) return x;
    if (st_is_contiguous(x)) return st_reshape(st_select(x, 0, i), s);
    const st_tensor copy = st_reshape(st_scratch(b->call, b->plan->scratch + WINDOWS_IMAGE), s);
    st_copy(st_reshape(copy, st_select(x, 0, i).shape), st_select(x, 0, i));
    return copy;
}

/* Image i with logits. False: the definition is to compute it. */
static bool image_with_logits(windows_batch *b, ptrdiff_t i, bool back, bool gradient)
{
    const logits_form *form = b->plan->logits;
    const st_tensor x = image_of(b, b->x, i),
                    dlogits = st_scratch(b->call, b->plan->scratch + WINDOWS_DLOGITS);
    if (!back) form->logits(b->call, x, st_scratch(b->call, b->plan->scratch + WINDOWS_LOGITS));
    for (ptrdiff_t k = 0; k < b->channels; k++) {
        windows_channel a;
        windows_find_channel(b, i * b->channels + k, &a);
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

static void forward_with_logits(windows_batch *b, const st_call *c)
{
    for (ptrdiff_t i = 0; i < b->x.shape.n[0]; i++)
        if (!image_with_logits(b, i, false, false))
            c->layer->type->forward(c, st_narrow(b->x, 0, i, 1), st_narrow(b->y, 0, i, 1));
}

static void backward_with_logits(windows_batch *b, const st_call *c, bool gradient)
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
    windows_batch b = windows_batch_of(c, false, x, y, (st_tensor){ 0 }, (st_tensor){ 0 });
    if (b.has_logits) {
        forward_with_logits(&b, c);
        return;
    }
    for (ptrdiff_t i = 0; i < x.shape.n[0] * b.channels; i++) {
        windows_channel a;
        windows_find_channel(&b, i, &a);
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
    windows_batch b = windows_batch_of(c, gradient, x, y, dy, dx);
    if (b.has_logits || b.places) {
        if (b.has_logits) backward_with_logits(&b, c, gradient);
        else backward_of_drawn(&b);
        return;
    }
    const ptrdiff_t channels = x.shape.n[0] * b.channels;
    const bool adds_once = b.plan->lanes && !b.per_channel;
    for (ptrdiff_t i = 0; i < channels; i++) {
        windows_channel a;
        windows_find_channel(&b, i, &a);
        const ptrdiff_t image = i / b.channels, k = b.at.channel;
        if (!a.finite)
            pool_adjoint_plane(c, gradient, image, k, plane(x, image, k), a.y, a.dy, plane(dx, image, k));
        else if (b.squares) squares_adjoints(&b, &a);
        else if (b.plan->lanes) lanes_adjoints(&b, &a);
        else sums_adjoints(&b, &a);
        if (a.finite && gradient && !adds_once) windows_add_gradient(&b);
    }
    if (gradient && adds_once) windows_add_gradient(&b);
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
