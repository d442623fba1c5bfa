/* fuzz_views.c: views of views, in any order and half of them impossible, and data that is moved between
 * them. The model knows each element's place in its storage, what every element holds, and which calls must
 * fail.
 *
 * An input is a program: each byte chooses a call, or an argument of one. */
#include "tensor/reduce/reduce.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4, ROOM = 48 /* elements of a storage */, MOST = 512 /* of a view */, LARGE_VALUE = 1 << 12 };

/* A view, and its model: element k, in row-major order, is at place[k] of storage number `of`. */
typedef struct slot {
    st_tensor x;
    int of;
    ptrdiff_t place[MOST];
} slot;

static slot slots[SLOTS];
static st_tensor storage[SLOTS];
static st_real held[SLOTS][ROOM]; /* what the storages should hold */

static const uint8_t *at, *end;

/* A number from `least` to `most`, of the program. */
static int draw(int least, int most)
{
    return least + (at < end ? *at++ : 0) % (most - least + 1);
}

/* An axis or an index of n, counted from either end; the first and the last number are out of range. */
static int draw_index(ptrdiff_t n)
{
    return draw(-(int)n - 1, (int)n);
}

static st_shape draw_shape(int most_rank)
{
    st_shape s = { .rank = draw(0, most_rank) };
    for (int i = 0; i < s.rank; i++) s.n[i] = draw(0, 15) ? draw(1, 4) : draw(-1, 0);
    return s;
}

static ptrdiff_t count_of(st_shape s)
{
    ptrdiff_t count = s.rank < 0 || s.rank > ST_MAX_RANK ? -1 : 1;
    for (int i = 0; i < s.rank && count >= 0; i++) count = s.n[i] < 0 ? -1 : count * s.n[i];
    return count;
}

/* ---- indices -------------------------------------------------------------------------------- */

static void index_of(st_shape s, ptrdiff_t k, ptrdiff_t index[])
{
    for (int i = s.rank - 1; i >= 0; i--) index[i] = k % s.n[i], k /= s.n[i];
}

static ptrdiff_t number_of(st_shape s, const ptrdiff_t index[])
{
    ptrdiff_t k = 0;
    for (int i = 0; i < s.rank; i++) k = k * s.n[i] + index[i];
    return k;
}

static bool has_twins(const slot *v)
{
    bool seen[ROOM] = { false };
    for (ptrdiff_t k = 0; k < st_numel(v->x); k++) {
        if (seen[v->place[k]]) return true;
        seen[v->place[k]] = true;
    }
    return false;
}

/* ---- views ---------------------------------------------------------------------------------- */

typedef enum kind { SELECT, NARROW, STEP, FLIP, PERMUTE, TRANSPOSE, EXPAND, UNFOLD, SPLIT, KINDS } kind;

typedef struct call {
    kind kind;
    int axis, other; /* perhaps negative, perhaps out of range */
    ptrdiff_t a, b, c;
    st_shape shape;
    st_axes order;
} call;

static call draw_call(st_shape s)
{
    call c = { .kind = (kind)draw(0, KINDS - 1), .axis = draw_index(s.rank), .other = draw_index(s.rank) };
    c.a = draw(-4, 5), c.b = draw(-1, 4), c.c = draw(0, 3);
    c.shape = s;
    if (draw(0, 3) == 0) c.shape = draw_shape(4);
    else if (s.rank < ST_MAX_RANK && draw(0, 1)) c.shape = st_shape_with_batch(s, draw(1, 3));
    for (int i = 0; i < c.shape.rank; i++)
        if (c.shape.n[i] == 1) c.shape.n[i] = draw(1, 3);
    c.order.count = draw(0, 9) ? s.rank : draw(0, ST_MAX_RANK);
    for (int i = 0; i < c.order.count; i++) c.order.axis[i] = i;
    for (int i = c.order.count - 1; i > 0; i--) {
        int k = draw(0, i), axis = c.order.axis[k];
        c.order.axis[k] = c.order.axis[i], c.order.axis[i] = axis;
    }
    if (c.order.count > 0 && draw(0, 9) == 0) c.order.axis[0] = draw_index(s.rank);
    return c;
}

static st_tensor make(st_tensor x, const call *c)
{
    switch (c->kind) {
    case SELECT: return st_select(x, c->axis, c->a);
    case NARROW: return st_narrow(x, c->axis, c->a, c->b);
    case STEP: return st_step(x, c->axis, c->a);
    case FLIP: return st_flip(x, c->axis);
    case PERMUTE: return st_permute(x, c->order);
    case TRANSPOSE: return st_transpose(x, c->axis, c->other);
    case EXPAND: return st_expand(x, c->shape);
    case UNFOLD: return st_unfold(x, c->axis, c->a, c->b, c->c);
    default: return st_split_axis(x, c->axis, c->a);
    }
}

static bool is_permutation(st_axes order, int rank)
{
    unsigned seen = 0;
    for (int i = 0; i < order.count; i++) {
        int axis = order.axis[i] < 0 ? order.axis[i] + rank : order.axis[i];
        if (axis < 0 || axis >= rank || seen >> axis & 1) return false;
        seen |= 1u << axis;
    }
    return order.count == rank;
}

/* The shape of the view; false: the call must fail. Negative axes, starts and indices of the call become what
 * they stand for. */
static bool predict(st_shape s, call *c, st_shape *to)
{
    *to = s;
    if (c->axis < 0) c->axis += s.rank;
    if (c->other < 0) c->other += s.rank;
    if (c->kind == PERMUTE) {
        if (!is_permutation(c->order, s.rank)) return false;
        for (int i = 0; i < s.rank; i++) {
            if (c->order.axis[i] < 0) c->order.axis[i] += s.rank;
            to->n[i] = s.n[c->order.axis[i]];
        }
        return true;
    }
    if (c->kind == EXPAND) {
        const int lead = c->shape.rank - s.rank;
        *to = c->shape;
        for (int i = 0; i < s.rank && lead >= 0; i++)
            if (s.n[i] != 1 && s.n[i] != c->shape.n[lead + i]) return false;
        return lead >= 0 && count_of(c->shape) >= 0;
    }
    if (c->axis < 0 || c->axis >= s.rank) return false;
    const ptrdiff_t n = s.n[c->axis];
    if ((c->kind == SELECT || c->kind == NARROW) && c->a < 0) c->a += n;
    switch (c->kind) {
    case SELECT:
        for (int i = c->axis; i + 1 < s.rank; i++) to->n[i] = s.n[i + 1];
        to->rank--;
        return c->a >= 0 && c->a < n;
    case NARROW: to->n[c->axis] = c->b; return c->a >= 0 && c->b >= 0 && c->a + c->b <= n;
    case STEP:
        if (c->a == 0) return false;
        to->n[c->axis] = (n + labs(c->a) - 1) / labs(c->a);
        return true;
    case TRANSPOSE:
        if (c->other < 0 || c->other >= s.rank) return false;
        to->n[c->axis] = s.n[c->other], to->n[c->other] = n;
        return true;
    case UNFOLD:
        if (c->a < 1 || c->b < 1 || c->c < 1 || (c->a - 1) * c->c >= n || s.rank == ST_MAX_RANK) return false;
        to->n[c->axis] = (n - (c->a - 1) * c->c - 1) / c->b + 1;
        to->n[to->rank++] = c->a;
        return true;
    case SPLIT:
        if (c->a < 1 || n % c->a || s.rank == ST_MAX_RANK) return false;
        for (int i = to->rank++; i > c->axis + 1; i--) to->n[i] = to->n[i - 1];
        to->n[c->axis] = n / c->a, to->n[c->axis + 1] = c->a;
        return true;
    default: return true;
    }
}

/* Finds the index of a view's element in the tensor that it is a view of. */
static void go_back(const call *c, st_shape s, const ptrdiff_t to[], ptrdiff_t from[])
{
    const int axis = c->axis;
    for (int i = 0; i < s.rank; i++) from[i] = to[i];
    switch (c->kind) {
    case SELECT:
        from[axis] = c->a;
        for (int i = axis + 1; i < s.rank; i++) from[i] = to[i - 1];
        break;
    case NARROW: from[axis] += c->a; break;
    case STEP: from[axis] = c->a > 0 ? to[axis] * c->a : s.n[axis] - 1 + to[axis] * c->a; break;
    case FLIP: from[axis] = s.n[axis] - 1 - to[axis]; break;
    case PERMUTE:
        for (int i = 0; i < s.rank; i++) from[c->order.axis[i]] = to[i];
        break;
    case TRANSPOSE: from[axis] = to[c->other], from[c->other] = to[axis]; break;
    case EXPAND:
        for (int i = 0; i < s.rank; i++) from[i] = s.n[i] == 1 ? 0 : to[c->shape.rank - s.rank + i];
        break;
    case UNFOLD: from[axis] = to[axis] * c->b + to[s.rank] * c->c; break;
    default: /* SPLIT */
        from[axis] = to[axis] * c->a + to[axis + 1];
        for (int i = axis + 1; i < s.rank; i++) from[i] = to[i + 1];
    }
}

static void claim_places(const slot *v)
{
    for (ptrdiff_t k = 0; k < st_numel(v->x); k++) {
        st_shape index = { .rank = v->x.shape.rank };
        index_of(v->x.shape, k, index.n);
        fuzz_claim(st_at(v->x, index) == st_data(storage[v->of]) + v->place[k],
                   "elements are in their places");
    }
}

static void view(slot *v)
{
    static slot made;
    const st_shape s = v->x.shape;
    call c = draw_call(s);
    made = (slot){ .x = make(v->x, &c), .of = v->of };
    st_shape to;
    const bool possible = predict(s, &c, &to);
    const bool taken = fuzz_took(!st_is_null(made.x));
    fuzz_claim(taken == possible, "views that are possible are made, and no others");
    if (!taken) return;
    fuzz_claim(st_shape_equal(made.x.shape, to), "a view has its shape");
    if (count_of(to) > MOST) return;
    for (ptrdiff_t k = 0; k < count_of(to); k++) {
        ptrdiff_t index[ST_MAX_RANK + 1] = { 0 }, from[ST_MAX_RANK + 1] = { 0 };
        index_of(to, k, index);
        go_back(&c, s, index, from);
        made.place[k] = v->place[number_of(s, from)];
    }
    *v = made;
    claim_places(v);
}

/* It fails if it has to copy; the elements stay in their order. */
static void reshape(slot *v)
{
    const st_shape s = draw_shape(4);
    st_tensor y = st_reshape(v->x, s);
    const bool same = count_of(s) == st_numel(v->x), contiguous = st_is_contiguous(v->x);
    const bool taken = fuzz_took(!st_is_null(y));
    fuzz_claim(!taken || same, "a reshaped view has as many elements");
    fuzz_claim(taken || !same || !contiguous, "contiguous views are reshaped");
    if (taken) v->x = y, claim_places(v);
}

/* Any strides that stay inside. */
static void stride(slot *v)
{
    const st_shape s = draw_shape(3);
    ptrdiff_t strides[ST_MAX_RANK], offset = draw(-1, ROOM - 1), low = offset, high = offset;
    for (int i = 0; i < s.rank; i++) {
        strides[i] = draw(-5, 8);
        if (strides[i] < 0) low += (s.n[i] - 1) * strides[i];
        else high += (s.n[i] - 1) * strides[i];
    }
    st_tensor y = st_as_strided(v->x, s, strides, offset);
    const ptrdiff_t count = count_of(s);
    const bool inside = count == 0 ? offset >= 0 : count > 0 && low >= 0 && high < ROOM;
    const bool taken = fuzz_took(!st_is_null(y));
    fuzz_claim(taken == inside, "strides that stay inside of the storage are taken, and no others");
    if (!taken) return;
    v->x = y;
    for (ptrdiff_t k = 0; k < count; k++) {
        ptrdiff_t index[ST_MAX_RANK];
        index_of(s, k, index);
        v->place[k] = offset;
        for (int i = 0; i < s.rank; i++) v->place[k] += index[i] * strides[i];
    }
    claim_places(v);
}

/* ---- moving data ---------------------------------------------------------------------------- */

static void claim_held(void)
{
    for (int i = 0; i < SLOTS; i++)
        for (int k = 0; k < ROOM; k++)
            fuzz_claim(st_data(storage[i])[k] == held[i][k], "storages hold what was put there");
}

/* Numbers stay small, so that every sum is exact. */
static void keep_small(int of)
{
    for (int k = 0; k < ROOM; k++)
        if (!(held[of][k] > -LARGE_VALUE && held[of][k] < LARGE_VALUE))
            held[of][k] = st_data(storage[of])[k] = (st_real)(k % 7 - 3);
}

/* y becomes y f(x), as if x had been copied first. */
static void move(slot *y, const slot *x)
{
    static st_real from[MOST];
    enum { FILL, COPY, ADD, SCALE, MUL, WAYS };
    const int way = draw(0, WAYS - 1);
    const st_real factor = (st_real)draw(-2, 2);
    const bool alone = way == FILL || way == SCALE;
    const bool fits = alone || st_shape_equal(y->x.shape, x->x.shape);
    if (has_twins(y) && way != FILL && (way != ADD || y->of == x->of)) return; /* no one result is right */
    for (ptrdiff_t k = 0; k < st_numel(x->x); k++) from[k] = held[x->of][x->place[k]];
    if (way == FILL) st_fill(y->x, factor);
    if (way == COPY) st_copy(y->x, x->x);
    if (way == ADD) st_add(y->x, factor, x->x);
    if (way == SCALE) st_scale(y->x, factor);
    if (way == MUL) st_mul(y->x, x->x);
    fuzz_claim(fuzz_took(!st_error()) == fits, "data that can be moved is moved, and no other");
    for (ptrdiff_t k = 0; k < st_numel(y->x) && fits; k++) {
        st_real *to = &held[y->of][y->place[k]];
        *to = way == FILL    ? factor
              : way == COPY  ? from[k]
              : way == ADD   ? *to + factor * from[k]
              : way == SCALE ? *to * factor
                             : *to * from[k];
    }
    claim_held();
    keep_small(y->of);
}

static void reduce(const slot *x)
{
    const st_shape s = x->x.shape;
    st_axes over = { .count = draw(0, s.rank) };
    unsigned all = 0;
    st_shape to = { 0 };
    for (int i = 0; i < over.count; i++) over.axis[i] = draw_index(s.rank);
    bool possible = true;
    for (int i = 0; i < over.count; i++) {
        const int axis = over.axis[i] < 0 ? over.axis[i] + s.rank : over.axis[i];
        possible = possible && axis >= 0 && axis < s.rank && !(all >> axis & 1);
        if (possible) all |= 1u << axis;
    }
    if (over.count == 0) all = ~0u;
    for (int i = 0; i < s.rank; i++)
        if (!(all >> i & 1)) to.n[to.rank++] = s.n[i];
    const bool wrong = draw(0, 5) == 0;
    st_tensor y = st_tensor_new(wrong ? st_shape_with_batch(to, 1) : to);
    st_sum(y, x->x, over);
    const bool taken = fuzz_took(!st_error());
    fuzz_claim(taken == (possible && !wrong),
               "sums over axes that there are, into their shape, and no others");
    static st_real sums[MOST];
    memset(sums, 0, sizeof sums);
    for (ptrdiff_t k = 0; k < st_numel(x->x) && taken; k++) {
        ptrdiff_t index[ST_MAX_RANK], rest[ST_MAX_RANK];
        int r = 0;
        index_of(s, k, index);
        for (int i = 0; i < s.rank; i++)
            if (!(all >> i & 1)) rest[r++] = index[i];
        sums[number_of(to, rest)] += held[x->of][x->place[k]];
    }
    for (ptrdiff_t k = 0; k < st_numel(y) && taken; k++)
        fuzz_claim(st_data(y)[k] == sums[k], "sums are sums");
    st_tensor_free(y);
}

/* ---- programs ------------------------------------------------------------------------------- */

/* The whole storage, [2, 4, 6] or as one row. */
static void begin_anew(slot *v)
{
    const int of = v->of;
    *v = (slot){ .x = storage[of], .of = of };
    if (draw(0, 1)) v->x = st_reshape(v->x, ST_SHAPE(ROOM));
    for (int k = 0; k < ROOM; k++) v->place[k] = k;
}

static void feed(const uint8_t *input, size_t size)
{
    if (size > 1 << 12) return;
    at = input, end = input + size;
    for (int i = 0; i < SLOTS; i++) {
        storage[i] = st_tensor_new(ST_SHAPE(2, 4, 6));
        for (int k = 0; k < ROOM; k++) held[i][k] = st_data(storage[i])[k] = (st_real)((k * 5 + i) % 9 - 4);
        slots[i].of = i;
        begin_anew(&slots[i]);
    }
    while (at < end) {
        slot *v = &slots[draw(0, SLOTS - 1)], *other = &slots[draw(0, SLOTS - 1)];
        const int what = draw(0, 19);
        if (what < 9) view(v);
        else if (what < 10) reshape(v);
        else if (what < 11) stride(v);
        else if (what < 12) begin_anew(v);
        else if (what < 14) *v = *other; /* two views of one storage */
        else if (what < 18) move(v, other);
        else reduce(v);
    }
    for (int i = 0; i < SLOTS; i++) st_tensor_free(storage[i]);
}

static void seed(void)
{
    uint8_t program[600];
    uint32_t state = 1;
    for (int s = 0; s < 40; s++) {
        for (size_t i = 0; i < sizeof program; i++)
            program[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
        fuzz_seed(program, sizeof program);
    }
}

const fuzzer fuzz = { feed, seed };
