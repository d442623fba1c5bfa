/* classes.c: a list of names, to a note and back. */
#include "nn/classes.h"
#include "tensor/error.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NOTE "classes"

static int check_count(const net *n, ptrdiff_t count, const char *who)
{
    if (n->output.rank == 1 && n->output.n[0] == count) return 0;
    return error_set("%s: %td names, the net's output is %s", who, count, shape_text(n->output).text);
}

int classes_note(net *to, ptrdiff_t count, const char *const name[])
{
    if (!to) return error_set("classes_note: the net is NULL");
    if (check_count(to, count, "classes_note")) return -1;
    int status = 0;
    json_t *list = json_array();
    for (ptrdiff_t i = 0; i < count && status == 0; i++)
        if (json_array_append_new(list, name[i] ? json_string(name[i]) : NULL))
            status = error_set("classes_note: name %td is %s", i,
                               name[i] ? "not UTF-8, or there is no memory" : "NULL");
    char *text = status == 0 ? json_dumps(list, JSON_COMPACT) : NULL;
    if (status == 0) status = text ? net_set_note(to, NOTE, text) : error_set("classes_note: no memory");
    free(text);
    json_decref(list);
    return status;
}

/* In one block: the struct, the pointers, the names. */
static class_names *copy(const json_t *list)
{
    size_t count = json_array_size(list), i, bytes = 0;
    json_t *name;
    json_array_foreach(list, i, name)
    {
        if (!json_is_string(name)) return NULL;
        bytes += json_string_length(name) + 1;
    }
    class_names *c = count > 0 ? malloc(sizeof *c + count * sizeof *c->name + bytes) : NULL;
    if (!c) return NULL;
    *c = (class_names){ (ptrdiff_t)count, (const char **)(c + 1) };
    char *at = (char *)(c->name + count);
    json_array_foreach(list, i, name)
    {
        c->name[i] = memcpy(at, json_string_value(name), json_string_length(name) + 1);
        at += json_string_length(name) + 1;
    }
    return c;
}

class_names *classes_of(const net *n)
{
    const char *text = net_note_text(n, NOTE);
    if (!text) return NULL;
    errno = 0;
    json_t *list = json_loads(text, 0, NULL);
    class_names *c = copy(list);
    bool memory = errno != ENOMEM;
    json_decref(list);
    if (!c) error_set("note " NOTE ": %s", memory ? "expected a list of names" : "no memory");
    else if (check_count(n, c->count, "note " NOTE) == 0) return c;
    classes_free(c);
    return NULL;
}

void classes_free(class_names *c)
{
    free(c);
}
