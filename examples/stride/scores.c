/* scores.c: one pass over a set, and tables of its result. */
#include "examples/stride/scores.h"
#include "examples/stride/one_hot.h"
#include "examples/stride/page.h"
#include "examples/stride/sketch.h"
#include "examples/stride/text.h"
#include "tensor/reduce/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 20, MOST_CONFUSED = 10 };

ptrdiff_t scores_at(const scores *s, ptrdiff_t truth, ptrdiff_t predicted)
{
    return s->confusion[truth * s->classes + predicted];
}

/* ---- measuring --------------------------------------------------------------------------------- */

/* The softmax of the greatest output. */
static double confidence(st_tensor y, ptrdiff_t greatest)
{
    double top = (double)*st_at(y, ST_INDEX(greatest)), sum = 0;
    for (ptrdiff_t k = 0; k < y.shape.n[0]; k++) sum += exp((double)*st_at(y, ST_INDEX(k)) - top);
    return 1 / sum;
}

/* Keeps the most confident mistakes, in order. */
static void remember(scores *s, mistake m, st_tensor x)
{
    int at = s->mistakes;
    while (at > 0 && s->mistake[at - 1].confidence < m.confidence) at--;
    if (at == MOST_MISTAKES) return;
    m.x = st_tensor_clone(x);
    if (s->mistakes == MOST_MISTAKES) st_tensor_free(s->mistake[--s->mistakes].x);
    memmove(&s->mistake[at + 1], &s->mistake[at], (size_t)(s->mistakes - at) * sizeof m);
    s->mistake[at] = m;
    s->mistakes++;
}

static void look(scores *s, ptrdiff_t sample, st_tensor x, st_tensor y, ptrdiff_t truth)
{
    ptrdiff_t predicted;
    st_argmax(&predicted, y, ST_AXES(0));
    s->confusion[truth * s->classes + predicted]++;
    if (predicted != truth)
        remember(s, (mistake){ sample, truth, predicted, confidence(y, predicted), { 0 } }, x);
}

static int measure_batch(scores *s, st_net *n, const st_dataset *d, st_loss l, const st_normalization *undo,
                         ptrdiff_t first, st_tensor all_x, st_tensor all_t)
{
    ptrdiff_t left = d->count - first, count = left < n->batch ? left : n->batch;
    st_tensor x = st_narrow(all_x, 0, 0, count), target = st_narrow(all_t, 0, 0, count);
    if (st_dataset_batch(d, NULL, first, count, x, target)) return -1;
    st_tensor y = st_net_forward(n, x, ST_PREDICT);
    if (undo && !st_is_null(y)) st_normalization_undo(undo, y);
    st_tensor hot = s->classes > 0 && !l.kind->classes ? st_tensor_new(y.shape) : (st_tensor){ 0 };
    for (ptrdiff_t i = 0; i < count && !st_is_null(hot); i++)
        one_hot((double)*st_at(target, ST_INDEX(i)), st_select(hot, 0, i));
    double mean = st_loss_value(l, y, st_is_null(hot) ? target : hot, (st_tensor){ 0 });
    st_tensor_free(hot);
    if (!st_error() && !isfinite(mean)) st_error_set("the loss is %g", isnan(mean) ? (double)NAN : mean);
    if (st_error()) return st_error_within("samples %td to %td: ", first, first + count - 1);
    s->loss += mean * (double)count / (double)d->count;
    for (ptrdiff_t i = 0; i < st_numel(target) && s->classes == 0 && l.kind->binary; i++)
        s->right += (st_data(y)[i] > 0) == (st_data(target)[i] > (st_real)0.5);
    for (ptrdiff_t i = 0; i < count && s->classes > 0 && !st_error(); i++)
        look(s, first + i, st_select(x, 0, i), st_select(y, 0, i), (ptrdiff_t)*st_at(target, ST_INDEX(i)));
    return st_error() ? -1 : 0;
}

int scores_measure(scores *s, st_net *n, const st_dataset *d, st_loss l, const st_normalization *undo)
{
    *s = (scores){ .accuracy = NAN };
    if (st_error()) return -1;
    if (!st_shape_equal(d->x, n->input))
        return st_error_set("the samples are %s, the net takes %s", st_shape_text(d->x).text,
                            st_shape_text(n->input).text);
    s->count = d->count;
    if (d->target.rank == 0 && n->output.rank == 1) s->classes = n->output.n[0];
    s->confusion = calloc((size_t)(s->classes * s->classes) + 1, sizeof *s->confusion);
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, n->batch)),
              t = st_tensor_new(st_shape_with_batch(d->target, n->batch));
    if (!s->confusion) st_error_set("no memory for %td classes", s->classes);
    sketch_progress progress = sketch_begin(stderr, "samples evaluated");
    for (ptrdiff_t first = 0; first < d->count && !st_error(); first += n->batch) {
        measure_batch(s, n, d, l, undo, first, x, t);
        sketch_step(&progress, first, d->count);
    }
    sketch_erase(&progress);
    st_tensor_free(x);
    st_tensor_free(t);
    ptrdiff_t hits = 0;
    for (ptrdiff_t k = 0; k < s->classes && !st_error(); k++) hits += scores_at(s, k, k);
    if (s->classes > 0) s->accuracy = (double)hits / (double)s->count;
    else if (l.kind->binary)
        s->accuracy = (double)s->right / (double)(s->count * st_shape_numel(d->target, "eval"));
    if (st_error()) scores_free(s);
    return st_error() ? -1 : 0;
}

void scores_free(scores *s)
{
    for (int i = 0; i < s->mistakes; i++) st_tensor_free(s->mistake[i].x);
    free(s->confusion);
    *s = (scores){ 0 };
}

/* ---- per class ------------------------------------------------------------------------------------ */

static double fraction(ptrdiff_t part, ptrdiff_t whole)
{
    return whole > 0 ? (double)part / (double)whole : NAN;
}

class_scores scores_of(const scores *s, ptrdiff_t k)
{
    ptrdiff_t are = 0, answered = 0, hits = scores_at(s, k, k);
    for (ptrdiff_t j = 0; j < s->classes; j++) are += scores_at(s, k, j), answered += scores_at(s, j, k);
    return (class_scores){ are, fraction(hits, answered), fraction(hits, are),
                           fraction(2 * hits, are + answered) };
}

int scores_confused(const scores *s, confused *found, int most)
{
    int count = 0;
    for (ptrdiff_t i = 0; i < s->classes * s->classes; i++) {
        confused new = { i / s->classes, i % s->classes, s->confusion[i] };
        int at = count;
        while (at > 0 && found[at - 1].count < new.count) at--;
        if (new.truth == new.predicted || new.count == 0 || at == most) continue;
        if (count < most) count++;
        memmove(&found[at + 1], &found[at], (size_t)(count - 1 - at) * sizeof *found);
        found[at] = new;
    }
    return count;
}

/* ---- tables ------------------------------------------------------------------------------------ */

static void print_fraction(FILE *to, double value)
{
    if (isnan(value)) fprintf(to, " %9s", "-");
    else fprintf(to, " %9.4f", value);
}

/* At most `width` characters of UTF-8, aligned right. */
static void print_name(FILE *to, const char *name, int width)
{
    int count = 0, bytes = 0;
    for (; name[bytes] && (count < width || (name[bytes] & 0xc0) == 0x80); bytes++)
        count += (name[bytes] & 0xc0) != 0x80;
    fprintf(to, "%*s%.*s", width - count, "", bytes, name);
}

static int widest(const scores *s, const char *const *name)
{
    int most = 5;
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        int count = text_width(name[k]);
        if (count > most) most = count;
    }
    return most < 40 ? most : 40;
}

static void print_classes(const scores *s, const char *const *name, int width, FILE *to)
{
    fprintf(to, "%*s %9s %9s %9s %9s\n", width, "class", "samples", "precision", "recall", "F1");
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        class_scores c = scores_of(s, k);
        print_name(to, name[k], width);
        fprintf(to, " %9td", c.samples);
        print_fraction(to, c.precision);
        print_fraction(to, c.recall);
        print_fraction(to, c.f1);
        fputc('\n', to);
    }
}

static void print_confusion(const scores *s, const char *const *name, int width, FILE *to)
{
    ptrdiff_t most = 9999;
    for (ptrdiff_t i = 0; i < s->classes * s->classes; i++)
        if (s->confusion[i] > most) most = s->confusion[i];
    int column = snprintf(NULL, 0, " %td", most);
    fprintf(to, "\n%*s  predicted\n%*s ", width, "true", width, "");
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        fprintf(to, "%*s", column - 4, "");
        print_name(to, name[k], 4);
    }
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        fputc('\n', to);
        print_name(to, name[k], width);
        fputc(' ', to);
        for (ptrdiff_t j = 0; j < s->classes; j++)
            if (scores_at(s, k, j)) fprintf(to, "%*td", column, scores_at(s, k, j));
            else fprintf(to, "%*s", column, ".");
    }
    fputc('\n', to);
}

static void print_confused(const scores *s, const char *const *name, int width, FILE *to)
{
    confused found[MOST_CONFUSED];
    int count = scores_confused(s, found, MOST_CONFUSED);
    fprintf(to, "\n%*s  predicted\n", width, "true");
    for (int i = 0; i < count; i++) {
        print_name(to, name[found[i].truth], width);
        fprintf(to, "  %s: %td\n", name[found[i].predicted], found[i].count);
    }
}

void scores_print(const scores *s, const char *const *name, FILE *to)
{
    if (s->classes == 0) return;
    int width = widest(s, name);
    print_classes(s, name, width, to);
    (s->classes <= MOST_COLUMNS ? print_confusion : print_confused)(s, name, width, to);
    fputc('\n', to);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

json_t *scores_json(const scores *s, const char *const *name)
{
    json_t *all = json_pack("{s:I, s:o}", "samples", (json_int_t)s->count, "loss", page_number(s->loss));
    json_t *classes = json_array(), *matrix = json_array();
    for (ptrdiff_t k = 0; k < s->classes; k++) {
        class_scores c = scores_of(s, k);
        json_t *row = json_array();
        for (ptrdiff_t j = 0; j < s->classes; j++)
            json_array_append_new(row, json_integer((json_int_t)scores_at(s, k, j)));
        json_t *class = json_pack("{s:s, s:I, s:o, s:o, s:o}", "name", name[k], "samples",
                                  (json_int_t)c.samples, "precision", page_number(c.precision), "recall",
                                  page_number(c.recall), "f1", page_number(c.f1));
        if (json_array_append_new(classes, class) || json_array_append_new(matrix, row))
            st_error_set("class %td cannot be written as JSON", k);
    }
    if (!isnan(s->accuracy)) json_object_set_new(all, "accuracy", page_number(s->accuracy));
    if (s->classes > 0) json_object_set(all, "classes", classes);
    if (s->classes > 0) json_object_set(all, "confusion", matrix);
    json_decref(classes);
    json_decref(matrix);
    return all;
}
