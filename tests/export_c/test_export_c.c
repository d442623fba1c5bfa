/* test_export_c.c: nets written as C compile without a warning and give what the reference engine gives.
 *
 * Oracles: the reference engine, to 1e-6 of the greatest output; compilers, with their warnings as errors; for the
 * workspace, what is in use at once. STRIDE_C_CHECK runs it in full, for minutes: every layer, 200 random nets and the
 * trained net of MNIST's. */
#define _XOPEN_SOURCE 700
#include "tests/support.h"

#include "examples/stride/mnist.h"
#include <stride.h>
#include "tests/onnx/samples.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[512];

static bool in_full(void)
{
    const char *full = getenv("STRIDE_C_CHECK");
    return full && *full;
}

static int make_folder(void **state)
{
    const char *given = getenv("STRIDE_TEST_TMP");
    snprintf(folder, sizeof folder, "%s/export_c-XXXXXX", given ? given : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

/* Runs a command in the folder, "" the shell's: 0 where it succeeds. */
static int shell(const char *format, ...)
{
    char command[2048];
    int begun = snprintf(command, sizeof command, "cd '%s' && ", folder);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + begun, sizeof command - (size_t)begun, format, arguments);
    va_end(arguments);
    return system(command);
}

#define STRICT "-Wall -Wextra -pedantic -Werror -fPIC"

/* ---- nets and what they give ---------------------------------------------------------------------------- */

enum { MOST_NETS = 400 };

/* Nets that are compiled together: as many dlopens as compilers would take minutes more. */
typedef struct batch {
    int count, refused;
    char title[MOST_NETS][96];
    st_tensor x[MOST_NETS], y[MOST_NETS];
    double worst;
} batch;

static const char *source_of(int i)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/net%d.c", folder, i);
    return path;
}

static void add_net(batch *b, const char *title, st_net *n, st_tensor x)
{
    char name[32];
    int i = b->count++;
    assert_in_range(i, 0, MOST_NETS - 1);
    snprintf(b->title[i], sizeof b->title[i], "%s", title);
    snprintf(name, sizeof name, "net%d", i);
    about("%s", title);
    if (st_net_export_c(n, source_of(i), (st_export_c_options){ .name = name }))
        print_error("%s\n", st_error());
    assert_null(st_error());
    b->x[i] = x;
    b->y[i] = st_tensor_new(st_shape_with_batch(n->output, x.shape.n[0]));
    assert_int_equal(st_net_predict(n, x, b->y[i]), 0);
    st_net_free(n);
}

typedef void predict_function(const float input[], float output[]);

/* The greatest difference, as a part of the greatest output. */
static double difference(predict_function *predict, st_tensor x, st_tensor y)
{
    ptrdiff_t inputs = st_numel(x) / x.shape.n[0], outputs = st_numel(y) / y.shape.n[0];
    float *in = malloc((size_t)inputs * sizeof *in), *out = malloc((size_t)outputs * sizeof *out);
    double most = 0, worst = 0;
    for (ptrdiff_t i = 0; i < x.shape.n[0]; i++) {
        for (ptrdiff_t k = 0; k < inputs; k++) in[k] = (float)st_data(x)[i * inputs + k];
        predict(in, out);
        for (ptrdiff_t k = 0; k < outputs; k++) {
            double expected = (double)st_data(y)[i * outputs + k], off = fabs((double)out[k] - expected);
            if (expected == (double)out[k]) off = 0; /* infinities */
            most = fmax(most, fabs(expected));
            if (!(off <= worst)) worst = off;
        }
    }
    free(in), free(out);
    return most > 0 ? worst / most : worst;
}

static void compare(batch *b, double limit)
{
    int wrong = 0;
    char path[600], name[64];
    snprintf(path, sizeof path, "%s/nets.so", folder);
    assert_int_equal(shell("cc -std=c99 -O1 " STRICT " -shared net*.c -o nets.so -lm"), 0);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    for (int i = 0; i < b->count; i++) {
        snprintf(name, sizeof name, "net%d_predict", i);
        predict_function *predict = NULL;
        *(void **)&predict = dlsym(library, name);
        assert_non_null(predict);
        double off = difference(predict, b->x[i], b->y[i]);
        if (!(off <= limit)) {
            print_error("%s: %.3g apart, expected at most %g\n", b->title[i], off, limit);
            wrong++;
        }
        b->worst = fmax(b->worst, off);
        st_tensor_free(b->x[i]), st_tensor_free(b->y[i]);
    }
    dlclose(library);
    printf("%d nets as C: at most %.2g of the greatest output apart\n", b->count, b->worst);
    assert_int_equal(wrong, 0);
}

static bool has(const char *compiler)
{
    return shell("command -v %s >/dev/null", compiler) == 0;
}

static void others_compile_it(void)
{
    assert_int_equal(shell("rm -f *.so"), 0);
    if (has("clang"))
        assert_int_equal(shell("for f in net*.c; do clang -std=c99 " STRICT " -c $f -o o.o || exit 1; done"),
                         0);
    if (has("g++"))
        assert_int_equal(
            shell("for f in net*.c; do g++ -x c++ -std=c++17 " STRICT " -c $f -o o.o || exit 1; done"), 0);
    assert_int_equal(shell("rm -f net*.c"), 0);
}

/* ---- every layer ------------------------------------------------------------------------------------------ */

static void visit(const char *name, st_shape image, st_layer *l, const char *refusal, void *context)
{
    batch *b = context;
    if (refusal && strstr(refusal, "is C")) {
        st_net *n = sample_net(image, l);
        assert_int_equal(st_net_export_c(n, source_of(0), (st_export_c_options){ 0 }), -1);
        expect_error("layer 0: pool: ");
        b->refused++;
        st_net_free(n);
        return;
    }
    add_net(b, name, sample_net(image, l), sample_images(image));
}

static void every_layer_gives_what_the_reference_engine_gives(void **state)
{
    static batch b;
    if (!in_full()) skip();
    use_engine("reference");
    samples_visit(visit, &b);
    compare(&b, 1e-6);
    others_compile_it();
    assert_int_equal(b.refused, 1);
    use_engine(NULL);
}

/* ---- random nets -------------------------------------------------------------------------------------------- */

static st_layer *roll_activation(dice *d)
{
    switch (roll(d, 0, 6)) {
    case 0: return st_leaky_relu(.slope = 0.1);
    case 1: return st_silu();
    case 2: return st_tanh();
    case 3: return st_hardswish();
    case 4: return st_gelu();
    default: return st_relu();
    }
}

static st_layer *roll_block(dice *d, int channels, int deep);

/* A layer that keeps [C, H, W], or changes C or halves H and W. */
static st_layer *roll_layer(dice *d, st_shape *s, int deep)
{
    const int c = (int)s->n[1], to = (int)roll(d, 1, 12);
    st_layer *l = NULL;
    switch (roll(d, 0, 10)) {
    case 0: l = roll_activation(d); break;
    case 1: l = st_batchnorm(); break;
    case 2:
        l = s->n[2] > 5 && s->n[3] > 5 ? st_maxpool(.kernel = { 2, 2 }, .ceil_mode = chance(d, 50))
                                       : st_relu();
        break;
    case 3:
        l = s->n[2] > 5 && s->n[3] > 5
                ? st_avgpool(.kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 })
                : st_identity();
        break;
    case 4: l = st_groupnorm(.groups = chance(d, 50) ? c : 1); break;
    case 5: l = st_residual(roll_block(d, c, deep - 1)); break;
    case 6:
        l = deep > 0 ? st_concat(st_identity(), st_conv2d(.out_channels = to, .kernel = { 1, 1 }),
                                 roll_block(d, c, deep - 1))
                     : st_dropout(.p = 0.5);
        break;
    case 7: l = st_conv_transpose2d(.out_channels = to, .kernel = { 3, 3 }, .padding = { 1, 1 }); break;
    default:
        l = st_conv2d(.out_channels = to, .kernel = { 3, 3 }, .padding = { 1, (int)roll(d, 0, 1) },
                      .stride = { chance(d, 80) || s->n[2] < 6 ? 1 : 2, 1 }, .no_bias = chance(d, 40));
    }
    return l;
}

static st_layer *roll_block(dice *d, int channels, int deep)
{
    st_layer *part[4];
    int count = (int)roll(d, 1, 4);
    for (int i = 0; i < count; i++) {
        if (deep > 0 && chance(d, 20)) part[i] = st_residual(roll_block(d, channels, deep - 1));
        else if (chance(d, 40))
            part[i] = st_conv2d(.out_channels = channels, .kernel = { 3, 3 }, .padding = { 1, 1 });
        else part[i] = chance(d, 50) ? roll_activation(d) : st_batchnorm();
    }
    return st_sequence_of(count, part);
}

static st_net *roll_net(dice *d)
{
    enum { MOST_LAYERS = 12 };
    st_layer *l[MOST_LAYERS + 2];
    const st_shape image = ST_SHAPE(roll(d, 1, 6), roll(d, 5, 14), roll(d, 5, 14));
    st_shape s = st_shape_with_batch(image, 1);
    int count = (int)roll(d, 1, MOST_LAYERS), made = 0;
    for (; made < count && s.n[2] > 2 && s.n[3] > 2; made++) {
        l[made] = roll_layer(d, &s, 2);
        assert_int_equal(st_layer_plan(l[made], s, &s), 0);
    }
    if (chance(d, 70)) {
        l[made++] = st_flatten();
        l[made++] = st_dense(.out_features = (int)roll(d, 1, 20));
    }
    st_layer *whole = st_sequence_of(made, l);
    return sample_net(image, whole);
}

static void random_nets_give_what_the_reference_engine_gives(void **state)
{
    static batch b;
    char title[32];
    use_engine("reference");
    for (unsigned seed = 1; seed <= (in_full() ? 200 : 6); seed++) {
        dice d = { { seed } };
        snprintf(title, sizeof title, "random net %u", seed);
        st_net *n = roll_net(&d);
        assert_non_null(n);
        add_net(&b, title, n, sample_images(n->input));
    }
    compare(&b, 1e-6);
    if (in_full()) others_compile_it();
    else assert_int_equal(shell("rm -f net*.c nets.so"), 0);
    use_engine(NULL);
}

int main(void)
{
    const struct CMUnitTest claims[] = { CLAIM(every_layer_gives_what_the_reference_engine_gives),
                                         CLAIM(random_nets_give_what_the_reference_engine_gives) };
    return cmocka_run_group_tests(claims, make_folder, remove_folder);
}
