/* evaluate.c: batches of samples, and how a net does on them. */
#include "nn/train_impl.h"
#include "tensor/counts.h"

#include <math.h>
#include <stdlib.h>

void *train_array(ptrdiff_t count, size_t size, const char *what)
{
    void *made = count < 0 ? NULL : calloc((size_t)count, size); /* NULL where the product overflows */
    if (!made) error_set("train: no memory for %s: %td times %zu bytes", what, count, size);
    return made;
}

/* ---- samples ------------------------------------------------------------------------------------------- */

int train_fits(const net *n, const data *d, const char *what)
{
    if (!d || d->count < 1) return error_set("train: the %s set is %s", what, d ? "empty" : "NULL");
    if (d->x.rank + 1 > TENSOR_MAX_RANK || d->y.rank + 1 > TENSOR_MAX_RANK)
        return error_set("train: samples %s and %s of the %s set leave no axis for the batch",
                         shape_text(d->x).text, shape_text(d->y).text, what);
    if (!shape_equal(d->x, n->input))
        return error_set("train: the %s set has samples %s, the net takes %s", what, shape_text(d->x).text,
                         shape_text(n->input).text);
    return 0;
}

bool train_counts_hits(const loss *l, const net *n, const data *d)
{
    return l->classes && n->output.rank == 1 && d->y.rank == 0;
}

int train_batches_new(train_batches *b, const net *n, const data *d, ptrdiff_t images)
{
    *b = (train_batches){ .data = d };
    b->x = tensor_new(shape_with_batch(d->x, images));
    b->target = tensor_new(shape_with_batch(d->y, images));
    b->dy = tensor_new(shape_with_batch(n->output, images));
    b->picked = train_array(images, sizeof *b->picked, "the classes of a batch");
    return tensor_is_null(b->x) || tensor_is_null(b->target) || tensor_is_null(b->dy) || !b->picked ? -1 : 0;
}

void train_batches_free(train_batches *b)
{
    tensor_free(b->x);
    tensor_free(b->target);
    tensor_free(b->dy);
    free(b->picked);
    *b = (train_batches){ 0 };
}

/* The loss would name the place in the batch, which says little of a shuffled set. */
static int check_classes(const train_batches *b, const loss *l, const net *n, ptrdiff_t first, tensor target)
{
    if (!train_counts_hits(l, n, b->data)) return 0;
    for (ptrdiff_t i = 0; i < target.shape.n[0]; i++) {
        double class = (double)*tensor_at(target, INDEX(i));
        if (class >= 0 && class < (double)n->output.n[0] && class == floor(class)) continue;
        return error_set("train: sample %td: class %g is out of range, the net has %td outputs",
                         b->order ? b->order[first + i] : b->base + first + i,
                         isnan(class) ? (double)NAN : class, n->output.n[0]);
    }
    return 0;
}

int train_fetch(const train_batches *b, const loss *l, const net *n, ptrdiff_t first, ptrdiff_t count,
                tensor *x, tensor *target)
{
    const ptrdiff_t *order = b->order ? b->order + first : NULL;
    *x = tensor_narrow(b->x, 0, 0, count), *target = tensor_narrow(b->target, 0, 0, count);
    if (data_batch(b->data, order, order ? 0 : b->base + first, count, *x, *target)) return -1;
    return check_classes(b, l, n, first, *target);
}

/* ---- scores -------------------------------------------------------------------------------------------- */

tally train_tally(const train_batches *b, const loss *l, const net *n, tensor y, tensor target, tensor dy)
{
    tally t = { .loss = loss_value(*l, y, target, dy) * (double)y.shape.n[0] };
    if (error_text() || !train_counts_hits(l, n, b->data)) return t;
    tensor_argmax(b->picked, y, AXES(1));
    for (ptrdiff_t i = 0; i < y.shape.n[0]; i++)
        t.hits += (double)b->picked[i] == (double)*tensor_at(target, INDEX(i));
    return t;
}

static tally evaluate_batch(net *n, const loss *l, const train_batches *b, ptrdiff_t first)
{
    tensor x, target;
    ptrdiff_t count = smallest(b->x.shape.n[0], b->data->count - first);
    if (train_fetch(b, l, n, first, count, &x, &target)) return (tally){ 0 };
    return train_tally(b, l, n, net_forward(n, x, NET_PREDICT), target, (tensor){ 0 });
}

/* Sums are in the order of the batches. */
int train_score_of(net *n, const loss *l, const train_batches *b, train_group *g, train_score *score)
{
    const int rank = g ? g->rank : 0, ranks = g ? g->ranks : 1;
    const ptrdiff_t batch = b->x.shape.n[0], count = b->data->count;
    tally sum = { 0 }, *of = train_array(ranks, sizeof *of, "the scores of ranks");
    for (ptrdiff_t first = 0; first < count && of && (g || !error_text()); first += ranks * batch) {
        ptrdiff_t mine = first + rank * batch;
        of[rank] = mine < count ? evaluate_batch(n, l, b, mine) : (tally){ 0 };
        if (g) g->all_gather(g, ranks, sizeof *of, of);
        for (int q = 0; q < ranks; q++) sum.loss += of[q].loss, sum.hits += of[q].hits;
        if (g && g->agree(g, false)) break;
    }
    free(of);
    if (error_text()) return -1;
    score->loss = sum.loss / (double)count;
    score->accuracy = train_counts_hits(l, n, b->data) ? sum.hits / (double)count : NAN;
    return 0;
}

int train_evaluate(net *n, const data *d, loss l, train_score *score)
{
    train_score unused;
    train_batches b;
    if (!n || n->batch < 1) return error_set("train_evaluate before net_build");
    if (train_fits(n, d, "data")) return -1;
    int status = train_batches_new(&b, n, d, n->batch);
    if (status == 0) status = train_score_of(n, &l, &b, NULL, score ? score : &unused);
    train_batches_free(&b);
    return status;
}
