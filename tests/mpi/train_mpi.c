/* train_mpi.c: the run of tests/ranks/together.h at ranks that mpirun started; ranks.sh compares what they
 * leave.
 *
 *     train_mpi FILE [KEY=NUMBER]...      parameters and states go to FILE, as they are; rank 0 writes it
 *
 *     micro=4  epochs=2  unordered=1      as in struct train
 *     checkpoint=1                        written at every step to FILE.safetensors, and gone on from
 *     kill=2 after=9 later=500            rank 2 is killed so many microseconds after its 9th step of this
 *     run began to
 *                                         add up gradients
 *     refuse=1                            the digits of that rank are no classes
 *     show=1                              progress, on stderr
 *
 * The last line on stdout is rank 0's: "done", after how many steps of an earlier run; or what failed. */
#define _XOPEN_SOURCE 700
#include "nn/files/checkpoint.h"
#include "nn/ranks/mpi.h"
#include "nn/callbacks/callbacks.h"
#include "tests/ranks/together.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

typedef struct setting {
    const char *name;
    int value;
} setting;

enum { MICRO, EPOCHS, UNORDERED, CHECKPOINT, KILL, AFTER, LATER, REFUSE, SHOW, SETTINGS };

static setting settings[SETTINGS] = { { "micro", 0 },      { "epochs", 2 },  { "unordered", 0 },
                                      { "checkpoint", 0 }, { "kill", -1 },   { "after", 0 },
                                      { "later", 0 },      { "refuse", -1 }, { "show", 0 } };
static const char *file;

static bool set(const char *text)
{
    for (setting *s = settings; s < settings + SETTINGS; s++) {
        size_t length = strlen(s->name);
        if (strncmp(text, s->name, length) == 0 && text[length] == '=')
            return s->value = atoi(text + length + 1), true;
    }
    return false;
}

static void die(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

static const st_comm *ranks;

/* Done once in a step of one micro-batch a rank. */
static int exchange_and_die(const st_comm *t, ptrdiff_t n, size_t size, const void *x, void *parts)
{
    static int steps;
    if (++steps == settings[AFTER].value) {
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { .tv_usec = settings[LATER].value + 1 } },
                  NULL);
    }
    return ranks->all_to_all(t, n, size, x, parts);
}

static void change(st_train_options *o, int rank)
{
    (void)rank;
    static char path[4096];
    snprintf(path, sizeof path, "%s.safetensors", file);
    o->unordered = settings[UNORDERED].value;
    if (settings[SHOW].value) o->callbacks[0] = st_progress(stderr);
    if (settings[CHECKPOINT].value) o->callbacks[1] = st_checkpoint(path, 1, true);
}

static void spoil(st_tensor x, st_tensor y, int rank)
{
    (void)x;
    if (rank == settings[REFUSE].value) st_fill(y, 17);
}

static int keep(const outcome *out)
{
    FILE *to = fopen(file, "wb");
    if (!to) return 1;
    const st_tensor all[] = { out->parameters, out->states };
    for (int i = 0; i < 2; i++) fwrite(st_data(all[i]), sizeof(st_real), (size_t)st_numel(all[i]), to);
    return fclose(to) != 0;
}

int main(int argc, char **argv)
{
    bool understood = argc > 1;
    for (int i = 2; i < argc; i++) understood &= set(argv[i]);
    if (!understood) return fputs("usage: train_mpi FILE [KEY=NUMBER]...\n", stderr), 2;
    file = argv[1];
    const st_comm *all = st_mpi_begin();
    if (!all) return fprintf(stderr, "train_mpi: %s\n", st_error()), 1;
    together what = { .micro_batches = settings[MICRO].value,
                      .epochs = settings[EPOCHS].value,
                      .change = change,
                      .spoil = spoil };
    st_comm doomed = *(ranks = all);
    doomed.all_to_all = exchange_and_die;
    outcome out = train_together(&what, all->rank == settings[KILL].value ? &doomed : all);
    int status = out.status ? 1 : 0;
    if (all->rank == 0 && status == 0) status = keep(&out);
    if (all->rank == 0 && out.status == 0) printf("done after %ld steps\n", out.result.resumed);
    if (all->rank == 0 && out.status) printf("%s\n", out.error);
    outcome_free(&out);
    st_mpi_end(all);
    return status;
}
