/* json.c: see json.h. */
#include "nn/files/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages -------------------------------------------------------------------------------- */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

json_shown json_show(json_piece value)
{
    json_shown shown = { "" };
    const size_t room = sizeof shown.text - 1;
    for (size_t i = 0; i < smaller(value.size, room); i++)
        shown.text[i] = value.at[i] >= ' ' && value.at[i] <= '~' ? value.at[i] : '?';
    if (value.size > room) memcpy(shown.text + room - 3, "...", 3);
    return shown;
}

json_shown json_show_text(json_piece text)
{
    return json_show((json_piece){ text.at + 1, text.size - 2 });
}

/* Always false. */
static bool fail(json_walk *w, const char *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool fail(json_walk *w, const char *at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->why, sizeof w->why, format, arguments);
    va_end(arguments);
    w->at = at;
    return false;
}

static bool expected(json_walk *w, const char *what)
{
    enum { NEAR = 16 };
    size_t left = (size_t)(w->end - w->at);
    if (left == 0) return fail(w, w->at, "%s expected at its end", what);
    return fail(w, w->at, "%s expected near '%s'", what,
                json_show((json_piece){ w->at, smaller(left, NEAR) }).text);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void pass_blanks(json_walk *w)
{
    while (w->at < w->end && is_blank(*w->at)) w->at++;
}

/* Behind what begins there, NULL where it does not end. */
static const char *pass_text(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : NULL;
}

static const char *pass_word(const char *at, const char *end)
{
    while (at < end && !is_blank(*at) && !memchr(",:{}[]\"", *at, 7)) at++;
    return at;
}

static const char *pass_brackets(const char *at, const char *end)
{
    size_t depth = 0;
    while (at && at < end) {
        char c = *at;
        at = c == '"' ? pass_text(at, end) : at + 1;
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && --depth == 0) return at;
    }
    return NULL;
}

static bool take(json_walk *w, json_piece *piece, const char *behind, const char *what)
{
    if (!behind) return fail(w, w->end, "%s does not end", what);
    *piece = (json_piece){ w->at, (size_t)(behind - w->at) };
    w->at = behind;
    return piece->size > 0 ? true : expected(w, what);
}

static bool take_mark(json_walk *w, char mark, const char *what)
{
    pass_blanks(w);
    if (w->at == w->end || *w->at != mark) return expected(w, what);
    w->at++;
    pass_blanks(w);
    return true;
}

static bool take_name(json_walk *w)
{
    if (w->at == w->end || *w->at != '"') return expected(w, "a name");
    return take(w, &w->name, pass_text(w->at, w->end), "a name") && take_mark(w, ':', "':'");
}

static bool take_value(json_walk *w)
{
    if (w->at == w->end) return expected(w, "a value");
    if (*w->at == '"') return take(w, &w->value, pass_text(w->at, w->end), "a text");
    if (*w->at == '{') return take(w, &w->value, pass_brackets(w->at, w->end), "an object");
    if (*w->at == '[') return take(w, &w->value, pass_brackets(w->at, w->end), "a list");
    return take(w, &w->value, pass_word(w->at, w->end), "a value");
}

/* ---- objects and lists ------------------------------------------------------------------------- */

json_walk json_begin(json_piece text, char opening)
{
    json_walk w = { .at = text.at, .end = text.at + text.size, .closing = opening == '{' ? '}' : ']' };
    take_mark(&w, opening, opening == '{' ? "'{'" : "'['");
    return w;
}

static bool finish(json_walk *w)
{
    w->at++;
    pass_blanks(w);
    if (w->at < w->end) expected(w, "the end");
    return false;
}

bool json_next(json_walk *w)
{
    bool object = w->closing == '}';
    if (w->why[0]) return false;
    pass_blanks(w);
    if (w->at < w->end && *w->at == w->closing) return finish(w);
    if (w->within && !take_mark(w, ',', object ? "',' or '}'" : "',' or ']'")) return false;
    w->within = true;
    return (!object || take_name(w)) && take_value(w);
}

ptrdiff_t json_count(json_piece text, char opening)
{
    ptrdiff_t count = 0;
    json_walk w = json_begin(text, opening);
    while (json_next(&w)) count++;
    return w.why[0] ? -1 : count;
}

/* ---- texts ------------------------------------------------------------------------------------- */

/* Bytes of the character that begins there; 0 where there is none. */
static size_t utf8_size(const unsigned char *at, size_t left)
{
    static const unsigned long least[] = { 0, 0x80, 0x800, 0x10000 };
    if (at[0] < 0x80) return 1;
    size_t more = at[0] >> 5 == 6 ? 1 : at[0] >> 4 == 14 ? 2 : at[0] >> 3 == 30 ? 3 : left;
    if (more >= left) return 0;
    unsigned long code = at[0] & 0xffu >> (more + 2);
    for (size_t i = 1; i <= more; i++) {
        if (at[i] >> 6 != 2) return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    return code >= least[more] && code <= 0x10ffff && code >> 11 != 0x1b ? more + 1 : 0;
}

static size_t utf8_put(char *to, unsigned long code)
{
    size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = more; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[more] | code);
    return more + 1;
}

/* \uXXXX; -1 where that is not there. */
static long unit(const char *at, const char *end)
{
    long code = 0;
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
    for (int i = 2; i < 6; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = at[i] ? strchr(digits, at[i]) : NULL;
        if (!digit) return -1;
        code = code * 16 + (digit - digits) % 16;
    }
    return code;
}

/* What an escape says; its bytes, 0 where there is none of that kind. */
static size_t unescape(const char *at, const char *end, unsigned long *code)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *name = end - at > 1 && at[1] ? strchr(names, at[1]) : NULL;
    if (name) {
        *code = (unsigned char)meant[name - names];
        return 2;
    }
    long first = unit(at, end), second = first >= 0 ? unit(at + 6, end) : -1;
    if (first <= 0 || first >> 10 == 0x37) return 0; /* no zero, and no second half of a pair alone */
    *code = (unsigned long)first;
    if (first >> 10 != 0x36) return 6;
    *code = 0x10000 + ((unsigned long)first & 0x3ff) * 0x400 + ((unsigned long)second & 0x3ff);
    return second >> 10 == 0x37 ? 12 : 0;
}

bool json_text(json_walk *w, json_piece text, char *to)
{
    if (text.size < 2 || text.at[0] != '"') return fail(w, text.at, "a text expected");
    const char *at = text.at + 1, *end = text.at + text.size - 1;
    while (at < end) {
        unsigned long code;
        size_t size;
        if ((unsigned char)*at < ' ')
            return fail(w, at, "control character 0x%02x in a text", (unsigned char)*at);
        if (*at == '\\') {
            if (!(size = unescape(at, end, &code)))
                return fail(w, at, "no escape: %s",
                            json_show((json_piece){ at, smaller((size_t)(end - at), 6) }).text);
            to += utf8_put(to, code);
        } else {
            if (!(size = utf8_size((const unsigned char *)at, (size_t)(end - at))))
                return fail(w, at, "byte 0x%02x is not UTF-8", (unsigned char)*at);
            memmove(to, at, size);
            to += size;
        }
        at += size;
    }
    *to = '\0';
    return true;
}

bool json_says(json_piece text, const char *expected)
{
    char said[256];
    size_t length = strlen(expected);
    if (text.size == length + 2 && text.at[0] == '"' && memcmp(text.at + 1, expected, length) == 0)
        return true;
    return text.size <= sizeof said && json_text(&(json_walk){ .why = "" }, text, said) &&
           strcmp(said, expected) == 0;
}

/* ---- values ------------------------------------------------------------------------------------ */

json_t *json_leaf(json_walk *w, json_piece value)
{
    json_error_t error = { .position = 0 };
    if (value.size > JSON_LEAF) {
        fail(w, value.at, "a value of %zu bytes, expected at most %d", value.size, JSON_LEAF);
        return NULL;
    }
    errno = 0;
    json_t *leaf = json_loadb(value.at, value.size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    bool told = error.text[0] && errno != ENOMEM;
    if (!leaf) fail(w, value.at + error.position, "%s", told ? error.text : "no memory");
    return leaf;
}
