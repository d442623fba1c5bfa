/* crash.c: training that is killed at any time, again and again, comes to the same bytes as training that is
 * not.
 *
 *     crash FOLDER [KILLS [SEED]]
 *
 * Children train and are killed with SIGKILL: after a random time, or a random time after they began to write
 * a checkpoint. A page of memory that they share with this process says what they had come to. This process
 * starts no threads, which a child could not go on with, so all that looks into files is done by children,
 * too. */
#define _GNU_SOURCE /* MAP_ANONYMOUS, RTLD_NEXT */
#include "nn/data/augment.h"
#include "nn/data/digits.h"
#include "nn/files/checkpoint.h"
#include "nn/files/safetensors.h"
#include "nn/files/save.h"
#include "nn/callbacks/callbacks.h"
#include "nn/train.h"
#include "tensor/random.h"
#include "tensor/threads.h"
#include "tests/each_epoch.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 60, BATCH = 10, EPOCHS = 5, STEPS = EPOCHS * SAMPLES / BATCH, MOST_THREADS = 3 };

/* ---- what children say ----------------------------------------------------------------------------- */

typedef struct page {
    volatile long step; /* whose samples were asked for: the checkpoint of the one before is complete */
    volatile long begun, renamed; /* checkpoints and other files, of all children */
    volatile long found;          /* the step of the checkpoint, as a child found it in the file */
} page;

static page *said;

/* The library's own calls, noted on their way to the C library. */
FILE *fdopen(int descriptor, const char *mode)
{
    FILE *(*real_one)(int, const char *);
    *(void **)&real_one = dlsym(RTLD_NEXT, "fdopen");
    said->begun++;
    return real_one(descriptor, mode);
}

int rename(const char *from, const char *to)
{
    int (*real_one)(const char *, const char *);
    *(void **)&real_one = dlsym(RTLD_NEXT, "rename");
    int status = real_one(from, to);
    said->renamed++;
    return status;
}

/* ---- claims ------------------------------------------------------------------------------------------ */

typedef enum claim { READABLE, NOT_LOST, CLEAN, SAME_WEIGHTS, SAME_LOG, CLAIMS } claim;

static const char *const claims[CLAIMS] = {
    [READABLE] = "a checkpoint can be read whenever its writer is killed",
    [NOT_LOST] = "no checkpoint that was complete is lost",
    [CLEAN] = "at most one temporary file per file written, and none at the end",
    [SAME_WEIGHTS] = "weights come to the same bytes, at 1, 2 and 3 threads in turn",
    [SAME_LOG] = "so do logs of both kinds",
};

static long held[CLAIMS], broken[CLAIMS];

static void check(claim c, bool holds, const char *what, long value)
{
    (holds ? held : broken)[c]++;
    if (!holds) printf("     %s: %s (%ld)\n", claims[c], what, value);
}

/* ---- children ---------------------------------------------------------------------------------------- */

static char folder[1000];

static const char *in_folder(const char *name)
{
    static char path[4][1300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

typedef struct watched {
    const st_dataset *of;
    const st_net *n;
} watched;

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const watched *w = d->own;
    if ((long)w->n->step > said->step) said->step = (long)w->n->step;
    w->of->get(w->of, i, x, y);
}

static void begin(const st_dataset *d, uint64_t pass)
{
    st_dataset_begin_epoch(((const watched *)d->own)->of, pass);
}

static st_net *small_net(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28),
                      st_conv2d(.out_channels = 4, .kernel = { 5, 5 }, .stride = { 2, 2 }), st_batchnorm(),
                      st_relu(), st_dropout(.p = 0.25), st_flatten(), st_dense(.out_features = 10));
}

/* Goes on from the checkpoint, or begins; to the end, unless it is killed. */
static int learn(int threads)
{
    st_set_num_threads(threads);
    st_net *n = small_net();
    st_dataset *digits = st_digits(SAMPLES, 1), *validation = st_digits(30, 2),
               *drawn = st_dataset_augment(digits, .shift = 2, .rotation = 10, .noise = 0.1, .seed = 3);
    watched own = { drawn, n };
    st_dataset *training = drawn ? st_dataset_new((st_dataset){ .count = SAMPLES,
                                                                .x = drawn->x,
                                                                .target = drawn->target,
                                                                .get = get,
                                                                .begin = begin,
                                                                .own = &own,
                                                                .grain = 1 })
                                 : NULL;
    st_optim *o = st_adam(.lr = 0.01);
    st_train_options options = { .loss = st_cross_entropy(.label_smoothing = 0.1),
                                 .optim = o,
                                 .epochs = EPOCHS,
                                 .batch = BATCH,
                                 .schedule = st_cosine_lr(.end_factor = 0.1),
                                 .validation = validation,
                                 .seed = 4,
                                 .callbacks = { st_log(in_folder("log.csv")), st_log(in_folder("log.jsonl")),
                                                patient(2),
                                                st_checkpoint(in_folder("checkpoint"), 1, true) } };
    bool done =
        !st_error() && st_train_run(n, training, options, NULL) == 0 && st_net_save(n, in_folder("net")) == 0;
    if (!done) fprintf(stderr, "crash: %s\n", st_error());
    return done ? 0 : 1;
}

/* Checks that the checkpoint holds a net, and finds its step; 0 where there is no file. */
static int look(int unused)
{
    (void)unused;
    const char *path = in_folder("checkpoint");
    said->found = 0;
    if (access(path, F_OK)) return 0;
    st_net *n = st_net_load(path, .batch = BATCH);
    safetensors *file = n ? safetensors_open(path) : NULL;
    const char *text = file ? safetensors_text(file, "training") : NULL;
    json_t *entry = text ? json_loads(text, 0, NULL) : NULL;
    double epoch, batch, step = 0;
    if (json_unpack(entry, "{s:{s:[F,F,F]}}", "numbers", "place", &epoch, &batch, &step) == 0)
        said->found = (long)step;
    if (step == 0) fprintf(stderr, "crash: %s\n", st_error() ? st_error() : "no step in the checkpoint");
    return step == 0;
}

/* ---- this process ------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_for(double seconds)
{
    for (double end = now() + seconds, left; (left = end - now()) > 0;)
        if (left > 2e-4)
            nanosleep(&(struct timespec){ 0, (long)(1e9 * (left < 0.5 ? left - 1e-4 : 0.5)) }, NULL);
}

static pid_t start(int (*work)(int), int value)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(work(value));
    if (child > 0) return child;
    perror("crash: fork");
    exit(2);
}

/* Its exit status; -1 where it was killed. */
static int finish(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The temporary files of a file; of all files where it is "". */
static int temporaries(const char *file)
{
    int count = 0;
    DIR *all = opendir(folder);
    for (const struct dirent *entry; all && (entry = readdir(all));)
        count += strncmp(entry->d_name, file, strlen(file)) == 0 && strstr(entry->d_name, ".tmp") != NULL;
    if (all) closedir(all);
    return count;
}

static const char *const files[] = { "checkpoint", "net", "log.csv", "log.jsonl" };
enum { FILES = sizeof files / sizeof *files };

static void forget(void)
{
    for (int i = 0; i < FILES; i++) unlink(in_folder(files[i]));
    said->step = 0;
}

/* A command of the shell in which $1 is the folder and $2 the name of a file. */
static bool shell(const char *command, const char *name)
{
    char text[1500];
    snprintf(text, sizeof text, "set -- '%s' '%s'; %s", folder, name, command);
    return system(text) == 0;
}

/* ---- the campaign ------------------------------------------------------------------------------------ */

typedef struct campaign {
    long kills, in_writing, left, runs, resumed, written;
    st_random_key key;
    uint64_t drawn;
    double begin, step; /* seconds that an uninterrupted run takes until its first step, and for one */
} campaign;

static double draw(campaign *c, double most)
{
    return most * st_random_uniform(c->key, c->drawn++);
}

/* A child that lives for a while: one in two is killed near the writing of a file. Its exit status, or -1. */
static int live(campaign *c, int threads)
{
    bool aimed = draw(c, 1) < 0.5;
    double patience = aimed ? draw(c, 3) : 0,
           seconds = aimed ? draw(c, c->step) : draw(c, c->begin + 4 * c->step);
    long begun = said->begun + 1 + (long)patience;
    pid_t child = start(learn, threads);
    if (aimed)
        for (double end = now() + 10; said->begun < begun && now() < end && kill(child, 0) == 0;) {
            siginfo_t state = { 0 };
            if (waitid(P_PID, (id_t)child, &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid) break;
        }
    wait_for(seconds);
    kill(child, SIGKILL);
    return finish(child);
}

static void check_killed(campaign *c, bool within)
{
    c->kills++;
    c->in_writing += within;
    c->left += temporaries("") > 0;
    for (int i = 0; i < FILES; i++) check(CLEAN, temporaries(files[i]) <= 1, files[i], temporaries(files[i]));
    check(READABLE, finish(start(look, 0)) == 0, "after kill", c->kills);
    check(NOT_LOST, said->found >= said->step, "steps missing", said->step - said->found);
}

/* One run from its beginning to its end, killed on the way. */
static void run(campaign *c, long kills)
{
    forget();
    c->runs++;
    int status = -1, threads = 0;
    while (status < 0) {
        said->begun = said->renamed = 0;
        threads = threads % MOST_THREADS + 1;
        status = c->kills < kills ? live(c, threads) : finish(start(learn, threads));
        if (status < 0) check_killed(c, said->begun > said->renamed);
        c->written += said->renamed;
        c->resumed += status < 0 && said->found > 0;
    }
    int left = temporaries("");
    check(CLEAN, left == 0, "temporary files at the end", left);
    for (int i = 1; i < FILES; i++)
        check(i == 1 ? SAME_WEIGHTS : SAME_LOG,
              status == 0 && shell("cmp -s \"$1/$2\" \"$1/expected/$2\"", files[i]), files[i], c->runs);
}

static int measure(campaign *c)
{
    forget();
    double began = now();
    pid_t child = start(learn, 1);
    while (said->begun < 1 && now() < began + 60) {
    }
    c->begin = now() - began;
    if (finish(child)) return -1;
    c->step = (now() - began - c->begin) / STEPS;
    for (int i = 1; i < FILES; i++) /* not the checkpoint, which may have been written at another best */
        if (!shell("mkdir -p \"$1/expected\" && cp \"$1/$2\" \"$1/expected\"", files[i])) return -1;
    printf("ok   uninterrupted: begins after %.0f ms, a step with its checkpoint takes %.1f ms\n",
           1e3 * c->begin, 1e3 * c->step);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: crash FOLDER [KILLS [SEED]]\n", stderr);
        return 2;
    }
    double began = now();
    long kills = argc > 2 ? atol(argv[2]) : 1000;
    campaign c = { .key = { argc > 3 ? (uint64_t)atol(argv[3]) : 1, 1 } };
    snprintf(folder, sizeof folder, "%s", argv[1]);
    mkdir(folder, 0777);
    setenv("STRIDE_GRAIN", "0", 1); /* threads share what there is, however little */
    said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (said == MAP_FAILED || measure(&c)) {
        perror("crash");
        return 2;
    }
    while (c.kills < kills) run(&c, kills);

    int failed = 0;
    long checks = 0;
    for (int i = 0; i < CLAIMS; i++) {
        printf("%s %s: %ld of %ld\n", broken[i] ? "FAIL" : "ok  ", claims[i], held[i], held[i] + broken[i]);
        failed += broken[i] > 0;
        checks += held[i] + broken[i];
    }
    forget();
    shell("rm -r \"$1/expected\" && rmdir \"$1\"", "");
    printf("     %ld kills came while a file was written, %ld left a temporary file\n", c.in_writing, c.left);
    printf("%d passed, %d failed: %ld kills, %ld files written, gone on with %ld times, %ld checks, %.0f s\n",
           CLAIMS - failed, failed, c.kills, c.written, c.resumed, checks, now() - began);
    return failed > 0;
}
