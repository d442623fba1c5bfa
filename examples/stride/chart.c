/* chart.c: see chart.h. All places are in units of the viewBox, all heights go up before they are drawn. */
#include "examples/stride/chart.h"
#include "examples/stride/page.h"

#include <math.h>

enum {
    WIDTH = 360,
    HEIGHT = 220,
    LEFT = 46,
    RIGHT = 10,
    TOP = 16,
    BOTTOM = 26,
    FEW = 40,        /* epochs: each value has a dot */
    POINTED_AT = 200 /* epochs: each has a text that appears where it is pointed at */
};

typedef struct frame {
    const chart *c;
    const train_report *epochs;
    int count, best;
    bool log;
    double low, high; /* of the axis; logarithms where it is logarithmic */
    double step;      /* from tick to tick */
} frame;

/* ---- axes -------------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, at least x. */
static double round_up(double x)
{
    double power = pow(10, floor(log10(x))), part = x / power;
    return power * (part <= 1.000001 ? 1 : part <= 2.000001 ? 2 : part <= 5.000001 ? 5 : 10);
}

static bool find_range(const frame *f, double *low, double *high)
{
    *low = INFINITY, *high = -INFINITY;
    for (int l = 0; l < f->c->lines; l++)
        for (int i = 0; i < f->count; i++) {
            double value = f->c->line[l].value(&f->epochs[i]);
            if (!isfinite(value)) continue;
            *low = fmin(*low, value);
            *high = fmax(*high, value);
        }
    return *low <= *high;
}

bool chart_has_values(const chart *c, const train_report *epochs, int count)
{
    double low, high;
    return find_range(&(frame){ .c = c, .epochs = epochs, .count = count }, &low, &high);
}

/* From tick to tick, so that no curve lies on the edge by chance; a share ends at 100 %. */
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

/* Of few decades from tick to tick, too: 1 over what is rounded up is rounded down, to 1, 2 or 5 as well. */
static void log_axis(frame *f, double low, double high)
{
    bool few = high < 100 * low;
    f->low = few ? -log10(round_up(1 / low)) : log10(low) - 0.04 * log10(high / low);
    f->high = few ? log10(round_up(high)) : log10(high) + 0.04 * log10(high / low);
}

static frame frame_of(const chart *c, const train_report *epochs, int count, int best)
{
    frame f = { .c = c, .epochs = epochs, .count = count, .best = best };
    double low, high;
    if (!find_range(&f, &low, &high)) low = 0, high = 1;
    f.log = c->may_be_log && low > 0 && high >= 10 * low;
    if (f.log) log_axis(&f, low, high);
    else linear_axis(&f, low, high);
    return f;
}

static double x_at(const frame *f, double epoch)
{
    double first = f->epochs[0].epoch, last = f->epochs[f->count - 1].epoch;
    return LEFT + (WIDTH - LEFT - RIGHT) * (last > first ? (epoch - first) / (last - first) : 0.5);
}

static double y_at(const frame *f, double value)
{
    double height = ((f->log ? log10(value) : value) - f->low) / (f->high - f->low);
    return HEIGHT - BOTTOM - height * (HEIGHT - TOP - BOTTOM);
}

static bool drawn(const frame *f, double value)
{
    return isfinite(value) && (!f->log || value > 0);
}

static void put_level(FILE *to, const frame *f, double value)
{
    double y = y_at(f, value);
    fprintf(to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
            LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4);
    if (f->c->percent) {
        int digits = (int)fmax(0, ceil(-log10(f->step) - 2 - 1e-6));
        fprintf(to, "%.*f&#8201;%%</text>\n", digits, 100 * value);
    } else fprintf(to, "%.4g</text>\n", fabs(value) < 1e-9 * f->step ? 0 : value);
}

/* Powers of ten; 2 and 5 times them, too, where there are few. */
static void put_log_levels(FILE *to, const frame *f)
{
    static const double parts[] = { 1, 2, 5 };
    int decades = (int)(ceil(f->high) - floor(f->low)), every = 1 + decades / 8;
    for (int power = (int)floor(f->low); power <= (int)ceil(f->high); power++)
        for (int k = 0; k < (f->high - f->low < 2.8 ? 3 : 1); k++) {
            double value = parts[k] * pow(10, power), height = log10(value);
            if (height > f->low - 1e-6 && height < f->high + 1e-6 && power % every == 0)
                put_level(to, f, value);
        }
}

static void put_levels(FILE *to, const frame *f)
{
    if (f->log) put_log_levels(to, f);
    else
        for (int k = 0; k <= lround((f->high - f->low) / f->step); k++)
            put_level(to, f, f->low + k * f->step);
}

static void put_epoch(FILE *to, const frame *f, int epoch)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_at(f, epoch), HEIGHT - 8,
            epoch);
}

/* Round ones, and the first where it has room. */
static void put_epochs(FILE *to, const frame *f)
{
    int first = f->epochs[0].epoch, last = f->epochs[f->count - 1].epoch;
    int step = last - first < 10 ? 1 : (int)round_up((last - first) / 7.0);
    int next = (first + step - 1) / step * step;
    if (next - first >= 0.6 * step) put_epoch(to, f, first);
    for (int epoch = next; epoch <= last; epoch += step) put_epoch(to, f, epoch);
}

/* ---- curves ------------------------------------------------------------------------------------ */

/* A gap where there is no value. A value alone is a dot: a line to itself, with round ends. */
static void put_line(FILE *to, const frame *f, const chart_line *l)
{
    bool pen = false;
    fprintf(to, "<path class=\"line %s\" d=\"", l->style);
    for (int i = 0; i < f->count; i++) {
        double value = l->value(&f->epochs[i]);
        if (!drawn(f, value)) {
            pen = false;
            continue;
        }
        double x = x_at(f, f->epochs[i].epoch), y = y_at(f, value);
        if (pen) fprintf(to, "L%.1f %.1f", x, y);
        else fprintf(to, "M%.1f %.1fh0", x, y);
        pen = true;
    }
    fputs("\"/>\n", to);
}

static void put_dots(FILE *to, const frame *f, const chart_line *l)
{
    for (int i = 0; i < f->count && f->count <= FEW; i++) {
        double value = l->value(&f->epochs[i]);
        if (drawn(f, value))
            fprintf(to, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%g\"/>\n", l->style,
                    x_at(f, f->epochs[i].epoch), y_at(f, value), f->count > 15 ? 1.8 : 2.5);
    }
}

/* A line through all charts, and a ring about the last curve where there are two: the validation's. */
static void put_best(FILE *to, const frame *f)
{
    if (f->best < 0) return;
    const chart_line *l = &f->c->line[f->c->lines - 1];
    int epoch = f->epochs[f->best].epoch;
    double x = x_at(f, epoch), value = l->value(&f->epochs[f->best]);
    const char *anchor = x < LEFT + 40 ? "start" : x > WIDTH - RIGHT - 40 ? "end" : "middle";
    fprintf(to, "<path class=\"best\" d=\"M%.1f %dV%d\"/>", x, TOP, HEIGHT - BOTTOM);
    fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">best: epoch %d</text>\n", x, TOP - 5, anchor,
            epoch);
    if (f->c->lines > 1 && drawn(f, value))
        fprintf(to, "<circle class=\"ring %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>\n", l->style, x,
                y_at(f, value));
}

static page_string value_text(const frame *f, double value)
{
    return f->c->percent ? page_percent(value) : page_value(value);
}

/* What lies about an epoch shows its numbers when it is pointed at. */
static void put_pointers(FILE *to, const frame *f)
{
    for (int i = 0; i < f->count && f->count <= POINTED_AT; i++) {
        double x = x_at(f, f->epochs[i].epoch);
        double from = i > 0 ? (x + x_at(f, f->epochs[i - 1].epoch)) / 2 : LEFT;
        double until = i + 1 < f->count ? (x + x_at(f, f->epochs[i + 1].epoch)) / 2 : WIDTH - RIGHT;
        fprintf(to,
                "<g class=\"at\"><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/><path d=\"M%.1f "
                "%dV%d\"/>",
                from, TOP, until - from, HEIGHT - TOP - BOTTOM, x, TOP, HEIGHT - BOTTOM);
        fprintf(to, "<title>epoch %d", f->epochs[i].epoch);
        for (int l = 0; l < f->c->lines; l++)
            fprintf(to, "\n%s %s", f->c->line[l].name,
                    value_text(f, f->c->line[l].value(&f->epochs[i])).text);
        fputs("</title></g>\n", to);
    }
}

/* ---- the figure -------------------------------------------------------------------------------- */

/* In words, for who does not see it. */
static void put_description(FILE *to, const frame *f)
{
    fprintf(to, "<desc>%s over %d epoch%s", f->c->title, f->count, f->count == 1 ? "" : "s");
    for (int l = 0; l < f->c->lines; l++) {
        const chart_line *line = &f->c->line[l];
        fprintf(to, "; %s from %s", line->name, value_text(f, line->value(&f->epochs[0])).text);
        fprintf(to, " to %s", value_text(f, line->value(&f->epochs[f->count - 1])).text);
        if (f->best >= 0)
            fprintf(to, ", %s at the best epoch, %d", value_text(f, line->value(&f->epochs[f->best])).text,
                    f->epochs[f->best].epoch);
    }
    fputs(".</desc>\n", to);
}

/* The last values stand beside their names. */
static void put_caption(FILE *to, const frame *f)
{
    fprintf(to, "<figcaption><b>%s</b><br/>", f->c->title);
    for (int l = 0; l < f->c->lines; l++) {
        const chart_line *line = &f->c->line[l];
        fprintf(to, "<span class=\"key %s\">%s <span class=\"number\">%s</span></span>", line->style,
                line->name, value_text(f, line->value(&f->epochs[f->count - 1])).text);
    }
    fputs("</figcaption>\n", to);
}

static bool has_line(const frame *f, const chart_line *l)
{
    for (int i = 0; i < f->count; i++)
        if (drawn(f, l->value(&f->epochs[i]))) return true;
    return false;
}

/* Without the curves that have no value. */
static chart with_values(const chart *c, const train_report *epochs, int count)
{
    chart some = *c;
    frame f = { .c = c, .epochs = epochs, .count = count };
    some.lines = 0;
    for (int l = 0; l < c->lines; l++)
        if (has_line(&f, &c->line[l])) some.line[some.lines++] = c->line[l];
    return some;
}

void chart_put(FILE *to, const chart *c, const train_report *epochs, int count, int best)
{
    chart some = with_values(c, epochs, count);
    frame f = frame_of(&some, epochs, count, best);
    fputs("<figure>", to);
    put_caption(to, &f);
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, HEIGHT, c->title);
    put_description(to, &f);
    put_levels(to, &f);
    put_epochs(to, &f);
    put_best(to, &f);
    for (int l = 0; l < some.lines; l++) put_line(to, &f, &some.line[l]);
    for (int l = 0; l < some.lines; l++) put_dots(to, &f, &some.line[l]);
    put_pointers(to, &f);
    fputs("</svg></figure>\n", to);
}
