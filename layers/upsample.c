/* upsample.c: each pixel repeated, or the image interpolated bilinearly. Both are A x Bᵀ: a row of A says
 * which rows of x make a row of y. */
#include "layers/layers.h"
#include "layers/separable.h"
#include "layers/types.h"

static int plan(layer *l, shape x, shape *y)
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
    return separable_plan(l, x, *y);
}

/* Where row `out` of the output lies among the rows of the input, as PyTorch counts. */
static double source(const upsample *o, ptrdiff_t out, ptrdiff_t from, ptrdiff_t to)
{
    if (o->align_corners) return to > 1 ? (double)out * (double)(from - 1) / (double)(to - 1) : 0;
    double at = ((double)out + 0.5) * (double)from / (double)to - 0.5;
    return at > 0 ? at : 0;
}

static void fill(const upsample *o, tensor matrix)
{
    ptrdiff_t to = matrix.shape.n[0], from = matrix.shape.n[1];
    tensor_fill(matrix, 0);
    for (ptrdiff_t out = 0; out < to; out++) {
        real *row = tensor_data(matrix) + out * from;
        if (o->mode == UPSAMPLE_NEAREST) {
            row[out * from / to] = 1;
            continue;
        }
        double at = source(o, out, from, to);
        ptrdiff_t low = (ptrdiff_t)at, high = low + 1 < from ? low + 1 : low;
        row[low] += (real)(1 - (at - (double)low));
        row[high] += (real)(at - (double)low);
    }
}

static void forward(layer *l, tensor x, tensor y)
{
    fill(l->options, l->scratch[0]);
    fill(l->options, l->scratch[1]);
    separable_forward(l, x, y);
}

static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)x, (void)y;
    fill(l->options, l->scratch[0]);
    fill(l->options, l->scratch[1]);
    separable_backward(l, dy, dx);
}

static const char *const modes[] = { "nearest", "bilinear", NULL };

static const layer_field fields[] = {
    { "scale", FIELD_PAIR, offsetof(upsample, scale), .least = 1, .square = true },
    { "mode", FIELD_CHOICE, offsetof(upsample, mode), .choices = modes },
    { "align_corners", FIELD_BOOL, offsetof(upsample, align_corners) },
    { 0 },
};

const layer_type layer_type_upsample = {
    .name = "upsample",
    .options_size = sizeof(upsample),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .ignores_y = true,
};

layer *layer_upsample(upsample options)
{
    return layer_new(&layer_type_upsample, &options, 0, NULL);
}
