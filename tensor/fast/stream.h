/* stream.h: stores that go past the caches.
 *
 * Before an ordinary store writes a line of memory that is not in cache, the processor reads that line, and
 * keeps it in place of another. A tensor that would not stay in cache until it is read is written in two
 * thirds of the time by stores that do neither. */
#ifndef STRIDE_TENSOR_FAST_STREAM_H
#define STRIDE_TENSOR_FAST_STREAM_H

#include "tensor/tensor.h"

#include <stdbool.h>
#include <stddef.h>

/* Tests if this instruction set has such stores. */
bool stream_has(int isa);

/* Runs `row` over n adjacent elements of `views` views, of which it writes the first; no other view lies
 * there. It gets pieces of at most STREAM_PIECE elements, which are then copied: longer ones would hold up
 * reading. at[views] and what follows are NULL for the row. */
enum { STREAM_PIECE = 1024 / sizeof(st_real) };
void stream_row(ptrdiff_t n, int views, st_real *const at[], st_row_function *row, void *context);

/* Makes the elements visible to other threads. It waits for memory, so an item of parallel work should write
 * at least STREAM_ITEM elements before it. */
void stream_end(void);
enum { STREAM_ITEM = 1 << 16 };

#endif
