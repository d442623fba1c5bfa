/* schedule.h: learning-rate schedules: the factor of the learning rate as a function of the step.
 *
 * A schedule is a kind and its options. It is a value: pass it, return it. Steps are counted from 0, or from
 * the end of the warm-up if there is one. */
#ifndef STRIDE_NN_SCHEDULE_H
#define STRIDE_NN_SCHEDULE_H

#include "layers/options.h"
#include "tensor/error.h"

ST_API_BEGIN

/* The kind of a schedule: a static const table. One of your own:
 *
 *     typedef struct inverse_root_options {
 *         double scale;
 *     } inverse_root_options;
 *     static double inverse_root(const void *options, double step, double total, double per_epoch)
 *     {
 *         const inverse_root_options *o = options;
 *         return 1 / sqrt(1 + step / o->scale);
 *     }
 *     static const st_schedule_kind inverse_root_kind = { "inverse_root", sizeof(inverse_root_options),
 *                                                         NULL, true, inverse_root };
 *     st_schedule s = st_schedule_new(&inverse_root_kind, &(inverse_root_options){ .scale = 4 }); */
typedef struct st_schedule_kind {
    const char *name;
    size_t options_size;    /* at most sizeof(st_option_bytes) */
    const st_field *fields; /* of the options; NULL: none is checked, and a checkpoint compares none */
    bool open_ended;        /* factor does not use total: a run may be resumed with more epochs */
    double (*factor)(const void *options, double step, double total, double per_epoch);
} st_schedule_kind;

/* A kind with its options. */
typedef struct st_schedule {
    const st_schedule_kind *kind; /* NULL: constant */
    st_option_bytes options;
    long warmup; /* steps of linear warm-up before it: st_warmup_lr of schedules.h */
} st_schedule;

/* Fills in the defaults and checks the options. A constant schedule with an error if one is out of range. */
st_schedule st_schedule_new(const st_schedule_kind *kind, const void *options);

/* The factor at a step of a run of `total` steps, `per_epoch` of them in an epoch. NULL: 1. */
double st_schedule_factor(const st_schedule *s, long step, long total, long per_epoch);

ST_API_END

#endif
