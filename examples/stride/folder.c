/* folder.c: see folder.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/folder.h"

#include "examples/stride/paths.h"
#include "examples/stride/sketch.h"
#include "examples/stride/text.h"
#include "tensor/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED = 20 };

/* ---- names of many files in one line ---------------------------------------------------------------- */

static void add_name(char to[200], const char *path)
{
    const size_t used = strlen(to), more = strlen(path) + 2;
    if (used >= 3 && strcmp(to + used - 3, "…") == 0) return;
    const bool fits = used + more + 4 < 200;
    snprintf(to + used, 200 - used, "%s%s", used ? ", " : "", fits ? path : "…");
}

static void say_why(char to[120], const char *path)
{
    const char *missing = st_picture_missing(st_picture_named(path));
    if (missing) snprintf(to, 120, "built without %s", missing);
    else if (!*to) snprintf(to, 120, "only PNG and JPEG are read");
}

/* ---- the data set --------------------------------------------------------------------------------- */

typedef struct messages {
    const char *path; /* of the folder */
    FILE *to;         /* NULL: none */
    sketch_progress progress;
    int read, bad, unread;
    char names[200], why[120]; /* of the unread, as in folder_list */
    char sizes[ST_ERROR_SIZE]; /* of two pictures that differ */
} messages;

static void tell(void *context, st_pictures_event event, const char *path, const char *text)
{
    messages *m = context;
    switch (event) {
    case ST_PICTURES_READ: sketch_step(&m->progress, ++m->read, 0); break;
    case ST_PICTURES_BAD:
        sketch_erase(&m->progress);
        if (m->to && m->bad < MOST_LISTED) text_put_in(m->to, "", text, "\n");
        if (m->to && m->bad == MOST_LISTED) fputs("…\n", m->to);
        m->bad++;
        break;
    case ST_PICTURES_FOREIGN:
        add_name(m->names, path + strlen(m->path) + 1);
        say_why(m->why, path);
        m->unread++;
        break;
    case ST_PICTURES_UNEQUAL: snprintf(m->sizes, sizeof m->sizes, "%s", text); break;
    case ST_PICTURES_EMPTY:
        sketch_erase(&m->progress);
        if (m->to) text_put_in(m->to, "", path, ": contains no picture that can be read: not a class\n");
        break;
    }
}

static void put_unread(const messages *m)
{
    text_put_in(m->to, "", m->path, ": ");
    fprintf(m->to, "%d picture%s not read, %s: ", m->unread, m->unread == 1 ? "" : "s", m->why);
    text_put_in(m->to, "", m->names, "\n");
}

/* The library's error, and the option that helps. */
static void advise(const messages *m, bool skips)
{
    const int left = m->bad + m->unread;
    if (m->sizes[0]) {
        st_error_clear();
        st_error_set("%s: resize them with --size HxW", m->sizes);
    } else if (left > 0 && !skips)
        text_append_error(left > 1 ? ": --skip-bad leaves them out" : ": --skip-bad leaves it out");
}

st_dataset *folder_open(const char *path, st_pictures_options options, FILE *to)
{
    messages m = { .path = path, .to = to, .progress = sketch_begin(to, "pictures read") };
    options.tell = tell;
    options.context = &m;
    st_dataset *d = st_pictures_new(path, options);
    const int left = m.bad + m.unread;
    sketch_erase(&m.progress);
    if (to && m.unread > 0) put_unread(&m);
    if (to && d && left > 0)
        fprintf(to, "%d picture%s left out, %td read\n", left, left == 1 ? "" : "s", d->count);
    if (!d) advise(&m, options.skip_bad);
    return d;
}

/* ---- lists ---------------------------------------------------------------------------------------- */

void folder_free(folder_list *l)
{
    while (l->count > 0) free(l->path[--l->count]);
    free(l->path);
    *l = (folder_list){ 0 };
}

static int append(folder_list *to, const char *path)
{
    char **more = realloc(to->path, ((size_t)to->count + 1) * sizeof *more);
    if (more) to->path = more;
    if (!more || !(to->path[to->count] = strdup(path)))
        return st_error_set("%.200s: no memory for file names", path);
    to->count++;
    return 0;
}

static int take(folder_list *to, const char *path)
{
    const st_picture_kind kind = st_picture_named(path);
    if (kind == ST_PICTURE_NONE) return 0;
    if (kind != ST_PICTURE_OTHER && !st_picture_missing(kind)) return append(to, path);
    add_name(to->names, path + to->root);
    say_why(to->why, path);
    to->unread++;
    return 0;
}

/* Appends the pictures in a folder, or its folders, sorted by name. Hidden ones are ignored. */
static int list(const char *in, bool folders, folder_list *to)
{
    char path[LONGEST_PATH];
    struct dirent **entry;
    int count = scandir(in, &entry, NULL, alphasort);
    if (count < 0) return st_error_set("%.200s: %s", in, strerror(errno));
    for (int i = 0; i < count; i++) {
        const char *name = entry[i]->d_name;
        const bool fits = snprintf(path, sizeof path, "%s/%s", in, name) < LONGEST_PATH;
        if (name[0] != '.' && !fits)
            st_error_set("%.200s: a path in it is longer than %d bytes", in, LONGEST_PATH - 1);
        if (name[0] != '.' && !st_error() && path_is_folder(path) == folders)
            folders ? append(to, path) : take(to, path);
        free(entry[i]);
    }
    free(entry);
    return st_error() ? -1 : 0;
}

bool folder_has_classes(const char *path)
{
    folder_list folders = { 0 }, files = { 0 };
    list(path, true, &folders);
    for (int i = 0; i < folders.count && files.count + files.unread == 0; i++) {
        st_error_clear();
        list(folders.path[i], false, &files);
    }
    const bool found = files.count + files.unread > 0;
    st_error_clear();
    folder_free(&folders), folder_free(&files);
    return found;
}

int folder_pictures(const char *path, folder_list *to)
{
    folder_list folders = { 0 };
    to->root = strlen(path) + 1;
    int status = list(path, false, to) || list(path, true, &folders) ? -1 : 0;
    for (int i = 0; i < folders.count && status == 0; i++) status = list(folders.path[i], false, to);
    folder_free(&folders);
    if (status == 0 && to->count + to->unread == 0)
        status = st_error_set("%.200s: contains no picture", path);
    if (status) folder_free(to);
    return status;
}
