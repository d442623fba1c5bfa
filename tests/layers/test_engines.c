/* test_engines.c: whatever the engine, the results: exact on small integers, for every machine's kernel that this
 * machine can run. */
#include "layers/layers.h"
#include "layers/fast/kernel.h"
#include "tensor/machine.h"
#include "tests/layers/naive.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>

static const char *const engines[] = { "generic", "avx2", "avx512" };

/* Chooses engine i; false where this machine cannot run it. */
static bool available(size_t i)
{
    bool reference;
    int machine;
    use_engine(engines[i]);
    if (machine_choose(&machine, &reference) == 0) return true;
    error_clear();
    return false;
}

/* The kernel of the engine in use, which is available. */
static const kernel *kernel_in_use(void)
{
    bool reference;
    int machine;
    assert_int_equal(machine_choose(&machine, &reference), 0);
    return kernel_of_machine(machine);
}

static void each_engine(void (*claim)(const kernel *k, dice *d))
{
    int ran = 0;
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        if (!available(i)) continue;
        const kernel *k = kernel_in_use();
        assert_string_equal(k->name, engines[i]);
        for (unsigned seed = 1; seed <= 100; seed++) {
            about("%s, seed %u", k->name, seed);
            claim(k, &(dice){ { seed } });
        }
        ran++;
    }
    assert_true(ran >= 1);
    use_engine(NULL);
}

/* ---- the kernel -------------------------------------------------------------------------------------- */

static void roll_table(dice *d, ptrdiff_t *table, ptrdiff_t count, ptrdiff_t most)
{
    for (ptrdiff_t i = 0; i < count; i++) table[i] = roll(d, 0, most);
}

static void a_product_case(const kernel *k, dice *d)
{
    enum { MOST_ROWS = 20, MOST_COLUMNS = 150, MOST_DEPTH = 40, REACH = 100 };
    ptrdiff_t rows = roll(d, 1, MOST_ROWS), depth = roll(d, 0, MOST_DEPTH), pitch = MOST_COLUMNS;
    bool add = chance(d, 50);
    ptrdiff_t columns =
        add ? k->lanes * roll(d, 1, MOST_COLUMNS / k->lanes) : roll(d, k->lanes, MOST_COLUMNS);
    ptrdiff_t row[MOST_ROWS], step[MOST_DEPTH], offset[MOST_DEPTH];
    roll_table(d, row, rows, REACH), roll_table(d, step, depth, REACH), roll_table(d, offset, depth, REACH);
    tensor a = roll_tensor(d, SHAPE(2 * REACH + 1), -3, 3), b = roll_tensor(d, SHAPE(REACH + columns), -3, 3);
    tensor c = roll_tensor(d, SHAPE(rows, pitch), -3, 3), expected = tensor_clone(c);
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++) {
            real sum = add ? *tensor_at(c, INDEX(i, j)) : 0;
            for (ptrdiff_t n = 0; n < depth; n++)
                sum += tensor_data(a)[row[i] + step[n]] * tensor_data(b)[offset[n] + j];
            *tensor_at(expected, INDEX(i, j)) = sum;
        }
    const ptrdiff_t *rows_of_b = depth > 0 ? offset : NULL; /* of no rows there is no table */
    kernel_product(k, rows, columns, depth, tensor_data(a), row, step, tensor_data(b), rows_of_b,
                   tensor_data(c), pitch, add);
    assert_same(c, expected);
    tensor_free(a), tensor_free(b), tensor_free(c), tensor_free(expected);
}

static void the_product_is_the_sum_in_its_definition(void **state)
{
    each_engine(a_product_case);
}

static void a_dot_case(const kernel *k, dice *d)
{
    enum { MOST = 20, MOST_DEPTH = 6, REACH = 100 };
    ptrdiff_t rows = roll(d, 1, MOST), columns = roll(d, 1, MOST), depth = roll(d, 0, MOST_DEPTH),
              pitch = MOST + 3;
    ptrdiff_t row[MOST], offset[MOST_DEPTH], step = depth * k->lanes + roll(d, 0, 3);
    roll_table(d, row, columns, REACH), roll_table(d, offset, depth, REACH);
    tensor a = roll_tensor(d, SHAPE(rows * step + 1), -3, 3),
           b = roll_tensor(d, SHAPE(2 * REACH + k->lanes), -3, 3);
    tensor c = roll_tensor(d, SHAPE(rows, pitch), -3, 3), expected = tensor_clone(c);
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t j = 0; j < columns; j++)
            for (ptrdiff_t n = 0; n < depth * k->lanes; n++)
                *tensor_at(expected, INDEX(i, j)) +=
                    tensor_data(a)[i * step + n] *
                    tensor_data(b)[row[j] + offset[n / k->lanes] + n % k->lanes];
    kernel_dot(k, rows, columns, depth, tensor_data(a), step, tensor_data(b), row, offset, tensor_data(c),
               pitch);
    assert_same(c, expected);
    tensor_free(a), tensor_free(b), tensor_free(c), tensor_free(expected);
}

static void a_dot_is_the_sum_in_its_definition(void **state)
{
    each_engine(a_dot_case);
}

static void a_transpose_case(const kernel *k, dice *d)
{
    ptrdiff_t rows = roll(d, 1, 40), columns = roll(d, k->lanes, 60), padded = kernel_padded(k, rows);
    tensor a = roll_tensor(d, SHAPE(rows, columns), -9, 9), c = tensor_new(SHAPE(columns, padded));
    tensor expected = tensor_new(c.shape);
    tensor_copy(tensor_narrow(expected, 1, 0, rows), tensor_transpose(a, 0, 1));
    tensor_fill(c, 7);
    kernel_transpose(k, rows, columns, tensor_data(a), columns, tensor_data(c), padded);
    assert_true(padded >= rows && padded < rows + k->lanes && padded % k->lanes == 0);
    assert_same(c, expected);
    tensor_free(a), tensor_free(c), tensor_free(expected);
}

static void a_transpose_is_padded_with_zeros(void **state)
{
    each_engine(a_transpose_case);
}

static void an_engine_that_is_not_known_is_refused(void **state)
{
    bool reference;
    int machine;
    use_engine("fast");
    assert_int_equal(machine_choose(&machine, &reference), -1);
#ifdef __x86_64__
    expect_error("STRIDE_ENGINE=fast: expected reference, generic, avx2 or avx512");
#else
    expect_error("STRIDE_ENGINE=fast: expected reference, generic");
#endif
    layer *l = layer_relu();
    assert_int_equal(layer_build(l, SHAPE(1, 1), 1), -1);
    assert_non_null(strstr(error_text(), "STRIDE_ENGINE=fast"));
    error_clear();
    use_engine("reference");
    assert_int_equal(machine_choose(&machine, &reference), 0);
    assert_true(reference);
    use_engine(NULL);
    layer_free(l);
}

/* ---- convolution ------------------------------------------------------------------------------------- */

typedef struct results {
    tensor y, dx, dw;
} results;

static results run_layer(const char *engine, layer *l, tensor x, dice d)
{
    use_engine(engine);
    assert_int_equal(layer_build(l, x.shape, 1), 0);
    roll_elements(&d, layer_parameters(l), -3, 3);
    results r = { .y = tensor_new(l->y), .dx = tensor_new(x.shape) };
    tensor dy = roll_tensor(&d, l->y, -3, 3);
    roll_elements(&d, layer_gradients(l), -3, 3);
    layer_spoil_scratch(l);
    layer_forward(l, x, r.y);
    layer_spoil_scratch(l);
    layer_backward(l, x, r.y, dy, r.dx);
    r.dw = tensor_clone(layer_gradients(l));
    tensor_free(dy);
    layer_free(l);
    return r;
}

static results run(const char *engine, conv2d o, tensor x, dice d)
{
    return run_layer(engine, layer_conv2d(o), x, d);
}

static void free_results(results r)
{
    tensor_free(r.y), tensor_free(r.dx), tensor_free(r.dw);
}

/* More vectors of positions than rows of weights or of a block: the table of them must have room, or it runs into
 * dy, which in a chain lies behind it. */
static layer *large_and_flat(void)
{
    return layer_sequence(layer_conv2d((conv2d){ .out_channels = 1, .kernel = { 1, 1 } }),
                          layer_conv2d((conv2d){ .out_channels = 1, .kernel = { 1, 1 } }), layer_relu());
}

static void large_images_of_a_channel_are_convolved_as_by_the_reference(void **state)
{
    dice d = { { 1 } };
    tensor x = roll_tensor(&d, SHAPE(1, 1, 200, 300), -1, 1);
    results reference = run_layer("reference", large_and_flat(), x, d);
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        if (!available(i)) continue;
        about("%s", engines[i]);
        results fast = run_layer(engines[i], large_and_flat(), x, d);
        assert_same(fast.y, reference.y);
        assert_same(fast.dx, reference.dx);
        assert_same(fast.dw, reference.dw);
        free_results(fast);
    }
    free_results(reference);
    tensor_free(x);
    use_engine(NULL);
}

static void assert_convolves(const char *engine, conv2d o, shape images)
{
    dice d = { { 1 } };
    tensor x = roll_tensor(&d, images, -3, 3);
    results reference = run("reference", o, x, d), fast = run(engine, o, x, d);
    assert_same(fast.y, reference.y);
    assert_same(fast.dx, reference.dx);
    assert_same(fast.dw, reference.dw);
    free_results(reference), free_results(fast);
    tensor_free(x);
}

/* So many channels that a block has the fewest rows, and rows so short that what they lack counts; and a block of
 * fewer windows than lanes at the end of an image, beyond which nothing may be read (a sanitizer sees it). */
static void narrow_images_of_many_channels_are_convolved_as_by_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        if (!available(i)) continue;
        const kernel *k = kernel_in_use();
        about("%s", engines[i]);
        ptrdiff_t width = k->lanes > 2 ? k->lanes / 2 - 1 : 1;
        assert_convolves(engines[i],
                         (conv2d){ .out_channels = 20000, .kernel = { 3, 3 }, .padding = { 1, 1 } },
                         SHAPE(1, 1, 7, width));
        assert_convolves(engines[i], (conv2d){ .out_channels = 4096, .kernel = { 5, 5 } }, SHAPE(1, 1, 8, 8));
    }
    use_engine(NULL);
}

/* ---- pooling ----------------------------------------------------------------------------------------- */

/* Into the first images of tensors that have one more, which must stay as it is. */
static void assert_pools(layer *l, dice *d, tensor x, tensor dy, naive want)
{
    const real mark = 77;
    ptrdiff_t images = x.shape.n[0];
    assert_int_equal(layer_build(l, x.shape, 1), 0);
    layer_mode(l, chance(d, 50), 1, 1);
    shape more_y = l->y, more_x = x.shape;
    more_y.n[0] = more_x.n[0] = images + 1;
    tensor y = tensor_new(more_y), dx = tensor_new(more_x);
    tensor_fill(y, mark), tensor_fill(dx, mark);
    tensor y_own = tensor_narrow(y, 0, 0, images), dx_own = tensor_narrow(dx, 0, 0, images);
    layer_spoil_scratch(l);
    layer_forward(l, x, y_own);
    layer_spoil_scratch(l);
    layer_backward(l, x, y_own, dy, dx_own);
    assert_same(y_own, want.y);
    assert_same(dx_own, want.dx);
    tensor after[] = { tensor_narrow(y, 0, images, 1), tensor_narrow(dx, 0, images, 1) };
    for (int i = 0; i < 2; i++) {
        tensor marks = tensor_new(after[i].shape);
        tensor_fill(marks, mark);
        assert_same(after[i], marks);
        tensor_free(marks);
    }
    tensor_free(y), tensor_free(dx), tensor_free(dy), layer_free(l);
    naive_free(want);
}

/* The windows that have loops of their own, over images of few rows that end wherever a vector may. */
static void every_engine_pools_images_of_any_width(void **state)
{
    const avgpool means = { .kernel = { 2, 2 } };
    const maxpool maxima[] = { { .kernel = { 2, 2 } },
                               { .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } } };
    dice d = { { 1 } };
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        for (ptrdiff_t size = 0; size < 4 * 36 && available(i); size++) {
            shape s = SHAPE(1, 2, 2 + size % 4, 2 + size / 4);
            about("%s, %s", engines[i], shape_text(s).text);
            tensor x = roll_tensor(&d, s, -2, 2), dy = roll_tensor(&d, naive_avgpool_shape(means, s), -5, 5);
            assert_pools(layer_avgpool(means), &d, x, dy, naive_avgpool(means, x, dy));
            for (int m = 0; m < 2; m++) {
                dy = roll_tensor(&d, naive_maxpool_shape(maxima[m], s), -5, 5);
                assert_pools(layer_maxpool(maxima[m]), &d, x, dy, naive_maxpool(maxima[m], x, dy));
            }
            tensor_free(x);
        }
    use_engine(NULL);
}

/* ---- elements ---------------------------------------------------------------------------------------- */

static layer *mean_of_all(void)
{
    return layer_avgpool((avgpool){ .kernel = { 0, 0 } });
}

static layer *mean_of_parts(void)
{
    return layer_adaptive_avgpool((adaptive_avgpool){ 0 });
}

static layer *mean_of_pairs(void)
{
    return layer_avgpool((avgpool){ .kernel = { 2, 2 } });
}

static layer *some_elu(void)
{
    return layer_elu(0.5);
}

static layer *some_leaky_relu(void)
{
    return layer_leaky_relu(0.25);
}

/* The least number above 0, of which 1 / 2^(bits of the mantissa) is left, and the least that has them all. */
static const double least = sizeof(real) == 4 ? 0x1p-149 : 0x1p-1074;
static const double normal = sizeof(real) == 4 ? 0x1p-126 : 0x1p-1022;

/* Zeros of both signs, numbers beside the ends of what there is and of exp, and what is none. */
static void put_extremes(tensor x)
{
    const double most = (double)REAL_MAX;
    const double extremes[] = { 0,   least, 3 * least, normal / 2, normal, 1e-30,    16,       88.7, 103.9,
                                1e4, 1e15,  1e30,      most / 4,   most,   most / 2, INFINITY, NAN };
    enum { EXTREMES = sizeof extremes / sizeof *extremes };
    for (ptrdiff_t k = 0; k < tensor_count(x); k++)
        *element(x, k) = (real)(k % 3 == 0 ? -extremes[k / 3 % EXTREMES] : extremes[k / 3 % EXTREMES]);
}

/* No sum in another order, no product that is not rounded; of extremes those that are taken element by element. */
static void every_engine_rounds_alike(void **state)
{
    layer *(*const makes[])(void) = { layer_relu,   layer_relu6,     layer_gelu,     layer_silu,
                                      layer_mish,   layer_tanh,      layer_sigmoid,  layer_softplus,
                                      layer_selu,   layer_hardswish, layer_softsign, layer_hardsigmoid,
                                      some_elu,     some_leaky_relu, mean_of_all,    mean_of_parts,
                                      mean_of_pairs };
    for (size_t m = 0; m < 2 * sizeof makes / sizeof *makes; m++) {
        dice d = { { 3 } };
        tensor x = tensor_new(SHAPE(2, 3, 13, 17));
        tensor_uniform(x, (random_key){ 1, 1 }, -4, 4);
        if (m % 2) put_extremes(x);
        results plain = run_layer("generic", makes[m / 2](), x, d);
        for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
            if (!available(i)) continue;
            about("%s, layer %d, %s", engines[i], (int)m / 2, m % 2 ? "extremes" : "small");
            results r = run_layer(engines[i], makes[m / 2](), x, d);
            assert_same(r.y, plain.y);
            assert_same(r.dx, plain.dx);
            free_results(r);
        }
        free_results(plain);
        tensor_free(x);
    }
    use_engine(NULL);
}

/* ---- denormal numbers ------------------------------------------------------------------------------------ */

static layer *tiny_dense(void)
{
    return layer_dense((dense){ .out_features = 100, .no_bias = true });
}

static layer *tiny_convolution(void)
{
    return layer_conv2d(
        (conv2d){ .out_channels = 18, .kernel = { 5, 5 }, .padding = { 2, 2 }, .no_bias = true });
}

/* y of x, and dx and dw of dy; both times `unit`. */
static results in_units(layer *l, tensor x, real unit)
{
    dice d = { { 2 } };
    assert_int_equal(layer_build(l, x.shape, 1), 0);
    roll_elements(&d, layer_parameters(l), -3, 3);
    tensor small = tensor_clone(x), dy = roll_tensor(&d, l->y, -3, 3);
    results r = { .y = tensor_new(l->y), .dx = tensor_new(x.shape) };
    tensor_scale(small, unit);
    tensor_scale(dy, unit);
    layer_forward(l, small, r.y);
    tensor y = tensor_new(l->y);
    layer_forward(l, x, y);
    layer_backward(l, x, y, dy, r.dx);
    r.dw = tensor_clone(layer_gradients(l));
    tensor_free(small), tensor_free(dy), tensor_free(y), layer_free(l);
    return r;
}

static void assert_tiny(const char *engine, layer *(*make)(void), tensor x)
{
    about("%s, %s", engine, shape_text(x.shape).text);
    use_engine(engine);
    results one = in_units(make(), x, 1), tiny = in_units(make(), x, (real)least);
    const tensor large[] = { one.y, one.dx, one.dw }, small[] = { tiny.y, tiny.dx, tiny.dw };
    for (int i = 0; i < 3; i++) {
        tensor_scale(large[i], (real)least);
        assert_same(small[i], large[i]);
    }
    volatile real unit = (real)least; /* nor did anybody tell the processor to */
    assert_true(unit * 3 > unit);
    free_results(one), free_results(tiny);
}

/* Multiples of the least number there is, times integers: as exact as integers, where nothing is taken for 0. (By
 * Winograd's way, which divides, they are not.) */
static void no_engine_takes_denormal_numbers_for_zero(void **state)
{
    dice d = { { 1 } };
    tensor rows = roll_tensor(&d, SHAPE(70, 300), -3, 3),
           images = roll_tensor(&d, SHAPE(2, 9, 13, 17), -3, 3);
    for (size_t i = 0; i <= sizeof engines / sizeof *engines; i++) {
        const char *engine = i == 0 ? "reference" : engines[i - 1];
        if (i > 0 && !available(i - 1)) continue;
        assert_tiny(engine, tiny_dense, rows);
        assert_tiny(engine, tiny_convolution, images);
    }
    tensor_free(rows), tensor_free(images);
    use_engine(NULL);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        CLAIM(the_product_is_the_sum_in_its_definition),
        CLAIM(a_dot_is_the_sum_in_its_definition),
        CLAIM(a_transpose_is_padded_with_zeros),
        CLAIM(an_engine_that_is_not_known_is_refused),
        CLAIM(large_images_of_a_channel_are_convolved_as_by_the_reference),
        CLAIM(narrow_images_of_many_channels_are_convolved_as_by_the_reference),
        CLAIM(every_engine_pools_images_of_any_width),
        CLAIM(every_engine_rounds_alike),
        CLAIM(no_engine_takes_denormal_numbers_for_zero),
    };
    return cmocka_run_group_tests(claims, NULL, NULL);
}
