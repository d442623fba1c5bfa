/* layer_impl.h: what layers keep besides the contract, and what the layers of one tree share while they run. */
#ifndef STRIDE_LAYERS_LAYER_IMPL_H
#define STRIDE_LAYERS_LAYER_IMPL_H

#include "layers/layer.h"

/* The hooks that run: the type's own, or those of an algorithm that computes the same. */
typedef struct layer_hooks {
    void (*forward)(const st_call *c, st_tensor x, st_tensor y);
    void (*backward)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
    void (*gradient)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy);
    void (*both)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy,
                 st_tensor dx); /* gradient and backward; may be NULL */
} layer_hooks;

/* Properties of the library's own types, which the code that runs them makes use of. */
typedef struct st_layer_traits {
    bool in_place; /* y may be where x is, and dx where dy is: forward and backward go element by element, and
                       neither backward nor gradient reads x */
    bool ignores_y; /* neither backward nor gradient reads y: a layer in place may overwrite it */
    bool monotone;  /* y = f(x) element by element with f monotone, f(0) = 0, constant only where f' is 0; no
                       parameters */
    bool (*takes_maxima)(
        const st_layer *l); /* each y is the maximum of some x, or 0: a monotone layer before this
                                             one may as well run after it; NULL: no */
    void (*both)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy,
                 st_tensor dx); /* see layer_hooks */
} layer_traits;

/* An algorithm that replaces a type's definition where it suits. */
typedef struct layer_algorithm {
    const st_layer_type *type;
    bool (*suits)(const st_layer *l); /* of a layer whose plan has run */
    int (*plan)(
        st_layer *l); /* requests scratch, that of the type's plan being dropped; may replace its data by
                                      data that begin with the same members */
    layer_hooks hooks;
} layer_algorithm;

/* All algorithms, ended by NULL; of several that suit the first runs. A program without layers/fast has none. */
extern const layer_algorithm *const layer_algorithms[];

enum { LAYER_DEPTH = 32 }; /* layers within each other below the outermost, at most */

typedef struct st_layer_run st_layer_run;

typedef struct st_layer_impl layer_impl;
struct st_layer_impl {
    st_layer_run *run; /* what the tree's layers share; NULL until it is built */
    int number, depth; /* the layer's place in its tree, depth first; layers within each other below it */
    bool has_parent;   /* another layer's child: it is not to be given to a second one */
    int machine;       /* an index of tables stamped for each machine (tensor/machine.h) */
    layer_hooks hooks; /* chosen by plan */
    int memories, scratches;
    st_tensor memory[ST_LAYER_SLOTS], scratch[ST_LAYER_SLOTS];
    st_init param_init[ST_LAYER_SLOTS], state_init[ST_LAYER_SLOTS];
    st_shape shown; /* y as the net is written */
    st_tensor output;          /* y of the last forward pass, kept for the parent; rank 0: not kept */
    ptrdiff_t ping_pong;       /* elements of dx on its way through a fused run of this layer's children; */
    ptrdiff_t chunk_gradients; /* parameters of such a run, times its chunks */
    const void *watch;         /* nn/watch */
};

struct st_layer_run {
    st_layer_run *next;   /* while a tree is built: other runs whose layers it takes over */
    const st_layer *root; /* the layer that owns this */
    bool ready;           /* planned and allocated for the batch it was last built for */
    bool training;
    bool inference_only; /* no backward pass follows: what lies between layers need not be kept */
    uint64_t seed, step;
    int threads;
    double grain;                            /* work below it runs on one thread: see layer_work */
    st_tensor parameters, gradients, states; /* flat; kept when the batch size changes */
    bool shared;         /* parameters and states are another tree's, and there are no gradients */
    st_tensor memory;    /* flat: every layer's memory and outputs, one after another */
    ptrdiff_t block;     /* scratch of each thread, in elements, at the end of which there are */
    ptrdiff_t ping_pong; /* two buffers of a fused run's dx */
    st_tensor scratch;   /* [threads, block] */
    st_tensor partial;   /* flat: chunks' gradients before they are added in order */
};

void layer_run_free(st_layer *l); /* where l is the root that owns it */

/* Images a hook of this layer gets at a time, of a batch of n. */
ptrdiff_t layer_chunk(const st_layer *l, ptrdiff_t n);
bool layer_is_whole(const st_layer *l); /* gets all of them */

/* Work, in elements read and written; products count for as much as they take. */
double layer_work(const st_layer *l, ptrdiff_t images);

/* ---- fused runs -----------------------------------------------------------------------------------
 *
 * Consecutive layers that see chunks of images form a fused run: a chunk goes through all of them before the next
 * one begins, so that one layer's output is in cache when the next one reads it, and threads meet at the run's ends
 * only. */

enum { LAYER_FUSED = 16 }; /* layers in a fused run, at most */

/* A layer of a run and what it maps to what; the first x and the last y are the run's own. */
typedef struct layer_link {
    const st_layer *l;
    st_tensor x, y;
} layer_link;

/* Of these consecutive planned layers, how many from the first on form a fused run: 1, at least. */
int layer_fuse(st_layer *const child[], int count);

/* Requests, in a parent's plan, the memory of a fused run. */
int layer_plan_fused(st_layer *parent, st_layer *const child[], int count);

void layer_forward_fused(const layer_link link[], int count);
void layer_backward_fused(const layer_link link[], int count, st_tensor dy, st_tensor dx);

/* Parameters of this layer alone, and whether each chunk's gradient of so many is summed separately, so that chunks
 * can run at once. */
ptrdiff_t layer_own_parameters(const st_layer *l);
bool layer_sums_chunks(const st_layer *l, ptrdiff_t parameters);

#endif
