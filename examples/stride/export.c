/* export.c: stride export: writes a saved net for other programs, in the format of the file's ending. */
#define _POSIX_C_SOURCE 200809L
#include "examples/stride/commands.h"
#include "examples/stride/dataset.h"
#include "examples/stride/model.h"
#include "examples/stride/network.h"
#include "examples/stride/paths.h"
#include "examples/stride/scores.h"
#include "examples/stride/text.h"
#include "nn/export_c/export_c.h"
#include "nn/onnx/onnx.h"
#include "nn/data/formats.h"
#include "nn/files/replace.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef struct settings {
    const char *model, *calibrate, *name;
    bool int8;
} settings;

static void write_tensor(const st_net_tensor *t, void *folder)
{
    char path[4096];
    if (st_error()) return;
    if (snprintf(path, sizeof path, "%s/%s.npy", (const char *)folder, t->name) < (int)sizeof path)
        st_npy_save(path, t->value);
    else
        st_error_set("%.200s: the path of tensor %.80s is longer than %zu bytes", (const char *)folder,
                     t->name, sizeof path - 1);
}

/* A .npy file for each parameter and state. */
static int write_folder(st_net *n, const char *path)
{
    if (mkdir(path, 0777) && (errno != EEXIST || !path_is_folder(path)))
        return st_error_set("%.200s: %s", path, errno == EEXIST ? "not a folder" : strerror(errno));
    st_net_visit(n, write_tensor, (void *)path);
    return st_error() ? -1 : 0;
}

static int put_text(FILE *to, const void *net)
{
    return network_write((st_net *)net, to);
}

static int write_text(st_net *n, const char *path)
{
    return st_file_replace(path, put_text, n);
}

static void show_scores(const char *numbers, const scores *found, ptrdiff_t bytes)
{
    printf("%s ", numbers);
    if (found->classes > 0) printf("accuracy=%.4f ", found->accuracy);
    printf("loss=%.4f constants=%td bytes\n", found->loss, bytes);
}

/* Ranges are measured on the training part of the data set; what the integers cost, on its test part if it
 * has one. */
static void compare_int8(const model *m, const dataset *from, const char *path, const char *name)
{
    const st_dataset *train = from->train, *test = from->test ? from->test : from->train;
    st_dataset *normal[] = { m->scale ? st_dataset_normalize(train, m->scale) : NULL,
                             m->scale ? st_dataset_normalize(test, m->scale) : NULL };
    if (m->scale) train = normal[0], test = normal[1];
    scores before = { 0 }, after = { 0 };
    st_export_c_sizes sizes;
    if (!st_error()) scores_measure(&before, m->net, test, m->loss, m->target_scale);
    st_int8 *integers = st_error() ? NULL : st_int8_begin(m->net, train);
    if (integers) scores_measure(&after, m->net, test, m->loss, m->target_scale);
    st_int8_end(integers);
    const st_export_c_options options = { .name = name, .int8 = train, .sizes = &sizes };
    if (!st_error() && st_net_export_c(m->net, path, options) == 0) {
        printf("%td samples of ", before.count);
        text_put_in(stdout, "", from->text, "\n");
        show_scores("floats:        ", &before, sizes.as_float);
        show_scores("8-bit integers:", &after, sizes.constants);
    }
    scores_free(&before), scores_free(&after);
    st_dataset_free(normal[0]), st_dataset_free(normal[1]);
}

static void write_int8(const settings *s, const char *path)
{
    model m;
    dataset from;
    dataset_options options = { .data = s->calibrate, .asked = "calibrate" };
    if (model_open(&m, s->model, 64)) return;
    if (dataset_open_for(&from, &m, &options) == 0) {
        compare_int8(&m, &from, path, s->name);
        dataset_close(&from);
    }
    model_close(&m);
}

typedef struct format {
    const char *ending;
    int (*write)(st_net *n, const char *path); /* NULL: C, which has options */
} format;

static const format formats[] = {
    { ".onnx", st_net_export_onnx },
    { ".safetensors", st_net_save },
    { ".net", write_text },
    { ".c", NULL },
};

static const format *format_of(const char *path)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (text_ends(path, formats[i].ending)) return &formats[i];
    return NULL;
}

static int run(void *settings_, int count, char **operands)
{
    settings *s = settings_;
    (void)count;
    const char *path = operands[0], *name = strrchr(path, '/');
    const format *f = format_of(path);
    if (!f && strchr(name ? name : path, '.') && strspn(path, "./") != strlen(path))
        return subcommand_refuse(&command_export, "%s: expected .onnx, .c, .safetensors, .net, or a folder",
                                 path);
    if (s->model == command_export.options[0].fallback && path_is_model(path))
        return subcommand_refuse(&command_export, "%s is a saved net: give the file to write, too", path);
    const bool as_c = f && !f->write;
    if (!as_c && (s->int8 || s->name))
        return subcommand_refuse(&command_export, "--%s is for .c, not %s", s->int8 ? "int8" : "name", path);
    if (s->calibrate && !s->int8) return subcommand_refuse(&command_export, "--calibrate is for --int8");
    if (s->int8) write_int8(s, path);
    else {
        st_net *n = model_load(s->model, (st_net_load_options){ .batch = 1 });
        if (n && as_c) st_net_export_c(n, path, (st_export_c_options){ .name = s->name });
        else if (n && f) f->write(n, path);
        else if (n) write_folder(n, path);
        st_net_free(n);
    }
    if (!st_error()) text_put_in(stdout, "wrote ", path, "\n");
    return 0;
}

static const option_row options[] = {
    MODEL_OPTION,
    { "name", 0, OPTION_TEXT, AT(name), "NAME",
      .help = "what the names in a .c file begin with, a C identifier; default: model, as in model_predict" },
    { "int8", 0, OPTION_FLAG, AT(int8),
      .help = "a .c file computes convolutions and dense layers with 8-bit integers" },
    { "calibrate", 0, OPTION_TEXT, AT(calibrate), "PATH",
      .help = "the data set of --int8: the ranges of activations are measured on its training part, what "
              "integers cost on its test part; default: MNIST" },
    { 0 },
};

const subcommand command_export = {
    .name = "export",
    .what =
        "Writes a saved net for other programs: .onnx, .c (one C file that needs no library), .safetensors, "
        ".net (its layers as text), or a folder with a .npy file for each tensor.",
    .usage = "[MODEL] [options] FILE.onnx|FILE.c|FILE.safetensors|FILE.net|FOLDER",
    .details =
        "MODEL is a safetensors file. A .c file normalises its input, and its output is in the unit of the "
        "targets. For other formats do both yourself, with the metadata that stride summary prints. --int8 "
        "prints accuracy, loss and bytes of constants with floats and "
        "with integers.",
    .examples = "  stride export digits.onnx\n"
                "  stride export digits.c --name digits\n"
                "  stride export digits.c --int8 --calibrate data/mnist\n"
                "  stride export cats.safetensors weights/\n",
    .operands = { "model" },
    .least = 1,
    .most = 1,
    .options = options,
    .size = sizeof(settings),
    .run = run,
};
