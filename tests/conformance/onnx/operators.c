/* operators.c: functions element by element, along an axis, products and normalisations. */
#include "tests/conformance/onnx/onnx.h"

#include <math.h>
#include <string.h>

/* ---- element by element ------------------------------------------------------------------------------ */

/* A layer's x has an axis of images. */
static void map(onnx_case *c, st_layer *l)
{
    st_tensor x = onnx_input(c, 0);
    if (onnx_skipped(c) || st_is_null(x)) {
        st_layer_free(l);
        return;
    }
    st_tensor y = onnx_run(c, l, x.shape.rank ? x : st_reshape(x, ST_SHAPE(1)));
    onnx_output(c, 0, st_is_null(y) ? y : st_reshape(y, x.shape));
}

static void relu(onnx_case *c)
{
    map(c, st_relu());
}

static void leaky_relu(onnx_case *c)
{
    map(c, st_leaky_relu(.slope = onnx_number(c, "alpha", 0.01)));
}

static void elu(onnx_case *c)
{
    map(c, st_elu(.alpha = onnx_number(c, "alpha", 1)));
}

static bool close_to(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

static void selu(onnx_case *c)
{
    double alpha = onnx_number(c, "alpha", 1.67326319217681884765625);
    double gamma = onnx_number(c, "gamma", 1.05070102214813232421875);
    if (!close_to(alpha, 1.6732632423543772) || !close_to(gamma, 1.0507009873554805))
        onnx_skip(c, "Selu with an alpha and a gamma of its own");
    map(c, st_selu());
}

static void hard_sigmoid(onnx_case *c)
{
    if (!close_to(onnx_number(c, "alpha", 0.2), 1.0 / 6) || !close_to(onnx_number(c, "beta", 0.5), 0.5))
        onnx_skip(c, "HardSigmoid with another slope than 1/6");
    map(c, st_hardsigmoid());
}

static void clip(onnx_case *c)
{
    double low = onnx_number(c, "min", -INFINITY), high = onnx_number(c, "max", INFINITY);
    for (int i = 1; i < c->inputs; i++) {
        st_tensor bound = onnx_input(c, i);
        if (!st_is_null(bound)) *(i == 1 ? &low : &high) = (double)st_data(bound)[0];
    }
    if (low >= high) onnx_skip(c, "Clip to one number");
    if (isinf(low) && isinf(high)) map(c, st_identity());
    else
        map(c, st_hardtanh(.min_val = low == 0 ? ST_ZERO : fmax(low, -DBL_MAX),
                           .max_val = high == 0 ? ST_ZERO : fmin(high, DBL_MAX)));
}

/* The slope is broadcast to x's last axes: those after its own are one, and those before it are images. */
static void prelu(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0), slope = onnx_input(c, 1);
    if (onnx_skipped(c)) return;
    ptrdiff_t count = st_numel(slope), after = 1;
    for (int i = slope.shape.rank - 1; i >= 0 && slope.shape.n[i] == 1; i--)
        after *= x.shape.n[x.shape.rank - slope.shape.rank + i];
    st_shape s = ST_SHAPE(st_numel(x) / count / after, count, after);
    st_layer *l = onnx_build(c, st_prelu(.num_parameters = (int)count), s);
    if (!l) return;
    st_copy(l->param[0], st_reshape(slope, ST_SHAPE(count)));
    onnx_output(c, 0, st_reshape(onnx_forward(c, l, st_reshape(x, s), false), x.shape));
}

static void sigmoid(onnx_case *c)
{
    map(c, st_sigmoid());
}

static void tanh_(onnx_case *c)
{
    map(c, st_tanh());
}

static void softplus(onnx_case *c)
{
    map(c, st_softplus());
}

static void softsign(onnx_case *c)
{
    map(c, st_softsign());
}

static void hard_swish(onnx_case *c)
{
    map(c, st_hardswish());
}

static void identity(onnx_case *c)
{
    map(c, st_identity());
}

/* In training its numbers are a generator's own, but with a ratio of 0 it draws none. */
static void dropout(onnx_case *c)
{
    onnx_integer(c, "seed", 0);
    double ratio = onnx_number(c, "ratio", 0.5);
    if (onnx_has(c, 1)) {
        st_tensor given = onnx_input(c, 1);
        if (!st_is_null(given)) ratio = (double)st_data(given)[0];
    }
    bool training = c->version < 12 ? false : onnx_has(c, 2) && c->input[2]->number[0] != 0;
    if (onnx_has(c, 2)) c->input_read[2] = true;
    st_tensor x = onnx_input(c, 0);
    if (training && ratio != 0) onnx_skip(c, "Dropout in training: another generator's numbers");
    if (c->expected[1]) onnx_skip(c, "Dropout's mask");
    if (onnx_skipped(c)) return;
    onnx_output(c, 0, onnx_forward(c, onnx_build(c, st_dropout(.p = ratio), x.shape), x, training));
}

/* ---- along an axis ------------------------------------------------------------------------------------- */

/* Behind an axis of one image, so that any axis will do. Before version 13 all axes from this one on are
 * one. */
static void along_axis(onnx_case *c, st_layer *make(st_softmax_options options))
{
    st_tensor x = onnx_input(c, 0);
    if (onnx_skipped(c)) return;
    int axis = onnx_axis(onnx_integer(c, "axis", c->version < 13 ? 1 : -1), x.shape.rank);
    st_shape s = { .rank = x.shape.rank + 1, .n = { 1 } };
    memcpy(s.n + 1, x.shape.n, (size_t)x.shape.rank * sizeof *s.n);
    for (int i = axis + 2; c->version < 13 && i < s.rank; i++) s.n[axis + 1] *= s.n[i];
    if (c->version < 13) s.rank = axis + 2;
    st_tensor y = onnx_run(c, make((st_softmax_options){ .axis = axis + 1 }), st_reshape(x, s));
    onnx_output(c, 0, st_is_null(y) ? y : st_reshape(y, x.shape));
}

static void softmax(onnx_case *c)
{
    along_axis(c, st_softmax_new);
}

static void log_softmax(onnx_case *c)
{
    along_axis(c, st_log_softmax_new);
}

/* ---- products -------------------------------------------------------------------------------------------- */

/* y = alpha a b + beta c: a dense layer where c is a bias and both factors are 1, else a product. */
static void gemm(onnx_case *c)
{
    st_tensor a = onnx_input(c, 0), b = onnx_input(c, 1), bias = onnx_input(c, 2);
    if (onnx_skipped(c)) return;
    double alpha = onnx_number(c, "alpha", 1), beta = onnx_number(c, "beta", 1);
    if (onnx_integer(c, "transA", 0)) a = st_transpose(a, 0, 1);
    if (onnx_integer(c, "transB", 0)) b = st_transpose(b, 0, 1);
    onnx_integer(c, "broadcast", 1); /* before version 7 */
    st_shape s = ST_SHAPE(a.shape.n[0], b.shape.n[1]);
    bool vector = bias.shape.rank == 1 && bias.shape.n[0] == s.n[1];
    if (alpha == 1 && beta == 1 && (st_is_null(bias) || vector)) {
        st_layer *l = st_dense(.out_features = (int)s.n[1], .no_bias = st_is_null(bias));
        if (!onnx_build(c, l, a.shape)) return;
        st_copy(l->param[0], st_transpose(b, 0, 1));
        if (vector) st_copy(l->param[1], bias);
        onnx_output(c, 0, onnx_forward(c, l, a, false));
        return;
    }
    st_tensor y = onnx_new(c, s);
    if (!st_is_null(bias)) st_copy(y, st_expand(bias, s));
    st_gemm(y, (st_real)alpha, a, b, (st_real)beta);
    onnx_output(c, 0, y);
}

/* A product of every pair of matrices. */
static void multiply(st_tensor y, st_tensor a, st_tensor b)
{
    if (y.shape.rank == 2) st_gemm(y, 1, a, b, 0);
    else
        for (ptrdiff_t i = 0; i < y.shape.n[0]; i++)
            multiply(st_select(y, 0, i), st_select(a, 0, i), st_select(b, 0, i));
}

static void matmul(onnx_case *c)
{
    st_tensor a = onnx_input(c, 0), b = onnx_input(c, 1);
    if (onnx_skipped(c)) return;
    if (a.shape.rank != b.shape.rank || a.shape.rank < 2) {
        onnx_skip(c, "MatMul of %d axes with %d", a.shape.rank, b.shape.rank);
        return;
    }
    st_shape s = a.shape;
    s.n[s.rank - 1] = b.shape.n[s.rank - 1];
    st_tensor y = onnx_new(c, s);
    multiply(y, a, b);
    onnx_output(c, 0, y);
}

/* ---- normalisations -------------------------------------------------------------------------------------- */

static void batch_normalization(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    onnx_number(c, "momentum", 0.9);
    double epsilon = onnx_number(c, "epsilon", 1e-5);
    if (onnx_integer(c, "is_test", 1) == 0) onnx_skip(c, "BatchNormalization's training before version 7");
    onnx_integer(c, "consumed_inputs", 0); /* before version 6: what may be written over */
    if (onnx_integer(c, "training_mode", 0)) onnx_skip(c, "BatchNormalization's biased running variance");
    if (onnx_integer(c, "spatial", 1) == 0) onnx_skip(c, "BatchNormalization over the batch alone");
    if (onnx_skipped(c)) return;
    st_layer *l = onnx_build(c, st_batchnorm(.epsilon = epsilon), x.shape);
    if (!l) return;
    st_copy(l->param[0], onnx_input(c, 1)), st_copy(l->param[1], onnx_input(c, 2));
    st_copy(l->state[0], onnx_input(c, 3)), st_copy(l->state[1], onnx_input(c, 4));
    onnx_output(c, 0, onnx_forward(c, l, x, false));
}

static void instance_normalization(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0);
    double epsilon = onnx_number(c, "epsilon", 1e-5);
    onnx_integer(c, "consumed_inputs", 0);
    if (onnx_skipped(c)) return;
    st_layer *l = st_groupnorm(.groups = (int)x.shape.n[1], .epsilon = epsilon);
    if (!onnx_build(c, l, x.shape)) return;
    st_copy(l->param[0], onnx_input(c, 1)), st_copy(l->param[1], onnx_input(c, 2));
    onnx_output(c, 0, onnx_forward(c, l, x, false));
}

/* The layer keeps its moments to itself: they are computed beside it, by st_mean. */
static void layer_normalization(onnx_case *c)
{
    st_tensor x = onnx_input(c, 0), weight = onnx_input(c, 1), bias = onnx_input(c, 2);
    double epsilon = onnx_number(c, "epsilon", 1e-5);
    onnx_integer(c, "stash_type", 1);
    if (onnx_skipped(c)) return;
    int axis = onnx_axis(onnx_integer(c, "axis", -1), x.shape.rank);
    st_shape s = { .rank = x.shape.rank + 1, .n = { 1 } }, moments = x.shape;
    memcpy(s.n + 1, x.shape.n, (size_t)x.shape.rank * sizeof *s.n);
    st_layer *l = st_layernorm(.axes = x.shape.rank - axis, .epsilon = epsilon);
    if (!onnx_build(c, l, s)) return;
    st_copy(l->param[0], weight);
    if (!st_is_null(bias)) st_copy(l->param[1], bias);
    st_tensor y = onnx_forward(c, l, st_reshape(x, s), false);
    onnx_output(c, 0, st_is_null(y) ? y : st_reshape(y, x.shape));

    st_axes over = { .count = 0 };
    st_shape rest = { .rank = axis };
    for (int i = 0; i < axis; i++) rest.n[i] = x.shape.n[i];
    for (int i = axis; i < x.shape.rank; i++) over.axis[over.count++] = i, moments.n[i] = 1;
    st_tensor mean = onnx_new(c, rest), deviation = onnx_new(c, rest), centred = onnx_copy(c, x);
    st_mean(mean, x, over);
    st_add(centred, -1, st_expand(st_reshape(mean, moments), x.shape));
    st_mul(centred, centred);
    st_mean(deviation, centred, over);
    st_real *v = st_data(deviation);
    for (ptrdiff_t k = 0; k < st_numel(deviation); k++) v[k] = (st_real)(1 / sqrt((double)v[k] + epsilon));
    onnx_output(c, 1, st_reshape(mean, moments));
    onnx_output(c, 2, st_reshape(deviation, moments));
}

/* Over batch, height and width: batch normalisation in training, without parameters. */
static void mean_variance_normalization(onnx_case *c)
{
    ptrdiff_t over[ONNX_INTEGERS] = { 0, 2, 3 };
    int count = onnx_integers(c, "axes", over);
    st_tensor x = onnx_input(c, 0);
    if (x.shape.rank != 4 || (count >= 0 && (count != 3 || over[0] != 0 || over[1] != 2 || over[2] != 3)))
        onnx_skip(c, "MeanVarianceNormalization over other axes than batch, height and width");
    if (onnx_skipped(c)) return;
    st_layer *l = onnx_build(c, st_batchnorm(.no_affine = true, .epsilon = 1e-9), x.shape);
    onnx_output(c, 0, onnx_forward(c, l, x, true));
}

const onnx_operator onnx_elementwise[] = {
    { "Relu", relu },
    { "PRelu", prelu },
    { "LeakyRelu", leaky_relu },
    { "Elu", elu },
    { "Selu", selu },
    { "Clip", clip },
    { "Sigmoid", sigmoid },
    { "HardSigmoid", hard_sigmoid },
    { "HardSwish", hard_swish },
    { "Tanh", tanh_ },
    { "Softplus", softplus },
    { "Softsign", softsign },
    { "Identity", identity },
    { "Dropout", dropout },
    { "Softmax", softmax },
    { "LogSoftmax", log_softmax },
    { "Gemm", gemm },
    { "MatMul", matmul },
    { "BatchNormalization", batch_normalization },
    { "InstanceNormalization", instance_normalization },
    { "LayerNormalization", layer_normalization },
    { "MeanVarianceNormalization", mean_variance_normalization },
    { 0 },
};
