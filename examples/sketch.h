/* sketch.h: images and bars in a terminal. */
#ifndef STRIDE_EXAMPLES_SKETCH_H
#define STRIDE_EXAMPLES_SKETCH_H

#include "tensor/tensor.h"

#include <stdbool.h>
#include <stdio.h>

/* An image [1, H, W] or [H, W] of 0 (dark) to 1 (bright), what lies outside cut. A character covers two
 * pixels, one above the other: in two greys where `colour`, otherwise their mean in ASCII. */
void sketch_image(FILE *to, tensor image, bool colour);

/* A line a value, 0 to 1: its label, a bar of at most `width` characters, percent. Line `highlight` (-1:
 * none) is marked. */
void sketch_bars(FILE *to, const char *const *labels, const double *values, int count, int width,
                 int highlight, bool colour);

/* A terminal that shows colours, and nobody objects (NO_COLOR: no-color.org). */
bool sketch_wants_colour(FILE *to);

#endif
