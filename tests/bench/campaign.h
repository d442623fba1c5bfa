/* campaign.h: all subjects, with each number of threads, by each peer, in alternation.
 *
 * A round measures everything once, one after the other; a machine that is busy for a while is so for all. */
#ifndef STRIDE_TESTS_BENCH_CAMPAIGN_H
#define STRIDE_TESTS_BENCH_CAMPAIGN_H

#include "tests/bench/subjects.h"

#include <stdbool.h>

enum { CAMPAIGN_THREADS = 2, CAMPAIGN_ROUNDS = 99, CAMPAIGN_PEERS = 10, CAMPAIGN_WHY = 256 };
extern const int campaign_threads[CAMPAIGN_THREADS]; /* 1, 2 */

/* A program that answers requests. Peer 0 is Stride. "torch channels-last" is a setting of torch: the
 * name's first word is the peer's. */
typedef struct peer {
    const char *name, *command;
} peer;

/* Peer 0: stride_peer, which lies beside the program of that name. */
peer campaign_stride(const char *program);

/* Which measurement: indices of a subject, of a number of threads, of a peer. */
typedef struct cell {
    int subject, threads, peer;
} cell;

typedef struct result {
    int rounds; /* measured; 0: this peer does not do that */
    double seconds[CAMPAIGN_ROUNDS];
    long allocations; /* the most in a round; -1: not counted */
    double peak;      /* MB that its process had at most */
    char why_not[CAMPAIGN_WHY];
} result;

typedef struct campaign {
    const subject *subjects;
    int subject_count;
    const peer *peers;
    int peer_count, rounds;
    int threads_count; /* how many of campaign_threads */
    bool progress;     /* shown on stderr */
    result *results;   /* [subject][threads][peer] */
} campaign;

/* Fills c->results, which campaign_end frees. -1 with an error where Stride fails; a peer that does is left out, with
 * the reason. */
int campaign_run(campaign *c);
void campaign_end(campaign *c);

const result *campaign_result(const campaign *c, cell at);

/* Which subject it is; -1 where it is not among them. */
int campaign_find(const campaign *c, const char *name, const char *pass);

#endif
