/* cifar.h: CIFAR-10's binary files. */
#ifndef STRIDE_NN_DATA_CIFAR_H
#define STRIDE_NN_DATA_CIFAR_H

#include "nn/data.h"

ST_API_BEGIN

/* One set from several files, plain or gzipped: records of a byte for the class, 0 to 9, and 3072 for the
 * image. x is [3, 32, 32], red, green and blue, 0..255 scaled to 0..1; y is the class. NULL with an error
 * that names the file and the record that is truncated or has another class. */
st_dataset *st_dataset_cifar10(const char *const *paths, int count);

ST_API_END

#endif
