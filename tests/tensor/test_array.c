/* test_array.c: sizes of arrays are multiplied without overflow. */
#include "tests/support.h"

#include "tensor/array.h"

#include <stdlib.h>
#include <string.h>

TEST(arrays_are_zeroed_and_grow)
{
    int *a = array_new("who", 3, sizeof *a);
    assert_true(a && a[0] == 0 && a[1] == 0 && a[2] == 0);
    a[2] = 7;
    a = array_grow("who", a, 1000, sizeof *a);
    assert_true(a && a[2] == 7);
    memset(a, 1, 1000 * sizeof *a);
    free(a);
    a = array_new("who", 0, sizeof *a); /* not NULL: no failure */
    assert_non_null(a);
    free(a);
}

TEST(a_size_that_overflows_is_an_error)
{
    static const struct {
        ptrdiff_t count;
        size_t size;
    } cases[] = {
        { -1, 1 },       { PTRDIFF_MAX, 2 },  { (ptrdiff_t)1 << 62, 4 }, { (ptrdiff_t)1 << 61, 8 },
        { 1, SIZE_MAX }, { 2, SIZE_MAX / 2 },
    };
    char *old = array_new("who", 1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("%td of %zu", cases[i].count, cases[i].size);
        expect_failure(array_new("who", cases[i].count, cases[i].size), "who: %td elements of %zu bytes",
                       cases[i].count, cases[i].size);
        expect_failure(array_grow("whose", old, cases[i].count, cases[i].size), "whose: ");
    }
    expect_failure(array_new("who", PTRDIFF_MAX, 1), "who: no memory for 9223372036854775807 bytes");
    free(old);
}
