/* eval.c: stride eval: evaluates a saved net on a data set. */
#include "examples/stride/commands.h"
#include "examples/stride/dataset.h"
#include "examples/stride/mnist.h"
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
        text_put_in(stdout, "", from->text, "\n\n");
        scores_print(found, (const char *const *)m->shown, stdout);
        if (found->classes > 0) printf("accuracy=%.4f ", found->accuracy);
        printf("loss=%.4f\n", found->loss);
        return;
    }
    json_t *all = scores_json(found, (const char *const *)m->name);
    if (json_object_set_new(all, "model", json_string(s->model)) ||
        json_object_set_new(all, "data", json_string(from->text)))
        st_error_set("a path that is not UTF-8 cannot be written as JSON");
    if (!st_error()) text_put_json(stdout, all);
    json_decref(all);
}

static void evaluate(const model *m, const settings *s, const dataset *from)
{
    scores found = { 0 };
    st_dataset *normal = NULL;
    const char *trained_on = st_net_metadata(m->net, "data");
    if (trained_on && !s->source.data &&
        (strcmp(trained_on, DRAWN_DIGITS) == 0) != (strcmp(from->text, DRAWN_DIGITS) == 0)) {
        text_put_in(stderr, "stride eval: the net was trained on ", trained_on, ", the data are ");
        text_put_in(stderr, "", from->text, "\n");
    }
    const st_dataset *set = s->part == 1 || !from->test ? from->train : from->test;
    if (s->part == 2 && !from->test) st_error_set("%s has no test part", from->text);
    else if (m->scale) set = normal = st_dataset_normalize(set, m->scale);
    if (!st_error() && scores_measure(&found, m->net, set, m->loss, m->target_scale) == 0)
        show(m, s, from, &found);
    scores_free(&found);
    st_dataset_free(normal);
}

static int run(void *settings_, int count, char **operands)
{
    (void)count, (void)operands;
    settings *s = settings_;
    model m;
    dataset from;
    if (model_open(&m, s->model, s->batch)) return 0;
    if (dataset_open_for(&from, &m, &s->source) == 0) {
        evaluate(&m, s, &from);
        dataset_close(&from);
    }
    model_close(&m);
    return 0;
}

static const option_row options[] = {
    MODEL_OPTION,
    DATASET_OPTIONS,
    { "part", 'p', OPTION_CHOICE, AT(part), "auto|train|test", "auto",
      "the part to evaluate; auto: the test part if there is one" },
    { "batch", 'b', OPTION_INTEGER, AT(batch), "N", "64", "samples per batch", 1, 65536 },
    THREADS_OPTION,
    { "json", 'j', OPTION_FLAG, AT(json), .help = "print JSON" },
    { 0 },
};

const subcommand command_eval = {
    .name = "eval",
    .what = "Evaluates a saved net on a data set: loss, accuracy, and the confusion matrix.",
    .usage = "[MODEL] [DATA] [options]",
    .details =
        "MODEL is a .safetensors file. Data are read and normalised as in training, with the options in the "
        "net's metadata. Classes and columns of tables are matched by name.",
    .examples = "  stride eval data/mnist\n"
                "  stride eval cats.safetensors pictures/test --json\n",
    .operands = { "model", "data" },
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
