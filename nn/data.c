/* data.c: data sets, and batches of them; nn/data/ reads them from files. */
#include "nn/data.h"
#include "tensor/parallel.h"

#include <stdlib.h>

/* ---- making and ending ----------------------------------------------------------------------- */

/* A batch has one axis more than a sample. */
static int check_sample(shape sample, const char *which)
{
    if (shape_count(sample, which) < 0) return -1;
    if (sample.rank < TENSOR_MAX_RANK) return 0;
    return error_set("%s: samples of rank %d, expected at most %d", which, sample.rank, TENSOR_MAX_RANK - 1);
}

static int check_kind(const data *kind)
{
    if (!kind->get) return error_set("data_new: get is NULL");
    if (kind->count < 1) return error_set("data_new: %td samples, expected at least one", kind->count);
    if (kind->grain < 0) return error_set("data_new: grain is %td, expected at least 0", kind->grain);
    return check_sample(kind->x, "data_new: x") || check_sample(kind->y, "data_new: y") ? -1 : 0;
}

static data *make(data kind)
{
    if (check_kind(&kind)) return NULL;
    data *d = malloc(sizeof *d);
    if (d) *d = kind;
    else error_set("data_new: no memory");
    return d;
}

data *data_new(data kind)
{
    data *d = make(kind);
    if (!d && kind.release) kind.release(&kind);
    return d;
}

void data_free(data *d)
{
    if (d && d->release) d->release(d);
    free(d);
}

void data_begin(const data *d, uint64_t pass)
{
    if (d && d->begin) d->begin(d, pass);
}

static void free_own(data *d)
{
    free(d->own);
}

enum { WAKING = 1 << 17 }; /* elements that take as long to copy as it takes to wake a thread */

/* For sets whose samples are only copied. */
static ptrdiff_t copied_grain(shape sample)
{
    ptrdiff_t elements = 1;
    for (int i = 0; i < sample.rank; i++) elements *= sample.n[i];
    return 1 + WAKING / (elements > 0 ? elements : 1);
}

/* ---- of tensors ------------------------------------------------------------------------------ */

typedef struct tensors {
    tensor x, y;
} tensors;

static void get_tensors(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    const tensors *of = d->own;
    tensor_copy(x, tensor_select(of->x, 0, i));
    tensor_copy(y, tensor_select(of->y, 0, i));
}

static int check_tensors(tensor x, tensor y)
{
    const tensor both[] = { x, y };
    for (int i = 0; i < 2; i++) {
        if (!tensor_is_null(both[i]) && both[i].shape.rank > 0) continue;
        return error_set("data_tensors: %s is %s, expected [N, ...]", i ? "y" : "x",
                         tensor_is_null(both[i]) ? "the null tensor" : "a single number");
    }
    if (x.shape.n[0] == y.shape.n[0]) return 0;
    return error_set("data_tensors: x %s and y %s differ in the number of samples", shape_text(x.shape).text,
                     shape_text(y.shape).text);
}

static data *of_tensors(tensor x, tensor y, void (*release)(data *d))
{
    if (check_tensors(x, y)) return NULL;
    tensors *own = malloc(sizeof *own);
    if (!own) {
        error_set("data_tensors: no memory");
        return NULL;
    }
    *own = (tensors){ x, y };
    data *d = make((data){ .count = x.shape.n[0],
                           .x = shape_without_batch(x.shape),
                           .y = shape_without_batch(y.shape),
                           .get = get_tensors,
                           .release = release,
                           .own = own,
                           .grain = copied_grain(shape_without_batch(x.shape)) });
    if (!d) free(own);
    return d;
}

data *data_tensors(tensor x, tensor y)
{
    return of_tensors(x, y, free_own);
}

static void free_tensors(data *d)
{
    tensors *own = d->own;
    tensor_free(own->x);
    tensor_free(own->y);
    free(own);
}

data *data_owned(tensor x, tensor y)
{
    data *d = of_tensors(x, y, free_tensors);
    if (d) return d;
    tensor_free(x);
    tensor_free(y);
    return NULL;
}

/* ---- a part of another ----------------------------------------------------------------------- */

typedef struct part {
    const data *of;
    ptrdiff_t first;
} part;

static void get_part(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    const part *p = d->own;
    p->of->get(p->of, p->first + i, x, y);
}

static void begin_part(const data *d, uint64_t pass)
{
    const part *p = d->own;
    data_begin(p->of, pass);
}

data *data_slice(const data *of, ptrdiff_t first, ptrdiff_t count)
{
    if (!of) {
        error_set("data_slice: the data set is NULL");
        return NULL;
    }
    if (first < 0 || count < 1 || first > of->count || count > of->count - first) {
        error_set("data_slice: %td samples from %td on, expected at least one of the set's %td", count, first,
                  of->count);
        return NULL;
    }
    part *own = malloc(sizeof *own);
    if (!own) {
        error_set("data_slice: no memory");
        return NULL;
    }
    *own = (part){ of, first };
    return data_new((data){ .count = count,
                            .x = of->x,
                            .y = of->y,
                            .get = get_part,
                            .begin = of->begin ? begin_part : NULL,
                            .release = free_own,
                            .own = own,
                            .grain = of->grain,
                            .prepared = of->prepared });
}

/* ---- batches --------------------------------------------------------------------------------- */

static int check_shape(tensor t, shape sample, ptrdiff_t n, const char *which)
{
    if (tensor_is_null(t)) return error_set("data_batch: %s is the null tensor", which);
    shape expected = shape_with_batch(sample, n);
    if (shape_equal(t.shape, expected)) return 0;
    return error_set("data_batch: %s is %s, expected %s", which, shape_text(t.shape).text,
                     shape_text(expected).text);
}

static int check_order(const data *d, const ptrdiff_t *order, ptrdiff_t first, ptrdiff_t n)
{
    if (!order && (first < 0 || first > d->count || n > d->count - first))
        return error_set("data_batch: %td samples from %td on, the set has %td", n, first, d->count);
    for (ptrdiff_t k = 0; order && k < n; k++)
        if (order[k] < 0 || order[k] >= d->count)
            return error_set("data_batch: sample %td (order[%td]), the set has %td", order[k], k, d->count);
    return 0;
}

/* The samples of a batch. */
typedef struct batch {
    const data *d;
    const ptrdiff_t *order;
    ptrdiff_t first, count;
    tensor x, y;
} batch;

static ptrdiff_t fetch(const batch *b, ptrdiff_t k)
{
    ptrdiff_t sample = b->order ? b->order[k] : b->first + k;
    b->d->get(b->d, sample, tensor_select(b->x, 0, k), tensor_select(b->y, 0, k));
    return sample;
}

/* As many samples as are worth a thread. */
static void fetch_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const batch *b = context;
    ptrdiff_t first = i * b->d->grain, end = first + b->d->grain;
    for (ptrdiff_t k = first; k < end && k < b->count && !error_text(); k++) {
        ptrdiff_t sample = fetch(b, k);
        if (error_text()) error_within("sample %td: ", sample);
    }
}

static int fetch_in_turn(const batch *b)
{
    bool clear = !error_text(); /* get has no other way to say that it failed */
    for (ptrdiff_t k = 0; k < b->count; k++) {
        ptrdiff_t sample = fetch(b, k);
        if (clear && error_text()) return error_within("sample %td: ", sample);
    }
    return 0;
}

static bool worth_threads(const data *d, ptrdiff_t n)
{
    return d->grain > 0 && n / 2 >= d->grain && !error_text() && parallel_threads() > 1;
}

int data_batch(const data *d, const ptrdiff_t *order, ptrdiff_t first, ptrdiff_t n, tensor x, tensor y)
{
    if (!d) return error_set("data_batch: the data set is NULL");
    if (n < 0) return error_set("data_batch: %td samples", n);
    if (check_shape(x, d->x, n, "x") || check_shape(y, d->y, n, "y") || check_order(d, order, first, n))
        return -1;
    batch b = { .d = d, .order = order, .first = first, .count = n, .x = x, .y = y };
    if (!worth_threads(d, n)) return fetch_in_turn(&b);
    parallel_for(parallel_threads(), (n + d->grain - 1) / d->grain, fetch_part, &b);
    return error_text() ? -1 : 0;
}
