/* parity.c: does Stride give what PyTorch gives? The cases are files that cases.py wrote and describes.
 *
 *     parity CASE...                a line for each: ok, or not ok with the first element that differs;
 *                                   of ONNX's cases, which onnx_cases.py wrote, y or the value alone is given
 *     parity --state-dict DICT CASE the same with the parameters read from a file that PyTorch might save
 *     parity --save CASE SAVED RUN  trains the case's net for a step, saves it, and writes x with its y in
 *                                   inference to RUN, for PyTorch to load and compare
 *
 * An element passes where |got - expected| <= relative |expected| + absolute scale. In float these are the
 * defaults of torch.testing.assert_close for float32, 1.3e-6 and 1e-5; in double 1e-7 and 1e-10. With a
 * scale of 1 that is PyTorch's rule. Where the tensor's largest |expected| is less, as the gradients of a
 * mean are, the scale is that, down to 1/16. Of layers that sum many terms (convolutions, dense,
 * normalisations, nets of them) it is at least 1, and the largest where that is more: what cancels to nearly
 * 0 carries the rounding of its terms. A small difference of large terms can carry more: the absolute part is
 * at least four times the case's noise, which cases.py measures (how far float32 moves that tensor in
 * PyTorch, against double), whatever the processor that the case runs on. ONNX's cases are compared as ONNX
 * does: 1e-3 and 1e-7, whatever the scale. */
#include "tests/conformance/torch/parity.h"

#include "nn/files/files_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef STRIDE_DOUBLE
static const double torch_relative = 1e-7, torch_absolute = 1e-10;
#else
static const double torch_relative = 1.3e-6, torch_absolute = 1e-5;
#endif

const char *text(const trial *t, const char *key)
{
    const char *value = t->file ? safetensors_text(t->file, key) : NULL;
    return value ? value : "";
}

double option(const trial *t, const char *name)
{
    const json_t *value = json_object_get(t->options, name);
    return json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
}

/* ---- tensors of a case --------------------------------------------------------------------------- */

st_tensor keep(trial *t, st_tensor x)
{
    if (t->count == MOST_TENSORS) st_error_set("more than %d tensors", MOST_TENSORS);
    else if (!st_is_null(x)) t->kept[t->count++] = x;
    return x;
}

st_tensor make(trial *t, st_shape s)
{
    return keep(t, st_tensor_new(s));
}

bool has(const trial *t, const char *name)
{
    const safetensors_entry *e = t->file->entry, *end = e + t->file->count;
    while (e < end && strcmp(e->name, name) != 0) e++;
    return e < end;
}

st_tensor given(trial *t, const char *name)
{
    safetensors_entry *e = safetensors_named(t->file, name);
    if (!e) st_error_set("tensor %s: missing", name);
    if (!e) return (st_tensor){ 0 };
    e->met = true;
    st_tensor x = make(t, e->shape);
    if (!st_is_null(x)) safetensors_read(t->file, e, x);
    return x;
}

/* "dx.1" of the second batch. */
static st_tensor given_of(trial *t, const char *name, int batch)
{
    char full[32];
    snprintf(full, sizeof full, "%s.%d", name, batch);
    return given(t, full);
}

/* ---- comparing ----------------------------------------------------------------------------------- */

static double largest(st_tensor x)
{
    double most = 0;
    for (ptrdiff_t i = 0; i < st_numel(x); i++) most = fmax(most, fabs((double)st_data(x)[i]));
    return most;
}

void compare(trial *t, const char *name, st_tensor got, st_tensor expected)
{
    t->compared++;
    if (t->why[0] || st_is_null(got) || st_is_null(expected)) return;
    if (!st_shape_equal(got.shape, expected.shape)) {
        snprintf(t->why, sizeof t->why, "%s is %s, expected %s", name, st_shape_text(got.shape).text,
                 st_shape_text(expected.shape).text);
        return;
    }
    const double most = largest(expected), relative = t->onnx ? 1e-3 : torch_relative;
    const double scale = t->sums ? fmax(most, 1) : fmin(fmax(most, 1. / 16), 1);
    const double noise = json_number_value(json_object_get(t->noise, name)) * (torch_absolute / 1e-5);
    const double absolute = t->onnx ? 1e-7 : fmax(torch_absolute * scale, 4 * noise);
    for (ptrdiff_t i = 0; i < st_numel(got); i++) {
        const double g = (double)st_data(got)[i], e = (double)st_data(expected)[i];
        if (fabs(g - e) <= relative * fabs(e) + absolute) continue; /* never of a NaN */
        if (t->onnx && (g == e || (isnan(g) && isnan(e)))) continue;
        snprintf(t->why, sizeof t->why, "%s %s: element %td is %.9g, expected %.9g (largest %.3g)", name,
                 st_shape_text(got.shape).text, i, g, e, most);
        return;
    }
}

static void compare_number(trial *t, const char *name, double got, st_tensor expected)
{
    st_real place = (st_real)got;
    st_tensor one = st_tensor_wrap(&place, ST_SHAPE(1));
    compare(t, name, one, expected);
    st_tensor_free(one);
}

/* ---- nets ---------------------------------------------------------------------------------------- */

static void begin_tensor(const st_net_tensor *x, void *context)
{
    trial *t = context;
    char name[ST_LAYER_PATH + 64];
    snprintf(name, sizeof name, "before/%s", x->name);
    st_copy(x->value, given(t, name));
}

static void compare_tensor(const st_net_tensor *x, void *context)
{
    trial *t = context;
    char name[ST_LAYER_PATH + 64];
    bool state = st_is_null(x->gradient);
    snprintf(name, sizeof name, "%s/%s", state ? "after" : "gradient", x->name);
    compare(t, name, state ? x->value : x->gradient, given(t, name));
}

/* The same batch in memory of another order: [N, H, W, C] seen as [N, C, H, W]. */
static st_tensor as_nhwc(trial *t, st_tensor x)
{
    const ptrdiff_t *n = x.shape.n;
    st_tensor other = st_permute(make(t, ST_SHAPE(n[0], n[2], n[3], n[1])), ST_AXES(0, 3, 1, 2));
    st_copy(other, x);
    return other;
}

static void run_batch(trial *t, st_net *n, st_net_mode mode, int batch)
{
    char name[32];
    st_tensor x = given_of(t, "x", batch);
    if (strcmp(text(t, "layout"), "nhwc") == 0) x = as_nhwc(t, x);
    st_tensor y = st_net_forward(n, x, mode);
    if (st_is_null(y)) return;
    snprintf(name, sizeof name, "y.%d", batch);
    compare(t, name, y, given(t, name));
    if (t->onnx) return;

    st_tensor dx = make(t, x.shape);
    st_fill(dx, (st_real)NAN); /* to be overwritten */
    st_net_backward(n, given_of(t, "dy", batch), dx);
    snprintf(name, sizeof name, "dx.%d", batch);
    compare(t, name, dx, given(t, name));
}

static st_net *case_net(trial *t)
{
    const safetensors_entry *x = safetensors_named(t->file, "x.0");
    if (!x) st_error_set("tensor x.0: missing");
    st_net *n = x ? architecture_read(text(t, "architecture"), (st_net_known){ 0 }) : NULL;
    if (n && st_net_build(n, x->shape.n[0], 1) == 0) st_net_visit(n, begin_tensor, t);
    if (n && t->dict) {
        st_fill(st_net_parameters(n), (st_real)NAN);
        st_fill(st_net_states(n), (st_real)NAN);
        st_net_load_tensors(n, t->dict);
    }
    return n;
}

static void judge_net(trial *t)
{
    st_net *n = case_net(t);
    st_net_mode mode = strcmp(text(t, "mode"), "train") == 0 ? ST_TRAIN : ST_EVAL;
    if (n && !st_error()) {
        st_net_zero_gradients(n);
        for (int batch = 0; batch == 0 || (batch == 1 && has(t, "x.1")); batch++)
            run_batch(t, n, mode, batch);
        if (!t->onnx) st_net_visit(n, compare_tensor, t);
    }
    st_net_free(n);
}

/* ---- losses -------------------------------------------------------------------------------------- */

static st_loss loss_of(trial *t)
{
    const char *name = text(t, "name");
    const bool ignores_zero = json_object_get(t->options, "ignore") && option(t, "ignore") == 0;
    const double index = ignores_zero ? ST_ZERO : option(t, "ignore");
    st_tensor weight = has(t, "class_weight") ? given(t, "class_weight") : (st_tensor){ 0 };
    if (strncmp(name, "cross_entropy", 13) == 0)
        return st_cross_entropy(.label_smoothing = option(t, "smoothing"), .weight = weight,
                                .ignore_index = index);
    if (strcmp(name, "nll") == 0) return st_nll(.weight = weight, .ignore_index = index);
    if (strcmp(name, "mse") == 0) return st_mse();
    if (strcmp(name, "huber") == 0) return st_huber(.delta = option(t, "delta"));
    if (strcmp(name, "bce_with_logits") == 0) return st_bce_with_logits(.pos_weight = weight);
    return (st_loss){ 0 };
}

static void judge_loss(trial *t)
{
    st_loss l = loss_of(t);
    st_tensor y = given(t, "y"), dy = make(t, y.shape), target = given(t, "target");
    compare_number(t, "value", st_loss_value(l, y, target, dy), given(t, "value"));
    compare_number(t, "value without dy", st_loss_value(l, y, target, (st_tensor){ 0 }), given(t, "value"));
    if (!t->onnx) compare(t, "dy", dy, given(t, "dy"));
}

/* ---- optimizers ---------------------------------------------------------------------------------- */

st_optim *optim_named(const trial *t)
{
    const char *name = text(t, "name");
    const double lr = option(t, "lr"), decay = option(t, "weight_decay"), epsilon = option(t, "epsilon");
    const double momentum = option(t, "momentum");
    const st_adam_options a = { lr, option(t, "beta1"), option(t, "beta2"), epsilon, decay };
    const st_sgd_options s = { lr, momentum, option(t, "dampening"), decay, option(t, "nesterov") != 0 };
    const st_rmsprop_options r = { lr,    option(t, "alpha"),        epsilon, momentum,
                                   decay, option(t, "centered") != 0 };
    if (strcmp(name, "adam") == 0) return st_adam_new(a);
    if (strcmp(name, "adamw") == 0) return st_adamw_new(a);
    if (strcmp(name, "sgd") == 0) return st_sgd_new(s);
    if (strcmp(name, "rmsprop") == 0) return st_rmsprop_new(r);
    st_error_set("optimizer %s is not known", name);
    return NULL;
}

/* The parameters after every step. */
static void judge_optimizer(trial *t)
{
    st_optim *o = optim_named(t);
    st_tensor g = given(t, "g"), w = given(t, "w"), got = make(t, w.shape), lr = given(t, "lr");
    if (o && !st_error()) {
        st_tensor now = make(t, st_select(w, 0, 0).shape);
        st_copy(now, st_select(w, 0, 0));
        st_copy(st_select(got, 0, 0), now);
        for (ptrdiff_t i = 0; i < g.shape.n[0]; i++) {
            st_optim_step(o, (double)*st_at(lr, ST_INDEX(i)), now, st_select(g, 0, i));
            st_copy(st_select(got, 0, i + 1), now);
        }
        compare_number(t, "base", o->lr, given(t, "base"));
        compare(t, "w", got, w);
    }
    st_optim_free(o);
}

/* ---- schedules ----------------------------------------------------------------------------------- */

static st_schedule schedule_named(const trial *t)
{
    const char *name = text(t, "name");
    if (strcmp(name, "step") == 0)
        return st_step_lr(.step_size = option(t, "every"), .gamma = option(t, "gamma"));
    if (strcmp(name, "cosine") == 0) return st_cosine_lr(.end_factor = option(t, "least"));
    if (strcmp(name, "one_cycle") == 0)
        return st_one_cycle_lr(option(t, "rise"), option(t, "divisor"), option(t, "final_divisor"));
    if (strcmp(name, "constant") != 0) st_error_set("schedule %s is not known", name);
    return (st_schedule){ 0 };
}

static void judge_schedule(trial *t)
{
    st_schedule s = st_warmup_lr(.steps = (long)option(t, "warmup"), .after = schedule_named(t));
    st_tensor expected = given(t, "factor"), got = make(t, expected.shape);
    const long total = (long)st_numel(expected), per_epoch = (long)option(t, "per_epoch");
    for (long i = 0; !st_error() && i < total; i++)
        *st_at(got, ST_INDEX(i)) = (st_real)st_schedule_factor(&s, i, total, per_epoch);
    compare(t, "factor", got, expected);
}

/* ---- a case -------------------------------------------------------------------------------------- */

static bool open_trial(trial *t, const char *path, const char *dict)
{
    *t = (trial){ .file = safetensors_open(path), .dict = dict };
    if (!t->file) return false;
    t->options = json_loads(text(t, "options"), 0, NULL); /* a net has none */
    t->noise = json_loads(text(t, "noise"), 0, NULL);
    t->sums = strcmp(text(t, "sums"), "yes") == 0;
    t->onnx = strcmp(text(t, "tolerance"), "onnx") == 0;
    return true;
}

static void close_trial(trial *t)
{
    while (t->count > 0) st_tensor_free(t->kept[--t->count]);
    json_decref(t->options), json_decref(t->noise);
    safetensors_close(t->file);
}

static const struct {
    const char *kind;
    void (*judge)(trial *t);
} judges[] = { { "net", judge_net },           { "loss", judge_loss },       { "optimizer", judge_optimizer },
               { "schedule", judge_schedule }, { "tensors", judge_tensors }, { "update", judge_update } };

static void judge(trial *t)
{
    for (size_t i = 0; i < sizeof judges / sizeof *judges; i++)
        if (strcmp(judges[i].kind, text(t, "kind")) == 0) judges[i].judge(t);
    if (t->compared == 0) st_error_set("nothing was compared");
    for (const safetensors_entry *e = t->file->entry; e < t->file->entry + t->file->count; e++)
        if (!e->met) st_error_set("%s of the case is not used", e->name);
}

static bool passes(const char *path, const char *dict)
{
    trial t;
    if (open_trial(&t, path, dict)) judge(&t);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *end = strstr(name, ".safetensors");
    const char *what = st_error() ? st_error() : t.why;
    const bool good = what[0] == '\0';
    printf("%s %.*s%s %s", good ? "ok" : "not ok", end ? (int)(end - name) : (int)strlen(name), name,
           dict ? "~state_dict" : "", ST_REAL_NAME);
    if (!good) printf(": %s; %s%s", what, text(&t, "architecture"), text(&t, "options"));
    printf("\n");
    close_trial(&t);
    st_error_clear();
    return good;
}

/* ---- the other way ------------------------------------------------------------------------------- */

static void train_and_save(trial *t, st_net *n, const char *saved, const char *ran)
{
    st_tensor x = given(t, "x.0"), dy = given(t, "dy.0");
    st_net_forward(n, x, ST_TRAIN);
    st_net_zero_gradients(n);
    st_net_backward(n, dy, (st_tensor){ 0 });
    st_add(st_net_parameters(n), (st_real)-0.01, st_net_gradients(n));
    st_tensor y = st_net_forward(n, x, ST_EVAL);
    st_net_save(n, saved);

    json_t *metadata = json_object();
    safetensors_write(ran, 2, (safetensors_item[]){ { "x", x }, { "y", y } }, metadata);
    json_decref(metadata);
}

static int save(const char *path, const char *saved, const char *ran)
{
    trial t;
    st_net *n = open_trial(&t, path, NULL) ? case_net(&t) : NULL;
    if (n && !st_error()) train_and_save(&t, n, saved, ran);
    if (st_error()) fprintf(stderr, "%s\n", st_error());
    st_net_free(n);
    close_trial(&t);
    return st_error() ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--save") == 0) return save(argv[2], argv[3], argv[4]);
    const bool dict = argc == 4 && strcmp(argv[1], "--state-dict") == 0;
    int failed = 0;
    for (int i = dict ? 3 : 1; i < argc; i++) failed += !passes(argv[i], dict ? argv[2] : NULL);
    return argc < 2 || failed > 0;
}
