/* predict.c: a saved net reads digits.
 *
 *     predict save FILE     trains a small net on drawn digits and saves it
 *     predict load FILE     prints the class of 20 other digits, and the logits' digits in full */
#include "stride.h"

#include <stdio.h>
#include <string.h>

static st_net *trained(const st_dataset *digits)
{
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_conv2d(.out_channels = 4, .kernel = { 5 }), st_relu(),
                           st_maxpool(.kernel = { 2 }), st_flatten(), st_dense(.out_features = 10));
    st_optim *o = st_sgd(.lr = 0.05, .momentum = 0.9);
    st_train(n, digits, .epochs = 2, .batch = 32, .loss = st_cross_entropy(), .optim = o);
    st_optim_free(o);
    return n;
}

int main(int argc, char *argv[])
{
    const bool saves = argc > 2 && strcmp(argv[1], "save") == 0;
    if (argc < 3) return fputs("usage: predict save|load FILE\n", stderr), 2;
    st_dataset *digits = st_digits(saves ? 1000 : 20, saves ? 1 : 2);
    st_net *n = saves ? trained(digits) : st_net_load(argv[2]);
    if (saves) st_net_save(n, argv[2]);
    for (ptrdiff_t i = 0; !saves && !st_error() && i < 20; i++) {
        st_tensor x = st_tensor_new(ST_SHAPE(1, 1, 28, 28)), label = st_tensor_new(ST_SHAPE(1));
        ptrdiff_t class;
        st_dataset_batch(digits, NULL, i, 1, x, label);
        st_tensor y = st_net_forward(n, x, ST_PREDICT);
        st_argmax(&class, y, ST_AXES(1));
        printf("%d %d", (int)st_item(label), (int)class);
        for (int k = 0; k < 10; k++) printf(" %.17g", (double)st_data(y)[k]);
        printf("\n");
        st_tensor_free(x), st_tensor_free(label);
    }
    if (st_error()) fprintf(stderr, "predict: %s\n", st_error());
    const bool failed = st_error() != NULL;
    st_net_free(n), st_dataset_free(digits);
    return failed;
}
