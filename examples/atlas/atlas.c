/* atlas.c: poolings of the literature, tried again: runs the plan, and writes what came of it. */
#define _POSIX_C_SOURCE 200809L
#include "examples/atlas/results.h"
#include "examples/stride/page.h"
#include "nn/data/digits.h"
#include "nn/files/replace.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "usage: atlas [options]\n\n"
    "Tries poolings of the literature again: examples/atlas/plan.c says what, and nothing else is chosen.\n"
    "Tables go to stdout in Markdown, the page's data to FOLDER/atlas.json; progress goes to stderr. Each "
    "run's\n"
    "result is kept in FOLDER, so that an interrupted atlas goes on where it was. Remove FOLDER to begin "
    "again.\n\n"
    "  -s, --scale=NAME   full, quick or smoke (full)\n"
    "  -f, --folder=PATH  where results are kept (build/atlas)\n"
    "  -o, --only=NAME    run one experiment: zeiler-fergus, say\n"
    "  -k, --kept         run nothing: write what there is\n"
    "  -h, --help         this text\n";

typedef struct settings {
    atlas a;
    const char *only; /* the key of an experiment; NULL: all */
    bool kept;
} settings;

/* ---- progress ------------------------------------------------------------------------------------- */

/* A line that is drawn again on a terminal; elsewhere nothing until a run has ended. */
static void show_step(st_callback *self, st_run *run, st_event event)
{
    const job *j = self->context;
    const st_train_report *r = &run->report;
    if (event == ST_ON_STEP && (r->step % 20 == 0 || r->step == r->steps))
        fprintf(stderr, "\r\033[K[%d/%d] %s, %s, seed %d: %3ld %%, loss %.4f", j->number, j->count,
                j->of->key, j->with->name, j->seed, 100 * r->step / r->steps, r->training.loss);
}

static void show_result(const job *j, const json_t *result, bool erase)
{
    const char *failed = json_string_value(json_object_get(result, "failed"));
    fprintf(stderr, "%s[%d/%d] %s, %s, seed %d: ", erase ? "\r\033[K" : "", j->number, j->count, j->of->key,
            j->with->name, j->seed);
    if (failed) fprintf(stderr, "%s\n", failed);
    else
        fprintf(stderr, "%.2f %% errors, %.1f s\n", json_number_value(json_object_get(result, "error")),
                json_number_value(json_object_get(result, "seconds")));
}

/* ---- all runs ------------------------------------------------------------------------------------- */

typedef int visitor(job j, void *context);

/* The first seed of everything comes before the second one, so that an early end leaves whole tables. */
static int each_job(scale s, visitor *visit, void *context)
{
    int number = 0, status = 0, most = 0;
    for (const experiment *e = plan_experiments; e->key; e++)
        if (e->size[s].seeds > most) most = e->size[s].seeds;
    for (int seed = 1; seed <= most && !status; seed++)
        for (const experiment *e = plan_experiments; e->key && !status; e++)
            for (const candidate *c = e->candidates; c->name && !status && seed <= e->size[s].seeds; c++)
                if (run_is_possible(c->layers))
                    status = visit((job){ .of = e, .with = c, .seed = seed, .number = ++number }, context);
    return status;
}

static int count_job(job j, void *context)
{
    *(int *)context = j.number;
    return 0;
}

typedef struct running {
    const settings *s;
    int count;
} running;

static int run_job(job j, void *context)
{
    const running *r = context;
    const bool terminal = isatty(STDERR_FILENO) == 1;
    const atlas *a = &r->s->a;
    if (r->s->only && strcmp(r->s->only, j.of->key) != 0) return 0;
    j.count = r->count;
    json_t *result = run_recall(a, j);
    if (!result) {
        const st_callback watch = { "watch", show_step, &j };
        result = run_make(a, j, terminal ? watch : (st_callback){ 0 });
        if (result) show_result(&j, result, terminal);
    }
    json_decref(result);
    return st_error() ? -1 : 0;
}

static void tell_missing(void)
{
    for (const experiment *e = plan_experiments; e->key; e++)
        for (const candidate *c = e->candidates; c->name; c++)
            if (!run_is_possible(c->layers))
                fprintf(stderr, "skip %s, %s: no layer of the library for \"%s\"\n", e->key, c->name,
                        c->layers);
}

/* ---- the program ---------------------------------------------------------------------------------- */

static int open_data(atlas *a)
{
    if (a->scale != SMOKE) return mnist_find(&a->data, stderr);
    a->data = (mnist){
        .train = st_digits(500, 1), .test = st_digits(200, 2), .source = DRAWN_DIGITS, .drawn = true
    };
    return a->data.train && a->data.test ? 0 : -1;
}

static int make_folders(const char *path)
{
    char part[ATLAS_FOLDER_MOST + 1];
    const size_t length = strlen(path);
    if (length < 1 || length >= sizeof part)
        return st_error_set("--folder: expected 1 to %d bytes, not %zu", ATLAS_FOLDER_MOST, length);
    memcpy(part, path, length + 1);
    for (char *slash = strchr(part + 1, '/');; *slash = '/', slash = strchr(slash + 1, '/')) {
        if (slash) *slash = '\0';
        if (mkdir(part, 0777) && errno != EEXIST) return st_error_set("%.200s: %s", part, strerror(errno));
        if (!slash) return 0;
    }
}

static int run(settings *s)
{
    running r = { .s = s };
    char path[600];
    if (make_folders(s->a.folder) || open_data(&s->a)) return -1;
    each_job(s->a.scale, count_job, &r.count);
    tell_missing();
    if (!s->kept && each_job(s->a.scale, run_job, &r)) return -1;
    json_t *all = results_gather(&s->a);
    snprintf(path, sizeof path, "%s/atlas.json", s->a.folder);
    if (all && st_file_replace(path, page_put_json, all) == 0) results_print(all, stdout);
    json_decref(all);
    return st_error() ? -1 : fflush(stdout);
}

static const char *known_experiment(const char *key)
{
    for (const experiment *e = plan_experiments; e->key; e++)
        if (strcmp(e->key, key) == 0) return key;
    fprintf(stderr, "atlas: --only: expected an experiment's name, such as %s, not \"%s\"\n",
            plan_experiments[0].key, key);
    exit(2);
}

static settings parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "scale", required_argument, NULL, 's' }, { "folder", required_argument, NULL, 'f' },
        { "only", required_argument, NULL, 'o' },  { "kept", no_argument, NULL, 'k' },
        { "help", no_argument, NULL, 'h' },        { 0 },
    };
    static const char *const scales[SCALES] = { "full", "quick", "smoke" };
    settings s = { .a = { .folder = "build/atlas" } };
    for (int c; (c = getopt_long(argc, argv, "s:f:o:kh", options, NULL)) != -1;) switch (c) {
        case 's':
            for (s.a.scale = 0; s.a.scale < SCALES && strcmp(optarg, scales[s.a.scale]) != 0;) s.a.scale++;
            if (s.a.scale < SCALES) break;
            fprintf(stderr, "atlas: --scale: expected full, quick or smoke, not \"%s\"\n", optarg);
            exit(2);
        case 'f': s.a.folder = optarg; break;
        case 'o': s.only = known_experiment(optarg); break;
        case 'k': s.kept = true; break;
        case 'h': fputs(usage, stdout); exit(fflush(stdout) ? (perror("atlas: stdout"), 1) : 0);
        default: fputs("try: atlas --help\n", stderr); exit(2);
        }
    if (optind == argc) return s;
    fprintf(stderr, "atlas: unexpected %s; try: atlas --help\n", argv[optind]);
    exit(2);
}

int main(int argc, char **argv)
{
    settings s = parse(argc, argv);
    const int status = run(&s);
    if (status) fprintf(stderr, "atlas: %s\n", st_error() ? st_error() : strerror(errno));
    mnist_free(&s.a.data);
    return status ? 1 : 0;
}
