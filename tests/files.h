/* files.h: files that tests write, in a folder of their own, and readers that must refuse them. */
#ifndef STRIDE_TESTS_FILES_H
#define STRIDE_TESTS_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* The set-up of a group of tests: makes a new folder, in STRIDE_TEST_TMP or in /tmp. */
int enter_folder(void **state);

/* In that folder; valid until 64 other paths were asked for. */
const char *path_of(const char *name);

typedef struct bytes {
    size_t count;
    const void *at;
} bytes;

#define STRING(text)                                                                                         \
    {                                                                                                        \
        sizeof text - 1, text                                                                                \
    }
#define BYTES(text) ((bytes)STRING(text))

/* Files of these bytes, plain and gzipped; their paths. */
const char *written(const char *name, bytes b);
const char *zipped(const char *name, bytes b);
bytes contents(const char *path); /* of a file below 4 MiB, until the call after the next */

/* From here on the program's locale has a decimal comma; it is made in the folder where none is installed.
 * False where that cannot be done. */
bool enter_comma_locale(void);

/* A file that a reader must refuse, and a part of the error. */
typedef struct bad_file {
    const char *what;
    bytes file;
    const char *expected;
} bad_file;

/* An error is latched: one line that holds the name (the end of a long one) and what was expected. Clears
 * it. */
void expect_refused(bool taken, const char *name, const char *expected);

#endif
