/* net_work.c: a whole network: steps of training, or inference, on one batch of random images. */
#include <stride.h>
#include "tests/bench/arrays.h"
#include "tests/bench/networks.h"
#include "tests/bench/work.h"

#include <stdlib.h>
#include <string.h>

typedef struct net_work {
    work base;
    st_net *n;
    st_optim *o;
    st_loss loss;
    st_tensor x, target, dy;
} net_work;

/* A small rate: however long a net trains on its one batch, the numbers stay as they are in earnest. */
static st_optim *new_optimizer(void)
{
    return st_sgd(.lr = 1e-3, .momentum = 0.9);
}

static void compute_gradients(net_work *own)
{
    st_net_zero_gradients(own->n);
    st_tensor y = st_net_forward(own->n, own->x, ST_TRAIN);
    st_loss_value(own->loss, y, own->target, own->dy);
    st_net_backward(own->n, own->dy, (st_tensor){ 0 });
}

static void train_step(void *w)
{
    net_work *own = w;
    compute_gradients(own);
    st_optim_step(own->o, own->o->lr, st_net_parameters(own->n), st_net_gradients(own->n));
}

static void infer(void *w)
{
    net_work *own = w;
    st_net_forward(own->n, own->x, ST_PREDICT);
}

/* Adds the changes of the parameters by a step of a new optimizer: at a rate of 16, which rounds little away,
 * 16 times their gradients. */
static void add_changes(net_work *own, arrays *to)
{
    st_tensor w = st_net_parameters(own->n), before = st_tensor_clone(w);
    st_optim_free(own->o);
    own->o = new_optimizer();
    st_optim_step(own->o, 16, w, st_net_gradients(own->n));
    st_add(w, -1, before);
    st_tensor_free(before);
    arrays_add_all(to, own->n->root, PARAMETERS);
}

/* In training the output, and what a step adds to the parameters; in inference the output. */
static int result(work *w, const char *pass)
{
    net_work *own = (net_work *)w;
    static arrays given, made;
    static double dropped[ARRAYS_MOST];
    given.count = made.count = 0;
    arrays_fill(own->n->root); /* training has changed them */
    arrays_add(&given, own->x);
    arrays_add(&given, own->target);
    arrays_add_all(&given, own->n->root, PARAMETERS);
    arrays_add_all(&given, own->n->root, STATES);
    if (arrays_write(&given, "given")) return -1;
    arrays_exchange_dropout(own->n->root, dropped);
    if (strcmp(pass, "train") == 0) compute_gradients(own);
    else infer(w);
    arrays_exchange_dropout(own->n->root, dropped);
    arrays_add(&made, own->n->y);
    if (strcmp(pass, "train") == 0) add_changes(own, &made);
    const int status = arrays_write(&made, "result");
    arrays_fill(own->n->root); /* they have become the changes */
    return status;
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

/* [N, K, ...] -> [N, ...]: a class for each image or pixel. */
static st_shape shape_of_classes(st_shape y)
{
    for (int axis = 1; axis + 1 < y.rank; axis++) y.n[axis] = y.n[axis + 1];
    y.rank--;
    return y;
}

/* Pixels of three channels or less are what is wanted by least squares, other outputs are logits. */
static int build(net_work *own, const char *name, ptrdiff_t batch)
{
    own->n = network_new(name);
    if (!own->n || st_net_build(own->n, batch, 1)) return -1;
    const st_shape output = own->n->output;
    const bool paints = output.rank == 3 && output.n[0] <= 3;
    own->loss = paints ? st_mse() : st_cross_entropy();
    own->o = new_optimizer();
    own->x = st_tensor_new(st_shape_with_batch(own->n->input, batch));
    own->dy = st_tensor_new(st_shape_with_batch(output, batch));
    own->target = st_tensor_new(paints ? own->dy.shape : shape_of_classes(own->dy.shape));
    if (st_error()) return -1;
    st_uniform(own->x, (st_random_key){ 1, 1 }, 0, 1);
    for (ptrdiff_t i = 0; i < st_numel(own->target); i++)
        st_data(own->target)[i] = (st_real)(i % (paints ? 2 : output.n[0]));
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
    own->base = (work){ .choose = choose, .result = result, .end = end };
    if (build(own, word[1], batch) == 0) return &own->base;
    end(&own->base);
    return NULL;
}
