/* data.h: data sets: anything that can write sample i into a tensor. */
#ifndef STRIDE_NN_DATA_H
#define STRIDE_NN_DATA_H

#include "tensor/error.h"
#include "tensor/tensor.h"

#include <stdint.h>

ST_API_BEGIN

/* A set of samples. One of your own has their number, their shapes, a function and perhaps a context:
 *
 *     static void line(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
 *     {
 *         const double *slope = d->own;
 *         st_fill(x, (st_real)i);
 *         st_fill(y, (st_real)(*slope * (double)i));
 *     }
 *     st_dataset *d = st_dataset_new((st_dataset){
 *         .count = 10, .x = ST_SHAPE(1), .target = ST_SHAPE(1), .get = line, .own = &slope }); */
typedef struct st_dataset st_dataset;
struct st_dataset {
    ptrdiff_t count;    /* samples */
    st_shape x, target; /* shapes of a sample: an image [C, H, W], say; a class has rank 0 */

    /* Writes sample i, 0 <= i < count, into x and y, views of the shapes above. Must not throw or longjmp. */
    void (*get)(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y);
    void (*begin)(const st_dataset *d, uint64_t epoch); /* see st_dataset_begin_epoch; may be NULL */
    void (*release)(st_dataset *d);                     /* frees `own`; NULL: nothing to free */
    void *own;

    /* The fewest samples that are worth a thread: a batch of at least twice as many is loaded by several
     * threads, for which `get` must be thread-safe. 0: one thread loads each batch. */
    ptrdiff_t grain;

    /* How samples are transformed, as text: "augment flip 0.5; normalize ...". Checkpoints compare it. A set
     * that wraps another one passes it on. NULL: not transformed. */
    const char *prepared;
};

/* A data set of your own; get and release use `own`. On failure `own` is released, too. */
st_dataset *st_dataset_new(st_dataset kind);
void st_dataset_free(st_dataset *d); /* NULL is allowed */

/* Samples in tensors [N, ...] and [N, ...], which must outlive the set. */
st_dataset *st_dataset_tensors(st_tensor x, st_tensor y);

/* The same, but takes ownership of the tensors, also on failure. */
st_dataset *st_dataset_owned(st_tensor x, st_tensor y);

/* Starts a new epoch: augmentation (nn/data/augment.h) is drawn again, as a function of `epoch`, a number
 * that differs from epoch to epoch; the trainer passes the net's step. Before the first call it is 0. A set
 * that wraps another one passes it on. Must not be called while samples are being loaded. */
void st_dataset_begin_epoch(const st_dataset *d, uint64_t epoch);

/* Loads samples order[0], ..., order[n-1] (NULL: first, first+1, ...) into x [n, ...] and y [n, ...]. -1 with
 * the error of the first sample that cannot be loaded. */
int st_dataset_batch(const st_dataset *d, const ptrdiff_t *order, ptrdiff_t first, ptrdiff_t n, st_tensor x,
                     st_tensor y);

ST_API_END

#endif
