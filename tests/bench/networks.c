/* networks.c: see networks.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/bench/networks.h"

#include "examples/stride/network.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const networks[] = { "lenet5", "example", "bnnet", "mlp", NULL };

st_net *network_new(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "tests/bench/networks/%.64s.net", name);
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, "examples/networks/%.64s.net", name);
    return network_read(path, (st_shape){ 0 });
}

/* The whole text is one layer; the parser may have put a flatten before it. */
st_layer *network_layer(const char *size, const char *text, st_shape *x)
{
    if (network_size(size, x)) return NULL;
    st_net *n = network_parse(text, st_shape_without_batch(*x));
    if (!n) return NULL;
    st_layer *l = st_layer_clone(n->root->children == 1 ? n->root->child[0] : n->root);
    st_net_free(n);
    return l;
}

/* Multiply-adds of one image: every element of the weight is used once for each place of the output, or of
 * the input where that is transposed. */
static void count_products(st_layer *l, const char *path, void *context)
{
    (void)path;
    double *all = context; /* and those of the first layer that has some */
    const bool transposed = strcmp(l->type->name, "conv_transpose2d") == 0,
               dense = strcmp(l->type->name, "dense") == 0;
    if (!transposed && !dense && strcmp(l->type->name, "conv2d") != 0) return;
    const st_shape s = transposed ? l->x : l->y;
    double places = (double)st_shape_numel(s, "network_flops") / (double)s.n[0];
    places /= (double)s.n[dense ? s.rank - 1 : 1];
    const double own = places * (double)st_shape_numel(l->param[0].shape, "network_flops");
    if (all[0] == 0) all[1] = own;
    all[0] += own;
}

double network_layer_flops(st_layer *l)
{
    double all[2] = { 0, 0 };
    st_layer_visit(l, count_products, all);
    return 2 * all[0];
}

double network_flops(const st_net *n, bool training)
{
    double all[2] = { 0, 0 };
    st_layer_visit(n->root, count_products, all);
    return 2 * (training ? 3 * all[0] - all[1] : all[0]);
}
