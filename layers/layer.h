/* layer.h: the contract between a layer and the code that runs it.
 *
 * A layer maps a batch x [N, ...] to y [N, ...]. Its type is a static const table of four functions:
 *
 *     plan      given x's shape, sets y's shape and requests memory; may refuse
 *     forward   y  = f(x, w)
 *     backward  dx = (dy/dx)ᵀ dy       overwrites dx
 *     gradient  dw += (dy/dw)ᵀ dy      adds to the parameters' gradients
 *
 * Plan may fail, arithmetic may not: wrong shapes and options are found before anything is computed. y, dy and dx
 * are contiguous; x may be any view. Hooks must not write x, dy, or (in backward) y.
 *
 * plan requests memory of four lifetimes. Slots are numbered in the order of the requests:
 *
 *     st_layer_parameter   c->param[i], st_grad(c, i)   trained and saved
 *     st_layer_state       c->layer->state[i]           saved, not trained (a running mean)
 *     st_layer_memory      st_memory(c, i)              from a forward pass to its backward pass: [N, ...], or [1, ...]
 *                                                    for a type that sees the whole batch
 *     st_layer_scratch     st_scratch(c, i)             within one call of a hook; undefined on entry
 *
 * What plan computes once (a geometry, a table) is kept in st_layer_plan_data and read as c->plan.
 *
 * Images are independent unless the type says otherwise: the batch is cut into chunks by a rule that does not depend
 * on the number of threads, and a hook gets one chunk at a time, possibly from several threads at once. x.shape.n[0]
 * is then the number of images at hand, c->first the batch index of the first one, and st_memory holds exactly
 * theirs. Each chunk's gradient is summed separately and chunks are added in order, so results do not depend on the
 * number of threads. A type that writes its state must be ST_WHOLE_BATCH.
 *
 * A type that holds layers sees the whole batch. Its plan calls st_plan_child for each child; its hooks call
 * st_forward_child, which returns the child's output and keeps it until the backward pass, and st_backward_child.
 * Its backward is called with a null dx where dx is not wanted: the children's gradients still are. */
#ifndef STRIDE_LAYERS_LAYER_H
#define STRIDE_LAYERS_LAYER_H

#include "layers/options.h"
#include "tensor/error.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

ST_API_BEGIN

enum {
    ST_LAYER_SLOTS = 8,  /* of each kind of memory, at most */
    ST_WHOLE_BATCH = -1, /* as st_layer_type.chunk: hooks see the whole batch at once */
    ST_LAYER_ANY = -1,   /* as st_layer_type.children: any number */
    ST_LAYER_PATH = 256  /* bytes of the longest path of a nested layer */
};

typedef struct st_layer st_layer; /* below */

/* One call of a hook: the images at hand of a batch, and their memory. */
typedef struct st_call {
    const st_layer *layer;
    const void *options, *plan; /* the layer's options, and the data that its plan made */
    const st_tensor *param;     /* the layer's parameters */
    ptrdiff_t first, images;    /* batch index of the first image at hand; the number of images at hand */
    bool training;              /* training, as against inference */
    int thread;                 /* the library's own: whose scratch it is, */
    st_tensor partial;          /* the elements that gradients are added to */
} st_call;

/* The type of a layer. Members that are left out are NULL or 0. */
typedef struct st_layer_type {
    const char *name;
    size_t options_size;    /* 0: no options */
    const st_field *fields; /* ended by a field without a name; NULL: none */
    ptrdiff_t chunk;        /* images per call; 0: the default; ST_WHOLE_BATCH: all */
    int (*plan)(st_layer *l, st_shape x, st_shape *y); /* 0, or -1 with an error latched */
    void (*forward)(const st_call *c, st_tensor x, st_tensor y);
    void (*backward)(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
    void (*gradient)(const st_call *c, st_tensor x, st_tensor y,
                     st_tensor dy);       /* NULL: no parameters of its own */
    int children;                         /* a type that holds layers: how many, or ST_LAYER_ANY; 0: none */
    const char *const *child_names;       /* ended by NULL; NULL: "0", "1", … */
    const struct st_layer_traits *traits; /* the library's own types only */
} st_layer_type;

/* Initial values of a parameter: uniform in ±uniform, or else normal about `constant` with the standard deviation
 * `normal`, or else `constant`. */
typedef struct st_init {
    double uniform, normal, constant;
} st_init;

/* A layer. Read only outside of its plan, which may set flops. */
struct st_layer {
    const st_layer_type *type;
    const void *options; /* a copy with the defaults filled in; NULL where the type has none */
    void *plan;          /* see st_layer_plan_data; NULL: none */
    st_layer **child;    /* a sequence's layers, a block's branches */
    int children;
    st_shape x, y; /* as planned */
    double flops;  /* floating-point operations of products, averages and sums in a forward pass over x */
    int params, states; /* slots in use; tensors have shapes only until the layer is built */
    st_tensor param[ST_LAYER_SLOTS], grad[ST_LAYER_SLOTS], state[ST_LAYER_SLOTS];
    const char *param_name[ST_LAYER_SLOTS], *state_name[ST_LAYER_SLOTS];
    struct st_layer_impl *impl; /* the library's own */
};

/* ---- for plan --------------------------------------------------------------------------------- */

/* Each requests the next slot of its kind; -1 with an error beyond ST_LAYER_SLOTS, or for an impossible shape. Names are
 * borrowed: string literals. */
int st_layer_parameter(st_layer *l, const char *name, st_shape s, st_init init);
int st_layer_state(st_layer *l, const char *name, st_shape s, double value);
int st_layer_memory(st_layer *l, st_shape s);
int st_layer_scratch(st_layer *l, st_shape s);

/* `size` bytes of zeros, aligned for any type, which the layer owns until it is planned again; a second request
 * replaces the first. plan fills them in, hooks read them as c->plan. NULL with an error. */
void *st_layer_plan_data(st_layer *l, size_t size);

/* Plans child i for a batch x and reserves memory for its output. -1 with an error that names the child. */
int st_plan_child(st_layer *l, int i, st_shape x, st_shape *y);

/* Latches "conv2d: …" with the type's name in front. Always -1. */
int st_layer_refuse(const st_layer *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- for hooks -------------------------------------------------------------------------------- */

st_tensor st_memory(const st_call *c, int i);  /* slot i of the images at hand */
st_tensor st_scratch(const st_call *c, int i); /* slot i, of this call alone */
st_tensor st_grad(const st_call *c, int i);    /* where gradient adds parameter i's gradient */

/* Random numbers of this layer in this step. Draw number (c->first + image) * (numbers an image) + … of it. */
st_random_key st_call_random(const st_call *c);

/* For a type that sees the whole batch: work(i, context) for i below count, in any order and possibly by several
 * threads at once. The result must not depend on either. */
void st_parallel_for(const st_call *c, ptrdiff_t count, void (*work)(ptrdiff_t i, void *context),
                     void *context);

/* For a type that holds layers. y of child i for x, kept until the backward pass; dx of child i, which may be null,
 * and its parameters' gradients; and the output that is kept. */
st_tensor st_forward_child(const st_call *c, int i, st_tensor x);
void st_backward_child(const st_call *c, int i, st_tensor x, st_tensor dy, st_tensor dx);
st_tensor st_child_output(const st_call *c, int i);

/* ---- making ----------------------------------------------------------------------------------- */

/* A layer of any type: copies the options, fills in defaults, refuses values out of range. Takes the
 * children over, and frees them where it fails; a NULL child is a failure already latched. NULL on
 * failure. */
st_layer *st_layer_new(const st_layer_type *type, const void *options, int children, st_layer *const child[]);
void st_layer_free(st_layer *l); /* and all it holds; NULL is allowed */

/* The same layers with the same options, not yet planned; nothing of their memory, and so no parameters. */
st_layer *st_layer_clone(const st_layer *l);

/* "conv2d(out_channels=32, kernel=3x3)": the type and the options that differ from their defaults. As
 * snprintf: at most `size` bytes with the end; returns the whole length. */
size_t st_layer_describe(const st_layer *l, char *to, size_t size);

/* y of a planned layer as the net is written. l->y is the shape that it runs on, which may be smaller: a relu before a
 * max pooling runs after it. */
st_shape st_layer_output_shape(const st_layer *l);

/* Every layer of the tree, parents first, with its path ("", "0", "3.body.1"). */
void st_layer_visit(st_layer *root, void (*visit)(st_layer *l, const char *path, void *context),
                    void *context);

/* ---- planning and building a tree -------------------------------------------------------------- */

/* Shapes, FLOPs and needs for a batch x, nothing allocated. A parent's plan calls it for its children. A tree that
 * was built must be built again afterwards. */
int st_layer_plan(st_layer *l, st_shape x, st_shape *y);

/* What a planned tree will take, in elements. */
typedef struct st_layer_needs {
    ptrdiff_t parameters, state;
    ptrdiff_t memory;    /* kept from forward to backward, for the planned batch */
    ptrdiff_t scratch;   /* of each thread, */
    ptrdiff_t ping_pong; /* two of these with it: dx on its way from layer to layer */
    ptrdiff_t whole;   /* the most scratch of a type that sees the whole batch: once, whatever the threads */
    ptrdiff_t partial; /* gradients of chunks, before they are added */
    int threads;       /* that would run it now */
} st_layer_needs;
int st_layer_measure(const st_layer *root, st_layer_needs *needs);

/* Plans for a batch x and allocates. Parameters are made and initialised (from `seed`) the first time
 * and kept when the tree is built again for another batch size, or as a part of a larger tree; a shape that
 * needs other parameters is refused. Batches smaller than planned are welcome afterwards. */
int st_layer_build(st_layer *root, st_shape x, uint64_t seed);

/* The same for a clone of a built tree, whose parameters and states it then has in common with it: for inference by
 * another thread. It has no gradients. The other must not be freed before it, nor written to while it runs. */
int st_layer_build_shared(st_layer *clone, st_shape x, const st_layer *of);

/* All parameters of a built tree, their gradients and states, each as one flat tensor. */
st_tensor st_layer_parameters(const st_layer *root);
st_tensor st_layer_gradients(const st_layer *root);
st_tensor st_layer_states(const st_layer *root);
void st_layer_reset(st_layer *root, uint64_t seed); /* parameters and states as first made */

/* ---- running ----------------------------------------------------------------------------------- */

/* Training or inference, and the step that random numbers belong to; for the whole tree. */
void st_layer_mode(st_layer *root, bool training, uint64_t seed, uint64_t step);

/* Whether no backward pass follows, until st_layer_mode says otherwise: then less memory is gone through. */
void st_layer_forget(st_layer *root, bool forget);

/* Fills all scratch of a built tree with NaN: a hook may rely on nothing there, which a check can so find. */
void st_layer_spoil_scratch(st_layer *root);

void st_layer_forward(st_layer *l, st_tensor x, st_tensor y); /* y = f(x), over the whole batch */

/* Adds to the gradients and, unless dx is null, overwrites dx. After a forward with the same x and y. */
void st_layer_backward(st_layer *l, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);

ST_API_END

#endif
