/* test_network.c: networks as text: parsing, messages for wrong ones, and writing them back as text. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/network.h"
#include "tests/files.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

#define IMAGE ST_SHAPE(2, 8, 8)

/* ---- texts that are right ------------------------------------------------------------------------ */

/* The layers of a net, as st_layer_describe has them, a space between them; what a layer holds in braces. */
static void describe(const st_layer *l, char *to, size_t size)
{
    for (int i = 0; i < l->children; i++) {
        size_t used = strlen(to);
        snprintf(to + used, size - used, "%s", i ? " " : "");
        used = strlen(to);
        st_layer_describe(l->child[i], to + used, size - used);
        if (!l->child[i]->children) continue;
        used = strlen(to);
        snprintf(to + used, size - used, "{");
        describe(l->child[i], to, size);
        used = strlen(to);
        snprintf(to + used, size - used, "}");
    }
}

typedef struct example {
    const char *text, *layers;
} example;

static const example right[] = {
    { "relu", "relu" },
    { "relu,", "relu" },
    { "\n\n relu\t,\r\n\n tanh # done", "relu tanh" },
    { "# first\nrelu # one, two\n# third", "relu" },
    { "conv 3 5x3", "conv2d(out_channels=3, kernel=5x3)" },
    { "conv2d 3 5", "conv2d(out_channels=3, kernel=5x5)" },
    { "conv kernel=3 out_channels=4", "conv2d(out_channels=4, kernel=3x3)" },
    { "conv 4 kernel = 3x1", "conv2d(out_channels=4, kernel=3x1)" },
    { "conv 4 3 stride=2x1 padding=1 groups=2 no_bias",
      "conv2d(out_channels=4, kernel=3x3, stride=2x1, padding=1x1, groups=2, no_bias)" },
    { "conv 4 3 no_bias=false", "conv2d(out_channels=4, kernel=3x3)" },
    { "conv 4 3 no_bias=true", "conv2d(out_channels=4, kernel=3x3, no_bias)" },
    { "conv 4 3 padding=0", "conv2d(out_channels=4, kernel=3x3)" },
    { "conv_transpose 3 2 stride=2", "conv_transpose2d(out_channels=3, kernel=2x2, stride=2x2)" },
    { "maxpool 2", "maxpool(kernel=2x2)" },
    { "maxpool", "maxpool" },
    { "maxpool 3 stride=1 padding=same", "maxpool(kernel=3x3, stride=1x1, padding=1x1)" },
    { "maxpool 3 ceil_mode pad_value=lowest", "maxpool(kernel=3x3, ceil_mode, pad_value=lowest)" },
    { "lppool 2 p=3", "lppool(kernel=2x2, p=3)" },
    { "fractional_maxpool 2 output_size=2", "fractional_maxpool(kernel=2x2, output_size=2x2)" },
    { "fractional_maxpool output_ratio=0.5", "fractional_maxpool(output_ratio=0.5)" },
    { "dropout 0.25", "dropout(p=0.25)" },
    { "dropout .5, dropout p=5e-1", "dropout(p=0.5) dropout(p=0.5)" },
    { "leaky_relu 0.2", "leaky_relu(slope=0.2)" },
    { "leaky_relu 0", "leaky_relu(slope=0)" }, /* not the default, 0.01 */
    { "leaky_relu 0.0", "leaky_relu(slope=0)" },
    { "leaky_relu 1", "leaky_relu(slope=1)" },
    { "batchnorm momentum=0", "batchnorm(momentum=0)" },
    { "pad height=1 width=2x3 mode=reflect", "pad2d(mode=reflect, height=1x1, width=2x3)" },
    { "pad value=-1.5 height=1x0", "pad2d(height=1x0, value=-1.5)" },
    { "groupnorm 2 epsilon=1e-3", "groupnorm(groups=2, epsilon=0.001)" },
    { "upsample 2 mode=bilinear align_corners", "upsample(scale=2x2, mode=bilinear, align_corners)" },
    { "dense 10", "flatten dense(out_features=10)" },
    { "unflatten 4, dense 10", "unflatten(channels=4) dense(out_features=10)" }, /* [N, 4, 32] */
    { "flatten, linear 10", "flatten dense(out_features=10)" },
    { "dense 7, relu, dense 3 no_bias", "flatten dense(out_features=7) relu dense(out_features=3, no_bias)" },
    { "conv 4 5x3 dilation=1x2 padding=same",
      "conv2d(out_channels=4, kernel=5x3, padding=2x2, dilation=1x2)" },
    { "conv 4 2x4 dilation=1x3 padding=same",
      "conv2d(out_channels=4, kernel=2x4, padding=0x4, dilation=1x3, pad_height=0x1, pad_width=0x1)" },
    { "conv 4 4x3 padding=same", "conv2d(out_channels=4, kernel=4x3, padding=1x1, pad_height=0x1)" },
    { "maxpool 2 stride=1 padding=same", "maxpool(kernel=2x2, stride=1x1, pad_height=0x1, pad_width=0x1)" },
    { "conv 4 3x1 padding=same", "conv2d(out_channels=4, kernel=3x1, padding=1x0)" },
    { "conv 4 3 padding=1x0", "conv2d(out_channels=4, kernel=3x3, padding=1x0)" },
    { "conv 4 3 padding=0x1", "conv2d(out_channels=4, kernel=3x3, padding=0x1)" },
    { "conv_transpose 4 3 stride=2 output_padding=1x0",
      "conv_transpose2d(out_channels=4, kernel=3x3, stride=2x2, output_padding=1x0)" },
    { "maxpool 3x0 stride=1x0", "maxpool(kernel=3x0, stride=1x0)" },
    { "conv 4 padding=same kernel=3", "conv2d(out_channels=4, kernel=3x3, padding=1x1)" },
    { "3x(relu)", "relu relu relu" },
    { "2x(conv 2 1, 2x(relu,\n tanh))", "conv2d(out_channels=2, kernel=1x1) relu tanh relu tanh "
                                        "conv2d(out_channels=2, kernel=1x1) relu tanh relu tanh" },
    { "residual(relu)", "residual{relu}" },
    { "residual(conv 2 3 padding=1, relu)",
      "residual{sequence{conv2d(out_channels=2, kernel=3x3, padding=1x1) relu}}" },
    { "residual(conv 4 1 | conv 4 1 no_bias)", "residual{conv2d(out_channels=4, kernel=1x1) "
                                               "conv2d(out_channels=4, kernel=1x1, no_bias)}" },
    { "concat(conv 1 1 | identity | relu, tanh), relu",
      "concat{conv2d(out_channels=1, kernel=1x1) identity sequence{relu tanh}} relu" },
    { "concat(relu), multiply(sequence(relu, tanh))", "concat{relu} multiply{sequence{relu tanh}}" },
    { "multiply(identity | global_avgpool, conv 2 1, sigmoid), relu",
      "multiply{identity sequence{avgpool conv2d(out_channels=2, kernel=1x1) sigmoid}} relu" },
    { "residual(residual(concat(2x(relu) | maxpool 3 stride=1 padding=1), conv 2 1))",
      "residual{residual{sequence{concat{sequence{relu relu} maxpool(kernel=3x3, stride=1x1, padding=1x1)} "
      "conv2d(out_channels=2, kernel=1x1)}}}" },
    { "sequence(relu, tanh), sequence(relu)", "sequence{relu tanh} sequence{relu}" },
    { "residual(sequence(relu, sequence(tanh)))", "residual{sequence{relu sequence{tanh}}}" },
    { "input 2x8x8, relu", "relu" },
    { "# a net\n input 2x8x8\nrelu", "relu" },
    { "\xef\xbb\xbfrelu", "relu" }, /* after a byte order mark */
};

SETUP(enter_folder)

TEST(texts_say_what_they_say)
{
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        char layers[1024] = "";
        about("%s", right[i].text);
        st_net *n = network_parse(right[i].text, IMAGE);
        if (n) describe(n->root, layers, sizeof layers);
        assert_null(st_error());
        assert_string_equal(layers, right[i].layers);
        st_net_free(n);
    }
}

static char *as_text(const st_net *n)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_int_equal(network_write(n, f), 0);
    fclose(f);
    return text;
}

TEST(what_is_written_reads_back)
{
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        char layers[1024] = "";
        about("%s", right[i].text);
        st_net *n = network_parse(right[i].text, IMAGE);
        char *text = as_text(n);
        st_net *again = network_parse(text, (st_shape){ 0 }); /* it says its input */
        assert_non_null(again);
        describe(again->root, layers, sizeof layers);
        assert_string_equal(layers, right[i].layers);
        assert_true(st_shape_equal(again->input, IMAGE));
        st_net_free(n), st_net_free(again), free(text);
    }
}

TEST(numbers_are_written_with_all_their_digits)
{
    st_net *n = network_parse("dropout 0, dropout 0.1, dropout 0.30000000000000004, leaky_relu -3e-7", IMAGE);
    char *text = as_text(n);
    assert_string_equal(
        text, "input 2x8x8\ndropout 0\ndropout 0.1\ndropout 0.30000000000000004\nleaky_relu -3e-07\n");
    st_net_free(n), free(text);
}

/* ---- texts that are wrong ------------------------------------------------------------------------ */

static const struct {
    const char *text, *error;
} wrong[] = {
    { "", "line 1, column 1: the end" },
    { "\n# nothing\n", "line 3, column 1: the end" },
    { "covn 3 3", "line 1, column 1: 'covn' is not a layer; did you mean conv?" },
    { "relu\n  max_pool 2", "line 2, column 3: 'max_pool' is not a layer; did you mean maxpool?" },
    { "batch_norm", "'batch_norm' is not a layer; did you mean batchnorm?" },
    { "frobnicate", "line 1, column 1: 'frobnicate' is not a layer; stride help network lists them" },
    { "Relu", "'Relu' is not a layer; did you mean relu?" },
    { "Conv2D 3 3", "'Conv2D' is not a layer; did you mean conv2d?" },
    { "MaxPool2d 2", "'MaxPool2d' is not a layer; did you mean maxpool?" },
    { "GlobalAveragePooling2D", "is not a layer; did you mean global_avgpool?" },
    { "Conv2DTranspose 3 3", "is not a layer; did you mean conv_transpose2d?" },
    { "fc 3", "'fc' is not a layer; did you mean dense?" },
    { "conv filters=3 3", "'filters' is not an option of conv2d; did you mean out_channels?" },
    { "conv 3 kernel_size=3", "'kernel_size' is not an option of conv2d; did you mean kernel?" },
    { "relu foo=3", "'foo' is not an option of relu, which has none" },
    { "upsample 2 mode=bilinera", "expected one of nearest bilinear; did you mean bilinear?" },
    { "conv 3 3 padding=smae", "expected two whole numbers; did you mean same?" },
    { "conv 3 3 padding=1x", "expected two whole numbers" },
    { "relu,, tanh", "line 1, column 6: ','" },
    { ", relu", "line 1, column 1: ','" },
    { "relu tanh", "line 1, column 6: 'tanh'" },
    { "conv 4 3 linear 3", "line 1, column 10: 'linear'" },
    { "relu tanhh", "line 1, column 6: 'tanhh'" },
    { "relu 3", "line 1, column 6: '3'" },
    { "conv 4", "line 1, column 1: 'conv' needs kernel" },
    { "conv", "'conv' needs out_channels" },
    { "conv kernel=3", "'conv' needs out_channels" },
    { "conv 4 3 2", "line 1, column 10: '2'" },
    { "dense 4 3", "line 1, column 9: '3'" },
    { "conv 4 3 strid=2", "line 1, column 10: 'strid' is not an option of conv2d; did you mean stride?" },
    { "conv 4 3 foo=2", "'foo' is not an option of conv2d; it has out_channels, kernel, " },
    { "conv 4 3 stride", "line 1, column 10: 'stride'" },
    { "conv 4 3 stride=", "line 1, column 17: the end" },
    { "conv 4 3 stride=,", "line 1, column 17: ','" },
    { "conv 4 3 stride=2 stride=2", "line 1, column 19: 'stride'" },
    { "conv 4 3 kernel=2", "line 1, column 10: 'kernel'" },
    { "conv 4.5 3", "line 1, column 6: conv2d: out_channels is \"4.5\", expected a whole number" },
    { "conv 4 3x", "line 1, column 8: conv2d: kernel is \"3x\", expected two whole numbers" },
    { "conv 4 3x3x3", "kernel is \"3x3x3\", expected two" },
    { "conv 99999999999 3", "line 1, column 6: conv2d: out_channels is \"99999999999\", "
                            "expected a whole number of at most 2147483647" },
    { "conv 0 3", "at least 1" },
    { "conv -4 3", "at least 1" },
    { "conv 4 3 stride=0", "line 1, column 17: conv2d: stride is 0, expected at least 1" },
    { "conv 4 3x0", "line 1, column 8: conv2d: kernel is 0, expected at least 1" },
    { "dropout", "line 1, column 1: 'dropout' needs p" },
    { "dropout 1", "line 1, column 9: dropout: p is 1, expected at least 0 and below 1" },
    { "dropout nan", "'nan'" },
    { "batchnorm 2", "line 1, column 11: batchnorm: epsilon is 2, expected at least 0 and below 1" },
    { "dropout p=nan", "line 1, column 11: dropout: p is \"nan\", expected a number" },
    { "conv 4 3 no_bias=maybe", "line 1, column 18: conv2d: no_bias is \"maybe\", expected true or false" },
    { "pad height=1 mode=mirror", "constant reflect replicate" },
    { "pad 1", "line 1, column 5: '1' needs an option's name: pad2d takes 0 values without one" },
    { "conv 4 3 3=3", "line 1, column 10: '3'" },
    { "conv_transpose 4 2 padding=same", "line 1, column 28: 'same' needs an odd kernel, not 2" },
    { "conv 4 2 pad_width=1x0 padding=same", "line 1, column 32: 'same' cannot be combined with pad_width" },
    { "conv 4 2 stride=2 padding=same", "line 1, column 27: 'same'" },
    { "conv 4 3 stride=2 padding=same", "line 1, column 27: 'same'" },
    { "maxpool 3 padding=same", "'same'" },
    { "conv 4 3 stride=same", "line 1, column 17: conv2d: stride is \"same\", expected two" },
    { "pool 2", "line 1, column 1: 'pool'" },
    { "relu(tanh)", "line 1, column 5: '('" },
    { "residual", "line 1, column 1: 'residual'" },
    { "residual relu", "'residual'" },
    { "residual(relu", "line 1, column 14: the end" },
    { "residual(relu\n", "line 2, column 1: the end" },
    { "residual()", "line 1, column 10: ')'" },
    { "global_maxpool 2", "line 1, column 16: '2' found after global_maxpool, which takes no options" },
    { "global_avgpool stride=2", "'stride' found after global_avgpool, which takes no options" },
    { "concat(relu, tanh)", "line 1, column 1: 'concat' has one branch of 2 layers: | separates branches" },
    { "relu, multiply(identity, 2x(tanh))",
      "line 1, column 7: 'multiply' has one branch of 3 layers: | separates branches" },
    { "concat(relu | )", "line 1, column 15: ')'" },
    { "concat(relu |", "line 1, column 14: the end" },
    { "relu)", "line 1, column 5: ')'" },
    { "relu\n)", "line 2, column 1: ')'" },
    { "relu\n| relu", "line 2, column 1: '|'" },
    { "sequence(relu | relu)", "line 1, column 15: '|'" },
    { "relu = 3", "line 1, column 6: '='" },
    { "2x relu", "line 1, column 1: '2x'" },
    { "0x(relu)", "line 1, column 1: '0x'" },
    { "2x(relu", "the end" },
    { "5000x(relu)", "4096" },
    { "99x(99x(relu))", "line 1, column 9: 'relu'" },
    { "input 2x8x8", "the end" },
    { "input\nrelu", "line 1, column 6: the end" },
    { "input 2x8xx8, relu", "line 1, column 7: '2x8xx8'" },
    { "input 0x8x8, relu", "'0x8x8'" },
    { "input 1x8x8, relu", "[2, 8, 8]" },
    { "relu\ninput 2x8x8", "line 2, column 1: 'input'" },
    { "relu\n  conv 4 9x9", "line 2, column 3: conv2d: " }, /* the library's message, with its place */
    { "residual(relu,\n\n conv 4 3)", "line 1, column 1: residual: the body makes [1, 4, 6, 6]" },
    { "dense 3, conv 4 3", "line 1, column 10: conv2d: " },
    { "residual(relu | relu | relu)", "line 1, column 1: residual: holds 3 layers, expected at most 2" },
    { "conv 4 3 \x01", "line 1, column 10: byte 1 is not an option of conv2d" },
    { "größe, relu", "line 1, column 1: 'größe'" },
    { "relu # größe\nä b", "line 2, column 1: 'ä'" },
    { "relu, \"ö\" ä", "line 1, column 7: '\"ö\"'" },
};

TEST(wrong_texts_are_told_where_and_what)
{
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        about("%s", wrong[i].text);
        expect_failure(network_parse(wrong[i].text, IMAGE), "%s", wrong[i].error);
    }
}

TEST(an_input_is_needed)
{
    expect_failure(network_parse("relu", (st_shape){ 0 }),
                   "begin it with, for example, \"input 1x28x28\", or give --input");
    st_net *n = network_parse("input 3x5, relu", (st_shape){ 0 });
    assert_non_null(n);
    assert_true(st_shape_equal(n->input, ST_SHAPE(3, 5)));
    st_net_free(n);
}

TEST(nesting_has_an_end)
{
    char text[2048];
    for (int depth = 30; depth < 400; depth += 70) { /* the last is beyond what a stack should hold */
        text[0] = '\0';
        for (int i = 0; i < depth; i++) strcat(text, "2x(");
        expect_failure(network_parse(text, IMAGE),
                       depth < 32 ? "expected a layer" : "is nested deeper than 32");
    }
}

/* ---- files and sizes ----------------------------------------------------------------------------- */

TEST(files_and_texts_are_told_apart)
{
    const char *path = path_of("test_network.net");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("relu\n tahn", f);
    fclose(f);
    expect_failure(network_read(path, IMAGE),
                   "%s: line 2, column 2: 'tahn' is not a layer; did you mean tanh?", path);
    remove(path);
    expect_failure(network_read(path, IMAGE), "%s: No such file", path);
    expect_failure(network_read("lenet6.net", IMAGE), "lenet6.net: No such file");
    st_net *n = network_read("relu, tanh", IMAGE);
    assert_non_null(n);
    st_net_free(n);
}

TEST(sizes_are_read)
{
    st_shape s;
    assert_int_equal(network_size("1x28x28", &s), 0);
    assert_true(st_shape_equal(s, ST_SHAPE(1, 28, 28)));
    assert_int_equal(network_size("7", &s), 0);
    assert_true(st_shape_equal(s, ST_SHAPE(7)));
    static const char *const none[] = { "",  "x",   "1x",    "x1",  "1x-2",
                                        "0", "1X2", "1x2 3", "1,2", "1x2x3x4x5x6x7x8x9" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        about("%s", none[i]);
        expect_failure(network_size(none[i], &s), "'%s' is not a size", none[i]);
    }
}

/* ---- the networks that come with it, and every layer ---------------------------------------------- */

TEST(shipped_networks_are_what_they_are_called)
{
    static const struct {
        const char *path;
        ptrdiff_t parameters;
    } nets[] = {
        { "examples/networks/lenet5.net", 61706 },
        { "examples/networks/example.net", 1199882 },
        { "examples/networks/bnnet.net",
          32 * 9 + 32 * 32 * 9 + 64 * 32 * 9 + 64 * 64 * 9 + 2 * (32 + 32 + 64 + 64) + 650 },
        { "examples/networks/mlp.net", 784 * 512 + 512 + 512 * 512 + 512 + 5130 },
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        about("%s", nets[i].path);
        st_net *n = network_read(nets[i].path, (st_shape){ 0 });
        assert_non_null(n);
        st_layer_needs needs;
        assert_int_equal(st_layer_measure(n->root, &needs), 0);
        assert_int_equal(needs.parameters, nets[i].parameters);
        assert_true(st_shape_equal(n->output, ST_SHAPE(10)));
        st_net_free(n);
    }
}

TEST(every_layer_is_listed_and_known)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    network_layers(f);
    fclose(f);
    for (int i = 0; st_layer_types[i]; i++) {
        char line[64];
        about("%s", st_layer_types[i]->name);
        snprintf(line, sizeof line, "\n%s", st_layer_types[i]->name);
        bool listed = strstr(text, line + (i == 0));
        assert_true(listed);
        st_net *n = network_parse(st_layer_types[i]->name, IMAGE);
        if (!n) assert_null(strstr(st_error(), "is not a layer"));
        st_net_free(n);
        st_error_clear();
    }
    free(text);
}
