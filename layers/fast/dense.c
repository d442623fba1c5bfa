/* dense.c: a dense layer's products, divided into pieces for threads. */
#include "layers/dense_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "tensor/counts.h"

enum { RESULT = DENSE_INPUT + 1, PANEL }; /* scratch */

enum {
    FEW = 8,                             /* images that have an algorithm of their own, */
    PIECE = 48,                          /* and the most outputs in a piece of it */
    TALL = 256,                          /* the most rows in a piece of a product, */
    WIDE = 512,                          /* and columns, */
    UNIT = 32,                           /* of which it has a multiple */
    LARGE = (1 << 22) / sizeof(st_real), /* elements of a sum that is in memory; */
    NEAR = (3 << 18) / sizeof(st_real)   /* and of the images, in the second cache meanwhile */
};

typedef struct dense_plan {
    const kernel *k;
    int threads;
    bool turns;           /* the forward pass transposes images, not weights */
    ptrdiff_t *at, *skip; /* of few: vectors of inputs, and elements of them that an earlier one has; */
    ptrdiff_t *row;       /* and rows of weights */
} dense_plan;

/* ---- plan ---------------------------------------------------------------------------------------------- */

/* The planned rows of x and y, as matrices. */
static ptrdiff_t rows_of(const st_layer *l)
{
    return l->x.rank == 2 ? l->x.n[0] : l->x.n[0] * l->x.n[1];
}

/* The size of pieces of at most `most`: an even number of them, all the same except for the last, so that
 * threads get equal work. */
static ptrdiff_t piece_size(ptrdiff_t whole, ptrdiff_t most)
{
    return ceil_div(whole, 2 * ceil_div(whole, 2 * most));
}

/* Piece i of that size: where it begins, and how much there is. */
static ptrdiff_t piece(ptrdiff_t i, ptrdiff_t size, ptrdiff_t whole, ptrdiff_t *count)
{
    const ptrdiff_t first = i * size;
    *count = smallest(whole - first, size);
    return first;
}

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

static int plan(st_layer *l, const void *given)
{
    (void)given;
    const ptrdiff_t n = rows_of(l), in = l->x.n[l->x.rank - 1], out = l->y.n[l->y.rank - 1];
    dense_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    p->k = kernel_of(l);
    p->threads = layer_threads();
    p->turns = n * (in + out) < in * out;
    l->impl->tables = (size_t)(2 * ceil_div(in, p->k->lanes) + PIECE) * sizeof(ptrdiff_t);
    if (st_layer_scratch(l, l->x) || st_layer_scratch(l, ST_SHAPE(p->turns ? out : 0, n))) return -1;
    const ptrdiff_t panel = largest(kernel_panel(0, largest(in, out)), kernel_panel(smallest(TALL, out), n));
    return st_layer_scratch(l, ST_SHAPE(p->threads, ceil_div(panel, UNIT) * UNIT));
}

static void fill(st_layer *l, void *tables)
{
    dense_plan *p = l->plan;
    const ptrdiff_t in = l->x.n[l->x.rank - 1], lanes = p->k->lanes, vectors = ceil_div(in, lanes);
    p->at = tables, p->skip = p->at + vectors, p->row = p->skip + vectors;
    iota(p->at, vectors, lanes), iota(p->skip, vectors, 0), iota(p->row, PIECE, in);
    p->at[vectors - 1] = in - lanes; /* the last vector overlaps the previous one */
    p->skip[vectors - 1] = vectors * lanes - in;
}

/* The data shared by the pieces of a pass. x and y are matrices. */
typedef struct dense_job {
    const st_call *c;
    const dense_plan *p;
    st_tensor x, y;
    ptrdiff_t tall, wide, rows; /* of pieces of c = begin + a b, and pieces among rows */
    ptrdiff_t m, n, k;          /* and its sizes */
    bool along;                 /* see kernel.h */
    kernel_view a, b, sum;
    st_real *to;
} dense_job;

static dense_job job_of(const st_call *c, st_tensor x, st_tensor y)
{
    return (dense_job){ .c = c, .p = c->plan, .x = x, .y = y };
}

static bool has_bias(const st_call *c)
{
    return c->layer->params > DENSE_BIAS;
}

/* The rows of x if they are contiguous, else of a copy. */
static st_tensor contiguous(const st_call *c, st_tensor x)
{
    if (st_is_contiguous(x) || x.shape.rank == 3) return dense_rows(c, x);
    st_tensor copy = st_narrow(st_scratch(c, DENSE_INPUT), 0, 0, x.shape.n[0]);
    st_copy(copy, x);
    return copy;
}

/* ---- c = begin + a b ----------------------------------------------------------------------------------- */

static void product_piece(ptrdiff_t i, int thread, void *context)
{
    const dense_job *j = context;
    ptrdiff_t rows, columns, first = piece(i % j->rows, j->tall, j->m, &rows),
                             left = piece(i / j->rows, j->wide, j->n, &columns);
    const kernel_view a = { j->a.at + first * j->a.row, j->a.row, j->a.column },
                      b = { j->b.at + left * j->b.column, j->b.row, j->b.column },
                      sum = { j->sum.at ? j->sum.at + first * j->sum.row + left : NULL, j->sum.row, 1 };
    kernel_matrix(j->p->k, rows, columns, j->k, a, b, sum, j->to + first * j->n + left, j->n, j->along,
                  st_data(st_select(st_scratch(j->c, PANEL), 0, thread)));
}

static void dense_product(const st_call *c, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, kernel_view a,
                          kernel_view b, kernel_view sum, st_real *to)
{
    dense_job j = { .c = c, .p = c->plan, .m = m, .n = n, .k = k, .a = a, .b = b, .sum = sum, .to = to };
    j.along = sum.at == to && m * n >= LARGE && k * n <= NEAR;
    j.wide = j.along || n <= KERNEL_BREADTH ? n : ceil_div(piece_size(n, WIDE), UNIT) * UNIT;
    j.tall = j.wide == n ? piece_size(m, TALL) : ceil_div(m, ceil_div(m, TALL));
    j.rows = ceil_div(m, j.tall);
    layer_each(c, j.p->threads, j.rows * ceil_div(n, j.wide), product_piece, &j);
}

static kernel_view view_of(st_tensor x)
{
    return (kernel_view){ st_data(x), x.stride[0], x.stride[1] };
}

/* ---- forward of few images: lanes are inputs ----------------------------------------------------------- */

static void few_piece(ptrdiff_t i, void *context)
{
    const dense_job *j = context;
    const kernel *k = j->p->k;
    const ptrdiff_t in = j->x.shape.n[1], out = j->y.shape.n[1];
    ptrdiff_t outputs, first = piece(i, piece_size(out, PIECE), out, &outputs);
    kernel_dot(k, j->x.shape.n[0], outputs, ceil_div(in, k->lanes), st_data(j->x), in, j->p->at, j->p->skip,
               st_data(j->c->param[DENSE_WEIGHT]) + first * in, j->p->row, j->p->at, st_data(j->y) + first,
               out);
}

static void forward_few(const st_call *c, st_tensor x, st_tensor y)
{
    dense_job j = job_of(c, x, y);
    if (has_bias(c)) st_copy(y, st_expand(c->param[DENSE_BIAS], y.shape));
    else st_fill(y, 0);
    st_parallel_for(c, ceil_div(y.shape.n[1], piece_size(y.shape.n[1], PIECE)), few_piece, &j);
}

/* ---- the passes ---------------------------------------------------------------------------------------- */

/* yᵀ = W xᵀ + b, so that x is transposed and not W, which is larger. */
static void forward_transposed(const st_call *c, st_tensor x, st_tensor y)
{
    const ptrdiff_t n = x.shape.n[0], in = x.shape.n[1], out = y.shape.n[1];
    st_real *result = st_data(st_scratch(c, RESULT));
    for (ptrdiff_t o = 0; o < out && has_bias(c); o++) {
        const st_real bias = st_data(c->param[DENSE_BIAS])[o];
        for (ptrdiff_t i = 0; i < n; i++) result[o * n + i] = bias;
    }
    dense_product(c, out, n, in, view_of(c->param[DENSE_WEIGHT]), view_of(st_transpose(x, 0, 1)),
                  (kernel_view){ has_bias(c) ? result : NULL, n, 1 }, result);
    kernel_transpose(((const dense_plan *)c->plan)->k, out, n, result, n, st_data(y), out, NULL);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    x = contiguous(c, x);
    y = dense_rows(c, y);
    const dense_plan *p = c->plan;
    const ptrdiff_t n = x.shape.n[0], in = x.shape.n[1], out = y.shape.n[1];
    if (n <= FEW && in >= p->k->lanes) forward_few(c, x, y);
    else if (p->turns) forward_transposed(c, x, y);
    else {
        const kernel_view bias = { has_bias(c) ? st_data(c->param[DENSE_BIAS]) : NULL, 0, 1 };
        dense_product(c, n, out, in, view_of(x), view_of(st_transpose(c->param[DENSE_WEIGHT], 0, 1)), bias,
                      st_data(y));
    }
}

/* dx = dy W */
static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    dy = dense_rows(c, dy), dx = dense_rows(c, dx);
    dense_product(c, dx.shape.n[0], dx.shape.n[1], dy.shape.n[1], view_of(dy),
                  view_of(c->param[DENSE_WEIGHT]), (kernel_view){ 0 }, st_data(dx));
}

/* dW += dyᵀ x */
static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    const st_tensor dw = st_grad(c, DENSE_WEIGHT), in = contiguous(c, x), out = dense_rows(c, dy);
    dense_product(c, dw.shape.n[0], dw.shape.n[1], in.shape.n[0], view_of(st_transpose(out, 0, 1)),
                  view_of(in), view_of(dw), st_data(dw));
    dense_bias_gradient(c, dy);
}

const layer_algorithm dense_products = {
    .type = &layer_type_dense,
    .suits = suits,
    .plan = plan,
    .fill = fill,
    .hooks = { .forward = forward, .backward = backward, .gradient = gradient },
};
