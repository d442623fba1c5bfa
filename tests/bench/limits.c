/* limits.c: see limits.h. */
#include "tests/bench/limits.h"
#include "tests/bench/peak.h"

#include <math.h>
#include <string.h>

static bool is_copy(const subject *s)
{
    return strcmp(s->process, "machine") == 0 && s->bytes > 0;
}

/* Bytes a second of the fastest copy of that size. */
static double rate_of(const campaign *c, int threads, double size)
{
    double most = 0;
    for (int i = 0; i < c->subject_count; i++)
        if (is_copy(&c->subjects[i]) && c->subjects[i].bytes == size)
            most = fmax(most, size / campaign_best(c, (cell){ i, threads, 0 }));
    return most;
}

/* Bytes a second of a copy that reads and writes so many in all. */
static double copy_rate(const campaign *c, int threads, double bytes)
{
    double below = 0, above = INFINITY; /* the nearest sizes that were measured */
    for (int i = 0; i < c->subject_count; i++) {
        const double size = c->subjects[i].bytes;
        if (is_copy(&c->subjects[i]) && size <= bytes) below = fmax(below, size);
        if (is_copy(&c->subjects[i]) && size >= bytes) above = fmin(above, size);
    }
    if (below == 0) return rate_of(c, threads, above);
    if (isinf(above) || below == above) return rate_of(c, threads, below);
    const double share = log(bytes / below) / log(above / below);
    return (1 - share) * rate_of(c, threads, below) + share * rate_of(c, threads, above);
}

double limit_seconds(const campaign *c, cell at)
{
    const subject *s = &c->subjects[at.subject];
    const int fma = campaign_find(c, "fma", "run");
    if (fma < 0 || s->bytes == 0) return 0;
    const double threads = c->threads[at.threads];
    const double peak = peak_flops * threads / campaign_best(c, (cell){ fma, at.threads, 0 });
    return fmax(s->flops / peak, s->bytes / copy_rate(c, at.threads, s->bytes));
}
