/* test_headers.c: what the header of a safetensors file may say and what not, each with the whole line of its error;
 * and the sorting of what it says.
 *
 * The headers are made by hand from the format's definition; test_save.c damages the file of a net, and has more of
 * what is wrong with architectures. */
#include "tests/files.h"
#include "tests/support.h"

#include "nn/files/safetensors.h"
#include "nn/files/sort.h"

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

static void expect_line(bool taken, const char *what, const char *path, const char *expected)
{
    char line[ERROR_SIZE];
    if (!expected && !taken) fail_msg("%s: refused: %s", what, error_text());
    if (!expected) return;
    if (taken) fail_msg("%s: it was taken", what);
    snprintf(line, sizeof line, "%s: %s", path, expected);
    if (strcmp(error_text(), line) != 0) fail_msg("%s: \"%s\", expected \"%s\"", what, error_text(), line);
    error_clear();
}

static void expect(const char *what, const char *path, const char *expected)
{
    safetensors *file = safetensors_open(path);
    expect_line(file, what, path, expected);
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
      "'n':{'dtype':'U8','shape':[0],'data_offsets':[2,2]},'b':{'dtype':'U8','shape':[1],'data_offsets':[2,3]}}", 3, NULL },
    { "keys in another order", "{'a':{'data_offsets':[0,2],'shape':[2],'dtype':'U8'}}", 2, NULL },
    { "an empty name", "{'':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}", 2, NULL },
    { "a long name", "{'" LONG "':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}", 2, NULL },
    { "a name in UTF-8", "{'\xc3\xa9':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}", 2, NULL },
    { "a name with an escape", "{'\\u00e9\\n':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}}", 2, NULL },
    { "blanks around everything", "{ 'a' :\n{ 'dtype' : 'U8' ,\t'shape' : [ 2 ] , 'data_offsets' : [ 0 , 2 ] } }   ", 2, NULL },
    { "a dtype that no net reads", OF("'F8_E4M3'", "[2]", "[0,2]"), 2, NULL },
    /* no JSON */
    { "nothing", "", 0, "header: '', expected {...}" },
    { "blanks", "        ", 0, "header: '        ', expected {...}" },
    { "a byte order mark", "\xef\xbb\xbf{}", 0, "header: '???{}', expected {...}" },
    { "a blank first", " {}", 0, "header: ' {}', expected {...}" },
    { "a list", "[]", 0, "header: '[]', expected {...}" },
    { "a text", "'a'", 0, "header: '\"a\"', expected {...}" },
    { "a number", "1", 0, "header: '1', expected {...}" },
    { "null", "null", 0, "header: 'null', expected {...}" },
    { "text behind", "{}x", 0, "header: the end expected near 'x', byte 2" },
    { "another object behind", "{}{}", 0, "header: the end expected near '{}', byte 2" },
    { "an object that does not end", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]}", 2, "header: ',' or '}' expected at its end, byte 52" },
    { "a text that does not end", "{'a", 0, "header: a name does not end, byte 3" },
    { "a comma too many", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},}", 2, "header: a name expected near '}', byte 53" },
    { "a comma too many in a shape", OF("'U8'", "[2,]", "[0,2]"), 2, "header: unexpected token near ']', byte 31" },
    { "a comma too few", "{'a':{'dtype':'U8' 'shape':[2],'data_offsets':[0,2]}}", 2, "header: '}' expected near '\"shape\"', byte 26" },
    { "single quotes", "{'a':\"\"}", 0, "header: a name expected near ''a':\"\"}', byte 1" },
    { "names without quotes", "{a:1}", 0, "header: a name expected near 'a:1}', byte 1" },
    { "a comment", "{/* none */}", 0, "header: a name expected near '/* none */}', byte 1" },
    { "a comment to the line's end", "{} // none", 0, "header: the end expected near '// none', byte 3" },
    { "a line's end in a name", "{'a\nb':{}}", 0, "header: control character 0x0a in a text, byte 3" },
    { "a control character", "{'a\x01':{}}", 0, "header: control character 0x01 in a text, byte 3" },
    { "a control character outside texts", "{\x02}", 0, "header: a name expected near '?}', byte 1" },
    { "bytes that are not UTF-8", "{'a\xff':{}}", 0, "header: byte 0xff is not UTF-8, byte 3" },
    { "UTF-8 longer than it need be", "{'\xc0\xaf':{}}", 0, "header: byte 0xc0 is not UTF-8, byte 2" },
    { "UTF-8 of half a surrogate pair", "{'\xed\xa0\x80':{}}", 0, "header: byte 0xed is not UTF-8, byte 2" },
    { "UTF-8 that is cut", "{'\xe2\x82':{}}", 0, "header: byte 0xe2 is not UTF-8, byte 2" },
    { "an escape of half a surrogate pair", "{'\\ud800':{}}", 0, "header: no escape: \\ud800, byte 2" },
    { "an escape that there is not", "{'\\x41':{}}", 0, "header: no escape: \\x41, byte 2" },
    { "a name with an escaped zero", "{'a\\u0000b':{}}", 0, "header: no escape: \\u0000, byte 3" },
    { "an escaped zero in a value", OF("'U8\\u0000'", "[2]", "[0,2]"), 2, "header: \\u0000 is not allowed without JSON_ALLOW_NUL near '\"U8\\u0000\"', byte 24" },
    { "a plus sign", OF("'U8'", "[+2]", "[0,2]"), 2, "header: invalid token near '+', byte 29" },
    { "zeros in front", OF("'U8'", "[02]", "[0,2]"), 2, "header: invalid token near '0', byte 29" },
    { "hexadecimal", OF("'U8'", "[0x2]", "[0,2]"), 2, "header: ']' expected near 'x', byte 30" },
    { "NaN", OF("'U8'", "[NaN]", "[0,2]"), 2, "header: invalid token near 'NaN', byte 31" },
    { "too deep", "{'a':" TEN(TEN(TEN("[[["))) "}", 0, "header: a list does not end, byte 3006" },
    { "a text whose last escape is cut", "{'a\\", 0, "header: a name does not end, byte 4" },
    { "a half of a pair and an escape", "{'\\ud83d\\n':{}}", 0, "header: no escape: \\ud83d, byte 2" },
    { "two first halves of a pair", "{'\\ud83d\\ud83d':{}}", 0, "header: no escape: \\ud83d, byte 2" },
    { "the second half of a pair", "{'\\ude00':{}}", 0, "header: no escape: \\ude00, byte 2" },
    { "an escape of three digits", "{'\\u00e':{}}", 0, "header: no escape: \\u00e, byte 2" },
    { "a digit that is none", "{'\\u00eg':{}}", 0, "header: no escape: \\u00eg, byte 2" },
    { "UTF-8 beyond Unicode", "{'\xf4\x90\x80\x80':{}}", 0, "header: byte 0xf4 is not UTF-8, byte 2" },
    { "UTF-8 of a byte that continues", "{'\x80':{}}", 0, "header: byte 0x80 is not UTF-8, byte 2" },
    { "UTF-8 of four bytes that need three", "{'\xf0\x8f\xbf\xbf':{}}", 0, "header: byte 0xf0 is not UTF-8, byte 2" },
    { "no value", "{'a':}", 0, "header: a value expected near '}', byte 5" },
    { "no value and no end", "{'a':", 0, "header: a value expected at its end, byte 5" },
    { "no colon", "{'a' {}}", 0, "header: ':' expected near '{}}', byte 5" },
    { "brackets of two kinds", "{'a':[}", 0, "header: ',' or '}' expected at its end, byte 7" },
    /* names twice */
    { "two tensors of one name", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},'a':{'dtype':'U8','shape':[2],"
      "'data_offsets':[2,4]}}", 4, "tensor a: two have that name" },
    { "one name in two spellings", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},'\\u0061':{'dtype':'U8','shape':[2],"
      "'data_offsets':[2,4]}}", 4, "tensor a: two have that name" },
    { "two dtypes", "{'a':{'dtype':'U8','dtype':'U8','shape':[2],'data_offsets':[0,2]}}", 2, "header: duplicate object key near '\"dtype\"', byte 26" },
    { "metadata twice", "{'__metadata__':{},'__metadata__':{}}", 0, "__metadata__ is there twice" },
    { "a text of the metadata twice", "{'__metadata__':{'a':'b','a':'b'}}", 0, "__metadata__ has a twice" },
    /* metadata */
    { "metadata of a list", "{'__metadata__':['a']}", 0, "__metadata__ is [\"a\"], expected {...}" },
    { "metadata of a text", "{'__metadata__':'a'}", 0, "__metadata__ is \"a\", expected {...}" },
    { "metadata of null", "{'__metadata__':null}", 0, "__metadata__ is null, expected {...}" },
    { "a number in the metadata", "{'__metadata__':{'a':1}}", 0, "__metadata__ holds 1, expected strings" },
    { "an object in the metadata", "{'__metadata__':{'a':{}}}", 0, "__metadata__ holds {}, expected strings" },
    { "null in the metadata", "{'__metadata__':{'a':null}}", 0, "__metadata__ holds null, expected strings" },
    /* entries */
    { "a list for a tensor", "{'a':[]}", 0, "tensor a: []: Expected object, got array" },
    { "null for a tensor", "{'a':null}", 0, "tensor a: null: Expected object, got null" },
    { "an empty entry", "{'a':{}}", 0, "tensor a: {}: Object item not found: dtype" },
    { "no dtype", "{'a':{'shape':[2],'data_offsets':[0,2]}}", 2, "tensor a: {\"shape\":[2],\"data_offsets\":[0,2]}: Object item not found: dtype" },
    { "no shape", "{'a':{'dtype':'U8','data_offsets':[0,2]}}", 2, "tensor a: {\"dtype\":\"U8\",\"data_offsets\":[0,2]}: Object item not found: shape" },
    { "no offsets", "{'a':{'dtype':'U8','shape':[2]}}", 2, "tensor a: {\"dtype\":\"U8\",\"shape\":[2]}: Object item not found: data_offsets" },
    { "one thing more", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2],'more':1}}", 2, "tensor a: {\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"more\":1}: 1 object item(s) left unpacked: more" },
    { "an unknown dtype", OF("'U9'", "[2]", "[0,2]"), 2, "tensor a: dtype U9 is not known" },
    { "an empty dtype", OF("''", "[2]", "[0,2]"), 2, "tensor a: dtype  is not known" },
    { "a dtype in small letters", OF("'u8'", "[2]", "[0,2]"), 2, "tensor a: dtype u8 is not known" },
    { "a number for a dtype", OF("8", "[2]", "[0,2]"), 2, "tensor a: {\"dtype\":8,\"shape\":[2],\"data_offsets\":[0,2]}: Expected string, got integer" },
    { "null for a dtype", OF("null", "[2]", "[0,2]"), 2, "tensor a: {\"dtype\":null,\"shape\":[2],\"data_offsets\":[0,2]}: Expected string, got null" },
    { "a long dtype", OF("'" LONG "'", "[2]", "[0,2]"), 2, "tensor a: dtype name name name name name name name name name name name name name name name n... is not known" },
    /* shapes */
    { "a number for a shape", OF("'U8'", "2", "[0,2]"), 2, "tensor a: shape 2, expected up to 8 sizes" },
    { "null for a shape", OF("'U8'", "null", "[0,2]"), 2, "tensor a: shape null, expected up to 8 sizes" },
    { "nine sizes", OF("'U8'", "[1,1,1,1,1,1,1,1,2]", "[0,2]"), 2, "tensor a: shape [1,1,1,1,1,1,1,1,2], expected up to 8 sizes" },
    { "a negative size", OF("'U8'", "[-2]", "[0,2]"), 2, "tensor a: shape [-2], expected up to 8 sizes" },
    { "two negative sizes", OF("'U8'", "[-1,-2]", "[0,2]"), 2, "tensor a: shape [-1,-2], expected up to 8 sizes" },
    { "zero below zero", OF("'U8'", "[-0]", "[0,0]"), 0, NULL },
    { "a size with a point", OF("'U8'", "[2.0]", "[0,2]"), 2, "tensor a: shape [2.0], expected up to 8 sizes" },
    { "a size with an exponent", OF("'U8'", "[2e0]", "[0,2]"), 2, "tensor a: shape [2.0], expected up to 8 sizes" },
    { "a size of text", OF("'U8'", "['2']", "[0,2]"), 2, "tensor a: shape [\"2\"], expected up to 8 sizes" },
    { "a size of true", OF("'U8'", "[true]", "[0,2]"), 2, "tensor a: shape [true], expected up to 8 sizes" },
    { "a size of a list", OF("'U8'", "[[2]]", "[0,2]"), 2, "tensor a: shape [[2]], expected up to 8 sizes" },
    { "a size of 2^63", OF("'U8'", "[9223372036854775808]", "[0,2]"), 2, "header: too big integer near '9223372036854775808', byte 47" },
    { "a size of 2^63 - 1", OF("'U8'", "[9223372036854775807]", "[0,2]"), 2, "tensor a: offsets 0..2 hold 2 bytes, U8 [9223372036854775807] needs 9223372036854775807" },
    { "bytes of 2^63", OF("'U16'", "[4611686018427387904]", "[0,2]"), 2, "tensor a: shape [4611686018427387904]: its bytes overflow" },
    { "a product of 2^64", OF("'U8'", "[4294967296,4294967296]", "[0,0]"), 0, "tensor a: shape [4294967296, 4294967296]: its bytes overflow" },
    { "a product of 2^64 + 2", OF("'U16'", "[9223372036854775807,2]", "[0,2]"), 2, "tensor a: shape [9223372036854775807, 2]: its bytes overflow" },
    { "a product that overflows, and a zero", OF("'U8'", "[4294967296,4294967296,0]", "[0,0]"), 0, "tensor a: shape [4294967296, 4294967296, 0]: its bytes overflow" },
    /* offsets */
    { "more bytes than the shape has", OF("'U8'", "[1]", "[0,2]"), 2, "tensor a: offsets 0..2 hold 2 bytes, U8 [1] needs 1" },
    { "fewer bytes than the shape has", OF("'U8'", "[3]", "[0,2]"), 2, "tensor a: offsets 0..2 hold 2 bytes, U8 [3] needs 3" },
    { "bytes for a tensor of no element", OF("'U8'", "[0]", "[0,2]"), 2, "tensor a: offsets 0..2 hold 2 bytes, U8 [0] needs 0" },
    { "a dtype of another size", OF("'U16'", "[2]", "[0,2]"), 2, "tensor a: offsets 0..2 hold 2 bytes, U16 [2] needs 4" },
    { "a scalar of too few bytes", OF("'F64'", "[]", "[0,4]"), 4, "tensor a: offsets 0..4 hold 4 bytes, F64 [] needs 8" },
    { "one offset", OF("'U8'", "[2]", "[0]"), 2, "tensor a: {\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0]}: Array index 1 out of range" },
    { "three offsets", OF("'U8'", "[2]", "[0,2,4]"), 2, "tensor a: {\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2,4]}: 1 array item(s) left unpacked" },
    { "no offset in a list", OF("'U8'", "[2]", "[]"), 2, "tensor a: {\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[]}: Array index 0 out of range" },
    { "a number for offsets", OF("'U8'", "[2]", "2"), 2, "tensor a: {\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":2}: Expected array, got integer" },
    { "offsets with a point", OF("'U8'", "[2]", "[0.0,2]"), 2, "tensor a: {\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0.0,2]}: Expected integer, got real" },
    { "offsets of text", OF("'U8'", "[2]", "['0','2']"), 2, "tensor a: {\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[\"0\",\"2\"]}: Expected integer, got string" },
    { "a negative begin", OF("'U8'", "[2]", "[-2,0]"), 2, "tensor a: offsets -2..0, expected a begin from 0 on and then an end" },
    { "the end before the begin", OF("'U8'", "[2]", "[2,0]"), 2, "tensor a: offsets 2..0, expected a begin from 0 on and then an end" },
    { "an end past the data", OF("'U8'", "[4]", "[0,4]"), 2, "tensor a: offsets 0..4, the data ends at 2: truncated" },
    { "far past the data", OF("'U8'", "[2]", "[9223372036854775805,9223372036854775807]"), 2, "tensor a: offsets 9223372036854775805..9223372036854775807, the data ends at 2: truncated" },
    { "offsets whose difference overflows", OF("'U8'", "[2]", "[-9223372036854775807,9223372036854775807]"), 2, "tensor a: offsets -9223372036854775807..9223372036854775807, expected a begin from 0 on and then an end" },
    /* places */
    { "a hole at the front", OF("'U8'", "[2]", "[1,3]"), 3, "tensor a: begins at 1, expected 0: a hole" },
    { "a hole between", TWO("[0,2]", "[3,5]"), 5, "tensor b: begins at 3, expected 2: a hole" },
    { "an overlap", TWO("[0,2]", "[1,3]"), 3, "tensor b: begins at 1, expected 2: an overlap" },
    { "the same place twice", TWO("[0,2]", "[0,2]"), 2, "tensor b: begins at 0, expected 2: an overlap" },
    { "nothing within another", "{'a':{'dtype':'U8','shape':[2],'data_offsets':[0,2]},'b':{'dtype':'U8','shape':[0],"
      "'data_offsets':[1,1]}}", 2, "tensor b: begins at 1, expected 2: an overlap" },
    { "bytes behind the last", A, 3, "1 bytes after the last tensor" },
    { "bytes and no tensor", "{}", 1, "1 bytes after the last tensor" },
    { "data that are cut", A, 1, "tensor a: offsets 0..2, the data ends at 1: truncated" },
    { "no data", A, 0, "tensor a: offsets 0..2, the data ends at 0: truncated" },
};
/* clang-format on */

static void each_header_is_taken_or_refused_with_its_reason(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const header_case *c = &cases[i];
        expect(c->what, file_of(c->header, strlen(c->header), c->data), c->expected);
    }
}

/* Before the header: its length, in 8 bytes. */
static void what_has_no_header_is_refused(void **state)
{
    expect("an empty file", written("x.safetensors", BYTES("")), "0 bytes are no safetensors file");
    expect("7 bytes", written("x.safetensors", BYTES("\2\0\0\0\0\0\0")), "7 bytes are no safetensors file");
    expect("a header longer than the file", written("x.safetensors", BYTES("\3\0\0\0\0\0\0\0{}")),
           "truncated, or no safetensors file: a header of 3 bytes, 2 are there");
    expect("a header of 2^63 bytes", written("x.safetensors", BYTES("\0\0\0\0\0\0\0\x80{}")),
           "truncated, or no safetensors file: a header of 9223372036854775808 bytes, 2 are there");
    expect("a header of 2^64 - 1 bytes",
           written("x.safetensors", BYTES("\xff\xff\xff\xff\xff\xff\xff\xff{}")),
           "truncated, or no safetensors file: a header of 18446744073709551615 bytes, 2 are there");
    expect("a length with its bytes the other way round",
           written("x.safetensors", BYTES("\0\0\0\0\0\0\0\2{}")),
           "truncated, or no safetensors file: a header of 144115188075855872 bytes, 2 are there");
}

static void a_long_entry_is_refused_before_it_is_read(void **state)
{
    char header[9000];
    memset(header, ' ', sizeof header);
    memcpy(header, "{\"a\":{", 6);
    memcpy(header + sizeof header - 2, "}}", 2);
    expect("a long entry", file_of(header, sizeof header, 0),
           "tensor a: its entry has 8994 bytes, expected at most 8192");
}

static void a_zero_byte_is_no_json(void **state)
{
    expect("a zero behind", file_of("{}\0", 3, 0), "header: the end expected near '?', byte 2");
    expect("a zero in a name", file_of("{'a\0':{}}", 9, 0),
           "header: control character 0x00 in a text, byte 3");
}

/* ---- names and texts --------------------------------------------------------------------------- */

static void names_and_texts_are_what_their_escapes_say(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"b\\u0062\" : \"\\\"\\\\\\/\\b\\f\\n\\r\\t \\u20AC\\ud83d\\ude00\", \"a\":\"\"},"
        "\"\\u00e9\xe2\x82\xac\xf0\x9f\x98\x80\":{\"dtype\":\"F\\u00316\",\"sh\\u0061pe\":[1],\"data_"
        "offsets\":[0,2]}}  ";
    safetensors *file = safetensors_open(file_of(header, sizeof header - 1, 2));
    assert_non_null(file);
    assert_int_equal(file->count, 1);
    assert_string_equal(file->entry[0].name, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_non_null(safetensors_find(file, file->entry[0].name, SHAPE(1)));
    assert_int_equal(file->keys, 2);
    assert_string_equal(file->key[0], "bb");
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

static void tensors_are_found_by_name_whatever_their_order(void **state)
{
    safetensors *file = safetensors_open(scrambled(MANY - 1));
    assert_non_null(file);
    for (int i = 0; i < MANY; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", name_of(i));
        const safetensors_entry *e = safetensors_find(file, name, SHAPE(1));
        assert_non_null(e);
        assert_int_equal(e->begin, place_of(i));
    }
    assert_null(safetensors_find(file, "31", SHAPE(1)));
    expect_error("tensor 31: missing");
    safetensors_close(file);
    for (int i = 0; i < MANY - 1; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "tensor %d: two have that name", name_of(i));
        expect("a name twice", scrambled(i), expected);
    }
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Remainders, some of them equal: those of each are counted before and after. */
static void any_count_of_numbers_is_sorted(void **state)
{
    enum { MOST = 50, BELOW = 23 };
    for (int count = 0; count <= MOST; count++)
        for (int factor = 1; factor < BELOW; factor++) {
            int numbers[MOST] = { 0 }, left[BELOW] = { 0 };
            for (int i = 0; i < count; i++) left[numbers[i] = i * i * factor % BELOW]++;
            sort_in_place(numbers, (size_t)count, sizeof *numbers, by_value);
            for (int i = 0; i < count; i++) {
                assert_true(i == 0 || numbers[i - 1] <= numbers[i]);
                assert_true(left[numbers[i]]-- > 0);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(each_header_is_taken_or_refused_with_its_reason),
        CLAIM(what_has_no_header_is_refused),
        CLAIM(a_long_entry_is_refused_before_it_is_read),
        CLAIM(a_zero_byte_is_no_json),
        CLAIM(any_count_of_numbers_is_sorted),
        CLAIM(names_and_texts_are_what_their_escapes_say),
        CLAIM(tensors_are_found_by_name_whatever_their_order),
    };
    return cmocka_run_group_tests(tests, enter_folder, NULL);
}
