/* schedule.h: learning-rate schedules: the factor of the learning rate as a function of the step.
 *
 * A schedule is a value: pass it, return it. Its constructor checks the options. Steps are counted from 0.
 * The schedule begins after its warm-up. */
#ifndef STRIDE_NN_SCHEDULE_H
#define STRIDE_NN_SCHEDULE_H

#include "layers/options.h"
#include "tensor/error.h"

ST_API_BEGIN

/* A function and its context. The constructors below make schedules; a zeroed one is the constant 1. One
 * of your own:
 *
 *     static double inverse_root(const st_schedule *s, double step, double total, double per_epoch)
 *     {
 *         const double *scale = s->context;
 *         return 1 / sqrt(1 + step / *scale);
 *     }
 *     st_schedule s = { "inverse_root", inverse_root, .open_ended = true, .context = &scale }; */
typedef struct st_schedule st_schedule;
struct st_schedule {
    const char *name;                                                                    /* NULL: constant */
    double (*factor)(const st_schedule *s, double step, double total, double per_epoch); /* NULL: constant */
    bool open_ended;        /* does not use total: a run may be resumed with more epochs */
    void *context;          /* yours */
    const st_field *fields; /* of this struct; a checkpoint compares them; NULL: none */
    long warmup;            /* steps of linear warm-up */

    double step_size, gamma;                        /* step */
    double end_factor;                              /* cosine: the factor at the end */
    double pct_start, div_factor, final_div_factor; /* one-cycle */
};

/* Multiplied by gamma every step_size epochs. */
typedef struct st_step_lr_options {
    double step_size; /* required */
    double gamma;     /* required */
} st_step_lr_options;
st_schedule st_step_lr_new(st_step_lr_options options);
#define st_step_lr(...) st_step_lr_new(ST_OPTIONS(st_step_lr_options, __VA_ARGS__))
/* From 1 to end_factor over the run, as a half cosine: Loshchilov and Hutter 2017. */
typedef struct st_cosine_lr_options {
    double end_factor;
} st_cosine_lr_options;
st_schedule st_cosine_lr_new(st_cosine_lr_options options);
#define st_cosine_lr(...) st_cosine_lr_new(ST_OPTIONS(st_cosine_lr_options, __VA_ARGS__))

/* From 1/div_factor up to 1 over the fraction pct_start of the run, then down to 1/(div_factor
 * final_div_factor), both as half cosines: Smith and Topin 2018, PyTorch's OneCycleLR. Defaults: 0.3, 25,
 * 1e4. The optimizer's lr is the peak. */
typedef struct st_one_cycle_lr_options {
    double pct_start, div_factor, final_div_factor;
} st_one_cycle_lr_options;
st_schedule st_one_cycle_lr_new(st_one_cycle_lr_options options);
#define st_one_cycle_lr(...) st_one_cycle_lr_new(ST_OPTIONS(st_one_cycle_lr_options, __VA_ARGS__))

/* A warm-up of `steps` steps in which the factor rises linearly, (step + 1) / (steps + 1); then the schedule
 * `after`. */
typedef struct st_warmup_lr_options {
    long steps;
    st_schedule after;
} st_warmup_lr_options;
st_schedule st_warmup_lr_new(st_warmup_lr_options options);
#define st_warmup_lr(...) st_warmup_lr_new(ST_OPTIONS(st_warmup_lr_options, __VA_ARGS__))

/* The factor at a step of a run of `total` steps, `per_epoch` of them in an epoch. NULL: 1. */
double st_schedule_factor(const st_schedule *s, long step, long total, long per_epoch);

ST_API_END

#endif
