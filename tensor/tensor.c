/* tensor.c: the type: shapes, storage, overlap. Views are in view.c, moving data in walk.c. */
#include "tensor/system.h"

#include "tensor/tensor.h"
#include "tensor/counts.h"
#include "tensor/error.h"
#include "tensor/storage.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* bytes: a cache line, and the widest vector */

const char ST_PRECISION = 1;

/* ---- shapes ---------------------------------------------------------------------------------- */

bool st_shape_equal(st_shape a, st_shape b)
{
    if (a.rank != b.rank || a.rank > ST_MAX_RANK) return false;
    for (int i = 0; i < a.rank; i++)
        if (a.n[i] != b.n[i]) return false;
    return true;
}

ptrdiff_t st_shape_numel(st_shape s, const char *who)
{
    if (s.rank < 0 || s.rank > ST_MAX_RANK)
        return st_error_set("%s: rank %d, expected 0 to %d", who, s.rank, ST_MAX_RANK);
    ptrdiff_t count = 1;
    bool empty = false, overflow = false;
    for (int i = 0; i < s.rank; i++) {
        if (s.n[i] < 0) return st_error_set("%s: negative size in shape %s", who, st_shape_text(s).text);
        if (s.n[i] == 0) empty = true;
        else if (__builtin_mul_overflow(count, s.n[i], &count)) overflow = true;
    }
    if (overflow || count > PTRDIFF_MAX / (ptrdiff_t)sizeof(st_real) - ALIGNMENT)
        return st_error_set("%s: shape %s of %s needs more bytes than can be addressed", who,
                            st_shape_text(s).text, ST_REAL_NAME);
    return empty ? 0 : count;
}

st_shape st_shape_with_batch(st_shape sample, ptrdiff_t n)
{
    int last = sample.rank < ST_MAX_RANK ? sample.rank : ST_MAX_RANK - 1;
    for (int i = last; i > 0; i--) sample.n[i] = sample.n[i - 1];
    sample.n[0] = n;
    if (sample.rank >= 0 && sample.rank <= ST_MAX_RANK) sample.rank++; /* others are refused as they are */
    return sample;
}

st_shape st_shape_without_batch(st_shape batch)
{
    if (batch.rank < 1 || batch.rank > ST_MAX_RANK) {
        st_error_set("st_shape_without_batch: the shape has rank %d, expected 1 to %d", batch.rank,
                     ST_MAX_RANK);
        return (st_shape){ 0 };
    }
    batch.rank--;
    for (int i = 0; i < batch.rank; i++) batch.n[i] = batch.n[i + 1];
    return batch;
}

st_shape_string st_shape_text(st_shape s)
{
    st_shape_string out = { "[" };
    size_t used = 1;
    for (int i = 0; i < s.rank && i < ST_MAX_RANK; i++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, i ? ", %td" : "%td", s.n[i]);
    snprintf(out.text + used, sizeof out.text - used, "]");
    return out;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static st_tensor row_major(st_storage *s, st_shape form)
{
    st_tensor x = { .storage = s, .shape = form };
    ptrdiff_t stride = 1;
    for (int i = form.rank - 1; i >= 0; i--) {
        x.stride[i] = stride;
        if (form.n[i] > 0) stride *= form.n[i];
    }
    return x;
}

/* One block: the header in the first cache line, then the elements (none for a wrapped array). */
static st_storage *allocate(const char *who, ptrdiff_t elements, st_shape form)
{
    size_t bytes = ALIGNMENT + (size_t)elements * sizeof(st_real);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    st_storage *s = system_aligned(ALIGNMENT, bytes);
    if (!s) {
        st_error_set("%s: no memory for %s %s", who, ST_REAL_NAME, st_shape_text(form).text);
        return NULL;
    }
    s->data = (st_real *)((char *)s + ALIGNMENT);
    s->size = elements;
    return s;
}

st_tensor st_tensor_new(st_shape form)
{
    ptrdiff_t count = st_shape_numel(form, "st_tensor_new");
    st_storage *s = count < 0 ? NULL : allocate("st_tensor_new", count, form);
    if (!s) return (st_tensor){ 0 };
    memset(s->data, 0, (size_t)count * sizeof(st_real));
    return row_major(s, form);
}

st_tensor st_tensor_wrap(st_real *data, st_shape form)
{
    ptrdiff_t count = st_shape_numel(form, "st_tensor_wrap");
    if (count < 0) return (st_tensor){ 0 };
    if (!data && count > 0)
        return refused(st_error_set("st_tensor_wrap: no data for shape %s", st_shape_text(form).text));
    st_storage *s = allocate("st_tensor_wrap", 0, form);
    if (!s) return (st_tensor){ 0 };
    if (data) s->data = data; /* NULL with no elements keeps the end of the header: no arithmetic on NULL */
    s->size = count;
    return row_major(s, form);
}

st_tensor st_tensor_clone(st_tensor x)
{
    if (!tensor_usable(x, "st_tensor_clone")) return (st_tensor){ 0 };
    st_tensor y = st_tensor_new(x.shape);
    if (!st_is_null(y)) st_copy(y, x);
    return y;
}

void st_tensor_free(st_tensor x)
{
    system_free_aligned(x.storage);
}

/* ---- queries --------------------------------------------------------------------------------- */

bool tensor_usable(st_tensor x, const char *who)
{
    if (!st_is_null(x)) return true;
    st_error_set("%s: the tensor is null", who);
    return false;
}

int tensor_axis(st_tensor x, int axis, const char *who)
{
    int rank = x.shape.rank;
    if (!tensor_usable(x, who)) return -1;
    if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
    return st_error_set("%s: axis %d of a tensor of rank %d, %s", who, axis, rank,
                        st_shape_text(x.shape).text);
}

ptrdiff_t st_numel(st_tensor x)
{
    if (st_is_null(x)) return 0;
    size_t count = 1; /* unsigned: the sizes of an empty view may overflow it before one is 0 */
    for (int i = 0; i < x.shape.rank; i++) count *= (size_t)x.shape.n[i];
    return (ptrdiff_t)count;
}

bool st_is_contiguous(st_tensor x)
{
    if (st_is_null(x)) return false;
    if (st_numel(x) == 0) return true;
    ptrdiff_t stride = 1;
    for (int i = x.shape.rank - 1; i >= 0; i--) {
        if (x.shape.n[i] == 1) continue;
        if (x.stride[i] != stride) return false;
        stride *= x.shape.n[i];
    }
    return true;
}

bool st_shares_storage(st_tensor a, st_tensor b)
{
    return a.storage && a.storage == b.storage;
}

extent tensor_extent(st_tensor x)
{
    extent e = { x.offset, x.offset };
    for (int i = 0; i < x.shape.rank; i++) {
        ptrdiff_t reach = (x.shape.n[i] - 1) * x.stride[i];
        if (reach < 0) e.low += reach;
        else e.high += reach;
    }
    return e;
}

/* The greatest common divisor of a view's strides: its elements are so far apart, or a multiple of it. */
static ptrdiff_t common_stride(st_tensor x)
{
    ptrdiff_t divisor = 0;
    for (int i = 0; i < x.shape.rank; i++)
        if (x.shape.n[i] > 1) divisor = greatest_common_divisor(divisor, x.stride[i]);
    return divisor;
}

/* Compares addresses, so that two wraps of the same memory are found, too. */
bool st_overlaps(st_tensor a, st_tensor b)
{
    if (st_numel(a) == 0 || st_numel(b) == 0) return false;
    const extent ea = tensor_extent(a), eb = tensor_extent(b);
    const uintptr_t first_a = (uintptr_t)(a.storage->data + ea.low),
                    last_a = (uintptr_t)(a.storage->data + ea.high),
                    first_b = (uintptr_t)(b.storage->data + eb.low),
                    last_b = (uintptr_t)(b.storage->data + eb.high);
    if (last_a < first_b || last_b < first_a) return false;
    const uintptr_t bytes = first_a < first_b ? first_b - first_a : first_a - first_b;
    const ptrdiff_t divisor = greatest_common_divisor(common_stride(a), common_stride(b));
    if (divisor == 0 || bytes % sizeof(st_real)) return true;
    return bytes / sizeof(st_real) % (size_t)divisor == 0;
}

st_real *st_data(st_tensor x)
{
    return st_is_null(x) ? NULL : x.storage->data + x.offset;
}

st_real *st_at(st_tensor x, st_shape index)
{
    if (!tensor_usable(x, "st_at")) return NULL;
    bool inside = index.rank == x.shape.rank;
    ptrdiff_t offset = x.offset;
    for (int i = 0; i < x.shape.rank && inside; i++) {
        ptrdiff_t at = index.n[i] < 0 ? index.n[i] + x.shape.n[i] : index.n[i];
        inside = at >= 0 && at < x.shape.n[i];
        offset += inside ? at * x.stride[i] : 0;
    }
    if (inside) return x.storage->data + offset;
    st_error_set("st_at: index %s of a tensor %s", st_shape_text(index).text, st_shape_text(x.shape).text);
    return NULL;
}

st_real st_item(st_tensor x)
{
    if (!tensor_usable(x, "st_item")) return (st_real)NAN;
    if (st_numel(x) == 1) return *st_data(x);
    st_error_set("st_item: one element expected, the tensor is %s", st_shape_text(x.shape).text);
    return (st_real)NAN;
}
