/* compare.c: stride report: the curves of several logs in one page. */
#include "examples/stride/paths.h"
#include "examples/stride/commands.h"
#include "examples/stride/report.h"
#include "examples/stride/page.h"
#include "examples/stride/text.h"

#include <limits.h>
#include <math.h>

enum { MOST_RUNS = 6 };

typedef struct settings {
    const char *output;
} settings;

/* The epoch of the least loss: of the validation set, or of training if there is none. */
static int best_of(const history *h)
{
    const bool validated = isfinite(h->epochs[0].validation.loss);
    int best = 0;
    double least = INFINITY;
    for (int i = 0; i < h->count; i++) {
        const st_train_report *r = &h->epochs[i];
        const double loss = validated ? r->validation.loss : r->training.loss;
        if (loss < least) least = loss, best = i;
    }
    return best;
}

static json_t *comparison_json(int count, char **path, const history run[])
{
    json_t *runs = json_array();
    for (int i = 0; i < count && !st_error(); i++)
        page_add(runs, report_run(path[i], run[i].epochs, run[i].count, best_of(&run[i])));
    return json_pack("{s:s, s:b, s:o}", "title", "Runs compared", "compared", true, "runs", runs);
}

static int run(void *settings_, int count, char **operands)
{
    const settings *s = settings_;
    history of[MOST_RUNS] = { 0 };
    for (int i = 0; i < count; i++)
        if (path_same(s->output, operands[i]))
            return subcommand_refuse(&command_report, "--output and %s are the same file", operands[i]);
    for (int i = 0; i < count && !st_error(); i++)
        if (log_check(operands[i]) == 0 && log_recall(operands[i], INT_MAX, &of[i]) == 0 && of[i].count == 0)
            st_error_set("%.200s: contains no epoch", operands[i]);
    if (!st_error() && page_write(s->output, comparison_json(count, operands, of)) == 0)
        text_put_in(stdout, "report: ", s->output, "\n");
    for (int i = 0; i < count; i++) history_free(&of[i]);
    return 0;
}

static const option_row options[] = {
    { "output", 'o', OPTION_TEXT, AT(output), "FILE", "report.html", "the page to write" },
    { 0 },
};

const subcommand command_report = {
    .name = "report",
    .what = "Compares runs: writes a page with the curves of their logs (stride train --log).",
    .usage = "LOG... [--output FILE]",
    .details = "At most six runs. stride train --report writes the page of a single run, with its confusion "
               "matrix and mistakes.",
    .examples = "  stride report adam.csv sgd.csv\n"
                "  stride report runs/a.jsonl runs/b.jsonl --output runs.html\n",
    .least = 1,
    .most = MOST_RUNS,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
