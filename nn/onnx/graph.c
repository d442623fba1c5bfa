/* graph.c: nodes, attributes and constants in protobuf-c's structs, whose memory belongs to the graph. Texts
 * are not copied: protobuf-c only reads them. */
#include "nn/onnx/graph.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------------- */

typedef struct graph_block {
    struct graph_block *next;
    max_align_t bytes[];
} graph_block;

void *graph_take(graph *g, size_t count, size_t size)
{
    graph_block *b = calloc(1, sizeof *b + count * size); /* of tensors in memory: no overflow */
    if (!b) {
        st_error_set("no memory for %zu elements of the graph", count);
        return NULL;
    }
    b->next = g->blocks;
    g->blocks = b;
    return b->bytes;
}

void graph_free(graph *g)
{
    for (graph_block *b = g->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    g->blocks = NULL;
}

static void *copied(graph *g, const void *value, size_t size)
{
    void *copy = graph_take(g, 1, size);
    return copy ? memcpy(copy, value, size) : NULL;
}

const char *graph_print(graph *g, const char *format, ...)
{
    char text[ST_LAYER_PATH + 128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *own = copied(g, text, strlen(text) + 1);
    return own ? own : "";
}

/* The capacity is the next power of two. */
void *graph_grown(graph *g, void *list, size_t count)
{
    if (count & (count - 1)) return list;
    void *wider = graph_take(g, count ? 2 * count : 1, sizeof(void *));
    if (wider && count) memcpy(wider, list, count * sizeof(void *));
    return wider;
}

/* ---- nodes --------------------------------------------------------------------------------------- */

static const char *name_in(graph_place at, const char *name)
{
    return graph_print(at.graph, "%s%s%s", at.path, at.path[0] ? "." : "", name);
}

/* The number of nodes with this name, also with a number appended. */
static int count_named(const graph *g, const char *name)
{
    int count = 0;
    size_t length = strlen(name);
    for (size_t i = 0; i < g->proto.n_node; i++) {
        const char *other = g->proto.node[i]->name;
        count += strncmp(other, name, length) == 0 &&
                 strspn(other + length, "0123456789") == strlen(other + length);
    }
    return count;
}

static const char *step_name(graph_place at, const char *op)
{
    const char *name = name_in(at, op);
    int before = count_named(at.graph, name);
    return before ? graph_print(at.graph, "%s%d", name, before + 1) : name;
}

const char *graph_add(graph_place at, const char *op, bool step, int count, const char *const inputs[])
{
    graph *g = at.graph;
    Onnx__NodeProto *n = graph_take(g, 1, sizeof *n),
                    **nodes = graph_grown(g, g->proto.node, g->proto.n_node);
    char *name = (char *)(step ? step_name(at, op) : at.path);
    char **values = graph_take(g, (size_t)count + 1, sizeof *values);
    if (!n || !nodes || !values) return "";
    for (int i = 0; i < count; i++) values[i] = (char *)inputs[i];
    values[count] = name;
    onnx__node_proto__init(n);
    n->op_type = (char *)op;
    n->name = name;
    n->input = values;
    n->n_input = (size_t)count;
    n->output = values + count;
    n->n_output = 1;
    g->proto.node = nodes;
    g->proto.node[g->proto.n_node++] = n;
    return name;
}

/* The number as float32; an error if it overflows. */
static float rounded(graph_place at, const char *name, double value)
{
    float number = (float)value;
    if (isinf(number) && !isinf(value)) graph_refuse(at, "%s is %g, which overflows float32", name, value);
    return number;
}

/* ---- attributes ---------------------------------------------------------------------------------- */

/* Copied; of the last node. */
static const char *add_attribute(graph_place at, const char *name, Onnx__AttributeProto value)
{
    Onnx__GraphProto *g = &at.graph->proto;
    Onnx__NodeProto *n = g->n_node > 0 ? g->node[g->n_node - 1] : NULL;
    Onnx__AttributeProto **list = n ? graph_grown(at.graph, n->attribute, n->n_attribute) : NULL;
    if (!list) return "";
    value.name = (char *)name;
    value.has_type = 1;
    n->attribute = list;
    n->attribute[n->n_attribute++] = copied(at.graph, &value, sizeof value);
    return n->output[0];
}

const char *graph_int(graph_place at, const char *name, ptrdiff_t value)
{
    Onnx__AttributeProto a = ONNX__ATTRIBUTE_PROTO__INIT;
    a.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a.has_i = 1, a.i = value;
    return add_attribute(at, name, a);
}

static int64_t *copy_sizes(graph *g, int count, const ptrdiff_t values[])
{
    int64_t *copy = graph_take(g, (size_t)count, sizeof *copy);
    for (int i = 0; i < count && copy; i++) copy[i] = values[i];
    return copy;
}

const char *graph_ints(graph_place at, const char *name, int count, const ptrdiff_t values[])
{
    Onnx__AttributeProto a = ONNX__ATTRIBUTE_PROTO__INIT;
    a.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    a.ints = copy_sizes(at.graph, count, values);
    a.n_ints = a.ints ? (size_t)count : 0;
    return add_attribute(at, name, a);
}

const char *graph_pair(graph_place at, const char *name, const int pair[2])
{
    return graph_ints(at, name, 2, (const ptrdiff_t[]){ pair[0], pair[1] });
}

const char *graph_windows(graph_place at, const window *w)
{
    graph_pair(at, "kernel_shape", w->kernel);
    graph_pair(at, "strides", w->stride);
    return graph_ints(at, "pads", 4,
                      (const ptrdiff_t[]){ w->before[0], w->before[1], w->after[0], w->after[1] });
}

const char *graph_real(graph_place at, const char *name, double value)
{
    Onnx__AttributeProto a = ONNX__ATTRIBUTE_PROTO__INIT;
    a.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    a.has_f = 1, a.f = rounded(at, name, value);
    return add_attribute(at, name, a);
}

const char *graph_mode(graph_place at, const char *name, const char *value)
{
    Onnx__AttributeProto a = ONNX__ATTRIBUTE_PROTO__INIT;
    a.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    a.has_s = 1, a.s = (ProtobufCBinaryData){ strlen(value), (uint8_t *)value };
    return add_attribute(at, name, a);
}

/* ---- constants ----------------------------------------------------------------------------------- */

static Onnx__TensorProto *add_constant(graph_place at, const char *name, st_shape s,
                                       Onnx__TensorProto__DataType type)
{
    graph *g = at.graph;
    Onnx__TensorProto *t = graph_take(g, 1, sizeof *t);
    Onnx__TensorProto **list = graph_grown(g, g->proto.initializer, g->proto.n_initializer);
    char *own = (char *)name_in(at, name);
    int64_t *dims = copy_sizes(g, s.rank, s.n);
    if (!t || !list || !dims) return NULL;
    onnx__tensor_proto__init(t);
    t->name = own;
    t->dims = dims;
    t->n_dims = (size_t)s.rank;
    t->has_data_type = 1;
    t->data_type = type;
    g->proto.initializer = list;
    return g->proto.initializer[g->proto.n_initializer++] = t;
}

static Onnx__TensorProto *add_floats(graph_place at, const char *name, st_shape s)
{
    ptrdiff_t count = st_shape_numel(s, name);
    float *data = graph_take(at.graph, (size_t)count, sizeof *data);
    Onnx__TensorProto *t = data ? add_constant(at, name, s, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) : NULL;
    if (!t) return NULL;
    t->float_data = data;
    t->n_float_data = (size_t)count;
    return t;
}

/* Copies the elements as floats. */
typedef struct floats {
    graph_place at;
    const char *name;
    float *to;
} floats;

static void round_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    floats *f = context;
    for (ptrdiff_t i = 0; i < n; i++) *f->to++ = rounded(f->at, f->name, (double)at[0][i * stride[0]]);
}

const char *graph_tensor(graph_place at, const char *name, st_tensor value)
{
    Onnx__TensorProto *t = st_is_null(value) ? NULL : add_floats(at, name, value.shape);
    if (!t) return "";
    st_walk(1, &value, ST_ROW_MAJOR, round_row, &(floats){ at, name, t->float_data });
    return t->name;
}

const char *graph_filled(graph_place at, const char *name, st_shape s, double value)
{
    Onnx__TensorProto *t = add_floats(at, name, s);
    const float number = rounded(at, name, value);
    for (size_t i = 0; t && i < t->n_float_data; i++) t->float_data[i] = number;
    return t ? t->name : "";
}

const char *graph_number(graph_place at, const char *name, double value)
{
    return graph_filled(at, name, (st_shape){ .rank = 0 }, value);
}

const char *graph_sizes(graph_place at, const char *name, int count, const ptrdiff_t values[])
{
    Onnx__TensorProto *t = add_constant(at, name, ST_SHAPE(count), ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
    if (!t || !(t->int64_data = copy_sizes(at.graph, count, values))) return "";
    t->n_int64_data = (size_t)count;
    return t->name;
}

/* ---- inputs and outputs -------------------------------------------------------------------------- */

/* Axis 0 has a name, the others sizes. */
static Onnx__TensorShapeProto__Dimension *dimension(graph *g, int axis, st_shape image)
{
    Onnx__TensorShapeProto__Dimension d = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT;
    d.value_case = axis ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                        : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    if (axis) d.dim_value = image.n[axis - 1];
    else d.dim_param = (char *)"N";
    return copied(g, &d, sizeof d);
}

Onnx__ValueInfoProto *graph_value(graph *g, const char *name, st_shape image)
{
    Onnx__TensorShapeProto s = ONNX__TENSOR_SHAPE_PROTO__INIT;
    Onnx__TypeProto__Tensor t = ONNX__TYPE_PROTO__TENSOR__INIT;
    Onnx__TypeProto type = ONNX__TYPE_PROTO__INIT;
    Onnx__ValueInfoProto v = ONNX__VALUE_INFO_PROTO__INIT;
    s.n_dim = (size_t)image.rank + 1;
    s.dim = graph_take(g, s.n_dim, sizeof *s.dim);
    for (int axis = 0; axis <= image.rank && s.dim; axis++) s.dim[axis] = dimension(g, axis, image);
    t.has_elem_type = 1;
    t.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    t.shape = copied(g, &s, sizeof s);
    type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type.tensor_type = copied(g, &t, sizeof t);
    v.name = (char *)name;
    v.type = copied(g, &type, sizeof type);
    return copied(g, &v, sizeof v);
}

/* ---- errors -------------------------------------------------------------------------------------- */

const char *graph_refuse(graph_place at, const char *format, ...)
{
    char text[ST_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    st_error_set("layer %s: %s: %s", at.path, at.l->type->name, text);
    return "";
}
