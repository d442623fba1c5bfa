/* ema.c: an exponential moving average of the parameters. */
#include "nn/callbacks.h"

#include <stdlib.h>
#include <string.h>

static const layer_field fields[] = {
    { "decay", FIELD_REAL, offsetof(ema, decay), .fallback = 0.999, .below = 1 },
    { 0 },
};

static void begin(callback *self, train_state *run)
{
    tensor *average = self->context = calloc(1, sizeof *average);
    if (!average) error_set("ema: no memory");
    if (!average || st_options_resolve("ema", fields, &self->options)) return;
    *average = tensor_clone(net_parameters(run->net));
    train_keep(run, "ema", *average);
}

static void end(callback *self, train_state *run)
{
    tensor *average = self->context;
    if (!average) return;
    if (!error_text()) tensor_copy(net_parameters(run->net), *average);
    tensor_free(*average);
    free(average);
    self->context = NULL;
}

static void call(callback *self, train_state *run, train_event event)
{
    const ema *o = (const void *)&self->options;
    if (event == ON_BEGIN) begin(self, run);
    if (event == ON_STEP) {
        tensor average = *(tensor *)self->context;
        tensor_scale(average, (real)o->decay);
        tensor_add(average, (real)(1 - o->decay), net_parameters(run->net));
    }
    if (event == ON_END) end(self, run);
}

callback callback_ema(ema options)
{
    callback c = { .name = "ema", .call = call, .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
