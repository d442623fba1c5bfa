/* predict.c: stride predict: what a saved net makes of pictures, arrays, or samples of a data set. */
#include "examples/stride/sketch.h"
#include "examples/stride/commands.h"
#include "examples/stride/images.h"
#include "examples/stride/model.h"
#include "examples/stride/network.h"
#include "examples/stride/dataset.h"
#include "nn/data/npy.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 40, MOST_BARS = 64 };

typedef struct settings {
    dataset_options source;
    const char *model, *index;
    long top, threads;
    bool resize, invert, json;
} settings;

/* ---- what a net says --------------------------------------------------------------------------- */

typedef struct answer {
    double *value;     /* probabilities, or what the net gives where it was not trained on classes */
    ptrdiff_t *ranked; /* their places, the greatest first */
    ptrdiff_t count;
} answer;

static void free_answer(answer *a)
{
    free(a->value);
    free(a->ranked);
    *a = (answer){ 0 };
}

static void rank(answer *a)
{
    for (ptrdiff_t i = 0; i < a->count; i++) {
        ptrdiff_t j = i;
        for (; j > 0 && a->value[a->ranked[j - 1]] < a->value[i]; j--) a->ranked[j] = a->ranked[j - 1];
        a->ranked[j] = i;
    }
}

static int ask(const model *m, const char *name, tensor image, answer *a)
{
    tensor x = tensor_new(shape_with_batch(image.shape, 1));
    if (tensor_is_null(x)) return -1;
    tensor_copy(tensor_select(x, 0, 0), image);
    if (m->scale) normalize_apply(m->scale, x);
    tensor y = error_text() ? (tensor){ 0 } : net_forward(m->net, x, NET_PREDICT);
    if (!tensor_is_null(y)) {
        a->count = tensor_count(y);
        a->value = calloc((size_t)a->count, sizeof *a->value);
        a->ranked = calloc((size_t)a->count, sizeof *a->ranked);
        if (!a->value || !a->ranked) error_set("no memory for %td outputs", a->count);
        else if (m->loss.classes && m->net->output.rank == 1) model_softmax(tensor_select(y, 0, 0), a->value);
        else
            for (ptrdiff_t i = 0; i < a->count; i++) a->value[i] = (double)tensor_data(y)[i];
        for (ptrdiff_t i = 0; i < a->count && !error_text(); i++)
            if (!isfinite(a->value[i]))
                error_set("%s: output %td is %g", name, i, isnan(a->value[i]) ? (double)NAN : a->value[i]);
        if (!error_text()) rank(a);
    }
    tensor_free(x);
    return error_text() ? -1 : 0;
}

/* ---- showing it -------------------------------------------------------------------------------- */

static const char *const as_many = "%s: %s %.4f";

static void show_bars(const model *m, const answer *a, ptrdiff_t shown)
{
    class_text text[MOST_BARS];
    const char *label[MOST_BARS];
    double value[MOST_BARS];
    for (ptrdiff_t i = 0; i < shown; i++) {
        text[i] = model_class(m, a->ranked[i]);
        label[i] = text[i].text;
        value[i] = a->value[a->ranked[i]];
    }
    sketch_bars(stdout, label, value, (int)shown, BAR, 0, sketch_wants_colour(stdout));
}

static void sketch(tensor image)
{
    if (image.shape.rank != 3 || image.shape.n[2] > 80) return;
    tensor grey = image_fit(image, image.shape.n[0] == 3 ? 1 : 0, 0, 0);
    if (grey.shape.n[0] == 1) sketch_image(stdout, grey, sketch_wants_colour(stdout));
    tensor_free(grey);
}

static void show(const model *m, const settings *s, const char *name, tensor image, const answer *a)
{
    bool classed = m->loss.classes, terminal = sketch_wants_colour(stdout);
    ptrdiff_t shown = a->count < s->top ? a->count : s->top;
    if (!classed) {
        printf("%s:", name);
        for (ptrdiff_t i = 0; i < a->count; i++) printf(" %.6g", a->value[i]);
        putchar('\n');
        return;
    }
    if (terminal) sketch(image);
    printf(as_many, name, model_class(m, a->ranked[0]).text, a->value[a->ranked[0]]);
    if (terminal) {
        putchar('\n');
        show_bars(m, a, shown < MOST_BARS ? shown : MOST_BARS);
        return;
    }
    for (ptrdiff_t i = 1; i < shown; i++)
        printf(", %s %.4f", model_class(m, a->ranked[i]).text, a->value[a->ranked[i]]);
    putchar('\n');
}

static json_t *as_json(const model *m, const settings *s, const char *name, const answer *a)
{
    json_t *one = json_pack("{s:s}", "input", name), *list = json_array();
    for (ptrdiff_t i = 0; i < a->count && !m->loss.classes; i++)
        json_array_append_new(list, json_real(a->value[i]));
    for (ptrdiff_t i = 0; i < a->count && i < s->top && m->loss.classes; i++)
        json_array_append_new(list, json_pack("{s:s, s:f}", "class", model_class(m, a->ranked[i]).text,
                                              "probability", a->value[a->ranked[i]]));
    if (m->loss.classes) {
        json_object_set_new(one, "class", json_string(model_class(m, a->ranked[0]).text));
        json_object_set_new(one, "probability", json_real(a->value[a->ranked[0]]));
    }
    json_object_set_new(one, m->loss.classes ? "classes" : "outputs", list);
    return one;
}

/* The image is in the shape that the net takes. */
static int answer_one(const model *m, const settings *s, const char *name, tensor image, json_t *list)
{
    answer a = { 0 };
    if (!shape_equal(image.shape, m->net->input))
        return error_set("%.200s is %s, the net takes %s", name, shape_text(image.shape).text,
                         shape_text(m->net->input).text);
    real *pixel = tensor_data(image); /* a new tensor, contiguous */
    for (ptrdiff_t i = 0; s->invert && i < tensor_count(image); i++) pixel[i] = 1 - pixel[i];
    if (!error_text() && ask(m, name, image, &a) == 0) {
        if (s->json) json_array_append_new(list, as_json(m, s, name, &a));
        else show(m, s, name, image, &a);
    }
    free_answer(&a);
    return error_text() ? -1 : 0;
}

/* ---- where images come from -------------------------------------------------------------------- */

static int picture(const model *m, const settings *s, const char *path, json_t *list)
{
    const shape *x = &m->net->input;
    if (x->rank != 3) return error_set("the net takes %s, not pictures", shape_text(*x).text);
    bool resize = s->resize || net_note_text(m->net, "size");
    ptrdiff_t channels = x->n[0] == 1 || x->n[0] == 3 ? x->n[0] : 0;
    tensor raw = image_read(path),
           image = image_fit(raw, channels, resize ? x->n[1] : 0, resize ? x->n[2] : 0);
    int status = tensor_is_null(image) ? -1 : answer_one(m, s, path, image, list);
    if (status && !tensor_is_null(image) && !resize && !shape_equal(image.shape, *x))
        error_within("try --resize: ");
    tensor_free(raw);
    tensor_free(image);
    return status;
}

/* One sample of the net's shape, or several along a first axis; [H, W] is an image of one channel. */
static int arrays(const model *m, const settings *s, const char *path, json_t *list)
{
    const shape *x = &m->net->input;
    tensor read = npy_read(path), all = tensor_is_null(read) ? read : tensor_clone(read), rows = all;
    tensor_free(read);
    if (tensor_is_null(all)) return -1;
    const shape *r = &all.shape;
    bool grey = x->rank == 3 && x->n[0] == 1 && !shape_equal(*r, *x);
    if (grey && r->rank == 2) rows = tensor_reshape(all, SHAPE(1, r->n[0], r->n[1]));
    if (grey && r->rank == 3) rows = tensor_reshape(all, SHAPE(r->n[0], 1, r->n[1], r->n[2]));
    bool one = shape_equal(rows.shape, *x);
    ptrdiff_t count = one ? 1 : rows.shape.n[0];
    if (rows.shape.rank < x->rank || rows.shape.rank > x->rank + 1)
        error_set("%.200s is %s, the net takes %s", path, shape_text(all.shape).text, shape_text(*x).text);
    for (ptrdiff_t i = 0; i < count && !error_text(); i++) {
        char name[300];
        snprintf(name, sizeof name, one ? "%.250s" : "%.250s[%td]", path, i);
        tensor image = tensor_clone(one ? rows : tensor_select(rows, 0, i));
        if (!tensor_is_null(image)) answer_one(m, s, name, image, list);
        tensor_free(image);
    }
    tensor_free(all);
    return error_text() ? -1 : 0;
}

/* Without --data there is only MNIST to look for, which says nothing about a net that was trained on other data. */
static int check_data(const model *m, const settings *s)
{
    static const char *const digits[] = { "MNIST", "drawn digits" };
    const char *trained = net_note_text(m->net, "data");
    bool alike = s->source.data || !trained;
    for (int i = 0; i < 2 && !alike; i++) alike = strncmp(trained, digits[i], strlen(digits[i])) == 0;
    return alike ? 0 : error_set("--index: the net was trained on %.250s: give --data", trained);
}

static int sample(const model *m, const settings *s, json_t *list)
{
    dataset from;
    dataset_options options = s->source;
    dataset_recall(&options, m->net);
    char *end;
    long i = s->index ? strtol(s->index, &end, 10) : 0;
    if (s->index && (*end || end == s->index))
        return error_set("--index: \"%.40s\" is not a whole number", s->index);
    if (check_data(m, s) || dataset_open(&from, &options, stderr)) return -1;
    const data *d = from.test ? from.test : from.train;
    tensor x = tensor_new(shape_with_batch(d->x, 1)), y = tensor_new(shape_with_batch(d->y, 1));
    if (i < 0 || i >= d->count) error_set("--index: sample %ld of %td; the first is 0", i, d->count);
    else if (data_batch(d, NULL, i, 1, x, y) == 0) {
        char name[400];
        int used = snprintf(name, sizeof name, "sample %ld of %s", i, from.text);
        if (d->y.rank == 0 && m->loss.classes)
            snprintf(name + used, sizeof name - (size_t)used, ", a %s",
                     model_class(m, (ptrdiff_t)*tensor_data(y)).text);
        tensor image = tensor_clone(tensor_select(x, 0, 0));
        if (!tensor_is_null(image)) answer_one(m, s, name, image, list);
        tensor_free(image);
    }
    tensor_free(x);
    tensor_free(y);
    dataset_close(&from);
    return error_text() ? -1 : 0;
}

/* ---- the subcommand ---------------------------------------------------------------------------- */

static bool is_array(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npy") == 0;
}

static int run(const void *settings_, int count, char **operands)
{
    const settings *s = settings_;
    model m;
    if (count > 0 && (s->source.data || s->index))
        return subcommand_refuse(&command_predict, "files, or --data and --index, not both");
    if (count == 0 && !s->source.data && !s->index)
        return subcommand_refuse(&command_predict, "nothing to predict: give files, or --index N");
    use_threads(s->threads);
    if (model_open(&m, s->model, 1)) return subcommand_end(&command_predict);
    json_t *list = json_array();
    for (int i = 0; i < count && !error_text(); i++)
        (is_array(operands[i]) ? arrays : picture)(&m, s, operands[i], list);
    if (count == 0) sample(&m, s, list);
    if (s->json && !error_text()) {
        if (json_dumpf(list, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)))
            error_set("the result is not JSON");
        putchar('\n');
    }
    json_decref(list);
    model_close(&m);
    return subcommand_end(&command_predict);
}

static const option_row options[] = {
    { "model", 'm', OPTION_FILE, offsetof(settings, model), "FILE", MODEL_FILE,
      "a net that stride train saved" },
    { "index", 'i', OPTION_TEXT, offsetof(settings, index), "N",
      .help = "sample N of --data, counted from 0" },
    { "top", 'k', OPTION_INTEGER, offsetof(settings, top), "K", "10", "show the K most probable classes", 1,
      1e6 },
    { "resize", 'r', OPTION_FLAG, offsetof(settings, resize),
      .help = "make pictures as high and wide as the net takes" },
    { "invert", 'v', OPTION_FLAG, offsetof(settings, invert), .help = "exchange black and white first" },
    { "json", 'j', OPTION_FLAG, offsetof(settings, json), .help = "print JSON" },
    DATASET_OPTIONS(settings, source),
    { "threads", 't', OPTION_INTEGER, offsetof(settings, threads), "N", NULL,
      "how many; without it as many as there are", 0, 1024 },
    { 0 },
};

const subcommand command_predict = {
    .name = "predict",
    .what = "Says what a saved net makes of pictures (PNG, JPEG), of arrays (.npy), or of a sample of a data "
            "set: the "
            "class and the probabilities.",
    .usage = "[--model FILE] FILE...|--index N [--data PATH] [options]",
    .examples = "  stride predict --model cats.safetensors whiskers.jpg\n"
                "  stride predict --index 7 --data data/mnist --json\n",
    .most = ANY_NUMBER,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
