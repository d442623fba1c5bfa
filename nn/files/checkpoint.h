/* checkpoint.h: checkpoints, from which a run resumes exactly.
 *
 * The file is a net's (nn/files/save.h), so that st_net_load reads the net out of it, with the optimizer's
 * states and the tensors that callbacks keep as train.optim.0, ..., train.NAME, and in the metadata an entry
 * "training", JSON: {"version": 3, "terms": {...}, "numbers": {...}}; the terms are the options of the run,
 * of its loss, optimizer, schedule and callbacks, and the name of the engine. */
#ifndef STRIDE_NN_FILES_CHECKPOINT_H
#define STRIDE_NN_FILES_CHECKPOINT_H

#include "nn/train.h"

ST_API_BEGIN

/* Writes a checkpoint after each epoch, every `every` steps, and when a callback before it stops the run.
 * List it last: it saves what callbacks before it keep. The file is replaced atomically and flushed to disk
 * before training continues. A second run with the same file ends at once with an error that names the
 * process of the first: PATH.stride.lock, which the run removes at its end, is its lock.
 *
 * With `resume` the run continues from the file, if it exists, and the parameters become bit-identical to
 * those of an uninterrupted run. The options and the engine (STRIDE_ENGINE) must be the same, and so must the
 * samples, sixteen of which are compared; otherwise the run fails with an error that names the first
 * difference. More epochs are allowed if the schedule does not depend on their number (constant, step). */
typedef struct st_checkpoint_options {
    const char *path;
    int every; /* steps; 0: after each epoch only */
    bool resume;
} st_checkpoint_options;
st_callback st_checkpoint_new(st_checkpoint_options options);
#define st_checkpoint(...) st_checkpoint_new(ST_OPTIONS(st_checkpoint_options, __VA_ARGS__))

/* For a callback that is listed before the checkpoint, at ST_ON_BEGIN: keeps a tensor or numbers in
 * checkpoints under a name of at most 60 bytes. They are borrowed until the run ends, and overwritten when a
 * run is resumed. -1 with an error: too many, or a name that is kept already. */
int st_run_keep(st_run *run, const char *name, st_tensor value);
int st_run_keep_numbers(st_run *run, const char *name, int count, double numbers[]);
enum {
    ST_MAX_KEPT = 16,   /* the most tensors and lists that callbacks keep */
    ST_MAX_NUMBERS = 16 /* the most numbers in a list */
};

ST_API_END

#endif
