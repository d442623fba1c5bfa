/* checkpoint.c: a run's place, its optimizer's states and its best parameters, in one file with the net. */
#include "nn/files/checkpoint.h"
#include "nn/files/architecture.h"
#include "nn/files/json.h"
#include "nn/files/model.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    VERSION = 1, /* of the entry, raised when an older reader would misread it */
    MOST_EXTRAS = OPTIM_STATES + 2
};

#define ENTRY "training"

/* ---- the place, as JSON -------------------------------------------------------------------------- */

typedef struct field {
    const char *name;
    bool is_real; /* a double, of which what is not a number is null; else an int64_t */
    size_t offset;
    int64_t least; /* of an integer */
} field;

#define INTEGER(name, least)                                                                                 \
    {                                                                                                        \
#name, false, offsetof(train_place, name), least                                                     \
    }
#define REAL(name)                                                                                           \
    {                                                                                                        \
#name, true, offsetof(train_place, name), 0                                                          \
    }

static const field fields[] = {
    INTEGER(epoch, 1),
    INTEGER(batch, 0),
    INTEGER(step, 0),
    INTEGER(begun, 0),
    INTEGER(net_seed, INT64_MIN),
    INTEGER(net_step, 0),
    INTEGER(optim_steps, 0),
    INTEGER(best_epoch, 0),
    INTEGER(since_best, 0),
    REAL(loss_sum),
    REAL(hits),
    REAL(seen),
    REAL(best_loss),
    REAL(validation.loss),
    REAL(validation.accuracy),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

/* What is not finite JSON cannot say. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *write_place(const train_place *place)
{
    json_t *object = json_object();
    for (const field *f = fields; object && f < fields + FIELDS; f++) {
        const void *at = (const char *)place + f->offset;
        json_t *value = f->is_real ? number(*(const double *)at) : json_integer(*(const int64_t *)at);
        if (json_object_set_new(object, f->name, value) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

static int read_place(const char *path, const json_t *object, train_place *place)
{
    for (const field *f = fields; f < fields + FIELDS; f++) {
        void *at = (char *)place + f->offset;
        const json_t *value = json_object_get(object, f->name);
        if (f->is_real && (json_is_null(value) || json_is_number(value)))
            *(double *)at = json_is_null(value) ? NAN : json_number_value(value);
        else if (!f->is_real && json_is_integer(value) && json_integer_value(value) >= f->least)
            *(int64_t *)at = json_integer_value(value);
        else return error_set("%s: the place of the run has %s for %s", path, json_show(value).text, f->name);
    }
    return 0;
}

/* ---- the samples -------------------------------------------------------------------------------------- */

static uint32_t sum_elements(uint32_t sum, tensor x)
{
    return (uint32_t)crc32_z(sum, (const void *)tensor_data(x), (size_t)tensor_count(x) * sizeof(real));
}

int checkpoint_sum(const data *d, tensor x, tensor y, uint32_t *sum)
{
    enum { LOOKED_AT = 16 };
    const ptrdiff_t last = d->count - 1, most = last < LOOKED_AT - 1 ? last : LOOKED_AT - 1;
    *sum = 0;
    data_begin(d, 0);
    for (ptrdiff_t i = 0; i <= most; i++) {
        const ptrdiff_t at = most > 0 ? last / most * i + last % most * i / most : 0;
        if (data_batch(d, NULL, at, 1, x, y)) return -1;
        *sum = sum_elements(sum_elements(*sum, x), y);
    }
    return 0;
}

/* ---- the terms ---------------------------------------------------------------------------------------- */

/* What the steps to come depend on, beside the place, the net and the optimizer's states. */
static json_t *terms_of(const checkpoint *c)
{
    char sum[9];
    snprintf(sum, sizeof sum, "%08" PRIX32, c->sum);
    const train *o = c->options;
    const optim *p = o->optim;
    const schedule *s = &o->schedule;
    bool counts_epochs =
        s->factor && strcmp(s->name, "step") != 0; /* others may have more of them another time */
    json_t *all = json_object();
    const struct {
        const char *name;
        json_t *value;
    } list[] = {
        { "precision", json_string(sizeof(real) == 8 ? "double" : "float") },
        { "samples", json_integer(c->samples->count) },
        { "preparation", json_string(c->samples->prepared ? c->samples->prepared : "none") },
        { "batch", json_integer(o->batch) },
        { "micro_batches", json_integer(o->micro_batches) },
        { "drop_last", json_boolean(o->drop_last) },
        { "keep_order", json_boolean(o->keep_order) },
        { "seed", json_integer((json_int_t)o->seed) },
        { "loss", json_string(o->loss.name) },
        { "loss's option", number(o->loss.option) },
        { "optimizer", json_string(p->name) },
        { "lr", number(p->lr) },
        { "momentum", number(p->momentum) },
        { "dampening", number(p->dampening) },
        { "nesterov", json_boolean(p->nesterov) },
        { "beta1", number(p->beta1) },
        { "beta2", number(p->beta2) },
        { "epsilon", number(p->epsilon) },
        { "centered", json_boolean(p->centered) },
        { "weight_decay", number(p->weight_decay) },
        { "schedule", json_string(s->name ? s->name : "constant") },
        { "schedule's every", number(s->every) },
        { "schedule's gamma", number(s->gamma) },
        { "schedule's least", number(s->least) },
        { "schedule's rise", number(s->rise) },
        { "schedule's first", number(s->first) },
        { "schedule's last", number(s->last) },
        { "warm-up", json_integer(s->warmup) },
        { "clip_norm", number(o->clip_norm) },
        { "clip_value", number(o->clip_value) },
        { "patience", json_integer(o->patience) },
        { "min_delta", number(o->min_delta) },
        { "epochs", counts_epochs ? json_integer(o->epochs) : json_null() },
        { "sum of samples", json_string(sum) },
    };
    bool failed = !all;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        failed |= json_object_set_new(all, list[i].name, list[i].value) != 0;
    if (!failed) return all;
    json_decref(all);
    error_set("%s: no memory for a checkpoint", o->checkpoint);
    return NULL;
}

/* ---- what stands beside the net ------------------------------------------------------------------- */

typedef struct extras {
    int count;
    safetensors_item item[MOST_EXTRAS];
} extras;

static extras extras_of(const checkpoint *c)
{
    static const char *const names[OPTIM_STATES] = { MODEL_EXTRA "optim.0", MODEL_EXTRA "optim.1",
                                                     MODEL_EXTRA "optim.2" };
    extras e = { 0 };
    for (int i = 0; i < c->options->optim->states; i++)
        e.item[e.count++] = (safetensors_item){ names[i], c->options->optim->state[i] };
    if (!tensor_is_null(c->best)) e.item[e.count++] = (safetensors_item){ MODEL_EXTRA "best", c->best };
    if (!tensor_is_null(c->best_states))
        e.item[e.count++] = (safetensors_item){ MODEL_EXTRA "best_states", c->best_states };
    return e;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

int checkpoint_write(const checkpoint *c)
{
    const char *path = c->options->checkpoint;
    if (optim_build(c->options->optim, tensor_count(net_parameters(c->net)))) return -1;
    extras e = extras_of(c);
    json_t *terms = terms_of(c);
    json_t *entry =
        json_pack("{s:i, s:o, s:o}", "version", VERSION, "terms", terms, "place", write_place(c->place));
    char *text = terms && entry ? json_write(entry) : NULL;
    int status = -1;
    if (!text) error_set("%s: no memory for the place of the run", path);
    else status = model_write(c->net, path, (model_extra){ e.count, e.item, ENTRY, text });
    free(text);
    json_decref(entry);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

/* A term's value, of a text more than of other values: what it differs in may stand late. */
typedef struct term_text {
    char text[168];
} term_text;

/* In no more digits than it takes to tell it apart: 0.1, not 0.10000000000000001. */
static void show_real(term_text *t, double value)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(t->text, sizeof t->text, "%.*g", digits, value);
        if (strtod(t->text, NULL) == value) return;
    }
}

static term_text show_term(const json_t *value)
{
    term_text t = { "unknown" };
    if (json_is_real(value)) show_real(&t, json_real_value(value));
    else if (json_is_string(value)) snprintf(t.text, sizeof t.text, "\"%.160s\"", json_string_value(value));
    else if (value) snprintf(t.text, sizeof t.text, "%s", json_show(value).text);
    return t;
}

/* A run that is the same but for one of the terms is another run. */
static int same_terms(const checkpoint *c, const char *path, const json_t *theirs)
{
    const char *name;
    json_t *value, *mine = terms_of(c);
    int status = mine ? 0 : -1;
    json_object_foreach(mine, name, value)
    {
        const json_t *other = json_object_get(theirs, name);
        if (!json_equal(value, other))
            status = error_set("%s: of a run with %s %s, this one has %s", path, name, show_term(other).text,
                               show_term(value).text);
    }
    json_decref(mine);
    return status;
}

static int same_architecture(const checkpoint *c, const safetensors *file)
{
    json_t *mine = architecture_write(c->net);
    if (!mine) return error_within("%s: ", file->path);
    const char *theirs = safetensors_text(file, "architecture");
    bool same = theirs && strcmp(json_string_value(mine), theirs) == 0;
    json_decref(mine);
    return same ? 0 : error_set("%s: of a run of another net", file->path);
}

/* A place that a run of these terms can be at. */
static int check_place(const checkpoint *c, const char *path, const train_place *at)
{
    int epochs = c->options->epochs;
    bool over = at->epoch > epochs;
    bool possible = at->epoch <= epochs + INT64_C(1) && at->batch < c->steps_an_epoch &&
                    !(over && at->batch > 0) && at->step == (at->epoch - 1) * c->steps_an_epoch + at->batch &&
                    at->best_epoch < at->epoch && at->since_best < at->epoch &&
                    at->optim_steps < INT64_MAX / 2;
    return possible ? 0
                    : error_set("%s: a place that the run does not have: epoch %lld of %d, step %lld", path,
                                (long long)at->epoch, epochs, (long long)at->step);
}

/* Tensors of `e` into `copies`, new ones. */
static int read_extras(const safetensors *file, const extras *e, tensor copies[])
{
    for (int i = 0; i < e->count; i++) {
        const safetensors_entry *found = safetensors_find(file, e->item[i].name, e->item[i].value.shape);
        if (!found) return -1;
        copies[i] = tensor_new(e->item[i].value.shape);
        if (tensor_is_null(copies[i]) || safetensors_read(file, found, copies[i])) return -1;
    }
    return 0;
}

static int read_all(const checkpoint *c, const safetensors *file, const train_place *place)
{
    extras e = extras_of(c);
    tensor copies[MOST_EXTRAS] = { 0 };
    int status =
        model_check(c->net, file) || read_extras(file, &e, copies) || model_read(c->net, file) ? -1 : 0;
    for (int i = 0; i < e.count; i++) {
        if (status == 0) tensor_copy(e.item[i].value, copies[i]);
        tensor_free(copies[i]);
    }
    if (status) return -1;
    *c->place = *place;
    c->net->seed = (uint64_t)place->net_seed;
    c->net->step = (uint64_t)place->net_step;
    c->options->optim->steps = (long)place->optim_steps;
    return 0;
}

static int read_entry(const checkpoint *c, const safetensors *file)
{
    train_place place;
    const char *text = safetensors_text(file, ENTRY);
    json_t *entry = text ? json_read(text, strlen(text), "its entry \"" ENTRY "\"") : NULL;
    long long version = json_integer_value(json_object_get(entry, "version"));
    int status = -1;
    if (!text) error_set("%s: not a checkpoint: no entry \"" ENTRY "\" in its metadata", file->path);
    else if (!entry) error_within("%s: ", file->path);
    else if (version != VERSION)
        error_set("%s: version %lld of a checkpoint, expected %d", file->path, version, VERSION);
    else if (same_architecture(c, file) || same_terms(c, file->path, json_object_get(entry, "terms")) ||
             read_place(file->path, json_object_get(entry, "place"), &place) ||
             check_place(c, file->path, &place))
        ;
    else status = read_all(c, file, &place);
    json_decref(entry);
    return status;
}

int checkpoint_read(const checkpoint *c)
{
    if (optim_build(c->options->optim, tensor_count(net_parameters(c->net)))) return -1;
    safetensors *file = safetensors_open(c->options->checkpoint);
    int status = file ? read_entry(c, file) : -1;
    safetensors_close(file);
    return status;
}
