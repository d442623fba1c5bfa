/* page.h: text and numbers as a page shows them. */
#ifndef STRIDE_EXAMPLES_STRIDE_PAGE_H
#define STRIDE_EXAMPLES_STRIDE_PAGE_H

#include <stdio.h>

/* Between tags and in attributes: nothing of it is markup, and what is not UTF-8, or a control character,
 * becomes U+FFFD. */
void page_text(FILE *to, const char *text);

/* Short texts, by value. What is no number is "–". */
typedef struct page_string {
    char text[48];
} page_string;
page_string page_count(double value);  /* 1,234,567 */
page_string page_value(double value);  /* four digits */
page_string page_percent(double part); /* "98.41 %" of 0.9841 */
page_string page_share(double part);   /* "98.4" of it */
page_string page_time(double seconds); /* "2.13 s", "3 min 20 s", "1 h 05 min" */

/* Everything up to the heading, in an open header element. */
void page_begin(FILE *to, const char *title);

/* The style sheet, without its element. */
void page_style(FILE *to);

#endif
