/* team.h: communicators: ranks are processes, on one machine or several, that run the same program.
 *
 * nn/ranks/mpi.h makes one of MPI processes; a program may make its own. Every function is a collective
 * operation: all ranks call it, in the same order. 0, or -1 with an error, after which the communicator
 * cannot be used.
 *
 * Arrays are divided equally: rank r has elements n r / ranks up to n (r + 1) / ranks. */
#ifndef STRIDE_NN_RANKS_TEAM_H
#define STRIDE_NN_RANKS_TEAM_H

#include "tensor/error.h"
#include "tensor/real.h"

#include <stddef.h>

ST_API_BEGIN

/* Ranks are numbered from 0; sizes are bytes per element. */
typedef struct st_comm st_comm;
struct st_comm {
    int rank, ranks;

    /* All-gather: each rank's part of x [n] is copied to all ranks. */
    int (*all_gather)(const st_comm *t, ptrdiff_t n, size_t size, void *x);

    /* All-to-all: each rank gets its part of every rank's x [n]: parts [ranks, own part], in the order of the
     * ranks. */
    int (*all_to_all)(const st_comm *t, ptrdiff_t n, size_t size, const void *x, void *parts);

    /* Broadcast: x [n] of rank `from` is copied to all ranks. */
    int (*broadcast)(const st_comm *t, int from, ptrdiff_t n, size_t size, void *x);

    /* All-reduce: *x becomes the minimum over the ranks. */
    int (*all_min)(const st_comm *t, int *x);

    /* All-reduce: x [n] becomes the sum over the ranks, in any order, the same for all. NULL: not
     * available. */
    int (*all_reduce)(const st_comm *t, ptrdiff_t n, st_real *x);

    void *own; /* private to the implementation */
};

/* The first element of a rank's part; n for rank `ranks`. */
ptrdiff_t st_comm_first(const st_comm *t, ptrdiff_t n, int rank);

/* 0 if no rank has an error. Otherwise -1, and all ranks get the error of the first that has one, prefixed
 * "rank 2: ". Call it after work that may fail at one rank, such as opening files. NULL is a single rank. */
int st_comm_agree(const st_comm *t);

ST_API_END

#endif
