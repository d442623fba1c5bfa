/* counter.c: see counter.h. */
#include "tests/nn/counter.h"

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_state(l, "seen", ST_SHAPE(1), 0);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    if (c->training) *st_data(c->layer->state[0]) += 1;
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_copy(dx, dy);
}

const st_layer_type counter = {
    .name = "counter", .chunk = ST_WHOLE_BATCH, .plan = plan, .forward = forward, .backward = backward
};
