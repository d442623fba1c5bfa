/* stride.h: every public header but nn/ranks/mpi.h, and the version. */
#ifndef STRIDE_H
#define STRIDE_H

#include "layers/describe/describe.h"
#include "layers/layers.h"
#include "layers/pooling/pooling.h"
#include "nn/data.h"
#include "nn/data/augment.h"
#include "nn/data/formats.h"
#include "nn/data/classes.h"
#include "nn/data/digits.h"
#include "nn/export_c/export_c.h"
#include "nn/groups/groups.h"
#include "nn/check/gradcheck.h"
#include "nn/check/scores.h"
#include "nn/check/summary.h"
#include "nn/loss.h"
#include "nn/losses.h"
#include "nn/net.h"
#include "nn/data/normalize.h"
#include "nn/onnx/onnx.h"
#include "nn/optim.h"
#include "nn/optimizers.h"
#include "nn/callbacks/callbacks.h"
#include "nn/callbacks/watch.h"
#include "nn/files/checkpoint.h"
#include "nn/files/metadata.h"
#include "nn/files/replace.h"
#include "nn/files/save.h"
#include "nn/schedule.h"
#include "nn/schedules.h"
#include "nn/train.h"
#include "nn/ranks/ranks.h"
#include "nn/share/share.h"
#include "tensor/error.h"
#include "tensor/print/print.h"
#include "nn/data/sets.h"
#include "nn/data/table.h"
#include "tensor/random.h"
#include "tensor/reduce/reduce.h"
#include "tensor/tensor.h"
#include "tensor/threads.h"

/* The version of these headers, MAJOR.MINOR.PATCH. While MAJOR is 0 another MINOR may break programs, and
 * later only another MAJOR. The Makefile has it from here. */
#define ST_VERSION "0.1.0"
#define ST_VERSION_MAJOR 0
#define ST_VERSION_MINOR 1
#define ST_VERSION_PATCH 0

ST_API_BEGIN

/* The version of the library that is linked: as ST_VERSION, where the headers are its own. */
const char *st_version(void);

ST_API_END

#endif
