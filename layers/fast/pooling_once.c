/* pooling_once.c: poolings with parameters that have no algorithm of their own: each window's adjoint, which
 * gives both gradients, runs once. */
#include "layers/fast/algorithms.h"
#include "layers/pool_impl.h"

static bool suits(const st_layer *l)
{
    return l->params > 0 && l->type->backward == st_pool_backward && l->type->gradient == st_pool_gradient &&
           l->type->forward == st_pool_forward;
}

static int plan(st_layer *l, const void *given)
{
    pool_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = *(const pool_plan *)given;
    return pool_request_scratch(l, p);
}

const layer_algorithm pooling_once = {
    .suits = suits,
    .plan = plan,
    .hooks = { st_pool_forward, st_pool_backward, st_pool_gradient, pool_both },
};
