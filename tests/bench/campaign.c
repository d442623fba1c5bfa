/* campaign.c: see campaign.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/campaign.h"
#include "tests/bench/arrays.h"
#include "tensor/error.h"
#include "tests/bench/timing.h"
#include "tests/bench/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *campaign_folder(const char *program)
{
    static char folder[1024];
    const char *slash = strrchr(program, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - program) : 1, slash ? program : ".");
    return folder;
}

peer campaign_stride(const char *program)
{
    static char command[1100];
    snprintf(command, sizeof command, "'%s/stride_peer'", campaign_folder(program));
    return (peer){ "stride", command };
}

bool peer_is_of(const peer *p, const char *families)
{
    size_t own = strcspn(p->name, " "), length;
    for (const char *f = families; (length = strcspn(f, " ")) > 0; f += length + strspn(f + length, " "))
        if (own == length && strncmp(p->name, f, length) == 0) return true;
    return false;
}

/* ---- results ------------------------------------------------------------------------------------- */

static result *result_at(const campaign *c, cell at)
{
    return &c->results[(at.subject * c->threads_count + at.threads) * c->peer_count + at.peer];
}

const result *campaign_result(const campaign *c, cell at)
{
    return result_at(c, at);
}

double campaign_best(const campaign *c, cell at)
{
    const result *r = result_at(c, at);
    return quantile(r->seconds, r->rounds, 0);
}

int campaign_find(const campaign *c, const char *name, const char *pass)
{
    for (int i = 0; i < c->subject_count; i++)
        if (strcmp(c->subjects[i].name, name) == 0 && strcmp(c->subjects[i].pass, pass) == 0) return i;
    return -1;
}

/* Subjects from one on, before another. */
typedef struct range {
    int begin, end;
} range;

static range all_of(const campaign *c)
{
    return (range){ 0, c->subject_count };
}

/* Everything once, in the order in which it is measured; ends with the first failure. */
typedef struct staff staff;
static int for_each(campaign *c, staff *s, range of, int (*act)(campaign *c, staff *s, cell at))
{
    for (int i = of.begin; i < of.end; i++)
        for (int t = 0; t < c->threads_count; t++)
            for (int p = 0; p < c->peer_count; p++)
                if (act(c, s, (cell){ i, t, p })) return -1;
    return 0;
}

/* ---- processes ----------------------------------------------------------------------------------- */

/* The process of a peer with some number of threads; of Stride, for the subjects that share it. */
typedef struct post {
    const char *process;
    int threads, peer; /* as in a cell */
    worker worker;
    const char *asked; /* the last request; NULL: none */
    int starts;
} post;

enum { REQUEST = SUBJECT_TEXT + 32 };

struct staff {
    post *posts;
    int count;
    int round;
    worker busy;
    char expected[REQUEST]; /* the request whose result lies in the file of that name */
};

static bool is_asked(const campaign *c, cell at)
{
    const subject *s = &c->subjects[at.subject];
    const char *only = c->peers[at.peer].only;
    return at.peer == 0 || (!s->alone && (!only || subject_is_called(s, only)));
}

static const char *process_of(const campaign *c, cell at)
{
    return at.peer == 0 ? c->subjects[at.subject].process : "all";
}

static post *find_post(const staff *s, const char *process, cell at)
{
    for (int i = 0; i < s->count; i++) {
        post *p = &s->posts[i];
        if (strcmp(p->process, process) == 0 && p->threads == at.threads && p->peer == at.peer) return p;
    }
    return NULL;
}

static int start(const campaign *c, post *p)
{
    const char *clock = c->clock[p->threads];
    p->starts++;
    return worker_start(&p->worker, c->peers[p->peer].command, c->threads[p->threads],
                        clock ? clock : "wall");
}

static int hire(campaign *c, staff *s, cell at)
{
    const char *process = process_of(c, at);
    if (!is_asked(c, at) || find_post(s, process, at)) return 0;
    post *p = &s->posts[s->count++];
    *p = (post){ .process = process, .threads = at.threads, .peer = at.peer };
    return start(c, p);
}

/* In a list, a process that was lost at one request is started again for the next. */
static int replace_lost(const campaign *c, post *p, const char *request)
{
    enum { MOST_STARTS = 6 };
    const bool new = !p->asked || strcmp(p->asked, request) != 0;
    if (p->worker.lost && !(c->in_turn && new && p->starts < MOST_STARTS)) return 0;
    p->asked = request;
    if (!p->worker.lost) return 0;
    worker_end(&p->worker);
    return start(c, p);
}

/* None is still starting, which takes some a while, when the first is measured. Prints versions: settings of
 * one family that say the same are one line. */
static void await_all(const campaign *c, staff *s)
{
    char told[2 * WORKER_LINE] = "", line[2 * WORKER_LINE];
    for (int i = 0; i < s->count; i++) worker_await(&s->posts[i].worker);
    for (int p = 0; p < c->peer_count; p++)
        for (int i = 0; i < s->count; i++) {
            const post *own = &s->posts[i];
            if (own->peer != p || !own->worker.about[0]) continue;
            int family = (int)strcspn(c->peers[p].name, " ");
            snprintf(line, sizeof line, "%.*s:%s\n", family, c->peers[p].name, own->worker.about);
            if (strcmp(line, told) != 0) fputs(line, stdout);
            snprintf(told, sizeof told, "%s", line);
            break;
        }
}

/* Their peaks of memory are known when they have ended. */
static void dismiss_all(campaign *c, staff *s)
{
    for (int k = 0; k < s->count; k++) {
        post *p = &s->posts[k];
        double peak = worker_end(&p->worker);
        for (int i = 0; i < c->subject_count; i++) {
            cell at = { i, p->threads, p->peer };
            if (strcmp(process_of(c, at), p->process) == 0) result_at(c, at)->peak = peak;
        }
    }
    worker_end(&s->busy);
    free(s->posts);
}

/* ---- rounds -------------------------------------------------------------------------------------- */

static void keep(result *r, const worker_answer *a)
{
    r->seconds[r->rounds++] = a->seconds;
    if (a->allocations > r->allocations) r->allocations = a->allocations;
}

/* A peer that does not answer is left out from then on. Stride must answer, but in a list the others are
 * measured nevertheless. */
static int refused(campaign *c, cell at, const char *request, const char *why, bool lost)
{
    result *r = result_at(c, at);
    if (at.peer == 0 && !c->in_turn) return st_error_set("%s: %s", request, why);
    snprintf(r->why_not, sizeof r->why_not, "%s", why);
    r->failed = at.peer == 0 || (lost && c->in_turn);
    r->left_out = true;
    r->rounds = 0;
    return 0;
}

static void show_progress(const campaign *c, const staff *s, int subject_number)
{
    const subject *what = &c->subjects[subject_number];
    if (!c->progress) return;
    if (c->in_turn)
        fprintf(stderr, "\r\033[K%d of %d: %.60s %s", subject_number + 1, c->subject_count, what->name,
                what->pass);
    else fprintf(stderr, "\r\033[Kround %d of %d: %s %s", s->round + 1, c->rounds, what->name, what->pass);
}

/* Beside the busy process answers of half a second, since the scheduler's turns are nearly as long as an
 * answer: their mean. */
static worker_status ask(const staff *s, worker *w, const subject *what, const char *request,
                         worker_answer *answer)
{
    if (!what->busy) return worker_ask(w, request, answer);
    double sum = 0, end = now() + 25 * least_seconds();
    int count = 0;
    worker_status status;
    worker_resume(&s->busy);
    do {
        status = worker_ask(w, request, answer);
        sum += answer->seconds;
        count++;
    } while (status == WORKER_OK && now() < end);
    worker_pause(&s->busy);
    answer->seconds = sum / count;
    return status;
}

/* ---- what is computed ------------------------------------------------------------------------------ */

/* The most that results may differ by, of their root mean square. A layer's sums of up to 10^7 terms err by
 * less than 1e-4, whatever the algorithms on either side; so do a network's outputs, by less than 1e-3. Its
 * gradients pass many kinks and normalisations: held against double precision, Stride's err by up to 6e-4 in
 * the networks of tests/bench/networks/, PyTorch's with channels last by up to 3e-2. */
static double tolerance(const subject *s)
{
    if (strncmp(s->request, "net ", 4) != 0) return 1e-4;
    return strcmp(s->pass, "train") == 0 ? 5e-2 : 1e-3;
}

static void path_in(const campaign *c, const char *name, char path[1024])
{
    snprintf(path, 1024, "%s/%s", c->folder, name);
}

/* Writes the values that Stride computes to the file `expected`, and their inputs to `given`. */
static bool expect(const campaign *c, staff *s, cell at, const char *request, char *why)
{
    char made[1024], expected[1024];
    worker_answer answer;
    if (strcmp(s->expected, request) == 0) return true;
    const post *stride = find_post(s, c->subjects[at.subject].process, (cell){ at.subject, at.threads, 0 });
    path_in(c, "result", made);
    path_in(c, "expected", expected);
    s->expected[0] = 0;
    if (worker_ask((worker *)&stride->worker, request, &answer) == WORKER_OK && answer.result &&
        rename(made, expected) == 0)
        snprintf(s->expected, sizeof s->expected, "%s", request);
    else snprintf(why, CAMPAIGN_WHY, "stride: %.200s", answer.refusal[0] ? answer.refusal : "no result");
    return s->expected[0];
}

/* Once for each peer and subject, before its time is taken. */
static bool computes_the_same(const campaign *c, staff *s, cell at, worker *w, result *r)
{
    char request[REQUEST], path[1024], expected[1024];
    worker_answer answer;
    if (at.peer == 0 || s->round > 0) return true;
    snprintf(request, sizeof request, "%s %s result", c->subjects[at.subject].request,
             c->subjects[at.subject].pass);
    if (!expect(c, s, at, request, r->why_not)) return false;
    path_in(c, "result", path);
    path_in(c, "expected", expected);
    remove(path);
    const worker_status status = worker_ask(w, request, &answer);
    r->failed = status == WORKER_FAILS;
    if (status == WORKER_OK && answer.result) {
        r->failed =
            !arrays_agree(expected, path, tolerance(&c->subjects[at.subject]), r->why_not, CAMPAIGN_WHY);
        return !r->failed;
    }
    snprintf(r->why_not, CAMPAIGN_WHY, "%.200s", answer.refusal);
    return false;
}

/* ---- measuring ------------------------------------------------------------------------------------- */

static int measure(campaign *c, staff *s, cell at)
{
    const subject *what = &c->subjects[at.subject];
    result *r = result_at(c, at);
    post *p = find_post(s, process_of(c, at), at);
    char request[REQUEST];
    worker_answer answer;
    if (!p || !is_asked(c, at) || r->left_out) return 0;
    if (result_at(c, (cell){ at.subject, at.threads, 0 })->left_out) return 0;
    show_progress(c, s, at.subject);
    if (replace_lost(c, p, what->request)) return -1;
    if (!computes_the_same(c, s, at, &p->worker, r)) {
        r->left_out = true;
        return 0;
    }
    snprintf(request, sizeof request, "%s %s", what->request, what->pass);
    if (ask(s, &p->worker, what, request, &answer) != WORKER_OK)
        return refused(c, at, request, answer.refusal, p->worker.lost);
    if (answer.result) return refused(c, at, request, "it gives a result rather than a time", false);
    keep(r, &answer);
    return 0;
}

/* After the first round. */
static int give_up(campaign *c, staff *s, cell at)
{
    enum { TIMES = 2 };
    (void)s;
    result *r = result_at(c, at);
    for (int p = 1; p < c->peer_count && at.peer > 0 && r->rounds > 0; p++) {
        const result *other = result_at(c, (cell){ at.subject, at.threads, p });
        bool counts = other->rounds > 0 && peer_is_of(&c->peers[p], c->peers[at.peer].name);
        if (counts && r->seconds[0] > TIMES * other->seconds[0]) r->left_out = true;
    }
    return 0;
}

static int measure_range(campaign *c, staff *s, range of)
{
    time_t began = time(NULL), before = began, after;
    for (s->round = 0; s->round < c->rounds; s->round++, before = after) {
        if (for_each(c, s, of, measure)) return -1;
        if (s->round == 0) for_each(c, s, of, give_up);
        after = time(NULL);
        if (!c->in_turn && c->seconds > 0 && difftime(after, began) + difftime(after, before) > c->seconds)
            c->rounds = s->round + 1;
    }
    return 0;
}

static int measure_all(campaign *c, staff *s)
{
    if (!c->in_turn) return measure_range(c, s, all_of(c));
    for (range of = { 0, 0 }; of.begin < c->subject_count; of.begin = of.end) {
        while (of.end < c->subject_count &&
               strcmp(c->subjects[of.begin].request, c->subjects[of.end].request) == 0)
            of.end++;
        if (measure_range(c, s, of)) return -1;
    }
    return 0;
}

/* A folder of its own, in which one result after the other lies: in BENCH_FOLDER, if there is one. */
static int make_folder(campaign *c, char path[1024])
{
    const char *given = getenv("BENCH_FOLDER");
    snprintf(path, 1024, "%s/peers.XXXXXX", given ? given : c->folder);
    if (!mkdtemp(path)) return st_error_set("%s: %s", path, strerror(errno));
    c->folder = path;
    return setenv("BENCH_FOLDER", path, 1);
}

static void remove_folder(const campaign *c)
{
    static const char *const names[] = { "given", "result", "expected" };
    char path[1024];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_in(c, names[i], path);
        remove(path);
    }
    rmdir(c->folder);
}

int campaign_run(campaign *c)
{
    staff s = { 0 };
    char folder[1024];
    size_t count = (size_t)(c->subject_count * c->threads_count * c->peer_count);
    c->results = calloc(count, sizeof *c->results);
    s.posts = calloc(count, sizeof *s.posts);
    int status = c->results && s.posts ? 0 : st_error_set("no memory");
    for (size_t i = 0; i < count && status == 0; i++) c->results[i].allocations = -1;
    /* First, since it may be stopped before it has closed what it inherits, the others' pipes. */
    if (status == 0) status = worker_start(&s.busy, "sh -c 'while :; do :; done'", 1, "wall");
    worker_pause(&s.busy);
    if (status == 0) status = make_folder(c, folder);
    const bool made = status == 0;
    if (status == 0) status = for_each(c, &s, all_of(c), hire);
    await_all(c, &s);
    if (status == 0) status = measure_all(c, &s);
    if (c->progress) fputs("\r\033[K", stderr);
    dismiss_all(c, &s);
    if (made) remove_folder(c);
    return status;
}

void campaign_end(campaign *c)
{
    free(c->results);
    c->results = NULL;
}
