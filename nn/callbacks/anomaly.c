/* anomaly.c: finds the first NaN or infinity of a step by running it again. */
#include "nn/callbacks/callbacks.h"
#include "nn/loss_impl.h"
#include "nn/train_impl.h"
#include "tensor/counts.h"
#include "tensor/print/index.h"
#include "nn/callbacks/watch.h"

#include <math.h>
#include <pthread.h>

/* ---- elements ----------------------------------------------------------------------------------------- */

static bool is_bad(st_real x)
{
    return !(x - x == 0);
}

typedef struct first_bad {
    ptrdiff_t count, at; /* elements visited; index of the first bad one, or -1 */
    st_real value;
} first_bad;

static void find_row(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    first_bad *f = context;
    bool bad = false;
    for (ptrdiff_t i = 0; i < n; i++) bad |= is_bad(at[0][i * stride[0]]);
    for (ptrdiff_t i = 0; i < n && bad && f->at < 0; i++)
        if (is_bad(at[0][i * stride[0]])) f->at = f->count + i, f->value = at[0][i * stride[0]];
    f->count += n;
}

static first_bad find_bad(st_tensor x)
{
    first_bad f = { .at = -1 };
    if (!st_is_null(x)) st_walk(1, &x, ST_ROW_MAJOR, find_row, &f);
    return f;
}

/* ---- the first one of a step ----------------------------------------------------------------------- */

/* When values are computed: the output of layer i at i, its gradients at DERIVATIVES - 2 i, dx after them,
 * and the gradients of the whole batch last. Parameters and the batch are looked at before. */
enum { LOSS = 1 << 20, DERIVATIVES = 1 << 22, LAST = 1 << 23 };

typedef struct search {
    bool found, given; /* given: it is in the batch itself */
    int when;          /* the first one found was computed */
    ptrdiff_t image;   /* its image in the batch */
    ptrdiff_t first;   /* the batch's first sample: 0 but in the validation set */
    char text[384];    /* "the output of layer 3 (relu) is inf at [5, 2, 0, 1]" */
} search;

/* Looks for a bad element in x, whose first image is image `first` of the batch. Keeps the earliest by
 * time, then by image: threads call hooks in any order. */
static void look(search *s, int when, ptrdiff_t first, st_tensor x, const char *what, const char *of,
                 const char *type)
{
    first_bad f = find_bad(x);
    if (f.at < 0) return;
    st_shape index = shape_index(x.shape, f.at);
    if (index.rank > 0) index.n[0] += s->first + first;
    ptrdiff_t image = index.rank > 0 ? index.n[0] : 0;
    if (s->found && (when > s->when || (when == s->when && image >= s->image))) return;
    s->found = true, s->when = when, s->image = image;
    snprintf(s->text, sizeof s->text, "%s%s%s%s%s is %g at %s", what, of ? of : "", type ? " (" : "",
             type ? type : "", type ? ")" : "", printable((double)f.value), st_shape_text(index).text);
}

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

/* Runs one layer's hook and looks at its results. Called by several threads concurrently. */
static void look_at_hook(const st_watch_call *c, void *context)
{
    search *s = context;
    const char *type = c->of->type->name;
    const int back = DERIVATIVES - 2 * c->number;
    st_watch_run(c);
    pthread_mutex_lock(&looking);
    switch (c->hook) {
    case ST_WATCH_FORWARD:
        look(s, c->number, c->c->first, c->y, "the output of layer ", c->path, type);
        break;
    case ST_WATCH_GRADIENT:
        for (int i = 0; i < c->of->params; i++) {
            char name[ST_LAYER_PATH + 64];
            snprintf(name, sizeof name, "%s.%s", c->path, c->of->param_name[i]);
            look(s, back, 0, st_grad(c->c, i), "the gradient of ", name, type);
        }
        break;
    case ST_WATCH_BACKWARD: look(s, back + 1, c->c->first, c->dx, "dx of layer ", c->path, type); break;
    }
    pthread_mutex_unlock(&looking);
}

static void look_at_parameter(const st_net_tensor *t, void *context)
{
    search *s = context;
    if (!s->found) look(s, 0, 0, t->value, "", t->name, NULL);
}

/* The gradient of the whole batch, which may overflow although those of its chunks do not. */
static void look_at_gradient(const st_net_tensor *t, void *context)
{
    search *s = context;
    if (!s->found) look(s, LAST, 0, t->gradient, "the gradient of ", t->name, NULL);
}

/* Runs the step again with the net's parameters, and looks at everything. Gradients are overwritten, states
 * restored. */
static search find(st_net *n, st_tensor x, st_tensor target, st_loss l)
{
    search s = { 0 };
    st_net_visit(n, look_at_parameter, &s);
    const bool before = s.found;
    look(&s, 0, 0, x, "the batch's x", NULL, NULL);
    look(&s, 1, 0, target, "the batch's target", NULL, NULL);
    s.given = s.found && !before;
    if (s.found) return s;

    st_tensor dy = st_tensor_new(st_shape_with_batch(n->output, x.shape.n[0])),
              states = st_tensor_clone(st_net_states(n));
    st_watch *w = st_watch_begin(n, look_at_hook, &s);
    double weight, value = loss_part(&l, st_net_forward(n, x, ST_TRAIN), target, dy, &weight);
    if (!isfinite(value) && !s.found)
        s = (search){ .found = true, .when = LOSS, .text = "outputs are finite, their loss overflows" };
    look(&s, LOSS, 0, dy, "the derivative of the loss", NULL, NULL);
    st_net_zero_gradients(n);
    if (st_net_backward(n, dy, (st_tensor){ 0 }) == 0) st_net_visit(n, look_at_gradient, &s);
    st_watch_end(w);
    st_copy(st_net_states(n), states);
    st_tensor_free(dy);
    st_tensor_free(states);
    return s;
}

/* ---- the callback ---------------------------------------------------------------------------------- */

/* Repeats the step up to the first micro-batch that goes wrong, and reports the element. */
static void explain(st_run *run)
{
    const uint64_t before = run->net->step;
    search s = { 0 };
    for (int i = 0; i < run->options->micro_batches && !s.found; i++) {
        if (train_fetch_part(run->own, i)) break;
        s = find(run->net, run->own->x, run->own->target, run->options->loss);
    }
    run->net->step = before;
    if (st_error()) {
        st_error_within("train: step %ld (epoch %d) is not finite, and cannot be repeated: ",
                        run->report.step + 1, run->report.epoch);
        return;
    }
    char advice[96] = "";
    if (!s.given)
        snprintf(advice, sizeof advice, "; a learning rate below %g, or clipping, may help", run->report.lr);
    st_error_set("train: the loss is %g at step %ld (epoch %d): %s%s", printable(run->loss),
                 run->report.step + 1, run->report.epoch, s.found ? s.text : "repeated, the step is finite",
                 advice);
}

/* Searches the validation set, and adds what it finds to the error. */
static void explain_score(st_run *run)
{
    const train_batches *b = &run->own->validated;
    char before[ST_ERROR_SIZE];
    snprintf(before, sizeof before, "%s", st_error());
    st_error_clear();
    search s = { 0 };
    st_net_visit(run->net, look_at_parameter, &s);
    st_watch *w = st_watch_begin(run->net, look_at_hook, &s);
    for (; !s.found && s.first < b->data->count && !st_error(); s.first += b->x.shape.n[0]) {
        train_tally_at(run->net, &run->options->loss, b, s.first);
        look(&s, 0, 0, b->x, "x", NULL, NULL);
        look(&s, LOSS, 0, b->target, "the target", NULL, NULL);
    }
    st_watch_end(w);
    st_error_clear();
    st_error_set("%s%s%s", before, s.found ? ": " : "", s.text);
}

/* Tests if the run ends after the last step of an epoch, because of its validation loss. */
static bool score_failed(const st_run *run)
{
    const trainer *t = run->own;
    return st_error() && run->options->validation && t->batch == run->report.batches &&
           !isfinite(t->validation.loss);
}

static void call(st_callback *self, st_run *run, st_event event)
{
    (void)self;
    if (run->rank > 0) return;
    if (event == ST_ON_END && score_failed(run)) explain_score(run);
    if (event == ST_ON_GRADIENTS && (!isfinite(run->loss) || find_bad(st_net_gradients(run->net)).at >= 0))
        explain(run);
}

st_callback st_detect_anomaly(void)
{
    return (st_callback){ .name = "anomaly", .call = call };
}
