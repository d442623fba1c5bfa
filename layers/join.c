/* join.c: layers whose branches see the same x: residual and concat. */
#include "layers/layers.h"
#include "layers/types.h"

/* ---- residual: y = body(x) + x, or + projection(x): He et al. 2016 ------------------------------------- */

enum { BODY, PROJECTION };
enum { RESIDUAL_DX }; /* scratch: dx of the projection */

static int residual_plan(layer *l, shape x, shape *y)
{
    shape through = x;
    if (l->children < 1) return layer_refuse(l, "holds 0 layers, expected a body and perhaps a projection");
    if (st_plan_child(l, BODY, x, y)) return -1;
    if (l->children > 1 && st_plan_child(l, PROJECTION, x, &through)) return -1;
    if (!shape_equal(*y, through))
        return layer_refuse(l, "the body makes %s, to be added to %s", shape_text(*y).text,
                            shape_text(through).text);
    l->flops += (double)shape_count(*y, "residual");
    return layer_scratch(l, l->children > 1 ? x : SHAPE(0));
}

static void residual_forward(const st_call *c, tensor x, tensor y)
{
    tensor body = st_forward_child(c, BODY, x);
    tensor through = c->layer->children > 1 ? st_forward_child(c, PROJECTION, x) : x;
    tensor_copy(y, body);
    tensor_add(y, 1, through);
}

static void residual_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    const bool wanted = !tensor_is_null(dx);
    tensor through = dy;
    st_backward_child(c, BODY, x, dy, dx);
    if (c->layer->children > 1) {
        through = wanted ? tensor_narrow(st_scratch(c, RESIDUAL_DX), 0, 0, c->images) : dx;
        st_backward_child(c, PROJECTION, x, dy, through);
    }
    if (wanted) tensor_add(dx, 1, through);
}

static const char *const residual_children[] = { "body", "projection", NULL };

const layer_type layer_type_residual = {
    .name = "residual",
    .plan = residual_plan,
    .forward = residual_forward,
    .backward = residual_backward,
    .children = LAYER_ANY,
    .child_names = residual_children,
};

layer *layer_residual(layer *body)
{
    return layer_new(&layer_type_residual, NULL, 1, (layer *const[]){ body });
}

layer *layer_residual_projected(layer *body, layer *projection)
{
    return layer_new(&layer_type_residual, NULL, 2, (layer *const[]){ body, projection });
}

/* ---- concat: branches side by side, their channels one after another: Szegedy et al. 2015 --------------- */

enum { CONCAT_DX, CONCAT_DY }; /* scratch: dx of one branch, and its part of dy */

static int concat_plan(layer *l, shape x, shape *y)
{
    if (l->children == 0) return layer_refuse(l, "holds no layers");
    ptrdiff_t channels = 0;
    shape widest = { 0 };
    for (int i = 0; i < l->children; i++) {
        shape branch;
        if (st_plan_child(l, i, x, &branch)) return -1;
        if (branch.rank < 2)
            return layer_refuse(l, "branch %d makes %s, expected [N, C, ...]", i, shape_text(branch).text);
        if (i == 0) *y = widest = branch;
        if (branch.n[1] > widest.n[1]) widest = branch;
        shape expected = *y;
        expected.n[1] = branch.n[1];
        if (!shape_equal(branch, expected))
            return layer_refuse(l, "branch %d makes %s, branch 0 %s: they may differ in channels only", i,
                                shape_text(branch).text, shape_text(l->child[0]->y).text);
        if (__builtin_add_overflow(channels, branch.n[1], &channels))
            return layer_refuse(l, "too many channels");
    }
    y->n[1] = channels;
    return layer_scratch(l, x) || layer_scratch(l, SHAPE(shape_count(widest, "concat"))) ? -1 : 0;
}

static void concat_forward(const st_call *c, tensor x, tensor y)
{
    ptrdiff_t at = 0;
    for (int i = 0; i < c->layer->children; i++) {
        tensor out = st_forward_child(c, i, x);
        tensor_copy(tensor_narrow(y, 1, at, out.shape.n[1]), out);
        at += out.shape.n[1];
    }
}

static void concat_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    const bool wanted = !tensor_is_null(dx);
    ptrdiff_t at = 0;
    for (int i = 0; i < c->layer->children; i++) {
        shape s = st_child_output(c, i).shape;
        tensor part = tensor_narrow(st_scratch(c, CONCAT_DY), 0, 0, shape_count(s, "concat")), branch_dx = dx;
        if (wanted && i > 0) branch_dx = tensor_narrow(st_scratch(c, CONCAT_DX), 0, 0, c->images);
        part = tensor_reshape(part, s);
        tensor_copy(part, tensor_narrow(dy, 1, at, s.n[1]));
        st_backward_child(c, i, x, part, branch_dx);
        if (wanted && i > 0) tensor_add(dx, 1, branch_dx);
        at += s.n[1];
    }
}

const layer_type layer_type_concat = {
    .name = "concat",
    .plan = concat_plan,
    .forward = concat_forward,
    .backward = concat_backward,
    .children = LAYER_ANY,
};

layer *layer_concat_of(int count, layer *const branches[])
{
    return layer_new(&layer_type_concat, NULL, count, branches);
}
