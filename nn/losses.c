/* losses.c: the losses of the library, and their derivatives. */
#include "nn/losses.h"
#include "nn/losses_impl.h"
#include "tensor/counts.h"
#include "tensor/engine.h"

#include <math.h>

static const st_loss_kind nll_kind; /* takes log-probabilities; cross-entropy takes logits */

/* NULL in the core; nn/fast/ puts vectors in. */
__attribute__((weak)) st_row_function *(*loss_row_by_vectors)(loss_row which);

/* NULL with an error: there is no such engine. */
static st_row_function *row_of(loss_row which, st_row_function *definition)
{
    return loss_row_by_vectors && !engine_is_reference() ? loss_row_by_vectors(which) : definition;
}

/* ---- classes ------------------------------------------------------------------------------------ */

/* Options of losses of classes: those of nll are the first of cross-entropy's, and the others are 0. The
 * default of ignore_index is not 0, so that 0 is the one of ST_ZERO. */
static const st_cross_entropy_options *options_of(const st_loss *l)
{
    return (const void *)&l->options;
}

_Static_assert(offsetof(st_nll_options, weight) == offsetof(st_cross_entropy_options, weight) &&
                   offsetof(st_nll_options, ignore_index) ==
                       offsetof(st_cross_entropy_options, ignore_index) &&
                   sizeof(st_nll_options) <= offsetof(st_cross_entropy_options, label_smoothing),
               "nll's options are the first of cross-entropy's");

static bool ignores_class(const st_loss *l, double target)
{
    const double ignored = options_of(l)->ignore_index;
    return target == ignored && (target != 0 || signbit(ignored));
}

static st_tensor class_weights(const st_loss *l)
{
    return options_of(l)->weight;
}

static double weight_of(const positions *p, ptrdiff_t class)
{
    return (double)p->weight[class * p->weight_stride];
}

static void check_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    positions *p = context;
    for (ptrdiff_t i = 0; i < n; i++, p->position++) {
        double class = (double)at[0][i * stride[0]];
        if (ignores_class(p->l, class)) continue;
        if (class >= 0 && class < (double)p->classes && class == floor(class))
            p->total += weight_of(p, (ptrdiff_t) class);
        else if (!st_error())
            st_error_set("loss %s: target[%td] is %g, expected a class from 0 to %td", p->l->kind->name,
                         p->position, printable(class), p->classes - 1);
    }
}

/* log p[k] is y[k] - greatest - log_total, subtracted one after the other to keep accuracy. */
typedef struct log_sum {
    double greatest, log_total;
} log_sum;

static log_sum log_sum_of(const positions *p, const st_real *y)
{
    double greatest = -INFINITY, total = 0;
    if (!p->logits) return (log_sum){ 0, 0 };
    for (ptrdiff_t k = 0; k < p->classes; k++) /* no fmax: gcc 12 crashes when vectorising it for Arm */
        if ((double)y[k * p->y_stride] > greatest) greatest = (double)y[k * p->y_stride];
    for (ptrdiff_t k = 0; k < p->classes; k++) total += exp((double)y[k * p->y_stride] - greatest);
    return (log_sum){ greatest, log(total) };
}

/* The smoothed target of class k, times its weight. */
static double target_of(const positions *p, const st_real *target, ptrdiff_t k)
{
    double t = p->soft ? (double)target[k * p->target_stride] : k == (ptrdiff_t)*target;
    return weight_of(p, k) * (p->smoothing / (double)p->classes + (1 - p->smoothing) * t);
}

/* The loss is -sum over k of q[k] log p[k]; its derivative with respect to logits is p[k] (sum of q) - q[k],
 * with respect to log-probabilities -q[k]. */
static void add_position(positions *p, const st_real *y, const st_real *target, st_real *dy)
{
    const bool none = !p->soft && ignores_class(p->l, (double)*target);
    const log_sum z = log_sum_of(p, y);
    double mass = 0;
    for (ptrdiff_t k = 0; k < p->classes && !none; k++) {
        double q = target_of(p, target, k);
        mass += q;
        if (q != 0) p->sum -= q * ((double)y[k * p->y_stride] - z.greatest - z.log_total);
    }
    for (ptrdiff_t k = 0; k < p->classes && p->wants_dy; k++) {
        double log_p = (double)y[k * p->y_stride] - z.greatest - z.log_total, slope = 0;
        if (p->logits) slope = mass * exp(log_p);
        dy[k * p->dy_stride] = (st_real)(none ? 0 : (slope - target_of(p, target, k)) / p->divisor);
    }
}

static void add_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    for (ptrdiff_t i = 0; i < n; i++)
        add_position(context, at[0] + i * stride[0], at[1] + i * stride[1], at[2] + i * stride[2]);
}

/* Checks shapes, weights and targets, and adds up the targets' weights. */
static int begin(positions *p, const st_loss *l, st_tensor y, st_tensor target)
{
    static const st_real one = 1;
    const st_tensor weight = class_weights(l);
    const bool logits = l->kind != &nll_kind, soft = logits && st_shape_equal(y.shape, target.shape);
    if (y.shape.rank < 2 || !(soft || st_shape_equal(target.shape, st_select(y, 1, 0).shape))) {
        loss_refuse(l, y, target,
                    logits ? "[N, K, ...] and classes [N, ...] or probabilities [N, K, ...]"
                           : "[N, K, ...] and classes [N, ...]");
        return -1;
    }
    *p = (positions){ .l = l,
                      .logits = logits,
                      .soft = soft,
                      .weight = &one,
                      .classes = y.shape.n[1],
                      .y_stride = y.stride[1],
                      .smoothing = options_of(l)->label_smoothing };
    if (!st_is_null(weight)) p->weight = st_data(weight), p->weight_stride = weight.stride[0];
    if (!st_is_null(weight) && !st_shape_equal(weight.shape, ST_SHAPE(p->classes)))
        return st_error_set("loss %s: the weight is %s, expected [%td], one for each class of y %s",
                            l->kind->name, st_shape_text(weight.shape).text, p->classes,
                            st_shape_text(y.shape).text);
    for (ptrdiff_t k = 0; k < p->classes; k++) {
        const double w = weight_of(p, k);
        if (!(w >= 0 && isfinite(w)))
            return st_error_set("loss %s: weight[%td] is %g, expected a finite number of at least 0",
                                l->kind->name, k, printable(w));
    }
    const ptrdiff_t count = st_numel(y) / p->classes;
    p->area = (double)count / (double)y.shape.n[0];
    if (soft) p->total = (double)count;
    else st_walk(1, &target, ST_ROW_MAJOR, check_row, p);
    p->divisor = p->area * loss_divisor(p->total / p->area);
    return st_error() ? -1 : 0;
}

static double over_classes(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    positions p;
    if (begin(&p, l, y, target)) return NAN;
    p.wants_dy = !st_is_null(dy);
    if (p.wants_dy) p.dy_stride = dy.stride[1];
    /* Vectors keep numbers in dy before they have read all of a target; and short rows are not worth them. */
    const bool definition =
        !p.logits || (p.soft && p.wants_dy && st_overlaps(dy, target)) || (p.area > 1 && p.area < 8);
    st_row_function *row = definition ? add_row : row_of(LOSS_LOGITS, add_row);
    if (!row) return NAN;
    if (p.soft) p.target_stride = target.stride[1], target = st_select(target, 1, 0);
    y = st_select(y, 1, 0);
    st_walk(3, (st_tensor[]){ y, target, p.wants_dy ? st_select(dy, 1, 0) : y }, ST_ROW_MAJOR, row, &p);
    return p.sum / p.divisor;
}

static double counted_classes(const st_loss *l, st_tensor y, st_tensor target)
{
    positions p;
    return begin(&p, l, y, target) ? NAN : p.total / p.area;
}

/* ---- element by element ------------------------------------------------------------------------- */

static double binary(double y, double t, double positive, double *slope)
{
    const double e = exp(-fabs(y));
    return loss_binary(y, t, positive, e, log1p(e), slope);
}

static void mean_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    mean *m = context;
    for (ptrdiff_t i = 0; i < n; i++) {
        double slope, option = m->weighted ? (double)at[3][i * stride[3]] : m->option;
        m->sum += m->element((double)at[0][i * stride[0]], (double)at[1][i * stride[1]], option, &slope);
        if (m->wants_dy) at[2][i * stride[2]] = (st_real)(slope * m->scale);
    }
}

static double over_elements(const st_loss *l, loss_row which, double option, st_tensor y, st_tensor target,
                            st_tensor dy)
{
    static element_loss *const elements[] = {
        [LOSS_SQUARED] = loss_squared, [LOSS_HUBER] = loss_huber, [LOSS_BINARY] = binary
    };
    st_tensor weight = l->kind->weights ? l->kind->weights(l) : (st_tensor){ 0 };
    if (!st_shape_equal(y.shape, target.shape)) return loss_refuse(l, y, target, "equal shapes");
    double count = (double)st_numel(y);
    mean m = { elements[which], option, !st_is_null(weight), !st_is_null(dy), 0, 1 / count };
    weight = m.weighted ? st_expand(weight, y.shape) : y;
    if (st_is_null(weight)) {
        st_error_within("loss %s: pos_weight: ", l->kind->name);
        return NAN;
    }
    /* Rows along which weights are repeated are no longer than the last axis. */
    const bool short_rows = m.weighted && y.shape.rank > 1 && y.shape.n[y.shape.rank - 1] < 12;
    st_row_function *row = short_rows ? mean_row : row_of(which, mean_row);
    if (!row) return NAN;
    st_walk(4, (st_tensor[]){ y, target, m.wants_dy ? dy : y, weight }, ST_ROW_MAJOR, row, &m);
    return m.sum / count;
}

static double value_of_mse(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return over_elements(l, LOSS_SQUARED, 0, y, target, dy);
}

static double value_of_huber(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    const st_huber_options *o = (const void *)&l->options;
    return over_elements(l, LOSS_HUBER, o->delta, y, target, dy);
}

static st_tensor weights_of_bce(const st_loss *l)
{
    return ((const st_bce_with_logits_options *)&l->options)->pos_weight;
}

static double value_of_bce(const st_loss *l, st_tensor y, st_tensor target, st_tensor dy)
{
    return over_elements(l, LOSS_BINARY, 1, y, target, dy);
}

/* ---- kinds --------------------------------------------------------------------------------------- */

/* PyTorch's default, which ST_ZERO replaces by class 0. */
#define IGNORE_INDEX(OPTIONS) ST_FIELD(REAL, OPTIONS, ignore_index), .fallback = -100, .least = -1e9

#define KIND_OF_CLASSES(NAME)                                                                                \
    static const st_loss_kind NAME##_kind = {                                                                \
        .name = #NAME,                                                                                       \
        .options_size = sizeof(st_##NAME##_options),                                                         \
        .fields = NAME##_fields,                                                                             \
        .classes = true,                                                                                     \
        .value = over_classes,                                                                               \
        .counted = counted_classes,                                                                          \
        .ignores = ignores_class,                                                                            \
        .weights = class_weights,                                                                            \
    };

static const st_field cross_entropy_fields[] = {
    { ST_FIELD(REAL, st_cross_entropy_options, label_smoothing), .below = 1 },
    { IGNORE_INDEX(st_cross_entropy_options) },
    { 0 },
};
KIND_OF_CLASSES(cross_entropy)

static const st_field nll_fields[] = { { IGNORE_INDEX(st_nll_options) }, { 0 } };
KIND_OF_CLASSES(nll)

static const st_loss_kind mse_kind = { .name = "mse", .value = value_of_mse };

static const st_field huber_fields[] = {
    { ST_FIELD(REAL, st_huber_options, delta), .fallback = 1, .least = 1e-30 },
    { 0 },
};
static const st_loss_kind huber_kind = {
    .name = "huber", .options_size = sizeof(st_huber_options), .fields = huber_fields, .value = value_of_huber
};

static const st_loss_kind bce_with_logits_kind = {
    .name = "bce_with_logits",
    .options_size = sizeof(st_bce_with_logits_options),
    .binary = true,
    .value = value_of_bce,
    .weights = weights_of_bce,
};

const st_loss_kind *const st_loss_kinds[] = { &cross_entropy_kind,   &nll_kind, &mse_kind, &huber_kind,
                                              &bce_with_logits_kind, NULL };

#define LOSS(NAME)                                                                                           \
    st_loss st_##NAME##_new(st_##NAME##_options options)                                                     \
    {                                                                                                        \
        return st_loss_new(&NAME##_kind, &options);                                                          \
    }
LOSS(cross_entropy)
LOSS(nll)
LOSS(huber)
LOSS(bce_with_logits)

st_loss st_mse(void)
{
    return st_loss_new(&mse_kind, NULL);
}
