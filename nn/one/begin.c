/* stride.c: Stride VERSION, a minimal neural-network framework, in two files: stride.h and this source.
 *
 * It has tensors, layers, training, safetensors files with checkpoints, and drawn digits as a data set:
 * all that needs no other library. `make stride.c` joins it from the sources, which have the comments.
 * Compile it beside the program:
 *
 *     cc -O3 main.c stride.c -lm -lpthread
 *
 * Macros that leave parts out, to be defined when both files are compiled:
 *
 *     ST_OMIT_THREADS      the pool of threads; without it -lpthread is not needed
 *     ST_OMIT_FAST         algorithms by vector instructions: definitions run instead, whose results are the
 *                          same bits on every machine
 *     ST_OMIT_CHECK        gradient checks and summaries
 *     ST_OMIT_CALLBACKS    progress, logs, early stopping, clipping and the other callbacks
 *     ST_OMIT_DATA         drawn digits, augmentation, and sets made of other sets
 *     ST_OMIT_FILES        safetensors and checkpoints
 *     ST_OMIT_PRINT        printing of tensors
 *
 * ST_WITH_POOLING adds the pooling layers of the literature: stride.c then includes stride-pooling.c, which
 * has to lie beside it.
 *
 * ST_FUSED lets the compiler make one instruction of a product and a sum anywhere: other bits on machines
 * that have it. ST_DOUBLE makes the elements of tensors double instead of float. Compilers other than gcc
 * and clang have no vector instructions, and Windows has no threads: there these parts are left out by
 * themselves.
 *
LICENSE */
#ifndef ST_WITH_POOLING
#define ST_OMIT_POOLING
#endif
#ifndef __GNUC__
#ifndef ST_OMIT_FAST
#define ST_OMIT_FAST
#endif
#define STRIDE_GENERIC
#ifndef ST_OMIT_THREADS
#define ST_OMIT_THREADS
#endif
#define __attribute__(list)
#define _Pragma(text)
/* False, and *to is the result, if that is exact: below 2^53 a double is. */
#define ONE_OVERFLOWS(rounded, result, to)                                                                   \
    ((rounded) >= 0x1p53 || (rounded) <= -0x1p53 || (*(to) = (result), 0))
#define __builtin_mul_overflow(a, b, to) ONE_OVERFLOWS((double)(a) * (double)(b), (a) * (b), to)
#define __builtin_add_overflow(a, b, to) ONE_OVERFLOWS((double)(a) + (double)(b), (a) + (b), to)
#if defined(__TINYC__)
#include <float.h>
#define FLT_DECIMAL_DIG 9
#define DBL_DECIMAL_DIG 17
#define _Thread_local
#endif
#endif
#if defined(_WIN32) && !defined(ST_OMIT_THREADS)
#define ST_OMIT_THREADS
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define __USE_MINGW_ANSI_STDIO 1
#ifdef _MSC_VER
#define _CRT_SECURE_NO_WARNINGS
#endif

/* Products and sums are rounded separately, whatever the compiler was told, but for the kernels. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wmissing-field-initializers"
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-const-variable"
#pragma clang diagnostic ignored "-Wunused-variable"
#pragma clang diagnostic ignored "-Wmisleading-indentation"
#ifndef ST_FUSED
#pragma STDC FP_CONTRACT OFF
#else
#pragma STDC FP_CONTRACT ON
#endif
#define FUSED_BEGIN _Pragma("clang fp contract(fast)")
#define FUSED_END _Pragma("clang fp contract(off)")
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wformat-truncation"
#pragma GCC diagnostic ignored "-Wmisleading-indentation"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC optimize("no-math-errno", "no-trapping-math")
#ifndef ST_FUSED
#pragma GCC optimize("fp-contract=off")
#else
#pragma GCC optimize("fp-contract=fast")
#endif
#define FUSED_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"fp-contract=fast\")")
#define FUSED_END _Pragma("GCC pop_options")
#endif

/* Names of arrays that only this file uses. */
#ifdef ST_DOUBLE
#define ONE_NAME(x) st_double_one_##x
#else
#define ONE_NAME(x) st_one_##x
#endif

#include "stride.h"

/* Short names in lines without blanks, which join.awk reads here. */
typedef ptrdiff_t idx;
typedef const ptrdiff_t cidx;
typedef st_real num;
typedef const st_real cnum;
typedef st_tensor tsr;
typedef const st_tensor ctsr;
typedef st_shape shp;
typedef const st_shape cshp;
typedef double dbl;
typedef const double cdbl;
typedef st_call cll;
typedef const st_call ccll;
typedef st_layer lyr;
typedef const st_layer clyr;
typedef uint64_t u64;
typedef const uint64_t cu64;
#define ipl implicit_plan
#define cipl const implicit_plan
#define ers st_error_set
#define sht st_shape_text
#define lrf st_layer_refuse
#define isn st_is_null
#define scr st_scratch
#define mnm smallest
#define mxm largest
#define cdv ceil_div
#define nrw st_narrow
#define snm st_shape_numel
#define lsc st_layer_scratch
#define tfr st_tensor_free
#define cls columns
#define ccls const columns
#define chn channels
#define cchn const channels
#define vts vectors
#define wns windows
#define krt kernel_transpose
#define ptc pitch
#define inl INLINE
#define isc st_is_contiguous
#define atk arena_take
#define lpd st_layer_plan_data
#define shq st_shape_equal
#define kpd kernel_padded
#define ths threads
#define dts st_dataset
#define cdts const st_dataset
#define wpn winograd_plan
#define cwpn const winograd_plan
#define lal layer_algorithm
#define clal const layer_algorithm
