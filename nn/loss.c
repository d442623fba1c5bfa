/* loss.c: losses and their derivatives. */
#include "nn/loss.h"

#include <math.h>

static bool refuse_shapes(const st_loss *l, st_tensor y, st_tensor target, const char *expected)
{
    st_error_set("loss %s: y %s and target %s, expected %s", l->name, st_shape_text(y.shape).text,
                 st_shape_text(target.shape).text, expected);
    return false;
}

/* ---- cross-entropy ------------------------------------------------------------------------------ */

static bool classes_fit(const st_loss *l, st_tensor y, st_tensor target)
{
    if (y.shape.rank != 2 || target.shape.rank != 1 || target.shape.n[0] != y.shape.n[0])
        return refuse_shapes(l, y, target, "[N, K] and class indices [N]");
    for (ptrdiff_t n = 0; n < y.shape.n[0]; n++) {
        double class = (double)*st_at(target, ST_INDEX(n));
        if (class >= 0 && class < (double)y.shape.n[1] && class == floor(class)) continue;
        st_error_set("loss %s: target[%td] is %g, expected a class from 0 to %td", l->name, n, class,
                     y.shape.n[1] - 1);
        return false;
    }
    return true;
}

static double cross_entropy(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    if (!classes_fit(l, y, target)) return NAN;
    ptrdiff_t images = y.shape.n[0], classes = y.shape.n[1], sy = y.stride[1];
    double sum = 0, rest = l->option / (double)classes;
    for (ptrdiff_t n = 0; n < images; n++) {
        const st_real *row = st_data(y) + n * y.stride[0];
        ptrdiff_t class = (ptrdiff_t)*st_at(target, ST_INDEX(n));
        double greatest = -INFINITY, total = 0, mean = 0;
        for (ptrdiff_t k = 0; k < classes; k++) { /* no fmax: gcc 12 crashes when vectorising it for Arm */
            if ((double)row[k * sy] > greatest) greatest = (double)row[k * sy];
        }
        for (ptrdiff_t k = 0; k < classes; k++) total += exp((double)row[k * sy] - greatest);
        /* greatest + log(total), subtracted one after the other to keep accuracy */
        double log_total = log(total);
        for (ptrdiff_t k = 0; k < classes; k++) mean += (double)row[k * sy] - greatest - log_total;
        sum -= (1 - l->option) * ((double)row[class * sy] - greatest - log_total);
        if (rest > 0) sum -= rest * mean; /* a class masked by -inf counts only with label smoothing */
        if (st_is_null(dy)) continue;
        st_real *drow = st_data(dy) + n * dy.stride[0];
        for (ptrdiff_t k = 0; k < classes; k++) {
            double q = rest + (k == class ? 1 - l->option : 0);
            drow[k * dy.stride[1]] =
                (st_real)((exp((double)row[k * sy] - greatest - log_total) - q) / (double)images);
        }
    }
    return sum / (double)images;
}

/* ---- element by element ------------------------------------------------------------------------- */

/* The loss of an element, and its derivative with respect to y. */
typedef double element(double y, double t, double option, double *slope);

static double squared(double y, double t, double option, double *slope)
{
    (void)option;
    *slope = 2 * (y - t);
    return (y - t) * (y - t);
}

static double huber(double y, double t, double delta, double *slope)
{
    double e = y - t;
    *slope = fmax(-delta, fmin(delta, e));
    if (isnan(e)) *slope = e;
    return fabs(e) <= delta ? e * e / 2 : delta * (fabs(e) - delta / 2);
}

static double binary(double y, double t, double option, double *slope)
{
    (void)option;
    double e = exp(-fabs(y)); /* cannot overflow */
    *slope = (y >= 0 ? 1 : e) / (1 + e) - t;
    return fmax(y, 0) - y * t + log1p(e);
}

typedef struct mean {
    element *f;
    double option, sum, scale;
} mean;

static void mean_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    mean *m = context;
    for (ptrdiff_t i = 0; i < n; i++) {
        double slope;
        m->sum += m->f((double)at[0][i * stride[0]], (double)at[1][i * stride[1]], m->option, &slope);
        at[2][i * stride[2]] = (st_real)(slope * m->scale);
    }
}

/* A null dy: derivatives are written to one variable, with stride 0. */
static double elementwise(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy, element *f)
{
    if (!st_shape_equal(y.shape, target.shape)) {
        refuse_shapes(l, y, target, "equal shapes");
        return NAN;
    }
    double count = (double)st_numel(y);
    mean m = { f, l->option, 0, 1 / count };
    st_tensor nowhere = { 0 };
    if (st_is_null(dy)) {
        nowhere = st_tensor_new((st_shape){ 0 });
        if (st_is_null(nowhere)) return NAN;
        dy = st_expand(nowhere, y.shape);
    }
    st_walk(3, (st_tensor[]){ y, target, dy }, ST_ROW_MAJOR, mean_row, &m);
    st_tensor_free(nowhere);
    return m.sum / count;
}

static double mse(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return elementwise(l, y, target, dy, squared);
}

static double huber_mean(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return elementwise(l, y, target, dy, huber);
}

static double bce_with_logits(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return elementwise(l, y, target, dy, binary);
}

/* ---- the losses --------------------------------------------------------------------------------- */

/* An option out of range sets the error and makes a loss without a function. */
static st_loss checked(st_loss l)
{
    if (st_options_resolve(l.name, l.fields, &l)) l.value = NULL;
    return l;
}

st_loss st_cross_entropy_new(st_cross_entropy_options options)
{
    static const st_field fields[] = {
        { "label_smoothing", ST_FIELD_REAL, offsetof(st_loss, option), .below = 1 },
        { 0 },
    };
    return checked((st_loss){ "cross_entropy", cross_entropy, true, NULL, fields, options.label_smoothing });
}

st_loss st_mse(void)
{
    return (st_loss){ .name = "mse", .value = mse };
}

st_loss st_huber_new(st_huber_options options)
{
    static const st_field fields[] = {
        { "delta", ST_FIELD_REAL, offsetof(st_loss, option), .fallback = 1, .least = 1e-30 },
        { 0 },
    };
    return checked(
        (st_loss){ .name = "huber", .value = huber_mean, .fields = fields, .option = options.delta });
}

st_loss st_bce_with_logits(void)
{
    return (st_loss){ .name = "bce_with_logits", .value = bce_with_logits };
}

double st_loss_value(st_loss l, st_tensor y, st_tensor target, st_tensor dy)
{
    if (!l.value) st_error_set("st_loss_value: the loss is not made by a loss_ function, or was refused");
    else if (st_is_null(y) || st_is_null(target)) st_error_set("loss %s: y or target is null", l.name);
    else if (st_numel(y) == 0) st_error_set("loss %s: y %s is empty", l.name, st_shape_text(y.shape).text);
    else if (!st_is_null(dy) && !st_shape_equal(dy.shape, y.shape))
        refuse_shapes(&l, y, dy, "dy of y's shape");
    else return l.value(&l, y, target, dy);
    return NAN;
}
