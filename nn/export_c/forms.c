/* forms.c: each layer as C: loops over sizes, which export_c.c writes before them as an enum, and in which
 *     $            is the step's number
 *     {name}       is the layer's option of that name
 *     {name:text}  is text if the step has an activation, int8 weights or a parameter of that name,
 *     {!name:text} is text if it has not. */
#include "layers/separable.h"
#include "layers/types.h"
#include "nn/export_c/steps.h"

/* Stores y, after the step's activation. */
#define RESULT(Y) "{activation:activation_$}(" Y ");\n"

/* ---- convolutions and dense layers --------------------------------------------------------------------- */

/* Row by row of y, kernel row by kernel row. Windows BEGIN ... END - 1 of a row lie in the image as a whole;
 * the elements of others are tested one by one. A transposed convolution is one of an image with XH - 1 rows
 * of zeros between its rows, and likewise columns: only where a position is divisible is there an element. */
static const char convolution[] =
    "    for (int o = 0; o < O; o++)\n"
    "        for (int oh = 0; oh < OH; oh++) {\n"
    "            {!int8:float}{int8:int32_t} sum[OW] = { 0 };\n"
    "            for (int c = 0; c < CG; c++)\n"
    "                for (int kh = 0; kh < KH; kh++) {\n"
    "                    const int h = oh * SH - PH + kh * DH;\n"
    "                    if (h < 0 || h % XH || h / XH >= H) continue;\n"
    "                    const {!int8:float}{int8:int8_t}\n"
    "                        *weight = weight_$ + ((o * CG + c) * KH + kh) * KW,\n"
    "                        *row = x + ((o / OG * CG + c) * H + h / XH) * W;\n"
    "                    for (int i = BEGIN; i < END; i++)\n"
    "                        for (int k = 0; k < KW; k++) sum[i] += weight[k] * row[i * SW - PW + k * DW];\n"
    "                    for (int edge = 0; edge < OW - (END - BEGIN); edge++)\n"
    "                        for (int k = 0; k < KW; k++) {\n"
    "                            const int i = edge < BEGIN ? edge : edge + (END - BEGIN);\n"
    "                            const int v = i * SW - PW + k * DW, inside = v >= 0 && v / XW < W;\n"
    "                            if (inside && v % XW == 0) sum[i] += weight[k] * row[v / XW];\n"
    "                        }\n"
    "                }\n"
    "            for (int i = 0; i < OW; i++) *y++ = " RESULT(
        "{int8:scale_$[o] * (float)}sum[i] + bias_$[o]") "        }\n";

/* Row by row of x. Eight sums become vectors, and lose less than one. */
static const char dense[] =
    "    for (int t = 0; t < T; t++, x += C)\n"
    "        for (int o = 0; o < O; o++) {\n"
    "            const {!int8:float}{int8:int8_t} *weight = weight_$ + o * C;\n"
    "            {!int8:float}{int8:int32_t} sum[8] = { 0 };\n"
    "            for (int i = 0; i + 8 <= C; i += 8)\n"
    "                for (int k = 0; k < 8; k++) sum[k] += weight[i + k] * x[i + k];\n"
    "            for (int i = C / 8 * 8; i < C; i++) sum[0] += weight[i] * x[i];\n"
    "            for (int k = 1; k < 8; k++) sum[0] += sum[k];\n"
    "            *y++ = " RESULT("{int8:scale_$[o] * (float)}sum[0] + bias_$[o]") "        }\n";

/* ---- pixel by pixel ------------------------------------------------------------------------------------ */

#define PIXELS(BODY)                                                                                         \
    "    for (int c = 0; c < C; c++, x += H * W)\n"                                                          \
    "        for (int oh = 0; oh < OH; oh++)\n"                                                              \
    "            for (int ow = 0; ow < OW; ow++) {\n" BODY "            }\n"

/* For the elements e of a window, which are OUTSIDE where the image is not. */
#define WINDOW(BEGIN, OUTSIDE, EACH, Y)                                                                      \
    PIXELS("                " BEGIN ";\n"                                                                    \
           "                for (int kh = 0; kh < KH; kh++)\n"                                               \
           "                    for (int kw = 0; kw < KW; kw++) {\n"                                         \
           "                        const int h = oh * SH - PH + kh * DH, v = ow * SW - PW + kw * DW;\n"     \
           "                        const int inside = h >= 0 && h < H && v >= 0 && v < W;\n"                \
           "                        const float e = inside ? x[h * W + v] : " OUTSIDE ";\n"                  \
           "                        " EACH ";\n"                                                             \
           "                    }\n"                                                                         \
           "                *y++ = " RESULT(Y))

/* In the order of st_pad_mode: 0 pads with a value, 1 reflects, 2 replicates. */
static const char padded[] =
    PIXELS("                const int h = oh - {height}, v = ow - {width}, mirror = {mode} == 1;\n"
           "                const int a = h < 0 ? mirror * -h : h < H ? h : H - 1 - mirror * (h - H + 1);\n"
           "                const int b = v < 0 ? mirror * -v : v < W ? v : W - 1 - mirror * (v - W + 1);\n"
           "                *y++ = " RESULT("{mode} == 0 && (a != h || b != v) ? {value} : x[a * W + b]"));

/* Interpolation and adaptive averages: see write_taps. */
static const char weighted_sum[] =
    PIXELS("                float sum = 0;\n"
           "                for (int h = begin_$[oh]; h < begin_$[oh + 1]; h++)\n"
           "                    for (int v = begin_$[OH + ow]; v < begin_$[OH + ow + 1]; v++)\n"
           "                        sum += taps_$[h].weight * taps_$[v].weight * x[taps_$[h].from * W + "
           "taps_$[v].from];\n"
           "                *y++ = " RESULT("sum"));

/* ---- row by row: channels, or what is normalised ------------------------------------------------------- */

#define EACH "        for (int i = at; i < end; i += STRIDE) "
#define ALONG(BODY)                                                                                          \
    "    for (int row = 0; row < COUNT; row++) {\n"                                                          \
    "        const int at = row / STRIDE * STRIDE * LENGTH + row % STRIDE;\n"                                \
    "        const int end = at + LENGTH * STRIDE;\n" BODY "    }\n"
#define CHANNEL(Y) ALONG(EACH "y[i] = " RESULT(Y))

static const char normalized[] = CHANNEL("weight_$[row] * (x[i] - near_$[row]) + bias_$[row]");

#define SOFTMAX(BODY, Y)                                                                                     \
    ALONG("        float most = x[at];\n"                                                                    \
          "        double sum = 0;\n" EACH "most = x[i] > most ? x[i] : most;\n" BODY EACH                   \
          "y[i] = " RESULT(Y))

/* Sums in double, as the library takes them. C++20 deprecates arithmetic of a double and an enumeration. */
#define NORM(MEAN)                                                                                           \
    ALONG("        double mean = 0, squares = 0;\n" MEAN EACH "squares += (x[i] - mean) * (x[i] - mean);\n"  \
          "        const float middle = (float)mean, scale = (float)(1 / sqrt(squares / (double)LENGTH + "   \
          "{epsilon}));\n" EACH "y[i] = " RESULT(                                                            \
              "(x[i] - middle) * scale{weight: * weight_$[i / AREA % N]}{bias: + bias_$[i / AREA % N]}"))
#define MEAN EACH "mean += x[i];\n        mean /= (double)LENGTH;\n"

#define FUNCTION(Y) "static float activation_$(float x)\n{\n    return " Y ";\n}\n\n"

/* ---- the table ----------------------------------------------------------------------------------------- */

/* A maxpool pads with zeros where pad_value is ST_PAD_ZERO, 1; NaN is greater than any number. An lppool
 * takes powers of ratios to the greatest element so far, which do not overflow. */
static const form forms[] = {
    { &layer_type_conv2d, PRODUCT, convolution },
    { &layer_type_conv_transpose2d, PRODUCT, convolution },
    { &layer_type_dense, PRODUCT, dense },
    { &layer_type_maxpool, WINDOWS,
      WINDOW("float most = -INFINITY", "{pad_value} == 1 ? 0 : -INFINITY", "if (e > most || e != e) most = e",
             "most") },
    { &layer_type_avgpool, WINDOWS,
      WINDOW("float sum = 0, count = 0", "0",
             "sum += e;\n                        count += {count_exclude_pad} ? inside : h < LH && v < LW",
             "count > 0 ? sum / count : 0") },
    { &layer_type_lppool, WINDOWS,
      WINDOW("float most = 0, sum = 0", "0",
             "const float size = fabsf(e);\n"
             "                        if (size > most) sum = sum * powf(most / size, {p}) + 1, most = size;\n"
             "                        else sum += most > 0 ? powf(size / most, {p}) : size",
             "most * powf(sum, 1.0f / {p})") },
    { &layer_type_adaptive_avgpool, TAPS, weighted_sum },
    { &layer_type_pad2d, WINDOWS, padded },
    { &layer_type_batchnorm, CHANNELS, normalized },
    { &layer_type_prelu, CHANNELS, CHANNEL("x[i] > 0 ? x[i] : weight_$[row] * x[i]") },
    { &layer_type_layernorm, ROWS, NORM(MEAN) },
    { &layer_type_groupnorm, ROWS, NORM(MEAN) },
    { &layer_type_rmsnorm, ROWS, NORM("") },
    { &layer_type_softmax, ROWS, SOFTMAX(EACH "sum += y[i] = expf(x[i] - most);\n", "y[i] / (float)sum") },
    { &layer_type_log_softmax, ROWS,
      SOFTMAX(EACH "sum += expf(x[i] - most);\n        sum = log(sum);\n", "x[i] - most - (float)sum") },
    { &layer_type_relu, ACTIVATION, FUNCTION("x < 0 ? 0 : x") },
    { &layer_type_relu6, ACTIVATION, FUNCTION("x < 0 ? 0 : x > 6 ? 6 : x") },
    { &layer_type_hardtanh, ACTIVATION,
      FUNCTION("x < {min_val} ? {min_val} : x > {max_val} ? {max_val} : x") },
    { &layer_type_leaky_relu, ACTIVATION, FUNCTION("x < 0 ? {slope} * x : x") },
    { &layer_type_elu, ACTIVATION, FUNCTION("x < 0 ? {alpha} * expm1f(x) : x") },
    { &layer_type_selu, ACTIVATION, FUNCTION("1.05070099f * (x < 0 ? 1.67326324f * expm1f(x) : x)") },
    { &layer_type_gelu, ACTIVATION,
      FUNCTION("{approximate} ? x / (1 + expf(x * (-1.59576912f - 0.0713548163f * x * x)))"
               "              : x * erfcf(x * -0.707106781f) / 2") },
    { &layer_type_silu, ACTIVATION, FUNCTION("x / (1 + expf(-x))") },
    { &layer_type_mish, ACTIVATION, FUNCTION("x * tanhf(x > 20 ? x : log1pf(expf(x)))") },
    { &layer_type_sigmoid, ACTIVATION, FUNCTION("1 / (1 + expf(-x))") },
    { &layer_type_tanh, ACTIVATION, FUNCTION("tanhf(x)") },
    { &layer_type_softplus, ACTIVATION, FUNCTION("x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x))") },
    { &layer_type_softsign, ACTIVATION, FUNCTION("x / (1 + fabsf(x))") },
    { &layer_type_hardsigmoid, ACTIVATION, FUNCTION("x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5f") },
    { &layer_type_hardswish, ACTIVATION, FUNCTION("x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6") },
    { &layer_type_dropout, NOTHING },
    { &layer_type_channel_dropout, NOTHING },
    { &layer_type_flatten, NOTHING },
    { &layer_type_unflatten, NOTHING },
    { &layer_type_identity, NOTHING },
};

const form form_normalize = { &layer_type_batchnorm, CHANNELS, normalized };
const form form_add = { &layer_type_residual, CHANNELS, CHANNEL("x[i] + other[i]") };
const form form_multiply = { &layer_type_multiply, CHANNELS, "y[i++] = " RESULT("x[a] * other[b]") };
const form form_copy = { &layer_type_identity, CHANNELS, CHANNEL("x[i]") };

/* To the nearest integer; NaN is 127. */
const form form_int8 = {
    &layer_type_identity, CHANNELS,
    ALONG(EACH
          "{\n"
          "            const float e = {range} * x[i];\n"
          "            y[i] = !(e < 127) ? 127 : e < -127 ? -127 : (int8_t)(e < 0 ? e - 0.5f : e + 0.5f);\n"
          "        }\n")
};

const form *form_of(const st_layer *l)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].type == l->type) return &forms[i];
    static const form sums = { &layer_type_upsample, TAPS, weighted_sum };
    return l->type->forward == separable_forward ? &sums : NULL;
}
