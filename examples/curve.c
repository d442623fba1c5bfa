/* curve.c: see curve.h. Both kinds of drawing place a point by the same two fractions, 0 to 1. */
#define _DEFAULT_SOURCE /* the size of a terminal */
#define _DARWIN_C_SOURCE
#include "examples/curve.h"
#include "examples/sketch.h"
#include "tensor/error.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

enum { MARGIN = 10, MOST_WIDTH = 240, MOST_HEIGHT = 80, LEAST_WIDTH = 4, LEAST_HEIGHT = 2 };

/* What stands in a cell: the first letter of a curve's name, a dot between two of its values, or nothing. */
typedef struct sketch {
    int width, height;
    char mark[MOST_HEIGHT][MOST_WIDTH];
    signed char of[MOST_HEIGHT][MOST_WIDTH]; /* which curve */
} sketch;

static int within(int x, int least, int most)
{
    return x < least ? least : x > most ? most : x;
}

/* What the terminal has room for; a file has room for all. */
static int fitting(FILE *to, int width)
{
    struct winsize size;
    bool known = isatty(fileno(to)) && ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    if (known && width > size.ws_col - MARGIN - 1) width = size.ws_col - MARGIN - 1;
    return within(width, LEAST_WIDTH, MOST_WIDTH);
}

static int column_of(const sketch *s, const frame *f, int i)
{
    return (int)lround(across(f, i) * (s->width - 1));
}
static int row_of(const sketch *s, double height)
{
    return (int)lround((1 - height) * (s->height - 1));
}

static void set(sketch *s, int column, double height, char mark, int number)
{
    int row = row_of(s, height);
    s->mark[row][column] = mark;
    s->of[row][column] = (signed char)number;
}

/* Dots from value i to the next, where there are columns between them. */
static void join(sketch *s, const frame *f, const curve *c, int number, int i)
{
    double low = up(f, c->values[i]), high = up(f, c->values[i + 1]);
    int first = column_of(s, f, i), last = column_of(s, f, i + 1);
    for (int column = first + 1; column < last && !isnan(low) && !isnan(high); column++)
        set(s, column, low + (high - low) * (column - first) / (last - first), '.', number);
}

/* What is drawn later is in front: the first curve, and of any curve its values. */
static void draw(sketch *s, const frame *f, const curve *curves, int count)
{
    for (int n = count - 1; n >= 0; n--)
        for (int i = 0; i + 1 < curves[n].count; i++) join(s, f, &curves[n], n, i);
    for (int n = count - 1; n >= 0; n--)
        for (int i = 0; i < curves[n].count; i++) {
            double height = up(f, curves[n].values[i]);
            if (!isnan(height)) set(s, column_of(s, f, i), height, curves[n].name[0], n);
        }
}

/* A round number that lies in the row; NAN where none does. */
static double round_value(const sketch *s, const frame *f, int row)
{
    static const double parts[] = { 1, 2, 5 };
    for (int power = (int)floor(f->low / log(10)); power <= (int)ceil(f->high / log(10)); power++)
        for (int k = 0; k < 3; k++) {
            double value = parts[k] * pow(10, power), height = up(f, value);
            if (height >= 0 && height <= 1 && row_of(s, height) == row) return value;
        }
    return NAN;
}

/* Round ones, or else the ends. */
static void put_value(FILE *to, const sketch *s, const frame *f, int row)
{
    int round = 0;
    for (int k = 0; k < s->height; k++) round += !isnan(round_value(s, f, k));
    double value = round_value(s, f, row);
    if (round < 2 && row == 0) value = value_at(f, 1);
    else if (round < 2) value = row == s->height - 1 ? value_at(f, 0) : NAN;
    if (isnan(value)) fprintf(to, "%8s |", "");
    else fprintf(to, "%8.3g |", value);
}

static const char *const inks[MOST_CURVES] = { "\033[34m", "\033[33m", "\033[35m", "\033[32m" };

/* Nothing follows the last mark. */
static void put_row(FILE *to, const sketch *s, int row, bool colour)
{
    int length = s->width;
    while (length > 0 && s->mark[row][length - 1] == ' ') length--;
    for (int column = 0; column < length; column++) {
        char mark = s->mark[row][column];
        if (mark != ' ' && colour) fprintf(to, "%s%c\033[0m", inks[s->of[row][column] % MOST_CURVES], mark);
        else fputc(mark, to);
    }
    fputc('\n', to);
}

static void put_title(FILE *to, const char *title, const curve *curves, int count, bool colour)
{
    fprintf(to, "%s:", title);
    for (int c = 0; c < count; c++)
        fprintf(to, " %s%s%s", colour ? inks[c % MOST_CURVES] : "", curves[c].name, colour ? "\033[0m" : "");
    fputc('\n', to);
}

static void put_epochs(FILE *to, const sketch *s, const frame *f)
{
    char last[32];
    int length = snprintf(last, sizeof last, "%d epoch%s", f->epochs, f->epochs == 1 ? "" : "s");
    fprintf(to, "%8s +", "");
    for (int column = 0; column < s->width; column++) fputc('-', to);
    if (f->epochs > 1 && length + 2 <= s->width) fprintf(to, "\n%8s  1%*s\n", "", s->width - 1, last);
    else fprintf(to, "\n%8s  %s\n", "", last);
}

void curve_sketch(FILE *to, const char *title, const curve *curves, int count, int width, int height)
{
    frame f = frame_of(curves, count);
    bool colour = sketch_wants_colour(to), empty = true;
    sketch s = { .width = fitting(to, width), .height = within(height, LEAST_HEIGHT, MOST_HEIGHT) };
    memset(s.mark, ' ', sizeof s.mark);
    draw(&s, &f, curves, count);
    for (int row = 0; row < s.height; row++)
        for (int column = 0; column < s.width; column++) empty &= s.mark[row][column] == ' ';
    put_title(to, title, curves, count, colour);
    if (empty) {
        fputs("nothing to draw\n", to);
        return;
    }
    for (int row = 0; row < s.height; row++) {
        put_value(to, &s, &f, row);
        put_row(to, &s, row, colour);
    }
    put_epochs(to, &s, &f);
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
