/* losses_impl.h: the passes of the losses, which nn/fast/ runs by vectors; private to the library. */
#ifndef STRIDE_NN_LOSSES_IMPL_H
#define STRIDE_NN_LOSSES_IMPL_H

#include "nn/loss_impl.h"
#include "nn/losses.h"
#include "tensor/inline.h"

#include <math.h>

/* A pass over the positions of outputs [N, K, ...]: over all of their axes but that of the classes. */
typedef struct positions {
    const st_loss *l;
    bool logits, soft, wants_dy; /* soft: the target is probabilities */
    const st_real *weight;
    ptrdiff_t classes, y_stride, target_stride, dy_stride, weight_stride; /* of the axis of classes */
    ptrdiff_t position;
    double smoothing;
    double area;       /* positions of an image */
    double total, sum; /* of the targets' weights; of the losses */
    double divisor;    /* total, or area if that is 0 */
} positions;

/* The loss of an element, and its derivative with respect to y. */
typedef double element_loss(double y, double t, double option, double *slope);

INLINE double loss_squared(double y, double t, double option, double *slope)
{
    (void)option;
    *slope = 2 * (y - t);
    return (y - t) * (y - t);
}

INLINE double loss_huber(double y, double t, double delta, double *slope)
{
    double e = y - t;
    *slope = e < -delta ? -delta : e > delta ? delta : e;
    return fabs(e) <= delta ? e * e / 2 : delta * (fabs(e) - delta / 2);
}

/* -positive t log s(y) - (1 - t) log(1 - s(y)), given e = exp(-|y|), which cannot overflow, and
 * log(1 + e). */
INLINE double loss_binary(double y, double t, double positive, double e, double log_1_and_e, double *slope)
{
    double both = 1 + (positive - 1) * t;
    *slope = both * ((y >= 0 ? 1 : e) / (1 + e)) - positive * t;
    return ((y > 0 ? both : 0) - positive * t) * y + both * log_1_and_e;
}

/* A pass over the elements of y, the target and dy. */
typedef struct mean {
    element_loss *element;
    double option;
    bool weighted, wants_dy; /* weighted: the option of each element is in a fourth tensor */
    double sum, scale;
} mean;

/* The row function of a pass by vectors: over positions of logits, or over elements; NULL with an error if
 * there is no such engine. The pointer is NULL without nn/fast/ (tensor/tables.h). */
typedef enum loss_row { LOSS_LOGITS, LOSS_SQUARED, LOSS_HUBER, LOSS_BINARY, LOSS_ROWS } loss_row;
extern st_row_function *(*loss_row_by_vectors)(loss_row which);

#endif
