/* sketch.h: pictures and bars on a terminal, and the progress of what takes long. */
#ifndef STRIDE_EXAMPLES_STRIDE_SKETCH_H
#define STRIDE_EXAMPLES_STRIDE_SKETCH_H

#include "tensor/tensor.h"

#include <stdbool.h>
#include <stdio.h>

/* True for a terminal that draws, and with colours: unless NO_COLOR is set (no-color.org). */
bool sketch_on_terminal(FILE *to);
bool sketch_in_colour(FILE *to);
int sketch_columns(FILE *to); /* 80: not known */

/* An image [1 or 3, H, W] of 0 (dark) to 1 (bright), in the 256 colours of a terminal; a character shows two
 * pixels, one above the other. */
void sketch_image(FILE *to, st_tensor image);

/* A line for each value, 0 to 1: its label, which is printable, a bar of at most `width` characters, percent.
 * Narrower on a terminal that has no room for it. In colour the first one is marked. */
void sketch_bars(FILE *to, bool colour, const char *const *labels, const double *values, int count,
                 int width);

/* Progress of what may take long: from the first second on it is redrawn on a terminal; elsewhere it is a
 * line every ten seconds. */
typedef struct sketch_progress {
    FILE *to; /* NULL: none */
    const char *what;
    double begun, shown; /* seconds */
    bool terminal;
} sketch_progress;
sketch_progress sketch_begin(FILE *to, const char *what);
void sketch_step(sketch_progress *p, ptrdiff_t done, ptrdiff_t of); /* of 0: not known */
void sketch_erase(sketch_progress *p);                              /* before other output, and at the end */

#endif
