/* windows_impl.h: what windows.c and its parts share: whole vectors of windows, the room that a call has for
 * a channel, and the passes over a channel.
 *
 *     windows.c           values and adjoints of each channel, by lanes, squares or sums
 *     windows_channels.c  a call, its channels, and the gradients of parameters
 *     windows_plan.c      what a plan has: tables of an axis, of phases and of windows; and the room
 *     windows_phases.c    a channel as phases and back, windows as a grid and back
 *     windows_sums.c      sums over windows, and their adjoints */
#ifndef STRIDE_LAYERS_FAST_WINDOWS_IMPL_H
#define STRIDE_LAYERS_FAST_WINDOWS_IMPL_H

#include "layers/fast/windows.h"
#include "tensor/counts.h"

enum { RUN = POOL_LANES / 2, SUM_LANES = POOL_LANES / 4 };

typedef double double_lanes[SUM_LANES];

INLINE ptrdiff_t whole(ptrdiff_t n)
{
    return ceil_div(n, POOL_LANES) * POOL_LANES;
}

/* Tests if rows and columns of the channel are in turns in two phases, which have all of them. */
INLINE bool in_pairs(const windows_plan *p)
{
    bool pairs = true;
    for (int i = 0; i < 2; i++) {
        const phase_axis *a = &p->axis[i];
        pairs = pairs && a->stride == 2 && a->phases == 2 && a->size + a->before <= 2 * (a->out + a->reach);
    }
    return pairs;
}

/* Scratch, from the plan's first slot on: an image that is a view, what a channel needs, logits of an image
 * and their gradients. */
enum { WINDOWS_IMAGE, WINDOWS_ARENA, WINDOWS_LOGITS, WINDOWS_DLOGITS };

typedef struct windows_space {
    st_real *phases, *dphases, *adjoints, *y, *dy, *place, *uniform;
    uint32_t *word;
    lanes *sorted, *totals;
    double_lanes *sums_of;    /* of parameters' elements */
    st_real *first, *counted; /* of each window; for each number of elements */
    st_real *weight;
    st_real *f[MOST_SUMS], *q[MOST_SUMS], *sums[MOST_SUMS], *rows[MOST_SUMS], *x, *logits, *dx, *dlogits;
} windows_space;

/* By windows_plan.c. */
ptrdiff_t windows_grid(const windows_plan *p);
ptrdiff_t windows_kept(const windows_plan *p);
ptrdiff_t windows_margin(const windows_plan *p);
ptrdiff_t windows_blocks(const windows_plan *p);
ptrdiff_t windows_room(const windows_plan *p, st_real *at, windows_space *r);

/* For an instruction set, by windows_phases.c. */
typedef struct phase_functions {
    /* The channel x [H, W] as phases, with `fill` beyond it; vectors may read x up to `end`. */
    void (*to_phases)(const windows_plan *p, const st_real *x, const st_real *end, st_real fill, st_real *to);
    /* The adjoint: writes all of the channel to [H, W]; vectors may write up to `end`. */
    void (*from_phases)(const windows_plan *p, const st_real *from, st_real *to, st_real *end);
    /* The same of a channel that is in_pairs, whose phases are sums: in phase q, of members[q] runs of
     * elements, whose places are `at` and what follows. */
    void (*join_pairs)(const windows_plan *p, const st_real *from, const ptrdiff_t *at,
                       const ptrdiff_t *members, st_real *to, st_real *end);
    /* Windows [OH, OW] as a grid, 0 elsewhere; and back, `none` where a window has no element. */
    void (*to_grid)(const windows_plan *p, const st_real *from, const st_real *end, st_real *to);
    void (*from_grid)(const windows_plan *p, const st_real *from, st_real none, st_real *to,
                      const st_real *end);
} phase_functions;
extern const phase_functions phase_isas[];

/* For an instruction set, by windows_sums.c. */
typedef struct add_functions {
    /* Adds adjoints to n elements of each phase, `first`: writes them; or each tap's to n elements. */
    void (*add_taps)(const windows_plan *p, ptrdiff_t n, const st_real *from, bool first, st_real *to);
    /* The sum of f over each window. */
    void (*sum_windows)(const windows_plan *p, const st_real *f, st_real padding, st_real *rows, st_real *to);
    /* The adjoint: each element's sum over its windows, of each q. Before q there are zeros. */
    void (*sum_elements)(const windows_plan *p, int sums, st_real *const *q, st_real *const *rows,
                         st_real *const *to);
} add_functions;
extern const add_functions add_isas[];

/* A call, as its channels share it. */
typedef struct windows_batch {
    const windows_plan *plan;
    const st_call *call;
    int isa;
    bool draws;  /* elements are drawn */
    bool places; /* and their places are kept */
    const squares_form *squares;
    uint64_t made, blocks; /* blocks of random words that are made: the first one, and how many */
    st_tensor x, y, dy, dx;
    bool contiguous;                 /* x is */
    bool has_logits;                 /* the pooling has some */
    ptrdiff_t channels, area, count; /* elements and windows of a channel */
    ptrdiff_t each;                  /* what is kept of a channel */
    st_window first, at;             /* of channel 0, and of the current one */
    ptrdiff_t elements;              /* of a channel's parameter, which is the only one; 0: there is none */
    bool per_channel;                /* each channel has its own */
    ptrdiff_t totalled;              /* windows of squares whose totals are not added yet */
    st_real order;                   /* of sums: a function of the parameter */
    st_real orders[2];               /* of squares */
    st_real *grad;                   /* NULL: it is not wanted */
    st_real *logits, *dlogits;       /* of an image, and their gradients */
    st_real *place, *kept, *x_at, *y_at, *dy_at, *dx_at, *x_end, *y_end, *dy_end, *dx_end;
    bool more; /* x has a channel after the current one */
    windows_space room;
} windows_batch;

/* A channel: x's elements one after the other, up to the end of those that may be read. */
typedef struct windows_channel {
    const st_real *x, *x_end, *logits;
    st_real *y, *dx, *place, *dlogits, *kept;
    const st_real *dy;
    st_real least, most; /* in the forward pass: of x, or of the logits */
    bool finite;
} windows_channel;

/* Tests if adjoints by lanes read x. */
INLINE bool windows_adjoints_read(const windows_plan *p)
{
    return p->runs == 0 || p->lanes->reads;
}

/* By windows_channels.c. */
windows_batch windows_batch_of(const st_call *c, bool gradient, st_tensor x, st_tensor y, st_tensor dy,
                               st_tensor dx);
/* Channel `number` of the call, which becomes the current one; each member of *a is set. */
void windows_find_channel(windows_batch *b, ptrdiff_t number, windows_channel *a);
/* Adds the totals of vectors of windows to the sums. */
void windows_add_totals(windows_batch *b);
/* Adds the sums of a channel, or of all channels, to the gradient. */
void windows_add_gradient(windows_batch *b);

#endif
