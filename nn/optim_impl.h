/* optim_impl.h: how an optimizer's steps run; private to the library. */
#ifndef STRIDE_NN_OPTIM_IMPL_H
#define STRIDE_NN_OPTIM_IMPL_H

#include "nn/optim.h"

/* Adjacent parameters of one group. */
typedef struct optim_range {
    ptrdiff_t first, count;
    double lr_factor, weight_decay;
} optim_range;

/* One block. */
struct st_optim_ranges {
    int count;
    ptrdiff_t parameters; /* of the net */
    optim_range range[];  /* those that train */
};

/* A step of n parameters; false if one of them is NaN or infinite afterwards. */
typedef bool optim_sweep(const st_optim_call *c, ptrdiff_t n, st_real *w, const st_real *g);

/* The same as a kind's step by vectors, or NULL. The pointer is NULL without nn/fast/ (tensor/tables.h). */
extern optim_sweep *(*optim_sweep_by_vectors)(const st_optim_kind *kind);

/* st_optim_groups; NULL without nn/groups/. */
typedef int optim_grouping(st_optim *o, st_net *n, int count, const st_param_group group[]);
extern optim_grouping *optim_groups_by_name;

#endif
