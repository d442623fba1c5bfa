/* runs.c: see runs.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/atlas/runs.h"
#include "examples/stride/network.h"
#include "nn/data/augment.h"
#include "nn/data/sets.h"
#include "nn/files/replace.h"
#include "nn/train.h"
#include "tensor/random.h"
#include "tensor/reduce/reduce.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- texts ---------------------------------------------------------------------------------------- */

static bool is_type(const char *name, size_t length)
{
    for (int i = 0; st_layer_types[i]; i++)
        if (strlen(st_layer_types[i]->name) == length && strncmp(st_layer_types[i]->name, name, length) == 0)
            return true;
    return false;
}

bool run_is_possible(const char *layers)
{
    for (const char *at = layers; *at; at += strcspn(at, ",;\n"), at += *at != '\0') {
        at += strspn(at, " ");
        if (!is_type(at, strcspn(at, " ,;\n"))) return false;
    }
    return true;
}

char *run_net(const char *net, const char *layers)
{
    static const char mark[] = "POOL";
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    for (const char *found; to && (found = strstr(net, mark)); net = found + strlen(mark)) {
        const size_t length = strcspn(layers, ";");
        fprintf(to, "%.*s%.*s", (int)(found - net), net, (int)length, layers);
        if (layers[length]) layers += length + 1 + strspn(layers + length + 1, " ");
    }
    if (to) fputs(net, to);
    if (to && fclose(to) == 0) return text;
    st_error_set("no memory for a network");
    return NULL;
}

/* Everything that a result depends on. */
static char *plan_of(const atlas *a, job j)
{
    const experiment *e = j.of;
    const experiment_size *n = &e->size[a->scale];
    char *text = NULL, *net = run_net(e->net, j.with->layers);
    size_t size;
    FILE *to = net ? open_memstream(&text, &size) : NULL;
    if (to) {
        fprintf(to,
                "%s%s, %d to train on, %d to test on, epochs=%d batch=%d lr=%g weight_decay=%g shift=%d "
                "inconsistent=%d "
                "seed=%d",
                net, a->data.drawn ? "drawn digits" : "MNIST", n->train, n->test, n->epochs, e->batch, e->lr,
                e->weight_decay, e->shift, e->inconsistent, j.seed);
        if (fclose(to)) text = NULL;
    }
    if (net && !text) st_error_set("no memory for a plan");
    free(net);
    return text;
}

/* ---- files ---------------------------------------------------------------------------------------- */

/* FOLDER/NAME.json; what is no letter, digit or hyphen of the name becomes "_". */
static void path_of(const atlas *a, const char *name, char path[512])
{
    int length = snprintf(path, 512, "%s/", a->folder);
    for (const char *c = name; *c && length < 500; c++)
        path[length++] = isalnum((unsigned char)*c) || *c == '-' ? *c : '_';
    snprintf(path + length, 512 - (size_t)length, ".json");
}

static int write_json(FILE *to, const void *value)
{
    return json_dumpf(value, to, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) || fputc('\n', to) == EOF ? -1 : 0;
}

int run_keep(const atlas *a, const char *name, const json_t *value)
{
    char path[512];
    path_of(a, name, path);
    return st_file_replace(path, write_json, value);
}

json_t *run_read(const atlas *a, const char *name)
{
    char path[512];
    path_of(a, name, path);
    return json_load_file(path, 0, NULL);
}

static void name_of(job j, char name[256])
{
    snprintf(name, 256, "%s-%s-%d", j.of->key, j.with->name, j.seed);
}

json_t *run_recall(const atlas *a, job j)
{
    char name[256], *plan = plan_of(a, j);
    name_of(j, name);
    json_t *kept = plan ? run_read(a, name) : NULL;
    const char *then = json_string_value(json_object_get(kept, "plan"));
    const bool same = plan && then && strcmp(plan, then) == 0;
    free(plan);
    if (same) return kept;
    json_decref(kept);
    return NULL;
}

/* ---- measures ------------------------------------------------------------------------------------- */

/* The test images and what a net makes of them. */
typedef struct test {
    st_tensor x, y, target;
    ptrdiff_t count, *class, *other;
} test;

static void free_test(test *t)
{
    st_tensor_free(t->x);
    st_tensor_free(t->y);
    st_tensor_free(t->target);
    free(t->class);
    free(t->other);
}

static int load_test(test *t, const st_dataset *d, int count)
{
    const st_shape images = st_shape_with_batch(d->x, count);
    *t = (test){ .x = st_tensor_new(images),
                 .y = st_tensor_new(ST_SHAPE(count, 10)),
                 .target = st_tensor_new(ST_SHAPE(count)),
                 .count = count,
                 .class = calloc((size_t)count, sizeof(ptrdiff_t)),
                 .other = calloc((size_t)count, sizeof(ptrdiff_t)) };
    if (!t->class || !t->other) return st_error_set("no memory for %d test images", count);
    return st_dataset_batch(d, NULL, 0, count, t->x, t->target);
}

static void classify(test *t, st_net *n, st_tensor x, ptrdiff_t *class)
{
    st_net_predict(n, x, t->y);
    st_argmax(class, t->y, ST_AXES(1));
}

/* Per cent of classes that are not the target. */
static double errors(const test *t, const ptrdiff_t *class)
{
    ptrdiff_t wrong = 0;
    for (ptrdiff_t i = 0; i < t->count; i++) wrong += class[i] != (ptrdiff_t)st_data(t->target)[i];
    return 100 * (double)wrong / (double)t->count;
}

/* Image i moves by whole pixels that are drawn from (draw, i): the same for every net. Zeros come in. */
static void shift_images(st_tensor to, st_tensor from, int most, uint64_t draw)
{
    const ptrdiff_t *n = from.shape.n;
    const st_random_key key = { .seed = 1, .stream = draw };
    st_fill(to, 0);
    for (ptrdiff_t i = 0; i < n[0]; i++) {
        st_tensor view[2] = { st_select(to, 0, i), st_select(from, 0, i) };
        for (int axis = 1; axis <= 2; axis++) {
            const uint64_t range = 2 * (uint64_t)most + 1;
            const ptrdiff_t by =
                (ptrdiff_t)st_random_below(key, 2 * (uint64_t)i + (uint64_t)axis - 1, range) - most;
            const ptrdiff_t keep = n[axis + 1] - (by < 0 ? -by : by);
            view[0] = st_narrow(view[0], axis, by > 0 ? by : 0, keep);
            view[1] = st_narrow(view[1], axis, by < 0 ? -by : 0, keep);
        }
        st_copy(view[0], view[1]);
    }
}

static void measure_shifts(test *t, st_net *n, int most, json_t *result)
{
    st_tensor moved = st_tensor_new(t->x.shape);
    ptrdiff_t same = 0;
    if (st_error()) return;
    shift_images(moved, t->x, most, 1);
    classify(t, n, moved, t->class);
    shift_images(moved, t->x, most, 2);
    classify(t, n, moved, t->other);
    for (ptrdiff_t i = 0; i < t->count; i++) same += t->class[i] == t->other[i];
    json_object_set_new(result, "consistency", json_real(100 * (double)same / (double)t->count));
    json_object_set_new(result, "shifted", json_real((errors(t, t->class) + errors(t, t->other)) / 2));
    st_tensor_free(moved);
}

/* Parameters of layers that are neither convolutions nor dense. */
static void add_learned(const st_net_tensor *t, void *list)
{
    const char *type = t->layer->type->name;
    if (st_is_null(t->gradient) || strcmp(type, "conv2d") == 0 || strcmp(type, "dense") == 0) return;
    const ptrdiff_t count = st_numel(t->value);
    const st_real *value = st_data(t->value);
    double sum = 0, least = (double)value[0], most = least;
    for (ptrdiff_t i = 0; i < count; i++) {
        const double x = (double)value[i];
        sum += x;
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f}", "name", t->name, "mean",
                                          sum / (double)count, "least", least, "most", most));
}

static int measure(st_net *n, const st_dataset *d, const experiment *e, int count, json_t *result)
{
    test t;
    if (load_test(&t, d, count) == 0) {
        classify(&t, n, t.x, t.class);
        json_object_set_new(result, "error", json_real(errors(&t, t.class)));
        if (e->inconsistent) measure_shifts(&t, n, e->inconsistent, result);
    }
    free_test(&t);
    json_t *learned = json_array();
    st_net_visit(n, add_learned, learned);
    json_object_set_new(result, "learned", learned);
    json_object_set_new(result, "parameters", json_integer((json_int_t)st_numel(st_net_parameters(n))));
    return st_error() ? -1 : 0;
}

/* ---- training ------------------------------------------------------------------------------------- */

double run_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 0; 1 with an error: the loss is not finite any more; -1 with another error. */
static int train(st_net *n, const st_dataset *d, const experiment *e, job j, int epochs, st_callback watch,
                 st_train_result *r)
{
    st_optim *o = st_sgd(.lr = e->lr, .momentum = 0.9, .nesterov = true, .weight_decay = e->weight_decay);
    const st_train_options options = { .epochs = epochs,
                                       .batch = e->batch,
                                       .loss = st_cross_entropy(),
                                       .optim = o,
                                       .schedule = st_warmup_lr(.steps = d->count / e->batch / 2,
                                                                .after = st_cosine_lr()),
                                       .seed = (uint64_t)j.seed,
                                       .callbacks = { watch } };
    const int status = n && o ? st_train_run(n, d, options, r) : -1;
    st_optim_free(o);
    return status && st_error() && strstr(st_error(), " at step ") ? 1 : status;
}

static json_t *result_of(const atlas *a, job j, st_net *n, const st_dataset *d, st_callback watch)
{
    const experiment *e = j.of;
    const double began = run_seconds();
    st_train_result r = { 0 };
    char *plan = plan_of(a, j);
    json_t *result = plan ? json_pack("{s:s, s:i}", "plan", plan, "seed", j.seed) : NULL;
    free(plan);
    if (!result) return NULL;
    const int status = train(n, d, e, j, e->size[a->scale].epochs, watch, &r);
    json_object_set_new(result, "seconds", json_real(run_seconds() - began));
    if (status == 1) {
        json_object_set_new(result, "failed", json_string(st_error()));
        st_error_clear();
        return result;
    }
    json_object_set_new(result, "loss", json_real(r.training.loss));
    if (status == 0 && measure(n, a->data.test, e, e->size[a->scale].test, result) == 0) return result;
    json_decref(result);
    return NULL;
}

json_t *run_make(const atlas *a, job j, st_callback watch)
{
    char name[256], *text = run_net(j.of->net, j.with->layers);
    name_of(j, name);
    st_net *n = text ? network_parse(text, (st_shape){ 0 }) : NULL;
    st_dataset *part = st_dataset_slice(a->data.train, 0, j.of->size[a->scale].train);
    st_dataset *moved = NULL;
    if (j.of->shift) moved = st_dataset_augment(part, .shift = j.of->shift, .seed = (uint64_t)j.seed);
    json_t *result = n && part ? result_of(a, j, n, moved ? moved : part, watch) : NULL;
    st_dataset_free(moved);
    st_dataset_free(part);
    st_net_free(n);
    free(text);
    if (result && run_keep(a, name, result) == 0) return result;
    json_decref(result);
    st_error_within("%s, seed %d: ", j.of->key, j.seed);
    return NULL;
}
