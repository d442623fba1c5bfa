/* peak.c: multiply-adds that touch no memory; compiled with contraction, so that a * x + b is one
 * instruction.
 *
 * Twelve chains of them are under way at once: an instruction's four cycles times two units a cycle are
 * eight, and twelve with two operands still fit the sixteen registers of AVX2. */
#include "tests/bench/peak.h"

enum { CHAINS = 12, STEPS = 200000, FLOATS = 16 * CHAINS };

/* The same number of operations for any width: the narrower the vector, the more steps. */
const double peak_flops = 2.0 * FLOATS * STEPS;

/* A function of that name for vectors of so many floats: a type of vector cannot be passed as an argument. */
#define MULTIPLY_ADD(name, lanes, attribute)                                                                 \
    typedef float name##_vector __attribute__((vector_size(lanes * sizeof(float))));                         \
    attribute static float name(void)                                                                        \
    {                                                                                                        \
        name##_vector sum[CHAINS] = { 0 }, factor = { 0 }, term = { 0 };                                     \
        factor += 0.5F, term += 1.0F;                                                                        \
        for (int chain = 0; chain < CHAINS; chain++) sum[chain] += (float)chain; /* no two alike */          \
        __asm__ volatile("" : "+m"(factor), "+m"(term)); /* numbers the compiler does not know */            \
        for (int step = 0; step < STEPS * 16 / lanes; step++)                                                \
            for (int chain = 0; chain < CHAINS; chain++) sum[chain] = sum[chain] * factor + term;            \
        float total = 0;                                                                                     \
        for (int chain = 0; chain < CHAINS; chain++) total += sum[chain][0];                                 \
        return total;                                                                                        \
    }

MULTIPLY_ADD(any, 4, )
#if defined(__x86_64__) || defined(__i386__)
MULTIPLY_ADD(avx2, 8, __attribute__((target("avx2,fma"))))
MULTIPLY_ADD(avx512, 16, __attribute__((target("avx512f"))))
#endif

float peak_run(void)
{
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_supports("avx512f")) return avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2();
#endif
    return any();
}
