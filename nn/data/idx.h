/* idx.h: pairs of IDX files, the format of LeCun's MNIST. */
#ifndef STRIDE_NN_DATA_IDX_H
#define STRIDE_NN_DATA_IDX_H

#include "nn/data.h"

ST_API_BEGIN

/* Images of rank 3, or 4 with channels, and labels of rank 1, of unsigned bytes, plain or gzipped. x is [C, H, W] with
 * pixels 0..255 scaled to 0..1; y is the class. Bytes are kept and converted when they are asked for. NULL with an error
 * that names the file where one is missing, truncated, too long or of another type, or where the two do not agree. */
st_dataset *st_dataset_idx(const char *images, const char *labels);

ST_API_END

#endif
