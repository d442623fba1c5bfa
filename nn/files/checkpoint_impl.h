/* checkpoint_impl.h: the run configuration, which a resumed run and other ranks must have too. */
#ifndef STRIDE_NN_FILES_CHECKPOINT_IMPL_H
#define STRIDE_NN_FILES_CHECKPOINT_IMPL_H

#include "nn/train.h"

#include <jansson.h>

/* `sum` is the CRC-32 of samples. To be freed by json_decref; NULL with an error. */
json_t *checkpoint_terms(const st_run *run, uint32_t sum);

/* -1 with an error that begins with `who` and names the first difference. */
int checkpoint_compare(const char *who, const json_t *mine, const json_t *theirs);

#endif
