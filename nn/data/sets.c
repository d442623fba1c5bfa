/* sets.c: data sets made from others. */
#include "nn/data/sets.h"
#include "nn/data/data_impl.h"
#include "tensor/array.h"
#include "tensor/counts.h"
#include "tensor/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Apart from those of parameters, orders, dropout and augmentation. */
static const uint64_t DRAWS = UINT64_C(5) << 61;

enum { MOST_CLASSES = 1 << 20 };

static st_dataset *refuse_null(const char *who, const char *what)
{
    st_error_set("%s: the %s is NULL", who, what);
    return NULL;
}

/* ---- sets that wrap another one ------------------------------------------------------------------ */

static void begin(const st_dataset *d, uint64_t epoch)
{
    data_wrapper *w = d->own;
    w->epoch = epoch;
    st_dataset_begin_epoch(w->of, epoch);
}

void data_unwrap(st_dataset *d)
{
    data_wrapper *w = d->own;
    free(w->prepared);
    free(w);
}

static char *join(const char *steps, const char *step)
{
    size_t room = strlen(steps) + strlen(step) + 3;
    char *text = array_new("data: how samples are prepared", (ptrdiff_t)room, 1);
    if (text) snprintf(text, room, "%s%s%s", steps, steps[0] ? "; " : "", step);
    return text;
}

st_dataset *data_wrap(const st_dataset *of, st_dataset kind, const char *step)
{
    data_wrapper *w = kind.own;
    if (!kind.release) kind.release = data_unwrap;
    if (kind.grain == 0) kind.grain = of->grain;
    *w = (data_wrapper){ .of = of };
    if (step && !(w->prepared = join(of->prepared ? of->prepared : "", step))) {
        kind.release(&kind);
        return NULL;
    }
    if (kind.count == 0) kind.count = of->count;
    kind.x = of->x, kind.target = of->target;
    kind.begin = begin;
    kind.prepared = step ? w->prepared : of->prepared;
    return st_dataset_new(kind);
}

/* ---- a function of each sample ------------------------------------------------------------------- */

typedef struct mapped {
    data_wrapper base;
    st_sample_function *change;
    void *context;
} mapped;

static void get_mapped(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const mapped *own = d->own;
    own->base.of->get(own->base.of, i, x, y);
    own->change(own->context, i, x, y);
}

st_dataset *st_dataset_map(const st_dataset *of, st_sample_function *change, void *context)
{
    if (!of || !change) return refuse_null("st_dataset_map", of ? "function" : "data set");
    mapped *own = array_new("st_dataset_map", 1, sizeof *own);
    if (!own) return NULL;
    own->change = change, own->context = context;
    return data_wrap(of, (st_dataset){ .get = get_mapped, .own = own }, "map");
}

/* ---- one after the other ------------------------------------------------------------------------- */

typedef struct joined {
    int count;
    char *prepared; /* NULL: all sets are prepared as the first one */
    const st_dataset *set[];
} joined;

static void get_joined(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const st_dataset *const *set = ((const joined *)d->own)->set;
    for (; i >= (*set)->count; set++) i -= (*set)->count;
    (*set)->get(*set, i, x, y);
}

static void begin_joined(const st_dataset *d, uint64_t epoch)
{
    const joined *own = d->own;
    for (int i = 0; i < own->count; i++) st_dataset_begin_epoch(own->set[i], epoch);
}

static void free_joined(st_dataset *d)
{
    joined *own = d->own;
    free(own->prepared);
    free(own);
}

static const char *prepared_of(const st_dataset *d)
{
    return d->prepared ? d->prepared : "none";
}

/* "none | augment flip 0.5", where sets are prepared in different ways. -1 with an error. */
static int describe_joined(joined *own)
{
    size_t room = 1;
    bool alike = true;
    for (int i = 0; i < own->count; i++) {
        alike = alike && strcmp(prepared_of(own->set[i]), prepared_of(own->set[0])) == 0;
        room += strlen(prepared_of(own->set[i])) + 3;
    }
    if (alike) return 0;
    if (!(own->prepared = array_new("st_dataset_concat", (ptrdiff_t)room, 1))) return -1;
    for (int i = 0; i < own->count; i++)
        strcat(strcat(own->prepared, i ? " | " : ""), prepared_of(own->set[i]));
    return 0;
}

st_dataset *st_dataset_concat_of(int count, const st_dataset *const sets[])
{
    if (count < 1 || !sets || !sets[0]) return refuse_null("st_dataset_concat", "first data set");
    st_dataset kind = *sets[0];
    for (int i = 1; i < count; i++) {
        if (!sets[i]) return refuse_null("st_dataset_concat", "data set");
        if (!st_shape_equal(sets[i]->x, kind.x) || !st_shape_equal(sets[i]->target, kind.target)) {
            st_error_set("st_dataset_concat: samples %s and %s of set %d, %s and %s of the first",
                         st_shape_text(sets[i]->x).text, st_shape_text(sets[i]->target).text, i,
                         st_shape_text(kind.x).text, st_shape_text(kind.target).text);
            return NULL;
        }
        if (__builtin_add_overflow(kind.count, sets[i]->count, &kind.count)) {
            st_error_set("st_dataset_concat: too many samples");
            return NULL;
        }
        kind.grain = kind.grain > 0 && sets[i]->grain > 0 ? largest(kind.grain, sets[i]->grain) : 0;
    }
    joined *own = array_new("st_dataset_concat", 1, sizeof *own + (size_t)count * sizeof *own->set);
    if (!own) return NULL;
    own->count = count;
    for (int i = 0; i < count; i++) own->set[i] = sets[i];
    kind.get = get_joined, kind.begin = begin_joined, kind.release = free_joined, kind.own = own;
    if (describe_joined(own)) {
        free(own);
        return NULL;
    }
    if (own->prepared) kind.prepared = own->prepared;
    return st_dataset_new(kind);
}

/* ---- some of the samples ------------------------------------------------------------------------- */

typedef struct chosen {
    data_wrapper base;
    ptrdiff_t first;
    bool listed;
    ptrdiff_t index[]; /* of each sample if `listed`, otherwise they are first, first + 1, ... */
} chosen;

static ptrdiff_t index_in(const chosen *p, ptrdiff_t i)
{
    return p->listed ? p->index[i] : p->first + i;
}

static void get_chosen(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const chosen *own = d->own;
    own->base.of->get(own->base.of, index_in(own, i), x, y);
}

st_dataset *st_dataset_slice(const st_dataset *of, ptrdiff_t first, ptrdiff_t count)
{
    if (!of) return refuse_null("st_dataset_slice", "data set");
    if (first < 0 || count < 1 || first > of->count || count > of->count - first) {
        st_error_set("st_dataset_slice: %td samples from %td on, expected at least one of the set's %td",
                     count, first, of->count);
        return NULL;
    }
    chosen *own = array_new("st_dataset_slice", 1, sizeof *own);
    if (!own) return NULL;
    own->first = first;
    return data_wrap(of, (st_dataset){ .count = count, .get = get_chosen, .own = own }, NULL);
}

st_dataset *st_dataset_subset(const st_dataset *of, ptrdiff_t count, const ptrdiff_t index[])
{
    if (!of || !index) return refuse_null("st_dataset_subset", of ? "list of indices" : "data set");
    for (ptrdiff_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= of->count) {
            st_error_set("st_dataset_subset: index[%td] is %td, the set has %td samples", i, index[i],
                         of->count);
            return NULL;
        }
    if (count < 1) st_error_set("st_dataset_subset: %td samples, expected at least one", count);
    const ptrdiff_t head = sizeof(chosen) / sizeof *index; /* both are of pointers' size */
    chosen *own = count < 1 ? NULL : array_new("st_dataset_subset", head + count, sizeof *index);
    if (!own) return NULL;
    own->listed = true;
    memcpy(own->index, index, (size_t)count * sizeof *index);
    return data_wrap(of, (st_dataset){ .count = count, .get = get_chosen, .own = own }, "subset");
}

const st_dataset *st_dataset_origin(const st_dataset *d, ptrdiff_t *i)
{
    if (!d || !i) return refuse_null("st_dataset_origin", d ? "index" : "data set");
    if (d->get != get_chosen) return d;
    if (*i < 0 || *i >= d->count) {
        st_error_set("st_dataset_origin: sample %td, the set has %td samples", *i, d->count);
        return NULL;
    }
    const chosen *own = d->own;
    *i = index_in(own, *i);
    return own->base.of;
}

/* ---- a part of each class ------------------------------------------------------------------------ */

/* The class of each sample, all 0 if targets are not classes; returns their number, or 0 with an error. */
static ptrdiff_t read_classes(const st_dataset *of, ptrdiff_t class[])
{
    ptrdiff_t classes = 1;
    if (of->target.rank > 0) return classes;
    st_tensor x = st_tensor_new(st_shape_with_batch(of->x, 1)), y = st_tensor_new(ST_SHAPE(1));
    for (ptrdiff_t i = 0; i < of->count && !st_error(); i++) {
        if (st_dataset_batch(of, NULL, i, 1, x, y)) break;
        double target = (double)st_item(y);
        if (!(target >= 0 && target < MOST_CLASSES && target == floor(target)))
            st_error_set("st_dataset_split: sample %td has target %g, expected a class from 0 to %d", i,
                         printable(target), MOST_CLASSES - 1);
        else classes = largest(classes, 1 + (class[i] = (ptrdiff_t)target));
    }
    st_tensor_free(x);
    st_tensor_free(y);
    return st_error() ? 0 : classes;
}

/* Divides a random order: indices of the part from the front, the others from the back; returns the part's
 * number. Takes n * fraction samples of each class, rounded, at even distances. */
static ptrdiff_t divide(const ptrdiff_t order[], const ptrdiff_t class[], ptrdiff_t seen[], double fraction,
                        ptrdiff_t n, ptrdiff_t divided[])
{
    ptrdiff_t taken = 0, left = n;
    for (ptrdiff_t i = 0; i < n; i++) {
        double before = (double)seen[class[order[i]]]++;
        bool takes = floor((before + 1) * fraction + 0.5) > floor(before * fraction + 0.5);
        divided[takes ? taken++ : --left] = order[i];
    }
    return taken;
}

int st_dataset_split(const st_dataset *of, double fraction, uint64_t seed, st_dataset **part,
                     st_dataset **rest)
{
    if (!of || !part || !rest) return st_error_set("st_dataset_split: the %s is NULL", of ? "result" : "set");
    *part = *rest = NULL;
    if (!(fraction > 0 && fraction < 1))
        return st_error_set("st_dataset_split: fraction %g, expected more than 0 and less than 1",
                            printable(fraction));
    const ptrdiff_t n = of->count;
    ptrdiff_t *order = array_new("st_dataset_split", n, 3 * sizeof *order);
    if (!order) return -1;
    ptrdiff_t *class = order + n, *divided = class + n;
    ptrdiff_t classes = read_classes(of, class);
    ptrdiff_t *seen = classes > 0 ? array_new("st_dataset_split", classes, sizeof *seen) : NULL;
    if (seen) {
        st_random_permutation(order, n, (st_random_key){ seed, DRAWS });
        ptrdiff_t taken = divide(order, class, seen, fraction, n, divided);
        if (taken == 0 || taken == n)
            st_error_set("st_dataset_split: fraction %g of %td samples leaves a part empty", fraction, n);
        else *part = st_dataset_subset(of, taken, divided);
        if (*part && !(*rest = st_dataset_subset(of, n - taken, divided + taken))) {
            st_dataset_free(*part);
            *part = NULL;
        }
    }
    free(order), free(seen);
    return *rest ? 0 : -1;
}

/* ---- by weight ----------------------------------------------------------------------------------- */

typedef struct weighted {
    data_wrapper base;
    uint64_t seed;
    ptrdiff_t last; /* with a weight above 0 */
    double sum[];   /* of the weights up to each */
} weighted;

static void get_weighted(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const weighted *own = d->own;
    const st_random_key key = { own->seed, DRAWS + 1 + own->base.epoch };
    const double at = st_random_uniform(key, (uint64_t)i) * own->sum[own->last];
    ptrdiff_t low = 0, high = own->last; /* the first whose sum is above `at` */
    while (low < high) {
        ptrdiff_t middle = low + (high - low) / 2;
        if (own->sum[middle] > at) high = middle;
        else low = middle + 1;
    }
    own->base.of->get(own->base.of, low, x, y);
}

st_dataset *st_dataset_weighted(const st_dataset *of, ptrdiff_t count, const double weight[], uint64_t seed)
{
    if (!of || !weight) return refuse_null("st_dataset_weighted", of ? "list of weights" : "data set");
    if (count < 1) {
        st_error_set("st_dataset_weighted: %td samples, expected at least one", count);
        return NULL;
    }
    const ptrdiff_t head = sizeof(weighted) / sizeof(double);
    weighted *own = array_new("st_dataset_weighted", head + of->count, sizeof(double));
    if (!own) return NULL;
    own->seed = seed;
    double sum = 0;
    for (ptrdiff_t i = 0; i < of->count && !st_error(); i++) {
        if (!(weight[i] >= 0) || !isfinite(sum + weight[i]))
            st_error_set("st_dataset_weighted: weight[%td] is %g, expected at least 0 and a finite sum", i,
                         printable(weight[i]));
        if (weight[i] > 0) own->last = i;
        own->sum[i] = sum += weight[i];
    }
    if (sum == 0 && !st_error()) st_error_set("st_dataset_weighted: every weight is 0");
    if (st_error()) {
        free(own);
        return NULL;
    }
    return data_wrap(of, (st_dataset){ .count = count, .get = get_weighted, .own = own }, "weighted");
}
