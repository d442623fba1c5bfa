/* data.h: where samples come from: anything that can write sample i into a tensor. */
#ifndef STRIDE_NN_DATA_H
#define STRIDE_NN_DATA_H

#include "tensor/error.h"
#include "tensor/tensor.h"

#include <stdint.h>

ST_API_BEGIN

/* A set of samples. */
typedef struct st_dataset st_dataset;
struct st_dataset {
    ptrdiff_t count;    /* samples */
    st_shape x, target; /* of one sample: an image [C, H, W]; a class is a single number, rank 0 */

    /* Writes sample i, 0 <= i < count, into x and y, views of the shapes above. */
    void (*get)(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y);
    void (*begin)(const st_dataset *d,
                  uint64_t pass);   /* see st_dataset_begin_epoch; NULL: every pass is alike */
    void (*release)(st_dataset *d); /* frees what `own` holds; NULL: nothing */
    void *own;

    /* The number of samples that are work enough for one thread, if `get` may be called by several threads
     * at once: a batch of twice as many or more is fetched by all threads. 0: by one thread only. */
    ptrdiff_t grain;

    /* What becomes of the samples on their way, for people to read: "augment flip 0.5; normalize …". A
     * checkpoint holds it, and a run with another one is another run. A set made of another passes it on.
     * NULL: nothing. */
    const char *prepared;
};

/* Of your own kind: `own` is handed to get and release. NULL on failure, with `own` released. */
st_dataset *st_dataset_new(st_dataset kind);
void st_dataset_free(st_dataset *d); /* NULL is allowed */

/* Tensors [N, ...] and [N, ...] that the caller keeps alive. */
st_dataset *st_dataset_tensors(st_tensor x, st_tensor y);

/* The same, which frees the tensors when it is freed, or here where it cannot be made. */
st_dataset *st_dataset_owned(st_tensor x, st_tensor y);

/* `count` samples from `first` on, of a set that the caller keeps alive: a training and a validation
 * part. */
st_dataset *st_dataset_slice(const st_dataset *of, ptrdiff_t first, ptrdiff_t count);

/* Says that a set is gone through anew: what it makes up (nn/data/augment.h) is made up otherwise in
 * another pass. The trainer does at each epoch's beginning, and `pass` is the net's step there; before the
 * first call it is 0. A set that is made of another passes it on. Nobody may be fetching from the set
 * meanwhile. */
void st_dataset_begin_epoch(const st_dataset *d, uint64_t pass);

/* Samples order[0 … n-1] (NULL: first, first+1, …) into x [n, ...] and y [n, ...]. -1 with the error
 * of the first that get refused. */
int st_dataset_batch(const st_dataset *d, const ptrdiff_t *order, ptrdiff_t first, ptrdiff_t n, st_tensor x,
                     st_tensor y);

ST_API_END

#endif
