/* stride.h: Stride VERSION, a minimal neural-network framework, in two files: this header and stride.c.
 *
 * Copy both into a program, include this one, and compile the other with it:
 *
 *     cc -O3 main.c stride.c -lm -lpthread
 *
 * The top of stride.c says what a build may leave out. ST_DOUBLE, defined for both files, makes the
 * elements of tensors double instead of float, as libstride-double does. The sections of this file begin
 * with the names of the headers that they were, such as nn/train.h; docs/ is a folder of the project.
 *
 * A network that learns digits, and is saved:
 *
PROGRAM main.c
 *
 * A layer of one's own, y = w x³, whose gradients are checked (compile with -DST_DOUBLE):
 *
PROGRAM cube.c
 *
LICENSE */
#ifndef STRIDE_H
#define STRIDE_H

#if defined(ST_DOUBLE) && !defined(STRIDE_DOUBLE)
#define STRIDE_DOUBLE
#endif
