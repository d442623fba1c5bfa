/* planes.c: images in planes, surrounded by zeros. */
#include "layers/fast/direct.h"

ptrdiff_t phase_count(const window *w, int axis)
{
    return smallest(w->kernel[axis], w->stride[axis]);
}

phase phase_of(const window *w, int axis, ptrdiff_t tap)
{
    ptrdiff_t stride = w->stride[axis], size = w->size[axis], before = w->before[axis];
    phase f = { .taps = ceil_div(w->kernel[axis] - tap, stride) };
    f.far = (f.taps - 1) * w->dilation[axis];
    f.lead = before > tap ? ceil_div(before - tap, stride) : 0;
    f.first = f.lead * stride + tap - before;
    f.count = f.first < size ? ceil_div(size - f.first, stride) : 0;
    return f;
}

/* ---- planes ---------------------------------------------------------------------------------------- */

static planes planes_of(const kernel *k, ptrdiff_t channels, const ptrdiff_t extent[2],
                        const ptrdiff_t lead[2])
{
    ptrdiff_t size = (channels * extent[0] + lead[0]) * extent[1] + lead[1] + k->lanes;
    return (planes){ extent[0], extent[1], lead[0], lead[1], size, false };
}

planes planes_of_x(const kernel *k, const window *w, ptrdiff_t channels)
{
    ptrdiff_t extent[2];
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t far = (w->kernel[axis] - 1) * (ptrdiff_t)w->dilation[axis], lead = w->before[axis];
        extent[axis] = largest(lead + w->size[axis], (w->out[axis] - 1) * w->stride[axis] + 1 + far - lead);
    }
    return planes_of(k, channels, extent, w->before);
}

planes planes_of_dy(const kernel *k, const window *w, ptrdiff_t channels)
{
    ptrdiff_t extent[2], lead[2] = { 0 };
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t after = 0, most = 0;
        for (ptrdiff_t tap = 0; tap < phase_count(w, axis); tap++) {
            phase f = phase_of(w, axis, tap);
            lead[axis] = largest(lead[axis], f.far - f.lead);
            after = largest(after, f.lead + f.count - w->out[axis]);
            most = largest(most, f.count);
        }
        extent[axis] = largest(w->out[axis] + largest(lead[axis], after), most);
    }
    return planes_of(k, channels, extent, lead);
}

static bool in_place(planes p, st_tensor image)
{
    return !p.copied && p.above == 0 && p.left == 0 && p.rows == image.shape.n[1] &&
           p.pitch == image.shape.n[2] && st_is_contiguous(image);
}

/* Channels of an image in place are far apart, which hardware does not prefetch. */
static const st_real *prefetched(const st_real *image, ptrdiff_t size)
{
    for (ptrdiff_t i = 0; i < size; i += 64 / (ptrdiff_t)sizeof *image) __builtin_prefetch(image + i);
    return image;
}

const st_real *planes_lay_out(planes p, st_tensor image, st_tensor scratch)
{
    if (in_place(p, image)) return prefetched(st_data(image), st_numel(image));
    scratch.offset += p.above * p.pitch + p.left;
    scratch.shape = image.shape;
    scratch.stride[0] = p.rows * p.pitch, scratch.stride[1] = p.pitch, scratch.stride[2] = 1;
    st_copy(scratch, image);
    return st_data(scratch) - p.above * p.pitch - p.left;
}
