/* optimizers.c: the optimizers of the library and their options; optimizers_impl.h has their steps. */
#include "nn/optimizers_impl.h"

static int plan_sgd(st_optim *o)
{
    const st_sgd_options *options = o->options;
    if (options->lr == 0 && !signbit(options->lr)) return st_error_set("sgd: lr is missing");
    o->states = options->momentum != 0;
    if (!options->nesterov || (o->states > 0 && options->dampening == 0)) return 0;
    return st_error_set("sgd: nesterov needs a momentum above 0, not %g, and a dampening of 0, not %g",
                        options->momentum + 0, options->dampening + 0);
}

static const st_field sgd_fields[] = {
    { ST_FIELD(REAL, st_sgd_options, lr) }, /* required: plan_sgd refuses the 0 that is no ST_ZERO */
    { ST_FIELD(REAL, st_sgd_options, momentum) },
    { ST_FIELD(REAL, st_sgd_options, dampening) },
    { ST_FIELD(REAL, st_sgd_options, weight_decay) },
    { ST_FIELD(BOOL, st_sgd_options, nesterov) },
    { 0 },
};
const st_optim_kind optim_kind_sgd = {
    "sgd", sizeof(st_sgd_options), sgd_fields, 1, plan_sgd, optim_sgd,
};

#define ADAM_FIELDS(WEIGHT_DECAY)                                                                            \
    {                                                                                                        \
        { ST_FIELD(REAL, st_adam_options, lr), .fallback = 0.001 },                                          \
            { ST_FIELD(REAL, st_adam_options, beta1), .fallback = 0.9, .below = 1 },                         \
            { ST_FIELD(REAL, st_adam_options, beta2), .fallback = 0.999, .below = 1 },                       \
            { ST_FIELD(REAL, st_adam_options, epsilon), .fallback = 1e-8 },                                  \
            { ST_FIELD(REAL, st_adam_options, weight_decay), .fallback = WEIGHT_DECAY }, { 0 },              \
    }
static const st_field adam_fields[] = ADAM_FIELDS(0), adamw_fields[] = ADAM_FIELDS(0.01);
const st_optim_kind optim_kind_adam = {
    "adam", sizeof(st_adam_options), adam_fields, 2, NULL, optim_adam,
};
const st_optim_kind optim_kind_adamw = {
    "adamw", sizeof(st_adam_options), adamw_fields, 2, NULL, optim_adamw,
};

static const st_field rmsprop_fields[] = {
    { ST_FIELD(REAL, st_rmsprop_options, lr), .fallback = 0.01 },
    { ST_FIELD(REAL, st_rmsprop_options, alpha), .fallback = 0.99, .below = 1 },
    { ST_FIELD(REAL, st_rmsprop_options, epsilon), .fallback = 1e-8 },
    { ST_FIELD(REAL, st_rmsprop_options, momentum) },
    { ST_FIELD(REAL, st_rmsprop_options, weight_decay) },
    { ST_FIELD(BOOL, st_rmsprop_options, centered) },
    { 0 },
};
const st_optim_kind optim_kind_rmsprop = {
    "rmsprop", sizeof(st_rmsprop_options), rmsprop_fields, 3, NULL, optim_rmsprop,
};

const st_optim_kind *const st_optim_kinds[] = {
    &optim_kind_sgd, &optim_kind_adam, &optim_kind_adamw, &optim_kind_rmsprop, NULL,
};

#define OPTIM(NAME, OPTIONS)                                                                                 \
    st_optim *st_##NAME##_new(OPTIONS options)                                                               \
    {                                                                                                        \
        return st_optim_new(&optim_kind_##NAME, &options);                                                   \
    }
OPTIM(sgd, st_sgd_options)
OPTIM(adam, st_adam_options)
OPTIM(adamw, st_adam_options)
OPTIM(rmsprop, st_rmsprop_options)
