/* stride.h: Stride VERSION, a minimal neural-network framework, in two files: this header and stride.c.
 *
 * Copy both into a program, include this one, and compile the other with it:
 *
 *     cc -O3 main.c stride.c -lm -lpthread
 *
 * The top of stride.c says what a build may leave out. ST_DOUBLE, defined for both files, makes the
 * elements of tensors double instead of float.
 *
LICENSE */
#ifndef STRIDE_H
#define STRIDE_H

#if defined(ST_DOUBLE) && !defined(STRIDE_DOUBLE)
#define STRIDE_DOUBLE
#endif
