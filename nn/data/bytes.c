/* bytes.c: images whose pixels are bytes until they are loaded. */
#include "nn/data/data_impl.h"
#include "tensor/array.h"
#include "tensor/parallel.h"

#include <stdlib.h>

static void pixel_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const unsigned char **from = context, *restrict pixel = *from;
    st_real *restrict to = at[0];
    const ptrdiff_t step = stride[0];
    for (ptrdiff_t i = 0; i < n; i++) to[i * step] = (st_real)pixel[i] / 255;
    *from += n;
}

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const byte_images *b = d->own;
    const unsigned char *image = b->image + i * b->image_step;
    st_walk(1, &x, ST_ROW_MAJOR, pixel_row, &image);
    st_fill(y, b->label[i * b->label_step]);
}

static void release(st_dataset *d)
{
    byte_images *b = d->own;
    free(b->memory);
    free(b);
}

st_dataset *data_bytes(ptrdiff_t count, st_shape image, byte_images b)
{
    byte_images *own = array_new("data_bytes", 1, sizeof *own);
    if (!own) free(b.memory);
    if (!own) return NULL;
    *own = b;
    return st_dataset_new((st_dataset){ .count = count,
                                        .x = image,
                                        .get = get,
                                        .release = release,
                                        .own = own,
                                        .grain = parallel_grain(st_shape_numel(image, "data_bytes")) });
}
