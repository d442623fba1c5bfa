/* spatial_pyramid.c: spatial pyramid pooling: He, Zhang, Ren and Sun, Spatial pyramid pooling in deep
 * convolutional networks for visual recognition, ECCV 2014.
 *
 * Level k = 1, 2, ... is the maximum of each of k x k parts of the image, which lie as those of
 * adaptive_maxpool: [N, C, H, W] -> [N, C (1 + 4 + 9 + ...)], the levels one after another, each [C, k, k].
 * Its size does not depend on that of the image. */
#include "layers/pooling/family.h"

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    const int levels = ((const st_spatial_pyramid_pool_options *)l->options)->levels;
    if (layer_check_images(l, x)) return -1;
    ptrdiff_t parts = 0;
    for (ptrdiff_t k = 1; k <= levels; k++) parts += k * k;
    *y = ST_SHAPE(x.n[0], x.n[1], parts);
    const ptrdiff_t features = st_shape_numel(ST_SHAPE(x.n[1], parts), l->type->name);
    if (features < 0 || st_shape_numel(*y, l->type->name) < 0) return -1;
    *y = ST_SHAPE(x.n[0], features);
    return 0;
}

/* The place of the maximum of part [row, column] of parts x parts. */
static st_shape peak(st_tensor x, ptrdiff_t parts, ptrdiff_t row, ptrdiff_t column)
{
    const pool_span rows = pool_adaptive_span(row, x.shape.n[0], parts),
                    columns = pool_adaptive_span(column, x.shape.n[1], parts);
    const st_real *first = st_at(x, ST_INDEX(rows.first, columns.first));
    const ptrdiff_t k = pool_peak(first, rows.count, x.stride[0], columns.count, x.stride[1]);
    return ST_INDEX(rows.first + k / columns.count, columns.first + k % columns.count);
}

/* y of all parts; or, unless dx is null, dx += their dy. */
static void each_part(const st_call *c, st_tensor x, st_real *y, st_tensor dx)
{
    const int levels = ((const st_spatial_pyramid_pool_options *)c->options)->levels;
    for (ptrdiff_t n = 0; n < x.shape.n[0]; n++)
        for (ptrdiff_t parts = 1; parts <= levels; parts++)
            for (ptrdiff_t k = 0; k < x.shape.n[1]; k++) {
                const st_tensor plane = st_select(st_select(x, 0, n), 0, k);
                for (ptrdiff_t i = 0; i < parts * parts; i++, y++) {
                    const st_shape at = peak(plane, parts, i / parts, i % parts);
                    if (st_is_null(dx)) *y = *st_at(plane, at);
                    else *st_at(dx, ST_INDEX(n, k, at.n[0], at.n[1])) += *y;
                }
            }
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    each_part(c, x, st_data(y), (st_tensor){ 0 });
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    st_fill(dx, 0);
    each_part(c, x, st_data(dy), dx);
}

static const st_field fields[] = {
    POOL_FIELD(levels, ST_FIELD_INT, st_spatial_pyramid_pool_options, .fallback = 4, .least = 1,
               .below = 256),
    { 0 },
};

const st_layer_type layer_type_spatial_pyramid_pool = {
    .name = "spatial_pyramid_pool",
    .options_size = sizeof(st_spatial_pyramid_pool_options),
    .fields = fields,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};

CONSTRUCTOR(spatial_pyramid_pool, st_spatial_pyramid_pool_options)
