/* rows_picks.h: elements of a row that are picked by shuffles, for each instruction set. */
#ifndef STRIDE_LAYERS_FAST_ROWS_PICKS_H
#define STRIDE_LAYERS_FAST_ROWS_PICKS_H

#include "layers/fast/functions.h"
#include "layers/fast/rows.h"

#define PICK(M)                                                                                              \
    /* The lanes of a pick from each of n rows, `pitch` apart. */                                            \
    M##_TARGET INLINE void M##_pick(const pick *p, M##_mask where, const st_real *row, ptrdiff_t pitch,      \
                                    int n, M##_vector *v)                                                    \
    {                                                                                                        \
        enum { LANES = ISA_LANES(M) };                                                                       \
        const int *from = p->from, parts = p->parts;                                                         \
        EACH(q, n) v[q] = AT(M, row + q * pitch + from[0]);                                                  \
        if (parts == 0) return;                                                                              \
        if (!M##_SHUFFLES) {                                                                                 \
            EACH(q, n)                                                                                       \
            {                                                                                                \
                M##_vector u = { 0 };                                                                        \
                EACH(l, LANES)                                                                               \
                u[l] = row[q * pitch + from[where[l] / LANES] + (ptrdiff_t)(where[l] % LANES)];              \
                v[q] = u;                                                                                    \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        if (parts == 1) EACH(q, n) v[q] = SHUFFLE_BY(M, v[q], v[q], where);                                  \
        if (parts == 1) return;                                                                              \
        EACH(q, n)                                                                                           \
        {                                                                                                    \
            const M##_vector next = AT(M, row + q * pitch + from[1]);                                        \
            v[q] = SHUFFLE_BY(M, v[q], next, where);                                                         \
        }                                                                                                    \
        for (int i = 2; i < parts; i += 2) {                                                                 \
            const M##_mask far = where >= i * LANES;                                                         \
            EACH(q, n)                                                                                       \
            {                                                                                                \
                const st_real *at = row + q * pitch;                                                         \
                M##_vector u = AT(M, at + from[i]), next = AT(M, at + from[i + 1]);                          \
                u = SHUFFLE_BY(M, u, next, where);                                                           \
                v[q] = ISA_PICK(M, far, u, v[q]);                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
EACH_ISA(PICK)

#endif
