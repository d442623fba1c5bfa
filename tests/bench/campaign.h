/* campaign.h: all subjects, with each number of threads, by each peer, in alternation.
 *
 * A round measures everything once, one after the other, or everything of one request; a machine that is
 * busy for a while is so for all. Before a peer's time counts, what it computes is compared with what
 * Stride computes from the same parameters and inputs. */
#ifndef STRIDE_TESTS_BENCH_CAMPAIGN_H
#define STRIDE_TESTS_BENCH_CAMPAIGN_H

#include "tests/bench/subjects.h"

#include <stdbool.h>

enum { CAMPAIGN_THREADS = 2, CAMPAIGN_ROUNDS = 99, CAMPAIGN_PEERS = 40, CAMPAIGN_WHY = 256 };

/* A program that answers requests. Peer 0 is Stride. "torch channels-last" is a setting of torch, the name's
 * first word being the family's: settings that are much slower than their family's best are measured in the
 * first round only. */
typedef struct peer {
    const char *name, *command;
    const char *only; /* part of what subjects it measures are called; NULL: all */
} peer;

/* Its family is among these words. */
bool peer_is_of(const peer *p, const char *families);

/* Peer 0: stride_peer, which lies beside the program of that name; and the folder in which both lie. */
peer campaign_stride(const char *program);
const char *campaign_folder(const char *program);

/* Which measurement: indices of a subject, of a number of threads, of a peer. */
typedef struct cell {
    int subject, threads, peer;
} cell;

typedef struct result {
    int rounds;    /* measured; 0: this peer does not do that */
    bool left_out; /* not asked again: it refused, or took twice its family's best time in the first round */
    bool failed; /* it computes something else than Stride, or ended with an error, rather than lacking it */
    double seconds[CAMPAIGN_ROUNDS];
    long allocations;           /* the most in a round; -1: not counted */
    double peak;                /* MB that its process had at most */
    char why_not[CAMPAIGN_WHY]; /* it refused; "": it did not, or gave no reason */
} result;

typedef struct campaign {
    const subject *subjects;
    int subject_count;
    const peer *peers;
    int peer_count;
    int rounds;     /* at most; those measured, after the run */
    double seconds; /* no further round begins that would end later than that; 0: no limit */
    bool in_turn;   /* all rounds of a request's subjects before those of the next request */
    int threads[CAMPAIGN_THREADS], threads_count;
    const char *clock[CAMPAIGN_THREADS]; /* "cpu": the time that processors spend; "wall", or NULL */
    const char *folder;                  /* in which a folder for results is made, and removed afterwards */
    bool progress;                       /* shown on stderr */
    result *results;                     /* [subject][threads][peer] */
} campaign;

/* Fills c->results, which campaign_end frees. -1 with an error where Stride fails, unless `in_turn`; a peer
 * that does is left out, with the reason. */
int campaign_run(campaign *c);
void campaign_end(campaign *c);

const result *campaign_result(const campaign *c, cell at);

/* Seconds of its fastest round, which a limit of the machine is; NaN where there is none. */
double campaign_best(const campaign *c, cell at);

/* Which subject it is; -1 where it is not among them. */
int campaign_find(const campaign *c, const char *name, const char *pass);

#endif
