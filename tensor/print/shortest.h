/* shortest.h: how many digits of a number read back exactly. */
#ifndef STRIDE_TENSOR_PRINT_SHORTEST_H
#define STRIDE_TENSOR_PRINT_SHORTEST_H

#include <stdbool.h>

/* The least number of digits, from `least` to `most`, with which printf's e, f or g writes a text that reads
 * back as x, or as (float)x if `single`; `most` if there is none. As g writes no trailing zeros, `least` may
 * be FLT_DIG or DBL_DIG for it: that saves time, and changes the text of subnormal numbers alone. */
int fewest_digits(double x, bool single, char form, int least, int most);

#endif
