/* classes.c: a list of names, to a note and back. */
#include "nn/data/classes.h"
#include "nn/files/json.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

#define NOTE "classes"

static int refuse_note(void)
{
    return error_set("note " NOTE ": expected a list of names");
}

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
static class_names *make(ptrdiff_t count, size_t bytes)
{
    class_names *c = malloc(sizeof *c + (size_t)count * sizeof *c->name + bytes);
    if (c) *c = (class_names){ count, (const char **)(c + 1) };
    else error_set("note " NOTE ": no memory");
    return c;
}

/* Into memory that there is as much of as of the list. */
static int read_names(json_piece list, class_names *c)
{
    char *at = (char *)(c->name + c->count);
    json_walk w = json_begin(list, '[');
    for (ptrdiff_t i = 0; json_next(&w); i++) {
        if (w.value.at[0] != '"') return refuse_note();
        if (!json_text(&w, w.value, at)) break;
        c->name[i] = at;
        at += strlen(at) + 1;
    }
    return w.why[0] ? error_set("note " NOTE ": %s, byte %td", w.why, w.at - list.at) : 0;
}

class_names *classes_of(const net *n)
{
    const char *text = net_note_text(n, NOTE);
    if (!text) return NULL;
    const json_piece list = { text, strlen(text) };
    ptrdiff_t count = json_count(list, '[');
    if (count < 1 ? refuse_note() : check_count(n, count, "note " NOTE)) return NULL;
    class_names *c = make(count, list.size);
    if (c && read_names(list, c) == 0) return c;
    classes_free(c);
    return NULL;
}

void classes_free(class_names *c)
{
    free(c);
}
