/* net.h: a network: a sequence of layers, the shape of one image, and the memory to run it on a batch.
 *
 *     st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(...), st_relu(), ..., st_dense(...));
 *     st_net_build(n, 64, seed);
 *     st_tensor y = st_net_forward(n, x, ST_TRAIN);    // [N, ...] -> [N, classes]
 *     st_net_backward(n, dy, (st_tensor){ 0 });        // adds to st_net_gradients(n)
 *
 * st_net_new plans the net: shapes that do not fit together are found there, and st_net_summary prints the
 * memory that it needs, before anything large is allocated. After st_net_build a net runs without allocating,
 * except for a copy of x where the first layer is dense and BLAS does not support the view. Use a net from
 * one thread at a time; different nets may run at the same time, also nets that share parameters
 * (nn/share/share.h). While an error is set nothing runs. */
#ifndef STRIDE_NN_NET_H
#define STRIDE_NN_NET_H

#include "layers/layers.h"

#include <stdio.h>

ST_API_BEGIN

/* Read-only: the functions below update it. */
typedef struct st_net {
    st_layer *root;               /* the sequence; layer i is root->child[i] */
    st_shape input, output;       /* of one image, without the batch axis */
    ptrdiff_t batch;              /* images it was built for; 0: not built */
    uint64_t seed, step;          /* seed of dropout; steps, counted by st_net_backward */
    st_tensor x, y;               /* of the last forward pass: x not copied, y a view of `outputs` */
    bool inference_only;          /* the last forward pass was ST_PREDICT: no backward pass */
    st_tensor outputs;            /* [batch, output...] */
    struct st_metadata *metadata; /* see st_metadata */
} st_net;

/* Takes ownership of the layers. NULL with an error that names the layer where they do not fit together. */
st_net *st_net_new_of(st_shape input, int count, st_layer *const layers[]);
#define st_net_new(input, ...)                                                                               \
    st_net_new_of(input, ST_COUNT(st_layer *, __VA_ARGS__), ST_LIST(st_layer *, __VA_ARGS__))
void st_net_free(st_net *n); /* NULL is allowed */

/* Allocates memory for batches of up to `batch` images. The first time parameters are initialised from the
 * seed; they are kept when a net is built again. After a failure a net must be built again before it runs. */
int st_net_build(st_net *n, ptrdiff_t batch, uint64_t seed);

/* Inference that a backward pass may follow, as PyTorch's eval(); training, as train(); inference only, as
 * eval() under no_grad(): activations are not kept. */
typedef enum st_net_mode { ST_EVAL, ST_TRAIN, ST_PREDICT } st_net_mode;

/* Returns y [N, output...] for x [N, input...], any view; N is at most the batch that the net is built for. y
 * belongs to the net and is valid until the next forward pass; x must not change before the backward pass.
 * Null with an error for an x of another shape, an x that is the net's own y, or another mode. */
st_tensor st_net_forward(st_net *n, st_tensor x, st_net_mode mode);

/* After a forward pass: adds to the gradients, and counts a step. dy and dx [N, input...] are contiguous. A
 * null dx is not computed. dx must not overlap dy, x or y, nor dy y. */
int st_net_backward(st_net *n, st_tensor dy, st_tensor dx);

/* Inference for any number of images, a batch at a time: y [N, output...]. */
int st_net_predict(st_net *n, st_tensor x, st_tensor y);

/* All parameters, gradients and states of a built net, each as one flat tensor, in the order of the
 * layers. */
st_tensor st_net_parameters(const st_net *n);
st_tensor st_net_gradients(const st_net *n);
st_tensor st_net_states(const st_net *n);
void st_net_zero_gradients(st_net *n);

/* Parameters and states, by their names in torch.nn.Sequential's state dict: "0.weight", "3.bias",
 * "2.0.running_mean". */
typedef struct st_net_tensor {
    const char *name;
    st_tensor value, gradient; /* gradient: null for a state */
    st_layer *layer;           /* that has it, and */
    int number;                /* its index among the layer's parameters, or states */
} st_net_tensor;
void st_net_visit(st_net *n, void (*visit)(const st_net_tensor *t, void *context), void *context);
st_tensor st_net_find(st_net *n, const char *name); /* null with an error: no such name */

/* Metadata, in one block each: short texts by name that are saved with the net, such as the normalisation of
 * its input; nn/files/metadata.h sets them. */
typedef struct st_metadata {
    char *name, *text;
    struct st_metadata *next;
} st_metadata;

ST_API_END

#endif
