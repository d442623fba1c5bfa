/* folder.c: a folder of pictures in memory, with pixels of 16 bits, exact for 8 bits (255 * 257 = 65535). */
#define _POSIX_C_SOURCE 200809L
#include "nn/pictures/pictures.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WHITE = 65535, LONGEST_PATH = 4096 };

typedef struct paths {
    char **path;
    int count;
} paths;

typedef struct folder {
    paths classes, files;  /* names; files of pictures, those that were read first */
    int *class;            /* of each file */
    ptrdiff_t *number;     /* of each class */
    uint16_t *pixel;       /* all pictures, each [C, H, W] */
    ptrdiff_t count, size; /* pictures that were read, elements of one */
} folder;

/* ---- lists of files ----------------------------------------------------------------------------- */

static void free_paths(paths *p)
{
    while (p->count > 0) free(p->path[--p->count]);
    free(p->path);
}

static int append(paths *to, const char *in, const char *path)
{
    char **more = realloc(to->path, ((size_t)to->count + 1) * sizeof *more);
    if (more) to->path = more;
    if (!more || !(to->path[to->count] = strdup(path)))
        return st_error_set("%.200s: no memory for file names", in);
    to->count++;
    return 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Appends the folders in a folder, or its pictures of every format, sorted by name. Hidden ones are
 * ignored. */
static int list(const char *in, bool folders, paths *to)
{
    char path[LONGEST_PATH];
    struct dirent **entry;
    int count = scandir(in, &entry, NULL, alphasort);
    if (count < 0) return st_error_set("%.200s: %s", in, strerror(errno));
    for (int i = 0; i < count; i++) {
        const char *name = entry[i]->d_name;
        const bool fits = snprintf(path, sizeof path, "%s/%s", in, name) < LONGEST_PATH;
        const bool fitting = folders ? fits && is_folder(path) : st_picture_named(name) != ST_PICTURE_NONE;
        if (name[0] != '.' && fitting && !st_error())
            fits ? append(to, in, path)
                 : st_error_set("%.200s: a path in it is longer than %d bytes", in, LONGEST_PATH - 1);
        free(entry[i]);
    }
    free(entry);
    return st_error() ? -1 : 0;
}

/* ---- the data set ------------------------------------------------------------------------------- */

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const folder *f = d->own;
    const uint16_t *from = f->pixel + i * f->size;
    for (ptrdiff_t c = 0; c < d->x.n[0]; c++)
        for (ptrdiff_t h = 0; h < d->x.n[1]; h++)
            for (ptrdiff_t w = 0; w < d->x.n[2]; w++)
                *st_at(x, ST_INDEX(c, h, w)) = (st_real)*from++ / (st_real)WHITE;
    *st_at(y, (st_shape){ 0 }) = (st_real)f->number[f->class[i]];
}

static void release(st_dataset *d)
{
    folder *f = d->own;
    free_paths(&f->classes);
    free_paths(&f->files);
    free(f->class);
    free(f->number);
    free(f->pixel);
    free(f);
}

static folder *folder_of(const st_dataset *d)
{
    return d && d->get == get ? d->own : NULL;
}

const char *const *st_pictures_classes(const st_dataset *d, ptrdiff_t *count)
{
    const folder *f = folder_of(d);
    if (count) *count = f ? f->classes.count : 0;
    return f ? (const char *const *)f->classes.path : NULL;
}

const char *st_pictures_path(const st_dataset *d, ptrdiff_t i)
{
    const folder *f = folder_of(d);
    return f && i >= 0 && i < f->count ? f->files.path[i] : NULL;
}

int st_pictures_match(st_dataset *d, ptrdiff_t count, const char *const name[])
{
    folder *f = folder_of(d);
    char unknown[200] = "";
    if (!f) return st_error_set("st_pictures_match: the set is not one of st_pictures");
    if (count < 0 || (count > 0 && !name))
        return st_error_set("st_pictures_match: %td names%s, expected at least 0", count,
                            name ? "" : " of a list that is NULL");
    for (ptrdiff_t i = 0; i < count; i++)
        if (!name[i]) return st_error_set("st_pictures_match: name %td is NULL", i);
    ptrdiff_t *number = calloc((size_t)f->classes.count, sizeof *number);
    for (int i = 0; i < f->classes.count && number; i++) {
        while (number[i] < count && strcmp(name[number[i]], f->classes.path[i]) != 0) number[i]++;
        const size_t used = strlen(unknown);
        if (number[i] == count)
            snprintf(unknown + used, sizeof unknown - used, "%s%s", used ? ", " : "", f->classes.path[i]);
    }
    if (number && !unknown[0]) {
        free(f->number);
        f->number = number;
        return 0;
    }
    free(number);
    return number ? st_error_set("classes that are not among the %td names: %s", count, unknown)
                  : st_error_set("no memory for %d classes", f->classes.count);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* All pictures must have the shape of the first one; if one is in colour, all are read in colour. */
typedef struct reading {
    folder *f;
    const char *path;
    st_shape each; /* rank 0: none read yet */
    st_pictures_options options;
    int bad;  /* files that cannot be read */
    int told; /* files that an earlier pass has told: this one begins with them */
} reading;

static void tell(const reading *r, st_pictures_event event, const char *path, const char *text)
{
    if (r->options.tell) r->options.tell(r->options.context, event, path, text);
}

/* Reading continues, so that all bad files are told. */
static void leave_out(reading *r, st_pictures_event event, int k)
{
    char why[ST_ERROR_SIZE] = "";
    if (st_error()) snprintf(why, sizeof why, "%s", st_error());
    st_error_clear();
    r->bad++;
    if (k >= r->told) tell(r, event, r->f->files.path[k], why);
}

/* Picture number `count` is that of file k, which changes places with the file there. */
static void add(folder *f, int k, st_tensor image)
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

static int refuse_size(const reading *r, const char *path, st_shape x)
{
    char sizes[ST_ERROR_SIZE];
    snprintf(sizes, sizeof sizes, "%.150s is %.60s and %.150s is %.60s", path, st_shape_text(x).text,
             r->f->files.path[0], st_shape_text(r->each).text);
    tell(r, ST_PICTURES_UNEQUAL, path, sizes);
    return st_error_set("%s: resize them (height, width)", sizes);
}

static int keep(reading *r, int k, st_tensor image)
{
    folder *f = r->f;
    const char *path = f->files.path[k];
    if (r->each.rank == 0) {
        r->each = image.shape;
        f->size = st_numel(image);
        f->pixel = calloc((size_t)f->files.count, (size_t)f->size * sizeof *f->pixel);
        if (!f->pixel) return st_error_set("%.200s: no memory for %d pictures", path, f->files.count);
    }
    if (!st_shape_equal(image.shape, r->each)) return refuse_size(r, path, image.shape);
    if (k >= r->told) tell(r, ST_PICTURES_READ, path, "");
    add(f, k, image);
    return 0;
}

/* 0, 1 if the picture is in colour and those before are grey, or -1 with an error. */
static int read_one(reading *r, int k)
{
    const int channels = r->options.channels, before = r->each.rank > 0 ? (int)r->each.n[0] : 0;
    const char *path = r->f->files.path[k];
    const st_picture_kind kind = st_picture_named(path);
    const bool foreign = kind == ST_PICTURE_OTHER || st_picture_missing(kind);
    st_tensor raw = foreign ? (st_tensor){ 0 } : st_picture_load(path);
    if (st_is_null(raw)) {
        leave_out(r, foreign ? ST_PICTURES_FOREIGN : ST_PICTURES_BAD, k);
        return 0;
    }
    const bool coloured = channels == 0 && before > 0 && before < raw.shape.n[0];
    st_tensor image = st_picture_fit(raw, channels ? channels : before, r->options.height, r->options.width);
    st_tensor_free(raw);
    int status = st_is_null(image) ? -1 : coloured ? 1 : keep(r, k, image);
    st_tensor_free(image);
    return status;
}

static int read_all(reading *r)
{
    folder *f = r->f;
    int status = 0, k = 0;
    while (k < f->files.count && (status = read_one(r, k)) == 0) k++;
    if (status < 0) return -1;
    if (status > 0) {
        free(f->pixel);
        f->pixel = NULL, f->count = 0;
        r->each = (st_shape){ 0 }, r->options.channels = 3;
        r->told = k, r->bad = 0;
        return read_all(r);
    }
    if (r->bad && !r->options.skip_bad)
        return st_error_set("%.200s: %d picture%s cannot be read", r->path, r->bad, r->bad == 1 ? "" : "s");
    return f->count > 0 ? 0 : st_error_set("%.200s: contains no picture that can be read", r->path);
}

/* Without the library of a format, one line says so before anything is read. */
static int check_formats(const reading *r)
{
    static const char *const names[] = { [ST_PICTURE_PNG] = "PNG", [ST_PICTURE_JPEG] = "JPEG" };
    const paths *files = &r->f->files;
    for (st_picture_kind kind = ST_PICTURE_PNG; kind <= ST_PICTURE_JPEG; kind++) {
        int count = 0;
        for (int k = 0; k < files->count; k++) count += st_picture_named(files->path[k]) == kind;
        if (count > 0 && st_picture_missing(kind) && !r->options.skip_bad)
            return st_error_set("%.200s: %d %s picture%s, but built without %s: install it and build again",
                                r->path, count, names[kind], count == 1 ? "" : "s", st_picture_missing(kind));
    }
    return 0;
}

/* Lists the pictures of each class. */
static int find_files(reading *r)
{
    folder *f = r->f;
    if (list(r->path, true, &f->classes)) return -1;
    for (int i = 0; i < f->classes.count; i++) {
        const int before = f->files.count;
        if (list(f->classes.path[i], false, &f->files)) return -1;
        int *more = realloc(f->class, ((size_t)f->files.count + 1) * sizeof *more);
        if (!more) return st_error_set("%.200s: no memory for file names", r->path);
        f->class = more;
        for (int k = before; k < f->files.count; k++) f->class[k] = i;
    }
    if (f->files.count > 0) return check_formats(r);
    return st_error_set("%.200s: contains no folder with pictures", r->path);
}

/* Folders without a picture are no classes; of the others only their names stay. */
static int number_classes(reading *r)
{
    folder *f = r->f;
    int kept = 0;
    f->number = calloc((size_t)f->classes.count, sizeof *f->number);
    if (!f->number) return st_error_set("%.200s: no memory for %d classes", r->path, f->classes.count);
    for (ptrdiff_t i = 0; i < f->count; i++) f->number[f->class[i]] = 1;
    for (int i = 0; i < f->classes.count; i++) {
        char *path = f->classes.path[i], *name = strrchr(path, '/') + 1;
        if (f->number[i] == 0) {
            tell(r, ST_PICTURES_EMPTY, path, "");
            free(path);
            continue;
        }
        memmove(path, name, strlen(name) + 1);
        f->classes.path[kept] = path;
        f->number[i] = kept++;
    }
    f->classes.count = kept;
    for (ptrdiff_t i = 0; i < f->count; i++) f->class[i] = (int)f->number[f->class[i]];
    for (int i = 0; i < kept; i++) f->number[i] = i;
    return 0;
}

static int check(const char *path, const st_pictures_options *o)
{
    if (st_error()) return -1;
    if (!path) return st_error_set("st_pictures: the path is NULL");
    if (o->channels != 0 && o->channels != 1 && o->channels != 3)
        return st_error_set("st_pictures: %d channels, expected 0, 1 or 3", o->channels);
    if (o->height < 0 || o->width < 0)
        return st_error_set("st_pictures: %d by %d, expected no negative size", o->height, o->width);
    return 0;
}

st_dataset *st_pictures_new(const char *path, st_pictures_options options)
{
    if (check(path, &options)) return NULL;
    folder *f = calloc(1, sizeof *f);
    reading r = { .f = f, .path = path, .options = options };
    if (!f) st_error_set("%.200s: no memory", path);
    st_dataset kind = { .get = get, .release = release, .own = f, .grain = 64 };
    if (f && find_files(&r) == 0 && read_all(&r) == 0 && number_classes(&r) == 0) {
        kind.count = f->count;
        kind.x = r.each;
        return st_dataset_new(kind);
    }
    if (f) release(&kind);
    return NULL;
}
