/* stride_peer.c: Stride's side of a benchmark; every peer's program speaks the same way.
 *
 * A line on stdin asks for one repetition, and a line on stdout answers it:
 *
 *     layer 64x3x9x9 relu forward          what it is (work.h) and the pass
 *     ok 0.00123 0                         seconds of one pass; allocations meanwhile, -1: not counted
 *     layer 64x3x9x9 relu forward result   what the pass computes from the file `given`, which Stride's
 *     result                               side writes, is in the file `result` (arrays.h)
 *     skip [REASON]                        this peer does not do that
 *     error REASON
 *
 * It begins by itself with "ready VERSION", or "skip REASON" where it cannot run at all, and ends when
 * stdin does. What is prepared is kept until something else is asked for: the passes of one layer follow
 * each other. How many threads it may use is in STRIDE_THREADS. */
#define _POSIX_C_SOURCE 200809L
#include "tensor/engine.h"
#include "tests/bench/allocations.h"
#include "tests/bench/timing.h"
#include "tests/bench/work.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 2048 };

long work_number(const char *word, long least, long most)
{
    char *rest;
    errno = 0;
    long value = strtol(word, &rest, 10);
    if (errno || rest == word || *rest || value < least || value > most)
        return st_error_set("\"%s\" is not a number from %ld to %ld", word, least, most);
    return value;
}

static work *make(int count, char **word)
{
    work *w = work_of_machine(count, word);
    if (!w && !st_error()) w = work_of_layer(count, word);
    if (!w && !st_error()) w = work_of_net(count, word);
    if (!w && !st_error()) st_error_set("nothing is called %s", word[0]);
    return w;
}

static int split(char *line, char **word)
{
    int count = 0;
    for (char *w = line + strspn(line, " "); *w && count < WORK_WORDS; w += strspn(w, " ")) {
        word[count++] = w;
        w += count < WORK_WORDS ? strcspn(w, " ") : strlen(w);
        if (*w) *w++ = 0;
    }
    return count;
}

/* The work that was asked for last, and the line that asked, without the pass. */
typedef struct prepared {
    work *w;
    char line[LINE];
} prepared;

static int prepare(prepared *p, const char *line)
{
    char words[LINE], *word[WORK_WORDS];
    if (p->w && strcmp(p->line, line) == 0) return 0;
    if (p->w) p->w->end(p->w);
    snprintf(p->line, sizeof p->line, "%s", line);
    snprintf(words, sizeof words, "%s", line);
    int count = split(words, word);
    p->w = count > 0 ? make(count, word) : NULL;
    return p->w ? 0 : -1;
}

/* Cuts off the last word and returns it; NULL where it is the only one. */
static char *last_word(char *line)
{
    char *word = strrchr(line, ' ');
    if (word) *word++ = 0;
    return word;
}

static void answer(prepared *p, char *line)
{
    char *pass = last_word(line);
    const bool result = pass && strcmp(pass, "result") == 0;
    if (result) pass = last_word(line);
    if (!pass) {
        printf("error expected a kind, numbers and a pass\n");
        return;
    }
    if (prepare(p, line)) return;
    if (result) {
        if (!p->w->result) puts("skip");
        else if (p->w->result(p->w, pass) == 0) puts("result");
        return;
    }
    if (p->w->choose(p->w, pass)) return;
    p->w->run(p->w); /* what is made at the first step is made here */
    long before = allocations();
    double seconds = seconds_a_call(p->w->run, p->w);
    if (!st_error()) printf("ok %.9g %ld\n", seconds, before < 0 ? -1 : allocations() - before);
}

int main(void)
{
    prepared p = { 0 };
    char line[LINE];
    printf("ready engine %s, threads by STRIDE_THREADS\n", engine_name());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        answer(&p, line);
        if (st_error()) printf("error %s\n", st_error());
        st_error_clear();
        if (fflush(stdout)) return 1;
    }
    if (p.w) p.w->end(p.w);
    return 0;
}
