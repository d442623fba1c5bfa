/* schedule.c: factors of the learning rate. */
#include "nn/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* From `from` at 0 to `to` at 1, along half a cosine. */
static double half_cosine(double from, double to, double at)
{
    return to + (from - to) * (1 + cos(pi * at)) / 2;
}

static double step_factor(const schedule *s, double step, double total, double per_epoch)
{
    (void)total;
    return pow(s->gamma, floor(step / (s->every * per_epoch)));
}

static double cosine_factor(const schedule *s, double step, double total, double per_epoch)
{
    (void)per_epoch;
    return half_cosine(1, s->least, total > 0 ? fmin(step / total, 1) : 0);
}

static double one_cycle_factor(const schedule *s, double step, double total, double per_epoch)
{
    (void)per_epoch;
    double peak = s->rise * total - 1, end = total - 1;
    if (step <= peak) return half_cosine(s->first, 1, peak > 0 ? step / peak : 1);
    return half_cosine(1, s->last, end > peak ? fmin((step - peak) / (end - peak), 1) : 1);
}

schedule schedule_constant(void)
{
    return (schedule){ 0 };
}

schedule schedule_step(double epochs, double gamma)
{
    return (schedule){ .name = "step", .factor = step_factor, .every = epochs, .gamma = gamma };
}

schedule schedule_cosine(double least)
{
    return (schedule){ .name = "cosine", .factor = cosine_factor, .least = least };
}

schedule schedule_one_cycle(one_cycle options)
{
    double divisor = options.divisor == 0 ? 25 : options.divisor;
    double final_divisor = options.final_divisor == 0 ? 1e4 : options.final_divisor;
    return (schedule){ .name = "one_cycle",
                       .factor = one_cycle_factor,
                       .rise = options.rise == 0 ? 0.3 : options.rise,
                       .first = 1 / divisor,
                       .last = 1 / (divisor * final_divisor) };
}

schedule schedule_warmup(long steps, schedule after)
{
    after.warmup = steps;
    return after;
}

double schedule_factor(const schedule *s, long step, long total, long per_epoch)
{
    if (step < s->warmup) return (double)(step + 1) / (double)(s->warmup + 1);
    if (!s->factor) return 1;
    return s->factor(s, (double)(step - s->warmup), (double)(total - s->warmup), (double)per_epoch);
}

static int refuse(const char *name, double value, const char *expected)
{
    return error_set("schedule: %s is %g, expected %s", name, value, expected);
}

int schedule_check(const schedule *s)
{
    if (s->warmup < 0) return refuse("warm-up", (double)s->warmup, "at least 0 steps");
    if (s->factor == step_factor) {
        if (!(s->every > 0) || !isfinite(s->every)) return refuse("epochs", s->every, "above 0");
        if (!(s->gamma > 0) || !isfinite(s->gamma)) return refuse("gamma", s->gamma, "above 0");
    }
    if (s->factor == cosine_factor && !(s->least >= 0 && s->least <= 1))
        return refuse("least", s->least, "0 to 1");
    if (s->factor == one_cycle_factor) {
        if (!(s->rise > 0 && s->rise < 1)) return refuse("rise", s->rise, "between 0 and 1");
        if (!(s->first > 0 && s->first <= 1)) return refuse("divisor", 1 / s->first, "at least 1");
        if (!(s->last > 0 && s->last <= s->first))
            return refuse("final divisor", s->first / s->last, "at least 1");
    }
    return 0;
}
