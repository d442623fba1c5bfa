/* chart.h: a chart of curves over epochs, as SVG inside a page. Its colours are the page's style sheet's. */
#ifndef STRIDE_EXAMPLES_STRIDE_CHART_H
#define STRIDE_EXAMPLES_STRIDE_CHART_H

#include "nn/train.h"

/* One value of each epoch of a run. */
typedef struct chart_line {
    const char *name, *style; /* for people; a class of the style sheet */
    double (*value)(const st_train_report *r);
    const st_train_report *epochs;
    int count, best; /* of the epochs; the index of the one that is marked, -1: none */
} chart_line;

typedef struct chart {
    const char *title;
    bool percent;    /* values are 0 to 1 */
    bool may_be_log; /* if the values are above 0 and the greatest is at least 10 times the least */
    int lines;
    const chart_line *line;
} chart;

/* True if there is a value to draw. */
bool chart_has_values(const chart *c);

/* A figure with its heading; lines without a value are left out. */
void chart_put(FILE *to, const chart *c);

#endif
