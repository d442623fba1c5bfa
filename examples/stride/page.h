/* page.h: text, numbers and tables in HTML. */
#ifndef STRIDE_EXAMPLES_STRIDE_PAGE_H
#define STRIDE_EXAMPLES_STRIDE_PAGE_H

#include <stdio.h>

/* Text between tags or in attributes: markup is escaped; control characters and bytes that are not UTF-8
 * become U+FFFD. */
void page_text(FILE *to, const char *text);

/* The same between two pieces of markup. */
void page_put(FILE *to, const char *before, const char *text, const char *after);

/* Numbers as text; "–" if not finite. */
typedef struct page_string {
    char text[48];
} page_string;
page_string page_count(double value);  /* 1,234,567 */
page_string page_value(double value);  /* four digits */
page_string page_percent(double part); /* "98.41 %" of 0.9841 */
page_string page_share(double part);   /* "98.4" of it */
page_string page_time(double seconds); /* "2.13 s", "3 min 20 s", "1 h 05 min" */

/* The page up to its heading; the header element stays open. */
void page_begin(FILE *to, const char *title);

/* The beginning of a table, up to <tbody>. Headings are separated by |; those that begin with < are
 * aligned left. */
void page_table(FILE *to, const char *box, const char *class, const char *headings);

/* The content of the style element. */
void page_style(FILE *to);

#endif
