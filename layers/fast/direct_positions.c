/* direct_positions.c: a direct convolution with positions as lanes. */
#include "layers/fast/direct.h"

/* ---- a product of planes --------------------------------------------------------------------------- */

/* result[m][position] = Σ_k weight[row[m] + step[k]] plane[offset[k] + position] of some of the columns. */
typedef struct part {
    ptrdiff_t depth, first, width; /* columns first, first + stride, … */
    const ptrdiff_t *step, *offset;
} part;

typedef struct correlation {
    const real *weight, *plane, *bias; /* bias NULL: none */
    ptrdiff_t pitch, stride;
    int parts;
    part part[PHASES_TOGETHER];
} correlation;

static void multiply(const layer *l, const correlation *c, const part *p, ptrdiff_t channels, ptrdiff_t first,
                     ptrdiff_t rows, real *result, ptrdiff_t far)
{
    ptrdiff_t count = largest(l->kernel->lanes, direct_span(rows, p->width, c->pitch));
    kernel_product(l->kernel, channels, count, p->depth, c->weight, layer_offsets(l, ROW), p->step,
                   c->plane + first * c->pitch, p->offset, result, far, false);
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
    ptrdiff_t channels = to.shape.n[0], height = to.shape.n[1], width = to.shape.n[2];
    const ptrdiff_t rows = direct_block_rows(l, height, c->pitch, channels);
    bool plain = c->parts == 1 && c->stride == 1;
    bool straight = plain && rows * width >= l->kernel->lanes && c->pitch == width && to.stride[1] == width &&
                    !c->bias; /* to its place at once */
    ptrdiff_t far = straight ? to.stride[0] : direct_result_pitch(l, channels, height, c->pitch),
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

/* ---- forward and backward --------------------------------------------------------------------------- */

/* Whether a vector has more positions than a block of such an image: then it ends in the room behind the planes. */
static bool overhangs(const layer *l, ptrdiff_t channels, ptrdiff_t height, ptrdiff_t width, ptrdiff_t pitch)
{
    return direct_span(direct_block_rows(l, height, pitch, channels), width, pitch) < l->kernel->lanes;
}

static void forward(const layer *l, const window *w, direct_sizes s, tensor x, tensor y)
{
    planes p = planes_of_x(l, w, x.shape.n[1]);
    const real *bias = conv2d_bias(l), *weight = tensor_data(l->param[CONV2D_WEIGHT]);
    p.copied = overhangs(l, s.out, w->out[0], w->out[1], p.pitch);
    part all = { s.taps, 0, w->out[1], layer_offsets(l, STEP), layer_offsets(l, OFFSET) };
    even(layer_offsets(l, ROW), s.out, s.taps);
    even(layer_offsets(l, STEP), s.taps, 1);
    planes_look_out(layer_offsets(l, OFFSET), w, p, s.in);
    planes_clear(phase_count(w, 0) * phase_count(w, 1) * p.size, l->scratch[PLANE]);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *plane = planes_lay_out_x(w, p, tensor_select(x, 0, i), l->scratch[PLANE]);
        for (ptrdiff_t g = 0; g < s.groups; g++) {
            correlation c = { .weight = weight + g * s.out * s.taps,
                              .plane = plane + g * s.in * p.rows * p.pitch,
                              .bias = bias ? bias + g * s.out : NULL,
                              .pitch = p.pitch,
                              .stride = 1,
                              .parts = 1,
                              .part = { all } };
            correlate(l, &c, direct_group(tensor_select(y, 0, i), g, s.out));
        }
    }
}

/* Rows of a phase of dx [C, H, W], of each group: sums over all that looked at them. */
static void backward_rows(const layer *l, direct_sizes s, const correlation *c, ptrdiff_t apart, tensor dx)
{
    for (ptrdiff_t g = 0; g < s.groups; g++) {
        correlation own = *c;
        own.weight += g * s.out * s.taps, own.plane += g * s.out * apart;
        correlate(l, &own, direct_group(dx, g, s.in));
    }
}

static void backward_image(const layer *l, const window *w, direct_sizes s, planes p, const real *plane,
                           tensor dx)
{
    const ptrdiff_t *step = layer_offsets(l, STEP), *offset = layer_offsets(l, OFFSET);
    correlation c = { .weight = tensor_data(l->param[CONV2D_WEIGHT]),
                      .plane = plane,
                      .pitch = p.pitch,
                      .stride = w->stride[1] };
    for (ptrdiff_t kh = 0; kh < phase_count(w, 0); kh++) {
        phase f = phase_of(w, 0, kh);
        tensor rows =
            f.count > 0 ? tensor_step(tensor_narrow(dx, 1, f.first, dx.shape.n[1] - f.first), 1, w->stride[0])
                        : dx;
        for (ptrdiff_t kw = 0; kw < phase_count(w, 1); kw++) {
            phase g = phase_of(w, 1, kw);
            ptrdiff_t depth = s.out * f.taps * g.taps;
            if (g.count > 0) c.part[c.parts++] = (part){ depth, g.first, g.count, step, offset };
            step += depth, offset += depth;
            if (c.parts == PHASES_TOGETHER || kw == phase_count(w, 1) - 1) {
                if (f.count > 0) backward_rows(l, s, &c, p.rows * p.pitch, rows);
                c.parts = 0;
            }
        }
    }
}

static void backward(const layer *l, const window *w, direct_sizes s, planes p, tensor dy, tensor dx)
{
    even(layer_offsets(l, ROW), s.in, s.area);
    planes_look_back(layer_offsets(l, OFFSET), layer_offsets(l, STEP), w, p, s.out,
                     (ptrdiff_t[]){ s.taps, 1 });
    if (phase_gaps(w)) tensor_fill(dx, 0);
    for (ptrdiff_t kh = 0; kh < phase_count(w, 0); kh++)
        for (ptrdiff_t kw = 0; kw < phase_count(w, 1); kw++) {
            ptrdiff_t height = phase_of(w, 0, kh).count, width = phase_of(w, 1, kw).count;
            if (height > 0 && width > 0 && overhangs(l, s.in, height, width, p.pitch)) p.copied = true;
        }
    for (ptrdiff_t i = 0; i < dx.shape.n[0]; i++)
        backward_image(l, w, s, p, planes_lay_out_dy(p, tensor_select(dy, 0, i), l->scratch[PLANE]),
                       tensor_select(dx, 0, i));
}

/* ---- gradient --------------------------------------------------------------------------------------- */

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
static void gradient(const layer *l, const window *w, direct_sizes s, tensor x, tensor dy)
{
    planes p = planes_of_x(l, w, x.shape.n[1]);
    ptrdiff_t lanes = l->kernel->lanes, count = direct_span(w->out[0], w->out[1], p.pitch);
    ptrdiff_t far = kernel_padded(l->kernel, count);
    real *to = tensor_data(l->scratch[TURNED]);
    planes_look_out(layer_offsets(l, ROW), w, p, s.in);
    planes_clear(phase_count(w, 0) * phase_count(w, 1) * p.size, l->scratch[PLANE]);
    even(layer_offsets(l, OFFSET), far / lanes, lanes);
    layer_offsets(l, OFFSET)[far / lanes - 1] = count - lanes;
    tensor_fill(l->scratch[TURNED], 0);
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        const real *plane = planes_lay_out_x(w, p, tensor_select(x, 0, i), l->scratch[PLANE]);
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

const direct_way direct_by_positions = { .forward = forward, .backward = backward, .gradient = gradient };
