/* images.h: pictures from PNG and JPEG files.
 *
 * Pixels are 0 to 1, of 1 channel (grey) or 3 (red, green, blue). Palettes are looked up, CMYK becomes RGB,
 * transparent pixels are laid on black. PNG needs libpng and JPEG TurboJPEG when this is built; without them a
 * file of that kind is an error that says so. */
#ifndef STRIDE_EXAMPLES_STRIDE_IMAGES_H
#define STRIDE_EXAMPLES_STRIDE_IMAGES_H

#include "tensor/error.h"
#include "tensor/tensor.h"

#include <stdbool.h>

/* True for a file name that ends in .png, .jpg or .jpeg. */
bool image_named(const char *path);

/* A new tensor [C, H, W]. Null, with an error that names the file: missing, broken, cut off, of no kind
 * known. */
st_tensor image_read(const char *path);

/* A new tensor [channels, height, width] of an image [C, H, W]; 0: as it is. Grey is given to all three
 * channels; of three the luminance is taken (ITU-R BT.601). Sizes are changed by bilinear interpolation,
 * which averages over what a pixel covers where the image becomes smaller. */
st_tensor image_fit(st_tensor image, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width);

#endif
