/* options.c: defaults and validation of options, driven by their table. */
#include "layers/options.h"
#include "layers/layer_impl.h"
#include "tensor/counts.h"
#include "tensor/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ten digits show every int. */
static int check(const char *who, const st_field *f, double value)
{
    bool fits = isfinite(value) && value >= f->least && (f->below == 0 || value < f->below);
    if (fits) return 0;
    const char *what = isinf(value) ? "a finite number of " : "";
    value = value == 0 ? 0 : printable(value); /* ST_ZERO is -0 */
    if (f->below == 0)
        return st_error_set("%s: %s is %.10g, expected %sat least %.10g", who, f->name, value, what,
                            f->least);
    const double last = nextafter(f->below, 0);
    const bool closed = last == floor(last); /* below 1 + 0x1p-52 is at most 1 */
    return st_error_set("%s: %s is %.10g, expected at least %.10g and %s %.10g", who, f->name, value,
                        f->least, closed ? "at most" : "below", closed ? last : f->below);
}

static int resolve_int(const char *who, const st_field *f, int *value)
{
    if (*value == 0) *value = (int)f->fallback;
    else if (*value == ST_ZERO_INT) *value = 0;
    return check(who, f, *value);
}

static int check_choice(const char *who, const st_field *f, int value)
{
    char names[256] = "";
    int count = 0;
    for (; f->choices[count]; count++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%d (%s)", count ? ", " : "", count, f->choices[count]);
    }
    if (value >= 0 && value < count) return 0;
    return st_error_set("%s: %s is %d, expected %s", who, f->name, value, names);
}

static int resolve(const char *who, const st_field *f, void *at)
{
    int *pair = at;
    double *real = at;
    switch (f->kind) {
    case ST_FIELD_INT: return resolve_int(who, f, at);
    case ST_FIELD_PAIR:
        if (f->square && pair[1] == 0) pair[1] = pair[0];
        return resolve_int(who, f, &pair[0]) || resolve_int(who, f, &pair[1]) ? -1 : 0;
    case ST_FIELD_REAL:
        if (*real == 0 && !signbit(*real)) *real = f->fallback;
        return check(who, f, *real);
    case ST_FIELD_CHOICE: return check_choice(who, f, *(const int *)at);
    case ST_FIELD_BOOL: return 0;
    case ST_FIELD_NAMED: return *(void **)at ? 0 : st_error_set("%s: %s is missing", who, f->name);
    }
    return st_error_set("%s: option %s has the unknown kind %d", who, f->name, (int)f->kind);
}

int options_reach(const char *who, const st_field *fields, size_t size)
{
    for (const st_field *f = fields; f && f->name; f++)
        if (f->offset >= size)
            return st_error_set("%s: option %s lies outside of the options, whose options_size is %zu", who,
                                f->name, size);
    return 0;
}

int st_options_resolve(const char *who, const st_field *fields, void *options)
{
    if (!options) return st_error_set("%s: the options are NULL", who);
    for (const st_field *f = fields; f && f->name; f++)
        if (resolve(who, f, (char *)options + f->offset)) return -1;
    return 0;
}

const st_field *st_options_field(const st_field *fields, const char *name)
{
    const st_field *f = name ? fields : NULL;
    while (f && f->name && strcmp(f->name, name) != 0) f++;
    return f && f->name ? f : NULL;
}

double st_options_number(const st_field *fields, const void *options, const char *name)
{
    const st_field *f = options ? st_options_field(fields, name) : NULL;
    if (!f) return 0;
    const void *at = (const char *)options + f->offset;
    if (f->kind == ST_FIELD_BOOL) return *(const bool *)at;
    return f->kind == ST_FIELD_REAL ? *(const double *)at : *(const int *)at;
}
