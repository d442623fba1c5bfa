/* lr_finder.c: finds a learning rate by raising it: Smith 2017. */
#include "nn/callbacks/callbacks.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const st_field fields[] = {
    { "least", ST_FIELD_REAL, offsetof(st_lr_finder_options, least), .fallback = 1e-7, .least = 1e-30 },
    { "most", ST_FIELD_REAL, offsetof(st_lr_finder_options, most), .fallback = 10, .least = 1e-30 },
    { "steps", ST_FIELD_INT, offsetof(st_lr_finder_options, steps), .fallback = 100, .least = 3 },
    { 0 },
};

typedef struct memory {
    int taken;
    double smoothed, minimum, before;                     /* loss; the one before it */
    double steepest;                                      /* its slope over log(lr) */
    st_tensor parameters, states, optim[ST_OPTIM_STATES]; /* to be restored */
    long optim_steps;
} memory;

static void begin(st_callback *self, st_run *run)
{
    const st_lr_finder_options *o = (const void *)&self->options;
    memory *m = self->context;
    if (!o->lr || o->most <= o->least)
        st_error_set("lr_finder: lr is NULL, or most %g is not above least %g", o->most, o->least);
    m->parameters = st_tensor_clone(st_net_parameters(run->net));
    m->states = st_tensor_clone(st_net_states(run->net));
    for (int i = 0; i < run->optim->states; i++) m->optim[i] = st_tensor_clone(run->optim->state[i]);
    m->optim_steps = run->optim->steps;
    run->report.epochs = INT_MAX; /* the finder ends the run */
}

/* lr of step i: exponential from least to most. */
static double rate(const st_lr_finder_options *o, int i)
{
    return o->least * pow(o->most / o->least, (double)i / (o->steps - 1));
}

/* The exponential moving average of the losses, bias-corrected. */
static void look(memory *m, const st_lr_finder_options *o, st_run *run)
{
    const double newer = 0.1;
    m->smoothed = (1 - newer) * m->smoothed + newer * run->loss;
    double mean = m->smoothed / (1 - pow(1 - newer, m->taken + 1)), slope = mean - m->before;
    if (!isfinite(mean) || (m->taken > 0 && mean > 4 * m->minimum)) {
        run->stop = true;
        return;
    }
    if (m->taken == 0 || mean < m->minimum) m->minimum = mean;
    if (m->taken == 0) *o->lr = rate(o, 0);
    else if (slope < m->steepest) m->steepest = slope, *o->lr = rate(o, m->taken);
    m->before = mean;
    run->report.lr = rate(o, m->taken);
    if (++m->taken == o->steps) run->stop = true;
}

static void end(const memory *m, st_run *run)
{
    st_copy(st_net_parameters(run->net), m->parameters);
    st_copy(st_net_states(run->net), m->states);
    for (int i = 0; i < run->optim->states; i++) {
        st_copy(run->optim->state[i], m->optim[i]);
        st_tensor_free(m->optim[i]);
    }
    run->optim->steps = m->optim_steps;
    st_tensor_free(m->parameters);
    st_tensor_free(m->states);
}

static void call(st_callback *self, st_run *run, st_event event)
{
    const st_lr_finder_options *o = (const void *)&self->options;
    if (event == ST_ON_BEGIN) begin(self, run);
    if (event == ST_ON_GRADIENTS) look(self->context, o, run);
    if (event == ST_ON_END) end(self->context, run);
}

st_callback st_lr_finder_new(st_lr_finder_options options)
{
    st_callback c = { .name = "lr_finder", .call = call, .memory = sizeof(memory), .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
