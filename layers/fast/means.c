/* means.c: average pooling by 2×2 windows with stride 2, row by row, and of whole images. */
#include "layers/fast/algorithms.h"
#include "layers/lanes.h"
#include "layers/layers.h"
#include "layers/pool_impl.h"
#include "layers/types.h"
#include "tensor/sum.h"

#include <string.h>

/* ---- pairs: 2×2 windows with stride 2, the most common ones ------------------------------------------- */

static bool paired(const window *w)
{
    bool pairs = true;
    for (int axis = 0; axis < 2; axis++)
        pairs = pairs && w->kernel[axis] == 2 && w->stride[axis] == 2 && w->dilation[axis] == 1;
    return pairs && !window_padded(w);
}

INLINE void sum_pairs(int lanes, ptrdiff_t n, const st_real *up, const st_real *down, st_real *restrict y)
{
    for (ptrdiff_t begin = 0; begin < n; begin += lanes) {
        begin = lanes_within(begin, lanes, n);
        const st_real *a = up + 2 * begin, *b = down + 2 * begin;
        st_real *to = y + begin;
        for (int i = 0; i < lanes; i++)
            to[i] = ((a[2 * i] + b[2 * i]) + (a[2 * i + 1] + b[2 * i + 1])) * (st_real)0.25;
    }
}

INLINE void spread_pairs(int lanes, ptrdiff_t n, const st_real *dy, st_real *restrict up,
                         st_real *restrict down)
{
    for (ptrdiff_t begin = 0; begin < n; begin += lanes) {
        begin = lanes_within(begin, lanes, n);
        const st_real *from = dy + begin;
        st_real *a = up + 2 * begin, *b = down + 2 * begin;
#pragma GCC unroll 1 /* otherwise gcc unrolls the loop first and does not vectorise it */
        for (int i = 0; i < lanes; i++)
            a[2 * i] = a[2 * i + 1] = b[2 * i] = b[2 * i + 1] = from[i] * (st_real)0.25;
    }
}

/* A row shorter than a vector is computed as a whole vector: values beyond its end are overwritten by the
 * next one. The last rows are computed exactly, as nothing may be read or written beyond them. */
INLINE ptrdiff_t stretched(int lanes, ptrdiff_t n, ptrdiff_t left_small, ptrdiff_t left_large)
{
    return n < lanes && left_small >= lanes && left_large >= 2 * lanes ? lanes : n;
}

INLINE void forward_pairs(int lanes, const window *w, const st_real *x, const ptrdiff_t stride[2], st_real *y)
{
    const ptrdiff_t high = w->out[0], n = w->out[1], down = stride[0], right = stride[1];
    ptrdiff_t rows = w->size[0] - 1; /* from the lower row on */
    for (ptrdiff_t oh = 0; oh < high; oh++, rows -= 2, x += 2 * down, y += n) {
        ptrdiff_t count = stretched(lanes, n, (high - oh) * n, down == w->size[1] ? rows * down : 0);
        if (right == 1) BY_LANES(lanes, sum_pairs, count, x, x + down, y);
        for (ptrdiff_t i = 0; i < n && right != 1; i++) {
            const st_real *a = x + 2 * i * right, *b = a + down;
            y[i] = ((a[0] + b[0]) + (a[right] + b[right])) * (st_real)0.25;
        }
    }
}

INLINE void backward_pairs(int lanes, const window *w, const st_real *dy, st_real *dx)
{
    const ptrdiff_t n = w->out[1], wide = w->size[1];
    for (ptrdiff_t oh = 0; oh < w->out[0]; oh++, dy += n, dx += 2 * wide) {
        BY_LANES(lanes, spread_pairs, n, dy, dx, dx + wide);
        if (wide % 2) dx[wide - 1] = dx[2 * wide - 1] = 0;
    }
    if (w->size[0] % 2) memset(dx, 0, (size_t)wide * sizeof(st_real)); /* a last row in no window */
}

/* ---- whole images ------------------------------------------------------------------------------------- */

static bool whole(const window *w)
{
    return w->kernel[0] == w->size[0] && w->kernel[1] == w->size[1] && !window_padded(w);
}

INLINE st_real mean(const window *w, const st_real *x, const ptrdiff_t stride[2])
{
    const ptrdiff_t rows = w->size[0], n = w->size[1];
    const st_real weight = 1 / ((st_real)rows * (st_real)n);
    double sum = 0;
    if (stride[1] == 1 && stride[0] == n) return (st_real)sum_of_row(rows * n, x) * weight;
    for (ptrdiff_t h = 0; h < rows; h++, x += stride[0]) {
        if (stride[1] == 1) sum += sum_of_row(n, x);
        for (ptrdiff_t k = 0; k < n && stride[1] != 1; k++) sum += (double)x[k * stride[1]];
    }
    return (st_real)sum * weight;
}

INLINE void spread(const window *w, st_real dy, st_real *dx)
{
    const ptrdiff_t area = w->size[0] * w->size[1];
    const st_real part = dy * (1 / ((st_real)w->size[0] * (st_real)w->size[1]));
    for (ptrdiff_t i = 0; i < area; i++) dx[i] = part;
}

/* ---- channels, for each machine --------------------------------------------------------------------- */

#define STAMP(M)                                                                                             \
    M##_TARGET static void M##_forward(const window *w, st_tensor x, st_real *y)                             \
    {                                                                                                        \
        const st_real *image = st_data(x);                                                                   \
        for (ptrdiff_t i = 0; i < x.shape.n[0]; i++, image += x.stride[0])                                   \
            for (ptrdiff_t c = 0; c < x.shape.n[1]; c++, y += w->out[0] * w->out[1]) {                       \
                const st_real *channel = image + c * x.stride[1];                                            \
                if (paired(w)) forward_pairs(MACHINE_LANES(M), w, channel, x.stride + 2, y);                 \
                else *y = mean(w, channel, x.stride + 2);                                                    \
            }                                                                                                \
    }                                                                                                        \
    M##_TARGET static void M##_backward(const window *w, const st_real *dy, st_tensor dx)                    \
    {                                                                                                        \
        st_real *to = st_data(dx);                                                                           \
        for (ptrdiff_t k = dx.shape.n[0] * dx.shape.n[1]; k > 0; k--) {                                      \
            if (paired(w)) backward_pairs(MACHINE_LANES(M), w, dy, to);                                      \
            else spread(w, *dy, to);                                                                         \
            dy += w->out[0] * w->out[1], to += w->size[0] * w->size[1];                                      \
        }                                                                                                    \
    }

#define ROW_OF_TABLE(M) { M##_forward, M##_backward },

EACH_MACHINE(STAMP)
static const struct {
    void (*forward)(const window *w, st_tensor x, st_real *y);
    void (*backward)(const window *w, const st_real *dy, st_tensor dx);
} machines[] = { EACH_MACHINE(ROW_OF_TABLE) };

/* ---- the algorithm ---------------------------------------------------------------------------------- */

static bool suits(const st_layer *l)
{
    const window *w = &((const pool_plan *)l->plan)->w;
    return paired(w) || whole(w);
}

/* The plan's data are the window. */
static int plan(st_layer *l, const void *given)
{
    window *w = st_layer_plan_data(l, sizeof *w);
    if (w) *w = ((const pool_plan *)given)->w;
    return w ? 0 : -1;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    machines[c->layer->impl->machine].forward(c->plan, x, st_data(y));
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    machines[c->layer->impl->machine].backward(c->plan, st_data(dy), dx);
}

const layer_algorithm avgpool_vectors = {
    .type = &layer_type_avgpool,
    .suits = suits,
    .plan = plan,
    .hooks = { .forward = forward, .backward = backward },
};
