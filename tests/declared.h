/* declared.h: the functions of a type that a header of the library declares, so that a table of tests has a
 * row for each, and a campaign calls each. */
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

static struct {
    const char *path;
    bytes all;
} caller;

static inline void look_for_call(const char *name)
{
    char call[80];
    const int length = snprintf(call, sizeof call, "st_%s(", name);
    const char *at = caller.all.at, *end = at + caller.all.count;
    while (at && end - at >= length && strncmp(at, call, (size_t)length) != 0)
        at = memchr(at + 1, 's', (size_t)(end - at - 1));
    if (!at || end - at < length) fail_msg("%s does not call st_%s", caller.path, name);
}

/* Fails unless the file, a campaign, calls each of them. */
static inline void each_is_called(const char *header, const char *type, const char *path)
{
    caller.path = path, caller.all = contents(path);
    assert_true(each_declared(header, type, look_for_call) > 0);
}

#endif
