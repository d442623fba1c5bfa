/* stride.h: everything: #include <nn/stride.h>. */
#ifndef STRIDE_NN_STRIDE_H
#define STRIDE_NN_STRIDE_H

#include "layers/layers.h"
#include "nn/augment.h"
#include "nn/data.h"
#include "nn/digits.h"
#include "nn/gradcheck.h"
#include "nn/loss.h"
#include "nn/net.h"
#include "nn/optim.h"
#include "nn/save.h"
#include "nn/schedule.h"
#include "nn/train.h"
#include "tensor/error.h"
#include "tensor/random.h"
#include "tensor/tensor.h"

#endif
