/* real.h: the type of elements, float or double, and what depends on it.
 *
 * The same source builds libstride (float) and libstride-double (double, with -DSTRIDE_DOUBLE), whose
 * functions have other names (names.h), so that one program may use both. Every file that includes this one
 * refers to a symbol that only the matching library defines, so that the linker says why a file does not link
 * with the other library alone ("undefined reference to st_precision_is_double"). Denormals are not flushed
 * to zero. They were measured to cost at most 20 % with AVX2 or AVX-512, and up to four times the time
 * without. Math functions are called by their type-generic names (<tgmath.h>): exp(x) is expf for a float. */
#ifndef STRIDE_TENSOR_REAL_H
#define STRIDE_TENSOR_REAL_H

#include "tensor/api.h"

#include <float.h>

/* The type of elements, its name in NumPy and PyTorch, its limits, and the symbol that identifies the
 * library. */
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

/* Makes the linker look for it. */
ST_API_BEGIN
extern const char ST_PRECISION;
ST_API_END
#ifdef __GNUC__
static const char *const st_precision_in_use __attribute__((used)) = &ST_PRECISION;
#endif

#endif
