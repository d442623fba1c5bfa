/* sketch.c: a character cell, twice as high as wide, shows two square pixels. */
#define _DEFAULT_SOURCE /* struct winsize */
#include "examples/stride/sketch.h"
#include "examples/stride/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

bool sketch_on_terminal(FILE *to)
{
    const char *terminal = getenv("TERM");
    return to && terminal && strcmp(terminal, "dumb") != 0 && isatty(fileno(to));
}

bool sketch_in_colour(FILE *to)
{
    const char *refused = getenv("NO_COLOR");
    return sketch_on_terminal(to) && !(refused && *refused);
}

int sketch_columns(FILE *to)
{
    struct winsize size;
    return ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static double clamp(double x)
{
    return !(x > 0) ? 0 : x < 1 ? x : 1; /* NaN: 0 */
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Element (k, i, j); black below the last row. */
static double level(st_tensor image, ptrdiff_t k, ptrdiff_t i, ptrdiff_t j)
{
    return i < image.shape.n[1] ? clamp((double)*st_at(image, ST_INDEX(k, i, j))) : 0;
}

/* One of the terminal's 256 colours: 232 to 255 are greys, 16 to 231 a cube of 6 x 6 x 6, whose corners are
 * black and white. */
static int colour_of(st_tensor image, ptrdiff_t i, ptrdiff_t j)
{
    if (image.shape.n[0] == 3)
        return 16 + 36 * (int)lround(5 * level(image, 0, i, j)) + 6 * (int)lround(5 * level(image, 1, i, j)) +
               (int)lround(5 * level(image, 2, i, j));
    const int step = (int)lround(25 * level(image, 0, i, j));
    return step == 0 ? 16 : step == 25 ? 231 : 231 + step;
}

void sketch_image(FILE *to, st_tensor image)
{
    const st_shape x = image.shape;
    for (ptrdiff_t i = 0; i < x.n[1]; i += 2) {
        for (ptrdiff_t j = 0; j < x.n[2]; j++)
            fprintf(to, "\033[38;5;%dm\033[48;5;%dm▀", colour_of(image, i, j), colour_of(image, i + 1, j));
        fputs("\033[0m\n", to);
    }
}

/* ---- bars ------------------------------------------------------------------------------------- */

void sketch_bars(FILE *to, bool colour, const char *const *labels, const double *values, int count, int width)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    int widest = 0;
    for (int i = 0; i < count; i++)
        if (text_width(labels[i]) > widest) widest = text_width(labels[i]);
    const int room = sketch_columns(to) - widest - 10; /* between the label and the percent */
    if (width > room) width = room > 1 ? room : 1;
    for (int i = 0; i < count; i++) {
        const int length = (int)lround(8 * width * clamp(values[i]));
        fprintf(to, "%s%*s%s ",
                !colour ? ""
                : i     ? "\033[2m"
                        : "\033[1;32m",
                widest - text_width(labels[i]), "", labels[i]);
        for (int k = 0; k < length / 8; k++) fputs("█", to);
        fprintf(to, "%s%*s %5.1f %%%s\n", eighths[length % 8], width - (length + 7) / 8, "", 100 * values[i],
                colour ? "\033[0m" : "");
    }
}

/* ---- progress --------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

sketch_progress sketch_begin(FILE *to, const char *what)
{
    return (sketch_progress){ to, what, .begun = now(), .terminal = sketch_on_terminal(to) };
}

void sketch_step(sketch_progress *p, ptrdiff_t done, ptrdiff_t of)
{
    const double seconds = p->to ? now() - p->begun : 0;
    if (seconds - p->shown < (p->terminal ? p->shown > 0 ? 0.1 : 1 : 10)) return;
    p->shown = seconds;
    fprintf(p->to, p->terminal ? "\r\033[K%s: %td" : "%s: %td", p->what, done);
    if (of > 0) fprintf(p->to, " of %td", of);
    if (!p->terminal) fputc('\n', p->to);
    fflush(p->to);
}

void sketch_erase(sketch_progress *p)
{
    if (!p->terminal || p->shown == 0) return;
    fputs("\r\033[K", p->to);
    fflush(p->to);
}
