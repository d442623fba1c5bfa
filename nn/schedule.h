/* schedule.h: what the learning rate is multiplied by, as a function of the step.
 *
 * A schedule is a value; an option out of range is an error where it is made. Steps are counted from 0. Warm-up comes
 * first, and the schedule begins when it ends. */
#ifndef STRIDE_NN_SCHEDULE_H
#define STRIDE_NN_SCHEDULE_H

#include "layers/options.h"
#include "tensor/error.h"

#pragma GCC visibility push(default)

/* A function and what it is given. The functions below make schedules, and zeros are the constant 1. One of your own:
 *
 *     static double inverse_root(const schedule *s, double step, double total, double per_epoch)
 *     {
 *         const double *scale = s->context;
 *         return 1 / sqrt(1 + step / *scale);
 *     }
 *     schedule s = { "inverse_root", inverse_root, .open_ended = true, .context = &scale }; */
typedef struct schedule schedule;
struct schedule {
    const char *name;                                                                 /* NULL: constant */
    double (*factor)(const schedule *s, double step, double total, double per_epoch); /* NULL: constant */
    bool open_ended;           /* does not look at total: a run may be resumed for more epochs */
    void *context;             /* yours */
    const layer_field *fields; /* of this struct: options that a checkpoint compares; NULL: none */
    long warmup;               /* steps of linear warm-up before */

    double every, gamma;                 /* step */
    double least;                        /* cosine: the factor at the end */
    double rise, divisor, final_divisor; /* one-cycle */
};

schedule schedule_constant(void);                    /* 1 */
schedule schedule_step(double epochs, double gamma); /* times gamma every so many epochs */
schedule schedule_cosine(double least); /* from 1 to `least` over the run: Loshchilov and Hutter 2017 */

/* Up to 1 over the fraction `rise` of the run, from 1/divisor; then down to 1/(divisor * final_divisor);
 * both as half cosines: Smith and Topin 2018, as PyTorch's OneCycleLR. Zeros: 0.3, 25, 1e4. The optimizer's
 * lr is the peak. */
typedef struct one_cycle {
    double rise, divisor, final_divisor;
} one_cycle;
schedule schedule_one_cycle(one_cycle options);

/* The same after `steps` steps in which the factor rises linearly: (step + 1) / (steps + 1). */
schedule schedule_warmup(long steps, schedule after);

/* The factor at a step of so many, of which so many are an epoch. */
double schedule_factor(const schedule *s, long step, long total, long per_epoch);

#pragma GCC visibility pop

#endif
