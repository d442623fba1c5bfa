/* gradcheck.c: hooks against central differences. */
#include "nn/gradcheck.h"

#include <math.h>
#include <stdarg.h>

/* What is checked: y = layer(x), weighed into one number by r (sum of r y) or by a loss. */
typedef struct subject {
    layer *l;
    tensor x;               /* a copy of the caller's, in the same strides */
    tensor y, above, below; /* outputs at the point, and to either side of it */
    tensor dy, dx;
    const loss *loss; /* NULL: weighed by dy, which is random */
    tensor target;
    gradcheck options;
    gradcheck_result *result;
} subject;

/* Random numbers apart from those that parameters begin with. */
enum { WEIGHTS = 1, SIGNS, SAMPLES, NOISE, INPUT };

static random_key stream(const gradcheck *o, int which)
{
    return (random_key){ o->seed, UINT64_C(1) << 61 | (uint64_t)which };
}

/* ---- reporting ---------------------------------------------------------------------------------- */

static bool fail(const subject *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(const subject *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int used =
        snprintf(s->result->text, sizeof s->result->text, "%s: ", s->l ? s->l->type->name : "gradcheck");
    vsnprintf(s->result->text + used, sizeof s->result->text - (size_t)used, format, arguments);
    va_end(arguments);
    s->result->passed = false;
    return false;
}

static shape index_of(shape s, ptrdiff_t element)
{
    shape index = s;
    for (int i = s.rank - 1; i >= 0; element /= s.n[i--]) index.n[i] = element % s.n[i];
    return index;
}

/* ---- evaluating --------------------------------------------------------------------------------- */

/* The weighed difference of two outputs, summed over what differs, so that the rest does not drown it. */
static double difference(const subject *s, tensor high, tensor low)
{
    const tensor none = { 0 };
    if (s->loss)
        return loss_value(*s->loss, high, s->target, none) - loss_value(*s->loss, low, s->target, none);
    const real *a = tensor_data(high), *b = tensor_data(low), *r = tensor_data(s->dy);
    double sum = 0;
    for (ptrdiff_t i = 0; i < tensor_count(high); i++)
        if (a[i] != b[i]) sum += (double)r[i] * ((double)a[i] - (double)b[i]); /* also of infinities */
    return sum;
}

typedef struct slopes {
    double central, right, left;
} slopes;

static slopes numeric(const subject *s, real *place, double step)
{
    real middle = *place;
    real up = middle + (real)step, down = middle - (real)step; /* as rounded */
    *place = up;
    layer_forward(s->l, s->x, s->above);
    *place = down;
    layer_forward(s->l, s->x, s->below);
    *place = middle;
    slopes d = { difference(s, s->above, s->below), difference(s, s->above, s->y),
                 difference(s, s->y, s->below) };
    d.central /= (double)up - (double)down;
    d.right /= (double)up - (double)middle;
    d.left /= (double)middle - (double)down;
    return d;
}

/* ---- one tensor --------------------------------------------------------------------------------- */

typedef struct tally {
    const char *name;
    ptrdiff_t checked, kinks;
    double worst, analytic, numeric; /* of the worst element */
    shape at;
    bool nonzero;
} tally;

static double relative_error(double analytic, double number, double scale)
{
    double error = fabs(analytic - number);
    if (error == 0) return 0;
    double size = fmax(fmax(fabs(analytic), fabs(number)), scale);
    return isfinite(error) && size > 0 ? error / size : INFINITY;
}

/* The relative error; NaN for a kink. Smaller steps may get out of a kink's way, or show it to be right
 * here; never do they excuse a smooth function. */
static double check_element(const subject *s, real *place, double analytic, double scale, double *number)
{
    double step = s->options.step * fmax(1, fabs((double)*place)), error = INFINITY;
    slopes d = { 0 };
    for (int shrink = 0; shrink < 3; shrink++, step /= 10) {
        d = numeric(s, place, step);
        double now = relative_error(analytic, d.central, scale);
        if (now >= error) continue;
        error = now;
        *number = d.central;
        if (error <= s->options.tolerance) return error;
    }
    double low = fmin(d.left, d.right), high = fmax(d.left, d.right), tolerance = s->options.tolerance;
    double size = fmax(fmax(fabs(low), fabs(high)), scale), slack = fmax(1e-5, tolerance) * size;
    bool kink =
        high - low > fmax(1e-3, 3 * tolerance) * size && analytic >= low - slack && analytic <= high + slack;
    return kink ? NAN : error;
}

static double largest(tensor x)
{
    double most = 0;
    for (ptrdiff_t e = 0; e < tensor_count(x); e++)
        most = fmax(most, fabs((double)*tensor_at(x, index_of(x.shape, e))));
    return most;
}

static bool judge(subject *s, const tally *t, tensor x)
{
    gradcheck_result *r = s->result;
    r->checked += t->checked;
    r->kinks += t->kinks;
    bool first_failure = r->passed;
    if (t->worst > r->worst) r->worst = t->worst;
    if (s->options.report)
        fprintf(s->options.report, "  %-24s %-20s %6td checked %4td kinks  worst %.1e\n", t->name,
                shape_text(x.shape).text, t->checked, t->kinks, t->worst);
    if (!first_failure) return false;
    if (t->worst > s->options.tolerance)
        return fail(s, "%s%s: analytic %.10g, numeric %.10g, relative error %.1e, tolerance %.1e", t->name,
                    shape_text(t->at).text, t->analytic, t->numeric, t->worst, s->options.tolerance);
    if ((double)t->kinks > s->options.kinks * (double)t->checked)
        return fail(s, "%s: %td of %td elements are kinks, at most %g %% may be", t->name, t->kinks,
                    t->checked, 100 * s->options.kinks);
    if (!t->nonzero) return fail(s, "%s: VACUOUS: the gradient is zero on both sides, everywhere", t->name);
    return true;
}

/* Elements of `x` against their gradients `dx`, of the same shape. */
static void check_tensor(subject *s, const char *name, tensor x, tensor dx)
{
    ptrdiff_t count = tensor_count(x), checks = count;
    if (s->options.most > 0 && s->options.most < count) checks = s->options.most;
    tally t = { .name = name };
    double scale = largest(dx) / 100;
    for (ptrdiff_t k = 0; k < checks; k++) {
        ptrdiff_t e = k;
        if (checks < count)
            e = (ptrdiff_t)random_below(stream(&s->options, SAMPLES), (uint64_t)k, (uint64_t)count);
        shape at = index_of(x.shape, e);
        double analytic = (double)*tensor_at(dx, at), number = 0;
        double error = check_element(s, tensor_at(x, at), analytic, scale, &number);
        t.checked++;
        if (analytic != 0 || number != 0) t.nonzero = true;
        if (isnan(error)) t.kinks++;
        else if (error > t.worst || k == 0)
            t.worst = error, t.analytic = analytic, t.numeric = number, t.at = at;
    }
    judge(s, &t, x);
}

static void check_parameters(layer *l, const char *path, void *context)
{
    subject *s = context;
    for (int i = 0; i < l->params; i++) {
        char name[LAYER_PATH + 64];
        snprintf(name, sizeof name, "%s%s%s", path, path[0] ? "." : "", l->param_name[i]);
        check_tensor(s, name, l->param[i], l->grad[i]);
    }
}

/* ---- the contract ------------------------------------------------------------------------------- */

/* The first element in which two tensors of one shape differ, or -1; NaN equals NaN. */
static ptrdiff_t first_difference(tensor a, tensor b)
{
    for (ptrdiff_t e = 0; e < tensor_count(a); e++) {
        real u = *tensor_at(a, index_of(a.shape, e)), v = *tensor_at(b, index_of(b.shape, e));
        if (u != v && !(isnan(u) && isnan(v))) return e;
    }
    return -1;
}

static void forward(const subject *s, tensor y)
{
    layer_spoil_scratch(s->l);
    layer_forward(s->l, s->x, y);
}

static void backward(const subject *s, tensor dx)
{
    layer_spoil_scratch(s->l);
    layer_backward(s->l, s->x, s->y, s->dy, dx);
}

static bool forward_holds(const subject *s, tensor x)
{
    ptrdiff_t e;
    tensor_fill(s->y, (real)NAN);
    tensor_fill(s->above, 0);
    forward(s, s->y);
    forward(s, s->above);
    if ((e = first_difference(s->x, x)) >= 0)
        return fail(s, "forward writes its input x%s", shape_text(index_of(x.shape, e)).text);
    if ((e = first_difference(s->y, s->above)) >= 0)
        return fail(s, "forward leaves y%s unwritten, or gives another result each time",
                    shape_text(index_of(s->y.shape, e)).text);
    for (e = 0; e < tensor_count(s->y); e++)
        if (isnan(tensor_data(s->y)[e]))
            return fail(s, "forward gives y%s as NaN", shape_text(index_of(s->y.shape, e)).text);
    return true;
}

/* What backward reads is left alone, and dx is overwritten whatever it held. */
static bool backward_holds(const subject *s, tensor x)
{
    tensor dx = tensor_new(s->x.shape), y = tensor_clone(s->y), dy = tensor_clone(s->dy);
    bool holds = !tensor_is_null(dx) && !tensor_is_null(y) && !tensor_is_null(dy);
    if (!holds) fail(s, "%s", error_text());
    else backward(s, s->dx);
    const struct {
        const char *name;
        tensor before, after;
    } read[] = { { "x", x, s->x }, { "y", y, s->y }, { "dy", dy, s->dy } };
    for (int i = 0; i < 3 && holds; i++) {
        ptrdiff_t e = first_difference(read[i].before, read[i].after);
        if (e >= 0)
            holds = fail(s, "backward writes %s%s", read[i].name,
                         shape_text(index_of(read[i].after.shape, e)).text);
    }
    if (holds) {
        tensor_fill(dx, (real)NAN);
        backward(s, dx);
        ptrdiff_t e = first_difference(dx, s->dx);
        if (e >= 0)
            holds = fail(s, "backward does not overwrite dx%s", shape_text(index_of(dx.shape, e)).text);
    }
    tensor_free(dx), tensor_free(y), tensor_free(dy);
    return holds;
}

static bool added(real after, real before, real once)
{
    double slack = 1e3 * (double)REAL_EPSILON * fmax(1, fabs((double)once));
    return after == once + before || fabs((double)after - (double)before - (double)once) <= slack ||
           isnan(once);
}

/* One image, so that the hook meets the gradients themselves: what was there must still be in the sum. */
static bool gradient_holds(const subject *s)
{
    tensor gradients = layer_gradients(s->l);
    ptrdiff_t count = tensor_count(gradients), e = 0;
    if (count == 0) return true;
    tensor once = tensor_new(gradients.shape);
    if (tensor_is_null(once)) return fail(s, "%s", error_text());
    tensor x = tensor_narrow(s->x, 0, 0, 1), y = tensor_narrow(s->above, 0, 0, 1),
           dy = tensor_narrow(s->dy, 0, 0, 1);
    layer_forward(s->l, x, y);
    tensor_fill(gradients, 0);
    layer_backward(s->l, x, y, dy, (tensor){ 0 });
    tensor_copy(once, gradients);
    tensor_fill(gradients, 1);
    layer_backward(s->l, x, y, dy, (tensor){ 0 });
    const real *g = tensor_data(gradients), *o = tensor_data(once);
    while (e < count && added(g[e], 1, o[e])) e++;
    bool holds = e == count;
    if (!holds)
        fail(s,
             "gradient does not add to what is there: element %td of the gradients was 1, %g is to be added, "
             "it is %g",
             e, (double)o[e], (double)g[e]);
    tensor_free(once);
    return holds;
}

/* The first element in which two contiguous tensors differ by more than rounding, or -1. */
static ptrdiff_t first_disagreement(tensor a, tensor b)
{
    for (ptrdiff_t e = 0; e < tensor_count(a); e++)
        if (!added(tensor_data(a)[e], 0, tensor_data(b)[e])) return e;
    return -1;
}

/* The same elements under other strides are the same input: axes laid out in the opposite order. */
static bool strides_hold(const subject *s)
{
    axes reversed = { .count = s->x.shape.rank };
    for (int i = 0; i < reversed.count; i++) reversed.axis[i] = reversed.count - 1 - i;
    tensor flat = tensor_new(tensor_permute(s->x, reversed).shape), view = tensor_permute(flat, reversed);
    tensor gradients = layer_gradients(s->l), once = tensor_new(gradients.shape),
           dx = tensor_new(s->dx.shape);
    bool holds = !tensor_is_null(view) && !tensor_is_null(once) && !tensor_is_null(dx);
    if (!holds) fail(s, "%s", error_text());
    if (holds) {
        tensor_copy(view, s->x);
        forward(s, s->y);
        tensor_fill(gradients, 0);
        backward(s, s->dx);
        tensor_copy(once, gradients);
        tensor_fill(gradients, 0);
        layer_forward(s->l, view, s->above);
        layer_backward(s->l, view, s->above, s->dy, dx);
    }
    const struct {
        const char *what;
        tensor of_view, of_x;
    } same[] = { { "forward", s->above, s->y }, { "backward", dx, s->dx }, { "gradient", gradients, once } };
    for (int i = 0; i < 3 && holds; i++) {
        ptrdiff_t e = first_disagreement(same[i].of_view, same[i].of_x);
        if (e >= 0)
            holds = fail(
                s, "%s reads an x of other strides wrongly: element %s of what it makes is %g, expected %g",
                same[i].what, shape_text(index_of(same[i].of_x.shape, e)).text,
                (double)tensor_data(same[i].of_view)[e], (double)tensor_data(same[i].of_x)[e]);
    }
    tensor_free(flat), tensor_free(once), tensor_free(dx);
    return holds;
}

/* Something else first, so that what a hook keeps of its first call and not of its last is found out. */
static bool contract_holds(const subject *s, tensor x)
{
    tensor_scale(s->x, (real)-0.5);
    layer_forward(s->l, s->x, s->above);
    tensor_copy(s->x, x);
    bool holds = forward_holds(s, x) && backward_holds(s, x) && gradient_holds(s) && strides_hold(s);
    return error_text() ? fail(s, "%s", error_text()) : holds;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static void default_options(gradcheck *o)
{
    if (o->tolerance == 0) o->tolerance = sizeof(real) == sizeof(double) ? 1e-6 : 5e-2;
    if (o->step == 0) o->step = cbrt((double)REAL_EPSILON);
    if (o->kinks == 0) o->kinks = 0.1;
}

/* Fresh storage under the same strides. */
static tensor same_layout(tensor x)
{
    tensor y = x;
    ptrdiff_t low = 0, high = 0;
    for (int i = 0; i < x.shape.rank; i++) {
        ptrdiff_t reach = (x.shape.n[i] - 1) * x.stride[i];
        if (reach < 0) low += reach;
        else high += reach;
    }
    tensor flat = tensor_new(SHAPE(high - low + 1));
    y.storage = flat.storage;
    y.offset = -low;
    return y;
}

static void check_gradients(subject *s)
{
    tensor places = same_layout(s->x); /* dx by place: indices of one place add up */
    if (tensor_is_null(places)) {
        fail(s, "%s", error_text());
        return;
    }
    forward(s, s->y);
    if (s->loss) loss_value(*s->loss, s->y, s->target, s->dy);
    if (!error_text()) {
        tensor_fill(layer_gradients(s->l), 0);
        backward(s, s->dx);
        tensor_add(places, 1, s->dx);
        check_tensor(s, "x", s->x, places);
        layer_visit(s->l, check_parameters, s);
    }
    tensor_free(places);
}

static bool prepare(subject *s, tensor x, shape y)
{
    s->x = same_layout(x);
    s->y = tensor_new(y);
    s->above = tensor_new(y);
    s->below = tensor_new(y);
    s->dy = tensor_new(y);
    s->dx = tensor_new(x.shape);
    if (tensor_is_null(s->x) || tensor_is_null(s->y) || tensor_is_null(s->above) ||
        tensor_is_null(s->below) || tensor_is_null(s->dy) || tensor_is_null(s->dx))
        return fail(s, "%s", error_text());
    tensor_copy(s->x, x);
    tensor_uniform(s->dy, stream(&s->options, WEIGHTS), (real)0.25, 1); /* no weight near zero */
    for (ptrdiff_t i = 0; i < tensor_count(s->dy); i++)
        if (random_bits(stream(&s->options, SIGNS), (uint64_t)i).word[0] & 1) tensor_data(s->dy)[i] *= -1;
    return true;
}

static void check(subject *s, tensor x)
{
    layer_mode(s->l, !s->options.inference, s->options.seed, 0);
    tensor parameters = tensor_clone(layer_parameters(s->l)), states = tensor_clone(layer_states(s->l));
    shape y = s->l->y;
    y.n[0] = x.shape.n[0];
    if (tensor_is_null(parameters) || tensor_is_null(states)) fail(s, "%s", error_text());
    else if (prepare(s, x, y)) {
        if (!s->options.keep_parameters) {
            tensor noise = tensor_new(parameters.shape);
            if (!tensor_is_null(noise)) tensor_normal(noise, stream(&s->options, NOISE), 0, (real)0.3);
            if (!tensor_is_null(noise)) tensor_add(layer_parameters(s->l), 1, noise);
            tensor_free(noise);
        }
        if (contract_holds(s, x)) check_gradients(s);
        tensor_copy(layer_parameters(s->l), parameters);
        tensor_copy(layer_states(s->l), states);
        tensor_fill(layer_gradients(s->l), 0);
    }
    if (s->result->passed && error_text()) fail(s, "%s", error_text());
    tensor_free(parameters), tensor_free(states);
    tensor_free(s->x), tensor_free(s->y), tensor_free(s->above), tensor_free(s->below);
    tensor_free(s->dy), tensor_free(s->dx);
}

static gradcheck_result start(void)
{
    return (gradcheck_result){ .passed = true, .text = "passed" };
}

gradcheck_result gradcheck_layer_at(layer *l, tensor x, gradcheck options)
{
    gradcheck_result result = start();
    subject s = { .l = l, .options = options, .result = &result };
    default_options(&s.options);
    if (!l || tensor_is_null(x) || layer_build(l, x.shape, options.seed)) {
        if (!error_text()) error_set("the layer or x is null");
        fail(&s, "%s", error_text());
    } else {
        check(&s, x);
    }
    return result;
}

gradcheck_result gradcheck_layer(layer *l, shape x, gradcheck options)
{
    tensor input = tensor_new(x);
    if (!tensor_is_null(input)) tensor_normal(input, stream(&options, INPUT), 0, 1);
    gradcheck_result result = gradcheck_layer_at(l, input, options);
    tensor_free(input);
    return result;
}

gradcheck_result gradcheck_net(net *n, tensor x, tensor target, loss l, gradcheck options)
{
    gradcheck_result result = start();
    subject s = {
        .l = n ? n->root : NULL, .loss = &l, .target = target, .options = options, .result = &result
    };
    default_options(&s.options);
    s.options.keep_parameters = true;
    if (!n || tensor_is_null(x) || x.shape.rank < 1) fail(&s, "the net or x is null");
    else if (x.shape.rank != n->input.rank + 1)
        fail(&s, "x is %s, the net takes [N, ...] of %s", shape_text(x.shape).text,
             shape_text(n->input).text);
    else if (n->batch < x.shape.n[0] && net_build(n, x.shape.n[0], options.seed))
        fail(&s, "%s", error_text());
    else check(&s, x);
    return result;
}
