/* math.h: the functions that C libraries compute each in its own way, to the same bits everywhere.
 *
 * They are made of sums, products, quotients and powers of 2, which are rounded alike on every machine.
 * Errors are below 5 ulp, most below 2 (tests/one/math.c), of sines for angles below 10^6. Square roots,
 * remainders and the like are exact or rounded correctly in every library, and stay the library's. Results
 * for float are those for double, rounded. */
#ifndef STRIDE_NN_ONE_MATH_H
#define STRIDE_NN_ONE_MATH_H

#include <float.h>
#include <math.h>
#ifdef __GNUC__
#include <tgmath.h>
#else
#define ONE_TYPE(name, x) _Generic((x), float : name##f, default : name)(x)
#define fabs(x) ONE_TYPE(fabs, x)
#define sqrt(x) ONE_TYPE(sqrt, x)
#endif

/* The upper digits of ln 2 and pi/2, whose products with small whole numbers are exact, and the rest. */
#define ONE_LN2 0.69314718036912381649
#define ONE_LN2_REST 1.9082149292705878e-10
#define ONE_QUARTER 1.5707963267341256142
#define ONE_QUARTER_REST 6.0771005063039659766e-11
#define ONE_QUARTER_LEAST 2.0222662487959507e-21

/* c[0] + c[1] x + ... */
static double one_polynomial(double x, const double *c, int n)
{
    double sum = c[n - 1];
    while (--n > 0) sum = sum * x + c[n - 1];
    return sum;
}
#define ONE_POLYNOMIAL(x, ...)                                                                               \
    one_polynomial(x, (const double[]){ __VA_ARGS__ }, sizeof(double[]){ __VA_ARGS__ } / sizeof(double))

/* A sum and a product, with what their rounding loses (Dekker 1971). */
typedef struct {
    double value, rest;
} one_pair;

static one_pair one_sum(double a, double b) /* |a| >= |b|, or a is 0 */
{
    const double sum = a + b;
    return (one_pair){ sum, b - (sum - a) };
}

static double one_upper(double x) /* the upper half of x's digits */
{
    const double shifted = 134217729 * x;
    return shifted - (shifted - x);
}

static one_pair one_product(double a, double b)
{
    const double p = a * b, a1 = one_upper(a), b1 = one_upper(b), a2 = a - a1, b2 = b - b1;
    return (one_pair){ p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2 };
}

/* ---- exponentials ---------------------------------------------------------------------------- */

/* exp(x) = 2^k (1 + p): returns p; |r| <= ln 2 / 2, whose Taylor series has 14 terms. */
static double one_reduced(double x, int *k)
{
    static const double taylor[] = { 1 / 2.0,          1 / 6.0,        1 / 24.0,        1 / 120.0,
                                     1 / 720.0,        1 / 5040.0,     1 / 40320.0,     1 / 362880.0,
                                     1 / 3628800.0,    1 / 39916800.0, 1 / 479001600.0, 1 / 6227020800.0,
                                     1 / 87178291200.0 };
    *k = fabs(x) < ONE_LN2 / 2 ? 0 : (int)floor(x * 1.44269504088896341 + 0.5);
    const double upper = x - *k * ONE_LN2, lower = *k * ONE_LN2_REST, r = upper - lower;
    return r + (r * r * one_polynomial(r, taylor, 13) + (upper - r - lower));
}

static double one_exp(double x)
{
    int k;
    if (!(x < 710)) return isnan(x) ? x : HUGE_VAL;
    if (x < -746) return 0;
    const double p = one_reduced(x, &k);
    return scalbn(1 + p, k);
}

static double one_expm1(double x)
{
    int k;
    if (!(x < 40)) return one_exp(x);
    if (x < -40) return -1;
    const double p = one_reduced(x, &k), power = scalbn(1, k);
    return (power - 1) + power * p;
}

static double one_tanh(double x)
{
    const double size = fabs(x), e = one_expm1(2 * (size < 20 ? size : 20));
    return isnan(x) ? x : copysign(size < 0.5 ? e / (e + 2) : 1 - 2 / (e + 2), x);
}

/* ---- logarithms ------------------------------------------------------------------------------ */

/* log((1 + s) / (1 - s)) - 2 s, with s² = z and |s| <= 0.1716, divided by s. */
static double one_atanh_rest(double z)
{
    return z * ONE_POLYNOMIAL(z, 2 / 3.0, 2 / 5.0, 2 / 7.0, 2 / 9.0, 2 / 11.0, 2 / 13.0, 2 / 15.0, 2 / 17.0,
                              2 / 19.0, 2 / 21.0, 2 / 23.0);
}

/* x = 2^k m, sqrt(1/2) <= m < sqrt(2). */
static double one_mantissa(double x, int *k)
{
    double m = frexp(x, k);
    if (m < 0.70710678118654752) m *= 2, --*k;
    return m;
}

/* k ln 2 + log(1 + f) + rest; 2 s = f - s f. */
static double one_log_of(double f, int k, double rest)
{
    const double s = f / (2 + f);
    return k * ONE_LN2 - (s * (f - one_atanh_rest(s * s)) - (k * ONE_LN2_REST + rest) - f);
}

static double one_log(double x)
{
    int k;
    if (!(x > 0)) return x == 0 ? -HUGE_VAL : (x - x) / (x - x);
    if (x > DBL_MAX) return x;
    const double m = one_mantissa(x, &k);
    return one_log_of(m - 1, k, 0);
}

static double one_log1p(double x)
{
    int k;
    if (x > -0.2928 && x < 0.4142) return fabs(x) < 1e-17 ? x : one_log_of(x, 0, 0);
    const double sum = 1 + x;
    if (!(sum > 0) || sum > DBL_MAX) return one_log(sum);
    const double lost = sum > 2 ? 1 - (sum - x) : x - (sum - 1), m = one_mantissa(sum, &k);
    return one_log_of(m - 1, k, lost / sum);
}

/* log(x) as a pair, x > 0 and finite. */
static one_pair one_log_pair(double x)
{
    int k;
    const double m = one_mantissa(x, &k), f = m - 1, d = m + 1, s = f / d;
    const one_pair back = one_product(s, d), sum = one_sum(k * ONE_LN2, 2 * s);
    const double s_rest = (f - back.value - back.rest - s * (m - (d - 1))) / d;
    return one_sum(sum.value, sum.rest + (s * one_atanh_rest(s * s) + (2 * s_rest + k * ONE_LN2_REST)));
}

static double one_pow(double x, double y)
{
    if (y == 0 || x == 1) return 1;
    if (isnan(x) || isnan(y)) return x + y;
    const int whole = floor(y) == y, odd = whole && fmod(y, 2) != 0;
    if (x == 0) return y < 0 ? (odd ? copysign(HUGE_VAL, x) : HUGE_VAL) : odd ? x : 0;
    if (x < 0) return !whole && x >= -DBL_MAX ? (x - x) / 0.0 : (odd ? -1 : 1) * one_pow(-x, y);
    if (x > DBL_MAX || fabs(y) > DBL_MAX) return (x > 1) == (y > 0) ? HUGE_VAL : 0;
    const one_pair log = one_log_pair(x), power = one_product(log.value, y);
    if (!(fabs(log.value * y) < 800)) return one_exp(log.value * y);
    return one_exp(power.value) * (1 + (power.rest + log.rest * y));
}

/* ---- others ---------------------------------------------------------------------------------- */

/* (1 + 2 x) exp(x²) erfc(x) in Chebyshev polynomials of (x - 3.75) / (x + 3.75): Shepherd and Laframboise
 * 1981. */
static double one_erfc(double x)
{
    static const double c[] = { 1.1775789345674018,      -0.0045900545806464773,  -0.084249133366517916,
                                0.05920993999819189,     -0.026658668435305752,   0.0090749976707052651,
                                -0.0024131635404176082,  0.00049077583652580863,  -6.9169733025012064e-5,
                                4.1390279860730102e-6,   7.7403830661984907e-7,   -2.1886401049234396e-7,
                                1.076499946567091e-8,    4.5219598112182869e-9,   -7.7544002088313511e-10,
                                -6.3180883408866845e-11, 2.8687950109306699e-11,  1.9455868545777352e-13,
                                -9.6546967484334384e-13, 3.2525481481487447e-14,  3.3478119482868102e-14,
                                -1.8645628804192652e-15, -1.2507950530688174e-15, 7.418235256628705e-17,
                                5.0681489048007055e-17 };
    const double size = fabs(x), t = (size - 3.75) / (size + 3.75), near = (float)size;
    if (isnan(x)) return x;
    if (size > 27.5) return x < 0 ? 2 : 0;
    if (size < 0.5)
        return 1 - x * 1.1283791670955126 *
                       ONE_POLYNOMIAL(x * x, 1, -1 / 3.0, 1 / 10.0, -1 / 42.0, 1 / 216.0, -1 / 1320.0,
                                      1 / 9360.0, -1 / 75600.0, 1 / 685440.0, -1 / 6894720.0, 1 / 76204800.0,
                                      -1 / 918086400.0, 1 / 11975040000.0);
    double b = 0, next = 0; /* Clenshaw's sum */
    for (int i = 24; i > 0; i--) {
        const double last = next;
        next = b;
        b = 2 * t * b - last + c[i];
    }
    const double scaled = (t * b - next + c[0]) / (1 + 2 * size);
    const double y = one_exp(-near * near) * one_exp((near - size) * (near + size)) * scaled;
    return x < 0 ? 2 - y : y;
}

/* sin(x + turns pi/2) */
static double one_sin_turned(double x, int turns)
{
    const double n = floor(x * 0.63661977236758134 + 0.5);
    const double r = ((x - n * ONE_QUARTER) - n * ONE_QUARTER_REST) - n * ONE_QUARTER_LEAST, z = r * r;
    if (!(fabs(x) <= DBL_MAX)) return x - x;
    turns = (turns + (int)fmod(n, 4) + 4) % 4;
    const double y =
        turns % 2
            ? 1 - (z / 2 - z * z *
                               ONE_POLYNOMIAL(z, 1 / 24.0, -1 / 720.0, 1 / 40320.0, -1 / 3628800.0,
                                              1 / 479001600.0, -1 / 87178291200.0, 1 / 20922789888000.0))
            : r - r * z *
                      ONE_POLYNOMIAL(z, 1 / 6.0, -1 / 120.0, 1 / 5040.0, -1 / 362880.0, 1 / 39916800.0,
                                     -1 / 6227020800.0, 1 / 1307674368000.0, -1 / 355687428096000.0);
    return turns < 2 ? y : -y;
}

static double one_sin(double x)
{
    return one_sin_turned(x, 0);
}

static double one_cos(double x)
{
    return one_sin_turned(x, 1);
}

static double one_tan(double x)
{
    return one_sin(x) / one_cos(x);
}

static double one_hypot(double a, double b)
{
    int k;
    if (fabs(a) > DBL_MAX || fabs(b) > DBL_MAX) return HUGE_VAL;
    frexp(fmax(fabs(a), fabs(b)), &k);
    a = scalbn(a, -k), b = scalbn(b, -k);
    return scalbn(sqrt(a * a + b * b), k);
}

#define ONE_MATH(name, x) _Generic((x), float : (float)one_##name(x), default : one_##name(x))
#undef cos
#undef erfc
#undef exp
#undef expm1
#undef hypot
#undef log
#undef log1p
#undef pow
#undef sin
#undef tan
#undef tanh
#define cos(x) ONE_MATH(cos, x)
#define erfc(x) ONE_MATH(erfc, x)
#define exp(x) ONE_MATH(exp, x)
#define expm1(x) ONE_MATH(expm1, x)
#define hypot(x, y) one_hypot(x, y)
#define log(x) ONE_MATH(log, x)
#define log1p(x) ONE_MATH(log1p, x)
#define pow(x, y) one_pow(x, y)
#define sin(x) ONE_MATH(sin, x)
#define tan(x) ONE_MATH(tan, x)
#define tanh(x) ONE_MATH(tanh, x)
#define cosf(x) ((float)one_cos(x))
#define hypotf(x, y) ((float)one_hypot(x, y))
#define sinf(x) ((float)one_sin(x))

#endif
