/* forms.c: each layer as C: loops over sizes, which export_c.c writes before them as an enum, and in which
 *     $            is the step's number
 *     {name}       is the layer's option of that name
 *     {name:text}  is text if the step has an activation, int8 weights, a parameter of that name, or such an option that is
 *                  not 0, and {!name:text} if it does not. */
#include "layers/layer_impl.h"
#include "nn/export_c/steps.h"

/* ---- convolutions and dense layers ------------------------------------------------------------------------- */

/* Row by row of y, kernel row by kernel row. Windows BEGIN ... END - 1 of a row lie in the image as a whole; elements of
 * the others are looked at one by one. A transposed convolution is one of an image with XH - 1 rows of zeros between
 * any two of its rows, and likewise columns: only where a position is divisible is there an element. */
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
    "            for (int i = 0; i < OW; i++)\n"
    "                *y++ = {activation:activation_$}({int8:scale_$[o] * (float)}sum[i] + bias_$[o]);\n"
    "        }\n";

/* Eight sums at once become vectors, and lose less than one. */
static const char dense[] =
    "    for (int o = 0; o < O; o++) {\n"
    "        const {!int8:float}{int8:int8_t} *weight = weight_$ + o * C;\n"
    "        {!int8:float}{int8:int32_t} sum[8] = { 0 };\n"
    "        for (int i = 0; i + 8 <= C; i += 8)\n"
    "            for (int k = 0; k < 8; k++) sum[k] += weight[i + k] * x[i + k];\n"
    "        for (int i = C / 8 * 8; i < C; i++) sum[0] += weight[i] * x[i];\n"
    "        for (int k = 1; k < 8; k++) sum[0] += sum[k];\n"
    "        y[o] = {activation:activation_$}({int8:scale_$[o] * (float)}sum[0] + bias_$[o]);\n"
    "    }\n";

/* ---- pixel by pixel ---------------------------------------------------------------------------------------- */

#define PIXELS(BODY)                                                                                         \
    "    for (int c = 0; c < C; c++, x += H * W)\n"                                                          \
    "        for (int oh = 0; oh < OH; oh++)\n"                                                              \
    "            for (int ow = 0; ow < OW; ow++) {\n" BODY "            }\n"

/* For the elements of a window: BEGIN, EACH and END are statements. */
#define WINDOW(BEGIN, EACH, END)                                                                             \
    PIXELS("                " BEGIN "\n"                                                                     \
           "                for (int kh = 0; kh < KH; kh++)\n"                                               \
           "                    for (int kw = 0; kw < KW; kw++) {\n"                                         \
           "                        const int h = oh * SH - PH + kh * DH, v = ow * SW - PW + kw * DW;\n"     \
           "                        const int inside = h >= 0 && h < H && v >= 0 && v < W;\n" EACH           \
           "                    }\n"                                                                         \
           "                *y++ = " END ";\n")

/* Padding is zeros where pad_value is ST_PAD_ZERO, 1. NaN is greater than any number. */
static const char maximum[] = WINDOW(
    "float most = -INFINITY;",
    "                        const float e = inside ? x[h * W + v] : {pad_value} == 1 ? 0 : -INFINITY;\n"
    "                        if (e > most || e != e) most = e;\n",
    "most");

static const char average[] = WINDOW(
    "float sum = 0, count = 0;",
    "                        sum += inside ? x[h * W + v] : 0;\n"
    "                        count += {count_exclude_pad:inside}{!count_exclude_pad:h < LH && v < LW};\n",
    "count > 0 ? sum / count : 0");

/* Powers of ratios to the greatest element so far do not overflow. */
static const char norm_of_window[] =
    WINDOW("float most = 0, sum = 0;",
           "                        const float e = inside ? fabsf(x[h * W + v]) : 0;\n"
           "                        if (e > most) sum = sum * powf(most / e, {p}) + 1, most = e;\n"
           "                        else sum += most > 0 ? powf(e / most, {p}) : e;\n",
           "most * powf(sum, 1.0f / {p})");

/* In the order of st_pad_mode: 0 pads with a value, 1 reflects, 2 replicates. */
static const char padded[] =
    PIXELS("                const int h = oh - {height}, v = ow - {width}, mirror = {mode} == 1;\n"
           "                const int a = h < 0 ? mirror * -h : h < H ? h : H - 1 - mirror * (h - H + 1);\n"
           "                const int b = v < 0 ? mirror * -v : v < W ? v : W - 1 - mirror * (v - W + 1);\n"
           "                *y++ = {mode} == 0 && (a != h || b != v) ? {value} : x[a * W + b];\n");

/* Interpolation and adaptive averages: see write_taps. */
static const char weighted_sum[] = PIXELS(
    "                const float *a = taps_$ + 4 * oh, *b = taps_$ + 4 * (OH + ow);\n"
    "                float sum = 0;\n"
    "                for (int h = 0; h < a[1]; h++)\n"
    "                    for (int v = 0; v < b[1]; v++)\n"
    "                        sum += a[h ? 3 : 2] * b[v ? 3 : 2] * x[((int)a[0] + h) * W + (int)b[0] + v];\n"
    "                *y++ = sum;\n");

/* ---- element by element, and along an axis ----------------------------------------------------------------- */

#define CHANNEL(Y)                                                                                           \
    "    for (int c = 0; c < N; c++)\n"                                                                      \
    "        for (int i = c * AREA; i < (c + 1) * AREA; i++) y[i] = {activation:activation_$}(" Y ");\n"

static const char affine[] = CHANNEL("weight_$[c] * x[i] + bias_$[c]");

#define EACH "        for (int i = at; i < end; i += STRIDE) "
#define ALONG(BODY)                                                                                          \
    "    for (int row = 0; row < COUNT; row++) {\n"                                                          \
    "        const int at = row / STRIDE * STRIDE * LENGTH + row % STRIDE;\n"                                \
    "        const int end = at + LENGTH * STRIDE;\n" BODY "    }\n"

#define SOFTMAX(BODY)                                                                                        \
    ALONG("        float most = x[at];\n"                                                                    \
          "        double sum = 0;\n" EACH "most = x[i] > most ? x[i] : most;\n" BODY)

/* Sums in double, as the library takes them. */
#define NORM(MEAN)                                                                                           \
    ALONG(                                                                                                   \
        "        double mean = 0, squares = 0;\n" MEAN EACH "squares += (x[i] - mean) * (x[i] - mean);\n"    \
        "        const float middle = (float)mean, scale = (float)(1 / sqrt(squares / LENGTH + "             \
        "{epsilon}));\n" EACH                                                                                \
        "y[i] = (x[i] - middle) * scale{weight: * weight_$[i / AREA % N]}{bias: + bias_$[i / AREA % N]};\n")

#define FUNCTION(Y) "static float activation_$(float x)\n{\n    return " Y ";\n}\n\n"

/* ---- the table --------------------------------------------------------------------------------------------- */

static const form forms[] = {
    { "conv2d", PRODUCT, convolution },
    { "conv_transpose2d", PRODUCT, convolution },
    { "dense", PRODUCT, dense },
    { "maxpool", WINDOWS, maximum },
    { "avgpool", WINDOWS, average },
    { "lppool", WINDOWS, norm_of_window },
    { "adaptive_avgpool", TAPS, weighted_sum },
    { "upsample", TAPS, weighted_sum },
    { "pad2d", WINDOWS, padded },
    { "batchnorm", AFFINE, affine },
    { "prelu", CHANNELS, CHANNEL("x[i] > 0 ? x[i] : weight_$[c] * x[i]") },
    { "layernorm", ROWS, NORM(EACH "mean += x[i];\n        mean /= LENGTH;\n") },
    { "groupnorm", ROWS, NORM(EACH "mean += x[i];\n        mean /= LENGTH;\n") },
    { "rmsnorm", ROWS, NORM("") },
    { "softmax", ROWS, SOFTMAX(EACH "sum += y[i] = expf(x[i] - most);\n" EACH "y[i] /= (float)sum;\n") },
    { "log_softmax", ROWS,
      SOFTMAX(EACH "sum += expf(x[i] - most);\n        const float log_sum = (float)log(sum);\n" EACH
                   "y[i] = x[i] - most - log_sum;\n") },
    { "relu", ACTIVATION, FUNCTION("x < 0 ? 0 : x") },
    { "relu6", ACTIVATION, FUNCTION("x < 0 ? 0 : x > 6 ? 6 : x") },
    { "hardtanh", ACTIVATION, FUNCTION("x < {min_val} ? {min_val} : x > {max_val} ? {max_val} : x") },
    { "leaky_relu", ACTIVATION, FUNCTION("x < 0 ? {slope} * x : x") },
    { "elu", ACTIVATION, FUNCTION("x < 0 ? {alpha} * expm1f(x) : x") },
    { "selu", ACTIVATION, FUNCTION("1.05070099f * (x < 0 ? 1.67326324f * expm1f(x) : x)") },
    { "gelu", ACTIVATION,
      FUNCTION("{approximate:x / (1 + expf(x * (-1.59576912f - 0.0713548163f * x * x)))}"
               "{!approximate:x * erfcf(x * -0.707106781f) / 2}") },
    { "silu", ACTIVATION, FUNCTION("x / (1 + expf(-x))") },
    { "mish", ACTIVATION, FUNCTION("x * tanhf(x > 20 ? x : log1pf(expf(x)))") },
    { "sigmoid", ACTIVATION, FUNCTION("1 / (1 + expf(-x))") },
    { "tanh", ACTIVATION, FUNCTION("tanhf(x)") },
    { "softplus", ACTIVATION, FUNCTION("x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x))") },
    { "softsign", ACTIVATION, FUNCTION("x / (1 + fabsf(x))") },
    { "hardsigmoid", ACTIVATION, FUNCTION("x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5f") },
    { "hardswish", ACTIVATION, FUNCTION("x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6") },
    { "dropout", NOTHING },
    { "channel_dropout", NOTHING },
    { "flatten", NOTHING },
    { "unflatten", NOTHING },
    { "identity", NOTHING },
};

const form form_normalize = { "normalization", AFFINE, affine };
const form form_add = { "residual", CHANNELS, CHANNEL("x[i] + other[i]") };
const form form_copy = { "copy", CHANNELS, CHANNEL("x[i]") };

/* To the nearest integer; NaN is 127. */
const form form_int8 = {
    "int8", CHANNELS,
    "    for (int i = 0; i < AREA; i++) {\n"
    "        const float e = {range} * x[i];\n"
    "        y[i] = !(e < 127) ? 127 : e < -127 ? -127 : (int8_t)(e < 0 ? e - 0.5f : e + 0.5f);\n"
    "    }\n"
};

/* A type of the program's own may have the name of one of the library's. */
const form *form_of(const st_layer *l)
{
    const st_layer_type *const *type = st_layer_types;
    while (*type && *type != l->type) type++;
    for (size_t i = 0; *type && i < sizeof forms / sizeof *forms; i++)
        if (is_type(l, forms[i].type)) return &forms[i];
    return NULL;
}
