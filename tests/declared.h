/* declared.h: the functions of a type that a header of the library declares, so that a table of tests has a
 * row for each. */
#ifndef STRIDE_TESTS_DECLARED_H
#define STRIDE_TESTS_DECLARED_H

#include "tests/files.h"
#include "tests/support.h"

#include <stdio.h>
#include <string.h>

/* Calls look("clip") for "st_callback st_clip_new(" at the beginning of a line, where `type` is "st_callback
 * ". Returns the number of functions. */
static inline int each_declared(const char *header, const char *type, void (*look)(const char *name))
{
    const bytes all = contents(header);
    const size_t length = strlen(type);
    int count = 0;
    for (const char *at = all.at, *end = at + all.count; at && at < end;
         at = memchr(at, '\n', (size_t)(end - at))) {
        char name[64] = "";
        at += *at == '\n';
        if ((size_t)(end - at) < length || strncmp(at, type, length) != 0) continue;
        if (sscanf(at + length, "st_%63[a-z0-9_](", name) != 1) continue;
        char *made = strstr(name, "_new");
        if (made && !made[4]) *made = '\0';
        look(name);
        count++;
    }
    return count;
}

#endif
