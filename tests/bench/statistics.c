/* statistics.c: see statistics.h. */
#include "tests/bench/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the sorted numbers, linearly: share 0 is the least, 1 the greatest. */
static double quantile(const double *value, int count, double share)
{
    double sorted[STATISTICS_MOST];
    if (count < 1 || count > STATISTICS_MOST) return NAN;
    memcpy(sorted, value, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    double place = share * (count - 1);
    int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

double median(const double *value, int count)
{
    return quantile(value, count, 0.5);
}

double spread(const double *value, int count)
{
    return (quantile(value, count, 0.75) - quantile(value, count, 0.25)) / median(value, count);
}

double geometric_mean(const double *value, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) sum += log(value[i]);
    return count > 0 ? exp(sum / count) : NAN;
}
