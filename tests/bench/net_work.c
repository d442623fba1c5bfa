/* net_work.c: a whole network: steps of training, or inference, on one batch of random images. */
#include <stride.h>
#include "tests/bench/networks.h"
#include "tests/bench/work.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct net_work {
    work base;
    st_net *n;
    st_optim *o;
    st_loss loss;
    st_tensor x, target, dy;
    st_net_mode training;
} net_work;

static void train_step(void *w)
{
    net_work *own = w;
    st_net_zero_gradients(own->n);
    st_tensor y = st_net_forward(own->n, own->x, own->training);
    st_loss_value(own->loss, y, own->target, own->dy);
    st_net_backward(own->n, own->dy, (st_tensor){ 0 });
    st_optim_step(own->o, own->o->lr, st_net_parameters(own->n), st_net_gradients(own->n));
}

static void infer(void *w)
{
    net_work *own = w;
    st_net_forward(own->n, own->x, ST_PREDICT);
}

static void tell_output(net_work *own)
{
    char shape[64];
    st_tensor y = st_net_forward(own->n, own->x, ST_PREDICT);
    if (st_error()) return;
    snprintf(shape, sizeof shape, "%tdx%td", y.shape.n[0], y.shape.n[1]);
    outline_print(shape, st_data(y), (size_t)st_numel(y));
}

/* What a step adds to the parameters, which is 16 times their gradients. */
static void tell_step(net_work *own)
{
    char shape[64];
    st_tensor w = st_net_parameters(own->n), before = st_tensor_new(w.shape);
    st_optim_free(own->o);
    own->o = st_sgd(.lr = 16, .momentum = 0.9);
    st_copy(before, w);
    train_step(own);
    st_add(w, -1, before);
    snprintf(shape, sizeof shape, "%td", st_numel(w));
    if (!st_error()) outline_print(shape, st_data(w), (size_t)st_numel(w));
    st_tensor_free(before);
}

static bool drops(const st_net *n)
{
    for (int i = 0; i < n->root->children; i++)
        if (strcmp(n->root->child[i]->type->name, "dropout") == 0) return true;
    return false;
}

/* For weights and images that every peer can make. A net with dropout, which is random, trains without it. */
static void tell(work *w)
{
    net_work *own = (net_work *)w;
    network_fill(own->n);
    if (drops(own->n)) own->training = ST_EVAL;
    for (ptrdiff_t i = 0; i < st_numel(own->x); i++)
        st_data(own->x)[i] = (st_real)(0.5 + pattern((size_t)i, 0));
    if (own->base.run == infer) tell_output(own);
    else tell_step(own);
}

static int choose(work *w, const char *pass)
{
    if (strcmp(pass, "train") == 0) w->run = train_step;
    else if (strcmp(pass, "infer") == 0) w->run = infer;
    else return st_error_set("net: no pass is called %s", pass);
    return 0;
}

static void end(work *w)
{
    net_work *own = (net_work *)w;
    st_tensor_free(own->x);
    st_tensor_free(own->target);
    st_tensor_free(own->dy);
    st_optim_free(own->o);
    st_net_free(own->n);
    free(own);
}

/* A small rate: however long it trains on its one batch, the numbers stay as they are in earnest. */
static int build(net_work *own, const char *name, ptrdiff_t batch)
{
    own->training = ST_TRAIN;
    own->loss = st_cross_entropy();
    own->n = network_new(name);
    if (!own->n || st_net_build(own->n, batch, 1)) return -1;
    own->o = st_sgd(.lr = 1e-3, .momentum = 0.9);
    own->x = st_tensor_new(st_shape_with_batch(own->n->input, batch));
    own->dy = st_tensor_new(st_shape_with_batch(own->n->output, batch));
    own->target = st_tensor_new(ST_SHAPE(batch));
    if (st_error()) return -1;
    st_uniform(own->x, (st_random_key){ 1, 1 }, 0, 1);
    for (ptrdiff_t i = 0; i < batch; i++)
        *st_at(own->target, ST_INDEX(i)) = (st_real)(i % own->n->output.n[0]);
    return 0;
}

work *work_of_net(int count, char **word)
{
    if (strcmp(word[0], "net") != 0) return NULL;
    if (count != 3) {
        st_error_set("net: %d words, expected a name and a batch", count - 1);
        return NULL;
    }
    long batch = work_number(word[2], 1, 65536);
    net_work *own = batch < 0 ? NULL : calloc(1, sizeof *own);
    if (!own) {
        st_error_set("net: no memory"); /* or the number's error, which came first */
        return NULL;
    }
    own->base = (work){ .choose = choose, .tell = tell, .end = end };
    if (build(own, word[1], batch) == 0) return &own->base;
    end(&own->base);
    return NULL;
}
