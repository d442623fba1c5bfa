/* planes.c: padded images laid out by phases. */
#include "layers/fast/planes.h"

/* Taps that are a period apart read the same phase of an axis. */
static ptrdiff_t period(const window *w, int axis)
{
    if (w->stride[axis] == 1) return 1; /* avoids divisions, the slowest part for small images */
    ptrdiff_t a = w->stride[axis], b = w->dilation[axis];
    while (b) {
        ptrdiff_t rest = a % b;
        a = b, b = rest;
    }
    return w->stride[axis] / a;
}

ptrdiff_t phase_count(const window *w, int axis)
{
    return smallest(w->kernel[axis], period(w, axis));
}

/* The distance of a tap from its window's position, in the phase that it reads. */
static ptrdiff_t look(const window *w, int axis, ptrdiff_t tap)
{
    return tap * w->dilation[axis] / w->stride[axis];
}

bool phase_gaps(const window *w)
{
    return phase_count(w, 0) < w->stride[0] || phase_count(w, 1) < w->stride[1];
}

phase phase_of(const window *w, int axis, ptrdiff_t tap)
{
    ptrdiff_t stride = w->stride[axis], size = w->size[axis], before = w->before[axis];
    ptrdiff_t taps = ceil_div(w->kernel[axis] - tap, period(w, axis)),
              last = tap + (taps - 1) * period(w, axis);
    ptrdiff_t place = tap * w->dilation[axis] % stride;
    phase f = { .taps = taps, .near = look(w, axis, tap), .far = look(w, axis, last) };
    f.lead = before > place ? ceil_div(before - place, stride) : 0;
    f.first = f.lead * stride + place - before;
    f.count = f.first < size ? ceil_div(size - f.first, stride) : 0;
    f.seen = largest(0, smallest(f.count, w->out[axis] + f.far - f.lead));
    return f;
}

/* ---- planes ---------------------------------------------------------------------------------------- */

static planes planes_of(const kernel *k, ptrdiff_t channels, const ptrdiff_t extent[2],
                        const ptrdiff_t lead[2], bool copied)
{
    ptrdiff_t size = (channels * extent[0] + lead[0]) * extent[1] + lead[1] + k->lanes;
    return (planes){ channels, extent[0], extent[1], lead[0], lead[1], size, copied };
}

planes planes_of_x(const kernel *k, const window *w, ptrdiff_t channels)
{
    ptrdiff_t extent[2] = { 1, w->out[1] }, lead[2] = { 0 };
    for (int axis = 0; axis < 2; axis++)
        for (ptrdiff_t tap = 0; tap < phase_count(w, axis); tap++) {
            phase f = phase_of(w, axis, tap);
            extent[axis] = largest(extent[axis], f.lead + largest(f.seen, w->out[axis] + f.far - 2 * f.lead));
            lead[axis] = largest(lead[axis], f.lead);
        }
    return planes_of(k, channels, extent, lead, false);
}

planes planes_of_dy(const kernel *k, const window *w, ptrdiff_t channels)
{
    ptrdiff_t extent[2], lead[2] = { 0 }, least[2];
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t after = 0, most = 0;
        least[axis] = w->size[axis];
        for (ptrdiff_t tap = 0; tap < phase_count(w, axis); tap++) {
            phase f = phase_of(w, axis, tap);
            lead[axis] = largest(lead[axis], f.far - f.lead);
            after = largest(after, f.lead + f.count - f.near - w->out[axis]);
            most = largest(most, f.count);
            least[axis] = smallest(least[axis], f.count);
        }
        extent[axis] = largest(w->out[axis] + largest(lead[axis], after), most);
    }
    return planes_of(k, channels, extent, lead, least[0] * least[1] < k->lanes);
}

static bool in_place(planes p, st_tensor image)
{
    return !p.copied && p.above == 0 && p.left == 0 && p.rows == image.shape.n[1] &&
           p.pitch == image.shape.n[2] && st_is_contiguous(image);
}

/* Constant steps vectorise. */
static void take(ptrdiff_t count, const st_real *restrict from, ptrdiff_t step, st_real *restrict to)
{
    if (step == 1)
        for (ptrdiff_t j = 0; j < count; j++) to[j] = from[j];
    else if (step == 2)
        for (ptrdiff_t j = 0; j < count; j++) to[j] = from[2 * j];
    else
        for (ptrdiff_t j = 0; j < count; j++) to[j] = from[step * j];
}

/* The phases of an axis that are processed together, from a tap's on; returns their number. */
static ptrdiff_t some_phases(const window *w, int axis, ptrdiff_t tap, phase f[PHASES_TOGETHER])
{
    ptrdiff_t count = smallest(PHASES_TOGETHER, phase_count(w, axis) - tap);
    for (ptrdiff_t q = 0; q < count; q++) f[q] = phase_of(w, axis, tap + q);
    return count;
}

/* Lays out a channel: the rows of a phase, with the columns of some phases. */
static void lay_out_rows(const window *w, planes p, phase f, const phase *g, ptrdiff_t count,
                         const st_real *from, const ptrdiff_t stride[2], st_real *to)
{
    for (ptrdiff_t i = 0; i < f.seen; i++) {
        const st_real *row = from + (f.first + i * w->stride[0]) * stride[0];
        for (ptrdiff_t q = 0; q < count; q++)
            take(g[q].seen, row + g[q].first * stride[1], w->stride[1] * stride[1],
                 to + q * p.size + (f.lead + i) * p.pitch + g[q].lead);
    }
}

const st_real *planes_lay_out_x(const window *w, planes p, st_tensor image, st_tensor scratch)
{
    if (in_place(p, image)) return st_data(image);
    const ptrdiff_t *stride = image.stride, high = phase_count(w, 0), wide = phase_count(w, 1);
    phase f[PHASES_TOGETHER], g[PHASES_TOGETHER];
    for (ptrdiff_t kh = 0; kh < high; kh += PHASES_TOGETHER)
        for (ptrdiff_t kw = 0; kw < wide; kw += PHASES_TOGETHER) {
            ptrdiff_t rows = some_phases(w, 0, kh, f), columns = some_phases(w, 1, kw, g);
            st_real *to = st_data(scratch) + (kh * wide + kw) * p.size;
            for (ptrdiff_t c = 0; c < p.channels; c++)
                for (ptrdiff_t q = 0; q < rows; q++)
                    lay_out_rows(w, p, f[q], g, columns, st_data(image) + c * stride[0], stride + 1,
                                 to + q * wide * p.size + c * p.rows * p.pitch);
        }
    return st_data(scratch);
}

const st_real *planes_lay_out_dy(planes p, st_tensor image, st_tensor scratch)
{
    if (in_place(p, image)) return st_data(image);
    scratch.offset += p.above * p.pitch + p.left;
    scratch.shape = image.shape;
    scratch.stride[0] = p.rows * p.pitch, scratch.stride[1] = p.pitch, scratch.stride[2] = 1;
    st_copy(scratch, image);
    return st_data(scratch) - p.above * p.pitch - p.left;
}

void planes_clear(ptrdiff_t size, st_tensor scratch)
{
    st_fill(st_narrow(scratch, 0, 0, size), 0);
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
            at[count++] = (kh % period(w, 0) * phase_count(w, 1) + kw % period(w, 1)) * p.size +
                          look(w, 0, kh) * p.pitch + look(w, 1, kw);
    repeat(at, count, channels, p.rows * p.pitch);
}

/* The taps of one phase; returns their number. */
static ptrdiff_t look_back(ptrdiff_t *at, ptrdiff_t *weight, const window *w, planes p,
                           const ptrdiff_t tap[2], ptrdiff_t channels, const ptrdiff_t apart[2])
{
    ptrdiff_t count = 0, above = p.above + phase_of(w, 0, tap[0]).lead,
              left = p.left + phase_of(w, 1, tap[1]).lead;
    for (ptrdiff_t kh = tap[0]; kh < w->kernel[0]; kh += period(w, 0))
        for (ptrdiff_t kw = tap[1]; kw < w->kernel[1]; kw += period(w, 1)) {
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
