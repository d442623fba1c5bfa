/* fuzz_network.c: network_parse takes any text; the net that it makes is written so that it is read back the
 * same.
 *
 * An input: a byte for the shape of an image, and the text. */
#define _POSIX_C_SOURCE 200809L
#include "tests/fuzz/fuzz.h"

#include "examples/stride/network.h"
#include "layers/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text that network_write makes of a net; NULL, without an error, where it cannot be said. */
static char *text_of(const st_net *n)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    int status = network_write(n, to);
    fclose(to);
    st_error_clear();
    if (status == 0) return text;
    free(text);
    return NULL;
}

static void comes_back(const st_net *n)
{
    char *text = text_of(n);
    fuzz_claim(text, "a net of a text is written as one");
    st_net *again = network_parse(text, (st_shape){ 0 });
    if (!again) fprintf(stderr, "%s%s\n", text, st_error());
    fuzz_claim(again, "what was written is read");
    char *second = text_of(again);
    if (strcmp(text, second) != 0) fprintf(stderr, "%s---\n%s", text, second);
    fuzz_claim(strcmp(text, second) == 0, "and is the same again");
    st_net_free(again);
    free(text);
    free(second);
}

static void read_text(const char *text, st_shape image)
{
    fuzz_text(strlen(text));
    fuzz_begin();
    st_net *n = network_parse(text, image);
    if (fuzz_took(n)) comes_back(n);
    st_net_free(n);
}

static void feed(const uint8_t *at, size_t size)
{
    const st_shape shapes[] = { { 0 }, ST_SHAPE(1, 8, 8), ST_SHAPE(3, 16, 16), ST_SHAPE(10) };
    if (size < 1) return;
    char *text = malloc(size);
    memcpy(text, at + 1, size - 1);
    text[size - 1] = '\0';
    read_text(text, shapes[at[0] % 4]);
    free(text);
}

/* Too many layers, too deep, and a word that is none. */
static void large(void)
{
    static const char *const texts[][3] = { { "", "relu\n", "" },
                                            { "4096x(", "relu, ", ")" },
                                            { "", "residual(", "" },
                                            { "", "relu", "" },
                                            { "# ", "relu", "" } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *text = fuzz_large_text(texts[i][0], texts[i][1], texts[i][2]);
        read_text(text, ST_SHAPE(10));
        free(text);
    }
}

static void seed(void)
{
    static const char *const texts[] = {
        "0input 1x28x28 # images\nconv 4 3x3 padding=same, relu\n2x(conv 4 3x3 no_bias padding=1, "
        "batchnorm)\n"
        "residual(conv 4 3x3 padding=1, relu)\nmaxpool 2\nconcat(conv 2 1x1 | conv 2 5x5 padding=2)\ndense "
        "10\n",
        "1flatten, dense 10, softmax",
        "2conv_transpose 2 2 stride=2 dilation=1x2, leaky_relu 0.1, sequence(relu, tanh), dropout 0.5",
        "3linear 5, sigmoid, layernorm, dense 2",
        "1pad height=1x2 mode=reflect, upsample 2 mode=bilinear, adaptive_avgpool 2x2, groupnorm 1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) fuzz_seed(texts[i], strlen(texts[i]));
}

/* clang-format off */
static const char *const words[] = {
    "input ", "1x28x28", "conv ", "conv_transpose ", "maxpool ", "avgpool ", "lppool ", "adaptive_avgpool ",
    "batchnorm", "layernorm", "groupnorm ", "relu", "leaky_relu ", "softmax", "log_softmax", "dropout ",
    "channel_dropout ", "pad ", "upsample ", "flatten", "identity", "residual(", "concat(", "sequence(",
    "dense ", "padding=same", "stride=2", "dilation=", "groups=", "no_bias", "mode=", "epsilon=", "momentum=",
    "3x(", " | ", ", ", "2147483647", "-1", "1e308", "0x", "pool function=", "axis=", NULL
};
/* clang-format on */

const fuzzer fuzz = { feed, seed, large, .words = words };
