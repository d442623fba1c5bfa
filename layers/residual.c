/* residual.c: y = body(x) + x, or + projection(x): He et al. 2016. */
#include "layers/layers.h"
#include "layers/types.h"

enum { BODY, PROJECTION };
enum { DX }; /* scratch: what the projection says of x */

static int plan(layer *l, shape x, shape *y)
{
    if (l->children < 1 || l->children > 2)
        return layer_refuse(l, "holds %d layers, expected a body and perhaps a projection", l->children);
    shape through = x;
    if (layer_plan(l->child[BODY], x, y)) return error_within("body: ");
    if (l->children > 1 && layer_plan(l->child[PROJECTION], x, &through)) return error_within("projection: ");
    if (!shape_equal(*y, through))
        return layer_refuse(l, "the body makes %s, to be added to %s", shape_text(*y).text,
                            shape_text(through).text);
    for (int i = 0; i < l->children; i++) {
        l->child[i]->output = (tensor){ .shape = *y };
        l->flops += l->child[i]->flops;
    }
    l->flops += (double)shape_count(*y, "residual");
    return layer_scratch(l, l->children > 1 ? x : SHAPE(0));
}

static tensor kept(const layer *l, int i, tensor y)
{
    return tensor_narrow(l->child[i]->output, 0, 0, y.shape.n[0]);
}

static void forward(layer *l, tensor x, tensor y)
{
    for (int i = 0; i < l->children; i++) layer_forward(l->child[i], x, kept(l, i, y));
    tensor_copy(y, kept(l, BODY, y));
    tensor_add(y, 1, l->children > 1 ? kept(l, PROJECTION, y) : x);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    tensor aside = dx; /* null where dx is not wanted */
    if (!tensor_is_null(dx) && l->children > 1) aside = tensor_narrow(l->scratch[DX], 0, 0, x.shape.n[0]);
    layer_backward(l->child[BODY], x, kept(l, BODY, y), dy, dx);
    if (l->children > 1) layer_backward(l->child[PROJECTION], x, kept(l, PROJECTION, y), dy, aside);
    if (!tensor_is_null(dx)) tensor_add(dx, 1, l->children > 1 ? aside : dy);
}

static const char *const child_names[] = { "body", "projection", NULL };

const layer_type layer_type_residual = {
    .name = "residual",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .children = LAYER_ANY,
    .child_names = child_names,
};

layer *layer_residual(layer *body)
{
    return layer_new(&layer_type_residual, NULL, 1, (layer *const[]){ body });
}

layer *layer_residual_projected(layer *body, layer *projection)
{
    return layer_new(&layer_type_residual, NULL, 2, (layer *const[]){ body, projection });
}
