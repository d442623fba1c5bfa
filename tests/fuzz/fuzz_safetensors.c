/* fuzz_safetensors.c: safetensors_open takes any bytes; the tensors of what it takes fill its data. */
#include "tests/fuzz/fuzz.h"

#include "nn/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void look_at(const safetensors *file)
{
    long long at = 0;
    for (int i = 0; i < file->count; at = file->entry[i++].end) {
        const safetensors_entry *e = &file->entry[i];
        fuzz_claim(e->begin == at && e->end >= at, "tensors follow one another");
        bool found = safetensors_find(file, e->name, e->shape);
        tensor x = found ? tensor_new(e->shape) : (tensor){ 0 };
        if (!tensor_is_null(x)) {
            fuzz_claim(safetensors_read(file, e, x) == 0, "what was checked is read");
            fuzz_look(x);
        }
        error_clear(); /* integers are not read */
        tensor_free(x);
    }
    fuzz_claim(at == file->size, "nothing follows the last tensor");
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
    tensor x = tensor_new(SHAPE(2, 3)), y = tensor_new((shape){ 0 });
    json_t *metadata = json_pack("{s:s}", "key", "text");
    safetensors_write(path, 2, (safetensors_item[]){ { "0.weight", x }, { "a", y } }, metadata);
    fuzz_seed_safetensors(path);
    json_decref(metadata);
    tensor_free(x);
    tensor_free(y);
    for (int i = 0; i < 3; i++) fuzz_seed(headers[i], strlen(headers[i]) + (i == 1 ? 3 : 0));
}

const fuzzer fuzz = { feed, seed, .words = fuzz_safetensors_words };
