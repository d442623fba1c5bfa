/* sketch.c: a character cell is twice as high as wide: two square pixels. */
#define _POSIX_C_SOURCE 200809L
#include "examples/sketch.h"

#include "tensor/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double within(double x, double low, double high)
{
    if (!(x > low)) return low; /* NaN too */
    return x < high ? x : high;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Pixel (i, j), 0 … 1; black below the last row. */
static double grey(tensor image, ptrdiff_t i, ptrdiff_t j)
{
    return i < image.shape.n[0] ? within((double)*tensor_at(image, INDEX(i, j)), 0, 1) : 0;
}

/* The upper half of the cell in the foreground's colour, the lower in the background's. */
static void cell_of_millions(FILE *to, double upper, double lower)
{
    int u = (int)lround(255 * upper), l = (int)lround(255 * lower);
    fprintf(to, "\033[38;2;%d;%d;%dm\033[48;2;%d;%d;%dm▀", u, u, u, l, l, l);
}

/* Of the 256 colours 232 to 255 are greys, 16 is black and 231 white. */
static int of_256(double value)
{
    int step = (int)lround(25 * value);
    return step == 0 ? 16 : step == 25 ? 231 : 231 + step;
}

static void cell_of_256(FILE *to, double upper, double lower)
{
    fprintf(to, "\033[38;5;%dm\033[48;5;%dm▀", of_256(upper), of_256(lower));
}

static void cell_of_ascii(FILE *to, double upper, double lower)
{
    static const char ramp[] = " .:-=+*#%@";
    fputc(ramp[lround((sizeof ramp - 2) * (upper + lower) / 2)], to);
}

static bool has_millions(void)
{
    const char *says = getenv("COLORTERM");
    return says && (strcmp(says, "truecolor") == 0 || strcmp(says, "24bit") == 0);
}

void sketch_image(FILE *to, tensor image, bool colour)
{
    if (tensor_is_null(image)) {
        error_set("sketch_image: the tensor is null");
        return;
    }
    tensor pixels = image.shape.rank == 3 && image.shape.n[0] == 1 ? tensor_select(image, 0, 0) : image;
    if (pixels.shape.rank != 2) {
        error_set("sketch_image: the image is %s, expected [1, H, W] or [H, W]",
                  shape_text(image.shape).text);
        return;
    }
    void (*cell)(FILE *, double, double) = !colour          ? cell_of_ascii
                                           : has_millions() ? cell_of_millions
                                                            : cell_of_256;
    for (ptrdiff_t i = 0; i < pixels.shape.n[0]; i += 2) {
        for (ptrdiff_t j = 0; j < pixels.shape.n[1]; j++)
            cell(to, grey(pixels, i, j), grey(pixels, i + 1, j));
        fputs(colour ? "\033[0m\n" : "\n", to);
    }
}

/* ---- bars ------------------------------------------------------------------------------------ */

/* Characters, not bytes, of UTF-8. */
static int characters(const char *text)
{
    int count = 0;
    for (; *text; text++) count += (*text & 0xc0) != 0x80;
    return count;
}

/* In eighths of a character where there is colour, and so a terminal of this age. */
static void bar(FILE *to, double value, int width, bool colour)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    int parts = colour ? 8 : 1, length = (int)lround(value * width * parts);
    for (int i = 0; i < length / parts; i++) fputs(colour ? "█" : "#", to);
    if (colour) fputs(eighths[length % parts], to);
    fprintf(to, "%*s", width - (length + parts - 1) / parts, "");
}

void sketch_bars(FILE *to, const char *const *labels, const double *values, int count, int width,
                 int highlight, bool colour)
{
    int widest = 0;
    for (int i = 0; i < count; i++)
        if (characters(labels[i]) > widest) widest = characters(labels[i]);
    for (int i = 0; i < count; i++) {
        bool marked = i == highlight;
        if (colour) fputs(marked ? "\033[1;32m" : "\033[2m", to);
        fprintf(to, "%*s%s ", widest - characters(labels[i]), "", labels[i]);
        bar(to, within(values[i], 0, 1), width > 0 ? width : 0, colour);
        fprintf(to, " %5.1f %%%s%s\n", 100 * values[i], colour ? "\033[0m" : "",
                marked && !colour ? " <" : "");
    }
}

bool sketch_wants_colour(FILE *to)
{
    const char *refused = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (refused && *refused) return false;
    if (!terminal || strcmp(terminal, "dumb") == 0) return false;
    return isatty(fileno(to));
}
