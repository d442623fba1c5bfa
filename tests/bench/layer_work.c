/* layer_work.c: one layer, and one of its passes at a time.
 *
 * forward   y backward  dx alone, and gradient  the parameters' gradients alone, each by its own hook both
 * in one call, as in training
 *
 * Each is run by the library as it would be in a net. st_layer_backward with a null dx runs `gradient`
 * alone, and with the layer's parameters frozen `backward` alone. */
#include <stride.h>
#include "tests/bench/arrays.h"
#include "tests/bench/networks.h"
#include "tests/bench/work.h"

#include <stdlib.h>
#include <string.h>

typedef struct layer_work {
    work base;
    st_layer *l;
    st_tensor x, y, dy, dx;
    bool frozen; /* its parameters are */
} layer_work;

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

static bool has_parameters(const layer_work *own)
{
    return st_numel(st_layer_parameters(own->l)) > 0;
}

static int choose(work *w, const char *pass)
{
    layer_work *own = (layer_work *)w;
    own->frozen = strcmp(pass, "backward") == 0;
    for (int i = 0; i < own->l->params; i++)
        if (st_layer_freeze(own->l, i, own->frozen)) return -1;
    if (strcmp(pass, "forward") == 0) own->base.run = forward;
    else if (strcmp(pass, "gradient") == 0 && has_parameters(own)) own->base.run = gradient;
    else if (strcmp(pass, "both") == 0 || own->frozen) own->base.run = backward;
    else return st_error_set("%s: no pass is called %s", own->l->type->name, pass);
    forward(w); /* what backward and gradient follow */
    return st_error() ? -1 : 0;
}

static int result(work *w, const char *pass)
{
    layer_work *own = (layer_work *)w;
    static arrays given, made;
    static double dropped[ARRAYS_MOST];
    given.count = made.count = 0;
    arrays_add(&given, own->x);
    arrays_add(&given, own->dy);
    arrays_add_all(&given, own->l, PARAMETERS);
    arrays_add_all(&given, own->l, STATES);
    if (arrays_write(&given, "given") || choose(w, pass)) return -1;
    arrays_exchange_dropout(own->l, dropped);
    st_fill(st_layer_gradients(own->l), 0);
    forward(w);
    own->base.run(w);
    arrays_exchange_dropout(own->l, dropped);
    if (own->base.run == forward) arrays_add(&made, own->y);
    if (own->base.run == backward) arrays_add(&made, own->dx);
    if (own->base.run != forward && !own->frozen) arrays_add_all(&made, own->l, GRADIENTS);
    return arrays_write(&made, "result");
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

/* Powers of what is negative are none in PyTorch. */
static int build(layer_work *own, st_shape x)
{
    st_shape y;
    if (st_layer_plan(own->l, x, &y) || st_layer_build(own->l, x, 1)) return -1;
    own->x = st_tensor_new(x);
    own->dx = st_tensor_new(x);
    own->y = st_tensor_new(y);
    own->dy = st_tensor_new(y);
    if (st_error()) return -1;
    const bool positive = strcmp(own->l->type->name, "lppool") == 0;
    st_uniform(own->x, (st_random_key){ 1, 1 }, positive ? (st_real)0.1 : -1, 1);
    st_uniform(own->dy, (st_random_key){ 1, 2 }, -1, 1);
    arrays_fill(own->l);
    st_layer_mode(own->l, true, 1, 0);
    return 0;
}

work *work_of_layer(int count, char **word)
{
    if (strcmp(word[0], "layer") != 0) return NULL;
    if (count != 3) {
        st_error_set("layer: %d words, expected a size and a text", count - 1);
        return NULL;
    }
    st_shape x;
    layer_work *own = calloc(1, sizeof *own);
    if (!own) {
        st_error_set("layer: no memory");
        return NULL;
    }
    own->base = (work){ .choose = choose, .result = result, .end = end };
    own->l = network_layer(word[1], word[2], &x);
    if (own->l && build(own, x) == 0) return &own->base;
    end(&own->base);
    return NULL;
}
