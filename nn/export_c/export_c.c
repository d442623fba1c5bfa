/* export_c.c: the file around the steps: its head, their functions and constants, and model_predict, which calls them. */
#define _POSIX_C_SOURCE 200809L
#include "nn/export_c/export_c.h"
#include "nn/data/classes.h"
#include "nn/export_c/writer.h"
#include "nn/files/file.h"
#include <stride.h>

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces ---------------------------------------------------------------------------------------------- */

const char *step_name(const step *s, char to[ST_LAYER_PATH])
{
    size_t i = 0;
    for (; s->path[i]; i++) to[i] = s->path[i] == '.' ? '_' : s->path[i];
    to[i] = '\0';
    return to;
}

bool has_bias(const step *s)
{
    return s->norm || s->l->params > 1;
}

static bool is_int8(const writer *w, const step *s)
{
    return w->ranges && s->form->weighs;
}

float input_range(const writer *w, const step *s)
{
    const range *r = w->ranges;
    while (r->of && r->of != s->l) r++;
    return r->most > 0 ? r->most : 1;
}

static ptrdiff_t input_size(const step *s)
{
    return st_shape_numel(s->l->x, "export") / s->l->x.n[0];
}

/* A float constant of C, whatever the locale's decimal point. What float cannot hold is infinite. */
typedef struct constant {
    char text[32];
} constant;

static constant constant_of(double value)
{
    constant c;
    if (isinf((float)value)) return value > 0 ? (constant){ "INFINITY" } : (constant){ "-INFINITY" };
    snprintf(c.text, sizeof c.text - 3, "%.9g", value);
    char *comma = strchr(c.text, ',');
    if (comma) *comma = '.';
    if (!strpbrk(c.text, ".e")) strcat(c.text, ".0");
    strcat(c.text, "f");
    return c;
}

void write_text(writer *w, const step *s, const char *text, double number)
{
    char name[ST_LAYER_PATH];
    step_name(s, name);
    for (const char *c = text; *c; c++) {
        const bool first = c == text || c[-1] == '\n';
        if (first && strchr("!^|", *c)) {
            if (!(*c == '!' ? s->activation != NULL : (*c == '|') == is_int8(w, s))) c = strchr(c, '\n');
        } else if (*c == '@') fputs(is_int8(w, s) ? "int8_t" : "float", w->to);
        else if (*c == '`') fputs(is_int8(w, s) ? "int32_t" : "float", w->to);
        else if (*c == '$') fputs(name, w->to);
        else if (*c == '~') fputs(constant_of(number).text, w->to);
        else if (*c != '#') putc(*c, w->to);
        else if (has_bias(s)) fprintf(w->to, "bias_%s[o]", name);
        else putc('0', w->to);
    }
}

void write_floats(writer *w, const step *s, const char *name, ptrdiff_t count,
                  double of(ptrdiff_t i, const void *context), const void *context)
{
    write_text(w, s, "static const float ", 0);
    fputs(name, w->to);
    write_text(w, s, "_$", 0);
    fprintf(w->to, "[%td] = {", count);
    for (ptrdiff_t i = 0; i < count && !st_error(); i++) {
        const float value = (float)of(i, context);
        if (!isfinite(value)) {
            if (s->l)
                step_refuse(s->path, s->l, "its %s holds %g, which C has no constant for", name,
                            (double)value);
            else st_error_set("normalization: its %s %g is not finite as float32", name, (double)value);
        }
        fprintf(w->to, "%s%s,", i % 8 ? " " : "\n    ", constant_of((double)value).text);
    }
    fputs("\n};\n", w->to);
    w->constants += count * (ptrdiff_t)sizeof(float);
}

void write_int8(writer *w, const step *s, const char *name, ptrdiff_t count,
                double of(ptrdiff_t i, const void *context), const void *context)
{
    fprintf(w->to, "static const int8_t %s", name);
    write_text(w, s, "_$", 0);
    fprintf(w->to, "[%td] = {", count);
    for (ptrdiff_t i = 0; i < count; i++)
        fprintf(w->to, "%s%d,", i % 20 ? " " : "\n    ", (int)of(i, context));
    fputs("\n};\n", w->to);
    w->constants += count;
}

static double element_at(ptrdiff_t i, const void *data)
{
    return (double)((const st_real *)data)[i];
}

void write_tensor(writer *w, const step *s, const char *name, st_tensor t)
{
    write_floats(w, s, name, st_numel(t), element_at, st_data(t));
}

static double first_option(const st_layer *l)
{
    const st_field *f = l->type->fields;
    return f && f->kind == ST_FIELD_REAL ? *(const double *)l->options : 0;
}

static void write_activation(writer *w, const step *s, const st_layer *l)
{
    write_text(w, s, "static float activation_$(float x)\n{\n    return ", 0);
    write_text(w, s, form_of(l)->activation, first_option(l));
    fputs(";\n}\n\n", w->to);
}

void write_begin(writer *w, const step *s, const char *sizes, ...)
{
    va_list arguments;
    va_start(arguments, sizes);
    fputs(w->constants ? "\n" : "", w->to);
    if (s->activation) write_activation(w, s, s->activation);
    const bool moves = !s->form->in_place;
    write_text(
        w, s,
        is_int8(w, s)
            ? "static void layer_$(const float *RESTRICT from, int8_t *RESTRICT x, float *RESTRICT y)\n{\n"
              "    enum { "
        : moves         ? "static void layer_$(const float *RESTRICT x, float *RESTRICT y)\n{\n    enum { "
        : s->other >= 0 ? "static void layer_$(const float *x, const float *other, float *y)\n{\n    enum { "
                        : "static void layer_$(const float *x, float *y)\n{\n    enum { ",
        0);
    vfprintf(w->to, sizes, arguments);
    fputs(" };\n", w->to);
    va_end(arguments);
    if (!is_int8(w, s)) return;
    fprintf(w->to, "    for (int i = 0; i < %td; i++) x[i] = int8_of(", input_size(s));
    write_text(w, s, "~ * from[i]);\n", 127 / (double)input_range(w, s));
}

/* ---- the steps --------------------------------------------------------------------------------------------- */

static void write_described(FILE *to, const char *before, const st_layer *l)
{
    char text[200];
    st_layer_describe(l, text, sizeof text);
    fprintf(to, "%s%s", before, text);
}

static void write_step(writer *w, const step *s)
{
    if (s->form == &form_copy) return;
    fprintf(w->to, "/* %s: ", s->path);
    if (s->l == NULL || s->form == &form_add) fputs(s->form->type, w->to);
    else write_described(w->to, "", s->l);
    if (s->norm) write_described(w->to, ", ", s->norm);
    if (s->activation) write_described(w->to, ", ", s->activation);
    fputs(" */\n", w->to);
    if (s->form->write) {
        s->form->write(w, s);
    } else {
        write_activation(w, s, s->l);
        write_begin(w, s, "N = %td", s->size);
        write_text(w, s, "    for (int i = 0; i < N; i++) y[i] = activation_$(x[i]);\n", 0);
    }
    fputs("}\n\n", w->to);
}

/* ---- the file ---------------------------------------------------------------------------------------------- */

typedef struct file {
    const st_net *net;
    const steps *steps;
    const char *name;
    const st_class_names *classes;
    const char *body; /* the steps' functions */
    const writer *written;
    ptrdiff_t workspace; /* floats of the steps' values, and of an input as integers */
} file;

/* name_suffix in capitals. */
static void write_capital(FILE *to, const file *f, const char *suffix)
{
    for (const char *c = f->name; *c; c++) putc(toupper((unsigned char)*c), to);
    fputs(suffix, to);
}

static void write_define(FILE *to, const file *f, const char *suffix, ptrdiff_t value)
{
    fputs("#define ", to);
    write_capital(to, f, suffix);
    fprintf(to, " %td\n", value);
}

static ptrdiff_t image_size(st_shape image)
{
    return st_shape_numel(image, "st_net_export_c");
}

static void write_head(FILE *to, const file *f)
{
    fprintf(to,
            "/* %s: a neural network for inference, exported by Stride " ST_VERSION
            ". It needs a C99 or C++ compiler "
            "and math.h.\n *\n",
            f->name);
    fprintf(to, " *     input          %td numbers %s%s\n", image_size(f->net->input),
            st_shape_text(f->net->input).text,
            st_net_metadata(f->net, "normalization") ? ", which are normalized first" : "");
    fprintf(to, " *     output         %td numbers %s\n", image_size(f->net->output),
            st_shape_text(f->net->output).text);
    fprintf(to, " *     parameters     %td\n", st_numel(st_net_parameters(f->net)));
    fprintf(to, " *     constants      %td bytes\n", f->written->constants);
    fprintf(to, " *     workspace      %td bytes\n", f->workspace * 4);
    fprintf(to, " *     multiply-adds  %.0f\n *\n", f->written->products);
    fprintf(to, " * Other files declare what is here by defining ");
    write_capital(to, f, "_DECLARE");
    fprintf(to, " before they include this one. */\n");
}

/* A string of C: every byte that is not plain ASCII as three octal digits, and no trigraphs. */
static void write_string(FILE *to, const char *text)
{
    putc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        fprintf(to, *c < 32 || *c > 126 || strchr("\"\\?", *c) ? "\\%03o" : "%c", *c);
    putc('"', to);
}

static void write_declarations(FILE *to, const file *f)
{
    write_define(to, f, "_INPUTS", image_size(f->net->input));
    write_define(to, f, "_OUTPUTS", image_size(f->net->output));
    write_define(to, f, "_WORKSPACE", f->workspace ? f->workspace : 1);
    if (f->classes) write_define(to, f, "_CLASSES", f->classes->count);
    fprintf(to,
            "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
            "/* One image to its output. Reentrant: the workspace is on the stack, or the caller's. */\n");
    fprintf(to, "void %s_predict(const float input[], float output[]);\n", f->name);
    fprintf(to, "void %s_predict_in(const float input[], float output[], float workspace[]);\n", f->name);
    if (f->classes) fprintf(to, "extern const char *const %s_classes[%td];\n", f->name, f->classes->count);
    fprintf(to, "\n#ifdef __cplusplus\n}\n#endif\n\n#ifndef ");
    write_capital(to, f, "_DECLARE");
    fprintf(to, "\n#include <math.h>\n\n#ifdef __cplusplus\n#define RESTRICT __restrict\n#else\n#define "
                "RESTRICT restrict\n"
                "#endif\n\n");
}

static void write_int8_of(FILE *to)
{
    fputs("#include <stdint.h>\n\n"
          "/* The nearest integer; NaN is 127. */\n"
          "static int8_t int8_of(float x)\n{\n"
          "    if (!(x < 127)) return 127;\n"
          "    return x < -127 ? -127 : (int8_t)(x < 0 ? x - 0.5f : x + 0.5f);\n}\n\n",
          to);
}

static void write_inside(FILE *to, const steps *s)
{
    bool any = false;
    for (int i = 0; i < s->count; i++) any = any || strcmp(s->step[i].form->type, "conv_transpose2d") == 0;
    if (any)
        fputs("/* The first i, and the end of those, of which at + i stride lies in 0 ... size - 1. */\n"
              "static int begin_inside(int at, int stride)\n{\n"
              "    return at < 0 ? (stride - 1 - at) / stride : 0;\n}\n\n"
              "static int end_inside(int at, int stride, int size, int count)\n{\n"
              "    const int end = at < size ? (size - 1 - at) / stride + 1 : 0;\n"
              "    return end < count ? end : count;\n}\n\n",
              to);
}

static void write_place(FILE *to, const steps *s, int v)
{
    ptrdiff_t offset = v == VALUE_INPUT ? PLACE_INPUT : s->place[s->value[v].place].offset;
    if (offset < 0) fputs(offset == PLACE_INPUT ? "input" : "output", to);
    else fprintf(to, "workspace + %td", offset);
}

static void write_call(FILE *to, const file *f, const step *at)
{
    const steps *s = f->steps;
    char name[ST_LAYER_PATH];
    if (at->form == &form_copy) {
        fprintf(to, "    for (int i = 0; i < %td; i++) (", at->size);
        write_place(to, s, at->y);
        fprintf(to, ")[%td + i] = (", at->at);
        write_place(to, s, at->x);
        fputs(")[i];\n", to);
        return;
    }
    fprintf(to, "    layer_%s(", step_name(at, name));
    write_place(to, s, at->x);
    if (at->other >= 0) fputs(", ", to), write_place(to, s, at->other);
    if (is_int8(f->written, at)) fprintf(to, ", (int8_t *)(workspace + %td)", s->workspace);
    fputs(", ", to);
    write_place(to, s, at->y);
    fputs(");\n", to);
}

static int write_file(FILE *to, const void *context)
{
    const file *f = context;
    write_head(to, f);
    write_declarations(to, f);
    if (f->workspace > f->steps->workspace) write_int8_of(to);
    write_inside(to, f->steps);
    fputs(f->body, to);
    for (ptrdiff_t k = 0; f->classes && k < f->classes->count; k++) {
        if (k == 0) fprintf(to, "const char *const %s_classes[%td] = {", f->name, f->classes->count);
        fputs("\n    ", to);
        write_string(to, f->classes->name[k]);
        fputs(k + 1 < f->classes->count ? "," : "\n};\n\n", to);
    }
    fprintf(to, "void %s_predict_in(const float input[], float output[], float workspace[])\n{\n", f->name);
    if (f->workspace == 0) fputs("    (void)workspace;\n", to);
    for (int i = 0; i < f->steps->count; i++) write_call(to, f, &f->steps->step[i]);
    fprintf(to, "}\n\nvoid %s_predict(const float input[], float output[])\n{\n    float workspace[",
            f->name);
    write_capital(to, f, "_WORKSPACE");
    fprintf(to, "];\n    %s_predict_in(input, output, workspace);\n}\n\n#undef RESTRICT\n#endif\n", f->name);
    return ferror(to) ? -1 : 0;
}

/* ---- exporting ---------------------------------------------------------------------------------------------- */

static bool is_identifier(const char *name)
{
    bool valid = name[0] && !isdigit((unsigned char)name[0]);
    for (const char *c = name; *c; c++) valid = valid && (isalnum((unsigned char)*c) || *c == '_');
    return valid;
}

/* The steps' functions come first, into memory: the head counts their constants. */
static int export(const st_net *n, const char *path, const range *ranges, file *f, const steps *s)
{
    char *body = NULL;
    size_t size = 0;
    writer w = { .to = open_memstream(&body, &size), .net = n, .ranges = ranges };
    f->workspace = s->workspace;
    for (int i = 0; i < s->count; i++) {
        if (!is_int8(&w, &s->step[i])) continue;
        const ptrdiff_t end = s->workspace + (input_size(&s->step[i]) + 3) / 4;
        if (end > f->workspace) f->workspace = end;
    }
    if (!w.to) return st_error_set("no memory for the text of a net");
    for (int i = 0; i < s->count && !st_error(); i++) write_step(&w, &s->step[i]);
    if (fclose(w.to)) st_error_set("no memory for the text of a net");
    f->body = body;
    f->written = &w;
    int status = st_error() ? -1 : st_file_replace(path, write_file, f);
    free(body);
    return status;
}

int st_net_export_c(st_net *n, const char *path, st_export_c_options options)
{
    if (st_error()) return -1;
    if (!path) return st_error_set("st_net_export_c: the path is NULL");
    if (st_is_null(st_net_parameters(n)))
        return st_error_set("%s: st_net_export_c before st_net_build", path);
    file f = { .net = n, .name = options.name ? options.name : "model" };
    if (!is_identifier(f.name))
        return st_error_set("%s: the name is \"%.40s\", expected a C identifier", path, f.name);
    range *ranges = options.int8 ? ranges_measure(n, options.int8) : NULL;
    if (st_error()) return st_error_within("%s: ", path);
    steps s = { 0 };
    st_class_names *classes = st_net_classes(n);
    f.classes = classes;
    f.steps = &s;
    int status =
        st_error() || steps_plan(&s, n->root, image_size(n->input), st_net_metadata(n, "normalization"))
            ? st_error_within("%s: ", path)
            : export(n, path, ranges, &f, &s);
    free(ranges);
    steps_free(&s);
    st_class_names_free(classes);
    return status;
}
