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
 * Names and fields are those of layers/layers.h, by each type's own table; conv, conv_transpose, pad and linear
 * stand for conv2d, conv_transpose2d, pad2d and dense. Values without a name belong to a type's first field and
 * to those after it that are required: conv2d's out_channels and kernel, maxpool's kernel, dropout's p. A single
 * integer stands for both of a pair. padding=same is what keeps the size, where the stride is 1 and that is
 * exact. `sequence` holds a chain, `residual` a body and perhaps a projection, `concat` its branches; several
 * layers of a branch are a sequence. A flatten is put before a dense that is given images. */
#ifndef STRIDE_EXAMPLES_STRIDE_NETWORK_H
#define STRIDE_EXAMPLES_STRIDE_NETWORK_H

#include "nn/net.h"

/* A net of the text, not yet built. `input` is the shape of one image, or of rank 0 where the text says it.
 * NULL with an error: "line 3, column 7: 'covn' is not a layer; did you mean conv?". */
st_net *network_parse(const char *text, st_shape input);

/* The same of what somebody gave on a command line: the path of a file (whose name errors begin with), or a
 * text. */
st_net *network_read(const char *given, st_shape input);

/* The text that network_read parses, to be freed; NULL with an error. */
char *network_text(const char *given);

/* Checks names, options and values before the input's shape is known. 0, or -1 with an error. */
int network_check(const char *given);

/* "1x28x28" as a shape. 0, or -1 with an error. */
int network_size(const char *text, st_shape *to);

/* The net in this language, a line a layer. 0, or -1 with an error where it cannot be said, as with a pool
 * function or a type of one's own. */
int network_write(const st_net *n, FILE *to);

/* A line for each layer there is: its name, its values, its options with their defaults. */
void network_layers(FILE *to);

#endif
