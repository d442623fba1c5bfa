/* compare.c: stride report: the curves of several logs in one page. */
#include "examples/stride/paths.h"
#include "examples/stride/commands.h"
#include "examples/stride/report.h"
#include "examples/stride/page.h"
#include "examples/stride/text.h"
#include "nn/files/replace.h"

#include <limits.h>
#include <math.h>

enum { MOST_RUNS = 6 };

typedef struct settings {
    const char *output;
} settings;

typedef struct comparison {
    int count;
    char **path;
    history run[MOST_RUNS];
} comparison;

/* Of the validation set, or of training if there is none. */
static const st_metrics *score_of(const st_train_report *r)
{
    return isfinite(r->validation.loss) ? &r->validation : &r->training;
}

static int best_of(const history *h)
{
    int best = 0;
    for (int i = 0; i < h->count; i++)
        if (score_of(&h->epochs[i])->loss < score_of(&h->epochs[best])->loss) best = i;
    return best;
}

#define OF(member) offsetof(st_train_report, member)

/* `otherwise` is the value of runs without a validation set. */
static void put_chart(FILE *to, const comparison *c, chart kind, size_t value, size_t otherwise)
{
    static const char *const styles[MOST_RUNS] = { "run0", "run1", "run2", "run3", "run4", "run5" };
    chart_line line[MOST_RUNS];
    for (int i = 0; i < c->count; i++) {
        const history *h = &c->run[i];
        const bool validated = isfinite(h->epochs[0].validation.loss);
        line[i] =
            (chart_line){ c->path[i], styles[i], validated ? value : otherwise, h->epochs, h->count, -1 };
    }
    kind.lines = c->count;
    kind.line = line;
    page_chart(to, &kind);
}

static void put_run(FILE *to, const comparison *c, int i)
{
    const st_train_report *best = &c->run[i].epochs[best_of(&c->run[i])];
    fprintf(to, "<tr><th scope=\"row\"><span class=\"key run%d\"></span>", i);
    page_text(to, c->path[i]);
    fprintf(to, "</th><td>%d of %d</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", best->epoch,
            c->run[i].count, page_value(best->training.loss).text, page_value(score_of(best)->loss).text,
            page_percent(score_of(best)->accuracy).text);
}

static int put_page(FILE *to, const void *context)
{
    const comparison *c = context;
    page_begin(to, "Runs compared");
    fputs("</header>\n<main>\n<section><h2>Best epochs</h2>\n", to);
    page_table(to, "scroll", "rows", "<log|best epoch|training loss|validation loss|accuracy");
    for (int i = 0; i < c->count; i++) put_run(to, c, i);
    fputs("</tbody></table></div></section>\n<section><h2>Epochs</h2>\n"
          "<p>Loss and accuracy on the validation set, or in training if there is none.</p>\n<div "
          "class=\"charts\">\n",
          to);
    put_chart(to, c, (chart){ "Loss", .may_be_log = true }, OF(validation.loss), OF(training.loss));
    put_chart(to, c, (chart){ "Accuracy", .percent = true }, OF(validation.accuracy), OF(training.accuracy));
    put_chart(to, c, (chart){ "Training loss", .may_be_log = true }, OF(training.loss), OF(training.loss));
    put_chart(to, c, (chart){ "Learning rate" }, OF(lr), OF(lr));
    fputs("</div></section>\n</main>\n</body></html>\n", to);
    return 0;
}

static int run(void *settings_, int count, char **operands)
{
    const settings *s = settings_;
    comparison c = { .count = count, .path = operands };
    for (int i = 0; i < count; i++)
        if (path_same(s->output, operands[i]))
            return subcommand_refuse(&command_report, "--output and %s are the same file", operands[i]);
    for (int i = 0; i < count && !st_error(); i++)
        if (log_check(operands[i]) == 0 && log_recall(operands[i], INT_MAX, &c.run[i]) == 0 &&
            c.run[i].count == 0)
            st_error_set("%.200s: contains no epoch", operands[i]);
    if (!st_error() && st_file_replace(s->output, put_page, &c) == 0)
        text_put_in(stdout, "report: ", s->output, "\n");
    for (int i = 0; i < count; i++) history_free(&c.run[i]);
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
