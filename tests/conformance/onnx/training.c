/* training.c: losses and optimizers. */
#include "tests/conformance/onnx/onnx.h"

#include "nn/loss.h"
#include "nn/optim.h"

#include <string.h>

/* ---- losses -------------------------------------------------------------------------------------------- */

/* Scores [N, K, ...] as rows [N ..., K]. */
static tensor as_rows(onnx_case *c, tensor x)
{
    axes order = { .count = x.shape.rank };
    for (int i = 0; i < order.count; i++) order.axis[i] = i == 0 ? 0 : i < order.count - 1 ? i + 1 : 1;
    tensor turned = onnx_copy(c, tensor_permute(x, order));
    return tensor_reshape(turned, SHAPE(tensor_count(x) / x.shape.n[1], x.shape.n[1]));
}

static void softmax_cross_entropy(onnx_case *c)
{
    tensor x = onnx_input(c, 0);
    const onnx_value *labels = c->input[1];
    c->input_read[1] = true;
    if (onnx_has(c, 2)) onnx_skip(c, "cross-entropy with a weight for each class");
    if (onnx_integer(c, "ignore_index", -1000) != -1000) onnx_skip(c, "cross-entropy with an ignored class");
    if (onnx_skipped(c)) return;
    tensor rows = as_rows(c, x), target = onnx_new(c, SHAPE(rows.shape.n[0]));
    ptrdiff_t n = tensor_count(target);
    for (ptrdiff_t k = 0; k < n; k++) tensor_data(target)[k] = (real)labels->number[k];

    const char *reduction = onnx_text(c, "reduction", "mean");
    loss l = loss_cross_entropy(0);
    bool none = strcmp(reduction, "none") == 0;
    tensor value = onnx_new(c, none ? labels->shape : (shape){ .rank = 0 });
    if (none) /* each row a batch of its own */
        for (ptrdiff_t k = 0; k < n; k++)
            tensor_data(value)[k] = (real)loss_value(l, tensor_narrow(rows, 0, k, 1),
                                                     tensor_narrow(target, 0, k, 1), (tensor){ 0 });
    else
        tensor_data(value)[0] = (real)(loss_value(l, rows, target, (tensor){ 0 }) *
                                       (strcmp(reduction, "sum") == 0 ? (double)n : 1));
    onnx_output(c, 0, value);
    if (c->expected[1]) onnx_output(c, 1, onnx_run(c, layer_log_softmax(1), x));
}

static void negative_log_likelihood(onnx_case *c)
{
    onnx_skip(c, "a loss of log-probabilities: loss_cross_entropy takes logits");
}

/* ---- optimizers ------------------------------------------------------------------------------------------ */

/* The states begin as the case says; the library makes them at its first step, which is taken with a rate
 * and a gradient of 0. */
static bool begin(optim *o, tensor x, const tensor *state, long taken)
{
    tensor nothing = tensor_new(x.shape);
    bool good = o && optim_step(o, 0, tensor_reshape(x, SHAPE(tensor_count(x))),
                                tensor_reshape(nothing, SHAPE(tensor_count(x)))) == 0;
    tensor_free(nothing);
    for (int i = 0; good && i < o->states; i++)
        tensor_copy(o->state[i], tensor_reshape(state[i], SHAPE(tensor_count(x))));
    if (good) o->steps = taken;
    return good;
}

static void finish(onnx_case *c, optim *o, double rate, tensor x, tensor gradient, int number, int each)
{
    shape flat = SHAPE(tensor_count(x));
    optim_step(o, rate, tensor_reshape(x, flat), tensor_reshape(gradient, flat));
    onnx_output(c, number, x);
    for (int i = 0; i < o->states; i++)
        onnx_output(c, number + (i + 1) * each, tensor_reshape(onnx_copy(c, o->state[i]), x.shape));
}

/* Rate and step, then all parameters, all gradients, and all of each state. Every case is of step 0, which
 * to us comes after `taken` steps. */
static void update(onnx_case *c, optim *make(onnx_case *c, double rate), int states, long taken)
{
    tensor rate = onnx_input(c, 0);
    ptrdiff_t step[ONNX_INTEGERS];
    if (onnx_input_integers(c, 1, step) != 1 || step[0] != 0) onnx_skip(c, "%s after step 0", c->operation);
    int each = (c->inputs - 2) / (2 + states);
    for (int k = 0; k < each && !onnx_skipped(c); k++) {
        tensor x = onnx_input(c, 2 + k), gradient = onnx_input(c, 2 + each + k), state[OPTIM_STATES];
        for (int i = 0; i < states; i++) state[i] = onnx_input(c, 2 + (2 + i) * each + k);
        optim *o = onnx_skipped(c) ? NULL : make(c, (double)tensor_data(rate)[0]);
        if (!onnx_skipped(c) && begin(o, x, state, taken))
            finish(c, o, (double)tensor_data(rate)[0], x, gradient, k, each);
        optim_free(o);
    }
}

/* ONNX 1.12 has a case whose data were computed with an epsilon that its model does not tell. */
static optim *make_adam(onnx_case *c, double rate)
{
    if (onnx_number(c, "norm_coefficient_post", 0) != 0) onnx_skip(c, "Adam's decay after the step");
    double epsilon = onnx_number(c, "epsilon", 0);
    if (epsilon == 0) onnx_skip(c, "Adam whose model does not tell its epsilon");
    return optim_adam((adam){ .lr = rate,
                              .beta1 = onnx_number(c, "alpha", 0.9),
                              .beta2 = onnx_number(c, "beta", 0.999),
                              .epsilon = epsilon,
                              .weight_decay = onnx_number(c, "norm_coefficient", 0) });
}

/* Step 0 leaves the bias of the running means alone, as we do after very many steps. */
static void adam_(onnx_case *c)
{
    update(c, make_adam, 2, 1000000);
}

/* Step 0 takes the gradient whole, later ones beta times it, as dampening does. */
static optim *make_momentum(onnx_case *c, double rate)
{
    onnx_number(c, "beta", 1);
    return optim_sgd((sgd){ .lr = rate,
                            .momentum = onnx_number(c, "alpha", 0),
                            .weight_decay = onnx_number(c, "norm_coefficient", 0),
                            .nesterov = strcmp(onnx_text(c, "mode", ""), "nesterov") == 0 });
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
