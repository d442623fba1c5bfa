/* progress.h: how far a run is. */
#ifndef STRIDE_NN_WATCH_PROGRESS_H
#define STRIDE_NN_WATCH_PROGRESS_H

#include "nn/train.h"

ST_API_BEGIN

/* On a terminal a bar that is redrawn; elsewhere a line after each epoch. NULL: nothing. */
st_callback st_progress(FILE *to);

ST_API_END

#endif
