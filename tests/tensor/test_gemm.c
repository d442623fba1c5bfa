/* test_gemm.c: a matrix product is three loops, whatever the strides, alpha and beta. */
#include "tests/support.h"

#include <math.h>

/* ---- oracle ---------------------------------------------------------------------------------- */

/* c[i, j] = alpha sum over l of a[i, l] b[l, j] + beta c[i, j], where beta 0 and alpha 0 read nothing. In
 * small integers and halves no sum is ever rounded, so neither their order nor fused products matter. */
static void naive(st_tensor c, st_real alpha, st_tensor a, st_tensor b, st_real beta)
{
    for (ptrdiff_t i = 0; i < c.shape.n[0]; i++)
        for (ptrdiff_t j = 0; j < c.shape.n[1]; j++) {
            st_real *to = st_at(c, ST_INDEX(i, j)), sum = 0;
            for (ptrdiff_t l = 0; l < a.shape.n[1]; l++)
                sum += *st_at(a, ST_INDEX(i, l)) * *st_at(b, ST_INDEX(l, j));
            *to = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * *to);
        }
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Each makes a matrix [rows, columns] of zeros, or of random integers where its elements repeat. */

static st_tensor plain(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return st_tensor_new(ST_SHAPE(rows, columns));
}

static st_tensor transposed(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return st_transpose(st_tensor_new(ST_SHAPE(columns, rows)), 0, 1);
}

/* Inside a bigger matrix: the leading dimension is not the width. */
static st_tensor block(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    st_tensor bigger = st_tensor_new(ST_SHAPE(rows + roll(d, 0, 3), columns + roll(d, 1, 3)));
    ptrdiff_t down = roll(d, 0, bigger.shape.n[0] - rows), across = roll(d, 0, bigger.shape.n[1] - columns);
    return st_narrow(st_narrow(bigger, 0, down, rows), 1, across, columns);
}

static st_tensor transposed_block(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return st_transpose(block(d, columns, rows), 0, 1);
}

static st_tensor around; /* what the last view is of */

static st_tensor any_view(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return roll_view(d, ST_SHAPE(rows, columns), &around);
}

static st_tensor flipped(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return st_flip(st_tensor_new(ST_SHAPE(rows, columns)), (int)roll(d, 0, 1));
}

/* A channel of an image whose channels come last. */
static st_tensor stepped(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return st_select(st_tensor_new(ST_SHAPE(rows, columns, 3)), 2, roll(d, 0, 2));
}

/* Rows that are whole rows of a bigger matrix, every second of them. */
static st_tensor every_other_row(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return st_select(st_tensor_new(ST_SHAPE(rows, 2, columns)), 1, 1);
}

static st_tensor broadcast_rows(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return st_expand(roll_tensor(d, ST_SHAPE(1, columns), -4, 4), ST_SHAPE(rows, columns));
}

static st_tensor broadcast_columns(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    return st_expand(roll_tensor(d, ST_SHAPE(rows, 1), -4, 4), ST_SHAPE(rows, columns));
}

/* Windows of a signal: rows overlap, the leading dimension is less than the width. */
static st_tensor windows(dice *d, ptrdiff_t rows, ptrdiff_t columns)
{
    if (rows == 0 || columns == 0) return plain(d, rows, columns);
    return st_unfold(roll_tensor(d, ST_SHAPE(rows + columns - 1), -4, 4), 0, columns, 1, 1);
}

typedef st_tensor layout(dice *d, ptrdiff_t rows, ptrdiff_t columns);
static layout *const layouts[] = { plain,          transposed,        block,   transposed_block,
                                   any_view,       flipped,           stepped, every_other_row,
                                   broadcast_rows, broadcast_columns, windows };
enum { LAYOUTS = sizeof layouts / sizeof *layouts, DISTINCT = 8 }; /* the first repeat no element */

/* ---- products -------------------------------------------------------------------------------- */

/* The library's own loops, and BLAS. */
static void with_each_product(void (*claim)(void))
{
    use_engine("reference");
    claim();
    use_engine(NULL);
    claim();
}

static st_tensor roll_matrix(dice *d, layout *make, ptrdiff_t rows, ptrdiff_t columns)
{
    st_tensor x = make(d, rows, columns);
    assert_shape(x, rows, columns);
    roll_elements(d, x, -4, 4);
    return x;
}

static ptrdiff_t roll_size(dice *d)
{
    static const ptrdiff_t sizes[] = { 0, 1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17 };
    return sizes[roll(d, 0, sizeof sizes / sizeof *sizes - 1)];
}

/* Every layout of every matrix, every alpha and beta, over sizes that come by chance. What lies around c
 * stays 0. */
static void three_loops(void)
{
    static const st_real factors[] = { 0, 1, -2, (st_real)0.5 };
    dice d = { { 13 } };
    for (int i = 0; i < LAYOUTS * LAYOUTS * DISTINCT * 16; i++) {
        int la = i % LAYOUTS, lb = i / LAYOUTS % LAYOUTS, lc = i / LAYOUTS / LAYOUTS % DISTINCT;
        st_real alpha = factors[i % 4], beta = factors[i / 4 % 4];
        ptrdiff_t m = roll_size(&d), k = roll_size(&d), n = roll_size(&d);
        auto_tensor a = roll_matrix(&d, layouts[la], m, k), b = roll_matrix(&d, layouts[lb], k, n);
        auto_tensor c = roll_matrix(&d, layouts[lc], m, n), expected = st_tensor_clone(c);
        naive(expected, alpha, a, b, beta);
        st_gemm(c, alpha, a, b, beta);
        about("case %d: layouts %d and %d into %d, m %td k %td n %td, alpha %g, beta %g", i, la, lb, lc, m, k,
              n, (double)alpha, (double)beta);
        assert_same(c, expected);
        if (layouts[lc] != any_view) continue;
        st_fill(c, 0);
        for (ptrdiff_t e = 0; e < st_numel(around); e++) assert_true(*element(around, e) == 0);
    }
}

TEST(a_product_is_three_loops_in_any_layout)
{
    with_each_product(three_loops);
}

/* Large enough for BLAS to pack, to block and, if it could, to start threads. */
static void large_products(void)
{
    dice d = { { 15 } };
    const ptrdiff_t sizes[][3] = { { 130, 70, 190 }, { 1, 600, 200 }, { 200, 600, 1 }, { 257, 3, 129 } };
    for (int i = 0; i < 4; i++) {
        auto_tensor a = roll_matrix(&d, i % 2 ? plain : transposed, sizes[i][0], sizes[i][1]);
        auto_tensor b = roll_matrix(&d, i / 2 ? plain : transposed, sizes[i][1], sizes[i][2]);
        auto_tensor c = st_tensor_new(ST_SHAPE(sizes[i][0], sizes[i][2])), expected = st_tensor_new(c.shape);
        st_gemm(c, 1, a, b, 0);
        for (ptrdiff_t r = 0; r < c.shape.n[0]; r++)
            for (ptrdiff_t l = 0; l < a.shape.n[1]; l++)
                st_add(st_select(expected, 0, r), *st_at(a, ST_INDEX(r, l)), st_select(b, 0, l));
        assert_same(c, expected);
    }
}

TEST(large_products_are_exact_too)
{
    with_each_product(large_products);
}

/* ---- what is not a number --------------------------------------------------------------------- */

enum { SIDE = 40 }; /* BLAS uses different kernels for small and large sizes */

static void overwrites(void)
{
    dice d = { { 16 } };
    for (int which = 0; which < DISTINCT; which++)
        for (ptrdiff_t n = 0; n <= SIDE; n += n < 5 ? 1 : 35) {
            auto_tensor a = roll_tensor(&d, ST_SHAPE(n, n), -4, 4), c = layouts[which](&d, n, n);
            auto_tensor expected = st_tensor_new(ST_SHAPE(n, n));
            naive(expected, 1, a, a, 0);
            st_fill(c, (st_real)NAN);
            st_gemm(c, 1, a, a, 0);
            assert_same(c, expected);
            st_fill(c, (st_real)INFINITY);
            st_gemm(c, 0, a, a, 0);
            st_fill(expected, 0);
            assert_same(c, expected);
        }
}

TEST(beta_0_overwrites_what_is_not_a_number)
{
    with_each_product(overwrites);
}

static void reads_nothing(void)
{
    for (ptrdiff_t n = 1; n <= SIDE; n += n < 5 ? 1 : 35) {
        auto_tensor a = st_tensor_new(ST_SHAPE(n, n)), b = st_tensor_new(ST_SHAPE(n, n)),
                    c = st_tensor_new(ST_SHAPE(n, n));
        auto_tensor expected = st_tensor_new(ST_SHAPE(n, n));
        st_fill(a, (st_real)NAN);
        st_fill(b, (st_real)INFINITY);
        st_fill(c, 3);
        st_gemm(c, 0, a, b, 1);
        st_fill(expected, 3);
        assert_same(c, expected);
        st_gemm(c, 0, a, b, -2);
        st_fill(expected, -6);
        assert_same(c, expected);
        st_gemm(c, 0, b, a, 0);
        st_fill(expected, 0);
        assert_same(c, expected);
    }
}

TEST(alpha_0_reads_neither_a_nor_b)
{
    with_each_product(reads_nothing);
}

/* A NaN in row 1 of a and one in column 2 of b reach that row and that column, zeros or not. */
static void spreads(void)
{
    auto_tensor a = tensor_of(ST_SHAPE(3, 2), 1, 2, NAN, 0, 5, 6),
                b = tensor_of(ST_SHAPE(2, 3), 1, 0, NAN, 0, 1, 0);
    auto_tensor c = st_tensor_new(ST_SHAPE(3, 3));
    st_gemm(c, 1, a, b, 0);
    assert_elements(c, 1, 2, NAN, NAN, NAN, NAN, 5, 6, NAN);
}

TEST(what_is_not_a_number_spreads_along_its_row_and_column)
{
    with_each_product(spreads);
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST(shapes_that_do_not_multiply_are_an_error_and_c_stays)
{
    const st_shape wrong[][3] = {
        /* c, a, b */
        { ST_SHAPE(2, 3), ST_SHAPE(2, 4), ST_SHAPE(5, 3) },
        { ST_SHAPE(2, 3), ST_SHAPE(3, 4), ST_SHAPE(4, 3) },
        { ST_SHAPE(2, 3), ST_SHAPE(2, 4), ST_SHAPE(4, 2) },
        { ST_SHAPE(2, 3), ST_SHAPE(2), ST_SHAPE(2, 3) },
        { ST_SHAPE(2, 3), ST_SHAPE(2, 4, 1), ST_SHAPE(4, 3) },
        { ST_SHAPE(6), ST_SHAPE(2, 4), ST_SHAPE(4, 3) },
        { ST_SHAPE(2, 3), ST_SHAPE(2, 0), ST_SHAPE(1, 3) },
        { ST_SHAPE(2, 3), { 0 }, { 0 } },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        auto_tensor c = st_tensor_new(wrong[i][0]), a = st_tensor_new(wrong[i][1]),
                    b = st_tensor_new(wrong[i][2]);
        st_fill(c, 7);
        st_gemm(c, 0, a, b, 0);
        expect_error("st_gemm: %s = %s times %s, expected [m, n] = [m, k] times [k, n]",
                     st_shape_text(wrong[i][0]).text, st_shape_text(wrong[i][1]).text,
                     st_shape_text(wrong[i][2]).text);
        for (ptrdiff_t e = 0; e < st_numel(c); e++) assert_true(*element(c, e) == 7);
    }
}

/* BLAS counts in int; views make such sizes without the memory. */
TEST(sizes_beyond_blas_are_refused)
{
    const ptrdiff_t beyond = (ptrdiff_t)1 << 31;
    auto_tensor one = st_tensor_new(ST_SHAPE(1, 1)), c = st_tensor_new(ST_SHAPE(1, 1));
    st_gemm(c, 1, st_expand(one, ST_SHAPE(1, beyond)), st_expand(one, ST_SHAPE(beyond, 1)), 0);
    expect_error("st_gemm: [1, 1] = [1, 2147483648] times [2147483648, 1] is too large");
}
