/* rows_picks.c: resizing, averages, borders and maxima whose elements are picked by shuffles: from rows that
 * were summed before, or are summed afterwards; short rows are joined for it. Small images are picked from
 * whole planes, along one axis after the other or along both at once, as maxima and their gradients are. */
#include "layers/fast/rows_picks.h"
#include "layers/fast/rows_sums.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

/* Groups of elements that are picked from groups of rows, `pitch` apart: joined rows, or planes. */
typedef struct groups {
    ptrdiff_t count, pitch;
    const st_real *from, *share; /* the shares of means, `shared` apart, or NULL, */
    ptrdiff_t shared;
    bool far, to_far;        /* the next ones are fetched, and places of `to` before they are written */
    st_real none, *to, *end; /* the value without a tap; nothing is written beyond the end */
    st_real *places;         /* of maxima, beside `to` or, on the way back, `from`; NULL: they are not kept */
} groups;

/* So many rows at once, of images that are so high; and planes. */
static ptrdiff_t rows_of_block(const picks *k, ptrdiff_t high)
{
    const ptrdiff_t one = largest(k->rows * k->step, k->out), most = largest(BLOCK / one, 1) * k->rows;
    const ptrdiff_t whole = high / greatest_common_divisor(high, k->rows) * k->rows;
    return most < whole ? most : most / whole * whole;
}

static ptrdiff_t planes_of_block(ptrdiff_t size)
{
    return largest(BLOCK / size, 1);
}

#define PICKS(M)                                                                                             \
    /* Elements i, i + 1, ... of n groups by `taps` picks from `at` on. Unless `whole`, n is 1. */           \
    M##_TARGET INLINE void M##_pick_some(const picks *k, picking how, bool gathers, ptrdiff_t at,            \
                                         ptrdiff_t taps, int n, const groups *b, ptrdiff_t i, bool whole)    \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const M##_vector zero = { 0 };                                                                       \
        M##_vector sum[BESIDE], place[BESIDE], v[BESIDE], from[BESIDE];                                      \
        const ptrdiff_t pitch = b->pitch, out = k->out;                                                      \
        EACH(q, n) sum[q] = how == BACK ? zero : zero + b->none, place[q] = zero - 1;                        \
        for (ptrdiff_t j = 0; j < taps; j++) {                                                               \
            const pick *p = k->pick + at + j;                                                                \
            const M##_mask where = (M##_mask)AT(M, k->index + (at + j) * LANES);                             \
            const M##_vector weight = AT(M, k->weight + (at + j) * LANES);                                   \
            const M##_mask has = how == SUMS ? weight != 0 : weight > NOWHERE;                               \
            const bool lacks = p->lacks;                                                                     \
            if (gathers && p->gathers) EACH(q, n) v[q] = M##_GATHER(b->from + q * pitch, where);             \
            else M##_pick(p, where, b->from, pitch, n, v);                                                   \
            const ptrdiff_t next = BESIDE * pitch + p->from[0];                                              \
            if (n > 1 && b->far) EACH(q, n) __builtin_prefetch(b->from + q * pitch + next);                  \
            if (n > 1 && b->far && how == BACK) EACH(q, n) __builtin_prefetch(b->places + q * pitch + next); \
            if (how == BACK) M##_pick(p, where, b->places, pitch, n, from);                                  \
            if (how == BACK) EACH(q, n) sum[q] += ISA_PICK(M, from[q] == weight, v[q], zero);                \
            if (how == SUMS) EACH(q, n) v[q] = j == 0 ? v[q] * weight : sum[q] + v[q] * weight;              \
            if (how == SUMS && lacks) EACH(q, n) sum[q] = ISA_PICK(M, has, v[q], sum[q]);                    \
            else if (how == SUMS) EACH(q, n) sum[q] = v[q];                                                  \
            if (how == MAXIMA && lacks) EACH(q, n) v[q] = ISA_PICK(M, weight < 0, zero, v[q]);               \
            if (how == MAXIMA) EACH(q, n)                                                                    \
                {                                                                                            \
                    M##_mask exceeds = has;                                                                  \
                    if (j > 0) exceeds &= ~(v[q] <= sum[q]) & (sum[q] == sum[q]);                            \
                    sum[q] = ISA_PICK(M, exceeds, v[q], sum[q]);                                             \
                    place[q] = ISA_PICK(M, exceeds, weight, place[q]);                                       \
                }                                                                                            \
        }                                                                                                    \
        if (b->share) EACH(q, n) sum[q] = sum[q] * AT(M, b->share + q * b->shared + i);                      \
        st_real *to = b->to + i, *places = how == MAXIMA && b->places ? b->places + i : NULL;                \
        if (!whole) {                                                                                        \
            const size_t bytes = (size_t)largest(smallest(b->end - to, LANES), 0) * sizeof *to;              \
            memcpy(to, sum, bytes);                                                                          \
            if (places) memcpy(places, place, bytes);                                                        \
            return;                                                                                          \
        }                                                                                                    \
        EACH(q, n) __builtin_prefetch(to + (BESIDE + q) * out, 1); /* of the next groups */                  \
        EACH(q, n) AT(M, to + q * out) = sum[q];                                                             \
        if (places) EACH(q, n) AT(M, places + q * out) = place[q];                                           \
    }                                                                                                        \
                                                                                                             \
    /* n groups. */                                                                                          \
    M##_TARGET INLINE void M##_pick_each(const picks *k, picking how, bool gathers, int n, const groups *b)  \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        ptrdiff_t at = 0, taps;                                                                              \
        for (ptrdiff_t begin = 0; begin < k->out; begin += LANES, at += taps) {                              \
            const ptrdiff_t i = k->out < LANES ? 0 : lanes_within(begin, LANES, k->out);                     \
            taps = k->pick[at].taps;                                                                         \
            if (n == 1) M##_pick_some(k, how, gathers, at, taps, 1, b, i, b->to + i + LANES <= b->end);      \
            else if (how == SUMS && !gathers && taps == 1)                                                   \
                M##_pick_some(k, how, false, at, 1, n, b, i, true);                                          \
            else if (how == SUMS && !gathers && taps == 2)                                                   \
                M##_pick_some(k, how, false, at, 2, n, b, i, true);                                          \
            else M##_pick_some(k, how, gathers, at, taps, n, b, i, true);                                    \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* Moves groups one after the other, as memory is fetched best; returns how many it has moved. */        \
    M##_TARGET static __attribute__((noinline)) ptrdiff_t M##_move_groups(const picks *k, const groups *b)   \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const M##_vector none = (M##_vector){ 0 } + b->none;                                                 \
        const ptrdiff_t out = k->out, last = largest(out - LANES, 0), pitch = b->pitch;                      \
        const ptrdiff_t room = b->end - b->to - last - LANES;                                                \
        const ptrdiff_t count = room < 0 ? 0 : smallest(b->count, room / out + 1);                           \
        const ptrdiff_t ahead = ceil_div(AHEAD, pitch) * pitch; /* of a later group */                       \
        const st_real *from = b->from;                                                                       \
        st_real *to = b->to;                                                                                 \
        for (ptrdiff_t g = 0; g < count; g++, from += pitch, to += out) {                                    \
            const isa_bits *index = k->index;                                                                \
            ptrdiff_t i = 0;                                                                                 \
            for (const pick *p = k->pick; i <= last; p++, index += LANES) {                                  \
                const M##_mask where = (M##_mask)AT(M, index);                                               \
                M##_vector v = AT(M, from + p->from[0]);                                                     \
                if (p->parts < 2) v = SHUFFLE_BY(M, v, none, where);                                         \
                else if (p->parts == 2) {                                                                    \
                    const M##_vector next = AT(M, from + p->from[1]);                                        \
                    v = SHUFFLE_BY(M, v, next, where);                                                       \
                } else M##_pick(p, where, from, 0, 1, &v);                                                   \
                if (p->parts > 1 && p->lacks) {                                                              \
                    const M##_mask has = AT(M, k->weight + (index - k->index)) != 0;                         \
                    v = ISA_PICK(M, has, v, none);                                                           \
                }                                                                                            \
                if (b->far) __builtin_prefetch(from + ahead + p->from[0]);                                   \
                if (b->far && p->parts > 2) __builtin_prefetch(from + ahead + p->from[p->parts - 1]);        \
                if (b->to_far) __builtin_prefetch(to + i + AHEAD, 1);                                        \
                AT(M, to + i) = v;                                                                           \
                i = i == last ? last + 1 : smallest(i + LANES, last);                                        \
            }                                                                                                \
        }                                                                                                    \
        return count;                                                                                        \
    }                                                                                                        \
    M##_TARGET INLINE void M##_pick_all(const picks *k, picking how, bool gathers, const groups *given)      \
    {                                                                                                        \
        groups b = *given;                                                                                   \
        const bool places = how != SUMS && b.places;                                                         \
        ptrdiff_t n;                                                                                         \
        for (ptrdiff_t g = 0; g < b.count; g += n) {                                                         \
            const ptrdiff_t room = b.end - b.to - ISA_LANES(M);                                              \
            n = g + BESIDE <= b.count && room >= BESIDE * k->out ? BESIDE : 1;                               \
            if (n == 1) M##_pick_each(k, how, gathers, 1, &b);                                               \
            else M##_pick_each(k, how, gathers, BESIDE, &b);                                                 \
            b.from += n * b.pitch, b.to += n * k->out;                                                       \
            if (b.share) b.share += n * b.shared;                                                            \
            if (places) b.places += n * (how == BACK ? b.pitch : k->out);                                    \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET static __attribute__((noinline)) void M##_gather_all(const picks *given, const groups *b)     \
    {                                                                                                        \
        const picks k = *given;                                                                              \
        M##_pick_all(&k, SUMS, M##_GATHERS, b);                                                              \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET static void M##_pick_groups(const picks *given, picking how, const groups *b)                 \
    {                                                                                                        \
        const picks k = *given;                                                                              \
        groups rest = *b;                                                                                    \
        if (M##_SHUFFLES && how == SUMS && k.moves && !b->share) {                                           \
            const ptrdiff_t n = M##_move_groups(given, b);                                                   \
            rest.count -= n, rest.from += n * b->pitch, rest.to += n * k.out;                                \
        }                                                                                                    \
        if (M##_GATHERS && k.gathers) M##_gather_all(given, &rest);                                          \
        else if (how == SUMS) M##_pick_all(&k, SUMS, false, &rest);                                          \
        else if (how == MAXIMA) M##_pick_all(&k, MAXIMA, false, b);                                          \
        else M##_pick_all(&k, BACK, false, b);                                                               \
    }                                                                                                        \
                                                                                                             \
    /* 1 / counted, of means in n rows from row r on. */                                                     \
    M##_TARGET INLINE void M##_shares(const sparse *rows, ptrdiff_t r, ptrdiff_t n, const sparse *columns,   \
                                      st_real *share)                                                        \
    {                                                                                                        \
        for (ptrdiff_t l = 0; l < n; l++, share += columns->out, r = r + 1 < rows->out ? r + 1 : 0)          \
            for (ptrdiff_t i = 0; i < columns->out; i += ISA_LANES(M)) {                                     \
                const M##_vector counts = AT(M, columns->counted + i) * rows->counted[r];                    \
                AT(M, share + i) = SHARE(M, counts);                                                         \
            }                                                                                                \
    }                                                                                                        \
                                                                                                             \
    /* Rows of `to` are weighted sums of rows of `from`, and then columns are picked. */                     \
    M##_TARGET INLINE void M##_rows_and_picks(const work *w, const sparse *rows, const sparse *columns,      \
                                              st_real value, const st_real *from, st_real *to)               \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const picks *k = &columns->picks;                                                                    \
        const ptrdiff_t wide = columns->size, out = columns->out, area = rows->size * wide,                  \
                        total = w->planes * rows->out, most = rows_of_block(k, rows->out);                   \
        const st_real *end = from + w->planes * area;                                                        \
        const st_real *fetched = is_far(w->plan->planes * area, THIRD) ? from : NULL;                        \
        /* Where a third of the rows are left out, they would be fetched between others of one tap. */       \
        const ptrdiff_t least = 2 * rows->size > 3 * rows->out ? 2 : 1;                                      \
        groups b = { .pitch = k->rows * k->step, .none = value, .to = to };                                  \
        b.end = to + total * out;                                                                            \
        b.to_far = is_far(total * out, SECOND);                                                              \
        if (w->plan->means) b.share = w->share, b.shared = k->rows * out;                                    \
        for (ptrdiff_t r = 0, oh = 0, n; r < total; r += n, b.to += n * out) {                               \
            n = smallest(most, total - r);                                                                   \
            b.count = ceil_div(n, k->rows);                                                                  \
            b.from = rows->ordered ? from + oh * wide : w->block;                                            \
            if (b.share && (r == 0 || (!rows->even && most % rows->out > 0)))                                \
                M##_shares(rows, oh, n, columns, w->share);                                                  \
            const bool copied = !rows->ordered || b.from + (b.count - 1) * b.pitch + k->reach > end;         \
            if (copied) b.from = w->block;                                                                   \
            b.far = !copied && is_far(w->planes * area, SECOND);                                             \
            for (ptrdiff_t l = 0; l < n; l++) {                                                              \
                const tap *t = rows->taps + rows->begin[oh];                                                 \
                const ptrdiff_t count = rows->begin[oh + 1] - rows->begin[oh];                               \
                if (copied) fetched = fetch(fetched, t, count, from, wide, end, least);                      \
                const bool soon = copied && !fetched && count > 0 && count < 3 && oh + 1 < rows->out;        \
                if (soon) /* the next row's last tap */                                                      \
                    FETCH_LINES(from + rows->taps[rows->begin[oh + 2] - 1].from * wide, wide, 0, 3);         \
                st_real *next = w->block + l * k->step;                                                      \
                if (copied && count == 0 && value != 0)                                                      \
                    for (ptrdiff_t i = 0; i < wide; i++) next[i] = value;                                    \
                else if (copied)                                                                             \
                    M##_sum_rows(wide, t, count, from, wide, from + area + LANES <= end, !fetched, next);    \
                if (++oh == rows->out) oh = 0, from += area;                                                 \
            }                                                                                                \
            M##_pick_groups(k, SUMS, &b);                                                                    \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* x times `by`, so that vectors are used: the compiler cannot tell that `to` is none of both. */        \
    M##_TARGET INLINE void M##_times(ptrdiff_t n, const st_real *x, const st_real *by, st_real *to)          \
    {                                                                                                        \
        ptrdiff_t i = 0;                                                                                     \
        for (; i + ISA_LANES(M) <= n; i += ISA_LANES(M)) AT(M, to + i) = AT(M, x + i) * AT(M, by + i);       \
        for (; i < n; i++) to[i] = x[i] * by[i];                                                             \
    }                                                                                                        \
                                                                                                             \
    /* The other way round. Means, here those of dy, are shared out first. */                                \
    M##_TARGET INLINE void M##_picks_and_rows(const work *w, const sparse *rows, const sparse *columns,      \
                                              const st_real *from, st_real *to)                              \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const picks *k = &columns->picks;                                                                    \
        const ptrdiff_t wide = columns->size, out = columns->out, high = rows->size,                         \
                        most = rows_of_block(k, high), some = planes_of_block(high * largest(wide, out));    \
        const sparse *shares = w->plan->axis;                                                                \
        const st_real *end = from + w->planes * high * wide, *to_end = to + w->planes * rows->out * out;     \
        const bool means = w->plan->means;                                                                   \
        groups b = { .pitch = k->rows * k->step };                                                           \
        for (ptrdiff_t plane = 0, planes; plane < w->planes; plane += planes) {                              \
            planes = smallest(some, w->planes - plane);                                                      \
            const ptrdiff_t all = planes * high;                                                             \
            b.end = w->half + all * out + LANES;                                                             \
            for (ptrdiff_t i = 0, n; i < all; i += n, from += n * wide) {                                    \
                n = smallest(most, all - i);                                                                 \
                b.count = ceil_div(n, k->rows);                                                              \
                b.to = w->half + i * out;                                                                    \
                const bool copied = means || from + (b.count - 1) * b.pitch + k->reach > end;                \
                b.from = copied ? w->block : from;                                                           \
                b.far = !copied && is_far(w->planes * high * wide, SECOND);                                  \
                if (means && ((plane == 0 && i == 0) || (!shares->even && most % high > 0)))                 \
                    M##_shares(&shares[0], i % high, n, &shares[1], w->share);                               \
                const ptrdiff_t count = n * wide;                                                            \
                if (means) M##_times(count, from, w->share, w->block);                                       \
                else if (copied) memcpy(w->block, from, (size_t)count * sizeof *from);                       \
                M##_pick_groups(k, SUMS, &b);                                                                \
            }                                                                                                \
            const st_real *half = w->half;                                                                   \
            for (ptrdiff_t i = 0, oh = 0, n; i < planes * rows->out; i += n, to += n * out) {                \
                const ptrdiff_t first = rows->begin[oh], count = rows->begin[oh + 1] - first;                \
                n = count == 2 ? M##_sum_narrow(rows, oh, to_end - to - LANES, out, half, to) : 0;           \
                if (n == 0) {                                                                                \
                    n = rows->alike[oh];                                                                     \
                    const ptrdiff_t length = out * n;                                                        \
                    M##_sum_rows(length, rows->taps + first, count, half, out,                               \
                                 to + length + LANES <= to_end, false, to);                                  \
                }                                                                                            \
                oh += n;                                                                                     \
                if (oh == rows->out) oh = 0, half += high * out;                                             \
            }                                                                                                \
        }                                                                                                    \
    }

/* ---- planes ------------------------------------------------------------------------------------------ */

#define PLANES(M)                                                                                            \
    /* Planes are picked from planes, or from their halves; from copies where vectors pass the end. */       \
    M##_TARGET INLINE void M##_pick_planes(const work *w, bool back, picking how, const st_real *share,      \
                                           st_real value, const st_real *from, st_real *places, st_real *to) \
    {                                                                                                        \
        const sparse *a = &w->plan->plane[back], *half = &w->plan->half[back];                               \
        const picks *k = &a->picks;                                                                          \
        const bool halved = half->out > 0;                                                                   \
        const ptrdiff_t last = w->planes * a->size - k->reach, step = k->rows * a->size;                     \
        const ptrdiff_t out = k->rows * (halved ? half->out : a->out);                                       \
        const ptrdiff_t direct = last < 0 ? 0 : last / step + 1, all = ceil_div(w->planes, k->rows);         \
        groups b = {                                                                                         \
            .pitch = step, .places = places, .to = to, .end = to + w->planes * (halved ? half->out : a->out) \
        };                                                                                                   \
        if (!halved) b.share = share, b.none = value;                                                        \
        b.far = is_far(w->planes * a->size, SECOND);                                                         \
        b.to_far = is_far(b.end - to, SECOND);                                                               \
        for (ptrdiff_t g = 0; g < all; g += b.count) {                                                       \
            b.count = g >= direct ? 1 : halved ? smallest(BESIDE, direct - g) : direct;                      \
            b.from = g < direct ? from + g * step : w->block;                                                \
            const size_t bytes = (size_t)smallest(step, w->planes * a->size - g * step) * sizeof *from;      \
            if (g >= direct) memcpy(w->block, from + g * step, bytes);                                       \
            if (how == BACK) b.places = g < direct ? places + g * step : w->share;                           \
            if (how == BACK && g >= direct) memcpy(w->share, places + g * step, bytes);                      \
            if (halved) {                                                                                    \
                groups first = b, then = b;                                                                  \
                first.to = w->half, first.end = w->half + b.count * k->out + ISA_LANES(M);                   \
                first.to_far = false;                                                                        \
                then.from = w->half, then.pitch = k->out, then.share = share, then.far = false;              \
                M##_pick_groups(k, SUMS, &first);                                                            \
                M##_pick_groups(&half->picks, SUMS, &then);                                                  \
            } else M##_pick_groups(k, how, &b);                                                              \
            b.to += b.count * out;                                                                           \
            if (how == MAXIMA && places) b.places += b.count * out;                                          \
        }                                                                                                    \
    }

/* ---- for each instruction set ---------------------------------------------------------------------- */

#define STAMP(M)                                                                                             \
    PICKS(M)                                                                                                 \
    PLANES(M)                                                                                                \
    M##_TARGET static void M##_by_picks(const work *w, bool back, const st_real *from, st_real *to)          \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        const sparse *rows = back ? p->back : p->axis, *columns = rows + 1;                                  \
        const bool rows_first = back ? p->tall || (rows->ordered && !p->means) : !p->tall;                   \
        if (rows_first) M##_rows_and_picks(w, rows, columns, back ? 0 : p->value, from, to);                 \
        else M##_picks_and_rows(w, rows, columns, from, to);                                                 \
    }                                                                                                        \
    M##_TARGET static void M##_sums_of_planes(const work *w, bool back, const st_real *from, st_real *to)    \
    {                                                                                                        \
        const rows_plan *p = w->plan;                                                                        \
        if (back) M##_pick_planes(w, true, SUMS, NULL, 0, from, NULL, to);                                   \
        else M##_pick_planes(w, false, SUMS, p->means ? p->shares : NULL, p->value, from, NULL, to);         \
    }                                                                                                        \
    M##_TARGET static void M##_maxima_of_planes(const work *w, bool back, const st_real *from,               \
                                                st_real *places, st_real *to)                                \
    {                                                                                                        \
        if (back) M##_pick_planes(w, true, BACK, NULL, 0, from, places, to);                                 \
        else M##_pick_planes(w, false, MAXIMA, NULL, -(st_real)INFINITY, from, places, to);                  \
    }
EACH_ISA(STAMP)

#define BY_PICKS(M) M##_by_picks,
rows_pass *const rows_by_picks[] = { EACH_ISA(BY_PICKS) };

#define BY_PLANES(M) M##_sums_of_planes,
rows_pass *const rows_by_planes[] = { EACH_ISA(BY_PLANES) };

#define MAXIMA_BY_PLANES(M) M##_maxima_of_planes,
planes_pass *const maxima_by_planes[] = { EACH_ISA(MAXIMA_BY_PLANES) };
