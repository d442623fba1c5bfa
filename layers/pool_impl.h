/* pool_impl.h: the plan's data of poolings, and their grids. */
#ifndef STRIDE_LAYERS_POOL_IMPL_H
#define STRIDE_LAYERS_POOL_IMPL_H

#include "layers/layer_impl.h"
#include "layers/pool.h"
#include "layers/window.h"
#include "tensor/counts.h"

/* The rows of a window, or its columns: first, first + dilation, ...; rows that are left out do not count.
 * `whole` counts those in the image and its padding. */
typedef struct pool_span {
    ptrdiff_t first, count, whole;
} pool_span;

typedef struct pool_plan {
    window w; /* of other grids than the regular one, the sizes and the largest kernel */
    ptrdiff_t channels;
    const st_pooling *kind;
    const st_grid *grid;
    bool zeros; /* padding elements are zeros; false: they are left out */
} pool_plan;

struct st_grid {
    int (*plan)(window *w, const st_layer *l, st_shape x); /* -1 with an error */
    /* Writes the spans of all windows along an axis. `at` has the options, the channel, the key, `training`
     * and the number of the channel in the batch; its other members are not set. */
    void (*spans)(const pool_plan *p, const st_window *at, int axis, pool_span *to);
};
extern const st_grid pool_adaptive_grid; /* the option output_size */

static inline pool_span pool_adaptive_span(ptrdiff_t i, ptrdiff_t size, ptrdiff_t out)
{
    const ptrdiff_t first = i * size / out, count = ceil_div((i + 1) * size, out) - first;
    return (pool_span){ first, count, count };
}

/* The number of elements of window `at`, along an axis, in the image, or in the image and its padding. */
int pool_counted(const window *w, int axis, ptrdiff_t at, bool exclude_pad);

/* Scratch for a number of another type, as so many st_reals. */
#define REALS_OF(TYPE) (ptrdiff_t)(sizeof(TYPE) / sizeof(st_real))

/* Requests the scratch that the definition needs, in its order. */
int pool_request_scratch(st_layer *l, const pool_plan *p);

/* A window of a channel of image i of the call, without its elements and place; its number is that of the
 * channel in the batch. The sums of its parameters are 0. */
st_window pool_channel(const st_call *c, ptrdiff_t image, ptrdiff_t channel);

/* Copies the elements of a window of x [H, W], row by row. */
void pool_copy_window(const pool_plan *p, pool_span rows, pool_span columns, st_tensor x, st_real *to);

/* The definition for one channel x [H, W] of image i of the call: y; and the adjoint, which overwrites dx
 * unless it is null, and with `gradient` adds to the parameters' gradients. */
void pool_forward_plane(const st_call *c, ptrdiff_t image, ptrdiff_t channel, st_tensor x, st_real *y);
void pool_adjoint_plane(const st_call *c, bool gradient, ptrdiff_t image, ptrdiff_t channel, st_tensor x,
                        const st_real *y, const st_real *dy, st_tensor dx);

/* The hooks st_pool_gradient and st_pool_backward in one pass. */
void pool_both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);

/* ---- kinds ------------------------------------------------------------------------------------------ */

/* The number, row by row, of the first maximum of rows x columns elements, or of the first NaN. Rows are
 * `down` apart, columns `right`. */
ptrdiff_t pool_peak(const st_real *x, ptrdiff_t rows, ptrdiff_t down, ptrdiff_t columns, ptrdiff_t right);

/* The index of a window's maximum; maximum pooling: y is the maximum, and dy goes to it. */
ptrdiff_t pool_maximum(const st_window *w);
st_real pool_max_value(const st_window *w);
void pool_max_adjoint(const st_window *w, st_real y, st_real dy, st_real *dx);

/* The weight of an element in a mean: 1 / count, or 0 for none. */
#define POOL_SHARE(count) ((count) > 0 ? 1 / (st_real)(count) : 0)

extern const char *const pool_pad_values[];
#define POOL_FIELD(NAME, KIND, OPTIONS, ...)                                                                 \
    {                                                                                                        \
        .name = #NAME, KIND, offsetof(OPTIONS, NAME), __VA_ARGS__                                            \
    }
#define POOL_PAD_VALUE_FIELD(OPTIONS)                                                                        \
    POOL_FIELD(pad_value, ST_FIELD_CHOICE, OPTIONS, .choices = pool_pad_values)

/* A type of the library with its constructor: with a plan and fields of its own; on the regular grid, with
 * one option besides those of windows; on the adaptive grid. */
#define POOLING(NAME, PLAN, FIELDS, ...)                                                                     \
    const st_layer_type layer_type_##NAME = {                                                                \
        .name = #NAME,                                                                                       \
        .options_size = sizeof(st_##NAME##_options),                                                         \
        .fields = FIELDS,                                                                                    \
        .plan = PLAN,                                                                                        \
        .forward = st_pool_forward,                                                                          \
        .backward = st_pool_backward,                                                                        \
        .gradient = st_pool_gradient,                                                                        \
        .pooling = &(const st_pooling){ __VA_ARGS__ },                                                       \
    };                                                                                                       \
    CONSTRUCTOR(NAME, st_##NAME##_options)

#define POOLING_BY_WINDOWS(NAME, PLAN, FIELD, ...)                                                           \
    static const st_field NAME##_fields[] = { ST_WINDOW_FIELDS(st_##NAME##_options), FIELD, { 0 } };         \
    POOLING(NAME, PLAN, NAME##_fields, __VA_ARGS__)

#define POOLING_TO_SIZE(NAME, ...)                                                                           \
    static const st_field NAME##_fields[] = {                                                                \
        POOL_FIELD(output_size, ST_FIELD_PAIR, st_##NAME##_options, .fallback = 1, .least = 1,               \
                   .square = true),                                                                          \
        { 0 },                                                                                               \
    };                                                                                                       \
    POOLING(NAME, st_pool_plan, NAME##_fields, .grid = &pool_adaptive_grid, __VA_ARGS__)

#endif
