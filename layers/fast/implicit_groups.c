/* implicit_groups.c: an implicit product with groups as lanes, as depthwise convolutions have many.
 *
 *     result[m][window] = Σ_k weight[m][k] image[step[k] + window] + bias[m]
 *     sum[m][k]        += Σ_window narrow[m][window] wide[step[k] + window]
 *
 * where every element is a vector of adjacent groups. A channel of so many groups is transposed into a block
 * with zeros around the image, in which windows may have any stride and dilation; results are transposed
 * back. That costs as much as some 15 products, whatever the width of an image is.
 *
 * This file is compiled with -ffp-contract=fast: multiply-adds are fused where the processor can. */
#include "layers/fast/implicit.h"
#include "layers/fast/lanes.h"
#include "tensor/fast/isa.h"

#include <math.h>

enum {
    ROWS = 12,        /* of a tile, at most */
    TABLES = 1 << 20, /* the most entries of tables, */
    BAND = 128,       /* vectors that are transposed together, at least */
    BLOCK = 1 << 20,  /* and bytes of a block, which stays in cache */
    NEAR = 3 << 14,   /* bytes of the first cache */
    TRANSPOSE = 12,   /* the cost of transposing a vector, in products of vectors of windows, */
    LAY_OUT = 2,      /* more of laying it out with zeros around it, */
    CALL = 30,        /* and of each product */
};

/* The cost of a product; more of transposing beyond NEAR, and for sums. */
static const double PRODUCT = 1.3, FAR = 1.6, FAR_SUMS = 1.1;

/* ---- tiles: c[to[i]] (+)= Σ_k a[number[k]] b[from[i] + step[k]], i < R, of vectors -------------------- */

typedef void group_tile(ptrdiff_t depth, const st_real *a, const ptrdiff_t *number, const st_real *b,
                        const ptrdiff_t *from, const ptrdiff_t *step, st_real *c, const ptrdiff_t *to,
                        const st_real *plus);

struct group_vectors {
    int lanes;
    bool less; /* the next ones have fewer lanes, and round alike */
    group_tile *tile[ROWS];
};

/* plus NULL: what is added to is c itself. */
#define TILE(M, R)                                                                                           \
    M##_TARGET static void M##_groups_##R(ptrdiff_t depth, const st_real *a, const ptrdiff_t *number,        \
                                          const st_real *b, const ptrdiff_t *from, const ptrdiff_t *step,    \
                                          st_real *c, const ptrdiff_t *to, const st_real *plus)              \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        M##_vector sum[R];                                                                                   \
        const st_real *at[R];                                                                                \
        EACH(i, R) at[i] = b + from[i] * LANES;                                                              \
        EACH(i, R) sum[i] = AT(M, plus ? plus : c + to[i] * LANES);                                          \
        for (ptrdiff_t k = 0; k < depth; k++) {                                                              \
            const M##_vector x = AT(M, a + number[k] * LANES);                                               \
            const ptrdiff_t next = step[k] * LANES;                                                          \
            EACH(i, R) sum[i] = M##_FUSED(x, AT(M, at[i] + next), sum[i]);                                   \
        }                                                                                                    \
        EACH(i, R) AT(M, c + to[i] * LANES) = sum[i];                                                        \
    }

/* clang-format off */
#define EACH_TILE(DO, M)                                                                                     \
    DO(M, 1) DO(M, 2) DO(M, 3) DO(M, 4) DO(M, 5) DO(M, 6)                                                    \
    DO(M, 7) DO(M, 8) DO(M, 9) DO(M, 10) DO(M, 11) DO(M, 12)
#define NAME(M, R) M##_groups_##R,
#define TILES(M) EACH_TILE(TILE, M)
#define VECTORS(M) { ISA_LANES(M), M##_LESS, { EACH_TILE(NAME, M) } },
#define avx512_LESS true
#define avx2_LESS false
#define generic_LESS false
/* clang-format on */

EACH_ISA(TILES)
static const group_vectors vectors_of_isa[] = { EACH_ISA(VECTORS) };

/* The widest vectors that groups fill; NULL: there are none. */
static const group_vectors *vectors_of(const implicit_plan *d)
{
    enum { ISAS = sizeof vectors_of_isa / sizeof *vectors_of_isa };
    for (int i = d->isa; i < ISAS && d->groups > 1; i++)
        if (vectors_of_isa[i].lanes <= d->groups) return &vectors_of_isa[i];
    return NULL;
}

ptrdiff_t implicit_group_lanes(const implicit_plan *d)
{
    return vectors_of(d)->lanes;
}

/* Elements that are transposed next: each tile of `turns` products fetches a share of them. */
typedef struct ahead {
    const st_real *at[2];
    ptrdiff_t count[2], turn, turns;
} ahead;

static void product(const group_vectors *v, ptrdiff_t rows, ptrdiff_t depth, const st_real *a,
                    const ptrdiff_t *number, const st_real *b, const ptrdiff_t *from, const ptrdiff_t *step,
                    st_real *c, const ptrdiff_t *to, const st_real *plus, ahead *next)
{
    const ptrdiff_t all = next->turns * rows, before = next->turn++ * rows;
    for (ptrdiff_t i = 0, some; i < rows; i += some) {
        const ptrdiff_t left = rows - i;
        some = left > ROWS ? ceil_div(left, ceil_div(left, ROWS)) : left;
        for (int n = 0; n < 2; n++) {
            if (next->count[n] == 0) continue;
            const ptrdiff_t first = next->count[n] * (before + i) / all,
                            end = next->count[n] * (before + i + some) / all;
            FETCH_LINES(next->at[n] + first, end - first, 0, 2);
        }
        v->tile[some - 1](depth, a, number, b, from + i, step, c, to + i, plus);
    }
}

/* ---- blocks ----------------------------------------------------------------------------------------- */

/* The rows and columns of a channel in a block, and the place of the image's first element, in vectors. */
typedef struct block {
    ptrdiff_t high, pitch, at;
} block;

static block block_of(const implicit_plan *d, const pass *p)
{
    const window *w = &d->w;
    ptrdiff_t size[2];
    if (!is_gather(d, p)) return (block){ p->p.channel / p->p.pitch, p->p.pitch, p->p.after - d->k->lanes };
    for (int axis = 0; axis < 2; axis++)
        size[axis] =
            largest(w->before[axis] + w->size[axis],
                    (w->out[axis] - 1) * w->stride[axis] + (w->kernel[axis] - 1) * w->dilation[axis] + 1);
    return (block){ size[0], size[1], w->before[0] * size[1] + w->before[1] };
}

/* The vectors of all channels that a group reads; there are as many zeros after the last one as before the
 * first. */
static ptrdiff_t block_size(const implicit_plan *d, const pass *p)
{
    const block b = block_of(d, p);
    return p->read * b.high * b.pitch + b.at;
}

/* Vector `number` of groups, and the first of them. The last one overlaps the previous one, and is narrower
 * if that has the rest. */
static const group_vectors *vector_at(const implicit_plan *d, ptrdiff_t number, ptrdiff_t *first)
{
    const group_vectors *v = vectors_of(d);
    *first = number * v->lanes;
    if (*first + v->lanes <= d->groups) return v;
    while (v->less && *first + v[1].lanes >= d->groups) v++;
    *first = d->groups - v->lanes;
    return v;
}

/* The lanes of all vectors. */
static ptrdiff_t all_lanes(const implicit_plan *d)
{
    const ptrdiff_t lanes = vectors_of(d)->lanes, whole = d->groups / lanes * lanes;
    ptrdiff_t first;
    return whole < d->groups ? whole + vector_at(d, whole / lanes, &first)->lanes : whole;
}

/* The number of lanes of the blocks of whole vectors, and of a narrower one. */
static ptrdiff_t block_lanes(const implicit_plan *d)
{
    const ptrdiff_t lanes = vectors_of(d)->lanes;
    return lanes + all_lanes(d) % lanes;
}

/* Rows that are transposed together: all, or some by way of a room that stays in the first cache. */
static ptrdiff_t band_of(const implicit_plan *d, const pass *p)
{
    const ptrdiff_t height = read_size(d, p, 0), width = read_size(d, p, 1);
    return block_of(d, p).pitch == width ? height : smallest(height, ceil_div(BAND, width));
}

/* Transposes the channels of some groups of a contiguous image into a block. */
static void lay_out(const implicit_plan *d, const pass *p, const group_vectors *v, const st_real *image,
                    ptrdiff_t group, st_real *to, st_real *room)
{
    const ptrdiff_t height = read_size(d, p, 0), width = read_size(d, p, 1), lanes = v->lanes,
                    band = band_of(d, p);
    const block b = block_of(d, p);
    image += group * p->read * height * width, to += b.at * lanes;
    for (ptrdiff_t c = 0; c < p->read; c++, image += height * width, to += b.high * b.pitch * lanes)
        for (ptrdiff_t top = 0, rows; top < height; top += rows) {
            rows = smallest(band, height - top);
            kernel_transpose(d->k, lanes, rows * width, image + top * width, p->read * height * width,
                             b.pitch == width ? to : room, lanes, NULL);
            if (b.pitch == width) continue;
            d->k->move(rows, width * lanes, room, width * lanes, to + top * b.pitch * lanes, b.pitch * lanes);
        }
}

/* ---- plan ------------------------------------------------------------------------------------------- */

/* The cost of transposing an image's group, in products of vectors. */
static double moving_cost(const implicit_plan *d, const pass *p, double more)
{
    const ptrdiff_t made = p->made * p->size[0] * p->size[1],
                    read = p->read * read_size(d, p, 0) * read_size(d, p, 1);
    const bool far = (block_size(d, p) + made) * d->k->lanes * (ptrdiff_t)sizeof(st_real) > NEAR;
    return (double)(read * (TRANSPOSE + LAY_OUT) + made * TRANSPOSE) * (far ? more : 1);
}

/* The vectors that a group takes; HUGE_VAL: too few groups, or too large tables or blocks. */
static double share_of(const implicit_plan *d, const pass *p)
{
    const group_vectors *v = vectors_of(d);
    const double bytes = v ? (double)block_size(d, p) * (double)block_lanes(d) * (double)sizeof(st_real)
                           : HUGE_VAL,
                 entries = (double)(p->size[0] * p->size[1] + p->made * p->read * d->area);
    return bytes > BLOCK || entries > TABLES ? HUGE_VAL
                                             : (double)all_lanes(d) / (double)v->lanes / (double)d->groups;
}

double implicit_groups_cost(const implicit_plan *d, const pass *p, double windows)
{
    const double parts = (double)p->apart[0] * (double)p->apart[1];
    return share_of(d, p) * (moving_cost(d, p, FAR) + (double)p->made * (windows * PRODUCT + parts * CALL));
}

double implicit_group_sums_cost(const implicit_plan *d)
{
    const pass *p = &d->gather;
    return share_of(d, p) *
           (moving_cost(d, p, FAR_SUMS) +
            (double)(p->size[0] * p->size[1]) * (double)(p->made * p->read) * (double)d->area * PRODUCT);
}

void implicit_plan_groups(implicit_plan *d, pass *p, arena *a)
{
    const ptrdiff_t lanes = vectors_of(d)->lanes,
                    image = d->groups * p->read * read_size(d, p, 0) * read_size(d, p, 1);
    p->packed = implicit_take_packed(a, all_lanes(d) * d->narrow * d->wide * d->area);
    p->plane = block_size(d, p) * block_lanes(d) + image;
    p->panel = (p->made + band_of(d, p) * read_size(d, p, 1)) * lanes;
    p->result = p->made * p->size[0] * p->size[1] * lanes;
}

/* The place of each k in a block of the gather. */
static ptrdiff_t place_of(const implicit_plan *d, ptrdiff_t k)
{
    const window *w = &d->w;
    const block b = block_of(d, &d->gather);
    const ptrdiff_t c = k / d->area, row = k % d->area / w->kernel[1], column = k % w->kernel[1];
    return (c * b.high + row * w->dilation[0]) * b.pitch + column * w->dilation[1];
}

/* The tables of a part: of its windows, in the block and in the results; of each k. */
void implicit_number_groups(const implicit_plan *d, const pass *p, part *q, arena *a)
{
    const ptrdiff_t *n = q->of.count, pitch = block_of(d, p).pitch;
    const bool gather = is_gather(d, p);
    const ptrdiff_t down = gather ? d->w.stride[0] * pitch : pitch, across = gather ? d->w.stride[1] : 1;
    q->vectors = n[0] * n[1];
    q->from = arena_take(a, q->vectors), q->to = arena_take(a, q->vectors);
    q->step = arena_take(a, q->depth), q->number = arena_take(a, q->depth);
    for (ptrdiff_t i = 0; q->from && i < q->vectors; i++) {
        const ptrdiff_t row = i / n[1], column = i % n[1];
        q->from[i] = row * down + column * across;
        q->to[i] = (q->of.first[0] + row * p->apart[0]) * p->size[1] + q->of.first[1] + column * p->apart[1];
    }
    for (ptrdiff_t k = 0; q->from && k < q->depth; k++)
        q->step[k] = gather ? place_of(d, k) : q->tap[k], q->number[k] = q->weight[k];
}

/* The gradient's: of each k, in the block and in the sums; of each window, in the block and in narrow
 * images. */
void implicit_plan_group_sums(implicit_plan *d, gradient_pass *p, arena *a)
{
    const ptrdiff_t lanes = vectors_of(d)->lanes, taps = d->wide * d->area, *n = d->w.out,
                    windows = n[0] * n[1];
    const ptrdiff_t area = d->w.size[0] * d->w.size[1], pitch = block_of(d, &d->gather).pitch;
    p->from = arena_take(a, taps), p->to = arena_take(a, taps);
    p->place = arena_take(a, windows), p->number = arena_take(a, windows);
    for (ptrdiff_t k = 0; p->from && k < taps; k++) p->from[k] = place_of(d, k), p->to[k] = k;
    for (ptrdiff_t i = 0; p->from && i < windows; i++)
        p->place[i] = i / n[1] * d->w.stride[0] * pitch + i % n[1] * d->w.stride[1], p->number[i] = i;
    p->panel = (windows + largest(band_of(d, &d->gather) * d->w.size[1], d->narrow * taps)) * lanes;
    p->result = all_lanes(d) * d->narrow * taps;
    d->gather.plane =
        largest(d->gather.plane, block_size(d, &d->gather) * block_lanes(d) + d->groups * d->wide * area);
}

/* ---- passes ----------------------------------------------------------------------------------------- */

/* Weights [vectors of groups, narrow, wide, taps, lanes]. */
void implicit_pack_groups(const st_layer *l, const pass *p)
{
    const implicit_plan *d = l->plan;
    const ptrdiff_t lanes = vectors_of(d)->lanes, each = d->narrow * d->wide * d->area;
    const st_real *weight = implicit_weights(l);
    for (ptrdiff_t i = 0, group; i * lanes < d->groups; i++) {
        const group_vectors *v = vector_at(d, i, &group);
        kernel_transpose(d->k, v->lanes, each, weight + group * each, each, p->packed + i * lanes * each,
                         v->lanes, NULL);
    }
}

/* Zeroes blocks, whose borders stay so; returns what follows them, for an image that is not contiguous. */
static st_tensor begin(const implicit_plan *d, const pass *p, st_tensor room)
{
    const ptrdiff_t size = block_size(d, p) * block_lanes(d);
    st_fill(st_narrow(room, 0, 0, size), 0);
    return st_narrow(room, 0, size, st_numel(room) - size);
}

/* The block of a vector, of `lanes` if it is whole. */
static st_real *block_at(const implicit_plan *d, const pass *p, const group_vectors *v, ptrdiff_t lanes,
                         st_real *laid)
{
    return v->lanes == lanes ? laid : laid + block_size(d, p) * lanes;
}

/* Tests if the images of a batch do not stay in cache. */
static bool is_far(const implicit_plan *d, const pass *p)
{
    const ptrdiff_t group =
        p->read * read_size(d, p, 0) * read_size(d, p, 1) + p->made * p->size[0] * p->size[1];
    return d->batch * d->groups * group * (ptrdiff_t)sizeof(st_real) > BLOCK;
}

/* The groups of the next vector. */
static ptrdiff_t groups_after(const share *s, const group_vectors *v, ptrdiff_t group)
{
    return smallest(v->lanes, s->end - group - v->lanes);
}

/* Some groups of an image, whose block is laid out; results begin with the bias. */
static void make(const implicit_plan *d, const pass *p, const group_vectors *v, const st_real *from,
                 const st_real *weight, const st_real *plus, st_real *result, ahead *next)
{
    const ptrdiff_t lanes = v->lanes, area = p->size[0] * p->size[1];
    for (ptrdiff_t m = 0; m < p->made; m++, weight += p->row * lanes, plus += lanes, result += area * lanes) {
        if (!p->whole) d->k->move(area, lanes, plus, 0, result, lanes);
        for (const part *q = p->part; q < p->part + p->parts; q++)
            product(v, q->vectors, q->depth, weight, q->number, from, q->from, q->step, result, q->to, plus,
                    next);
    }
}

void implicit_make_groups(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                          const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const ptrdiff_t lanes = vectors_of(d)->lanes, area = p->size[0] * p->size[1],
                    read = p->read * read_size(d, p, 0) * read_size(d, p, 1),
                    each = d->narrow * d->wide * d->area;
    const bool far = is_far(d, p);
    st_real *laid = st_data(st_scratch(c, PLANES)), *plus = st_data(st_scratch(c, PANEL)),
            *room = plus + p->made * lanes, *result = st_data(st_scratch(c, RESULT)), *image_to = st_data(to);
    const st_tensor copy = begin(d, p, st_scratch(c, PLANES));
    for (ptrdiff_t e = 0; e < p->made * lanes; e++) plus[e] = 0;
    for (ptrdiff_t i = 0; i < from.shape.n[0]; i++, image_to += d->groups * p->made * area) {
        const st_real *image = implicit_contiguous(st_select(from, 0, i), copy);
        for (ptrdiff_t n = s->group / lanes, group; n * lanes < s->end; n++) {
            const group_vectors *v = vector_at(d, n, &group);
            const ptrdiff_t known = n * lanes - group;
            st_real *own = block_at(d, p, v, lanes, laid);
            if (bias)
                kernel_transpose(d->k, v->lanes, p->made, bias + group * p->made, p->made, plus, v->lanes,
                                 NULL);
            lay_out(d, p, v, image, group, own, room);
            st_real *made = image_to + n * lanes * p->made * area;
            ahead next = { .at = { image + (group + v->lanes) * read, made }, .turns = p->made * p->parts };
            if (far)
                next.count[0] = groups_after(s, v, group) * read,
                next.count[1] = (v->lanes - known) * p->made * area;
            make(d, p, v, own, p->packed + n * lanes * each, plus, result, &next);
            for (ptrdiff_t m = 0; m < p->made; m++)
                kernel_transpose(d->k, area, v->lanes - known, result + m * area * v->lanes + known, v->lanes,
                                 made + m * area, p->made * area, NULL);
        }
    }
}

/* Adds the sums [narrow, wide, taps, lanes] of all vectors of groups to the gradient. */
static void end_sums(const implicit_plan *d, const share *s, const st_real *sum, st_real *room, st_real *dw)
{
    const ptrdiff_t lanes = vectors_of(d)->lanes, each = d->narrow * d->wide * d->area;
    for (ptrdiff_t n = s->group / lanes, first; n * lanes < s->end; n++) {
        const group_vectors *v = vector_at(d, n, &first);
        kernel_transpose(d->k, each, v->lanes, sum, v->lanes, room, each, NULL);
        for (ptrdiff_t i = (n * lanes - first) * each; i < v->lanes * each; i++)
            dw[first * each + i] += room[i];
        sum += each * v->lanes;
    }
}

void implicit_sum_groups(const st_call *c, const share *s, st_tensor wide, st_tensor narrow)
{
    const implicit_plan *d = c->plan;
    const gradient_pass *g = &d->gradient;
    const pass *p = &d->gather;
    const ptrdiff_t lanes = vectors_of(d)->lanes, windows = d->w.out[0] * d->w.out[1],
                    taps = d->wide * d->area, read = d->wide * read_size(d, p, 0) * read_size(d, p, 1);
    const bool far = is_far(d, p);
    st_real *laid = st_data(st_scratch(c, PLANES)), *dy = st_data(st_scratch(c, PANEL)),
            *room = dy + windows * lanes, *sums = st_data(st_scratch(c, RESULT));
    const st_tensor copy = begin(d, p, st_scratch(c, PLANES));
    for (ptrdiff_t i = 0; i < g->result; i++) sums[i] = 0;
    for (ptrdiff_t i = 0; i < wide.shape.n[0]; i++) {
        const st_real *image = implicit_contiguous(st_select(wide, 0, i), copy),
                      *windows_of = implicit_contiguous(st_select(narrow, 0, i), st_scratch(c, NARROW));
        st_real *sum = sums;
        for (ptrdiff_t n = s->group / lanes, group; n * lanes < s->end; n++) {
            const group_vectors *v = vector_at(d, n, &group);
            st_real *own = block_at(d, p, v, lanes, laid);
            lay_out(d, p, v, image, group, own, room);
            const ptrdiff_t end = group + v->lanes, left = far ? groups_after(s, v, group) : 0,
                            made = d->narrow * windows;
            ahead next = {
                { image + end * read, windows_of + end * made }, { left * read, left * made }, 0, d->narrow
            };
            for (ptrdiff_t o = 0; o < d->narrow; o++, sum += taps * v->lanes) {
                kernel_transpose(d->k, v->lanes, windows, windows_of + (group * d->narrow + o) * windows,
                                 d->narrow * windows, dy, v->lanes, NULL);
                product(v, taps, windows, dy, g->number, own, g->from, g->place, sum, g->to, NULL, &next);
            }
        }
    }
    end_sums(d, s, sums, room, s->dw);
}
