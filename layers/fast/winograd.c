/* winograd.c: 3x3 convolutions with stride 1 by Winograd's F(4x4, 3x3), with 4 times fewer multiplications,
 * and 5x5 ones by F(2x2, 5x5), with 2.8 times fewer. A dilated one is several that are not, of every other
 * pixel, say.
 *
 * With many channels, each element f of a tile in Winograd's domain (winograd.h) is a matrix product: M_f =
 * V_f U_f, V_f [tiles, C], U_f [C, O]. The gradient and the backward pass are its adjoint:
 *
 *     dM = A dy Aᵀ,   dU_f += V_fᵀ dM_f,   dw += Gᵀ dU G / 9
 *                     dV_f = dM_f U_fᵀ,    dx += B dV Bᵀ / 9, where tiles overlap
 *
 * Lanes are channels: pixels are rows of channels, for a few rows of an image at a time, so that tiles can
 * begin anywhere, and pixels outside the image are a row of zeros.
 *
 * Error: results are exact for small integers (winograd.h gives the bounds). Otherwise the transforms add
 * rounding errors and terms are larger than the result, but sums are 9 times shorter. Measured with normal
 * random numbers and 16x16 images, root mean square relative to that of the result, in float epsilons:
 *
 *     channels        16          64          256
 *     im2col, BLAS    0.8 - 2.2   1.3 - 2.5   2.3 - 3.0
 *     F(4x4)          8.6 - 10    11  - 15    11  - 28
 *     F(2x2)          9.6 - 28    16  - 30    30  - 31     */
#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/winograd.h"
#include "tensor/counts.h"
#include "tensor/fast/isa.h"

enum { X_PIXELS, DX_PIXELS, Y_PIXELS, X_TILES, Y_TILES, WEIGHTS, WEIGHT_SUMS, BUFFER }; /* scratch */

enum {
    /* Measured against direct convolution. */
    LEAST_CHANNELS = 16,
    TILES_OF_WEIGHTS = 20,  /* cost as much time as transforming and loading the weights, */
    TILES_OF_MANY = 60,     /* and of weights that do not stay in cache: */
    CACHE = 1 << 21,        /* bytes */
    MOST_PIXELS = 1 << 20,  /* elements of a dilated image, which is one band */
    MOST_WEIGHTS = 1 << 18, /* channels times channels */
    MOST_SIZE = 1 << 16,    /* of an image, along either axis */
    CHUNK = 8,              /* images that a batch is assumed to have */
    PARTS = 8,              /* the most of a gradient that are summed separately, */
    TILES_OF_PART = 256,    /* with so many tiles, at least, */
    SUMS = 5 << 18,         /* and bytes of their sums, at most */
    TRANSFORMS = 24,        /* channels whose products take as long as transforming their tiles */
    LITTLE = 10,            /* a batch is one chunk unless tiles take so many times as long as weights; */
    SOME = 2,               /* in inference, chunks have images whose tiles take so many times as long */

    BAND = 1 << 15, /* elements: pixels at a time */
    BLOCK = 48,     /* tiles at a time, so that loading weights pays; a multiple of every product's height */
    CLEARANCE = 64 / sizeof(st_real) /* between planes, which would otherwise share cache sets */
};

/* ---- the two sides of a convolution -------------------------------------------------------------------- */

/* Images divided into tiles of reach x reach pixels, a tile's size apart; the first begins `before` pixels
 * outside. Scratch holds the pixels of a band of rows, and a block of tiles in Winograd's domain. */
typedef struct side {
    st_tensor images;            /* [N, channels, H, W] */
    ptrdiff_t channels, columns; /* of a thread; and the multiple of lanes that holds them */
    ptrdiff_t padded, height, width, reach, before[2];
    st_tensor room;
    st_real *pixels;  /* [rows, W, padded] of an image, rows `top` to `bottom` */
    st_real *outside; /* a pixel outside the image: zeros, or values to be dropped */
    ptrdiff_t top, bottom;
    ptrdiff_t start, kept; /* numbers of the first tile, and of the first one whose rows are given */
    st_real *tiles;        /* [places, tiles, padded], the places `plane` apart */
    ptrdiff_t plane;
    const ptrdiff_t *by; /* the plan's multiples of `padded` */
} side;

/* Tables: the multiples of 1, and of the padded channels of x and of y. */
typedef struct winograd_plan {
    window w; /* as in conv_plan */
    const kernel *k;
    const winograd *t;
    ptrdiff_t rows, columns, band; /* tiles of an image, phase after phase; rows of tiles of a band */
    ptrdiff_t *unit, *by_in, *by_out;
} winograd_plan;

/* ---- places of tiles ----------------------------------------------------------------------------------- */

/* Outputs whose positions along an axis have the same remainder by the dilation are a phase; its tiles. */
static ptrdiff_t phases_of(const window *w, int axis)
{
    return smallest(w->dilation[axis], w->out[axis]);
}

static ptrdiff_t size_of(const window *w)
{
    return WINOGRAD_REACH + 1 - w->kernel[0];
}

static ptrdiff_t tiles_of_phase(const window *w, int axis)
{
    return ceil_div(ceil_div(w->out[axis], w->dilation[axis]), size_of(w));
}

static ptrdiff_t tiles_of(const window *w, int axis)
{
    return phases_of(w, axis) * tiles_of_phase(w, axis);
}

/* The first output of tile number `at`. */
static ptrdiff_t output_of(const window *w, int axis, ptrdiff_t at)
{
    const ptrdiff_t each = tiles_of_phase(w, axis);
    return at / each + at % each * size_of(w) * w->dilation[axis];
}

/* A tile's position. */
typedef struct place {
    ptrdiff_t image, row, column;
} place;

static place place_of(const winograd_plan *p, ptrdiff_t number)
{
    ptrdiff_t row = number / p->columns;
    return (place){ row / p->rows, row % p->rows, number % p->columns };
}

static bool opens_band(const winograd_plan *p, place at)
{
    return at.column == 0 && at.row % p->band == 0;
}

static bool closes_band(const winograd_plan *p, place at)
{
    return at.column == p->columns - 1 && ((at.row + 1) % p->band == 0 || at.row == p->rows - 1);
}

static ptrdiff_t bands_of(const winograd_plan *p)
{
    return ceil_div(p->rows, p->band);
}

/* The first tile of a band; bands are counted over all images. */
static ptrdiff_t tile_of_band(const winograd_plan *p, ptrdiff_t band)
{
    const ptrdiff_t each = bands_of(p);
    return (band / each * p->rows + band % each * p->band) * p->columns;
}

/* The tiles above a band, which begins with this tile, that add to the band's rows of dx. */
static ptrdiff_t tiles_above(const winograd_plan *p, ptrdiff_t tile)
{
    return smallest((WINOGRAD_REACH - 1) / p->t->size * p->columns, tile % (p->rows * p->columns));
}

/* ---- pixels: [C, H, W] to [H, W, C] and back ----------------------------------------------------------- */

/* Moves to the band of rows with a tile. */
static void move_to_band(const winograd_plan *p, side *s, place at)
{
    ptrdiff_t first = at.row - at.row % p->band, last = smallest(first + p->band, p->rows) - 1;
    const bool whole = p->w.dilation[0] > 1;
    s->top = whole ? 0 : largest(p->t->size * first - s->before[0], 0);
    s->bottom = whole ? s->height : smallest(p->t->size * last - s->before[0] + s->reach, s->height);
}

static void take_band(const winograd_plan *p, side *s, place at)
{
    move_to_band(p, s, at);
    ptrdiff_t top = s->top, rows = s->bottom - top, width = s->width;
    st_tensor from = st_select(s->images, 0, at.image), to = s->room;
    if (st_is_contiguous(from)) {
        kernel_transpose(p->k, s->channels, rows * width, st_data(from) + top * width, s->height * width,
                         st_data(to), s->padded, NULL);
    } else {
        to.shape = ST_SHAPE(s->channels, rows, width);
        to.stride[0] = 1, to.stride[1] = width * s->padded, to.stride[2] = s->padded;
        st_copy(to, st_narrow(from, 1, top, rows));
    }
}

/* Clears the rows that tiles of the band add to; those that it shares with the band above keep its sums. */
static void open_band(const winograd_plan *p, side *s, place at)
{
    ptrdiff_t row = s->width * s->padded, above = s->top, bottom = at.row > 0 ? s->bottom : 0;
    move_to_band(p, s, at);
    if (s->reach == p->t->size) return; /* tiles do not overlap */
    ptrdiff_t rows = s->bottom - s->top, kept = largest(bottom - s->top, 0);
    for (ptrdiff_t i = 0; i < kept * row; i++) s->pixels[i] = s->pixels[(s->top - above) * row + i];
    for (ptrdiff_t i = kept * row; i < rows * row; i++) s->pixels[i] = 0;
}

/* Gives the rows that the next band does not share. */
static void give_band(const winograd_plan *p, side *s, place at)
{
    ptrdiff_t next = p->t->size * (at.row + 1) - s->before[0];
    ptrdiff_t rows = (at.row < p->rows - 1 ? next : s->bottom) - s->top;
    kernel_transpose(p->k, rows * s->width, s->channels, s->pixels, s->padded,
                     st_data(st_select(s->images, 0, at.image)) + s->top * s->width, s->height * s->width,
                     NULL);
}

/* ---- tiles --------------------------------------------------------------------------------------------- */

static void pixels_of(const winograd_plan *p, const side *s, place at, st_real *pixel[])
{
    const ptrdiff_t h = output_of(&p->w, 0, at.row) - s->before[0],
                    w = output_of(&p->w, 1, at.column) - s->before[1], down = p->w.dilation[0],
                    across = p->w.dilation[1];
    for (ptrdiff_t i = h; i < h + s->reach * down; i += down)
        for (ptrdiff_t j = w; j < w + s->reach * across; j += across) {
            bool inside = i >= 0 && i < s->height && j >= 0 && j < s->width;
            ptrdiff_t offset = ((i - s->top) * s->width + j) * s->padded;
            *pixel++ = inside ? s->pixels + offset : s->outside;
        }
}

/* Transforms tiles from number `first` on into Winograd's domain, or with `give` from there. */
static void transform_tiles(const winograd_plan *p, side *s, winograd_transform *transform, bool give,
                            ptrdiff_t first, ptrdiff_t count)
{
    st_real *pixel[WINOGRAD_PLACES], *element[WINOGRAD_PLACES];
    for (ptrdiff_t t = 0; t < count; t++) {
        place at = place_of(p, first + t);
        if (opens_band(p, at) || first + t == s->start) (give ? open_band : take_band)(p, s, at);
        pixels_of(p, s, at, pixel);
        for (int f = 0; f < WINOGRAD_PLACES; f++) element[f] = s->tiles + f * s->plane + t * s->padded;
        transform(s->columns, (const st_real *const *)(give ? element : pixel), give ? pixel : element);
        if (give && closes_band(p, at) && first + t >= s->kept) give_band(p, s, at);
    }
}

/* ---- scratch ------------------------------------------------------------------------------------------- */

static ptrdiff_t plane_of(ptrdiff_t padded)
{
    return BLOCK * padded + CLEARANCE;
}

/* Tests if there are enough channels to fill most of their vectors. */
static bool fills(const kernel *k, ptrdiff_t channels)
{
    return channels >= LEAST_CHANNELS && 4 * channels >= 3 * kernel_padded(k, channels);
}

/* The taps of all windows along an axis that are in the image. */
static ptrdiff_t taps_inside(const window *w, int axis)
{
    ptrdiff_t inside = 0;
    for (ptrdiff_t t = 0; t < w->kernel[axis]; t++) {
        const ptrdiff_t first = t * w->dilation[axis] - w->before[axis]; /* what the first window reads */
        inside += largest(0, smallest(w->out[axis], w->size[axis] - first) - largest(0, -first));
    }
    return inside;
}

/* The tiles that cost as much time as so many weights do. */
static ptrdiff_t cost_of(ptrdiff_t weights)
{
    const bool many = WINOGRAD_PLACES * weights * (ptrdiff_t)sizeof(st_real) > CACHE;
    return many ? TILES_OF_MANY : TILES_OF_WEIGHTS;
}

/* Tests if tiles need fewer multiplications than a direct convolution, with those for weights and for outputs
 * beyond the border, in as many images as a batch is assumed to have. */
static bool pays(const window *w, st_shape x, ptrdiff_t weights)
{
    const ptrdiff_t images = smallest(x.n[0], CHUNK), tiles = images * tiles_of(w, 0) * tiles_of(w, 1);
    return WINOGRAD_PLACES * (tiles + cost_of(weights)) < images * taps_inside(w, 0) * taps_inside(w, 1);
}

/* The images whose tiles take so many times as long as weights do. */
static ptrdiff_t images_for(const window *w, ptrdiff_t weights, ptrdiff_t part)
{
    return ceil_div(part * cost_of(weights), tiles_of(w, 0) * tiles_of(w, 1));
}

static bool suits(const st_layer *l)
{
    const window *w = &((const conv_plan *)l->plan)->w;
    const kernel *k = kernel_of(l);
    if (engine_is_accurate() || (w->kernel[0] != 3 && w->kernel[0] != 5)) return false;
    ptrdiff_t in = l->x.n[1], out = l->y.n[1];
    for (int axis = 0; axis < 2; axis++) {
        const ptrdiff_t most = (ptrdiff_t)(w->kernel[0] - 1) * w->dilation[axis];
        if (w->kernel[axis] != w->kernel[0] || w->stride[axis] != 1) return false;
        if (w->before[axis] > most || w->after[axis] > most || w->out[axis] > MOST_SIZE) return false;
    }
    bool kernels = ((const st_conv2d_options *)l->options)->groups == 1 && fills(k, in) && fills(k, out) &&
                   in <= MOST_WEIGHTS / out;
    const double pixels = (double)w->size[0] * (double)w->size[1] * (double)largest(in, out);
    return kernels && (w->dilation[0] == 1 || pixels <= MOST_PIXELS) && pays(w, l->x, in * out);
}

/* The parts of a gradient of so many images, which are summed separately, by shapes alone. */
static ptrdiff_t parts_of(const winograd_plan *p, ptrdiff_t images, ptrdiff_t sums)
{
    const ptrdiff_t tiles = images * p->rows * p->columns,
                    fit = smallest(PARTS, SUMS / (sums * (ptrdiff_t)sizeof(st_real)));
    return largest(1, smallest(fit, smallest(images * bands_of(p), tiles / TILES_OF_PART)));
}

/* Elements of a sum dU [places, C, O], with the bias's gradient. */
static ptrdiff_t sums_of(const st_layer *l)
{
    return (WINOGRAD_PLACES * l->x.n[1] + 1) * kernel_padded(kernel_of(l), l->y.n[1]);
}

static ptrdiff_t table_size(const st_layer *l)
{
    return largest(BLOCK, largest(l->x.n[1], l->y.n[1]));
}

static int plan(st_layer *l, const void *given)
{
    const window w = ((const conv_plan *)given)->w;
    const kernel *k = kernel_of(l);
    ptrdiff_t in = l->x.n[1], out = l->y.n[1];
    ptrdiff_t in_padded = kernel_padded(k, in), out_padded = kernel_padded(k, out);
    ptrdiff_t row = largest(w.size[1] * in_padded, w.out[1] * out_padded);
    const ptrdiff_t tiles = tiles_of(&w, 0);
    ptrdiff_t band = w.dilation[0] > 1 ? tiles : largest((BAND / row - w.kernel[0] + 1) / size_of(&w), 1);
    const ptrdiff_t rows =
        w.dilation[0] > 1 ? largest(w.size[0], w.out[0]) : size_of(&w) * band + w.kernel[0] - 1;
    ptrdiff_t in_pixels = smallest(rows, w.size[0]) * w.size[1] + 1;
    ptrdiff_t out_pixels = smallest(rows, w.out[0]) * w.out[1] + 1;
    ptrdiff_t weights = largest(in * out_padded, out * in_padded);
    winograd_plan *p = st_layer_plan_data(l, sizeof *p);
    if (!p) return -1;
    l->impl->hooks.whole = images_for(&w, in * out, LITTLE) >= CHUNK;
    l->impl->hooks.least = (int)largest(CHUNK, images_for(&w, in * out, SOME));
    *p = (winograd_plan){
        .w = w, .k = k, .t = &(w.kernel[0] == 3 ? winograd_of_3 : winograd_of_5)[l->impl->isa], .band = band
    };
    p->rows = tiles, p->columns = tiles_of(&w, 1);
    l->impl->tables = 3 * (size_t)table_size(l) * sizeof(ptrdiff_t);
    const ptrdiff_t most = smallest(l->x.n[0], layer_chunk(l, l->x.n[0]));
    const st_shape scratch[] = { ST_SHAPE(in_pixels, in_padded),
                                 ST_SHAPE(in_pixels, in_padded),
                                 ST_SHAPE(out_pixels, out_padded),
                                 ST_SHAPE(WINOGRAD_PLACES, plane_of(in_padded)),
                                 ST_SHAPE(WINOGRAD_PLACES, plane_of(out_padded)),
                                 ST_SHAPE(WINOGRAD_PLACES, weights),
                                 ST_SHAPE(parts_of(p, most, sums_of(l)), sums_of(l)),
                                 ST_SHAPE(w.kernel[0] * w.kernel[1], weights) };
    for (int i = 0; i <= BUFFER; i++)
        if (st_layer_scratch(l, scratch[i])) return -1;
    return 0;
}

static void fill(st_layer *l, void *tables)
{
    winograd_plan *p = l->plan;
    const ptrdiff_t count = table_size(l);
    p->unit = tables, p->by_in = p->unit + count, p->by_out = p->by_in + count;
    iota(p->unit, count, 1);
    iota(p->by_in, count, kernel_padded(p->k, l->x.n[1]));
    iota(p->by_out, count, kernel_padded(p->k, l->y.n[1]));
}

/* ---- passes -------------------------------------------------------------------------------------------- */

/* The images of x, dx or y, with scratch for their pixels and tiles. */
static side side_of(const st_call *c, st_tensor images, int pixels, int tiles)
{
    const winograd_plan *p = c->plan;
    side s = { .images = images, .channels = images.shape.n[1], .reach = p->t->size, .by = p->by_out };
    s.padded = kernel_padded(p->k, tiles == X_TILES ? c->layer->x.n[1] : c->layer->y.n[1]);
    s.columns = kernel_padded(p->k, s.channels);
    s.height = images.shape.n[2];
    s.width = images.shape.n[3];
    if (tiles == X_TILES) {
        s.reach = WINOGRAD_REACH, s.by = p->by_in;
        for (int axis = 0; axis < 2; axis++) s.before[axis] = p->w.before[axis];
    }
    s.plane = plane_of(s.padded);
    s.room = st_scratch(c, pixels);
    s.pixels = st_data(s.room);
    s.tiles = st_data(st_scratch(c, tiles));
    s.outside = s.pixels + st_numel(s.room) - s.padded;
    if (s.columns > s.channels) st_fill(s.room, 0); /* the padding channels */
    for (ptrdiff_t k = 0; k < s.padded; k++) s.outside[k] = 0;
    return s;
}

/* Kernel i of `in` kernels' rows [taps, padded] in the buffer, and as rows of the matrices [places, in,
 * padded]. */
static void rows_of(ptrdiff_t taps, ptrdiff_t i, ptrdiff_t in, ptrdiff_t padded, st_real *buffer,
                    st_real *matrices, st_real *row[], st_real *element[])
{
    for (ptrdiff_t k = 0; k < taps; k++) row[k] = buffer + (i * taps + k) * padded;
    for (int f = 0; f < WINOGRAD_PLACES; f++) element[f] = matrices + (f * in + i) * padded;
}

/* The work of a pass, and its division among threads. */
typedef struct job {
    const st_call *c;
    st_tensor x, y;  /* or dx, dy */
    bool transposed; /* the weights that are transformed, */
    st_real *u;      /* to here */
    layer_division by;
    ptrdiff_t units; /* of all tiles: bands, or a gradient's parts */
    st_tensor dx;    /* which a gradient makes, too; null: without */
} job;

/* Some rows of U [places, C, O], or with `transposed` [places, O, C]. */
static void transform_rows(ptrdiff_t part, int thread, void *context)
{
    (void)thread;
    const job *j = context;
    const st_call *c = j->c;
    const winograd_plan *p = c->plan;
    const st_real *weight = st_data(c->param[CONV_WEIGHT]);
    st_real *buffer = st_data(st_scratch(c, BUFFER)), *row[WINOGRAD_TAPS], *element[WINOGRAD_PLACES];
    ptrdiff_t in = c->layer->x.n[1], out = c->layer->y.n[1], taps = (ptrdiff_t)p->t->taps * p->t->taps, count,
              first = layer_part(&j->by, part, &count);
    ptrdiff_t rows = j->transposed ? out : in, columns = j->transposed ? in : out;
    ptrdiff_t padded = kernel_padded(p->k, columns), step = j->transposed ? 1 : count;
    for (ptrdiff_t i = first; i < first + count; i += step) /* kernels are [O, C, taps] */
        kernel_transpose(p->k, columns, step * taps, weight + i * (j->transposed ? in : 1) * taps,
                         (j->transposed ? 1 : in) * taps, buffer + i * taps * padded, padded, NULL);
    for (ptrdiff_t i = first; i < first + count; i++) {
        rows_of(taps, i, rows, padded, buffer, j->u, row, element);
        for (ptrdiff_t tap = 0; tap < taps; tap++)
            for (ptrdiff_t k = columns; k < padded; k++) row[tap][k] = 0;
        p->t->weight(padded, (const st_real *const *)row, element);
    }
}

static void transform_weights(job *j)
{
    const st_layer *l = j->c->layer;
    j->by = layer_undivided(j->c);
    layer_try_axis(&j->by, 0, (j->transposed ? l->y : l->x).n[1], 1, 0);
    layer_each(j->c, MOST_THREADS, j->by.parts, transform_rows, j);
}

/* Adds the sums of the parts, in their order. */
static void add_sums(const job *j, ptrdiff_t first, ptrdiff_t count)
{
    const ptrdiff_t all = sums_of(j->c->layer);
    st_real *sum = (st_real *)st_data(st_scratch(j->c, WEIGHT_SUMS)) + first;
    for (ptrdiff_t i = 1; i < j->units; i++)
        for (ptrdiff_t k = 0; k < count; k++) sum[k] += sum[i * all + k];
}

/* dw += Gᵀ dU G of some channels of x, dU [places, C, O]. */
static void add_weights(ptrdiff_t part, int thread, void *context)
{
    (void)thread;
    const job *j = context;
    const st_call *c = j->c;
    const winograd_plan *p = c->plan;
    ptrdiff_t in = c->layer->x.n[1], out = c->layer->y.n[1], padded = kernel_padded(p->k, out),
              taps = (ptrdiff_t)p->t->taps * p->t->taps, count, first = layer_part(&j->by, part, &count),
              each = count * taps;
    st_real *weight = st_data(st_grad(c, CONV_WEIGHT)) + first * taps, *row[WINOGRAD_TAPS],
            *element[WINOGRAD_PLACES], *buffer = st_data(st_scratch(c, BUFFER)),
            *turned = st_data(st_scratch(c, WEIGHTS)) + first * taps * out,
            *sums = st_data(st_scratch(c, WEIGHT_SUMS));
    for (int f = 0; f < WINOGRAD_PLACES; f++) add_sums(j, (f * in + first) * padded, count * padded);
    if (first == 0 && conv_bias(c)) {
        st_real *bias = st_data(st_grad(c, CONV_BIAS)), *sum = sums + WINOGRAD_PLACES * in * padded;
        add_sums(j, WINOGRAD_PLACES * in * padded, padded);
        for (ptrdiff_t o = 0; o < out; o++) bias[o] += sum[o];
    }
    for (ptrdiff_t i = first; i < first + count; i++) {
        rows_of(taps, i, in, padded, buffer, sums, row, element);
        p->t->weight_adjoint(padded, (const st_real *const *)element, row);
    }
    kernel_transpose(p->k, each, out, buffer + first * taps * padded, padded, turned, each, NULL);
    for (ptrdiff_t o = 0; o < out; o++, weight += in * taps, turned += each)
        for (ptrdiff_t i = 0; i < each; i++) weight[i] += turned[i];
}

/* M [tiles, O] = V [tiles, C] U [C, O] for each place; added to the bias in WINOGRAD_WHOLE. */
static void multiply(const winograd_plan *p, const side *from, const st_real *u, side *to, ptrdiff_t count,
                     bool bias)
{
    for (int f = 0; f < WINOGRAD_PLACES; f++)
        kernel_product(p->k, count, to->columns, from->channels, from->tiles + f * from->plane, from->by,
                       p->unit, u + f * from->channels * to->padded, to->by, to->tiles + f * to->plane,
                       to->padded, bias && f == WINOGRAD_WHOLE);
}

/* The element that adds equally to all outputs begins with the bias. */
static void begin_with(const side *s, const st_real *bias, ptrdiff_t count)
{
    st_real *sum = s->tiles + WINOGRAD_WHOLE * s->plane;
    for (ptrdiff_t t = 0; t < count; t++, sum += s->padded)
        for (ptrdiff_t c = 0; c < s->padded; c++) sum[c] = c < s->channels ? bias[c] * WINOGRAD_SCALE : 0;
}

enum { OF_UNITS, OF_MADE }; /* axes */

/* The part of a thread: channels of x or dx, or of y, and units from `first` to before `end`. */
typedef struct share {
    ptrdiff_t channel, count, first, end;
} share;

static share share_of(const job *j, ptrdiff_t i, ptrdiff_t made)
{
    ptrdiff_t count, first = layer_part(&j->by, i, &count);
    return j->by.axis == OF_MADE ? (share){ first, count, 0, j->units }
                                 : (share){ 0, made, first, first + count };
}

/* The first tile of a unit. */
static ptrdiff_t tile_of(const job *j, ptrdiff_t unit)
{
    const winograd_plan *p = j->c->plan;
    return tile_of_band(p, j->c->images * bands_of(p) * unit / j->units);
}

/* Divides the units, where a part `twice` of all work is done by two threads, or the channels that are made,
 * where each thread transforms all tiles that they read. */
static void divide(job *j, ptrdiff_t made, double twice, parallel_work *part)
{
    const winograd_plan *p = j->c->plan;
    j->by = layer_undivided(j->c);
    layer_try_axis(&j->by, OF_UNITS, j->units, 1, twice);
    layer_try_axis(&j->by, OF_MADE, made, p->k->lanes, TRANSFORMS / (double)(TRANSFORMS + made));
    layer_each(j->c, MOST_THREADS, j->by.parts, part, j);
}

/* The part of all work that the tiles above a unit are. */
static double above(const job *j)
{
    const winograd_plan *p = j->c->plan;
    return 1 / (double)(j->c->images * p->rows);
}

/* From x to y, or with `transposed` from dy to dx. */
static void make_part(ptrdiff_t i, int thread, void *context)
{
    const job *j = context;
    const winograd_plan *p = j->c->plan;
    const bool back = j->transposed;
    const st_tensor made = back ? j->x : j->y;
    const share part = share_of(j, i, made.shape.n[1]);
    const ptrdiff_t begin = tile_of(j, part.first), end = tile_of(j, part.end);
    st_call c = *j->c;
    c.thread = thread;
    const st_real *bias = back ? NULL : conv_bias(&c);
    side from = side_of(&c, back ? j->y : j->x, back ? Y_PIXELS : X_PIXELS, back ? Y_TILES : X_TILES),
         to = side_of(&c, st_narrow(made, 1, part.channel, part.count), back ? DX_PIXELS : Y_PIXELS,
                      back ? X_TILES : Y_TILES);
    to.kept = begin;
    from.start = to.start = begin - (back ? tiles_above(p, begin) : 0);
    for (ptrdiff_t first = to.start, count; first < end; first += count) {
        count = smallest(BLOCK, end - first);
        transform_tiles(p, &from, back ? p->t->output_adjoint : p->t->input, false, first, count);
        if (bias) begin_with(&to, bias + part.channel, count);
        multiply(p, &from, j->u + part.channel, &to, count, bias != NULL);
        transform_tiles(p, &to, back ? p->t->input_adjoint : p->t->output, true, first, count);
    }
}

/* Weights first. */
static void make(job *j)
{
    j->units = j->c->images * bands_of(j->c->plan);
    transform_weights(j);
    divide(j, (j->transposed ? j->x : j->y).shape.n[1], j->transposed ? above(j) : 0, make_part);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    make(&(job){ c, x, y, false, st_data(st_scratch(c, WEIGHTS)) });
}

/* The sums of a part, and what they are made of. */
typedef struct sums {
    const job *j;
    share part;
    side x, dy, dx;
    st_real *buffer; /* of the thread */
} sums;

/* dU [C, O] (+)= Vᵀ [C, tiles] dM [tiles, O] for each place, and after them the bias's gradient: the element
 * that adds equally to all outputs is the sum of dy. */
static void add_products(const sums *s, st_real *du, ptrdiff_t count, bool add)
{
    const winograd_plan *p = s->j->c->plan;
    const side *x = &s->x, *dy = &s->dy;
    const ptrdiff_t each = s->j->x.shape.n[1] * dy->padded;
    st_real *to = du + s->part.channel * dy->padded, *bias = du + WINOGRAD_PLACES * each;
    for (int f = 0; f < WINOGRAD_PLACES; f++)
        kernel_product(p->k, x->channels, dy->columns, count, x->tiles + f * x->plane, p->unit, x->by,
                       dy->tiles + f * dy->plane, dy->by, to + f * each, dy->padded, add);
    if (s->part.channel > 0) return;
    const st_real *at = dy->tiles + WINOGRAD_WHOLE * dy->plane;
    for (ptrdiff_t o = 0; o < dy->padded; o++) s->buffer[o] = 0;
    for (ptrdiff_t t = 0; t < count; t++, at += dy->padded)
        for (ptrdiff_t o = 0; o < dy->padded; o++) s->buffer[o] += at[o];
    for (ptrdiff_t o = 0; o < dy->padded; o++) bias[o] = add ? bias[o] + s->buffer[o] : s->buffer[o];
}

/* Tiles from `first` to before `end`; du NULL: dx alone. */
static void sum_tiles(sums *s, ptrdiff_t first, ptrdiff_t end, st_real *du)
{
    const winograd_plan *p = s->j->c->plan;
    for (ptrdiff_t at = first, count; at < end; at += count) {
        count = smallest(BLOCK, end - at);
        transform_tiles(p, &s->dy, p->t->output_adjoint, false, at, count);
        if (du) {
            transform_tiles(p, &s->x, p->t->input, false, at, count);
            add_products(s, du, count, at > first);
        }
        if (st_is_null(s->j->dx)) continue;
        multiply(p, &s->dy, s->j->u + s->part.channel, &s->dx, count, false);
        transform_tiles(p, &s->dx, p->t->input_adjoint, true, at, count);
    }
}

/* Some parts of dU, or some channels of x of all; and of dx. */
static void sum_part(ptrdiff_t i, int thread, void *context)
{
    const job *j = context;
    const bool back = !st_is_null(j->dx);
    const share part = share_of(j, i, j->x.shape.n[1]);
    const ptrdiff_t begin = tile_of(j, part.first),
                    start = begin - (back ? tiles_above(j->c->plan, begin) : 0);
    st_real *du = st_data(st_scratch(j->c, WEIGHT_SUMS));
    st_call c = *j->c;
    c.thread = thread;
    sums s = { .j = j, .part = part, .dy = side_of(&c, j->y, Y_PIXELS, Y_TILES) };
    s.x = side_of(&c, st_narrow(j->x, 1, part.channel, part.count), X_PIXELS, X_TILES);
    if (back) s.dx = side_of(&c, st_narrow(j->dx, 1, part.channel, part.count), DX_PIXELS, X_TILES);
    s.buffer = st_data(st_scratch(&c, BUFFER));
    s.x.start = s.dx.kept = begin, s.dy.start = s.dx.start = start;
    sum_tiles(&s, start, begin, NULL);
    for (ptrdiff_t unit = part.first; unit < part.end; unit++)
        sum_tiles(&s, tile_of(j, unit), tile_of(j, unit + 1), du + unit * sums_of(j->c->layer));
}

/* dw and db; and dx, if it is not null. */
static void sum(const st_call *c, st_tensor x, st_tensor dy, st_tensor dx)
{
    const st_layer *l = c->layer;
    job j = { c,
              x,
              dy,
              true,
              st_data(st_scratch(c, WEIGHTS)),
              .units = parts_of(c->plan, c->images, sums_of(l)),
              .dx = dx };
    if (!st_is_null(dx)) transform_weights(&j);
    divide(&j, x.shape.n[1], st_is_null(dx) ? 0 : above(&j), sum_part);
    j.by = layer_undivided(c);
    layer_try_axis(&j.by, 0, x.shape.n[1], 1, 0);
    layer_each(c, MOST_THREADS, j.by.parts, add_weights, &j);
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    sum(c, x, dy, (st_tensor){ 0 });
}

static void both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    sum(c, x, dy, dx);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    make(&(job){ c, dx, dy, true, st_data(st_scratch(c, WEIGHTS)) });
}

const layer_algorithm conv_winograd = {
    .type = &layer_type_conv2d,
    .suits = suits,
    .plan = plan,
    .fill = fill,
    .hooks = { .forward = forward,
               .backward = backward,
               .gradient = gradient,
               .both = both,
               .divides = true },
};
