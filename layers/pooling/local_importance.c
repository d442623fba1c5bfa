/* local_importance.c: local importance-based pooling: Gao, Wang and Wu, LIP: local importance-based pooling,
 * ICCV 2019.
 *
 *     y = sum of s[i] x[i],  s = softmax(g) over the window,  g = weight x: a 1x1 convolution
 *
 * g of an element is a weighted sum of all channels at its place. The weight [C, C] begins as 0, so that y is
 * the mean at first. */
#include "layers/pooling/family.h"
#include "tensor/counts.h"

#include <math.h>

/* Scratch: an image, its importances and their gradients, each [C, HW]; rows and columns of windows. */
enum { IMAGE, LOGITS, SLOPES, SPANS };

int local_importance_scratch(st_layer *l, const pool_plan *p)
{
    for (int i = IMAGE; i <= SLOPES; i++)
        if (st_layer_scratch(l, ST_SHAPE(l->x.n[1], p->w.size[0] * p->w.size[1]))) return -1;
    return st_layer_scratch(l, ST_SHAPE(p->w.out[0] + p->w.out[1], REALS_OF(pool_span)));
}

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    pool_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p || st_regular_grid.plan(&p->w, l, x)) return -1;
    *y = ST_SHAPE(x.n[0], x.n[1], p->w.out[0], p->w.out[1]);
    const ptrdiff_t area = st_shape_numel(ST_SHAPE(x.n[2], x.n[3]), l->type->name);
    if (st_shape_numel(*y, l->type->name) < 0) return -1;
    if (st_layer_parameter(l, "weight", ST_SHAPE(x.n[1], x.n[1]), (st_init){ 0 })) return -1;
    l->flops = 2 * (double)area * (double)x.n[0] * (double)x.n[1] * (double)x.n[1];
    return local_importance_scratch(l, p);
}

/* Fills the scratch of an image [C, H, W]; returns the spans of rows, and after them of columns. */
static const pool_span *prepare(const st_call *c, st_tensor x)
{
    const pool_plan *p = c->plan;
    pool_span *spans = (pool_span *)(void *)st_data(st_scratch(c, SPANS));
    const st_window at = { .options = c->options };
    st_copy(st_reshape(st_scratch(c, IMAGE), x.shape), x);
    st_gemm(st_scratch(c, LOGITS), 1, c->param[0], st_scratch(c, IMAGE), 0);
    for (int axis = 0; axis < 2; axis++)
        st_regular_grid.spans(p, &at, axis, axis ? spans + p->w.out[0] : spans);
    return spans;
}

/* A window of a channel: its elements lie at begin + r down + s right. */
typedef struct pane {
    pool_span rows, columns;
    ptrdiff_t begin, down, right;
    double most, sum; /* of exp(g - most) */
} pane;

#define EACH_ELEMENT(w, i)                                                                                   \
    for (ptrdiff_t r = 0, i = 0; r < (w)->rows.count; r++)                                                   \
        for (ptrdiff_t s = 0; i = (w)->begin + r * (w)->down + s * (w)->right, s < (w)->columns.count; s++)

static pane pane_of(const window *w, pool_span rows, pool_span columns, const st_real *g)
{
    pane p = { .rows = rows, .columns = columns, .begin = rows.first * w->size[1] + columns.first };
    p.down = w->dilation[0] * w->size[1], p.right = w->dilation[1];
    p.most = -INFINITY;
    EACH_ELEMENT(&p, i)
    if (!((double)g[i] <= p.most)) p.most = (double)g[i];
    EACH_ELEMENT(&p, i)
    p.sum += exp((double)g[i] - p.most);
    return p;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const window *w = &((const pool_plan *)c->plan)->w;
    st_real *to = st_data(y);
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++) {
        const pool_span *rows = prepare(c, st_select(x, 0, n)), *columns = rows + w->out[0];
        const st_real *image = st_data(st_scratch(c, IMAGE)), *g = st_data(st_scratch(c, LOGITS));
        for (ptrdiff_t k = 0; k < x.shape.n[1];
             k++, image += w->size[0] * w->size[1], g += w->size[0] * w->size[1])
            for (ptrdiff_t o = 0; o < w->out[0] * w->out[1]; o++) {
                const pane p = pane_of(w, rows[o / w->out[1]], columns[o % w->out[1]], g);
                double sum = 0;
                EACH_ELEMENT(&p, i)
                sum += exp((double)g[i] - p.most) * (double)image[i];
                *to++ = p.rows.count > 0 && p.columns.count > 0 ? (st_real)(sum / p.sum) : 0;
            }
    }
}

/* dL/dg of an image, into the scratch; adds dL/dx, as if g were constant, to dx [C, H, W] unless it is
 * null. */
static void slopes(const st_call *c, st_tensor x, const st_real *y, const st_real *dy, st_real *dx)
{
    const window *w = &((const pool_plan *)c->plan)->w;
    const pool_span *rows = prepare(c, x), *columns = rows + w->out[0];
    const ptrdiff_t area = w->size[0] * w->size[1];
    st_fill(st_scratch(c, SLOPES), 0);
    for (ptrdiff_t k = 0; k < x.shape.n[0]; k++) {
        const st_real *image = st_data(st_scratch(c, IMAGE)) + k * area,
                      *g = st_data(st_scratch(c, LOGITS)) + k * area;
        st_real *dg = st_data(st_scratch(c, SLOPES)) + k * area;
        for (ptrdiff_t o = 0; o < w->out[0] * w->out[1]; o++, y++, dy++) {
            const pane p = pane_of(w, rows[o / w->out[1]], columns[o % w->out[1]], g);
            EACH_ELEMENT(&p, i)
            {
                const double share = (double)*dy * exp((double)g[i] - p.most) / p.sum;
                dg[i] += (st_real)(share * ((double)image[i] - (double)*y));
                if (dx) dx[k * area + i] += (st_real)share;
            }
        }
    }
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++) {
        const st_tensor to = st_select(dx, 0, n);
        st_fill(to, 0);
        slopes(c, st_select(x, 0, n), st_data(st_select(y, 0, n)), st_data(st_select(dy, 0, n)), st_data(to));
        st_gemm(st_reshape(to, st_scratch(c, SLOPES).shape), 1, st_transpose(c->param[0], 0, 1),
                st_scratch(c, SLOPES), 1);
    }
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++) {
        slopes(c, st_select(x, 0, n), st_data(st_select(y, 0, n)), st_data(st_select(dy, 0, n)), NULL);
        st_gemm(st_grad(c, 0), 1, st_scratch(c, SLOPES), st_transpose(st_scratch(c, IMAGE), 0, 1), 1);
    }
}

static const st_field fields[] = { ST_WINDOW_FIELDS(st_local_importance_pool_options), { 0 } };

const st_layer_type layer_type_local_importance_pool = {
    .name = "local_importance_pool",
    .options_size = sizeof(st_local_importance_pool_options),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};

CONSTRUCTOR(local_importance_pool, st_local_importance_pool_options)
