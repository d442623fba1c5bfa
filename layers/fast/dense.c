/* dense.c: a dense layer's products without packing, divided into pieces for threads. */
#include "layers/dense_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "tensor/counts.h"

#include <string.h>

enum { TRANSPOSED = DENSE_INPUT + 1, RESULT }; /* scratch */

enum {
    FEW = 8,               /* images that have an algorithm of their own */
    SLAB = 64,             /* images whose features are transposed together */
    PIECE = 48,            /* the most outputs, or rows of weights, in a piece of work */
    LOW = 12,              /* and the fewest */
    STRIP = 256,           /* inputs in a piece of the backward pass and the gradient, about */
    NARROW = 64,           /* a strip is a multiple of this */
    DEPTH = 1024,          /* inputs in a block: a slab of that many stays in cache */
    MOST_IMAGES = 1 << 16, /* and outputs: tables have an entry for each */
};

/* The tables of one product: see kernel.h. */
typedef struct tables {
    ptrdiff_t *row, *step, *offset;
} tables;

typedef struct dense_plan {
    const kernel *k;
    tables forward, backward, gradient;
    ptrdiff_t *few, *skip; /* vectors of inputs, and elements of them that an earlier one has */
} dense_plan;

/* The planned rows of x and y, as matrices. */
static ptrdiff_t rows_of(const st_layer *l)
{
    return l->x.rank == 2 ? l->x.n[0] : l->x.n[0] * l->x.n[1];
}

static bool suits(const st_layer *l)
{
    const ptrdiff_t in = l->x.n[l->x.rank - 1], out = l->y.n[l->y.rank - 1];
    return in >= kernel_of(l)->lanes && rows_of(l) <= MOST_IMAGES && out <= MOST_IMAGES;
}

/* ---- pieces -------------------------------------------------------------------------------------------- */

/* A piece of work: its number, where it begins, and its size. */
static ptrdiff_t piece(ptrdiff_t i, ptrdiff_t size, ptrdiff_t whole, ptrdiff_t *count)
{
    ptrdiff_t first = i * size;
    *count = smallest(whole - first, size);
    return first;
}

/* The outputs in a piece: an even number of pieces of the same size, except for the last, so that threads get
 * equal work. */
static ptrdiff_t piece_size(ptrdiff_t outputs)
{
    return largest(LOW, ceil_div(outputs, 2 * ceil_div(outputs, 2 * PIECE)));
}

/* The inputs in a strip, likewise. */
static ptrdiff_t strip_size(ptrdiff_t in)
{
    return largest(2 * NARROW, in / (2 * ceil_div(in, 2 * STRIP)) / NARROW * NARROW);
}

/* The last strip includes the remainder, which is too small for another one. */
static ptrdiff_t strips(ptrdiff_t in)
{
    return largest(1, in / strip_size(in));
}

static ptrdiff_t strip_width(ptrdiff_t in, ptrdiff_t i)
{
    return i + 1 < strips(in) ? strip_size(in) : in - i * strip_size(in);
}

/* ---- plan ---------------------------------------------------------------------------------------------- */

/* Makes a table of multiples of `step` at *room, and advances *room. */
static ptrdiff_t *multiples(ptrdiff_t **room, ptrdiff_t count, ptrdiff_t step)
{
    ptrdiff_t *table = *room;
    iota(table, count, step);
    *room += count;
    return table;
}

/* Sizes of tables: outputs of a piece, inputs of a block, vectors of inputs. */
typedef struct extents {
    ptrdiff_t n, in, out, high, deep, vectors;
} extents;

static extents extents_of(const st_layer *l)
{
    const ptrdiff_t in = l->x.n[l->x.rank - 1], out = l->y.n[l->y.rank - 1];
    return (extents){ rows_of(l),
                      in,
                      out,
                      smallest(piece_size(out), out),
                      smallest(in, DEPTH),
                      ceil_div(in, kernel_of(l)->lanes) };
}

static int plan(st_layer *l, const void *given)
{
    (void)given;
    const extents e = extents_of(l);
    const ptrdiff_t slabs = e.n > FEW ? ceil_div(e.n, SLAB) : 0;
    const ptrdiff_t room = (e.high + 2 * e.deep) + 2 * e.vectors + 3 * e.n + 3 * e.out;
    dense_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    p->k = kernel_of(l);
    l->impl->tables = (size_t)room * sizeof(ptrdiff_t);
    if (st_layer_scratch(l, l->x) || st_layer_scratch(l, ST_SHAPE(slabs, e.deep, SLAB))) return -1;
    return st_layer_scratch(l, ST_SHAPE(slabs, e.out, SLAB));
}

static void fill(st_layer *l, void *tables_)
{
    const extents e = extents_of(l);
    dense_plan *p = l->plan;
    ptrdiff_t *at = tables_;
    p->forward =
        (tables){ multiples(&at, e.high, e.in), multiples(&at, e.deep, 1), multiples(&at, e.deep, SLAB) };
    p->few = multiples(&at, e.vectors, p->k->lanes);
    p->few[e.vectors - 1] = e.in - p->k->lanes; /* the last vector overlaps the previous one */
    p->skip = multiples(&at, e.vectors, 0);
    p->skip[e.vectors - 1] = e.vectors * p->k->lanes - e.in;
    p->backward =
        (tables){ multiples(&at, e.n, e.out), multiples(&at, e.out, 1), multiples(&at, e.out, e.in) };
    p->gradient = (tables){ multiples(&at, e.out, 1), multiples(&at, e.n, e.out), multiples(&at, e.n, e.in) };
}

/* The data shared by the pieces of a pass. x and y are matrices. */
typedef struct job {
    const st_call *c;
    const dense_plan *p;
    st_tensor x, y;         /* or dy and dx, or x and dy */
    ptrdiff_t begin, depth; /* a block of inputs */
} job;

static job job_of(const st_call *c, st_tensor x, st_tensor y)
{
    return (job){ .c = c, .p = c->plan, .x = x, .y = y };
}

static void product(const job *j, const tables *t, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth,
                    const st_real *a, const st_real *b, st_real *to, ptrdiff_t pitch, bool add)
{
    kernel_product(j->p->k, rows, columns, depth, a, t->row, t->step, b, t->offset, to, pitch, add);
}

/* The rows of x if they are contiguous, else of a copy. */
static st_tensor contiguous(const st_call *c, st_tensor x)
{
    if (st_is_contiguous(x) || x.shape.rank == 3) return dense_rows(c, x);
    st_tensor copy = st_narrow(st_scratch(c, DENSE_INPUT), 0, 0, x.shape.n[0]);
    st_copy(copy, x);
    return copy;
}

/* ---- forward: yᵀ = W xᵀ, so that neither needs to be packed: lanes are images ---------------------- */

/* Fills TRANSPOSED [slab, depth, SLAB] for some inputs of the block and a slab of images. */
static void transpose_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const ptrdiff_t in = j->x.shape.n[1], blocks = strips(j->depth), strip = i % blocks,
                    width = strip_width(j->depth, strip), first = strip * strip_size(j->depth);
    ptrdiff_t images, slab = i / blocks, first_image = piece(slab, SLAB, j->x.shape.n[0], &images);
    st_real *to = st_data(st_scratch(j->c, TRANSPOSED)) + (slab * j->depth + first) * SLAB;
    if (images % j->p->k->lanes) memset(to, 0, (size_t)(width * SLAB) * sizeof *to);
    kernel_transpose(j->p->k, images, width, st_data(j->x) + first_image * in + j->begin + first, in, to,
                     SLAB, NULL);
}

/* Computes some outputs of a slab of images: RESULT [slab, out, SLAB], which begins as b, += the block's
 * columns of W times TRANSPOSED [slab, depth, SLAB]. After the last block it is transposed into y. */
static void forward_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const kernel *k = j->p->k;
    const st_tensor *param = j->c->param;
    const ptrdiff_t in = j->x.shape.n[1], out = j->y.shape.n[1], size = piece_size(out),
                    blocks = ceil_div(out, size);
    ptrdiff_t images, outputs, slab = i / blocks;
    ptrdiff_t first_image = piece(slab, SLAB, j->x.shape.n[0], &images);
    ptrdiff_t first = piece(i % blocks, size, out, &outputs);
    st_real *result = st_data(st_scratch(j->c, RESULT)) + (slab * out + first) * SLAB;
    for (ptrdiff_t o = 0; o < outputs && j->begin == 0; o++) {
        st_real bias = j->c->layer->params > DENSE_BIAS ? st_data(param[DENSE_BIAS])[first + o] : 0;
        for (ptrdiff_t n = 0; n < SLAB; n++) result[o * SLAB + n] = bias;
    }
    product(j, &j->p->forward, outputs, kernel_padded(k, images), j->depth,
            st_data(param[DENSE_WEIGHT]) + first * in + j->begin,
            st_data(st_scratch(j->c, TRANSPOSED)) + slab * j->depth * SLAB, result, SLAB, true);
    if (j->begin + j->depth == in)
        kernel_transpose(k, outputs, images, result, SLAB, st_data(j->y) + first_image * out + first, out,
                         NULL);
}

/* ---- forward of few images: lanes are inputs ----------------------------------------------------------- */

static void few_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const kernel *k = j->p->k;
    const ptrdiff_t in = j->x.shape.n[1], out = j->y.shape.n[1];
    ptrdiff_t outputs, first = piece(i, piece_size(out), out, &outputs);
    kernel_dot(k, j->x.shape.n[0], outputs, ceil_div(in, k->lanes), st_data(j->x), in, j->p->few, j->p->skip,
               st_data(j->c->param[DENSE_WEIGHT]) + first * in, j->p->forward.row, j->p->few,
               st_data(j->y) + first, out);
}

static void forward_few(const st_call *c, st_tensor x, st_tensor y)
{
    job j = job_of(c, x, y);
    if (c->layer->params > DENSE_BIAS) st_copy(y, st_expand(c->param[DENSE_BIAS], y.shape));
    else st_fill(y, 0);
    st_parallel_for(c, ceil_div(y.shape.n[1], piece_size(y.shape.n[1])), few_piece, &j);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    x = contiguous(c, x);
    y = dense_rows(c, y);
    const ptrdiff_t slabs = ceil_div(x.shape.n[0], SLAB), in = x.shape.n[1], out = y.shape.n[1];
    if (x.shape.n[0] <= FEW) {
        forward_few(c, x, y);
        return;
    }
    job j = job_of(c, x, y);
    for (; j.begin < in; j.begin += j.depth) {
        j.depth = smallest(in - j.begin, DEPTH);
        st_parallel_for(c, slabs * strips(j.depth), transpose_piece, &j);
        st_parallel_for(c, slabs * ceil_div(out, piece_size(out)), forward_piece, &j);
    }
}

/* ---- backward: dx = dy W ------------------------------------------------------------------------------- */

static void backward_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const ptrdiff_t in = j->y.shape.n[1], out = j->x.shape.n[1], first = i * strip_size(in);
    product(j, &j->p->backward, j->x.shape.n[0], strip_width(in, i), out, st_data(j->x),
            st_data(j->c->param[DENSE_WEIGHT]) + first, st_data(j->y) + first, in, false);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    job j = job_of(c, dense_rows(c, dy), dense_rows(c, dx));
    st_parallel_for(c, strips(j.y.shape.n[1]), backward_piece, &j);
}

/* ---- gradient: dW += dyᵀ x --------------------------------------------------------------------------- */

static void gradient_piece(ptrdiff_t i, void *context)
{
    const job *j = context;
    const ptrdiff_t in = j->x.shape.n[1], out = j->y.shape.n[1], size = piece_size(out),
                    blocks = ceil_div(out, size), strip = i / blocks, left = strip * strip_size(in);
    ptrdiff_t outputs, first = piece(i % blocks, size, out, &outputs);
    product(j, &j->p->gradient, outputs, strip_width(in, strip), j->x.shape.n[0], st_data(j->y) + first,
            st_data(j->x) + left, st_data(st_grad(j->c, DENSE_WEIGHT)) + first * in + left, in, true);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    job j = job_of(c, contiguous(c, x), dense_rows(c, dy));
    const ptrdiff_t in = j.x.shape.n[1], out = j.y.shape.n[1];
    st_parallel_for(c, strips(in) * ceil_div(out, piece_size(out)), gradient_piece, &j);
    dense_bias_gradient(c, dy);
}

const layer_algorithm dense_unpacked = {
    .type = &layer_type_dense,
    .suits = suits,
    .plan = plan,
    .fill = fill,
    .hooks = { .forward = forward, .backward = backward, .gradient = gradient },
};
