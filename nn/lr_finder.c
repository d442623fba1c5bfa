/* lr_finder.c: a learning rate is looked for by raising it: Smith 2017. */
#include "nn/callbacks.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const layer_field fields[] = {
    { "least", FIELD_REAL, offsetof(lr_finder, least), .fallback = 1e-7, .least = 1e-30 },
    { "most", FIELD_REAL, offsetof(lr_finder, most), .fallback = 10, .least = 1e-30 },
    { "steps", FIELD_INT, offsetof(lr_finder, steps), .fallback = 100, .least = 3 },
    { 0 },
};

typedef struct memory {
    int taken;
    double smoothed, minimum, before;               /* loss; the one before it */
    double steepest;                                /* its slope over log(lr) */
    tensor parameters, states, optim[OPTIM_STATES]; /* as they were */
    long optim_steps;
} memory;

static void begin(callback *self, train_state *run)
{
    lr_finder *o = (void *)&self->options;
    memory *m = self->context = calloc(1, sizeof *m);
    if (!m) error_set("lr_finder: no memory");
    if (!m || st_options_resolve("lr_finder", fields, o)) return;
    if (!o->lr || o->most <= o->least)
        error_set("lr_finder: lr is NULL, or most %g is not above least %g", o->most, o->least);
    m->parameters = tensor_clone(net_parameters(run->net));
    m->states = tensor_clone(net_states(run->net));
    for (int i = 0; i < run->optim->states; i++) m->optim[i] = tensor_clone(run->optim->state[i]);
    m->optim_steps = run->optim->steps;
    run->report.epochs = INT_MAX; /* the finder ends the run */
}

/* lr of step i: exponential from least to most. */
static double rate(const lr_finder *o, int i)
{
    return o->least * pow(o->most / o->least, (double)i / (o->steps - 1));
}

/* The mean of losses so far, newer ones count more; without bias. */
static void look(memory *m, const lr_finder *o, train_state *run)
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

static void end(callback *self, train_state *run)
{
    memory *m = self->context;
    if (!m) return;
    tensor_copy(net_parameters(run->net), m->parameters);
    if (!tensor_is_null(m->states)) tensor_copy(net_states(run->net), m->states);
    for (int i = 0; i < run->optim->states; i++) {
        tensor_copy(run->optim->state[i], m->optim[i]);
        tensor_free(m->optim[i]);
    }
    run->optim->steps = m->optim_steps;
    tensor_free(m->parameters);
    tensor_free(m->states);
    free(m);
    self->context = NULL;
}

static void call(callback *self, train_state *run, train_event event)
{
    const lr_finder *o = (const void *)&self->options;
    if (event == ON_BEGIN) begin(self, run);
    if (event == ON_GRADIENTS) look(self->context, o, run);
    if (event == ON_END) end(self, run);
}

callback callback_lr_finder(lr_finder options)
{
    callback c = { .name = "lr_finder", .call = call, .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
