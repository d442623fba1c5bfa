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
