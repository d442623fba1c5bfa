/* planes.c: see planes.h. */
#include "layers/fast/planes.h"
#include "tensor/counts.h"

enum { FEW = 4 }; /* vectors of elements that lie apart: they are copied one by one */

/* ---- phases ---------------------------------------------------------------------------------------- */

/* The number of taps after which phases repeat. */
static ptrdiff_t period(const window *w, int axis)
{
    return w->stride[axis] / greatest_common_divisor(w->stride[axis], w->dilation[axis]);
}

ptrdiff_t phase_count(const window *w, int axis)
{
    return smallest(w->kernel[axis], period(w, axis));
}

phase phase_of(const window *w, int axis, ptrdiff_t number)
{
    const ptrdiff_t stride = w->stride[axis], size = w->size[axis], reach = number * w->dilation[axis],
                    remainder = reach % stride, before = w->before[axis];
    phase f = { .tap = number, .every = period(w, axis), .near = reach / stride };
    f.taps = ceil_div(w->kernel[axis] - number, f.every);
    f.step = f.every * w->dilation[axis] / stride;
    f.lead = before > remainder ? ceil_div(before - remainder, stride) : 0;
    f.first = f.lead * stride + remainder - before;
    f.count = f.first < size ? ceil_div(size - f.first, stride) : 0;
    return f;
}

static ptrdiff_t farthest(phase f)
{
    return f.near + (f.taps - 1) * f.step;
}

/* ---- planes ---------------------------------------------------------------------------------------- */

/* The elements of an axis that windows read, of those in the image. */
static ptrdiff_t read_of(const window *w, int axis, phase f)
{
    return largest(smallest(f.count, w->out[axis] + farthest(f) - f.lead), 0);
}

/* The size of each phase along an axis, and the fewest zeros before one; `far`: how far windows reach. */
static ptrdiff_t extent_of(const window *w, int axis, ptrdiff_t *lead, ptrdiff_t *far)
{
    ptrdiff_t extent = 0;
    *lead = w->before[axis] + 1, *far = 0;
    for (ptrdiff_t i = 0; i < phase_count(w, axis); i++) {
        const phase f = phase_of(w, axis, i);
        *lead = smallest(*lead, f.lead);
        extent = largest(extent, smallest(f.lead, w->out[axis] + farthest(f)) + read_of(w, axis, f));
        *far = largest(*far, farthest(f));
    }
    return largest(largest(extent, w->out[axis]), w->out[axis] + *far - *lead);
}

planes planes_of_windows(const kernel *k, const window *w, planes_piece *piece)
{
    const ptrdiff_t phases[2] = { phase_count(w, 0), phase_count(w, 1) };
    ptrdiff_t lead[2], far, pitch = extent_of(w, 1, &lead[1], &far), rows = extent_of(w, 0, &lead[0], &far);
    planes p = { .pitch = pitch,
                 .rows = rows,
                 .reach = far,
                 .channel = phases[0] * phases[1] * rows * pitch,
                 .after = lead[0] * pitch + lead[1] + k->lanes,
                 .apart = { w->stride[0], w->stride[1] },
                 .piece = piece };
    p.in_place = w->stride[0] == 1 && w->stride[1] == 1 && !window_padded(w) && rows == w->size[0] &&
                 pitch == w->size[1];
    for (ptrdiff_t a = 0; piece && a < phases[0]; a++)
        for (ptrdiff_t b = 0; b < phases[1]; b++) {
            const phase f = phase_of(w, 0, a), g = phase_of(w, 1, b);
            const lattice of = { { f.first, g.first }, { read_of(w, 0, f), read_of(w, 1, g) } };
            if (of.count[0] == 0 || of.count[1] == 0) continue;
            piece[p.pieces++] = (planes_piece){ of, a * phases[1] + b, f.lead, g.lead };
        }
    return p;
}

ptrdiff_t planes_phase(const planes *p, const window *w, ptrdiff_t a, ptrdiff_t b)
{
    return (a * phase_count(w, 1) + b) * p->rows * p->pitch;
}

/* Zeros before and after an axis of results, for windows beyond their border; `most`: elements of a phase;
 * `far`: the last result that an element reads is so far after its own. */
static ptrdiff_t border_of(const window *w, int axis, ptrdiff_t *after, ptrdiff_t *most, ptrdiff_t *far)
{
    ptrdiff_t before = 0;
    *after = *most = 0, *far = -w->size[axis];
    for (ptrdiff_t i = 0; i < phase_count(w, axis); i++) {
        const phase f = phase_of(w, axis, i);
        before = largest(before, farthest(f) - f.lead);
        *after = largest(*after, f.lead + f.count - f.near - w->out[axis]);
        *most = largest(*most, f.count);
        *far = largest(*far, f.lead - f.near);
    }
    return before;
}

planes planes_of_results(const kernel *k, const window *w, planes_piece *piece)
{
    ptrdiff_t before[2], extent[2], far[2];
    for (int axis = 0; axis < 2; axis++) {
        ptrdiff_t after, most;
        before[axis] = border_of(w, axis, &after, &most, &far[axis]);
        extent[axis] = largest(w->out[axis] + largest(before[axis], after), most);
    }
    planes p = { .pitch = extent[1],
                 .rows = extent[0],
                 .reach = before[0] + far[0],
                 .channel = extent[0] * extent[1],
                 .after = before[0] * extent[1] + before[1] + k->lanes,
                 .apart = { 1, 1 },
                 .piece = piece,
                 .pieces = 1 };
    p.in_place = extent[0] == w->out[0] && extent[1] == w->out[1] && before[0] == 0 && before[1] == 0;
    if (piece) *piece = (planes_piece){ { { 0, 0 }, { w->out[0], w->out[1] } }, 0, before[0], before[1] };
    return p;
}

ptrdiff_t planes_origin(const planes *p, const window *w, phase rows, phase columns)
{
    ptrdiff_t after, most, far;
    const ptrdiff_t above = border_of(w, 0, &after, &most, &far), left = border_of(w, 1, &after, &most, &far);
    return (above + rows.lead) * p->pitch + left + columns.lead;
}

void planes_make_band(planes *p, ptrdiff_t rows)
{
    const ptrdiff_t row = p->channel / p->rows;
    p->rows = rows + p->reach;
    p->channel = p->rows * row;
    p->band = true;
}

ptrdiff_t planes_size(const planes *p, ptrdiff_t channels)
{
    return channels * p->channel + p->after;
}

/* The columns that pieces of the same rows have in common, if they are dealt from those; `pieces`: theirs. */
static ptrdiff_t dealt(const planes *p, const kernel *k, const planes_piece *e, ptrdiff_t across,
                       ptrdiff_t *pieces)
{
    const planes_piece *end = p->piece + p->pieces, *q = e;
    ptrdiff_t least = e->of.count[1], last = 0;
    for (; q < end && q->of.first[0] == e->of.first[0]; q++)
        least = smallest(least, q->of.count[1]), last = largest(last, q->of.first[1]);
    *pieces = q - e;
    least -= last < 2; /* those read no elements beyond them */
    return across == 1 && p->apart[1] == 3 && *pieces > 1 && k->deal && least >= k->lanes ? least : 0;
}

void planes_lay_out(const planes *p, const kernel *k, ptrdiff_t channels, const st_real *from,
                    const ptrdiff_t stride[3], ptrdiff_t first, st_real *room)
{
    const ptrdiff_t down = p->apart[0] * stride[1], across = p->apart[1] * stride[2];
    for (ptrdiff_t c = 0; c < channels; c++, from += stride[0], room += p->channel)
        for (ptrdiff_t n = 0, pieces; n < p->pieces; n += pieces) {
            const planes_piece *same = &p->piece[n];
            const ptrdiff_t above = same->above - first, begin = smallest(largest(above, 0), p->rows),
                            end = largest(begin, smallest(above + same->of.count[0], p->rows)),
                            common = dealt(p, k, same, stride[2], &pieces);
            const st_real *row = from + same->of.first[0] * stride[1] + (begin - above) * down;
            st_real *deal[3] = { NULL, NULL, NULL };
            for (const planes_piece *e = same; e < same + pieces; e++) {
                st_real *plane = room + e->number * p->rows * p->pitch,
                        *to = plane + begin * p->pitch + e->left;
                const ptrdiff_t count[2] = { end - begin, e->of.count[1] - common };
                for (ptrdiff_t i = 0; p->band && i < begin * p->pitch; i++) plane[i] = 0;
                for (ptrdiff_t i = end * p->pitch; p->band && i < p->rows * p->pitch; i++) plane[i] = 0;
                if (common) deal[e->of.first[1]] = to;
                if (count[1] > 0)
                    planes_move(k, count, row + e->of.first[1] * stride[2] + common * across, down, across,
                                to + common, p->pitch, 1);
            }
            if (common) k->deal(end - begin, common, row, down, deal, p->pitch);
        }
}

void planes_move(const kernel *k, const ptrdiff_t count[2], const st_real *from, ptrdiff_t from_down,
                 ptrdiff_t from_across, st_real *to, ptrdiff_t to_down, ptrdiff_t to_across)
{
    const bool one = from_down == count[1] * from_across && to_down == count[1] * to_across;
    const ptrdiff_t rows = one ? 1 : count[0], columns = one ? count[0] * count[1] : count[1];
    if (from_across == 1 && to_across == 1) k->move(rows, columns, from, from_down, to, to_down);
    else if (from_across == 2 && to_across == 1) k->split(rows, columns, from, from_down, to, to_down);
    else if (from_across > 2 && from_across <= k->lanes && to_across == 1 && k->pick &&
             rows * columns > FEW * k->lanes)
        k->pick(rows, columns, from_across, from, from_down, to, to_down);
    else
        for (ptrdiff_t row = 0; row < rows; row++, from += from_down, to += to_down)
            _Pragma("GCC unroll 8") for (ptrdiff_t i = 0; i < columns; i++) to[i * to_across] =
                from[i * from_across];
}
