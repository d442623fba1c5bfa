/* graph.c: nodes, attributes and constants as messages. onnx.proto, in https://github.com/onnx/onnx, names and
 * numbers their fields. */
#include "nn/onnx/graph.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP_TYPE, NODE_ATTRIBUTE };
enum { ATTR_NAME = 1, ATTR_F, ATTR_I, ATTR_S, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum attribute_type { TYPE_FLOAT = 1, TYPE_INT, TYPE_STRING, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE, TENSOR_FLOATS = 4, TENSOR_INT64S = 7, TENSOR_NAME };
enum data_type { DATA_FLOAT = 1, DATA_INT64 = 7 };
enum { VALUE_NAME = 1, VALUE_TYPE, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME };

/* ---- names --------------------------------------------------------------------------------------- */

typedef struct graph_name {
    struct graph_name *next;
    char text[];
} graph_name;

void graph_free(graph *g)
{
    for (graph_name *n = g->names, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    free(g->bytes.at);
    free(g->node.at);
}

const char *graph_print(graph *g, const char *format, ...)
{
    char text[ST_LAYER_PATH + 128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    graph_name *n = malloc(sizeof *n + strlen(text) + 1);
    if (!n) st_error_set("no memory for the name %s", text);
    if (!n) return "";
    n->next = g->names;
    g->names = n;
    return strcpy(n->text, text);
}

static const char *name_in(graph_place at, const char *name)
{
    return graph_print(at.graph, "%s%s%s", at.path, at.path[0] ? "." : "", name);
}

/* The second one of an operator in a layer is "3.body.0.Mul2". */
static const char *step_name(graph_place at, const char *op)
{
    const char *name = name_in(at, op);
    const size_t length = strlen(name);
    int count = 0;
    for (const graph_name *n = at.graph->names; n; n = n->next)
        count +=
            strncmp(n->text, name, length) == 0 && !n->text[length + strspn(n->text + length, "0123456789")];
    return count > 1 ? graph_print(at.graph, "%s%d", name, count) : name;
}

/* ---- nodes --------------------------------------------------------------------------------------- */

void graph_finish(graph *g, const char *output)
{
    message_text(&g->node, NODE_OUTPUT, output);
    message_part(&g->bytes, GRAPH_NODE, &g->node);
}

const char *graph_add(graph_place at, const char *op, bool step, int count, const char *const inputs[])
{
    graph *g = at.graph;
    if (g->output) graph_finish(g, g->output);
    g->output = step ? step_name(at, op) : at.path;
    for (int i = 0; i < count; i++) message_text(&g->node, NODE_INPUT, inputs[i]);
    message_text(&g->node, NODE_NAME, g->output);
    message_text(&g->node, NODE_OP_TYPE, op);
    return g->output;
}

/* The number as float32; an error if it overflows. */
static float rounded(graph_place at, const char *name, double value)
{
    float number = (float)value;
    if (isinf(number) && !isinf(value)) graph_refuse(at, "%s is %g, which overflows float32", name, value);
    return number;
}

/* ---- attributes ---------------------------------------------------------------------------------- */

/* `a` has the value. */
static const char *add_attribute(graph_place at, const char *name, enum attribute_type type, message *a)
{
    message_text(a, ATTR_NAME, name);
    message_int(a, ATTR_TYPE, type);
    message_part(&at.graph->node, NODE_ATTRIBUTE, a);
    return at.graph->output;
}

const char *graph_int(graph_place at, const char *name, ptrdiff_t value)
{
    message a = { 0 };
    message_int(&a, ATTR_I, value);
    return add_attribute(at, name, TYPE_INT, &a);
}

const char *graph_ints(graph_place at, const char *name, int count, const ptrdiff_t values[])
{
    message a = { 0 };
    for (int i = 0; i < count; i++) message_int(&a, ATTR_INTS, values[i]);
    return add_attribute(at, name, TYPE_INTS, &a);
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
    message a = { 0 };
    message_float(&a, ATTR_F, rounded(at, name, value));
    return add_attribute(at, name, TYPE_FLOAT, &a);
}

const char *graph_mode(graph_place at, const char *name, const char *value)
{
    message a = { 0 };
    message_text(&a, ATTR_S, value);
    return add_attribute(at, name, TYPE_STRING, &a);
}

/* ---- constants ----------------------------------------------------------------------------------- */

/* `data` has the elements. */
static const char *add_constant(graph_place at, const char *name, st_shape s, enum data_type type,
                                message *data)
{
    const char *own = name_in(at, name);
    message t = { 0 };
    for (int i = 0; i < s.rank; i++) message_int(&t, TENSOR_DIMS, s.n[i]);
    message_int(&t, TENSOR_TYPE, type);
    message_part(&t, type == DATA_FLOAT ? TENSOR_FLOATS : TENSOR_INT64S, data);
    message_text(&t, TENSOR_NAME, own);
    message_part(&at.graph->bytes, GRAPH_INITIALIZER, &t);
    return own;
}

typedef struct floats {
    graph_place at;
    const char *name;
    message data;
} floats;

static void round_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    floats *f = context;
    for (ptrdiff_t i = 0; i < n; i++)
        message_element_float(&f->data, rounded(f->at, f->name, (double)at[0][i * stride[0]]));
}

const char *graph_tensor(graph_place at, const char *name, st_tensor value)
{
    floats f = { at, name, { 0 } };
    if (st_is_null(value)) return "";
    st_walk(1, &value, ST_ROW_MAJOR, round_row, &f);
    return add_constant(at, name, value.shape, DATA_FLOAT, &f.data);
}

const char *graph_filled(graph_place at, const char *name, st_shape s, double value)
{
    message data = { 0 };
    const float number = rounded(at, name, value);
    for (ptrdiff_t i = 0; i < st_shape_numel(s, name); i++) message_element_float(&data, number);
    return add_constant(at, name, s, DATA_FLOAT, &data);
}

const char *graph_number(graph_place at, const char *name, double value)
{
    return graph_filled(at, name, (st_shape){ .rank = 0 }, value);
}

const char *graph_sizes(graph_place at, const char *name, int count, const ptrdiff_t values[])
{
    message data = { 0 };
    for (int i = 0; i < count; i++) message_element_int(&data, values[i]);
    return add_constant(at, name, ST_SHAPE(count), DATA_INT64, &data);
}

/* ---- inputs and outputs -------------------------------------------------------------------------- */

void graph_value(graph *g, int which, const char *name, st_shape image)
{
    message size = { 0 }, shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 };
    message_text(&size, DIM_NAME, "N");
    message_part(&shape, SHAPE_DIM, &size);
    for (int i = 0; i < image.rank; i++) {
        message_int(&size, DIM_VALUE, image.n[i]);
        message_part(&shape, SHAPE_DIM, &size);
    }
    message_int(&tensor, TENSOR_ELEMENT, DATA_FLOAT);
    message_part(&tensor, TENSOR_SHAPE, &shape);
    message_part(&type, TYPE_TENSOR, &tensor);
    message_text(&value, VALUE_NAME, name);
    message_part(&value, VALUE_TYPE, &type);
    message_part(&g->bytes, which, &value);
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
