/* paths.h: files that a command line names: read, compared, and tried before anything is written. */
#ifndef STRIDE_EXAMPLES_STRIDE_PATHS_H
#define STRIDE_EXAMPLES_STRIDE_PATHS_H

#include <stdbool.h>
#include <stddef.h>

enum { LONGEST_PATH = 4096 };

bool path_is_folder(const char *path);

/* -1 with an error if the path names a FIFO, a device or a folder, which reading could wait for, or never end
 * with. */
int path_readable(const char *path);

/* True for a safetensors file, by its first bytes; and for a missing file whose name ends in .safetensors. */
bool path_is_model(const char *path);

/* True for the name of a table: .csv or .tsv, with or without .gz behind it. */
bool path_is_table(const char *path);

/* A file of at most `most` bytes, with a 0 behind them; to be freed. With an error it is cut short, or
 * NULL. */
char *path_contents(const char *path, size_t most, size_t *size);

/* Tests if a file could be replaced, without changing it: 0, or -1 with an error. */
int path_writable(const char *path);

/* The folder for temporary files: the environment variable TMPDIR, or /tmp. */
const char *path_temporary(void);

/* True if two paths, which may be NULL, name the same file, whether it exists or not, or if one is a
 * temporary file of the other. */
bool path_same(const char *a, const char *b);

#endif
