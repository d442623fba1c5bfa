/* gradcheck.c: compares hooks with central differences. */
#include "nn/gradcheck.h"
#include "tensor/storage.h"

#include <math.h>
#include <stdarg.h>

/* The function that is checked: a layer followed by a weighted sum of y, or by a loss. */
typedef struct subject {
    st_layer *l;
    st_tensor x;               /* a copy of the caller's, with the same strides */
    st_tensor y, above, below; /* outputs at the point and on either side */
    st_tensor dy, dx;
    const st_loss *loss; /* NULL: the sum of y times dy, which is random */
    st_tensor target;
    st_gradcheck_options options;
    st_gradcheck_result *result;
} subject;

/* Random numbers, independent of those that initialise parameters. */
enum { WEIGHTS = 1, SIGNS, SAMPLES, NOISE, INPUT };

static st_random_key stream(const st_gradcheck_options *o, int which)
{
    return (st_random_key){ o->seed, UINT64_C(1) << 61 | (uint64_t)which };
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

static st_shape index_of(st_shape s, ptrdiff_t element)
{
    st_shape index = s;
    for (int i = s.rank - 1; i >= 0; element /= s.n[i--]) index.n[i] = element % s.n[i];
    return index;
}

/* ---- evaluating --------------------------------------------------------------------------------- */

/* The weighted difference of two outputs, summed over elements that differ, for accuracy. */
static double difference(const subject *s, st_tensor high, st_tensor low)
{
    const st_tensor none = { 0 };
    if (s->loss)
        return st_loss_value(*s->loss, high, s->target, none) - st_loss_value(*s->loss, low, s->target, none);
    const st_real *a = st_data(high), *b = st_data(low), *r = st_data(s->dy);
    double sum = 0;
    for (ptrdiff_t i = 0; i < st_numel(high); i++)
        if (a[i] != b[i]) sum += (double)r[i] * ((double)a[i] - (double)b[i]); /* also for infinities */
    return sum;
}

typedef struct slopes {
    double central, right, left;
} slopes;

static slopes numeric(const subject *s, st_real *place, double step)
{
    st_real middle = *place;
    st_real up = middle + (st_real)step, down = middle - (st_real)step; /* as rounded */
    *place = up;
    st_layer_forward(s->l, s->x, s->above);
    *place = down;
    st_layer_forward(s->l, s->x, s->below);
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
    st_shape at;
    bool nonzero;
} tally;

static double relative_error(double analytic, double number, double scale)
{
    double error = fabs(analytic - number);
    if (error == 0) return 0;
    double size = fmax(fmax(fabs(analytic), fabs(number)), scale);
    return isfinite(error) && size > 0 ? error / size : INFINITY;
}

/* The relative error; NaN for a kink. Smaller steps can avoid a kink nearby, or show that the kink is at the
 * point itself; for a smooth function they do not reduce a real error. */
static double check_element(const subject *s, st_real *place, double analytic, double scale, double *number)
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

static double largest(st_tensor x)
{
    double most = 0;
    for (ptrdiff_t e = 0; e < st_numel(x); e++)
        most = fmax(most, fabs((double)*st_at(x, index_of(x.shape, e))));
    return most;
}

static bool judge(subject *s, const tally *t, st_tensor x)
{
    st_gradcheck_result *r = s->result;
    r->checked += t->checked;
    r->kinks += t->kinks;
    bool first_failure = r->passed;
    if (t->worst > r->worst) r->worst = t->worst;
    if (s->options.report)
        fprintf(s->options.report, "  %-24s %-20s %6td checked %4td kinks  worst %.1e\n", t->name,
                st_shape_text(x.shape).text, t->checked, t->kinks, t->worst);
    if (!first_failure) return false;
    if (t->worst > s->options.tolerance)
        return fail(s, "%s%s: analytic %.10g, numeric %.10g, relative error %.1e, tolerance %.1e", t->name,
                    st_shape_text(t->at).text, t->analytic, t->numeric, t->worst, s->options.tolerance);
    if ((double)t->kinks > s->options.kinks * (double)t->checked)
        return fail(s, "%s: %td of %td elements are kinks, at most %g %% may be", t->name, t->kinks,
                    t->checked, 100 * s->options.kinks);
    if (!t->nonzero) return fail(s, "%s: VACUOUS: the gradient is zero on both sides, everywhere", t->name);
    return true;
}

/* Checks elements of `x` with their gradients `dx`, of the same shape. */
static void check_tensor(subject *s, const char *name, st_tensor x, st_tensor dx)
{
    ptrdiff_t count = st_numel(x), checks = count;
    if (s->options.most > 0 && s->options.most < count) checks = s->options.most;
    tally t = { .name = name };
    double scale = largest(dx) / 100;
    for (ptrdiff_t k = 0; k < checks; k++) {
        ptrdiff_t e = k;
        if (checks < count)
            e = (ptrdiff_t)st_random_below(stream(&s->options, SAMPLES), (uint64_t)k, (uint64_t)count);
        st_shape at = index_of(x.shape, e);
        double analytic = (double)*st_at(dx, at), number = 0;
        double error = check_element(s, st_at(x, at), analytic, scale, &number);
        t.checked++;
        if (analytic != 0 || number != 0) t.nonzero = true;
        if (isnan(error)) t.kinks++;
        else if (error > t.worst || k == 0)
            t.worst = error, t.analytic = analytic, t.numeric = number, t.at = at;
    }
    judge(s, &t, x);
}

static void check_parameters(st_layer *l, const char *path, void *context)
{
    subject *s = context;
    for (int i = 0; i < l->params; i++) {
        char name[ST_LAYER_PATH + 64];
        snprintf(name, sizeof name, "%s%s%s", path, path[0] ? "." : "", l->param_name[i]);
        check_tensor(s, name, l->param[i], l->grad[i]);
    }
}

/* ---- the contract ------------------------------------------------------------------------------- */

/* The first element that differs between two tensors of the same shape, or -1; NaN equals NaN. */
static ptrdiff_t first_difference(st_tensor a, st_tensor b)
{
    for (ptrdiff_t e = 0; e < st_numel(a); e++) {
        st_real u = *st_at(a, index_of(a.shape, e)), v = *st_at(b, index_of(b.shape, e));
        if (u != v && !(isnan(u) && isnan(v))) return e;
    }
    return -1;
}

static void forward(const subject *s, st_tensor y)
{
    st_layer_spoil_scratch(s->l);
    st_layer_forward(s->l, s->x, y);
}

static void backward(const subject *s, st_tensor dx)
{
    st_layer_spoil_scratch(s->l);
    st_layer_backward(s->l, s->x, s->y, s->dy, dx);
}

static bool forward_holds(const subject *s, st_tensor x)
{
    ptrdiff_t e;
    st_fill(s->y, (st_real)NAN);
    st_fill(s->above, 0);
    forward(s, s->y);
    forward(s, s->above);
    if ((e = first_difference(s->x, x)) >= 0)
        return fail(s, "forward writes its input x%s", st_shape_text(index_of(x.shape, e)).text);
    if ((e = first_difference(s->y, s->above)) >= 0)
        return fail(s, "forward leaves y%s unwritten, or gives another result each time",
                    st_shape_text(index_of(s->y.shape, e)).text);
    for (e = 0; e < st_numel(s->y); e++)
        if (isnan(st_data(s->y)[e]))
            return fail(s, "forward gives y%s as NaN", st_shape_text(index_of(s->y.shape, e)).text);
    return true;
}

/* Checks that backward does not write its inputs, and overwrites dx. */
static bool backward_holds(const subject *s, st_tensor x)
{
    st_tensor dx = st_tensor_new(s->x.shape), y = st_tensor_clone(s->y), dy = st_tensor_clone(s->dy);
    bool holds = !st_is_null(dx) && !st_is_null(y) && !st_is_null(dy);
    if (!holds) fail(s, "%s", st_error());
    else backward(s, s->dx);
    const struct {
        const char *name;
        st_tensor before, after;
    } read[] = { { "x", x, s->x }, { "y", y, s->y }, { "dy", dy, s->dy } };
    for (int i = 0; i < 3 && holds; i++) {
        ptrdiff_t e = first_difference(read[i].before, read[i].after);
        if (e >= 0)
            holds = fail(s, "backward writes %s%s", read[i].name,
                         st_shape_text(index_of(read[i].after.shape, e)).text);
    }
    if (holds) {
        st_fill(dx, (st_real)NAN);
        backward(s, dx);
        ptrdiff_t e = first_difference(dx, s->dx);
        if (e >= 0)
            holds = fail(s, "backward does not overwrite dx%s", st_shape_text(index_of(dx.shape, e)).text);
    }
    st_tensor_free(dx), st_tensor_free(y), st_tensor_free(dy);
    return holds;
}

static bool added(st_real after, st_real before, st_real once)
{
    double slack = 1e3 * (double)ST_REAL_EPSILON * fmax(1, fabs((double)once));
    return after == once + before || fabs((double)after - (double)before - (double)once) <= slack ||
           isnan(once);
}

/* With one image, so that `gradient` gets the layer's gradients themselves, which must be added to. */
static bool gradient_holds(const subject *s)
{
    st_tensor gradients = st_layer_gradients(s->l);
    ptrdiff_t count = st_numel(gradients), e = 0;
    if (count == 0) return true;
    st_tensor once = st_tensor_new(gradients.shape);
    if (st_is_null(once)) return fail(s, "%s", st_error());
    st_tensor x = st_narrow(s->x, 0, 0, 1), y = st_narrow(s->above, 0, 0, 1), dy = st_narrow(s->dy, 0, 0, 1);
    st_layer_forward(s->l, x, y);
    st_fill(gradients, 0);
    st_layer_backward(s->l, x, y, dy, (st_tensor){ 0 });
    st_copy(once, gradients);
    st_fill(gradients, 1);
    st_layer_backward(s->l, x, y, dy, (st_tensor){ 0 });
    const st_real *g = st_data(gradients), *o = st_data(once);
    while (e < count && added(g[e], 1, o[e])) e++;
    bool holds = e == count;
    if (!holds)
        fail(s,
             "gradient does not add to what is there: element %td of the gradients was 1, %g is to be added, "
             "it is %g",
             e, (double)o[e], (double)g[e]);
    st_tensor_free(once);
    return holds;
}

/* The first element that differs by more than rounding between two contiguous tensors, or -1. */
static ptrdiff_t first_disagreement(st_tensor a, st_tensor b)
{
    for (ptrdiff_t e = 0; e < st_numel(a); e++)
        if (!added(st_data(a)[e], 0, st_data(b)[e])) return e;
    return -1;
}

/* Checks an x with the same elements but other strides: its axes stored in the opposite order. */
static bool strides_hold(const subject *s)
{
    st_axes reversed = { .count = s->x.shape.rank };
    for (int i = 0; i < reversed.count; i++) reversed.axis[i] = reversed.count - 1 - i;
    st_tensor flat = st_tensor_new(st_permute(s->x, reversed).shape), view = st_permute(flat, reversed);
    st_tensor gradients = st_layer_gradients(s->l), once = st_tensor_new(gradients.shape),
              dx = st_tensor_new(s->dx.shape);
    bool holds = !st_is_null(view) && !st_is_null(once) && !st_is_null(dx);
    if (!holds) fail(s, "%s", st_error());
    if (holds) {
        st_copy(view, s->x);
        forward(s, s->y);
        st_fill(gradients, 0);
        backward(s, s->dx);
        st_copy(once, gradients);
        st_fill(gradients, 0);
        st_layer_forward(s->l, view, s->above);
        st_layer_backward(s->l, view, s->above, s->dy, dx);
    }
    const struct {
        const char *what;
        st_tensor of_view, of_x;
    } same[] = { { "forward", s->above, s->y }, { "backward", dx, s->dx }, { "gradient", gradients, once } };
    for (int i = 0; i < 3 && holds; i++) {
        ptrdiff_t e = first_disagreement(same[i].of_view, same[i].of_x);
        if (e >= 0)
            holds = fail(
                s, "%s reads an x of other strides wrongly: element %s of what it makes is %g, expected %g",
                same[i].what, st_shape_text(index_of(same[i].of_x.shape, e)).text,
                (double)st_data(same[i].of_view)[e], (double)st_data(same[i].of_x)[e]);
    }
    st_tensor_free(flat), st_tensor_free(once), st_tensor_free(dx);
    return holds;
}

/* Runs another input first, to find hooks that keep data of their first call. */
static bool contract_holds(const subject *s, st_tensor x)
{
    st_scale(s->x, (st_real)-0.5);
    st_layer_forward(s->l, s->x, s->above);
    st_copy(s->x, x);
    bool holds = forward_holds(s, x) && backward_holds(s, x) && gradient_holds(s) && strides_hold(s);
    return st_error() ? fail(s, "%s", st_error()) : holds;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static void default_options(st_gradcheck_options *o)
{
    if (o->tolerance == 0) o->tolerance = sizeof(st_real) == sizeof(double) ? 1e-6 : 5e-2;
    if (o->step == 0) o->step = cbrt((double)ST_REAL_EPSILON);
    if (o->kinks == 0) o->kinks = 0.1;
}

/* A new storage with the same strides. */
static st_tensor same_layout(st_tensor x)
{
    extent e = tensor_extent(x);
    x.storage = st_tensor_new(ST_SHAPE(e.high - e.low + 1)).storage;
    x.offset -= e.low;
    return x;
}

static void check_gradients(subject *s)
{
    st_tensor places =
        same_layout(s->x); /* dx by memory location: indices of the same location are added up */
    if (st_is_null(places)) {
        fail(s, "%s", st_error());
        return;
    }
    forward(s, s->y);
    if (s->loss) st_loss_value(*s->loss, s->y, s->target, s->dy);
    if (!st_error()) {
        st_fill(st_layer_gradients(s->l), 0);
        backward(s, s->dx);
        st_add(places, 1, s->dx);
        check_tensor(s, "x", s->x, places);
        st_layer_visit(s->l, check_parameters, s);
    }
    st_tensor_free(places);
}

static bool prepare(subject *s, st_tensor x, st_shape y)
{
    s->x = same_layout(x);
    s->y = st_tensor_new(y);
    s->above = st_tensor_new(y);
    s->below = st_tensor_new(y);
    s->dy = st_tensor_new(y);
    s->dx = st_tensor_new(x.shape);
    if (st_is_null(s->x) || st_is_null(s->y) || st_is_null(s->above) || st_is_null(s->below) ||
        st_is_null(s->dy) || st_is_null(s->dx))
        return fail(s, "%s", st_error());
    st_copy(s->x, x);
    st_uniform(s->dy, stream(&s->options, WEIGHTS), (st_real)0.25, 1); /* no weight near zero */
    for (ptrdiff_t i = 0; i < st_numel(s->dy); i++)
        if (st_random_bits(stream(&s->options, SIGNS), (uint64_t)i).word[0] & 1) st_data(s->dy)[i] *= -1;
    return true;
}

static void check(subject *s, st_tensor x)
{
    st_layer_mode(s->l, !s->options.inference, s->options.seed, 0);
    st_tensor parameters = st_tensor_clone(st_layer_parameters(s->l)),
              states = st_tensor_clone(st_layer_states(s->l));
    st_shape y = s->l->y;
    y.n[0] = x.shape.n[0];
    if (st_is_null(parameters) || st_is_null(states)) fail(s, "%s", st_error());
    else if (prepare(s, x, y)) {
        if (!s->options.keep_parameters) {
            st_tensor noise = st_tensor_new(parameters.shape);
            if (!st_is_null(noise)) st_normal(noise, stream(&s->options, NOISE), 0, (st_real)0.3);
            if (!st_is_null(noise)) st_add(st_layer_parameters(s->l), 1, noise);
            st_tensor_free(noise);
        }
        if (contract_holds(s, x)) check_gradients(s);
        st_copy(st_layer_parameters(s->l), parameters);
        st_copy(st_layer_states(s->l), states);
        st_fill(st_layer_gradients(s->l), 0);
    }
    if (s->result->passed && st_error()) fail(s, "%s", st_error());
    st_tensor_free(parameters), st_tensor_free(states);
    st_tensor_free(s->x), st_tensor_free(s->y), st_tensor_free(s->above), st_tensor_free(s->below);
    st_tensor_free(s->dy), st_tensor_free(s->dx);
}

static st_gradcheck_result start(void)
{
    return (st_gradcheck_result){ .passed = true, .text = "passed" };
}

st_gradcheck_result st_gradcheck_layer_at(st_layer *l, st_tensor x, st_gradcheck_options options)
{
    st_gradcheck_result result = start();
    subject s = { .l = l && l->impl ? l : NULL, .options = options, .result = &result };
    default_options(&s.options);
    if (!s.l || st_is_null(x) || st_layer_build(l, x.shape, options.seed)) {
        if (!st_error()) st_error_set("the layer or x is null");
        fail(&s, "%s", st_error());
    } else {
        check(&s, x);
    }
    return result;
}

st_gradcheck_result st_gradcheck_layer(st_layer *l, st_shape x, st_gradcheck_options options)
{
    st_tensor input = st_tensor_new(x);
    if (!st_is_null(input)) st_normal(input, stream(&options, INPUT), 0, 1);
    st_gradcheck_result result = st_gradcheck_layer_at(l, input, options);
    st_tensor_free(input);
    return result;
}

st_gradcheck_result st_gradcheck_net(st_net *n, st_tensor x, st_tensor target, st_loss l,
                                     st_gradcheck_options options)
{
    st_gradcheck_result result = start();
    subject s = {
        .l = n ? n->root : NULL, .loss = &l, .target = target, .options = options, .result = &result
    };
    default_options(&s.options);
    s.options.keep_parameters = true;
    if (!n || st_is_null(x) || x.shape.rank < 1) fail(&s, "the net or x is null");
    else if (x.shape.rank != n->input.rank + 1)
        fail(&s, "x is %s, the net takes [N, ...] of %s", st_shape_text(x.shape).text,
             st_shape_text(n->input).text);
    else if (n->batch < x.shape.n[0] && st_net_build(n, x.shape.n[0], options.seed))
        fail(&s, "%s", st_error());
    else check(&s, x);
    return result;
}
