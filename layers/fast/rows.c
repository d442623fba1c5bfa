/* rows.c: pooling, resizing and padding by rows: channels are divided among threads, and each takes the pass
 * that was chosen for the layer (rows.h). */
#include "layers/fast/rows.h"
#include "layers/types.h"

#include <string.h>

void rows_run(const st_call *c, const work *w, bool back, const st_real *from, st_real *to)
{
    const rows_plan *p = w->plan;
    const int isa = c->layer->impl->isa;
    const ptrdiff_t area = p->each[0].size * p->each[1].size;
    const sparse *columns = back ? &p->back[1] : &p->axis[1];
    if (p->same) memcpy(to, from, (size_t)(w->planes * area) * sizeof *to);
    else if (p->by_planes[back]) rows_by_planes[isa](w, back, from, to);
    else if (p->by_runs[back]) rows_by_runs[isa](w, back, from, to);
    else if (columns->picks.used) rows_by_picks[isa](w, back, from, to);
    else rows_by_columns[isa](w, back, from, to);
}

static void maxima_back(const work *w, const st_real *dy, const st_real *places, st_real *dx)
{
    const sparse *rows = &w->plan->axis[0], *columns = &w->plan->axis[1];
    const ptrdiff_t area = rows->size * columns->size, count = rows->out * columns->out;
    for (ptrdiff_t plane = 0; plane < w->planes; plane++, dx += area, dy += count, places += count) {
        memset(dx, 0, (size_t)area * sizeof *dx);
        for (ptrdiff_t i = 0; i < count; i++) {
            const ptrdiff_t at = (ptrdiff_t)places[i];
            if (at >= 0) dx[at] += dy[i];
        }
    }
}

static void run_maxima(const st_call *c, const work *w, bool back, const st_real *from, st_real *places,
                       st_real *to)
{
    const int isa = c->layer->impl->isa;
    if (w->plan->by_planes[back]) maxima_by_planes[isa](w, back, from, places, to);
    else if (back) maxima_back(w, from, places, to);
    else if (w->plan->abreast) maxima_by_tiles[isa](w, from, places, to);
    else maxima_by_rows[isa](w, from, places, to);
}

/* ---- the hooks -------------------------------------------------------------------------------------- */

const st_real *rows_image_of(const st_call *c, st_tensor x, ptrdiff_t i)
{
    const st_tensor one = st_select(x, 0, i);
    if (st_is_contiguous(x)) return st_data(one);
    const st_tensor room =
        st_narrow(st_scratch(c, ((const rows_plan *)c->plan)->scratch + IMAGE), 0, 0, st_numel(one));
    st_copy(st_reshape(room, one.shape), one);
    return st_data(room);
}

/* Channels from one place to another, and unless NULL the places of their maxima. */
typedef struct division {
    const st_call *call;
    const st_real *from;
    st_real *to, *places;
    ptrdiff_t planes, size; /* all, and those of a piece */
    bool maxima, back;
} division;

static void run_piece(ptrdiff_t i, int thread, void *context)
{
    const division *d = context;
    st_call c = *d->call;
    c.thread = thread;
    const ptrdiff_t first = i * d->size;
    const work w = rows_work_of(&c, smallest(d->size, d->planes - first));
    const sparse *each = w.plan->each;
    const ptrdiff_t area = each[0].size * each[1].size, count = each[0].out * each[1].out;
    const st_real *from = d->from + first * (d->back ? count : area);
    st_real *to = d->to + first * (d->back ? area : count),
            *places = d->places ? d->places + first * count : NULL;
    if (d->maxima) run_maxima(&c, &w, d->back, from, places, to);
    else rows_run(&c, &w, d->back, from, to);
}

/* The bits of a channel do not depend on those beside it. */
static void divide(division d)
{
    d.size = ceil_div(d.planes, layer_call_threads(d.call));
    if (d.planes > 0) layer_each(d.call, MOST_THREADS, ceil_div(d.planes, d.size), run_piece, &d);
}

/* Channels that are computed together: all, or those of one image if it is copied. */
static void forward(const st_call *c, st_tensor x, st_tensor y, bool maxima)
{
    const ptrdiff_t images = x.shape.n[0], some = st_is_contiguous(x) ? images : 1;
    const bool placed = maxima && !c->layer->impl->run->inference_only;
    for (ptrdiff_t i = 0; i < images; i += some)
        divide((division){ .call = c,
                           .from = rows_image_of(c, x, i),
                           .to = st_data(st_select(y, 0, i)),
                           .places = placed ? st_data(st_select(st_memory(c, PLACES), 0, i)) : NULL,
                           .planes = some * x.shape.n[1],
                           .maxima = maxima });
}

static void backward(const st_call *c, st_tensor dy, st_tensor dx, bool maxima)
{
    divide((division){ .call = c,
                       .from = st_data(dy),
                       .to = st_data(dx),
                       .places = maxima ? st_data(st_memory(c, PLACES)) : NULL,
                       .planes = dx.shape.n[0] * dx.shape.n[1],
                       .maxima = maxima,
                       .back = true });
}

void rows_forward(const st_call *c, st_tensor x, st_tensor y)
{
    forward(c, x, y, false);
}

void rows_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    backward(c, dy, dx, false);
}

void rows_maxima_forward(const st_call *c, st_tensor x, st_tensor y)
{
    forward(c, x, y, true);
}

void rows_maxima_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    backward(c, dy, dx, true);
}

#define ALGORITHM(NAME, ...)                                                                                 \
    const layer_algorithm NAME##_rows = { .type = &layer_type_##NAME,                                        \
                                          .suits = rows_suit,                                                \
                                          .plan = rows_plan_for,                                             \
                                          .fill = rows_fill,                                                 \
                                          .hooks = { __VA_ARGS__ } };
ALGORITHM(maxpool, rows_maxima_forward, rows_maxima_backward, .divides = true)
ALGORITHM(avgpool, rows_forward, rows_backward, .divides = true)
ALGORITHM(adaptive_avgpool, rows_forward, rows_backward, .divides = true)
ALGORITHM(upsample, rows_forward, rows_backward, .divides = true)
ALGORITHM(pad2d, rows_forward, rows_backward, .divides = true)
