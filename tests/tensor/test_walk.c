/* test_walk.c: what moves data does what a naive loop over all indices does, whatever the strides. */
#include "tests/support.h"

#include <math.h>
#include <string.h>

enum { CASES = 9000, MOST_ELEMENTS = 400, STORAGE = 300 };

/* ---- elementwise: copy add fill scale multiply map -------------------------------------------- */

static real twice_plus(real x, void *context)
{
    return 2 * x + *(const real *)context;
}

static void run_copy(tensor y, real alpha, tensor x)
{
    (void)alpha;
    tensor_copy(y, x);
}

static void run_multiply(tensor y, real alpha, tensor x)
{
    (void)alpha;
    tensor_multiply(y, x);
}

static void run_map(tensor y, real alpha, tensor x)
{
    tensor_map(y, twice_plus, &alpha, x);
}

static void run_fill(tensor y, real alpha, tensor x)
{
    (void)x;
    tensor_fill(y, alpha);
}

static void run_scale(tensor y, real alpha, tensor x)
{
    (void)x;
    tensor_scale(y, alpha);
}

static real copied(real y, real alpha, real x)
{
    return (void)y, (void)alpha, x;
}

static real added(real y, real alpha, real x)
{
    return y + alpha * x;
}

static real multiplied(real y, real alpha, real x)
{
    return (void)alpha, y * x;
}

static real mapped(real y, real alpha, real x)
{
    return (void)y, 2 * x + alpha;
}

static real filled(real y, real alpha, real x)
{
    return (void)y, (void)x, alpha;
}

static real scaled(real y, real alpha, real x)
{
    return (void)x, y * alpha;
}

typedef struct movement {
    const char *name;
    void (*run)(tensor y, real alpha, tensor x);
    real (*becomes)(real y, real alpha, real x); /* an element of y */
    bool in_turn;                                /* also of a y that overlaps itself */
} movement;

static const movement movements[] = {
    { "tensor_copy", run_copy, copied },
    { "tensor_add", tensor_add, added, .in_turn = true },
    { "tensor_multiply", run_multiply, multiplied },
    { "tensor_map", run_map, mapped },
    { "tensor_fill", run_fill, filled, .in_turn = true },
    { "tensor_scale", run_scale, scaled },
};
enum { MOVEMENTS = sizeof movements / sizeof *movements, FROM_X = 4 }; /* the first four read x */

/* y and x of one shape, and the whole tensor that y is a view of. */
typedef struct scene {
    tensor whole, y, x;
} scene;

static bool repeats(tensor x)
{
    for (ptrdiff_t i = 0; i < tensor_count(x); i++)
        for (ptrdiff_t j = 0; j < i; j++)
            if (element(x, i) == element(x, j)) return true;
    return false;
}

/* A tensor to read: views that overlap themselves included. */
static tensor roll_source(dice *d, shape s)
{
    tensor whole = tensor_new(SHAPE(STORAGE)), x = roll_strided(d, whole, s);
    if (!tensor_is_null(x) && chance(d, 50)) {
        roll_elements(d, whole, -4, 4);
        return x;
    }
    tensor_free(whole);
    x = roll_view(d, s, NULL);
    roll_elements(d, x, -4, 4);
    return x;
}

/* x is y, or another view of y's storage, or lies elsewhere; null where the strides do not fit. */
static tensor roll_partner(dice *d, const scene *s)
{
    if (chance(d, 10)) return s->y;
    if (chance(d, 50)) return roll_strided(d, s->whole, s->y.shape);
    tensor x = roll_source(d, s->y.shape);
    roll_elements(d, x, -9, 9);
    return x;
}

static scene roll_scene(dice *d, bool may_repeat)
{
    scene s = { 0 };
    shape form = roll_shape(d, 0, 4, chance(d, 4) ? 0 : 1, 4);
    if (may_repeat && chance(d, 50)) {
        s.whole = tensor_new(SHAPE(STORAGE / 3));
        s.y = roll_strided(d, s.whole, form);
    }
    if (tensor_is_null(s.y)) {
        tensor_free(s.whole);
        s.y = roll_view(d, form, &s.whole);
    }
    roll_elements(d, s.whole, -9, 9);
    s.x = roll_partner(d, &s);
    return s;
}

/* Oracle: x is read whole; then one index after another changes the element of y. What is not an element
 * of y stays. */
static void one_movement(dice *d, const movement *m, const scene *s)
{
    real read[MOST_ELEMENTS];
    ptrdiff_t count = tensor_count(s->y);
    tensor expected = tensor_clone(s->whole);
    real alpha = (real)roll(d, -2, 2), *first = tensor_data(s->whole);
    for (ptrdiff_t k = 0; k < count; k++) read[k] = *element(s->x, k);
    for (ptrdiff_t k = 0; k < count; k++) {
        real *place = tensor_data(expected) + (element(s->y, k) - first);
        *place = m->becomes(*place, alpha, read[k]);
    }
    m->run(s->y, alpha, s->x);
    assert_same(s->whole, expected);
    tensor_free(expected);
}

static void what_moves_data_is_a_loop_over_all_indices(void **state)
{
    (void)state;
    dice d = { { 7 } };
    int apart[MOVEMENTS] = { 0 }, overlapping[MOVEMENTS] = { 0 }, repeating[MOVEMENTS] = { 0 };
    for (int i = 0; i < CASES; i++) {
        int m = i % MOVEMENTS;
        scene s = roll_scene(&d, movements[m].in_turn);
        bool repeated = repeats(s.y), same = tensor_data(s.x) == tensor_data(s.y);
        about("%s, case %d, %s", movements[m].name, i, shape_text(s.y.shape).text);
        if (!tensor_is_null(s.x) && !(repeated && same)) {
            one_movement(&d, &movements[m], &s);
            repeating[m] += repeated;
            overlapping[m] += !same && tensor_overlaps(s.y, s.x);
            apart[m] += !tensor_overlaps(s.y, s.x);
        }
        if (!tensor_shares_storage(s.x, s.whole)) tensor_free(s.x);
        tensor_free(s.whole);
    }
    for (int m = 0; m < MOVEMENTS; m++) {
        assert_true(apart[m] > 100 && overlapping[m] > 100);
        assert_true(movements[m].in_turn ? repeating[m] > 100 : repeating[m] == 0);
    }
}

/* The sum of overlapping windows: every window has a one in each of its places. */
static void adding_into_windows_sums_what_overlaps(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(5)), windows = tensor_window(x, 0, 3, 1, 1), ones = tensor_new(windows.shape);
    tensor_fill(ones, 1);
    tensor_add(windows, 1, ones);
    assert_elements(x, 1, 2, 3, 2, 1);
    tensor total = tensor_new(SHAPE(1));
    tensor_add(tensor_expand(total, SHAPE(5)), 2, x);
    assert_elements(total, 18);
    tensor_free(x);
    tensor_free(ones);
    tensor_free(total);
}

static void a_tensor_may_be_shifted_reversed_or_transposed_onto_itself(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(6), 1, 2, 3, 4, 5, 6);
    tensor_copy(tensor_narrow(x, 0, 1, 5), tensor_narrow(x, 0, 0, 5));
    assert_elements(x, 1, 1, 2, 3, 4, 5);
    tensor_copy(tensor_narrow(x, 0, 0, 5), tensor_narrow(x, 0, 1, 5));
    assert_elements(x, 1, 2, 3, 4, 5, 5);
    tensor_copy(x, tensor_flip(x, 0));
    assert_elements(x, 5, 5, 4, 3, 2, 1);
    tensor square = tensor_reshape(tensor_narrow(x, 0, 1, 4), SHAPE(2, 2));
    tensor_add(square, 10, tensor_transpose(square, 0, 1));
    assert_elements(x, 5, 55, 34, 43, 22, 1);
    tensor_free(x);
}

static void two_wraps_of_one_memory_overlap_as_views_do(void **state)
{
    (void)state;
    real data[] = { 1, 2, 3, 4, 5 };
    tensor y = tensor_wrap(data + 1, SHAPE(4)), x = tensor_wrap(data, SHAPE(4));
    tensor_add(y, 1, tensor_flip(x, 0));
    assert_elements(y, 2 + 4, 3 + 3, 4 + 2, 5 + 1);
    tensor_free(x);
    tensor_free(y);
}

static void copying_keeps_nan_and_infinity(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(3), NAN, INFINITY, -INFINITY), y = tensor_clone(x);
    assert_elements(y, NAN, INFINITY, -INFINITY);
    tensor_scale(y, 0);
    assert_elements(y, NAN, NAN, NAN);
    tensor_fill(y, 0);
    assert_elements(y, 0, 0, 0);
    tensor_free(x);
    tensor_free(y);
}

static void shapes_that_differ_are_an_error_and_y_stays(void **state)
{
    (void)state;
    const shape others[] = { SHAPE(3, 2),    SHAPE(6),    SHAPE(1, 3), SHAPE(2, 1),
                             SHAPE(2, 3, 1), SHAPE(0, 3), { 0 } };
    for (int m = 0; m < FROM_X; m++)
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            tensor y = tensor_of(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), x = tensor_new(others[i]);
            movements[m].run(y, 1, x);
            expect_error("%s: [2, 3] from %s, the shapes differ", movements[m].name,
                         shape_text(others[i]).text);
            assert_elements(y, 1, 2, 3, 4, 5, 6);
            tensor_free(x);
            tensor_free(y);
        }
}

static void nothing_happens_to_empty_tensors(void **state)
{
    (void)state;
    tensor y = tensor_new(SHAPE(3, 0, 2)), x = tensor_new(SHAPE(3, 0, 2)), none = tensor_wrap(NULL, SHAPE(0));
    for (int m = 0; m < MOVEMENTS; m++) {
        movements[m].run(y, 1, x);
        movements[m].run(y, 1, y);
        movements[m].run(none, 1, none);
    }
    assert_null(error_text());
    tensor_free(x);
    tensor_free(y);
    tensor_free(none);
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* What rows were seen: the place of every element of every view, in the order of the visit. */
typedef struct visit {
    int views, rows;
    ptrdiff_t count;
    real *place[MOST_ELEMENTS][TENSOR_MAX_VIEWS];
} visit;

static void note_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    visit *v = context;
    v->rows++;
    for (ptrdiff_t i = 0; i < n; i++, v->count++)
        for (int k = 0; k < v->views && v->count < MOST_ELEMENTS; k++)
            v->place[v->count][k] = at[k] + i * stride[k];
}

/* Which index was visited at time t: the first view holds each of its places once. -1: none. */
static ptrdiff_t visited(const visit *v, tensor first, ptrdiff_t t)
{
    for (ptrdiff_t k = 0; k < tensor_count(first); k++)
        if (element(first, k) == v->place[t][0]) return k;
    return -1;
}

/* Oracle: all indices in row-major order, and the places that they name in each view. In any other order
 * each index still comes once, in all views together. */
static void a_walk_visits_every_index_once_in_all_views_together(void **state)
{
    (void)state;
    static visit v;
    dice d = { { 8 } };
    for (int i = 0; i < 3000; i++) {
        shape form = chance(&d, 90) ? roll_shape(&d, 0, 4, 1, 4) : roll_shape(&d, 5, 8, 1, 2);
        tensor whole = tensor_new(SHAPE(STORAGE)), views[TENSOR_MAX_VIEWS];
        tensor_order order = chance(&d, 50) ? TENSOR_ROW_MAJOR : TENSOR_ANY_ORDER;
        v = (visit){ .views = (int)roll(&d, 1, TENSOR_MAX_VIEWS) };
        views[0] = roll_view(&d, form, NULL);
        for (int k = 1; k < v.views; k++) {
            views[k] = chance(&d, 50) ? roll_strided(&d, whole, form) : views[0];
            if (tensor_is_null(views[k])) views[k] = views[0];
        }
        tensor_walk(v.views, views, order, note_row, &v);
        assert_int_equal(v.count, tensor_count(views[0]));
        bool seen[MOST_ELEMENTS] = { false };
        for (ptrdiff_t t = 0; t < v.count; t++) {
            ptrdiff_t k = visited(&v, views[0], t);
            assert_true(k >= 0 && !seen[k]);
            if (order == TENSOR_ROW_MAJOR) assert_int_equal(k, t);
            seen[k] = true;
            for (int view = 1; view < v.views; view++)
                assert_ptr_equal(v.place[t][view], element(views[view], k));
        }
        tensor_free(views[0]);
        tensor_free(whole);
    }
}

static int rows_of(tensor y, tensor x, tensor_order order)
{
    visit v = { .views = 2 };
    tensor_walk(2, (tensor[]){ y, x }, order, note_row, &v);
    return v.rows;
}

/* What makes it fast: as few rows as the strides allow. */
static void axes_that_follow_one_another_are_one_row(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(3, 4, 1, 5)), y = tensor_new(SHAPE(3, 4, 1, 5));
    tensor px = tensor_permute(x, AXES(3, 1, 2, 0)), py = tensor_permute(y, AXES(3, 1, 2, 0));
    assert_int_equal(rows_of(y, x, TENSOR_ANY_ORDER), 1);
    assert_int_equal(rows_of(y, x, TENSOR_ROW_MAJOR), 1);
    assert_int_equal(rows_of(py, px, TENSOR_ANY_ORDER), 1);
    assert_int_equal(rows_of(py, px, TENSOR_ROW_MAJOR), 5 * 4);
    assert_int_equal(rows_of(y, tensor_narrow(x, 3, 0, 5), TENSOR_ANY_ORDER), 1);
    assert_int_equal(rows_of(tensor_narrow(y, 3, 0, 2), tensor_narrow(x, 3, 1, 2), TENSOR_ANY_ORDER), 3 * 4);
    assert_int_equal(rows_of(tensor_select(y, 0, 0), tensor_select(x, 0, 1), TENSOR_ANY_ORDER), 1);
    tensor_free(x);
    tensor_free(y);
}

static void a_walk_refuses_what_it_cannot_walk(void **state)
{
    (void)state;
    visit v = { .views = 1 };
    tensor x = tensor_new(SHAPE(2, 3)), y = tensor_new(SHAPE(3, 2)), views[5] = { x, x, x, x, x };
    tensor_walk(0, views, TENSOR_ANY_ORDER, note_row, &v);
    expect_error("tensor_walk: 0 views, expected 1 to 4");
    tensor_walk(5, views, TENSOR_ANY_ORDER, note_row, &v);
    expect_error("tensor_walk: 5 views, expected 1 to 4");
    views[1] = y;
    tensor_walk(2, views, TENSOR_ANY_ORDER, note_row, &v);
    expect_error("tensor_walk: views of different shapes [2, 3] and [3, 2]");
    tensor empty = tensor_narrow(x, 0, 0, 0);
    tensor_walk(1, &empty, TENSOR_ANY_ORDER, note_row, &v);
    assert_int_equal(v.rows, 0);
    tensor_free(x);
    tensor_free(y);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* A reduction of x over some axes: which they are, and the shape and index of what is kept. */
typedef struct reduction {
    axes over;
    bool reduced[TENSOR_MAX_RANK];
    shape kept, inner;
} reduction;

static reduction roll_reduction(dice *d, shape x)
{
    reduction r = { 0 };
    for (int i = 0; i < x.rank; i++) r.reduced[i] = chance(d, 50);
    for (int i = 0; i < x.rank; i++) {
        if (r.reduced[i]) r.over.axis[r.over.count++] = chance(d, 30) ? i - x.rank : i;
        shape *part = r.reduced[i] ? &r.inner : &r.kept;
        part->n[part->rank++] = x.n[i];
    }
    for (int i = r.over.count - 1; i > 0; i--) { /* the order in which they are named is of no account */
        int at = (int)roll(d, 0, i), axis = r.over.axis[i];
        r.over.axis[i] = r.over.axis[at];
        r.over.axis[at] = axis;
    }
    if (r.over.count > 0) return r;
    r.inner = x; /* none named: all */
    r.kept = (shape){ 0 };
    for (int i = 0; i < x.rank; i++) r.reduced[i] = true;
    return r;
}

/* The index of x that is `outer` along the kept axes and `inner` along the others. */
static shape joined(const reduction *r, shape x, shape outer, shape inner)
{
    shape index = { .rank = x.rank };
    for (int i = 0, o = 0, n = 0; i < x.rank; i++) index.n[i] = r->reduced[i] ? inner.n[n++] : outer.n[o++];
    return index;
}

/* Group k's element j. */
static real grouped(const reduction *r, tensor x, ptrdiff_t k, ptrdiff_t j)
{
    return *tensor_at(x, joined(r, x.shape, index_of(r->kept, k), index_of(r->inner, j)));
}

static real naive_sum(const reduction *r, tensor x, ptrdiff_t k, ptrdiff_t n)
{
    real sum = 0;
    for (ptrdiff_t j = 0; j < n; j++) sum += grouped(r, x, k, j);
    return sum;
}

/* The first NaN, or else the first of the largest. */
static ptrdiff_t naive_argmax(const reduction *r, tensor x, ptrdiff_t k, ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < n; j++)
        if (isnan(grouped(r, x, k, j))) return j;
    ptrdiff_t best = 0;
    for (ptrdiff_t j = n - 1; j >= 0; j--)
        if (grouped(r, x, k, j) >= grouped(r, x, k, best)) best = j;
    return best;
}

static real roll_special(dice *d)
{
    const real special[] = { NAN, INFINITY, -INFINITY };
    return special[roll(d, 0, 2)];
}

/* Oracle: the elements of each group, one after another. The mean may round twice. */
static void sum_and_mean_are_of_each_group(void **state)
{
    (void)state;
    dice d = { { 9 } };
    for (int i = 0; i < 3000; i++) {
        tensor x = roll_source(&d, roll_shape(&d, 0, 4, 1, 4)), whole;
        reduction r = roll_reduction(&d, x.shape);
        tensor y = roll_view(&d, r.kept, &whole);
        roll_elements(&d, whole, -9, 9);
        tensor sums = tensor_clone(whole), means = tensor_clone(whole);
        ptrdiff_t n = shape_count(r.inner, "inner");
        for (ptrdiff_t k = 0; k < tensor_count(y); k++) {
            ptrdiff_t place = element(y, k) - tensor_data(whole);
            tensor_data(sums)[place] = naive_sum(&r, x, k, n);
            tensor_data(means)[place] = naive_sum(&r, x, k, n) / (real)n;
        }
        about("case %d, %s to %s", i, shape_text(x.shape).text, shape_text(y.shape).text);
        tensor_sum(y, x, r.over);
        assert_same(whole, sums);
        tensor_mean(y, x, r.over);
        assert_near(whole, means, 4 * (double)REAL_EPSILON);
        tensor_free(x);
        tensor_free(y);
        tensor_free(sums);
        tensor_free(means);
    }
}

static void max_and_argmax_are_of_each_group(void **state)
{
    (void)state;
    dice d = { { 10 } };
    int ties = 0, nans = 0;
    for (int i = 0; i < 3000; i++) {
        tensor x = roll_source(&d, roll_shape(&d, 0, 4, 1, 4)), whole;
        reduction r = roll_reduction(&d, x.shape);
        if (chance(&d, 50))
            for (ptrdiff_t k = roll(&d, 0, 9); k > 0; k--)
                *element(x, roll(&d, 0, tensor_count(x) - 1)) = roll_special(&d);
        if (chance(&d, 5)) tensor_fill(x, chance(&d, 50) ? -(real)INFINITY : (real)NAN);
        tensor y = roll_view(&d, r.kept, &whole);
        roll_elements(&d, whole, -9, 9);
        tensor expected = tensor_clone(whole);
        ptrdiff_t n = shape_count(r.inner, "inner"), where[MOST_ELEMENTS];
        tensor_argmax(where, x, r.over);
        about("case %d, %s to %s", i, shape_text(x.shape).text, shape_text(y.shape).text);
        for (ptrdiff_t k = 0; k < tensor_count(y); k++) {
            ptrdiff_t best = naive_argmax(&r, x, k, n);
            real greatest = grouped(&r, x, k, best);
            assert_int_equal(where[k], best);
            tensor_data(expected)[element(y, k) - tensor_data(whole)] = greatest;
            nans += isnan(greatest) && best > 0;
            for (ptrdiff_t j = best + 1; j < n; j++) ties += grouped(&r, x, k, j) == greatest;
        }
        tensor_max(y, x, r.over);
        assert_same(whole, expected);
        tensor_free(x);
        tensor_free(y);
        tensor_free(expected);
    }
    assert_true(ties > 1000 && nans > 100);
}

/* Within the reduced axes, so that an index says where: 5 is [1, 2] of [2, 3]. */
static void the_first_of_equal_maxima_is_found(void **state)
{
    (void)state;
    tensor x = tensor_of(SHAPE(2, 3, 2), 1, 7, 5, 7, 3, 0, 5, 1, 2, 7, 5, 0);
    ptrdiff_t where[3];
    tensor_argmax(where, x, AXES(0, 1));
    assert_int_equal(where[0], 1); /* 1 5 3 5 2 5 */
    assert_int_equal(where[1], 0); /* 7 7 0 1 7 0 */
    tensor_argmax(where, tensor_flip(x, 1), AXES(1, 0));
    assert_int_equal(where[0], 1); /* 3 5 1 5 2 5 */
    assert_int_equal(where[1], 1); /* 0 7 7 0 7 1 */
    tensor_free(x);
}

typedef void reducing(tensor y, tensor x, axes over);
static reducing *const reducers[] = { tensor_sum, tensor_mean, tensor_max };
static const char *const reducer_names[] = { "tensor_sum", "tensor_mean", "tensor_max" };

static void sums_over_nothing_are_zero_and_means_are_not_numbers(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(2, 0)), y = tensor_of(SHAPE(2), 8, 9);
    tensor_sum(y, x, AXES(1));
    assert_elements(y, 0, 0);
    tensor_mean(y, x, AXES(1));
    assert_elements(y, NAN, NAN);
    tensor none = tensor_new(SHAPE(0));
    for (int i = 0; i < 3; i++) reducers[i](none, x, AXES(0)); /* no group, no result */
    assert_null(error_text());
    tensor_free(x);
    tensor_free(y);
    tensor_free(none);
}

static void there_is_no_maximum_of_nothing(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(2, 0)), y = tensor_of(SHAPE(2), 8, 9);
    ptrdiff_t where[] = { 8, 9 };
    tensor_max(y, x, AXES(1));
    expect_error("tensor_max: no maximum of nothing, the tensor is [2, 0]");
    assert_elements(y, 8, 9);
    tensor_argmax(where, x, AXES(1));
    expect_error("tensor_argmax: no maximum of nothing, the tensor is [2, 0]");
    assert_true(where[0] == 8 && where[1] == 9);
    tensor_argmax(where, x, AXES(0)); /* no group, no result */
    tensor_argmax(where, tensor_narrow(x, 0, 0, 0), AXES(1));
    assert_null(error_text());
    tensor_free(x);
    tensor_free(y);
}

static void reductions_refuse_wrong_axes_and_results_and_y_stays(void **state)
{
    (void)state;
    tensor x = tensor_new(SHAPE(2, 3)), y = tensor_of(SHAPE(3), 7, 8, 9);
    ptrdiff_t where[] = { 7, 8, 9 };
    for (int i = 0; i < 4; i++) {
        const char *who = i < 3 ? reducer_names[i] : "tensor_argmax";
        const axes wrong[] = { AXES(2),       AXES(-3),        AXES(0, 0),    AXES(1, -1),
                               AXES(0, 1, 0), { .count = -1 }, { .count = 9 } };
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            if (i < 3) reducers[i](y, x, wrong[w]);
            else tensor_argmax(where, x, wrong[w]);
            expect_error("%s: ", who);
        }
        if (i == 3) break;
        reducers[i](y, x, AXES(1));
        expect_error("%s: the result of reducing [2, 3] is [2], not [3]", who);
        reducers[i](y, x, (axes){ 0 });
        expect_error("%s: the result of reducing [2, 3] is [], not [3]", who);
        reducers[i](tensor_expand(y, SHAPE(1, 3)), x, AXES(0));
        expect_error("%s: the result of reducing [2, 3] is [3], not [1, 3]", who);
    }
    assert_elements(y, 7, 8, 9);
    assert_true(where[0] == 7 && where[1] == 8 && where[2] == 9);
    tensor_free(x);
    tensor_free(y);
}

/* Oracle: the reduction of a copy of x. */
static void reductions_onto_a_part_of_x_read_x_first(void **state)
{
    (void)state;
    dice d = { { 11 } };
    for (int i = 0; i < 300; i++) {
        int which = i % 3;
        tensor x = roll_tensor(&d, SHAPE(roll(&d, 1, 4), 4), -9, 9), copy = tensor_clone(x);
        tensor row = tensor_select(x, 0, roll(&d, 0, x.shape.n[0] - 1)),
               y = tensor_step(row, 0, chance(&d, 50) ? 1 : -1);
        tensor expected = tensor_new(y.shape);
        reducers[which](expected, copy, AXES(0));
        reducers[which](y, x, AXES(0));
        about("%s of %s", reducer_names[which], shape_text(x.shape).text);
        assert_same(y, expected);
        tensor_free(x);
        tensor_free(copy);
        tensor_free(expected);
    }
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* Oracle: a loop. Coordinates repeat, y may overlap itself and x. */
static void scattering_adds_each_element_where_its_index_says(void **state)
{
    (void)state;
    dice d = { { 12 } };
    int shared = 0;
    for (int i = 0; i < 3000; i++) {
        tensor whole = roll_tensor(&d, SHAPE(60), -9, 9),
               y = roll_strided(&d, whole, roll_shape(&d, 0, 3, 1, 4));
        bool together = chance(&d, 50);
        tensor x = together ? roll_strided(&d, whole, roll_shape(&d, 0, 3, 0, 4)) : (tensor){ 0 };
        if (!tensor_is_null(x)) shared++;
        else x = roll_source(&d, roll_shape(&d, 0, 3, 0, 4));
        if (!tensor_is_null(y)) {
            ptrdiff_t index[64 * 3], *next = index;
            real read[64];
            tensor expected = tensor_clone(whole);
            for (ptrdiff_t e = 0; e < tensor_count(x); e++) read[e] = *element(x, e);
            for (ptrdiff_t e = 0; e < tensor_count(x); e++) {
                shape at = index_of(y.shape, roll(&d, 0, tensor_count(y) - 1));
                for (int axis = 0; axis < at.rank; axis++) *next++ = at.n[axis];
                tensor_data(expected)[tensor_at(y, at) - tensor_data(whole)] += read[e];
            }
            tensor_scatter_add(y, index, x);
            about("case %d: %s into %s", i, shape_text(x.shape).text, shape_text(y.shape).text);
            assert_same(whole, expected);
            tensor_free(expected);
        }
        if (!tensor_shares_storage(x, whole)) tensor_free(x);
        tensor_free(whole);
    }
    assert_true(shared > 500);
}

static void an_index_outside_adds_nothing_at_all(void **state)
{
    (void)state;
    tensor y = tensor_of(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), x = tensor_of(SHAPE(2), 10, 20);
    const ptrdiff_t outside[][2] = { { 2, 0 },  { 0, 3 },           { -1, 0 },
                                     { 0, -1 }, { PTRDIFF_MAX, 0 }, { 0, PTRDIFF_MIN } };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        const ptrdiff_t index[] = { 0, 0, outside[i][0], outside[i][1] };
        int axis = outside[i][0] != 0 && i != 1 ? 0 : 1;
        tensor_scatter_add(y, index, x);
        expect_error("tensor_scatter_add: element 1 goes to index %td of axis %d of [2, 3]", outside[i][axis],
                     axis);
        assert_elements(y, 1, 2, 3, 4, 5, 6);
    }
    tensor_free(x);
    tensor_free(y);
}

static void everything_scattered_into_one_number_is_the_sum(void **state)
{
    (void)state;
    tensor y = tensor_new((shape){ 0 }), x = tensor_of(SHAPE(2, 2), 1, 2, 3, 4), none = tensor_new(SHAPE(0));
    tensor_scatter_add(y, NULL, x); /* rank 0 has no coordinates */
    assert_elements(y, 10);
    tensor_scatter_add(x, NULL, none);
    assert_elements(x, 1, 2, 3, 4);
    tensor_free(x);
    tensor_free(y);
    tensor_free(none);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        CLAIM(what_moves_data_is_a_loop_over_all_indices),
        CLAIM(adding_into_windows_sums_what_overlaps),
        CLAIM(a_tensor_may_be_shifted_reversed_or_transposed_onto_itself),
        CLAIM(two_wraps_of_one_memory_overlap_as_views_do),
        CLAIM(copying_keeps_nan_and_infinity),
        CLAIM(shapes_that_differ_are_an_error_and_y_stays),
        CLAIM(nothing_happens_to_empty_tensors),
        CLAIM(a_walk_visits_every_index_once_in_all_views_together),
        CLAIM(axes_that_follow_one_another_are_one_row),
        CLAIM(a_walk_refuses_what_it_cannot_walk),
        CLAIM(sum_and_mean_are_of_each_group),
        CLAIM(max_and_argmax_are_of_each_group),
        CLAIM(the_first_of_equal_maxima_is_found),
        CLAIM(sums_over_nothing_are_zero_and_means_are_not_numbers),
        CLAIM(there_is_no_maximum_of_nothing),
        CLAIM(reductions_refuse_wrong_axes_and_results_and_y_stays),
        CLAIM(reductions_onto_a_part_of_x_read_x_first),
        CLAIM(scattering_adds_each_element_where_its_index_says),
        CLAIM(an_index_outside_adds_nothing_at_all),
        CLAIM(everything_scattered_into_one_number_is_the_sum),
    };
    return cmocka_run_group_tests(claims, NULL, NULL);
}
