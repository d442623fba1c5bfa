/* progress.c: a bar for people, lines for files. */
#define _POSIX_C_SOURCE 200809L
#include "nn/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double redraw_seconds = 0.1;
enum { BAR = 24 };

progress progress_begin(FILE *to)
{
    const char *terminal = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    progress p = { .to = to, .shown = -1 };
    p.terminal = to && isatty(fileno(to)) && terminal && strcmp(terminal, "dumb") != 0;
    p.colour = p.terminal && !(no_colour && no_colour[0]);
    return p;
}

static void put_score(FILE *to, const char *what, const train_score *s)
{
    if (isnan(s->loss) && isnan(s->accuracy)) return;
    fprintf(to, "  %sloss %.4f", what, s->loss);
    if (!isnan(s->accuracy)) fprintf(to, "  %saccuracy %.4f", what, s->accuracy);
}

static void put_time(FILE *to, double seconds)
{
    long s = seconds > 0 ? lround(seconds) : 0;
    if (s >= 3600) fprintf(to, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else fprintf(to, "%ld:%02ld", s / 60, s % 60);
}

void progress_step(progress *p, const train_report *r, long step_in_epoch, long steps_an_epoch,
                   double images_per_second)
{
    if (!p->terminal || (r->seconds - p->shown < redraw_seconds && step_in_epoch < steps_an_epoch)) return;
    p->shown = r->seconds;
    int filled = (int)(BAR * step_in_epoch / steps_an_epoch);
    fprintf(p->to, "\r\033[Kepoch %d/%d %s", r->epoch, r->epochs, p->colour ? "\033[32m" : "");
    for (int i = 0; i < BAR; i++) fputs(i < filled ? "━" : i == filled ? "╸" : " ", p->to);
    fprintf(p->to, "%s %3ld %%", p->colour ? "\033[0m" : "", 100 * step_in_epoch / steps_an_epoch);
    put_score(p->to, "", &r->training);
    fprintf(p->to, "  %.0f images/s  ", images_per_second);
    put_time(p->to, r->step > 0 ? r->seconds / (double)r->step * (double)(r->steps - r->step) : 0);
    fputs(" left", p->to);
    fflush(p->to);
}

void progress_epoch(progress *p, const train_report *r, double images_per_second)
{
    if (!p->to) return;
    if (p->terminal) fputs("\r\033[K", p->to);
    fprintf(p->to, "epoch %d/%d", r->epoch, r->epochs);
    put_score(p->to, "", &r->training);
    put_score(p->to, "validation ", &r->validation);
    fprintf(p->to, "  lr %.3g  %.0f images/s  ", r->lr, images_per_second);
    put_time(p->to, r->seconds);
    fputs(r->best ? "  best\n" : "\n", p->to);
    fflush(p->to);
}
