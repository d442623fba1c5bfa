/* progress.h: how far a run is: redrawn on a terminal, plain lines elsewhere. */
#ifndef STRIDE_NN_WATCH_PROGRESS_H
#define STRIDE_NN_WATCH_PROGRESS_H

#include "nn/train.h"

typedef struct progress {
    FILE *to;                     /* NULL: nothing is shown */
    bool terminal, colour, drawn; /* drawn: a line that the next one goes over */
    double shown;                 /* seconds at the last drawing */
} progress;

progress progress_begin(FILE *to);

/* During an epoch (drawn a few times a second) and after it. */
void progress_step(progress *p, const train_report *r, long step_in_epoch, long steps_an_epoch,
                   double images_per_second);
void progress_epoch(progress *p, const train_report *r, double images_per_second);
void progress_end(progress *p); /* wherever the run ends: what is written next has a line of its own */

#endif
