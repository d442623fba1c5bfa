/* onnx.h: export to ONNX. */
#ifndef STRIDE_NN_ONNX_ONNX_H
#define STRIDE_NN_ONNX_ONNX_H

#include "nn/net.h"

ST_API_BEGIN

/* Writes a built net for inference: no dropout, running statistics. The file is ONNX IR 8 with operator set
 * 17, and maps "input" [N, ...] to "output" [N, ...] for any N. Nodes and tensors are named after layers:
 * node "3.body.0" has the weight "3.body.0.weight"; if a layer needs several nodes the last one has its name,
 * and the others names such as "3.body.0.Sigmoid". Metadata is copied, but what it says of normalised
 * inputs and targets is left to the program that runs the net.
 *
 * Numbers are float32 in either precision: onnxruntime has no convolution and no average pooling of doubles.
 * libstride-double rounds; a number that overflows float32 is an error.
 *
 * Not supported, with an error that names the layer: poolings of layers/pooling/ other than adaptive_maxpool
 * and blur_pool; poolings and layers of your own; maxpool with windows of ignored padding only;
 * conv_transpose2d with an output_padding beyond the stride and the padding. A net of 2 GiB or more is an
 * error, too, as protobuf cannot hold it, and so is every export if the library was built without protobuf-c
 * or ONNX's description of its files. The file is replaced atomically. 0, or -1 with an error, also if one is
 * set already. */
int st_net_export_onnx(st_net *n, const char *path);

ST_API_END

#endif
