/* subjects.h: what is measured: the machine, layers at their passes, networks. */
#ifndef STRIDE_TESTS_BENCH_SUBJECTS_H
#define STRIDE_TESTS_BENCH_SUBJECTS_H

#include <stdbool.h>

enum { SUBJECT_TEXT = 1024 };

typedef struct subject {
    char name[SUBJECT_TEXT];    /* "conv 64x1x28x28 32@3x3" */
    char request[SUBJECT_TEXT]; /* what a peer is asked for, without the pass: "layer 64x1x28x28 conv 32 3" */
    const char
        *pass; /* "forward", "backward" (by data), "gradient" (by parameters), "both", "train", "infer" */
    const char *process; /* subjects of one name share a process, and so its peak of memory */
    double flops;        /* nominal; 0: not counted */
    double bytes;        /* that must be read or written at least once; 0: not counted */
    double images;       /* of a network's batch; else 0 */
    bool alone;          /* measured of Stride only, not of peers */
    bool busy;           /* beside a process that is always busy */
} subject;

/* Its name, pass or request contains the part. */
bool subject_is_called(const subject *s, const char *part);

/* Those of a file: lines as requests have them, "layer 64x3x32x32 conv 8 3" or "net lenet5 64", and
 * comments after #. A layer's passes are forward, both and, if it has parameters, gradient. What limits them
 * (limits.h) comes first; small: by copies that take little time. NULL with an error. */
subject *subjects_read(const char *path, bool small, int *count);

/* All of them, for this many images a batch; `count` receives how many. NULL with an error. */
subject *subjects_new(int batch, int *count);

#endif
