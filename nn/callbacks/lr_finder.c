/* lr_finder.c: finds a learning rate by raising it: Smith 2017.
 *
 * Rises and falls of the loss are compared with each other and with its noise, the mean difference between
 * two steps: a constant added to the loss, or a loss below zero, changes nothing. */
#include "nn/callbacks/callbacks.h"
#include "tensor/array.h"
#include "tensor/counts.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const st_field fields[] = {
    { ST_FIELD(REAL, st_lr_finder_options, least), .fallback = 1e-7, .least = 1e-30 },
    { ST_FIELD(REAL, st_lr_finder_options, most), .fallback = 10, .least = 1e-30 },
    { ST_FIELD(INT, st_lr_finder_options, steps), .fallback = 300, .least = 10 },
    { 0 },
};

typedef struct rate_search {
    int taken, lowest;          /* steps; where `smoothed` is lowest */
    double *smoothed;           /* losses, by step */
    double average, last;       /* of the losses; the last one */
    double jump, wander, noise; /* the last difference; the sum of them; their mean up to the lowest */
    bool exploded;
    st_tensor parameters, states, optim[ST_OPTIM_STATES]; /* to be restored */
    uint64_t net_step;
    long optim_steps;
} rate_search;

static void begin(st_callback *self, st_run *run)
{
    const st_lr_finder_options *o = (const void *)&self->options;
    rate_search *m = self->context;
    if (!o->lr || o->most <= o->least)
        st_error_set("lr_finder: lr is NULL, or most %g is not above least %g", o->most, o->least);
    m->smoothed = array_new("lr_finder", o->steps, sizeof *m->smoothed);
    m->parameters = st_tensor_clone(st_net_parameters(run->net));
    m->states = st_tensor_clone(st_net_states(run->net));
    for (int i = 0; i < run->optim->states; i++) m->optim[i] = st_tensor_clone(run->optim->state[i]);
    m->net_step = run->net->step;
    m->optim_steps = run->optim->steps;
    run->report.epochs = (int)ceil_div(o->steps, run->report.batches);
}

/* lr of step i: exponential from least to most. */
static double rate(const st_lr_finder_options *o, int i)
{
    return o->least * pow(o->most / o->least, (double)i / (o->steps - 1));
}

/* The first steps are not judged: their average is of too few losses. */
static int first_step(const st_lr_finder_options *o)
{
    return o->steps / 10;
}

/* Half of the steps over which a slope is measured. */
static int half_slope(const st_lr_finder_options *o)
{
    return o->steps < 40 ? 1 : o->steps / 20;
}

/* Adds a loss to the exponential moving average, which is bias-corrected and spans a tenth of the steps. */
static void add(rate_search *m, const st_lr_finder_options *o, double loss)
{
    const double newer = fmin(1, 10.0 / o->steps);
    const int i = m->taken++;
    m->average = (1 - newer) * m->average + newer * loss;
    m->smoothed[i] = m->average / (1 - pow(1 - newer, i + 1));
    m->jump = fmax(i > 0 ? fabs(loss - m->last) : 0, 16 * DBL_EPSILON * fabs(loss)); /* roundings */
    m->wander += m->jump;
    m->last = loss;
    if (i > first_step(o) && m->smoothed[i] >= m->smoothed[m->lowest]) return;
    m->lowest = i;
    m->noise = i > 0 ? m->wander / i : 0;
}

/* True if the smoothed loss has risen by 3 times its fall so far, and by more than noise would. */
static bool explodes(const rate_search *m, const st_lr_finder_options *o)
{
    const int i = m->taken - 1, first = first_step(o);
    if (i <= first + half_slope(o)) return false;
    const double low = m->smoothed[m->lowest], before = (m->wander - m->jump) / (i - 1);
    return m->smoothed[i] - low > 3 * (m->smoothed[first] - low) + 4 * before;
}

static void look(rate_search *m, const st_lr_finder_options *o, st_run *run)
{
    if (isfinite(run->loss)) add(m, o, run->loss);
    m->exploded = !isfinite(run->loss) || explodes(m, o);
    run->report.lr = rate(o, m->taken - 1);
    if (m->exploded || m->taken == o->steps) run->stop = true;
}

/* The step before the lowest loss at which it falls most steeply; -1: the loss rises too soon for a slope. */
static int steepest(const rate_search *m, const st_lr_finder_options *o)
{
    const int half = half_slope(o);
    int found = -1;
    double least = 0;
    for (int i = first_step(o) + half; i + half <= m->lowest; i++) {
        double slope = m->smoothed[i + half] - m->smoothed[i - half];
        if (found < 0 || slope < least) found = i, least = slope;
    }
    return found;
}

/* The lesser of two rates that fastai suggests: at the steepest fall, and a tenth of that at the minimum. */
static void judge(const rate_search *m, const st_lr_finder_options *o)
{
    const int first = first_step(o), at = steepest(m, o);
    const double low = m->smoothed[m->lowest], fall = m->smoothed[first] - low, above_noise = 1.5 * m->noise;
    const bool rises = m->exploded || m->smoothed[m->taken - 1] - low > above_noise,
               falls = fall > above_noise;
    if ((rises || falls) && (at < 0 || low >= m->smoothed[0]))
        st_error_set(
            "lr_finder: the loss does not fall below the %g that it begins with; more than %d steps, "
            "or a `least` below %g, may help",
            m->smoothed[0], o->steps, o->least);
    else if (!falls)
        st_error_set("lr_finder: from a rate of %g to %g the loss falls by %g, no more than its noise of %g; "
                     "more than %d steps may help",
                     rate(o, first), rate(o, m->taken - 1), fall, m->noise, o->steps);
    else if (!m->exploded && m->lowest + half_slope(o) >= m->taken)
        st_error_set("lr_finder: the loss still falls at a rate of %g; a greater `most` may help",
                     rate(o, m->taken - 1));
    else *o->lr = fmin(rate(o, at), rate(o, m->lowest) / 10);
}

static void end(const rate_search *m, const st_lr_finder_options *o, st_run *run)
{
    if (m->taken == 0)
        st_error_set("lr_finder: %s", m->exploded ? "the loss of the first step is not finite"
                                                  : "the run was stopped before its first step");
    if (!st_error()) judge(m, o);
    free(m->smoothed);
    st_copy(st_net_parameters(run->net), m->parameters);
    st_copy(st_net_states(run->net), m->states);
    for (int i = 0; i < run->optim->states; i++) {
        st_copy(run->optim->state[i], m->optim[i]);
        st_tensor_free(m->optim[i]);
    }
    run->net->step = m->net_step;
    run->optim->steps = m->optim_steps;
    st_tensor_free(m->parameters);
    st_tensor_free(m->states);
}

static void call(st_callback *self, st_run *run, st_event event)
{
    const st_lr_finder_options *o = (const void *)&self->options;
    if (event == ST_ON_BEGIN) begin(self, run);
    if (event == ST_ON_GRADIENTS) look(self->context, o, run);
    if (event == ST_ON_END) end(self->context, o, run);
}

st_callback st_lr_finder_new(st_lr_finder_options options)
{
    st_callback c = { .name = "lr_finder", .call = call, .memory = sizeof(rate_search), .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
