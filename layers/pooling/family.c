/* family.c: trained parameters of poolings, and the order of a window's elements. */
#include "layers/pooling/family.h"

#include <math.h>

int pooling_parameter(st_layer *l, const char *name, ptrdiff_t channels, st_shape shape, st_init init)
{
    if (layer_option(l, "per_channel") != 0) shape.n[0] = channels;
    return st_layer_parameter(l, name, shape, init);
}

static bool comes_first(const st_real *x, ptrdiff_t a, ptrdiff_t b)
{
    if (isnan(x[a]) || isnan(x[b])) return isnan(x[a]) && (!isnan(x[b]) || a < b);
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

/* Shell's sort: of few elements it is an insertion sort. */
const ptrdiff_t *window_order(const st_window *w)
{
    enum { SHORT = 16 };
    for (ptrdiff_t i = 0; i < w->n; i++) w->room[i] = i;
    for (ptrdiff_t gap = w->n > SHORT ? w->n / 2 : 1; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (ptrdiff_t i = gap; i < w->n; i++) {
            const ptrdiff_t moved = w->room[i];
            ptrdiff_t to = i;
            for (; to >= gap && comes_first(w->x, moved, w->room[to - gap]); to -= gap)
                w->room[to] = w->room[to - gap];
            w->room[to] = moved;
        }
    return w->room;
}

/* Hoare's selection. The pivots are drawn, so that no order of an image's elements makes it slow. */
ptrdiff_t window_nth(const st_window *w, ptrdiff_t k)
{
    ptrdiff_t *s = w->room, low = 0, high = w->n - 1;
    uint32_t drawn = 1;
    for (ptrdiff_t i = 0; i < w->n; i++) s[i] = i;
    while (low < high) {
        drawn = drawn * 1664525u + 1013904223u; /* Knuth's generator, as Numerical recipes has it */
        const ptrdiff_t pivot = s[low + (ptrdiff_t)(drawn >> 8) % (high - low + 1)];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (comes_first(w->x, s[i], pivot)) i++;
            while (comes_first(w->x, pivot, s[j])) j--;
            if (i > j) break;
            const ptrdiff_t moved = s[i];
            s[i++] = s[j], s[j--] = moved;
        }
        if (k > j && k < i) break;
        if (k <= j) high = j;
        else low = i;
    }
    return s[k];
}
