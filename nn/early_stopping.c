/* early_stopping.c: a run ends when validation no longer improves, with the best parameters. */
#include "nn/callbacks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct memory {
    struct numbers {               /* kept as an array */
        double loss, epoch, since; /* of the best epoch; epochs since then */
        double score_loss, score_accuracy;
    } best;
    tensor parameters, states;
} memory;

static void begin(callback *self, train_state *run, const layer_field *fields)
{
    early_stopping *o = (void *)&self->options;
    memory *m = self->context = calloc(1, sizeof *m);
    if (!m) error_set("early_stopping: no memory");
    if (!m || st_options_resolve("early_stopping", fields, o)) return;
    if (!run->options.validation) error_set("early_stopping: there is no validation set");
    m->best = (struct numbers){ .loss = NAN };
    m->parameters = tensor_clone(net_parameters(run->net));
    m->states = tensor_clone(net_states(run->net));
    if (train_keep(run, "best", m->parameters) == 0 && train_keep(run, "best_states", m->states) == 0)
        train_keep_numbers(run, "early_stopping", sizeof m->best / sizeof(double), &m->best.loss);
}

static void after_epoch(memory *m, const early_stopping *o, const train_state *run)
{
    const train_score *score = &run->report.validation;
    m->best.since++;
    if (score->loss >= m->best.loss - o->min_delta) return;
    m->best = (struct numbers){ score->loss, run->report.epoch, 0, score->loss, score->accuracy };
    tensor_copy(m->parameters, net_parameters(run->net));
    tensor_copy(m->states, net_states(run->net));
}

static void end(callback *self, train_state *run)
{
    memory *m = self->context;
    if (!m) return;
    if (m->best.epoch > 0) {
        tensor_copy(net_parameters(run->net), m->parameters);
        tensor_copy(net_states(run->net), m->states);
        run->validation = (train_score){ m->best.score_loss, m->best.score_accuracy };
        run->best_epoch = (int)m->best.epoch;
    }
    tensor_free(m->parameters);
    tensor_free(m->states);
    free(m);
    self->context = NULL;
}

static const layer_field fields[] = {
    { "patience", FIELD_INT, offsetof(early_stopping, patience), .least = 1 },
    { "min_delta", FIELD_REAL, offsetof(early_stopping, min_delta) },
    { 0 },
};

static void call(callback *self, train_state *run, train_event event)
{
    memory *m = self->context;
    const early_stopping *o = (const void *)&self->options;
    if (event == ON_BEGIN) begin(self, run, fields);
    if (event == ON_EPOCH_BEGIN && m->best.since >= o->patience) run->stop = true;
    if (event == ON_EPOCH && !error_text()) after_epoch(m, o, run);
    if (event == ON_END) end(self, run);
}

callback callback_early_stopping(early_stopping options)
{
    callback c = { .name = "early_stopping", .call = call, .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
