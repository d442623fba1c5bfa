/* misuse.c: calls every exported function as nobody should: see misuse.py, which writes calls.h. No call may
 * crash, hang or print. A function's calls are made in one process; where one ends it, the next begins after
 * that call. */
#include <stride.h>

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define changed(type, from, member, value)                                                                   \
    (__extension__({                                                                                         \
        type changed_value = from;                                                                           \
        changed_value.member = value;                                                                        \
        changed_value;                                                                                       \
    }))

static void *zeroed(size_t size)
{
    return calloc(1, size);
}
static void *sound_memory(void)
{
    return calloc(1, 65536);
}
static st_shape sound_shape(void)
{
    return ST_SHAPE(2, 3);
}
static st_tensor filled(st_shape s)
{
    st_tensor x = st_tensor_new(s);
    st_fill(x, 1);
    return x;
}
static st_tensor sound_tensor(void)
{
    return filled(ST_SHAPE(2, 3));
}
static st_tensor empty_tensor(void)
{
    return st_tensor_new(ST_SHAPE(0, 3));
}
static st_tensor scalar_tensor(void)
{
    return filled((st_shape){ 0 });
}
static st_tensor strided_tensor(void)
{
    return st_flip(st_transpose(filled(ST_SHAPE(3, 2)), 0, 1), 0);
}
static st_tensor nan_tensor(void)
{
    st_tensor x = st_tensor_new(ST_SHAPE(2, 3));
    st_fill(x, NAN);
    return x;
}
static st_tensor image_tensor(void)
{
    return filled(ST_SHAPE(2, 1, 6, 6));
}

/* A layer that has no options and does nothing. */
static int plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_parameter(l, "weight", ST_SHAPE(1), (st_init){ .constant = 1 });
}
static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    (void)c;
    st_copy(y, x);
}
static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)c, (void)x, (void)y;
    st_copy(dx, dy);
}
static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)c, (void)x, (void)y, (void)dy;
}
static const st_layer_type sound_type = {
    .name = "sound", .plan = plan, .forward = forward, .backward = backward, .gradient = gradient
};
static const st_field sound_fields[] = { { "option", ST_FIELD_INT, 0, .fallback = 1, .least = 1 }, { 0 } };
static const st_schedule sound_schedule = { 0 };

static st_layer *sound_layer(void)
{
    return st_dense(.out_features = 3);
}
static st_net *sound_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(3), st_dense(.out_features = 3), st_relu());
    st_net_build(n, 2, 1);
    st_net_forward(n, sound_tensor(), ST_TRAIN);
    return n;
}
static st_dataset *sound_dataset(void)
{
    return st_dataset_owned(filled(ST_SHAPE(4, 3)), filled(ST_SHAPE(4, 3)));
}
static st_optim *sound_optim(void)
{
    return st_sgd(.lr = 0.1);
}
static st_normalization *sound_normalization(void)
{
    return st_normalization_new(3, (double[]){ 0, 0, 0 }, (double[]){ 1, 1, 1 });
}
static st_train_options sound_training(void)
{
    return (st_train_options){ .loss = st_mse(), .optim = sound_optim(), .batch = 2 };
}
static FILE *sound_stream(void)
{
    return fopen("/dev/null", "w");
}
static st_real sound_map(st_real x, void *context)
{
    (void)context;
    return x;
}
static void sound_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    (void)n, (void)at, (void)stride, (void)context;
}
static void sound_parallel_for(ptrdiff_t i, void *context)
{
    (void)i, (void)context;
}
static void sound_layer_visit(st_layer *l, const char *path, void *context)
{
    (void)l, (void)path, (void)context;
}
static void sound_net_visit(const st_net_tensor *t, void *context)
{
    (void)t, (void)context;
}
static void sound_watch(const st_watch_call *c, void *context)
{
    (void)context;
    st_watch_run(c);
}

#include "calls.h"

enum { SECONDS = 10, CRASHES = 8 }; /* for one call; shown of one function */

/* Runs the calls of a function from `*at` on, in a process that it ends, by exit, so that coverage is
 * written. */
static void run(size_t function, volatile int *at)
{
    int out = open("output", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, 1), dup2(out, 2);
    for (; functions[function].text[*at]; ++*at) {
        alarm(SECONDS);
        functions[function].call(*at);
        st_error_clear();
        fflush(NULL);
        if (lseek(out, 0, SEEK_CUR) > 0) _exit(3);
    }
    exit(0);
}

int main(void)
{
    volatile int *at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int calls = 0, failures = 0;
#ifndef MISUSE_SANITIZED /* whose shadow takes more addresses than that */
    setrlimit(RLIMIT_AS, &(struct rlimit){ (rlim_t)4 << 30, (rlim_t)4 << 30 });
#endif
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        int status = 1;
        *at = 0;
        for (int crashes = 0; status && crashes < CRASHES; ++*at) {
            pid_t child = fork();
            if (!child) run(f, at);
            waitpid(child, &status, 0);
            if (!status) break;
            const char *why = !WIFSIGNALED(status)          ? "printed, or was ended"
                              : WTERMSIG(status) == SIGALRM ? "does not return"
                                                            : strsignal(WTERMSIG(status));
            printf("%s: %s\n", functions[f].text[*at], why);
            fflush(stdout);
            failures++, crashes++;
        }
        calls += *at;
    }
    printf("%d calls of %zu functions, %d failures\n", calls, sizeof functions / sizeof *functions, failures);
    return failures > 0;
}
