/* run.h: what the layers of one tree share while they run; private to layers/. */
#ifndef STRIDE_LAYERS_RUN_H
#define STRIDE_LAYERS_RUN_H

#include "layers/layer.h"

struct layer_run {
    layer_run *next;   /* while a tree is built: other runs whose layers it takes over */
    const layer *root; /* the layer that owns this */
    bool ready;        /* planned and allocated for the batch it was last built for */
    bool training;
    uint64_t seed, step;
    int threads;
    tensor parameters, gradients, states; /* flat; kept when the batch size changes */
    tensor memory;                        /* flat: every layer's memory and outputs, one after another */
    ptrdiff_t block;                      /* of scratch that each thread has of its own */
    tensor scratch;                       /* [threads, the greediest layer's need] */
    tensor partial;                       /* flat: chunks' gradients before they are added in order */
};

void layer_run_free(layer *l); /* where l is the root that owns it */

/* Images a hook of this layer gets at a time, of a batch of n. */
ptrdiff_t layer_chunk(const layer *l, ptrdiff_t n);

/* Parameters of this layer alone, and whether each chunk sums its gradient apart from the others', so that they
 * can run at once. */
ptrdiff_t layer_own_parameters(const layer *l);
bool layer_gradient_apart(const layer *l);

#endif
