/* bias.c: the gradient of a convolution's bias by vectors: dy summed over images and positions. */
#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "layers/fast/kernel.h"
#include "tensor/counts.h"

enum { LANES = 16, JOBS = 8, SMALL = 256, LEAST = ISA_LANES(generic) };

typedef void sum_planes(const st_real *x, ptrdiff_t planes, ptrdiff_t count, double *sum);

/* Adds the sums of planes, at most as many as a vector has elements: each has 16 lanes, which add few
 * numbers, and then are added in their order, those of all planes at a time. */
#define SUM(M)                                                                                               \
    typedef double M##_sums __attribute__((vector_size(ISA_LANES(M) * sizeof(double))));                     \
    M##_TARGET static void M##_sum_planes(const st_real *x, ptrdiff_t planes, ptrdiff_t count, double *sum)  \
    {                                                                                                        \
        enum { SHORT = ISA_LANES(M), HALF = SHORT / 2, PARTS = LANES / SHORT };                              \
        const ptrdiff_t whole = count / LANES * LANES;                                                       \
        M##_vector part[PARTS][SHORT] = { { { 0 } } }, v[SHORT], w[SHORT];                                   \
        M##_sums all = { 0 };                                                                                \
        for (ptrdiff_t p = 0; p < planes; p++) {                                                             \
            M##_vector own[PARTS] = { { 0 } };                                                               \
            for (ptrdiff_t i = p * count; i < p * count + whole; i += LANES)                                 \
                EACH(k, PARTS) own[k] += AT(M, x + i + k * SHORT);                                           \
            EACH(k, PARTS) part[k][p] = own[k];                                                              \
        }                                                                                                    \
        for (int k = 0; k < PARTS && whole > 0; k++) {                                                       \
            EACH(i, SHORT) v[i] = part[k][i];                                                                \
            _Pragma("GCC unroll 4") for (int n = SHORT; n > 1; n /= 2)                                       \
            {                                                                                                \
                EACH(i, HALF)                                                                                \
                {                                                                                            \
                    w[2 * i] = SHUFFLE(M, v[i], v[i + HALF], M##_OF(LOWER));                                 \
                    w[2 * i + 1] = SHUFFLE(M, v[i], v[i + HALF], M##_OF(UPPER));                             \
                }                                                                                            \
                EACH(i, SHORT) v[i] = w[i];                                                                  \
            }                                                                                                \
            EACH(e, SHORT) all += __builtin_convertvector(v[e], M##_sums);                                   \
        }                                                                                                    \
        for (ptrdiff_t p = 0; p < planes; p++) {                                                             \
            double own = all[p];                                                                             \
            for (ptrdiff_t i = whole; i < count; i++) own += (double)x[p * count + i];                       \
            sum[p] += own;                                                                                   \
        }                                                                                                    \
    }

EACH_ISA(SUM)
#define NAME(M) { ISA_LANES(M), M##_sum_planes },
static const struct {
    int lanes;
    sum_planes *sum;
} of_isa[] = { EACH_ISA(NAME) };

typedef struct channels {
    sum_planes *sum;
    st_tensor dy;
    ptrdiff_t each;
    st_real *to;
} channels;

static void add_channels(ptrdiff_t number, int thread, void *context)
{
    (void)thread;
    const channels *b = context;
    const st_tensor dy = b->dy;
    const ptrdiff_t all = dy.shape.n[1], area = dy.shape.n[2] * dy.shape.n[3], first = number * b->each,
                    count = smallest(b->each, all - first);
    double sum[LANES] = { 0 };
    for (ptrdiff_t i = 0; i < dy.shape.n[0]; i++)
        b->sum(st_data(dy) + (i * all + first) * area, count, area, sum);
    for (ptrdiff_t o = 0; o < count; o++) b->to[first + o] += (st_real)sum[o];
}

void conv_bias_gradient(const st_call *c, st_tensor dy)
{
    if (!conv_bias(c)) return;
    const ptrdiff_t all = dy.shape.n[1], least = dy.shape.n[2] * dy.shape.n[3] < SMALL ? LEAST : 1,
                    most = largest(least, ceil_div(all, JOBS));
    int isa = c->layer->impl->isa;
    while (of_isa[isa].lanes > most && of_isa[isa].lanes > LEAST) isa++;
    const ptrdiff_t each = smallest(most, of_isa[isa].lanes);
    layer_each(c, MOST_THREADS, ceil_div(all, each), add_channels,
               &(channels){ of_isa[isa].sum, dy, each, st_data(st_grad(c, CONV_BIAS)) });
}
