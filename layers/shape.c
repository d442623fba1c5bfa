/* shape.c: layers that change the shape of an image or of the batch: pad2d, upsample, flatten, identity. */
#include "layers/layer_impl.h"
#include "layers/layers.h"
#include "layers/separable.h"
#include "layers/types.h"

/* ---- pad2d: a border of zeros, of a constant, of the image mirrored, or of its edge repeated --------------- *
 * The middle is a copy, and every strip of the border a copy of a view of what is already there: of a flip
 * for a mirror, of one row expanded for an edge. Rows first, then columns over the full height. The adjoint
 * is the same list backwards, each copy an add from the strip into what it was copied from. */

enum { TOP, BOTTOM, LEFT, RIGHT };
enum { DPADDED }; /* scratch: dy of one image, as its border is folded in */

static int pad2d_plan(layer *l, shape x, shape *y)
{
    const pad2d *o = l->options;
    if (x.rank != 4) return layer_refuse(l, "the input is %s, expected [N, C, H, W]", shape_text(x).text);
    const int border[] = { o->height[0], o->height[1], o->width[0], o->width[1] };
    for (int side = TOP; side <= RIGHT; side++)
        if (o->mode == PAD_REFLECT && border[side] >= x.n[2 + side / 2])
            return layer_refuse(l, "reflecting %d of an input %s, expected less than its size", border[side],
                                shape_text(x).text);
    *y = SHAPE(x.n[0], x.n[1], x.n[2] + o->height[0] + o->height[1], x.n[3] + o->width[0] + o->width[1]);
    if (shape_count(*y, "pad2d") < 0) return -1;
    return layer_scratch(l, SHAPE(y->n[1], y->n[2], y->n[3]));
}

/* A strip of the border and what it is a copy of. */
typedef struct strip {
    tensor to, from;
} strip;

/* On one side of [C, H, W], along an axis of which `before` … `before + size - 1` is filled in. */
static strip border(tensor image, int axis, ptrdiff_t before, ptrdiff_t size, bool first, ptrdiff_t width,
                    pad_mode mode)
{
    ptrdiff_t end = before + size;
    strip s = { .to = tensor_narrow(image, axis, first ? 0 : end, width) };
    if (mode == PAD_REFLECT)
        s.from = tensor_flip(tensor_narrow(image, axis, first ? before + 1 : end - 1 - width, width), axis);
    else s.from = tensor_expand(tensor_narrow(image, axis, first ? before : end - 1, 1), s.to.shape);
    return s;
}

/* The four strips in the order in which they can be filled in. */
static void strips(const layer *l, tensor image, strip s[4])
{
    const pad2d *o = l->options;
    ptrdiff_t rows = l->x.n[2], columns = l->x.n[3];
    tensor middle = tensor_narrow(image, 2, o->width[0], columns);
    s[TOP] = border(middle, 1, o->height[0], rows, true, o->height[0], o->mode);
    s[BOTTOM] = border(middle, 1, o->height[0], rows, false, o->height[1], o->mode);
    s[LEFT] = border(image, 2, o->width[0], columns, true, o->width[0], o->mode);
    s[RIGHT] = border(image, 2, o->width[0], columns, false, o->width[1], o->mode);
}

static tensor interior(const layer *l, tensor image)
{
    const pad2d *o = l->options;
    return tensor_narrow(tensor_narrow(image, 1, o->height[0], l->x.n[2]), 2, o->width[0], l->x.n[3]);
}

static bool fills_in(const layer *l)
{
    return ((const pad2d *)l->options)->mode >= PAD_REFLECT;
}

static void pad2d_forward(const st_call *c, tensor x, tensor y)
{
    strip s[4];
    const layer *l = c->layer;
    if (!fills_in(l)) tensor_fill(y, (real)((const pad2d *)c->options)->value);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor image = tensor_select(y, 0, i);
        tensor_copy(interior(l, image), tensor_select(x, 0, i));
        if (fills_in(l)) strips(l, image, s);
        for (int side = TOP; side <= RIGHT && fills_in(l); side++) tensor_copy(s[side].to, s[side].from);
    }
}

static void pad2d_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    strip s[4];
    const layer *l = c->layer;
    tensor image = st_scratch(c, DPADDED);
    strips(l, image, s);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        tensor_copy(image, tensor_select(dy, 0, i));
        for (int side = RIGHT; side >= TOP && fills_in(l); side--) tensor_add(s[side].from, 1, s[side].to);
        tensor_copy(tensor_select(dx, 0, i), interior(l, image));
    }
}

static const char *const pad_modes[] = { "constant", "reflect", "replicate", NULL };

static const layer_field pad2d_fields[] = {
    { "height", FIELD_PAIR, offsetof(pad2d, height) },
    { "width", FIELD_PAIR, offsetof(pad2d, width) },
    { "mode", FIELD_CHOICE, offsetof(pad2d, mode), .choices = pad_modes },
    { "value", FIELD_REAL, offsetof(pad2d, value), .least = -DBL_MAX },
    { 0 },
};

const layer_type layer_type_pad2d = {
    .name = "pad2d",
    .options_size = sizeof(pad2d),
    .fields = pad2d_fields,
    .plan = pad2d_plan,
    .forward = pad2d_forward,
    .backward = pad2d_backward,
    .traits = &(const layer_traits){ .ignores_y = true },
};

layer *layer_pad2d(pad2d options)
{
    return layer_new(&layer_type_pad2d, &options, 0, NULL);
}

/* ---- upsample: each pixel repeated, or the image interpolated bilinearly ----------------------------------- *
 * Both are A x Bᵀ: a row of A says which rows of x make a row of y. */

/* Where row `out` of the output lies among the rows of the input, as PyTorch counts. */
static double source(const upsample *o, ptrdiff_t out, ptrdiff_t from, ptrdiff_t to)
{
    if (o->align_corners) return to > 1 ? (double)out * (double)(from - 1) / (double)(to - 1) : 0;
    double at = ((double)out + 0.5) * (double)from / (double)to - 0.5;
    return at > 0 ? at : 0;
}

/* Row `out` of the matrix: the pixels that make it, with their weights. */
static taps upsample_taps(const void *options, ptrdiff_t out, ptrdiff_t from, ptrdiff_t to)
{
    const upsample *o = options;
    if (o->mode == UPSAMPLE_NEAREST) return (taps){ out * from / to, 1, 1, 1 };
    double at = source(o, out, from, to);
    ptrdiff_t low = (ptrdiff_t)at;
    real weight = (real)(1 - (at - (double)low)), rest = (real)(at - (double)low);
    if (low + 1 < from) return (taps){ low, 2, weight, rest };
    return (taps){ low, 1, weight + rest, 0 };
}

static int upsample_plan(layer *l, shape x, shape *y)
{
    const upsample *o = l->options;
    if (x.rank != 4) return layer_refuse(l, "the input is %s, expected [N, C, H, W]", shape_text(x).text);
    if (o->align_corners && o->mode == UPSAMPLE_NEAREST)
        return layer_refuse(l, "align_corners is for mode=bilinear only");
    *y = x;
    if (__builtin_mul_overflow(x.n[2], o->scale[0], &y->n[2]) ||
        __builtin_mul_overflow(x.n[3], o->scale[1], &y->n[3]))
        return layer_refuse(l, "scale %dx%d of an input %s is too large", o->scale[0], o->scale[1],
                            shape_text(x).text);
    if (shape_count(*y, "upsample") < 0) return -1;
    return separable_plan(l, x, *y, upsample_taps);
}

static void upsample_forward(const st_call *c, tensor x, tensor y)
{
    separable_forward(c, x, y);
}

static void upsample_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    separable_backward(c, dy, dx);
}

static const char *const upsample_modes[] = { "nearest", "bilinear", NULL };

static const layer_field upsample_fields[] = {
    { "scale", FIELD_PAIR, offsetof(upsample, scale), .least = 1, .square = true },
    { "mode", FIELD_CHOICE, offsetof(upsample, mode), .choices = upsample_modes },
    { "align_corners", FIELD_BOOL, offsetof(upsample, align_corners) },
    { 0 },
};

const layer_type layer_type_upsample = {
    .name = "upsample",
    .options_size = sizeof(upsample),
    .fields = upsample_fields,
    .plan = upsample_plan,
    .forward = upsample_forward,
    .backward = upsample_backward,
    .traits = &(const layer_traits){ .ignores_y = true },
};

layer *layer_upsample(upsample options)
{
    return layer_new(&layer_type_upsample, &options, 0, NULL);
}

/* ---- flatten, identity: the same elements under another shape ------------------------------------- */

static void copy_forward(const st_call *c, tensor x, tensor y)
{
    (void)c;
    tensor_copy(tensor_reshape(y, x.shape), x);
}

static void copy_backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)c, (void)x, (void)y;
    tensor_copy(dx, tensor_reshape(dy, dx.shape));
}

static const layer_traits copy_traits = { .in_place = true, .ignores_y = true };

static int flatten_plan(layer *l, shape x, shape *y)
{
    (void)l;
    *y = SHAPE(x.n[0], shape_count(x, "flatten") / x.n[0]);
    return 0;
}

const layer_type layer_type_flatten = {
    .name = "flatten",
    .plan = flatten_plan,
    .forward = copy_forward,
    .backward = copy_backward,
    .traits = &copy_traits,
};

layer *layer_flatten(void)
{
    return layer_new(&layer_type_flatten, NULL, 0, NULL);
}

static int identity_plan(layer *l, shape x, shape *y)
{
    (void)l;
    *y = x;
    return 0;
}

const layer_type layer_type_identity = {
    .name = "identity",
    .plan = identity_plan,
    .forward = copy_forward,
    .backward = copy_backward,
    .traits = &copy_traits,
};

layer *layer_identity(void)
{
    return layer_new(&layer_type_identity, NULL, 0, NULL);
}
