/* sets.c: see sets.h. */
#include "examples/stride/sets.h"

#include "tensor/random.h"

#include <math.h>
#include <stdlib.h>

typedef struct part {
    const data *of;
    ptrdiff_t first, order[];
} part;

static void get_part(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    const part *p = d->own;
    p->of->get(p->of, p->order[p->first + i], x, y);
}

static void begin_part(const data *d, uint64_t pass)
{
    data_begin(((const part *)d->own)->of, pass);
}

static void release(data *d)
{
    free(d->own);
}

data *set_part(const data *of, uint64_t seed, ptrdiff_t first, ptrdiff_t count)
{
    part *p = malloc(sizeof *p + (size_t)of->count * sizeof *p->order);
    if (!p) {
        error_set("no memory for the order of %td samples", of->count);
        return NULL;
    }
    p->of = of;
    p->first = first;
    random_permutation(p->order, of->count, (random_key){ seed, 0 });
    data kind = *of;
    kind.count = count;
    kind.get = get_part;
    kind.begin = begin_part;
    kind.release = release;
    kind.own = p;
    return data_new(kind);
}

typedef struct hot {
    const data *of;
} hot;

static void get_one_hot(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    const data *of = ((const hot *)d->own)->of;
    ptrdiff_t classes = d->y.n[0];
    tensor first = tensor_select(y, 0, 0); /* holds the class for a moment */
    of->get(of, i, x, first);
    double class = (double)*tensor_at(first, (shape){ 0 });
    if (!(class >= 0 && class < (double)classes && class == floor(class)))
        error_set("class %g, expected one from 0 to %td", class, classes - 1);
    for (ptrdiff_t k = 0; k < classes; k++) *tensor_at(y, INDEX(k)) = (double)k == class;
}

static void begin_one_hot(const data *d, uint64_t pass)
{
    data_begin(((const hot *)d->own)->of, pass);
}

data *set_one_hot(const data *of, ptrdiff_t classes)
{
    hot *h = malloc(sizeof *h);
    if (!h) {
        error_set("no memory");
        return NULL;
    }
    h->of = of;
    data kind = *of;
    kind.y = SHAPE(classes);
    kind.get = get_one_hot;
    kind.begin = begin_one_hot;
    kind.release = release;
    kind.own = h;
    return data_new(kind);
}

typedef struct relabelled {
    const data *of;
    ptrdiff_t class[];
} relabelled;

static void get_relabelled(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    const relabelled *r = d->own;
    r->of->get(r->of, i, x, y);
    real *class = tensor_at(y, (shape){ 0 });
    *class = (real)r->class[(ptrdiff_t) * class];
}

static void begin_relabelled(const data *d, uint64_t pass)
{
    data_begin(((const relabelled *)d->own)->of, pass);
}

data *set_relabelled(const data *of, ptrdiff_t classes, const ptrdiff_t *class)
{
    relabelled *r = malloc(sizeof *r + (size_t)classes * sizeof *r->class);
    if (!r) {
        error_set("no memory for %td classes", classes);
        return NULL;
    }
    r->of = of;
    for (ptrdiff_t k = 0; k < classes; k++) r->class[k] = class[k];
    data kind = *of;
    kind.get = get_relabelled;
    kind.begin = begin_relabelled;
    kind.release = release;
    kind.own = r;
    return data_new(kind);
}

const data *set_origin(const data *d, ptrdiff_t *i)
{
    if (d->get == get_relabelled) return set_origin(((const relabelled *)d->own)->of, i);
    if (d->get != get_part) return d;
    const part *p = d->own;
    *i = p->order[p->first + *i];
    return set_origin(p->of, i);
}

typedef struct columns {
    const data *of;
    tensor row, y; /* of `of` */
    ptrdiff_t count, column[];
} columns;

static void get_columns(const data *d, ptrdiff_t i, tensor x, tensor y)
{
    const columns *c = d->own;
    tensor flat = tensor_reshape(x, SHAPE(c->count));
    c->of->get(c->of, i, c->row, c->y);
    if (shape_equal(y.shape, c->y.shape)) tensor_copy(y, c->y);
    for (ptrdiff_t k = 0; k < c->count; k++)
        *tensor_at(flat, INDEX(k)) = *tensor_at(c->row, INDEX(c->column[k]));
}

static void release_columns(data *d)
{
    columns *c = d->own;
    tensor_free(c->row);
    tensor_free(c->y);
    free(c);
}

data *set_columns(const data *of, shape x, const ptrdiff_t *column)
{
    ptrdiff_t count = shape_count(x, "columns");
    columns *c = malloc(sizeof *c + (size_t)count * sizeof *c->column);
    if (!c) {
        error_set("no memory for %td columns", count);
        return NULL;
    }
    *c = (columns){ of, tensor_new(of->x), tensor_new(of->y), count };
    for (ptrdiff_t k = 0; k < count; k++) c->column[k] = column[k];
    data kind = *of;
    kind.x = x;
    kind.get = get_columns;
    kind.begin = NULL;
    kind.release = release_columns;
    kind.own = c;
    kind.grain = 0; /* one row for all samples: one thread */
    return data_new(kind);
}
