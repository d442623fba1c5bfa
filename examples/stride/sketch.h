/* sketch.h: images, bars and curves in a terminal. */
#ifndef STRIDE_EXAMPLES_STRIDE_SKETCH_H
#define STRIDE_EXAMPLES_STRIDE_SKETCH_H

#include "tensor/tensor.h"

#include <stdbool.h>
#include <stdio.h>

/* An image [1, H, W] of 0 (dark) to 1 (bright), in 26 greys. A character shows two pixels, one above the
 * other. */
void sketch_image(FILE *to, st_tensor image);

/* A line per value, 0 to 1: its label, a bar of at most `width` characters, percent. The first one is marked. */
void sketch_bars(FILE *to, const char *const *labels, const double *values, int count, int width);

/* One line: "training loss ▇▅▃▂▁▁ 2.31 to 0.042", at most `width` columns, each the mean of several
 * values. */
void sketch_curve(FILE *to, const char *name, const double *values, int count, int width);

/* True for a terminal with colours, unless NO_COLOR is set (no-color.org). */
bool sketch_wants_colour(FILE *to);

#endif
