/* math.c: the functions of nn/one/math.h against those of the C library in long double.
 *
 *     math          errors above the limits, in units of the result's last place
 *     math TRIES    the table of the largest errors */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef long double wide;
#define REFERENCE(name)                                                                                      \
    static wide reference_##name(wide x, wide y)                                                             \
    {                                                                                                        \
        (void)y;                                                                                             \
        return name##l(x);                                                                                   \
    }
REFERENCE(cos)
REFERENCE(erfc)
REFERENCE(exp)
REFERENCE(expm1)
REFERENCE(log)
REFERENCE(log1p)
REFERENCE(sin)
REFERENCE(tan)
REFERENCE(tanh)
static wide reference_pow(wide x, wide y)
{
    return powl(x, y);
}
static wide reference_hypot(wide x, wide y)
{
    return hypotl(x, y);
}

#include "../../nn/one/math.h"

#define TESTED(name)                                                                                         \
    static double tested_##name(double x, double y)                                                          \
    {                                                                                                        \
        (void)y;                                                                                             \
        return one_##name(x);                                                                                \
    }
TESTED(cos)
TESTED(erfc)
TESTED(exp)
TESTED(expm1)
TESTED(log)
TESTED(log1p)
TESTED(sin)
TESTED(tan)
TESTED(tanh)

static double uniform(double from, double to)
{
    static unsigned long long state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return from + (to - from) * ((double)(state >> 11) / 9007199254740992.0);
}

/* A random magnitude from 2^least to 2^most; with a sign if `both`. */
static double any(int least, int most, int both)
{
    const double x = scalbn(uniform(1, 2), (int)uniform(least, most));
    return both && uniform(0, 1) < 0.5 ? -x : x;
}

static double ulp(double y)
{
    int k;
    frexp(y, &k);
    return scalbn(1, (k < -1021 ? -1021 : k) - 53);
}

typedef struct {
    const char *name;
    double (*tested)(double x, double y);
    wide (*reference)(wide x, wide y);
    double from, to; /* uniform arguments */
    int least, most, both;
    double limit;
} row;

static const row rows[] = {
    { "cos", tested_cos, reference_cos, -1e6, 1e6, -40, 6, 1, 3 },
    { "erfc", tested_erfc, reference_erfc, -6, 26, -40, 4, 1, 5 },
    { "exp", tested_exp, reference_exp, -745, 709.7, -60, 9, 1, 1.1 },
    { "expm1", tested_expm1, reference_expm1, -2, 2, -1000, 9, 1, 2 },
    { "hypot", one_hypot, reference_hypot, -5, 5, -1000, 1000, 1, 1.5 },
    { "log", tested_log, reference_log, 0.5, 2, -1000, 1000, 0, 1 },
    { "log1p", tested_log1p, reference_log1p, -0.999, 2, -1000, 1000, 0, 1 },
    { "pow", one_pow, reference_pow, 0.5, 2, -200, 200, 0, 3 },
    { "sin", tested_sin, reference_sin, -1e6, 1e6, -1000, 6, 1, 3 },
    { "tan", tested_tan, reference_tan, -1e3, 1e3, -1000, 6, 1, 4 },
    { "tanh", tested_tanh, reference_tanh, -2, 2, -1000, 5, 1, 3 },
};

/* At the ends of the range as the standard says. */
static int ends(void)
{
    const double inf = HUGE_VAL, nan = inf - inf;
    return one_exp(inf) == inf && one_exp(-inf) == 0 && one_exp(-746) == 0 && one_expm1(-inf) == -1 &&
           one_expm1(inf) == inf && one_log(0) == -inf && one_log(inf) == inf && isnan(one_log(-1)) &&
           isnan(one_log(nan)) && one_log1p(-1) == -inf && isnan(one_log1p(-2)) && one_log1p(inf) == inf &&
           one_tanh(inf) == 1 && one_tanh(-inf) == -1 && isnan(one_tanh(nan)) && one_erfc(inf) == 0 &&
           one_erfc(-inf) == 2 && isnan(one_erfc(nan)) && isnan(one_sin(inf)) && isnan(one_exp(nan)) &&
           one_pow(0, 3) == 0 && one_pow(0, -1) == inf && one_pow(-2, 3) == -8 && isnan(one_pow(-2, 0.5)) &&
           one_pow(nan, 0) == 1 && one_pow(inf, 2) == inf && one_pow(inf, -2) == 0 &&
           one_pow(0.5, inf) == 0 && one_pow(2, 5000) == inf && one_pow(2, -5000) == 0 &&
           one_hypot(nan, inf) == inf && one_hypot(0, 0) == 0;
}

int main(int argc, char **argv)
{
    const int tries = argc > 1 ? atoi(argv[1]) : 200000;
    int failed = !ends();
    if (failed) puts("an infinite, or otherwise last, argument gives what the C standard does not say");
    for (const row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
        double most = 0, at = 0;
        for (int i = 0; i < tries; i++) {
            const double x = i % 2 ? uniform(r->from, r->to) : any(r->least, r->most, r->both);
            const double y = r->reference == reference_hypot ? x * any(-3, 3, 1) : uniform(-10, 10);
            const wide right = r->reference(x, y);
            if (!(fabsl(right) < (wide)1e308)) continue;
            const double off = (double)fabsl((wide)r->tested(x, y) - right) / ulp((double)right);
            if (!(off <= most)) most = off, at = x;
        }
        if (argc > 1 || !(most <= r->limit))
            printf("%-6s %6.2f ulp at %.17g, expected at most %g\n", r->name, most, at, r->limit);
        failed |= !(most <= r->limit);
    }
    return failed;
}
