/* nearest.c: edit distance: letters inserted, deleted, replaced, or two neighbours exchanged (Damerau
 * 1964). */
#include "examples/stride/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 32 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* row[i][j]: the distance of the first i letters of a and the first j of b. */
static int distance(const char *a, size_t n, const char *b, size_t m)
{
    int row[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                row[i][j] = (int)(i + j);
                continue;
            }
            row[i][j] =
                least(row[i - 1][j - 1] + (a[i - 1] != b[j - 1]), 1 + least(row[i - 1][j], row[i][j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[i][j] = least(row[i][j], 1 + row[i - 2][j - 2]);
        }
    return row[n][m];
}

/* Candidates differ in at most a third of the letters, or begin with the word. */
void nearest_try(nearest *n, const char *name)
{
    size_t length = strlen(name);
    if (n->length < 2 || n->length > LONGEST || length > LONGEST) return;
    bool begins = n->length > 2 && strncmp(name, n->word, n->length) == 0;
    int d = begins ? 1 : distance(n->word, n->length, name, length);
    if (d > least(3, (int)(length + 2) / 3) || (n->name && d >= n->distance)) return;
    n->name = name;
    n->distance = d;
}

nearest_string nearest_text(const nearest *n)
{
    nearest_string s = { "" };
    if (n->name) snprintf(s.text, sizeof s.text, "; did you mean %s?", n->name);
    return s;
}
