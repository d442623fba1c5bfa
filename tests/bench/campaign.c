/* campaign.c: see campaign.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/campaign.h"
#include "tensor/error.h"
#include "tests/bench/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const int campaign_threads[CAMPAIGN_THREADS] = { 1, 2 };

peer campaign_stride(const char *program)
{
    static char command[1024];
    const char *slash = strrchr(program, '/');
    int folder = slash ? (int)(slash + 1 - program) : 0;
    snprintf(command, sizeof command, "'%.*sstride_peer'", folder, program);
    return (peer){ "stride", command };
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

int campaign_find(const campaign *c, const char *name, const char *pass)
{
    for (int i = 0; i < c->subject_count; i++)
        if (strcmp(c->subjects[i].name, name) == 0 && strcmp(c->subjects[i].pass, pass) == 0) return i;
    return -1;
}

/* Everything once, in the order in which it is measured; ends with the first failure. */
typedef struct staff staff;
static int for_each(campaign *c, staff *s, int (*act)(campaign *c, staff *s, cell at))
{
    for (int i = 0; i < c->subject_count; i++)
        for (int t = 0; t < c->threads_count; t++)
            for (int p = 0; p < c->peer_count; p++)
                if (act(c, s, (cell){ i, t, p })) return -1;
    return 0;
}

/* ---- processes ----------------------------------------------------------------------------------- */

/* The process of a peer with some number of threads, for the subjects that share it. */
typedef struct post {
    const char *process;
    int threads, peer; /* as in a cell */
    worker worker;
} post;

struct staff {
    post *posts;
    int count;
    int round;
};

static post *find_post(const staff *s, const char *process, cell at)
{
    for (int i = 0; i < s->count; i++) {
        post *p = &s->posts[i];
        if (strcmp(p->process, process) == 0 && p->threads == at.threads && p->peer == at.peer) return p;
    }
    return NULL;
}

static int hire(campaign *c, staff *s, cell at)
{
    const char *process = c->subjects[at.subject].process;
    if (find_post(s, process, at)) return 0;
    if (at.peer > 0 && strcmp(process, "machine") == 0) return 0; /* the machine is measured by one */
    post *p = &s->posts[s->count++];
    *p = (post){ .process = process, .threads = at.threads, .peer = at.peer };
    return worker_start(&p->worker, c->peers[at.peer].command, campaign_threads[at.threads]);
}

/* None is still starting, which takes some a while, when the first is measured. Prints each peer's version. */
static void await_all(const campaign *c, staff *s)
{
    int told = 0;
    for (int i = 0; i < s->count; i++) {
        const post *p = &s->posts[i];
        worker_await(&s->posts[i].worker);
        if (told >> p->peer & 1 || !p->worker.about[0]) continue;
        told |= 1 << p->peer;
        printf("%s:%s\n", c->peers[p->peer].name, p->worker.about);
    }
}

/* Their peaks of memory are known when they have ended. */
static void dismiss_all(campaign *c, staff *s)
{
    for (int k = 0; k < s->count; k++) {
        post *p = &s->posts[k];
        double peak = worker_end(&p->worker);
        for (int i = 0; i < c->subject_count; i++)
            if (strcmp(c->subjects[i].process, p->process) == 0)
                result_at(c, (cell){ i, p->threads, p->peer })->peak = peak;
    }
    free(s->posts);
}

/* ---- rounds -------------------------------------------------------------------------------------- */

static void keep(result *r, const worker_answer *a)
{
    r->seconds[r->rounds++] = a->seconds;
    if (a->allocations > r->allocations) r->allocations = a->allocations;
}

/* Stride must answer; a peer that does not is left out from then on. */
static int refused(campaign *c, cell at, const char *request, const char *why)
{
    result *r = result_at(c, at);
    if (at.peer == 0) return st_error_set("%s: %s", request, why);
    snprintf(r->why_not, sizeof r->why_not, "%s", why);
    r->rounds = 0;
    return 0;
}

static void show_progress(const campaign *c, const staff *s, const subject *what)
{
    if (c->progress)
        fprintf(stderr, "\r\033[Kround %d of %d: %s %s", s->round + 1, c->rounds, what->name, what->pass);
}

static int measure(campaign *c, staff *s, cell at)
{
    const subject *what = &c->subjects[at.subject];
    result *r = result_at(c, at);
    post *p = find_post(s, what->process, at);
    char request[2 * SUBJECT_TEXT];
    worker_answer answer;
    if (!p || r->why_not[0]) return 0;
    show_progress(c, s, what);
    snprintf(request, sizeof request, "%s %s", what->request, what->pass);
    if (worker_ask(&p->worker, request, &answer) != WORKER_OK) return refused(c, at, request, answer.refusal);
    keep(r, &answer);
    return 0;
}

int campaign_run(campaign *c)
{
    staff s = { 0 };
    size_t count = (size_t)(c->subject_count * c->threads_count * c->peer_count);
    c->results = calloc(count, sizeof *c->results);
    s.posts = calloc(count, sizeof *s.posts);
    int status = c->results && s.posts ? 0 : st_error_set("no memory");
    for (size_t i = 0; i < count && status == 0; i++) c->results[i].allocations = -1;
    if (status == 0) status = for_each(c, &s, hire);
    await_all(c, &s);
    for (; s.round < c->rounds && status == 0; s.round++) status = for_each(c, &s, measure);
    if (c->progress) fputs("\r\033[K", stderr);
    dismiss_all(c, &s);
    return status;
}

void campaign_end(campaign *c)
{
    free(c->results);
    c->results = NULL;
}
