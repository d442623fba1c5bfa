/* layer.h: the contract between a layer and the code that runs it.
 *
 * A layer maps a batch x [N, ...] to y [N, ...]. Its type is a static const table of four functions:
 *
 *     plan      given x's shape, sets y's shape and requests memory; may refuse
 *     forward   y  = f(x, w)
 *     backward  dx = (dy/dx)ᵀ dy       overwrites dx
 *     gradient  dw += (dy/dw)ᵀ dy      adds to the parameters' gradients
 *
 * Plan may fail, arithmetic may not: wrong shapes and options are found before anything is computed. y, dy
 * and dx are contiguous; x may be any view. Hooks must not write x, dy, or (in backward) y. They must not
 * throw a C++ exception or leave by longjmp, which ends the process or leaves the library in the middle of
 * its work: a hook that fails sets an error (st_error_set), and docs/from-cpp.md shows one that catches.
 *
 * plan requests memory of four kinds. The slots of each kind are numbered from 0, in the order of its
 * requests:
 *
 *     st_layer_parameter   c->param[i], st_grad(c, i)   trained and saved
 *     st_layer_state       c->layer->state[i]           saved, not trained (a running mean)
 *     st_layer_memory      st_memory(c, i)              saved by forward for backward: [N, ...], or [1, ...]
 *                                                       for a type that sees the whole batch
 *     st_layer_scratch     st_scratch(c, i)             workspace of one call; undefined on entry
 *
 * plan may also compute data once (a geometry, a table) and keep it in st_layer_plan_data; hooks read it as
 * c->plan.
 *
 * Images are independent unless the type is ST_WHOLE_BATCH: a batch is cut into chunks by a rule that does
 * not depend on the number of threads, and each call of a hook gets one chunk, possibly in several threads at
 * once. c->images is the number of images in the chunk, c->first the batch index of its first image, and
 * st_memory returns exactly their part. Each chunk's gradient is summed separately and chunks are added in
 * order, so results are bit-identical for any number of threads. A type that writes its state must be
 * ST_WHOLE_BATCH.
 *
 * Order: forward of a chunk, then gradient, then backward, with the same x, y and dy. Chunks are in no order.
 * A hook keeps data for a later one in st_memory; scratch does not last. A recurrent layer, for example,
 * computes the gradients of its steps once, in gradient, and reads them in backward. gradient is not called
 * if all parameters are frozen, backward not if nothing below needs dx. A backward that reads data of
 * gradient must know if gradient ran: forward writes a mark into memory, gradient another one.
 *
 * The default chunk is 8 images, or a 32nd of a batch of more than 256. It suits types whose images share
 * nothing: layers with the same chunk run one after another on it, while it is in the cache. A chunk of 1
 * suits images of a megabyte and more; ST_WHOLE_BATCH suits a product that reads its weights once for all
 * images.
 *
 * A type that holds layers sees the whole batch. Its plan calls st_plan_child for each child; its hooks call
 * st_forward_child, which returns the child's output and keeps it until the backward pass, and
 * st_backward_child. Its backward is called with a null dx where dx is not needed; it must still run the
 * children's backward passes. */
#ifndef STRIDE_LAYERS_LAYER_H
#define STRIDE_LAYERS_LAYER_H

#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

ST_API_BEGIN

enum {
    ST_LAYER_SLOTS = 8,  /* the most slots of each kind */
    ST_WHOLE_BATCH = -1, /* st_layer_type.chunk: each call gets the whole batch */
    ST_LAYER_ANY = -1,   /* st_layer_type.children: any number */
    ST_LAYER_PATH = 256  /* the most bytes of a nested layer's path */
};

typedef struct st_layer st_layer; /* below */

/* One call of a hook: a chunk of a batch, and its memory. */
typedef struct st_call {
    const st_layer *layer;
    const void *options, *plan; /* the layer's options, and its st_layer_plan_data */
    const st_tensor *param;     /* the layer's parameters */
    ptrdiff_t first, images;    /* batch index of the chunk's first image; number of images */
    bool training;              /* false: inference */
    int thread;                 /* private: the thread whose scratch is used */
    ptrdiff_t partial;          /* private: the offset of the chunk's gradients; -1: they go to the layer's */
} st_call;

/* The type of a layer: a static const table. Members left out are NULL or 0. */
typedef struct st_layer_type {
    const char *name;
    size_t options_size;    /* 0: no options */
    const st_field *fields; /* ends with a field without a name; NULL: none */
    ptrdiff_t chunk;        /* images per call; 0: the default; or ST_WHOLE_BATCH */
    int (*plan)(st_layer *l, st_shape x, st_shape *y); /* 0, or -1 with an error */
    void (*forward)(const st_call *c, st_tensor x, st_tensor y);
    void (*backward)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
    void (*gradient)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy); /* NULL: no parameters */
    int children;                     /* number of layers that it holds, or ST_LAYER_ANY */
    const char *const *child_names;   /* ends with NULL; NULL: "0", "1", ... */
    const struct st_pooling *pooling; /* what the hooks of pool.h run; NULL: it is not a pooling */
} st_layer_type;

/* Initial values of a parameter. The first member that is not 0 decides: `uniform` draws from -uniform to
 * uniform; `normal` draws from a normal distribution with that standard deviation and the mean `constant`;
 * otherwise each element is `constant`. All are finite, and `uniform` and `normal` at least 0. */
typedef struct st_init {
    double uniform, normal, constant;
} st_init;

/* A layer. Read-only, except that plan may set flops. */
struct st_layer {
    const st_layer_type *type;
    const void *options; /* with defaults filled in; NULL: the type has none */
    void *plan;          /* st_layer_plan_data; NULL: none */
    st_layer **child;    /* a sequence's layers, a block's branches */
    int children;
    st_shape x, y;      /* shapes of the planned batch */
    double flops;       /* floating-point operations of a forward pass over x: products, averages, sums */
    int params, states; /* numbers of slots; before the layer is built, tensors have shapes only */
    st_tensor param[ST_LAYER_SLOTS], grad[ST_LAYER_SLOTS], state[ST_LAYER_SLOTS];
    const char *param_name[ST_LAYER_SLOTS], *state_name[ST_LAYER_SLOTS];
    struct st_layer_impl *impl; /* private */
};

/* ---- for plan --------------------------------------------------------------------------------- */

/* Each requests the next slot of its kind. 0, or -1 with an error: more than ST_LAYER_SLOTS, an invalid
 * shape, or initial values that cannot be drawn. Names are not copied: use string literals. */
int st_layer_parameter(st_layer *l, const char *name, st_shape s, st_init init);
int st_layer_state(st_layer *l, const char *name, st_shape s, double value);
int st_layer_memory(st_layer *l, st_shape s);
int st_layer_scratch(st_layer *l, st_shape s);

/* Returns `size` zeroed bytes, aligned for any type, for plan to fill in; hooks read them as c->plan. The
 * layer owns them until it is planned again; a second request replaces the first. NULL with an error. */
void *st_layer_plan_data(st_layer *l, size_t size);

/* Plans child i for an input of shape x and reserves memory for its output. -1 with an error that names the
 * child. */
int st_plan_child(st_layer *l, int i, st_shape x, st_shape *y);

/* Sets the error "TYPE: ...". Always returns -1. */
int st_layer_refuse(const st_layer *l, const char *format, ...) ST_PRINTF(2, 3);

/* ---- for hooks -------------------------------------------------------------------------------- */

st_tensor st_memory(const st_call *c, int i);  /* slot i, for the images of this call */
st_tensor st_scratch(const st_call *c, int i); /* slot i */
st_tensor st_grad(const st_call *c, int i);    /* where `gradient` adds parameter i's gradient */

/* The random numbers of this layer in this step. Image i of the call should use the counters from
 * (c->first + i) * (numbers per image) on, so that results do not depend on chunks. */
st_random_key st_call_random(const st_call *c);

/* For a type that sees the whole batch: calls work(i, context) for 0 <= i < count, in any order and possibly
 * in several threads. The result must not depend on either. */
void st_parallel_for(const st_call *c, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context),
                     void *context);

/* For a type that holds layers. st_forward_child runs child i forward and returns its output, which is kept
 * until the backward pass. st_backward_child runs it backward: overwrites dx, which may be null, and adds to
 * its parameters' gradients; x is the input of its forward pass. st_child_output returns the output that was
 * kept. */
st_tensor st_forward_child(const st_call *c, int i, st_tensor x);
void st_backward_child(const st_call *c, int i, st_tensor x, st_tensor dy, st_tensor dx);
st_tensor st_child_output(const st_call *c, int i);

/* ---- making ----------------------------------------------------------------------------------- */

/* A layer of any type. Copies the options, fills in defaults and checks ranges. Takes ownership of the
 * children, also on failure; a child that is NULL, another layer's or built already is an error. NULL on
 * failure. */
st_layer *st_layer_new(const st_layer_type *type, const void *options, int children, st_layer *const child[]);
void st_layer_free(st_layer *l); /* and its children; NULL is allowed */

/* A copy of the layers and their options; not planned, without parameters. (Options of a layer are resolved:
 * st_layer_new would resolve them again, and { 1, 0 } would become { 1, 1 }.) */
st_layer *st_layer_clone(const st_layer *l);

/* Calls visit for every layer of the tree, parents first, with its path ("", "0", "3.body.1"). */
void st_layer_visit(st_layer *root, void (*visit)(st_layer *l, const char *path, void *context),
                    void *context);

/* ---- planning and building a tree -------------------------------------------------------------- */

/* Plans a tree for a batch of shape x: shapes, FLOPs and memory needs. Allocates no tensors. A tree that was
 * built must be built again afterwards, also if planning fails. */
int st_layer_plan(st_layer *l, st_shape x, st_shape *y);

/* The memory that a planned tree needs, in elements. */
typedef struct st_layer_needs {
    ptrdiff_t parameters, state;
    ptrdiff_t memory;  /* activations and saved tensors of the planned batch */
    ptrdiff_t scratch; /* for each thread */
    ptrdiff_t whole;   /* scratch of types that see the whole batch */
    ptrdiff_t partial; /* gradients of chunks, before they are added up */
    ptrdiff_t data;    /* st_layer_plan_data of all layers, as elements */
    ptrdiff_t tables;  /* of algorithms, as elements */
    int threads;       /* the number of threads that would run the tree now */
} st_layer_needs;
int st_layer_measure(const st_layer *root, st_layer_needs *needs);

/* Plans for a batch of shape x and allocates. The first time parameters are initialised from `seed`; they are
 * kept when the tree is built again for another batch size. An x that needs parameters of other shapes is an
 * error. The built tree also runs smaller batches. */
int st_layer_build(st_layer *root, st_shape x, uint64_t seed);

/* All parameters, gradients and states of a built tree, each as one flat tensor. */
st_tensor st_layer_parameters(const st_layer *root);
st_tensor st_layer_gradients(const st_layer *root);
st_tensor st_layer_states(const st_layer *root);

/* ---- running ----------------------------------------------------------------------------------- */

/* Sets training or inference, and the seed and step of random numbers, for the whole tree. */
void st_layer_mode(st_layer *root, bool training, uint64_t seed, uint64_t step);

/* Freezes parameter i of a layer, whose gradient becomes 0, or unfreezes it. Backward passes leave the
 * gradient of a frozen parameter 0, skip the gradient of a layer whose parameters are all frozen, and stop
 * where no layer below has parameters to train, unless dx is wanted. -1 with an error: no such parameter. */
int st_layer_freeze(st_layer *l, int i, bool frozen);

/* True: no backward pass will follow, so activations are not kept. st_layer_mode resets it to false. */
void st_layer_inference_only(st_layer *root, bool inference_only);

/* y = f(x), over the whole batch; y must not overlap x. */
void st_layer_forward(st_layer *l, st_tensor x, st_tensor y);

/* Adds to the gradients and, unless dx is null, overwrites dx. Call it after st_layer_forward with the same x
 * and y, which dx must not overlap, nor dy. */
void st_layer_backward(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);

ST_API_END

#endif
