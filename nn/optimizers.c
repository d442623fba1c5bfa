/* optimizers.c: the optimizers of the library and their options; optimizers_impl.h has their steps. */
#include "nn/optimizers_impl.h"

#define REAL(KIND, NAME, ...)                                                                                \
    {                                                                                                        \
#NAME, ST_FIELD_REAL, offsetof(st_##KIND##_options, NAME), __VA_ARGS__                               \
    }
#define FLAG(KIND, NAME)                                                                                     \
    {                                                                                                        \
#NAME, ST_FIELD_BOOL, offsetof(st_##KIND##_options, NAME)                                            \
    }

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
    REAL(sgd, lr, .least = 0),
    REAL(sgd, momentum, .least = 0),
    REAL(sgd, dampening, .least = 0),
    REAL(sgd, weight_decay, .least = 0),
    FLAG(sgd, nesterov),
    { 0 },
};
const st_optim_kind optim_kind_sgd = {
    "sgd", sizeof(st_sgd_options), sgd_fields, 1, plan_sgd, optim_sgd,
};

#define ADAM_FIELDS(WEIGHT_DECAY)                                                                            \
    {                                                                                                        \
        REAL(adam, lr, .fallback = 0.001), REAL(adam, beta1, .fallback = 0.9, .below = 1),                   \
            REAL(adam, beta2, .fallback = 0.999, .below = 1), REAL(adam, epsilon, .fallback = 1e-8),         \
            REAL(adam, weight_decay, .fallback = WEIGHT_DECAY), { 0 },                                       \
    }
static const st_field adam_fields[] = ADAM_FIELDS(0), adamw_fields[] = ADAM_FIELDS(0.01);
const st_optim_kind optim_kind_adam = {
    "adam", sizeof(st_adam_options), adam_fields, 2, NULL, optim_adam,
};
const st_optim_kind optim_kind_adamw = {
    "adamw", sizeof(st_adam_options), adamw_fields, 2, NULL, optim_adamw,
};

static const st_field rmsprop_fields[] = {
    REAL(rmsprop, lr, .fallback = 0.01),
    REAL(rmsprop, alpha, .fallback = 0.99, .below = 1),
    REAL(rmsprop, epsilon, .fallback = 1e-8),
    REAL(rmsprop, momentum, .least = 0),
    REAL(rmsprop, weight_decay, .least = 0),
    FLAG(rmsprop, centered),
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
