/* layer_claims.c: see layer_claims.h. */
#include "tests/layers/layer_claims.h"
#include "tests/support.h"

static void assert_error(const char *text)
{
    assert_non_null(st_error());
    assert_string_equal(st_error(), text);
    st_error_clear();
}

void assert_built(st_layer *l, st_shape x)
{
    assert_non_null(l);
    if (st_layer_build(l, x, 1)) fail_msg("%s", st_error());
    st_layer_mode(l, true, 1, 1);
}

void assert_refused(st_layer *l, const char *text)
{
    assert_null(l);
    assert_error(text);
}

void assert_unbuildable(st_layer *l, st_shape x, const char *text)
{
    assert_non_null(l);
    assert_int_equal(st_layer_build(l, x, 1), -1);
    assert_error(text);
    st_layer_free(l);
}
