/* test_random_nets.c: nets of random layers come to what their layers come to alone, one after another, by
 * the reference engine: y, dx and every gradient, on any engine and any number of threads, batches smaller
 * than planned included.
 *
 * All numbers are small integers, or halves of them, so that every sum is exact and results are compared for
 * equality: where a net runs in place, in another order, in chains or by another algorithm, nothing may
 * differ. STRIDE_FAST takes fewer nets, for processors that are emulated. */
#include "layers/layers.h"
#include "nn/check/gradcheck.h"
#include "tensor/engine.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a user's own layers: y = -x, and backward they see that x and y still are what they were ---------- */

static int plan_like(st_layer *l, st_shape x, st_shape *y)
{
    *y = x;
    return st_layer_memory(l, l->type->chunk < 0 ? ST_SHAPE(1, 1) : ST_SHAPE(x.n[0]));
}

static void negate(const st_call *c, st_tensor x, st_tensor y)
{
    st_copy(y, x);
    st_scale(y, -1);
}

static void negate_back(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    for (ptrdiff_t k = 0; k < st_numel(dx); k++)
        *element(dx, k) = *element(y, k) == -*element(x, k) ? -*element(dy, k) : (st_real)NAN;
}

#define OWN(CHUNK)                                                                                           \
    {                                                                                                        \
        .name = "own", .chunk = CHUNK, .plan = plan_like, .forward = negate, .backward = negate_back         \
    }
static const st_layer_type own_types[] = { OWN(0), OWN(3), OWN(ST_WHOLE_BATCH) };

/* ---- growing them -------------------------------------------------------------------------------------- */

enum { MOST_PARTS = 40 };

typedef enum kind { CONV, DENSE, MAXPOOL, AVGPOOL, RELU, RELU6, IDENTITY, DROPOUT, FLATTEN, OWN, KINDS } kind;

static st_layer *roll_convolution(dice *d, st_shape s, bool keep)
{
    int size = chance(d, 60) ? 3 : (int)roll(d, 0, 1) * 4 + 1;
    bool room = s.n[2] >= size && s.n[3] >= size;
    st_conv2d_options o = { .out_channels = keep            ? (int)s.n[1]
                                            : chance(d, 40) ? 16
                                                            : (int)roll(d, 1, 12),
                            .kernel = { size, size },
                            .no_bias = chance(d, 30) };
    for (int axis = 0; axis < 2; axis++) {
        o.padding[axis] = keep || !room ? size / 2 : (int)roll(d, 0, size / 2);
        o.stride[axis] = keep || chance(d, 80) ? 1 : 2;
    }
    keep_zero(o.padding);
    return st_conv2d_new(o);
}

static st_layer *roll_pool(dice *d)
{
    int size = (int)roll(d, 2, 3);
    st_maxpool_options o = { .kernel = { size, size }, .ceil_mode = chance(d, 30) };
    if (chance(d, 40)) o.stride[0] = o.stride[1] = (int)roll(d, 1, 2);
    if (chance(d, 30)) o.padding[0] = o.padding[1] = 1;
    return st_maxpool_new(o);
}

/* A leaf for an input of shape s, its shape kept if it must be. */
static st_layer *roll_leaf(dice *d, st_shape s, bool keep)
{
    kind k;
    bool image = s.rank == 4, large = image && s.n[2] >= 4 && s.n[3] >= 4;
    for (;;) {
        k = (kind)roll(d, 0, KINDS - 1);
        if (k == CONV && !image) continue;
        if ((k == MAXPOOL || k == AVGPOOL) && (!large || keep)) continue;
        if (k == AVGPOOL && chance(d, 70)) continue; /* its quarters become ever smaller */
        if (k == DENSE && image) continue;
        if (k == FLATTEN && ((keep && image) || chance(d, 70))) continue;
        break;
    }
    switch (k) {
    case CONV: return roll_convolution(d, s, keep);
    case DENSE: return st_dense(.out_features = keep ? (int)s.n[1] : (int)roll(d, 1, 70));
    case MAXPOOL: return roll_pool(d);
    case AVGPOOL: return st_avgpool(.kernel = { 2, 2 });
    case RELU: return st_relu();
    case RELU6: return st_relu6();
    case IDENTITY: return st_identity();
    case DROPOUT: return st_dropout(.p = 0); /* which numbers it draws depends on its place */
    case FLATTEN: return st_flatten();
    default: return st_layer_new(&own_types[roll(d, 0, 2)], NULL, 0, NULL);
    }
}

/* A sequence of so many parts: leaves, sequences, residual blocks. */
static st_layer *roll_sequence(dice *d, st_shape s, int parts, int deep, bool keep)
{
    st_layer *part[MOST_PARTS];
    for (int i = 0; i < parts; i++) {
        if (deep > 0 && chance(d, 15)) part[i] = roll_sequence(d, s, (int)roll(d, 1, 5), deep - 1, keep);
        else if (deep > 0 && chance(d, 10))
            part[i] = st_residual(roll_sequence(d, s, (int)roll(d, 1, 3), deep - 1, true));
        else part[i] = roll_leaf(d, s, keep);
        auto_layer *planned = st_layer_clone(part[i]);
        st_shape y;
        assert_int_equal(st_layer_plan(planned, s, &y), 0);
        s = y;
    }
    return st_sequence_of(parts, part);
}

/* ---- each layer alone ---------------------------------------------------------------------------------- */

/* The leaves of a tree in order, each run by itself, and what went through it. */
static struct leaf {
    st_layer *l;
    st_tensor x, y;
} leaves[16 * MOST_PARTS];
static int leaf_count;

/* Mostly 0, so that numbers stay small. */
static void roll_weights(dice *d, st_tensor w)
{
    for (ptrdiff_t k = 0; k < st_numel(w); k++) *element(w, k) = chance(d, 12) ? (st_real)roll(d, -1, 1) : 0;
}

static bool is_residual(const st_layer *l)
{
    return strcmp(l->type->name, "residual") == 0;
}

/* y, which the caller frees. */
static st_tensor forward_alone(const st_layer *l, st_tensor x, dice *d)
{
    if (l->children == 0) {
        struct leaf *a = &leaves[leaf_count++];
        *a = (struct leaf){ .l = st_layer_clone(l), .x = st_tensor_clone(x) };
        assert_int_equal(st_layer_build(a->l, x.shape, 1), 0);
        roll_weights(d, st_layer_parameters(a->l));
        st_layer_mode(a->l, true, 1, 1);
        a->y = st_tensor_new(a->l->y);
        st_layer_forward(a->l, a->x, a->y);
        return st_tensor_clone(a->y);
    }
    st_tensor y = st_tensor_clone(x);
    for (int i = 0; i < l->children; i++) {
        auto_tensor before = y;
        y = forward_alone(l->child[i], before, d);
    }
    if (is_residual(l)) st_add(y, 1, x);
    return y;
}

/* dx, which the caller frees; `left` leaves have not gone backward yet. */
static st_tensor backward_alone(const st_layer *l, st_tensor dy, int *left)
{
    if (l->children == 0) {
        struct leaf *a = &leaves[--*left];
        st_tensor dx = st_tensor_new(a->x.shape);
        st_layer_backward(a->l, a->x, a->y, dy, dx);
        return dx;
    }
    st_tensor dx = st_tensor_clone(dy);
    for (int i = l->children - 1; i >= 0; i--) {
        auto_tensor after = dx;
        dx = backward_alone(l->child[i], after, left);
    }
    if (is_residual(l)) st_add(dx, 1, dy);
    return dx;
}

/* The parameters or gradients of all leaves, concatenated. */
static void gather(st_tensor of(const st_layer *l), st_tensor to)
{
    ptrdiff_t at = 0;
    for (int i = 0; i < leaf_count; i++) {
        st_tensor own = of(leaves[i].l);
        st_copy(st_narrow(to, 0, at, st_numel(own)), own);
        at += st_numel(own);
    }
    assert_int_equal(at, st_numel(to));
}

/* ---- and together -------------------------------------------------------------------------------------- */

typedef struct truth {
    st_tensor x, dy, y, dx, parameters, gradients;
} truth;

static void compare(const st_layer *tree, truth t, st_shape planned)
{
    auto_layer *l = st_layer_clone(tree);
    assert_int_equal(st_layer_build(l, planned, 1), 0);
    st_copy(st_layer_parameters(l), t.parameters);
    auto_tensor y = st_tensor_new(t.y.shape), dx = st_tensor_new(t.dx.shape);
    for (int wanted = 1; wanted >= 0; wanted--) {
        st_layer_mode(l, true, 1, 1);
        st_fill(st_layer_gradients(l), 0);
        st_layer_spoil_scratch(l);
        st_layer_forward(l, t.x, y);
        assert_same(y, t.y);
        st_layer_spoil_scratch(l);
        st_layer_backward(l, t.x, y, t.dy, wanted ? dx : (st_tensor){ 0 });
        assert_same(st_layer_gradients(l), t.gradients);
    }
    assert_same(dx, t.dx);
    for (int forget = 0; forget < 2; forget++) {
        st_layer_mode(l, false, 1, 1);
        st_layer_inference_only(l, forget);
        st_fill(y, 0);
        st_layer_forward(l, t.x, y);
        assert_same(y, t.y);
    }
}

static void on_every_engine(const st_layer *tree, truth t, st_shape planned, unsigned seed)
{
    static const int threads[] = { 1, 2, 3, 8 };
    for (size_t e = 0; e < ENGINES; e++) {
        if (!choose_engine(engines[e])) continue;
        int count = threads[(seed + e) % 4];
        about("seed %u, %s, %d threads", seed, engines[e], count);
        st_set_num_threads(count);
        compare(tree, t, planned);
    }
    st_set_num_threads(1);
    use_engine(NULL);
}

static void a_net(unsigned seed)
{
    dice d = { { seed } };
    ptrdiff_t images = chance(&d, 30) ? 1 : roll(&d, 1, 40);
    st_shape s = chance(&d, 80) ? ST_SHAPE(images, roll(&d, 1, 16), roll(&d, 4, 12), roll(&d, 4, 12))
                                : ST_SHAPE(images, roll(&d, 1, 90));
    st_shape planned = s;
    planned.n[0] += chance(&d, 50) ? 0 : roll(&d, 1, 30);
    auto_layer *tree =
        roll_sequence(&d, s, (int)(chance(&d, 10) ? roll(&d, 17, 36) : roll(&d, 1, 9)), 2, false);
    auto_tensor whole;
    st_tensor x = roll_view(&d, s, &whole);
    roll_elements(&d, x, -2, 2);
    use_engine("reference");
    about("seed %u, each layer alone", seed);
    leaf_count = 0;
    truth t = { .x = x, .y = forward_alone(tree, x, &d) };
    t.dy = roll_tensor(&d, t.y.shape, -1, 1);
    t.dx = backward_alone(tree, t.dy, &(int){ leaf_count });
    auto_layer *l = st_layer_clone(tree);
    assert_int_equal(st_layer_build(l, s, 1), 0);
    t.parameters = st_tensor_clone(st_layer_parameters(l)),
    t.gradients = st_tensor_clone(st_layer_gradients(l));
    gather(st_layer_parameters, t.parameters);
    gather(st_layer_gradients, t.gradients);
    on_every_engine(tree, t, planned, seed);
    st_tensor_free(t.y), st_tensor_free(t.dy), st_tensor_free(t.dx);
    st_tensor_free(t.parameters), st_tensor_free(t.gradients);
    for (int i = 0; i < leaf_count; i++)
        st_layer_free(leaves[i].l), st_tensor_free(leaves[i].x), st_tensor_free(leaves[i].y);
}

TEST(a_net_is_its_layers_one_after_another)
{
    const char *fast = getenv("STRIDE_FAST");
    const bool in_double = sizeof(st_real) > sizeof(float), brief = fast && fast[0];
    const unsigned first = in_double && !brief ? 41 : 1, last = brief ? 10 : in_double ? 100 : 60;
    for (unsigned seed = first; seed <= last; seed++) a_net(seed);
}

SETUP(all_work_is_shared)
