/* blur.c: blur pooling: Zhang, Making convolutional networks shift-invariant again, ICML 2019.
 *
 *     y = A x Bᵀ: rows of A and B have binomial weights; of kernel 3: 1/4, 1/2, 1/4
 *
 * A row of A begins `stride` elements after the one above it. Max-blur pooling is a maxpool of stride 1,
 * followed by this layer. */
#include "layers/pooling/family.h"
#include "layers/separable.h"

/* Pixel `at` beyond an edge is the one that it mirrors, the edge, or none: -1. */
static ptrdiff_t pixel(st_blur_edge edge, ptrdiff_t at, ptrdiff_t size)
{
    if (at >= 0 && at < size) return at;
    if (edge == ST_BLUR_ZEROS) return -1;
    if (edge == ST_BLUR_REPLICATE) return at < 0 ? 0 : size - 1;
    return at < 0 ? -at : 2 * (size - 1) - at;
}

static int weights(const void *options, int axis, ptrdiff_t i, ptrdiff_t from, ptrdiff_t to,
                   tap row[MOST_TAPS])
{
    (void)to;
    const st_blur_pool_options *o = options;
    const int a = axis - 2, kernel = o->kernel[a], *side = a ? o->pad_width : o->pad_height;
    const ptrdiff_t begin = i * o->stride[a] - o->padding[a] - side[0];
    double weight = 1;
    int count = 0;
    for (int k = 1; k < kernel; k++) weight /= 2;
    for (int k = 0; k < kernel; weight = weight * (kernel - 1 - k) / (k + 1), k++) {
        const ptrdiff_t at = pixel(o->edge, begin + k, from);
        if (at >= 0) row[count++] = (tap){ at, (st_real)weight };
    }
    return count;
}

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const st_blur_pool_options *o = l->options;
    if (layer_check_images(l, x)) return -1;
    *y = x;
    for (int a = 0; a < 2; a++) {
        const int *side = a ? o->pad_width : o->pad_height;
        const ptrdiff_t size = x.n[2 + a], before = (ptrdiff_t)o->padding[a] + side[0],
                        after = (ptrdiff_t)o->padding[a] + side[1];
        if (o->edge == ST_BLUR_REFLECT && (before >= size || after >= size))
            return st_layer_refuse(l, "reflecting %td and %td of an input %s, expected less than its size",
                                   before, after, st_shape_text(x).text);
        if (before >= o->kernel[a] || after >= o->kernel[a])
            return st_layer_refuse(l, "padding of %td and %td, expected less than the kernel %dx%d", before,
                                   after, o->kernel[0], o->kernel[1]);
        if (size + before + after < o->kernel[a])
            return st_layer_refuse(l, "kernel %dx%d does not fit into an input %s", o->kernel[0],
                                   o->kernel[1], st_shape_text(x).text);
        y->n[2 + a] = (size + before + after - o->kernel[a]) / o->stride[a] + 1;
    }
    return separable_plan(l, x, *y, weights);
}

static const char *const edges[] = { "reflect", "replicate", "zeros", NULL };

static const st_field fields[] = {
    POOL_FIELD(kernel, ST_FIELD_PAIR, st_blur_pool_options, .fallback = 3, .least = 1, .below = MOST_TAPS + 1,
               .square = true),
    POOL_FIELD(stride, ST_FIELD_PAIR, st_blur_pool_options, .fallback = 2, .least = 1, .square = true),
    POOL_FIELD(padding, ST_FIELD_PAIR, st_blur_pool_options, .square = true),
    POOL_FIELD(pad_height, ST_FIELD_PAIR, st_blur_pool_options, .fallback = 0),
    POOL_FIELD(pad_width, ST_FIELD_PAIR, st_blur_pool_options, .fallback = 0),
    POOL_FIELD(edge, ST_FIELD_CHOICE, st_blur_pool_options, .choices = edges),
    { 0 },
};

const st_layer_type layer_type_blur_pool = {
    .name = "blur_pool",
    .options_size = sizeof(st_blur_pool_options),
    .fields = fields,
    .plan = plan,
    .forward = separable_forward,
    .backward = separable_backward,
};

CONSTRUCTOR(blur_pool, st_blur_pool_options)
