/* mnist_data.c: looks for MNIST, fetches it, or has digits drawn in its place. */
#define _POSIX_C_SOURCE 200809L
#include "examples/mnist_data.h"

#include "examples/download.h"
#include "examples/sha256.h"
#include "nn/data/digits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, FILES };

enum {
    LONGEST_PATH = 4096,
    LARGEST_FILE = 64 << 20 /* bytes, unpacked */
};

/* The copies on the network are packed differently, so sums are of what is in them. */
typedef struct file {
    const char *name, *sha256;
} file;

static const file files[FILES] = {
    { "train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db" },
    { "train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5" },
    { "t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7" },
    { "t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2" },
};

#define HOME "data/mnist" /* where a download goes */

typedef struct folder {
    const char *path, *source;
} folder;

static const folder folders[] = {
    { HOME, "MNIST in " HOME },
    { "../shared/mnist", "MNIST in ../shared/mnist" },
};

static const char *const copies[] = {
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
};

enum {
    FOLDERS = sizeof folders / sizeof *folders,
    COPIES = sizeof copies / sizeof *copies,
};

/* ---- in a folder ----------------------------------------------------------------------------- */

typedef struct paths {
    char of[FILES][LONGEST_PATH];
} paths;

/* train-images-idx3-ubyte or train-images.idx3-ubyte, each also as .gz. */
static bool find_file(char path[LONGEST_PATH], const char *in, const char *name)
{
    int stem = (int)(strstr(name, "-idx") - name);
    for (int i = 0; i < 4; i++) {
        int length = snprintf(path, LONGEST_PATH, "%s/%.*s%c%s%s", in, stem, name, i & 2 ? '.' : '-',
                              name + stem + 1, i & 1 ? ".gz" : "");
        if (length < LONGEST_PATH && access(path, F_OK) == 0) return true;
    }
    return false;
}

/* The number of files found, up to the first that is not there. */
static int find_files(paths *found, const char *in)
{
    int count = 0;
    while (count < FILES && find_file(found->of[count], in, files[count].name)) count++;
    return count;
}

static int open_files(mnist *m, const paths *found, const char *source)
{
    *m = (mnist){ .source = source };
    m->train = data_idx(found->of[TRAIN_IMAGES], found->of[TRAIN_LABELS]);
    if (m->train) m->test = data_idx(found->of[TEST_IMAGES], found->of[TEST_LABELS]);
    if (m->test) return 0;
    mnist_free(m);
    return -1;
}

int mnist_open(mnist *m, const char *in, const char *source)
{
    *m = (mnist){ 0 };
    paths found;
    int count = find_files(&found, in);
    if (count == FILES) return open_files(m, &found, source);
    if (access(in, R_OK | X_OK)) return error_set("%.150s: %s", in, strerror(errno));
    return error_set("%.150s: %s is not there, plain or as .gz", in, files[count].name);
}

/* What was asked for by name is taken or refused, never replaced. */
static int open_named(mnist *m, const char *in)
{
    return mnist_open(m, in, "MNIST in $MNIST_DIR") ? error_within("MNIST_DIR: ") : 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void say_where(FILE *messages, const char *then)
{
    if (!messages) return;
    fputs("MNIST not found (looked in ", messages);
    for (int i = 0; i < FOLDERS; i++) fprintf(messages, "%s%s", i ? ", " : "", folders[i].path);
    fprintf(messages, ")%s", then);
    fflush(messages);
}

/* ---- from the network ------------------------------------------------------------------------ */

static bool fail(reason *why, const char *what, const char *how)
{
    snprintf(why->text, sizeof why->text, "%.150s: %.100s", what, how);
    return false;
}

static bool is_genuine(const char *path, const file *f, reason *why)
{
    gzFile packed = gzopen(path, "rb");
    if (!packed) return fail(why, path, "cannot be read");
    unsigned char bytes[1 << 14];
    sha256 sum = sha256_begin();
    for (int n; sum.length <= LARGEST_FILE && (n = gzread(packed, bytes, sizeof bytes)) > 0;)
        sha256_add(&sum, bytes, (size_t)n);
    gzclose(packed);
    if (strcmp(sha256_end(sum).text, f->sha256) == 0) return true;
    snprintf(why->text, sizeof why->text, "%s: SHA-256 %.16s..., expected %.16s...", f->name,
             sha256_end(sum).text, f->sha256);
    return false;
}

/* Under a name of its own until it is known to be whole: nobody else sees less. */
static bool fetch_from(const char *copy, const file *f, reason *why)
{
    char url[256], path[256], part[300];
    snprintf(url, sizeof url, "%s%s.gz", copy, f->name);
    snprintf(path, sizeof path, HOME "/%s.gz", f->name);
    snprintf(part, sizeof part, "%s.%ld.part", path, (long)getpid());
    int to = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (to < 0) return fail(why, part, strerror(errno));
    bool done = download(url, to, why);
    if (close(to) && done) done = fail(why, part, strerror(errno));
    done = done && is_genuine(part, f, why);
    if (done && rename(part, path)) done = fail(why, path, strerror(errno));
    if (!done) unlink(part);
    return done;
}

/* The copies in turn, beginning with the one that last worked. */
static bool fetch(const file *f, int *copy, reason *why)
{
    for (int tries = 0; tries < COPIES; tries++) {
        if (fetch_from(copies[*copy], f, why)) return true;
        *copy = (*copy + 1) % COPIES;
    }
    return false;
}

static bool fetch_missing(reason *why)
{
    char path[LONGEST_PATH];
    int copy = 0;
    for (int i = 0; i < FILES; i++)
        if (!find_file(path, HOME, files[i].name) && !fetch(&files[i], &copy, why)) return false;
    return true;
}

/* Folders made in vain are removed. */
static bool fetch_into_folders(int depth, reason *why)
{
    static const char *const parents[] = { "data", HOME };
    if (depth == 2) return fetch_missing(why);
    bool made = mkdir(parents[depth], 0777) == 0;
    if (!made && errno != EEXIST) return fail(why, parents[depth], strerror(errno));
    bool done = fetch_into_folders(depth + 1, why);
    if (!done && made) rmdir(parents[depth]); /* stays where something is in it */
    return done;
}

static bool is_offline(void)
{
    const char *says = getenv("STRIDE_OFFLINE");
    return says && *says && strcmp(says, "0") != 0;
}

/* All that is missing, or false with the reason. */
static bool fetch_all(FILE *messages, reason *why)
{
    if (is_offline()) {
        *why = (reason){ "STRIDE_OFFLINE is set" };
        return false;
    }
    say_where(messages, ": downloading it to " HOME "\n");
    return fetch_into_folders(0, why);
}

/* ---- drawn ----------------------------------------------------------------------------------- */

static int draw(mnist *m)
{
    *m = (mnist){ .source = "drawn digits", .drawn = true };
    m->train = digits_new(60000, 1);
    if (m->train) m->test = digits_new(10000, 2);
    if (m->test) return 0;
    mnist_free(m);
    return -1;
}

/* ---- one after the other --------------------------------------------------------------------- */

int mnist_find(mnist *m, FILE *messages)
{
    *m = (mnist){ 0 };
    const char *named = getenv("MNIST_DIR");
    if (named && *named) return open_named(m, named);

    paths found;
    for (int i = 0; i < FOLDERS; i++)
        if (find_files(&found, folders[i].path) == FILES) return open_files(m, &found, folders[i].source);

    reason why = { "" };
    if (fetch_all(messages, &why) && find_files(&found, HOME) == FILES)
        return open_files(m, &found, folders[0].source);
    char then[sizeof why.text + 80];
    snprintf(then, sizeof then, " and could not be downloaded (%s): drawing digits instead\n", why.text);
    say_where(messages, then);
    return draw(m);
}

void mnist_free(mnist *m)
{
    data_free(m->train);
    data_free(m->test);
    *m = (mnist){ 0 };
}
