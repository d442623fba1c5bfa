/* clip.c: clips gradients before each step. */
#include "nn/callbacks/callbacks.h"
#include "tensor/counts.h"

#include <math.h>
#include <string.h>

static void square_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    double *sum = context;
    for (ptrdiff_t i = 0; i < n; i++) *sum += (double)at[0][i * stride[0]] * (double)at[0][i * stride[0]];
}

double st_clip_grad_norm(st_tensor gradients, double most)
{
    double sum = 0;
    if (!(most >= 0)) {
        st_error_set("st_clip_grad_norm: a norm of %g, expected at least 0", printable(most));
        return NAN;
    }
    st_walk(1, &gradients, ST_ROW_MAJOR, square_row, &sum);
    double norm = sqrt(sum);
    if (norm > most && isfinite(norm)) st_scale(gradients, (st_real)(most / norm));
    return norm;
}

static st_real clipped(st_real x, void *context)
{
    st_real most = *(const st_real *)context;
    return x > most ? most : x < -most ? -most : x;
}

void st_clip_grad_value(st_tensor gradients, double most)
{
    if (!(most >= 0)) {
        st_error_set("st_clip_grad_value: a bound of %g, expected at least 0", printable(most));
        return;
    }
    st_real bound = (st_real)most;
    st_map(gradients, clipped, &bound, gradients);
}

/* ---- the callback -------------------------------------------------------------------------------- */

static const st_field fields[] = {
    { ST_FIELD(REAL, st_clip_options, norm) },
    { ST_FIELD(REAL, st_clip_options, value) },
    { 0 },
};

static void call(st_callback *self, st_run *run, st_event event)
{
    const st_clip_options *o = (const void *)&self->options;
    if (event != ST_ON_GRADIENTS) return;
    if (o->value > 0) st_clip_grad_value(st_net_gradients(run->net), o->value);
    if (o->norm > 0) st_clip_grad_norm(st_net_gradients(run->net), o->norm);
}

st_callback st_clip_new(st_clip_options options)
{
    st_callback c = { .name = "clip", .call = call, .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
