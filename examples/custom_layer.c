/* custom_layer.c: a layer of your own: PReLU (He et al. 2015), written against layers/layer.h alone:
 * y[n, c, i] = x, or w[c] x where x is negative.
 *
 * It trains, saves, prints and is gradient-checked like any other. With --broken its backward pass has
 * an error, which the check must find. */
#include <stride.h>

#include <stdio.h>
#include <string.h>

static bool broken;

/* x [N, C, ...] as rows of one channel each: row r is of channel r % C. */
typedef struct rows {
    ptrdiff_t count, channels, length;
} rows;

static rows rows_of(st_tensor x)
{
    const ptrdiff_t count = x.shape.n[0] * x.shape.n[1];
    return (rows){ count, x.shape.n[1], st_numel(x) / count };
}

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    if (x.rank < 2) return st_layer_refuse(l, "the input is %s, expected [N, C, ...]", st_shape_text(x).text);
    *y = x;
    return st_layer_parameter(l, "weight", ST_SHAPE(x.n[1]), (st_init){ .constant = 0.25 }) ||
           st_layer_scratch(l, x);
}

/* The factors are indexed by the sign: a branch would often be predicted wrongly. */
static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const rows in = rows_of(x);
    st_real *out = st_data(y), *w = st_data(c->param[0]);
    st_copy(y, x); /* x may be any view; y, dy and dx are contiguous */
    for (ptrdiff_t r = 0; r < in.count; r++, out += in.length) {
        const st_real factor[] = { 1, w[r % in.channels] };
        for (ptrdiff_t i = 0; i < in.length; i++) out[i] *= factor[out[i] < 0];
    }
}

static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)y;
    const rows in = rows_of(x);
    st_real *out = st_data(dx), *g = st_data(dy), *w = st_data(c->param[0]);
    st_copy(dx, x);
    for (ptrdiff_t r = 0; r < in.count; r++, out += in.length, g += in.length) {
        const st_real factor[] = { 1, broken ? 1 : w[r % in.channels] };
        for (ptrdiff_t i = 0; i < in.length; i++) out[i] = g[i] * factor[out[i] < 0];
    }
}

static void gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)y;
    const rows in = rows_of(x);
    st_tensor copy = st_narrow(st_scratch(c, 0), 0, 0, c->images);
    st_real *from = st_data(copy), *g = st_data(dy), *dw = st_data(st_grad(c, 0));
    st_copy(copy, x);
    for (ptrdiff_t r = 0; r < in.count; r++, from += in.length, g += in.length) {
        st_real sum = 0;
        for (ptrdiff_t i = 0; i < in.length; i++) sum += (from[i] < 0 ? from[i] : 0) * g[i];
        dw[r % in.channels] += sum;
    }
}

static const st_layer_type prelu = {
    .name = "prelu", .plan = plan, .forward = forward, .backward = backward, .gradient = gradient
};

static st_layer *layer_prelu(void)
{
    return st_layer_new(&prelu, NULL, 0, NULL);
}

static int check(void)
{
    st_layer *l = layer_prelu();
    st_gradcheck_result r =
        st_gradcheck_layer(l, ST_SHAPE(2, 3, 4, 5), (st_gradcheck_options){ .report = stdout });
    printf("gradient check: %s\n\n", r.text);
    st_layer_free(l);
    return r.passed ? 0 : st_error_set("the gradient check failed: %s", r.text);
}

static int learn(void)
{
    /* clang-format off */
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28),
        st_conv2d(.out_channels = 8, .kernel = { 5, 5 }, .stride = { 2, 2 }),
        layer_prelu(),
        st_maxpool(.kernel = { 2, 2 }),
        st_flatten(),
        st_dense(.out_features = 10));
    /* clang-format on */
    st_dataset *digits = st_digits(5000, 1), *validation = st_digits(1000, 2);
    st_optim *o = st_adam(.lr = 0.003);
    st_train_result r = { 0 };
    if (n && digits && validation && o && st_net_summary(n, 64, stdout) == 0 && fflush(stdout) == 0)
        st_train(n, digits, .epochs = 3, .loss = st_cross_entropy(), .optim = o, .validation = validation,
                 .callbacks = { st_progress(stderr) }, .result = &r);
    if (!st_error()) {
        printf("\nvalidation accuracy=%.4f, the slopes it found:\n", r.validation.accuracy);
        st_print(stdout, st_net_find(n, "1.weight"));
        printf("\n");
    }
    st_net_free(n);
    st_dataset_free(digits);
    st_dataset_free(validation);
    st_optim_free(o);
    return st_error() ? -1 : 0;
}

int main(int argc, char **argv)
{
    bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    broken = argc == 2 && strcmp(argv[1], "--broken") == 0;
    if (argc > 1 && !broken) {
        fputs("usage: custom_layer [--broken]\n\nGradient-checks a layer of its own, then trains a net with "
              "it on drawn digits.\n--broken plants an error in its backward pass: the check must find it, "
              "status 1.\n",
              help ? stdout : stderr);
        if (!help) return 2;
    } else if (check() || learn()) fprintf(stderr, "custom_layer: %s\n", st_error());
    if (fflush(stdout)) perror("custom_layer: stdout");
    return st_error() || ferror(stdout) ? 1 : 0;
}
