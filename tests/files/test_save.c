/* test_save.c: what is saved loads bit for bit; what is damaged is refused; what fails changes nothing.
 *
 * Oracles: the bits that were saved, and files made by hand from the format's definition. Disks that fail are
 * in tests/faults. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* wait4 */
#include "tests/files.h"
#include "tests/layers/cases.h"

#include "layers/layers.h"
#include "nn/check/summary.h"
#include "nn/files/metadata.h"
#include "nn/files/safetensors.h"
#include "nn/files/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- files --------------------------------------------------------------------------------------- */

static int count_files(void)
{
    int count = 0;
    DIR *d = opendir(path_of("."));
    while (d && readdir(d)) count++;
    if (d) closedir(d);
    return count - 2; /* . and .. */
}

static void assert_same_file(const char *path, bytes expected)
{
    bytes b = contents(path);
    assert_int_equal(b.count, expected.count);
    assert_memory_equal(b.at, expected.at, b.count);
}

/* A file with this header, in which ' stands for " and ` for \", and so many bytes of data, zeros where data
 * is NULL. */
static void write_model(const char *path, const char *header, size_t size, const void *data)
{
    char text[1 << 14];
    size_t count = 8;
    for (const char *c = header; *c; c++) {
        assert_true(count + size + 2 < sizeof text);
        if (*c == '`') text[count++] = '\\';
        text[count++] = *c == '`' || *c == '\'' ? '"' : *c;
    }
    for (int i = 0; i < 8; i++) text[i] = (char)((count - 8) >> 8 * i);
    if (data) memcpy(text + count, data, size);
    else memset(text + count, 0, size);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, count + size, f), count + size);
    assert_int_equal(fclose(f), 0);
}

SETUP(enter_folder)

/* ---- a user's own types -------------------------------------------------------------------------- */

typedef struct curve {
    const char *name;
} curve;

static const curve curves[] = { { "halved" }, { "squared ≥ 0" } };

typedef struct blend {
    int count;
    int window[2];
    double weight;
    bool inverted;
    enum { MODE_NONE, MODE_ADD, MODE_DOUBLE } mode;
    const curve *curve;
} blend;

static int blend_plan(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    if (st_layer_parameter(l, "scale", ST_SHAPE(x.n[1]), (st_init){ .normal = 1 })) return -1;
    return st_layer_state(l, "mean", ST_SHAPE(2, x.n[1]), 0);
}

/* The parameter and the state have a part in y. */
static void blend_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    st_mul(y, st_expand(c->param[0], y.shape));
    st_add(y, 1, st_expand(st_select(c->layer->state[0], 0, 1), y.shape));
}

static void blend_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_copy(dx, dy);
}

static const char *const modes[] = { "none", "add", "double", NULL };

static void blend_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    st_fill(st_grad(c, 0), 0);
}

static const st_field blend_fields[] = {
    { "count", ST_FIELD_INT, offsetof(blend, count), .least = -10, .fallback = 3 },
    { "window", ST_FIELD_PAIR, offsetof(blend, window), .least = -10 },
    { "weight", ST_FIELD_REAL, offsetof(blend, weight), .least = -1e300, .fallback = 0.5 },
    { "inverted", ST_FIELD_BOOL, offsetof(blend, inverted) },
    { "mode", ST_FIELD_CHOICE, offsetof(blend, mode), .choices = modes },
    { "curve", ST_FIELD_NAMED, offsetof(blend, curve) },
    { 0 },
};

static const st_layer_type blend_type = {
    .name = "blend",
    .options_size = sizeof(blend),
    .fields = blend_fields,
    .plan = blend_plan,
    .forward = blend_forward,
    .backward = blend_backward,
    .gradient = blend_gradient,
};

static st_layer *layer_blend(blend options)
{
    return st_layer_new(&blend_type, &options, 0, NULL);
}

static const st_net_known known = {
    .types = (const st_layer_type *const[]){ &blend_type, &squares, &trained, &drawn, NULL },
    .named = (const void *const[]){ &curves[0], &curves[1], NULL },
};

/* ---- round trips --------------------------------------------------------------------------------- */

static st_net *sample(st_shape input, st_layer *l)
{
    st_net *n = st_net_new_of(input, 1, &l);
    if (!n || st_net_build(n, 4, 7)) fail_msg("%s", st_error());
    return n;
}

static st_tensor outputs(st_net *n)
{
    st_shape s = n->input, out = n->output;
    memmove(s.n + 1, s.n, sizeof(ptrdiff_t) * (size_t)s.rank++);
    memmove(out.n + 1, out.n, sizeof(ptrdiff_t) * (size_t)out.rank++);
    s.n[0] = out.n[0] = 3;
    st_tensor x = st_tensor_new(s), y = st_tensor_new(out);
    st_normal(x, (st_random_key){ 1, 2 }, 0, 1);
    assert_int_equal(st_net_predict(n, x, y), 0);
    st_tensor_free(x);
    return y;
}

static void assert_same_bits(st_tensor a, st_tensor b)
{
    assert_true(st_shape_equal(a.shape, b.shape));
    assert_int_equal(memcmp(st_data(a), st_data(b), (size_t)st_numel(a) * sizeof(st_real)), 0);
}

typedef struct list {
    const st_layer *layer[128];
    char path[128][ST_LAYER_PATH];
    int count;
} list;

static void add_layer(st_layer *l, const char *path, void *context)
{
    list *all = context;
    assert_true(all->count < 128);
    snprintf(all->path[all->count], ST_LAYER_PATH, "%s", path);
    all->layer[all->count++] = l;
}

static void assert_same_layer(const st_layer *a, const st_layer *b)
{
    static const size_t size[] = { sizeof(int),  2 * sizeof(int), sizeof(double),
                                   sizeof(bool), sizeof(int),     sizeof(void *) };
    assert_ptr_equal(a->type, b->type);
    for (const st_field *f = a->type->fields; f && f->name; f++)
        assert_memory_equal((const char *)a->options + f->offset, (const char *)b->options + f->offset,
                            size[f->kind]);
}

static void assert_same_net(st_net *a, st_net *b)
{
    list of_a = { .count = 0 }, of_b = { .count = 0 };
    st_layer_visit(a->root, add_layer, &of_a);
    st_layer_visit(b->root, add_layer, &of_b);
    assert_int_equal(of_a.count, of_b.count);
    for (int i = 0; i < of_a.count; i++) {
        assert_string_equal(of_a.path[i], of_b.path[i]);
        assert_same_layer(of_a.layer[i], of_b.layer[i]);
    }
    assert_true(st_shape_equal(a->input, b->input));
    assert_same_bits(st_net_parameters(a), st_net_parameters(b));
    assert_same_bits(st_net_states(a), st_net_states(b));
    auto_tensor y = outputs(a), z = outputs(b);
    assert_same_bits(y, z);
}

/* Saved, loaded, the same, and saved again to the same bytes; n is freed. */
static void comes_back(st_net *n)
{
    const char *path = path_of("net"), *again = path_of("again");
    if (st_net_save(n, path)) fail_msg("%s", st_error());
    auto_net *loaded =
        st_net_load(path, .batch = n->batch, .known = known); /* algorithms depend on the batch */
    if (!loaded) fail_msg("%s", st_error());
    assert_int_equal(loaded->batch, n->batch);
    assert_same_net(n, loaded);
    assert_int_equal(st_net_save(loaded, again), 0);
    assert_same_file(again, contents(path));
    assert_int_equal(count_files(), 2);
    st_net_free(n), unlink(path), unlink(again);
}

TEST(every_shipped_type_comes_back_with_all_its_options)
{
    for (const layer_case *c = layer_cases; c->name; c++)
        for (uint64_t seed = 0; seed < (sizeof(st_real) > sizeof(float) ? 2 : 5); seed++) {
            dice d = { { seed } };
            st_shape s;
            st_layer *l = c->roll(&d, &s);
            about("%s, %u", c->name, (unsigned)seed);
            st_net *n = sample(st_shape_without_batch(s), l);
            if (!st_is_null(st_net_states(n))) st_uniform(st_net_states(n), (st_random_key){ 3, 4 }, 0.5, 2);
            comes_back(n);
        }
    comes_back(sample(ST_SHAPE(3), st_elu(.alpha = 0.1 + 0.2))); /* which takes 17 digits */
    comes_back(sample((st_shape){ .rank = 0 }, st_tanh()));
    comes_back(sample(ST_SHAPE(97), st_dense(.out_features = 83))); /* more than a block is read at once */
}

TEST(a_type_of_ones_own_comes_back_with_its_states_at_any_depth)
{
    blend options[] = {
        { .count = -7,
          .window = { 0, -3 },
          .weight = -1e-300,
          .inverted = true,
          .mode = MODE_DOUBLE,
          .curve = &curves[1] },
        { .curve = &curves[0] },
        { .count = ST_ZERO_INT, .window = { 2, 0 }, .curve = &curves[0] }, /* not the default, 3 */
    };
    st_layer *deep = st_residual(st_concat(layer_blend(options[0])));
    for (int i = 0; i < 28; i++) deep = st_sequence(deep); /* as deep as may be */
    st_net *n = sample(ST_SHAPE(5), st_sequence(deep, layer_blend(options[1]), layer_blend(options[2])));
    st_normal(st_net_states(n), (st_random_key){ 3, 4 }, 0, 1);
    comes_back(n);
}

TEST(values_that_are_hard_to_write_come_back_bit_for_bit)
{
    const st_real hard[] = {
        (st_real)-0.0, (st_real)INFINITY, -(st_real)INFINITY, (st_real)NAN,       -(st_real)NAN,
        ST_REAL_MAX,   ST_REAL_EPSILON,   (st_real)0x1p-149,  (st_real)(1.0 / 3), -1
    };
    st_net *n = sample(ST_SHAPE(9), st_dense(.out_features = 1));
    memcpy(st_data(st_net_parameters(n)), hard, sizeof hard);
    st_net *loaded = st_net_save(n, path_of("net")) ? NULL : st_net_load(path_of("net"));
    assert_non_null(loaded);
    assert_same_bits(st_net_parameters(n), st_net_parameters(loaded));
    unlink(path_of("net")), st_net_free(loaded), st_net_free(n);
}

TEST(notes_come_back)
{
    static const char *const notes[][2] = {
        { "Umlaute in Schlüsseln", "日本語 🙂 \"quoted\" \\ and\na new line\t." },
        { "empty", "" },
        { "", "without a name" },
        { "architecture", "a name like any other" },
    };
    enum { NOTES = sizeof notes / sizeof *notes };
    auto_net *n = sample(ST_SHAPE(3), st_relu());
    for (int i = 0; i < NOTES; i++) assert_int_equal(st_net_set_metadata(n, notes[i][0], notes[i][1]), 0);
    assert_int_equal(st_net_save(n, path_of("net")), 0);
    auto_net *loaded = st_net_load(path_of("net"));
    assert_non_null(loaded);
    for (int i = 0; i < NOTES; i++) assert_string_equal(st_net_metadata(loaded, notes[i][0]), notes[i][1]);
    assert_null(loaded->metadata->next->next->next->next);
    unlink(path_of("net"));
}

/* ---- the format ---------------------------------------------------------------------------------- */

#define ARCHITECTURE                                                                                         \
    "{`input`:[2],`layers`:[{`type`:`dense`,`out_features`:1,`no_bias`:false,`init`:`default`}]}"
#define METADATA "'__metadata__':{'format':'stride','stride_version':'1','architecture':'" ARCHITECTURE "'}"
#define WEIGHT "'0.weight':{'dtype':'F32','shape':[1,2],'data_offsets':[0,8]}"
#define BIAS "'0.bias':{'dtype':'F32','shape':[1],'data_offsets':[8,12]}"
#define MODEL "{" METADATA "," WEIGHT "," BIAS "}"
#define MODEL_DOUBLE                                                                                         \
    "{" METADATA ",'0.weight':{'dtype':'F64','shape':[1,2],'data_offsets':[0,16]},'0.bias':{'dtype'"         \
    ":'F64','shape':[1],'data_offsets':[16,24]}}"

static st_net *small_net(void)
{
    return sample(ST_SHAPE(2), st_dense(.out_features = 1));
}

TEST(what_is_written_is_what_the_format_says)
{
    static const char floats[] = { 0, 0, -128, 63, 0, 0, 0, -64, 0, 0, 0, 63 };
    static const char doubles[] = { 0, 0, 0, 0,   0, 0, -16, 63, 0, 0, 0,   0,
                                    0, 0, 0, -64, 0, 0, 0,   0,  0, 0, -32, 63 };
    bool twice = sizeof(st_real) == 8;
    const char *path = path_of("net");
    char header[1024];
    size_t length = (size_t)snprintf(header, sizeof header, "%s", twice ? MODEL_DOUBLE : MODEL);
    for (const char *c = header; *c; c++) length += *c == '`';
    while (length++ % 8) strcat(header, " ");
    write_model(path, header, twice ? sizeof doubles : sizeof floats, twice ? doubles : floats);

    auto_net *n = small_net();
    const st_real values[] = { 1, -2, 0.5 };
    memcpy(st_data(st_net_parameters(n)), values, sizeof values);
    assert_int_equal(st_net_save(n, path_of("saved")), 0);
    assert_same_file(path_of("saved"), contents(path));
    unlink(path), unlink(path_of("saved"));
}

/* clang-format off */
static const struct dtype_case {
    const char *dtype;
    int size;
    unsigned long long bits[3];
    double expected[3];
} dtypes[] = {
    { "F64", 8, { 0x3fb999999999999a, 0x7ff8000000000001, 0xffefffffffffffff }, { 0.1, NAN, -DBL_MAX } },
    { "F64", 8, { 0x3ff0000010000000, 0x3ff0000030000000, 0x3690000000000001 },
      { 0x1.0000010000000p0, 0x1.0000030000000p0, 0x1.0000000000001p-150 } }, /* ties; half the least float */
    { "F32", 4, { 0x807fffff, 0x00000001, 0xff800000 }, { -0x1.fffffcp-127, 0x1p-149, -INFINITY } },
    { "F16", 2, { 0xfbff, 0x83ff, 0x7e00 }, { -65504, -1023 * 0x1p-24, NAN } },
    { "BF16", 2, { 0xff80, 0x7f7f, 0x0001 }, { -INFINITY, 0x1.fep127, 0x1p-133 } },
};
/* clang-format on */

TEST(every_float_of_other_programs_is_read)
{
    const char *path = path_of("net");
    auto_net *n = small_net();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const struct dtype_case *c = &dtypes[i];
        char header[256];
        unsigned char data[24];
        about("%s 0x%llx", c->dtype, c->bits[0]);
        snprintf(header, sizeof header,
                 "{'0.weight':{'data_offsets':[%d,%d],'shape':[1,2],'dtype':'%s'},\n"
                 " '0.bias':{'data_offsets':[0,%d],'shape':[1],'dtype':'%s'}}  ",
                 c->size, 3 * c->size, c->dtype, c->size, c->dtype);
        for (int k = 0; k < 3 * c->size; k++)
            data[k] = (unsigned char)(c->bits[k / c->size] >> 8 * (k % c->size));
        write_model(path, header, (size_t)(3 * c->size), data);
        if (st_net_load_tensors(n, path)) fail_msg("%s", st_error());
        for (int k = 0; k < 3; k++) {
            st_real value = st_data(st_net_parameters(n))[(k + 2) % 3], expected = (st_real)c->expected[k];
            assert_true((isnan(value) && isnan(expected)) || memcmp(&value, &expected, sizeof value) == 0);
        }
    }
    unlink(path);
}

/* ---- damaged files ------------------------------------------------------------------------------- */

/* The file above with `to` in place of `from`. The error says `expected`, after the path. */
typedef struct damage {
    const char *from, *to, *expected;
    size_t data; /* bytes; 0: the 12 that belong there */
} damage;

#define LAYER "{`type`:`dense`,`out_features`:1,`no_bias`:false,`init`:`default`}"
#define CONV(...) "{`type`:`conv2d`,`out_channels`:1,`kernel`:" __VA_ARGS__ "}"
#define SEQUENCE "{`type`:`sequence`,`layers`:["
#define TEN(x) x x x x x x x x x x

/* clang-format off */
static const damage damages[] = {
    /* metadata */
    { METADATA ",", "", "no architecture in the metadata" },
    { "'architecture'", "'agriculture'", "no architecture in the metadata" },
    { "'stride_version'", "'version'", "no architecture in the metadata" },
    { "'1'", "'2'", "stride_version 2" },
    /* tensors and the net */
    { "," BIAS, "", "tensor 0.bias: missing", 8 },
    { "," BIAS, "," BIAS ",'1.bias':{'dtype':'F32','shape':[1],'data_offsets':[12,16]}",
      "tensor 1.bias is not in the net", 16 },
    { "[1,2]", "[2,1]", "tensor 0.weight: F32 [2, 1]" },
    { "'F32','shape':[1],", "'I32','shape':[1],", "tensor 0.bias: I32" },
    { "," BIAS, "," BIAS ",'x':{'dtype':'BOOL','shape':[2],'data_offsets':[12,14]}",
      "tensor x is not in", 14 },
    { "'shape':[1],'data_offsets':[8,12]", "'shape':[],'data_offsets':[8,12]", "tensor 0.bias: F32 []" },
    /* the architecture */
    { ARCHITECTURE, "dense", "architecture" },
    { "]}'", "]}]'", "architecture" },
    { "`out_features`:1", "`out_features`:1,`out_features`:1", "out_features" },
    { "`input`:[2],", "", "layers" },
    { ",`layers`:[" LAYER "]", "", "input" },
    { "`input`:[2],", "`input`:[2],`output`:[1],", "output" },
    { "`type`:`dense`,", "`type`:`dense`,`type`:`relu`,", "type" },
    { "`dense`", "`\\\\ud800`", "architecture" },
    { "`no_bias`:false", "`no\\\\u005fbias`:7", "layer 0: dense: no_bias is 7" },
    { "`input`:[2]", "`input`:`2`", "input is \"2\"" },
    { "`input`:[2]", "`input`:[-2]", "input is [-2]" },
    { "`input`:[2]", "`input`:[2.5]", "input is [2.5]" },
    { "`input`:[2]", "`input`:[0]", "the input is [1, 0]" },
    { "`input`:[2]", "`input`:[1,1,1,1,1,1,1,2]", "rank 8" },
    { "`input`:[2]", "`input`:[9223372036854775807]", "more bytes than can be addressed" },
    { "[" LAYER "]", "{}", "layers is {}" },
    { "[" LAYER "]", "[]", "holds no layers" },
    { LAYER, "7", "layer 0: 7 has no type" },
    { "`type`:`dense`,", "", " has no type" },
    { "`dense`", "7", "layer 0: {\"type\":7," },
    { "`dense`", "`swirl`", "layer 0: type 'swirl' is not known" },
    { "`no_bias`", "`bias`", "layer 0: dense: option bias is not known" },
    { "`no_bias`", "`no\\\\nbias`", "dense: option no?bias is not known" },
    { "`dense`", "`den\\\\nse`", "type 'den?se' is not known" },
    { "'1'", "'1\\n'", "stride_version 1?" },
    { LAYER, "{`type`:`relu`,`slope`:1}", "layer 0: relu: option slope is not known" },
    { "`out_features`:1,", "", "layer 0: dense: out_features is 0" },
    { "`out_features`:1", "`out_features`:-1", "out_features is -1" },
    { "`out_features`:1", "`out_features`:2147483648",
      "out_features is 2147483648, expected a whole number of at most 2147483647" },
    { "`out_features`:1", "`out_features`:4294967297", "is 4294967297" },
    { "`out_features`:1", "`out_features`:1.0", "out_features is 1.0" },
    { "`out_features`:1", "`out_features`:`1`", "out_features is \"1\"" },
    { "false", "0", "no_bias is 0" },
    { LAYER, CONV("5"), "layer 0: conv2d: kernel is 5" },
    { LAYER, CONV("[5]"), "kernel is [5]" },
    { LAYER, CONV("[5,5,5]"), "kernel is [5,5,5]" },
    { LAYER, CONV("[5,`5`]"), "kernel is [5,\"5\"]" },
    { LAYER, CONV("[1,-2147483649]"), "expected two whole numbers" },
    { LAYER, CONV("[1,-1]"), "conv2d: kernel is -1" },
    { "[2],`layers`:[" LAYER "]", "[1,4,4],`layers`:[" CONV("[5,5]") "]",
      "layer 0: conv2d: kernel 5x5 does not fit" },
    { LAYER, "{`type`:`dropout`,`p`:`0.5`}", "layer 0: dropout: p is \"0.5\"" },
    { LAYER, "{`type`:`dropout`,`p`:1}", "dropout: p is 1" },
    { LAYER, "{`type`:`maxpool`,`pad_value`:`one`}", "maxpool: pad_value is \"one\"" },
    { LAYER, "{`type`:`maxpool`,`pad_value`:1}", "default zero lowest" },
    { LAYER, "{`type`:`blend`,`curve`:`top2`}", "layer 0: blend: curve is \"top2\"" },
    { LAYER, "{`type`:`blend`,`curve`:1}", "curve is 1" },
    { LAYER, "{`type`:`blend`}", "layer 0: blend: curve is missing" },
    { LAYER, LAYER ",{`type`:`sequence`,`layers`:[" LAYER ",{`type`:`swirl`}]}",
      "layer 1: layer 1: type 'swirl' is not known" },
    { LAYER, "{`type`:`sequence`,`layers`:[]}", "layer 0: sequence: holds no layers" },
    { LAYER, "{`type`:`sequence`}", "layer 0: sequence: holds no layers" },
    { LAYER, TEN(SEQUENCE SEQUENCE SEQUENCE) SEQUENCE SEQUENCE SEQUENCE LAYER "]}]}]}" TEN("]}]}]}"),
      "nested deeper than 32" },
};
/* clang-format on */

static void write_damage(const char *path, const damage *d)
{
    static const char model[] = MODEL;
    char header[1 << 13];
    const char *at = strstr(model, d->from);
    if (!at || strstr(at + 1, d->from)) fail_msg("%s is not there once", d->from);
    snprintf(header, sizeof header, "%.*s%s%s", (int)(at - model), model, d->to, at + strlen(d->from));
    write_model(path, header, d->data ? d->data : 12, NULL);
}

TEST(damaged_files_are_refused_with_the_reason)
{
    const char *path = path_of("net");
    auto_net *n = small_net();
    auto_tensor before = st_tensor_clone(st_net_parameters(n));
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        about("%s", damages[i].to);
        write_damage(path, &damages[i]);
        expect_refused(st_net_load(path, .known = known), path, damages[i].expected);
        if (strncmp(damages[i].expected, "tensor", 6) != 0) continue;
        expect_refused(st_net_load_tensors(n, path) == 0, path, damages[i].expected);
        assert_same_bits(st_net_parameters(n), before);
    }
    write_model(path, MODEL, 12, NULL);
    auto_net *loaded = st_net_load(path);
    assert_non_null(loaded); /* the damage is all that was wrong */
    assert_int_equal(loaded->batch, 64);
    unlink(path);
}

TEST(what_is_no_file_is_refused)
{
    const char *paths[] = { path_of("missing"), path_of("."), path_of("pipe") };
    assert_int_equal(mkfifo(paths[2], 0600), 0);
    for (int i = 0; i < 3; i++)
        expect_refused(st_net_load(paths[i]), paths[i], i ? ": not a regular file" : ": No such file");
    expect_failure(st_net_load(paths[0], .batch = -1), "st_net_load: a batch of -1, expected at least 1");
    expect_failure(st_net_load(NULL), "st_net_load: the path is NULL");
    expect_failure(st_net_load(paths[0], .known.max_memory = -1),
                   "max_memory is -1 bytes, expected at least 0");
    assert_int_equal(unlink(paths[2]), 0);
}

TEST(a_type_of_ones_own_is_refused_unless_it_is_handed_over)
{
    const char *path = path_of("net");
    auto_net *n = sample(ST_SHAPE(3), st_sequence(st_relu(), layer_blend((blend){ .curve = &curves[0] })));
    assert_int_equal(st_net_save(n, path), 0);
    expect_failure(st_net_load(path),
                   "%s: layer 0: layer 1: type 'blend' is not known: a program that has it gives it", path);
    expect_failure(st_net_load(path, .batch = 1, .known = { .types = known.types }),
                   "%s: layer 0: layer 1: blend: curve is \"halved\"", path);
    expect_failure(st_net_load(path, .batch = 1, .known = { .named = known.named }),
                   "type 'blend' is not known");
    unlink(path);
}

/* ---- saving that fails --------------------------------------------------------------------------- */

/* The old file stays, and nothing else. */
static void assert_save_fails(st_net *n, const char *path, const char *expected)
{
    int files = count_files();
    expect_refused(st_net_save(n, path) == 0, path, expected);
    assert_same_file(path, BYTES("old"));
    assert_int_equal(count_files(), files);
}

enum { MOST_NOTES = 1000, MOST_LAYERS = 1 << 14 };

TEST(a_net_that_could_not_be_read_back_is_not_saved)
{
    static const st_field type_fields[] = { { "type", ST_FIELD_INT, 0 }, { 0 } };
    static const st_field layers_fields[] = { { "layers", ST_FIELD_INT, 0 }, { 0 } };
    static const curve strange = { "\xff" };
    const struct {
        const char *name;
        const st_field *fields;
        const char *expected;
    } cases[] = {
        { "relu", NULL, "layer 0: relu: a type of the library has that name" },
        { "opaque", NULL, "layer 0: opaque: its type has options but no table" },
        { "typed", type_fields, "layer 0: typed: no option may be called type" },
        { "layered", layers_fields, "layer 0: layered: no option may be called type" },
    };
    const char *path = path_of("net");
    written("net", BYTES("old"));
    for (int i = 0; i < 4; i++) {
        st_layer *relu = st_relu();
        st_layer_type own = *relu->type; /* its hooks */
        own.name = cases[i].name, own.options_size = i ? 8 : 0, own.fields = cases[i].fields;
        auto_net *n = sample(ST_SHAPE(3), st_layer_new(&own, NULL, 0, NULL));
        assert_save_fails(n, path, cases[i].expected);
        st_layer_free(relu);
    }
    st_layer *deep = st_relu();
    for (int i = 0; i < 32; i++) deep = st_sequence(deep);
    assert_null(st_sequence(deep)); /* what cannot be saved cannot be made */
    expect_error("nested deeper than 32");

    st_net *n = sample(ST_SHAPE(3), layer_blend((blend){ .curve = &strange }));
    assert_save_fails(n, path, "layer 0: curve: no memory, or text that is not UTF-8");
    st_net_free(n);

    n = small_net();
    st_net_set_metadata(n, "latin", "caf\xe9");
    assert_save_fails(n, path, "metadata latin: no memory, or it is not UTF-8");
    st_net_free(n);

    n = small_net();
    for (int i = 0; i <= MOST_NOTES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d", i);
        st_net_set_metadata(n, name, "");
    }
    assert_save_fails(n, path, "more than 1000 notes");
    st_net_free(n);

    static st_layer *many[MOST_LAYERS + 1];
    for (int i = 0; i <= MOST_LAYERS; i++) many[i] = st_relu();
    n = st_net_new_of(ST_SHAPE(1), MOST_LAYERS + 1, many);
    assert_int_equal(st_net_build(n, 1, 1), 0);
    assert_save_fails(n, path, "16385 layers, expected at most 16384");
    st_net_free(n);

    n = st_net_new(ST_SHAPE(3), st_relu());
    assert_save_fails(n, path, "st_net_save before st_net_build");
    expect_failure(st_net_load_tensors(n, path), "st_net_load_tensors before st_net_build");
    st_net_free(n);
    unlink(path);
}

/* A file of no tensor, with an architecture of so many layers and so many notes. */
static void write_many(const char *path, int layers, int notes)
{
    static char text[(MOST_LAYERS + 2) * 32];
    char *at = text + sprintf(text, "{\"input\":[1],\"layers\":[");
    for (int i = 0; i < layers; i++) at += sprintf(at, "%s{\"type\":\"relu\"}", i ? "," : "");
    strcpy(at, "]}");
    json_t *metadata = json_pack("{s:s, s:s}", "stride_version", "1", "architecture", text);
    for (int i = 0; i < notes; i++) {
        char key[32];
        snprintf(key, sizeof key, "note.%d", i);
        json_object_set_new(metadata, key, json_string("text"));
    }
    assert_int_equal(safetensors_write(path, 0, NULL, metadata), 0);
    json_decref(metadata);
}

TEST(as_many_as_may_be_are_loaded)
{
    const char *path = path_of("net");
    write_many(path, MOST_LAYERS, MOST_NOTES);
    st_net *n = st_net_load(path);
    assert_non_null(n);
    assert_string_equal(st_net_metadata(n, "999"), "text");
    st_net_free(n);
    write_many(path, MOST_LAYERS + 1, 0);
    expect_failure(st_net_load(path), "16385 layers");
    write_many(path, 1, MOST_NOTES + 1);
    expect_failure(st_net_load(path), "net: more than 1000 notes");
    unlink(path);
}

TEST(two_tensors_of_one_name_are_not_written)
{
    auto_tensor x = st_tensor_new(ST_SHAPE(2));
    const safetensors_item twice[] = { { "a", x }, { "b", x }, { "a", x } }, strange[] = { { "\xfe", x } };
    json_t *metadata = json_object();
    expect_failure(safetensors_write(path_of("net"), 3, twice, metadata),
                   "net: tensor a: its name is used twice");
    expect_failure(safetensors_write(path_of("net"), 1, strange, metadata), "its name is not UTF-8");
    assert_int_equal(count_files(), 0);
    json_decref(metadata);
}

/* ---- transfer -------------------------------------------------------------------------------------- */

typedef struct told {
    char text[512];
} told;

static void tell(const char *name, st_net_match how, void *context)
{
    static const char *const words[] = { "read", "another", "missing", "left over" };
    told *t = context;
    size_t used = strlen(t->text);
    snprintf(t->text + used, sizeof t->text - used, "%s %s\n", name, words[how]);
}

TEST(tensors_that_match_are_read)
{
    const char *path = path_of("net");
    auto_net *from = st_net_new(ST_SHAPE(3), st_dense(.out_features = 4), st_relu(),
                                st_dense(.out_features = 2), st_batchnorm());
    auto_net *to = st_net_new(ST_SHAPE(3), st_dense(.out_features = 4), st_relu(),
                              st_dense(.out_features = 5, .no_bias = true), st_elu(.alpha = 1),
                              st_dense(.out_features = 1));
    assert_int_equal(st_net_build(from, 1, 1) | st_net_build(to, 1, 2), 0);
    st_fill(st_net_find(from, "0.bias"), 3);
    auto_tensor kept = st_tensor_clone(st_net_find(to, "2.weight"));
    assert_int_equal(st_net_save(from, path), 0);
    told t = { "" };
    assert_int_equal(st_net_load_matching(to, path, tell, &t), 2);
    assert_string_equal(t.text,
                        "0.weight read\n0.bias read\n2.weight another\n4.weight missing\n4.bias missing\n"
                        "2.bias left over\n3.bias left over\n3.running_mean left over\n"
                        "3.running_var left over\n3.weight left over\n");
    assert_same(st_net_find(to, "0.weight"), st_net_find(from, "0.weight"));
    assert_elements(st_net_find(to, "0.bias"), 3, 3, 3, 3);
    assert_same(st_net_find(to, "2.weight"), kept);
    assert_int_equal(st_net_load_matching(to, path, NULL, NULL), 2);

    expect_failure(st_net_load_matching(to, path_of("none"), NULL, NULL), "none: ");
    unlink(path);
}

/* A few bytes describe 64 GB: nothing of that may be asked for. */
TEST(what_takes_too_much_memory_is_refused)
{
    static char text[1 << 13];
    const char *path = path_of("net");
    char *at = text + sprintf(text, "{\"input\":[1,1,1],\"layers\":[");
    for (int i = 0; i < 40; i++)
        at += sprintf(at, "%s{\"type\":\"upsample\",\"scale\":[20000,20000]},{\"type\":\"avgpool\"}",
                      i ? "," : "");
    strcpy(at, "]}");
    json_t *metadata = json_pack("{s:s, s:s}", "stride_version", "1", "architecture", text);
    assert_int_equal(safetensors_write(path, 0, NULL, metadata), 0);
    json_decref(metadata);
    expect_failure(st_net_load(path), "max_memory");

    st_net *n = sample(ST_SHAPE(1000), st_dense(.out_features = 1000)), *loaded;
    st_net_known limited = { .max_memory = 8 << 20 };
    assert_int_equal(st_net_save(n, path), 0);
    expect_failure(
        st_net_load(path, .batch = 1, .known = { .max_memory = (ptrdiff_t)1000000 * sizeof(st_real) }),
        "expected at most");
    expect_failure(st_net_load(path, .batch = 100000, .known = limited), "a batch of 100000");
    limited.max_memory = 64 << 20;
    loaded = st_net_load(path, .batch = 1, .known = limited);
    assert_non_null(loaded);
    expect_failure(st_net_load(path, .batch = 1, .known = { .max_memory = -1 }), "-1 bytes");
    unlink(path), st_net_free(n), st_net_free(loaded);
}

/* The tensors that st_net_build allocates, one by one. */
TEST(the_memory_limit_is_what_the_net_takes)
{
    st_layer_needs needs;
    st_shape y;
    const st_shape x = ST_SHAPE(6, 2, 12, 12);
    st_net *n = sample(st_shape_without_batch(x),
                       st_sequence(st_conv2d(.out_channels = 4, .kernel = { 3 }), st_relu(),
                                   st_conv2d(.out_channels = 4, .kernel = { 3 }), st_tanh(), st_batchnorm()));
    assert_int_equal(st_net_save(n, path_of("net")), 0);
    assert_int_equal(st_layer_plan(n->root, x, &y) | st_layer_measure(n->root, &needs), 0);
    assert_true(needs.memory > 0);
    const ptrdiff_t scratch = needs.scratch * needs.threads,
                    elements = 2 * needs.parameters + needs.state + needs.memory + needs.partial +
                               needs.data + needs.tables + (scratch > needs.whole ? scratch : needs.whole) +
                               st_shape_numel(y, "y"),
                    most = elements * (ptrdiff_t)sizeof(st_real);
    for (int less = 0; less < 2; less++) {
        auto_net *loaded = st_net_load(path_of("net"), .batch = 6, .known = { .max_memory = most - less });
        assert_int_equal(loaded != NULL, !less);
        if (less) expect_error("max_memory");
    }
    unlink(path_of("net")), st_net_free(n);
}

/* The peak of a child's memory that reads a hostile file, in MiB. */
static long peak_of_refusing(const char *path)
{
    int status = -1;
    struct rusage used;
    pid_t child = fork();
    if (child == 0) _exit(st_net_load(path) || !strstr(st_error(), "missing"));
    assert_int_equal(wait4(child, &status, 0, &used), child);
    assert_int_equal(status, 0);
#ifdef __APPLE__
    return used.ru_maxrss >> 20;
#else
    return used.ru_maxrss >> 10;
#endif
}

/* Tables of algorithms, which would take gigabytes, are made after the file was checked. */
TEST(a_small_file_of_a_large_net_takes_little_memory)
{
    static const struct hostile {
        const char *input, *layer;
        int times;
    } nets[] = {
        { "2000000000", "{`type`:`dense`,`out_features`:1}", 1 },
        { "1,4096,4096", "{`type`:`conv2d`,`out_channels`:1,`kernel`:[1,1]}", 8 },
        { "1,1,1048576", "{`type`:`maxpool`,`kernel`:[1,3],`stride`:[1,1],`padding`:[0,1]}", 40 },
    };
    write_model(
        path_of("little"),
        "{'__metadata__':{'format':'stride','stride_version':'1','architecture':'{`input`:[2],`layers`:["
        "{`type`:`prelu`}]}'}}",
        0, NULL);
    const long least = peak_of_refusing(path_of("little"));
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        const struct hostile *h = &nets[i];
        char header[8000];
        int used =
            snprintf(header, sizeof header,
                     "{'__metadata__':{'format':'stride','stride_version':'1','architecture':'{`input`:[%s],"
                     "`layers`:[",
                     h->input);
        for (int k = 0; k < h->times; k++)
            used += snprintf(header + used, sizeof header - (size_t)used, "%s,", h->layer);
        snprintf(header + used, sizeof header - (size_t)used, "{`type`:`prelu`}]}'}}");
        write_model(path_of("hostile"), header, 0, NULL);
        const long peak = peak_of_refusing(path_of("hostile"));
        about("%s: %ld MiB, %ld without", h->input, peak, least);
        assert_true(peak < least + 64);
    }
    unlink(path_of("hostile")), unlink(path_of("little"));
}

static void assert_same_summary(st_net *a, st_net *b)
{
    bytes text[2];
    st_net *of[] = { a, b };
    for (int i = 0; i < 2; i++) {
        FILE *to = fopen(path_of("summary"), "w");
        assert_int_equal(st_net_summary(of[i], 7, to), 0);
        assert_int_equal(fclose(to), 0);
        text[i] = contents(path_of("summary"));
    }
    assert_int_equal(text[0].count, text[1].count);
    assert_memory_equal(text[0].at, text[1].at, text[0].count);
    unlink(path_of("summary"));
}

TEST(a_net_that_is_only_planned_has_its_summary_and_metadata)
{
    auto_net *n = small_net();
    assert_int_equal(st_net_set_metadata(n, "word", "text") | st_net_save(n, path_of("net")), 0);
    auto_net *planned = st_net_load(path_of("net"), .plan_only = true, .known = { .max_memory = 1 });
    assert_non_null(planned);
    assert_true(planned->batch == 0 && st_is_null(st_net_parameters(planned)));
    assert_string_equal(st_net_metadata(planned, "word"), "text");
    assert_same_summary(n, planned);
    assert_int_equal(st_net_build(planned, 2, 3), 0);
    unlink(path_of("net"));
}

/* PyTorch's batch normalisation counts batches, which matters only where it has no momentum. */
TEST(a_count_of_batches_is_passed_over)
{
    auto_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 1));
    auto_tensor w = st_tensor_new(ST_SHAPE(1, 2)), b = st_tensor_new(ST_SHAPE(1)),
                count = st_tensor_new((st_shape){ 0 });
    const safetensors_item theirs[] = { { "0.weight", w },
                                        { "0.bias", b },
                                        { "1.num_batches_tracked", count } },
                           odd[] = { theirs[0], theirs[1], { "num_batches_tracked", count } };
    json_t *metadata = json_object();
    assert_int_equal(st_net_build(n, 1, 1), 0);
    st_fill(w, 3);
    assert_int_equal(safetensors_write(path_of("theirs"), 3, theirs, metadata), 0);
    assert_int_equal(st_net_described(path_of("theirs")), 0);
    assert_int_equal(st_net_load_tensors(n, path_of("theirs")), 0);
    assert_elements(st_net_find(n, "0.weight"), 3, 3);
    assert_int_equal(safetensors_write(path_of("theirs"), 3, odd, metadata), 0);
    expect_failure(st_net_load_tensors(n, path_of("theirs")), "tensor num_batches_tracked is not in the net");
    assert_int_equal(st_net_save(n, path_of("theirs")), 0);
    assert_int_equal(st_net_described(path_of("theirs")), 1);
    unlink(path_of("theirs")), json_decref(metadata);
    expect_failure(st_net_described(path_of("theirs")), "theirs: No such file");
    expect_failure(st_net_described(NULL), "st_net_described: the path is NULL");
    expect_failure(st_net_save(n, ""), "\"\": cannot be written: No such file");
    expect_failure(st_net_described(""), "\"\": No such file");
}

/* ---- the file that is written -------------------------------------------------------------------- */

/* Writers of one file at once remove nothing of each other's. */
TEST(writers_of_one_file_do_not_disturb_each_other)
{
    enum { WRITERS = 4, TIMES = 50 };
    const char *path = path_of("net");
    auto_net *n = small_net();
    pid_t child[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        if ((child[i] = fork()) == 0) {
            int status = 0;
            for (int k = 0; k < TIMES && status == 0; k++) status = st_net_save(n, path);
            if (status) fprintf(stderr, "%s\n", st_error());
            _exit(status != 0);
        }
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_files(), 1);
    auto_net *loaded = st_net_load(path);
    assert_non_null(loaded);
    unlink(path);
}

/* ---- a layer of its JSON ------------------------------------------------------------------------- */

TEST(a_layer_is_made_of_its_json)
{
    static const char *const right[][2] = {
        { "{\"type\": \"relu\"}", "relu" },
        { "{\"type\": \"conv2d\", \"out_channels\": 6, \"kernel\": [5, 3], \"no_bias\": true}",
          "conv2d(out_channels=6, kernel=5x3, no_bias)" },
        { "{\"type\": \"leaky_relu\"}", "leaky_relu" },
        { "{\"type\": \"leaky_relu\", \"slope\": 0}", "leaky_relu(slope=0)" },
        { "{\"type\": \"maxpool\", \"kernel\": [3, 0], \"stride\": [1, 0], \"pad_value\": \"lowest\"}",
          "maxpool(kernel=3x0, stride=1x0, pad_value=lowest)" },
        { "{\"type\": \"sequence\", \"layers\": [{\"type\": \"relu\"}, {\"type\": \"tanh\"}]}", "sequence" },
    };
    static const char *const wrong[][2] = {
        { "", "layer: " },
        { "[]", "[] has no type" },
        { "{}", "{} has no type" },
        { "{\"type\": \"swirl\"}", "type 'swirl' is not known" },
        { "{\"type\": \"relu\"} x", "layer: end of file expected" },
        { "{\"type\": \"relu\", \"type\": \"tanh\"}", "duplicate object key" },
        { "{\"type\": \"conv2d\", \"out_channels\": 6, \"kernel\": [5, 5], \"stride\": [0, 1]}",
          "conv2d: stride is 0, expected at least 1" },
        { "{\"type\": \"conv2d\", \"out_channels\": 6, \"kernel\": [0, 0]}", "conv2d: kernel is 0" },
        { "{\"type\": \"dropout\", \"p\": \"0.5\"}", "dropout: p is \"0.5\", expected a number" },
        { "{\"type\": \"sequence\", \"layers\": [{\"type\": \"swirl\"}]}", "layer 0: type 'swirl'" },
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        char text[200];
        about("%s", right[i][0]);
        auto_layer *l = st_layer_from_json(right[i][0], (st_net_known){ 0 });
        assert_non_null(l);
        st_layer_describe(l, text, sizeof text);
        assert_string_equal(text, right[i][1]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        about("%s", wrong[i][0]);
        expect_failure(st_layer_from_json(wrong[i][0], (st_net_known){ 0 }), "%s", wrong[i][1]);
    }
    expect_failure(st_layer_from_json(NULL, (st_net_known){ 0 }), "the text is NULL");
}
