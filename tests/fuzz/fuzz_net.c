/* fuzz_net.c: safetensors_open, st_net_load and what reads a net's metadata take any file, and st_net_load
 * any architecture; a net that it makes is saved and comes back.
 *
 * An input: a byte, 0 or 1 for a file of safetensors (fuzz.h), 2 for a file that is read into a net, 3 for an
 * architecture, whose tensors are then written as it wants them. */
#define _POSIX_C_SOURCE 200809L
#include "tests/fuzz/fuzz.h"

#include "layers/layers.h"
#include "nn/data/classes.h"
#include "nn/data/normalize.h"
#include "nn/files/files_impl.h"
#include "nn/files/metadata.h"
#include "nn/files/safetensors.h"
#include "nn/files/save.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_OF_TENSORS = 2, ARCHITECTURE = 3, MOST_ELEMENTS = 1 << 12 };

static st_net *build(st_net *n)
{
    if (!n || st_net_build(n, 1, 1)) abort();
    return n;
}

static st_net *small(void)
{
    return build(st_net_new(ST_SHAPE(2), st_dense(.out_features = 2), st_batchnorm(), st_relu()));
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The tensors of a file that is taken fill its data. */
static void look_at(const safetensors *file)
{
    long long bytes = 0;
    for (int i = 0; i < file->count; i++) {
        const safetensors_entry *e = &file->entry[i];
        fuzz_claim(e->begin >= 0 && e->end >= e->begin && e->end <= file->size, "tensors are in the data");
        fuzz_claim(i == 0 || strcmp(file->entry[i - 1].name, e->name) < 0, "names are in order");
        bytes += e->end - e->begin;
        bool found = safetensors_find(file, e->name, e->shape) == e;
        st_tensor x = found ? st_tensor_new(e->shape) : (st_tensor){ 0 };
        if (!st_is_null(x)) {
            fuzz_claim(safetensors_read(file, e, x) == 0, "what was checked is read");
            fuzz_look(x);
        }
        st_error_clear(); /* integers are not read */
        st_tensor_free(x);
    }
    fuzz_claim(bytes == file->size, "tensors fill the data");
    const char *key;
    json_t *text;
    json_object_foreach((json_t *)file->metadata, key, text)
        fuzz_claim(safetensors_text(file, key) == json_string_value(text), "each text has its key");
}

static void read_tensors(const char *path)
{
    fuzz_begin();
    safetensors *file = safetensors_open(path);
    if (fuzz_took(file)) look_at(file);
    safetensors_close(file);
}

/* Either is valid, or an error. */
static void read_metadata(const st_net *n)
{
    st_normalization *scale = st_net_normalization(n);
    for (ptrdiff_t i = 0; scale && i < scale->channels; i++)
        fuzz_claim(isfinite(scale->mean[i]) && scale->deviation[i] >= 0 && isfinite(scale->deviation[i]),
                   "means and deviations are finite");
    fuzz_claim(scale || !st_net_metadata(n, "normalization") || st_error(),
               "a wrong normalization is an error");
    st_error_clear();
    st_class_names *classes = st_net_classes(n);
    for (ptrdiff_t i = 0; classes && i < classes->count; i++)
        fuzz_claim(strlen(classes->name[i]) < 1 << 16, "names end");
    fuzz_claim(classes || !st_net_metadata(n, "classes") || st_error(), "wrong classes are an error");
    st_error_clear();
    st_normalization_free(scale), st_class_names_free(classes);
}

static void comes_back(st_net *n)
{
    const char *path = fuzz_path("again");
    fuzz_claim(st_net_save(n, path) == 0, "what was loaded is saved");
    st_net *again = st_net_load(path, .batch = 1);
    fuzz_claim(again && st_numel(st_net_parameters(again)) == st_numel(st_net_parameters(n)),
               "what was saved is loaded");
    st_net_free(again);
}

static void load(const char *path, bool save)
{
    fuzz_begin();
    st_net *n = st_net_load(path, .batch = 1);
    const bool taken = fuzz_took(n);
    if (taken) read_metadata(n);
    if (taken && save) comes_back(n);
    st_net_free(n);
}

static void load_tensors(const char *path)
{
    static st_net *n;
    if (!n) n = small();
    st_tensor before = st_tensor_clone(st_net_parameters(n));
    fuzz_begin();
    if (!fuzz_took(st_net_load_tensors(n, path) == 0))
        fuzz_claim(memcmp(st_data(before), st_data(st_net_parameters(n)),
                          (size_t)st_numel(before) * sizeof(st_real)) == 0,
                   "what is refused changes nothing");
    fuzz_look(st_net_parameters(n));
    st_tensor_free(before);
}

/* ---- architectures --------------------------------------------------------------------------- */

typedef struct items {
    safetensors_item item[64];
    int count;
    ptrdiff_t elements;
} items;

static void add(const st_net_tensor *t, void *context)
{
    items *all = context;
    ptrdiff_t count = st_shape_numel(t->value.shape, "a tensor");
    st_error_clear();
    if (count < 0 || count > MOST_ELEMENTS || all->count == 64) all->elements = MOST_ELEMENTS;
    else all->elements += count;
    if (all->elements >= MOST_ELEMENTS) return;
    st_tensor value = st_tensor_new(t->value.shape);
    all->item[all->count++] = (safetensors_item){ strdup(t->name), value };
}

/* A file of the architecture with zeros for each tensor; NULL where there are too many. */
static const char *file_of(st_net *n, const char *text)
{
    items all = { 0 };
    const char *path = fuzz_path("made");
    st_net_visit(n, add, &all);
    json_t *metadata = json_pack("{s:s, s:s}", "architecture", text, "stride_version", "1");
    bool written = metadata && all.elements < MOST_ELEMENTS &&
                   safetensors_write(path, all.count, all.item, metadata) == 0;
    json_decref(metadata);
    for (int i = 0; i < all.count; i++) {
        free((char *)all.item[i].name);
        st_tensor_free(all.item[i].value);
    }
    st_error_clear(); /* two of one name */
    return written ? path : NULL;
}

static void read_architecture(const char *text)
{
    fuzz_text(strlen(text));
    fuzz_begin();
    st_net *n = architecture_read(text, (st_net_known){ 0 });
    const char *path = fuzz_took(n) ? file_of(n, text) : NULL;
    st_net_free(n);
    if (path) load(path, true);
}

static void feed(const uint8_t *at, size_t size)
{
    if (size < 1 || size > 1 << 14) return;
    if (at[0] < FILE_OF_TENSORS) {
        read_tensors(fuzz_safetensors("net", at, size));
        load(fuzz_safetensors("net", at, size), size % 8 == 0);
    } else if (at[0] != ARCHITECTURE) {
        uint8_t input[1 << 14];
        memcpy(input, at, size);
        input[0] = 1;
        load_tensors(fuzz_safetensors("net", input, size));
    } else {
        char *text = malloc(size);
        memcpy(text, at + 1, size - 1);
        text[size - 1] = '\0';
        read_architecture(text);
        free(text);
    }
}

/* Architectures of all shipped types but those that need a function. */
static void seed(void)
{
    static const char *const architectures[] = {
        "{\"input\":[2],\"layers\":[{\"type\":\"dense\",\"out_features\":2},{\"type\":\"softmax\"}]}",
        "{\"input\":[1,6,6],\"layers\":[{\"type\":\"conv2d\",\"out_channels\":2,\"kernel\":[3,3],\"padding\":"
        "[1,1]},"
        "{\"type\":\"batchnorm\",\"momentum\":0.1},{\"type\":\"maxpool\",\"kernel\":[2,2]},{\"type\":"
        "\"flatten\"}]}",
        "{\"input\":[1,4,4],\"layers\":[{\"type\":\"sequence\",\"layers\":[{\"type\":\"residual\",\"layers\":"
        "[{\"type\":"
        "\"relu\"}]},{\"type\":\"concat\",\"layers\":[{\"type\":\"identity\"},{\"type\":\"tanh\"}]}]}]}",
        "{\"input\":[1,4,4],\"layers\":[{\"type\":\"pad2d\",\"mode\":\"reflect\",\"height\":[1,1]},{\"type\":"
        "\"upsample\","
        "\"scale\":[2,2],\"mode\":\"bilinear\"},{\"type\":\"conv_transpose2d\",\"out_channels\":1,\"kernel\":"
        "[2,2]}]}",
    };
    char input[2048];
    const char *path = fuzz_path("net");
    st_net *n = small();
    st_net_set_metadata(n, "normalization", "{\"mean\":[0.5,-1e3],\"deviation\":[1,0]}");
    st_net_set_metadata(n, "classes", "[\"cat\",\"dog\\u00e9\"]");
    st_net_save(n, path);
    fuzz_seed_safetensors(path);
    fuzz_seed_file(path, 0);
    st_net_free(n);
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        size_t length = strlen(architectures[i]);
        input[0] = ARCHITECTURE;
        memcpy(input + 1, architectures[i], length);
        fuzz_seed(input, 1 + length);
    }
    static const char tensors[] = "\2{\"0.weight\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8]}"
                                  ",\"0.bias\":{\"dtype\":\"BF16\",\"shape\":"
                                  "[2],\"data_offsets\":[8,12]},\"1.weight\":{\"dtype\":\"F16\",\"shape\":[2]"
                                  ",\"data_offsets\":[12,16]},\"1.bias\":{"
                                  "\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[16,20]},\"1.running_"
                                  "mean\":{\"dtype\":\"F16\",\"shape\":[2],"
                                  "\"data_offsets\":[20,24]},\"1.running_var\":{\"dtype\":\"F16\",\"shape\":["
                                  "2],\"data_offsets\":[24,28]}}\0"
                                  "............................";
    fuzz_seed(tensors, sizeof tensors - 1);
}

#define METADATA "{\"__metadata__\":{\"stride_version\":\"1\",\"architecture\":\""
#define NONE "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}"
#define TYPE(name) "{\\\"type\\\":\\\"" name "\\\"}"

/* Architectures with something wrong at their end, many notes, and headers that are refused late. */
static void large(void)
{
    static const char *const headers[][3] = {
        { METADATA "{\\\"layers\\\":[", TYPE("relu") ",", "7],\\\"input\\\":[2]}\"}}" },
        { METADATA "{\\\"input\\\":[2],\\\"layers\\\":[", TYPE("relu") ",", TYPE("relu") "]}\"}}" },
        { METADATA "{\\\"layers\\\":[" TYPE("relu") "],\\\"input\\\":[2", ",2", "]}\"}}" },
        { METADATA "{\\\"input\\\":[2],\\\"layers\\\":", "[[", "\"}}" },
        { METADATA "{\\\"input\\\":[2],\\\"layers\\\":[{\\\"", "type", "\\\":1}]}\"}}" },
        { METADATA "{\\\"input\\\":[2],\\\"layers\\\":[" TYPE("relu") "]}\"", ",\"note.#####\":\"\"", "}}" },
        { METADATA "{\\\"input\\\":[2],\\\"layers\\\":[" TYPE("relu") "]}\",\"note.a\":\"", "text", "\"}}" },
        { "{", "\"######\":" NONE ",", "\"\":{}}" },
        { "{", "\"######\":" NONE ",", "\"300000\":" NONE "}" },
        { "{", "\"######\":" NONE ",", "\"\":" NONE },
        { "{\"a\":", "[[[[[[[[", "" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0", ",0", "],\"data_offsets\":[0,0]}}" },
        { "{\"", "name ", "" },
        { "{\"", "\\u00e9", "\\ud800\":{}}" },
        { "{\"", "\\u00e9", "\":{}}" },
        { "{\"__metadata__\":{", "\"######\":\"\",", "\"\":1}}" },
        { "{\"__metadata__\":{", "\"######\":\"\",", "\"300000\":\"\"}}" },
        { "{\"__metadata__\":{", "\"######\":\"\",", "\"\":\"\"}" },
        { "{\"__metadata__\":{\"", "\\n", "\":\"\\x\"}" },
        { "{\"__metadata__\":[", "[],", "[]]}" },
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        load(fuzz_large("net", headers[i][0], headers[i][1], headers[i][2]), false);
}

/* clang-format off */
static const char *const words[] = {
    "\"input\":[1,4,4]", "\"layers\":[", "{\"type\":\"", "\"dense\"", "\"conv2d\"", "\"conv_transpose2d\"",
    "\"maxpool\"", "\"avgpool\"", "\"lppool\"", "\"adaptive_avgpool\"", "\"batchnorm\"", "\"layernorm\"",
    "\"groupnorm\"", "\"relu\"", "\"leaky_relu\"", "\"elu\"", "\"softmax\"", "\"log_softmax\"", "\"dropout\"",
    "\"channel_dropout\"", "\"pad2d\"", "\"upsample\"", "\"flatten\"", "\"identity\"", "\"residual\"",
    "\"concat\"", "\"sequence\"", "\"out_channels\":", "\"out_features\":", "\"kernel\":[", "\"stride\":[",
    "\"padding\":[", "\"dilation\":[", "\"output_padding\":[", "\"groups\":", "\"no_bias\":true",
    "\"ceil_mode\":true", "\"epsilon\":", "\"momentum\":", "\"axis\":", "\"axes\":", "\"p\":", "\"norm\":",
    "\"slope\":", "\"alpha\":", "\"mode\":\"", "\"scale\":[", "\"size\":[", "2147483647", "-2147483648",
    "9223372036854775807", "1e308", "0", "-1", "null", "}]}", "\"architecture\":\"", "\"__metadata__\":{",
    "\\ud800", "\"BOOL\"", "\\\"mean\\\":[", "\"dtype\":\"F32\"",
    "\"shape\":[", "\"data_offsets\":[", "\"note.", NULL
};
/* clang-format on */

const fuzzer fuzz = { feed, seed, large, .words = words };
