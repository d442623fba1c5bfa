/* arrays.c: see arrays.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/arrays.h"
#include "layers/layers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void arrays_add(arrays *to, st_tensor array)
{
    if (to->count == ARRAYS_MOST) st_error_set("more than %d arrays", ARRAYS_MOST);
    else to->array[to->count++] = array;
}

/* ---- of layers ----------------------------------------------------------------------------------- */

/* Parameters are uniform in ±1/sqrt(elements of the first row); one of a single element, such as an exponent,
 * stays as it is. Variances are around 1, means around 0. */
static void fill(st_layer *l, const char *path, void *context)
{
    (void)path;
    uint64_t *count = context;
    for (int i = 0; i < l->params; i++) {
        const st_tensor t = l->param[i];
        const double most = sqrt((double)t.shape.n[0] / (double)st_numel(t));
        if (st_numel(t) > 1) st_uniform(t, (st_random_key){ 3, (*count)++ }, (st_real)-most, (st_real)most);
    }
    for (int i = 0; i < l->states; i++) {
        const double middle = strstr(l->state_name[i], "var") ? 1 : 0;
        st_uniform(l->state[i], (st_random_key){ 4, (*count)++ }, (st_real)(middle - 0.5),
                   (st_real)(middle + 0.5));
    }
}

void arrays_fill(st_layer *root)
{
    uint64_t count = 0;
    st_layer_visit(root, fill, &count);
}

typedef struct adding {
    arrays *to;
    array_kind kind;
} adding;

static void add_own(st_layer *l, const char *path, void *context)
{
    (void)path;
    const adding *a = context;
    const st_tensor *own = a->kind == PARAMETERS ? l->param : a->kind == GRADIENTS ? l->grad : l->state;
    for (int i = 0; i < (a->kind == STATES ? l->states : l->params); i++) arrays_add(a->to, own[i]);
}

void arrays_add_all(arrays *to, st_layer *root, array_kind kind)
{
    st_layer_visit(root, add_own, &(adding){ to, kind });
}

static void exchange(st_layer *l, const char *path, void *context)
{
    (void)path;
    double **p = context;
    if (strcmp(l->type->name, "dropout") != 0 && strcmp(l->type->name, "channel_dropout") != 0) return;
    st_dropout_options *o = (void *)(uintptr_t)l->options;
    const double before = o->p;
    o->p = *(*p)++; /* no tree has that many */
    (*p)[-1] = before;
}

void arrays_exchange_dropout(st_layer *root, double p[ARRAYS_MOST])
{
    st_layer_visit(root, exchange, &p);
}

/* ---- writing ------------------------------------------------------------------------------------- */

static void write_shape(st_shape s, FILE *to)
{
    for (int axis = 0; axis < s.rank; axis++) fprintf(to, axis ? "x%td" : "%td", s.n[axis]);
}

int arrays_write(const arrays *from, const char *name)
{
    char path[1024];
    const char *folder = getenv("BENCH_FOLDER");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
    if (st_error()) return -1;
    FILE *to = fopen(path, "wb");
    if (!to) return st_error_set("%s: %s", path, strerror(errno));
    for (int i = 0; i < from->count; i++) {
        if (i) fputc(' ', to);
        write_shape(from->array[i].shape, to);
    }
    fputc('\n', to);
    for (int i = 0; i < from->count; i++)
        fwrite(st_data(from->array[i]), sizeof(st_real), (size_t)st_numel(from->array[i]), to);
    const bool failed = ferror(to);
    return fclose(to) || failed ? st_error_set("%s: %s", path, strerror(errno)) : 0;
}

/* ---- comparing ----------------------------------------------------------------------------------- */

/* A file as it is: the line of shapes, ended by 0, and the numbers behind it. */
typedef struct contents {
    char *line;
    const char *number; /* not aligned */
    size_t count;
} contents;

static contents read_contents(const char *path)
{
    contents c = { NULL, NULL, 0 };
    size_t size = 0, room = 1 << 16, got = 1;
    FILE *from = fopen(path, "rb");
    for (char *more; from && got > 0 && (more = realloc(c.line, room)); size += got) {
        c.line = more;
        got = fread(c.line + size, 1, room - size, from);
        if (size + got == room) room *= 2;
    }
    if (from) fclose(from);
    char *end = c.line ? memchr(c.line, '\n', size) : NULL;
    if (end) {
        *end = 0;
        c.number = end + 1;
        c.count = (size - (size_t)(c.number - c.line)) / sizeof(float);
    } else {
        free(c.line);
        c.line = NULL;
    }
    return c;
}

/* The elements of the array whose shape begins there; `text` moves on to the next one's. */
static size_t next_array(const char **text)
{
    size_t elements = 1;
    char *end;
    do {
        elements *= (size_t)strtoul(*text, &end, 10);
        *text = end + (*end == 'x' || *end == ' ');
    } while (*end == 'x');
    return elements;
}

static float number_at(const contents *c, size_t i)
{
    float x;
    memcpy(&x, c->number + i * sizeof x, sizeof x);
    return x;
}

/* The root mean square of a, of what is finite. */
static double root_mean_square(const contents *a, size_t begin, size_t count)
{
    double sum = 0;
    for (size_t i = begin; i < begin + count; i++) {
        const double x = (double)number_at(a, i);
        if (isfinite(x)) sum += x * x;
    }
    return count ? sqrt(sum / (double)count) : 0;
}

/* That of a - b, which is not a number where one of them is none. A maximum of nothing is infinite in
 * both. */
static double distance(const contents *a, const contents *b, size_t begin, size_t count)
{
    double sum = 0;
    for (size_t i = begin; i < begin + count; i++) {
        const double x = (double)number_at(a, i), y = (double)number_at(b, i);
        if (x != y) sum += (x - y) * (x - y);
    }
    return count ? sqrt(sum / (double)count) : 0;
}

/* Gradients that are zero but for roundings, as a bias's before a batchnorm is, have errors of the others'
 * size. */
static double greatest(const contents *a)
{
    double most = 0;
    size_t begin = 0;
    for (const char *text = a->line; *text;) {
        const size_t count = next_array(&text);
        most = fmax(most, root_mean_square(a, begin, count));
        begin += count;
    }
    return most;
}

static bool agree(const contents *own, const contents *theirs, double limit, char *why, size_t room)
{
    enum { SHOWN = 40 };
    if (!theirs->line) {
        snprintf(why, room, "it has written no result");
        return false;
    }
    if (strcmp(own->line, theirs->line) != 0 || own->count != theirs->count) {
        snprintf(why, room, "its result is [%.*s], %zu numbers, expected [%.*s], %zu", SHOWN, theirs->line,
                 theirs->count, SHOWN, own->line, own->count);
        return false;
    }
    const double least = 1e-3 * greatest(own);
    size_t begin = 0;
    int i = 1;
    for (const char *text = own->line; *text; i++) {
        const size_t count = next_array(&text);
        const double size = root_mean_square(own, begin, count) + least,
                     error = distance(own, theirs, begin, count);
        if (!(error <= limit * size)) {
            snprintf(why, room,
                     "its result is another: array %d differs by %.2g of its size, at most %.2g expected", i,
                     error / size, limit);
            return false;
        }
        begin += count;
    }
    return true;
}

bool arrays_agree(const char *own, const char *theirs, double limit, char *why, size_t room)
{
    contents a = read_contents(own), b = read_contents(theirs);
    bool same = a.line && agree(&a, &b, limit, why, room);
    if (!a.line) snprintf(why, room, "%s is not there", own);
    free(a.line);
    free(b.line);
    return same;
}
