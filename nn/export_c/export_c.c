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
    steps steps;
    const step *s; /* the one that is written, and */
    int number;
    st_export_c_sizes sizes;
    double products; /* multiply-adds */
} writer;

/* ---- text -------------------------------------------------------------------------------------------------- */

static void write_number(writer *w, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", (double)(float)value);
    if (isinf((float)value)) fputs(value > 0 ? "INFINITY" : "-INFINITY", w->to);
    else fprintf(w->to, strpbrk(text, ".e") ? "%sf" : "%s", text);
}

static bool is_int8(const step *s)
{
    return s->form->kind == PRODUCT && s->range > 0;
}

static bool has(const step *s, const char *name)
{
    if (strcmp(name, "activation") == 0) return s->activation != NULL;
    if (strcmp(name, "int8") == 0) return is_int8(s);
    if (strcmp(name, "float") == 0) return !is_int8(s);
    int i = 0;
    while (i < s->l->params && strcmp(s->l->param_name[i], name) != 0) i++;
    return i < s->l->params;
}

/* Along an axis: S stride, P padding before, X divisor, K kernel, D dilation, L the image with the padding behind it that
 * counts; windows BEGIN ... END - 1 of a row lie in the image as a whole. CG and OG are channels of a group, N those that
 * have constants. Rows lie along the axis of a softmax, or are groups of channels, or the last axes. */
static ptrdiff_t size_of(const writer *w, const char *name)
{
    static const char *const names[] = {
        "C",  "CG", "O",  "OG", "H",  "W",  "OH",    "OW",  "SH",    "SW",     "PH",     "PW", "XH",  "XW",
        "KH", "KW", "DH", "DW", "LH", "LW", "BEGIN", "END", "COUNT", "LENGTH", "STRIDE", "N",  "AREA"
    };
    const step *s = w->s;
    const st_layer *l = s->l;
    const bool own = is_type(l, s->form->type),
               windows = s->form->kind == WINDOWS || s->form->kind == PRODUCT;
    const st_shape x = l->x, y = l->y;
    const int axis = (int)layer_option(l, "axis"), axes = (int)layer_option(l, "axes"),
              groups = (int)layer_option(l, "groups"), parts = groups ? groups : 1;
    ptrdiff_t in[] = { x.n[2], x.n[3] }, out[] = { y.n[2], y.n[3] }, divide[] = { 1, 1 };
    window g = { .stride = { 1, 1 } };
    if (windows && x.rank == 4 && l->plan) g = *(const window *)l->plan; /* what the plan begins with */
    for (int i = 0; i < 2 && is_type(l, "conv_transpose2d"); i++) {
        g.before[i] = (ptrdiff_t)g.dilation[i] * (g.kernel[i] - 1) - g.before[i];
        divide[i] = g.stride[i];
        g.stride[i] = 1;
    }
    if (is_type(l, "conv2d") && window_is_identity(&g) && in[0] * in[1] <= 256) /* an image is one row */
        in[1] *= in[0], out[1] *= out[0], in[0] = out[0] = 1;
    const ptrdiff_t room = in[1] + g.before[1] - (ptrdiff_t)(g.kernel[1] - 1) * g.dilation[1],
                    fitting = divide[1] > 1 || room < 1 ? 0 : (room - 1) / g.stride[1] + 1,
                    begin = g.before[1] > 0 ? (g.before[1] + g.stride[1] - 1) / g.stride[1] : 0,
                    end = fitting < out[1] ? fitting : out[1];
    ptrdiff_t length = groups ? s->size / groups : 1, stride = 1, channels = 1;
    for (int i = axis ? axis : groups ? x.rank : axes ? x.rank - axes : 1; i < x.rank; i++)
        *(axis && i > axis ? &stride : &length) *= x.n[i];
    if (s->form->kind >= CHANNELS && own && l->params > 0) channels = st_numel(l->param[0]);
    if (s->form->kind == AFFINE) channels = own ? x.n[1] : w->input->channels;
    const ptrdiff_t area = s->form->kind != ROWS || groups ? s->size / channels : 1;
    const ptrdiff_t sizes[] = { x.n[1],
                                x.n[1] / parts,
                                y.n[1],
                                y.n[1] / parts,
                                in[0],
                                in[1],
                                out[0],
                                out[1],
                                g.stride[0],
                                g.stride[1],
                                g.before[0],
                                g.before[1],
                                divide[0],
                                divide[1],
                                g.kernel[0],
                                g.kernel[1],
                                g.dilation[0],
                                g.dilation[1],
                                in[0] + g.pad_after[0],
                                in[1] + g.pad_after[1],
                                begin,
                                end < begin ? begin : end,
                                s->size / length,
                                length,
                                stride,
                                channels,
                                area };
    int i = 0;
    while (strcmp(names[i], name) != 0) i++;
    return sizes[i];
}

/* See forms.c. */
static void write_text(writer *w, const char *text)
{
    for (; *text; text++) {
        char name[24] = "", part[80] = "";
        if (*text == '{') sscanf(text, "{%23[A-Za-z0-9_]:%79[^}]", name, part);
        if (*text == '$') fprintf(w->to, "%d", w->number);
        else if (!name[0]) putc(*text, w->to);
        else if (part[0]) write_text(w, has(w->s, name) ? part : "");
        else if (isupper((unsigned char)name[0])) fprintf(w->to, "%s = %td", name, size_of(w, name));
        else write_number(w, strcmp(name, "range") == 0 ? 127 / w->s->range : layer_option(w->s->l, name));
        if (name[0]) text = strchr(text, '}');
    }
}

/* ---- constants --------------------------------------------------------------------------------------------- */

/* static const TYPE NAME_NUMBER[...] = { ... } */
static void write_constants(writer *w, const char *type, const char *name, st_tensor t)
{
    fprintf(w->to, "static const %s %s_%d[%td] = {", type, name, w->number, st_numel(t));
    for (ptrdiff_t i = 0; i < st_numel(t) && !st_error(); i++) {
        const double value = (double)(float)st_data(t)[i];
        if (!isfinite(value))
            st_error_set("layer %s: %s: its %s holds %g, which C has no constant for", w->s->path,
                         w->s->form->type, name, value);
        fputs(i % 10 ? " " : "\n    ", w->to);
        write_number(w, value);
        putc(',', w->to);
    }
    fputs("\n};\n", w->to);
    w->sizes.constants += st_numel(t) * (strcmp(type, "float") == 0 ? 4 : 1);
}

static double number(st_tensor t, ptrdiff_t i)
{
    return (double)st_data(t)[i];
}

/* With a batchnorm or the normalization folded in. As integers, the greatest magnitude of each output channel becomes
 * 127. */
static void write_weights(writer *w)
{
    const step *s = w->s;
    const st_layer *l = s->form->kind == PRODUCT ? s->l : NULL, *norm = s->norm;
    const st_normalization *input = l || norm ? NULL : w->input;
    const ptrdiff_t channels = input ? input->channels : s->l->y.n[1];
    st_tensor bias = st_tensor_new(ST_SHAPE(channels)), scale = st_tensor_clone(bias),
              weight = st_tensor_clone(l ? int8_weight(l) : bias);
    const ptrdiff_t each = st_numel(weight) / channels;
    if (!l) st_fill(weight, 1);
    if (is_int8(s) && each > INT32_MAX / (127 * 127))
        st_error_set("layer %s: %s: its sums overflow int32_t", s->path, s->form->type);
    for (ptrdiff_t k = 0; k < channels && !st_error(); k++) {
        double gain = 1, shift = l && l->params > 1 ? number(l->param[1], k) : 0;
        if (norm) gain = 1 / sqrt(number(norm->state[1], k) + layer_option(norm, "epsilon"));
        if (norm && norm->params > 0) gain *= number(norm->param[0], k);
        if (norm) shift = (shift - number(norm->state[0], k)) * gain;
        if (norm && norm->params > 1) shift += number(norm->param[1], k);
        if (input && input->deviation[k] > 0) gain = 1 / input->deviation[k];
        if (input) shift = -input->mean[k] * gain;
        st_real *row = st_data(weight) + k * each;
        for (ptrdiff_t i = 0; i < each; i++) row[i] = (st_real)((double)row[i] * gain);
        st_data(bias)[k] = (st_real)shift;
        if (is_int8(s)) st_data(scale)[k] = (st_real)(int8_round(row, each, 0) / 127 * s->range / 127);
    }
    write_constants(w, is_int8(s) ? "int8_t" : "float", "weight", weight);
    if (is_int8(s)) write_constants(w, "float", "scale", scale);
    if (is_int8(s)) w->sizes.as_float += 3 * st_numel(weight) - 4 * channels;
    write_constants(w, "float", "bias", bias);
    if (l) w->products += l->flops / 2 / (double)l->x.n[0];
    st_tensor_free(weight), st_tensor_free(bias), st_tensor_free(scale);
}

/* A row of y is a weighted sum of rows of x, and a column of columns: the first of them, their number, its weight and
 * the others'. */
static void write_taps(writer *w)
{
    const st_layer *l = w->s->l;
    const ptrdiff_t rows = l->y.n[2], count = rows + l->y.n[3];
    st_tensor t = st_tensor_new(ST_SHAPE(count, 4));
    for (ptrdiff_t i = 0; i < count && !st_error(); i++) {
        const int axis = i < rows ? 2 : 3;
        const taps of =
            ((const separable *)l->plan)->of(l->options, i < rows ? i : i - rows, l->x.n[axis], l->y.n[axis]);
        const st_real row[] = { (st_real)of.first, (st_real)of.count, of.weight, of.rest };
        memcpy(st_data(t) + 4 * i, row, sizeof row);
    }
    write_constants(w, "float", "taps", t);
    st_tensor_free(t);
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

static void write_step(writer *w, const step *s)
{
    const st_layer *l = s->l, *after = s->activation;
    const bool own = is_type(l, s->form->type);
    char text[200] = "";
    w->s = s;
    st_layer_describe(l, text, sizeof text);
    fprintf(w->to, "/* %s: %s%s%s%s */\n", s->path, own ? text : s->form->type,
            s->norm && s->norm != l ? ", batchnorm" : "", after ? ", " : "", after ? after->type->name : "");
    if (s->form->kind == PRODUCT || s->form->kind == AFFINE) write_weights(w);
    else if (s->form->kind == TAPS) write_taps(w);
    else
        for (int i = 0; own && i < l->params; i++) write_constants(w, "float", l->param_name[i], l->param[i]);
    if (after) {
        write_text(w, "static float activation_$(float x)\n{\n    return ");
        w->s = &(step){ .form = form_of(after), .l = after };
        write_text(w, w->s->form->text);
        fputs(";\n}\n\n", w->to);
        w->s = s;
    }
    fprintf(w->to, "static void layer_%d(const %s *x, %s%s *y)\n{\n", w->number,
            is_int8(s) ? "int8_t" : "float", s->form == &form_add ? "const float *other, " : "",
            s->form == &form_int8 ? "int8_t" : "float");
    write_text(w, s->form->text);
    fputs("}\n\n", w->to);
}

static void write_predict(writer *w)
{
    const steps *s = &w->steps;
    fprintf(w->to,
            "void %s_predict_in(const float input[], float output[], float workspace[])\n{\n    const float "
            "*const v0 = input;\n",
            w->name);
    fputs(s->workspace > 0 ? "" : "    (void)workspace;\n", w->to);
    for (int i = 1; i < s->values; i++) {
        const step_value v = s->value[i];
        if (v.side == OUTSIDE) fprintf(w->to, "    float *const v%d = output;\n", i);
        else
            fprintf(w->to, "    float *const v%d = workspace + %td;\n", i,
                    v.side == TOP ? s->workspace - v.offset - v.size : v.offset);
    }
    for (int i = 0; i < s->count; i++) {
        const step *a = &s->step[i];
        fprintf(w->to, "    layer_%d(%sv%d, ", i, is_int8(a) ? "(const int8_t *)" : "", a->x);
        if (a->form == &form_add) fprintf(w->to, "v%d, ", a->other);
        fprintf(w->to, a->at ? "%sv%d + %td);\n" : "%sv%d);\n", a->form == &form_int8 ? "(int8_t *)" : "",
                a->y, a->at);
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
            w->steps.workspace > 0 ? w->steps.workspace : 1);
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
        "%s%s#endif\n",
        NAME, w->steps.range && w->products > 0 ? int8_text : "", w->body);
    return ferror(to) ? -1 : 0;
}

static int write_body(writer *w, const float *ranges)
{
    size_t size = 0;
    if (st_error() || steps_plan(&w->steps, w->net, ranges)) return -1;
    w->capitals = strdup(w->name);
    w->to = w->capitals ? open_memstream(&w->body, &size) : NULL;
    if (!w->to) return st_error_set("no memory for the text of a net");
    for (char *c = w->capitals; *c; c++) *c = (char)toupper((unsigned char)*c);
    for (w->number = 0; w->number < w->steps.count && !st_error(); w->number++)
        write_step(w, &w->steps.step[w->number]);
    if (w->classes) write_classes(w);
    write_predict(w);
    if (fclose(w->to)) st_error_set("no memory for the text of a net");
    w->sizes.workspace = w->steps.workspace * (ptrdiff_t)sizeof(float);
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
    writer w = { .net = n, .name = options.name ? options.name : "model" };
    if (!w.name[0] || isdigit((unsigned char)w.name[0]) || w.name[strspn(w.name, letters)])
        return st_error_set("%s: the name is \"%.40s\", expected a C identifier", path, w.name);
    void *locale = c_locale_enter();
    float *ranges = options.int8 ? int8_ranges(n, options.int8) : NULL;
    w.classes = st_net_classes(n);
    w.input = st_net_normalization(n);
    int status =
        write_body(&w, ranges) ? st_error_within("%s: ", path) : st_file_replace(path, write_file, &w);
    if (options.sizes) *options.sizes = w.sizes;
    c_locale_leave(locale);
    free(ranges), free(w.capitals), free(w.body);
    free(w.steps.step), free(w.steps.value);
    st_class_names_free(w.classes);
    st_normalization_free(w.input);
    return status;
}
