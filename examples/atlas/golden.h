/* golden.h: experiment 1: pooled by hand, and by every pooling that has the case, exactly.
 *
 * Numbers are integers, or integers divided by 4, so that a right answer has error 0 in either precision. */
#ifndef STRIDE_EXAMPLES_ATLAS_GOLDEN_H
#define STRIDE_EXAMPLES_ATLAS_GOLDEN_H

#include <jansson.h>

/* [{ "layer", "case", "y": the largest error, "dx": likewise, or null }]; "missing": true where there is no
 * such layer. NULL with an error. */
json_t *golden_run(void);

#endif
