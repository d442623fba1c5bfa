/* samples.h: every shipped layer as a net of its own, with the options that make a difference in ONNX. */
#ifndef STRIDE_TESTS_ONNX_SAMPLES_H
#define STRIDE_TESTS_ONNX_SAMPLES_H

#include "nn/net.h"

enum { SAMPLE_BATCH = 16 };

/* A layer for images [image...], which the visitor frees. `refusal`: NULL, or what the error says where ONNX
 * has no such thing. */
typedef void sample_visit(const char *name, st_shape image, st_layer *l, const char *refusal, void *context);
void samples_visit(sample_visit *visit, void *context);

/* A net of that layer alone, built, with parameters and running statistics that are no longer what they began
 * as; NULL with an error. Takes the layer over. */
st_net *sample_net(st_shape image, st_layer *l);

/* SAMPLE_BATCH images for it, null with an error: from -1 to 1, or vectors from -7 to 7, where activations
 * bend. */
st_tensor sample_images(st_shape image);

#endif
