/* campaign.c: see campaign.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/campaign.h"
#include "tensor/error.h"
#include "tests/bench/outline.h"
#include "tests/bench/timing.h"
#include "tests/bench/worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const int campaign_threads[CAMPAIGN_THREADS] = { 1, 2 };

peer campaign_stride(const char *program)
{
    static char command[1024];
    const char *slash = strrchr(program, '/');
    int folder = slash ? (int)(slash + 1 - program) : 0;
    snprintf(command, sizeof command, "'%.*sstride_peer'", folder, program);
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

/* The process of a peer with some number of threads; of Stride, for the subjects that share it. */
typedef struct post {
    const char *process;
    int threads, peer; /* as in a cell */
    worker worker;
} post;

struct staff {
    post *posts;
    int count;
    int round;
    worker busy;
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

static int hire(campaign *c, staff *s, cell at)
{
    const char *process = process_of(c, at);
    if (!is_asked(c, at) || find_post(s, process, at)) return 0;
    post *p = &s->posts[s->count++];
    *p = (post){ .process = process, .threads = at.threads, .peer = at.peer };
    return worker_start(&p->worker, c->peers[at.peer].command, campaign_threads[at.threads]);
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

/* Stride must answer; a peer that does not is left out from then on. */
static int refused(campaign *c, cell at, const char *request, const char *why)
{
    result *r = result_at(c, at);
    if (at.peer == 0) return st_error_set("%s: %s", request, why);
    snprintf(r->why_not, sizeof r->why_not, "%s", why);
    r->left_out = true;
    r->rounds = 0;
    return 0;
}

static void show_progress(const campaign *c, const staff *s, const subject *what)
{
    if (c->progress)
        fprintf(stderr, "\r\033[Kround %d of %d: %s %s", s->round + 1, c->rounds, what->name, what->pass);
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

/* The most that elements may differ by, as a part of the largest: a network sums at most 9,216 terms in a
 * row, eight times over, and a gradient at most 64 * 26 * 26; roundings add up as the steps of a random walk,
 * 8 sqrt(9216) 2^-24 = 4.6e-5 and sqrt(43264) 2^-24 = 1.2e-5, with other algorithms on either side. In
 * training an activation may round to the other side of a relu's kink or of a window's second largest
 * element, and its gradient goes elsewhere. */
static const double rounding = 1e-4, rounding_of_training = 1e-3;

/* What "64x10 LARGEST PRODUCT ELEMENTS..." says. */
typedef struct told {
    char shape[48];
    double count, value[2 + OUTLINE];
} told;

static told read_outline(const char *text)
{
    told t = { .shape = "", .count = 1 };
    int length = 0;
    sscanf(text, "%47s%n", t.shape, &length);
    for (const char *at = t.shape; *at; at += strcspn(at, "x"), at += *at == 'x') t.count *= strtod(at, NULL);
    text += length;
    for (int i = 0; i < 2 + OUTLINE; i++) {
        char *rest;
        t.value[i] = strtod(text, &rest);
        if (rest == text) t.value[i] = NAN;
        text = rest;
    }
    return t;
}

/* Stride's result and a peer's. */
static bool outputs_agree(const char *own, const char *theirs, double most, char *why)
{
    const told expected = read_outline(own), got = read_outline(theirs);
    if (strcmp(expected.shape, got.shape) != 0) {
        snprintf(why, CAMPAIGN_WHY, "its output is [%s], expected [%s]: its time does not count", got.shape,
                 expected.shape);
        return false;
    }
    for (int i = 0; i < 2 + OUTLINE; i++) {
        const double terms = i == 1 ? sqrt(expected.count) : 1; /* of the product */
        if (fabs(expected.value[i] - got.value[i]) <= most * expected.value[0] * terms) continue; /* no NaN */
        snprintf(why, CAMPAIGN_WHY,
                 "its output is another: %.6g, expected %.6g (%s): its time does not count", got.value[i],
                 expected.value[i],
                 i == 0   ? "the largest"
                 : i == 1 ? "of all elements"
                          : "an element");
        return false;
    }
    return true;
}

/* Once for each peer and subject: what the pass computes is compared before its time is taken, unless it is
 * random. */
static bool computes_the_same(const campaign *c, const staff *s, cell at, worker *w, char *why)
{
    const subject *what = &c->subjects[at.subject];
    const post *stride = find_post(s, what->process, (cell){ at.subject, at.threads, 0 });
    char request[2 * SUBJECT_TEXT];
    worker_answer own, theirs;
    if (at.peer == 0 || s->round > 0) return true;
    snprintf(request, sizeof request, "%s %s output", what->request, what->pass);
    const worker_status status = worker_ask((worker *)&stride->worker, request, &own);
    if (status == WORKER_SKIPS && !own.refusal[0]) return true;
    if (status != WORKER_OK) {
        snprintf(why, CAMPAIGN_WHY, "stride: %.200s", own.refusal);
        return false;
    }
    if (worker_ask(w, request, &theirs) == WORKER_OK && theirs.output[0])
        return outputs_agree(own.output, theirs.output,
                             strcmp(what->pass, "train") == 0 ? rounding_of_training : rounding, why);
    snprintf(why, CAMPAIGN_WHY, "%.200s", theirs.refusal);
    return false;
}

static int measure(campaign *c, staff *s, cell at)
{
    const subject *what = &c->subjects[at.subject];
    result *r = result_at(c, at);
    post *p = find_post(s, process_of(c, at), at);
    char request[2 * SUBJECT_TEXT];
    worker_answer answer;
    if (!p || !is_asked(c, at) || r->left_out) return 0;
    show_progress(c, s, what);
    if (!computes_the_same(c, s, at, &p->worker, answer.refusal))
        return refused(c, at, what->request, answer.refusal);
    snprintf(request, sizeof request, "%s %s", what->request, what->pass);
    if (ask(s, &p->worker, what, request, &answer) != WORKER_OK)
        return refused(c, at, request, answer.refusal);
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

static int measure_all(campaign *c, staff *s)
{
    time_t began = time(NULL), before = began, after;
    for (; s->round < c->rounds; s->round++, before = after) {
        if (for_each(c, s, measure)) return -1;
        if (s->round == 0) for_each(c, s, give_up);
        after = time(NULL);
        if (c->seconds > 0 && difftime(after, began) + difftime(after, before) > c->seconds)
            c->rounds = s->round + 1;
    }
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
    /* First, since it may be stopped before it has closed what it inherits, the others' pipes. */
    if (status == 0) status = worker_start(&s.busy, "sh -c 'while :; do :; done'", 1);
    worker_pause(&s.busy);
    if (status == 0) status = for_each(c, &s, hire);
    await_all(c, &s);
    if (status == 0) status = measure_all(c, &s);
    if (c->progress) fputs("\r\033[K", stderr);
    dismiss_all(c, &s);
    return status;
}

void campaign_end(campaign *c)
{
    free(c->results);
    c->results = NULL;
}
