/* look.h: what each pooling makes of a digit, where its gradient goes, and how long it takes. */
#ifndef STRIDE_EXAMPLES_ATLAS_LOOK_H
#define STRIDE_EXAMPLES_ATLAS_LOOK_H

#include "examples/atlas/runs.h"

/* { "digit": image, "poolings": [{ "name", "text", "formula", "source", "missing": true where there is none,
 *     "y", "dx": images, "most": the largest |dx|, "drawn": true if two passes differ,
 *     "layer", "step": { "median", "low", "high" } }] }
 *
 * Images are as page_image has them (page.h). dx is the gradient of the sum of y; 0 is grey. Times are
 * milliseconds of one thread's processor time, forward and backward, for a batch of 64, with the quartiles:
 * of the layer alone, and of a step of a whole net. The poolings take turns in each round; FOLDER/speed.json
 * keeps their times. NULL with an error. */
json_t *look_at_poolings(const atlas *a);

#endif
