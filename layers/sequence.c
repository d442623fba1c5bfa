/* sequence.c: a chain of layers is a layer; each child's output is kept for the backward pass. */
#include "layers/layers.h"
#include "layers/types.h"

/* Scratch: dx of child i+1, which is dy of child i, in turns. */

static int plan(layer *l, shape x, shape *y)
{
    if (l->children == 0) return layer_refuse(l, "holds no layers");
    ptrdiff_t largest = 0;
    for (int i = 0; i < l->children; i++) {
        layer *child = l->child[i];
        if (layer_plan(child, x, y)) return error_within("layer %d: ", i);
        l->flops += child->flops;
        x = *y;
        if (i + 1 == l->children) break;
        child->output = (tensor){ .shape = *y };
        ptrdiff_t count = shape_count(*y, "sequence");
        if (count > largest) largest = count;
    }
    for (int turn = 0; turn < 2; turn++)
        if (layer_scratch(l, SHAPE(l->children > turn + 1 ? largest : 0))) return -1;
    return 0;
}

/* The first n images of what child i puts out; the last one's goes to y. */
static tensor output(const layer *l, int i, tensor y)
{
    return i + 1 == l->children ? y : tensor_narrow(l->child[i]->output, 0, 0, y.shape.n[0]);
}

static void forward(layer *l, tensor x, tensor y)
{
    for (int i = 0; i < l->children; i++) {
        tensor out = output(l, i, y);
        layer_forward(l->child[i], x, out);
        x = out;
    }
}

static bool trains(const layer *l)
{
    bool any = l->params > 0;
    for (int i = 0; i < l->children && !any; i++) any = trains(l->child[i]);
    return any;
}

/* Where nobody wants dx, nobody needs what lies below the first layer that trains. */
static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    int last = 0;
    while (tensor_is_null(dx) && last < l->children && !trains(l->child[last])) last++;
    for (int i = l->children - 1; i >= last; i--) {
        tensor in = i > 0 ? output(l, i - 1, y) : x, din = dx;
        if (i > last)
            din = tensor_reshape(tensor_narrow(l->scratch[(i - 1) % 2], 0, 0, tensor_count(in)), in.shape);
        layer_backward(l->child[i], in, output(l, i, y), dy, din);
        dy = din;
    }
}

const layer_type layer_type_sequence = {
    .name = "sequence",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .children = LAYER_ANY,
};

layer *layer_sequence_of(int count, layer *const layers[])
{
    return layer_new(&layer_type_sequence, NULL, count, layers);
}
