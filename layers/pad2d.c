/* pad2d.c: a border of zeros, of a constant, of the image mirrored, or of its edge repeated.
 *
 * The middle is a copy, and every strip of the border a copy of a view of what is already there: of a flip
 * for a mirror, of one row expanded for an edge. Rows first, then columns over the full height. The adjoint
 * is the same list backwards, each copy an add from the strip into what it was copied of. */
#include "layers/layers.h"
#include "layers/types.h"

enum { TOP, BOTTOM, LEFT, RIGHT };
enum { DPADDED }; /* scratch: dy of one image, as its border is folded in */

static int plan(layer *l, shape x, shape *y)
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

static void forward(layer *l, tensor x, tensor y)
{
    strip s[4];
    if (!fills_in(l)) tensor_fill(y, (real)((const pad2d *)l->options)->value);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        tensor image = tensor_select(y, 0, i);
        tensor_copy(interior(l, image), tensor_select(x, 0, i));
        if (fills_in(l)) strips(l, image, s);
        for (int side = TOP; side <= RIGHT && fills_in(l); side++) tensor_copy(s[side].to, s[side].from);
    }
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    strip s[4];
    tensor image = l->scratch[DPADDED];
    strips(l, image, s);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        tensor_copy(image, tensor_select(dy, 0, i));
        for (int side = RIGHT; side >= TOP && fills_in(l); side--) tensor_add(s[side].from, 1, s[side].to);
        tensor_copy(tensor_select(dx, 0, i), interior(l, image));
    }
}

static const char *const modes[] = { "constant", "reflect", "replicate", NULL };

static const layer_field fields[] = {
    { "height", FIELD_PAIR, offsetof(pad2d, height) },
    { "width", FIELD_PAIR, offsetof(pad2d, width) },
    { "mode", FIELD_CHOICE, offsetof(pad2d, mode), .choices = modes },
    { "value", FIELD_REAL, offsetof(pad2d, value), .least = -DBL_MAX },
    { 0 },
};

const layer_type layer_type_pad2d = {
    .name = "pad2d",
    .options_size = sizeof(pad2d),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .ignores_y = true,
};

layer *layer_pad2d(pad2d options)
{
    return layer_new(&layer_type_pad2d, &options, 0, NULL);
}
