/* bytes.c: pixels become numbers when they are asked for. */
#include "nn/data/bytes.h"
#include "tensor/array.h"

#include <stdlib.h>
#include <string.h>

enum { WAKING = 1 << 17 }; /* pixels that take as long to convert as it takes to wake a thread */

static void pixel_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const unsigned char **from = context, *byte = *from;
    st_real *x = at[0];
    ptrdiff_t step = stride[0];
    if (step == 1) {
        for (ptrdiff_t i = 0; i < n; i++) x[i] = (st_real)byte[i] / 255;
    } else {
        for (ptrdiff_t i = 0; i < n; i++) x[i * step] = (st_real)byte[i] / 255;
    }
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
    for (int i = 0; i < 2; i++) free(b->memory[i]);
    free(b);
}

st_dataset *data_bytes(ptrdiff_t count, st_shape image, byte_images b)
{
    byte_images *own = array_new("data_bytes", 1, sizeof *own);
    if (!own) {
        for (int i = 0; i < 2; i++) free(b.memory[i]);
        return NULL;
    }
    *own = b;
    ptrdiff_t pixels = st_shape_numel(image, "data_bytes");
    return st_dataset_new((st_dataset){ .count = count,
                                        .x = image,
                                        .get = get,
                                        .release = release,
                                        .own = own,
                                        .grain = 1 + WAKING / (pixels > 0 ? pixels : 1) });
}

char *data_prepared(const st_dataset *of, const char *more)
{
    const char *before = of->prepared ? of->prepared : "", *between = of->prepared ? "; " : "";
    size_t room = strlen(before) + strlen(between) + strlen(more) + 1;
    char *text = array_new("data: how samples are prepared", (ptrdiff_t)room, 1);
    if (text) snprintf(text, room, "%s%s%s", before, between, more);
    return text;
}
