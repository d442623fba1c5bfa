/* schedule.h: what the learning rate is multiplied by, as a function of the step.
 *
 * A schedule is a value; an option out of range is an error where it is made. Steps are counted from 0. Warm-up comes
 * first, and the schedule begins when it ends. */
#ifndef STRIDE_NN_SCHEDULE_H
#define STRIDE_NN_SCHEDULE_H

#include "layers/options.h"
#include "tensor/error.h"

ST_API_BEGIN

/* A function and what it is given. The functions below make schedules, and zeros are the constant 1. One of your own:
 *
 *     static double inverse_root(const st_schedule *s, double step, double total, double per_epoch)
 *     {
 *         const double *scale = s->context;
 *         return 1 / sqrt(1 + step / *scale);
 *     }
 *     schedule s = { "inverse_root", inverse_root, .open_ended = true, .context = &scale }; */
typedef struct st_schedule st_schedule;
struct st_schedule {
    const char *name;                                                                    /* NULL: constant */
    double (*factor)(const st_schedule *s, double step, double total, double per_epoch); /* NULL: constant */
    bool open_ended;        /* does not look at total: a run may be resumed for more epochs */
    void *context;          /* yours */
    const st_field *fields; /* of this struct: options that a checkpoint compares; NULL: none */
    long warmup;            /* steps of linear warm-up before */

    double every, gamma;                 /* step */
    double least;                        /* cosine: the factor at the end */
    double rise, divisor, final_divisor; /* one-cycle */
};

st_schedule st_constant_lr(void); /* 1 */
/* times gamma every so many epochs */
typedef struct st_step_lr_options {
    double step_size;
    double gamma;
} st_step_lr_options;
st_schedule st_step_lr_new(st_step_lr_options options);
#define st_step_lr(...) st_step_lr_new(ST_OPTIONS(st_step_lr_options, __VA_ARGS__))
/* from 1 to `least` over the run: Loshchilov and Hutter 2017 */
typedef struct st_cosine_lr_options {
    double end_factor;
} st_cosine_lr_options;
st_schedule st_cosine_lr_new(st_cosine_lr_options options);
#define st_cosine_lr(...) st_cosine_lr_new(ST_OPTIONS(st_cosine_lr_options, __VA_ARGS__))

/* Up to 1 over the fraction `rise` of the run, from 1/divisor; then down to 1/(divisor * final_divisor);
 * both as half cosines: Smith and Topin 2018, as PyTorch's OneCycleLR. Zeros: 0.3, 25, 1e4. The optimizer's
 * lr is the peak. */
typedef struct st_one_cycle_lr_options {
    double pct_start, div_factor, final_div_factor;
} st_one_cycle_lr_options;
st_schedule st_one_cycle_lr_new(st_one_cycle_lr_options options);
#define st_one_cycle_lr(...) st_one_cycle_lr_new(ST_OPTIONS(st_one_cycle_lr_options, __VA_ARGS__))

/* The same after `steps` steps in which the factor rises linearly: (step + 1) / (steps + 1). */
typedef struct st_warmup_lr_options {
    long steps;
    st_schedule after;
} st_warmup_lr_options;
st_schedule st_warmup_lr_new(st_warmup_lr_options options);
#define st_warmup_lr(...) st_warmup_lr_new(ST_OPTIONS(st_warmup_lr_options, __VA_ARGS__))

/* The factor at a step of so many, of which so many are an epoch. */
double st_schedule_factor(const st_schedule *s, long step, long total, long per_epoch);

ST_API_END

#endif
