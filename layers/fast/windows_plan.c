/* windows_plan.c: plans of poolings of a regular grid by vectors (windows.h): the tables of an axis, of
 * phases and of windows, and the room for a channel. */
#include "layers/fast/windows_impl.h"
#include "layers/pooling/family.h"
#include "tensor/counts.h"

enum { AXIS_TABLES = 5, MOST_TAPS_AT_ONCE = 1 << 16, KEPT = 1 << 13, MADE = 512 };

/* ---- room for a channel -------------------------------------------------------------------------------- */

/* Elements of a grid of windows, whose rows are `pitch` apart, in whole vectors, also those of a last row. */
ptrdiff_t windows_grid(const windows_plan *p)
{
    return whole(p->axis[0].out * p->pitch) + (p->squares ? POOL_LANES : 0);
}

/* Blocks of random words that are made at once: of a channel's windows, or of some channels'. */
ptrdiff_t windows_blocks(const windows_plan *p)
{
    return whole(largest(MADE, p->axis[0].out * p->axis[1].out / WINDOWS_OF_BLOCK + 2));
}

/* The adjoints of a tap stand between zeros: windows that are not computed. */
ptrdiff_t windows_margin(const windows_plan *p)
{
    return p->far ? 0 : whole(p->reach) + POOL_LANES;
}

/* The room from `at` on, which may be NULL; returns its size. */
ptrdiff_t windows_room(const windows_plan *p, st_real *at, windows_space *r)
{
    const ptrdiff_t grid = windows_grid(p) + POOL_LANES,
                    area = whole(p->axis[0].size * p->axis[1].size) + POOL_LANES,
                    all = p->phases + POOL_LANES, before = whole(p->axis[1].reach);
    const ptrdiff_t doubles = sizeof(double) / sizeof(st_real);
    ptrdiff_t used = 0;
#define TAKE(MEMBER, n) r->MEMBER = at ? (void *)(at + used) : NULL, used += whole(n)
    const bool prepares = p->lanes && p->lanes->prepare;
    TAKE(uniform, p->draws ? grid : 0);
    TAKE(word, p->draws ? WINDOWS_OF_BLOCK * windows_blocks(p) + POOL_LANES : 0);
    TAKE(first, prepares ? grid : 0);
    TAKE(counted, prepares ? p->taps + 1 : 0);
    TAKE(sums_of, p->lanes ? p->taps * SUM_LANES * doubles : 0);
    TAKE(y, grid);
    TAKE(dy, grid);
    if (p->lanes) {
        TAKE(phases, all);
        TAKE(dphases, all);
        TAKE(adjoints, p->apart ? 0 : p->taps * p->run);
        TAKE(place, grid);
        TAKE(sorted, p->taps * POOL_LANES);
        TAKE(totals, p->taps * POOL_LANES);
        TAKE(weight, p->taps);
    } else {
        TAKE(x, area);
        TAKE(dx, area);
        TAKE(logits, p->logits ? area : 0);
        TAKE(dlogits, p->logits ? area : 0);
        for (int j = 0; j < p->sums->sums; j++) {
            TAKE(f[j], area);
            TAKE(sums[j], area);
            TAKE(rows[j], p->axis[1].stride * (grid + p->pitch + before + 1) + POOL_LANES);
            TAKE(q[j], before + grid);
            if (at) r->q[j] += before;
        }
    }
#undef TAKE
    return used;
}

/* Elements of a channel, in whole vectors. */
static ptrdiff_t elements_of(const windows_plan *p)
{
    return whole(p->axis[0].size * p->axis[1].size);
}

/* How many numbers are kept of a channel: runs of its windows, as grids, a run of its elements, and last the
 * shift, or NaN where the definition computes the channel. */
ptrdiff_t windows_kept(const windows_plan *p)
{
    const ptrdiff_t elements = p->sums && p->sums->keeps_elements ? elements_of(p) : 0;
    if (p->squares) return p->squares->runs * windows_grid(p) + POOL_LANES;
    return p->draws ? 0 : p->runs * windows_grid(p) + elements + POOL_LANES;
}

/* ---- plans --------------------------------------------------------------------------------------------- */

bool windows_suit(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    return w->kernel[0] <= MOST_TAPS_AT_ONCE / w->kernel[1] &&
           (double)w->size[0] * (double)w->size[1] < MOST_PLACES;
}

bool windows_are_squares(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] != 2 || w->stride[i] != 2 || w->dilation[i] != 1 || w->before[i] != 0 ||
            w->size[i] < 2 * w->out[i] || w->size[i] > 2 * w->out[i] + 1)
            return false;
    return windows_suit(l);
}

static phase_axis axis_of(const window *w, int i)
{
    phase_axis a = { .kernel = w->kernel[i], .size = w->size[i], .out = w->out[i] };
    a.before = w->before[i], a.stride = w->stride[i];
    a.phases = (int)smallest(a.kernel, a.stride / greatest_common_divisor(a.stride, w->dilation[i]));
    a.reach = (ptrdiff_t)(a.kernel - 1) * w->dilation[i] / a.stride;
    return a;
}

ptrdiff_t windows_at_once(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    const ptrdiff_t places = w->out[0] * (w->out[1] + axis_of(w, 1).reach);
    return largest(w->out[0] * w->out[1] / ceil_div(places, POOL_LANES), 1);
}

static ptrdiff_t members_of(const windows_plan *p)
{
    return p->sums ? p->axis[0].size : p->phases / p->phase;
}

int windows_plan_for(st_layer *l, const void *given, const lanes_form *by_lanes, const sums_form *by_sums)
{
    const window *w = &((const pool_plan *)given)->w;
    windows_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = (windows_plan){ .pool = *(const pool_plan *)given, .lanes = by_lanes, .sums = by_sums };
    p->logits = by_sums ? by_sums->logits : by_lanes->logits;
    for (int i = 0; i < 2; i++) p->axis[i] = axis_of(w, i);
    p->taps = (ptrdiff_t)w->kernel[0] * w->kernel[1];
    p->rows = w->out[0] + p->axis[0].reach, p->pitch = w->out[1] + p->axis[1].reach;
    p->phase = whole(p->rows * p->pitch) + POOL_LANES;
    p->phases = p->axis[0].phases * p->axis[1].phases * p->phase;
    p->windows = (w->out[0] - 1) * p->pitch + w->out[1];
    p->step = largest(smallest(KEPT / p->taps, p->windows + POOL_LANES - 1) / POOL_LANES, 1) * POOL_LANES;
    p->draws = by_lanes && by_lanes->draws && by_lanes->draws(l->options);
    if (by_lanes && windows_are_squares(l)) p->squares = p->draws ? by_lanes->drawn : by_lanes->squares;
    if (by_sums) p->runs = by_sums->sums;
    else p->runs = p->draws ? 0 : by_lanes->runs + (FEW_TAPS(p->taps) ? by_lanes->few : 0);
    if (p->draws && !p->squares && st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], w->out[0], w->out[1])))
        return -1;
    const ptrdiff_t each = windows_kept(p);
    if (each > 0 && st_layer_memory(l, ST_SHAPE(l->x.n[0], l->x.n[1], each))) return -1;
    p->reach = p->axis[0].reach * p->pitch + p->axis[1].reach;
    p->far = p->reach > p->step;
    p->run = p->step + 2 * windows_margin(p);
    p->apart = p->reach == 0;
    l->impl->tables =
        (size_t)(3 * p->taps + members_of(p) + w->size[0] + AXIS_TABLES * (w->kernel[0] + w->kernel[1])) *
            sizeof(ptrdiff_t) +
        (size_t)(2 * (windows_grid(p) + POOL_LANES) + p->phases + POOL_LANES) * sizeof(st_real) +
        (size_t)(w->out[0] + w->out[1]) * sizeof(pool_span);
    windows_space r;
    const st_shape image = ST_SHAPE(l->x.n[1], l->x.n[2] * l->x.n[3]);
    const bool logits = p->logits != NULL;
    if (logits ? local_importance_scratch(l, &p->pool) : pool_request_scratch(l, &p->pool)) return -1;
    p->scratch = l->impl->scratches;
    if (st_layer_scratch(l, image) || st_layer_scratch(l, ST_SHAPE(windows_room(p, NULL, &r)))) return -1;
    return logits && (st_layer_scratch(l, image) || st_layer_scratch(l, image)) ? -1 : 0;
}

/* The tables of an axis begin at `at`; returns their end. */
static ptrdiff_t *fill_axis(phase_axis *a, ptrdiff_t dilation, ptrdiff_t *at)
{
    const ptrdiff_t length = a->out + a->reach;
    ptrdiff_t phases = 0,
              **const tables[AXIS_TABLES] = { &a->phase, &a->shift, &a->residue, &a->low, &a->high };
    for (int i = 0; i < AXIS_TABLES; i++) *tables[i] = at + i * a->kernel;
    for (ptrdiff_t k = 0; k < a->kernel; k++) {
        const ptrdiff_t residue = k * dilation % a->stride;
        ptrdiff_t b = 0;
        while (b < phases && a->residue[b] != residue) b++;
        if (b == phases) a->residue[phases++] = residue;
        a->phase[k] = b, a->shift[k] = k * dilation / a->stride;
    }
    for (ptrdiff_t b = 0; b < phases; b++) {
        const ptrdiff_t first = a->before - a->residue[b];
        a->low[b] = smallest(ceil_div(largest(first, 0), a->stride), length);
        a->high[b] = smallest(ceil_div(largest(first + a->size, 0), a->stride), length);
    }
    return at + AXIS_TABLES * a->kernel;
}

/* For sums: counts the windows that share each row of the image, and finds the row of the last one; they are
 * some rows apart. */
static void fill_sharers(const windows_plan *p)
{
    const phase_axis *h = &p->axis[0];
    const ptrdiff_t again = h->phases * p->pool.w.dilation[0] / h->stride, some = h->kernel / h->phases;
    for (ptrdiff_t k = 0; k < h->kernel; k++) {
        p->from[k] = -k * again * p->axis[1].stride * p->pitch;
        p->to[k] = k * p->pool.w.dilation[0] * p->axis[1].size;
    }
    for (ptrdiff_t r = 0; r < h->size; r++) {
        const ptrdiff_t row = r + h->before, residue = row % h->stride;
        int a = 0;
        while (a < h->phases && h->residue[a] != residue) a++;
        ptrdiff_t count = a < h->phases ? some + (a < h->kernel % h->phases) : 0,
                  last = row / h->stride - (a < h->phases ? h->shift[a] : 0);
        for (; count > 0 && last >= h->out; count--) last -= again;
        while (count > 0 && last - (count - 1) * again < 0) count--;
        p->members[r] = count, p->last[r] = count > 0 ? last : 0;
    }
}

/* For lanes: lists the elements of each phase. */
static void fill_members(const windows_plan *p)
{
    for (ptrdiff_t q = 0, k = 0; q < p->phases / p->phase; q++) {
        const ptrdiff_t begin = k;
        for (ptrdiff_t i = 0; i < p->taps; i++)
            if (p->offset[i] / p->phase == q) p->from[k++] = p->to[i] - p->offset[i] % p->phase;
        p->members[q] = k - begin;
    }
}

static void fill_places(const windows_plan *p)
{
    const phase_axis *h = &p->axis[0], *w = &p->axis[1];
    for (ptrdiff_t i = 0; i < p->phases + POOL_LANES; i++) p->places[i] = -1;
    for (ptrdiff_t i = 0; i < p->phases; i++) {
        const ptrdiff_t a = i / p->phase / w->phases, b = i / p->phase % w->phases, k = i % p->phase,
                        row = k / p->pitch, column = k % p->pitch,
                        r = row * h->stride + h->residue[a] - h->before,
                        s = column * w->stride + w->residue[b] - w->before;
        if (row < h->high[a] && row >= h->low[a] && column >= w->low[b] && column < w->high[b])
            p->places[i] = (st_real)(r * w->size + s);
    }
}

void windows_fill(st_layer *l, void *tables)
{
    windows_plan *p = l->plan;
    phase_axis *h = &p->axis[0], *w = &p->axis[1];
    const ptrdiff_t each = windows_grid(p) + POOL_LANES;
    p->inside = tables, p->over = p->inside + each, p->places = p->over + each;
    ptrdiff_t *rest = (ptrdiff_t *)(void *)(p->places + p->phases + POOL_LANES);
    p->offset = fill_axis(w, p->pool.w.dilation[1], fill_axis(h, p->pool.w.dilation[0], rest));
    p->to = p->offset + p->taps;
    p->from = p->to + p->taps, p->members = p->from + p->taps;
    p->last = p->members + members_of(p);
    pool_span *rows = (pool_span *)(void *)(p->last + h->size), *columns = rows + h->out;
    for (ptrdiff_t i = 0; i < p->taps; i++) {
        const ptrdiff_t r = i / w->kernel, s = i % w->kernel;
        p->offset[i] =
            (h->phase[r] * w->phases + w->phase[s]) * p->phase + h->shift[r] * p->pitch + w->shift[s];
        p->to[i] = p->apart ? p->offset[i] : i * p->run;
    }
    if (p->sums) fill_sharers(p);
    else fill_members(p);
    const st_window at = { .options = l->options };
    for (int i = 0; i < 2; i++) st_regular_grid.spans(&p->pool, &at, i, i ? columns : rows);
    for (ptrdiff_t i = 0; i < 2 * each; i++) p->inside[i] = 0;
    fill_places(p);
    p->full = true;
    for (ptrdiff_t r = 0; r < h->out; r++)
        for (ptrdiff_t s = 0; s < w->out; s++) {
            const ptrdiff_t count = rows[r].count * columns[s].count, k = r * p->pitch + s;
            p->inside[k] = (st_real)count;
            p->over[k] = count > 0 ? 1 / (st_real)count : 0;
            p->full = p->full && count == p->taps, p->gaps = p->gaps || count == 0;
        }
}
