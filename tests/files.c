/* files.c: see files.h. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static char folder[3000];

int enter_folder(void **state)
{
    const char *given = getenv("STRIDE_TEST_TMP");
    snprintf(folder, sizeof folder, "%s/stride-XXXXXX", given ? given : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

const char *path_of(const char *name)
{
    enum { PATHS = 64 };
    static char paths[PATHS][sizeof folder + 1000];
    static int count;
    char path[sizeof paths[0]];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (int i = 0; i < PATHS; i++)
        if (strcmp(paths[i], path) == 0) return paths[i];
    return strcpy(paths[count++ % PATHS], path);
}

bool enter_comma_locale(void)
{
    char command[4096];
    snprintf(command, sizeof command, "localedef -i de_DE -f ISO-8859-1 '%s' >/dev/null 2>&1",
             path_of("de_DE")); /* as UTF-8 it takes four times as long */
    return setlocale(LC_ALL, "de_DE") || setlocale(LC_ALL, "de_DE.utf8") ||
           (system(command) != -1 && setenv("LOCPATH", path_of("."), 1) == 0 && setlocale(LC_ALL, "de_DE"));
}

const char *written(const char *name, bytes b)
{
    const char *path = path_of(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.at, 1, b.count, f), b.count);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *zipped(const char *name, bytes b)
{
    const char *path = path_of(name);
    gzFile f = gzopen(path, "wb9");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, b.at, (unsigned)b.count), b.count);
    assert_int_equal(gzclose(f), Z_OK);
    return path;
}

bytes contents(const char *path)
{
    static unsigned char all[2][1 << 22];
    static int turn;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    turn = !turn;
    bytes b = { 0, all[turn] };
    for (int c; b.count < sizeof all[0] && (c = getc(f)) != EOF;) all[turn][b.count++] = (unsigned char)c;
    assert_int_equal(fclose(f), 0);
    assert_true(b.count < sizeof all[0]);
    return b;
}

void expect_refused(bool taken, const char *name, const char *expected)
{
    if (taken) fail_msg("it was taken");
    size_t length = strlen(name);
    assert_non_null(st_error());
    assert_non_null(strstr(st_error(), length > 100 ? name + length - 100 : name));
    assert_null(strchr(st_error(), '\n'));
    expect_error("%s", expected);
}
