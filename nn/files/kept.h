/* kept.h: all that a run keeps besides its net, as one list. */
#ifndef STRIDE_NN_FILES_KEPT_H
#define STRIDE_NN_FILES_KEPT_H

#include "nn/files/checkpoint.h"
#include "nn/train_impl.h"

enum { MOST_KEPT = 1 + ST_OPTIM_STATES + ST_MAX_KEPT, LONGEST_KEPT = 60 };

/* A tensor or numbers. */
typedef struct kept_item {
    const char *name;
    st_tensor tensor;
    double *numbers;
    int count; /* of the numbers; 0: a tensor */
} kept_item;

/* The position first, as it is now, then the optimizer's states, then what callbacks keep; they cannot add to
 * it any more. Returns the number; 0 with an error: no memory. */
int run_list(st_run *run, kept_item to[MOST_KEPT]);

/* -1 with an error if the run has no position of these numbers. */
int run_check_position(const st_run *run, const double numbers[]);

/* Continues the run at the position whose numbers are in the list. */
void run_go_to_position(st_run *run);

#endif
