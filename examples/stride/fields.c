/* fields.c: see fields.h. */
#include "examples/stride/fields.h"

#include "examples/stride/nearest.h"
#include "examples/stride/text.h"
#include "tensor/error.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values -------------------------------------------------------------------------------------- */

static int int_of(double value)
{
    return value == 0 ? ST_ZERO_INT : (int)value;
}

void field_set(const st_field *f, double value, void *options)
{
    void *at = (char *)options + f->offset;
    if (f->kind == ST_FIELD_REAL) *(double *)at = value == 0 && f->fallback != 0 ? ST_ZERO : value;
    else if (f->kind == ST_FIELD_BOOL) *(bool *)at = value != 0;
    else *(int *)at = f->kind == ST_FIELD_INT ? int_of(value) : (int)value;
}

void field_set_pair(const st_field *f, int first, int second, void *options)
{
    int *at = (int *)(void *)((char *)options + f->offset);
    at[0] = int_of(first), at[1] = int_of(second);
}

static bool read_pair(const char *text, const char *end, int pair[2])
{
    const char *x = text_int(text, end, &pair[0]);
    if (!x) return false;
    pair[1] = pair[0];
    return x == end || (*x == 'x' && text_int(x + 1, end, &pair[1]) == end);
}

/* The index of the text among the words; -1: it is none of them. */
static int index_of(const char *const *words, const char *text, size_t length)
{
    for (int i = 0; words[i]; i++)
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0) return i;
    return -1;
}

/* True if the text is a value of that option, but a pair. */
static bool read_number(const st_field *f, const char *text, size_t length, double *to)
{
    static const char *const truth[] = { "false", "true", NULL };
    const char *end = text + length;
    char *stop;
    int whole = 0;
    switch (f->kind) {
    case ST_FIELD_INT:
        if (text_int(text, end, &whole) != end) return false;
        *to = whole;
        return true;
    case ST_FIELD_REAL: *to = strtod(text, &stop); return length > 0 && stop == end && isfinite(*to);
    case ST_FIELD_BOOL: *to = index_of(truth, text, length); return *to >= 0;
    case ST_FIELD_CHOICE: *to = index_of(f->choices, text, length); return *to >= 0;
    case ST_FIELD_PAIR:
    case ST_FIELD_NAMED: break;
    }
    return false;
}

static bool read_value(const st_field *f, const char *text, size_t length, void *options)
{
    const bool is_pair = f->kind == ST_FIELD_PAIR;
    double number;
    int pair[2];
    if (!(is_pair ? read_pair(text, text + length, pair) : read_number(f, text, length, &number)))
        return false;
    if (is_pair) field_set_pair(f, pair[0], pair[1], options);
    else field_set(f, number, options);
    return true;
}

/* The expected values: " of at most 2147483647" for a whole number that is too large; the choices, and the
 * nearest one. */
static void describe_values(const st_field *f, const char *text, size_t length, char to[256])
{
    nearest n = { text, length };
    size_t used = 0;
    to[0] = '\0';
    if (f->kind == ST_FIELD_INT && fabs(strtod(text, NULL)) > INT_MAX)
        used = (size_t)snprintf(to, 256, " of at most %d", INT_MAX);
    for (int i = 0; f->kind == ST_FIELD_CHOICE && f->choices[i] && used < 256; i++) {
        used += (size_t)snprintf(to + used, 256 - used, " %s", f->choices[i]);
        nearest_try(&n, f->choices[i]);
    }
    if (used < 256) snprintf(to + used, 256 - used, "%s", nearest_question(&n, "").text);
}

int field_read(const char *who, const st_field *f, const char *text, size_t length, void *options)
{
    static const char *const expected[] = {
        [ST_FIELD_INT] = "a whole number", [ST_FIELD_PAIR] = "two whole numbers",
        [ST_FIELD_REAL] = "a number",      [ST_FIELD_BOOL] = "true or false",
        [ST_FIELD_CHOICE] = "one of",      [ST_FIELD_NAMED] = "no text",
    };
    char values[256];
    if (read_value(f, text, length, options)) return 0;
    describe_values(f, text, length, values);
    return st_error_set("%s: %s is \"%.*s\", expected %s%s", who, f->name, (int)(length < 80 ? length : 80),
                        text, expected[f->kind], values);
}

/* ---- messages and help --------------------------------------------------------------------------- */

fields_hint fields_near(const st_field *fields, const char *word, size_t length)
{
    nearest n = { word, length };
    fields_hint all = { "" };
    size_t used = 0;
    for (const st_field *f = fields; f && f->name && used < sizeof all.text; f++) {
        nearest_try(&n, f->name);
        used += (size_t)snprintf(all.text + used, sizeof all.text - used, "%s%s", used ? ", " : "; it has ",
                                 f->name);
    }
    if (n.name[0]) snprintf(all.text, sizeof all.text, "%s", nearest_question(&n, "").text);
    else if (!used) snprintf(all.text, sizeof all.text, ", which has none");
    return all;
}

void field_put(FILE *to, const st_field *f, double value)
{
    fprintf(to, " [%s", f->name);
    if (f->kind == ST_FIELD_CHOICE)
        for (int i = 0; f->choices[i]; i++) fprintf(to, "%c%s", i ? '|' : '=', f->choices[i]);
    else if (f->kind != ST_FIELD_BOOL) fprintf(to, "=%g", value);
    fputc(']', to);
}
