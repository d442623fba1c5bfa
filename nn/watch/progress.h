/* progress.h: how far a run is. */
#ifndef STRIDE_NN_WATCH_PROGRESS_H
#define STRIDE_NN_WATCH_PROGRESS_H

#include "nn/train.h"

#pragma GCC visibility push(default)

/* On a terminal a bar that is redrawn; elsewhere a line after each epoch. NULL: nothing. */
st_callback st_progress(FILE *to);

#pragma GCC visibility pop

#endif
