/* pool.h: pooling, [N, C, H, W] -> [N, C, OH, OW]: each y is a function of a window of x, in one channel.
 *
 * A pooling is a layer type that is made of the functions of one window, which the README shows for a mean
 * with weights softmax(temperature x):
 *
 *     static const st_layer_type soft =
 *         ST_POOLING("soft", .parameter = "temperature", .value = value, .adjoint = adjoint);
 *     st_layer *l = st_pool(&soft, .kernel = { 2 });
 *
 * It is trained, saved, printed and checked as any other layer. This one has an option of its own:
 *
 *     typedef struct power_options {
 *         ST_WINDOW_OPTIONS;
 *         double p;
 *     } power_options;
 *     static const st_field power_fields[] = {
 *         ST_WINDOW_FIELDS(power_options),
 *         { ST_FIELD(REAL, power_options, p), .fallback = 2, .least = 1 },
 *         { 0 },
 *     };
 *     static st_real power_mean(const st_window *w)
 *     {
 *         const power_options *o = w->options;
 *         double sum = 0;
 *         for (ptrdiff_t i = 0; i < w->n; i++) sum += pow(fabs((double)w->x[i]), o->p);
 *         return (st_real)pow(sum / (double)w->n, 1 / o->p);
 *     }
 *     static const st_layer_type power =
 *         ST_POOLING_OF("power", power_options, power_fields, .value = power_mean);
 *     st_layer *l = st_layer_new(&power, &(power_options){ .kernel = { 2 }, .p = 3 }, 0, NULL);
 *
 * Without an adjoint, which a pooling that has parameters needs, its derivatives are differences. */
#ifndef STRIDE_LAYERS_POOL_H
#define STRIDE_LAYERS_POOL_H

#include "layers/layer.h"

ST_API_BEGIN

/* Options of windows. A kernel of 0 covers its whole axis. The stride defaults to the kernel. Each side is
 * padded by `padding`, and by pad_height = { top, bottom } and pad_width = { left, right } besides; the sum
 * must be less than the dilated kernel. ceil_mode also takes a last window that begins inside the image or
 * its left padding and extends beyond the right edge. */
#define ST_WINDOW_OPTIONS                                                                                    \
    int kernel[2], stride[2], padding[2], dilation[2];                                                       \
    bool ceil_mode;                                                                                          \
    int pad_height[2], pad_width[2]

/* Their fields, for the table of options that begin with them. */
#define ST_WINDOW_FIELDS(OPTIONS)                                                                            \
    { "kernel", ST_FIELD_PAIR, offsetof(OPTIONS, kernel), .square = true },                                  \
        { "stride", ST_FIELD_PAIR, offsetof(OPTIONS, stride), .square = true },                              \
        { "padding", ST_FIELD_PAIR, offsetof(OPTIONS, padding), .square = true },                            \
        { "dilation", ST_FIELD_PAIR, offsetof(OPTIONS, dilation), 1, 1, .square = true },                    \
        { "ceil_mode", ST_FIELD_BOOL, offsetof(OPTIONS, ceil_mode), .fallback = 0 },                         \
        { "pad_height", ST_FIELD_PAIR, offsetof(OPTIONS, pad_height), .fallback = 0 },                       \
    {                                                                                                        \
        "pad_width", ST_FIELD_PAIR, offsetof(OPTIONS, pad_width), .fallback = 0                              \
    }

/* The elements of a window that are not in the image: padding, and with ceil_mode what is beyond it. */
typedef enum st_pad_value {
    ST_PAD_DEFAULT, /* as the pooling says */
    ST_PAD_ZERO,    /* are zeros */
    ST_PAD_LOWEST   /* are left out, as -inf would be by a maximum: x has the elements in the image only.
                     * Own options may have a choice `pad_value` of this type, too */
} st_pad_value;

/* The options of a pooling that has no others. */
typedef struct st_pool_options {
    ST_WINDOW_OPTIONS;
    st_pad_value pad_value;
} st_pool_options;
extern const st_field st_pool_fields[];

/* A window. Parameters are those of its channel, and so are the sums to which the adjoint adds dy
 * (dy/dparameter), also for frozen parameters. Each thread has its own sums. */
typedef struct st_window {
    const void *options; /* the layer's */
    const st_real *x;    /* its elements, row by row */
    ptrdiff_t n; /* their number; 0: a dilated window whose elements are all padding that is left out */
    ptrdiff_t rows, columns;
    ptrdiff_t whole; /* elements in the image and its padding, also where x has no padding: an average's n */
    ptrdiff_t channel, row, column; /* its position in y[n] */
    const st_real *param[ST_LAYER_SLOTS];
    double *dparam[ST_LAYER_SLOTS];
    ptrdiff_t *room;   /* memory for n integers, undefined on entry, such as a permutation */
    bool training;     /* false: inference */
    st_random_key key; /* random numbers of this layer in this step, */
    uint64_t number;   /* and this window's counter: the same in both passes, whatever the threads */
} st_window;

/* A grid says how windows lie; its options are those that its comment names. */
typedef struct st_grid st_grid;
extern const st_grid st_regular_grid; /* the options of windows */

/* The functions of a pooling, which may run in several threads. */
typedef struct st_pooling {
    const char *
        parameter; /* the name of a number for each channel, which begins as `initial`; NULL: there is none */
    double initial;
    /* Requests other parameters, which have the shape [1] or [1, ...], one for all channels, or [C] or
     * [C, ...], one for each, and may refuse. They follow `parameter`. `largest` is the number of elements of
     * the largest window. NULL: there are no others. */
    int (*plan)(st_layer *l, ptrdiff_t channels, ptrdiff_t largest);
    st_real (*value)(const st_window *w);
    /* Writes all of dx[i] = dy (dy/dx[i]); dx is undefined before. NULL, if there are no parameters: central
     * differences, for prototypes. */
    void (*adjoint)(const st_window *w, st_real y, st_real dy, st_real *dx);
    const st_grid *grid;    /* NULL: the regular one */
    st_pad_value pad_value; /* the default of the option; ST_PAD_DEFAULT: ST_PAD_ZERO */
} st_pooling;

/* A layer type that is a pooling; a table outside functions. C++ has no compound literals: there the table's
 * member `pooling` is the address of a st_pooling with a name. */
#define ST_POOLING(NAME, ...) ST_POOLING_OF(NAME, st_pool_options, st_pool_fields, __VA_ARGS__)
#define ST_POOLING_OF(NAME, OPTIONS, FIELDS, ...)                                                            \
    {                                                                                                        \
        .name = NAME, .options_size = sizeof(OPTIONS), .fields = FIELDS, .plan = st_pool_plan,               \
        .forward = st_pool_forward, .backward = st_pool_backward, .gradient = st_pool_gradient,              \
        .pooling = &(const st_pooling)                                                                       \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

/* The hooks of these types. */
int st_pool_plan(st_layer *l, st_shape x, st_shape *y);
void st_pool_forward(const st_call *c, st_tensor x, st_tensor y);
void st_pool_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
void st_pool_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy);

/* A layer of such a type: st_pool(&soft, .kernel = { 3 }, .stride = { 2 }). */
st_layer *st_pool_new(const st_layer_type *type, st_pool_options options);
#define st_pool(...) ST_CALL(st_pool_new, st_pool_options, __VA_ARGS__)

ST_API_END

#endif
