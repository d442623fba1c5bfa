/* history.c: see history.h. */
#include "examples/stride/history.h"

#include <stdlib.h>

/* Room for powers of two: full where the count is one. */
static int grow(history *h)
{
    if (h->count & (h->count - 1)) return 0;
    size_t room = h->count > 0 ? 2 * (size_t)h->count : 1;
    st_train_report *grown = realloc(h->epochs, room * sizeof *grown);
    if (!grown) return st_error_set("history: no memory for epoch %d", h->count + 1);
    h->epochs = grown;
    return 0;
}

bool history_keep(const st_train_report *r, void *context)
{
    history *h = context;
    if (grow(h)) return false;
    h->epochs[h->count++] = *r;
    return true;
}

void history_free(history *h)
{
    free(h->epochs);
    *h = (history){ 0 };
}
