/* net_work.c: a whole network: steps of training, or inference, on one batch of random images. */
#include <stride.h>
#include "tests/bench/networks.h"
#include "tests/bench/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct net_work {
    work base;
    st_net *n;
    st_optim *o;
    st_loss loss;
    st_tensor x, target, dy;
} net_work;

static void train_step(void *w)
{
    net_work *own = w;
    st_net_zero_gradients(own->n);
    st_tensor y = st_net_forward(own->n, own->x, ST_TRAIN);
    st_loss_value(own->loss, y, own->target, own->dy);
    st_net_backward(own->n, own->dy, (st_tensor){ 0 });
    st_optim_step(own->o, own->o->lr, st_net_parameters(own->n), st_net_gradients(own->n));
}

static void infer(void *w)
{
    net_work *own = w;
    st_net_forward(own->n, own->x, ST_PREDICT);
}

/* For weights and images that every peer can make. */
static void tell(work *w)
{
    net_work *own = (net_work *)w;
    st_tensor x = st_tensor_new(own->x.shape);
    network_fill(own->n);
    for (ptrdiff_t i = 0; i < st_numel(x); i++) st_data(x)[i] = (st_real)(0.5 + pattern((size_t)i, 0));
    st_tensor y = st_net_forward(own->n, x, ST_PREDICT);
    double sum = 0;
    for (ptrdiff_t i = 0; i < st_numel(y); i++) sum += (double)st_data(y)[i] * pattern((size_t)i, 1);
    if (!st_error()) {
        printf("output %tdx%td %.9g", y.shape.n[0], y.shape.n[1], sum);
        for (ptrdiff_t k = 0; k < OUTPUTS; k++)
            printf(" %.9g", (double)st_data(y)[k * (st_numel(y) - 1) / (OUTPUTS - 1)]);
        printf("\n");
    }
    st_tensor_free(x);
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
