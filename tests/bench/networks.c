/* networks.c: see networks.h. */
#include "tests/bench/networks.h"

#include <string.h>

net *network_lenet5(void)
{
    return net_new(SHAPE(1, 28, 28),
                   layer_conv2d((conv2d){ .out_channels = 6, .kernel = { 5, 5 }, .padding = { 2, 2 } }), /**/
                   layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
                   layer_conv2d((conv2d){ .out_channels = 16, .kernel = { 5, 5 } }), /**/
                   layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }),     /* [N, 16, 5, 5] */
                   layer_flatten(),                                                  /**/
                   layer_dense((dense){ .out_features = 120 }), layer_relu(),
                   layer_dense((dense){ .out_features = 84 }), layer_relu(),
                   layer_dense((dense){ .out_features = 10 }));
}

net *network_example(void)
{
    return net_new(SHAPE(1, 28, 28), layer_conv2d((conv2d){ .out_channels = 32, .kernel = { 3, 3 } }),
                   layer_relu(), layer_conv2d((conv2d){ .out_channels = 64, .kernel = { 3, 3 } }),
                   layer_relu(), layer_maxpool((maxpool){ .kernel = { 2, 2 } }), /* [N, 64, 12, 12] */
                   layer_dropout(0.25), layer_flatten(), layer_dense((dense){ .out_features = 128 }),
                   layer_relu(), layer_dropout(0.5), layer_dense((dense){ .out_features = 10 }));
}

/* Its bias would be taken off again by the normalisation that follows. */
static layer *conv3x3(int out_channels)
{
    return layer_conv2d(
        (conv2d){ .out_channels = out_channels, .kernel = { 3, 3 }, .padding = { 1, 1 }, .no_bias = true });
}

net *network_bnnet(void)
{
    return net_new(SHAPE(1, 28, 28), conv3x3(32), layer_batchnorm((batchnorm){ 0 }), layer_relu(), /**/
                   conv3x3(32), layer_batchnorm((batchnorm){ 0 }), layer_relu(),
                   layer_maxpool((maxpool){ .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } }),
                   conv3x3(64), layer_batchnorm((batchnorm){ 0 }), layer_relu(), /* [N, 64, 14, 14] */
                   conv3x3(64), layer_batchnorm((batchnorm){ 0 }), layer_relu(), /**/
                   layer_avgpool((avgpool){ 0 }), layer_flatten(),
                   layer_dense((dense){ .out_features = 10 }));
}

net *network_mlp(void)
{
    return net_new(SHAPE(1, 28, 28), layer_flatten(), layer_dense((dense){ .out_features = 512 }),
                   layer_relu(), layer_dense((dense){ .out_features = 512 }), layer_relu(),
                   layer_dense((dense){ .out_features = 10 }));
}

const network networks[] = {
    { "lenet5", network_lenet5 },
    { "example", network_example },
    { "bnnet", network_bnnet },
    { "mlp", network_mlp },
    { 0 },
};

net *network_new(const char *name)
{
    for (const network *n = networks; n->name; n++)
        if (strcmp(n->name, name) == 0) return n->make();
    error_set("network_new: no network is called %s", name);
    return NULL;
}

/* Multiply-adds of one image: every element of the weight is used once for each place of the output. */
static double products(const layer *l)
{
    bool has_weight = strcmp(l->type->name, "conv2d") == 0 || strcmp(l->type->name, "dense") == 0;
    double places = 1;
    for (int axis = 2; axis < l->y.rank; axis++) places *= (double)l->y.n[axis];
    return has_weight ? places * (double)shape_count(l->param[0].shape, "network_flops") : 0;
}

double network_flops(const net *n, bool training)
{
    double forward = 0, first = 0;
    for (int i = 0; i < n->root->children; i++) {
        double own = products(n->root->child[i]);
        if (forward == 0) first = own;
        forward += own;
    }
    return 2 * (training ? 3 * forward - first : forward);
}
