/* page.c: text, numbers and tables in HTML. */
#include "examples/stride/page.h"
#include "examples/stride/text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- text -------------------------------------------------------------------------------------- */

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

void page_text(FILE *to, const char *text)
{
    for (int length; *text; text += length > 0 ? length : 1) {
        length = *text == '\n' || *text == '\t' ? 1 : text_character(text);
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

void page_put(FILE *to, const char *before, const char *text, const char *after)
{
    fputs(before, to);
    page_text(to, text);
    fputs(after, to);
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

void page_begin(FILE *to, const char *title)
{
    page_put(to,
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/>\n"
             "<meta http-equiv=\"Content-Security-Policy\" "
             "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
             title, "</title>\n<link rel=\"icon\" href=\"data:,\"/>\n<style>\n");
    page_style(to);
    page_put(to, "</style></head>\n<body>\n<header><h1>", title, "</h1>\n");
}

void page_table(FILE *to, const char *box, const char *class, const char *headings)
{
    fprintf(to, "<div class=\"%s\" tabindex=\"0\"><table class=\"%s\"><thead><tr>", box, class);
    for (size_t length; *headings; headings += length + (headings[length] == '|')) {
        bool left = *headings == '<';
        headings += left;
        length = strcspn(headings, "|");
        fprintf(to, "<th scope=\"col\"%s>%.*s</th>", left ? " class=\"text\"" : "", (int)length, headings);
    }
    fputs("</tr></thead><tbody>\n", to);
}
