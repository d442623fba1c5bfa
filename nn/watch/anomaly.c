/* anomaly.c: a step taken again, with a look at everything that it computes. */
#include "nn/watch/anomaly.h"
#include "nn/files/json.h"
#include "nn/files/model.h"
#include "nn/train_impl.h"
#include "nn/watch/watch.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

typedef struct anomaly {
    bool found;
    char text[384]; /* "the output of layer 3 (relu) is inf at [5, 2, 0, 1]" */
} anomaly;

/* ---- elements ----------------------------------------------------------------------------------------- */

static bool is_bad(real x)
{
    return !(x - x == 0);
}

static void scan_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    int bad = 0;
    if (stride[0] == 1)
        for (ptrdiff_t i = 0; i < n; i++) bad |= is_bad(at[0][i]);
    else
        for (ptrdiff_t i = 0; i < n; i++) bad |= is_bad(at[0][i * stride[0]]);
    if (bad) *(bool *)context = true;
}

static bool has_bad(tensor x)
{
    bool bad = false;
    tensor_walk(1, &x, TENSOR_ANY_ORDER, scan_row, &bad);
    return bad;
}

/* ---- the first of them ------------------------------------------------------------------------------------ */

/* What is looked at, in the order in which it is computed. */
typedef enum moment { PARAMETERS, BATCH, OUTPUTS, LOSS, DERIVATIVES } moment;

typedef struct search {
    int layers;
    anomaly a;
    long long when;  /* time_of the first that was found */
    ptrdiff_t image; /* of the batch, where the first was found */
} search;

typedef struct first_bad {
    ptrdiff_t count, at; /* elements gone through; of the first bad one, -1 */
    real value;
} first_bad;

static void find_row(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    first_bad *f = context;
    for (ptrdiff_t i = 0; i < n && f->at < 0; i++)
        if (is_bad(at[0][i * stride[0]])) f->at = f->count + i, f->value = at[0][i * stride[0]];
    f->count += n;
}

/* The k-th index of a shape in row-major order. */
static shape index_of(shape s, ptrdiff_t k)
{
    shape index = s;
    for (int i = s.rank - 1; i >= 0; i--) {
        index.n[i] = k % s.n[i];
        k /= s.n[i];
    }
    return index;
}

/* Looks at x, the images of which begin with `first` of the batch; remembers what is earlier than what it knows. */
static void look(search *s, long long when, ptrdiff_t first, tensor x, const char *what, const char *of,
                 const char *type)
{
    if (tensor_is_null(x) || !has_bad(x)) return;
    first_bad f = { .at = -1 };
    tensor_walk(1, &x, TENSOR_ROW_MAJOR, find_row, &f);
    shape index = index_of(x.shape, f.at);
    if (index.rank > 0) index.n[0] += first;
    ptrdiff_t image = index.rank > 0 ? index.n[0] : 0;
    if (s->a.found && (when > s->when || (when == s->when && image >= s->image))) return;
    s->a.found = true, s->when = when, s->image = image;
    snprintf(s->a.text, sizeof s->a.text, "%s%s%s%s%s is %g at %s", what, of ? of : "", type ? " (" : "",
             type ? type : "", type ? ")" : "", isnan(f.value) ? (double)NAN : (double)f.value,
             shape_text(index).text);
}

static long long time_of(const search *s, moment m, int within)
{
    return (long long)m * 4 * (s->layers + 1) + within;
}

static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

/* One layer's hook, after it has run: threads come here at the same time. */
static void look_at_hook(const watch_call *c, void *context)
{
    search *s = context;
    const char *type = c->of->type->name;
    int back = 3 * (s->layers - c->number);
    watch_run(c);
    pthread_mutex_lock(&looking);
    switch (c->hook) {
    case WATCH_FORWARD:
        look(s, time_of(s, OUTPUTS, c->number), c->c->first, c->y, "the output of layer ", c->path, type);
        break;
    case WATCH_GRADIENT:
        for (int i = 0; i < c->of->params; i++) {
            char name[LAYER_PATH + 64];
            snprintf(name, sizeof name, "%s.%s", c->path, c->of->param_name[i]);
            look(s, time_of(s, DERIVATIVES, back), 0, st_grad(c->c, i), "the gradient of ", name, type);
        }
        break;
    case WATCH_BACKWARD:
        look(s, time_of(s, DERIVATIVES, back + 1), c->c->first, c->dx, "dx of layer ", c->path, type);
        break;
    }
    pthread_mutex_unlock(&looking);
}

static void look_at_parameter(const net_tensor *t, void *context)
{
    search *s = context;
    if (!s->a.found) look(s, time_of(s, PARAMETERS, 0), 0, t->value, "", t->name, NULL);
}

/* What the parts of a batch sum up to. */
static void look_at_gradient(const net_tensor *t, void *context)
{
    search *s = context;
    if (!s->a.found)
        look(s, time_of(s, DERIVATIVES, 3 * s->layers), 0, t->gradient, "the gradient of ", t->name, NULL);
}

static void count_layer(layer *l, const char *path, void *context)
{
    (void)l, (void)path;
    ++*(int *)context;
}

static void take_step(net *n, tensor x, tensor target, loss l, tensor dy, search *s)
{
    tensor y = net_forward(n, x, NET_TRAIN);
    double value = loss_value(l, y, target, dy);
    if (error_text()) return;
    if (!isfinite(value) && !s->a.found) {
        *s = (search){
            s->layers, { true, "outputs are finite, their loss overflows" }, time_of(s, LOSS, 0), 0
        };
        return;
    }
    look(s, time_of(s, LOSS, 1), 0, dy, "the derivative of the loss", NULL, NULL);
    net_zero_gradients(n);
    if (net_backward(n, dy, (tensor){ 0 }) == 0) net_visit(n, look_at_gradient, s);
}

/* Takes the step again, with the net's parameters and its step as they are, and looks at everything. Gradients are
 * lost; parameters, states and the step stay. Not found: where it was by chance, as memory that was overwritten. */
static anomaly find(net *n, tensor x, tensor target, loss l)
{
    search s = { 0 };
    uint64_t step = n->step;
    layer_visit(n->root, count_layer, &s.layers);
    net_visit(n, look_at_parameter, &s);
    look(&s, time_of(&s, BATCH, 0), 0, x, "the batch's x", NULL, NULL);
    look(&s, time_of(&s, BATCH, 1), 0, target, "the batch's target", NULL, NULL);
    if (s.a.found) return s.a;

    tensor dy = tensor_new(shape_with_batch(n->output, x.shape.n[0])), states = tensor_clone(net_states(n));
    watch *w = watch_begin(n, look_at_hook, &s);
    if (w) take_step(n, x, target, l, dy, &s);
    watch_end(w);
    if (!tensor_is_null(states)) tensor_copy(net_states(n), states);
    n->step = step;
    tensor_free(dy);
    tensor_free(states);
    return s.a;
}

/* ---- the batch, kept and taken again -------------------------------------------------------------------- */

#define ENTRY "anomaly"
#define X MODEL_EXTRA "x"
#define TARGET MODEL_EXTRA "target"

static int save(net *n, const char *path, tensor x, tensor target)
{
    const safetensors_item batch[] = { { X, x }, { TARGET, target } };
    char drawn[64];
    snprintf(drawn, sizeof drawn, "{\"seed\": %lld, \"step\": %lld}", (long long)n->seed, (long long)n->step);
    return model_write(n, path, (model_extra){ 2, batch, ENTRY, drawn });
}

static int read_drawn(const safetensors *file, json_int_t *seed, json_int_t *step)
{
    const char *text = safetensors_text(file, ENTRY);
    json_t *drawn = text ? json_read(text, strlen(text), "its entry \"" ENTRY "\"") : NULL;
    if (text && !drawn) return error_within("%s: ", file->path);
    int status = json_unpack(drawn, "{s:I, s:I}", "seed", seed, "step", step);
    json_decref(drawn);
    if (status == 0) return 0;
    return error_set("%s: not a batch that went wrong: its metadata has no entry \"" ENTRY
                     "\" with a seed and a step",
                     file->path);
}

/* A tensor of the file; null, with an error, where there is no memory or it cannot be read. */
static tensor read_tensor(const safetensors *file, const safetensors_entry *e, shape s)
{
    tensor x = tensor_new(s);
    if (!tensor_is_null(x) && safetensors_read(file, e, x) == 0) return x;
    tensor_free(x);
    return (tensor){ 0 };
}

/* Before there is memory for so many images, of which the file then has the elements. */
static int check_images(const safetensors *file, const net *n, shape images)
{
    bool batch = images.rank > 0 && images.n[0] > 0;
    if (batch && shape_equal(images, shape_with_batch(n->input, images.n[0]))) return 0;
    return error_set("%s: tensor " X ": %s, expected [N, ...] of images %s", file->path,
                     shape_text(images).text, shape_text(n->input).text);
}

static int replay(const safetensors *file, loss l, net_known known)
{
    json_int_t seed, step;
    shape images, targets;
    if (read_drawn(file, &seed, &step)) return -1;
    const safetensors_entry *of_x = safetensors_find_any(file, X, &images);
    const safetensors_entry *of_target = of_x ? safetensors_find_any(file, TARGET, &targets) : NULL;
    net *n = of_target ? model_plan(file, known) : NULL;
    if (n && check_images(file, n, images) == 0 && model_fill(n, file, images.n[0]) == 0) {
        tensor x = read_tensor(file, of_x, images), target = read_tensor(file, of_target, targets);
        n->seed = (uint64_t)seed, n->step = (uint64_t)step;
        anomaly a = error_text() ? (anomaly){ 0 } : find(n, x, target, l);
        if (a.found) error_set("%s: %s", file->path, a.text);
        tensor_free(x), tensor_free(target);
    }
    net_free(n);
    return error_text() ? -1 : 0;
}

int train_replay(const char *path, loss l, net_known known)
{
    if (error_text()) return -1;
    if (!path) return error_set("train_replay: the path is NULL");
    safetensors *file = safetensors_open(path);
    int status = file ? replay(file, l, known) : -1;
    safetensors_close(file);
    return status;
}

/* ---- the callback ------------------------------------------------------------------------------------------ */

/* Takes the step again, micro-batch by micro-batch up to the first that goes wrong, and says where. */
static void explain(callback *self, train_state *run)
{
    const char *path = self->options.pointer;
    const uint64_t before = run->net->step;
    anomaly a = { 0 };
    tensor x, target;
    for (int s = 0; s < run->options.micro_batches && !a.found; s++) {
        if (train_fetch_micro(run, s, &x, &target, &run->net->step)) break;
        a = find(run->net, x, target, run->options.loss);
    }
    bool saved = !error_text() && path && save(run->net, path, x, target) == 0;
    run->net->step = before;
    char what[128];
    snprintf(what, sizeof what, "train: the loss is %g at step %ld (epoch %d)",
             isnan(run->loss) ? (double)NAN : run->loss, run->step + 1, run->report.epoch);
    if (error_text()) error_within("%s: %s%s", what, a.found ? a.text : "", a.found ? "; " : "");
    else
        error_set("%s: %s; a learning rate below %g, or clipping, may help%s%s", what,
                  a.found ? a.text : "taken again, the step is finite", run->report.lr,
                  saved ? "; the batch is in " : "", saved ? path : "");
}

static void call(callback *self, train_state *run, train_event event)
{
    if (event != ON_GRADIENTS || run->rank > 0) return;
    if (!isfinite(run->loss) || has_bad(net_gradients(run->net))) explain(self, run);
}

callback callback_anomaly(const char *path)
{
    return (callback){ .name = "anomaly", .call = call, .options.pointer = (void *)path };
}
