/* test_random_nets.c: nets of random layers come to what their layers come to alone, one after another, by the
 * reference engine: y, dx and every gradient, on any engine and any number of threads, batches smaller than planned
 * included.
 *
 * All numbers are small integers, or halves of them, so that every sum is exact and results are compared for
 * equality: where a net runs in place, in another order, in chains or by another algorithm, nothing may differ.
 * STRIDE_FAST takes fewer nets, for processors that are emulated. */
#include "layers/layers.h"
#include "tensor/machine.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>

/* ---- a user's own layers: y = -x, and backward they see that x and y still are what they were ----------- */

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

/* ---- trees ------------------------------------------------------------------------------------------- */

enum { MOST_PARTS = 40 };

typedef enum kind {
    CONV,
    DENSE,
    MAXPOOL,
    AVGPOOL,
    RELU,
    RELU6,
    IDENTITY,
    DROPOUT, /* of nothing: which numbers it draws depends on its place */
    FLATTEN,
    OWN,
    LEAVES,
    SEQUENCE = LEAVES,
    RESIDUAL
} kind;

/* A layer, or what holds some; `alone` is a leaf run by itself, with what went through it. */
typedef struct node node;
struct node {
    kind kind;
    st_conv2d_options conv;
    st_maxpool_options pool;
    int number; /* out_features; which own type */
    int parts;
    node *part[MOST_PARTS];
    st_layer *alone;
    st_tensor x, y;
};

static node *node_new(kind k)
{
    node *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->kind = k;
    return n;
}

static void node_free(node *n)
{
    for (int i = 0; i < n->parts; i++) node_free(n->part[i]);
    st_layer_free(n->alone);
    st_tensor_free(n->x), st_tensor_free(n->y);
    free(n);
}

static st_layer *make(const node *n)
{
    st_layer *part[MOST_PARTS];
    for (int i = 0; i < n->parts; i++) part[i] = make(n->part[i]);
    switch (n->kind) {
    case CONV: return st_conv2d_new(n->conv);
    case DENSE: return st_dense(.out_features = n->number);
    case MAXPOOL: return st_maxpool_new(n->pool);
    case AVGPOOL: return st_avgpool(.kernel = { 2, 2 });
    case RELU: return st_relu();
    case RELU6: return st_relu6();
    case IDENTITY: return st_identity();
    case DROPOUT: return st_dropout(.p = 0);
    case FLATTEN: return st_flatten();
    case OWN: return st_layer_new(&own_types[n->number], NULL, 0, NULL);
    case RESIDUAL: return st_residual(part[0]);
    default: return st_sequence_of(n->parts, part);
    }
}

/* ---- growing them -------------------------------------------------------------------------------------- */

static void roll_convolution(dice *d, node *n, st_shape s, bool keep)
{
    int size = chance(d, 60) ? 3 : (int)roll(d, 0, 1) * 4 + 1;
    bool room = s.n[2] >= size && s.n[3] >= size;
    n->conv = (st_conv2d_options){ .out_channels = keep            ? (int)s.n[1]
                                                   : chance(d, 40) ? 16
                                                                   : (int)roll(d, 1, 12),
                                   .kernel = { size, size },
                                   .no_bias = chance(d, 30) };
    for (int axis = 0; axis < 2; axis++) {
        n->conv.padding[axis] = keep || !room ? size / 2 : (int)roll(d, 0, size / 2);
        n->conv.stride[axis] = keep || chance(d, 80) ? 1 : 2;
    }
}

static void roll_pool(dice *d, node *n)
{
    int size = (int)roll(d, 2, 3);
    n->pool = (st_maxpool_options){ .kernel = { size, size }, .ceil_mode = chance(d, 30) };
    if (chance(d, 40)) n->pool.stride[0] = n->pool.stride[1] = (int)roll(d, 1, 2);
    if (chance(d, 30)) n->pool.padding[0] = n->pool.padding[1] = 1;
}

/* A leaf for an input of shape s, its shape kept if it must be. */
static node *roll_leaf(dice *d, st_shape s, bool keep)
{
    kind k;
    bool image = s.rank == 4, large = image && s.n[2] >= 4 && s.n[3] >= 4;
    for (;;) {
        k = (kind)roll(d, 0, LEAVES - 1);
        if (k == CONV && !image) continue;
        if ((k == MAXPOOL || k == AVGPOOL) && (!large || keep)) continue;
        if (k == AVGPOOL && chance(d, 70)) continue; /* its quarters become ever smaller */
        if (k == DENSE && image) continue;
        if (k == FLATTEN && ((keep && image) || chance(d, 70))) continue;
        break;
    }
    node *n = node_new(k);
    if (k == CONV) roll_convolution(d, n, s, keep);
    if (k == MAXPOOL) roll_pool(d, n);
    if (k == DENSE) n->number = keep ? (int)s.n[1] : (int)roll(d, 1, 70);
    if (k == OWN) n->number = (int)roll(d, 0, 2);
    return n;
}

static st_shape shape_after(const node *n, st_shape s)
{
    st_shape y;
    auto_layer *l = make(n);
    assert_int_equal(st_layer_plan(l, s, &y), 0);
    return y;
}

/* A sequence of so many parts: leaves, sequences, residual blocks. */
static node *roll_sequence(dice *d, st_shape s, int parts, int deep, bool keep)
{
    node *n = node_new(SEQUENCE);
    while (n->parts < parts) {
        node *p;
        if (deep > 0 && chance(d, 15)) {
            p = roll_sequence(d, s, (int)roll(d, 1, 5), deep - 1, keep);
        } else if (deep > 0 && chance(d, 10)) {
            p = node_new(RESIDUAL);
            p->part[p->parts++] = roll_sequence(d, s, (int)roll(d, 1, 3), deep - 1, true);
        } else p = roll_leaf(d, s, keep);
        s = shape_after(p, s);
        n->part[n->parts++] = p;
    }
    return n;
}

/* ---- each layer alone ------------------------------------------------------------------------------------ */

/* Mostly 0, so that numbers stay small. */
static void roll_weights(dice *d, st_tensor w)
{
    for (ptrdiff_t k = 0; k < st_numel(w); k++) *element(w, k) = chance(d, 12) ? (st_real)roll(d, -1, 1) : 0;
}

static st_tensor forward_alone(node *n, st_tensor x, dice *d)
{
    st_tensor y = x;
    n->x = st_tensor_clone(x);
    for (int i = 0; i < n->parts; i++) y = forward_alone(n->part[i], y, d);
    if (n->parts > 0) {
        n->y = st_tensor_clone(y);
        if (n->kind == RESIDUAL) st_add(n->y, 1, n->x);
        return n->y;
    }
    n->alone = make(n);
    assert_int_equal(st_layer_build(n->alone, x.shape, 1), 0);
    roll_weights(d, st_layer_parameters(n->alone));
    st_layer_mode(n->alone, true, 1, 1);
    n->y = st_tensor_new(n->alone->y);
    st_layer_forward(n->alone, n->x, n->y);
    return n->y;
}

static st_tensor backward_alone(node *n, st_tensor dy)
{
    st_tensor dx = st_tensor_clone(dy);
    for (int i = n->parts - 1; i >= 0; i--) {
        st_tensor next = backward_alone(n->part[i], dx);
        st_tensor_free(dx);
        dx = next;
    }
    if (n->kind == RESIDUAL) st_add(dx, 1, dy);
    if (n->parts > 0) return dx;
    st_tensor_free(dx);
    dx = st_tensor_new(n->x.shape);
    st_layer_backward(n->alone, n->x, n->y, dy, dx);
    return dx;
}

/* The parameters or gradients of all leaves, concatenated. */
static ptrdiff_t gather(const node *n, st_tensor of(const st_layer *l), st_tensor to, ptrdiff_t at)
{
    for (int i = 0; i < n->parts; i++) at = gather(n->part[i], of, to, at);
    if (n->parts > 0) return at;
    st_tensor own = of(n->alone);
    st_copy(st_narrow(to, 0, at, st_numel(own)), own);
    return at + st_numel(own);
}

/* ---- and together ------------------------------------------------------------------------------------------ */

typedef struct truth {
    st_tensor x, dy, y, dx, parameters, gradients;
} truth;

static void compare(const node *tree, truth t, st_shape planned)
{
    auto_layer *l = make(tree);
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

static void on_every_engine(const node *tree, truth t, st_shape planned, unsigned seed)
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
    node *tree = roll_sequence(&d, s, (int)(chance(&d, 10) ? roll(&d, 17, 36) : roll(&d, 1, 9)), 2, false);
    auto_tensor whole;
    st_tensor x = roll_view(&d, s, &whole);
    roll_elements(&d, x, -2, 2);
    use_engine("reference");
    about("seed %u, each layer alone", seed);
    truth t = { .x = x, .y = forward_alone(tree, x, &d) };
    t.dy = roll_tensor(&d, t.y.shape, -1, 1);
    t.dx = backward_alone(tree, t.dy);
    st_layer *l = make(tree);
    assert_int_equal(st_layer_build(l, s, 1), 0);
    t.parameters = st_tensor_clone(st_layer_parameters(l));
    t.gradients = st_tensor_clone(st_layer_gradients(l));
    st_layer_free(l);
    assert_int_equal(gather(tree, st_layer_parameters, t.parameters, 0), st_numel(t.parameters));
    gather(tree, st_layer_gradients, t.gradients, 0);
    on_every_engine(tree, t, planned, seed);
    st_tensor_free(t.dy), st_tensor_free(t.dx), st_tensor_free(t.parameters), st_tensor_free(t.gradients);
    node_free(tree);
}

TEST(a_net_is_its_layers_one_after_another)
{
    const char *fast = getenv("STRIDE_FAST");
    for (unsigned seed = 1, last = fast && fast[0] ? 10 : 100; seed <= last; seed++) a_net(seed);
}

SETUP(all_work_is_shared)
