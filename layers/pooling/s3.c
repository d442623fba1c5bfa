/* s3.c: S3 pooling, stochastic spatial sampling: Zhai, Wu, Kumar, Cheng, Lu, Zhang and Feris, S3Pool: pooling
 * with stochastic spatial sampling, CVPR 2017.
 *
 * Maxima are taken with stride 1. In training grid / stride rows of each strip of `grid` rows are drawn, and
 * columns likewise, the same for all channels of an image: y has the maxima in these rows and columns. In
 * inference y is the mean of stride x stride maxima. Windows end at the image's edge. */
#include "layers/pooling/steps.h"

#include <limits.h>

static int grid_of(const st_s3_pool_options *o, int axis)
{
    return o->grid[axis] > 0 ? o->grid[axis] : o->stride[axis] > 0 ? o->stride[axis] : o->kernel[axis];
}

static int stride_of(const st_s3_pool_options *o, int axis)
{
    return o->stride[axis] > 0 ? o->stride[axis] : o->kernel[axis];
}

static int plan_strips(window *w, const st_layer *l, st_shape x)
{
    const st_s3_pool_options *o = l->options;
    if (layer_check_images(l, x)) return -1;
    *w = (window){ .stride = { 1, 1 }, .dilation = { 1, 1 } };
    for (int axis = 0; axis < 2; axis++) {
        const ptrdiff_t size = w->size[axis] = x.n[2 + axis], stride = stride_of(o, axis);
        if (grid_of(o, axis) % stride)
            return st_layer_refuse(l, "grid is %dx%d, expected multiples of the stride", o->grid[0],
                                   o->grid[1]);
        if (size < stride)
            return st_layer_refuse(l, "an input %s is smaller than the stride", st_shape_text(x).text);
        w->out[axis] = size / stride;
        w->kernel[axis] = (int)smallest(smallest(size, INT_MAX), (ptrdiff_t)o->kernel[axis] + stride - 1);
    }
    return 0;
}

/* The last strip may be shorter. */
static void spans(const pool_plan *p, const st_window *at, int axis, pool_span *to)
{
    const st_s3_pool_options *o = at->options;
    const ptrdiff_t size = p->w.size[axis], stride = stride_of(o, axis), grid = grid_of(o, axis);
    const uint64_t image = at->number / (uint64_t)p->channels;
    selection rows;
    begin_selection(&rows, at, image, axis, 0, 0);
    for (ptrdiff_t row = 0, i = 0; row < size && i < p->w.out[axis]; row++) {
        if (row % grid == 0) {
            rows.among = smallest(grid, size - row);
            rows.count = rows.among / stride;
        }
        if (at->training ? !select_next(&rows) : row % stride != 0) continue;
        const ptrdiff_t reach = at->training ? o->kernel[axis] : o->kernel[axis] + stride - 1;
        to[i].first = row;
        to[i].count = to[i].whole = smallest(reach, size - row);
        i++;
    }
}

static const st_grid strip_grid = { .plan = plan_strips, .spans = spans };

/* The windows within a window: one in training, and their number for each axis. */
typedef struct within {
    ptrdiff_t down, right;
    double share;
} within;

static within windows_within(const st_window *w)
{
    const st_s3_pool_options *o = w->options;
    within in = { 1, 1, 1 };
    if (!w->training) in.down = stride_of(o, 0), in.right = stride_of(o, 1);
    in.share = 1 / ((double)in.down * (double)in.right);
    return in;
}

/* The index of the first maximum, or NaN, of the window at [row, column] within w. */
static ptrdiff_t maximum(const st_window *w, ptrdiff_t row, ptrdiff_t column)
{
    const st_s3_pool_options *o = w->options;
    const ptrdiff_t bottom = smallest(row + o->kernel[0], w->rows),
                    right = smallest(column + o->kernel[1], w->columns);
    const ptrdiff_t first = row * w->columns + column;
    const ptrdiff_t k = pool_peak(w->x + first, bottom - row, w->columns, right - column, 1);
    return first + k / (right - column) * w->columns + k % (right - column);
}

static st_real value(const st_window *w)
{
    const within in = windows_within(w);
    double sum = 0;
    for (ptrdiff_t row = 0; row < in.down; row++)
        for (ptrdiff_t column = 0; column < in.right; column++) sum += (double)w->x[maximum(w, row, column)];
    return (st_real)(sum * in.share);
}

static void adjoint(const st_window *w, st_real y, st_real dy, st_real *dx)
{
    (void)y;
    const within in = windows_within(w);
    fill_window(w, 0, dx);
    for (ptrdiff_t row = 0; row < in.down; row++)
        for (ptrdiff_t column = 0; column < in.right; column++)
            dx[maximum(w, row, column)] += (st_real)((double)dy * in.share);
}

static const st_field fields[] = {
    POOL_FIELD(kernel, ST_FIELD_PAIR, st_s3_pool_options, .fallback = 2, .least = 1, .square = true),
    POOL_FIELD(stride, ST_FIELD_PAIR, st_s3_pool_options, .square = true),
    POOL_FIELD(grid, ST_FIELD_PAIR, st_s3_pool_options, .square = true),
    { 0 },
};

POOLING(s3_pool, st_pool_plan, fields, .grid = &strip_grid, .value = value, .adjoint = adjoint)
