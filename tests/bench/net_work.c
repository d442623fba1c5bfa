/* net_work.c: a whole network: steps of training, or inference, on one batch of random images. */
#include "nn/stride.h"
#include "tests/bench/networks.h"
#include "tests/bench/work.h"

#include <stdlib.h>
#include <string.h>

typedef struct net_work {
    work base;
    net *n;
    optim *o;
    loss loss;
    tensor x, target, dy;
} net_work;

static void train_step(void *w)
{
    net_work *own = w;
    net_zero_gradients(own->n);
    tensor y = net_forward(own->n, own->x, NET_TRAIN);
    loss_value(own->loss, y, own->target, own->dy);
    net_backward(own->n, own->dy, (tensor){ 0 });
    optim_step(own->o, own->o->lr, net_parameters(own->n), net_gradients(own->n));
}

static void infer(void *w)
{
    net_work *own = w;
    net_forward(own->n, own->x, NET_PREDICT);
}

static int choose(work *w, const char *pass)
{
    if (strcmp(pass, "train") == 0) w->run = train_step;
    else if (strcmp(pass, "infer") == 0) w->run = infer;
    else return error_set("net: no pass is called %s", pass);
    return 0;
}

static void end(work *w)
{
    net_work *own = (net_work *)w;
    tensor_free(own->x);
    tensor_free(own->target);
    tensor_free(own->dy);
    optim_free(own->o);
    net_free(own->n);
    free(own);
}

/* A small rate: however long it trains on its one batch, the numbers stay as they are in earnest. */
static int build(net_work *own, const char *name, ptrdiff_t batch)
{
    own->loss = loss_cross_entropy(0);
    own->n = network_new(name);
    if (!own->n || net_build(own->n, batch, 1)) return -1;
    own->o = optim_sgd((sgd){ .lr = 1e-3, .momentum = 0.9 });
    own->x = tensor_new(shape_with_batch(own->n->input, batch));
    own->dy = tensor_new(shape_with_batch(own->n->output, batch));
    own->target = tensor_new(SHAPE(batch));
    if (error_text()) return -1;
    tensor_uniform(own->x, (random_key){ 1, 1 }, 0, 1);
    for (ptrdiff_t i = 0; i < batch; i++) *tensor_at(own->target, INDEX(i)) = (real)(i % own->n->output.n[0]);
    return 0;
}

work *work_of_net(int count, char **word)
{
    if (strcmp(word[0], "net") != 0) return NULL;
    if (count != 3) {
        error_set("net: %d words, expected a name and a batch", count - 1);
        return NULL;
    }
    long batch = work_number(word[2], 1, 65536);
    net_work *own = batch < 0 ? NULL : calloc(1, sizeof *own);
    if (!own) {
        error_set("net: no memory"); /* or the number's error, which came first */
        return NULL;
    }
    own->base = (work){ .choose = choose, .end = end };
    if (build(own, word[1], batch) == 0) return &own->base;
    end(&own->base);
    return NULL;
}
