/* test_augment.c: what is drawn is what the options say, depends on nothing else, and is sampled where it should. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "tests/support.h"

#include "nn/data/augment.h"
#include "nn/data/digits.h"
#include "nn/train.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>
#include <string.h>

/* ---- data ------------------------------------------------------------------------------------ */

static const double DEGREE = 3.14159265358979323846 / 180;

/* Images and classes, and a set of them. */
typedef struct sample_set {
    tensor x, y;
    data *d;
} sample_set;

static sample_set set_of(tensor x)
{
    ptrdiff_t n = x.shape.n[0];
    sample_set s = { x, tensor_new(SHAPE(n)) };
    for (ptrdiff_t i = 0; i < n; i++) *tensor_at(s.y, INDEX(i)) = (real)(i % 10);
    s.d = data_tensors(s.x, s.y);
    assert_non_null(s.d);
    return s;
}

static void free_set(sample_set s)
{
    data_free(s.d);
    tensor_free(s.x), tensor_free(s.y);
}

/* All samples of a set, in turn. */
static tensor all_of(const data *d)
{
    tensor x = tensor_new(shape_with_batch(d->x, d->count)), y = tensor_new(shape_with_batch(d->y, d->count));
    assert_int_equal(data_batch(d, NULL, 0, d->count, x, y), 0);
    for (ptrdiff_t i = 0; i < d->count; i++) assert_true(*tensor_at(y, INDEX(i)) == (real)(i % 10));
    tensor_free(y);
    return x;
}

/* What becomes of x in one pass. */
static tensor augmented(tensor x, augment options, uint64_t pass)
{
    sample_set s = set_of(tensor_clone(x));
    data *d = data_augment(s.d, options);
    assert_non_null(d);
    data_begin(d, pass);
    tensor out = all_of(d);
    data_free(d);
    free_set(s);
    return out;
}

static bool same(tensor a, tensor b)
{
    return memcmp(tensor_data(a), tensor_data(b), (size_t)tensor_count(a) * sizeof(real)) == 0;
}

static tensor reversed(tensor x, int axis)
{
    return tensor_flip(x, axis);
}

/* ---- the map --------------------------------------------------------------------------------- */

/* The value at a place between elements, by definition: every element weighs as near as it is. */
static double naive_sample(tensor x, ptrdiff_t c, double row, double column)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < x.shape.n[1]; i++)
        for (ptrdiff_t j = 0; j < x.shape.n[2]; j++) {
            double a = 1 - fabs(row - (double)i), b = 1 - fabs(column - (double)j);
            if (a > 0 && b > 0) sum += a * b * (double)*tensor_at(x, INDEX(c, i, j));
        }
    return sum;
}

static tensor naive_warp(tensor x, augment_map m)
{
    tensor y = tensor_new(x.shape);
    double middle = (double)(x.shape.n[1] - 1) / 2, centre = (double)(x.shape.n[2] - 1) / 2;
    for (ptrdiff_t k = 0; k < tensor_count(y); k++) {
        shape at = index_of(y.shape, k);
        double i = (double)at.n[1] - middle, j = (double)at.n[2] - centre;
        *element(y, k) = (real)naive_sample(x, at.n[0], m.row[0] * i + m.row[1] * j + m.row[2] + middle,
                                            m.column[0] * i + m.column[1] * j + m.column[2] + centre);
    }
    return y;
}

static void a_map_is_sampled_as_defined(void **state)
{
    dice d = { { 11 } };
    for (int k = 0; k < 200; k++) {
        about("map %d", k);
        shape s = SHAPE(roll(&d, 1, 3), roll(&d, 1, 9), roll(&d, 1, 9));
        tensor from = roll_view(&d, s, NULL), to = roll_view(&d, s, NULL);
        roll_elements(&d, from, -9, 9);
        tensor_fill(to, (real)NAN);
        double m[6];
        for (int e = 0; e < 6; e++) m[e] = (double)roll(&d, -200, 200) / 64;
        augment_map map = { { m[0], m[1], m[2] }, { m[3], m[4], m[5] } };
        assert_int_equal(augment_warp(to, from, map), 0);
        tensor expected = naive_warp(from, map);
        assert_near(to, expected, 2e-4);
        tensor_free(from), tensor_free(to), tensor_free(expected);
    }
}

/* The part of x that lies i rows down and j columns to the right within itself, zeros elsewhere: by views. */
static tensor shifted(tensor x, ptrdiff_t i, ptrdiff_t j)
{
    tensor y = tensor_new(x.shape), from = x, to = y;
    ptrdiff_t by[] = { i, j };
    for (int k = 0; k < 2; k++) {
        ptrdiff_t n = x.shape.n[k + 1], far = by[k] < 0 ? -by[k] : by[k];
        from = tensor_narrow(from, k + 1, by[k] < 0 ? far : 0, n - far);
        to = tensor_narrow(to, k + 1, by[k] < 0 ? 0 : far, n - far);
    }
    tensor_copy(to, from);
    return y;
}

static void a_shift_by_whole_pixels_is_exact(void **state)
{
    dice d = { { 12 } };
    tensor x = roll_tensor(&d, SHAPE(2, 6, 9), -9, 9), y = tensor_new(x.shape);
    for (ptrdiff_t i = -6; i <= 6; i++)
        for (ptrdiff_t j = -9; j <= 9; j++) {
            about("%td down, %td to the right", i, j);
            assert_int_equal(augment_warp(y, x, (augment_map){ { 1, 0, (double)-i }, { 0, 1, (double)-j } }),
                             0);
            tensor expected = shifted(x, i, j);
            assert_same(y, expected);
            tensor_free(expected);
        }
    tensor_free(x), tensor_free(y);
}

static void quarter_turns_and_mirrors_are_exact(void **state)
{
    dice d = { { 13 } };
    for (ptrdiff_t side = 1; side <= 8; side++) {
        about("side %td", side);
        tensor x = roll_tensor(&d, SHAPE(3, side, side), -9, 9), y = tensor_new(x.shape);
        /* counter-clockwise: row i of the result is column W - 1 - i of x */
        assert_int_equal(augment_warp(y, x, (augment_map){ { 0, 1 }, { -1, 0 } }), 0);
        assert_same(y, reversed(tensor_permute(x, AXES(0, 2, 1)), 1));
        assert_int_equal(augment_warp(y, x, (augment_map){ { -1, 0 }, { 0, -1 } }), 0);
        assert_same(y, reversed(reversed(x, 1), 2));
        assert_int_equal(augment_warp(y, x, (augment_map){ { 1, 0 }, { 0, -1 } }), 0);
        assert_same(y, reversed(x, 2));
        tensor_free(x), tensor_free(y);
    }
}

static void maps_are_refused(void **state)
{
    tensor x = tensor_new(SHAPE(1, 3, 3)), y = tensor_new(SHAPE(1, 3, 4)), flat = tensor_new(SHAPE(3, 3));
    augment_map same_place = { { 1, 0, 0 }, { 0, 1, 0 } };
    assert_int_equal(augment_warp(y, x, same_place), -1);
    expect_error("augment_warp: from [1, 3, 3] to [1, 3, 4], expected the same [C, H, W]");
    assert_int_equal(augment_warp(flat, flat, same_place), -1);
    expect_error("augment_warp: from [3, 3] to [3, 3]");
    assert_int_equal(augment_warp(x, (tensor){ 0 }, same_place), -1);
    expect_error("augment_warp: from");
    same_place.column[2] = NAN;
    assert_int_equal(augment_warp(x, x, same_place), -1);
    expect_error("augment_warp: the map is not finite");
    tensor_free(x), tensor_free(y), tensor_free(flat);
}

/* ---- what is drawn --------------------------------------------------------------------------- */

static void without_options_nothing_changes(void **state)
{
    dice d = { { 14 } };
    tensor x = roll_tensor(&d, SHAPE(7, 2, 5, 4), -99, 99), y = augmented(x, (augment){ .seed = 5 }, 3);
    assert_same(y, x);
    tensor_free(x), tensor_free(y);
}

static void flips_are_exact_and_as_frequent_as_asked(void **state)
{
    enum { COUNT = 4000 };
    dice d = { { 15 } };
    tensor x = roll_tensor(&d, SHAPE(COUNT, 1, 2, 3), 1, 99);
    for (ptrdiff_t i = 0; i < COUNT; i++)
        *tensor_at(x, INDEX(i, 0, 0, 0)) = 100; /* no image is its own mirror */
    static const double probabilities[] = { 0.1, 0.5, 1 };
    for (int k = 0; k < 3; k++) {
        about("probability %g", probabilities[k]);
        tensor y = augmented(x, (augment){ .flip = probabilities[k], .seed = 2 }, 0);
        int mirrored = 0;
        for (ptrdiff_t i = 0; i < COUNT; i++) {
            tensor was = tensor_select(x, 0, i), is = tensor_select(y, 0, i);
            bool flipped = *tensor_at(is, INDEX(0, 0, 0)) != 100;
            mirrored += flipped;
            assert_same(is, flipped ? reversed(was, 2) : was);
        }
        double deviation = sqrt(COUNT * probabilities[k] * (1 - probabilities[k]));
        assert_true(fabs(mirrored - COUNT * probabilities[k]) <= 4 * deviation);
        tensor_free(y);
    }
    tensor_free(x);
}

/* Images of two planes, f = row and f = column from the centre: away from the edges bilinear sampling returns a
 * plane exactly, and so the map that was drawn can be read off. */
enum { SIDE = 41, CENTRE = SIDE / 2, DRAWN = 2000 };

static tensor planes(ptrdiff_t count)
{
    tensor x = tensor_new(SHAPE(count, 2, SIDE, SIDE));
    for (ptrdiff_t n = 0; n < count; n++)
        for (ptrdiff_t i = 0; i < SIDE; i++)
            for (ptrdiff_t j = 0; j < SIDE; j++) {
                *tensor_at(x, INDEX(n, 0, i, j)) = (real)(i - CENTRE);
                *tensor_at(x, INDEX(n, 1, i, j)) = (real)(j - CENTRE);
            }
    return x;
}

static augment_map map_of(tensor image)
{
    augment_map m;
    for (int c = 0; c < 2; c++) {
        double *line = c ? m.column : m.row;
        line[2] = (double)*tensor_at(image, INDEX(c, CENTRE, CENTRE));
        line[0] = (double)*tensor_at(image, INDEX(c, CENTRE + 1, CENTRE)) - line[2];
        line[1] = (double)*tensor_at(image, INDEX(c, CENTRE, CENTRE + 1)) - line[2];
    }
    return m;
}

/* The matrix, from source to output, that its inverse in the map stands for. */
typedef struct matrix {
    double m[2][2];
} matrix;

static matrix inverse(augment_map a)
{
    double det = a.row[0] * a.column[1] - a.row[1] * a.column[0];
    return (matrix){ { { a.column[1] / det, -a.row[1] / det }, { -a.column[0] / det, a.row[0] / det } } };
}

/* Of the map of one option alone, the number that was drawn for it. */
static double drawn_rotation(augment_map a)
{
    matrix z = inverse(a);
    assert_float_equal(z.m[0][0], z.m[1][1], 1e-3);
    assert_float_equal(z.m[0][1], -z.m[1][0], 1e-3);
    assert_float_equal(hypot(z.m[0][0], z.m[1][0]), 1, 1e-3);
    return atan2(z.m[1][0], z.m[0][0]) / DEGREE;
}
static double drawn_shear(augment_map a)
{
    matrix z = inverse(a);
    assert_float_equal(z.m[0][0], 1, 1e-3);
    assert_float_equal(z.m[0][1], 0, 1e-3);
    assert_float_equal(z.m[1][1], 1, 1e-3);
    return atan(z.m[1][0]) / DEGREE;
}
static double drawn_scale(augment_map a)
{
    matrix z = inverse(a);
    assert_float_equal(z.m[0][0], z.m[1][1], 1e-3);
    assert_float_equal(z.m[0][1], 0, 1e-3);
    assert_float_equal(z.m[1][0], 0, 1e-3);
    return z.m[0][0] - 1;
}
static double drawn_down(augment_map a)
{
    assert_float_equal(a.row[0], 1, 1e-3);
    assert_float_equal(a.column[1], 1, 1e-3);
    return -a.row[2];
}
static double drawn_right(augment_map a)
{
    return -a.column[2];
}

typedef struct drawn {
    const char *name;
    augment options;
    double most;
    double (*number)(augment_map a);
} drawn;

static const drawn draws[] = {
    { "rotation", { .rotation = 30, .seed = 7 }, 30, drawn_rotation },
    { "shear", { .shear = 20, .seed = 7 }, 20, drawn_shear },
    { "scale", { .scale = 0.25, .seed = 7 }, 0.25, drawn_scale },
    { "shift down", { .shift = 5, .seed = 7 }, 5, drawn_down },
    { "shift to the right", { .shift = 5, .seed = 7 }, 5, drawn_right },
};
enum { KINDS = sizeof draws / sizeof *draws };

/* Mean 0 and variance most²/3 to 4.5 deviations, nothing outside, both ends nearly reached; and no number is
 * drawn for two purposes. */
static void numbers_are_uniform_and_apart(void **state)
{
    static double all[KINDS][DRAWN];
    tensor x = planes(DRAWN);
    for (int k = 0; k < KINDS; k++) {
        about("%s", draws[k].name);
        tensor y = augmented(x, draws[k].options, 1);
        double sum = 0, squares = 0, least = 0, most = 0;
        for (ptrdiff_t i = 0; i < DRAWN; i++) {
            double u = draws[k].number(map_of(tensor_select(y, 0, i))) / draws[k].most;
            all[k][i] = u;
            sum += u, squares += u * u;
            least = fmin(least, u), most = fmax(most, u);
        }
        assert_true(fabs(sum / DRAWN) < 4.5 * sqrt(1.0 / 3 / DRAWN));
        assert_true(fabs(squares / DRAWN - 1.0 / 3) < 4.5 * sqrt(4.0 / 45 / DRAWN));
        assert_true(least >= -1.001 && least < -0.99 && most <= 1.001 && most > 0.99);
        tensor_free(y);
    }
    for (int a = 0; a < KINDS; a++)
        for (int b = 0; b < a; b++) {
            about("%s and %s", draws[a].name, draws[b].name);
            double together = 0;
            for (int i = 0; i < DRAWN; i++) together += all[a][i] * all[b][i];
            assert_true(fabs(together / DRAWN) < 4.5 / 3 / sqrt(DRAWN));
        }
    tensor_free(x);
}

static matrix times(matrix a, matrix b)
{
    matrix c;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) c.m[i][j] = a.m[i][0] * b.m[0][j] + a.m[i][1] * b.m[1][j];
    return c;
}

/* All at once is each of them, as drawn alone, one after the other in the order that is promised. */
static void the_order_is_as_promised(void **state)
{
    enum { COUNT = 20 };
    tensor x = planes(COUNT), alone[KINDS];
    augment options = { .flip = 1, .rotation = 30, .shear = 20, .scale = 0.25, .shift = 5, .seed = 7 };
    tensor y = augmented(x, options, 1);
    for (int k = 0; k < KINDS; k++) alone[k] = augmented(x, draws[k].options, 1);
    for (ptrdiff_t i = 0; i < COUNT; i++) {
        about("image %td", i);
        double u[KINDS];
        for (int k = 0; k < KINDS; k++) u[k] = draws[k].number(map_of(tensor_select(alone[k], 0, i)));
        double c = cos(u[0] * DEGREE), s = sin(u[0] * DEGREE), z = 1 + u[2];
        matrix mirror = { { { 1, 0 }, { 0, -1 } } }, lean = { { { 1, 0 }, { tan(u[1] * DEGREE), 1 } } };
        matrix turn = { { { z * c, -z * s }, { z * s, z * c } } };
        matrix whole = times(turn, times(lean, mirror));
        augment_map map = map_of(tensor_select(y, 0, i));
        /* back and forth again, and the shift comes last: what arrives at it was the centre */
        for (int k = 0; k < 2; k++) {
            double row = map.row[0] * whole.m[0][k] + map.row[1] * whole.m[1][k];
            double column = map.column[0] * whole.m[0][k] + map.column[1] * whole.m[1][k];
            assert_float_equal(row, k == 0, 2e-3);
            assert_float_equal(column, k == 1, 2e-3);
        }
        assert_true(fabs(map.row[0] * u[3] + map.row[1] * u[4] + map.row[2]) < 5e-3);
        assert_true(fabs(map.column[0] * u[3] + map.column[1] * u[4] + map.column[2]) < 5e-3);
    }
    for (int k = 0; k < KINDS; k++) tensor_free(alone[k]);
    tensor_free(x), tensor_free(y);
}

static void noise_is_normal(void **state)
{
    enum { COUNT = 40, PIXELS = 400 };
    tensor x = tensor_new(SHAPE(COUNT, 1, 20, 20));
    tensor_fill(x, 3);
    tensor y = augmented(x, (augment){ .noise = 0.5, .seed = 3 }, 0);
    double sum = 0, squares = 0, beyond = 0, n = COUNT * PIXELS;
    for (ptrdiff_t k = 0; k < COUNT * PIXELS; k++) {
        double u = ((double)*element(y, k) - 3) / 0.5;
        sum += u, squares += u * u, beyond += fabs(u) > 2;
    }
    assert_true(fabs(sum / n) < 4.5 / sqrt(n));
    assert_true(fabs(squares / n - 1) < 4.5 * sqrt(2 / n));
    assert_true(fabs(beyond / n - 0.0455) < 4.5 * sqrt(0.0455 / n));
    assert_false(same(tensor_select(y, 0, 0), tensor_select(y, 0, 1)));
    tensor_free(x), tensor_free(y);
}

static void a_square_is_cut_out(void **state)
{
    enum { COUNT = 500, CUT = 3, H = 5, W = 6 };
    tensor x = tensor_new(SHAPE(COUNT, 2, H, W));
    tensor_fill(x, 1);
    tensor y = augmented(x, (augment){ .cutout = CUT, .seed = 4 }, 0);
    int seen[H - CUT + 1][W - CUT + 1] = { { 0 } };
    for (ptrdiff_t n = 0; n < COUNT; n++) {
        ptrdiff_t first = 0;
        while (*element(tensor_select(y, 0, n), first) != 0) first++;
        ptrdiff_t row = first / W, column = first % W;
        tensor expected = tensor_clone(tensor_select(x, 0, n));
        assert_true(row <= H - CUT && column <= W - CUT);
        tensor_fill(tensor_narrow(tensor_narrow(expected, 1, row, CUT), 2, column, CUT), 0);
        assert_same(tensor_select(y, 0, n), expected);
        seen[row][column]++;
        tensor_free(expected);
    }
    for (int i = 0; i <= H - CUT; i++)
        for (int j = 0; j <= W - CUT; j++) assert_in_range(seen[i][j], 15, 75); /* 42 expected */
    tensor_free(x), tensor_free(y);
}

/* ---- of what it is a function ---------------------------------------------------------------- */

static const augment everything = {
    .flip = 0.5, .shear = 10, .rotation = 20, .scale = 0.2, .shift = 3, .noise = 0.1, .cutout = 4, .seed = 9
};

static void seed_pass_and_number_decide(void **state)
{
    data *digits = digits_new(64, 1), *d = data_augment(digits, everything),
         *again = data_augment(digits, everything);
    augment other = everything;
    other.seed++;
    data *seeded = data_augment(digits, other);
    tensor first = tensor_new(SHAPE(64, 1, 28, 28)), x = tensor_new(first.shape), y = tensor_new(SHAPE(64));
    assert_int_equal(data_batch(d, NULL, 0, 64, first, y), 0);

    assert_int_equal(data_batch(again, NULL, 0, 64, x, y), 0);
    assert_true(same(x, first));
    assert_int_equal(data_batch(seeded, NULL, 0, 64, x, y), 0);
    assert_false(same(x, first));

    for (uint64_t pass = 1; pass <= UINT64_C(1) << 40; pass <<= 20) {
        about("pass %llu", (unsigned long long)pass);
        data_begin(d, pass);
        assert_int_equal(data_batch(d, NULL, 0, 64, x, y), 0);
        for (ptrdiff_t i = 0; i < 64; i++)
            assert_false(same(tensor_select(x, 0, i), tensor_select(first, 0, i)));
    }
    data_begin(d, 0);
    for (ptrdiff_t i = 63; i >= 0; i--) /* one at a time, from the end */
        assert_int_equal(data_batch(d, NULL, i, 1, tensor_narrow(x, 0, i, 1), tensor_narrow(y, 0, i, 1)), 0);
    assert_true(same(x, first));
    tensor_free(first), tensor_free(x), tensor_free(y);
    data_free(d), data_free(again), data_free(seeded), data_free(digits);
}

static void threads_do_not_matter(void **state)
{
    data *digits = digits_new(128, 1), *d = data_augment(digits, everything);
    assert_true(d->grain > 0 && d->grain <= 64); /* by several threads indeed */
    tensor one = tensor_new(SHAPE(128, 1, 28, 28)), x = tensor_new(one.shape), y = tensor_new(SHAPE(128));
    int before = parallel_threads();
    parallel_set_threads(1);
    assert_int_equal(data_batch(d, NULL, 0, 128, one, y), 0);
    for (int threads = 2; threads <= 5; threads++) {
        parallel_set_threads(threads);
        tensor_fill(x, (real)NAN);
        assert_int_equal(data_batch(d, NULL, 0, 128, x, y), 0);
        assert_true(same(x, one));
    }
    parallel_set_threads(before);
    tensor_free(one), tensor_free(x), tensor_free(y);
    data_free(d), data_free(digits);
}

static atomic_int workers; /* samples got by threads other than the first, which waits for one */
static bool awaits;

static void get_thread(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    (void)d;
    workers += in_a_worker();
    for (int k = 0; k < 1000 && awaits && workers == 0; k++)
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    tensor_fill(x, (real)in_a_worker());
    tensor_fill(y, (real)i);
}

/* By two threads only what allows it, and only where there is work enough. */
static void a_batch_is_fetched_by_threads(void **state)
{
    tensor x = tensor_new(SHAPE(16)), y = tensor_new(SHAPE(16));
    int before = parallel_threads();
    parallel_set_threads(2);
    for (ptrdiff_t grain = 0; grain <= 9; grain++) {
        about("grain %td", grain);
        data *d = data_new((data){ .count = 16, .get = get_thread, .grain = grain });
        awaits = grain > 0 && grain <= 8;
        workers = 0;
        assert_int_equal(data_batch(d, NULL, 0, 16, x, y), 0);
        assert_true(awaits == (workers > 0));
        for (ptrdiff_t i = 0; i < 16; i++) {
            assert_true(*element(x, i) == 0 || (awaits && *element(x, i) == 1));
            assert_true(*element(y, i) == (real)i);
        }
        data_free(d);
    }
    parallel_set_threads(before);
    tensor_free(x), tensor_free(y);
}

static void a_part_and_a_second_layer_hear_of_the_pass(void **state)
{
    data *digits = digits_new(20, 1), *d = data_augment(digits, everything), *part = data_slice(d, 5, 10),
         *twice = data_augment(part, (augment){ .shift = 1, .seed = 1 });
    tensor whole = tensor_new(SHAPE(20, 1, 28, 28)), x = tensor_new(SHAPE(10, 1, 28, 28)),
           y = tensor_new(SHAPE(20));
    data_begin(d, 6);
    assert_int_equal(data_batch(d, NULL, 0, 20, whole, y), 0);
    data_begin(d, 0);
    data_begin(twice, 6);
    assert_int_equal(data_batch(part, NULL, 0, 10, x, tensor_narrow(y, 0, 0, 10)), 0);
    assert_same(x, tensor_narrow(whole, 0, 5, 10));
    data_begin(digits, 1); /* which has nothing to hear */
    data_begin(NULL, 1);
    tensor_free(whole), tensor_free(x), tensor_free(y);
    data_free(twice), data_free(part), data_free(d), data_free(digits);
}

/* Two epochs in one run, and in two that follow each other, without a schedule: the same weights. And the second
 * epoch is not the first again. */
static void the_trainer_begins_a_pass_with_each_epoch(void **state)
{
    data *digits = digits_new(96, 1), *d = data_augment(digits, everything);
    tensor weights[3];
    for (int k = 0; k < 3; k++) {
        net *n = net_new(SHAPE(1, 28, 28), layer_flatten(), layer_dense((dense){ .out_features = 10 }));
        optim *o = optim_sgd((sgd){ .lr = 0.1 });
        train options = { .epochs = k == 0 ? 2 : 1, .batch = 32, .loss = loss_cross_entropy(0), .optim = o };
        options.keep_order = true;
        for (int run = 0; run < (k == 0 ? 1 : 2); run++) {
            if (k == 2 && run == 1) n->step = 0; /* not resumed: the first pass again */
            assert_int_equal(train_run(n, d, options, NULL), 0);
        }
        weights[k] = tensor_clone(net_parameters(n));
        net_free(n), optim_free(o);
    }
    assert_true(same(weights[0], weights[1]));
    assert_false(same(weights[0], weights[2]));
    for (int k = 0; k < 3; k++) tensor_free(weights[k]);
    data_free(d), data_free(digits);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void get_or_refuse(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    tensor_fill(x, 0);
    tensor_fill(y, 0);
    if (i % 7 == 6) error_set("number %td is missing", i);
}

/* Whichever thread meets it, the caller hears of the first, and no thread keeps one. */
static void the_first_sample_that_fails_is_named(void **state)
{
    data *bad = data_new((data){ .count = 64, .x = SHAPE(1, 4, 4), .get = get_or_refuse, .grain = 1 });
    data *d = data_augment(bad, (augment){ .shift = 1 });
    tensor x = tensor_new(SHAPE(64, 1, 4, 4)), y = tensor_new(SHAPE(64));
    for (int k = 0; k < 20; k++) {
        assert_int_equal(data_batch(d, NULL, 0, 64, x, y), -1);
        expect_error("sample 6: number 6 is missing");
        ptrdiff_t order[] = { 0, 1, 2, 3, 4, 41, 7, 13 };
        assert_int_equal(data_batch(d, order, 0, 8, tensor_narrow(x, 0, 0, 8), tensor_narrow(y, 0, 0, 8)),
                         -1);
        expect_error("sample 41: number 41 is missing");
        assert_int_equal(data_batch(d, NULL, 0, 6, tensor_narrow(x, 0, 0, 6), tensor_narrow(y, 0, 0, 6)), 0);
    }
    tensor_free(x), tensor_free(y);
    data_free(d), data_free(bad);
    assert_null(data_new((data){ .count = 1, .x = SHAPE(1), .get = get_or_refuse, .grain = -1 }));
    expect_error("data_new: grain is -1, expected at least 0");
}

typedef struct refusal {
    augment options;
    const char *text;
} refusal;

static void options_are_refused(void **state)
{
    const refusal refusals[] = {
        { { .flip = 1.5 },
          "data_augment: flip is 1.5, expected at least 0 and at most 1, of samples [1, 3, 4]" },
        { { .flip = -0.5 }, "flip is -0.5" },
        { { .shear = 90 }, "shear is 90, expected at least 0 and below 90" },
        { { .rotation = 181 }, "rotation is 181, expected at least 0 and at most 180" },
        { { .rotation = NAN }, "rotation is nan" },
        { { .rotation = -1 }, "rotation is -1" },
        { { .scale = 1 }, "scale is 1, expected at least 0 and below 1" },
        { { .scale = NAN }, "scale is nan" },
        { { .shift = 3.5 }, "shift is 3.5, expected at least 0 and at most 3" },
        { { .shift = INFINITY }, "shift is inf" },
        { { .noise = INFINITY }, "noise is inf" },
        { { .noise = -1 }, "noise is -1" },
        { { .cutout = 4 }, "cutout is 4, expected at least 0 and at most 3" },
        { { .cutout = -1 }, "cutout is -1" },
    };
    tensor x = tensor_new(SHAPE(2, 1, 3, 4)), flat = tensor_new(SHAPE(2, 12));
    sample_set s = set_of(x), of_rank_1 = set_of(flat);
    for (size_t k = 0; k < sizeof refusals / sizeof *refusals; k++) {
        about("%s", refusals[k].text);
        assert_null(data_augment(s.d, refusals[k].options));
        expect_error("%s", refusals[k].text);
    }
    data *most = data_augment(s.d, (augment){ .flip = 1, .rotation = 180, .shift = 3, .cutout = 3 });
    assert_non_null(most);
    data_free(most);
    assert_null(data_augment(of_rank_1.d, (augment){ 0 }));
    expect_error("data_augment: samples [12], expected [C, H, W]");
    assert_null(data_augment(NULL, (augment){ 0 }));
    expect_error("data_augment: the data set is NULL");
    free_set(s), free_set(of_rank_1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(a_map_is_sampled_as_defined),
        CLAIM(a_shift_by_whole_pixels_is_exact),
        CLAIM(quarter_turns_and_mirrors_are_exact),
        CLAIM(maps_are_refused),
        CLAIM(without_options_nothing_changes),
        CLAIM(flips_are_exact_and_as_frequent_as_asked),
        CLAIM(numbers_are_uniform_and_apart),
        CLAIM(the_order_is_as_promised),
        CLAIM(noise_is_normal),
        CLAIM(a_square_is_cut_out),
        CLAIM(seed_pass_and_number_decide),
        CLAIM(threads_do_not_matter),
        CLAIM(a_batch_is_fetched_by_threads),
        CLAIM(a_part_and_a_second_layer_hear_of_the_pass),
        CLAIM(the_trainer_begins_a_pass_with_each_epoch),
        CLAIM(the_first_sample_that_fails_is_named),
        CLAIM(options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
