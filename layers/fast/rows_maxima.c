/* rows_maxima.c: maxima of windows by rows: maxima of columns over each window's rows, with their rows, and
 * then those of rows, by picks or by transposed columns. The first one of equal ones counts. */
#include "layers/fast/rows_picks.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

/* maxima_of_columns: of each of n columns over a window's rows, with their rows; vectors write a whole one
 * beyond, and may read up to there if x goes on. maxima_of_rows: the first one of equal maxima is the one in
 * the upper row, or left of the other. */
#define COLUMN_MAXIMA(M)                                                                                     \
    /* The maxima of `beside` vectors from column i on; the last ones may overlap, rows are `step` apart. */ \
    M##_TARGET INLINE void M##_maxima_beside(int beside, ptrdiff_t n, const tap *t, ptrdiff_t count,         \
                                             const st_real *top, ptrdiff_t step, ptrdiff_t i, st_real *best, \
                                             st_real *place)                                                 \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_vector most[BESIDE], at[BESIDE];                                                                 \
        ptrdiff_t from[BESIDE];                                                                              \
        EACH(v, beside) from[v] = smallest(i + v * LANES, largest(n - LANES, 0));                            \
        EACH(v, beside) most[v] = AT(M, top + from[v]), at[v] = (M##_vector){ 0 } + (st_real)t->from;        \
        EACH(v, beside) __builtin_prefetch(top + from[v] + AHEAD);                                           \
        for (ptrdiff_t k = 1; k < count; k++) {                                                              \
            const st_real *next = top + k * step;                                                            \
            const M##_vector row = (M##_vector){ 0 } + (st_real)t[k].from;                                   \
            EACH(v, beside) __builtin_prefetch(next + from[v] + AHEAD);                                      \
            EACH(v, beside)                                                                                  \
            {                                                                                                \
                const M##_vector u = AT(M, next + from[v]);                                                  \
                const M##_mask exceeds = ~(u <= most[v]) & (most[v] == most[v]);                             \
                most[v] = ISA_PICK(M, exceeds, u, most[v]);                                                  \
                if (place) at[v] = ISA_PICK(M, exceeds, row, at[v]);                                         \
            }                                                                                                \
        }                                                                                                    \
        EACH(v, beside) AT(M, best + from[v]) = most[v];                                                     \
        if (place) EACH(v, beside) AT(M, place + from[v]) = at[v];                                           \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_maxima_of_columns(const rows_plan *p, ptrdiff_t oh, const st_real *x,         \
                                                 bool goes_on, st_real *best, st_real *place)                \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const sparse *rows = &p->axis[0];                                                                    \
        const ptrdiff_t n = p->axis[1].size, first = rows->begin[oh], last = rows->begin[oh + 1];            \
        const tap *t = rows->taps + first;                                                                   \
        const ptrdiff_t count = last - first, step = count > 1 ? t[1].from - t[0].from : 0;                  \
        const bool inside = count > 0 && t->from >= 0 && t[count - 1].from < rows->size;                     \
        const st_real *top = inside ? x + t->from * n : x;                                                   \
        ptrdiff_t i = 0;                                                                                     \
        for (bool some; inside && i < n && (goes_on || n >= LANES); i += some ? BESIDE * LANES : LANES) {    \
            some = n - i > LANES;                                                                            \
            if (some && n - i > 2 * LANES)                                                                   \
                M##_maxima_beside(BESIDE, n, t, count, top, step *n, i, best, place);                        \
            else if (some) M##_maxima_beside(2, n, t, count, top, step *n, i, best, place);                  \
            else M##_maxima_beside(1, n, t, count, top, step *n, i, best, place);                            \
        }                                                                                                    \
        for (; i < n; i += LANES) {                                                                          \
            M##_vector most = (M##_vector){ 0 } - (st_real)INFINITY, at = (M##_vector){ 0 } + NOWHERE;       \
            for (ptrdiff_t k = first; k < last; k++) {                                                       \
                const ptrdiff_t row = rows->taps[k].from;                                                    \
                M##_vector v = { 0 };                                                                        \
                if (row >= 0 && row < rows->size && (goes_on || i + LANES <= n)) v = AT(M, x + row * n + i); \
                else if (row >= 0 && row < rows->size) {                                                     \
                    st_real rest[LANES] = { 0 };                                                             \
                    for (ptrdiff_t j = i; j < n; j++) rest[j - i] = x[row * n + j];                          \
                    v = AT(M, rest);                                                                         \
                }                                                                                            \
                M##_mask exceeds = ~(v <= most) & (most == most);                                            \
                if (k == first) exceeds = ~(M##_mask){ 0 };                                                  \
                most = ISA_PICK(M, exceeds, v, most);                                                        \
                if (place) at = ISA_PICK(M, exceeds, (M##_vector){ 0 } + (st_real)row, at);                  \
            }                                                                                                \
            AT(M, best + i) = most;                                                                          \
            if (place) AT(M, place + i) = at;                                                                \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_maxima_of_rows(const work *w, ptrdiff_t r, bool placed)                       \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const sparse *rows = &w->plan->axis[0], *columns = &w->plan->axis[1];                                \
        const M##_vector zero = { 0 };                                                                       \
        const bool single = w->plan->single;                                                                 \
        st_real tops[LANES];                                                                                 \
        for (int l = 0; l < LANES && placed; l++) {                                                          \
            const ptrdiff_t oh = (r + l) % rows->out, first = rows->begin[oh];                               \
            tops[l] = first < rows->begin[oh + 1] ? (st_real)rows->taps[first].from : NOWHERE;               \
        }                                                                                                    \
        for (ptrdiff_t i = 0; i < columns->out; i++) {                                                       \
            M##_vector most = zero - (st_real)INFINITY, row = zero + NOWHERE, column = zero;                 \
            for (ptrdiff_t k = columns->begin[i]; k < columns->begin[i + 1]; k++) {                          \
                const ptrdiff_t from = columns->taps[k].from;                                                \
                const bool inside = from >= 0 && from < columns->size;                                       \
                M##_vector v = zero, at = zero;                                                              \
                if (inside) v = AT(M, w->columns + from * LANES);                                            \
                M##_mask exceeds = ~(v <= most) & (most == most);                                            \
                if (placed) {                                                                                \
                    at = AT(M, tops);                                                                        \
                    if (inside && !single) at = AT(M, w->place_columns + from * LANES);                      \
                    exceeds |= ((v == most) | ((v != v) & (most != most))) & (at < row);                     \
                }                                                                                            \
                if (k == columns->begin[i]) exceeds = ~(M##_mask){ 0 };                                      \
                most = ISA_PICK(M, exceeds, v, most);                                                        \
                if (!placed) continue;                                                                       \
                row = ISA_PICK(M, exceeds, at, row);                                                         \
                column = ISA_PICK(M, exceeds, zero + (st_real)from, column);                                 \
            }                                                                                                \
            AT(M, w->out_columns + i * LANES) = most;                                                        \
            if (!placed) continue;                                                                           \
            const M##_mask is = (row >= 0) & (row < (st_real)rows->size) & (column >= 0) &                   \
                                (column < (st_real)columns->size);                                           \
            AT(M, w->columns + (columns->pitch + i) * LANES) =                                               \
                ISA_PICK(M, is, row * (st_real)columns->size + column, zero - 1);                            \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* n maxima by picks from those of columns, whose rows are `rows`. `loose`: as of sum_rows. */           \
    M##_TARGET INLINE void M##_pick_maxima(const work *w, const st_real *row, const st_real *rows,           \
                                           bool loose, ptrdiff_t n, st_real *y, st_real *places)             \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const sparse *size = w->plan->axis;                                                                  \
        const picks k = size[1].picks;                                                                       \
        const M##_vector zero = { 0 };                                                                       \
        const st_real high = (st_real)size[0].size, wide = (st_real)size[1].size;                            \
        ptrdiff_t at = 0;                                                                                    \
        for (ptrdiff_t begin = 0; begin < n; begin += LANES) {                                               \
            const ptrdiff_t i = k.out < LANES ? 0 : lanes_within(begin, LANES, k.out);                       \
            const ptrdiff_t taps = k.pick[at].taps;                                                          \
            M##_vector most, from = zero;                                                                    \
            M##_pick(&k.pick[at], (M##_mask)AT(M, k.index + at * LANES), row, 0, 1, &most);                  \
            M##_vector column = AT(M, k.weight + at * LANES);                                                \
            if (k.pick[at].lacks) most = ISA_PICK(M, column > NOWHERE, most, zero - (st_real)INFINITY);      \
            if (places) M##_pick(&k.pick[at], (M##_mask)AT(M, k.index + at * LANES), rows, 0, 1, &from);     \
            at++;                                                                                            \
            for (ptrdiff_t j = 1; j < taps; j++, at++) {                                                     \
                const isa_bits *index = k.index + at * LANES;                                                \
                const M##_vector here = AT(M, k.weight + at * LANES);                                        \
                M##_vector v, in = zero;                                                                     \
                M##_pick(&k.pick[at], (M##_mask)AT(M, index), row, 0, 1, &v);                                \
                if (places) M##_pick(&k.pick[at], (M##_mask)AT(M, index), rows, 0, 1, &in);                  \
                M##_mask exceeds = ~(v <= most) & (most == most);                                            \
                if (places) exceeds |= ((v == most) | ((v != v) & (most != most))) & (in < from);            \
                if (k.pick[at].lacks) exceeds &= here > NOWHERE;                                             \
                most = ISA_PICK(M, exceeds, v, most);                                                        \
                if (places) from = ISA_PICK(M, exceeds, in, from);                                           \
                if (places) column = ISA_PICK(M, exceeds, here, column);                                     \
            }                                                                                                \
            const M##_mask is = (from >= 0) & (from < high) & (column >= 0) & (column < wide);               \
            const M##_vector place = ISA_PICK(M, is, from * wide + column, zero - 1);                        \
            const size_t bytes = (size_t)largest(n - i, 0) * sizeof *y;                                      \
            const bool whole = loose || i + LANES <= n;                                                      \
            if (whole) AT(M, y + i) = most;                                                                  \
            else memcpy(y + i, &most, bytes);                                                                \
            if (places && whole) AT(M, places + i) = place;                                                  \
            else if (places) memcpy(places + i, &place, bytes);                                              \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* Maxima of columns, and then picks. Elements outside are 0. */                                         \
    M##_TARGET INLINE void M##_picked_maxima(const work *w, const st_real *x, st_real *y, st_real *places)   \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const rows_plan *p = w->plan;                                                                        \
        const sparse rows = p->axis[0], columns = p->axis[1];                                                \
        const picks k = columns.picks;                                                                       \
        const ptrdiff_t wide = columns.size, out = columns.out, area = rows.size * wide,                     \
                        total = w->planes * rows.out, left = largest(-k.low, 0),                             \
                        right = largest(k.high, wide);                                                       \
        const st_real *end = x + w->planes * area, *y_end = y + total * out;                                 \
        for (ptrdiff_t r = 0, oh = 0, n; r < total; r += n, y += n * out) {                                  \
            n = smallest(k.rows, total - r);                                                                 \
            for (ptrdiff_t l = 0; l < n; l++) {                                                              \
                const ptrdiff_t first = rows.begin[oh];                                                      \
                const st_real top = first < rows.begin[oh + 1] ? (st_real)rows.taps[first].from : NOWHERE;   \
                st_real *best = w->rows + left + l * k.step, *at = w->places + left + l * k.step;            \
                M##_maxima_of_columns(p, oh, x, x + area + LANES <= end, best, places ? at : NULL);          \
                for (ptrdiff_t j = -left; j < 0; j++) best[j] = 0, at[j] = top;                              \
                for (ptrdiff_t j = wide; j < right; j++) best[j] = 0, at[j] = top;                           \
                if (++oh == rows.out) oh = 0, x += area;                                                     \
            }                                                                                                \
            M##_pick_maxima(w, w->rows + left, w->places + left, y + n * out + LANES <= y_end, n * out, y,   \
                            places);                                                                         \
            if (places) places += n * out;                                                                   \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET INLINE void M##_maxima(const work *w, const st_real *x, st_real *y, st_real *places)          \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        if (w->plan->axis[1].picks.used) {                                                                   \
            M##_picked_maxima(w, x, y, places);                                                              \
            return;                                                                                          \
        }                                                                                                    \
        const rows_plan *p = w->plan;                                                                        \
        const sparse rows = p->axis[0], columns = p->axis[1];                                                \
        const ptrdiff_t total = w->planes * rows.out, area = rows.size * columns.size;                       \
        const bool placed = places && !p->single;                                                            \
        for (ptrdiff_t r = 0, n; r < total; r += n) {                                                        \
            n = smallest(total - r, LANES);                                                                  \
            if (rows.ordered)                                                                                \
                enter(w->kernel, n, columns.size, columns.pitch, x + r * columns.size, w->rows, w->columns); \
            for (ptrdiff_t l = 0; l < n && !rows.ordered; l++) {                                             \
                const ptrdiff_t plane = (r + l) / rows.out;                                                  \
                M##_maxima_of_columns(p, (r + l) % rows.out, x + plane * area,                               \
                                      plane < w->planes - 1 && area >= LANES, w->rows + l * columns.pitch,   \
                                      placed ? w->places + l * columns.pitch : NULL);                        \
            }                                                                                                \
            if (!rows.ordered) turn_rows(w->kernel, columns.pitch, w->rows, w->columns);                     \
            if (placed) turn_rows(w->kernel, columns.pitch, w->places, w->place_columns);                    \
            M##_maxima_of_rows(w, r, places != NULL);                                                        \
            leave(w->kernel, n, columns.out, columns.out_pitch, w->out_columns, w->out_rows,                 \
                  y + r * columns.out);                                                                      \
            if (places)                                                                                      \
                leave(w->kernel, n, columns.out, columns.out_pitch, w->columns + columns.pitch * LANES,      \
                      w->out_rows, places + r * columns.out);                                                \
        }                                                                                                    \
    }

#define STAMP(M)                                                                                             \
    COLUMN_MAXIMA(M)                                                                                         \
    M##_TARGET static void M##_maxima_any(const work *w, const st_real *x, st_real *places, st_real *y)      \
    {                                                                                                        \
        if (places) M##_maxima(w, x, y, places);                                                             \
        else M##_maxima(w, x, y, NULL);                                                                      \
    }
EACH_ISA(STAMP)

#define ADDRESS(M) M##_maxima_any,
maxima_pass *const maxima_by_rows[] = { EACH_ISA(ADDRESS) };
