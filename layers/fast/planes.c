/* planes.c: images in planes, surrounded by zeros. */
#include "layers/fast/planes.h"

/* The distance of a tap from its window's position, in the phase that it reads. An axis has a stride or a
 * dilation, not both. */
static ptrdiff_t look(const window *w, int axis, ptrdiff_t tap)
{
    return tap * w->dilation[axis] / w->stride[axis];
}

ptrdiff_t phase_count(const window *w, int axis)
{
    return smallest(w->kernel[axis], w->stride[axis]);
}

bool phase_gaps(const window *w)
{
    return w->kernel[0] < w->stride[0] || w->kernel[1] < w->stride[1];
}

phase phase_of(const window *w, int axis, ptrdiff_t tap)
{
    ptrdiff_t stride = w->stride[axis], size = w->size[axis], before = w->before[axis];
    phase f = { .taps = ceil_div(w->kernel[axis] - tap, stride) };
    f.far = look(w, axis, (f.taps - 1) * stride);
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

void planes_clear(planes p, st_tensor scratch)
{
    st_fill(st_narrow(scratch, 0, 0, p.size), 0);
}

/* ---- tables of offsets ------------------------------------------------------------------------------ */

/* The same for further channels, at a fixed distance. */
static void repeat(ptrdiff_t *at, ptrdiff_t count, ptrdiff_t channels, ptrdiff_t apart)
{
    for (ptrdiff_t i = count; i < channels * count; i++) at[i] = at[i - count] + apart;
}

void planes_look_out(ptrdiff_t *at, const window *w, planes p, ptrdiff_t channels)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t kh = 0; kh < w->kernel[0]; kh++)
        for (ptrdiff_t kw = 0; kw < w->kernel[1]; kw++)
            at[count++] = kh * w->dilation[0] * p.pitch + kw * w->dilation[1];
    repeat(at, count, channels, p.rows * p.pitch);
}

/* The taps of one phase; returns their number. */
static ptrdiff_t look_back(ptrdiff_t *at, ptrdiff_t *weight, const window *w, planes p,
                           const ptrdiff_t tap[2], ptrdiff_t channels, const ptrdiff_t apart[2])
{
    ptrdiff_t count = 0, above = p.above + phase_of(w, 0, tap[0]).lead,
              left = p.left + phase_of(w, 1, tap[1]).lead;
    for (ptrdiff_t kh = tap[0]; kh < w->kernel[0]; kh += w->stride[0])
        for (ptrdiff_t kw = tap[1]; kw < w->kernel[1]; kw += w->stride[1]) {
            weight[count] = (kh * w->kernel[1] + kw) * apart[1];
            at[count++] = (above - look(w, 0, kh)) * p.pitch + left - look(w, 1, kw);
        }
    repeat(weight, count, channels, apart[0]);
    repeat(at, count, channels, p.rows * p.pitch);
    return channels * count;
}

void planes_look_back(ptrdiff_t *at, ptrdiff_t *weight, const window *w, planes p, ptrdiff_t channels,
                      const ptrdiff_t apart[2])
{
    for (ptrdiff_t kh = 0; kh < phase_count(w, 0); kh++)
        for (ptrdiff_t kw = 0; kw < phase_count(w, 1); kw++) {
            ptrdiff_t depth = look_back(at, weight, w, p, (ptrdiff_t[]){ kh, kw }, channels, apart);
            at += depth, weight += depth;
        }
}
