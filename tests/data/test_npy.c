/* test_npy.c: NumPy's arrays become tensors and tensors arrays; no file, however broken, is taken for
 * another. */
#define _POSIX_C_SOURCE 200809L
#include "tests/files.h"
#include "tests/support.h"

#include "nn/data.h"
#include "nn/data/formats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ----------------------------------------------------------------------------------- */

/* A file of version `major`.0 with this header and these elements, in one of two buffers in turn. */
static bytes array_of(int major, const char *header, bytes elements)
{
    static unsigned char all[2][4096];
    static int turn;
    unsigned char *at = all[turn++ % 2];
    size_t length = strlen(header), start = major == 1 ? 10 : 12;
    assert_true(start + length + elements.count <= sizeof all[0]);
    memcpy(at, "\x93NUMPY", 6);
    at[6] = (unsigned char)major, at[7] = 0;
    for (size_t i = 8; i < start; i++) at[i] = (unsigned char)(length >> 8 * (i - 8));
    memcpy(at + start, header, length);
    if (elements.count) memcpy(at + start + length, elements.at, elements.count);
    return (bytes){ start + length + elements.count, at };
}

static st_tensor read_array(const char *header, bytes elements)
{
    st_tensor x = st_npy_load(written("array.npy", array_of(1, header, elements)));
    if (st_is_null(x)) fail_msg("%s", st_error());
    return x;
}

#define HEADER(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }"
#define C_ORDER(descr, shape) HEADER(descr, "False", shape)
#define SIX "\1\2\3\4\5\6"

/* ---- files that are right -------------------------------------------------------------------- */

typedef struct dtype_case {
    const char *header;
    bytes elements;
    double expected[3];
} dtype_case;

#define THREE(descr) C_ORDER(descr, "(3,)")
static const dtype_case dtypes[] = {
    { THREE("<f8"),
      STRING("\x9a\x99\x99\x99\x99\x99\xb9\x3f\0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\xf0\x7f"),
      { 0.1, -2, INFINITY } },
    { THREE(">f8"),
      STRING("\x3f\xb9\x99\x99\x99\x99\x99\x9a\xc0\0\0\0\0\0\0\0\x7f\xf8\0\0\0\0\0\0"),
      { 0.1, -2, NAN } },
    { THREE("<f4"), STRING("\xcd\xcc\xcc\x3d\1\0\0\0\0\0\x80\xff"), { 0x1.99999ap-4, 0x1p-149, -INFINITY } },
    { THREE(">f4"), STRING("\x3d\xcc\xcc\xcd\0\0\0\1\x7f\xc0\0\0"), { 0x1.99999ap-4, 0x1p-149, NAN } },
    { THREE("<f2"), STRING("\0\x3c\1\0\xff\x7b"), { 1, 0x1p-24, 65504 } },
    { THREE("<f2"), STRING("\0\xfc\0\x7e\0\x80"), { -INFINITY, NAN, -0.0 } },
    { THREE(">f2"), STRING("\x3c\0\x83\xff\x04\0"), { 1, -1023 * 0x1p-24, 0x1p-14 } },
    { THREE("<i8"),
      STRING("\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\x80\2\0\0\0\0\0\0\0"),
      { -1, -0x1p63, 2 } },
    { THREE(">i4"), STRING("\xff\xff\xff\xff\x80\0\0\0\0\0\1\2"), { -1, -0x1p31, 258 } },
    { THREE("<i2"), STRING("\xfe\xff\0\x80\2\1"), { -2, -32768, 258 } },
    { THREE("|i1"), STRING("\xff\x80\x7f"), { -1, -128, 127 } },
    { THREE("<u8"), STRING("\0\0\0\0\0\0\0\x80\1\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0"), { 0x1p63, 1, 65536 } },
    { THREE(">u4"), STRING("\x80\0\0\0\0\0\0\1\0\1\0\0"), { 0x1p31, 1, 65536 } },
    { THREE(">u2"), STRING("\x80\0\0\1\1\2"), { 32768, 1, 258 } },
    { THREE("|u1"), STRING("\xff\x80\x7f"), { 255, 128, 127 } },
    { THREE("|b1"), STRING("\0\1\1"), { 0, 1, 1 } },
};

SETUP(enter_folder)

TEST(every_number_is_read)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const dtype_case *c = &dtypes[i];
        about("%s", c->header);
        auto_tensor x = read_array(c->header, c->elements);
        assert_shape(x, 3);
        for (ptrdiff_t k = 0; k < 3; k++) {
            st_real value = *element(x, k), expected = (st_real)c->expected[k];
            assert_true((isnan(value) && isnan(expected)) || memcmp(&value, &expected, sizeof value) == 0);
        }
    }
}

TEST(what_has_more_digits_is_rounded_to_the_nearest)
{
    st_tensor x = read_array(C_ORDER("<i8", "(2,)"), BYTES("\1\0\0\1\0\0\0\0\3\0\0\1\0\0\0\0"));
    assert_true(st_data(x)[0] == (st_real)16777217 && st_data(x)[1] == (st_real)16777219);
    st_tensor_free(x);
    x = read_array(C_ORDER("<f8", "()"), BYTES("\1\0\0\0\0\0\xf0\x3f"));
    assert_true(st_item(x) == (st_real)(1 + 0x1p-52));
    st_tensor_free(x);
}

TEST(every_version_is_read)
{
    for (int major = 1; major <= 3; major++) {
        auto_tensor x =
            st_npy_load(written("array.npy", array_of(major, C_ORDER("|u1", "(2, 3)") "  \n", BYTES(SIX))));
        assert_shape(x, 2, 3);
        assert_elements(x, 1, 2, 3, 4, 5, 6);
    }
}

TEST(fortrans_order_is_a_view)
{
    st_tensor x = read_array(HEADER("|u1", "True", "(2, 3)"), BYTES(SIX));
    assert_shape(x, 2, 3);
    assert_elements(x, 1, 3, 5, 2, 4, 6);
    assert_int_equal(x.stride[0], 1);
    st_tensor_free(x);
    x = read_array(HEADER("|u1", "True", "(3, 1, 2)"), BYTES(SIX));
    assert_shape(x, 3, 1, 2);
    assert_elements(x, 1, 4, 2, 5, 3, 6);
    st_tensor_free(x);
    x = read_array(HEADER("|u1", "True", "(6,)"), BYTES(SIX));
    assert_elements(x, 1, 2, 3, 4, 5, 6);
    st_tensor_free(x);
    x = read_array(HEADER("|u1", "True", "()"), BYTES("\7"));
    assert_int_equal(x.shape.rank, 0);
    assert_true(st_item(x) == 7);
    st_tensor_free(x);
}

TEST(a_header_may_be_written_otherwise)
{
    static const char *const headers[] = {
        "{'shape':(2,3),'descr':'|u1','fortran_order':False}",
        "{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": (2, 3,)}\n",
        " \n{ 'fortran_order' : False , 'shape' : ( 2 , 3 ) , 'descr' : '|u1' , } \n",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        about("%s", headers[i]);
        auto_tensor x = read_array(headers[i], BYTES(SIX));
        assert_shape(x, 2, 3);
    }
}

TEST(shapes_of_any_rank_and_none_are_read)
{
    st_tensor x = read_array(C_ORDER("|u1", "(1, 1, 2, 1, 1, 1, 3, 1)"), BYTES(SIX));
    assert_shape(x, 1, 1, 2, 1, 1, 1, 3, 1);
    st_tensor_free(x);
    x = read_array(C_ORDER("<f8", "(4, 0, 2)"), BYTES(""));
    assert_shape(x, 4, 0, 2);
    st_tensor_free(x);
    x = read_array(HEADER("<f8", "True", "(4, 0, 2)"), BYTES(""));
    assert_shape(x, 4, 0, 2);
    st_tensor_free(x);
}

/* ---- writing --------------------------------------------------------------------------------- */

TEST(what_is_written_is_what_the_format_says)
{
    static const char *const shapes[] = { "()", "(6,)", "(2, 3)", "(1, 2, 3)" };
    const st_shape sizes[] = { { 0 }, ST_SHAPE(6), ST_SHAPE(2, 3), ST_SHAPE(1, 2, 3) };
    for (int i = 0; i < 4; i++) {
        char header[120], padded[120];
        auto_tensor x = st_tensor_new(sizes[i]);
        snprintf(header, sizeof header, "{'descr': '<f%d', 'fortran_order': False, 'shape': %s, }",
                 (int)sizeof(st_real), shapes[i]);
        snprintf(padded, sizeof padded, "%-117.117s\n", header); /* 10 + 118 = 128 */
        for (ptrdiff_t k = 0; k < st_numel(x); k++) st_data(x)[k] = (st_real)k / 4;
        const char *path = path_of("written.npy");
        assert_int_equal(st_npy_save(path, x), 0);
        bytes expected = array_of(1, padded, (bytes){ (size_t)st_numel(x) * sizeof(st_real), st_data(x) });
        bytes found = contents(path);
        assert_int_equal(found.count, expected.count);
        assert_memory_equal(found.at, expected.at, found.count); /* on a little-endian machine */
    }
}

TEST(any_view_comes_back)
{
    dice d = { { 71 } };
    for (int i = 0; i < 200; i++) {
        st_shape s = roll_shape(&d, 0, ST_MAX_RANK, 1, 4);
        st_tensor whole, x = roll_view(&d, s, &whole);
        roll_elements(&d, x, -1000, 1000);
        const char *path = path_of("view.npy");
        about("view %d, %s", i, st_shape_text(s).text);
        assert_int_equal(st_npy_save(path, x), 0);
        auto_tensor y = st_npy_load(path);
        assert_same(y, x);
        st_tensor_free(whole);
    }
}

TEST(large_shapes_have_room_in_a_header)
{
    ptrdiff_t most = PTRDIFF_MAX / 16;
    auto_tensor x = st_tensor_new(ST_SHAPE(0, most, 1, 1, 1, 1, 1, 1));
    assert_int_equal(st_npy_save(path_of("large.npy"), x), 0);
    auto_tensor y = st_npy_load(path_of("large.npy"));
    assert_true(st_shape_equal(y.shape, x.shape));
}

/* ---- files that are wrong -------------------------------------------------------------------- */

/* With elements of six bytes, version 1.0. */
typedef struct bad_header {
    const char *header, *expected;
} bad_header;

/* clang-format off */
static const char *const no_headers[] = {
    "", "  ", "[]", "{", "{}", "{,}", "{1: 2}", "{'descr", "{'de\\163cr': '|u1'}",
    "{'descr': '|u1', 'shape': (6,)}", "{'descr': '|u1', 'fortran_order': False}",
    "{'shape': (6,), 'fortran_order': False}", "{'descr' '|u1'}", "{'descr': '|u1' 'shape'",
    "{'colour': 3}", "{'descr': '|u1', 'descr': '|u1', }", C_ORDER("|u1", "(6,)") "x",
    C_ORDER("|u1", "(6,)") " \n{", C_ORDER("<\n\1f4", "(6,)"),
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", "{'descr': ('<f4', (2,)), }",
    "{'descr': None, }", "{'descr': '|u1", HEADER("|u1", "0", "(6,)"), HEADER("|u1", "Falsely", "(6,)"),
    C_ORDER("|u1", "6"), C_ORDER("|u1", "(2,,3)"), C_ORDER("|u1", "(2 3)"), C_ORDER("|u1", "(2.0, 3)"),
    C_ORDER("|u1", "(6L,)"), C_ORDER("|u1", "(0x6,)"), C_ORDER("|u1", "(+6,)"), C_ORDER("|u1", "(six,)"),
    C_ORDER("|u1", "(-6,)"), C_ORDER("|u1", "(2, -3)"), "{'shape': (6,", "{'shape': (6",
    C_ORDER("|u1", "(9223372036854775808,)"), C_ORDER("|u1", "(99999999999999999999999999,)"),
};
static const char *const no_dtypes[] = {
    "", "<", "<f", "f4", "=f4", "|f4", "<f16", "<c8", "<U6", "|S6", "|V6", "<M8[ns]", "!u1", "|O",
};
/* clang-format on */

static const bad_header bad_headers[] = {
    { C_ORDER("|u1", "(,)"), "trailing data" },
    { C_ORDER("|u1", "(1, 1, 1, 1, 1, 1, 1, 2, 3)"), "up to 8 sizes" },
    { C_ORDER("|u1", "(4294967296, 4294967296, 6)"), "needs more bytes than can be addressed" },
    { C_ORDER("|u1", "(0, 4294967296, 4294967296)"), "needs more bytes than can be addressed" },
    { C_ORDER("<f8", "(1152921504606847000,)"), "[1152921504606847000]" },
    { C_ORDER("|u1", "(576460752303423000,)"), "shape [576460752303423000]" },
    { C_ORDER("|u1", "(7,)"), "shape [7]" },
    { C_ORDER("|u1", "()"), "shape []" },
    { C_ORDER("|u1", "(0,)"), "shape [0]" },
    { C_ORDER("<f4", "(2,)"), "shape [2]" },
};

static void assert_header_is_refused(const char *header, const char *expected)
{
    about("header %s", header);
    const char *path = written("bad.npy", array_of(1, header, BYTES(SIX)));
    expect_refused(!st_is_null(st_npy_load(path)), path, expected);
}

TEST(broken_headers_are_refused)
{
    for (size_t i = 0; i < sizeof no_headers / sizeof *no_headers; i++)
        assert_header_is_refused(no_headers[i], "header");
    for (size_t i = 0; i < sizeof no_dtypes / sizeof *no_dtypes; i++) {
        char header[100];
        snprintf(header, sizeof header, C_ORDER("%s", "(6,)"), no_dtypes[i]);
        assert_header_is_refused(header, "dtype");
    }
    for (size_t i = 0; i < sizeof bad_headers / sizeof *bad_headers; i++)
        assert_header_is_refused(bad_headers[i].header, bad_headers[i].expected);
}

static const bad_file bad_files[] = {
    { "empty", STRING(""), "truncated: 0 of 8 bytes of the header" },
    { "half a magic number", STRING("\x93NUM"), "truncated: 4 of 8 bytes" },
    { "a text", STRING("1.0 2.0 3.0\n"),
      "begins with 31 2e 30 20 32 2e, expected NumPy's 93 4e 55 4d 50 59" },
    { "one wrong byte", STRING("\x93NUMPX\1\0\0\0"), "begins with 93 4e 55 4d 50 58" },
    { "version 0.0", STRING("\x93NUMPY\0\0\0\0"), "version 0.0, expected 1.0, 2.0 or 3.0" },
    { "version 1.1", STRING("\x93NUMPY\1\1\0\0"), "version 1.1, expected 1.0" },
    { "no length", STRING("\x93NUMPY\1\0\2"), "truncated: 1 of 2 bytes" },
    { "no length of four bytes", STRING("\x93NUMPY\2\0\2\0\0"), "truncated: 3 of 4 bytes" },
    { "a header longer than the file", STRING("\x93NUMPY\1\0\xff\xff{"),
      "truncated: 1 of 65535 bytes of the header" },
    { "a header of 4 GiB", STRING("\x93NUMPY\2\0\xff\xff\xff\xff{"),
      "truncated: 1 of 4294967295 bytes of the header" },
};

TEST(broken_files_are_refused)
{
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        about("%s", bad_files[i].what);
        st_tensor x = st_npy_load(written("bad.npy", bad_files[i].file));
        expect_refused(!st_is_null(x), path_of("bad.npy"), bad_files[i].expected);
    }
}

/* ---- a pair as a data set -------------------------------------------------------------------- */

static const char *array_file(const char *name, const char *header, bytes elements)
{
    return written(name, array_of(1, header, elements));
}

TEST(a_pair_is_a_data_set)
{
    auto_dataset *d = st_dataset_npy(array_file("x.npy", HEADER("|u1", "True", "(3, 2)"), BYTES(SIX)),
                                     array_file("y.npy", C_ORDER("<i2", "(3,)"), BYTES("\7\0\x08\0\x09\0")));
    assert_non_null(d);
    assert_int_equal(d->count, 3);
    auto_tensor x = st_tensor_new(ST_SHAPE(3, 2)), y = st_tensor_new(ST_SHAPE(3));
    assert_int_equal(st_dataset_batch(d, NULL, 0, 3, x, y), 0);
    assert_elements(x, 1, 4, 2, 5, 3, 6);
    assert_elements(y, 7, 8, 9);
}

TEST(images_have_a_channel)
{
    static const char *const orders[] = { HEADER("|u1", "False", "(1, 2, 3)"),
                                          HEADER("|u1", "True", "(1, 2, 3)") };
    for (int i = 0; i < 2; i++) {
        auto_dataset *d = st_dataset_npy(array_file("x.npy", orders[i], BYTES(SIX)),
                                         array_file("y.npy", C_ORDER("|u1", "(1, 2)"), BYTES("\7\x08")));
        assert_non_null(d);
        assert_string_equal(st_shape_text(d->x).text, "[1, 2, 3]");
        assert_string_equal(st_shape_text(d->target).text, "[2]");
        auto_tensor x = st_tensor_new(ST_SHAPE(1, 1, 2, 3)), y = st_tensor_new(ST_SHAPE(1, 2));
        assert_int_equal(st_dataset_batch(d, NULL, 0, 1, x, y), 0);
        if (i == 0) assert_elements(x, 1, 2, 3, 4, 5, 6);
        else assert_elements(x, 1, 3, 5, 2, 4, 6);
    }
}

TEST(channels_last_are_not_guessed)
{
    const char *x = array_file("x.npy", C_ORDER("|u1", "(1, 5, 1, 2)"), BYTES("\0\1\2\3\4\5\6\7\x08\x09"));
    const char *y = array_file("y.npy", C_ORDER("|u1", "(1,)"), BYTES("\1"));
    expect_failure(st_dataset_npy(x, y),
                   "x [1, 5, 1, 2] looks like images with their channels last: set the layout "
                   "option, NHWC for samples [2, 5, 1], NCHW for 5 channels of 1x2");
    auto_dataset *first = st_dataset_npy(x, y, .layout = ST_NPY_NCHW);
    auto_dataset *last = st_dataset_npy(x, y, .layout = ST_NPY_NHWC);
    assert_string_equal(st_shape_text(first->x).text, "[5, 1, 2]");
    assert_string_equal(st_shape_text(last->x).text, "[2, 5, 1]");
    auto_tensor sample = st_tensor_new(ST_SHAPE(1, 2, 5, 1)), class = st_tensor_new(ST_SHAPE(1));
    assert_int_equal(st_dataset_batch(last, NULL, 0, 1, sample, class), 0);
    assert_elements(sample, 0, 2, 4, 6, 8, 1, 3, 5, 7, 9);
    x = array_file("x.npy", C_ORDER("|u1", "(3, 2)"), BYTES(SIX));
    expect_failure(st_dataset_npy(x, y, .layout = ST_NPY_NHWC),
                   "layout NHWC, but x is [3, 2], expected four axes");
    expect_failure(st_dataset_npy(x, y, .layout = (st_npy_layout)3), "layout is 3, expected 0 to 2");
}

TEST(classes_may_be_a_column)
{
    const char *x = array_file("x.npy", C_ORDER("|u1", "(3, 2)"), BYTES(SIX));
    const char *y = array_file("y.npy", C_ORDER("|u1", "(3, 1)"), BYTES("\7\x08\x09"));
    auto_dataset *classes = st_dataset_npy(x, y, .classes = true), *numbers = st_dataset_npy(x, y);
    assert_int_equal(classes->target.rank, 0);
    assert_string_equal(st_shape_text(numbers->target).text, "[1]");
    auto_tensor xs = st_tensor_new(ST_SHAPE(3, 2)), ys = st_tensor_new(ST_SHAPE(3));
    assert_int_equal(st_dataset_batch(classes, NULL, 0, 3, xs, ys), 0);
    assert_elements(ys, 7, 8, 9);
}

TEST(pairs_that_do_not_agree_are_refused)
{
    const char *x = array_file("x.npy", C_ORDER("|u1", "(3, 2)"), BYTES(SIX));
    const char *y = array_file("y.npy", C_ORDER("|u1", "(2,)"), BYTES("\7\x08"));
    expect_failure(st_dataset_npy(x, y),
                   "x.npy, %s: st_dataset_tensors: x [3, 2] and y [2], expected [N, ...]", y);
    expect_failure(st_dataset_npy(x, array_file("y.npy", C_ORDER("|u1", "()"), BYTES("\7"))),
                   "x [3, 2] and y [], expected [N, ...]");
    expect_failure(st_dataset_npy(x, path_of("none.npy")), "none.npy: No such file or directory");
    expect_failure(st_dataset_npy(path_of("none.npy"), y), "none.npy: No such file or directory");
    expect_failure(st_dataset_npy(array_file("x.npy", C_ORDER("|u1", "(0, 2)"), BYTES("")),
                                  array_file("y.npy", C_ORDER("|u1", "(0,)"), BYTES(""))),
                   "0 samples, expected at least one");
}
