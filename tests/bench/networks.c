/* networks.c: see networks.h. */
#include "tests/bench/networks.h"

#include "examples/stride/network.h"

#include <math.h>
#include <string.h>

const char *const networks[] = { "lenet5", "example", "bnnet", "mlp", NULL };

st_net *network_new(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "examples/networks/%.32s.net", name);
    return network_read(path, (st_shape){ 0 });
}

static void fill(const st_net_tensor *t, void *context)
{
    int *parameters = context;
    const char *dot = strrchr(t->name, '.');
    if (st_is_null(t->gradient)) { /* of a batchnorm that may have been trained: as new */
        st_fill(t->value, dot && strcmp(dot, ".running_mean") == 0 ? 0 : 1);
        return;
    }
    const ptrdiff_t count = st_numel(t->value);
    const double scale = 2 / sqrt((double)(count / t->value.shape.n[0]));
    for (ptrdiff_t i = 0; i < count; i++)
        st_data(t->value)[i] = (st_real)(pattern((size_t)i, *parameters) * scale);
    ++*parameters;
}

void network_fill(st_net *n)
{
    int parameters = 0;
    st_net_visit(n, fill, &parameters);
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
