/* together.h: a run with everything in it, by one process or by ranks; and ranks that are threads. */
#ifndef STRIDE_TESTS_TOGETHER_H
#define STRIDE_TESTS_TOGETHER_H

#include "nn/ranks/team.h"
#include "nn/train.h"

enum { MOST_RANKS = 4 };

/* A run; what is 0 or NULL is as `together` has it. */
typedef struct together {
    st_net *(*make)(void);            /* with_all_layers */
    ptrdiff_t samples;                /* 46 */
    int batch, epochs, micro_batches; /* 12, 2 */
    bool plain;                       /* samples are not augmented */
    st_dataset *(*set)(void);         /* of training and of validation; drawn digits */
    double lr;                        /* 0.05 */
    int calls; /* of the team that do what they should, of each rank, before others fail; 0: all do */
    void (*change)(st_train_options *o, int rank);     /* before the rank begins */
    void (*spoil)(st_tensor x, st_tensor y, int rank); /* the digits that it has */
} together;

/* The outcome at one rank. */
typedef struct outcome {
    int status;
    char error[ST_ERROR_SIZE];
    st_train_result result;
    st_tensor parameters, states; /* copies */
} outcome;
void outcome_free(outcome *o);

st_net *with_all_layers(void); /* convolution, batch normalisation, dropout, a residual block, dense layers */

/* On drawn digits, augmented; Nesterov's momentum, one-cycle. An error is in the outcome, none is left. */
outcome train_together(const together *what, const st_comm *t);

/* The same at so many ranks, each of which is a thread. */
void train_by_threads(const together *what, int ranks, outcome out[]);

#endif
