/* ema.c: an exponential moving average of the parameters. */
#include "nn/callbacks/callbacks.h"
#include "tensor/array.h"

#include <stdlib.h>
#include <string.h>

static const st_field fields[] = {
    { "decay", ST_FIELD_REAL, offsetof(st_ema_options, decay), .fallback = 0.999, .below = 1 },
    { 0 },
};

static void begin(st_callback *self, st_run *run)
{
    st_tensor *average = self->context = array_new("ema", 1, sizeof *average);
    if (!average) return;
    *average = st_tensor_clone(st_net_parameters(run->net));
    st_run_keep(run, "ema", *average);
}

static void end(st_callback *self, st_run *run)
{
    st_tensor *average = self->context;
    if (!average) return;
    if (!st_error()) st_copy(st_net_parameters(run->net), *average);
    st_tensor_free(*average);
    free(average);
    self->context = NULL;
}

static void call(st_callback *self, st_run *run, st_event event)
{
    const st_ema_options *o = (const void *)&self->options;
    if (event == ST_ON_BEGIN) begin(self, run);
    if (event == ST_ON_STEP) {
        st_tensor average = *(st_tensor *)self->context;
        st_scale(average, (st_real)o->decay);
        st_add(average, (st_real)(1 - o->decay), st_net_parameters(run->net));
    }
    if (event == ST_ON_END) end(self, run);
}

st_callback st_ema_new(st_ema_options options)
{
    st_callback c = { .name = "ema", .call = call, .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
