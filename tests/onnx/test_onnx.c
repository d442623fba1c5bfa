/* test_onnx.c: what st_net_export_onnx writes, read back; onnx's checker and onnxruntime are `make
 * onnx-check`.
 *
 * Oracles: the nets that were exported, names written down here, and ONNX's rule that a graph is in order. */
#define _XOPEN_SOURCE 700
#include "tests/files.h"
#include "tests/support.h"

#include <stride.h>
#include "tests/onnx/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

SETUP(enter_folder)

static st_net *built(st_shape image, st_layer *l)
{
    st_net *n = st_net_new_of(image, 1, (st_layer *const[]){ l });
    assert_int_equal(st_net_build(n, 2, 1), 0);
    return n;
}

#ifdef STRIDE_ONNX
#include <onnx.pb-c.h>

static Onnx__ModelProto *read_model(const char *path)
{
    bytes b = contents(path);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, b.count, b.at);
    assert_non_null(model);
    assert_int_equal(unlink(path), 0);
    return model;
}

static Onnx__ModelProto *exported(st_net *n)
{
    if (st_net_export_onnx(n, path_of("net.onnx"))) fail_msg("%s", st_error());
    return read_model(path_of("net.onnx"));
}

static void drop(Onnx__ModelProto *model)
{
    onnx__model_proto__free_unpacked(model, NULL);
}

/* ---- the file ------------------------------------------------------------------------------------ */

static void assert_value(const Onnx__ValueInfoProto *v, const char *name, st_shape image)
{
    const Onnx__TypeProto__Tensor *t = v->type->tensor_type;
    assert_string_equal(v->name, name);
    assert_int_equal(t->elem_type, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    assert_int_equal(t->shape->n_dim, image.rank + 1);
    assert_string_equal(t->shape->dim[0]->dim_param, "N");
    for (int axis = 0; axis < image.rank; axis++)
        assert_int_equal(t->shape->dim[axis + 1]->dim_value, image.n[axis]);
}

TEST(a_file_says_what_it_is)
{
    auto_net *n = built(ST_SHAPE(3, 8, 6), st_sequence(st_flatten(), st_dense(.out_features = 5)));
    st_net_set_metadata(n, "mean", "0.1307");
    st_net_set_metadata(n, "classes", "är\nmånga");
    Onnx__ModelProto *m = exported(n);
    assert_int_equal(m->ir_version, 8);
    assert_int_equal(m->n_opset_import, 1);
    assert_int_equal(m->opset_import[0]->version, 17);
    assert_string_equal(m->producer_name, "stride");
    assert_true(m->producer_version[0] != '\0');
    assert_int_equal(m->graph->n_input, 1);
    assert_int_equal(m->graph->n_output, 1);
    assert_value(m->graph->input[0], "input", ST_SHAPE(3, 8, 6));
    assert_value(m->graph->output[0], "output", ST_SHAPE(5));
    assert_int_equal(m->n_metadata_props, 2);
    for (size_t i = 0; i < m->n_metadata_props; i++)
        assert_string_equal(m->metadata_props[i]->value, st_net_metadata(n, m->metadata_props[i]->key));
    drop(m);
}

static st_layer *dense_of(int features)
{
    return st_dense(.out_features = features);
}

static const Onnx__AttributeProto *attribute(const Onnx__NodeProto *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (strcmp(node->attribute[i]->name, name) == 0) return node->attribute[i];
    fail_msg("%s has no %s", node->name, name);
    return NULL;
}

/* A node as one line: "3.body.1 Relu(3.body.0)". */
static void assert_nodes(const Onnx__GraphProto *graph, size_t count, const char *const lines[])
{
    assert_int_equal(graph->n_node, count);
    for (size_t i = 0; i < count; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        char line[512];
        size_t used = (size_t)snprintf(line, sizeof line, "%s %s(", node->name, node->op_type);
        for (size_t k = 0; k < node->n_input; k++)
            used += (size_t)snprintf(line + used, sizeof line - used, "%s%s", k ? " " : "", node->input[k]);
        snprintf(line + used, sizeof line - used, ")");
        assert_string_equal(line, lines[i]);
        assert_int_equal(node->n_output, 1);
        assert_string_equal(node->output[0], i + 1 < count ? node->name : "output");
    }
}

TEST(nodes_and_tensors_are_called_as_the_layers_are)
{
    static const char *const lines[] = {
        "0 Gemm(input 0.weight 0.bias)",
        "2.0 Gemm(0 2.0.weight)",
        "2.1.Sigmoid Sigmoid(2.0)",
        "2.1 Mul(2.0 2.1.Sigmoid)",
        "3.body.0.Div Div(2.1 3.body.0.sqrt2)",
        "3.body.0.Erf Erf(3.body.0.Div)",
        "3.body.0.Add Add(3.body.0.Erf 3.body.0.one)",
        "3.body.0.Mul Mul(2.1 3.body.0.Add)",
        "3.body.0 Mul(3.body.0.Mul 3.body.0.half)",
        ("3.body.1 BatchNormalization(3.body.0 3.body.1.weight 3.body.1.bias 3.body.1.running_mean "
         "3.body.1.running_var)"),
        "3.projection Gemm(2.1 3.projection.weight 3.projection.bias)",
        "3 Add(3.body.1 3.projection)",
        "4.1 Tanh(3)",
        "4.2 Relu(3)",
        "4 Concat(3 4.1 4.2)",
    };
    auto_net *n = st_net_new(ST_SHAPE(4), dense_of(6), st_dropout(.p = 0.5),
                             st_sequence(st_dense(.out_features = 6, .no_bias = true), st_silu()),
                             st_residual_projected(st_sequence(st_gelu(), st_batchnorm()), dense_of(6)),
                             st_concat(st_identity(), st_tanh(), st_relu()));
    assert_int_equal(st_net_build(n, 2, 1), 0);
    Onnx__ModelProto *m = exported(n);
    assert_nodes(m->graph, sizeof lines / sizeof *lines, lines);
    drop(m);
}

TEST(steps_of_one_kind_are_numbered)
{
    static const char *const lines[] = { "0.Mul Mul(input input)",    "0.Mul2 Mul(0.Mul 0.b)",
                                         "0.Add Add(0.Mul2 0.a)",     "0.Mul3 Mul(input 0.Add)",
                                         "0.Sigmoid Sigmoid(0.Mul3)", "0 Mul(input 0.Sigmoid)" };
    auto_net *n = built(ST_SHAPE(4), st_gelu(.approximate = ST_GELU_TANH));
    Onnx__ModelProto *m = exported(n);
    assert_nodes(m->graph, 6, lines);
    drop(m);
}

TEST(what_does_nothing_is_one_identity)
{
    static const char *const lines[] = { "Identity Identity(input)" };
    auto_net *n = built(ST_SHAPE(4), st_sequence(st_dropout(.p = 0.5), st_identity()));
    Onnx__ModelProto *m = exported(n);
    assert_nodes(m->graph, 1, lines);
    drop(m);
}

static void assert_ints(const Onnx__NodeProto *node, const char *name, size_t count, const int64_t *expected)
{
    const Onnx__AttributeProto *a = attribute(node, name);
    assert_int_equal(a->type, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    assert_int_equal(a->n_ints, count);
    assert_memory_equal(a->ints, expected, count * sizeof *expected);
}

TEST(options_are_attributes)
{
    auto_net *n =
        built(ST_SHAPE(4, 9, 8),
              st_sequence(st_conv2d(.out_channels = 6, .kernel = { 3, 2 }, .stride = { 2, 1 },
                                    .padding = { 1, ST_ZERO_INT }, .dilation = { 1, 2 }, .groups = 2),
                          st_leaky_relu(.slope = 0.25), st_softmax(.axis = 2)));
    Onnx__ModelProto *m = exported(n);
    const Onnx__NodeProto *conv = m->graph->node[0];
    assert_ints(conv, "kernel_shape", 2, (const int64_t[]){ 3, 2 });
    assert_ints(conv, "strides", 2, (const int64_t[]){ 2, 1 });
    assert_ints(conv, "pads", 4, (const int64_t[]){ 1, 0, 1, 0 });
    assert_ints(conv, "dilations", 2, (const int64_t[]){ 1, 2 });
    assert_int_equal(attribute(conv, "group")->i, 2);
    assert_true(attribute(m->graph->node[1], "alpha")->f == 0.25f);
    assert_int_equal(attribute(m->graph->node[2], "axis")->i, 2);
    drop(m);
}

TEST(a_kernel_is_as_given_where_no_window_reads_all_of_its_taps)
{
    auto_net *n = built(ST_SHAPE(2, 1, 9), st_conv2d(.out_channels = 3, .kernel = { 3 }, .padding = { 1 }));
    Onnx__ModelProto *m = exported(n);
    assert_ints(m->graph->node[0], "kernel_shape", 2, (const int64_t[]){ 3, 3 });
    assert_ints(m->graph->node[0], "pads", 4, (const int64_t[]){ 1, 1, 1, 1 });
    drop(m);
}

/* ---- every layer --------------------------------------------------------------------------------- */

static const Onnx__TensorProto *constant(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (strcmp(graph->initializer[i]->name, name) == 0) return graph->initializer[i];
    return NULL;
}

/* The file has each parameter and state under its own name, rounded. */
static void assert_tensor(const st_net_tensor *t, void *context)
{
    const Onnx__TensorProto *found = constant(context, t->name);
    if (!found) fail_msg("%s is missing", t->name);
    assert_int_equal(found->n_float_data, st_numel(t->value));
    for (size_t i = 0; i < found->n_float_data; i++)
        assert_true(found->float_data[i] == (float)*element(t->value, (ptrdiff_t)i));
}

static int times_named(const Onnx__GraphProto *graph, const char *name)
{
    int count = strcmp(graph->input[0]->name, name) == 0;
    for (size_t i = 0; i < graph->n_node; i++) count += strcmp(graph->node[i]->output[0], name) == 0;
    for (size_t i = 0; i < graph->n_initializer; i++) count += strcmp(graph->initializer[i]->name, name) == 0;
    return count;
}

/* Node i may read it: the input, a constant, or an output of a node before it. */
static bool is_known(const Onnx__GraphProto *graph, size_t i, const char *name)
{
    bool known = name[0] == '\0' || strcmp(name, "input") == 0 || constant(graph, name);
    for (size_t k = 0; k < i; k++) known = known || strcmp(graph->node[k]->output[0], name) == 0;
    return known;
}

static bool is_read(const Onnx__GraphProto *graph, const char *name)
{
    bool read = strcmp(name, "output") == 0;
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_input; k++)
            read = read || strcmp(graph->node[i]->input[k], name) == 0;
    return read;
}

static void assert_order(const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        for (size_t k = 0; k < node->n_input; k++)
            if (!is_known(graph, i, node->input[k])) fail_msg("%s reads %s", node->name, node->input[k]);
        assert_int_equal(times_named(graph, node->output[0]), 1);
        if (!is_read(graph, node->output[0])) fail_msg("nobody reads %s", node->output[0]);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(graph->node[k]->name, node->name);
    }
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *t = graph->initializer[i];
        int64_t count = 1;
        for (size_t axis = 0; axis < t->n_dims; axis++) count *= t->dims[axis];
        assert_int_equal(count, t->n_float_data + t->n_int64_data);
        assert_int_equal(times_named(graph, t->name), 1);
        if (!is_read(graph, t->name)) fail_msg("nobody reads %s", t->name);
    }
}

static void visit_sample(const char *name, st_shape image, st_layer *l, const char *refusal, void *context)
{
    (void)context;
    about("%s", name);
    auto_net *n = sample_net(image, l);
    assert_non_null(n);
    if (refusal) {
        expect_failure(st_net_export_onnx(n, path_of("net.onnx")), "%s: %s", path_of("net.onnx"), refusal);
        assert_int_equal(access(path_of("net.onnx"), F_OK), -1);
    } else {
        if (st_net_export_onnx(n, path_of("net.onnx")) && strstr(st_error(), "ONNX has no such layer"))
            fail_msg("nn/onnx/layers.c has no form of %s, and samples.c does not say that it is refused",
                     l->type->name);
        Onnx__ModelProto *m = exported(n);
        assert_order(m->graph);
        assert_value(m->graph->output[0], "output", n->output);
        assert_string_equal(m->graph->node[m->graph->n_node - 1]->output[0], "output");
        st_net_visit(n, assert_tensor, m->graph);
        drop(m);
    }
}

TEST(every_layer_is_exported_or_refused)
{
    samples_visit(visit_sample, NULL);
}

enum { MOST_TYPES = 128 };

static void meet(st_layer *l, const char *path, void *context)
{
    (void)path;
    bool *met = context;
    for (int i = 0; st_layer_types[i]; i++)
        if (st_layer_types[i] == l->type) met[i] = true;
}

static void meet_sample(const char *name, st_shape image, st_layer *l, const char *refusal, void *context)
{
    (void)name, (void)image, (void)refusal;
    st_layer_visit(l, meet, context);
    st_layer_free(l);
}

/* A new layer enters the table of nn/onnx/layers.c, unless ONNX has none, and the samples. */
TEST(no_shipped_layer_is_forgotten)
{
    bool met[MOST_TYPES] = { false };
    samples_visit(meet_sample, met);
    for (int i = 0; st_layer_types[i]; i++)
        if (!met[i]) fail_msg("tests/onnx/samples.c has no sample of %s", st_layer_types[i]->name);
}

/* ---- what is refused ----------------------------------------------------------------------------- */

static int same_shape(st_layer *l, st_shape x, st_shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

static void copy(const st_call *c, st_tensor x, st_tensor y)
{
    (void)c;
    st_copy(y, x);
}

static void copy_back(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)c, (void)x, (void)y;
    st_copy(dx, dy);
}

static const st_layer_type own = {
    .name = "own", .plan = same_shape, .forward = copy, .backward = copy_back
};
static const st_layer_type alike = {
    .name = "relu", .plan = same_shape, .forward = copy, .backward = copy_back
};

/* The export fails, and says this; n is freed. */
static void is_refused(st_net *n, const char *expected)
{
    if (st_is_null(st_net_parameters(n))) assert_int_equal(st_net_build(n, 2, 1), 0);
    expect_failure(st_net_export_onnx(n, path_of("net.onnx")), "net.onnx: %s", expected);
    st_net_free(n);
}

TEST(a_layer_of_ones_own_is_refused_by_its_path_and_type)
{
    is_refused(st_net_new(ST_SHAPE(4), st_relu(),
                          st_residual(st_sequence(st_tanh(), st_layer_new(&own, NULL, 0, NULL)))),
               "layer 1.body.1: own: a layer of your own");
    is_refused(st_net_new(ST_SHAPE(4), st_layer_new(&alike, NULL, 0, NULL)),
               "layer 0: relu: a layer of your own");
}

TEST(misuse_is_refused)
{
    auto_net *n = st_net_new(ST_SHAPE(4), st_relu(), st_relu());
    expect_failure(st_net_export_onnx(n, path_of("net.onnx")),
                   "net.onnx: st_net_export_onnx before st_net_build");
    assert_int_equal(st_net_build(n, 2, 1), 0);
    expect_failure(st_net_export_onnx(n, path_of(".")), "%s: not a regular file", path_of("."));
    expect_failure(st_net_export_onnx(n, path_of("nowhere/net.onnx")),
                   "nowhere/net.onnx: cannot be written: No such file");
    st_net_set_metadata(n, "mean", "\xff");
    expect_failure(st_net_export_onnx(n, path_of("net.onnx")),
                   "net.onnx: metadata mean: no memory, or it is not UTF-8");
    st_net_set_metadata(n, "mean", NULL);
    st_net_set_metadata(n, "\xff", "0");
    expect_failure(st_net_export_onnx(n, path_of("net.onnx")), "it is not UTF-8");
    st_error_set("earlier");
    expect_failure(st_net_export_onnx(n, path_of("net.onnx")), "earlier");
}

TEST(a_refusal_leaves_the_old_file)
{
    auto_net *good = built(ST_SHAPE(4), dense_of(3)),
             *bad = built(ST_SHAPE(4), st_layer_new(&own, NULL, 0, NULL));
    assert_int_equal(st_net_export_onnx(good, path_of("net.onnx")), 0);
    expect_failure(st_net_export_onnx(bad, path_of("net.onnx")), "layer 0: own");
    Onnx__ModelProto *m = read_model(path_of("net.onnx"));
    assert_string_equal(m->graph->node[0]->op_type, "Gemm");
    drop(m);
}

TEST(what_float32_cannot_hold_is_refused)
{
    st_net *n = built(ST_SHAPE(4), dense_of(3));
    *element(st_net_find(n, "0.weight"), 5) = (st_real)INFINITY; /* which it can */
    drop(exported(n));
    st_net_free(n);
    n = built(ST_SHAPE(4), dense_of(3));
    *element(st_net_find(n, "0.weight"), 5) = (st_real)1e39; /* infinite in float */
    if (sizeof(st_real) == 8) is_refused(n, "layer 0: dense: weight is 1e+39, which overflows float32");
    else st_net_free(n);
    is_refused(built(ST_SHAPE(4), st_elu(.alpha = 1e39)), "layer 0: elu: alpha is 1e+39");
    is_refused(built(ST_SHAPE(1, 4, 4), st_pad2d(.height = { 1, 1 }, .value = -1e39)),
               "layer 0: pad2d: value is -1e+39");
}

#else

TEST(without_onnx_the_error_says_what_was_missing)
{
    auto_net *n = built(ST_SHAPE(4), st_relu());
    assert_int_equal(st_net_export_onnx(n, path_of("net.onnx")), -1);
    assert_true(strstr(st_error(), "protobuf-c") || strstr(st_error(), "libonnx-dev"));
    expect_error("net.onnx: this library was built without ONNX");
    assert_int_equal(access(path_of("net.onnx"), F_OK), -1);
}

TEST(files_of_onnx_are_read_back)
{
    skip_because("this library was built without ONNX (protobuf-c, onnx.proto)");
}
#endif
