/* implicit_channels.c: the passes of an implicit product that make images, with channels as lanes.
 *
 *     result[window][m] = Σ_k planes[tap[k] + window] weight[k][m]
 *
 * No lane is lost between rows, and weights, which are packed first, are read as whole vectors; but
 * results have to be transposed, which costs as much as a few more k. Phases of an image are written
 * between each other. */
#include "layers/fast/implicit.h"

enum {
    CHANNELS = 64,     /* the most channels of a panel of weights */
    RESULTS = 1 << 16, /* elements of a block of results, so that it stays in cache */
    TRANSPOSE = 26,    /* the cost of transposing a vector of results, in products of vectors, */
    ROWS = 8,
    LOOSE = 24, /* and of packing one of weights, by rows or one by one */
};

/* ---- plan ------------------------------------------------------------------------------------------- */

/* The weights of so many channels are a panel [k, channels]. */
static ptrdiff_t panel_of(const implicit_plan *d, const pass *p)
{
    const ptrdiff_t padded = kernel_padded(d->k, p->made);
    return kernel_padded(d->k, ceil_div(padded, ceil_div(padded, CHANNELS)));
}

static bool is_gather(const pass *p, const implicit_plan *d)
{
    return p == &d->gather;
}

double implicit_channels_cost(const implicit_plan *d, const pass *p, const lattice *of, ptrdiff_t depth)
{
    const ptrdiff_t vectors = panel_of(d, p) * ceil_div(p->made, panel_of(d, p)) / d->k->lanes;
    return (double)vectors * ((double)(of->count[0] * of->count[1]) * (double)(depth + TRANSPOSE) +
                              (double)depth * (is_gather(p, d) ? ROWS : LOOSE) / (double)d->chunk);
}

/* Offsets of windows in the planes, row by row, of a block; of k in a panel. */
void implicit_plan_channels(implicit_plan *d, pass *p, arena *a)
{
    const ptrdiff_t panel = panel_of(d, p), panels = ceil_div(p->made, panel), width = p->size[1],
                    lanes = d->k->lanes;
    const ptrdiff_t least = ceil_div(lanes, width), most = largest(least, RESULTS / (width * panel));
    p->rows = smallest(p->size[0], largest(least, ceil_div(p->size[0], ceil_div(p->size[0], most))));
    p->window = arena_take(a, p->rows * width);
    for (ptrdiff_t i = 0; p->window && i < p->rows * width; i++)
        p->window[i] = i / width * p->p.pitch + i % width;
    p->number = arena_take(a, p->read * d->area);
    if (p->number) iota(p->number, p->read * d->area, panel);
    p->result = p->rows * width * panel;
    p->panel = d->groups * panels * panel * p->depth;
}

/* ---- weights ------------------------------------------------------------------------------------------ */

/* Weights [groups, panels, k, panel], part after part. */
static void pack_weights(const st_call *c, const pass *p)
{
    const implicit_plan *d = c->plan;
    const kernel *k = d->k;
    const ptrdiff_t panel = panel_of(d, p), taps = p->depth;
    const st_real *weight = st_data(c->param[CONV_WEIGHT]);
    st_real *to = st_data(st_scratch(c, PANEL));
    if (p->made % panel) st_fill(st_narrow(st_scratch(c, PANEL), 0, 0, p->panel), 0);
    for (ptrdiff_t g = 0; g < d->groups; g++, weight += d->narrow * d->wide * d->area)
        for (ptrdiff_t m = 0; m < p->made; m += panel) {
            const ptrdiff_t channels = smallest(panel, p->made - m);
            const st_real *from = weight + m * p->row;
            if (is_gather(p, d)) {
                kernel_transpose(k, channels, taps, from, p->row, to, panel, NULL);
                to += taps * panel;
            }
            for (ptrdiff_t n = 0; n < p->parts && !is_gather(p, d); n++)
                for (ptrdiff_t i = 0; i < p->part[n].depth; i++, to += panel)
                    for (ptrdiff_t e = 0; e < channels; e++) to[e] = from[p->part[n].weight[i] + e * p->row];
        }
}

/* ---- images ------------------------------------------------------------------------------------------- */

/* The rows of a part that belong to rows first to first + rows of the image, of a panel of channels. */
static void make_part(const implicit_plan *d, const pass *p, const part *q, const st_real *plane,
                      const st_real *weight, st_real *result, ptrdiff_t first, ptrdiff_t rows)
{
    const lattice *of = &q->of;
    const ptrdiff_t panel = panel_of(d, p), width = p->size[1],
                    together = p->apart[0] * p->apart[1] == 1 ? rows : 1;
    ptrdiff_t i = first > of->first[0] ? ceil_div(first - of->first[0], p->apart[0]) : 0;
    for (; i < of->count[0] && of->first[0] + i * p->apart[0] < first + rows; i += together)
        kernel_product(d->k, together * of->count[1], panel, q->depth, plane + i * p->p.pitch, p->window,
                       q->tap, weight, p->number,
                       result + ((of->first[0] + i * p->apart[0] - first) * width + of->first[1]) * panel,
                       p->apart[1] * panel, false);
}

void implicit_begin_channels(const st_call *c, const pass *p)
{
    pack_weights(c, p);
}

void implicit_make_channels(const st_call *c, const pass *p, ptrdiff_t group, const st_real *plane,
                            st_real *to, const st_real *bias)
{
    const implicit_plan *d = c->plan;
    const ptrdiff_t panel = panel_of(d, p), height = p->size[0], width = p->size[1], taps = p->depth;
    const st_real *weight = st_data(st_scratch(c, PANEL)) + group * ceil_div(p->made, panel) * taps * panel;
    st_real *result = st_data(st_scratch(c, RESULT));
    for (ptrdiff_t m = 0; m < p->made; m += panel, weight += taps * panel)
        for (ptrdiff_t first = 0; first < height; first += p->rows) {
            first = smallest(first, height - p->rows); /* the last block overlaps the previous one */
            const st_real *of_part = weight;
            /* Elements that no part has, which are others in each block. */
            if (!p->whole) st_fill(st_narrow(st_scratch(c, RESULT), 0, 0, p->result), 0);
            for (ptrdiff_t n = 0; n < p->parts; of_part += p->part[n++].depth * panel)
                make_part(d, p, &p->part[n], plane, of_part, result, first, p->rows);
            kernel_transpose(d->k, p->rows * width, smallest(panel, p->made - m), result, panel,
                             to + (m * height + first) * width, height * width, bias ? bias + m : NULL);
        }
}
