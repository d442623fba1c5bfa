/* golden.h: experiment 1: windows pooled by hand, and by every layer that has the case.
 *
 * Numbers are integers, or integers divided by 4, so that sums and maxima have error 0 in either precision;
 * powers and roots are rounded. */
#ifndef STRIDE_EXAMPLES_ATLAS_GOLDEN_H
#define STRIDE_EXAMPLES_ATLAS_GOLDEN_H

#include <jansson.h>

/* [{ "layer", "case", "y": the largest error, "dx": likewise, or null }]; "missing": true where there is no
 * such layer. NULL with an error. */
json_t *golden_run(void);

#endif
