/* eval.c: stride eval: a saved net on a data set. */
#include "examples/stride/commands.h"
#include "examples/stride/scores.h"
#include "examples/stride/dataset.h"

#include <string.h>

typedef struct settings {
    dataset_options source;
    const char *model;
    int part;
    long batch, threads;
    bool json;
} settings;

static int show(const model *m, const settings *s, const dataset *from, const scores *found)
{
    if (!s->json) {
        printf("%s: %td samples of %s\n\n", s->model, found->count, from->text);
        scores_print(found, m, stdout);
        if (found->classes > 0) printf("accuracy=%.4f ", scores_accuracy(found));
        printf("loss=%.4f\n", found->loss);
        return 0;
    }
    json_t *all = scores_json(found, m);
    json_object_set_new(all, "model", json_string(s->model));
    json_object_set_new(all, "data", json_string(from->text));
    if (json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9))) error_set("the result is not JSON");
    putchar('\n');
    json_decref(all);
    return 0;
}

static int evaluate(const settings *s)
{
    model m;
    dataset from = { 0 };
    scores found = { 0 };
    dataset_options options = s->source;
    data *normal = NULL;
    if (model_open(&m, s->model, s->batch)) return -1;
    dataset_recall(&options, m.net);
    if (dataset_open(&from, &options, stderr) == 0) {
        const char *trained_on = net_note_text(m.net, "data");
        if (trained_on && !s->source.data && (strcmp(trained_on, "drawn digits") == 0) != from.drawn)
            fprintf(stderr, "stride eval: the net was trained on %s, these are %s\n", trained_on, from.text);
        const data *set = s->part == 1 || !from.test ? from.train : from.test;
        if (s->part == 2 && !from.test) error_set("%s has no test part", from.text);
        else if (m.scale) set = normal = data_normalize(set, m.scale);
        if (!error_text() && scores_measure(&found, m.net, set, m.loss) == 0) show(&m, s, &from, &found);
    }
    scores_free(&found);
    data_free(normal);
    dataset_close(&from);
    model_close(&m);
    return error_text() ? -1 : 0;
}

static int run(const void *settings_, int count, char **operands)
{
    const settings *s = settings_;
    (void)count, (void)operands;
    use_threads(s->threads);
    evaluate(s);
    return subcommand_end(&command_eval);
}

static const option_row options[] = {
    { "model", 'm', OPTION_FILE, offsetof(settings, model), "FILE", MODEL_FILE,
      "a net that stride train saved" },
    DATASET_OPTIONS(settings, source),
    { "part", 'p', OPTION_CHOICE, offsetof(settings, part), "auto|train|test", "auto",
      "of data that have a test part: that, or" },
    { "batch", 'b', OPTION_INTEGER, offsetof(settings, batch), "N", "64", "images at a time", 1, 65536 },
    { "threads", 't', OPTION_INTEGER, offsetof(settings, threads), "N", NULL,
      "how many; without it as many as there are", 0, 1024 },
    { "json", 'j', OPTION_FLAG, offsetof(settings, json), .help = "print JSON" },
    { 0 },
};

const subcommand command_eval = {
    .name = "eval",
    .what = "Evaluates a saved net on a data set: loss, accuracy, which classes are taken for which.",
    .usage = "[--model FILE] [--data PATH] [options]",
    .details =
        "The input is normalised, and tables and pictures are read, as they were in training: the net's file "
        "says how.",
    .examples = "  stride eval --data data/mnist\n"
                "  stride eval --model cats.safetensors --data pictures/test --json\n",
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
