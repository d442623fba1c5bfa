/* shape.c: layers that change the shape of an image or of the batch: pad2d, upsample, adaptive_avgpool,
 * flatten, unflatten, identity. */
#include "layers/layer_impl.h"
#include "layers/separable.h"
#include "layers/types.h"
#include "tensor/counts.h"

#include <math.h>

/* ---- pad2d: a border of zeros, of a constant, of the image mirrored, or of its edge repeated ------------ *
 * The middle is a copy of the image, and every strip of the border a copy of a view of it: a flip for
 * reflection, an expanded row for replication. Rows first, then columns over the full height. The adjoint
 * runs the same list backwards: each copy becomes an add of the strip to its source. */

enum { TOP, BOTTOM, LEFT, RIGHT };
enum { DPADDED }; /* scratch: a copy of one image's dy */

static int pad2d_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_pad2d_options *o = l->options;
    if (layer_check_images(l, x)) return -1;
    const int border[] = { o->height[0], o->height[1], o->width[0], o->width[1] };
    for (int side = TOP; side <= RIGHT; side++)
        if (o->mode == ST_PAD_REFLECT && border[side] >= x.n[2 + side / 2])
            return st_layer_refuse(l, "reflecting %d of an input %s, expected less than its size",
                                   border[side], st_shape_text(x).text);
    *y = ST_SHAPE(x.n[0], x.n[1], x.n[2] + o->height[0] + o->height[1], x.n[3] + o->width[0] + o->width[1]);
    if (st_shape_numel(*y, "pad2d") < 0) return -1;
    return st_layer_scratch(l, ST_SHAPE(y->n[1], y->n[2], y->n[3]));
}

/* A strip of the border and its source. */
typedef struct strip {
    st_tensor to, from;
} strip;

/* The strip on one side of [C, H, W]: those above and below are as wide as the image within its border. */
static strip strip_of(const st_layer *l, st_tensor image, int side)
{
    const st_pad2d_options *o = l->options;
    const int axis = 1 + side / 2, *width = side / 2 ? o->width : o->height;
    const bool first = side % 2 == 0;
    const ptrdiff_t before = width[0], end = before + l->x.n[1 + axis], size = width[side % 2];
    if (axis == 1) image = st_narrow(image, 2, o->width[0], l->x.n[3]);
    strip s = { .to = st_narrow(image, axis, first ? 0 : end, size) };
    if (o->mode == ST_PAD_REFLECT)
        s.from = st_flip(st_narrow(image, axis, first ? before + 1 : end - 1 - size, size), axis);
    else s.from = st_expand(st_narrow(image, axis, first ? before : end - 1, 1), s.to.shape);
    return s;
}

static st_tensor interior(const st_layer *l, st_tensor image)
{
    const st_pad2d_options *o = l->options;
    return st_narrow(st_narrow(image, 1, o->height[0], l->x.n[2]), 2, o->width[0], l->x.n[3]);
}

static bool fills_in(const st_layer *l)
{
    return ((const st_pad2d_options *)l->options)->mode >= ST_PAD_REFLECT;
}

/* A strip and its source never overlap, though their addresses interleave, so that st_copy would copy. */
static void copy_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    for (ptrdiff_t i = 0; i < n; i++) at[0][i * stride[0]] = at[1][i * stride[1]];
}

static void add_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)context;
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        if (stride[1] == 0) sum += (double)at[0][i * stride[0]];
        else at[1][i * stride[1]] += at[0][i * stride[0]];
    if (stride[1] == 0) *at[1] = (st_real)((double)*at[1] + sum);
}

static void pad2d_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const st_layer *l = c->layer;
    if (!fills_in(l)) st_fill(y, (st_real)((const st_pad2d_options *)c->options)->value);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        st_tensor image = st_select(y, 0, i);
        st_copy(interior(l, image), st_select(x, 0, i));
        for (int side = TOP; side <= RIGHT && fills_in(l); side++) {
            const strip s = strip_of(l, image, side);
            st_walk(2, (st_tensor[]){ s.to, s.from }, ST_ANY_ORDER, copy_row, NULL);
        }
    }
}

static void pad2d_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    const st_layer *l = c->layer;
    st_tensor image = st_scratch(c, DPADDED);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        st_copy(image, st_select(dy, 0, i));
        for (int side = RIGHT; side >= TOP && fills_in(l); side--) {
            const strip s = strip_of(l, image, side);
            st_walk(2, (st_tensor[]){ s.to, s.from }, ST_ANY_ORDER, add_row, NULL);
        }
        st_copy(st_select(dx, 0, i), interior(l, image));
    }
}

static const char *const pad_modes[] = { "constant", "reflect", "replicate", NULL };

static const st_field pad2d_fields[] = {
    { "height", ST_FIELD_PAIR, offsetof(st_pad2d_options, height) },
    { "width", ST_FIELD_PAIR, offsetof(st_pad2d_options, width) },
    { "mode", ST_FIELD_CHOICE, offsetof(st_pad2d_options, mode), .choices = pad_modes },
    { "value", ST_FIELD_REAL, offsetof(st_pad2d_options, value), .least = -DBL_MAX },
    { 0 },
};

const st_layer_type layer_type_pad2d = {
    .name = "pad2d",
    .options_size = sizeof(st_pad2d_options),
    .fields = pad2d_fields,
    .plan = pad2d_plan,
    .forward = pad2d_forward,
    .backward = pad2d_backward,
};

CONSTRUCTOR(pad2d, st_pad2d_options)

/* ---- upsample and adaptive_avgpool: y = A x Bᵀ of each channel ------------------------------------- *
 * A row of A has the weights of the rows of x in a row of y. Each row of y is a weighted sum of a few rows of
 * x, and likewise for columns; the adjoint is the same list of adds with the sides swapped. */

enum { HALF };                  /* scratch: A x [C, OH, W] of one image */
enum { ROWS = 1, COLUMNS = 2 }; /* axes of an image [C, H, W] */

static int plan_separable(st_layer *l, st_shape x, st_shape y,
                          taps (*of)(const void *options, ptrdiff_t i, ptrdiff_t from, ptrdiff_t to))
{
    if (st_shape_numel(y, l->type->name) < 0) return -1;
    separable *s = st_layer_plan_data(l, sizeof *s);
    if (!s) return -1;
    s->of = of;
    return st_layer_scratch(l, ST_SHAPE(x.n[1], y.n[2], x.n[3]));
}

/* y = the matrix applied to x along an axis of images [C, H, W]; or backwards, x = its transpose applied to
 * y. */
static void apply(const st_call *c, bool back, int axis, st_tensor x, st_tensor y)
{
    const separable *s = c->plan;
    const ptrdiff_t from = x.shape.n[axis], to = y.shape.n[axis];
    st_fill(back ? x : y, 0);
    for (ptrdiff_t i = 0; i < to; i++) {
        const taps row = s->of(c->options, i, from, to);
        for (ptrdiff_t k = 0; k < row.count; k++) {
            st_real weight = k == 0 ? row.weight : row.rest;
            st_tensor out = st_select(y, axis, i), in = st_select(x, axis, row.first + k);
            if (weight != 0) st_add(back ? in : out, weight, back ? out : in);
        }
    }
}

static void separable_forward(const st_call *c, st_tensor x, st_tensor y)
{
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        apply(c, false, ROWS, st_select(x, 0, i), st_scratch(c, HALF));
        apply(c, false, COLUMNS, st_scratch(c, HALF), st_select(y, 0, i));
    }
}

static void separable_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)x, (void)y;
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        apply(c, true, COLUMNS, st_scratch(c, HALF), st_select(dy, 0, i));
        apply(c, true, ROWS, st_select(dx, 0, i), st_scratch(c, HALF));
    }
}

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

/* The nearest row, as PyTorch's kernels for channels last and its backward pass define it: a scale_factor is
 * inverted and multiplied in float, in either precision, and not used if the size doubles. */
static ptrdiff_t nearest(const st_upsample_options *o, ptrdiff_t out, ptrdiff_t from, ptrdiff_t to)
{
    if (o->scale_factor == 0 || to == 2 * from) return out * from / to;
    const float inverse = (float)(1 / o->scale_factor), at = floorf((float)out * inverse);
    return at < (float)from ? (ptrdiff_t)at : from - 1;
}

/* Row `out` of the matrix: the weights of the pixels in it. An axis that keeps its size is copied. */
static taps upsample_taps(const void *options, ptrdiff_t out, ptrdiff_t from, ptrdiff_t to)
{
    const st_upsample_options *o = options;
    if (from == to) return (taps){ out, 1, 1, 1 };
    if (o->mode == ST_UPSAMPLE_NEAREST) return (taps){ nearest(o, out, from, to), 1, 1, 1 };
    double at = source(o, out, from, to);
    ptrdiff_t low = (ptrdiff_t)at;
    if (low >= from) return (taps){ from - 1, 1, 1, 0 };
    st_real weight = (st_real)(1 - (at - (double)low)), rest = (st_real)(at - (double)low);
    if (low + 1 < from) return (taps){ low, 2, weight, rest };
    return (taps){ low, 1, weight + rest, 0 };
}

static int upsample_plan(st_layer *l, st_shape x, st_shape *y)
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
    return plan_separable(l, x, *y, upsample_taps);
}

static const char *const upsample_modes[] = { "nearest", "bilinear", NULL };

static const st_field upsample_fields[] = {
    { "scale", ST_FIELD_PAIR, offsetof(st_upsample_options, scale), .square = true },
    { "mode", ST_FIELD_CHOICE, offsetof(st_upsample_options, mode), .choices = upsample_modes },
    { "align_corners", ST_FIELD_BOOL, offsetof(st_upsample_options, align_corners) },
    { "size", ST_FIELD_PAIR, offsetof(st_upsample_options, size), .square = true },
    { "scale_factor", ST_FIELD_REAL, offsetof(st_upsample_options, scale_factor) },
    { 0 },
};

const st_layer_type layer_type_upsample = {
    .name = "upsample",
    .options_size = sizeof(st_upsample_options),
    .fields = upsample_fields,
    .plan = upsample_plan,
    .forward = separable_forward,
    .backward = separable_backward,
};

CONSTRUCTOR(upsample, st_upsample_options)

/* 1 / length over part i of the image, from floor(i H / OH) to ceil((i + 1) H / OH). */
static taps part_of(const void *options, ptrdiff_t i, ptrdiff_t from, ptrdiff_t to)
{
    (void)options;
    const ptrdiff_t begin = i * from / to, count = ceil_div((i + 1) * from, to) - begin;
    return (taps){ begin, count, 1 / (st_real)count, 1 / (st_real)count };
}

static int adaptive_avgpool_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_adaptive_avgpool_options *o = l->options;
    if (layer_check_images(l, x)) return -1;
    *y = ST_SHAPE(x.n[0], x.n[1], o->output_size[0], o->output_size[1]);
    return plan_separable(l, x, *y, part_of);
}

static const st_field adaptive_avgpool_fields[] = {
    { "output_size", ST_FIELD_PAIR, offsetof(st_adaptive_avgpool_options, output_size), .fallback = 1,
      .least = 1, .square = true },
    { 0 },
};

const st_layer_type layer_type_adaptive_avgpool = {
    .name = "adaptive_avgpool",
    .options_size = sizeof(st_adaptive_avgpool_options),
    .fields = adaptive_avgpool_fields,
    .plan = adaptive_avgpool_plan,
    .forward = separable_forward,
    .backward = separable_backward,
};

CONSTRUCTOR(adaptive_avgpool, st_adaptive_avgpool_options)

/* ---- flatten, unflatten, identity: the same elements under another shape -------------------------- */

static void copy_forward(const st_call *c, st_tensor x, st_tensor y)
{
    (void)c;
    st_copy(st_reshape(y, x.shape), x);
}

static void copy_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)c, (void)x, (void)y;
    st_copy(dx, st_reshape(dy, dx.shape));
}

static int flatten_plan(st_layer *l, st_shape x, st_shape *y)
{
    (void)l;
    *y = ST_SHAPE(x.n[0], st_shape_numel(x, "flatten") / x.n[0]);
    return 0;
}

const st_layer_type layer_type_flatten = {
    .name = "flatten",
    .plan = flatten_plan,
    .forward = copy_forward,
    .backward = copy_backward,
};

PLAIN_CONSTRUCTOR(flatten)

static int unflatten_plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_unflatten_options *o = l->options;
    const ptrdiff_t elements = st_shape_numel(x, "unflatten") / x.n[0];
    ptrdiff_t area = elements / o->channels;
    *y = ST_SHAPE(x.n[0], o->channels, area);
    if (o->size[0] > 0) {
        *y = ST_SHAPE(x.n[0], o->channels, o->size[0], o->size[1]);
        area = (ptrdiff_t)o->size[0] * o->size[1];
    }
    if (area >= 1 && elements % o->channels == 0 && elements / o->channels == area) return 0;
    return st_layer_refuse(l, "channels=%d and size=%dx%d of an input %s", o->channels, o->size[0],
                           o->size[1], st_shape_text(x).text);
}

static const st_field unflatten_fields[] = {
    { "channels", ST_FIELD_INT, offsetof(st_unflatten_options, channels), .least = 1 },
    { "size", ST_FIELD_PAIR, offsetof(st_unflatten_options, size), .square = true },
    { 0 },
};

const st_layer_type layer_type_unflatten = {
    .name = "unflatten",
    .options_size = sizeof(st_unflatten_options),
    .fields = unflatten_fields,
    .plan = unflatten_plan,
    .forward = copy_forward,
    .backward = copy_backward,
};

CONSTRUCTOR(unflatten, st_unflatten_options)

static int identity_plan(st_layer *l, st_shape x, st_shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

const st_layer_type layer_type_identity = {
    .name = "identity",
    .plan = identity_plan,
    .forward = copy_forward,
    .backward = copy_backward,
};

PLAIN_CONSTRUCTOR(identity)
