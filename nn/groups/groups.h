/* groups.h: parameters by name, which train with rates of their own, or not at all. */
#ifndef STRIDE_NN_GROUPS_GROUPS_H
#define STRIDE_NN_GROUPS_GROUPS_H

#include "nn/optim.h"

ST_API_BEGIN

/* Divides the parameters of a built net into groups, as PyTorch's parameter groups do. A parameter belongs to
 * the first group that matches it; one in no group trains with the optimizer's options. Frozen parameters are
 * frozen in the net, too (st_layer_freeze). Replaces earlier groups; with a count of 0 all parameters train.
 * The trainer does both with its option .groups, which holds for one run:
 *
 *     .groups = { { "0.*", .frozen = true },                            // a layer as it was loaded
 *                 { "*", .vectors = true, .weight_decay = ST_ZERO } }   // no decay of biases and norms
 *
 * A batch normalisation with frozen parameters still updates its running statistics in training, as in
 * PyTorch. -1 with an error, and nothing is changed: a group without parameters, none that trains, a number
 * out of range. */
int st_optim_groups(st_optim *o, st_net *n, int count, const st_param_group group[]);

ST_API_END

#endif
