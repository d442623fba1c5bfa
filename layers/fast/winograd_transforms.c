/* winograd_transforms.c: Winograd's transforms: along an axis, and from that along both.
 *
 * This file is compiled with -ffp-contract=fast: multiply-adds are fused where the processor can. */
#include "layers/fast/winograd.h"
#include "tensor/machine.h"

/* ---- F(2, 3): polynomials at 0, 1, -1 and infinity ------------------------------------------------------- */

#define HALF ((st_real)0.5)

#define B_TRANSPOSED_2(d, e) e[0] = d[0] - d[2], e[1] = d[1] + d[2], e[2] = d[2] - d[1], e[3] = d[1] - d[3]

#define A_TRANSPOSED_2(d, e) e[0] = d[0] + d[1] + d[2], e[1] = d[1] - d[2] - d[3]
#define A_ITSELF_2(d, e) e[0] = d[0], e[1] = d[0] + d[1], e[2] = d[0] - d[1], e[3] = -d[1]

#define G_ITSELF_2(d, e)                                                                                     \
    e[0] = d[0], e[1] = (d[0] + d[1] + d[2]) * HALF, e[2] = (d[0] - d[1] + d[2]) * HALF, e[3] = d[2]
#define G_TRANSPOSED_2(d, e)                                                                                 \
    e[0] = d[0] + (d[1] + d[2]) * HALF, e[1] = (d[1] - d[2]) * HALF, e[2] = (d[1] + d[2]) * HALF + d[3]

/* ---- F(4, 3): at 2 and -2 besides; of G three times ------------------------------------------------------ */

#define EIGHTH ((st_real)0.125)
#define QUARTER ((st_real)0.25)
#define TWO ((st_real)2)
#define THREE ((st_real)3)
#define FOUR ((st_real)4)
#define EIGHT ((st_real)8)

#define B_TRANSPOSED_4(d, e)                                                                                 \
    e[0] = (d[0] - d[2]) * FOUR + (d[4] - d[2]), e[1] = (d[4] - d[2] * FOUR) + (d[3] - d[1] * FOUR),         \
    e[2] = (d[4] - d[2] * FOUR) - (d[3] - d[1] * FOUR), e[3] = (d[4] - d[2]) + (d[3] - d[1]) * TWO,          \
    e[4] = (d[4] - d[2]) - (d[3] - d[1]) * TWO, e[5] = (d[5] - d[3]) - (d[3] - d[1]) * FOUR

#define A_TRANSPOSED_4(d, e)                                                                                 \
    e[0] = d[0] + (d[1] + d[2]) + (d[3] + d[4]), e[1] = (d[1] - d[2]) + (d[3] - d[4]) * TWO,                 \
    e[2] = (d[1] + d[2]) + (d[3] + d[4]) * FOUR, e[3] = (d[1] - d[2]) + (d[3] - d[4]) * EIGHT + d[5]
#define A_ITSELF_4(d, e)                                                                                     \
    e[0] = d[0], e[1] = (d[0] + d[2]) + (d[1] + d[3]), e[2] = (d[0] + d[2]) - (d[1] + d[3]),                 \
    e[3] = (d[0] + d[2] * FOUR) + (d[1] + d[3] * FOUR) * TWO,                                                \
    e[4] = (d[0] + d[2] * FOUR) - (d[1] + d[3] * FOUR) * TWO, e[5] = d[3]

#define G_ITSELF_4(d, e)                                                                                     \
    e[0] = d[0] * (THREE * QUARTER), e[1] = (d[0] + d[1] + d[2]) * -HALF,                                    \
    e[2] = (d[0] - d[1] + d[2]) * -HALF, e[3] = (d[0] * EIGHTH + d[2] * HALF) + d[1] * QUARTER,              \
    e[4] = (d[0] * EIGHTH + d[2] * HALF) - d[1] * QUARTER, e[5] = d[2] * THREE
#define G_TRANSPOSED_4(d, e)                                                                                 \
    e[0] = d[0] * (THREE * QUARTER) - (d[1] + d[2]) * HALF + (d[3] + d[4]) * EIGHTH,                         \
    e[1] = (d[2] - d[1]) * HALF + (d[3] - d[4]) * QUARTER,                                                   \
    e[2] = ((d[3] + d[4]) - (d[1] + d[2])) * HALF + d[5] * THREE

/* ---- along both axes ------------------------------------------------------------------------------------- */

#define AT(type, place) (*(type *)(place))

#define TRANSFORM(M, NAME, T, FROM, TO, FACTOR)                                                              \
    M##_TARGET static void M##_##NAME(ptrdiff_t channels, const st_real *const in[], st_real *const out[])   \
    {                                                                                                        \
        for (ptrdiff_t c = 0; c < channels; c += MACHINE_LANES(M)) {                                         \
            M##_vector half[TO][FROM], d[FROM], e[TO];                                                       \
            EACH(q, FROM)                                                                                    \
            {                                                                                                \
                EACH(p, FROM) d[p] = AT(const M##_loose, in[p * FROM + q] + c);                              \
                T(d, e);                                                                                     \
                EACH(i, TO) half[i][q] = e[i];                                                               \
            }                                                                                                \
            EACH(i, TO)                                                                                      \
            {                                                                                                \
                T(half[i], e);                                                                               \
                EACH(j, TO) AT(M##_loose, out[i * TO + j] + c) = e[j] * (FACTOR);                            \
            }                                                                                                \
        }                                                                                                    \
    }

/* Exact for multiples of 9. The number nearest to 1/9 is (1 + δ)/9, δ = 2^-27 in float and -2^-54 in double.
 * 9q times it is q (1 + δ), whose nearest number is q. (In double, below a power of two, there is a tie,
 * which rounds to the even number q.) */
#define ONE ((st_real)1)
#define NINTH (1 / (st_real)9)

#define TRANSFORMS(M)                                                                                        \
    TRANSFORM(M, input_2, B_TRANSPOSED_2, 4, 4, ONE)                                                         \
    TRANSFORM(M, output_2, A_TRANSPOSED_2, 4, 2, ONE)                                                        \
    TRANSFORM(M, output_adjoint_2, A_ITSELF_2, 2, 4, ONE)                                                    \
    TRANSFORM(M, weight_2, G_ITSELF_2, 3, 4, ONE)                                                            \
    TRANSFORM(M, weight_adjoint_2, G_TRANSPOSED_2, 4, 3, ONE)                                                \
    TRANSFORM(M, input_4, B_TRANSPOSED_4, 6, 6, ONE)                                                         \
    TRANSFORM(M, output_4, A_TRANSPOSED_4, 6, 4, NINTH)                                                      \
    TRANSFORM(M, output_adjoint_4, A_ITSELF_4, 4, 6, ONE)                                                    \
    TRANSFORM(M, weight_4, G_ITSELF_4, 3, 6, ONE)                                                            \
    TRANSFORM(M, weight_adjoint_4, G_TRANSPOSED_4, 6, 3, NINTH)

EACH_MACHINE(TRANSFORMS)

/* All powers of 1 are equal, so that element (1, 1) adds equally to all outputs. */
#define OF_SIZE(M, SIZE, SCALE)                                                                              \
    {                                                                                                        \
        SIZE, ((SIZE) + 2) * ((SIZE) + 2), (SIZE) + 3, SCALE, M##_input_##SIZE, M##_output_##SIZE,           \
            M##_output_adjoint_##SIZE, M##_weight_##SIZE, M##_weight_adjoint_##SIZE                          \
    }

#define OF_MACHINE(M) { MACHINE_LANES(M), { OF_SIZE(M, 2, 1), OF_SIZE(M, 4, 9) } },

static const struct {
    int lanes;
    winograd of_size[2];
} machines[] = { EACH_MACHINE(OF_MACHINE) };

const winograd *winograd_of(const kernel *k, int size)
{
    int i = 0;
    while (machines[i].lanes != k->lanes) i++;
    return &machines[i].of_size[size == 4];
}
