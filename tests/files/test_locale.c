/* test_locale.c: files do not depend on the program's locale. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "layers/layers.h"
#include "nn/data/augment.h"
#include "nn/data/digits.h"
#include "nn/data/normalize.h"
#include "nn/files/save.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 32 };

static st_net *make(void)
{
    st_net *n = st_net_new(ST_SHAPE(1, 28, 28), st_elu(.alpha = 0.3), st_dropout(.p = 0.25), st_flatten(),
                           st_dense(.out_features = 10));
    assert_int_equal(st_net_build(n, 8, 1), 0);
    return n;
}

static const double mean[] = { 0.1 }, deviation[] = { 0.3 };

typedef struct saved {
    char bytes[1 << 16], prepared[256];
    size_t size;
} saved;

/* A net's file and how its samples are prepared. */
static void save(saved *s)
{
    st_normalization *scale = st_normalization_new(1, mean, deviation);
    auto_dataset *digits = st_digits(SAMPLES, 1),
                 *shifted = st_dataset_augment(digits, .shift = 1.5, .noise = 0.1),
                 *normal = st_dataset_normalize(shifted, scale);
    auto_net *n = make();
    const char *path = path_of("net");
    assert_int_equal(st_net_set_normalization(n, scale) | st_net_save(n, path), 0);
    snprintf(s->prepared, sizeof s->prepared, "%s", normal->prepared);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    s->size = fread(s->bytes, 1, sizeof s->bytes, f);
    fclose(f);
    auto_net *loaded = st_net_load(path, .batch = 8);
    st_normalization *found = loaded ? st_net_normalization(loaded) : NULL;
    assert_true(found && found->mean[0] == 0.1 && found->deviation[0] == 0.3);
    st_normalization_free(found), st_normalization_free(scale);
}

SETUP(enter_folder)

TEST(files_are_the_same)
{
    static saved plain, comma;
    save(&plain);
    if (!enter_comma_locale())
        skip_because("no locale with a decimal comma is installed, nor can localedef make one");
    assert_true(strtod("0,5", NULL) == 0.5);
    save(&comma);
    assert_true(strtod("0,5", NULL) == 0.5);
    setlocale(LC_ALL, "C");
    assert_non_null(strstr(plain.prepared, "0.1"));
    assert_string_equal(plain.prepared, comma.prepared);
    assert_int_equal(plain.size, comma.size);
    assert_memory_equal(plain.bytes, comma.bytes, plain.size);
}
