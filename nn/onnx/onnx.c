/* onnx.c: a net's graph, the model around it, and the file. */
#include "nn/onnx/onnx.h"
#include <stride.h>
#include "nn/files/replace.h"
#include "nn/onnx/graph.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>

enum { IR_VERSION = 8, OPERATOR_SET = 17 };

/* Fields, as onnx.proto numbers them. */
enum { MODEL_IR_VERSION = 1, MODEL_PRODUCER, MODEL_PRODUCER_VERSION, MODEL_GRAPH = 7, MODEL_OPSET };
enum { MODEL_METADATA = 14, GRAPH_NAME = 2, OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE };

static void fill_graph(graph *g, const st_net *n)
{
    const graph_place root = { g, n->root, "" };
    message_text(&g->bytes, GRAPH_NAME, "net");
    graph_value(g, GRAPH_INPUT, "input", n->input);
    graph_value(g, GRAPH_OUTPUT, "output", n->output);
    const char *y = graph_layer(root, "input");
    if (!g->output) graph_step(root, "Identity", y); /* no layer computes anything in inference */
    graph_finish(g, "output");                       /* no node reads the last one */
}

static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);
    bool valid = string != NULL;
    json_decref(string);
    return valid;
}

static void fill_model(message *model, const st_net *n)
{
    message part = { 0 };
    message_int(model, MODEL_IR_VERSION, IR_VERSION);
    message_text(model, MODEL_PRODUCER, "stride");
    message_text(model, MODEL_PRODUCER_VERSION, ST_VERSION);
    message_int(&part, OPSET_VERSION, OPERATOR_SET);
    message_part(model, MODEL_OPSET, &part);
    for (const st_metadata *note = n->notes; note; note = note->next) {
        if (!is_utf8(note->name) || !is_utf8(note->text))
            st_error_set("metadata %s: no memory, or it is not UTF-8", note->name);
        message_text(&part, ENTRY_KEY, note->name);
        message_text(&part, ENTRY_VALUE, note->text);
        message_part(model, MODEL_METADATA, &part);
    }
}

/* The graph is the model's last field. */
typedef struct file {
    message model, graph;
} file;

static int write_file(FILE *to, const void *context)
{
    const file *f = context;
    return fwrite(f->model.at, f->model.size, 1, to) == 1 && fwrite(f->graph.at, f->graph.size, 1, to) == 1
               ? 0
               : -1;
}

static int export(graph *g, message *model, const st_net *n, const char *path)
{
    fill_model(model, n);
    fill_graph(g, n);
    message_open(model, MODEL_GRAPH, g->bytes.size);
    if (st_error()) return st_error_within("%s: ", path);
    const size_t size = model->size + g->bytes.size;
    if (size > INT_MAX) return st_error_set("%s: %zu bytes, ONNX allows at most %d", path, size, INT_MAX);
    return st_file_replace(path, write_file, &(file){ *model, g->bytes });
}

int st_net_export_onnx(st_net *n, const char *path)
{
    if (st_error()) return -1;
    if (!path) return st_error_set("st_net_export_onnx: the path is NULL");
    if (st_is_null(st_net_parameters(n)))
        return st_error_set("%s: st_net_export_onnx before st_net_build", path);
    graph g = { .output = NULL };
    message model = { 0 };
    int status = export(&g, &model, n, path);
    graph_free(&g);
    free(model.at);
    return status;
}
