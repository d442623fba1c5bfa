/* results.c: see results.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/atlas/golden.h"
#include "examples/atlas/look.h"
#include "examples/atlas/results.h"
#include "examples/stride/page.h"
#include <stride.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- statistics ----------------------------------------------------------------------------------- */

/* The mean and the deviation of the sample, whose variance is divided by n - 1; null for one value. */
static json_t *summary_of(json_t *values)
{
    const size_t n = json_array_size(values);
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++) mean += json_number_value(json_array_get(values, i)) / (double)n;
    for (size_t i = 0; i < n; i++) square += pow(json_number_value(json_array_get(values, i)) - mean, 2);
    return json_pack("{s:f, s:o, s:O}", "mean", mean, "deviation",
                     page_number(n > 1 ? sqrt(square / (double)(n - 1)) : (double)NAN), "values", values);
}

/* A measure of all runs of a candidate; nothing where no run has it. */
static void put_summary(json_t *row, const json_t *runs, const char *measure)
{
    json_t *values = json_array();
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *value = json_object_get(json_array_get(runs, i), measure);
        if (value) page_add(values, json_real(json_number_value(value)));
    }
    if (json_array_size(values) > 0) json_object_set_new(row, measure, summary_of(values));
    json_decref(values);
}

/* ---- experiments ---------------------------------------------------------------------------------- */

/* By chance 90 % of ten classes are wrong. The smallest scale is too short to learn. */
static bool is_stuck(const atlas *a, const json_t *run)
{
    return a->scale != SMOKE && json_number_value(json_object_get(run, "error")) > 80;
}

static json_t *row_of(const atlas *a, const experiment *e, const candidate *c)
{
    static const char *const measures[] = { "error", "consistency", "shifted", "seconds", "parameters" };
    json_t *runs = json_array(), *row = json_pack("{s:s, s:s}", "name", c->name, "layers", c->layers);
    int failed = 0, stuck = 0;
    for (int seed = 1; seed <= e->size[a->scale].seeds; seed++) {
        json_t *run = run_recall(a, (job){ .of = e, .with = c, .seed = seed });
        if (!run) continue;
        failed += json_object_get(run, "failed") != NULL;
        if (seed == 1 && json_object_get(run, "learned"))
            json_object_set(row, "learned", json_object_get(run, "learned"));
        stuck += is_stuck(a, run);
        if (is_stuck(a, run)) json_decref(run);
        else page_add(runs, run);
    }
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) put_summary(row, runs, measures[i]);
    if (c->claim > 0) json_object_set_new(row, "claim", json_real(c->claim));
    if (!run_is_possible(c->layers)) json_object_set_new(row, "missing", json_true());
    json_object_set_new(row, "runs", json_integer(stuck + (json_int_t)json_array_size(runs)));
    json_object_set_new(row, "stuck", json_integer(stuck));
    json_object_set_new(row, "failed", json_integer(failed));
    json_decref(runs);
    return row;
}

static json_t *experiment_json(const atlas *a, const experiment *e)
{
    const experiment_size *n = &e->size[a->scale];
    json_t *rows = json_array();
    for (const candidate *c = e->candidates; c->name; c++) page_add(rows, row_of(a, e, c));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "key", e->key, "title", e->title,
                     "claim", e->claim, "scaled", e->scaled, "net", e->net, "train", n->train, "test",
                     n->test, "epochs", n->epochs, "seeds", n->seeds, "rows", rows);
}

/* ---- facts ---------------------------------------------------------------------------------------- */

static void processor(char text[128])
{
    FILE *from = fopen("/proc/cpuinfo", "r");
    char line[256];
    snprintf(text, 128, "unknown");
    while (from && fgets(line, sizeof line, from))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(text, 128, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"), strchr(line, ':') + 2);
            break;
        }
    if (from) fclose(from);
}

static json_t *facts(const atlas *a)
{
    static const char *const commands[SCALES] = { "make atlas", "make atlas ATLAS=quick",
                                                  "a test of a few seconds" };
    char cpu[128], date[32];
    const time_t now = time(NULL);
    processor(cpu);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    return json_pack("[[s, s], [s, s], [s, o], [s, s], [s, s]]", "command", commands[a->scale], "date", date,
                     "processor", page_text(cpu), "version", st_version(), "data",
                     a->data.drawn ? a->data.source : "MNIST");
}

json_t *results_gather(const atlas *a)
{
    json_t *experiments = json_array(), *golden = golden_run(), *look = golden ? look_at_poolings(a) : NULL;
    for (const experiment *e = plan_experiments; e->key; e++) page_add(experiments, experiment_json(a, e));
    json_t *all = NULL;
    if (look && !st_error()) {
        all = json_pack("{s:o, s:b, s:O, s:O}", "facts", facts(a), "comparable", !a->data.drawn, "golden",
                        golden, "experiments", experiments);
        json_object_update(all, look);
    }
    json_decref(experiments);
    json_decref(golden);
    json_decref(look);
    return all;
}

/* ---- tables of text ------------------------------------------------------------------------------- */

static const char *text_in(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static int integer_in(const json_t *object, const char *key)
{
    return (int)json_integer_value(json_object_get(object, key));
}

static void put_measure(FILE *to, const json_t *row, const char *measure, int digits)
{
    const json_t *m = json_object_get(row, measure), *deviation = json_object_get(m, "deviation");
    if (!m) fputs("– | ", to);
    else if (json_is_null(deviation))
        fprintf(to, "%.*f | ", digits, json_number_value(json_object_get(m, "mean")));
    else
        fprintf(to, "%.*f ± %.*f | ", digits, json_number_value(json_object_get(m, "mean")), digits,
                json_number_value(deviation));
}

static void put_row(FILE *to, const json_t *row, bool shifts, bool claims)
{
    const double claim = json_number_value(json_object_get(row, "claim"));
    const int failed = integer_in(row, "failed");
    fprintf(to, "| %s | ", text_in(row, "name"));
    if (json_object_get(row, "missing")) fputs("(not in this library) ", to);
    if (failed > 0) fprintf(to, "(%d diverged) ", failed);
    if (integer_in(row, "stuck") > 0) fprintf(to, "(%d learned nothing) ", integer_in(row, "stuck"));
    put_measure(to, row, "error", 2);
    if (claims && claim > 0) fprintf(to, "%.2f | ", claim);
    else if (claims) fputs("– | ", to);
    if (shifts) put_measure(to, row, "consistency", 2), put_measure(to, row, "shifted", 2);
    fprintf(to, "%.0f | %d |\n",
            json_number_value(json_object_get(json_object_get(row, "parameters"), "mean")),
            integer_in(row, "runs"));
}

static void put_experiment(FILE *to, const json_t *e)
{
    bool shifts = false, claims = false;
    size_t i;
    const json_t *row, *rows = json_object_get(e, "rows");
    json_array_foreach(rows, i, row)
    {
        shifts |= json_object_get(row, "consistency") != NULL;
        claims |= json_object_get(row, "claim") != NULL;
    }
    fprintf(to, "\n## %s\n\n%s\n\n%s %d images to train on in %d epochs, %d to test on.\n\n",
            text_in(e, "title"), text_in(e, "claim"), text_in(e, "scaled"), integer_in(e, "train"),
            integer_in(e, "epochs"), integer_in(e, "test"));
    fprintf(to, "| pooling | errors, %% | %s%sparameters | runs |\n|---|---|%s%s---|---|\n",
            claims ? "paper | " : "", shifts ? "consistent, % | errors, shifted, % | " : "",
            claims ? "---|" : "", shifts ? "---|---|" : "");
    json_array_foreach(rows, i, row) put_row(to, row, shifts, claims);
}

static void put_golden(FILE *to, const json_t *all)
{
    size_t i;
    const json_t *row;
    fputs("\n## 1. Golden cases\n\n| layer | case | error of y | of the gradient |\n|---|---|---|---|\n", to);
    json_array_foreach(json_object_get(all, "golden"), i, row)
    {
        const json_t *dx = json_object_get(row, "dx");
        fprintf(to, "| `%s` | %s | ", text_in(row, "layer"), text_in(row, "case"));
        if (json_object_get(row, "missing")) fputs("(not in this library) | |\n", to);
        else if (json_is_real(dx))
            fprintf(to, "%g | %g |\n", json_number_value(json_object_get(row, "y")), json_number_value(dx));
        else fprintf(to, "%g | |\n", json_number_value(json_object_get(row, "y")));
    }
}

static void put_time(FILE *to, const json_t *p, const char *what, double base)
{
    const json_t *t = json_object_get(p, what);
    const double median = json_number_value(json_object_get(t, "median"));
    if (t) fprintf(to, "%.2f | %.2f | ", median, median / base);
    else fputs("– | – | ", to);
}

static void put_speed(FILE *to, const json_t *all)
{
    const json_t *list = json_object_get(all, "poolings"), *first = json_array_get(list, 0), *p;
    const double layer = json_number_value(json_object_get(json_object_get(first, "layer"), "median"));
    const double step = json_number_value(json_object_get(json_object_get(first, "step"), "median"));
    size_t i;
    fputs("\n## Speed\n\nMilliseconds of one thread's processor time for a batch of 64, forward and "
          "backward, medians.\n\n"
          "| pooling | alone | times max | step of the small net | times max |\n|---|---|---|---|---|\n",
          to);
    json_array_foreach(list, i, p)
    {
        fprintf(to, "| %s | ", text_in(p, "name"));
        put_time(to, p, "layer", layer), put_time(to, p, "step", step);
        fputc('\n', to);
    }
}

void results_print(const json_t *all, FILE *to)
{
    size_t i;
    const json_t *fact, *e;
    fputs("# The atlas\n\n", to);
    json_array_foreach(json_object_get(all, "facts"), i, fact)
        fprintf(to, "- %s: %s\n", json_string_value(json_array_get(fact, 0)),
                json_string_value(json_array_get(fact, 1)));
    if (!json_is_true(json_object_get(all, "comparable")))
        fputs("\nThe digits are drawn, not MNIST's: these numbers are not comparable with those of the "
              "papers.\n",
              to);
    put_golden(to, all);
    json_array_foreach(json_object_get(all, "experiments"), i, e) put_experiment(to, e);
    put_speed(to, all);
}
