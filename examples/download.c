/* download.c: runs curl, or else wget, without a shell, and listens to what it writes and says. */
#define _POSIX_C_SOURCE 200809L
#include "examples/download.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    ARGUMENTS = 8,
    PATIENCE = 5500,  /* ms without a byte; more than a tool has to connect, so that it can say why */
    LIMIT = 64 << 20, /* bytes: a file without an end is not ours */
    NOT_FOUND = 127   /* the status of a program that could not be started, where spawn does not say so */
};

/* The URL is put where the arguments end. */
static const char *const tools[][ARGUMENTS] = {
    { "curl", "--fail", "--silent", "--show-error", "--location", "--connect-timeout", "5" },
    { "wget", "--no-verbose", "--tries=1", "--timeout=5", "--output-document=-" },
};

/* A running tool: where its output and its complaints come from. */
typedef struct child {
    pid_t id;
    int output, complaints;
} child;

/* ---- starting -------------------------------------------------------------------------------- */

static int own_pipe(int ends[2])
{
    if (pipe(ends)) return errno;
    for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    return 0;
}

static void close_pipe(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

static int spawn(pid_t *id, const char *const *tool, const char *url, int output, int complaints)
{
    char *arguments[ARGUMENTS + 2] = { 0 };
    int count = 0;
    for (; count < ARGUMENTS && tool[count]; count++) arguments[count] = (char *)tool[count];
    arguments[count] = (char *)url;
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, complaints, STDERR_FILENO);
    if (!error) error = posix_spawnp(id, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* 0, or an errno. */
static int start(child *c, const char *const *tool, const char *url)
{
    int output[2], complaints[2];
    int error = own_pipe(output);
    if (error) return error;
    error = own_pipe(complaints);
    if (error) {
        close_pipe(output);
        return error;
    }
    *c = (child){ .output = output[0], .complaints = complaints[0] };
    error = spawn(&c->id, tool, url, output[1], complaints[1]);
    close(output[1]);
    close(complaints[1]);
    if (!error) return 0;
    close(c->output);
    close(c->complaints);
    return error;
}

/* ---- listening ------------------------------------------------------------------------------- */

static bool write_all(int to, const char *bytes, ssize_t count)
{
    while (count > 0) {
        ssize_t n = write(to, bytes, (size_t)count);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        bytes += n;
        count -= n;
    }
    return true;
}

/* Keeps the last line that is said: the first may be but a name of what the next ones are about. */
static void note(reason *said, const char *bytes, ssize_t count)
{
    size_t used = strlen(said->text);
    for (ssize_t i = 0; i < count; i++) {
        bool after_end = used == 0 || said->text[used - 1] == '\n';
        if (after_end && bytes[i] == '\n') continue;
        if (after_end) used = 0;
        if (used + 1 < sizeof said->text) said->text[used++] = bytes[i];
    }
    said->text[used] = '\0';
}

/* What comes is passed on until both ends are closed. False, with the reason, where that fails; what the
 * tool says is then in `why` as well. */
static bool listen_to(const child *c, int to, reason *why)
{
    struct pollfd from[] = { { .fd = c->output, .events = POLLIN },
                             { .fd = c->complaints, .events = POLLIN } };
    long long total = 0;
    while (from[0].fd >= 0 || from[1].fd >= 0) {
        int ready = poll(from, 2, PATIENCE);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            snprintf(why->text, sizeof why->text, "nothing came for %d seconds", PATIENCE / 1000);
            return false;
        }
        for (int i = 0; i < 2; i++) {
            if (!from[i].revents) continue;
            char bytes[1 << 14];
            ssize_t n = read(from[i].fd, bytes, sizeof bytes);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) from[i].fd = -1; /* poll passes over it */
            else if (i == 1) note(why, bytes, n);
            else if ((total += n) > LIMIT || !write_all(to, bytes, n)) {
                snprintf(why->text, sizeof why->text, "%s",
                         total > LIMIT ? "the file does not end" : strerror(errno));
                return false;
            }
        }
    }
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int status_of(const child *c)
{
    int status;
    while (waitpid(c->id, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Its status; NOT_FOUND where it is not installed. */
static int run(const char *const *tool, const char *url, int to, reason *why)
{
    child c;
    *why = (reason){ "" };
    int error = start(&c, tool, url);
    if (error == ENOENT) return NOT_FOUND;
    if (error) {
        snprintf(why->text, sizeof why->text, "%s: %s", tool[0], strerror(error));
        return -1;
    }
    bool whole = listen_to(&c, to, why);
    if (!whole) kill(c.id, SIGKILL);
    close(c.output);
    close(c.complaints);
    int status = status_of(&c);
    return whole ? status : -1;
}

bool download(const char *url, int to, reason *why)
{
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        int status = run(tools[i], url, to, why);
        if (status == 0) return true;
        if (status == NOT_FOUND) continue;
        why->text[strcspn(why->text, "\n")] = '\0';
        if (!why->text[0])
            snprintf(why->text, sizeof why->text, "%s ended with status %d", tools[i][0], status);
        return false;
    }
    snprintf(why->text, sizeof why->text, "neither curl nor wget is installed");
    return false;
}
