/* data.h: where samples come from: anything that can write sample i into a tensor. */
#ifndef STRIDE_NN_DATA_H
#define STRIDE_NN_DATA_H

#include "tensor/error.h"
#include "tensor/tensor.h"

#include <stdint.h>

#pragma GCC visibility push(default)

/* A set of samples. */
typedef struct data data;
struct data {
    ptrdiff_t count; /* samples */
    shape x, y;      /* of one sample: an image [C, H, W]; a class is a single number, rank 0 */

    /* Writes sample i, 0 <= i < count, into x and y, views of the shapes above. */
    void (*get)(const data *d, ptrdiff_t i, tensor x, tensor y);
    void (*begin)(const data *d, uint64_t pass); /* see data_begin; NULL: every pass is alike */
    void (*release)(data *d);                    /* frees what `own` holds; NULL: nothing */
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
data *data_new(data kind);
void data_free(data *d); /* NULL is allowed */

/* Tensors [N, ...] and [N, ...] that the caller keeps alive. */
data *data_tensors(tensor x, tensor y);

/* An IDX pair (LeCun's MNIST format: images of rank 3, or 4 with channels, and labels of rank 1, of
 * unsigned bytes), plain or gzipped. x is [C, H, W] with pixels 0..255 scaled to 0..1; y is the class.
 * Bytes are kept and converted as they are asked for. NULL with an error that names the file where one
 * is missing, truncated, too long, of another type, or where the two do not agree. */
data *data_idx(const char *images, const char *labels);

/* CIFAR-10's binary files, plain or gzipped, one after another in one set: records of a byte for the
 * class, 0 to 9, and 3072 for the image. x is [3, 32, 32], red, green and blue, 0..255 scaled to 0..1; y
 * is the class. NULL with an error that names the file and the record where one is truncated or of another
 * class. */
data *data_cifar10(const char *const *paths, int count);

/* A pair of NumPy's files (nn/data/npy.h), x [N, ...] and y [N, ...], which are read as they are: y [N]
 * are classes, [N, K] targets. Only images [N, H, W] become samples [1, H, W], of one channel. */
data *data_npy(const char *x, const char *y);

/* `count` samples from `first` on, of a set that the caller keeps alive: a training and a validation
 * part. */
data *data_slice(const data *of, ptrdiff_t first, ptrdiff_t count);

/* Says that a set is gone through anew: what it makes up (nn/data/augment.h) is made up otherwise in
 * another pass. The trainer does at each epoch's beginning, and `pass` is the net's step there; before the
 * first call it is 0. A set that is made of another passes it on. Nobody may be fetching from the set
 * meanwhile. */
void data_begin(const data *d, uint64_t pass);

/* Samples order[0 … n-1] (NULL: first, first+1, …) into x [n, ...] and y [n, ...]. -1 with the error
 * of the first that get refused. */
int data_batch(const data *d, const ptrdiff_t *order, ptrdiff_t first, ptrdiff_t n, tensor x, tensor y);

#pragma GCC visibility pop

#endif
