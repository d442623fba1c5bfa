/* conv2d_direct.c: convolution without columns: windows are rows of the padded image, found by their offsets.
 *
 * With strides (s, t) a tap of the kernel sees of every window the same phase (a, b) of the padded image: its rows
 * a, a + s, … and of them the columns b, b + t, …. Each phase [C, H, W] that a tap sees lies in planes of one pitch,
 * so that the window (oh, ow) is at position oh * pitch + ow of them all, and what a tap (c, kh, kw) sees of it lies
 * a fixed offset further on. So with position as the column
 *
 *     y[o][position]  = Σ_tap weight[o][tap] plane[offset[tap] + position]            a product of kernel.h
 *
 * computes all windows, and between the rows perhaps a few positions that are none, which are left behind. Backward
 * each phase of dx is the same product of dy, in planes with zeros round them, with the taps that see the phase; and
 * the gradient is
 *
 *     dw[tap][o]     += Σ_position plane[offset[tap] + position] dyᵀ[position][o]
 *
 * Where windows are at a stride and channels fill vectors, these are lanes forward and backward as they are in the
 * gradient: what is broadcast may lie at any distance, so that x needs no phases, and results are turned round.
 *
 * Groups are convolutions side by side. */
#include "layers/conv2d.h"
#include "tensor/kernel.h"

enum { PLANE, RESULT, TURNED, ROW, STEP, OFFSET }; /* scratch */

/* Elements of a block of results, and of dy turned round, so that both stay in cache. */
enum { BLOCK = 1 << 15 };

/* Taps of a block of products, so that what they see of a few vectors of windows stays in the first cache. */
enum { DEPTH = 128 };

/* Phases of columns that are computed before their results are put beside each other. */
enum { TOGETHER = 4 };

static ptrdiff_t largest(ptrdiff_t a, ptrdiff_t b)
{
    return a > b ? a : b;
}

static ptrdiff_t smallest(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

static ptrdiff_t parts(ptrdiff_t whole, ptrdiff_t part)
{
    return (whole + part - 1) / part;
}

/* Of each group. */
typedef struct sizes {
    ptrdiff_t groups, in, out, area, taps; /* taps: in * area, of an output channel */
} sizes;

static sizes sizes_of(const layer *l, const window *w)
{
    const conv2d *o = l->options;
    ptrdiff_t in = l->x.n[1] / o->groups, area = (ptrdiff_t)w->kernel[0] * w->kernel[1];
    return (sizes){ o->groups, in, o->out_channels / o->groups, area, in * area };
}

/* ---- phases ---------------------------------------------------------------------------------------- */

/* Taps that are a period apart see the same phase of an axis. */
static ptrdiff_t period(const window *w, int axis)
{
    ptrdiff_t a = w->stride[axis], b = w->dilation[axis];
    while (b) {
        ptrdiff_t rest = a % b;
        a = b, b = rest;
    }
    return w->stride[axis] / a;
}

/* The phases of an axis that taps see: that of tap 0, of tap 1, …. */
static ptrdiff_t phases(const window *w, int axis)
{
    return smallest(w->kernel[axis], period(w, axis));
}

/* How far from its window's place a tap looks, in the phase that it sees. */
static ptrdiff_t look(const window *w, int axis, ptrdiff_t tap)
{
    return tap * w->dilation[axis] / w->stride[axis];
}

/* Along an axis. */
typedef struct phase {
    ptrdiff_t taps, near, far; /* how many; how far the first looks, and the last */
    ptrdiff_t lead;            /* zeros before what there is of the image: */
    ptrdiff_t first, count;    /* first, first + stride, …, */
    ptrdiff_t seen;            /* of which windows see so many */
} phase;

static phase phase_of(const window *w, int axis, ptrdiff_t tap)
{
    ptrdiff_t stride = w->stride[axis], size = w->size[axis], before = w->before[axis];
    ptrdiff_t taps = parts(w->kernel[axis] - tap, period(w, axis)), last = tap + (taps - 1) * period(w, axis);
    ptrdiff_t place = tap * w->dilation[axis] % stride;
    phase f = { .taps = taps, .near = look(w, axis, tap), .far = look(w, axis, last) };
    f.lead = before > place ? parts(before - place, stride) : 0;
    f.first = f.lead * stride + place - before;
    f.count = f.first < size ? parts(size - f.first, stride) : 0;
    f.seen = largest(0, smallest(f.count, w->out[axis] + f.far - f.lead));
    return f;
}

/* ---- planes ---------------------------------------------------------------------------------------- */

/* Element (c, i, j) of a phase lies at (c * rows + i) * pitch + j, phases `size` apart. The zeros after a row are
 * also those before the next one, and below the last channel there are as many as above the first; then there is
 * room for a vector more, so that positions may be computed by whole vectors. */
typedef struct planes {
    ptrdiff_t channels, rows, pitch, above, left, size;
    bool copied; /* images are never used where they are: they have no such room */
} planes;

static planes planes_of(const layer *l, ptrdiff_t channels, const ptrdiff_t extent[2],
                        const ptrdiff_t lead[2], bool copied)
{
    ptrdiff_t size = (channels * extent[0] + lead[0]) * extent[1] + lead[1] + l->kernel->lanes;
    return (planes){ channels, extent[0], extent[1], lead[0], lead[1], size, copied };
}

static planes planes_of_x(const layer *l, const window *w, ptrdiff_t channels)
{
    ptrdiff_t extent[2] = { 1, w->out[1] }, lead[2] = { 0 };
    for (int axis = 0; axis < 2; axis++)
        for (ptrdiff_t tap = 0; tap < phases(w, axis); tap++) {
            phase f = phase_of(w, axis, tap);
            extent[axis] = largest(extent[axis], f.lead + largest(f.seen, w->out[axis] + f.far - 2 * f.lead));
            lead[axis] = largest(lead[axis], f.lead);
        }
    return planes_of(l, channels, extent, lead, false);
}

static planes planes_of_dy(const layer *l, const window *w, ptrdiff_t channels)
{
    ptrdiff_t extent[2], lead[2] = { 0 }, least[2];
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t after = 0, most = 0;
        least[axis] = w->size[axis];
        for (ptrdiff_t tap = 0; tap < phases(w, axis); tap++) {
            phase f = phase_of(w, axis, tap);
            lead[axis] = largest(lead[axis], f.far - f.lead);
            after = largest(after, f.lead + f.count - f.near - w->out[axis]);
            most = largest(most, f.count);
            least[axis] = smallest(least[axis], f.count);
        }
        extent[axis] = largest(w->out[axis] + largest(lead[axis], after), most);
    }
    return planes_of(l, channels, extent, lead, least[0] * least[1] < l->kernel->lanes);
}

static bool in_place(planes p, tensor image)
{
    return !p.copied && p.above == 0 && p.left == 0 && p.rows == image.shape.n[1] &&
           p.pitch == image.shape.n[2] && tensor_is_contiguous(image);
}

/* Steps known to the compiler become vectors. */
static void take(ptrdiff_t count, const real *restrict from, ptrdiff_t step, real *restrict to)
{
    if (step == 1)
        for (ptrdiff_t j = 0; j < count; j++) to[j] = from[j];
    else if (step == 2)
        for (ptrdiff_t j = 0; j < count; j++) to[j] = from[2 * j];
    else
        for (ptrdiff_t j = 0; j < count; j++) to[j] = from[step * j];
}

/* As many phases as are taken together of an axis, from that of a tap on; how many there are. */
static ptrdiff_t some_phases(const window *w, int axis, ptrdiff_t tap, phase f[TOGETHER])
{
    ptrdiff_t count = smallest(TOGETHER, phases(w, axis) - tap);
    for (ptrdiff_t q = 0; q < count; q++) f[q] = phase_of(w, axis, tap + q);
    return count;
}

/* Of a channel, a phase's rows, and of them the columns of some phases. */
static void lay_out_rows(const window *w, planes p, phase f, const phase *g, ptrdiff_t count,
                         const real *from, const ptrdiff_t stride[2], real *to)
{
    for (ptrdiff_t i = 0; i < f.seen; i++) {
        const real *row = from + (f.first + i * w->stride[0]) * stride[0];
        for (ptrdiff_t q = 0; q < count; q++)
            take(g[q].seen, row + g[q].first * stride[1], w->stride[1] * stride[1],
                 to + q * p.size + (f.lead + i) * p.pitch + g[q].lead);
    }
}

/* An image in planes: where it is, or copied between the zeros of scratch. Of x what windows see. */
static const real *lay_out_x(const window *w, planes p, tensor image, tensor scratch)
{
    if (in_place(p, image)) return tensor_data(image);
    const ptrdiff_t *stride = image.stride, high = phases(w, 0), wide = phases(w, 1);
    phase f[TOGETHER], g[TOGETHER];
    for (ptrdiff_t kh = 0; kh < high; kh += TOGETHER)
        for (ptrdiff_t kw = 0; kw < wide; kw += TOGETHER) {
            ptrdiff_t rows = some_phases(w, 0, kh, f), columns = some_phases(w, 1, kw, g);
            real *to = tensor_data(scratch) + (kh * wide + kw) * p.size;
            for (ptrdiff_t c = 0; c < p.channels; c++)
                for (ptrdiff_t q = 0; q < rows; q++)
                    lay_out_rows(w, p, f[q], g, columns, tensor_data(image) + c * stride[0], stride + 1,
                                 to + q * wide * p.size + c * p.rows * p.pitch);
        }
    return tensor_data(scratch);
}

static const real *lay_out_dy(planes p, tensor image, tensor scratch)
{
    if (in_place(p, image)) return tensor_data(image);
    scratch.offset += p.above * p.pitch + p.left;
    scratch.shape = image.shape;
    scratch.stride[0] = p.rows * p.pitch, scratch.stride[1] = p.pitch, scratch.stride[2] = 1;
    tensor_copy(scratch, image);
    return tensor_data(scratch) - p.above * p.pitch - p.left;
}

/* The zeros between images in planes, where they are copied. */
static void clear(ptrdiff_t size, tensor scratch)
{
    tensor_fill(tensor_narrow(scratch, 0, 0, size), 0);
}

/* ---- tables of offsets ------------------------------------------------------------------------------ */

static void even(ptrdiff_t *at, ptrdiff_t count, ptrdiff_t step)
{
    for (ptrdiff_t i = 0; i < count; i++) at[i] = i * step;
}

/* Of further channels the same, so much further on. */
static void repeat(ptrdiff_t *at, ptrdiff_t count, ptrdiff_t channels, ptrdiff_t apart)
{
    for (ptrdiff_t i = count; i < channels * count; i++) at[i] = at[i - count] + apart;
}

/* Where the taps of a kernel [channels, KH, KW] look in x, from the position of their window. */
static void look_out(ptrdiff_t *at, const window *w, planes p, ptrdiff_t channels)
{
    ptrdiff_t count = 0;
    for (ptrdiff_t kh = 0; kh < w->kernel[0]; kh++)
        for (ptrdiff_t kw = 0; kw < w->kernel[1]; kw++)
            at[count++] = (kh % period(w, 0) * phases(w, 1) + kw % period(w, 1)) * p.size +
                          look(w, 0, kh) * p.pitch + look(w, 1, kw);
    repeat(at, count, channels, p.rows * p.pitch);
}

/* From which position of dy each output channel's taps of a phase look at the first place of dx in it, and where
 * their weights are, so far apart from channel to channel and from tap to tap; how many there are. */
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

/* Of all phases, one after another. */
static void look_back_everywhere(ptrdiff_t *at, ptrdiff_t *weight, const window *w, planes p,
                                 ptrdiff_t channels, const ptrdiff_t apart[2])
{
    for (ptrdiff_t kh = 0; kh < phases(w, 0); kh++)
        for (ptrdiff_t kw = 0; kw < phases(w, 1); kw++) {
            ptrdiff_t depth = look_back(at, weight, w, p, (ptrdiff_t[]){ kh, kw }, channels, apart);
            at += depth, weight += depth;
        }
}

/* ---- plan ------------------------------------------------------------------------------------------- */

static bool suits(const layer *l, const window *w, shape x)
{
    (void)x;
    for (int axis = 0; axis < 2; axis++)
        if (w->before[axis] > w->size[axis] + w->kernel[axis]) return false;
    return w->out[0] * w->out[1] >= l->kernel->lanes;
}

/* Rows of so many positions that fill a vector. */
static ptrdiff_t least_rows(const layer *l, ptrdiff_t width)
{
    return parts(l->kernel->lanes, width);
}

/* Rows in a block, of so many rows of `width` positions with `depth` numbers each: as many as fit into BLOCK, and
 * enough to fill a vector. */
static ptrdiff_t block_rows(const layer *l, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t depth)
{
    ptrdiff_t least = least_rows(l, width), size = largest(least, BLOCK / (width * depth));
    if (size >= rows) return rows;
    return largest(least, parts(rows, parts(rows, size)));
}

/* Positions from the first to the last of so many rows, of which `width` in each count. */
static ptrdiff_t positions(ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch)
{
    return (rows - 1) * pitch + width;
}

/* From one row of a result to the next, of blocks of images of so many channels and rows. */
static ptrdiff_t result_pitch(const layer *l, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t pitch)
{
    return kernel_padded(l->kernel, block_rows(l, height, pitch, channels) * pitch);
}

/* Whether lanes are better used on positions than on so few channels. */
static bool few(const layer *l, ptrdiff_t out)
{
    return 2 * kernel_padded(l->kernel, out) >= 3 * out;
}

/* The largest result of a block. */
static ptrdiff_t result_size(const layer *l, const window *w, sizes s, planes px, planes pdy)
{
    ptrdiff_t size = s.out * result_pitch(l, s.out, w->out[0], px.pitch),
              together = smallest(phases(w, 1), TOGETHER);
    for (ptrdiff_t kh = 0; kh < phases(w, 0); kh++) {
        ptrdiff_t height = phase_of(w, 0, kh).count;
        if (height > 0) size = largest(size, together * s.in * result_pitch(l, s.in, height, pdy.pitch));
    }
    return size;
}

/* Whether lanes are for channels, at a stride of windows: there are enough of them, and images fill a vector. */
static bool by_channels(const layer *l, const window *w, ptrdiff_t channels)
{
    bool strided = w->stride[0] > 1 || w->stride[1] > 1;
    return strided && !few(l, channels) && channels >= l->kernel->lanes &&
           w->size[0] * w->size[1] >= l->kernel->lanes;
}

/* The same windows seen as every stride-th of those at stride 1. */
static window unstrided(const window *w)
{
    window d = *w;
    for (int axis = 0; axis < 2; axis++)
        d.stride[axis] = 1, d.out[axis] = (w->out[axis] - 1) * w->stride[axis] + 1;
    return d;
}

/* Positions in a block where each is a row of channels. */
static ptrdiff_t block_positions(const layer *l, ptrdiff_t height, ptrdiff_t width, ptrdiff_t channels)
{
    return (block_rows(l, height, width, kernel_padded(l->kernel, channels)) + least_rows(l, width)) * width;
}

static int plan(layer *l, const window *w, shape x)
{
    sizes s = sizes_of(l, w);
    window d = unstrided(w);
    planes px = planes_of_x(l, w, x.n[1]), pd = planes_of_x(l, &d, x.n[1]),
           pdy = planes_of_dy(l, w, s.groups * s.out);
    ptrdiff_t lanes_out = kernel_padded(l->kernel, s.out), lanes_in = kernel_padded(l->kernel, s.in);
    ptrdiff_t y_block = block_positions(l, w->out[0], w->out[1], s.out),
              x_block = block_positions(l, w->size[0], w->size[1], s.in);
    ptrdiff_t spread = kernel_padded(l->kernel, positions(w->out[0], w->out[1], px.pitch));
    ptrdiff_t plane = largest(largest(phases(w, 0) * phases(w, 1) * px.size, pd.size), pdy.size);
    ptrdiff_t result = largest(result_size(l, w, s, px, pdy), s.groups * s.taps * lanes_out);
    ptrdiff_t turned = largest(y_block * lanes_out, few(l, s.out) ? s.out * spread : 0);
    ptrdiff_t depth = largest(largest(s.in, s.out) * s.area, largest(y_block, spread / l->kernel->lanes));
    if (by_channels(l, w, s.out)) {
        result = largest(result, y_block * lanes_out);
        turned = largest(turned, s.groups * s.taps * lanes_out);
    }
    if (by_channels(l, w, s.in)) {
        result = largest(result, x_block * lanes_in);
        turned = largest(turned, s.groups * s.out * s.area * lanes_in);
        depth = largest(depth, w->size[1]);
    }
    if (layer_scratch(l, SHAPE(plane)) || layer_scratch(l, SHAPE(result)) || layer_scratch(l, SHAPE(turned)))
        return -1;
    return layer_table(l, depth) || layer_table(l, depth) || layer_table(l, depth) ? -1 : 0;
}

/* ---- forward and backward with positions as lanes --------------------------------------------------------------- */

/* result[m][position] = Σ_k weight[row[m] + step[k]] plane[offset[k] + position] of some of the columns. */
typedef struct part {
    ptrdiff_t depth, first, width; /* columns first, first + stride, … */
    const ptrdiff_t *step, *offset;
} part;

typedef struct correlation {
    const real *weight, *plane, *bias; /* bias NULL: none */
    ptrdiff_t pitch, stride;
    bool room; /* behind the plane */
    int parts;
    part part[TOGETHER];
} correlation;

static void multiply(const layer *l, const correlation *c, const part *p, ptrdiff_t channels, ptrdiff_t first,
                     ptrdiff_t rows, real *result, ptrdiff_t far)
{
    ptrdiff_t count = largest(l->kernel->lanes, positions(rows, p->width, c->pitch)), most = p->depth, depth;
    if (c->room) count = kernel_padded(l->kernel, count), most = DEPTH;
    for (ptrdiff_t k = 0; k < p->depth; k += depth) {
        depth = smallest(most, p->depth - k);
        kernel_product(l->kernel, channels, count, depth, c->weight, layer_offsets(l, ROW), p->step + k,
                       c->plane + first * c->pitch, p->offset + k, result, far, k > 0);
    }
}

/* to[0], to[2], … = even, to[1], to[3], … = odd */
static void alternate(ptrdiff_t width, const real *restrict even, const real *restrict odd, real *restrict to)
{
    for (ptrdiff_t j = 0; j < width / 2; j++) to[2 * j] = even[j], to[2 * j + 1] = odd[j];
    if (width % 2) to[width - 1] = even[width / 2];
}

/* A row of all parts, `size` apart. */
static void put(const correlation *c, const real *from, ptrdiff_t size, ptrdiff_t width, real *to)
{
    if (c->parts == 2 && c->stride == 2) {
        ptrdiff_t odd = c->part[1].first;
        alternate(width, from + (1 - odd) * size, from + odd * size, to);
        return;
    }
    for (int q = 0; q < c->parts; q++, from += size)
        for (ptrdiff_t j = 0; j < c->part[q].width; j++) to[c->part[q].first + j * c->stride] = from[j];
}

/* to [channels, rows, columns]: of all rows those columns that are some part's. */
static void correlate(const layer *l, const correlation *c, tensor to)
{
    ptrdiff_t channels = to.shape.n[0], height = to.shape.n[1], width = to.shape.n[2],
              lanes = l->kernel->lanes;
    const ptrdiff_t rows = block_rows(l, height, c->pitch, channels);
    bool plain = c->parts == 1 && c->stride == 1;
    bool whole = rows * width >= lanes && (!c->room || rows * width % lanes == 0);
    bool straight =
        plain && whole && c->pitch == width && to.stride[1] == width && !c->bias; /* to its place at once */
    ptrdiff_t far = straight ? to.stride[0] : result_pitch(l, channels, height, c->pitch),
              size = channels * far;
    for (ptrdiff_t first = 0; first < height; first += rows) {
        if (first + rows > height) first = height - rows; /* some once more */
        real *place = tensor_data(to) + first * to.stride[1],
             *result = straight ? place : tensor_data(l->scratch[RESULT]);
        for (int q = 0; q < c->parts; q++)
            multiply(l, c, &c->part[q], channels, first, rows, result + q * size, far);
        for (ptrdiff_t m = 0; m < channels && !straight; m++, place += to.stride[0], result += far)
            if (plain)
                kernel_move(l->kernel, rows, width, result, c->pitch, place, to.stride[1],
                            c->bias ? c->bias[m] : 0);
            else
                for (ptrdiff_t i = 0; i < rows; i++)
                    put(c, result + i * c->pitch, size, width, place + i * to.stride[1]);
    }
}

static tensor group_of(tensor image, ptrdiff_t g, ptrdiff_t channels)
{
    return tensor_narrow(image, 0, g * channels, channels);
}

/* Whether a vector behind the plane may be read. */
static bool has_room(const layer *l, const real *plane)
{
    return plane == tensor_data(l->scratch[PLANE]);
}

static void forward_by_positions(const layer *l, const window *w, sizes s, tensor x, tensor y)
{
    planes p = planes_of_x(l, w, x.shape.n[1]);
    const real *bias = conv2d_bias(l), *weight = tensor_data(l->param[CONV2D_WEIGHT]);
    part all = { s.taps, 0, w->out[1], layer_offsets(l, STEP), layer_offsets(l, OFFSET) };
    even(layer_offsets(l, ROW), s.out, s.taps);
    even(layer_offsets(l, STEP), s.taps, 1);
    look_out(layer_offsets(l, OFFSET), w, p, s.in);
    clear(phases(w, 0) * phases(w, 1) * p.size, l->scratch[PLANE]);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *plane = lay_out_x(w, p, tensor_select(x, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++) {
            correlation c = { .weight = weight + g * s.out * s.taps,
                              .plane = plane + g * s.in * p.rows * p.pitch,
                              .bias = bias ? bias + g * s.out : NULL,
                              .pitch = p.pitch,
                              .stride = 1,
                              .room = has_room(l, plane),
                              .parts = 1,
                              .part = { all } };
            correlate(l, &c, group_of(tensor_select(y, 0, i), g, s.out));
        }
    }
}

/* Rows of a phase of dx [C, H, W], of each group: sums over all that looked at them. */
static void backward_rows(const layer *l, sizes s, const correlation *c, ptrdiff_t apart, tensor dx)
{
    for (ptrdiff_t g = 0; g < s.groups; g++) {
        correlation own = *c;
        own.weight += g * s.out * s.taps, own.plane += g * s.out * apart;
        correlate(l, &own, group_of(dx, g, s.in));
    }
}

static void backward_image(const layer *l, const window *w, sizes s, planes p, const real *plane, tensor dx)
{
    const ptrdiff_t *step = layer_offsets(l, STEP), *offset = layer_offsets(l, OFFSET);
    correlation c = { .weight = tensor_data(l->param[CONV2D_WEIGHT]),
                      .plane = plane,
                      .pitch = p.pitch,
                      .stride = w->stride[1],
                      .room = has_room(l, plane) };
    for (ptrdiff_t kh = 0; kh < phases(w, 0); kh++) {
        phase f = phase_of(w, 0, kh);
        tensor rows =
            f.count > 0 ? tensor_step(tensor_narrow(dx, 1, f.first, dx.shape.n[1] - f.first), 1, w->stride[0])
                        : dx;
        for (ptrdiff_t kw = 0; kw < phases(w, 1); kw++) {
            phase g = phase_of(w, 1, kw);
            ptrdiff_t depth = s.out * f.taps * g.taps;
            if (g.count > 0) c.part[c.parts++] = (part){ depth, g.first, g.count, step, offset };
            step += depth, offset += depth;
            if (c.parts == TOGETHER || kw == phases(w, 1) - 1) {
                if (f.count > 0) backward_rows(l, s, &c, p.rows * p.pitch, rows);
                c.parts = 0;
            }
        }
    }
}

static void backward_by_positions(const layer *l, const window *w, sizes s, planes p, tensor dy, tensor dx)
{
    even(layer_offsets(l, ROW), s.in, s.area);
    look_back_everywhere(layer_offsets(l, OFFSET), layer_offsets(l, STEP), w, p, s.out,
                         (ptrdiff_t[]){ s.taps, 1 });
    if (phases(w, 0) < w->stride[0] || phases(w, 1) < w->stride[1]) tensor_fill(dx, 0);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++)
        backward_image(l, w, s, p, lay_out_dy(p, tensor_select(dy, 0, i), l->scratch[PLANE]),
                       tensor_select(dx, 0, i));
}

/* ---- forward and backward with channels as lanes ------------------------------------------------------ */

/* The weights of each group [taps, its output channels], or [output channels, KH, KW, its input channels]. */
static void turn_weights(const layer *l, sizes s, bool back)
{
    ptrdiff_t lanes = kernel_padded(l->kernel, back ? s.in : s.out), o = back ? s.area * lanes : 1;
    ptrdiff_t c = back ? 1 : s.area * lanes, g = (back ? s.out * s.area : s.taps) * lanes;
    tensor to = l->scratch[TURNED];
    tensor_fill(tensor_narrow(to, 0, 0, s.groups * g), 0);
    to.shape = SHAPE(s.groups, s.out, s.in, s.area);
    to.stride[0] = g, to.stride[1] = o, to.stride[2] = c, to.stride[3] = lanes;
    tensor_copy(to, tensor_reshape(l->param[CONV2D_WEIGHT], to.shape));
}

/* result[i][channel] (+)= Σ_k plane[row[i] + step[k]] weight[offset[k]][channel], from row to row of result `far`. */
static void gather(const layer *l, ptrdiff_t count, ptrdiff_t lanes, ptrdiff_t depth, const real *plane,
                   const ptrdiff_t *step, const real *weight, const ptrdiff_t *offset, real *result,
                   ptrdiff_t far, bool add)
{
    for (ptrdiff_t k = 0; k < depth; k += DEPTH)
        kernel_product(l->kernel, count, lanes, smallest(DEPTH, depth - k), plane, layer_offsets(l, ROW),
                       step + k, weight, offset + k, result, far, add || k > 0);
}

/* to[channel][i] = result[i][channel] */
static void turn_result(const layer *l, ptrdiff_t count, ptrdiff_t channels, real *to, ptrdiff_t pitch)
{
    ptrdiff_t lanes = l->kernel->lanes, far = kernel_padded(l->kernel, channels),
              whole = count / lanes * lanes;
    const real *result = tensor_data(l->scratch[RESULT]);
    kernel_transpose(l->kernel, whole, channels, result, far, to, pitch);
    if (whole < count) /* some once more */
        kernel_transpose(l->kernel, lanes, channels, result + (count - lanes) * far, far, to + count - lanes,
                         pitch);
}

/* Where the windows of a block look, in a plane of stride 1. */
static void windows_at(ptrdiff_t *at, ptrdiff_t count, const window *w, planes p)
{
    for (ptrdiff_t i = 0; i < count; i++)
        at[i] = i / w->out[1] * w->stride[0] * p.pitch + i % w->out[1] * w->stride[1];
}

static void forward_group(const layer *l, const window *w, sizes s, planes p, const real *plane,
                          const real *weight, const real *bias, tensor y)
{
    ptrdiff_t lanes = kernel_padded(l->kernel, s.out), width = w->out[1];
    const ptrdiff_t rows = block_rows(l, w->out[0], width, lanes);
    real *result = tensor_data(l->scratch[RESULT]);
    for (ptrdiff_t first = 0; first < w->out[0]; first += rows) {
        if (first + rows > w->out[0]) first = w->out[0] - rows; /* some once more */
        for (ptrdiff_t i = 0; i < rows * width && bias; i++)
            for (ptrdiff_t o = 0; o < lanes; o++) result[i * lanes + o] = o < s.out ? bias[o] : 0;
        gather(l, rows * width, lanes, s.taps, plane + first * w->stride[0] * p.pitch, layer_offsets(l, STEP),
               weight, layer_offsets(l, OFFSET), result, lanes, bias != NULL);
        turn_result(l, rows * width, s.out, tensor_data(y) + first * width, w->out[0] * width);
    }
}

static void forward_by_channels(const layer *l, const window *w, sizes s, tensor x, tensor y)
{
    window d = unstrided(w);
    planes p = planes_of_x(l, &d, x.shape.n[1]);
    ptrdiff_t lanes = kernel_padded(l->kernel, s.out);
    const real *bias = conv2d_bias(l);
    windows_at(layer_offsets(l, ROW), block_positions(l, w->out[0], w->out[1], s.out), w, p);
    look_out(layer_offsets(l, STEP), &d, p, s.in);
    even(layer_offsets(l, OFFSET), s.taps, lanes);
    turn_weights(l, s, false);
    clear(p.size, l->scratch[PLANE]);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *plane = lay_out_x(&d, p, tensor_select(x, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            forward_group(l, w, s, p, plane + g * s.in * p.rows * p.pitch,
                          tensor_data(l->scratch[TURNED]) + g * s.taps * lanes,
                          bias ? bias + g * s.out : NULL, group_of(tensor_select(y, 0, i), g, s.out));
    }
}

/* Rows first, first + 1, … of dx, of a group, into rows of channels: what there is of each phase in turn. */
static void backward_block(const layer *l, const window *w, sizes s, planes p, const real *plane,
                           const real *weight, ptrdiff_t first, ptrdiff_t rows)
{
    const ptrdiff_t *step = layer_offsets(l, STEP), *offset = layer_offsets(l, OFFSET);
    ptrdiff_t lanes = kernel_padded(l->kernel, s.in), width = w->size[1];
    real *result = tensor_data(l->scratch[RESULT]);
    for (ptrdiff_t kh = 0; kh < phases(w, 0); kh++)
        for (ptrdiff_t kw = 0; kw < phases(w, 1); kw++) {
            phase f = phase_of(w, 0, kh), g = phase_of(w, 1, kw);
            ptrdiff_t depth = s.out * f.taps * g.taps,
                      i = first > f.first ? parts(first - f.first, w->stride[0]) : 0;
            for (; i < f.count && f.first + i * w->stride[0] < first + rows; i++)
                gather(l, g.count, lanes, depth, plane + i * p.pitch, step, weight, offset,
                       result + ((f.first + i * w->stride[0] - first) * width + g.first) * lanes,
                       w->stride[1] * lanes, false);
            step += depth, offset += depth;
        }
}

static void backward_by_channels(const layer *l, const window *w, sizes s, planes p, tensor dy, tensor dx)
{
    ptrdiff_t lanes = kernel_padded(l->kernel, s.in), height = w->size[0], width = w->size[1];
    const ptrdiff_t rows = block_rows(l, height, width, lanes);
    bool gaps = phases(w, 0) < w->stride[0] || phases(w, 1) < w->stride[1];
    even(layer_offsets(l, ROW), width, 1);
    look_back_everywhere(layer_offsets(l, STEP), layer_offsets(l, OFFSET), w, p, s.out,
                         (ptrdiff_t[]){ s.area * lanes, lanes });
    turn_weights(l, s, true);
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++) {
        const real *plane = lay_out_dy(p, tensor_select(dy, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            for (ptrdiff_t first = 0; first < height; first += rows) {
                if (first + rows > height) first = height - rows; /* some once more */
                if (gaps) clear(rows * width * lanes, l->scratch[RESULT]);
                backward_block(l, w, s, p, plane + g * s.out * p.rows * p.pitch,
                               tensor_data(l->scratch[TURNED]) + g * s.out * s.area * lanes, first, rows);
                turn_result(l, rows * width, s.in,
                            tensor_data(dx) + ((i * s.groups + g) * s.in * height + first) * width,
                            height * width);
            }
    }
}

static void forward(layer *l, const window *w, tensor x, tensor y)
{
    sizes s = sizes_of(l, w);
    if (by_channels(l, w, s.out)) forward_by_channels(l, w, s, x, y);
    else forward_by_positions(l, w, s, x, y);
}

static void backward(layer *l, const window *w, tensor dy, tensor dx)
{
    sizes s = sizes_of(l, w);
    planes p = planes_of_dy(l, w, dy.shape.n[1]);
    clear(p.size, l->scratch[PLANE]);
    if (by_channels(l, w, s.in)) backward_by_channels(l, w, s, p, dy, dx);
    else backward_by_positions(l, w, s, p, dy, dx);
}

/* ---- gradient --------------------------------------------------------------------------------------- */

/* result[tap][o] (+)= Σ_position plane[row[tap] + step[position]] dy[o][position], of an image and a group; windows
 * of the next row are `down` further on. */
static void accumulate(const layer *l, sizes s, const real *plane, ptrdiff_t down, tensor dy, real *result,
                       bool add)
{
    ptrdiff_t height = dy.shape.n[1], width = dy.shape.n[2], lanes_out = kernel_padded(l->kernel, s.out),
              size;
    ptrdiff_t rows = block_rows(l, height, width, lanes_out);
    real *turned = tensor_data(l->scratch[TURNED]);
    for (ptrdiff_t first = 0; first < height; first += size, add = true) {
        size = height - first < rows + least_rows(l, width) ? height - first : rows;
        kernel_transpose(l->kernel, s.out, size * width, tensor_data(dy) + first * width, height * width,
                         turned, lanes_out);
        kernel_product(l->kernel, s.taps, lanes_out, size * width, plane + first * down,
                       layer_offsets(l, ROW), layer_offsets(l, STEP), turned, layer_offsets(l, OFFSET),
                       result, lanes_out, add);
    }
}

static void gradient_by_channels(const layer *l, const window *w, sizes s, tensor x, tensor dy)
{
    tensor dw = l->grad[CONV2D_WEIGHT], sum = l->scratch[RESULT];
    window d = unstrided(w);
    planes p = planes_of_x(l, &d, x.shape.n[1]);
    ptrdiff_t lanes_out = kernel_padded(l->kernel, s.out), each = s.taps * lanes_out;
    ptrdiff_t block = block_positions(l, w->out[0], w->out[1], s.out);
    look_out(layer_offsets(l, ROW), &d, p, s.in);
    windows_at(layer_offsets(l, STEP), block, w, p);
    even(layer_offsets(l, OFFSET), block, lanes_out);
    clear(p.size, l->scratch[PLANE]);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *plane = lay_out_x(&d, p, tensor_select(x, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++)
            accumulate(l, s, plane + g * s.in * p.rows * p.pitch, w->stride[0] * p.pitch,
                       group_of(tensor_select(dy, 0, i), g, s.out), tensor_data(sum) + g * each, i > 0);
    }
    sum.shape = SHAPE(s.groups, s.out, s.taps); /* as dw, of its transpose */
    sum.stride[0] = each, sum.stride[1] = 1, sum.stride[2] = lanes_out;
    tensor_add(tensor_reshape(dw, sum.shape), 1, sum);
}

/* dy of one channel in rows of so many positions with zeros between them; the last vector holds what is left, after
 * zeros: it is read at the last positions. */
static void spread(const layer *l, const window *w, const real *dy, ptrdiff_t pitch, ptrdiff_t count,
                   real *to)
{
    ptrdiff_t lanes = l->kernel->lanes, surplus = kernel_padded(l->kernel, count) - count;
    real *last = to + count + surplus - lanes;
    for (ptrdiff_t e = 0; e < lanes; e++) last[e] = 0;
    kernel_move(l->kernel, w->out[0], w->out[1], dy, w->out[1], to, pitch, 0);
    for (ptrdiff_t e = lanes - 1; e >= 0; e--) last[e] = e < surplus ? 0 : last[e - surplus];
}

/* dw[o][tap] += Σ_position dy[o][position] plane[row[tap] + position] */
static void gradient_by_positions(const layer *l, const window *w, sizes s, tensor x, tensor dy)
{
    planes p = planes_of_x(l, w, x.shape.n[1]);
    ptrdiff_t lanes = l->kernel->lanes, count = positions(w->out[0], w->out[1], p.pitch);
    ptrdiff_t far = kernel_padded(l->kernel, count);
    real *to = tensor_data(l->scratch[TURNED]);
    look_out(layer_offsets(l, ROW), w, p, s.in);
    clear(phases(w, 0) * phases(w, 1) * p.size, l->scratch[PLANE]);
    even(layer_offsets(l, OFFSET), far / lanes, lanes);
    layer_offsets(l, OFFSET)[far / lanes - 1] = count - lanes;
    tensor_fill(l->scratch[TURNED], 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *plane = lay_out_x(w, p, tensor_select(x, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++) {
            const real *from = tensor_data(dy) + (i * s.groups + g) * s.out * w->out[0] * w->out[1];
            for (ptrdiff_t o = 0; o < s.out; o++)
                spread(l, w, from + o * w->out[0] * w->out[1], p.pitch, count, to + o * far);
            kernel_dot(l->kernel, s.out, s.taps, far / lanes, to, far, plane + g * s.in * p.rows * p.pitch,
                       layer_offsets(l, ROW), layer_offsets(l, OFFSET),
                       tensor_data(l->grad[CONV2D_WEIGHT]) + g * s.out * s.taps, s.taps);
        }
    }
}

static void gradient(layer *l, const window *w, tensor x, tensor dy)
{
    sizes s = sizes_of(l, w);
    if (few(l, s.out)) gradient_by_positions(l, w, s, x, dy);
    else gradient_by_channels(l, w, s, x, dy);
}

const conv2d_method conv2d_direct = {
    .suits = suits,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
};
