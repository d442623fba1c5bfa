/* fuzz.c: see fuzz.h; the fuzzing itself is libFuzzer's.
 *
 *     PROGRAM --seeds DIR    writes the inputs that fuzzing begins with, and DIR.dict
 *     PROGRAM --large        reads large files
 *     PROGRAM [OPTIONS] DIR  fuzzes, as libFuzzer says */
#define _XOPEN_SOURCE 700
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { SLACK = 1 << 20, MOST_FILES = 8, LONGEST_SEED = 1 << 16 };

/* Of the sanitizers, whose header not every compiler has. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *at, size_t size),
                                              void (*on_free)(const volatile void *at));
size_t __sanitizer_get_allocated_size(const volatile void *at);

/* libFuzzer calls these. */
int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size);

static _Noreturn void fail(const char *why)
{
    fprintf(stderr, "FAIL: %s\n", why);
    abort();
}

void fuzz_claim(bool holds, const char *claim)
{
    if (!holds) fail(claim);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Of the thread that reads, since fuzz_begin. */
static _Thread_local struct metre {
    bool on;
    long long held, most;
} metre;

static void on_malloc(const volatile void *at, size_t size)
{
    if (!metre.on || !at) return;
    metre.held += (long long)size;
    if (metre.held > metre.most) metre.most = metre.held;
}

static void on_free(const volatile void *at)
{
    if (metre.on && at) metre.held -= (long long)__sanitizer_get_allocated_size(at);
}

static long long given,
    greatest; /* bytes of this input's files; of memory at most, over all inputs that were refused */

void fuzz_begin(void)
{
    metre = (struct metre){ .on = true };
}

void fuzz_begin_unmeasured(void)
{
    metre = (struct metre){ .on = false };
}

static bool refused_well(const char *text)
{
    if (!text || !*text) return false;
    for (; *text; text++)
        if ((unsigned char)*text < ' ') return false;
    return true;
}

bool fuzz_took_unless(bool taken, const char *refusal)
{
    char why[128];
    metre.on = false;
    const char *text = error_text();
    if (!taken && text && refusal && strstr(text, refusal)) {
        error_clear();
        return true;
    }
    if (taken && text) fail("it was taken, with an error");
    if (!taken && !refused_well(text)) fail("it was refused without a line of error");
    error_clear();
    if (taken) return true;
    long long bytes = given, most = 2 * bytes + SLACK;
    given = 0;
    if (metre.most > greatest) greatest = metre.most;
    snprintf(why, sizeof why, "%lld bytes of memory until %lld of files were refused, expected at most %lld",
             metre.most, bytes, most);
    if (metre.most > most) fail(why);
    return false;
}

bool fuzz_took(bool taken)
{
    return fuzz_took_unless(taken, NULL);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char folder[512];

static struct slot {
    char name[64], path[600];
} slots[MOST_FILES];
static int used; /* slots */

static void empty_folder(void)
{
    for (int i = 0; i < used; i++) unlink(slots[i].path);
    if (folder[0]) rmdir(folder);
}

/* In memory, where the machine has such a folder. */
static void make_folder(void)
{
    const char *asked = getenv("FUZZ_TMP");
    snprintf(folder, sizeof folder, "%s/stride-fuzz-XXXXXX",
             asked                           ? asked
             : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                             : "/tmp");
    if (!mkdtemp(folder)) fail("no folder for its files");
    atexit(empty_folder);
}

const char *fuzz_path(const char *name)
{
    int i = 0;
    while (i < used && strcmp(slots[i].name, name) != 0) i++;
    if (i == MOST_FILES) fail("too many files");
    if (i < used) return slots[i].path;
    snprintf(slots[i].name, sizeof slots[i].name, "%s", name);
    snprintf(slots[i].path, sizeof slots[i].path, "%s/%s", folder, name);
    used++;
    return slots[i].path;
}

/* What a gzip stream unpacks to, as far as it can be unpacked; of other files their size. */
static long long unpacked(const char *path)
{
    static unsigned char part[1 << 16];
    long long all = 0;
    gzFile file = gzopen(path, "rb");
    if (!file) fail("a file cannot be read");
    for (int n; (n = gzread(file, part, sizeof part)) > 0;) all += n;
    gzclose(file);
    return all;
}

const char *fuzz_file(const char *name, const void *at, size_t size)
{
    const char *path = fuzz_path(name);
    const unsigned char *bytes = at;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(at, 1, size, file) != size || fclose(file)) fail(strerror(errno));
    long long whole = size > 1 && bytes[0] == 0x1f && bytes[1] == 0x8b ? unpacked(path) : 0;
    given += whole > (long long)size ? whole : (long long)size;
    return path;
}

const char *fuzz_gzip(const char *name, const void *at, size_t size)
{
    const char *path = fuzz_path(name);
    gzFile file = gzopen(path, "wb1");
    if (!file || (size > 0 && gzwrite(file, at, (unsigned)size) != (int)size) || gzclose(file)) fail("gzip");
    given += (long long)size;
    return path;
}

/* ---- safetensors ------------------------------------------------------------------------------ */

const char *const fuzz_safetensors_words[] = { "\"__metadata__\":{",
                                               "\"dtype\":\"F32\"",
                                               "\"dtype\":\"F64\"",
                                               "\"F16\"",
                                               "\"BF16\"",
                                               "\"I64\"",
                                               "\"U8\"",
                                               "\"BOOL\"",
                                               "\"shape\":[",
                                               "\"shape\":[]",
                                               "\"data_offsets\":[0,0]",
                                               "\"data_offsets\":[",
                                               "\\\"",
                                               "\\u0000",
                                               "\\ud800",
                                               "9223372036854775807",
                                               "-1",
                                               "1e3",
                                               "1.0",
                                               "null",
                                               "true",
                                               "{}",
                                               "[]",
                                               "},\"0.bias\":{",
                                               "\"0.weight\":{",
                                               "\"note.",
                                               "\"architecture\":\"",
                                               "\"stride_version\":\"1\"",
                                               NULL };

const char *fuzz_safetensors(const char *name, const uint8_t *at, size_t size)
{
    static uint8_t file[8 + LONGEST_SEED + 1];
    if (size == 0 || at[0] % 2 == 0 || size > LONGEST_SEED)
        return fuzz_file(name, at + (size > 0), size - (size > 0));
    at++, size--;
    const uint8_t *end = memchr(at, 0, size);
    size_t length = end ? (size_t)(end - at) : size, data = end ? size - length - 1 : 0;
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(file + 8, at, length);
    if (data > 0) memcpy(file + 8 + length, end + 1, data);
    return fuzz_file(name, file, 8 + length + data);
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static const char *seeds_folder;
static int seeds;

void fuzz_seed(const void *at, size_t size)
{
    char path[600];
    snprintf(path, sizeof path, "%s/seed-%02d", seeds_folder, seeds++);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(at, 1, size, file) != size || fclose(file)) fail("a seed cannot be written");
}

static size_t read_whole(const char *path, uint8_t to[LONGEST_SEED])
{
    FILE *file = fopen(path, "rb");
    if (!file) fail("a seed's file is not there");
    size_t size = fread(to, 1, LONGEST_SEED, file);
    fclose(file);
    return size;
}

void fuzz_seed_file(const char *path, int before)
{
    static uint8_t bytes[LONGEST_SEED + 1];
    size_t size = read_whole(path, bytes + 1);
    bytes[0] = (uint8_t)before;
    if (before == FUZZ_NOTHING) fuzz_seed(bytes + 1, size);
    else fuzz_seed(bytes, 1 + size);
}

void fuzz_seed_safetensors(const char *path)
{
    static uint8_t file[LONGEST_SEED], input[LONGEST_SEED + 2];
    size_t size = read_whole(path, file), length = (size_t)(file[0] | file[1] << 8 | file[2] << 16);
    if (8 + length > size) fail("a seed is no safetensors file");
    fuzz_seed_file(path, 0);
    input[0] = 1;
    memcpy(input + 1, file + 8, length);
    input[1 + length] = 0;
    memcpy(input + 2 + length, file + 8 + length, size - 8 - length);
    fuzz_seed(input, size - 8 + 2);
}

static void write_dictionary(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s.dict", seeds_folder);
    FILE *file = fopen(path, "w");
    if (!file) fail("the dictionary cannot be written");
    for (const char *const *word = fuzz.words; word && *word; word++) {
        fputc('"', file);
        for (const char *c = *word; *c; c++)
            fprintf(file, *c == '"' || *c == '\\' || *c < ' ' || *c > '~' ? "\\x%02x" : "%c",
                    (unsigned char)*c);
        fputs("\"\n", file);
    }
    fclose(file);
}

/* ---- the program ------------------------------------------------------------------------------ */

static void tell(void)
{
    fprintf(stderr, "most memory of what was refused: %lld bytes\n", greatest);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    char **argument = *arguments;
    if (!__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free)) fail("memory cannot be measured");
    make_folder();
    if (*count == 3 && strcmp(argument[1], "--seeds") == 0) {
        seeds_folder = argument[2];
        write_dictionary();
        fuzz.seed();
        if (error_text()) fail(error_text());
        exit(0);
    }
    atexit(tell);
    if (*count == 2 && strcmp(argument[1], "--large") == 0) {
        if (fuzz.large) fuzz.large();
        exit(0);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size)
{
    given = 0;
    fuzz.feed(at, size);
    if (error_text()) fail("an error was left");
    return 0;
}

static void look(ptrdiff_t n, real *const at[], const ptrdiff_t stride[], void *context)
{
    for (ptrdiff_t i = 0; i < n; i++) *(volatile real *)context = at[0][i * stride[0]];
}

void fuzz_look(tensor x)
{
    real last = 0;
    tensor_walk(1, &x, TENSOR_ANY_ORDER, look, &last);
}
