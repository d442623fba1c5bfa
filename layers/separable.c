/* separable.c: y = A x Bᵀ and its adjoint. */
#include "layers/separable.h"

enum { HALF };                  /* scratch */
enum { ROWS = 1, COLUMNS = 2 }; /* axes of an image [C, H, W] */

int separable_plan(st_layer *l, st_shape x, st_shape y, taps_of *of)
{
    separable *s = st_layer_plan_data(l, sizeof *s);
    if (!s) return -1;
    s->of = of;
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
        const taps row = s->of(c->options, i, from, to);
        for (ptrdiff_t k = 0; k < row.count; k++) {
            st_real weight = k == 0 ? row.weight : row.rest;
            st_tensor out = st_select(y, axis, i), in = st_select(x, axis, row.first + k);
            if (weight != 0) st_add(back ? in : out, weight, back ? out : in);
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

void separable_backward(const st_call *c, st_tensor dy, st_tensor dx)
{
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        apply(c, true, COLUMNS, st_scratch(c, HALF), st_select(dy, 0, i));
        apply(c, true, ROWS, st_select(dx, 0, i), st_scratch(c, HALF));
    }
}
