/* join.c: layers with branches of the same x: residual, concat and multiply. */
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "tensor/engine.h"
#include "tensor/parallel.h"
#include "tensor/tables.h"

/* ---- pieces of a batch --------------------------------------------------------------------------------- */

/* The images in an item of work: the fewest that are worth a thread. */
static ptrdiff_t images_of_item(st_tensor batch)
{
    return parallel_grain(st_numel(batch) / batch.shape.n[0]);
}

static st_tensor item_of(st_tensor batch, ptrdiff_t i)
{
    const ptrdiff_t images = images_of_item(batch);
    return st_narrow(batch, 0, i * images, smallest(images, batch.shape.n[0] - i * images));
}

/* to = from + plus; without `plus`, to = from; without `from`, to += plus. */
typedef struct sum_of_two {
    st_tensor to, from, plus;
} sum_of_two;

static void sum_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    st_real *to = at[0];
    const st_real *from = at[1], *plus = at[2];
    for (ptrdiff_t i = 0; i < n; i++) to[i * stride[0]] = from[i * stride[1]] + plus[i * stride[2]];
}

static void join_item(ptrdiff_t i, void *context)
{
    const sum_of_two *j = context;
    const st_tensor to = item_of(j->to, i);
    if (st_is_null(j->from)) st_add(to, 1, item_of(j->plus, i));
    else if (st_is_null(j->plus)) st_copy(to, item_of(j->from, i));
    else
        st_walk(3, (st_tensor[]){ to, item_of(j->from, i), item_of(j->plus, i) }, ST_ANY_ORDER, sum_row,
                NULL);
}

static void join(const st_call *c, st_tensor to, st_tensor from, st_tensor plus)
{
    st_parallel_for(c, ceil_div(c->images, images_of_item(to)), join_item, &(sum_of_two){ to, from, plus });
}

static const st_tensor none;

enum { BRANCH_DX }; /* scratch: dx of one branch */

/* Tests if a branch is run backward: for dx, or for parameters. */
static bool branch_trains(const st_call *c, int i, st_tensor dx)
{
    return !st_is_null(dx) || layer_trains(c->layer->child[i]);
}

/* Tests if the branch is x itself, so that its dy is added to dx as it is. */
static bool branch_is_x(const st_call *c, int i, st_tensor dx)
{
    return i > 0 && !st_is_null(dx) && c->layer->child[i]->type == &layer_type_identity;
}

/* dx, unless it is null, becomes that of branch 0; that of other branches is added to it. */
static void branch_backward(const st_call *c, int i, st_tensor x, st_tensor dy, st_tensor dx)
{
    const bool adds = i > 0 && !st_is_null(dx), same = branch_is_x(c, i, dx);
    const st_tensor own = same ? dy : adds ? st_narrow(st_scratch(c, BRANCH_DX), 0, 0, c->images) : dx;
    if (!same) st_backward_child(c, i, x, dy, own);
    if (adds) join(c, dx, none, own);
}

/* A type with branches that it runs itself. */
#define JOIN(NAME, CHILD_NAMES)                                                                              \
    const st_layer_type layer_type_##NAME = {                                                                \
        .name = #NAME,                                                                                       \
        .plan = NAME##_plan,                                                                                 \
        .forward = NAME##_forward,                                                                           \
        .backward = NAME##_backward,                                                                         \
        .children = ST_LAYER_ANY,                                                                            \
        .child_names = CHILD_NAMES,                                                                          \
    };

/* ---- residual: y = body(x) + x, or + projection(x): He et al. 2016 ------------------------------------- */

enum { BODY, PROJECTION };

static int residual_plan(st_layer *l, st_shape x, st_shape *y)
{
    st_shape through = x;
    if (l->children < 1)
        return st_layer_refuse(l, "holds 0 layers, expected a body and perhaps a projection");
    if (st_plan_child(l, BODY, x, y)) return -1;
    if (l->children > 1 && st_plan_child(l, PROJECTION, x, &through)) return -1;
    if (!st_shape_equal(*y, through))
        return st_layer_refuse(l, "the body makes %s, to be added to %s", st_shape_text(*y).text,
                               st_shape_text(through).text);
    l->flops += (double)st_shape_numel(*y, "residual");
    return st_layer_scratch(l, l->children > 1 ? x : ST_SHAPE(0));
}

static void residual_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_tensor body = st_forward_child(c, BODY, x);
    st_tensor through = c->layer->children > 1 ? st_forward_child(c, PROJECTION, x) : x;
    join(c, y, body, through);
}

static void residual_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    for (int i = 0; i < c->layer->children; i++)
        if (branch_trains(c, i, dx)) branch_backward(c, i, x, dy, dx);
    if (c->layer->children == 1 && !st_is_null(dx)) join(c, dx, none, dy);
}

static const char *const residual_children[] = { "body", "projection", NULL };

JOIN(residual, residual_children)

st_layer *st_residual(st_layer *body)
{
    return st_layer_new(&layer_type_residual, NULL, 1, (st_layer *const[]){ body });
}

st_layer *st_residual_projected(st_layer *body, st_layer *projection)
{
    return st_layer_new(&layer_type_residual, NULL, 2, (st_layer *const[]){ body, projection });
}

/* ---- concat: branches side by side, their channels one after another: Szegedy et al. 2015 -------------- */

enum { CONCAT_DY = BRANCH_DX + 1 }; /* scratch: a branch's part of dy */

static int concat_plan(st_layer *l, st_shape x, st_shape *y)
{
    if (l->children == 0) return st_layer_refuse(l, "holds no layers");
    ptrdiff_t channels = 0;
    st_shape widest = { 0 };
    for (int i = 0; i < l->children; i++) {
        st_shape branch;
        if (st_plan_child(l, i, x, &branch)) return -1;
        if (branch.rank < 2)
            return st_layer_refuse(l, "branch %d makes %s, expected [N, C, ...]", i,
                                   st_shape_text(branch).text);
        if (i == 0) *y = widest = branch;
        if (branch.n[1] > widest.n[1]) widest = branch;
        st_shape expected = *y;
        expected.n[1] = branch.n[1];
        if (!st_shape_equal(branch, expected))
            return st_layer_refuse(l, "branch %d makes %s, branch 0 %s: they may differ in channels only", i,
                                   st_shape_text(branch).text, st_shape_text(l->child[0]->y).text);
        if (__builtin_add_overflow(channels, branch.n[1], &channels))
            return st_layer_refuse(l, "too many channels");
    }
    y->n[1] = channels;
    return st_layer_scratch(l, x) || st_layer_scratch(l, ST_SHAPE(st_shape_numel(widest, "concat"))) ? -1 : 0;
}

static void concat_forward(const st_call *c, st_tensor x, st_tensor y)
{
    ptrdiff_t at = 0;
    for (int i = 0; i < c->layer->children; i++) {
        st_tensor out = st_forward_child(c, i, x);
        join(c, st_narrow(y, 1, at, out.shape.n[1]), out, none);
        at += out.shape.n[1];
    }
}

static void concat_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    ptrdiff_t at = 0;
    for (int i = 0; i < c->layer->children; i++) {
        const st_shape s = st_child_output(c, i).shape;
        st_tensor part = st_narrow(dy, 1, at, s.n[1]),
                  own = st_narrow(st_scratch(c, CONCAT_DY), 0, 0, st_shape_numel(s, "concat"));
        at += s.n[1];
        if (!branch_trains(c, i, dx)) continue;
        if (!branch_is_x(c, i, dx)) {
            own = st_reshape(own, s);
            join(c, own, part, none);
            part = own;
        }
        branch_backward(c, i, x, part, dx);
    }
}

JOIN(concat, NULL)

st_layer *st_concat_of(int count, st_layer *const branches[])
{
    return st_layer_new(&layer_type_concat, NULL, count, branches);
}

/* ---- multiply: the product of all branches, element by element: the gates of Hu et al. 2018 ------------- *
 * An axis of size 1 is that of the others, repeated. The gradient of a branch is dy times the other branches,
 * added up along the axes that were repeated. */

enum { MULTIPLY_DY = BRANCH_DX + 1, MULTIPLY_SUM }; /* scratch: dy of a branch, as y; added up */

/* `s` becomes the shape of a product with `branch`; false: they differ in an axis of which neither is 1. */
static bool broadcast(st_shape *s, st_shape branch)
{
    bool fits = s->rank == branch.rank;
    for (int i = 0; i < s->rank && fits; i++) {
        fits = s->n[i] == branch.n[i] || s->n[i] == 1 || branch.n[i] == 1;
        if (s->n[i] == 1) s->n[i] = branch.n[i];
    }
    return fits;
}

static int multiply_plan(st_layer *l, st_shape x, st_shape *y)
{
    if (l->children == 0) return st_layer_refuse(l, "holds no layers");
    for (int i = 0; i < l->children; i++) {
        st_shape branch;
        if (st_plan_child(l, i, x, &branch)) return -1;
        const st_shape others = i ? *y : branch;
        *y = others;
        if (!broadcast(y, branch))
            return st_layer_refuse(l, "branch %d makes %s, to be multiplied with %s", i,
                                   st_shape_text(branch).text, st_shape_text(others).text);
    }
    ptrdiff_t size = st_shape_numel(*y, "multiply"), sum = 0;
    if (size < 0) return -1;
    l->flops += (double)size * (l->children - 1);
    for (int i = 0; i < l->children; i++) {
        const ptrdiff_t branch = st_shape_numel(l->child[i]->y, "multiply");
        if (branch < size) sum = largest(sum, branch);
    }
    return st_layer_scratch(l, x) || st_layer_scratch(l, *y) || st_layer_scratch(l, ST_SHAPE(sum)) ? -1 : 0;
}

typedef struct factors_of {
    const st_call *c;
    int one;
    st_tensor y, part, to, dy;
} factors_of;

__attribute__((weak)) st_row_function *(*row_products_by_vectors)(void);

/* The definition of tensor/tables.h. */
static void product_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const row_products *p = context;
    const bool sums = p->adds && stride[0] == 0;
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        st_real product = at[1][i * stride[1]], *y = at[0] + i * stride[0];
        for (int k = 2; k <= p->factors; k++) product *= at[k][i * stride[k]];
        if (sums) sum += (double)product;
        else *y = p->adds ? *y + product : product;
    }
    if (sums) *at[0] = (st_real)((double)*at[0] + sum);
}

/* view[0] = the product of the other views, or has it added. */
static void multiply_views(int factors, const st_tensor view[], bool adds)
{
    const bool fast = row_products_by_vectors && !engine_is_reference();
    st_walk(1 + factors, view, ST_ANY_ORDER, fast ? row_products_by_vectors() : product_row,
            &(row_products){ factors, adds });
}

static void multiply_item(ptrdiff_t i, void *context)
{
    const factors_of *f = context;
    const int branches = f->c->layer->children;
    st_tensor view[ST_MAX_VIEWS];
    int count = 0;
    for (int k = 0; k <= branches; k++) {
        if (k == f->one || (k == branches && st_is_null(f->dy))) continue;
        if (count + 1 == ST_MAX_VIEWS) { /* the product of these is the first of the others */
            view[0] = item_of(f->part, i);
            multiply_views(count, view, false);
            view[1] = view[0];
            count = 1;
        }
        const st_tensor factor = k < branches ? st_child_output(f->c, k) : f->dy;
        view[++count] = item_of(st_expand(factor, f->y.shape), i);
    }
    view[0] = item_of(st_expand(f->to, f->y.shape), i);
    multiply_views(count, view, !st_shape_equal(f->to.shape, f->y.shape));
}

/* to = the product of all branches but branch `one` (-1: of all) and of dy, unless it is null, added up along
 * the axes of y that are 1 in `to`. All factors are expanded to y's shape. */
static void multiply_others(const st_call *c, int one, st_tensor y, st_tensor to, st_tensor dy)
{
    st_tensor part = one < 0 ? y : st_narrow(st_scratch(c, MULTIPLY_DY), 0, 0, c->images);
    st_parallel_for(c, ceil_div(c->images, images_of_item(y)), multiply_item,
                    &(factors_of){ c, one, y, part, to, dy });
}

static void multiply_forward(const st_call *c, st_tensor x, st_tensor y)
{
    for (int i = 0; i < c->layer->children; i++) st_forward_child(c, i, x);
    multiply_others(c, -1, y, y, none);
}

/* dy of branch i. */
static st_tensor multiply_dy(const st_call *c, int i, st_tensor dy)
{
    const st_shape s = st_child_output(c, i).shape;
    st_tensor to = st_narrow(st_scratch(c, MULTIPLY_DY), 0, 0, c->images);
    if (!st_shape_equal(s, dy.shape)) {
        to = st_reshape(st_narrow(st_scratch(c, MULTIPLY_SUM), 0, 0, st_shape_numel(s, "multiply")), s);
        st_fill(to, 0);
    }
    multiply_others(c, i, dy, to, dy);
    return to;
}

static void multiply_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    for (int i = 0; i < c->layer->children; i++)
        if (branch_trains(c, i, dx)) branch_backward(c, i, x, multiply_dy(c, i, dy), dx);
}

JOIN(multiply, NULL)

st_layer *st_multiply_of(int count, st_layer *const branches[])
{
    return st_layer_new(&layer_type_multiply, NULL, count, branches);
}
