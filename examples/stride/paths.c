/* paths.c: see paths.h. */
#define _XOPEN_SOURCE 700
#include "examples/stride/paths.h"
#include "examples/stride/text.h"
#include "nn/files/replace.h"
#include "tensor/error.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Does what realpath does, but the file itself need not exist. */
static bool resolve(const char *path, char to[PATH_MAX])
{
    char folder[PATH_MAX], resolved[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 0;
    if (snprintf(folder, sizeof folder, "%.*s", length ? length : 1, length ? path : ".") >= PATH_MAX)
        return false;
    return realpath(folder, resolved) && snprintf(to, PATH_MAX, "%s/%s", resolved, path + length) < PATH_MAX;
}

bool path_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

int path_readable(const char *path)
{
    struct stat about;
    if (stat(path, &about) || S_ISREG(about.st_mode)) return 0;
    return st_error_set("%.200s: not a regular file", path);
}

/* The first eight bytes are the length of the header, which is JSON and fits into the file. */
bool path_is_model(const char *path)
{
    struct stat about;
    unsigned char first[9] = { 0 };
    uint64_t length = 0;
    if (stat(path, &about)) return text_ends(path, ".safetensors");
    FILE *f = S_ISREG(about.st_mode) ? fopen(path, "rb") : NULL;
    if (!f) return S_ISREG(about.st_mode) && text_ends(path, ".safetensors");
    const bool whole = fread(first, 1, sizeof first, f) == sizeof first;
    fclose(f);
    for (int i = 8; i-- > 0;) length = length << 8 | first[i];
    return text_ends(path, ".safetensors") ||
           (whole && first[8] == '{' && length <= (uint64_t)about.st_size - 8);
}

bool path_is_table(const char *path)
{
    return text_ends_or_gz(path, ".csv") || text_ends_or_gz(path, ".tsv");
}

char *path_contents(const char *path, size_t most, size_t *size)
{
    struct stat about;
    char *text = NULL;
    FILE *f = path_readable(path) ? NULL : fopen(path, "rb");
    if (!f || fstat(fileno(f), &about)) st_error_set("%.200s: %s", path, strerror(errno));
    else if ((size_t)about.st_size > most) st_error_set("%.200s: longer than %zu bytes", path, most);
    else if (!(text = malloc((size_t)about.st_size + 1)))
        st_error_set("%.200s: no memory for %lld bytes", path, (long long)about.st_size);
    else text[ *size = fread(text, 1, (size_t)about.st_size, f)] = '\0';
    if (f && ferror(f)) st_error_set("%.200s: %s", path, strerror(errno));
    if (f) fclose(f);
    return text;
}

int path_writable(const char *path)
{
    struct stat about; /* the path may be too long although the temporary file's is not */
    if (lstat(path, &about) && errno != ENOENT) return st_error_set("%.300s: %s", path, strerror(errno));
    return st_file_try(path, NULL, NULL);
}

const char *path_temporary(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

bool path_same(const char *a, const char *b)
{
    char path_a[PATH_MAX], path_b[PATH_MAX];
    struct stat of_a, of_b;
    if (!a || !b) return false;
    if (strcmp(a, b) == 0) return true;
    if (stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
        of_a.st_ino == of_b.st_ino)
        return true;
    if (!resolve(a, path_a) || !resolve(b, path_b)) return false;
    return strcmp(path_a, path_b) == 0 || st_file_is_temporary(path_a, path_b) ||
           st_file_is_temporary(path_b, path_a);
}
