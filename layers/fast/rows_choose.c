/* rows_choose.c: picks of rows and planes (rows_picks.h), and the way that is estimated to take the fewest
 * instructions. */
#include "layers/fast/rows.h"
#include "tensor/counts.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>

enum { JOINED = 4 };                     /* vectors that joined rows fill, at least */
enum { FEW_PARTS = 4 };                  /* of a pick that takes few instructions, and may move groups, */
enum { MOST_PARTS = 6 };                 /* of one that is shuffled where elements can be gathered */
enum { TABLE = 16 << 10 };               /* bytes of all their picks, which the first cache keeps, */
enum { MOVED = 1024 / sizeof(st_real) }; /* and elements of a row that is longer than what it makes */
enum { CACHE = 48 << 10 };               /* bytes that picks and their planes should fit */

/* The vectors of an instruction set. */
typedef struct isa_vectors {
    int lanes;
    bool shuffles, gathers;
} isa_vectors;

#define VECTORS(M) { ISA_LANES(M), M##_SHUFFLES, M##_GATHERS },
static const isa_vectors vectors_of_isa[] = { EACH_ISA(VECTORS) };

ptrdiff_t rows_room_of_picks(const sparse *a, ptrdiff_t most, int lanes)
{
    return (a->out_pitch / lanes + JOINED + 1) * most;
}

ptrdiff_t rows_room_of_planes(const sparse each[], int lanes)
{
    const ptrdiff_t size = each[0].size * each[1].size, out = each[0].out * each[1].out;
    return smallest((ceil_div(size, lanes) + ceil_div(out, lanes) + MOST_JOINED) * MOST_PICKS, 1 << 11);
}

size_t rows_bytes_of_picks(ptrdiff_t room, int lanes)
{
    return CACHE_LINE * sizeof(st_real) +
           (size_t)room * (sizeof(pick) + (size_t)lanes * (sizeof(isa_bits) + sizeof(st_real)));
}

/* The matrix of a plane from those of its axes, NULL for one that is as it was, or of a row: `rows` is NULL.
 * Taps of means that go back are shares. */
typedef struct matrix {
    const sparse *rows, *columns;
    ptrdiff_t wide, out_wide;
    const st_real *shares;
} matrix;

static ptrdiff_t count_of(const sparse *a, ptrdiff_t i)
{
    return a ? a->begin[i + 1] - a->begin[i] : 1;
}

static tap tap_of(const sparse *a, ptrdiff_t i, ptrdiff_t k)
{
    return a ? a->taps[a->begin[i] + k] : (tap){ i, 1 };
}

/* Tap k of the elements from i on; returns about how many instructions it takes. */
static double find_pick(const sparse *a, const matrix *m, picking how, ptrdiff_t i, ptrdiff_t k,
                        const isa_vectors *by, pick *p, isa_bits *index, st_real *weight)
{
    const int lanes = by->lanes;
    ptrdiff_t from[LANES_MOST] = { 0 };
    bool adjacent = true;
    *p = (pick){ .taps = 1, .ones = true };
    for (int l = 0; l < lanes; l++) {
        const ptrdiff_t plane = (i + l) / a->out, o = (i + l) % a->out;
        const ptrdiff_t oh = o / m->out_wide, ow = o % m->out_wide;
        const ptrdiff_t beside = count_of(m->columns, ow), taps = count_of(m->rows, oh) * beside;
        from[l] = PTRDIFF_MIN, weight[l] = how == SUMS ? 0 : NOWHERE, index[l] = 0;
        if (plane >= a->picks.rows) continue;
        p->taps = largest(p->taps, taps);
        if (k >= taps) {
            p->lacks = true, adjacent = false;
            continue;
        }
        const tap row = tap_of(m->rows, oh, k / beside), column = tap_of(m->columns, ow, k % beside);
        const bool outside =
            how == MAXIMA && m->rows && (is_outside(m->rows, row) || is_outside(m->columns, column));
        const ptrdiff_t at = outside ? -1 : row.from * m->wide + column.from;
        if (outside) p->lacks = true, adjacent = false;
        else from[l] = at + plane * a->picks.step;
        weight[l] = how == SUMS ? row.weight * column.weight : (st_real)(how == BACK ? o : at);
        if (m->shares) weight[l] *= m->shares[at];
        p->ones = p->ones && weight[l] == 1;
        adjacent = adjacent && from[l] == from[0] + l;
    }
    for (int l = 0; l < lanes && adjacent; l++) index[l] = l, p->from[l] = (int)from[0];
    for (int parts = 0; !adjacent; parts++) { /* a vector from the first element on that is in none */
        ptrdiff_t low = PTRDIFF_MAX;
        for (int l = 0; l < lanes; l++)
            if (from[l] > PTRDIFF_MIN) low = smallest(low, from[l]);
        if (low == PTRDIFF_MAX) break;
        for (int l = 0; l < lanes; l++)
            if (from[l] > PTRDIFF_MIN && from[l] < low + lanes)
                index[l] = (isa_bits)(parts * lanes + (from[l] - low)), from[l] = PTRDIFF_MIN;
        for (int j = parts; j < LANES_MOST; j++) p->from[j] = (int)low;
        p->parts = parts + 1;
    }
    if (!adjacent && p->parts == 0) p->parts = 1;
    p->gathers = by->gathers && how == SUMS && p->parts > (by->shuffles ? MOST_PARTS : 0);
    for (int l = 0; l < lanes; l++)
        if (p->gathers) index[l] = p->from[index[l] / lanes] + index[l] % lanes;
        else if (how == SUMS && p->lacks && p->parts == 1 && weight[l] == 0) index[l] = lanes;
    const double each = p->gathers ? lanes : by->shuffles ? p->parts + (p->parts + 1) / 2 * 2 - 1 : 2 * lanes;
    if (how != SUMS)
        return (m->rows ? 6 : 10) + (how == BACK || !m->rows ? 2 : 1) * (p->parts == 0 ? 0 : each);
    const double shuffled = p->parts > FEW_PARTS ? 6 + 4.0 * p->parts : p->parts > 2 ? 9 : 4;
    return (by->shuffles && !p->gathers ? shuffled : 6 + each) + (p->lacks ? 1 : 0);
}

/* The picks of rows or planes that are joined; returns about how many instructions one takes. */
static double find_picks(sparse *a, const matrix *m, picking how, int most, const isa_vectors *by)
{
    const int lanes = by->lanes;
    picks *p = &a->picks;
    ptrdiff_t at = 0;
    double picked = how == SUMS ? 2 : 8;
    if (p->step > INT_MAX / (2 * LANES_MOST)) return INFINITY;
    p->reach = 0, p->out = p->rows * a->out;
    p->gathers = false;
    p->moves = how == SUMS && p->step <= largest(a->out, MOVED);
    for (ptrdiff_t begin = 0; begin < p->out; begin += lanes, picked += 6) {
        const ptrdiff_t i = p->out < lanes ? 0 : lanes_within(begin, lanes, p->out);
        for (ptrdiff_t k = 0, taps = 1; k < taps; k++, at++) {
            if (at == p->room || taps > most) return INFINITY;
            pick *to = &p->pick[at];
            picked += find_pick(a, m, how, i, k, by, to, p->index + at * lanes, p->weight + at * lanes);
            taps = to->taps;
            p->moves = p->moves && taps == 1 && to->ones && to->parts <= FEW_PARTS;
            p->gathers = p->gathers || to->gathers;
            for (int j = 0; j < LANES_MOST; j++) p->reach = largest(p->reach, to->from[j] + lanes);
        }
    }
    p->moves = p->moves && (size_t)at * (sizeof *p->pick + (size_t)lanes * sizeof *p->index) <= TABLE;
    p->room = at;
    return picked / (double)p->rows;
}

/* Picks, or vectors of columns, of which each takes `each`, of `more` times as many rows: whichever takes the
 * fewest instructions, whose number it returns about. A pick's further parts lie in two lines each. Rows that
 * are joined, and what vectors pass their ends by, are within the room of rows. */
static double choose_columns(sparse *a, bool maxima, const isa_vectors *by, double each, double more)
{
    const int lanes = by->lanes;
    picks *p = &a->picks;
    const ptrdiff_t room = LANES_MOST * (a->pitch - 3);
    const double taps = (double)a->begin[a->out] * (maxima ? 10 : 5);
    const double way = (double)(a->pitch + a->out_pitch) * each + 12 * (double)a->out + taps;
    const double transposed = (maxima ? 1 : 1.3) * more * way / lanes;
    p->low = p->high = 0;
    for (ptrdiff_t k = 0; k < a->begin[a->out]; k++)
        p->low = smallest(p->low, a->taps[k].from), p->high = largest(p->high, a->taps[k].from + 1);
    p->step = largest(p->high, a->size) - p->low;
    p->rows = smallest(ceil_div(JOINED * lanes, a->out), room / p->step);
    const matrix m = { NULL, a, a->size, a->out, NULL };
    const double picked = p->rows < 1 ? INFINITY : find_picks(a, &m, maxima ? MAXIMA : SUMS, MOST_PICKS, by);
    double parts = 0;
    for (ptrdiff_t k = 0; k < p->room && picked < INFINITY && !maxima; k++)
        if (p->pick[k].parts > 2 && p->pick[k].parts <= FEW_PARTS)
            parts += 2.0 * p->pick[k].parts / (double)p->rows;
    p->used = picked + parts < transposed && p->reach - p->low <= LANES_MOST * a->pitch;
    return fmin(picked, transposed);
}

/* As many planes as fill vectors best, with `half` elements on the way from `size` to `out`. */
static ptrdiff_t planes_joined(ptrdiff_t size, ptrdiff_t half, ptrdiff_t out, int lanes)
{
    ptrdiff_t best = 1, vectors = ceil_div(half, lanes) + ceil_div(out, lanes);
    const ptrdiff_t most = half > 0 ? smallest(PLANE, BLOCK / 2) : PLANE;
    for (ptrdiff_t n = 2; n * largest(half, out) <= MOST_JOINED * lanes && n * largest(size, half) <= most;
         n++) {
        const ptrdiff_t next = ceil_div(n * half, lanes) + ceil_div(n * out, lanes);
        if (next * best < vectors * n) best = n, vectors = next;
    }
    return best;
}

/* Picks of planes, of which `joined` are joined. Returns about how many instructions a plane takes. */
static double find_some(sparse *a, const matrix *m, picking how, ptrdiff_t joined, picks *room,
                        const isa_vectors *by)
{
    const int lanes = by->lanes;
    a->picks = *room;
    a->picks.step = a->size;
    a->picks.rows = joined;
    const double picked = find_picks(a, m, how, MOST_PICKS, by);
    if (picked == INFINITY) return picked;
    const ptrdiff_t planes = BESIDE * joined * (a->size + a->out) * (ptrdiff_t)sizeof(st_real);
    const bool near = planes + (ptrdiff_t)rows_bytes_of_picks(a->picks.room, lanes) <= CACHE;
    room->pick += a->picks.room, room->index += a->picks.room * lanes;
    room->weight += a->picks.room * lanes, room->room -= a->picks.room;
    return how == SUMS && near ? 0.7 * picked : picked;
}

/* Picks of planes: sums of few elements, in the order of the definition; or sums along the axis after which
 * there are fewer elements, and then along the other. Returns about how many instructions a plane takes. */
static double find_planes(rows_plan *p, int i, picking how, const st_real *shares, picks *room,
                          const isa_vectors *by)
{
    const int lanes = by->lanes;
    sparse *a = &p->plane[i], *half = &p->half[i];
    const sparse *rows = i == 0 ? p->axis : p->back, *columns = rows + 1;
    const ptrdiff_t size = rows->size * columns->size, out = rows->out * columns->out;
    const ptrdiff_t halves[] = { rows->out * columns->size, rows->size * columns->out };
    const bool second = halves[1] < halves[0];
    const matrix whole = { rows, columns, columns->size, columns->out, shares };
    const ptrdiff_t wide = second ? columns->out : columns->size;
    matrix steps[] = { { rows, NULL, wide, wide, NULL },
                       { NULL, columns, columns->size, columns->out, NULL } };
    picks left = *room;
    *a = axis_of(size, out), *half = axis_of(0, 0);
    const double picked = find_some(a, &whole, how, planes_joined(size, 0, out, lanes), room, by);
    if (how != SUMS || p->value != 0) return picked; /* halves have zeros where there is no tap */
    const ptrdiff_t joined = planes_joined(size, halves[second], out, lanes);
    const picks begin = left;
    steps[second].shares = shares;
    *a = axis_of(size, halves[second]), *half = axis_of(halves[second], out);
    double by_halves = find_some(a, &steps[second], SUMS, joined, &left, by);
    if (by_halves < picked) by_halves += find_some(half, &steps[!second], SUMS, joined, &left, by);
    if (by_halves < picked) {
        *room = left;
        return by_halves;
    }
    *room = begin;
    *a = axis_of(size, out), *half = axis_of(0, 0);
    return find_some(a, &whole, how, planes_joined(size, 0, out, lanes), room, by);
}

/* About how many instructions a channel takes by rows, whose taps take `each_tap`; a row takes `each`
 * more. */
static double cost_of_rows(const sparse *rows, double each_tap, ptrdiff_t count, double each)
{
    const double sums = each_tap * (double)rows->begin[rows->out] + 16 * (double)rows->out;
    return (rows->ordered ? 0 : sums) + each * (double)count;
}

double rows_choose(rows_plan *p, bool maxima, int isa, picks *room, double flat)
{
    const isa_vectors *by = &vectors_of_isa[isa];
    const int lanes = by->lanes;
    const sparse *rows = p->axis, *columns = rows + 1, *back = p->back;
    const ptrdiff_t high = rows->size, down = rows->out, wide = p->tall ? columns->out : columns->size,
                    count = p->tall ? high : down;
    const double more = (double)down / (double)count;
    double each = choose_columns(&p->axis[1], maxima, by, maxima ? 14 : 7, more);
    const double vectors = (double)ceil_div(wide, lanes);
    const double slow = cost_of_rows(rows, fmax(10, 6 * vectors), count, each);
    double costs[] = { cost_of_rows(rows, maxima && vectors == 1 ? 10 : 2 * vectors, count, each), 0 };
    if (maxima)
        costs[1] = 30 + (double)(rows->size * columns->size) / lanes + 2 * (double)(down * columns->out);
    else {
        each = choose_columns(&p->back[1], false, by, 10, more);
        costs[1] = cost_of_rows(back, 2 * vectors, count, each);
        for (int i = 0; i < 2 && p->run_count > 0; i++) {
            const double runs = rows_cost_of_runs(p, lanes, by->shuffles, i == 1);
            p->by_runs[i] = !(i == 0 ? columns : back + 1)->picks.used || runs <= costs[i];
            if (p->by_runs[i]) costs[i] = runs;
        }
    }
    double rest = 0;
    for (int i = 0; i < 2; i++) {
        const picking how = !maxima ? SUMS : i == 0 ? MAXIMA : BACK;
        const st_real *shares = i == 1 && p->means ? p->shares : NULL;
        const double flat_or_rows = (maxima || p->by_runs[i] ? 1 : 1.25) * fmin(flat, costs[i]);
        double planes = INFINITY;
        if (room->room > 0) planes = find_planes(p, i, how, shares, room, by);
        p->by_planes[i] = planes < flat_or_rows;
        if (how == MAXIMA) {
            const double abreast = rows_cost_of_tiles(p, lanes),
                         other = p->by_planes[i] ? 0.6 * planes : slow;
            p->abreast = abreast < other;
            if (p->abreast) p->by_planes[i] = false;
        }
        if (!p->by_planes[i]) rest += costs[i] - flat;
    }
    return rest;
}
