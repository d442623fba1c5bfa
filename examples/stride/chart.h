/* chart.h: a chart of curves over epochs, as SVG inside a page. Its colours are the page's style sheet's. */
#ifndef STRIDE_EXAMPLES_STRIDE_CHART_H
#define STRIDE_EXAMPLES_STRIDE_CHART_H

#include "nn/train.h"

/* What is drawn of an epoch: one value of its report. */
typedef struct chart_line {
    const char *name, *style; /* for people; the style sheet's class */
    double (*value)(const train_report *r);
} chart_line;

typedef struct chart {
    const char *title;
    bool percent;    /* of values 0 to 1 */
    bool may_be_log; /* where the values are above 0 and the greatest is at least 10 times the least */
    int lines;
    chart_line line[2];
} chart;

/* Whether there is any value to draw. */
bool chart_has_values(const chart *c, const train_report *epochs, int count);

/* A figure with its heading. `best` is the place of the best epoch among them; -1: none. */
void chart_put(FILE *to, const chart *c, const train_report *epochs, int count, int best);

#endif
