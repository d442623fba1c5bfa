/* folder.c: folders of pictures in memory, with pixels of 16 bits, exact for 8 bits (255 * 257 = 65535). */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/folder.h"

#include "examples/stride/images.h"
#include "examples/stride/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WHITE = 65535, LONGEST_PATH = 4096, MOST_LISTED = 20 };

typedef struct names {
    char **name;
    int count;
} names;

static void free_names(names *n)
{
    while (n->count > 0) free(n->name[--n->count]);
    free(n->name);
    *n = (names){ 0 };
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "in/name": 0, or -1 with an error. */
static int join(char path[LONGEST_PATH], const char *in, const char *name)
{
    if (snprintf(path, LONGEST_PATH, "%s/%s", in, name) < LONGEST_PATH) return 0;
    return st_error_set("%.200s: a path is too long", in);
}

static bool is_folder(const char *in, const char *name)
{
    char path[LONGEST_PATH];
    struct stat about;
    return snprintf(path, sizeof path, "%s/%s", in, name) < LONGEST_PATH && stat(path, &about) == 0 &&
           S_ISDIR(about.st_mode);
}

/* Folders in a folder, or pictures, sorted. */
static int list(const char *in, bool folders, names *to)
{
    DIR *d = opendir(in);
    if (!d) return st_error_set("%.200s: %s", in, strerror(errno));
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || (folders ? !is_folder(in, e->d_name) : !image_named(e->d_name))) continue;
        char **more = realloc(to->name, ((size_t)to->count + 1) * sizeof *more);
        if (more) to->name = more;
        if (!more || !(to->name[to->count] = strdup(e->d_name))) {
            st_error_set("%.200s: no memory for file names", in);
            break;
        }
        to->count++;
    }
    closedir(d);
    if (to->count > 0) qsort(to->name, (size_t)to->count, sizeof *to->name, compare);
    return st_error() ? -1 : 0;
}

bool folder_has_classes(const char *path)
{
    names folders = { 0 };
    bool found = false;
    if (list(path, true, &folders)) st_error_clear();
    for (int i = 0; i < folders.count && !found; i++) {
        char below[LONGEST_PATH];
        names files = { 0 };
        if (join(below, path, folders.name[i]) || list(below, false, &files)) st_error_clear();
        found = files.count > 0;
        free_names(&files);
    }
    free_names(&folders);
    return found;
}

/* All images, each [C, H, W]. */
typedef struct album {
    uint16_t *pixel;
    int *class;
    char **path;
    ptrdiff_t count, room, size; /* images, allocated images, elements of one */
} album;

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const album *a = d->own;
    const uint16_t *from = a->pixel + i * a->size;
    for (ptrdiff_t c = 0; c < d->x.n[0]; c++)
        for (ptrdiff_t h = 0; h < d->x.n[1]; h++)
            for (ptrdiff_t w = 0; w < d->x.n[2]; w++)
                *st_at(x, ST_INDEX(c, h, w)) = (st_real)*from++ / (st_real)WHITE;
    *st_at(y, (st_shape){ 0 }) = (st_real)a->class[i];
}

static void clear(album *a)
{
    for (ptrdiff_t i = 0; i < a->count; i++) free(a->path[i]);
    free(a->pixel);
    free(a->class);
    free(a->path);
    *a = (album){ 0 };
}

static void release(st_dataset *d)
{
    clear(d->own);
    free(d->own);
}

const char *folder_path(const st_dataset *set, ptrdiff_t i)
{
    return set->get == get ? ((const album *)set->own)->path[i] : NULL;
}

static bool grow(album *a)
{
    if (a->count < a->room) return true;
    ptrdiff_t room = a->room ? 2 * a->room : 64;
    if (room > PTRDIFF_MAX / 2 / (a->size + 8)) return false;
    uint16_t *pixel = realloc(a->pixel, (size_t)(room * a->size) * sizeof *pixel);
    if (pixel) a->pixel = pixel;
    int *class = pixel ? realloc(a->class, (size_t)room * sizeof *class) : NULL;
    if (class) a->class = class;
    char **path = class ? realloc(a->path, (size_t)room * sizeof *path) : NULL;
    if (path) a->path = path, a->room = room;
    return path;
}

static int add(album *a, st_tensor image, int class, const char *path)
{
    char *kept = grow(a) ? strdup(path) : NULL;
    if (!kept) return st_error_set("%.200s: no memory for %td images before it", path, a->count);
    uint16_t *to = a->pixel + a->count * a->size;
    const st_real *from = st_data(image);
    for (ptrdiff_t i = 0; i < a->size; i++) {
        double value = (double)from[i] * WHITE + 0.5;
        to[i] = value <= 0 ? 0 : value >= WHITE ? WHITE : (uint16_t)value;
    }
    a->path[a->count] = kept;
    a->class[a->count++] = class;
    return 0;
}

/* All images must have the shape of the first one; if one is in colour, all are read in colour. */
typedef struct reading {
    album *album;
    st_shape each; /* rank 0: none read yet */
    const folder_options *options;
    ptrdiff_t channels;
    bool coloured; /* a colour image followed grey ones: all are read again */
    int listed;    /* bad files that are already reported */
    int bad;       /* files that cannot be read */
    char first[LONGEST_PATH];
} reading;

/* Reports a bad file; reading continues, so that all bad files are reported. */
static int refuse_file(reading *r)
{
    FILE *messages = r->bad < r->listed ? NULL : r->options->messages;
    if (messages && r->bad < MOST_LISTED) text_put_in(messages, "", st_error(), "\n");
    if (messages && r->bad == MOST_LISTED) fputs("…\n", messages);
    st_error_clear();
    r->bad++;
    return 0;
}

static int read_one(reading *r, const char *path, int class)
{
    ptrdiff_t channels = r->channels;
    st_tensor raw = image_read(path);
    if (st_is_null(raw)) return refuse_file(r);
    if (channels == 0 && r->each.rank > 0) {
        r->coloured = r->each.n[0] < raw.shape.n[0];
        channels = r->each.n[0];
    }
    st_tensor image = image_fit(raw, channels, r->options->height, r->options->width);
    st_tensor_free(raw);
    if (st_is_null(image)) return -1;
    int status;
    if (r->each.rank == 0) {
        r->each = image.shape;
        r->album->size = st_numel(image);
        snprintf(r->first, sizeof r->first, "%s", path);
    }
    if (st_shape_equal(image.shape, r->each)) status = add(r->album, image, class, path);
    else
        status = st_error_set("%.150s is %s and %.150s is %s: resize them with --size HxW", path,
                              st_shape_text(image.shape).text, r->first, st_shape_text(r->each).text);
    st_tensor_free(image);
    return status;
}

/* Visits the pictures of a folder in order; returns what `visit` returned last. */
static int visit_pictures(const char *in, int (*visit)(const char *path, void *context), void *context,
                          int *count)
{
    char path[LONGEST_PATH];
    names files = { 0 };
    int status = list(in, false, &files);
    for (int i = 0; i < files.count && status == 0; i++)
        status = join(path, in, files.name[i]) ? -1 : visit(path, context);
    *count = files.count;
    free_names(&files);
    return status;
}

typedef struct one_class {
    reading *r;
    int class;
} one_class;

static int read_of_class(const char *path, void *context)
{
    one_class *c = context;
    return read_one(c->r, path, c->class) || c->r->coloured;
}

static int read_all(album *a, const char *path, const names *classes, const folder_options *options,
                    ptrdiff_t channels, int listed, st_shape *each)
{
    reading r = { .album = a, .options = options, .channels = channels, .listed = listed };
    int status = 0, count = 0;
    for (int i = 0; i < classes->count && status == 0; i++) {
        char in[LONGEST_PATH];
        status = join(in, path, classes->name[i])
                     ? -1
                     : visit_pictures(in, read_of_class, &(one_class){ &r, i }, &count);
        if (status == 0 && count == 0 && options->messages && !listed)
            text_put_in(options->messages, "", in, ": contains no picture\n");
    }
    *each = r.each;
    if (!st_error() && r.coloured) {
        clear(a);
        return read_all(a, path, classes, options, 3, r.bad, each);
    }
    if (!st_error() && r.bad && !options->skip_bad)
        st_error_set("%.200s: %d picture%s cannot be read: --skip-bad leaves %s out", path, r.bad,
                     r.bad > 1 ? "s" : "", r.bad > 1 ? "them" : "it");
    if (!st_error() && a->count == 0) st_error_set("%.200s: contains no picture", path);
    if (!st_error() && r.bad && options->messages)
        fprintf(options->messages, "%d picture%s left out, %td read\n", r.bad, r.bad > 1 ? "s" : "",
                a->count);
    return st_error() ? -1 : 0;
}

int folder_open(image_folder *f, const char *path, folder_options options)
{
    *f = (image_folder){ 0 };
    names classes = { 0 };
    st_shape each = { 0 };
    album *a = calloc(1, sizeof *a);
    if (!a) return st_error_set("%.200s: no memory", path);
    int status = list(path, true, &classes);
    if (status == 0 && classes.count == 0)
        status = st_error_set("%.200s: contains no folder of a class", path);
    if (status == 0) status = read_all(a, path, &classes, &options, options.channels, 0, &each);
    st_dataset kind = { .count = a->count, .x = each, .get = get, .release = release, .own = a, .grain = 64 };
    if (status) release(&kind);
    else f->set = st_dataset_new(kind);
    f->classes = classes.count;
    f->name = classes.name;
    if (!f->set) folder_close(f);
    return f->set ? 0 : -1;
}

void folder_close(image_folder *f)
{
    names classes = { f->name, f->classes };
    st_dataset_free(f->set);
    free_names(&classes);
    *f = (image_folder){ 0 };
}

int folder_visit(const char *path, int (*visit)(const char *path, void *context), void *context)
{
    names folders = { 0 };
    int count = 0, all = 0, status = visit_pictures(path, visit, context, &all);
    if (status == 0) status = list(path, true, &folders);
    for (int i = 0; i < folders.count && status == 0; i++, all += count) {
        char in[LONGEST_PATH];
        status = join(in, path, folders.name[i]) ? -1 : visit_pictures(in, visit, context, &count);
    }
    free_names(&folders);
    return status == 0 && all == 0 ? st_error_set("%.200s: contains no picture", path) : status;
}
