/* fuzz_safetensors.c: safetensors_open takes any bytes; the tensors of what it takes fill its data. */
#include "tests/fuzz/fuzz.h"

#include "nn/files/safetensors.h"

#include <stdlib.h>
#include <string.h>

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

static void read_file(const char *path)
{
    fuzz_begin();
    safetensors *file = safetensors_open(path);
    if (fuzz_took(file)) look_at(file);
    safetensors_close(file);
}

static void feed(const uint8_t *at, size_t size)
{
    read_file(fuzz_safetensors("x.safetensors", at, size));
}

static void seed(void)
{
    static const char *const headers[] = {
        "\1{}", "\1{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}\0..",
        "\1{\"__metadata__\":{\"a\":\"b\"},\"a\":{\"dtype\":\"BOOL\",\"shape\":[0,3],\"data_offsets\":[0,0]}}"
    };
    const char *path = fuzz_path("x.safetensors");
    st_tensor x = st_tensor_new(ST_SHAPE(2, 3)), y = st_tensor_new((st_shape){ 0 });
    json_t *metadata = json_pack("{s:s}", "key", "text");
    safetensors_write(path, 2, (safetensors_item[]){ { "0.weight", x }, { "a", y } }, metadata);
    fuzz_seed_safetensors(path);
    json_decref(metadata);
    st_tensor_free(x);
    st_tensor_free(y);
    for (int i = 0; i < 3; i++) fuzz_seed(headers[i], strlen(headers[i]) + (i == 1 ? 3 : 0));
}

#define NONE "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}"

/* Refused at their end, or when all is put in order. */
static void large(void)
{
    static const char *const headers[][3] = {
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
        read_file(fuzz_large("x.safetensors", headers[i][0], headers[i][1], headers[i][2]));
}

const fuzzer fuzz = { feed, seed, large, .words = fuzz_safetensors_words };
