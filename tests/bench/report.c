/* report.c: see report.h. */
#include "tests/bench/report.h"
#include "tests/bench/peak.h"
#include "tests/bench/timing.h"

#include <math.h>
#include <string.h>

/* ---- rates --------------------------------------------------------------------------------------- */

/* The machine's subjects come first: multiply-adds, BLAS, the copy. */
enum { MULTIPLY_ADDS = 0, COPY = 2 };

/* Work that every thread does is counted once a thread. */
static double flops_of(const campaign *c, cell at)
{
    if (at.subject == MULTIPLY_ADDS) return peak_flops * c->threads[at.threads];
    return c->subjects[at.subject].flops;
}

rates report_rates(const campaign *c, cell at)
{
    const result *r = campaign_result(c, at);
    double seconds = median(r->seconds, r->rounds);
    cell multiply_adds = { MULTIPLY_ADDS, at.threads, 0 }, copy_cell = { COPY, at.threads, 0 };
    double peak = flops_of(c, multiply_adds) / campaign_best(c, multiply_adds);
    double copy = c->subjects[COPY].bytes / campaign_best(c, copy_cell);
    double flops = flops_of(c, at) / seconds, bytes = c->subjects[at.subject].bytes / seconds;
    return (rates){
        .seconds = seconds,
        .spread = spread(r->seconds, r->rounds),
        .gflops = flops / 1e9,
        .share_of_peak = flops / peak,
        .gigabytes = bytes / 1e9,
        .share_of_copy = bytes / copy,
        .images = c->subjects[at.subject].images / seconds,
    };
}

/* ---- a table ------------------------------------------------------------------------------------- */

/* Nothing where there is nothing to say. */
static void print_number(FILE *to, const char *format, int width, double value)
{
    if (value > 0) fprintf(to, format, width, value);
    else fprintf(to, "%*s", width, "");
}

static void print_row(const campaign *c, cell at, FILE *to)
{
    const subject *s = &c->subjects[at.subject];
    const result *r = campaign_result(c, at);
    rates x = report_rates(c, at);
    fprintf(to, "%-30s %-9s %d", s->name, strcmp(s->pass, "run") == 0 ? "" : s->pass, c->threads[at.threads]);
    fprintf(to, " %10.4f %4.0f%%", x.seconds * 1e3, x.spread * 100);
    print_number(to, " %*.1f", 8, x.gflops);
    print_number(to, " %*.0f%%", 5, x.share_of_peak * 100);
    print_number(to, " %*.1f", 7, x.gigabytes);
    print_number(to, " %*.0f%%", 5, x.share_of_copy * 100);
    print_number(to, " %*.0f", 8, x.images);
    if (strcmp(s->pass, "train") == 0) print_number(to, " %*.0f", 5, r->peak);
    else fprintf(to, " %5s", "");
    if (s->images > 0 && r->allocations >= 0) fprintf(to, " %6ld", r->allocations);
    fprintf(to, "\n");
}

void report_table(const campaign *c, FILE *to)
{
    fprintf(to, "%-30s %-9s %s %10s %5s %8s %6s %7s %6s %8s %5s %6s\n", "", "pass", "t", "ms", "+-",
            "GFLOP/s", "peak", "GB/s", "copy", "images/s", "MB", "allocs");
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++) print_row(c, (cell){ i, t, 0 }, to);
    fprintf(
        to,
        "\nt: threads. ms: the median of %d rounds in alternation; +-: the distance of their quartiles.\n"
        "GFLOP/s: nominal, two a multiply-add of convolutions and dense layers; peak: the share of\n"
        "`fma`, at its best round.\n"
        "GB/s: bytes that must be read or written at least once; copy: the share of `copy`, which counts\n"
        "what it reads and what it writes, and is the C library's. MB: the process's peak in 10^6 bytes.\n"
        "allocs: calls of malloc and its relatives in the measured steps.\n",
        c->rounds);
}

/* ---- comma-separated values ---------------------------------------------------------------------- */

static void write_row(const campaign *c, cell at, FILE *to)
{
    const subject *s = &c->subjects[at.subject];
    const result *r = campaign_result(c, at);
    rates x = report_rates(c, at);
    if (r->rounds == 0) return;
    fprintf(to, "%s,%s,%s,%d,%.9g,%.4g,%.4g,%.4g,%.4g,%.4g,%.6g,%.4g,%ld\n", c->peers[at.peer].name, s->name,
            s->pass, c->threads[at.threads], x.seconds, x.spread, x.gflops, x.share_of_peak, x.gigabytes,
            x.share_of_copy, x.images, r->peak, r->allocations);
}

void report_csv(const campaign *c, FILE *to)
{
    fputs("peer,subject,pass,threads,seconds,spread,gflops,share_of_peak,gigabytes,share_of_copy,"
          "images_per_second,process_peak_mb,allocations\n",
          to);
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++)
            for (int p = 0; p < c->peer_count; p++) write_row(c, (cell){ i, t, p }, to);
}

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

/* ---- a table of peers -------------------------------------------------------------------------------- */

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

static void print_comparisons(const campaign *c, cell at, FILE *to)
{
    const subject *s = &c->subjects[at.subject];
    bool any = false;
    for (int p = 1; p < c->peer_count; p++)
        any = any || campaign_result(c, (cell){ at.subject, at.threads, p })->rounds > 0;
    if (!any) return;
    fprintf(to, "%-30s %-9s %d %10.4f", s->name, s->pass, c->threads[at.threads], seconds_of(c, at) * 1e3);
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
        for (int t = 0; t < c->threads_count; t++) print_comparisons(c, (cell){ i, t, 0 }, to);
    fprintf(to,
            "\nms: medians of %d rounds in alternation. ratio: how many times as fast as the peer, at the "
            "setting\n"
            "that is its best, Stride is: the median of the rounds' ratios; +-: the distance of their "
            "quartiles.\n"
            "Settings at half their best's speed were measured in the first round only.\n",
            c->rounds);
    print_absent(c, to);
}
