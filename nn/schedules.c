/* schedules.c: the schedules of the library. */
#include "nn/schedules.h"

#include <math.h>

/* From `from` at 0 to `to` at 1, along half a cosine. */
static double half_cosine(double from, double to, double at)
{
    const double pi = 3.14159265358979323846;
    return to + (from - to) * (1 + cos(pi * at)) / 2;
}

/* The kind NAME, and its constructor. */
#define SCHEDULE(NAME, OPEN_ENDED)                                                                           \
    static const st_schedule_kind NAME##_kind = { #NAME, sizeof(st_##NAME##_lr_options), NAME##_fields,      \
                                                  OPEN_ENDED, NAME##_factor };                               \
    st_schedule st_##NAME##_lr_new(st_##NAME##_lr_options options)                                           \
    {                                                                                                        \
        return st_schedule_new(&NAME##_kind, &options);                                                      \
    }

static double step_factor(const void *options, double step, double total, double per_epoch)
{
    (void)total;
    const st_step_lr_options *o = options;
    return pow(o->gamma, floor(step / (o->step_size * per_epoch)));
}

static const st_field step_fields[] = {
    { ST_FIELD(REAL, st_step_lr_options, step_size), .least = 1e-9 },
    { ST_FIELD(REAL, st_step_lr_options, gamma), .least = 1e-30 },
    { 0 },
};
SCHEDULE(step, true)

static double cosine_factor(const void *options, double step, double total, double per_epoch)
{
    (void)per_epoch;
    const st_cosine_lr_options *o = options;
    return half_cosine(1, o->end_factor, total > 0 ? fmin(step / total, 1) : 0);
}

static const st_field cosine_fields[] = {
    { ST_FIELD(REAL, st_cosine_lr_options, end_factor), .below = 1 + 0x1p-52 },
    { 0 },
};
SCHEDULE(cosine, false)

static double one_cycle_factor(const void *options, double step, double total, double per_epoch)
{
    (void)per_epoch;
    const st_one_cycle_lr_options *o = options;
    double peak = o->pct_start * total - 1, end = total - 1, first = 1 / o->div_factor;
    double last = 1 / (o->div_factor * o->final_div_factor);
    if (step <= peak) return half_cosine(first, 1, peak > 0 ? step / peak : 1);
    return half_cosine(1, last, end > peak ? fmin((step - peak) / (end - peak), 1) : 1);
}

static const st_field one_cycle_fields[] = {
    { ST_FIELD(REAL, st_one_cycle_lr_options, pct_start), .fallback = 0.3, .least = 1e-9, .below = 1 },
    { ST_FIELD(REAL, st_one_cycle_lr_options, div_factor), .fallback = 25, .least = 1 },
    { ST_FIELD(REAL, st_one_cycle_lr_options, final_div_factor), .fallback = 1e4, .least = 1 },
    { 0 },
};
SCHEDULE(one_cycle, false)

st_schedule st_warmup_lr_new(st_warmup_lr_options options)
{
    if (options.steps < 0) st_error_set("st_warmup_lr: %ld steps, expected at least 0", options.steps);
    options.after.warmup = options.steps;
    return options.after;
}

const st_schedule_kind *const st_schedule_kinds[] = { &step_kind, &cosine_kind, &one_cycle_kind, NULL };
