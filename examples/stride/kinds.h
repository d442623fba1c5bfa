/* kinds.h: the library's losses, optimizers and schedules by their names on a command line, "cross-entropy":
 * all that its registries have, so that a new one is known to the program at once. */
#ifndef STRIDE_EXAMPLES_STRIDE_KINDS_H
#define STRIDE_EXAMPLES_STRIDE_KINDS_H

#include "examples/stride/options.h"
#include "nn/losses.h"
#include "nn/optimizers.h"
#include "nn/schedules.h"

/* The name of kind i; "" after the last. */
option_word loss_word(int i);
option_word optim_word(int i);
option_word schedule_word(int i); /* the first is "constant" */

/* A number that an option gives to the kind's option of that name; 0: it was not given. */
typedef struct kind_number {
    const char *flag, *name; /* "every", "step_size" */
    double value;
} kind_number;

/* A kind with the program's defaults and these numbers, which end with one without a flag. An error if one
 * was given that the kind does not have. */
st_loss loss_chosen(int i, const kind_number numbers[]);
st_optim *optim_chosen(int i, const kind_number numbers[]);
st_schedule schedule_chosen(int i, const kind_number numbers[]);

#endif
