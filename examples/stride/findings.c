/* findings.c: see findings.h. */
#include "examples/stride/findings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- asking ------------------------------------------------------------------------------------ */

ptrdiff_t findings_at(const findings *f, int truth, int predicted)
{
    return f->confusion[(ptrdiff_t)truth * f->classes + predicted];
}

ptrdiff_t findings_of_class(const findings *f, int truth)
{
    ptrdiff_t sum = 0;
    for (int k = 0; k < f->classes; k++) sum += findings_at(f, truth, k);
    return sum;
}

static ptrdiff_t predicted_as(const findings *f, int of)
{
    ptrdiff_t sum = 0;
    for (int k = 0; k < f->classes; k++) sum += findings_at(f, k, of);
    return sum;
}

static double fraction(ptrdiff_t part, ptrdiff_t whole)
{
    return whole > 0 ? (double)part / (double)whole : NAN;
}

double findings_recall(const findings *f, int of)
{
    return fraction(findings_at(f, of, of), findings_of_class(f, of));
}
double findings_precision(const findings *f, int of)
{
    return fraction(findings_at(f, of, of), predicted_as(f, of));
}

/* ---- making ------------------------------------------------------------------------------------ */

/* exp(y[k]) / sum of exp(y[j]), from the greatest output on, so that nothing overflows. */
static double softmax_of_greatest(tensor y, ptrdiff_t greatest)
{
    double top = (double)*tensor_at(y, INDEX(greatest)), sum = 0;
    for (ptrdiff_t k = 0; k < y.shape.n[0]; k++) sum += exp((double)*tensor_at(y, INDEX(k)) - top);
    return 1 / sum;
}

/* In its place among the surest, whose last one goes. */
static void remember(findings *f, mistake m, tensor x)
{
    int at = f->mistakes;
    while (at > 0 && f->mistake[at - 1].confidence < m.confidence) at--;
    if (at == MOST_MISTAKES) return;
    m.x = tensor_clone(x);
    if (f->mistakes == MOST_MISTAKES) tensor_free(f->mistake[--f->mistakes].x);
    memmove(&f->mistake[at + 1], &f->mistake[at], (size_t)(f->mistakes - at) * sizeof m);
    f->mistake[at] = m;
    f->mistakes++;
}

static void look_at(findings *f, ptrdiff_t sample, tensor x, tensor y, int truth)
{
    ptrdiff_t predicted;
    tensor_argmax(&predicted, y, AXES(0));
    f->confusion[(ptrdiff_t)truth * f->classes + predicted]++;
    if (predicted == truth) return;
    double sure = softmax_of_greatest(y, predicted);
    remember(
        f, (mistake){ .sample = sample, .truth = truth, .predicted = (int)predicted, .confidence = sure }, x);
}

static int look(findings *f, net *n, const loss *l, const data *d, tensor x, tensor target)
{
    double loss_sum = 0, hits = 0;
    for (ptrdiff_t first = 0, count; first < d->count; first += count) {
        count = d->count - first < n->batch ? d->count - first : n->batch;
        tensor some = tensor_narrow(x, 0, 0, count), classes = tensor_narrow(target, 0, 0, count);
        if (data_batch(d, NULL, first, count, some, classes)) return -1;
        tensor y = net_forward(n, some, NET_PREDICT);
        loss_sum += (double)count * loss_value(*l, y, classes, (tensor){ 0 });
        if (error_text()) return -1; /* a class out of range, too */
        for (ptrdiff_t i = 0; i < count; i++)
            look_at(f, first + i, tensor_select(some, 0, i), tensor_select(y, 0, i),
                    (int)*tensor_at(classes, INDEX(i)));
    }
    for (int k = 0; k < f->classes; k++) hits += (double)findings_at(f, k, k);
    f->loss = loss_sum / (double)d->count;
    f->accuracy = hits / (double)d->count;
    return error_text() ? -1 : 0;
}

int findings_make(findings *f, net *n, loss l, const data *d)
{
    *f = (findings){ 0 };
    if (error_text()) return -1;
    if (!n || n->batch < 1) return error_set("findings before net_build");
    if (!d || d->count < 1) return error_set("findings: the set is %s", d ? "empty" : "NULL");
    f->count = d->count;
    if (!l.classes || n->output.rank != 1 || d->y.rank != 0) return 0;
    size_t classes = (size_t)n->output.n[0];
    f->classes = (int)classes;
    f->confusion = calloc(classes * classes, sizeof *f->confusion);
    tensor x = tensor_new(shape_with_batch(d->x, n->batch)), target = tensor_new(SHAPE(n->batch));
    int status = -1;
    if (!f->confusion) error_set("findings: no memory for %zu x %zu classes", classes, classes);
    else if (!error_text()) status = look(f, n, &l, d, x, target);
    tensor_free(x), tensor_free(target);
    if (status) findings_free(f);
    return status;
}

void findings_free(findings *f)
{
    for (int i = 0; i < f->mistakes; i++) tensor_free(f->mistake[i].x);
    free(f->confusion);
    *f = (findings){ 0 };
}
