/* net.h: a network: a sequence of layers, the shape of one image, and the memory to run it on a batch.
 *
 *     net *n = net_new(SHAPE(1, 28, 28), layer_conv2d(...), layer_relu(), ..., layer_dense(...));
 *     net_build(n, 64, seed);
 *     tensor y = net_forward(n, x, NET_TRAIN);       // [N, ...] -> [N, classes]
 *     net_backward(n, dy, (tensor){ 0 });            // adds to net_gradients(n)
 *
 * Making a net plans it: shapes that do not fit are found there, and net_summary prints what it will
 * take, before anything large is allocated. After net_build nothing is allocated while it runs, but a
 * packed copy where the first layer is dense and x a view that BLAS cannot take. A net is used from one thread
 * at a time; two nets may run at once, also where they share their parameters: net_share. While an error is latched nothing runs. */
#ifndef STRIDE_NN_NET_H
#define STRIDE_NN_NET_H

#include "layers/layers.h"

#pragma GCC visibility push(default)

/* To be read, not written: the functions below keep it. */
typedef struct net {
    layer *root;            /* the sequence; layer i is root->child[i] */
    shape input, output;    /* of one image, without the batch axis */
    ptrdiff_t batch;        /* images it was built for; 0: not built */
    uint64_t seed, step;    /* what dropout's numbers are a function of; net_backward counts them */
    tensor x, y;            /* the last forward's: x borrowed, y a view of `outputs` */
    bool forgot;            /* and it was a prediction: there is no way back */
    tensor outputs;         /* [batch, output...] */
    struct net_note *notes; /* see net_note */
} net;

/* Takes the layers over. NULL, with an error that says which layer, where they do not fit together. */
net *net_new_of(shape input, int count, layer *const layers[]);
#define net_new(input, ...)                                                                                  \
    net_new_of(input, TENSOR_COUNT(layer *, __VA_ARGS__), (layer *const[]){ __VA_ARGS__ })
void net_free(net *n); /* NULL is allowed */

/* A table: each layer with its options, output shape, parameters and FLOPs of one image, and what a
 * batch takes. 0, or -1 where the needs overflow or the stream fails. A built net forgets its last forward.
 * A relu before a max pooling has the shape that it runs on: after it. */
int net_summary(net *n, ptrdiff_t batch, FILE *to);

/* Memory for batches of up to `batch` images. Parameters are initialised from the seed the first time
 * and kept when a net is built again. After a failure it must be built again before it runs. */
int net_build(net *n, ptrdiff_t batch, uint64_t seed);

/* Inference, as PyTorch's eval(); training; inference that no backward pass follows, as under no_grad(): what lies
 * between the layers is not kept. */
typedef enum net_mode { NET_INFER, NET_TRAIN, NET_PREDICT } net_mode;

/* y [N, output...] of x [N, input...], N up to the batch built for; any view. y is the net's and holds
 * until the next forward; x must hold until the backward. Null, with an error, for a wrong x. */
tensor net_forward(net *n, tensor x, net_mode mode);

/* After a forward: adds to the gradients, and counts a step. dy is contiguous, as dx [N, input...], which may be
 * null: not wanted, and not computed. */
int net_backward(net *n, tensor dy, tensor dx);

/* The same net for inference by another thread: parameters and states are n's, memory is its own, for batches of up to
 * `batch` images. n, which is built, may run meanwhile, but be trained only while the others rest, and is freed last. Where
 * both are built for as many images they give the same bits. NULL with an error. */
net *net_share(const net *n, ptrdiff_t batch);

/* Inference for any number of images, in slices of the batch built for: y [N, output...]. */
int net_predict(net *n, tensor x, tensor y);

/* Of a built net, each as one flat tensor in the order of the layers. */
tensor net_parameters(const net *n);
tensor net_gradients(const net *n);
tensor net_states(const net *n);
void net_zero_gradients(net *n);

/* Parameters and states by the names that torch.nn.Sequential gives them: "0.weight", "3.bias",
 * "2.0.running_mean". `gradient` is null for a state. */
typedef struct net_tensor {
    const char *name;
    tensor value, gradient;
} net_tensor;
void net_visit(net *n, void (*visit)(const net_tensor *t, void *context), void *context);
tensor net_find(net *n, const char *name); /* null, with an error, where there is none */

/* Notes travel with a saved net: short texts under names, such as how its input was normalised. */
typedef struct net_note {
    char *name, *text;
    struct net_note *next;
} net_note;
int net_set_note(net *n, const char *name, const char *text); /* replaces; copies both; NULL text: removes */
const char *net_note_text(const net *n, const char *name);    /* NULL where there is none */

#pragma GCC visibility pop

#endif
