/* mpi.h: MPI's processes as a team, which trains one net together.
 *
 *     const st_comm *all = st_mpi_begin();
 *     st_train(n, training, ..., .group = st_group_of(all, false), .result = &r);      // at every rank
 *     st_mpi_end(all);
 *
 * Built by `make MPI=1`, and linked with by the flags of stride-mpi.pc, or stride-mpi-double.pc: a library apart,
 * so that those who have no MPI need none. Programs need not include MPI's own header. */
#ifndef STRIDE_NN_RANKS_MPI_H
#define STRIDE_NN_RANKS_MPI_H

#include "nn/ranks/team.h"

ST_API_BEGIN

/* All processes that mpirun started: MPI is initialised where it is not yet, and hands its errors back. Called
 * once, from the thread that trains. A program started without mpirun is a team of one. NULL with an error. */
const st_comm *st_mpi_begin(void);

/* Before a program ends, at every rank: waits for the others, and ends MPI where st_mpi_begin began it. NULL is
 * allowed. */
void st_mpi_end(const st_comm *t);

ST_API_END

#endif
