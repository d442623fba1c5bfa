/* work.h: one thing to measure, prepared: machine.c, layer_work.c and net_work.c make them from a request. */
#ifndef STRIDE_TESTS_BENCH_WORK_H
#define STRIDE_TESTS_BENCH_WORK_H

#include "tensor/error.h"

typedef struct work work;
struct work {
    int (*choose)(work *w, const char *pass); /* what run is to do next: "forward", …; -1: there is no such */
    void (*run)(void *w);
    int (*result)(
        work *w, const char *pass); /* writes what a pass computes from what (arrays.h); NULL: nothing does */
    void (*end)(work *w);
};

/* From the words of a request, the third being the rest of it: NULL with an error, as in all of the
 * library; NULL without one where the kind is not theirs. */
enum { WORK_WORDS = 3 };
work *work_of_machine(int count, char **word); /* fma; sgemm N; copy MEGABYTES */
work *work_of_layer(int count, char **word);   /* layer 64x3x32x32 conv 8 3, as network.h has it */
work *work_of_net(int count, char **word);     /* net NAME BATCH */

/* The word as a number; -1 with an error where it is none in least … most. */
long work_number(const char *word, long least, long most);

#endif
