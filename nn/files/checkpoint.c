/* checkpoint.c: a run's position, its optimizer's states and the callbacks' state, in one file with the
 * net. */
#include "nn/files/streams.h"

#include "nn/files/checkpoint.h"
#include "nn/files/file.h"
#include "nn/files/files_impl.h"
#include "nn/files/json.h"
#include "nn/files/kept.h"
#include "nn/files/numbers.h"
#include "tensor/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    VERSION = 3, /* of the entry, raised when an older reader would misread it */
    NAME = 80
};

#define ENTRY "training"

typedef struct memory { /* in callback.options */
    st_checkpoint_options o;
    uint32_t sum; /* of the samples */
    file_lock *held;
} memory;

/* ---- the samples -------------------------------------------------------------------------------------- */

/* Little-endian bytes are summed, on every machine. */
static uint32_t sum_elements(uint32_t sum, st_tensor x)
{
    unsigned char bytes[sizeof(st_real)];
    for (ptrdiff_t i = 0; i < st_numel(x); i++) {
        numbers_put_real(bytes, st_data(x)[i]);
        sum = (uint32_t)crc32_z(sum, bytes, sizeof bytes);
    }
    return sum;
}

/* The CRC-32 of sixteen samples, from the first to the last: the same samples in another file have the
 * same. */
static int sum_samples(const st_dataset *d, st_tensor x, st_tensor y, uint32_t *sum)
{
    enum { LOOKED_AT = 16 };
    const ptrdiff_t last = d->count - 1, most = last < LOOKED_AT - 1 ? last : LOOKED_AT - 1;
    *sum = 0;
    st_dataset_begin_epoch(d, 0);
    for (ptrdiff_t i = 0; i <= most; i++) {
        const ptrdiff_t at = most > 0 ? last / most * i + last % most * i / most : 0;
        if (st_dataset_batch(d, NULL, at, 1, x, y)) return -1;
        *sum = sum_elements(sum_elements(*sum, x), y);
    }
    return 0;
}

static uint32_t sum_weights(st_tensor weights)
{
    st_tensor copy = st_is_null(weights) ? weights : st_tensor_clone(weights);
    uint32_t sum = st_is_null(copy) ? 0 : sum_elements(0, copy);
    st_tensor_free(copy);
    return sum;
}

/* ---- the run's configuration --------------------------------------------------------------------------- */

/* Adds "who.option", or "option" if `who` is NULL, for each field. -1: no memory, or a name that is not
 * UTF-8. */
static int add_table(json_t *terms, const char *who, const st_field *fields, const void *options)
{
    int status = 0;
    for (const st_field *f = fields; f && f->name; f++) {
        json_t *name = json_sprintf("%s%s%s", who ? who : "", who ? "." : "", f->name);
        status |= json_object_set_new(terms, json_string_value(name), json_option(f, options));
        json_decref(name);
    }
    return status;
}

static const st_field group_fields[] = {
    { ST_FIELD(BOOL, st_param_group, vectors) },
    { ST_FIELD(BOOL, st_param_group, frozen) },
    { ST_FIELD(REAL, st_param_group, lr_factor) },
    { ST_FIELD(REAL, st_param_group, weight_decay) },
    { 0 },
};

/* The optimizer's rate, which a program may have changed since the optimizer was made. */
static const st_field lr_field[] = {
    { ST_FIELD(REAL, st_optim, lr) },
    { 0 },
};

/* The run configuration: everything that later steps depend on besides position, net and tensors. */
json_t *checkpoint_terms(const st_run *run, uint32_t sum)
{
    const st_train_options *o = run->options;
    const st_schedule *s = &o->schedule;
    const st_optim_kind *optim = run->optim->kind;
    const double decay = st_options_number(optim->fields, run->optim->options, "weight_decay");
    const st_dataset *d = run->own->data;
    const char *engine = engine_name();
    if (!engine) return NULL;
    json_t *all =
        json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:s, s:s}", "precision", ST_REAL_NAME, "engine", engine,
                  "samples", (json_int_t)d->count, "preparation", d->prepared ? d->prepared : "none", "seed",
                  (json_int_t)o->seed, "loss", o->loss.kind->name, "optimizer", run->optim->kind->name,
                  "schedule", s->kind ? s->kind->name : "constant");
    int status = all ? 0 : -1;
    status |= add_table(all, NULL, train_fields, o);
    status |= add_table(all, o->loss.kind->name, o->loss.kind->fields, &o->loss.options);
    const st_tensor weights = o->loss.kind->weights ? o->loss.kind->weights(&o->loss) : (st_tensor){ 0 };
    if (!st_is_null(weights))
        status |= json_object_set_new(all, "loss weights", json_sprintf("%08" PRIX32, sum_weights(weights)));
    status |= add_table(all, optim->name, optim->fields, run->optim->options);
    status |= add_table(all, optim->name, lr_field, run->optim);
    if (s->kind) status |= add_table(all, s->kind->name, s->kind->fields, &s->options);
    for (const st_param_group *g = o->groups; g < o->groups + train_groups(o); g++) {
        char who[NAME];
        st_param_group own = *g;
        if (g->weight_decay == 0 && !signbit(g->weight_decay)) own.weight_decay = decay;
        snprintf(who, sizeof who, "group %td", g - o->groups + 1);
        status |= json_object_set_new(all, who, json_string(g->names));
        status |= add_table(all, who, group_fields, &own);
    }
    status |= json_object_set_new(all, "warm-up", json_integer(s->warmup));
    for (const st_callback *c = o->callbacks; c < o->callbacks + ST_MAX_CALLBACKS; c++)
        if (c->call) status |= add_table(all, c->name, c->fields, &c->options);
    status |= json_object_set_new(all, "sum of samples", json_sprintf("%08" PRIX32, sum));
    if (!s->kind || s->kind->open_ended) json_object_del(all, "epochs"); /* a resumed run may have more */
    if (status == 0) return all;
    json_decref(all);
    st_error_set("the configuration of a run: no memory, or a name (of a callback, a group of parameters, a "
                 "data set's columns) that is not UTF-8");
    return NULL;
}

/* How to resume a run that differs in this term. */
static message_text remedy(const char *term, const json_t *mine, const json_t *theirs)
{
    message_text t = { "" };
    if (strcmp(term, "engine") == 0) strcpy(t.text, "; STRIDE_ENGINE selects the engine");
    if (strcmp(term, "epochs") == 0)
        snprintf(t.text, sizeof t.text,
                 ": schedule %.30s depends on their number; finish with epochs %.8s and train the saved net "
                 "further, or begin with schedule constant",
                 json_string_value(json_object_get(mine, "schedule")),
                 json_show(json_object_get(theirs, term)).text);
    return t;
}

static int same_term(const char *who, const char *name, const json_t *mine, const json_t *theirs)
{
    const json_t *a = json_object_get(mine, name), *b = json_object_get(theirs, name);
    if (json_equal(a, b)) return 0;
    return st_error_set("%s %s %s, this one has %s%s", who, name, b ? json_show(b).text : "none",
                        a ? json_show(a).text : "none", remedy(name, mine, theirs).text);
}

int checkpoint_compare(const char *who, const json_t *mine, const json_t *theirs)
{
    const char *name;
    json_t *value;
    int status = 0;
    json_object_foreach((json_t *)mine, name, value) status |= same_term(who, name, mine, theirs);
    json_object_foreach((json_t *)theirs, name, value) if (strcmp(name, "epochs") != 0) status |=
        same_term(who, name, mine, theirs);
    return status;
}

static int same_terms(const st_run *run, const memory *m, const json_t *theirs)
{
    char who[ST_ERROR_SIZE];
    json_t *mine = checkpoint_terms(run, m->sum);
    snprintf(who, sizeof who, "%s: written by a run with", m->o.path);
    int status = mine ? checkpoint_compare(who, mine, theirs) : st_error_within("%s: ", m->o.path);
    json_decref(mine);
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

/* The tensors among what a run keeps, by their names in the file. */
typedef struct extras {
    int count;
    safetensors_item item[MOST_KEPT];
    char name[MOST_KEPT][NAME];
} extras;

static void find_extras(int count, const kept_item list[], extras *e)
{
    e->count = 0;
    for (const kept_item *k = list; k < list + count; k++) {
        if (k->count > 0) continue;
        snprintf(e->name[e->count], NAME, MODEL_EXTRA "%s", k->name);
        e->item[e->count] = (safetensors_item){ e->name[e->count], k->tensor };
        e->count++;
    }
}

static json_t *write_numbers(int count, const kept_item list[])
{
    json_t *object = json_object();
    int status = object ? 0 : -1;
    for (const kept_item *k = list; k < list + count; k++)
        if (k->count > 0) status |= json_object_set_new(object, k->name, json_numbers(k->count, k->numbers));
    if (status == 0) return object;
    json_decref(object);
    return NULL;
}

static void write_file(st_run *run, const memory *m)
{
    kept_item list[MOST_KEPT];
    extras e;
    const int count = run_list(run, list);
    find_extras(count, list, &e);
    json_t *terms = count > 0 ? checkpoint_terms(run, m->sum) : NULL;
    json_t *entry = terms ? json_pack("{s:i, s:o, s:o}", "version", VERSION, "terms", terms, "numbers",
                                      write_numbers(count, list))
                          : NULL;
    char *text = entry ? json_write(entry) : NULL;
    if (text) model_write(run->net, m->o.path, (model_extra){ e.count, e.item, ENTRY, text });
    else st_error_set("%s: no memory for the run's position", m->o.path);
    free(text);
    json_decref(entry);
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static int same_architecture(st_net *n, const safetensors *file)
{
    json_t *mine = architecture_write(n);
    if (!mine) return st_error_within("%s: ", file->path);
    const char *theirs = safetensors_text(file, "architecture");
    bool same = theirs && strcmp(json_string_value(mine), theirs) == 0;
    json_decref(mine);
    return same ? 0 : st_error_set("%s: written by a run with another net", file->path);
}

/* Reads the tensors, or only checks that the file has them. */
static int read_extras(const safetensors *file, const extras *e, bool check)
{
    for (const safetensors_item *i = e->item; i < e->item + e->count; i++) {
        const safetensors_entry *found = safetensors_find(file, i->name, i->value.shape);
        if (!found || (!check && safetensors_read(file, found, i->value))) return -1;
    }
    return 0;
}

/* Changes nothing if the disk fails. */
static int read_tensors(st_net *n, const safetensors *file, const extras *e)
{
    backup before = { 0 };
    int status = backup_add_net(&before, n);
    for (int i = 0; i < e->count && status == 0; i++) status = backup_add(&before, e->item[i].value);
    return backup_end(&before, status || model_read(n, file) || read_extras(file, e, false) ? -1 : 0);
}

static int read_list(const char *path, const json_t *object, const kept_item *k, double values[])
{
    if (json_read_numbers(json_object_get(object, k->name), k->count, values)) return 0;
    return st_error_set("%s: expected a list of %d numbers for %s", path, k->count, k->name);
}

/* Changes nothing before all of the file is checked. */
static int read_all(st_run *run, const safetensors *file, const json_t *object)
{
    extras e;
    kept_item list[MOST_KEPT];
    double values[MOST_KEPT][ST_MAX_NUMBERS];
    const int count = run_list(run, list);
    find_extras(count, list, &e);
    if (count == 0) return -1;
    for (int i = 0; i < count; i++)
        if (list[i].count > 0 && read_list(file->path, object, &list[i], values[i])) return -1;
    if (model_check(run->net, file) || read_extras(file, &e, true)) return -1;
    if (run_check_position(run, values[0])) return st_error_within("%s: ", file->path);
    if (read_tensors(run->net, file, &e)) return -1;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < list[i].count; k++) list[i].numbers[k] = values[i][k];
    run_go_to_position(run);
    return 0;
}

static void read_entry(st_run *run, const memory *m, const safetensors *file)
{
    const char *text = safetensors_text(file, ENTRY);
    json_t *entry = text ? json_read(text, strlen(text), "its entry \"" ENTRY "\"") : NULL;
    long long version = json_integer_value(json_object_get(entry, "version"));
    if (!text) st_error_set("%s: not a checkpoint: no entry \"" ENTRY "\" in its metadata", file->path);
    else if (!entry) st_error_within("%s: ", file->path);
    else if (version != VERSION)
        st_error_set("%s: a checkpoint of version %lld, expected %d", file->path, version, VERSION);
    else if (same_architecture(run->net, file) == 0 &&
             same_terms(run, m, json_object_get(entry, "terms")) == 0)
        read_all(run, file, json_object_get(entry, "numbers"));
    json_decref(entry);
}

/* ---- the callback ---------------------------------------------------------------------------------- */

static void begin(memory *m, st_run *run)
{
    const train_batches *b = &run->own->batches;
    const char *path = m->o.path;
    kept_item list[MOST_KEPT];
    m->held = NULL;
    if (run_list(run, list) == 0) return; /* callbacks after this one can keep nothing */
    if (!path || m->o.every < 0)
        st_error_set("checkpoint: %s, every %d steps; expected a path, and at least 0 steps",
                     path ? path : "no path", m->o.every);
    if (st_error() || !(m->held = file_hold(path)) ||
        sum_samples(run->own->data, st_narrow(b->x, 0, 0, 1), st_narrow(b->target, 0, 0, 1), &m->sum))
        return;
    if (!m->o.resume) return;
    const int exists = system_exists(path);
    if (exists < 0) st_error_set("%s: %s", path, strerror(errno));
    if (exists < 1) return;
    safetensors *file = safetensors_open(path);
    if (file) read_entry(run, m, file);
    safetensors_close(file);
}

static void call(st_callback *self, st_run *run, st_event event)
{
    memory *m = (void *)&self->options;
    if (run->rank > 0) return;
    if (event == ST_ON_BEGIN) begin(m, run);
    if (event == ST_ON_END) file_release(m->held);
    if (st_error()) return;
    const st_train_report *r = &run->report;
    bool due = m->o.every > 0 && r->step % m->o.every == 0 && r->batch < r->batches;
    if (event == ST_ON_EPOCH || (event == ST_ON_STEP && (due || run->stop))) write_file(run, m);
}

st_callback st_checkpoint_new(st_checkpoint_options options)
{
    st_callback c = { .name = "checkpoint", .call = call };
    memcpy(&c.options, &options, sizeof options);
    return c;
}
