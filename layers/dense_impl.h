/* dense_impl.h: shared by the algorithms of a dense layer. */
#ifndef STRIDE_LAYERS_DENSE_IMPL_H
#define STRIDE_LAYERS_DENSE_IMPL_H

#include "layers/layer_impl.h"
#include "layers/types.h"

enum { DENSE_WEIGHT, DENSE_BIAS }; /* parameters */
enum { DENSE_INPUT };              /* scratch: a copy of x */

/* x [N, in] itself, or the rows [N T, in] of an x [N, T, in], copied unless x is contiguous. */
st_tensor dense_rows(const st_call *c, st_tensor x);

/* Adds dy's sum over the batch to the bias's gradient, if there is a bias. */
void dense_bias_gradient(const st_call *c, st_tensor dy);

#endif
