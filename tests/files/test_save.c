/* test_save.c: what is saved loads bit for bit; what is damaged is refused; what fails changes nothing.
 *
 * Oracles: the bits that were saved, files made by hand from the format's definition, and a disk that
 * fails where the test says. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* flock */
#include "tests/support.h"

#include "layers/layers.h"
#include "nn/files/safetensors.h"
#include "nn/files/save.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- files --------------------------------------------------------------------------------------- */

static char folder[512];

static int make_folder(void **state)
{
    (void)state;
    const char *given = getenv("STRIDE_TEST_TMP");
    snprintf(folder, sizeof folder, "%s/save-XXXXXX", given ? given : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int count_files(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d)) count++;
    if (d) closedir(d);
    return count - 2; /* . and .. */
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* each test removes its files: one that is left is one too many */
}

/* Of the last four that were asked for. */
static const char *in_folder(const char *name)
{
    static char path[4][640];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

typedef struct bytes {
    unsigned char at[1 << 14];
    size_t size;
} bytes;

static bytes read_file(const char *path)
{
    bytes b = { .size = 0 };
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (int c; (c = getc(f)) != EOF;) {
        assert_true(b.size < sizeof b.at);
        b.at[b.size++] = (unsigned char)c;
    }
    fclose(f);
    return b;
}

static void write_file(const char *path, const void *at, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(at, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void assert_same_file(const char *path, const bytes *expected)
{
    bytes b = read_file(path);
    assert_int_equal(b.size, expected->size);
    assert_memory_equal(b.at, expected->at, b.size);
}

/* A file with this header, in which ' stands for " and ` for \", and so many bytes of data. */
static void write_model(const char *path, const char *header, size_t data)
{
    bytes b = { .size = 8 };
    for (const char *c = header; *c; c++) {
        assert_true(b.size + data + 2 < sizeof b.at);
        if (*c == '`') b.at[b.size++] = '\\';
        b.at[b.size++] = *c == '`' || *c == '\'' ? '"' : (unsigned char)*c;
    }
    for (int i = 0; i < 8; i++) b.at[i] = (unsigned char)((b.size - 8) >> 8 * i);
    for (size_t i = 0; i < data; i++) b.at[b.size++] = 0;
    write_file(path, b.at, b.size);
}

/* ---- a disk that fails --------------------------------------------------------------------------- */

/* These stand in for the C library's, and fail when the test says so. */
static int reads_before_failure = -1;
static bool fsync_fails, rename_fails;

size_t fread(void *to, size_t size, size_t count, FILE *stream)
{
    if (reads_before_failure == 0) {
        errno = EIO;
        return 0;
    }
    if (reads_before_failure > 0) reads_before_failure--;
    unsigned char *at = to;
    for (size_t i = 0; i < size * count; i++) {
        int c = getc(stream);
        if (c == EOF) return i / size;
        at[i] = (unsigned char)c;
    }
    return count;
}

/* What happened to the disk, in order: the file, then its name, then the folder. */
static char events[8];
static off_t synced; /* bytes of the file when it was */

static void note_event(const char *event)
{
    strncat(events, event, sizeof events - 1 - strlen(events));
}

int fsync(int descriptor)
{
    struct stat status;
    errno = EIO;
    if (fsync_fails || fstat(descriptor, &status)) return -1;
    note_event(S_ISDIR(status.st_mode) ? "d" : "f");
    if (S_ISREG(status.st_mode)) synced = status.st_size;
    return 0;
}

int rename(const char *from, const char *to)
{
    errno = EIO;
    if (rename_fails) return -1;
    note_event("r");
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* ---- a user's own types -------------------------------------------------------------------------- */

typedef struct curve {
    const char *name;
    st_real (*f)(st_real x);
} curve;

static st_real halved(st_real x)
{
    return x / 2;
}

static st_real squared(st_real x)
{
    return x * x;
}

static const curve curves[] = { { "halved", halved }, { "squared ≥ 0", squared } };

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

/* Every option, the parameter and the state have a part in y. */
static void blend_forward(const st_call *c, st_tensor x, st_tensor y)
{
    const blend *o = c->options;
    st_copy(y, x);
    st_add(y, -1, st_expand(st_select(c->layer->state[0], 0, 1), y.shape));
    st_mul(y, st_expand(c->param[0], y.shape));
    st_scale(y, (st_real)(o->weight * o->count + o->window[0] * 3 + o->window[1]) * (o->inverted ? -1 : 1));
    for (ptrdiff_t i = 0; i < st_numel(y); i++) {
        st_real *at = st_data(y) + i;
        *at = o->curve->f(*at) + (st_real)o->mode;
    }
}

static void blend_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    (void)c, (void)x, (void)y;
    st_copy(dx, dy);
}

static const char *const modes[] = { "none", "add", "double", NULL };

static void blend_gradient(const st_call *c, st_tensor x, st_tensor y, st_tensor dy)
{
    (void)x, (void)y, (void)dy;
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

static int wrap_plan(st_layer *l, st_shape x, st_shape *y)
{
    if (l->children != 1) return st_layer_refuse(l, "holds %d layers, expected 1", l->children);
    return st_layer_plan(l->child[0], x, y);
}

static void wrap_forward(const st_call *c, st_tensor x, st_tensor y)
{
    st_layer_forward(c->layer->child[0], x, y);
}

static void wrap_backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    st_layer_backward(c->layer->child[0], x, y, dy, dx);
}

static const char *const wrap_names[] = { "body", NULL };

static const st_layer_type wrap_type = {
    .name = "wrap",
    .plan = wrap_plan,
    .forward = wrap_forward,
    .backward = wrap_backward,
    .child_names = wrap_names,
    .children = ST_LAYER_ANY,
};

static st_layer *wrap(st_layer *l)
{
    return st_layer_new(&wrap_type, NULL, 1, &l);
}

static st_real first_of(const st_real *window, ptrdiff_t n, const void *context)
{
    (void)n, (void)context;
    return window[0];
}

static const st_pool_function first = { .name = "first", .value = first_of };
static const st_net_known known = {
    .types = (const st_layer_type *const[]){ &blend_type, &wrap_type, NULL },
    .named = (const void *const[]){ &first, &curves[0], &curves[1], NULL },
};
static const st_net_known nothing;

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
    st_tensor y = outputs(a), z = outputs(b);
    assert_same_bits(y, z);
    st_tensor_free(y);
    st_tensor_free(z);
}

/* Saved, loaded, the same, and saved again to the same bytes; n is freed. */
static void comes_back(st_net *n)
{
    const char *path = in_folder("net"), *again = in_folder("again");
    if (st_net_save(n, path)) fail_msg("%s", st_error());
    st_net *loaded = st_net_load(path, 2, known);
    if (!loaded) fail_msg("%s", st_error());
    assert_int_equal(loaded->batch, 2);
    assert_same_net(n, loaded);
    assert_int_equal(st_net_save(loaded, again), 0);
    bytes expected = read_file(path);
    assert_same_file(again, &expected);
    st_net_free(n);
    st_net_free(loaded);
    assert_int_equal(count_files(), 2);
    unlink(path);
    unlink(again);
}

static st_layer *conv(void)
{
    return st_conv2d(.out_channels = 4, .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 2 },
                     .dilation = { 1, 2 }, .groups = 2, .no_bias = true);
}

static st_layer *conv_plain(void)
{
    return st_conv2d(.out_channels = 3, .kernel = { 1, 5 });
}

static st_layer *transposed(void)
{
    return st_conv_transpose2d(.out_channels = 4, .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 2 },
                               .output_padding = { 1, 0 }, .dilation = { 1, 2 }, .groups = 2,
                               .no_bias = true);
}

static st_layer *max(void)
{
    return st_maxpool({ 3, 2 }, { 2, 3 }, { 1, 1 }, { 1, 2 }, true, ST_PAD_ZERO);
}

static st_layer *max_global(void)
{
    return st_maxpool({ 0 });
}

static st_layer *average(void)
{
    return st_avgpool({ 2, 3 }, { 3, 2 }, { 0, 1 }, { 2, 1 }, true, true);
}

static st_layer *lp(void)
{
    return st_lppool({ 2, 3 }, { 3, 2 }, { 0, 1 }, { 2, 1 }, true, 1.5);
}

static st_layer *adaptive(void)
{
    return st_adaptive_avgpool({ 4, 3 });
}

static st_layer *pooled(void)
{
    return st_pool(&first, { 2, 3 }, { 1, 2 }, { 1, 2 }, { 1, 1 }, true, ST_PAD_LOWEST);
}

static st_layer *leaky(void)
{
    return st_leaky_relu(.slope = 0.1);
}

static st_layer *elu(void)
{
    return st_elu(.alpha = 0.1 + 0.2); /* 0.30000000000000004: it takes 17 digits */
}

static st_layer *gelus(void)
{
    return st_sequence(st_gelu(), st_gelu(.approximate = ST_GELU_TANH));
}

static st_layer *hardtanh(void)
{
    return st_hardtanh(.min_val = ST_ZERO, .max_val = 5.5);
}

static st_layer *prelus(void)
{
    return st_sequence(st_prelu(.init = -0.3), st_prelu(.num_parameters = 2));
}

static st_layer *dropout(void)
{
    return st_dropout(.p = 0.3);
}

static st_layer *channel_dropout(void)
{
    return st_channel_dropout(.p = 0.7);
}

static st_layer *batch_norms(void)
{
    return st_sequence(st_batchnorm(.epsilon = 1e-3, .momentum = 0.3), st_batchnorm(.no_affine = true));
}

static st_layer *layer_norms(void)
{
    return st_sequence(st_layernorm(.axes = 2, .epsilon = 1e-3), st_layernorm(.no_affine = true));
}

static st_layer *group_norms(void)
{
    return st_sequence(st_groupnorm(.groups = 2, .epsilon = 1e-3),
                       st_groupnorm(.groups = 1, .no_affine = true));
}

static st_layer *softmaxes(void)
{
    return st_sequence(st_softmax(.axis = 3), st_log_softmax(.axis = 2));
}

static st_layer *pads(void)
{
    return st_sequence(st_pad2d(.height = { 1, 2 }, .width = { 0, 3 }, .value = -0.1),
                       st_pad2d(.height = { 2, 0 }, .mode = ST_PAD_REFLECT));
}

static st_layer *upsamples(void)
{
    return st_sequence(st_upsample({ 2, 1 }, ST_UPSAMPLE_BILINEAR, true), st_upsample(.scale = { 1, 3 }));
}

static st_layer *same_size(void)
{
    return st_conv2d(.out_channels = 2, .kernel = { 3, 3 }, .padding = { 1, 1 });
}

static st_layer *residual(void)
{
    return st_residual(st_sequence(same_size(), st_batchnorm(), st_relu()));
}

static st_layer *projected(void)
{
    return st_residual_projected(conv_plain(), conv_plain());
}

static st_layer *branches(void)
{
    return st_concat(same_size(), st_identity(), residual());
}

static st_layer *dense_flat(void)
{
    return st_sequence(st_flatten(), st_dense(.out_features = 3, .no_bias = true),
                       st_dense(.out_features = 2));
}

static st_layer *nested(void)
{
    return st_sequence(st_sequence(conv_plain(), st_sequence(st_relu())), st_flatten(),
                       st_sequence(st_sequence(st_dense(.out_features = 2))));
}

static st_layer *(*const makers[])(void) = {
    conv,      conv_plain, transposed,      max,         max_global,  average,        lp,
    adaptive,  pooled,     batch_norms,     layer_norms, group_norms, st_relu,        st_relu6,
    leaky,     elu,        st_selu,         gelus,       hardtanh,    prelus,         st_silu,
    st_mish,   st_sigmoid, st_tanh,         st_softplus, st_softsign, st_hardsigmoid, st_hardswish,
    softmaxes, dropout,    channel_dropout, pads,        upsamples,   st_flatten,     st_identity,
    residual,  projected,  branches,        dense_flat,  nested,
};
enum { MAKERS = sizeof makers / sizeof *makers };

static void every_shipped_type_comes_back_with_all_its_options(void **state)
{
    (void)state;
    list all = { .count = 0 };
    st_layer *each[MAKERS];
    for (int i = 0; i < MAKERS; i++) {
        st_net *n = sample(ST_SHAPE(2, 9, 8), makers[i]());
        about("%s", n->root->child[0]->type->name);
        if (!st_is_null(st_net_states(n))) st_uniform(st_net_states(n), (st_random_key){ 3, 4 }, 0.5, 2);
        comes_back(n);
    }
    for (int i = 0; i < MAKERS; i++) st_layer_visit(each[i] = makers[i](), add_layer, &all);
    for (const st_layer_type *const *type = st_layer_types; *type; type++) {
        int i = 0;
        while (i < all.count && all.layer[i]->type != *type) i++;
        if (i == all.count) fail_msg("there is no case of %s above", (*type)->name);
    }
    for (int i = 0; i < MAKERS; i++) st_layer_free(each[i]);
}

static void a_type_of_ones_own_comes_back_with_its_states_and_children(void **state)
{
    (void)state;
    blend options[] = {
        { .count = -7,
          .window = { 0, -3 },
          .weight = -1e-300,
          .inverted = true,
          .mode = MODE_DOUBLE,
          .curve = &curves[1] },
        { .curve = &curves[0] },
    };
    st_net *n =
        sample(ST_SHAPE(5), st_sequence(wrap(wrap(layer_blend(options[0]))), layer_blend(options[1])));
    st_normal(st_net_states(n), (st_random_key){ 3, 4 }, 0, 1);
    assert_false(st_is_null(st_net_find(n, "0.0.body.body.mean")));
    comes_back(n);
}

static void values_that_are_hard_to_write_come_back_bit_for_bit(void **state)
{
    (void)state;
    const st_real hard[] = {
        (st_real)-0.0, (st_real)INFINITY, -(st_real)INFINITY, (st_real)NAN,       -(st_real)NAN,
        ST_REAL_MAX,   ST_REAL_EPSILON,   (st_real)0x1p-149,  (st_real)(1.0 / 3), -1
    };
    st_net *n = sample(ST_SHAPE(9), st_dense(.out_features = 1));
    memcpy(st_data(st_net_parameters(n)), hard, sizeof hard);
    st_net *loaded = st_net_save(n, in_folder("net")) ? NULL : st_net_load(in_folder("net"), 1, nothing);
    assert_non_null(loaded);
    assert_same_bits(st_net_parameters(n), st_net_parameters(loaded));
    unlink(in_folder("net"));
    st_net_free(loaded);
    st_net_free(n);
}

static void a_net_without_parameters_comes_back(void **state)
{
    (void)state;
    comes_back(sample(ST_SHAPE(3), st_relu()));
    comes_back(sample((st_shape){ .rank = 0 }, st_tanh()));
}

static void a_tensor_longer_than_a_block_comes_back(void **state)
{
    (void)state;
    st_net *n = sample(ST_SHAPE(97), st_dense(.out_features = 83)), *other;
    assert_int_equal(st_net_save(n, in_folder("net")), 0);
    assert_non_null(other = st_net_load(in_folder("net"), 1, nothing));
    assert_same_bits(st_net_parameters(n), st_net_parameters(other));
    unlink(in_folder("net"));
    st_net_free(n);
    st_net_free(other);
}

static void notes_come_back(void **state)
{
    (void)state;
    static const char *const notes[][2] = {
        { "normalised", "mean 0.1307 ± 0.3081" },
        { "Umlaute in Schlüsseln", "日本語 🙂 \"quoted\" \\ and\na new line\t." },
        { "empty", "" },
        { "", "of no name" },
        { "architecture", "is a name as any other" },
    };
    enum { NOTES = sizeof notes / sizeof *notes };
    st_net *n = sample(ST_SHAPE(3), st_relu());
    for (int i = 0; i < NOTES; i++) assert_int_equal(st_net_set_metadata(n, notes[i][0], notes[i][1]), 0);
    assert_int_equal(st_net_save(n, in_folder("net")), 0);
    st_net *loaded = st_net_load(in_folder("net"), 1, nothing);
    assert_non_null(loaded);
    int count = 0;
    for (const st_metadata *note = loaded->notes; note; note = note->next) count++;
    assert_int_equal(count, NOTES);
    for (int i = 0; i < NOTES; i++) assert_string_equal(st_net_metadata(loaded, notes[i][0]), notes[i][1]);
    unlink(in_folder("net"));
    st_net_free(loaded);
    st_net_free(n);
}

/* ---- the format ---------------------------------------------------------------------------------- */

#define ARCHITECTURE "{`input`:[2],`layers`:[{`type`:`dense`,`out_features`:1,`no_bias`:false}]}"
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

static void what_is_written_is_what_the_format_says(void **state)
{
    (void)state;
    static const unsigned char floats[] = { 0, 0, 128, 63, 0, 0, 0, 192, 0, 0, 0, 63 };
    static const unsigned char doubles[] = { 0, 0, 0, 0,   0, 0, 240, 63, 0, 0, 0,   0,
                                             0, 0, 0, 192, 0, 0, 0,   0,  0, 0, 224, 63 };
    bool twice = sizeof(st_real) == 8;
    const char *path = in_folder("net");
    write_model(path, twice ? MODEL_DOUBLE : MODEL, 0);
    bytes expected = read_file(path);
    while (expected.size % 8) expected.at[expected.size++] = ' ';
    for (int i = 0; i < 2; i++) expected.at[i] = (unsigned char)((expected.size - 8) >> 8 * i);
    size_t size = twice ? sizeof doubles : sizeof floats;
    memcpy(expected.at + expected.size, twice ? doubles : floats, size);
    expected.size += size;

    st_net *n = small_net();
    const st_real values[] = { 1, -2, 0.5 };
    memcpy(st_data(st_net_parameters(n)), values, sizeof values);
    assert_int_equal(st_net_save(n, path), 0);
    assert_same_file(path, &expected);
    unlink(path);
    st_net_free(n);
}

typedef struct dtype_case {
    const char *dtype;
    int size;
    unsigned long long bits[3];
    double expected[3];
} dtype_case;

static const dtype_case dtypes[] = {
    { "F64", 8, { 0x3fb999999999999a, 0xc000000000000000, 0x7ff0000000000000 }, { 0.1, -2, INFINITY } },
    { "F64", 8, { 0x7ff8000000000001, 0x8000000000000000, 1 }, { NAN, -0.0, 0x1p-1074 } },
    /* about half a least float */
    { "F64",
      8,
      { 0x3690000000000001, 0x3690000000000000, 0xb7f8000000000000 },
      { 0x1.0000000000001p-150, 0x1p-150, -0x1.8p-128 } },
    /* ties, and next to one */
    { "F64",
      8,
      { 0x3ff0000010000000, 0x3ff0000030000000, 0x47efffffefffffff },
      { 0x1.0000010000000p0, 0x1.0000030000000p0, 0x1.fffffefffffffp127 } },
    /* beyond floats: infinite */
    { "F64",
      8,
      { 0x47effffff0000000, 0xffefffffffffffff, 0x4340000000000001 },
      { 0x1.ffffffp127, -DBL_MAX, 9007199254740994 } },
    { "F32", 4, { 0x007fffff, 0x807fffff, 0x7f7fffff }, { 0x1.fffffcp-127, -0x1.fffffcp-127, FLT_MAX } },
    { "F32", 4, { 0x3dcccccd, 0x00000001, 0xff800000 }, { 0x1.99999ap-4, 0x1p-149, -INFINITY } },
    { "F32", 4, { 0x7fc00000, 0x80000000, 0x4b7fffff }, { NAN, -0.0, 16777215 } },
    { "F16", 2, { 0x3c00, 0x0001, 0x7bff }, { 1, 0x1p-24, 65504 } },
    { "F16", 2, { 0xfc00, 0x7e00, 0x8000 }, { -INFINITY, NAN, -0.0 } },
    { "F16", 2, { 0x0400, 0x83ff, 0x3555 }, { 0x1p-14, -1023 * 0x1p-24, 0x1.554p-2 } },
    { "F16", 2, { 0x7c00, 0xfbff, 0x03ff }, { INFINITY, -65504, 1023 * 0x1p-24 } },
    { "BF16", 2, { 0xff80, 0x7f7f, 0x807f }, { -INFINITY, 0x1.fep127, -127 * 0x1p-133 } },
    { "BF16", 2, { 0x3f80, 0xc049, 0x0001 }, { 1, -3.140625, 0x1p-133 } },
    { "BF16", 2, { 0x7f80, 0xffc0, 0x8000 }, { INFINITY, NAN, -0.0 } },
};

static void every_float_of_other_programs_is_read(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    st_net *n = small_net();
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const dtype_case *c = &dtypes[i];
        char header[256];
        about("%s 0x%llx", c->dtype, c->bits[0]);
        snprintf(header, sizeof header,
                 "{'0.weight':{'data_offsets':[%d,%d],'shape':[1,2],'dtype':'%s'},\n"
                 " '0.bias':{'data_offsets':[0,%d],'shape':[1],'dtype':'%s'}}  ",
                 c->size, 3 * c->size, c->dtype, c->size, c->dtype);
        write_model(path, header, (size_t)(3 * c->size));
        bytes b = read_file(path);
        for (int k = 0; k < 3 * c->size; k++)
            b.at[b.size - (size_t)(3 * c->size - k)] =
                (unsigned char)(c->bits[k / c->size] >> 8 * (k % c->size));
        write_file(path, b.at, b.size);
        if (st_net_load_tensors(n, path)) fail_msg("%s", st_error());
        for (int k = 0; k < 3; k++) {
            st_real value = st_data(st_net_parameters(n))[(k + 2) % 3], expected = (st_real)c->expected[k];
            assert_true((isnan(value) && isnan(expected)) || memcmp(&value, &expected, sizeof value) == 0);
        }
    }
    unlink(path);
    st_net_free(n);
}

/* ---- damaged files ------------------------------------------------------------------------------- */

/* The file above with `to` in place of `from`, and so many bytes of data; where `from` is NULL, `to` is
 * the whole header. */
typedef struct damage {
    const char *claim, *from, *to, *expected;
    size_t data; /* 0: the 12 that belong there; NONE: none */
} damage;
enum { NONE = 1000 };

#define LAYER "{`type`:`dense`,`out_features`:1,`no_bias`:false}"
#define CONV(...) "{`type`:`conv2d`,`out_channels`:1,`kernel`:" __VA_ARGS__ "}"
#define SEQUENCE "{`type`:`sequence`,`layers`:["
#define TEN(x) x x x x x x x x x x

/* clang-format off */
static const damage damages[] = {
    /* metadata */
    { "no metadata", METADATA ",", "", "no architecture in the metadata" },
    { "no architecture", "'architecture'", "'agriculture'", "no architecture in the metadata" },
    { "no version", "'stride_version'", "'version'", "no architecture in the metadata" },
    { "a later version", "'1'", "'2'", "stride_version 2, expected 1" },
    /* tensors and the net */
    { "a tensor is missing", "," BIAS, "", "tensor 0.bias: missing", 8 },
    { "a tensor is left over", "," BIAS,
      "," BIAS ",'1.bias':{'dtype':'F32','shape':[1],'data_offsets':[12,16]}",
      "tensor 1.bias is not one of the net's", 16 },
    { "a tensor of another shape", "[1,2]", "[2,1]", "tensor 0.weight: [2, 1], expected [1, 2]" },
    { "a tensor of another rank", "[1,2]", "[2]", "tensor 0.weight: [2], expected [1, 2]" },
    { "a tensor of integers", "'F32','shape':[1],", "'I32','shape':[1],",
      "tensor 0.bias: I32, expected F64, F32" },
    /* the architecture */
    { "an architecture that is no JSON", ARCHITECTURE, "dense", "architecture" },
    { "an architecture of a list", ARCHITECTURE, "[]", "[]" },
    { "text after the architecture", "]}'", "]}]'", "architecture" },
    { "an option twice", "`out_features`:1", "`out_features`:1,`out_features`:1",
      "out_features" },
    { "no input", "`input`:[2],", "", "layers" },
    { "no layers", ",`layers`:[" LAYER "]", "", "input" },
    { "more than layers", "`input`:[2],", "`input`:[2],`output`:[1],", "output" },
    { "two inputs", "`input`:[2],", "`input`:[2],`input`:[2],", "input" },
    { "two lists of layers", "]}'", "],`layers`:[]}'", "layers" },
    { "two types", "`type`:`dense`,", "`type`:`dense`,`type`:`relu`,", "type" },
    { "an option without a value", "`no_bias`:false", "`no_bias`:", "architecture" },
    { "an option without a name", "`no_bias`:false", "false", "architecture" },
    { "layers that do not end", LAYER "]", LAYER ",]", "architecture" },
    { "a type that is no UTF-8", "`dense`", "`\\\\ud800`", "architecture" },
    { "a name in escapes", "`no_bias`:false", "`no\\\\u005fbias`:7", "layer 0: dense: no_bias is 7, expected true" },
    { "an input of text", "`input`:[2]", "`input`:`2`", "input is \"2\", expected the sizes of an image" },
    { "an input below zero", "`input`:[2]", "`input`:[-2]", "input is [-2], expected" },
    { "an input with a point", "`input`:[2]", "`input`:[2.5]", "input is [2.5], expected" },
    { "an input of nothing", "`input`:[2]", "`input`:[0]", "the input is [1, 0], expected a batch" },
    { "an input of eight axes", "`input`:[2]", "`input`:[1,1,1,1,1,1,1,2]", "rank 8, expected 0 to 7" },
    { "an input beyond memory", "`input`:[2]", "`input`:[9223372036854775807]",
      "more bytes than can be addressed" },
    { "layers of an object", "[" LAYER "]", "{}", "layers is {}, expected a list" },
    { "no layer at all", "[" LAYER "]", "[]", "holds no layers" },
    { "a number for a layer", LAYER, "7", "layer 0: 7 has no type" },
    { "a layer without a type", "`type`:`dense`,", "",
      "layer 0: {\"out_features\":1,\"no_bias\":false} has no type" },
    { "a type of a number", "`dense`", "7", "layer 0: {\"type\":7," },
    { "an unknown type", "`dense`", "`swirl`", "layer 0: type 'swirl' is not known; hand it to st_net_load" },
    { "an unknown type of a long name", "`dense`", "`" TEN(TEN("swirl")) "`",
      "is not known; hand it to st_net_load" },
    { "an unknown option", "`no_bias`", "`bias`", "layer 0: dense: option bias is not known" },
    { "a line end in an option", "`no_bias`", "`no\\\\nbias`", "dense: option no?bias is not known" },
    { "a line end in a type", "`dense`", "`den\\\\nse`", "type 'den?se' is not known" },
    { "a line end in a version", "'1'", "'1\\n'", "stride_version 1?, expected 1" },
    { "options of a type without", LAYER, "{`type`:`relu`,`slope`:1}",
      "layer 0: relu: option slope is not known" },
    { "a required option is missing", "`out_features`:1,", "",
      "layer 0: dense: out_features is 0, expected at least 1" },
    { "an int below its least", "`out_features`:1", "`out_features`:-1",
      "out_features is -1, expected at least 1" },
    { "an int beyond int", "`out_features`:1", "`out_features`:2147483648",
      "out_features is 2147483648, expected an int" },
    { "an int that wraps to 1", "`out_features`:1", "`out_features`:4294967297",
      "is 4294967297, expected an int" },
    { "an int with a point", "`out_features`:1", "`out_features`:1.0",
      "out_features is 1.0, expected an int" },
    { "an int of text", "`out_features`:1", "`out_features`:`1`", "out_features is \"1\", expected an int" },
    { "an int of null", "`out_features`:1", "`out_features`:null", "out_features is null, expected an int" },
    { "NaN for an int", "`out_features`:1", "`out_features`:NaN", "architecture" },
    { "a bool of 0", "false", "0", "no_bias is 0, expected true or false" },
    { "a number for a pair", LAYER, CONV("5"), "layer 0: conv2d: kernel is 5, expected two ints" },
    { "one number in a pair", LAYER, CONV("[5]"), "kernel is [5], expected two ints" },
    { "three numbers in a pair", LAYER, CONV("[5,5,5]"), "kernel is [5,5,5], expected two ints" },
    { "a text in a pair", LAYER, CONV("[5,`5`]"), "kernel is [5,\"5\"], expected two ints" },
    { "a pair beyond int", LAYER, CONV("[1,-2147483649]"), "expected two ints" },
    { "a pair below its least", LAYER, CONV("[1,-1]"), "conv2d: kernel is -1, expected at least 1" },
    { "a kernel larger than its image", "[2],`layers`:[" LAYER "]", "[1,4,4],`layers`:[" CONV("[5,5]") "]",
      "layer 0: conv2d: kernel 5×5 does not fit" },
    { "a real of text", LAYER, "{`type`:`dropout`,`p`:`0.5`}",
      "layer 0: dropout: p is \"0.5\", expected a number" },
    { "a real out of its range", LAYER, "{`type`:`dropout`,`p`:1}",
      "dropout: p is 1, expected at least 0 and below 1" },
    { "an unknown choice", LAYER, "{`type`:`maxpool`,`pad_value`:`one`}",
      "maxpool: pad_value is \"one\", expected one of default zero lowest" },
    { "a choice by number", LAYER, "{`type`:`maxpool`,`pad_value`:1}", "pad_value is 1, expected one of" },
    { "an unknown function", LAYER, "{`type`:`pool`,`function`:`top2`}",
      "layer 0: pool: function is \"top2\", expected a name handed to st_net_load" },
    { "a function by number", LAYER, "{`type`:`pool`,`function`:1}", "function is 1, expected a name" },
    { "no function", LAYER, "{`type`:`pool`}", "layer 0: pool: function is missing" },
    { "a layer within layers", LAYER, LAYER ",{`type`:`sequence`,`layers`:[" LAYER ",{`type`:`swirl`}]}",
      "layer 1: layer 1: type 'swirl' is not known" },
    { "an empty sequence", LAYER, "{`type`:`sequence`,`layers`:[]}", "layer 0: sequence: holds no layers" },
    { "a sequence without layers", LAYER, "{`type`:`sequence`}", "layer 0: sequence: holds no layers" },
    { "33 sequences in one another", LAYER,
      TEN(SEQUENCE SEQUENCE SEQUENCE) SEQUENCE SEQUENCE SEQUENCE LAYER "]}]}]}" TEN("]}]}]}"),
      "nested deeper than 32" },
};
/* clang-format on */

static void write_damage(const char *path, const damage *d)
{
    static const char model[] = MODEL;
    char header[16384];
    const char *at = d->from ? strstr(model, d->from) : NULL;
    size_t data = d->data == NONE ? 0 : d->data ? d->data : 12;
    if (d->from && (!at || strstr(at + 1, d->from))) fail_msg("%s: %s is not there once", d->claim, d->from);
    if (d->from)
        snprintf(header, sizeof header, "%.*s%s%s", (int)(at - model), model, d->to, at + strlen(d->from));
    write_model(path, d->from ? header : d->to, data);
}

static void damaged_files_are_refused_with_the_reason(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        about("%s", damages[i].claim);
        write_damage(path, &damages[i]);
        st_net *n = st_net_load(path, 1, nothing);
        if (n) fail_msg("%s: it was loaded", damages[i].claim);
        assert_non_null(strstr(st_error(), path));
        assert_null(strchr(st_error(), '\n'));
        expect_error("%s", damages[i].expected);
    }
    write_model(path, MODEL, 12);
    st_net *n = st_net_load(path, 1, nothing);
    assert_non_null(n); /* it was nothing but the damage */
    st_net_free(n);
    unlink(path);
}

static void the_headers_length_is_checked_before_anything_is_allocated(void **state)
{
    (void)state;
    static const struct length_case {
        unsigned long long length;
        long long size; /* of the file */
        const char *expected;
    } cases[] = {
        { 0, 0, "0 bytes are no safetensors file" },
        { 0, 7, "7 bytes are no safetensors file" },
        { 0, 8, "header" },
        { 1, 8, "a header of 1 bytes, 0 are there" },
        { 93, 100, "truncated, or no safetensors file: a header of 93 bytes, 92 are there" },
        { 0x0a1a0a0d474e5089, 4096, "no safetensors file: a header of 727905341920923785 bytes" },
        { 1ull << 63, 100, "a header of 9223372036854775808 bytes, 92 are there" },
        { ~0ull, 100, "a header of 18446744073709551615 bytes" },
        { ~0ull - 7, 100, "a header of 18446744073709551608 bytes" },
        { (16 << 20) + 1, (16 << 20) + 9, "a header of 16777217 bytes, expected at most 16777216" },
    };
    const char *path = in_folder("net");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char prefix[8];
        for (int k = 0; k < 8; k++) prefix[k] = (unsigned char)(cases[i].length >> 8 * k);
        write_file(path, prefix, sizeof prefix);
        assert_int_equal(truncate(path, (off_t)cases[i].size), 0);
        assert_null(st_net_load(path, 1, nothing));
        expect_error("%s", cases[i].expected);
    }
    unlink(path);
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    st_net *n = small_net();
    assert_int_equal(st_net_save(n, path), 0);
    bytes whole = read_file(path);
    for (size_t size = 0; size < whole.size; size++) {
        write_file(path, whole.at, size);
        assert_null(st_net_load(path, 1, nothing));
        expect_error("%s: ", path);
        assert_int_equal(st_net_load_tensors(n, path), -1);
        expect_error("%s: ", path);
    }
    unlink(path);
    st_net_free(n);
}

static void a_wrong_byte_anywhere_loads_or_is_refused(void **state)
{
    (void)state;
    static const unsigned char wrong[] = { 0, ' ', '"', '\\', '9', '}', '[', 0x80, 0xff };
    const char *path = in_folder("net");
    st_net *n = small_net();
    assert_int_equal(st_net_save(n, path), 0);
    bytes whole = read_file(path);
    for (size_t i = 0; i < whole.size; i++)
        for (size_t k = 0; k < sizeof wrong; k++) {
            bytes b = whole;
            b.at[i] = wrong[k];
            write_file(path, b.at, b.size);
            st_net *loaded = st_net_load(path, 1, nothing);
            if (!loaded) expect_error("%s: ", path);
            st_net_free(loaded);
        }
    unlink(path);
    st_net_free(n);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    const char *pipe = in_folder("pipe");
    assert_null(st_net_load(in_folder("missing"), 1, nothing));
    expect_error("%s/missing: No such file", folder);
    assert_null(st_net_load(folder, 1, nothing));
    expect_error("%s: not a regular file", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_null(st_net_load(pipe, 1, nothing));
    expect_error("%s: not a regular file", pipe);
    st_net *n = small_net();
    assert_int_equal(st_net_save(n, pipe), -1); /* which would have replaced it */
    expect_error("%s: not a regular file", pipe);
    assert_int_equal(st_net_save(n, folder), -1);
    expect_error("%s: not a regular file", folder);
    assert_int_equal(unlink(pipe), 0);
    assert_null(st_net_load(NULL, 1, nothing));
    expect_error("st_net_load: ");
    assert_null(st_net_load(pipe, 0, nothing));
    expect_error("a batch of 0");
    st_net_free(n);
}

static void a_type_of_ones_own_is_refused_unless_it_is_handed_over(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    st_net *n = sample(ST_SHAPE(3), st_sequence(st_relu(), layer_blend((blend){ .curve = &curves[0] })));
    assert_int_equal(st_net_save(n, path), 0);
    assert_null(st_net_load(path, 1, nothing));
    expect_error("%s: layer 0: layer 1: type 'blend' is not known; hand it to st_net_load", path);
    assert_null(st_net_load(path, 1, (st_net_known){ .types = known.types }));
    expect_error("%s: layer 0: layer 1: blend: curve is \"halved\", expected a name handed to st_net_load",
                 path);
    assert_null(st_net_load(path, 1, (st_net_known){ .named = known.named }));
    expect_error("type 'blend' is not known");
    unlink(path);
    st_net_free(n);
}

/* ---- tensors alone ------------------------------------------------------------------------------- */

static void tensors_of_another_architecture_change_nothing(void **state)
{
    (void)state;
    static const struct misfit {
        const char *header, *expected;
        size_t data;
    } misfits[] = {
        { "{" WEIGHT "}", "tensor 0.bias: missing", 8 },
        { "{" WEIGHT "," BIAS ",'x':{'dtype':'BOOL','shape':[2],'data_offsets':[12,14]}}",
          "tensor x is not one of the net's", 14 },
        { "{" WEIGHT ",'0.bias':{'dtype':'F32','shape':[],'data_offsets':[8,12]}}",
          "tensor 0.bias: [], expected [1]", 12 },
        { "{" WEIGHT ",'0.bias':{'dtype':'I64','shape':[1],'data_offsets':[8,16]}}",
          "tensor 0.bias: I64, expected", 16 },
        { "{}", "tensor 0.weight: missing", 0 },
    };
    const char *path = in_folder("net");
    st_net *n = small_net();
    st_tensor before = st_tensor_clone(st_net_parameters(n));
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
        write_model(path, misfits[i].header, misfits[i].data);
        assert_int_equal(st_net_load_tensors(n, path), -1);
        expect_error("%s: %s", path, misfits[i].expected);
        assert_same_bits(st_net_parameters(n), before);
    }
    unlink(path);
    st_tensor_free(before);
    st_net_free(n);
}

static void tensors_load_into_a_net_of_the_same_architecture(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    blend options = { .curve = &curves[0] };
    st_net *n = sample(ST_SHAPE(4), layer_blend(options)), *other = sample(ST_SHAPE(4), layer_blend(options));
    st_fill(st_net_states(n), 3);
    st_fill(st_net_parameters(n), 4);
    assert_int_equal(st_net_save(n, path), 0);
    assert_int_equal(st_net_load_tensors(other, path), 0);
    assert_same_net(n, other);
    assert_int_equal(other->batch, 4);
    unlink(path);
    st_net_free(n);
    st_net_free(other);
}

static void a_disk_that_fails_while_reading_changes_nothing(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    blend options = { .curve = &curves[0] };
    st_net *n = sample(ST_SHAPE(4), st_sequence(layer_blend(options), layer_blend(options)));
    assert_int_equal(st_net_save(n, path), 0);
    st_fill(st_net_states(n), 3);
    st_fill(st_net_parameters(n), 4);
    st_tensor parameters = st_tensor_clone(st_net_parameters(n)), states = st_tensor_clone(st_net_states(n));
    int reads = 0;
    for (int status = -1; status; reads++) {
        assert_same_bits(st_net_parameters(n), parameters);
        assert_same_bits(st_net_states(n), states);
        reads_before_failure = reads;
        status = st_net_load_tensors(n, path);
        reads_before_failure = reads;
        st_net *loaded = st_net_load(path, 1, known);
        reads_before_failure = -1;
        assert_int_equal(loaded != NULL, status == 0);
        if (status) expect_error("%s: ", path);
        st_net_free(loaded);
    }
    assert_int_equal(reads, 7); /* prefix, header, twice a parameter and a state; and then none fails */
    unlink(path);
    st_tensor_free(parameters);
    st_tensor_free(states);
    st_net_free(n);
}

/* ---- saving that fails --------------------------------------------------------------------------- */

/* `fails` makes saving fail; the old file stays, and nothing else. */
static void assert_save_fails(st_net *n, const char *path, const char *expected)
{
    bytes old = read_file(path);
    int files = count_files();
    assert_int_equal(st_net_save(n, path), -1);
    assert_non_null(strstr(st_error(), path));
    expect_error("%s", expected);
    assert_same_file(path, &old);
    assert_int_equal(count_files(), files);
}

static void a_disk_that_fails_while_writing_leaves_the_old_file(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    st_net *n = small_net();
    write_file(path, "old", 3);
    fsync_fails = true;
    assert_save_fails(n, path, "cannot be written: Input/output error");
    fsync_fails = false;
    rename_fails = true;
    assert_save_fails(n, path, "cannot be written: Input/output error");
    rename_fails = false;
    assert_int_equal(st_net_save(n, path), 0);
    unlink(path);
    st_net_free(n);
}

static void a_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    st_net *n = sample(ST_SHAPE(40), st_dense(.out_features = 40));
    assert_int_equal(st_net_save(n, path), 0);
    rlim_t size = (rlim_t)read_file(path).size;
    write_file(path, "old", 3);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t most = 0; most < size; most += most < size - 101 ? 101 : 1) {
        limit = before;
        limit.rlim_cur = most;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        int status = st_net_save(n, path);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, -1);
        expect_error("%s: cannot be written: %s", path, strerror(EFBIG));
        assert_int_equal(read_file(path).size, 3);
        assert_int_equal(count_files(), 1);
    }
    signal(SIGXFSZ, handler);
    assert_int_equal(st_net_save(n, path), 0);
    unlink(path);
    st_net_free(n);
}

static void a_folder_that_is_not_there_or_not_ours_is_named(void **state)
{
    (void)state;
    st_net *n = small_net();
    assert_int_equal(st_net_save(n, in_folder("nowhere/net")), -1);
    expect_error("%s/nowhere/net: cannot be written: %s", folder, strerror(ENOENT));
    assert_int_equal(mkdir(in_folder("locked"), 0500), 0);
    const char *path = in_folder("locked/net");
    pid_t child = fork(); /* root may write anywhere, so the child is someone else */
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) || setuid(65534))) _exit(2);
        _exit(st_net_save(n, path) == -1 && strstr(st_error(), strerror(EACCES)) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 1);
    assert_int_equal(rmdir(in_folder("locked")), 0);
    st_net_free(n);
}

enum { MOST_NOTES = 1000, MOST_LAYERS = 1 << 14 };

static void a_net_that_could_not_be_read_back_is_not_saved(void **state)
{
    (void)state;
    static const st_field type_fields[] = { { "type", ST_FIELD_INT, 0 }, { 0 } };
    static const st_field layers_fields[] = { { "layers", ST_FIELD_INT, 0 }, { 0 } };
    static const curve strange = { "\xff", halved };
    st_layer_type types[4];
    st_layer *l = st_relu();
    for (int i = 0; i < 4; i++) types[i] = *l->type; /* hooks of some layer */
    types[1].name = "opaque", types[1].options_size = 8;
    types[2].name = "typed", types[2].options_size = 8, types[2].fields = type_fields;
    types[3].name = "layered", types[3].options_size = 8, types[3].fields = layers_fields;
    static const char *const expected[] = {
        "layer 0: relu: a shipped type has that name, rename yours",
        "layer 0: opaque: its options have no table of fields",
        "layer 0: typed: an option may be called neither type nor layers",
        "layer 0: layered: an option may be called neither type nor layers",
    };
    const char *path = in_folder("net");
    write_file(path, "old", 3);
    for (int i = 0; i < 4; i++) {
        st_net *n = sample(ST_SHAPE(3), st_layer_new(&types[i], NULL, 0, NULL));
        assert_save_fails(n, path, expected[i]);
        st_net_free(n);
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
    assert_save_fails(n, path, "note latin: no memory, or it is not UTF-8");
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

    n = st_net_new_of(ST_SHAPE(3), 1, &l);
    assert_save_fails(n, path, "st_net_save before st_net_build");
    assert_int_equal(st_net_load_tensors(n, path), -1);
    expect_error("st_net_load_tensors before st_net_build");
    st_net_free(n);
    assert_save_fails(NULL, path, "st_net_save before st_net_build");
    assert_int_equal(st_net_save(NULL, NULL), -1);
    expect_error("the path is NULL");
    assert_int_equal(st_net_load_tensors(NULL, NULL), -1);
    expect_error("the path is NULL");
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

static void as_many_as_may_be_are_loaded(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    write_many(path, MOST_LAYERS, MOST_NOTES);
    st_net *n = st_net_load(path, 1, nothing);
    assert_non_null(n);
    assert_string_equal(st_net_metadata(n, "999"), "text");
    st_net_free(n);
    write_many(path, MOST_LAYERS + 1, 0);
    assert_null(st_net_load(path, 1, nothing));
    expect_error("16385 layers");
    write_many(path, 1, MOST_NOTES + 1);
    assert_null(st_net_load(path, 1, nothing));
    expect_error("net: more than 1000 notes");
    unlink(path);
}

static void as_deep_as_may_be_comes_back(void **state)
{
    (void)state;
    st_layer *deep = st_relu();
    for (int i = 0; i < 31; i++) deep = st_sequence(deep);
    comes_back(sample(ST_SHAPE(3), deep));
}

static void two_tensors_of_one_name_are_not_written(void **state)
{
    (void)state;
    st_tensor x = st_tensor_new(ST_SHAPE(2));
    const safetensors_item twice[] = { { "a", x }, { "b", x }, { "a", x } }, strange[] = { { "\xfe", x } };
    json_t *metadata = json_object();
    assert_int_equal(safetensors_write(in_folder("net"), 3, twice, metadata), -1);
    expect_error("net: tensor a: two have that name");
    assert_int_equal(safetensors_write(in_folder("net"), 1, strange, metadata), -1);
    expect_error("no memory, or its name is not UTF-8");
    assert_int_equal(count_files(), 0);
    json_decref(metadata);
    st_tensor_free(x);
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

static void tensors_that_match_are_read(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    st_net *from = st_net_new(ST_SHAPE(3), st_dense(.out_features = 4), st_relu(),
                              st_dense(.out_features = 2), st_batchnorm());
    st_net *to = st_net_new(ST_SHAPE(3), st_dense(.out_features = 4), st_relu(),
                            st_dense(.out_features = 5, .no_bias = true), st_elu(.alpha = 1),
                            st_dense(.out_features = 1));
    assert_int_equal(st_net_build(from, 1, 1) | st_net_build(to, 1, 2), 0);
    st_fill(st_net_find(from, "0.bias"), 3);
    st_tensor kept = st_tensor_clone(st_net_find(to, "2.weight"));
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

    st_fill(st_net_find(to, "0.bias"), 1);
    st_copy(kept, st_net_find(to, "2.weight"));
    for (reads_before_failure = 0; reads_before_failure < 4; reads_before_failure++) {
        int before = reads_before_failure;
        assert_int_equal(st_net_load_matching(to, path, NULL, NULL), -1);
        reads_before_failure = before;
        expect_error("cannot be read");
        assert_elements(st_net_find(to, "0.bias"), 1, 1, 1, 1);
    }
    reads_before_failure = -1;
    assert_int_equal(st_net_load_matching(to, in_folder("none"), NULL, NULL), -1);
    expect_error("none: ");
    assert_int_equal(st_net_load_matching(NULL, path, NULL, NULL), -1);
    expect_error("before st_net_build");
    unlink(path);
    st_tensor_free(kept);
    st_net_free(from), st_net_free(to);
}

/* A few bytes describe 64 GB: nothing of that may be asked for. */
static void what_takes_too_much_memory_is_refused(void **state)
{
    (void)state;
    static char text[1 << 13];
    const char *path = in_folder("net");
    char *at = text + sprintf(text, "{\"input\":[1,1,1],\"layers\":[");
    for (int i = 0; i < 40; i++)
        at += sprintf(at, "%s{\"type\":\"upsample\",\"scale\":[20000,20000]},{\"type\":\"avgpool\"}",
                      i ? "," : "");
    strcpy(at, "]}");
    json_t *metadata = json_pack("{s:s, s:s}", "stride_version", "1", "architecture", text);
    assert_int_equal(safetensors_write(path, 0, NULL, metadata), 0);
    json_decref(metadata);
    assert_null(st_net_load(path, 1, nothing));
    expect_error("max_memory");

    st_net *n = sample(ST_SHAPE(1000), st_dense(.out_features = 1000)), *loaded;
    st_net_known limited = { .max_memory = 8 << 20 };
    assert_int_equal(st_net_save(n, path), 0);
    assert_null(st_net_load(path, 1, (st_net_known){ .max_memory = (ptrdiff_t)1000000 * sizeof(st_real) }));
    expect_error("expected at most");
    assert_null(st_net_load(path, 100000, limited));
    expect_error("a batch of 100000");
    limited.max_memory = 64 << 20;
    loaded = st_net_load(path, 1, limited);
    assert_non_null(loaded);
    assert_null(st_net_load(path, 1, (st_net_known){ .max_memory = -1 }));
    expect_error("-1 bytes");
    unlink(path);
    st_net_free(n), st_net_free(loaded);
}

/* PyTorch's batch normalisation counts batches, which matters only where it has no momentum. */
static void a_count_of_batches_is_passed_over(void **state)
{
    (void)state;
    st_net *n = st_net_new(ST_SHAPE(2), st_dense(.out_features = 1));
    st_tensor w = st_tensor_new(ST_SHAPE(1, 2)), b = st_tensor_new(ST_SHAPE(1)),
              count = st_tensor_new((st_shape){ 0 });
    const safetensors_item theirs[] = { { "0.weight", w },
                                        { "0.bias", b },
                                        { "1.num_batches_tracked", count } },
                           odd[] = { theirs[0], theirs[1], { "num_batches_tracked", count } };
    json_t *metadata = json_object();
    assert_int_equal(st_net_build(n, 1, 1), 0);
    st_fill(w, 3);
    assert_int_equal(safetensors_write(in_folder("theirs"), 3, theirs, metadata), 0);
    assert_int_equal(st_net_load_tensors(n, in_folder("theirs")), 0);
    assert_elements(st_net_find(n, "0.weight"), 3, 3);
    assert_int_equal(safetensors_write(in_folder("theirs"), 3, odd, metadata), 0);
    assert_int_equal(st_net_load_tensors(n, in_folder("theirs")), -1);
    expect_error("tensor num_batches_tracked is not one of the net's");
    unlink(in_folder("theirs"));
    json_decref(metadata);
    st_tensor_free(w), st_tensor_free(b), st_tensor_free(count);
    st_net_free(n);
}

static void views_are_written_and_read_in_their_own_order(void **state)
{
    (void)state;
    dice d = { { 5, 6 }, 0 };
    const char *path = in_folder("net");
    st_tensor whole, other, from = roll_view(&d, ST_SHAPE(3, 4, 5), &whole),
                            to = roll_view(&d, ST_SHAPE(3, 4, 5), &other);
    roll_elements(&d, from, -100, 100);
    json_t *metadata = json_object();
    assert_int_equal(safetensors_write(path, 1, &(safetensors_item){ "x", from }, metadata), 0);
    safetensors *file = safetensors_open(path);
    assert_non_null(file);
    assert_int_equal(safetensors_read(file, safetensors_find(file, "x", to.shape), to), 0);
    assert_same(to, from);
    safetensors_close(file);
    json_decref(metadata);
    unlink(path);
    st_tensor_free(whole);
    st_tensor_free(other);
}

/* ---- the file that is written -------------------------------------------------------------------- */

static void the_file_is_like_any_new_file(void **state)
{
    (void)state;
    struct stat status;
    st_net *n = small_net();
    mode_t before = umask(027);
    assert_int_equal(st_net_save(n, in_folder("net")), 0);
    umask(before);
    assert_int_equal(stat(in_folder("net"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    unlink(in_folder("net"));
    st_net_free(n);
}

static void the_file_is_on_the_disk_before_its_name_is(void **state)
{
    (void)state;
    st_net *n = small_net();
    events[0] = '\0';
    assert_int_equal(st_net_save(n, in_folder("net")), 0);
    assert_string_equal(events, "frd");
    assert_int_equal(synced, read_file(in_folder("net")).size);
    unlink(in_folder("net"));
    st_net_free(n);
}

static void a_link_stays_a_link(void **state)
{
    (void)state;
    struct stat status;
    st_net *n = small_net();
    const char *link = in_folder("latest");
    write_file(in_folder("net"), "old", 3);
    assert_int_equal(symlink("net", link), 0);
    assert_int_equal(st_net_save(n, link), 0);
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_true(read_file(in_folder("net")).size > 3);
    unlink(link);
    unlink(in_folder("net"));
    st_net_free(n);
}

static const char *temporary(long process, int attempt)
{
    char name[64];
    snprintf(name, sizeof name, "net.%ld-%d.tmp", process, attempt);
    return in_folder(name);
}

/* What is locked is being written, by this process or by another. */
static void what_a_killed_writer_left_behind_is_removed(void **state)
{
    (void)state;
    st_net *n = small_net();
    static const char *const others[] = { "net.1-0.tmp~", "net.-0.tmp",   "net.1-.tmp", "net.x-0.tmp",
                                          "net.1-0.txt",  "nets.1-0.tmp", "et.1-0.tmp", "net.tmp" };
    enum { OTHERS = sizeof others / sizeof *others };
    for (int i = 0; i < OTHERS; i++) write_file(in_folder(others[i]), "theirs", 6);
    write_file(temporary(getpid(), 0), "half", 4);
    write_file(temporary(getpid(), 3), "half", 4);
    write_file(temporary(1, 99), "half", 4);
    write_file(temporary(1, 0), "whole", 5);
    int busy = open(temporary(1, 0), O_RDONLY);
    assert_int_equal(flock(busy, LOCK_EX), 0);
    assert_int_equal(symlink(others[0], temporary(2, 0)), 0);
    assert_int_equal(st_net_can_save(n, in_folder("net")), 0);
    assert_int_equal(count_files(), OTHERS + 2); /* the one that is locked, and the link */
    assert_int_equal(st_net_save(n, in_folder("net")), 0);
    assert_int_equal(count_files(), OTHERS + 3); /* and the net */
    close(busy);
    assert_int_equal(st_net_save(n, in_folder("net")), 0);
    assert_int_equal(count_files(), OTHERS + 2);
    for (int i = 0; i < OTHERS; i++) assert_int_equal(unlink(in_folder(others[i])), 0);
    assert_int_equal(unlink(temporary(2, 0)), 0);
    unlink(in_folder("net"));
    st_net_free(n);
}

/* Writers of one file at once remove nothing of each other's. */
static void writers_of_one_file_do_not_disturb_each_other(void **state)
{
    (void)state;
    enum { WRITERS = 4, TIMES = 50 };
    const char *path = in_folder("net");
    st_net *n = small_net();
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
    st_net *loaded = st_net_load(path, 1, nothing);
    assert_non_null(loaded);
    unlink(path);
    st_net_free(loaded), st_net_free(n);
}

static void a_name_without_a_folder_is_in_the_current_one(void **state)
{
    (void)state;
    char here[1024];
    st_net *n = small_net();
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(st_net_save(n, "net"), 0);
    st_net *loaded = st_net_load("net", 1, nothing);
    assert_int_equal(chdir(here), 0);
    assert_non_null(loaded);
    unlink(in_folder("net"));
    st_net_free(loaded);
    st_net_free(n);
}

/* ---- memory that runs out ------------------------------------------------------------------------ */

static int allocations_before_failure;

static void *failing_malloc(size_t size)
{
    return allocations_before_failure-- == 0 ? NULL : malloc(size);
}

/* Jansson 2.14 overruns the buffer in which its parser collects a string where it cannot double it. */
static void *failing_malloc_but_for_doubling(size_t size)
{
    bool doubled = size >= 32 && (size & (size - 1)) == 0;
    return doubled ? malloc(size) : failing_malloc(size);
}

static void json_without_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    const char *path = in_folder("net");
    st_net *n = sample(ST_SHAPE(2), st_sequence(st_dense(.out_features = 1))), *loaded = NULL;
    st_net_set_metadata(n, "a", "b");
    write_file(path, "old", 3);
    bytes old = read_file(path);
    int saving = 0, loading = 0;
    json_set_alloc_funcs(failing_malloc, free);
    for (; allocations_before_failure = saving, st_net_save(n, path); saving++) {
        expect_error("%s: ", path);
        assert_same_file(path, &old);
        assert_int_equal(count_files(), 1);
    }
    json_set_alloc_funcs(failing_malloc_but_for_doubling, free);
    for (; allocations_before_failure = loading, !(loaded = st_net_load(path, 1, nothing)); loading++)
        expect_error("%s: ", path);
    json_set_alloc_funcs(malloc, free);
    assert_string_equal(st_net_metadata(loaded, "a"), "b");
    assert_true(saving > 50 && loading > 50);
    unlink(path);
    st_net_free(loaded);
    st_net_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLAIM(every_shipped_type_comes_back_with_all_its_options),
        CLAIM(a_type_of_ones_own_comes_back_with_its_states_and_children),
        CLAIM(values_that_are_hard_to_write_come_back_bit_for_bit),
        CLAIM(a_net_without_parameters_comes_back),
        CLAIM(a_tensor_longer_than_a_block_comes_back),
        CLAIM(notes_come_back),
        CLAIM(as_deep_as_may_be_comes_back),
        CLAIM(as_many_as_may_be_are_loaded),
        CLAIM(what_is_written_is_what_the_format_says),
        CLAIM(every_float_of_other_programs_is_read),
        CLAIM(tensors_that_match_are_read),
        CLAIM(what_takes_too_much_memory_is_refused),
        CLAIM(a_count_of_batches_is_passed_over),
        CLAIM(views_are_written_and_read_in_their_own_order),
        CLAIM(damaged_files_are_refused_with_the_reason),
        CLAIM(the_headers_length_is_checked_before_anything_is_allocated),
        CLAIM(a_file_cut_at_any_byte_is_refused),
        CLAIM(a_wrong_byte_anywhere_loads_or_is_refused),
        CLAIM(what_is_no_file_is_refused),
        CLAIM(a_type_of_ones_own_is_refused_unless_it_is_handed_over),
        CLAIM(tensors_of_another_architecture_change_nothing),
        CLAIM(tensors_load_into_a_net_of_the_same_architecture),
        CLAIM(a_disk_that_fails_while_reading_changes_nothing),
        CLAIM(a_disk_that_fails_while_writing_leaves_the_old_file),
        CLAIM(a_full_disk_leaves_the_old_file),
        CLAIM(a_folder_that_is_not_there_or_not_ours_is_named),
        CLAIM(a_net_that_could_not_be_read_back_is_not_saved),
        CLAIM(two_tensors_of_one_name_are_not_written),
        CLAIM(the_file_is_like_any_new_file),
        CLAIM(the_file_is_on_the_disk_before_its_name_is),
        CLAIM(a_link_stays_a_link),
        CLAIM(what_a_killed_writer_left_behind_is_removed),
        CLAIM(writers_of_one_file_do_not_disturb_each_other),
        CLAIM(a_name_without_a_folder_is_in_the_current_one),
        CLAIM(json_without_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
