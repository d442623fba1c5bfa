/* checkpoint.h: a file from which a run can be resumed exactly where it was.
 *
 * The file is a net's (nn/files/save.h), so that st_net_load reads the net out of it, with the optimizer's states and the
 * tensors that callbacks keep as train.optim.0, ..., train.NAME, and in the metadata an entry "training", JSON:
 * {"version": 2, "terms": {...}, "numbers": {...}}; the terms are the options of the run, of its loss, optimizer, schedule
 * and callbacks. */
#ifndef STRIDE_NN_FILES_CHECKPOINT_H
#define STRIDE_NN_FILES_CHECKPOINT_H

#include "nn/train.h"

ST_API_BEGIN

/* Writes a checkpoint after each epoch, after every `every` steps, and where a callback before it stops the run. List it
 * last: it keeps what callbacks before it keep. A file is replaced at once or not at all, and is on the disk when
 * training goes on.
 *
 * With `resume` a run goes on from the file, where it exists, and comes to the same parameters as if it had not been
 * interrupted, bit for bit. Its options must be the same, and so must the samples, of which sixteen are compared;
 * otherwise the run is refused, naming the first difference. More epochs are allowed where the schedule does not
 * depend on their number (constant, step). */
typedef struct st_checkpoint_options {
    const char *path;
    int every; /* steps; 0: after each epoch only */
    bool resume;
} st_checkpoint_options;
st_callback st_checkpoint_new(st_checkpoint_options options);
#define st_checkpoint(...) st_checkpoint_new(ST_OPTIONS(st_checkpoint_options, __VA_ARGS__))

ST_API_END

#endif
