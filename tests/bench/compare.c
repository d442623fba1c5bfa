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

static const char *setting_of(const peer *p)
{
    const char *rest = p->name + family_length(p->name);
    return *rest ? rest + 1 : "";
}

/* The first of its family among the peers: one for each family. */
static bool leads(const campaign *c, int number)
{
    for (int p = 1; p < number; p++)
        if (peer_is_of(&c->peers[p], c->peers[number].name)) return false;
    return true;
}

/* ---- ratios -------------------------------------------------------------------------------------- */

static double seconds_of(const campaign *c, cell at)
{
    const result *r = campaign_result(c, at);
    return median(r->seconds, r->rounds); /* NaN, which is less than nothing, where there is none */
}

static comparison compare_to(const campaign *c, cell at)
{
    const result *own = campaign_result(c, (cell){ at.subject, at.threads, 0 }),
                 *other = campaign_result(c, at);
    double ratio[CAMPAIGN_ROUNDS];
    for (int i = 0; i < other->rounds; i++) ratio[i] = other->seconds[i] / own->seconds[i];
    return (comparison){ at.peer, median(ratio, other->rounds), spread(ratio, other->rounds) };
}

comparison compare_with(const campaign *c, cell at, const char *families)
{
    int best = 0;
    double least = INFINITY;
    for (int p = 1; p < c->peer_count; p++) {
        double seconds = seconds_of(c, (cell){ at.subject, at.threads, p });
        if (!peer_is_of(&c->peers[p], families) || !(seconds < least)) continue;
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
        fprintf(to, "  %-44s", "");
        return;
    }
    double seconds = seconds_of(c, (cell){ at.subject, at.threads, with->peer });
    fprintf(to, "  %10.4f %6.2fx %3.0f%% %-20s", seconds * 1e3, with->ratio, with->spread * 100,
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

/* Each peer's reasons, told once where one is that of several subjects; some have none. */
static void print_absent(const campaign *c, FILE *to)
{
    for (int p = 1; p < c->peer_count; p++) {
        const char *told = "";
        for (int i = 0; i < c->subject_count; i++) {
            const char *reason = campaign_result(c, (cell){ i, 0, p })->why_not;
            if (!reason[0] || strcmp(reason, told) == 0) continue;
            fprintf(to, "%s: %s %s, and perhaps others: %s\n", c->peers[p].name, c->subjects[i].name,
                    c->subjects[i].pass, reason);
            told = reason;
        }
    }
}

void compare_table(const campaign *c, FILE *to)
{
    fprintf(to, "%-30s %-9s %s %10s", "", "pass", "t", "stride ms");
    for (int p = 1; p < c->peer_count; p++)
        if (leads(c, p))
            fprintf(to, "  %7.*s ms  ratio   +- %-20s", (int)family_length(c->peers[p].name),
                    c->peers[p].name, "setting");
    fputc('\n', to);
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++) print_row(c, (cell){ i, t, 0 }, to);
    fprintf(to,
            "\nms: medians of %d rounds in alternation. ratio: how many times as fast as the peer, at the "
            "setting\n"
            "that is its best, Stride is: the median of the rounds' ratios; +-: the distance of their "
            "quartiles.\n"
            "Settings at half their best's speed were measured in the first round only.\n",
            c->rounds);
    print_absent(c, to);
}
