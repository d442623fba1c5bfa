/* separable.c: y = A x Bᵀ: each row of y is a weighted sum of a few rows of x, and likewise for columns; the
 * adjoint is the same list of adds with the sides swapped. */
#include "layers/separable.h"
#include "layers/pool_impl.h"

enum { HALF };                  /* scratch: A x [C, OH, W] of one image */
enum { ROWS = 1, COLUMNS = 2 }; /* axes of an image [C, H, W] */

int separable_plan(st_layer *l, st_shape x, st_shape y, separable_row *row)
{
    if (st_shape_numel(y, l->type->name) < 0) return -1;
    separable *s = st_layer_plan_data(l, sizeof *s);
    if (!s) return -1;
    s->row = row;
    return st_layer_scratch(l, ST_SHAPE(x.n[1], y.n[2], x.n[3]));
}

/* y = the matrix applied to x along an axis of images [C, H, W]; or backwards, x = its transpose applied to
 * y. */
static void apply(const st_call *c, bool back, int axis, st_tensor x, st_tensor y)
{
    const separable *s = c->plan;
    const ptrdiff_t from = x.shape.n[axis], to = y.shape.n[axis];
    st_fill(back ? x : y, 0);
    for (ptrdiff_t i = 0; i < to; i++) {
        tap row[MOST_TAPS];
        const int count = s->row(c->options, axis + 1, i, from, to, row);
        for (int k = 0; k < count; k++) {
            st_tensor out = st_select(y, axis, i), in = st_select(x, axis, row[k].from);
            st_add(back ? in : out, row[k].weight, back ? out : in);
        }
    }
}

void separable_forward(const st_call *c, st_tensor x, st_tensor y)
{
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        apply(c, false, ROWS, st_select(x, 0, i), st_scratch(c, HALF));
        apply(c, false, COLUMNS, st_scratch(c, HALF), st_select(y, 0, i));
    }
}

void separable_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        apply(c, true, COLUMNS, st_scratch(c, HALF), st_select(dy, 0, i));
        apply(c, true, ROWS, st_select(dx, 0, i), st_scratch(c, HALF));
    }
}

ptrdiff_t separable_taps(const st_layer *l, int axis, ptrdiff_t i, tap row[])
{
    const ptrdiff_t from = l->x.n[axis], to = l->y.n[axis];
    if (!l->type->pooling) return ((const separable *)l->plan)->row(l->options, axis, i, from, to, row);
    const pool_span part = pool_adaptive_span(i, from, to);
    for (ptrdiff_t k = 0; k < part.count; k++) row[k] = (tap){ part.first + k, 1 / (st_real)part.count };
    return part.count;
}
