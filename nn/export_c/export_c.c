/* export_c.c: a net as one C file: its head, a function with its constants for each step, and model_predict, which
 * calls them. */
#define _POSIX_C_SOURCE 200809L
#include "nn/export_c/export_c.h"
#include "layers/layer_impl.h"
#include "layers/separable.h"
#include "layers/window.h"
#include "nn/data/classes.h"
#include "nn/data/normalize.h"
#include "nn/export_c/int8.h"
#include "nn/export_c/steps.h"
#include "nn/files/file.h"
#include "nn/files/replace.h"
#include <stride.h>

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    FILE *to;
    const st_net *net;
    const char *name;
    char *capitals, *body; /* the name; the file after its head */
    st_normalization *input;
    st_class_names *classes;
    const steps *steps;
    const step *s; /* the one that is written */
    st_export_c_sizes sizes;
    double products; /* multiply-adds */
} writer;

/* ---- text -------------------------------------------------------------------------------------------------- */

static void write_number(writer *w, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", (double)(float)value);
    if (isinf((float)value)) fputs(value > 0 ? "INFINITY" : "-INFINITY", w->to);
    else fprintf(w->to, strpbrk(text, ".e") ? "%sf" : "%s.0f", text);
}

static bool is_int8(const step *s)
{
    return s->form->kind == PRODUCT && s->range > 0;
}

static void write_text(writer *w, const char *text);

/* {name}: see forms.c. */
static void write_piece(writer *w, const char *name)
{
    const step *s = w->s;
    const bool small = is_int8(s), rows = s->form->kind == ROWS;
    const int params = s->l ? s->l->params : 0;
    const struct piece {
        const char *name;
        bool is;
        const char *then, *otherwise;
    } pieces[] = {
        { "type", small, "int8_t", "float" },
        { "total", small, "int32_t", "float" },
        { "sum", small, "int32_t sum[OW] = { 0 }",
          "float *const sum = y;\n            for (int i = 0; i < OW; i++) sum[i] = 0" },
        { "scale", small, "scale_$[o] * (float)", "" },
        { "weights", params > 0, rows ? " * weight_$[i / AREA % C]" : " * weight_$[c]", "" },
        { "biases", params > 1, rows ? " + bias_$[i / AREA % C]" : " + bias_$[c]", "" },
        { "activation", s->activation, "activation_$", "" },
    };
    size_t i = 0, count = sizeof pieces / sizeof *pieces;
    while (i < count && strcmp(pieces[i].name, name) != 0) i++;
    if (i < count) write_text(w, pieces[i].is ? pieces[i].then : pieces[i].otherwise);
    else write_number(w, strcmp(name, "range") == 0 ? 127 / s->range : layer_option(s->l, name));
}

static void write_text(writer *w, const char *text)
{
    for (const char *c = text; *c; c++) {
        char name[24] = "";
        if (*c == '$')
            for (const char *p = w->s->path; *p; p++) putc(*p == '.' ? '_' : *p, w->to);
        else if (sscanf(c, "{%23[a-z_]}", name) == 1) write_piece(w, name), c += strlen(name) + 1;
        else putc(*c, w->to);
    }
}

/* ---- constants --------------------------------------------------------------------------------------------- */

/* static const TYPE NAME_$[...] = { ... } */
static void write_constants(writer *w, const char *name, const char *type, st_tensor t)
{
    const bool floats = strcmp(type, "float") == 0;
    fprintf(w->to, "static const %s %s", type, name);
    write_text(w, "_$");
    fprintf(w->to, "[%td] = {", st_numel(t));
    for (ptrdiff_t i = 0; i < st_numel(t) && !st_error(); i++) {
        const double value = (double)(float)st_data(t)[i];
        if (!isfinite(value))
            st_error_set("layer %s: %s: its %s holds %g, which C has no constant for", w->s->path,
                         w->s->form->type, name, value);
        fputs(i % (floats ? 8 : 20) ? " " : "\n    ", w->to);
        if (floats) write_number(w, value);
        else fprintf(w->to, "%.0f", value);
        putc(',', w->to);
    }
    fputs("\n};\n", w->to);
    w->sizes.constants += st_numel(t) * (strcmp(type, "int8_t") == 0 ? 1 : 4);
}

static double number(st_tensor t, ptrdiff_t i)
{
    return (double)st_data(t)[i];
}

/* With a batchnorm folded in. As integers, the greatest magnitude of each output channel becomes 127. */
static void write_weights(writer *w)
{
    const step *s = w->s;
    const st_layer *l = s->l, *norm = s->norm;
    const ptrdiff_t channels = l->y.n[1], each = st_numel(l->param[0]) / channels;
    st_tensor weight = st_tensor_clone(int8_weight(l)), bias = st_tensor_new(ST_SHAPE(channels)),
              scale = st_tensor_clone(bias);
    if (is_int8(s) && each > INT32_MAX / (127 * 127))
        st_error_set("layer %s: %s: its sums overflow int32_t", s->path, s->form->type);
    for (ptrdiff_t k = 0; k < channels && !st_error(); k++) {
        double gain = 1, shift = l->params > 1 ? number(l->param[1], k) : 0;
        if (norm) gain = 1 / sqrt(number(norm->state[1], k) + layer_option(norm, "epsilon"));
        if (norm && norm->params > 0) gain *= number(norm->param[0], k);
        if (norm) shift = (shift - number(norm->state[0], k)) * gain;
        if (norm && norm->params > 1) shift += number(norm->param[1], k);
        st_real *row = st_data(weight) + k * each;
        for (ptrdiff_t i = 0; i < each; i++) row[i] = (st_real)((double)row[i] * gain);
        st_data(bias)[k] = (st_real)shift;
        if (is_int8(s)) st_data(scale)[k] = (st_real)(int8_round(row, each, 0) / 127 * s->range / 127);
    }
    write_constants(w, "weight", is_int8(s) ? "int8_t" : "float", weight);
    if (is_int8(s)) write_constants(w, "scale", "float", scale);
    if (is_int8(s)) w->sizes.as_float += 3 * st_numel(weight) - 4 * channels;
    write_constants(w, "bias", "float", bias);
    w->products += l->flops / 2 / (double)l->x.n[0];
    st_tensor_free(weight), st_tensor_free(bias), st_tensor_free(scale);
}

/* A row of y is a weighted sum of rows of x, and a column of columns: the first of them, their number, its weight and
 * the others'. */
static void write_taps(writer *w)
{
    static const char *const names[] = { "first", "count", "weight", "rest" };
    const st_layer *l = w->s->l;
    const ptrdiff_t rows = l->y.n[2], count = rows + l->y.n[3];
    st_tensor t = st_tensor_new(ST_SHAPE(4, count));
    for (ptrdiff_t i = 0; i < count && !st_error(); i++) {
        const int axis = i < rows ? 2 : 3;
        const taps at =
            ((const separable *)l->plan)->of(l->options, i < rows ? i : i - rows, l->x.n[axis], l->y.n[axis]);
        const st_real numbers[] = { (st_real)at.first, (st_real)at.count, at.weight, at.rest };
        for (int k = 0; k < 4; k++) st_data(t)[k * count + i] = numbers[k];
    }
    for (int k = 0; k < 4; k++) write_constants(w, names[k], k < 2 ? "int" : "float", st_select(t, 0, k));
    st_tensor_free(t);
}

static void write_normalization(writer *w)
{
    const double *const numbers[] = { w->input->mean, w->input->deviation };
    st_tensor t = st_tensor_new(ST_SHAPE(w->input->channels));
    for (int i = 0; i < 2; i++) {
        for (ptrdiff_t k = 0; k < st_numel(t); k++) st_data(t)[k] = (st_real)numbers[i][k];
        write_constants(w, i ? "deviation" : "mean", "float", t);
    }
    st_tensor_free(t);
}

/* Returns the number of channels that have constants of their own. */
static ptrdiff_t write_all_constants(writer *w)
{
    const step *s = w->s;
    const st_layer *l = s->l;
    ptrdiff_t channels = 1;
    if (s->form->kind == PRODUCT) write_weights(w);
    if (s->form->kind == TAPS) write_taps(w);
    if (s->form == &form_normalize) {
        write_normalization(w);
        channels = w->input->channels;
    }
    for (int i = 0; l && s->form->kind >= CHANNELS && i < l->params + l->states; i++) {
        const bool state = i >= l->params;
        st_tensor t = state ? l->state[i - l->params] : l->param[i];
        write_constants(w, state ? l->state_name[i - l->params] : l->param_name[i], "float", t);
        channels = st_numel(t);
    }
    return channels;
}

/* ---- sizes ------------------------------------------------------------------------------------------------- */

/* Along an axis: S stride, P padding before, X divisor, K kernel, D dilation, L the image with the padding behind it that
 * counts. Windows BEGIN ... END - 1 of a row lie in the image as a whole. */
static void write_windows(writer *w)
{
    const st_layer *l = w->s->l;
    const int groups = (int)layer_option(l, "groups");
    ptrdiff_t x[] = { l->x.n[2], l->x.n[3] }, y[] = { l->y.n[2], l->y.n[3] }, divide[] = { 1, 1 };
    window g = { .kernel = { 1, 1 }, .stride = { 1, 1 }, .dilation = { 1, 1 } };
    if (is_type(l, "pad2d")) {
        const st_pad2d_options *o = l->options;
        g.before[0] = o->height[0], g.before[1] = o->width[0];
    } else if (w->s->form->kind != TAPS) g = *(const window *)l->plan; /* what the plan begins with */
    for (int i = 0; i < 2 && is_type(l, "conv_transpose2d"); i++) {
        g.before[i] = (ptrdiff_t)g.dilation[i] * (g.kernel[i] - 1) - g.before[i];
        divide[i] = g.stride[i];
        g.stride[i] = 1;
    }
    if (is_type(l, "conv2d") && window_is_identity(&g)) /* an image is one row */
        x[1] *= x[0], y[1] *= y[0], x[0] = y[0] = 1;
    fprintf(w->to, "C = %td, H = %td, W = %td, O = %td, OH = %td, OW = %td, GROUPS = %d, PADDED = %d",
            l->x.n[1], x[0], x[1], l->y.n[1], y[0], y[1], groups > 0 ? groups : 1, window_padded(&g));
    for (int i = 0; i < 2; i++) {
        const char c = "HW"[i];
        fprintf(w->to, ",\n           S%c = %d, P%c = %td, X%c = %td, K%c = %d, D%c = %d, L%c = %td", c,
                g.stride[i], c, g.before[i], c, divide[i], c, g.kernel[i], c, g.dilation[i], c,
                x[i] + g.pad_after[i]);
    }
    if (w->s->form->kind == PRODUCT)
        fputs(",\n           ROOM = W + PW - (KW - 1) * DW,\n"
              "           FITTING = XW > 1 || ROOM < 1 ? 0 : (ROOM - 1) / SW + 1,\n"
              "           BEGIN = PW > 0 ? (PW + SW - 1) / SW : 0,\n"
              "           END = FITTING < BEGIN ? BEGIN : FITTING < OW ? FITTING : OW",
              w->to);
}

/* Rows along the axis of a softmax, groups of channels, or the last axes. */
static void write_rows(writer *w, ptrdiff_t channels)
{
    const st_layer *l = w->s->l;
    const st_shape x = l->x;
    const int axis = (int)layer_option(l, "axis"), axes = (int)layer_option(l, "axes"),
              groups = (int)layer_option(l, "groups");
    ptrdiff_t length = groups ? w->s->size / groups : 1, stride = 1;
    for (int i = axis ? axis : groups ? x.rank : axes ? x.rank - axes : 1; i < x.rank; i++)
        *(axis && i > axis ? &stride : &length) *= x.n[i];
    fprintf(w->to, "COUNT = %td, LENGTH = %td, STRIDE = %td, C = %td, AREA = %td", w->s->size / length,
            length, stride, channels, groups ? w->s->size / channels : 1);
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

static void write_step(writer *w, const step *s)
{
    const st_layer *after = s->activation != s->l ? s->activation : NULL;
    char text[200] = "";
    w->s = s;
    if (s->l) st_layer_describe(s->l, text, sizeof text);
    fprintf(w->to, "/* %s: %s%s%s%s */\n", s->path, s->l ? text : s->form->type, s->norm ? ", batchnorm" : "",
            after ? ", " : "", after ? after->type->name : "");
    const ptrdiff_t channels = write_all_constants(w);
    write_text(w, s->activation ? "static float activation_$(float x)\n{\n    return " : "");
    if (s->activation) {
        w->s = &(step){ .form = form_of(s->activation), .l = s->activation };
        write_text(w, w->s->form->text);
        fputs(";\n}\n\n", w->to);
        w->s = s;
    }
    const char *restricted = s->x == s->y ? "" : "RESTRICT ";
    write_text(w, "static void layer_$(const {type} *");
    fprintf(w->to, "%sx, %s%s *%sy)\n{\n    enum { ", restricted,
            s->form == &form_add ? "const float *other, " : "", s->form == &form_int8 ? "int8_t" : "float",
            restricted);
    if (s->form->kind == ROWS) write_rows(w, channels);
    else if (s->form->kind == CHANNELS) fprintf(w->to, "C = %td, AREA = %td", channels, s->size / channels);
    else if (s->l->x.rank == 2) fprintf(w->to, "C = %td, O = %td", s->l->x.n[1], s->l->y.n[1]);
    else write_windows(w);
    fputs(" };\n", w->to);
    write_text(w, s->form->text);
    fputs("}\n\n", w->to);
}

static void write_predict(writer *w)
{
    const steps *s = w->steps;
    fprintf(w->to, "void %s_predict_in(const float input[], float output[], float workspace[])\n{\n",
            w->name);
    fputs(s->workspace > 0 ? "" : "    (void)workspace;\n", w->to);
    for (int i = 1; i < s->values; i++) {
        const step_value *v = &s->value[i];
        const ptrdiff_t at = v->top ? s->workspace - v->offset - v->size : v->offset;
        fprintf(w->to,
                i == s->output ? "    float *const v%d = output;\n"
                               : "    float *const v%d = workspace + %td;\n",
                i, at);
    }
    for (int i = 0; i < s->count; i++) {
        const step *at = w->s = &s->step[i];
        write_text(w, "    layer_$(");
        fputs(is_int8(at) ? "(const int8_t *)" : "", w->to);
        fprintf(w->to, at->x == INPUT ? "input, " : "v%d, ", at->x);
        if (at->form == &form_add) fprintf(w->to, at->other == INPUT ? "input, " : "v%d, ", at->other);
        fprintf(w->to, at->at ? "%sv%d + %td);\n" : "%sv%d);\n", at->form == &form_int8 ? "(int8_t *)" : "",
                at->y, at->at);
    }
    fprintf(
        w->to,
        "}\n\nvoid %s_predict(const float input[], float output[])\n{\n    float workspace[%s_WORKSPACE];\n"
        "    %s_predict_in(input, output, workspace);\n}\n\n",
        w->name, w->capitals, w->name);
}

/* ---- the file ---------------------------------------------------------------------------------------------- */

/* Each name is a string of C: every byte that is not plain ASCII as three octal digits, and no trigraphs. */
static void write_classes(writer *w)
{
    fprintf(w->to, "const char *const %s_classes[%td] = {\n", w->name, w->classes->count);
    for (ptrdiff_t k = 0; k < w->classes->count; k++) {
        fputs("    \"", w->to);
        for (const unsigned char *c = (const unsigned char *)w->classes->name[k]; *c; c++)
            fprintf(w->to, *c < 32 || *c > 126 || strchr("\"\\?", *c) ? "\\%03o" : "%c", *c);
        fputs("\",\n", w->to);
    }
    fputs("};\n\n", w->to);
}

static const char int8_text[] = "/* The nearest integer; NaN is 127. */\n"
                                "static int8_t int8_of(float x)\n{\n"
                                "    if (!(x < 127)) return 127;\n"
                                "    return x < -127 ? -127 : (int8_t)(x < 0 ? x - 0.5f : x + 0.5f);\n}\n\n";

/* The head, and then the body, which was written before, as the head counts its constants. */
static int write_file(FILE *to, const void *writer_)
{
    const writer *w = writer_;
    const char *name = w->name, *NAME = w->capitals;
    const ptrdiff_t inputs = st_shape_numel(w->net->input, name),
                    outputs = st_shape_numel(w->net->output, name);
    fprintf(to,
            "/* %s: a neural network for inference, exported by Stride " ST_VERSION ". It needs a C99 or C++ "
            "compiler and math.h.\n *\n"
            " *     input          %td numbers %s%s\n"
            " *     output         %td numbers %s\n"
            " *     parameters     %td\n"
            " *     constants      %td bytes\n"
            " *     workspace      %td bytes\n"
            " *     multiply-adds  %.0f\n *\n"
            " * Other files declare what is here by defining %s_DECLARE before they include this one. */\n"
            "#define %s_INPUTS %td\n#define %s_OUTPUTS %td\n#define %s_WORKSPACE %td\n",
            name, inputs, st_shape_text(w->net->input).text, w->input ? ", which are normalized first" : "",
            outputs, st_shape_text(w->net->output).text, st_numel(st_net_parameters(w->net)),
            w->sizes.constants, w->sizes.workspace, w->products, NAME, NAME, inputs, NAME, outputs, NAME,
            w->steps->workspace > 0 ? w->steps->workspace : 1);
    if (w->classes) fprintf(to, "#define %s_CLASSES %td\n", NAME, w->classes->count);
    fprintf(to,
            "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
            "/* One image to its output. Reentrant: the workspace is on the stack, or the caller's. */\n"
            "void %s_predict(const float input[], float output[]);\n"
            "void %s_predict_in(const float input[], float output[], float workspace[]);\n",
            name, name);
    if (w->classes) fprintf(to, "extern const char *const %s_classes[%td];\n", name, w->classes->count);
    fprintf(
        to,
        "\n#ifdef __cplusplus\n}\n#endif\n\n#ifndef %s_DECLARE\n#include <math.h>\n#include <stdint.h>\n\n"
        "#ifdef __cplusplus\n#define RESTRICT __restrict\n#else\n#define RESTRICT restrict\n#endif\n\n"
        "%s%s#undef RESTRICT\n#endif\n",
        NAME, w->steps->range && w->products > 0 ? int8_text : "", w->body);
    return ferror(to) ? -1 : 0;
}

static int write_body(writer *w, steps *s, const float *ranges)
{
    size_t size = 0;
    if (st_error() || steps_plan(s, w->net, ranges)) return -1;
    w->capitals = strdup(w->name);
    w->to = w->capitals ? open_memstream(&w->body, &size) : NULL;
    if (!w->to) return st_error_set("no memory for the text of a net");
    for (char *c = w->capitals; *c; c++) *c = (char)toupper((unsigned char)*c);
    for (int i = 0; i < s->count && !st_error(); i++) write_step(w, &s->step[i]);
    if (w->classes) write_classes(w);
    write_predict(w);
    if (fclose(w->to)) st_error_set("no memory for the text of a net");
    w->sizes.workspace = s->workspace * (ptrdiff_t)sizeof(float);
    w->sizes.as_float += w->sizes.constants;
    return st_error() ? -1 : 0;
}

int st_net_export_c(st_net *n, const char *path, st_export_c_options options)
{
    static const char letters[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    if (st_error()) return -1;
    if (!path) return st_error_set("st_net_export_c: the path is NULL");
    if (st_is_null(st_net_parameters(n)))
        return st_error_set("%s: st_net_export_c before st_net_build", path);
    steps s = { 0 };
    writer w = { .net = n, .steps = &s, .name = options.name ? options.name : "model" };
    if (!w.name[0] || isdigit((unsigned char)w.name[0]) || w.name[strspn(w.name, letters)])
        return st_error_set("%s: the name is \"%.40s\", expected a C identifier", path, w.name);
    void *locale = c_locale_enter();
    float *ranges = options.int8 ? int8_ranges(n, options.int8) : NULL;
    w.classes = st_net_classes(n);
    w.input = st_net_normalization(n);
    int status =
        write_body(&w, &s, ranges) ? st_error_within("%s: ", path) : st_file_replace(path, write_file, &w);
    if (options.sizes) *options.sizes = w.sizes;
    c_locale_leave(locale);
    free(ranges), free(w.capitals), free(w.body);
    steps_free(&s);
    st_class_names_free(w.classes);
    st_normalization_free(w.input);
    return status;
}
