/* gradcheck.c: compares hooks with central differences. */
#include "nn/check/gradcheck.h"
#include "layers/layer_impl.h"
#include "tensor/counts.h"
#include "tensor/print/index.h"
#include "tensor/storage.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* The function that is checked: a layer followed by a weighted sum of y, or by a loss. */
typedef struct subject {
    st_layer *l;
    st_tensor x;               /* a copy of the caller's, with the same strides */
    st_tensor y, above, below; /* outputs at the point and on either side */
    st_tensor dy, dx;
    st_tensor states;    /* as they were: each forward pass begins with them */
    double rounding;     /* of the function at the point, if each element of y is off by epsilon of itself */
    const st_loss *loss; /* NULL: the sum of y times dy, which is random */
    st_tensor target;
    st_gradcheck_options options;
    st_gradcheck_result *result;
} subject;

/* Random numbers, independent of those that initialise parameters. */
enum { WEIGHTS = 1, SIGNS, SAMPLES, NOISE, INPUT, DIRECTIONS };

static st_random_key stream(const st_gradcheck_options *o, int which)
{
    return (st_random_key){ o->seed, UINT64_C(1) << 61 | (uint64_t)which };
}

/* Fills x with numbers of either sign, none of which is near zero: the signs are bits from `first` on. */
static void draw(st_tensor x, st_random_key key, st_random_key signs, uint64_t first)
{
    st_uniform(x, key, (st_real)0.25, 1);
    for (ptrdiff_t i = 0; i < st_numel(x); i++)
        if (st_random_bits(signs, first + (uint64_t)i).word[0] & 1) st_data(x)[i] *= -1;
}

/* ---- reporting ---------------------------------------------------------------------------------- */

static bool fail(const subject *s, const char *format, ...) ST_PRINTF(2, 3);

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

/* Fails with the error that is set, which may begin with the layer's name already. */
static bool fail_by_error(const subject *s)
{
    const char *name = s->l ? s->l->type->name : "", *error = st_error();
    const size_t length = strlen(name);
    const bool named =
        length > 0 && strncmp(error, name, length) == 0 && strncmp(error + length, ": ", 2) == 0;
    return fail(s, "%s", named ? error + length + 2 : error);
}

/* ---- evaluating --------------------------------------------------------------------------------- */

/* From the states as they were: in training a forward pass may change them. */
static void forward_from(const subject *s, st_tensor x, st_tensor y)
{
    st_copy(st_layer_states(s->l), s->states);
    st_layer_forward(s->l, x, y);
}

/* The weighted difference of two outputs, summed over elements that differ, for accuracy. */
static double difference(const subject *s, st_tensor high, st_tensor low)
{
    const st_tensor none = { 0 };
    if (s->loss)
        return st_loss_value(*s->loss, high, s->target, none) - st_loss_value(*s->loss, low, s->target, none);
    const st_real *a = st_data(high), *b = st_data(low), *r = st_data(s->dy);
    const ptrdiff_t n = st_numel(high);
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        if (a[i] != b[i]) sum += (double)r[i] * ((double)a[i] - (double)b[i]); /* also for infinities */
    return sum;
}

/* Σ |dy y| epsilon. */
static double rounding_of(const subject *s)
{
    const st_real *y = st_data(s->y), *dy = st_data(s->dy);
    double sum = 0;
    for (ptrdiff_t i = 0; i < st_numel(s->y); i++) sum += fabs((double)y[i] * (double)dy[i]);
    return isfinite(sum) ? sum * (double)ST_REAL_EPSILON : 0;
}

typedef struct slopes {
    double central, right, left;
} slopes;

/* A line through the point: one element is varied, or all of some tensors in a direction. */
typedef struct line {
    st_real *place; /* NULL: the tensors */
    st_real middle;
    int tensors;
    st_tensor at[2], start[2], along[2];
} line;

static line line_of(st_real *place)
{
    return (line){ .place = place, .middle = *place };
}

/* Moves to a distance from the point; returns the distance as rounded. */
static double move(const line *v, double distance)
{
    for (int i = 0; i < v->tensors; i++) {
        st_copy(v->at[i], v->start[i]);
        if (distance != 0) st_add(v->at[i], (st_real)distance, v->along[i]);
    }
    if (!v->place) return distance;
    *v->place = v->middle + (st_real)distance;
    return (double)*v->place - (double)v->middle;
}

static slopes numeric(const subject *s, const line *v, double step)
{
    const double up = move(v, step);
    forward_from(s, s->x, s->above);
    const double down = move(v, -step);
    forward_from(s, s->x, s->below);
    move(v, 0);
    slopes d = { difference(s, s->above, s->below), difference(s, s->above, s->y),
                 difference(s, s->y, s->below) };
    d.central /= up - down;
    d.right /= up;
    d.left /= -down;
    return d;
}

/* ---- one tensor --------------------------------------------------------------------------------- */

typedef struct comparison {
    const char *name;
    ptrdiff_t checked, kinks;
    double worst, analytic, numeric; /* of the worst element */
    st_shape at;
    bool nonzero;
} comparison;

/* An error that rounding may make is relative to the largest gradient. */
static double relative_error(double analytic, double number, double most, double rounding)
{
    double error = fabs(analytic - number);
    if (error == 0) return 0;
    double size = fmax(fmax(fabs(analytic), fabs(number)), error <= rounding ? most : most / 100);
    return isfinite(error) && size > 0 ? error / size : INFINITY;
}

/* Tests if the differences along a line are only rounding errors, which are not in proportion to the step. */
static bool is_noise(const subject *s, const line *v, double number, double step)
{
    for (int i = 1; i <= 16; i++) {
        const double other = numeric(s, v, step * (1 - i / 32.0)).central;
        if (fabs(other - number) >= fabs(number) / 2) return true;
    }
    return false;
}

/* The relative error; NaN for a kink. Smaller steps can avoid a kink nearby, or show that the kink is at the
 * point itself; for a smooth function they do not reduce a real error. */
static double check_line(const subject *s, const line *v, double analytic, double most, double *number)
{
    enum { INSIDE = 4 }; /* times as much as in y itself */
    double step = s->options.step * fmax(1, fabs((double)v->middle)), error = INFINITY;
    const double rounding = INSIDE * s->rounding / step;
    slopes d = { 0 };
    for (int shrink = 0; shrink < 3; shrink++, step /= 10) {
        d = numeric(s, v, step);
        double now = relative_error(analytic, d.central, most, rounding);
        if (now >= error) continue;
        error = now;
        *number = d.central;
        if (error <= s->options.tolerance) return error;
        if (shrink == 0 && fabs(analytic) <= rounding && is_noise(s, v, d.central, step)) return 0;
    }
    double low = fmin(d.left, d.right), high = fmax(d.left, d.right), tolerance = s->options.tolerance;
    double size = fmax(fmax(fabs(low), fabs(high)), most / 100), slack = fmax(1e-5, tolerance) * size;
    bool kink =
        high - low > fmax(1e-3, 3 * tolerance) * size && analytic >= low - slack && analytic <= high + slack;
    return kink ? NAN : error;
}

static double largest_size(st_tensor x)
{
    double most = 0;
    for (ptrdiff_t e = 0; e < st_numel(x); e++)
        most = fmax(most, fabs((double)*st_at(x, shape_index(x.shape, e))));
    return most;
}

static void judge(const subject *s, const comparison *t, st_tensor x)
{
    st_gradcheck_result *r = s->result;
    r->checked += t->checked;
    r->kinks += t->kinks;
    if (t->worst > r->worst) r->worst = t->worst;
    if (s->options.report)
        fprintf(s->options.report, "  %-24s %-20s %6td checked %4td kinks  worst %.1e\n", t->name,
                st_is_null(x) ? "" : st_shape_text(x.shape).text, t->checked, t->kinks, t->worst);
    if (!r->passed) return; /* the first failure is told */
    const st_shape_string at = t->at.rank > 0 ? st_shape_text(t->at) : (st_shape_string){ "" };
    if (isnan(t->analytic) && t->worst > 0)
        fail(s, "%s%s: NaN: the backward pass computes it, or leaves it unwritten", t->name, at.text);
    else if (t->worst > s->options.tolerance)
        fail(s, "%s%s: analytic %.10g, numeric %.10g, relative error %.1e, tolerance %.1e", t->name, at.text,
             t->analytic, t->numeric, t->worst, s->options.tolerance);
    else if ((double)t->kinks > s->options.kinks * (double)t->checked)
        fail(s, "%s: %td of %td elements are kinks, at most %g %% may be", t->name, t->kinks, t->checked,
             100 * s->options.kinks);
    else if (!t->nonzero) fail(s, "%s: VACUOUS: the gradient is zero on both sides, everywhere", t->name);
}

/* Checks elements of `x` with their gradients `dx`, of the same shape. */
static void check_tensor(subject *s, const char *name, st_tensor x, st_tensor dx)
{
    ptrdiff_t count = st_numel(x), checks = count;
    if (s->options.most > 0 && s->options.most < count) checks = s->options.most;
    comparison t = { .name = name };
    const double most = largest_size(dx);
    for (ptrdiff_t k = 0; k < checks; k++) {
        ptrdiff_t e = k;
        if (checks < count)
            e = (ptrdiff_t)st_random_below(stream(&s->options, SAMPLES), (uint64_t)k, (uint64_t)count);
        st_shape at = shape_index(x.shape, e);
        double analytic = (double)*st_at(dx, at), number = 0;
        const line element = line_of(st_at(x, at));
        double error = check_line(s, &element, analytic, most, &number);
        t.checked++;
        if (analytic != 0 || number != 0) t.nonzero = true;
        if (isnan(error)) t.kinks++;
        else if (error > t.worst || k == 0)
            t.worst = error, t.analytic = analytic, t.numeric = number, t.at = at;
    }
    judge(s, &t, x);
}

static void check_parameter(const st_net_tensor *t, void *context)
{
    if (!st_is_null(t->gradient)) check_tensor(context, t->name, t->value, t->gradient);
}

/* ---- directions --------------------------------------------------------------------------------- */

/* The elements of a tensor's storage that it reaches from its first one on, each once. */
static st_tensor storage_of(st_tensor x)
{
    const extent e = tensor_extent(x);
    x.offset = e.low;
    x.shape = ST_SHAPE(e.high - e.low + 1);
    x.stride[0] = 1;
    return x;
}

/* Adds a tensor to the line, in a random direction. */
static void add_tensor(const subject *s, line *v, st_tensor x, uint64_t direction)
{
    const int i = v->tensors++;
    st_random_key key = stream(&s->options, DIRECTIONS);
    key.stream += (direction * 2 + (uint64_t)i) << 8;
    v->at[i] = storage_of(x);
    v->start[i] = st_tensor_clone(v->at[i]);
    v->along[i] = st_tensor_new(v->at[i].shape);
    if (!st_is_null(v->along[i])) draw(v->along[i], key, key, UINT64_C(1) << 62);
}

static void free_line(line *v)
{
    for (int i = 0; i < v->tensors; i++) st_tensor_free(v->start[i]), st_tensor_free(v->along[i]);
}

/* The derivative along part i of the line, of x with gradients dx; adds the squares of its terms. */
static double derivative(const line *v, int i, st_tensor x, st_tensor dx, double *squares)
{
    double sum = 0;
    x.storage = v->along[i].storage;
    x.offset -= v->at[i].offset - v->along[i].offset;
    for (ptrdiff_t e = 0; e < st_numel(dx); e++) {
        const st_shape at = shape_index(dx.shape, e);
        const double term = (double)*st_at(dx, at) * (double)*st_at(x, at);
        sum += term;
        *squares += term * term;
    }
    return sum;
}

static void judge_line(const subject *s, line *v, const char *name, double analytic, double squares)
{
    comparison t = { .name = name, .checked = 1 };
    double number = 0, error = check_line(s, v, analytic, sqrt(squares), &number);
    t.nonzero = analytic != 0 || number != 0;
    t.analytic = analytic, t.numeric = number;
    if (isnan(error)) t.kinks++;
    else t.worst = error;
    judge(s, &t, (st_tensor){ 0 });
}

/* One tensor alone, to name the one whose gradient is wrong. */
static void check_alone(const subject *s, const char *name, st_tensor x, st_tensor dx)
{
    line v = { 0 };
    double squares = 0;
    add_tensor(s, &v, x, 0);
    if (!st_error()) {
        const double analytic = derivative(&v, 0, x, dx, &squares);
        judge_line(s, &v, name, analytic, squares);
    }
    free_line(&v);
}

static void check_parameter_alone(const st_net_tensor *t, void *context)
{
    const subject *s = context;
    if (!st_is_null(t->gradient) && s->result->passed) check_alone(s, t->name, t->value, t->gradient);
}

/* x and all parameters at once. If they are wrong, then each alone; the last resort is the whole. */
static void check_direction(subject *s, uint64_t direction)
{
    const st_tensor parameters = st_layer_parameters(s->l);
    line v = { 0 };
    double squares = 0;
    add_tensor(s, &v, s->x, direction);
    if (st_numel(parameters) > 0) add_tensor(s, &v, parameters, direction);
    if (!st_error()) {
        double analytic = derivative(&v, 0, s->x, s->dx, &squares), number = 0;
        if (v.tensors > 1) analytic += derivative(&v, 1, parameters, st_layer_gradients(s->l), &squares);
        if (!(check_line(s, &v, analytic, sqrt(squares), &number) <= s->options.tolerance)) {
            check_alone(s, "x", s->x, s->dx);
            st_net_visit(&(st_net){ .root = s->l }, check_parameter_alone, s);
        }
        if (s->result->passed) judge_line(s, &v, "a direction", analytic, squares);
    }
    free_line(&v);
}

/* ---- the contract ------------------------------------------------------------------------------- */

static bool rounded(st_real a, st_real b)
{
    return fabs((double)a - (double)b) <= 1e3 * (double)ST_REAL_EPSILON * fmax(1, fabs((double)b)) ||
           isnan(b);
}

/* Tests if a and b have the same elements, up to rounding unless `exact`. NaN equals NaN. */
static bool same(const subject *s, st_tensor a, st_tensor b, bool exact, const char *claim)
{
    for (ptrdiff_t e = 0; e < st_numel(a); e++) {
        const st_shape at = shape_index(a.shape, e);
        const st_real u = *st_at(a, at), v = *st_at(b, at);
        if (u != v && !(isnan(u) && isnan(v)) && (exact || !rounded(u, v)))
            return fail(s, "%s%s is %g, expected %g", claim, st_shape_text(at).text, (double)u, (double)v);
    }
    return true;
}

static void spoil_parent(st_layer *l, const char *path, void *context)
{
    (void)path, (void)context;
    for (int i = 0; i < l->impl->scratches && l->children > 0; i++)
        st_fill(l->impl->scratch[i], (st_real)NAN);
}

void st_layer_spoil_scratch(st_layer *root)
{
    const st_layer_run *run = root && root->impl ? root->impl->run : NULL;
    if (!run || !run->ready) return;
    st_fill(run->scratch, (st_real)NAN);
    st_layer_visit(root, spoil_parent, NULL);
}

static void forward(const subject *s, st_tensor y)
{
    st_layer_spoil_scratch(s->l);
    forward_from(s, s->x, y);
}

static void backward(const subject *s, st_tensor dx)
{
    st_layer_spoil_scratch(s->l);
    st_layer_backward(s->l, s->x, s->y, s->dy, dx);
}

/* Runs another input first, to find hooks that keep data of their first call. `w`: the parameters as they
 * are. */
static bool forward_holds(const subject *s, st_tensor x, st_tensor w)
{
    st_scale(s->x, (st_real)-0.5);
    forward_from(s, s->x, s->above);
    st_copy(s->x, x);
    st_fill(s->y, (st_real)NAN);
    st_fill(s->above, 0);
    forward(s, s->y);
    forward(s, s->above);
    for (ptrdiff_t e = 0; e < st_numel(s->y); e++)
        if (isnan(st_data(s->above)[e]))
            return fail(s, "forward gives y%s as NaN", st_shape_text(shape_index(s->y.shape, e)).text);
    return same(s, s->x, x, true, "forward writes its input: x") &&
           same(s, st_layer_parameters(s->l), w, true, "forward writes a parameter: element ") &&
           same(s, s->y, s->above, true, "forward leaves some of y, or gives another result each time: y");
}

/* Checks that backward and gradient do not write their inputs, and that dx is overwritten. `spare`: of the
 * shapes of dx, y and dy. */
static bool backward_holds(const subject *s, st_tensor x, st_tensor w, const st_tensor spare[3])
{
    st_copy(spare[1], s->y), st_copy(spare[2], s->dy);
    backward(s, s->dx);
    st_fill(spare[0], (st_real)NAN);
    if (!same(s, s->x, x, true, "backward or gradient writes x: x") ||
        !same(s, s->y, spare[1], true, "backward or gradient writes y: y") ||
        !same(s, s->dy, spare[2], true, "backward or gradient writes dy: dy") ||
        !same(s, st_layer_parameters(s->l), w, true, "backward or gradient writes a parameter: element "))
        return false;
    backward(s, spare[0]);
    return same(s, spare[0], s->dx, true, "backward does not overwrite dx: dx");
}

/* With one image, so that `gradient` gets the layer's gradients themselves, which must be added to; and with
 * a null dx, where layers that hold others must run these all the same. */
static bool gradient_holds(const subject *s, st_tensor dx, st_tensor once)
{
    const st_tensor gradients = st_layer_gradients(s->l), none = { 0 };
    st_tensor x = st_narrow(s->x, 0, 0, 1), y = st_narrow(s->above, 0, 0, 1), dy = st_narrow(s->dy, 0, 0, 1);
    forward_from(s, x, y);
    for (int start = 0; start < 2; start++) {
        st_fill(gradients, (st_real)start);
        st_layer_backward(s->l, x, y, dy, none);
        if (start == 0) st_fill(once, 1), st_add(once, 1, gradients);
    }
    if (!same(s, gradients, once, false, "gradient does not add to what is there, 1: element ")) return false;
    st_fill(gradients, 1);
    st_layer_backward(s->l, x, y, dy, st_narrow(dx, 0, 0, 1));
    return same(s, once, gradients, false, "backward with a null dx changes the gradient: 1 + element ");
}

/* Checks an x with the same elements but other strides: its axes stored in the opposite order. */
static bool strides_hold(const subject *s, st_tensor view, st_tensor dx, st_tensor once)
{
    st_tensor gradients = st_layer_gradients(s->l);
    st_copy(view, s->x);
    forward(s, s->y);
    st_fill(gradients, 0);
    backward(s, s->dx);
    st_copy(once, gradients);
    st_fill(gradients, 0);
    forward_from(s, view, s->above);
    st_layer_backward(s->l, view, s->above, s->dy, dx);
    return same(s, s->above, s->y, false, "forward reads an x of other strides wrongly: y") &&
           same(s, dx, s->dx, false, "backward reads an x of other strides wrongly: dx") &&
           same(s, gradients, once, false, "gradient reads an x of other strides wrongly: element ");
}

static bool contract_holds(const subject *s, st_tensor x)
{
    st_axes reversed = { .count = x.shape.rank };
    for (int i = 0; i < reversed.count; i++) reversed.axis[i] = reversed.count - 1 - i;
    st_tensor spare[] = { st_tensor_new(x.shape), st_tensor_new(s->y.shape), st_tensor_new(s->y.shape) },
              flat = st_tensor_new(st_permute(s->x, reversed).shape),
              once = st_tensor_new(st_layer_gradients(s->l).shape);
    if (!st_error()) st_copy(once, st_layer_parameters(s->l));
    bool holds = !st_error() && forward_holds(s, x, once) && backward_holds(s, x, once, spare) &&
                 gradient_holds(s, spare[0], once) &&
                 strides_hold(s, st_permute(flat, reversed), spare[0], once);
    for (int i = 0; i < 3; i++) st_tensor_free(spare[i]);
    st_tensor_free(flat), st_tensor_free(once);
    return st_error() ? fail_by_error(s) : holds;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static void default_options(st_gradcheck_options *o)
{
    if (o->tolerance == 0) o->tolerance = sizeof(st_real) == sizeof(double) ? 1e-6 : 5e-2;
    if (o->step == 0) o->step = cbrt((double)ST_REAL_EPSILON);
    if (o->kinks == 0) o->kinks = signbit(o->kinks) ? 0 : 0.1;
}

/* With the defaults filled in. */
static bool options_hold(const subject *s)
{
    const st_gradcheck_options *o = &s->options;
    if (!(o->tolerance > 0))
        return fail(s, "tolerance is %g, expected a positive number", printable(o->tolerance));
    if (!(o->step > 0 && isfinite(o->step)))
        return fail(s, "step is %g, expected a positive number", printable(o->step));
    if (!(o->kinks >= 0)) return fail(s, "kinks is %g, expected at least 0", printable(o->kinks));
    if (o->most < 0) return fail(s, "most is %td, expected at least 0", o->most);
    if (o->directions < 0) return fail(s, "directions is %d, expected at least 0", o->directions);
    return true;
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
    st_tensor places = same_layout(s->x); /* dx by memory location: indices of the same one are added up */
    if (!st_is_null(places)) forward(s, s->y);
    if (s->loss && !st_error()) st_loss_value(*s->loss, s->y, s->target, s->dy);
    if (!st_error()) {
        st_fill(st_layer_gradients(s->l), 0);
        backward(s, s->dx);
        s->rounding = rounding_of(s);
        for (int i = 0; i < s->options.directions; i++) check_direction(s, (uint64_t)i);
    }
    if (!st_error() && s->options.directions == 0) {
        st_add(places, 1, s->dx);
        check_tensor(s, "x", s->x, places);
        st_net_visit(&(st_net){ .root = s->l }, check_parameter, s);
    }
    st_tensor_free(places);
}

static void check(subject *s, st_tensor x)
{
    st_tensor parameters = st_layer_parameters(s->l), states = st_layer_states(s->l);
    if (!options_hold(s)) return;
    if (st_is_null(st_layer_gradients(s->l))) {
        fail(s, "it shares parameters with another, and has no gradients");
        return;
    }
    st_tensor kept = st_tensor_clone(parameters);
    s->states = st_tensor_clone(states);
    st_shape y = s->l->y;
    y.n[0] = x.shape.n[0];
    s->x = same_layout(x);
    s->dx = st_tensor_new(x.shape);
    st_tensor *const outputs[] = { &s->y, &s->above, &s->below, &s->dy };
    for (int i = 0; i < 4; i++) *outputs[i] = st_tensor_new(y);
    st_layer_mode(s->l, !s->options.inference, s->options.seed, 0);
    if (!st_error()) {
        st_copy(s->x, x);
        draw(s->dy, stream(&s->options, WEIGHTS), stream(&s->options, SIGNS), 0);
        if (!s->options.keep_parameters) {
            st_normal(parameters, stream(&s->options, NOISE), 0, (st_real)0.3);
            st_add(parameters, 1, kept);
        }
        if (contract_holds(s, x)) check_gradients(s);
        st_copy(parameters, kept);
        st_copy(states, s->states);
        st_fill(st_layer_gradients(s->l), 0);
    }
    if (s->result->passed && st_error()) fail_by_error(s);
    for (int i = 0; i < 4; i++) st_tensor_free(*outputs[i]);
    st_tensor_free(s->x), st_tensor_free(s->dx), st_tensor_free(kept), st_tensor_free(s->states);
}

st_gradcheck_result st_gradcheck_layer_at(st_layer *l, st_tensor x, st_gradcheck_options options)
{
    st_gradcheck_result result = { .passed = true, .text = "passed" };
    subject s = { .l = l && l->impl ? l : NULL, .options = options, .result = &result };
    default_options(&s.options);
    if (!s.l || st_is_null(x))
        st_error_set("st_gradcheck_layer: %s", s.l ? "x is null" : "the layer is NULL");
    if (!st_error() && st_layer_build(l, x.shape, options.seed) == 0) check(&s, x);
    else fail_by_error(&s);
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
    st_gradcheck_result result = { .passed = true, .text = "passed" };
    subject s = {
        .l = n ? n->root : NULL, .loss = &l, .target = target, .options = options, .result = &result
    };
    default_options(&s.options);
    s.options.keep_parameters = true;
    const ptrdiff_t images = x.shape.rank > 0 ? x.shape.n[0] : 0;
    if (n && n->batch < images) st_net_build(n, images, options.seed);
    if (st_is_null(st_net_forward(n, x, ST_EVAL))) fail_by_error(&s); /* checks both */
    else check(&s, x);
    return result;
}
