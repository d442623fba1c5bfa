/* unpool.c: max-unpooling: Zeiler, Taylor and Fergus, Adaptive deconvolutional networks for mid and high
 * level feature learning, ICCV 2011; Badrinarayanan, Kendall and Cipolla, SegNet, TPAMI 2017.
 *
 *     y = scatter(body(pool(x))): each number goes back to where its window had the maximum; the rest is 0
 *
 * The layer holds the pooling whose places it uses, and what lies between: PyTorch's MaxUnpool2d, where
 * windows do not overlap. Numbers that go to one place are added, so that y is the adjoint of the maximum at
 * x, applied to body(pool(x)). A maximum in the padding leads nowhere. */
#include "layers/pooling/family.h"

enum { POOL, BODY };
/* Scratch: the gradients of the body's y and x; rows and columns of windows; a window. */
enum { DBODY, DPOOL, SPANS, WINDOW };

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_layer *pool = l->child[POOL];
    const st_pooling *kind = pool->type->pooling;
    st_shape pooled, body;
    if (!kind || kind->value != pool_max_value)
        return st_layer_refuse(l, "its first layer is %s, expected maxpool or another maximum of windows",
                               pool->type->name);
    if (st_plan_child(l, POOL, x, &pooled) || st_plan_child(l, BODY, pooled, &body)) return -1;
    if (!st_shape_equal(pooled, body))
        return st_layer_refuse(l, "the body makes %s of %s, expected the same shape",
                               st_shape_text(body).text, st_shape_text(pooled).text);
    pool_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = (pool_plan){ .kind = kind, .channels = x.n[1] };
    p->grid = kind->grid ? kind->grid : &st_regular_grid;
    p->zeros = layer_option(pool, "pad_value") == ST_PAD_ZERO;
    if (p->grid->plan(&p->w, pool, x)) return -1;
    *y = x;
    if (st_layer_scratch(l, pooled) || st_layer_scratch(l, pooled)) return -1;
    if (st_layer_scratch(l, ST_SHAPE(p->w.out[0] + p->w.out[1], REALS_OF(pool_span)))) return -1;
    return st_layer_scratch(l, ST_SHAPE(p->w.kernel[0], p->w.kernel[1]));
}

/* The maximum of a window of x [H, W]: its place from the beginning of an image, or -1 in the padding or
 * where there is no element. `room` is for the window. */
static ptrdiff_t find(const pool_plan *p, st_tensor x, pool_span rows, pool_span columns, st_real *room)
{
    const window *w = &p->w;
    if (rows.count == 0 || columns.count == 0) return -1;
    pool_copy_window(p, rows, columns, x, room);
    const ptrdiff_t k = pool_peak(room, 1, 0, rows.count * columns.count, 1);
    const ptrdiff_t r = rows.first + k / columns.count * w->dilation[0],
                    s = columns.first + k % columns.count * w->dilation[1];
    return r >= 0 && r < w->size[0] && s >= 0 && s < w->size[1] ? r * w->size[1] + s : -1;
}

/* For each window of the batch: image = number, or with `back` number = image, at the window's maximum. */
static void at_maxima(const st_call *c, bool back, st_tensor x, st_real *number, st_tensor image)
{
    const st_layer *pool = c->layer->child[POOL];
    const pool_plan *p = c->plan;
    pool_span *rows = (pool_span *)(void *)st_data(st_scratch(c, SPANS)), *columns = rows + p->w.out[0];
    st_real *room = st_data(st_scratch(c, WINDOW));
    st_window at = { .options = pool->options, .training = c->training };
    at.key = st_call_random(&(st_call){ .layer = pool });
    for (ptrdiff_t k = 0; k < x.shape.n[0] * x.shape.n[1]; k++) {
        at.channel = k % x.shape.n[1], at.number = (uint64_t)k;
        p->grid->spans(p, &at, 0, rows), p->grid->spans(p, &at, 1, columns);
        const st_tensor plane = st_select(st_select(x, 0, k / x.shape.n[1]), 0, at.channel);
        st_real *to = st_data(st_select(st_select(image, 0, k / x.shape.n[1]), 0, at.channel));
        for (ptrdiff_t i = 0; i < p->w.out[0] * p->w.out[1]; i++, number++) {
            const ptrdiff_t place = find(p, plane, rows[i / p->w.out[1]], columns[i % p->w.out[1]], room);
            st_real *there = place < 0 ? NULL : to + place;
            if (back) *number = there ? *there : 0;
            else if (there) *there += *number;
        }
    }
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const st_tensor body = st_forward_child(c, BODY, st_forward_child(c, POOL, x));
    st_fill(y, 0);
    at_maxima(c, false, x, st_data(body), y);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const st_tensor dbody = st_narrow(st_scratch(c, DBODY), 0, 0, c->images),
                    dpool = st_narrow(st_scratch(c, DPOOL), 0, 0, c->images);
    at_maxima(c, true, x, st_data(dbody), dy);
    st_backward_child(c, BODY, st_child_output(c, POOL), dbody, st_is_null(dx) ? dx : dpool);
    if (!st_is_null(dx)) st_backward_child(c, POOL, x, dpool, dx);
}

static const char *const children[] = { "pool", "body", NULL };

const st_layer_type layer_type_max_unpool = {
    .name = "max_unpool",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .children = 2,
    .child_names = children,
};

st_layer *st_max_unpool(st_layer *pool, st_layer *body)
{
    return st_layer_new(&layer_type_max_unpool, NULL, 2, (st_layer *const[]){ pool, body });
}
