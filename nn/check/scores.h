/* scores.h: scores of a net on classes, besides accuracy (st_evaluate, nn/train.h). */
#ifndef STRIDE_NN_CHECK_SCORES_H
#define STRIDE_NN_CHECK_SCORES_H

#include "nn/data.h"
#include "nn/losses.h"
#include "nn/net.h"

ST_API_BEGIN

/* For nets with outputs [K] or [K, ...] and classes as targets: matrix[t * K + p], of K * K numbers, becomes
 * the number of samples (of pixels, say) of class t whose largest output is p; -1 with an error. Top-k
 * accuracy is the fraction whose class is among the k largest outputs; NaN with an error. Targets that the
 * loss ignores do not count. */
int st_confusion_matrix(st_net *n, const st_dataset *d, st_loss l, ptrdiff_t matrix[]);
double st_top_k_accuracy(st_net *n, const st_dataset *d, st_loss l, int k);

ST_API_END

#endif
