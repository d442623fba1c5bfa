/* once.c: how long a program runs from exec on, and how much memory it has at most: medians of some runs.
 *
 *     once COMMAND [ARGUMENT...]       prints "seconds=0.0061 megabytes=7.2"
 *
 * A program of its own, as small as can be: the memory of whoever forks counts as its child's. */
#define _DEFAULT_SOURCE
#include "tests/bench/timing.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS = 21 };

/* 0 where it succeeds. */
static int run(char **command, double *seconds, double *megabytes)
{
    int status;
    struct rusage used;
    double began = now();
    pid_t id = fork();
    if (id == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        execvp(command[0], command);
        _exit(127);
    }
    if (id < 0 || wait4(id, &status, 0, &used) != id || status != 0) return -1;
    *seconds = now() - began;
#ifdef __APPLE__
    *megabytes = (double)used.ru_maxrss / 1e6; /* bytes there, elsewhere units of 1024 */
#else
    *megabytes = (double)used.ru_maxrss * 1024 / 1e6;
#endif
    return 0;
}

int main(int argc, char **argv)
{
    double seconds[RUNS], megabytes[RUNS];
    for (int i = 0; i < RUNS; i++)
        if (argc < 2 || run(argv + 1, &seconds[i], &megabytes[i])) return 1;
    printf("seconds=%.6f megabytes=%.2f\n", median(seconds, RUNS), median(megabytes, RUNS));
    return 0;
}
