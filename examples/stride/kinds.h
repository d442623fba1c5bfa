/* kinds.h: the library's losses, optimizers and schedules by their names on a command line, "cross-entropy",
 * with options after the name: "adam beta2=0.99 weight_decay=1e-4". All that its registries and their tables
 * of options have, so that the program knows a new one at once. */
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

/* A number that an option of the command line gives to the kind's option of that name; 0: it was not
 * given. */
typedef struct kind_number {
    const char *flag, *name; /* "every", "step_size" */
    double value;
} kind_number;

/* A kind with the program's defaults, the options given with its name and these numbers, which end with one
 * without a flag. An error if one is given twice, or is none of the kind's. */
st_loss loss_chosen(option_given given, const kind_number numbers[]);
st_optim *optim_chosen(option_given given, const kind_number numbers[]);
st_schedule schedule_chosen(option_given given, const kind_number numbers[]);

/* A loss as the text that loss_read reads, in files: "huber delta=2". */
typedef struct loss_text {
    char text[160];
} loss_text;
loss_text loss_write(const st_loss *l);
st_loss loss_read(const char *text);

/* The losses but those of classes: "mse, huber or bce-with-logits". */
loss_text losses_of_numbers(void);

/* Prints a line for each loss, optimizer and schedule: its name, and options with their defaults. */
void kinds_put(FILE *to);

#endif
