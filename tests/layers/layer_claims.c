/* layer_claims.c: see layer_claims.h. */
#include "tests/layers/layer_claims.h"
#include "tests/support.h"

#include <math.h>

void assert_built(st_layer *l, st_shape x)
{
    assert_non_null(l);
    if (st_layer_build(l, x, 1)) fail_msg("%s", st_error());
    st_layer_mode(l, true, 1, 1);
}

st_tensor forward(st_layer *l, st_tensor x)
{
    st_shape s = l->y;
    s.n[0] = x.shape.n[0];
    st_tensor y = full(s, NAN);
    st_layer_forward(l, x, y);
    return y;
}

st_tensor backward(st_layer *l, st_tensor x, st_tensor y, st_tensor dy)
{
    st_tensor dx = full(x.shape, NAN);
    st_layer_backward(l, x, y, dy, dx);
    return dx;
}

void assert_refused(st_layer *l, const char *text)
{
    expect_failure(l, "%s", text);
}

void assert_unbuildable(st_layer *l, st_shape x, const char *text)
{
    assert_non_null(l);
    expect_failure(st_layer_build(l, x, 1), "%s", text);
    st_layer_free(l);
}
