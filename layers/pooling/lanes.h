/* lanes.h: poolings of many windows at once: loops over lanes inside, which become vectors.
 *
 * The functions of one window remain the definition: they compute what is left over at edges, and everything
 * with STRIDE_ENGINE=reference. */
#ifndef STRIDE_LAYERS_POOLING_LANES_H
#define STRIDE_LAYERS_POOLING_LANES_H

#include "layers/pooling/family.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Windows of as many elements, all in the image: x[i][k] is element i of window k. */
enum { POOL_LANES = 16 };
typedef st_real lanes[POOL_LANES];

/* The functions of a window, and of POOL_LANES at once. Of w, x and column are not for them. Lanes without a
 * window repeat one, with a dy of 0. */
typedef struct lanes_pooling {
    st_pooling one; /* first, so that a pointer to it is one to all */
    void (*values)(const st_window *w, const lanes *x, st_real *y);
    void (*adjoints)(const st_window *w, const lanes *x, const st_real *y, const st_real *dy, lanes *dx);
    bool (*suits)(const st_window *w); /* tests if the channel's parameters do; NULL: all */
} lanes_pooling;

int lanes_plan(st_layer *l, st_shape x, st_shape *y);
void lanes_forward(const st_call *c, st_tensor x, st_tensor y);
void lanes_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
void lanes_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy);

/* A type and its constructor: NAME, its fields, the functions of many windows, `suits`, and those of one. */
#define POOLING_BY_LANES(NAME, FIELDS, VALUES, ADJOINTS, SUITS, ...)                                         \
    static const lanes_pooling NAME##_kind = { { __VA_ARGS__ }, VALUES, ADJOINTS, SUITS };                   \
    const st_layer_type layer_type_##NAME = {                                                                \
        .name = #NAME,                                                                                       \
        .options_size = sizeof(st_##NAME##_options),                                                         \
        .fields = FIELDS,                                                                                    \
        .plan = lanes_plan,                                                                                  \
        .forward = lanes_forward,                                                                            \
        .backward = lanes_backward,                                                                          \
        .gradient = lanes_gradient,                                                                          \
        .pooling = &NAME##_kind.one,                                                                         \
    };                                                                                                       \
    CONSTRUCTOR(NAME, st_##NAME##_options)

/* gcc would unroll the loop first, and not make vectors of it. */
#define EACH_LANE(k) _Pragma("GCC unroll 1") for (int k = 0; k < POOL_LANES; k++)

/* exp(x), to two units in the last place, of any x that exp makes a normal number of: 2^n exp(r) with |r| at
 * most log(2) / 2, by Taylor's series. */
static inline st_real lane_exp(st_real x)
{
#ifdef STRIDE_DOUBLE
    return exp(x);
#else
    const float magic = 0x1.8p23f; /* rounds what is added to it */
    x = x < -87 ? -87 : x > 88 ? 88 : x;
    const float shifted = x * 0x1.715476p0f + magic, n = shifted - magic;
    const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f; /* log 2 in two parts */
    const float power =
        1 + r * (1 + r * (1 / 2.f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r * (1 / 720.f))))));
    uint32_t bits;
    float scale;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4b400000 + 127) << 23; /* 0x4b400000 is magic */
    memcpy(&scale, &bits, sizeof scale);
    return power * scale;
#endif
}

/* log(x) of an x above 0, to two units in the last place, and a number of 0: n log(2) + log(m), m about
 * 1, by the series of artanh((m - 1) / (m + 1)). */
static inline st_real lane_log(st_real x)
{
#ifdef STRIDE_DOUBLE
    return log(x < DBL_MIN ? DBL_MIN : x);
#else
    uint32_t bits;
    float m;
    memcpy(&bits, &x, sizeof bits);
    const int32_t n = (int32_t)(bits - 0x3f3504f3) >> 23; /* m is from sqrt(1/2) on */
    bits -= (uint32_t)n << 23;
    memcpy(&m, &bits, sizeof m);
    const float s = (m - 1) / (m + 1), t = s * s;
    return (float)n * 0x1.62e430p-1f +
           2 * s * (1 + t * (1 / 3.f + t * (1 / 5.f + t * (1 / 7.f + t * (1 / 9.f)))));
#endif
}

/* The maximum of each window, or its first NaN; unless `place` is NULL, the number of the element. */
static inline void lanes_maximum(const st_window *w, const lanes *x, st_real *most, st_real *place)
{
    EACH_LANE(k) most[k] = x[0][k];
    if (place) {
        EACH_LANE(k) place[k] = 0;
    }
    for (ptrdiff_t i = 1; i < w->n; i++) {
        if (place) EACH_LANE(k) place[k] = x[i][k] <= most[k] || most[k] != most[k] ? place[k] : (st_real)i;
        EACH_LANE(k) most[k] = x[i][k] <= most[k] || most[k] != most[k] ? most[k] : x[i][k];
    }
}

static inline void lanes_sum(const st_window *w, const lanes *x, st_real *sum)
{
    EACH_LANE(k) sum[k] = 0;
    for (ptrdiff_t i = 0; i < w->n; i++) EACH_LANE(k) sum[k] += x[i][k];
}

/* Those of a maximum. */
void lanes_max_values(const st_window *w, const lanes *x, st_real *y);
void lanes_max_adjoints(const st_window *w, const lanes *x, const st_real *y, const st_real *dy, lanes *dx);

#endif
