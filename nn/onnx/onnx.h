/* onnx.h: a net as a file of ONNX, for the programs that run such files. */
#ifndef STRIDE_NN_ONNX_ONNX_H
#define STRIDE_NN_ONNX_ONNX_H

#include "nn/net.h"

ST_API_BEGIN

/* Writes a built net as it is in inference: no dropout, running statistics. The file is ONNX's IR 8 with operator
 * set 17; it takes "input" [N, ...] to "output" [N, ...] for any N. Nodes and tensors are called as the layers are:
 * node "3.body.0" has the weight "3.body.0.weight"; where a layer takes more than one node the last has its name,
 * and "3.body.0.Sigmoid" comes before. Notes become the model's metadata.
 *
 * Numbers are float32 in either precision: onnxruntime has no convolution and no average pooling of doubles.
 * libstride-double rounds, and refuses what float32 cannot hold.
 *
 * Refused, by the layer's path and type, are: pool, whose function is C; a layer of your own; of maxpool, windows that
 * see nothing but padding; of conv_transpose2d, an output_padding beyond the stride and the padding. So are a net of
 * 2 GiB or more, which protobuf cannot hold, and everything where the library was built without protobuf-c or ONNX's
 * description of its files: the error then says what was missing. A file of that name is replaced when the new one is
 * whole, or left as it was. 0, or -1 with an error; -1 too where an error is latched already. */
int st_net_export_onnx(st_net *n, const char *path);

ST_API_END

#endif
