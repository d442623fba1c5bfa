/* shortest.c: see shortest.h. */
#include "tensor/print/shortest.h"

#include <stdio.h>
#include <stdlib.h>

int fewest_digits(double x, bool single, char form, int least, int most)
{
    char text[400]; /* DBL_MAX has 309 digits before the point */
    const double number = single ? (double)(float)x : x;
    int digits = least;
    for (; digits < most; digits++) {
        snprintf(text, sizeof text, form == 'e' ? "%.*e" : form == 'f' ? "%.*f" : "%.*g", digits, number);
        if (single ? (double)strtof(text, NULL) == number : strtod(text, NULL) == number) break;
    }
    return digits;
}
