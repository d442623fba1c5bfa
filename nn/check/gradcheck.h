/* gradcheck.h: is a backward pass the derivative of its forward pass?
 *
 * Every element of the input and of every parameter is varied, and the change of a scalar (the output times
 * random weights, or a loss) is compared with the gradients: central differences. Use libstride-double: in
 * float, differences have about two correct digits, and the default tolerance allows for that.
 *
 *     st_gradcheck_result r = st_gradcheck_layer(l, ST_SHAPE(2, 3, 8, 8), (st_gradcheck_options){ 0 });
 *     if (!r.passed) fprintf(stderr, "%s\n", r.text);
 *
 * Errors are relative: |analytic - numeric| / max(|analytic|, |numeric|, 1 % of the tensor's largest), or of
 * all of its largest where the rounding of the output may be as much as the error. A gradient that is 0 but
 * for rounding, such as that of a bias before a batch normalisation, has no error. If there is a kink within
 * a step (max, relu) smaller steps are tried; if the one-sided derivatives differ at the point itself and the
 * analytic one lies between them, the element is skipped as a kink. Too many kinks are a failure. A tensor
 * whose gradients are all zero, analytic and numeric, fails as VACUOUS.
 *
 * The contract is checked, too: forward writes all of y and returns the same for a second call and for an x
 * of other strides, backward overwrites dx, gradient adds to dw, also where dx is null, and none of them
 * writes its inputs or a parameter.
 * Each forward pass begins with the same states, so that a layer that changes its states in training
 * (spectral normalisation, batch renormalisation) is checked as a function of x and its parameters.
 * Afterwards parameters and states are as before, and gradients are zero. Batches of more than 8 are cut into
 * chunks, as in training: check with N = 9 to find a layer that mixes chunks up.
 *
 * `directions` is the cheap mode for large nets: x and all parameters are varied at once, so that a direction
 * takes as few forward passes as an element. If its derivative is wrong, each tensor is varied alone, to name
 * one. A kink at the point itself is a failure then, and a tensor without any effect is not noticed. */
#ifndef STRIDE_NN_CHECK_GRADCHECK_H
#define STRIDE_NN_CHECK_GRADCHECK_H

#include "nn/losses.h"
#include "nn/net.h"

ST_API_BEGIN

/* Zeros are defaults. */
typedef struct st_gradcheck_options {
    double tolerance; /* 0: 1e-6 in double, 5e-2 in float */
    double step;      /* 0: the cube root of the machine epsilon, times max(1, |x|) */
    double kinks;     /* fraction of a tensor's elements that may be skipped; 0: 0.1; ST_ZERO: none */
    ptrdiff_t most;   /* the most elements to check in each tensor, drawn at random; 0: all */
    int directions;   /* for large nets: this many random directions are checked, in each of which x and all
                             parameters are varied at once; 0: element by element */
    bool inference;   /* check the layer in inference mode */
    bool keep_parameters; /* check at the parameters as they are; else moved at random for the check, so
                             that a scale that begins as 1 does not hide that it is forgotten */
    uint64_t seed;
    FILE *report; /* a line for each tensor; NULL: none */
} st_gradcheck_options;

/* The outcome. */
typedef struct st_gradcheck_result {
    bool passed;
    double worst;             /* the largest relative error */
    ptrdiff_t checked, kinks; /* elements, those skipped included; those skipped */
    char text[ST_ERROR_SIZE]; /* "passed", or the worst element with its analytic and numeric gradient */
} st_gradcheck_result;

/* Builds the layer for a batch of shape x and checks it with a random (normal) input. The caller frees the
 * layer. A gradient that is wrong is no st_error(); a layer that cannot be built or has no gradient is. */
st_gradcheck_result st_gradcheck_layer(st_layer *l, st_shape x, st_gradcheck_options options);

/* Fills all scratch of a built tree with NaN, so that tests find hooks that read it before writing. */
void st_layer_spoil_scratch(st_layer *root);

/* Checks it with a given input, any view. Elements that share memory are varied together. */
st_gradcheck_result st_gradcheck_layer_at(st_layer *l, st_tensor x, st_gradcheck_options options);

/* Checks a net with a loss, at its current parameters. */
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
