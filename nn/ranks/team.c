/* team.c: see team.h. */
#include "nn/ranks/team.h"

#include <string.h>

ptrdiff_t team_first(const team *t, ptrdiff_t n, int rank)
{
    return n * rank / t->ranks;
}

int team_agree(const team *t)
{
    if (!t || t->ranks == 1) return error_text() ? -1 : 0;
    int first = error_text() ? t->rank : t->ranks;
    char text[ERROR_SIZE] = "";
    if (t->all_min(t, &first)) return -1;
    if (first == t->ranks) return 0;
    if (first == t->rank) {
        error_within("rank %d: ", first);
        memcpy(text, error_text(), strlen(error_text()) + 1);
    }
    if (t->broadcast(t, first, ERROR_SIZE, 1, text)) return -1;
    error_clear();
    return error_set("%s", text);
}
