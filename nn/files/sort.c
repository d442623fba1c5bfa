/* sort.c: a heap, the greatest first, from which the rest is filled from its end. J. W. J. Williams: Algorithm 232,
 * 1964. */
#include "nn/files/sort.h"

#include <stdbool.h>

typedef struct heap {
    char *base;
    size_t count, size;
    int (*order)(const void *a, const void *b);
} heap;

static char *at(const heap *h, size_t i)
{
    return h->base + i * h->size;
}

static void swap(const heap *h, size_t i, size_t k)
{
    char *a = at(h, i), *b = at(h, k);
    for (size_t n = 0; n < h->size; n++) {
        char kept = a[n];
        a[n] = b[n];
        b[n] = kept;
    }
}

/* Down from i, until neither child is greater. */
static void sift(const heap *h, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && h->order(at(h, child), at(h, child + 1)) < 0) child++;
        if (h->order(at(h, i), at(h, child)) >= 0) return;
        swap(h, i, child);
    }
}

static bool is_sorted(const heap *h)
{
    for (size_t i = 1; i < h->count; i++)
        if (h->order(at(h, i - 1), at(h, i)) > 0) return false;
    return true;
}

void sort_in_place(void *base, size_t count, size_t size, int (*order)(const void *a, const void *b))
{
    heap h = { base, count, size, order };
    if (is_sorted(&h)) return;
    for (size_t i = count / 2; i-- > 0;) sift(&h, i);
    while (h.count > 1) {
        swap(&h, 0, --h.count);
        sift(&h, 0);
    }
}
