/* worker.h: a process that measures on request (stride_peer.c says in which words).
 *
 * It is stopped but while it starts or answers: the idle threads of OpenMP and onnxruntime would spin, and
 * take a processor from whatever is measured next. */
#ifndef STRIDE_TESTS_BENCH_WORKER_H
#define STRIDE_TESTS_BENCH_WORKER_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

enum { WORKER_LINE = 256 };

typedef struct worker {
    pid_t id;
    FILE *to, *from;
    bool greeted;              /* its first line has been read */
    bool lost;                 /* it ended, or gave no answer in time */
    char about[WORKER_LINE];   /* its version, and what it computes with, as it says when it starts */
    char refusal[WORKER_LINE]; /* why nothing can be asked of it; "" while something can */
} worker;

typedef struct worker_answer {
    double seconds;
    long allocations; /* -1: not counted */
    bool result;      /* it has written one, rather than measured */
    char refusal[WORKER_LINE];
} worker_answer;

typedef enum worker_status { WORKER_OK, WORKER_SKIPS, WORKER_FAILS } worker_status;

/* Sends the workers' other output, on stdout and stderr, to this file from now on; NULL: to stderr. -1 with
 * an error where it cannot be written. */
int worker_log(const char *path);

/* Runs the shell's command with that many threads for Stride, OpenMP and BLAS, and with BENCH_CLOCK=cpu or
 * wall. -1 with an error where no process can be made; a command that fails refuses when it is asked. Does
 * not wait: workers start side by side. */
int worker_start(worker *w, const char *command, int threads, const char *clock);

/* Waits until it can be asked, or refuses. */
void worker_await(worker *w);

worker_status worker_ask(worker *w, const char *request, worker_answer *answer);

/* Stops all of its threads and processes, and lets them go on. */
void worker_pause(const worker *w);
void worker_resume(const worker *w);

/* Ends it; the most memory it had, in MB (10^6 bytes). */
double worker_end(worker *w);

#endif
