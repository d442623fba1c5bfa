/* results.h: means and deviations over seeds, as tables of text and as JSON for the page. */
#ifndef STRIDE_EXAMPLES_ATLAS_RESULTS_H
#define STRIDE_EXAMPLES_ATLAS_RESULTS_H

#include "examples/atlas/runs.h"

/* An object of JSON for the page, of everything that is kept now:
 *
 *     { "facts": [[name, text], …], "comparable": false for drawn digits,
 *       "golden": golden.h's list, "digit", "poolings": look.h's,
 *       "experiments": [{ "key", "title", "claim", "scaled", "net", "train", "epochs", "seeds",
 *                         "rows": [{ "name", "layers", "claim", "missing", "runs", "failed", "stuck",
 *                                    "learned",
 *                                    "parameters", "error", "consistency", "shifted", "seconds":
 *                                        { "mean", "deviation", "values": [...] } }] }] }
 *
 * Measures that were not made are left out, and so are those of `stuck` runs, which learned nothing: more
 * than 80 % of their classes are wrong. NULL with an error. */
json_t *results_gather(const atlas *a);

/* The same as tables in Markdown. */
void results_print(const json_t *all, FILE *to);

#endif
