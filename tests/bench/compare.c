/* compare.c: see compare.h. */
#include "tests/bench/compare.h"
#include "tests/bench/report.h"
#include "tests/bench/statistics.h"

#include <math.h>
#include <string.h>

/* ---- peers and their settings --------------------------------------------------------------------- */

static size_t family_length(const char *name)
{
    return strcspn(name, " ");
}

static bool is_of(const peer *p, const char *family)
{
    size_t length = family_length(family);
    return family_length(p->name) == length && strncmp(p->name, family, length) == 0;
}

static const char *setting_of(const peer *p)
{
    const char *rest = p->name + family_length(p->name);
    return *rest ? rest + 1 : "";
}

/* The first of its family among the peers: one for each family. */
static bool leads(const campaign *c, int number)
{
    for (int p = 1; p < number; p++)
        if (is_of(&c->peers[p], c->peers[number].name)) return false;
    return true;
}

/* ---- ratios -------------------------------------------------------------------------------------- */

static double seconds_of(const campaign *c, cell at)
{
    const result *r = campaign_result(c, at);
    return median(r->seconds, r->rounds); /* NaN, which is less than nothing, where there is none */
}

comparison compare_to(const campaign *c, cell at)
{
    const result *own = campaign_result(c, (cell){ at.subject, at.threads, 0 }),
                 *other = campaign_result(c, at);
    double ratio[CAMPAIGN_ROUNDS];
    for (int i = 0; i < other->rounds; i++) ratio[i] = other->seconds[i] / own->seconds[i];
    return (comparison){ at.peer, median(ratio, other->rounds), spread(ratio, other->rounds) };
}

comparison compare_with(const campaign *c, cell at, const char *family)
{
    int best = 0;
    double least = INFINITY;
    for (int p = 1; p < c->peer_count; p++) {
        double seconds = seconds_of(c, (cell){ at.subject, at.threads, p });
        if (!is_of(&c->peers[p], family) || !(seconds < least)) continue;
        least = seconds;
        best = p;
    }
    at.peer = best;
    return best ? compare_to(c, at) : (comparison){ 0, NAN, NAN };
}

/* ---- a table ------------------------------------------------------------------------------------- */

static void print_comparison(const campaign *c, cell at, const comparison *with, FILE *to)
{
    if (!with->peer) {
        fprintf(to, "  %-38s", "");
        return;
    }
    double seconds = seconds_of(c, (cell){ at.subject, at.threads, with->peer });
    fprintf(to, "  %10.4f %6.2fx %3.0f%% %-14s", seconds * 1e3, with->ratio, with->spread * 100,
            setting_of(&c->peers[with->peer]));
}

static void print_row(const campaign *c, cell at, FILE *to)
{
    const subject *s = &c->subjects[at.subject];
    bool any = false;
    for (int p = 1; p < c->peer_count; p++)
        any = any || campaign_result(c, (cell){ at.subject, at.threads, p })->rounds > 0;
    if (!any) return;
    fprintf(to, "%-30s %-9s %d %10.4f", s->name, s->pass, campaign_threads[at.threads],
            seconds_of(c, at) * 1e3);
    for (int p = 1; p < c->peer_count; p++) {
        if (!leads(c, p)) continue;
        comparison with = compare_with(c, at, c->peers[p].name);
        print_comparison(c, at, &with, to);
    }
    fputc('\n', to);
}

static bool measured_any(const campaign *c, int number)
{
    for (int p = 1; p < c->peer_count; p++)
        for (int i = 0; i < c->subject_count && is_of(&c->peers[p], c->peers[number].name); i++)
            if (campaign_result(c, (cell){ i, 0, p })->rounds > 0) return true;
    return false;
}

/* Peers of which no setting measured anything, and why. */
static void print_absent(const campaign *c, FILE *to)
{
    for (int p = 1; p < c->peer_count; p++)
        for (int i = 0; i < c->subject_count && leads(c, p) && !measured_any(c, p); i++) {
            const char *reason = campaign_result(c, (cell){ i, 0, p })->why_not;
            if (!reason[0]) continue;
            fprintf(to, "%s: nothing measured: %s\n", c->peers[p].name, reason);
            break;
        }
}

void compare_table(const campaign *c, FILE *to)
{
    fprintf(to, "%-30s %-9s %s %10s", "", "pass", "t", "stride ms");
    for (int p = 1; p < c->peer_count; p++)
        if (leads(c, p))
            fprintf(to, "  %7.*s ms  ratio   +- %-14s", (int)family_length(c->peers[p].name),
                    c->peers[p].name, "setting");
    fputc('\n', to);
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++) print_row(c, (cell){ i, t, 0 }, to);
    fprintf(to,
            "\nms: medians of %d rounds in alternation. ratio: how many times as fast as the peer, at the "
            "setting\n"
            "that is its best, Stride is: the median of the rounds' ratios; +-: the distance of their "
            "quartiles.\n",
            c->rounds);
    print_absent(c, to);
}

/* ---- comma-separated values ---------------------------------------------------------------------- */

static void write_row(const campaign *c, cell at, FILE *to)
{
    const subject *s = &c->subjects[at.subject];
    const result *r = campaign_result(c, at);
    if (r->rounds == 0) return;
    comparison with = compare_to(c, at);
    fprintf(to, "%s,%s,%d,%.9g,%.*s,%s,%.9g,%.4g,%.4g,%.4g\n", s->name, s->pass, campaign_threads[at.threads],
            seconds_of(c, (cell){ at.subject, at.threads, 0 }), (int)family_length(c->peers[at.peer].name),
            c->peers[at.peer].name, setting_of(&c->peers[at.peer]), seconds_of(c, at), with.ratio,
            with.spread, r->peak);
}

void compare_csv(const campaign *c, FILE *to)
{
    fputs("subject,pass,threads,stride_seconds,peer,setting,seconds,ratio,spread,process_peak_mb\n", to);
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++)
            for (int p = 1; p < c->peer_count; p++) write_row(c, (cell){ i, t, p }, to);
}
