/* scores.c: the classes that a net confuses, and how often the right one is among the first k. */
#include "nn/check/scores.h"
#include "nn/loss_impl.h"
#include "nn/train_impl.h"
#include "tensor/counts.h"

#include <math.h>

typedef struct counts {
    ptrdiff_t *matrix; /* by target and argmax; NULL: counts targets among the `top` largest outputs */
    int top;
    double correct, predictions;
} counts;

/* The number of outputs before this one in descending order; equal ones and NaN stay in their order. */
static ptrdiff_t rank_of(const st_real *y, ptrdiff_t classes, ptrdiff_t stride, ptrdiff_t class)
{
    const st_real own = y[class * stride];
    ptrdiff_t before = 0;
    for (ptrdiff_t k = 0; k < classes; k++)
        before += k != class && (k < class ? !(y[k * stride] < own) : !(y[k * stride] <= own));
    return before;
}

/* Outputs y [N, K, ...] and classes [N, ...], both contiguous. */
static void count(counts *c, const st_loss *l, st_tensor y, st_tensor target)
{
    const ptrdiff_t classes = y.shape.n[1], positions = st_numel(target) / target.shape.n[0];
    for (ptrdiff_t i = 0; i < st_numel(target); i++) {
        if (loss_ignores(l, (double)st_data(target)[i])) continue;
        const ptrdiff_t class = (ptrdiff_t)st_data(target)[i];
        const st_real *at = st_data(y) + i / positions * classes * positions + i % positions;
        c->predictions++;
        if (c->matrix) c->matrix[class * classes + train_class_of(y, i)]++;
        else c->correct += rank_of(at, classes, positions, class) < c->top;
    }
}

static int count_set(const char *who, st_net *n, const st_dataset *d, const st_loss *l, counts *c)
{
    train_batches b;
    if (!n || n->batch < 1) return st_error_set("%s before st_net_build", who);
    if (train_fits(who, n, d, "data")) return -1;
    if (!l->kind || !l->kind->classes || !train_has_accuracy(l, n, d))
        return st_error_set("%s: outputs %s and targets %s, expected a loss of classes, [K, ...] and [...]",
                            who, st_shape_text(n->output).text, st_shape_text(d->target).text);
    int status = train_batches_new(&b, who, n, d, n->batch);
    for (ptrdiff_t first = 0; first < d->count && status == 0; first += n->batch) {
        st_tensor x, target;
        status = train_fetch(&b, l, n, first, smallest(n->batch, d->count - first), &x, &target);
        const st_tensor y = status ? x : st_net_forward(n, x, ST_PREDICT);
        if (st_error()) status = -1;
        if (status == 0) count(c, l, y, target);
    }
    train_batches_free(&b);
    return status;
}

int st_confusion_matrix(st_net *n, const st_dataset *d, st_loss l, ptrdiff_t matrix[])
{
    if (!matrix) return st_error_set("st_confusion_matrix: the matrix is NULL");
    const ptrdiff_t classes = n && n->output.rank > 0 ? n->output.n[0] : 0;
    for (ptrdiff_t i = 0; i < classes * classes; i++) matrix[i] = 0;
    return count_set("st_confusion_matrix", n, d, &l, &(counts){ .matrix = matrix });
}

double st_top_k_accuracy(st_net *n, const st_dataset *d, st_loss l, int k)
{
    counts c = { .top = k };
    if (k < 1) st_error_set("st_top_k_accuracy: k is %d, expected at least 1", k);
    else if (count_set("st_top_k_accuracy", n, d, &l, &c) == 0 && c.predictions == 0)
        st_error_set("st_top_k_accuracy: all targets are ignored");
    return st_error() ? NAN : c.correct / c.predictions;
}
