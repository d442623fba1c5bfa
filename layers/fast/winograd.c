/* winograd.c: 3x3 convolutions with stride 1 by Winograd's F(4x4, 3x3), with 4 times fewer multiplications.
 *
 * With many channels, each element f of a tile in Winograd's domain (winograd.h) is a matrix product: M_f =
 * V_f U_f, V_f [tiles, C], U_f [C, O]. The gradient is its adjoint:
 *
 *     dM = A dy Aᵀ,   dU_f += V_fᵀ dM_f,   dw += Gᵀ dU G / 9
 *
 * and dx is a forward pass of dy with rotated kernels and the padding 2 - padding.
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
 *     F(4x4)          8.6 - 10    11  - 15    11  - 28     */
#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/winograd.h"
#include "tensor/counts.h"

enum { X_PIXELS, Y_PIXELS, X_TILES, Y_TILES, PRODUCTS, WEIGHTS }; /* scratch */

enum {
    /* Measured against direct convolution. */
    LEAST_CHANNELS = 16,
    TILES_OF_WEIGHTS = 20,  /* cost as much time as transforming and loading the weights */
    MOST_WEIGHTS = 1 << 18, /* channels times channels */
    MOST_SIZE = 1 << 16,    /* of an image, along either axis */
    CHUNK = 8,              /* images that a batch is assumed to have */

    BAND = 1 << 15, /* elements: pixels at a time */
    BLOCK = 48,     /* tiles at a time, so that loading weights pays; a multiple of every product's height */
    CLEARANCE = 64 / sizeof(st_real) /* between planes, which would otherwise share cache sets */
};

/* ---- the two sides of a convolution ---------------------------------------------------------------------- */

/* Images divided into tiles of reach x reach pixels, WINOGRAD_SIZE apart; the first begins `before` pixels
 * outside. Scratch holds the pixels of a band of rows, and a block of tiles in Winograd's domain. */
typedef struct side {
    st_tensor images; /* [N, channels, H, W] */
    ptrdiff_t channels, padded, height, width, reach, before[2];
    st_tensor room;
    st_real *pixels;  /* [rows, W, padded] of an image, rows `top` to `bottom` */
    st_real *outside; /* a pixel outside the image: zeros, or values to be dropped */
    ptrdiff_t top, bottom;
    st_real *tiles; /* [places, tiles, padded], the places `plane` apart */
    ptrdiff_t plane;
} side;

/* Tables: the multiples of 1, and of the padded channels of x and of y. */
typedef struct winograd_plan {
    window w; /* as in conv_plan */
    const kernel *k;
    const winograd *t;
    ptrdiff_t *unit, *by_in, *by_out;
    ptrdiff_t table[];
} winograd_plan;

/* A pass over all tiles of its two sides, input and output. */
typedef struct pass {
    const winograd_plan *plan;
    side wide, narrow;
    const ptrdiff_t *by_wide, *by_narrow; /* the plan's tables */
    ptrdiff_t rows, columns, count;       /* tiles of an image, and of all images */
    ptrdiff_t band;                       /* rows of tiles */
    st_real *products;                    /* [places, ...] */
} pass;

/* ---- places of tiles -------------------------------------------------------------------------------------- */

/* A tile's position. */
typedef struct place {
    ptrdiff_t image, row, column;
} place;

static place place_of(const pass *p, ptrdiff_t number)
{
    ptrdiff_t row = number / p->columns;
    return (place){ row / p->rows, row % p->rows, number % p->columns };
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

/* Moves to the band of rows with a tile. */
static void move_to_band(const pass *p, side *s, place at)
{
    ptrdiff_t first = at.row - at.row % p->band, last = smallest(first + p->band, p->rows) - 1;
    s->top = largest(WINOGRAD_SIZE * first - s->before[0], 0);
    s->bottom = smallest(WINOGRAD_SIZE * last - s->before[0] + s->reach, s->height);
}

static void take_band(const pass *p, side *s, place at)
{
    move_to_band(p, s, at);
    ptrdiff_t top = s->top, rows = s->bottom - top, width = s->width;
    st_tensor from = st_select(s->images, 0, at.image), to = s->room;
    if (st_is_contiguous(from)) {
        kernel_transpose(p->plan->k, s->channels, rows * width, st_data(from) + top * width,
                         s->height * width, st_data(to), s->padded, NULL);
    } else {
        to.shape = ST_SHAPE(s->channels, rows, width);
        to.stride[0] = 1, to.stride[1] = width * s->padded, to.stride[2] = s->padded;
        st_copy(to, st_narrow(from, 1, top, rows));
    }
}

static void give_band(const pass *p, side *s, place at)
{
    kernel_transpose(p->plan->k, (s->bottom - s->top) * s->width, s->channels, s->pixels, s->padded,
                     st_data(st_select(s->images, 0, at.image)) + s->top * s->width, s->height * s->width,
                     NULL);
}

/* ---- tiles ----------------------------------------------------------------------------------------------- */

static void pixels_of(const side *s, place at, st_real *pixel[])
{
    ptrdiff_t h = WINOGRAD_SIZE * at.row - s->before[0], w = WINOGRAD_SIZE * at.column - s->before[1];
    for (ptrdiff_t i = h; i < h + s->reach; i++)
        for (ptrdiff_t j = w; j < w + s->reach; j++) {
            bool inside = i >= 0 && i < s->height && j >= 0 && j < s->width;
            ptrdiff_t offset = ((i - s->top) * s->width + j) * s->padded;
            *pixel++ = inside ? s->pixels + offset : s->outside;
        }
}

static void tile_of(const side *s, ptrdiff_t number, st_real *element[])
{
    for (int f = 0; f < WINOGRAD_PLACES; f++) element[f] = s->tiles + f * s->plane + number * s->padded;
}

/* Transforms tiles from number `first` on into Winograd's domain. */
static void take_tiles(const pass *p, side *s, winograd_transform *into, ptrdiff_t first, ptrdiff_t count)
{
    st_real *pixel[WINOGRAD_PLACES], *element[WINOGRAD_PLACES];
    for (ptrdiff_t t = 0; t < count; t++) {
        place at = place_of(p, first + t);
        if (opens_band(p, at)) take_band(p, s, at);
        pixels_of(s, at, pixel);
        tile_of(s, t, element);
        into(s->padded, (const st_real *const *)pixel, element);
    }
}

/* The inverse, to outputs. */
static void give_tiles(const pass *p, side *s, ptrdiff_t first, ptrdiff_t count)
{
    st_real *pixel[WINOGRAD_PLACES], *element[WINOGRAD_PLACES];
    for (ptrdiff_t t = 0; t < count; t++) {
        place at = place_of(p, first + t);
        if (opens_band(p, at)) move_to_band(p, s, at);
        pixels_of(s, at, pixel);
        tile_of(s, t, element);
        p->plan->t->output(s->padded, (const st_real *const *)element, pixel);
        if (closes_band(p, at)) give_band(p, s, at);
    }
}

/* ---- scratch --------------------------------------------------------------------------------------------- */

/* The number of rows of tiles in a band, by the largest row of all four sides. */
static ptrdiff_t band_rows(const kernel *k, const window *w, ptrdiff_t in, ptrdiff_t out)
{
    ptrdiff_t row = largest(w->size[1] * kernel_padded(k, in), w->out[1] * kernel_padded(k, out));
    return largest((BAND / row - 2) / WINOGRAD_SIZE, 1);
}

static ptrdiff_t plane_of(ptrdiff_t padded)
{
    return BLOCK * padded + CLEARANCE;
}

/* Tests if there are enough channels to fill most of their vectors. */
static bool fills(const kernel *k, ptrdiff_t channels)
{
    return channels >= LEAST_CHANNELS && 4 * channels >= 3 * kernel_padded(k, channels);
}

/* Tests if tiles need fewer multiplications than a direct convolution, with those for weights and for outputs
 * beyond the border, in as many images as a batch is assumed to have. */
static bool pays(const window *w, st_shape x)
{
    const ptrdiff_t images = smallest(x.n[0], CHUNK), size = WINOGRAD_SIZE,
                    tiles = images * ceil_div(w->out[0], size) * ceil_div(w->out[1], size);
    return WINOGRAD_PLACES * (tiles + TILES_OF_WEIGHTS) < 9 * images * w->out[0] * w->out[1];
}

static bool suits(const st_layer *l)
{
    const window *w = &((const conv_plan *)l->plan)->w;
    const kernel *k = kernel_of(l);
    ptrdiff_t in = l->x.n[1], out = l->y.n[1];
    for (int axis = 0; axis < 2; axis++) {
        if (w->kernel[axis] != 3 || w->stride[axis] != 1 || w->dilation[axis] != 1) return false;
        if (w->before[axis] > 2 || w->after[axis] > 2 || w->out[axis] > MOST_SIZE) return false;
    }
    bool kernels = ((const st_conv2d_options *)l->options)->groups == 1 && fills(k, in) && fills(k, out) &&
                   in <= MOST_WEIGHTS / out;
    return kernels && pays(w, l->x);
}

static int plan(st_layer *l, const void *given)
{
    const window w = ((const conv_plan *)given)->w;
    const kernel *k = kernel_of(l);
    ptrdiff_t in = l->x.n[1], out = l->y.n[1];
    ptrdiff_t in_padded = kernel_padded(k, in), out_padded = kernel_padded(k, out);
    ptrdiff_t rows = WINOGRAD_SIZE * band_rows(k, &w, in, out) + 2;
    ptrdiff_t in_pixels = smallest(rows, w.size[0]) * w.size[1] + 1;
    ptrdiff_t out_pixels = smallest(rows, w.out[0]) * w.out[1] + 1;
    ptrdiff_t weights = largest(in * out_padded, out * in_padded), count = largest(BLOCK, largest(in, out));
    winograd_plan *p = st_layer_plan_data(l, sizeof *p + 3 * (size_t)count * sizeof *p->table);
    if (!p) return -1;
    *p = (winograd_plan){ .w = w, .k = k, .t = &winograd_of_machine[l->impl->machine] };
    iota(p->unit = p->table, count, 1);
    iota(p->by_in = p->table + count, count, in_padded);
    iota(p->by_out = p->table + 2 * count, count, out_padded);
    const st_shape scratch[] = { ST_SHAPE(in_pixels, in_padded),
                                 ST_SHAPE(out_pixels, out_padded),
                                 ST_SHAPE(WINOGRAD_PLACES, plane_of(in_padded)),
                                 ST_SHAPE(WINOGRAD_PLACES, plane_of(out_padded)),
                                 ST_SHAPE(WINOGRAD_PLACES, weights),
                                 ST_SHAPE(9, weights) };
    for (int i = 0; i <= WEIGHTS; i++)
        if (st_layer_scratch(l, scratch[i])) return -1;
    return 0;
}

/* ---- passes ---------------------------------------------------------------------------------------------- */

/* The tiles of x or dx (`out` false), or of y or dy (`out` true). */
static side side_of(const st_call *c, bool out, st_tensor images)
{
    const winograd_plan *plan = c->plan;
    side s = { .images = images, .channels = images.shape.n[1] };
    s.padded = kernel_padded(plan->k, s.channels);
    s.height = images.shape.n[2];
    s.width = images.shape.n[3];
    s.reach = WINOGRAD_SIZE;
    s.plane = plane_of(s.padded);
    s.room = st_scratch(c, out ? Y_PIXELS : X_PIXELS);
    s.pixels = st_data(s.room);
    s.tiles = st_data(st_scratch(c, out ? Y_TILES : X_TILES));
    s.outside = s.pixels + st_numel(s.room) - s.padded;
    if (s.padded > s.channels) st_fill(s.room, 0); /* the padding channels */
    for (ptrdiff_t k = 0; k < s.padded; k++) s.outside[k] = 0;
    return s;
}

static pass pass_over(const st_call *c, st_tensor x, st_tensor y, bool back)
{
    const winograd_plan *plan = c->plan;
    const ptrdiff_t *before = plan->w.before;
    pass p = { .plan = plan,
               .wide = side_of(c, back, back ? y : x),
               .narrow = side_of(c, !back, back ? x : y) };
    p.wide.reach += 2;
    for (int axis = 0; axis < 2; axis++) p.wide.before[axis] = back ? 2 - before[axis] : before[axis];
    p.by_wide = back ? plan->by_out : plan->by_in;
    p.by_narrow = back ? plan->by_in : plan->by_out;
    p.rows = ceil_div(p.narrow.height, WINOGRAD_SIZE);
    p.columns = ceil_div(p.narrow.width, WINOGRAD_SIZE);
    p.count = x.shape.n[0] * p.rows * p.columns;
    p.band = band_rows(plan->k, &plan->w, x.shape.n[1], y.shape.n[1]);
    p.products = st_data(st_scratch(c, PRODUCTS));
    return p;
}

/* The rows [O] of input channel c: in `buffer` [C, 9, O], and in the products [places, C, O]. */
static void weights_of(const pass *p, ptrdiff_t c, st_real *buffer, st_real *row[], st_real *element[])
{
    ptrdiff_t in = p->wide.channels, padded = p->narrow.padded;
    for (int k = 0; k < 9; k++) row[k] = buffer + (c * 9 + k) * padded;
    for (int f = 0; f < WINOGRAD_PLACES; f++) element[f] = p->products + (f * in + c) * padded;
}

/* U [places, C, O]: kernel (o, c) is at weight[o * step + c * pitch], rotated if `back`. */
static void transform_weights(const pass *p, const st_real *weight, st_real *buffer, bool back)
{
    ptrdiff_t in = p->wide.channels, out = p->narrow.channels, padded = p->narrow.padded;
    if (back) {
        for (ptrdiff_t c = 0; c < in; c++) /* [in, out, 9] */
            for (int k = 0; k < 9; k++)
                for (ptrdiff_t o = 0; o < out; o++)
                    buffer[(c * 9 + 8 - k) * padded + o] = weight[(c * out + o) * 9 + k];
    } else {
        kernel_transpose(p->plan->k, out, in * 9, weight, in * 9, buffer, padded, NULL);
    }
    for (ptrdiff_t c = 0; c < in; c++) {
        st_real *row[9], *element[WINOGRAD_PLACES];
        weights_of(p, c, buffer, row, element);
        for (int k = 0; k < 9; k++)
            for (ptrdiff_t o = out; o < padded; o++) row[k][o] = 0;
        p->plan->t->weight(padded, (const st_real *const *)row, element);
    }
}

/* dw += Gᵀ dU G, dU [places, C, O]; overwrites dU. */
static void add_weights(const pass *p, st_real *weight, st_real *buffer)
{
    ptrdiff_t in = p->wide.channels, out = p->narrow.channels, padded = p->narrow.padded;
    for (ptrdiff_t c = 0; c < in; c++) {
        st_real *row[9], *element[WINOGRAD_PLACES];
        weights_of(p, c, buffer, row, element);
        p->plan->t->weight_adjoint(padded, (const st_real *const *)element, row);
    }
    kernel_transpose(p->plan->k, in * 9, out, buffer, padded, p->products, in * 9, NULL);
    for (ptrdiff_t i = 0; i < out * in * 9; i++) weight[i] += p->products[i];
}

/* The element that adds equally to all outputs begins with the bias. */
static void begin_with(const side *s, const st_real *bias, ptrdiff_t count)
{
    st_real *sum = s->tiles + WINOGRAD_WHOLE * s->plane;
    for (ptrdiff_t t = 0; t < count; t++, sum += s->padded)
        for (ptrdiff_t c = 0; c < s->padded; c++) sum[c] = c < s->channels ? bias[c] * WINOGRAD_SCALE : 0;
}

static void convolve(const st_call *c, pass *p, const st_real *bias, bool back)
{
    side *x = &p->wide, *y = &p->narrow;
    transform_weights(p, st_data(c->param[CONV_WEIGHT]), st_data(st_scratch(c, WEIGHTS)), back);
    for (ptrdiff_t first = 0; first < p->count; first += BLOCK) {
        ptrdiff_t count = smallest(BLOCK, p->count - first);
        take_tiles(p, x, p->plan->t->input, first, count);
        if (bias) begin_with(y, bias, count);
        for (int f = 0; f < WINOGRAD_PLACES; f++) /* M [tiles, O] (+)= V [tiles, C] U [C, O] */
            kernel_product(p->plan->k, count, y->padded, x->channels, x->tiles + f * x->plane, p->by_wide,
                           p->plan->unit, p->products + f * x->channels * y->padded, p->by_narrow,
                           y->tiles + f * y->plane, y->padded, bias && f == WINOGRAD_WHOLE);
        give_tiles(p, y, first, count);
    }
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    pass p = pass_over(c, x, y, false);
    convolve(c, &p, conv_bias(c), false);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    pass p = pass_over(c, dx, dy, true);
    convolve(c, &p, NULL, true);
}

/* The element that adds equally to all outputs is the sum of dy. */
static void add_bias(const side *s, st_real *bias, st_real *buffer, ptrdiff_t count)
{
    const st_real *sum = s->tiles + WINOGRAD_WHOLE * s->plane;
    for (ptrdiff_t c = 0; c < s->channels; c++) buffer[c] = 0;
    for (ptrdiff_t t = 0; t < count; t++, sum += s->padded)
        for (ptrdiff_t c = 0; c < s->channels; c++) buffer[c] += sum[c];
    for (ptrdiff_t c = 0; c < s->channels; c++) bias[c] += buffer[c];
}

static void gradient(const st_call *c, st_tensor images, st_tensor output, st_tensor dy)
{
    (void)output;
    pass p = pass_over(c, images, dy, false);
    side *x = &p.wide, *y = &p.narrow;
    st_real *buffer = st_data(st_scratch(c, WEIGHTS));
    for (ptrdiff_t first = 0; first < p.count; first += BLOCK) {
        ptrdiff_t count = smallest(BLOCK, p.count - first);
        take_tiles(&p, x, p.plan->t->input, first, count);
        take_tiles(&p, y, p.plan->t->output_adjoint, first, count);
        if (conv_bias(c)) add_bias(y, st_data(st_grad(c, CONV_BIAS)), buffer, count);
        for (int f = 0; f < WINOGRAD_PLACES; f++) /* dU [C, O] (+)= Vᵀ [C, tiles] dM [tiles, O] */
            kernel_product(p.plan->k, x->channels, y->padded, count, x->tiles + f * x->plane, p.plan->unit,
                           p.by_wide, y->tiles + f * y->plane, p.by_narrow,
                           p.products + f * x->channels * y->padded, y->padded, first > 0);
    }
    add_weights(&p, st_data(st_grad(c, CONV_WEIGHT)), buffer);
}

const layer_algorithm conv_winograd = {
    .type = &layer_type_conv2d,
    .suits = suits,
    .plan = plan,
    .hooks = { .forward = forward, .backward = backward, .gradient = gradient },
};
