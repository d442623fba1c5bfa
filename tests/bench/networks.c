/* networks.c: see networks.h. */
#include "tests/bench/networks.h"

#include <string.h>

st_net *network_lenet5(void)
{
    return st_net_new(
        ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 }),   /**/
        st_relu(), st_maxpool(.kernel = { 2, 2 }), st_conv2d(.out_channels = 16, .kernel = { 5, 5 }), /**/
        st_relu(), st_maxpool(.kernel = { 2, 2 }), /* [N, 16, 5, 5] */
        st_flatten(),                              /**/
        st_dense(.out_features = 120), st_relu(), st_dense(.out_features = 84), st_relu(),
        st_dense(.out_features = 10));
}

st_net *network_example(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 32, .kernel = { 3, 3 }), st_relu(),
                      st_conv2d(.out_channels = 64, .kernel = { 3, 3 }), st_relu(),
                      st_maxpool(.kernel = { 2, 2 }), /* [N, 64, 12, 12] */
                      st_dropout(.p = 0.25), st_flatten(), st_dense(.out_features = 128), st_relu(),
                      st_dropout(.p = 0.5), st_dense(.out_features = 10));
}

/* Its bias would be taken off again by the normalisation that follows. */
static st_layer *conv3x3(int out_channels)
{
    return st_conv2d(.out_channels = out_channels, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true);
}

st_net *network_bnnet(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28), conv3x3(32), st_batchnorm(), st_relu(), /**/
                      conv3x3(32), st_batchnorm(), st_relu(),
                      st_maxpool(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }), conv3x3(64),
                      st_batchnorm(), st_relu(),              /* [N, 64, 14, 14] */
                      conv3x3(64), st_batchnorm(), st_relu(), /**/
                      st_avgpool(), st_flatten(), st_dense(.out_features = 10));
}

st_net *network_mlp(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28), st_flatten(), st_dense(.out_features = 512), st_relu(),
                      st_dense(.out_features = 512), st_relu(), st_dense(.out_features = 10));
}

const network networks[] = {
    { "lenet5", network_lenet5 },
    { "example", network_example },
    { "bnnet", network_bnnet },
    { "mlp", network_mlp },
    { 0 },
};

st_net *network_new(const char *name)
{
    for (const network *n = networks; n->name; n++)
        if (strcmp(n->name, name) == 0) return n->make();
    st_error_set("network_new: no network is called %s", name);
    return NULL;
}

/* Multiply-adds of one image: every element of the weight is used once for each place of the output. */
static double products(const st_layer *l)
{
    bool has_weight = strcmp(l->type->name, "conv2d") == 0 || strcmp(l->type->name, "dense") == 0;
    double places = 1;
    for (int axis = 2; axis < l->y.rank; axis++) places *= (double)l->y.n[axis];
    return has_weight ? places * (double)st_shape_numel(l->param[0].shape, "network_flops") : 0;
}

double network_flops(const st_net *n, bool training)
{
    double forward = 0, first = 0;
    for (int i = 0; i < n->root->children; i++) {
        double own = products(n->root->child[i]);
        if (forward == 0) first = own;
        forward += own;
    }
    return 2 * (training ? 3 * forward - first : forward);
}
