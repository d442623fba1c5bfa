/* outline.c: see outline.h. */
#include "tests/bench/outline.h"

#include <math.h>
#include <stdio.h>

void outline_print(const char *shape, const float *value, size_t count)
{
    double largest = 0, product = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)value[i]) <= largest)) largest = fabs((double)value[i]); /* also a NaN */
        product += (double)value[i] * pattern(i, 1);
    }
    printf("output %s %.9g %.9g", shape, largest, product);
    for (size_t k = 0; k < OUTLINE; k++)
        printf(" %.9g", count ? (double)value[k * (count - 1) / (OUTLINE - 1)] : 0);
    printf("\n");
}
