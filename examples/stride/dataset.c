/* dataset.c: paths are offered to one kind of data after the other, until one opens them. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/dataset.h"

#include "examples/stride/paths.h"
#include "examples/stride/pictures.h"
#include "examples/stride/mnist.h"
#include "examples/stride/network.h"
#include "examples/stride/text.h"
#include "nn/data/formats.h"
#include "nn/data/sets.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATHS = 16, OTHER = 1 /* returned for paths of another kind */ };

/* ---- paths ------------------------------------------------------------------------------------- */

/* "a,b,c", split at the commas, unless there is a file of that name. */
typedef struct paths {
    const dataset_options *o;
    char text[LONGEST_PATH];
    const char *path[MOST_PATHS];
    int count;
} paths;

static int split(const char *given, paths *p)
{
    *p = (paths){ .count = 0 };
    if (strlen(given) >= sizeof p->text) return st_error_set("%.60s…: a path too long", given);
    snprintf(p->text, sizeof p->text, "%s", given);
    bool whole = access(given, F_OK) == 0;
    for (char *at = p->text; at;) {
        if (p->count == MOST_PATHS) return st_error_set("%.150s…: more than %d files", given, MOST_PATHS);
        p->path[p->count++] = at;
        at = whole ? NULL : strchr(at, ',');
        if (at) *at++ = '\0';
    }
    for (int i = 0; i < p->count; i++)
        if (access(p->path[i], R_OK)) return st_error_set("%.200s: %s", p->path[i], strerror(errno));
    return 0;
}

int dataset_check(const char *given)
{
    paths p;
    return given ? split(given, &p) : 0;
}

bool dataset_names(const char *given, const char *path)
{
    paths p;
    bool found = false;
    if (!given) return false;
    if (split(given, &p)) {
        st_error_clear(); /* dataset_check reports it */
        return false;
    }
    for (int i = 0; i < p.count; i++) found = found || path_same(p.path[i], path);
    return found;
}

/* True if path/name or path/name.gz exists. */
static bool there(char to[LONGEST_PATH], const char *in, const char *name)
{
    for (int packed = 0; packed < 2; packed++)
        if (snprintf(to, LONGEST_PATH, "%s/%s%s", in, name, packed ? ".gz" : "") < LONGEST_PATH &&
            access(to, F_OK) == 0)
            return true;
    return false;
}

static st_dataset *keep(dataset *s, st_dataset *d)
{
    for (int i = 0; d && i < DATASET_SETS; i++)
        if (!s->own[i]) return s->own[i] = d;
    return d;
}

static int opened(dataset *s, const char *what, const char *path)
{
    snprintf(s->text, sizeof s->text, "%s in %.250s", what, path);
    return s->train && !st_error() ? 0 : -1;
}

/* ---- MNIST and IDX ----------------------------------------------------------------------------- */

static const char *const digits[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" };

static int take_mnist(dataset *s, const mnist *m)
{
    snprintf(s->text, sizeof s->text, "%s", m->source);
    s->train = keep(s, m->train);
    s->test = keep(s, m->test);
    s->classes = 10;
    s->name = digits;
    return 0;
}

static int open_mnist(dataset *s, const paths *p)
{
    mnist m;
    if (p->count != 1 || !mnist_in(p->path[0])) return OTHER;
    return mnist_open(&m, p->path[0], "MNIST") || take_mnist(s, &m) ? -1 : opened(s, "MNIST", p->path[0]);
}

/* The last of the kinds that take two files: whatever they are, the library says if they are not IDX. */
static int open_idx(dataset *s, const paths *p)
{
    if (p->count != 2) return OTHER;
    s->train = keep(s, st_dataset_idx(p->path[0], p->path[1]));
    return opened(s, "images", p->path[0]);
}

/* ---- CIFAR-10 ---------------------------------------------------------------------------------- */

static const char *const things[] = { "airplane", "automobile", "bird",  "cat",  "deer",
                                      "dog",      "frog",       "horse", "ship", "truck" };

static int open_cifar10(dataset *s, const paths *p)
{
    char found[6][LONGEST_PATH], name[32];
    const char *path[6];
    const bool folder = p->count == 1 && there(found[0], p->path[0], "data_batch_1.bin");
    int count = 0;
    if (!folder && !text_ends_or_gz(p->path[0], ".bin")) return OTHER;
    s->classes = 10;
    s->name = things;
    if (!folder) {
        s->train = keep(s, st_dataset_cifar10(p->path, p->count));
        return opened(s, "CIFAR-10", p->path[0]);
    }
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        if (there(found[count], p->path[0], name)) path[count] = found[count], count++;
    }
    s->train = keep(s, st_dataset_cifar10(path, count));
    path[0] = found[5];
    if (s->train && there(found[5], p->path[0], "test_batch.bin"))
        s->test = keep(s, st_dataset_cifar10(path, 1));
    return opened(s, "CIFAR-10", p->path[0]);
}

/* ---- tables ------------------------------------------------------------------------------------ */

static int open_rows(dataset *s, const char *path, const dataset_options *o, bool unlabelled)
{
    table_options t = { .delimiter = text_ends_or_gz(path, ".tsv") ? '\t' : ',',
                        .label = o->label,
                        .features = o->features,
                        .columns = o->columns,
                        .targets = (int)o->targets,
                        .unlabelled = unlabelled };
    if (o->targets < 0 || o->targets > 1000000) /* a net's metadata may say anything */
        return st_error_set("--targets: %ld columns, expected at most 1000000", o->targets);
    if (o->image && network_size(o->image, &t.sample)) return st_error_within("--image: ");
    if (o->sample) t.sample = *o->sample;
    s->table = calloc(1, sizeof *s->table);
    if (!s->table) return st_error_set("no memory");
    if (table_open(s->table, path, &t)) return -1;
    s->train = s->table->set;
    s->classes = s->table->classes;
    s->name = (const char *const *)s->table->class;
    return opened(s, "a table", path);
}

static int open_table(dataset *s, const paths *p)
{
    const char *path = p->path[0];
    const bool named = text_ends_or_gz(path, ".csv") || text_ends_or_gz(path, ".tsv");
    return p->count == 1 && named ? open_rows(s, path, p->o, false) : OTHER;
}

int dataset_open_unlabelled(dataset *s, const dataset_options *o)
{
    *s = (dataset){ 0 };
    int status = open_rows(s, o->data, o, true);
    if (status) dataset_close(s);
    return status;
}

char *dataset_columns(const dataset *s)
{
    json_t *list = json_array();
    for (int i = 0; s->table && s->table->column && i < s->table->columns; i++)
        if (json_array_append_new(list, json_string(s->table->column[i])))
            st_error_set("column %d: its name is not UTF-8", i + 1);
    char *text = st_error() || json_array_size(list) == 0 ? NULL : json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

static int open_npy(dataset *s, const paths *p)
{
    if (!text_ends(p->path[0], ".npy")) return OTHER;
    if (p->count != 2) return st_error_set("%.200s: no labels; give X.npy,Y.npy", p->path[0]);
    s->train = keep(s, st_dataset_npy(p->path[0], p->path[1]));
    if (s->train && s->train->x.rank == 0)
        return st_error_set("%.200s: a single number per sample; give X.npy,Y.npy", p->path[0]);
    return opened(s, "arrays", p->path[0]);
}

/* ---- classes ----------------------------------------------------------------------------------- */

/* The index among `known` of each name, to be freed; NULL with an error that lists those that are not there. */
static ptrdiff_t *find_classes(const char *path, int classes, const char *const *name, ptrdiff_t knowns,
                               const char *const *known)
{
    char unknown[200] = "";
    ptrdiff_t *class = calloc((size_t)classes + 1, sizeof *class);
    for (int i = 0; i < classes && class; i++) {
        while (class[i] < knowns && strcmp(known[class[i]], name[i]) != 0) class[i]++;
        size_t used = strlen(unknown);
        if (class[i] == knowns)
            snprintf(unknown + used, sizeof unknown - used, "%s%s", used ? ", " : "", name[i]);
    }
    if (!class) st_error_set("no memory for %d classes", classes);
    if (!unknown[0]) return class;
    st_error_set("%.150s: classes that the net or the training set does not have: %s", path, unknown);
    free(class);
    return NULL;
}

static void renumber(void *class, ptrdiff_t i, st_tensor x, st_tensor y)
{
    (void)i, (void)x;
    st_real *k = st_at(y, (st_shape){ 0 });
    *k = (st_real)((const ptrdiff_t *)class)[(ptrdiff_t)*k];
}

int dataset_match(dataset *s, ptrdiff_t classes, const char *const *name)
{
    bool same = classes == s->classes;
    for (int i = 0; i < s->classes && same; i++) same = strcmp(s->name[i], name[i]) == 0;
    if (same || s->classes == 0 || classes == 0) return 0;
    s->class = find_classes(s->text, s->classes, s->name, classes, name);
    if (!s->class) return -1;
    for (int i = 0; i < 2; i++) /* folders keep their sets, and so the paths of samples */
        if (s->folder[i]) folder_renumber(s->folder[i], s->class);
    if (!s->folder[0]) {
        s->train = keep(s, st_dataset_map(s->train, renumber, s->class));
        if (s->test && s->train) s->test = keep(s, st_dataset_map(s->test, renumber, s->class));
    }
    s->classes = (int)classes;
    s->name = name;
    return st_error() ? -1 : 0;
}

/* Without --data the data are MNIST's, or digits that are drawn. */
static bool is_trained_on_digits(const model *m)
{
    const char *data = st_net_metadata(m->net, "data");
    return !data || strncmp(data, "MNIST", 5) == 0 || strcmp(data, DRAWN_DIGITS) == 0;
}

int dataset_open_for(dataset *s, const model *m, dataset_options *o)
{
    if (!o->data && !is_trained_on_digits(m))
        return st_error_set("the net was trained on %.250s: give --data", st_net_metadata(m->net, "data"));
    dataset_recall(o, m->net);
    if (dataset_open(s, o, stderr)) return -1;
    if (dataset_match(s, m->classes ? m->classes->count : 0, (const char *const *)m->name) == 0) return 0;
    dataset_close(s);
    return -1;
}

const char *dataset_path(const st_dataset *set, ptrdiff_t i)
{
    const st_dataset *origin = set ? st_dataset_origin(set, &i) : NULL;
    return origin ? folder_path(origin, i) : NULL;
}

/* ---- pictures ---------------------------------------------------------------------------------- */

static int open_folder(image_folder **to, const char *path, const dataset_options *o)
{
    st_shape size;
    folder_options options = { .channels = o->colour == 1   ? 1
                                           : o->colour == 2 ? 3
                                                            : 0,
                               .skip_bad = o->skip_bad,
                               .messages = stderr };
    if (o->size) {
        if (network_size(o->size, &size)) return st_error_within("--size: ");
        if (size.rank != 2)
            return st_error_set("--size: %s is not a height and a width such as 28x28", o->size);
        options.height = size.n[0];
        options.width = size.n[1];
    }
    *to = calloc(1, sizeof **to);
    return *to ? folder_open(*to, path, options) : st_error_set("no memory");
}

static int open_pictures(dataset *s, const paths *p)
{
    static const char *const parts[] = { "test", "val", "valid", "validation" };
    char path[LONGEST_PATH];
    const bool divided = there(path, p->path[0], "train") && folder_has_classes(path);
    if (p->count != 1 || !(divided || folder_has_classes(p->path[0]))) return OTHER;
    if (open_folder(&s->folder[0], divided ? path : p->path[0], p->o)) return -1;
    const folder_paths *names = &s->folder[0]->classes, *found;
    ptrdiff_t *class;
    for (int i = 0; divided && i < 4 && !s->test; i++)
        if (there(path, p->path[0], parts[i]) && folder_has_classes(path)) {
            dataset_options alike = *p->o;
            alike.colour = s->folder[0]->set->x.n[0] == 1 ? 1 : 2;
            if (open_folder(&s->folder[1], path, &alike)) return -1;
            found = &s->folder[1]->classes;
            class = find_classes(path, found->count, (const char *const *)found->path, names->count,
                                 (const char *const *)names->path);
            if (!class) return -1;
            folder_renumber(s->folder[1], class);
            free(class);
            s->test = s->folder[1]->set;
        }
    if (names->count == 1)
        return st_error_set("%.200s: one folder of pictures, %.80s, expected at least two classes",
                            p->path[0], names->path[0]);
    s->train = s->folder[0]->set;
    s->classes = names->count;
    s->name = (const char *const *)names->path;
    s->size = p->o->size;
    return opened(s, "pictures", p->path[0]);
}

/* ---- all --------------------------------------------------------------------------------------- */

static int (*const kinds[])(dataset *s, const paths *p) = {
    open_mnist, open_cifar10, open_table, open_npy, open_idx, open_pictures,
};

static int open_path(dataset *s, const dataset_options *o)
{
    paths p;
    if (split(o->data, &p)) return -1;
    p.o = o;
    int status;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((status = kinds[i](s, &p)) != OTHER) return status;
    if (path_is_folder(p.path[0]))
        return st_error_set("%.200s: contains neither MNIST nor CIFAR-10 nor folders of pictures", p.path[0]);
    return st_error_set(
        "%.200s: expected .csv, .tsv, X.npy,Y.npy, IDX images and labels, CIFAR-10's .bin, or a folder",
        p.path[0]);
}

int dataset_open(dataset *s, const dataset_options *o, FILE *messages)
{
    *s = (dataset){ 0 };
    mnist m;
    int status = o->data ? open_path(s, o) : mnist_find(&m, messages) || take_mnist(s, &m) ? -1 : 0;
    if (status) dataset_close(s);
    return status;
}

void dataset_close(dataset *s)
{
    for (int i = 0; i < DATASET_SETS; i++) st_dataset_free(s->own[i]);
    for (int i = 0; i < 2; i++) {
        if (s->folder[i]) folder_close(s->folder[i]);
        free(s->folder[i]);
    }
    if (s->table) table_close(s->table);
    free(s->table);
    free(s->class);
    *s = (dataset){ 0 };
}

/* ---- metadata ------------------------------------------------------------------------------------- */

int dataset_note(st_net *n, const dataset_options *o, const dataset *s)
{
    char *columns = dataset_columns(s), *text = text_clean(s->text), targets[32]; /* in UTF-8 */
    snprintf(targets, sizeof targets, "%ld", o->targets);
    const char *const notes[][2] = { { "data", text },
                                     { "size", s->size },
                                     { "label", o->label },
                                     { "targets", o->targets ? targets : NULL },
                                     { "columns", columns } };
    int status = st_error() ? -1 : 0;
    for (size_t i = 0; i < sizeof notes / sizeof *notes && status == 0; i++)
        status = st_net_set_metadata(n, notes[i][0], notes[i][1]);
    free(columns);
    free(text);
    return status;
}

void dataset_recall(dataset_options *o, const st_net *n)
{
    const st_shape *x = &n->input;
    o->columns = st_net_metadata(n, "columns");
    o->sample = x;
    if (!o->size) o->size = st_net_metadata(n, "size");
    if (!o->label) o->label = st_net_metadata(n, "label");
    const char *targets = st_net_metadata(n, "targets");
    if (!o->targets && targets) o->targets = strtol(targets, NULL, 10);
    if (x->rank != 3) return;
    if (o->colour == 0) o->colour = x->n[0] == 1 ? 1 : x->n[0] == 3 ? 2 : 0;
}
