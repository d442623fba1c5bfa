/* rows_runs.c: borders, and other resizing that only moves runs of columns: they are copied, and added on the
 * way back. Rows may be weighted sums. */
#include "layers/fast/functions.h"
#include "layers/fast/rows_sums.h"
#include "tensor/counts.h"

#include <string.h>

enum { RUN = 8 }; /* the shortest mean run of columns */

/* The adjoint of a run. */
INLINE void add_run(const column_run *r, const st_real *restrict y, st_real *restrict x)
{
    st_real *restrict to = x + r->from, sum = 0;
    if (r->step == 1)
        for (ptrdiff_t j = 0; j < r->count; j++) to[j] += y[j];
    else if (r->step == -1)
        for (ptrdiff_t j = 0; j < r->count; j++) to[-j] += y[j];
    else {
        for (ptrdiff_t j = 0; j < r->count; j++) sum += y[j];
        *to += sum;
    }
}

INLINE void reverse(ptrdiff_t n, const st_real *restrict from, st_real *restrict to)
{
    for (ptrdiff_t i = 0; i < n; i++) to[i] = from[-i];
}

/* Tests if half of the rows are read after lower ones, or with others far from them, as of reflections: no
 * hardware fetches the next ones, and those of the next image are fetched meanwhile. */
static bool jumps(const sparse *rows)
{
    ptrdiff_t count = 0, before = 0;
    for (ptrdiff_t i = 0; i < rows->out; i++) {
        const tap *t = rows->taps + rows->begin[i], *end = rows->taps + rows->begin[i + 1];
        if (t == end) continue;
        if (t->from < before || end[-1].from - t->from >= end - t) count++;
        before = t->from;
    }
    return 2 * count >= rows->out;
}

/* Rows are fetched so many elements before they are read: those of a later image, if images are small or rows
 * jump, so that rows that are left out are not fetched. */
static ptrdiff_t apart_of(const sparse *rows, ptrdiff_t area)
{
    const bool later = area < AHEAD || (jumps(rows) && !is_far(2 * area, SECOND));
    return later ? ceil_div(AHEAD, largest(area, 1)) * area : AHEAD;
}

/* At most n, as many as fit `room`; often n is 1, and divisions take long. */
INLINE ptrdiff_t fitting(ptrdiff_t n, ptrdiff_t room, ptrdiff_t each)
{
    return n * each <= room ? n : room / each;
}

/* The run of columns, forward or backward, if there is one alone, it is narrow, and the columns before and
 * after it are a vector at most; otherwise its count is 0. */
static column_run narrow_run(const rows_plan *p, ptrdiff_t lanes, bool back)
{
    const column_run r = p->run_count == 1 && !p->axis[1].ordered ? p->runs[0] : (column_run){ 0 };
    const ptrdiff_t before = back ? r.from : r.to, out = back ? p->axis[1].size : p->axis[1].out;
    if (r.step != 1 || r.count > NARROW_ROW * lanes || before > lanes || out - before - r.count > lanes)
        return (column_run){ 0 };
    return back ? (column_run){ r.from, r.to, r.count, 1 } : r;
}

/* Tests if a run in reverse is wider than a narrow one. */
static bool is_wide(const column_run *r, ptrdiff_t lanes)
{
    return r->step < 0 && r->count > NARROW_ROW * lanes;
}

/* Vectors are read and written beyond the ends of rows; the next row is written later. */
#define RUNS(M)                                                                                              \
    M##_TARGET INLINE void M##_copy(ptrdiff_t n, const st_real *from, st_real *to)                           \
    {                                                                                                        \
        for (ptrdiff_t i = 0; i < n; i += ISA_LANES(M)) AT(M, to + i) = AT(M, from + i);                     \
    }                                                                                                        \
                                                                                                             \
    /* A row of y from a row of x; NULL: there is none. */                                                   \
    M##_TARGET INLINE void M##_copy_runs(const rows_plan *p, const st_real *x, st_real *y)                   \
    {                                                                                                        \
        const M##_vector value = (M##_vector){ 0 } + p->value;                                               \
        const ptrdiff_t out = p->axis[1].out;                                                                \
        ptrdiff_t done = 0;                                                                                  \
        for (const column_run *r = p->runs; x && r < p->runs + p->run_count; r++) {                          \
            for (; done < r->to; done += ISA_LANES(M)) AT(M, y + done) = value;                              \
            const st_real *from = x + r->from;                                                               \
            st_real *to = y + r->to;                                                                         \
            const M##_vector one = (M##_vector){ 0 } + *from;                                                \
            if (r->step == 1) M##_copy(r->count, from, to);                                                  \
            else if (r->step == 0)                                                                           \
                for (ptrdiff_t i = 0; i < r->count; i += ISA_LANES(M)) AT(M, to + i) = one;                  \
            else reverse(r->count, from, to);                                                                \
            done = r->to + r->count;                                                                         \
        }                                                                                                    \
        for (; done < out; done += ISA_LANES(M)) AT(M, y + done) = value;                                    \
    }                                                                                                        \
                                                                                                             \
    /* The adjoint of a run. One in reverse is added by vectors if it is wide: loads wait for stores that */ \
    /* they overlap in part. The last vector comes first, and `rest` of its elements are added. */           \
    M##_TARGET INLINE void M##_add_run(const column_run *r, const st_real *y, st_real *x)                    \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const ptrdiff_t count = r->count, rest = count % LANES;                                              \
        M##_mask turned;                                                                                     \
        EACH(l, LANES) turned[l] = LANES - 1 - l;                                                            \
        if (!M##_SHUFFLES || !is_wide(r, LANES)) {                                                           \
            add_run(r, y, x);                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (ptrdiff_t i = rest > 0 ? -LANES : 0; i + LANES <= count; i += LANES) {                          \
            const ptrdiff_t j = i < 0 ? count - LANES : i;                                                   \
            st_real *to = x + r->from - j - (LANES - 1);                                                     \
            const M##_vector before = AT(M, to), v = AT(M, y + j);                                           \
            M##_vector sum = before + SHUFFLE_BY(M, v, v, turned);                                           \
            if (i < 0) sum = ISA_PICK(M, turned >= (isa_bits)(LANES - rest), sum, before);                   \
            AT(M, to) = sum;                                                                                 \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    /* A row of dx from a row of dy: the longest run of adjacent columns is copied, the others are added. */ \
    M##_TARGET INLINE void M##_add_runs(const rows_plan *p, const column_run *longest, const st_real *dy,    \
                                        st_real *dx)                                                         \
    {                                                                                                        \
        const M##_vector none = { 0 };                                                                       \
        const ptrdiff_t wide = p->axis[1].size, first = longest ? longest->from : wide,                      \
                        end = longest ? first + longest->count : wide;                                       \
        const st_real *from = longest ? dy + longest->to : dy;                                               \
        for (ptrdiff_t i = 0; i < first; i += ISA_LANES(M)) AT(M, dx + i) = none;                            \
        M##_copy(end - first, from, dx + first);                                                             \
        for (ptrdiff_t i = end; i < wide; i += ISA_LANES(M)) AT(M, dx + i) = none;                           \
        for (const column_run *r = p->runs; r < p->runs + p->run_count; r++)                                 \
            if (r != longest) M##_add_run(r, dy + r->to, dx);                                                \
    }                                                                                                        \
                                                                                                             \
    /* n rows of a narrow run of v vectors, and of the columns beside it. */                                 \
    M##_TARGET INLINE void M##_copy_narrow(int v, ptrdiff_t n, column_run r, st_real none, const st_real *x, \
                                           ptrdiff_t wide, st_real *y, ptrdiff_t out)                        \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const M##_vector value = (M##_vector){ 0 } + none;                                                   \
        const ptrdiff_t end = r.to + r.count;                                                                \
        for (x += r.from; n > 0; n--, x += wide, y += out) {                                                 \
            M##_vector u[NARROW_ROW];                                                                        \
            EACH(q, v) u[q] = AT(M, x + q * LANES);                                                          \
            if (r.to > 0) AT(M, y) = value;                                                                  \
            EACH(q, v) AT(M, y + r.to + q * LANES) = u[q];                                                   \
            if (end < out) AT(M, y + end) = value;                                                           \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    M##_TARGET INLINE void M##_by_runs(const work *w, bool back, const st_real *x, st_real *y)               \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const rows_plan *p = w->plan;                                                                        \
        const sparse rows = back ? p->back[0] : p->axis[0], columns = back ? p->back[1] : p->axis[1];        \
        const ptrdiff_t wide = columns.size, out = columns.out, area = rows.size * wide,                     \
                        total = w->planes * rows.out;                                                        \
        const st_real *end = x + w->planes * area, *y_end = y + total * out;                                 \
        st_real *sums = back ? w->out_rows : w->rows, *aside = back ? w->rows : w->out_rows;                 \
        const bool far = is_far(w->planes * area, SECOND), to_far = is_far(y_end - y, SECOND);               \
        const ptrdiff_t apart = apart_of(&rows, area);                                                       \
        const bool every = back && jumps(&rows);                                                             \
        const column_run *longest = NULL;                                                                    \
        for (const column_run *r = p->runs; r < p->runs + p->run_count; r++)                                 \
            if (r->step == 1 && (!longest || r->count > longest->count)) longest = r;                        \
        const column_run narrow = narrow_run(p, LANES, back);                                                \
        const ptrdiff_t v = ceil_div(narrow.count, LANES);                                                   \
        const st_real value = back ? 0 : p->value;                                                           \
        for (ptrdiff_t r = 0, i = 0, n; r < total; r += n, y += n * out) {                                   \
            const tap *t = rows.taps + rows.begin[i];                                                        \
            const ptrdiff_t count = rows.begin[i + 1] - rows.begin[i];                                       \
            const bool goes_on = x + area + LANES <= end, last = y + out + LANES > y_end;                    \
            const bool one = count == 1 && t->weight == 1;                                                   \
            const st_real *row = count > 0 ? x + t->from * wide : x;                                         \
            st_real *to = last ? aside : y;                                                                  \
            n = v > 0 && (count == 0 || one) ? fitting(rows.alike[i], y_end - y - LANES, out) : 0;           \
            if (n > 0 && one) n = fitting(n, end - row - narrow.from - v * LANES, wide);                     \
            if (n > 0 && count == 0) {                                                                       \
                for (ptrdiff_t k = 0; k < n * out; k += LANES) AT(M, y + k) = (M##_vector){ 0 } + value;     \
            } else if (n > 0 && v == 1) {                                                                    \
                M##_copy_narrow(1, n, narrow, value, row, wide, y, out);                                     \
            } else if (n > 0 && v == 2) {                                                                    \
                M##_copy_narrow(2, n, narrow, value, row, wide, y, out);                                     \
            } else if (n > 0) {                                                                              \
                M##_copy_narrow(NARROW_ROW, n, narrow, value, row, wide, y, out);                            \
            } else if (columns.ordered && count == 2 && goes_on &&                                           \
                       (n = M##_sum_narrow(&rows, i, y_end - y - LANES, wide, x, y)) > 0) {                  \
            } else if (columns.ordered && (back || count > 0)) {                                             \
                n = rows.alike[i];                                                                           \
                const ptrdiff_t all = out * n;                                                               \
                if (one && goes_on && y + all + LANES <= y_end) M##_copy(all, row, y);                       \
                else if (one) memcpy(y, row, (size_t)all * sizeof *y);                                       \
                else M##_sum_rows(all, t, count, x, wide, goes_on && !last && n == 1, true, y);              \
            } else {                                                                                         \
                n = 1;                                                                                       \
                if (!one || row + wide + LANES > end) {                                                      \
                    M##_sum_rows(wide, t, count, x, wide, goes_on, true, sums);                              \
                    row = sums;                                                                              \
                }                                                                                            \
                if (back) M##_add_runs(p, longest, row, to);                                                 \
                else M##_copy_runs(p, count > 0 ? row : NULL, to);                                           \
                if (last) memcpy(y, to, (size_t)out * sizeof *y);                                            \
            }                                                                                                \
            for (ptrdiff_t k = 0; far && k < (every ? count : smallest(count, 1)); k++) {                    \
                const st_real *next = x + t[k].from * wide + largest(n * wide, apart);                       \
                FETCH_LINES(next, smallest(n *wide, apart), 0, 3);                                           \
            }                                                                                                \
            if (to_far) FETCH_LINES(y + largest(n * out, AHEAD), smallest(n * out, AHEAD), 1, 3);            \
            i += n;                                                                                          \
            if (i == rows.out) i = 0, x += area;                                                             \
        }                                                                                                    \
    }

#define STAMP(M)                                                                                             \
    RUNS(M)                                                                                                  \
    M##_TARGET static void M##_runs(const work *w, bool back, const st_real *from, st_real *to)              \
    {                                                                                                        \
        if (back) M##_by_runs(w, true, from, to);                                                            \
        else M##_by_runs(w, false, from, to);                                                                \
    }
EACH_ISA(STAMP)

#define ADDRESS(M) M##_runs,
rows_pass *const rows_by_runs[] = { EACH_ISA(ADDRESS) };

/* ---- plans ------------------------------------------------------------------------------------------- */

void rows_find_runs(rows_plan *p)
{
    enum { FEW = 3 };
    const sparse *a = &p->axis[1];
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < a->out; i++) {
        const tap *t = a->taps + a->begin[i];
        if (a->begin[i + 1] - a->begin[i] > 1) return;
        if (a->begin[i + 1] == a->begin[i]) continue;
        if (t->weight != 1) return;
        column_run *last = count > 0 ? &p->runs[count - 1] : NULL;
        const bool next = last && last->to + last->count == i;
        const ptrdiff_t step = next ? t->from - (last->from + (last->count - 1) * last->step) : 2;
        if (next && step >= -1 && step <= 1 && (last->count == 1 || step == last->step)) {
            last->step = step;
            last->count++;
        } else p->runs[count++] = (column_run){ i, t->from, 1, 1 };
    }
    if (count <= FEW || count * RUN <= a->out) p->run_count = count;
}

/* A row of x, or of dy, and then each run. */
double rows_cost_of_runs(const rows_plan *p, int lanes, bool shuffles, bool back)
{
    const sparse *rows = back ? p->back : p->axis, *columns = rows + 1;
    const double vectors = (double)ceil_div(columns->size, lanes), taps = (double)rows->begin[rows->out];
    double row = 10;
    const column_run one = narrow_run(p, lanes, back);
    const int beside = (one.to > 0) + (one.to + one.count < columns->out);
    if (one.count > 0)
        return 10 + 2 * (double)rows->out + (double)(3 + 2 * ceil_div(one.count, lanes) + 2 * beside) * taps;
    if (columns->ordered) return 6 * (double)rows->out + 2 * vectors * taps;
    for (ptrdiff_t k = 0; k < p->run_count; k++) {
        const column_run r = p->runs[k];
        const bool most = 2 * r.count > p->axis[1].size;
        const double by_one = (double)r.count, each = (double)ceil_div(r.count, lanes);
        if (back && shuffles && is_wide(&r, lanes)) row += 30 + 6 * each;
        else if (back && r.step < 1) row += 6 + 1.2 * by_one;
        else if (r.step < 0) row += 6 + by_one / 2;
        else row += back && !most ? 6 + 3 * (each + (double)(r.count % lanes)) : 6 + 2 * each;
    }
    return row * (double)rows->out + 4 * vectors * fmax(taps - (double)rows->out, 0);
}
