/* layer.h: what a layer is. Everything a layer of your own needs is in this header.
 *
 * A layer maps a batch x [N, ...] to y [N, ...]. Its type is one static const table of functions:
 *
 *     plan      given x's shape, says y's shape and asks for memory; may refuse
 *     forward   y  = f(x, w)
 *     backward  dx = (dy/dx)ᵀ dy       overwrites dx
 *     gradient  dw += (dy/dw)ᵀ dy      adds to l->grad
 *
 * Plan may fail, arithmetic may not: wrong shapes and options are found before anything is computed.
 * y, dy and dx are contiguous; x may be any view. Hooks must not write x, y (in backward) or dy.
 *
 * Four lifetimes of memory are asked for in plan, and owned by shared code:
 *
 *     layer_parameter   l->param[i], l->grad[i]   trained and saved
 *     layer_state       l->state[i]               saved, not trained (a running mean)
 *     layer_memory      l->memory[i]              from a forward to its backward: [N, ...], or
 *                                                 [1, ...] for a type that sees the whole batch
 *     layer_scratch     l->scratch[i]             inside one call; holds anything on entry
 *
 * Slots are numbered in the order in which plan asks.
 *
 * Images are independent unless a type says otherwise: shared code cuts the batch into chunks, by a rule
 * that does not know the number of threads, and gives a hook one chunk at a time, perhaps from several threads
 * at once; never more than `chunk` images where a type names a number. Inside a hook x.shape.n[0] is the number
 * of images at hand, l->memory[i] holds exactly theirs, l->scratch[i] is the thread's own, and l->first is the
 * first image's place in the batch. Each chunk's gradient is summed on its own and the chunks are added in
 * order, so that results do not depend on the number of threads. l->state is one for all of them: a type that
 * writes it must be LAYER_WHOLE. A hook is handed a view of the layer, made for the call: what it writes to *l
 * itself is lost.
 *
 * A type that holds layers (sequence.c, residual.c) sees the whole batch. Its plan calls layer_plan for each
 * child and, for what it wants kept until the backward pass, sets child->output = (tensor){ .shape = y of the
 * child }; its hooks call layer_forward and layer_backward on the children, with outputs narrowed to the images
 * at hand, and its backward is called with a null dx where nobody wants one, for the children's gradients. */
#ifndef STRIDE_LAYERS_LAYER_H
#define STRIDE_LAYERS_LAYER_H

#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

#pragma GCC visibility push(default)

enum {
    LAYER_SLOTS = 8,  /* of each kind of memory, at most */
    LAYER_WHOLE = -1, /* as layer_type.chunk: hooks see the whole batch at once */
    LAYER_ANY = -1,   /* as layer_type.children: any number */
    LAYER_PATH = 256  /* bytes of the longest path of a nested layer */
};

typedef struct layer layer;         /* below */
typedef struct layer_run layer_run; /* the library's own */

/* What layers of one kind have in common: see above. What is left out is NULL, 0 or false. */
typedef struct layer_type {
    const char *name;
    size_t options_size;                      /* 0: no options */
    const layer_field *fields;                /* ended by a field without a name; NULL: none */
    ptrdiff_t chunk;                          /* images per call; 0: the default; LAYER_WHOLE: all */
    int (*plan)(layer *l, shape x, shape *y); /* 0, or -1 with an error latched */
    void (*forward)(layer *l, tensor x, tensor y);
    void (*backward)(layer *l, tensor x, tensor y, tensor dy, tensor dx);
    void (*gradient)(layer *l, tensor x, tensor y, tensor dy); /* NULL: no parameters of its own */
    int children;                   /* a type that holds layers: how many, or LAYER_ANY; 0: none */
    const char *const *child_names; /* what they are called, ended by NULL; NULL: "0", "1", … */
    bool in_place; /* y may be where x is, and dx where dy is: forward and backward go element by element, and
                       neither backward nor gradient looks at x */
    bool
        rises; /* no parameters; each y is f(x) of one x, f(0) = 0, f never falls, flat only where its slope is 0 */
    bool (*selects)(
        const layer *l); /* whether each y is the greatest of some x, or 0: what rises may as well come
                                        after it; NULL: no */
    bool ignores_y;      /* backward and gradient do not look at y: what comes after may overwrite it */
} layer_type;

/* How a parameter begins: uniform in ±uniform, or else normal with that deviation about the constant, or else
 * constant. */
typedef struct layer_init {
    double uniform, normal, constant;
} layer_init;

/* One layer, with its options, its shapes and what it asked for. */
struct layer {
    const layer_type *type;
    const void *options; /* a copy, defaults filled in; NULL where the type has none */
    layer **child;       /* a sequence's layers, a block's branches */
    int children;

    shape x, y;   /* as planned */
    double flops; /* set by plan: operations of one forward pass over x in products, averages and sums */
    int params, states, memories, scratches; /* slots in use; until built they have shapes only */
    tensor param[LAYER_SLOTS], grad[LAYER_SLOTS], state[LAYER_SLOTS];
    tensor memory[LAYER_SLOTS], scratch[LAYER_SLOTS];
    ptrdiff_t turn, together; /* of a holder's chains (run.h): elements of dx on the way, parameters */
    tensor output; /* where a parent keeps this child's y until the backward pass; rank 0: nowhere */
    const char *param_name[LAYER_SLOTS], *state_name[LAYER_SLOTS];
    layer_init param_init[LAYER_SLOTS], state_init[LAYER_SLOTS];

    const struct kernel
        *kernel; /* what fast paths are made of (layers/fast/kernel.h); NULL: products are BLAS's */

    ptrdiff_t first; /* in a hook: the batch index of the first image at hand */
    bool graded;     /* in backward: gradient has just run, with the same x, y and dy */
    bool paired;     /* in gradient: backward runs next, with the same; and in that */
    bool held;       /* another layer's child: it is not to be given to a second one */
    int number;      /* the layer's place in its tree, depth first */
    layer_run *run;  /* what the tree's layers share while they run (run.c) */
};

/* ---- for a type's plan ------------------------------------------------------------------------ */

/* Each takes the next slot of its kind; -1 with an error beyond LAYER_SLOTS, or for an impossible shape. Names
 * are borrowed: string literals. */
int layer_parameter(layer *l, const char *name, shape s, layer_init init);
int layer_state(layer *l, const char *name, shape s, double value);
int layer_memory(layer *l, shape s);
int layer_scratch(layer *l, shape s);
int layer_table(layer *l, ptrdiff_t count); /* scratch for so many offsets: layer_offsets */

/* Latches "conv2d: …" with the type's name in front. Always -1. */
int layer_refuse(const layer *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- for hooks -------------------------------------------------------------------------------- */

bool layer_training(const layer *l);     /* training, as against inference */
random_key layer_random(const layer *l); /* this layer's own random numbers in this step; draw number
                                              (l->first + image) * (numbers an image) + … of it */

/* Slot i of scratch, asked for by layer_table. */
ptrdiff_t *layer_offsets(const layer *l, int i);

/* For a type that sees the whole batch: work(i, context) for i below count, in any order and perhaps in several
 * threads at once. What it computes must not depend on either. */
void layer_split(const layer *l, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context), void *context);

/* ---- making ----------------------------------------------------------------------------------- */

/* A layer of any type: copies the options, fills in defaults, refuses values out of range. Takes the
 * children over, and frees them where it fails; a NULL child is a failure already latched. NULL on
 * failure. */
layer *layer_new(const layer_type *type, const void *options, int children, layer *const child[]);
void layer_free(layer *l); /* and all it holds; NULL is allowed */

/* The same layers with the same options, not yet planned; nothing of their memory, and so no parameters. */
layer *layer_clone(const layer *l);

/* "conv2d(out_channels=32, kernel=3x3)": the type and the options that differ from their defaults. As
 * snprintf: at most `size` bytes with the end; returns the whole length. */
size_t layer_describe(const layer *l, char *to, size_t size);

/* Every layer of the tree, parents first, with its path ("", "0", "3.body.1"). */
void layer_visit(layer *root, void (*visit)(layer *l, const char *path, void *context), void *context);

/* ---- planning and building a tree -------------------------------------------------------------- */

/* Shapes, FLOPs and needs for a batch x, nothing allocated. A parent's plan calls it for its children. A tree that
 * was built must be built again afterwards. */
int layer_plan(layer *l, shape x, shape *y);

/* What a planned tree will take, in elements. */
typedef struct layer_needs {
    ptrdiff_t parameters, state;
    ptrdiff_t memory;  /* kept from forward to backward, for the planned batch */
    ptrdiff_t scratch; /* of each thread, */
    ptrdiff_t turn;    /* two of these with it: dx on its way from layer to layer */
    ptrdiff_t whole; /* scratch of the greediest type that sees the whole batch: once, whatever the threads */
    ptrdiff_t partial; /* gradients of chunks, before they are added */
    int threads;       /* that would run it now */
} layer_needs;
int layer_measure(const layer *root, layer_needs *needs);

/* Plans for a batch x and allocates. Parameters are made and initialised (from `seed`) the first time
 * and kept when the tree is built again for another batch size, or as a part of a larger tree; a shape that
 * needs other parameters is refused. Batches smaller than planned are welcome afterwards. */
int layer_build(layer *root, shape x, uint64_t seed);

/* The same for a clone of a built tree, whose parameters and states it then has in common with it: for inference by
 * another thread. It has no gradients. The other must not be freed before it, nor written to while it runs. */
int layer_build_shared(layer *clone, shape x, const layer *of);

/* All parameters of a built tree, their gradients and states, each as one flat tensor. */
tensor layer_parameters(const layer *root);
tensor layer_gradients(const layer *root);
tensor layer_states(const layer *root);
void layer_reset(layer *root, uint64_t seed); /* parameters and states as first made */

/* ---- running ----------------------------------------------------------------------------------- */

/* Training or inference, and the step that random numbers belong to; for the whole tree. */
void layer_mode(layer *root, bool training, uint64_t seed, uint64_t step);

/* Whether no backward pass follows, until layer_mode says otherwise: then less memory is gone through. */
void layer_forget(layer *root, bool forget);

/* Fills all scratch of a built tree with NaN: a hook may rely on nothing there, which a check can so find. */
void layer_spoil_scratch(layer *root);

void layer_forward(layer *l, tensor x, tensor y); /* y = f(x), over the whole batch */

/* Adds to the gradients and, unless dx is null, overwrites dx. After a forward with the same x and y. */
void layer_backward(layer *l, tensor x, tensor y, tensor dy, tensor dx);

#pragma GCC visibility pop

#endif
