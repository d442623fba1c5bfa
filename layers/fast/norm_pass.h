/* norm_pass.h: how norm.c divides contiguous images into sets, and what a pass over them has.
 *
 * The plan of a layer says which elements have a weight each, how many sets are processed at once, and which
 * sets are long and divided into segments. A pass has the pointers of one call; weights of channels of a few
 * elements are spread over the elements, and their gradients gathered after it. */
#ifndef STRIDE_LAYERS_FAST_NORM_PASS_H
#define STRIDE_LAYERS_FAST_NORM_PASS_H

#include "layers/fast/norm_sums.h"
#include "layers/norm_impl.h"
#include "tensor/fast/stream.h"

#include <string.h>

enum { MOST = 512 / sizeof(st_real) }; /* sets that one thread processes at once, but for those by columns */
/* Scratch: a channel or an image of x; norm_room; a tile's gradients or sums of segments; weights, biases and
 * their gradients of each element. */
enum { NORM_COPY, NORM_ROOM, NORM_KEPT, NORM_SPREAD };
enum { SEGMENT = 4096, LONG = 8 * SEGMENT }; /* longer sets of images are divided into segments */
enum { BRIEF = 16 }; /* channels of groups that are shorter have a weight for each element */

/* ---- the plan -------------------------------------------------------------------------------------- */

/* The plan's data: the definition's, and how contiguous images are divided. Adjacent sets begin `length`
 * elements apart. */
typedef struct set_division {
    norm_plan norm;
    ptrdiff_t parts;    /* adjacent parts of a set, which have a weight and a bias each */
    ptrdiff_t length;   /* of a set's row */
    ptrdiff_t segments; /* of a long set of an image, unless it has one weight; otherwise 0 */
    ptrdiff_t tile;     /* sets of images whose gradients are kept before they are added in order */
    bool fetches;       /* sets of images that are in memory are fetched before their turn */
    bool narrow;        /* channels of a batch are processed by columns: many fill a line of the cache */
    bool by_element;    /* each element of a set has a weight and a bias instead, */
    ptrdiff_t spread;   /* of a copy, if this is not 0: so many elements in turn have the same */
    ptrdiff_t apart;    /* of the weights of adjacent sets of an image; 0: they have the same, */
    bool side_by_side;  /* and rows that are short, or near, whose gradients are added together */
} set_division;

/* Sets that are processed at once: channels of a batch that stay in the cache from the first loop to the
 * second, by each thread; or whole sets of few elements: fewer backward, so that x and dy are read while dx
 * is written, rather than in turns. */
static ptrdiff_t together(const set_division *p, ptrdiff_t images, int threads, bool backward)
{
    enum { FEW = 4096, FEW_BACK = 1000, CACHED = 1 << 16, SOME = 32 };
    const ptrdiff_t least = p->length > NORM_BLOCK ? 1 : OCTET, /* rows that add_rows takes at once */
        cached = largest(CACHED / (images * p->length * least), 1) * least,
                    most = p->narrow ? COLUMNS / p->length : smallest(SOME, cached);
    if (p->narrow && images > NEAR / COLUMNS) { /* as many for each thread */
        const ptrdiff_t wide = WIDE_COLUMNS / p->length * threads;
        return ceil_div(p->norm.sets, ceil_div(p->norm.sets, wide) * threads);
    }
    if (p->norm.of_batch) return smallest(ceil_div(p->norm.sets, threads), most);
    return largest(smallest((backward ? FEW_BACK : FEW) / p->length, SOME), 1);
}

/* How many sets a tile has: there is room for their gradients, or their elements stay in the cache; a
 * multiple of those that are processed together. */
static ptrdiff_t tile_of(const set_division *p, ptrdiff_t images)
{
    enum { GRADIENTS = 1 << 13, ELEMENTS = 1 << 17 };
    const ptrdiff_t some = together(p, images, 1, true),
                    most = p->by_element ? ELEMENTS / p->length : GRADIENTS / p->parts;
    return smallest(largest(most / some, 1), ceil_div(images * p->norm.sets, some)) * some;
}

static int plan_division(st_layer *l, const void *given)
{
    set_division *p = st_layer_plan_data(l, sizeof *p);
    const ptrdiff_t elements = st_shape_numel(l->x, l->type->name), images = l->x.n[0];
    const bool affine = l->params > 0;
    if (!p) return -1;
    p->norm = *(const norm_plan *)given;
    p->length = elements / images / p->norm.sets;
    p->parts = affine && p->norm.by_channel && !p->norm.of_batch ? l->x.n[1] / p->norm.groups : 1;
    const ptrdiff_t part = p->length / p->parts;
    const bool brief = p->parts > 1 && part < BRIEF;
    p->spread = brief && part > 1 ? part : 0;
    if (brief) p->parts = 1;
    p->by_element = affine && (!p->norm.by_channel || brief);
    p->apart = brief ? p->length : p->by_element ? 0 : p->parts;
    p->side_by_side = p->apart == 0 && (p->length < NORM_BLOCK || elements < NEAR);
    p->fetches = !p->norm.of_batch && elements >= NEAR;
    p->narrow = p->norm.of_batch && p->length < OCTET;
    p->tile = tile_of(p, images);
    const bool alike = p->by_element || !affine; /* no weight is that of a whole set */
    if (!p->norm.of_batch && p->parts == 1 && alike && p->length > LONG)
        p->segments = ceil_div(p->length, SEGMENT);
    if (st_layer_scratch(l, ST_SHAPE(elements / (p->norm.of_batch ? p->norm.sets : images)))) return -1;
    if (st_layer_scratch(l, ST_SHAPE(p->narrow ? elements / images * ROOM_OF_COLUMN : 0))) return -1;
    const bool keeps = affine && !p->norm.of_batch && !p->by_element;
    const ptrdiff_t sums = p->segments * (ptrdiff_t)(sizeof(norm_sums) / sizeof(st_real));
    if (st_layer_scratch(l, ST_SHAPE(keeps ? 2 * p->tile * p->parts : sums))) return -1;
    return st_layer_scratch(l, ST_SHAPE(p->spread ? 2 * l->params : 0, elements / images));
}

/* ---- a pass ---------------------------------------------------------------------------------------- */

/* Pieces of a pass: some sets, forward or backward; columns of all of them, of which the gradients of
 * elements are added; segments of the first set; channels, by their running statistics. */
typedef enum norm_pieces { SETS, SETS_BACK, COLUMNS_OF_SETS, SEGMENTS, CHANNELS } norm_pieces;

/* A pass over all sets of x and dy; writes y or dx to `to`, unless that is NULL. */
typedef struct norm_pass {
    const st_call *c;
    const set_division *plan;
    norm_set set;
    ptrdiff_t first, end;           /* of the sets of the pass, or of a tile */
    ptrdiff_t piece, columns;       /* sets or columns of a piece, */
    ptrdiff_t together, alike;      /* sets that are processed at once, or have their gradients added so */
    norm_sums *sums;                /* of segments */
    const norm_slopes *slopes;      /* of the segments' set, for its result; NULL: sums are computed */
    const st_real *x, *dy;          /* dy NULL: a forward pass */
    const st_real *weight, *bias;   /* NULL: none */
    st_real *to, *mean, *deviation; /* mean and deviation of each set */
    st_real *dweight, *dbias;       /* NULL: no gradients are asked for */
    st_real *kept;                  /* pairs of them, from the first set on; NULL: they are added */
    bool streams;                   /* rows of elements are written past the caches */
} norm_pass;

/* Parameters of channels as those of elements, and gradients of elements, which are 0. */
static void spread_parameters(norm_pass *p)
{
    const ptrdiff_t n = p->plan->spread, channels = p->c->param[NORM_WEIGHT].shape.n[0], all = n * channels;
    st_real *to = st_data(st_scratch(p->c, NORM_SPREAD));
    for (ptrdiff_t k = 0; k < channels; k++)
        for (ptrdiff_t i = k * n; i < k * n + n; i++) to[i] = p->weight[k], to[all + i] = p->bias[k];
    p->weight = to, p->bias = to + all;
    if (!p->dweight) return;
    p->dweight = to + 2 * all, p->dbias = to + 3 * all;
    memset(p->dweight, 0, (size_t)(2 * all) * sizeof *to);
}

/* Adds the gradients of elements to those of channels. */
static void gather_gradients(const norm_pass *p)
{
    const ptrdiff_t n = p->plan->spread;
    const st_real *from = p->dweight;
    for (int i = NORM_WEIGHT; i <= NORM_BIAS && n > 0 && from; i++) {
        st_real *to = st_data(st_grad(p->c, i));
        for (ptrdiff_t k = 0; k < p->c->param[i].shape.n[0]; k++) {
            st_real sum = to[k];
            for (ptrdiff_t end = 0; end < n; end++) sum += *from++;
            to[k] = sum;
        }
    }
}

static norm_pass pass_over(const st_call *c, st_tensor x, st_tensor dy, st_tensor to, bool gradient)
{
    const set_division *plan = c->plan;
    const bool batch = plan->norm.of_batch;
    const ptrdiff_t length = plan->length, rows = batch ? c->images : 1,
                    stride = batch ? plan->norm.sets * length : length;
    norm_pass p = { .c = c,
                    .plan = plan,
                    .set = { rows, length, stride },
                    .end = batch ? plan->norm.sets : c->images * plan->norm.sets,
                    .x = st_data(x),
                    .dy = st_data(dy),
                    .weight = c->layer->params > NORM_WEIGHT ? st_data(c->param[NORM_WEIGHT]) : NULL,
                    .bias = c->layer->params > NORM_BIAS ? st_data(c->param[NORM_BIAS]) : NULL,
                    .to = st_data(to),
                    .mean = st_data(st_memory(c, NORM_MEAN)),
                    .deviation = st_data(st_memory(c, NORM_DEVIATION)),
                    .dweight = gradient ? st_data(st_grad(c, NORM_WEIGHT)) : NULL,
                    .dbias =
                        gradient && c->layer->params > NORM_BIAS ? st_data(st_grad(c, NORM_BIAS)) : NULL };
    /* A short set that was just read is in the first cache: nothing is read while it is written. */
    const ptrdiff_t least = batch || p.dy ? STREAM_PIECE : NEARBY;
    p.streams = layer_streams(c) && p.to != p.x && p.to != p.dy && length / plan->parts >= least;
    p.together = together(plan, c->images, c->layer->impl->run->threads, p.dy != NULL);
    p.alike = plan->side_by_side ? p.together : 1;
    if (plan->by_element && plan->apart == 0 && !p.to)
        p.together = p.alike = largest(p.together, SIDE_BY_SIDE);
    p.piece = p.together;
    if (p.streams && !batch) p.piece *= ceil_div(STREAM_ITEM, p.together * length);
    if (plan->spread) spread_parameters(&p);
    return p;
}

/* The index of the first weight of set k. */
static ptrdiff_t first_weight(const set_division *plan, ptrdiff_t k)
{
    return k % plan->norm.sets * plan->apart;
}

/* The weights of the elements of set k; NULL: they have none of their own. */
static const st_real *weights_of(const norm_pass *p, ptrdiff_t k)
{
    return p->plan->by_element ? p->weight + first_weight(p->plan, k) : NULL;
}

static double norm_weight(const norm_pass *p, ptrdiff_t k)
{
    return p->weight && !p->plan->by_element ? (double)p->weight[k] : 1;
}

#endif
