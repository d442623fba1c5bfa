/* identity.c: y = x: the branch that is left alone. */
#include "layers/layers.h"
#include "layers/types.h"

static int plan(layer *l, shape x, shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

static void forward(layer *l, tensor x, tensor y)
{
    (void)l;
    tensor_copy(y, x);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)l, (void)x, (void)y;
    tensor_copy(dx, dy);
}

const layer_type layer_type_identity = {
    .name = "identity",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .in_place = true,
    .ignores_y = true,
};

layer *layer_identity(void)
{
    return layer_new(&layer_type_identity, NULL, 0, NULL);
}
