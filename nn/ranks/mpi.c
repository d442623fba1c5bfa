/* mpi.c: a team of MPI processes. */
#include "nn/ranks/mpi.h"

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>

/* A team's own. */
typedef struct processes {
    MPI_Comm all;
    int *count, *first; /* of each rank's part, for vector collectives */
    bool began;         /* MPI was initialised here */
} processes;

/* ---- errors ------------------------------------------------------------------------------------------- */

static int checked(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS) return 0;
    MPI_Error_string(code, text, &length);
    return st_error_set("mpi: %s: %s", what, text);
}

/* MPI counts in int. */
static int countable(ptrdiff_t n)
{
    return n <= INT_MAX ? 0 : st_error_set("mpi: %td elements at once, expected at most %d", n, INT_MAX);
}

/* ---- collectives, of elements of `size` bytes ------------------------------------------------------ */

static int begin_type(size_t size, MPI_Datatype *type)
{
    return checked(MPI_Type_contiguous((int)size, MPI_BYTE, type), "a data type") ||
                   checked(MPI_Type_commit(type), "a data type")
               ? -1
               : 0;
}

static void share_out(const st_comm *t, ptrdiff_t n)
{
    const processes *p = t->own;
    for (int q = 0; q < t->ranks; q++) {
        p->first[q] = (int)st_comm_first(t, n, q);
        p->count[q] = (int)st_comm_first(t, n, q + 1) - p->first[q];
    }
}

static int all_gather(const st_comm *t, ptrdiff_t n, size_t size, void *x)
{
    const processes *p = t->own;
    MPI_Datatype type;
    if (countable(n) || begin_type(size, &type)) return -1;
    share_out(t, n);
    int code = MPI_Allgatherv(MPI_IN_PLACE, 0, type, x, p->count, p->first, type, p->all);
    MPI_Type_free(&type);
    return checked(code, "all-gather");
}

static int all_to_all(const st_comm *t, ptrdiff_t n, size_t size, const void *x, void *parts)
{
    const processes *p = t->own;
    MPI_Datatype type;
    if (countable(n + t->ranks) || begin_type(size, &type)) return -1;
    share_out(t, n);
    int *count = p->count + t->ranks, *first = p->first + t->ranks;
    for (int q = 0; q < t->ranks; q++) {
        count[q] = p->count[t->rank];
        first[q] = q * count[q];
    }
    int code = MPI_Alltoallv(x, p->count, p->first, type, parts, count, first, type, p->all);
    MPI_Type_free(&type);
    return checked(code, "all-to-all");
}

static int broadcast(const st_comm *t, int from, ptrdiff_t n, size_t size, void *x)
{
    const processes *p = t->own;
    MPI_Datatype type;
    if (countable(n) || begin_type(size, &type)) return -1;
    int code = MPI_Bcast(x, (int)n, type, from, p->all);
    MPI_Type_free(&type);
    return checked(code, "broadcast");
}

static int all_min(const st_comm *t, int *x)
{
    const processes *p = t->own;
    return checked(MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INT, MPI_MIN, p->all), "all-reduce");
}

static int all_reduce(const st_comm *t, ptrdiff_t n, st_real *x)
{
    const processes *p = t->own;
    MPI_Datatype type = sizeof(st_real) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT;
    if (countable(n)) return -1;
    return checked(MPI_Allreduce(MPI_IN_PLACE, x, (int)n, type, MPI_SUM, p->all), "all-reduce");
}

/* ---- initialising and finalising ------------------------------------------------------------------- */

static int join(st_comm *t, processes *p)
{
    if (checked(MPI_Comm_dup(MPI_COMM_WORLD, &p->all), "a communicator") ||
        checked(MPI_Comm_set_errhandler(p->all, MPI_ERRORS_RETURN), "a communicator") ||
        checked(MPI_Comm_rank(p->all, &t->rank), "a rank") ||
        checked(MPI_Comm_size(p->all, &t->ranks), "ranks"))
        return -1;
    p->count = calloc(2 * (size_t)t->ranks, sizeof *p->count);
    p->first = calloc(2 * (size_t)t->ranks, sizeof *p->first);
    return p->count && p->first ? 0 : st_error_set("st_mpi_begin: no memory for %d ranks", t->ranks);
}

static int initialise(processes *p)
{
    int had, given;
    MPI_Initialized(&had);
    if (!had && checked(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given), "initialisation"))
        return -1;
    p->began = !had;
    return 0;
}

const st_comm *st_mpi_begin(void)
{
    st_comm *t = malloc(sizeof *t);
    processes *p = malloc(sizeof *p);
    if (!t || !p) {
        st_error_set("st_mpi_begin: no memory");
        free(t), free(p);
        return NULL;
    }
    *p = (processes){ .all = MPI_COMM_NULL };
    *t = (st_comm){ 0, 1, all_gather, all_to_all, broadcast, all_min, all_reduce, p };
    if (initialise(p) == 0 && join(t, p) == 0) return t;
    st_mpi_end(t);
    return NULL;
}

void st_mpi_end(const st_comm *t)
{
    if (!t) return;
    processes *p = t->own;
    if (p->all != MPI_COMM_NULL) MPI_Comm_free(&p->all);
    if (p->began) MPI_Finalize();
    free(p->count);
    free(p->first);
    free(p);
    free((st_comm *)t);
}
