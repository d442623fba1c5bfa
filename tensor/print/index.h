/* index.h: the index of an element, for messages that name it. */
#ifndef STRIDE_TENSOR_PRINT_INDEX_H
#define STRIDE_TENSOR_PRINT_INDEX_H

#include "tensor/tensor.h"

/* The index of element k, row-major. */
static inline st_shape shape_index(st_shape s, ptrdiff_t k)
{
    for (int i = s.rank - 1; i >= 0; i--) {
        const ptrdiff_t size = s.n[i];
        s.n[i] = k % size;
        k /= size;
    }
    return s;
}

#endif
