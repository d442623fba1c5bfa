/* sequence.c: layers one after another, as one layer. Each child's output is kept for the backward pass.
 *
 * plan determines once in which order the children run (a relu before a max pooling runs after it: the
 * results are the same, and there are fewer elements), where their outputs are (layers that run in place have
 * none of their own), and which of them form fused runs. */
#include "layers/layer_impl.h"
#include "layers/types.h"
#include "tensor/counts.h"

/* One child, in the order in which they run. */
typedef struct step {
    int number;    /* of the child */
    int run;       /* length of the fused run that begins here; 0: it began earlier */
    bool in_place; /* its output overwrites its input */
} step;

/* The plan's data: a link for each child, whose x and y forward and backward fill in, and a step for each.
 * Scratch holds two ping-pong buffers: dx of a fused run, which is dy of the run before it. */
static layer_link *links(const st_layer *l)
{
    return l->plan;
}

static step *steps(const st_layer *l)
{
    return (step *)(void *)(links(l) + l->children);
}

static const layer_traits *traits(const st_layer *l)
{
    static const layer_traits none;
    return l->type->traits ? l->type->traits : &none;
}

/* Tests if child i runs after the next one. */
static bool swaps(const st_layer *l, int i)
{
    if (i < 0 || i + 1 >= l->children || !traits(l->child[i])->monotone) return false;
    const st_layer *next = l->child[i + 1];
    return traits(next)->takes_maxima && traits(next)->takes_maxima(next);
}

static int plan_steps(st_layer *l, st_shape x, st_shape *y)
{
    const int last = l->children - 1;
    step *s = steps(l);
    for (int i = 0; i <= last; i++) {
        int number = swaps(l, i) ? i + 1 : swaps(l, i - 1) ? i - 1 : i;
        st_layer *child = l->child[number];
        if (st_plan_child(l, number, x, y)) return -1;
        links(l)[i].l = child;
        s[i].number = number;
        s[i].in_place = i > 0 && traits(child)->in_place && traits(links(l)[i - 1].l)->ignores_y;
        if (number < i) child->impl->shown = links(l)[i - 1].l->x; /* it was written before that layer */
        x = *y;
    }
    for (int i = 0; i <= last; i++) /* overwritten outputs, and the sequence's own y, need no memory */
        if (i == last || s[i + 1].in_place) links(l)[i].l->impl->output = (st_tensor){ 0 };
    return 0;
}

static int plan_runs(st_layer *l)
{
    step *s = steps(l);
    ptrdiff_t largest_dx = 0;
    int runs = 0;
    for (int first = 0; first < l->children; first += s[first].run, runs++) {
        s[first].run = layer_plan_fused(l, links(l) + first, l->children - first);
        if (first > 0) largest_dx = largest(largest_dx, st_shape_numel(links(l)[first].l->x, "sequence"));
    }
    for (int buffer = 0; buffer < 2; buffer++)
        if (st_layer_scratch(l, ST_SHAPE(runs > buffer + 1 ? largest_dx : 0))) return -1;
    return 0;
}

static int plan(st_layer *l, st_shape x, st_shape *y)
{
    if (l->children == 0) return st_layer_refuse(l, "holds no layers");
    if (!st_layer_plan_data(l, (size_t)l->children * (sizeof(step) + sizeof(layer_link)))) return -1;
    return plan_steps(l, x, y) || plan_runs(l) ? -1 : 0;
}

/* x and y of every layer for this batch. */
static layer_link *link_up(const st_call *c, st_tensor x, st_tensor y)
{
    const step *s = steps(c->layer);
    layer_link *link = links(c->layer);
    int last = c->layer->children - 1;
    for (int i = 0, at = 0; i <= last; i++) {
        st_shape planned = link[i].l->y;
        planned.n[0] = c->images;
        while (at < i || (at < last && s[at + 1].in_place))
            at++; /* the layer whose output is also this one's */
        st_tensor out = st_reshape(at == last ? y : st_child_output(c, s[at].number), planned);
        link[i] = (layer_link){ link[i].l, i > 0 ? link[i - 1].y : x, out };
    }
    return link;
}

static void forward(const st_call *c, st_tensor x, st_tensor y)
{
    const step *s = steps(c->layer);
    const layer_link *link = link_up(c, x, y);
    for (int i = 0; i < c->layer->children; i += s[i].run) layer_forward_fused(link + i, s[i].run);
}

/* If dx is not needed, layers before the first one that trains do not run backward. */
static void backward(const st_call *c, st_tensor x, st_tensor y, st_tensor dy, st_tensor dx)
{
    const step *s = steps(c->layer);
    const layer_link *link = link_up(c, x, y);
    int end = c->layer->children, last = 0, buffer = 0;
    while (st_is_null(dx) && last < end && !layer_trains(link[last].l)) last++;
    while (end > last) {
        int first = end - 1;
        while (first > last && s[first].run == 0) first--;
        st_tensor to = dx, in = link[first].x;
        if (first > last) to = st_reshape(st_narrow(st_scratch(c, buffer), 0, 0, st_numel(in)), in.shape);
        layer_backward_fused(link + first, end - first, dy, to);
        dy = to;
        end = first;
        buffer = !buffer;
    }
}

const st_layer_type layer_type_sequence = {
    .name = "sequence",
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .children = ST_LAYER_ANY,
};

st_layer *st_sequence_of(int count, st_layer *const layers[])
{
    return st_layer_new(&layer_type_sequence, NULL, count, layers);
}
