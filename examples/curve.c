/* curve.c: see curve.h. Both kinds of drawing place a point by the same two fractions, 0 to 1. */
#include "examples/curve.h"
#include "tensor/error.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct frame {
    double low, high; /* logarithms */
    int epochs;
} frame;

static frame frame_of(const curve *curves, int count)
{
    frame f = { INFINITY, -INFINITY, 1 };
    for (int c = 0; c < count; c++)
        for (int i = 0; i < curves[c].count; i++) {
            if (!(curves[c].values[i] > 0 && isfinite(curves[c].values[i]))) continue;
            f.low = fmin(f.low, log(curves[c].values[i]));
            f.high = fmax(f.high, log(curves[c].values[i]));
            if (i + 1 > f.epochs) f.epochs = i + 1;
        }
    if (!(f.low <= f.high)) f.low = f.high = 0;
    if (f.high - f.low < 0.1) f.low -= 0.05, f.high += 0.05;
    return f;
}

/* 0 at the left and at the bottom; the height is NaN where there is nothing to draw. */
static double across(const frame *f, int i)
{
    return f->epochs > 1 ? (double)i / (f->epochs - 1) : 0.5;
}
static double up(const frame *f, double value)
{
    return value > 0 && isfinite(value) ? (log(value) - f->low) / (f->high - f->low) : NAN;
}
static double value_at(const frame *f, double height)
{
    return exp(f->low + height * (f->high - f->low));
}

/* ---- in a terminal --------------------------------------------------------------------------- */

/* What stands at a place: the first curve that comes by it. */
static char mark(const frame *f, const curve *curves, int count, int column, int row, int width, int height)
{
    for (int c = 0; c < count; c++)
        for (int i = 0; i < curves[c].count; i++) {
            double y = up(f, curves[c].values[i]);
            if (lround(across(f, i) * (width - 1)) != column || isnan(y)) continue;
            if (lround(y * (height - 1)) == height - 1 - row) return curves[c].name[0];
        }
    return ' ';
}

void curve_sketch(FILE *to, const char *title, const curve *curves, int count, int width, int height)
{
    frame f = frame_of(curves, count);
    fprintf(to, "%s:", title);
    for (int c = 0; c < count; c++) fprintf(to, " %s", curves[c].name);
    fputc('\n', to);
    for (int row = 0; row < height; row++) {
        fprintf(to, "%8.3g |", value_at(&f, height > 1 ? 1 - (double)row / (height - 1) : 0.5));
        for (int column = 0; column < width; column++)
            fputc(mark(&f, curves, count, column, row, width, height), to);
        fputc('\n', to);
    }
    fprintf(to, "%8s +", "");
    for (int column = 0; column < width; column++) fputc('-', to);
    fprintf(to, "\n%8s  1%*d epochs\n", "", width - 1, f.epochs);
}

/* ---- in a file ------------------------------------------------------------------------------- */

enum { WIDTH = 720, HEIGHT = 420, LEFT = 60, RIGHT = 20, TOP = 40, BOTTOM = 40 };

static double x_of(const frame *f, int i)
{
    return LEFT + across(f, i) * (WIDTH - LEFT - RIGHT);
}
static double y_of(const frame *f, double value)
{
    return HEIGHT - BOTTOM - up(f, value) * (HEIGHT - TOP - BOTTOM);
}

static const char *const colours[MOST_CURVES] = { "#888888", "#1f6fb4", "#c8501e", "#3a8f3a" };

/* 1, 2 and 5 times each power of ten that the frame holds. */
static void put_grid(FILE *to, const frame *f)
{
    static const double steps[] = { 1, 2, 5 };
    for (int power = (int)floor(f->low / log(10)); power <= (int)ceil(f->high / log(10)); power++)
        for (int k = 0; k < 3; k++) {
            double value = steps[k] * pow(10, power), height = up(f, value);
            if (height < 0 || height > 1) continue;
            fprintf(to, "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/>\n", LEFT, y_of(f, value),
                    WIDTH - RIGHT);
            fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8,
                    y_of(f, value) + 4, value);
        }
    int every = 1 + (f->epochs - 1) / 20;
    for (int i = 0; i < f->epochs; i += every)
        fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_of(f, i),
                HEIGHT - BOTTOM + 20, i + 1);
}

static void put_curve(FILE *to, const frame *f, const curve *c, int number)
{
    const char *colour = colours[number % MOST_CURVES];
    fputs("<polyline fill=\"none\" stroke-width=\"2\" points=\"", to);
    for (int i = 0; i < c->count; i++)
        if (!isnan(up(f, c->values[i]))) fprintf(to, "%.1f,%.1f ", x_of(f, i), y_of(f, c->values[i]));
    fprintf(to, "\" stroke=\"%s\"/>\n", colour);
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"%s\">%s</text>\n", WIDTH - RIGHT - 8,
            TOP + 18 * (number + 1), colour, c->name);
}

int curve_svg(const char *path, const char *title, const curve *curves, int count)
{
    frame f = frame_of(curves, count);
    FILE *to = fopen(path, "w");
    if (!to) return error_set("%s: %s", path, strerror(errno));
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"24\" font-size=\"15\">%s</text>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, title);
    put_grid(to, &f);
    for (int c = 0; c < count; c++) put_curve(to, &f, &curves[c], c);
    fputs("</svg>\n", to);
    bool failed = ferror(to);
    if (fclose(to) || failed) return error_set("%s: %s", path, strerror(errno));
    return 0;
}
