/* chart.h: a chart of curves over epochs, as SVG in a page, with colours of its style sheet. */
#ifndef STRIDE_EXAMPLES_STRIDE_CHART_H
#define STRIDE_EXAMPLES_STRIDE_CHART_H

#include "nn/train.h"

/* One value of each epoch of a run. */
typedef struct chart_line {
    const char *name, *style; /* shown; a class of the style sheet */
    size_t value;             /* offset of a double in st_train_report */
    const st_train_report *epochs;
    int count, best; /* number of epochs; index of the one to mark, or -1 */
} chart_line;

typedef struct chart {
    const char *title;
    bool percent;    /* values are 0 to 1 */
    bool may_be_log; /* logarithmic if all values are positive and span a factor of 10 */
    int lines;
    const chart_line *line;
} chart;

/* A figure with its heading; lines without a value are left out, and so is a chart without any. */
void chart_put(FILE *to, const chart *c);

#endif
