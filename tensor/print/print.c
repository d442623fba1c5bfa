/* print.c: prints as NumPy does: one pass determines the columns' format, a second one writes. */
#include "tensor/error.h"
#include "tensor/print/shortest.h"
#include "tensor/print/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PRECISION = 8 };        /* the most digits after the point */
enum { SUMMARY_ABOVE = 1000 }; /* elements */
enum { EDGE = 3 };             /* indices shown at either end of an abbreviated axis */
enum { LINE_WIDTH = 75 };      /* columns */
enum { NUMBER = 64 };          /* bytes of any number's text: sign, 17 digits, zeros, point, exponent */

/* ---- numbers --------------------------------------------------------------------------------- */

/* The number of digits after the point: the fewest that read back as x. If that takes more than `most`, x is
 * rounded to `most` digits, and trailing zeros do not count. `form` is f, or e for an exponent. */
static int digits_of(st_real x, char form, int most)
{
    char text[NUMBER];
    int digits = fewest_digits((double)x, sizeof x == sizeof(float), form, 0, most);
    if (digits < most) return digits;
    snprintf(text, sizeof text, form == 'e' ? "%.*e" : "%.*f", most, (double)x);
    const char *end = text + strcspn(text, "e");
    while (digits > 0 && *--end == '0') digits--;
    return digits;
}

/* x with `digits` digits after the point, the only character that depends on the locale. */
static void write_number(char to[NUMBER], double x, char form, int digits)
{
    if (!isfinite(x)) {
        strcpy(to, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    int length = snprintf(to, NUMBER, form == 'e' ? "%#.*e" : "%#.*f", digits, x);
    char *point = to + strspn(to, "-0123456789"), *after = point + strcspn(point, "0123456789e");
    *point = '.';
    memmove(point + 1, after, (size_t)(to + length + 1 - after));
}

/* ---- columns --------------------------------------------------------------------------------- */

/* The format of all shown elements, updated with each of them. */
typedef struct columns {
    double largest, smallest; /* finite, nonzero magnitudes; 0: none yet */
    char form;
    int fraction, width; /* the most digits after the point; characters of the longest text */
} columns;

static void grow(int *most, int n)
{
    if (n > *most) *most = n;
}

static void see_size(columns *c, st_real x)
{
    const double size = fabs((double)x);
    if (!isfinite(x)) return;
    if (size > c->largest) c->largest = size;
    if (size > 0 && (c->smallest == 0 || size < c->smallest)) c->smallest = size;
}

static char form_of(const columns *c)
{
    if (c->largest == 0) return 'f';
    return c->largest >= 1e8 || c->smallest < 1e-4 || (st_real)(c->largest / c->smallest) > 1000 ? 'e' : 'f';
}

static void see_fraction(columns *c, st_real x)
{
    if (isfinite(x)) grow(&c->fraction, digits_of(x, c->form, PRECISION));
}

/* The text of one element, without padding: mantissas have as many digits as the longest. Returns the number
 * of blanks after it, in place of digits. */
static int spell(char to[NUMBER], const columns *c, st_real x)
{
    int digits = c->form == 'f' && isfinite(x) ? digits_of(x, 'f', PRECISION) : c->fraction;
    write_number(to, (double)x, c->form, digits);
    return c->fraction - digits;
}

static void see_width(columns *c, st_real x)
{
    char text[NUMBER];
    int after = spell(text, c, x);
    grow(&c->width, (int)strlen(text) + after);
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
    see(p, see_size, 0, first);
    p->c.form = form_of(&p->c);
    see(p, see_fraction, 0, first);
    see(p, see_width, 0, first);
}

/* Writes a word of a row between blanks. It goes to the next line if this one has no room for it and for
 * brackets after it. */
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
    int after = spell(text, &p->c, x);
    put_word(p, p->c.width - (int)strlen(text) - after, text, after);
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
    const double size = fabs((double)x);
    int digits = digits_of(x, 'e', DBL_DECIMAL_DIG);
    if (size == 0 || (size >= 1e-4 && size < 1e16)) {
        snprintf(text, sizeof text, "%.*e", digits, (double)x);
        digits -= atoi(strchr(text, 'e') + 1);
        write_number(text, strtod(text, NULL), 'f', digits > 1 ? digits : 1);
    } else {
        write_number(text, (double)x, 'e', digits);
        char *point = strstr(text, ".e");
        if (point) memmove(point, point + 1, strlen(point));
    }
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
