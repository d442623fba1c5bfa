/* rows_tiles.c: maxima of windows that few others overlap, with planes as lanes: a tile of all of them is
 * transposed, so that no lane is idle, however narrow it is. */
#include "layers/fast/rows.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

/* Windows of both axes, and the elements that they read. */
typedef struct tile {
    ptrdiff_t from[2], to[2], low[2], high[2];
} tile;

/* Appends window to[axis] to a tile if its elements, or its windows, do not become too many. */
static bool append(const rows_plan *p, int axis, tile *t)
{
    const sparse *a = &p->axis[axis];
    tile next = *t;
    for (ptrdiff_t k = a->begin[t->to[axis]]; k < a->begin[t->to[axis] + 1]; k++) {
        if (is_outside(a, a->taps[k])) continue;
        const ptrdiff_t at = a->taps[k].from;
        const bool first = next.high[axis] == next.low[axis];
        next.low[axis] = first ? at : smallest(next.low[axis], at);
        next.high[axis] = first ? at + 1 : largest(next.high[axis], at + 1);
    }
    next.to[axis]++;
    const ptrdiff_t size = (next.high[0] - next.low[0]) * (next.high[1] - next.low[1]);
    const ptrdiff_t out = (next.to[0] - next.from[0]) * (next.to[1] - next.from[1]);
    if (size > TILE || out > TILE) return false;
    *t = next;
    return true;
}

/* As many windows as there may be from (oh, ow) on: whole rows, or else a part of one; none at the end. */
static tile tile_at(const rows_plan *p, ptrdiff_t oh, ptrdiff_t ow)
{
    const ptrdiff_t high = p->axis[0].out, wide = p->axis[1].out;
    tile t = { { oh, 0 }, { oh, wide }, { 0, 0 }, { 0, p->axis[1].size } };
    while (ow == 0 && t.to[0] < high && append(p, 0, &t)) continue;
    if (t.to[0] > oh || oh == high) return t;
    t = (tile){ { oh, ow }, { oh, ow }, { 0, 0 }, { 0, 0 } };
    append(p, 0, &t);
    while (t.to[1] < wide && append(p, 1, &t)) continue;
    return t;
}

static tile first_tile(const rows_plan *p)
{
    return tile_at(p, 0, 0);
}

static tile next_tile(const rows_plan *p, const tile *t)
{
    const bool ends = t->to[1] == p->axis[1].out; /* of a row */
    return tile_at(p, ends ? t->to[0] : t->from[0], ends ? 0 : t->to[1]);
}

/* Elements of n planes that a tile reads: `lines` runs of each plane. */
typedef struct patch {
    const st_real *from;
    ptrdiff_t n, area, lines, wide, length;
} patch;

static patch patch_of(const rows_plan *p, const tile *t, ptrdiff_t n, const st_real *x)
{
    const ptrdiff_t wide = p->axis[1].size, high = t->high[0] - t->low[0], part = t->high[1] - t->low[1];
    const bool joined = part == wide;
    return (patch){ x + t->low[0] * wide + t->low[1], n, p->axis[0].size * wide, joined ? 1 : high, wide,
                    joined ? high * wide : part };
}

/* A patch is fetched by and by: line by line, run by run. */
typedef struct fetching {
    patch of;
    const st_real *at, *end;    /* of the run */
    ptrdiff_t line, runs, each; /* those that are left; lines at once */
} fetching;

static fetching fetching_of(patch p, ptrdiff_t steps)
{
    if (p.length == p.area) p.length *= p.n, p.n = 1;
    const ptrdiff_t runs = p.n * p.lines, each = runs * (ceil_div(p.length, CACHE_LINE) + 1);
    return (fetching){ p, p.from, p.from + p.length, 0, runs, each / largest(steps, 1) + 1 };
}

INLINE void fetch_some(fetching *f)
{
    for (ptrdiff_t k = 0; k < f->each && f->runs > 0; k++, f->at += CACHE_LINE) {
        __builtin_prefetch(f->at, 0, 2);
        if (f->at < f->end) continue;
        if (++f->line == f->of.lines) f->line = 0, f->of.from += f->of.area;
        f->at = f->of.from + f->line * f->of.wide - CACHE_LINE, f->end = f->at + CACHE_LINE + f->of.length;
        f->runs--;
    }
}

#define PLANE_MAXIMA(M)                                                                                      \
    /* The maxima of a tile's windows, of `abreast` vectors of planes. Unless `exact`, there must be \
     * no NaN: the sum tells. */       \
    M##_TARGET INLINE M##_vector M##_maxima_of_tile(const work *w, const tile *t, int abreast, bool exact,   \
                                                    bool placed, fetching next)                              \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M), EACH_ELEMENT = ABREAST * LANES };                                       \
        const sparse rows = w->plan->axis[0], columns = w->plan->axis[1];                                    \
        const ptrdiff_t wide = t->high[1] - t->low[1];                                                       \
        const M##_vector zero = { 0 };                                                                       \
        const st_real none[EACH_ELEMENT] = { 0 };                                                            \
        st_real *to = w->tile_out, *places = w->tile_places;                                                 \
        M##_vector sum[ABREAST] = { { 0 } };                                                                 \
        for (ptrdiff_t oh = t->from[0]; oh < t->to[0]; oh++)                                                 \
            for (ptrdiff_t ow = t->from[1]; ow < t->to[1]; ow++) {                                           \
                const ptrdiff_t top = rows.begin[oh], bottom = rows.begin[oh + 1], left = columns.begin[ow], \
                                right = columns.begin[ow + 1];                                               \
                M##_vector most[ABREAST], place[ABREAST]; /* a NaN is less than the first element */         \
                M##_mask first = ~(M##_mask){ 0 };                                                           \
                EACH(q, abreast) most[q] = zero - (st_real)INFINITY, place[q] = zero - 1;                    \
                if (top < bottom && left < right) EACH(q, abreast) most[q] = zero + (st_real)NAN;            \
                for (ptrdiff_t i = top; i < bottom; i++) {                                                   \
                    const ptrdiff_t row = rows.taps[i].from;                                                 \
                    const bool in_rows = row >= 0 && row < rows.size;                                        \
                    const st_real *line = w->tile + ((row - t->low[0]) * wide - t->low[1]) * EACH_ELEMENT;   \
                    fetch_some(&next);                                                                       \
                    for (ptrdiff_t j = left; j < right; j++) {                                               \
                        const ptrdiff_t column = columns.taps[j].from;                                       \
                        const bool inside = in_rows && column >= 0 && column < columns.size;                 \
                        const st_real *at = inside ? line + column * EACH_ELEMENT : none;                    \
                        const st_real number = (st_real)(inside ? row * columns.size + column : -1);         \
                        EACH(q, abreast)                                                                     \
                        {                                                                                    \
                            const M##_vector v = AT(M, at + q * LANES);                                      \
                            M##_mask exceeds = ~(v <= most[q]);                                              \
                            if (exact) exceeds = first | (exceeds & (most[q] == most[q]));                   \
                            else sum[q] += v;                                                                \
                            most[q] = ISA_PICK(M, exceeds, v, most[q]);                                      \
                            if (placed) place[q] = ISA_PICK(M, exceeds, zero + number, place[q]);            \
                        }                                                                                    \
                        first = (M##_mask){ 0 };                                                             \
                    }                                                                                        \
                }                                                                                            \
                EACH(q, abreast) AT(M, to + q * LANES) = most[q];                                            \
                if (placed) EACH(q, abreast) AT(M, places + q * LANES) = place[q];                           \
                to += EACH_ELEMENT, places += EACH_ELEMENT;                                                  \
            }                                                                                                \
        EACH(q, abreast) sum[0] += q > 0 ? sum[q] : zero;                                                    \
        return sum[0];                                                                                       \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_maxima_abreast(const work *w, const st_real *x, st_real *y, st_real *places)  \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M), EACH_ELEMENT = ABREAST * LANES };                                       \
        const sparse *rows = &w->plan->axis[0], *columns = &w->plan->axis[1];                                \
        const ptrdiff_t area = rows->size * columns->size, count = rows->out * columns->out;                 \
        const bool far = is_far(w->planes * area, SECOND);                                                   \
        const tile begin = first_tile(w->plan);                                                              \
        for (ptrdiff_t plane = 0, n; plane < w->planes; plane += n) {                                        \
            n = smallest(EACH_ELEMENT, w->planes - plane);                                                   \
            if (plane == 0 && n < EACH_ELEMENT) /* lanes that are missing are not used */                    \
                memset(w->tile, 0, (size_t)room_of_tile(area) * sizeof *w->tile);                            \
            for (tile t = begin, after; t.from[0] < rows->out; t = after) {                                  \
                const patch p = patch_of(w->plan, &t, n, x);                                                 \
                for (ptrdiff_t i = 0; i < p.lines; i++)                                                      \
                    kernel_transpose(w->kernel, n, p.length, p.from + i * p.wide, area,                      \
                                     w->tile + i * p.length * EACH_ELEMENT, EACH_ELEMENT, NULL);             \
                const ptrdiff_t left = w->planes - plane - n;                                                \
                const ptrdiff_t steps =                                                                      \
                    (rows->begin[t.to[0]] - rows->begin[t.from[0]]) * (t.to[1] - t.from[1]);                 \
                fetching f = { .runs = 0 };                                                                  \
                after = next_tile(w->plan, &t);                                                              \
                if (far && after.from[0] < rows->out)                                                        \
                    f = fetching_of(patch_of(w->plan, &after, n, x), steps);                                 \
                else if (far && left > 0)                                                                    \
                    f = fetching_of(patch_of(w->plan, &begin, smallest(n, left), x + n * area), steps);      \
                M##_vector sum;                                                                              \
                if (n > LANES && places) sum = M##_maxima_of_tile(w, &t, ABREAST, false, true, f);           \
                else if (n > LANES) sum = M##_maxima_of_tile(w, &t, ABREAST, false, false, f);               \
                else sum = M##_maxima_of_tile(w, &t, 1, false, places != NULL, f);                           \
                const M##_mask lost = sum != sum;                                                            \
                bool any = false;                                                                            \
                EACH(k, LANES) any |= lost[k] != 0;                                                          \
                if (any) M##_maxima_of_tile(w, &t, ABREAST, true, true, f);                                  \
                const ptrdiff_t first = t.from[0] * columns->out + t.from[1];                                \
                const ptrdiff_t made = (t.to[0] - t.from[0]) * (t.to[1] - t.from[1]);                        \
                kernel_transpose(w->kernel, made, n, w->tile_out, EACH_ELEMENT, y + first, count, NULL);     \
                if (places)                                                                                  \
                    kernel_transpose(w->kernel, made, n, w->tile_places, EACH_ELEMENT, places + first,       \
                                     count, NULL);                                                           \
            }                                                                                                \
            x += n * area, y += n * count;                                                                   \
            if (places) places += n * count;                                                                 \
        }                                                                                                    \
    }

#define STAMP(M)                                                                                             \
    PLANE_MAXIMA(M)                                                                                          \
    M##_TARGET static void M##_abreast(const work *w, const st_real *x, st_real *places, st_real *y)         \
    {                                                                                                        \
        M##_maxima_abreast(w, x, y, places);                                                                 \
    }
EACH_ISA(STAMP)

#define ADDRESS(M) M##_abreast,
maxima_pass *const maxima_by_tiles[] = { EACH_ISA(ADDRESS) };

double rows_cost_of_tiles(const rows_plan *p, int lanes)
{
    const sparse *rows = &p->axis[0], *columns = &p->axis[1];
    const ptrdiff_t planes = ceil_div(p->planes, lanes) * lanes;
    double cost = 8 * (double)rows->begin[rows->out] * (double)columns->begin[columns->out];
    for (tile t = first_tile(p); t.from[0] < rows->out; t = next_tile(p, &t)) {
        if (t.to[0] == t.from[0] || t.to[1] == t.from[1]) return INFINITY; /* a window is too large */
        const ptrdiff_t size = (t.high[0] - t.low[0]) * (t.high[1] - t.low[1]);
        cost += 6 * (double)size + 24 * (double)((t.to[0] - t.from[0]) * (t.to[1] - t.from[1]));
    }
    return cost / lanes * (double)planes / (double)p->planes;
}
