/* plan.h: what the atlas tries: every net, epoch, seed and measure is a row of plan.c. */
#ifndef STRIDE_EXAMPLES_ATLAS_PLAN_H
#define STRIDE_EXAMPLES_ATLAS_PLAN_H

#include <stdbool.h>
#include <stddef.h>

/* How large: an hour at most, five minutes, or the seconds of a test. */
typedef enum scale { FULL, QUICK, SMOKE, SCALES } scale;

/* A pooling, as a layer of a network's text. Tables of them end with a name of NULL. */
typedef struct pooling {
    const char *name, *text;
    const char *formula; /* of y, from the elements x of a window */
    const char *source;  /* the paper */
} pooling;

/* A pooling in an experiment. The layers stand for POOL in its net: one text for all, or one for each, with
 * semicolons between. */
typedef struct candidate {
    const char *name, *layers;
    double claim; /* the paper's error in per cent; 0: none for this net and these data */
} candidate;

typedef struct experiment_size {
    int train, test; /* images, from the first on */
    int epochs, seeds;
} experiment_size;

/* The seeds are 1 ... seeds. An error is of the test images after the last epoch; nothing is chosen by it. */
typedef struct experiment {
    const char *key, *title;
    const char *claim;  /* what the paper says */
    const char *scaled; /* what differs from it here, besides the numbers of `size` */
    const char *net;
    const candidate *candidates;
    experiment_size size[SCALES];
    int batch;
    double lr,
        weight_decay; /* SGD with Nesterov's momentum 0.9: half an epoch of warm-up, then half a cosine */
    int shift;        /* augmentation: training images are shifted by up to that many pixels */
    int inconsistent; /* consistency is measured between shifts of up to that many pixels; 0: it is not */
} experiment;

extern const pooling plan_poolings[];
extern const experiment plan_experiments[]; /* ends with a key of NULL */
extern const char plan_speed_net[];         /* a step of it is timed, with each pooling */
extern const char plan_speed_layer[];       /* and of each pooling alone */

enum { PLAN_SPEED_BATCH = 64, PLAN_SPEED_ROUNDS = 7, PLAN_DIGIT = 0 /* the test image of the pictures */ };

#endif
