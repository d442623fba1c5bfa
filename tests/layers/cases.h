/* cases.h: the table of layers that test_cases.c goes through in all its modes. A new layer enters by one
 * row. */
#ifndef STRIDE_TESTS_LAYER_CASES_H
#define STRIDE_TESTS_LAYER_CASES_H

#include "tests/layers/naive.h"
#include "tests/support.h"

/* Traits of a row's layer. */
enum {
    LINEAR = 1,   /* in x, and with one parameter in that: adjoint in both */
    WHOLE = 2,    /* an image's y depends on the rest of the batch */
    EXTREMES = 4, /* NaN and infinity are among the inputs */
    LARGE = 8,    /* tried less often */
    OFTEN = 16,   /* and more often: what it runs depends on its sizes */
};

typedef struct layer_case {
    const char *name;
    st_layer *(*roll)(dice *d, st_shape *x); /* random options, and an input that fits them */

    /* Its definition in plain loops; NULL: its numbers are tested elsewhere. */
    naive_layer *want;
    int most;     /* elements of x are integers from -most to most */
    double scale; /* y and dx are multiples of 1/scale, to be compared as integers; 0: 1 */
    double
        limit; /* or are compared within so many epsilons of the greatest element, at least of 1; 0: exact */
    int traits;
} layer_case;
extern const layer_case layer_cases[]; /* ended by one without a name */

#define OPTIONS(type) (*(const type *)l->options) /* of the layer l */

/* Random windows, and images that they fit into; random images. */
st_maxpool_options roll_windows(dice *d, st_shape *x);
st_shape roll_images(dice *d);

/* The windows of options, for those of another layer. */
#define WINDOWS(o)                                                                                           \
    .kernel = { (o).kernel[0], (o).kernel[1] }, .stride = { (o).stride[0], (o).stride[1] },                  \
    .padding = { (o).padding[0], (o).padding[1] }, .dilation = { (o).dilation[0], (o).dilation[1] },         \
    .ceil_mode = (o).ceil_mode, .pad_height = { (o).pad_height[0], (o).pad_height[1] },                      \
    .pad_width = { (o).pad_width[0], (o).pad_width[1] }

/* Poolings that the table has as the user's own: the sum of (3 + i) x[i]²; of weight[i] x[i], and of the
 * position times the channel's shift; of the elements that a random bit chooses, in inference of all. */
extern const st_layer_type squares, trained, drawn;

#endif
