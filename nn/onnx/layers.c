/* layers.c: a table from layers to ONNX nodes. Layers that operator set 17 does not have are composed of
 * its nodes: group normalisation of InstanceNormalization, gelu of Erf. */
#include "layers/conv_impl.h"
#include "layers/layer_impl.h"
#include "layers/separable.h"
#include "nn/onnx/graph.h"

#include <math.h>
#include <string.h>

/* Parameter i, or a constant if the layer has none. */
static const char *parameter(graph_place at, int i, const char *name, st_shape s, double fallback)
{
    if (i < at.l->params) return graph_tensor(at, name, st_reshape(at.l->param[i], s));
    return graph_filled(at, name, s, fallback);
}

/* ---- convolution and dense ----------------------------------------------------------------------- */

/* With the layer's own parameters: a weight, and perhaps a bias. */
static const char *weighted(graph_place at, const char *op, const char *x)
{
    const st_layer *l = at.l;
    const char *weight = graph_tensor(at, "weight", l->param[0]);
    if (l->params == 1) return graph_end(at, op, x, weight);
    return graph_end(at, op, x, weight, graph_tensor(at, "bias", l->param[1]));
}

static const char *add_conv2d(graph_place at, const char *x)
{
    const st_conv2d_options *o = at.l->options;
    const window *w = &((const conv_plan *)at.l->plan)->w;
    weighted(at, "Conv", x);
    graph_windows(at, w);
    graph_pair(at, "dilations", o->dilation);
    return graph_int(at, "group", o->groups);
}

/* ONNX's output_padding is less than the stride; the rest reduces the padding at the end. */
static const char *add_conv_transpose2d(graph_place at, const char *x)
{
    const st_conv_transpose2d_options *o = at.l->options;
    int end[2], extra[2];
    for (int axis = 0; axis < 2; axis++) {
        end[axis] = o->padding[axis];
        extra[axis] = o->output_padding[axis];
        for (; extra[axis] >= o->stride[axis] && end[axis] > 0; extra[axis]--) end[axis]--;
        if (extra[axis] >= o->stride[axis])
            return graph_refuse(at,
                                "output_padding %dx%d with stride %dx%d, ONNX allows less than the stride",
                                o->output_padding[0], o->output_padding[1], o->stride[0], o->stride[1]);
    }
    weighted(at, "ConvTranspose", x);
    graph_pair(at, "kernel_shape", o->kernel);
    graph_pair(at, "strides", o->stride);
    graph_ints(at, "pads", 4, (const ptrdiff_t[]){ o->padding[0], o->padding[1], end[0], end[1] });
    graph_pair(at, "output_padding", extra);
    graph_pair(at, "dilations", o->dilation);
    return graph_int(at, "group", o->groups);
}

/* Gemm takes matrices only: of [N, T, in] a MatMul, with the weight transposed. */
static const char *add_dense(graph_place at, const char *x)
{
    const st_layer *l = at.l;
    if (l->x.rank == 3) {
        const char *weight = graph_step(at, "Transpose", graph_tensor(at, "weight", l->param[0]));
        if (l->params == 1) return graph_end(at, "MatMul", x, weight);
        const char *product = graph_step(at, "MatMul", x, weight);
        return graph_end(at, "Add", product, graph_tensor(at, "bias", l->param[1]));
    }
    weighted(at, "Gemm", x);
    return graph_int(at, "transB", 1);
}

/* ---- normalisation ------------------------------------------------------------------------------- */

static const char *add_batchnorm(graph_place at, const char *x)
{
    const st_layer *l = at.l;
    const st_batchnorm_options *o = l->options;
    const st_shape channels = ST_SHAPE(l->x.n[1]);
    graph_end(at, "BatchNormalization", x, parameter(at, 0, "weight", channels, 1),
              parameter(at, 1, "bias", channels, 0), graph_tensor(at, "running_mean", l->state[0]),
              graph_tensor(at, "running_var", l->state[1]));
    return graph_real(at, "epsilon", o->epsilon);
}

/* The last axes, which layernorm and rmsnorm normalise. */
static st_shape last_axes(const st_layer *l)
{
    const st_layernorm_options *o = l->options;
    st_shape s = { .rank = o->axes ? o->axes : l->x.rank - 1 };
    for (int i = 0; i < s.rank; i++) s.n[i] = l->x.n[l->x.rank - s.rank + i];
    return s;
}

/* x / sqrt(mean of x² + epsilon) weight */
static const char *add_rmsnorm(graph_place at, const char *x)
{
    const st_layernorm_options *o = at.l->options;
    const st_shape s = last_axes(at.l);
    ptrdiff_t axes[ST_MAX_RANK];
    for (int i = 0; i < s.rank; i++) axes[i] = i - s.rank;
    const char *mean = graph_step(at, "ReduceMean", graph_step(at, "Mul", x, x));
    graph_ints(at, "axes", s.rank, axes);
    const char *sum = graph_step(at, "Add", mean, graph_number(at, "epsilon", o->epsilon));
    const char *root = graph_step(at, "Sqrt", sum);
    if (at.l->params == 0) return graph_end(at, "Div", x, root);
    const char *normal = graph_step(at, "Div", x, root);
    return graph_end(at, "Mul", normal, graph_tensor(at, "weight", at.l->param[0]));
}

/* onnxruntime does not normalise a single element, which becomes 0. */
static const char *add_layernorm(graph_place at, const char *x)
{
    const st_layernorm_options *o = at.l->options;
    const st_shape s = last_axes(at.l);
    if (st_shape_numel(s, "layernorm") == 1) {
        if (at.l->params == 0) return graph_end(at, "Sub", x, x);
        const char *zero = graph_step(at, "Sub", x, x);
        const char *scaled = graph_step(at, "Mul", zero, parameter(at, 0, "weight", s, 1));
        return graph_end(at, "Add", scaled, parameter(at, 1, "bias", s, 0));
    }
    graph_end(at, "LayerNormalization", x, parameter(at, 0, "weight", s, 1), parameter(at, 1, "bias", s, 0));
    graph_int(at, "axis", -s.rank);
    return graph_real(at, "epsilon", o->epsilon);
}

/* [N, C, ...] -> [N, groups, rest], each normalised, and back; then each channel's weight and bias. A size
 * of 0 is that of the input: N. */
static const char *add_groupnorm(graph_place at, const char *x)
{
    const st_layer *l = at.l;
    const st_groupnorm_options *o = l->options;
    const st_shape groups = ST_SHAPE(o->groups);
    st_shape image = l->x, channels = { .rank = l->x.rank - 1 };
    image.n[0] = 0;
    for (int i = 0; i < channels.rank; i++) channels.n[i] = i ? 1 : l->x.n[1];
    const char *parts =
        graph_step(at, "Reshape", x, graph_sizes(at, "groups", 3, (const ptrdiff_t[]){ 0, o->groups, -1 }));
    const char *y = graph_step(at, "InstanceNormalization", parts, graph_filled(at, "ones", groups, 1),
                               graph_filled(at, "zeros", groups, 0));
    graph_real(at, "epsilon", o->epsilon);
    const char *whole = graph_sizes(at, "shape", image.rank, image.n);
    if (l->params == 0) return graph_end(at, "Reshape", y, whole);
    const char *normal = graph_step(at, "Reshape", y, whole);
    const char *scaled = graph_step(at, "Mul", normal, parameter(at, 0, "weight", channels, 1));
    return graph_end(at, "Add", scaled, parameter(at, 1, "bias", channels, 0));
}

/* ---- activations --------------------------------------------------------------------------------- */

static const char *add_relu6(graph_place at, const char *x)
{
    return graph_end(at, "Clip", x, graph_number(at, "min", 0), graph_number(at, "max", 6));
}

/* ±DBL_MAX is no limit. */
static const char *limit(graph_place at, const char *name, double value)
{
    return fabs(value) < DBL_MAX ? graph_number(at, name, value) : "";
}

static const char *add_hardtanh(graph_place at, const char *x)
{
    return graph_end(at, "Clip", x, limit(at, "min", layer_option(at.l, "min_val")),
                     limit(at, "max", layer_option(at.l, "max_val")));
}

static const char *add_prelu(graph_place at, const char *x)
{
    const st_layer *l = at.l;
    st_shape s = { .rank = l->x.rank - 1, .n = { l->param[0].shape.n[0] } };
    for (int i = 1; i < s.rank; i++) s.n[i] = 1;
    return graph_end(at, "PRelu", x, parameter(at, 0, "weight", s, 0));
}

/* x sigmoid(x (a + b x²)), which is x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))) / 2 */
static const char *add_gelu_tanh(graph_place at, const char *x)
{
    const double a = 2 * sqrt(2 / 3.14159265358979323846);
    const char *square = graph_step(at, "Mul", x, x);
    const char *scaled = graph_step(at, "Mul", square, graph_number(at, "b", a * 0.044715));
    const char *sum = graph_step(at, "Add", scaled, graph_number(at, "a", a));
    const char *odds = graph_step(at, "Mul", x, sum);
    return graph_end(at, "Mul", x, graph_step(at, "Sigmoid", odds));
}

/* x (1 + erf(x / sqrt 2)) / 2, in the order that runtimes know for Gelu. */
static const char *add_gelu(graph_place at, const char *x)
{
    if (layer_option(at.l, "approximate") == ST_GELU_TANH) return add_gelu_tanh(at, x);
    const char *ratio = graph_step(at, "Div", x, graph_number(at, "sqrt2", sqrt(2)));
    const char *error = graph_step(at, "Erf", ratio);
    const char *twice = graph_step(at, "Add", error, graph_number(at, "one", 1));
    const char *product = graph_step(at, "Mul", x, twice);
    return graph_end(at, "Mul", product, graph_number(at, "half", 0.5));
}

static const char *add_silu(graph_place at, const char *x)
{
    return graph_end(at, "Mul", x, graph_step(at, "Sigmoid", x));
}

static const char *add_mish(graph_place at, const char *x)
{
    const char *soft = graph_step(at, "Softplus", x);
    return graph_end(at, "Mul", x, graph_step(at, "Tanh", soft));
}

static const char *add_hardsigmoid(graph_place at, const char *x)
{
    graph_end(at, "HardSigmoid", x);
    graph_real(at, "alpha", 1.0 / 6);
    return graph_real(at, "beta", 0.5);
}

/* ---- the rest ------------------------------------------------------------------------------------ */

/* Tests if each pixel of an axis is repeated as often: PyTorch's rule for sizes rounds. */
static bool repeats(const st_layer *l, int axis)
{
    tap row[MOST_TAPS];
    for (ptrdiff_t i = 0; i < l->y.n[axis]; i++) {
        separable_taps(l, axis, i, row);
        if (row[0].from != i / (l->y.n[axis] / l->x.n[axis])) return false;
    }
    return true;
}

static const char *add_upsample(graph_place at, const char *x)
{
    const st_upsample_options *o = at.l->options;
    const bool nearest = o->mode == ST_UPSAMPLE_NEAREST;
    st_real times[] = { 1, 1, 1, 1 };
    for (int axis = 2; axis < 4; axis++) {
        const ptrdiff_t from = at.l->x.n[axis], to = at.l->y.n[axis];
        const bool sizes = o->scale_factor == 0 || to == from || (nearest && to == 2 * from);
        float scale = (float)(sizes ? (double)to / (double)from : o->scale_factor);
        if (floorf((float)from * scale) < (float)to) scale = nextafterf(scale, INFINITY);
        if (floorf((float)from * scale) != (float)to || (nearest && (to % from || !repeats(at.l, axis))))
            return graph_separable(at, x); /* runtimes would round other pixels */
        times[axis] = (st_real)scale;
    }
    st_tensor wrapped = st_tensor_wrap(times, ST_SHAPE(4));
    const char *scales = graph_tensor(at, "scales", wrapped);
    st_tensor_free(wrapped);
    const char *y = graph_end(at, "Resize", x, "", scales);
    graph_mode(at, "mode", nearest ? "nearest" : "linear");
    graph_mode(at, "coordinate_transformation_mode",
               nearest            ? "asymmetric"
               : o->align_corners ? "align_corners"
                                  : "half_pixel");
    if (nearest) graph_mode(at, "nearest_mode", "floor");
    return y;
}

static const char *add_unflatten(graph_place at, const char *x)
{
    st_shape s = at.l->y;
    s.n[0] = 0; /* the input's */
    return graph_end(at, "Reshape", x, graph_sizes(at, "shape", s.rank, s.n));
}

/* ---- layers of layers ---------------------------------------------------------------------------- */

static const char *add_nothing(graph_place at, const char *x)
{
    (void)at;
    return x;
}

static const char *add_child(graph_place at, int i, const char *x)
{
    char path[ST_LAYER_PATH];
    layer_child_path(path, at.l, at.path, i);
    return graph_layer((graph_place){ at.graph, at.l->child[i], graph_print(at.graph, "%s", path) }, x);
}

static const char *add_sequence(graph_place at, const char *x)
{
    for (int i = 0; i < at.l->children; i++) x = add_child(at, i, x);
    return x;
}

static const char *add_residual(graph_place at, const char *x)
{
    const char *body = add_child(at, 0, x), *through = at.l->children > 1 ? add_child(at, 1, x) : x;
    return graph_end(at, "Add", body, through);
}

static const char *add_multiply(graph_place at, const char *x)
{
    const int last = at.l->children - 1;
    const char *y = add_child(at, 0, x);
    for (int i = 1; i < last; i++) y = graph_step(at, "Mul", y, add_child(at, i, x));
    return last > 0 ? graph_end(at, "Mul", y, add_child(at, last, x)) : y;
}

static const char *add_concat(graph_place at, const char *x)
{
    const int count = at.l->children;
    const char **branch = graph_take(at.graph, (size_t)count, sizeof *branch);
    if (!branch) return "";
    for (int i = 0; i < count; i++) branch[i] = add_child(at, i, x);
    graph_add(at, "Concat", false, count, branch);
    return graph_int(at, "axis", 1);
}

/* ---- the table ----------------------------------------------------------------------------------- */

static const struct counterpart {
    const char *type;
    const char *op; /* the one node that it is; NULL: what `add` makes of it */
    const char *(*add)(graph_place at, const char *x);
    const char *attribute, *option; /* the node's one attribute is this option of the layer; NULL: none */
} counterparts[] = {
    { "conv2d", NULL, add_conv2d },
    { "conv_transpose2d", NULL, add_conv_transpose2d },
    { "maxpool", NULL, graph_maxpool },
    { "avgpool", NULL, graph_avgpool },
    { "lppool", NULL, graph_lppool },
    { "adaptive_avgpool", NULL, graph_adaptive_avgpool },
    { "adaptive_maxpool", NULL, graph_adaptive_maxpool },
    { "blur_pool", NULL, graph_separable },
    { "dense", NULL, add_dense },
    { "batchnorm", NULL, add_batchnorm },
    { "layernorm", NULL, add_layernorm },
    { "rmsnorm", NULL, add_rmsnorm },
    { "groupnorm", NULL, add_groupnorm },
    { "relu", "Relu", NULL },
    { "relu6", NULL, add_relu6 },
    { "hardtanh", NULL, add_hardtanh },
    { "leaky_relu", "LeakyRelu", NULL, "alpha", "slope" },
    { "prelu", NULL, add_prelu },
    { "elu", "Elu", NULL, "alpha", "alpha" },
    { "selu", "Selu", NULL },
    { "gelu", NULL, add_gelu },
    { "silu", NULL, add_silu },
    { "mish", NULL, add_mish },
    { "sigmoid", "Sigmoid", NULL },
    { "tanh", "Tanh", NULL },
    { "softplus", "Softplus", NULL },
    { "softsign", "Softsign", NULL },
    { "hardsigmoid", NULL, add_hardsigmoid },
    { "hardswish", "HardSwish", NULL },
    { "softmax", "Softmax", NULL, "axis", "axis" },
    { "log_softmax", "LogSoftmax", NULL, "axis", "axis" },
    { "dropout", NULL, add_nothing },
    { "channel_dropout", NULL, add_nothing },
    { "pad2d", NULL, graph_pad2d },
    { "upsample", NULL, add_upsample },
    { "flatten", "Flatten", NULL },
    { "unflatten", NULL, add_unflatten },
    { "identity", NULL, add_nothing },
    { "sequence", NULL, add_sequence },
    { "residual", NULL, add_residual },
    { "concat", NULL, add_concat },
    { "multiply", NULL, add_multiply },
    { 0 },
};

/* A user's type may have the name of a library type. */
static bool shipped(const st_layer_type *type)
{
    const st_layer_type *const *t = st_layer_types;
    while (*t && *t != type) t++;
    return *t;
}

const char *graph_layer(graph_place at, const char *x)
{
    const struct counterpart *c = counterparts;
    while (c->type && strcmp(c->type, at.l->type->name) != 0) c++;
    if (!shipped(at.l->type)) return graph_refuse(at, "a layer of your own, which ONNX does not have");
    if (!c->type) return graph_refuse(at, "ONNX has no such layer");
    if (c->add) return c->add(at, x);
    const char *y = graph_end(at, c->op, x); /* which adding an attribute returns, too */
    if (!c->attribute) return y;
    const double value = layer_option(at.l, c->option);
    const bool real = st_options_field(at.l->type->fields, c->option)->kind == ST_FIELD_REAL;
    return real ? graph_real(at, c->attribute, value) : graph_int(at, c->attribute, (ptrdiff_t)value);
}
