/* reduce.c: see reduce.h. */
#include "nn/ranks/reduce.h"
#include "tensor/counts.h"
#include "tensor/parallel.h"

static bool is_ordered(const reduction *r)
{
    return r->team && !r->unordered;
}

static ptrdiff_t part_of(const reduction *r, ptrdiff_t count, ptrdiff_t *first)
{
    const team *t = r->team;
    *first = is_ordered(r) ? team_first(t, count, t->rank) : 0;
    return is_ordered(r) ? team_first(t, count, t->rank + 1) - *first : count;
}

int reduction_begin(reduction *r, const net *n, const team *t, int here, bool unordered)
{
    *r = (reduction){ .team = t, .unordered = unordered };
    if (!is_ordered(r) && here == 1) return 0; /* net_gradients are the sum */
    ptrdiff_t first, own = part_of(r, tensor_count(net_gradients(n)), &first);
    r->sum = tensor_new(SHAPE(own));
    if (is_ordered(r)) r->theirs = tensor_new(SHAPE(t->ranks, own));
    return tensor_is_null(r->sum) || (is_ordered(r) && tensor_is_null(r->theirs)) ? -1 : 0;
}

void reduction_end(reduction *r)
{
    tensor_free(r->sum);
    tensor_free(r->theirs);
    *r = (reduction){ 0 };
}

/* ---- adding ---------------------------------------------------------------------------------------------- */

enum { PIECE = 1 << 14 }; /* parameters that are worth a thread */

typedef struct addition {
    tensor to, from; /* [parameters] */
    bool first;      /* overwrite `to` */
} addition;

static void add_piece(ptrdiff_t i, int thread, void *context)
{
    (void)thread;
    const addition *a = context;
    ptrdiff_t first = i * PIECE, count = smallest(PIECE, tensor_count(a->to) - first);
    tensor to = tensor_narrow(a->to, 0, first, count), from = tensor_narrow(a->from, 0, first, count);
    if (a->first) tensor_copy(to, from);
    else tensor_add(to, 1, from);
}

static void add(const reduction *r, tensor from, bool first)
{
    parallel_for(parallel_threads(), parts(tensor_count(r->sum), PIECE), add_piece,
                 &(addition){ r->sum, from, first });
}

int reduction_add(reduction *r, const net *n)
{
    tensor all = net_gradients(n);
    bool first = r->added++ == 0;
    if (tensor_is_null(r->sum)) return 0;
    if (!is_ordered(r)) return add(r, all, first), 0;
    if (r->team->exchange(r->team, tensor_count(all), sizeof(real), tensor_data(all), tensor_data(r->theirs)))
        return -1;
    for (int q = 0; q < r->team->ranks; q++) add(r, tensor_select(r->theirs, 0, q), first && q == 0);
    return 0;
}

int reduction_finish(reduction *r, const net *n)
{
    const team *t = r->team;
    tensor all = net_gradients(n);
    ptrdiff_t count = tensor_count(all), first, own = part_of(r, count, &first);
    r->added = 0;
    if (!tensor_is_null(r->sum)) tensor_copy(tensor_narrow(all, 0, first, own), r->sum);
    if (is_ordered(r)) return t->gather(t, count, sizeof(real), tensor_data(all));
    return t ? t->sum(t, count, tensor_data(all)) : 0;
}
