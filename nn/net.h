/* net.h: a network: a sequence of layers, the shape of one image, and the memory to run it on a batch.
 *
 *     st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_conv2d_new(...), st_relu(), ..., st_dense_new(...));
 *     st_net_build(n, 64, seed);
 *     tensor y = st_net_forward(n, x, ST_TRAIN);       // [N, ...] -> [N, classes]
 *     st_net_backward(n, dy, (st_tensor){ 0 });            // adds to st_net_gradients(n)
 *
 * Making a net plans it: shapes that do not fit are found there, and st_net_summary prints what it will
 * take, before anything large is allocated. After st_net_build nothing is allocated while it runs, but a
 * packed copy where the first layer is dense and x a view that BLAS cannot take. A net is used from one thread
 * at a time; two nets may run at once, also where they share their parameters: st_net_share. While an error is latched nothing runs. */
#ifndef STRIDE_NN_NET_H
#define STRIDE_NN_NET_H

#include "layers/layers.h"

ST_API_BEGIN

/* To be read, not written: the functions below keep it. */
typedef struct st_net {
    st_layer *root;            /* the sequence; layer i is root->child[i] */
    st_shape input, output;    /* of one image, without the batch axis */
    ptrdiff_t batch;           /* images it was built for; 0: not built */
    uint64_t seed, step;       /* what dropout's numbers are a function of; st_net_backward counts them */
    st_tensor x, y;            /* the last forward's: x borrowed, y a view of `outputs` */
    bool forgot;               /* and it was a prediction: there is no way back */
    st_tensor outputs;         /* [batch, output...] */
    struct st_metadata *notes; /* see st_metadata */
} st_net;

/* Takes the layers over. NULL, with an error that says which layer, where they do not fit together. */
st_net *st_net_new_of(st_shape input, int count, st_layer *const layers[]);
#define st_net_new(input, ...)                                                                               \
    st_net_new_of(input, ST_COUNT(st_layer *, __VA_ARGS__), ST_LIST(st_layer *, __VA_ARGS__))
void st_net_free(st_net *n); /* NULL is allowed */

/* A table: each layer with its options, output shape, parameters and FLOPs of one image, and what a
 * batch takes. 0, or -1 where the needs overflow or the stream fails. A built net forgets its last forward. */
int st_net_summary(st_net *n, ptrdiff_t batch, FILE *to);

/* Memory for batches of up to `batch` images. Parameters are initialised from the seed the first time
 * and kept when a net is built again. After a failure it must be built again before it runs. */
int st_net_build(st_net *n, ptrdiff_t batch, uint64_t seed);

/* Inference, as PyTorch's eval(); training; inference that no backward pass follows, as under no_grad(): what lies
 * between the layers is not kept. */
typedef enum st_net_mode { ST_EVAL, ST_TRAIN, ST_PREDICT } st_net_mode;

/* y [N, output...] of x [N, input...], N up to the batch built for; any view. y is the net's and holds
 * until the next forward; x must hold until the backward. Null, with an error, for a wrong x. */
st_tensor st_net_forward(st_net *n, st_tensor x, st_net_mode mode);

/* After a forward: adds to the gradients, and counts a step. dy is contiguous, as dx [N, input...], which may be
 * null: not wanted, and not computed. */
int st_net_backward(st_net *n, st_tensor dy, st_tensor dx);

/* The same net for inference by another thread: parameters and states are n's, memory is its own, for batches of up to
 * `batch` images. n, which is built, may run meanwhile, but be trained only while the others rest, and is freed last. Where
 * both are built for as many images they give the same bits. NULL with an error. */
st_net *st_net_share(const st_net *n, ptrdiff_t batch);

/* Inference for any number of images, in slices of the batch built for: y [N, output...]. */
int st_net_predict(st_net *n, st_tensor x, st_tensor y);

/* Of a built net, each as one flat tensor in the order of the layers. */
st_tensor st_net_parameters(const st_net *n);
st_tensor st_net_gradients(const st_net *n);
st_tensor st_net_states(const st_net *n);
void st_net_zero_gradients(st_net *n);

/* Parameters and states by the names that torch.nn.Sequential gives them: "0.weight", "3.bias",
 * "2.0.running_mean". `gradient` is null for a state. */
typedef struct st_net_tensor {
    const char *name;
    st_tensor value, gradient;
} st_net_tensor;
void st_net_visit(st_net *n, void (*visit)(const st_net_tensor *t, void *context), void *context);
st_tensor st_net_find(st_net *n, const char *name); /* null, with an error, where there is none */

/* Notes travel with a saved net: short texts under names, such as how its input was normalised. */
typedef struct st_metadata {
    char *name, *text;
    struct st_metadata *next;
} st_metadata;
int st_net_set_metadata(st_net *n, const char *name,
                        const char *text); /* replaces; copies both; NULL text: removes */
const char *st_net_metadata(const st_net *n, const char *name); /* NULL where there is none */

ST_API_END

#endif
