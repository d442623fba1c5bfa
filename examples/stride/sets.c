/* sets.c: see sets.h. */
#include "examples/stride/sets.h"

#include "tensor/random.h"

#include <math.h>
#include <stdlib.h>

typedef struct part {
    const st_dataset *of;
    ptrdiff_t first, order[];
} part;

static void get_part(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const part *p = d->own;
    p->of->get(p->of, p->order[p->first + i], x, y);
}

static void begin_part(const st_dataset *d, uint64_t pass)
{
    st_dataset_begin_epoch(((const part *)d->own)->of, pass);
}

static void release(st_dataset *d)
{
    free(d->own);
}

st_dataset *set_part(const st_dataset *of, uint64_t seed, ptrdiff_t first, ptrdiff_t count)
{
    part *p = malloc(sizeof *p + (size_t)of->count * sizeof *p->order);
    if (!p) {
        st_error_set("no memory for the order of %td samples", of->count);
        return NULL;
    }
    p->of = of;
    p->first = first;
    st_random_permutation(p->order, of->count, (st_random_key){ seed, 0 });
    st_dataset kind = *of;
    kind.count = count;
    kind.get = get_part;
    kind.begin = begin_part;
    kind.release = release;
    kind.own = p;
    return st_dataset_new(kind);
}

typedef struct hot {
    const st_dataset *of;
} hot;

static void get_one_hot(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const st_dataset *of = ((const hot *)d->own)->of;
    ptrdiff_t classes = d->target.n[0];
    st_tensor first = st_select(y, 0, 0); /* holds the class for a moment */
    of->get(of, i, x, first);
    double class = (double)*st_at(first, (st_shape){ 0 });
    if (!(class >= 0 && class < (double)classes && class == floor(class)))
        st_error_set("class %g, expected one from 0 to %td", class, classes - 1);
    for (ptrdiff_t k = 0; k < classes; k++) *st_at(y, ST_INDEX(k)) = (double)k == class;
}

static void begin_one_hot(const st_dataset *d, uint64_t pass)
{
    st_dataset_begin_epoch(((const hot *)d->own)->of, pass);
}

st_dataset *set_one_hot(const st_dataset *of, ptrdiff_t classes)
{
    hot *h = malloc(sizeof *h);
    if (!h) {
        st_error_set("no memory");
        return NULL;
    }
    h->of = of;
    st_dataset kind = *of;
    kind.target = ST_SHAPE(classes);
    kind.get = get_one_hot;
    kind.begin = begin_one_hot;
    kind.release = release;
    kind.own = h;
    return st_dataset_new(kind);
}

typedef struct relabelled {
    const st_dataset *of;
    ptrdiff_t class[];
} relabelled;

static void get_relabelled(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const relabelled *r = d->own;
    r->of->get(r->of, i, x, y);
    st_real *class = st_at(y, (st_shape){ 0 });
    *class = (st_real)r->class[(ptrdiff_t) * class];
}

static void begin_relabelled(const st_dataset *d, uint64_t pass)
{
    st_dataset_begin_epoch(((const relabelled *)d->own)->of, pass);
}

st_dataset *set_relabelled(const st_dataset *of, ptrdiff_t classes, const ptrdiff_t *class)
{
    relabelled *r = malloc(sizeof *r + (size_t)classes * sizeof *r->class);
    if (!r) {
        st_error_set("no memory for %td classes", classes);
        return NULL;
    }
    r->of = of;
    for (ptrdiff_t k = 0; k < classes; k++) r->class[k] = class[k];
    st_dataset kind = *of;
    kind.get = get_relabelled;
    kind.begin = begin_relabelled;
    kind.release = release;
    kind.own = r;
    return st_dataset_new(kind);
}

const st_dataset *set_origin(const st_dataset *d, ptrdiff_t *i)
{
    if (d->get == get_relabelled) return set_origin(((const relabelled *)d->own)->of, i);
    if (d->get != get_part) return d;
    const part *p = d->own;
    *i = p->order[p->first + *i];
    return set_origin(p->of, i);
}
