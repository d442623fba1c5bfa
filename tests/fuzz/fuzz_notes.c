/* fuzz_notes.c: st_net_normalization and st_net_classes take any note. An input: a byte that says which, and the note.
 *
 * A list as long as the net has channels or classes gets memory before its elements are looked at: 16 bytes for each
 * channel, 8 and its name for each class. */
#include "tests/fuzz/fuzz.h"

#include "layers/layers.h"
#include "nn/data/classes.h"
#include "nn/data/normalize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two channels and two classes. */
static st_net *small(void)
{
    st_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 2));
    if (!n || st_net_build(n, 1, 1)) abort();
    return n;
}

static void read_normalization(const st_net *n)
{
    fuzz_begin();
    st_normalization *found = st_net_normalization(n);
    if (fuzz_took(found))
        for (ptrdiff_t i = 0; i < found->channels; i++)
            fuzz_claim(isfinite(found->mean[i]) && found->deviation[i] >= 0 && isfinite(found->deviation[i]),
                       "means and deviations are such");
    st_normalization_free(found);
}

static void read_classes(const st_net *n)
{
    fuzz_begin();
    st_class_names *found = st_net_classes(n);
    if (fuzz_took(found))
        for (ptrdiff_t i = 0; i < found->count; i++)
            fuzz_claim(strlen(found->name[i]) < 1 << 16, "names end");
    st_class_names_free(found);
}

static void read_note(const char *text, bool classes)
{
    static st_net *n;
    if (!n) n = small();
    st_net_set_metadata(n, classes ? "classes" : "normalization", text);
    fuzz_text(strlen(text));
    if (classes) read_classes(n);
    else read_normalization(n);
}

static void feed(const uint8_t *at, size_t size)
{
    if (size < 1 || size > 1 << 16) return;
    char *text = malloc(size);
    memcpy(text, at + 1, size - 1);
    text[size - 1] = '\0';
    read_note(text, at[0] % 2);
    free(text);
}

/* More numbers or names than the net has, and one that is none. */
static void large(void)
{
    static const char *const notes[][3] = { { "0{\"deviation\":[1,1],\"mean\":[", "1,", "1]}" },
                                            { "0{\"deviation\":[1,1],\"mean\":[1,", "1", "]}" },
                                            { "0{\"deviation\":[1,1],\"mean\":[1,", "[],", "[]]}" },
                                            { "1[", "\"\",", "\"\"]" },
                                            { "1[\"a\",\"", "\\n", "\\x\"]" } };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        char *text = fuzz_large_text(notes[i][0], notes[i][1], notes[i][2]);
        read_note(text + 1, text[0] == '1');
        free(text);
    }
}

static void seed(void)
{
    static const char *const notes[] = { "0{\"mean\": [0.5, -1e3], \"deviation\": [1, 0]}",
                                         "0{\"mean\": [1], \"deviation\": [2]}", "1[\"cat\", \"dog\\u00e9\"]",
                                         "1[]", "1[\"\", \"\\n\"]" };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) fuzz_seed(notes[i], strlen(notes[i]));
}

static const char *const words[] = {
    "\"mean\":[", "\"deviation\":[", "-1",      "1e308", "1e999", "-0.0", "null",
    "true",       "\\u0000",         "\\ud800", "[[[[",  "{}",    NULL
};

const fuzzer fuzz = { feed, seed, large, .words = words };
