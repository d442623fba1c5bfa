/* schedule.c: a schedule of any kind, its warm-up and its factor. */
#include "nn/schedule.h"
#include "layers/layer_impl.h"

#include <string.h>

st_schedule st_schedule_new(const st_schedule_kind *kind, const void *options)
{
    st_schedule s = { kind };
    if (!kind || !kind->name || !kind->factor || kind->options_size > sizeof s.options) {
        st_error_set("st_schedule_new: the kind %s", !kind || !kind->name ? "has no name"
                                                     : !kind->factor      ? "has no factor"
                                                                          : "has too many options");
        return (st_schedule){ 0 };
    }
    if (options_reach(kind->name, kind->fields, kind->options_size)) return (st_schedule){ 0 };
    if (options) memcpy(&s.options, options, kind->options_size);
    return st_options_resolve(kind->name, kind->fields, &s.options) ? (st_schedule){ 0 } : s;
}

double st_schedule_factor(const st_schedule *s, long step, long total, long per_epoch)
{
    if (s && step < s->warmup) return (double)(step + 1) / (double)(s->warmup + 1);
    if (!s || !s->kind) return 1;
    return s->kind->factor(&s->options, (double)(step - s->warmup), (double)(total - s->warmup),
                           (double)per_epoch);
}
