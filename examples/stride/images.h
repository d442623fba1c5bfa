/* images.h: pictures from PNG and JPEG files.
 *
 * Pixels are 0 to 1, of 1 channel (grey) or 3 (red, green, blue). Palettes are expanded, CMYK becomes RGB,
 * transparent pixels are blended with black. PNG needs libpng and JPEG TurboJPEG when this is built;
 * without them reading such a file is an error. */
#ifndef STRIDE_EXAMPLES_STRIDE_IMAGES_H
#define STRIDE_EXAMPLES_STRIDE_IMAGES_H

#include "tensor/error.h"
#include "tensor/tensor.h"

#include <stdbool.h>

/* True for a file name that ends in .png, .jpg or .jpeg. */
bool image_named(const char *path);

/* A new tensor [C, H, W]. Null with an error that names the file: missing, broken, truncated, neither PNG
 * nor JPEG. */
st_tensor image_read(const char *path);

/* A new tensor [channels, height, width] from an image [C, H, W]; 0: unchanged. Grey is copied to three
 * channels; three channels become grey by luminance (ITU-R BT.601). Sizes change by bilinear
 * interpolation, which averages when shrinking. */
st_tensor image_fit(st_tensor image, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width);

#endif
