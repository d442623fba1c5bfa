/* loss.c: making a loss of any kind, and its value and weight on a batch. */
#include "nn/loss_impl.h"
#include "layers/layer_impl.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

double loss_refuse(const st_loss *l, st_tensor y, st_tensor target, const char *expected)
{
    st_error_set("loss %s: y %s and target %s, expected %s", l->kind->name, st_shape_text(y.shape).text,
                 st_shape_text(target.shape).text, expected);
    return NAN;
}

st_loss st_loss_new(const st_loss_kind *kind, const void *options)
{
    st_loss l = { kind };
    if (!kind || !kind->name || !kind->value || kind->options_size > sizeof l.options) {
        st_error_set("st_loss_new: the kind %s", !kind || !kind->name ? "has no name"
                                                 : !kind->value       ? "has no value"
                                                                      : "has too many options");
        return (st_loss){ 0 };
    }
    if (options_reach(kind->name, kind->fields, kind->options_size)) return (st_loss){ 0 };
    if (options) memcpy(&l.options, options, kind->options_size);
    return st_options_resolve(kind->name, kind->fields, &l.options) ? (st_loss){ 0 } : l;
}

bool loss_ignores(const st_loss *l, double target)
{
    return l->kind->ignores && l->kind->ignores(l, target);
}

static int check(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    if (!l->kind) return st_error_set("st_loss_value: the loss has no kind, or its options were refused");
    if (st_is_null(y) || st_is_null(target))
        return st_error_set("loss %s: y or target is null", l->kind->name);
    if (st_numel(y) == 0)
        return st_error_set("loss %s: y %s is empty", l->kind->name, st_shape_text(y.shape).text);
    if (st_is_null(dy) || st_shape_equal(dy.shape, y.shape)) return 0;
    return st_error_set("loss %s: dy is %s, expected y's shape, %s", l->kind->name,
                        st_shape_text(dy.shape).text, st_shape_text(y.shape).text);
}

/* The weight of what was checked. */
static double weight_of_batch(const st_loss *l, st_tensor y, st_tensor target)
{
    if (!l->kind->counted) return y.shape.rank > 0 ? (double)y.shape.n[0] : 1;
    double weight = l->kind->counted(l, y, target);
    if (!st_error() && !(weight >= 0 && isfinite(weight)))
        st_error_set("loss %s: %g images count, expected a finite number of at least 0", l->kind->name,
                     printable(weight));
    return st_error() ? NAN : weight;
}

double loss_part(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy, double *weight)
{
    *weight = check(l, y, target, dy) ? NAN : weight_of_batch(l, y, target);
    return isnan(*weight) ? NAN : l->kind->value(l, y, target, dy);
}

double st_loss_value(st_loss l, st_tensor y, st_tensor target, st_tensor dy)
{
    double weight, value = loss_part(&l, y, target, dy, &weight);
    return weight > 0 ? value : value / weight;
}

double st_loss_weight(st_loss l, st_tensor y, st_tensor target)
{
    return check(&l, y, target, (st_tensor){ 0 }) ? NAN : weight_of_batch(&l, y, target);
}
