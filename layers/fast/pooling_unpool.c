/* pooling_unpool.c: max-unpooling whose windows are squares (squares.h); others are in pooling_maxima.c. */
#include "layers/fast/squares.h"
#include "layers/pooling/family.h"

/* Kept: the number of each window's first maximum, or of its first NaN. */
#define UNPOOL(M)                                                                                            \
    M##_TARGET static void M##_unpool(const squares_call *b)                                                 \
    {                                                                                                        \
        const ptrdiff_t columns = b->columns;                                                                \
        for (ptrdiff_t row = 0; row < b->rows; row++) {                                                      \
            st_real *dx = b->dx + 2 * row * b->wide;                                                         \
            EACH_SQUARES(M, i, last, columns)                                                                \
            {                                                                                                \
                M##_vector t[SQUARE], most, number = { 0 };                                                  \
                const ptrdiff_t at = row * columns + i;                                                      \
                M##_get_square(b, b->x + 2 * row * b->wide + 2 * i, t);                                      \
                most = t[0];                                                                                 \
                _Pragma("GCC unroll 3") for (int k = 1; k < SQUARE; k++)                                     \
                {                                                                                            \
                    const M##_mask exceeds = ~(t[k] <= most) & (most == most);                               \
                    most = ISA_PICK(M, exceeds, t[k], most);                                                 \
                    number = ISA_PICK(M, exceeds, (M##_vector){ 0 } + (st_real)k, number);                   \
                }                                                                                            \
                M##_keep_run(b, 0, at, number);                                                              \
                const M##_vector from = M##_get(b->dy + at, b->dy_end);                                      \
                EACH(k, SQUARE) t[k] = (M##_vector)((number == (st_real)k) & (M##_mask)from);                \
                M##_put_square(b, dx + 2 * i, t);                                                            \
            }                                                                                                \
            for (ptrdiff_t i = 2 * columns; i < b->wide; i++) dx[i] = dx[i + b->wide] = 0;                   \
        }                                                                                                    \
    }                                                                                                        \
    M##_TARGET static void M##_unpool_back(const squares_call *b)                                            \
    {                                                                                                        \
        const ptrdiff_t columns = b->columns;                                                                \
        for (ptrdiff_t row = 0; row < b->rows; row++) EACH_SQUARES(M, i, last, columns)                      \
            {                                                                                                \
                M##_vector t[SQUARE];                                                                        \
                const ptrdiff_t at = row * columns + i;                                                      \
                M##_get_square(b, b->x + 2 * row * b->wide + 2 * i, t);                                      \
                const M##_vector number = AT(M, b->kept + at);                                               \
                _Pragma("GCC unroll 3") for (int k = 1; k < SQUARE; k++) t[0] = CHOOSE(                      \
                    M, SAME(M, (M##_mask)number, (M##_mask)((M##_vector){ 0 } + (st_real)k)), t[k], t[0]);   \
                M##_put(t[0], b->y + at, b->y_end);                                                          \
            }                                                                                                \
    }

#define UNPOOLS_OF(M) { M##_unpool, M##_unpool_back },
EACH_ISA(UNPOOL)
static const struct {
    void (*forward)(const squares_call *b), (*backward)(const squares_call *b);
} unpools[] = { EACH_ISA(UNPOOLS_OF) };

enum { POOL, BODY };          /* children */
enum { DBODY, DPOOL, IMAGE }; /* scratch */

static bool unpool_suits(const st_layer *l)
{
    return ((const pool_plan *)l->plan)->grid == &st_regular_grid && windows_are_squares(l);
}

/* What is kept of a channel. */
static ptrdiff_t numbers_of(const window *w)
{
    return w->out[0] * w->out[1] + POOL_LANES;
}

static int plan_unpool(st_layer *l, const void *given)
{
    const st_shape x = l->x, pooled = l->child[POOL]->y;
    pool_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    *p = *(const pool_plan *)given;
    if (st_layer_memory(l, ST_SHAPE(x.n[0], x.n[1], numbers_of(&p->w)))) return -1;
    if (st_layer_scratch(l, pooled) || st_layer_scratch(l, pooled)) return -1;
    return st_layer_scratch(l, ST_SHAPE(x.n[1], x.n[2], x.n[3]));
}

static void unpool_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const window *w = &((const pool_plan *)c->plan)->w;
    const st_tensor body = st_forward_child(c, BODY, st_forward_child(c, POOL, x));
    const ptrdiff_t area = w->size[0] * w->size[1], count = w->out[0] * w->out[1], channels = x.shape.n[1],
                    used = 2 * w->out[0] * w->size[1];
    squares_call b = { .rows = w->out[0], .columns = w->out[1], .wide = w->size[1] };
    b.dy = st_data(body), b.dy_end = b.dy + st_numel(body), b.dx = st_data(y), b.dx_end = b.dx + st_numel(y);
    b.kept = st_data(st_memory(c, 0));
    for (ptrdiff_t i = 0; i < x.shape.n[0] * channels; i++) {
        if (i % channels == 0) {
            st_tensor image = st_select(x, 0, i / channels);
            if (!st_is_contiguous(x)) {
                const st_tensor copy = st_reshape(st_scratch(c, IMAGE), image.shape);
                st_copy(copy, image);
                image = copy;
            }
            b.x = st_data(image), b.x_end = b.x + channels * area;
        }
        unpools[c->layer->impl->isa].forward(&b);
        memset(b.dx + used, 0, (size_t)(area - used) * sizeof *b.dx);
        b.x += area, b.dx += area, b.dy += count, b.kept += numbers_of(w);
    }
}

static void unpool_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const window *w = &((const pool_plan *)c->plan)->w;
    const st_tensor dbody = st_narrow(st_scratch(c, DBODY), 0, 0, c->images),
                    dpool = st_narrow(st_scratch(c, DPOOL), 0, 0, c->images);
    squares_call b = { .rows = w->out[0], .columns = w->out[1], .wide = w->size[1] };
    b.x = st_data(dy), b.x_end = b.x + st_numel(dy), b.y = st_data(dbody), b.y_end = b.y + st_numel(dbody);
    b.kept = st_data(st_memory(c, 0));
    for (ptrdiff_t i = 0; i < x.shape.n[0] * x.shape.n[1]; i++) {
        unpools[c->layer->impl->isa].backward(&b);
        b.x += w->size[0] * w->size[1], b.y += w->out[0] * w->out[1], b.kept += numbers_of(w);
    }
    st_backward_child(c, BODY, st_child_output(c, POOL), dbody, st_is_null(dx) ? dx : dpool);
    if (!st_is_null(dx)) st_backward_child(c, POOL, x, dpool, dx);
}

const layer_algorithm max_unpool_lanes = { .type = &layer_type_max_unpool,
                                           .suits = unpool_suits,
                                           .plan = plan_unpool,
                                           .hooks = { .forward = unpool_forward,
                                                      .backward = unpool_backward } };
