/* predict.c: stride predict: a saved net's predictions for pictures, arrays, tables, or a sample of a data
 * set. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/paths.h"
#include "examples/stride/commands.h"
#include "examples/stride/dataset.h"
#include "examples/stride/folder.h"
#include "examples/stride/model.h"
#include "examples/stride/sketch.h"
#include "examples/stride/text.h"
#include "nn/data/formats.h"
#include "nn/files/metadata.h"
#include "nn/files/replace.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 40, MOST_BARS = 20, MOST_COLUMNS = 78 };

typedef struct settings {
    dataset_options source;
    const char *model, *output, *index;
    long top, threads;
    bool resize, invert, json;
} settings;

typedef struct session {
    const settings *s;
    int count; /* of inputs */
    char **operands;
    model m;
    ptrdiff_t outputs; /* of the net */
    st_tensor x;       /* the input, [1, ...] */
    double *value;     /* the outputs; probabilities if the net was trained on classes */
    ptrdiff_t *ranked; /* their indices in descending order of value */
    json_t *list;      /* of --json */
    FILE *table;       /* --output */
    bool lines;        /* which is JSON lines, not CSV */
    bool normal;       /* samples are normalised already */
    int why;           /* errno of the first write to it that failed */
    int done, failed;
    bool draws; /* pictures and bars: stdout is a terminal */
    sketch_progress progress;
} session;

/* ---- prediction --------------------------------------------------------------------------- */

static void rank(session *t)
{
    for (ptrdiff_t i = 0; i < t->outputs; i++) {
        ptrdiff_t j = i;
        for (; j > 0 && t->value[t->ranked[j - 1]] < t->value[i]; j--) t->ranked[j] = t->ranked[j - 1];
        t->ranked[j] = i;
    }
}

static bool is_classed(const model *m)
{
    return (m->loss.kind->classes || m->one_hot) && m->net->output.rank == 1;
}

/* Outputs become probabilities. */
static void softmax(double *p, ptrdiff_t count)
{
    double most = -INFINITY, sum = 0;
    for (ptrdiff_t k = 0; k < count; k++) most = fmax(most, p[k]);
    for (ptrdiff_t k = 0; k < count; k++) sum += p[k] = exp(p[k] - most);
    for (ptrdiff_t k = 0; k < count; k++) p[k] /= sum;
}

static int ask(session *t, const char *name, st_tensor image)
{
    const model *m = &t->m;
    st_copy(st_select(t->x, 0, 0), image);
    if (m->scale && !t->normal) st_normalization_apply(m->scale, t->x);
    st_tensor y = st_net_forward(m->net, t->x, ST_PREDICT);
    if (!st_is_null(y) && m->target_scale) st_normalization_undo(m->target_scale, y);
    if (st_error()) return -1;
    for (ptrdiff_t i = 0; i < t->outputs; i++) t->value[i] = (double)st_data(y)[i];
    for (ptrdiff_t i = 0; i < t->outputs; i++) /* the softmax of an infinity would look like a certainty */
        if (!isfinite(t->value[i]))
            return st_error_set("%.200s: output %td is %g", name, i,
                                isnan(t->value[i]) ? (double)NAN : t->value[i]);
    if (m->loss.kind->classes && is_classed(m)) softmax(t->value, t->outputs);
    for (ptrdiff_t i = 0; i < t->outputs && m->loss.kind->binary; i++)
        t->value[i] = 1 / (1 + exp(-t->value[i]));
    rank(t);
    return 0;
}

/* ---- as text ------------------------------------------------------------------------------------ */

/* At most as wide as the terminal, and MOST_COLUMNS. */
static void draw_picture(st_tensor image)
{
    const st_shape x = image.shape;
    const int columns = sketch_columns(stdout), most = columns < MOST_COLUMNS ? columns : MOST_COLUMNS;
    if (x.rank != 3 || (x.n[0] != 1 && x.n[0] != 3)) return;
    const ptrdiff_t width = x.n[2] < most ? x.n[2] : most, height = x.n[1] * width / x.n[2];
    st_tensor small = st_picture_fit(image, 0, height > 0 ? (int)height : 1, (int)width);
    if (!st_is_null(small)) sketch_image(stdout, small);
    st_tensor_free(small);
}

/* The picture and the classes as bars, below its name. */
static void draw(const session *t, st_tensor image)
{
    const char *label[MOST_BARS];
    double value[MOST_BARS];
    int count = 0;
    for (; count < t->outputs && count < t->s->top && count < MOST_BARS; count++) {
        label[count] = t->m.shown[t->ranked[count]];
        value[count] = t->value[t->ranked[count]];
    }
    if (sketch_in_colour(stdout)) draw_picture(image);
    sketch_bars(stdout, sketch_in_colour(stdout), label, value, count, BAR);
}

static void show(const session *t, const char *name, st_tensor image)
{
    const bool classed = is_classed(&t->m), drawn = classed && t->draws;
    text_put(stdout, name);
    for (ptrdiff_t i = 0; i < t->outputs && !classed; i++) printf("%s%.6g", i ? " " : ": ", t->value[i]);
    for (ptrdiff_t i = 0; i < t->outputs && i < (drawn ? 1 : t->s->top) && classed; i++)
        printf("%s%s %.4f", i ? ", " : ": ", t->m.shown[t->ranked[i]], t->value[t->ranked[i]]);
    putchar('\n');
    if (drawn) draw(t, image);
}

/* ---- as JSON, as a table ----------------------------------------------------------------------- */

/* NULL with an error. */
static json_t *as_json(const session *t, const char *name)
{
    char *const *class = t->m.name;
    json_t *list = json_array(), *one;
    if (is_classed(&t->m)) {
        for (ptrdiff_t i = 0, k; i < t->outputs && i < t->s->top; i++)
            k = t->ranked[i], json_array_append_new(list, json_pack("{s:s, s:f}", "class", class[k],
                                                                    "probability", t->value[k]));
        const ptrdiff_t first = t->ranked[0];
        one = json_pack("{s:s, s:s, s:f, s:O}", "input", name, "class", class[first], "probability",
                        t->value[first], "classes", list);
    } else {
        for (ptrdiff_t i = 0; i < t->outputs; i++) json_array_append_new(list, json_real(t->value[i]));
        one = json_pack("{s:s, s:O}", "input", name, "outputs", list);
    }
    if (!one) st_error_set("%.200s: cannot be written as JSON: the name is not UTF-8", name);
    json_decref(list);
    return one;
}

/* A field of CSV, quoted if necessary (RFC 4180). */
static void put_field(FILE *to, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++) fprintf(to, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', to);
}

static void put_heading(const session *t)
{
    fputs(is_classed(&t->m) ? "input,class,probability" : "input", t->table);
    for (ptrdiff_t k = 0; k < t->outputs; k++) {
        fputc(',', t->table);
        if (is_classed(&t->m)) put_field(t->table, t->m.name[k]);
        else fprintf(t->table, "output %td", k);
    }
    fputc('\n', t->table);
}

static void put_row(const session *t, const char *name)
{
    put_field(t->table, name);
    if (is_classed(&t->m)) {
        fputc(',', t->table);
        put_field(t->table, t->m.name[t->ranked[0]]);
        fprintf(t->table, ",%.6g", t->value[t->ranked[0]]);
    }
    for (ptrdiff_t k = 0; k < t->outputs; k++) fprintf(t->table, ",%.6g", t->value[k]);
    fputc('\n', t->table);
}

static void put(session *t, const char *name, st_tensor image)
{
    json_t *one = t->s->json || t->lines ? as_json(t, name) : NULL;
    if (st_error()) return;
    if (t->lines) json_dumpf(one, t->table, JSON_COMPACT | JSON_REAL_PRECISION(9)), fputc('\n', t->table);
    else if (t->table) put_row(t, name);
    if (t->table && ferror(t->table) && !t->why) t->why = errno;
    t->done++;
    if (t->table || t->s->json) sketch_step(&t->progress, t->done, 0);
    if (t->s->json) json_array_append(t->list, one);
    else if (!t->table) show(t, name, image);
    json_decref(one);
}

/* Checks the shape of an image, which is contiguous, inverts it if asked to, and prints its prediction. */
static int answer(session *t, const char *name, st_tensor image)
{
    if (st_error()) return -1;
    if (!st_shape_equal(image.shape, t->m.net->input))
        return st_error_set("%.200s is %s, the net takes %s", name, st_shape_text(image.shape).text,
                            st_shape_text(t->m.net->input).text);
    for (ptrdiff_t i = 0; t->s->invert && i < st_numel(image); i++) st_data(image)[i] = 1 - st_data(image)[i];
    if (ask(t, name, image) == 0) put(t, name, image);
    return st_error() ? -1 : 0;
}

/* ---- inputs -------------------------------------------------------------------- */

/* Numbers from 0 to 1, as pictures have, have such a mean, and a deviation of at most 1/2. */
static int check_scale(const st_normalization *scale, const char *name)
{
    for (ptrdiff_t c = 0; scale && c < scale->channels; c++)
        if (scale->mean[c] < 0 || scale->mean[c] > 1 || scale->deviation[c] > 0.501)
            return st_error_set(
                "%.200s: pictures have numbers from 0 to 1; those that the net was trained on "
                "have a mean of %.4g and a deviation of %.4g",
                name, scale->mean[c], scale->deviation[c]);
    return 0;
}

static int picture(session *t, const char *path, const char *name)
{
    const st_shape *x = &t->m.net->input;
    if (x->rank != 3)
        return st_error_set("%.200s: the net takes %s, not pictures", name, st_shape_text(*x).text);
    if (check_scale(t->m.scale, name)) return -1;
    bool resize = t->s->resize || st_net_metadata(t->m.net, "size");
    const int channels = x->n[0] == 1 || x->n[0] == 3 ? (int)x->n[0] : 0;
    st_tensor raw = st_picture_load(path),
              image = st_picture_fit(raw, channels, resize ? (int)x->n[1] : 0, resize ? (int)x->n[2] : 0);
    int status = st_is_null(image) ? -1 : answer(t, name, image);
    if (status && !st_is_null(image) && !resize && !st_shape_equal(image.shape, *x))
        st_error_within("try --resize: ");
    st_tensor_free(raw);
    st_tensor_free(image);
    return status;
}

/* A tensor [N, ...] of samples, or a single sample. */
static int rows(session *t, st_tensor all, const char *name)
{
    const st_shape *x = &t->m.net->input, *r = &all.shape;
    bool grey = x->rank == 3 && x->n[0] == 1 && !st_shape_equal(*r, *x);
    st_tensor each = all;
    if (grey && r->rank == 2) each = st_reshape(all, ST_SHAPE(1, r->n[0], r->n[1]));
    if (grey && r->rank == 3) each = st_reshape(all, ST_SHAPE(r->n[0], 1, r->n[1], r->n[2]));
    bool one = st_shape_equal(each.shape, *x);
    if (each.shape.rank < x->rank || each.shape.rank > x->rank + 1)
        return st_error_set("%.200s is %s, the net takes %s", name, st_shape_text(*r).text,
                            st_shape_text(*x).text);
    if (each.shape.n[0] == 0) return st_error_set("%.200s is %s: no sample", name, st_shape_text(*r).text);
    for (ptrdiff_t i = 0; i < (one ? 1 : each.shape.n[0]) && !st_error(); i++) {
        char numbered[300];
        snprintf(numbered, sizeof numbered, one ? "%.250s" : "%.250s[%td]", name, i);
        answer(t, numbered, one ? each : st_select(each, 0, i));
    }
    return st_error() ? -1 : 0;
}

static int array(session *t, const char *path, const char *name)
{
    dataset_options o = t->s->source;
    dataset_recall(&o, t->m.net);
    st_tensor read = st_npy_load(path), view = st_is_null(read) ? read : dataset_channels_first(read, &o),
              all = st_is_null(view) ? view : st_tensor_clone(view);
    int status = st_is_null(all) ? -1 : rows(t, all, name);
    st_tensor_free(read);
    st_tensor_free(all);
    return status;
}

/* The lines of a table, with or without labels. */
static int table_rows(session *t, const char *path, const char *name)
{
    dataset from;
    dataset_options o = t->s->source;
    o.data = path;
    dataset_recall(&o, t->m.net);
    if (dataset_open_unlabelled(&from, &o)) return -1;
    st_dataset *normal = t->m.scale && !t->s->invert ? st_dataset_normalize(from.train, t->m.scale) : NULL;
    const st_dataset *d = normal ? normal : from.train; /* a set has all digits */
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, d->count)),
              y = st_tensor_new(st_shape_with_batch(d->target, d->count));
    t->normal = normal != NULL;
    int status = st_dataset_batch(d, NULL, 0, d->count, x, y) ? -1 : rows(t, x, name);
    t->normal = false;
    st_tensor_free(x), st_tensor_free(y), st_dataset_free(normal);
    dataset_close(&from);
    return status;
}

static int file(session *t, const char *path)
{
    if (text_ends(path, ".npy")) return array(t, path, path);
    if (path_is_table(path)) return table_rows(t, path, path);
    return picture(t, path, path);
}

/* An error that begins with the path of a copy names the original. */
static void rename_error(const char *path, const char *original)
{
    char text[ST_ERROR_SIZE];
    const size_t length = strlen(path);
    if (!st_error() || strncmp(st_error(), path, length) != 0) return;
    snprintf(text, sizeof text, "%s", st_error() + length);
    st_error_clear();
    st_error_set("%s%s", original, text);
}

/* Copies standard input to a file, whose first bytes tell its kind. */
static int standard_input(session *t)
{
    char path[LONGEST_PATH], first[8] = "", bytes[1 << 14];
    snprintf(path, sizeof path, "%s/stride-XXXXXX", path_temporary());
    int descriptor = mkstemp(path);
    FILE *copy = descriptor < 0 ? NULL : fdopen(descriptor, "w+b");
    if (!copy) return st_error_set("%s: %s", path, strerror(errno));
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, stdin)) > 0;) fwrite(bytes, 1, count, copy);
    bool failed = ferror(stdin) || fflush(copy) || ferror(copy);
    rewind(copy);
    size_t length = fread(first, 1, sizeof first, copy);
    if (failed) st_error_set("standard input: %s", strerror(errno));
    else if (length == 0) st_error_set("standard input is empty");
    else if (memcmp(first, "\x93NUMPY", 6) == 0) array(t, path, "-");
    else if (memcmp(first, "\x89PNG", 4) == 0 || memcmp(first, "\xff\xd8\xff", 3) == 0) picture(t, path, "-");
    else table_rows(t, path, "-");
    rename_error(path, "standard input");
    fclose(copy);
    unlink(path);
    return st_error() ? -1 : 0;
}

/* Reports the error of an input; the others are still processed. */
static void tell(session *t, int status)
{
    if (status == 0 && !st_error()) return;
    fflush(stdout);
    sketch_erase(&t->progress);
    text_put_in(stderr, "stride predict: ", st_error() ? st_error() : "failed", "\n");
    st_error_clear();
    t->failed++;
}

static void predict_folder(session *t, const char *path)
{
    folder_list files = { 0 };
    if (folder_pictures(path, &files)) tell(t, -1);
    for (int i = 0; i < files.count; i++) tell(t, file(t, files.path[i]));
    if (files.unread > 0) {
        st_error_set("%.150s: %d picture%s not read, %s: %s", path, files.unread,
                     files.unread == 1 ? "" : "s", files.why, files.names);
        tell(t, -1);
    }
    folder_free(&files);
}

static void predict(session *t, const char *path)
{
    if (strcmp(path, "-") == 0) tell(t, standard_input(t));
    else if (path_is_folder(path)) predict_folder(t, path);
    else tell(t, file(t, path));
}

/* The name of sample i: its file, or "DATA[i]". */
static void name_sample(const session *t, const dataset *from, const st_dataset *d, ptrdiff_t i,
                        char name[600])
{
    const char *file = dataset_path(d, i), *data = t->s->source.data ? t->s->source.data : from->text;
    snprintf(name, 600, file ? "%s" : "%.500s[%td]", file ? file : data, i);
}

/* A sample of --data, shown with its class; into a table go all of them. */
static void samples(session *t, const dataset *from, st_tensor x, st_tensor y)
{
    const st_dataset *d = from->test ? from->test : from->train;
    const bool all = t->s->output && !t->s->index;
    const ptrdiff_t first = t->s->index ? strtoll(t->s->index, NULL, 10) : 0;
    char name[600];
    if (first >= d->count) st_error_set("--index: sample %td of %td; the first is 0", first, d->count);
    for (ptrdiff_t i = first; i < (all ? d->count : first + 1) && !st_error(); i++) {
        if (st_dataset_batch(d, NULL, i, 1, x, y)) return;
        name_sample(t, from, d, i, name);
        if (!all) {
            int used = snprintf(name, sizeof name, "sample %td of %s", i, from->text);
            if (d->target.rank == 0 && is_classed(&t->m) &&
                (double)st_item(y) < (double)t->m.net->output.n[0])
                snprintf(name + used, sizeof name - (size_t)used, ", a %.200s",
                         t->m.name[(ptrdiff_t)st_item(y)]);
        }
        answer(t, name, st_select(x, 0, 0));
    }
}

static void predict_set(session *t)
{
    dataset from;
    dataset_options options = t->s->source;
    if (dataset_open_for(&from, &t->m, &options)) return;
    const st_dataset *d = from.test ? from.test : from.train;
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, 1)),
              y = st_tensor_new(st_shape_with_batch(d->target, 1));
    if (!st_error()) samples(t, &from, x, y);
    st_tensor_free(x);
    st_tensor_free(y);
    dataset_close(&from);
}

/* ---- the subcommand ---------------------------------------------------------------------------- */

static void check_tensor(const st_net_tensor *t, void *path)
{
    for (ptrdiff_t i = 0; i < st_numel(t->value) && !st_error(); i++) {
        const double value = (double)st_data(t->value)[i];
        if (isfinite(value)) continue;
        st_error_set("%.200s: element %td of %s is %g", (const char *)path, i, t->name,
                     isnan(value) ? (double)NAN : value);
    }
}

/* A missing file whose name is not that of a sample was meant to be the net. */
static bool is_missing_net(const settings *s, const char *path)
{
    const bool sample =
        path_is_table(path) || text_ends(path, ".npy") || st_picture_named(path) != ST_PICTURE_NONE;
    return !sample && strcmp(s->model, MODEL_FILE) == 0 && strcmp(path, "-") != 0 && access(path, F_OK) != 0;
}

static int check(const settings *s, int count, char **operands)
{
    const subcommand *c = &command_predict;
    if (count > 1 && is_missing_net(s, operands[0]))
        return subcommand_refuse(c, "%.200s: %s", operands[0], strerror(errno));
    if (count > 0 && (s->source.data || s->index))
        return subcommand_refuse(c, "files, or --data and --index, not both");
    if (s->index && (!*s->index || s->index[strspn(s->index, "0123456789")] || strlen(s->index) > 15))
        return subcommand_refuse(c, "--index: expected a whole number from 0, not \"%.40s\"", s->index);
    if (!s->output) return 0;
    if (!text_ends(s->output, ".csv") && !text_ends(s->output, ".jsonl"))
        return subcommand_refuse(c, "--output: expected a name that ends in .csv or .jsonl, not %.200s",
                                 s->output);
    for (int i = 0; i < count; i++)
        if (path_same(s->output, operands[i]))
            return subcommand_refuse(c, "--output and %s are the same file", operands[i]);
    if (path_same(s->output, s->model) || dataset_names(s->source.data, s->output))
        return subcommand_refuse(c, "--output %s is also an input", s->output);
    return 0;
}

static void predict_all(session *t)
{
    for (int i = 0; i < t->count; i++) predict(t, t->operands[i]);
    if (t->count == 0) predict_set(t);
    if (t->s->json && !st_error()) text_put_json(stdout, t->list);
}

/* Without a single prediction there is no table. */
static int write_table(FILE *to, const void *context)
{
    session *t = *(session *const *)context;
    t->table = to;
    t->lines = text_ends(t->s->output, ".jsonl");
    if (!t->lines) put_heading(t);
    predict_all(t);
    if (t->why) errno = t->why;
    return t->why || st_error() || t->done == 0 ? -1 : 0;
}

static void run_all(session *t)
{
    if (!t->s->output) predict_all(t);
    else if (st_file_replace(t->s->output, write_table, &t) && t->failed && t->done == 0)
        st_error_clear(); /* every input is reported already */
}

static int run(void *settings_, int count, char **operands)
{
    settings *s = settings_;
    if (check(s, count, operands)) return 2;
    session t = { .s = s, .count = count, .operands = operands };
    if (model_open(&t.m, s->model, 1)) return 0;
    st_net_visit(t.m.net, check_tensor, (void *)s->model);
    t.list = json_array();
    t.x = st_tensor_new(st_shape_with_batch(t.m.net->input, 1));
    t.outputs = st_shape_numel(t.m.net->output, "predict");
    t.value = calloc((size_t)t.outputs, sizeof *t.value);
    t.ranked = calloc((size_t)t.outputs, sizeof *t.ranked);
    if (!t.value || !t.ranked) st_error_set("no memory for %td outputs", t.outputs);
    t.draws = sketch_on_terminal(stdout);
    t.progress = sketch_begin(stderr, "predictions");
    if (!st_error()) run_all(&t);
    sketch_erase(&t.progress);
    st_tensor_free(t.x);
    free(t.value), free(t.ranked);
    json_decref(t.list);
    model_close(&t.m);
    if (t.failed == 0) return 0;
    subcommand_end(&command_predict);
    return 1;
}

static const option_row options[] = {
    MODEL_OPTION,
    { "output", 'o', OPTION_TEXT, AT(output), "FILE",
      .help = "write a table instead: .csv, or .jsonl with an object per line" },
    { "index", 'i', OPTION_TEXT, AT(index), "N",
      .help = "without files: sample N of --data; default: 0, or all of them with --output" },
    { "top", 'k', OPTION_INTEGER, AT(top), "K", "10", "show the K most probable classes", 1, 1e6 },
    { "resize", 'r', OPTION_FLAG, AT(resize), .help = "resize pictures to the net's input" },
    { "invert", 'v', OPTION_FLAG, AT(invert), .help = "invert the pictures (1 - x) first" },
    { "json", 'j', OPTION_FLAG, AT(json), .help = "print JSON" },
    DATASET_OPTIONS,
    THREADS_OPTION,
    { 0 },
};

const subcommand command_predict = {
    .name = "predict",
    .what = "Prints the classes and probabilities that a saved net predicts for pictures (PNG, JPEG), arrays "
            "(.npy), tables (.csv, .tsv), all pictures in a folder, a file on standard input (-), or a "
            "sample of a data set.",
    .usage = "[MODEL] [FILE|FOLDER|-... | --data PATH [--index N]] [options]",
    .details = "MODEL is a safetensors file. If a file cannot be read, the error is reported, the others "
               "are processed, and the exit status is 1.",
    .examples = "  stride predict cats.safetensors whiskers.jpg\n"
                "  stride predict cats.safetensors new_pictures --output predictions.csv\n"
                "  stride predict --index 7 --data data/mnist --json\n",
    .operands = { "model" },
    .most = ANY_NUMBER,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
