/* describe.c: the options of a layer that differ from their defaults, as text. */
#include "layers/describe/describe.h"
#include "layers/layer_impl.h"
#include "tensor/print/shortest.h"

#include <float.h>
#include <stdio.h>

/* As many digits as %g has, or more if fewer do not read back. */
static int digits_of(double x)
{
    return fewest_digits(x, false, 'g', FLT_DIG, DBL_DECIMAL_DIG);
}

/* "name=value" of an option that differs from its default; otherwise "". */
static void field_text(const st_field *f, const void *options, char *to, size_t size)
{
    const void *at = (const char *)options + f->offset;
    const int *i = at;
    const double *d = at;
    to[0] = '\0';
    switch (f->kind) {
    case ST_FIELD_INT:
        if (*i != (int)f->fallback) snprintf(to, size, "%s=%d", f->name, *i);
        break;
    case ST_FIELD_PAIR:
        if (i[0] != (int)f->fallback || i[1] != (int)f->fallback)
            snprintf(to, size, "%s=%dx%d", f->name, i[0], i[1]);
        break;
    case ST_FIELD_REAL:
        if (*d != f->fallback) snprintf(to, size, "%s=%.*g", f->name, digits_of(*d), *d == 0 ? 0 : *d);
        break;
    case ST_FIELD_BOOL:
        if (*(const bool *)at) snprintf(to, size, "%s", f->name);
        break;
    case ST_FIELD_CHOICE:
        if (*i != 0) snprintf(to, size, "%s=%s", f->name, f->choices[*i]);
        break;
    case ST_FIELD_NAMED: snprintf(to, size, "%s=%s", f->name, **(const char *const *const *)at); break;
    }
}

size_t st_options_text(const st_field *fields, const void *options, char *to, size_t size)
{
    size_t used = 0;
    if (!to) size = 0;
    if (size > 0) to[0] = '\0';
    for (const st_field *f = fields; options && f && f->name; f++) {
        char text[128];
        field_text(f, options, text, sizeof text);
        if (!text[0]) continue;
        used += (size_t)snprintf(used < size ? to + used : NULL, used < size ? size - used : 0, "%s%s",
                                 used ? ", " : "", text);
    }
    return used;
}

size_t st_layer_describe(const st_layer *l, char *to, size_t size)
{
    char text[ST_ERROR_SIZE];
    if (to && size > 0) to[0] = '\0';
    if (!layer_given(l, "st_layer_describe")) return 0;
    bool plain = st_options_text(l->type->fields, l->options, text, sizeof text) == 0;
    return (size_t)snprintf(to, to ? size : 0, plain ? "%s" : "%s(%s)", l->type->name, text);
}
