/* sweep.c: see sweep.h. */
#include "tests/bench/sweep.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"
#include "tests/bench/timing.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 20, FEW = 120 };

/* The tenth percentile that is aimed at; how many times the limit a pass may take that is near it. */
static const double AIM = 1.15, NEAR = 1.25;

typedef struct row {
    cell at; /* of the best peer's result */
    double ratio, spread;
} row;

/* ---- rows ---------------------------------------------------------------------------------------- */

/* A layer that fails with one peer, or with Stride, is no row, whatever the others make of it. */
static bool fails(const campaign *c, int subject_number)
{
    for (int t = 0; t < c->threads_count; t++)
        for (int p = 0; p < c->peer_count; p++)
            if (campaign_result(c, (cell){ subject_number, t, p })->failed) return true;
    return false;
}

static row row_at(const campaign *c, int subject_number, int threads)
{
    char families[2048] = "";
    for (int p = 1; p < c->peer_count; p++) {
        const size_t used = strlen(families);
        snprintf(families + used, sizeof families - used, "%.*s ", (int)strcspn(c->peers[p].name, " "),
                 c->peers[p].name);
    }
    const cell at = { subject_number, threads, 0 };
    const comparison with = compare_with(c, at, families);
    return (row){ { subject_number, threads, with.peer }, with.ratio, with.spread };
}

static int compare(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->at.threads != y->at.threads) return x->at.threads - y->at.threads;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

/* All rows, those with the fewest threads and the least ratios first; to be freed. */
static row *rows_of(const campaign *c, int *count)
{
    row *all = calloc((size_t)(c->subject_count * c->threads_count), sizeof *all);
    *count = 0;
    for (int i = 0; all && i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count && !fails(c, i); t++) {
            const row r = row_at(c, i, t);
            if (r.at.peer > 0) all[(*count)++] = r;
        }
    if (all) qsort(all, (size_t)*count, sizeof *all, compare);
    return all;
}

static double seconds_at(const campaign *c, cell at)
{
    const result *r = campaign_result(c, at);
    return median(r->seconds, r->rounds);
}

static cell own_cell(cell at)
{
    return (cell){ at.subject, at.threads, 0 };
}

/* ---- means --------------------------------------------------------------------------------------- */

/* The table's name of a pass. */
static const char *word_of(const char *pass)
{
    return strcmp(pass, "both") == 0 ? "backward" : pass;
}

/* Little is left to gain. */
static bool is_limited(const campaign *c, const row *r)
{
    return r->ratio < AIM && seconds_at(c, own_cell(r->at)) < NEAR * limit_seconds(c, r->at);
}

/* Means of the rows with that number of threads and pass; NULL: every pass. */
static void print_means(const campaign *c, const row *all, int count, int threads, const char *pass, FILE *to)
{
    double ratio[STATISTICS_MOST], spreads[STATISTICS_MOST];
    int rows = 0, below = 0, limited = 0;
    for (int i = 0; i < count && rows < STATISTICS_MOST; i++) {
        if (all[i].at.threads != threads || (pass && strcmp(c->subjects[all[i].at.subject].pass, pass) != 0))
            continue;
        below += all[i].ratio < 0.95;
        limited += is_limited(c, &all[i]);
        spreads[rows] = all[i].spread;
        ratio[rows++] = all[i].ratio;
    }
    if (rows == 0) return;
    fprintf(to, "%-9s %d %6d %8.2fx %8.2fx %8.2fx %8.2fx %7d %8d %6.0f%%\n", pass ? word_of(pass) : "all",
            c->threads[threads], rows, geometric_mean(ratio, rows), quantile(ratio, rows, 0.1),
            median(ratio, rows), ratio[0], below, limited, 100 * median(spreads, rows));
}

static void print_all_means(const campaign *c, const row *all, int count, FILE *to)
{
    static const char *const passes[] = { NULL, "forward", "both", "gradient", "train", "infer" };
    fprintf(to, "%-9s %s %6s %9s %9s %9s %9s %7s %8s %7s\n", "pass", "t", "rows", "geo mean", "10th pct",
            "median", "least", "< 0.95", "at limit", "+-");
    for (int t = 0; t < c->threads_count; t++)
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
            print_means(c, all, count, t, passes[i], to);
}

static bool is_outside(double seconds)
{
    return seconds < 0.0003 || seconds > 0.03;
}

static void print_sizes(const campaign *c, const row *all, int count, FILE *to)
{
    int outside = 0;
    for (int i = 0; i < count; i++)
        outside += is_outside(seconds_at(c, all[i].at)) && is_outside(seconds_at(c, own_cell(all[i].at)));
    fprintf(to, "\n%d of %d rows take less than 0.3 or more than 30 ms on either side.\n", outside, count);
}

/* ---- rows by name ---------------------------------------------------------------------------------- */

static void print_row(const campaign *c, const row *r, FILE *to)
{
    const subject *s = &c->subjects[r->at.subject];
    const char *setting = c->peers[r->at.peer].name;
    fprintf(to, "%6.2fx %4.0f%% %-9s %d %9.3f %9.3f %9.3f  %-24s %s\n", r->ratio, 100 * r->spread,
            word_of(s->pass), c->threads[r->at.threads], 1e3 * seconds_at(c, own_cell(r->at)),
            1e3 * seconds_at(c, r->at), 1e3 * limit_seconds(c, r->at), setting, s->name);
}

static void print_least(const campaign *c, const row *all, int count, FILE *to)
{
    int printed[CAMPAIGN_THREADS] = { 0 };
    fprintf(to, "\n%7s %5s %-9s %s %9s %9s %9s  %-24s %s\n", "ratio", "+-", "pass", "t", "stride ms",
            "peer ms", "limit ms", "peer", "what");
    for (int i = 0; i < count; i++)
        if (count <= FEW || printed[all[i].at.threads]++ < LEAST) print_row(c, &all[i], to);
    fprintf(
        to,
        "\nratio: how many times as fast as the best peer Stride is, the median of %d rounds in "
        "alternation; +-: the\n"
        "distance of their quartiles. t: threads. backward: dx and the parameters' gradients in one "
        "call; gradient: those\n"
        "alone, as a first layer needs. limit: the longer time of the nominal multiply-adds at the "
        "processor's peak and\n"
        "of a copy of as many bytes as must be read and written; at limit: rows below %.2f for which Stride "
        "takes less\n"
        "than %.2f times the limit.\n",
        c->rounds, AIM, NEAR);
}

/* ---- what is no row -------------------------------------------------------------------------------- */

/* A request without any row, unless it differs: why. */
static const char *reason(const campaign *c, int subject_number)
{
    const char *why = NULL;
    for (int p = 1; p < c->peer_count; p++) {
        const result *r = campaign_result(c, (cell){ subject_number, 0, p });
        if (r->rounds > 0) return NULL;
        if (!why && r->why_not[0]) why = r->why_not;
    }
    return why && !fails(c, subject_number) ? why : NULL;
}

static bool begins_request(const campaign *c, int i)
{
    return i == 0 || strcmp(c->subjects[i - 1].request, c->subjects[i].request) != 0;
}

static void print_absent(const campaign *c, FILE *to)
{
    int requests = 0, absent = 0;
    for (int i = 0; i < c->subject_count; i++) {
        requests += begins_request(c, i) && !c->subjects[i].alone;
        absent += begins_request(c, i) && reason(c, i);
    }
    if (absent > 0) fprintf(to, "\nleft out, %d of %d, as no peer has them:\n", absent, requests);
    for (int i = 0; i < c->subject_count; i++)
        if (begins_request(c, i) && reason(c, i)) fprintf(to, "%s: %s\n", c->subjects[i].name, reason(c, i));
}

int sweep_failures(const campaign *c)
{
    int count = 0;
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++)
            for (int p = 0; p < c->peer_count; p++) count += campaign_result(c, (cell){ i, t, p })->failed;
    return count;
}

static void print_failures(const campaign *c, FILE *to)
{
    if (sweep_failures(c) > 0) fputc('\n', to);
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++)
            for (int p = 0; p < c->peer_count; p++) {
                const result *r = campaign_result(c, (cell){ i, t, p });
                if (r->failed)
                    fprintf(to, "FAIL %s %s, %s: %s\n", c->subjects[i].name, c->subjects[i].pass,
                            c->peers[p].name, r->why_not);
            }
}

/* ---- all ------------------------------------------------------------------------------------------- */

void sweep_table(const campaign *c, FILE *to)
{
    int count;
    row *all = rows_of(c, &count);
    if (!all) return;
    fputc('\n', to);
    print_all_means(c, all, count, to);
    print_sizes(c, all, count, to);
    print_least(c, all, count, to);
    print_absent(c, to);
    print_failures(c, to);
    free(all);
}

void sweep_csv(const campaign *c, FILE *to)
{
    int count;
    row *all = rows_of(c, &count);
    fputs("ratio,spread,pass,threads,stride_ms,peer_ms,limit_ms,peer,what\n", to);
    for (int i = 0; all && i < count; i++) {
        const row *r = &all[i];
        fprintf(to, "%.4g,%.4g,%s,%d,%.6g,%.6g,%.6g,\"%s\",\"%s\"\n", r->ratio, r->spread,
                word_of(c->subjects[r->at.subject].pass), c->threads[r->at.threads],
                1e3 * seconds_at(c, own_cell(r->at)), 1e3 * seconds_at(c, r->at),
                1e3 * limit_seconds(c, r->at), c->peers[r->at.peer].name, c->subjects[r->at.subject].name);
    }
    free(all);
}
