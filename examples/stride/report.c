/* report.c: a run as JSON for the page (page.h). */
#include "examples/stride/report.h"
#include "examples/stride/page.h"
#include "examples/stride/scores.h"
#include "layers/describe/describe.h"

#include <math.h>
#include <string.h>

enum {
    MOST_IN_MATRIX = 20, /* classes; of more the confusion matrix is left out */
    MOST_CONFUSED = 12,  /* pairs of classes in the table */
    MOST_FILTERS = 64,
    MOST_SHOWN = 5000 /* epochs; of more every second, third, … is shown */
};

/* Puts a value, which it takes, into an object. */
static void put(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, value)) st_error_set("no memory for a page");
}

/* ---- epochs ---------------------------------------------------------------------------------------- */

static json_t *epoch_json(const st_train_report *e)
{
    return json_pack("[i, o, o, o, o, o, o]", e->epoch, page_number(e->training.loss),
                     page_number(e->training.accuracy), page_number(e->validation.loss),
                     page_number(e->validation.accuracy), page_number(e->lr), page_number(e->seconds));
}

json_t *report_run(const char *name, const st_train_report *e, int count, int best)
{
    const int every = (count + MOST_SHOWN - 1) / MOST_SHOWN;
    json_t *epochs = json_array();
    for (int i = 0; i < count; i++)
        if (i % every == 0 || i == best || i == count - 1) page_add(epochs, epoch_json(&e[i]));
    return json_pack("{s:o, s:i, s:i, s:i, s:o, s:b, s:o}", "name", page_text(name), "of",
                     e[count - 1].epochs, "count", count, "every", every, "best",
                     best < 0 ? json_null() : json_integer(e[best].epoch), "validated",
                     isfinite(e[0].validation.loss), "epochs", epochs);
}

static json_t *runs_json(const report *r)
{
    json_t *runs = json_array();
    int best = -1;
    for (int i = 0; i < r->count; i++)
        if (r->epochs[i].best) best = i;
    if (r->count > 0) page_add(runs, report_run("", r->epochs, r->count, best));
    return runs;
}

/* ---- the head -------------------------------------------------------------------------------------- */

static json_t *facts_json(const report_fact *f)
{
    json_t *facts = json_array();
    for (; f && f->name; f++) page_add(facts, json_pack("[o, o]", page_text(f->name), page_text(f->text)));
    return facts;
}

/* ---- scores ---------------------------------------------------------------------------------------- */

static json_t *class_json(const report *r, const scores *s, ptrdiff_t k)
{
    const class_scores c = scores_of(s, k);
    char number[32];
    snprintf(number, sizeof number, "%td", k);
    return json_pack("{s:o, s:I, s:o, s:o}", "name", page_text(r->classes ? r->classes[k] : number),
                     "samples", (json_int_t)c.samples, "precision", page_number(c.precision), "recall",
                     page_number(c.recall));
}

static json_t *counted(ptrdiff_t truth, ptrdiff_t predicted, ptrdiff_t count)
{
    return json_pack("[I, I, I]", (json_int_t)truth, (json_int_t)predicted, (json_int_t)count);
}

static json_t *scores_shown(const report *r, const scores *s)
{
    confused found[MOST_CONFUSED];
    const int most = scores_confused(s, found, MOST_CONFUSED);
    json_t *classes = json_array(), *confusion = json_array(), *mistakes = json_array();
    for (ptrdiff_t k = 0; k < s->classes; k++) page_add(classes, class_json(r, s, k));
    for (ptrdiff_t i = 0; i < s->classes * s->classes && s->classes <= MOST_IN_MATRIX; i++)
        if (s->confusion[i]) page_add(confusion, counted(i / s->classes, i % s->classes, s->confusion[i]));
    for (int i = 0; i < most; i++)
        page_add(mistakes, counted(found[i].truth, found[i].predicted, found[i].count));
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "samples", (json_int_t)s->count, "loss",
                     page_number(s->loss), "accuracy", page_number(s->accuracy), "classes", classes,
                     "confusion", confusion, "confused", mistakes);
}

/* ---- images ---------------------------------------------------------------------------------------- */

/* Includes the elements of a contiguous tensor in a range. */
static void widen(double range[2], st_tensor x)
{
    for (ptrdiff_t k = 0; k < st_numel(x); k++) {
        range[0] = fmin(range[0], (double)st_data(x)[k]);
        range[1] = fmax(range[1], (double)st_data(x)[k]);
    }
}

static json_t *mistakes_json(const report *r, const scores *s)
{
    json_t *list = json_array();
    double range[2] = { 0, 1 }; /* of all images */
    for (int i = 0; i < s->mistakes; i++) widen(range, s->mistake[i].x);
    for (int i = 0; i < s->mistakes; i++) {
        const mistake *m = &s->mistake[i];
        const char *path = r->path_of ? r->path_of(r->context, m->sample) : NULL;
        page_add(list, json_pack("{s:I, s:o, s:I, s:I, s:o, s:o}", "sample", (json_int_t)m->sample, "file",
                                 path ? page_text(path) : json_null(), "truth", (json_int_t)m->truth,
                                 "predicted", (json_int_t)m->predicted, "confidence",
                                 page_number(m->confidence), "image", page_image(m->x, range[0], range[1])));
    }
    return list;
}

/* A filter scaled by its maximum, so that 0 is grey. */
static json_t *filter_json(st_tensor filter)
{
    double range[2] = { -1e-30, 1e-30 };
    widen(range, filter);
    const double most = fmax(-range[0], range[1]);
    return page_image(filter, -most, most);
}

/* Those of the first layer; NULL if that is no convolution. */
static json_t *filters_json(const st_net *n)
{
    st_layer *first = n->root;
    while (first->children > 0 && strcmp(first->type->name, "sequence") == 0) first = first->child[0];
    if (strcmp(first->type->name, "conv2d") != 0 || first->params == 0) return NULL;
    const st_tensor weight = first->param[0];
    const ptrdiff_t *size = weight.shape.n;
    json_t *images = json_array();
    for (ptrdiff_t i = 0; i < size[0] && i < MOST_FILTERS; i++)
        page_add(images, filter_json(st_select(weight, 0, i)));
    return json_pack("{s:I, s:[I, I], s:I, s:o}", "count", (json_int_t)size[0], "size", (json_int_t)size[2],
                     (json_int_t)size[3], "channels", (json_int_t)size[1], "images", images);
}

/* ---- layers ---------------------------------------------------------------------------------------- */

typedef struct rows {
    const layer_times *times;
    int next; /* the next layer's number */
    json_t *list;
} rows;

static double own_parameters(const st_layer *l)
{
    double own = 0;
    for (int i = 0; i < l->params; i++) own += (double)st_numel(l->param[i]);
    return own;
}

/* "conv2d(kernel=5x5)" as its type and its options. */
static void put_description(json_t *object, const st_layer *l)
{
    char text[512];
    st_layer_describe(l, text, sizeof text);
    char *options = text + strcspn(text, "("), *end = strrchr(text, ')');
    if (end && *options) *end = '\0', *options++ = '\0';
    put(object, "type", page_text(text));
    put(object, "options", page_text(options));
}

static void add_layer(st_layer *l, const char *path, void *context)
{
    rows *r = context;
    const layer_time *time = r->times && !l->children ? &r->times->layer[r->next] : NULL;
    const char *dot = strrchr(path, '.');
    int depth = 0;
    r->next++;
    if (!path[0]) return;
    for (const char *c = path; *c; c++) depth += *c == '.';
    json_t *object = json_pack(
        "{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "depth", depth, "name", page_text(dot ? dot + 1 : path),
        "output", page_text(st_shape_text(st_shape_without_batch(l->y)).text), "parameters",
        page_number(own_parameters(l)), "flops", page_number(l->children ? 0 : l->flops / (double)l->x.n[0]),
        "forward", page_number(time ? time->forward : (double)NAN), "backward",
        page_number(time ? time->backward : (double)NAN));
    put_description(object, l);
    page_add(r->list, object);
}

static void put_net(json_t *all, const report *r)
{
    const st_layer *root = r->net->root;
    rows of = { .times = r->times, .list = json_array() };
    json_t *filters = filters_json(r->net);
    st_layer_visit(r->net->root, add_layer, &of);
    put(all, "parameters", page_number((double)st_numel(st_net_parameters(r->net))));
    put(all, "flops", page_number(root->flops / (double)root->x.n[0]));
    put(all, "layers", of.list);
    if (filters) put(all, "filters", filters);
    if (r->times)
        put(all, "times",
            json_pack("{s:I, s:f, s:f}", "batch", (json_int_t)r->times->batch, "forward", r->times->forward,
                      "backward", r->times->backward));
}

/* ---- the page -------------------------------------------------------------------------------------- */

int report_write(const char *path, const report *r)
{
    scores found = { 0 };
    if (st_error()) return -1;
    if (r->net && r->validation && scores_measure(&found, r->net, r->validation, r->loss, NULL)) return -1;
    json_t *all = json_pack("{s:o, s:b, s:o, s:o}", "title", page_text(r->title ? r->title : "Training run"),
                            "compared", false, "facts", facts_json(r->facts), "runs", runs_json(r));
    if (r->network) put(all, "network", page_text(r->network));
    if (found.classes > 0) put(all, "scores", scores_shown(r, &found));
    if (found.mistakes > 0) put(all, "mistakes", mistakes_json(r, &found));
    if (r->net) put_net(all, r);
    scores_free(&found);
    return page_write(path, all);
}
