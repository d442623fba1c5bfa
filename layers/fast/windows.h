/* windows.h: poolings of a regular grid by vectors: POOL_LANES windows at once, or sums over windows.
 *
 * For windows as lanes, a channel with its padding is cut into phases: phase [a, b] has rows a, a + stride,
 * ... and columns b, b + stride, ..., so that element i of the windows in a row is a run of a phase,
 * `offset[i]` from its beginning. Sums are of rows first, then of columns. The windows of a channel are a
 * grid of out[0] rows, which are as far apart as those of a phase; what lies between is not used. */
#ifndef STRIDE_LAYERS_FAST_WINDOWS_H
#define STRIDE_LAYERS_FAST_WINDOWS_H

#include "layers/fast/algorithms.h"
#include "layers/pool_impl.h"
#include "tensor/fast/isa.h"

enum { POOL_LANES = 32, MOST_SUMS = 2, MOST_RUNS = 2 };

#define MOST_PLACES ((double)(1 << 24)) /* a float counts up to there */

typedef st_real lanes[POOL_LANES];

/* gcc would unroll the loop first, and not make vectors of it. */
#define EACH_WINDOW(k) _Pragma("GCC unroll 1") for (int k = 0; k < POOL_LANES; k++)

/* Windows of so many elements have loops of their own. */
#define FEW_TAPS(n) ((n) == 4 || (n) == 9)

/* BY(M, max, a, b) and BY(M, min, a, b): the greater, or the lesser, of each lane, b if they are equal. gcc
 * makes four instructions of a ISA_PICK. */
#define BY(M, OP, a, b) M##_BY(OP, a, b)
#define generic_BY(OP, a, b) generic_##OP(a, b)
#define generic_max(a, b) ISA_PICK(generic, (a) > (b), a, b)
#define generic_min(a, b) ISA_PICK(generic, (a) < (b), a, b)
#if defined(__x86_64__) && !defined(STRIDE_GENERIC)
#include <immintrin.h>
#ifdef STRIDE_DOUBLE
#define avx512_BY(OP, a, b) (avx512_vector) _mm512_##OP##_pd((__m512d)(a), (__m512d)(b))
#define avx2_BY(OP, a, b) (avx2_vector) _mm256_##OP##_pd((__m256d)(a), (__m256d)(b))
#else
#define avx512_BY(OP, a, b) (avx512_vector) _mm512_##OP##_ps((__m512)(a), (__m512)(b))
#define avx2_BY(OP, a, b) (avx2_vector) _mm256_##OP##_ps((__m256)(a), (__m256)(b))
#endif
#endif

/* Windows of a channel. x[offset[i] + k] is element i of window k; padding that is left out is -inf, and
 * other elements are finite. Windows between the rows of the grid and after its end have a dy of 0. */
typedef struct lanes_call {
    const st_window *at; /* without a window */
    lanes *sums;         /* of the elements of its parameter: the adjoints add to them */
    ptrdiff_t taps;
    const ptrdiff_t *offset;
    const st_real *x, *inside; /* inside: the number of elements of each window, */
    const st_real *over;       /* and 1 divided by it, or 0 */
    bool full;                 /* true: each window has `taps` */
    const st_real *uniform;    /* in training: a random number for each; NULL: there is none */
    const st_real *places;     /* places[offset[i] + k]: of element i in the channel; -1: in the padding */
    st_real *place, *y;        /* place: of the elements that are drawn */
    const st_real *dy;
    st_real *dx; /* dx[to[i] + k] */
    const ptrdiff_t *to;
    st_real *kept[MOST_RUNS]; /* of each window: from the values for the adjoints, which have no x then */
    bool keeps;               /* false: they are not there */
    lanes *room;              /* [taps] */
    const st_real *first;     /* of each window */
    const st_real *weight;    /* [taps] */
    /* Of the next channel's x, `lines` of which are fetched while POOL_LANES windows are computed; NULL: none
     * is read. */
    const st_real *next;
    ptrdiff_t lines;
} lanes_call;

/* Computes the first `count` windows, a multiple of POOL_LANES, and leaves *b after them. */
typedef void lanes_function(lanes_call *b, ptrdiff_t count);

/* Squares: windows of 2 x 2 elements that are apart, all of them in the image. Their elements are read from x
 * to registers, and written to dx from there. If a row has less windows than a vector, vectors read and write
 * beyond it, up to the end of a tensor: what follows, another row or channel, is written later. */
typedef struct squares_call {
    const st_window *at;
    ptrdiff_t rows, columns, wide; /* of windows; elements of a row of x */
    const st_real *x, *x_end, *dy, *dy_end;
    st_real *y, *y_end, *dx, *dx_end; /* dx NULL: it is not wanted */
    st_real *kept;                    /* of each window `run` apart; NULL: it is not to be kept */
    ptrdiff_t run;
    const st_real *logits, *logits_end; /* of elements, where the pooling has some, and their adjoints */
    st_real *dlogits, *dlogits_end;
    const st_real *uniform; /* of the windows, where elements are drawn */
    lanes *sums;            /* of the elements of the parameter */
    const st_real *first;   /* for each number of elements */
    const st_real *weight;  /* [4] */
    const st_real *order;   /* [2], set by the form; NULL: it has none */
} squares_call;

/* For an instruction set. */
typedef struct squares_functions {
    bool (*values)(const squares_call *b); /* false: an element is not finite */
    void (*adjoints)(const squares_call *b);
} squares_functions;

typedef struct squares_form {
    const squares_functions *functions;
    int runs;   /* of what is kept */
    bool reads; /* the adjoints read x */
    /* A function of the parameter, and its derivative; NULL: there is none. */
    void (*order)(const st_window *at, st_real to[2]);
} squares_form;

/* Logits [C, HW] of an image x; and the end of their adjoint, which adds to dx, unless it is null, and with
 * `gradient` to the parameters' gradients. */
typedef struct logits_form {
    void (*logits)(const st_call *c, st_tensor x, st_tensor logits);
    void (*end)(const st_call *c, bool gradient, st_tensor x, st_tensor dlogits, st_tensor dx);
} logits_form;
extern const logits_form importances;

/* The poolings of a type: values, which write y, and adjoints, which are 0 for windows without elements. */
typedef struct lanes_form {
    lanes_function *const *values, *const *adjoints; /* one for each instruction set */
    int runs;   /* how many `kept` are used, unless elements are drawn; */
    int few;    /* and this many more for FEW_TAPS */
    bool reads; /* the adjoints read x, too; without `kept` they do */
    /* Tests if training draws an element of each window, to which the gradient goes: there are no adjoints
     * then. NULL: never. */
    bool (*draws)(const void *options);
    /* Fills `first`, for each number of elements, and `weight`, for each rank; NULL: they are not used. */
    void (*prepare)(const void *options, bool draws, ptrdiff_t taps, st_real *first, st_real *weight);
    /* NULL: there is none. A form without values has squares only. `drawn`: where training draws; the windows
     * of inference are lanes then. */
    const squares_form *squares, *drawn;
    const logits_form *logits; /* NULL: there are none */
} lanes_form;

/* A function of sums over windows: y = v(s), s[j] the sum of f[j](x). Padding that is left out adds 0 to
 * them; padding of zeros adds f[j](0). */
typedef struct sums_call {
    const st_window *at;
    ptrdiff_t taps;        /* elements of a window */
    st_real order;         /* set by the form */
    st_real least, most;   /* of x, and of the padding, or of the logits */
    st_real shift;         /* `most` in the forward pass, and the same in the backward pass */
    ptrdiff_t n;           /* elements of x, or windows: a multiple of POOL_LANES */
    const st_real *x;      /* the channel */
    const st_real *logits; /* of the channel */
    st_real *dlogits;
    st_real *f[MOST_SUMS]; /* f[j] of the channel */
    st_real *kept;         /* of elements: from the terms for `back` */
    st_real *s[MOST_SUMS]; /* of windows: the sums; the values replace them by what the slopes read */
    const st_real *inside; /* the number of elements of each window, */
    const st_real *over;   /* and 1 divided by it, or 0 */
    st_real *y;
    const st_real *dy;
    st_real *q[MOST_SUMS]; /* of windows: dy times a slope; of elements: the sums over windows */
    st_real *dx;
} sums_call;

/* For an instruction set. */
typedef struct sums_functions {
    void (*terms)(const sums_call *b);  /* x to f, and to `kept` */
    bool (*values)(const sums_call *b); /* s to y; false: the definition is to compute the channel */
    void (*slopes)(const sums_call *b); /* s and dy to q; adds to the parameter's gradient */
    void (*back)(const sums_call *b);   /* q, with x or `kept`, to dx */
} sums_functions;

typedef struct sums_form {
    int sums;
    const sums_functions *functions;
    int slopes;                           /* how many q there are */
    double (*order)(const st_window *at); /* a function of the parameter; NULL: there is none */
    bool keeps_elements;       /* `kept` is used; without logits, x is not read in the backward pass then */
    const logits_form *logits; /* NULL: there are none */
} sums_form;

/* ---- an axis, and the phases of a channel -------------------------------------------------------------- */

/* Elements of a window along an axis: element k is in phase[k], shift[k] after the window's own row. Phase a
 * begins at row residue[a] of the padded image, and its rows low[a] ... high[a] - 1 lie in the image. */
typedef struct phase_axis {
    int kernel, phases;
    ptrdiff_t size, out, before, stride, reach; /* reach: the last element's shift */
    ptrdiff_t *phase, *shift, *residue, *low, *high;
} phase_axis;

typedef struct windows_plan {
    pool_plan pool;          /* comes first, for the definition's functions */
    const lanes_form *lanes; /* one of these */
    const sums_form *sums;
    const logits_form *logits; /* NULL: there are none */
    phase_axis axis[2];
    int runs;                    /* of what is kept of a channel's windows */
    bool draws;                  /* training draws elements */
    const squares_form *squares; /* NULL: windows are no squares */
    ptrdiff_t taps;              /* elements of a window */
    ptrdiff_t rows, pitch;       /* of a phase, and of the grid */
    ptrdiff_t phase, phases;     /* elements from a phase to the next, and of all */
    ptrdiff_t windows, step;     /* up to the grid's last one; of those whose adjoints are kept at once */
    ptrdiff_t reach, run; /* the greatest shift of an element; from adjoints of an element to the next */
    int scratch;          /* the first slot */
    bool full;            /* every window has all elements */
    bool gaps;            /* a window has none */
    bool apart;           /* no two windows share an element */
    bool far;             /* reach > step: taps are added one by one, as zeros beside a block cost more */
    ptrdiff_t *offset;    /* [taps] */
    ptrdiff_t *to;        /* [taps], of the adjoints; `offset` if windows are apart */
    ptrdiff_t *from, *members, *last; /* of the adjoints that are added up: windows_plan.c */
    st_real *inside;                  /* the elements of each window, 0 where there is none */
    st_real *over;                    /* 1 divided by that, or 0 */
    st_real *places;                  /* of each element of the phases: where it is in the channel, or -1 */
} windows_plan;

/* For algorithms: plan needs one of the forms. */
bool windows_suit(const st_layer *l);
bool windows_are_squares(const st_layer *l);
ptrdiff_t windows_at_once(const st_layer *l); /* of POOL_LANES places, on average, and at least one */
int windows_plan_for(st_layer *l, const void *given, const lanes_form *by_lanes, const sums_form *by_sums);
void windows_fill(st_layer *l, void *tables);

void windows_forward(const st_call *c, st_tensor x, st_tensor y);
void windows_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);
void windows_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy);
void windows_both(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx);

/* The algorithms, which are in files of these names. */
/* clang-format off */
#define EACH_POOLING_ALGORITHM(DO)                                                                           \
    DO(mixed_pool, lanes) DO(gated_pool, lanes) DO(ordinal_pool, lanes) DO(median_pool, lanes)               \
    DO(rank_pool, lanes) DO(stochastic_pool, lanes) DO(local_importance_pool, lanes)                         \
    DO(soft_pool, lanes) DO(logsumexp_pool, lanes) DO(gem_pool, lanes) DO(learned_norm_pool, lanes)          \
    DO(soft_pool, sums) DO(logsumexp_pool, sums) DO(gem_pool, sums) DO(learned_norm_pool, sums)              \
    DO(fractional_maxpool, peaks) DO(adaptive_maxpool, rows) DO(s3_pool, peaks)                              \
    DO(spatial_pyramid_pool, peaks) DO(max_unpool, lanes) DO(max_unpool, peaks)                              \
    DO(local_importance_pool, sums) DO(blur_pool, rows)
/* clang-format on */
#define DECLARE_ALGORITHM(NAME, HOW) extern const layer_algorithm NAME##_##HOW;
EACH_POOLING_ALGORITHM(DECLARE_ALGORITHM)

#define WINDOWS_HOOKS                                                                                        \
    {                                                                                                        \
        windows_forward, windows_backward, windows_gradient, windows_both                                    \
    }

#endif
