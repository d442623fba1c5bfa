/* activation.c: activation functions by vectors, for each instruction set. Functions of few operations are
 * those of activation_impl.h. */
#include "layers/activation_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/functions.h"
#include "layers/fast/gelu.h"
#include "layers/fast/lanes.h"
#include "layers/types.h"
#include "tensor/counts.h"
#include "tensor/fast/stream.h"

/* ---- the functions --------------------------------------------------------------------------------- */

/* tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), e = exp(x). From 40 on it is 1 in any precision. */
INLINE double mish_value_of(double x, double e)
{
    double n = e * (e + 2);
    return x * (n / (n + 2));
}

INLINE double mish_slope_of(double x, double e)
{
    double n = e * (e + 2), over = 1 / (n + 2);
    return (n + 4 * e * x * (1 + e) * over) * over;
}

#define SELU_BELOW (SELU_SCALE * SELU_ALPHA)

/* Products with 1/6 take less time than quotients; 6 times it is rounded to 1. */
#define SIXTH ((st_real)1 / 6)

/* clang-format off */
VALUE(fast_hardsigmoid, st_real, (at_most(at_least(x, a), b) + 3) * SIXTH)
DERIVATIVE(fast_hardsigmoid, st_real, x, hardsigmoid_derivative(x, a, b))

VALUE(fast_hardswish, st_real, clamp_low(x) * fast_hardsigmoid_value(x, a, b))
DERIVATIVE(fast_hardswish, st_real, x, x <= a ? 0 : x > b ? 1 : (2 * x + 3) * SIXTH)

VALUE(fast_elu, st_real, x < 0 ? a * fast_expm1(negative_part(x)) : x)
DERIVATIVE(fast_elu, st_real, x, x > 0 ? 1 : a * fast_exp(negative_part(x)))

VALUE(fast_selu, st_real,
      x < 0 ? (st_real)SELU_BELOW * fast_expm1(negative_part(x)) : (st_real)SELU_SCALE * x)
DERIVATIVE(fast_selu, st_real, x,
           x > 0 ? (st_real)SELU_SCALE : (st_real)SELU_BELOW * fast_exp(negative_part(x)))

VALUE(fast_gelu_tanh, st_real, clamp_low(x) * wide_logistic(gelu_u(x)))
DERIVATIVE(fast_gelu_tanh, st_real, x, gelu_tanh_slope_of(at_25(x), wide_logistic(gelu_u(at_25(x)))))

VALUE(fast_silu, st_real, fast_silu(x))
DERIVATIVE(fast_silu, st_real, x, fast_silu_slope(x))

VALUE(fast_mish, st_real, mish_value_of(clamp_low(x), wide_exp(at_most(x, 40))))
DERIVATIVE(fast_mish, st_real, x, mish_slope_of(at_most(clamp_low(x), 40), wide_exp(at_most(x, 40))))

VALUE(fast_sigmoid, st_real, fast_logistic(x))
DERIVATIVE(fast_sigmoid, st_real, y, sigmoid_derivative(y, a, b))

VALUE(fast_tanh, st_real, wide_tanh(x))
DERIVATIVE(fast_tanh, st_real, y, tanh_derivative(y, a, b))

VALUE(fast_softplus, st_real, (double)at_least(x, 0) + wide_log1p(wide_exp(-fabs(x))))
DERIVATIVE(fast_softplus, st_real, x, fast_logistic(x))
/* clang-format on */

/* ---- the hooks ------------------------------------------------------------------------------------- */

/* Rows of adjacent elements, y or dx first. */
typedef struct element_rows {
    int views;
    st_real *at[3];
    ptrdiff_t n, item; /* all; in an item of parallel work */
    st_row_function *row;
    const constants *o;
    bool streams; /* past the caches */
    bool far;     /* past the second cache: each line is fetched before its time */
} element_rows;

enum { PAGE = 4096, LINE = 64, PAGES = 2, PIECE = PAGES * PAGE / sizeof(st_real) };
enum { BLOCK = STREAM_PIECE, AHEAD = 2 * BLOCK, FAR_FROM = (1 << 22) / sizeof(st_real) };

/* Fetches the first lines of the page after the one at `at`, where the processor's own prefetching begins
 * anew. Elements that take many instructions would wait for them. */
INLINE void prefetch_page(const st_real *at, ptrdiff_t page)
{
    const uintptr_t next = (((uintptr_t)at + (uintptr_t)(PAGE * page + PAGE / 4)) | (PAGE - 1)) + 1;
    for (int k = 0; k < 4; k++) __builtin_prefetch((const char *)next + k * LINE, 0, 2);
}

static void run_elements(ptrdiff_t i, void *context)
{
    const element_rows *e = context;
    const ptrdiff_t end = smallest((i + 1) * e->item, e->n), step = e->far ? BLOCK : PIECE;
    constants o = *e->o;
    for (ptrdiff_t first = i * e->item; first < end; first += step) {
        const ptrdiff_t n = smallest(step, end - first);
        st_real *at[3] = { 0 };
        for (int v = 0; v < e->views; v++) at[v] = e->at[v] + first;
        for (int v = e->streams; v < e->views; v++)
            if (e->far) FETCH_LINES(at[v] + AHEAD, BLOCK, 0, 3);
            else
                for (int page = 0; page < PAGES; page++) prefetch_page(at[v], page);
        if (e->streams) stream_row(n, e->views, at, e->row, &o);
        else e->row(n, at, (ptrdiff_t[]){ 1, 1, 1 }, &o);
    }
    if (e->streams) stream_end();
}

/* The row over all elements of the views: in pieces, which threads share, if they are contiguous. */
static void each_element(const st_call *c, int views, const st_tensor view[], st_row_function *row,
                         constants o)
{
    element_rows e = { .views = views, .n = st_numel(view[0]), .row = row, .o = &o };
    e.streams = layer_streams(c);
    bool contiguous = true;
    for (int v = 0; v < views; v++) {
        e.at[v] = st_data(view[v]);
        contiguous = contiguous && st_is_contiguous(view[v]);
        if (v > 0 && e.at[v] == e.at[0]) e.streams = false;
    }
    e.far = e.n * views > FAR_FROM && (views > 2 || !e.streams); /* one input arrives while stores leave */
    e.item = e.streams ? STREAM_ITEM : PIECE;
    if (contiguous) st_parallel_for(c, ceil_div(e.n, e.item), run_elements, &e);
    else st_walk(views, view, ST_ANY_ORDER, row, &o);
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const activation_rows *r = c->plan;
    each_element(c, 2, (st_tensor[]){ y, x }, r->value, r->o);
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const activation_rows *r = c->plan;
    each_element(c, 3, (st_tensor[]){ dx, dy, r->from_y ? y : x }, r->derivative, r->o);
}

/* ---- prelu ------------------------------------------------------------------------------------------ */

/* Rows of y, x and weights, and of dx, dy, x and weights. */
#define PRELU(M, NAME)                                                                                       \
    M##_TARGET static void M##_prelu_value_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[],   \
                                               void *context)                                                \
    {                                                                                                        \
        st_real *y = at[0];                                                                                  \
        const st_real *x = at[1], *w = at[2];                                                                \
        const ptrdiff_t sy = stride[0], sx = stride[1], sw = stride[2];                                      \
        (void)context;                                                                                       \
        if (sw == 0) M##_leaky_relu_value_row(n, at, stride, &(constants){ *w, 0 });                         \
        INDEPENDENT                                                                                          \
        for (ptrdiff_t i = sw == 0 ? n : 0; i < n; i++)                                                      \
            y[i * sy] = leaky_relu_value(x[i * sx], w[i * sw], 0);                                           \
    }                                                                                                        \
    M##_TARGET static void M##_prelu_derivative_row(ptrdiff_t n, st_real *const at[],                        \
                                                    const ptrdiff_t stride[], void *context)                 \
    {                                                                                                        \
        st_real *dx = at[0];                                                                                 \
        const st_real *dy = at[1], *x = at[2], *w = at[3];                                                   \
        const ptrdiff_t sx = stride[0], sy = stride[1], sf = stride[2], sw = stride[3];                      \
        (void)context;                                                                                       \
        if (sw == 0) M##_leaky_relu_derivative_row(n, at, stride, &(constants){ *w, 0 });                    \
        INDEPENDENT                                                                                          \
        for (ptrdiff_t i = sw == 0 ? n : 0; i < n; i++)                                                      \
            dx[i * sx] = dy[i * sy] * leaky_relu_derivative(x[i * sf], w[i * sw], 0);                        \
    }

/* The elements of an image, if it has so few of a channel that the call of a row and its last elements, which
 * fill no vector, take longer than to read a weight for each; otherwise 0. */
static ptrdiff_t short_image(const st_layer *l)
{
    enum { CACHED = 1 << 17, FEW = 128, FEW_OF_MANY = 32 };
    const ptrdiff_t channels = l->param[0].shape.n[0], image = st_shape_numel(l->x, "prelu") / l->x.n[0],
                    few = image > CACHED ? FEW_OF_MANY : FEW;
    return channels > 1 && l->x.rank > 2 && image < few * channels ? image : 0;
}

/* A view of x's shape of the weight of each element; where channels are short, of a copy for one image. */
static st_tensor weights_of(const st_call *c, st_tensor x)
{
    enum { SOME = 4 };
    st_tensor w = c->param[0];
    const bool one = w.shape.n[0] == 1;
    w.shape = x.shape;
    for (int i = 0; i < x.shape.rank; i++) w.stride[i] = i == 1 && !one;
    if (c->images < SOME || short_image(c->layer) == 0) return w;
    const st_tensor image = st_select(w, 0, 0), copy = st_reshape(st_scratch(c, 0), image.shape);
    st_copy(copy, image);
    w = copy;
    w.shape = x.shape;
    for (int i = 0; i < x.shape.rank; i++) w.stride[i] = i > 0 ? copy.stride[i - 1] : 0;
    return w;
}

/* A row over views, of which threads have parts along an axis. */
typedef struct prelu_pass {
    int views;
    const st_tensor *view;
    st_row_function *row;
    layer_division division;
} prelu_pass;

static void run_part(ptrdiff_t i, int thread, void *context)
{
    const prelu_pass *p = context;
    st_tensor part[4];
    ptrdiff_t count;
    const ptrdiff_t first = layer_part(&p->division, i, &count);
    (void)thread;
    for (int v = 0; v < p->views; v++) part[v] = st_narrow(p->view[v], p->division.axis, first, count);
    st_walk(p->views, part, ST_ANY_ORDER, p->row, NULL);
}

static void run_parts(const st_call *c, int views, const st_tensor view[], st_row_function *row)
{
    if (c->layer->impl->run->threads == 1) { /* layer_undivided takes longer than a small call */
        st_walk(views, view, ST_ANY_ORDER, row, NULL);
        return;
    }
    prelu_pass p = { views, view, row, layer_undivided(c) };
    for (int axis = 0; axis < view->shape.rank; axis++)
        layer_try_axis(&p.division, axis, view->shape.n[axis], 1, 0);
    layer_each(c, MOST_THREADS, p.division.parts, run_part, &p);
}

static void prelu_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const activation_rows *r = c->plan;
    run_parts(c, 3, (st_tensor[]){ y, x, weights_of(c, x) }, r->value);
}

static void prelu_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const activation_rows *r = c->plan;
    (void)y;
    run_parts(c, 4, (st_tensor[]){ dx, dy, x, weights_of(c, x) }, r->derivative);
}

/* Adds up min(x, 0) dy, in a fixed number of lanes: a branch on the sign would be slow. */
static void prelu_sum_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *sum)
{
    enum { LANES = 8 };
    double lane[LANES] = { 0 };
    const st_real *x = at[0], *dy = at[1];
    ptrdiff_t i = 0;
    if (stride[0] == 1 && stride[1] == 1)
        for (; i + LANES <= n; i += LANES)
            EACH(k, LANES) lane[k] += (double)negative_part(x[i + k]) * (double)dy[i + k];
    for (; i < n; i++) lane[0] += (double)negative_part(x[i * stride[0]]) * (double)dy[i * stride[1]];
    double *total = sum;
    EACH(k, LANES) *total += lane[k];
}

/* Adds min(x, 0) dy of an image to sums of each of its elements. */
static void prelu_sum_image(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *sums)
{
    const st_real *x = at[0], *dy = at[1];
    double *sum = sums;
    for (ptrdiff_t i = 0; i < n; i++)
        sum[i] += (double)negative_part(x[i * stride[0]]) * (double)dy[i * stride[1]];
}

enum { SUMS = 128, BRIEF = 16 }; /* sums at once; elements of channels that have one each, at most */
enum { SUMMED = 8192 };          /* elements of a piece of those of one weight, at least */

/* Sums over x and dy: of some channels, or of some elements, which have one weight. */
typedef struct prelu_sums {
    const st_call *c;
    st_tensor x, dy; /* of brief channels, matrices */
    ptrdiff_t each;  /* channels or elements of a piece */
    ptrdiff_t brief; /* elements of brief channels; otherwise 0 */
    double sum[SUMS];
} prelu_sums;

static void sum_channels(ptrdiff_t piece, int thread, void *context)
{
    const prelu_sums *s = context;
    const ptrdiff_t channels = s->c->param[0].shape.n[0], first = piece * s->each,
                    count = smallest(s->each, channels - first), brief = s->brief, unit = brief ? brief : 1;
    const st_tensor x = st_narrow(s->x, 1, first * unit, count * unit),
                    dy = st_narrow(s->dy, 1, first * unit, count * unit);
    double sum[SUMS] = { 0 };
    (void)thread;
    for (ptrdiff_t i = 0; i < s->c->images && brief; i++)
        st_walk(2, (st_tensor[]){ st_select(x, 0, i), st_select(dy, 0, i) }, ST_ROW_MAJOR, prelu_sum_image,
                sum);
    for (ptrdiff_t k = 0; k < count && !brief; k++)
        st_walk(2, (st_tensor[]){ st_select(x, 1, k), st_select(dy, 1, k) }, ST_ROW_MAJOR, prelu_sum_row,
                &sum[k]);
    for (ptrdiff_t k = 0; k < count; k++) {
        for (ptrdiff_t i = 1; i < brief; i++) sum[k * brief] += sum[k * brief + i];
        st_data(st_grad(s->c, 0))[first + k] += (st_real)sum[k * unit];
    }
}

static void sum_elements(ptrdiff_t piece, int thread, void *context)
{
    prelu_sums *s = context;
    const ptrdiff_t first = piece * s->each, n = smallest(s->each, st_numel(s->x) - first);
    (void)thread;
    prelu_sum_row(n, (st_real *const[]){ st_data(s->x) + first, st_data(s->dy) + first },
                  (ptrdiff_t[]){ 1, 1 }, &s->sum[piece]);
}

/* Threads divide the channels, or the elements of one weight. */
static void prelu_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    const ptrdiff_t channels = c->param[0].shape.n[0], n = st_numel(x), length = n / c->images / channels;
    const bool contiguous = st_is_contiguous(x) && st_is_contiguous(dy);
    prelu_sums s = { c, x, dy, largest(SUMMED, ceil_div(n, SUMS)), 0, { 0 } };
    (void)y;
    if (channels > 1) {
        if (x.shape.rank == 2 || (contiguous && length <= BRIEF)) {
            const st_shape shape = ST_SHAPE(c->images, channels * length);
            s.brief = length, s.x = st_reshape(x, shape), s.dy = st_reshape(dy, shape);
        }
        s.each = smallest(SUMS / largest(s.brief, 1), ceil_div(channels, layer_call_threads(c)));
        layer_each(c, MOST_THREADS, ceil_div(channels, s.each), sum_channels, &s);
    } else if (contiguous) {
        layer_each(c, MOST_THREADS, ceil_div(n, s.each), sum_elements, &s);
        for (int i = 1; i < SUMS; i++) s.sum[0] += s.sum[i];
        *st_data(st_grad(c, 0)) += (st_real)s.sum[0];
    } else prelu_add_gradient(c, x, dy, prelu_sum_row);
}

/* ---- the algorithms --------------------------------------------------------------------------------- */

/* `given` with the rows of the layer's instruction set. */
static int plan_with(st_layer *l, const void *given, const activation_rows of_isa[])
{
    activation_rows *r = st_layer_plan_data(l, sizeof *r);
    if (!r) return -1;
    *r = *(const activation_rows *)given;
    r->value = of_isa[l->impl->isa].value;
    r->derivative = of_isa[l->impl->isa].derivative;
    return 0;
}

static bool suits(const st_layer *l)
{
    (void)l;
    return true;
}

static bool is_gelu_none(const st_layer *l)
{
    return !activation_by_tanh(l);
}

/* Rows of few operations wait for memory, which vectors of 32 bytes get sooner than those of 64. */
#ifdef avx2_TARGET
#define EACH_SHORT_OF(DO, NAME) DO(avx2, NAME) DO(generic, NAME)
#define SHORT_NAMES(NAME) NAMES(avx2, NAME) NAMES(avx2, NAME) NAMES(generic, NAME)
#else
#define EACH_SHORT_OF EACH_ISA_OF
#define SHORT_NAMES(NAME) NAMES(generic, NAME)
#endif

#define NAMES(M, NAME) { M##_##NAME##_value_row, M##_##NAME##_derivative_row, false, { 0 } },
#define GELU(M, NAME)                                                                                        \
    VALUE(M##_gelu, st_real, fast_normal(x, M##_FUSES))                                                      \
    DERIVATIVE(M##_gelu, st_real, x, fast_normal_slope(x, M##_FUSES))                                        \
    ROWS(M, M##_gelu)
#define GELU_NAMES(M, NAME) NAMES(M, M##_gelu)
#define FUNCTION(NAME)                                                                                       \
    EACH_ISA_OF(ROWS, NAME)                                                                                  \
    static const activation_rows NAME##_rows[] = { EACH_ISA_OF(NAMES, NAME) };
#define ALGORITHM(NAME, ROWS_NAME, TYPE, SUITS, ...)                                                         \
    static int fast_##NAME##_plan(st_layer *l, const void *given)                                            \
    {                                                                                                        \
        return plan_with(l, given, ROWS_NAME##_rows);                                                        \
    }                                                                                                        \
    const layer_algorithm NAME##_vectors = {                                                                 \
        .type = &layer_type_##TYPE, .suits = SUITS, .plan = fast_##NAME##_plan, .hooks = { __VA_ARGS__ }     \
    };
#define ACTIVATION_OF(NAME, FUNCTION_NAME, TYPE, SUITS)                                                      \
    FUNCTION(FUNCTION_NAME)                                                                                  \
    ALGORITHM(NAME, FUNCTION_NAME, TYPE, SUITS, forward, backward, .divides = true)
#define SHORT_OF(NAME, FUNCTION_NAME)                                                                        \
    EACH_SHORT_OF(ROWS, FUNCTION_NAME)                                                                       \
    static const activation_rows FUNCTION_NAME##_rows[] = { SHORT_NAMES(FUNCTION_NAME) };                    \
    ALGORITHM(NAME, FUNCTION_NAME, NAME, suits, forward, backward, .divides = true)
#define SHORT_ACTIVATION(NAME) SHORT_OF(NAME, NAME)
#define EXPONENTIAL_ACTIVATION(NAME) ACTIVATION_OF(NAME, fast_##NAME, NAME, suits)

EACH_SHORT_ACTIVATION(SHORT_ACTIVATION)
SHORT_OF(hardsigmoid, fast_hardsigmoid)
SHORT_OF(hardswish, fast_hardswish)
EACH_EXPONENTIAL_ACTIVATION(EXPONENTIAL_ACTIVATION)
#ifdef TAILS
GELU(avx2, _)
GELU(generic, _)
static const activation_rows gelu_none_rows[] = { { normal_value_row, normal_slope_row, false, { 0 } },
                                                  GELU_NAMES(avx2, _) GELU_NAMES(generic, _) };
#else
EACH_ISA_OF(GELU, _)
static const activation_rows gelu_none_rows[] = { EACH_ISA_OF(GELU_NAMES, _) };
#endif
ALGORITHM(gelu_none, gelu_none, gelu, is_gelu_none, forward, backward, .divides = true)
ACTIVATION_OF(gelu_tanh, fast_gelu_tanh, gelu, activation_by_tanh)
EACH_SHORT_OF(PRELU, _)
static const activation_rows prelu_rows[] = { SHORT_NAMES(prelu) };
static int prelu_plan(st_layer *l, const void *given)
{
    if (plan_with(l, given, prelu_rows)) return -1;
    return st_layer_scratch(l, ST_SHAPE(short_image(l)));
}

const layer_algorithm prelu_vectors = { .type = &layer_type_prelu,
                                        .suits = suits,
                                        .plan = prelu_plan,
                                        .hooks = { prelu_forward, prelu_backward, prelu_gradient,
                                                   .divides = true } };
