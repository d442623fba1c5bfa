/* team.c: see team.h. */
#include "nn/ranks/team.h"

#include <string.h>

ptrdiff_t st_comm_first(const st_comm *t, ptrdiff_t n, int rank)
{
    if (!t || t->ranks < 1) return 0;
    return n / t->ranks * rank + n % t->ranks * rank / t->ranks; /* n rank / ranks, without overflow */
}

int st_comm_agree(const st_comm *t)
{
    if (!t || t->ranks <= 1) return st_error() ? -1 : 0;
    int first = st_error() ? t->rank : t->ranks;
    char text[ST_ERROR_SIZE] = "";
    if (t->all_min(t, &first)) return -1;
    if (first == t->ranks) return 0;
    if (first == t->rank) {
        st_error_within("rank %d: ", first);
        memcpy(text, st_error(), strlen(st_error()) + 1);
    }
    if (t->broadcast(t, first, ST_ERROR_SIZE, 1, text)) return -1;
    st_error_clear();
    return st_error_set("%s", text);
}
