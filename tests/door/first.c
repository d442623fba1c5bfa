#include <stride.h>
#include <stdio.h>

int main(void)
{
    st_net *net = st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 8, .kernel = { 5 }), st_relu(),
                             st_maxpool(.kernel = { 2 }), st_flatten(), st_dense(.out_features = 10));
    st_dataset *digits = st_digits(600, 1), *unseen = st_digits(100, 2);
    st_optim *adam = st_adam(.lr = 0.003);
    st_metrics score = { 0 };

    st_train(net, digits, .epochs = 1, .loss = st_cross_entropy(), .optim = adam);
    st_evaluate(net, unseen, st_cross_entropy(), &score);
    st_net_save(net, "digits.safetensors");
    if (st_error()) fprintf(stderr, "%s\n", st_error());
    else printf("accuracy %.3f\n", score.accuracy);

    st_net_free(net), st_dataset_free(digits), st_dataset_free(unseen), st_optim_free(adam);
    return st_error() != NULL;
}
