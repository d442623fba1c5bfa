/* text.c: characters of UTF-8, whole numbers, endings of names, and errors that get more text. */
#include "examples/stride/text.h"
#include "tensor/error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Controls that end a line or change the direction of what follows, so that a name could look like another
 * one: U+061C, U+200E and U+200F, U+2028 to U+202E, U+2066 to U+2069 (UAX #9). */
static bool turns(const unsigned char *s)
{
    const bool marks = s[0] == 0xd8 && s[1] == 0x9c;
    if (s[0] != 0xe2) return marks;
    if (s[1] == 0x81) return s[2] >= 0xa6 && s[2] <= 0xa9;
    return s[1] == 0x80 && ((s[2] >= 0xa8 && s[2] <= 0xae) || s[2] == 0x8e || s[2] == 0x8f);
}

int text_character(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return s[0] >= 0x20 && s[0] != 0x7f;
    int length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    bool control = (s[0] == 0xc2 && s[1] < 0xa0) || turns(s);
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] > 0x9f, beyond = s[0] == 0xf4 && s[1] > 0x8f;
    return control || overlong || surrogate || beyond ? 0 : length;
}

/* Writes one character, or one byte as \x1b; returns the bytes read. `to` has room for 5. */
static int show(const char *text, char *to)
{
    int length = text_character(text);
    if (length > 0) snprintf(to, 5, "%.*s", length, text);
    else snprintf(to, 5, "\\x%02x", (unsigned)(unsigned char)*text);
    return length > 0 ? length : 1;
}

void text_put(FILE *to, const char *text)
{
    char shown[5];
    while (*text) {
        text += show(text, shown);
        fputs(shown, to);
    }
}

void text_put_in(FILE *to, const char *before, const char *text, const char *after)
{
    fputs(before, to);
    text_put(to, text);
    fputs(after, to);
}

char *text_clean(const char *text)
{
    char *clean = malloc(4 * strlen(text) + 5), *at = clean;
    if (!clean) {
        st_error_set("no memory for a text");
        return NULL;
    }
    for (*at = '\0'; *text; at += strlen(at)) text += show(text, at);
    return clean;
}

/* A control character of at most three bytes as \u2028; returns its bytes. */
static int put_escaped(FILE *to, const unsigned char *s)
{
    const int length = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : 3;
    const unsigned code = length == 1   ? s[0]
                          : length == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
                                        : (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    fprintf(to, "\\u%04x", code);
    return length;
}

int text_put_json(FILE *to, const json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    if (!text) return st_error_set("the result cannot be written as JSON");
    for (const char *at = text; *at;) {
        const int length = *at == '\n' ? 1 : text_character(at);
        if (length > 0) fwrite(at, 1, (size_t)length, to);
        at += length > 0 ? length : put_escaped(to, (const unsigned char *)at);
    }
    fputc('\n', to);
    free(text);
    return 0;
}

const char *text_int(const char *text, const char *end, int *to)
{
    char *stop;
    if (text >= end || !strchr("-+0123456789", *text)) return NULL;
    errno = 0;
    const long value = strtol(text, &stop, 10);
    if (errno || stop == text || stop > end || value <= INT_MIN || value > INT_MAX) return NULL;
    *to = (int)value;
    return stop;
}

int text_width(const char *text)
{
    int count = 0;
    for (; *text; text++) count += (*text & 0xc0) != 0x80;
    return count;
}

int text_append_error(const char *more)
{
    char why[ST_ERROR_SIZE];
    if (!st_error() || !*more) return -1;
    snprintf(why, sizeof why, "%s", st_error());
    st_error_clear();
    return st_error_set("%.*s%s", ST_ERROR_SIZE - 1 - (int)strlen(more), why, more);
}

static bool ends(const char *name, size_t length, const char *ending)
{
    size_t tail = strlen(ending);
    return length > tail && strncmp(name + length - tail, ending, tail) == 0;
}

bool text_ends(const char *name, const char *ending)
{
    return ends(name, strlen(name), ending);
}

bool text_ends_or_gz(const char *name, const char *ending)
{
    return ends(name, strlen(name) - (text_ends(name, ".gz") ? 3 : 0), ending);
}
