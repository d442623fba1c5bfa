/* clip.c: gradients are clipped before each step. */
#include "nn/callbacks.h"

#include <string.h>

static const layer_field fields[] = {
    { "norm", FIELD_REAL, offsetof(clip, norm) },
    { "value", FIELD_REAL, offsetof(clip, value) },
    { 0 },
};

static void call(callback *self, train_state *run, train_event event)
{
    clip *o = (void *)&self->options;
    if (event == ON_BEGIN) st_options_resolve("clip", fields, o);
    if (event != ON_GRADIENTS) return;
    if (o->value > 0) optim_clip_value(net_gradients(run->net), o->value);
    if (o->norm > 0) optim_clip_norm(net_gradients(run->net), o->norm);
}

callback callback_clip(clip options)
{
    callback c = { .name = "clip", .call = call, .fields = fields };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
