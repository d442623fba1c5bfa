/* view.c: metadata only: a view is a new shape, stride and offset over the same storage. */
#include "tensor/error.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"

#include <stdint.h>

/* Advances by some steps along an axis. An empty view keeps its offset, which stays inside its storage. */
static st_tensor moved(st_tensor x, int axis, ptrdiff_t steps)
{
    if (st_numel(x) > 0) x.offset += steps * x.stride[axis];
    return x;
}

static st_tensor insert_axis(st_tensor x, int axis, ptrdiff_t n, ptrdiff_t stride, const char *who)
{
    if (x.shape.rank == ST_MAX_RANK)
        return refused(st_error_set("%s: %s would get more than %d axes", who, st_shape_text(x.shape).text,
                                    ST_MAX_RANK));
    for (int i = x.shape.rank++; i > axis; i--) {
        x.shape.n[i] = x.shape.n[i - 1];
        x.stride[i] = x.stride[i - 1];
    }
    x.shape.n[axis] = n;
    x.stride[axis] = stride;
    return x;
}

st_tensor st_select(st_tensor x, int axis, ptrdiff_t index)
{
    if ((axis = tensor_axis(x, axis, "st_select")) < 0) return (st_tensor){ 0 };
    ptrdiff_t n = x.shape.n[axis], at = index < 0 ? index + n : index;
    if (at < 0 || at >= n)
        return refused(
            st_error_set("st_select: index %td of axis %d of %s", index, axis, st_shape_text(x.shape).text));
    x = moved(x, axis, at);
    x.shape.rank--;
    for (int i = axis; i < x.shape.rank; i++) {
        x.shape.n[i] = x.shape.n[i + 1];
        x.stride[i] = x.stride[i + 1];
    }
    return x;
}

st_tensor st_narrow(st_tensor x, int axis, ptrdiff_t start, ptrdiff_t length)
{
    if ((axis = tensor_axis(x, axis, "st_narrow")) < 0) return (st_tensor){ 0 };
    ptrdiff_t n = x.shape.n[axis], at = start < 0 ? start + n : start;
    if (at < 0 || length < 0 || at > n || length > n - at)
        return refused(st_error_set("st_narrow: %td elements from %td of axis %d of %s", length, start, axis,
                                    st_shape_text(x.shape).text));
    x.shape.n[axis] = length;
    return moved(x, axis, at);
}

st_tensor st_step(st_tensor x, int axis, ptrdiff_t step)
{
    if ((axis = tensor_axis(x, axis, "st_step")) < 0) return (st_tensor){ 0 };
    if (step == 0 || step < -PTRDIFF_MAX)
        return refused(
            st_error_set("st_step: step %td along axis %d of %s, expected a step of at least 1 or at most -1",
                         step, axis, st_shape_text(x.shape).text));
    ptrdiff_t n = x.shape.n[axis], size = step < 0 ? -step : step;
    if (step < 0) x = moved(x, axis, n - 1);
    x.shape.n[axis] = n > 0 ? (n - 1) / size + 1 : 0;
    if (x.shape.n[axis] > 1)
        x.stride[axis] *= step; /* not for a single element: the product could overflow */
    return x;
}

st_tensor st_flip(st_tensor x, int axis)
{
    axis = tensor_axis(x, axis, "st_flip");
    return axis < 0 ? (st_tensor){ 0 } : st_step(x, axis, -1);
}

st_tensor st_permute(st_tensor x, st_axes order)
{
    if (!tensor_usable(x, "st_permute")) return (st_tensor){ 0 };
    if (order.count != x.shape.rank)
        return refused(st_error_set("st_permute: %d axes named, %s has %d", order.count,
                                    st_shape_text(x.shape).text, x.shape.rank));
    st_tensor y = x;
    bool named[ST_MAX_RANK] = { 0 };
    for (int i = 0; i < x.shape.rank; i++) {
        int axis = tensor_axis(x, order.axis[i], "st_permute");
        if (axis < 0) return (st_tensor){ 0 };
        if (named[axis]) return refused(st_error_set("st_permute: axis %d is named twice", axis));
        named[axis] = true;
        y.shape.n[i] = x.shape.n[axis];
        y.stride[i] = x.stride[axis];
    }
    return y;
}

st_tensor st_transpose(st_tensor x, int axis, int other)
{
    if ((axis = tensor_axis(x, axis, "st_transpose")) < 0 ||
        (other = tensor_axis(x, other, "st_transpose")) < 0)
        return (st_tensor){ 0 };
    st_axes order = { .count = x.shape.rank };
    for (int i = 0; i < order.count; i++) order.axis[i] = i == axis ? other : i == other ? axis : i;
    return st_permute(x, order);
}

st_tensor st_expand(st_tensor x, st_shape s)
{
    if (!tensor_usable(x, "st_expand") || st_shape_numel(s, "st_expand") < 0) return (st_tensor){ 0 };
    st_tensor y = { .storage = x.storage, .offset = x.offset, .shape = s };
    int lead = s.rank - x.shape.rank;
    bool fits = lead >= 0;
    for (int i = 0; i < x.shape.rank && fits; i++) {
        if (x.shape.n[i] == s.n[lead + i]) y.stride[lead + i] = x.stride[i];
        else fits = x.shape.n[i] == 1;
    }
    if (fits) return y;
    return refused(st_error_set("st_expand: %s does not broadcast to %s", st_shape_text(x.shape).text,
                                st_shape_text(s).text));
}

st_tensor st_unfold(st_tensor x, int axis, ptrdiff_t size, ptrdiff_t step, ptrdiff_t dilation)
{
    if ((axis = tensor_axis(x, axis, "st_unfold")) < 0) return (st_tensor){ 0 };
    ptrdiff_t n = x.shape.n[axis], reach;
    if (size < 1 || step < 1 || dilation < 1 || __builtin_mul_overflow(dilation, size - 1, &reach) ||
        reach >= n)
        return refused(st_error_set("st_unfold: windows of %td, step %td, dilation %td, along axis %d of %s; "
                                    "expected at least 1 each, and a window no longer than the axis",
                                    size, step, dilation, axis, st_shape_text(x.shape).text));
    ptrdiff_t stride = x.stride[axis], windows = (n - reach - 1) / step + 1;
    st_tensor y = insert_axis(x, x.shape.rank, size, size > 1 ? stride * dilation : stride, "st_unfold");
    y.shape.n[axis] = windows;
    if (windows > 1) y.stride[axis] = stride * step;
    return st_is_null(y) || st_shape_numel(y.shape, "st_unfold") < 0 ? (st_tensor){ 0 } : y;
}

st_tensor st_split_axis(st_tensor x, int axis, ptrdiff_t inner)
{
    if ((axis = tensor_axis(x, axis, "st_split_axis")) < 0) return (st_tensor){ 0 };
    if (inner < 1 || x.shape.n[axis] % inner)
        return refused(
            st_error_set("st_split_axis: axis %d of %s into blocks of %td, expected a divisor of %td", axis,
                         st_shape_text(x.shape).text, inner, x.shape.n[axis]));
    st_tensor y = insert_axis(x, axis + 1, inner, x.stride[axis], "st_split_axis");
    if (st_is_null(y)) return y;
    y.shape.n[axis] /= inner;
    if (y.shape.n[axis] > 0) y.stride[axis] *= inner; /* of an empty axis the product could overflow */
    return y;
}

/* Divides both shapes, from the front, into the shortest groups of axes with equal products. A group of x
 * must merge into one axis, which is then split into the group of s: a step of an outer axis equals all steps
 * of the inner one. */
st_tensor st_reshape(st_tensor x, st_shape s)
{
    if (!tensor_usable(x, "st_reshape")) return (st_tensor){ 0 };
    ptrdiff_t count = st_shape_numel(s, "st_reshape");
    if (count < 0) return (st_tensor){ 0 };
    if (count != st_numel(x))
        return refused(st_error_set("st_reshape: %s to %s, the numbers of elements differ",
                                    st_shape_text(x.shape).text, st_shape_text(s).text));
    st_tensor y = { .storage = x.storage, .offset = x.offset, .shape = s };
    if (count == 0) return y;

    for (int i = 0, j = 0; i < x.shape.rank || j < s.rank;) {
        ptrdiff_t from = 1, to = 1, stride = 0;
        int first = j;
        for (;;) {
            if (i < x.shape.rank && (from < to || (from == 1 && to == 1))) {
                ptrdiff_t n = x.shape.n[i];
                if (from > 1 && n > 1 && stride != x.stride[i] * n)
                    return refused(st_error_set("st_reshape: %s to %s needs a copy: axis %d has stride %td",
                                                st_shape_text(x.shape).text, st_shape_text(s).text, i,
                                                x.stride[i]));
                if (n > 1) stride = x.stride[i];
                from *= n;
                i++;
            } else if (j < s.rank && (to < from || s.n[j] == 1)) {
                to *= s.n[j++];
            } else {
                break; /* from == to: the group is complete, or nothing is left */
            }
        }
        for (int k = j - 1; k >= first; k--) {
            y.stride[k] = stride;
            stride *= s.n[k];
        }
    }
    return y;
}

st_tensor st_as_strided(st_tensor x, st_shape s, const ptrdiff_t *stride, ptrdiff_t offset)
{
    if (!tensor_usable(x, "st_as_strided") || st_shape_numel(s, "st_as_strided") < 0) return (st_tensor){ 0 };
    if (!stride && s.rank > 0) return refused(st_error_set("st_as_strided: the strides are NULL"));
    st_tensor y = { .storage = x.storage, .offset = offset, .shape = s };
    ptrdiff_t low = offset, high = offset;
    bool inside = true, empty = false;
    for (int i = 0; i < s.rank && inside; i++) {
        ptrdiff_t reach;
        y.stride[i] = stride[i];
        if (s.n[i] == 0) empty = true;
        else if (__builtin_mul_overflow(s.n[i] - 1, stride[i], &reach)) inside = false;
        else if (reach < 0) inside = !__builtin_add_overflow(low, reach, &low);
        else inside = !__builtin_add_overflow(high, reach, &high);
    }
    if (empty)
        for (int i = 0; i < s.rank; i++) y.stride[i] = 0; /* any stride will do without elements */
    if (inside && (empty ? offset >= 0 && offset <= x.storage->size : low >= 0 && high < x.storage->size))
        return y;
    if (!inside)
        return refused(st_error_set(
            "st_as_strided: %s from offset %td reaches elements that cannot be numbered, of a storage of %td",
            st_shape_text(s).text, offset, x.storage->size));
    return refused(
        st_error_set("st_as_strided: %s from offset %td reaches elements %td to %td of a storage of %td",
                     st_shape_text(s).text, offset, low, high, x.storage->size));
}
