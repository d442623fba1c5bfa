/* chart.c: curves over epochs as SVG. Positions are in units of the viewBox. */
#include "examples/stride/page.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    WIDTH = 360,
    HEIGHT = 220,
    RIGHT = 10,
    TOP = 16,
    BOTTOM = 26,
    FEW = 40 /* up to so many epochs dots are visible; of more, the one under the pointer */
};

typedef struct frame {
    const chart *c;
    int first, last;  /* epochs */
    double low, high; /* of the axis; logarithms if it is logarithmic */
    double step;      /* between ticks; 0: logarithmic */
    double left;      /* margin for the widest tick label */
} frame;

/* ---- axes -------------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, at least x. */
static double round_up(double x)
{
    double power = pow(10, floor(log10(x))), part = x / power;
    return power * (part <= 1.000001 ? 1 : part <= 2.000001 ? 2 : part <= 5.000001 ? 5 : 10);
}

static double value_at(const chart_line *l, int i)
{
    return *(const double *)((const char *)&l->epochs[i] + l->value);
}

static bool line_range(const chart_line *l, double *low, double *high)
{
    bool found = false;
    for (int i = 0; i < l->count; i++) {
        double value = value_at(l, i);
        if (!isfinite(value)) continue;
        *low = fmin(*low, value);
        *high = fmax(*high, value);
        found = true;
    }
    return found;
}

/* The axis begins and ends at a tick; percentages end at 100 %. */
static void linear_axis(frame *f, double low, double high)
{
    double extent = high - low;
    if (!(extent > 1e-9 * fabs(high))) extent = high != 0 ? fabs(high) / 2 : 1;
    if (f->c->percent) extent = fmax(extent, 0.002);
    double middle = (low + high) / 2;
    f->step = round_up(extent / 5);
    f->low = f->step * floor(fmin(low, middle - extent / 2) / f->step + 1e-6);
    f->high = f->step * ceil(fmax(high, middle + extent / 2) / f->step - 1e-6);
    if (low >= 0) f->low = fmax(f->low, 0);
    if (f->c->percent) f->high = fmin(f->high, 1);
}

static void log_axis(frame *f, double low, double high)
{
    f->low = log10(low) - 0.04 * log10(high / low);
    f->high = log10(high) + 0.04 * log10(high / low);
}

static double x_at(const frame *f, double epoch)
{
    double part = f->last > f->first ? (epoch - f->first) / (f->last - f->first) : 0.5;
    return f->left + (WIDTH - f->left - RIGHT) * part;
}

static double y_at(const frame *f, double value)
{
    double height = ((f->step > 0 ? value : log10(value)) - f->low) / (f->high - f->low);
    return HEIGHT - BOTTOM - height * (HEIGHT - TOP - BOTTOM);
}

static bool drawn(const frame *f, double value)
{
    return isfinite(value) && (f->step > 0 || value > 0);
}

/* With enough digits to distinguish ticks. */
static page_string tick_text(const frame *f, double value)
{
    page_string s;
    double scale = f->c->percent ? 100 : 1, step = scale * f->step,
           top = scale * fmax(fabs(f->low), fabs(f->high));
    if (f->step == 0) snprintf(s.text, sizeof s.text, "%.4g", value);
    else if (fabs(value) < 1e-9 * f->step) snprintf(s.text, sizeof s.text, "0");
    else if (top < 1e-3 || top >= 1e6)
        snprintf(s.text, sizeof s.text, "%.*g", 1 + (int)fmax(0, ceil(log10(top / step) - 1e-6)), value);
    else snprintf(s.text, sizeof s.text, "%.*f", (int)fmax(0, ceil(-log10(step) - 1e-6)), scale * value);
    return s;
}

static void put_level(FILE *to, frame *f, double value)
{
    page_string text = tick_text(f, value);
    if (!to) { /* only measures */
        f->left = fmax(f->left, 16 + 6.6 * (double)(strlen(text.text) + (f->c->percent ? 2 : 0)));
        return;
    }
    double y = y_at(f, value);
    fprintf(to,
            "<path class=\"grid\" d=\"M%.1f %.1fH%d\"/><text x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"end\">%s%s</text>\n",
            f->left, y, WIDTH - RIGHT, f->left - 8, y + 4, text.text, f->c->percent ? "&#8201;%" : "");
}

/* Ticks: linear, or powers of ten, with 2 and 5 times these over few decades. */
static void put_levels(FILE *to, frame *f)
{
    static const double parts[] = { 1, 2, 5 };
    for (int k = 0; f->step > 0 && k <= lround((f->high - f->low) / f->step); k++)
        put_level(to, f, f->low + k * f->step);
    if (f->step > 0) return;
    int every = 1 + (int)(ceil(f->high) - floor(f->low)) / 8;
    for (int power = (int)floor(f->low); power <= (int)ceil(f->high); power++)
        for (int k = 0; k < (f->high - f->low < 2.8 ? 3 : 1); k++) {
            double value = parts[k] * pow(10, power), height = log10(value);
            if (height > f->low - 1e-6 && height < f->high + 1e-6 && power % every == 0)
                put_level(to, f, value);
        }
}

static frame frame_of(const chart *c, double low, double high)
{
    frame f = { .c = c, .first = INT_MAX, .last = 1, .left = 36 };
    for (int l = 0; l < c->lines; l++)
        for (int i = 0; i < c->line[l].count; i++) {
            int epoch = c->line[l].epochs[i].epoch;
            if (epoch < f.first) f.first = epoch;
            if (epoch > f.last) f.last = epoch;
        }
    if (c->may_be_log && low > 0 && high >= 10 * low) log_axis(&f, low, high);
    else linear_axis(&f, low, high);
    put_levels(NULL, &f);
    return f;
}

static void put_epoch(FILE *to, const frame *f, int epoch)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_at(f, epoch), HEIGHT - 8,
            epoch);
}

/* Round numbers, and the first epoch if there is room. */
static void put_epochs(FILE *to, const frame *f)
{
    int step = f->last - f->first < 10 ? 1 : (int)round_up((f->last - f->first) / 7.0);
    int next = (f->first + step - 1) / step * step;
    if (next - f->first >= 0.6 * step) put_epoch(to, f, f->first);
    for (int epoch = next; epoch <= f->last; epoch += step) put_epoch(to, f, epoch);
}

/* ---- curves ------------------------------------------------------------------------------------ */

static page_string value_text(const frame *f, double value)
{
    return f->c->percent ? page_percent(value) : page_value(value);
}

/* Missing values leave a gap. A single value is a dot: a line of length 0 with round ends. */
static void put_line(FILE *to, const frame *f, const chart_line *l)
{
    bool pen = false;
    fprintf(to, "<path class=\"line %s\" d=\"", l->style);
    for (int i = 0; i < l->count; i++) {
        double value = value_at(l, i);
        if (drawn(f, value))
            fprintf(to, pen ? "L%.1f %.1f" : "M%.1f %.1fh0", x_at(f, l->epochs[i].epoch), y_at(f, value));
        pen = drawn(f, value);
    }
    fputs("\"/>\n", to);
}

/* Dots with tooltips. */
static void put_dots(FILE *to, const frame *f, const chart_line *l)
{
    for (int i = 0; i < l->count; i++) {
        double value = value_at(l, i);
        if (!drawn(f, value)) continue;
        fprintf(to, "<circle class=\"dot%s %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%g\"><title>",
                l->count > FEW ? " hidden" : "", l->style, x_at(f, l->epochs[i].epoch), y_at(f, value),
                l->count > FEW ? 3.0 : 2.0);
        page_text(to, l->name);
        fprintf(to, ", epoch %d: %s</title></circle>\n", l->epochs[i].epoch, value_text(f, value).text);
    }
}

/* A vertical line, and a ring around the value. */
static void put_best(FILE *to, const frame *f, const chart_line *l)
{
    if (l->best < 0 || l->best >= l->count) return;
    const int epoch = l->epochs[l->best].epoch;
    const double x = x_at(f, epoch), value = value_at(l, l->best);
    const char *anchor = x < f->left + 40 ? "start" : x > WIDTH - RIGHT - 40 ? "end" : "middle";
    fprintf(to, "<path class=\"best\" d=\"M%.1f %dV%d\"/>", x, TOP, HEIGHT - BOTTOM);
    fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">best: epoch %d</text>\n", x, TOP - 5, anchor,
            epoch);
    if (drawn(f, value))
        fprintf(to, "<circle class=\"ring %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>\n", l->style, x,
                y_at(f, value));
}

/* ---- the figure -------------------------------------------------------------------------------- */

/* Each name with its last value. */
static void put_caption(FILE *to, const frame *f)
{
    fprintf(to, "<figure><figcaption><b>%s</b><br/>", f->c->title);
    for (int i = 0; i < f->c->lines; i++) {
        const chart_line *l = &f->c->line[i];
        double low = INFINITY, high = -INFINITY;
        if (!line_range(l, &low, &high)) continue;
        fprintf(to, "<span class=\"key %s\">", l->style);
        page_text(to, l->name);
        fprintf(to, " <span class=\"number\">%s</span></span>",
                value_text(f, value_at(l, l->count - 1)).text);
    }
    fprintf(to, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s over epochs\">\n",
            WIDTH, HEIGHT, f->c->title);
}

void page_chart(FILE *to, const chart *c)
{
    double low = INFINITY, high = -INFINITY;
    for (int l = 0; l < c->lines; l++) line_range(&c->line[l], &low, &high);
    if (low > high) return;
    frame f = frame_of(c, low, high);
    put_caption(to, &f);
    put_levels(to, &f);
    put_epochs(to, &f);
    for (int l = 0; l < c->lines; l++) put_best(to, &f, &c->line[l]);
    for (int l = 0; l < c->lines; l++) put_line(to, &f, &c->line[l]);
    for (int l = 0; l < c->lines; l++) put_dots(to, &f, &c->line[l]);
    fputs("</svg></figure>\n", to);
}
