/* layer_claims.c: see layer_claims.h. */
#include "tests/layers/layer_claims.h"
#include "tests/support.h"

static void assert_error(const char *text)
{
    assert_non_null(error_text());
    assert_string_equal(error_text(), text);
    error_clear();
}

void assert_built(layer *l, shape x)
{
    assert_non_null(l);
    if (layer_build(l, x, 1)) fail_msg("%s", error_text());
    layer_mode(l, true, 1, 1);
}

void assert_refused(layer *l, const char *text)
{
    assert_null(l);
    assert_error(text);
}

void assert_unbuildable(layer *l, shape x, const char *text)
{
    assert_non_null(l);
    assert_int_equal(layer_build(l, x, 1), -1);
    assert_error(text);
    layer_free(l);
}
