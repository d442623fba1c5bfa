/* fuzz.c: see fuzz.h; the fuzzing itself is libFuzzer's.
 *
 *     PROGRAM --seeds DIR    writes the inputs that fuzzing begins with, and DIR.dict
 *     PROGRAM --large        reads large files
 *     PROGRAM [OPTIONS] DIR  fuzzes, as libFuzzer says */
#define _XOPEN_SOURCE 700
#include "tests/fuzz/fuzz.h"

#include "layers/layer.h"
#include "nn/data.h"
#include "nn/net.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum {
    SLACK = 1 << 20,
    TREE = 176 << 20 /* bytes: of json.h's limits, and their text */,
    MOST_FILES = 8,
    LONGEST_SEED = 1 << 16,
    LARGE = 8 << 20
};

/* The sanitizers' functions, whose header not every compiler has. */
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

/* Memory of the thread that reads, since fuzz_begin. */
static _Thread_local struct metre {
    bool on;
    int made; /* layers are being made, or let go */
    long long held, most;
} metre;

static void on_malloc(const volatile void *at, size_t size)
{
    if (!metre.on || metre.made || !at) return;
    metre.held += (long long)size;
    if (metre.held > metre.most) metre.most = metre.held;
}

static void on_free(const volatile void *at)
{
    if (metre.on && !metre.made && at) metre.held -= (long long)__sanitizer_get_allocated_size(at);
}

static long long given, allowed, /* bytes of this input; besides */
    greatest;                    /* of memory at most, over all inputs that were refused */

void fuzz_begin(void)
{
    metre = (struct metre){ .on = true };
}

void fuzz_text(size_t size)
{
    given += (long long)size;
}

void fuzz_allow(long long bytes)
{
    allowed += bytes;
}

/* The linker puts these in the place of the library's own: see fuzz.h. */
st_layer *__real_st_layer_new(const st_layer_type *type, const void *options, int children,
                              st_layer *const child[]);
st_layer *__wrap_st_layer_new(const st_layer_type *type, const void *options, int children,
                              st_layer *const child[]);
st_layer *__wrap_st_layer_new(const st_layer_type *type, const void *options, int children,
                              st_layer *const child[])
{
    metre.made++;
    st_layer *made = __real_st_layer_new(type, options, children, child);
    metre.made--;
    return made;
}

st_layer *__real_st_layer_clone(const st_layer *of);
st_layer *__wrap_st_layer_clone(const st_layer *of);
st_layer *__wrap_st_layer_clone(const st_layer *of)
{
    metre.made++;
    st_layer *made = __real_st_layer_clone(of);
    metre.made--;
    return made;
}

void __real_st_layer_free(st_layer *l);
void __wrap_st_layer_free(st_layer *l);
void __wrap_st_layer_free(st_layer *l)
{
    metre.made++;
    __real_st_layer_free(l);
    metre.made--;
}

/* A plan is as large as its layer. */
int __real_st_layer_plan(st_layer *l, st_shape x, st_shape *y);
int __wrap_st_layer_plan(st_layer *l, st_shape x, st_shape *y);
int __wrap_st_layer_plan(st_layer *l, st_shape x, st_shape *y)
{
    metre.made++;
    const int status = __real_st_layer_plan(l, x, y);
    metre.made--;
    return status;
}

int __real_st_net_build(st_net *n, ptrdiff_t batch, uint64_t seed);
int __wrap_st_net_build(st_net *n, ptrdiff_t batch, uint64_t seed);
int __wrap_st_net_build(st_net *n, ptrdiff_t batch, uint64_t seed)
{
    metre.on = false;
    return __real_st_net_build(n, batch, seed);
}

static bool refused_well(const char *text)
{
    if (!text || !*text) return false;
    for (; *text; text++)
        if ((unsigned char)*text < ' ') return false;
    return true;
}

bool fuzz_took(bool taken)
{
    char why[128];
    metre.on = false;
    const char *text = st_error();
    if (taken && text) fail("it was taken, with an error");
    if (!taken && !refused_well(text)) fail("it was refused without a line of error");
    st_error_clear();
    if (taken) return true;
    long long bytes = given, tree = 34 * bytes < TREE ? 34 * bytes : TREE,
              most = 6 * bytes + tree + SLACK + allowed;
    given = allowed = 0;
    if (metre.most > greatest) greatest = metre.most;
    snprintf(why, sizeof why, "%lld bytes of memory until %lld were refused, expected at most %lld",
             metre.most, bytes, most);
    if (metre.most > most) fail(why);
    return false;
}

/* ---- files ----------------------------------------------------------------------------------- */

static char folder[512];

static struct slot {
    char name[64], path[600];
    int descriptor;
    bool open;
    size_t size; /* of what was last put there */
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

static struct slot *slot_of(const char *name)
{
    int i = 0;
    while (i < used && strcmp(slots[i].name, name) != 0) i++;
    if (i == MOST_FILES) fail("too many files");
    if (i == used) {
        slots[i] = (struct slot){ .open = false };
        snprintf(slots[i].name, sizeof slots[i].name, "%s", name);
        snprintf(slots[i].path, sizeof slots[i].path, "%s/%s", folder, name);
        used++;
    }
    return &slots[i];
}

const char *fuzz_path(const char *name)
{
    return slot_of(name)->path;
}

/* It stays open, which is most of what a small file costs. */
static const char *put(const char *name, const void *at, size_t size)
{
    struct slot *s = slot_of(name);
    if (!s->open) s->descriptor = open(s->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    s->open = s->descriptor >= 0;
    if (!s->open || pwrite(s->descriptor, at, size, 0) != (ssize_t)size ||
        (size < s->size && ftruncate(s->descriptor, (off_t)size)))
        fail(strerror(errno));
    s->size = size;
    return s->path;
}

/* The bytes of a gzip stream, unpacked as far as it goes; of other files their size. */
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
    const char *path = put(name, at, size);
    const unsigned char *bytes = at;
    long long whole = size > 1 && bytes[0] == 0x1f && bytes[1] == 0x8b ? unpacked(path) : 0;
    given += whole > (long long)size ? whole : (long long)size;
    return path;
}

size_t fuzz_pack(const void *at, size_t size, uint8_t *to, size_t room)
{
    static z_stream z;
    if (!z.state) deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 1, Z_DEFAULT_STRATEGY);
    deflateReset(&z);
    z.next_in = (uint8_t *)(uintptr_t)at, z.avail_in = (unsigned)size;
    z.next_out = to, z.avail_out = (unsigned)room;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) fail("a gzip stream has no room");
    return (size_t)z.total_out;
}

const char *fuzz_gzip(const char *name, const void *at, size_t size)
{
    size_t room = size + size / 1000 + 64; /* what deflate may need for what it cannot pack */
    uint8_t *packed = malloc(room);
    if (!packed) fail("no memory for a gzip stream");
    const char *path = put(name, packed, fuzz_pack(at, size, packed, room));
    free(packed);
    given += (long long)size;
    return path;
}

const char *fuzz_either(const char *name, bool gzip, const void *at, size_t size)
{
    return gzip ? fuzz_gzip(name, at, size) : fuzz_file(name, at, size);
}

/* ---- safetensors ------------------------------------------------------------------------------ */

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

/* ---- large ones ------------------------------------------------------------------------------ */

/* The count in place of #s, its last digit first, so that the order is none. */
static char *put_counted(char *to, const char *piece, size_t count)
{
    for (; *piece; piece++, to++) {
        *to = *piece == '#' ? "0123456789abcdef"[count % 16] : *piece;
        if (*piece == '#') count /= 16;
    }
    return to;
}

char *fuzz_large_text(const char *before, const char *again, const char *after)
{
    char *text = malloc(LARGE + strlen(before) + strlen(again) + strlen(after) + 1);
    if (!text) fail("no memory for a large text");
    char *to = put_counted(text, before, 0);
    for (size_t i = 0; to < text + LARGE; i++) to = put_counted(to, again, i);
    strcpy(to, after);
    return text;
}

const char *fuzz_large(const char *name, const char *before, const char *again, const char *after)
{
    char *header = fuzz_large_text(before, again, after);
    size_t length = strlen(header);
    uint8_t *file = malloc(8 + length);
    if (!file) fail("no memory for a large file");
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(file + 8, header, length);
    const char *path = fuzz_file(name, file, 8 + length);
    free(header);
    free(file);
    return path;
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
        if (st_error()) fail(st_error());
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
    given = allowed = 0;
    fuzz.feed(at, size);
    if (st_error()) fail("an error was left");
    return 0;
}

static void look(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    for (ptrdiff_t i = 0; i < n; i++) *(volatile st_real *)context = at[0][i * stride[0]];
}

void fuzz_look(st_tensor x)
{
    st_real last = 0;
    st_walk(1, &x, ST_ANY_ORDER, look, &last);
}

static void claim_finite(ptrdiff_t n, st_real *const at[], const ptrdiff_t stride[], void *context)
{
    for (ptrdiff_t i = 0; i < n; i++) fuzz_claim(isfinite(at[0][i * stride[0]]), "what was taken is finite");
}

void fuzz_took_data(st_dataset *d, int classes)
{
    bool taken = fuzz_took(d);
    st_tensor x = taken ? st_tensor_new(d->x) : (st_tensor){ 0 }, y = taken ? st_tensor_new(d->target) : x;
    for (ptrdiff_t i = 0; taken && i < d->count; i++) {
        d->get(d, i, x, y);
        st_walk(1, &x, ST_ANY_ORDER, claim_finite, NULL);
        st_walk(1, &y, ST_ANY_ORDER, claim_finite, NULL);
        if (classes > 0)
            fuzz_claim(st_item(y) >= 0 && st_item(y) < (st_real)classes, "classes are below their number");
    }
    st_tensor_free(x), st_tensor_free(y);
    st_dataset_free(d);
}
