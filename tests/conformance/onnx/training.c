/* training.c: losses and optimizers. */
#include "tests/conformance/onnx/onnx.h"

#include "nn/loss.h"
#include "nn/optim.h"

#include <string.h>

/* ---- losses -------------------------------------------------------------------------------------------- */

/* Logits [N, K, ...] as rows [N ..., K]. */
static st_tensor as_rows(onnx_case *c, st_tensor x)
{
    st_axes order = { .count = x.shape.rank };
    for (int i = 0; i < order.count; i++) order.axis[i] = i == 0 ? 0 : i < order.count - 1 ? i + 1 : 1;
    st_tensor rows = onnx_copy(c, st_permute(x, order));
    return st_reshape(rows, ST_SHAPE(st_numel(x) / x.shape.n[1], x.shape.n[1]));
}

/* The library computes the weighted mean. A sum is the mean times the sum of the weights; without a reduction each
 * position is a batch of its own, whose mean is its loss before the weight. */
static void class_loss(onnx_case *c, bool logits)
{
    st_tensor x = onnx_input(c, 0), weight = onnx_has(c, 2) ? onnx_input(c, 2) : (st_tensor){ 0 };
    const onnx_value *labels = c->input[1];
    const char *reduction = onnx_text(c, "reduction", "mean");
    ptrdiff_t ignored = onnx_integer(c, "ignore_index", -100);
    c->input_read[1] = true;
    if (onnx_skipped(c)) return;
    double ignore_index = ignored == 0 ? ST_ZERO : (double)ignored, weights = 0;
    st_loss l = logits ? st_cross_entropy(.weight = weight, .ignore_index = ignore_index)
                       : st_nll(.weight = weight, .ignore_index = ignore_index);
    st_tensor target = onnx_new(c, labels->shape), each = onnx_new(c, labels->shape);
    st_tensor rows = as_rows(c, x), value = onnx_new(c, (st_shape){ .rank = 0 });
    for (ptrdiff_t k = 0; k < st_numel(target); k++) {
        ptrdiff_t label = (ptrdiff_t)labels->number[k];
        st_data(target)[k] = (st_real)label;
        if (label == ignored) continue;
        double w = st_is_null(weight) ? 1 : (double)st_data(weight)[label];
        st_tensor one = st_narrow(st_reshape(target, ST_SHAPE(st_numel(target))), 0, k, 1);
        weights += w;
        st_data(each)[k] = (st_real)(w * st_loss_value(l, st_narrow(rows, 0, k, 1), one, (st_tensor){ 0 }));
    }
    st_data(value)[0] = (st_real)(st_loss_value(l, x, target, (st_tensor){ 0 }) *
                                  (strcmp(reduction, "sum") == 0 ? weights : 1));
    onnx_output(c, 0, strcmp(reduction, "none") == 0 ? each : value);
    if (c->expected[1]) onnx_output(c, 1, onnx_run(c, st_log_softmax(.axis = 1), x));
}

static void softmax_cross_entropy(onnx_case *c)
{
    class_loss(c, true);
}

static void negative_log_likelihood(onnx_case *c)
{
    class_loss(c, false);
}

/* ---- optimizers ------------------------------------------------------------------------------------------ */

/* The states begin as the case says; the library makes them at its first step, which is taken with a rate
 * and a gradient of 0. */
static bool begin(st_optim *o, st_tensor x, const st_tensor *state, long taken)
{
    st_tensor nothing = st_tensor_new(x.shape);
    bool good = o && st_optim_step(o, 0, st_reshape(x, ST_SHAPE(st_numel(x))),
                                   st_reshape(nothing, ST_SHAPE(st_numel(x)))) == 0;
    st_tensor_free(nothing);
    for (int i = 0; good && i < o->states; i++)
        st_copy(o->state[i], st_reshape(state[i], ST_SHAPE(st_numel(x))));
    if (good) o->steps = taken;
    return good;
}

static void finish(onnx_case *c, st_optim *o, double rate, st_tensor x, st_tensor gradient, int number,
                   int each)
{
    st_shape flat = ST_SHAPE(st_numel(x));
    st_optim_step(o, rate, st_reshape(x, flat), st_reshape(gradient, flat));
    onnx_output(c, number, x);
    for (int i = 0; i < o->states; i++)
        onnx_output(c, number + (i + 1) * each, st_reshape(onnx_copy(c, o->state[i]), x.shape));
}

/* Rate and step, then all parameters, all gradients, and all of each state. Every case is of step 0, which
 * to us comes after `taken` steps. */
static void update(onnx_case *c, st_optim *make(onnx_case *c, double rate), int states, long taken)
{
    st_tensor rate = onnx_input(c, 0);
    ptrdiff_t step[ONNX_INTEGERS];
    if (onnx_input_integers(c, 1, step) != 1 || step[0] != 0) onnx_skip(c, "%s after step 0", c->operation);
    int each = (c->inputs - 2) / (2 + states);
    for (int k = 0; k < each && !onnx_skipped(c); k++) {
        st_tensor x = onnx_input(c, 2 + k), gradient = onnx_input(c, 2 + each + k), state[ST_OPTIM_STATES];
        for (int i = 0; i < states; i++) state[i] = onnx_input(c, 2 + (2 + i) * each + k);
        st_optim *o = onnx_skipped(c) ? NULL : make(c, (double)st_data(rate)[0]);
        if (!onnx_skipped(c) && begin(o, x, state, taken))
            finish(c, o, (double)st_data(rate)[0], x, gradient, k, each);
        st_optim_free(o);
    }
}

/* ONNX 1.12 has a case whose data were computed with an epsilon that its model does not tell. */
static st_optim *make_adam(onnx_case *c, double rate)
{
    if (onnx_number(c, "norm_coefficient_post", 0) != 0) onnx_skip(c, "Adam's decay after the step");
    double epsilon = onnx_number(c, "epsilon", 0);
    if (epsilon == 0) onnx_skip(c, "Adam whose model does not tell its epsilon");
    return st_adam(.lr = rate, .beta1 = onnx_number(c, "alpha", 0.9), .beta2 = onnx_number(c, "beta", 0.999),
                   .epsilon = epsilon, .weight_decay = onnx_number(c, "norm_coefficient", 0));
}

/* Step 0 leaves the bias of the running means alone, as we do after very many steps. */
static void adam_(onnx_case *c)
{
    update(c, make_adam, 2, 1000000);
}

/* Step 0 takes the gradient whole, later ones beta times it, as dampening does. */
static st_optim *make_momentum(onnx_case *c, double rate)
{
    onnx_number(c, "beta", 1);
    return st_sgd(.lr = rate, .momentum = onnx_number(c, "alpha", 0),
                  .weight_decay = onnx_number(c, "norm_coefficient", 0),
                  .nesterov = strcmp(onnx_text(c, "mode", ""), "nesterov") == 0);
}

static void momentum(onnx_case *c)
{
    update(c, make_momentum, 1, 1);
}

const onnx_operator onnx_training[] = {
    { "SoftmaxCrossEntropyLoss", softmax_cross_entropy },
    { "NegativeLogLikelihoodLoss", negative_log_likelihood },
    { "Adam", adam_ },
    { "Momentum", momentum },
    { 0 },
};
