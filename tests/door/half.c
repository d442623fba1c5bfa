/* half.c: one precision's half of a program that has both, in C and in C++; test_both.sh compiles it for
 * each, and calls it from both.c and from a program that has one half alone. */
#include <stride.h>
#include <stdio.h>
#include <string.h>

#ifdef STRIDE_DOUBLE
#define HALF(name) double_##name
#else
#define HALF(name) float_##name
#endif

#ifdef __cplusplus
#include "own.hh"
extern "C" {
#endif
void HALF(trains)(void);
void HALF(fails)(void);
int HALF(has_failed)(void);
#ifdef __cplusplus
}
#endif

/* Bits that only the right library computes. */
void HALF(trains)(void)
{
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 4, .kernel = { 5 }), st_relu(),
                           st_maxpool(.kernel = { 2 }), st_flatten(), st_dense(.out_features = 10));
    st_dataset *digits = st_digits(256, 1);
    st_optim *adam = st_adam(.lr = 0.003);
    st_metrics score;
    st_train(n, digits, .loss = st_cross_entropy(), .optim = adam, .seed = 1);
    st_evaluate(n, digits, st_cross_entropy(), &score);
    st_net_save(n, "half.safetensors");
    st_net *again = st_net_load("half.safetensors");
    printf("%s %zu loss %a, parameters %d, types %s, %s\n", ST_REAL_NAME,
           sizeof *st_data(st_net_parameters(n)), score.loss,
           memcmp(st_data(st_net_parameters(n)), st_data(st_net_parameters(again)),
                  sizeof(st_real) * (size_t)st_numel(st_net_parameters(n))),
           st_layer_types[0]->name, st_error() ? st_error() : "");
    st_net_free(n), st_net_free(again), st_dataset_free(digits), st_optim_free(adam);
#ifdef __cplusplus
    own_net owned = own_net_new();
    printf("%a\n", (double)*st_data(st_net_parameters(owned.get())));
#endif
}

void HALF(fails)(void)
{
    st_tensor_new(ST_SHAPE(-1));
}

int HALF(has_failed)(void)
{
    return st_error() != NULL;
}
