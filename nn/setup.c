/* setup.c: before the first step: a run's options, checked, and its memory. */
#include "nn/optim_impl.h"
#include "nn/train_impl.h"
#include "layers/layer_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"

#include <stdlib.h>

__attribute__((weak)) optim_grouping *optim_groups_by_name;

/* ---- options ------------------------------------------------------------------------------------------- */

const st_field train_fields[] = {
    { ST_FIELD(INT, st_train_options, epochs), .fallback = 1, .least = 1 },
    { ST_FIELD(INT, st_train_options, batch), .fallback = 64, .least = 1 },
    { ST_FIELD(INT, st_train_options, steps_per_epoch) },
    { ST_FIELD(INT, st_train_options, micro_batches) },
    { ST_FIELD(BOOL, st_train_options, keep_order) },
    { ST_FIELD(BOOL, st_train_options, drop_last) },
    { 0 },
};

int train_groups(const st_train_options *o)
{
    int count = 0;
    while (count < ST_MAX_GROUPS && o->groups[count].names) count++;
    return count;
}

static int plan_batches(trainer *t)
{
    st_train_options *o = &t->options;
    const ptrdiff_t count = t->data->count;
    if (o->drop_last && o->batch > count)
        return st_error_set("train: drop_last leaves nothing of %td samples in batches of %d", count,
                            o->batch);
    o->batch = (int)smallest(o->batch, count);
    const long most = (long)(o->drop_last ? count / o->batch : ceil_div(count, o->batch));
    if (o->steps_per_epoch > most)
        return st_error_set(
            "train: steps_per_epoch is %d, expected 1 to %ld for %td samples in batches of %d",
            o->steps_per_epoch, most, count, o->batch);
    t->run->report.batches = o->steps_per_epoch > 0 ? o->steps_per_epoch : most;
    if (t->parts) return t->parts->plan(t);
    if (o->micro_batches > 1 || o->ranks)
        return st_error_set(
            "train: micro_batches is %d, expected 1 and no ranks: this library is without nn/ranks/",
            o->micro_batches);
    o->micro_batches = 1;
    return 0;
}

int train_check_options(trainer *t)
{
    st_train_options *o = &t->options;
    st_run *run = t->run;
    for (st_callback *c = o->callbacks; c < o->callbacks + ST_MAX_CALLBACKS; c++)
        if (c->context) c->memory = 0; /* the caller's, which is not freed */
    if (st_error()) return -1;
    if (!run->net) return st_error_set("train: the net is NULL");
    if (train_fits("train", run->net, t->data, "training") ||
        (o->validation && train_fits("train", run->net, o->validation, "validation")))
        return -1;
    if (o->validation && !st_shape_equal(o->validation->target, t->data->target))
        return st_error_set("train: the validation set has targets %s, the training set %s",
                            st_shape_text(o->validation->target).text, st_shape_text(t->data->target).text);
    if (!o->loss.kind) return st_error_set("train: the loss is missing");
    if (!o->optim) return st_error_set("train: the optimizer is missing");
    for (st_callback *c = o->callbacks; c < o->callbacks + ST_MAX_CALLBACKS; c++) {
        if (c->call && options_reach(c->name, c->fields, sizeof c->options)) return -1;
        if (c->call && st_options_resolve(c->name, c->fields, &c->options)) return -1;
    }
    if (st_options_resolve("train", train_fields, o) || plan_batches(t)) return -1;
    run->report.epochs = o->epochs;
    run->report.steps = run->report.batches * o->epochs;
    run->report.lr = o->optim->lr;
    return 0;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

int train_allocate(trainer *t)
{
    st_train_options *o = &t->options;
    st_net *n = t->run->net;
    const ptrdiff_t images = ceil_div(o->batch, o->micro_batches);
    if (n->batch < images && st_net_build(n, images, o->seed)) return -1;
    if (st_is_null(st_net_gradients(n)))
        return st_error_set("train: the net shares its parameters with another, and has no gradients");
    if (train_batches_new(&t->batches, "train", n, t->data, images)) return -1;
    t->validated = t->batches;
    t->validated.who = "train: the validation set", t->validated.data = o->validation;
    if (!o->keep_order && !(t->batches.order = array_new("train", t->data->count, sizeof(ptrdiff_t))))
        return -1;
    for (st_callback *c = o->callbacks; c < o->callbacks + ST_MAX_CALLBACKS; c++)
        if (c->memory > 0 && !(c->context = array_new(c->name, 1, c->memory))) return -1;
    const int groups = train_groups(o);
    if (groups > 0 && !optim_groups_by_name)
        return st_error_set("train: groups of parameters are given: this library is without nn/groups/");
    if (groups > 0 && optim_groups_by_name(o->optim, n, groups, o->groups)) return -1;
    t->grouped = groups > 0;
    return st_optim_build(o->optim, st_numel(st_net_parameters(n)));
}

void train_release(trainer *t)
{
    if (t->parts) t->parts->end(t);
    if (t->grouped) optim_groups_by_name(t->run->optim, t->run->net, 0, NULL);
    for (st_callback *c = t->options.callbacks; c < t->options.callbacks + ST_MAX_CALLBACKS; c++)
        if (c->memory > 0) free(c->context);
    train_batches_free(&t->batches);
    free(t->kept);
}
