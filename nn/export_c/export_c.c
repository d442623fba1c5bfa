/* export_c.c: a net as one C file: its head, a function with its constants for each step, and model_predict,
 * which calls them. */
#include "layers/layer_impl.h"
#include "layers/separable.h"
#include "layers/types.h"
#include "layers/window.h"
#include "nn/export_c/int8.h"
#include "nn/export_c/steps.h"
#include "nn/files/file.h"
#include "tensor/counts.h"
#include "tensor/print/shortest.h"
#include <stride.h>

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 64 }; /* C99 tells names apart by 63 characters */

typedef struct writer {
    FILE *to;
    char name[NAME_SIZE], upper[NAME_SIZE];
    const st_net *net;
    st_normalization *input, *target;
    st_class_names *classes;
    steps steps;
    const step *s;           /* the one that is written, and */
    ptrdiff_t channels;      /* the last constants of it */
    st_export_c_sizes sizes; /* so far */
    double products;         /* multiply-adds so far */
} writer;

/* ---- text ---------------------------------------------------------------------------------------------- */

static void write_number(writer *w, double value)
{
    char text[40];
    const int digits = fewest_digits(value, true, 'g', FLT_DIG, FLT_DECIMAL_DIG);
    snprintf(text, sizeof text, "%.*g", digits, (double)(float)value);
    if (isinf((float)value)) fputs(value > 0 ? "INFINITY" : "-INFINITY", w->to);
    else fprintf(w->to, strpbrk(text, ".e") ? "%sf" : "%s", text);
}

static bool has(const step *s, const char *name)
{
    int i = 0;
    if (strcmp(name, "activation") == 0) return s->activation != NULL;
    if (strcmp(name, "int8") == 0) return s->range > 0;
    while (i < s->l->params && strcmp(s->l->param_name[i], name) != 0) i++;
    return i < s->l->params;
}

/* See forms.c. */
static void write_text(writer *w, const st_layer *l, const char *text)
{
    for (; *text; text++) {
        char name[24] = "", part[80] = "";
        const bool not = text[0] == '{' && text[1] == '!';
        if (*text == '{') sscanf(text + not, "%*c%23[a-z0-9_]:%79[^}]", name, part);
        if (*text == '$') fprintf(w->to, "%td", w->s - w->steps.step);
        else if (!name[0]) putc(*text, w->to);
        else if (part[0]) write_text(w, l, has(w->s, name) == not ? "" : part);
        else write_number(w, strcmp(name, "range") == 0 ? 127 / w->s->range : layer_option(l, name));
        if (name[0]) text = strchr(text, '}');
    }
}

/* ---- constants ----------------------------------------------------------------------------------------- */

static void write_constants(writer *w, const char *type, const char *name, st_tensor t)
{
    fprintf(w->to, "static const %s %s_%td[%td] = {", type, name, w->s - w->steps.step, st_numel(t));
    for (ptrdiff_t i = 0; i < st_numel(t) && !st_error(); i++) {
        const double value = (double)(float)st_data(t)[i];
        if (!isfinite(value))
            st_error_set("layer %s: %s: its %s holds %g, which C has no constant for", w->s->path,
                         w->s->l->type->name, name, printable(value));
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
    return l && i < l->params ? (double)st_data(l->param[i])[k] : otherwise;
}

/* With a batchnorm folded in. The greatest integer of each output channel is 127. A batchnorm by itself, and
 * the normalisation, subtract `near` first, the mean as float: it may be large beside the deviation. */
static void write_weights(writer *w)
{
    const step *s = w->s;
    const bool int8 = s->range > 0;
    const st_layer *l = s->form->kind == PRODUCT ? s->l : NULL, *norm = s->norm;
    const st_normalization *input = s->form == &form_normalize ? w->input : NULL;
    const ptrdiff_t channels = input ? input->channels : l ? int8_channels(l) : s->l->y.n[1];
    st_tensor bias = st_tensor_new(ST_SHAPE(channels)), scale = st_tensor_clone(bias),
              near = st_tensor_clone(bias), weight = st_tensor_clone(l ? int8_weight(l) : bias);
    const ptrdiff_t each = st_numel(weight) / channels;
    if (!l) st_fill(weight, 1);
    if (int8 && each > INT32_MAX / (127 * 127))
        st_error_set("layer %s: %s: its sums overflow int32_t", s->path, s->l->type->name);
    for (ptrdiff_t k = 0; k < channels && !st_error(); k++) {
        double mean = 0, gain = 1;
        if (norm) mean = (double)st_data(norm->state[0])[k];
        if (norm) gain = 1 / sqrt((double)st_data(norm->state[1])[k] + layer_option(norm, "epsilon"));
        if (input) mean = input->mean[k], gain = input->deviation[k] > 0 ? 1 / input->deviation[k] : 1;
        gain *= parameter(norm, 0, k, 1);
        if (!l) st_data(near)[k] = (st_real)(float)mean, mean -= (double)st_data(near)[k];
        if (input && input->deviation[k] == 0) mean = 0; /* a constant: as float it is `near` */
        st_tensor row = st_select(st_reshape(weight, ST_SHAPE(channels, each)), 0, k);
        st_scale(row, (st_real)gain);
        st_data(bias)[k] = (st_real)((parameter(l, 1, k, 0) - mean) * gain + parameter(norm, 1, k, 0));
        if (int8) st_data(scale)[k] = (st_real)(int8_round(st_data(row), each, 0) / 127 * s->range / 127);
    }
    write_constants(w, int8 ? "int8_t" : "float", "weight", weight);
    if (int8) write_constants(w, "float", "scale", scale);
    if (int8) w->sizes.as_float += 3 * st_numel(weight) - 4 * channels;
    if (!l) write_constants(w, "float", "near", near);
    write_constants(w, "float", "bias", bias);
    w->products += l ? l->flops / 2 / (double)l->x.n[0] : 0;
    st_tensor_free(weight), st_tensor_free(near), st_tensor_free(bias), st_tensor_free(scale);
}

/* A row of y is a weighted sum of rows of x, and a column of columns: the taps of all rows and columns, and
 * where those of each begin. */
static void write_taps(writer *w)
{
    const st_layer *l = w->s->l;
    const ptrdiff_t number = w->s - w->steps.step;
    tap *row = malloc((size_t)(l->x.n[2] + l->x.n[3] + MOST_TAPS) * sizeof *row);
    if (!row) st_error_set("no memory for a row of a matrix");
    for (int begins = 0; row && begins < 2; begins++) {
        ptrdiff_t begin = 0;
        fprintf(w->to,
                begins ? "static const int begin_%td[] = {"
                       : "static const struct { int from; float weight; } taps_%td[] = {",
                number);
        for (int axis = 2; axis < 4; axis++)
            for (ptrdiff_t i = 0; i < l->y.n[axis]; i++) {
                const ptrdiff_t count = separable_taps(l, axis, i, row);
                if (begins) fprintf(w->to, " %td,", begin);
                for (ptrdiff_t k = 0; k < count && !begins; k++)
                    fprintf(w->to, "\n    { %td, %.8ef },", row[k].from, (double)row[k].weight);
                begin += count;
            }
        fprintf(w->to, begins ? " %td };\n" : "\n};\n", begin);
        w->sizes.constants += begins ? 4 * (l->y.n[2] + l->y.n[3] + 1) : 8 * begin;
    }
    free(row);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* Rows are LENGTH elements at a distance of STRIDE: channels, groups of them, the axis of a softmax, the
 * last axes. Each of N constants of a norm is for AREA elements. */
static void write_rows(writer *w)
{
    const st_layer *l = w->s->l;
    const int axis = (int)layer_option(l, "axis"), axes = (int)layer_option(l, "axes");
    const ptrdiff_t size = w->steps.step[w->s->x].size,
                    count = w->s->form->kind == ROWS ? (ptrdiff_t)layer_option(l, "groups") : w->channels;
    ptrdiff_t length = count ? size / count : 1, stride = 1;
    for (int i = axes ? l->x.rank - axes : 1; !count && i < l->x.rank; i++)
        if (i >= axis) *(axis && i > axis ? &stride : &length) *= l->x.n[i];
    fprintf(w->to, "    enum { COUNT = %td, LENGTH = %td, STRIDE = %td, N = %td, AREA = %td };\n",
            size / length, length, stride, w->channels, count ? size / w->channels : 1);
}

/* Along an axis: S stride, P padding before, X divisor, K kernel, D dilation, L the image with the padding
 * behind it that counts. CG and OG are channels of a group; windows BEGIN ... END - 1 of a row lie inside
 * the image. */
static void write_windows(writer *w)
{
    const st_layer *l = w->s->l;
    const bool dense = l->type == &layer_type_dense; /* its features are the last axis, after T rows */
    const ptrdiff_t *x = l->x.n + (dense ? l->x.rank - 2 : 0), *y = l->y.n + (dense ? l->x.rank - 2 : 0),
                    groups = (ptrdiff_t)fmax(layer_option(l, "groups"), 1);
    const bool image = l->x.rank == 4, transposed = l->type == &layer_type_conv_transpose2d;
    ptrdiff_t in[] = { x[2], x[3] }, out[] = { y[2], y[3] }, begin = 0, end = 0;
    window g = { .stride = { 1, 1 } };
    const bool has_windows = image && w->s->form->kind != TAPS && l->type != &layer_type_pad2d;
    if (has_windows && l->plan) g = *(const window *)l->plan; /* it begins the plan */
    if (l->type == &layer_type_conv2d && window_is_identity(&g) && in[0] * in[1] <= 256)
        in[1] *= in[0], out[1] *= out[0], in[0] = out[0] = 1; /* an image is one row */
    fprintf(w->to, "    enum { C = %td, O = %td, CG = %td, OG = %td", x[1], y[1], x[1] / groups,
            y[1] / groups);
    if (dense) fprintf(w->to, ", T = %td", l->x.rank == 3 ? x[0] : 1);
    for (int i = 0; i < 2 && image; i++) {
        const char a = "HW"[i];
        const int divide = transposed ? g.stride[i] : 1, stride = transposed ? 1 : g.stride[i];
        const ptrdiff_t reach = (g.kernel[i] - 1) * (ptrdiff_t)g.dilation[i],
                        before = transposed ? reach - g.before[i] : g.before[i];
        fprintf(w->to, ",\n           %c = %td, O%c = %td, S%c = %d, P%c = %td, X%c = %d", a, in[i], a,
                out[i], a, stride, a, before, a, divide);
        fprintf(w->to, ", K%c = %d, D%c = %d, L%c = %td", a, g.kernel[i], a, g.dilation[i], a,
                in[i] + g.pad_after[i]);
        for (begin = 0; begin < out[i] && begin * stride < before;) begin++;
        for (end = begin; divide == 1 && end < out[i] && end * stride + reach - before < in[i];) end++;
    }
    fprintf(w->to, image ? ",\n           BEGIN = %td, END = %td };\n" : " };\n", begin, end);
}

/* The number of elements of an image from one of an axis to the next; 0 if the axis is repeated. */
static ptrdiff_t distance(st_shape s, int axis)
{
    ptrdiff_t elements = s.n[axis] > 1;
    for (int i = axis + 1; i < s.rank; i++) elements *= s.n[i];
    return elements;
}

/* The place in a factor of shape s, of the counters of the loops. */
static void write_place(writer *w, const char *name, st_shape s)
{
    const char *plus = "";
    fprintf(w->to, "%s = ", name);
    for (int axis = 1; axis < s.rank; axis++) {
        const ptrdiff_t apart = distance(s, axis);
        if (apart > 1) fprintf(w->to, "%si%d * %td", plus, axis, apart);
        else if (apart == 1) fprintf(w->to, "%si%d", plus, axis);
        if (apart) plus = " + ";
    }
    if (!*plus) putc('0', w->to);
}

/* Loops over the axes of y; a and b are the places in x and other. */
static void write_product(writer *w)
{
    const st_layer *l = w->s->l;
    const st_shape x = l->child[w->s->branch]->y, other = steps_product(l, w->s->branch),
                   y = steps_product(l, w->s->branch + 1);
    int depth = 4;
    fputs("    int i = 0;\n", w->to);
    for (int axis = 1; axis < y.rank; axis++, depth += 4)
        fprintf(w->to, "%*sfor (int i%d = 0; i%d < %td; i%d++)%s\n", depth, "", axis, axis, y.n[axis], axis,
                axis + 1 < y.rank ? "" : " {");
    fprintf(w->to, "%*sconst int ", depth, "");
    write_place(w, "a", x);
    write_place(w, ", b", other);
    fprintf(w->to, ";\n%*s", depth, "");
    write_text(w, l, w->s->form->text);
    if (depth > 4) fprintf(w->to, "%*s}\n", depth - 4, "");
}

static void write_step(writer *w, const step *s)
{
    const st_layer *l = s->l, *after = s->activation;
    const form *f = s->form;
    const bool own = f->type == l->type || f->kind == TAPS; /* or something that is done for l */
    char text[200] = "";
    st_layer_describe(l, text, sizeof text);
    fprintf(w->to, "/* %s: %s%s%s%s */\n", s->path,
            f == &form_int8 ? "to 8 bits"
            : own           ? text
                            : f->type->name,
            s->norm && s->norm != l ? ", batchnorm" : "", after ? ", " : "", after ? after->type->name : "");
    w->s = s;
    w->channels = 1;
    if (f->kind == PRODUCT || s->norm || f == &form_normalize) write_weights(w);
    else if (f->kind == TAPS) write_taps(w);
    else
        for (int i = 0; own && i < l->params; i++) write_constants(w, "float", l->param_name[i], l->param[i]);
    if (after) write_text(w, after, form_of(after)->text);
    write_text(w, l,
               f == &form_add || f == &form_multiply
                   ? "static void layer_$(const float *x, const float *other, float *y)\n{\n"
               : f == &form_int8 ? "static void layer_$(const float *x, int8_t *y)\n{\n"
                                 : "static void layer_$(const {!int8:float}{int8:int8_t} *x, float *y)\n{\n");
    if (f == &form_multiply) write_product(w);
    else if (f->kind >= CHANNELS) write_rows(w);
    else write_windows(w);
    if (f != &form_multiply) write_text(w, l, f->text);
    fputs("}\n\n", w->to);
}

/* An argument of a step's function: what step `of` writes, from an element on. */
static void write_value(writer *w, int of, ptrdiff_t at, const char *after)
{
    const step *s = &w->steps.step[of];
    const char *in = of == INPUT ? "input" : s->place == OUTSIDE ? "output" : "workspace";
    at += s->offset < 0 ? w->steps.workspace + s->offset : s->offset;
    fprintf(w->to, s->form == &form_int8 ? "(int8_t *)(%s + %td)%s" : "%s + %td%s", in, at, after);
}

/* The last step: outputs in the unit of the targets, as st_normalization_undo. */
static void write_targets(writer *w)
{
    const st_normalization *t = w->target;
    const ptrdiff_t size = st_shape_numel(w->net->output, w->name);
    fprintf(w->to, "    static const struct { float mean, deviation; } target[%td] = {", t->channels);
    for (ptrdiff_t k = 0; k < t->channels; k++) {
        fputs("\n        { ", w->to), write_number(w, t->mean[k]), fputs(", ", w->to);
        write_number(w, t->deviation[k] > 0 ? t->deviation[k] : 1), fputs(" },", w->to);
    }
    fprintf(w->to,
            "\n    };\n    for (int i = 0; i < %td; i++)\n"
            "        output[i] = output[i] * target[i / %td].deviation + target[i / %td].mean;\n",
            size, size / t->channels, size / t->channels);
    w->sizes.constants += 8 * t->channels;
}

static void write_predict(writer *w)
{
    fprintf(w->to, "void %s_predict_in(const float input[], float output[], float workspace[])\n{\n",
            w->name);
    for (const step *a = w->steps.step + 1; a < w->steps.step + w->steps.count; a++) {
        fprintf(w->to, "    layer_%td(", a - w->steps.step);
        write_value(w, a->x, 0, ", ");
        if (a->form == &form_add || a->form == &form_multiply) write_value(w, a->other, 0, ", ");
        write_value(w, a->y, a->at, ");\n");
    }
    if (w->target) write_targets(w);
    fprintf(w->to,
            "    (void)workspace; /* of a single layer */\n}\n\n"
            "void %s_predict(const float input[], float output[])\n{\n"
            "    float workspace[%s_WORKSPACE];\n    %s_predict_in(input, output, workspace);\n}\n#endif\n",
            w->name, w->upper, w->name);
}

/* ---- the file ------------------------------------------------------------------------------------------ */

/* Written before the rest, and over itself when its numbers are known, whose width is fixed. */
static void write_head(writer *w)
{
    const char *name = w->name, *upper = w->upper;
    const st_shape x = w->net->input, y = w->net->output;
    rewind(w->to);
    fprintf(
        w->to,
        "/* %s: a neural network for inference, exported by Stride " ST_VERSION ". It needs a C99 or C++ "
        "compiler and math.h.\n *\n *     input          %s%s\n *     output         %s%s\n"
        " *     parameters     %12td\n *     constants      %12td bytes\n *     workspace      %12td bytes\n"
        " *     multiply-adds  %12.0f\n *\n"
        " * Other files declare what is here by defining %s_DECLARE before they include this one. */\n",
        name, st_shape_text(x).text, w->input ? ", which is normalized first" : "", st_shape_text(y).text,
        w->target ? ", in the unit of the targets" : "", st_numel(st_net_parameters(w->net)),
        w->sizes.constants, w->sizes.workspace, w->products, upper);
    fprintf(w->to,
            "#define %s_INPUTS %td\n#define %s_OUTPUTS %td\n#define %s_WORKSPACE %td\n\n"
            "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
            "/* One image to its output. Reentrant: the workspace is on the stack, or the caller's. */\n"
            "void %s_predict(const float input[], float output[]);\n"
            "void %s_predict_in(const float input[], float output[], float workspace[]);\n",
            upper, st_shape_numel(x, name), upper, st_shape_numel(y, name), upper, w->steps.workspace, name,
            name);
    if (w->classes)
        fprintf(w->to, "#define %s_CLASSES %td\nextern const char *const %s_classes[%td];\n", upper,
                w->classes->count, name, w->classes->count);
    fprintf(w->to, "\n#ifdef __cplusplus\n}\n#endif\n\n#ifndef %s_DECLARE\n", upper);
    fputs("#include <math.h>\n#include <stdint.h>\n\n", w->to);
}

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

static int write_file(FILE *to, const void *writer_)
{
    writer *w = (writer *)writer_;
    w->to = to;
    write_head(w);
    for (int i = 1; i < w->steps.count && !st_error(); i++) write_step(w, &w->steps.step[i]);
    if (w->classes) write_classes(w);
    write_predict(w);
    write_head(w);
    return st_error() || ferror(to) ? -1 : 0;
}

int st_net_export_c(st_net *n, const char *path, st_export_c_options options)
{
    static const char letters[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    writer w = { .net = n };
    const int length = snprintf(w.name, NAME_SIZE, "%s", options.name ? options.name : "model");
    if (st_error()) return -1;
    if (!path) return st_error_set("st_net_export_c: the path is NULL");
    if (st_is_null(st_net_parameters(n)))
        return st_error_set("%s: st_net_export_c before st_net_build", path);
    if (length < 1 || length >= NAME_SIZE || isdigit((unsigned char)w.name[0]) ||
        w.name[strspn(w.name, letters)])
        return st_error_set("%s: the name is \"%s\", expected a C identifier", path, w.name);
    for (int i = 0; i < length; i++) w.upper[i] = (char)toupper((unsigned char)w.name[i]);
    void *locale = c_locale_enter();
    float *ranges = options.int8 ? int8_ranges(n, options.int8) : NULL;
    w.classes = st_net_classes(n);
    w.input = st_net_normalization(n), w.target = st_net_target_normalization(n);
    const bool planned = !st_error() && steps_plan(&w.steps, n, ranges) == 0;
    w.sizes.workspace = w.steps.workspace * (ptrdiff_t)sizeof(float);
    const int status = planned ? st_file_replace(path, write_file, &w) : st_error_within("%s: ", path);
    w.sizes.as_float += w.sizes.constants;
    if (options.sizes) *options.sizes = w.sizes;
    c_locale_leave(locale);
    free(ranges), free(w.steps.step);
    st_class_names_free(w.classes);
    st_normalization_free(w.input), st_normalization_free(w.target);
    return status;
}
