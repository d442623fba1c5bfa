/* custom_layer.c: a layer of your own: PReLU (He et al. 2015), written against layers/layer.h alone:
 * y[n, c, i] = x, or w[c] x where x is negative.
 *
 * It trains, saves, prints and is gradient-checked like any other. With --broken its backward pass has
 * an error, which the check must find. */
#include "nn/stride.h"

#include <stdio.h>
#include <string.h>

static bool broken;

static ptrdiff_t channel(tensor x, ptrdiff_t i) /* of element i of a contiguous [N, C, ...] */
{
    return i / (tensor_count(x) / x.shape.n[0] / x.shape.n[1]) % x.shape.n[1];
}

static int plan(layer *l, shape x, shape *y)
{
    *y = x;
    return layer_parameter(l, "weight", SHAPE(x.n[1]), (layer_init){ .constant = 0.25 }) ||
           layer_scratch(l, x);
}

static void forward(const st_call *c, tensor x, tensor y)
{
    real *out = tensor_data(y), *w = tensor_data(c->param[0]);
    tensor_copy(y, x); /* x may be any view; y, dy and dx are contiguous */
    for (ptrdiff_t i = 0; i < tensor_count(y); i++) out[i] *= out[i] < 0 ? w[channel(y, i)] : 1;
}

static void backward(const st_call *c, tensor x, tensor y, tensor dy, tensor dx)
{
    (void)y;
    real *out = tensor_data(dx), *w = tensor_data(c->param[0]);
    tensor_copy(dx, x);
    for (ptrdiff_t i = 0; i < tensor_count(dx); i++)
        out[i] = tensor_data(dy)[i] * (out[i] < 0 && !broken ? w[channel(dx, i)] : 1);
}

static void gradient(const st_call *c, tensor x, tensor y, tensor dy)
{
    (void)y;
    tensor in = tensor_narrow(st_scratch(c, 0), 0, 0, x.shape.n[0]);
    tensor_copy(in, x);
    for (ptrdiff_t i = 0; i < tensor_count(in); i++)
        if (tensor_data(in)[i] < 0)
            tensor_data(st_grad(c, 0))[channel(in, i)] += tensor_data(in)[i] * tensor_data(dy)[i];
}

static const layer_type prelu = {
    .name = "prelu", .plan = plan, .forward = forward, .backward = backward, .gradient = gradient
};

static layer *layer_prelu(void)
{
    return layer_new(&prelu, NULL, 0, NULL);
}

static int check(void)
{
    layer *l = layer_prelu();
    gradcheck_result r = gradcheck_layer(l, SHAPE(2, 3, 4, 5), (gradcheck){ .report = stdout });
    printf("gradient check: %s\n\n", r.text);
    layer_free(l);
    return r.passed ? 0 : error_set("the gradient check failed: %s", r.text);
}

static int learn(void)
{
    /* clang-format off */
    net *n = net_new(SHAPE(1, 28, 28),
        layer_conv2d((conv2d){ .out_channels = 8, .kernel = { 5, 5 }, .stride = { 2, 2 } }),
        layer_prelu(),
        layer_maxpool((maxpool){ .kernel = { 2, 2 } }),
        layer_flatten(),
        layer_dense((dense){ .out_features = 10 }));
    /* clang-format on */
    data *digits = digits_new(10000, 1), *validation = digits_new(2000, 2);
    optim *o = optim_adam((adam){ .lr = 0.003 });
    train_result r = { 0 };
    if (n && digits && validation && o && net_summary(n, 64, stdout) == 0 && fflush(stdout) == 0)
        train_run(n, digits,
                  (train){ .epochs = 3,
                           .loss = loss_cross_entropy(0),
                           .optim = o,
                           .validation = validation,
                           .callbacks = { callback_progress(stderr) } },
                  &r);
    if (!error_text()) {
        printf("\nvalidation accuracy=%.4f, the slopes it found:\n", r.validation.accuracy);
        tensor_print(stdout, net_find(n, "1.weight"));
        printf("\n");
    }
    net_free(n);
    data_free(digits);
    data_free(validation);
    optim_free(o);
    return error_text() ? -1 : 0;
}

int main(int argc, char **argv)
{
    bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    broken = argc == 2 && strcmp(argv[1], "--broken") == 0;
    if (argc > 1 && !broken) {
        fputs("usage: custom_layer [--broken]\n\nGradient-checks a layer of its own, then trains a net with "
              "it on "
              "drawn digits.\n--broken plants an error in its backward pass: the check must find it, status "
              "1.\n",
              help ? stdout : stderr);
        if (!help) return 2;
    } else if (check() || learn()) fprintf(stderr, "custom_layer: %s\n", error_text());
    if (fflush(stdout)) perror("custom_layer: stdout");
    return error_text() || ferror(stdout) ? 1 : 0;
}
