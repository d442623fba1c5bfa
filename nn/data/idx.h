/* idx.h: pairs of IDX files, the format of LeCun's MNIST. */
#ifndef STRIDE_NN_DATA_IDX_H
#define STRIDE_NN_DATA_IDX_H

#include "nn/data.h"

ST_API_BEGIN

/* Images of rank 3, or 4 with channels, and labels of rank 1, of unsigned bytes; plain or gzipped. x is [C,
 * H, W] with pixels 0..255 scaled to 0..1; y is the class. Pixels are stored as bytes and converted when
 * loaded. NULL with an error that names the file: missing, truncated, too long, of another type, or different
 * numbers of images and labels. */
st_dataset *st_dataset_idx(const char *images, const char *labels);

ST_API_END

#endif
