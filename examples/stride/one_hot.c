/* one_hot.c: see one_hot.h. */
#include "examples/stride/one_hot.h"

#include <math.h>

int one_hot(double number, st_tensor y)
{
    const ptrdiff_t classes = y.shape.n[0];
    if (!(number >= 0 && number < (double)classes && number == floor(number)))
        return st_error_set("class %g, expected an integer from 0 to %td", number, classes - 1);
    for (ptrdiff_t k = 0; k < classes; k++) *st_at(y, ST_INDEX(k)) = (double)k == number;
    return 0;
}

static void begin(const st_dataset *d, uint64_t epoch)
{
    st_dataset_begin_epoch(d->own, epoch);
}

static void get(const st_dataset *d, ptrdiff_t i, st_tensor x, st_tensor y)
{
    const st_dataset *of = d->own;
    st_tensor first = st_select(y, 0, 0); /* receives the class */
    of->get(of, i, x, first);
    one_hot((double)*st_at(first, (st_shape){ 0 }), y);
}

st_dataset *one_hot_set(const st_dataset *of, ptrdiff_t classes)
{
    st_dataset kind = *of;
    kind.target = ST_SHAPE(classes);
    kind.get = get, kind.begin = begin, kind.release = NULL;
    kind.own = (void *)of;
    return st_dataset_new(kind);
}
