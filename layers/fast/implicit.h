/* implicit.h: convolution and its transpose as products of weights and columns that are never stored; what
 * the files of this algorithm have in common.
 *
 * A convolution's windows are in x, a transposed one's in y. Call the images with windows wide, those with
 * an element for each window narrow; weights are [narrow channels, wide channels / groups, KH, KW] for
 * both types. Then there are three passes:
 *
 *     gather     narrow[o][p]  = Σ_k W[o][k] wide[k + p]           forward, and backward of the transposed
 *     scatter    wide[c][q]    = Σ_k W[k][c] narrow[q - k]         backward, and forward of the transposed
 *     gradient   dW[o][k]     += Σ_p narrow[o][p] wide[k + p]
 *
 * where k is a channel and a tap of the kernel, p a window and q an element of the wide image. Images are
 * laid out in planes (planes.h), where each tap is at a fixed offset from all windows; q is taken phase by
 * phase. Groups are independent convolutions. */
#ifndef STRIDE_LAYERS_FAST_IMPLICIT_H
#define STRIDE_LAYERS_FAST_IMPLICIT_H

#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "layers/fast/planes.h"
#include "layers/fast/slide.h"
#include "tensor/counts.h"

enum { NARROW, PLANES, PANEL, RESULT, KEPT }; /* scratch */

/* Tables are taken from one block of memory: `at` is NULL while it is measured. */
typedef struct arena {
    ptrdiff_t *at, used;
} arena;

ptrdiff_t *arena_take(arena *a, ptrdiff_t count);

/* How vectors cover the windows of an image: row by row; from the first to the last, with the positions
 * between rows, which are dropped; or exactly, those of several images, from panels that are packed. Or
 * lanes are channels, and results are transposed. */
typedef enum cover { BY_ROWS, FLAT, PACKED, BY_CHANNELS } cover;

/* A part of the images that are made: all of them, or a phase. */
typedef struct part {
    lattice of;
    ptrdiff_t depth, *tap, *weight; /* offsets of each k: in planes, in the weights, */
    ptrdiff_t *number;              /* and, with groups as lanes or BY_CHANNELS, in those that are packed; */
    ptrdiff_t *step;                /* with groups, in a block */
    cover how;
    bool straight;                 /* vectors are stored where they belong */
    ptrdiff_t rows;                /* of a block, PACKED: all */
    ptrdiff_t line;                /* elements of a row in the results */
    ptrdiff_t columns, split;      /* PACKED: windows of a panel, and the k of one */
    ptrdiff_t vectors, *from, *to; /* BY_CHANNELS: windows of a block, and where they are in planes */
    const slide *slide;            /* of a pass that slides */
    slide_columns slid;
    int stride, taps;
} part;

/* Elements along an axis that are made from the same taps: first, first + apart, ... */
typedef struct span {
    ptrdiff_t first, count;
    ptrdiff_t from;        /* the element that the first tap of the first one reads */
    ptrdiff_t tap, taps;   /* tap, tap + every, ... */
    ptrdiff_t every, step; /* to the next tap, and to what it reads */
} span;

/* Gather or scatter. */
typedef struct pass {
    planes p;             /* of what it reads */
    ptrdiff_t read, made; /* channels of a group */
    ptrdiff_t row;        /* distance of the weights of two channels that are made */
    ptrdiff_t size[2], apart[2];
    part *part;
    ptrdiff_t parts;
    bool whole;       /* the parts, or spans, have every element */
    ptrdiff_t height; /* the rows of the highest part; */
    ptrdiff_t band;   /* those that are made at a time, all or some; */
    ptrdiff_t before; /* and those that the lowest part has less */
    ptrdiff_t images; /* laid out, or made, together */
    bool slides;      /* lanes are windows of a row, a channel at a time, */
    bool groups;      /* groups, */
    bool by_taps;     /* or taps; else any windows, */
    bool turned;      /* some of which are made BY_CHANNELS */
    bool channels;    /* lanes are channels: */
    span *span[2];    /* of each axis, their number, and that of all their taps; */
    ptrdiff_t spans[2], taps[2];
    bool merged;                    /* a product has several rows; */
    ptrdiff_t rows;                 /* of a block of results; */
    ptrdiff_t *window, *across;     /* offsets of the windows of a row: of some images, of one; */
    ptrdiff_t *step, *number;       /* tables of k for each pair of spans; */
    st_real *packed;                /* the weights */
    ptrdiff_t each;                 /* elements of the results of a part */
    ptrdiff_t plane, panel, result; /* elements of scratch */
} pass;

/* Vectors of windows, in planes and in narrow images; the first elements that the previous one has. */
typedef struct dots {
    ptrdiff_t vectors, *from, *to, *skip;
} dots;

typedef struct gradient_pass {
    bool groups;  /* lanes are groups, */
    bool by_taps; /* taps, */
    bool by_rows; /* windows of a row, a channel at a time: */
    part slides;
    bool dots;  /* or any windows; else narrow channels, */
    window w;   /* and then images are laid out */
    pass image; /* as for these windows */
    cover how;
    bool straight;                         /* narrow images are read in place */
    ptrdiff_t images, rows;                /* of a block */
    ptrdiff_t *place, *number, *from, *to; /* of windows, and of taps */
    dots tables[2];                        /* of a band, and of one that has a row less */
    ptrdiff_t panel, result;               /* elements of scratch */
} gradient_pass;

/* With taps as lanes: the images of a block, the channels of the largest parts, and the vectors of a row of
 * theirs. Two tables, for parts with so many channels and for those with one less: where each vector begins,
 * and how many of its elements the previous one has. Of each row, which is a window of one of the images: its
 * place in an image, among copied rows, and in narrow images. Of each narrow channel: its place in narrow
 * images, and in the weights. */
typedef struct taps_tables {
    const kernel *k;
    ptrdiff_t images, channels, vectors;
    ptrdiff_t *from, *skip, *image, *row, *window, *channel, *weight;
} taps_tables;

/* The plan's data; begins with the members of conv_plan. Taps that no window reads in the image are left
 * out. */
typedef struct implicit_plan {
    window whole; /* as the layer has it */
    int groups;
    window w;               /* of the taps in use */
    int kernel[2], skip[2]; /* of the layer; taps that are left out before those of w */
    st_real *kept;          /* the weights of the others; NULL: all are used */
    const kernel *k;
    int isa;
    ptrdiff_t wide, narrow, area; /* channels of a group; taps of a kernel */
    ptrdiff_t chunk, batch;       /* the most images of a call, and those of the batch */
    ptrdiff_t usual;              /* the images of a call that algorithms are chosen for: 1 if batch is 1 */
    pass gather, scatter;
    gradient_pass gradient;
    taps_tables taps;
} implicit_plan;

static inline bool is_gather(const implicit_plan *d, const pass *p)
{
    return p == &d->gather;
}

/* The size of the images that a pass reads, along an axis. */
static inline ptrdiff_t read_size(const implicit_plan *d, const pass *p, int axis)
{
    return is_gather(d, p) ? d->w.size[axis] : d->w.out[axis];
}

/* The distance of what two neighbours of a span read. */
static inline ptrdiff_t read_stride(const implicit_plan *d, const pass *p, int axis)
{
    return is_gather(d, p) ? d->w.stride[axis] : 1;
}

/* All elements along an axis, or those of a phase. */
span implicit_span(const implicit_plan *d, const pass *p, int axis, ptrdiff_t number);

/* The parts of a call for threads are some of its images, groups, channels, taps or rows; rows are those of
 * the highest part, or of an image that is made with channels as lanes. */
typedef enum share_axis { OF_IMAGES, OF_GROUPS, OF_CHANNELS, OF_TAPS, OF_ROWS } share_axis;

/* The part that a thread has: groups from `group` to before `end`, and of each some rows of channels that are
 * made; of a gradient, some narrow channels, or the taps of some wide ones. */
typedef struct share {
    ptrdiff_t group, end;
    ptrdiff_t first, made;
    ptrdiff_t tap, taps;
    ptrdiff_t row, rows;
    st_real *dw; /* of all groups */
} share;

/* The taps along an axis of window number `at` that are in the image: their number, and the first one and its
 * element. */
ptrdiff_t implicit_inside(const window *w, int axis, ptrdiff_t at, ptrdiff_t *tap, ptrdiff_t *element);

/* The weights of the taps in use. */
const st_real *implicit_weights(const st_layer *l);

void implicit_plan_gather(implicit_plan *d, arena *a);
void implicit_plan_scatter(implicit_plan *d, arena *a);
void implicit_plan_gradient(implicit_plan *d, arena *a);
void implicit_divide_gradient(const implicit_plan *d, layer_division *by);

/* With channels as lanes: the cost of an image's group, in products of vectors; the tables; the weights, once
 * for a batch; and a group of some images, which are contiguous, to results `next` apart. */
double implicit_channels_cost(const implicit_plan *d, const pass *p);
void implicit_plan_channels(implicit_plan *d, pass *p, arena *a);
void implicit_pack_channels(const st_layer *l, const pass *p);
void implicit_make_channels(const st_call *c, const pass *p, ptrdiff_t group, const share *s,
                            const st_real *from, ptrdiff_t images, st_real *to, ptrdiff_t next,
                            const st_real *bias);

/* The same of a part that is made BY_CHANNELS, from planes: the cost; the tables; and windows of a block, the
 * first of which is at `plane`. Results of two channels are `next` apart. */
double implicit_turned_cost(const implicit_plan *d, const pass *p, const part *q);
void implicit_plan_turned(const implicit_plan *d, pass *p, part *q, arena *a);
void implicit_make_turned(const st_call *c, const pass *p, const part *q, ptrdiff_t group, const share *s,
                          ptrdiff_t windows, const st_real *plane, st_real *to, ptrdiff_t next,
                          const st_real *bias);

/* Takes room for packed weights. */
st_real *implicit_take_packed(arena *a, ptrdiff_t count);

/* With groups as lanes: the same of a pass, and of the gradient. */
typedef struct group_vectors group_vectors;
ptrdiff_t implicit_group_lanes(const implicit_plan *d);
double implicit_groups_cost(const implicit_plan *d, const pass *p, double windows);
double implicit_group_sums_cost(const implicit_plan *d);
void implicit_plan_groups(implicit_plan *d, pass *p, arena *a);
void implicit_number_groups(const implicit_plan *d, const pass *p, part *q, arena *a);
void implicit_plan_group_sums(implicit_plan *d, gradient_pass *p, arena *a);
void implicit_pack_groups(const st_layer *l, const pass *p);
void implicit_make_groups(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                          const st_real *bias);
void implicit_sum_groups(const st_call *c, const share *s, st_tensor wide, st_tensor narrow);

/* With taps as lanes: the same; the cost of copying windows; and of how many wide channels threads have a
 * multiple. */
double implicit_taps_cost(const implicit_plan *d, const pass *p);
double implicit_taps_gradient_cost(const implicit_plan *d);
double implicit_taps_copying_cost(const implicit_plan *d);
ptrdiff_t implicit_taps_unit(const implicit_plan *d, const layer_division *by);
void implicit_plan_taps(implicit_plan *d, arena *a);
void implicit_make_taps(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                        const st_real *bias);
void implicit_sum_taps(const st_call *c, const share *s, st_tensor wide, st_tensor narrow);

/* With windows of a row as lanes, a channel at a time: the same; the tables of a part. */
double implicit_slides_cost(const implicit_plan *d, const pass *p, ptrdiff_t parts);
double implicit_slide_sums_cost(const implicit_plan *d);
void implicit_plan_slide(const implicit_plan *d, pass *p, part *q, ptrdiff_t number, arena *a);
void implicit_plan_slide_sums(implicit_plan *d, gradient_pass *p, arena *a);
void implicit_make_slides(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                          const st_real *bias);
void implicit_sum_slides(const st_call *c, const share *s, st_tensor wide, st_tensor narrow);

/* Makes images; bias NULL: without. */
void implicit_make(const st_call *c, const pass *p, const share *s, st_tensor from, st_tensor to,
                   const st_real *bias);

/* Gives a channel's elements that no part has, which no tap reads, that value. */
void implicit_fill_rest(const pass *p, st_real *to, st_real value);

/* Images [N, C, H, W] of any strides. */
typedef struct implicit_images {
    const st_real *data;
    ptrdiff_t count, stride[4];
    bool contiguous;
} implicit_images;

implicit_images implicit_images_of(st_tensor images);

/* Images, contiguous: copied to `room` if necessary. */
const st_real *implicit_contiguous(st_tensor images, st_tensor room);

/* The planes of a group's channels of some images. */
typedef struct implicit_source {
    const st_real *plane, *end; /* what may be read ends there */
    ptrdiff_t apart;            /* from one image's planes to the next one's */
} implicit_source;

/* What is laid out: images from number `first` on, and of a group channels from `channel` on; by bands,
 * the one from `row` on. */
typedef struct implicit_block {
    ptrdiff_t first, images, group, channel, channels, row;
} implicit_block;

/* Zeroes the planes of some channels; lays out a block, in place if that is allowed and possible. */
void implicit_begin(const st_call *c, const pass *p, ptrdiff_t images, ptrdiff_t channel, ptrdiff_t channels);
implicit_source implicit_lay_out(const implicit_plan *d, const pass *p, const implicit_images *from,
                                 const implicit_block *b, bool in_place, st_real *room);

void implicit_gradient(const st_call *c, const share *s, st_tensor wide, st_tensor narrow);

/* The cost of reading so many elements of a row, `apart` from each other, and of laying out a group's
 * channels of an image, in products of vectors. */
double implicit_row_cost(const kernel *k, ptrdiff_t columns, ptrdiff_t apart);
double implicit_layout_cost(const implicit_plan *d, const pass *p);

/* The offsets of taps [channels, KH, KW] in planes of windows. */
void implicit_fill_taps(const window *w, const planes *p, ptrdiff_t channels, ptrdiff_t *tap);

/* Tests if vectors of rows are filled well. */
bool implicit_by_rows(const kernel *k, ptrdiff_t width);

/* The vectors of `rows` rows; from, to, skip NULL: only their number. */
ptrdiff_t implicit_vectors(const kernel *k, cover how, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t pitch,
                           ptrdiff_t *from, ptrdiff_t *to, ptrdiff_t *skip);

#endif
