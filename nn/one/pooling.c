/* stride-pooling.c: the pooling layers of the literature, for stride.c of Stride VERSION.
 *
 * stride.c includes this file if it is compiled with -DST_WITH_POOLING:
 *
 *     cc -O3 -DST_WITH_POOLING main.c stride.c -lm -lpthread
 *
LICENSE */
