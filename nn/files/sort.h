/* sort.h: sorting where it stands. */
#ifndef STRIDE_NN_FILES_SORT_H
#define STRIDE_NN_FILES_SORT_H

#include <stddef.h>

/* As qsort, but in no memory and in n log n steps whatever is sorted, which qsort does not promise. */
void sort_in_place(void *base, size_t count, size_t size, int (*order)(const void *a, const void *b));

#endif
