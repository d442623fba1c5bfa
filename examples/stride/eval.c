/* eval.c: stride eval: evaluates a saved net on a data set. */
#include "examples/stride/commands.h"
#include "examples/stride/dataset.h"
#include "examples/stride/mnist.h"
#include "examples/stride/model.h"
#include "examples/stride/scores.h"
#include "examples/stride/text.h"
#include "nn/data/sets.h"
#include "nn/files/metadata.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    dataset_options source;
    const char *model;
    int part;
    double split; /* 0: not given */
    long batch, threads, seed;
    bool json;
} settings;

static void show(const model *m, const settings *s, const dataset *from, const scores *found,
                 const char *remark)
{
    if (!s->json) {
        text_put(stdout, s->model);
        printf(": %td samples of ", found->count);
        text_put_in(stdout, "", from->text, "\n");
        printf("%s%s\n", remark, *remark ? "\n" : "");
        scores_print(found, (const char *const *)m->shown, stdout);
        if (!isnan(found->accuracy)) printf("accuracy=%.4f ", found->accuracy);
        printf("loss=%.4f\n", found->loss);
        return;
    }
    json_t *all = scores_json(found, (const char *const *)m->name);
    if (json_object_set_new(all, "model", json_string(s->model)) ||
        json_object_set_new(all, "data", json_string(from->text)) ||
        (*remark && json_object_set_new(all, "remark", json_string(remark))))
        st_error_set("a path that is not UTF-8 cannot be written as JSON");
    if (!st_error()) text_put_json(stdout, all);
    json_decref(all);
}

static bool is_trained_on(const model *m, const st_dataset *set)
{
    const char *noted = st_net_metadata(m->net, "trained_on");
    const dataset_identity id = dataset_identify(set);
    return noted && !st_error() && strcmp(noted, id.text) == 0;
}

/* A remark on the samples, for the reader of their scores; "": none. */
typedef struct remark_text {
    char text[200];
} remark_text;

static void remark_training(const model *m, const st_dataset *set, remark_text *to)
{
    const char *split = st_net_metadata(m->net, "split");
    if (!is_trained_on(m, set)) return;
    snprintf(to->text, sizeof to->text,
             "the net was trained on these samples, so this is no test of it%s%.30s%s",
             split ? "; --split evaluates the part of " : "", split ? split : "",
             split ? " that was held out" : "");
}

/* The part of a set that training held out: its fraction and seed are in the net's metadata. NULL with an
 * error. */
static const st_dataset *hold_out(const model *m, const settings *s, const st_dataset *set,
                                  st_dataset *parts[2], remark_text *to)
{
    const char *split = st_net_metadata(m->net, "split"), *seed = st_net_metadata(m->net, "split_seed");
    const double noted = split ? strtod(split, NULL) : 0, fraction = s->split > 0 ? s->split : noted;
    const uint64_t noted_seed = seed ? strtoull(seed, NULL, 10) : 1,
                   chosen = s->seed ? (uint64_t)s->seed : noted_seed;
    if (fraction == 0)
        st_error_set("--split: the net was trained without; give the fraction, such as --split 0.2");
    else if (st_dataset_split(set, fraction, chosen, &parts[0], &parts[1])) st_error_within("--split: ");
    else if (!is_trained_on(m, set))
        snprintf(to->text, sizeof to->text,
                 "the net was not trained on this set, so no part of it was held out");
    else if (fraction != noted || chosen != noted_seed)
        snprintf(to->text, sizeof to->text, "training held out another part%s%.30s",
                 split ? ": --split " : "", split ? split : "");
    return parts[0];
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
    st_dataset *parts[2] = { NULL, NULL };
    remark_text remark = { "" };
    const st_dataset *set = s->part == 1 || s->split != 0 || !from->test ? from->train : from->test;
    if (s->part == 2 && !from->test) st_error_set("%s has no test part", from->text);
    else if (s->split != 0) set = hold_out(m, s, set, parts, &remark);
    else remark_training(m, set, &remark);
    if (!st_error() && m->scale) set = normal = st_dataset_normalize(set, m->scale);
    if (!st_error() && scores_measure(&found, m->net, set, m->loss, m->target_scale) == 0)
        show(m, s, from, &found, remark.text);
    scores_free(&found);
    st_dataset_free(normal), st_dataset_free(parts[0]), st_dataset_free(parts[1]);
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
    { "split", 'S', OPTION_MAYBE, AT(split), "X",
      .help = "evaluate the part that train --split held out; X: its fraction, default: that of training",
      .least = 1e-9, .most = 0.99 },
    { "seed", 's', OPTION_INTEGER, AT(seed), "N", NULL, "the seed of --split; default: that of training", 0,
      1e15 },
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
        "MODEL is a safetensors file. Data are read and normalised as in training, with the options in the "
        "net's metadata. Classes and columns of tables are matched by name. A set that the net was trained "
        "on is reported as such; --split evaluates the part of it that training held out.",
    .examples = "  stride eval data/mnist\n"
                "  stride eval cats.safetensors pictures/test --json\n"
                "  stride eval flowers.safetensors flowers.csv --split\n",
    .operands = { "model", "data" },
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
