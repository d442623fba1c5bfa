/* onnx_model.c: writes one of the networks as a file of ONNX, for those who run such files.
 *
 * Each type of layer becomes one node, whose inputs are the layer's parameters and states under their own names;
 * what does nothing in inference becomes none. */
#include "nn/stride.h"
#include "tests/bench/networks.h"

#include <errno.h>
#include <onnx.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 32, INPUTS = 8, ATTRIBUTES = 4, TENSORS = 64, NAME = 96, RANK = 4 };

/* A node, and the memory that it points to. */
typedef struct node {
    Onnx__NodeProto proto;
    Onnx__AttributeProto attribute[ATTRIBUTES], *attributes[ATTRIBUTES];
    int64_t pair[ATTRIBUTES][4];
    char *inputs[INPUTS], *outputs[1];
} node;

typedef struct constant {
    Onnx__TensorProto proto;
    int64_t dims[RANK];
    char name[NAME];
} constant;

typedef struct model {
    node node[NODES];
    Onnx__NodeProto *nodes[NODES];
    constant constant[TENSORS];
    Onnx__TensorProto *constants[TENSORS];
    char value[NODES + 1][NAME]; /* what goes in at node i and comes out of i - 1 */
    size_t node_count, constant_count;
} model;

/* protobuf-c's structs have no const, and it only reads. */
static char *borrowed(const char *text)
{
    return (char *)text;
}

/* ---- nodes --------------------------------------------------------------------------------------- */

static node *add_node(model *m, const char *type)
{
    size_t i = m->node_count++;
    node *n = &m->node[i];
    m->nodes[i] = &n->proto;
    onnx__node_proto__init(&n->proto);
    snprintf(m->value[i + 1], NAME, "value%zu", i + 1);
    n->inputs[0] = m->value[i];
    n->outputs[0] = m->value[i + 1];
    n->proto.op_type = borrowed(type);
    n->proto.input = n->inputs;
    n->proto.output = n->outputs;
    n->proto.n_input = n->proto.n_output = 1;
    n->proto.attribute = n->attributes;
    return n;
}

static Onnx__AttributeProto *add_attribute(node *n, const char *name,
                                           Onnx__AttributeProto__AttributeType type)
{
    size_t i = n->proto.n_attribute++;
    Onnx__AttributeProto *a = n->attributes[i] = &n->attribute[i];
    onnx__attribute_proto__init(a);
    a->name = borrowed(name);
    a->has_type = 1;
    a->type = type;
    return a;
}

/* The pair, `times` times: ONNX's pads are both beginnings and both ends. */
static void add_pair(node *n, const char *name, const int pair[2], size_t times)
{
    int64_t *values = n->pair[n->proto.n_attribute];
    Onnx__AttributeProto *a = add_attribute(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    for (size_t i = 0; i < 2 * times; i++) values[i] = pair[i % 2];
    a->ints = values;
    a->n_ints = 2 * times;
}

static void add_constant(model *m, node *n, tensor value, const char *layer_name, const char *name)
{
    size_t i = m->constant_count++;
    constant *c = &m->constant[i];
    m->constants[i] = &c->proto;
    onnx__tensor_proto__init(&c->proto);
    snprintf(c->name, NAME, "%s.%s", layer_name, name);
    for (int axis = 0; axis < value.shape.rank; axis++) c->dims[axis] = value.shape.n[axis];
    c->proto.name = c->name;
    c->proto.dims = c->dims;
    c->proto.n_dims = (size_t)value.shape.rank;
    c->proto.has_data_type = 1;
    c->proto.data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    c->proto.float_data = tensor_data(value);
    c->proto.n_float_data = (size_t)tensor_count(value);
    n->inputs[n->proto.n_input++] = c->name;
}

/* ---- layers -------------------------------------------------------------------------------------- */

static void add_conv2d(node *n, const layer *l)
{
    const conv2d *o = l->options;
    add_pair(n, "kernel_shape", o->kernel, 1);
    add_pair(n, "strides", o->stride, 1);
    add_pair(n, "pads", o->padding, 2);
}

static void add_maxpool(node *n, const layer *l)
{
    const maxpool *o = l->options;
    add_pair(n, "kernel_shape", o->kernel, 1);
    add_pair(n, "strides", o->stride[0] ? o->stride : o->kernel, 1);
    add_pair(n, "pads", o->padding, 2);
}

static void add_dense(node *n, const layer *l)
{
    (void)l;
    Onnx__AttributeProto *a = add_attribute(n, "transB", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    a->has_i = 1;
    a->i = 1;
}

static const struct counterpart {
    const char *type;
    const char *operator; /* NULL: nothing, in inference */
    void (*add_attributes)(node *n, const layer *l);
} counterparts[] = {
    { "conv2d", "Conv", add_conv2d },
    { "dense", "Gemm", add_dense },
    { "maxpool", "MaxPool", add_maxpool },
    { "avgpool", "GlobalAveragePool", NULL }, /* of the whole image, as the networks use it */
    { "batchnorm", "BatchNormalization", NULL },
    { "relu", "Relu", NULL },
    { "flatten", "Flatten", NULL },
    { "dropout", NULL, NULL },
    { 0 },
};

static int add_layer(model *m, const layer *l, int number)
{
    const struct counterpart *c = counterparts;
    char name[16];
    while (c->type && strcmp(c->type, l->type->name) != 0) c++;
    if (!c->type) return error_set("no ONNX for a layer of type %s", l->type->name);
    if (!c->operator) return 0;
    node *n = add_node(m, c->operator);
    if (c->add_attributes) c->add_attributes(n, l);
    snprintf(name, sizeof name, "%d", number);
    for (int i = 0; i < l->params; i++) add_constant(m, n, l->param[i], name, l->param_name[i]);
    for (int i = 0; i < l->states; i++) add_constant(m, n, l->state[i], name, l->state_name[i]);
    return 0;
}

/* ---- the file ------------------------------------------------------------------------------------ */

static int write_bytes(const Onnx__ModelProto *proto, const char *file)
{
    size_t size = onnx__model_proto__get_packed_size(proto);
    uint8_t *bytes = malloc(size);
    FILE *to = bytes ? fopen(file, "wb") : NULL;
    if (bytes && to) onnx__model_proto__pack(proto, bytes);
    bool written = to && fwrite(bytes, 1, size, to) == size;
    bool closed = to && fclose(to) == 0;
    free(bytes);
    return written && closed ? 0 : error_set("%s: %s", file, strerror(errno));
}

/* A value [N, …] of floats; N is left open. */
typedef struct value {
    Onnx__ValueInfoProto info, *list;
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor tensor;
    Onnx__TensorShapeProto shape;
    Onnx__TensorShapeProto__Dimension dim[RANK], *dims[RANK];
} value;

static void describe(value *v, char *name, shape sample)
{
    onnx__value_info_proto__init(&v->info);
    onnx__type_proto__init(&v->type);
    onnx__type_proto__tensor__init(&v->tensor);
    onnx__tensor_shape_proto__init(&v->shape);
    for (int axis = 0; axis <= sample.rank; axis++) {
        Onnx__TensorShapeProto__Dimension *d = v->dims[axis] = &v->dim[axis];
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = axis ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                             : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        if (axis) d->dim_value = sample.n[axis - 1];
        else d->dim_param = borrowed("N");
    }
    v->shape.dim = v->dims;
    v->shape.n_dim = (size_t)sample.rank + 1;
    v->tensor.shape = &v->shape;
    v->tensor.has_elem_type = 1;
    v->tensor.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    v->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type.tensor_type = &v->tensor;
    v->info.name = name;
    v->info.type = &v->type;
    v->list = &v->info;
}

static int write_model(model *m, const net *n, char *name, const char *file)
{
    static value input, output;
    Onnx__ModelProto proto = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets = &set;
    describe(&input, m->value[0], n->input);
    describe(&output, m->value[m->node_count], n->output);
    graph.name = name;
    graph.node = m->nodes;
    graph.n_node = m->node_count;
    graph.initializer = m->constants;
    graph.n_initializer = m->constant_count;
    graph.input = &input.list;
    graph.output = &output.list;
    graph.n_input = graph.n_output = 1;
    set.has_version = 1;
    set.version = 13;
    proto.has_ir_version = 1;
    proto.ir_version = 7;
    proto.opset_import = &sets;
    proto.n_opset_import = 1;
    proto.graph = &graph;
    return write_bytes(&proto, file);
}

int main(int argc, char **argv)
{
    static model m = { .value = { "images" } };
    if (argc != 3) {
        fputs("usage: onnx_model NETWORK FILE\n", stderr);
        return 2;
    }
    net *n = network_new(argv[1]);
    if (n && net_build(n, 1, 1) == 0)
        for (int i = 0; i < n->root->children && !error_text(); i++) add_layer(&m, n->root->child[i], i);
    if (!error_text()) write_model(&m, n, argv[1], argv[2]);
    net_free(n);
    if (error_text()) fprintf(stderr, "onnx_model: %s\n", error_text());
    return error_text() != NULL;
}
