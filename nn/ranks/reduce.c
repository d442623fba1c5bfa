/* reduce.c: see reduce.h. */
#include "nn/ranks/reduce.h"
#include "tensor/counts.h"
#include "tensor/parallel.h"

static bool is_exchanged(const reduction *r)
{
    return r->m->team && !r->unordered;
}

static ptrdiff_t part_of(const reduction *r, const net *n, ptrdiff_t *first)
{
    const team *t = r->m->team;
    ptrdiff_t count = tensor_count(net_gradients(n));
    *first = team_first(t, count, t->rank);
    return team_first(t, count, t->rank + 1) - *first;
}

int reduction_begin(reduction *r, const net *n, const micro *m, bool unordered)
{
    *r = (reduction){ .m = m, .unordered = unordered };
    if (!is_exchanged(r)) return 0;
    ptrdiff_t first;
    r->theirs = tensor_new(SHAPE(m->here, part_of(r, n, &first) * m->team->ranks));
    return tensor_is_null(r->theirs) ? -1 : 0;
}

void reduction_end(reduction *r)
{
    tensor_free(r->theirs);
    *r = (reduction){ 0 };
}

/* Of the k-th micro-batch at hand. */
static tensor at_hand(const net *n, int k)
{
    tensor all = layer_cut_gradients(n->root);
    return tensor_is_null(all) ? net_gradients(n) : tensor_select(all, 0, k);
}

void reduction_zero(const reduction *r, net *n)
{
    if (r->m->here == 1) net_zero_gradients(n);
    for (int k = 0; k < r->m->here && r->m->here > 1; k++) tensor_fill(at_hand(n, k), 0);
}

/* ---- in order ------------------------------------------------------------------------------------------ */

enum { PIECE = 1 << 14 }; /* parameters that are worth a thread */

typedef struct addition {
    const reduction *r;
    const net *n;
    tensor to;
    int count;
    tensor (*from)(const struct addition *a, int s); /* of micro-batch s, of to's shape */
} addition;

static void add_piece(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const addition *a = context;
    ptrdiff_t first = i * PIECE, count = smallest(PIECE, tensor_count(a->to) - first);
    tensor to = tensor_narrow(a->to, 0, first, count);
    tensor_copy(to, tensor_narrow(a->from(a, 0), 0, first, count));
    for (int s = 1; s < a->count; s++) tensor_add(to, 1, tensor_narrow(a->from(a, s), 0, first, count));
}

static void add_up(addition a)
{
    parallel_for(parallel_threads(), parts(tensor_count(a.to), PIECE), add_piece, &a);
}

static tensor of_mine(const addition *a, int s)
{
    return at_hand(a->n, s);
}

/* Each rank has as many micro-batches, one after another. */
static tensor of_all(const addition *a, int s)
{
    ptrdiff_t own = tensor_count(a->to);
    return tensor_narrow(tensor_select(a->r->theirs, 0, s % a->r->m->here), 0, s / a->r->m->here * own, own);
}

static int sum_exchanged(const reduction *r, net *n)
{
    const team *t = r->m->team;
    tensor all = net_gradients(n);
    ptrdiff_t count = tensor_count(all), first, own = part_of(r, n, &first);
    for (int k = 0; k < r->m->here; k++)
        if (t->exchange(t, count, sizeof(real), tensor_data(at_hand(n, k)),
                        tensor_data(tensor_select(r->theirs, 0, k))))
            return -1;
    add_up((addition){ r, n, tensor_narrow(all, 0, first, own), r->m->count, of_all });
    return t->gather(t, count, sizeof(real), tensor_data(all));
}

int reduction_sum(const reduction *r, net *n)
{
    const team *t = r->m->team;
    tensor all = net_gradients(n);
    if (is_exchanged(r)) return sum_exchanged(r, n);
    if (r->m->here > 1) add_up((addition){ r, n, all, r->m->here, of_mine });
    return t ? t->sum(t, tensor_count(all), tensor_data(all)) : 0;
}
