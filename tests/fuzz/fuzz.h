/* fuzz.h: what the fuzzers of all readers share: files of given bytes, and a look at what came of reading
 * them.
 *
 *     static void feed(const uint8_t *at, size_t size)
 *     {
 *         const char *path = fuzz_file("x.npy", at, size);
 *         fuzz_begin();
 *         tensor x = st_npy_load(path);
 *         if (fuzz_took(!st_is_null(x))) use(x);
 *         st_tensor_free(x);
 *     }
 *
 * A refused input must leave one line of error, a taken one none; and until a reader has refused a file it
 * may hold no more memory than twice the files' bytes, unpacked, and a MiB. A program ends where that is not
 * so.
 *
 * Not counted are layers, which take more than the text that asks for one and whose number readers limit; and
 * all from st_net_build on: the file was found good by then. */
#ifndef STRIDE_TESTS_FUZZ_FUZZ_H
#define STRIDE_TESTS_FUZZ_FUZZ_H

#include "tensor/error.h"
#include "tensor/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each fuzzer defines one. */
typedef struct fuzzer {
    void (*feed)(const uint8_t *at, size_t size); /* an input of any size */
    void (*seed)(void);                           /* hands inputs to fuzz_seed, the beginning of a corpus */
    void (*large)(void);      /* reads files of many MiB that are refused late; NULL: none */
    const char *const *words; /* of the dictionary, ended by NULL; NULL: none */
} fuzzer;
extern const fuzzer fuzz;

/* A file of these bytes in a folder of this process; its path, good until the next input. */
const char *fuzz_file(const char *name, const void *at, size_t size);
const char *fuzz_gzip(const char *name, const void *at, size_t size);
const char *fuzz_either(const char *name, bool gzip, const void *at, size_t size);
const char *fuzz_path(const char *name);                                 /* not written yet */
size_t fuzz_pack(const void *at, size_t size, uint8_t *to, size_t room); /* as one gzip stream; its bytes */

/* From here on the reader's memory is measured, up to where it says whether it took what it was given: that
 * again, and the error gone. */
void fuzz_begin(void);
void fuzz_text(size_t size);      /* of the input that is in no file */
void fuzz_allow(long long bytes); /* of memory more than that */
bool fuzz_took(bool taken);

/* An input of the corpus; one of the file that a writer left at the path, behind a byte. */
enum { FUZZ_NOTHING = -1 };
void fuzz_seed(const void *at, size_t size);
void fuzz_seed_file(const char *path, int before);

/* A file of safetensors: 0 and the file itself, or 1, its header up to a 0, and its data, so that the
 * header's length is always right. */
const char *fuzz_safetensors(const char *name, const uint8_t *at, size_t size);
void fuzz_seed_safetensors(const char *path);

/* Some MiB: a piece again and again, in which #s are counted, so that names differ. The text is the caller's;
 * the file is one of safetensors, of no data, with the text for its header. */
char *fuzz_large_text(const char *before, const char *again, const char *after);
const char *fuzz_large(const char *name, const char *before, const char *again, const char *after);

/* If it is false, prints the claim and ends the program. */
void fuzz_claim(bool holds, const char *claim);

/* Looks at each element. */
void fuzz_look(st_tensor x);

/* fuzz_took of a data set, whose samples are then finite, and of classes below that number unless it is 0;
 * frees it. */
struct st_dataset;
void fuzz_took_data(struct st_dataset *d, int classes);

#endif
