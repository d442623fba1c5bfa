/* fields.c: see fields.h. */
#include "examples/stride/fields.h"

#include "examples/stride/nearest.h"

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
