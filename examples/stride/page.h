/* page.h: HTML of reports: text, numbers, tables, images and charts, with classes of the style sheet. */
#ifndef STRIDE_EXAMPLES_STRIDE_PAGE_H
#define STRIDE_EXAMPLES_STRIDE_PAGE_H

#include "nn/train.h"

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
page_string page_time(double seconds); /* "2.13 s", "3 min 20 s", "1 h 05 min" */

/* The page up to its heading; the header element stays open. */
void page_begin(FILE *to, const char *title);

/* The beginning of a table, up to <tbody>. Headings are separated by |; those that begin with < are
 * aligned left. */
void page_table(FILE *to, const char *box, const char *class, const char *headings);

/* The content of the style element. */
void page_style(FILE *to);

/* An image [C, H, W] as a PNG in a data URI, from `low` (dark) to `high` (bright). Three channels are shown
 * in colour, any other number by their mean. Larger images are averaged down to 96 pixels a side. Nothing for
 * another shape. -1 with an error: no memory. */
int page_image(FILE *to, const char *alt, st_tensor image, double low, double high);

/* One value of each epoch of a run. */
typedef struct chart_line {
    const char *name, *style; /* shown; a class of the style sheet */
    size_t value;             /* offset of a double in st_train_report */
    const st_train_report *epochs;
    int count; /* of epochs */
    int best;  /* the one that is marked; -1: none */
} chart_line;

typedef struct chart {
    const char *title;
    bool percent;    /* values are 0 to 1 */
    bool may_be_log; /* logarithmic if all values are positive and span a factor of 10 */
    int lines;
    const chart_line *line;
} chart;

/* A figure with its heading, in SVG; lines without a value are left out, and so is a chart without any. */
void page_chart(FILE *to, const chart *c);

#endif
