/* schedule.c: learning-rate schedules. */
#include "nn/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* From `from` at 0 to `to` at 1, along half a cosine. */
static double half_cosine(double from, double to, double at)
{
    return to + (from - to) * (1 + cos(pi * at)) / 2;
}

static double step_factor(const st_schedule *s, double step, double total, double per_epoch)
{
    (void)total;
    return pow(s->gamma, floor(step / (s->step_size * per_epoch)));
}

static double cosine_factor(const st_schedule *s, double step, double total, double per_epoch)
{
    (void)per_epoch;
    return half_cosine(1, s->end_factor, total > 0 ? fmin(step / total, 1) : 0);
}

static double one_cycle_factor(const st_schedule *s, double step, double total, double per_epoch)
{
    (void)per_epoch;
    double peak = s->pct_start * total - 1, end = total - 1, first = 1 / s->div_factor;
    double last = 1 / (s->div_factor * s->final_div_factor);
    if (step <= peak) return half_cosine(first, 1, peak > 0 ? step / peak : 1);
    return half_cosine(1, last, end > peak ? fmin((step - peak) / (end - peak), 1) : 1);
}

/* An option out of range sets the error here. */
static st_schedule checked(st_schedule s)
{
    st_options_resolve(s.name, s.fields, &s);
    return s;
}

st_schedule st_step_lr_new(st_step_lr_options options)
{
    static const st_field fields[] = {
        { "step_size", ST_FIELD_REAL, offsetof(st_schedule, step_size), .least = 1e-9 },
        { "gamma", ST_FIELD_REAL, offsetof(st_schedule, gamma), .least = 1e-30 },
        { 0 }
    };
    return checked((st_schedule){ "step", step_factor, .open_ended = true, .fields = fields,
                                  .step_size = options.step_size, .gamma = options.gamma });
}

st_schedule st_cosine_lr_new(st_cosine_lr_options options)
{
    static const st_field fields[] = {
        { "end_factor", ST_FIELD_REAL, offsetof(st_schedule, end_factor), .below = 1 + 0x1p-52 }, { 0 }
    };
    return checked(
        (st_schedule){ "cosine", cosine_factor, .fields = fields, .end_factor = options.end_factor });
}

st_schedule st_one_cycle_lr_new(st_one_cycle_lr_options options)
{
    static const st_field fields[] = {
        { "pct_start", ST_FIELD_REAL, offsetof(st_schedule, pct_start), .fallback = 0.3, .least = 1e-9,
          .below = 1 },
        { "div_factor", ST_FIELD_REAL, offsetof(st_schedule, div_factor), .fallback = 25, .least = 1 },
        { "final_div_factor", ST_FIELD_REAL, offsetof(st_schedule, final_div_factor), .fallback = 1e4,
          .least = 1 },
        { 0 },
    };
    return checked((st_schedule){ "one_cycle", one_cycle_factor, .fields = fields,
                                  .pct_start = options.pct_start, .div_factor = options.div_factor,
                                  .final_div_factor = options.final_div_factor });
}

st_schedule st_warmup_lr_new(st_warmup_lr_options options)
{
    if (options.steps < 0) st_error_set("st_warmup_lr: %ld steps, expected at least 0", options.steps);
    options.after.warmup = options.steps;
    return options.after;
}

double st_schedule_factor(const st_schedule *s, long step, long total, long per_epoch)
{
    if (s && step < s->warmup) return (double)(step + 1) / (double)(s->warmup + 1);
    if (!s || !s->factor) return 1;
    return s->factor(s, (double)(step - s->warmup), (double)(total - s->warmup), (double)per_epoch);
}
