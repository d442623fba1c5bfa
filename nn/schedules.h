/* schedules.h: the schedules of the library, and their options. */
#ifndef STRIDE_NN_SCHEDULES_H
#define STRIDE_NN_SCHEDULES_H

#include "nn/schedule.h"

ST_API_BEGIN

/* Multiplied by gamma every step_size epochs. */
typedef struct st_step_lr_options {
    double step_size; /* epochs; required */
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

/* The kinds step, cosine and one_cycle; ends with NULL. */
extern const st_schedule_kind *const st_schedule_kinds[];

ST_API_END

#endif
