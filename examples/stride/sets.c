/* sets.c: see sets.h. */
#include "examples/stride/sets.h"

#include <math.h>

static void begin(const st_dataset *d, uint64_t pass)
{
    st_dataset_begin_epoch(d->own, pass);
}

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const st_dataset *of = d->own;
    const ptrdiff_t classes = d->target.n[0];
    st_tensor first = st_select(y, 0, 0); /* receives the class */
    of->get(of, i, x, first);
    double class = (double)*st_at(first, (st_shape){ 0 });
    if (!(class >= 0 && class < (double)classes && class == floor(class)))
        st_error_set("class %g, expected an integer from 0 to %td", class, classes - 1);
    for (ptrdiff_t k = 0; k < classes; k++) *st_at(y, ST_INDEX(k)) = (double)k == class;
}

st_dataset *set_one_hot(const st_dataset *of, ptrdiff_t classes)
{
    st_dataset kind = *of;
    kind.target = ST_SHAPE(classes);
    kind.get = get, kind.begin = begin, kind.release = NULL;
    kind.own = (void *)of;
    return st_dataset_new(kind);
}
