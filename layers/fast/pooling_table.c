/* pooling_table.c: the algorithms of the types of layers/pooling/. */
#include "layers/fast/windows.h"
#include "layers/pooling/family.h"

/* ---- blur pooling is a pair of matrices, as resizing is ------------------------------------------------ */

static bool suits(const st_layer *l)
{
    return upsample_rows.suits(l);
}

static int plan(st_layer *l, const void *given)
{
    return upsample_rows.plan(l, given);
}

static void fill(st_layer *l, void *tables)
{
    upsample_rows.fill(l, tables);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    upsample_rows.hooks.forward(c, x, y);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    upsample_rows.hooks.backward(c, x, y, dy, dx);
}

const layer_algorithm blur_pool_rows = {
    .type = &layer_type_blur_pool,
    .suits = suits,
    .plan = plan,
    .fill = fill,
    .hooks = { .forward = forward, .backward = backward },
};

#define ADDRESS(NAME, HOW) &NAME##_##HOW,
static const layer_algorithm *const algorithms[] = { EACH_POOLING_ALGORITHM(ADDRESS) NULL };
const layer_algorithm *const *layer_pooling_algorithms = algorithms;
