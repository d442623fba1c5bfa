/* progress.h: shows the progress of a run. */
#ifndef STRIDE_NN_WATCH_PROGRESS_H
#define STRIDE_NN_WATCH_PROGRESS_H

#include "nn/train.h"

ST_API_BEGIN

/* A progress bar on a terminal, otherwise a line per epoch. NULL: nothing. */
st_callback st_progress(FILE *to);

ST_API_END

#endif
