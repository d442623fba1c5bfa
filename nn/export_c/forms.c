/* forms.c: each family of layers as C, in one text of loops over constants, and the table of all types. */
#include "layers/conv_impl.h"
#include "layers/pool_impl.h"
#include "nn/data/normalize.h"
#include "nn/export_c/writer.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The option of that name, where the options' struct is the type's own affair. */
static double option(const st_layer *l, const char *name)
{
    const st_field *f = l->type->fields;
    while (strcmp(f->name, name) != 0) f++;
    const void *at = (const char *)l->options + f->offset;
    return f->kind == ST_FIELD_REAL ? *(const double *)at : *(const int *)at;
}

static double element_of(st_tensor t, ptrdiff_t i)
{
    return (double)st_data(t)[i];
}

/* ---- convolution and dense, with a batchnorm folded in ----------------------------------------------------- */

/* y = (x - mean) scale + shift of channel k. */
typedef struct affine {
    double mean, scale, shift;
} affine;

static affine affine_of(const st_layer *norm, ptrdiff_t k)
{
    if (!norm) return (affine){ 0, 1, 0 };
    const st_batchnorm_options *o = norm->options;
    affine a = { element_of(norm->state[0], k), 1 / sqrt(element_of(norm->state[1], k) + o->epsilon), 0 };
    if (norm->params == 0) return a;
    return (affine){ a.mean, a.scale * element_of(norm->param[0], k), element_of(norm->param[1], k) };
}

/* The output channel of element i of the weight: the first axis, or of a transposed convolution the second. */
static ptrdiff_t channel_of(const st_layer *l, ptrdiff_t i)
{
    const st_shape w = l->param[0].shape;
    ptrdiff_t each = st_numel(l->param[0]) / w.n[0];
    if (strcmp(l->type->name, "conv_transpose2d") != 0) return i / each;
    ptrdiff_t groups = ((const st_conv_transpose2d_options *)l->options)->groups;
    return i / each / (w.n[0] / groups) * w.n[1] + i % each / (each / w.n[1]);
}

static double weight_at(ptrdiff_t i, const void *context)
{
    const step *s = context;
    return element_of(s->l->param[0], i) * affine_of(s->norm, channel_of(s->l, i)).scale;
}

static double bias_at(ptrdiff_t k, const void *context)
{
    const step *s = context;
    const affine a = affine_of(s->norm, k);
    return ((s->l->params > 1 ? element_of(s->l->param[1], k) : 0) - a.mean) * a.scale + a.shift;
}

/* Weights as integers: the greatest magnitude of each output channel becomes 127, as that of the input does. */
typedef struct integers {
    const step *s;
    double input, *most; /* of the input, and of each channel */
} integers;

static double integer_at(ptrdiff_t i, const void *context)
{
    const integers *q = context;
    return rint(weight_at(i, q->s) / q->most[channel_of(q->s->l, i)] * 127);
}

/* A product of integers times this is the product of what they stand for. */
static double scale_back_at(ptrdiff_t k, const void *context)
{
    const integers *q = context;
    return q->most[k] / 127 * q->input / 127;
}

static void write_integers(writer *w, const step *s)
{
    const ptrdiff_t count = st_numel(s->l->param[0]), channels = s->l->y.n[1];
    integers q = { s, input_range(w, s), calloc((size_t)channels, sizeof(double)) };
    if (count / channels > INT32_MAX / (127 * 127)) step_refuse(s->path, s->l, "its sums overflow int32_t");
    else if (!q.most) st_error_set("no memory for the scales of %td channels", channels);
    for (ptrdiff_t i = 0; i < count && !st_error(); i++) {
        double *most = &q.most[channel_of(s->l, i)];
        *most = fmax(*most, fabs(weight_at(i, s)));
    }
    for (ptrdiff_t k = 0; k < channels && !st_error(); k++)
        if (q.most[k] == 0) q.most[k] = 1;
    if (!st_error()) {
        write_int8(w, s, "weight", count, integer_at, &q);
        write_floats(w, s, "scale", channels, scale_back_at, &q);
    }
    free(q.most);
}

static void write_weights(writer *w, const step *s)
{
    if (w->ranges) write_integers(w, s);
    else write_floats(w, s, "weight", st_numel(s->l->param[0]), weight_at, s);
    if (has_bias(s)) write_floats(w, s, "bias", s->l->y.n[1], bias_at, s);
}

/* The end of a row of a convolution. */
#define END_OF_ROW                                                                                           \
    "|            for (int i = 0; i < OW; i++) y[i] = scale_$[o] * (float)sum[i] + #;\n"                     \
    "!            for (int i = 0; i < OW; i++) y[i] = activation_$(y[i]);\n"                                 \
    "        }\n"

/* Its beginning. */
#define SUMS_OF_ROW                                                                                          \
    "^            float *const sum = y;\n"                                                                   \
    "^            for (int i = 0; i < OW; i++) sum[i] = #;\n"                                                \
    "|            int32_t sum[OW] = { 0 };\n"

#define SIZES                                                                                                \
    "C = %td, H = %td, W = %td, O = %td, OH = %td, OW = %td, KH = %d, KW = %d,\n"                            \
    "           SH = %d, SW = %d, PH = %td, PW = %td, DH = %d, DW = %d, "

/* Windows BEGIN ... END - 1 of a row lie in the image as a whole: the others are computed element by element. */
static void write_conv2d(writer *w, const step *s)
{
    const st_conv2d_options *o = s->l->options;
    const window *at = &((const conv_plan *)s->l->plan)->w;
    st_shape x = s->l->x, y = s->l->y;
    if (window_is_identity(at)) {
        x = ST_SHAPE(1, x.n[1], 1, x.n[2] * x.n[3]); /* an image is one row */
        y = ST_SHAPE(1, y.n[1], 1, y.n[2] * y.n[3]);
    }
    const ptrdiff_t room = x.n[3] + at->before[1] - (ptrdiff_t)o->dilation[1] * (o->kernel[1] - 1) - 1;
    ptrdiff_t begin = (at->before[1] + o->stride[1] - 1) / o->stride[1], end = room / o->stride[1] + 1;
    if (end > y.n[3]) end = y.n[3];
    if (room < 0 || end < begin) begin = end = 0;
    w->products += (double)st_numel(s->l->param[0]) * (double)(y.n[2] * y.n[3]);
    write_weights(w, s);
    write_begin(w, s, SIZES "GROUPS = %d, BEGIN = %td, END = %td", x.n[1], x.n[2], x.n[3], y.n[1], y.n[2],
                y.n[3], o->kernel[0], o->kernel[1], o->stride[0], o->stride[1], at->before[0], at->before[1],
                o->dilation[0], o->dilation[1], o->groups, begin, end);
    write_text(
        w, s,
        "    for (int o = 0; o < O; o++)\n"
        "        for (int oh = 0; oh < OH; oh++, y += OW) {\n"
        "            const int first = o / (O / GROUPS) * (C / GROUPS);\n" SUMS_OF_ROW
        "            for (int c = 0; c < C / GROUPS; c++)\n"
        "                for (int kh = 0; kh < KH; kh++) {\n"
        "                    const int ih = oh * SH - PH + kh * DH, row = ((first + c) * H + ih) * W - PW;\n"
        "                    const @ *weight = weight_$ + ((o * (C / GROUPS) + c) * KH + kh) * KW;\n"
        "                    if (ih < 0 || ih >= H) continue;\n"
        "                    for (int i = BEGIN; i < END; i++) {\n"
        "                        ` all = sum[i];\n"
        "                        for (int kw = 0; kw < KW; kw++) all += weight[kw] * x[row + i * SW + kw * "
        "DW];\n"
        "                        sum[i] = all;\n"
        "                    }\n"
        "                    for (int i = BEGIN > 0 ? 0 : END + 0; i < OW; i = i + 1 == BEGIN ? END + 0 : i "
        "+ 1)\n"
        "                        for (int kw = 0; kw < KW; kw++) {\n"
        "                            const int iw = i * SW - PW + kw * DW;\n"
        "                            if (iw >= 0 && iw < W) sum[i] += weight[kw] * x[row + PW + iw];\n"
        "                        }\n"
        "                }\n" END_OF_ROW,
        0);
}

/* The same with the sides swapped: a row of x is added to where the kernel puts it in a row of y. */
static void write_conv_transpose2d(writer *w, const step *s)
{
    const st_conv_transpose2d_options *o = s->l->options;
    const st_shape x = s->l->x, y = s->l->y;
    w->products += (double)st_numel(s->l->param[0]) * (double)(x.n[2] * x.n[3]);
    write_weights(w, s);
    write_begin(w, s, SIZES "GROUPS = %d", x.n[1], x.n[2], x.n[3], y.n[1], y.n[2], y.n[3], o->kernel[0],
                o->kernel[1], o->stride[0], o->stride[1], (ptrdiff_t)o->padding[0], (ptrdiff_t)o->padding[1],
                o->dilation[0], o->dilation[1], o->groups);
    write_text(
        w, s,
        "    for (int o = 0; o < O; o++)\n"
        "        for (int oh = 0; oh < OH; oh++, y += OW) {\n"
        "            const int first = o / (O / GROUPS) * (C / GROUPS), own = o % (O / GROUPS);\n" SUMS_OF_ROW
        "            for (int c = first; c < first + C / GROUPS; c++)\n"
        "                for (int kh = 0; kh < KH; kh++) {\n"
        "                    const int ih = (oh + PH - kh * DH) / SH;\n"
        "                    if (oh + PH < kh * DH || (oh + PH - kh * DH) % SH || ih >= H) continue;\n"
        "                    for (int kw = 0; kw < KW; kw++) {\n"
        "                        const @ weight = weight_$[((c * (O / GROUPS) + own) * KH + kh) * "
        "KW + kw];\n"
        "                        const int at = kw * DW - PW, end = end_inside(at, SW, OW, W);\n"
        "                        const @ *row = x + (c * H + ih) * W;\n"
        "                        for (int i = begin_inside(at, SW); i < end; i++) sum[at + i * SW] += "
        "weight * row[i];\n"
        "                    }\n"
        "                }\n" END_OF_ROW,
        0);
}

/* Eight sums at once become vectors, and lose less than one. */
static void write_dense(writer *w, const step *s)
{
    w->products += (double)st_numel(s->l->param[0]);
    write_weights(w, s);
    write_begin(w, s, "C = %td, O = %td", s->l->x.n[1], s->l->y.n[1]);
    write_text(w, s,
               "    for (int o = 0; o < O; o++) {\n"
               "        const @ *weight = weight_$ + o * C;\n"
               "        ` sum[8] = { 0 };\n"
               "        for (int i = 0; i + 8 <= C; i += 8)\n"
               "            for (int k = 0; k < 8; k++) sum[k] += weight[i + k] * x[i + k];\n"
               "        for (int i = C / 8 * 8; i < C; i++) sum[0] += weight[i] * x[i];\n"
               "        const ` all = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + "
               "(sum[6] + sum[7]));\n"
               "^        y[o] = all + #;\n"
               "|        y[o] = scale_$[o] * (float)all + #;\n"
               "!        y[o] = activation_$(y[o]);\n"
               "    }\n",
               0);
}

/* ---- pooling ------------------------------------------------------------------------------------------------ */

/* `begin`, then for each element of a window that lies in the image `each`, then `end`. */
static void write_pool(writer *w, const step *s, bool counted, const char *const text[3], double number)
{
    const window at = ((const pool_plan *)s->l->plan)->w;
    write_begin(w, s, SIZES "TOP = %td, BOTTOM = %td, LEFT = %td, RIGHT = %td, PADDED = %d", s->l->x.n[1],
                at.size[0], at.size[1], s->l->y.n[1], at.out[0], at.out[1], at.kernel[0], at.kernel[1],
                at.stride[0], at.stride[1], at.before[0], at.before[1], at.dilation[0], at.dilation[1],
                counted ? at.before[0] : 0, counted ? at.pad_after[0] : 0, counted ? at.before[1] : 0,
                counted ? at.pad_after[1] : 0, window_padded(&at));
    write_text(w, s,
               "    for (int c = 0; c < C; c++, x += H * W)\n"
               "        for (int oh = 0; oh < OH; oh++)\n"
               "            for (int ow = 0; ow < OW; ow++, y++) {\n",
               0);
    write_text(w, s, text[0], number);
    write_text(
        w, s,
        "                for (int kh = 0; kh < KH; kh++)\n"
        "                    for (int kw = 0; kw < KW; kw++) {\n"
        "                        const int ih = oh * SH - PH + kh * DH, iw = ow * SW - PW + kw * DW;\n",
        0);
    write_text(w, s, text[1], number);
    write_text(w, s, "                    }\n", 0);
    write_text(w, s, text[2], number);
    write_text(w, s, "            }\n", 0);
}

#define OUTSIDE "                        if (PADDED && (ih < 0 || ih >= H || iw < 0 || iw >= W))"

/* NaN is greater than any number. */
static void write_maxpool(writer *w, const step *s)
{
    static const char *const text[] = { "                float most = -INFINITY;\n",
                                        OUTSIDE " continue;\n"
                                                "                        const float e = x[ih * W + iw];\n"
                                                "                        if (e > most || e != e) most = e;\n",
                                        "                *y = most;\n" };
    static const char *const text_zero[] = { "                float most = -INFINITY;\n",
                                             "                        float e = 0;\n"
                                             "                        if (!PADDED || (ih >= 0 && ih < H && "
                                             "iw >= 0 && iw < W)) e = x[ih * W + iw];\n"
                                             "                        if (e > most || e != e) most = e;\n",
                                             "                *y = most;\n" };
    const st_maxpool_options *o = s->l->options;
    write_pool(w, s, false, o->pad_value == ST_PAD_ZERO ? text_zero : text, 0);
}

static void write_avgpool(writer *w, const step *s)
{
    static const char *const text[] = { "                float sum = 0;\n"
                                        "                int count = 0;\n",
                                        "                        if (PADDED && (ih < -TOP || ih >= H + "
                                        "BOTTOM || iw < -LEFT || iw >= W + RIGHT)) continue;\n"
                                        "                        count++;\n" OUTSIDE " continue;\n"
                                        "                        sum += x[ih * W + iw];\n",
                                        "                *y = count ? sum / (float)count : 0;\n" };
    const st_avgpool_options *o = s->l->options;
    write_pool(w, s, !o->count_exclude_pad, text, 0);
}

/* Powers are taken of ratios to the greatest element, so that none overflows. */
static void write_lppool(writer *w, const step *s)
{
    static const char *const text[] = {
        "                float most = 0, sum = 0;\n"
        "                for (int k = 0; k < KH * KW; k++) {\n"
        "                    const int ih = oh * SH - PH + k / KW * DH, iw = ow * SW - PW + k % KW * DW;\n"
        "                    if (PADDED && (ih < 0 || ih >= H || iw < 0 || iw >= W)) continue;\n"
        "                    const float e = fabsf(x[ih * W + iw]);\n"
        "                    if (e > most || e != e) most = e;\n"
        "                }\n",
        OUTSIDE " continue;\n"
                "                        if (most > 0) sum += powf(fabsf(x[ih * W + iw]) / most, ~);\n",
        "                *y = most > 0 ? most * powf(sum, 1 / ~) : most;\n"
    };
    const st_lppool_options *o = s->l->options;
    write_pool(w, s, false, text, o->p);
}

static void write_adaptive_avgpool(writer *w, const step *s)
{
    const st_shape x = s->l->x, y = s->l->y;
    write_begin(w, s, "C = %td, H = %td, W = %td, OH = %td, OW = %td", x.n[1], x.n[2], x.n[3], y.n[2],
                y.n[3]);
    write_text(w, s,
               "    for (int c = 0; c < C; c++, x += H * W)\n"
               "        for (int oh = 0; oh < OH; oh++)\n"
               "            for (int ow = 0; ow < OW; ow++) {\n"
               "                const int top = oh * H / OH, bottom = ((oh + 1) * H + OH - 1) / OH;\n"
               "                const int left = ow * W / OW, right = ((ow + 1) * W + OW - 1) / OW;\n"
               "                float sum = 0;\n"
               "                for (int h = top; h < bottom; h++) {\n"
               "                    float row = 0;\n"
               "                    for (int i = left; i < right; i++) row += x[h * W + i];\n"
               "                    sum += row;\n"
               "                }\n"
               "                *y++ = sum / (float)((bottom - top) * (right - left));\n"
               "            }\n",
               0);
}

/* ---- activations that are no expression in x ------------------------------------------------------------------ */

static void write_hardtanh(writer *w, const step *s)
{
    write_begin(w, s, "N = %td", s->size);
    write_text(w, s, "    for (int i = 0; i < N; i++) y[i] = x[i] < ~ ? ~ : x[i];\n",
               option(s->l, "min_val"));
    write_text(w, s, "    for (int i = 0; i < N; i++) y[i] = y[i] > ~ ? ~ : y[i];\n",
               option(s->l, "max_val"));
}

static void write_prelu(writer *w, const step *s)
{
    const ptrdiff_t weights = s->l->param[0].shape.n[0];
    write_tensor(w, s, "weight", s->l->param[0]);
    write_begin(w, s, "N = %td, AREA = %td", s->size, weights > 1 ? s->size / weights : s->size);
    write_text(w, s, "    for (int i = 0; i < N; i++) y[i] = x[i] > 0 ? x[i] : weight_$[i / AREA] * x[i];\n",
               0);
}

/* ---- normalisation -------------------------------------------------------------------------------------------- */

static double mean_at(ptrdiff_t k, const void *norm)
{
    return affine_of(norm, k).mean;
}

static double scale_at(ptrdiff_t k, const void *norm)
{
    return affine_of(norm, k).scale;
}

static double shift_at(ptrdiff_t k, const void *norm)
{
    return affine_of(norm, k).shift;
}

static void write_batchnorm(writer *w, const step *s)
{
    const ptrdiff_t channels = s->l->x.n[1];
    write_floats(w, s, "mean", channels, mean_at, s->l);
    write_floats(w, s, "scale", channels, scale_at, s->l);
    write_floats(w, s, "shift", channels, shift_at, s->l);
    write_begin(w, s, "C = %td, AREA = %td", channels, s->size / channels);
    write_text(w, s,
               "    for (int c = 0; c < C; c++)\n"
               "        for (int i = c * AREA; i < (c + 1) * AREA; i++) {\n"
               "            y[i] = (x[i] - mean_$[c]) * scale_$[c] + shift_$[c];\n"
               "!            y[i] = activation_$(y[i]);\n"
               "        }\n",
               0);
}

/* Sums in double, as the library takes them. Weight and bias have one element for each run of AREA. */
static void write_sets(writer *w, const step *s, ptrdiff_t sets, ptrdiff_t area, ptrdiff_t cycle,
                       double epsilon)
{
    const bool centred = strcmp(s->l->type->name, "rmsnorm") != 0;
    const int params = s->l->params;
    if (params > 0) write_tensor(w, s, "weight", s->l->param[0]);
    if (params > 1) write_tensor(w, s, "bias", s->l->param[1]);
    write_begin(w, s, "SETS = %td, LENGTH = %td, AREA = %td, CYCLE = %td", sets, s->size / sets, area, cycle);
    write_text(w, s,
               "    for (int set = 0; set < SETS; set++) {\n"
               "        double sum = 0, squares = 0;\n",
               0);
    if (centred)
        write_text(w, s, "        for (int i = set * LENGTH; i < (set + 1) * LENGTH; i++) sum += x[i];\n", 0);
    write_text(w, s,
               "        const double mean = sum / LENGTH;\n"
               "        for (int i = set * LENGTH; i < (set + 1) * LENGTH; i++) squares += (x[i] - mean) * "
               "(x[i] - mean);\n"
               "        const float middle = (float)mean, scale = (float)(1 / sqrt(squares / LENGTH + ~));\n"
               "        for (int i = set * LENGTH; i < (set + 1) * LENGTH; i++)\n",
               epsilon);
    write_text(
        w, s,
        params > 1   ? "            y[i] = (x[i] - middle) * scale * weight_$[i / AREA % CYCLE] + bias_$[i "
                       "/ AREA % CYCLE];\n"
                       "    }\n"
        : params > 0 ? "            y[i] = (x[i] - middle) * scale * weight_$[i / AREA % CYCLE];\n    }\n"
                     : "            y[i] = (x[i] - middle) * scale;\n    }\n",
        0);
}

static void write_layernorm(writer *w, const step *s)
{
    const st_layernorm_options *o = s->l->options;
    const st_shape x = s->l->x;
    ptrdiff_t length = 1;
    for (int axis = o->axes ? x.rank - o->axes : 1; axis < x.rank; axis++) length *= x.n[axis];
    write_sets(w, s, s->size / length, 1, length, o->epsilon);
}

static void write_groupnorm(writer *w, const step *s)
{
    const st_groupnorm_options *o = s->l->options;
    write_sets(w, s, o->groups, s->size / s->l->x.n[1], s->l->x.n[1], o->epsilon);
}

/* ---- along an axis, border and size ------------------------------------------------------------------------------ */

static void write_along(writer *w, const step *s, const char *result)
{
    const st_shape x = s->l->x;
    const int axis = (int)option(s->l, "axis");
    ptrdiff_t stride = 1;
    for (int i = axis + 1; i < x.rank; i++) stride *= x.n[i];
    write_begin(w, s, "ROWS = %td, LENGTH = %td, STRIDE = %td", s->size / x.n[axis], x.n[axis], stride);
    write_text(w, s,
               "    for (int row = 0; row < ROWS; row++) {\n"
               "        const int at = row / STRIDE * STRIDE * LENGTH + row % STRIDE;\n"
               "        float most = x[at];\n"
               "        double sum = 0;\n"
               "        for (int i = 1; i < LENGTH; i++)\n"
               "            if (x[at + i * STRIDE] > most) most = x[at + i * STRIDE];\n",
               0);
    write_text(w, s, result, 0);
}

static void write_softmax(writer *w, const step *s)
{
    write_along(w, s,
                "        for (int i = 0; i < LENGTH; i++) {\n"
                "            y[at + i * STRIDE] = expf(x[at + i * STRIDE] - most);\n"
                "            sum += y[at + i * STRIDE];\n"
                "        }\n"
                "        for (int i = 0; i < LENGTH; i++) y[at + i * STRIDE] /= (float)sum;\n"
                "    }\n");
}

static void write_log_softmax(writer *w, const step *s)
{
    write_along(
        w, s,
        "        for (int i = 0; i < LENGTH; i++) sum += expf(x[at + i * STRIDE] - most);\n"
        "        const float log_sum = (float)log(sum);\n"
        "        for (int i = 0; i < LENGTH; i++) y[at + i * STRIDE] = x[at + i * STRIDE] - most - log_sum;\n"
        "    }\n");
}

static void write_pad2d(writer *w, const step *s)
{
    static const char *const texts[] = {
        [ST_PAD_CONSTANT] = "                *y++ = h < 0 || h >= H || v < 0 || v >= W ? ~ : x[h * W + v];\n",
        [ST_PAD_REFLECT] = "                const int row = h < 0 ? -h : h < H ? h : 2 * (H - 1) - h;\n"
                           "                const int column = v < 0 ? -v : v < W ? v : 2 * (W - 1) - v;\n"
                           "                *y++ = x[row * W + column];\n",
        [ST_PAD_REPLICATE] = "                const int row = h < 0 ? 0 : h < H ? h : 0 + H - 1;\n"
                             "                const int column = v < 0 ? 0 : v < W ? v : 0 + W - 1;\n"
                             "                *y++ = x[row * W + column];\n",
    };
    const st_pad2d_options *o = s->l->options;
    write_begin(w, s, "C = %td, H = %td, W = %td, TOP = %d, BOTTOM = %d, LEFT = %d, RIGHT = %d", s->l->x.n[1],
                s->l->x.n[2], s->l->x.n[3], o->height[0], o->height[1], o->width[0], o->width[1]);
    write_text(w, s,
               "    for (int c = 0; c < C; c++, x += H * W)\n"
               "        for (int h = -TOP; h < H + BOTTOM; h++)\n"
               "            for (int v = -LEFT; v < W + RIGHT; v++) {\n",
               0);
    write_text(w, s, texts[o->mode], o->value);
    write_text(w, s, "            }\n", 0);
}

/* The position of row h of y among the rows of x is the fraction NUMERATOR / DENOMINATOR. */
static void write_upsample(writer *w, const step *s)
{
    const st_upsample_options *o = s->l->options;
    const st_shape x = s->l->x, y = s->l->y;
    const bool corners = o->align_corners;
    for (int axis = 2; axis < 4 && o->scale_factor > 0; axis++)
        if ((double)x.n[axis] * o->scale_factor != (double)y.n[axis]) {
            step_refuse(s->path, s->l, "scale_factor %g gives no whole number of pixels for %td",
                        o->scale_factor, x.n[axis]);
            return;
        }
    const ptrdiff_t below_h = corners ? (y.n[2] > 1 ? y.n[2] - 1 : 1) : 2 * y.n[2],
                    below_w = corners ? (y.n[3] > 1 ? y.n[3] - 1 : 1) : 2 * y.n[3];
    write_begin(w, s, "C = %td, H = %td, W = %td, OH = %td, OW = %td, BELOW_H = %td, BELOW_W = %td", x.n[1],
                x.n[2], x.n[3], y.n[2], y.n[3], below_h, below_w);
    write_text(w, s,
               "    for (int c = 0; c < C; c++, x += H * W)\n"
               "        for (int h = 0; h < OH; h++)\n"
               "            for (int v = 0; v < OW; v++) {\n",
               0);
    if (o->mode == ST_UPSAMPLE_BILINEAR)
        write_text(
            w, s,
            corners ? "                const int above_h = h * (H - 1), above_w = v * (W - 1);\n"
                    : "                const int row = (2 * h + 1) * H - OH, column = (2 * v + 1) * W - OW;\n"
                      "                const int above_h = row > 0 ? row : 0;\n"
                      "                const int above_w = column > 0 ? column : 0;\n",
            0);
    write_text(
        w, s,
        o->mode == ST_UPSAMPLE_NEAREST
            ? "                *y++ = x[h * H / OH * W + v * W / OW];\n"
              "            }\n"
            : "                const int top = above_h / BELOW_H, left = above_w / BELOW_W;\n"
              "                const int bottom = top + (top + 1 < H), right = left + (left + 1 < W);\n"
              "                const float down = (float)(above_h - top * BELOW_H) / BELOW_H;\n"
              "                const float over = (float)(above_w - left * BELOW_W) / BELOW_W;\n"
              "                *y++ = (1 - over) * ((1 - down) * x[top * W + left] + down * x[bottom * W + "
              "left]) +\n"
              "                       over * ((1 - down) * x[top * W + right] + down * x[bottom * W + "
              "right]);\n"
              "            }\n",
        0);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------ */

static double input_mean_at(ptrdiff_t k, const void *of)
{
    return ((const st_normalization *)of)->mean[k];
}

static double input_deviation_at(ptrdiff_t k, const void *of)
{
    const double deviation = ((const st_normalization *)of)->deviation[k];
    return deviation > 0 ? deviation : 1;
}

static void write_normalize(writer *w, const step *s)
{
    st_normalization *of = st_net_normalization(w->net);
    if (!of) return;
    write_floats(w, s, "mean", of->channels, input_mean_at, of);
    write_floats(w, s, "deviation", of->channels, input_deviation_at, of);
    write_begin(w, s, "C = %td, AREA = %td", of->channels, s->size / of->channels);
    write_text(w, s,
               "    for (int c = 0; c < C; c++)\n"
               "        for (int i = c * AREA; i < (c + 1) * AREA; i++) {\n"
               "            y[i] = (x[i] - mean_$[c]) / deviation_$[c];\n"
               "!            y[i] = activation_$(y[i]);\n"
               "        }\n",
               0);
    st_normalization_free(of);
}

static void write_add(writer *w, const step *s)
{
    write_begin(w, s, "N = %td", s->size);
    write_text(w, s,
               "    for (int i = 0; i < N; i++) {\n"
               "        y[i] = x[i] + other[i];\n"
               "!        y[i] = activation_$(y[i]);\n"
               "    }\n",
               0);
}

/* A copy is a line in the function that calls all others: see export_c.c. */
static void write_copy(writer *w, const step *s)
{
    (void)w, (void)s;
}

const form form_normalize = { "normalization", write_normalize, NULL, true, false, true };
const form form_copy = { "copy", write_copy, NULL, false, false, false };
const form form_add = { "residual", write_add, NULL, true, false, true };

static const form forms[] = {
    { "conv2d", write_conv2d, .takes_norm = true, .takes_activation = true, .weighs = true },
    { "conv_transpose2d", write_conv_transpose2d, .takes_norm = true, .takes_activation = true,
      .weighs = true },
    { "dense", write_dense, .takes_norm = true, .takes_activation = true, .weighs = true },
    { "maxpool", write_maxpool },
    { "avgpool", write_avgpool },
    { "lppool", write_lppool },
    { "adaptive_avgpool", write_adaptive_avgpool },
    { "batchnorm", write_batchnorm, .in_place = true, .takes_activation = true },
    { "layernorm", write_layernorm, .in_place = true },
    { "rmsnorm", write_layernorm, .in_place = true },
    { "groupnorm", write_groupnorm, .in_place = true },
    { "softmax", write_softmax, .in_place = true },
    { "log_softmax", write_log_softmax, .in_place = true },
    { "pad2d", write_pad2d },
    { "upsample", write_upsample },
    { "relu", .activation = "x < 0 ? 0 : x", .in_place = true },
    { "relu6", .activation = "x < 0 ? 0 : x > 6 ? 6 : x", .in_place = true },
    { "hardtanh", write_hardtanh, .in_place = true },
    { "prelu", write_prelu, .in_place = true },
    { "leaky_relu", .activation = "x < 0 ? ~ * x : x", .in_place = true },
    { "elu", .activation = "x < 0 ? ~ * expm1f(x) : x", .in_place = true },
    { "selu", .activation = "1.05070099f * (x < 0 ? 1.67326324f * expm1f(x) : x)", .in_place = true },
    { "gelu", .activation = "x * erfcf(x * -0.707106781f) / 2", .in_place = true },
    { "silu", .activation = "x / (1 + expf(-x))", .in_place = true },
    { "mish", .activation = "x * tanhf(x > 20 ? x : log1pf(expf(x)))", .in_place = true },
    { "sigmoid", .activation = "1 / (1 + expf(-x))", .in_place = true },
    { "tanh", .activation = "tanhf(x)", .in_place = true },
    { "softplus", .activation = "x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x))", .in_place = true },
    { "softsign", .activation = "x / (1 + fabsf(x))", .in_place = true },
    { "hardsigmoid", .activation = "x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5f", .in_place = true },
    { "hardswish", .activation = "x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6", .in_place = true },
    { "dropout" },
    { "channel_dropout" },
    { "flatten" },
    { "unflatten" },
    { "identity" },
};

static const form gelu_tanh = { "gelu",
                                .activation = "x / (1 + expf(x * (-1.59576912f - 0.0713548163f * x * x)))",
                                .in_place = true };

/* A type of the program's own may have the name of one of the library's. */
const form *form_of(const st_layer *l)
{
    const st_layer_type *const *type = st_layer_types;
    while (*type && *type != l->type) type++;
    if (*type && strcmp(l->type->name, "gelu") == 0 && option(l, "approximate") == ST_GELU_TANH)
        return &gelu_tanh;
    for (size_t i = 0; *type && i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].type, l->type->name) == 0) return &forms[i];
    return NULL;
}
