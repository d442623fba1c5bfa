/* moonshot.c: see moonshot.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/moonshot.h"
#include "tensor/error.h"
#include "tests/bench/report.h"
#include "tests/bench/timing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- whole programs ------------------------------------------------------------------------------ */

/* The number that follows the word in a line, if it does. */
static void find_number(const char *line, const char *word, double *value)
{
    const char *at = strstr(line, word);
    if (at) *value = strtod(at + strlen(word), NULL);
}

/* The last numbers that follow these words in what the command prints; the second word may be NULL. */
static int run(const char *command, const char *first, double *one, const char *second, double *two)
{
    char line[1024];
    FILE *output = popen(command, "r");
    if (!output) return st_error_set("%s: %s", command, strerror(errno));
    while (fgets(line, sizeof line, output)) {
        find_number(line, first, one);
        if (second) find_number(line, second, two);
    }
    return pclose(output) == 0 && !isnan(*one) ? 0 : st_error_set("%s: it gives no %s", command, first);
}

int moonshot_mnist(const char *command, program_runs *runs)
{
    double began = now();
    int status = run(command, "accuracy=", &runs->mnist_accuracy, NULL, NULL);
    runs->mnist_seconds = now() - began;
    return status;
}

int moonshot_once(const char *command, program_runs *runs)
{
    return run(command, "seconds=", &runs->once_seconds, "megabytes=", &runs->once_megabytes);
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
    fprintf(to, "%-66s %1s %9s   %2s %4g%-2s %s\n", what, count, text, signs[s], goal, unit,
            isnan(value)             ? "not measured"
            : is_met(value, s, goal) ? "met"
                                     : "NOT MET");
}

/* The time that Stride takes; NaN where it was not measured. */
static double seconds_of(const campaign *c, int which, int threads)
{
    if (which < 0) return NAN;
    const result *r = campaign_result(c, (cell){ which, threads, 0 });
    return median(r->seconds, r->rounds);
}

/* ---- networks ------------------------------------------------------------------------------------ */

typedef struct aim {
    const char *network;
    double ratio;
} aim;

static void networks_against(const campaign *c, const char *pass, const char *families, const aim *goals,
                             int threads_count, FILE *to)
{
    for (const aim *g = goals; g->network; g++)
        for (int t = 0; t < threads_count; t++) {
            int which = campaign_find(c, g->network, pass);
            char what[80];
            snprintf(what, sizeof what, "%s %s, times as fast as %s", pass, g->network, families);
            double ratio = which < 0 ? NAN : compare_with(c, (cell){ which, t, 0 }, families).ratio;
            line(to, what, c->threads[t], ratio, AT_LEAST, g->ratio, "x");
        }
}

/* Stride's training of networks with this ending of their names, with two threads against one. */
static void against_itself(const campaign *c, const char *title, const char *ending, const aim *goals,
                           FILE *to)
{
    for (const aim *g = goals; g->network && c->threads_count > 1; g++) {
        char name[SUBJECT_TEXT], what[80];
        snprintf(name, sizeof name, "%s%s", g->network, ending);
        snprintf(what, sizeof what, "train %s, %s", g->network, title);
        int which = campaign_find(c, name, "train");
        double ratio = seconds_of(c, which, 0) / seconds_of(c, which, 1);
        line(to, what, c->threads[1], ratio, AT_LEAST, g->ratio, "x");
    }
}

/* ---- layers: the least of many ------------------------------------------------------------------- */

typedef enum measure { TIMES_DNNL, SHARE_OF_PEAK } measure;

static bool has_part(const subject *s, const char *const *parts)
{
    for (; *parts; parts++)
        if (strstr(s->name, *parts)) return true;
    return false;
}

/* Prints the least value of the subjects with one of these in their names, which one that is, and maybe the
 * geometric mean. */
static void layers(const campaign *c, const char *title, const char *const *parts, measure m, double least,
                   double mean, FILE *to)
{
    for (int t = 0; t < c->threads_count; t++) {
        double value[STATISTICS_MOST], lowest = NAN;
        int count = 0, worst = 0;
        char what[160], lead[80];
        for (int i = 0; i < c->subject_count; i++) {
            cell at = { i, t, 0 };
            if (!has_part(&c->subjects[i], parts)) continue;
            double x =
                m == TIMES_DNNL ? compare_with(c, at, "dnnl").ratio : 100 * report_rates(c, at).share_of_peak;
            if (isnan(x)) continue;
            if (!(x >= lowest)) lowest = x, worst = i;
            value[count++] = x;
        }
        const subject *s = &c->subjects[worst];
        snprintf(lead, sizeof lead, "%s: %d, the least", title, count);
        snprintf(what, sizeof what, count ? "%s %s %s" : "%s", lead, s->name, s->pass);
        line(to, what, c->threads[t], lowest, AT_LEAST, least, m == TIMES_DNNL ? "x" : "%");
        snprintf(what, sizeof what, "%s: %d, geometric mean", title, count);
        if (mean > 0) line(to, what, c->threads[t], geometric_mean(value, count), AT_LEAST, mean, "x");
    }
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

void moonshot_table(const campaign *c, const program_runs *runs, FILE *to)
{
    static const aim training[] = {
        { "lenet5", 4 }, { "example", 4 }, { "bnnet", 3.5 }, { "mlp", 2 }, { 0 }
    };
    static const aim inference[] = {
        { "lenet5", 2 }, { "example", 2.2 }, { "bnnet", 1.4 }, { "mlp", 1.15 }, { 0 }
    };
    static const aim single[] = { { "lenet5 of one image", 2 }, { "example of one image", 2 }, { 0 } };
    static const aim second[] = {
        { "lenet5", 1.9 }, { "example", 1.9 }, { "bnnet", 1.9 }, { "mlp", 1.6 }, { 0 }
    };
    static const aim busy[] = {
        { "lenet5", 0.9 }, { "example", 0.9 }, { "bnnet", 0.9 }, { "mlp", 0.9 }, { 0 }
    };
    fprintf(to, "\n%-66s %1s %9s   %s\n", "the moonshot", "t", "measured", "goal");
    networks_against(c, "train", "torch", training, c->threads_count, to);
    networks_against(c, "infer", "onnx torch", inference, c->threads_count, to);
    networks_against(c, "infer", "onnx", single, 1, to);
    layers(c, "convolution/dnnl", (const char *[]){ "conv ", NULL }, TIMES_DNNL, 1, 1.3, to);
    layers(c, "pool, relu/dnnl", (const char *[]){ "pool ", "relu ", NULL }, TIMES_DNNL, 1, 0, to);
    layers(c, "product/fma", (const char *[]){ "@1x1", "dense ", NULL }, SHARE_OF_PEAK, 90, 0, to);
    against_itself(c, "two threads against one", "", second, to);
    against_itself(c, "beside a busy process, two threads against one", " beside a busy process", busy, to);
    line(to, "predicting one picture, from exec on", 0, 1e3 * runs->once_seconds, AT_MOST, 8, "ms");
    line(to, "predicting one picture, peak memory", 0, runs->once_megabytes, AT_MOST, 8, "MB");
    line(to, "make mnist, time", 0, runs->mnist_seconds, BELOW, 3, "s");
    line(to, "make mnist, accuracy", 0, 100 * runs->mnist_accuracy, AT_LEAST, 99, "%");
    line(to, "networks, allocations in the steps measured", 0, most_allocations(c), AT_MOST, 0, "");
}
