/* test_headers.c: which headers of a safetensors file are read and which are refused, with the fact that
 * matters.
 *
 * The headers are made by hand from the format's definition; test_save.c damages the file of a net, and has
 * more of what is wrong with architectures. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "nn/files/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- files ----------------------------------------------------------------------------------- */

/* A header, in which ' stands for " where it has no ", and so many bytes of data. */
typedef struct header_case {
    const char *what, *header;
    size_t data;
    const char *expected; /* behind the path; NULL: it is taken */
} header_case;

enum { LONGEST = 1 << 15 };

static const char *file_of(const char *header, size_t length, size_t data)
{
    static unsigned char file[8 + LONGEST + 64];
    assert_true(length <= LONGEST && data <= 64);
    memset(file, 0, sizeof file);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((unsigned long long)length >> 8 * i);
    memcpy(file + 8, header, length);
    if (!memchr(header, '"', length))
        for (size_t i = 8; i < 8 + length; i++)
            if (file[i] == '\'') file[i] = '"';
    return written("x.safetensors", (bytes){ 8 + length + data, file });
}

/* Refused with a line that names the path and, behind it, `expected`; NULL: it is read. */
static void expect(const char *what, const char *path, const char *expected)
{
    safetensors *file = safetensors_open(path);
    const char *text = st_error();
    if (!file != !!expected) fail_msg("%s: %s", what, file ? "it was read" : text);
    if (expected && (strncmp(text, path, strlen(path)) != 0 || !strstr(text + strlen(path), expected)))
        fail_msg("%s: \"%s\", expected \"%s\"", what, text, expected);
    st_error_clear();
    safetensors_close(file);
}

/* ---- headers --------------------------------------------------------------------------------- */

#define A "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}"
#define OF(dtype, shape, offsets) "{'a':{'dtype':" dtype ",'shape':" shape ",'data_offsets':" offsets "}}"
#define TWO(x, y)                                                                                            \
    "{'a':{'dtype':'U8','shape':[2],'data_offsets':" x "},'b':{'dtype':'U8','shape':[2],'data_offsets':" y   \
    "}}"
#define TEN(x) x x x x x x x x x x
#define LONG TEN(TEN("name "))

/* clang-format off */
/* Neither JSON, nor each name once. */
static const char *const no_json[] = {
    "", "        ", "\xef\xbb\xbf{}", " {}", "[]", "null", "{}x", "{}{}", "{'a", "{a:1}",
    OF("'U8'", "[2,]", "[0,2]"),
    "{} // none", "{'a\nb':{}}", "{'a\xff':{}}", "{'\\ud800':{}}", "{'a\\u0000b':{}}",
    OF("'U8'", "[NaN]", "[0,2]"),
    "{'a':" TEN(TEN(TEN("[[["))) "}",
    ("{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},'\\u0061':{'dtype':'U8','shape':[2],"
     "'data_offsets':[2,4]}}"),
    "{'a':{'dtype':'U8','dtype':'U8','shape':[2],'data_offsets':[0,2]}}",
    "{'__metadata__':{},'__metadata__':{}}", "{'__metadata__':{'a':'b','a':'b'}}",
};

static const header_case cases[] = {
    { "the header that others vary", A, 2, NULL },
    /* what is allowed */
    { "no tensor", "{}", 0, NULL },
    { "metadata and no tensor", "{'__metadata__':{'a':'b'}}", 0, NULL },
    { "empty metadata", "{'__metadata__':{}}", 0, NULL },
    { "a scalar", OF("'F32'", "[]", "[0,4]"), 4, NULL },
    { "a tensor of no element", OF("'F32'", "[3,0,2]", "[0,0]"), 0, NULL },
    { "eight sizes", OF("'U8'", "[1,1,1,1,1,1,1,2]", "[0,2]"), 2, NULL },
    { "tensors out of order", TWO("[2,4]", "[0,2]"), 4, NULL },
    { "a tensor of no element between two", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},"
      "'n':{'dtype':'U8','shape':[0],'data_offsets':[2,2]},"
      "'b':{'dtype':'U8','shape':[1],'data_offsets':[2,3]}}", 3, NULL },
    { "keys in another order", "{'a':{'data_offsets':[0,2],'shape':[2],'dtype':'U8'}}", 2, NULL },
    { "an empty name", "{'':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}", 2, NULL },
    { "a name in UTF-8", "{'\xc3\xa9':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}", 2, NULL },
    { "blanks around everything",
      "{ 'a' :\n{ 'dtype' : 'U8' ,\t'shape' : [ 2 ] , 'data_offsets' : [ 0 , 2 ] } }   ", 2, NULL },
    { "a dtype that no net reads", OF("'F8_E4M3'", "[2]", "[0,2]"), 2, NULL },
    /* metadata */
    { "metadata of a list", "{'__metadata__':['a']}", 0, "__metadata__" },
    { "a number in the metadata", "{'__metadata__':{'a':1}}", 0, "__metadata__" },
    /* entries */
    { "a list for a tensor", "{'a':[]}", 0, "tensor a" },
    { "an empty entry", "{'a':{}}", 0, "tensor a" },
    { "no dtype", "{'a':{'shape':[2],'data_offsets':[0,2]}}", 2, "tensor a" },
    { "no shape", "{'a':{'dtype':'U8','data_offsets':[0,2]}}", 2, "tensor a" },
    { "no offsets", "{'a':{'dtype':'U8','shape':[2]}}", 2, "tensor a" },
    { "one thing more", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2],'more':1}}", 2, "tensor a" },
    { "an unknown dtype", OF("'U9'", "[2]", "[0,2]"), 2, "tensor a" },
    { "a dtype in small letters", OF("'u8'", "[2]", "[0,2]"), 2, "tensor a" },
    { "a number for a dtype", OF("8", "[2]", "[0,2]"), 2, "tensor a" },
    { "a long dtype", OF("'" LONG "'", "[2]", "[0,2]"), 2, "tensor a" },
    /* shapes */
    { "a number for a shape", OF("'U8'", "2", "[0,2]"), 2, "tensor a" },
    { "nine sizes", OF("'U8'", "[1,1,1,1,1,1,1,1,2]", "[0,2]"), 2, "tensor a" },
    { "a negative size", OF("'U8'", "[-2]", "[0,2]"), 2, "tensor a" },
    { "zero below zero", OF("'U8'", "[-0]", "[0,0]"), 0, NULL },
    { "a size with a point", OF("'U8'", "[2.0]", "[0,2]"), 2, "tensor a" },
    { "a size of text", OF("'U8'", "['2']", "[0,2]"), 2, "tensor a" },
    { "a size of 2^63", OF("'U8'", "[9223372036854775808]", "[0,2]"), 2, "header" },
    { "a size of 2^63 - 1", OF("'U8'", "[9223372036854775807]", "[0,2]"), 2, "tensor a" },
    { "bytes of 2^63", OF("'U16'", "[4611686018427387904]", "[0,2]"), 2, "tensor a" },
    { "a product of 2^64 + 2", OF("'U16'", "[9223372036854775807,2]", "[0,2]"), 2, "tensor a" },
    { "a product that overflows, and a zero",
      OF("'U8'", "[4294967296,4294967296,0]", "[0,0]"), 0, "tensor a" },
    /* offsets */
    { "more bytes than the shape has", OF("'U8'", "[1]", "[0,2]"), 2, "tensor a" },
    { "fewer bytes than the shape has", OF("'U8'", "[3]", "[0,2]"), 2, "tensor a" },
    { "bytes for a tensor of no element", OF("'U8'", "[0]", "[0,2]"), 2, "tensor a" },
    { "a dtype of another size", OF("'U16'", "[2]", "[0,2]"), 2, "tensor a" },
    { "one offset", OF("'U8'", "[2]", "[0]"), 2, "tensor a" },
    { "offsets with a point", OF("'U8'", "[2]", "[0.0,2]"), 2, "tensor a" },
    { "a negative begin", OF("'U8'", "[2]", "[-2,0]"), 2, "tensor a" },
    { "the end before the begin", OF("'U8'", "[2]", "[2,0]"), 2, "tensor a" },
    { "an end past the data", OF("'U8'", "[4]", "[0,4]"), 2, "truncated" },
    { "far past the data", OF("'U8'", "[2]", "[9223372036854775805,9223372036854775807]"), 2, "truncated" },
    { "offsets whose difference overflows",
      OF("'U8'", "[2]", "[-9223372036854775807,9223372036854775807]"), 2, "tensor a" },
    /* places */
    { "a hole at the front", OF("'U8'", "[2]", "[1,3]"), 3, "a hole" },
    { "a hole between", TWO("[0,2]", "[3,5]"), 5, "a hole" },
    { "an overlap", TWO("[0,2]", "[1,3]"), 3, "an overlap" },
    { "the same place twice", TWO("[0,2]", "[0,2]"), 2, "an overlap" },
    { "nothing within another", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},"
      "'b':{'dtype':'U8','shape':[0],'data_offsets':[1,1]}}", 2, "an overlap" },
    { "bytes behind the last", A, 3, "bytes after the last" },
    { "data that are cut", A, 1, "truncated" },
};
/* clang-format on */

SETUP(enter_folder)

TEST(each_header_is_read_or_refused)
{
    for (size_t i = 0; i < sizeof no_json / sizeof *no_json; i++)
        expect(no_json[i], file_of(no_json[i], strlen(no_json[i]), 4), "header");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const header_case *c = &cases[i];
        expect(c->what, file_of(c->header, strlen(c->header), c->data), c->expected);
    }
}

/* Before the header: its length, in 8 bytes. */
TEST(what_has_no_header_is_refused)
{
    static const struct {
        bytes file;
        const char *expected;
    } all[] = {
        { STRING(""), "0 bytes" },
        { STRING("\2\0\0\0\0\0\0"), "7 bytes" },
        { STRING("\3\0\0\0\0\0\0\0{}"), "a header of 3 bytes" },
        { STRING("\0\0\0\0\0\0\0\x80{}"), "a header of 9223372036854775808 bytes" },
        { STRING("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "a header of 18446744073709551615 bytes" },
        { STRING("\0\0\0\0\0\0\0\2{}"), "a header of 144115188075855872 bytes" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        expect(all[i].expected, written("x.safetensors", all[i].file), all[i].expected);
}

TEST(a_zero_byte_is_no_json)
{
    expect("a zero behind", file_of("{}\0", 3, 0), "header");
    expect("a zero in a name", file_of("{'a\0':{}}", 9, 0), "header");
}

/* A file of this header repeated: before, count times again, after. */
static const char *repeated(const char *before, const char *again, size_t count, const char *after)
{
    size_t length = strlen(before) + count * strlen(again) + strlen(after);
    unsigned char *file = malloc(8 + length + 1);
    assert_non_null(file);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((unsigned long long)length >> 8 * i);
    char *at = stpcpy((char *)file + 8, before);
    for (size_t i = 0; i < count; i++) at = stpcpy(at, again);
    stpcpy(at, after);
    const char *path = written("x.safetensors", (bytes){ 8 + length, file });
    free(file);
    return path;
}

TEST(a_large_header_is_refused_before_a_tree_is_made)
{
    expect("just as deep", repeated("{\"__metadata__\":", "[", 159, ""), "header");
    expect("too deep", repeated("{\"a\":", "[", 160, ""), "nested deeper than 160");
    expect("too many values", repeated("{\"a\":[0", ",0", 1 << 19, "]}"), "more than 524288 values");
    expect("too many bytes", repeated("{\"", "0123456789abcdef", 1 << 20, "\":0}"), "at most 16777216");
    expect("brackets and commas in a name", repeated("{\"", "[,{\\\"", 1 << 19, "\":0}"), "tensor");
}

/* ---- names and texts --------------------------------------------------------------------------- */

TEST(names_and_texts_are_what_their_escapes_say)
{
    static const char header[] =
        "{\"__metadata__\":{\"b\\u0062\" : \"\\\"\\\\\\/\\b\\f\\n\\r\\t \\u20AC\\ud83d\\ude00\", \"a\":\"\"},"
        "\"\\u00e9\xe2\x82\xac\xf0\x9f\x98\x80\":{\"dtype\":\"F\\u00316\",\"sh\\u0061pe\":[1],\"data_"
        "offsets\":[0,2]}}  ";
    safetensors *file = safetensors_open(file_of(header, sizeof header - 1, 2));
    assert_non_null(file);
    assert_int_equal(file->count, 1);
    assert_string_equal(file->entry[0].name, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_non_null(safetensors_find(file, file->entry[0].name, ST_SHAPE(1)));
    assert_int_equal(json_object_size(file->metadata), 2);
    assert_string_equal(safetensors_text(file, "bb"), "\"\\/\b\f\n\r\t \xe2\x82\xac\xf0\x9f\x98\x80");
    assert_string_equal(safetensors_text(file, "a"), "");
    assert_null(safetensors_text(file, "c"));
    safetensors_close(file);
}

enum { MANY = 31 }; /* a prime: i * k % MANY goes through all, in an order that is none */

static int name_of(int i)
{
    return i * 12 % MANY;
}

static int place_of(int i)
{
    return i * 7 % MANY * 2;
}

/* Named by their numbers, each of two bytes; the last one by that of i. */
static const char *scrambled(int i)
{
    char header[LONGEST], *at = header;
    for (int k = 0; k < MANY; k++)
        at += sprintf(at, "%c\"%d\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                      k ? ',' : '{', name_of(k < MANY - 1 ? k : i), place_of(k), place_of(k) + 2);
    *at++ = '}';
    return file_of(header, (size_t)(at - header), (size_t)2 * MANY);
}

TEST(tensors_are_found_by_name_whatever_their_order)
{
    safetensors *file = safetensors_open(scrambled(MANY - 1));
    assert_non_null(file);
    for (int i = 0; i < MANY; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", name_of(i));
        const safetensors_entry *e = safetensors_find(file, name, ST_SHAPE(1));
        assert_non_null(e);
        assert_int_equal(e->begin, place_of(i));
    }
    expect_failure(safetensors_find(file, "31", ST_SHAPE(1)), "tensor 31: missing");
    safetensors_close(file);
    for (int i = 0; i < MANY - 1; i++) expect("a name twice", scrambled(i), "duplicate");
}
