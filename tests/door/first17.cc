/* The README's first program in C++17, which has no designated initializers: the functions behind the macros take structs. */
#include <stride.h>
#include <cstdio>

int main()
{
    st_conv2d_options conv = {};
    st_maxpool_options pool = {};
    st_dense_options dense = {};
    st_adam_options adam_options = {};
    conv.out_channels = 8, conv.kernel[0] = 5;
    pool.kernel[0] = 2;
    dense.out_features = 10;
    adam_options.lr = 0.003;
    st_net *net = st_net_new(ST_SHAPE(1, 28, 28), st_conv2d_new(conv), st_relu(), st_maxpool_new(pool),
                             st_flatten(), st_dense_new(dense));
    st_dataset *digits = st_digits(600, 1), *unseen = st_digits(100, 2);
    st_optim *adam = st_adam_new(adam_options);
    st_metrics score = {};
    st_train_options options = {};

    options.epochs = 1;
    options.loss = st_cross_entropy_new({});
    options.optim = adam;
    st_train_run(net, digits, options, nullptr);
    st_evaluate(net, unseen, st_cross_entropy(), &score);
    st_net_save(net, "digits.safetensors");
    if (st_error()) std::fprintf(stderr, "%s\n", st_error());
    else std::printf("accuracy %.3f\n", score.accuracy);

    st_net_free(net), st_dataset_free(digits), st_dataset_free(unseen), st_optim_free(adam);
    return st_error() != nullptr;
}
