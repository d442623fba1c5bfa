/* worker.c: see worker.h. */
#define _DEFAULT_SOURCE
#include "tests/bench/worker.h"
#include "tensor/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* Milliseconds that an answer may take: two minutes, or BENCH_PATIENCE seconds. */
static int patience(void)
{
    const char *given = getenv("BENCH_PATIENCE");
    const double seconds = given ? strtod(given, NULL) : 0;
    return seconds > 0 && seconds < 1e6 ? (int)(1e3 * seconds) : 120000;
}

/* ---- starting ------------------------------------------------------------------------------------ */

/* Every library that has threads of its own gets the same number. */
static void set_threads(int threads)
{
    static const char *const names[] = { "STRIDE_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                         "MKL_NUM_THREADS" };
    char number[16];
    snprintf(number, sizeof number, "%d", threads);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) setenv(names[i], number, 1);
}

/* Ends with the process that started it, however that ends: a stopped worker does not notice it. (Elsewhere
 * than on Linux the kernel sends SIGHUP and SIGCONT to a stopped group that nobody waits for.) */
static void end_with(pid_t parent)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1);
}

static int chatter = -1; /* descriptor */

int worker_log(const char *path)
{
    chatter = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666) : -1;
    return path && chatter < 0 ? st_error_set("%s: %s", path, strerror(errno)) : 0;
}

static void become(const char *command, int threads, const char *clock, int in, int out)
{
    char line[2 * WORKER_LINE];
    setpgid(0, 0);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    if (chatter >= 0) dup2(chatter, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    set_threads(threads);
    setenv("BENCH_CLOCK", clock, 1);
    snprintf(line, sizeof line, "exec %s", command);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

/* Both ends are closed in what is executed, here and in later workers, but for what `become` makes of
 * them. */
static int private_pipe(int end[2])
{
    if (pipe(end)) return st_error_set("pipe: %s", strerror(errno));
    fcntl(end[0], F_SETFD, FD_CLOEXEC);
    fcntl(end[1], F_SETFD, FD_CLOEXEC);
    return 0;
}

int worker_start(worker *w, const char *command, int threads, const char *clock)
{
    int request[2], answer[2];
    pid_t own = getpid();
    *w = (worker){ 0 };
    signal(SIGPIPE, SIG_IGN); /* a worker that has ended is noticed by what it does not answer */
    if (private_pipe(request) || private_pipe(answer)) return -1;
    fflush(NULL);
    w->id = fork();
    if (w->id < 0) return st_error_set("fork: %s", strerror(errno));
    if (w->id == 0) {
        end_with(own);
        become(command, threads, clock, request[0], answer[1]);
    }
    setpgid(w->id, w->id); /* the worker does so, too: whoever comes first */
    close(request[0]);
    close(answer[1]);
    w->to = fdopen(request[1], "w");
    w->from = fdopen(answer[0], "r");
    return w->to && w->from ? 0 : st_error_set("fdopen: %s", strerror(errno));
}

/* ---- asking -------------------------------------------------------------------------------------- */

static worker_status refuse(char *to, worker_status status, const char *why)
{
    snprintf(to, WORKER_LINE, "%s", why);
    return status;
}

static const char *after(const char *line, const char *word)
{
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 ? line + length : NULL;
}

static bool is_answer(const char *line)
{
    static const char *const words[] = { "ready", "ok ", "result", "skip", "error " };
    bool known = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) known |= after(line, words[i]) != NULL;
    return known;
}

typedef enum answered { ANSWERED, SILENT, ENDED } answered;

/* An answer, after the chatter of libraries. A line at a time is read from the pipe itself: in a stream's
 * buffer the next one would wait unseen by poll. */
static answered read_line(worker *w, char *line)
{
    struct pollfd ready = { .fd = fileno(w->from), .events = POLLIN };
    const int limit = patience();
    do {
        int count = 0;
        for (char c = 0; c != '\n';) {
            if (poll(&ready, 1, limit) != 1) return SILENT;
            if (read(ready.fd, &c, 1) != 1) return ENDED;
            if (c != '\n' && count < WORKER_LINE - 1) line[count++] = c;
        }
        line[count] = 0;
        if (!is_answer(line)) dprintf(chatter >= 0 ? chatter : STDERR_FILENO, "%s\n", line);
    } while (!is_answer(line));
    return ANSWERED;
}

void worker_pause(const worker *w)
{
    if (w->id > 0) kill(-w->id, SIGSTOP);
}

void worker_resume(const worker *w)
{
    if (w->id > 0) kill(-w->id, SIGCONT);
}

void worker_await(worker *w)
{
    char line[WORKER_LINE];
    if (w->greeted) return;
    w->greeted = true;
    if (read_line(w, line) != ANSWERED) refuse(w->refusal, WORKER_FAILS, "it does not start");
    else if (after(line, "skip ")) refuse(w->refusal, WORKER_SKIPS, after(line, "skip "));
    else if (!after(line, "ready")) refuse(w->refusal, WORKER_FAILS, line);
    else snprintf(w->about, sizeof w->about, "%s", after(line, "ready"));
    worker_pause(w);
}

worker_status worker_ask(worker *w, const char *request, worker_answer *answer)
{
    char line[WORKER_LINE];
    *answer = (worker_answer){ .allocations = -1 };
    worker_await(w);
    if (w->refusal[0]) return refuse(answer->refusal, WORKER_SKIPS, w->refusal);
    worker_resume(w);
    const bool asked = fprintf(w->to, "%s\n", request) >= 0 && fflush(w->to) == 0;
    const answered how = asked ? read_line(w, line) : ENDED;
    worker_pause(w);
    if (how != ANSWERED) {
        w->lost = true;
        refuse(w->refusal, WORKER_FAILS, how == ENDED ? "it ended" : "it gave no answer in time");
        return refuse(answer->refusal, WORKER_FAILS, w->refusal);
    }
    if (after(line, "skip ")) return refuse(answer->refusal, WORKER_SKIPS, after(line, "skip "));
    answer->result = strcmp(line, "result") == 0;
    if (answer->result) return WORKER_OK;
    if (strcmp(line, "skip") == 0) return refuse(answer->refusal, WORKER_SKIPS, "");
    if (sscanf(line, "ok %lf %ld", &answer->seconds, &answer->allocations) >= 1 && answer->seconds > 0)
        return WORKER_OK;
    return refuse(answer->refusal, WORKER_FAILS, after(line, "error ") ? after(line, "error ") : line);
}

double worker_end(worker *w)
{
    struct rusage used = { 0 };
    if (w->to) fclose(w->to);
    if (w->from) fclose(w->from);
    if (w->id > 0) {
        if (w->refusal[0] || !w->greeted) kill(-w->id, SIGKILL); /* it may not be listening */
        worker_resume(w);
        wait4(w->id, NULL, 0, &used);
    }
    w->id = 0;
#ifdef __APPLE__
    return (double)used.ru_maxrss / 1e6; /* bytes there, elsewhere units of 1024 */
#else
    return (double)used.ru_maxrss * 1024 / 1e6;
#endif
}
