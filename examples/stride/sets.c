/* sets.c: data sets made from another one. */
#include "examples/stride/sets.h"

#include "nn/data/sets.h"

#include <math.h>
#include <stdlib.h>

typedef struct wrapped {
    const st_dataset *of;
    ptrdiff_t number[]; /* relabelled: the new class of each */
} wrapped;

static void begin(const st_dataset *d, uint64_t pass)
{
    st_dataset_begin_epoch(((const wrapped *)d->own)->of, pass);
}

static void release(st_dataset *d)
{
    free(d->own);
}

static wrapped *wrap(const st_dataset *of, ptrdiff_t numbers)
{
    wrapped *w = malloc(sizeof *w + (size_t)numbers * sizeof *w->number);
    if (w) w->of = of;
    else st_error_set("no memory for a data set");
    return w;
}

static st_dataset *make(wrapped *w, st_shape target,
                        void (*get)(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y))
{
    st_dataset kind = *w->of;
    kind.target = target;
    kind.get = get;
    kind.begin = begin;
    kind.release = release;
    kind.own = w;
    return st_dataset_new(kind);
}

static void get_one_hot(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const wrapped *w = d->own;
    const ptrdiff_t classes = d->target.n[0];
    st_tensor first = st_select(y, 0, 0); /* receives the class */
    w->of->get(w->of, i, x, first);
    double class = (double)*st_at(first, (st_shape){ 0 });
    if (!(class >= 0 && class < (double)classes && class == floor(class)))
        st_error_set("class %g, expected an integer from 0 to %td", class, classes - 1);
    for (ptrdiff_t k = 0; k < classes; k++) *st_at(y, ST_INDEX(k)) = (double)k == class;
}

st_dataset *set_one_hot(const st_dataset *of, ptrdiff_t classes)
{
    wrapped *w = wrap(of, 0);
    return w ? make(w, ST_SHAPE(classes), get_one_hot) : NULL;
}

static void get_relabelled(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const wrapped *w = d->own;
    w->of->get(w->of, i, x, y);
    st_real *class = st_at(y, (st_shape){ 0 });
    *class = (st_real)w->number[(ptrdiff_t) * class];
}

st_dataset *set_relabelled(const st_dataset *of, ptrdiff_t classes, const ptrdiff_t *class)
{
    wrapped *w = wrap(of, classes);
    if (!w) return NULL;
    for (ptrdiff_t k = 0; k < classes; k++) w->number[k] = class[k];
    return make(w, of->target, get_relabelled);
}

const st_dataset *set_origin(const st_dataset *d, ptrdiff_t *i)
{
    const st_dataset *of = d->get == get_relabelled ? ((const wrapped *)d->own)->of : st_dataset_origin(d, i);
    return of == d || !of ? of : set_origin(of, i);
}
