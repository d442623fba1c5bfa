/* norm.c: batch, layer, root-mean-square and group normalisation of contiguous images; layers/norm.c has the
 * definitions. The first loop over a set computes two sums, by fixed lanes, so that every instruction set
 * gives the same bits; the second one writes the result. gradient and backward share the sums.
 *
 *     norm_sums.h        the sums
 *     norm_pass.h        how images are divided into sets, and what a pass over them has
 *     norm_elements.h    mean and deviation, and results of elements */
#include "layers/fast/algorithms.h"
#include "layers/fast/norm_elements.h"
#include "layers/types.h"

/* How far ahead of the sums of sets before set k elements are fetched: a page, at whose end hardware ceases
 * to fetch. The second loop reads the first cache, and writes while what was fetched arrives. */
INLINE ptrdiff_t ahead_of_sums(const norm_pass *p, ptrdiff_t k)
{
    enum { PAGE = 4096 / sizeof(st_real) };
    return p->plan->fetches && k * p->set.length + PAGE <= p->end * p->set.length ? PAGE : 0;
}

/* ---- forward --------------------------------------------------------------------------------------- */

static norm_room room_of(const norm_pass *p, ptrdiff_t first, ptrdiff_t count)
{
    const ptrdiff_t length = p->set.length;
    return room_at(st_data(st_scratch(p->c, NORM_ROOM)) + first * length * ROOM_OF_COLUMN, count * length);
}

/* norm_apply of the sets from `first` on, whose x and y these are. */
INLINE void apply_sets(const norm_pass *p, ptrdiff_t first, ptrdiff_t count, const st_real *x, st_real *y,
                       bool streams)
{
    const set_division *plan = p->plan;
    const norm_set s = p->set;
    const ptrdiff_t part = s.length / plan->parts;
    for (ptrdiff_t r = 0; r < s.rows; r++)
        for (ptrdiff_t k = 0; k < count; k++) {
            for (ptrdiff_t i = 0, w = first_weight(plan, first + k); i < plan->parts; i++, w++) {
                const ptrdiff_t at = r * s.stride + k * s.length + i * part;
                run_apply(streams, p, part, y + at, x + at, (double)p->mean[first + k],
                          norm_weight(p, w) / (double)p->deviation[first + k],
                          p->bias ? (double)p->bias[w] : 0);
            }
        }
}

/* The same in a function of its own: inlined with it, rows that are short would take a tenth longer. */
WIDE static __attribute__((noinline)) void stream_sets(const norm_pass *p, ptrdiff_t first, ptrdiff_t count,
                                                       const st_real *x, st_real *y)
{
    apply_sets(p, first, count, x, y, true);
}

/* Channels of a batch are adjacent in an image, so several are processed together, image by image. */
INLINE void forward_sets(const norm_pass *p, ptrdiff_t first, ptrdiff_t count)
{
    const set_division *plan = p->plan;
    const norm_set s = p->set;
    const bool batch = plan->norm.of_batch, constants = batch && !p->c->training; /* mean and variance */
    const st_real *x = p->x + first * s.length;
    st_real *y = p->to + first * s.length, some_near[MOST];
    norm_sums some_sums[MOST];
    const bool narrow = plan->narrow;
    const norm_room room =
        narrow ? room_of(p, first, count) : (norm_room){ .sums = some_sums, .near = some_near };
    norm_sums *sums = room.sums;
    st_real *near = room.near;
    for (ptrdiff_t k = 0; k < count; k++) near[k] = 0, sums[k] = (norm_sums){ 0 };
    norm_columns columns = { s, count, x, x, near, s.stride, s.stride, true, &room };
    const ptrdiff_t ahead = ahead_of_sums(p, first + count);
    if (plan->norm.centred && !constants) near_means(near, sums, s, count, x);
    if (narrow && !constants) add_columns(sums, &columns);
    for (ptrdiff_t r = 0; r < s.rows && !constants && !narrow; r++) {
        const st_real *row = x + r * s.stride;
        if (r + 1 < s.rows) prefetch(count * s.length, row + s.stride);
        add_rows(sums,
                 (norm_rows){ count, s.length, s.length, row, row, near, .shifted = true, .ahead = ahead });
    }
    for (ptrdiff_t k = 0; k < count; k++) {
        const st_real *set = x + k * s.length;
        const set_moments m =
            batch ? batch_moments(p, first + k, set, near[k], sums[k])
                  : moments_of(s, set, near[k], sums[k], plan->norm.epsilon, plan->norm.centred);
        p->mean[first + k] = (st_real)m.mean;
        p->deviation[first + k] = (st_real)m.deviation;
    }
    for (ptrdiff_t k = 0; k < count && plan->by_element; k++)
        apply_elements(p, first + k, 0, s.length, y + k * s.length, x + k * s.length);
    if (narrow) apply_columns(p, &columns, first, y);
    if (plan->by_element || narrow) return;
    if (p->streams) stream_sets(p, first, count, x, y);
    else apply_sets(p, first, count, x, y, false);
}

/* ---- backward -------------------------------------------------------------------------------------- */

/* Adds the gradients of some octets of elements over `count` rows: of the weights to to[0] and, unless it is
 * NULL, of the biases to to[1]; of one octet without the lanes that `kept` leaves out, unless it is NULL. */
INLINE void add_lanes(int octets, const isa_bits *kept, ptrdiff_t count, ptrdiff_t apart, const st_real *x,
                      const st_real *dy, const st_real *mean, const st_real *scale, st_real *const to[2],
                      ptrdiff_t at)
{
    octet weights[ELEMENT_OCTETS], biases[ELEMENT_OCTETS];
    EACH(v, octets) weights[v] = biases[v] = OCTET_OF(to[0], at + v * OCTET);
    if (to[1]) EACH(v, octets) biases[v] = OCTET_OF(to[1], at + v * OCTET);
    x += at, dy += at;
    for (ptrdiff_t r = 0; r < count; r++, x += apart, dy += apart) EACH(v, octets)
        {
            octet g = OCTET_OF(dy, v * OCTET), term = (OCTET_OF(x, v * OCTET) - mean[r]) * scale[r] * g;
            if (kept) g = MASKED(g, kept), term = MASKED(term, kept);
            weights[v] += term, biases[v] += g;
        }
    EACH(v, octets)
    {
        *(octet_at *)(to[0] + at + v * OCTET) = weights[v];
        if (to[1]) *(octet_at *)(to[1] + at + v * OCTET) = biases[v];
    }
}

/* Not inlined: gcc would warn that a scale may not have been set. */
APART static void set_scales(st_real *scale, ptrdiff_t count, const st_real *deviation)
{
    for (ptrdiff_t r = 0; r < count; r++) scale[r] = 1 / deviation[r];
}

/* Adds the gradients of the weights and biases of n elements of `count` sets from k on, which have the same
 * weights: x and dy begin with the element `begin` of set k. The last octet ends with the last element. Fewer
 * elements than lanes are read with the first ones of the next set, whose sums are not used. */
INLINE void add_elements(const norm_pass *p, ptrdiff_t k, ptrdiff_t count, ptrdiff_t begin, ptrdiff_t n,
                         const st_real *x, const st_real *dy)
{
    const ptrdiff_t first = first_weight(p->plan, k) + begin, apart = p->set.length;
    const st_real *mean = p->mean + k;
    st_real *const to[2] = { p->dweight + first, p->dbias ? p->dbias + first : NULL };
    st_real scale[MOST], own[2][OCTET] = { 0 };
    ptrdiff_t i = 0, whole = 0;
    set_scales(scale, count, p->deviation + k);
    for (; i + ELEMENT_OCTETS * OCTET <= n; i += ELEMENT_OCTETS * OCTET)
        add_lanes(ELEMENT_OCTETS, NULL, count, apart, x, dy, mean, scale, to, i);
    for (; i + OCTET <= n; i += OCTET) add_lanes(1, NULL, count, apart, x, dy, mean, scale, to, i);
    if (i < n && n > OCTET)
        add_lanes(1, ones + n % OCTET, count, apart, x, dy, mean, scale, to, n - OCTET), i = n;
    if (n < OCTET && count > ceil_div(OCTET - n, apart)) {
        whole = count - ceil_div(OCTET - n, apart);
        for (ptrdiff_t j = 0; j < n; j++) own[0][j] = to[0][j], own[1][j] = to[1] ? to[1][j] : 0;
        add_lanes(1, NULL, whole, apart, x, dy, mean, scale, (st_real *const[]){ own[0], own[1] }, 0);
        for (ptrdiff_t j = 0; j < n; j++) to[0][j] = own[0][j];
        for (ptrdiff_t j = 0; j < n && to[1]; j++) to[1][j] = own[1][j];
    }
    for (; i < n; i++)
        for (ptrdiff_t r = whole, at = r * apart + i; r < count; r++, at += apart) {
            to[0][i] += (x[at] - mean[r]) * scale[r] * dy[at];
            if (to[1]) to[1][i] += dy[at];
        }
}

/* Adds the gradients of weights and biases of n parts of set k, from part i on, from the sums over them; and
 * these to the set's. */
INLINE void add_parts(const norm_pass *p, ptrdiff_t k, ptrdiff_t i, ptrdiff_t n, const norm_sums *sums,
                      norm_sums *total)
{
    const ptrdiff_t w = first_weight(p->plan, k) + i;
    const bool own = p->dweight && !p->plan->by_element;
    const double deviation = (double)p->deviation[k];
    st_real *kept = own && p->kept ? p->kept + 2 * ((k - p->first) * p->plan->parts + i) : NULL;
    if (kept)
        for (ptrdiff_t r = 0; r < n; r++)
            kept[2 * r] = (st_real)(sums[r].product / deviation), kept[2 * r + 1] = (st_real)sums[r].g;
    else if (own)
        for (ptrdiff_t r = 0; r < n; r++)
            p->dweight[w + r] += (st_real)(sums[r].product / deviation),
                p->dbias[w + r] += (st_real)sums[r].g;
    for (ptrdiff_t r = 0; r < n && p->to; r++) {
        const double weight = norm_weight(p, w + r);
        total->g += p->plan->norm.centred ? weight * sums[r].g : 0;
        total->product += weight * sums[r].product;
    }
}

/* Runs of parts of one set, of `some` parts from i on: those from the r-th on are set k's from w on. */
#define EACH_RUN(i, some, parts, r, run, k, w)                                                               \
    for (ptrdiff_t r = 0, k = (i) / (parts), w = (i) % (parts), run;                                         \
         run = smallest((parts)-w, (some)-r), r < (some); r += run, k++, w = 0)

/* gradient and backward need the same sums, and dx is written while sets are in cache. Rows of x are stride_x
 * apart. */
INLINE void adjoint_sets(const norm_pass *p, ptrdiff_t first, ptrdiff_t count, const st_real *x,
                         ptrdiff_t stride_x)
{
    const set_division *plan = p->plan;
    const norm_set s = p->set;
    const bool streams = p->streams;
    const ptrdiff_t part = s.length / plan->parts;
    const bool constants = plan->norm.of_batch && !p->c->training;               /* mean and variance */
    const bool plain = !plan->norm.of_batch && (!p->weight || plan->by_element); /* no set has a weight */
    const st_real *dy = p->dy + first * s.length, *mean = p->mean + first, *deviation = p->deviation + first;
    norm_sums some_sums[MOST], some_totals[MOST];
    norm_slopes some_slopes[MOST];
    const bool narrow = plan->narrow;
    const norm_room room =
        narrow ? room_of(p, first, count)
               : (norm_room){ .sums = some_sums, .total = some_totals, .slopes = some_slopes };
    norm_sums *sums = room.sums, *total = room.total;
    norm_slopes *slopes = room.slopes;
    for (ptrdiff_t k = 0; k < count; k++)
        sums[k] = total[k] = (norm_sums){ 0 }, slopes[k] = (norm_slopes){ 0 };
    const bool fused = plan->by_element && p->dweight && p->to && !plan->side_by_side && s.length >= OCTET;
    if (plan->by_element && p->dweight && !fused)
        for (ptrdiff_t k = 0, alike = smallest(p->alike, count); k < count; k += alike)
            add_elements(p, first + k, alike, 0, s.length, x + k * s.length, dy + k * s.length);
    const bool needed = (p->dweight && !plan->by_element) || (p->to && !constants);
    const norm_columns columns = { s, count, dy, x, mean, s.stride, stride_x, false, &room };
    const bool adjacent = x == p->x + first * s.length; /* not a copy of one image */
    const ptrdiff_t ahead = adjacent ? ahead_of_sums(p, first + count) : 0;
    if (needed && narrow) {
        add_columns(sums, &columns);
        for (ptrdiff_t k = 0; k < count; k++) add_parts(p, first + k, 0, 1, &sums[k], &total[k]);
    } else if (needed && plan->parts == 1) {
        for (ptrdiff_t r = 0; r < s.rows; r++) {
            const st_real *row_dy = dy + r * s.stride, *row = x + r * stride_x;
            if (r + 1 < s.rows)
                prefetch(count * part, row_dy + s.stride), prefetch(count * part, row + stride_x);
            norm_rows rows = { count, part, part, row_dy, row, .mean = mean, .ahead = ahead };
            st_real scale[MOST];
            if (plan->by_element)
                rows.weight = p->weight, rows.first = first, rows.periods = plan->apart ? plan->norm.sets : 0;
            for (ptrdiff_t k = 0; k < count && fused; k++) scale[k] = 1 / deviation[k];
            if (fused) rows.scale = scale, rows.dweight = p->dweight, rows.dbias = p->dbias;
            add_rows(sums, rows);
        }
        if (plain)
            for (ptrdiff_t k = 0; k < count; k++)
                total[k] = (norm_sums){ plan->norm.centred ? sums[k].g : 0, sums[k].product };
        else
            for (ptrdiff_t k = 0; k < count; k++) add_parts(p, first + k, 0, 1, &sums[k], &total[k]);
    } else if (needed) /* sets of one row, in parts */
        for (ptrdiff_t i = 0, some; i < count * plan->parts; i += some) {
            st_real means[MOST];
            some = smallest(count * plan->parts - i, MOST);
            EACH_RUN(i, some, plan->parts, r, run, k, w)
            for (ptrdiff_t j = r; j < r + run; j++) means[j] = mean[k], sums[j] = (norm_sums){ 0 };
            add_rows(sums, (norm_rows){ some, part, part, dy + i * part, x + i * part, .mean = means,
                                        .ahead = ahead });
            EACH_RUN(i, some, plan->parts, r, run, k, w)
            add_parts(p, first + k, w, run, &sums[r], &total[k]);
        }
    for (ptrdiff_t k = 0; k < count && p->to && !constants; k++)
        slopes[k] =
            slopes_of((double)mean[k], (double)deviation[k], total[k], 1 / (double)(s.rows * s.length));
    if (narrow && p->to) adjoint_columns(p, &columns, first, slopes, constants, p->to + first * s.length);
    for (ptrdiff_t k = 0; k < count && p->to && plain; k++) {
        const ptrdiff_t at = k * s.length;
        run_adjoint(streams, s.length, p->to + first * s.length + at, dy + at, weights_of(p, first + k), 1,
                    x + at, slopes[k]);
    }
    for (ptrdiff_t r = 0; r < s.rows && p->to && !narrow && !plain; r++)
        for (ptrdiff_t k = 0; k < count; k++)
            for (ptrdiff_t i = 0, w = first_weight(plan, first + k); i < plan->parts; i++, w++) {
                const ptrdiff_t at = k * s.length + i * part, to = first * s.length + r * s.stride + at;
                const st_real *g = dy + r * s.stride + at;
                const double weight = norm_weight(p, w);
                if (constants)
                    run_apply(streams, p, part, p->to + to, g, 0, weight / (double)deviation[k], 0);
                else
                    run_adjoint(streams, part, p->to + to, g, NULL, weight, x + r * stride_x + at, slopes[k]);
            }
}

/* ---- passes ---------------------------------------------------------------------------------------- */

/* The sums of segment i of the first set, whose mean is near for x's, or its result. */
INLINE void run_segment(const norm_pass *p, ptrdiff_t i)
{
    const ptrdiff_t k = p->first, begin = i * SEGMENT, n = smallest(p->set.length - begin, SEGMENT),
                    at = k * p->set.length + begin;
    const st_real *x = p->x + at, *g = p->dy ? p->dy + at : x, mean = p->mean[k];
    st_real *to = p->to + at;
    if (p->dweight && !p->slopes) add_elements(p, k, 1, begin, n, x, g);
    const st_real *weights = p->dy ? weights_of(p, k) : NULL;
    if (weights) weights += begin;
    if (!p->slopes) {
        p->sums[i] = (norm_sums){ 0 };
        add_rows(&p->sums[i], (norm_rows){ 1, n, n, g, x, &mean, !p->dy, .weight = weights });
    } else if (p->dy) run_adjoint(p->streams, n, to, g, weights, 1, x, *p->slopes);
    else if (p->plan->by_element) apply_elements(p, k, begin, n, to, x);
    else run_apply(p->streams, p, n, to, x, (double)mean, 1 / (double)p->deviation[k], 0);
}

/* Channel k of some images, by the running statistics. */
INLINE void infer(const norm_pass *p, ptrdiff_t k)
{
    const norm_set s = p->set;
    const set_moments m = batch_moments(p, k, NULL, 0, (norm_sums){ 0 });
    const double mean = (double)(st_real)m.mean, slope = norm_weight(p, k) / (double)(st_real)m.deviation,
                 height = p->bias ? (double)p->bias[k] : 0;
    for (ptrdiff_t r = 0, at = k * s.length; r < s.rows; r++, at += s.stride)
        run_apply(p->streams, p, s.length, p->to + at, p->x + at, mean, slope, height);
}

/* Adds the gradients of some columns' elements over all sets. Hardware foresees no parts of rows. */
INLINE void add_columns_of_sets(const norm_pass *p, ptrdiff_t i)
{
    const ptrdiff_t length = p->set.length, left = i * p->columns, n = smallest(p->columns, length - left);
    for (ptrdiff_t k = p->first, alike; k < p->end; k += alike) {
        const ptrdiff_t at = k * length + left;
        alike = smallest(p->alike, p->end - k);
        if (alike == 1 && k + 1 < p->end) prefetch(n, p->x + at + length), prefetch(n, p->dy + at + length);
        add_elements(p, k, alike, left, n, p->x + at, p->dy + at);
    }
}

/* Piece i of that kind. The scratch of a type that sees the whole batch is not a thread's. */
INLINE void run(const norm_pass *pass, norm_pieces kind, ptrdiff_t i, int thread)
{
    st_call c = *pass->c;
    norm_pass p = *pass;
    if (!p.plan->norm.of_batch) c.thread = thread;
    p.c = &c;
    const ptrdiff_t begin = p.first + i * p.piece, end = smallest(begin + p.piece, p.end);
    const bool sets = kind == SETS || kind == SETS_BACK;
    for (ptrdiff_t first = begin, count; sets && first < end; first += count) {
        count = smallest(p.together, end - first);
        if (kind == SETS) forward_sets(&p, first, count);
        else adjoint_sets(&p, first, count, p.x + first * p.set.length, p.set.stride);
    }
    if (kind == COLUMNS_OF_SETS) add_columns_of_sets(&p, i);
    if (kind == SEGMENTS) run_segment(&p, i);
    if (kind == CHANNELS) infer(&p, i);
    if (p.streams) stream_end();
}

/* A function for each kind, which has that kind's arrays on its stack alone. */
#define RUN(KIND)                                                                                            \
    static void KIND##_by_any(ptrdiff_t i, int thread, void *p)                                              \
    {                                                                                                        \
        run(p, KIND, i, thread);                                                                             \
    }                                                                                                        \
    WIDE static void KIND##_by_wide(ptrdiff_t i, int thread, void *p)                                        \
    {                                                                                                        \
        run(p, KIND, i, thread);                                                                             \
    }
RUN(SETS)
RUN(SETS_BACK)
RUN(COLUMNS_OF_SETS)
RUN(SEGMENTS)
RUN(CHANNELS)
#define RUNS(KIND) [KIND] = { KIND##_by_any, KIND##_by_wide }

static void each_piece(norm_pass p, norm_pieces kind, ptrdiff_t count, int threads)
{
    static parallel_work *const runs[][2] = { RUNS(SETS), RUNS(SETS_BACK), RUNS(COLUMNS_OF_SETS),
                                              RUNS(SEGMENTS), RUNS(CHANNELS) };
    const bool wide =
        isa_bytes(p.c->layer->impl->isa) >= 32; /* this processor can run functions marked WIDE */
    layer_each(p.c, threads, count, runs[kind][wide], &p);
}

static void each_some_sets(const norm_pass *p, int threads)
{
    each_piece(*p, p->dy ? SETS_BACK : SETS, ceil_div(p->end - p->first, p->piece), threads);
}

/* Sets one after another, the segments of each in threads. */
static void by_segments(const norm_pass *all)
{
    const norm_plan *plan = &all->plan->norm;
    const norm_set s = all->set;
    norm_pass p = *all;
    p.sums = (norm_sums *)st_data(st_scratch(p.c, NORM_KEPT));
    for (; p.first < p.end; p.first++, p.slopes = NULL) {
        const st_real *x = p.x + p.first * s.length;
        st_real *mean = &p.mean[p.first], *deviation = &p.deviation[p.first];
        norm_sums sums = { 0 };
        if (!p.dy) *mean = 0;
        if (!p.dy && plan->centred) near_means(mean, &sums, s, 1, x);
        each_piece(p, SEGMENTS, p.plan->segments, MOST_THREADS);
        for (ptrdiff_t i = 0; i < p.plan->segments; i++)
            sums.g += p.sums[i].g, sums.product += p.sums[i].product;
        if (!p.dy) {
            const set_moments m = moments_of(s, x, *mean, sums, plan->epsilon, plan->centred);
            *mean = (st_real)m.mean, *deviation = (st_real)m.deviation;
        }
        if (!plan->centred) sums.g = 0;
        const norm_slopes slopes = slopes_of((double)*mean, (double)*deviation, sums, 1 / (double)s.length);
        p.slopes = &slopes;
        each_piece(p, SEGMENTS, p.plan->segments, MOST_THREADS);
    }
}

/* Adds the gradients that a tile's sets have kept. */
static void add_kept(const norm_pass *p)
{
    const ptrdiff_t parts = p->plan->parts;
    const st_real *kept = p->kept;
    for (ptrdiff_t k = p->first; k < p->end; k++, kept += 2 * parts) {
        st_real *dweight = p->dweight + first_weight(p->plan, k),
                *dbias = p->dbias + first_weight(p->plan, k);
        for (ptrdiff_t i = 0; i < parts; i++) dweight[i] += kept[2 * i], dbias[i] += kept[2 * i + 1];
    }
}

/* The gradients of images on several threads. They are added in the order of the sets, so tiles of sets
 * follow each other. If each element has a weight, threads divide the elements; otherwise they divide the
 * sets, whose gradients are kept and added after them. dx, which may be x, is written last. */
static void by_tiles(const norm_pass *all, int threads)
{
    const bool by_element = all->plan->by_element;
    const ptrdiff_t unit = threads * OCTET, tile = by_element && !all->to ? all->end : all->plan->tile;
    for (norm_pass p = *all; p.first < all->end; p.first = p.end) {
        p.end = smallest(p.first + tile, all->end), p.columns = ceil_div(p.set.length, unit) * OCTET;
        norm_pass part = p;
        if (by_element) {
            each_piece(p, COLUMNS_OF_SETS, ceil_div(p.set.length, p.columns), MOST_THREADS);
            part.dweight = part.dbias = NULL;
        } else part.kept = st_data(st_scratch(p.c, NORM_KEPT));
        if (!by_element || p.to) each_some_sets(&part, MOST_THREADS);
        if (!by_element) add_kept(&part);
    }
}

/* Sets run in any order, in any thread; those of images in order if their gradients are added up. */
static void each_set(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    const norm_pass p = pass_over(c, x, dy, to, gradient);
    const bool in_order = gradient && !p.plan->norm.of_batch;
    const int threads = layer_call_threads(c);
    if (!st_is_null(to) && p.plan->segments > 0) by_segments(&p);
    else if (in_order && threads > 1) by_tiles(&p, threads);
    else each_some_sets(&p, in_order ? 1 : MOST_THREADS);
    gather_gradients(&p);
}

/* ---- the hooks ------------------------------------------------------------------------------------- */

static st_tensor contiguous(st_tensor x, st_tensor copy)
{
    if (st_is_contiguous(x)) return x;
    st_copy(copy, x);
    return copy;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    each_set(c, contiguous(x, y), (st_tensor){ 0 }, y, false);
}

void batchnorm_infer(const st_call *c, st_tensor x, st_tensor y)
{
    norm_pass p = pass_over(c, contiguous(x, y), (st_tensor){ 0 }, y, false);
    each_piece(p, CHANNELS, p.end, MOST_THREADS);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    each_set(c, contiguous(x, dx), dy, dx, false);
}

static void both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    each_set(c, contiguous(x, dx), dy, dx, true);
}

/* Copies an x that is not contiguous channel by channel (batchnorm), or image by image. */
static void gradient_alone(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    if (st_is_contiguous(x)) {
        each_set(c, x, dy, (st_tensor){ 0 }, true);
        return;
    }
    const norm_pass p = pass_over(c, x, dy, (st_tensor){ 0 }, true);
    const int axis = p.plan->norm.of_batch ? 1 : 0;
    const ptrdiff_t each = p.end / x.shape.n[axis];
    for (ptrdiff_t i = 0; i < x.shape.n[axis]; i++) {
        const st_tensor source = st_select(x, axis, i);
        const st_tensor copy = st_narrow(st_scratch(c, NORM_COPY), 0, 0, st_numel(source));
        st_copy(st_reshape(copy, source.shape), source);
        for (ptrdiff_t k = 0; k < each; k++)
            adjoint_sets(&p, i * each + k, 1, st_data(copy) + k * p.set.length, p.set.length);
    }
    gather_gradients(&p);
}

/* ---- the algorithms -------------------------------------------------------------------------------- */

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

#define ALGORITHM(NAME, OF_IMAGES)                                                                           \
    const layer_algorithm NAME##_sets = { .type = &layer_type_##NAME,                                        \
                                          .suits = suits,                                                    \
                                          .plan = plan_division,                                             \
                                          .hooks = { forward, backward, gradient_alone, both,                \
                                                     .divides = OF_IMAGES } };
ALGORITHM(batchnorm, false)
ALGORITHM(layernorm, true)
ALGORITHM(rmsnorm, true)
ALGORITHM(groupnorm, true)
