/* graph.h: builds a graph of ONNX nodes, layer by layer.
 *
 * Values are names, which last as long as the graph. Errors (no memory, a number that overflows float32) are
 * latched: a graph is built to its end, and the error is checked once. */
#ifndef STRIDE_NN_ONNX_GRAPH_H
#define STRIDE_NN_ONNX_GRAPH_H

#include "layers/window.h"

#include <onnx.pb-c.h>

typedef struct graph {
    Onnx__GraphProto proto;
    struct graph_block *blocks; /* all its memory */
} graph;
void graph_free(graph *g);

/* Zeroed memory that lasts as long as the graph; NULL with an error. */
void *graph_take(graph *g, size_t count, size_t size);

/* `list` of `count` pointers, with room for one more; NULL with an error. */
void *graph_grown(graph *g, void *list, size_t count);

/* The input "input" or output "output": float32 [N, image...]; NULL with an error. */
Onnx__ValueInfoProto *graph_value(graph *g, const char *name, st_shape image);

/* ---- for the functions that add a layer's nodes ---------------------------------------------------- */

/* The layer whose nodes are added, and its path, "3.body.0". */
typedef struct graph_place {
    graph *graph;
    const st_layer *l;
    const char *path;
} graph_place;

/* A text that lasts as long as the graph; "" with an error. */
const char *graph_print(graph *g, const char *format, ...) ST_PRINTF(2, 3);

/* Adds a node with these inputs, and returns its output; "" is an omitted input. graph_end adds the layer's
 * last node, named as the layer; graph_step adds the nodes before it, with names such as
 * "3.body.0.Sigmoid". */
#define graph_step(place, op, ...)                                                                           \
    graph_add(place, op, true, ST_COUNT(const char *, __VA_ARGS__), (const char *[]){ __VA_ARGS__ })
#define graph_end(place, op, ...)                                                                            \
    graph_add(place, op, false, ST_COUNT(const char *, __VA_ARGS__), (const char *[]){ __VA_ARGS__ })
const char *graph_add(graph_place at, const char *op, bool step, int count, const char *const inputs[]);

/* Attributes of the last node, whose output they return. A pair is height, width. */
const char *graph_int(graph_place at, const char *name, ptrdiff_t value);
const char *graph_ints(graph_place at, const char *name, int count, const ptrdiff_t values[]);
const char *graph_pair(graph_place at, const char *name, const int pair[2]);
const char *graph_windows(graph_place at, const window *w); /* kernel, stride and padding */
const char *graph_real(graph_place at, const char *name, double value);
const char *graph_mode(graph_place at, const char *name, const char *value);

/* Constants with names such as "3.body.0.weight": a tensor, a filled tensor, a scalar, a list of integers. */
const char *graph_tensor(graph_place at, const char *name, st_tensor value);
const char *graph_filled(graph_place at, const char *name, st_shape s, double value);
const char *graph_number(graph_place at, const char *name, double value);
const char *graph_sizes(graph_place at, const char *name, int count, const ptrdiff_t values[]);

/* Latches "layer 3.body.0: pool: …". Returns "". */
const char *graph_refuse(graph_place at, const char *format, ...) ST_PRINTF(2, 3);

/* ---- the layers (layers.c) ---------------------------------------------------------------------- */

/* Adds the nodes of a layer with input x; returns its output. A layer that ONNX does not have is an error. */
const char *graph_layer(graph_place at, const char *x);

/* The layers in pools.c. */
const char *graph_pad2d(graph_place at, const char *x);
const char *graph_maxpool(graph_place at, const char *x);
const char *graph_avgpool(graph_place at, const char *x);
const char *graph_lppool(graph_place at, const char *x);
const char *graph_adaptive_avgpool(graph_place at, const char *x);
const char *graph_adaptive_maxpool(graph_place at, const char *x);
const char *graph_separable(graph_place at, const char *x);

#endif
