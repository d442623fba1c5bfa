/* real.h: the one file that knows precision.
 *
 * The same source builds libstride (float) and libstride-double (double, with -DSTRIDE_DOUBLE).
 * Every file that includes this one refers to a symbol that only the matching library defines, so
 * mixing the two stops at the linker ("undefined reference to st_precision_is_double").
 * Denormal numbers are numbers like others: no flag of the processor that takes them for 0 is set. With AVX2 or AVX-512
 * they were measured to cost a fifth more at most, without up to four times as much.
 * Mathematics is called by its type-generic name (<tgmath.h>): exp(x) is expf for a float. */
#ifndef STRIDE_TENSOR_REAL_H
#define STRIDE_TENSOR_REAL_H

#include "tensor/api.h"

#include <float.h>

/* The elements of tensors, what NumPy and PyTorch call them, and their <float.h>. ST_PRECISION is the symbol. */
#ifdef STRIDE_DOUBLE
typedef double st_real;
#define ST_REAL_NAME "float64"
#define ST_REAL_EPSILON DBL_EPSILON
#define ST_REAL_MAX DBL_MAX
#define ST_PRECISION st_precision_is_double
#else
typedef float st_real;
#define ST_REAL_NAME "float32"
#define ST_REAL_EPSILON FLT_EPSILON
#define ST_REAL_MAX FLT_MAX
#define ST_PRECISION st_precision_is_float
#endif

/* What the linker looks for. */
ST_API_BEGIN
extern const char ST_PRECISION;
ST_API_END
static const char *const st_precision_in_use __attribute__((used)) = &ST_PRECISION;

#endif
