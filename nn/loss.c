/* loss.c: losses and their derivatives. */
#include "nn/loss_impl.h"

#include <math.h>

static double refuse_shapes(const st_loss *l, st_tensor y, st_tensor target, const char *expected)
{
    st_error_set("loss %s: y %s and target %s, expected %s", l->name, st_shape_text(y.shape).text,
                 st_shape_text(target.shape).text, expected);
    return NAN;
}

/* ---- classes ------------------------------------------------------------------------------------ */

bool loss_ignores(const st_loss *l, double target)
{
    return target == l->ignore_index && (target != 0 || signbit(l->ignore_index));
}

/* A pass over the positions of outputs [N, K, ...]: over all of their axes but that of the classes. */
typedef struct positions {
    const st_loss *l;
    bool soft, wants_dy;
    const st_real *weight;
    ptrdiff_t classes, y_stride, target_stride, dy_stride, weight_stride; /* of the axis of classes */
    ptrdiff_t seen;
    double total, sum; /* of the targets' weights; of the losses */
} positions;

static double weight_of(const positions *p, ptrdiff_t class)
{
    return (double)p->weight[class * p->weight_stride];
}

static void check_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    positions *p = context;
    for (ptrdiff_t i = 0; i < n; i++, p->seen++) {
        double class = (double)at[0][i * stride[0]];
        if (loss_ignores(p->l, class)) continue;
        if (class >= 0 && class < (double)p->classes && class == floor(class))
            p->total += weight_of(p, (ptrdiff_t) class);
        else if (!st_error())
            st_error_set("loss %s: target[%td] is %g, expected a class from 0 to %td", p->l->name, p->seen,
                         class, p->classes - 1);
    }
}

/* log p[k] is y[k] - greatest - log_total, subtracted one after the other to keep accuracy. */
typedef struct log_sum {
    double greatest, log_total;
} log_sum;

static log_sum log_sum_of(const positions *p, const st_real *y)
{
    double greatest = -INFINITY, total = 0;
    if (p->l->log_probabilities) return (log_sum){ 0, 0 };
    for (ptrdiff_t k = 0; k < p->classes; k++) /* no fmax: gcc 12 crashes when vectorising it for Arm */
        if ((double)y[k * p->y_stride] > greatest) greatest = (double)y[k * p->y_stride];
    for (ptrdiff_t k = 0; k < p->classes; k++) total += exp((double)y[k * p->y_stride] - greatest);
    return (log_sum){ greatest, log(total) };
}

/* The smoothed target of class k, times its weight. */
static double target_of(const positions *p, const st_real *target, ptrdiff_t k)
{
    const double smoothing = p->l->option;
    double t = p->soft ? (double)target[k * p->target_stride] : k == (ptrdiff_t)*target;
    return weight_of(p, k) * (smoothing / (double)p->classes + (1 - smoothing) * t);
}

/* The loss is -sum over k of q[k] log p[k]; its derivative with respect to logits is p[k] (sum of q) - q[k],
 * with respect to log-probabilities -q[k]. */
static void add_position(positions *p, const st_real *y, const st_real *target, st_real *dy)
{
    const bool ignored = !p->soft && loss_ignores(p->l, (double)*target);
    const log_sum z = log_sum_of(p, y);
    double mass = 0;
    for (ptrdiff_t k = 0; k < p->classes && !ignored; k++) {
        double q = target_of(p, target, k);
        mass += q;
        if (q != 0) p->sum -= q * ((double)y[k * p->y_stride] - z.greatest - z.log_total);
    }
    for (ptrdiff_t k = 0; k < p->classes && p->wants_dy; k++) {
        double log_p = (double)y[k * p->y_stride] - z.greatest - z.log_total, slope = 0;
        if (!p->l->log_probabilities) slope = mass * exp(log_p);
        dy[k * p->dy_stride] = (st_real)(ignored ? 0 : (slope - target_of(p, target, k)) / p->total);
    }
}

static void add_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    for (ptrdiff_t i = 0; i < n; i++)
        add_position(context, at[0] + i * stride[0], at[1] + i * stride[1], at[2] + i * stride[2]);
}

/* The shape without its axis of classes. */
static st_shape positions_of(st_shape s)
{
    for (int axis = 1; axis + 1 < s.rank; axis++) s.n[axis] = s.n[axis + 1];
    s.rank--;
    return s;
}

static double over_classes(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    static const st_real one = 1;
    const bool logits = !l->log_probabilities;
    const bool wants_dy = !st_is_null(dy), soft = logits && st_shape_equal(y.shape, target.shape);
    if (y.shape.rank < 2 || !(soft || st_shape_equal(target.shape, positions_of(y.shape))))
        return refuse_shapes(l, y, target,
                             logits ? "[N, K, ...] and classes [N, ...] or probabilities [N, K, ...]"
                                    : "[N, K, ...] and classes [N, ...]");
    positions p = { l, soft, wants_dy, &one, y.shape.n[1], y.stride[1], 0, 0, 0, 0, 0, 0 };
    if (!st_is_null(l->weight)) p.weight = st_data(l->weight), p.weight_stride = l->weight.stride[0];
    if (!st_is_null(l->weight) && !st_shape_equal(l->weight.shape, ST_SHAPE(p.classes)))
        return refuse_shapes(l, y, l->weight, "a weight for each class as the second");
    if (soft) p.target_stride = target.stride[1], target = st_select(target, 1, 0);
    if (wants_dy) p.dy_stride = dy.stride[1];
    if (soft) p.total = (double)st_numel(target);
    else st_walk(1, &target, ST_ROW_MAJOR, check_row, &p);
    if (st_error()) return NAN;
    y = st_select(y, 1, 0);
    st_walk(3, (st_tensor[]){ y, target, wants_dy ? st_select(dy, 1, 0) : y }, ST_ROW_MAJOR, add_row, &p);
    return p.sum / p.total;
}

/* ---- element by element ------------------------------------------------------------------------- */

/* The loss of an element, and its derivative with respect to y. */
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

/* -positive t log s(y) - (1 - t) log(1 - s(y)) */
static double binary(double y, double t, double positive, double *slope)
{
    double e = exp(-fabs(y)); /* cannot overflow */
    double both = 1 + (positive - 1) * t;
    *slope = both * ((y >= 0 ? 1 : e) / (1 + e)) - positive * t;
    return both * fmax(y, 0) - y * (positive * t) + both * log1p(e);
}

typedef struct mean {
    const st_loss *l;
    bool weighted, wants_dy; /* weighted: the option of each element is in a fourth tensor */
    double sum, scale;
} mean;

static void mean_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    mean *m = context;
    for (ptrdiff_t i = 0; i < n; i++) {
        double slope, option = m->weighted ? (double)at[3][i * stride[3]] : m->l->option;
        m->sum += m->l->element((double)at[0][i * stride[0]], (double)at[1][i * stride[1]], option, &slope);
        if (m->wants_dy) at[2][i * stride[2]] = (st_real)(slope * m->scale);
    }
}

static double over_elements(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    if (!st_shape_equal(y.shape, target.shape)) return refuse_shapes(l, y, target, "equal shapes");
    double count = (double)st_numel(y);
    mean m = { l, !st_is_null(l->weight), !st_is_null(dy), 0, 1 / count };
    st_tensor weight = m.weighted ? st_expand(l->weight, y.shape) : y;
    if (st_is_null(weight)) {
        st_error_within("loss %s: weight: ", l->name);
        return NAN;
    }
    st_walk(4, (st_tensor[]){ y, target, m.wants_dy ? dy : y, weight }, ST_ROW_MAJOR, mean_row, &m);
    return m.sum / count;
}

/* ---- the losses --------------------------------------------------------------------------------- */

/* An option out of range sets the error and makes a loss without a function. */
static st_loss checked(st_loss l)
{
    if (st_options_resolve(l.name, l.fields, &l)) l.value = NULL;
    return l;
}

/* PyTorch's default, which ST_ZERO replaces by class 0. */
#define IGNORE_INDEX                                                                                         \
    {                                                                                                        \
        "ignore_index", ST_FIELD_REAL, offsetof(st_loss, ignore_index), .fallback = -100, .least = -1e9      \
    }

st_loss st_cross_entropy_new(st_cross_entropy_options options)
{
    static const st_field fields[] = {
        { "label_smoothing", ST_FIELD_REAL, offsetof(st_loss, option), .below = 1 },
        IGNORE_INDEX,
        { 0 },
    };
    return checked((st_loss){ "cross_entropy", over_classes, .classes = true, .fields = fields,
                              .option = options.label_smoothing, .weight = options.weight,
                              .ignore_index = options.ignore_index });
}

st_loss st_nll_new(st_nll_options options)
{
    static const st_field fields[] = { IGNORE_INDEX, { 0 } };
    return checked((st_loss){ "nll", over_classes, .classes = true, .log_probabilities = true,
                              .fields = fields, .weight = options.weight,
                              .ignore_index = options.ignore_index });
}

st_loss st_mse(void)
{
    return (st_loss){ .name = "mse", .value = over_elements, .element = squared };
}

st_loss st_huber_new(st_huber_options options)
{
    static const st_field fields[] = {
        { "delta", ST_FIELD_REAL, offsetof(st_loss, option), .fallback = 1, .least = 1e-30 },
        { 0 },
    };
    return checked(
        (st_loss){ "huber", over_elements, .element = huber, .fields = fields, .option = options.delta });
}

st_loss st_bce_with_logits_new(st_bce_with_logits_options options)
{
    return (st_loss){ "bce_with_logits", over_elements, .element = binary,
                      .binary = true,    .option = 1,   .weight = options.pos_weight };
}

double st_loss_value(st_loss l, st_tensor y, st_tensor target, st_tensor dy)
{
    if (!l.value) st_error_set("st_loss_value: the loss has no function, or its options were refused");
    else if (st_is_null(y) || st_is_null(target)) st_error_set("loss %s: y or target is null", l.name);
    else if (st_numel(y) == 0) st_error_set("loss %s: y %s is empty", l.name, st_shape_text(y.shape).text);
    else if (!st_is_null(dy) && !st_shape_equal(dy.shape, y.shape))
        return refuse_shapes(&l, y, dy, "dy of y's shape");
    else return l.value(&l, y, target, dy);
    return NAN;
}
