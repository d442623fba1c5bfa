/* data.h: where samples come from: anything that can write sample i into a tensor. */
#ifndef STRIDE_NN_DATA_H
#define STRIDE_NN_DATA_H

#include "tensor/error.h"
#include "tensor/tensor.h"

typedef struct data data;
struct data {
    ptrdiff_t count; /* samples */
    shape x, y;      /* of one sample: an image [C, H, W]; a class is a single number, rank 0 */

    /* Writes sample i, 0 <= i < count, into x and y, views of the shapes above. */
    void (*get)(const data *d, ptrdiff_t i, tensor x, tensor y);
    void (*release)(data *d); /* frees what `own` holds; NULL: nothing */
    void *own;
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

/* `count` samples from `first` on, of a set that the caller keeps alive: a training and a validation
 * part. */
data *data_slice(const data *of, ptrdiff_t first, ptrdiff_t count);

/* Samples order[0 … n-1] (NULL: first, first+1, …) into x [n, ...] and y [n, ...]. */
int data_batch(const data *d, const ptrdiff_t *order, ptrdiff_t first, ptrdiff_t n, tensor x, tensor y);

#endif
