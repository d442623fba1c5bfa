/* sequence.c: layers one after another, as one layer. */
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"

/* Two slots of scratch hold dx of a layer, which is dy of the layer before it, in turns. */
static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const int last = l->children - 1;
    ptrdiff_t largest_dx = 0;
    if (last < 0) return st_layer_refuse(l, "holds no layers");
    for (int i = 0; i <= last; i++) {
        if (i > 0) largest_dx = largest(largest_dx, st_shape_numel(x, "sequence"));
        if (st_plan_child(l, i, x, y)) return -1;
        x = *y;
    }
    l->child[last]->impl->output = (st_tensor){ 0 }; /* that is the sequence's y */
    for (int slot = 0; slot < 2; slot++)
        if (st_layer_scratch(l, ST_SHAPE(last > slot ? largest_dx : 0))) return -1;
    return 0;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const int last = c->layer->children - 1;
    for (int i = 0; i <= last; i++) {
        const st_tensor to = i < last ? st_child_output(c, i) : y;
        st_layer_forward(c->layer->child[i], x, to);
        x = to;
    }
}

/* If dx is not needed, layers before the first one that trains do not run backward. */
static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_layer *const *child = c->layer->child;
    const int last = c->layer->children - 1;
    int first = 0;
    while (st_is_null(dx) && first <= last && !layer_trains(child[first])) first++;
    for (int i = last; i >= first; i--) {
        st_tensor to = dx, from = x;
        if (i > 0) from = st_child_output(c, i - 1);
        if (i > first)
            to = st_reshape(st_narrow(st_scratch(c, (last - i) % 2), 0, 0, st_numel(from)), from.shape);
        st_layer_backward(child[i], from, y, dy, to);
        y = from, dy = to;
    }
}

const st_layer_type layer_type_sequence = {
    .name = "sequence",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .children = ST_LAYER_ANY,
};

st_layer *st_sequence_of(int count, st_layer *const layers[])
{
    return st_layer_new(&layer_type_sequence, NULL, count, layers);
}
