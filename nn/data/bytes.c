/* bytes.c: pixels are converted when a sample is loaded. */
#include "nn/data/bytes.h"
#include "tensor/array.h"

#include <stdlib.h>
#include <string.h>

enum { WAKING = 1 << 17 }; /* pixels: converting them takes as long as waking a thread */

static void pixel_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    const unsigned char **from = context;
    for (ptrdiff_t i = 0; i < n; i++) at[0][i * stride[0]] = (st_real) * (*from)++ / 255;
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

/* ---- sets that wrap another one ------------------------------------------------------------------ */

static void begin(const st_dataset *d, uint64_t pass)
{
    data_wrapper *w = d->own;
    w->pass = pass;
    st_dataset_begin_epoch(w->of, pass);
}

void data_unwrap(st_dataset *d)
{
    data_wrapper *w = d->own;
    free(w->prepared);
    free(w);
}

static char *join(const char *steps, const char *step)
{
    size_t room = strlen(steps) + strlen(step) + 3;
    char *text = array_new("data: how samples are prepared", (ptrdiff_t)room, 1);
    if (text) snprintf(text, room, "%s%s%s", steps, steps[0] ? "; " : "", step);
    return text;
}

st_dataset *data_wrap(const st_dataset *of, st_dataset kind, const char *step)
{
    data_wrapper *w = kind.own;
    if (!kind.release) kind.release = data_unwrap;
    if (kind.grain == 0) kind.grain = of->grain;
    *w = (data_wrapper){ .of = of, .prepared = join(of->prepared ? of->prepared : "", step) };
    if (!w->prepared) {
        kind.release(&kind);
        return NULL;
    }
    if (kind.count == 0) kind.count = of->count;
    kind.x = of->x, kind.target = of->target;
    kind.begin = begin;
    kind.prepared = w->prepared;
    return st_dataset_new(kind);
}
