/* upsample.c: images are resized: each pixel of y is the nearest one of x, or between two rows and two
 * columns. */
#include "layers/layer_impl.h"
#include "layers/separable.h"
#include "layers/types.h"
#include "layers/window.h"

#include <math.h>

/* The position of output row `out` in the input, as PyTorch defines it: a scale_factor is used as it is
 * given, also where it makes a fraction of a row. */
static double source(const st_upsample_options *o, ptrdiff_t out, ptrdiff_t from, ptrdiff_t to)
{
    if (o->align_corners) return to > 1 ? (double)out * (double)(from - 1) / (double)(to - 1) : 0;
    double at = (o->scale_factor > 0 ? ((double)out + 0.5) / o->scale_factor
                                     : ((double)out + 0.5) * (double)from / (double)to) -
                0.5;
    return at > 0 ? at : 0;
}

/* The nearest row, as PyTorch's kernels for channels last and its backward pass define it: rows are
 * multiplied by the inverse of a scale_factor, or by the quotient of sizes, in float, in either precision,
 * unless the size doubles. A whole scale repeats each row as often. */
static ptrdiff_t nearest(const st_upsample_options *o, ptrdiff_t out, ptrdiff_t from, ptrdiff_t to)
{
    if (o->scale[0] > 0 || to == 2 * from) return out * from / to;
    const float step = o->scale_factor > 0 ? (float)(1 / o->scale_factor) : (float)from / (float)to;
    const float at = floorf((float)out * step);
    return at < (float)from ? (ptrdiff_t)at : from - 1;
}

static int one_pixel(tap row[], ptrdiff_t from)
{
    row[0] = (tap){ from, 1 };
    return 1;
}

/* Row `out` of the matrix: the weights of the pixels in it. An axis that keeps its size is copied. */
static int pixels(const void *options, int axis, ptrdiff_t out, ptrdiff_t from, ptrdiff_t to,
                  tap row[MOST_TAPS])
{
    (void)axis;
    const st_upsample_options *o = options;
    if (from == to) return one_pixel(row, out);
    if (o->mode == ST_UPSAMPLE_NEAREST) return one_pixel(row, nearest(o, out, from, to));
    const double at = source(o, out, from, to);
    const ptrdiff_t low = (ptrdiff_t)at;
    if (low + 1 >= from) return one_pixel(row, from - 1);
    row[0] = (tap){ low, (st_real)(1 - (at - (double)low)) };
    row[1] = (tap){ low + 1, (st_real)(at - (double)low) };
    return row[1].weight == 0 ? 1 : 2;
}

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_upsample_options *o = l->options;
    if (layer_check_images(l, x)) return -1;
    if (o->align_corners && o->mode == ST_UPSAMPLE_NEAREST)
        return st_layer_refuse(l, "align_corners is for mode=bilinear only");
    if ((o->scale[0] > 0) + (o->size[0] > 0) + (o->scale_factor > 0) != 1)
        return st_layer_refuse(l, "expected one of scale, size and scale_factor");
    *y = x;
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t from = x.n[2 + axis], *to = &y->n[2 + axis];
        if (o->size[0] > 0) *to = o->size[axis];
        else if (o->scale_factor > 0) {
            double size = floor((double)from * o->scale_factor);
            if (!(size >= 1 && size <= 0x1p53))
                return st_layer_refuse(l, "scale_factor %g of an input %s leaves no pixel, or too many",
                                       o->scale_factor, st_shape_text(x).text);
            *to = (ptrdiff_t)size;
        } else if (__builtin_mul_overflow(from, o->scale[axis], to))
            return st_layer_refuse(l, "scale %dx%d of an input %s is too large", o->scale[0], o->scale[1],
                                   st_shape_text(x).text);
        if (*to < 1)
            return st_layer_refuse(l, "size %dx%d, scale %dx%d: expected at least 1 on either axis",
                                   o->size[0], o->size[1], o->scale[0], o->scale[1]);
    }
    return separable_plan(l, x, *y, pixels);
}

static const char *const modes[] = { "nearest", "bilinear", NULL };

static const st_field fields[] = {
    { ST_FIELD(PAIR, st_upsample_options, scale), .square = true },
    { ST_FIELD(CHOICE, st_upsample_options, mode), .choices = modes },
    { ST_FIELD(BOOL, st_upsample_options, align_corners) },
    { ST_FIELD(PAIR, st_upsample_options, size), .square = true },
    { ST_FIELD(REAL, st_upsample_options, scale_factor) },
    { 0 },
};

const st_layer_type layer_type_upsample = {
    .name = "upsample",
    .options_size = sizeof(st_upsample_options),
    .fields = fields,
    .plan = plan,
    .forward = separable_forward,
    .backward = separable_backward,
};

CONSTRUCTOR(upsample, st_upsample_options)
