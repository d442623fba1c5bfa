/* metadata.c: a net's texts, a list in the order in which they were set. */
#include "nn/files/metadata.h"
#include "tensor/array.h"

#include <stdlib.h>
#include <string.h>

/* In one block: the note, its name and its text. */
static st_metadata *note_new(const char *name, const char *text)
{
    const size_t name_size = strlen(name) + 1, text_size = strlen(text) + 1;
    st_metadata *note = array_new("st_net_set_metadata", 1, sizeof *note + name_size + text_size);
    if (!note) return NULL;
    note->name = memcpy(note + 1, name, name_size);
    note->text = memcpy(note->name + name_size, text, text_size);
    return note;
}

int st_net_set_metadata(st_net *n, const char *name, const char *text)
{
    if (!n || !name) return st_error_set("st_net_set_metadata: the %s is NULL", n ? "name" : "net");
    st_metadata *fresh = NULL;
    if (text && !(fresh = note_new(name, text))) return -1;
    st_metadata **at = &n->metadata;
    while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
    st_metadata *old = *at;
    if (fresh) fresh->next = old ? old->next : NULL;
    if (fresh || old) *at = fresh ? fresh : old->next;
    free(old);
    return 0;
}

const char *st_net_metadata(const st_net *n, const char *name)
{
    for (const st_metadata *note = n && name ? n->metadata : NULL; note; note = note->next)
        if (strcmp(note->name, name) == 0) return note->text;
    return NULL;
}
