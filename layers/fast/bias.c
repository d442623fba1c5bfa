/* bias.c: the gradient of a convolution's bias by vectors: dy summed over images and positions. */
#include "layers/conv_impl.h"
#include "layers/fast/algorithms.h"
#include "tensor/fast/isa.h"

/* The sum of a plane, in 16 lanes; each adds few numbers. */
static double sum_of(const st_real *x, ptrdiff_t count)
{
    enum { LANES = 16, SHORT = ISA_LANES(generic) };
    generic_vector part[LANES / SHORT] = { { 0 } };
    double sum = 0;
    ptrdiff_t whole = count / LANES * LANES;
    for (ptrdiff_t i = 0; i < whole; i += LANES)
        EACH(k, LANES / SHORT) part[k] += *(const generic_loose *)(x + i + k * SHORT);
    EACH(e, LANES) sum += (double)part[e / SHORT][e % SHORT];
    for (ptrdiff_t i = whole; i < count; i++) sum += (double)x[i];
    return sum;
}

typedef struct channels {
    st_tensor dy;
    st_real *to;
} channels;

static void add_channel(ptrdiff_t o, int thread, void *context)
{
    (void)thread;
    const channels *b = context;
    const st_tensor dy = b->dy;
    const ptrdiff_t all = dy.shape.n[1], area = dy.shape.n[2] * dy.shape.n[3];
    double sum = 0;
    for (ptrdiff_t i = 0; i < dy.shape.n[0]; i++) sum += sum_of(st_data(dy) + (i * all + o) * area, area);
    b->to[o] += (st_real)sum;
}

void conv_bias_gradient(const st_call *c, st_tensor dy)
{
    if (conv_bias(c))
        layer_each(c, MOST_THREADS, dy.shape.n[1], add_channel,
                   &(channels){ dy, st_data(st_grad(c, CONV_BIAS)) });
}
