/* runs.h: one training run: a net with a candidate's poolings, from a seed. Its result is kept as
 * FOLDER/EXPERIMENT-CANDIDATE-SEED.json, and a run whose plan is the same is not made again.
 *
 *     { "plan": "...", "seed": 1, "error": 1.02, "loss": 0.03, "parameters": 5994, "seconds": 12.5,
 *       "consistency": 97.1, "shifted": 3.4,             where the experiment measures it
 *       "learned": [{ "name": "2.mixing", "mean": 0.61, "least": 0.61, "most": 0.61 }],
 *       "failed": "the loss is not finite" }             instead of the numbers
 *
 * Errors are per cent of the test images; `shifted` is that of test images shifted at random. */
#ifndef STRIDE_EXAMPLES_ATLAS_RUNS_H
#define STRIDE_EXAMPLES_ATLAS_RUNS_H

#include "examples/atlas/plan.h"
#include "examples/stride/mnist.h"
#include "nn/train.h"

#include <jansson.h>

enum { ATLAS_FOLDER_MOST = 256 }; /* bytes of the folder's path */

/* An atlas: shared by its runs. */
typedef struct atlas {
    scale scale;
    const char *folder;
    mnist data;
} atlas;

/* A run and its place among all. */
typedef struct job {
    const experiment *of;
    const candidate *with;
    int seed, number, count;
} job;

/* True if every layer of the text is a type of the library's. */
bool run_is_possible(const char *layers);

/* The net's text with `layers` instead of POOL, to be freed; NULL with an error. */
char *run_net(const char *net, const char *layers);

/* The kept result; NULL if there is none, or its plan is another. */
json_t *run_recall(const atlas *a, job j);

/* Trains, measures, and keeps the result. `watch` is told about each step. NULL with an error; a loss that is
 * not finite is a result. */
json_t *run_make(const atlas *a, job j, st_callback watch);

/* Seconds that processors have spent on this process. */
double run_seconds(void);

/* Writes JSON to a file of the folder, atomically. 0, or -1 with an error. */
int run_keep(const atlas *a, const char *name, const json_t *value);
json_t *run_read(const atlas *a, const char *name); /* NULL, without an error, if it is not there */

#endif
