/* run.h: what the layers of one tree share while they run. */
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
    double grain; /* work that is too little to be shared among them: see layer_work */
    tensor parameters, gradients, states; /* flat; kept when the batch size changes */
    bool borrows;    /* parameters and states are another tree's, and there are no gradients */
    tensor memory;   /* flat: every layer's memory and outputs, one after another */
    bool forgets;    /* no backward pass follows */
    ptrdiff_t block; /* of scratch that each thread has of its own: */
    ptrdiff_t turn;  /* two turns of a chain at its end, each of so many elements */
    tensor scratch;  /* [threads, block] */
    tensor partial;  /* flat: chunks' gradients before they are added in order */
};

void layer_run_free(layer *l); /* where l is the root that owns it */

/* Images a hook of this layer gets at a time, of a batch of n. */
ptrdiff_t layer_chunk(const layer *l, ptrdiff_t n);
bool layer_is_whole(const layer *l); /* gets all of them */

/* Work, in elements gone through; products count for as much as they take. */
double layer_work(const layer *l, ptrdiff_t images);

/* ---- chains ---------------------------------------------------------------------------------------
 *
 * Layers that follow each other, and see chunks of images, form a chain: a chunk goes through all of them before
 * the next one begins, so that what one layer makes is in cache when the next one reads it, and threads meet at
 * the chain's ends only. */

enum { LAYER_CHAIN = 16 }; /* layers in a chain, at most */

/* A layer of a chain and what it maps to what; the last y and the first x are the chain's own. */
typedef struct layer_link {
    layer *l;
    tensor x, y;
} layer_link;

/* Of these planned layers in a row, how many from the first on form a chain: 1, at least. */
int layer_chain(layer *const child[], int count);

/* Asks, in a holder's plan, for the memory that a chain takes. */
int layer_ask_chain(layer *holder, layer *const child[], int count);

void layer_forward_chain(const layer_link link[], int count);
void layer_backward_chain(const layer_link link[], int count, tensor dy, tensor dx);

/* Parameters of this layer alone, and whether each chunk of it sums the gradient of so many of them apart from the
 * others', so that they can run at once. */
ptrdiff_t layer_own_parameters(const layer *l);
bool layer_sums_apart(const layer *l, ptrdiff_t parameters);

#endif
