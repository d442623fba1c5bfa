/* views.c: what tensors do without a layer: views, copies and adds between them, reductions, scattering. */
#include "tests/conformance/onnx/onnx.h"

#include <string.h>

/* Integers that newer versions read from an input and older ones from an attribute; -1: left out. */
static int list_of(onnx_case *c, int input, const char *attribute, ptrdiff_t list[ONNX_INTEGERS])
{
    return onnx_has(c, input) ? onnx_input_integers(c, input, list) : onnx_integers(c, attribute, list);
}

static bool has_axis(int count, const ptrdiff_t *list, int axis, int rank)
{
    for (int i = 0; i < count; i++)
        if (onnx_axis(list[i], rank) == axis) return true;
    return false;
}

/* ---- shapes ---------------------------------------------------------------------------------------------- */

static void transpose(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t list[ONNX_INTEGERS];
    int count = onnx_integers(c, "perm", list);
    if (onnx_skipped(c)) return;
    st_axes order = { .count = x.shape.rank };
    for (int i = 0; i < order.count; i++) order.axis[i] = count < 0 ? order.count - 1 - i : (int)list[i];
    onnx_output(c, 0, st_permute(x, order));
}

static void reshape(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t list[ONNX_INTEGERS], known = 1;
    int count = list_of(c, 1, "shape", list), open = -1;
    bool zero = onnx_integer(c, "allowzero", 0) != 0;
    if (onnx_skipped(c)) return;
    st_shape s = { .rank = count };
    for (int i = 0; i < count; i++) {
        s.n[i] = list[i] == 0 && !zero ? x.shape.n[i] : list[i];
        if (s.n[i] < 0) open = i;
        else known *= s.n[i];
    }
    if (open >= 0) s.n[open] = known ? st_numel(x) / known : 0;
    onnx_output(c, 0, st_reshape(x, s));
}

/* At the first axis it is the layer; elsewhere a new shape. */
static void flatten(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    if (onnx_skipped(c)) return;
    int axis = onnx_axis(onnx_integer(c, "axis", 1), x.shape.rank);
    st_shape s = { .rank = 2, .n = { 1, 1 } };
    for (int i = 0; i < x.shape.rank; i++) s.n[i >= axis] *= x.shape.n[i];
    onnx_output(c, 0, axis == 1 ? onnx_run(c, st_flatten(), x) : st_reshape(x, s));
}

static void squeeze(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t list[ONNX_INTEGERS];
    int count = list_of(c, 1, "axes", list);
    if (onnx_skipped(c)) return;
    st_shape s = { .rank = 0 };
    for (int i = 0; i < x.shape.rank; i++)
        if (count < 0 ? x.shape.n[i] != 1 : !has_axis(count, list, i, x.shape.rank))
            s.n[s.rank++] = x.shape.n[i];
    onnx_output(c, 0, st_reshape(x, s));
}

static void unsqueeze(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t list[ONNX_INTEGERS];
    int count = list_of(c, 1, "axes", list), next = 0;
    if (onnx_skipped(c)) return;
    st_shape s = { .rank = x.shape.rank + count };
    for (int i = 0; i < s.rank; i++) s.n[i] = has_axis(count, list, i, s.rank) ? 1 : x.shape.n[next++];
    onnx_output(c, 0, st_reshape(x, s));
}

/* The shape that both broadcast to. */
static st_shape common_shape(st_shape a, st_shape b)
{
    if (a.rank < b.rank) {
        st_shape swap = a;
        a = b, b = swap;
    }
    for (int i = 1; i <= b.rank; i++)
        if (a.n[a.rank - i] == 1) a.n[a.rank - i] = b.n[b.rank - i];
    return a;
}

static void expand(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t list[ONNX_INTEGERS];
    int count = onnx_input_integers(c, 1, list);
    if (onnx_skipped(c)) return;
    st_shape s = { .rank = count };
    for (int i = 0; i < count; i++) s.n[i] = list[i];
    onnx_output(c, 0, st_expand(x, common_shape(x.shape, s)));
}

/* [a, b] repeated [p, q] times is [p, a, q, b] with p and q of stride 0. */
static void tile(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t times[ONNX_INTEGERS];
    int rank = onnx_input_integers(c, 1, times);
    if (2 * rank > ST_MAX_RANK) onnx_skip(c, "Tile of %d axes", rank);
    if (onnx_skipped(c)) return;
    st_shape once = { .rank = 2 * rank }, often = once, s = { .rank = rank };
    for (int i = 0; i < rank; i++) {
        once.n[2 * i] = 1, often.n[2 * i] = times[i];
        once.n[2 * i + 1] = often.n[2 * i + 1] = x.shape.n[i];
        s.n[i] = times[i] * x.shape.n[i];
    }
    st_tensor y = onnx_copy(c, st_expand(st_reshape(x, once), often));
    onnx_output(c, 0, st_reshape(y, s));
}

static void depth_to_space(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t b = onnx_integer(c, "blocksize", 1);
    bool depth_first = strcmp(onnx_text(c, "mode", "DCR"), "DCR") == 0;
    if (onnx_skipped(c)) return;
    ptrdiff_t n = x.shape.n[0], d = x.shape.n[1] / (b * b), h = x.shape.n[2], w = x.shape.n[3];
    st_tensor turned = depth_first
                           ? st_permute(st_reshape(x, ST_SHAPE(n, b, b, d, h, w)), ST_AXES(0, 3, 4, 1, 5, 2))
                           : st_permute(st_reshape(x, ST_SHAPE(n, d, b, b, h, w)), ST_AXES(0, 1, 4, 2, 5, 3));
    onnx_output(c, 0, st_reshape(onnx_copy(c, turned), ST_SHAPE(n, d, h * b, w * b)));
}

static void space_to_depth(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t b = onnx_integer(c, "blocksize", 1);
    if (onnx_skipped(c)) return;
    st_tensor cut = st_split_axis(st_split_axis(x, 3, b), 2, b); /* [N, C, H/b, b, W/b, b] */
    st_tensor turned = onnx_copy(c, st_permute(cut, ST_AXES(0, 3, 5, 1, 2, 4)));
    st_shape s = turned.shape;
    onnx_output(c, 0, st_reshape(turned, ST_SHAPE(s.n[0], b * b * s.n[3], s.n[4], s.n[5])));
}

/* ---- parts ----------------------------------------------------------------------------------------------- */

static void concat(onnx_case *c)
{
    st_tensor part[ONNX_INPUTS];
    for (int i = 0; i < c->inputs; i++) part[i] = onnx_input(c, i);
    if (onnx_skipped(c)) return;
    int axis = onnx_axis(onnx_integer(c, "axis", 1), part[0].shape.rank);
    st_shape s = part[0].shape;
    for (int i = 1; i < c->inputs; i++) s.n[axis] += part[i].shape.n[axis];
    st_tensor y = onnx_new(c, s);
    ptrdiff_t at = 0;
    for (int i = 0; i < c->inputs; at += part[i++].shape.n[axis])
        st_copy(st_narrow(y, axis, at, part[i].shape.n[axis]), part[i]);
    onnx_output(c, 0, y);
}

static void split(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t list[ONNX_INTEGERS], at = 0;
    int count = list_of(c, 1, "split", list);
    if (onnx_skipped(c)) return;
    int axis = onnx_axis(onnx_integer(c, "axis", 0), x.shape.rank);
    for (int i = 0; i < c->outputs; i++) {
        ptrdiff_t length = count < 0 ? x.shape.n[axis] / c->outputs : list[i];
        onnx_output(c, i, st_narrow(x, axis, at, length));
        at += length;
    }
}

static ptrdiff_t limit(ptrdiff_t value, ptrdiff_t low, ptrdiff_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Narrows to the range, and takes every step-th element, from the end if the step is negative. */
static void slice(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t start[ONNX_INTEGERS], end[ONNX_INTEGERS], over[ONNX_INTEGERS], step[ONNX_INTEGERS];
    int count = list_of(c, 1, "starts", start), axes_given = list_of(c, 3, "axes", over);
    list_of(c, 2, "ends", end);
    bool stepped = onnx_input_integers(c, 4, step) >= 0;
    if (onnx_skipped(c)) return;
    for (int i = 0; i < count; i++) {
        int axis = axes_given < 0 ? i : onnx_axis(over[i], x.shape.rank);
        ptrdiff_t n = x.shape.n[axis], by = stepped ? step[i] : 1;
        ptrdiff_t from = start[i] < 0 ? start[i] + n : start[i], to = end[i] < 0 ? end[i] + n : end[i];
        ptrdiff_t low = by > 0 ? limit(from, 0, n) : limit(to, -1, n - 1) + 1;
        ptrdiff_t high = by > 0 ? limit(to, 0, n) : limit(from, -1, n - 1) + 1;
        x = st_step(st_narrow(x, axis, low, high > low ? high - low : 0), axis, by);
    }
    onnx_output(c, 0, x);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------- */

/* y = a + alpha b, or a b; broadcast. */
static void combine(onnx_case *c, double alpha, bool product)
{
    st_tensor a = onnx_input(c, 0), b = onnx_input(c, 1);
    onnx_integer(c, "broadcast", 0); /* before version 7, with the axis of a that is b's first */
    ptrdiff_t axis = onnx_integer(c, "axis", a.shape.rank - b.shape.rank);
    if (onnx_skipped(c)) return;
    if (axis + b.shape.rank < a.shape.rank) {
        st_shape filled = b.shape;
        while (axis + filled.rank < a.shape.rank) filled.n[filled.rank++] = 1;
        b = st_reshape(b, filled);
    }
    st_shape s = common_shape(a.shape, b.shape);
    st_tensor y = onnx_copy(c, st_expand(a, s));
    if (product) st_mul(y, st_expand(b, s));
    else st_add(y, (st_real)alpha, st_expand(b, s));
    onnx_output(c, 0, y);
}

static void add(onnx_case *c)
{
    combine(c, 1, false);
}

static void subtract(onnx_case *c)
{
    combine(c, -1, false);
}

static void multiply(onnx_case *c)
{
    combine(c, 1, true);
}

static void negate(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    if (onnx_skipped(c)) return;
    st_tensor y = onnx_copy(c, x);
    st_scale(y, -1);
    onnx_output(c, 0, y);
}

static void sum_of_all(onnx_case *c, bool mean)
{
    st_tensor y = { 0 };
    for (int i = 0; i < c->inputs; i++) {
        st_tensor x = onnx_input(c, i);
        if (onnx_skipped(c)) return;
        if (i == 0) y = onnx_new(c, x.shape);
        st_add(y, 1, st_expand(x, y.shape));
    }
    if (mean) st_scale(y, 1 / (st_real)c->inputs);
    onnx_output(c, 0, y);
}

static void sum(onnx_case *c)
{
    sum_of_all(c, false);
}

static void mean(onnx_case *c)
{
    sum_of_all(c, true);
}

/* ---- reductions -------------------------------------------------------------------------------------------- */

static void reduce(onnx_case *c, void by(st_tensor y, st_tensor x, st_axes over), bool squared)
{
    st_tensor x = onnx_input(c, 0);
    ptrdiff_t list[ONNX_INTEGERS];
    int count = list_of(c, 1, "axes", list);
    bool keep = onnx_integer(c, "keepdims", 1) != 0, none = onnx_integer(c, "noop_with_empty_axes", 0) != 0;
    if (onnx_skipped(c)) return;
    if (count <= 0 && none) { /* over no axis */
        onnx_output(c, 0, x);
        return;
    }
    if (squared) st_mul(x, x);
    st_axes over = { .count = 0 };
    st_shape rest = { .rank = 0 }, kept = x.shape;
    for (int i = 0; i < x.shape.rank; i++)
        if (count <= 0 || has_axis(count, list, i, x.shape.rank)) over.axis[over.count++] = i, kept.n[i] = 1;
        else rest.n[rest.rank++] = x.shape.n[i];
    st_tensor y = onnx_new(c, rest);
    by(y, x, over);
    onnx_output(c, 0, keep ? st_reshape(y, kept) : y);
}

static void reduce_sum(onnx_case *c)
{
    reduce(c, st_sum, false);
}

static void reduce_mean(onnx_case *c)
{
    reduce(c, st_mean, false);
}

static void reduce_max(onnx_case *c)
{
    reduce(c, st_max, false);
}

static void reduce_sum_square(onnx_case *c)
{
    reduce(c, st_sum, true);
}

/* The last maximum is the first one from the other end. */
static void argmax(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    bool keep = onnx_integer(c, "keepdims", 1) != 0, last = onnx_integer(c, "select_last_index", 0) != 0;
    if (onnx_skipped(c)) return;
    int axis = onnx_axis(onnx_integer(c, "axis", 0), x.shape.rank);
    st_shape rest = { .rank = 0 }, kept = x.shape;
    kept.n[axis] = 1;
    for (int i = 0; i < x.shape.rank; i++)
        if (i != axis) rest.n[rest.rank++] = x.shape.n[i];
    st_tensor y = onnx_new(c, rest);
    ptrdiff_t index[256];
    if (st_numel(y) > 256) {
        onnx_skip(c, "ArgMax with more results than are read");
        return;
    }
    st_argmax(index, last ? st_flip(x, axis) : x, ST_AXES(axis));
    for (ptrdiff_t k = 0; k < st_numel(y); k++)
        st_data(y)[k] = (st_real)(last ? x.shape.n[axis] - 1 - index[k] : index[k]);
    onnx_output(c, 0, keep ? st_reshape(y, kept) : y);
}

/* ---- scattering ---------------------------------------------------------------------------------------------- */

static bool adds(onnx_case *c)
{
    bool so = strcmp(onnx_text(c, "reduction", "none"), "add") == 0;
    if (!so) onnx_skip(c, "%s that overwrites or multiplies", c->operation);
    return so;
}

/* Each element of `updates` stays at its place but for one axis, whose index is given. */
static void scatter_elements(onnx_case *c)
{
    st_tensor y = onnx_input(c, 0), updates = onnx_input(c, 2);
    ptrdiff_t index[ONNX_INTEGERS], place[ONNX_INTEGERS * ST_MAX_RANK];
    if (!adds(c)) return;
    int count = onnx_input_integers(c, 1, index), rank = y.shape.rank;
    if (onnx_skipped(c)) return;
    int axis = onnx_axis(onnx_integer(c, "axis", 0), rank);
    for (int k = 0; k < count; k++) {
        ptrdiff_t left = k;
        for (int i = rank; i-- > 0; left /= updates.shape.n[i])
            place[k * rank + i] = left % updates.shape.n[i];
        place[k * rank + axis] = index[k] < 0 ? index[k] + y.shape.n[axis] : index[k];
    }
    st_scatter_add(y, place, updates);
    onnx_output(c, 0, y);
}

/* The last axis of the indices names a place of y's first axes; all of the others are added there. */
static void scatter_nd(onnx_case *c)
{
    st_tensor y = onnx_input(c, 0), updates = onnx_input(c, 2);
    ptrdiff_t index[ONNX_INTEGERS];
    if (!adds(c)) return;
    int count = onnx_input_integers(c, 1, index);
    if (onnx_skipped(c)) return;
    st_shape of = c->input[1]->shape;
    int named = (int)of.n[of.rank - 1], rank = y.shape.rank;
    ptrdiff_t rows = count / named, length = st_numel(updates) / rows;
    st_tensor row = st_reshape(updates, ST_SHAPE(rows, length));
    for (ptrdiff_t r = 0; r < rows; r++)
        for (ptrdiff_t k = 0; k < length; k++) {
            ptrdiff_t place[ST_MAX_RANK], left = k;
            for (int i = rank; i-- > named; left /= y.shape.n[i]) place[i] = left % y.shape.n[i];
            for (int i = 0; i < named; i++) place[i] = index[r * named + i];
            st_scatter_add(y, place, st_select(st_select(row, 0, r), 0, k));
        }
    onnx_output(c, 0, y);
}

const onnx_operator onnx_views[] = {
    { "Transpose", transpose },
    { "Reshape", reshape },
    { "Flatten", flatten },
    { "Squeeze", squeeze },
    { "Unsqueeze", unsqueeze },
    { "Expand", expand },
    { "Tile", tile },
    { "DepthToSpace", depth_to_space },
    { "SpaceToDepth", space_to_depth },
    { "Concat", concat },
    { "Split", split },
    { "Slice", slice },
    { "Add", add },
    { "Sub", subtract },
    { "Mul", multiply },
    { "Neg", negate },
    { "Sum", sum },
    { "Mean", mean },
    { "ReduceSum", reduce_sum },
    { "ReduceMean", reduce_mean },
    { "ReduceMax", reduce_max },
    { "ReduceSumSquare", reduce_sum_square },
    { "ArgMax", argmax },
    { "ScatterElements", scatter_elements },
    { "ScatterND", scatter_nd },
    { 0 },
};
