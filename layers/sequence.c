/* sequence.c: a chain of layers is a layer; each child's output is kept for the backward pass.
 *
 * A relu before a max pooling runs after it: the results are the same, and it has fewer elements to go through. */
#include "layers/layers.h"
#include "layers/run.h"
#include "layers/types.h"

/* Scratch: dx of a chain of children, which is dy of the chain before it, in turns. */

/* Whether child i runs after the next one, which runs in its place. */
static bool swaps(const layer *l, int i)
{
    if (i < 0 || i + 1 >= l->children) return false;
    const layer *first = l->child[i], *next = l->child[i + 1];
    return first->type->rises && next->type->selects && next->type->selects(next);
}

/* The number of the child that runs as the i-th. */
static int in_turn(const layer *l, int i)
{
    return swaps(l, i) ? i + 1 : swaps(l, i - 1) ? i - 1 : i;
}

static layer *nth(const layer *l, int i)
{
    return l->child[in_turn(l, i)];
}

/* Whether the i-th puts its output where its input is, the output of the one before it. */
static bool in_place(const layer *l, int i)
{
    if (i == 0 || i == l->children) return false;
    return nth(l, i)->type->in_place && nth(l, i - 1)->type->ignores_y;
}

static int plan_children(layer *l, shape x, shape *y)
{
    for (int i = 0; i < l->children; i++) {
        if (layer_plan(nth(l, i), x, y)) return error_within("layer %d: ", in_turn(l, i));
        l->flops += nth(l, i)->flops;
        x = *y;
    }
    for (int i = 0; i + 1 < l->children; i++)
        if (!in_place(l, i + 1)) nth(l, i)->output = (tensor){ .shape = nth(l, i)->y };
    return 0;
}

/* The chain that begins with the one that runs as `first`: how many layers, and which. */
static int chain_from(const layer *l, int first, layer *chain[LAYER_CHAIN])
{
    int count = l->children - first < LAYER_CHAIN ? l->children - first : LAYER_CHAIN;
    for (int i = 0; i < count; i++) chain[i] = nth(l, first + i);
    return layer_chain(chain, count);
}

static int links(const layer *l, int first)
{
    layer *chain[LAYER_CHAIN];
    return chain_from(l, first, chain);
}

static int plan(layer *l, shape x, shape *y)
{
    if (l->children == 0) return layer_refuse(l, "holds no layers");
    if (plan_children(l, x, y)) return -1;
    ptrdiff_t largest = 0;
    int chains = 0;
    for (int i = 0, count; i < l->children; i += count, chains++) {
        layer *chain[LAYER_CHAIN];
        count = chain_from(l, i, chain);
        if (layer_ask_chain(l, chain, count)) return -1;
        ptrdiff_t elements = i > 0 ? shape_count(chain[0]->x, "sequence") : 0;
        if (elements > largest) largest = elements;
    }
    for (int turn = 0; turn < 2; turn++)
        if (layer_scratch(l, SHAPE(chains > turn + 1 ? largest : 0))) return -1;
    return 0;
}

/* The first images, as many as y has, of what the i-th puts out; the last one's goes to y. */
static tensor output(const layer *l, int i, tensor y)
{
    shape s = nth(l, i)->y;
    while (in_place(l, i + 1)) i++;
    s.n[0] = y.shape.n[0];
    return tensor_reshape(i + 1 == l->children ? y : tensor_narrow(nth(l, i)->output, 0, 0, s.n[0]), s);
}

static void link_up(const layer *l, int first, int count, tensor x, tensor y, layer_link link[])
{
    for (int i = first; i < first + count; i++)
        link[i - first] = (layer_link){ nth(l, i), i > 0 ? output(l, i - 1, y) : x, output(l, i, y) };
}

static void forward(layer *l, tensor x, tensor y)
{
    for (int i = 0, count; i < l->children; i += count) {
        layer_link link[LAYER_CHAIN];
        link_up(l, i, count = links(l, i), x, y, link);
        layer_forward_chain(link, count);
    }
}

static bool trains(const layer *l)
{
    bool any = l->params > 0;
    for (int i = 0; i < l->children && !any; i++) any = trains(l->child[i]);
    return any;
}

/* Where the chain begins that ends before the one that runs as `end`. */
static int chain_before(const layer *l, int end)
{
    int first = 0;
    while (first + links(l, first) < end) first += links(l, first);
    return first;
}

/* Where nobody wants dx, nobody needs what lies below the first layer that trains. */
static void backward(layer *l, tensor x, tensor y, tensor dy, tensor dx)
{
    int last = 0, turn = 0;
    while (tensor_is_null(dx) && last < l->children && !trains(nth(l, last))) last++;
    for (int end = l->children, first; end > last; end = first, turn = !turn) {
        layer_link link[LAYER_CHAIN];
        first = chain_before(l, end);
        if (first < last) first = last;
        link_up(l, first, end - first, x, y, link);
        tensor in = link[0].x, din = dx;
        if (first > last)
            din = tensor_reshape(tensor_narrow(l->scratch[turn], 0, 0, tensor_count(in)), in.shape);
        layer_backward_chain(link, end - first, dy, din);
        dy = din;
    }
}

const layer_type layer_type_sequence = {
    .name = "sequence",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .children = LAYER_ANY,
};

layer *layer_sequence_of(int count, layer *const layers[])
{
    return layer_new(&layer_type_sequence, NULL, count, layers);
}
