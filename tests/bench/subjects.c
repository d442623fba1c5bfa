/* subjects.c: see subjects.h. */
#include "tests/bench/subjects.h"
#include "tests/bench/networks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 128, SIZES = 8 };

/* ---- layers -------------------------------------------------------------------------------------- */

/* Sizes as a request has them. Batches of 64 stand for whatever batch is asked for, and others in
 * proportion. */
typedef struct layer_case {
    const char *kind;
    int size[SIZES];
} layer_case;

static const layer_case cases[] = {
    /* N C H W, out_channels, kernel, stride, padding */
    { "conv", { 64, 1, 28, 28, 32, 3, 1, 0 } },
    { "conv", { 64, 32, 26, 26, 64, 3, 1, 0 } },
    { "conv", { 64, 1, 28, 28, 6, 5, 1, 2 } },
    { "conv", { 64, 6, 14, 14, 16, 5, 1, 0 } },
    { "conv", { 32, 64, 56, 56, 64, 3, 1, 1 } },
    { "conv", { 32, 64, 56, 56, 128, 3, 2, 1 } },
    { "conv", { 32, 256, 14, 14, 256, 1, 1, 0 } },
    /* N C H W, kernel (0: all), stride, padding */
    { "maxpool", { 64, 64, 24, 24, 2, 2, 0 } },
    { "maxpool", { 64, 32, 28, 28, 3, 2, 1 } },
    { "avgpool", { 64, 64, 24, 24, 2, 2, 0 } },
    { "avgpool", { 64, 64, 24, 24, 0, 0, 0 } },
    /* N in, out */
    { "dense", { 64, 784, 512 } },
    { "dense", { 64, 9216, 128 } },
    { "batchnorm", { 64, 64, 24, 24 } },
    { "layernorm", { 4096, 512 } },
    { "relu", { 64, 64, 24, 24 } },
    { "gelu", { 64, 64, 24, 24 } },
    { "sigmoid", { 64, 64, 24, 24 } },
    { "softmax", { 4096, 512 } },
    { "dropout", { 64, 64, 24, 24 } },
};

/* Which sides of a pass each kind reads or writes, in arrays of x's or y's size, at the least: the backward
 * pass of an activation sees dy and one of x and y, and makes dx; that of a mask or a window needs dy
 * alone. */
typedef struct layer_kind {
    const char *name;
    int rank, numbers;
    double forward[2], backward[2], gradient[2]; /* times x, times y */
} layer_kind;

static const layer_kind kinds[] = {
    { .name = "conv", .rank = 4, .numbers = 8 },         { .name = "dense", .rank = 2, .numbers = 3 },
    { "maxpool", 4, 7, { 1, 1 }, { 1, 1 }, { 0 } },      { "avgpool", 4, 7, { 1, 1 }, { 1, 1 }, { 0 } },
    { "batchnorm", 4, 4, { 1, 1 }, { 2, 1 }, { 1, 1 } }, { "layernorm", 2, 2, { 1, 1 }, { 2, 1 }, { 1, 1 } },
    { "relu", 4, 4, { 1, 1 }, { 2, 1 }, { 0 } },         { "gelu", 4, 4, { 1, 1 }, { 2, 1 }, { 0 } },
    { "sigmoid", 4, 4, { 1, 1 }, { 2, 1 }, { 0 } },      { "softmax", 2, 2, { 1, 1 }, { 2, 1 }, { 0 } },
    { "dropout", 4, 4, { 1, 1 }, { 1, 1 }, { 0 } },
};

static const layer_kind *kind_of(const char *name)
{
    const layer_kind *k = kinds;
    while (strcmp(k->name, name) != 0) k++;
    return k;
}

static double product(const int *factor, int count)
{
    double result = 1;
    for (int i = 0; i < count; i++) result *= factor[i];
    return result;
}

static double windows(int extent, int kernel, int stride, int padding)
{
    return kernel == 0 ? 1 : (extent + 2 * padding - kernel) / stride + 1;
}

static double conv_flops(const int *s)
{
    double places = windows(s[2], s[5], s[6], s[7]) * windows(s[3], s[5], s[6], s[7]);
    return 2.0 * s[0] * s[4] * places * s[1] * s[5] * s[5];
}

static double elements_of_y(const layer_kind *k, const int *s)
{
    bool pools = strcmp(k->name, "maxpool") == 0 || strcmp(k->name, "avgpool") == 0;
    if (!pools) return product(s, k->rank);
    return product(s, 2) * windows(s[2], s[4], s[5], s[6]) * windows(s[3], s[4], s[5], s[6]);
}

/* "64x1x28x28", and for what follows the shape "32@3x3/2+1": a stride of 2, 1 of padding. */
static void name_layer(char *to, const layer_case *c, const layer_kind *k, const int *s)
{
    int at = snprintf(to, SUBJECT_TEXT, "%s ", c->kind);
    for (int i = 0; i < k->rank; i++) at += snprintf(to + at, SUBJECT_TEXT - at, "%s%d", i ? "x" : "", s[i]);
    if (k->numbers == k->rank) return;
    if (k->rank == 2) at += snprintf(to + at, SUBJECT_TEXT - at, " to %d", s[2]);
    if (k->rank == 2) return;
    const int *window = s + k->numbers - 3;
    if (k->numbers == 8) at += snprintf(to + at, SUBJECT_TEXT - at, " %d@", s[4]);
    else at += snprintf(to + at, SUBJECT_TEXT - at, " ");
    if (window[0] == 0) at += snprintf(to + at, SUBJECT_TEXT - at, "all");
    else at += snprintf(to + at, SUBJECT_TEXT - at, "%dx%d", window[0], window[0]);
    if (window[1] > 1) at += snprintf(to + at, SUBJECT_TEXT - at, "/%d", window[1]);
    if (window[2] > 0) snprintf(to + at, SUBJECT_TEXT - at, "+%d", window[2]);
}

/* "layer 64x1x28x28 conv 32 3 stride=2 padding=1" */
static void request_layer(char *to, const layer_case *c, const layer_kind *k, const int *s)
{
    int at = snprintf(to, SUBJECT_TEXT, "layer ");
    for (int i = 0; i < k->rank; i++) at += snprintf(to + at, SUBJECT_TEXT - at, i ? "x%d" : "%d", s[i]);
    at += snprintf(to + at, SUBJECT_TEXT - at, " %s", c->kind);
    if (k->numbers == 3 || k->numbers == 8) at += snprintf(to + at, SUBJECT_TEXT - at, " %d", s[k->rank]);
    const int *window = s + k->numbers - 3;
    if (k->numbers > 4 && window[0] > 0)
        at +=
            snprintf(to + at, SUBJECT_TEXT - at, " %d stride=%d padding=%d", window[0], window[1], window[2]);
    if (strcmp(c->kind, "dropout") == 0) snprintf(to + at, SUBJECT_TEXT - at, " 0.5");
}

static double bytes_of(const layer_kind *k, const int *s, const double times[2])
{
    return (double)sizeof(float) * (times[0] * product(s, k->rank) + times[1] * elements_of_y(k, s));
}

static int add_layer(subject *to, const layer_case *c, int batch)
{
    const layer_kind *k = kind_of(c->kind);
    int size[SIZES], count = 0;
    memcpy(size, c->size, sizeof size);
    size[0] = (int)((long)size[0] * batch / 64);
    bool convolves = strcmp(k->name, "conv") == 0, multiplies = strcmp(k->name, "dense") == 0;
    const struct {
        const char *name;
        const double *times;
    } passes[] = { { "forward", k->forward }, { "backward", k->backward }, { "gradient", k->gradient } };
    for (int i = 0; i < 3; i++) {
        if (i == 2 && !convolves && !multiplies && k->gradient[0] == 0) continue;
        subject *s = &to[count++];
        *s = (subject){ .pass = passes[i].name, .process = "layers" };
        name_layer(s->name, c, k, size);
        request_layer(s->request, c, k, size);
        s->flops = convolves ? conv_flops(size) : multiplies ? 2 * product(size, 3) : 0;
        s->bytes = bytes_of(k, size, passes[i].times);
    }
    return count;
}

/* ---- the machine and the networks ------------------------------------------------------------------ */

static int add_machine(subject *to, bool small)
{
    double side = small ? 256 : 2048, megabytes = small ? 8 : 64;
    to[0] = (subject){ .name = "fma", .request = "fma", .pass = "run", .process = "machine" };
    to[1] = (subject){ .pass = "run", .process = "machine", .flops = 2 * side * side * side };
    snprintf(to[1].name, SUBJECT_TEXT, "sgemm %gx%gx%g", side, side, side);
    snprintf(to[1].request, SUBJECT_TEXT, "sgemm %g", side);
    to[2] = (subject){ .pass = "run", .process = "machine", .bytes = 2 * megabytes * 1048576 };
    snprintf(to[2].name, SUBJECT_TEXT, "copy %g MiB", megabytes);
    snprintf(to[2].request, SUBJECT_TEXT, "copy %g", megabytes);
    /* The same of arrays as large as those of the layers below, which caches hold in part. */
    to[3] = (subject){ .pass = "run", .process = "machine", .bytes = 2 * 9 * 1048576.0 };
    snprintf(to[3].name, SUBJECT_TEXT, "copy 9 MiB");
    snprintf(to[3].request, SUBJECT_TEXT, "copy 9");
    for (int i = 0; i < 4; i++) to[i].alone = true;
    return 4;
}

static int add_network(subject *to, const char *which, int batch)
{
    st_net *n = network_new(which);
    if (!n) return -1;
    for (int i = 0; i < 2; i++) {
        bool training = i == 0;
        to[i] = (subject){ .pass = training ? "train" : "infer", .process = which, .images = batch };
        to[i].flops = batch * network_flops(n, training);
        snprintf(to[i].name, SUBJECT_TEXT, "%s", which);
        snprintf(to[i].request, SUBJECT_TEXT, "net %s %d", which, batch);
    }
    st_net_free(n);
    return 2;
}

/* One image at a time, which is what a deployed network is asked for. */
static void add_single(subject *to, const char *which)
{
    add_network(to, which, 1);
    *to = to[1]; /* inference alone */
    snprintf(to->name, SUBJECT_TEXT, "%s of one image", which);
}

static void add_busy(subject *to, const char *which, int batch)
{
    subject both[2];
    add_network(both, which, batch);
    *to = both[0]; /* training alone */
    to->busy = to->alone = true;
    snprintf(to->name, SUBJECT_TEXT, "%s beside a busy process", which);
}

bool subject_is_called(const subject *s, const char *part)
{
    char text[3 * SUBJECT_TEXT];
    snprintf(text, sizeof text, "%s %s %s", s->name, s->pass, s->request);
    return strstr(text, part);
}

subject *subjects_new(int batch, int *count)
{
    subject *all = calloc(MOST, sizeof *all);
    if (!all) {
        st_error_set("no memory for the subjects");
        return NULL;
    }
    *count = add_machine(all, batch < 64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        *count += add_layer(all + *count, &cases[i], batch);
    for (const char *const *n = networks; *n; n++) {
        int added = add_network(all + *count, *n, batch);
        if (added < 0) {
            free(all);
            return NULL;
        }
        *count += added;
    }
    for (int i = 0; i < 2; i++) add_single(all + (*count)++, networks[i]); /* lenet5 and example */
    for (const char *const *n = networks; *n; n++) add_busy(all + (*count)++, *n, batch);
    return all;
}

/* ---- a file ---------------------------------------------------------------------------------------- */

typedef struct listed {
    subject *subjects;
    int count, room;
} listed;

static subject *add_listed(listed *all, const char *request, const char *pass)
{
    if (all->count == all->room) {
        const int room = all->room ? 2 * all->room : 64;
        subject *more = realloc(all->subjects, (size_t)room * sizeof *more);
        if (!more) {
            st_error_set("no memory for %d subjects", room);
            return NULL;
        }
        all->subjects = more;
        all->room = room;
    }
    subject *s = &all->subjects[all->count++];
    *s = (subject){ .pass = pass, .process = "listed" };
    snprintf(s->request, SUBJECT_TEXT, "%s", request);
    snprintf(s->name, SUBJECT_TEXT, "%s", request + strcspn(request, " ") + 1);
    return s;
}

/* What limits layers (limits.h): multiply-adds, and copies of 1 to 64 MiB, half the memory of a row of 0.3 ms
 * and of one of 30 ms: the C library's, and relu, which fetches what it will read and writes past the
 * caches. */
static int list_machine(listed *all, bool small)
{
    static const struct {
        const char *request, *pass;
        double megabytes; /* copied */
    } machine[] = {
        { "fma", "run", 0 },
        { "copy 1", "run", 1 },
        { "copy 4", "run", 4 },
        { "copy 16", "run", 16 },
        { "copy 64", "run", 64 },
        { "layer 1x262144 relu", "forward", 1 },
        { "layer 4x262144 relu", "forward", 4 },
        { "layer 16x262144 relu", "forward", 16 },
        { "layer 64x262144 relu", "forward", 64 },
    };
    for (size_t i = 0; i < sizeof machine / sizeof *machine; i++) {
        if (small && machine[i].megabytes > 4) continue;
        subject *s = add_listed(all, machine[i].request, machine[i].pass);
        if (!s) return -1;
        s->process = "machine";
        s->alone = true;
        s->bytes = 2 * 1048576.0 * machine[i].megabytes;
        snprintf(s->name, SUBJECT_TEXT, "%s", s->request);
    }
    return 0;
}

/* Their adjoint reads dy alone, where they have no parameters. */
static bool is_linear(const st_layer *l)
{
    static const char *const names[] = { "avgpool",  "adaptive_avgpool", "pad2d",
                                         "upsample", "blur_pool",        "flatten" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(l->type->name, names[i]) == 0) return true;
    return false;
}

/* Each array that a pass needs is read or written once: y of x; dx of dy and, where the layer is not linear,
 * of x or y; gradients of dy and x. */
static void count_work(subject *s, const st_layer *l, const double counts[3], double flops)
{
    const double x = counts[0], y = counts[1], parameters = counts[2];
    const bool both = strcmp(s->pass, "both") == 0;
    double elements = x + y + parameters;
    if (both) elements += parameters > 0 ? parameters + x : is_linear(l) ? 0 : x < y ? x : y;
    s->bytes = (double)sizeof(float) * elements;
    s->flops = both ? 2 * flops : flops;
}

/* "SIZE TEXT" */
static int list_layer(listed *all, const char *request)
{
    static const char *const passes[] = { "forward", "both", "gradient" };
    char size[SUBJECT_TEXT];
    const char *text = request + 6;
    const int length = (int)strcspn(text, " ");
    snprintf(size, sizeof size, "%.*s", length, text);
    st_shape x, y;
    st_layer *l = network_layer(size, text + length, &x);
    const bool planned = l && st_layer_plan(l, x, &y) == 0;
    st_layer_needs needs = { 0 };
    if (planned) st_layer_measure(l, &needs);
    const int count = !planned ? 0 : needs.parameters > 0 ? 3 : 2;
    for (int i = 0; i < count; i++) {
        subject *s = add_listed(all, request, passes[i]);
        if (!s) break;
        const double counts[] = { (double)st_shape_numel(x, "x"), (double)st_shape_numel(y, "y"),
                                  (double)needs.parameters };
        count_work(s, l, counts, (double)x.n[0] * network_layer_flops(l));
    }
    st_layer_free(l);
    return st_error() ? -1 : 0;
}

/* "NAME BATCH" */
static int list_net(listed *all, const char *request)
{
    char name[SUBJECT_TEXT];
    int batch;
    if (sscanf(request, "net %1023s %d", name, &batch) != 2) return st_error_set("expected net NAME BATCH");
    st_net *n = network_new(name);
    if (!n) return -1;
    for (int training = 1; training >= 0; training--) {
        subject *s = add_listed(all, request, training ? "train" : "infer");
        if (!s) break;
        s->images = batch;
        s->flops = batch * network_flops(n, training);
    }
    st_net_free(n);
    return st_error() ? -1 : 0;
}

static int list_line(listed *all, char *line)
{
    line[strcspn(line, "#\n")] = 0;
    for (size_t last = strlen(line); last > 0 && line[last - 1] == ' '; last--) line[last - 1] = 0;
    line += strspn(line, " ");
    if (!*line) return 0;
    if (strncmp(line, "layer ", 6) == 0) return list_layer(all, line);
    if (strncmp(line, "net ", 4) == 0) return list_net(all, line);
    return st_error_set("\"%.40s\" begins neither with layer nor with net", line);
}

subject *subjects_read(const char *path, bool small, int *count)
{
    listed all = { 0 };
    char line[SUBJECT_TEXT];
    FILE *from = fopen(path, "r");
    if (!from) st_error_set("%s: %s", path, strerror(errno));
    const int machine = from && list_machine(&all, small) == 0 ? all.count : 0;
    for (int number = 1; from && !st_error() && fgets(line, sizeof line, from); number++)
        if (list_line(&all, line)) st_error_within("%s, line %d: ", path, number);
    if (from) fclose(from);
    if (!st_error() && all.count == machine) st_error_set("%s: it lists nothing", path);
    *count = all.count;
    if (!st_error()) return all.subjects;
    free(all.subjects);
    return NULL;
}
