/* decimal.c: few digits and a small power of ten are exact in double; the C library reads the rest. */
#include "nn/data/decimal.h"

#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXACT_DIGITS = 19,    /* that fit into 64 bits */
    MOST_EXACT_POWER = 22 /* of ten that a double holds exactly */
};

/* What a text says: 12.5e3 is 125 with exponent 2. */
typedef struct decimal {
    uint64_t digits; /* the first of them: more are left out, and then these are more than a double holds */
    int kept, exponent;
    bool negative;
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void add_digit(decimal *d, char c)
{
    if (d->kept < EXACT_DIGITS) {
        d->digits = 10 * d->digits + (uint64_t)(c - '0');
        if (d->digits) d->kept++;
    } else {
        d->exponent++;
    }
}

/* [+-] digits [. digits] [e [+-] digits], to the end. */
static bool read_parts(const char *c, decimal *d)
{
    *d = (decimal){ .negative = *c == '-' };
    if (*c == '+' || *c == '-') c++;
    bool any = is_digit(*c) || (*c == '.' && is_digit(c[1]));
    for (; is_digit(*c); c++) add_digit(d, *c);
    if (*c == '.')
        for (c++; is_digit(*c); c++, d->exponent--) add_digit(d, *c);
    if (any && (*c == 'e' || *c == 'E')) {
        bool negative = *++c == '-';
        int power = 0;
        if (*c == '+' || *c == '-') c++;
        any = is_digit(*c);
        for (; is_digit(*c); c++) power = power < 10000 ? 10 * power + (*c - '0') : power;
        d->exponent += negative ? -power : power;
    }
    return any && *c == '\0';
}

/* As the C library reads it, which wants the decimal point of the locale. */
static double read_rounded(const char *text)
{
    char copy[DECIMAL_LONGEST + 16];
    const char *point = strchr(text, '.'), *local = localeconv()->decimal_point;
    if (!point || strlen(local) > 8) return strtod(text, NULL);
    snprintf(copy, sizeof copy, "%.*s%s%s", (int)(point - text), text, local, point + 1);
    return strtod(copy, NULL);
}

/* The nearest double. Where digits and power of ten are exact, so is one product or quotient, but for its rounding. */
bool decimal_read(const char *text, double *value)
{
    static const double power[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    decimal d;
    if (!read_parts(text, &d)) return false;
    int e = d.exponent;
    if (d.digits > UINT64_C(1) << 53 || e > MOST_EXACT_POWER || e < -MOST_EXACT_POWER) {
        *value = read_rounded(text);
        return true;
    }
    *value = e < 0 ? (double)d.digits / power[-e] : (double)d.digits * power[e];
    if (d.negative) *value = -*value;
    return true;
}
