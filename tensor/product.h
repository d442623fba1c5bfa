/* product.h: the table of matrix products; private to the library. */
#ifndef STRIDE_TENSOR_PRODUCT_H
#define STRIDE_TENSOR_PRODUCT_H

#include "tensor/tensor.h"

/* c = alpha a b + beta c, for matrices of any strides that st_gemm has checked; none of them is empty. */
typedef void product_function(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta);

/* st_gemm calls it instead of its own loops, except with STRIDE_ENGINE=reference. NULL in the core;
 * tensor/blas/ puts BLAS in. Not const: clang would read the weak definition when it compiles. */
extern product_function *product_by_library;

#endif
