/* work.h: one thing to measure, prepared: machine.c, layer_work.c and net_work.c make them from the words of
 * a request. */
#ifndef STRIDE_TESTS_BENCH_WORK_H
#define STRIDE_TESTS_BENCH_WORK_H

#include "tensor/error.h"

typedef struct work work;
struct work {
    int (*choose)(work *w, const char *pass); /* what run does next: "forward", …; -1: there is no such */
    void (*run)(void *w);
    void (*tell)(
        work *w); /* prints what the chosen pass makes of known numbers (outline.h); NULL: it is random */
    void (*end)(work *w);
};

/* NULL with an error, as in all of the library; NULL without one where the kind is not theirs. */
work *work_of_machine(int count, char **word); /* fma; sgemm N; copy MEGABYTES */
work *work_of_layer(int count, char **word);   /* conv N C H W O K stride padding; relu N C H W; … */
work *work_of_net(int count, char **word);     /* net NAME BATCH */

/* The word as a number; -1 with an error where it is none in least … most. */
long work_number(const char *word, long least, long most);

#endif
