/* folder.c: folders of pictures in memory, with pixels of 16 bits, exact for 8 bits (255 * 257 = 65535). */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/pictures.h"

#include "examples/stride/paths.h"
#include "examples/stride/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WHITE = 65535, MOST_LISTED = 20 };

/* ---- paths ------------------------------------------------------------------------------------- */

void folder_free_paths(folder_paths *p)
{
    while (p->count > 0) free(p->path[--p->count]);
    free(p->path);
    *p = (folder_paths){ 0 };
}

static int append(folder_paths *to, const char *in, const char *path)
{
    char **more = realloc(to->path, ((size_t)to->count + 1) * sizeof *more);
    if (more) to->path = more;
    if (!more || !(to->path[to->count] = strdup(path)))
        return st_error_set("%.200s: no memory for file names", in);
    to->count++;
    return 0;
}

/* Appends the folders in a folder, or its pictures, sorted by name. Hidden ones are ignored. */
static int list(const char *in, bool folders, folder_paths *to)
{
    char path[LONGEST_PATH];
    struct dirent **entry;
    int count = scandir(in, &entry, NULL, alphasort);
    if (count < 0) return st_error_set("%.200s: %s", in, strerror(errno));
    for (int i = 0; i < count; i++) {
        const char *name = entry[i]->d_name;
        const bool fits = snprintf(path, sizeof path, "%s/%s", in, name) < LONGEST_PATH;
        const bool fitting = folders ? fits && path_is_folder(path) : image_named(name);
        if (name[0] != '.' && fitting && !st_error())
            fits ? append(to, in, path) : st_error_set("%.200s: a path is too long", in);
        free(entry[i]);
    }
    free(entry);
    return st_error() ? -1 : 0;
}

bool folder_has_classes(const char *path)
{
    folder_paths folders = { 0 }, files = { 0 };
    list(path, true, &folders);
    for (int i = 0; i < folders.count && files.count == 0; i++) {
        st_error_clear();
        list(folders.path[i], false, &files);
    }
    const bool found = files.count > 0;
    st_error_clear();
    folder_free_paths(&folders), folder_free_paths(&files);
    return found;
}

int folder_pictures(const char *path, folder_paths *to)
{
    folder_paths folders = { 0 };
    int status = list(path, false, to) || list(path, true, &folders) ? -1 : 0;
    for (int i = 0; i < folders.count && status == 0; i++) status = list(folders.path[i], false, to);
    folder_free_paths(&folders);
    if (status == 0 && to->count == 0) status = st_error_set("%.200s: contains no picture", path);
    if (status) folder_free_paths(to);
    return status;
}

/* ---- pictures in memory ------------------------------------------------------------------------ */

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const image_folder *f = d->own;
    const uint16_t *from = f->pixel + i * f->size;
    for (ptrdiff_t c = 0; c < d->x.n[0]; c++)
        for (ptrdiff_t h = 0; h < d->x.n[1]; h++)
            for (ptrdiff_t w = 0; w < d->x.n[2]; w++)
                *st_at(x, ST_INDEX(c, h, w)) = (st_real)*from++ / (st_real)WHITE;
    *st_at(y, (st_shape){ 0 }) = (st_real)f->class[i];
}

const char *folder_path(const st_dataset *set, ptrdiff_t i)
{
    return set->get == get ? ((const image_folder *)set->own)->files.path[i] : NULL;
}

void folder_renumber(image_folder *f, const ptrdiff_t *class)
{
    for (ptrdiff_t i = 0; i < f->count; i++) f->class[i] = (int)class[f->class[i]];
}

/* Image number `count` is that of file k, which changes places with the file there. */
static void add(image_folder *f, int k, st_tensor image)
{
    char *path = f->files.path[k];
    uint16_t *to = f->pixel + f->count * f->size;
    const st_real *from = st_data(image);
    const int class = f->class[k];
    for (ptrdiff_t i = 0; i < f->size; i++) {
        double value = (double)from[i] * WHITE + 0.5;
        to[i] = value <= 0 ? 0 : value >= WHITE ? WHITE : (uint16_t)value;
    }
    f->files.path[k] = f->files.path[f->count], f->class[k] = f->class[f->count];
    f->files.path[f->count] = path, f->class[f->count++] = class;
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* All images must have the shape of the first one; if one is in colour, all are read in colour. */
typedef struct reading {
    image_folder *f;
    st_shape each; /* rank 0: none read yet */
    folder_options options;
    int bad, listed; /* files that cannot be read; those reported by an earlier pass */
} reading;

/* Reports a bad file; reading continues, so that all bad files are reported. */
static void refuse_file(reading *r)
{
    FILE *messages = r->bad < r->listed ? NULL : r->options.messages;
    if (messages && r->bad < MOST_LISTED) text_put_in(messages, "", st_error(), "\n");
    if (messages && r->bad == MOST_LISTED) fputs("…\n", messages);
    st_error_clear();
    r->bad++;
}

static int keep(reading *r, int k, st_tensor image)
{
    image_folder *f = r->f;
    const char *path = f->files.path[k];
    if (r->each.rank == 0) {
        r->each = image.shape;
        f->size = st_numel(image);
        f->pixel = calloc((size_t)f->files.count, (size_t)f->size * sizeof *f->pixel);
        if (!f->pixel) return st_error_set("%.200s: no memory for %d images", path, f->files.count);
    }
    if (!st_shape_equal(image.shape, r->each))
        return st_error_set("%.150s is %s and %.150s is %s: resize them with --size HxW", path,
                            st_shape_text(image.shape).text, f->files.path[0], st_shape_text(r->each).text);
    add(f, k, image);
    return 0;
}

/* 0, 1 if the image is in colour and those before are grey, or -1 with an error. */
static int read_one(reading *r, int k)
{
    const ptrdiff_t channels = r->options.channels, before = r->each.rank > 0 ? r->each.n[0] : 0;
    st_tensor raw = image_read(r->f->files.path[k]);
    if (st_is_null(raw)) {
        refuse_file(r);
        return 0;
    }
    const bool coloured = channels == 0 && before > 0 && before < raw.shape.n[0];
    st_tensor image = image_fit(raw, channels ? channels : before, r->options.height, r->options.width);
    st_tensor_free(raw);
    int status = st_is_null(image) ? -1 : coloured ? 1 : keep(r, k, image);
    st_tensor_free(image);
    return status;
}

static int read_all(reading *r, const char *path)
{
    image_folder *f = r->f;
    int status = 0;
    for (int k = 0; k < f->files.count && status == 0; k++) status = read_one(r, k);
    if (status < 0) return -1;
    if (status > 0) {
        free(f->pixel);
        f->pixel = NULL, f->count = 0;
        r->each = (st_shape){ 0 }, r->options.channels = 3;
        r->listed = r->bad, r->bad = 0;
        return read_all(r, path);
    }
    const char *s = r->bad == 1 ? "" : "s";
    if (r->bad && !r->options.skip_bad)
        return st_error_set("%.200s: %d picture%s cannot be read: --skip-bad leaves %s out", path, r->bad, s,
                            r->bad > 1 ? "them" : "it");
    if (f->count == 0) return st_error_set("%.200s: contains no picture", path);
    if (r->bad && r->options.messages)
        fprintf(r->options.messages, "%d picture%s left out, %td read\n", r->bad, s, f->count);
    return 0;
}

/* Lists the pictures of each class, and leaves only the names of their folders. */
static int find_files(image_folder *f, const char *path, FILE *messages)
{
    if (list(path, true, &f->classes)) return -1;
    if (f->classes.count == 0) return st_error_set("%.200s: contains no folder of a class", path);
    for (int i = 0; i < f->classes.count; i++) {
        const int before = f->files.count;
        char *folder = f->classes.path[i], *last = strrchr(folder, '/') + 1;
        if (list(folder, false, &f->files)) return -1;
        int *more = realloc(f->class, ((size_t)f->files.count + 1) * sizeof *more);
        if (!more) return st_error_set("%.200s: no memory for file names", folder);
        f->class = more;
        for (int k = before; k < f->files.count; k++) f->class[k] = i;
        if (f->files.count == before && messages)
            text_put_in(messages, "", folder, ": contains no picture\n");
        memmove(folder, last, strlen(last) + 1);
    }
    return 0;
}

int folder_open(image_folder *f, const char *path, folder_options options)
{
    reading r = { .f = f, .options = options };
    *f = (image_folder){ 0 };
    if (find_files(f, path, options.messages) == 0 && read_all(&r, path) == 0)
        f->set =
            st_dataset_new((st_dataset){ .count = f->count, .x = r.each, .get = get, .own = f, .grain = 64 });
    if (!f->set) folder_close(f);
    return f->set ? 0 : -1;
}

void folder_close(image_folder *f)
{
    st_dataset_free(f->set);
    folder_free_paths(&f->classes);
    folder_free_paths(&f->files);
    free(f->class);
    free(f->pixel);
    *f = (image_folder){ 0 };
}
