/* reach.c: bounds of an optimizer's steps, and the trial of one that they do not vouch for. */
#include "nn/watch/reach.h"
#include "tensor/parallel.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/* ---- the greatest element ------------------------------------------------------------------------------- */

/* Without its sign, the bits of a number grow with it, and those of NaN are beyond infinity's. */
#ifdef STRIDE_DOUBLE
typedef int64_t magnitude;
static const magnitude ALL_BUT_SIGN = INT64_MAX;
#else
typedef int32_t magnitude;
static const magnitude ALL_BUT_SIGN = INT32_MAX;
#endif

static magnitude magnitude_of(const real *x)
{
    magnitude bits;
    memcpy(&bits, x, sizeof bits);
    return bits & ALL_BUT_SIGN;
}

enum { LANES = 32 }; /* whose maxima need not wait for each other */

static magnitude greatest_of(ptrdiff_t n, const real *x)
{
    magnitude lane[LANES] = { 0 };
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            magnitude m = magnitude_of(x + i + k);
            lane[k] = m > lane[k] ? m : lane[k];
        }
    for (int k = 0; i < n; i++, k++) {
        magnitude m = magnitude_of(x + i);
        lane[k] = m > lane[k] ? m : lane[k];
    }
    for (int k = 1; k < LANES; k++) lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
    return lane[0];
}

enum { PART = 1 << 16 }; /* elements that are worth a thread */

typedef struct scan {
    ptrdiff_t count;
    const real *x;
    _Atomic magnitude greatest;
} scan;

static void scan_part(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    scan *s = context;
    ptrdiff_t first = i * PART, left = s->count - first;
    magnitude greatest = greatest_of(left < PART ? left : PART, s->x + first);
    magnitude before = s->greatest;
    while (greatest > before && !atomic_compare_exchange_weak(&s->greatest, &before, greatest)) continue;
}

double reach_greatest(tensor flat)
{
    scan s = { tensor_count(flat), tensor_data(flat), 0 };
    parallel_for(parallel_threads(), (s.count + PART - 1) / PART, scan_part, &s);
    magnitude bits = s.greatest;
    real greatest;
    memcpy(&greatest, &bits, sizeof greatest);
    return (double)greatest;
}

/* ---- bounds --------------------------------------------------------------------------------------------- */

static void measure(reach *r, const optim *o, tensor parameters)
{
    r->most[0] = reach_greatest(parameters);
    for (int i = 0; i < o->states; i++) r->most[1 + i] = reach_greatest(o->state[i]);
    r->known = true;
}

/* Whether a step surely stays finite; then its bounds are those after it. Half of what there is, and a little more each
 * time, are for rounding. */
static bool stays_within(reach *r, const optim *o, double lr, double greatest)
{
    double most[1 + OPTIM_STATES];
    bool usable = lr < (double)REAL_MAX * (double)REAL_EPSILON; /* else the rate itself may overflow */
    if (!o->reach || !usable) return false;
    memcpy(most, r->most, sizeof most);
    o->reach(o, lr, greatest, most);
    for (int i = 0; i <= o->states; i++) {
        most[i] *= 1 + 8 * (double)REAL_EPSILON;
        if (!(most[i] < (double)REAL_MAX / 2)) return false;
    }
    memcpy(r->most, most, sizeof most);
    return true;
}

/* ---- a trial -------------------------------------------------------------------------------------------- */

/* Of an optimizer like o on `count` of its parameters, from `first` on, in `room` [1 + states, PART]. */
static void try_part(const optim *o, double lr, ptrdiff_t first, ptrdiff_t count, const real *w,
                     const real *g, tensor room, overflow *bad)
{
    optim trial = *o;
    real *to = tensor_data(room);
    memcpy(to, w + first, (size_t)count * sizeof *to);
    for (int i = 0; i < o->states; i++) {
        trial.state[i] = tensor_select(room, 0, 1 + i);
        memcpy(tensor_data(trial.state[i]), tensor_data(o->state[i]) + first, (size_t)count * sizeof *to);
    }
    trial.step(&trial, lr, 0, count, to, g + first);
    for (ptrdiff_t k = 0; k < count; k++)
        for (int i = 0; i <= o->states; i++) {
            real value = *tensor_at(room, INDEX(i, k));
            if (isfinite(value)) continue;
            *bad = (overflow){ true, first + k, i - 1, value };
            return;
        }
}

static int try_step(const optim *o, double lr, tensor parameters, tensor gradients, overflow *bad)
{
    ptrdiff_t n = tensor_count(parameters);
    tensor room = tensor_new(SHAPE(1 + o->states, n < PART ? n : PART));
    if (tensor_is_null(room)) return -1;
    for (ptrdiff_t first = 0; first < n && !bad->found; first += PART)
        try_part(o, lr, first, n - first < PART ? n - first : PART, tensor_data(parameters),
                 tensor_data(gradients), room, bad);
    tensor_free(room);
    return 0;
}

int reach_step(reach *r, optim *o, double lr, tensor parameters, tensor gradients, double greatest,
               overflow *bad)
{
    *bad = (overflow){ 0 };
    if (optim_build(o, tensor_count(parameters))) return -1;
    if (!r->known) measure(r, o, parameters);
    r->known = stays_within(r, o, lr, greatest);
    if (!r->known && (try_step(o, lr, parameters, gradients, bad) || bad->found)) return bad->found ? 0 : -1;
    return optim_step(o, lr, parameters, gradients);
}
