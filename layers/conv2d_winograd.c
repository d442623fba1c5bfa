/* conv2d_winograd.c: 3x3 convolutions at stride 1 by Winograd's F(2x2, 3x3), with 2.25 times fewer products.
 *
 * A tile of 2x2 outputs sees 4x4 inputs d. Of a single channel it is, with matrices that need additions only
 * (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015; Winograd 1980):
 *
 *     y = Aᵀ [U ⊙ V] A,   U = G w Gᵀ,   V = Bᵀ d B                 16 products instead of 36
 *
 * and of many channels, each of the 16 places f is a product of matrices: M_f = V_f U_f, V_f [tiles, C],
 * U_f [C, O]. The gradient is the adjoint of it:
 *
 *     dM = A dy Aᵀ,   dU_f += V_fᵀ dM_f,   dw += Gᵀ dU G
 *
 * and dx is what forward makes of dy with the kernels turned round and the padding 2 - padding.
 *
 * All of it is done with channels as lanes: pixels are rows of channels, a few rows of an image at a time, so that
 * tiles lie anywhere and what is outside the image is a row of zeros.
 *
 * Error: A and B hold 0 and ±1, G halves besides, so that small integers come out exactly. Otherwise the transforms
 * round a few times more and what is summed is larger than the result, but sums are 9 times shorter: measured on
 * random numbers, 16 to 128 channels, 0.8 to 1.7 times the error of im2col and BLAS. */
#include "layers/conv2d.h"
#include "tensor/counts.h"
#include "tensor/kernel.h"
#include "tensor/machine.h"

enum { X_PIXELS, Y_PIXELS, X_TILES, Y_TILES, PRODUCTS, WEIGHTS, TABLES }; /* scratch */

enum {
    PLACES = 16,    /* of a tile in Winograd's domain */
    WHOLE_TILE = 5, /* of them (1, 1), which adds to each output once */

    /* What it pays for: measured against the direct way. */
    LEAST_CHANNELS = 16,
    MOST_WEIGHTS = 1 << 18, /* channels times channels */
    MOST_SIZE = 1 << 16,    /* of an image, along either axis */
    CHUNK = 8,              /* images of a batch that may be counted on */

    BAND = 1 << 15,   /* elements: pixels at a time */
    BLOCK = 1 << 17,  /* elements: tiles at a time, on both sides */
    LEAST_TILES = 48, /* of a block: what weights that are not in cache are fetched for */
    TALL = 12,        /* a block is a multiple of it, and so of the height of any product's tile */
    CLEARANCE = 64 / sizeof(real) /* between the places' planes, which would share sets of the cache */
};

/* ---- transforms: along an axis, and from them along both ------------------------------------------------- */

#define B_TRANSPOSED(d, e) e[0] = d[0] - d[2], e[1] = d[1] + d[2], e[2] = d[2] - d[1], e[3] = d[1] - d[3]

#define A_TRANSPOSED(d, e) e[0] = d[0] + d[1] + d[2], e[1] = d[1] - d[2] - d[3]
#define A_ITSELF(d, e) e[0] = d[0], e[1] = d[0] + d[1], e[2] = d[0] - d[1], e[3] = -d[1]

#define G_ITSELF(d, e)                                                                                       \
    e[0] = d[0], e[1] = (d[0] + d[1] + d[2]) * HALF, e[2] = (d[0] - d[1] + d[2]) * HALF, e[3] = d[2]
#define G_TRANSPOSED(d, e)                                                                                   \
    e[0] = d[0] + (d[1] + d[2]) * HALF, e[1] = (d[1] - d[2]) * HALF, e[2] = (d[1] + d[2]) * HALF + d[3]

#define HALF ((real)0.5)

/* out = T in Tᵀ for each channel: `in` points to FROM x FROM rows of channels, `out` to TO x TO. */
typedef void transform(ptrdiff_t channels, const real *const in[], real *const out[]);

#define AT(type, place) (*(type *)(place))

#define TRANSFORM(M, NAME, T, FROM, TO)                                                                      \
    M##_TARGET static void M##_##NAME(ptrdiff_t channels, const real *const in[], real *const out[])         \
    {                                                                                                        \
        for (ptrdiff_t c = 0; c < channels; c += MACHINE_LANES(M)) {                                         \
            M##_vector half[TO][FROM], d[FROM], e[TO];                                                       \
            EACH(q, FROM)                                                                                    \
            {                                                                                                \
                EACH(p, FROM) d[p] = AT(const M##_loose, in[p * FROM + q] + c);                              \
                T(d, e);                                                                                     \
                EACH(i, TO) half[i][q] = e[i];                                                               \
            }                                                                                                \
            EACH(i, TO)                                                                                      \
            {                                                                                                \
                T(half[i], e);                                                                               \
                EACH(j, TO) AT(M##_loose, out[i * TO + j] + c) = e[j];                                       \
            }                                                                                                \
        }                                                                                                    \
    }

typedef struct transforms {
    int lanes;
    transform *input, *output, *output_adjoint, *weight, *weight_adjoint;
} transforms;

#define TRANSFORMS(M)                                                                                        \
    TRANSFORM(M, input, B_TRANSPOSED, 4, 4)                                                                  \
    TRANSFORM(M, output, A_TRANSPOSED, 4, 2)                                                                 \
    TRANSFORM(M, output_adjoint, A_ITSELF, 2, 4)                                                             \
    TRANSFORM(M, weight, G_ITSELF, 3, 4)                                                                     \
    TRANSFORM(M, weight_adjoint, G_TRANSPOSED, 4, 3)

#define TABLE(M)                                                                                             \
    { MACHINE_LANES(M), M##_input, M##_output, M##_output_adjoint, M##_weight, M##_weight_adjoint },

EACH_MACHINE(TRANSFORMS)
static const transforms machines[] = { EACH_MACHINE(TABLE) };

static const transforms *transforms_for(const kernel *k)
{
    const transforms *t = machines;
    while (t->lanes != k->lanes) t++;
    return t;
}

/* ---- the two sides of a convolution ---------------------------------------------------------------------- */

/* Images cut into tiles of reach x reach pixels, 2 apart, the first of which begins `before` the image. In scratch
 * lie the pixels of a band of rows, and a block of tiles in Winograd's domain. */
typedef struct side {
    tensor images; /* [N, channels, H, W] */
    ptrdiff_t channels, padded, height, width, reach, before[2];
    tensor room;
    real *pixels;  /* [rows, W, padded] from row `top` on, in the room for it */
    real *outside; /* a pixel that is nowhere: zeros, or what is dropped */
    ptrdiff_t top;
    real *tiles; /* [16, tiles, padded], the 16 `plane` apart */
    ptrdiff_t plane;
} side;

/* A pass over all tiles, which two sides have in common: those of 4x4 pixels, and of 2x2. */
typedef struct pass {
    const kernel *k;
    const transforms *t;
    side wide, narrow;
    ptrdiff_t rows, columns, count;        /* tiles of an image, and of all images */
    ptrdiff_t band, block;                 /* rows of tiles of a band; tiles of a block */
    ptrdiff_t *unit, *by_wide, *by_narrow; /* tables of multiples: of 1, wide.padded, narrow.padded */
    real *products;                        /* [16, ...] */
} pass;

/* ---- places of tiles -------------------------------------------------------------------------------------- */

/* A tile's place. */
typedef struct place {
    ptrdiff_t image, row, column;
} place;

static place place_of(const pass *p, ptrdiff_t number)
{
    ptrdiff_t row = number / p->columns;
    return (place){ row / p->rows, row % p->rows, number % p->columns };
}

static place after(const pass *p, place at)
{
    if (++at.column < p->columns) return at;
    at.column = 0;
    if (++at.row < p->rows) return at;
    at.row = 0;
    at.image++;
    return at;
}

static bool opens_band(const pass *p, place at)
{
    return at.column == 0 && at.row % p->band == 0;
}

static bool closes_band(const pass *p, place at)
{
    return at.column == p->columns - 1 && ((at.row + 1) % p->band == 0 || at.row == p->rows - 1);
}

/* ---- pixels: [C, H, W] to [H, W, C] and back ------------------------------------------------------------- */

/* to[j][i] = from[i][j], in squares, of which the last ones cover some once more. */
static void transpose(const kernel *k, ptrdiff_t rows, ptrdiff_t columns, const real *from, ptrdiff_t step,
                      real *to, ptrdiff_t pitch)
{
    enum { AHEAD = 2 }; /* squares fetched ahead, from or for images that are not in cache */
    ptrdiff_t lanes = k->lanes;
    if (rows < lanes || columns < lanes) {
        for (ptrdiff_t j = 0; j < columns; j++)
            for (ptrdiff_t i = 0; i < rows; i++) to[j * pitch + i] = from[i * step + j];
        return;
    }
    bool wide = columns > rows; /* few rows at a time are read or written, which caches foresee */
    for (ptrdiff_t a = 0; a < smallest(rows, columns); a += lanes)
        for (ptrdiff_t b = 0; b < largest(rows, columns); b += lanes) {
            ptrdiff_t row = smallest(wide ? a : b, rows - lanes),
                      column = smallest(wide ? b : a, columns - lanes);
            const real *at = from + row * step + column;
            real *turned = to + column * pitch + row;
            for (ptrdiff_t r = 0; r < lanes; r++)
                if (wide) __builtin_prefetch(at + r * step + AHEAD * lanes);
                else __builtin_prefetch(turned + r * pitch + AHEAD * lanes, 1);
            k->turn(at, step, turned, pitch);
        }
}

/* Turns to the band of rows that holds a tile: sets its top and returns its height. */
static ptrdiff_t turn_to(const pass *p, side *s, place at)
{
    ptrdiff_t first = at.row - at.row % p->band, last = smallest(first + p->band, p->rows) - 1;
    s->top = largest(2 * first - s->before[0], 0);
    return smallest(2 * last - s->before[0] + s->reach, s->height) - s->top;
}

static void take_band(const pass *p, side *s, place at)
{
    ptrdiff_t rows = turn_to(p, s, at), width = s->width;
    tensor from = tensor_select(s->images, 0, at.image);
    if (tensor_is_contiguous(from)) {
        transpose(p->k, s->channels, rows * width, tensor_data(from) + s->top * width, s->height * width,
                  s->pixels, s->padded);
    } else {
        tensor to = s->room;
        to.shape = SHAPE(s->channels, rows, width);
        to.stride[0] = 1, to.stride[1] = width * s->padded, to.stride[2] = s->padded;
        tensor_copy(to, tensor_narrow(from, 1, s->top, rows));
    }
}

static void give_band(const pass *p, side *s, place at)
{
    ptrdiff_t rows = turn_to(p, s, at), width = s->width;
    transpose(p->k, rows * width, s->channels, s->pixels, s->padded,
              tensor_data(tensor_select(s->images, 0, at.image)) + s->top * width, s->height * width);
}

/* ---- tiles ----------------------------------------------------------------------------------------------- */

static bool is_inner(const side *s, place at)
{
    ptrdiff_t h = 2 * at.row - s->before[0], w = 2 * at.column - s->before[1];
    return h >= 0 && h + s->reach <= s->height && w >= 0 && w + s->reach <= s->width;
}

static void pixels_of(const side *s, place at, real *pixel[])
{
    ptrdiff_t h = 2 * at.row - s->before[0], w = 2 * at.column - s->before[1];
    for (ptrdiff_t i = h; i < h + s->reach; i++)
        for (ptrdiff_t j = w; j < w + s->reach; j++) {
            bool inside = i >= 0 && i < s->height && j >= 0 && j < s->width;
            ptrdiff_t offset = ((i - s->top) * s->width + j) * s->padded;
            *pixel++ = inside ? s->pixels + offset : s->outside;
        }
}

static void places_of(const side *s, real *tile[])
{
    for (int f = 0; f < PLACES; f++) tile[f] = s->tiles + f * s->plane;
}

static void move(real *at[], ptrdiff_t count, ptrdiff_t by)
{
    for (ptrdiff_t i = 0; i < count; i++) at[i] += by;
}

/* The pixels of a tile. From one that is all in the image to such a one on its right is but a step. */
static bool move_pixels(const side *s, place at, bool from_inner, real *pixel[])
{
    bool inner = is_inner(s, at);
    if (inner && from_inner && at.column > 0) move(pixel, s->reach * s->reach, 2 * s->padded);
    else pixels_of(s, at, pixel);
    return inner;
}

/* Tiles number `first` and so on from their pixels into Winograd's domain. */
static void take_tiles(const pass *p, side *s, transform *into, ptrdiff_t first, ptrdiff_t count)
{
    real *pixel[PLACES], *tile[PLACES];
    place at = place_of(p, first);
    bool inner = false;
    places_of(s, tile);
    for (; count > 0; count--, at = after(p, at), move(tile, PLACES, s->padded)) {
        if (opens_band(p, at)) take_band(p, s, at);
        inner = move_pixels(s, at, inner, pixel);
        into(s->padded, (const real *const *)pixel, tile);
    }
}

/* And back. */
static void give_tiles(const pass *p, side *s, transform *back, ptrdiff_t first, ptrdiff_t count)
{
    real *pixel[PLACES], *tile[PLACES];
    place at = place_of(p, first);
    bool inner = false;
    places_of(s, tile);
    for (; count > 0; count--, at = after(p, at), move(tile, PLACES, s->padded)) {
        if (opens_band(p, at)) turn_to(p, s, at);
        inner = move_pixels(s, at, inner, pixel);
        back(s->padded, (const real *const *)tile, pixel);
        if (closes_band(p, at)) give_band(p, s, at);
    }
}

/* ---- scratch --------------------------------------------------------------------------------------------- */

/* Rows of tiles of a band, of which none of the four sides has more elements a row than these. */
static ptrdiff_t band_rows(const layer *l, const window *w, ptrdiff_t in, ptrdiff_t out)
{
    ptrdiff_t row =
        largest(w->size[1] * kernel_padded(l->kernel, in), w->out[1] * kernel_padded(l->kernel, out));
    return largest(BAND / row / 2 - 1, 1);
}

static ptrdiff_t block_tiles(const layer *l, ptrdiff_t in, ptrdiff_t out)
{
    ptrdiff_t row = PLACES * (kernel_padded(l->kernel, in) + kernel_padded(l->kernel, out));
    return largest(BLOCK / row, LEAST_TILES) / TALL * TALL;
}

static ptrdiff_t plane_of(const layer *l, ptrdiff_t channels, ptrdiff_t block)
{
    return block * kernel_padded(l->kernel, channels) + CLEARANCE;
}

static ptrdiff_t table_size(ptrdiff_t in, ptrdiff_t out, ptrdiff_t block)
{
    return largest(block, largest(in, out));
}

/* Channels enough, which mostly fill their vectors. */
static bool fills(const layer *l, ptrdiff_t channels)
{
    return channels >= LEAST_CHANNELS && 4 * channels >= 3 * kernel_padded(l->kernel, channels);
}

static bool suits(const layer *l, const window *w, shape x)
{
    const conv2d *o = l->options;
    ptrdiff_t in = x.n[1], out = o->out_channels, tiles = smallest(x.n[0], CHUNK);
    for (int axis = 0; axis < 2; axis++) {
        if (w->kernel[axis] != 3 || w->stride[axis] != 1 || w->dilation[axis] != 1) return false;
        if (w->before[axis] > 2 || w->out[axis] < 2 || w->out[axis] > MOST_SIZE) return false;
        tiles *= (w->out[axis] + 1) / 2;
    }
    bool kernels = o->groups == 1 && fills(l, in) && fills(l, out) && in <= MOST_WEIGHTS / out;
    return kernels && tiles >= LEAST_TILES;
}

static int plan(layer *l, const window *w, shape x)
{
    ptrdiff_t in = x.n[1], out = ((const conv2d *)l->options)->out_channels;
    ptrdiff_t in_padded = kernel_padded(l->kernel, in), out_padded = kernel_padded(l->kernel, out);
    ptrdiff_t block = block_tiles(l, in, out), rows = 2 * band_rows(l, w, in, out) + 2;
    ptrdiff_t in_pixels = smallest(rows, w->size[0]) * w->size[1] + 1;
    ptrdiff_t out_pixels = smallest(rows, w->out[0]) * w->out[1] + 1;
    ptrdiff_t weights = largest(in * out_padded, out * in_padded);
    ptrdiff_t tables =
        3 * table_size(in, out, block) * (ptrdiff_t)((sizeof(ptrdiff_t) + sizeof(real) - 1) / sizeof(real));
    if (layer_scratch(l, SHAPE(in_pixels, in_padded)) || layer_scratch(l, SHAPE(out_pixels, out_padded)) ||
        layer_scratch(l, SHAPE(PLACES, plane_of(l, in, block))) ||
        layer_scratch(l, SHAPE(PLACES, plane_of(l, out, block))))
        return -1;
    if (layer_scratch(l, SHAPE(PLACES, weights)) || layer_scratch(l, SHAPE(9, weights))) return -1;
    return layer_scratch(l, SHAPE(tables));
}

/* ---- passes ---------------------------------------------------------------------------------------------- */

/* The side of x and dx (`out` false), or of y and dy. */
static side side_of(const layer *l, bool out, tensor images, ptrdiff_t block)
{
    side s = { .images = images, .channels = images.shape.n[1] };
    s.padded = kernel_padded(l->kernel, s.channels);
    s.height = images.shape.n[2];
    s.width = images.shape.n[3];
    s.reach = 2;
    s.plane = plane_of(l, s.channels, block);
    s.room = l->scratch[out ? Y_PIXELS : X_PIXELS];
    s.pixels = tensor_data(s.room);
    s.tiles = tensor_data(l->scratch[out ? Y_TILES : X_TILES]);
    s.outside = s.pixels + tensor_count(s.room) - s.padded;
    if (s.padded > s.channels) tensor_fill(s.room, 0); /* channels that are none */
    for (ptrdiff_t c = 0; c < s.padded; c++) s.outside[c] = 0;
    return s;
}

static void widen(side *s, ptrdiff_t above, ptrdiff_t left)
{
    s->reach = 4;
    s->before[0] = above;
    s->before[1] = left;
}

static ptrdiff_t *multiples(ptrdiff_t *table, ptrdiff_t count, ptrdiff_t of)
{
    for (ptrdiff_t i = 0; i < count; i++) table[i] = i * of;
    return table;
}

static pass pass_over(const layer *l, const window *w, tensor x, tensor y, bool back)
{
    ptrdiff_t in = x.shape.n[1], out = y.shape.n[1], block = block_tiles(l, in, out);
    side of_x = side_of(l, false, x, block), of_y = side_of(l, true, y, block);
    if (back) widen(&of_y, 2 - w->before[0], 2 - w->before[1]);
    else widen(&of_x, w->before[0], w->before[1]);
    pass p = { .k = l->kernel, .t = transforms_for(l->kernel), .block = block };
    p.wide = back ? of_y : of_x;
    p.narrow = back ? of_x : of_y;
    p.rows = (p.narrow.height + 1) / 2;
    p.columns = (p.narrow.width + 1) / 2;
    p.count = x.shape.n[0] * p.rows * p.columns;
    p.band = band_rows(l, w, in, out);
    p.products = tensor_data(l->scratch[PRODUCTS]);
    ptrdiff_t size = table_size(in, out, block),
              *tables = (ptrdiff_t *)(void *)tensor_data(l->scratch[TABLES]);
    p.unit = multiples(tables, size, 1);
    p.by_wide = multiples(tables + size, size, p.wide.padded);
    p.by_narrow = multiples(tables + 2 * size, size, p.narrow.padded);
    return p;
}

/* U [16, C, O]: kernel (o, c) is at weight[o * step + c * pitch], turned round where `back`. */
static void transform_weights(const pass *p, const real *weight, real *buffer, bool back)
{
    ptrdiff_t in = p->wide.channels, out = p->narrow.channels, padded = p->narrow.padded;
    if (back) {
        for (ptrdiff_t c = 0; c < in; c++) /* [in, out, 9] */
            for (int k = 0; k < 9; k++)
                for (ptrdiff_t o = 0; o < out; o++)
                    buffer[(c * 9 + 8 - k) * padded + o] = weight[(c * out + o) * 9 + k];
    } else {
        transpose(p->k, out, in * 9, weight, in * 9, buffer, padded);
    }
    for (ptrdiff_t c = 0; c < in; c++) {
        real *row[9], *tile[PLACES];
        for (int k = 0; k < 9; k++) {
            row[k] = buffer + (c * 9 + k) * padded;
            for (ptrdiff_t o = out; o < padded; o++) row[k][o] = 0;
        }
        for (int f = 0; f < PLACES; f++) tile[f] = p->products + (f * in + c) * padded;
        p->t->weight(padded, (const real *const *)row, tile);
    }
}

/* dw += Gᵀ dU G, dU [16, C, O], which is lost. */
static void add_weights(const pass *p, real *weight, real *buffer)
{
    ptrdiff_t in = p->wide.channels, out = p->narrow.channels, padded = p->narrow.padded;
    for (ptrdiff_t c = 0; c < in; c++) {
        real *row[9], *tile[PLACES];
        for (int k = 0; k < 9; k++) row[k] = buffer + (c * 9 + k) * padded;
        for (int f = 0; f < PLACES; f++) tile[f] = p->products + (f * in + c) * padded;
        p->t->weight_adjoint(padded, (const real *const *)tile, row);
    }
    transpose(p->k, in * 9, out, buffer, padded, p->products, in * 9);
    for (ptrdiff_t i = 0; i < out * in * 9; i++) weight[i] += p->products[i];
}

/* Sums of the place that adds to each output once begin with the bias. */
static void begin_with(const side *s, const real *bias, ptrdiff_t count)
{
    real *sum = s->tiles + WHOLE_TILE * s->plane;
    for (ptrdiff_t t = 0; t < count; t++, sum += s->padded)
        for (ptrdiff_t c = 0; c < s->padded; c++) sum[c] = c < s->channels ? bias[c] : 0;
}

static void convolve(const layer *l, pass *p, const real *bias, bool back)
{
    side *x = &p->wide, *y = &p->narrow;
    transform_weights(p, tensor_data(l->param[CONV2D_WEIGHT]), tensor_data(l->scratch[WEIGHTS]), back);
    for (ptrdiff_t first = 0; first < p->count; first += p->block) {
        ptrdiff_t count = smallest(p->block, p->count - first);
        take_tiles(p, x, p->t->input, first, count);
        if (bias) begin_with(y, bias, count);
        for (int f = 0; f < PLACES; f++) /* M [tiles, O] (+)= V [tiles, C] U [C, O] */
            kernel_product(p->k, count, y->padded, x->channels, x->tiles + f * x->plane, p->by_wide, p->unit,
                           p->products + f * x->channels * y->padded, p->by_narrow, y->tiles + f * y->plane,
                           y->padded, bias && f == WHOLE_TILE);
        give_tiles(p, y, p->t->output, first, count);
    }
}

static void forward(layer *l, const window *w, tensor x, tensor y)
{
    pass p = pass_over(l, w, x, y, false);
    convolve(l, &p, conv2d_bias(l), false);
}

static void backward(layer *l, const window *w, tensor dy, tensor dx)
{
    pass p = pass_over(l, w, dx, dy, true);
    convolve(l, &p, NULL, true);
}

static void gradient(layer *l, const window *w, tensor images, tensor dy)
{
    pass p = pass_over(l, w, images, dy, false);
    side *x = &p.wide, *y = &p.narrow;
    for (ptrdiff_t first = 0; first < p.count; first += p.block) {
        ptrdiff_t count = smallest(p.block, p.count - first);
        take_tiles(&p, x, p.t->input, first, count);
        take_tiles(&p, y, p.t->output_adjoint, first, count);
        for (int f = 0; f < PLACES; f++) /* dU [C, O] (+)= Vᵀ [C, tiles] dM [tiles, O] */
            kernel_product(p.k, x->channels, y->padded, count, x->tiles + f * x->plane, p.unit, p.by_wide,
                           y->tiles + f * y->plane, p.by_narrow, p.products + f * x->channels * y->padded,
                           y->padded, first > 0);
    }
    add_weights(&p, tensor_data(l->grad[CONV2D_WEIGHT]), tensor_data(l->scratch[WEIGHTS]));
}

const conv2d_method conv2d_winograd = {
    .suits = suits,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};
