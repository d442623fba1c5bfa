/* graph.h: a graph of ONNX's nodes as it grows, layer by layer.
 *
 * A value is known by its name. Where there is no memory an error is latched and NULL comes back, which flows through:
 * a node of a NULL value is NULL, an attribute of a NULL node is nothing. A number that float32 cannot hold is an error
 * too. So a whole graph is built, and the error asked for once. */
#ifndef STRIDE_NN_ONNX_GRAPH_H
#define STRIDE_NN_ONNX_GRAPH_H

#include "layers/layer.h"

#include <onnx.pb-c.h>

typedef Onnx__NodeProto graph_node;

typedef struct graph {
    Onnx__GraphProto proto;
    struct graph_block *blocks; /* all its memory */
} graph;
void graph_free(graph *g);

/* Zeroed memory and text that last as long as the graph. */
void *graph_take(graph *g, size_t count, size_t size);
char *graph_print(graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* `list` of `count` pointers, with room for one more. */
void *graph_grown(graph *g, void *list, size_t count);

/* The input "input" or output "output": float32 [N, image...]. */
Onnx__ValueInfoProto *graph_value(graph *g, const char *name, st_shape image);

/* ---- for the functions that add a layer's nodes ---------------------------------------------------- */

/* The layer whose nodes are added, and where it stands: "3.body.0". */
typedef struct graph_place {
    graph *graph;
    const st_layer *l;
    const char *path;
} graph_place;

/* A node and its inputs: graph_step on the way to the layer's result, called "3.body.0.Sigmoid"; graph_end makes
 * the result, and is called as the layer. An input "" is left out. */
#define graph_step(place, op, ...)                                                                           \
    graph_add(place, op, true, ST_COUNT(const char *, __VA_ARGS__), (const char *[]){ __VA_ARGS__ })
#define graph_end(place, op, ...)                                                                            \
    graph_add(place, op, false, ST_COUNT(const char *, __VA_ARGS__), (const char *[]){ __VA_ARGS__ })
graph_node *graph_add(graph_place at, const char *op, bool step, int count, const char *const inputs[]);
const char *graph_output(const graph_node *n);

/* Attributes; a pair is height and width, pads are both beginnings and then both ends. */
void graph_int(graph_place at, graph_node *n, const char *name, ptrdiff_t value);
void graph_ints(graph_place at, graph_node *n, const char *name, int count, const ptrdiff_t values[]);
void graph_pair(graph_place at, graph_node *n, const char *name, const int pair[2]);
void graph_pads(graph_place at, graph_node *n, const ptrdiff_t before[2], const ptrdiff_t after[2]);
void graph_real(graph_place at, graph_node *n, const char *name, double value);
void graph_mode(graph_place at, graph_node *n, const char *name, const char *value);

/* Constants, called "3.body.0.weight": a tensor's elements, the same number everywhere, or alone, and sizes. */
const char *graph_tensor(graph_place at, const char *name, st_tensor value);
const char *graph_filled(graph_place at, const char *name, st_shape s, double value);
const char *graph_number(graph_place at, const char *name, double value);
const char *graph_sizes(graph_place at, const char *name, int count, const ptrdiff_t values[]);

/* Latches "layer 3.body.0: pool: …". Always NULL. */
const char *graph_refuse(graph_place at, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- the layers (layers.c) ---------------------------------------------------------------------- */

/* Adds the nodes of a layer that is given x; its y. A layer without a counterpart is an error. */
const char *graph_layer(graph_place at, const char *x);

/* And of those in pools.c. */
const char *graph_pad2d(graph_place at, const char *x);
const char *graph_maxpool(graph_place at, const char *x);
const char *graph_avgpool(graph_place at, const char *x);
const char *graph_lppool(graph_place at, const char *x);
const char *graph_adaptive_avgpool(graph_place at, const char *x);

#endif
