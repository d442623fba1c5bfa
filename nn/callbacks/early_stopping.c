/* early_stopping.c: ends a run when validation no longer improves, and restores the best parameters. */
#include "nn/callbacks/callbacks.h"
#include "nn/files/checkpoint.h"

#include <math.h>
#include <string.h>

/* The best epoch and its scores, and the epochs since then: doubles only, which a checkpoint keeps as an
 * array. */
typedef struct best_epoch {
    double loss, epoch, since, score_loss, score_accuracy;
} best_epoch;

typedef struct memory {
    best_epoch best;
    st_tensor parameters, states;
} memory;

static void begin(memory *m, st_run *run)
{
    if (!run->options->validation) st_error_set("early_stopping: there is no validation set");
    m->best = (best_epoch){ .loss = NAN };
    m->parameters = st_tensor_clone(st_net_parameters(run->net));
    m->states = st_tensor_clone(st_net_states(run->net));
    if (st_run_keep(run, "best", m->parameters) == 0 && st_run_keep(run, "best_states", m->states) == 0)
        st_run_keep_numbers(run, "early_stopping", sizeof m->best / sizeof(double), &m->best.loss);
}

static void after_epoch(memory *m, const st_early_stopping_options *o, const st_run *run)
{
    const st_metrics *score = &run->report.validation;
    m->best.since++;
    if (score->loss >= m->best.loss - o->min_delta) return;
    m->best = (best_epoch){ score->loss, run->report.epoch, 0, score->loss, score->accuracy };
    st_copy(m->parameters, st_net_parameters(run->net));
    st_copy(m->states, st_net_states(run->net));
}

static void end(const memory *m, st_run *run)
{
    if (m->best.epoch > 0) {
        st_copy(st_net_parameters(run->net), m->parameters);
        st_copy(st_net_states(run->net), m->states);
        run->result.validation = (st_metrics){ m->best.score_loss, m->best.score_accuracy };
        run->result.best_epoch = (int)fmin(m->best.epoch, run->result.epochs); /* of a file: any number */
    }
    st_tensor_free(m->parameters);
    st_tensor_free(m->states);
}

static const st_field fields[] = {
    { ST_FIELD(INT, st_early_stopping_options, patience), .least = 1 },
    { ST_FIELD(REAL, st_early_stopping_options, min_delta) },
    { 0 },
};

static void call(st_callback *self, st_run *run, st_event event)
{
    memory *m = self->context;
    const st_early_stopping_options *o = (const void *)&self->options;
    if (event == ST_ON_BEGIN) begin(m, run);
    if (event == ST_ON_EPOCH_BEGIN && m->best.since >= o->patience) run->stop = true;
    if (event == ST_ON_EPOCH && !st_error()) after_epoch(m, o, run);
    if (event == ST_ON_END) end(m, run);
}

st_callback st_early_stopping_new(st_early_stopping_options options)
{
    st_callback c = { .name = "early_stopping", .call = call, .memory = sizeof(memory), .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
