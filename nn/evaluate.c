/* evaluate.c: the loss and the accuracy of a net, on a batch and on a data set. */
#include "nn/loss_impl.h"
#include "nn/train_impl.h"
#include "tensor/counts.h"
#include "tensor/tables.h"

#include <math.h>

/* ---- a batch ------------------------------------------------------------------------------------------ */

bool train_has_accuracy(const st_loss *l, const st_net *n, const st_dataset *d)
{
    if (l->kind->binary) return st_shape_equal(n->output, d->target);
    return l->kind->classes && n->output.rank > 0 &&
           st_shape_equal(st_shape_without_batch(n->output), d->target);
}

void tally_add(tally *sum, tally t)
{
    sum->loss += t.loss, sum->weight += t.weight, sum->correct += t.correct,
        sum->predictions += t.predictions;
}

/* 0 / 0 is -NaN on some processors, which prints as -nan. */
static double mean_of(double sum, double count)
{
    return count > 0 ? sum / count : (double)NAN;
}

st_metrics tally_score(tally sum)
{
    return (st_metrics){ mean_of(sum.loss, sum.weight), mean_of(sum.correct, sum.predictions) };
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

/* ---- a data set --------------------------------------------------------------------------------------- */

tally train_tally_at(st_net *n, const st_loss *l, const train_batches *b, ptrdiff_t first)
{
    st_tensor x, target;
    ptrdiff_t count = smallest(b->x.shape.n[0], b->data->count - first);
    if (train_fetch(b, l, n, first, count, &x, &target)) return (tally){ 0 };
    return train_tally(b, l, n, st_net_forward(n, x, ST_PREDICT), target, (st_tensor){ 0 });
}

int train_mean(const char *who, tally sum, st_metrics *score)
{
    if (st_error()) return -1;
    if (sum.weight == 0)
        return st_error_set("%s: nothing counts: all targets are ignored or have a class weight of 0", who);
    *score = tally_score(sum);
    return 0;
}

int train_score(st_net *n, const st_loss *l, const train_batches *b, st_metrics *score)
{
    tally sum = { 0 };
    for (ptrdiff_t first = 0; first < b->data->count && !st_error(); first += b->x.shape.n[0])
        tally_add(&sum, train_tally_at(n, l, b, first));
    return train_mean(b->who, sum, score);
}

int st_evaluate(st_net *n, const st_dataset *d, st_loss l, st_metrics *score)
{
    train_batches b;
    st_metrics unused;
    if (!n || n->batch < 1) return st_error_set("st_evaluate before st_net_build");
    if (!l.kind) return st_error_set("st_evaluate: the loss is missing, or its options were refused");
    if (train_fits("st_evaluate", n, d, "data")) return -1;
    int status = train_batches_new(&b, "st_evaluate", n, d, n->batch);
    if (status == 0) status = train_score(n, &l, &b, score ? score : &unused);
    train_batches_free(&b);
    return status;
}
