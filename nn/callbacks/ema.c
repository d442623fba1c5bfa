/* ema.c: an exponential moving average of the parameters. */
#include "nn/callbacks/callbacks.h"
#include "nn/files/checkpoint.h"

#include <string.h>

static const st_field fields[] = {
    { ST_FIELD(REAL, st_ema_options, decay), .fallback = 0.999, .below = 1 },
    { 0 },
};

/* decay a + (1 - decay) w, as differences: decay and 1 - decay, rounded to float, do not add up to 1. */
static void call(st_callback *self, st_run *run, st_event event)
{
    const st_ema_options *o = (const void *)&self->options;
    st_tensor *average = self->context, parameters = st_net_parameters(run->net);
    if (event == ST_ON_BEGIN) {
        *average = st_tensor_clone(parameters);
        st_run_keep(run, "ema", *average);
    }
    if (event == ST_ON_STEP) {
        const ptrdiff_t n = st_numel(parameters);
        const st_real share = (st_real)(1 - o->decay), *w = st_data(parameters);
        st_real *a = st_data(*average);
        for (ptrdiff_t i = 0; i < n; i++) a[i] += share * (w[i] - a[i]);
    }
    if (event == ST_ON_END) {
        if (!st_error()) st_copy(parameters, *average);
        st_tensor_free(*average);
    }
}

st_callback st_ema_new(st_ema_options options)
{
    st_callback c = { .name = "ema", .call = call, .memory = sizeof(st_tensor), .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
