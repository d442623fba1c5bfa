/* mpi.h: MPI processes that train one net together.
 *
 *     const st_comm *all = st_mpi_begin();
 *     st_train(n, training, ..., .ranks = all, .result = &r);      // at every rank
 *     st_mpi_end(all);
 *
 * `make MPI=1` builds it as a separate library, so that Stride itself does not depend on MPI; link with the
 * flags of stride-mpi.pc or stride-mpi-double.pc. Programs need not include MPI's own header. */
#ifndef STRIDE_NN_RANKS_MPI_H
#define STRIDE_NN_RANKS_MPI_H

#include "nn/ranks/team.h"

ST_API_BEGIN

/* All processes that mpirun started. Initialises MPI unless it is already, and makes it return errors. Call
 * it once, from the thread that trains. Without mpirun there is one rank. NULL with an error. */
const st_comm *st_mpi_begin(void);

/* Call it at every rank before the program ends: waits for the others, and finalises MPI if st_mpi_begin
 * initialised it. NULL is allowed. */
void st_mpi_end(const st_comm *t);

ST_API_END

#endif
