/* save.c: a net in a safetensors file: its tensors, and in the metadata its architecture and its own
 * metadata. */
#define _POSIX_C_SOURCE 200809L
#include "nn/files/files_impl.h"
#include "layers/layer_impl.h"
#include "nn/files/json.h"
#include "nn/files/metadata.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VERSION "1" /* of the metadata's entries, raised when an older reader would misread them */
#define NOTE_PREFIX "note."

enum {
    MOST_NOTES = 1000, /* of a net; setting one takes time linear in their number */
    DEFAULT_BATCH = 64
};

static const double MIB = 1 << 20, MOST_MEMORY = 2048.0 * (1 << 20); /* bytes of a net, by default */

/* ---- saving -------------------------------------------------------------------------------------- */

typedef struct items {
    safetensors_item *item;
    int count;
    bool failed;
} items;

static void add_item(const st_net_tensor *t, void *context)
{
    items *list = context;
    char *name = strdup(t->name);
    safetensors_item *grown = realloc(list->item, ((size_t)list->count + 1) * sizeof *grown);
    if (grown) list->item = grown;
    if (name && grown) {
        list->item[list->count++] = (safetensors_item){ name, t->value };
        return;
    }
    free(name);
    list->failed = true;
}

static void items_free(items *list)
{
    for (int i = 0; i < list->count; i++) free((char *)list->item[i].name);
    free(list->item);
}

static int put_note(json_t *metadata, const st_metadata *note)
{
    json_t *key = json_sprintf(NOTE_PREFIX "%s", note->name);
    int status = json_object_set_new(metadata, json_string_value(key), json_string(note->text));
    json_decref(key);
    return status ? st_error_set("metadata %s: no memory, or it is not UTF-8", note->name) : 0;
}

static int refuse_notes(void)
{
    return st_error_set("more than %d notes", MOST_NOTES);
}

static json_t *metadata_of(const st_net *n, const model_extra *extra)
{
    json_t *architecture = architecture_write(n);
    if (!architecture) return NULL;
    json_t *metadata = json_pack("{s:s, s:s, s:o}", "format", "stride", "stride_version", VERSION,
                                 "architecture", architecture);
    int status = metadata ? 0 : st_error_set("no memory for the metadata");
    if (metadata && extra->name && json_object_set_new(metadata, extra->name, json_string(extra->text)))
        status = st_error_set("entry %s: no memory, or it is not UTF-8", extra->name);
    int notes = 0;
    for (const st_metadata *note = n->metadata; note && status == 0; note = note->next)
        status = ++notes > MOST_NOTES ? refuse_notes() : put_note(metadata, note);
    if (status == 0) return metadata;
    json_decref(metadata);
    return NULL;
}

int model_write(st_net *n, const char *path, model_extra extra)
{
    int status = -1;
    items list = { 0 };
    json_t *metadata = metadata_of(n, &extra);
    if (metadata) st_net_visit(n, add_item, &list);
    for (int i = 0; metadata && i < extra.count; i++)
        add_item(&(st_net_tensor){ extra.item[i].name, extra.item[i].value, { 0 } }, &list);
    if (!metadata) st_error_within("%s: ", path);
    else if (list.failed) st_error_set("%s: no memory for the names of its tensors", path);
    else status = safetensors_write(path, list.count, list.item, metadata);
    items_free(&list);
    json_decref(metadata);
    return status;
}

static int check_built(const st_net *n, const char *path, const char *who)
{
    if (!path) return st_error_set("%s: the path is NULL", who);
    return st_is_null(st_net_parameters(n)) ? st_error_set("%s: %s before st_net_build", path, who) : 0;
}

int st_net_save(st_net *n, const char *path)
{
    return check_built(n, path, "st_net_save") ? -1 : model_write(n, path, (model_extra){ 0 });
}

/* ---- loading ------------------------------------------------------------------------------------- */

typedef struct loading {
    const safetensors *file;
    bool strict; /* every tensor must match */
    bool check;  /* read nothing */
    int status, matched;
    st_net_match_told *tell;
    void *context;
} loading;

static void load_tensor(const st_net_tensor *t, void *context)
{
    loading *l = context;
    if (l->status) return;
    safetensors_entry *e =
        l->strict ? safetensors_find(l->file, t->name, t->value.shape) : safetensors_named(l->file, t->name);
    const bool fits = e && safetensors_fits(e, t->value.shape);
    if (e) e->met = true;
    if ((l->strict && !e) || (fits && !l->check && safetensors_read(l->file, e, t->value))) l->status = -1;
    l->matched += fits;
    if (l->tell) l->tell(t->name, fits ? ST_NET_MATCHED : e ? ST_NET_MISMATCHED : ST_NET_MISSING, l->context);
}

int model_read(st_net *n, const safetensors *file)
{
    loading l = { .file = file, .strict = true };
    st_net_visit(n, load_tensor, &l);
    return l.status;
}

int backup_add(backup *b, st_tensor x)
{
    if (st_numel(x) == 0) return 0;
    b->of[b->count] = x;
    b->copy[b->count] = st_tensor_clone(x);
    return st_is_null(b->copy[b->count++]) ? -1 : 0;
}

int backup_add_net(backup *b, const st_net *n)
{
    return backup_add(b, st_net_parameters(n)) || backup_add(b, st_net_states(n)) ? -1 : 0;
}

int backup_end(backup *b, int status)
{
    for (int i = 0; i < b->count; i++) {
        if (status && !st_is_null(b->copy[i])) st_copy(b->of[i], b->copy[i]);
        st_tensor_free(b->copy[i]);
    }
    return status;
}

/* Tensors of a checkpoint, and PyTorch's count of batches, which only batch normalisation without momentum
 * uses. */
static bool is_extra(const char *name)
{
    static const char ending[] = ".num_batches_tracked";
    size_t length = strlen(name), tail = sizeof ending - 1;
    return strncmp(name, MODEL_EXTRA, strlen(MODEL_EXTRA)) == 0 ||
           (length >= tail && strcmp(name + length - tail, ending) == 0);
}

int model_check(st_net *n, const safetensors *file)
{
    loading l = { .file = file, .strict = true, .check = true };
    st_net_visit(n, load_tensor, &l);
    for (const safetensors_entry *e = file->entry; e < file->entry + file->count && l.status == 0; e++)
        if (!e->met && !is_extra(e->name))
            l.status = st_error_set("%s: tensor %s is not in the net", file->path, show_text(e->name).text);
    return l.status;
}

static int read_notes(st_net *n, const safetensors *file)
{
    const size_t prefix = strlen(NOTE_PREFIX);
    const char *key;
    json_t *text;
    int notes = 0;
    json_object_foreach((json_t *)file->metadata, key, text)
    {
        if (strncmp(key, NOTE_PREFIX, prefix) != 0) continue;
        if (++notes > MOST_NOTES) return refuse_notes();
        if (st_net_set_metadata(n, key + prefix, json_string_value(text))) return -1;
    }
    return 0;
}

/* A net, not yet built, whose tensors the file has: so they take no more memory than the file has bytes. */
static st_net *plan_net(const safetensors *file, st_net_known known)
{
    const char *text = safetensors_text(file, "architecture"),
               *version = safetensors_text(file, "stride_version");
    st_net *n = NULL;
    if (!text || !version)
        st_error_set("%s: no architecture in the metadata, as in a file of tensors alone", file->path);
    else if (strcmp(version, VERSION) != 0)
        st_error_set("%s: stride_version %s, expected %s", file->path, show_text(version).text, VERSION);
    else if (!(n = architecture_read(text, known))) st_error_within("%s: ", file->path);
    else if (model_check(n, file) == 0) return n;
    st_net_free(n);
    return NULL;
}

/* A small file may describe a net of any size, so its memory is computed before any is allocated. */
static int check_memory(st_net *n, ptrdiff_t batch, ptrdiff_t most)
{
    st_shape y;
    st_layer_needs needs;
    if (st_layer_plan(n->root, st_shape_with_batch(n->input, batch), &y) || st_layer_measure(n->root, &needs))
        return -1;
    double elements = layer_needed(&needs) + (double)st_shape_numel(y, "st_net_load");
    double bytes = elements * (double)sizeof(st_real), limit = most > 0 ? (double)most : MOST_MEMORY;
    if (bytes <= limit) return 0;
    return st_error_set("the net needs %.0f MiB for a batch of %td, expected at most %.0f MiB (max_memory)",
                        ceil(bytes / MIB), batch, floor(limit / MIB));
}

st_net *st_net_load_file(const char *path, st_net_load_options o)
{
    const st_net_known known = o.known;
    const ptrdiff_t batch = o.batch ? o.batch : DEFAULT_BATCH;
    int refused = 0;
    if (!path) refused = st_error_set("st_net_load: the path is NULL");
    else if (batch < 1) refused = st_error_set("st_net_load: a batch of %td, expected at least 1", batch);
    else if (known.max_memory < 0)
        refused = st_error_set("st_net_load: max_memory is %td bytes, expected at least 0", known.max_memory);
    if (refused) return NULL;
    safetensors *file = safetensors_open(path);
    st_net *n = file ? plan_net(file, known) : NULL;
    int status = n ? 0 : -1;
    const bool build = n && !o.plan_only;
    if ((build && (check_memory(n, batch, known.max_memory) || st_net_build(n, batch, 0))) ||
        (n && read_notes(n, file)))
        status = st_error_within("%s: ", path);
    if (status || (build && model_read(n, file))) {
        st_net_free(n);
        n = NULL;
    }
    safetensors_close(file);
    return n;
}

int st_net_described(const char *path)
{
    if (!path) return st_error_set("st_net_described: the path is NULL");
    safetensors *file = safetensors_open(path);
    const int described =
        file ? safetensors_text(file, "architecture") && safetensors_text(file, "stride_version") : -1;
    safetensors_close(file);
    return described;
}

int st_net_load_tensors(st_net *n, const char *path)
{
    if (check_built(n, path, "st_net_load_tensors")) return -1;
    safetensors *file = safetensors_open(path);
    backup before = { 0 };
    int status =
        file && model_check(n, file) == 0 && backup_add_net(&before, n) == 0 ? model_read(n, file) : -1;
    safetensors_close(file);
    return backup_end(&before, status);
}

int st_net_load_matching(st_net *n, const char *path, st_net_match_told *tell, void *context)
{
    if (check_built(n, path, "st_net_load_matching")) return -1;
    safetensors *file = safetensors_open(path);
    loading l = { .file = file, .tell = tell, .context = context };
    backup before = { 0 };
    if (!file || backup_add_net(&before, n)) l.status = -1;
    else st_net_visit(n, load_tensor, &l);
    for (int i = 0; file && l.status == 0 && tell && i < file->count; i++)
        if (!file->entry[i].met && !is_extra(file->entry[i].name))
            tell(file->entry[i].name, ST_NET_LEFT_OVER, context);
    safetensors_close(file);
    return backup_end(&before, l.status) ? -1 : l.matched;
}
