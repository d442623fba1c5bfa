/* print.h: tensors as text. */
#ifndef STRIDE_TENSOR_PRINT_PRINT_H
#define STRIDE_TENSOR_PRINT_PRINT_H

#include "tensor/tensor.h"

#include <stdio.h>

ST_API_BEGIN

/* Prints as NumPy prints an array of this precision: the fewest digits of the nearest decimal that read back
 * as the same number, aligned columns, "..." in tensors of more than 1,000 elements. A tensor of rank 0 is
 * printed without brackets. No newline at the end. */
void st_print(FILE *to, st_tensor x);

/* The same into memory, as snprintf: writes at most `size` bytes with the final zero, returns the full
 * length. */
size_t st_format(char *to, size_t size, st_tensor x);

ST_API_END

#endif
