/* moonshot.c: see moonshot.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/moonshot.h"
#include "tensor/error.h"
#include "tests/bench/compare.h"
#include "tests/bench/report.h"
#include "tests/bench/statistics.h"
#include "tests/bench/timing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- mnist --------------------------------------------------------------------------------------- */

static double accuracy_in(FILE *output)
{
    char line[1024];
    double accuracy = NAN;
    while (fgets(line, sizeof line, output)) {
        const char *at = strstr(line, "accuracy=");
        if (at) accuracy = strtod(at + strlen("accuracy="), NULL);
    }
    return accuracy;
}

int moonshot_mnist(const char *command, mnist_run *run)
{
    double began = now();
    FILE *output = popen(command, "r");
    if (!output) return st_error_set("%s: %s", command, strerror(errno));
    run->accuracy = accuracy_in(output);
    int status = pclose(output);
    run->seconds = now() - began;
    return status == 0 && !isnan(run->accuracy) ? 0 : st_error_set("%s: it gives no accuracy", command);
}

/* ---- lines --------------------------------------------------------------------------------------- */

typedef enum sense { AT_LEAST, AT_MOST, BELOW } sense;

static bool is_met(double value, sense s, double goal)
{
    return s == AT_LEAST ? value >= goal : s == AT_MOST ? value <= goal : value < goal;
}

/* A goal in one unit: "x", "%", "s"; NaN was not measured. */
static void line(FILE *to, const char *what, int threads, double value, sense s, double goal,
                 const char *unit)
{
    static const char *const signs[] = { ">=", "<=", "<" };
    char text[32] = "-", count[8] = "";
    if (!isnan(value)) snprintf(text, sizeof text, "%.2f%s", value, unit);
    if (threads) snprintf(count, sizeof count, "%d", threads);
    fprintf(to, "%-62s %1s %9s   %2s %4g%-2s %s\n", what, count, text, signs[s], goal, unit,
            isnan(value)             ? "not measured"
            : is_met(value, s, goal) ? "met"
                                     : "NOT MET");
}

static double seconds_of(const campaign *c, int which, int threads)
{
    const result *r = campaign_result(c, (cell){ which, threads, 0 });
    return median(r->seconds, r->rounds);
}

/* ---- goals against peers ------------------------------------------------------------------------- */

typedef struct aim {
    const char *network;
    double ratio;
} aim;

static void networks_against(const campaign *c, const char *pass, const char *family, const aim *goals,
                             FILE *to)
{
    for (const aim *g = goals; g->network; g++)
        for (int t = 0; t < c->threads_count; t++) {
            int which = campaign_find(c, g->network, pass);
            char what[80];
            snprintf(what, sizeof what, "%s %s, times as fast as %s", pass, g->network, family);
            double ratio = which < 0 ? NAN : compare_with(c, (cell){ which, t, 0 }, family).ratio;
            line(to, what, campaign_threads[t], ratio, AT_LEAST, g->ratio, "x");
        }
}

static bool is_kind(const subject *s, const char *const *kinds)
{
    for (; *kinds; kinds++)
        if (strncmp(s->name, *kinds, strlen(*kinds)) == 0 && s->name[strlen(*kinds)] == ' ') return true;
    return false;
}

/* NaN where there is no such peer, or it did not do that. */
static double ratio_to_setting(const campaign *c, cell at, const char *name)
{
    for (int p = 1; p < c->peer_count; p++)
        if (strcmp(c->peers[p].name, name) == 0)
            return compare_to(c, (cell){ at.subject, at.threads, p }).ratio;
    return NAN;
}

/* Against oneDNN's best, or against one setting of it. */
static void convolutions(const campaign *c, int threads, const char *setting, FILE *to)
{
    static const char *const kinds[] = { "conv", NULL };
    double ratio[STATISTICS_MOST];
    char what[80];
    int count = 0;
    for (int i = 0; i < c->subject_count; i++) {
        cell at = { i, threads, 0 };
        if (!is_kind(&c->subjects[i], kinds)) continue;
        double r = setting ? ratio_to_setting(c, at, setting) : compare_with(c, at, "dnnl").ratio;
        if (!isnan(r)) ratio[count++] = r;
    }
    snprintf(what, sizeof what, "convolution, geometric mean of %d against %s", count,
             setting ? setting : "dnnl's best");
    line(to, what, campaign_threads[threads], geometric_mean(ratio, count), AT_LEAST, 1, "x");
}

/* ---- what moves memory --------------------------------------------------------------------------- */

static const char *const moving[] = { "maxpool", "avgpool", "relu", "gelu", "sigmoid", "dropout", NULL };

/* How many of them there are, how many reach the goal, and which is the worst. */
typedef struct tally {
    int count, good, worst;
    double least;
} tally;

static void add(tally *t, int which, double value, double least_wanted)
{
    if (isnan(value)) return;
    if (t->count == 0 || value < t->least) {
        t->least = value;
        t->worst = which;
    }
    t->count++;
    t->good += value >= least_wanted;
}

static void tally_line(const campaign *c, const tally *t, const char *than, int threads, double wanted,
                       const char *unit, FILE *to)
{
    char what[160];
    const subject *s = &c->subjects[t->worst];
    int at = snprintf(what, sizeof what, "%d of %d that move memory; least %s", t->good, t->count, than);
    if (t->count > 0) snprintf(what + at, sizeof what - at, " %.8s.. %s", s->name, s->pass);
    line(to, what, threads, t->count ? t->least : NAN, AT_LEAST, wanted, unit);
}

static void memory_movers(const campaign *c, FILE *to)
{
    for (int t = 0; t < c->threads_count; t++) {
        tally copy = { 0 }, dnnl = { 0 };
        for (int i = 0; i < c->subject_count; i++) {
            if (!is_kind(&c->subjects[i], moving)) continue;
            add(&copy, i, 100 * report_rates(c, (cell){ i, t, 0 }).share_of_copy, 70);
            add(&dnnl, i, compare_with(c, (cell){ i, t, 0 }, "dnnl").ratio, 1);
        }
        tally_line(c, &copy, "of copy:", campaign_threads[t], 70, "%", to);
        tally_line(c, &dnnl, "dnnl:", campaign_threads[t], 1, "x", to);
    }
}

/* ---- Stride alone -------------------------------------------------------------------------------- */

static void two_threads(const campaign *c, const aim *networks, FILE *to)
{
    if (c->threads_count < 2) return;
    for (const aim *g = networks; g->network; g++) {
        int which = campaign_find(c, g->network, "train");
        char what[80];
        snprintf(what, sizeof what, "train %s, two threads against one", g->network);
        double ratio = which < 0 ? NAN : seconds_of(c, which, 0) / seconds_of(c, which, 1);
        line(to, what, 2, ratio, AT_LEAST, 1.9, "x");
    }
}

static double memory_ratio(const campaign *c, int which)
{
    double least = INFINITY;
    for (int p = 1; p < c->peer_count; p++) {
        const result *r = campaign_result(c, (cell){ which, 0, p });
        if (strncmp(c->peers[p].name, "torch", 5) == 0 && r->rounds > 0 && r->peak < least) least = r->peak;
    }
    return isinf(least) ? NAN : campaign_result(c, (cell){ which, 0, 0 })->peak / least;
}

static double most_allocations(const campaign *c)
{
    double most = NAN;
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++) {
            const result *r = campaign_result(c, (cell){ i, t, 0 });
            if (c->subjects[i].images > 0 && r->allocations >= 0) most = fmax(most, (double)r->allocations);
        }
    return most;
}

void moonshot_table(const campaign *c, const mnist_run *mnist, FILE *to)
{
    static const aim training[] = {
        { "example", 4 }, { "lenet5", 4 }, { "bnnet", 3.5 }, { "mlp", 2 }, { 0 }
    };
    static const aim inference[] = { { "example", 2.2 },
                                     { "lenet5", 2 },
                                     { "bnnet", 1.4 },
                                     { "mlp", 1.15 },
                                     { "lenet5 of one image", 2 },
                                     { "example of one image", 2 },
                                     { 0 } };
    int example = campaign_find(c, "example", "train");
    fprintf(to, "\n%-62s %1s %9s   %s\n", "the moonshot", "t", "measured", "goal");
    networks_against(c, "train", "torch", training, to);
    networks_against(c, "infer", "onnx", inference, to);
    line(to, "share of `fma`, train example", 1,
         example < 0 ? NAN : 100 * report_rates(c, (cell){ example, 0, 0 }).share_of_peak, AT_LEAST, 60, "%");
    for (int t = 0; t < c->threads_count; t++) {
        convolutions(c, t, NULL, to);
        convolutions(c, t, "dnnl direct", to);
    }
    memory_movers(c, to);
    two_threads(c, training, to);
    line(to, "train example, peak memory against torch's process", 1,
         example < 0 ? NAN : memory_ratio(c, example), AT_MOST, 0.5, "x");
    line(to, "networks, allocations in the steps measured", 0, most_allocations(c), AT_MOST, 0, "");
    line(to, "make mnist, time", 0, mnist->seconds > 0 ? mnist->seconds : NAN, BELOW, 5, "s");
    line(to, "make mnist, accuracy", 0, mnist->seconds > 0 ? 100 * mnist->accuracy : NAN, AT_LEAST, 99, "%");
}
