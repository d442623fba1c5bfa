/* eval.c: stride eval: evaluates a saved net on a data set. */
#include "examples/stride/commands.h"
#include "examples/stride/dataset.h"
#include "examples/stride/model.h"
#include "examples/stride/scores.h"
#include "examples/stride/text.h"

#include <string.h>

typedef struct settings {
    dataset_options source;
    const char *model;
    int part;
    long batch, threads;
    bool json;
} settings;

static void show(const model *m, const settings *s, const dataset *from, const scores *found)
{
    if (!s->json) {
        text_put(stdout, s->model);
        printf(": %td samples of ", found->count);
        text_put(stdout, from->text);
        fputs("\n\n", stdout);
        scores_print(found, (const char *const *)m->shown, stdout);
        if (found->classes > 0) printf("accuracy=%.4f ", found->accuracy);
        printf("loss=%.4f\n", found->loss);
        return;
    }
    json_t *all = scores_json(found, (const char *const *)m->name);
    if (json_object_set_new(all, "model", json_string(s->model)) ||
        json_object_set_new(all, "data", json_string(from->text)))
        st_error_set("a path that is not UTF-8 cannot be written as JSON");
    if (!st_error() && json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)))
        st_error_set("the result cannot be written as JSON");
    if (!st_error()) putchar('\n');
    json_decref(all);
}

static void evaluate(const model *m, const settings *s, const dataset *from)
{
    scores found = { 0 };
    st_dataset *normal = NULL;
    const char *trained_on = st_net_metadata(m->net, "data");
    if (trained_on && !s->source.data && (strcmp(trained_on, "drawn digits") == 0) != from->drawn)
        fprintf(stderr, "stride eval: the net was trained on %s, the data are %s\n", trained_on, from->text);
    const st_dataset *set = s->part == 1 || !from->test ? from->train : from->test;
    if (s->part == 2 && !from->test) st_error_set("%s has no test part", from->text);
    else if (m->scale) set = normal = st_dataset_normalize(set, m->scale);
    if (!st_error() && scores_measure(&found, m->net, set, m->loss, m->target_scale) == 0)
        show(m, s, from, &found);
    scores_free(&found);
    st_dataset_free(normal);
}

static int run(const void *settings_, int count, char **operands)
{
    const settings *s = settings_;
    model m;
    dataset from;
    dataset_options options = s->source;
    if (count > 0 && options.data) return subcommand_refuse(&command_eval, "--data is given twice");
    if (count > 0) options.data = operands[0];
    use_threads(&command_eval, s->threads);
    if (model_open(&m, s->model, s->batch)) return subcommand_end(&command_eval);
    dataset_recall(&options, m.net);
    if (dataset_open(&from, &options, stderr) == 0) {
        settings given = *s;
        given.source = options;
        ptrdiff_t names = m.classes ? m.classes->count : 0;
        if (dataset_match(&from, names, (const char *const *)m.name) == 0) evaluate(&m, &given, &from);
        dataset_close(&from);
    }
    model_close(&m);
    return subcommand_end(&command_eval);
}

static const option_row options[] = {
    { "model", 'm', OPTION_FILE, offsetof(settings, model), "FILE", MODEL_FILE, "a saved net" },
    DATASET_OPTIONS(settings, source),
    { "part", 'p', OPTION_CHOICE, offsetof(settings, part), "auto|train|test", "auto",
      "the part to evaluate; auto: the test part if there is one" },
    { "batch", 'b', OPTION_INTEGER, offsetof(settings, batch), "N", "64", "images per batch", 1, 65536 },
    THREADS_OPTION(settings),
    { "json", 'j', OPTION_FLAG, offsetof(settings, json), .help = "print JSON" },
    { 0 },
};

const subcommand command_eval = {
    .name = "eval",
    .what = "Evaluates a saved net on a data set: loss, accuracy, and the confusion matrix.",
    .usage = "[--model FILE] [DATA] [options]",
    .details =
        "Data are read and normalised as in training, with the options in the net's metadata. Classes and "
        "columns of tables are matched by name.",
    .examples = "  stride eval data/mnist\n"
                "  stride eval pictures/test --model cats.safetensors --json\n",
    .most = 1,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
