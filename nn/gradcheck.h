/* gradcheck.h: is a backward pass the derivative of its forward pass?
 *
 * Every element of the input and of every parameter is moved up and down a little, and the change of
 * the output is held against what the layer's hooks say (central differences; the output is weighed by
 * random numbers, or by a loss). Run it in double (libstride-double): in float, differences are good to
 * two digits or so and the default tolerance says only that.
 *
 *     st_gradcheck_result r = st_gradcheck_layer(l, ST_SHAPE(2, 3, 8, 8), (st_gradcheck_options){ 0 });
 *     if (!r.passed) fprintf(stderr, "%s\n", r.text);
 *
 * Errors are relative: |analytic - numeric| / max(|analytic|, |numeric|, 1 % of the largest in that
 * tensor). Where a function has a kink within a step (max, relu) smaller steps are tried; where its two
 * one-sided derivatives differ at the point itself and the analytic one lies between them, the element
 * is counted as a kink and skipped, and too many of those are a failure. A tensor whose gradient is zero
 * on both sides everywhere proves nothing and fails as VACUOUS. Beyond the numbers it checks the contract:
 * forward writes all of y, gives the same twice and for an x of other strides, backward overwrites dx, gradient adds to what is
 * there, and none of them writes x, y or dy. Parameters and states are as before when it
 * returns, gradients are zero. A batch of more than 8 is cut into chunks, as in training: take N = 9 to see a layer
 * that confuses them. */
#ifndef STRIDE_NN_GRADCHECK_H
#define STRIDE_NN_GRADCHECK_H

#include "nn/loss.h"
#include "nn/net.h"

ST_API_BEGIN

/* How to check; zeros are defaults. */
typedef struct st_gradcheck_options {
    double tolerance;     /* 0: 1e-6 in double, 5e-2 in float */
    double step;          /* 0: the cube root of the precision, times max(1, |x|) */
    double kinks;         /* fraction of a tensor's elements that may be skipped; 0: 0.1 */
    ptrdiff_t most;       /* elements of each tensor to check, drawn at random; 0: all */
    bool inference;       /* check the layer in inference mode */
    bool keep_parameters; /* check at the parameters as they are; else moved at random for the check, so
                             that a scale that begins as 1 does not hide that it is forgotten */
    uint64_t seed;
    FILE *report; /* a line for each tensor; NULL: none */
} st_gradcheck_options;

/* What came of it. */
typedef struct st_gradcheck_result {
    bool passed;
    double worst;             /* the largest relative error */
    ptrdiff_t checked, kinks; /* elements, and how many of them were skipped */
    char text[ST_ERROR_SIZE]; /* what failed: the worst element, analytic and numeric; or "passed" */
} st_gradcheck_result;

/* Builds the layer for x, whose elements are random (normal), and checks it. */
st_gradcheck_result st_gradcheck_layer(st_layer *l, st_shape x, st_gradcheck_options options);

/* At an input of yours, any view: each of its places is moved, which moves all indices that name it. */
st_gradcheck_result st_gradcheck_layer_at(st_layer *l, st_tensor x, st_gradcheck_options options);

/* A net with its loss, at its parameters as they are. */
st_gradcheck_result st_gradcheck_net(st_net *n, st_tensor x, st_tensor target, st_loss l,
                                     st_gradcheck_options options);

/* One line in a cmocka test: st_assert_gradients(layer, ST_SHAPE(2, 3, 8, 8)). */
#define st_assert_gradients(l, x)                                                                            \
    do {                                                                                                     \
        st_gradcheck_result assert_gradients_result =                                                        \
            st_gradcheck_layer((l), (x), ST_OPTIONS(st_gradcheck_options, 0));                               \
        if (!assert_gradients_result.passed) fail_msg("%s", assert_gradients_result.text);                   \
    } while (0)

ST_API_END

#endif
