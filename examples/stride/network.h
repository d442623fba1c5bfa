/* network.h: a network as a short text, and back.
 *
 *     input 1x28x28                      # of one image: channels, height, width
 *     conv 32 3x3 padding=same, relu
 *     2x(conv 64 3x3 no_bias, batchnorm, relu)
 *     residual(conv 64 3x3 padding=1, relu)
 *     maxpool 2
 *     concat(conv 16 1x1 | conv 16 5x5 padding=2)
 *     dense 10
 *
 * The grammar; words are separated by spaces, and # begins a comment that ends with its line:
 *
 *     network    = [ "input" size separator ] chain
 *     chain      = [ separator ] item { separator item } [ separator ]
 *     separator  = "," or the end of a line, then any number of ends of lines
 *     item       = count "x" "(" chain ")"            the same chain, count times
 *                | name { value | option }            a layer
 *                | name "(" chain { "|" chain } ")"   a layer that holds others
 *     option     = field "=" value | flag
 *     value      = integer | number | integer [ "x" integer ] | word
 *
 * Names and fields are those of layers/layers.h, by each type's own table; conv, conv_transpose, pad and
 * linear stand for conv2d, conv_transpose2d, pad2d and dense, global_maxpool and global_avgpool for these
 * poolings of the whole image. Values without a name belong to a type's first field and to required fields
 * right after it: conv2d's out_channels and kernel, maxpool's kernel, dropout's p. A single integer stands
 * for both of a pair. padding=same keeps the size; it needs a stride of 1. `sequence` holds a chain,
 * `residual` a body and an optional projection, `concat` its branches, `max_unpool` a pooling and what comes
 * after it; several layers of a branch are a sequence. A flatten is inserted before a dense whose input is an
 * image. */
#ifndef STRIDE_EXAMPLES_STRIDE_NETWORK_H
#define STRIDE_EXAMPLES_STRIDE_NETWORK_H

#include "nn/net.h"

/* A net from its text, not yet built. `input` is the shape of one image; of rank 0: the text has it.
 * NULL with an error: "line 3, column 7: 'covn' is not a layer; …". */
st_net *network_parse(const char *text, st_shape input);

/* The same from a command-line argument: the path of a file, with which errors begin, or the text itself. */
st_net *network_read(const char *given, st_shape input);

/* The text that network_read parses, to be freed; NULL with an error. */
char *network_text(const char *given);

/* Checks names, options and values before the input's shape is known. 0, or -1 with an error. */
int network_check(const char *given);

/* "1x28x28" as a shape. 0, or -1 with an error. */
int network_size(const char *text, st_shape *to);

/* Writes the net as text, one layer per line. 0, or -1 with an error: it has a layer type of the
 * user's. */
int network_write(const st_net *n, FILE *to);

/* Prints a line for each type of layer: its name, values, and options with their defaults. */
void network_layers(FILE *to);

#endif
