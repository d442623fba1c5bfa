/* algorithms.h: the algorithms in this folder. */
#ifndef STRIDE_LAYERS_FAST_ALGORITHMS_H
#define STRIDE_LAYERS_FAST_ALGORITHMS_H

#include "layers/layer_impl.h"
#include "tensor/parallel.h"

/* An algorithm that replaces a type's definition when it is suitable. */
typedef struct layer_algorithm {
    const st_layer_type *type;        /* NULL: any */
    bool (*suits)(const st_layer *l); /* called after the layer's plan */
    /* Replaces the type's requests of scratch and its plan data, and sets the size of tables. `given` is the
     * type's plan data, which is freed afterwards. */
    int (*plan)(st_layer *l, const void *given);
    /* Fills in the tables, whose size depends on shapes, when the layer is built; NULL: there are none. */
    void (*fill)(st_layer *l, void *tables);
    layer_hooks hooks;
} layer_algorithm;

/* All algorithms, the first suitable one is used; ends with NULL. */
extern const layer_algorithm *layer_algorithms[];

/* Those of layers/pooling/, which are tried before; NULL: there are none. */
extern const layer_algorithm *const *layer_pooling_algorithms;

/* Runs a planned layer by the first suitable algorithm instead of its definition. */
int layer_choose_algorithm(st_layer *l);

extern const layer_algorithm conv_winograd, conv_implicit;
extern const layer_algorithm dense_products;
extern const layer_algorithm maxpool_vectors, avgpool_vectors, adaptive_avgpool_vectors;
extern const layer_algorithm maxpool_rows, avgpool_rows, adaptive_avgpool_rows, lppool_rows, upsample_rows,
    pad2d_rows;
extern const layer_algorithm batchnorm_sets, layernorm_sets, rmsnorm_sets, groupnorm_sets;
extern const layer_algorithm sequence_fused;
extern const layer_algorithm pooling_once;
extern const layer_algorithm softmax_vectors, log_softmax_vectors;

/* The functions of resizing, averages and padding by rows, and of maxima. */
bool rows_suit(const st_layer *l);
int rows_plan_for(st_layer *l, const void *given);
void rows_fill(st_layer *l, void *tables);
void rows_forward(const st_call *c, st_tensor x, st_tensor y);
void rows_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
void rows_maxima_forward(const st_call *c, st_tensor x, st_tensor y);
void rows_maxima_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);

/* Properties of types, by which the executor may run several layers as one. */
typedef struct layer_traits {
    const st_layer_type *type;
    /* y may be where x is, and dx where dy is: forward and backward work element by element, and neither
     * backward nor gradient reads x. */
    bool in_place;
    /* Neither backward nor gradient reads y, so that the next layer may overwrite it. */
    bool ignores_y;
    /* y = f(x) element by element, f is monotone, f(0) = 0, and f is constant only where f' is 0. No
     * parameters. */
    bool monotone;
    /* Tests if each y is the maximum of some x, or 0: a monotone layer then gives the same results after this
     * one as before it. NULL: it is not. */
    bool (*takes_maxima)(const st_layer *l);
    /* The forward pass of a type that is trained on the whole batch, for a part of it: in inference, which
     * keeps nothing for a backward pass. y may be x. */
    void (*infer)(const st_call *c, st_tensor x, st_tensor y);
} layer_traits;

void batchnorm_infer(const st_call *c, st_tensor x, st_tensor y);

/* A type that has none keeps its x and y. */
const layer_traits *traits_of(const st_layer *l);

/* Adds dy's sum over each channel to the bias's gradient, if there is a bias. */
void conv_bias_gradient(const st_call *c, st_tensor dy);

/* Tests if a layer that is trained on a whole batch runs by chunks in inference. */
bool layer_infers(const st_layer *l);

/* Tests if a layer's hooks may be called for any images, and do not divide. */
bool layer_takes_pieces(const st_layer *l);

/* A layer with its x and y of a batch. */
typedef struct layer_station {
    const st_layer *l;
    st_tensor x, y;
    bool in_place; /* dx may be where dy is, between layers */
} layer_station;

/* One pass of a batch, or of some of its images, chunk by chunk through layers of the same chunks: the data
 * that the chunks share. */
typedef struct layer_pass {
    const layer_station *at;
    int links, threads;
    ptrdiff_t first;                /* image of the batch */
    ptrdiff_t images, size, chunks; /* in all; in a chunk; the number of chunks */
    st_tensor dy, dx;               /* dx null: it is not needed */
    st_tensor buffers;              /* of dx between layers: two for each thread, [2 threads, elements] */
    bool gradient, backward;        /* the hooks to run */
    ptrdiff_t whole;                /* chunks before those that run one after another, each in all threads */
    bool at_once;                   /* a chunk's gradients are added at once */
    ptrdiff_t partial;              /* parameters whose gradients each chunk sums separately; 0: none; */
    ptrdiff_t gradients;            /* and where they begin among all */
} layer_pass;

/* A pass from that image of the batch on; then its chunks, of so many images. */
layer_pass layer_pass_of(const layer_station *at, int links, ptrdiff_t first);
void layer_pass_cut(layer_pass *p, ptrdiff_t size);

/* How many chunks of that size had better run at the same time; those after them run one after another, each
 * of them divided among the threads. */
ptrdiff_t layer_pass_whole(const layer_pass *p, ptrdiff_t size, bool backward);

void layer_pass_forward(layer_pass *p);
void layer_pass_backward(layer_pass *p);

/* Tests if the output of a call, y or dx, had better go past the caches (tensor/fast/stream.h): the layer
 * runs alone, so that nothing reads a chunk while it is in cache, and its tensors are too large to stay. */
bool layer_streams(const st_call *c);

/* Work in elements read and written; multiply-adds count by the time that they take. */
double layer_work(const st_layer *l, ptrdiff_t images);
double layer_products(const st_layer *l, ptrdiff_t images); /* those alone */

/* The threads that share so much work, or a call outside of parallel work: one if there is little. */
int layer_threads_for(const st_layer_run *run, double work);
int layer_call_threads(const st_call *c);

/* st_parallel_for, on at most so many threads, whose numbers the work is given: those of their scratch.
 * Inside of parallel work it runs in the caller alone. A hook with `divides` (layer_impl.h) divides a call by
 * it. */
void layer_each(const st_call *c, int threads, ptrdiff_t count, parallel_work *work, void *context);

/* The division of a call along one of several axes: how much there is of it, and in what units; the parts. */
typedef struct layer_division {
    int axis, threads;
    ptrdiff_t all, unit, parts;
    double time; /* of the longest part, where 1 is the time of all; at first, more */
} layer_division;

/* A division before an axis is chosen. */
layer_division layer_undivided(const st_call *c);

/* Chooses an axis if its parts take less time; each part does again what takes `again` of the whole. */
void layer_try_axis(layer_division *d, int axis, ptrdiff_t all, ptrdiff_t unit, double again);

/* Returns the beginning of part i, and its length in `count`. */
ptrdiff_t layer_part(const layer_division *d, ptrdiff_t i, ptrdiff_t *count);

/* Types whose function is one of an element: of few operations, and with an exponential. gelu has two
 * functions, and prelu runs leaky_relu's rows. */
/* clang-format off */
#define EACH_SHORT_ACTIVATION(DO)                                                                            \
    DO(relu) DO(relu6) DO(leaky_relu) DO(hardtanh) DO(softsign)
#define EACH_EXPONENTIAL_ACTIVATION(DO)                                                                      \
    DO(elu) DO(selu) DO(silu) DO(mish) DO(sigmoid) DO(tanh) DO(softplus)
#define EACH_ACTIVATION(DO)                                                                                  \
    EACH_SHORT_ACTIVATION(DO) EACH_EXPONENTIAL_ACTIVATION(DO) DO(hardsigmoid) DO(hardswish)
/* clang-format on */
#define DECLARE_VECTORS(NAME) extern const layer_algorithm NAME##_vectors;
EACH_ACTIVATION(DECLARE_VECTORS)
extern const layer_algorithm gelu_none_vectors, gelu_tanh_vectors, prelu_vectors;

#endif
