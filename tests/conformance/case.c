/* case.c: see case.h. */
#include "tests/conformance/case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases ----------------------------------------------------------------------------------- */

static char name[512], why[1024];
static int tried, failed;

int case_count(int all, int fast)
{
    const char *set = getenv("STRIDE_FAST");
    return set && *set && strcmp(set, "0") != 0 ? fast : all;
}

void case_begin(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    why[0] = '\0';
    error_clear();
}

void case_layer(const layer *l, shape x, const char *view)
{
    char text[256] = "no layer";
    if (l) layer_describe(l, text, sizeof text);
    case_begin("%d %s of %s %s", tried + 1, text, view, shape_text(x).text);
}

void case_fail(const char *format, ...)
{
    if (why[0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
}

void case_end(void)
{
    if (error_text()) case_fail("%s", error_text());
    tried++;
    failed += why[0] != '\0';
    if (why[0]) printf("not ok %s: %s\n", name, why);
    else printf("ok %s\n", name);
    error_clear();
}

void case_skip(const char *skipped, const char *reason)
{
    printf("skip %s: %s\n", skipped, reason);
    tried++;
}

int case_status(void)
{
    return failed || !tried;
}

/* ---- what is expected ------------------------------------------------------------------------ */

static bool same_shape(const char *what, tensor x, tensor expected)
{
    if (!tensor_is_null(x) && !tensor_is_null(expected) && shape_equal(x.shape, expected.shape)) return true;
    case_fail("%s is %s, expected %s", what, shape_text(x.shape).text, shape_text(expected.shape).text);
    return false;
}

void expect_near(const char *what, tensor x, tensor expected, double limit)
{
    if (!same_shape(what, x, expected)) return;
    for (ptrdiff_t k = 0; k < tensor_count(x); k++) {
        double is = (double)*element(x, k), should = (double)*element(expected, k);
        if (is == should || fabs(is - should) <= limit) continue;
        case_fail("%s%s is %.17g, expected %.17g within %g", what, shape_text(index_of(x.shape, k)).text, is,
                  should, limit);
        return;
    }
}

void expect_multiple(const char *what, tensor x, tensor expected, double scale)
{
    if (!same_shape(what, x, expected)) return;
    for (ptrdiff_t k = 0; k < tensor_count(x); k++) {
        double is = scale * (double)*element(x, k), should = scale * (double)*element(expected, k);
        if (round(is) == round(should)) continue;
        case_fail("%s%s is %.17g / %g, expected %.17g / %g", what, shape_text(index_of(x.shape, k)).text, is,
                  scale, should, scale);
        return;
    }
}

/* ---- inputs ---------------------------------------------------------------------------------- */

const char *const view_names[VIEW_KINDS] = { "plain", "nhwc", "flipped", "mixed", "broadcast" };

static tensor backwards(shape s)
{
    tensor x = tensor_new(s);
    for (int i = 0; i < s.rank; i++) x = tensor_flip(x, i);
    return x;
}

static tensor broadcast(shape s)
{
    shape one = s;
    one.n[0] = 1;
    return tensor_expand(tensor_new(one), s);
}

tensor view_of(dice *d, view_kind kind, shape s)
{
    switch (kind) {
    case VIEW_NHWC: return second_axis_last(s);
    case VIEW_FLIPPED: return backwards(s);
    case VIEW_MIXED: return roll_view(d, s, NULL);
    case VIEW_BROADCAST: return broadcast(s);
    default: return tensor_new(s);
    }
}

void fill_normal(tensor x, uint64_t seed)
{
    for (ptrdiff_t k = 0; k < tensor_count(x); k++)
        *element(x, k) = (real)random_normal((random_key){ seed, 1 }, (uint64_t)k);
}

tensor filled(shape s, double value)
{
    tensor x = tensor_new(s);
    tensor_fill(x, (real)value);
    return x;
}

/* ---- layers ---------------------------------------------------------------------------------- */

bool case_build(layer *l, shape x)
{
    if (!l || layer_build(l, x, 1)) {
        case_fail("not built: %s", error_text() ? error_text() : "without an error");
        return false;
    }
    layer_mode(l, true, 1, 1);
    return true;
}

void case_soil(layer *l, shape s)
{
    shape out = l->y;
    out.n[0] = s.n[0];
    tensor x = filled(s, NAN), y = filled(out, NAN), dx = filled(s, NAN);
    tensor states = tensor_clone(layer_states(l));
    layer_spoil_scratch(l);
    layer_forward(l, x, y);
    layer_backward(l, x, y, y, dx);
    tensor_copy(layer_states(l), states);
    tensor_fill(layer_gradients(l), 0);
    tensor_free(x), tensor_free(y), tensor_free(dx), tensor_free(states);
}
