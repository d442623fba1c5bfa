/* scores.h: a net's loss, accuracy, confusion matrix and most confident mistakes on a data set. */
#ifndef STRIDE_EXAMPLES_STRIDE_SCORES_H
#define STRIDE_EXAMPLES_STRIDE_SCORES_H

#include "nn/data.h"
#include "nn/data/normalize.h"
#include "nn/loss.h"
#include "nn/net.h"

#include <jansson.h>

enum { MOST_MISTAKES = 24 };

typedef struct mistake {
    ptrdiff_t sample, truth, predicted; /* the sample's number in the set, its class, the predicted class */
    double confidence;                  /* softmax of the predicted class's output */
    st_tensor x;
} mistake;

typedef struct scores {
    ptrdiff_t count, classes; /* samples; 0: the targets are numbers */
    ptrdiff_t right;          /* numbers that a binary loss takes, on the right side of 0 */
    double loss, accuracy;    /* means over the samples; accuracy NaN of other numbers */
    ptrdiff_t *confusion;     /* [truth * classes + predicted]: samples */
    int mistakes;
    mistake mistake[MOST_MISTAKES]; /* most confident first */
} scores;

/* Runs the net in inference mode; classes are one-hot for a loss of numbers; `undo`, unless NULL, brings its
 * outputs to the unit of the targets. -1 with an error, and nothing to free. */
int scores_measure(scores *s, st_net *n, const st_dataset *d, st_loss l, const st_normalization *undo);
void scores_free(scores *s);

/* Samples, precision, recall and F1 of class k. NaN if there are no samples. */
typedef struct class_scores {
    ptrdiff_t samples;
    double precision, recall, f1;
} class_scores;
class_scores scores_of(const scores *s, ptrdiff_t k);

ptrdiff_t scores_at(const scores *s, ptrdiff_t truth, ptrdiff_t predicted);

/* The most frequent confusions in descending order; returns their number. */
typedef struct confused {
    ptrdiff_t truth, predicted, count;
} confused;
int scores_confused(const scores *s, confused *found, int most);

/* `name` of each class: without control characters for printing, in UTF-8 for JSON. */
void scores_print(const scores *s, const char *const *name, FILE *to);
json_t *scores_json(const scores *s, const char *const *name); /* to be released */

#endif
