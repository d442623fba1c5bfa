/* print.c: prints as NumPy does: one pass determines the columns' format, a second one writes. */
#include "tensor/error.h"
#include "tensor/tensor.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PRECISION = 8 };            /* the most digits after the point */
enum { SUMMARY_ABOVE = 1000 };     /* elements */
enum { EDGE = 3 };                 /* indices shown at either end of an abbreviated axis */
enum { LINE_WIDTH = 75 };          /* columns */
enum { DIGITS = DBL_DECIMAL_DIG }; /* enough to tell any two numbers apart */
enum { NUMBER = 64 };              /* bytes of any number's text: sign, 17 digits, zeros, point, exponent */

enum { NO_POINT = -1 };

/* ---- digits ---------------------------------------------------------------------------------- */

/* A finite number in base ten: ± d.ddd × 10^exponent. */
typedef struct decimal {
    bool negative;
    int exponent, count;
    char digit[DIGITS + 1];
} decimal;

/* Correctly rounded to `count` digits, taken from printf's text without its point, which depends on the
 * locale. */
static decimal rounded(st_real x, int count)
{
    char text[NUMBER];
    snprintf(text, sizeof text, "%.*e", count - 1, fabs((double)x));
    decimal d = { .negative = signbit(x) };
    const char *c = text;
    for (; *c != 'e'; c++)
        if (isdigit((unsigned char)*c)) d.digit[d.count++] = *c;
    d.exponent = (int)strtol(c + 1, NULL, 10);
    return d;
}

/* Adds one in the last place. All nines become zeros, which cannot read back: no power of two but 1 is near a
 * power of ten. */
static decimal next_up(decimal d)
{
    int i = d.count - 1;
    for (; i >= 0 && d.digit[i] == '9'; i--) d.digit[i] = '0';
    if (i >= 0) d.digit[i]++;
    return d;
}

static bool reads_back(decimal d, st_real x)
{
    char text[NUMBER];
    snprintf(text, sizeof text, "%s%se%d", d.negative ? "-" : "", d.digit, d.exponent - (d.count - 1));
    return _Generic(x, float : strtof, double : strtod)(text, NULL) == x;
}

/* The best `count` digits. Below a power of two numbers are twice as dense as above it: the nearest decimal
 * may read back as the number below, while the next decimal up reads back as x. */
static decimal spelled(st_real x, int count)
{
    decimal d = rounded(x, count), up = next_up(d);
    return !reads_back(d, x) && reads_back(up, x) ? up : d;
}

/* The fewest digits, from `least` to `most`, that read back as x (or the nearest with `most`), without
 * trailing zeros. */
static decimal shortest(st_real x, int least, int most)
{
    int count = least;
    decimal d = spelled(x, count);
    while (count < most && !reads_back(d, x)) d = spelled(x, ++count);
    while (d.count > 1 && d.digit[d.count - 1] == '0') d.digit[--d.count] = '\0';
    return d;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The digit of 10^place. */
static char digit_at(const decimal *d, int place)
{
    int i = d->exponent - place;
    return i < 0 || i >= d->count ? '0' : d->digit[i];
}

/* "-123.45", with at least `least` digits after the point. Returns the end of the text. */
static char *positional(char *to, const decimal *d, int least)
{
    int fraction = d->count - 1 - d->exponent;
    if (fraction < least) fraction = least;
    if (d->negative) *to++ = '-';
    for (int place = d->exponent > 0 ? d->exponent : 0; place >= 0; place--) *to++ = digit_at(d, place);
    *to++ = '.';
    for (int place = -1; place >= -fraction; place--) *to++ = digit_at(d, place);
    *to = '\0';
    return to;
}

/* "-1.2345e+06", with at least `least` digits after the point (NO_POINT: no point without digits) and at
 * least `width` in the exponent. */
static void scientific(char *to, const decimal *d, int least, int width)
{
    decimal mantissa = *d;
    mantissa.exponent = 0;
    char *end = positional(to, &mantissa, least);
    if (least == NO_POINT && d->count == 1) end--;
    snprintf(end, NUMBER / 2, "e%+0*d", 1 + (width > 2 ? width : 2), d->exponent);
}

static const char *special(st_real x)
{
    return isnan(x) ? "nan" : x < 0 ? "-inf" : "inf";
}

/* ---- columns --------------------------------------------------------------------------------- */

/* The format of all shown elements, updated with each of them. */
typedef struct columns {
    st_real largest, smallest; /* finite, nonzero magnitudes; 0: none yet */
    int special;               /* characters of the longest of nan, inf, -inf */
    bool scientific;
    int left, fraction, tail; /* characters before the point, of digits after it, of the exponent */
} columns;

static void grow(int *most, int n)
{
    if (n > *most) *most = n;
}

static void see_size(columns *c, st_real x)
{
    if (!isfinite(x)) {
        grow(&c->special, (int)strlen(special(x)));
        return;
    }
    st_real size = x < 0 ? -x : x;
    if (size > c->largest) c->largest = size;
    if (size > 0 && (c->smallest == 0 || size < c->smallest)) c->smallest = size;
}

static bool wants_scientific(const columns *c)
{
    if (c->largest == 0) return false;
    st_real ratio = c->largest / c->smallest;
    return (double)c->largest >= 1e8 || (double)c->smallest < 1e-4 || ratio > 1000;
}

/* The text of one element, without padding: all digits of the integer part, and PRECISION after the point;
 * mantissas have as many digits as the longest. */
static void spell(char *to, const columns *c, st_real x)
{
    if (!isfinite(x)) {
        strcpy(to, special(x));
    } else if (c->scientific) {
        decimal d = shortest(x, 1 + c->fraction, 1 + PRECISION);
        scientific(to, &d, c->fraction, c->tail - 2);
    } else {
        int exponent = rounded(x, DIGITS).exponent; /* -4 to 8 */
        decimal d = shortest(x, exponent > 0 ? 1 + exponent : 1, 1 + exponent + PRECISION);
        positional(to, &d, 0);
    }
}

static void see_width(columns *c, st_real x)
{
    if (!isfinite(x)) return;
    char text[NUMBER];
    spell(text, c, x);
    const char *point = strchr(text, '.');
    int fraction = (int)strspn(point + 1, "0123456789");
    grow(&c->left, (int)(point - text));
    grow(&c->fraction, fraction);
    grow(&c->tail, (int)strlen(point + 1 + fraction));
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes to a file, or to memory if there is none. Blanks are written with the text that follows them, so
 * that wrapped lines have none at their end. */
typedef struct writer {
    FILE *file;
    char *to;
    size_t size, length;
    int column, blanks;
} writer;

static void put_char(writer *w, char c)
{
    if (w->file) fputc(c, w->file);
    else if (w->length < w->size) w->to[w->length] = c;
    w->length++;
}

static void put_blanks(writer *w, int count)
{
    w->blanks += count;
    w->column += count;
}

static void put(writer *w, const char *text)
{
    for (; w->blanks > 0; w->blanks--) put_char(w, ' ');
    for (; *text; text++, w->column++) put_char(w, *text);
}

static void put_lines(writer *w, int count, int indent)
{
    for (int i = 0; i < count; i++) put_char(w, '\n');
    w->column = w->blanks = indent;
}

/* ---- the tensor ------------------------------------------------------------------------------ */

typedef struct printer {
    writer w;
    columns c;
    st_shape shape;
    const ptrdiff_t *stride;
    bool summary;
} printer;

static bool cut(const printer *p, int axis)
{
    return p->summary && p->shape.n[axis] > 2 * EDGE;
}

static ptrdiff_t next_shown(const printer *p, int axis, ptrdiff_t i)
{
    return cut(p, axis) && i + 1 == EDGE ? p->shape.n[axis] - EDGE : i + 1;
}

/* Calls a function for every shown element, in order. */
static void see(printer *p, void (*what)(columns *, st_real), int axis, const st_real *at)
{
    if (axis == p->shape.rank) {
        what(&p->c, *at);
        return;
    }
    for (ptrdiff_t i = 0; i < p->shape.n[axis]; i = next_shown(p, axis, i))
        see(p, what, axis + 1, at + i * p->stride[axis]);
}

static void choose_columns(printer *p, const st_real *first)
{
    columns *c = &p->c;
    see(p, see_size, 0, first);
    c->scientific = wants_scientific(c);
    see(p, see_width, 0, first);
    grow(&c->left, c->special - 1 - c->fraction - c->tail);
}

/* Writes a word of a row with its blanks; on the next line if this one has no room for it and a bracket. */
static void put_word(printer *p, int before, const char *text, int after)
{
    writer *w = &p->w;
    int indent = p->shape.rank, length = before + (int)strlen(text) + after;
    if (w->column + length > LINE_WIDTH - indent) put_lines(w, 1, indent);
    put_blanks(w, before);
    put(w, text);
    put_blanks(w, after);
}

static void put_element(printer *p, st_real x)
{
    char text[NUMBER];
    spell(text, &p->c, x);
    const char *point = strchr(text, '.');
    int width = p->c.left + 1 + p->c.fraction + p->c.tail, length = (int)strlen(text);
    int before = point ? p->c.left - (int)(point - text) : width - length;
    put_word(p, before, text, width - length - before);
}

/* Separates two items of an axis: a blank between numbers, n newlines between items of n axes. */
static void put_gap(printer *p, int axis)
{
    int inner = p->shape.rank - 1 - axis;
    if (inner == 0) put_blanks(&p->w, 1);
    else put_lines(&p->w, inner, axis + 1);
}

/* Writes [1. 2. 3.], the axes from this one on; the first line is already indented. */
static void put_axis(printer *p, int axis, const st_real *at)
{
    if (axis == p->shape.rank) {
        put_element(p, *at);
        return;
    }
    put(&p->w, "[");
    for (ptrdiff_t i = 0; i < p->shape.n[axis]; i = next_shown(p, axis, i)) {
        if (i > 0) put_gap(p, axis);
        if (cut(p, axis) && i == p->shape.n[axis] - EDGE) {
            put_word(p, 0, "...", 0);
            put_gap(p, axis);
        }
        put_axis(p, axis + 1, at + i * p->stride[axis]);
    }
    put(&p->w, "]");
}

/* A tensor of rank 0 is printed as a Python number, with all its digits: 1.0, 1e-05. */
static void put_number(writer *w, st_real x)
{
    char text[NUMBER];
    double size = fabs((double)x);
    if (!isfinite(x)) {
        put(w, special(x));
        return;
    }
    decimal d = shortest(x, 1, DIGITS);
    if (size == 0 || (size >= 1e-4 && size < 1e16)) positional(text, &d, 1);
    else scientific(text, &d, NO_POINT, 2);
    put(w, text);
}

static size_t print(writer w, st_tensor x)
{
    printer p = { .w = w, .shape = x.shape, .stride = x.stride, .summary = st_numel(x) > SUMMARY_ABOVE };
    if (st_is_null(x)) {
        put(&p.w, "null");
    } else if (st_numel(x) == 0) {
        put(&p.w, "[]");
    } else if (x.shape.rank == 0) {
        put_number(&p.w, *st_data(x));
    } else {
        choose_columns(&p, st_data(x));
        put_axis(&p, 0, st_data(x));
    }
    return p.w.length;
}

void st_print(FILE *to, st_tensor x)
{
    if (!to) {
        st_error_set("st_print: the file is NULL");
        return;
    }
    print((writer){ .file = to }, x);
    if (ferror(to)) st_error_set("st_print: the file could not be written");
}

size_t st_format(char *to, size_t size, st_tensor x)
{
    if (!to) size = 0;
    size_t length = print((writer){ .to = to, .size = size }, x);
    if (size > 0) to[length < size ? length : size - 1] = '\0';
    return length;
}
