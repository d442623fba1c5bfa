/* progress.c: a bar on a terminal, lines elsewhere. */
#include "nn/files/streams.h"

#include "nn/callbacks/callbacks.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const double redraw_seconds = 0.1;
enum { BAR = 20, LONGEST_LINE = 256, USUAL_WIDTH = 80 };

typedef struct progress {
    FILE *to;             /* NULL: nothing is shown */
    bool terminal, drawn; /* drawn: the bar is on the terminal's last line */
    bool colour;
    double shown; /* seconds at the last drawing */
} progress;

static progress begin(FILE *to)
{
    const char *terminal = getenv("TERM"), *no_colour = getenv("NO_COLOR"); /* no-color.org */
    progress p = { .to = to, .shown = -1 };
    p.terminal = system_is_terminal(to) && terminal && strcmp(terminal, "dumb") != 0;
    p.colour = p.terminal && !(no_colour && no_colour[0]);
    return p;
}

/* The terminal's width, which may change during the run. */
static int width_of(FILE *terminal)
{
    const int columns = system_columns(terminal);
    return columns > 0 ? columns : USUAL_WIDTH;
}

/* A line under construction. */
typedef struct status_line {
    char text[LONGEST_LINE];
    int length;
} status_line;

static void put_text(status_line *l, const char *format, ...) ST_PRINTF(2, 3);
static void put_text(status_line *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(l->text + l->length, (size_t)(LONGEST_LINE - l->length), format, arguments);
    va_end(arguments);
    l->length = more < LONGEST_LINE - l->length ? l->length + more : LONGEST_LINE - 1;
}

static void put_score(status_line *l, const char *what, const st_metrics *s)
{
    if (isnan(s->loss) && isnan(s->accuracy)) return;
    put_text(l, "  %sloss %.4f", what, s->loss);
    if (!isnan(s->accuracy)) put_text(l, "  %saccuracy %.4f", what, s->accuracy);
}

static void put_time(status_line *l, double seconds)
{
    const long s = lround(seconds);
    if (s >= 3600) put_text(l, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else put_text(l, "%ld:%02ld", s / 60, s % 60);
}

/* Prints text in a colour; returns its columns, at most `room`. */
static int paint(const progress *p, const char *colour, const char *text, int room)
{
    const int length = (int)strlen(text), columns = length < room ? length : room;
    fprintf(p->to, "%s%.*s%s", p->colour ? colour : "", columns, text, p->colour ? "\033[0m" : "");
    return columns;
}

/* A line wider than the terminal could not be redrawn: it is cut off. */
static void draw(const progress *p, const status_line *head, int done, const status_line *tail)
{
    int room = width_of(p->to) - 1;
    char bar[BAR + 1], rest[BAR + 2];
    snprintf(bar, sizeof bar, "%.*s", done, "====================");
    snprintf(rest, sizeof rest, "%*s]", BAR - done, "");
    room -= fprintf(p->to, "\r\033[K%.*s", room, head->text) - 4;
    room -= paint(p, "\033[32m", bar, room);
    fprintf(p->to, "%.*s", room, rest);
    room -= (int)strlen(rest);
    fprintf(p->to, "%.*s", room > 0 ? room : 0, tail->text);
    fflush(p->to);
}

static void show_step(progress *p, const st_run *run)
{
    const st_train_report *r = &run->report;
    if (!p->terminal || (r->seconds - p->shown < redraw_seconds && r->batch < r->batches)) return;
    p->shown = r->seconds;
    p->drawn = true;
    const double taken = (double)(r->step - run->result.resumed); /* in these seconds */
    status_line head = { .length = 0 }, tail = { .length = 0 };
    put_text(&head, "epoch %d/%d %3ld %% [", r->epoch, r->epochs, 100 * r->batch / r->batches);
    put_score(&tail, "", &r->training);
    put_text(&tail, "  ");
    put_time(&tail, r->seconds / taken * (double)(r->steps - r->step));
    put_text(&tail, " left  %.0f samples/s", r->samples_per_second);
    draw(p, &head, (int)(BAR * r->batch / r->batches), &tail);
}

static void erase(progress *p)
{
    if (p->drawn) fputs("\r\033[K", p->to);
    p->drawn = false;
}

/* Two blanks separate the parts of a line; one that does not fit begins the terminal's next line. */
static void fold(char *text, int room)
{
    int column = 0;
    for (char *part = text, *end; *part; part = end) {
        end = strstr(part + 2, "  ");
        if (!end) end = part + strlen(part);
        if (column + (int)(end - part) > room) *part = '\n', column = -1;
        column += (int)(end - part);
    }
}

static void show_epoch(progress *p, const st_run *run)
{
    const st_train_report *r = &run->report;
    status_line l = { .length = 0 };
    put_text(&l, "epoch %d/%d", r->epoch, r->epochs);
    put_score(&l, "", &r->training);
    put_score(&l, "validation ", &r->validation);
    put_text(&l, "  lr %.3g  %.0f samples/s  ", r->lr, r->samples_per_second);
    put_time(&l, r->seconds);
    if (r->best) put_text(&l, "  ");
    const int plain = l.length; /* the rest is painted */
    if (r->best) put_text(&l, "best");
    if (p->terminal) fold(l.text, width_of(p->to));
    erase(p);
    fprintf(p->to, "%.*s", plain, l.text);
    if (r->best) paint(p, "\033[1;32m", l.text + plain, LONGEST_LINE);
    fputc('\n', p->to);
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
