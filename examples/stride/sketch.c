/* sketch.c: a character cell, twice as high as wide, shows two square pixels. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/sketch.h"
#include "examples/stride/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const eighths[] = { " ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
static const char *const levels[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };

static double clamp(double x, double low, double high)
{
    return !(x > low) ? low : x < high ? x : high; /* NaN: low */
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Pixel (i, j), 0 to 1; black below the last row. */
static double grey(st_tensor image, ptrdiff_t i, ptrdiff_t j)
{
    return i < image.shape.n[1] ? clamp((double)*st_at(image, ST_INDEX(0, i, j)), 0, 1) : 0;
}

/* Colours 232 to 255 of the 256 are greys, 16 is black and 231 white. */
static int colour_of(double value)
{
    int step = (int)lround(25 * value);
    return step == 0 ? 16 : step == 25 ? 231 : 231 + step;
}

void sketch_image(FILE *to, st_tensor image)
{
    for (ptrdiff_t i = 0; i < image.shape.n[1]; i += 2) {
        for (ptrdiff_t j = 0; j < image.shape.n[2]; j++)
            fprintf(to, "\033[38;5;%dm\033[48;5;%dm▀", colour_of(grey(image, i, j)),
                    colour_of(grey(image, i + 1, j)));
        fputs("\033[0m\n", to);
    }
}

/* ---- bars and curves --------------------------------------------------------------------------- */

void sketch_bars(FILE *to, const char *const *labels, const double *values, int count, int width)
{
    int widest = 0;
    for (int i = 0; i < count; i++)
        if (text_width(labels[i]) > widest) widest = text_width(labels[i]);
    for (int i = 0; i < count; i++) {
        const int length = (int)lround(8 * width * clamp(values[i], 0, 1));
        fprintf(to, "%s%*s%s ", i ? "\033[2m" : "\033[1;32m", widest - text_width(labels[i]), "", labels[i]);
        for (int k = 0; k < length / 8; k++) fputs(eighths[8], to);
        if (length % 8) fputs(eighths[length % 8], to);
        fprintf(to, "%*s %5.1f %%\033[0m\n", width - (length + 7) / 8, "", 100 * values[i]);
    }
}

void sketch_curve(FILE *to, const char *name, const double *values, int count, int width)
{
    double low = INFINITY, high = -INFINITY;
    int columns = count < width ? count : width;
    for (int i = 0; i < count; i++) low = fmin(low, values[i]), high = fmax(high, values[i]);
    if (!(low <= high)) return;
    fprintf(to, "%s ", name);
    for (int i = 0; i < columns; i++) {
        int first = (int)((long)i * count / columns), last = (int)((i + 1L) * count / columns);
        double sum = 0;
        for (int k = first; k < last; k++) sum += values[k];
        double part = (sum / (last - first) - low) / (high - low);
        fputs(isnan(sum) ? " " : levels[lround(7 * clamp(part, 0, 1))], to);
    }
    fprintf(to, " %.4g to %.4g\n", values[0], values[count - 1]);
}

bool sketch_wants_colour(FILE *to)
{
    const char *refused = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (refused && *refused) return false;
    return terminal && strcmp(terminal, "dumb") != 0 && isatty(fileno(to));
}
