/* test_view.c: a view is a map from its indices to elements of what it views, and holds nothing else.
 *
 * The model of a view is the list of its elements' places in row-major order. Each operation is stated
 * once as NumPy would define it: the shape of the result, and the element of x that an index of the
 * result names. Random chains of operations are then compared with their models place by place. A view
 * must be refused exactly where the definition does not apply or where no strides lead to its places. */
#include "tests/support.h"

#include <limits.h>
#include <string.h>

enum { CHAINS = 20000, LONGEST = 6, MOST_ELEMENTS = 1500 };

/* ---- definitions ----------------------------------------------------------------------------- */

typedef struct operation {
    int axis, other;
    ptrdiff_t a, b, c; /* select: index; narrow: start, length; window: size, step, dilation … */
    st_shape to;       /* expand, reshape */
    st_axes order;     /* permute */
} operation;

typedef struct kind {
    const char *name;
    void (*roll)(dice *d, st_shape x, operation *o); /* may well ask for what cannot be */
    bool (*becomes)(const operation *o, st_shape x,
                    st_shape *y); /* the result's shape; false: there is none */
    st_shape (*origin)(const operation *o, st_shape x, st_shape index); /* y[index] is x[origin(index)] */
    st_tensor (*view)(const operation *o, st_tensor x);
} kind;

/* The axis from the front, or -1. */
static int settled(int axis, st_shape x)
{
    int front = axis < 0 ? axis + x.rank : axis;
    return front >= 0 && front < x.rank ? front : -1;
}

static ptrdiff_t from_front(ptrdiff_t index, ptrdiff_t n)
{
    return index < 0 ? index + n : index;
}

static st_shape without(st_shape s, int axis)
{
    for (int i = axis; i + 1 < s.rank; i++) s.n[i] = s.n[i + 1];
    s.rank--;
    return s;
}

static st_shape with(st_shape s, int axis, ptrdiff_t n)
{
    for (int i = s.rank; i > axis; i--) s.n[i] = s.n[i - 1];
    s.n[axis] = n;
    s.rank++;
    return s;
}

static int roll_axis(dice *d, st_shape x)
{
    if (chance(d, 4)) return (int)(chance(d, 50) ? x.rank : -x.rank - 1);
    return x.rank > 0 ? (int)roll(d, -x.rank, x.rank - 1) : 0;
}

static ptrdiff_t size_at(int axis, st_shape x)
{
    return settled(axis, x) < 0 ? 1 : x.n[settled(axis, x)];
}

/* select: y[.., ..] = x[.., index, ..] */

static void select_roll(dice *d, st_shape x, operation *o)
{
    ptrdiff_t n = size_at(o->axis = roll_axis(d, x), x);
    o->a = chance(d, 10) || n == 0 ? roll(d, -n - 2, n + 1) : roll(d, -n, n - 1);
}

static bool select_becomes(const operation *o, st_shape x, st_shape *y)
{
    int axis = settled(o->axis, x);
    if (axis < 0 || o->a < -x.n[axis] || o->a >= x.n[axis]) return false;
    *y = without(x, axis);
    return true;
}

static st_shape select_origin(const operation *o, st_shape x, st_shape index)
{
    int axis = settled(o->axis, x);
    return with(index, axis, from_front(o->a, x.n[axis]));
}

/* narrow: y[.., i, ..] = x[.., start + i, ..] */

static void narrow_roll(dice *d, st_shape x, operation *o)
{
    ptrdiff_t n = size_at(o->axis = roll_axis(d, x), x);
    o->a = chance(d, 8) ? roll(d, -n - 2, n + 2) : roll(d, 0, n);
    o->b = chance(d, 8) ? roll(d, -1, n + 2) : roll(d, 0, n - (o->a >= 0 && o->a <= n ? o->a : 0));
    if (chance(d, 30)) o->a -= n; /* the same place from the end; where the start was n, the front */
}

static bool narrow_becomes(const operation *o, st_shape x, st_shape *y)
{
    int axis = settled(o->axis, x);
    if (axis < 0) return false;
    ptrdiff_t start = from_front(o->a, x.n[axis]);
    if (start < 0 || o->b < 0 || start + o->b > x.n[axis]) return false;
    *y = x;
    y->n[axis] = o->b;
    return true;
}

static st_shape narrow_origin(const operation *o, st_shape x, st_shape index)
{
    int axis = settled(o->axis, x);
    index.n[axis] += from_front(o->a, x.n[axis]);
    return index;
}

/* step: y[.., i, ..] = x[.., step i, ..], or x[.., n - 1 + step i, ..] where step is negative */

static void step_roll(dice *d, st_shape x, operation *o)
{
    o->axis = roll_axis(d, x);
    o->a = chance(d, 90) ? roll(d, 1, 3) * (chance(d, 50) ? 1 : -1) : roll(d, -9, 9);
}

static bool step_becomes(const operation *o, st_shape x, st_shape *y)
{
    int axis = settled(o->axis, x);
    if (axis < 0 || o->a == 0) return false;
    *y = x;
    y->n[axis] = 0;
    for (ptrdiff_t i = 0; i < x.n[axis]; i += o->a < 0 ? -o->a : o->a) y->n[axis]++;
    return true;
}

static st_shape step_origin(const operation *o, st_shape x, st_shape index)
{
    int axis = settled(o->axis, x);
    index.n[axis] = (o->a < 0 ? x.n[axis] - 1 : 0) + index.n[axis] * o->a;
    return index;
}

/* flip: y[.., i, ..] = x[.., n - 1 - i, ..] */

static void flip_roll(dice *d, st_shape x, operation *o)
{
    o->axis = roll_axis(d, x);
    o->a = -1;
}

/* permute: y[i_order[0], i_order[1], ..] = x[i_0, i_1, ..] */

static void permute_roll(dice *d, st_shape x, operation *o)
{
    o->order = (st_axes){ .count = x.rank };
    for (int i = 0; i < x.rank; i++) {
        int at = (int)roll(d, 0, i);
        o->order.axis[i] = o->order.axis[at];
        o->order.axis[at] = i;
    }
    for (int i = 0; i < x.rank; i++)
        if (chance(d, 30)) o->order.axis[i] -= x.rank;
    if (x.rank > 0 && chance(d, 10)) o->order.axis[roll(d, 0, x.rank - 1)] = roll_axis(d, x);
    if (chance(d, 5)) o->order.count += chance(d, 50) && x.rank < ST_MAX_RANK ? 1 : -1;
}

static bool permute_becomes(const operation *o, st_shape x, st_shape *y)
{
    int times_named[ST_MAX_RANK] = { 0 };
    if (o->order.count != x.rank) return false;
    *y = x;
    for (int i = 0; i < x.rank; i++) {
        int axis = settled(o->order.axis[i], x);
        if (axis < 0 || times_named[axis]++) return false;
        y->n[i] = x.n[axis];
    }
    return true;
}

static st_shape permute_origin(const operation *o, st_shape x, st_shape index)
{
    st_shape origin = x;
    for (int i = 0; i < x.rank; i++) origin.n[settled(o->order.axis[i], x)] = index.n[i];
    return origin;
}

/* transpose: y[.., j, .., i, ..] = x[.., i, .., j, ..] */

static void transpose_roll(dice *d, st_shape x, operation *o)
{
    o->axis = roll_axis(d, x);
    o->other = roll_axis(d, x);
}

static st_shape swapped(st_shape s, int i, int j)
{
    st_shape t = s;
    t.n[i] = s.n[j];
    t.n[j] = s.n[i];
    return t;
}

static bool transpose_becomes(const operation *o, st_shape x, st_shape *y)
{
    int i = settled(o->axis, x), j = settled(o->other, x);
    if (i < 0 || j < 0) return false;
    *y = swapped(x, i, j);
    return true;
}

static st_shape transpose_origin(const operation *o, st_shape x, st_shape index)
{
    return swapped(index, settled(o->axis, x), settled(o->other, x));
}

/* expand: axes are matched from the last; y[.., i, ..] = x[.., 0, ..] where x has one element */

static void expand_roll(dice *d, st_shape x, operation *o)
{
    o->to = x;
    for (int i = 0; i < x.rank; i++)
        if (x.n[i] == 1 || chance(d, 3)) o->to.n[i] = roll(d, chance(d, 5) ? -1 : 0, 3);
    while (o->to.rank < ST_MAX_RANK && chance(d, 30)) o->to = with(o->to, 0, roll(d, 0, 3));
    if (o->to.rank > 0 && chance(d, 3)) o->to = without(o->to, 0);
}

static bool expand_becomes(const operation *o, st_shape x, st_shape *y)
{
    *y = o->to;
    int lead = o->to.rank - x.rank;
    for (int i = 0; i < o->to.rank; i++)
        if (o->to.n[i] < 0) return false;
    for (int i = 0; i < x.rank; i++)
        if (lead < 0 || (x.n[i] != 1 && x.n[i] != o->to.n[lead + i])) return false;
    return true;
}

static st_shape expand_origin(const operation *o, st_shape x, st_shape index)
{
    st_shape origin = x;
    for (int i = 0; i < x.rank; i++) origin.n[i] = x.n[i] == 1 ? 0 : index.n[o->to.rank - x.rank + i];
    return origin;
}

/* window: y[.., w, .., k] = x[.., w step + k dilation, ..] */

static void window_roll(dice *d, st_shape x, operation *o)
{
    ptrdiff_t n = size_at(o->axis = roll_axis(d, x), x);
    ptrdiff_t least = chance(d, 3) ? 0 : 1;
    o->b = roll(d, least, 3);
    o->c = roll(d, least, 3);
    o->a = chance(d, 90) && n > 0 ? 1 + roll(d, 0, n - 1) / (o->c > 0 ? o->c : 1) : roll(d, -1, n + 1);
}

static bool window_becomes(const operation *o, st_shape x, st_shape *y)
{
    int axis = settled(o->axis, x);
    if (axis < 0 || o->a < 1 || o->b < 1 || o->c < 1 || x.rank == ST_MAX_RANK) return false;
    *y = with(x, x.rank, o->a);
    y->n[axis] = 0;
    for (ptrdiff_t w = 0; w * o->b + (o->a - 1) * o->c < x.n[axis]; w++) y->n[axis]++;
    return y->n[axis] > 0;
}

static st_shape window_origin(const operation *o, st_shape x, st_shape index)
{
    int axis = settled(o->axis, x);
    ptrdiff_t k = index.n[x.rank];
    index.n[axis] = index.n[axis] * o->b + k * o->c;
    return without(index, x.rank);
}

/* split: y[.., i, j, ..] = x[.., i inner + j, ..] */

static void split_roll(dice *d, st_shape x, operation *o)
{
    ptrdiff_t n = size_at(o->axis = roll_axis(d, x), x);
    o->a = chance(d, 10) ? roll(d, -1, n + 2) : roll(d, 1, n > 1 ? n : 1);
    while (chance(d, 90) && o->a > 1 && n % o->a) o->a--;
}

static bool split_becomes(const operation *o, st_shape x, st_shape *y)
{
    int axis = settled(o->axis, x);
    if (axis < 0 || o->a < 1 || x.n[axis] / o->a * o->a != x.n[axis] || x.rank == ST_MAX_RANK) return false;
    *y = with(x, axis + 1, o->a);
    y->n[axis] = x.n[axis] / o->a;
    return true;
}

static st_shape split_origin(const operation *o, st_shape x, st_shape index)
{
    int axis = settled(o->axis, x);
    index.n[axis] = index.n[axis] * o->a + index.n[axis + 1];
    return without(index, axis + 1);
}

/* reshape: the elements keep their row-major order */

static ptrdiff_t product(st_shape s)
{
    ptrdiff_t count = 1;
    for (int i = 0; i < s.rank; i++) count *= s.n[i];
    return count;
}

static void reshape_roll(dice *d, st_shape x, operation *o)
{
    ptrdiff_t rest = product(x);
    o->to = (st_shape){ 0 };
    while (o->to.rank < 5 && (rest > 1 || chance(d, 30))) { /* a divisor of the rest, or a size of 1 */
        ptrdiff_t n = roll(d, 1, rest > 1 ? rest : 1);
        while (rest % n) n--;
        if (rest == 0) n = roll(d, 0, 3);
        o->to = with(o->to, (int)roll(d, 0, o->to.rank), n);
        rest = n > 0 ? rest / n : 1;
    }
    if (rest != 1 && chance(d, 95)) o->to = with(o->to, (int)roll(d, 0, o->to.rank), rest);
    if (o->to.rank > 0 && chance(d, 3)) o->to.n[roll(d, 0, o->to.rank - 1)] = roll(d, -1, 5);
}

static bool reshape_becomes(const operation *o, st_shape x, st_shape *y)
{
    *y = o->to;
    for (int i = 0; i < o->to.rank; i++)
        if (o->to.n[i] < 0) return false;
    return product(o->to) == product(x);
}

static st_shape reshape_origin(const operation *o, st_shape x, st_shape index)
{
    return index_of(x, number_of(o->to, index));
}

/* The view itself. */
#define VIEW(name, call)                                                                                     \
    static st_tensor name##_view(const operation *o, st_tensor x)                                            \
    {                                                                                                        \
        return call;                                                                                         \
    }
VIEW(select, st_select(x, o->axis, o->a))
VIEW(narrow, st_narrow(x, o->axis, o->a, o->b))
VIEW(step, st_step(x, o->axis, o->a))
VIEW(flip, st_flip(x, o->axis))
VIEW(permute, st_permute(x, o->order))
VIEW(transpose, st_transpose(x, o->axis, o->other))
VIEW(expand, st_expand(x, o->to))
VIEW(window, st_unfold(x, o->axis, o->a, o->b, o->c))
VIEW(split, st_split_axis(x, o->axis, o->a))
VIEW(reshape, st_reshape(x, o->to))

#define KIND(calls, name, becomes)                                                                           \
    {                                                                                                        \
        calls, name##_roll, becomes##_becomes, becomes##_origin, name##_view                                 \
    }
static const kind kinds[] = {
    KIND("st_select", select, select),    KIND("st_narrow", narrow, narrow),
    KIND("st_step", step, step),          KIND("st_flip", flip, step),
    KIND("st_permute", permute, permute), KIND("st_transpose", transpose, transpose),
    KIND("st_expand", expand, expand),    KIND("st_unfold", window, window),
    KIND("st_split_axis", split, split),  KIND("st_reshape", reshape, reshape),
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct model {
    st_shape shape;
    ptrdiff_t place[MOST_ELEMENTS]; /* of element k in row-major order, from the storage's first */
} model;

/* The model of a view that a chain begins with. */
static void observe(model *m, st_tensor x, const st_real *first)
{
    m->shape = x.shape;
    for (ptrdiff_t k = 0; k < st_numel(x); k++) m->place[k] = element(x, k) - first;
}

static void apply(model *y, const model *x, const kind *what, const operation *o)
{
    for (ptrdiff_t k = 0; k < product(y->shape); k++)
        y->place[k] = x->place[number_of(x->shape, what->origin(o, x->shape, index_of(y->shape, k)))];
}

/* True where places are a first one and a stride per axis. The strides, if there are any, are given by two
 * neighbours tell; then all the others must agree. */
static bool has_strides(const model *m)
{
    ptrdiff_t stride[ST_MAX_RANK] = { 0 };
    if (product(m->shape) == 0) return true;
    for (int i = 0; i < m->shape.rank; i++) {
        st_shape next = { .rank = m->shape.rank };
        next.n[i] = 1;
        if (m->shape.n[i] > 1) stride[i] = m->place[number_of(m->shape, next)] - m->place[0];
    }
    for (ptrdiff_t k = 0; k < product(m->shape); k++) {
        st_shape index = index_of(m->shape, k);
        ptrdiff_t place = m->place[0];
        for (int i = 0; i < m->shape.rank; i++) place += index.n[i] * stride[i];
        if (place != m->place[k]) return false;
    }
    return true;
}

static void assert_is(st_tensor y, const model *m, const st_real *first, ptrdiff_t size)
{
    if (st_is_null(y)) fail_msg("refused: %s", st_error());
    assert_null(st_error());
    assert_string_equal(st_shape_text(y.shape).text, st_shape_text(m->shape).text);
    assert_in_range(st_data(y) - first, 0, size); /* also where it has no elements */
    for (ptrdiff_t k = 0; k < product(m->shape); k++)
        if (element(y, k) - first != m->place[k])
            fail_msg("element %s of %s is at %td, expected %td", st_shape_text(index_of(y.shape, k)).text,
                     st_shape_text(y.shape).text, element(y, k) - first, m->place[k]);
}

/* Says who refuses, and of what shape, unless the request is impossible in itself. */
static void assert_refused(st_tensor y, const char *who, st_shape x)
{
    if (!st_is_null(y)) fail_msg("%s of %s should be refused", who, st_shape_text(x).text);
    bool says_what = strstr(st_error(), st_shape_text(x).text) || strstr(st_error(), "is named twice") ||
                     strstr(st_error(), "negative size in shape");
    if (!says_what) fail_msg("%s of %s does not say so: %s", who, st_shape_text(x).text, st_error());
    expect_error("%s: ", who);
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* The outcomes of each kind of operation, over all chains. */
typedef struct tally {
    int made[KINDS], impossible[KINDS], without_strides[KINDS];
} tally;

/* A tensor of few elements, and what a chain begins with: all of it, or any strided view of it. */
static st_tensor begin(dice *d, st_tensor *x)
{
    st_shape s = roll_shape(d, 0, 4, chance(d, 5) ? 0 : 1, 4);
    st_tensor whole = st_tensor_new(chance(d, 60) ? s : ST_SHAPE(roll(d, 0, 90)));
    *x = roll_strided(d, whole, s);
    if (st_is_null(*x) || chance(d, 50)) *x = whole;
    return whole;
}

/* Oracle: the definitions above. */
static void one_chain(dice *d, tally *t)
{
    static model models[2];
    model *m = &models[0], *next = &models[1];
    st_tensor x;
    auto_tensor whole = begin(d, &x);
    const st_real *first = st_data(whole);
    observe(m, x, first);
    for (int length = (int)roll(d, 1, LONGEST); length > 0; length--) {
        int k = (int)roll(d, 0, KINDS - 1);
        operation o = { 0 };
        kinds[k].roll(d, m->shape, &o);
        bool possible = kinds[k].becomes(&o, m->shape, &next->shape);
        if (possible && product(next->shape) > MOST_ELEMENTS) continue;
        if (possible) apply(next, m, &kinds[k], &o);
        st_tensor y = kinds[k].view(&o, x);
        if (!possible || !has_strides(next)) {
            assert_refused(y, kinds[k].name, m->shape);
            possible ? t->without_strides[k]++ : t->impossible[k]++;
            continue;
        }
        assert_is(y, next, first, st_numel(whole));
        t->made[k]++;
        model *spare = m;
        m = next;
        next = spare;
        x = y;
    }
}

TEST(chains_of_views_lead_where_their_definitions_say)
{
    dice d = { { 5 } };
    tally t = { 0 };
    for (int chain = 0; chain < CHAINS; chain++) one_chain(&d, &t);
    for (int k = 0; k < KINDS; k++) {
        assert_in_range(t.made[k], CHAINS / 20, CHAINS * LONGEST);
        assert_in_range(t.impossible[k], CHAINS / 200, CHAINS);
        if (strcmp(kinds[k].name, "st_reshape") == 0)
            assert_in_range(t.without_strides[k], CHAINS / 100, CHAINS);
        else assert_int_equal(t.without_strides[k], 0);
    }
}

/* ---- strides by hand ------------------------------------------------------------------------- */

/* Oracle: place = offset + sum of index times stride, for every index. A view without elements has to
 * begin within its storage. */
TEST(strided_views_are_made_exactly_within_their_storage)
{
    static model m;
    dice d = { { 6 } };
    int outcomes[2] = { 0 };
    for (int i = 0; i < 20000; i++) {
        ptrdiff_t size = roll(&d, 0, 40), offset = roll(&d, -2, size + 2), stride[3];
        auto_tensor whole = st_tensor_new(ST_SHAPE(size));
        m.shape = roll_shape(&d, 0, 3, chance(&d, 10) ? 0 : 1, 4);
        for (int axis = 0; axis < 3; axis++) stride[axis] = roll(&d, -6, 6);
        bool inside = product(m.shape) > 0 || (offset >= 0 && offset <= size);
        for (ptrdiff_t k = 0; k < product(m.shape); k++) {
            m.place[k] = offset;
            for (int axis = 0; axis < m.shape.rank; axis++)
                m.place[k] += index_of(m.shape, k).n[axis] * stride[axis];
            if (m.place[k] < 0 || m.place[k] >= size) inside = false;
        }
        st_tensor x = st_as_strided(whole, m.shape, stride, offset);
        if (inside) assert_is(x, &m, st_data(whole), size);
        else {
            expect_failure(x, "st_as_strided: %s from offset %td reaches", st_shape_text(m.shape).text,
                           offset);
        }
        outcomes[inside]++;
    }
    assert_true(outcomes[0] > 2000 && outcomes[1] > 2000);
}

/* ---- the ends of the range ------------------------------------------------------------------- */

TEST(numbers_at_the_ends_of_their_range_do_not_overflow)
{
    const ptrdiff_t most = PTRDIFF_MAX, least = PTRDIFF_MIN, extreme[] = { most, least, -most };
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3));
    for (int i = 0; i < 3; i++) {
        ptrdiff_t e = extreme[i];
        assert_refused(st_select(x, 1, e), "st_select", x.shape);
        assert_refused(st_narrow(x, 1, e, 1), "st_narrow", x.shape);
        assert_refused(st_narrow(x, 1, 1, e), "st_narrow", x.shape);
        assert_refused(st_narrow(x, 1, e, e), "st_narrow", x.shape);
        assert_refused(st_unfold(x, 1, e, 1, 1), "st_unfold", x.shape);
        assert_refused(st_unfold(x, 1, 2, 1, e), "st_unfold", x.shape);
        assert_refused(st_unfold(x, 1, e, e, e), "st_unfold", x.shape);
        assert_refused(st_split_axis(x, 1, e), "st_split_axis", x.shape);
        expect_failure(st_expand(x, ST_SHAPE(e, 2, 3)), "st_expand: ");
        expect_failure(st_reshape(x, ST_SHAPE(e, e)), "st_reshape: ");
    }
    const int axis[] = { INT_MAX, INT_MIN, 2, -3 };
    for (int i = 0; i < 4; i++) {
        assert_refused(st_flip(x, axis[i]), "st_flip", x.shape);
        assert_refused(st_transpose(x, 0, axis[i]), "st_transpose", x.shape);
        assert_refused(st_permute(x, ST_AXES(0, axis[i])), "st_permute", x.shape);
    }
    assert_refused(st_step(x, 1, least), "st_step", x.shape);
}

/* A step or a window's step beyond the axis leaves its first element, or its last. */
TEST(huge_steps_leave_one_element)
{
    auto_tensor x = tensor_of(ST_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    assert_elements(st_step(x, 1, PTRDIFF_MAX), 0, 3);
    assert_elements(st_step(x, 1, -PTRDIFF_MAX), 2, 5);
    assert_elements(st_step(st_step(x, 1, PTRDIFF_MAX), 1, -PTRDIFF_MAX), 0, 3);
    assert_elements(st_unfold(x, 1, 2, PTRDIFF_MAX, 1), 0, 1, 3, 4);
    assert_elements(st_unfold(x, 1, 1, PTRDIFF_MAX, PTRDIFF_MAX), 0, 3);
}

TEST(huge_strides_by_hand_are_refused)
{
    const ptrdiff_t most = PTRDIFF_MAX, least = PTRDIFF_MIN;
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3));
    const ptrdiff_t strides[][2] = {
        { most, 1 }, { 1, most }, { most, most }, { least, least }, { most / 2, 1 }
    };
    for (int i = 0; i < 5; i++) {
        expect_failure(st_as_strided(x, ST_SHAPE(3, 4), strides[i], 0),
                       "st_as_strided: [3, 4] from offset 0");
    }
    const ptrdiff_t one[1] = { 1 };
    expect_failure(st_as_strided(x, ST_SHAPE(2), one, most), "cannot be numbered, of a storage of 6");
    expect_failure(st_as_strided(x, ST_SHAPE(2), one, least), "of a storage of 6");
}

TEST(a_number_by_hand_needs_no_strides)
{
    auto_tensor x = tensor_of(ST_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    assert_true(st_item(st_as_strided(x, (st_shape){ 0 }, NULL, 4)) == 4);
    expect_failure(st_as_strided(x, ST_SHAPE(2), NULL, 0), "st_as_strided: the strides are NULL");
}

/* Views cost nothing: a number may be seen 2^50 times, but not more often than can be counted. */
TEST(views_larger_than_memory_are_counted)
{
    const ptrdiff_t two_50 = (ptrdiff_t)1 << 50;
    auto_tensor x = tensor_of(ST_SHAPE(1), 7);
    st_tensor many = st_expand(x, ST_SHAPE(two_50));
    assert_int_equal(st_numel(many), two_50);
    assert_true(*st_at(many, ST_INDEX(two_50 - 1)) == 7);
    assert_shape(st_split_axis(many, 0, 1024), two_50 / 1024, 1024);
    assert_shape(st_unfold(many, 0, 3, 2, 5), (two_50 - 11) / 2 + 1, 3);
    expect_failure(st_unfold(many, 0, two_50 / 2, 1, 1), "st_unfold: ");
    expect_failure(st_expand(x, ST_SHAPE(two_50, two_50)), "st_expand: ");
}

/* An empty axis is cut into blocks of any size: the product of the other sizes may overflow. */
TEST(views_without_elements_have_huge_sizes)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(8, 3));
    const st_tensor none = st_split_axis(st_narrow(x, 1, 0, 0), 1, PTRDIFF_MAX);
    assert_shape(none, 8, 0, PTRDIFF_MAX);
    assert_int_equal(st_numel(st_transpose(none, 1, 2)), 0);
    assert_shape(st_split_axis(st_narrow(x, 0, 0, 0), 0, PTRDIFF_MAX), 0, PTRDIFF_MAX, 3);
}

/* Ranks end at 8. */
TEST(a_ninth_axis_is_refused)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(1, 1, 1, 1, 1, 1, 1, 4));
    assert_refused(st_split_axis(x, 7, 2), "st_split_axis", x.shape);
    assert_refused(st_unfold(x, 7, 2, 1, 1), "st_unfold", x.shape);
    assert_shape(st_split_axis(st_select(x, 0, 0), 6, 2), 1, 1, 1, 1, 1, 1, 2, 2);
}
