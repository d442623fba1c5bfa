/* clip.c: clips gradients before each step. */
#include "nn/callbacks/callbacks.h"

#include <string.h>

static const st_field fields[] = {
    { "norm", ST_FIELD_REAL, offsetof(st_clip_options, norm) },
    { "value", ST_FIELD_REAL, offsetof(st_clip_options, value) },
    { 0 },
};

static void call(st_callback *self, st_run *run, st_event event)
{
    st_clip_options *o = (void *)&self->options;
    if (event == ST_ON_BEGIN) st_options_resolve("clip", fields, o);
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
