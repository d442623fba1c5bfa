/* dense.c: y = x Wᵀ + b, and its two adjoints, each in pieces that threads share. */
#include "layers/layers.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "layers/fast/kernel.h"

#include <math.h>

enum { WEIGHT, BIAS };                             /* parameters */
enum { INPUT, TURNED, RESULT, ROW, STEP, OFFSET }; /* scratch */

enum {
    SLAB = 64,    /* images whose features are turned round together */
    PIECE = 48,   /* outputs, or rows of weights, of a piece of work, at most */
    LOW = 12,     /* and at least */
    STRIP = 256,  /* inputs of a piece of the way back, about */
    NARROW = 64,  /* of which there are a multiple */
    DEPTH = 1024, /* inputs that a slab of stays in cache */
};

/* Whether products are the kernel's; else they are BLAS's. */
static bool fast(const layer *l)
{
    return l->kernel && l->x.n[1] >= l->kernel->lanes;
}

static int plan(layer *l, shape x, shape *y)
{
    const dense *o = l->options;
    if (x.rank != 2)
        return layer_refuse(l, "the input is %s, expected [N, features]; a flatten before it makes that",
                            shape_text(x).text);
    layer_init init = { .uniform = 1 / sqrt((double)x.n[1]) };
    if (layer_parameter(l, "weight", SHAPE(o->out_features, x.n[1]), init)) return -1;
    if (!o->no_bias && layer_parameter(l, "bias", SHAPE(o->out_features), init)) return -1;
    *y = SHAPE(x.n[0], o->out_features);
    l->flops = 2 * (double)x.n[0] * (double)x.n[1] * o->out_features;
    if (!fast(l)) return 0;
    ptrdiff_t slabs = parts(x.n[0], SLAB), table = largest(largest(x.n[0], x.n[1]), o->out_features);
    if (layer_scratch(l, x) || layer_scratch(l, SHAPE(slabs, x.n[1], SLAB))) return -1;
    if (layer_scratch(l, SHAPE(slabs, o->out_features, SLAB))) return -1;
    for (int i = ROW; i <= OFFSET; i++)
        if (layer_table(l, table)) return -1;
    return 0;
}

/* What the pieces of a pass share. */
typedef struct job {
    const layer *l;
    tensor x, y; /* or dy and dx, or x and dy */
} job;

static void product(const layer *l, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, const real *a,
                    const real *b, real *c, ptrdiff_t pitch, bool add)
{
    kernel_product(l->kernel, rows, columns, depth, a, layer_offsets(l, ROW), layer_offsets(l, STEP), b,
                   layer_offsets(l, OFFSET), c, pitch, add);
}

/* The number of a piece, of so many of `size`, where it begins and how large it is. */
static ptrdiff_t piece(ptrdiff_t i, ptrdiff_t size, ptrdiff_t whole, ptrdiff_t *count)
{
    ptrdiff_t first = i * size;
    *count = whole - first < size ? whole - first : size;
    return first;
}

/* Outputs of a piece: an even number of pieces, all but the last alike, so that threads get as much of them. */
static ptrdiff_t piece_size(ptrdiff_t outputs)
{
    return largest(LOW, parts(outputs, 2 * parts(outputs, 2 * PIECE)));
}

/* Inputs of a strip, likewise. */
static ptrdiff_t strip_size(const layer *l)
{
    ptrdiff_t in = l->x.n[1];
    return largest(2 * NARROW, in / (2 * parts(in, 2 * STRIP)) / NARROW * NARROW);
}

/* The last one takes what would be too little for one more. */
static ptrdiff_t strips(const layer *l)
{
    return largest(1, l->x.n[1] / strip_size(l));
}

static ptrdiff_t strip_width(const layer *l, ptrdiff_t i)
{
    return i + 1 < strips(l) ? strip_size(l) : l->x.n[1] - i * strip_size(l);
}

/* ---- forward: yᵀ = W xᵀ, so that neither needs to be packed ------------------------------------------- */

/* to[n][o] = from[o][n], o < outputs, n < images, by squares as long as there are whole ones. */
static void turn_back(const kernel *k, ptrdiff_t outputs, ptrdiff_t images, const real *from, real *to,
                      ptrdiff_t pitch)
{
    ptrdiff_t whole = images / k->lanes * k->lanes, o = 0;
    for (; o + k->lanes <= outputs; o += k->lanes)
        for (ptrdiff_t n = 0; n < whole; n += k->lanes)
            k->turn(from + o * SLAB + n, SLAB, to + n * pitch + o, pitch);
    for (ptrdiff_t n = 0; n < images; n++)
        for (ptrdiff_t rest = n < whole ? o : 0; rest < outputs; rest++)
            to[n * pitch + rest] = from[rest * SLAB + n];
}

/* A slab of images of some outputs: RESULT [slab, out, SLAB] = b + W TURNED [slab, in, SLAB]. */
static void forward_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const layer *l = j->l;
    const ptrdiff_t in = j->x.shape.n[1], out = j->y.shape.n[1], size = piece_size(out),
                    blocks = parts(out, size);
    ptrdiff_t images, outputs, slab = i / blocks;
    ptrdiff_t first_image = piece(slab, SLAB, j->x.shape.n[0], &images);
    ptrdiff_t first = piece(i % blocks, size, out, &outputs);
    real *result = tensor_data(l->scratch[RESULT]) + (slab * out + first) * SLAB;
    const real *weight = tensor_data(l->param[WEIGHT]) + first * in;
    const real *turned = tensor_data(l->scratch[TURNED]) + slab * in * SLAB;
    for (ptrdiff_t o = 0; o < outputs; o++) {
        real bias = l->params > BIAS ? tensor_data(l->param[BIAS])[first + o] : 0;
        for (ptrdiff_t n = 0; n < SLAB; n++) result[o * SLAB + n] = bias;
    }
    for (ptrdiff_t k = 0; k < in; k += DEPTH)
        product(l, outputs, kernel_padded(l->kernel, images), in - k < DEPTH ? in - k : DEPTH, weight + k,
                turned + k * SLAB, result, SLAB, true);
    turn_back(l->kernel, outputs, images, result, tensor_data(j->y) + first_image * out + first, out);
}

/* TURNED [slab, in, SLAB], some inputs of a slab of images. */
static void turn_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const ptrdiff_t in = j->x.shape.n[1], blocks = strips(j->l), strip = i % blocks,
                    first = strip * strip_size(j->l);
    ptrdiff_t images, slab = i / blocks, first_image = piece(slab, SLAB, j->x.shape.n[0], &images);
    kernel_transpose(j->l->kernel, images, strip_width(j->l, strip),
                     tensor_data(j->x) + first_image * in + first, in,
                     tensor_data(j->l->scratch[TURNED]) + (slab * in + first) * SLAB, SLAB);
}

/* x itself where it is contiguous, or a copy. */
static tensor contiguous(const layer *l, tensor x)
{
    if (tensor_is_contiguous(x)) return x;
    tensor copy = tensor_narrow(l->scratch[INPUT], 0, 0, x.shape.n[0]);
    tensor_copy(copy, x);
    return copy;
}

static void forward_fast(layer *l, tensor x, tensor y)
{
    ptrdiff_t slabs = parts(x.shape.n[0], SLAB), in = x.shape.n[1], out = y.shape.n[1];
    job j = { l, contiguous(l, x), y };
    even(layer_offsets(l, ROW), smallest(piece_size(out), out), in);
    even(layer_offsets(l, STEP), in < DEPTH ? in : DEPTH, 1);
    even(layer_offsets(l, OFFSET), in < DEPTH ? in : DEPTH, SLAB);
    layer_split(l, slabs * strips(l), turn_piece, &j);
    layer_split(l, slabs * parts(out, piece_size(out)), forward_piece, &j);
}

static void forward(layer *l, tensor x, tensor y)
{
    if (fast(l)) {
        forward_fast(l, x, y);
        return;
    }
    if (l->params > BIAS) tensor_copy(y, tensor_expand(l->param[BIAS], y.shape));
    tensor_gemm(y, 1, x, tensor_transpose(l->param[WEIGHT], 0, 1), l->params > BIAS ? 1 : 0);
}

/* ---- backward: dx = dy W ------------------------------------------------------------------------------ */

static void backward_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const layer *l = j->l;
    ptrdiff_t in = l->x.n[1], first = i * strip_size(l);
    product(l, j->x.shape.n[0], strip_width(l, i), j->x.shape.n[1], tensor_data(j->x),
            tensor_data(l->param[WEIGHT]) + first, tensor_data(j->y) + first, in, false);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    ptrdiff_t in = dx.shape.n[1], out = dy.shape.n[1];
    if (!fast(l)) {
        tensor_gemm(dx, 1, dy, l->param[WEIGHT], 0);
        return;
    }
    even(layer_offsets(l, ROW), dy.shape.n[0], out);
    even(layer_offsets(l, STEP), out, 1);
    even(layer_offsets(l, OFFSET), out, in);
    layer_split(l, strips(l), backward_piece, &(job){ l, dy, dx });
}

/* ---- gradient: dW += dyᵀ x ----------------------------------------------------------------------------- */

static void gradient_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const layer *l = j->l;
    ptrdiff_t in = l->x.n[1], out = j->y.shape.n[1], outputs,
              first = piece(i, piece_size(out), out, &outputs);
    product(l, outputs, in, j->x.shape.n[0], tensor_data(j->y) + first, tensor_data(j->x),
            tensor_data(l->grad[WEIGHT]) + first * in, in, true);
}

static void gradient(layer *l, tensor x, tensor y, tensor dy)
{
    (void)y;
    ptrdiff_t in = x.shape.n[1], out = dy.shape.n[1];
    if (fast(l)) {
        even(layer_offsets(l, ROW), smallest(piece_size(out), out), 1);
        even(layer_offsets(l, STEP), x.shape.n[0], out);
        even(layer_offsets(l, OFFSET), x.shape.n[0], in);
        layer_split(l, parts(out, piece_size(out)), gradient_piece, &(job){ l, contiguous(l, x), dy });
    } else {
        tensor_gemm(l->grad[WEIGHT], 1, tensor_transpose(dy, 0, 1), x, 1);
    }
    if (l->params > BIAS) tensor_add(tensor_expand(l->grad[BIAS], dy.shape), 1, dy);
}

static const layer_field fields[] = {
    { "out_features", FIELD_INT, offsetof(dense, out_features), .least = 1 },
    { "no_bias", FIELD_BOOL, offsetof(dense, no_bias) },
    { 0 },
};

const layer_type layer_type_dense = {
    .name = "dense",
    .options_size = sizeof(dense),
    .fields = fields,
    .chunk = LAYER_WHOLE, /* the weights are read once for all images */
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
    .ignores_y = true,
};

layer *layer_dense(dense options)
{
    return layer_new(&layer_type_dense, &options, 0, NULL);
}
