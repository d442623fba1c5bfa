/* team.h: ranks that work together: processes on one machine or many, each of which runs the same program.
 *
 * nn/ranks/mpi.h makes a team of MPI's processes; a program may make one of its own. Every function is a collective
 * operation: all ranks call it, in the same order, and it returns when all have done their part. 0, or -1 with an
 * error, after which the team cannot be used.
 *
 * Arrays are shared out alike everywhere: of n elements rank r has those from n r / ranks up to n (r + 1) / ranks. */
#ifndef STRIDE_NN_RANKS_TEAM_H
#define STRIDE_NN_RANKS_TEAM_H

#include "tensor/error.h"
#include "tensor/real.h"

#include <stddef.h>

ST_API_BEGIN

/* Ranks are counted from 0; sizes are bytes of an element. */
typedef struct st_comm st_comm;
struct st_comm {
    int rank, ranks;

    /* Each rank's part of x [n] becomes everyone's. */
    int (*all_gather)(const st_comm *t, ptrdiff_t n, size_t size, void *x);

    /* Each rank gets its part of everyone's x [n]: parts [ranks, own part], in the order of the ranks. */
    int (*all_to_all)(const st_comm *t, ptrdiff_t n, size_t size, const void *x, void *parts);

    /* x [n] of rank `from` becomes everyone's. */
    int (*broadcast)(const st_comm *t, int from, ptrdiff_t n, size_t size, void *x);

    /* *x becomes the minimum over the ranks. */
    int (*all_min)(const st_comm *t, int *x);

    /* x [n] becomes the sum over the ranks, the same for all, added in any order; NULL: not available. */
    int (*all_reduce)(const st_comm *t, ptrdiff_t n, st_real *x);

    void *own; /* the maker's */
};

/* The first element of that rank's part of n; for rank `ranks`: n. */
ptrdiff_t st_comm_first(const st_comm *t, ptrdiff_t n, int rank);

/* 0 where no rank has an error latched. Otherwise -1, and all have the error of the first rank that has one, "rank 2: "
 * in front. Call it after work that may fail at one rank, such as opening files. A NULL team is one rank. */
int st_comm_agree(const st_comm *t);

ST_API_END

#endif
