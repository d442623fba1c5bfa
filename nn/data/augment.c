/* augment.c: a random affine map for each sample and epoch; noise; a cutout. */
#include "nn/data/augment.h"
#include "nn/data/data_impl.h"
#include "nn/files/file.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/error.h"
#include "tensor/random.h"

#include <math.h>

/* The random numbers of a sample, in the order of their counters. */
enum { FLIP, SHEAR, ROTATION, SCALE, DOWN, RIGHT, CUT_ROW, CUT_COLUMN, DRAWS };

enum {
    BEFORE = 1, /* rows and columns of zeros before an image, so that sampling needs no bounds checks */
    AROUND = 3, /* before and after it */
    GRAIN = 8   /* samples that are enough work for a thread */
};

/* No other stream with the same seed has these numbers: parameters, the order of samples, dropout. */
static const uint64_t MAPS = UINT64_C(3) << 62, NOISES = UINT64_C(7) << 61;

static const double DEGREE = 3.14159265358979323846 / 180;

typedef struct augmented {
    data_wrapper base;
    st_augment_options options;
} augmented;

st_tensor data_framed(st_shape x)
{
    return st_tensor_new(ST_SHAPE(x.n[0], x.n[1] + AROUND, x.n[2] + AROUND));
}

st_tensor data_inside(st_tensor framed)
{
    const ptrdiff_t *n = framed.shape.n;
    return st_narrow(st_narrow(framed, 1, BEFORE, n[1] - AROUND), 2, BEFORE, n[2] - AROUND);
}

/* ---- the map --------------------------------------------------------------------------------- */

static st_real clamp(st_real x, st_real most)
{
    x = x > 0 ? x : 0;
    return x < most ? x : most;
}

/* One row of the output, from a framed channel whose rows are `pitch` apart. (u, v) is the position of its
 * first element in the channel, (du, dv) the step to the next. Positions outside are clamped to the frame,
 * which is zero. */
static void sample_row(ptrdiff_t n, st_real *to, ptrdiff_t step, const st_real *from, ptrdiff_t pitch,
                       double u, double v, double du, double dv, st_real height, st_real width)
{
    for (ptrdiff_t j = 0; j < n; j++) {
        st_real row = clamp((st_real)(u + du * (double)j), height),
                column = clamp((st_real)(v + dv * (double)j), width);
        int top = (int)row, left = (int)column;
        st_real below = row - (st_real)top, right = column - (st_real)left;
        const st_real *p = from + top * pitch + left;
        st_real upper = p[0] + right * (p[1] - p[0]);
        st_real lower = p[pitch] + right * (p[pitch + 1] - p[pitch]);
        to[j * step] = upper + below * (lower - upper);
    }
}

/* One coordinate of an affine map. */
static double at(const double line[3], double down, double right)
{
    return line[0] * down + line[1] * right + line[2];
}

void data_warp(st_tensor to, st_tensor framed, affine map)
{
    ptrdiff_t height = to.shape.n[1], width = to.shape.n[2], pitch = framed.stride[1];
    double middle = (double)(height - 1) / 2, centre = (double)(width - 1) / 2;
    for (ptrdiff_t c = 0; c < to.shape.n[0]; c++)
        for (ptrdiff_t i = 0; i < height; i++) {
            double u = at(map.row, (double)i - middle, -centre) + middle + BEFORE;
            double v = at(map.column, (double)i - middle, -centre) + centre + BEFORE;
            sample_row(width, st_at(to, ST_INDEX(c, i, 0)), to.stride[2], st_at(framed, ST_INDEX(c, 0, 0)),
                       pitch, u, v, map.row[1], map.column[1], (st_real)(height + BEFORE),
                       (st_real)(width + BEFORE));
        }
}

/* ---- drawing --------------------------------------------------------------------------------- */

static st_random_key key_of(const augmented *a, uint64_t stream)
{
    return (st_random_key){ a->options.seed, stream + a->base.epoch };
}

/* Uniform in ±most. */
static double draw(const augmented *a, ptrdiff_t i, int which, double most)
{
    if (most == 0) return 0;
    return most * (2 * st_random_uniform(key_of(a, MAPS), (uint64_t)i * DRAWS + (uint64_t)which) - 1);
}

/* 0 … most. */
static ptrdiff_t draw_index(const augmented *a, ptrdiff_t i, int which, ptrdiff_t most)
{
    return (ptrdiff_t)st_random_below(key_of(a, MAPS), (uint64_t)i * DRAWS + (uint64_t)which,
                                      (uint64_t)most + 1);
}

static bool warps(const st_augment_options *o)
{
    return o->flip > 0 || o->shear > 0 || o->rotation > 0 || o->scale > 0 || o->shift > 0;
}

/* The inverse, from output to input, of p -> z R S F p + t (flip, shear, rotate, scale, shift):
 * F S⁻¹ R⁻¹ (p - t) / z. */
static affine draw_map(const augmented *a, ptrdiff_t i)
{
    const st_augment_options *o = &a->options;
    double flip = o->flip > 0 && draw(a, i, FLIP, 1) < 2 * o->flip - 1 ? -1 : 1;
    double shear = tan(DEGREE * draw(a, i, SHEAR, o->shear));
    double angle = DEGREE * draw(a, i, ROTATION, o->rotation), z = 1 + draw(a, i, SCALE, o->scale);
    double down = draw(a, i, DOWN, o->shift), right = draw(a, i, RIGHT, o->shift);
    double c = cos(angle) / z, s = sin(angle) / z;
    affine map = { { c, s }, { flip * (-s - shear * c), flip * (c - shear * s) } };
    map.row[2] = -at(map.row, down, right);
    map.column[2] = -at(map.column, down, right);
    return map;
}

/* ---- a sample -------------------------------------------------------------------------------- */

static void get_warped(const augmented *a, ptrdiff_t i, st_tensor x, st_tensor y)
{
    st_tensor framed = data_framed(x.shape);
    if (st_is_null(framed)) return;
    a->base.of->get(a->base.of, i, data_inside(framed), y);
    data_warp(x, framed, draw_map(a, i));
    st_tensor_free(framed);
}

typedef struct noise {
    st_random_key key;
    uint64_t counter;
    double deviation;
} noise;

static void noise_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    noise *z = context;
    for (ptrdiff_t k = 0; k < n; k++)
        at[0][k * stride[0]] += (st_real)(z->deviation * st_random_normal(z->key, z->counter++));
}

static void add_noise(const augmented *a, ptrdiff_t i, st_tensor x)
{
    noise z = { key_of(a, NOISES), (uint64_t)i * (uint64_t)st_numel(x), a->options.noise };
    st_walk(1, &x, ST_ROW_MAJOR, noise_row, &z);
}

static void cut_out(const augmented *a, ptrdiff_t i, st_tensor x)
{
    ptrdiff_t side = a->options.cutout;
    ptrdiff_t row = draw_index(a, i, CUT_ROW, x.shape.n[1] - side);
    ptrdiff_t column = draw_index(a, i, CUT_COLUMN, x.shape.n[2] - side);
    st_fill(st_narrow(st_narrow(x, 1, row, side), 2, column, side), 0);
}

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const augmented *a = d->own;
    if (warps(&a->options)) get_warped(a, i, x, y);
    else a->base.of->get(a->base.of, i, x, y);
    if (a->options.noise > 0) add_noise(a, i, x);
    if (a->options.cutout > 0) cut_out(a, i, x);
}

/* ---- the data set ---------------------------------------------------------------------------- */

/* The range of an option: 0 ... most, including `most` only if `closed`. */
typedef struct limit {
    const char *name;
    double value, most;
    bool closed;
} limit;

enum { DESCRIPTION = 384 };

/* Checks the options: "augment flip 0.5, rotation 10, seed 1" */
static int describe(const st_augment_options *o, st_shape x, char text[DESCRIPTION])
{
    const double side = (double)smallest(x.n[1], x.n[2]);
    const limit limits[] = {
        { "flip", o->flip, 1, true },           { "shear", o->shear, 90, false },
        { "rotation", o->rotation, 180, true }, { "scale", o->scale, 1, false },
        { "shift", o->shift, side, true },      { "noise", o->noise, HUGE_VAL, false },
        { "cutout", o->cutout, side, true },
    };
    int length = snprintf(text, DESCRIPTION, "augment");
    for (const limit *l = limits; l < limits + sizeof limits / sizeof *limits; l++) {
        if (!(l->value >= 0 && (l->value < l->most || (l->closed && l->value == l->most))))
            return st_error_set("st_dataset_augment: %s is %g, expected at least 0 and %s %g, of samples %s",
                                l->name, printable(l->value), l->closed ? "at most" : "below", l->most,
                                st_shape_text(x).text);
        if (l->value > 0)
            length += snprintf(text + length, DESCRIPTION - (size_t)length, " %s %.15g,", l->name, l->value);
    }
    snprintf(text + length, DESCRIPTION - (size_t)length, " seed %llu", (unsigned long long)o->seed);
    return 0;
}

st_dataset *st_dataset_augment_new(const st_dataset *of, st_augment_options options)
{
    char text[DESCRIPTION];
    if (!of) st_error_set("st_dataset_augment: the data set is NULL");
    else if (of->x.rank != 3)
        st_error_set("st_dataset_augment: samples %s, expected [C, H, W]", st_shape_text(of->x).text);
    if (!of || of->x.rank != 3) return NULL;
    void *locale = c_locale_enter();
    const int status = describe(&options, of->x, text);
    c_locale_leave(locale);
    augmented *own = status ? NULL : array_new("st_dataset_augment", 1, sizeof *own);
    if (!own) return NULL;
    own->options = options;
    return data_wrap(of, (st_dataset){ .get = get, .own = own, .grain = smallest(of->grain, GRAIN) }, text);
}
