/* winograd_transforms.c: Winograd's transforms: along an axis, and from that along both.
 *
 * This file is compiled with -ffp-contract=fast: multiply-adds are fused where the processor can. */
#include "layers/fast/winograd.h"
#include "tensor/fast/isa.h"

/* ---- F(4, 3): polynomials at 0, 1, -1, 2, -2 and infinity; of G three times ---------------------------- */

#define HALF ((st_real)0.5)
#define EIGHTH ((st_real)0.125)
#define QUARTER ((st_real)0.25)
#define TWO ((st_real)2)
#define THREE ((st_real)3)
#define FOUR ((st_real)4)
#define FIVE ((st_real)5)
#define EIGHT ((st_real)8)

#define B_TRANSPOSED_4(d, e)                                                                                 \
    e[0] = (d[0] - d[2]) * FOUR + (d[4] - d[2]), e[1] = (d[4] - d[2] * FOUR) + (d[3] - d[1] * FOUR),         \
    e[2] = (d[4] - d[2] * FOUR) - (d[3] - d[1] * FOUR), e[3] = (d[4] - d[2]) + (d[3] - d[1]) * TWO,          \
    e[4] = (d[4] - d[2]) - (d[3] - d[1]) * TWO, e[5] = (d[5] - d[3]) - (d[3] - d[1]) * FOUR

#define B_ITSELF_4(d, e)                                                                                     \
    e[0] = d[0] * FOUR, e[1] = ((d[2] - d[1]) + d[5]) * FOUR + (d[4] - d[3]) * TWO,                          \
    e[2] = d[0] * -FIVE - (d[1] + d[2]) * FOUR - (d[3] + d[4]),                                              \
    e[3] = (d[1] - d[2]) + (d[3] - d[4]) * TWO - d[5] * FIVE, e[4] = d[0] + (d[1] + d[2]) + (d[3] + d[4]),   \
    e[5] = d[5]

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

/* ---- F(2, 5): the same points, and so the same B; of G three times ------------------------------------ */

#define A_TRANSPOSED_2(d, e)                                                                                 \
    e[0] = d[0] + (d[1] + d[2]) + (d[3] + d[4]), e[1] = (d[1] - d[2]) + (d[3] - d[4]) * TWO + d[5]
#define A_ITSELF_2(d, e)                                                                                     \
    e[0] = d[0], e[1] = d[0] + d[1], e[2] = d[0] - d[1], e[3] = d[0] + d[1] * TWO, e[4] = d[0] - d[1] * TWO, \
    e[5] = d[1]

#define G_ITSELF_2(d, e)                                                                                     \
    e[0] = d[0] * (THREE * QUARTER), e[1] = ((d[0] + d[2] + d[4]) + (d[1] + d[3])) * -HALF,                  \
    e[2] = ((d[0] + d[2] + d[4]) - (d[1] + d[3])) * -HALF,                                                   \
    e[3] = (d[0] * EIGHTH + d[2] * HALF + d[4] * TWO) + (d[1] * QUARTER + d[3]),                             \
    e[4] = (d[0] * EIGHTH + d[2] * HALF + d[4] * TWO) - (d[1] * QUARTER + d[3]), e[5] = d[4] * THREE
#define G_TRANSPOSED_2(d, e)                                                                                 \
    e[0] = d[0] * (THREE * QUARTER) - (d[1] + d[2]) * HALF + (d[3] + d[4]) * EIGHTH,                         \
    e[1] = (d[2] - d[1]) * HALF + (d[3] - d[4]) * QUARTER, e[2] = ((d[3] + d[4]) - (d[1] + d[2])) * HALF,    \
    e[3] = (d[2] - d[1]) * HALF + (d[3] - d[4]),                                                             \
    e[4] = (d[3] + d[4]) * TWO - (d[1] + d[2]) * HALF + d[5] * THREE

/* ---- along both axes ----------------------------------------------------------------------------------- */

/* `out` is kept: 9 out, and the sum is divided later. A fused multiply-add would not round the quotient of
 * out + e / 9. */
#define NINE_TIMES(M, at) +AT(M, at) * NINE
#define NOTHING(M, at)

#define TRANSFORM(M, NAME, T, FROM, TO, PLUS, FACTOR)                                                        \
    M##_TARGET static void M##_##NAME(ptrdiff_t channels, const st_real *const in[], st_real *const out[])   \
    {                                                                                                        \
        for (ptrdiff_t c = 0; c < channels; c += ISA_LANES(M)) {                                             \
            M##_vector half[TO][FROM], d[FROM], e[TO];                                                       \
            EACH(q, FROM)                                                                                    \
            {                                                                                                \
                EACH(p, FROM) d[p] = AT(M, in[p * FROM + q] + c);                                            \
                T(d, e);                                                                                     \
                EACH(i, TO) half[i][q] = e[i];                                                               \
            }                                                                                                \
            EACH(i, TO)                                                                                      \
            {                                                                                                \
                T(half[i], e);                                                                               \
                EACH(j, TO)                                                                                  \
                AT(M, out[i * TO + j] + c) = (e[j] PLUS(M, out[i * TO + j] + c)) * (FACTOR);                 \
            }                                                                                                \
        }                                                                                                    \
    }

/* Exact for multiples of 9. The number nearest to 1/9 is (1 + δ)/9, δ = 2^-27 in float and -2^-54 in
 * double. 9q times it is q (1 + δ), whose nearest number is q. (In double, below a power of two, there is a
 * tie, which rounds to the even number q.) */
#define ONE ((st_real)1)
#define NINE ((st_real)9)
#define NINTH (1 / (st_real)9)

#define TRANSFORMS(M)                                                                                        \
    TRANSFORM(M, input, B_TRANSPOSED_4, 6, 6, NOTHING, ONE)                                                  \
    TRANSFORM(M, input_adjoint, B_ITSELF_4, 6, 6, NINE_TIMES, NINTH)                                         \
    TRANSFORM(M, output, A_TRANSPOSED_4, 6, 4, NOTHING, NINTH)                                               \
    TRANSFORM(M, output_adjoint, A_ITSELF_4, 4, 6, NOTHING, ONE)                                             \
    TRANSFORM(M, weight, G_ITSELF_4, 3, 6, NOTHING, ONE)                                                     \
    TRANSFORM(M, weight_adjoint, G_TRANSPOSED_4, 6, 3, NOTHING, NINTH)                                       \
    TRANSFORM(M, output_2, A_TRANSPOSED_2, 6, 2, NOTHING, NINTH)                                             \
    TRANSFORM(M, output_adjoint_2, A_ITSELF_2, 2, 6, NOTHING, ONE)                                           \
    TRANSFORM(M, weight_5, G_ITSELF_2, 5, 6, NOTHING, ONE)                                                   \
    TRANSFORM(M, weight_adjoint_5, G_TRANSPOSED_2, 6, 5, NOTHING, NINTH)

EACH_ISA(TRANSFORMS)

#define OF_3(M)                                                                                              \
    { 4, 3, M##_input, M##_input_adjoint, M##_output, M##_output_adjoint, M##_weight, M##_weight_adjoint },
#define OF_5(M)                                                                                              \
    { 2,                                                                                                     \
      5,                                                                                                     \
      M##_input,                                                                                             \
      M##_input_adjoint,                                                                                     \
      M##_output_2,                                                                                          \
      M##_output_adjoint_2,                                                                                  \
      M##_weight_5,                                                                                          \
      M##_weight_adjoint_5 },
const winograd winograd_of_3[] = { EACH_ISA(OF_3) }, winograd_of_5[] = { EACH_ISA(OF_5) };
