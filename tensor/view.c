/* view.c: metadata only: a view is a new shape, stride and offset over the same storage. */
#include "tensor/error.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"

#include <stdint.h>

static const tensor null_tensor;

/* By so many steps along an axis; a view without elements stays where it is, inside its storage. */
static tensor moved(tensor x, int axis, ptrdiff_t steps)
{
    if (tensor_count(x) > 0) x.offset += steps * x.stride[axis];
    return x;
}

static tensor drop_axis(tensor x, int axis)
{
    x.shape.rank--;
    for (int i = axis; i < x.shape.rank; i++) {
        x.shape.n[i] = x.shape.n[i + 1];
        x.stride[i] = x.stride[i + 1];
    }
    return x;
}

static bool has_room(tensor x, const char *who)
{
    if (x.shape.rank < TENSOR_MAX_RANK) return true;
    error_set("%s: %s would get more than %d axes", who, shape_text(x.shape).text, TENSOR_MAX_RANK);
    return false;
}

static tensor insert_axis(tensor x, int axis, ptrdiff_t n, ptrdiff_t stride)
{
    for (int i = x.shape.rank++; i > axis; i--) {
        x.shape.n[i] = x.shape.n[i - 1];
        x.stride[i] = x.stride[i - 1];
    }
    x.shape.n[axis] = n;
    x.stride[axis] = stride;
    return x;
}

tensor tensor_select(tensor x, int axis, ptrdiff_t index)
{
    if (!tensor_usable(x, "tensor_select") || (axis = tensor_axis(x, axis, "tensor_select")) < 0)
        return null_tensor;
    ptrdiff_t n = x.shape.n[axis], at = index < 0 ? index + n : index;
    if (at < 0 || at >= n) {
        error_set("tensor_select: index %td of axis %d of %s", index, axis, shape_text(x.shape).text);
        return null_tensor;
    }
    return drop_axis(moved(x, axis, at), axis);
}

tensor tensor_narrow(tensor x, int axis, ptrdiff_t start, ptrdiff_t length)
{
    if (!tensor_usable(x, "tensor_narrow") || (axis = tensor_axis(x, axis, "tensor_narrow")) < 0)
        return null_tensor;
    ptrdiff_t n = x.shape.n[axis], at = start < 0 ? start + n : start;
    if (at < 0 || length < 0 || at > n || length > n - at) {
        error_set("tensor_narrow: %td elements from %td of axis %d of %s", length, start, axis,
                  shape_text(x.shape).text);
        return null_tensor;
    }
    x.shape.n[axis] = length;
    return moved(x, axis, at);
}

tensor tensor_step(tensor x, int axis, ptrdiff_t step)
{
    if (!tensor_usable(x, "tensor_step") || (axis = tensor_axis(x, axis, "tensor_step")) < 0)
        return null_tensor;
    if (step == 0 || step < -PTRDIFF_MAX) {
        error_set("tensor_step: step %td along axis %d of %s", step, axis, shape_text(x.shape).text);
        return null_tensor;
    }
    ptrdiff_t n = x.shape.n[axis], size = step < 0 ? -step : step;
    if (step < 0) x = moved(x, axis, n - 1);
    x.shape.n[axis] = n > 0 ? (n - 1) / size + 1 : 0;
    if (x.shape.n[axis] > 1)
        x.stride[axis] *= step; /* a single element needs none, and a huge step has none */
    return x;
}

tensor tensor_flip(tensor x, int axis)
{
    return tensor_step(x, axis, -1);
}

tensor tensor_permute(tensor x, axes order)
{
    if (!tensor_usable(x, "tensor_permute")) return null_tensor;
    if (order.count != x.shape.rank) {
        error_set("tensor_permute: %d axes named, %s has %d", order.count, shape_text(x.shape).text,
                  x.shape.rank);
        return null_tensor;
    }
    if (tensor_axes(x, order, "tensor_permute").count < 0) return null_tensor;
    tensor y = x;
    for (int i = 0; i < x.shape.rank; i++) {
        int axis = tensor_axis(x, order.axis[i], "tensor_permute");
        y.shape.n[i] = x.shape.n[axis];
        y.stride[i] = x.stride[axis];
    }
    return y;
}

tensor tensor_transpose(tensor x, int axis, int other)
{
    if (!tensor_usable(x, "tensor_transpose") || (axis = tensor_axis(x, axis, "tensor_transpose")) < 0 ||
        (other = tensor_axis(x, other, "tensor_transpose")) < 0)
        return null_tensor;
    tensor y = x;
    y.shape.n[axis] = x.shape.n[other];
    y.stride[axis] = x.stride[other];
    y.shape.n[other] = x.shape.n[axis];
    y.stride[other] = x.stride[axis];
    return y;
}

tensor tensor_expand(tensor x, shape s)
{
    if (!tensor_usable(x, "tensor_expand") || shape_count(s, "tensor_expand") < 0) return null_tensor;
    tensor y = { .storage = x.storage, .offset = x.offset, .shape = s };
    int lead = s.rank - x.shape.rank;
    bool fits = lead >= 0;
    for (int i = 0; i < x.shape.rank && fits; i++) {
        if (x.shape.n[i] == s.n[lead + i]) y.stride[lead + i] = x.stride[i];
        else fits = x.shape.n[i] == 1;
    }
    if (fits) return y;
    error_set("tensor_expand: %s does not broadcast to %s", shape_text(x.shape).text, shape_text(s).text);
    return null_tensor;
}

tensor tensor_window(tensor x, int axis, ptrdiff_t size, ptrdiff_t step, ptrdiff_t dilation)
{
    if (!tensor_usable(x, "tensor_window") || (axis = tensor_axis(x, axis, "tensor_window")) < 0)
        return null_tensor;
    ptrdiff_t n = x.shape.n[axis], reach;
    if (size < 1 || step < 1 || dilation < 1 || __builtin_mul_overflow(dilation, size - 1, &reach) ||
        reach >= n) {
        error_set("tensor_window: windows of %td, step %td, dilation %td, along axis %d of %s", size, step,
                  dilation, axis, shape_text(x.shape).text);
        return null_tensor;
    }
    if (!has_room(x, "tensor_window")) return null_tensor;
    ptrdiff_t stride = x.stride[axis];
    x.shape.n[axis] = (n - reach - 1) / step + 1;
    if (x.shape.n[axis] > 1) x.stride[axis] = stride * step;
    x = insert_axis(x, x.shape.rank, size, size > 1 ? stride * dilation : stride);
    return shape_count(x.shape, "tensor_window") < 0 ? null_tensor : x;
}

tensor tensor_split(tensor x, int axis, ptrdiff_t inner)
{
    if (!tensor_usable(x, "tensor_split") || (axis = tensor_axis(x, axis, "tensor_split")) < 0)
        return null_tensor;
    if (inner < 1 || x.shape.n[axis] % inner) {
        error_set("tensor_split: axis %d of %s into blocks of %td", axis, shape_text(x.shape).text, inner);
        return null_tensor;
    }
    if (!has_room(x, "tensor_split")) return null_tensor;
    ptrdiff_t stride = x.stride[axis], blocks = x.shape.n[axis] / inner;
    x.shape.n[axis] = blocks;
    x.stride[axis] = stride * inner;
    return insert_axis(x, axis + 1, inner, stride);
}

/* Two neighbouring axes walk as one when a step of the outer is a full turn of the inner. */
static bool merges(ptrdiff_t outer, ptrdiff_t outer_stride, ptrdiff_t inner, ptrdiff_t inner_stride)
{
    return outer <= 1 || inner <= 1 || outer_stride == inner_stride * inner;
}

tensor tensor_merge(tensor x, int axis)
{
    if (!tensor_usable(x, "tensor_merge") || (axis = tensor_axis(x, axis, "tensor_merge")) < 0)
        return null_tensor;
    if (axis + 1 == x.shape.rank) {
        error_set("tensor_merge: axis %d of %s has no next axis", axis, shape_text(x.shape).text);
        return null_tensor;
    }
    ptrdiff_t outer = x.shape.n[axis], inner = x.shape.n[axis + 1];
    ptrdiff_t outer_stride = x.stride[axis], inner_stride = x.stride[axis + 1];
    if (tensor_count(x) > 0 && !merges(outer, outer_stride, inner, inner_stride)) {
        error_set("tensor_merge: axes %d and %d of %s have strides %td and %td, a copy would be needed", axis,
                  axis + 1, shape_text(x.shape).text, outer_stride, inner_stride);
        return null_tensor;
    }
    x.shape.n[axis + 1] = outer * inner;
    x.stride[axis + 1] = inner == 1 ? outer_stride : inner_stride;
    return drop_axis(x, axis);
}

/* Both shapes are cut, from the front, into the shortest runs of axes of equal product; a run of x must
 * merge into one axis, which the run of s then splits. */
tensor tensor_reshape(tensor x, shape s)
{
    if (!tensor_usable(x, "tensor_reshape")) return null_tensor;
    ptrdiff_t count = shape_count(s, "tensor_reshape");
    if (count < 0) return null_tensor;
    if (count != tensor_count(x)) {
        error_set("tensor_reshape: %s to %s, the numbers of elements differ", shape_text(x.shape).text,
                  shape_text(s).text);
        return null_tensor;
    }
    tensor y = { .storage = x.storage, .offset = x.offset, .shape = s };
    if (count == 0) return y;

    for (int i = 0, j = 0; i < x.shape.rank || j < s.rank;) {
        ptrdiff_t from = 1, to = 1, stride = 0;
        int first = j;
        while (i < x.shape.rank || j < s.rank) {
            if (i < x.shape.rank && (from < to || (from == to && from == 1) || x.shape.n[i] == 1)) {
                ptrdiff_t n = x.shape.n[i];
                if (!merges(from, stride, n, x.stride[i])) {
                    error_set("tensor_reshape: %s to %s needs a copy: axis %d has stride %td",
                              shape_text(x.shape).text, shape_text(s).text, i, x.stride[i]);
                    return null_tensor;
                }
                if (n > 1) stride = x.stride[i];
                from *= n;
                i++;
            } else if (j < s.rank && (to < from || s.n[j] == 1)) {
                to *= s.n[j++];
            } else {
                break; /* from == to > 1: the run is whole */
            }
        }
        for (int k = j - 1; k >= first; k--) {
            y.stride[k] = stride;
            stride *= s.n[k];
        }
    }
    return y;
}

tensor tensor_as_strided(tensor x, shape s, const ptrdiff_t *stride, ptrdiff_t offset)
{
    if (!tensor_usable(x, "tensor_as_strided") || shape_count(s, "tensor_as_strided") < 0) return null_tensor;
    tensor y = { .storage = x.storage, .offset = offset, .shape = s };
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
        for (int i = 0; i < s.rank; i++) y.stride[i] = 0; /* without elements they may be anything */
    if (inside && (empty ? offset >= 0 && offset <= x.storage->size : low >= 0 && high < x.storage->size))
        return y;
    error_set("tensor_as_strided: %s from offset %td reaches elements %td to %td of a storage of %td",
              shape_text(s).text, offset, low, high, x.storage->size);
    return null_tensor;
}
