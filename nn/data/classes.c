/* classes.c: names of classes as JSON in a net's metadata. */
#include "nn/data/classes.h"
#include "nn/files/file.h"
#include "nn/files/json.h"
#include "nn/files/metadata.h"
#include "tensor/error.h"

#include <stdlib.h>
#include <string.h>

#define KEY "classes"

static int refuse(void)
{
    return st_error_set("metadata " KEY ": expected a list of names");
}

static int check_count(const st_net *n, ptrdiff_t count, const char *who)
{
    if (n->output.rank == 1 && n->output.n[0] == count) return 0;
    return st_error_set("%s: %td names, the net's output is %s", who, count, st_shape_text(n->output).text);
}

/* Appends name i to the list; `seen` maps the names before it to their positions. */
static int append_name(json_t *list, json_t *seen, ptrdiff_t i, const char *name)
{
    const json_t *before = name ? json_object_get(seen, name) : NULL;
    if (before)
        return st_error_set("st_net_set_classes: names %td and %td are both \"%s\", expected different names",
                            (ptrdiff_t)json_integer_value(before), i, show_text(name).text);
    if (json_array_append_new(list, name ? json_string(name) : NULL) == 0 &&
        json_object_set_new(seen, name, json_integer(i)) == 0)
        return 0;
    if (!name) return st_error_set("st_net_set_classes: name %td is NULL", i);
    return st_error_set("st_net_set_classes: name %td, \"%s\", is not UTF-8, or there is no memory", i,
                        show_text(name).text);
}

int st_net_set_classes(st_net *to, ptrdiff_t count, const char *const name[])
{
    if (!to || !name) return st_error_set("st_net_set_classes: the %s is NULL", to ? "list of names" : "net");
    if (check_count(to, count, "st_net_set_classes")) return -1;
    int status = 0;
    json_t *list = json_array(), *seen = json_object();
    for (ptrdiff_t i = 0; i < count && status == 0; i++) status = append_name(list, seen, i, name[i]);
    char *text = status == 0 ? json_write(list) : NULL;
    if (status == 0)
        status = text ? st_net_set_metadata(to, KEY, text) : st_error_set("st_net_set_classes: no memory");
    free(text);
    json_decref(list), json_decref(seen);
    return status;
}

/* In one block: the struct, the pointers, and the names, of at most `bytes` bytes. NULL with an error. */
static st_class_names *read_names(json_t *list, size_t bytes)
{
    size_t i;
    json_t *name;
    const size_t count = json_array_size(list);
    st_class_names *c = malloc(sizeof *c + count * sizeof *c->name + bytes);
    if (!c) st_error_set("metadata " KEY ": no memory");
    if (!c) return NULL;
    *c = (st_class_names){ (ptrdiff_t)count, (const char **)(c + 1) };
    char *at = (char *)(c->name + count);
    json_array_foreach(list, i, name)
    {
        if (!json_is_string(name)) break;
        c->name[i] = strcpy(at, json_string_value(name));
        at += json_string_length(name) + 1;
    }
    if (i == count) return c;
    free(c);
    refuse();
    return NULL;
}

st_class_names *st_net_classes(const st_net *n)
{
    const char *text = st_net_metadata(n, KEY);
    json_t *list = text ? json_read(text, strlen(text), "metadata " KEY) : NULL;
    st_class_names *c = NULL;
    if (list && json_array_size(list) < 1) refuse();
    else if (list && check_count(n, (ptrdiff_t)json_array_size(list), "metadata " KEY) == 0)
        c = read_names(list, strlen(text));
    json_decref(list);
    return c;
}

void st_class_names_free(st_class_names *c)
{
    free(c);
}
