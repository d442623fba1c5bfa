/* dataset.c: paths are offered to one kind of data after the other (DATASET_KINDS), until one opens them. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/dataset.h"

#include "examples/stride/folder.h"
#include "examples/stride/paths.h"
#include "examples/stride/mnist.h"
#include "examples/stride/nearest.h"
#include "examples/stride/network.h"
#include "examples/stride/text.h"
#include "nn/data/formats.h"
#include "nn/data/sets.h"
#include "nn/files/metadata.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
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
    if (strlen(given) >= sizeof p->text)
        return st_error_set("%.60s…: a path of %zu bytes, expected fewer than %d", given, strlen(given),
                            LONGEST_PATH);
    snprintf(p->text, sizeof p->text, "%s", given);
    bool whole = access(given, F_OK) == 0;
    for (char *at = p->text; at;) {
        if (p->count == MOST_PATHS) return st_error_set("%.150s…: more than %d files", given, MOST_PATHS);
        p->path[p->count++] = at;
        at = whole ? NULL : strchr(at, ',');
        if (at) *at++ = '\0';
    }
    for (int i = 0; i < p->count; i++)
        if (!*p->path[i] && p->count > 1) return st_error_set("%.200s: an empty name beside a comma", given);
        else if (access(p->path[i], R_OK)) return st_error_set("%.200s: %s", p->path[i], strerror(errno));
    return 0;
}

int dataset_check(const char *given)
{
    paths p;
    return given ? split(given, &p) : 0;
}

bool dataset_likely(const char *path)
{
    return path_is_folder(path) || path_is_table(path) || text_ends_or_gz(path, ".npy");
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

/* One of the sets that `keep` has kept, to be changed. */
static st_dataset *own_set(dataset *s, const st_dataset *d)
{
    for (int i = 0; i < DATASET_SETS; i++)
        if (s->own[i] == d) return s->own[i];
    return NULL;
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

static const char *const cifar10_classes[] = { "airplane", "automobile", "bird",  "cat",  "deer",
                                               "dog",      "frog",       "horse", "ship", "truck" };

static int open_cifar10(dataset *s, const paths *p)
{
    char found[6][LONGEST_PATH], name[32];
    const char *path[6];
    const bool folder = p->count == 1 && there(found[0], p->path[0], "data_batch_1.bin");
    int count = 0;
    if (!folder && !text_ends_or_gz(p->path[0], ".bin")) return OTHER;
    s->classes = 10;
    s->name = cifar10_classes;
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

/* 0: found by the library. */
static int read_delimiter(const char *path, const char *given, char *to)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {
        { "tab", '\t' }, { "\\t", '\t' }, { "space", ' ' }, { "comma", ',' }, { "semicolon", ';' }
    };
    *to = given && !given[1] ? given[0] : !given && text_ends_or_gz(path, ".tsv") ? '\t' : 0;
    if (!given || *to) return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(given, names[i].name) == 0) *to = names[i].c;
    return *to ? 0 : st_error_set("--delimiter: expected a character, tab or space, not \"%.40s\"", given);
}

static int map_options(const dataset_options *o, const char *path, st_csv_options *to)
{
    static const st_csv_missing missing[] = { ST_CSV_REFUSE, ST_CSV_MEAN, ST_CSV_DROP };
    static const st_csv_header header[] = { ST_CSV_DETECT, ST_CSV_HEADER, ST_CSV_NO_HEADER };
    *to = (st_csv_options){ .label = ST_CSV_FIND_LABEL,
                            .label_name = o->label,
                            .features = o->features,
                            .targets = (int)o->targets,
                            .missing = missing[o->missing],
                            .header = header[o->header],
                            .name_numbers = !o->matched };
    if (read_delimiter(path, o->delimiter, &to->delimiter)) return -1;
    if (o->image && network_size(o->image, &to->image)) return st_error_within("--image: ");
    if (o->sample) to->image = *o->sample;
    return 0;
}

/* Rows for a prediction: without labels, or with those that the table has. */
static st_dataset *open_unlabelled(const char *path, st_csv_options o)
{
    st_csv_options alone = o;
    alone.targets = ST_CSV_UNLABELLED;
    st_dataset *d = o.label_name && !o.like ? NULL : st_dataset_csv_new(path, alone);
    if (d || o.like) return d;
    st_error_clear();
    return st_dataset_csv_new(path, o);
}

/* Keeps the nearest of a table's columns to a name that none of them has. */
static void find_nearest(void *context, const char *name, ptrdiff_t columns, const char *const *names)
{
    nearest *n = context;
    *n = (nearest){ name, strlen(name) };
    for (ptrdiff_t i = 0; i < columns; i++) nearest_try(n, names[i]);
}

static int open_rows(dataset *s, const char *path, const dataset_options *o, bool unlabelled)
{
    st_csv_options options;
    nearest column = { 0 };
    st_table columns, *kept = o->like || !o->net ? NULL : st_net_table(o->net);
    int status = st_error() || path_readable(path) || map_options(o, path, &options) ? -1 : 0;
    options.no_column = find_nearest, options.context = &column;
    if (kept) columns = *kept;
    if (kept && !o->matched) columns.classes = 0, columns.class_name = NULL;
    if (status == 0) options.like = o->like ? o->like : kept ? &columns : NULL;
    if (status == 0 && options.like && o->features)
        status = st_error_set("--features: the net keeps its columns, leave it out");
    if (status == 0)
        s->train = keep(s, unlabelled ? open_unlabelled(path, options) : st_dataset_csv_new(path, options));
    st_table_free(kept);
    s->table = s->train ? st_dataset_table(s->train) : NULL;
    if (!s->table) return text_append_error(nearest_question(&column, "").text);
    s->classes = (int)s->table->classes;
    s->name = s->table->class_name;
    return opened(s, "a table", path);
}

static int open_table(dataset *s, const paths *p)
{
    const char *path = p->path[0];
    return p->count == 1 && path_is_table(path) ? open_rows(s, path, p->o, false) : OTHER;
}

int dataset_open_unlabelled(dataset *s, const dataset_options *o)
{
    *s = (dataset){ 0 };
    if (o->missing == 2) return st_error_set("--missing drop leaves rows without a prediction: use mean");
    int status = open_rows(s, o->data, o, true);
    if (status) dataset_close(s);
    return status;
}

void dataset_print_table(const dataset *s, FILE *to)
{
    const st_table *t = s->table;
    if (!t) return;
    fprintf(to, t->targets > 0 ? "targets: %td from column " : "label: column ", t->targets);
    if (t->label_name) text_put(to, t->label_name);
    else fprintf(to, "%td", t->label);
    if (t->classes > 0) fprintf(to, ", %td classes", t->classes);
    fprintf(to, "; features: %td of %td columns", t->features, t->columns);
    if (t->filled > 0) fprintf(to, "; %td missing values are means", t->filled);
    if (t->dropped > 0) fprintf(to, "; %td rows left out", t->dropped);
    fputc('\n', to);
}

/* ---- arrays ------------------------------------------------------------------------------------ */

static const char *const layouts[] = { NULL, "nchw", "nhwc" }; /* as in the options */

static int open_npy(dataset *s, const paths *p)
{
    static const st_npy_layout layout[] = { ST_NPY_DETECT, ST_NPY_NCHW, ST_NPY_NHWC };
    if (!text_ends(p->path[0], ".npy")) return OTHER;
    if (p->count == 1) return st_error_set("%.200s: no labels; give X.npy,Y.npy", p->path[0]);
    if (p->count != 2)
        return st_error_set("%.200s: %d files, expected two: X.npy,Y.npy", p->path[0], p->count);
    const st_npy_options options = { .layout = layout[p->o->layout], .classes = p->o->classes };
    s->train = keep(s, st_dataset_npy_new(p->path[0], p->path[1], options));
    s->layout = layouts[p->o->layout];
    if (s->train && s->train->x.rank == 0)
        return st_error_set("%.200s: a single number per sample, expected [N, ...]; give X.npy,Y.npy",
                            p->path[0]);
    return opened(s, "arrays", p->path[0]);
}

st_tensor dataset_channels_first(st_tensor x, const dataset_options *o)
{
    if (o->layout != 2 || (x.shape.rank != 3 && x.shape.rank != 4)) return x;
    return x.shape.rank == 4 ? st_permute(x, ST_AXES(0, 3, 1, 2)) : st_permute(x, ST_AXES(2, 0, 1));
}

/* ---- classes ----------------------------------------------------------------------------------- */

/* The index among `known` of each name, to be freed; NULL with an error that lists those that are not
 * there. */
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

/* The least and the greatest class, and the first one that is not a whole number, or 0. */
typedef struct range {
    double least, most, odd;
} range;

static int find_range(const st_dataset *d, range *r)
{
    enum { AT_ONCE = 64 };
    int status = 0;
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, AT_ONCE)), y = st_tensor_new(ST_SHAPE(AT_ONCE));
    for (ptrdiff_t i = 0; i < d->count && status == 0; i += AT_ONCE) {
        const ptrdiff_t n = d->count - i < AT_ONCE ? d->count - i : AT_ONCE;
        status = st_dataset_batch(d, NULL, i, n, st_narrow(x, 0, 0, n), st_narrow(y, 0, 0, n));
        for (ptrdiff_t k = 0; k < n && status == 0; k++) {
            const double class = (double)st_data(y)[k];
            if (class < r->least) r->least = class;
            if (class > r->most) r->most = class;
            if (class != floor(class) && r->odd == 0) r->odd = class;
        }
    }
    st_tensor_free(x), st_tensor_free(y);
    return status;
}

/* ", column NAME" of a table; "" for other sets. */
typedef struct column_text {
    char text[100];
} column_text;

static column_text column_of_classes(const dataset *s)
{
    column_text c = { "" };
    if (s->table && s->table->label_name)
        snprintf(c.text, sizeof c.text, ", column %.60s", s->table->label_name);
    else if (s->table) snprintf(c.text, sizeof c.text, ", column %td", s->table->label);
    return c;
}

/* How a column that does not fit may have been meant; "" for other sets than tables. */
static const char *label_hint(const dataset *s, ptrdiff_t outputs)
{
    if (!s->table) return "";
    return outputs == 1 ? "; --targets 1 is for a number to predict, --label chooses the column"
                        : "; --label chooses the column";
}

static int check_range(const dataset *s, range r, ptrdiff_t outputs)
{
    static const char numbers[] = "; numbers to predict are arrays y of [N, 1], with --loss mse";
    const char *hint = s->table                                    ? label_hint(s, outputs)
                       : outputs == 1                              ? numbers
                       : r.least == 1 && r.most == (double)outputs ? "; subtract 1"
                                                                   : "";
    if (r.odd != 0)
        return st_error_set("%.200s: a class is %g, expected whole numbers%s", s->text, r.odd, numbers);
    if (r.least >= 0 && r.most < (double)outputs) return 0;
    return st_error_set(
        "%.200s%s: classes %g to %g, the network's output is [%td]: classes are numbered from 0 to "
        "%td%s",
        s->text, column_of_classes(s).text, r.least, r.most, outputs, outputs - 1, hint);
}

/* The names of a table's classes are whole numbers below `outputs`, of which some are missing. */
static bool are_numbers(const dataset *s, ptrdiff_t outputs)
{
    for (int i = 0; i < s->classes; i++) {
        char *end;
        const long number = strtol(s->name[i], &end, 10);
        if (!*s->name[i] || *end || number < 0 || number >= outputs) return false;
    }
    return s->table && s->classes < outputs;
}

static int take_numbers(dataset *s)
{
    s->class = calloc((size_t)s->classes, sizeof *s->class);
    if (!s->class) return st_error_set("no memory for %d classes", s->classes);
    for (int i = 0; i < s->classes; i++) s->class[i] = strtol(s->name[i], NULL, 10);
    s->train = keep(s, st_dataset_map(s->train, renumber, s->class));
    s->classes = 0;
    s->name = NULL;
    return s->train ? 0 : -1;
}

int dataset_fit(dataset *s, st_shape output)
{
    if (output.rank != 1 || s->train->target.rank > 0) return 0;
    if (s->classes > 0) return are_numbers(s, output.n[0]) ? take_numbers(s) : 0;
    range r = { INFINITY, -INFINITY, 0 };
    if (find_range(s->train, &r) || (s->test && find_range(s->test, &r))) return -1;
    return check_range(s, r, output.n[0]);
}

int dataset_check_classes(const dataset *s, st_shape output)
{
    const int count = s->classes;
    if (count == 0 || st_shape_equal(output, ST_SHAPE(count))) return 0;
    return st_error_set("the network's output is %s, there %s %d class%s%s: end it with %sdense %d%s",
                        st_shape_text(output).text, count == 1 ? "is" : "are", count, count == 1 ? "" : "es",
                        column_of_classes(s).text, output.rank == 1 ? "" : "flatten, ", count,
                        label_hint(s, output.rank == 1 ? output.n[0] : 0));
}

int dataset_match(dataset *s, ptrdiff_t classes, const char *const *name)
{
    bool same = classes == s->classes;
    for (int i = 0; i < s->classes && same; i++) same = strcmp(s->name[i], name[i]) == 0;
    if (same || s->classes <= 0 || classes == 0) return 0;
    s->class = find_classes(s->text, s->classes, s->name, classes, name);
    if (!s->class) return -1;
    if (st_pictures_classes(s->train, &(ptrdiff_t){ 0 })) { /* keeps its sets, and so the paths of samples */
        st_pictures_match(own_set(s, s->train), classes, name);
        if (s->test) st_pictures_match(own_set(s, s->test), classes, name);
    } else {
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
        return st_error_set("the net was trained on %.250s: give --%s", st_net_metadata(m->net, "data"),
                            o->asked ? o->asked : "data");
    dataset_recall(o, m->net);
    o->matched = true;
    o->classes = m->loss.kind->classes;
    if (dataset_open(s, o, stderr)) return -1;
    if (s->table && s->classes > 0 && !m->classes)
        st_error_set("%.200s: its classes have names, %.60s and so on, those of the net have none", s->text,
                     s->name[0]);
    else if ((m->loss.kind->classes || m->one_hot) && dataset_fit(s, m->net->output)) {
    } else if (dataset_match(s, m->classes ? m->classes->count : 0, (const char *const *)m->name) == 0)
        return 0;
    dataset_close(s);
    return -1;
}

const char *dataset_path(const st_dataset *set, ptrdiff_t i)
{
    const st_dataset *origin = set ? st_dataset_origin(set, &i) : NULL;
    return origin ? st_pictures_path(origin, i) : NULL;
}

/* ---- pictures ---------------------------------------------------------------------------------- */

static st_dataset *open_folder(dataset *s, const char *path, const dataset_options *o, int channels)
{
    st_shape size = { 2, { 0 } };
    if (o->size && network_size(o->size, &size)) {
        st_error_within("--size: ");
        return NULL;
    }
    if (size.rank != 2 || size.n[0] > INT_MAX || size.n[1] > INT_MAX) {
        st_error_set("--size: %s is not a height and a width such as 28x28", o->size);
        return NULL;
    }
    const st_pictures_options options = {
        .channels = channels, .height = (int)size.n[0], .width = (int)size.n[1], .skip_bad = o->skip_bad
    };
    return keep(s, folder_open(path, options, stderr));
}

static int open_pictures(dataset *s, const paths *p)
{
    static const char *const parts[] = { "test", "val", "valid", "validation" };
    static const int channels[] = { 0, 1, 3 };
    char path[LONGEST_PATH];
    ptrdiff_t count;
    const bool divided = there(path, p->path[0], "train") && folder_has_classes(path);
    if (p->count != 1 || !(divided || folder_has_classes(p->path[0]))) return OTHER;
    s->train = open_folder(s, divided ? path : p->path[0], p->o, channels[p->o->colour]);
    if (!s->train) return -1;
    s->name = st_pictures_classes(s->train, &count);
    s->classes = (int)count;
    for (int i = 0; divided && i < 4 && !s->test; i++)
        if (there(path, p->path[0], parts[i]) && folder_has_classes(path)) {
            st_dataset *test = open_folder(s, path, p->o, (int)s->train->x.n[0]);
            s->test = test;
            if (!test) return -1;
            if (st_pictures_match(test, count, s->name)) return st_error_within("%.150s: ", path);
        }
    if (count == 1)
        return st_error_set("%.200s: one folder of pictures, %.80s, expected at least two classes",
                            p->path[0], s->name[0]);
    s->size = p->o->size;
    return opened(s, "pictures", p->path[0]);
}

/* ---- all --------------------------------------------------------------------------------------- */

typedef struct data_kind {
    const char *path;                        /* what it looks like */
    int (*open)(dataset *s, const paths *p); /* OTHER: the path is of another kind */
    const char *of, *options;                /* the names of its own options, and what they are options of */
} data_kind;

#define KIND(OPEN, PATH, OF, OPTIONS) { PATH, open_##OPEN, OF, OPTIONS },
static const data_kind kinds[] = { DATASET_KINDS(KIND) };

/* Refuses options of another kind of data than the set's, which is opened; NULL: MNIST's. */
static int check_options(const dataset *s, const dataset_options *o, const data_kind *kind)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {
        { "size", o->size },           { "colour", o->colour }, { "skip-bad", o->skip_bad },
        { "image", o->image },         { "label", o->label },   { "features", o->features },
        { "delimiter", o->delimiter }, { "header", o->header }, { "missing", o->missing },
        { "targets", o->targets },     { "layout", o->layout },
    };
    if (o->net || o->matched) return 0; /* some are a net's, or those of the set to train on */
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const data_kind *of = kinds;
        while (!strstr(of->options, options[i].name)) of++;
        if (options[i].given && of != kind)
            return st_error_set("%.200s: --%s is an option of %s", s->text, options[i].name, of->of);
    }
    return 0;
}

static int open_path(dataset *s, const dataset_options *o)
{
    paths p;
    if (split(o->data, &p)) return -1;
    p.o = o;
    for (const data_kind *k = kinds; k < kinds + sizeof kinds / sizeof *kinds; k++) {
        const int status = k->open(s, &p);
        if (status != OTHER) return status ? status : check_options(s, o, k);
    }
    return st_error_set("%.200s: expected " DATASET_KINDS(DATASET_PATH) "see --help", o->data);
}

int dataset_open(dataset *s, const dataset_options *o, FILE *messages)
{
    *s = (dataset){ 0 };
    mnist m;
    int status;
    if (o->data) status = open_path(s, o);
    else if (mnist_find(&m, messages) || take_mnist(s, &m)) status = -1;
    else status = check_options(s, o, NULL);
    if (status) dataset_close(s);
    return status;
}

void dataset_close(dataset *s)
{
    for (int i = 0; i < DATASET_SETS; i++) st_dataset_free(s->own[i]);
    free(s->class);
    *s = (dataset){ 0 };
}

/* ---- identity ------------------------------------------------------------------------------------- */

enum { MOST_LOOKED_AT = 1024 }; /* samples, evenly spread */

/* FNV-1a of the elements as floats. */
static uint64_t mix(uint64_t sum, st_tensor x)
{
    for (ptrdiff_t i = 0; i < st_numel(x); i++) {
        const float value = (float)st_data(x)[i];
        unsigned char bytes[sizeof value];
        memcpy(bytes, &value, sizeof value);
        for (size_t k = 0; k < sizeof value; k++) sum = (sum ^ bytes[k]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

dataset_identity dataset_identify(const st_dataset *set)
{
    dataset_identity id = { "" };
    uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)set->count;
    st_tensor x = st_tensor_new(st_shape_with_batch(set->x, 1)),
              y = st_tensor_new(st_shape_with_batch(set->target, 1));
    const ptrdiff_t step = 1 + (set->count - 1) / MOST_LOOKED_AT;
    for (ptrdiff_t i = 0; i < set->count && st_dataset_batch(set, NULL, i, 1, x, y) == 0; i += step)
        sum = mix(mix(sum, x), y);
    st_tensor_free(x), st_tensor_free(y);
    if (!st_error()) snprintf(id.text, sizeof id.text, "%016" PRIx64, sum);
    return id;
}

/* ---- metadata ------------------------------------------------------------------------------------- */

int dataset_note(st_net *n, const dataset *s)
{
    char *text = text_clean(s->text); /* in UTF-8 */
    const char *const notes[][2] = { { "data", text },  { "size", s->size }, { "layout", s->layout },
                                     { "label", NULL }, { "targets", NULL }, { "columns", NULL },
                                     { "table", NULL }, { "missing", NULL } };
    int status = st_error() ? -1 : 0;
    for (size_t i = 0; i < sizeof notes / sizeof *notes && status == 0; i++)
        status = st_net_set_metadata(n, notes[i][0], notes[i][1]);
    free(text);
    if (status || !s->table) return status;
    st_table columns = *s->table;
    columns.classes = s->classes, columns.class_name = s->name;
    return st_net_set_table(n, &columns) ? st_error_within("%.200s: ", s->text) : 0;
}

void dataset_expect(dataset_options *o, const st_shape *x)
{
    o->sample = x;
    if (x->rank == 3 && o->colour == 0) o->colour = x->n[0] == 1 ? 1 : x->n[0] == 3 ? 2 : 0;
}

void dataset_recall(dataset_options *o, const st_net *n)
{
    const char *layout = st_net_metadata(n, "layout");
    o->net = n;
    dataset_expect(o, &n->input);
    if (!o->size) o->size = st_net_metadata(n, "size");
    for (int i = 1; i < 3 && o->layout == 0 && layout; i++)
        if (strcmp(layout, layouts[i]) == 0) o->layout = i;
}
