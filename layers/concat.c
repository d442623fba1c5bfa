/* concat.c: branches side by side, their channels one after another: Szegedy et al. 2015. */
#include "layers/layers.h"
#include "layers/types.h"

enum { DX, DY }; /* scratch: what one branch says of x, and its part of dy */

static int plan(layer *l, shape x, shape *y)
{
    if (l->children == 0) return layer_refuse(l, "holds no layers");
    ptrdiff_t channels = 0;
    shape widest = { 0 };
    for (int i = 0; i < l->children; i++) {
        shape branch;
        if (layer_plan(l->child[i], x, &branch)) return error_within("branch %d: ", i);
        if (branch.rank < 2)
            return layer_refuse(l, "branch %d makes %s, expected [N, C, ...]", i, shape_text(branch).text);
        l->child[i]->output = (tensor){ .shape = branch };
        l->flops += l->child[i]->flops;
        if (i == 0) *y = widest = branch;
        if (branch.n[1] > widest.n[1]) widest = branch;
        shape expected = *y;
        expected.n[1] = branch.n[1];
        if (!shape_equal(branch, expected))
            return layer_refuse(l, "branch %d makes %s, branch 0 %s: they may differ in channels only", i,
                                shape_text(branch).text, shape_text(l->child[0]->output.shape).text);
        if (__builtin_add_overflow(channels, branch.n[1], &channels))
            return layer_refuse(l, "too many channels");
    }
    y->n[1] = channels;
    return layer_scratch(l, x) || layer_scratch(l, SHAPE(shape_count(widest, "concat"))) ? -1 : 0;
}

static tensor kept(const layer *l, int i, tensor y)
{
    return tensor_narrow(l->child[i]->output, 0, 0, y.shape.n[0]);
}

static void forward(layer *l, tensor x, tensor y)
{
    ptrdiff_t at = 0;
    for (int i = 0; i < l->children; i++) {
        tensor out = kept(l, i, y);
        layer_forward(l->child[i], x, out);
        tensor_copy(tensor_narrow(y, 1, at, out.shape.n[1]), out);
        at += out.shape.n[1];
    }
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    ptrdiff_t at = 0;
    for (int i = 0; i < l->children; i++) {
        tensor out = kept(l, i, y), part = tensor_narrow(l->scratch[DY], 0, 0, tensor_count(out));
        tensor aside = tensor_is_null(dx) || i == 0 ? dx : tensor_narrow(l->scratch[DX], 0, 0, x.shape.n[0]);
        part = tensor_reshape(part, out.shape);
        tensor_copy(part, tensor_narrow(dy, 1, at, out.shape.n[1]));
        layer_backward(l->child[i], x, out, part, aside);
        if (!tensor_is_null(dx) && i > 0) tensor_add(dx, 1, aside);
        at += out.shape.n[1];
    }
}

const layer_type layer_type_concat = {
    .name = "concat",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .children = LAYER_ANY,
};

layer *layer_concat_of(int count, layer *const branches[])
{
    return layer_new(&layer_type_concat, NULL, count, branches);
}
