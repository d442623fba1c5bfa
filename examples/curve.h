/* curve.h: curves over epochs, in a terminal and in a file. */
#ifndef STRIDE_EXAMPLES_CURVE_H
#define STRIDE_EXAMPLES_CURVE_H

#include <stdio.h>

/* Values at epochs 1, 2, …, above 0; others are left out. */
typedef struct curve {
    const char *name; /* a word; its first letter marks it in a terminal */
    const double *values;
    int count;
} curve;

enum { MOST_CURVES = 4 };

/* On a logarithmic axis, `width` by `height` characters and the axes, or as wide as the terminal is; in colour where
 * that is wanted (sketch_wants_colour). */
void curve_sketch(FILE *to, const char *title, const curve *curves, int count, int width, int height);

/* The same as a drawing. 0, or -1 with an error that names the file. */
int curve_svg(const char *path, const char *title, const curve *curves, int count);

#endif
