/* join.c: layers with branches of the same x: residual and concat. */
#include "layers/types.h"

/* ---- residual: y = body(x) + x, or + projection(x): He et al. 2016 ------------------------------------- */

enum { BODY, PROJECTION };
enum { RESIDUAL_DX }; /* scratch: dx of the projection */

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
    st_copy(y, body);
    st_add(y, 1, through);
}

static void residual_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const bool wanted = !st_is_null(dx);
    st_tensor through = dy;
    st_backward_child(c, BODY, x, dy, dx);
    if (c->layer->children > 1) {
        through = wanted ? st_narrow(st_scratch(c, RESIDUAL_DX), 0, 0, c->images) : dx;
        st_backward_child(c, PROJECTION, x, dy, through);
    }
    if (wanted) st_add(dx, 1, through);
}

static const char *const residual_children[] = { "body", "projection", NULL };

const st_layer_type layer_type_residual = {
    .name = "residual",
    .plan = residual_plan,
    .forward = residual_forward,
    .backward = residual_backward,
    .children = ST_LAYER_ANY,
    .child_names = residual_children,
};

st_layer *st_residual(st_layer *body)
{
    return st_layer_new(&layer_type_residual, NULL, 1, (st_layer *const[]){ body });
}

st_layer *st_residual_projected(st_layer *body, st_layer *projection)
{
    return st_layer_new(&layer_type_residual, NULL, 2, (st_layer *const[]){ body, projection });
}

/* ---- concat: branches side by side, their channels one after another: Szegedy et al. 2015 --------------- */

enum { CONCAT_DX, CONCAT_DY }; /* scratch: dx of one branch, and its part of dy */

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
        st_copy(st_narrow(y, 1, at, out.shape.n[1]), out);
        at += out.shape.n[1];
    }
}

static void concat_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const bool wanted = !st_is_null(dx);
    ptrdiff_t at = 0;
    for (int i = 0; i < c->layer->children; i++) {
        st_shape s = st_child_output(c, i).shape;
        st_tensor part = st_narrow(st_scratch(c, CONCAT_DY), 0, 0, st_shape_numel(s, "concat")),
                  branch_dx = dx;
        if (wanted && i > 0) branch_dx = st_narrow(st_scratch(c, CONCAT_DX), 0, 0, c->images);
        part = st_reshape(part, s);
        st_copy(part, st_narrow(dy, 1, at, s.n[1]));
        st_backward_child(c, i, x, part, branch_dx);
        if (wanted && i > 0) st_add(dx, 1, branch_dx);
        at += s.n[1];
    }
}

const st_layer_type layer_type_concat = {
    .name = "concat",
    .plan = concat_plan,
    .forward = concat_forward,
    .backward = concat_backward,
    .children = ST_LAYER_ANY,
};

st_layer *st_concat_of(int count, st_layer *const branches[])
{
    return st_layer_new(&layer_type_concat, NULL, count, branches);
}
