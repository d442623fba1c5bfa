/* batches.c: data sets that fit a net, and batches of them in memory. */
#include "nn/train_impl.h"
#include "nn/loss_impl.h"
#include "tensor/counts.h"

#include <math.h>
#include <stdlib.h>

int train_fits(const char *who, const st_net *n, const st_dataset *d, const char *what)
{
    if (!d || d->count < 1) return st_error_set("%s: the %s set is %s", who, what, d ? "empty" : "NULL");
    if (d->x.rank + 1 > ST_MAX_RANK || d->target.rank + 1 > ST_MAX_RANK)
        return st_error_set("%s: samples %s and %s of the %s set leave no axis for the batch", who,
                            st_shape_text(d->x).text, st_shape_text(d->target).text, what);
    if (!st_shape_equal(d->x, n->input))
        return st_error_set("%s: the %s set has samples %s, the net takes %s", who, what,
                            st_shape_text(d->x).text, st_shape_text(n->input).text);
    return 0;
}

int train_batches_new(train_batches *b, const char *who, const st_net *n, const st_dataset *d,
                      ptrdiff_t images)
{
    *b = (train_batches){ .who = who, .data = d };
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
        return st_error_set("%s: sample %td: class %g is not a whole number from 0 to %td", b->who,
                            b->order ? b->order[sample] : sample, printable(class), n->output.n[0] - 1);
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
