/* pad.c: pad2d: a border of zeros, of a constant, of the image mirrored, or of its edge repeated.
 *
 * Each row of y is a row of the image or, in a border of zeros, none; columns likewise. So y = A x Bᵀ. */
#include "layers/layer_impl.h"
#include "layers/separable.h"
#include "layers/types.h"
#include "layers/window.h"

/* The pixel of the image, along one axis, that pixel `at` of y repeats; `at` counts from the image's first
 * pixel. Returns the number of taps: 0 in a border of zeros. */
static int pixel(st_pad_mode mode, ptrdiff_t at, ptrdiff_t size, tap row[MOST_TAPS])
{
    if (mode == ST_PAD_CONSTANT && (at < 0 || at >= size)) return 0;
    if (at < 0) at = mode == ST_PAD_REFLECT ? -at : 0;
    else if (at >= size) at = mode == ST_PAD_REFLECT ? 2 * (size - 1) - at : size - 1;
    row[0] = (tap){ at, 1 };
    return 1;
}

static int row_of(const void *options, int axis, ptrdiff_t i, ptrdiff_t from, ptrdiff_t to,
                  tap row[MOST_TAPS])
{
    (void)to;
    const st_pad2d_options *o = options;
    return pixel(o->mode, i - (axis == 2 ? o->height : o->width)[0], from, row);
}

static const char *const modes[] = { "constant", "reflect", "replicate", NULL };

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_pad2d_options *o = l->options;
    if (layer_check_images(l, x)) return -1;
    if (o->mode != ST_PAD_CONSTANT && o->value != 0)
        return st_layer_refuse(l, "value is %g, expected 0 with the mode %s, which repeats pixels", o->value,
                               modes[o->mode]);
    const int border[] = { o->height[0], o->height[1], o->width[0], o->width[1] };
    for (int side = 0; side < 4; side++)
        if (o->mode == ST_PAD_REFLECT && border[side] >= x.n[2 + side / 2])
            return st_layer_refuse(l, "reflecting %d of an input %s, expected less than its size",
                                   border[side], st_shape_text(x).text);
    *y = ST_SHAPE(x.n[0], x.n[1], x.n[2] + border[0] + border[1], x.n[3] + border[2] + border[3]);
    return separable_plan(l, x, *y, row_of);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const st_pad2d_options *o = c->options;
    separable_forward(c, x, y);
    for (int axis = 2; axis < 4 && o->mode == ST_PAD_CONSTANT && o->value != 0; axis++) {
        const int *width = axis == 2 ? o->height : o->width;
        st_fill(st_narrow(y, axis, 0, width[0]), (st_real)o->value);
        st_fill(st_narrow(y, axis, width[0] + x.shape.n[axis], width[1]), (st_real)o->value);
    }
}

/* A mode comes first, as it needs its name in a text: the 1 of "pad 1" could be taken for all four sides. */
static const st_field fields[] = {
    { ST_FIELD(CHOICE, st_pad2d_options, mode), .choices = modes },
    { ST_FIELD(PAIR, st_pad2d_options, height) },
    { ST_FIELD(PAIR, st_pad2d_options, width) },
    { ST_FIELD(REAL, st_pad2d_options, value), .least = -DBL_MAX },
    { 0 },
};

const st_layer_type layer_type_pad2d = {
    .name = "pad2d",
    .options_size = sizeof(st_pad2d_options),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = separable_backward,
};

CONSTRUCTOR(pad2d, st_pad2d_options)
