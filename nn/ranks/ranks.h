/* ranks.h: a team's ranks begin a run at the same place. */
#ifndef STRIDE_NN_RANKS_RANKS_H
#define STRIDE_NN_RANKS_RANKS_H

#include "nn/files/checkpoint.h"

/* Whether all ranks were asked for the same run: -1 with an error that names a rank, and what is different. */
int ranks_match(const checkpoint *c);

/* Where rank 0 is every rank is: parameters, states, what the optimizer keeps, the best so far, the place. */
int ranks_follow(const checkpoint *c);

#endif
