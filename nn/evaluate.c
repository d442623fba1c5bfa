/* evaluate.c: loading batches, and evaluating a net on them. */
#include "nn/loss_impl.h"
#include "nn/train_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/tables.h"

#include <math.h>
#include <stdlib.h>

/* ---- samples ------------------------------------------------------------------------------------------- */

int train_fits(const st_net *n, const st_dataset *d, const char *what)
{
    if (!d || d->count < 1) return st_error_set("train: the %s set is %s", what, d ? "empty" : "NULL");
    if (d->x.rank + 1 > ST_MAX_RANK || d->target.rank + 1 > ST_MAX_RANK)
        return st_error_set("train: samples %s and %s of the %s set leave no axis for the batch",
                            st_shape_text(d->x).text, st_shape_text(d->target).text, what);
    if (!st_shape_equal(d->x, n->input))
        return st_error_set("train: the %s set has samples %s, the net takes %s", what,
                            st_shape_text(d->x).text, st_shape_text(n->input).text);
    return 0;
}

bool train_has_accuracy(const st_loss *l, const st_net *n, const st_dataset *d)
{
    if (l->kind->binary) return st_shape_equal(n->output, d->target);
    return l->kind->classes && n->output.rank > 0 &&
           st_shape_equal(st_shape_without_batch(n->output), d->target);
}

int train_batches_new(train_batches *b, const st_net *n, const st_dataset *d, ptrdiff_t images)
{
    *b = (train_batches){ .data = d };
    b->x = st_tensor_new(st_shape_with_batch(d->x, images));
    b->target = st_tensor_new(st_shape_with_batch(d->target, images));
    b->dy = st_tensor_new(st_shape_with_batch(n->output, images));
    return st_is_null(b->x) || st_is_null(b->target) || st_is_null(b->dy) ? -1 : 0;
}

void train_batches_free(train_batches *b)
{
    st_tensor_free(b->x);
    st_tensor_free(b->target);
    st_tensor_free(b->dy);
    free(b->order);
    *b = (train_batches){ 0 };
}

/* Checked here, as the loss could only name the position in a shuffled batch. */
static int check_classes(const train_batches *b, const st_loss *l, const st_net *n, ptrdiff_t first,
                         st_tensor target)
{
    if (!l->kind->classes || !train_has_accuracy(l, n, b->data)) return 0;
    const ptrdiff_t positions = st_numel(target) / target.shape.n[0];
    for (ptrdiff_t i = 0; i < st_numel(target); i++) {
        double class = (double)st_data(target)[i];
        if (class >= 0 && class < (double)n->output.n[0] && class == floor(class)) continue;
        if (loss_ignores(l, class)) continue;
        ptrdiff_t sample = first + i / positions;
        return st_error_set("train: sample %td: class %g is out of range, the net has %td outputs",
                            b->order ? b->order[sample] : sample, isnan(class) ? (double)NAN : class,
                            n->output.n[0]);
    }
    return 0;
}

int train_fetch(const train_batches *b, const st_loss *l, const st_net *n, ptrdiff_t first, ptrdiff_t count,
                st_tensor *x, st_tensor *target)
{
    const ptrdiff_t *order = b->order ? b->order + first : NULL;
    *x = st_narrow(b->x, 0, 0, count), *target = st_narrow(b->target, 0, 0, count);
    if (st_dataset_batch(b->data, order, order ? 0 : first, count, *x, *target)) return -1;
    return check_classes(b, l, n, first, *target);
}

/* ---- scores -------------------------------------------------------------------------------------------- */

void tally_add(tally *sum, tally t)
{
    sum->loss += t.loss, sum->weight += t.weight, sum->correct += t.correct,
        sum->predictions += t.predictions;
}

ptrdiff_t train_class_of(st_tensor y, ptrdiff_t i)
{
    const ptrdiff_t classes = y.shape.n[1], area = st_numel(y) / y.shape.n[0] / classes;
    const st_real *at = st_data(y) + i / area * classes * area + i % area;
    ptrdiff_t best = 0;
    for (ptrdiff_t k = 1; k < classes; k++)
        if (exceeds(at[k * area], at[best * area])) best = k;
    return best;
}

tally train_tally(const train_batches *b, const st_loss *l, const st_net *n, st_tensor y, st_tensor target,
                  st_tensor dy)
{
    tally t = { 0 };
    const double mean = loss_part(l, y, target, dy, &t.weight);
    t.loss = mean * loss_divisor(t.weight);
    if (st_error() || !train_has_accuracy(l, n, b->data)) return t;
    for (ptrdiff_t i = 0; i < st_numel(target); i++) {
        const double wanted = (double)st_data(target)[i];
        if (loss_ignores(l, wanted)) continue;
        t.predictions++;
        t.correct += l->kind->binary ? (st_data(y)[i] > 0) == (wanted > 0.5)
                                     : train_class_of(y, i) == (ptrdiff_t)wanted;
    }
    return t;
}

/* ---- sets ---------------------------------------------------------------------------------------------- */

tally train_tally_at(st_net *n, const st_loss *l, const train_batches *b, ptrdiff_t first)
{
    st_tensor x, target;
    ptrdiff_t count = smallest(b->x.shape.n[0], b->data->count - first);
    if (train_fetch(b, l, n, first, count, &x, &target)) return (tally){ 0 };
    return train_tally(b, l, n, st_net_forward(n, x, ST_PREDICT), target, (st_tensor){ 0 });
}

int train_mean(tally sum, st_metrics *score)
{
    if (st_error()) return -1;
    if (sum.weight == 0)
        return st_error_set("train: nothing counts in the set to evaluate: all targets are ignored or have a "
                            "class weight of 0");
    *score = (st_metrics){ sum.loss / sum.weight, sum.correct / sum.predictions };
    return 0;
}

int train_score(st_net *n, const st_loss *l, const train_batches *b, st_metrics *score)
{
    tally sum = { 0 };
    for (ptrdiff_t first = 0; first < b->data->count && !st_error(); first += b->x.shape.n[0])
        tally_add(&sum, train_tally_at(n, l, b, first));
    return train_mean(sum, score);
}

int st_evaluate(st_net *n, const st_dataset *d, st_loss l, st_metrics *score)
{
    train_batches b;
    st_metrics unused;
    if (!n || n->batch < 1) return st_error_set("st_evaluate before st_net_build");
    if (!l.kind) return st_error_set("st_evaluate: the loss is missing, or its options were refused");
    if (train_fits(n, d, "data")) return -1;
    int status =
        train_batches_new(&b, n, d, n->batch) || train_score(n, &l, &b, score ? score : &unused) ? -1 : 0;
    train_batches_free(&b);
    return status;
}
