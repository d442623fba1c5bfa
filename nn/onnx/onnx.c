/* onnx.c: a net's graph, the model around it, and the file. */
#include "nn/onnx/onnx.h"
#include <stride.h>
#include "nn/files/file.h"

#ifdef STRIDE_ONNX
#include "nn/onnx/graph.h"

#include <jansson.h>
#include <limits.h>

enum { IR_VERSION = 8, OPERATOR_SET = 17 };

/* ---- the graph ----------------------------------------------------------------------------------- */

/* The output of the last node, which no node reads, is renamed. */
static int add_nodes(graph *g, const st_net *n, const char *input, const char *output)
{
    graph_place root = { g, n->root, "" };
    const char *y = graph_layer(root, input);
    if (g->proto.n_node == 0) graph_step(root, "Identity", y); /* no layer computes anything in inference */
    if (st_error()) return -1;
    g->proto.node[g->proto.n_node - 1]->output[0] = (char *)output;
    return 0;
}

static int fill_graph(graph *g, const st_net *n)
{
    Onnx__ValueInfoProto *input = graph_value(g, "input", n->input);
    Onnx__ValueInfoProto *output = graph_value(g, "output", n->output);
    Onnx__ValueInfoProto **list = graph_take(g, 2, sizeof *list);
    if (!input || !output || !list || add_nodes(g, n, input->name, output->name)) return -1;
    list[0] = input;
    list[1] = output;
    g->proto.input = list;
    g->proto.output = list + 1;
    g->proto.n_input = g->proto.n_output = 1;
    g->proto.name = (char *)"net";
    return 0;
}

/* ---- the model ----------------------------------------------------------------------------------- */

static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);
    bool valid = string != NULL;
    json_decref(string);
    return valid;
}

static int add_note(graph *g, Onnx__ModelProto *model, const st_metadata *note)
{
    Onnx__StringStringEntryProto *entry = graph_take(g, 1, sizeof *entry);
    Onnx__StringStringEntryProto **list = graph_grown(g, model->metadata_props, model->n_metadata_props);
    if (!entry || !list) return -1;
    if (!is_utf8(note->name) || !is_utf8(note->text))
        return st_error_set("metadata %s: no memory, or it is not UTF-8", note->name);
    onnx__string_string_entry_proto__init(entry);
    entry->key = note->name;
    entry->value = note->text;
    model->metadata_props = list;
    model->metadata_props[model->n_metadata_props++] = entry;
    return 0;
}

/* A buffer for protobuf-c. Its append cannot report a failure, so the buffer remembers it. */
typedef struct sink {
    ProtobufCBuffer buffer;
    FILE *to;
    bool failed;
} sink;

static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *bytes)
{
    sink *s = (sink *)(void *)buffer;
    if (!s->failed && size && fwrite(bytes, size, 1, s->to) != 1) s->failed = true;
}

static int write_model(FILE *to, const void *context)
{
    const Onnx__ModelProto *model = context;
    sink s = { { append }, to, false };
    size_t size = onnx__model_proto__get_packed_size(model);
    return onnx__model_proto__pack_to_buffer(model, &s.buffer) == size && !s.failed ? 0 : -1;
}

static int export(graph *g, const st_net *n, const char *path)
{
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets = &set;
    set.has_version = model.has_ir_version = 1;
    set.version = OPERATOR_SET;
    model.ir_version = IR_VERSION;
    model.opset_import = &sets;
    model.n_opset_import = 1;
    model.producer_name = (char *)"stride";
    model.producer_version = (char *)ST_VERSION;
    model.graph = &g->proto;
    for (const st_metadata *note = n->metadata; note; note = note->next)
        if (add_note(g, &model, note)) break;
    if (st_error() || fill_graph(g, n) || st_error()) return st_error_within("%s: ", path);
    size_t size = onnx__model_proto__get_packed_size(&model);
    if (size > INT_MAX) return st_error_set("%s: %zu bytes, ONNX allows at most %d", path, size, INT_MAX);
    return st_file_replace(path, write_model, &model);
}

int st_net_export_onnx(st_net *n, const char *path)
{
    if (st_error()) return -1;
    if (!path) return st_error_set("st_net_export_onnx: the path is NULL");
    if (st_is_null(st_net_parameters(n)))
        return st_error_set("%s: st_net_export_onnx before st_net_build", path);
    graph g = { .proto = ONNX__GRAPH_PROTO__INIT };
    int status = export(&g, n, path);
    graph_free(&g);
    return status;
}

#else

int st_net_export_onnx(st_net *n, const char *path)
{
    (void)n;
    return st_error_set("%s: this library was built without ONNX, for lack of " STRIDE_ONNX_MISSING
                        ": run make deps-onnx and build again",
                        path ? path : "NULL");
}

#endif
