/* fuzz_calls.c: nets, sets and optimizers, called in any order and half of the time wrongly: calls on what is
 * not built, shapes that do not fit, options out of range, callbacks that meddle. A model says which calls
 * must fail, and which must not; what fails changes no parameter.
 *
 * An input is a program: each byte chooses a call, or an argument of one. FUZZ_TRACE=1 prints its calls. */
#define _POSIX_C_SOURCE 200809L
#include "tests/fuzz/fuzz.h"

#include "nn/callbacks/callbacks.h"
#include "nn/check/scores.h"
#include "nn/check/summary.h"
#include "nn/data/augment.h"
#include "nn/data/classes.h"
#include "nn/data/normalize.h"
#include "nn/data/sets.h"
#include "nn/files/checkpoint.h"
#include "nn/files/metadata.h"
#include "nn/files/save.h"
#include "nn/share/share.h"
#include "nn/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NETS = 3, SETS = 6, MOST_ELEMENTS = 1 << 14, MOST_CLASSES = 8, NOBODY = -1 };

typedef struct net_slot {
    st_net *n;
    ptrdiff_t batch, images; /* that it is built for; of the last forward pass, 0: none */
    int of;                  /* the slot whose parameters it shares, or NOBODY */
    bool keeps, unsure; /* keeps: a backward pass may follow; unsure: a training run may have changed that */
} net_slot;

static net_slot nets[NETS];
static st_dataset *sets[SETS];
static int set_count;
static st_optim *optim;
static ptrdiff_t optim_numbers; /* parameters that its states are for; 0: not built */
static bool saved;

static const uint8_t *at, *end;

static int draw(int least, int most)
{
    return least + (at < end ? *at++ : 0) % (most - least + 1);
}

/* True once in so many. */
static bool once_in(int times)
{
    return draw(1, times) == times;
}

/* ---- judging -------------------------------------------------------------------------------- */

typedef enum verdict { FAILS, PASSES, EITHER } verdict;

static verdict fails_if(bool wrong)
{
    return wrong ? FAILS : PASSES;
}

/* A sum that any changed parameter changes. */
static uint64_t fingerprint(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < NETS; i++) {
        st_tensor w = nets[i].batch ? st_net_parameters(nets[i].n) : (st_tensor){ 0 };
        const unsigned char *bytes = st_is_null(w) ? NULL : (const unsigned char *)st_data(w);
        for (size_t k = 0; bytes && k < (size_t)st_numel(w) * sizeof(st_real); k++) sum = sum * 31 + bytes[k];
    }
    return sum;
}

static uint64_t before;  /* of the nets, before the call */
static bool after_error; /* an error was set before the call, so that nothing may run */
static const char EARLIER[] = "an earlier error";

static void begin(void)
{
    before = fingerprint();
    after_error = false;
}

/* For a call that must not run while an error is set: at times there is one. */
static void begin_run(void)
{
    before = fingerprint();
    after_error = once_in(12);
    if (after_error) st_error_set("%s", EARLIER);
}

/* Claims the verdict; true if the call has passed. */
static bool judge(const char *call, bool passed, verdict v)
{
    char text[128];
    if (getenv("FUZZ_TRACE")) fprintf(stderr, "%s: %s\n", call, st_error() ? st_error() : "passed");
    if (after_error) {
        fuzz_claim(st_error() && strcmp(st_error(), EARLIER) == 0, "the first error stays");
        fuzz_claim(fingerprint() == before, "after an error nothing changes");
        st_error_clear();
        return false;
    }
    if (passed == (v == FAILS) && v != EITHER) {
        fprintf(stderr, "%s: %s\n", call, st_error() ? st_error() : "no error");
        snprintf(text, sizeof text, "%s %s", call, v == FAILS ? "fails" : "passes");
        fuzz_claim(false, text);
    }
    const bool taken = fuzz_took(passed);
    if (v == FAILS) fuzz_claim(fingerprint() == before, "what fails changes nothing");
    return taken;
}

/* ---- options -------------------------------------------------------------------------------- */

static double draw_number(const st_field *f)
{
    static const double reals[] = { ST_ZERO, 0.5, 1, 3, -1, NAN, INFINITY };
    if (f->kind == ST_FIELD_REAL) {
        if (once_in(6)) return reals[draw(0, 6)];
        return f->fallback != 0 ? 0 : draw(0, 2) > 0 ? 0.5 : 0.01;
    }
    if (once_in(12)) return draw(0, 1) ? -1 : ST_ZERO_INT;
    return draw(f->fallback == 0 && f->least > 0, 3);
}

/* Stands in for an option that is 0. */
static double resolved(const st_field *f, double number)
{
    if (f->kind != ST_FIELD_REAL && number == ST_ZERO_INT) return 0;
    return number == 0 && !signbit(number) ? f->fallback : number;
}

static bool is_out_of_range(const st_field *f, double number)
{
    const double value = resolved(f, number);
    return !isfinite(value) || value < f->least || (f->below != 0 && value >= f->below);
}

/* Options by their table, in their ranges and out of them; *wrong where a range says so. */
static st_option_bytes draw_options(const st_field *fields, bool *wrong)
{
    st_option_bytes o = { 0 };
    *wrong = false;
    for (const st_field *f = fields; f && f->name; f++) {
        void *at_field = o.bytes + f->offset;
        int *whole = at_field, choices = 0;
        switch (f->kind) {
        case ST_FIELD_BOOL: *(bool *)at_field = once_in(3); break;
        case ST_FIELD_REAL:
            *(double *)at_field = draw_number(f);
            *wrong = *wrong || is_out_of_range(f, *(double *)at_field);
            break;
        case ST_FIELD_PAIR:
        case ST_FIELD_INT:
            for (int i = 0; i < 1 + (f->kind == ST_FIELD_PAIR); i++) {
                whole[i] = (int)draw_number(f);
                *wrong = *wrong || is_out_of_range(f, whole[i]);
            }
            break;
        case ST_FIELD_CHOICE:
            while (f->choices[choices]) choices++;
            *whole = once_in(16) ? choices : draw(0, choices - 1);
            *wrong = *wrong || *whole == choices;
            break;
        case ST_FIELD_NAMED: *wrong = true; break; /* none is given */
        }
    }
    return o;
}

/* ---- nets ----------------------------------------------------------------------------------- */

static bool is_shared(int i)
{
    for (int k = 0; k < NETS; k++)
        if (nets[k].n && nets[k].of == i) return true;
    return false;
}

static void drop_net(int i)
{
    for (int k = 0; k < NETS; k++)
        if (nets[k].n && nets[k].of == i) drop_net(k);
    st_net_free(nets[i].n);
    nets[i] = (net_slot){ .of = NOBODY };
}

/* Any type, with children that fit. */
static st_layer *draw_of_table(bool *wrong)
{
    int count = 0;
    while (st_layer_types[count]) count++;
    const st_layer_type *type = st_layer_types[draw(0, count - 1)];
    st_layer *child[4];
    bool refused;
    const st_option_bytes options = draw_options(type->fields, &refused);
    const int children = type->children == ST_LAYER_ANY ? draw(1, 3) : type->children;
    for (int i = 0; i < children; i++) child[i] = draw(0, 1) ? st_relu() : st_identity();
    *wrong = *wrong || refused;
    return st_layer_new(type, &options, children, child);
}

static st_layer *draw_layer(bool *wrong)
{
    if (draw(0, 1)) return draw_of_table(wrong);
    switch (draw(0, 23)) {
    case 0: return *wrong = true, st_dense(.out_features = -1);
    case 1: return *wrong = true, st_dropout(.p = 2);
    case 2: return *wrong = true, st_conv2d(.kernel = { 3 });
    case 3: return *wrong = true, (st_layer *)NULL;
    case 4: return *wrong = true, st_sequence(st_relu(), NULL);
    case 5: return st_conv2d(.out_channels = draw(1, 3), .kernel = { draw(1, 3) }, .padding = { 1 });
    case 6: return st_maxpool(.kernel = { draw(1, 3) }, .ceil_mode = draw(0, 1));
    case 7: return st_avgpool(.kernel = { 2 }, .padding = { draw(0, 2) });
    case 8: return st_batchnorm();
    case 9: return st_flatten();
    case 10: return st_dropout(.p = 0.5);
    case 11: return st_residual(st_sequence(st_relu(), st_prelu()));
    case 12: return st_concat(st_identity(), st_sigmoid());
    case 13: return st_upsample(.scale = { draw(1, 2) });
    case 14: return st_groupnorm(.groups = draw(1, 3));
    case 15: return st_layernorm();
    case 16: return st_softmax();
    case 17: return st_conv_transpose2d(.out_channels = 2, .kernel = { 2 }, .stride = { draw(1, 2) });
    case 18: return st_pad2d(.height = { draw(0, 2), 1 }, .mode = (st_pad_mode)draw(0, 2));
    case 19: return st_adaptive_avgpool({ draw(1, 2) });
    default: return st_dense(.out_features = draw(1, MOST_CLASSES));
    }
}

static void new_net(int i)
{
    const st_shape inputs[] = {
        ST_SHAPE(3), ST_SHAPE(1, 4, 4), ST_SHAPE(2, 5, 3), { .rank = ST_MAX_RANK }, ST_SHAPE(-1)
    };
    const int shape = once_in(16) ? draw(3, 4) : draw(0, 2), count = draw(1, 4);
    st_layer *layers[4];
    bool wrong = shape > 2;
    drop_net(i);
    begin();
    for (int k = 0; k < count; k++) layers[k] = draw_layer(&wrong);
    st_net *n = st_net_new_of(inputs[shape], count, layers);
    if (!judge("st_net_new", n, wrong ? FAILS : EITHER)) st_net_free(n);
    else nets[i].n = n;
}

static void build(int i)
{
    net_slot *s = &nets[i];
    const ptrdiff_t batch = draw(-1, 6);
    if (s->of != NOBODY || is_shared(i)) return; /* they would lose what they share */
    begin();
    if (!judge("st_net_build", st_net_build(s->n, batch, 1) == 0, fails_if(!s->n || batch < 1))) return;
    *s = (net_slot){ s->n, batch, .of = NOBODY };
}

static void share(int i, int k)
{
    net_slot *from = &nets[i];
    const ptrdiff_t batch = draw(0, 4);
    if (i == k) return;
    drop_net(k);
    begin();
    st_net *twin = st_net_share(from->n, batch);
    if (judge("st_net_share", twin, fails_if(!from->n || !from->batch || batch < 1)))
        nets[k] = (net_slot){ twin, batch, .of = i };
    else st_net_free(twin);
}

/* Small numbers; of that shape or, wrongly, of another. */
static st_tensor draw_batch(st_shape image, ptrdiff_t images, bool *wrong)
{
    st_shape other = image;
    if (once_in(8))
        other = draw(0, 1) || image.rank + 2 > ST_MAX_RANK ? ST_SHAPE(7) : st_shape_with_batch(image, 1);
    *wrong = !st_shape_equal(image, other);
    st_tensor x = st_tensor_new(st_shape_with_batch(other, images));
    st_normal(x, (st_random_key){ 1, (uint64_t)images }, 0, 1);
    return x;
}

static void backward_now(net_slot *s, st_tensor x)
{
    bool wrong;
    st_tensor dy = draw_batch(s->n->output, s->images, &wrong), dx = { 0 };
    if (draw(0, 1)) dx = st_tensor_new(once_in(4) ? ST_SHAPE(2, 3) : x.shape);
    wrong = wrong || (!st_is_null(dx) && !st_shape_equal(dx.shape, x.shape));
    begin_run();
    judge("st_net_backward", st_net_backward(s->n, dy, dx) == 0, fails_if(wrong));
    st_tensor_free(dy), st_tensor_free(dx);
}

static void forward(int i)
{
    net_slot *s = &nets[i];
    const ptrdiff_t images = draw(0, 6);
    const int mode = draw(0, 2);
    bool wrong;
    st_tensor x = draw_batch(s->n ? s->n->input : ST_SHAPE(3), images, &wrong);
    begin_run();
    st_tensor y = st_net_forward(s->n, images > 0 && draw(0, 1) ? st_flip(x, 0) : x, (st_net_mode)mode);
    const bool fails = !s->batch || images < 1 || images > s->batch || wrong;
    if (judge("st_net_forward", !st_is_null(y), fails_if(fails))) {
        fuzz_claim(st_shape_equal(y.shape, st_shape_with_batch(s->n->output, images)), "y has its shape");
        fuzz_look(y);
        s->images = images, s->keeps = mode != ST_PREDICT, s->unsure = false;
        if (s->keeps && s->of == NOBODY) backward_now(s, x); /* while x is there */
    }
    st_tensor_free(x);
}

/* Without the forward pass that it needs: none, or one that keeps nothing. */
static void backward(int i)
{
    net_slot *s = &nets[i];
    if (s->keeps || s->unsure) return;
    st_tensor dy = s->images ? st_tensor_new(st_shape_with_batch(s->n->output, s->images)) : (st_tensor){ 0 };
    begin_run();
    judge("st_net_backward", st_net_backward(s->n, dy, (st_tensor){ 0 }) == 0, FAILS);
    st_tensor_free(dy);
}

static void predict(int i)
{
    net_slot *s = &nets[i];
    const ptrdiff_t images = draw(0, 9);
    bool wrong, other;
    st_tensor x = draw_batch(s->n ? s->n->input : ST_SHAPE(3), images, &wrong),
              y = draw_batch(s->n ? s->n->output : ST_SHAPE(3), images, &other);
    begin_run();
    const bool passed = st_net_predict(s->n, x, y) == 0;
    if (judge("st_net_predict", passed, fails_if(!s->batch || images < 1 || wrong || other)))
        s->keeps = false;
    st_tensor_free(x), st_tensor_free(y);
}

static void describe(int i)
{
    static const char *const names[] = { "a", "b\xc3\xa9", "c", "\xff" };
    net_slot *s = &nets[i];
    const int count = draw(0, 4), what = draw(0, 3);
    FILE *nowhere = what == 3 ? fopen("/dev/null", "w") : NULL;
    begin();
    if (what == 0) {
        const bool wrong = once_in(3), none = once_in(4);
        const int passed = st_net_set_metadata(s->n, wrong ? NULL : "note", none ? NULL : "text");
        judge("st_net_set_metadata", passed == 0, fails_if(!s->n || wrong));
    } else if (what == 1) {
        const bool wrong = once_in(3);
        const bool fits = s->n && s->n->output.rank == 1 && s->n->output.n[0] == count;
        const int passed = st_net_set_classes(s->n, count, wrong ? NULL : names);
        judge("st_net_set_classes", passed == 0,
              wrong || !s->n || count > 3 || count < 1 ? FAILS
              : fits                                   ? PASSES
                                                       : EITHER);
    } else if (what == 2) {
        st_class_names *c = st_net_classes(s->n);
        const bool none = !c && !st_error();
        if (!none || after_error) judge("st_net_classes", c, EITHER);
        st_class_names_free(c);
    } else {
        const int passed = st_net_summary(s->n, draw(0, 3), nowhere);
        judge("st_net_summary", passed == 0, s->n && nowhere ? EITHER : FAILS);
        if (s->n) s->images = 0, s->keeps = false, s->unsure = true; /* "the last forward pass is lost" */
    }
    if (nowhere) fclose(nowhere);
}

static void save(int i)
{
    net_slot *s = &nets[i];
    const char *path = fuzz_path("net");
    begin();
    if (!judge("st_net_save", st_net_save(s->n, path) == 0, fails_if(!s->batch))) return;
    saved = true;
    st_net *again = st_net_load(path, .batch = 2);
    fuzz_claim(again != NULL, "what was saved is loaded");
    st_tensor a = st_net_parameters(s->n), b = st_net_parameters(again);
    fuzz_claim(st_numel(a) == st_numel(b) &&
                   memcmp(st_data(a), st_data(b), (size_t)st_numel(a) * sizeof(st_real)) == 0,
               "and has its parameters");
    st_net_free(again);
}

static void load(int i)
{
    net_slot *s = &nets[i];
    if (s->of != NOBODY || is_shared(i)) return;
    begin();
    const bool passed = st_net_load_tensors(s->n, fuzz_path("net")) == 0;
    if (!judge("st_net_load_tensors", passed, s->batch && saved ? EITHER : FAILS) && !after_error)
        fuzz_claim(fingerprint() == before, "a file that does not fit changes nothing");
}

static void clear(int i)
{
    net_slot *s = &nets[i];
    begin();
    st_net_zero_gradients(s->n);
    judge("st_net_zero_gradients", !st_error(), fails_if(!s->batch || s->of != NOBODY));
}

/* ---- optimizers ----------------------------------------------------------------------------- */

static void new_optim(void)
{
    int count = 0;
    bool wrong;
    while (st_optim_kinds[count]) count++;
    const st_optim_kind *kind = st_optim_kinds[draw(0, count - 1)];
    const st_option_bytes options = draw_options(kind->fields, &wrong);
    begin();
    st_optim *o = st_optim_new(kind, &options);
    if (!judge("an optimizer", o, wrong ? FAILS : kind->plan ? EITHER : PASSES)) {
        st_optim_free(o);
        return;
    }
    st_optim_free(optim);
    optim = o, optim_numbers = 0;
}

static void step(int i)
{
    net_slot *s = &nets[i];
    st_tensor w = s->batch ? st_net_parameters(s->n) : (st_tensor){ 0 },
              g = s->batch ? st_net_gradients(s->n) : w;
    const ptrdiff_t count = st_numel(w);
    const bool wrong = once_in(6) && count > 1;
    if (wrong) g = st_narrow(g, 0, 0, count - 1);
    st_error_clear();
    begin_run();
    const bool passed = st_optim_step(optim, 0.01, w, g) == 0;
    const bool fails =
        !optim || st_is_null(w) || st_is_null(g) || wrong || (optim_numbers && optim_numbers != count);
    if (judge("st_optim_step", passed, fails ? FAILS : EITHER)) optim_numbers = count;
    else if (!fails && !after_error)
        optim_numbers =
            optim->states && !st_is_null(optim->state[0]) ? st_numel(optim->state[0]) : optim_numbers;
}

/* ---- sets ----------------------------------------------------------------------------------- */

static void drop_sets(void)
{
    while (set_count > 0) st_dataset_free(sets[--set_count]); /* the last first: they refer to those before */
}

static const st_dataset *draw_set(void)
{
    return set_count > 0 && !once_in(16) ? sets[draw(0, set_count - 1)] : NULL;
}

static void keep_set(const char *call, st_dataset *d, verdict v)
{
    if (judge(call, d, v)) sets[set_count++] = d;
    else st_dataset_free(d);
}

static void new_set(void)
{
    const st_shape x_shapes[] = { ST_SHAPE(3), ST_SHAPE(1, 4, 4), ST_SHAPE(2, 5, 3) };
    const ptrdiff_t count = draw(1, 9), others = once_in(8) ? count + 1 : count;
    const st_shape image = x_shapes[draw(0, 2)], target = draw(0, 1) ? (st_shape){ 0 } : ST_SHAPE(draw(1, 4));
    st_tensor x = st_tensor_new(st_shape_with_batch(image, count)),
              y = st_tensor_new(st_shape_with_batch(target, others));
    st_normal(x, (st_random_key){ 2, (uint64_t)count }, 0, 1);
    for (ptrdiff_t k = 0; k < st_numel(y); k++) st_data(y)[k] = (st_real)draw(0, 2);
    begin();
    keep_set("st_dataset_owned", st_dataset_owned(x, y), fails_if(count != others));
}

static void change(void *context, ptrdiff_t i, st_tensor x, st_tensor y)
{
    (void)context, (void)i, (void)y;
    st_scale(x, 2);
}

static void derive(void)
{
    const st_dataset *d = draw_set(), *other = draw_set();
    const ptrdiff_t n = d ? d->count : 0, first = draw(-1, 9), count = draw(0, 9);
    const ptrdiff_t index[] = { draw(-1, 8), 0, 0 };
    const double weight[] = { 1, 1, 1, 1, 1, 1, 1, 1, draw(-1, 1), 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    const int way = draw(0, 7);
    if (n > 18) return; /* concatenated */
    begin();
    if (way == 0)
        keep_set("st_dataset_slice", st_dataset_slice(d, first, count),
                 d && first >= 0 && count > 0 && first + count <= n ? PASSES
                 : count                                            ? FAILS
                                                                    : EITHER);
    else if (way == 1)
        keep_set("st_dataset_subset", st_dataset_subset(d, 3, index),
                 fails_if(!d || index[0] < 0 || index[0] >= n));
    else if (way == 2)
        keep_set("st_dataset_concat", st_dataset_concat(d, other),
                 fails_if(!d || !other || !st_shape_equal(d->x, other->x) ||
                          !st_shape_equal(d->target, other->target)));
    else if (way == 3)
        keep_set("st_dataset_map", st_dataset_map(d, count ? change : NULL, NULL), fails_if(!d || !count));
    else if (way == 4)
        keep_set("st_dataset_weighted", st_dataset_weighted(d, count, weight, 1),
                 fails_if(!d || count < 1 || (n > 8 && weight[8] < 0)));
    else if (way == 5)
        keep_set("st_dataset_augment",
                 st_dataset_augment(d, .flip = 0.5, .shift = (double)first, .cutout = (int)count),
                 !d || d->x.rank != 3 || first < 0 || first > 4 || count > 4 ? FAILS : EITHER);
    else if (way == 6) {
        st_normalization *m = st_normalization_measure(d);
        st_dataset *normal = m ? st_dataset_normalize(d, m) : NULL;
        st_normalization_free(m);
        keep_set("st_dataset_normalize", normal, fails_if(!d));
    } else {
        st_dataset *part = NULL, *rest = NULL;
        const bool passed = st_dataset_split(d, (double)first / 8, 1, &part, &rest) == 0;
        if (judge("st_dataset_split", passed, !d || first <= 0 || first >= 8 ? FAILS : EITHER))
            sets[set_count++] = part, sets[set_count++] = rest;
        else st_dataset_free(rest), st_dataset_free(part);
    }
}

static void batch_of(void)
{
    const st_dataset *d = draw_set();
    const ptrdiff_t first = draw(-1, 6), count = draw(0, 6);
    if (!d) return;
    st_tensor x = st_tensor_new(st_shape_with_batch(d->x, count)),
              y = st_tensor_new(st_shape_with_batch(d->target, count));
    const bool fits = first >= 0 && first + count <= d->count;
    begin_run();
    judge("st_dataset_batch", st_dataset_batch(d, NULL, first, count, x, y) == 0,
          count < 1 ? EITHER : fails_if(!fits));
    st_tensor_free(x), st_tensor_free(y);
}

/* ---- training ------------------------------------------------------------------------------- */

static st_loss draw_loss(bool *wrong)
{
    int count = 0;
    while (st_loss_kinds[count]) count++;
    const st_loss_kind *kind = st_loss_kinds[draw(0, count - 1)];
    *wrong = once_in(20);
    if (*wrong) return (st_loss){ 0 };
    const st_option_bytes options = draw_options(kind->fields, wrong);
    begin();
    const st_loss l = st_loss_new(kind, &options);
    judge("a loss", l.kind, fails_if(*wrong));
    return l;
}

static st_schedule draw_schedule(void)
{
    int count = 0;
    bool wrong;
    while (st_schedule_kinds[count]) count++;
    const int which = draw(0, 2 * count);
    if (which >= count) return (st_schedule){ 0 };
    const st_option_bytes options = draw_options(st_schedule_kinds[which]->fields, &wrong);
    begin();
    const st_schedule s = st_schedule_new(st_schedule_kinds[which], &options);
    judge("a schedule", s.kind, fails_if(wrong));
    return once_in(4) ? st_warmup_lr(.steps = draw(0, 9), .after = s) : s;
}

static bool meddled; /* a callback has set an error */

/* At any event: stops, sets an error, calls what a callback may call, or writes what it may only read. */
static void meddle(st_callback *self, st_run *run, st_event event)
{
    st_metrics score;
    (void)self, (void)event;
    switch (draw(0, 40)) {
    case 0: run->stop = true; break;
    case 1: meddled = true, st_error_set("a callback's error"); break;
    case 2: st_net_set_metadata(run->net, "note", "of a callback"); break;
    case 3: st_net_forward(run->net, run->net->x, ST_PREDICT); break;
    case 4: st_evaluate(run->net, draw_set(), run->options->loss, &score); break;
    case 5: st_net_build(run->net, run->net->batch + draw(-1, 2), 1); break;
    case 6: run->report.lr = draw(-1, 1); break;
    case 7: st_fill(st_net_gradients(run->net), (st_real)NAN); break;
    case 8: st_run_keep(run, draw(0, 1) ? "mine" : NULL, st_net_parameters(run->net)); break;
    case 9: run->report.batches = draw(-1, 1) * 100; break;
    case 10: run->report.batch = run->report.step = draw(-1, 1) * 1000; break;
    case 11: run->report.epochs = draw(-1, 3), run->report.epoch = draw(-1, 9); break;
    case 12: run->rank = draw(-1, 1) * 1000, run->loss = draw(0, 1) ? NAN : 0; break;
    default: break;
    }
}

static st_callback draw_callback(bool *wrong)
{
    static double lr;
    static FILE *nowhere;
    if (!nowhere) nowhere = fopen("/dev/null", "w");
    switch (draw(0, 13)) {
    case 0: return *wrong = true, st_early_stopping(.patience = -1);
    case 1: return *wrong = true, st_ema(.decay = 2);
    case 2: return *wrong = true, st_clip(.norm = -1);
    case 3: return *wrong = true, st_lr_finder(.lr = NULL);
    case 4: return st_early_stopping(.patience = 1);
    case 5: return st_ema(.decay = 0.5);
    case 6: return st_detect_anomaly();
    case 7: return st_lr_finder(.lr = &lr, .steps = 12);
    case 8: return (st_callback){ 0 };
    case 9: return st_clip(.norm = draw(0, 1), .value = 0.25);
    case 10: return st_progress(nowhere);
    case 11: return st_log(fuzz_path(draw(0, 1) ? "log.csv" : "log.jsonl"));
    case 12: return st_checkpoint(fuzz_path("checkpoint"), .every = draw(0, 2), .resume = draw(0, 1));
    default: return (st_callback){ "meddle", meddle };
    }
}

static void train(int i)
{
    net_slot *s = &nets[i];
    const st_dataset *d = draw_set();
    bool wrong_loss, wrong = false;
    st_train_result result;
    const st_loss loss = draw_loss(&wrong_loss);
    const st_schedule schedule = draw_schedule();
    begin_run();
    st_train_options o = { .epochs = once_in(12) ? -1 : draw(0, 2),
                           .batch = once_in(12) ? -1 : draw(0, 5),
                           .optim = optim,
                           .loss = loss,
                           .schedule = schedule };
    o.micro_batches = once_in(4) ? draw(-1, 4) : 0, o.steps_per_epoch = once_in(8) ? draw(-1, 12) : 0;
    o.drop_last = once_in(4), o.validation = once_in(3) ? draw_set() : NULL;
    if (once_in(6)) o.groups[0] = (st_param_group){ "*.bias", .frozen = true };
    if (once_in(12)) wrong = true, o.groups[0] = (st_param_group){ "nothing" };
    for (int k = draw(0, 3); k > 0; k--) o.callbacks[k] = draw_callback(&wrong);
    if (is_shared(i)) { /* it might be built again */
        st_error_clear();
        return;
    }
    meddled = false;
    const bool passed = st_train_run(s->n, d, o, &result) == 0;
    wrong = wrong || wrong_loss || !s->n || !d || !optim || s->of != NOBODY || o.epochs < 0 || o.batch < 0 ||
            o.micro_batches < 0 || o.steps_per_epoch < 0 || !st_shape_equal(d->x, s->n->input) ||
            (o.validation && !st_shape_equal(o.validation->x, s->n->input));
    const ptrdiff_t batch = wrong ? 0 : o.batch == 0 || o.batch > d->count ? d->count : o.batch;
    wrong = wrong || o.micro_batches > batch || o.steps_per_epoch > (d->count + batch - 1) / batch;
    fuzz_claim(!passed || !meddled, "a callback's error is the run's");
    judge("st_train", passed, wrong ? FAILS : EITHER);
    if (!s->n) return;
    s->batch = s->n->batch, s->images = 0, s->keeps = false, s->unsure = true;
    optim_numbers =
        optim && optim->states && !st_is_null(optim->state[0]) ? st_numel(optim->state[0]) : optim_numbers;
}

static void evaluate(int i)
{
    net_slot *s = &nets[i];
    const st_dataset *d = draw_set();
    bool wrong;
    st_loss l = draw_loss(&wrong);
    st_metrics score;
    begin_run();
    const bool fails = wrong || !s->batch || !d || !st_shape_equal(d->x, s->n->input);
    judge("st_evaluate", st_evaluate(s->n, d, l, &score) == 0, fails ? FAILS : EITHER);
    if (s->n) s->images = 0, s->keeps = false, s->unsure = true;
    begin_run();
    judge("st_top_k_accuracy", !isnan(st_top_k_accuracy(s->n, d, l, draw(0, 2))), fails ? FAILS : EITHER);
}

/* ---- programs ------------------------------------------------------------------------------- */

static void call_one(void)
{
    const int i = draw(0, NETS - 1);
    switch (draw(0, 19)) {
    case 0: new_net(i); break;
    case 1:
    case 2: build(i); break;
    case 3:
    case 4: forward(i); break;
    case 5: backward(i); break;
    case 6: predict(i); break;
    case 7: share(i, draw(0, NETS - 1)); break;
    case 8: describe(i); break;
    case 9: save(i); break;
    case 10: load(i); break;
    case 11: clear(i); break;
    case 12: new_optim(); break;
    case 13: step(i); break;
    case 14: new_set(); break;
    case 15: derive(); break;
    case 16: batch_of(); break;
    case 17: evaluate(i); break;
    default: train(i);
    }
}

static void feed(const uint8_t *input, size_t size)
{
    if (size > 1 << 12) return;
    at = input, end = input + size;
    saved = false;
    static const char *const written[] = { "net", "log.csv", "log.jsonl", "checkpoint" };
    for (int i = 0; i < 4; i++) remove(fuzz_path(written[i]));
    for (int i = 0; i < NETS; i++) nets[i] = (net_slot){ .of = NOBODY };
    while (at < end) {
        if (set_count > SETS - 2) drop_sets();
        call_one();
    }
    for (int i = 0; i < NETS; i++) drop_net(i);
    drop_sets();
    st_optim_free(optim);
    optim = NULL, optim_numbers = 0;
}

static void seed(void)
{
    uint8_t program[1000];
    uint32_t state = 1;
    for (int s = 0; s < 40; s++) {
        for (size_t i = 0; i < sizeof program; i++)
            program[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
        fuzz_seed(program, sizeof program);
    }
}

const fuzzer fuzz = { feed, seed };
