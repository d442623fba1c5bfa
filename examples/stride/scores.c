/* scores.c: one pass over a set; tables of what came of it. */
#include "examples/stride/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 20, MOST_CONFUSED = 10 };

/* ---- measuring --------------------------------------------------------------------------------- */

typedef struct batch {
    tensor x, target;
    ptrdiff_t *picked;
} batch;

static int measure_batch(scores *s, net *n, const data *d, loss l, ptrdiff_t first, const batch *b)
{
    ptrdiff_t left = d->count - first, count = left < n->batch ? left : n->batch;
    tensor x = tensor_narrow(b->x, 0, 0, count), target = tensor_narrow(b->target, 0, 0, count);
    if (data_batch(d, NULL, first, count, x, target)) return -1;
    tensor y = net_forward(n, x, NET_PREDICT);
    double mean = loss_value(l, y, target, (tensor){ 0 });
    if (!error_text() && !isfinite(mean)) error_set("the loss is %g", isnan(mean) ? (double)NAN : mean);
    if (error_text()) return error_within("samples %td to %td: ", first, first + count - 1);
    s->loss += mean * (double)count / (double)d->count;
    if (s->classes > 0) tensor_argmax(b->picked, y, AXES(1));
    for (ptrdiff_t i = 0; i < count && s->classes > 0 && !error_text(); i++)
        s->confusion[(ptrdiff_t)*tensor_at(target, INDEX(i)) * s->classes + b->picked[i]]++;
    return error_text() ? -1 : 0;
}

int scores_measure(scores *s, net *n, const data *d, loss l)
{
    *s = (scores){ .count = d->count, .classes = l.classes && d->y.rank == 0 ? n->output.n[0] : 0 };
    if (!shape_equal(d->x, n->input))
        return error_set("the samples are %s, the net takes %s", shape_text(d->x).text,
                         shape_text(n->input).text);
    batch b = { tensor_new(shape_with_batch(d->x, n->batch)), tensor_new(shape_with_batch(d->y, n->batch)),
                malloc((size_t)n->batch * sizeof *b.picked) };
    s->confusion = calloc((size_t)(s->classes * s->classes) + 1, sizeof *s->confusion);
    if (!b.picked || !s->confusion) error_set("no memory for %td classes", s->classes);
    for (ptrdiff_t first = 0; first < d->count && !error_text(); first += n->batch)
        measure_batch(s, n, d, l, first, &b);
    tensor_free(b.x);
    tensor_free(b.target);
    free(b.picked);
    if (!error_text()) return 0;
    scores_free(s);
    return -1;
}

void scores_free(scores *s)
{
    free(s->confusion);
    *s = (scores){ 0 };
}

/* ---- what it says ------------------------------------------------------------------------------ */

static ptrdiff_t at(const scores *s, ptrdiff_t truth, ptrdiff_t answer)
{
    return s->confusion[truth * s->classes + answer];
}

double scores_accuracy(const scores *s)
{
    ptrdiff_t hits = 0;
    for (ptrdiff_t k = 0; k < s->classes; k++) hits += at(s, k, k);
    return s->classes > 0 ? (double)hits / (double)s->count : NAN;
}

class_scores scores_of(const scores *s, ptrdiff_t k)
{
    ptrdiff_t are = 0, answered = 0, hits = at(s, k, k);
    for (ptrdiff_t j = 0; j < s->classes; j++) are += at(s, k, j), answered += at(s, j, k);
    return (class_scores){ .samples = are,
                           .precision = answered ? (double)hits / (double)answered : NAN,
                           .recall = are ? (double)hits / (double)are : NAN,
                           .f1 = are + answered ? 2 * (double)hits / (double)(are + answered) : NAN };
}

/* ---- tables ------------------------------------------------------------------------------------ */

static int widest_name(const scores *s, const model *m)
{
    size_t widest = 5;
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        size_t length = strlen(model_class(m, k).text);
        if (length > widest) widest = length;
    }
    return (int)widest;
}

static void print_fraction(FILE *to, double value)
{
    if (isnan(value)) fprintf(to, " %9s", "-");
    else fprintf(to, " %9.4f", value);
}

static void print_classes(const scores *s, const model *m, int width, FILE *to)
{
    fprintf(to, "%*s %9s %9s %9s %9s\n", width, "class", "samples", "precision", "recall", "F1");
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        class_scores c = scores_of(s, k);
        fprintf(to, "%*s %9td", width, model_class(m, k).text, c.samples);
        print_fraction(to, c.precision);
        print_fraction(to, c.recall);
        print_fraction(to, c.f1);
        fputc('\n', to);
    }
}

static void print_confusion(const scores *s, const model *m, int width, FILE *to)
{
    ptrdiff_t most = 0;
    for (ptrdiff_t i = 0; i < s->classes * s->classes; i++)
        if (s->confusion[i] > most) most = s->confusion[i];
    int column = snprintf(NULL, 0, "%td", most) + 1;
    if (column < 5) column = 5;
    fprintf(to, "\n%*s  answered\n%*s ", width, "is", width, "");
    for (ptrdiff_t k = 0; k < s->classes; k++) fprintf(to, "%*.4s", column, model_class(m, k).text);
    fputc('\n', to);
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        fprintf(to, "%*s ", width, model_class(m, k).text);
        for (ptrdiff_t j = 0; j < s->classes; j++)
            if (at(s, k, j)) fprintf(to, "%*td", column, at(s, k, j));
            else fprintf(to, "%*s", column, ".");
        fputc('\n', to);
    }
}

/* Where a matrix would be too wide: what is confused most. */
static void print_most_confused(const scores *s, const model *m, int width, FILE *to)
{
    fprintf(to, "\n%*s  answered\n", width, "is");
    ptrdiff_t below = PTRDIFF_MAX, cells = s->classes * s->classes;
    for (int shown = 0; shown < MOST_CONFUSED;) {
        ptrdiff_t next = 0;
        for (ptrdiff_t i = 0; i < cells; i++)
            if (i / s->classes != i % s->classes && s->confusion[i] < below && s->confusion[i] > next)
                next = s->confusion[i];
        if (next == 0) break;
        for (ptrdiff_t i = 0; i < cells && shown < MOST_CONFUSED; i++)
            if (i / s->classes != i % s->classes && s->confusion[i] == next) {
                fprintf(to, "%*s  %s: %td\n", width, model_class(m, i / s->classes).text,
                        model_class(m, i % s->classes).text, next);
                shown++;
            }
        below = next;
    }
}

void scores_print(const scores *s, const model *m, FILE *to)
{
    if (s->classes == 0) return;
    int width = widest_name(s, m);
    print_classes(s, m, width, to);
    if (s->classes <= MOST_COLUMNS) print_confusion(s, m, width, to);
    else print_most_confused(s, m, width, to);
    fputc('\n', to);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *scores_json(const scores *s, const model *m)
{
    json_t *all = json_pack("{s:I, s:o}", "samples", (json_int_t)s->count, "loss", number(s->loss));
    if (s->classes == 0) return all;
    json_t *names = json_array(), *matrix = json_array();
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        class_scores c = scores_of(s, k);
        json_array_append_new(names,
                              json_pack("{s:s, s:I, s:o, s:o, s:o}", "name", model_class(m, k).text,
                                        "samples", (json_int_t)c.samples, "precision", number(c.precision),
                                        "recall", number(c.recall), "f1", number(c.f1)));
        json_t *row = json_array();
        for (ptrdiff_t j = 0; j < s->classes; j++)
            json_array_append_new(row, json_integer((json_int_t)at(s, k, j)));
        json_array_append_new(matrix, row);
    }
    json_object_set_new(all, "accuracy", number(scores_accuracy(s)));
    json_object_set_new(all, "classes", names);
    json_object_set_new(all, "confusion", matrix);
    return all;
}
