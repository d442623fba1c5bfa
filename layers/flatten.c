/* flatten.c: [N, a, b, ...] -> [N, a b ...]: the same elements under another shape. */
#include "layers/layers.h"
#include "layers/types.h"

static int plan(layer *l, shape x, shape *y)
{
    (void)l;
    *y = SHAPE(x.n[0], shape_count(x, "flatten") / x.n[0]);
    return 0;
}

static void forward(layer *l, tensor x, tensor y)
{
    (void)l;
    tensor_copy(tensor_reshape(y, x.shape), x);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)l, (void)x, (void)y;
    tensor_copy(dx, tensor_reshape(dy, dx.shape));
}

const layer_type layer_type_flatten = {
    .name = "flatten",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .in_place = true,
    .ignores_y = true,
};

layer *layer_flatten(void)
{
    return layer_new(&layer_type_flatten, NULL, 0, NULL);
}
