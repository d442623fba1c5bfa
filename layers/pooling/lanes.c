/* lanes.c: runs poolings of many windows at once, along the rows of y. */
#include "layers/pooling/lanes.h"
#include "tensor/counts.h"

enum { X = POOL_SCRATCHES, DX };     /* scratch: windows as lanes, and their adjoints */
enum { FEWEST = 4, LARGEST = 1024 }; /* windows at once, and elements of each */

static bool takes_lanes(const pool_plan *p)
{
    return p->w.out[1] >= FEWEST && p->w.kernel[0] <= LARGEST / p->w.kernel[1];
}

int lanes_plan(st_layer *l, st_shape x, st_shape *y)
{
    if (st_pool_plan(l, x, y)) return -1;
    const pool_plan *p = l->plan;
    const st_shape s = takes_lanes(p) ? ST_SHAPE(p->w.kernel[0], p->w.kernel[1], POOL_LANES) : ST_SHAPE(0);
    return st_layer_scratch(l, s) || st_layer_scratch(l, s) ? -1 : 0;
}

/* ---- a run of windows --------------------------------------------------------------------------- */

static bool has_padding(const pool_plane *a, pool_span rows, pool_span columns)
{
    const window *w = &a->plan->w;
    return rows.first < 0 || columns.first < 0 ||
           rows.first + (rows.count - 1) * w->dilation[0] >= w->size[0] ||
           columns.first + (columns.count - 1) * w->dilation[1] >= w->size[1];
}

/* The number of windows from [row, column] on that are computed at once; 0: they are too few. */
static ptrdiff_t at_once(const pool_plane *a, ptrdiff_t row, ptrdiff_t column)
{
    const ptrdiff_t most = smallest(a->plan->w.out[1] - column, POOL_LANES);
    const pool_span *columns = a->columns + column;
    const lanes_pooling *kind = (const lanes_pooling *)a->plan->kind;
    ptrdiff_t count = 0;
    if (a->rows[row].count == 0 || columns->count == 0 || !takes_lanes(a->plan)) return 0;
    if (kind->suits && !kind->suits(&a->at)) return 0;
    while (count < most && columns[count].count == columns->count && columns[count].whole == columns->whole &&
           !has_padding(a, a->rows[row], columns[count]))
        count++;
    return count >= FEWEST ? count : 0;
}

/* Makes window [row, column] and those after it the current ones: copies their elements. */
static void gather(pool_plane *a, st_tensor x, ptrdiff_t row, ptrdiff_t column, ptrdiff_t count, lanes *to)
{
    const window *w = &a->plan->w;
    const pool_span rows = a->rows[row], *columns = a->columns + column;
    for (ptrdiff_t kh = 0; kh < rows.count; kh++)
        for (ptrdiff_t kw = 0; kw < columns->count; kw++, to++) {
            const st_real *from = st_data(x) + (rows.first + kh * w->dilation[0]) * x.stride[0] +
                                  kw * w->dilation[1] * x.stride[1];
            for (ptrdiff_t k = 0; k < count; k++) (*to)[k] = from[columns[k].first * x.stride[1]];
            for (ptrdiff_t k = count; k < POOL_LANES; k++) (*to)[k] = (*to)[count - 1];
        }
    a->at.row = row, a->at.column = column;
    a->at.rows = rows.count, a->at.columns = columns->count;
    a->at.n = rows.count * columns->count;
    a->at.whole = rows.whole * columns->whole;
}

/* The adjoint of gather. */
static void scatter(const pool_plane *a, st_tensor dx, ptrdiff_t count, lanes *from)
{
    const window *w = &a->plan->w;
    const pool_span rows = a->rows[a->at.row], *columns = a->columns + a->at.column;
    for (ptrdiff_t kh = 0; kh < rows.count; kh++)
        for (ptrdiff_t kw = 0; kw < columns->count; kw++, from++) {
            st_real *to = st_data(dx) + (rows.first + kh * w->dilation[0]) * dx.stride[0] +
                          kw * w->dilation[1] * dx.stride[1];
            for (ptrdiff_t k = 0; k < count; k++) to[columns[k].first * dx.stride[1]] += (*from)[k];
        }
}

/* ---- the windows of a channel ------------------------------------------------------------------- */

static const lanes_pooling *kind_of(const st_call *c)
{
    return (const lanes_pooling *)c->layer->type->pooling;
}

static void forward_plane(const st_call *c, pool_plane a, st_tensor x, st_real *y)
{
    lanes all, *windows = (lanes *)(void *)st_data(st_scratch(c, X));
    for (ptrdiff_t row = 0; row < a.plan->w.out[0]; row++)
        for (ptrdiff_t column = 0, step; column < a.plan->w.out[1];
             column += step, y += step, a.at.number += (uint64_t)step) {
            const ptrdiff_t count = at_once(&a, row, column);
            step = largest(count, 1);
            if (count) {
                gather(&a, x, row, column, count, windows);
                kind_of(c)->values(&a.at, (const lanes *)windows, all);
                for (ptrdiff_t k = 0; k < count; k++) y[k] = all[k];
            } else {
                pool_gather(&a, x, row, column);
                *y = a.plan->kind->value(&a.at);
            }
        }
}

static void adjoints(const st_call *c, const pool_plane *a, ptrdiff_t count, const st_real *y,
                     const st_real *dy, lanes *x, lanes *dx)
{
    lanes all_y, all_dy;
    for (ptrdiff_t k = 0; k < POOL_LANES; k++) {
        all_y[k] = y[smallest(k, count - 1)];
        all_dy[k] = k < count ? dy[k] : 0;
    }
    kind_of(c)->adjoints(&a->at, (const lanes *)x, all_y, all_dy, dx);
}

static void backward_plane(const st_call *c, pool_plane a, st_tensor x, const st_real *y, const st_real *dy,
                           st_tensor dx)
{
    lanes *windows = (lanes *)(void *)st_data(st_scratch(c, X)),
          *dwindows = (lanes *)(void *)st_data(st_scratch(c, DX));
    const bool wanted = !st_is_null(dx);
    if (wanted) st_fill(dx, 0);
    for (ptrdiff_t row = 0; row < a.plan->w.out[0]; row++)
        for (ptrdiff_t column = 0, step; column < a.plan->w.out[1];
             column += step, y += step, dy += step, a.at.number += (uint64_t)step) {
            const ptrdiff_t count = at_once(&a, row, column);
            step = largest(count, 1);
            if (count) {
                gather(&a, x, row, column, count, windows);
                adjoints(c, &a, count, y, dy, windows, dwindows);
                if (wanted) scatter(&a, dx, count, dwindows);
            } else {
                pool_gather(&a, x, row, column);
                a.plan->kind->adjoint(&a.at, *y, *dy, a.dx);
                if (wanted) pool_scatter(&a, dx);
            }
        }
    if (!wanted) pool_add_parameters(c, &a.at);
}

/* ---- hooks -------------------------------------------------------------------------------------- */

/* False with the reference engine. */
static bool is_fast(const st_call *c)
{
    return c->layer->impl->run->executor;
}

static st_tensor channel_of(st_tensor x, ptrdiff_t image, ptrdiff_t channel)
{
    return st_is_null(x) ? x : st_select(st_select(x, 0, image), 0, channel);
}

void lanes_forward(const st_call *c, st_tensor x, st_tensor y)
{
    if (!is_fast(c)) st_pool_forward(c, x, y);
    else
        for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
            for (ptrdiff_t k = 0; k < x.shape.n[1]; k++)
                forward_plane(c, pool_plane_of(c, i, k), channel_of(x, i, k), st_data(channel_of(y, i, k)));
}

static void each_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++)
        for (ptrdiff_t k = 0; k < x.shape.n[1]; k++)
            backward_plane(c, pool_plane_of(c, i, k), channel_of(x, i, k), st_data(channel_of(y, i, k)),
                           st_data(channel_of(dy, i, k)), channel_of(dx, i, k));
}

void lanes_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    if (is_fast(c)) each_backward(c, x, y, dy, dx);
    else st_pool_backward(c, x, y, dy, dx);
}

void lanes_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    if (is_fast(c)) each_backward(c, x, y, dy, (st_tensor){ 0 });
    else st_pool_gradient(c, x, y, dy);
}

/* ---- maxima --------------------------------------------------------------------------------------- */

void lanes_max_values(const st_window *w, const lanes *x, st_real *y)
{
    lanes_maximum(w, x, y, NULL);
}

void lanes_max_adjoints(const st_window *w, const lanes *x, const st_real *y, const st_real *dy, lanes *dx)
{
    (void)y;
    lanes most, place;
    lanes_maximum(w, x, most, place);
    for (ptrdiff_t i = 0; i < w->n; i++) EACH_LANE(k) dx[i][k] = place[k] == (st_real)i ? dy[k] : 0;
}
