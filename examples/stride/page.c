/* page.c: see page.h. */
#include "examples/stride/page.h"
#include "tensor/error.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- text -------------------------------------------------------------------------------------- */

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Bytes of the character that begins here (RFC 3629); 0 where none does. */
static int character(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return s[0] >= 0x20 ? s[0] != 0x7f : s[0] == '\n' || s[0] == '\t';
    int length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] > 0x9f, beyond = s[0] == 0xf4 && s[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : length;
}

char *page_clean(const char *text)
{
    char *clean = malloc(strlen(text) * (sizeof replacement - 1) + 1), *at = clean;
    if (!clean) {
        error_set("page: no memory for a text");
        return NULL;
    }
    for (int length; *text; text += length > 0 ? length : 1) {
        length = character(text);
        size_t bytes = length > 0 ? (size_t)length : sizeof replacement - 1;
        memcpy(at, length > 0 ? text : replacement, bytes);
        at += bytes;
    }
    *at = '\0';
    return clean;
}

void page_text(FILE *to, const char *text)
{
    for (int length; *text; text += length > 0 ? length : 1) {
        length = character(text);
        switch (*text) {
        case '&': fputs("&amp;", to); break;
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '"': fputs("&quot;", to); break;
        case '\'': fputs("&#39;", to); break;
        default: length > 0 ? fwrite(text, 1, (size_t)length, to) : fwrite(replacement, 1, 3, to);
        }
    }
}

/* ---- numbers ----------------------------------------------------------------------------------- */

#define NOTHING ((page_string){ "–" })

page_string page_count(double value)
{
    if (!isfinite(value)) return NOTHING;
    page_string s;
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.0f", value), used = 0;
    for (int i = 0; i < length && used < (int)sizeof s.text - 2; i++) {
        if (i > 0 && (length - i) % 3 == 0) s.text[used++] = ',';
        s.text[used++] = digits[i];
    }
    s.text[used] = '\0';
    return s;
}

page_string page_value(double value)
{
    page_string s = NOTHING;
    if (isfinite(value)) snprintf(s.text, sizeof s.text, "%.4g", value);
    return s;
}

page_string page_percent(double part)
{
    page_string s = NOTHING;
    if (isfinite(part)) snprintf(s.text, sizeof s.text, "%.2f %%", 100 * part);
    return s;
}

page_string page_share(double part)
{
    page_string s = NOTHING;
    if (isfinite(part)) snprintf(s.text, sizeof s.text, "%.1f", 100 * part);
    return s;
}

page_string page_time(double seconds)
{
    page_string s = NOTHING;
    if (!isfinite(seconds)) return s;
    long whole = lround(seconds);
    if (seconds < 9.995) snprintf(s.text, sizeof s.text, "%.2f s", seconds);
    else if (seconds < 59.95) snprintf(s.text, sizeof s.text, "%.1f s", seconds);
    else if (whole < 3600) snprintf(s.text, sizeof s.text, "%ld min %ld s", whole / 60, whole % 60);
    else snprintf(s.text, sizeof s.text, "%ld h %02ld min", whole / 3600, whole / 60 % 60);
    return s;
}
