/* data.c: data sets, and batches of them; nn/data/ reads them from files. */
#include "nn/data.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/parallel.h"

#include <stdlib.h>

/* ---- making and ending ----------------------------------------------------------------------- */

/* A batch has one more axis than a sample. */
static int check_sample(st_shape sample, const char *which)
{
    if (st_shape_numel(sample, which) < 0) return -1;
    if (sample.rank < ST_MAX_RANK) return 0;
    return st_error_set("%s: samples of rank %d, expected at most %d", which, sample.rank, ST_MAX_RANK - 1);
}

static int check_kind(const st_dataset *kind)
{
    if (!kind->get) return st_error_set("st_dataset_new: get is NULL");
    if (kind->count < 1)
        return st_error_set("st_dataset_new: %td samples, expected at least one", kind->count);
    if (kind->grain < 0)
        return st_error_set("st_dataset_new: grain is %td, expected at least 0", kind->grain);
    if (check_sample(kind->x, "st_dataset_new: x")) return -1;
    return check_sample(kind->target, "st_dataset_new: target");
}

st_dataset *st_dataset_new(st_dataset kind)
{
    st_dataset *d = check_kind(&kind) ? NULL : array_new("st_dataset_new", 1, sizeof *d);
    if (d) *d = kind;
    else if (kind.release) kind.release(&kind);
    return d;
}

void st_dataset_free(st_dataset *d)
{
    if (d && d->release) d->release(d);
    free(d);
}

void st_dataset_begin_epoch(const st_dataset *d, uint64_t epoch)
{
    if (d && d->begin) d->begin(d, epoch);
}

/* ---- of tensors ------------------------------------------------------------------------------ */

typedef struct tensors {
    st_tensor x, y;
    bool owned;
} tensors;

static void get_tensors(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const tensors *of = d->own;
    st_copy(x, st_select(of->x, 0, i));
    st_copy(y, st_select(of->y, 0, i));
}

static void free_tensors(st_dataset *d)
{
    const tensors *own = d->own;
    if (own->owned) st_tensor_free(own->x), st_tensor_free(own->y);
    free(d->own);
}

st_dataset *st_dataset_tensors(st_tensor x, st_tensor y)
{
    if (st_is_null(x) || st_is_null(y) || x.shape.rank < 1 || y.shape.rank < 1 ||
        x.shape.n[0] != y.shape.n[0]) {
        st_error_set("st_dataset_tensors: x %s and y %s, expected [N, ...] and [N, ...] with one N",
                     st_shape_text(x.shape).text, st_shape_text(y.shape).text);
        return NULL;
    }
    tensors *own = array_new("st_dataset_tensors", 1, sizeof *own);
    if (!own) return NULL;
    *own = (tensors){ x, y, false };
    const st_shape sample = st_shape_without_batch(x.shape);
    const ptrdiff_t grain = parallel_grain(st_shape_numel(sample, "st_dataset_new: x"));
    return st_dataset_new((st_dataset){ x.shape.n[0], sample, st_shape_without_batch(y.shape), get_tensors,
                                        .release = free_tensors, .own = own, .grain = grain });
}

st_dataset *st_dataset_owned(st_tensor x, st_tensor y)
{
    st_dataset *d = st_dataset_tensors(x, y);
    if (d) ((tensors *)d->own)->owned = true;
    else st_tensor_free(x), st_tensor_free(y);
    return d;
}

/* ---- batches --------------------------------------------------------------------------------- */

static int check_shape(st_tensor t, st_shape sample, ptrdiff_t n, const char *which)
{
    if (st_is_null(t)) return st_error_set("st_dataset_batch: %s is the null tensor", which);
    st_shape expected = st_shape_with_batch(sample, n);
    if (st_shape_equal(t.shape, expected)) return 0;
    return st_error_set("st_dataset_batch: %s is %s, expected %s", which, st_shape_text(t.shape).text,
                        st_shape_text(expected).text);
}

/* The samples of a batch. */
typedef struct batch {
    const st_dataset *d;
    const ptrdiff_t *order;
    ptrdiff_t first, count, grain; /* grain: samples in an item of work */
    st_tensor x, y;
    bool clear; /* no error was set before */
} batch;

/* get reports failure only by the error. */
static void fetch_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const batch *b = context;
    ptrdiff_t first = i * b->grain, end = smallest(first + b->grain, b->count);
    for (ptrdiff_t k = first; k < end && !(b->clear && st_error()); k++) {
        ptrdiff_t sample = b->order ? b->order[k] : b->first + k;
        b->d->get(b->d, sample, st_select(b->x, 0, k), st_select(b->y, 0, k));
        if (b->clear && st_error()) st_error_within("sample %td: ", sample);
    }
}

int st_dataset_batch(const st_dataset *d, const ptrdiff_t *order, ptrdiff_t first, ptrdiff_t n, st_tensor x,
                     st_tensor y)
{
    if (!d) return st_error_set("st_dataset_batch: the data set is NULL");
    if (n < 0) return st_error_set("st_dataset_batch: %td samples, expected at least 0", n);
    if (check_shape(x, d->x, n, "x") || check_shape(y, d->target, n, "y")) return -1;
    if (!order && (first < 0 || first > d->count || n > d->count - first))
        return st_error_set("st_dataset_batch: %td samples from %td on, the set has %td", n, first, d->count);
    for (ptrdiff_t k = 0; order && k < n; k++)
        if (order[k] < 0 || order[k] >= d->count)
            return st_error_set("st_dataset_batch: sample %td (order[%td]), the set has %td", order[k], k,
                                d->count);
    const bool clear = !st_error(), shared = clear && d->grain > 0 && n / 2 >= d->grain;
    batch b = { d, order, first, n, shared ? d->grain : largest(n, 1), x, y, clear };
    parallel_for(st_num_threads(), ceil_div(n, b.grain), fetch_part, &b);
    return clear && st_error() ? -1 : 0;
}
