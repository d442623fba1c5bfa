/* progress.c: a bar on a terminal, lines elsewhere. */
#define _DEFAULT_SOURCE /* the size of a terminal */
#define _DARWIN_C_SOURCE
#include "nn/callbacks/callbacks.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const double redraw_seconds = 0.1;
enum { BAR = 20, LONGEST_LINE = 256, USUAL_WIDTH = 80 };

typedef struct progress {
    FILE *to;             /* NULL: nothing is shown */
    bool terminal, drawn; /* drawn: the bar is on the terminal's last line */
    double shown;         /* seconds at the last drawing */
} progress;

static progress begin(FILE *to)
{
    const char *terminal = getenv("TERM");
    return (progress){ to, isatty(fileno(to)) && terminal && strcmp(terminal, "dumb") != 0, .shown = -1 };
}

/* The terminal's width, which may change during the run. */
static int width_of(FILE *terminal)
{
    struct winsize size;
    return ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL_WIDTH;
}

/* A line under construction. */
typedef struct line {
    char text[LONGEST_LINE];
    int length;
} line;

static void put(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(line *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(l->text + l->length, (size_t)(LONGEST_LINE - l->length), format, arguments);
    va_end(arguments);
    l->length = more < LONGEST_LINE - l->length ? l->length + more : LONGEST_LINE - 1;
}

static void put_score(line *l, const char *what, const st_metrics *s)
{
    if (isnan(s->loss) && isnan(s->accuracy)) return;
    put(l, "  %sloss %.4f", what, s->loss);
    if (!isnan(s->accuracy)) put(l, "  %saccuracy %.4f", what, s->accuracy);
}

static void put_time(line *l, double seconds)
{
    const long s = lround(seconds);
    if (s >= 3600) put(l, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else put(l, "%ld:%02ld", s / 60, s % 60);
}

static double samples_per_second(const st_run *run)
{
    return run->training_seconds > 0 ? run->images / run->training_seconds : 0;
}

static void show_step(progress *p, const st_run *run)
{
    const st_train_report *r = &run->report;
    if (!p->terminal || (r->seconds - p->shown < redraw_seconds && run->batch < run->steps_per_epoch)) return;
    p->shown = r->seconds;
    p->drawn = true;
    const int done = (int)(BAR * run->batch / run->steps_per_epoch);
    line l = { .length = 0 };
    put(&l, "epoch %d/%d %3ld %% [%.*s%*s]", r->epoch, r->epochs, 100 * run->batch / run->steps_per_epoch,
        done, "====================", BAR - done, "");
    put_score(&l, "", &r->training);
    put(&l, "  ");
    put_time(&l, r->seconds / (double)r->step * (double)(r->steps - r->step));
    put(&l, " left  %.0f samples/s", samples_per_second(run));
    fprintf(p->to, "\r\033[K%.*s", width_of(p->to) - 1, l.text); /* a longer line could not be redrawn */
    fflush(p->to);
}

static void erase(progress *p)
{
    if (p->drawn) fputs("\r\033[K", p->to);
    p->drawn = false;
}

static void show_epoch(progress *p, const st_run *run)
{
    const st_train_report *r = &run->report;
    line l = { .length = 0 };
    put(&l, "epoch %d/%d", r->epoch, r->epochs);
    put_score(&l, "", &r->training);
    put_score(&l, "validation ", &r->validation);
    put(&l, "  lr %.3g  %.0f samples/s  ", r->lr, samples_per_second(run));
    put_time(&l, r->seconds);
    erase(p);
    fprintf(p->to, "%s%s\n", l.text, r->best ? "  best" : "");
    fflush(p->to);
}

static void call(st_callback *self, st_run *run, st_event event)
{
    progress *p = (void *)&self->options;
    if (!p->to || run->rank > 0) return;
    if (event == ST_ON_BEGIN) *p = begin(p->to);
    if (event == ST_ON_STEP) show_step(p, run);
    if (event == ST_ON_EPOCH && !st_error()) show_epoch(p, run);
    if (event == ST_ON_END) erase(p);
}

st_callback st_progress(FILE *to)
{
    return (st_callback){ .name = "progress", .call = call, .options.pointer = to };
}
