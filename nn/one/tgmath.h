/* tgmath.h: functions by the type of their argument, also for compilers without <tgmath.h>. */
#ifndef STRIDE_NN_ONE_TGMATH_H
#define STRIDE_NN_ONE_TGMATH_H

#ifdef __GNUC__
#include <tgmath.h>
#else
#include <math.h>
#define ONE_MATH(name, x) _Generic((x), float : name##f, default : name)(x)
#define cos(x) ONE_MATH(cos, x)
#define erf(x) ONE_MATH(erf, x)
#define exp(x) ONE_MATH(exp, x)
#define expm1(x) ONE_MATH(expm1, x)
#define fabs(x) ONE_MATH(fabs, x)
#define log(x) ONE_MATH(log, x)
#define log1p(x) ONE_MATH(log1p, x)
#define sin(x) ONE_MATH(sin, x)
#define sqrt(x) ONE_MATH(sqrt, x)
#define tanh(x) ONE_MATH(tanh, x)
#endif

#endif
