/* kinds.c: see kinds.h. */
#include "examples/stride/kinds.h"

#include <math.h>
#include <string.h>

static option_word word(const char *name)
{
    option_word w = { "" };
    if (name) snprintf(w.text, sizeof w.text, "%s", name);
    for (char *c = w.text; *c; c++)
        if (*c == '_') *c = '-';
    return w;
}

option_word loss_word(int i)
{
    return word(st_loss_kinds[i] ? st_loss_kinds[i]->name : NULL);
}

option_word optim_word(int i)
{
    return word(st_optim_kinds[i] ? st_optim_kinds[i]->name : NULL);
}

option_word schedule_word(int i)
{
    if (i == 0) return word("constant");
    return word(st_schedule_kinds[i - 1] ? st_schedule_kinds[i - 1]->name : NULL);
}

/* ---- options ------------------------------------------------------------------------------------- */

/* The program's own defaults. */
static const struct standard {
    const char *kind, *name;
    double value;
} standards[] = {
    { "sgd", "lr", 0.01 },       { "sgd", "momentum", 0.9 }, { "rmsprop", "lr", 0.001 },
    { "step", "step_size", 10 }, { "step", "gamma", 0.1 },
};

static bool put(const st_field *fields, st_option_bytes *to, const char *name, double value)
{
    const st_field *f = st_options_field(fields, name);
    if (!f || (f->kind != ST_FIELD_REAL && f->kind != ST_FIELD_BOOL)) return false;
    if (f->kind == ST_FIELD_REAL) memcpy(to->bytes + f->offset, &value, sizeof value);
    else to->bytes[f->offset] = value != 0;
    return true;
}

static st_option_bytes options_of(const char *kind, const st_field *fields, const kind_number numbers[])
{
    st_option_bytes bytes = { 0 };
    for (size_t i = 0; i < sizeof standards / sizeof *standards; i++)
        if (strcmp(standards[i].kind, kind) == 0) put(fields, &bytes, standards[i].name, standards[i].value);
    for (const kind_number *n = numbers; n && n->flag; n++) {
        const bool given = n->value != 0 || signbit(n->value);
        if (given && !put(fields, &bytes, n->name, n->value))
            st_error_set("--%s is not an option of %s", n->flag, word(kind).text);
    }
    return bytes;
}

st_loss loss_chosen(int i, const kind_number numbers[])
{
    const st_loss_kind *kind = st_loss_kinds[i];
    const st_option_bytes bytes = options_of(kind->name, kind->fields, numbers);
    return st_loss_new(kind, &bytes);
}

st_optim *optim_chosen(int i, const kind_number numbers[])
{
    const st_optim_kind *kind = st_optim_kinds[i];
    const st_option_bytes bytes = options_of(kind->name, kind->fields, numbers);
    return st_error() ? NULL : st_optim_new(kind, &bytes);
}

st_schedule schedule_chosen(int i, const kind_number numbers[])
{
    const st_schedule_kind *kind = i > 0 ? st_schedule_kinds[i - 1] : NULL;
    const st_option_bytes bytes =
        options_of(kind ? kind->name : "constant", kind ? kind->fields : NULL, numbers);
    return kind ? st_schedule_new(kind, &bytes) : (st_schedule){ 0 };
}
