/* team.h: ranks that work together: several processes, on one machine or many, of which each runs the same program.
 *
 * The library knows of them only what stands here; nn/ranks/mpi.h makes a team of MPI's processes, and a program may
 * make one of its own. Every function is called by all ranks, in the same order, and comes back when all have done
 * their part. 0, or -1 with an error: then the team is of no more use.
 *
 * What is shared out in parts is cut alike everywhere: of n elements rank r has those from n r / ranks on, up to
 * n (r + 1) / ranks. */
#ifndef STRIDE_NN_RANKS_TEAM_H
#define STRIDE_NN_RANKS_TEAM_H

#include "tensor/error.h"
#include "tensor/real.h"

#include <stddef.h>

#pragma GCC visibility push(default)

/* Ranks are counted from 0; sizes are bytes of an element. */
typedef struct team team;
struct team {
    int rank, ranks;

    /* Each rank's own part of x [n] becomes everyone's. */
    int (*gather)(const team *t, ptrdiff_t n, size_t size, void *x);

    /* Each rank gets its own part of everyone's x [n]: parts [ranks, own part], in the order of the ranks. */
    int (*exchange)(const team *t, ptrdiff_t n, size_t size, const void *x, void *parts);

    /* x [n] of rank `from` becomes everyone's. */
    int (*broadcast)(const team *t, int from, ptrdiff_t n, size_t size, void *x);

    /* *x becomes everyone's least. */
    int (*least)(const team *t, int *x);

    /* x [n] becomes the sum of everyone's, the same for all, added up in an order of the team's own; NULL: there is
     * no such function. */
    int (*sum)(const team *t, ptrdiff_t n, real *x);

    void *own; /* the maker's */
};

/* Where that rank's part of n elements begins; rank `ranks`: where the last one ends. */
ptrdiff_t team_first(const team *t, ptrdiff_t n, int rank);

/* Whether nobody has an error latched. -1 where somebody has: all are then left with that of the first such rank,
 * "rank 2: ..." in front. Ranks that might fail on their own, while they open files, say, call it before they go on
 * together. A NULL team is a rank alone. */
int team_agree(const team *t);

#pragma GCC visibility pop

#endif
