/* layer_impl.h: the private part of a layer, and the run that the layers of one tree share. */
#ifndef STRIDE_LAYERS_LAYER_IMPL_H
#define STRIDE_LAYERS_LAYER_IMPL_H

#include "layers/layer.h"

/* The hooks in use: the type's, or those of an algorithm that computes the same. */
typedef struct layer_hooks {
    void (*forward)(const st_call *c, st_tensor x, st_tensor y);
    void (*backward)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
    void (*gradient)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy);
    /* gradient and backward in one pass; NULL: there is none */
    void (*both)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
    /* once before the chunks of a batch, in one thread, forward or backward to dx; NULL: nothing */
    void (*prepare)(const st_layer *l, bool backward);
    /* the hooks divide the work of a call among threads (layer_each of layers/fast/) */
    bool divides;
    /* the hooks see the whole batch, although the type has chunks */
    bool whole;
    /* in inference: the fewest images in a call, which does some work once for all of them; 0: any number */
    int least;
} layer_hooks;

typedef struct st_layer_run st_layer_run; /* below */

/* Another way to run a batch of a layer, to the same bits. */
typedef struct layer_executor {
    int (*choose)(st_layer *l);        /* after the layer's plan: other hooks, and their memory */
    int (*prepare)(st_layer_run *run); /* when a tree is built: -1 with an error */
    void (*forward)(st_layer *l, st_tensor x, st_tensor y);
    void (*backward)(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
    void (*each)(const st_call *c, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context),
                 void *context); /* st_parallel_for */
} layer_executor;

/* That of every engine but the reference engine; NULL without layers/fast/ (tensor/tables.h). */
extern const layer_executor *layer_fast_executor;

enum {
    LAYER_DEPTH = 32,      /* the deepest nesting of layers below the outermost */
    LAYER_MOST_CHUNKS = 32 /* the most chunks of the default size */
};

typedef struct st_layer_impl layer_impl;
struct st_layer_impl {
    st_layer_run *run; /* shared by the tree's layers; NULL until it is built */
    int number, depth; /* the layer's number in its tree, depth first; the depth of layers below it */
    bool has_parent;   /* another layer's child, which cannot be given to a second one */
    unsigned frozen;   /* bit i: parameter i */
    int isa;           /* the index of the instruction set, for algorithms */
    layer_hooks hooks; /* of the type, or of the algorithm in use */
    void (*fill)(st_layer *l, void *tables); /* of the algorithm in use */
    size_t data, tables;                     /* bytes of plan data; of tables, for `fill` */
    int memories, scratches;
    st_tensor memory[ST_LAYER_SLOTS], scratch[ST_LAYER_SLOTS];
    st_init param_init[ST_LAYER_SLOTS], state_init[ST_LAYER_SLOTS];
    st_tensor output;  /* y of the last forward pass, kept for the parent; rank 0: not kept */
    ptrdiff_t partial; /* elements of chunks' gradients that the hooks need besides the layer's; 0: none */
    const void *watch; /* nn/callbacks/watch.c */
};

struct st_layer_run {
    const st_layer *root; /* the layer that owns this */
    bool ready;           /* planned and allocated for the batch it was last built for */
    bool training;
    bool inference_only; /* no backward pass follows: activations need not be kept */
    uint64_t seed, step;
    const layer_executor *executor; /* NULL: run.c's loops over chunks */
    int threads;
    double least_work, cached;               /* for the executor: less runs on one thread; is in cache */
    bool shared_out;                         /* for the executor: chunks run at the same time, undivided */
    bool streams;                            /* for the executor: outputs go past the caches */
    st_tensor parameters, gradients, states; /* flat; kept when the batch size changes */
    bool shared;                             /* parameters and states belong to another tree; no gradients */
    st_tensor memory;                        /* flat: memory and outputs of all layers */
    st_tensor tables;                        /* flat: tables of all layers, which are not st_reals */
    ptrdiff_t block;                         /* elements of each thread's scratch */
    st_tensor scratch;                       /* [threads, block] */
    st_tensor partial;                       /* flat: chunks' gradients before they are added in order */
};

/* NULL: the tree is not built. */
static inline st_layer_run *layer_run_of(const st_layer *root)
{
    return root && root->impl ? root->impl->run : NULL;
}

/* Tests if st_layer_new made the layer, or that of a hook's call; false with the error "who: the layer is
 * NULL". */
bool layer_given(const st_layer *l, const char *who);
bool layer_call_given(const st_call *c, const char *who);

/* The option of that name as a number; 0: there is none. */
double layer_option(const st_layer *l, const char *name);

int layer_count(const st_layer *root); /* of the tree, with its root; of NULL, 0 */

/* The path of child i of the layer at `path`. Returns its whole length, as snprintf. */
int layer_child_path(char to[ST_LAYER_PATH], const st_layer *l, const char *path, int i);

int layer_threads(void); /* that would run a planned tree now */

/* -1 with an error if a field is not in options of that size. */
int options_reach(const char *who, const st_field *fields, size_t size);

/* The elements that a built layer allocates for these needs, its parameters' gradients included; not x and
 * y. */
double layer_needed(const st_layer_needs *needs);

/* Builds a tree that has no run yet. If `run` has parameters and states the tree uses them, otherwise it
 * initialises its own. Frees `run` on failure. */
int layer_build_first(st_layer *root, st_shape x, uint64_t seed, st_layer_run *run);

/* Frees the run of a tree if l is its root. */
void layer_run_free(st_layer *l);

/* ---- running, for algorithms that run several layers as one ---------------------------------------- */

bool layer_has_gradient(const st_layer *l); /* a parameter of this layer is trained */
bool layer_trains(const st_layer *l);       /* a parameter of it or of a layer that it holds is */

/* The number of elements in this layer's own parameters. */
ptrdiff_t layer_own_parameters(const st_layer *l);

/* Tests if the layer's hooks see the whole batch, because of its type or because it holds layers. */
bool layer_is_whole(const st_layer *l);

/* The chunk rule, which depends on the batch and the type alone. A layer sums the gradients of each chunk
 * separately, so that chunks can run in parallel, unless it has too many parameters. */
ptrdiff_t layer_chunk(const st_layer *l, ptrdiff_t n);       /* images per call, for a batch of n */
ptrdiff_t layer_most_chunks(const st_layer *l, ptrdiff_t n); /* of a batch of at most n */
bool layer_sums_chunks(const st_layer *l, ptrdiff_t parameters);

/* A call of the layer's hooks on a chunk. */
st_call layer_call(const st_layer *l, ptrdiff_t first, ptrdiff_t images, int thread);

/* After `gradient`: sets the gradients of frozen parameters to 0. */
void layer_clear_frozen(const st_call *c);

/* After a hook: an error that it has set begins with the layer and the hook. */
void layer_blame(const st_layer *l, bool failed_before, const char *hook);

#endif
