/* export_c.c: a net as one C file: its head, a function with its constants for each step, and model_predict, which
 * calls them. */
#define _POSIX_C_SOURCE 200809L
#include "layers/layer_impl.h"
#include "layers/separable.h"
#include "layers/window.h"
#include "nn/export_c/int8.h"
#include "nn/export_c/steps.h"
#include "nn/files/file.h"
#include <stride.h>

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    FILE *to;
    const char *name;
    char *capitals, *body; /* the name; the file after its head */
    const st_net *net;
    st_normalization *input;
    st_class_names *classes;
    steps steps;
    const step *s; /* the one that is written, and */
    int number;
    ptrdiff_t channels; /* the last constants of it */
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

static bool has(const step *s, const char *name)
{
    int i = 0;
    if (name[0] == '!') return !has(s, name + 1);
    if (strcmp(name, "activation") == 0) return s->activation != NULL;
    if (strcmp(name, "int8") == 0) return s->int8;
    while (i < s->l->params && strcmp(s->l->param_name[i], name) != 0) i++;
    return i < s->l->params || layer_option(s->l, name) != 0;
}

/* See forms.c. */
static void write_text(writer *w, const char *text)
{
    for (; *text; text++) {
        char name[24] = "", part[80] = "";
        if (*text == '{') sscanf(text, "{%23[a-z0-9_!]:%79[^}]", name, part);
        if (*text == '$') fprintf(w->to, "%d", w->number);
        else if (!name[0]) putc(*text, w->to);
        else if (part[0]) write_text(w, has(w->s, name) ? part : "");
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
    w->channels = st_numel(t);
    w->sizes.constants += w->channels * (strcmp(type, "float") == 0 ? 4 : 1);
}

static double parameter(const st_layer *l, int i, ptrdiff_t k, double otherwise)
{
    return i < l->params ? (double)st_data(l->param[i])[k] : otherwise;
}

/* With a batchnorm or the normalization folded in. As integers, the greatest magnitude of each output channel is 127. */
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
    if (s->int8 && each > INT32_MAX / (127 * 127))
        st_error_set("layer %s: %s: its sums overflow int32_t", s->path, s->form->type);
    for (ptrdiff_t k = 0; k < channels && !st_error(); k++) {
        double gain = 1, shift = l ? parameter(l, 1, k, 0) : 0;
        if (norm) {
            gain /= sqrt((double)st_data(norm->state[1])[k] + layer_option(norm, "epsilon"));
            gain *= parameter(norm, 0, k, 1);
            shift = (shift - (double)st_data(norm->state[0])[k]) * gain + parameter(norm, 1, k, 0);
        }
        if (input && input->deviation[k] > 0) gain = 1 / input->deviation[k];
        if (input) shift = -input->mean[k] * gain;
        st_scale(st_select(st_reshape(weight, ST_SHAPE(channels, each)), 0, k), (st_real)gain);
        st_data(bias)[k] = (st_real)shift;
        if (s->int8)
            st_data(scale)[k] =
                (st_real)(int8_round(st_data(weight) + k * each, each, 0) / 127 * s->range / 127);
    }
    write_constants(w, s->int8 ? "int8_t" : "float", "weight", weight);
    if (s->int8) write_constants(w, "float", "scale", scale);
    if (s->int8) w->sizes.as_float += 3 * st_numel(weight) - 4 * channels;
    write_constants(w, "float", "bias", bias);
    w->products += l ? l->flops / 2 / (double)l->x.n[0] : 0;
    st_tensor_free(weight), st_tensor_free(bias), st_tensor_free(scale);
}

/* A row of y is a weighted sum of rows of x, and a column of columns: the first of them, their number, its weight and
 * the others'. */
static void write_taps(writer *w)
{
    const st_layer *l = w->s->l;
    const separable *matrix = l->plan;
    const ptrdiff_t rows = l->y.n[2], count = rows + l->y.n[3];
    st_tensor t = st_tensor_new(ST_SHAPE(count, 4));
    for (ptrdiff_t i = 0; i < count && !st_error(); i++) {
        const int axis = i < rows ? 2 : 3;
        const taps of = matrix->of(l->options, i < rows ? i : i - rows, l->x.n[axis], l->y.n[axis]);
        const st_real row[] = { (st_real)of.first, (st_real)of.count, of.weight, of.rest };
        memcpy(st_data(t) + 4 * i, row, sizeof row);
    }
    write_constants(w, "float", "taps", t);
    st_tensor_free(t);
}

/* ---- sizes ------------------------------------------------------------------------------------------------- */

/* Along an axis: S stride, P padding before, X divisor, K kernel, D dilation, L the image with the padding behind it that
 * counts. CG and OG are channels of a group; windows BEGIN ... END - 1 of a row lie in the image as a whole. */
static void write_windows(writer *w)
{
    const st_layer *l = w->s->l;
    const ptrdiff_t *x = l->x.n, *y = l->y.n, groups = (ptrdiff_t)fmax(layer_option(l, "groups"), 1);
    ptrdiff_t in[] = { x[2], x[3] }, out[] = { y[2], y[3] }, divide[] = { 1, 1 }, begin = 0, end;
    window g = { .stride = { 1, 1 } };
    if (w->s->form->kind != TAPS && l->x.rank == 4 && l->plan)
        g = *(const window *)l->plan; /* it begins the plan */
    for (int i = 0; i < 2 && is_type(l, "conv_transpose2d"); i++) {
        g.before[i] = (ptrdiff_t)g.dilation[i] * (g.kernel[i] - 1) - g.before[i];
        divide[i] = g.stride[i];
        g.stride[i] = 1;
    }
    if (is_type(l, "conv2d") && window_is_identity(&g) && in[0] * in[1] <= 256) /* an image is one row */
        in[1] *= in[0], out[1] *= out[0], in[0] = out[0] = 1;
    const ptrdiff_t reach = (g.kernel[1] - 1) * (ptrdiff_t)g.dilation[1] - g.before[1];
    fprintf(w->to, "    enum { C = %td, O = %td, CG = %td, OG = %td", x[1], y[1], x[1] / groups,
            y[1] / groups);
    if (l->x.rank == 4)
        fprintf(w->to, ", H = %td, W = %td, OH = %td, OW = %td", in[0], in[1], out[0], out[1]);
    for (int i = 0; i < 2 && g.kernel[0] > 0; i++)
        fprintf(w->to, ",\n           S%c = %d, P%c = %td, X%c = %td, K%c = %d, D%c = %d, L%c = %td", "HW"[i],
                g.stride[i], "HW"[i], g.before[i], "HW"[i], divide[i], "HW"[i], g.kernel[i], "HW"[i],
                g.dilation[i], "HW"[i], in[i] + g.pad_after[i]);
    while (begin < out[1] && begin * g.stride[1] < g.before[1]) begin++;
    for (end = begin; divide[1] == 1 && end < out[1] && end * g.stride[1] + reach < in[1];) end++;
    if (g.kernel[0] > 0) fprintf(w->to, ",\n           BEGIN = %td, END = %td", begin, end);
    fputs(" };\n", w->to);
}

/* N channels have constants of their own. Rows lie along the axis of a softmax, or are groups of channels, or the last
 * axes. */
static void write_rows(writer *w)
{
    const step *s = w->s;
    const st_shape x = s->l->x;
    const int axis = (int)layer_option(s->l, "axis"), axes = (int)layer_option(s->l, "axes"),
              groups = (int)layer_option(s->l, "groups");
    ptrdiff_t length = groups ? s->size / groups : 1, stride = 1;
    for (int i = axis ? axis : groups ? x.rank : axes ? x.rank - axes : 1; i < x.rank; i++)
        *(axis && i > axis ? &stride : &length) *= x.n[i];
    const ptrdiff_t area = s->form->kind != ROWS || groups ? s->size / w->channels : 1;
    fprintf(w->to, "    enum { N = %td, AREA = %td", w->channels, area);
    if (s->form->kind == ROWS)
        fprintf(w->to, ", COUNT = %td, LENGTH = %td, STRIDE = %td", s->size / length, length, stride);
    fputs(" };\n", w->to);
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

static void write_step(writer *w, const step *s)
{
    const st_layer *l = s->l, *after = s->activation;
    const bool own = is_type(l, s->form->type); /* or it copies something for this layer */
    char text[200] = "";
    st_layer_describe(l, text, sizeof text);
    fprintf(w->to, "/* %s: %s%s%s%s */\n", s->path, own ? text : s->form->type,
            s->norm && s->norm != l ? ", batchnorm" : "", after ? ", " : "", after ? after->type->name : "");
    w->s = s;
    w->channels = 1;
    if (s->form->kind == PRODUCT || s->form->kind == AFFINE) write_weights(w);
    else if (s->form->kind == TAPS) write_taps(w);
    else
        for (int i = 0; own && i < l->params; i++) write_constants(w, "float", l->param_name[i], l->param[i]);
    if (after) {
        w->s = &(step){ .form = form_of(after), .l = after };
        write_text(w, w->s->form->text);
        w->s = s;
    }
    fprintf(w->to, "static void layer_%d(const %s *x, %s%s *y)\n{\n", w->number, s->int8 ? "int8_t" : "float",
            s->form == &form_add ? "const float *other, " : "", s->form == &form_int8 ? "int8_t" : "float");
    if (s->form->kind >= AFFINE) write_rows(w);
    else write_windows(w);
    write_text(w, s->form->text);
    fputs("}\n\n", w->to);
}

/* An argument of a step's function. */
static void write_value(writer *w, int value, ptrdiff_t at, bool int8, const char *after)
{
    const step_value v = w->steps.value[value];
    const char *of = value == INPUT ? "input" : v.side == OUTSIDE ? "output" : "workspace";
    if (v.side != OUTSIDE) at += v.side == BOTTOM ? v.offset : w->steps.workspace - v.offset - v.size;
    fprintf(w->to, int8 ? "(int8_t *)(%s + %td)%s" : "%s + %td%s", of, at, after);
}

static void write_predict(writer *w)
{
    const steps *s = &w->steps;
    fprintf(w->to, "void %s_predict_in(const float input[], float output[], float workspace[])\n{\n",
            w->name);
    fputs(s->workspace > 0 ? "" : "    (void)workspace;\n", w->to);
    for (const step *a = s->step; a < s->step + s->count; a++) {
        fprintf(w->to, "    layer_%td(", a - s->step);
        write_value(w, a->x, 0, a->int8, ", ");
        if (a->form == &form_add) write_value(w, a->other, 0, false, ", ");
        write_value(w, a->y, a->at, a->form == &form_int8, ");\n");
    }
    fprintf(w->to,
            "}\n\nvoid %s_predict(const float input[], float output[])\n{\n"
            "    float workspace[%s_WORKSPACE];\n    %s_predict_in(input, output, workspace);\n}\n\n",
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

/* The head, and then the body, which was written before, as the head counts its constants. */
static int write_file(FILE *to, const void *writer_)
{
    const writer *w = writer_;
    const char *name = w->name, *NAME = w->capitals;
    const st_shape input = w->net->input, output = w->net->output;
    fprintf(to,
            "/* %s: a neural network for inference, exported by Stride " ST_VERSION ". It needs a C99 or C++ "
            "compiler and math.h.\n *\n *     input          %s%s\n *     output         %s\n"
            " *     parameters     %td\n *     constants      %td bytes\n *     workspace      %td bytes\n"
            " *     multiply-adds  %.0f\n *\n"
            " * Other files declare what is here by defining %s_DECLARE before they include this one. */\n",
            name, st_shape_text(input).text, w->input ? ", which is normalized first" : "",
            st_shape_text(output).text, st_numel(st_net_parameters(w->net)), w->sizes.constants,
            w->sizes.workspace, w->products, NAME);
    fprintf(to,
            "#define %s_INPUTS %td\n#define %s_OUTPUTS %td\n#define %s_WORKSPACE %td\n\n"
            "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
            "/* One image to its output. Reentrant: the workspace is on the stack, or the caller's. */\n"
            "void %s_predict(const float input[], float output[]);\n"
            "void %s_predict_in(const float input[], float output[], float workspace[]);\n",
            NAME, st_shape_numel(input, name), NAME, st_shape_numel(output, name), NAME,
            w->steps.workspace > 0 ? w->steps.workspace : 1, name, name);
    if (w->classes)
        fprintf(to, "#define %s_CLASSES %td\nextern const char *const %s_classes[%td];\n", NAME,
                w->classes->count, name, w->classes->count);
    fprintf(to,
            "\n#ifdef __cplusplus\n}\n#endif\n\n"
            "#ifndef %s_DECLARE\n#include <math.h>\n#include <stdint.h>\n\n%s#endif\n",
            NAME, w->body);
    return ferror(to) ? -1 : 0;
}

static int write_body(writer *w)
{
    size_t size = 0;
    w->to = w->capitals ? open_memstream(&w->body, &size) : NULL;
    if (!w->to) return st_error_set("no memory for the text of a net");
    for (char *c = w->capitals; *c; c++) *c = (char)toupper((unsigned char)*c);
    for (; w->number < w->steps.count && !st_error(); w->number++) write_step(w, &w->steps.step[w->number]);
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
    const char *name = options.name ? options.name : "model";
    if (st_error()) return -1;
    if (!path) return st_error_set("st_net_export_c: the path is NULL");
    if (st_is_null(st_net_parameters(n)))
        return st_error_set("%s: st_net_export_c before st_net_build", path);
    if (!name[0] || isdigit((unsigned char)name[0]) || name[strspn(name, letters)])
        return st_error_set("%s: the name is \"%.40s\", expected a C identifier", path, name);
    void *locale = c_locale_enter();
    float *ranges = options.int8 ? int8_ranges(n, options.int8) : NULL;
    writer w = { .net = n, .name = name, .capitals = strdup(name) };
    w.classes = st_net_classes(n);
    w.input = st_net_normalization(n);
    const bool failed = st_error() || steps_plan(&w.steps, n, ranges) || write_body(&w);
    const int status = failed ? st_error_within("%s: ", path) : st_file_replace(path, write_file, &w);
    if (options.sizes) *options.sizes = w.sizes;
    c_locale_leave(locale);
    free(ranges), free(w.capitals), free(w.body), free(w.steps.step), free(w.steps.value);
    st_class_names_free(w.classes);
    st_normalization_free(w.input);
    return status;
}
