/* test_walk.c: what moves data does what a naive loop over all indices does, whatever the strides. */
#include "tests/support.h"

#include <math.h>
#include <string.h>

enum { CASES = 9000, MOST_ELEMENTS = 400, STORAGE = 300 };

/* ---- elementwise: copy add fill scale multiply map -------------------------------------------- */

static st_real twice_plus(st_real x, void *context)
{
    return 2 * x + *(const st_real *)context;
}

#define RUN(name, call)                                                                                      \
    static void run_##name(st_tensor y, st_real alpha, st_tensor x)                                          \
    {                                                                                                        \
        call;                                                                                                \
    }
RUN(copy, st_copy(y, x))
RUN(multiply, st_mul(y, x))
RUN(map, st_map(y, twice_plus, &alpha, x))
RUN(fill, st_fill(y, alpha))
RUN(scale, st_scale(y, alpha))

/* An element of y becomes: */
#define BECOMES(name, value)                                                                                 \
    static st_real name(st_real y, st_real alpha, st_real x)                                                 \
    {                                                                                                        \
        return value;                                                                                        \
    }
BECOMES(copied, x)
BECOMES(added, y + alpha * x)
BECOMES(multiplied, y *x)
BECOMES(mapped, 2 * x + alpha)
BECOMES(filled, alpha)
BECOMES(scaled, y *alpha)

typedef struct movement {
    const char *name;
    void (*run)(st_tensor y, st_real alpha, st_tensor x);
    st_real (*becomes)(st_real y, st_real alpha, st_real x); /* an element of y */
    bool in_turn;                                            /* also of a y that overlaps itself */
} movement;

static const movement movements[] = {
    { "st_copy", run_copy, copied },
    { "st_add", st_add, added, .in_turn = true },
    { "st_mul", run_multiply, multiplied },
    { "st_map", run_map, mapped },
    { "st_fill", run_fill, filled, .in_turn = true },
    { "st_scale", run_scale, scaled },
};
enum { MOVEMENTS = sizeof movements / sizeof *movements, FROM_X = 4 }; /* the first four read x */

/* y and x of one shape, and the whole tensor that y is a view of. */
typedef struct scene {
    st_tensor whole, y, x;
} scene;

static bool repeats(st_tensor x)
{
    for (ptrdiff_t i = 0; i < st_numel(x); i++)
        for (ptrdiff_t j = 0; j < i; j++)
            if (element(x, i) == element(x, j)) return true;
    return false;
}

/* A tensor to read: views that overlap themselves included. */
static st_tensor roll_source(dice *d, st_shape s)
{
    st_tensor whole = st_tensor_new(ST_SHAPE(STORAGE)), x = roll_strided(d, whole, s);
    if (!st_is_null(x) && chance(d, 50)) {
        roll_elements(d, whole, -4, 4);
        return x;
    }
    st_tensor_free(whole);
    x = roll_view(d, s, NULL);
    roll_elements(d, x, -4, 4);
    return x;
}

/* x is y, or another view of y's storage, or lies elsewhere; null where the strides do not fit. */
static st_tensor roll_partner(dice *d, const scene *s)
{
    if (chance(d, 10)) return s->y;
    if (chance(d, 50)) return roll_strided(d, s->whole, s->y.shape);
    st_tensor x = roll_source(d, s->y.shape);
    roll_elements(d, x, -9, 9);
    return x;
}

static scene roll_scene(dice *d, bool may_repeat)
{
    scene s = { 0 };
    st_shape form = roll_shape(d, 0, 4, chance(d, 4) ? 0 : 1, 4);
    if (may_repeat && chance(d, 50)) {
        s.whole = st_tensor_new(ST_SHAPE(STORAGE / 3));
        s.y = roll_strided(d, s.whole, form);
    }
    if (st_is_null(s.y)) {
        st_tensor_free(s.whole);
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
    st_real read[MOST_ELEMENTS];
    ptrdiff_t count = st_numel(s->y);
    auto_tensor expected = st_tensor_clone(s->whole);
    st_real alpha = (st_real)roll(d, -2, 2), *first = st_data(s->whole);
    for (ptrdiff_t k = 0; k < count; k++) read[k] = *element(s->x, k);
    for (ptrdiff_t k = 0; k < count; k++) {
        st_real *place = st_data(expected) + (element(s->y, k) - first);
        *place = m->becomes(*place, alpha, read[k]);
    }
    m->run(s->y, alpha, s->x);
    assert_same(s->whole, expected);
}

TEST(what_moves_data_is_a_loop_over_all_indices)
{
    dice d = { { 7 } };
    int apart[MOVEMENTS] = { 0 }, overlapping[MOVEMENTS] = { 0 }, repeating[MOVEMENTS] = { 0 };
    for (int i = 0; i < CASES; i++) {
        int m = i % MOVEMENTS;
        scene s = roll_scene(&d, movements[m].in_turn);
        bool repeated = repeats(s.y), same = st_data(s.x) == st_data(s.y);
        about("%s, case %d, %s", movements[m].name, i, st_shape_text(s.y.shape).text);
        if (!st_is_null(s.x) && !(repeated && same)) {
            one_movement(&d, &movements[m], &s);
            repeating[m] += repeated;
            overlapping[m] += !same && st_overlaps(s.y, s.x);
            apart[m] += !st_overlaps(s.y, s.x);
        }
        if (!st_shares_storage(s.x, s.whole)) st_tensor_free(s.x);
        st_tensor_free(s.whole);
    }
    for (int m = 0; m < MOVEMENTS; m++) {
        assert_true(apart[m] > 100 && overlapping[m] > 100);
        assert_true(movements[m].in_turn ? repeating[m] > 100 : repeating[m] == 0);
    }
}

TEST(two_wraps_of_one_memory_overlap_as_views_do)
{
    st_real data[] = { 1, 2, 3, 4, 5 };
    auto_tensor y = st_tensor_wrap(data + 1, ST_SHAPE(4)), x = st_tensor_wrap(data, ST_SHAPE(4));
    st_add(y, 1, st_flip(x, 0));
    assert_elements(y, 2 + 4, 3 + 3, 4 + 2, 5 + 1);
}

TEST(views_that_begin_together_and_have_other_steps_are_not_the_same)
{
    auto_tensor all = tensor_of(ST_SHAPE(3), 1, 2, 3);
    st_copy(st_narrow(all, 0, 0, 2), st_step(all, 0, 2));
    assert_elements(all, 1, 3, 3);
}

TEST(copying_keeps_nan_and_infinity)
{
    auto_tensor x = tensor_of(ST_SHAPE(3), NAN, INFINITY, -INFINITY), y = st_tensor_clone(x);
    assert_elements(y, NAN, INFINITY, -INFINITY);
    st_scale(y, 0);
    assert_elements(y, NAN, NAN, NAN);
    st_fill(y, 0);
    assert_elements(y, 0, 0, 0);
}

TEST(shapes_that_differ_are_an_error_and_y_stays)
{
    const st_shape others[] = { ST_SHAPE(3, 2),    ST_SHAPE(6),    ST_SHAPE(1, 3), ST_SHAPE(2, 1),
                                ST_SHAPE(2, 3, 1), ST_SHAPE(0, 3), { 0 } };
    for (int m = 0; m < FROM_X; m++)
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            auto_tensor y = tensor_of(ST_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), x = st_tensor_new(others[i]);
            movements[m].run(y, 1, x);
            expect_error("%s: [2, 3] from %s, the shapes differ", movements[m].name,
                         st_shape_text(others[i]).text);
            assert_elements(y, 1, 2, 3, 4, 5, 6);
        }
}

TEST(nothing_happens_to_empty_tensors)
{
    auto_tensor y = st_tensor_new(ST_SHAPE(3, 0, 2)), x = st_tensor_new(ST_SHAPE(3, 0, 2)),
                none = st_tensor_wrap(NULL, ST_SHAPE(0));
    for (int m = 0; m < MOVEMENTS; m++) {
        movements[m].run(y, 1, x);
        movements[m].run(y, 1, y);
        movements[m].run(none, 1, none);
    }
    assert_null(st_error());
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The rows that were seen: the place of every element of every view, in the order of the visit. */
typedef struct visit {
    int views, rows;
    ptrdiff_t count;
    st_real *place[MOST_ELEMENTS][ST_MAX_VIEWS];
} visit;

static void note_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    visit *v = context;
    v->rows++;
    for (ptrdiff_t i = 0; i < n; i++, v->count++)
        for (int k = 0; k < v->views && v->count < MOST_ELEMENTS; k++)
            v->place[v->count][k] = at[k] + i * stride[k];
}

/* Which index was visited at time t: the first view holds each of its places once. -1: none. */
static ptrdiff_t visited(const visit *v, st_tensor first, ptrdiff_t t)
{
    for (ptrdiff_t k = 0; k < st_numel(first); k++)
        if (element(first, k) == v->place[t][0]) return k;
    return -1;
}

/* Oracle: all indices in row-major order, and the places that they name in each view. In any other order
 * each index still comes once, in all views together. */
TEST(a_walk_visits_every_index_once_in_all_views_together)
{
    static visit v;
    dice d = { { 8 } };
    for (int i = 0; i < 3000; i++) {
        st_shape form = chance(&d, 90) ? roll_shape(&d, 0, 4, 1, 4) : roll_shape(&d, 5, 8, 1, 2);
        auto_tensor whole = st_tensor_new(ST_SHAPE(STORAGE));
        st_tensor views[ST_MAX_VIEWS];
        st_order order = chance(&d, 50) ? ST_ROW_MAJOR : ST_ANY_ORDER;
        v = (visit){ .views = (int)roll(&d, 1, ST_MAX_VIEWS) };
        views[0] = roll_view(&d, form, NULL);
        for (int k = 1; k < v.views; k++) {
            views[k] = chance(&d, 50) ? roll_strided(&d, whole, form) : views[0];
            if (st_is_null(views[k])) views[k] = views[0];
        }
        st_walk(v.views, views, order, note_row, &v);
        assert_int_equal(v.count, st_numel(views[0]));
        bool seen[MOST_ELEMENTS] = { false };
        for (ptrdiff_t t = 0; t < v.count; t++) {
            ptrdiff_t k = visited(&v, views[0], t);
            assert_true(k >= 0 && !seen[k]);
            if (order == ST_ROW_MAJOR) assert_int_equal(k, t);
            seen[k] = true;
            for (int view = 1; view < v.views; view++)
                assert_ptr_equal(v.place[t][view], element(views[view], k));
        }
        st_tensor_free(views[0]);
    }
}

static int rows_of(st_tensor y, st_tensor x, st_order order)
{
    visit v = { .views = 2 };
    st_walk(2, (st_tensor[]){ y, x }, order, note_row, &v);
    return v.rows;
}

/* A walk has the fewest rows that the strides allow: that makes it fast. */
TEST(axes_that_follow_one_another_are_one_row)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 4, 1, 5)), y = st_tensor_new(ST_SHAPE(3, 4, 1, 5));
    st_tensor px = st_permute(x, ST_AXES(3, 1, 2, 0)), py = st_permute(y, ST_AXES(3, 1, 2, 0));
    assert_int_equal(rows_of(y, x, ST_ANY_ORDER), 1);
    assert_int_equal(rows_of(y, x, ST_ROW_MAJOR), 1);
    assert_int_equal(rows_of(py, px, ST_ANY_ORDER), 1);
    assert_int_equal(rows_of(py, px, ST_ROW_MAJOR), 5 * 4);
    assert_int_equal(rows_of(y, st_narrow(x, 3, 0, 5), ST_ANY_ORDER), 1);
    assert_int_equal(rows_of(st_narrow(y, 3, 0, 2), st_narrow(x, 3, 1, 2), ST_ANY_ORDER), 3 * 4);
    assert_int_equal(rows_of(st_select(y, 0, 0), st_select(x, 0, 1), ST_ANY_ORDER), 1);
}

/* Strides [1, 20] and [7, 1]: a step of the second axis is the longer one of the two views together. A view
 * that is not counted has no say. */
TEST(the_axis_of_the_longest_steps_of_all_views_is_outermost)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 7)), whole = st_tensor_new(ST_SHAPE(7, 20));
    st_tensor y = st_transpose(st_narrow(whole, 1, 0, 2), 0, 1);
    assert_int_equal(rows_of(y, x, ST_ANY_ORDER), 7);
    assert_int_equal(rows_of(x, y, ST_ANY_ORDER), 7);
    assert_int_equal(rows_of(y, x, ST_ROW_MAJOR), 2);
    visit v = { .views = 2 };
    st_walk(2, (st_tensor[]){ x, x, y }, ST_ANY_ORDER, note_row, &v);
    assert_int_equal(v.rows, 1);
}

TEST(a_walk_refuses_what_it_cannot_walk)
{
    visit v = { .views = 1 };
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3)), y = st_tensor_new(ST_SHAPE(3, 2));
    st_tensor views[5] = { x, x, x, x, x };
    st_walk(0, views, ST_ANY_ORDER, note_row, &v);
    expect_error("st_walk: 0 views, expected 1 to 4");
    st_walk(5, views, ST_ANY_ORDER, note_row, &v);
    expect_error("st_walk: 5 views, expected 1 to 4");
    st_walk(1, NULL, ST_ANY_ORDER, note_row, &v);
    expect_error("st_walk: the views are NULL");
    st_walk(1, views, ST_ANY_ORDER, NULL, &v);
    expect_error("st_walk: the function is NULL");
    views[1] = y;
    st_walk(2, views, ST_ANY_ORDER, note_row, &v);
    expect_error("st_walk: views of different shapes [2, 3] and [3, 2]");
    st_tensor empty = st_narrow(x, 0, 0, 0);
    st_walk(1, &empty, ST_ANY_ORDER, note_row, &v);
    assert_int_equal(v.rows, 0);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* A reduction of x over some axes: which they are, and the shape and index of what is kept. */
typedef struct reduction {
    st_axes over;
    bool reduced[ST_MAX_RANK];
    st_shape kept, inner;
} reduction;

static reduction roll_reduction(dice *d, st_shape x)
{
    reduction r = { 0 };
    for (int i = 0; i < x.rank; i++) r.reduced[i] = chance(d, 50);
    for (int i = 0; i < x.rank; i++) {
        if (r.reduced[i]) r.over.axis[r.over.count++] = chance(d, 30) ? i - x.rank : i;
        st_shape *part = r.reduced[i] ? &r.inner : &r.kept;
        part->n[part->rank++] = x.n[i];
    }
    for (int i = r.over.count - 1; i > 0; i--) { /* the order in which they are named is of no account */
        int at = (int)roll(d, 0, i), axis = r.over.axis[i];
        r.over.axis[i] = r.over.axis[at];
        r.over.axis[at] = axis;
    }
    if (r.over.count > 0) return r;
    r.inner = x; /* none named: all */
    r.kept = (st_shape){ 0 };
    for (int i = 0; i < x.rank; i++) r.reduced[i] = true;
    return r;
}

/* The index of x that is `outer` along the kept axes and `inner` along the others. */
static st_shape joined(const reduction *r, st_shape x, st_shape outer, st_shape inner)
{
    st_shape index = { .rank = x.rank };
    for (int i = 0, o = 0, n = 0; i < x.rank; i++) index.n[i] = r->reduced[i] ? inner.n[n++] : outer.n[o++];
    return index;
}

/* Group k's element j. */
static st_real grouped(const reduction *r, st_tensor x, ptrdiff_t k, ptrdiff_t j)
{
    return *st_at(x, joined(r, x.shape, index_of(r->kept, k), index_of(r->inner, j)));
}

static st_real naive_sum(const reduction *r, st_tensor x, ptrdiff_t k, ptrdiff_t n)
{
    st_real sum = 0;
    for (ptrdiff_t j = 0; j < n; j++) sum += grouped(r, x, k, j);
    return sum;
}

/* The first NaN, or else the first of the largest. */
static ptrdiff_t naive_argmax(const reduction *r, st_tensor x, ptrdiff_t k, ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < n; j++)
        if (isnan(grouped(r, x, k, j))) return j;
    ptrdiff_t best = 0;
    for (ptrdiff_t j = n - 1; j >= 0; j--)
        if (grouped(r, x, k, j) >= grouped(r, x, k, best)) best = j;
    return best;
}

static st_real roll_special(dice *d)
{
    const st_real special[] = { NAN, INFINITY, -INFINITY };
    return special[roll(d, 0, 2)];
}

/* Oracle: the elements of each group, one after another. The mean may round twice. */
TEST(sum_and_mean_are_of_each_group)
{
    dice d = { { 9 } };
    for (int i = 0; i < 3000; i++) {
        auto_tensor x = roll_source(&d, roll_shape(&d, 0, 4, 1, 4));
        st_tensor whole;
        reduction r = roll_reduction(&d, x.shape);
        auto_tensor y = roll_view(&d, r.kept, &whole);
        roll_elements(&d, whole, -9, 9);
        auto_tensor sums = st_tensor_clone(whole), means = st_tensor_clone(whole);
        ptrdiff_t n = st_shape_numel(r.inner, "inner");
        for (ptrdiff_t k = 0; k < st_numel(y); k++) {
            ptrdiff_t place = element(y, k) - st_data(whole);
            st_data(sums)[place] = naive_sum(&r, x, k, n);
            st_data(means)[place] = naive_sum(&r, x, k, n) / (st_real)n;
        }
        about("case %d, %s to %s", i, st_shape_text(x.shape).text, st_shape_text(y.shape).text);
        st_sum(y, x, r.over);
        assert_same(whole, sums);
        st_mean(y, x, r.over);
        assert_near(whole, means, 4 * (double)ST_REAL_EPSILON);
    }
}

TEST(max_and_argmax_are_of_each_group)
{
    dice d = { { 10 } };
    int ties = 0, nans = 0;
    for (int i = 0; i < 3000; i++) {
        auto_tensor x = roll_source(&d, roll_shape(&d, 0, 4, 1, 4));
        st_tensor whole;
        reduction r = roll_reduction(&d, x.shape);
        if (chance(&d, 50))
            for (ptrdiff_t k = roll(&d, 0, 9); k > 0; k--)
                *element(x, roll(&d, 0, st_numel(x) - 1)) = roll_special(&d);
        if (chance(&d, 5)) st_fill(x, chance(&d, 50) ? -(st_real)INFINITY : (st_real)NAN);
        auto_tensor y = roll_view(&d, r.kept, &whole);
        roll_elements(&d, whole, -9, 9);
        auto_tensor expected = st_tensor_clone(whole);
        ptrdiff_t n = st_shape_numel(r.inner, "inner"), where[MOST_ELEMENTS];
        st_argmax(where, x, r.over);
        about("case %d, %s to %s", i, st_shape_text(x.shape).text, st_shape_text(y.shape).text);
        for (ptrdiff_t k = 0; k < st_numel(y); k++) {
            ptrdiff_t best = naive_argmax(&r, x, k, n);
            st_real greatest = grouped(&r, x, k, best);
            assert_int_equal(where[k], best);
            st_data(expected)[element(y, k) - st_data(whole)] = greatest;
            nans += isnan(greatest) && best > 0;
            for (ptrdiff_t j = best + 1; j < n; j++) ties += grouped(&r, x, k, j) == greatest;
        }
        st_max(y, x, r.over);
        assert_same(whole, expected);
    }
    assert_true(ties > 1000 && nans > 100);
}

typedef void reducing(st_tensor y, st_tensor x, st_axes over);
static reducing *const reducers[] = { st_sum, st_mean, st_max };
static const char *const reducer_names[] = { "st_sum", "st_mean", "st_max" };

TEST(sums_over_nothing_are_zero_and_means_are_not_numbers)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 0)), y = tensor_of(ST_SHAPE(2), 8, 9);
    st_sum(y, x, ST_AXES(1));
    assert_elements(y, 0, 0);
    st_mean(y, x, ST_AXES(1));
    assert_elements(y, NAN, NAN);
    auto_tensor none = st_tensor_new(ST_SHAPE(0));
    for (int i = 0; i < 3; i++) reducers[i](none, x, ST_AXES(0)); /* no group, no result */
    assert_null(st_error());
}

/* Rows of 16 elements or more are searched by vectors. */
TEST(the_maximum_and_nan_of_a_long_row_are_found_at_each_place)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(43)), y = st_tensor_new(ST_SHAPE());
    for (ptrdiff_t n = 1; n <= st_numel(x); n++)
        for (ptrdiff_t k = 0; k < n; k++) {
            const st_tensor row = st_narrow(x, 0, 0, n);
            st_fill(x, -(st_real)INFINITY);
            st_data(x)[k] = -7;
            st_max(y, row, ST_AXES(0));
            assert_true(st_item(y) == -7);
            st_data(x)[n - 1 - k] = (st_real)NAN;
            st_max(y, row, ST_AXES(0));
            assert_true(isnan(st_item(y)));
        }
}

TEST(there_is_no_maximum_of_nothing)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 0)), y = tensor_of(ST_SHAPE(2), 8, 9);
    ptrdiff_t where[] = { 8, 9 };
    st_max(y, x, ST_AXES(1));
    expect_error("st_max: no maximum of nothing, the tensor is [2, 0]");
    assert_elements(y, 8, 9);
    st_argmax(where, x, ST_AXES(1));
    expect_error("st_argmax: no maximum of nothing, the tensor is [2, 0]");
    assert_true(where[0] == 8 && where[1] == 9);
    st_argmax(where, x, ST_AXES(0)); /* no group, no result */
    st_argmax(where, st_narrow(x, 0, 0, 0), ST_AXES(1));
    assert_null(st_error());
    st_argmax(where, st_transpose(st_split_axis(x, 1, PTRDIFF_MAX), 1, 2), (st_axes){ 0 });
    expect_error("st_argmax: no maximum of nothing, the tensor is [2, %td, 0]", PTRDIFF_MAX);
}

TEST(reductions_refuse_wrong_axes_and_results_and_y_stays)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3)), y = tensor_of(ST_SHAPE(3), 7, 8, 9);
    ptrdiff_t where[] = { 7, 8, 9 };
    for (int i = 0; i < 4; i++) {
        const char *who = i < 3 ? reducer_names[i] : "st_argmax";
        const st_axes wrong[] = { ST_AXES(2),       ST_AXES(-3),     ST_AXES(0, 0), ST_AXES(1, -1),
                                  ST_AXES(0, 1, 0), { .count = -1 }, { .count = 9 } };
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            if (i < 3) reducers[i](y, x, wrong[w]);
            else st_argmax(where, x, wrong[w]);
            expect_error("%s: ", who);
        }
        if (i == 3) break;
        reducers[i](y, x, ST_AXES(1));
        expect_error("%s: the result of reducing [2, 3] is [2], not [3]", who);
        reducers[i](y, x, (st_axes){ 0 });
        expect_error("%s: the result of reducing [2, 3] is [], not [3]", who);
        reducers[i](st_expand(y, ST_SHAPE(1, 3)), x, ST_AXES(0));
        expect_error("%s: the result of reducing [2, 3] is [3], not [1, 3]", who);
    }
    assert_elements(y, 7, 8, 9);
    assert_true(where[0] == 7 && where[1] == 8 && where[2] == 9);
}

/* Oracle: the reduction of a copy of x. */
TEST(reductions_onto_a_part_of_x_read_x_first)
{
    dice d = { { 11 } };
    for (int i = 0; i < 300; i++) {
        int which = i % 3;
        auto_tensor x = roll_tensor(&d, ST_SHAPE(roll(&d, 1, 4), 4), -9, 9), copy = st_tensor_clone(x);
        st_tensor row = st_select(x, 0, roll(&d, 0, x.shape.n[0] - 1)),
                  y = st_step(row, 0, chance(&d, 50) ? 1 : -1);
        auto_tensor expected = st_tensor_new(y.shape);
        reducers[which](expected, copy, ST_AXES(0));
        reducers[which](y, x, ST_AXES(0));
        about("%s of %s", reducer_names[which], st_shape_text(x.shape).text);
        assert_same(y, expected);
    }
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* Oracle: a loop. Coordinates repeat, y may overlap itself and x. */
TEST(scattering_adds_each_element_where_its_index_says)
{
    dice d = { { 12 } };
    int shared = 0;
    for (int i = 0; i < 3000; i++) {
        auto_tensor whole = roll_tensor(&d, ST_SHAPE(60), -9, 9);
        st_tensor y = roll_strided(&d, whole, roll_shape(&d, 0, 3, 1, 4));
        bool together = chance(&d, 50);
        st_tensor x = together ? roll_strided(&d, whole, roll_shape(&d, 0, 3, 0, 4)) : (st_tensor){ 0 };
        if (!st_is_null(x)) shared++;
        else x = roll_source(&d, roll_shape(&d, 0, 3, 0, 4));
        if (!st_is_null(y)) {
            ptrdiff_t index[64 * 3], *next = index;
            st_real read[64];
            auto_tensor expected = st_tensor_clone(whole);
            for (ptrdiff_t e = 0; e < st_numel(x); e++) read[e] = *element(x, e);
            for (ptrdiff_t e = 0; e < st_numel(x); e++) {
                st_shape at = index_of(y.shape, roll(&d, 0, st_numel(y) - 1));
                for (int axis = 0; axis < at.rank; axis++) *next++ = at.n[axis];
                st_data(expected)[st_at(y, at) - st_data(whole)] += read[e];
            }
            st_scatter_add(y, index, x);
            about("case %d: %s into %s", i, st_shape_text(x.shape).text, st_shape_text(y.shape).text);
            assert_same(whole, expected);
        }
        if (!st_shares_storage(x, whole)) st_tensor_free(x);
    }
    assert_true(shared > 500);
}

TEST(an_index_outside_adds_nothing_at_all)
{
    auto_tensor y = tensor_of(ST_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), x = tensor_of(ST_SHAPE(2), 10, 20);
    const ptrdiff_t outside[][2] = { { 2, 0 },  { 0, 3 },           { -1, 0 },
                                     { 0, -1 }, { PTRDIFF_MAX, 0 }, { 0, PTRDIFF_MIN } };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        const ptrdiff_t index[] = { 0, 0, outside[i][0], outside[i][1] };
        int axis = outside[i][0] != 0 && i != 1 ? 0 : 1;
        st_scatter_add(y, index, x);
        expect_error("st_scatter_add: element 1 goes to index %td of axis %d of [2, 3]", outside[i][axis],
                     axis);
        assert_elements(y, 1, 2, 3, 4, 5, 6);
    }
    st_scatter_add(y, NULL, st_narrow(x, 0, 0, 0)); /* no element needs an index */
    assert_null(st_error());
    st_scatter_add(y, NULL, x), expect_error("st_scatter_add: the index is NULL");
    st_scatter_add(st_select(y, 0, 0), NULL, x), expect_error("st_scatter_add: the index is NULL");
}
