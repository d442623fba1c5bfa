/* error.c: the sticky error of each thread. */
#include "tensor/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char latched[ST_ERROR_SIZE];

/* Sets the error to the formatted text, followed by `rest`. Messages may quote files and paths: control
 * characters become "?". */
ST_PRINTF(2, 0) static void latch(const char *rest, const char *format, va_list arguments)
{
    const int length = format ? vsnprintf(latched, sizeof latched, format, arguments) : 0;
    if (length >= 0 && length < ST_ERROR_SIZE)
        snprintf(latched + length, sizeof latched - (size_t)length, "%s", rest);
    if (!latched[0]) strcpy(latched, "error without a message");
    for (char *c = latched; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
}

int st_error_set(const char *format, ...)
{
    if (latched[0]) return -1;
    va_list arguments;
    va_start(arguments, format);
    latch("", format, arguments);
    va_end(arguments);
    return -1;
}

int st_error_within(const char *format, ...)
{
    if (!latched[0] || !format) return -1;
    char inner[ST_ERROR_SIZE];
    memcpy(inner, latched, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    latch(inner, format, arguments);
    va_end(arguments);
    return -1;
}

const char *st_error(void)
{
    return latched[0] ? latched : NULL;
}

void st_error_clear(void)
{
    latched[0] = '\0';
}
