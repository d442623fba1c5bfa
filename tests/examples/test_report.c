/* test_report.c: logs read back exactly, layers' times leave the net alone, pages and curves say what the run
 * did. */
#define _XOPEN_SOURCE 700
#include "tests/files.h"
#include "tests/support.h"

#include "examples/stride/page.h"
#include "examples/stride/report.h"
#include "examples/stride/scores.h"
#include "examples/stride/text.h"
#include <stride.h>
#include "tests/each_epoch.h"
#include "tests/log_lines.h"

#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- files ------------------------------------------------------------------------------------- */

SETUP(enter_folder)

static char *text_of(const char *path)
{
    bytes b = contents(path);
    char *text = calloc(1, b.count + 1);
    assert_non_null(text);
    return memcpy(text, b.at, b.count);
}

static int files_in(const char *folder)
{
    DIR *d = opendir(folder);
    int count = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

/* ---- a run ------------------------------------------------------------------------------------- */

typedef struct run {
    st_net *n;
    st_dataset *training, *validation;
    history history;
    st_loss loss;
} run;

/* clang-format off */
static st_net *small_net(void)
{
    return st_net_new(ST_SHAPE(1, 28, 28),
        st_conv2d(.out_channels = 4, .kernel = { 5, 5 }, .stride = { 3, 3 }),
        st_batchnorm(),
        st_residual(st_sequence(
            st_conv2d(.out_channels = 4, .kernel = { 3, 3 }, .padding = { 1, 1 }),
            st_relu())),
        st_maxpool(.kernel = { 2, 2 }),
        st_flatten(),
        st_dropout(.p = 0.2),
        st_dense(.out_features = 10));
}
/* clang-format on */

static run train_digits(int epochs)
{
    run r = { .n = small_net(),
              .training = st_digits(100, 1),
              .validation = st_digits(70, 2),
              .loss = st_cross_entropy() };
    st_optim *o = st_adam(.lr = 0.01);
    assert_int_equal(st_train(r.n, r.training, .loss = r.loss, .optim = o, .epochs = epochs, .batch = 20,
                              .validation = r.validation,
                              .callbacks = { each_epoch(history_keep, &r.history) }),
                     0);
    st_optim_free(o);
    return r;
}

static void run_free(run *r)
{
    st_net_free(r->n), st_dataset_free(r->training), st_dataset_free(r->validation),
        history_free(&r->history);
}

/* ---- layers' times ----------------------------------------------------------------------------- */

static void take_type(st_layer *l, const char *path, void *context)
{
    const st_layer_type ***next = context;
    *(*next)++ = l->type;
}

TEST(what_is_measured_goes_on_as_before)
{
    run r = train_digits(1);
    const st_layer_type *types[16] = { 0 }, *after[16] = { 0 }, **next = types;
    st_layer_visit(r.n->root, take_type, &next);
    st_tensor parameters = st_tensor_clone(st_net_parameters(r.n)),
              states = st_tensor_clone(st_net_states(r.n));

    layer_times t;
    assert_int_equal(layer_times_measure(&t, r.n, r.training, r.loss, 3), 0);
    next = after;
    st_layer_visit(r.n->root, take_type, &next);
    assert_memory_equal(types, after, sizeof types);
    assert_same(st_net_parameters(r.n), parameters);
    assert_same(st_net_states(r.n), states);

    assert_int_equal(t.count, 11);
    assert_true(t.batch == 20);
    assert_true(t.forward > 0 && t.backward > 0);
    for (int i = 0; i < t.count; i++) {
        about("layer %d", i);
        bool holds = t.layer[i].of->children > 0;
        assert_int_equal(t.layer[i].forward > 0, !holds);
        assert_int_equal(t.layer[i].backward > 0, !holds);
    }
    layer_times_free(&t), st_tensor_free(parameters), st_tensor_free(states), run_free(&r);
}

static void wait(double seconds)
{
    struct timespec t = { 0, (long)(1e9 * seconds) };
    nanosleep(&t, NULL);
}
static int plan_same(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return 0;
}
static void wait_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    wait(0.002);
}
static void wait_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_copy(dx, dy);
    wait(0.004);
}

/* Two waiting layers between others: of one image after another, and of the whole batch, which keeps all
 * threads. */
TEST(times_are_those_of_the_layers)
{
    static const st_layer_type waits = {
        .name = "waits", .chunk = 4, .plan = plan_same, .forward = wait_forward, .backward = wait_backward
    };
    static st_layer_type all_wait;
    all_wait = waits, all_wait.chunk = ST_WHOLE_BATCH;
    st_net *n = st_net_new(ST_SHAPE(12), st_dense(.out_features = 4), st_layer_new(&waits, NULL, 0, NULL),
                           st_layer_new(&all_wait, NULL, 0, NULL), st_dense(.out_features = 3));
    assert_int_equal(st_net_build(n, 4, 1), 0);
    st_tensor x = st_tensor_new(ST_SHAPE(4, 12)), y = st_tensor_new(ST_SHAPE(4));
    st_dataset *d = st_dataset_tensors(x, y);
    layer_times t;
    st_layer_needs needs;
    assert_int_equal(layer_times_measure(&t, n, d, st_cross_entropy(), 3), 0);
    assert_int_equal(st_layer_measure(n->root, &needs), 0);
    assert_int_equal(t.count, 5);
    assert_true(t.forward >= 0.004 && t.backward >= 0.008);
    for (int i = 2; i <= 3; i++) {
        double threads = i == 2 ? 1 : needs.threads;
        assert_true(t.layer[i].of == n->root->child[i - 1]);
        assert_true(t.layer[i].forward >= 0.002 * threads);
        assert_true(t.layer[i].backward >= 0.004 * threads);
    }
    assert_true(t.layer[1].forward < t.layer[2].forward);
    layer_times_free(&t), st_dataset_free(d), st_net_free(n), st_tensor_free(x), st_tensor_free(y);
}

/* ---- scores ------------------------------------------------------------------------------------ */

/* Oracle: the same, one sample at a time. */
TEST(scores_are_what_single_predictions_say)
{
    run r = train_digits(2);
    scores f;
    assert_int_equal(scores_measure(&f, r.n, r.validation, r.loss, NULL), 0);
    ptrdiff_t confusion[10][10] = { { 0 } }, wrong = 0;
    st_tensor x = st_tensor_new(ST_SHAPE(1, 1, 28, 28)), y = st_tensor_new(ST_SHAPE(1)),
              out = st_tensor_new(ST_SHAPE(1, 10));
    double sure[70];
    int truth[70], predicted[70];
    for (int i = 0; i < 70; i++) {
        assert_int_equal(st_dataset_batch(r.validation, NULL, i, 1, x, y), 0);
        assert_int_equal(st_net_predict(r.n, x, out), 0);
        int best = 0;
        double sum = 0;
        for (int k = 1; k < 10; k++)
            if (*st_at(out, ST_INDEX(0, k)) > *st_at(out, ST_INDEX(0, best))) best = k;
        for (int k = 0; k < 10; k++) sum += exp((double)*st_at(out, ST_INDEX(0, k)));
        truth[i] = (int)st_item(y), predicted[i] = best;
        sure[i] = exp((double)*st_at(out, ST_INDEX(0, best))) / sum;
        confusion[truth[i]][best]++;
        wrong += best != truth[i];
    }
    assert_true(wrong > 0);
    assert_int_equal(f.count, 70);
    assert_int_equal(f.classes, 10);
    assert_true(fabs(f.accuracy - (double)(70 - wrong) / 70) < 1e-12);
    for (int k = 0; k < 10; k++)
        for (int j = 0; j < 10; j++) assert_int_equal(scores_at(&f, k, j), confusion[k][j]);
    assert_int_equal(f.mistakes, wrong < MOST_MISTAKES ? wrong : MOST_MISTAKES);
    int surer = 0; /* of all mistakes, than the last one that is shown */
    for (int i = 0; i < f.mistakes; i++) {
        const mistake *m = &f.mistake[i];
        assert_int_equal(m->truth, truth[m->sample]);
        assert_int_equal(m->predicted, predicted[m->sample]);
        assert_true(m->truth != m->predicted);
        assert_true(fabs(m->confidence - sure[m->sample]) < 1e-5);
        if (i > 0) assert_true(m->confidence <= f.mistake[i - 1].confidence);
        assert_int_equal(st_dataset_batch(r.validation, NULL, m->sample, 1, x, y), 0);
        assert_same(m->x, st_select(x, 0, 0));
    }
    for (int i = 0; i < 70; i++)
        surer += truth[i] != predicted[i] && sure[i] > f.mistake[f.mistakes - 1].confidence + 1e-5;
    assert_true(surer < f.mistakes);
    st_metrics score;
    assert_int_equal(st_evaluate(r.n, r.validation, r.loss, &score), 0);
    assert_true(fabs(score.loss - f.loss) < 1e-9 && fabs(score.accuracy - f.accuracy) < 1e-12);
    st_tensor_free(x), st_tensor_free(y), st_tensor_free(out), scores_free(&f), run_free(&r);
}

/* Two of 3 samples of class 0 are found, one of class 2 is taken for 0, and class 1 has none. F1 is the
 * harmonic mean of both. */
TEST(precision_and_recall_are_fractions)
{
    ptrdiff_t confusion[] = { 2, 1, 0, 0, 0, 0, 1, 0, 0 };
    scores f = { .classes = 3, .confusion = confusion };
    assert_true(scores_of(&f, 0).recall == 2.0 / 3);
    assert_true(isnan(scores_of(&f, 1).recall));
    assert_true(scores_of(&f, 2).recall == 0);
    assert_true(scores_of(&f, 0).precision == 2.0 / 3);
    assert_true(scores_of(&f, 1).precision == 0);
    assert_true(isnan(scores_of(&f, 2).precision));
    assert_true(scores_of(&f, 1).f1 == 0 && scores_of(&f, 2).f1 == 0);
    ptrdiff_t unequal[] = { 3, 3, 0, 2, 0, 0, 0, 0, 0 };
    f.confusion = unequal;
    const class_scores c = scores_of(&f, 0);
    assert_true(c.samples == 6 && c.precision == 3.0 / 5 && c.recall == 3.0 / 6 && c.f1 == 6.0 / 11);
    assert_true(isnan(scores_of(&f, 2).f1));
}

/* ---- pictures ---------------------------------------------------------------------------------- */

/* The bytes that base64 stands for; the text is freed of its padding by its length. */
static ptrdiff_t decode(const char *text, unsigned char *to)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ptrdiff_t count = 0;
    unsigned bits = 0, have = 0;
    assert_int_equal(strlen(text) % 4, 0);
    for (; *text && *text != '='; text++) {
        const char *found = strchr(digit, *text);
        assert_non_null(found);
        bits = bits << 6 | (unsigned)(found - digit), have += 6;
        if (have >= 8) have -= 8, to[count++] = (unsigned char)(bits >> have);
    }
    assert_true(strlen(text) <= 2 && have < 6 && (bits & ((1u << have) - 1)) == 0);
    return count;
}

/* `size` receives width, height and channels. */
static void pixels_of(st_tensor image, double low, double high, unsigned char *to, int size[3])
{
    json_t *shown = page_image(image, low, high);
    const char *pixels = NULL;
    assert_int_equal(json_unpack(shown, "{s:i, s:i, s:i, s:s !}", "width", &size[0], "height", &size[1],
                                 "channels", &size[2], "pixels", &pixels),
                     0);
    assert_int_equal(decode(pixels, to), size[0] * size[1] * size[2]);
    json_decref(shown);
}

TEST(pictures_have_the_pixels_of_the_image)
{
    static const struct {
        st_shape shape;
        double values[6], low, high;
        int size[3];
        unsigned char pixels[6];
    } cases[] = {
        { { 3, { 1, 2, 3 } }, { 0, 0.2, 1, -3, 7, NAN }, 0, 1, { 3, 2, 1 }, { 0, 51, 255, 0, 255, 0 } },
        { { 3, { 3, 1, 2 } }, { 0, 1, -1, 0, 1, -1 }, -1, 1, { 2, 1, 3 }, { 128, 0, 255, 255, 128, 0 } },
        { { 3, { 2, 1, 2 } },
          { 0, 1, 1, 1 },
          0,
          1,
          { 2, 1, 1 },
          { 128, 255 } }, /* the mean of two channels */
        { { 3, { 1, 1, 1 } }, { 1 }, 0, 1, { 1, 1, 1 }, { 255 } },
        { { 3, { 1, 2, 2 } }, { 1, 0, 0.6, 0.4 }, 0, 1, { 2, 2, 1 }, { 255, 0, 153, 102 } },
    };
    unsigned char pixels[64];
    int size[3];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_tensor x =
            tensor_of_list(cases[i].shape, (int)st_shape_numel(cases[i].shape, ""), cases[i].values);
        pixels_of(x, cases[i].low, cases[i].high, pixels, size);
        assert_memory_equal(size, cases[i].size, sizeof size);
        assert_memory_equal(pixels, cases[i].pixels, (size_t)(size[0] * size[1] * size[2]));
    }
    auto_tensor vector = tensor_of(ST_SHAPE(3), 1, 2, 3);
    json_t *none = page_image(vector, 0, 1);
    assert_true(json_is_null(none));
    json_decref(none);
}

TEST(large_images_become_the_means_of_blocks)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(1, 100, 193)); /* blocks of 3 x 3, cut at the edges */
    unsigned char pixels[65 * 34];
    int size[3];
    for (ptrdiff_t i = 0; i < 100; i++)
        for (ptrdiff_t j = 0; j < 193; j++) *st_at(x, ST_INDEX(0, i, j)) = (st_real)((j / 3) % 2);
    *st_at(x, ST_INDEX(0, 99, 192)) = (st_real)0.2;
    pixels_of(x, 0, 1, pixels, size);
    assert_true(size[0] == 65 && size[1] == 34 && size[2] == 1);
    assert_true(pixels[0] == 0 && pixels[1] == 255 && pixels[64 + 65 * 33] == 51);
}

/* ---- text -------------------------------------------------------------------------------------- */

TEST(text_of_others_cannot_move_the_cursor)
{
    char *clean = text_clean("a\033[2Jb\nc\x7f\xc2\x9b\xff\xe2\x82\xac\xc0\x80");
    assert_string_equal(clean, "a\\x1b[2Jb\\x0ac\\x7f\\xc2\\x9b\\xff\xe2\x82\xac\\xc0\\x80");
    free(clean);
    clean = text_clean("\u061b\u061c\u061d \u200d\u200e\u200f\u2010 \u2027\u2028\u202a\u202e\u202f "
                       "\u2065\u2066\u2069\u206a");
    assert_string_equal(clean, "\u061b\\xd8\\x9c\u061d \u200d\\xe2\\x80\\x8e\\xe2\\x80\\x8f\u2010 "
                               "\u2027\\xe2\\x80\\xa8\\xe2\\x80\\xaa\\xe2\\x80\\xae\u202f "
                               "\u2065\\xe2\\x81\\xa6\\xe2\\x81\\xa9\u206a");
    free(clean);
}

/* Bytes that are not UTF-8, and controls, become U+FFFD. */
TEST(any_bytes_are_text_of_a_page)
{
    static const char *const cases[][2] = {
        { "", "" },
        { "<a href=\"x\">&'b\xc3\xa4\n\t", "<a href=\"x\">&'b\xc3\xa4\n\t" },
        { "\x01\xff\xc3\xed\xa0\x80",
          "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xe2\x82\xac\xf0\x9f\x99\x82", "\xe2\x82\xac\xf0\x9f\x99\x82" },
        { "a\u202eb\u2028", "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                            "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        about("%s", cases[i][0]);
        json_t *text = page_text(cases[i][0]);
        assert_string_equal(json_string_value(text), cases[i][1]);
        json_decref(text);
    }
}

/* ---- the page ---------------------------------------------------------------------------------- */

/* The JSON in a page, in which no byte could end its element; the rest of the page is the same for all. */
static json_t *data_of(const char *path, char **around)
{
    static const char begin[] = "<script type=\"application/json\" id=\"data\">\n", end[] = "\n</script>\n";
    char *page = text_of(path), *at = strstr(page, begin), *after;
    assert_non_null(at);
    at += sizeof begin - 1;
    after = strstr(at, end);
    assert_non_null(after);
    *after++ = '\0';
    assert_null(strchr(at, '<'));
    json_error_t error;
    json_t *data = json_loads(at, JSON_REJECT_DUPLICATES, &error);
    if (!data) fail_msg("%s", error.text);
    if (around) {
        memmove(at, after, strlen(after) + 1);
        *around = page;
    } else free(page);
    return data;
}

static void assert_number(const json_t *value, double expected)
{
    if (isnan(expected)) assert_true(json_is_null(value));
    else assert_true(fabs(json_number_value(value) - expected) <= 1e-8 * fabs(expected));
}

static void assert_epochs(const json_t *shown_run, const st_train_report *e, int count)
{
    assert_int_equal(json_array_size(json_object_get(shown_run, "epochs")), count);
    for (int i = 0; i < count; i++) {
        const json_t *row = json_array_get(json_object_get(shown_run, "epochs"), (size_t)i);
        const double expected[] = { e[i].epoch,           e[i].training.loss,       e[i].training.accuracy,
                                    e[i].validation.loss, e[i].validation.accuracy, e[i].lr,
                                    e[i].seconds };
        assert_int_equal(json_array_size(row), 7);
        for (size_t k = 0; k < 7; k++) assert_number(json_array_get(row, k), expected[k]);
    }
}

static ptrdiff_t whole(const json_t *object, const char *name)
{
    assert_true(json_is_integer(json_object_get(object, name)));
    return (ptrdiff_t)json_integer_value(json_object_get(object, name));
}

static const char *string(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static void assert_scores(const json_t *found, const scores *f, const char *const classes[])
{
    const json_t *row;
    size_t i;
    ptrdiff_t cells = 0;
    assert_int_equal(whole(found, "samples"), f->count);
    assert_number(json_object_get(found, "accuracy"), f->accuracy);
    assert_number(json_object_get(found, "loss"), f->loss);
    json_array_foreach(json_object_get(found, "classes"), i, row)
    {
        const class_scores c = scores_of(f, (ptrdiff_t)i);
        assert_string_equal(string(row, "name"), classes[i]);
        assert_int_equal(whole(row, "samples"), c.samples);
        assert_number(json_object_get(row, "precision"), c.precision);
        assert_number(json_object_get(row, "recall"), c.recall);
    }
    assert_int_equal(i, f->classes);
    json_array_foreach(json_object_get(found, "confusion"), i, row)
    {
        const ptrdiff_t truth = (ptrdiff_t)json_integer_value(json_array_get(row, 0)),
                        predicted = (ptrdiff_t)json_integer_value(json_array_get(row, 1)),
                        count = (ptrdiff_t)json_integer_value(json_array_get(row, 2));
        assert_true(count > 0);
        assert_int_equal(count, scores_at(f, truth, predicted));
        cells += count;
    }
    assert_int_equal(cells, f->count); /* and so all that are not 0 */
}

TEST(a_page_holds_the_run)
{
    run r = train_digits(3);
    layer_times times;
    scores f;
    static const char *const classes[] = { "zero", "</script>", "two", "3", "4", "5", "6", "7", "8", "\xff" };
    static const char *const shown[] = { "zero", "</script>", "two", "3", "4",
                                         "5",    "6",         "7",   "8", "\xef\xbf\xbd" };
    static const report_fact facts[] = { { "seed", "7" }, { "<b>", "a & b" }, { 0 } };
    assert_int_equal(layer_times_measure(&times, r.n, r.training, r.loss, 1), 0);
    assert_int_equal(scores_measure(&f, r.n, r.validation, r.loss, NULL), 0);
    const char *path = path_of("page/run.html");
    mkdir(path_of("page"), 0777);
    assert_int_equal(report_write(path, &(report){ .title = "<Run>",
                                                   .network = "conv & more",
                                                   .facts = facts,
                                                   .epochs = r.history.epochs,
                                                   .count = r.history.count,
                                                   .net = r.n,
                                                   .loss = r.loss,
                                                   .validation = r.validation,
                                                   .classes = classes,
                                                   .times = &times }),
                     0);
    assert_int_equal(files_in(path_of("page")), 1);
    char *around, *empty;
    json_t *page = data_of(path, &around), *row,
           *fact = json_loads("[[\"seed\", \"7\"], [\"<b>\", \"a & b\"]]", 0, NULL);
    size_t i;
    const char *name = strstr(around, "://"); /* of SVG, and no other */
    assert_true(name && strncmp(name, "://www.w3.org/2000/svg\"", 23) == 0 && !strstr(name + 1, "://"));
    assert_string_equal(string(page, "title"), "<Run>");
    assert_string_equal(string(page, "network"), "conv & more");
    assert_true(json_equal(json_object_get(page, "facts"), fact));
    json_decref(fact);

    const json_t *shown_run = json_array_get(json_object_get(page, "runs"), 0);
    int best = 0;
    for (int k = 0; k < r.history.count; k++)
        if (r.history.epochs[k].best) best = r.history.epochs[k].epoch;
    assert_int_equal(json_array_size(json_object_get(page, "runs")), 1);
    assert_epochs(shown_run, r.history.epochs, 3);
    assert_int_equal(whole(shown_run, "best"), best);
    assert_int_equal(whole(shown_run, "of"), 3);

    assert_scores(json_object_get(page, "scores"), &f, shown);
    assert_int_equal(json_array_size(json_object_get(page, "mistakes")), f.mistakes);
    json_array_foreach(json_object_get(page, "mistakes"), i, row)
    {
        const mistake *m = &f.mistake[i];
        assert_int_equal(whole(row, "sample"), m->sample);
        assert_int_equal(whole(row, "truth"), m->truth);
        assert_int_equal(whole(row, "predicted"), m->predicted);
        assert_number(json_object_get(row, "confidence"), m->confidence);
        assert_int_equal(whole(json_object_get(row, "image"), "width"), 28);
    }
    assert_int_equal(json_array_size(json_object_get(json_object_get(page, "filters"), "images")), 4);

    double parameters = 0, forward = 0;
    json_array_foreach(json_object_get(page, "layers"), i, row)
    {
        parameters += json_number_value(json_object_get(row, "parameters"));
        forward += json_number_value(json_object_get(row, "forward"));
    }
    double expected = 0;
    for (int k = 0; k < times.count; k++) expected += times.layer[k].forward;
    assert_int_equal(i, 10);
    assert_true(parameters == (double)st_numel(st_net_parameters(r.n)));
    assert_true(fabs(forward - expected) < 1e-6 * expected);
    json_decref(page), scores_free(&f), layer_times_free(&times), run_free(&r);

    assert_int_equal(report_write(path, &(report){ 0 }), 0);
    json_decref(data_of(path, &empty));
    assert_string_equal(around, empty);
    free(around), free(empty);
}

/* A long run's page shows every k-th epoch, and the best and the last one. */
TEST(a_page_of_a_long_run_is_bounded)
{
    enum { COUNT = 12001 };
    static st_train_report epochs[COUNT];
    for (int i = 0; i < COUNT; i++)
        epochs[i] = (st_train_report){
            .epoch = i + 1, .training = { 1, NAN }, .validation = { i == 7 ? 0 : 1, NAN }, .best = i == 7
        };
    const char *path = path_of("long.html");
    assert_int_equal(report_write(path, &(report){ .epochs = epochs, .count = COUNT }), 0);
    json_t *page = data_of(path, NULL);
    const json_t *shown_run = json_array_get(json_object_get(page, "runs"), 0),
                 *shown = json_object_get(shown_run, "epochs");
    const size_t count = json_array_size(shown);
    assert_int_equal(whole(shown_run, "every"), 3);
    assert_int_equal(whole(shown_run, "count"), COUNT);
    assert_int_equal(count, 4001 + 1);
    assert_int_equal(json_integer_value(json_array_get(json_array_get(shown, 3), 0)), 8);
    assert_int_equal(json_integer_value(json_array_get(json_array_get(shown, count - 1), 0)), COUNT);
    json_decref(page);
}

TEST(a_page_that_cannot_be_written_leaves_the_old_one)
{
    mkdir(path_of("old"), 0777);
    const char *path = written("old/run.html", BYTES("old"));
    expect_failure(report_write(path_of("old"), &(report){ 0 }), "%s: not a regular file", path_of("old"));
    auto_net *n = small_net();
    auto_tensor x = st_tensor_new(ST_SHAPE(2, 3)), y = st_tensor_new(ST_SHAPE(2));
    auto_dataset *d = st_dataset_tensors(x, y);
    assert_int_equal(st_net_build(n, 4, 1), 0);
    expect_failure(report_write(path, &(report){ .net = n, .validation = d, .loss = st_cross_entropy() }),
                   "the samples are [3], the net takes [1, 28, 28]");
    char *text = text_of(path);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(report_write(path, &(report){ .title = "new" }), 0);
    json_t *page = data_of(path, NULL);
    assert_string_equal(string(page, "title"), "new");
    json_decref(page);
    assert_int_equal(files_in(path_of("old")), 1);
}

/* Epochs before the one that is named, to the bit, but for what a log does not hold. */
TEST(a_log_is_recalled)
{
    static const char *const names[] = { "recalled.csv", "recalled.jsonl" };
    const st_train_report epochs[] = {
        { .epoch = 1,
          .step = 10,
          .lr = 0.1,
          .training = { 1.0 / 3, 0.5 },
          .validation = { 2, NAN },
          .best = true },
        { .epoch = 2, .step = 20, .lr = 1e-300, .training = { DBL_MAX, NAN }, .validation = { NAN, NAN } },
        { .epoch = 3, .step = 30, .lr = 0, .training = { 0, 1 }, .validation = { -0.1, 1 }, .best = true },
    };
    for (int i = 0; i < 2; i++) {
        log_lines l;
        assert_int_equal(log_begin(&l, path_of(names[i]), false), 0);
        for (int k = 0; k < 3; k++) assert_int_equal(log_report(&l, &epochs[k]), 0);
        assert_int_equal(log_end(&l), 0);
        for (int before = 1; before <= 5; before++) {
            history h = { 0 };
            assert_int_equal(log_recall(path_of(names[i]), before, &h), 0);
            assert_int_equal(h.count, before <= 3 ? before - 1 : 3);
            for (int k = 0; k < h.count; k++) {
                const st_train_report *r = &h.epochs[k], *e = &epochs[k];
                const double found[] = { r->lr, r->training.loss, r->training.accuracy, r->validation.loss,
                                         r->validation.accuracy },
                             expected[] = { e->lr, e->training.loss, e->training.accuracy, e->validation.loss,
                                            e->validation.accuracy };
                assert_int_equal(r->epoch, e->epoch);
                assert_int_equal(r->step, e->step);
                assert_int_equal(r->best, e->best);
                assert_true(isnan(r->seconds));
                for (int v = 0; v < 5; v++)
                    assert_true(isnan(expected[v]) ? isnan(found[v]) : found[v] == expected[v]);
            }
            history_free(&h);
        }
    }
    history h = { 0 };
    expect_failure(log_recall(path_of("none.csv"), 2, &h), "none.csv: No such file");
    for (int i = 0; i < 2; i++) { /* without an end */
        const char *path = path_of(names[i]);
        assert_int_equal(truncate(path, 0) | truncate(path, (off_t)1 << 40), 0);
        expect_failure(log_recall(path, 2, &h), "line 1 is not of a log");
        unlink(path);
    }
}

/* A log that never ends is given up. */
TEST(reading_a_log_has_an_end)
{
    for (int lines = 1000001; lines <= 1000002; lines++) {
        const char *path = path_of("endless.csv");
        history h = { 0 };
        FILE *to = fopen(path, "w");
        assert_non_null(to);
        for (int i = 0; i < lines; i++) fputs(i == 0 ? "epoch,\n" : "0\n", to);
        fclose(to);
        if (lines > 1000001) expect_failure(log_recall(path, 2, &h), "has more than 1000001 lines");
        else assert_int_equal(log_recall(path, 2, &h), 0);
        history_free(&h);
        unlink(path);
    }
}
