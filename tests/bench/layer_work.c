/* layer_work.c: one layer, and one of its passes at a time.
 *
 * A pass is a hook of the layer's type, run by the library as it would be in a net. st_layer_backward with a
 * null dx runs `gradient` alone. `backward` alone is run through a copy of the type that has no gradient
 * hook: the layer is built with its own type, so that it owns the same memory and parameters, and points to
 * the copy while that pass is measured. */
#include <stride.h>
#include "tests/bench/outline.h"
#include "tests/bench/work.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 8 };

typedef struct layer_work {
    work base;
    st_layer *l;
    const st_layer_type *type;
    st_layer_type without_gradient;
    st_tensor x, y, dy, dx;
    long size[SIZES];
} layer_work;

/* ---- kinds --------------------------------------------------------------------------------------- */

/* Windows: the numbers from s[i] on are kernel, stride and padding, alike for both axes. */
#define WINDOWS(i)                                                                                           \
    .kernel = { (int)s[i], (int)s[i] }, .stride = { (int)s[i + 1], (int)s[i + 1] },                          \
    .padding = { (int)s[i + 2], (int)s[i + 2] }

#define MAKE(name, layer)                                                                                    \
    static st_layer *make_##name(const long *s)                                                              \
    {                                                                                                        \
        (void)s;                                                                                             \
        return layer;                                                                                        \
    }
MAKE(conv, st_conv2d(.out_channels = (int)s[4], WINDOWS(5)))
MAKE(maxpool, st_maxpool(WINDOWS(4)))
MAKE(avgpool, st_avgpool(WINDOWS(4)))
MAKE(dense, st_dense(.out_features = (int)s[2]))
MAKE(batchnorm, st_batchnorm())
MAKE(layernorm, st_layernorm())
MAKE(relu, st_relu())
MAKE(gelu, st_gelu())
MAKE(sigmoid, st_sigmoid())
MAKE(softmax, st_softmax())
MAKE(dropout, st_dropout(.p = 0.5))

/* Numbers after the name: first those of x's shape. */
static const struct kind {
    const char *name;
    int rank, numbers;
    st_layer *(*make)(const long *size);
} kinds[] = {
    { "conv", 4, 8, make_conv },           { "maxpool", 4, 7, make_maxpool },
    { "avgpool", 4, 7, make_avgpool },     { "dense", 2, 3, make_dense },
    { "batchnorm", 4, 4, make_batchnorm }, { "layernorm", 2, 2, make_layernorm },
    { "relu", 4, 4, make_relu },           { "gelu", 4, 4, make_gelu },
    { "sigmoid", 4, 4, make_sigmoid },     { "softmax", 2, 2, make_softmax },
    { "dropout", 4, 4, make_dropout },     { 0 },
};

static const struct kind *kind_of(const char *name)
{
    const struct kind *k = kinds;
    while (k->name && strcmp(k->name, name) != 0) k++;
    return k->name ? k : NULL;
}

/* ---- passes -------------------------------------------------------------------------------------- */

static void forward(void *w)
{
    layer_work *own = w;
    st_layer_forward(own->l, own->x, own->y);
}

static void backward(void *w)
{
    layer_work *own = w;
    st_layer_backward(own->l, own->x, own->y, own->dy, own->dx);
}

static void gradient(void *w)
{
    layer_work *own = w;
    st_layer_backward(own->l, own->x, own->y, own->dy, (st_tensor){ 0 });
}

static int choose(work *w, const char *pass)
{
    layer_work *own = (layer_work *)w;
    own->l->type = own->type;
    if (strcmp(pass, "forward") == 0) own->base.run = forward;
    else if (strcmp(pass, "gradient") == 0 && own->l->params > 0) own->base.run = gradient;
    else if (strcmp(pass, "backward") == 0) {
        own->base.run = backward;
        own->l->type = &own->without_gradient;
    } else return st_error_set("%s: no pass is called %s", own->type->name, pass);
    forward(w); /* what backward and gradient follow */
    return st_error() ? -1 : 0;
}

static void fill(st_tensor t, int k, double scale)
{
    for (ptrdiff_t i = 0; i < st_numel(t); i++) st_data(t)[i] = (st_real)(pattern((size_t)i, k) * scale);
}

static void print_tensor(st_tensor t)
{
    char shape[64];
    int at = 0;
    for (int i = 0; i < t.shape.rank; i++)
        at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%td", i ? "x" : "", t.shape.n[i]);
    outline_print(shape, st_data(t), (size_t)st_numel(t));
}

static void print_gradients(const st_layer *l)
{
    ptrdiff_t count = 0, at = 0;
    for (int k = 0; k < l->params; k++) count += st_numel(l->grad[k]);
    st_tensor all = st_tensor_new(ST_SHAPE(count));
    for (int k = 0; k < l->params; k++) {
        const ptrdiff_t own = st_numel(l->grad[k]);
        st_copy(st_narrow(all, 0, at, own), st_reshape(l->grad[k], ST_SHAPE(own)));
        at += own;
    }
    if (!st_error()) print_tensor(all);
    st_tensor_free(all);
}

/* x is 2 pattern(i, 0) and dy is 2 pattern(i, 2); weights and biases are networks' (networks.h), but for
 * norms, which keep a weight of 1. */
static void tell(work *w)
{
    layer_work *own = (layer_work *)w;
    const bool weighs = own->l->params > 0 && own->l->param[0].shape.rank > 1;
    fill(own->x, 0, 2), fill(own->dy, 2, 2);
    for (int k = 0; k < own->l->params; k++) {
        st_tensor p = own->l->param[k];
        if (weighs) fill(p, k, 2 / sqrt((double)(st_numel(p) / p.shape.n[0])));
        st_fill(own->l->grad[k], 0);
    }
    forward(w);
    if (own->base.run != forward) own->base.run(w);
    if (st_error()) return;
    if (own->base.run == gradient) print_gradients(own->l);
    else print_tensor(own->base.run == backward ? own->dx : own->y);
}

static void end(work *w)
{
    layer_work *own = (layer_work *)w;
    st_tensor_free(own->x);
    st_tensor_free(own->y);
    st_tensor_free(own->dy);
    st_tensor_free(own->dx);
    st_layer_free(own->l);
    free(own);
}

/* ---- making -------------------------------------------------------------------------------------- */

static int build(layer_work *own, const struct kind *k)
{
    st_shape x = { .rank = k->rank }, y;
    for (int i = 0; i < k->rank; i++) x.n[i] = own->size[i];
    own->l = k->make(own->size);
    if (!own->l || st_layer_plan(own->l, x, &y) || st_layer_build(own->l, x, 1)) return -1;
    own->type = own->l->type;
    own->without_gradient = *own->type;
    own->without_gradient.gradient = NULL;
    own->x = st_tensor_new(x);
    own->dx = st_tensor_new(x);
    own->y = st_tensor_new(y);
    own->dy = st_tensor_new(y);
    if (st_error()) return -1;
    st_uniform(own->x, (st_random_key){ 1, 1 }, -1, 1);
    st_uniform(own->dy, (st_random_key){ 1, 2 }, -1, 1);
    st_layer_mode(own->l, true, 1, 0);
    return 0;
}

work *work_of_layer(int count, char **word)
{
    const struct kind *k = kind_of(word[0]);
    if (!k) return NULL;
    if (count != 1 + k->numbers) {
        st_error_set("%s: %d numbers, expected %d", k->name, count - 1, k->numbers);
        return NULL;
    }
    layer_work *own = calloc(1, sizeof *own);
    if (!own) {
        st_error_set("%s: no memory", k->name);
        return NULL;
    }
    const bool random = k->make == make_dropout;
    own->base = (work){ .choose = choose, .tell = random ? NULL : tell, .end = end };
    for (int i = 0; i < k->numbers; i++)
        if ((own->size[i] = work_number(word[1 + i], 0, 1 << 20)) < 0) goto failed;
    if (build(own, k) == 0) return &own->base;
failed:
    end(&own->base);
    return NULL;
}
