/* test_export_c.c: nets written as C compile without a warning and give what the reference engine gives.
 *
 * Oracles: the reference engine, to 1e-6 of the greatest output, or what the net makes of a rounding;
 * compilers, with their warnings as errors; for the workspace, what is in use at once. STRIDE_C_CHECK runs it
 * in full, for minutes: every layer, 200 random nets and the trained net of MNIST's. */
#define _XOPEN_SOURCE 700
#include "tests/files.h"
#include "tests/support.h"

#include "examples/stride/mnist.h"
#include <stride.h>
#include "layers/types.h"
#include "nn/export_c/steps.h"
#include "tests/onnx/samples.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool in_full(void)
{
    const char *full = getenv("STRIDE_C_CHECK");
    return full && *full;
}

SETUP(enter_folder)

/* Runs a command in the folder, "" the shell's: 0 where it succeeds. */
static int shell(const char *format, ...)
{
    char command[2048];
    int begun = snprintf(command, sizeof command, "cd '%s' && ", path_of("."));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + begun, sizeof command - (size_t)begun, format, arguments);
    va_end(arguments);
    return system(command);
}

#define STRICT "-Wall -Wextra -pedantic -Werror -fPIC"

/* ---- nets and what they give --------------------------------------------------------------------------- */

enum { MOST_NETS = 400 };

/* Nets that are compiled together: as many dlopens as compilers would take minutes more. */
typedef struct batch {
    int count, refused;
    char title[MOST_NETS][96];
    st_tensor x[MOST_NETS], y[MOST_NETS];
    double limit[MOST_NETS], worst;
} batch;

static const char *source_of(int i)
{
    char name[32];
    snprintf(name, sizeof name, "net%d.c", i);
    return path_of(name);
}

/* The greatest difference of two outputs, as a part of the greatest; infinities may be equal. */
static double apart(st_tensor y, st_tensor z)
{
    double most = 0, worst = 0;
    for (ptrdiff_t k = 0; k < st_numel(y); k++) {
        const double expected = (double)st_data(y)[k], given = (double)st_data(z)[k],
                     off = expected == given ? 0 : fabs(given - expected);
        most = fmax(most, fabs(expected));
        if (!(off <= worst)) worst = off;
    }
    return most > 0 ? worst / most : worst;
}

/* 1e-6; or, of a net that amplifies rounding, eight times what it makes of inputs that are one rounding
 * off: each of its layers rounds, too. */
static double limit_of(st_net *n, st_tensor x, st_tensor y)
{
    st_tensor other = st_tensor_clone(x), z = st_tensor_new(y.shape);
    for (ptrdiff_t k = 0; k < st_numel(x); k++) st_data(other)[k] *= 1 + (st_real)(k % 3 - 1) * FLT_EPSILON;
    assert_int_equal(st_net_predict(n, other, z), 0);
    double limit = fmax(1e-6, 8 * apart(y, z));
    st_tensor_free(other), st_tensor_free(z);
    return limit;
}

/* With integers of 8 bits, whose ranges are measured on x, where nothing may be rounded. */
static void add_net_as(batch *b, const char *title, st_net *n, st_tensor x, bool integers)
{
    char name[32];
    int i = b->count++;
    assert_in_range(i, 0, MOST_NETS - 1);
    snprintf(b->title[i], sizeof b->title[i], "%s", title);
    snprintf(name, sizeof name, "net%d", i);
    about("%s", title);
    st_tensor target = st_tensor_new(st_shape_with_batch(n->output, x.shape.n[0]));
    st_dataset *d = integers ? st_dataset_tensors(x, target) : NULL;
    if (st_net_export_c(n, source_of(i), (st_export_c_options){ .name = name, .int8 = d }))
        print_error("%s\n", st_error());
    assert_null(st_error());
    st_dataset_free(d), st_tensor_free(target);
    b->x[i] = x;
    b->y[i] = st_tensor_new(st_shape_with_batch(n->output, x.shape.n[0]));
    assert_int_equal(st_net_predict(n, x, b->y[i]), 0);
    b->limit[i] = integers ? 0 : limit_of(n, x, b->y[i]);
    st_net_free(n);
}

static void add_net(batch *b, const char *title, st_net *n, st_tensor x)
{
    add_net_as(b, title, n, x, false);
}

/* The library of all nets in the folder, as C99. */
static void *compile(void)
{
    assert_int_equal(
        shell("cc -std=c99 %s " STRICT " -shared net*.c -o nets.so -lm", in_full() ? "-O1" : "-O0"), 0);
    void *library = dlopen(path_of("nets.so"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    assert_int_equal(shell("rm nets.so"), 0);
    return library;
}

/* The outputs of the net of that name, image by image. */
static void predict_as_c(void *library, const char *name, st_tensor x, st_tensor y)
{
    void (*predict)(const float input[], float output[]) = NULL;
    const ptrdiff_t images = x.shape.n[0], inputs = st_numel(x) / images, outputs = st_numel(y) / images;
    float *in = malloc((size_t)inputs * sizeof *in), *out = malloc((size_t)outputs * sizeof *out);
    char function[64];
    snprintf(function, sizeof function, "%s_predict", name);
    *(void **)&predict = dlsym(library, function);
    assert_true(predict && in && out);
    for (ptrdiff_t i = 0; i < images; i++) {
        for (ptrdiff_t k = 0; k < inputs; k++) in[k] = (float)st_data(x)[i * inputs + k];
        predict(in, out);
        for (ptrdiff_t k = 0; k < outputs; k++) st_data(y)[i * outputs + k] = (st_real)out[k];
    }
    free(in), free(out);
}

static void compare(batch *b)
{
    int wrong = 0;
    void *library = compile();
    for (int i = 0; i < b->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "net%d", i);
        st_tensor z = st_tensor_clone(b->y[i]);
        predict_as_c(library, name, b->x[i], z);
        const double off = apart(b->y[i], z);
        if (!(off <= b->limit[i])) {
            print_error("%s: %.3g apart, expected at most %g\n", b->title[i], off, b->limit[i]);
            wrong++;
        }
        b->worst = fmax(b->worst, off);
        st_tensor_free(b->x[i]), st_tensor_free(b->y[i]), st_tensor_free(z);
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
    if (has("clang")) assert_int_equal(shell("clang -std=c99 " STRICT " -fsyntax-only net*.c"), 0);
    if (has("g++")) assert_int_equal(shell("g++ -x c++ -std=c++2a " STRICT " -fsyntax-only net*.c"), 0);
    assert_int_equal(shell("rm -f net*.c"), 0);
}

/* ---- every layer --------------------------------------------------------------------------------------- */

static void visit(const char *name, st_shape image, st_layer *l, const char *refusal, void *context)
{
    batch *b = context;
    const bool nowhere = refusal && strstr(refusal, "ONNX has no such layer");
    if (!form_of(l) && (l->type->pooling || nowhere)) {
        char expected[96];
        st_net *n = sample_net(image, l);
        snprintf(expected, sizeof expected, "layer 0: %s: it has no form in C", l->type->name);
        expect_failure(st_net_export_c(n, source_of(b->count), (st_export_c_options){ 0 }), "%s", expected);
        b->refused++;
        st_net_free(n);
        return;
    }
    add_net(b, name, sample_net(image, l), sample_images(image));
}

static bool is_of_layers(const st_layer_type *type)
{
#define ADDRESS(NAME) &layer_type_##NAME,
    static const st_layer_type *const types[] = { ST_EACH_LAYER_TYPE(ADDRESS) NULL };
    int i = 0;
    while (types[i] && types[i] != type) i++;
    return types[i] != NULL;
}

static void write_alone(const char *name, st_shape image, st_layer *l, const char *refusal, void *context)
{
    const st_layer_type *type = l->type;
    st_net *n = sample_net(image, l);
    about("%s", name);
    if (is_of_layers(type) && st_net_export_c(n, path_of("net.c"), (st_export_c_options){ 0 }))
        fail_msg("nn/export_c/forms.c, %s: %s", type->name, st_error());
    ++*(int *)context;
    st_net_free(n);
}

TEST(every_layer_of_layers_is_written)
{
    int count = 0;
    samples_visit(write_alone, &count);
    assert_in_range(count, 100, MOST_NETS);
}

TEST(every_layer_gives_what_the_reference_engine_gives)
{
    static batch b;
    if (!in_full()) skip_because("STRIDE_C_CHECK is not set: make c-check runs it");
    use_engine("reference");
    samples_visit(visit, &b);
    compare(&b);
    others_compile_it();
    assert_in_range(b.refused, 1, 20);
    use_engine(NULL);
}

/* ---- random nets --------------------------------------------------------------------------------------- */

static st_layer *roll_activation(dice *d)
{
    switch (roll(d, 0, 9)) {
    case 0: return st_leaky_relu(.slope = 0.1);
    case 5: return st_gelu(.approximate = ST_GELU_TANH);
    case 6: return st_hardtanh(.min_val = -0.5);
    case 7: return st_prelu();
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
        l = st_conv2d(.out_channels = to, .kernel = { 3, 3 },
                      .padding = { 1, chance(d, 50) ? 1 : ST_ZERO_INT },
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

TEST(random_nets_give_what_the_reference_engine_gives)
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
    const st_shape image = ST_SHAPE(1, 9, 8); /* the library computes the relu after the pool */
    add_net(&b, "a relu before a pool",
            sample_net(image, st_sequence(st_relu(), st_maxpool(.kernel = { 2 }))), sample_images(image));
    const st_shape rows = ST_SHAPE(5, 12);
    add_net(&b, "dense of rows",
            sample_net(rows, st_sequence(st_dense(.out_features = 5), st_batchnorm(), st_relu(),
                                         st_dense(.out_features = 1), st_flatten(), st_batchnorm())),
            sample_images(rows));
    compare(&b);
    if (in_full()) others_compile_it();
    else assert_int_equal(shell("rm -f net*.c"), 0);
    use_engine(NULL);
}

TEST(taps_that_an_algorithm_leaves_out_are_written)
{
    for (int i = 0; i < 2; i++) {
        use_engine(i == 0 ? "reference" : NULL);
        st_net *n = sample_net(
            ST_SHAPE(2, 1, 9),
            st_sequence(st_conv2d(.out_channels = 3, .kernel = { 3 }, .padding = { 1 }),
                        st_conv_transpose2d(.out_channels = 2, .kernel = { 3 }, .padding = { 1 })));
        assert_int_equal(st_net_export_c(n, source_of(i), (st_export_c_options){ 0 }), 0);
        st_net_free(n);
    }
    assert_int_equal(shell("cmp net0.c net1.c && rm net0.c net1.c"), 0);
}

static ptrdiff_t class_of(st_tensor y, ptrdiff_t i)
{
    ptrdiff_t classes = y.shape.n[1], best = 0;
    for (ptrdiff_t k = 1; k < classes; k++)
        if (st_data(y)[i * classes + k] > st_data(y)[i * classes + best]) best = k;
    return best;
}

/* The outputs of the net as C; returns its sizes. */
static st_export_c_sizes export_and_predict(st_net *n, const st_dataset *int8, st_tensor x, st_tensor y)
{
    st_export_c_sizes sizes;
    assert_int_equal(st_net_export_c(n, source_of(0), (st_export_c_options){ .int8 = int8, .sizes = &sizes }),
                     0);
    assert_int_equal(shell("grep -q ' constants *%td bytes$' net0.c", sizes.constants), 0);
    void *library = compile();
    predict_as_c(library, "model", x, y);
    dlclose(library);
    assert_int_equal(shell("rm net0.c"), 0);
    return sizes;
}

/* ---- integers of 8 bits -------------------------------------------------------------------------------- */

/* Integers up to 127, which the input and every channel of weights reach, times a power of two that is each
 * channel's own: nothing is rounded. */
static void add_integers(batch *b, const char *title, dice *d, st_layer *l)
{
    const st_shape image = ST_SHAPE(4, 7, 6);
    const bool rows = strcmp(title, "dense of rows") == 0, dense = rows || strcmp(title, "dense") == 0,
               transposed = strcmp(title, "transposed") == 0;
    st_net *n = rows    ? st_net_new(image, st_unflatten(.channels = 4), l)
                : dense ? st_net_new(image, st_flatten(), l)
                        : st_net_new(image, l);
    assert_int_equal(st_net_build(n, 2, 1), 0);
    st_tensor all = st_net_parameters(n), w = st_net_find(n, dense ? "1.weight" : "0.weight"),
              x = roll_tensor(d, ST_SHAPE(3, 4, 7, 6), -126, 126);
    const ptrdiff_t each = st_numel(w) / w.shape.n[0], area = each / w.shape.n[1];
    for (ptrdiff_t i = 0; i < st_numel(all); i++) st_data(all)[i] = (st_real)(i % 17 - 8); /* biases */
    for (ptrdiff_t i = 0; i < st_numel(w); i++) {
        const ptrdiff_t first = i / each,
                        channel = transposed ? first / 2 * w.shape.n[1] + i / area % w.shape.n[1] : first;
        const ptrdiff_t number = chance(d, 50) ? 127 * roll(d, -1, 1) : roll(d, -127, 127);
        st_data(w)[i] = (st_real)ldexp((double)number, -(int)(channel % 4));
    }
    st_data(x)[5] = -127;
    if (dense) st_fill(st_net_find(n, "1.bias"), 3); /* products may be added to it in any order */
    st_scale(x, (st_real)0.25);
    add_net_as(b, title, n, x, true);
}

TEST(integers_of_8_bits_are_exact_where_nothing_is_rounded)
{
    static batch b;
    dice d = { { 1 } };
    use_engine("reference");
    add_integers(&b, "conv2d", &d, st_conv2d(.out_channels = 6, .kernel = { 3, 3 }, .padding = { 1, 1 }));
    add_integers(
        &b, "strided", &d,
        st_conv2d(.out_channels = 4, .kernel = { 3, 2 }, .stride = { 2, 1 }, .groups = 2, .no_bias = true));
    add_integers(&b, "1x1", &d, st_conv2d(.out_channels = 3, .kernel = { 1, 1 }, .padding = { 0, 2 }));
    add_integers(&b, "transposed", &d,
                 st_conv_transpose2d(.out_channels = 6, .kernel = { 3, 3 }, .stride = { 2, 2 }, .groups = 2));
    add_integers(&b, "dense", &d, st_dense(.out_features = 5));
    add_integers(&b, "dense of rows", &d, st_dense(.out_features = 5));
    compare(&b);
    assert_int_equal(shell("grep -L int8_t net*.c | grep ."), 256);
    others_compile_it();
    use_engine(NULL);
}

TEST(integers_of_8_bits_give_what_the_net_that_computes_with_them_gives)
{
    enum { IMAGES = 64, CLASSES = 5 };
    dice d = { { 3 } };
    use_engine("reference");
    st_net *n =
        st_net_new(ST_SHAPE(2, 8, 8), st_conv2d(.out_channels = 6, .kernel = { 3 }), st_batchnorm(),
                   st_relu(), st_residual(st_conv2d(.out_channels = 6, .kernel = { 3 }, .padding = { 1, 1 })),
                   st_conv_transpose2d(.out_channels = 4, .kernel = { 3 }, .stride = { 2 }, .groups = 2),
                   st_maxpool(.kernel = { 2 }), st_flatten(), st_dense(.out_features = CLASSES));
    assert_int_equal(st_net_build(n, 7, 1), 0);
    st_tensor x = roll_tensor(&d, ST_SHAPE(IMAGES, 2, 8, 8), -100, 100),
              target = st_tensor_new(ST_SHAPE(IMAGES)), whole = st_tensor_new(ST_SHAPE(IMAGES, CLASSES)),
              again = st_tensor_clone(whole), y = st_tensor_clone(whole), z = st_tensor_clone(whole);
    st_dataset *samples = st_dataset_tensors(x, target);
    assert_int_equal(st_net_predict(n, x, whole), 0);
    st_int8 *integers = st_int8_begin(n, samples);
    assert_int_equal(st_net_predict(n, x, y), 0);
    st_int8_end(integers);
    assert_int_equal(st_net_predict(n, x, again), 0);
    assert_true(apart(again, whole) == 0);
    const st_export_c_sizes sizes = export_and_predict(n, samples, x, z);
    assert_true(3 * sizes.constants < sizes.as_float && 4 * sizes.constants > sizes.as_float);
    assert_true(apart(whole, y) > 1e-3 && apart(whole, y) < 0.1);
    assert_true(apart(y, z) < 0.01);
    st_dataset_free(samples), st_net_free(n);
    st_tensor_free(x), st_tensor_free(target), st_tensor_free(whole), st_tensor_free(again);
    st_tensor_free(y), st_tensor_free(z);
    use_engine(NULL);
}

/* ---- what travels with a net, and what is refused ------------------------------------------------------ */

static st_net *small_net(void)
{
    st_net *n = st_net_new(ST_SHAPE(2, 6, 6), st_conv2d(.out_channels = 4, .kernel = { 3, 3 }), st_relu(),
                           st_conv2d(.out_channels = 2, .kernel = { 3, 3 }), st_flatten(), st_softmax());
    assert_int_equal(st_net_build(n, 1, 1), 0);
    return n;
}

static bool file_has(const char *text)
{
    return shell("grep -qF '%s' net0.c", text) == 0;
}

TEST(normalization_and_classes_are_built_in)
{
    static batch b;
    const double mean[] = { 3, -1 }, deviation[] = { 2, 0 };
    const char *const names[] = { "cat", "\"d\\?g\"" };
    st_net *n = st_net_new(ST_SHAPE(2, 1, 1), st_flatten(), st_dense(.out_features = 2));
    assert_int_equal(st_net_build(n, 3, 1), 0);
    st_normalization *scale = st_normalization_new(2, mean, deviation);
    assert_int_equal(st_net_set_normalization(n, scale), 0);
    assert_int_equal(st_net_set_classes(n, 2, names), 0);
    st_tensor x = tensor_of(ST_SHAPE(3, 2, 1, 1), 1, 2, 3, 4, -5, 6), raw = st_tensor_clone(x);
    st_normalization_apply(scale, x);
    st_normalization_free(scale);
    add_net(&b, "a normalized input", n, x);
    st_copy(x, raw);
    st_tensor_free(raw);
    assert_true(file_has("#define NET0_CLASSES 2"));
    assert_true(file_has("\"cat\",") && file_has("\"\\042d\\134\\077g\\042\""));
    compare(&b);
    assert_int_equal(shell("rm -f net*.c"), 0);
}

/* Of inputs that are exact as floats and large beside their deviation, such as years: normalised, and by a
 * batchnorm. */
TEST(differences_from_a_large_mean_keep_their_digits)
{
    static batch b;
    const double mean[] = { 1000004.2 }, deviation[] = { 2.875 };
    st_normalization *scale = st_normalization_new(1, mean, deviation);
    for (int norm = 0; norm < 2; norm++) {
        st_net *n = norm ? st_net_new(ST_SHAPE(1), st_batchnorm()) : st_net_new(ST_SHAPE(1), st_identity());
        st_tensor x = tensor_of(ST_SHAPE(3, 1), 1000000, 1000001, 1000009), raw = st_tensor_clone(x);
        assert_int_equal(st_net_build(n, 3, 1), 0);
        if (norm) st_fill(st_net_find(n, "0.running_mean"), (st_real)1000004.2);
        else assert_int_equal(st_net_set_normalization(n, scale) | st_normalization_apply(scale, x), 0);
        add_net(&b, norm ? "a batchnorm by itself" : "a normalized input", n, x);
        b.limit[norm] = 1e-6; /* less than limit_of, which rounds x */
        st_copy(x, raw), st_tensor_free(raw);
    }
    st_normalization_free(scale);
    compare(&b);
    assert_int_equal(shell("rm -f net*.c"), 0);
}

/* A constant column whose number float does not hold, such as an identifier: its input is rounded, too. */
TEST(a_constant_input_is_0_though_it_is_rounded)
{
    static batch b;
    const double mean[] = { 16777217 }, deviation[] = { 0 }; /* as float: 16777216 */
    st_normalization *scale = st_normalization_new(1, mean, deviation);
    st_net *n = st_net_new(ST_SHAPE(1), st_identity());
    st_tensor x = tensor_of(ST_SHAPE(2, 1), 0, 4), raw = tensor_of(ST_SHAPE(2, 1), 16777216, 16777220);
    assert_int_equal(st_net_build(n, 2, 1) | st_net_set_normalization(n, scale), 0);
    add_net(&b, "a constant input", n, x);
    b.limit[0] = 0;
    st_copy(x, raw), st_tensor_free(raw), st_normalization_free(scale);
    compare(&b);
    assert_int_equal(shell("rm -f net*.c"), 0);
}

/* Outputs of nets that learnt normalised numbers: of features, and of channels of 2 x 3 pixels. */
TEST(normalized_targets_come_back_in_their_unit)
{
    static batch b;
    static const char note[] = "{\"mean\":[300,-1],\"deviation\":[20,0]}";
    for (int images = 0; images < 2; images++) {
        st_net *n = images ? st_net_new(ST_SHAPE(2, 2, 3), st_conv2d(.out_channels = 2, .kernel = { 1 }))
                           : st_net_new(ST_SHAPE(4), st_dense(.out_features = 2));
        assert_int_equal(st_net_build(n, 3, 1) | st_net_set_metadata(n, "target_normalization", note), 0);
        st_tensor x = st_tensor_new(st_shape_with_batch(n->input, 3));
        st_uniform(x, (st_random_key){ 1, 1 }, -2, 2);
        st_normalization *scale = st_net_target_normalization(n);
        add_net(&b, images ? "channels of targets" : "targets", n, x);
        assert_int_equal(st_normalization_undo(scale, b.y[images]), 0);
        st_normalization_free(scale);
    }
    assert_true(file_has("in the unit of the targets"));
    compare(&b);
    assert_int_equal(shell("rm -f net*.c"), 0);
}

static st_layer *same_conv(void)
{
    return st_conv2d(.out_channels = 4, .kernel = { 3 }, .padding = { 1, 1 });
}

/* 4 · 4 · 4 numbers between input and output; the softmax runs in place, where the output is. */
TEST(the_workspace_is_the_widest_neighbours)
{
    st_net *n = small_net();
    assert_int_equal(st_net_export_c(n, source_of(0), (st_export_c_options){ 0 }), 0);
    assert_true(file_has("#define MODEL_WORKSPACE 64"));
    st_net_free(n);
    n = st_net_new(ST_SHAPE(5), st_dense(.out_features = 30), st_dense(.out_features = 7),
                   st_dense(.out_features = 40), st_dense(.out_features = 20), st_dense(.out_features = 3));
    assert_int_equal(st_net_build(n, 1, 1), 0);
    assert_int_equal(st_net_export_c(n, source_of(0), (st_export_c_options){ 0 }), 0);
    assert_true(file_has("#define MODEL_WORKSPACE 60")); /* 40 + 20 */
    st_net_free(n);
    n = st_net_new(ST_SHAPE(2, 6, 6), same_conv(),
                   st_residual(st_sequence(same_conv(), st_relu(), same_conv())),
                   st_residual_projected(same_conv(), same_conv()), st_concat(same_conv(), same_conv()),
                   st_flatten(), st_dense(.out_features = 3));
    assert_int_equal(st_net_build(n, 1, 1), 0);
    assert_int_equal(st_net_export_c(n, source_of(0), (st_export_c_options){ 0 }), 0);
    assert_true(
        file_has("#define MODEL_WORKSPACE 576")); /* x, a branch and both branches side by side: 4 · 144 */
    st_net_free(n);
    assert_int_equal(shell("rm net0.c"), 0);
}

TEST(what_c_cannot_hold_is_refused)
{
    st_net *n = small_net();
    expect_failure(st_net_export_c(n, source_of(0), (st_export_c_options){ .name = "2nd" }),
                   "the name is \"2nd\", expected a C identifier");
    *st_data(st_net_find(n, "2.bias")) = (st_real)-NAN;
    expect_failure(st_net_export_c(n, source_of(0), (st_export_c_options){ 0 }),
                   "layer 2: conv2d: its bias holds nan");
    assert_int_not_equal(access(source_of(0), F_OK), 0);
    st_net_free(n);
}

/* ---- the trained net ----------------------------------------------------------------------------------- */

/* On every test image, which STRIDE_C_CHECK names the net for. */
TEST(the_trained_net_sees_the_same_class)
{
    mnist digits = { 0 };
    if (!in_full()) skip_because("STRIDE_C_CHECK is not set: make c-check runs it");
    st_net *n = st_net_load(getenv("STRIDE_C_CHECK"), .batch = 1000);
    assert_non_null(n);
    assert_int_equal(mnist_find(&digits, NULL), 0);
    ptrdiff_t images = digits.test->count, same = 0, right = 0, right_int8 = 0;
    st_tensor x = st_tensor_new(st_shape_with_batch(digits.test->x, images)), z, y, q,
              class = st_tensor_new(ST_SHAPE(images));
    y = st_tensor_new(ST_SHAPE(images, 10)), z = st_tensor_clone(y), q = st_tensor_clone(y);
    assert_int_equal(st_dataset_batch(digits.test, NULL, 0, images, x, class), 0);
    st_normalization *scale = st_net_normalization(n);
    st_dataset *calibration = scale ? st_dataset_normalize(digits.train, scale) : digits.train;
    const ptrdiff_t whole = export_and_predict(n, NULL, x, z).constants,
                    small = export_and_predict(n, calibration, x, q).constants;
    if (scale) st_normalization_apply(scale, x);
    assert_int_equal(st_net_predict(n, x, y), 0);
    for (ptrdiff_t i = 0; i < images; i++) {
        same += class_of(y, i) == class_of(z, i);
        right += class_of(z, i) == (ptrdiff_t)st_data(class)[i];
        right_int8 += class_of(q, i) == (ptrdiff_t)st_data(class)[i];
    }
    printf("with integers of 8 bits: %td right, %.2g apart; %td bytes of constants for %td\n", right_int8,
           apart(y, q), small, whole);
    assert_true((double)(right - right_int8) <= 0.002 * (double)images);
    assert_in_range(small, whole / 4, whole / 4 + whole / 50);
    printf("the trained net as C: the same class on %td of %td test images of %s (%td right), %.2g apart\n",
           same, images, digits.source, right, apart(y, z));
    assert_int_equal(same, images);
    if (scale) st_dataset_free(calibration);
    st_normalization_free(scale);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(z), st_tensor_free(q), st_tensor_free(class);
    mnist_free(&digits);
    st_net_free(n);
}
